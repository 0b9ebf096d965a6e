/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent's output: the choice of RPCs and connections, and the frames.
 *
 * A send takes all RPCs that wait for its server, as far as it has space, because most I/Os are a
 * block or two. Retransmissions go first; writes of data, and all else, which is small, alternate.
 */
#include "luna/luna_priv.h"

#define SNIC_LUNA__TOGETHER 32 /* blocks in flight on a connection before another is chosen */
#define SNIC_LUNA__LOOK 32     /* RPCs scanned for those that may use this connection */
#define SNIC_LUNA__FENCE_MAX_NS (100 * SNIC_LUNA__MS)

static uint32_t luna_crc(const struct snic_luna *c, const void *data)
{
    return c->o.crc != NULL ? c->o.crc(c->o.crc_ctx, data, SNIC_EBS_BLOCK_BYTES)
                            : snic_crc32c(0, data, SNIC_EBS_BLOCK_BYTES);
}

static void luna_head(struct snic_luna *c, struct luna_conn *n, struct snic_ebs_header *h,
                      uint32_t type)
{
    memset(h, 0, sizeof(*h));
    h->type = (uint8_t)type;
    h->path_id = n->index;
    h->path_gen = (uint8_t)n->gen;
    h->conn_id = n->conn_id;
    h->path_seq = ++n->seq;
    h->pn = n->seq;
    h->tx_ts = (uint32_t)c->q.now_ns;
    h->srv_epoch = n->srv_epoch;
    h->pkt_cnt = 1;
    c->s.frames++;
    n->frames_out++;
}

static void luna_leave(struct snic_luna *c, struct luna_conn *n, struct luna_out *o)
{
    o->s.server = n->server;
    o->s.conn = n->index;
    o->s.gen = n->gen;
    c->s.sends++;
    c->s.bytes += o->s.bytes;
    n->bytes_out += o->s.bytes;
    luna_out_queue(&c->pool, o);
    luna_conn_watch(c, n);
    if (!snic_link_alone(&c->q.turns))
        c->q.dirty = 1; /* waiting I/Os may be admitted */
}

/* ---- The I/O's buffer ---- */

struct luna_walk {
    const struct snic_iov *iov;
    uint32_t block; /* in it */
};

static void luna_walk_to(struct luna_walk *w, const struct luna_rpc *r, uint32_t pkt)
{
    w->iov = r->q.io->iov + r->q.piece;
    w->block = r->q.piece_block + pkt;
    while (w->block >= w->iov->size / SNIC_EBS_BLOCK_BYTES) {
        w->block -= (uint32_t)(w->iov->size / SNIC_EBS_BLOCK_BYTES);
        w->iov++;
    }
}

/* How many of @p count blocks from @p pkt on are in at most @p pieces pieces. */
static uint32_t luna_walk_span(const struct luna_rpc *r, uint32_t pkt, uint32_t count,
                               uint32_t pieces)
{
    struct luna_walk w;
    uint32_t span = 0;
    luna_walk_to(&w, r, pkt);
    while (span < count && pieces-- > 0) {
        span += (uint32_t)(w.iov->size / SNIC_EBS_BLOCK_BYTES) - w.block;
        w.block = 0;
        w.iov++;
    }
    return span < count ? span : count;
}

static const unsigned char *luna_walk_next(struct luna_walk *w)
{
    const unsigned char *p =
        (const unsigned char *)w->iov->base + (size_t)w->block * SNIC_EBS_BLOCK_BYTES;
    if (++w->block == w->iov->size / SNIC_EBS_BLOCK_BYTES) {
        w->iov++;
        w->block = 0;
    }
    return p;
}

/* ---- Frames ---- */

