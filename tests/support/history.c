/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "history.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { STATES_MAX = 1 << 20 };

size_t history_add(struct history *h, const struct history_op *op)
{
    if (h->count == h->room) {
        h->room = h->room == 0 ? 1024 : h->room * 2;
        struct history_op *ops = realloc(h->ops, h->room * sizeof(*ops));
        assert_non_null(ops);
        h->ops = ops;
    }
    assert_true(op->call <= op->end);
    h->ops[h->count] = *op;
    return h->count++;
}

void history_free(struct history *h)
{
    free(h->ops);
    memset(h, 0, sizeof(*h));
}

/* ---- One key ---- */

struct one {
    struct history_op *ops; /* by call time; after is an index in here */
    size_t count;
};

static int by_key(const void *a, const void *b)
{
    const struct history_op *x = *(const struct history_op *const *)a;
    const struct history_op *y = *(const struct history_op *const *)b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* ---- Wing and Gong ---- */

/*
 * The state of a search: everything before `first` is linearized, and of the ops from there on
 * those whose bit is set. `value` is the register.
 */
struct state {
    uint64_t first;
    uint64_t value;
    uint64_t bits[4];
};

enum { WINDOW = 256 };

struct search {
    const struct one *o;
    struct state *seen; /* a hash set */
    size_t seen_count, seen_room;
};

static uint64_t state_hash(const struct state *s)
{
    uint64_t h = s->first * UINT64_C(0x9e3779b97f4a7c15) ^ s->value;
    for (int i = 0; i < 4; i++)
        h = (h ^ s->bits[i]) * UINT64_C(0xff51afd7ed558ccd) ^ (h >> 29);
    return h;
}

/* 1 when @s is new; 0 seen before; -1 too many. */
static int seen_add(struct search *x, const struct state *s)
{
    if (x->seen_count * 2 >= x->seen_room) {
        size_t room = x->seen_room == 0 ? 4096 : x->seen_room * 2;
        struct state *old = x->seen;
        size_t old_room = x->seen_room;
        if (room > 2 * (size_t)STATES_MAX)
            return -1;
        x->seen = calloc(room, sizeof(*x->seen));
        assert_non_null(x->seen);
        x->seen_room = room;
        x->seen_count = 0;
        for (size_t i = 0; i < old_room; i++)
            if (old[i].first != 0)
                (void)seen_add(x, &old[i]);
        free(old);
    }
    size_t i = (size_t)state_hash(s) & (x->seen_room - 1);
    while (x->seen[i].first != 0) {
        if (memcmp(&x->seen[i], s, sizeof(*s)) == 0)
            return 0;
        i = (i + 1) & (x->seen_room - 1);
    }
    x->seen[i] = *s;
    x->seen_count++;
    return 1;
}

static int state_done(const struct state *s, size_t i)
{
    uint64_t first = s->first - 1; /* stored with 1 added: 0 means empty */
    if (i < first)
        return 1;
    return i - first < WINDOW && (s->bits[(i - first) / 64] >> ((i - first) % 64) & 1) != 0;
}

/* Linearize op @i, or only put it aside; 0 when the window is too small. */
static int state_step(const struct one *o, const struct state *from, size_t i, int aside,
                      struct state *to)
{
    uint64_t first = from->first - 1;
    *to = *from;
    if (i - first >= WINDOW)
        return 0;
    to->bits[(i - first) / 64] |= UINT64_C(1) << ((i - first) % 64);
    if (o->ops[i].write && !aside)
        to->value = o->ops[i].value;
    while (to->bits[0] & 1) { /* slide over what is done */
        for (int k = 0; k < 4; k++)
            to->bits[k] = to->bits[k] >> 1 | (k < 3 ? to->bits[k + 1] << 63 : 0);
        to->first++;
    }
    return 1;
}

/* A read that can be next may be: it changes nothing, and later is no better. 1, 0 none, -1: it is
 * outside of the window. */
static int search_read(const struct one *o, const struct state *s, uint64_t horizon,
                       struct state *next)
{
    for (size_t i = s->first - 1; i < o->count && o->ops[i].call <= horizon; i++) {
        const struct history_op *op = &o->ops[i];
        if (op->write || op->value != s->value || state_done(s, i) ||
            (op->after != HISTORY_NONE && !state_done(s, op->after)))
            continue;
        return state_step(o, s, i, 0, next) ? 1 : -1;
    }
    return 0;
}

/*
 * Depth first. An op may be next if no other op that is not done has ended before its call. A
 * write of unknown outcome may stay undone for ever.
 */
static enum history_verdict search_key(const struct one *o)
{
    struct search x = {.o = o};
    size_t room = 1024, depth = 0;
    struct state *stack = malloc(room * sizeof(*stack));
    enum history_verdict v = HISTORY_BAD;
    int cut = 0; /* a branch was left because of the window: another one may still be good */
    assert_non_null(stack);
    stack[depth++] = (struct state){.first = 1};
    (void)seen_add(&x, &stack[0]);
    while (depth > 0) {
        struct state s = stack[--depth];
        uint64_t horizon = HISTORY_OPEN; /* the earliest end of what is not done */
        int open = 0;
        for (size_t i = s.first - 1; i < o->count && o->ops[i].call <= horizon; i++) {
            if (state_done(&s, i))
                continue;
            open |= o->ops[i].end != HISTORY_OPEN;
            if (o->ops[i].end < horizon)
                horizon = o->ops[i].end;
        }
        int step = search_read(o, &s, horizon, &stack[depth]);
        cut |= step < 0;
        if (step < 0)
            continue;
        depth += (size_t)step;
        if (step > 0)
            continue;
        if (!open) { /* only writes of unknown outcome are left (horizon is open: all were seen) */
            v = HISTORY_GOOD;
            break;
        }
        for (size_t i = s.first - 1; i < o->count && o->ops[i].call <= horizon; i++) {
            const struct history_op *op = &o->ops[i];
            struct state next;
            if (state_done(&s, i) || (!op->write && op->value != s.value) ||
                (op->after != HISTORY_NONE && !state_done(&s, op->after)))
                continue;
            /* A write of unknown outcome may also never happen. */
            for (int aside = op->end == HISTORY_OPEN; aside >= 0; aside--) {
                int fits = state_step(o, &s, i, aside, &next);
                int r = fits ? seen_add(&x, &next) : 0;
                cut |= !fits;
                if (r < 0)
                    v = HISTORY_GAVE_UP;
                if (r <= 0)
                    continue;
                if (depth == room) {
                    room *= 2;
                    stack = realloc(stack, room * sizeof(*stack));
                    assert_non_null(stack);
                }
                stack[depth++] = next;
            }
        }
        if (x.seen_count >= STATES_MAX)
            v = HISTORY_GAVE_UP;
        if (v == HISTORY_GAVE_UP)
            break;
    }
    free(stack);
    free(x.seen);
    return v == HISTORY_BAD && cut ? HISTORY_GAVE_UP : v;
}

/* ---- Unique values: zones ---- */

/*
 * The cluster of a value is its write and its reads. Its zone runs from the earliest end to the
 * latest call among them. Forward zones (end before call): some time at which the register must
 * hold the value; two of them must not overlap, and a backward zone must not lie inside one.
 */
struct cluster {
    uint64_t value;
    uint64_t low;  /* earliest end */
    uint64_t high; /* latest call */
    uint64_t write_call, write_end;
    int written, reads;
};

static int by_value(const void *a, const void *b)
{
    const struct history_op *x = a;
    const struct history_op *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->write > y->write ? -1 : x->write < y->write;
}

static int by_low(const void *a, const void *b)
{
    const struct cluster *x = a;
    const struct cluster *y = b;
    uint64_t l = x->low < x->high ? x->low : x->high;
    uint64_t r = y->low < y->high ? y->low : y->high;
    return l < r ? -1 : l > r;
}

static enum history_verdict zones_check(struct cluster *c, size_t n)
{
    uint64_t from = 0; /* the last forward zone */
    uint64_t until = 0;
    int any = 0;
    qsort(c, n, sizeof(*c), by_low);
    for (size_t i = 0; i < n; i++) {
        int forward = c[i].low < c[i].high;
        if (forward) {
            if (any && c[i].low < until)
                return HISTORY_BAD;
            from = c[i].low;
            until = c[i].high;
            any = 1;
        } else if (any && c[i].high > from && c[i].low < until) { /* inside; ties may go before */
            return HISTORY_BAD;
        }
    }
    return HISTORY_GOOD;
}

/* GOOD or BAD when the zones decide; GAVE_UP: the search has to. */
static enum history_verdict zones_key(const struct one *o)
{
    struct history_op *ops = malloc((o->count + 1) * sizeof(*ops));
    struct cluster *c = malloc((o->count + 1) * sizeof(*c));
    size_t n = 0;
    enum history_verdict v = HISTORY_GAVE_UP;
    assert_non_null(ops);
    assert_non_null(c);
    memcpy(ops, o->ops, o->count * sizeof(*ops));
    qsort(ops, o->count, sizeof(*ops), by_value);
    for (size_t i = 0; i < o->count; i++) { /* time 0 is before everything */
        ops[i].call++;
        ops[i].end += ops[i].end != HISTORY_OPEN;
    }
    for (size_t i = 0; i < o->count; i++) {
        if (ops[i].after != HISTORY_NONE || (ops[i].write && ops[i].value == 0))
            goto out; /* deletes write the same value; program order is for the search */
        if (n == 0 || c[n - 1].value != ops[i].value) {
            c[n] = (struct cluster){.value = ops[i].value, .low = HISTORY_OPEN};
            if (ops[i].value == 0) { /* written before everything */
                c[n].written = 1;
                c[n].low = 0;
            }
            n++;
        }
        struct cluster *k = &c[n - 1];
        if (ops[i].write && k->written)
            goto out; /* not unique */
        if (ops[i].write) {
            k->written = 1;
            k->write_call = ops[i].call;
        } else {
            k->reads++;
            if (!k->written || ops[i].end < k->write_call) {
                v = HISTORY_BAD; /* read what no client had written */
                goto out;
            }
        }
        if (!ops[i].write || ops[i].end != HISTORY_OPEN || k->reads == 0) {
            if (ops[i].end < k->low)
                k->low = ops[i].end;
        }
        if (ops[i].call > k->high)
            k->high = ops[i].call;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) /* an unknown write that was not seen may not have happened */
        if (c[i].low != HISTORY_OPEN)
            c[kept++] = c[i];
    v = zones_check(c, kept);
out:
    free(ops);
    free(c);
    return v;
}

/* ---- All keys ---- */

static enum history_verdict check_one(const struct one *o, int fast)
{
    enum history_verdict v = fast ? zones_key(o) : HISTORY_GAVE_UP;
    return v == HISTORY_GAVE_UP ? search_key(o) : v;
}

static enum history_verdict check_all(const struct history *h, uint64_t *key, int fast)
{
    struct history_op **order = malloc((h->count + 1) * sizeof(struct history_op *));
    struct history_op *ops = malloc((h->count + 1) * sizeof(*ops));
    size_t *place = malloc((h->count + 1) * sizeof(size_t));
    enum history_verdict v = HISTORY_GOOD;
    assert_non_null(order);
    assert_non_null(ops);
    assert_non_null(place);
    for (size_t i = 0; i < h->count; i++)
        order[i] = &h->ops[i];
    qsort(order, h->count, sizeof(struct history_op *), by_key);
    for (size_t i = 0; i < h->count; i++)
        place[order[i] - h->ops] = i;
    for (size_t first = 0; first < h->count && v == HISTORY_GOOD;) {
        struct one o = {.ops = ops};
        size_t i = first;
        for (; i < h->count && order[i]->key == order[first]->key; i++) {
            ops[o.count] = *order[i];
            if (ops[o.count].after != HISTORY_NONE) {
                size_t p = place[ops[o.count].after];
                assert_true(p >= first && h->ops[ops[o.count].after].key == order[i]->key);
                ops[o.count].after = p - first;
            }
            o.count++;
        }
        v = check_one(&o, fast);
        if (v != HISTORY_GOOD && key != NULL)
            *key = order[first]->key;
        first = i;
    }
    free(order);
    free(ops);
    free(place);
    return v;
}

enum history_verdict history_check(const struct history *h, uint64_t *key)
{
    return check_all(h, key, 1);
}

enum history_verdict history_check_slow(const struct history *h, uint64_t *key)
{
    return check_all(h, key, 0);
}
