/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef SNIC_BENCH_NET_DGRAM_H
#define SNIC_BENCH_NET_DGRAM_H

/* The rows of datagrams; @seconds of each case in each of five repeats. */
void net_dgram_rows(double seconds);

#endif
