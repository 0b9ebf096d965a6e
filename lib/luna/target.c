/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target: its memory, what happens in one poll, and its invariants.
 */
#include "luna/target_priv.h"

/* ---- Options and memory ---- */

static const struct ebs_opt luna_target_rows[] = {
    SNIC_EBS__OPT(snic_luna_target_opts, srv_epoch, 0, 1, UINT32_MAX, "1..2^32-1"),
    SNIC_EBS__OPT(snic_luna_target_opts, conns_max, 64, 1, 4096, "1..4096"),
    SNIC_EBS__OPT(snic_luna_target_opts, frames_max, 64, 2, 1024, "2..1024"),
    SNIC_EBS__OPT(snic_luna_target_opts, sends_max, 64, 4, 4096, "4..4096"),
    SNIC_EBS__OPT(snic_luna_target_opts, rx_blocks, 1024, 1, 65536, "1..65536"),
    SNIC_EBS__OPT(snic_luna_target_opts, pad, 0, 0, 0, "0"),
    SNIC_EBS__OPT(snic_luna_target_opts, idle_ns, 10000 * SNIC_LUNA__MS, 1, UINT64_MAX, "1.."),
    SNIC_EBS__OPT(snic_luna_target_opts, stall_ns, 10000 * SNIC_LUNA__MS, 1, UINT64_C(1) << 60,
                  "1..2^60"),
};

static const char *luna_target_opts_fill(struct snic_luna_target_opts *full,
                                         const struct snic_luna_target_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return SNIC_EBS__OPTS_SIZE_WRONG;
    if ((full->flags & ~SNIC_LUNA_TARGET_TOKENS) != 0)
        return "flags: unknown bits";
    return ebs_opts_fill(full, luna_target_rows, SNIC_COUNTOF(luna_target_rows));
}

const char *snic_luna_target_opts_wrong(const struct snic_luna_target_opts *o)
{
    struct snic_luna_target_opts full;
    return luna_target_opts_fill(&full, o);
}

struct luna_target_parts {
    struct luna_peer *peers;
    struct luna_frame *frames;
    struct luna_out *outs;
};

static struct snic_luna_target *luna_target_layout(struct snic_arena *a,
                                                   const struct snic_luna_target_opts *o,
                                                   struct luna_target_parts *p)
{
    struct snic_luna_target *t = snic_arena_take(a, 1, sizeof(*t), SNIC_LUNA_ALIGN);
    p->peers = snic_arena_take(a, o->conns_max, sizeof(*p->peers), SNIC_LUNA_ALIGN);
    p->frames = snic_arena_take(a, (size_t)o->conns_max * o->frames_max, sizeof(*p->frames),
                                SNIC_LUNA_ALIGN);
    p->outs = snic_arena_take(a, o->sends_max, sizeof(*p->outs), SNIC_LUNA_ALIGN);
    return t;
}

size_t snic_luna_target_memsize(const struct snic_luna_target_opts *o)
{
    struct snic_luna_target_opts full;
    struct luna_target_parts parts;
    struct snic_arena a = {NULL, 0, 0};
    if (luna_target_opts_fill(&full, o) != NULL)
        return 0;
    (void)luna_target_layout(&a, &full, &parts);
    return a.used == SIZE_MAX ? 0 : snic_align_up(a.used, SNIC_LUNA_ALIGN);
}

int snic_luna_target_init(struct snic_luna_target **out, void *mem, size_t size,
                          const struct snic_luna_target_opts *o, uint64_t now_ns)
{
    struct snic_luna_target_opts full;
    struct luna_target_parts parts;
    struct snic_arena a = {mem, size, 0};
    if (luna_target_opts_fill(&full, o) != NULL || (uintptr_t)mem % SNIC_LUNA_ALIGN != 0)
        return SNIC_EINVAL;
    size_t need = snic_luna_target_memsize(o);
    if (size < need)
        return SNIC_ENOSPC;
    memset(mem, 0, need);
    struct snic_luna_target *t = luna_target_layout(&a, &full, &parts);
    struct snic_link *heads[] = {&t->work, &t->room, &t->resume, &t->closing, &t->lent};
    for (size_t i = 0; i < SNIC_COUNTOF(heads); i++)
        snic_link_init(heads[i]);
    t->o = full;
    t->mem = mem;
    t->now_ns = now_ns;
    t->peers = parts.peers;
    while (((uint32_t)1 << t->slot_bits) < full.conns_max)
        t->slot_bits++;
    t->sends_each = full.sends_max / 4;
    snic_rng_init(&t->rng, full.seed ^ full.srv_epoch);
    luna_pool_init(&t->pool, parts.outs, NULL, full.sends_max);
    for (uint32_t i = 0; i < full.conns_max; i++) {
        struct luna_peer *n = &t->peers[i];
        n->handle = i;
        n->frames = parts.frames + (size_t)i * full.frames_max;
        snic_link_init(&n->work);
        snic_link_init(&n->pause);
    }
    *out = t;
    return 0;
}

