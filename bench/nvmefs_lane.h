/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file bench/nvmefs_lane.h
 * A way for requests from a host to a DPU and back over one dma link: nvme-fs, or what it is
 * measured beside. The DPU answers at once; data is moved and otherwise unused.
 */
#ifndef BENCH_NVMEFS_LANE_H
#define BENCH_NVMEFS_LANE_H

#include "snicstore/nvmefslink.h"

struct lane_case {
    uint32_t bytes;
    uint32_t in_flight;
    uint32_t queues;
    int write; /* else read */
};

/** The driver's side of a host. */
struct lane_user {
    struct lane_case k;
    void (*done)(struct lane_user *u, uint32_t i);
};

struct lane {
    const char *name;
    void *(*host_open)(struct snic_dma *d, struct lane_user *u);
    /** Start request @p i < in_flight. */
    void (*submit)(void *host, uint32_t i);
    /** Nothing is in flight: begin the end; close when it is over. */
    void (*host_end)(void *host);
    int (*host_over)(void *host);
    void (*host_close)(void *host);
    void *(*dpu_open)(struct snic_dma *d, const struct lane_case *k, int unmapped);
    /** 1: the host has gone and nothing is under way. */
    int (*dpu_over)(void *dpu);
    void (*dpu_close)(void *dpu);
};

extern const struct lane lane_nvmefs;
extern const struct lane lane_virtio;
extern const struct lane lane_virtio_serial;

#endif /* BENCH_NVMEFS_LANE_H */
