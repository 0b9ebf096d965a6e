# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(loop loop URING TIMEOUT 600 LABELS threads)
snic_test(loop_wake loop URING TIMEOUT 600 LABELS threads)
snic_test(loop_uring loop URING)
snic_test(loop_sim loop)
snic_test(loop_watch loop URING)
