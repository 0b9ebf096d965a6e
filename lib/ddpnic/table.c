/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The table that both halves reach: records never move and are never removed. And the coherent
 * word.
 */
#include "ddpnic_priv.h"

struct ddpnic_rec *ddpnic_find(const struct snic_ddpnic *d, const struct snic_ddp_key *key)
{
    uint32_t n = ddp_index_find(&d->index, ddpnic_rec_at(d, 0), sizeof(struct ddpnic_rec), key);
    return n != SNIC_DDP__NIL ? ddpnic_rec_at(d, n) : NULL;
}

struct ddpnic_rec *ddpnic_add(struct snic_ddpnic *d, const struct snic_ddp_key *key)
{
    if (ddp_pool_full(&d->recs))
        return NULL;
    uint32_t n = ddp_pool_take(&d->recs);
    struct ddpnic_rec *r = ddpnic_rec_at(d, n);
    r->key = *key;
    r->flags = DDPNIC_R_USED;
    r->hash = ddp_hash(key);
    r->line.cache = r->reads.first = r->reads.last = r->host_writes = SNIC_DDP__NIL;
    r->vfirst = r->vlast = r->dfirst = r->writes = r->waits = r->dirty = SNIC_DDP__NIL;
    ddp_index_add(&d->index, r->hash, n);
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
