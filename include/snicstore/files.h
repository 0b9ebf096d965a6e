/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/files.h
 * The DPU's file service: files of fixed-length segments in flat directories on
 * one io handle, with metadata that survives power loss at any write.
 *
 * Depends on  snicstore/base.h, loop.h, io.h, channel.h (serving hosts only).
 * Memory      Caller-owned: probe, memsize, mount. Nothing is allocated after.
 *             Requests are the caller's, borrowed with the memory they name from
 *             submit until `done`.
 * Threads     All calls on the owner thread of the io handle's loop.
 * Progress    Format, probe, examine, mount and unmount, snic_files_run() and
 *             snic_files_server_close() iterate the loop until they are done; no
 *             other call blocks. See "The order of a DPU thread" below.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes. Names are bytes with a length, not C strings.
 * Input       Images and host messages are hostile: a damaged image is refused,
 *             never followed; a wrong message is answered with an error.
 *
 * What is promised
 * - Control operations (MKDIR, RMDIR, CREATE, DELETE, RENAME, TRUNCATE,
 *   PREALLOC) are atomic, and durable when they complete. After power loss the
 *   image is in the state of the last completed one, or of a later one that was
 *   still under way; never between.
 * - WRITE completes when the device has the bytes: they are read back until the
 *   power fails. With SNIC_FILES_SYNC it completes when the bytes, and the
 *   metadata needed to find them, survive power loss. FSYNC does so for every
 *   WRITE of the file that completed before the FSYNC was submitted.
 * - Bytes never written read as zeros, also after power loss: metadata never
 *   becomes durable before the data below it, so no file shows another's bytes.
 * - A WRITE past the end grows the file. It fails with SNIC_ENOSPC before
 *   anything changes when the segments it needs are not there. READ past the
 *   end is short.
 * - File and directory ids are never used twice.
 * - A segment freed by DELETE, TRUNCATE or a replacing RENAME is used again only
 *   when the freeing is durable and every READ and WRITE that was submitted
 *   before it has completed: a reader never sees another file's bytes.
 * - Requests are unordered among each other, with one exception: TRUNCATE waits
 *   for the file's WRITEs submitted before it, and later ones wait for it.
 *
 * What SYNC costs. Inside space that already is on the device (PREALLOC, or
 * written and synced before) a SYNC write is the data write and one flush, or
 * one FUA write where the device can: no metadata. A SYNC write that grows the
 * file is data, flush, journal write, flush; concurrent ones share them. So a
 * log preallocates its files, and writes whole blocks (info.block): edges of
 * partial blocks are read, modified and written through bounce buffers.
 *
 * The order of a DPU thread. Calls that iterate the loop make their thread its
 * owner for good (io_uring), and let events of other doors come meanwhile. So all
 * of this is one thread's, and hosts are let in when the files are there:
 *
 *   1 snic_io_uring_open()
 *   2 snic_files_probe(); at SNIC_ENOENT (no image, but maybe something else that
 *     a format would overwrite) snic_files_format(), and probe again
 *   3 snic_files_memsize(), snic_files_mount()
 *   4 the dma link: snic_dma_local_open(), or snic_dma_shm_listen(), whose accept
 *     does step 5 for each link
 *   5 snic_channel_hub_init() before the loop runs on; the hub's accept calls
 *     snic_files_serve()
 *   6 snic_loop_run()
 *   7 snic_files_server_close() for each; iterate until snic_channel_hub_count()
 *     is 0: what was answered has arrived; snic_channel_hub_fini()
 *   8 snic_files_unmount(), snic_io_close(), snic_loop_close()
 *
 * examples/files_local.c is this in full, with the host's side.
 */
#ifndef SNIC_FILES_H
#define SNIC_FILES_H

#include "snicstore/base.h"
#include "snicstore/loop.h"
#include "snicstore/io.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory. Must not be moved or copied once mounted. */
struct snic_files;
struct snic_channel;
struct snic_channel_hub;
struct snic_channel_offer;

