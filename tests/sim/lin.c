/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "lin.h"

#include <stdlib.h>
#include <string.h>

/* ---- By timestamps ---- */

/* A point in time of one key: a call or an end of an operation, a sync, a restart. */
struct lin_point {
    uint64_t time;
    uint32_t what; /* restarts, then calls, then ends: of the same time all overlap */
    uint32_t op;
};

enum { LIN_AT_RESTART = 0, LIN_AT_CALL, LIN_AT_SYNC, LIN_AT_END };

static int lin_point_order(const void *a, const void *b)
{
    const struct lin_point *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->what != y->what)
        return x->what < y->what ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

struct lin_write {
    uint64_t ts;
    uint64_t value;
    uint64_t call;
    uint64_t end;
    uint32_t op;
};

static int lin_write_order(const void *a, const void *b)
{
    const struct lin_write *x = a, *y = b;
    return x->ts < y->ts ? -1 : x->ts > y->ts;
}

struct lin_key {
    const struct lin_op *ops;
    uint32_t *at; /* the key's operations */
    uint32_t count;
    struct lin_write *writes; /* with a timestamp, by it */
    uint32_t write_count;
    struct lin_point *points;
    uint64_t *floor; /* by operation of the key: what it had to show when it began */
    uint64_t *first; /* by write: when it was first known to have taken effect; 0: never */
    uint64_t *last;
    int restarted; /* by now */
    uint64_t now;
    uint64_t written, read, synced;
    uint32_t bad;
};

static uint32_t lin_write_at(const struct lin_key *k, uint64_t ts)
{
    uint32_t lo = 0, hi = k->write_count;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (k->writes[mid].ts < ts)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The write of that timestamp, or NULL. */
static struct lin_write *lin_write_of(const struct lin_key *k, uint64_t ts)
{
    uint32_t i = lin_write_at(k, ts);
    return i < k->write_count && k->writes[i].ts == ts ? &k->writes[i] : NULL;
}

static void lin_sees(struct lin_key *k, const struct lin_write *w)
{
    size_t i = (size_t)(w - k->writes);
    k->first[i] = k->first[i] != 0 ? k->first[i] : k->now;
    k->last[i] = k->now;
}

/*
 * Nothing was there, and no tombstone shows since when: it was purged. The first deletion that can
 * be meant, which had begun by then.
 */
static const char *lin_absent(const struct lin_key *k, const struct lin_op *op, uint64_t floor,
                              uint64_t *position)
{
    *position = 0;
    if (floor == 0)
        return NULL;
    for (uint32_t i = lin_write_at(k, floor); i < k->write_count; i++) {
        const struct lin_write *w = &k->writes[i];
        if (w->value == 0 && w->call <= op->end) {
            *position = w->ts;
            return NULL;
        }
    }
    return LIN_STALE_ABSENT;
}

static uint64_t lin_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static const char *lin_read_ends(struct lin_key *k, const struct lin_op *op, uint64_t floor)
{
    uint64_t position = op->ts;
    if (op->ts == 0) {
        const char *why = op->value != 0 ? "a read of a value without a timestamp"
                                         : lin_absent(k, op, floor, &position);
        if (why != NULL)
            return why;
    } else {
        const struct lin_write *w = lin_write_of(k, op->ts);
        if (w == NULL)
            return "a read of a value that no client wrote";
        if (w->value != op->value)
            return "a read of another value than that timestamp's";
        if (w->call > op->end)
            return "a read of what was written later";
        if (op->ts >= floor)
            lin_sees(k, w);
        else if (op->value != 0 || !k->restarted || lin_absent(k, op, floor, &position) != NULL)
            return LIN_STALE; /* but a log may have an earlier tombstone than the purged one */
    }
    if (k->read < position)
        k->read = position;
    if (op->lasts)
        k->synced = lin_max(k->synced, position);
    return NULL;
}

static const char *lin_op_ends(struct lin_key *k, const struct lin_op *op, uint64_t floor)
{
    if (op->kind == LIN_READ)
        return lin_read_ends(k, op, floor);
    if (op->ts == 0)
        return "an answered write without a timestamp";
    if (op->ts <= floor)
        return "a write is numbered below the value that the key had when it began";
    lin_sees(k, lin_write_of(k, op->ts));
    if (k->written < op->ts)
        k->written = op->ts;
    if (op->lasts)
        k->synced = lin_max(k->synced, op->ts);
    return NULL;
}

/* What a restart keeps is what there is from then on. */
static void lin_restart(struct lin_key *k, uint32_t keeps)
{
    uint64_t kept = k->synced;
    if ((keeps & LIN_KEEPS_WRITTEN) != 0)
        kept = lin_max(kept, k->written);
    if ((keeps & LIN_KEEPS_READ) != 0)
        kept = lin_max(kept, k->read);
    k->written = k->read = kept;
}

static const char *lin_walk(struct lin_key *k, uint32_t points, uint32_t keeps)
{
    for (uint32_t i = 0; i < points; i++) {
        const struct lin_point *p = &k->points[i];
        const struct lin_op *op = &k->ops[k->at[p->op]];
        const char *why = NULL;
        k->now = p->time;
        if (p->what == LIN_AT_RESTART) {
            lin_restart(k, keeps);
            k->restarted = 1;
            continue;
        }
        if (p->what == LIN_AT_CALL) {
            k->floor[p->op] = lin_max(k->written, k->read);
        } else if (p->what == LIN_AT_SYNC) {
            if ((keeps & LIN_KEEPS_SYNCED) != 0 && op->ts != 0)
                k->synced = lin_max(k->synced, op->ts);
        } else {
            why = lin_op_ends(k, op, k->floor[p->op]);
        }
        if (why != NULL) {
            k->bad = k->at[p->op];
            return why;
        }
    }
    return NULL;
}

/* Was there a restart between the two times, in which what was seen may have been lost? */
static int lin_lost(uint64_t seen, uint64_t then, const uint64_t *restarts, size_t count,
                    uint32_t keeps)
{
    const uint32_t all = LIN_KEEPS_WRITTEN | LIN_KEEPS_READ;
    for (size_t i = 0; (keeps & all) != all && i < count; i++) {
        if (seen < restarts[i] && restarts[i] < then)
            return 1;
    }
    return 0;
}

/*
 * What a CAS compared with was the last before it. A write between the two was lost in a restart
 * before the CAS came, or the CAS was lost in one before that write came back.
 */
static const char *lin_cas_chains(struct lin_key *k, const uint64_t *restarts, size_t count,
                                  uint32_t keeps)
{
    for (uint32_t i = 0; i < k->write_count; i++) {
        const struct lin_op *op = &k->ops[k->writes[i].op];
        if (op->kind != LIN_CAS || k->last[i] == 0)
            continue;
        k->bad = k->writes[i].op;
        if (op->expect_ts >= op->ts)
            return "a CAS is numbered below what it compared with";
        for (uint32_t j = i; j-- > 0 && k->writes[j].ts > op->expect_ts;) {
            const struct lin_write *w = &k->writes[j];
            /* It compared with nothing, and that was a deletion, answered or not. */
            if (op->expect_ts == 0 && w->value == 0 && w->call < op->end)
                break;
            if (k->last[j] != 0 && !lin_lost(k->last[j], k->first[i], restarts, count, keeps) &&
                !lin_lost(k->last[i], k->first[j], restarts, count, keeps))
                return "a write lies between a CAS and what it compared with";
        }
    }
    return NULL;
}

static uint32_t lin_points(struct lin_key *k, const uint64_t *restarts, size_t restart_count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        const struct lin_op *op = &k->ops[k->at[i]];
        k->points[n++] = (struct lin_point){op->call, LIN_AT_CALL, i};
        if (op->end != LIN_OPEN)
            k->points[n++] = (struct lin_point){op->end, LIN_AT_END, i};
        if (op->kind != LIN_READ && op->synced != LIN_OPEN)
            k->points[n++] = (struct lin_point){op->synced, LIN_AT_SYNC, i};
    }
    for (size_t i = 0; i < restart_count; i++)
        k->points[n++] = (struct lin_point){restarts[i], LIN_AT_RESTART, 0};
    qsort(k->points, n, sizeof(*k->points), lin_point_order);
    return n;
}

