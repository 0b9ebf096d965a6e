/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/engine.h
 * The key-value engine of the host role: Redis commands on an index in memory
 * and a log of checksummed records, whatever carries its messages (director
 * channel or sockets) and its files (filelib or io_uring).
 *
 * Rules R1 to R8, of applications that cache, are in snicstore/offload.h. One more:
 *   R9  under sync always a reply leaves when all that it shows is durable: other
 *       clients' writes and deletions included.
 *
 * Threads     One: the loop's.
 * Memory      Allocates (it is a program, not the library); bounded by options.
 * Input       messages are hostile: RESP from clients.
 */
#ifndef KV_ENGINE_H
#define KV_ENGINE_H

#include "snicstore.h"
#include "record.h"
#include "../resp/settings.h"
#include "tenant.h"

struct kv_engine;

enum kv_sync { KV_SYNC_NONE, KV_SYNC_INTERVAL, KV_SYNC_ALWAYS };

/* ---- Below: files ---- */

struct kv_file_req;
typedef void (*kv_file_done_fn)(struct kv_file_req *r);

enum kv_file_op {
    KV_FILE_READ = 1,
    KV_FILE_WRITE,
    KV_FILE_CREATE,
    KV_FILE_DELETE,
    KV_FILE_FSYNC,
    KV_FILE_LIST
};

/** One file operation; the engine's, borrowed until done. */
struct kv_file_req {
    kv_file_done_fn done;
    enum kv_file_op op;
    int sync;      /**< WRITE: durable when done                                      */
    uint64_t file; /**< id; out for CREATE                                            */
    uint64_t offset;
    uint64_t size;         /**< bytes; CREATE: space to reserve, reads as zeros               */
    void *data;            /**< READ, WRITE                                                   */
    char name[64];         /**< CREATE                                                        */
    uint32_t tenant;       /**< of the device                                                 */
    uint8_t priority;      /**< likewise                                                      */
    unsigned char tag[16]; /**< READ for modification: the key's hash, for invalidate-on-read */
    int64_t result;        /**< out: bytes or 0, or SNIC_E*                                   */
    union {                /**< the implementation's                                          */
        struct snic_filelib_req lib;
        struct snic_io_req io;
        struct snic_loop_msg msg;
    } u;
    void *owner;
    struct kv_file_req *next; /**< while parked                                            */
    /** LIST: called once per file before done. */
    void (*entry)(struct kv_file_req *r, const char *name, uint64_t file, uint64_t size);
};

struct kv_files_ops {
    void (*submit)(void *ctx, struct kv_file_req *r); /**< always accepted; done comes later */
    int image; /**< the files of an image: those of another program only are refused         */
};

/* ---- Above: clients ---- */

#define KV_REPLY_CLOSE 1u /**< close the client after this reply                          */
#define KV_REPLY_USER 2u  /**< the connection's word changes to client_user               */

struct kv_engine_events {
    /**
     * The answer to message @p seq of @p client; pieces are borrowed for the call.
     * @return 0 taken; SNIC_EAGAIN full: the engine keeps it and tries again at
     *         kv_engine_writable()
     */
    int (*reply)(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                 uint32_t count, uint32_t flags, uint64_t client_user);
    /**
     * R1: no item of the key older than @p version may be served any more; called
     * before the reply that acknowledges the version. NULL: nothing is offloaded.
     * @return as reply
     */
    int (*invalidate)(void *ctx, const unsigned char key_hash[16], uint64_t version);
    /** The same for all keys (FLUSHALL). */
    int (*invalidate_all)(void *ctx, uint64_t version);
    /** The key's newest version is durable at this place (after a re-attach, and R8). */
    int (*cache)(void *ctx, const unsigned char key_hash[16], const struct kv_item *item,
                 uint64_t version);
    void *ctx;
};

/** Of a connection, known to the layer that holds its socket. */
struct kv_client_facts {
    char peer[64]; /**< "ADDRESS:PORT" of its two ends                                       */
    char own[64];
    uint64_t query_bytes; /**< of an unfinished command                                      */
    uint64_t query_memory;
    uint64_t out_bytes;  /**< replies before their turn                                     */
    uint64_t out_blocks; /**< of those that can be sent                                     */
    uint64_t out_memory; /**< of all its replies                                            */
};

