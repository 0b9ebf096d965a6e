/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent's input: a stream's bytes, cut anywhere, to frames; data are copied into the I/O's
 * buffer as they arrive (I6).
 *
 * An answer must match its request: RPC, blocks, address, version and generation. An answer for an
 * RPC that has ended or moved is late and only counted; one that no correct server sends ends the
 * connection.
 */
#include "luna/luna_priv.h"

/* ---- The RPC of an answer ---- */

/* The RPC that waits on @p n for all blocks of the frame, or NULL. */
static struct luna_rpc *luna_in_rpc(struct snic_luna *c, struct luna_conn *n, uint64_t *blocks)
{
    const struct snic_ebs_header *h = &n->in.h;
    const struct snic_ebs_block *b = &h->u.block;
    struct luna_rpc *r = luna_rpc_find(c, h->rpc_id);
    if (r == NULL || r->q.server != n->server || r->out == 0 || r->conn != n->index ||
        (r->q.op == SNIC_EBS_IO_READ) != (h->type == SNIC_EBS_READ_RESP) ||
        h->pkt_cnt != r->q.count || h->pkt_id + b->blk_cnt > r->q.count)
        return NULL;
    *blocks = ebs_mask(b->blk_cnt) << h->pkt_id;
    if ((*blocks & ~r->out) != 0 || b->lba != r->q.lba + h->pkt_id || b->seg_id != r->q.seg_id ||
        b->seg_gen != r->q.seg_gen || b->vd_id != c->q.disks[r->q.disk].vd_id ||
        (r->q.op != SNIC_EBS_IO_READ && b->wver != r->q.wver))
        return NULL;
    return r;
}

static void luna_in_rtt(struct snic_luna *c, struct luna_conn *n)
{
    uint64_t rtt = (uint32_t)c->q.now_ns - n->in.h.echo_ts;
    rtt &= UINT32_MAX;
    if (rtt <= UINT64_C(4000000000))
        n->srtt_ns = n->srtt_ns == 0 ? rtt : n->srtt_ns - n->srtt_ns / 8 + rtt / 8;
}

/* ---- Writes ---- */

static uint32_t luna_in_agg(const struct luna_rpc *r, uint32_t pkt, uint32_t count)
{
    uint32_t agg = 0;
    for (uint32_t i = 0; i < count; i++)
        agg = snic_ebs_agg_add(agg, r->crc[pkt + i]);
    return agg;
}

static void luna_in_wack(struct snic_luna *c, struct luna_conn *n)
{
    const struct snic_ebs_header *h = &n->in.h;
    const struct snic_ebs_block *b = &h->u.block;
    uint64_t blocks = 0;
    struct luna_rpc *r = luna_in_rpc(c, n, &blocks);
    luna_in_rtt(c, n);
    if (r == NULL) {
        c->s.late++;
        return;
    }
    int good = h->status == SNIC_EBS_OK || h->status == SNIC_EBS_SUPERSEDED;
    /* The stored data are not those sent: damaged there, or of another client. */
    if (good &&
        (b->op != r->q.op - SNIC_EBS_IO_WRITE ||
         (r->q.op == SNIC_EBS_IO_WRITE && b->srv_crc != luna_in_agg(r, h->pkt_id, b->blk_cnt)))) {
        luna_rpc_wrong(c, r, blocks);
        return;
    }
    /* With BUSY agg_crc is the time until the retry, in microseconds. */
    luna_rpc_status(c, r, blocks, h->status, b->agg_crc);
}

static void luna_in_fence(struct snic_luna *c, struct luna_conn *n)
{
    const struct snic_ebs_header *h = &n->in.h;
    struct luna_rpc *r = luna_rpc_find(c, h->rpc_id);
    n->fence_out = 0;
    if (r == NULL || !ebs_rpc_fence_matches(&r->q, n->server, h)) {
        c->s.late++;
        return;
    }
    uint32_t disk = r->q.disk;
    if (ebs_rpc_fence_answered(&c->q, &r->q, h->status))
        luna_token_due(c, n, disk);
}

/* ---- Reads ---- */

static struct luna_rpc *luna_in_live(const struct luna_conn *n, uint32_t block)
{
    struct luna_rpc *r = n->rpc;
    uint64_t bit = ebs_bit(n->in.h.pkt_id + block);
    return r != NULL && r->q.id == n->rpc_id && r->turn == n->turn && r->q.where != EBS_RPC_FREE &&
                   (r->out & bit) != 0 && r->conn == n->index
               ? r
               : NULL; /* I6 */
}

static void luna_in_begin(struct luna_conn *n, struct luna_rpc *r)
{
    n->rpc = r;
    if (r == NULL)
        return;
    n->rpc_id = r->q.id;
    n->turn = r->turn;
    n->piece = r->q.piece;
    n->piece_block = r->q.piece_block + n->in.h.pkt_id;
    while (n->piece_block >= r->q.io->iov[n->piece].size / SNIC_EBS_BLOCK_BYTES) {
        n->piece_block -= (uint32_t)(r->q.io->iov[n->piece].size / SNIC_EBS_BLOCK_BYTES);
        n->piece++;
    }
}

