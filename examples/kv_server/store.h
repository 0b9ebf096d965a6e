/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/store.h
 * The storage side of the engine: an index of all keys in memory and a hybrid
 * log (FASTER's): a ring of memory over segment files. A record is in memory
 * while its log address is >= head; older ones are only on the device.
 *
 * Threads     The engine's one thread.
 * Memory      Allocates: entries (key + about 80 bytes each), the ring, requests.
 * Errors      SNIC_E*.
 *
 * A log address is segment number * segment bytes + offset in the segment.
 * Addresses below `durable` survive power loss.
 */
#ifndef KV_STORE_H
#define KV_STORE_H

#include "engine.h"

struct kv_store;

/** A key, owned by the store; pointers are valid until the next call that changes the key. */
struct kv_entry {
    struct kv_entry *next;
    uint64_t hash; /**< first 8 bytes of the 128-bit hash                           */
    uint64_t hash_high;
    uint64_t version;
    uint64_t expire_ms; /**< wall clock, 0: never                                        */
    uint64_t address;   /**< of the record                                               */
    uint32_t value_size;
    uint32_t key_size;
    uint16_t database;
    uint16_t flags;    /**< KV_ENTRY_*                                                   */
    uint32_t accessed; /**< wall clock in s: the last command that used the value        */
    unsigned char key[];
};

/**
 * kv_entry.flags, for OBJECT ENCODING, and as in Redis not kept across a restart: the value was
 * built in place (APPEND, SETRANGE); it is text although it looks like a number (INCRBYFLOAT).
 */
#define KV_ENTRY_RAW 4u
#define KV_ENTRY_TEXT 8u
#define KV_ENTRY_ENCODING (KV_ENTRY_RAW | KV_ENTRY_TEXT)

struct kv_store_opts {
    struct snic_loop *loop;
    const struct kv_files_ops *files;
    void *files_ctx;
    enum kv_sync sync;
    uint32_t sync_interval_ms;
    uint64_t memory_bytes;  /**< of the ring, rounded up to a power of two; holds a record */
    uint64_t segment_bytes; /**< power of two; default 64 MiB                              */
    uint64_t device_bytes;
    const char *name; /**< in log lines; may be NULL                              */
    uint32_t databases;
    uint32_t key_max;
    uint32_t value_max;
    uint64_t hash_seed[2];
    uint32_t flush_bytes_max; /**< of one log write; default 1 MiB                          */
    uint32_t hook_bytes_max;  /**< larger records are not seen by the DPU's hook: cache()
                                   is called for them; default: never                      */
    /** As in kv_engine_events, but the two that invalidate never fail: the engine queues. May
        be NULL. */
    void (*invalidate)(void *ctx, const unsigned char key_hash[16], uint64_t version);
    void (*invalidate_all)(void *ctx, uint64_t version);
    /** @return 0; SNIC_EAGAIN: call kv_store_resume_cache() later. */
    int (*cache)(void *ctx, const unsigned char key_hash[16], const struct kv_item *item,
                 uint64_t version);
    int cache_memory; /**< the DPU reads what is in memory, too, from the device            */
    /** A key that was absent is there now. May be NULL. */
    void (*created)(void *ctx, uint32_t database, const void *key, uint32_t key_size);
    /** `durable` moved (sync always): held replies may go. */
    void (*durable)(void *ctx, uint64_t address);
    /** There is room again after SNIC_EAGAIN of a write. */
    void (*room)(void *ctx);
    /** Log writes have failed for 5 s: what is held is of unknown outcome. */
    void (*failed)(void *ctx, int error);
    void (*log)(void *ctx, int level, const char *text); /**< 0 error, 1 warning, 2 info    */
    void *ctx;
};

/** Open and rebuild (runs the loop). @return 0 or SNIC_E* with a line in @p error */
int kv_store_open(struct kv_store **out, const struct kv_store_opts *o, char *error,
                  size_t error_size);
/** Write everything, durably, run the loop until done, free. @return 0; SNIC_EIO */
int kv_store_close(struct kv_store *s);
/**
 * Before kv_store_close(): store what is not stored yet. 0; SNIC_EIO it cannot be; SNIC_ETIMEDOUT
 * the files made no progress for so long (0: wait for ever): detach before the close.
 */
int kv_store_finish(struct kv_store *s, uint64_t patience_ns);

/** Reads and records from now on are on behalf of this tenant of the device; at first the server.
 */
void kv_store_act_for(struct kv_store *s, uint32_t tenant);

/** Wall clock in ms, read once per loop iteration. */
uint64_t kv_store_wall_ms(struct kv_store *s);

/** The live entry of a key (expired ones are deleted first), or NULL. */
struct kv_entry *kv_store_find(struct kv_store *s, uint32_t database, const void *key,
                               uint32_t key_size);
/** The value, if it is in memory; valid until the loop goes round. NULL: on the device. */
const unsigned char *kv_store_value(struct kv_store *s, const struct kv_entry *e);

/**
 * Set a key: appends a record (or overwrites it in place in the never-flushed
 * tail), calls invalidate() where an older version may be cached (R1).
 * @return 0, and *end is the log address that must be durable before the write
 *         is acknowledged under sync always; SNIC_EAGAIN no room in the ring, room()
 *         follows; SNIC_ENOSPC the device is full; SNIC_EIO log writes fail
 */
int kv_store_set(struct kv_store *s, uint32_t database, const void *key, uint32_t key_size,
                 const void *value, uint32_t value_size, uint64_t expire_ms, uint64_t *end);
/** Delete a live entry. @return as kv_store_set() */
int kv_store_delete(struct kv_store *s, struct kv_entry *e, uint64_t *end);
/** Every database. */
#define KV_ALL_DATABASES 0xffffu
/** Delete all keys of one database or of all. @return as kv_store_set() */
int kv_store_flush_keys(struct kv_store *s, uint32_t database, uint64_t *end);
/**
 * Exchange the keys of two databases; O(keys of both and of the index' tables).
 * @return as kv_store_set(); SNIC_ENOMEM
 */
int kv_store_swap(struct kv_store *s, uint32_t a, uint32_t b, uint64_t *end);
/**
 * Would writes of @p bytes of records in all, none larger than @p record, find
 * room now? So that commands on several keys apply all or nothing. @return as
 * kv_store_set(); SNIC_EMSGSIZE memory_bytes can never hold them; no space is reserved.
 */
int kv_store_check_room(struct kv_store *s, uint64_t bytes, uint64_t record, int deletes);
/** Does the newest SNIC_EAGAIN of a write or check wait for compaction, because the device is full?
    It may free too little. Otherwise it waits for the log to be written, or a file made. */
int kv_store_space_short(const struct kv_store *s);
/** End address of the record of @p e: what a reply that shows it depends on. */
uint64_t kv_store_end(const struct kv_entry *e);
/** End of the log: what a reply about all keys depends on. */
uint64_t kv_store_tail(const struct kv_store *s);
/** End of the newest deletion: what a reply that a key is not there depends on. */
uint64_t kv_store_absence(const struct kv_store *s);
/** Everything below is durable (sync always) or needs not be (others: UINT64_MAX). */
uint64_t kv_store_durable(const struct kv_store *s);

/** A read of one record from the device; lives until done returns. */
struct kv_read {
    void (*done)(struct kv_read *r);
    void *ctx;                  /**< the caller's                                           */
    uint64_t user;              /**< the caller's                                           */
    int result;                 /**< 0; SNIC_EIO; SNIC_ECORRUPT; SNIC_EPEERDEAD when closing */
    uint64_t version;           /**< the entry's when the read was started                  */
    const unsigned char *key;   /**< valid during done                                      */
    const unsigned char *value; /**< valid during done                                      */
    uint32_t key_size;
    uint32_t value_size;
    /* -- the store's -- */
    uint32_t bytes;
    uint64_t address;
    unsigned char *buffer;
    struct kv_store *store;
    struct kv_file_req req;
};
/**
 * Read the value of @p e as it is now; its segment stays until done, which is
 * called from the loop. @p modify: the key's hash goes along for invalidate-on-read.
 * @return 0; SNIC_ENOMEM
 */
int kv_store_read(struct kv_store *s, const struct kv_entry *e, int modify,
                  void (*done)(struct kv_read *r), void *ctx, uint64_t user);

/** Keys in a database, expired but not yet deleted ones included (as Redis counts). */
uint64_t kv_store_count(const struct kv_store *s, uint32_t database);
uint64_t kv_store_expires(const struct kv_store *s, uint32_t database);
/**
 * Visit a few keys of @p database; elements there during the whole scan come at
 * least once. @return the next cursor; 0: the end
 */
uint64_t kv_store_scan(struct kv_store *s, uint32_t database, uint64_t cursor, uint32_t count,
                       void (*visit)(void *ctx, struct kv_entry *e), void *ctx);

/** A live key of @p database by chance, decided by @p random; NULL: there is none. O(index). */
struct kv_entry *kv_store_random(struct kv_store *s, uint32_t database, uint64_t random);

uint64_t kv_store_version(const struct kv_store *s);
void kv_store_detach(struct kv_store *s);
void kv_store_attach(struct kv_store *s, const struct kv_files_ops *files, void *files_ctx);
/**
 * A client's read of @p e was left to this store: calls cache() if the DPU could have done it
 * (rule R8 of snicstore/offload.h; its table may have evicted the key).
 */
void kv_store_missed(struct kv_store *s, const struct kv_entry *e);
/** Resume calling cache() after it returned SNIC_EAGAIN. */
void kv_store_resume_cache(struct kv_store *s);
/** Every structure consistent? 0 or SNIC_ECORRUPT. For tests. */
int kv_store_check(struct kv_store *s);
void kv_store_get_stats(const struct kv_store *s, struct kv_engine_stats *out);

#endif
