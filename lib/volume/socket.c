/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A datagram socket that sends an engine's trains. Those the network has no space for are queued
 * here, in order; one that it refuses counts as lost, and is returned at once.
 */
#include "volume/volume_priv.h"

static void socket_done(struct snic_net_train *t)
{
    volume_tx_back(SNIC_CONTAINER(t, struct volume_tx, u.train), t->result);
}

/* 1: the network has it, or it is returned; 0: the network has no space. */
static int socket_try(struct volume_socket *k, struct volume_tx *x)
{
    int r = snic_net_dgram_send(k->d, &x->u.train);
    if (r < 0)
        volume_tx_back(x, r);
    return r != 0;
}

void volume_socket_send(struct volume_socket *k, struct volume_txs *x,
                        struct snic_solar_train *train, const struct snic_net_addr *peer)
{
    struct volume_tx *t = volume_tx_take(x, train);
    t->u.train.done = socket_done;
    t->u.train.peer = *peer;
    t->u.train.iov = train->iov;
    t->u.train.iov_count = train->iov_count;
    t->u.train.segment = train->segment;
    t->u.train.ecn = SNIC_VOLUME__ECT;
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
        /* The entry may have been returned, and reused: its node is not read. */
        k->backlog.first = next;
        if (next == NULL)
            k->backlog.last = NULL;
    }
}

void volume_socket_close(struct volume_socket *k)
{
    if (k->d != NULL)
        snic_net_dgram_close(k->d);
    k->d = NULL;
    k->used = 0;
    volume_tx_drop(&k->backlog);
}