static void luna_in_zeros(struct luna_conn *n, const struct luna_rpc *r)
{
    for (uint32_t i = 0; i < n->in.h.u.block.blk_cnt; i++) {
        const struct snic_iov *iov = &r->q.io->iov[n->piece];
        memset((unsigned char *)iov->base + (size_t)n->piece_block * SNIC_EBS_BLOCK_BYTES, 0,
               SNIC_EBS_BLOCK_BYTES);
        if (++n->piece_block == iov->size / SNIC_EBS_BLOCK_BYTES) {
            n->piece++;
            n->piece_block = 0;
        }
    }
}

/* A READ_RESP's header. */
static void luna_in_resp(struct snic_luna *c, struct luna_conn *n)
{
    struct luna_in *in = &n->in;
    const struct snic_ebs_header *h = &in->h;
    const struct snic_ebs_block *b = &h->u.block;
    uint64_t blocks = 0;
    struct luna_rpc *r = luna_in_rpc(c, n, &blocks);
    luna_in_rtt(c, n);
    n->rpc = NULL;
    in->skip = in->place.body_size;
    in->phase = in->skip > 0 ? LUNA_SKIP : LUNA_HEAD;
    if (r == NULL) {
        c->s.late++;
        return;
    }
    if (h->status != SNIC_EBS_OK) {
        uint32_t status = h->status == SNIC_EBS_SUPERSEDED ? SNIC_EBS_INVALID : h->status;
        luna_rpc_status(c, r, blocks, status, b->agg_crc);
        return;
    }
    if (snic_ebs_bind_crc(b) != b->bind_crc ||
        (c->q.disks[r->q.disk].xts_key != NULL && b->op == SNIC_EBS_DATA && b->blk_cnt != 1)) {
        luna_rpc_wrong(c, r, blocks);
        return;
    }
    luna_in_begin(n, r);
    if (b->op != SNIC_EBS_DATA) {
        luna_in_zeros(n, r);
        luna_rpc_acked(c, r, blocks);
        return;
    }
    in->phase = LUNA_LIST;
}

/* The list is complete. */
static void luna_in_list(struct snic_luna *c, struct luna_conn *n)
{
    struct luna_in *in = &n->in;
    const struct snic_ebs_block *b = &in->h.u.block;
    in->have = 0;
    in->crc = 0;
    in->phase = LUNA_DATA;
    if (luna_in_list_good(in))
        return;
    struct luna_rpc *r = n->rpc;
    uint64_t blocks = ebs_mask(b->blk_cnt) << in->h.pkt_id;
    in->phase = LUNA_SKIP;
    in->skip = b->blk_cnt * (uint32_t)SNIC_EBS_BLOCK_BYTES;
    if (luna_in_live(n, 0) != NULL && (blocks & ~r->out) == 0)
        luna_rpc_wrong(c, r, blocks);
}

/* A block is complete in the I/O's buffer. */
static void luna_in_block(struct snic_luna *c, struct luna_conn *n, struct luna_rpc *r,
                          unsigned char *buffer)
{
    struct luna_in *in = &n->in;
    const struct snic_ebs_block *b = &in->h.u.block;
    void *key = ebs_rpc_is_states(&r->q) ? NULL : c->q.disks[r->q.disk].xts_key;
    uint64_t bit = ebs_bit(in->h.pkt_id + in->done);
    uint32_t crc = in->crc;
    if (c->o.crc != NULL)
        crc = c->o.crc(c->o.crc_ctx, buffer, SNIC_EBS_BLOCK_BYTES);
    int good = crc == snic_get_be32(in->list + (size_t)4 * in->done);
    if (key == NULL)
        good = good && b->block_tag == 0; /* else written with a key, and read without */
    if (good && key != NULL) {
        good = snic_ebs_xts_decrypt(c->o.sec, key, b->lba, buffer, buffer) == 0;
        good = good && snic_ebs_tag(&c->q.disks[r->q.disk].tag, b->lba, buffer) == b->block_tag;
    }
    if (good)
        luna_rpc_acked(c, r, bit);
    else
        luna_rpc_wrong(c, r, bit);
}

/* Bytes of blocks. */
static void luna_in_data(struct snic_luna *c, struct luna_conn *n, const unsigned char **data,
                         size_t *size)
{
    struct luna_in *in = &n->in;
    uint32_t take = (uint32_t)snic_min_u64(SNIC_EBS_BLOCK_BYTES - in->have, *size);
    struct luna_rpc *r = luna_in_live(n, in->done);
    unsigned char *buffer = NULL;
    const struct snic_iov *iov = NULL;
    if (r != NULL) {
        iov = &r->q.io->iov[n->piece];
        buffer = (unsigned char *)iov->base + (size_t)n->piece_block * SNIC_EBS_BLOCK_BYTES;
        memcpy(buffer + in->have, *data, take);
        if (c->o.crc == NULL)
            in->crc = snic_crc32c(in->crc, buffer + in->have, take);
    }
    in->have += take;
    *data += take;
    *size -= take;
    if (in->have < SNIC_EBS_BLOCK_BYTES)
        return;
    if (r != NULL) {
        if (++n->piece_block == iov->size / SNIC_EBS_BLOCK_BYTES) {
            n->piece++;
            n->piece_block = 0;
        }
        luna_in_block(c, n, r, buffer);
    } else {
        n->rpc = NULL; /* skip the rest of the frame */
    }
    in->have = 0;
    in->crc = 0;
    if (++in->done == in->h.u.block.blk_cnt) {
        in->phase = LUNA_HEAD;
        n->rpc = NULL;
    }
}

