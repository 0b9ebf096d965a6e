/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * When an agent looks up the location of a segment.
 *
 * A waiter without a response for slow_ns needs a lookup, and one that begins while its server is
 * suspect needs it soon. The lookup is repeated, for an owner may lose a request, or not know the
 * new location yet: after twice as long each time, up to SNIC_EBS__ASK_DOUBLE times slow_ns, with
 * random jitter, so that the many that lose one server do not look up at the same time.
 *
 * I1  due_ns of the clock is no later than that of any waiter that is not on its list, so each
 *     waiter is scanned in time. It may be earlier, which costs a scan.
 */
#include "snicstore/ebs_ask.h"

#define SNIC_EBS__ASK_DOUBLE 8u
#define SNIC_EBS__ASK_MOST 255u
/* Waiters that begin while their server is suspect look up soon, and together. */
#define SNIC_EBS__ASK_SOON_NS UINT64_C(10000000)

static void ask_look_at(struct snic_ebs_asks *s, uint64_t due_ns)
{
    s->due_ns = snic_min_u64(s->due_ns, due_ns);
}

void snic_ebs_asks_init(struct snic_ebs_asks *s, uint64_t slow_ns)
{
    snic_link_init(&s->list);
    s->slow_ns = slow_ns;
    s->due_ns = SNIC_NEVER;
}

void snic_ebs_asks_hurry(struct snic_ebs_asks *s, uint64_t now_ns)
{
    ask_look_at(s, now_ns);
}

int snic_ebs_asks_look(struct snic_ebs_asks *s, uint64_t now_ns)
{
    if (now_ns < s->due_ns)
        return 0;
    s->due_ns = SNIC_NEVER;
    return 1;
}

struct snic_ebs_ask *snic_ebs_asks_first(const struct snic_ebs_asks *s)
{
    return snic_link_alone(&s->list) ? NULL
                                     : SNIC_CONTAINER(s->list.next, struct snic_ebs_ask, link);
}

void snic_ebs_ask_init(struct snic_ebs_ask *k)
{
    snic_link_init(&k->link);
    k->due_ns = SNIC_NEVER;
    k->asks = 0;
    k->pad = 0;
}

void snic_ebs_ask_begin(struct snic_ebs_asks *s, struct snic_ebs_ask *k, int suspect,
                        uint64_t now_ns)
{
    snic_link_remove(&k->link);
    k->asks = 0;
    k->due_ns = now_ns + s->slow_ns;
    ask_look_at(s, suspect ? now_ns + SNIC_EBS__ASK_SOON_NS : k->due_ns);
}

void snic_ebs_ask_end(struct snic_ebs_ask *k)
{
    snic_link_remove(&k->link);
}

void snic_ebs_ask_put(struct snic_ebs_asks *s, struct snic_ebs_ask *k)
{
    if (snic_link_alone(&k->link))
        snic_link_append(&s->list, &k->link);
}

int snic_ebs_ask_due(struct snic_ebs_asks *s, const struct snic_ebs_ask *k, int suspect,
                     uint64_t now_ns)
{
    if (now_ns >= k->due_ns || (k->asks == 0 && suspect))
        return 1;
    ask_look_at(s, k->due_ns);
    return 0;
}

void snic_ebs_ask_said(struct snic_ebs_asks *s, struct snic_ebs_ask *k, uint32_t most,
                       struct snic_rng *rng, uint64_t now_ns)
{
    uint32_t asks = most < SNIC_EBS__ASK_MOST ? most + 1 : SNIC_EBS__ASK_MOST;
    uint64_t pause = s->slow_ns * (asks <= 3 ? 1u << (asks - 1) : SNIC_EBS__ASK_DOUBLE);
    snic_link_remove(&k->link);
    k->asks = asks;
    k->due_ns = now_ns + pause + snic_rng_below(rng, pause / 4 + 1);
    ask_look_at(s, k->due_ns);
}

void snic_ebs_ask_join(struct snic_ebs_ask *k, const struct snic_ebs_ask *said)
{
    snic_link_remove(&k->link);
    k->asks = said->asks;
    k->due_ns = said->due_ns;
}
