/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmet.h
 * An NVMe/TCP target: NVM subsystems (nvmesub.h) whose namespaces are io handles, served on the
 * streams of a net handle (nvmetcp.h), with a discovery subsystem beside them.
 *
 * Depends on  snicstore/base.h, loop.h, io.h, net.h, nvme.h, nvme_wire.h, nvmesub.h, nvmetcp.h,
 *             nvmeauth.h.
 * Memory      The caller supplies all of it (memsize, open) and has it back when the target is
 *             closed; nothing is allocated. Nearly all of it is conns_max times one connection:
 *             data_bytes for data, 106 KiB for its commands with the defaults, nvmetcp.h's target.
 * Threads     One loop or several (below), each with its own struct snic_nvmet: [owner] is that
 *             loop's thread. What is configured, and engines, are the first one's.
 * Progress    No call blocks, except close, which turns the loop. O(1) work per command, apart
 *             from the end of a connection, O(its depth), and Connect, O(conns_max).
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds, blocks of a namespace.
 * Input       What hosts send is hostile; calls of the owner are trusted.
 *
 * Open the target on a net handle, add subsystems, then their namespaces, then listen: from then
 * on hosts are served from the loop. A namespace's requests carry the tenant
 * snic_nvmet_tenant(host NQN), which counts where its handle is one of qos.h.
 *
 * Connections. The Connect command names the subsystem; one that is not known is answered with
 * Connect Invalid Parameters. A connection without a successful Connect within greet_ns is closed.
 * When all conns_max are in use, the oldest of those, or of the discovery subsystem's, is closed to
 * make room, so that clients that only connect cannot keep hosts out; if there is none, the newest
 * client is reset. A host NQN has at most host_conns_max connections to NVM subsystems: a Connect
 * beyond is answered with Connect Controller Busy.
 *
 * Data. Each connection has data_bytes of its own, from which a command's data take a contiguous
 * piece, in the order of arrival; a write is asked for its data (R2T) when it has them, and so a
 * host that does not send, or does not read, holds nothing of another's. A write is checked before
 * its data are asked for, and again before it reaches the device.
 *
 * The end of a connection. What has not reached the device is dropped at once; what has is
 * cancelled, and the connection's slot is in use until it has ended. By a shutdown of the host, or
 * if the connection has written, all namespaces of its subsystem are flushed first: hosts close I/O
 * queues before they shut down, and a shutdown is complete when what all have written is durable.
 *
 * Loops. A target opened with loops_max above 1 may have more loops: snic_nvmet_join() each, then
 * add namespaces, then listen, then snic_nvmet_share() each port, then run each loop on a thread of
 * its own. Loops share nothing but what a subsystem publishes (nvmesub.h's view); they exchange
 * messages, posted in batches.
 *  - A connection belongs to the loop that has accepted it: its PDUs, digests and data stay there.
 *  - Controllers belong to the first loop, as do subsystems: their admin commands, events, keep
 *    alive, reservations. An I/O command does not go there.
 *  - A namespace belongs to the loop of its io handle: I/O commands of connections of other loops
 *    go there and back, their data where they are. So a handle, and a switch, has one loop.
 * The rules for ends, here and in nvmesub.h, hold across loops. Each loop ends by
 * snic_nvmet_close() on its own thread; these return when all of them have been called.
 *
 * Reservations that persist through power loss (PTPL) need a store, the owner's: a subsystem's
 * `persist`. Without one, to set PTPL ends with Internal Error.
 *
 * Authentication (nvmeauth.h). With snic_nvmet_auth() hosts that have a key have to prove it, on
 * each connection, before any other command of it is served: Connect announces that (ATR), other
 * commands get Authentication Required, and the connection is closed when a transaction fails, or
 * lasts longer than limit_ns. Until then it is one that may be closed to make room, and does not
 * count for host_conns_max, which closes it behind its proof if it is one too many: so who only
 * knows a host's name cannot keep it out. A connection may be authenticated again; if that fails it
 * ends. Discovery needs no authentication.
 */
#ifndef SNIC_NVMET_H
#define SNIC_NVMET_H

#include "snicstore/base.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"
#include "snicstore/net.h"
#include "snicstore/nvme.h"
#include "snicstore/nvme_wire.h"
#include "snicstore/nvmeauth.h"
#include "snicstore/nvmesub.h"
#include "snicstore/nvmetcp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_nvmet;

/** Alignment of the memory passed to snic_nvmet_open(), in bytes. */
#define SNIC_NVMET_ALIGN SNIC_NVMETCP_ALIGN
#define SNIC_NVMET_CONNS_MAX 16384U
#define SNIC_NVMET_SUBSYSTEMS_MAX 64U
#define SNIC_NVMET_NAMESPACES_MAX 4096U
#define SNIC_NVMET_DEPTH_MAX 1024U
#define SNIC_NVMET_DATA_BYTES_MAX (64U << 20)
#define SNIC_NVMET_LOOPS_MAX 16U

/** Flag: with several loops, a connection that comes in on CPU c is accepted by loop c modulo their
 * number (SNIC_NET_STEER_CPU), else by one that a hash of its addresses chooses. */
#define SNIC_NVMET_STEER_CPU (1U << 0)

/** An I/O command that has ended at its device. */
struct snic_nvmet_observed {
    uint32_t loop;      /**< that of its connection; 0: the first                               */
    uint32_t tenant;    /**< snic_nvmet_tenant() of its host                                    */
    uint32_t subsystem; /**< number                                                             */
    uint32_t nsid;
    uint32_t kind;   /**< enum snic_nvmesub_kind                                                */
    uint32_t bytes;  /**< that the host sent or gets                                            */
    uint32_t status; /**< 0: it ended well                                                      */
    uint32_t credit; /**< as the device's handle returned it, 0: none                           */
    uint64_t ns;     /**< from its capsule to its completion, its data's way included            */
};
/** On the loop of the command's connection; calls nothing of the target. */
typedef void (*snic_nvmet_observe_fn)(void *ctx, const struct snic_nvmet_observed *o);

/** Zero it, set opts_size; a field that is 0 takes its default. */
struct snic_nvmet_opts {
    uint32_t opts_size;
    uint32_t flags;          /**< SNIC_NVMET_STEER_CPU                                          */
    uint32_t conns_max;      /**< connections of a loop, 2..SNIC_NVMET_CONNS_MAX, which is also the
                                  most of all loops; default 64                                 */
    uint32_t host_conns_max; /**< of one host NQN on all loops, 1..conns_max * loops_max; default
                                  half of conns_max, at least 2                                 */
    uint32_t subsystems_max; /**< without discovery, 1..SNIC_NVMET_SUBSYSTEMS_MAX; default 4     */
    uint32_t namespaces_max; /**< of a subsystem, 1..SNIC_NVMET_NAMESPACES_MAX; default 32       */
    uint32_t queues_max;     /**< I/O queues of a controller, 1..64; default 8                    */
    uint32_t depth_max;      /**< entries of a queue, 32..SNIC_NVMET_DEPTH_MAX; default 128       */
    uint32_t data_max;       /**< of one command (MDTS), 4096 x 2^n up to 1 MiB; default 128 KiB  */
    uint32_t data_bytes;     /**< for the data of a connection's commands, multiple of 4096, at
                                  least 2 data_max; default 1 MiB or 2 data_max                  */
    uint32_t capsule_bytes;  /**< in-capsule data of I/O queues, multiple of 16, 16..1 MiB; default
                                  8192                                                          */
    uint32_t capsules;       /**< commands of a connection with in-capsule data at a time, in
                                  buffers of capsule_bytes, at least 8192; at the next, nothing more
                                  of the connection is received until one has ended; 1..depth_max;
                                  default: what data_bytes holds, at least 16                   */
    uint64_t greet_ns;       /**< until Connect; default 10 s                                    */
    uint64_t data_ns;        /**< from an R2T to its data; default 10 s                           */
    uint64_t close_ns;  /**< from a TermReq, or the target's wish, to the end; default 10 s   */
    uint32_t loops_max; /**< 1..SNIC_NVMET_LOOPS_MAX; default 1                               */
    uint32_t reserved;  /**< 0                                                                */
    snic_nvmet_observe_fn observe; /**< called for each I/O command of all loops; NULL: not    */
    void *observe_ctx;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmet_opts_wrong(const struct snic_nvmet_opts *o) SNIC_NONNULL(1);
/** Bytes that snic_nvmet_open() needs for @p o, or 0 when it is invalid. [any] */
SNIC_API size_t snic_nvmet_memsize(const struct snic_nvmet_opts *o) SNIC_NONNULL(1);
/**
 * A target without subsystems, apart from discovery, that listens nowhere. [owner]
 * @param[out] out  the target on success, untouched on failure
 * @param mem       owned until snic_nvmet_close() has returned it; aligned to SNIC_NVMET_ALIGN
 * @param net       borrowed until close; it should have more than conns_max connections, so that
 *                  the target decides who is refused
 * @param o         copied
 * @return 0; SNIC_EINVAL an option or the alignment; SNIC_ENOSPC @p size is too small
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_open(struct snic_nvmet **out, void *mem, size_t size,
                                            struct snic_net *net, const struct snic_nvmet_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/** Bytes that snic_nvmet_join() needs for a target of @p o, or 0 when it is invalid. [any] */
SNIC_API size_t snic_nvmet_join_memsize(const struct snic_nvmet_opts *o) SNIC_NONNULL(1);
/**
 * A further loop of a target that has no namespaces yet; none of its loops runs meanwhile. [owner]
 * @param[out] out  the loop's part on success, untouched on failure
 * @param mem       owned until snic_nvmet_close() of it has returned it; aligned as for open
 * @param net       on a loop that the target does not have; borrowed until close
 * @param first     as open returned it
 * @return 0; SNIC_EINVAL the alignment, or @p first is not that; SNIC_ENOSPC @p size is too small,
 *         or loops_max; SNIC_EEXIST the target has the loop; SNIC_EBUSY there are namespaces
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_join(struct snic_nvmet **out, void *mem, size_t size,
                                            struct snic_net *net, struct snic_nvmet *first)
    SNIC_NONNULL(1, 2, 4, 5);
/** Listen no more and end all connections of this loop; the loop is to be turned until close, which
 * does this, too. Where one thread has several loops it stops them all first. [owner] */
SNIC_API void snic_nvmet_stop(struct snic_nvmet *t) SNIC_NONNULL(1);
/**
 * Listen no more, end all connections, turn the loop until every request at a device has ended, of
 * a target with several loops until all of them are closed or stopped. Not from inside an event.
 * The io handles and the net handle of the loop are the caller's again. [owner]
 * @return the memory given to open or join: of the first loop, valid until the others have returned
 */
SNIC_API void *snic_nvmet_close(struct snic_nvmet *t) SNIC_NONNULL(1);

/* ---- Authentication ---- */

/** The keys of @p hostnqn, in @p out, which is overwritten after use. @return 0; SNIC_ENOENT it has
 * none, and need not authenticate */
typedef int (*snic_nvmet_keys_fn)(void *ctx, const char *hostnqn, struct snic_nvmeauth_keys *out);
typedef int (*snic_nvmet_random_fn)(struct snic_nvmeauth_random *out);

/** Zero it, set opts_size, ops, random and keys. */
struct snic_nvmet_auth_opts {
    uint32_t opts_size;
    uint32_t hashes;   /**< permitted, SNIC_NVMEAUTH_HASHES or a part; default all               */
    uint32_t groups;   /**< permitted, SNIC_NVMEAUTH_GROUPS or a part; default null to ffdhe4096,
                            as a client without a key makes the first loop compute with them */
    uint32_t reserved; /**< 0                                                                   */
    uint64_t limit_ns; /**< from Connect, and of a transaction; default 120 s                    */
    const struct snic_nvmeauth_ops *ops; /**< borrowed until close: snic_nvmeauth_openssl() */
    snic_nvmet_random_fn random;         /**< snic_nvmeauth_openssl_random()                     */
    snic_nvmet_keys_fn keys;             /**< called on the first loop, by subsystem_add for each
                                              of its hosts, later for each message                */
    void *ctx;                           /**< of keys                                            */
};
/**
 * Require authentication of the hosts that have keys. Of a subsystem with ANY_HOST these are still
 * to be named in its hosts: of others nothing is required. [owner]
 * @param o  copied
 * @return 0; SNIC_EINVAL an option, or not the first loop; SNIC_EBUSY there is a subsystem already
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_auth(struct snic_nvmet *t,
                                            const struct snic_nvmet_auth_opts *o)
    SNIC_NONNULL(1, 2);

/* ---- Subsystems, namespaces, addresses ---- */

/**
 * The namespace's record (snic_nvmesub_record() of the engine) is to be stored; when it is durable,
 * or that has failed, snic_nvmet_persisted(). A later call stands for an earlier one that was not
 * answered yet. From the loop of the owner, inside a call or not.
 */
typedef void (*snic_nvmet_persist_fn)(void *ctx, uint32_t subsystem, uint32_t nsid,
                                      uint64_t sequence);
/** The subsystem's number is free. */
typedef void (*snic_nvmet_subsystem_removed_fn)(void *ctx, uint32_t subsystem);

/** Zero it, set opts_size and subnqn. */
struct snic_nvmet_subsystem_opts {
    uint32_t opts_size;
    uint32_t flags;           /**< SNIC_NVMESUB_ANY_HOST, SNIC_NVMESUB_NO_VWC                    */
    const char *subnqn;       /**< copied                                                       */
    const char *serial;       /**< copied; at most 20 characters; default "0"                    */
    const char *model;        /**< copied; at most 40; default "snicstore"                       */
    const char *const *hosts; /**< host NQNs that are allowed; copied                           */
    uint32_t host_count;      /**< at most 64                                                   */
    uint32_t reserved;        /**< 0                                                            */
    snic_nvmet_persist_fn persist; /**< NULL: no PTPL                                           */
    void *persist_ctx;
};
/**
 * Add a subsystem; hosts find it in the discovery log, those that are allowed. [owner]
 * @return its number, from 0; SNIC_EINVAL an NQN, text or flag; SNIC_EEXIST the name is used;
 *         SNIC_ENOSPC subsystems_max
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_subsystem_add(struct snic_nvmet *t,
                                                     const struct snic_nvmet_subsystem_opts *o)
    SNIC_NONNULL(1, 2);
/**
 * Remove a subsystem without namespaces: hosts do not find it any more, its controllers end, and
 * when its connections have ended @p removed is called from the loop. Until then its number and
 * name are not used again; a connection that never had a successful Connect keeps it for greet_ns.
 * [owner]
 * @return 0; SNIC_ENOENT; SNIC_EBUSY it has namespaces, or one whose removal has not ended
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_subsystem_remove(struct snic_nvmet *t, uint32_t subsystem,
                                                        snic_nvmet_subsystem_removed_fn removed,
                                                        void *ctx) SNIC_NONNULL(1);
/**
 * Allow a host, or replace its rule; discovery shows it the subsystem. Flags and ranges as of
 * snic_nvmesub_allow(); controllers that the new rule does not admit end. [owner]
 * @return 0; SNIC_EINVAL; SNIC_ENOENT no such subsystem; SNIC_ENOSPC 64 hosts
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_allow(struct snic_nvmet *t, uint32_t subsystem,
                                             const char *hostnqn, uint32_t flags,
                                             const struct snic_nvmesub_range *ranges,
                                             uint32_t count) SNIC_NONNULL(1, 3);
/** Remove a host's rule; its controllers end unless any host is allowed. [owner]
 * @return 0; SNIC_ENOENT no such subsystem or rule */
SNIC_API SNIC_NODISCARD int snic_nvmet_deny(struct snic_nvmet *t, uint32_t subsystem,
                                            const char *hostnqn) SNIC_NONNULL(1, 3);
/** Any host is allowed, or (controllers of others end) only those with a rule. [owner]
 * @return 0; SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_nvmet_any_host(struct snic_nvmet *t, uint32_t subsystem, int on)
    SNIC_NONNULL(1);
/** Set the ANA state (SNIC_NVME_ANA_*) of a group at a port; hosts are notified. [owner]
 * @return 0; SNIC_ENOENT no such subsystem; SNIC_EINVAL group, port or state */
SNIC_API SNIC_NODISCARD int snic_nvmet_ana_set(struct snic_nvmet *t, uint32_t subsystem,
                                               uint32_t group, uint32_t port, uint32_t state)
    SNIC_NONNULL(1);
/** The answer to persist: @p error 0, or the commands that wait for it report Internal Error. No
 * effect if the namespace or subsystem was removed. [owner] */
SNIC_API void snic_nvmet_persisted(struct snic_nvmet *t, uint32_t subsystem, uint32_t nsid,
                                   uint64_t sequence, int error) SNIC_NONNULL(1);
/**
 * Its engine, for what this header does not have: records, status. NULL: there is none. Afterwards
 * snic_nvmet_run() carries out what the engine wants. [owner]
 */
SNIC_API struct snic_nvmesub *snic_nvmet_engine(struct snic_nvmet *t, uint32_t subsystem)
    SNIC_NONNULL(1);
/** Carry out the actions of all engines. [owner] */
SNIC_API void snic_nvmet_run(struct snic_nvmet *t) SNIC_NONNULL(1);

typedef void (*snic_nvmet_ns_removed_fn)(void *ctx, struct snic_io *io);

/** As snic_qos_reserve() and snic_qos_commit(). */
typedef int (*snic_nvmet_reserve_fn)(struct snic_io *io, struct snic_io_req *req,
                                     void (*granted)(struct snic_io_req *req));
typedef void (*snic_nvmet_commit_fn)(struct snic_io *io, struct snic_io_req *req);

/** Zero it, set opts_size, io and an identifier. */
struct snic_nvmet_ns_opts {
    uint32_t opts_size;
    uint32_t nsid;      /**< 0: the lowest that is free                                         */
    struct snic_io *io; /**< on a loop of the target; borrowed until removed, or close; several
                             namespaces may share it                                            */
    uint32_t shift;     /**< log2 of the block size, 9 or 12; default 12, or 9 where the handle
                             has smaller blocks and its size is no multiple of 4096             */
    uint32_t group;     /**< ANA group; default 1                                               */
    uint8_t nguid[16];  /**< at least one of the two must not be 0                              */
    uint8_t uuid[16];
    /** Where io is a switch, both: a write that is not in its capsule is admitted by the switch
     * before its data are requested, so what the host does not send delays that host only. */
    snic_nvmet_reserve_fn reserve;
    snic_nvmet_commit_fn commit;
};
/**
 * Add a namespace. Its size is the handle's, rounded down to blocks; it is read-only where the
 * handle is. [owner]
 * @return its id; SNIC_EINVAL an option, or the handle has larger blocks or alignments, or its
 *         transfer_max is below data_max, or its loop is none of the target's; SNIC_ENOTSUP a
 * writable handle without capability ZERO; SNIC_EEXIST the id is used; SNIC_ENOSPC no free id, or
 * less than a block; SNIC_ENOENT no such subsystem
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_ns_add(struct snic_nvmet *t, uint32_t subsystem,
                                              const struct snic_nvmet_ns_opts *o)
    SNIC_NONNULL(1, 3);
/**
 * Remove it: no command starts any more, and when those at the device have ended @p removed is
 * called from the handle's loop, or here: from then on its handle is not used. [owner]
 * @return 0; SNIC_ENOENT
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_ns_remove(struct snic_nvmet *t, uint32_t subsystem,
                                                 uint32_t nsid, snic_nvmet_ns_removed_fn removed,
                                                 void *ctx) SNIC_NONNULL(1);
/**
 * Change its size, to @p bytes rounded down to blocks; hosts are notified. The handle's
 * geometry.size is the owner's to change: before this where it grows, afterwards where it shrinks.
 * [owner]
 * @return 0; SNIC_ENOENT; SNIC_EINVAL less than a block, or too much
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_ns_resize(struct snic_nvmet *t, uint32_t subsystem,
                                                 uint32_t nsid, uint64_t bytes) SNIC_NONNULL(1);
/**
 * Accept hosts at @p a. The discovery log of all subsystems shows @p shown, which may be NULL: the
 * address itself. [owner]
 * @return the port's number, from 0, whose ANA states count here; SNIC_ENOSPC
 *         SNIC_NVMESUB_PORTS_MAX; else as snic_net_listen()
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_listen(struct snic_nvmet *t, const struct snic_net_addr *a,
                                              const struct snic_net_addr *shown) SNIC_NONNULL(1, 2);
/**
 * A loop that was joined accepts hosts at port @p port, too. [owner]
 * @param a  NULL: at the same address, which the loops share (SO_REUSEPORT)
 * @return 0; SNIC_EINVAL the first loop; SNIC_ENOENT no such port; SNIC_EEXIST it does already;
 * else as snic_net_listen()
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_share(struct snic_nvmet *t, uint32_t port,
                                             const struct snic_net_addr *a) SNIC_NONNULL(1);
/** The address of port @p port, with the TCP port that was chosen. [owner] @return 0; SNIC_ENOENT
 */
SNIC_API SNIC_NODISCARD int snic_nvmet_listen_addr(const struct snic_nvmet *t, uint32_t port,
                                                   struct snic_net_addr *out) SNIC_NONNULL(1, 3);
/**
 * The tenant of a host's requests: a hash of its NQN, the same everywhere, never SNIC_QOS_DEFAULT.
 * Two names may share one. [any]
 */
SNIC_API uint32_t snic_nvmet_tenant(const char *hostnqn) SNIC_NONNULL(1);

/* ---- Status ---- */

struct snic_nvmet_stats {
    uint64_t accepted;
    uint64_t refused;    /**< connections, for want of a place                                  */
    uint64_t evicted;    /**< connections without Connect, to make room                         */
    uint64_t busy;       /**< Connects beyond host_conns_max                                    */
    uint64_t unknown;    /**< Connects of a subsystem that is not here                          */
    uint64_t violations; /**< connections ended for what the peer sent                          */
    uint64_t timeouts;   /**< connections ended because Connect, authentication or data did not
                              come                                                              */
    uint64_t denied;     /**< connections ended because authentication failed                   */
    uint64_t admin;      /**< fabrics and admin commands                                        */
    uint64_t reads;      /**< that ended well, as the following                                 */
    uint64_t writes;
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t others; /**< flushes, zeroes, discards, compares, verifies                         */
    uint64_t errors; /**< I/O commands answered with a status                                   */
    uint64_t held;   /**< times that a write waited for a fence                                 */
    uint64_t waits;  /**< times that a command waited for memory of its connection              */
    uint64_t rooms;  /**< times that a command waited for a device that took no more             */
    uint64_t reserved; /**< writes put before a switch ahead of their data                       */
    uint64_t memory;   /**< bytes that commands hold of their connections' data_bytes            */
    uint32_t conns;
    uint32_t queues;    /**< connected I/O queues                                               */
    uint32_t at_device; /**< I/O commands                                                       */
    uint32_t pad;
};
/** Copy the counters of a loop: unknown, busy and admin are the first one's, rooms and reserved
 * those of its namespaces, all others those of its connections. [owner] */
SNIC_API void snic_nvmet_get_stats(const struct snic_nvmet *t, struct snic_nvmet_stats *out)
    SNIC_NONNULL(1, 2);
/** Every structural invariant of a loop, the engines' included. For tests. [owner] @return 0;
 * SNIC_ECORRUPT
 */
SNIC_API int snic_nvmet_check(const struct snic_nvmet *t) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMET_H */
