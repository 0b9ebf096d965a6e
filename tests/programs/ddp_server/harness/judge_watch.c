/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Watches. A segment is what one watch at one node has shown of one shard since it began, also
 * after its client connected again and continued from the last position.
 *
 *   - Of each key its versions ascend, and its values are in an order in which they can have been
 *     written.
 *   - Nothing is missing. What a read at the segment's node returned was readable there, so it is
 *     shown, if it was written after the segment began, and before something that the segment shows
 *     of that shard: changes are shown in the order in which they become readable. (A value that no
 *     read has returned may have been replaced before it became readable there.) So is a deletion,
 *     if a read after the last value that is shown found nothing.
 */
#include "judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JUDGE_SHARD_UNKNOWN = 255 };

struct judge_segment {
    const struct judge_history *h;
    const struct judge_seen *begin;
    const struct judge_seen *seen; /* by key, then in their order */
    size_t count;
    const struct judge_span *spans; /* by key */
    const uint8_t *shards;          /* by key */
    uint64_t known;                 /* what was readable before is shown */
    uint32_t line[2];
};

static int judge_seen_order(const void *a, const void *b)
{
    const struct judge_seen *x = a, *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1; /* its beginning is first */
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* The events of each key, one after the other; and how much the segment is known to have. */
static const char *judge_segment_order(struct judge_segment *g)
{
    uint64_t newest = 0, effect;
    for (size_t i = 0; i < g->count; i++) {
        const struct judge_seen *e = &g->seen[i], *last = i > 0 ? e - 1 : NULL;
        if (last != NULL && last->key != e->key)
            last = NULL;
        g->line[0] = e->line;
        g->line[1] = last != NULL ? last->line : 0;
        newest = last != NULL ? newest : 0;
        if (last != NULL && e->version <= last->version)
            return "a watch shows an older version after a newer one";
        if (e->value == JUDGE_NIL)
            continue;
        const struct judge_op *w = judge_write_of(g->spans[e->key], e->value, &effect);
        if (w == NULL || w->call > e->end)
            return "a watch shows a value that no client wrote before";
        if (w->end < newest)
            return "a watch shows an older value after a newer one";
        newest = w->call > newest ? w->call : newest;
        g->known = w->call > g->known ? w->call : g->known;
    }
    return NULL;
}

static int judge_segment_covers(const struct judge_segment *g, uint32_t key)
{
    const char *name = judge_key(g->h, key), *of = judge_key(g->h, g->begin->key);
    if (g->shards[key] != g->begin->shard)
        return 0;
    return g->begin->prefix ? strncmp(name, of, strlen(of)) == 0 : key == g->begin->key;
}

static const char *judge_segment_gap(struct judge_segment *g, struct judge_span s,
                                     const struct judge_seen *e, size_t events)
{
    uint64_t effect;
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *r = &s.op[i];
        if (r->kind != JUDGE_GET || r->node != g->begin->node || r->end >= g->known)
            continue;
        g->line[0] = r->line;
        if (r->value == JUDGE_NIL) {
            g->line[1] = events > 0 ? e[events - 1].line : 0;
            if (events > 0 && e[events - 1].value != JUDGE_NIL && e[events - 1].end < r->call)
                return "a watch misses a deletion";
            continue;
        }
        const struct judge_op *w = judge_write_of(s, r->value, &effect);
        int shown = w == NULL || w->call <= g->begin->end;
        for (size_t j = 0; j < events && !shown; j++)
            shown = e[j].value == r->value;
        g->line[1] = g->begin->line;
        if (!shown)
            return "a watch misses a value that its node had";
    }
    return NULL;
}

static const char *judge_segment_check(struct judge_segment *g)
{
    const char *why = judge_segment_order(g);
    size_t at = 0;
    for (uint32_t key = 0; key < g->h->keys && why == NULL; key++) {
        size_t from = at;
        while (at < g->count && g->seen[at].key == key)
            at++;
        if (g->spans[key].count > 0 && judge_segment_covers(g, key))
            why = judge_segment_gap(g, g->spans[key], &g->seen[from], at - from);
    }
    return why;
}

/* Of each key its operations and its shard, if a watch has shown it. */
static struct judge_span *judge_keys(const struct judge_history *h, uint8_t *shards)
{
    struct judge_span *spans = calloc(h->keys, sizeof(*spans));
    uint8_t many = 0;
    for (size_t i = 0; i < h->count; i++) {
        struct judge_span *s = &spans[h->ops[i].key];
        s->op = s->count == 0 ? &h->ops[i] : s->op;
        s->count++;
    }
    for (size_t i = 0; i < h->seen_count; i++)
        many |= h->seen[i].shard;
    memset(shards, many != 0 ? JUDGE_SHARD_UNKNOWN : 0, h->keys);
    for (size_t i = 0; i < h->seen_count; i++) {
        if (h->seen[i].kind == JUDGE_SEE)
            shards[h->seen[i].key] = h->seen[i].shard;
    }
    return spans;
}

uint32_t judge_watches(struct judge_history *h)
{
    uint8_t *shards = malloc(h->keys);
    uint32_t bad = 0;
    if (h->seen_count > 0)
        qsort(h->seen, h->seen_count, sizeof(*h->seen), judge_seen_order);
    for (size_t i = 1; i < h->seen_count; i++) {
        if (h->seen[i].segment == h->seen[i - 1].segment)
            h->seen[i].shard = h->seen[i - 1].shard;
    }
    struct judge_span *spans = judge_keys(h, shards);
    for (size_t i = 0; i < h->seen_count;) {
        struct judge_segment g = {
            .h = h, .begin = &h->seen[i], .seen = &h->seen[i], .spans = spans, .shards = shards};
        const char *why = "changes of a watch that has no beginning";
        while (i < h->seen_count && h->seen[i].segment == g.begin->segment)
            i++, g.count++;
        g.line[0] = g.begin->line;
        if (g.begin->kind == JUDGE_WATCH) {
            g.seen++;
            g.count--;
            why = judge_segment_check(&g);
        }
        if (why == NULL)
            continue;
        bad++;
        (void)printf("WRONG watch %s: %s (line %u", judge_key(h, g.begin->segment), why, g.line[0]);
        if (g.line[1] != 0)
            (void)printf(", see line %u", g.line[1]);
        (void)printf(")\n");
    }
    free(shards);
    free(spans);
    return bad;
}
