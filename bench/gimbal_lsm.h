/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The application of Gimbal's section 4.3 in simulated time: log-structured stores, each a tenant
 * of every backend, a backend being a switch (or one of its peers) in front of an aged SSD model.
 */
#ifndef SNIC_BENCH_GIMBAL_LSM_H
#define SNIC_BENCH_GIMBAL_LSM_H

#include "gimbal_peers/sched.h"

#define LSM_BACKENDS_MAX 12 /* three boxes with four SSDs each */
#define LSM_INSTANCES_MAX 24

/* How clients use what the target reports to them. */
#define LSM_CREDITS (1u << 0) /* they hold back what exceeds their credit, or PARDA's window */
#define LSM_TAGS (1u << 1)    /* point reads before the log before flushes before compaction */
#define LSM_BALANCE (1u << 2) /* reads and new blobs go where there is most credit left */
#define LSM_LATEST (1u << 3)  /* the switch counts credit as printed: SNIC_GIMBAL_CREDIT_LATEST */

struct lsm_spec {
    const struct sched_ops *ops;
    uint32_t flags;      /* LSM_* */
    uint32_t instances;  /* 1..LSM_INSTANCES_MAX */
    uint32_t backends;   /* 2..LSM_BACKENDS_MAX */
    char workload;       /* YCSB's A to F */
    uint32_t ageing;     /* devices of SNIC_SSD_AGEING, filled, not fragmented ones */
    uint32_t age_before; /* and overwritten by so many percent */
    uint64_t warm_ns;    /* not measured */
    uint64_t time_ns;    /* measured */
    uint64_t seed;
};

struct lsm_result {
    double kops;    /* 10^3 operations/s of all instances */
    double mean_us; /* of reads, as the store's user sees them */
    double p99_us;
    double p999_us;
    double read_mbps; /* at the devices, all of them */
    double write_mbps;
    double fairness; /* Jain's index of the instances' operations */
};

void lsm_run(const struct lsm_spec *spec, struct lsm_result *out);
/* Figures 10 to 13 as rows. */
void gimbal_lsm_rows(uint32_t seeds);
/* Of figure 10's setting, the goals, over so many seeds from @p first on. */
void gimbal_lsm_goals(uint32_t first, uint32_t seeds);
/* Beside FIFO on devices of several ages. */
void gimbal_lsm_ageing(uint32_t first);

#endif
