/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A connection that sends an engine's sends, as gather lists that point into the engine's memory.
 * Those the network has no space for are queued here, in order; those that a connection has not
 * sent when it ends are returned unsent: the engine replays them elsewhere.
 */
#include "volume/volume_priv.h"

SNIC_STATIC_ASSERT(SNIC_LUNA_IOV_MAX <= SNIC_NET_IOV_MAX, "the network takes whole sends");

#define SNIC_VOLUME__LINGER_MS 1000u /* to deliver the last messages of an ended connection */

static void stream_done(struct snic_net_send_req *s)
{
    volume_tx_back(SNIC_CONTAINER(s, struct volume_tx, u.send), s->result);
}

/* 1: the network has it, or it is returned; 0: the network has no space. */
static int stream_try(struct volume_stream *k, struct volume_tx *x)
{
    int r = snic_net_send(k->c, &x->u.send);
    if (r < 0)
        volume_tx_back(x, r);
    return r != 0;
}

void volume_stream_send(struct volume_stream *k, struct volume_txs *x, struct snic_luna_send *send)
{
    struct volume_tx *t = volume_tx_take(x, send);
    if (k == NULL || k->over) {
        volume_tx_back(t, SNIC_ECANCELED);
        return;
    }
    const struct snic_net *net = k->c->net;
    t->u.send.done = stream_done;
    t->u.send.iov = send->iov;
    t->u.send.iov_count = send->iov_count;
    t->u.send.region = SNIC_NO_REGION;
    /* Large sends are zero-copy: the network does not copy into its own buffers. */
    if ((net->caps & SNIC_NET_CAP_ZC) != 0 && send->bytes >= net->zc_bytes_min)
        t->u.send.flags = SNIC_NET_SEND_ZC;
    if (!snic_queue_empty(&k->backlog) || !stream_try(k, t))
        snic_queue_push(&k->backlog, &t->node);
}

void volume_stream_writable(struct volume_stream *k)
{
    while (!k->over && !snic_queue_empty(&k->backlog)) {
        struct volume_tx *t = SNIC_CONTAINER(k->backlog.first, struct volume_tx, node);
        struct snic_node *next = k->backlog.first->next;
        if (!stream_try(k, t))
            return;
        /* The entry may have been returned, and reused: its node is not read. */
        k->backlog.first = next;
        if (next == NULL)
            k->backlog.last = NULL;
    }
}

void volume_stream_end(struct volume_stream *k, int orderly)
{
    if (k->over)
        return;
    k->over = 1;
    volume_tx_drop(&k->backlog);
    if (orderly) {
        int r = snic_net_patience(k->c, SNIC_VOLUME__LINGER_MS);
        (void)r; /* UNIX sockets have none, and need none */
        snic_net_close(k->c);
    } else {
        snic_net_abort(k->c);
    }
}

void volume_stream_gone(struct volume_stream *k)
{
    k->over = 1;
    k->c = NULL;
    volume_tx_drop(&k->backlog);
}
