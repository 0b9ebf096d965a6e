/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections of the target, from opened to CLOSE, and the frames that they hold.
 */
#include "luna/target_priv.h"

#define SNIC_LUNA__NEW_NS UINT64_C(1000000000)

struct luna_peer *luna_peer_of(struct snic_luna_target *t, uint32_t handle)
{
    uint32_t slot = handle & (((uint32_t)1 << t->slot_bits) - 1);
    if (slot >= t->o.conns_max)
        return NULL;
    struct luna_peer *n = &t->peers[slot];
    return n->handle == handle && n->state != LUNA_PEER_FREE && n->state != LUNA_PEER_CLOSING
               ? n
               : NULL;
}

void luna_peer_work(struct snic_luna_target *t, struct luna_peer *n)
{
    t->dirty = 1;
    if (snic_link_alone(&n->work))
        snic_link_append(&t->work, &n->work);
}

/* ---- Frames ---- */

struct luna_frame *luna_frame_take(struct snic_luna_target *t, struct luna_peer *n)
{
    if (n->free_frame == SNIC_LUNA__NONE)
        return NULL;
    struct luna_frame *f = &n->frames[n->free_frame];
    const struct snic_ebs_header *h = &n->in.h;
    n->free_frame = f->next;
    t->busy += n->frames_used++ == 0;
    memset(f, 0, sizeof(*f));
    f->serial = ++t->serial;
    f->b = h->u.block;
    f->rpc_id = h->rpc_id;
    f->rx_ns = t->now_ns;
    f->path_seq = h->path_seq;
    f->tx_ts = h->tx_ts;
    f->pkt_id = h->pkt_id;
    f->pkt_cnt = h->pkt_cnt;
    f->flags = h->flags;
    f->state = LUNA_FRAME_HELD;
    f->next = SNIC_LUNA__NONE;
    return f;
}

void luna_frame_free(struct snic_luna_target *t, struct luna_peer *n, struct luna_frame *f)
{
    SNIC_ASSERT(f->state != LUNA_FRAME_FREE && n->frames_used > 0);
    f->state = LUNA_FRAME_FREE;
    f->serial = 0;
    f->next = n->free_frame;
    n->free_frame = (uint32_t)(f - n->frames);
    t->busy -= --n->frames_used == 0;
    if (n->paused == LUNA_PAUSED_FRAMES) {
        n->paused = LUNA_RESUMED;
        snic_link_append(&t->resume, &n->pause);
    }
}

void luna_frame_settle(struct snic_luna_target *t, struct luna_peer *n, struct luna_frame *f)
{
    if (f->open || f->left > 0)
        return;
    SNIC_ASSERT(f->state == LUNA_FRAME_HELD);
    uint32_t index = (uint32_t)(f - n->frames);
    f->state = LUNA_FRAME_ANSWERED;
    n->client_stats.refused += f->status != SNIC_EBS_OK && f->status != SNIC_EBS_SUPERSEDED;
    f->next = SNIC_LUNA__NONE;
    if (n->answers == SNIC_LUNA__NONE)
        n->answers = index;
    else
        n->frames[n->answers_last].next = index;
    n->answers_last = index;
    luna_peer_work(t, n);
}

/* ---- Opened and closed ---- */

static void luna_peer_fresh(struct snic_luna_target *t, struct luna_peer *n)
{
    n->state = LUNA_PEER_NEW;
    n->handle += (uint32_t)1 << t->slot_bits;
    n->client = 0;
    n->client_id = 0;
    n->seq = 0;
    n->heard_ns = t->now_ns;
    n->free_frame = SNIC_LUNA__NONE;
    n->frames_used = 0;
    n->answers = SNIC_LUNA__NONE;
    n->writes_out = 0;
    n->sends_out = 0;
    n->open = SNIC_LUNA__NONE;
    n->reason = 0;
    n->paused = LUNA_PAUSED_NO;
    n->hello_pending = 0;
    n->probe_pending = 0;
    n->bye = 0;
    n->permitted = 0;
    memset(&n->in, 0, sizeof(n->in));
    memset(&n->client_stats, 0, sizeof(n->client_stats));
    n->client_stats.since_ns = t->now_ns;
    do
        n->conn_id = (uint32_t)snic_rng_next(&t->rng);
    while (n->conn_id == 0);
    for (uint32_t i = t->o.frames_max; i-- > 0;) {
        n->frames[i].state = LUNA_FRAME_FREE;
        n->frames[i].serial = 0; /* J3 */
        n->frames[i].open = 0;
        n->frames[i].next = n->free_frame;
        n->free_frame = i;
    }
}

