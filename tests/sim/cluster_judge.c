/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What clients saw, as the judges of lin.h take it, and their verdict. */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t cluster_keeps(uint32_t model)
{
    switch (model) {
    case SNIC_DDP_SYNCH:
        return LIN_KEEPS_WRITTEN | LIN_KEEPS_READ;
    case SNIC_DDP_STRICT:
        return LIN_KEEPS_WRITTEN;
    case SNIC_DDP_RENF:
        return LIN_KEEPS_READ;
    case SNIC_DDP_SCOPE:
        return LIN_KEEPS_SYNCED;
    default:
        return 0;
    }
}

/* Does what this operation wrote, or found, survive every restart? Only mixes are judged so. */
static uint32_t cluster_lasts(const struct cluster *c, const struct cluster_op *o, int reads)
{
    uint32_t d = o->op.durability;
    uint32_t keeps = cluster_keeps(c->o.model);
    if (!c->o.mix)
        return 0;
    if (d == SNIC_DDP_DURABILITY_DEFAULT)
        return (keeps & (reads ? LIN_KEEPS_READ : LIN_KEEPS_WRITTEN)) != 0;
    return d == SNIC_DDP_DURABILITY_ALL;
}

static uint32_t cluster_keeps_all(const struct cluster *c)
{
    return c->o.mix ? LIN_KEEPS_SYNCED : cluster_keeps(c->o.model);
}

/* The timestamp under which a value was written, if any node ever numbered it. */
static uint64_t cluster_ts_of(const struct cluster *c, uint32_t key, uint64_t content)
{
    for (uint32_t i = 0; content != 0 && i < c->written_room; i++) {
        if (c->written[i].content == content && c->written[i].key == key)
            return c->written[i].ts;
    }
    return 0;
}

/*
 * A CAS that was refused may be in a log. Where a restart loses what beat it, it may be what comes
 * back (ddp.h): a write that may happen from the next restart on.
 */
static size_t cluster_may_return(const struct cluster *c, const struct cluster_op *o,
                                 struct lin_op *out)
{
    uint32_t i = 0;
    int kept = !c->o.mix && (c->o.model == SNIC_DDP_SYNCH || c->o.model == SNIC_DDP_RENF);
    if (o->result != SNIC_ECANCELED || o->open || o->lost || kept)
        return 0;
    while (i < c->restart_count && c->restarts[i] < o->end)
        i++;
    if (i == c->restart_count)
        return 0;
    uint64_t ts = cluster_ts_of(c, o->key, o->wrote);
    if (ts == 0)
        return 0;
    memset(out, 0, sizeof(*out));
    out->call = c->restarts[i];
    out->end = out->synced = LIN_OPEN;
    out->key = o->key;
    out->value = o->wrote;
    out->ts = ts;
    out->expect = o->expect;
    out->expect_ts = o->expect_ts;
    out->kind = LIN_CAS;
    return 1;
}

/* Up to two for each operation. */
static size_t cluster_history(const struct cluster *c, struct lin_op *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < c->op_count; i++) {
        const struct cluster_op *o = &c->ops[i];
        int unknown = o->open || o->lost || o->result == SNIC_EUNKNOWN;
        int reads = o->op.kind == SNIC_REPLICA_GET || o->result == SNIC_ECANCELED;
        int found = o->result == 0 || o->result == SNIC_ENOENT || o->result == SNIC_ECANCELED;
        if (o->op.kind == SNIC_REPLICA_SYNC || (reads && (unknown || !found)) ||
            (!unknown && !found))
            continue;
        struct lin_op *l = &out[n++];
        memset(l, 0, sizeof(*l));
        l->call = o->call;
        l->end = unknown ? LIN_OPEN : o->end;
        l->key = o->key;
        l->value = o->content;
        l->ts = o->ts;
        l->synced = o->synced;
        l->lasts = cluster_lasts(c, o, reads);
        l->confirmed = o->op.flags == SNIC_REPLICA_OP_CONFIRM;
        l->kind = reads ? LIN_READ : o->op.kind == SNIC_REPLICA_CAS ? LIN_CAS : LIN_WRITE;
        if (unknown && o->ts == 0)
            l->ts = cluster_ts_of(c, o->key, o->content);
        l->expect = o->expect;
        l->expect_ts = o->expect_ts;
        if (o->result == SNIC_ECANCELED && o->ts == o->expect_ts && o->content != 0)
            l->ts = UINT64_MAX; /* it found what it compared with: no such write */
        n += cluster_may_return(c, o, &out[n]);
    }
    return n;
}

