/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The frames that the target sends: acknowledgements, joined and never delayed; blocks that were
 * read, by pointer; HELLO_ACK and PROBE_ACK.
 */
#include "luna/target_priv.h"

/* Blocks that this client may have in flight, including those it has now. */
static uint8_t luna_answer_credit(const struct snic_luna_target *t, const struct luna_peer *n)
{
    uint32_t left = t->o.rx_blocks > t->s.writes_out ? t->o.rx_blocks - t->s.writes_out : 0;
    uint32_t share = n->writes_out + left / (t->busy > 1 ? t->busy : 1);
    return snic_ebs_credit_code(share < 1 ? 1 : share);
}

static void luna_answer_head(struct snic_luna_target *t, struct luna_peer *n,
                             struct snic_ebs_header *h, uint32_t type)
{
    memset(h, 0, sizeof(*h));
    h->type = (uint8_t)type;
    h->path_id = n->path_id;
    h->path_gen = n->path_gen;
    h->conn_id = n->client;
    h->path_seq = ++n->seq;
    h->pn = n->seq;
    h->tx_ts = (uint32_t)t->now_ns;
    h->srv_epoch = t->o.srv_epoch;
    h->pkt_cnt = 1;
    h->credit = luna_answer_credit(t, n);
    t->s.frames++;
}

/* An answer to @p f. */
static void luna_answer_to(struct snic_luna_target *t, struct luna_peer *n,
                           const struct luna_frame *f, struct snic_ebs_header *h)
{
    luna_answer_head(t, n, h, f->type);
    h->rpc_id = f->rpc_id;
    h->pkt_id = f->pkt_id;
    h->pkt_cnt = f->pkt_cnt;
    h->ack_seq = f->path_seq;
    h->echo_ts = f->tx_ts;
    h->hold_ns = (uint32_t)snic_min_u64(t->now_ns - f->rx_ns, UINT32_MAX);
    h->ack_path_id = n->path_id;
    h->ack_path_gen = n->path_gen;
    h->flags = f->flags & SNIC_EBS_XTS;
    h->status = f->status;
    h->u.block = f->b;
    if (f->type == SNIC_EBS_READ_RESP && f->b.op == SNIC_EBS_STATES)
        h->u.block.op = SNIC_EBS_DATA; /* only a READ_REQ has it */
    h->u.block.need_mask = 0;
    h->u.block.agg_crc = f->status == SNIC_EBS_BUSY ? f->retry_us : f->b.agg_crc;
    h->u.block.srv_crc = f->agg;
}

/* ---- The owner's answers ---- */

/* The frame of @p q; NULL: its connection has ended. */
static struct luna_frame *luna_answer_frame(struct snic_luna_target *t,
                                            const struct snic_ebs_request *q,
                                            struct luna_peer **peer)
{
    struct luna_peer *n = luna_peer_of(t, q->conn_id);
    if (n == NULL || q->from.frame.index >= t->o.frames_max ||
        n->frames[q->from.frame.index].serial != q->from.frame.serial ||
        n->frames[q->from.frame.index].left == 0)
        return NULL;
    *peer = n;
    return &n->frames[q->from.frame.index];
}

static void luna_answer_count(struct snic_luna_target *t, const struct snic_ebs_request *q)
{
    SNIC_ASSERT(t->s.requests > 0);
    t->s.requests--;
    if (q->op != SNIC_EBS_DO_WRITE)
        return;
    SNIC_ASSERT(t->s.writes_out > 0);
    t->s.writes_out--;
    struct luna_peer *n = luna_peer_of(t, q->conn_id);
    if (n != NULL)
        n->writes_out--;
    luna_target_room(t);
}

void snic_luna_target_answer(struct snic_luna_target *t, const struct snic_ebs_request *q,
                             uint32_t status, uint32_t crc, uint32_t retry_us, uint64_t now_ns)
{
    struct luna_peer *n = NULL;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    struct luna_frame *f = luna_answer_frame(t, q, &n);
    luna_answer_count(t, q);
    if (f == NULL)
        return;
    if (q->op == SNIC_EBS_DO_TOKEN)
        n->permitted |= status == SNIC_EBS_OK;
    int good = status == SNIC_EBS_OK || status == SNIC_EBS_SUPERSEDED;
    if (q->op == SNIC_EBS_DO_READ && good)
        status = SNIC_EBS_INVALID; /* only data complete a read */
    if (q->op == SNIC_EBS_DO_WRITE && good && q->kind == SNIC_EBS_DATA)
        f->agg ^= snic_ebs_agg_share(crc, (uint32_t)(f->b.blk_cnt - 1 - q->from.frame.first));
    if (f->status == SNIC_EBS_OK || (f->status == SNIC_EBS_SUPERSEDED && !good))
        f->status = (uint16_t)status;
    f->retry_us = (uint32_t)snic_max_u64(f->retry_us, retry_us);
    f->left--;
    luna_frame_settle(t, n, f);
}

