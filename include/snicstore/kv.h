/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/kv.h
 * The door to key-value stores: one handle is one store.
 *
 * Depends on  snicstore/base.h, snicstore/kvop.h, snicstore/loop.h, snicstore/io.h.
 * Memory      Backends allocate at open, and wrapped libraries as they do. Requests are the
 *             caller's, borrowed from accepted submit until `done`; so is all they name.
 * Threads     All calls on the owner thread of the handle's loop.
 * Progress    No call blocks, except open and close.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes, ns.
 *
 * What the operations mean is kvop.h's. Every accepted request completes exactly once, from the
 * loop, never inside submit; also after cancel and close. An operation of malformed contents is
 * accepted and completes with snic_kvop_validate()'s error, so that every error takes one path.
 */
#ifndef SNIC_KV_H
#define SNIC_KV_H

#include "snicstore/base.h"
#include "snicstore/io.h"
#include "snicstore/kvop.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_kv_req;
typedef void (*snic_kv_done_fn)(struct snic_kv_req *req);

/** Zero it, set done and op, submit; embed it and use SNIC_CONTAINER in done. */
struct snic_kv_req {
    struct snic_node node; /**< the door's while the request is borrowed                    */
    snic_kv_done_fn done;
    struct snic_kvop *op; /**< borrowed; its results are set when done is called              */
    uint64_t timeout_ns;  /**< 0: the handle's. A request not done by then completes with
                               SNIC_ETIMEDOUT, or SNIC_EUNKNOWN where it may have happened    */
    uint64_t queued_ns;   /**< out: accepted                                              */
    uint64_t done_ns;     /**< out: completed                                             */
    uint64_t backend[12]; /**< the backend's while borrowed                               */
};

struct snic_kv_stats {
    uint64_t submitted;
    uint64_t completed;
    uint64_t errors; /**< failed guards and missing records are none                      */
    uint64_t gets;   /**< keys asked for                                                  */
    uint64_t scans;
    uint64_t commits;
    uint64_t guards_failed;
    uint64_t object_reads;
    uint64_t object_writes;
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t syncs;
    uint64_t store_ops;  /**< operations sent to the store proper: RADOS operations, transactions */
    uint64_t queue_high; /**< most requests in flight at once                               */
};

struct snic_kv;

struct snic_kv_ops {
    uint32_t ops_size;
    uint32_t reserved;
    const char *name;
    int (*submit)(struct snic_kv *kv, struct snic_kv_req **reqs, uint32_t n);
    void (*cancel)(struct snic_kv *kv, struct snic_kv_req *req);
    int (*sole)(struct snic_kv *kv);
    void (*close)(struct snic_kv *kv);
};

/** Every backend's handle begins with this; read-only for users. */
struct snic_kv {
    const struct snic_kv_ops *ops;
    struct snic_loop *loop;
    uint32_t caps;
    uint32_t depth_max;    /**< requests it accepts in flight                           */
    uint32_t stripe_bytes; /**< object bytes [0, stripe_bytes) live beside the group's records */
    uint32_t transfer_optimal; /**< object transfers of this size are served best              */
    uint64_t timeout_ns;       /**< of requests that name none                              */
    struct snic_kv_stats stats;
    /** With SNIC_KV_CAP_FENCE: what SNIC_KVOP_FENCE of another handle names this one by. */
    uint32_t identity_size;
    char identity[SNIC_KVOP_IDENTITY_MAX];
};

/**
 * Hand over up to @p n requests, in order; those accepted are borrowed until done. [owner]
 * @return requests accepted; 0 full, come back after a completion; SNIC_EIO the handle is dead;
 *         SNIC_ECANCELED it is closing
 */
static inline int snic_kv_submit(struct snic_kv *kv, struct snic_kv_req **reqs, uint32_t n)
{
    return kv->ops->submit(kv, reqs, n);
}
/** Request @p req to end early; it completes with its result or SNIC_ECANCELED. [owner] */
static inline void snic_kv_cancel(struct snic_kv *kv, struct snic_kv_req *req)
{
    kv->ops->cancel(kv, req);
}
/**
 * 1: certainly no other handle, in this process or another, has the store open, nor will one be
 * served before control returns to the loop. 0: another has, or it is unknown (RADOS). What a user
 * caches in memory while it is sole is valid until this returns 0. [owner]
 */