void *snic_luna_target_fini(struct snic_luna_target *t)
{
    SNIC_ASSERT(t->pool.p.free_count + t->pool.p.queued == t->pool.p.max);
    return t->mem;
}

/* ---- Sends that are returned, or not ---- */

void snic_luna_target_sent(struct snic_luna_target *t, struct snic_luna_send *s, uint64_t now_ns)
{
    struct luna_out *o = SNIC_CONTAINER(s, struct luna_out, s);
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    SNIC_ASSERT(s->index < t->pool.p.max && &t->pool.outs[s->index] == o);
    SNIC_ASSERT(s->state == EBS_LENT_OUT);
    struct luna_peer *n = luna_peer_of(t, s->handle);
    snic_link_remove(&o->lent);
    if (n != NULL) {
        SNIC_ASSERT(n->sends_out > 0);
        n->sends_out--;
        for (uint32_t i = 0; i < s->frames; i++)
            if (o->held[i] != SNIC_LUNA__NONE)
                luna_frame_free(t, n, &n->frames[o->held[i]]);
        if (o->last)
            luna_peer_end(t, n, n->reason, 1);
    }
    luna_out_free(&t->pool, o);
    t->dirty = 1;
}

static void luna_target_deaf(struct snic_luna_target *t)
{
    while (!snic_link_alone(&t->lent)) {
        struct luna_out *o = SNIC_CONTAINER(t->lent.next, struct luna_out, lent);
        struct luna_peer *n = luna_peer_of(t, o->s.handle);
        if (n != NULL && t->now_ns < o->lent_ns + t->o.stall_ns)
            return;
        snic_link_remove(
            &o->lent); /* a connection that has ended: its sends only wait to be returned */
        if (n == NULL)
            continue;
        t->s.deaf++;
        luna_peer_end(t, n, SNIC_ETIMEDOUT, 1);
    }
}

/* ---- Actions ---- */

static int luna_target_report(struct snic_luna_target *t, struct snic_luna_target_action *a)
{
    struct luna_out *o;
    struct luna_peer *n;
    memset(a, 0, sizeof(*a));
    while ((o = luna_out_next(&t->pool)) != NULL) {
        /* A send of a connection that has ended is lent only if it refers to the owner's blocks. */
        if (o->s.cookie == 0 && luna_peer_of(t, o->s.handle) == NULL) {
            snic_luna_target_sent(t, &o->s, t->now_ns);
            continue;
        }
        o->lent_ns = t->now_ns;
        snic_link_append(&t->lent, &o->lent);
        a->type = SNIC_LUNA_TARGET_SEND;
        a->handle = o->s.handle;
        a->send = &o->s;
        return 1;
    }
    if (!snic_link_alone(&t->closing)) {
        n = SNIC_CONTAINER(t->closing.next, struct luna_peer, pause);
        snic_link_remove(&n->pause);
        n->state = LUNA_PEER_FREE;
        a->type = SNIC_LUNA_TARGET_CLOSE;
        a->handle = n->handle;
        a->reason = n->reason;
        return 1;
    }
    if (!snic_link_alone(&t->resume)) {
        n = SNIC_CONTAINER(t->resume.next, struct luna_peer, pause);
        snic_link_remove(&n->pause);
        n->paused = LUNA_PAUSED_NO;
        a->type = SNIC_LUNA_TARGET_RESUME;
        a->handle = n->handle;
        return 1;
    }
    return 0;
}

uint32_t snic_luna_target_poll(struct snic_luna_target *t, struct snic_luna_target_action *out,
                               uint32_t max, uint64_t now_ns)
{
    uint32_t n = 0;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    luna_target_deaf(t);
    if (t->dirty) {
        t->dirty = 0;
        luna_answer_work(t);
    }
    while (n < max && luna_target_report(t, &out[n]))
        n++;
    return n;
}

