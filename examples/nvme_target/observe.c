/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What each host's I/O commands did: counts, bytes, times. Each loop counts for itself, with
 * relaxed stores of its own, which the first loop sums; so no loop waits for another.
 *   A host has a row from its first command on. When all are in use the rest is counted together.
 */
#include "target.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4 * TG_SEEN }; /* of the hash table: at most a quarter is used */

struct tally {
    _Atomic uint64_t ios;
    _Atomic uint64_t bytes;
    _Atomic uint64_t ns;
    _Atomic uint64_t buckets[TG_BUCKETS];
};

struct row {
    _Atomic uint32_t tenant;
    _Atomic uint64_t errors;
    struct tally kinds[TG_KINDS];
};

/* Of a loop: rows in the order of their first command, then that of all others. */
struct table {
    _Atomic uint32_t rows;
    uint16_t slots[SLOTS]; /* row + 1 */
    struct row row[TG_SEEN + 1];
};

static struct table *tables; /* by loop */

/* What the first loop knows of them. */
static struct tg_seen seen[TG_SEEN + 1];
static uint32_t seen_count;

static void more(_Atomic uint64_t *to, uint64_t by)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* Four buckets for each power of two from 4096 ns on. */
static uint32_t bucket_of(uint64_t ns)
{
    if (ns < UINT64_C(1) << TG_BUCKET_SHIFT)
        return 0;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(ns);
    uint32_t i = 1 + 4 * (log - TG_BUCKET_SHIFT) + (uint32_t)(ns >> (log - 2) & 3);
    return i < TG_BUCKETS - 1 ? i : TG_BUCKETS - 1;
}

/* The end of a bucket, which is not in it. */
static uint64_t bucket_end(uint32_t i)
{
    uint32_t log = TG_BUCKET_SHIFT + (i - 1) / 4;
    return i == 0 ? UINT64_C(1) << TG_BUCKET_SHIFT : ((i - 1) % 4 + 5) * (UINT64_C(1) << (log - 2));
}

static struct row *row_of(struct table *t, uint32_t tenant)
{
    uint32_t slot = tenant % SLOTS;
    uint32_t rows = atomic_load_explicit(&t->rows, memory_order_relaxed);
    for (; t->slots[slot] != 0; slot = (slot + 1) % SLOTS) {
        struct row *r = &t->row[t->slots[slot] - 1];
        if (atomic_load_explicit(&r->tenant, memory_order_relaxed) == tenant)
            return r;
    }
    if (rows == TG_SEEN)
        return &t->row[TG_SEEN];
    t->slots[slot] = (uint16_t)(rows + 1);
    atomic_store_explicit(&t->row[rows].tenant, tenant, memory_order_relaxed);
    atomic_store_explicit(&t->rows, rows + 1, memory_order_release); /* tg_seen_update()'s */
    return &t->row[rows];
}

static enum tg_kind kind_of(uint32_t op)
{
    return op == SNIC_NVMESUB_READ    ? TG_READ
           : op == SNIC_NVMESUB_WRITE ? TG_WRITE
           : op == SNIC_NVMESUB_FLUSH ? TG_FLUSH
                                      : TG_OTHER;
}

/* On the loop of the command's connection. */
static void observe(void *ctx, const struct snic_nvmet_observed *o)
{
    struct row *r = row_of(&tables[o->loop], o->tenant);
    struct tally *t = &r->kinds[kind_of(o->kind)];
    (void)ctx;
    if (o->status != 0) {
        more(&r->errors, 1);
        return;
    }
    more(&t->ios, 1);
    more(&t->bytes, o->bytes);
    more(&t->ns, o->ns);
    more(&t->buckets[bucket_of(o->ns)], 1);
}

void tg_observe_begin(struct snic_nvmet_opts *o)
{
    tables = calloc(tg.loops, sizeof(*tables));
    if (tables == NULL)
        ex_die("out of memory for the statistics of %" PRIu64 " loops", tg.loops);
    o->observe = observe;
}

void tg_observe_end(void)
{
    free(tables);
    tables = NULL;
}

/* ---- The first loop's: sums, names ---- */

