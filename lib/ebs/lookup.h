/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * When a storage agent looks up the location of a segment, and when it repeats the lookup; what is
 * no reason for a lookup: a server that is busy, or whose store failed. Plain data, linked: not to
 * be moved. All calls are O(1). Shared by the queue and the transports.
 *
 * The location of a segment is looked up when its server has not responded for slow_ns, or is
 * suspect. Lookups back off exponentially: slow_ns, 2, 4, then 8 slow_ns, each with up to a quarter
 * of jitter, until the server responds. All that wait for one segment share a lookup. There is no
 * timer for each waiter: the agent scans all of them when the schedule is due, which is once in
 * slow_ns while all servers respond.
 *
 * An agent has one schedule, in its queue, and at its due_ns:
 *
 *     if (ebs_lookups_scan_due(s, now))
 *         for each k that waits:  if (ebs_lookup_due(s, k, suspect, now)) ebs_lookup_enqueue(s, k);
 *     while ((k = ebs_lookups_first(s)) != NULL) {
 *         ebs_lookup_sent(s, k, the greatest `sent` among all that wait for its segment, rng, now);
 *         for each other q of them:  ebs_lookup_join(q, k);
 *         send the owner a lookup;
 *     }
 */
#ifndef SNIC_EBS__LOOKUP_H
#define SNIC_EBS__LOOKUP_H

#include "snicstore/ebs_io.h"

/* The schedule of an agent's lookups. */
struct ebs_lookups {
    struct snic_link list; /* waiters that need a lookup now, in order */
    uint64_t due_ns;       /* no lookup is due before; SNIC_NEVER */
    uint64_t slow_ns;
};
/* A waiter: an RPC, or the first I/O of a disk. */
struct ebs_lookup {
    struct snic_link link; /* on the schedule's list, or alone */
    uint64_t due_ns;       /* without a response until then a lookup is due */
    uint32_t sent;         /* lookups since the last response; stays at 255 */
    uint32_t pad;
};

/* It answers BUSY. */
static inline void ebs_busy_refused(struct snic_ebs_busy *b, uint64_t now_ns)
{
    b->count++;
    if (b->since_ns == 0)
        b->since_ns = now_ns + (now_ns == 0);
}
/* It answers that its store failed. */
static inline void ebs_busy_failed(struct snic_ebs_busy *b, uint64_t now_ns)
{
    b->failed++;
    if (b->failed_since_ns == 0)
        b->failed_since_ns = now_ns + (now_ns == 0);
}
/* It has completed a request. */
static inline void ebs_busy_clear(struct snic_ebs_busy *b)
{
    b->since_ns = 0;
    b->failed_since_ns = 0;
}

/* A schedule without waiters. */
void ebs_lookups_init(struct ebs_lookups *s, uint64_t slow_ns);
/* A server has become suspect: all waiters are to be scanned now. */
void ebs_lookups_expire_now(struct ebs_lookups *s, uint64_t now_ns);
/* @return 1 all waiters have to be passed to ebs_lookup_due() now; 0 not yet */
SNIC_NODISCARD int ebs_lookups_scan_due(struct ebs_lookups *s, uint64_t now_ns);
/* The first waiter on the list, or NULL; stays there until ebs_lookup_sent(). */
struct ebs_lookup *ebs_lookups_first(const struct ebs_lookups *s);
/* One that waits for nothing. */
void ebs_lookup_init(struct ebs_lookup *k);
/* It begins to wait, or its server has responded to it; @suspect: its server is. */
void ebs_lookup_begin(struct ebs_lookups *s, struct ebs_lookup *k, int suspect, uint64_t now_ns);
/* It waits no more. */
void ebs_lookup_end(struct ebs_lookup *k);
/* Put it on the list: it needs a lookup now. */
void ebs_lookup_enqueue(struct ebs_lookups *s, struct ebs_lookup *k);
/* @return 1 a lookup is due now; 0 not yet, and the schedule will be due in time */
SNIC_NODISCARD int ebs_lookup_due(struct ebs_lookups *s, const struct ebs_lookup *k, int suspect,
                                  uint64_t now_ns);
/*
 * A lookup is sent for @k and others that wait for the segment; @most is the greatest `sent` of
 * them. Draws one number of @rng.
 */
void ebs_lookup_sent(struct ebs_lookups *s, struct ebs_lookup *k, uint32_t most,
                     struct snic_rng *rng, uint64_t now_ns);
/* @k shares the lookup sent for @first. */
void ebs_lookup_join(struct ebs_lookup *k, const struct ebs_lookup *first);

#endif /* SNIC_EBS__LOOKUP_H */
