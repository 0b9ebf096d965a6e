/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A target on node 1 of a world, with one namespace on a disk in memory, and hosts on nodes 2 to 5.
 * With several loops they are nodes 1, 6 and 7; the namespace is on the last one, and host i
 * connects to loop i + 1, so that host 0 has its connections on one, its controller on another and
 * its namespace on a third loop.
 * The target is checked after every event of the world that a host waits for.
 */
#ifndef SNIC_TESTS_NVMET_UTIL_H
#define SNIC_TESTS_NVMET_UTIL_H

#include "snicstore/nvmet.h"
#include "snicstore/qos.h"
#include "support.h"
#include "support/nvmehost.h"

#define TX_SUBNQN "nqn.2026-11.example:one"
#define TX_MS UINT64_C(1000000)
enum {
    TX_HOSTS = 4,
    TX_LOOPS = 3,
    TX_BYTES = 8 << 20,
    TX_BLOCK = 4096,
    TX_BLOCKS = TX_BYTES / TX_BLOCK
};

struct tx {
    /* set between tx_opts() and tx_open() */
    struct snic_nvmet_opts o;
    struct snic_disk_opts d;
    struct snic_nvmet_subsystem_opts s;
    struct snic_nvmet_ns_opts n;
    uint32_t idle;     /* the target listens nowhere, and has no subsystem */
    uint32_t stubborn; /* the device cancels nothing */
    uint32_t qos;      /* a switch is in front of it */
    uint32_t plain;    /* memory without guards: for many short runs */
    uint32_t loops;    /* of the target */
    uint32_t ns_loop;  /* of the namespace */
    /* made by tx_open() */
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop[TX_LOOPS];
    struct snic_net *net[TX_LOOPS];
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_nvmet *t; /* the first loop's, as all[0] */
    struct snic_nvmet *all[TX_LOOPS];
    void *mem[TX_LOOPS];
    void *qos_mem;
    struct nh h[TX_HOSTS];
    struct snic_loop *hloop[TX_HOSTS];
};

void tx_opts(struct tx *x);
/** Setups of a test: with a switch in front of the device from now on, and without. */
int tx_with_switch(void **state);
int tx_without_switch(void **state);
/** And with TX_LOOPS loops, or with both. */
int tx_with_loops(void **state);
int tx_with_both(void **state);
/** The address of loop @p i. */
struct snic_net_addr tx_addr(uint32_t i);
void tx_open(struct tx *x);
/** With idle tx_open() leaves it out. */
void tx_open_subsystem(struct tx *x);
void tx_close(struct tx *x);
/** The target alone, before. */
void tx_close_target(struct tx *x);
/** An admin queue and I/O queue 1 of host @p i; both must be connected. */
void tx_host(struct tx *x, int i, struct nh_queue *admin, struct nh_queue *io);
/** Run the world for so long. */
void tx_run(struct tx *x, uint64_t ns);
/** Bytes that depend on the seed. */
void tx_fill(void *p, size_t size, uint64_t seed);
struct snic_nvmet_stats tx_stats(const struct tx *x);

#endif /* SNIC_TESTS_NVMET_UTIL_H */