static void luna_block_part(const struct snic_luna *c, const struct luna_rpc *r, uint32_t pkt,
                            uint32_t count, struct snic_ebs_block *b)
{
    b->vd_id = c->q.disks[r->q.disk].vd_id;
    b->seg_id = r->q.seg_id;
    b->lba = r->q.lba + pkt;
    b->wver = r->q.wver;
    b->seg_gen = r->q.seg_gen;
    b->blk_off = (uint16_t)((r->q.lba + pkt) % SNIC_EBS_SEGMENT_BLOCKS);
    b->blk_cnt = (uint16_t)count;
    b->tenant = (uint16_t)r->q.disk;
}

static void luna_rpc_head(struct snic_luna *c, struct luna_conn *n, const struct luna_rpc *r,
                          struct snic_ebs_header *h, uint32_t pkt, uint32_t count)
{
    uint32_t type = r->q.op == SNIC_EBS_IO_READ ? SNIC_EBS_READ_REQ : SNIC_EBS_WRITE;
    luna_head(c, n, h, type);
    h->flags = (uint16_t)((c->q.disks[r->q.disk].xts_key != NULL ? SNIC_EBS_XTS : 0) |
                          (r->tries > 0 ? SNIC_EBS_RETX : 0) |
                          (pkt + count == r->q.count ? SNIC_EBS_LAST_PKT : 0));
    h->attempt = r->tries;
    h->rpc_id = r->q.id;
    h->pkt_id = (uint16_t)pkt;
    h->pkt_cnt = r->q.count;
    luna_block_part(c, r, pkt, count, &h->u.block);
}

/* @return blocks of the frame; 0: the send has no space for it */
static uint32_t luna_put_data(struct snic_luna *c, struct luna_conn *n, struct luna_out *o,
                              struct luna_rpc *r, uint32_t pkt, uint32_t count)
{
    struct snic_ebs_header h;
    struct snic_ebs_block *b = &h.u.block;
    struct luna_walk w;
    uint32_t agg = 0;
    if (o->s.iov_count + 2 > SNIC_LUNA_IOV_MAX)
        return 0;
    count = (uint32_t)snic_min_u64(count, SNIC_LUNA__BLOCKS - o->blocks);
    count = luna_walk_span(r, pkt, count, SNIC_LUNA_IOV_MAX - 1 - o->s.iov_count);
    if (count == 0)
        return 0;
    luna_walk_to(&w, r, pkt);
    for (uint32_t i = 0; i < count; i++) {
        const void *data = luna_walk_next(&w);
        if ((r->summed >> (pkt + i) & 1) == 0)
            r->crc[pkt + i] = luna_crc(c, data);
        agg = snic_ebs_agg_add(agg, r->crc[pkt + i]);
    }
    r->summed |= ebs_mask(count) << pkt;
    luna_rpc_head(c, n, r, &h, pkt, count);
    b->agg_crc = agg;
    unsigned char list[SNIC_LUNA__LIST];
    for (uint32_t i = 0; i < count; i++)
        snic_put_be32(list + (size_t)4 * i, r->crc[pkt + i]);
    b->data_crc = snic_crc32c(0, list, (size_t)4 * count);
    b->bind_crc = snic_ebs_bind_crc(b);
    luna_out_frame(o, SNIC_LUNA__UP, &h, &r->crc[pkt]);
    luna_walk_to(&w, r, pkt);
    for (uint32_t i = 0; i < count; i++)
        luna_out_bytes(o, luna_walk_next(&w), SNIC_EBS_BLOCK_BYTES);
    return count;
}

