/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the engines of MINOS-B and MINOS-O have in common: core.h. */
#include "ddp/core.h"

/* ---- Options ---- */

void ddp_sizes_default(uint32_t *others_max, uint64_t *retransmit_ns, uint64_t *replay_ns)
{
    if (*others_max == 0)
        *others_max = SNIC_DDP_NODES_MAX - 1;
    if (*retransmit_ns == 0)
        *retransmit_ns = UINT64_C(1000000);
    if (*replay_ns == 0)
        *replay_ns = UINT64_C(10000000);
}

const char *ddp_sizes_wrong(const struct ddp_sizes *s)
{
    if (s->model < SNIC_DDP_SYNCH || s->model > SNIC_DDP_SCOPE)
        return "model: not an enum snic_ddp_model";
    if (s->node >= SNIC_DDP_NODES_MAX)
        return "node: not below SNIC_DDP_NODES_MAX (16)";
    if (s->others_max >= SNIC_DDP_NODES_MAX)
        return "others_max: more than 15";
    if (s->keys_max < 1 || s->keys_max > SNIC_DDP__KEYS_MAX)
        return "keys_max: not 1 to 2^28";
    if (s->writes_max < 2 || s->writes_max > SNIC_DDP__POOL_MAX)
        return "writes_max: not 2 to 2^20";
    if (s->waits_max < 2 || s->waits_max > SNIC_DDP__POOL_MAX)
        return "waits_max: not 2 to 2^20";
    if (s->reads_max > SNIC_DDP__POOL_MAX)
        return "reads_max: more than 2^20";
    if (s->scopes_max > SNIC_DDP__SCOPES_MAX)
        return "scopes_max: more than 2^16";
    if (s->retransmit_ns > SNIC_DDP__NS_MAX)
        return "retransmit_ns: more than 2^50";
    if (s->replay_ns > SNIC_DDP__NS_MAX)
        return "replay_ns: more than 2^50";
    return NULL;
}

/* ---- Pools ---- */

/* The offset of *@p end of @p block from @p part of it. */
static uint64_t ddp_core_offset(const void *block, uint64_t end, const void *part)
{
    return end - (uint64_t)((const unsigned char *)part - (const unsigned char *)block);
}

void ddp_pool_place(struct ddp_pool *p, const void *block, uint64_t *end, uint32_t max, size_t size,
                    size_t link)
{
    SNIC_ASSERT(link + sizeof(uint32_t) <= size);
    SNIC_ASSERT((*end & (SNIC_DDP_ALIGN - 1)) == 0);
    p->at = ddp_core_offset(block, *end, p);
    p->size = (uint32_t)size;
    p->link = (uint32_t)link;
    p->free = SNIC_DDP__NIL;
    p->high = 0;
    p->used = 0;
    p->max = max;
    *end += snic_align_up((uint64_t)max * size, SNIC_DDP_ALIGN);
}

static void *ddp_pool_at(const struct ddp_pool *p, uint32_t n)
{
    return ddp_part(ddp_pool_first(p), (uint64_t)n * p->size);
}

/* The number of an object of zeroes. There is one: the caller looked. */
uint32_t ddp_pool_take(struct ddp_pool *p)
{
    SNIC_ASSERT(p->used < p->max);
    uint32_t n = p->free;
    if (n != SNIC_DDP__NIL)
        memcpy(&p->free, ddp_part(ddp_pool_at(p, n), p->link), sizeof(p->free));
    else
        n = p->high++;
    SNIC_ASSERT(n < p->high && p->high <= p->max);
    p->used++;
    memset(ddp_pool_at(p, n), 0, p->size);
    return n;
}

void ddp_pool_give(struct ddp_pool *p, uint32_t n)
{
    SNIC_ASSERT(n < p->high && p->used > 0);
    memset(ddp_pool_at(p, n), 0, p->size);
    memcpy(ddp_part(ddp_pool_at(p, n), p->link), &p->free, sizeof(p->free));
    p->free = n;
    p->used--;
}

/* ---- The index of records ---- */

void ddp_index_place(struct ddp_index *x, const void *block, uint64_t *end, uint32_t recs)
{
    uint64_t slots = snic_pow2_up((uint64_t)recs * 3 / 2 + 1);
    x->at = ddp_core_offset(block, *end, x);
    x->mask = (uint32_t)(slots - 1);
    x->shift = (uint32_t)(32 - __builtin_ctzll(slots));
    *end += snic_align_up(slots * sizeof(struct ddp_slot), SNIC_DDP_ALIGN);
}

