/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "mc_intern.h"

#include <stdlib.h>
#include <string.h>

#define MC_MEMO_FIRST ((uint64_t)1 << 16)

void mc_set_init(struct mc_set *s)
{
    s->mask = 1023;
    s->slot = calloc(s->mask + 1, sizeof(*s->slot));
    s->print = calloc(MC_INTERN_MAX, sizeof(*s->print)); /* touched as far as used */
    s->item = calloc(MC_INTERN_MAX, sizeof(*s->item));
    if (s->slot == NULL || s->print == NULL || s->item == NULL)
        abort();
}

void mc_set_fini(struct mc_set *s)
{
    uint32_t i;

    for (i = 0; i < s->count; i++)
        free(s->item[i]);
    free(s->slot);
    free(s->print);
    free((void *)s->item);
}

static void mc_set_grow(struct mc_set *s)
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

uint32_t mc_set_add(struct mc_set *s, struct mc_print128 f, const void *item, size_t size)
{
    uint64_t pos = f.lo & s->mask;
    void *copy;

    for (; s->slot[pos] != 0; pos = (pos + 1) & s->mask)
        if (s->print[s->slot[pos] - 1].lo == f.lo && s->print[s->slot[pos] - 1].hi == f.hi)
            return s->slot[pos] - 1;
    copy = aligned_alloc(MC_INTERN_ALIGN,
                         (size + MC_INTERN_ALIGN - 1) & ~(size_t)(MC_INTERN_ALIGN - 1));
    if (copy == NULL || s->count == MC_INTERN_MAX)
        abort();
    memcpy(copy, item, size);
    s->print[s->count] = f;
    s->item[s->count] = copy;
    s->slot[pos] = ++s->count;
    if ((uint64_t)s->count * 2 > s->mask)
        mc_set_grow(s);
    return s->count - 1;
}

/* ---- Results ---- */

struct mc_memo_table {
    uint64_t mask;
    _Atomic(void *) slot[];
};

static uint64_t mc_memo_event(const void *result)
{
    uint64_t event;

    memcpy(&event, result, sizeof(event));
    return event;
}

static struct mc_memo_table *mc_memo_table_new(uint64_t size)
{
    struct mc_memo_table *t = calloc(1, sizeof(*t) + size * sizeof(t->slot[0]));

    if (t == NULL)
        abort();
    t->mask = size - 1;
    return t;
}

void mc_memo_init(struct mc_memo *m)
{
    memset(m, 0, sizeof(*m));
    atomic_store(&m->table, mc_memo_table_new(MC_MEMO_FIRST));
}

void mc_memo_fini(struct mc_memo *m, void (*done)(void *result))
{
    struct mc_memo_table *t = atomic_load(&m->table);
    uint64_t i;

    for (i = 0; i <= t->mask; i++)
        if (atomic_load(&t->slot[i]) != NULL)
            done(atomic_load(&t->slot[i]));
    for (i = 0; i < m->olds; i++)
        free(m->old[i]);
    free(t);
}

static uint64_t mc_memo_hash(uint64_t event)
{
    uint64_t h = event * UINT64_C(0x9e3779b97f4a7c15);

    return (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93) >> 24;
}

void *mc_memo_find(struct mc_memo *m, uint64_t event)
{
    struct mc_memo_table *t = atomic_load_explicit(&m->table, memory_order_acquire);
    uint64_t pos = mc_memo_hash(event) & t->mask;

    for (;; pos = (pos + 1) & t->mask) {
        void *r = atomic_load_explicit(&t->slot[pos], memory_order_acquire);

        if (r == NULL || mc_memo_event(r) == event)
            return r;
    }
}

static void mc_memo_put(struct mc_memo_table *t, void *result)
{
    uint64_t pos = mc_memo_hash(mc_memo_event(result)) & t->mask;

    while (atomic_load_explicit(&t->slot[pos], memory_order_relaxed) != NULL)
        pos = (pos + 1) & t->mask;
    atomic_store_explicit(&t->slot[pos], result, memory_order_release);
}

void mc_memo_add(struct mc_memo *m, void *result)
{
    struct mc_memo_table *t = atomic_load(&m->table);
    uint64_t i;

    if (++m->count * 2 > t->mask) {
        struct mc_memo_table *n = mc_memo_table_new((t->mask + 1) * 2);

        for (i = 0; i <= t->mask; i++)
            if (atomic_load(&t->slot[i]) != NULL)
                mc_memo_put(n, atomic_load(&t->slot[i]));
        m->old[m->olds++] = t;
        atomic_store(&m->table, n);
        t = n;
    }
    mc_memo_put(t, result);
}
