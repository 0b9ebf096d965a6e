/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One SSD behind one target in simulated time: clients on a network of 6 us one way, a scheduler,
 * and the SSD model. Deterministic: the same scenario and seed give the same result, bit for bit.
 */
#ifndef SNIC_BENCH_GIMBAL_SIM_H
#define SNIC_BENCH_GIMBAL_SIM_H

#include "gimbal_peers/sched.h"
#include "snicstore/ssd.h"

#define SIM_GROUPS 3
#define SIM_NETWORK_NS 6000u
#define SIM_SAMPLES 1600

/* Workers alike: each is a tenant with so many I/Os outstanding at most. */
struct sim_group {
    uint32_t workers; /* 0: no such group */
    uint32_t op;      /* enum snic_gimbal_op */
    uint32_t size;
    uint32_t depth;
    uint64_t rate;   /* bytes/s a worker issues at most, 0: no limit */
    uint32_t weight; /* 0: 1 */
    uint32_t sequential;
    uint32_t random_gaps; /* with rate: arrivals at random (Poisson), not evenly spaced */
    uint32_t priority;    /* of each of its I/Os */
    /* Worker i runs from start + i * start_step until stop + i * stop_step; stop 0: the end. */
    uint64_t start_ns;
    uint64_t start_step_ns;
    uint64_t stop_ns;
    uint64_t stop_step_ns;
    /* Of each worker, as a tenant of the switch. */
    uint64_t cap_bytes;
    uint64_t floor_bytes;
    uint64_t floor_ios;
    uint32_t in_group; /* 1..gimbal.groups_max, 0: none */
    uint32_t zero;
};

/*
 * The model's two presets; then the first with other parameters of the dies, which meet the facts
 * nearly as well (a prototype's fits): a scheduler whose rows hold on one of them only owes them
 * to it.
 */
/* SIM_FAST is no device on sale: 14 GB/s, 20 us. */
enum sim_device { SIM_DCT983, SIM_P3600, SIM_FIT_A, SIM_FIT_B, SIM_FIT_C, SIM_FAST };

/* What to simulate; without holes, as it is compared bytewise. */
struct sim_spec {
    const struct sched_ops *ops;
    struct snic_gimbal_opts gimbal;
    uint32_t device;    /* enum sim_device */
    uint32_t condition; /* enum snic_ssd_condition */
    uint32_t parda_sized;
    uint32_t flashfq_depth;
    double parda_latency_ns;
    struct sim_group group[SIM_GROUPS];
    uint64_t warm_ns;   /* not measured */
    uint64_t time_ns;   /* measured */
    uint64_t sample_ns; /* 0: no samples */
    uint64_t sample_from_ns;
    uint64_t stall_ns; /* when the device completes nothing for stall_for_ns; 0: never */
    uint64_t stall_for_ns;
    /* With SNIC_GIMBAL_LEARN: the profile stored of the device; opts_size 0: none. */
    struct snic_gimbal_profile profile;
    /* When an AGEING device, filled in order, is overwritten at random until it is steady; 0: no.
     * Before: overwritten age_before / 100 times. */
    uint64_t age_ns;
    uint32_t age_before;
    uint32_t age_after;
    uint64_t slow_ns; /* from when on each I/O takes slow_times as long on the device; 0: never */
    uint64_t slow_times;
    uint64_t seed;
};

struct sim_group_result {
    double mbps;    /* all its workers, 10^6 bytes/s */
    double jain;    /* of the workers' bandwidths over weight */
    double mean_us; /* end to end, from the client's sending */
    double p95_us;
    double p99_us;
    double p999_us;
    double iops;
};

struct sim_sample {
    float mbps[SIM_GROUPS]; /* of the group */
    float device_us[2];     /* by op, mean; 0: none completed */
    float ewma_us[2];       /* gimbal's view, 0 without */
    float thresh_us[2];
    float write_cost;
    float limits_us[2]; /* thresh_min, thresh_max */
};

struct sim_result {
    struct sim_group_result group[SIM_GROUPS];
    double mbps;
    double floor_part; /* of the floors, that held at the end: gimbal's view */
    double floor_iops; /* sent before their turn */
    double overloaded; /* times a second that gimbal entered the state */
    double congested;
    struct snic_gimbal_learned learned; /* at the end */
    uint32_t samples;
};

/* Run it; @p samples has SIM_SAMPLES entries, or is NULL without sample_ns. */
void sim_run(const struct sim_spec *spec, struct sim_result *out, struct sim_sample *samples);

#endif