static inline int snic_kv_sole(struct snic_kv *kv)
{
    return kv->ops->sole(kv);
}
/**
 * Refuse new requests, run the loop until all accepted ones have completed (their done is called),
 * make everything durable, free the handle. Not from inside a done. [owner]
 */
static inline void snic_kv_close(struct snic_kv *kv)
{
    if (kv != NULL)
        kv->ops->close(kv);
}

/* ---- mem: a deterministic store with fault plans ---- */

/**
 * The medium. It outlives the handles opened on it. Two states: what reads see and what is
 * durable; a crash restores the durable one plus a prefix of the changes after it (commits and
 * object operations survive in the order they were made, each whole or not at all; object writes
 * of several blocks by block). Memory of deleted records of up to 1 KiB is reused for others, 32
 * KiB by 32 KiB for any size; it is returned to the system when the medium is closed.
 */
struct snic_kvmem;

/** Zero the struct, then set opts_size. */
struct snic_kvmem_opts {
    uint32_t opts_size;
    uint32_t caps;  /**< offered; default ATOMIC_MULTI|ATOMIC_BLOCK|CHECKSUM|ALLOC|DURABLE|SHARED;
                         also ATOMIC_OBJECT, FENCE, READONLY                              */
    uint64_t space; /**< bytes; then SNIC_ENOSPC; default 64 GiB                      */
    uint64_t seed;  /**< delays                                                       */
    uint64_t delay_min_ns; /**< each request of a handle takes a time in [min, max]; default 0, 0 */
    uint64_t delay_max_ns;
    uint32_t stripe_bytes; /**< default 4 MiB                                            */
    uint32_t track;        /**< 1: keep what crashes need (the durable state); 0: faster     */
};

enum snic_kv_fault_kind {
    SNIC_KV_FAULT_ERROR = 1,   /**< complete with `error`, nothing done                     */
    SNIC_KV_FAULT_DELAY = 2,   /**< complete `delay_ns` later                               */
    SNIC_KV_FAULT_UNKNOWN = 3, /**< done, but completes with SNIC_EUNKNOWN                   */
    SNIC_KV_FAULT_CRASH = 4    /**< crash before this one takes effect: everything completes with
                                    SNIC_EPEERDEAD until snic_kvmem_restart()               */
};

/** Operations count when they take effect. Changes are COMMIT and OBJECT_* that change. */
struct snic_kv_fault {
    uint32_t kind;
    uint32_t kinds;  /**< bit set of 1 << enum snic_kvop_kind it applies to; 0: all          */
    uint64_t after;  /**< fires at the after-th matching one from now, 1 = next               */
    uint64_t repeat; /**< further firings; UINT64_MAX: forever                               */
    int32_t error;
    uint32_t reserved;
    uint64_t delay_ns;
    uint64_t keep; /**< CRASH: changes since the last sync that survive; UINT64_MAX: all      */
};

/** Make an empty medium; @p o is copied. [owner] @return 0; SNIC_EINVAL an option; SNIC_ENOMEM */
SNIC_API SNIC_NODISCARD int snic_kvmem_open(struct snic_kvmem **out,
                                            const struct snic_kvmem_opts *o) SNIC_NONNULL(1, 2);
/** All handles on it must be closed before. [owner] */
SNIC_API void snic_kvmem_close(struct snic_kvmem *m);
/**
 * Execute @p op now, without handle or loop: for tests of engines, and for tools. Faults apply,
 * except for delays. [owner]
 */
SNIC_API void snic_kvmem_apply(struct snic_kvmem *m, struct snic_kvop *op) SNIC_NONNULL(1, 2);
/**
 * Add a fault (copied). [owner]
 * @return 0; SNIC_EINVAL kind, after 0, an `error` that is none, or CRASH without track;
 *         SNIC_ENOSPC over 64 of them
 */
