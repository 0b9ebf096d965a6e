/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/kvfs_mount/wire.h
 * Messages between kvfs_mount's two processes: over channel.h, and beside nvme-fs. Both are
 * this program, on one machine: structs travel as they are.
 */
#ifndef KVFS_MOUNT_WIRE_H
#define KVFS_MOUNT_WIRE_H

#include "snicstore.h"

enum {
    KM_WIRE_KIND = 0x6b766675, /* of the channel; another one whenever these structs change */
    KM_WIRE_CALL = 1,          /* up: struct km_up; down: struct km_down */
    KM_WIRE_CANCEL = 2,        /* up: number alone */
    KM_WIRE_STATE = 3,         /* down: alone has changed, or a second has passed */
    KM_WIRE_RING = 32 << 20
};

/* ---- Over channel.h ---- */

/* Payload: the request as nvmefs_ops.h encodes it, then its data. CANCEL has the number alone. */
struct km_up {
    uint64_t number;
    uint32_t head_bytes; /* of the encoded request */
    uint32_t data_bytes;
    uint32_t room; /* for data in the answer */
    uint32_t reserved;
};

/* Payload: data. */
struct km_down {
    uint64_t number;
    int64_t result;
    uint64_t handle;
    uint64_t valid_ns; /* as snic_kvfs_valid_until_ns(): both processes have one clock */
    uint32_t alone;
    uint32_t reserved;
    union {
        struct snic_fsop_attr attr;
        struct snic_fsop_lock lock;
        struct snic_fsop_statfs statfs;
    } u;
};

SNIC_STATIC_ASSERT(sizeof(struct km_up) <= SNIC_CHANNEL_HEADER_MAX, "a header");
SNIC_STATIC_ASSERT(sizeof(struct km_down) <= SNIC_CHANNEL_HEADER_MAX, "a header");

/* ---- Beside nvme-fs, whose queues carry the calls ---- */

enum {
    KM_NVMEFS_DEPTH = 256,  /* of queue 0 */
    KM_NVMEFS_LOCKS = 1024, /* of the others: for locks that wait, as many as there may be */
    KM_NVMEFS_QUEUES = 5,
    KM_NVMEFS_CHUNK = 64 << 10
};

/* A message of dma.h, down: as KM_WIRE_STATE, and what that side has counted for this host. */
struct km_state {
    uint32_t kind; /* KM_WIRE_KIND */
    uint32_t alone;
    uint64_t valid_ns;  /* as in struct km_down */
    uint64_t dma_reads; /* operations of the door */
    uint64_t dma_writes;
    uint64_t looks; /* for commands */
    uint64_t bells; /* the host's, rung */
};

SNIC_STATIC_ASSERT(sizeof(struct km_state) <= SNIC_DMA_MSG_MAX, "a message");

/* ---- Beside the hybrid cache, which has a link of its own ---- */

/* A message of dma.h, down, every second: what that side has counted for this region. */
struct km_cache_state {
    uint32_t kind; /* KM_WIRE_KIND */
    uint32_t reserved;
    uint64_t dma_ops; /* of the door */
    uint64_t flushes; /* pages */
    uint64_t flush_failures;
    uint64_t lag_ns; /* the longest from seen dirty to flushed */
    uint64_t prefetched;
};

SNIC_STATIC_ASSERT(sizeof(struct km_cache_state) <= SNIC_DMA_MSG_MAX, "a message");

#endif /* KVFS_MOUNT_WIRE_H */
