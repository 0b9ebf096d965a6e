/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Blocks in: what goes out is in link.c.
 *
 * A channel with values is a row of messages, each its head and then its value, whose bytes go
 * straight to the value's memory. When there is no such memory, or the log or the engine has no
 * room, the channel is blocked: what follows in it stays in a ring, and no more is permitted than
 * fits there, until the other node's window is used up. It is tried again whenever something has
 * happened here. A message that would block for long, but for the log's sake, counts as lost, so
 * that others pass; its sender repeats it. So does one that a full log refuses (A10).
 *
 * L5  arrived <= granted = taken + window; the ring holds at most a window's bytes.
 */
#include "replica_priv.h"

#define REPLICA_BLOCKED_MAX UINT64_C(200000000)
#define REPLICA_RETRY_NS UINT64_C(1000000)
#define REPLICA_AHEAD 16 /* records that are fetched together */

/* A message without value, whole. */
static void replica_take_control(struct snic_replica *r, const struct snic_ddp_msg *m)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = m};
    (void)replica_step_ddp(r, &ev);
}

/* ---- Blocked channels ---- */

static void replica_from_block(struct snic_replica *r, struct replica_peer *p,
                               struct replica_from *f, uint32_t reason)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    if (f->blocked == REPLICA_FREE) {
        r->blocked++;
        p->stalls++;
        f->since_ns = now;
    }
    f->blocked = reason;
    replica_link_wake(r, now + REPLICA_RETRY_NS);
}

static void replica_from_free(struct snic_replica *r, struct replica_from *f)
{
    r->blocked -= f->blocked != REPLICA_FREE;
    f->blocked = REPLICA_FREE;
}

/* Is it time to give way to others? */
static int replica_from_late(const struct snic_replica *r, const struct replica_from *f)
{
    return f->blocked != REPLICA_FREE &&
           snic_loop_clock(r->o.loop) - f->since_ns >= REPLICA_BLOCKED_MAX;
}

/* ---- A message of a channel ---- */

/* It has been taken, or is lost. */
static void replica_from_end(struct snic_replica *r, struct replica_peer *p, uint32_t channel)
{
    struct replica_from *f = &p->from[channel];
    if (f->value != 0)
        replica_value_drop(&r->values, f->value);
    f->value = 0;
    f->have = 0;
    f->got = 0;
    f->skip = 0;
    p->taken[channel]++;
    p->received++;
    replica_from_free(r, f);
}

/*
 * Has the log room for the message? An INV of what is here appends nothing, so a full log takes it,
 * too: as such the first round of a CAS comes (ddp's cas.c), and that may be a deletion's.
 */
static int replica_from_room(const struct snic_replica *r, const struct snic_ddp_msg *m)
{
    struct snic_ddp_entry e;
    if (!replica_carries(m))
        return replica_log_room(r, REPLICA_ROOM_TOMBSTONE);
    int room = replica_log_room(r, REPLICA_ROOM_RECORD);
    if (room == SNIC_ENOSPC && m->type == SNIC_DDP_INV && snic_ddp_find(r->ddp, &m->key, &e) == 0 &&
        m->ts <= e.ts)
        return replica_log_room(r, REPLICA_ROOM_TOMBSTONE);
    return room;
}

/* All of it is here. 1: taken or lost; 0: blocked. */
static int replica_from_deliver(struct snic_replica *r, struct replica_peer *p, uint32_t channel)
{
    struct replica_from *f = &p->from[channel];
    const struct replica_conn *k = p->conn;
    struct snic_ddp_msg m = f->msg;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    int room = replica_from_room(r, &m);
    SNIC_ASSERT(replica_logs(&m)); /* replica_channel_of */
    if (room == SNIC_EAGAIN) {
        replica_from_block(r, p, f, REPLICA_NO_LOG);
        return 0;
    }
    if (room == SNIC_ENOSPC)
        (void)replica_shed(r);
    if (room != 0 || (replica_carries(&m) && f->value == 0)) {
        r->no_room++;
        replica_from_end(r, p, channel);
        return 1;
    }
    m.value = f->value;
    if (f->value != 0) {
        replica_value_hold(&r->values, f->value);
        replica_value_give(&r->values, f->value);
    }
    int result = replica_step_ddp(r, &ev);
    if (result != 0 && m.value != 0)
        replica_value_release(&r->values, m.value);
    if (p->conn != k)
        return 1; /* nothing is half here any more */
    if (result == SNIC_EAGAIN && !replica_from_late(r, f)) {
        replica_from_block(r, p, f, REPLICA_NO_ENGINE);
        return 0;
    }
    r->no_room += result == SNIC_EAGAIN;
    replica_from_end(r, p, channel);
    return 1;
}