SNIC_API SNIC_NODISCARD int snic_kvmem_fault(struct snic_kvmem *m, const struct snic_kv_fault *f)
    SNIC_NONNULL(1, 2);
/** Forget all faults that have not fired. [owner] */
SNIC_API void snic_kvmem_faults_clear(struct snic_kvmem *m) SNIC_NONNULL(1);
/** Crash now; the first @p keep changes since the last sync survive. Needs track. [owner] */
SNIC_API void snic_kvmem_crash(struct snic_kvmem *m, uint64_t keep) SNIC_NONNULL(1);
/** Serve requests again after a crash; handles opened before it fail all with SNIC_EPEERDEAD.
    [owner] */
SNIC_API void snic_kvmem_restart(struct snic_kvmem *m) SNIC_NONNULL(1);
/** Changes made since open. [owner] */
SNIC_API uint64_t snic_kvmem_changes(const struct snic_kvmem *m) SNIC_NONNULL(1);
/** Of these, changes since the last sync. [owner] */
SNIC_API uint64_t snic_kvmem_unsynced(const struct snic_kvmem *m) SNIC_NONNULL(1);
/** 1: a client of this identity was fenced (SNIC_KVOP_FENCE). The last 64 are remembered. [owner]
 */
SNIC_API int snic_kvmem_fenced(const struct snic_kvmem *m, const void *identity, uint32_t size)
    SNIC_NONNULL(1, 2);
/** A copy of what reads see, without faults and handles. [owner] @return 0; SNIC_ENOMEM */
SNIC_API SNIC_NODISCARD int snic_kvmem_clone(const struct snic_kvmem *m, struct snic_kvmem **out)
    SNIC_NONNULL(1, 2);
/** A number that is equal for equal records, object bytes and space taken. [owner] */
SNIC_API uint64_t snic_kvmem_digest(const struct snic_kvmem *m) SNIC_NONNULL(1);
/**
 * Damage an object's byte, not its checksum, for tests. [owner]
 * @return 0; SNIC_ENOENT no block is stored there
 */
SNIC_API int snic_kvmem_damage(struct snic_kvmem *m, uint64_t object, uint64_t offset)
    SNIC_NONNULL(1);
/**
 * Damage a record likewise, until it is put or deleted. [owner]
 * @return 0; SNIC_ENOENT no such record
 */
SNIC_API int snic_kvmem_damage_record(struct snic_kvmem *m, const struct snic_kvop_key *key)
    SNIC_NONNULL(1, 2);
/** Structural check. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_kvmem_check(const struct snic_kvmem *m) SNIC_NONNULL(1);

/**
 * A handle on a medium, borrowed until it closes. [owner]
 * @return 0; SNIC_EBUSY crashed; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_kv_mem_open(struct snic_kv **out, struct snic_loop *l,
                                             struct snic_kvmem *m) SNIC_NONNULL(1, 2, 3);

/* ---- lmdb: one machine, durable ---- */

#define SNIC_KV_OPEN_CREATE (1u << 0)
#define SNIC_KV_OPEN_READONLY (1u << 1)
/** Refuse to share: SNIC_EBUSY when another handle has it, and others get SNIC_EBUSY. */
#define SNIC_KV_OPEN_SOLE (1u << 2)
/**
 * Check every page of data.mdb first. LMDB trusts its pages, and a damaged one ends the process;
 * with this it is SNIC_ECORRUPT, and the text names the page. Reads all records: for tools.
 */
#define SNIC_KV_OPEN_VERIFY (1u << 3)