/** Alignment of the memory passed to snic_files_mount(), in bytes. */
#define SNIC_FILES_ALIGN 4096
/** Longest name; 1..255 bytes without '/' and NUL, not "." or "..". */
#define SNIC_FILES_NAME_MAX 255
/** The directory that is always there. Other directories hang on it, flat. */
#define SNIC_FILES_ROOT ((uint64_t)0)
/** Bytes of the opaque tag that a request carries to the hooks. */
#define SNIC_FILES_TAG_BYTES 16

/* ---- Images ---- */

/** Fixed at format. Zero the struct and set opts_size; zeros take the defaults. */
struct snic_files_format_opts {
    uint32_t opts_size;
    uint32_t segment_bytes; /**< power of two, block..1 GiB; default 1 MiB                   */
    uint32_t block_bytes;   /**< metadata block, power of two 4096..16384, at least the
                                 device's alignment; default 4096                            */
    uint32_t files_max;     /**< 1..2^23; default 4096                                       */
    uint32_t dirs_max;      /**< without the root, 1..2^20; default 256                      */
    uint32_t reserved;      /**< must be 0                                                   */
    uint64_t journal_bytes; /**< both halves; default from the size of the tables            */
    uint64_t image_id;      /**< any number that identifies the image; for the user          */
};

/** What probe finds; the numbers are validated. */
struct snic_files_info {
    uint64_t image_id;
    uint64_t size;          /**< bytes of the image                                */
    uint64_t data_offset;   /**< of segment 0                                      */
    uint64_t segments;      /**< all of them                                       */
    uint64_t journal_bytes; /**< both halves                                       */
    uint32_t segment_bytes;
    uint32_t block_bytes; /**< metadata block                                    */
    uint32_t files_max;
    uint32_t dirs_max;
    uint32_t version; /**< of the format                                     */
    uint32_t reserved;
};

/**
 * Write an empty image. Power loss during it leaves no image at all. Blocks. @p o is borrowed
 * for the call. [owner]
 * @return 0; SNIC_EINVAL an option, or the device's alignment is above the block;
 *         SNIC_ENOSPC device too small; SNIC_EIO, or the device's other error, a write or flush
 *         failed
 */
SNIC_API SNIC_NODISCARD int snic_files_format(struct snic_io *io,
                                              const struct snic_files_format_opts *o)
    SNIC_NONNULL(1, 2);
/**
 * Read and validate the superblock. Blocks. [owner]
 * One good copy of it is enough; two that differ are not believed.
 * @return 0; SNIC_ENOENT no image here; SNIC_EVERSION of another version;
 *         SNIC_ECORRUPT neither copy is good, or two good ones differ; SNIC_EINVAL the
 *         device's alignment is above the block; SNIC_ERANGE the device is smaller than the
 *         image; SNIC_EIO, or the device's other error, a read failed and the other copy is
 *         not good
 */
SNIC_API SNIC_NODISCARD int snic_files_probe(struct snic_io *io, struct snic_files_info *out)
    SNIC_NONNULL(1, 2);

/* ---- Hooks: how the offload engine learns what hosts do ---- */

/** A host's READ or WRITE as hooks see it; borrowed for the call. */
struct snic_files_hook_op {
    uint8_t op; /**< SNIC_FILES_READ or SNIC_FILES_WRITE                                      */
    uint8_t priority;
    uint16_t flags; /**< SNIC_FILES_SYNC                                                       */
    uint32_t tenant;
    uint64_t file;
    uint64_t offset;
    uint64_t length;     /**< of the host's whole request                                     */
    const void *payload; /**< WRITE: the bytes, hostile and possibly changing; NULL when the
                              request was longer than a message and arrived in parts        */
    struct snic_io *io;  /**< the device under the service                                   */
    uint8_t tag[SNIC_FILES_TAG_BYTES];
};

/**
 * Called on the loop's thread for requests of hosts, not for snic_files_submit().
 * Each may be NULL. A hook may submit requests.
 */
