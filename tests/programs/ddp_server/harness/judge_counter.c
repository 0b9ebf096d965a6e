/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A key that clients only increment and read. Results of increments are unlike each other, never
 * below what an operation that ended before had returned, and each number below a result is the
 * result of another increment, or that of one whose outcome is unknown: so a retry that was
 * executed twice shows.
 */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

struct judge_count {
    uint64_t call;
    uint64_t end;
    uint64_t value;
    uint32_t line;
    uint8_t kind;
};

static int judge_count_by_value(const void *a, const void *b)
{
    const struct judge_count *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value ? -1 : 1) : x->kind - y->kind;
}

static int judge_count_by_end(const void *a, const void *b)
{
    const struct judge_count *x = a, *y = b;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int judge_count_by_call(const void *a, const void *b)
{
    const struct judge_count *x = a, *y = b;
    return x->call < y->call ? -1 : x->call > y->call;
}

/* Of increments and reads that must not be lost: numbers below what was returned before. */
static const char *judge_count_order(struct judge_count *c, size_t n, uint32_t line[2])
{
    struct judge_count *ends = calloc(n + 1, sizeof(*ends));
    uint64_t floor = 0;
    size_t e = 0;
    const char *why = NULL;
    if (n > 0)
        memcpy(ends, c, n * sizeof(*c));
    qsort(ends, n, sizeof(*ends), judge_count_by_end);
    qsort(c, n, sizeof(*c), judge_count_by_call);
    for (size_t i = 0; i < n && why == NULL; i++) {
        for (; e < n && ends[e].end < c[i].call; e++) {
            if (ends[e].value >= floor) {
                floor = ends[e].value;
                line[1] = ends[e].line;
            }
        }
        line[0] = c[i].line;
        if (c[i].value < floor + (c[i].kind == JUDGE_INCR))
            why = "a counter went back";
    }
    free(ends);
    return why;
}

/* Is what it shows never lost? */
static int judge_count_lasts(const struct judge_history *h, const struct judge_op *op)
{
    int lasts = h->loss_count == 0 || op->kept != JUDGE_OPEN;
    for (size_t i = 0; i < h->loss_count && lasts; i++)
        lasts = h->losses[i].down <= op->kept || judge_survives(h, op, i);
    return lasts;
}

static size_t judge_count_gather(const struct judge_history *h, struct judge_span s,
                                 struct judge_count *c, size_t *unknown)
{
    size_t n = 0;
    *unknown = 0;
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *op = &s.op[i];
        int sure = op->end != JUDGE_OPEN && judge_count_lasts(h, op);
        uint64_t value = op->value;
        if (op->kind == JUDGE_GET)
            value = value == JUDGE_NIL ? 0 : strtoull(judge_value(h, value), NULL, 10);
        *unknown += !sure && op->kind == JUDGE_INCR;
        if (sure)
            c[n++] = (struct judge_count){op->call, op->end, value, op->line, op->kind};
    }
    return n;
}

const char *judge_counter(const struct judge_history *h, struct judge_span s, uint32_t line[2])
{
    struct judge_count *c = calloc(s.count + 1, sizeof(*c));
    size_t unknown, results = 0, n = judge_count_gather(h, s, c, &unknown);
    const char *why = judge_count_order(c, n, line);
    qsort(c, n, sizeof(*c), judge_count_by_value);
    for (size_t i = 0; i < n && why == NULL; i++) {
        int increment = c[i].kind == JUDGE_INCR;
        if (increment && i > 0 && c[i].value == c[i - 1].value && c[i - 1].kind == JUDGE_INCR) {
            line[1] = c[i - 1].line;
            why = "two increments returned one number";
        }
        /* Reads of a number sort before its increment. */
        results += increment ? 1u : 0u;
        size_t below = results;
        for (size_t j = i + 1; !increment && j < n && c[j].value == c[i].value; j++)
            below += c[j].kind == JUDGE_INCR;
        if (why == NULL && c[i].value > below + unknown)
            why = "a counter is higher than the number of increments";
        line[0] = c[i].line;
    }
    free(c);
    return why;
}
