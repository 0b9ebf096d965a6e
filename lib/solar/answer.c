/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The packets that a block server sends: acknowledgements, collected and never delayed; blocks that
 * were read, in trains that point at them; single packets.
 */
#include "solar/target_priv.h"

uint8_t solar_target_credit(const struct snic_solar_target *t)
{
    uint32_t left = t->o.rx_blocks > t->s.writes_out ? t->o.rx_blocks - t->s.writes_out : 0;
    uint32_t clients = t->active > t->active_now ? t->active : t->active_now;
    uint64_t share = left / (clients > 1 ? clients : 1);
    return snic_ebs_credit_code(
        (uint32_t)snic_min_u64(snic_max_u64(share, 1), SNIC_EBS_RPC_BLOCKS));
}

static void solar_target_leave(struct snic_solar_target *t, struct solar_train *r,
                               const struct snic_ebs_peer *peer)
{
    r->t.peer = *peer;
    t->s.trains++;
    t->s.packets += r->t.packets;
    solar_train_queue(&t->pool, r);
}

static struct solar_session *solar_target_session(struct snic_solar_target *t, struct solar_conn *n)
{
    return n != NULL && solar_target_auth(t) ? &n->session : NULL;
}

int solar_target_single(struct snic_solar_target *t, struct solar_conn *n, void *secret,
                        const struct snic_ebs_peer *peer, struct snic_ebs_header *h,
                        uint32_t padding, const void *telemetry)
{
    struct solar_train *r = solar_train_take(&t->pool);
    if (r == NULL)
        return 0;
    r->ack_size = 0;
    if (solar_wire_add(&t->wire, solar_target_session(t, n), secret, r, SNIC_EBS_TO_CLIENT, h,
                       solar_zeros, padding, 0) != 0) {
        solar_train_free(&t->pool, r);
        return 0;
    }
    if (telemetry != NULL) /* outside of all checksums and seals */
        memcpy(r->head[0] + SNIC_EBS_HEADER_BYTES, telemetry, SNIC_EBS_INT_BYTES);
    solar_target_leave(t, r, peer);
    return 1;
}

/* The fields of an answer to @p q. */
static void solar_answer_head(struct snic_solar_target *t, struct solar_conn *n,
                              const struct snic_ebs_request *q, struct snic_ebs_header *h,
                              uint32_t type)
{
    memset(h, 0, sizeof(*h));
    h->type = (uint8_t)type;
    h->path_id = q->from.packet.path;
    h->path_gen = q->from.packet.gen;
    h->ack_path_id = q->from.packet.path;
    h->ack_path_gen = q->from.packet.gen;
    h->ack_seq = q->from.packet.path_seq;
    h->echo_ts = q->from.packet.tx_ts;
    h->hold_ns = (uint32_t)snic_min_u64(t->now_ns - q->from.packet.rx_ns, UINT32_MAX);
    h->tx_ts = (uint32_t)t->now_ns;
    h->srv_epoch = t->o.srv_epoch;
    h->conn_id = n->client;
    h->rpc_id = q->from.packet.rpc_id;
    h->pkt_id = q->from.packet.pkt_id;
    h->pkt_cnt = q->from.packet.pkt_cnt;
    h->credit = solar_target_credit(t);
    h->path_seq = ++n->path[q->from.packet.path].seq;
    h->pn = solar_conn_number(n, q->from.packet.path);
    h->flags = q->from.packet.flags & SNIC_EBS_CE_ECHO;
}

static void solar_answer_block(const struct snic_ebs_request *q, struct snic_ebs_block *b)
{
    b->vd_id = q->vd_id;
    b->seg_id = q->seg_id;
    b->lba = q->lba;
    b->wver = q->wver;
    b->seg_gen = q->seg_gen;
    b->data_crc = q->data_crc;
    b->blk_off = q->block;
    b->blk_cnt = q->count;
    b->op = q->kind;
    b->tenant = q->tenant;
}

/* ---- Acknowledgements ---- */

