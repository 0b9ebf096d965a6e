/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_ask.h
 * When a storage agent asks where a segment is, and when again; what is no reason to ask: a server
 * that is busy, or whose store failed; and what a disk waits for.
 *
 * Depends on  snicstore/base.h.
 * Memory      Plain data, the caller's; linked, so not to be moved. Nothing allocates.
 * Threads     [owner] one thread owns a clock and those that wait by it.
 * Progress    Wait-free, O(1).
 * Errors      None.
 * Units       nanoseconds.
 *
 * Who waits for a segment asks its owner where it is when nothing is heard for slow_ns, or its
 * server is suspect; and again, slow_ns, 2, 4, then 8 slow_ns later, each with up to a quarter
 * more, until something is heard. All that wait for one segment ask as one. There is no timer for
 * each: the agent looks at all of them when the clock says so, which is once in slow_ns where
 * everything is well.
 *
 * An agent has one clock (those of ebs_queue.h have theirs there) and, at its due_ns:
 *
 *     if (snic_ebs_asks_look(s, now))
 *         for each k that waits:  if (snic_ebs_ask_due(s, k, suspect, now)) snic_ebs_ask_put(s, k);
 *     while ((k = snic_ebs_asks_first(s)) != NULL) {
 *         snic_ebs_ask_said(s, k, the most asks of all that wait for its segment, rng, now);
 *         for each other q of them:  snic_ebs_ask_join(q, k);
 *         ask the owner;
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
    struct snic_link list; /**< who is to be asked for, in order                           */
    uint64_t due_ns;       /**< nobody has to ask before; SNIC_NEVER                       */
    uint64_t slow_ns;
};
/** Who waits: an RPC, or the first I/O of a disk. */
struct snic_ebs_ask {
    struct snic_link link; /**< on the clock's list, or alone                              */
    uint64_t due_ns;       /**< if nothing is heard until then, it asks                    */
    uint32_t asks;         /**< said since something was heard; stays at 255               */
    uint32_t pad;
};

/**
 * What a server refuses for now. A server that answers is there, whatever it answers: I/O that it
 * refuses for ever is tried for ever (until its deadline), and its segments are not asked for.
 * Beside it, what it cannot do: its store failed, and writes may wait until it can promise that
 * they are over. And when it was last used.
 */
struct snic_ebs_busy {
    uint64_t count;           /**< times that it said BUSY                                    */
    uint64_t since_ns;        /**< since then it has said BUSY, and done nothing; 0: it does   */
    uint64_t failed;          /**< times that it said that its store failed (IO)               */
    uint64_t failed_since_ns; /**< since then its store has failed, and nothing was done; or 0 */
    uint64_t used_ns;         /**< when the last RPC for it was made; 0: none yet              */
};

/** What a disk waits for: the oldest RPC that it has, else that which is to be made first. */
struct snic_ebs_wait {
    uint64_t segment;  /**< of the disk                                                */
    uint64_t since_ns; /**< since the RPC was made, or is to be, however old its I/O is */
    uint32_t server;   /**< that has not answered, or has refused it; UINT32_MAX: none */
    uint32_t place;    /**< 1: for where the segment is (the agent asks); 0: for server */
};

/** It says BUSY. [owner] */
static inline void snic_ebs_busy_said(struct snic_ebs_busy *b, uint64_t now_ns)
{
    b->count++;
    if (b->since_ns == 0)
        b->since_ns = now_ns + (now_ns == 0);
}
/** It says that its store failed. [owner] */
static inline void snic_ebs_busy_failed(struct snic_ebs_busy *b, uint64_t now_ns)
{
    b->failed++;
    if (b->failed_since_ns == 0)
        b->failed_since_ns = now_ns + (now_ns == 0);
}
/** It has done something. [owner] */
static inline void snic_ebs_busy_over(struct snic_ebs_busy *b)
{
    b->since_ns = 0;
    b->failed_since_ns = 0;
}

/** A clock without anybody. [owner] */
SNIC_API void snic_ebs_asks_init(struct snic_ebs_asks *s, uint64_t slow_ns) SNIC_NONNULL(1);
/** A server has become suspect: all are to be looked at now. [owner] */
SNIC_API void snic_ebs_asks_hurry(struct snic_ebs_asks *s, uint64_t now_ns) SNIC_NONNULL(1);
/** @return 1 all who wait have to be given to snic_ebs_ask_due() now; 0 not yet [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_asks_look(struct snic_ebs_asks *s, uint64_t now_ns)
    SNIC_NONNULL(1);
/** Who is to be asked for first, or NULL; stays on the list until it is said. [owner] */
SNIC_API struct snic_ebs_ask *snic_ebs_asks_first(const struct snic_ebs_asks *s) SNIC_NONNULL(1);
/** One that waits for nothing. [owner] */
SNIC_API void snic_ebs_ask_init(struct snic_ebs_ask *k) SNIC_NONNULL(1);
/** It begins to wait, or its server has said something of it; @p suspect: its server is. [owner] */
SNIC_API void snic_ebs_ask_begin(struct snic_ebs_asks *s, struct snic_ebs_ask *k, int suspect,
                                 uint64_t now_ns) SNIC_NONNULL(1, 2);
/** It waits no more. [owner] */
SNIC_API void snic_ebs_ask_end(struct snic_ebs_ask *k) SNIC_NONNULL(1);
/** It is to be asked for. [owner] */
SNIC_API void snic_ebs_ask_put(struct snic_ebs_asks *s, struct snic_ebs_ask *k) SNIC_NONNULL(1, 2);
/** @return 1 it has to ask now; 0 not yet, and the clock knows when [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_ask_due(struct snic_ebs_asks *s, const struct snic_ebs_ask *k,
                                             int suspect, uint64_t now_ns) SNIC_NONNULL(1, 2);
/**
 * The owner is being asked, for @p k and others, of whom @p most is the greatest number of asks;
 * draws one number of @p rng. [owner]
 */
SNIC_API void snic_ebs_ask_said(struct snic_ebs_asks *s, struct snic_ebs_ask *k, uint32_t most,
                                struct snic_rng *rng, uint64_t now_ns) SNIC_NONNULL(1, 2, 4);
/** @p k asked together with @p said. [owner] */
SNIC_API void snic_ebs_ask_join(struct snic_ebs_ask *k, const struct snic_ebs_ask *said)
    SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_EBS_ASK_H */
