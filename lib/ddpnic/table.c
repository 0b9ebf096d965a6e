/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The table that both halves reach: records in an array, found by an open-addressing index of
 * (hash, number), at most two thirds full. Records never move and are never removed. And the
 * coherent word.
 */
#include "ddpnic_priv.h"

uint32_t ddpnic_hash(const struct snic_ddp_key *key)
{
    uint64_t h = key->w[0] * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
    h = (h ^ key->w[1]) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
    h *= UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(h >> 32);
}

struct ddpnic_rec *ddpnic_find(const struct snic_ddpnic *d, const struct snic_ddp_key *key)
{
    const struct ddpnic_slot *index = ddpnic_index(d);
    uint32_t hash = ddpnic_hash(key);
    for (uint32_t i = hash & d->index_mask; index[i].rec != 0; i = (i + 1) & d->index_mask) {
        struct ddpnic_rec *r = ddpnic_rec_at(d, index[i].rec - 1);
        if (index[i].hash == hash && r->key.w[0] == key->w[0] && r->key.w[1] == key->w[1])
            return r;
    }
    return NULL;
}

int ddpnic_pool_full(const struct ddpnic_pool *p)
{
    return p->used == p->max;
}

uint32_t ddpnic_pool_take(struct ddpnic_pool *p, uint32_t next_of_free)
{
    SNIC_ASSERT(p->used < p->max);
    uint32_t i = p->free;
    if (i != SNIC_DDPNIC__NIL)
        p->free = next_of_free;
    else
        i = p->high++;
    p->used++;
    return i;
}

struct ddpnic_rec *ddpnic_add(struct snic_ddpnic *d, const struct snic_ddp_key *key)
{
    if (ddpnic_pool_full(&d->recs))
        return NULL;
    uint32_t n = ddpnic_pool_take(&d->recs, SNIC_DDPNIC__NIL);
    struct ddpnic_rec *r = ddpnic_rec_at(d, n);
    memset(r, 0, sizeof(*r));
    r->key = *key;
    r->flags = DDPNIC_R_USED;
    r->hash = ddpnic_hash(key);
    r->line.cache = r->read_first = r->read_last = r->host_writes = SNIC_DDPNIC__NIL;
    r->vfirst = r->vlast = r->dfirst = r->writes = r->waits = r->dirty = SNIC_DDPNIC__NIL;
    struct ddpnic_slot *index = ddpnic_index(d);
    uint32_t i = r->hash & d->index_mask;
    while (index[i].rec != 0)
        i = (i + 1) & d->index_mask;
    index[i].hash = r->hash;
    index[i].rec = n + 1;
    return r;
}

/*
 * The compare-and-swap by which either half takes the read lock for @p ts: 0, or 1 if the word is
 * not what was @p seen any more. The word keeps the highest timestamp when the lock is released, so
 * a lock taken and released in between is noticed (with the owner alone in the word, as in the
 * paper, it would not be: ABA).
 */
int ddpnic_snatch(struct ddpnic_line *l, uint64_t seen, uint64_t ts)
{
    if (l->word != seen)
        return 1;
    if (ts > ddpnic_top(l))
        l->word = ts | SNIC_DDPNIC__LOCK;
    return 0;
}