static const char *lin_key_ts(struct lin_key *k, const uint64_t *restarts, size_t restart_count,
                              uint32_t keeps)
{
    for (uint32_t i = 0; i < k->count; i++) {
        const struct lin_op *op = &k->ops[k->at[i]];
        if (op->kind != LIN_READ && op->ts != 0)
            k->writes[k->write_count++] =
                (struct lin_write){op->ts, op->value, op->call, op->end, k->at[i]};
    }
    qsort(k->writes, k->write_count, sizeof(*k->writes), lin_write_order);
    for (uint32_t i = 1; i < k->write_count; i++) {
        if (k->writes[i].ts == k->writes[i - 1].ts) {
            k->bad = k->writes[i].op;
            return "two writes of one timestamp";
        }
    }
    const char *why = lin_walk(k, lin_points(k, restarts, restart_count), keeps);
    return why != NULL ? why : lin_cas_chains(k, restarts, restart_count, keeps);
}

/* The operations' indices by key, each key's in their order. */
static uint32_t *lin_by_key(const struct lin_op *ops, size_t count, uint64_t *keys, size_t *n)
{
    uint32_t *order = calloc(count + 1, sizeof(*order));
    size_t used = 0;
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < *n && keys[k] != ops[i].key)
            k++;
        if (k == *n)
            keys[(*n)++] = ops[i].key;
    }
    for (size_t k = 0; order != NULL && k < *n; k++) {
        for (size_t i = 0; i < count; i++) {
            if (ops[i].key == keys[k])
                order[used++] = (uint32_t)i;
        }
    }
    return order;
}

const char *lin_check_ts(const struct lin_op *ops, size_t count, const uint64_t *restarts,
                         size_t restart_count, uint32_t keeps, size_t *which)
{
    size_t keys = 0;
    uint64_t *key = calloc(count + 1, sizeof(*key));
    uint32_t *order = lin_by_key(ops, count, key, &keys);
    struct lin_key k = {.ops = ops};
    const char *why = NULL;
    k.writes = calloc(count + 1, sizeof(*k.writes));
    k.points = calloc(3 * count + restart_count + 1, sizeof(*k.points));
    k.floor = calloc(count + 1, sizeof(*k.floor));
    k.first = calloc(count + 1, sizeof(*k.first));
    k.last = calloc(count + 1, sizeof(*k.last));
    k.at = order;
    for (size_t i = 0; i < keys && why == NULL; i++) {
        k.at += k.count;
        k.count = 0;
        while ((size_t)(k.at - order) + k.count < count && ops[k.at[k.count]].key == key[i])
            k.count++;
        k.write_count = 0;
        k.written = k.read = k.synced = 0;
        k.restarted = 0;
        memset(k.first, 0, k.count * sizeof(*k.first));
        memset(k.last, 0, k.count * sizeof(*k.last));
        why = lin_key_ts(&k, restarts, restart_count, keeps);
    }
    if (why != NULL && which != NULL)
        *which = k.bad;
    free(key);
    free(order);
    free(k.writes);
    free(k.points);
    free(k.floor);
    free(k.first);
    free(k.last);
    return why;
}
