/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's input: a stream's bytes, cut anywhere, to requests of one block (or up to 16 that
 * are read) each. A block that is whole in the bytes passed to recv is used there; one that is cut
 * is assembled in the connection's memory.
 *
 * A frame waits for a free one of frames_max, a block until the owner has less than rx_blocks; recv
 * returns SNIC_EAGAIN meanwhile, and the bytes are not consumed.
 */
#include "luna/target_priv.h"

static uint32_t luna_target_crc(const struct snic_luna_target *t, const void *data)
{
    return t->o.crc != NULL ? t->o.crc(t->o.crc_ctx, data, SNIC_EBS_BLOCK_BYTES)
                            : snic_crc32c(0, data, SNIC_EBS_BLOCK_BYTES);
}

static int luna_intake_pause(struct snic_luna_target *t, struct luna_peer *n, uint8_t why)
{
    if (n->paused == LUNA_PAUSED_NO) {
        t->s.pauses++;
        n->paused = why;
        if (why == LUNA_PAUSED_ROOM)
            snic_link_append(&t->room, &n->pause);
    }
    return SNIC_EAGAIN;
}

/* The last block of the frame was received, or skipped. */
static void luna_intake_close(struct snic_luna_target *t, struct luna_peer *n)
{
    struct luna_frame *f = &n->frames[n->open];
    n->open = SNIC_LUNA__NONE;
    n->in.phase = LUNA_HEAD;
    f->open = 0;
    luna_frame_settle(t, n, f);
}

static void luna_intake_refuse(struct luna_frame *f, uint32_t status)
{
    if (f->status == SNIC_EBS_OK || f->status == SNIC_EBS_SUPERSEDED)
        f->status = (uint16_t)status;
}

/* ---- Requests ---- */

static void luna_intake_request(struct snic_luna_target *t, struct luna_peer *n,
                                struct luna_frame *f, struct snic_ebs_request *q, uint8_t op,
                                uint32_t first)
{
    const struct snic_ebs_block *b = &f->b;
    q->op = op;
    q->kind = b->op;
    q->count = op == SNIC_EBS_DO_WRITE ? 1 : b->blk_cnt;
    q->block = (uint16_t)(b->blk_off + first);
    q->tenant = b->tenant;
    q->seg_gen = b->seg_gen;
    q->data_crc = SNIC_EBS_CRC_ZEROS;
    q->block_tag = b->block_tag;
    q->bind_crc = 0;
    q->account = 0;
    q->vd_id = b->vd_id;
    q->seg_id = b->seg_id;
    q->lba = b->lba + first;
    q->wver = b->wver;
    q->need = op == SNIC_EBS_DO_READ ? ebs_mask(b->blk_cnt) : 0;
    q->data = NULL;
    q->from.frame.serial = f->serial;
    q->conn_id = n->handle;
    q->from.frame.index = (uint16_t)(f - n->frames);
    q->from.frame.first = (uint16_t)first;
    f->left++;
    t->s.requests++;
    if (op == SNIC_EBS_DO_READ)
        n->client_stats.blocks_read += b->blk_cnt;
    if (op == SNIC_EBS_DO_WRITE) {
        n->client_stats.blocks_written++;
        t->s.writes++;
        t->s.writes_out++;
        n->writes_out++;
    }
}

/* A block of data, at @p data. @return 1 @p q; 0 its checksum is wrong */
static int luna_intake_block(struct snic_luna_target *t, struct luna_peer *n,
                             const unsigned char *data, struct snic_ebs_request *q)
{
    struct luna_in *in = &n->in;
    struct luna_frame *f = &n->frames[n->open];
    uint32_t block = in->done++, crc = luna_target_crc(t, data);
    int last = in->done == f->b.blk_cnt;
    int good = crc == snic_get_be32(in->list + (size_t)4 * block);
    in->have = 0;
    if (good) {
        luna_intake_request(t, n, f, q, SNIC_EBS_DO_WRITE, block);
        q->data_crc = crc;
        q->data = data;
    } else {
        t->s.data_crc++;
        luna_intake_refuse(f, SNIC_EBS_BAD_CRC);
    }
    if (last)
        luna_intake_close(t, n);
    return good;
}