static void sum_row(struct tg_seen *to, const struct row *r)
{
    to->errors += atomic_load_explicit(&r->errors, memory_order_relaxed);
    for (uint32_t k = 0; k < TG_KINDS; k++) {
        struct tg_tally *sum = &to->kinds[k];
        const struct tally *t = &r->kinds[k];
        sum->ios += atomic_load_explicit(&t->ios, memory_order_relaxed);
        sum->bytes += atomic_load_explicit(&t->bytes, memory_order_relaxed);
        sum->ns += atomic_load_explicit(&t->ns, memory_order_relaxed);
        for (uint32_t i = 0; i < TG_BUCKETS; i++)
            sum->buckets[i] += atomic_load_explicit(&t->buckets[i], memory_order_relaxed);
    }
}

static struct tg_seen *seen_of(uint32_t tenant)
{
    for (uint32_t i = 0; i < seen_count; i++)
        if (seen[i].tenant == tenant)
            return &seen[i];
    if (seen_count == TG_SEEN)
        return &seen[TG_SEEN];
    seen[seen_count].tenant = tenant;
    return &seen[seen_count++];
}

static void name_if(const char *nqn)
{
    uint32_t tenant = snic_nvmet_tenant(nqn);
    for (uint32_t i = 0; i < seen_count; i++)
        if (seen[i].tenant == tenant && seen[i].name[0] == 0)
            tg_show_name(nqn, seen[i].name, sizeof(seen[i].name));
}

/* A host that has left before the first look at it keeps the name of its number. */
static void name_rows(void)
{
    struct snic_nvmesub_ctrl_status c;
    uint32_t unnamed = 0;
    for (uint32_t i = 0; i < seen_count; i++)
        unnamed += seen[i].name[0] == 0;
    if (unnamed == 0)
        return;
    for (uint32_t i = 0; i < tg.tenant_count; i++)
        name_if(tg.tenants[i].nqn);
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++) {
        const struct tg_subsystem *s = &tg.subs[i];
        if (s->nqn[0] == 0 || s->number < 0)
            continue;
        for (uint32_t k = 0; k < s->host_count; k++)
            name_if(s->hosts[k].nqn);
        const struct snic_nvmesub *engine = snic_nvmet_engine(tg_target(), (uint32_t)s->number);
        for (uint32_t k = 0; engine != NULL && k < tg.connections * tg.loops; k++)
            if (snic_nvmesub_get_ctrl(engine, k, &c) == 0)
                name_if(c.hostnqn);
    }
    for (uint32_t i = 0; i < seen_count; i++)
        if (seen[i].name[0] == 0)
            (void)snprintf(seen[i].name, sizeof(seen[i].name), "tenant-%08" PRIx32, seen[i].tenant);
}

const struct tg_seen *tg_seen_update(uint32_t *count)
{
    for (uint32_t i = 0; i <= TG_SEEN; i++) {
        seen[i].errors = 0;
        memset(seen[i].kinds, 0, sizeof(seen[i].kinds));
    }
    for (uint64_t l = 0; l < tg.loops; l++) {
        const struct table *t = &tables[l];
        uint32_t rows = atomic_load_explicit(&t->rows, memory_order_acquire); /* row_of()'s */
        for (uint32_t i = 0; i < rows; i++)
            sum_row(seen_of(atomic_load_explicit(&t->row[i].tenant, memory_order_relaxed)),
                    &t->row[i]);
        sum_row(&seen[TG_SEEN], &t->row[TG_SEEN]);
    }
    name_rows();
    struct tg_seen *rest = &seen[TG_SEEN];
    (void)snprintf(rest->name, sizeof(rest->name), "others");
    uint64_t all = rest->errors;
    for (uint32_t k = 0; k < TG_KINDS; k++)
        all += rest->kinds[k].ios;
    *count = seen_count + (seen_count == TG_SEEN && all > 0);
    return seen;
}

void tg_tally_add(struct tg_tally *to, const struct tg_tally *t)
{
    to->ios += t->ios;
    to->bytes += t->bytes;
    to->ns += t->ns;
    for (uint32_t i = 0; i < TG_BUCKETS; i++)
        to->buckets[i] += t->buckets[i];
}

uint64_t tg_tally_quantile(const struct tg_tally *t, uint32_t per_million)
{
    uint64_t all = 0, below = 0;
    uint32_t i = 0;
    for (uint32_t k = 0; k < TG_BUCKETS; k++)
        all += t->buckets[k];
    if (all == 0)
        return 0;
    while (i < TG_BUCKETS - 1 && (below += t->buckets[i]) * 1000000 < all * per_million)
        i++;
    return bucket_end(i);
}

uint64_t tg_tally_below(const struct tg_tally *t, uint32_t power)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= 4 * power && i < TG_BUCKETS - 1; i++)
        sum += t->buckets[i];
    return sum;
}