struct snic_files_hooks {
    /** A WRITE has reached the state it promises (SYNC: durable); its response follows. */
    void (*written)(void *ctx, const struct snic_files_hook_op *op);
    /** A READ was taken and is about to be submitted. */
    void (*read)(void *ctx, const struct snic_files_hook_op *op);
    /**
     * A host's `cache` message: @p count keys and items, packed one after another.
     * @return 0 or SNIC_E* for the host; keys are hostile bytes, sizes are checked
     *         against nothing but the message.
     */
    int (*cache)(void *ctx, const void *keys, uint32_t key_size, const void *items,
                 uint32_t item_size, uint32_t count, uint64_t version);
    /** A host's `invalidate` message; its completion follows. @return 0 or SNIC_E* for the host */
    int (*invalidate)(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                      uint64_t version);
    /** A host's `invalidate all` message. @return 0 or SNIC_E* for the host */
    int (*invalidate_all)(void *ctx, uint64_t version);
    void *ctx;
};

/* ---- Mounting ---- */

struct snic_files_mount_opts {
    uint32_t opts_size;
    uint32_t depth;         /**< device requests in flight, 4..4096; default 256               */
    uint32_t bounce_count;  /**< bounce buffers, 2..1024; default 16                           */
    uint32_t bounce_bytes;  /**< of one, power of two, block..1 MiB; default 64 KiB            */
    uint32_t flags;         /**< must be 0                                                     */
    uint32_t sync_delay_us; /**< dirty metadata is committed after this at the latest; default
                                 1000000; UINT32_MAX: only when a request waits for it         */
    struct snic_files_hooks hooks; /**< copied                                                 */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_files_mount_opts_wrong(const struct snic_files_info *info,
                                                 const struct snic_files_mount_opts *o)
    SNIC_NONNULL(1);
/** Bytes that mounting needs, or 0 when an option is invalid. @p o may be NULL. [any] */
SNIC_API size_t snic_files_memsize(const struct snic_files_info *info,
                                   const struct snic_files_mount_opts *o) SNIC_NONNULL(1);
/**
 * Mount: read the newest checkpoint, replay the journal, check everything. Blocks. [owner]
 * @param mem  at least memsize bytes aligned to SNIC_FILES_ALIGN, owned until unmount
 * @param io   borrowed until unmount; no other user writes to it
 * @param o    copied; may be NULL: defaults
 * @return 0; SNIC_EINVAL options or alignment, or the device's alignment is above the block;
 *         SNIC_ENOSPC @p mem_size small; SNIC_ECORRUPT an invalid structure, superblock
 *         included (snic_files_examine() names it); SNIC_ENOENT no image here; SNIC_EVERSION an
 *         image of another version; SNIC_ERANGE the device is smaller than the image;
 *         SNIC_EIO, or the device's other error, a read failed
 */
SNIC_API SNIC_NODISCARD int snic_files_mount(struct snic_files **out, void *mem, size_t mem_size,
                                             struct snic_io *io,
                                             const struct snic_files_mount_opts *o)
    SNIC_NONNULL(1, 2, 4);
/**
 * Complete everything submitted, make all of it durable, and give the memory
 * back. Servers must be closed before. Blocks. [owner]
 * @return 0; SNIC_EIO the device failed, or had failed: some completed, un-synced
 *         writes may be lost (the image is intact)
 */
SNIC_API int snic_files_unmount(struct snic_files *f) SNIC_NONNULL(1);
/** Replace the hooks (copied; their ctx is passed to them). Not from inside a hook. [owner] */
SNIC_API void snic_files_set_hooks(struct snic_files *f, const struct snic_files_hooks *hooks)
    SNIC_NONNULL(1, 2);

/* ---- Requests ---- */

enum snic_files_op_kind {
    /* data */
    SNIC_FILES_READ = 1,  /**< file, offset, length, buf or iov -> bytes, short at the end        */
    SNIC_FILES_WRITE = 2, /**< file, offset, length, buf or iov, flags -> length                  */
    SNIC_FILES_FSYNC = 3, /**< file -> 0                                                          */
    /* control */
    SNIC_FILES_MKDIR = 8,     /**< name -> 0, id                                                  */
    SNIC_FILES_RMDIR = 9,     /**< name -> 0                                                      */
    SNIC_FILES_CREATE = 10,   /**< dir, name, flags -> 0, id                                      */
    SNIC_FILES_DELETE = 11,   /**< dir, name; or file when name_size is 0 -> 0                    */
    SNIC_FILES_RENAME = 12,   /**< dir, name, dir2, name2, flags -> 0                             */
    SNIC_FILES_TRUNCATE = 13, /**< file, length -> 0; grows with a hole                           */
    SNIC_FILES_PREALLOC = 14, /**< file, offset, length -> 0: the range holds space of its own,
                                   unwritten bytes are zeros, the size is at least its end        */
    /* looking */
    SNIC_FILES_OPEN = 20, /**< dir, name -> 0, id, size, kind: of a file or a directory           */
    SNIC_FILES_STAT = 21, /**< file -> 0, size, kind, allocated                                   */
    SNIC_FILES_LIST = 22  /**< dir, offset (cursor, 0 to start), buf -> bytes of entries (0: end),
                               cursor; see snic_files_entry_next(). Looks at 1024 nodes of the
                               image per iteration of the loop                                    */
};

/** WRITE: complete when it survives power loss. */
#define SNIC_FILES_SYNC (1u << 0)
/** CREATE: a file of this name may exist, its id is returned. RENAME: replace the target file. */
#define SNIC_FILES_REPLACE (1u << 1)

enum snic_files_kind { SNIC_FILES_FILE = 1, SNIC_FILES_DIR = 2 };

struct snic_files_req;
typedef void (*snic_files_done_fn)(struct snic_files_req *req);

/** The service's part of a request. */
struct snic_files_private {
    uint64_t pos; /* bytes of the request that were issued */
    uint64_t end; /* bytes to move                         */
    uint64_t control_ticket;
    uint64_t dirty_ticket;
    uint64_t flush_ticket;
    uint64_t piece_offset;
    uint32_t piece;
    uint32_t inflight;
    uint32_t node;
    int32_t error;
    uint32_t state;
    uint32_t parity;
    uint32_t unflushed;
    uint32_t pieces; /* made so far                    */
};

/**
 * snic_files_req_init(), fill the first part, submit; embed it and use SNIC_CONTAINER in done.
 * Zeros alone will not do for READ and WRITE: 0 names the first registered region, and on
 * io_uring they end with SNIC_EFAULT when their memory is not there. None is SNIC_NO_REGION.
 */
struct snic_files_req {
    struct snic_node node; /**< the service's while the request is borrowed              */
    snic_files_done_fn done;
    uint8_t op;       /**< enum snic_files_op_kind                                   */
    uint8_t priority; /**< passed to io                                              */
    uint16_t flags;   /**< SNIC_FILES_SYNC, SNIC_FILES_REPLACE                       */
    uint32_t tenant;  /**< passed to io                                              */
    uint64_t file;    /**< id                                                        */
    uint64_t dir;
    uint64_t dir2;
    uint64_t offset;
    uint64_t length; /**< READ, WRITE: the sum of the pieces                        */
    struct snic_iov buf;
    struct snic_iov *iov; /**< pieces, borrowed until done, or NULL                      */
    uint32_t iov_count;   /**< 0 when iov is NULL, else 1..SNIC_IO_IOV_MAX               */
    int32_t region;       /**< registered region that holds all pieces, or SNIC_NO_REGION */
    const void *name;
    const void *name2;
    uint32_t name_size;
    uint32_t name2_size;
    uint8_t tag[SNIC_FILES_TAG_BYTES]; /**< carried                                      */
    /* -- results -- */
    int64_t result;     /**< bytes or 0, or SNIC_E*                                   */
    int32_t os_error;   /**< raw code of the device's backend, 0 if none              */
    uint32_t kind;      /**< enum snic_files_kind                                     */
    uint64_t id;        /**< of the file or directory                                 */
    uint64_t size;      /**< of the file                                              */
    uint64_t allocated; /**< bytes of segments it holds                               */
    uint64_t cursor;    /**< LIST: for the next call                                  */
    uint64_t done_ns;
    uint32_t credit; /**< READ, WRITE: how many like this one the device grants; 0: no grant */
    uint32_t reserved;
    struct snic_files_private private_;
};

/** Zeros, and no region. Not while the request is borrowed. [any] */
static inline void snic_files_req_init(struct snic_files_req *req)
{
    memset(req, 0, sizeof(*req));
    req->region = SNIC_NO_REGION;
}

/**
 * Hand over requests; all are accepted. Alignment is free: what the device
 * cannot take directly goes through bounce buffers. `done` is called from the
 * loop, never from here; it may submit again. Errors arrive in result: [owner]
 * SNIC_EINVAL op, flags, pieces, name, or RENAME of a directory below another;
 * SNIC_ENOENT no such file, directory or name, or the file was deleted meanwhile;
 * SNIC_EEXIST the name exists (CREATE, RENAME: without REPLACE; RENAME of a directory);
 * SNIC_EISDIR a directory where a file is needed; SNIC_ENOTDIR a file where a directory is;
 * SNIC_ENOTEMPTY RMDIR: it has files; SNIC_ENAMETOOLONG above SNIC_FILES_NAME_MAX;
 * SNIC_EFBIG end beyond 2^32 - 2 segments; SNIC_ENOSPC no segment, or files_max or
 * dirs_max reached; SNIC_EMSGSIZE LIST: buffer too small for one entry; SNIC_EFAULT the
 * memory is not in the request's region; SNIC_EIO the device failed (or its other error):
 * after a failed metadata write every operation but READ, OPEN, STAT and LIST ends so,
 * until the image is mounted anew.
 */
SNIC_API void snic_files_submit(struct snic_files *f, struct snic_files_req **reqs, uint32_t n)
    SNIC_NONNULL(1, 2);
/**
 * Submit one request and run the loop until it is done; @p req->done is not
 * called. For tools and start-up; not from inside a callback. [owner]
 * @return req->result
 */
SNIC_API int64_t snic_files_run(struct snic_files *f, struct snic_files_req *req)
    SNIC_NONNULL(1, 2);

/** One entry of a LIST; name points into the buffer. */
struct snic_files_entry {
    uint64_t id;
    uint64_t size;
    uint32_t kind; /**< enum snic_files_kind */
    uint32_t name_size;
    const char *name;
};
/**
 * Take the next entry out of @p list (the result bytes of a LIST), from *pos on,
 * which starts at 0. Checks every bound. [any]
 * @return 1 an entry; 0 the end; SNIC_EPROTO malformed
 */
SNIC_API SNIC_NODISCARD int snic_files_entry_next(const void *list, size_t size, size_t *pos,
                                                  struct snic_files_entry *out) SNIC_NONNULL(3, 4);

/* ---- State ---- */

struct snic_files_stats {
    uint64_t reads; /**< requests completed */
    uint64_t writes;
    uint64_t fsyncs;
    uint64_t controls;
    uint64_t errors;
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t direct; /**< device transfers straight from or into the caller's memory */
    uint64_t bounced;
    uint64_t bounce_bytes;
    uint64_t zero_bytes; /**< written to fill gaps and for PREALLOC      */
    uint64_t flushes;    /**< device flushes                             */
    uint64_t fua_writes;
    uint64_t commits; /**< journal writes                             */
    uint64_t records; /**< in them                                    */
    uint64_t journal_bytes;
    uint64_t checkpoints; /**< completed                                  */
    uint64_t space_waits; /**< writes that waited for freed segments      */
    uint64_t segments_free;
    uint64_t segments_limbo; /**< freed, waiting for durability or readers   */
    uint64_t files;
    uint64_t dirs;
    uint64_t in_flight;   /**< requests                                   */
    uint64_t write_looks; /**< writes in flight that writes were compared with */
    int32_t broken;       /**< 0, or the error that stopped metadata writes */
    uint32_t reserved;
};
/** Copy the counters and the present numbers. [owner] */
SNIC_API void snic_files_get_stats(const struct snic_files *f, struct snic_files_stats *out)
    SNIC_NONNULL(1, 2);
/** Copy the mounted image's info. [owner] */
SNIC_API void snic_files_get_info(const struct snic_files *f, struct snic_files_info *out)
    SNIC_NONNULL(1, 2);
/** The loop of the device. [any] */
SNIC_API struct snic_loop *snic_files_loop(const struct snic_files *f) SNIC_NONNULL(1);
/**
 * Check that every table, list, index and count is consistent. O(image). [owner]
 * @return 0; SNIC_ECORRUPT one is not
 */
SNIC_API int snic_files_check(const struct snic_files *f) SNIC_NONNULL(1);

/* ---- Looking into images: for tools ---- */

/**
 * One finding of the checker: what is wrong, and the number of the thing that is; @p error is 0
 * for a remark. A remark that begins with two blanks locates the finding before it.
 */
typedef void (*snic_files_finding_fn)(void *ctx, int error, const char *what, uint64_t number);
/**
 * Check an image without changing it and report every finding: superblocks,
 * checkpoint slots, journal, tables. @p mem, borrowed for the call: as for default options
 * (snic_files_memsize(info, NULL)); any will do when snic_files_probe() refuses the
 * image. Blocks. [owner]
 * @return 0 it can be mounted, errors found (a bad copy of the superblock) or not; else
 *         results as snic_files_mount() with default options
 */
SNIC_API SNIC_NODISCARD int snic_files_examine(struct snic_io *io, void *mem, size_t mem_size,
                                               snic_files_finding_fn finding, void *ctx)
    SNIC_NONNULL(1, 2, 4);

enum snic_files_part {
    SNIC_FILES_PART_SUPER = 1, /**< index 0, 1: copy; id, size of the image; count: segments      */
    SNIC_FILES_PART_SLOT = 2,  /**< index: slot; generation; sequence: of the first entry behind
                                    it; id: next; count: chunks                                 */
    SNIC_FILES_PART_CHUNK = 3, /**< index; generation; of the slot before                         */
    SNIC_FILES_PART_ENTRY = 4, /**< index: half of the journal; generation; sequence; id: next;
                                    count: records                                              */
    SNIC_FILES_PART_RECORD = 5,  /**< of the entry before: what it changes, index of node or segment
                                      and its new fields                                          */
    SNIC_FILES_PART_NODE = 6,    /**< a file or directory: index, id, parent, kind, name, size;
                                      count: segments                                             */
    SNIC_FILES_PART_SEGMENT = 7, /**< of the file before, in order: index, logical, size: written */
    SNIC_FILES_PART_FREE = 8 /**< count free segments from index on                             */
};

/** A part of an image; fields that its part does not name are 0. Borrowed for the call. */
struct snic_files_item {
    uint32_t part;    /**< enum snic_files_part                                             */
    int32_t error;    /**< what is wrong with it, or 0                                      */
    const char *what; /**< its state in words                                               */
    uint64_t place;   /**< byte on the device; 0 for nodes                                  */
    uint64_t bytes;
    uint64_t index;
    uint64_t generation;
    uint64_t sequence;
    uint64_t id;
    uint64_t parent;
    uint64_t size;
    uint64_t logical; /**< number of a segment in its file                                  */
    uint64_t count;
    const char *name; /**< hostile bytes when the part is wrong                             */
    uint32_t name_size;
    uint32_t kind; /**< enum snic_files_kind                                             */
};
typedef void (*snic_files_item_fn)(void *ctx, const struct snic_files_item *item);
/**
 * Show everything that lies in an image, whole or damaged, in the order of enum
 * snic_files_part; changes nothing. @p mem, borrowed for the call: at least
 * snic_files_memsize(info, NULL) bytes aligned to SNIC_FILES_ALIGN. Blocks. [owner]
 * @return 0, whatever the parts are; SNIC_EINVAL alignment of @p mem; SNIC_ENOSPC @p mem_size
 *         small; SNIC_EIO, or the device's other error, a read failed; results as
 *         snic_files_probe() when that fails, after the superblocks
 */
SNIC_API SNIC_NODISCARD int snic_files_walk(struct snic_io *io, void *mem, size_t mem_size,
                                            snic_files_item_fn item, void *ctx)
    SNIC_NONNULL(1, 2, 4);

/* ---- Serving hosts ---- */

/** The kind of channel that filelib opens and this service accepts. */
#define SNIC_FILES_CHANNEL_KIND 0x46494c45u

/** The DPU end of one notification group. Lives in caller memory. */
struct snic_files_server;

struct snic_files_server_opts {
    uint32_t opts_size;
    uint32_t depth;         /**< requests of this host in progress, 1..65536; default 256     */
    uint32_t tenant;        /**< the first of those that its requests may bear                */
    uint32_t flags;         /**< must be 0                                                    */
    uint32_t channel_flags; /**< of snic_channel_accept_opts                                  */
    uint32_t batch_bytes;   /**< of snic_channel_accept_opts                                  */
    uint32_t budget;        /**< of snic_channel_accept_opts                                  */
    /**
     * How many tenants from there on the host may choose from, by a request's tenant 0 to
     * tenants - 1; others end with SNIC_EPERM. Default 1: it cannot choose.
     */
    uint32_t tenants;
    /**
     * The channel ended, reason as in snic_channel_events.closed. Close the server soon; not
     * from inside. Requests it took run until they complete. May be NULL.
     */
    void (*gone)(void *ctx, struct snic_files_server *s, int reason);
    /** The host is attached and may send. May be NULL. */
    void (*opened)(void *ctx, struct snic_files_server *s);
    void *ctx;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_files_server_opts_wrong(const struct snic_files_server_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_files_serve() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_files_server_memsize(const struct snic_files_server_opts *o) SNIC_NONNULL(1);
/**
 * Accept the channel that a host offers and serve the host over it; only inside
 * the hub's accept event, whose return value is this one's. Several servers
 * share one service, also over several hubs on the service's loop. [owner]
 * @param mem  at least memsize bytes aligned to SNIC_CACHELINE, owned until close
 * @param o    copied
 * @return 0; SNIC_EINVAL options, alignment, another loop; SNIC_ENOSPC @p mem_size
 *         small; SNIC_ECONNREFUSED not SNIC_FILES_CHANNEL_KIND; SNIC_ENOMEM; SNIC_EPEERDEAD
 *         the link has ended; SNIC_EPROTO, SNIC_EFAULT, SNIC_EVERSION the host's offer does
 *         not hold
 */
SNIC_API SNIC_NODISCARD int snic_files_serve(struct snic_files_server **out, void *mem,
                                             size_t mem_size, struct snic_files *f,
                                             struct snic_channel_hub *hub,
                                             const struct snic_channel_offer *offer,
                                             const struct snic_files_server_opts *o)
    SNIC_NONNULL(1, 2, 4, 5, 6, 7);
/**
 * Take nothing more, run the loop until what was taken has completed, and close
 * the channel. Blocks; not from inside a callback. @return the memory [owner]
 */
SNIC_API void *snic_files_server_close(struct snic_files_server *s) SNIC_NONNULL(1);

struct snic_files_server_stats {
    uint64_t requests;
    uint64_t responses;
    uint64_t refused; /**< malformed; answered with an error if its sender is known */
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t in_progress;
};
/** Copy the counters. [owner] */
SNIC_API void snic_files_server_get_stats(const struct snic_files_server *s,
                                          struct snic_files_server_stats *out) SNIC_NONNULL(1, 2);
/** The channel under the server, for its facts and statistics. [owner] */
SNIC_API struct snic_channel *snic_files_server_channel(const struct snic_files_server *s)
    SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_FILES_H */
