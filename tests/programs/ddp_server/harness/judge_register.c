/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A register whose values are unlike each other is linearizable exactly when its clusters, a write
 * with the reads of its value, can be put in an order (Gibbons and Korach, 1997): no read ends
 * before its write begins, no two forward zones overlap, and no backward zone lies in a forward
 * one. A cluster's zone is between the first end and the last call of its operations, forward when
 * the end is first. It takes O(n log n), so the whole history is judged at once.
 *
 * A loss begins the clusters anew: a value written before it and read after it was written again,
 * in effect, while the nodes restarted. Which values may return is checked apart (judge_returned).
 *
 * A deletion is a write of a value that no operation reads. Reads that find the key absent are a
 * cluster where no deletion exists; else the rule of judge_absent, which is weaker (the search,
 * judge_search.c, is exact).
 */
#include "judge.h"

#include <stdlib.h>

struct judge_cluster {
    uint64_t value;
    uint64_t phase;      /* how many losses had begun */
    uint64_t write_call; /* JUDGE_OPEN: no write of that value */
    uint64_t first_end;
    uint64_t last_call;
    uint32_t first_line;
    uint32_t last_line;
};

struct judge_clusters {
    struct judge_cluster *list;
    size_t count;
    const struct judge_history *h;
};

static uint64_t judge_phase(const struct judge_history *h, uint64_t time)
{
    uint64_t n = 0;
    while (n < h->loss_count && h->losses[n].down <= time)
        n++;
    return n;
}

static void judge_cluster_add(struct judge_clusters *c, uint64_t value, uint64_t phase,
                              uint64_t call, uint64_t end, uint32_t line)
{
    c->list[c->count++] = (struct judge_cluster){value, phase, JUDGE_OPEN, end, call, line, line};
}

static int judge_cluster_by_value(const void *a, const void *b)
{
    const struct judge_cluster *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->phase < y->phase ? -1 : x->phase > y->phase;
}

/* What is of one value and phase becomes one cluster. */
static void judge_cluster_merge(struct judge_clusters *c)
{
    size_t n = 0;
    if (c->count > 0)
        qsort(c->list, c->count, sizeof(*c->list), judge_cluster_by_value);
    for (size_t i = 0; i < c->count; i++) {
        struct judge_cluster *x = &c->list[i], *to = &c->list[n - (n > 0)];
        if (n == 0 || to->value != x->value || to->phase != x->phase) {
            c->list[n++] = *x;
            continue;
        }
        if (x->write_call != JUDGE_OPEN)
            to->write_call = x->write_call;
        if (x->first_end < to->first_end) {
            to->first_end = x->first_end;
            to->first_line = x->first_line;
        }
        if (x->last_call > to->last_call) {
            to->last_call = x->last_call;
            to->last_line = x->last_line;
        }
    }
    c->count = n;
}

static int judge_has_deletion(struct judge_span s)
{
    for (size_t i = 0; i < s.count; i++) {
        if (s.op[i].kind == JUDGE_DEL || s.op[i].kind == JUDGE_EXPIRY)
            return 1;
    }
    return 0;
}

/*
 * The phase of a read of @p value: that of its call, unless a loss began before its end, and the
 * value was written after that.
 */
static uint64_t judge_read_phase(const struct judge_history *h, struct judge_span s,
                                 const struct judge_op *read, uint64_t value)
{
    uint64_t phase = judge_phase(h, read->call);
    if (judge_phase(h, read->end) == phase)
        return phase;
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *w = &s.op[i];
        if ((w->kind == JUDGE_SET || w->kind == JUDGE_CAS) && w->value == value &&
            w->call <= read->end && judge_phase(h, w->call) > phase)
            return judge_phase(h, w->call);
    }
    return phase;
}

static void judge_cluster_gather(struct judge_clusters *c, struct judge_span s)
{
    int deletions = judge_has_deletion(s);
    if (!deletions) { /* absent at first */
        judge_cluster_add(c, JUDGE_NIL, 0, 0, 0, 0);
        c->list[c->count - 1].write_call = 0;
    }
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *op = &s.op[i];
        uint64_t phase = judge_phase(c->h, op->call);
        if (op->kind == JUDGE_DEL && op->end != JUDGE_OPEN) { /* a value of its own */
            judge_cluster_add(c, JUDGE_OPEN - op->line, phase, op->call, op->end, op->line);
            c->list[c->count - 1].write_call = op->call;
        }
        if (op->kind == JUDGE_SET || op->kind == JUDGE_CAS) {
            judge_cluster_add(c, op->value, phase, op->call, op->end, op->line);
            c->list[c->count - 1].write_call = op->call;
        }
        if (op->kind == JUDGE_GET && (op->value != JUDGE_NIL || !deletions))
            judge_cluster_add(c, op->value, judge_read_phase(c->h, s, op, op->value), op->call,
                              op->end, op->line);
        if (op->kind == JUDGE_CAS && op->result == JUDGE_OK &&
            (op->expect != JUDGE_NIL || !deletions))
            judge_cluster_add(c, op->expect, judge_read_phase(c->h, s, op, op->expect), op->call,
                              op->end, op->line);
    }
}