void ddp_index_clear(struct ddp_index *x)
{
    memset(ddp_index_slots(x), 0, ((size_t)x->mask + 1) * sizeof(struct ddp_slot));
}

void ddp_index_add(struct ddp_index *x, uint32_t hash, uint32_t n)
{
    struct ddp_slot *slots = ddp_index_slots(x);
    uint32_t i = hash >> x->shift;
    while (slots[i].rec != 0)
        i = (i + 1) & x->mask;
    slots[i].hash = hash;
    slots[i].rec = n + 1;
}

void ddp_index_remove(struct ddp_index *x, uint32_t hash, uint32_t n)
{
    struct ddp_slot *slots = ddp_index_slots(x);
    uint32_t hole = hash >> x->shift;
    while (slots[hole].rec != n + 1) {
        SNIC_ASSERT(slots[hole].rec != 0); /* it is in the index */
        hole = (hole + 1) & x->mask;
    }
    for (uint32_t i = (hole + 1) & x->mask; slots[i].rec != 0; i = (i + 1) & x->mask) {
        uint32_t home = slots[i].hash >> x->shift;
        /* It may fill the hole unless its home lies behind the hole. */
        if (((i - home) & x->mask) >= ((i - hole) & x->mask)) {
            slots[hole] = slots[i];
            hole = i;
        }
    }
    slots[hole].hash = 0;
    slots[hole].rec = 0;
}

uint32_t ddp_index_count(const struct ddp_index *x)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i <= x->mask; i++)
        count += ddp_index_slots(x)[i].rec != 0;
    return count;
}

uint32_t ddp_index_walk(const struct ddp_index *x, struct ddp_walk *w)
{
    const struct ddp_slot *slots = ddp_index_slots(x);
    uint64_t first = w->lo >> x->shift;
    uint64_t last = w->hi == w->lo ? first : (w->hi - 1) >> x->shift;
    while (w->slots <= x->mask) {
        const struct ddp_slot *s = &slots[(first + w->slots) & x->mask];
        /* Those behind the range's last slot may have been pushed there by their predecessors. */
        if (s->rec == 0 && first + w->slots > last)
            break;
        w->slots++;
        if (s->rec != 0 && s->hash >= w->lo && s->hash < w->hi)
            return s->rec - 1;
    }
    return SNIC_DDP__NIL;
}

/* ---- Timers ---- */

void ddp_timers_init(struct ddp_timers *ts, uint64_t retransmit_ns, uint64_t replay_ns)
{
    memset(ts, 0, sizeof(*ts));
    for (uint32_t c = 0; c < DDP_CLASSES; c++)
        ts->classes[c].first = ts->classes[c].last = SNIC_DDP__NIL;
    ts->retransmit_ns = retransmit_ns;
    ts->replay_ns = replay_ns;
}

int ddp_timers_set(struct ddp_timers *ts, uint64_t retransmit_ns, uint64_t replay_ns,
                   uint64_t flush_ns)
{
    if (retransmit_ns == 0 || retransmit_ns > SNIC_DDP__NS_MAX || replay_ns == 0 ||
        replay_ns > SNIC_DDP__NS_MAX || flush_ns > SNIC_DDP__NS_MAX)
        return SNIC_EINVAL;
    ts->flush_ns = flush_ns;
    ts->retransmit_ns = retransmit_ns;
    ts->replay_ns = replay_ns;
    return 0;
}

void ddp_timers_span(struct ddp_timers *ts, const void *first, size_t size, uint32_t count)
{
    uint32_t i = 0;
    while (i < SNIC_DDP__SPANS && ts->spans[i].size != 0)
        i++;
    SNIC_ASSERT(i < SNIC_DDP__SPANS);
    ts->spans[i].at = (uint64_t)((uintptr_t)first - (uintptr_t)ts);
    ts->spans[i].size = (uint32_t)size;
    ts->spans[i].count = count;
}

struct ddp_timer *ddp_timers_at(const struct ddp_timers *ts, uint32_t number)
{
    const struct ddp_span *s = ts->spans;
    while (number >= s->count) {
        number -= s->count;
        s++;
        SNIC_ASSERT(s < ts->spans + SNIC_DDP__SPANS);
    }
    return ddp_part(ts, s->at + (uint64_t)number * s->size);
}

