/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory that an engine has lent to the network: an entry for each train or send, from the engine's
 * action until it is returned (V2).
 */
#include "volume/volume_priv.h"

void volume_txs_init(struct volume_txs *x, struct volume_tx *tx, uint32_t count, void *owner,
                     volume_returned_fn returned)
{
    memset(x, 0, sizeof(*x));
    x->tx = tx;
    x->count = count;
    x->owner = owner;
    x->returned = returned;
    x->free = SNIC_VOLUME__NIL;
    for (uint32_t i = count; i-- > 0;) {
        memset(&tx[i], 0, sizeof(tx[i]));
        tx[i].of = x;
        tx[i].next = x->free;
        x->free = i;
    }
}

struct volume_tx *volume_tx_take(struct volume_txs *x, void *what)
{
    SNIC_ASSERT(x->free != SNIC_VOLUME__NIL);
    struct volume_tx *t = &x->tx[x->free];
    x->free = t->next;
    x->out++;
    t->used = 1;
    t->what = what;
    memset(&t->u, 0, sizeof(t->u));
    return t;
}

void volume_tx_back(struct volume_tx *t, int result)
{
    struct volume_txs *x = t->of;
    void *what = t->what;
    SNIC_ASSERT(t->used && x->out > 0);
    if (result < 0)
        x->unsent++;
    x->too_large += result == SNIC_EMSGSIZE;
    t->used = 0;
    t->next = x->free;
    x->free = (uint32_t)(t - x->tx);
    x->out--;
    x->returned(x->owner, what);
}

void volume_tx_drop(struct snic_queue *backlog)
{
    struct snic_queue q = *backlog;
    memset(backlog, 0, sizeof(*backlog));
    for (struct snic_node *n = snic_queue_pop(&q); n != NULL; n = snic_queue_pop(&q))
        volume_tx_back(SNIC_CONTAINER(n, struct volume_tx, node), SNIC_ECANCELED);
}

int volume_txs_check(const struct volume_txs *x)
{
    uint32_t out = 0, free = 0;
    for (uint32_t i = 0; i < x->count; i++)
        out += x->tx[i].used != 0;
    for (uint32_t i = x->free; i != SNIC_VOLUME__NIL && free <= x->count; i = x->tx[i].next) {
        if (i >= x->count || x->tx[i].used)
            return SNIC_ECORRUPT;
        free++;
    }
    return out == x->out && free + out == x->count ? 0 : SNIC_ECORRUPT;
}