/* One block, encrypted. @return 1; 0: no space, or the cipher failed */
static uint32_t luna_put_cipher(struct snic_luna *c, struct luna_conn *n, struct luna_out *o,
                                struct luna_rpc *r, uint32_t pkt)
{
    struct snic_ebs_header h;
    struct snic_ebs_block *b = &h.u.block;
    struct luna_walk w;
    unsigned char list[4];
    if (o->ciphers == SNIC_LUNA__CIPHERS || o->s.iov_count + 2 > SNIC_LUNA_IOV_MAX ||
        o->blocks == SNIC_LUNA__BLOCKS)
        return 0;
    unsigned char *out = o->cipher + (size_t)o->ciphers * SNIC_EBS_BLOCK_BYTES;
    luna_walk_to(&w, r, pkt);
    const void *plain = luna_walk_next(&w);
    if (snic_ebs_xts_encrypt(c->o.sec, c->q.disks[r->q.disk].xts_key, r->q.lba + pkt, out, plain) !=
        0)
        return 0;
    o->ciphers++;
    if ((r->summed >> pkt & 1) == 0) {
        r->block_tag[pkt] = snic_ebs_tag(&c->q.disks[r->q.disk].tag, r->q.lba + pkt, plain);
        r->crc[pkt] = luna_crc(c, out);
    }
    r->summed |= ebs_bit(pkt);
    luna_rpc_head(c, n, r, &h, pkt, 1);
    b->block_tag = r->block_tag[pkt];
    b->agg_crc = r->crc[pkt];
    snic_put_be32(list, r->crc[pkt]);
    b->data_crc = snic_crc32c(0, list, sizeof(list));
    b->bind_crc = snic_ebs_bind_crc(b);
    luna_out_frame(o, SNIC_LUNA__UP, &h, &r->crc[pkt]);
    luna_out_bytes(o, out, SNIC_EBS_BLOCK_BYTES);
    return 1;
}

/* READ_REQ, and WRITE of zeros. */
static uint32_t luna_put_small(struct snic_luna *c, struct luna_conn *n, struct luna_out *o,
                               struct luna_rpc *r, uint32_t pkt, uint32_t count)
{
    struct snic_ebs_header h;
    struct snic_ebs_block *b = &h.u.block;
    if (o->s.iov_count + 1 > SNIC_LUNA_IOV_MAX)
        return 0;
    luna_rpc_head(c, n, r, &h, pkt, count);
    if (r->q.op != SNIC_EBS_IO_READ) {
        b->op = (uint8_t)(r->q.op - SNIC_EBS_IO_WRITE);
        b->data_crc = SNIC_EBS_CRC_ZEROS;
    }
    if (ebs_rpc_is_states(&r->q))
        b->op = SNIC_EBS_STATES;
    b->bind_crc = snic_ebs_bind_crc(b);
    luna_out_frame(o, SNIC_LUNA__UP, &h, NULL);
    return count;
}

/* Put a run of @p r's blocks of need into the send. @return their number; 0: no space, or the
   cipher failed */
static uint32_t luna_put(struct snic_luna *c, struct luna_conn *n, struct luna_out *o,
                         struct luna_rpc *r)
{
    uint32_t pkt = ebs_lowest(r->need), done;
    uint64_t run = ~(r->need >> pkt);
    uint32_t count = run == 0 ? 64 : ebs_lowest(run);
    uint32_t frame = o->s.frames;
    if (frame == SNIC_LUNA_FRAMES_MAX || o->head_used + SNIC_EBS_HEADER_BYTES > sizeof(o->head))
        return 0;
    luna_conn_expect(c, n);
    if (r->q.op != SNIC_EBS_IO_WRITE)
        done = luna_put_small(c, n, o, r, pkt, count);
    else if (c->q.disks[r->q.disk].xts_key != NULL)
        done = luna_put_cipher(c, n, o, r, pkt);
    else
        done = luna_put_data(c, n, o, r, pkt, count);
    if (done == 0)
        return 0;
    if (r->q.op == SNIC_EBS_IO_WRITE) {
        o->rpc[frame] = r;
        r->q.refs++;
    }
    luna_rpc_sent(c, r, n, ebs_mask(done) << pkt);
    return done;
}

/* ---- A send ---- */

static int luna_may_go(const struct snic_luna *c, const struct luna_conn *n,
                       const struct luna_rpc *r)
{
    if (r->out != 0 && r->conn != n->index)
        return 0;
    if (n->outside >= c->o.window_blocks)
        return 0;
    return r->q.op == SNIC_EBS_IO_READ || n->write_out == 0 || n->write_out < n->credit;
}