void ddp_timers_stop(struct ddp_timers *ts, uint32_t number)
{
    struct ddp_timer *t = ddp_timers_at(ts, number);
    if (t->armed == 0)
        return;
    struct ddp_list *l = &ts->classes[t->armed - 1];
    if (t->prev != SNIC_DDP__NIL)
        ddp_timers_at(ts, t->prev)->next = t->next;
    else
        l->first = t->next;
    if (t->next != SNIC_DDP__NIL)
        ddp_timers_at(ts, t->next)->prev = t->prev;
    else
        l->last = t->prev;
    memset(t, 0, sizeof(*t));
}

static uint64_t ddp_timers_ns(const struct ddp_timers *ts, uint32_t class)
{
    if (class < SNIC_DDP__DOUBLINGS) {
        uint64_t ns = snic_min_u64(ts->retransmit_ns << class,
                                   snic_max_u64(ts->retransmit_ns, SNIC_DDP__RETRY_NS));
        return class == SNIC_DDP__DOUBLINGS - 1 ? snic_max_u64(ns, ts->flush_ns) : ns;
    }
    if (class == DDP_SOON)
        return 1;
    return class < DDP_PACE ? ts->replay_ns << (class - DDP_REPLAY) : ts->replay_ns;
}

void ddp_timers_sooner(struct ddp_timers *ts, uint64_t now_ns)
{
    for (uint32_t c = 0; c < SNIC_DDP__DOUBLINGS; c++) {
        for (uint32_t n = ts->classes[c].first; n != SNIC_DDP__NIL;) {
            struct ddp_timer *t = ddp_timers_at(ts, n);
            t->deadline_ns = snic_min_u64(t->deadline_ns, now_ns + ts->retransmit_ns);
            n = t->next;
        }
    }
}

void ddp_timers_arm(struct ddp_timers *ts, uint32_t number, uint32_t class, uint64_t now_ns)
{
    SNIC_ASSERT(class < DDP_CLASSES);
    struct ddp_timer *t = ddp_timers_at(ts, number);
    struct ddp_list *l = &ts->classes[class];
    ddp_timers_stop(ts, number);
    t->armed = (uint8_t)(class + 1);
    t->deadline_ns = now_ns + ddp_timers_ns(ts, class);
    t->next = SNIC_DDP__NIL;
    t->prev = l->last;
    if (l->last != SNIC_DDP__NIL) {
        struct ddp_timer *before = ddp_timers_at(ts, l->last);
        before->next = number;
        t->deadline_ns = snic_max_u64(t->deadline_ns, before->deadline_ns); /* TIMES */
    } else {
        l->first = number;
    }
    l->last = number;
}

void ddp_timers_retry(struct ddp_timers *ts, uint32_t number, uint32_t tries, uint64_t now_ns)
{
    const uint32_t last = SNIC_DDP__DOUBLINGS - 1;
    ddp_timers_arm(ts, number, tries < last ? tries : last, now_ns);
}

uint64_t ddp_timers_deadline(const struct ddp_timers *ts)
{
    uint64_t first = SNIC_NEVER;
    for (uint32_t c = 0; c < DDP_CLASSES; c++) {
        if (ts->classes[c].first != SNIC_DDP__NIL)
            first = snic_min_u64(first, ddp_timers_at(ts, ts->classes[c].first)->deadline_ns);
    }
    return first;
}

uint32_t ddp_timers_due(const struct ddp_timers *ts, uint64_t now_ns)
{
    for (uint32_t c = 0; c < DDP_CLASSES; c++) {
        uint32_t n = ts->classes[c].first;
        if (n != SNIC_DDP__NIL && ddp_timers_at(ts, n)->deadline_ns <= now_ns)
            return n;
    }
    return SNIC_DDP__NIL;
}

uint32_t ddp_timers_next(const struct ddp_timers *ts, uint32_t number)
{
    uint32_t c = 0;
    if (number != SNIC_DDP__NIL) {
        const struct ddp_timer *t = ddp_timers_at(ts, number);
        if (t->next != SNIC_DDP__NIL)
            return t->next;
        c = t->armed; /* the class after its own */
    }
    for (; c < DDP_CLASSES; c++) {
        if (ts->classes[c].first != SNIC_DDP__NIL)
            return ts->classes[c].first;
    }
    return SNIC_DDP__NIL;
}

