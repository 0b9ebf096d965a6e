/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The offload engine's inside: shared by cache.c, pool.c and engine.c.
 */
#ifndef SNIC_OFFLOAD_PRIV_H
#define SNIC_OFFLOAD_PRIV_H

#include "snicstore/offload.h"
#include "snicstore/cuckoo.h"
#include "base/runs.h"

#include <stdatomic.h>

/* Room for reply()'s header in front of a read, and for its trailer behind. */
#define SNIC_OFFLOAD__ROOM SNIC_OFFLOAD_HEADER_MAX
/* Smallest block of the pool. */
#define SNIC_OFFLOAD__BLOCK_MIN 256
/* Coarsest alignment at which a buffer includes header and trailer itself. */
#define SNIC_OFFLOAD__NEAR 512
/* An item in the table: 12 bytes of ours, then the user's. */
#define SNIC_OFFLOAD__WORD 12

/* Buffers: bookkeeping lies apart, the pool is I/O memory. */
struct offload_pool {
    unsigned char *mem;
    uint64_t bytes; /* of mem: the blocks, and all contexts' text */
    struct base_runs runs;
    uint32_t block; /* bytes */
    uint32_t blocks;
    uint32_t room; /* in front of a read */
    int apart;     /* headers and trailers lie behind the blocks */
};

enum offload_state {
    OFFLOAD_FREE = 0,
    OFFLOAD_READING,  /* at least one part is being read */
    OFFLOAD_FINISHED, /* judged, waits for its turn */
    OFFLOAD_DELIVERED /* with the receiver, until release */
};

/* One read. A message with several parts is a chain; its first context is the job. */
struct offload_context {
    struct snic_offload_job job; /* first: users see this */
    struct snic_files_req req;
    struct snic_offload_read op;
    struct snic_node wait; /* the stream's, the strict or the ready queue */
    struct offload_context *head;
    struct offload_context *part; /* the next part */
    struct snic_offload *o;
    struct snic_offload_stream *stream;
    snic_offload_done_fn done;
    void *ctx;
    unsigned char *buf;
    uint64_t bytes; /* of buf */
    uint64_t held;  /* bytes of the pool that are counted for its tenant */
    unsigned char *message;
    uint64_t user;
    uint32_t flags;
    uint32_t lead;    /* bytes read in front of what was asked for */
    uint32_t reading; /* head: parts still being read */
    uint8_t parts;    /* head */
    uint8_t direct;   /* head: answered by func() without a read */
    uint8_t state;
};

/* What one tenant holds: I4. */
struct offload_tenant {
    uint32_t contexts;
    uint32_t reserved;
    uint64_t bytes;
};

struct snic_offload {
    struct snic_offload_opts opts;
    struct snic_offload_user user;
    struct snic_loop *loop;
    struct snic_files *files;
    struct snic_cuckoo *table;
    uint64_t *floors;      /* of hash partitions of the keys */
    uint64_t floors_count; /* power of two */
    _Atomic uint32_t generation;
    struct offload_pool pool;
    struct offload_context *contexts;
    struct offload_tenant *tenants; /* NULL: no limit */
    struct snic_queue idle;         /* contexts, LIFO through job.node */
    struct snic_queue strict;       /* SNIC_OFFLOAD_STRICT: in submission order */
    struct snic_queue ready;        /* finished without a read: delivered from the loop */
    struct snic_loop_msg later;
    struct snic_offload_stats stats;
    int region;
    uint32_t active;
    uint8_t later_queued;
    uint8_t in_user; /* a user's function is running */
};

/* pool.c */
int offload_pool_layout(struct offload_pool *p, struct snic_arena *a,
                        const struct snic_offload_opts *o);
void offload_pool_start(struct offload_pool *p);
uint64_t offload_pool_round(const struct offload_pool *p, uint64_t bytes);
unsigned char *offload_pool_take(struct offload_pool *p, uint64_t bytes);
void offload_pool_give(struct offload_pool *p, unsigned char *mem);
uint64_t offload_pool_free(const struct offload_pool *p);
unsigned char *offload_pool_text(const struct offload_pool *p, uint32_t number);

/* cache.c */
int offload_cache_layout(struct snic_offload *o, struct snic_arena *a,
                         const struct snic_offload_opts *opts, int place);
int offload_cache_check(const struct snic_offload *o);

#endif /* SNIC_OFFLOAD_PRIV_H */