struct kv_engine_opts {
    struct snic_loop *loop;
    const struct kv_files_ops *files;
    void *files_ctx;
    struct kv_engine_events events;
    int cache_memory; /**< what is in memory is offloaded, too                          */
    enum kv_sync sync;
    uint32_t sync_interval_ms;
    uint64_t memory_bytes;    /**< the newest records, kept in memory, too                  */
    uint64_t segment_bytes;   /**< of a log file; default 64 MiB                            */
    uint64_t device_bytes;    /**< most bytes of log files; 0: until the device is full     */
    const char *name;         /**< of the store in log lines; may be NULL                   */
    uint32_t databases;       /**< default 16                                               */
    uint64_t hash_seed[2];    /**< of the 128-bit key hash; the DPU role has the same       */
    uint32_t value_max;       /**< default 8 MiB                                            */
    uint32_t key_max;         /**< default 64 KiB                                           */
    uint32_t flush_bytes_max; /**< of one log write; default 1 MiB                         */
    uint32_t hook_bytes_max;  /**< larger log writes are not seen by the DPU's hook           */
    /** INFO: lines of the roles' own section, appended by the program. May be NULL. */
    size_t (*info)(void *ctx, char *out, size_t max);
    /** INFO: the lines of section "tenants" or "device"; 0: there is none. May be NULL. */
    size_t (*section)(void *ctx, const char *section, char *out, size_t max);
    const struct kv_tenants *tenants; /**< that share the device; NULL: none              */
    struct resp_settings settings;    /**< at the start; CONFIG SET changes them          */
    int password_needed;              /**< CONFIG SET must not leave none: protected mode, and
                                           other machines reach the server  */
    uint32_t conns_max;               /**< CONFIG GET maxclients                          */
    /** CONFIG SET has changed them. May be NULL. */
    void (*changed)(void *ctx, const struct resp_settings *s);
    /** CLIENT KILL: end the connection. @return 1; 0 it can be ended only at its next message. May
        be NULL. */
    int (*kill)(void *ctx, uint64_t client);
    /** What CLIENT LIST shows of a connection. @return 1; 0 not known here. May be NULL. */
    int (*facts)(void *ctx, uint64_t client, struct kv_client_facts *out);
    /** CLIENT NO-EVICT. May be NULL. */
    void (*no_evict)(void *ctx, uint64_t client, int on);
    /** SHUTDOWN was asked for; drain and exit. */
    void (*shutdown)(void *ctx, int nosave);
    void (*log)(void *ctx, int level,
                const char *text); /**< 0 error, 1 warning, 2 info; may be NULL */
    void *ctx;
};

/** Open and rebuild from the log (runs the loop). @p error gets one line of text on failure. */
int kv_engine_open(struct kv_engine **out, const struct kv_engine_opts *o, char *error,
                   size_t error_size);
/** Flush everything, run the loop until it is durable, free. */
int kv_engine_close(struct kv_engine *e);
/** As kv_store_finish(). */
int kv_engine_finish(struct kv_engine *e, uint64_t patience_ns);
/**
 * One framed RESP message of a client. @p client_user is the connection's word (low
 * 16 bits: its database; the next 16: tenant.h); it counts for the client's first message,
 * afterwards the engine's own state counts.
 * @return 1 when it has not begun: it waits for room, the device or those before it, and the
 * engine keeps a copy until its reply. A caller that then takes no more from this client bounds
 * what the client can make the engine hold; 0 otherwise.
 */
int kv_engine_message(struct kv_engine *e, uint64_t client, uint64_t seq, uint64_t client_user,
                      const unsigned char *msg, size_t size);
void kv_engine_client_closed(struct kv_engine *e, uint64_t client);
void kv_engine_writable(struct kv_engine *e);
/** The files below are gone (DPU death): keep everything, stop submitting. */
void kv_engine_detach(struct kv_engine *e);
/** New files below: submit unfinished writes again, then cache() what the device holds. */
void kv_engine_attach(struct kv_engine *e, const struct kv_files_ops *files, void *files_ctx);
/** The newest version assigned: the floor at attach (R7). */
uint64_t kv_engine_version(const struct kv_engine *e);

/** As CONFIG SET left them. */
const struct resp_settings *kv_engine_settings(const struct kv_engine *e);

struct kv_engine_stats {
    uint64_t keys, clients;
    uint64_t commands, gets, hits, misses, sets, device_reads;
    uint64_t log_bytes, live_bytes, memory_used, segments, compactions, compacted_bytes;
    uint64_t flushes, flush_bytes, expired, errors, read_only;
    uint64_t no_space;      /**< writes are refused until there is room                       */
    uint64_t query_limit;   /**< clients ended: client-query-buffer-limit                    */
    uint64_t auth_failures; /**< wrong passwords                                             */
};
void kv_engine_get_stats(const struct kv_engine *e, struct kv_engine_stats *out);

#endif
