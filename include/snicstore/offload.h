/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/offload.h
 * The offload engine: executes client reads on the DPU alone (DDS section 6),
 * and the versioned cache that tells it which reads it may execute.
 *
 * Depends on  snicstore/base.h, loop.h, cuckoo.h, files.h.
 * Memory      The caller supplies all of it; nothing is allocated afterwards.
 *             Reads land in a pool inside that memory, registered with the loop
 *             where the kernel allows, with room for a reply header in front.
 * Threads     The loop's thread. snic_offload_get() alone is for any thread.
 * Progress    No call blocks or makes a system call of its own.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes; versions are the application's, larger is newer.
 *
 * Deviations from the paper. (1) Table 1 has four user functions; there is a
 * fifth, `reply`, because file bytes are not the protocol's answer, and expiry,
 * checksum, the whole key and a short read can only be judged after the read.
 * (2) The cache carries versions: see below. (3) The paper completes strictly
 * in order of the context ring, so one slow read holds back every client;
 * here completions of different streams do not wait for each other, unless
 * SNIC_OFFLOAD_STRICT asks for the paper's order.
 *
 * Consistency. An entry is an item with a version. put() stores an item only if
 * no newer version of the key is known; invalidate() leaves a tombstone with
 * its version, so that a late put of an older version (a flush that was under
 * way) is refused. Where a tombstone finds no room, the floor rises instead:
 * no item older than the floor is stored. So an application is safe if, before
 * it acknowledges a write that the file does not hold yet, it invalidates the
 * key with the write's version, and if it puts an item only when the file holds
 * that version as durably as the write promises.
 */
#ifndef SNIC_OFFLOAD_H
#define SNIC_OFFLOAD_H

#include "snicstore/base.h"
#include "snicstore/files.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_offload;

#define SNIC_OFFLOAD_ALIGN 4096
/** Largest header plus trailer that reply() may add, and largest cache item. */
#define SNIC_OFFLOAD_HEADER_MAX 256
#define SNIC_OFFLOAD_ITEM_MAX 240
/** Largest version; the top bit is ours. */
#define SNIC_OFFLOAD_VERSION_MAX (UINT64_MAX >> 1)

/** Complete in submission order over all streams, as the paper does. */
#define SNIC_OFFLOAD_STRICT (1u << 0)

/** One client request that the predicate chose for the DPU. */
struct snic_offload_msg {
    const unsigned char *data; /**< the whole framed message, borrowed for the call           */
    uint32_t size;
    uint32_t flags; /**< the predicate's, handed through                            */
    uint64_t user;  /**< the connection's user word (say, its database)             */
};

/** What func() decides to read. */
struct snic_offload_read {
    uint64_t file;
    uint64_t offset;
    uint32_t size;
    uint32_t tenant;
    uint8_t priority;
    unsigned char context[47]; /**< func()'s notes for reply(), e.g. the key's hash and version */
};

enum snic_offload_verdict {
    SNIC_OFFLOAD_SEND = 0, /**< answer with the reply                                        */
    SNIC_OFFLOAD_HOST = 1  /**< let the host answer: the message is handed over unchanged    */
};

/** What reply() decides: header, then data[skip, skip + take), then trailer. */
struct snic_offload_reply {
    unsigned char header[SNIC_OFFLOAD_HEADER_MAX];
    unsigned char trailer[SNIC_OFFLOAD_HEADER_MAX];
    uint32_t header_size;
    uint32_t trailer_size;
    uint32_t skip;
    uint32_t take;
};

struct snic_offload_user {
    /**
     * Translate a message into a read (OffFunc). No allocation, no system call.
     * @return 0: @p out is filled; 1: answer at once with @p reply, no read;
     *         negative: to the host
     */
    int (*func)(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                struct snic_offload_read *out, struct snic_offload_reply *reply);
    /**
     * Judge what was read; @p result is the bytes read or SNIC_E*, @p now_ns the
     * loop's time. May not keep @p data.
     */
    enum snic_offload_verdict (*reply)(void *ctx, const struct snic_offload_msg *msg,
                                       const struct snic_offload_read *op,
                                       const unsigned char *data, int64_t result, uint64_t now_ns,
                                       struct snic_offload_reply *out);
    /**
     * Cache-on-write (may be NULL): a host's write reached the state that it
     * promised. Call snic_offload_put() for what it holds.
     */
    void (*cache)(void *ctx, struct snic_offload *o, const struct snic_files_hook_op *op);
    /** Invalidate-on-read (may be NULL): a host reads, possibly to modify. */
    void (*invalidate)(void *ctx, struct snic_offload *o, const struct snic_files_hook_op *op);
    void *ctx;
};

struct snic_offload_opts {
    uint32_t opts_size;
    uint32_t flags;          /**< SNIC_OFFLOAD_STRICT                                       */
    uint32_t key_size;       /**< cache keys, 1..64                                         */
    uint32_t item_size;      /**< user bytes of an item, 0..SNIC_OFFLOAD_ITEM_MAX           */
    uint64_t cache_capacity; /**< entries, tombstones included                              */
    uint64_t cache_seed;     /**< random where keys come from a network                     */
    uint32_t contexts;       /**< reads in flight, power of two 1..65536; default 1024      */
    uint32_t read_max;       /**< largest read; larger ones go to the host; default 65536   */
    uint64_t pool_bytes;     /**< read buffers, >= read_max + header; default 16 MiB        */
    uint32_t message_max;    /**< messages are kept (for the host) up to this; default 4096 */
    uint32_t reserved;
};