static void luna_fill(struct snic_luna *c, struct luna_conn *n, struct luna_out *o,
                      struct snic_link *list)
{
    uint32_t looked = 0;
    struct snic_link *next;
    for (struct snic_link *l = list->next; l != list && looked < SNIC_LUNA__LOOK; l = next) {
        struct luna_rpc *r = SNIC_CONTAINER(l, struct luna_rpc, q.link);
        next = l->next;
        looked++;
        while (r->need != 0 && luna_may_go(c, n, r))
            if (luna_put(c, n, o, r) == 0)
                return;
    }
}

/* @return 1 a send was queued on @p n; 0 no block may use it; SNIC_EAGAIN no send is free */
static int luna_build(struct snic_luna *c, struct luna_server *s, struct luna_conn *n)
{
    struct luna_out *o = luna_out_take(&c->pool);
    if (o == NULL) {
        c->s.send_waits++;
        return SNIC_EAGAIN;
    }
    luna_fill(c, n, o, &s->again);
    luna_fill(c, n, o, &s->ready[s->flip]);
    luna_fill(c, n, o, &s->ready[!s->flip]);
    s->flip = !s->flip;
    if (o->s.frames == 0) {
        luna_out_free(&c->pool, o);
        return 0;
    }
    luna_leave(c, n, o);
    return 1;
}

/* ---- Frames of the connection ---- */

static void luna_send_hello(struct snic_luna *c, struct luna_conn *n)
{
    struct snic_ebs_header h;
    struct luna_out *o = luna_out_take(&c->pool);
    if (o == NULL)
        return;
    luna_head(c, n, &h, SNIC_EBS_HELLO);
    h.u.hello.ver_min = SNIC_EBS_VERSION;
    h.u.hello.ver_max = SNIC_EBS_VERSION;
    h.u.hello.conn_id = n->mine;
    h.u.hello.features = SNIC_EBS_FEATURE_ZERO;
    h.u.hello.nonce = n->nonce;
    h.u.hello.epoch = c->o.client_epoch;
    h.u.hello.payload_max = SNIC_EBS_RPC_BLOCKS * (4 + SNIC_EBS_BLOCK_BYTES);
    h.u.hello.client_id = c->client_id;
    luna_out_frame(o, SNIC_LUNA__UP, &h, NULL);
    n->hello_due = 0;
    luna_leave(c, n, o);
}

static void luna_send_probe(struct snic_luna *c, struct luna_conn *n)
{
    struct snic_ebs_header h;
    struct luna_out *o = luna_out_take(&c->pool);
    if (o == NULL)
        return;
    luna_conn_expect(c, n);
    n->probed = snic_rng_next(&c->q.rng);
    luna_head(c, n, &h, SNIC_EBS_PROBE);
    h.u.probe.probe_bytes = SNIC_EBS_HEADER_BYTES;
    h.u.probe.nonce = n->probed;
    luna_out_frame(o, SNIC_LUNA__UP, &h, NULL);
    n->probe_due = 0;
    n->probe_out = 1;
    c->s.probes++;
    luna_leave(c, n, o);
}

static void luna_put_token(struct snic_luna *c, struct luna_conn *n, struct luna_out *o,
                           const struct ebs_disk *d)
{
    struct snic_ebs_header h;
    luna_head(c, n, &h, SNIC_EBS_TOKEN);
    h.rpc_id = ebs_disk_token_id(d);
    memcpy(h.u.token, d->token, sizeof(h.u.token));
    luna_out_frame(o, SNIC_LUNA__UP, &h, NULL);
    c->s.tokens++;
}

/* They precede the requests that need them in the stream. */
static void luna_send_tokens(struct snic_luna *c, struct luna_conn *n)
{
    while (n->token_next < n->token_end) {
        struct luna_out *o = luna_out_take(&c->pool);
        if (o == NULL)
            return;
        for (; n->token_next < n->token_end && o->s.frames < SNIC_LUNA_FRAMES_MAX &&
               o->head_used + SNIC_EBS_HEADER_BYTES <= sizeof(o->head);
             n->token_next++) {
            const struct ebs_disk *d = &c->q.disks[n->token_next];
            if (d->used && ebs_disk_has_token(d))
                luna_put_token(c, n, o, d);
        }
        if (o->s.frames != 0)
            luna_leave(c, n, o);
        else
            luna_out_free(&c->pool, o);
    }
}

