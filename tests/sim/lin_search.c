/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Depth first over the orders in which operations may have taken effect: from each state the next
 * one is any that was called before the first return among those left. What was tried is remembered
 * as (set of operations done, value), so that no state is searched twice.
 *
 * A write of unknown outcome is used only if an operation saw its value, and then it took effect
 * before that answer: so every operation has an end.
 */
#include "lin.h"

#include <stdlib.h>
#include <string.h>

enum { LIN_WORDS = (LIN_WINDOW + 63) / 64, LIN_SLOTS = 1 << 14, LIN_STEPS = 4000000 };
#define LIN_ANY UINT64_MAX /* the value before the first look at it */

struct lin_set {
    uint64_t word[LIN_WORDS];
    uint64_t value;
};

struct lin_search {
    struct lin_op op[LIN_WINDOW];
    uint32_t count;
    struct lin_set *table;
    uint8_t *used;
    uint64_t room;
    uint64_t filled;
    uint32_t path[LIN_WINDOW];
    uint64_t before[LIN_WINDOW]; /* the value before that step */
};

static uint64_t lin_hash(const struct lin_set *s)
{
    uint64_t h = s->value * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < LIN_WORDS; i++) {
        h = (h ^ s->word[i]) * UINT64_C(0xbf58476d1ce4e5b9);
        h ^= h >> 29;
    }
    return h;
}

static int lin_same(const struct lin_set *a, const struct lin_set *b)
{
    return memcmp(a->word, b->word, sizeof(a->word)) == 0 && a->value == b->value;
}

static void lin_grow(struct lin_search *s)
{
    struct lin_set *old = s->table;
    uint8_t *old_used = s->used;
    uint64_t n = s->room;
    s->room = n * 2;
    s->table = calloc(s->room, sizeof(*s->table));
    s->used = calloc(s->room, 1);
    for (uint64_t i = 0; i < n; i++) {
        if (!old_used[i])
            continue;
        uint64_t j = lin_hash(&old[i]) & (s->room - 1);
        while (s->used[j])
            j = (j + 1) & (s->room - 1);
        s->table[j] = old[i];
        s->used[j] = 1;
    }
    free(old);
    free(old_used);
}

/* 1: it was not there. */
static int lin_remember(struct lin_search *s, const struct lin_set *set)
{
    if (s->filled * 2 > s->room)
        lin_grow(s);
    uint64_t j = lin_hash(set) & (s->room - 1);
    for (; s->used[j]; j = (j + 1) & (s->room - 1)) {
        if (lin_same(&s->table[j], set))
            return 0;
    }
    s->table[j] = *set;
    s->used[j] = 1;
    s->filled++;
    return 1;
}

/* May it happen now? Then *value is what there is afterwards. */
static int lin_apply(const struct lin_op *op, uint64_t *value)
{
    if (op->kind == LIN_READ) {
        if (*value != LIN_ANY && *value != op->value)
            return 0;
        *value = op->value;
        return 1;
    }
    if (op->kind == LIN_CAS && *value != LIN_ANY && *value != op->expect)
        return 0;
    *value = op->value;
    return 1;
}

static enum lin_verdict lin_search_run(struct lin_search *s, uint64_t value)
{
    struct lin_set set;
    uint32_t depth = 0;
    uint32_t from = 0; /* operations below were tried at this depth */
    memset(&set, 0, sizeof(set));
    set.value = value;
    for (uint64_t steps = 0; depth < s->count; steps++) {
        uint64_t first_end = LIN_OPEN;
        uint32_t next = s->count;
        if (steps > LIN_STEPS)
            return LIN_GAVE_UP;
        for (uint32_t i = 0; i < s->count; i++) {
            if ((set.word[i / 64] >> i % 64 & 1) == 0 && s->op[i].end < first_end)
                first_end = s->op[i].end;
        }
        for (uint32_t i = from; i < s->count && next == s->count && s->op[i].call <= first_end;
             i++) {
            struct lin_set to = set;
            if ((set.word[i / 64] >> i % 64 & 1) != 0 || !lin_apply(&s->op[i], &to.value))
                continue;
            to.word[i / 64] |= UINT64_C(1) << i % 64;
            if (!lin_remember(s, &to))
                continue;
            s->path[depth] = next = i;
            s->before[depth++] = set.value;
            set = to;
        }
        if (next != s->count) {
            from = 0;
            continue;
        }
        if (depth == 0)
            return LIN_BAD;
        from = s->path[--depth];
        set.word[from / 64] &= ~(UINT64_C(1) << from % 64);
        set.value = s->before[depth];
        from++;
    }
    return LIN_GOOD;
}