/** Bytes for init, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_offload_memsize(const struct snic_offload_opts *o) SNIC_NONNULL(1);
/**
 * @p files may be NULL when only the cache is wanted. Does not install hooks:
 * see snic_offload_hooks(). [owner]
 * @return 0; SNIC_EINVAL; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_offload_init(struct snic_offload **out, void *mem, size_t mem_size,
                                              struct snic_loop *loop, struct snic_files *files,
                                              const struct snic_offload_user *user,
                                              const struct snic_offload_opts *o)
    SNIC_NONNULL(1, 2, 4, 6, 7);
/** No read may be in flight. @return the memory. [owner] */
SNIC_API void *snic_offload_fini(struct snic_offload *o) SNIC_NONNULL(1);
/** The hooks to give to the file service: they call cache() and invalidate(). [owner] */
SNIC_API struct snic_files_hooks snic_offload_hooks(struct snic_offload *o) SNIC_NONNULL(1);

/* ---- The cache ---- */

/**
 * Store @p item for @p key unless a newer version is known. [owner]
 * @return 1 stored; 0 refused: a newer version or the floor; SNIC_ENOSPC no room (the key is
 *         then simply not offloaded); SNIC_ERANGE version too large
 */
SNIC_API int snic_offload_put(struct snic_offload *o, const void *key, const void *item,
                              uint64_t version) SNIC_NONNULL(1, 2);
/**
 * From now on no item of @p key older than @p version is found or stored. It
 * cannot fail. [owner]
 */
SNIC_API void snic_offload_invalidate(struct snic_offload *o, const void *key, uint64_t version)
    SNIC_NONNULL(1, 2);
/** The same for every key; drops all entries. [owner] */
SNIC_API void snic_offload_invalidate_all(struct snic_offload *o, uint64_t version) SNIC_NONNULL(1);
/**
 * Drop the entry of @p key if it is not newer than @p version, tombstone or
 * item: the file holds its deletion, and no older put can come any more. [owner]
 */
SNIC_API void snic_offload_forget(struct snic_offload *o, const void *key, uint64_t version)
    SNIC_NONNULL(1, 2);
/**
 * Look @p key up; @p item (item_size bytes) and @p version may be NULL. [any]
 * @return 0 found; SNIC_ENOENT no item (tombstones are not items)
 */
SNIC_API SNIC_NODISCARD int snic_offload_get(const struct snic_offload *o, const void *key,
                                             void *item, uint64_t *version) SNIC_NONNULL(1, 2);

/* ---- Execution ---- */

/** A stream: completions of one stream come in submission order. Caller-owned; zero it. */
struct snic_offload_stream {
    uint64_t next;
    uint64_t delivered;
    struct snic_queue waiting;
};

struct snic_offload_job;

enum snic_offload_status {
    SNIC_OFFLOAD_DONE = 0,   /**< iov holds the reply                                       */
    SNIC_OFFLOAD_TO_HOST = 1 /**< message/message_size: send this to the host               */
};

/**
 * A job ended. The iov (0..3 pieces, in region @p region) stays valid until
 * snic_offload_release(job), which the receiver must call, in any order.
 */
typedef void (*snic_offload_done_fn)(void *ctx, struct snic_offload_job *job);

/** Read-only for users. */
struct snic_offload_job {
    struct snic_node node; /**< the receiver's to use after done                           */
    enum snic_offload_status status;
    uint32_t iov_count;
    struct snic_iov iov[3];
    int32_t region;
    uint32_t message_size;
    const unsigned char *message;
    uint64_t cookie; /**< as submitted                                               */
};

/**
 * Execute @p msg (copied) on behalf of @p stream. @p done comes later from the
 * loop, never inside this call, in stream order. [owner]
 * @return 0; SNIC_EAGAIN no context or buffer: send the message to the host (the
 *         paper's rule); SNIC_EMSGSIZE message or read too large: to the host;
 *         SNIC_ENOENT func() said: to the host
 */
SNIC_API SNIC_NODISCARD int snic_offload_submit(struct snic_offload *o,
                                                struct snic_offload_stream *stream,
                                                const struct snic_offload_msg *msg, uint64_t cookie,
                                                snic_offload_done_fn done, void *ctx)
    SNIC_NONNULL(1, 2, 3, 5);
/** Return a job and its buffer. [owner] */
SNIC_API void snic_offload_release(struct snic_offload *o, struct snic_offload_job *job)
    SNIC_NONNULL(1, 2);
/** Jobs not yet released. [owner] */
SNIC_API uint32_t snic_offload_active(const struct snic_offload *o) SNIC_NONNULL(1);

struct snic_offload_stats {
    uint64_t submitted;
    uint64_t completed;
    uint64_t sent;         /**< verdict SEND                                         */
    uint64_t to_host;      /**< verdict HOST after a read                            */
    uint64_t refused_busy; /**< SNIC_EAGAIN                                          */
    uint64_t refused_size; /**< SNIC_EMSGSIZE                                        */
    uint64_t refused_func; /**< SNIC_ENOENT                                          */
    uint64_t read_errors;
    uint64_t read_bytes;
    uint64_t puts;
    uint64_t puts_refused; /**< older than what is known                             */
    uint64_t puts_full;    /**< SNIC_ENOSPC                                          */
    uint64_t invalidations;
    uint64_t tombstones; /**< now                                                  */
    uint64_t items;      /**< now                                                  */
    uint64_t floor;      /**< version below which nothing is stored                */
    uint64_t active_high;
};
SNIC_API void snic_offload_get_stats(const struct snic_offload *o, struct snic_offload_stats *out)
    SNIC_NONNULL(1, 2);
/** Structure check for tests: 0 or SNIC_ECORRUPT. [owner] */
SNIC_API int snic_offload_check(const struct snic_offload *o) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_OFFLOAD_H */
