# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(nvmefslink nvmefslink)
snic_test(nvmefslink_uring nvmefslink URING LABELS threads)