/* ---- Sends ---- */

static struct luna_out *luna_answer_take(struct snic_luna_target *t, const struct luna_peer *n)
{
    return n->sends_out < t->sends_each ? luna_out_take(&t->pool) : NULL;
}

static void luna_answer_leave(struct snic_luna_target *t, struct luna_peer *n, struct luna_out *o)
{
    o->s.handle = n->handle;
    n->sends_out++;
    t->s.sends++;
    t->s.bytes += o->s.bytes;
    n->client_stats.bytes += o->s.bytes;
    luna_out_queue(&t->pool, o);
}

static void luna_answer_hello(struct snic_luna_target *t, struct luna_peer *n, struct luna_out *o)
{
    struct snic_ebs_header h;
    luna_answer_head(t, n, &h, SNIC_EBS_HELLO_ACK);
    h.u.hello.ver_min = SNIC_EBS_VERSION;
    h.u.hello.ver_max = SNIC_EBS_VERSION;
    h.u.hello.conn_id = n->conn_id;
    h.u.hello.features = SNIC_EBS_FEATURE_ZERO;
    h.u.hello.nonce = n->probe;
    h.u.hello.payload_max = SNIC_EBS_RPC_BLOCKS * (4 + SNIC_EBS_BLOCK_BYTES);
    h.u.hello.client_id = n->client_id;
    luna_out_frame(o, SNIC_LUNA__DOWN, &h, NULL);
    n->hello_pending = 0;
    t->s.hellos++;
}

static void luna_answer_probe(struct snic_luna_target *t, struct luna_peer *n, struct luna_out *o)
{
    struct snic_ebs_header h;
    luna_answer_head(t, n, &h, SNIC_EBS_PROBE_ACK);
    h.u.probe.probe_bytes = SNIC_EBS_HEADER_BYTES;
    h.u.probe.nonce = n->probe;
    luna_out_frame(o, SNIC_LUNA__DOWN, &h, NULL);
    n->probe_pending = 0;
}

static void luna_answer_bye(struct snic_luna_target *t, struct luna_peer *n, struct luna_out *o)
{
    struct snic_ebs_header h;
    luna_answer_head(t, n, &h, SNIC_EBS_RESET);
    h.status = n->bye;
    h.u.reset.ver_min = SNIC_EBS_VERSION;
    h.u.reset.ver_max = SNIC_EBS_VERSION;
    luna_out_frame(o, SNIC_LUNA__DOWN, &h, NULL);
    n->bye = 0;
    o->last = 1;
}

static void luna_answer_fill(struct snic_luna_target *t, struct luna_peer *n, struct luna_out *o)
{
    if (n->hello_pending)
        luna_answer_hello(t, n, o);
    if (n->probe_pending)
        luna_answer_probe(t, n, o);
    while (n->answers != SNIC_LUNA__NONE && o->s.frames < SNIC_LUNA_FRAMES_MAX) {
        struct luna_frame *f = &n->frames[n->answers];
        struct snic_ebs_header h;
        luna_answer_to(t, n, f, &h);
        luna_out_frame(o, SNIC_LUNA__DOWN, &h, NULL);
        o->held[o->s.frames - 1] = n->answers;
        n->answers = f->next;
        f->next = SNIC_LUNA__NONE;
        f->state = LUNA_FRAME_SENT;
        t->s.acks++;
    }
    if (n->bye != 0 && n->answers == SNIC_LUNA__NONE && o->s.frames < SNIC_LUNA_FRAMES_MAX)
        luna_answer_bye(t, n, o);
}

void luna_answer_work(struct snic_luna_target *t)
{
    struct snic_link *next;
    for (struct snic_link *l = t->work.next; l != &t->work; l = next) {
        struct luna_peer *n = SNIC_CONTAINER(l, struct luna_peer, work);
        next = l->next;
        while (n->hello_pending || n->probe_pending || n->bye != 0 ||
               n->answers != SNIC_LUNA__NONE) {
            struct luna_out *o = luna_answer_take(t, n);
            if (o == NULL)
                break; /* continued when one is returned */
            luna_answer_fill(t, n, o);
            luna_answer_leave(t, n, o);
        }
        if (!n->hello_pending && !n->probe_pending && n->bye == 0 && n->answers == SNIC_LUNA__NONE)
            snic_link_remove(l);
    }
}