/* ---- Frames ---- */

static int luna_in_hello(struct snic_luna *c, struct luna_conn *n)
{
    const struct snic_ebs_header *h = &n->in.h;
    if (h->u.hello.nonce != n->nonce || h->u.hello.client_id != c->client_id || h->srv_epoch == 0)
        return SNIC_EPERM;
    n->conn_id = h->u.hello.conn_id;
    n->srv_epoch = h->srv_epoch;
    luna_conn_up(c, n);
    return 0;
}

static int luna_in_frame(struct snic_luna *c, struct luna_conn *n)
{
    const struct snic_ebs_header *h = &n->in.h;
    c->s.frames_in++;
    n->frames_in++;
    if (h->type == SNIC_EBS_RESET) /* it has the reason of the close */
        return snic_ebs_status_error(h->status) != 0 ? snic_ebs_status_error(h->status)
                                                     : SNIC_ECONNRESET;
    if (h->conn_id != n->mine)
        return SNIC_EPERM;
    if (n->state == SNIC_LUNA_GREETING && h->type == SNIC_EBS_HELLO_ACK) {
        int r = luna_in_hello(c, n);
        if (r != 0)
            return r;
    } else if (n->state != SNIC_LUNA_UP || h->type == SNIC_EBS_HELLO_ACK) {
        return SNIC_EPROTO;
    }
    if (h->srv_epoch != n->srv_epoch)
        return SNIC_EPERM;
    if (h->credit != 0 && snic_ebs_credit_blocks(h->credit) != n->credit) {
        n->credit = snic_ebs_credit_blocks(h->credit);
        c->q.dirty = 1;
    }
    if (h->type == SNIC_EBS_HELLO_ACK)
        return 0;
    n->wait_ns = SNIC_LUNA__MS; /* it works: reset the back-off */
    if (h->type == SNIC_EBS_WACK)
        luna_in_wack(c, n);
    else if (h->type == SNIC_EBS_READ_RESP)
        luna_in_resp(c, n);
    else if (h->type == SNIC_EBS_FENCE_ACK)
        luna_in_fence(c, n);
    else if (h->type == SNIC_EBS_NAK && snic_ebs_id_epoch(h->rpc_id) == 0)
        (void)ebs_queue_token_answered(&c->q, h->rpc_id, h->status);
    else if (h->type == SNIC_EBS_PROBE_ACK && n->probe_out && h->u.probe.nonce == n->probed)
        n->probe_out = 0;
    else
        return SNIC_EPROTO;
    return 0;
}

static int luna_in_stream(struct snic_luna *c, struct luna_conn *n, const unsigned char *data,
                          size_t size)
{
    struct luna_in *in = &n->in;
    while (size > 0) {
        int r = 0;
        if (in->phase == LUNA_HEAD) {
            r = luna_in_head(in, SNIC_LUNA__DOWN, &data, &size);
            if (r > 0)
                r = luna_in_frame(c, n);
        } else if (in->phase == LUNA_LIST) {
            if (luna_in_gather(in, in->list, 4u * in->h.u.block.blk_cnt, &data, &size))
                luna_in_list(c, n);
        } else if (in->phase == LUNA_DATA) {
            luna_in_data(c, n, &data, &size);
        } else {
            uint32_t take = (uint32_t)snic_min_u64(in->skip, size);
            data += take;
            size -= take;
            in->skip -= take;
            if (in->skip == 0)
                in->phase = LUNA_HEAD;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int snic_luna_recv(struct snic_luna *c, uint32_t server, uint32_t conn, uint32_t gen,
                   const void *data, size_t size, uint64_t now_ns)
{
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    if (server >= c->o.servers_max || !c->q.loads[server].used || conn >= c->o.conns || c->q.halted)
        return SNIC_ENOENT;
    struct luna_conn *n = &c->servers[server].conns[conn];
    if (n->gen != gen || n->state < SNIC_LUNA_GREETING)
        return SNIC_ENOENT;
    if (size == 0)
        return 0;
    if (luna_conn_doubtful(c, n))
        c->q.dirty = 1;
    n->heard = luna_alive(c);
    n->bytes_in += size;
    c->s.bytes_in += size;
    int r = luna_in_stream(c, n, data, size);
    if (r != 0) {
        c->s.violations++;
        if (r == SNIC_EVERSION && n->in.version != 0) {
            c->s.versions++;
            c->s.peer_version = n->in.version;
        }
        luna_conn_end(c, n, r, 1);
        return r;
    }
    luna_conn_watch(c, n);
    return 0;
}
