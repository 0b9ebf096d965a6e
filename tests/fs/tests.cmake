# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(fs fs)
snic_test(fs_uring fs URING LABELS threads)
