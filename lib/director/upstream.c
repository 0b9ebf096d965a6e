/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The way to the host, whichever there is: a channel, a net connection, or none.
 */
#include "director/director_priv.h"

/* The message of @s, which is here, has no host to go to, or only one that takes none so long. */
static void director_no_host(struct director_slot *s, const unsigned char *msg, uint32_t size)
{
    struct snic_director *d = s->conn->d;
    char text[SNIC_DIRECTOR__TEXT];
    uint32_t n =
        d->channel != NULL && size > d->message_max
            ? d->user.protocol_error(d->user.ctx, SNIC_EMSGSIZE, msg, size, text, sizeof(text))
            : d->user.host_gone(d->user.ctx, msg, size, text, sizeof(text));
    SNIC_ASSERT(n <= sizeof(text));
    s->state = DIRECTOR_SLOT_HOST;
    if (director_reply_text(s, text, n))
        d->stats.host_gone++;
    else
        director_reply_gone(s); /* no block: later, and without the message */
}

/* Keep what host_gone() is called with if the host dies, where that is needed. */
static void director_keep(struct director_slot *s, const unsigned char *msg, uint32_t size)
{
    if (s->conn->d->opts.flags & SNIC_DIRECTOR_IN_ORDER)
        return;
    s->kept_size = (uint8_t)snic_min_u64(size, SNIC_DIRECTOR_KEPT);
    memcpy(s->kept, msg, s->kept_size);
}

/*
 * Send a message to the host there is, under *@slot or a new one. 1: it went, or was answered
 * with host_gone(); else @c waits, and if *@slot is set the host has got a part of it.
 */
int director_to_host(struct snic_director_conn *c, struct director_slot **slot,
                     const unsigned char *msg, uint32_t size, uint32_t flags)
{
    struct snic_director *d = c->d;
    struct director_slot *s = *slot != NULL ? *slot : director_slot_take(c);
    int r = 0;
    director_keep(s, msg, size);
    if (d->channel != NULL)
        r = director_channel_send(c, s, msg, size);
    else if (d->host_net && !c->raw)
        r = director_net_send(c, s, msg, size);
    r = r == SNIC_EMSGSIZE ? 0 : r;
    if (r < 0) {
        if (d->channel == NULL)
            director_wait(c, &d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
        else
            director_wait(c, &d->wait_channel, SNIC_DIRECTOR__WAIT_CHANNEL);
        if (*slot == NULL && s->sent == 0) {
            director_slot_give(s);
            s = NULL;
        }
        *slot = s;
        return 0;
    }
    *slot = s;
    if (flags & SNIC_DIRECTOR__BARRIER) {
        s->flags |= flags & (SNIC_DIRECTOR__BARRIER | SNIC_DIRECTOR__SWITCH);
        c->barriers++;
        c->switches += (flags & SNIC_DIRECTOR__SWITCH) != 0;
    }
    if (r == 0) {
        director_no_host(s, msg, size);
        return 1;
    }
    d->stats.to_host++;
    s->state = DIRECTOR_SLOT_HOST;
    return 1;
}

/* The engine handed the message of @s back. 1 it is dealt with; 0 later. */
int director_retry_one(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    struct snic_director *d = c->d;
    struct snic_offload_job *job = s->job;
    int r = 0;
    if (c->dead || c->closing) {
        if (d->piecing == s) { /* the host drops what it received of it */
            d->piecing = NULL;
            director_wake(d, &d->wait_channel, SNIC_DIRECTOR__WAIT_CHANNEL);
        }
        s->job = NULL;
        snic_offload_release(d->offload, job);
        director_slot_give(s);
        SNIC_ASSERT(c->offloading > 0);
        c->offloading--;
        director_conn_check(c);
        return 1;
    }
    director_keep(s, job->message, job->message_size);
    if (d->channel != NULL)
        r = director_channel_send(c, s, job->message, job->message_size);
    else if (d->host_net)
        r = director_net_send(c, s, job->message, job->message_size);
    r = r == SNIC_EMSGSIZE ? 0 : r;
    if (r < 0)
        return 0;
    SNIC_ASSERT(c->offloading > 0);
    c->offloading--;
    s->job = NULL;
    if (r == 0) {
        director_no_host(s, job->message, job->message_size);
    } else {
        d->stats.to_host++;
        s->state = DIRECTOR_SLOT_HOST;
    }
    snic_offload_release(d->offload, job);
    if (c->wait_for & SNIC_DIRECTOR__WAIT_OFFLOAD)
        director_ready(c);
    return 1;
}

/* What could not be sent on before. */
void director_retry_all(struct snic_director *d)
{
    while (!snic_queue_empty(&d->retry)) {
        struct director_slot *s = SNIC_CONTAINER(d->retry.first, struct director_slot, host);
        struct snic_node *next = s->host.next;
        if (!director_retry_one(s)) /* may use s->host */
            break;
        d->retry.first = next;
        if (next == NULL)
            d->retry.last = NULL;
    }
}