/* ---- Data ---- */

static int luna_run_kind(const struct snic_ebs_read_block *b)
{
    if (b->status != SNIC_EBS_OK)
        return (int)b->status;
    return b->data != NULL ? 0 : -1;
}

/* 1: it was written with a key, and its tag must be sent with it. */
static int luna_run_keyed(const struct snic_ebs_read_block *b)
{
    return b->data != NULL && b->block_tag != 0;
}

/* Blocks from @p i on that make one frame. */
static uint32_t luna_run(const struct luna_frame *f, const struct snic_ebs_read_block *blocks,
                         uint32_t i, uint32_t count)
{
    uint32_t n = 1;
    int kind = luna_run_kind(&blocks[i]);
    if (kind == 0 && ((f->flags & SNIC_EBS_XTS) != 0 || luna_run_keyed(&blocks[i])))
        return 1; /* the tag is of one block */
    while (i + n < count && luna_run_kind(&blocks[i + n]) == kind &&
           (kind != 0 || !luna_run_keyed(&blocks[i + n])))
        n++;
    return n;
}

static void luna_run_put(struct snic_luna_target *t, struct luna_peer *n, struct luna_out *o,
                         const struct luna_frame *f, const struct snic_ebs_read_block *blocks,
                         uint32_t i, uint32_t count)
{
    struct snic_ebs_header h;
    struct snic_ebs_block *b = &h.u.block;
    uint32_t list[SNIC_EBS_READ_BLOCKS];
    unsigned char bytes[SNIC_EBS_READ_BLOCKS * 4];
    int kind = luna_run_kind(&blocks[i]);
    SNIC_ASSERT(count > 0 && count <= SNIC_EBS_READ_BLOCKS);
    luna_answer_to(t, n, f, &h);
    h.pkt_id = (uint16_t)(f->pkt_id + i);
    h.status = (uint16_t)(kind > 0 ? kind : 0);
    b->lba += i;
    b->blk_off = (uint16_t)(b->blk_off + i);
    b->blk_cnt = (uint16_t)count;
    b->op = (uint8_t)(kind < 0 ? SNIC_EBS_ZERO : SNIC_EBS_DATA);
    b->wver = 0;
    b->agg_crc = 0;
    b->srv_crc = 0;
    b->block_tag = count == 1 ? blocks[i].block_tag : 0;
    b->data_crc = SNIC_EBS_CRC_ZEROS;
    for (uint32_t k = 0; k < count; k++) {
        b->wver = snic_max_u64(b->wver, blocks[i + k].wver);
        list[k] = blocks[i + k].data_crc;
        snic_put_be32(bytes + (size_t)4 * k, list[k]);
        if (kind == 0)
            b->agg_crc = snic_ebs_agg_add(b->agg_crc, list[k]);
    }
    if (kind == 0)
        b->data_crc = snic_crc32c(0, bytes, (size_t)4 * count);
    b->bind_crc = snic_ebs_bind_crc(b);
    luna_out_frame(o, SNIC_LUNA__DOWN, &h, kind == 0 ? list : NULL);
    for (uint32_t k = 0; k < count && kind == 0; k++)
        luna_out_bytes(o, blocks[i + k].data, SNIC_EBS_BLOCK_BYTES);
}

int snic_luna_target_read_done(struct snic_luna_target *t, const struct snic_ebs_request *q,
                               const struct snic_ebs_read_block *blocks, uint64_t cookie,
                               uint64_t now_ns)
{
    struct luna_peer *n = NULL;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    SNIC_ASSERT(q->op == SNIC_EBS_DO_READ && cookie != 0);
    struct luna_frame *f = luna_answer_frame(t, q, &n);
    if (f == NULL) {
        luna_answer_count(t, q);
        return 0;
    }
    struct luna_out *o = luna_answer_take(t, n);
    if (o == NULL)
        return SNIC_EAGAIN;
    luna_answer_count(t, q);
    uint32_t count = f->b.blk_cnt, run;
    for (uint32_t i = 0; i < count; i += run) {
        run = luna_run(f, blocks, i, count);
        luna_run_put(t, n, o, f, blocks, i, run);
    }
    o->held[0] = q->from.frame.index;
    o->s.cookie = cookie;
    f->left = 0;
    f->state = LUNA_FRAME_SENT;
    luna_answer_leave(t, n, o);
    return 1;
}
