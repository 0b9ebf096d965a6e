/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_ask.h
 * When a storage agent looks up the location of a segment, and when it repeats the lookup; what is
 * no reason for a lookup: a server that is busy, or whose store failed; and what a disk waits for.
 *
 * Depends on  snicstore/base.h.
 * Memory      Plain data, the caller's; linked, so not to be moved. Nothing allocates.
 * Threads     [owner] one thread owns a clock and its waiters.
 * Progress    Wait-free, O(1).
 * Errors      None.
 * Units       nanoseconds.
 *
 * The location of a segment is looked up when its server has not responded for slow_ns, or is
 * suspect. Lookups back off exponentially: slow_ns, 2, 4, then 8 slow_ns, each with up to a quarter
 * of jitter, until the server responds. All that wait for one segment share a lookup. There is no
 * timer for each waiter: the agent scans all of them when the clock is due, which is once in
 * slow_ns while all servers respond.
 *
 * An agent has one clock (those of ebs_queue.h have theirs there) and, at its due_ns:
 *
 *     if (snic_ebs_asks_look(s, now))
 *         for each k that waits:  if (snic_ebs_ask_due(s, k, suspect, now)) snic_ebs_ask_put(s, k);
 *     while ((k = snic_ebs_asks_first(s)) != NULL) {
 *         snic_ebs_ask_said(s, k, the greatest asks among all that wait for its segment, rng, now);
 *         for each other q of them:  snic_ebs_ask_join(q, k);
 *         send the owner a lookup;
 *     }
 */
#ifndef SNIC_EBS_ASK_H
#define SNIC_EBS_ASK_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A clock. */
struct snic_ebs_asks {
    struct snic_link list; /**< waiters that need a lookup now, in order                   */
    uint64_t due_ns;       /**< no lookup is due before; SNIC_NEVER                        */
    uint64_t slow_ns;
};
/** A waiter: an RPC, or the first I/O of a disk. */
struct snic_ebs_ask {
    struct snic_link link; /**< on the clock's list, or alone                              */
    uint64_t due_ns;       /**< without a response until then a lookup is due              */
    uint32_t asks;         /**< lookups since the last response; stays at 255              */
    uint32_t pad;
};

/**
 * A server that refuses requests for now. A server that responds is reachable, whatever it
 * responds: I/O that it refuses is retried until its deadline, and its segments are not looked up.
 * Also the failure of its store, for which writes may wait until the server can guarantee that no
 * copy takes effect any more; and when it was last used.
 */
struct snic_ebs_busy {
    uint64_t count;           /**< answers BUSY                                               */
    uint64_t since_ns;        /**< of the first BUSY since it last completed a request, or 0   */
    uint64_t failed;          /**< answers that its store failed (IO)                          */
    uint64_t failed_since_ns; /**< of the first IO since it last completed a request, or 0     */
    uint64_t used_ns;         /**< when the last RPC for it was made; 0: none yet              */
};

/** What a disk waits for: its oldest RPC, else the one that is to be made first. */
struct snic_ebs_wait {
    uint64_t segment;  /**< of the disk                                                */
    uint64_t since_ns; /**< since the RPC was made, or is to be, however old its I/O is */
    uint32_t server;   /**< that has not answered, or has refused it; UINT32_MAX: none */
    uint32_t place;    /**< 1: for the segment's location (a lookup); 0: for server     */
};

/** It answers BUSY. [owner] */
static inline void snic_ebs_busy_said(struct snic_ebs_busy *b, uint64_t now_ns)
{
    b->count++;
    if (b->since_ns == 0)
        b->since_ns = now_ns + (now_ns == 0);
}
/** It answers that its store failed. [owner] */
static inline void snic_ebs_busy_failed(struct snic_ebs_busy *b, uint64_t now_ns)
{
    b->failed++;
    if (b->failed_since_ns == 0)
        b->failed_since_ns = now_ns + (now_ns == 0);
}
/** It has completed a request. [owner] */
static inline void snic_ebs_busy_over(struct snic_ebs_busy *b)
{
    b->since_ns = 0;
    b->failed_since_ns = 0;
}

/** A clock without waiters. [owner] */
SNIC_API void snic_ebs_asks_init(struct snic_ebs_asks *s, uint64_t slow_ns) SNIC_NONNULL(1);
/** A server has become suspect: all waiters are to be scanned now. [owner] */
SNIC_API void snic_ebs_asks_hurry(struct snic_ebs_asks *s, uint64_t now_ns) SNIC_NONNULL(1);
/** @return 1 all waiters have to be passed to snic_ebs_ask_due() now; 0 not yet [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_asks_look(struct snic_ebs_asks *s, uint64_t now_ns)
    SNIC_NONNULL(1);
/** The first waiter on the list, or NULL; stays there until snic_ebs_ask_said(). [owner] */
SNIC_API struct snic_ebs_ask *snic_ebs_asks_first(const struct snic_ebs_asks *s) SNIC_NONNULL(1);
/** One that waits for nothing. [owner] */
SNIC_API void snic_ebs_ask_init(struct snic_ebs_ask *k) SNIC_NONNULL(1);
/** It begins to wait, or its server has responded to it; @p suspect: its server is. [owner] */
SNIC_API void snic_ebs_ask_begin(struct snic_ebs_asks *s, struct snic_ebs_ask *k, int suspect,
                                 uint64_t now_ns) SNIC_NONNULL(1, 2);
/** It waits no more. [owner] */
SNIC_API void snic_ebs_ask_end(struct snic_ebs_ask *k) SNIC_NONNULL(1);
/** Put it on the list: it needs a lookup now. [owner] */
SNIC_API void snic_ebs_ask_put(struct snic_ebs_asks *s, struct snic_ebs_ask *k) SNIC_NONNULL(1, 2);
/** @return 1 a lookup is due now; 0 not yet, and the clock will be due in time [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_ask_due(struct snic_ebs_asks *s, const struct snic_ebs_ask *k,
                                             int suspect, uint64_t now_ns) SNIC_NONNULL(1, 2);
/**
 * A lookup is sent for @p k and others that wait for the segment; @p most is the greatest `asks` of
 * them. Draws one number of @p rng. [owner]
 */
SNIC_API void snic_ebs_ask_said(struct snic_ebs_asks *s, struct snic_ebs_ask *k, uint32_t most,
                                struct snic_rng *rng, uint64_t now_ns) SNIC_NONNULL(1, 2, 4);
/** @p k shares the lookup of @p said. [owner] */
SNIC_API void snic_ebs_ask_join(struct snic_ebs_ask *k, const struct snic_ebs_ask *said)
    SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_EBS_ASK_H */
