/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A server in a process and on a processor of its own, and the CPU time that it takes. */
#ifndef SNIC_BENCH_NVMETCP_METER_H
#define SNIC_BENCH_NVMETCP_METER_H

#include "nvmetcp_net.h"

#include <sys/types.h>
#include <time.h>

struct meter {
    pid_t pid;
    uint16_t port;
    clockid_t clock;
    char group[256]; /* its cgroup; empty: none could be made */
};

/* The first of this process's processors is the server's, the last the client's. */
void meter_begin(void);
void meter_start(struct meter *m, const struct net_who *who, const struct net_case *c);
void meter_stop(struct meter *m);
/* CPU time of the server so far, seconds. Exact while it sleeps. */
double meter_cpu(const struct meter *m);
/* What its processor did so far, for any process, interrupts included, seconds. */
double meter_core(void);
double meter_clock(clockid_t clock);

#endif
