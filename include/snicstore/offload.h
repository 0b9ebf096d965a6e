/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/offload.h
 * The offload engine: executes client reads on the DPU alone (DDS section 6),
 * and the versioned cache that determines which reads it may execute.
 *
 * Depends on  snicstore/base.h, loop.h, files.h; the implementation on cuckoo.h.
 * Memory      The caller supplies all of it; nothing is allocated afterwards.
 *             Reads land in a pool inside that memory, registered with the loop
 *             where the kernel allows, with room for a reply header in front.
 * Threads     The loop's thread. snic_offload_get() alone is for any thread.
 * Progress    No call blocks or makes a system call of its own, but init and
 *             fini, which register and unregister the pool.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes; versions are the application's, larger is newer.
 *
 * Deviations from the paper. (1) Table 1 has four user functions; there is a
 * fifth, `reply`, because file bytes are not the protocol's answer, and expiry,
 * checksum, the whole key and a short read can only be judged after the read.
 * (2) The cache carries versions: see below. (3) The paper completes strictly
 * in order of the context ring, so one slow read holds back every client;
 * here completions of different streams do not wait for each other, unless
 * SNIC_OFFLOAD_STRICT asks for the paper's order. (4) The paper's table holds all
 * keys or refuses more; here a full one evicts, so that it may be smaller than
 * the store.
 *
 * Consistency. An entry is an item with a version. put() stores an item only if
 * no newer version of the key is known; invalidate() leaves a tombstone with
 * its version, so that a late put of an older version (a flush that was under
 * way) is refused. In a full table a new item evicts a tombstone, or else nearly
 * the least recently used item that competes with it; a tombstone evicts
 * tombstones only. What an evicted entry, or a tombstone without a place, knew is
 * kept as the floor of the key's partition, one of twice as many as there are
 * entries: while a key has no entry, put() stores nothing older than its
 * partition's floor. So a table that is too small for the keys refuses some puts
 * of old versions (such as of slow writes), and is filled again by later
 * writes, and by an authority's cache() calls on misses (a host that answered a
 * read, R8). An application is safe if it
 *   R1  before it acknowledges a write that the file does not hold yet, or lets
 *       any client read it, invalidates the key with the write's version;
 *   R2  puts every item with the version that it had (the table then refuses
 *       what is older than the last invalidation);
 *   R3  puts an item only when the file holds that version as durably as the
 *       write promises;
 *   R4  sends reads behind an unanswered write of the same client to the host
 *       (the director does);
 *   R5  lets space be reused only after the reads in flight (files does);
 *   R6  in reply(), compares the whole key, the version or the expiry, and the
 *       checksum of what was read, and returns HOST when any of them is wrong;
 *   R7  when a new host takes over, calls invalidate_all() with its version
 *       (the director does), and fills the table with cache(). No write of the
 *       host before it may still be under way then: close its file server first.
 * and its table stays useful with more keys than entries if it
 *   R8  calls cache() (from the host: snic_director_host_entries()) for an item
 *       that a client's read missed, once R3 holds for it.
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

/** Most reads of one message. */
#define SNIC_OFFLOAD_PARTS_MAX 16

/** Most pieces of one reply. */
#define SNIC_OFFLOAD_IOV_MAX 48

/** Complete in submission order over all streams, as the paper does. */
#define SNIC_OFFLOAD_STRICT (1u << 0)

/** One client request that the predicate chose for the DPU. */
struct snic_offload_msg {
    const unsigned char *data; /**< the whole framed message, borrowed for the call           */
    uint32_t size;
    uint32_t flags; /**< the predicate's, handed through                            */
    uint64_t user;  /**< the connection's user word (such as its database)          */
};

