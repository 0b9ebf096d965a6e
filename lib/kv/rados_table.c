/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stripes and parts in memory: maps of blocks, the table of known stripes. */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

#include <stdlib.h>

/* ---- Maps ---- */

int kv_rados_map_bit(const uint64_t *map, uint32_t block)
{
    return (int)(map[block / 64] >> block % 64 & 1);
}

void kv_rados_map_set(uint64_t *map, uint32_t from, uint32_t to, int taken)
{
    for (uint32_t i = from; i < to; i++) {
        uint64_t bit = 1ULL << i % 64;
        map[i / 64] = taken ? map[i / 64] | bit : map[i / 64] & ~bit;
    }
}

int64_t kv_rados_map_count(const uint64_t *map)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < KV_RADOS_WORDS; i++)
        n += __builtin_popcountll(map[i]);
    return n;
}

/* ---- Memory ---- */

static struct kv_rados_stripe **kv_rados_stripe_bucket(struct kv_rados *k, uint64_t object,
                                                       uint64_t number)
{
    uint64_t h = (object * 0x9e3779b97f4a7c15ULL) ^ (number * 0xc2b2ae3d27d4eb4fULL);
    return &k->table[(h >> 40) % KV_RADOS_TABLE];
}

static void kv_rados_stripe_forget(struct kv_rados *k, struct kv_rados_stripe *s)
{
    struct kv_rados_stripe **at = kv_rados_stripe_bucket(k, s->object, s->number);
    while (*at != s)
        at = &(*at)->chain;
    *at = s->chain;
    snic_link_remove(&s->recent);
    k->stripes--;
    free(s);
}

static struct kv_rados_stripe *kv_rados_stripe_get(struct kv_rados *k, uint64_t object,
                                                   uint64_t number)
{
    struct kv_rados_stripe **bucket = kv_rados_stripe_bucket(k, object, number);
    struct kv_rados_stripe *s = *bucket;
    while (s != NULL && (s->object != object || s->number != number))
        s = s->chain;
    if (s == NULL) {
        s = calloc(1, sizeof(*s));
        SNIC_ASSERT(s != NULL);
        s->object = object;
        s->number = number;
        s->chain = *bucket;
        *bucket = s;
        snic_link_init(&s->recent);
        snic_link_init(&s->waiters);
        k->stripes++;
    }
    s->refs++;
    snic_link_remove(&s->recent);
    return s;
}

static void kv_rados_stripe_put(struct kv_rados *k, struct kv_rados_stripe *s)
{
    SNIC_ASSERT(s->refs > 0);
    if (--s->refs != 0)
        return;
    snic_link_append(&k->recent, &s->recent);
    if (k->stripes > KV_RADOS_STRIPES)
        kv_rados_stripe_forget(k, SNIC_CONTAINER(k->recent.next, struct kv_rados_stripe, recent));
}

void kv_rados_stripes_close(struct kv_rados *k)
{
    while (!snic_link_alone(&k->recent))
        kv_rados_stripe_forget(k, SNIC_CONTAINER(k->recent.next, struct kv_rados_stripe, recent));
    SNIC_ASSERT(k->stripes == 0);
}

struct kv_rados_part *kv_rados_part(struct kv_rados_call *c, enum kv_rados_part_kind kind,
                                    uint64_t object, uint64_t number, uint32_t from, uint32_t to)
{
    struct kv_rados *k = c->store;
    struct kv_rados_part *p = k->parts_free;
    if (p != NULL)
        k->parts_free = p->next;
    else
        p = malloc(sizeof(*p));
    SNIC_ASSERT(p != NULL && c->part_count < KV_RADOS_PAGE);
    memset(p, 0, sizeof(*p));
    snic_link_init(&p->link);
    p->call = c;
    p->stripe = kv_rados_stripe_get(k, object, number);
    p->kind = kind;
    p->from = from;
    p->to = to;
    c->parts[c->part_count++] = p;
    c->pending++;
    return p;
}

void kv_rados_parts_free(struct kv_rados_call *c)
{
    struct kv_rados *k = c->store;
    for (uint32_t i = 0; i < c->part_count; i++) {
        struct kv_rados_part *p = c->parts[i];
        SNIC_ASSERT(!p->holds && snic_link_alone(&p->link));
        kv_rados_stripe_put(k, p->stripe);
        p->next = k->parts_free;
        k->parts_free = p;
    }
    c->part_count = 0;
}

#else
typedef int kv_rados_table_is_empty;
#endif /* SNIC_WITH_RADOS */