/* The train that collects acknowledgements of this path; a full one stays in poll's queue. */
static struct solar_train *solar_answer_train(struct snic_solar_target *t, struct solar_conn *n,
                                              const struct snic_ebs_request *q)
{
    struct solar_conn_path *p = &n->path[q->from.packet.path];
    struct solar_train *r = p->train == SNIC_SOLAR__NIL ? NULL : &t->pool.trains[p->train];
    if (r != NULL && r->acks < SNIC_EBS_ACKS && r->h.path_gen == q->from.packet.gen &&
        memcmp(&r->t.peer, &q->from.packet.peer, sizeof(q->from.packet.peer)) == 0)
        return r;
    r = solar_train_take(&t->pool);
    if (r == NULL)
        return NULL;
    solar_answer_head(t, n, q, &r->h, SNIC_EBS_ACKV);
    r->h.pkt_id = 0;
    r->h.flags = 0;
    r->ack_size = SNIC_EBS_RPC_BYTES;
    r->conn = q->conn_id & (t->o.conns_max - 1);
    p->train = r->t.index;
    solar_target_leave(t, r, &q->from.packet.peer);
    return r;
}

static void solar_answer_ack(struct snic_solar_target *t, struct solar_conn *n,
                             const struct snic_ebs_request *q, uint32_t status, uint32_t srv_crc)
{
    struct solar_train *r = solar_answer_train(t, n, q);
    struct snic_ebs_ack a = {.rpc_id = q->from.packet.rpc_id, .pkt_id = q->from.packet.pkt_id};
    if (r == NULL) {
        t->s.acks_lost++;
        return;
    }
    a.status = (uint16_t)status;
    a.path_seq = q->from.packet.path_seq;
    a.echo_ts = q->from.packet.tx_ts;
    a.hold_ns = (uint32_t)snic_min_u64(t->now_ns - q->from.packet.rx_ns, UINT32_MAX);
    a.srv_crc = srv_crc;
    a.path_id = q->from.packet.path;
    a.path_gen = q->from.packet.gen;
    a.flags = q->from.packet.flags & SNIC_EBS_CE_ECHO;
    snic_ebs_ack_put(r->head[0] + SNIC_EBS_RPC_BYTES, r->acks, &a);
    r->acks++;
    r->acked_ns = t->now_ns;
    r->ack_size += SNIC_EBS_ACK_BYTES;
    t->s.acks++;
}

/* The time that they waited here is no delay of the fabric. */
static void solar_answer_waited(const struct snic_solar_target *t, struct solar_train *r)
{
    uint64_t waited = t->now_ns - r->acked_ns;
    struct snic_ebs_ack a;
    for (uint32_t i = 0; i < r->acks && waited != 0; i++) {
        snic_ebs_ack_get(&a, r->head[0] + SNIC_EBS_RPC_BYTES, i);
        a.hold_ns = (uint32_t)snic_min_u64(a.hold_ns + waited, UINT32_MAX);
        snic_ebs_ack_put(r->head[0] + SNIC_EBS_RPC_BYTES, i, &a);
    }
}

static void solar_answer_close(struct snic_solar_target *t, struct solar_train *r)
{
    struct solar_conn *n = &t->conns[r->conn];
    solar_answer_waited(t, r);
    r->h.pkt_cnt = (uint16_t)r->acks;
    int sealed = n->used && n->client == r->h.conn_id; /* else another connection has the slot */
    r->h.pn = sealed ? solar_conn_number(n, r->h.path_id) : 0;
    if (!solar_target_auth(t) || sealed)
        (void)solar_wire_add(&t->wire, solar_target_session(t, n), NULL, r, SNIC_EBS_TO_CLIENT,
                             &r->h, r->head[0] + SNIC_EBS_RPC_BYTES, r->acks * SNIC_EBS_ACK_BYTES,
                             1);
    r->ack_size = 0;
    for (uint32_t i = 0; i < SNIC_SOLAR_PATHS_MAX; i++)
        if (n->path[i].train == r->t.index)
            n->path[i].train = SNIC_SOLAR__NIL;
    t->s.ack_packets++;
    t->s.packets++;
}