static void cluster_print_op(const struct lin_op *o, const char *mark)
{
    static const char *const kinds[] = {"?", "read", "write", "cas"};
    printf("%s%-5s called %llu ended %lld value %llu ts %llx expect %llu ts %llx\n", mark,
           kinds[o->kind], (unsigned long long)o->call, (long long)o->end,
           (unsigned long long)o->value, (unsigned long long)o->ts, (unsigned long long)o->expect,
           (unsigned long long)o->expect_ts);
}

/* The key's operations around the one that is wrong. */
static void cluster_print(const struct cluster *c, const struct lin_op *ops, size_t n, size_t which)
{
    size_t from = which > 40 ? which - 40 : 0;
    if (c->quiet)
        return;
    for (uint32_t i = 0; i < c->restart_count; i++)
        printf("restart at %llu\n", (unsigned long long)c->restarts[i]);
    for (size_t i = from; i < n && i < which + 20; i++) {
        if (ops[i].key == ops[which].key)
            cluster_print_op(&ops[i], i == which ? "> " : "  ");
    }
}

static void cluster_print_key(const struct lin_op *ops, size_t n, uint64_t key, uint64_t from,
                              uint64_t to)
{
    printf("key %llu from %llu to %llu\n", (unsigned long long)key, (unsigned long long)from,
           (unsigned long long)to);
    for (size_t i = 0; i < n; i++) {
        if (ops[i].key == key && ops[i].call >= from && ops[i].call < to)
            cluster_print_op(&ops[i], "  ");
    }
}

void cluster_judge(struct cluster *c, int search)
{
    struct lin_op *ops = calloc(2 * (size_t)c->op_count + 1, sizeof(*ops));
    size_t n = cluster_history(c, ops);
    size_t which = 0;
    char text[200];
    const char *why =
        lin_check_ts(ops, n, c->restarts, c->restart_count, cluster_keeps_all(c), &which);
    if (why != NULL) {
        const struct lin_op *o = &ops[which];
        (void)snprintf(
            text, sizeof(text), "%s: key %llu kind %u value %llu ts %llx called %llu ended %llu",
            why, (unsigned long long)o->key, o->kind, (unsigned long long)o->value,
            (unsigned long long)o->ts, (unsigned long long)o->call, (unsigned long long)o->end);
        cluster_fail(c, text);
        cluster_print(c, ops, n, which);
    }
    for (uint32_t i = 0; search && c->failure == NULL && i <= c->restart_count; i++) {
        uint64_t from = i == 0 ? 0 : c->restarts[i - 1];
        uint64_t to = i == c->restart_count ? LIN_OPEN : c->restarts[i];
        uint64_t key = 0;
        if (lin_check_search(ops, n, from, to, &key) == LIN_BAD) {
            cluster_fail(c, "no order of the operations explains what was read");
            cluster_print_key(ops, n, key, from, to);
        }
    }
    free(ops);
}

/*
 * For clocks that are worse than the option allows: reads may be stale that no majority confirmed,
 * and nothing else may be wrong (member.h, P2). So those that are found to be are taken out, until
 * all is right.
 */
uint32_t cluster_judge_stale(struct cluster *c)
{
    struct lin_op *ops = calloc(2 * (size_t)c->op_count + 1, sizeof(*ops));
    size_t n = cluster_history(c, ops);
    size_t which = 0;
    uint32_t stale = 0;
    const char *why;
    while ((why = lin_check_ts(ops, n, c->restarts, c->restart_count, cluster_keeps_all(c),
                               &which)) != NULL &&
           ops[which].kind == LIN_READ && !ops[which].confirmed &&
           (strcmp(why, LIN_STALE) == 0 || strcmp(why, LIN_STALE_ABSENT) == 0)) {
        memmove(&ops[which], &ops[which + 1], (--n - which) * sizeof(*ops));
        stale++;
    }
    if (why != NULL) {
        cluster_fail(c, why);
        cluster_print(c, ops, n, which);
    }
    free(ops);
    return stale;
}

void cluster_same(struct cluster *c)
{
    for (uint32_t k = 0; k < c->o.keys; k++) {
        struct snic_ddp_key key = cluster_key(k);
        struct snic_replica_entry first = {.ts = 0}, e = {.ts = 0};
        int have = 1;
        for (uint32_t i = 0; i < c->o.nodes; i++) {
            if (!cluster_serves(c, i))
                continue;
            int r = snic_replica_look(c->node[i].r, &key, &e);
            if (r == SNIC_EAGAIN)
                cluster_fail(c, "a key is locked for ever");
            if (have == 1) {
                have = r;
                first = e;
            } else if (have != r || (r == 0 && (first.ts != e.ts || first.size != e.size))) {
                cluster_fail(c, "nodes differ");
            }
        }
    }
    for (uint32_t i = 0; i < c->op_count; i++) {
        if (c->ops[i].open && c->node[c->ops[i].node].up)
            cluster_fail(c, "an operation without an answer");
    }
}
