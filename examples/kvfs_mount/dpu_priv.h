/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's process: what dpu.c (the store, its sessions, attach and detach of hosts) and the links
 * to a host (dpu_ring.c, dpu_nvmefs.c) share.
 *
 * Invariants
 *   KD1 A host's link exists from attach to reap; d->dma is its handle then, and otherwise NULL.
 *   KD2 No request is submitted to the file system unless d->mounted; none for the cache's pages
 *       after its link was reaped.
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
    /* A host attaches: d->dma. Unless d->mounted its requests wait. 0; SNIC_E*: dma is closed */
    int (*attach)(struct kd *d);
    /* It has detached: its requests in flight end, then its link and dma. Runs the loop */
    void (*reap)(struct kd *d);
    /* d->mounted has become 1: submit the requests that waited */
    void (*go)(struct kd *d);
    /* Send d->alone to the host. SNIC_EAGAIN: later */
    int (*send_state)(struct kd *d);
    size_t (*metrics)(const struct kd *d, struct ex_metric *out); /* may be NULL */
};

extern const struct kd_link dpu_ring;
extern const struct kd_link dpu_nvmefs;

/* The link of the host's hybrid cache. */
struct kd_cache {
    struct snic_dma *dma;
    struct snic_hcachelink_dpu *half; /* NULL: there is none */
    void *memory;
    int gone; /* the host has detached */
    struct km_cache_state state;
    struct km_cache_state before; /* of earlier ones */
};

struct kd {
    const struct km_config *config;
    struct snic_loop *loop;
    struct kvfs_store store;
    struct snic_dma_listener *listener;
    struct snic_dma *dma;
    uint32_t pid; /* the host's */
    struct kd_cache cache;
    const struct kd_link *link;
    void *end; /* the link's own */
    struct snic_timer timer;
    uint32_t alone;
    int gone;    /* the host has detached */
    int mounted; /* else the next host's requests wait */
    int ending;
    int state_due;
    uint64_t state_ns;
    int dead; /* the session is, and that is logged */
};

/* Until when the host may cache what it is sent now. The host may be stopped while this process
   lets another mount in: so there is a limit also where nothing else would set one. */
#define KD_VALID_NS 5000000000u
static inline uint64_t kd_valid_ns(const struct kd *d)
{
    uint64_t until =
        d->store.fs == NULL ? 0 : snic_kvfs_valid_until_ns(snic_fs_engine(d->store.fs));

    return until == SNIC_NEVER && !d->config->exclusive ? snic_loop_clock(d->loop) + KD_VALID_NS
                                                        : until;
}

/* ---- dpu_cache.c ---- */

/* 0: the link is the cache's; SNIC_E*: the host is refused */
int dpu_cache_attach(struct kd *d, struct snic_dma *dma);
void dpu_cache_send_state(struct kd *d);
/* Not inside an event: release the one that has ended. */
void dpu_cache_look(struct kd *d);
/* The host has detached: write the pages that it left. Runs the loop */
void dpu_cache_reap(struct kd *d);
size_t dpu_cache_metrics(struct kd *d, struct ex_metric *out);

#endif /* KVFS_MOUNT_DPU_PRIV_H */
