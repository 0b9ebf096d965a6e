/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmehost.h
 * A namespace of an NVMe/TCP target as an io handle: an initiator with several paths that
 * reconnects by itself.
 *
 * Depends on  snicstore/base.h, credit.h, io.h, loop.h, net.h, nvme.h, nvme_wire.h, nvmeauth.h,
 *             nvmetcp.h.
 * Memory      The caller supplies all of it (memsize, open) and has it back when the handle is
 *             closed; nothing is allocated, whatever a target sends. 1.5 KiB for each of depth, and
 *             nvmetcp.h's host for each connection: 104 KiB for a queue of 128 entries.
 * Threads     The owner thread of the loop that the net handle is on.
 * Progress    No call blocks, apart from close and wait, which turn the loop.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds.
 * Input       What targets send is hostile; options are trusted.
 *
 * Open it, wait until a path is connected, use the io handle as any other (io.h), close it:
 *
 *     struct snic_nvmehost_opts o = {.opts_size = sizeof(o)};
 *     o.addrs = &addr, o.addr_count = 1, o.subnqn = "nqn.2026-11.example:disks", o.hostnqn = ...
 *     size = snic_nvmehost_memsize(&o);
 *     r = snic_nvmehost_open(&h, aligned_alloc(SNIC_NVMEHOST_ALIGN, size), size, net, &o);
 *     r = snic_nvmehost_wait(h, UINT64_C(10000000000));
 *     io = snic_nvmehost_io(h);
 *     ...
 *     snic_io_close(io);               // or snic_nvmehost_close(h); then the memory is free
 *
 * The handle. Block, size and capabilities are the namespace's, found by Identify; ZERO and DISCARD
 * are there where the controller has Write Zeroes and Dataset Management. Memory needs no
 * alignment. A READ, WRITE or ZERO longer than what one command may carry (MDTS) is carried out by
 * several, one after the other. The namespace's size is followed when it changes (an event); what
 * lies beyond ends with SNIC_ERANGE. A path whose namespace has another identifier, block size, or
 * fewer capabilities than the first one had is not used.
 *
 * Paths. Each address is a path, a controller of its own with an admin queue and I/O queues. Paths
 * are used all at once: a request goes to the queue with the least in flight, of the paths whose
 * ANA state is optimized, or, if there is none, non-optimized; others are not used. A path that is
 * lost is tried again after 0.1 s, then after twice that, up to backoff_ns, for ever.
 *
 * Results, beside those of snic_io_validate():
 *   length      done (0 for FLUSH), by exactly one command or by several equal ones, see below
 *   SNIC_EIO    not done loss_ns after it was accepted, and no command of it was lost; or a status
 *               of the target without a meaning of its own
 *   SNIC_EUNKNOWN  a WRITE, ZERO or DISCARD that failed for one of these reasons or those below,
 *               but a command of it was lost, or some of it was done: its bytes are the old, the
 *               new, or some of each
 *   SNIC_ECANCELED  cancelled before a command of it was sent
 *   others      snic_nvme_status_error() of the status: SNIC_EPERM, SNIC_ENOSPC, SNIC_ERANGE, ...
 *
 * os_error is the last NVMe status.
 *
 * Lost connections. What was in flight is sent again, on another path or after a reconnect. A READ
 * or FLUSH at once; a WRITE, ZERO or DISCARD only when its first command cannot be carried out any
 * more, so that it never lands on something newer: when the target itself has ended the path's I/O
 * connections, of which the end of each stream is the proof (a target holds a Connect of the same
 * host until commands at its device have ended, nvmesub.h), or fence_ns after the connection was
 * aborted here, when the controller has ended for want of Keep Alives. For the same reason no such
 * request completes before, with whatever result. That a forged reset does not come from the target
 * cannot be known.
 *
 * Durability. If the controller has a volatile write cache, every WRITE and ZERO is sent with FUA,
 * so that what has completed survives a target that loses power and returns. With
 * SNIC_NVMEHOST_VOLATILE they are sent as they are: faster, but a target that lost its cache and
 * returned within loss_ns has lost writes that were not flushed, and no FLUSH reports it, as with
 * other NVMe-oF hosts.
 *
 * Credit. SNIC_NVMEHOST_CREDIT requests credit from the target, with each completion
 * (nvmesub.h); where it does, a path has at most so many requests in flight (credit.h), and
 * req->credit is what was granted. Other targets are used without.
 *
 * Lock. With SNIC_NVMEHOST_LOCK the host reserves the namespace for itself alone (Exclusive Access,
 * with a key that follows from hostid) before its first request, again on each path that is set up,
 * and gives that back when it closes. Where another host has reserved it, state is SNIC_EBUSY; with
 * SNIC_NVMEHOST_TAKE that host is preempted, and its commands aborted, if this one was not
 * connected yet. Requests of a host that was preempted end with SNIC_EPERM. The reservation
 * outlives this process, and connections: a host that died has the namespace until it comes back,
 * or another takes it. A target without reservations is used all the same: stats' locked is 0.
 * Processes with the same hostid are one host, on whatever machine: nothing here keeps them apart.
 *
 * Authentication (nvmeauth.h). With auth, random and keys each queue is authenticated when the
 * target requires it, behind its Connect; without them such a target refuses (SNIC_EACCES).
 */