static struct luna_conn *luna_best(const struct snic_luna *c, const struct luna_server *s,
                                   uint32_t tried)
{
    struct luna_conn *best = NULL;
    for (uint32_t i = 0; i < c->o.conns; i++) {
        struct luna_conn *n = &s->conns[i];
        if (n->state == SNIC_LUNA_UP && (tried >> i & 1) == 0 &&
            (best == NULL || n->outside < best->outside) && !luna_conn_doubtful(c, n))
            best = n;
    }
    return best;
}

/* Request to refuse its version, and all lower ones, in its segment. */
static int luna_send_fence(struct snic_luna *c, struct luna_rpc *r)
{
    struct snic_ebs_header h;
    struct luna_conn *n = luna_best(c, &c->servers[r->q.server], 0);
    struct luna_out *o = n == NULL ? NULL : luna_out_take(&c->pool);
    if (o == NULL)
        return SNIC_EAGAIN;
    luna_conn_expect(c, n);
    luna_head(c, n, &h, SNIC_EBS_FENCE);
    h.rpc_id = r->q.id;
    luna_block_part(c, r, 0, 0, &h.u.block);
    h.u.block.wver = r->q.wver + 1;
    h.u.block.bind_crc = snic_ebs_bind_crc(&h.u.block);
    luna_out_frame(o, SNIC_LUNA__UP, &h, NULL);
    n->fence_out = 1;
    luna_leave(c, n, o);
    return 0;
}

void luna_rpc_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct luna_rpc *r = SNIC_CONTAINER(t, struct luna_rpc, q.timer);
    struct snic_luna *c = r->c;
    (void)now_ns;
    if (r->q.where == EBS_RPC_FENCING) {
        if (ebs_rpc_fence_retry(&c->q, &r->q, SNIC_LUNA__FENCE_MAX_NS) > 0)
            (void)luna_send_fence(c, r);
        return;
    }
    luna_rpc_again(c, r, r->busy);
}

/* ---- One round of sending ---- */

static int luna_server_send(struct snic_luna *c, struct luna_server *s)
{
    uint32_t tried = 0;
    struct luna_conn *n = NULL;
    for (uint32_t i = 0; i < c->o.conns; i++) {
        if (s->conns[i].hello_due)
            luna_send_hello(c, &s->conns[i]);
        if (s->conns[i].state == SNIC_LUNA_UP)
            luna_send_tokens(c, &s->conns[i]);
        if (s->conns[i].probe_due)
            luna_send_probe(c, &s->conns[i]);
    }
    while (!snic_link_alone(&s->again) || !snic_link_alone(&s->ready[0]) ||
           !snic_link_alone(&s->ready[1])) {
        /* Blocks that wait together use one connection, for up to TOGETHER of them: then their
           answers are joined, too. */
        if (n == NULL || n->outside >= SNIC_LUNA__TOGETHER)
            n = luna_best(c, s, tried);
        if (n == NULL)
            return 0;
        int r = luna_build(c, s, n);
        if (r < 0)
            return r;
        if (r == 0) {
            tried |= 1u << n->index;
            n = NULL;
        }
    }
    return 0;
}

void luna_send(struct snic_luna *c)
{
    uint32_t first = c->turn;
    for (uint32_t i = 0; i < c->q.servers_high; i++) {
        struct luna_server *s = &c->servers[(first + i) % c->q.servers_high];
        if (s->load->used && luna_server_send(c, s) < 0) {
            c->turn = s->index; /* it goes first when a send is free again */
            return;
        }
    }
    c->turn = c->q.servers_high != 0 ? (first + 1) % c->q.servers_high : 0;
}
