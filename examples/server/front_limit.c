/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "front_priv.h"

#define FRONT_LOG_NS 1000000000u /* between two log lines of a kind */

size_t front_unsent(const struct front_conn *c)
{
    return c->out.bytes + c->slot_bytes;
}

/* End a client for what it holds. */
static void front_evict(struct front_conn *c, enum ex_front_limit kind)
{
    struct ex_front *f = c->front;
    uint64_t now = snic_loop_now(f->loop);
    uint64_t count = ++f->stats.limited[kind];

    if (f->logged_ns[kind] == 0 || now - f->logged_ns[kind] >= FRONT_LOG_NS) {
        f->logged_ns[kind] = now;
        ex_log(EX_WARNING,
               "a client was disconnected: it has %zu bytes of unread replies (%s); %llu clients "
               "so far",
               front_unsent(c), f->opts.limit_names[kind], (unsigned long long)count);
    }
    c->closing = 1;
    c->evicted = 1;
    snic_net_abort(c->net);
}

/* Begin or end to count the time above a limit. */
static void front_since(uint64_t *since_ns, int above, uint64_t now)
{
    if (!above)
        *since_ns = 0;
    else if (*since_ns == 0)
        *since_ns = now;
}

/* At the hard limit a client is not read from any more; one that reads while it writes continues.
 */
void front_limit(struct front_conn *c)
{
    struct ex_front *f = c->front;
    const struct ex_front_limits *l = &f->opts.limits;
    size_t unsent = front_unsent(c);
    uint64_t now = snic_loop_now(f->loop);

    if (c->evicted)
        return;
    front_since(&c->soft_since_ns, l->soft != 0 && unsent > l->soft, now);
    front_since(&c->hard_since_ns, l->hard_ns != 0 && l->hard != 0 && unsent >= l->hard, now);
    if ((c->hard_since_ns != 0 && now - c->hard_since_ns > l->hard_ns) ||
        (c->soft_since_ns != 0 && now - c->soft_since_ns > l->soft_ns))
        front_evict(c, EX_FRONT_CONN);
}

void front_account(struct front_conn *c)
{
    struct ex_front *f = c->front;
    size_t held = c->evicted || c->no_evict ? 0 : front_unsent(c) + c->in.size;

    f->held += held - c->counted;
    f->held_most = snic_max_u64(f->held_most, f->held);
    c->counted = held;
    front_limit(c);
    while (f->opts.limits.total != 0 && f->held > f->opts.limits.total) {
        struct front_conn *hog = NULL;

        for (uint32_t i = 0; i < f->opts.server->conns_max; i++)
            if (f->conns[i].net != NULL && !f->conns[i].no_evict &&
                (hog == NULL || f->conns[i].counted > hog->counted))
                hog = &f->conns[i];
        if (hog == NULL || hog->counted == 0)
            return;
        f->held -= hog->counted;
        hog->counted = 0;
        if (!hog->evicted)
            front_evict(hog, EX_FRONT_TOTAL);
    }
}
