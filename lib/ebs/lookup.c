/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * When an agent looks up the location of a segment.
 *
 * A waiter without a response for slow_ns needs a lookup, and one that begins while its server is
 * suspect needs it soon. The lookup is repeated, for an owner may lose a request, or not know the
 * new location yet: after twice as long each time, up to SNIC_EBS__LOOKUP_DOUBLE times slow_ns,
 * with random jitter, so that the many that lose one server do not look up at the same time.
 *
 * I1  due_ns of the schedule is no later than that of any waiter that is not on its list, so each
 *     waiter is scanned in time. It may be earlier, which costs a scan.
 */
#include "ebs/lookup.h"

#define SNIC_EBS__LOOKUP_DOUBLE 8u
#define SNIC_EBS__LOOKUPS_SATURATE 255u
/* Waiters that begin while their server is suspect look up soon, and together. */
#define SNIC_EBS__LOOKUP_SOON_NS UINT64_C(10000000)

static void ebs_lookups_scan_at(struct ebs_lookups *s, uint64_t due_ns)
{
    s->due_ns = snic_min_u64(s->due_ns, due_ns);
}

void ebs_lookups_init(struct ebs_lookups *s, uint64_t slow_ns)
{
    snic_link_init(&s->list);
    s->slow_ns = slow_ns;
    s->due_ns = SNIC_NEVER;
}

void ebs_lookups_expire_now(struct ebs_lookups *s, uint64_t now_ns)
{
    ebs_lookups_scan_at(s, now_ns);
}

int ebs_lookups_scan_due(struct ebs_lookups *s, uint64_t now_ns)
{
    if (now_ns < s->due_ns)
        return 0;
    s->due_ns = SNIC_NEVER;
    return 1;
}

struct ebs_lookup *ebs_lookups_first(const struct ebs_lookups *s)
{
    return snic_link_alone(&s->list) ? NULL : SNIC_CONTAINER(s->list.next, struct ebs_lookup, link);
}

void ebs_lookup_init(struct ebs_lookup *k)
{
    snic_link_init(&k->link);
    k->due_ns = SNIC_NEVER;
    k->sent = 0;
    k->pad = 0;
}

void ebs_lookup_begin(struct ebs_lookups *s, struct ebs_lookup *k, int suspect, uint64_t now_ns)
{
    snic_link_remove(&k->link);
    k->sent = 0;
    k->due_ns = now_ns + s->slow_ns;
    ebs_lookups_scan_at(s, suspect ? now_ns + SNIC_EBS__LOOKUP_SOON_NS : k->due_ns);
}

void ebs_lookup_end(struct ebs_lookup *k)
{
    snic_link_remove(&k->link);
}

void ebs_lookup_enqueue(struct ebs_lookups *s, struct ebs_lookup *k)
{
    if (snic_link_alone(&k->link))
        snic_link_append(&s->list, &k->link);
}

int ebs_lookup_due(struct ebs_lookups *s, const struct ebs_lookup *k, int suspect, uint64_t now_ns)
{
    if (now_ns >= k->due_ns || (k->sent == 0 && suspect))
        return 1;
    ebs_lookups_scan_at(s, k->due_ns);
    return 0;
}

void ebs_lookup_sent(struct ebs_lookups *s, struct ebs_lookup *k, uint32_t most,
                     struct snic_rng *rng, uint64_t now_ns)
{
    uint32_t sent = most < SNIC_EBS__LOOKUPS_SATURATE ? most + 1 : SNIC_EBS__LOOKUPS_SATURATE;
    uint64_t pause = s->slow_ns * (sent <= 3 ? 1u << (sent - 1) : SNIC_EBS__LOOKUP_DOUBLE);
    snic_link_remove(&k->link);
    k->sent = sent;
    k->due_ns = now_ns + pause + snic_rng_below(rng, pause / 4 + 1);
    ebs_lookups_scan_at(s, k->due_ns);
}

void ebs_lookup_join(struct ebs_lookup *k, const struct ebs_lookup *first)
{
    snic_link_remove(&k->link);
    k->sent = first->sent;
    k->due_ns = first->due_ns;
}
