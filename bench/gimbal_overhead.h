/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Table 1's experiment: what the switch itself costs, over a device that does nothing. */
#ifndef SNIC_BENCH_GIMBAL_OVERHEAD_H
#define SNIC_BENCH_GIMBAL_OVERHEAD_H

/* Print the rows; takes a few seconds of real time. */
void gimbal_overhead_rows(void);

#endif
