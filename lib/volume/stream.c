/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A connection that takes an engine's sends, as gather lists that point where the engine has them.
 * What the network has no room for waits here, in order; what a connection that is over has not
 * sent is given back unsent: whoever needs it replays it elsewhere.
 */
#include "volume/volume_priv.h"

SNIC_STATIC_ASSERT(SNIC_LUNA_IOV_MAX <= SNIC_NET_IOV_MAX, "the network takes whole sends");

#define SNIC_VOLUME__LINGER_MS 1000u /* for the last words to a connection that is over */

static void stream_done(struct snic_net_send_req *s)
{
    volume_tx_back(SNIC_CONTAINER(s, struct volume_tx, u.send), s->result);
}

/* 1: the network has it, or it is given back. */
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
    /* Where it pays the network does not even copy into its own buffers. */
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
        /* The entry may have been given back, and used again: its node is not looked at. */
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