/* Bytes of blocks. @return 1 @p q; 0 continue; SNIC_EAGAIN */
static int luna_intake_data(struct snic_luna_target *t, struct luna_peer *n,
                            const unsigned char **data, size_t *size, struct snic_ebs_request *q)
{
    if (luna_target_full(t))
        return luna_intake_pause(t, n, LUNA_PAUSED_ROOM);
    if (n->in.have == 0 && *size >= SNIC_EBS_BLOCK_BYTES) {
        const unsigned char *block = *data;
        *data += SNIC_EBS_BLOCK_BYTES;
        *size -= SNIC_EBS_BLOCK_BYTES;
        return luna_intake_block(t, n, block, q);
    }
    if (!luna_in_gather(&n->in, n->block, SNIC_EBS_BLOCK_BYTES, data, size))
        return 0;
    t->s.cut++;
    return luna_intake_block(t, n, n->block, q);
}

/* Requests without data: ZERO and TRIM one by one, reads 16 at a time. */
static int luna_intake_emit(struct snic_luna_target *t, struct luna_peer *n,
                            struct snic_ebs_request *q)
{
    struct luna_in *in = &n->in;
    uint32_t count = in->h.u.block.blk_cnt;
    if (in->h.type == SNIC_EBS_WRITE) {
        struct luna_frame *f = &n->frames[n->open];
        if (luna_target_full(t))
            return luna_intake_pause(t, n, LUNA_PAUSED_ROOM);
        luna_intake_request(t, n, f, q, SNIC_EBS_DO_WRITE, in->done++);
        q->block_tag = 0;
        if (in->done == count)
            luna_intake_close(t, n);
        return 1;
    }
    struct luna_frame *f = luna_frame_take(t, n);
    if (f == NULL)
        return luna_intake_pause(t, n, LUNA_PAUSED_FRAMES);
    f->b.lba += in->done;
    f->b.blk_off = (uint16_t)(f->b.blk_off + in->done);
    f->b.blk_cnt = (uint16_t)snic_min_u64(count - in->done, SNIC_EBS_READ_BLOCKS);
    f->pkt_id = (uint16_t)(f->pkt_id + in->done);
    f->type = SNIC_EBS_READ_RESP;
    in->done += f->b.blk_cnt;
    if (in->done == count)
        in->phase = LUNA_HEAD;
    luna_intake_request(t, n, f, q, SNIC_EBS_DO_READ, 0);
    t->s.reads++;
    return 1;
}

/* ---- Frames ---- */

/* The status to refuse a request with, or SNIC_EBS_OK. */
static uint32_t luna_intake_judge(const struct snic_ebs_header *h)
{
    const struct snic_ebs_block *b = &h->u.block;
    if (snic_ebs_bind_crc(b) != b->bind_crc)
        return SNIC_EBS_BAD_CRC;
    if (h->type == SNIC_EBS_FENCE)
        return b->wver == 0 ? SNIC_EBS_INVALID : SNIC_EBS_OK;
    if (h->pkt_id + b->blk_cnt > h->pkt_cnt)
        return SNIC_EBS_INVALID;
    if (h->type == SNIC_EBS_READ_REQ)
        return b->op == SNIC_EBS_DATA || b->op == SNIC_EBS_STATES ? SNIC_EBS_OK : SNIC_EBS_INVALID;
    return b->wver == 0 ? SNIC_EBS_INVALID : SNIC_EBS_OK;
}

/* A TOKEN has its own 64 bytes instead of a block's fields. @return 1 @p q */
static int luna_intake_token(struct snic_luna_target *t, struct luna_peer *n, struct luna_frame *f,
                             struct snic_ebs_request *q)
{
    memset(&f->b, 0, sizeof(f->b));
    f->type = SNIC_EBS_NAK;
    n->open = (uint32_t)(f - n->frames);
    f->open = 1;
    luna_intake_request(t, n, f, q, SNIC_EBS_DO_TOKEN, 0);
    q->data = n->in.h.u.token;
    t->s.tokens++;
    luna_intake_close(t, n);
    return 1;
}