/* A value that was read in a later phase than that of its write. */
static const char *judge_cluster_revive(struct judge_clusters *c, uint32_t line[2])
{
    for (size_t i = 0; i < c->count; i++) {
        struct judge_cluster *x = &c->list[i];
        if (x->write_call != JUDGE_OPEN)
            continue;
        line[0] = x->first_line;
        if (i == 0 || x[-1].value != x->value)
            return "a read of a value that no client wrote before";
        /* Written again, from a log, after the nodes went down; a write that was answered when they
         * were up again may have been carried out after that. */
        const struct judge_loss *l = &c->h->losses[x->phase - 1];
        x->write_call = l->down;
        if (x[-1].first_end < l->up && l->up < x->first_end)
            x->first_end = l->up;
        if (l->down > x->last_call)
            x->last_call = l->down;
    }
    return NULL;
}

static int judge_cluster_by_time(const void *a, const void *b)
{
    const struct judge_cluster *x = a, *y = b;
    return x->first_end < y->first_end ? -1 : x->first_end > y->first_end;
}

static int judge_forward(const struct judge_cluster *x)
{
    return x->first_end < x->last_call;
}

static const char *judge_zones(struct judge_clusters *c, uint32_t line[2])
{
    const struct judge_cluster *last = NULL; /* the forward zone that ended last */
    for (size_t i = 0; i < c->count; i++) {
        const struct judge_cluster *x = &c->list[i];
        line[0] = x->first_line;
        line[1] = x->last_line;
        if (x->first_end < x->write_call)
            return "a read of what was written later";
    }
    qsort(c->list, c->count, sizeof(*c->list), judge_cluster_by_time);
    for (size_t i = 0; i < c->count; i++) {
        const struct judge_cluster *x = &c->list[i];
        if (!judge_forward(x))
            continue;
        line[0] = x->first_line;
        if (last != NULL && x->first_end < last->last_call) {
            line[1] = last->last_line;
            return "a value was read after another that was newer";
        }
        last = x;
    }
    /* Forward zones do not overlap: the one that may hold a backward zone began last before it. */
    last = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct judge_cluster *x = &c->list[i];
        if (judge_forward(x))
            last = x;
        else if (last != NULL && x->first_end < last->last_call && x->last_call > last->first_end) {
            line[0] = last->last_line;
            line[1] = x->first_line;
            return "a read of what had been overwritten";
        }
    }
    return NULL;
}

const struct judge_op *judge_write_of(struct judge_span s, uint64_t value, uint64_t *effect)
{
    const struct judge_op *w = NULL;
    *effect = JUDGE_OPEN;
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *op = &s.op[i];
        int writes = (op->kind == JUDGE_SET || op->kind == JUDGE_CAS) && op->value == value;
        int reads = (op->kind == JUDGE_GET && op->value == value) ||
                    (op->kind == JUDGE_CAS && op->result == JUDGE_OK && op->expect == value);
        if (writes)
            w = op;
        if ((writes || reads) && op->end < *effect)
            *effect = op->end;
    }
    return w;
}

/* Is it a deletion between that write and that read? Of an expiry its own value's, or an older one
 * that was written at the same time. */
static int judge_deletes(const struct judge_op *d, const struct judge_op *write,
                         const struct judge_op *read)
{
    uint64_t last = d->kind == JUDGE_EXPIRY ? d->expect : d->end;
    return (d->kind == JUDGE_DEL || d->kind == JUDGE_EXPIRY) && last >= write->call &&
           d->call < read->end;
}

/*
 * May that value, which @p read found, be what a key holds after a loss? Not if an operation that
 * had to survive shows a write that began after the value's had taken effect.
 */
static const char *judge_returned(const struct judge_history *h, struct judge_span s,
                                  const struct judge_op *read, uint64_t value, size_t loss,
                                  uint32_t line[2])
{
    uint64_t effect = 0, unused;
    const struct judge_op *w = value == JUDGE_NIL ? NULL : judge_write_of(s, value, &effect);
    if (value != JUDGE_NIL && (w == NULL || w->call >= h->losses[loss].down))
        return NULL;
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *k = &s.op[i];
        const struct judge_op *kw = k;
        if (!judge_survives(h, k, loss) || k->kind == JUDGE_INCR || k->result != JUDGE_OK)
            continue;
        if (k->kind == JUDGE_GET)
            kw = k->value == JUDGE_NIL ? NULL : judge_write_of(s, k->value, &unused);
        if (kw == NULL || kw->call <= effect || (value == JUDGE_NIL && kw->kind == JUDGE_DEL))
            continue;
        int deleted = 0; /* absent: a deletion may be newer */
        for (size_t j = 0; value == JUDGE_NIL && j < s.count; j++)
            deleted |= judge_deletes(&s.op[j], kw, read);
        line[1] = k->line;
        if (!deleted)
            return k->class == JUDGE_HERE ? "a loss took what a log that it left had"
                                          : "a loss took what had to survive it";
    }
    return NULL;
}

