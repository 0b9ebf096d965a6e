/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Things with numbers: node states, messages, memberships, each kept once; and what events do,
 * looked up. An item never moves or changes. Readers take no lock: a result is complete before its
 * slot has it.
 */
#include "ddp_node_priv.h"

#include <stdlib.h>
#include <string.h>

#define DN_STATES_MAX (1u << 23)
#define DN_MEMO_FIRST 16

/* ---- Sets ---- */

static void dn_set_init(struct dn_set *s)
{
    s->mask = 1023;
    s->slot = calloc(s->mask + 1, sizeof(*s->slot));
    s->print = calloc(DN_STATES_MAX, sizeof(*s->print)); /* touched as far as used */
    s->item = calloc(DN_STATES_MAX, sizeof(*s->item));
    if (s->slot == NULL || s->print == NULL || s->item == NULL)
        abort();
}

static void dn_set_fini(struct dn_set *s)
{
    uint32_t i;

    for (i = 0; i < s->count; i++)
        free(s->item[i]);
    free(s->slot);
    free(s->print);
    free((void *)s->item);
}

static void dn_set_grow(struct dn_set *s)
{
    uint32_t i;

    free(s->slot);
    s->mask = s->mask * 2 + 1;
    s->slot = calloc(s->mask + 1, sizeof(*s->slot));
    if (s->slot == NULL)
        abort();
    for (i = 0; i < s->count; i++) {
        uint64_t pos = s->print[i].lo & s->mask;

        while (s->slot[pos] != 0)
            pos = (pos + 1) & s->mask;
        s->slot[pos] = i + 1;
    }
}

uint32_t dn_set_add(struct dn_set *s, struct mc_print128 f, const void *item, size_t size)
{
    uint64_t pos = f.lo & s->mask;
    void *copy;

    for (; s->slot[pos] != 0; pos = (pos + 1) & s->mask)
        if (s->print[s->slot[pos] - 1].lo == f.lo && s->print[s->slot[pos] - 1].hi == f.hi)
            return s->slot[pos] - 1;
    copy =
        aligned_alloc(SNIC_DDP_ALIGN, (size + SNIC_DDP_ALIGN - 1) & ~(size_t)(SNIC_DDP_ALIGN - 1));
    if (copy == NULL || s->count == DN_STATES_MAX)
        abort();
    memcpy(copy, item, size);
    s->print[s->count] = f;
    s->item[s->count] = copy;
    s->slot[pos] = ++s->count;
    if ((uint64_t)s->count * 2 > s->mask)
        dn_set_grow(s);
    return s->count - 1;
}
const struct dn_sum *dn_sum(const struct dn_space *s, uint32_t node)
{
    return &dn_node_at(s, node)->sum;
}

const struct snic_ddp_msg *dn_message(const struct dn_space *s, uint32_t message)
{
    return s->messages.item[message];
}

const struct snic_ddp_view *dn_view_at(const struct dn_space *s, uint32_t view)
{
    return s->views.item[view];
}

struct snic_ddp_timer dn_timer(const struct dn_space *s, uint32_t node, uint32_t i)
{
    return dn_node_at(s, node)->timer[i];
}

uint32_t dn_view(struct dn_space *s, const struct snic_ddp_view *v)
{
    uint32_t n;

    (void)pthread_mutex_lock(&s->lock);
    n = dn_set_add(&s->views, mc_fingerprint(v, sizeof(*v)), v, sizeof(*v));
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- The space ---- */

static struct dn_memo *dn_memo_new(uint64_t size)
{
    struct dn_memo *m = calloc(1, sizeof(*m) + size * sizeof(m->slot[0]));

    if (m == NULL)
        abort();
    m->mask = size - 1;
    return m;
}

struct dn_space *dn_space_new(const struct dn_opts *o)
{
    struct dn_space *s = calloc(1, sizeof(*s));
    struct snic_ddp_opts e = dn_engine_opts(o, 0);

    if (s == NULL)
        abort();
    s->o = *o;
    s->node_size = sizeof(struct dn_node) + snic_ddp_memsize(&e);
    (void)pthread_mutex_init(&s->lock, NULL);
    dn_set_init(&s->nodes);
    dn_set_init(&s->messages);
    dn_set_init(&s->views);
    atomic_store(&s->memo, dn_memo_new((uint64_t)1 << DN_MEMO_FIRST));
    return s;
}

void dn_space_free(struct dn_space *s)
{
    struct dn_memo *m = atomic_load(&s->memo);
    uint64_t i;

    for (i = 0; i <= m->mask; i++) {
        struct dn_result *r = atomic_load(&m->slot[i]);

        if (r != NULL) {
            free(r->out);
            free(r->done);
            free(r->owned);
            free(r);
        }
    }
    for (i = 0; i < s->olds; i++)
        free(s->old[i]);
    free(m);
    dn_set_fini(&s->nodes);
    dn_set_fini(&s->messages);
    dn_set_fini(&s->views);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

void dn_counts(const struct dn_space *s, uint64_t *nodes, uint64_t *messages, uint64_t *steps)
{
    *nodes = s->nodes.count;
    *messages = s->messages.count;
    *steps = s->results;
}

/* ---- Looking results up ---- */

static uint64_t dn_memo_hash(uint64_t event)
{
    uint64_t h = event * UINT64_C(0x9e3779b97f4a7c15);

    return (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93) >> 24;
}

struct dn_result *dn_memo_find(struct dn_memo *m, uint64_t event)
{
    uint64_t pos = dn_memo_hash(event) & m->mask;

    for (;; pos = (pos + 1) & m->mask) {
        struct dn_result *r = atomic_load_explicit(&m->slot[pos], memory_order_acquire);

        if (r == NULL || r->event == event)
            return r;
    }
}

static void dn_memo_put(struct dn_memo *m, struct dn_result *r)
{
    uint64_t pos = dn_memo_hash(r->event) & m->mask;

    while (atomic_load_explicit(&m->slot[pos], memory_order_relaxed) != NULL)
        pos = (pos + 1) & m->mask;
    atomic_store_explicit(&m->slot[pos], r, memory_order_release);
}

void dn_memo_add(struct dn_space *s, struct dn_result *r)
{
    struct dn_memo *m = atomic_load(&s->memo);
    uint64_t i;

    if (++s->results * 2 > m->mask) {
        struct dn_memo *n = dn_memo_new((m->mask + 1) * 2);

        for (i = 0; i <= m->mask; i++)
            if (m->slot[i] != NULL)
                dn_memo_put(n, m->slot[i]);
        s->old[s->olds++] = m;
        atomic_store(&s->memo, n);
        m = n;
    }
    dn_memo_put(m, r);
}
