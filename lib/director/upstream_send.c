/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages to the host role, over the channel.
 *
 * I1  What one connection sends down arrives in order: short messages collect in the stage, which
 *     is pushed before a long message begins.
 * I2  One long message at a time is under way (`piecing`), whether a connection's message at hand
 *     or one that the engine handed back: the host needs one place to put it together.
 */
#include "director/director_priv.h"

#define SNIC_DIRECTOR__PIECE_BYTES 131072 /* most bytes of a piece of a long message */

/* Push the stage; 0 when the ring is full. */
int director_channel_push(struct snic_director *d)
{
    struct snic_iov v = {d->stage.bytes, d->stage.used};
    if (d->stage.used == 0)
        return 1;
    if (snic_channel_down_push(d->channel, SNIC_DIRECTOR__BATCH, NULL, 0, &v, 1) != 0)
        return 0;
    d->stage.used = 0;
    d->stats.records_down++;
    return 1;
}

int director_channel_stage(struct snic_director *d, const struct director_wire *w,
                           const void *bytes)
{
    if (director_stage_need(w->size) > SNIC_DIRECTOR__STAGE - d->stage.used &&
        !director_channel_push(d))
        return 0;
    unsigned char *p = director_stage_put(&d->stage, w);
    if (bytes != NULL)
        memcpy(p, bytes, w->size);
    return 1;
}

/* A long message, piece by piece; `sent` is the progress. 1; SNIC_EAGAIN */
static int director_channel_pieces(struct snic_director_conn *c, struct director_slot *s,
                                   const unsigned char *msg, uint32_t size)
{
    struct snic_director *d = c->d;
    unsigned char head[SNIC_DIRECTOR__LONG_HEAD];
    uint32_t most = (uint32_t)snic_min_u64(SNIC_DIRECTOR__PIECE_BYTES,
                                           d->record_max - SNIC_DIRECTOR__LONG_HEAD);
    if ((d->piecing != NULL && d->piecing != s) || !director_channel_push(d)) /* I1, I2 */
        return SNIC_EAGAIN;
    while (s->sent < size) {
        struct director_wire w = {.conn = c->id,
                                  .seq = director_reply_token(s),
                                  .word = s->user,
                                  .size = (uint32_t)snic_min_u64(most, size - s->sent),
                                  .kind = DIRECTOR_MESSAGE,
                                  .offset = s->sent,
                                  .total = size};
        union {
            const unsigned char *from;
            void *base;
        } piece = {msg + s->sent};
        struct snic_iov v = {piece.base, w.size};
        director_wire_put_long(head, &w);
        if (snic_channel_down_push(d->channel, SNIC_DIRECTOR__PIECE, head, sizeof(head), &v, 1) !=
            0) {
            if (s->sent > 0)
                d->piecing = s;
            return SNIC_EAGAIN;
        }
        s->sent += w.size;
        d->stats.records_down++;
    }
    if (d->piecing == s) {
        d->piecing = NULL;
        director_wake(d, &d->wait_channel, SNIC_DIRECTOR__WAIT_CHANNEL);
    }
    return 1;
}

/*
 * 1 sent; SNIC_EAGAIN no room, a part of a long message may be sent; SNIC_EMSGSIZE more than this
 * host takes: the one before took it.
 */
int director_channel_send(struct snic_director_conn *c, struct director_slot *s,
                          const unsigned char *msg, uint32_t size)
{
    struct director_wire w = {.conn = c->id,
                              .seq = director_reply_token(s),
                              .word = s->user,
                              .size = size,
                              .kind = DIRECTOR_MESSAGE};
    if (size > c->d->message_max)
        return SNIC_EMSGSIZE;
    c->known = 1;
    int r = SNIC_EAGAIN;
    if (director_stage_need(size) > SNIC_DIRECTOR__STAGE)
        r = director_channel_pieces(c, s, msg, size);
    else if (director_channel_stage(c->d, &w, msg))
        r = 1;
    if (r == 1)
        director_backlog_sent(s);
    return r;
}

/* The host must hear that the client is gone. */
void director_channel_closed_conn(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    struct director_wire w = {.conn = c->id, .kind = DIRECTOR_CLOSED};
    if (d->channel == NULL) {
        c->known = c->notify = 0;
        return;
    }
    if (director_channel_stage(d, &w, NULL)) {
        c->known = 0;
        if (c->notify)
            d->closed_wait--;
        c->notify = 0;
    } else if (!c->notify) {
        c->notify = 1;
        d->closed_wait++;
    }
}
