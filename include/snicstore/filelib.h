/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/filelib.h
 * The host's file library: files on the DPU's file service, without blocking,
 * without system calls on the data path, over notification groups.
 *
 * Depends on  snicstore/base.h, loop.h, channel.h, files.h (operations, flags, entries).
 * Memory      Caller-owned: memsize, init. Requests are the caller's, borrowed
 *             with the memory they name from submit until `done`.
 * Threads     snic_filelib_submit() from any thread; everything else, and every
 *             completion, on the owner thread of the channel's loop.
 * Progress    submit never blocks. snic_filelib_wait() sleeps on the loop.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       The DPU is not trusted either: every response is checked against
 *             the request it answers; nonsense ends the group with SNIC_EPROTO.
 *
 * A notification group is one channel. Its requests complete in any order, each
 * when it is done (open it with SNIC_CHANNEL_DOWN_ORDERED for the paper's order).
 * A completion comes by the request's `done`, or, where that is NULL, through
 * snic_filelib_poll() and snic_filelib_wait(), as in the paper.
 *
 * Requests of one thread and one tenant reach the service in the order of submission (those of
 * priority 0, and those above it, where they must wait), and the service takes them in that order;
 * but as on the service itself, requests in progress together are not ordered by their effects,
 * except CACHE, INVALIDATE and INVALIDATE_ALL, which take effect in the order of submission (of one
 * tenant).
 *
 * Tenants and credit. A request bears one of the tenants that the service lets this host
 * choose from. A service in front of a storage switch (qos.h) grants credit with its responses:
 * how many READs and WRITEs of this tenant may be under way (credit.h). What is beyond waits
 * here, in order (those with a priority above 0 in front), and holds back neither other tenants nor
 * the memory of the library: the requests are the caller's. A service that grants nothing holds
 * back nothing.
 *
 * Large requests. A READ or WRITE longer than a message (snic_filelib_max()) is
 * carried out in parts, one after the other; a SYNC write is then one promise at
 * the end, and hooks see it once, without payload.
 *
 * Death. When the DPU is certified dead, every request outstanding or submitted
 * later completes with SNIC_EPEERDEAD: outcome unknown. Open a new group on a new
 * link and issue it again: all operations but CREATE, MKDIR, DELETE, RMDIR and
 * RENAME can simply be repeated; those five then end with SNIC_EEXIST or
 * SNIC_ENOENT if they had been done (CREATE with REPLACE can be repeated too).
 * When the channel ends for another reason, requests complete with that reason.
 */
#ifndef SNIC_FILELIB_H
#define SNIC_FILELIB_H

#include "snicstore/base.h"
#include "snicstore/loop.h"
#include "snicstore/channel.h"
#include "snicstore/files.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A notification group. Lives in caller memory. Must not be moved or copied. */
struct snic_filelib;

/** Alignment of the memory passed to snic_filelib_open(), in bytes. */
#define SNIC_FILELIB_ALIGN SNIC_CACHELINE

struct snic_filelib_opts {
    uint32_t opts_size;
    uint32_t depth;      /**< requests on the channel at once, 1..65536; default 256; more wait  */
    uint64_t id;         /**< of the group, for the accepting side                               */
    uint64_t up_bytes;   /**< request ring, see snic_channel_opts; default 4 MiB        */
    uint64_t down_bytes; /**< response ring; default 4 MiB                              */
    uint32_t record_max; /**< largest message; default: the most that the rings take    */
    /**
     * Power of two 8..4096. Bytes of READ and WRITE lie at multiples of this in the rings, so with
     * the device's alignment or more it reads and writes them in place; with less each request is
     * copied through one of the service's few bounce buffers (snic_files_stats.bounced). Default
     * 4096, enough for every device, or 8 where a ring is smaller than 256 KiB; a message takes
     * up to as much more of its ring. The service reports its device's alignment when it accepts:
     * snic_filelib_stats.device_align.
     */
    uint32_t payload_align;
    uint32_t channel_flags; /**< SNIC_CHANNEL_UP_QUIESCENT, SNIC_CHANNEL_DOWN_ORDERED      */
    uint32_t tenants;       /**< requests may name 0..tenants-1; 1..4096; default 1        */
    /**
     * The group ended; the outstanding requests complete after this call. Reason as in
     * snic_channel_events.closed (0 becomes SNIC_ECONNRESET). May be NULL.
     */
    void (*closed)(void *ctx, struct snic_filelib *g, int reason);
    /** The service accepted the group. Requests may be submitted before. May be NULL. */
    void (*opened)(void *ctx, struct snic_filelib *g);
    void *ctx;
    uint32_t credit; /**< of each tenant until the service grants; default: no limit        */
    /**
     * Threads that submit at the same time, 1..1024; default 16. The requests of one more are sent
     * by the owner's loop, and so are all threads' until those have been sent; none is lost.
     * snic_filelib_stats.crowded counts how often that happened.
     */
    uint32_t threads;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_filelib_opts_wrong(const struct snic_filelib_opts *o) SNIC_NONNULL(1);
/** Bytes snic_filelib_open() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_filelib_memsize(const struct snic_filelib_opts *o) SNIC_NONNULL(1);
/**
 * Create a group: opens a channel on @p hub. [owner]
 * @param mem  at least memsize bytes aligned to SNIC_FILELIB_ALIGN, owned until close
 * @param hub  borrowed until close
 * @param o    copied
 * @return 0; SNIC_EINVAL options or alignment; SNIC_ENOSPC @p mem_size small; SNIC_EAGAIN all
 *         channels of @p hub are in use; SNIC_ENOMEM for the rings; SNIC_EPEERDEAD the link is
 *         dead; SNIC_EPROTO, SNIC_EPIPE the peer wrote into the rings before they were offered
 */
SNIC_API SNIC_NODISCARD int snic_filelib_open(struct snic_filelib **out, void *mem, size_t mem_size,
                                              struct snic_channel_hub *hub,
                                              const struct snic_filelib_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * Close the group: no thread may be submitting. What is outstanding completes
 * with SNIC_ECANCELED (outcome unknown) before this returns; `done` must not submit
 * these again for ever. Not from inside a completion. [owner]
 * @return the memory
 */
SNIC_API void *snic_filelib_close(struct snic_filelib *g) SNIC_NONNULL(1);

/* ---- Requests ---- */

/** Operations beyond enum snic_files_op_kind; versions and bytes go to the service's hooks. */
enum snic_filelib_op {
    SNIC_FILELIB_CACHE = 40,         /**< keys, items, count, version -> 0                   */
    SNIC_FILELIB_INVALIDATE = 41,    /**< keys, count, version -> 0                          */
    SNIC_FILELIB_INVALIDATE_ALL = 42 /**< version -> 0                                       */
};

/** READ: do not copy into buf; `data` holds the bytes during `done`. Only whole messages. */
#define SNIC_FILELIB_LEND (1u << 8)

struct snic_filelib_req;
typedef void (*snic_filelib_done_fn)(struct snic_filelib_req *req);

/** Zero it, fill the first part, submit; embed it and use SNIC_CONTAINER in done. */
struct snic_filelib_req {
    struct snic_loop_msg msg;   /**< the library's while the request is borrowed               */
    snic_filelib_done_fn done;  /**< NULL: wait for it with poll or wait                      */
    struct snic_filelib *group; /**< set by submit                                           */
    uint8_t op;       /**< enum snic_files_op_kind, enum snic_filelib_op                     */
    uint8_t priority; /**< for the service and its device, 0..7; above 0 also waits in front    */
    uint16_t flags;   /**< SNIC_FILES_SYNC, SNIC_FILES_REPLACE, SNIC_FILELIB_LEND            */
    uint32_t user32;  /**< the caller's                                                      */
    uint64_t user;    /**< the caller's                                                      */
    uint64_t file;    /**< fields as in struct snic_files_req                                */
    uint64_t dir;
    uint64_t dir2;
    uint64_t offset;     /**< LIST: the cursor                                                   */
    uint64_t length;     /**< READ, WRITE: the sum of the pieces; LIST: of buf                   */
    struct snic_iov buf; /**< the one piece, when iov is NULL                               */
    const struct snic_iov *iov; /**< gather or scatter list, borrowed until done, or NULL    */
    uint32_t iov_count;         /**< 0 when iov is NULL, else 1..65535                       */
    uint32_t name_size;
    const void *name; /**< borrowed until done                                               */
    const void *name2;
    uint32_t name2_size;
    uint32_t key_size;  /**< CACHE, INVALIDATE: of one key, 1..4096                          */
    const void *keys;   /**< packed, borrowed until done                                     */
    const void *items;  /**< packed, borrowed until done                                     */
    uint32_t item_size; /**< CACHE: of one item, 0..4096                                     */
    uint32_t count;     /**< of keys; all must fit into one message                          */
    uint64_t version;
    uint8_t tag[SNIC_FILES_TAG_BYTES]; /**< opaque, for the hooks                            */
    uint32_t tenant;                   /**< 0..tenants-1 of the group's options              */
    /* -- results -- */
    uint32_t credit;     /**< granted with the last response; 0: no grant                    */
    uint64_t request_id; /**< set by submit: names the request within the group              */
    int64_t result;      /**< bytes or 0, or SNIC_E*                                         */
    const void *data;    /**< READ with LEND: the bytes, during done                         */
    uint64_t id;
    uint64_t size;
    uint64_t allocated;
    uint64_t cursor;
    uint32_t kind;
    uint32_t reserved;
    uint64_t private_[8]; /**< the library's while borrowed                                  */
};

/**
 * Hand over requests, in order; all are accepted, and borrowed with what they name until
 * completed. `done` is called from the loop, never from here; it may submit again. What is wrong
 * with a request arrives in its result. SNIC_EINVAL op, flags, tenant, pieces, name, keys or items;
 * SNIC_EMSGSIZE names, keys and items or a lent read over one message, or LIST: buffer too small
 * for one entry; SNIC_ENOTSUP the service has no hook for it; SNIC_EPERM a tenant that the service
 * does not let this host choose; SNIC_EPEERDEAD the DPU is dead; SNIC_EPROTO it sent nonsense;
 * SNIC_ECANCELED the group was closed (these three: outcome unknown); the reason for which the
 * channel ended; what a hook returned. Of the files: SNIC_ENOENT no such file, directory or name;
 * SNIC_EEXIST the name exists; SNIC_EISDIR, SNIC_ENOTDIR a directory or a file where the other is
 * needed; SNIC_ENOTEMPTY RMDIR: it has files; SNIC_ENAMETOOLONG above SNIC_FILES_NAME_MAX;
 * SNIC_EFBIG end beyond 2^32 - 2 segments; SNIC_ENOSPC no segment, or the image's files_max or
 * dirs_max reached; SNIC_EIO the device failed (or its other error). [any]
 */
SNIC_API void snic_filelib_submit(struct snic_filelib *g, struct snic_filelib_req **reqs,
                                  uint32_t n) SNIC_NONNULL(1, 2);
/** Most bytes of a READ or WRITE that is carried out at once. [any] */
SNIC_API uint32_t snic_filelib_max(const struct snic_filelib *g) SNIC_NONNULL(1);

/**
 * Take up to @p max completed requests that have no `done`, oldest first. [owner]
 * @return how many; 0 none
 */
SNIC_API uint32_t snic_filelib_poll(struct snic_filelib *g, struct snic_filelib_req **out,
                                    uint32_t max) SNIC_NONNULL(1, 2);
/**
 * The paper's PollWait: as poll, but runs the loop until at least one request
 * has completed or @p timeout_ns have passed. 0: one loop iteration without sleeping;
 * SNIC_NEVER: as long as it takes (returns 0 all the same when nothing is
 * outstanding). It sleeps in the loop and burns no CPU. Not from a callback. [owner]
 * @return how many; 0 time-out, or @p max is 0, or nothing is outstanding; SNIC_EIO the loop's
 *         kernel call failed
 */
SNIC_API int snic_filelib_wait(struct snic_filelib *g, struct snic_filelib_req **out, uint32_t max,
                               uint64_t timeout_ns) SNIC_NONNULL(1, 2);
/**
 * Submit one request without `done` and run the loop until it is completed.
 * For tools and start-up; not from a callback. [owner]
 * @return req->result, results as snic_filelib_submit()
 */
SNIC_API int64_t snic_filelib_run(struct snic_filelib *g, struct snic_filelib_req *req)
    SNIC_NONNULL(1, 2);

/* ---- The paper's shape: a file belongs to the group it was added to ---- */

/** A handle on an open file; the caller's, plain data. */
struct snic_filelib_file {
    struct snic_filelib *group;
    uint64_t id;
};

/** Let completions of requests through @p file come to @p g. [any] */
static inline void snic_filelib_add(struct snic_filelib *g, struct snic_filelib_file *file,
                                    uint64_t id)
{
    file->group = g;
    file->id = id;
}

/** Start a READ of one buffer. The other fields of @p r must be zero or as wanted. [any] */
static inline void snic_filelib_read(const struct snic_filelib_file *file,
                                     struct snic_filelib_req *r, uint64_t offset, void *data,
                                     size_t size)
{
    r->op = SNIC_FILES_READ;
    r->file = file->id;
    r->offset = offset;
    r->length = size;
    r->buf.base = data;
    r->buf.size = size;
    r->iov = NULL;
    r->iov_count = 0;
    snic_filelib_submit(file->group, &r, 1);
}
/** Start a WRITE of one buffer; flags are @p r's. [any] */
static inline void snic_filelib_write(const struct snic_filelib_file *file,
                                      struct snic_filelib_req *r, uint64_t offset, const void *data,
                                      size_t size)
{
    r->op = SNIC_FILES_WRITE;
    r->file = file->id;
    r->offset = offset;
    r->length = size;
    r->buf.base = (void *)(uintptr_t)data;
    r->buf.size = size;
    r->iov = NULL;
    r->iov_count = 0;
    snic_filelib_submit(file->group, &r, 1);
}
/** Start a scattered READ or a gathered WRITE (@p op) of @p n pieces. [any] */
static inline void snic_filelib_vector(const struct snic_filelib_file *file,
                                       struct snic_filelib_req *r, uint8_t op, uint64_t offset,
                                       const struct snic_iov *iov, uint32_t n)
{
    uint32_t i;
    r->op = op;
    r->file = file->id;
    r->offset = offset;
    r->length = 0;
    for (i = 0; i < n; i++)
        r->length += iov[i].size;
    r->iov = iov;
    r->iov_count = n;
    snic_filelib_submit(file->group, &r, 1);
}

/* ---- State ---- */

struct snic_filelib_stats {
    uint64_t submitted;
    uint64_t completed;
    uint64_t errors;
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t copied_bytes; /**< payload moved by the CPU on this side     */
    uint64_t parts;        /**< messages beyond the first of long requests */
    uint64_t waits;        /**< requests that found the ring or depth full, or no credit */
    uint64_t held;         /**< times that a tenant's requests were held for want of credit */
    uint64_t crowded;      /**< submits while opts.threads others were under way */
    uint64_t outstanding;
    uint32_t device_align;  /**< what the service's device wants, 0 before `opened`. Where
                                 payload_align is less, it copies each request's bytes */
    uint32_t payload_align; /**< the group's                                       */
};
/** Copy the counters. [owner] */
SNIC_API void snic_filelib_get_stats(const struct snic_filelib *g, struct snic_filelib_stats *out)
    SNIC_NONNULL(1, 2);
/** 0 while the group lives, else the SNIC_E* that opts.closed got as its reason. [owner] */
SNIC_API int snic_filelib_state(const struct snic_filelib *g) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FILELIB_H */