static int lin_call_order(const void *a, const void *b)
{
    const struct lin_op *x = a, *y = b;
    return x->call < y->call ? -1 : x->call > y->call;
}

/* When that value was first seen, at the latest; LIN_OPEN: never. */
static uint64_t lin_seen(const struct lin_op *ops, size_t count, const struct lin_op *w)
{
    uint64_t at = LIN_OPEN;
    if (w->value == 0)
        return at; /* a deletion: whose is unknown */
    for (size_t i = 0; i < count; i++) {
        const struct lin_op *o = &ops[i];
        int saw = (o->kind == LIN_READ && o->value == w->value) ||
                  (o->kind == LIN_CAS && o->end != LIN_OPEN && o->expect == w->value);
        if (o->key == w->key && saw && o->end < at)
            at = o->end;
    }
    return at;
}

static int lin_has(const struct lin_search *s, uint64_t value)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->op[i].kind != LIN_READ && s->op[i].value == value)
            return 1;
    }
    return value == 0;
}

/* The key's operations of that time, without what cannot be judged. */
static void lin_gather(struct lin_search *s, const struct lin_op *ops, size_t count, uint64_t key,
                       uint64_t from, uint64_t to)
{
    uint32_t n = 0;
    uint64_t deletion = LIN_OPEN; /* the first call of one that is not among them, but may show */
    struct lin_op *all = calloc(count + 1, sizeof(*all));
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        struct lin_op o = ops[i];
        if (o.key != key || o.call >= to)
            continue;
        if (o.kind != LIN_READ && o.value == 0 && o.call < deletion &&
            (o.end >= to || (o.call < from && o.end >= from)))
            deletion = o.call;
        if (o.call < from)
            continue;
        if (o.end == LIN_OPEN && o.kind != LIN_READ)
            o.end = lin_seen(ops, count, &o);
        if (o.end < to)
            all[total++] = o;
    }
    qsort(all, total, sizeof(*all), lin_call_order);
    for (size_t i = 0; i < total && n < LIN_WINDOW; i++)
        s->op[n++] = all[i];
    uint64_t cut = n < total ? all[n].call : LIN_OPEN; /* a deletion from then on is not here */
    free(all);
    s->count = n;
    for (uint32_t i = 0; i < s->count;) {
        struct lin_op *o = &s->op[i];
        /* A deletion may show that was called before the time, or ends after it, or never. */
        int unclear = o->end >= deletion || o->end > cut;
        int strange = o->kind == LIN_READ && (!lin_has(s, o->value) || (unclear && o->value == 0));
        if (o->kind == LIN_CAS && (!lin_has(s, o->expect) || (unclear && o->expect == 0)))
            o->kind = LIN_WRITE; /* that weakens it */
        if (strange)
            memmove(o, o + 1, (--s->count - i) * sizeof(*o));
        else
            i++;
    }
}

enum lin_verdict lin_check_search(const struct lin_op *ops, size_t count, uint64_t from,
                                  uint64_t to, uint64_t *key)
{
    struct lin_search *s = calloc(1, sizeof(*s));
    enum lin_verdict worst = LIN_GOOD;
    s->room = LIN_SLOTS;
    s->table = calloc(s->room, sizeof(*s->table));
    s->used = calloc(s->room, 1);
    for (size_t i = 0; i < count && worst != LIN_BAD; i++) {
        int again = 0;
        for (size_t j = 0; j < i && !again; j++)
            again = ops[j].key == ops[i].key;
        if (again)
            continue;
        lin_gather(s, ops, count, ops[i].key, from, to);
        memset(s->used, 0, s->room);
        s->filled = 0;
        enum lin_verdict v = lin_search_run(s, from == 0 ? 0 : LIN_ANY);
        if (v == LIN_BAD && key != NULL)
            *key = ops[i].key;
        if (v != LIN_GOOD)
            worst = v;
    }
    free(s->table);
    free(s->used);
    free(s);
    return worst;
}
