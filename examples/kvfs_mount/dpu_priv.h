/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's process: what dpu.c (the store, its sessions, hosts that come and go) and the links to
 * a host (dpu_ring.c, dpu_nvmefs.c) share.
 *
 * Invariants
 *   KD1 A host's link is there from attach to reap; d->dma is its handle then, and NULL else.
 *   KD2 Nothing is asked of the file system unless d->mounted.
 */
#ifndef KVFS_MOUNT_DPU_PRIV_H
#define KVFS_MOUNT_DPU_PRIV_H

#include "mount.h"

#include "../common.h"
#include "wire.h"

struct kd;

struct kd_link {
    size_t end_bytes; /* of d->end, zeroed */
    int (*open)(struct kd *d);
    void (*close)(struct kd *d);
    /* A host has come: d->dma. Unless d->mounted its requests wait. 0; SNIC_E*: dma is closed */
    int (*attach)(struct kd *d);
    /* It has gone: what it has under way ends, then its link and dma. Runs the loop */
    void (*reap)(struct kd *d);
    /* d->mounted has become 1: what waited goes on */
    void (*go)(struct kd *d);
    /* Tell the host what d->alone is. SNIC_EAGAIN: later */
    int (*tell)(struct kd *d);
    size_t (*metrics)(const struct kd *d, struct ex_metric *out); /* may be NULL */
};

extern const struct kd_link dpu_ring;
extern const struct kd_link dpu_nvmefs;

struct kd {
    const struct km_config *config;
    struct snic_loop *loop;
    struct kvfs_store store;
    struct snic_dma_listener *listener;
    struct snic_dma *dma;
    const struct kd_link *link;
    void *end; /* the link's own */
    struct snic_timer timer;
    uint32_t alone;
    int gone;    /* the host */
    int mounted; /* else the next host's requests wait */
    int ending;
    int tell_alone;
    uint64_t told_ns;
    int dead; /* it has been said that the session is */
};

#endif /* KVFS_MOUNT_DPU_PRIV_H */