int ddp_timers_check(const struct ddp_timers *ts, uint32_t number)
{
    const struct ddp_timer *t = ddp_timers_at(ts, number);
    if (t->armed == 0)
        return 0;
    if (t->armed > DDP_CLASSES)
        return SNIC_ECORRUPT;
    const struct ddp_list *l = &ts->classes[t->armed - 1];
    uint32_t at_prev = t->prev == SNIC_DDP__NIL ? l->first : ddp_timers_at(ts, t->prev)->next;
    uint32_t at_next = t->next == SNIC_DDP__NIL ? l->last : ddp_timers_at(ts, t->next)->prev;
    if (at_prev != number || at_next != number)
        return SNIC_ECORRUPT;
    if (t->next != SNIC_DDP__NIL && ddp_timers_at(ts, t->next)->deadline_ns < t->deadline_ns)
        return SNIC_ECORRUPT;
    return 0;
}

/* ---- Reads that wait for an unlock ---- */

static struct ddp_read *ddp_reads_at(const struct ddp_pool *reads, uint32_t n)
{
    return (struct ddp_read *)ddp_pool_first(reads) + n;
}

struct ddp_read *ddp_reads_wait(struct ddp_pool *reads, struct ddp_list *of, uint64_t token,
                                uint32_t rec)
{
    uint32_t n = ddp_pool_take(reads);
    struct ddp_read *q = ddp_reads_at(reads, n);
    q->token = token;
    q->rec = rec;
    q->next = SNIC_DDP__NIL;
    if (of->first == SNIC_DDP__NIL)
        of->first = n;
    else
        ddp_reads_at(reads, of->last)->next = n;
    of->last = n;
    return q;
}

void ddp_reads_ready(struct ddp_pool *reads, struct ddp_list *of, struct ddp_list *ready)
{
    if (of->first == SNIC_DDP__NIL)
        return;
    if (ready->first == SNIC_DDP__NIL)
        ready->first = of->first;
    else
        ddp_reads_at(reads, ready->last)->next = of->first;
    ready->last = of->last;
    of->first = of->last = SNIC_DDP__NIL;
}

struct ddp_read ddp_reads_pop(struct ddp_pool *reads, struct ddp_list *ready)
{
    uint32_t n = ready->first;
    SNIC_ASSERT(n != SNIC_DDP__NIL);
    struct ddp_read q = *ddp_reads_at(reads, n);
    ready->first = q.next;
    if (q.next == SNIC_DDP__NIL)
        ready->last = SNIC_DDP__NIL;
    ddp_pool_give(reads, n);
    ddp_reads_at(reads, n)->rec = SNIC_DDP__NIL;
    return q;
}

/* ---- Slow nodes ---- */

void ddp_suspect(struct ddp_suspects *s, uint16_t *late, uint16_t now)
{
    uint16_t change = (uint16_t)(*late ^ now);
    if (change == 0)
        return;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((change & ddp_bit(n)) != 0)
            s->late[n] += (now & ddp_bit(n)) != 0 ? 1 : UINT32_MAX;
    }
    *late = now;
    s->changed = 1;
}

int ddp_suspects_report(struct ddp_suspects *s, uint16_t *mask)
{
    *mask = 0;
    s->changed = 0;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++)
        *mask |= s->late[n] != 0 ? ddp_bit(n) : 0;
    if (*mask == s->reported)
        return 0;
    s->reported = *mask;
    return 1;
}

/* ---- Actions that wait to be polled ---- */

/* ---- Models ---- */

int ddp_rules_have(const struct ddp_rules *u, uint32_t type)
{
    switch (type) {
    case SNIC_DDP_ACK:
        return u->acks == DDP_ONE;
    case SNIC_DDP_ACK_C:
        return u->acks != DDP_ONE;
    case SNIC_DDP_ACK_P:
        return u->acks == DDP_SPLIT;
    case SNIC_DDP_VAL:
    case SNIC_DDP_VAL_C:
        return u->val_type == type;
    case SNIC_DDP_VAL_P:
        return u->val_p != DDP_NEVER;
    default:
        return 1;
    }
}

/* ---- Messages ---- */

int ddp_msg_foreign(const struct snic_ddp_msg *m, uint32_t node, uint32_t epoch, uint16_t others,
                    const uint32_t *incarnation)
{
    return m->src < SNIC_DDP_NODES_MAX &&
           (m->epoch != epoch || (others & ddp_bit(m->src)) == 0 || m->dst != node ||
            m->src_incarnation != incarnation[m->src] || m->dst_incarnation != incarnation[node]);
}

/* ---- Canonical bytes ---- */

void ddp_canon_u64(struct ddp_canon *o, uint64_t v)
{
    if (o->used + 8 <= o->size)
        snic_put_le64(o->at + o->used, v);
    o->used += 8;
}