/** What func() decides to read. */
struct snic_offload_read {
    uint64_t file;
    uint64_t offset;
    uint32_t size;             /**< 1..read_max                                                 */
    uint32_t tenant;           /**< 0 when func() is called                                     */
    uint32_t part;             /**< in: which read of the message this is, from 0               */
    uint8_t priority;          /**< 0 when func() is called                            */
    unsigned char context[43]; /**< func()'s notes for reply(), e.g. the key's hash and version */
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

/**
 * The user's functions may read the cache, and nothing else of the engine: no
 * allocation, no system call, no submit (debug builds assert the latter).
 */
struct snic_offload_user {
    /**
     * Translate a message into a read (OffFunc). A message that needs several
     * reads (for example one for each key) answers 2 for each but the last, and
     * is called again with the next part.
     * @param out    zero but for part, and context undefined
     * @param reply  sizes are zero
     * @return 0: @p out is filled, the last read; 2: filled, and there are more;
     *         1: answer at once with @p reply, no read (part 0 only); negative:
     *         to the host
     */
    int (*func)(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                struct snic_offload_read *out, struct snic_offload_reply *reply);
    /**
     * Judge what was read; @p result is the bytes read (short at the end of the
     * file) or SNIC_E*, @p now_ns the loop's time. May not keep @p data. Called
     * for each part in order when all are read; the answers are sent one after
     * another, and one HOST sends the whole message to the host. Sizes in
     * @p out are zero before; skip + take <= result.
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
    uint32_t flags;     /**< SNIC_OFFLOAD_STRICT                                       */
    uint32_t key_size;  /**< cache keys, 1..64                                         */
    uint32_t item_size; /**< user bytes of an item, 0..SNIC_OFFLOAD_ITEM_MAX           */
    /**
     * Items that the cache should hold; when there are more, some are evicted. Room is for a
     * sixteenth more entries, for tombstones and uneven buckets.
     */
    uint64_t cache_capacity;
    uint64_t cache_seed; /**< random where keys come from a network                     */
    uint32_t contexts;   /**< reads in flight, power of two 1..65536; default 1024      */
    uint32_t read_max;   /**< largest read; larger ones go to the host; default 65536   */
    /**
     * Read buffers, shared: at least read_max + 2 * read_align + 1 KiB; default 16 MiB. A read
     * takes what it is widened to, rounded up to 256 bytes or read_align, and with a read_align up
     * to 512 bytes 256 to 768 more, for header and trailer.
     */
    uint64_t pool_bytes;
    uint32_t message_max; /**< messages are kept (for the host) up to this; default 4096 */
    /**
     * Reads are widened to multiples of this, so that a device that wants aligned
     * transfers runs into the pool without a bounce buffer: its geometry's largest
     * alignment. Power of two, 1..4096; default 1.
     */
    uint32_t read_align;
    /**
     * Tenants that share contexts and pool: func() then sets 0..tenants-1 (larger ones count as
     * the last), and a tenant may take as much as is left for the others, no more: beyond that its
     * messages go to the host (SNIC_EAGAIN). 0, the default: no such limit; at most 65536.
     */
    uint32_t tenants;
    uint32_t reserved; /**< must be 0 */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_offload_opts_wrong(const struct snic_offload_opts *o) SNIC_NONNULL(1);
/** Bytes for init, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_offload_memsize(const struct snic_offload_opts *o) SNIC_NONNULL(1);
/**
 * @p files may be NULL when only the cache is wanted. Does not install hooks:
 * snic_offload_hooks() returns them. @p loop and @p files are borrowed, and @p mem is owned, until
 * fini; @p user and @p o are copied. [owner]
 * @return 0; SNIC_EINVAL options, alignment, functions missing, @p files of another loop;
 *         SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_offload_init(struct snic_offload **out, void *mem, size_t mem_size,
                                              struct snic_loop *loop, struct snic_files *files,
                                              const struct snic_offload_user *user,
                                              const struct snic_offload_opts *o)
    SNIC_NONNULL(1, 2, 4, 6, 7);
/** No read may be in flight. [owner] @return the memory */
SNIC_API void *snic_offload_fini(struct snic_offload *o) SNIC_NONNULL(1);
/**
 * The hooks to give to the file service: host writes and reads call cache() and
 * invalidate(); a host's cache and invalidate messages act on the table. [owner]
 */
SNIC_API struct snic_files_hooks snic_offload_hooks(struct snic_offload *o) SNIC_NONNULL(1);

/* ---- The cache ---- */

/**
 * Store @p item for @p key unless a newer version is known; evicts another entry where the
 * table is full. Both are copied. [owner]
 * @return 1 stored; 0 refused: a newer version of the key is known, or its partition's or
 *         invalidate_all()'s floor is higher (the key is then simply not offloaded);
 *         SNIC_ERANGE version too large
 */
SNIC_API int snic_offload_put(struct snic_offload *o, const void *key, const void *item,
                              uint64_t version) SNIC_NONNULL(1, 2);
/**
 * Store @p item for @p key, not bound by floors: for an authority that knows @p item to be
 * the newest, and whose calls are ordered with its invalidations of the key. Evicts another entry
 * where the table is full. Key and item are copied. [owner]
 * @return 1 stored; 0 a newer version of the key is known; SNIC_ERANGE version too large
 */
SNIC_API int snic_offload_cache(struct snic_offload *o, const void *key, const void *item,
                                uint64_t version) SNIC_NONNULL(1, 2);
/**
 * From now on no item of @p key older than @p version is found or stored. It
 * cannot fail; a @p version above SNIC_OFFLOAD_VERSION_MAX counts as that. [owner]
 */
SNIC_API void snic_offload_invalidate(struct snic_offload *o, const void *key, uint64_t version)
    SNIC_NONNULL(1, 2);
/**
 * The same for every key; drops all entries, in constant time, and what they knew of larger
 * versions: of earlier puts none with such a version may still come (R7). Floors never fall.
 * [owner]
 */
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

/** The loop that init got. [any] */
SNIC_API struct snic_loop *snic_offload_loop(const struct snic_offload *o) SNIC_NONNULL(1);
/** Bytes of a key. [any] */
SNIC_API uint32_t snic_offload_key_size(const struct snic_offload *o) SNIC_NONNULL(1);
/** Bytes of an item. [any] */
SNIC_API uint32_t snic_offload_item_size(const struct snic_offload *o) SNIC_NONNULL(1);

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
 * A job ended. The iov stays valid until snic_offload_release(job), which the
 * receiver must call, in any order. Allowed inside: submit and release.
 */
typedef void (*snic_offload_done_fn)(void *ctx, struct snic_offload_job *job);

/** Read-only for users. */
struct snic_offload_job {
    struct snic_node node; /**< the receiver's to use after done                           */
    enum snic_offload_status status;
    uint32_t iov_count; /**< DONE: one to three pieces per part, with header and trailer    */
    struct snic_iov iov[SNIC_OFFLOAD_IOV_MAX];
    int32_t region;      /**< of the pieces, or SNIC_NO_REGION                               */
    uint32_t bytes;      /**< sum of the pieces                                              */
    uint64_t pool_bytes; /**< of the pool, held until it is released                      */
    uint32_t message_size;
    const unsigned char *message;
    uint64_t cookie;   /**< as submitted                                               */
    uint32_t contexts; /**< one of each read, held until it is released                */
};

/**
 * Execute @p msg (copied) on behalf of @p stream. @p done comes later from the
 * loop, never inside this call, in stream order; with stream NULL as soon as it
 * can. [owner]
 * @return 0; SNIC_EAGAIN no context or buffer: send the message to the host (the
 *         paper's rule); SNIC_EMSGSIZE to the host: message or read too large, more than
 *         SNIC_OFFLOAD_PARTS_MAX reads, or no file service; SNIC_ENOENT func() decided: to the
 *         host
 */
SNIC_API SNIC_NODISCARD int snic_offload_submit(struct snic_offload *o,
                                                struct snic_offload_stream *stream,
                                                const struct snic_offload_msg *msg, uint64_t cookie,
                                                snic_offload_done_fn done, void *ctx)
    SNIC_NONNULL(1, 3, 5);
/** Return a job and its buffer. [owner] */
SNIC_API void snic_offload_release(struct snic_offload *o, struct snic_offload_job *job)
    SNIC_NONNULL(1, 2);
/** Contexts in use: reads of jobs that are not released. [owner] */
SNIC_API uint32_t snic_offload_active(const struct snic_offload *o) SNIC_NONNULL(1);
/** How many there are: opts.contexts. [owner] */
SNIC_API uint32_t snic_offload_contexts(const struct snic_offload *o) SNIC_NONNULL(1);

/** Bytes of the pool. [owner] */
SNIC_API uint64_t snic_offload_pool_bytes(const struct snic_offload *o) SNIC_NONNULL(1);
/** Bytes of the pool that are free now. [owner] */
SNIC_API uint64_t snic_offload_pool_free(const struct snic_offload *o) SNIC_NONNULL(1);

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
    uint64_t evicted;      /**< items that gave way to others                        */
    uint64_t invalidations;
    uint64_t tombstones;    /**< now                                                  */
    uint64_t items;         /**< now                                                  */
    uint64_t floor;         /**< version below which put() stores nothing             */
    uint64_t floors_raised; /**< times that a partition's floor rose for want of entries   */
    uint64_t active_high;
    uint64_t pool_free; /**< bytes of the pool now                                        */
};
/** Copy the counters out. [owner] */
SNIC_API void snic_offload_get_stats(const struct snic_offload *o, struct snic_offload_stats *out)
    SNIC_NONNULL(1, 2);
/** Structure check for tests. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_offload_check(const struct snic_offload *o) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_OFFLOAD_H */
