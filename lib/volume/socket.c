/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A datagram socket that takes an engine's trains. What the network has no room for waits here, in
 * order; what it refuses is as good as lost, and given back at once.
 */
#include "volume/volume_priv.h"

static void socket_done(struct snic_net_train *t)
{
    struct volume_tx *x = SNIC_CONTAINER(t, struct volume_tx, t);
    struct volume_txs *of = x->of;
    struct snic_solar_train *train = x->train;
    SNIC_ASSERT(x->used && of->out > 0);
    if (t->result < 0)
        of->unsent++;
    x->used = 0;
    x->next = of->free;
    of->free = (uint32_t)(x - of->tx);
    of->out--;
    of->given(of->owner, train); /* V2 */
}

void volume_txs_init(struct volume_txs *x, struct volume_tx *tx, uint32_t count, void *owner,
                     volume_given_fn given)
{
    memset(x, 0, sizeof(*x));
    x->tx = tx;
    x->count = count;
    x->owner = owner;
    x->given = given;
    x->free = SNIC_VOLUME__NIL;
    for (uint32_t i = count; i-- > 0;) {
        memset(&tx[i], 0, sizeof(tx[i]));
        tx[i].of = x;
        tx[i].next = x->free;
        x->free = i;
    }
}

/* 1: the network has it, or it is given back. */
static int socket_try(struct volume_socket *k, struct volume_tx *x)
{
    int r = snic_net_dgram_send(k->d, &x->t);
    if (r == 0)
        return 0;
    if (r < 0) {
        x->t.result = r;
        socket_done(&x->t);
    }
    return 1;
}

void volume_socket_send(struct volume_socket *k, struct volume_txs *x,
                        struct snic_solar_train *train, const struct snic_net_addr *peer)
{
    SNIC_ASSERT(x->free != SNIC_VOLUME__NIL);
    struct volume_tx *t = &x->tx[x->free];
    x->free = t->next;
    x->out++;
    t->used = 1;
    t->train = train;
    memset(&t->t, 0, sizeof(t->t));
    t->t.done = socket_done;
    t->t.peer = *peer;
    t->t.iov = train->iov;
    t->t.iov_count = train->iov_count;
    t->t.segment = train->segment;
    t->t.ecn = SNIC_VOLUME__ECT;
    if (!snic_queue_empty(&k->backlog) || !socket_try(k, t))
        snic_queue_push(&k->backlog, &t->node);
}

void volume_socket_writable(struct volume_socket *k)
{
    while (!snic_queue_empty(&k->backlog)) {
        struct volume_tx *t = SNIC_CONTAINER(k->backlog.first, struct volume_tx, node);
        struct snic_node *next = k->backlog.first->next;
        if (!socket_try(k, t))
            return;
        /* The entry may have been given back, and used again: its node is not looked at. */
        k->backlog.first = next;
        if (next == NULL)
            k->backlog.last = NULL;
    }
}

void volume_socket_close(struct volume_socket *k)
{
    struct snic_queue backlog = k->backlog;
    memset(&k->backlog, 0, sizeof(k->backlog));
    if (k->d != NULL)
        snic_net_dgram_close(k->d);
    k->d = NULL;
    k->used = 0;
    for (struct snic_node *n = snic_queue_pop(&backlog); n != NULL; n = snic_queue_pop(&backlog)) {
        struct volume_tx *t = SNIC_CONTAINER(n, struct volume_tx, node);
        t->t.result = SNIC_ECANCELED;
        socket_done(&t->t);
    }
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