/* A head is whole: 1; 0: blocked; SNIC_EPROTO. */
static int replica_from_head(struct snic_replica *r, struct replica_peer *p, uint32_t channel)
{
    struct replica_from *f = &p->from[channel];
    if (f->msg.type == 0) {
        if (replica_get_ddp(f->head, p->conn->version, r->o.value_max, &f->msg) != 0 ||
            f->msg.src != replica_link_number(r, p) || replica_channel_of(&f->msg) != channel)
            return SNIC_EPROTO;
    }
    if (!replica_carries(&f->msg) || f->value != 0 || f->skip)
        return 1;
    f->value = replica_value_take(r, f->msg.length);
    f->skip = f->value == 0 && replica_from_late(r, f);
    if (f->value == 0 && !f->skip) {
        replica_from_block(r, p, f, REPLICA_NO_VALUE);
        return 0;
    }
    replica_from_free(r, f);
    return 1;
}

/* As many of the bytes as can be taken, whole messages too: how many; SNIC_EPROTO. */
static int64_t replica_from_take(struct snic_replica *r, struct replica_peer *p, uint32_t channel,
                                 const unsigned char *data, size_t size)
{
    struct replica_from *f = &p->from[channel];
    const struct replica_conn *k = p->conn;
    uint32_t head = replica_ddp_size(k->version);
    size_t at = 0;
    for (;;) {
        if (f->have < head) {
            size_t n = (size_t)snic_min_u64(head - f->have, size - at);
            memcpy(f->head + f->have, data + at, n);
            f->have += (uint32_t)n;
            at += n;
            f->msg.type = 0;
            if (f->have < head)
                return (int64_t)at;
        }
        int result = replica_from_head(r, p, channel);
        if (result <= 0)
            return result < 0 ? result : (int64_t)at;
        uint32_t whole = replica_carries(&f->msg) ? f->msg.length : 0;
        if (f->got < whole) {
            uint32_t any;
            size_t n = (size_t)snic_min_u64(whole - f->got, size - at);
            if (f->value != 0)
                memcpy(replica_value_at(&r->values, f->value, &any) + f->got, data + at, n);
            f->got += (uint32_t)n;
            at += n;
        }
        if (f->got < whole || !replica_from_deliver(r, p, channel))
            return (int64_t)at;
        if (r->state != SNIC_REPLICA_RUNNING || p->conn != k)
            return (int64_t)at;
    }
}

/* Bytes that cannot be taken yet. */
static void replica_ring_put(struct snic_replica *r, struct replica_from *f,
                             const unsigned char *data, size_t size)
{
    while (size > 0) {
        uint32_t end = (f->ring_at + f->ring_used) % r->o.window_bytes;
        size_t n = (size_t)snic_min_u64(size, r->o.window_bytes - end);
        SNIC_ASSERT(f->ring_used + n <= r->o.window_bytes); /* L5 */
        memcpy(f->ring + end, data, n);
        f->ring_used += (uint32_t)n;
        data += n;
        size -= n;
    }
}

/* What waits in the ring is taken, as far as can be. 0; SNIC_EPROTO. */
static int replica_ring_take(struct snic_replica *r, struct replica_peer *p, uint32_t channel)
{
    struct replica_from *f = &p->from[channel];
    int64_t n = 0;
    do {
        uint32_t size = (uint32_t)snic_min_u64(f->ring_used, r->o.window_bytes - f->ring_at);
        const struct replica_conn *k = p->conn;
        n = replica_from_take(r, p, channel, f->ring + f->ring_at, size);
        if (n < 0 || r->state != SNIC_REPLICA_RUNNING || p->conn != k)
            return n < 0 ? SNIC_EPROTO : 0;
        f->ring_at = (f->ring_at + (uint32_t)n) % r->o.window_bytes;
        f->ring_used -= (uint32_t)n;
        f->taken += (uint64_t)n;
    } while (n > 0 && f->ring_used > 0);
    return 0;
}

