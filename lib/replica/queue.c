/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages of the data path to another node: a message waits in the queue of its channel, with a
 * reference to its value, until its bytes are in a buffer (link.c); then it is remembered until the
 * other node has taken it. Nothing is dropped while the connection lives, unless a queue is full;
 * when it ends, its queues are emptied, and the engine sends again.
 *
 * L2  An entry is free or in one list of one channel; if it waits and has a value not yet copied
 *     it has one reference to it (N2).
 * L3  A message that is equal to one that waits is not queued. Nor is one that only a timer of the
 *     engine repeats, while an equal one has been sent and not taken: nothing is lost on its way.
 *     A probe of a write is not queued while the INV with its value is queued, or not taken.
 *     Answers are queued again then: what they answer was sent after it was taken.
 */
#include "replica_priv.h"

uint32_t replica_link_number(const struct snic_replica *r, const struct replica_peer *p)
{
    return (uint32_t)(p - r->peers);
}

/* ---- Entries ---- */

/* By type, key and timestamp: an INV and its probes are in one bucket. */
static uint32_t replica_out_bucket(const struct snic_replica *r, const unsigned char *head)
{
    uint64_t h = head[0] * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = 16; i < 40; i += 8)
        h = (h ^ h >> 29 ^ snic_get_le64(head + i)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(h >> 32) & (r->o.sends_max - 1);
}

static void replica_outs_push(struct replica_peer *p, struct replica_outs *l, uint32_t i)
{
    p->outs[i].next = SNIC_REPLICA__NIL;
    if (l->count++ == 0)
        l->first = i;
    else
        p->outs[l->last].next = i;
    l->last = i;
}

uint32_t replica_outs_pop(struct replica_peer *p, struct replica_outs *l)
{
    uint32_t i = l->first;
    SNIC_ASSERT(l->count > 0);
    l->first = p->outs[i].next;
    l->count--;
    return i;
}

/* Of an entry that is in no list any more. */
void replica_out_free(struct snic_replica *r, struct replica_peer *p, uint32_t i)
{
    struct replica_out *o = &p->outs[i];
    uint32_t *at = &p->buckets[o->bucket];
    while (*at != i)
        at = &p->outs[*at].hashed;
    *at = o->hashed;
    if (o->value != 0)
        replica_value_drop(&r->values, o->value); /* L2 */
    o->value = 0;
    o->next = p->out_free;
    p->out_free = i;
    p->outs_free++;
}

/* Does only a timer of the engine send it again? (L3) */
static int replica_out_timed(const unsigned char *head)
{
    switch (head[0]) {
    case SNIC_DDP_INV:
    case SNIC_DDP_PERSIST:
    case SNIC_DDP_QUERY:
    case SNIC_DDP_PULL:
    case SNIC_DDP_PURGE_REQUEST:
        return 1;
    default:
        return 0;
    }
}

/* Is it a probe (LOCKED without CAS) of the write that the INV of that entry carries? */
static int replica_out_probes(const struct replica_out *o, const unsigned char *head)
{
    const int shown = SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_CAS;
    return head[0] == SNIC_DDP_INV && (head[1] & shown) == SNIC_DDP_MSG_LOCKED &&
           o->head[0] == SNIC_DDP_INV && memcmp(o->head + 4, head + 4, 36) == 0;
}

static int replica_out_known(const struct snic_replica *r, const struct replica_peer *p,
                             const unsigned char *head, uint32_t size)
{
    uint32_t i = p->buckets[replica_out_bucket(r, head)];
    for (; i != SNIC_REPLICA__NIL; i = p->outs[i].hashed) {
        const struct replica_out *o = &p->outs[i];
        int same = o->size == size && memcmp(o->head, head, size) == 0;
        if ((same && (!o->sent || replica_out_timed(head))) || replica_out_probes(o, head))
            return 1;
    }
    return 0;
}

/* ---- Messages ---- */

static void replica_out_queue(struct snic_replica *r, struct replica_peer *p,
                              const struct snic_ddp_msg *m)
{
    unsigned char head[SNIC_REPLICA__DDP_MOST];
    uint32_t i = p->out_free;
    if (p->conn == NULL) {
        p->lost++;
        return;
    }
    uint32_t size = replica_ddp_size(p->conn->version);
    replica_put_ddp(head, p->conn->version, m);
    if (replica_out_known(r, p, head, size)) {
        p->repeats++;
        return;
    }
    if (i == SNIC_REPLICA__NIL) {
        p->lost++;
        r->lost_sends++;
        return;
    }
    struct replica_out *o = &p->outs[i];
    p->out_free = o->next;
    p->outs_free--;
    memcpy(o->head, head, sizeof(head));
    o->size = (uint8_t)size;
    o->channel = (uint8_t)replica_channel_of(m);
    o->sent = 0;
    o->queued_ns = snic_loop_clock(r->o.loop);
    o->length = replica_carries(m) ? m->length : 0;
    o->value = replica_carries(m) ? m->value : 0;
    o->bucket = replica_out_bucket(r, head);
    o->hashed = p->buckets[o->bucket];
    p->buckets[o->bucket] = i;
    if (o->value != 0)
        replica_value_hold(&r->values, o->value); /* L2 */
    p->to[o->channel].queued += o->length;
    replica_outs_push(p, &p->to[o->channel].wait, i);
    r->to_pump |= (uint16_t)(1u << replica_link_number(r, p));
}

/* SEND of the data path: dst and its incarnation are filled in here. */
void replica_link_ddp(struct snic_replica *r, uint16_t to, const struct snic_ddp_msg *msg)
{
    struct snic_ddp_msg m = *msg;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if (((to & r->others) >> n & 1) == 0)
            continue;
        m.dst = (uint8_t)n;
        m.dst_incarnation = r->view.incarnation[n];
        replica_out_queue(r, &r->peers[n], &m);
    }
}

/* The first one that waits is in a buffer. */
void replica_out_sent(struct replica_peer *p, struct replica_to *t)
{
    uint32_t i = replica_outs_pop(p, &t->wait);
    t->offset = 0;
    t->queued -= p->outs[i].length;
    p->outs[i].sent = 1;
    p->sent++;
    replica_outs_push(p, &t->sent, i);
}

/* The connection has ended: they are lost. */
void replica_to_empty(struct snic_replica *r, struct replica_peer *p, struct replica_outs *l)
{
    while (l->count != 0) {
        replica_out_free(r, p, replica_outs_pop(p, l));
        p->lost++;
    }
}

/* What waits and is of an earlier epoch has no taker any more. */
void replica_link_epoch(struct snic_replica *r)
{
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        struct replica_peer *p = &r->peers[n];
        for (uint32_t c = 0; p->conn != NULL && c < REPLICA_CHANNELS; c++) {
            struct replica_to *t = &p->to[c];
            uint32_t begun = t->offset > 0 ? t->wait.first : SNIC_REPLICA__NIL;
            for (uint32_t left = t->wait.count; left > 0; left--) {
                uint32_t i = replica_outs_pop(p, &t->wait);
                if (i == begun || snic_get_le32(p->outs[i].head + 4) >= r->view.epoch) {
                    replica_outs_push(p, &t->wait, i);
                    continue;
                }
                t->queued -= p->outs[i].length;
                replica_out_free(r, p, i);
            }
        }
    }
}