/* A frame to be held. @return 1 @p q; 0 continue; SNIC_EAGAIN */
static int luna_intake_admit(struct snic_luna_target *t, struct luna_peer *n,
                             struct snic_ebs_request *q)
{
    struct luna_in *in = &n->in;
    struct luna_frame *f = luna_frame_take(t, n);
    if (f == NULL)
        return luna_intake_pause(t, n, LUNA_PAUSED_FRAMES);
    if (in->h.type == SNIC_EBS_TOKEN)
        return luna_intake_token(t, n, f, q);
    uint32_t status = luna_intake_judge(&in->h);
    in->have = 0;
    f->type = in->h.type == SNIC_EBS_WRITE ? SNIC_EBS_WACK : SNIC_EBS_FENCE_ACK;
    if (in->h.type == SNIC_EBS_READ_REQ)
        f->type = SNIC_EBS_READ_RESP;
    if (status != SNIC_EBS_OK) {
        t->s.invalid++;
        f->status = (uint16_t)status;
    }
    n->open = (uint32_t)(f - n->frames);
    f->open = 1;
    if (in->h.type == SNIC_EBS_FENCE && status == SNIC_EBS_OK) {
        luna_intake_request(t, n, f, q, SNIC_EBS_DO_FENCE, 0);
        t->s.fences++;
        luna_intake_close(t, n);
        return 1;
    }
    in->skip = in->place.body_size;
    if (status != SNIC_EBS_OK && in->skip == 0)
        luna_intake_close(t, n);
    else if (status != SNIC_EBS_OK)
        in->phase = LUNA_SKIP;
    else
        in->phase = in->h.u.block.op == SNIC_EBS_DATA ? LUNA_LIST : LUNA_EMIT;
    return 0;
}

static void luna_intake_list(struct luna_peer *n)
{
    struct luna_in *in = &n->in;
    in->have = 0;
    in->phase = LUNA_DATA;
    if (luna_in_list_good(in))
        return;
    luna_intake_refuse(&n->frames[n->open], SNIC_EBS_BAD_CRC);
    in->phase = LUNA_SKIP;
    in->skip = in->h.u.block.blk_cnt * (uint32_t)SNIC_EBS_BLOCK_BYTES;
}

static void luna_intake_bye(struct snic_luna_target *t, struct luna_peer *n, uint32_t status,
                            int reason)
{
    n->state = LUNA_PEER_BYE;
    n->bye = (uint16_t)status;
    n->reason = reason;
    luna_peer_work(t, n);
}

static int luna_intake_hello(struct snic_luna_target *t, struct luna_peer *n)
{
    const struct snic_ebs_header *h = &n->in.h;
    const struct snic_ebs_hello *k = &h->u.hello;
    n->client = k->conn_id;
    n->client_id = k->client_id;
    n->path_id = h->path_id;
    n->path_gen = h->path_gen;
    if (k->ver_min > SNIC_EBS_VERSION || k->ver_max < SNIC_EBS_VERSION) {
        luna_intake_bye(t, n, SNIC_EBS_BAD_VERSION, SNIC_EVERSION);
        return SNIC_EVERSION;
    }
    /* An earlier connection of the same client and number: the client no longer reads it. */
    for (uint32_t i = 0; i < t->o.conns_max; i++) {
        struct luna_peer *k2 = &t->peers[i];
        if (k2 != n && (k2->state == LUNA_PEER_UP || k2->state == LUNA_PEER_BYE) &&
            k2->client_id == n->client_id && k2->path_id == n->path_id) {
            t->s.replaced++;
            luna_peer_end(t, k2, SNIC_ESTALE, 1);
        }
    }
    n->state = LUNA_PEER_UP;
    n->hello_pending = 1;
    n->probe = k->nonce;
    luna_peer_work(t, n);
    return 0;
}