static int replica_from_bytes(struct snic_replica *r, struct replica_peer *p, uint32_t channel,
                              const unsigned char *data, size_t size)
{
    struct replica_from *f = &p->from[channel];
    const struct replica_conn *k = p->conn;
    int64_t n = 0;
    if (size > f->granted - f->arrived)
        return SNIC_EPROTO; /* L5 */
    f->arrived += size;
    if (f->ring_used == 0 && f->blocked == REPLICA_FREE)
        n = replica_from_take(r, p, channel, data, size);
    if (n < 0)
        return SNIC_EPROTO;
    if (r->state != SNIC_REPLICA_RUNNING || p->conn != k)
        return 0;
    f->taken += (uint64_t)n;
    replica_ring_put(r, f, data + n, size - (size_t)n);
    return 0;
}

/* Something has happened here: channels that are blocked are tried again. */
void replica_link_retry(struct snic_replica *r)
{
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        struct replica_peer *p = &r->peers[n];
        for (uint32_t c = REPLICA_CH_WRITES; c < REPLICA_CHANNELS; c++) {
            if (r->state != SNIC_REPLICA_RUNNING || p->conn == NULL)
                break;
            if (p->from[c].blocked == REPLICA_FREE)
                continue;
            if (replica_ring_take(r, p, c) != 0) {
                r->refused++;
                replica_conn_abort(p->conn);
            } else if (r->state == SNIC_REPLICA_RUNNING && p->conn != NULL) {
                replica_link_owe(r, p);
            }
        }
    }
    if (r->blocked != 0 && r->state == SNIC_REPLICA_RUNNING)
        replica_link_wake(r, snic_loop_clock(r->o.loop) + REPLICA_RETRY_NS);
}

/* ---- Blocks ---- */

static int replica_link_part(struct snic_replica *r, struct replica_peer *p,
                             const struct replica_part *part)
{
    struct replica_credit c;
    struct snic_ddp_msg m;
    switch (part->kind) {
    case REPLICA_DDP:
        if (part->size != replica_ddp_size(p->conn->version) ||
            replica_get_ddp(part->data, p->conn->version, r->o.value_max, &m) != 0 ||
            m.src != replica_link_number(r, p) || replica_channel_of(&m) != REPLICA_CH_CONTROL)
            return SNIC_EPROTO;
        p->taken[REPLICA_CH_CONTROL]++;
        p->received++;
        replica_take_control(r, &m);
        return 0;
    case REPLICA_BYTES:
        return replica_from_bytes(r, p, part->channel, part->data, part->size);
    case REPLICA_CREDIT:
        if (replica_get_credit(part->data, part->size, &c) != 0)
            return SNIC_EPROTO;
        return replica_link_credit(r, p, &c);
    case REPLICA_PING:
        p->ping |= 2;
        r->to_pump |= (uint16_t)(1u << replica_link_number(r, p));
        return 0;
    case REPLICA_PONG:
        return 0;
    default:
        return SNIC_EPROTO;
    }
}

/* The records that a block's messages are about are fetched together: a hint, unchecked. */
static void replica_link_ahead(const struct snic_replica *r, const struct replica_conn *k,
                               const unsigned char *body, uint32_t size)
{
    struct snic_ddp_key keys[REPLICA_AHEAD];
    struct replica_part part;
    uint32_t n = 0;
    size_t at = 0;
    while (n < REPLICA_AHEAD && replica_get_part(body, size, &at, &part) == 1) {
        if (part.kind == REPLICA_DDP && part.size == replica_ddp_size(k->version))
            replica_get_key(part.data, &keys[n++]);
    }
    if (n > 1)
        snic_ddp_prefetch(r->ddp, keys, n);
}

/* An opened block's body. 0; SNIC_EPROTO: the connection is of no use any more. */
int replica_link_block(struct snic_replica *r, struct replica_peer *p, struct replica_conn *k,
                       const unsigned char *body, uint32_t size)
{
    struct replica_part part;
    size_t at = 0;
    int more;
    if (r->state == SNIC_REPLICA_RUNNING)
        replica_link_ahead(r, k, body, size);
    while ((more = replica_get_part(body, size, &at, &part)) == 1) {
        int result = replica_link_part(r, p, &part);
        if (r->state != SNIC_REPLICA_RUNNING || p->conn != k)
            return 0;
        if (result != 0)
            return result;
    }
    if (more == 0)
        replica_link_owe(r, p);
    return more;
}

#undef REPLICA_BLOCKED_MAX
#undef REPLICA_RETRY_NS
#undef REPLICA_AHEAD