/* With INT each packet has its own answer, for the block of hops is its own. */
static void solar_answer_single(struct snic_solar_target *t, struct solar_conn *n,
                                const struct snic_ebs_request *q, uint32_t type, uint32_t status,
                                uint32_t srv_crc, uint32_t retry_us)
{
    struct snic_ebs_header h;
    const void *telemetry = NULL;
    solar_answer_head(t, n, q, &h, type);
    h.status = (uint16_t)status;
    if (type == SNIC_EBS_NAK) {
        h.u.nak.retry_us = retry_us;
        t->s.naks += status != SNIC_EBS_OK;
    } else {
        solar_answer_block(q, &h.u.block);
        h.u.block.bind_crc = q->bind_crc;
        h.u.block.srv_crc = srv_crc;
        if (type == SNIC_EBS_WACK) {
            h.flags |= SNIC_EBS_INT;
            telemetry = q->from.packet.telemetry;
            t->s.acks++;
        }
    }
    if (!solar_target_single(t, n, NULL, &q->from.packet.peer, &h, 0, telemetry))
        t->s.acks_lost++;
}

static struct solar_conn *solar_answer_conn(struct snic_solar_target *t,
                                            const struct snic_ebs_request *q, uint64_t now_ns)
{
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    return solar_conn_find(t, q->conn_id);
}

static void solar_answer_count(struct snic_solar_target *t, const struct snic_ebs_request *q)
{
    SNIC_ASSERT(t->s.requests > 0);
    t->s.requests--;
    if (q->op == SNIC_EBS_DO_WRITE)
        t->s.writes_out--;
}

void snic_solar_target_answer(struct snic_solar_target *t, const struct snic_ebs_request *q,
                              uint32_t status, uint32_t crc, uint32_t retry_us, uint64_t now_ns)
{
    struct solar_conn *n = solar_answer_conn(t, q, now_ns);
    uint32_t srv_crc = q->bind_crc;
    solar_answer_count(t, q);
    if (n == NULL)
        return;
    if (q->op != SNIC_EBS_DO_TOKEN)
        solar_conn_answers(n, q);
    n->client_stats.requests--;
    n->client_stats.refused += status != SNIC_EBS_OK && status != SNIC_EBS_SUPERSEDED;
    if (q->op == SNIC_EBS_DO_WRITE && q->data != NULL && crc != q->data_crc) {
        struct snic_ebs_block b;
        memset(&b, 0, sizeof(b));
        solar_answer_block(q, &b);
        b.data_crc = crc;
        srv_crc = snic_ebs_bind_crc(&b);
    }
    if (q->op == SNIC_EBS_DO_FENCE)
        solar_answer_single(t, n, q, SNIC_EBS_FENCE_ACK, status, 0, 0);
    else if (status == SNIC_EBS_BUSY || q->op == SNIC_EBS_DO_TOKEN)
        solar_answer_single(t, n, q, SNIC_EBS_NAK, status, 0, retry_us);
    else if (q->op == SNIC_EBS_DO_WRITE && (q->from.packet.flags & SNIC_EBS_INT_REQ) != 0)
        solar_answer_single(t, n, q, SNIC_EBS_WACK, status, srv_crc, 0);
    else
        solar_answer_ack(t, n, q, status, srv_crc);
}

/* ---- Data ---- */

/* Bytes of a packet beside its block. */
static uint32_t solar_resp_around(const struct snic_solar_target *t,
                                  const struct snic_ebs_request *q)
{
    return SNIC_EBS_HEADER_BYTES +
           ((q->from.packet.flags & SNIC_EBS_INT_REQ) != 0 ? (uint32_t)SNIC_EBS_INT_BYTES : 0u) +
           (solar_target_auth(t) ? (uint32_t)SNIC_EBS_TAG_BYTES : 0u);
}

static uint32_t solar_resp_body(const struct snic_ebs_read_block *b)
{
    return b->status == SNIC_EBS_OK && b->data != NULL ? SNIC_EBS_BLOCK_BYTES : 0;
}

/* Trains that these blocks make: a shorter packet ends one. */
static uint32_t solar_resp_trains(const struct snic_ebs_read_block *blocks, uint32_t count)
{
    uint32_t trains = 0, in_it = 0, segment = 0, last = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = 1 + solar_resp_body(&blocks[i]);
        if (in_it == 0 || in_it == SNIC_SOLAR_TRAIN_MAX || size > segment || last < segment) {
            trains++;
            in_it = 0;
            segment = size;
        }
        in_it++;
        last = size;
    }
    return trains;
}

