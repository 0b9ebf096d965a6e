/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hosts of a target in simulated time: initiators (nvmehost.h) on nodes of their own, a network,
 * the target, a switch, the SSD model. Each host keeps its depth of requests outstanding.
 */
#ifndef SNIC_TESTS_NVMET_SHARE_UTIL_H
#define SNIC_TESTS_NVMET_SHARE_UTIL_H

#include "snicstore/nvmehost.h"
#include "snicstore/nvmet.h"
#include "snicstore/qos.h"
#include "support.h"

enum { SX_HOSTS = 8, SX_DEPTH = 128 };
#define SX_MS UINT64_C(1000000)

struct sx;
struct sx_host;

struct sx_req {
    struct snic_io_req req;
    struct sx_host *h;
};

struct sx_host {
    /* set before sx_open() */
    uint32_t kind; /* for the test */
    uint32_t size;
    uint32_t depth; /* 0: sends nothing */
    uint32_t write; /* of 100 requests */
    struct snic_gimbal_tenant_opts tenant;
    /* measured */
    uint64_t ios;
    uint64_t bytes;
    struct snic_hist latency;
    /* the rest is the simulation's */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_nvmehost *h;
    struct snic_io *io;
    void *mem;
    unsigned char *data;
    struct snic_rng rng;
    struct sx *x;
    struct sx_req req[SX_DEPTH];
};

struct sx {
    uint32_t hosts;
    uint32_t fifo; /* no switch */
    uint32_t condition;
    struct snic_net_link link;
    struct snic_gimbal_tenant_opts group; /* of all, if `grouped` */
    uint32_t grouped;
    struct sx_host host[SX_HOSTS];
    /* the simulation's */
    int stopped;
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    void *qos_mem;
    struct snic_nvmet *t;
    void *mem;
};

void sx_opts(struct sx *x);
void sx_open(struct sx *x);
/** Run for so long. */
void sx_run(struct sx *x, uint64_t ns);
/** Count from here. */
void sx_reset(struct sx *x);
void sx_close(struct sx *x);

#endif /* SNIC_TESTS_NVMET_SHARE_UTIL_H */
