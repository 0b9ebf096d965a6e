/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How a server begins: its store opens; segment SNIC_VOLUME_META is made where it is not there; its
 * block 0 is read, and written with the next epoch. That is also the version it is written with, so
 * the store itself refuses an epoch that goes back. Only then is the socket opened.
 *
 * Block 0: magic 8, format 4, epoch 4, key 16, zeros.
 */
#include "volume/volume_priv.h"

#define SNIC_VOLUME__META_MAGIC UINT64_C(0x306d65727673764e)
#define SNIC_VOLUME__META_FORMAT 1u

static void server_open_over(struct snic_volume_server *s, int result)
{
    if (s->closing)
        return;
    if (result == 0) {
        s->meta_state = VOLUME_META_DONE;
        result = volume_server_start(s);
    } else {
        s->stats.meta_errors++;
    }
    s->opened = result == 0;
    s->e.opened(s->ctx, result, &s->report);
}

static void server_open_step(struct snic_segments_req *req);

/* A log that recovery has left full has room a little later. */
static int server_open_try(struct snic_volume_server *s)
{
    int r = snic_segments_submit(s->store, &s->meta_req);
    s->meta_out = r == 0;
    s->meta_waits = r == SNIC_EAGAIN;
    return r == SNIC_EAGAIN ? 0 : r;
}

void volume_server_open_room(struct snic_volume_server *s)
{
    int r = 0;
    if (s->meta_waits && !s->closing)
        r = server_open_try(s);
    if (r != 0)
        server_open_over(s, r);
}

static int server_open_submit(struct snic_volume_server *s, uint32_t state, uint16_t op)
{
    struct snic_segments_req *q = &s->meta_req;
    memset(q, 0, sizeof(*q));
    q->done = server_open_step;
    q->op = op;
    q->seg_id = SNIC_VOLUME_META;
    q->vd_id = SNIC_VOLUME_META;
    q->gen = 1;
    q->disk = SNIC_SEGMENTS_ANY_DISK;
    if (op != SNIC_SEGMENTS_CREATE) {
        q->blocks = &s->meta_block;
        q->count = 1;
    }
    s->meta_state = (uint8_t)state;
    return server_open_try(s);
}

static int server_open_read(struct snic_volume_server *s)
{
    memset(&s->meta_block, 0, sizeof(s->meta_block));
    s->meta_block.data = s->meta;
    return server_open_submit(s, VOLUME_META_READ, SNIC_SEGMENTS_READ);
}

static int server_open_write(struct snic_volume_server *s)
{
    struct snic_segments_block *b = &s->meta_block;
    struct snic_rng rng;
    if (b->status != SNIC_SEGMENTS_DONE)
        return SNIC_ECORRUPT;
    if (b->wver != 0 &&
        (b->kind != SNIC_SEGMENTS_DATA || snic_get_le64(s->meta) != SNIC_VOLUME__META_MAGIC))
        return SNIC_ECORRUPT;
    if (b->wver != 0 && snic_get_le32(s->meta + 8) != SNIC_VOLUME__META_FORMAT)
        return SNIC_EVERSION;
    s->epoch = b->wver != 0 ? snic_get_le32(s->meta + 12) : 0;
    if (s->epoch != b->wver)
        return SNIC_ECORRUPT;
    if (s->epoch == UINT32_MAX)
        return SNIC_EOVERFLOW;
    s->epoch++;
    snic_rng_init(&rng, s->o.seed ^ UINT64_C(0x6b6579));
    if (b->wver == 0) {
        memset(s->meta, 0, SNIC_EBS_BLOCK_BYTES);
        snic_rng_fill(&rng, s->meta + 16, sizeof(s->key));
    }
    snic_put_le64(s->meta, SNIC_VOLUME__META_MAGIC);
    snic_put_le32(s->meta + 8, SNIC_VOLUME__META_FORMAT);
    snic_put_le32(s->meta + 12, s->epoch);
    memcpy(s->key, s->meta + 16, sizeof(s->key));
    memset(b, 0, sizeof(*b));
    b->wver = s->epoch;
    b->data = s->meta;
    b->data_crc = snic_crc32c(0, s->meta, SNIC_EBS_BLOCK_BYTES);
    return server_open_submit(s, VOLUME_META_WRITE, SNIC_SEGMENTS_WRITE);
}

static void server_open_step(struct snic_segments_req *req)
{
    struct snic_volume_server *s = SNIC_CONTAINER(req, struct snic_volume_server, meta_req);
    int r = req->result;
    s->meta_out = 0;
    if (s->closing)
        return;
    if (r == 0 && s->meta_state == VOLUME_META_WRITE) {
        server_open_over(s, s->meta_block.status == SNIC_SEGMENTS_DONE ? 0 : SNIC_ECORRUPT);
        return;
    }
    if (r == 0)
        r = s->meta_state == VOLUME_META_CREATE ? server_open_read(s) : server_open_write(s);
    if (r != 0)
        server_open_over(s, r);
}

void volume_server_opened(void *ctx, int result, const struct snic_segments_report *report)
{
    struct snic_volume_server *s = ctx;
    struct snic_segments_stat stat;
    if (s->closing)
        return;
    s->report = *report;
    if (result != 0) {
        s->e.opened(s->ctx, result, &s->report);
        return;
    }
    if (snic_segments_find(s->store, SNIC_VOLUME_META, &stat) == 0)
        result = server_open_read(s);
    else
        result = server_open_submit(s, VOLUME_META_CREATE, SNIC_SEGMENTS_CREATE);
    if (result != 0)
        server_open_over(s, result);
}