#ifndef SNIC_NVMEHOST_H
#define SNIC_NVMEHOST_H

#include "snicstore/base.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"
#include "snicstore/net.h"
#include "snicstore/nvme.h"
#include "snicstore/nvme_wire.h"
#include "snicstore/nvmeauth.h"
#include "snicstore/nvmetcp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_nvmehost;

/** Alignment of the memory passed to snic_nvmehost_open(), in bytes. */
#define SNIC_NVMEHOST_ALIGN SNIC_NVMETCP_ALIGN
#define SNIC_NVMEHOST_PATHS_MAX 8U
#define SNIC_NVMEHOST_QUEUES_MAX 16U
#define SNIC_NVMEHOST_DEPTH_MAX 4096U

#define SNIC_NVMEHOST_VOLATILE (1U << 0) /**< see Durability                                    */
#define SNIC_NVMEHOST_CREDIT (1U << 1)   /**< see Credit                                        */
#define SNIC_NVMEHOST_LOCK (1U << 2)     /**< see Lock                                          */
#define SNIC_NVMEHOST_TAKE (1U << 3)     /**< see Lock; counts with SNIC_NVMEHOST_LOCK only     */

typedef int (*snic_nvmehost_random_fn)(struct snic_nvmeauth_random *out);

/** Zero it, set opts_size, addrs, addr_count and the names; another field that is 0 takes its
 *  default. */