uint64_t snic_luna_target_deadline_ns(const struct snic_luna_target *t)
{
    if (t->dirty || !snic_queue_empty((&t->pool.p.queue)) || !snic_link_alone(&t->closing) ||
        !snic_link_alone(&t->resume))
        return t->now_ns;
    if (snic_link_alone(&t->lent))
        return SNIC_NEVER;
    return SNIC_CONTAINER(t->lent.next, struct luna_out, lent)->lent_ns + t->o.stall_ns;
}

void snic_luna_target_get_stats(const struct snic_luna_target *t,
                                struct snic_luna_target_stats *out)
{
    *out = t->s;
    out->sends_out = ebs_pool_out(&t->pool.p);
}

int snic_luna_target_get_client(const struct snic_luna_target *t, uint32_t handle,
                                struct snic_luna_target_client *out)
{
    uint32_t slot = handle & (((uint32_t)1 << t->slot_bits) - 1);
    const struct luna_peer *n = &t->peers[slot < t->o.conns_max ? slot : 0];
    if (n->handle != handle || n->state == LUNA_PEER_FREE || n->state == LUNA_PEER_CLOSING)
        return SNIC_ENOENT;
    *out = n->client_stats;
    out->client_id = n->client_id;
    out->heard_ns = n->heard_ns;
    out->frames = n->frames_used;
    out->sends = n->sends_out;
    out->path = n->path_id;
    out->paused = n->paused != LUNA_PAUSED_NO;
    return 0;
}

/* ---- All invariants ---- */

static int luna_peer_check(const struct snic_luna_target *t, const struct luna_peer *n)
{
    uint32_t free_count = 0, used = 0, answers = 0, answered = 0, last = SNIC_LUNA__NONE;
    for (uint32_t i = n->free_frame; i != SNIC_LUNA__NONE; i = n->frames[i].next)
        if (i >= t->o.frames_max || n->frames[i].state != LUNA_FRAME_FREE ||
            ++free_count > t->o.frames_max)
            return SNIC_ECORRUPT;
    for (uint32_t i = n->answers; i != SNIC_LUNA__NONE; i = n->frames[i].next) {
        if (i >= t->o.frames_max || n->frames[i].state != LUNA_FRAME_ANSWERED ||
            ++answers > t->o.frames_max)
            return SNIC_ECORRUPT;
        last = i;
    }
    if (n->answers != SNIC_LUNA__NONE && last != n->answers_last)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < t->o.frames_max; i++) {
        const struct luna_frame *f = &n->frames[i];
        used += f->state != LUNA_FRAME_FREE;
        answered += f->state == LUNA_FRAME_ANSWERED;
        if (f->state == LUNA_FRAME_FREE ? f->serial != 0 : f->serial == 0)
            return SNIC_ECORRUPT; /* J3 */
        if (f->state == LUNA_FRAME_HELD && !f->open && f->left == 0)
            return SNIC_ECORRUPT; /* J2 */
        if (f->open != (f->state != LUNA_FRAME_FREE && n->open == i))
            return SNIC_ECORRUPT;
    }
    return used == n->frames_used && free_count + used == t->o.frames_max && answered == answers &&
                   (answers == 0 || !snic_link_alone(&n->work)) && n->sends_out <= t->sends_each
               ? 0
               : SNIC_ECORRUPT; /* J1, J4 */
}

int snic_luna_target_check(const struct snic_luna_target *t)
{
    uint32_t conns = 0, busy = 0;
    for (uint32_t i = 0; i < t->o.conns_max; i++) {
        const struct luna_peer *n = &t->peers[i];
        if ((n->handle & (((uint32_t)1 << t->slot_bits) - 1)) != i)
            return SNIC_ECORRUPT;
        if (n->state == LUNA_PEER_FREE || n->state == LUNA_PEER_CLOSING) {
            if (!snic_link_alone(&n->work) ||
                (n->state == LUNA_PEER_FREE) != snic_link_alone(&n->pause))
                return SNIC_ECORRUPT; /* J4 */
            continue;
        }
        conns++;
        busy += n->frames_used > 0;
        if ((n->paused == LUNA_PAUSED_ROOM || n->paused == LUNA_RESUMED) ==
                snic_link_alone(&n->pause) ||
            luna_peer_check(t, n) != 0)
            return SNIC_ECORRUPT;
    }
    if (conns != t->s.conns || busy != t->busy || t->s.writes_out > t->s.requests)
        return SNIC_ECORRUPT;
    return luna_pool_check(&t->pool);
}