void luna_peer_end(struct snic_luna_target *t, struct luna_peer *n, int reason, int notify)
{
    SNIC_ASSERT(n->state != LUNA_PEER_FREE && n->state != LUNA_PEER_CLOSING);
    snic_link_remove(&n->work);
    snic_link_remove(&n->pause);
    n->paused = LUNA_PAUSED_NO;
    n->reason = reason;
    t->busy -= n->frames_used > 0;
    n->frames_used = 0;
    t->s.closed++;
    t->s.conns--;
    for (uint32_t i = 0; i < t->o.frames_max; i++)
        n->frames[i].serial = 0; /* J3 */
    n->state = notify ? LUNA_PEER_CLOSING : LUNA_PEER_FREE;
    if (notify)
        snic_link_append(&t->closing, &n->pause);
}

/* Not known to be a client: it has not sent HELLO, or must present a token and has not. */
static int luna_peer_strange(const struct snic_luna_target *t, const struct luna_peer *n)
{
    return n->state == LUNA_PEER_NEW ||
           ((t->o.flags & SNIC_LUNA_TARGET_TOKENS) != 0 && !n->permitted);
}

/* The connection to evict: the oldest of those that are not known to be clients after NEW_NS,
   whatever they send; else the one that has been silent for longest. */
static struct luna_peer *luna_peer_idle(struct snic_luna_target *t)
{
    struct luna_peer *idle = NULL, *strange = NULL;
    for (uint32_t i = 0; i < t->o.conns_max; i++) {
        struct luna_peer *n = &t->peers[i];
        uint64_t since = n->client_stats.since_ns;
        if (n->state == LUNA_PEER_CLOSING || n->state == LUNA_PEER_FREE)
            continue;
        if (luna_peer_strange(t, n) && t->now_ns - since >= SNIC_LUNA__NEW_NS &&
            (strange == NULL || since < strange->client_stats.since_ns))
            strange = n;
        if (t->now_ns - n->heard_ns >= t->o.idle_ns &&
            (idle == NULL || n->heard_ns < idle->heard_ns))
            idle = n;
    }
    return strange != NULL ? strange : idle;
}

int snic_luna_target_opened(struct snic_luna_target *t, uint32_t *handle, uint64_t now_ns)
{
    struct luna_peer *n = NULL;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    for (uint32_t i = 0; i < t->o.conns_max && n == NULL; i++)
        if (t->peers[i].state == LUNA_PEER_FREE)
            n = &t->peers[i];
    if (n == NULL) {
        /* Its slot is free when CLOSE is reported to the owner: the client tries again. */
        struct luna_peer *idle = luna_peer_idle(t);
        if (idle != NULL) {
            t->s.evicted++;
            luna_peer_end(t, idle, SNIC_ETIMEDOUT, 1);
        }
        return SNIC_ENOSPC;
    }
    luna_peer_fresh(t, n);
    t->s.opened++;
    t->s.conns++;
    *handle = n->handle;
    return 0;
}

void snic_luna_target_closed(struct snic_luna_target *t, uint32_t handle, uint64_t now_ns)
{
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    struct luna_peer *n = luna_peer_of(t, handle);
    if (n != NULL)
        luna_peer_end(t, n, 0, 0);
}

void luna_target_room(struct snic_luna_target *t)
{
    while (!snic_link_alone(&t->room) && !luna_target_full(t)) {
        struct luna_peer *n = SNIC_CONTAINER(t->room.next, struct luna_peer, pause);
        snic_link_remove(&n->pause);
        snic_link_append(&t->resume, &n->pause);
        n->paused = LUNA_RESUMED;
    }
}