/**
 * A folder with LMDB's data.mdb and lock.mdb, the object file `objects`, and `session.lock`; CREATE
 * refuses a data.mdb or `objects` that is not of such a store. LMDB is used without NOSYNC and
 * WRITEMAP. Only on local file systems, by processes of one host and PID namespace; a process opens
 * a store once. LMDB reads through a mapping: a record that is not in the page cache costs the
 * owner's thread a read of the disk.
 *
 * Sole: commits are gathered in memory, visible to this handle's reads, and written in one LMDB
 * transaction on SYNC or DURABLE, after batch_ns (forty times that if it names new object bytes,
 * for it costs a flush of the object file), or when they are half of batch_bytes. With two such
 * batches full commits wait. A crash of the process or the machine leaves a prefix of the commits
 * and of the operations that take or free space of objects, in the order they completed; zeros over
 * a part of a block (TRUNCATE, PUNCH, ZERO) wait until all that completed before is durable.
 *
 * Shared: while another handle has the store open a commit completes after its LMDB transaction.
 * Handles use an object alternately. Object bytes become durable as in sole mode, by SYNC or
 * DURABLE. SPACE may report the free space of 100 ms ago.
 *
 * From sole to shared: a newcomer's open waits (at most its timeout_ns) until the sole handle has
 * made all durable, which that one begins in its calls or within 100 ms in its loop; snic_kv_sole()
 * returns 0 from then on. Its earlier result is valid until control returns to the loop. A handle
 * that remains as the only one is sole again after about a second; it then scans the maps of all
 * objects.
 *
 * Objects: 8 KiB blocks with a CRC32C each in the data base. A block is overwritten in place: a
 * crash leaves its old bytes, its new ones, or, after power loss, a torn mix of the two (no
 * ATOMIC_BLOCK). Checksums of blocks overwritten in place are kept in memory and written some
 * seconds after the last such write, on close, or when memory is needed; until then a durable mark
 * is set on their 16 MiB of the file. After a crash blocks under marks are accepted as they are,
 * and get a checksum when they are next read or written; all other blocks must match, or reading
 * them is SNIC_ECORRUPT. The same applies to blocks overwritten while the store was shared. Records
 * have a CRC32C, too, and a damaged one is reported as kvop.h specifies. If LMDB's own pages are
 * damaged, an operation that reads them fails with SNIC_ECORRUPT as a whole, also SCAN; the damage
 * is not found before it is read, and cannot always be distinguished from a defect of LMDB.
 *
 * The file `objects` is sparse and as long as the disk is large: its space is taken in steps of 16
 * MiB. A step without blocks in use is returned to the disk when that is durable, except for 64 MiB
 * of them, which are returned at close; not while other handles have the store open, but when one
 * is sole again. Free blocks in a step with others in use stay the store's. An open handle must not
 * be used across fork(). Time-outs: a request that waits for a batch ends at its time-out; a
 * transfer that has begun is waited for.
 *
 * A full disk: objects take no more space when 32 MiB are left, and SPACE's free bytes are those
 * that they can have; new records are refused with SNIC_ENOSPC at 16 MiB. The rest is for changes
 * that take no space (removals, replaced records, bytes overwritten in place or where ALLOC was)
 * and for RESERVE. If the disk is full nevertheless, SYNC fails with SNIC_ENOSPC and DURABLE with
 * SNIC_EUNKNOWN (it took effect in memory), and a sole handle retries the batch until there is
 * space. A shared handle drops it: the commits in it fail with SNIC_ENOSPC and change nothing.
 * After any other error of a flush or transaction the handle is dead: everything ends with SNIC_EIO
 * until the store is opened anew.
 *
 * Zero the struct, then set opts_size and path.
 */
struct snic_kv_lmdb_opts {
    uint32_t opts_size;
    uint32_t flags;        /**< SNIC_KV_OPEN_*                                            */
    const char *path;      /**< folder; borrowed for the call                              */
    uint64_t map_bytes;    /**< most bytes of records; address space only; default 64 GiB   */
    uint64_t object_bytes; /**< most bytes of objects; default: what the disk has           */
    uint64_t batch_ns;     /**< default 5 ms                                              */
    uint64_t batch_bytes;  /**< of commits in memory; default 32 MiB                        */
    uint64_t timeout_ns;   /**< default 30 s                                              */
    uint32_t depth;        /**< default 4096                                              */
    uint32_t reserved;
    /**
     * Wraps the object file's handles (buffered and O_DIRECT), for tests that record or fail them;
     * NULL: none. FLUSH of either is one of the file.
     */
    struct snic_io *(*wrap)(void *ctx, struct snic_io *objects);
    void *wrap_ctx;
};