struct snic_nvmehost_opts {
    uint32_t opts_size;
    uint32_t flags;                    /**< SNIC_NVMEHOST_*                                     */
    const struct snic_net_addr *addrs; /**< of the paths; copied                                 */
    uint32_t addr_count;               /**< 1..SNIC_NVMEHOST_PATHS_MAX                           */
    uint32_t nsid;                     /**< default 1                                           */
    const char *subnqn;                /**< copied                                              */
    const char *hostnqn;               /**< copied                                              */
    uint8_t hostid[16];                /**< default: a hash of hostnqn                           */
    uint32_t queues;       /**< I/O queues of a path, 1..SNIC_NVMEHOST_QUEUES_MAX; default 1     */
    uint32_t entries;      /**< of an I/O queue, 2..SNIC_NVMETCP_DEPTH_MAX; default 128          */
    uint32_t depth;        /**< requests accepted, 1..SNIC_NVMEHOST_DEPTH_MAX; default 128        */
    uint32_t digests;      /**< SNIC_NVMETCP_HDGST, _DDGST; default none                         */
    uint32_t command_max;  /**< bytes of a command, multiple of 4096, 4096..1 GiB; MDTS limits it
                                as well; default 1 MiB                                          */
    uint32_t transfer_max; /**< bytes of a request, multiple of 65536 up to 1 GiB; default 16 MiB */
    uint32_t kato_ms;      /**< Keep Alive timeout, 100..3600000; default 5000                   */
    uint32_t pad;          /**< 0                                                               */
    uint64_t connect_ns;   /**< to set a path up, or to follow an event; default 10 s             */
    uint64_t io_ns;      /**< a command unanswered for so long costs its path; default 30 s      */
    uint64_t loss_ns;    /**< how long a request is tried; SNIC_NEVER: for ever; default 60 s    */
    uint64_t fence_ns;   /**< see Lost connections; default 2 kato_ms + 1 s                     */
    uint64_t backoff_ns; /**< longest pause before a path is tried again; default 5 s            */
    /** For targets that require authentication; NULL: those refuse. Borrowed until close. */
    const struct snic_nvmeauth_ops *auth; /**< snic_nvmeauth_openssl()                          */
    snic_nvmehost_random_fn random;       /**< snic_nvmeauth_openssl_random()                    */
    struct snic_nvmeauth_keys keys; /**< with ctrl the target has to prove its identity, too */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmehost_opts_wrong(const struct snic_nvmehost_opts *o) SNIC_NONNULL(1);
/** Bytes that snic_nvmehost_open() needs for @p o, a multiple of SNIC_NVMEHOST_ALIGN; 0: invalid.
 * [any] */
SNIC_API size_t snic_nvmehost_memsize(const struct snic_nvmehost_opts *o) SNIC_NONNULL(1);
/**
 * Begin to connect all paths. [owner]
 * @param[out] out  the host on success, untouched on failure
 * @param mem       owned until snic_nvmehost_close() has returned it; aligned to
 * SNIC_NVMEHOST_ALIGN
 * @param net       borrowed until close: a connection for each queue of each path
 * @param o         copied
 * @return 0; SNIC_EINVAL an option or the alignment; SNIC_ENOSPC @p size is too small
 */
SNIC_API SNIC_NODISCARD int snic_nvmehost_open(struct snic_nvmehost **out, void *mem, size_t size,
                                               struct snic_net *net,
                                               const struct snic_nvmehost_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * Refuse new requests, turn the loop until all accepted ones have completed, which may take loss_ns
 * and fence_ns, end all connections. Not from inside an event. [owner]
 * @return the memory given to open
 */
SNIC_API void *snic_nvmehost_close(struct snic_nvmehost *h) SNIC_NONNULL(1);

/**
 * 0 once a path was connected; until then SNIC_EAGAIN while paths are tried for the first time or
 * there is hope, else why not: SNIC_EACCES this host is not allowed, or has to authenticate;
 * SNIC_EBUSY another host has the lock;
 * SNIC_ENOENT no such subsystem or namespace; SNIC_ENOTSUP a namespace that cannot be used
 * (metadata, block size); SNIC_EPROTO the target answers nonsense. Paths are tried all the same.
 * [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmehost_state(const struct snic_nvmehost *h) SNIC_NONNULL(1);
/**
 * Turn the loop until snic_nvmehost_state() is not SNIC_EAGAIN, at most for @p ns. Not from inside
 * an event. [owner]
 * @return as state; instead of SNIC_EAGAIN the last error: SNIC_ECONNREFUSED, SNIC_ETIMEDOUT,
 *         SNIC_EHOSTUNREACH, SNIC_ECONNRESET, SNIC_EBUSY, ...
 */
SNIC_API int snic_nvmehost_wait(struct snic_nvmehost *h, uint64_t ns) SNIC_NONNULL(1);
/** The handle; NULL until state is 0. Closing it closes the host. [owner] */
SNIC_API struct snic_io *snic_nvmehost_io(struct snic_nvmehost *h) SNIC_NONNULL(1);

struct snic_nvmehost_stats {
    uint64_t connects; /**< paths that were set up                                              */
    uint64_t failures; /**< paths that were lost, or could not be set up                         */
    uint64_t proofs;   /**< of the lost ones, those that their target has ended                   */
    uint64_t commands; /**< of requests, sent                                                    */
    uint64_t resent;   /**< of these, not the first of their bytes                                */
    uint64_t fenced;   /**< changes that waited for fence_ns                                      */
    uint64_t retries;  /**< after a status                                                       */
    uint64_t events;   /**< asynchronous events                                                  */
    uint64_t resizes;
    uint32_t up;     /**< paths now                                                             */
    uint32_t usable; /**< of these, those that ANA permits                                       */
    uint32_t inside; /**< requests                                                              */
    int32_t error;   /**< of the path that failed last, 0 none                                   */
    uint32_t locked; /**< 1: the lock was acquired                                              */
    uint32_t pad;
};
/** Copy the counters. [owner] */
SNIC_API void snic_nvmehost_get_stats(const struct snic_nvmehost *h,
                                      struct snic_nvmehost_stats *out) SNIC_NONNULL(1, 2);
/** Every structural invariant, the engines' included. For tests. [owner] @return 0; SNIC_ECORRUPT
 */
SNIC_API int snic_nvmehost_check(const struct snic_nvmehost *h) SNIC_NONNULL(1);

/* ---- Names of devices ---- */

/** A device's name, parsed; addrs, subnqn and hostnqn of opts point into it. */
struct snic_nvmehost_uri {
    struct snic_nvmehost_opts opts;
    struct snic_net_addr addrs[SNIC_NVMEHOST_PATHS_MAX];
    char subnqn[SNIC_NVME_NQN_BYTES];
    char hostnqn[SNIC_NVME_NQN_BYTES];
};
/** 1 if @p text begins as such a name does ("nvme-tcp://"), else 0. [any] */
SNIC_API int snic_nvmehost_uri_is(const char *text) SNIC_NONNULL(1);
/**
 * Parse "nvme-tcp://ADDRESS[,ADDRESS...]/NQN[?NAME=VALUE[&...]]". ADDRESS is as
 * snic_net_addr_parse() has it, of IPv4 and IPv6; NAME is nsid, host (the host's NQN), hostid (a
 * UUID), queues, entries, kato (milliseconds), loss (seconds), digests (header, data, both), lock
 * (0, 1, take), volatile (0, 1), credit (0, 1). What is not there stays 0, the
 * default; hostnqn is then the empty string, for the caller to fill in. [any]
 * @return NULL; or what is wrong, static, with @p out undefined
 */
SNIC_API const char *snic_nvmehost_uri_parse(struct snic_nvmehost_uri *out, const char *text)
    SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMEHOST_H */