static const char *judge_losses(struct judge_clusters *c, struct judge_span s, uint32_t line[2])
{
    for (size_t i = 0; i < c->h->loss_count; i++) {
        const struct judge_loss *l = &c->h->losses[i];
        uint64_t next = i + 1 < c->h->loss_count ? l[1].down : JUDGE_OPEN;
        for (size_t j = 0; j < s.count; j++) {
            const struct judge_op *op = &s.op[j];
            int reads = op->kind == JUDGE_GET || (op->kind == JUDGE_CAS && !op->result);
            if (!reads || op->call < l->down || op->call >= next)
                continue;
            uint64_t value = op->kind == JUDGE_GET ? op->value : op->expect;
            const char *why = judge_returned(c->h, s, op, value, i, line);
            line[0] = op->line;
            if (why != NULL)
                return why;
        }
    }
    return NULL;
}

/* A key with deletions was absent: some deletion must explain it. */
static const char *judge_absent(const struct judge_history *h, struct judge_span s,
                                uint32_t line[2])
{
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *r = &s.op[i];
        if (r->kind != JUDGE_GET || r->value != JUDGE_NIL)
            continue;
        for (size_t j = 0; j < s.count; j++) {
            const struct judge_op *w = &s.op[j];
            int explained = 0;
            if ((w->kind != JUDGE_SET && w->kind != JUDGE_CAS) || w->end >= r->call ||
                judge_phase(h, w->call) != judge_phase(h, r->call))
                continue;
            for (size_t k = 0; k < s.count && !explained; k++)
                explained = judge_deletes(&s.op[k], w, r);
            line[0] = r->line;
            line[1] = w->line;
            if (!explained)
                return "a key was absent that had a value, and no client deleted it";
        }
    }
    return NULL;
}

/* A value that is read again after its key was absent. The search finds that, too, but not where
 * the end of a deletion is open. */
static const char *judge_back(const struct judge_history *h, struct judge_span s, uint32_t line[2])
{
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *g = &s.op[i];
        uint64_t effect;
        if (g->kind != JUDGE_GET || g->value == JUDGE_NIL)
            continue;
        (void)judge_write_of(s, g->value, &effect);
        for (size_t j = 0; j < s.count; j++) {
            const struct judge_op *r = &s.op[j];
            line[0] = g->line;
            line[1] = r->line;
            if (r->kind == JUDGE_GET && r->value == JUDGE_NIL && effect < r->call &&
                r->end < g->call && judge_phase(h, r->call) == judge_phase(h, g->call))
                return "a value was read again after its key was absent";
        }
    }
    return NULL;
}

/* Each value is overwritten by one operation only. */
static const char *judge_cas_twice(struct judge_span s, uint32_t line[2])
{
    for (size_t i = 0; i < s.count; i++) {
        const struct judge_op *a = &s.op[i];
        if (a->kind != JUDGE_CAS || a->result != JUDGE_OK || a->expect == JUDGE_NIL)
            continue;
        for (size_t j = i + 1; j < s.count; j++) {
            const struct judge_op *b = &s.op[j];
            line[0] = a->line;
            line[1] = b->line;
            if (b->kind == JUDGE_CAS && b->result == JUDGE_OK && b->expect == a->expect)
                return "two exchanges compared with one value and both succeeded";
        }
    }
    return NULL;
}

const char *judge_register(const struct judge_history *h, struct judge_span s, uint32_t line[2])
{
    struct judge_clusters c = {.h = h};
    c.list = calloc(2 * s.count + 1, sizeof(*c.list));
    if (c.list == NULL)
        abort();
    judge_cluster_gather(&c, s);
    judge_cluster_merge(&c);
    const char *why = judge_cluster_revive(&c, line);
    why = why != NULL ? why : judge_zones(&c, line);
    why = why != NULL ? why : judge_losses(&c, s, line);
    why = why != NULL || !judge_has_deletion(s) ? why : judge_absent(h, s, line);
    why = why != NULL || !judge_has_deletion(s) ? why : judge_back(h, s, line);
    why = why != NULL || h->loss_count != 0 ? why : judge_cas_twice(s, line);
    free(c.list);
    return why;
}