/**
 * @p error (may be NULL) gets the raw code; @p text (may be NULL) an error message of at most
 * @p text_size bytes with its end, cut if longer: 256 hold all. Needs an io_uring loop. [owner]
 * @return 0; SNIC_EINVAL options; SNIC_ENOENT no store in the folder, and no CREATE; SNIC_EACCES no
 *         permission; SNIC_EBUSY another handle has it with SOLE, or did not give way, or SOLE and
 *         another has it; SNIC_EVERSION another version; SNIC_ECORRUPT not such a store, or
 *         damaged; SNIC_ENOSPC the disk is full; SNIC_ENOTSUP built without LMDB, or a file system
 *         without what it needs (network ones); SNIC_ENOMEM; SNIC_EIO, or the system's other error
 */
SNIC_API SNIC_NODISCARD int snic_kv_lmdb_open(struct snic_kv **out, struct snic_loop *l,
                                              const struct snic_kv_lmdb_opts *o, int *error,
                                              char *text, size_t text_size) SNIC_NONNULL(1, 2, 3);

/* ---- rados: Ceph ---- */

/**
 * A group is the RADOS object "g.<16 hex digits>" with its records as omap and the bytes [0, 4 MiB)
 * of the snicstore object of that number as its data; stripe n beyond is "o.<16 hex>.<10 hex>".
 * Each stripe carries the map of its blocks; the group's object lists the stripes.
 *
 * RADOS operations: a commit is one, also with object bytes of the first stripe of its own group,
 * or a truncation that begins there: the walk through further stripes follows it;
 * GET is one for each group, all at the same time; a READ or WRITE is one for each stripe, a WRITE
 * that creates a stripe beyond the first two. A stripe that this handle has not used before may
 * cost one more, to read its state; so does one that another handle has changed. PUNCH, TRUNCATE,
 * STAT and SEEK walk the list, two for each stripe. A commit that only deletes is followed by one
 * or two in the background that remove the object of an empty group.
 *
 * FENCE puts a client on the cluster's block list for 30 days. A process that has been stopped for
 * longer must be killed, not resumed: its writes would take effect. The identity is the address of
 * its librados instance. The user's key needs, beside read and write in the pool, the right to
 * do that: mon 'profile rbd', or mon 'allow r, allow command "osd blocklist"'; a handle without it
 * is not opened, unless READONLY. A handle that was fenced gets SNIC_ESHUTDOWN for ever.
 *
 * Blocks have no checksums of ours: BlueStore has its own. GROUPS lists the whole pool.
 * A stripe that one handle creates while another removes the whole object may stay unlisted: its
 * space is then neither counted nor freed.
 * Zero the struct, then set opts_size and pool.
 */
struct snic_kv_rados_opts {
    uint32_t opts_size;
    uint32_t flags;   /**< SNIC_KV_OPEN_READONLY                                          */
    const char *conf; /**< ceph.conf; NULL: CEPH_CONF or the default places                */
    const char *pool;
    const char *user;    /**< NULL: "admin"                                                  */
    const char *space;   /**< RADOS namespace, so that several stores share a pool; NULL: ""  */
    uint64_t timeout_ns; /**< default 30 s                                                  */
    uint32_t depth;      /**< default 1024                                                   */
    uint32_t reserved;
};

/**
 * @p o is borrowed for the call; @p error (may be NULL) gets the raw code; @p text (may be NULL) an
 * error message of at most @p text_size bytes with its end, cut if longer. Blocks; without a
 * cluster it gives up after timeout_ns. [owner]
 * @return 0; SNIC_EINVAL options; SNIC_ENOENT no such pool, or no conf; SNIC_EACCES the cluster
 *         refuses the user, or that it fences others; SNIC_ETIMEDOUT no answer within timeout_ns;
 *         SNIC_ENOTSUP built without librados; SNIC_ENOMEM; SNIC_EIO, or the cluster's other error
 */
SNIC_API SNIC_NODISCARD int snic_kv_rados_open(struct snic_kv **out, struct snic_loop *l,
                                               const struct snic_kv_rados_opts *o, int *error,
                                               char *text, size_t text_size) SNIC_NONNULL(1, 2, 3);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_KV_H */