/* @return 0, or the cipher's error: it is not in the train */
static int solar_resp_put(struct snic_solar_target *t, struct solar_conn *n, struct solar_train *r,
                          const struct snic_ebs_request *q, const struct snic_ebs_read_block *block,
                          uint32_t i, uint32_t slot)
{
    struct snic_ebs_header h;
    struct snic_ebs_block *b = &h.u.block;
    uint32_t body = solar_resp_body(block);
    solar_answer_head(t, n, q, &h, SNIC_EBS_READ_RESP);
    h.flags |= q->from.packet.flags & SNIC_EBS_INT_REQ;
    h.pkt_id = (uint16_t)i;
    h.status = (uint16_t)block->status;
    solar_answer_block(q, b);
    b->lba += i;
    b->blk_off = (uint16_t)(b->blk_off + i);
    b->blk_cnt = 1;
    b->wver = block->wver;
    b->op = body != 0 ? SNIC_EBS_DATA : SNIC_EBS_ZERO;
    b->data_crc = body != 0 ? block->data_crc : SNIC_EBS_CRC_ZEROS;
    b->block_tag = block->block_tag;
    b->addr_slot = q->from.packet.slots[2 * slot];
    b->addr_gen = q->from.packet.slots[2 * slot + 1];
    b->bind_crc = snic_ebs_bind_crc(b);
    return solar_wire_add(&t->wire, solar_target_session(t, n), NULL, r, SNIC_EBS_TO_CLIENT, &h,
                          block->data, body, 0);
}

int snic_solar_target_read_done(struct snic_solar_target *t, const struct snic_ebs_request *q,
                                const struct snic_ebs_read_block *blocks, uint64_t cookie,
                                uint64_t now_ns)
{
    struct solar_conn *n = solar_answer_conn(t, q, now_ns);
    uint32_t count = ebs_ones(q->need), trains = solar_resp_trains(blocks, count), slot = 0;
    struct solar_train *r = NULL;
    int leave = 1;
    if (n == NULL) {
        solar_answer_count(t, q);
        return 0;
    }
    if (trains > t->pool.p.free_count) /* temporary: the pool has at least READ_TRAINS */
        return SNIC_EAGAIN;
    solar_answer_count(t, q);
    solar_conn_answers(n, q);
    n->client_stats.requests--;
    for (uint64_t left = q->need; left != 0; left &= left - 1, slot++) {
        uint32_t size = solar_resp_around(t, q) + solar_resp_body(&blocks[slot]);
        if (r != NULL && r->t.packets > 0 &&
            (r->t.packets == SNIC_SOLAR_TRAIN_MAX || size > r->t.segment ||
             r->t.bytes != r->t.packets * r->t.segment)) {
            solar_target_leave(t, r, &q->from.packet.peer);
            leave++;
            r = NULL;
        }
        if (r == NULL) {
            r = solar_train_take(&t->pool);
            r->ack_size = 0;
            r->t.cookie = cookie;
        }
        (void)solar_resp_put(t, n, r, q, &blocks[slot], ebs_lowest(left), slot);
    }
    solar_target_leave(t, r, &q->from.packet.peer);
    SNIC_ASSERT((uint32_t)leave <= trains); /* fewer where blocks could not be sealed */
    return leave;
}

/* ---- Trains ---- */

uint32_t snic_solar_target_poll(struct snic_solar_target *t, struct snic_solar_train **out,
                                uint32_t max, uint64_t now_ns)
{
    uint32_t n = 0;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    while (n < max) {
        struct solar_train *r = solar_train_next(&t->pool);
        if (r == NULL)
            break;
        if (r->ack_size != 0)
            solar_answer_close(t, r);
        if (r->t.packets == 0 && r->t.cookie == 0) /* it could not be sealed */
            solar_train_free(&t->pool, r);
        else
            out[n++] = &r->t;
    }
    return n;
}

void snic_solar_target_sent(struct snic_solar_target *t, struct snic_solar_train *train)
{
    struct solar_train *r = SNIC_CONTAINER(train, struct solar_train, t);
    SNIC_ASSERT(train->index < t->pool.p.max && &t->pool.trains[train->index] == r);
    solar_train_free(&t->pool, r);
}