static int luna_intake_frame(struct snic_luna_target *t, struct luna_peer *n)
{
    const struct snic_ebs_header *h = &n->in.h;
    t->s.frames_in++;
    n->client_stats.frames_in++;
    if (n->state == LUNA_PEER_NEW)
        return h->type == SNIC_EBS_HELLO ? luna_intake_hello(t, n) : SNIC_EPROTO;
    if (h->type == SNIC_EBS_RESET)
        return SNIC_ECONNRESET;
    if (h->conn_id != n->conn_id || h->path_id != n->path_id || h->path_gen != n->path_gen ||
        h->srv_epoch != t->o.srv_epoch)
        return SNIC_EPERM;
    if (h->type == SNIC_EBS_PROBE && !n->hello_pending) {
        n->probe_pending = 1;
        n->probe = h->u.probe.nonce;
        luna_peer_work(t, n);
        return 0;
    }
    if (h->type == SNIC_EBS_READ_REQ && luna_intake_judge(h) == SNIC_EBS_OK) {
        n->in.phase = LUNA_EMIT;
        return 0;
    }
    if (h->type != SNIC_EBS_WRITE && h->type != SNIC_EBS_FENCE && h->type != SNIC_EBS_READ_REQ &&
        h->type != SNIC_EBS_TOKEN)
        return SNIC_EPROTO;
    n->in.phase = LUNA_ADMIT;
    return 0;
}

/* ---- The stream ---- */

static void luna_intake_skip(struct snic_luna_target *t, struct luna_peer *n,
                             const unsigned char **data, size_t *size)
{
    uint32_t take = (uint32_t)snic_min_u64(n->in.skip, *size);
    *data += take;
    *size -= take;
    n->in.skip -= take;
    if (n->in.skip == 0)
        luna_intake_close(t, n);
}

/* One step. @return 1 @p q; 0 continue, or, if @p size is 0, wait; SNIC_E* */
static int luna_intake_step(struct snic_luna_target *t, struct luna_peer *n,
                            const unsigned char **data, size_t *size, struct snic_ebs_request *q)
{
    struct luna_in *in = &n->in;
    int r = 0;
    switch ((enum luna_phase)in->phase) {
    case LUNA_HEAD:
        r = luna_in_head(in, SNIC_LUNA__UP, data, size);
        return r > 0 ? luna_intake_frame(t, n) : r;
    case LUNA_ADMIT:
        return luna_intake_admit(t, n, q);
    case LUNA_EMIT:
        return luna_intake_emit(t, n, q);
    case LUNA_LIST:
        if (luna_in_gather(in, in->list, 4u * in->h.u.block.blk_cnt, data, size))
            luna_intake_list(n);
        return 0;
    case LUNA_DATA:
        return luna_intake_data(t, n, data, size, q);
    case LUNA_SKIP:
    default:
        luna_intake_skip(t, n, data, size);
        return 0;
    }
}

/* A protocol error. If the other side may have another version of the format, a RESET with the
   reason is sent. */
static void luna_intake_violation(struct snic_luna_target *t, struct luna_peer *n, int error)
{
    t->s.violations++;
    if (error == SNIC_EVERSION && n->in.version != 0) {
        t->s.versions++;
        t->s.peer_version = n->in.version;
    }
    if (n->state == LUNA_PEER_BYE)
        return;
    if (error == SNIC_EVERSION)
        luna_intake_bye(t, n, SNIC_EBS_BAD_VERSION, error);
    else if (error == SNIC_ENOTSUP)
        luna_intake_bye(t, n, SNIC_EBS_BAD_FLAGS, error);
    else
        luna_peer_end(t, n, error, 1);
}

int snic_luna_target_recv(struct snic_luna_target *t, uint32_t handle, const void *data,
                          size_t size, size_t *used, struct snic_ebs_request *out, uint64_t now_ns)
{
    const unsigned char *p = data;
    size_t left = size;
    int r = 0;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    *used = size;
    struct luna_peer *n = luna_peer_of(t, handle);
    if (n == NULL || n->state == LUNA_PEER_BYE)
        return SNIC_ENOENT;
    n->heard_ns = t->now_ns;
    while (r == 0 && (left > 0 || n->in.phase == LUNA_ADMIT || n->in.phase == LUNA_EMIT))
        r = luna_intake_step(t, n, &p, &left, out);
    t->s.bytes_in += size - left;
    n->client_stats.bytes_in += size - left;
    if (r >= 0 || r == SNIC_EAGAIN)
        *used = size - left;
    else
        luna_intake_violation(t, n, r);
    return r;
}
