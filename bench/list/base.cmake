# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(base base PEERS libisal)
