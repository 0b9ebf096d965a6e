/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How a server starts: its store opens; segment SNIC_VOLUME_META is created if it does not exist;
 * its block 0 is read, and written with the next epoch. The epoch is also the version of that
 * write, so the store itself refuses an epoch that goes back. Only then is the socket opened.
 *
 * Block 0: magic 8, format 4, epoch 4, key 16, zeros.
 *
 * The first epoch is random, so that a server whose segment is gone is not taken for an earlier
 * run of its own. A damaged block is rewritten, with the epoch after its version and another key:
 * clients only find that their connections are not known any more. If the version is lost, too, no
 * write is accepted, and with SNIC_SEGMENTS_SALVAGE the segment is recreated, as it is if the log
 * had a gap.
 */
#include "volume/volume_priv.h"

#define SNIC_VOLUME__META_MAGIC UINT64_C(0x306d65727673764e)
#define SNIC_VOLUME__META_FORMAT 1u
/* Half of the epochs are left for later starts. */
#define SNIC_VOLUME__META_FIRST (UINT32_C(1) << 31)
#define SNIC_VOLUME__PORTS 16u /* tried for one that both transports can bind */

/* All fronts at one address; the first chooses the port if addr has none. */
static int server_open_listen(struct snic_volume_server *s)
{
    struct snic_net_addr a = s->o.addr;
    for (uint32_t i = 0; i < s->fronts; i++) {
        int r = s->front[i]->listen(s, &a);
        if (r == 0)
            continue;
        while (i-- > 0)
            s->front[i]->unlisten(s);
        return r;
    }
    s->addr = a;
    s->listens = 1;
    return 0;
}

/* The epoch is durable: the first datagram may be received. */
static int server_open_start(struct snic_volume_server *s)
{
    struct snic_segments_info info;
    int r = 0;
    snic_segments_inspect(s->store, &info);
    s->list_max = info.list_max;
    for (uint32_t i = 0; i < s->fronts && r == 0; i++)
        r = s->front[i]->init(s);
    if (r != 0)
        return r;
    r = server_open_listen(s);
    for (uint32_t i = 0; r == SNIC_EADDRINUSE && s->o.addr.port == 0 && i < SNIC_VOLUME__PORTS; i++)
        r = server_open_listen(s);
    return r;
}

static void server_open_over(struct snic_volume_server *s, int result)
{
    if (s->closing)
        return;
    if (result == 0) {
        s->meta_state = VOLUME_META_DONE;
        result = server_open_start(s);
    } else {
        s->stats.meta_errors++;
    }
    s->opened = result == 0;
    s->e.opened(s->ctx, result, &s->report);
}

static void server_open_step(struct snic_segments_req *req);

/* A log that recovery has left full has space a little later. */
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
    if (op == SNIC_SEGMENTS_READ || op == SNIC_SEGMENTS_WRITE) {
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

/** The epoch of the last start in s->epoch, 0 before the first one. */
static int server_open_known(struct snic_volume_server *s)
{
    const struct snic_segments_block *b = &s->meta_block;
    if (b->wver >= UINT32_MAX)
        return SNIC_EOVERFLOW;
    s->epoch = (uint32_t)b->wver;
    if (b->wver == 0 || b->status == SNIC_SEGMENTS_DAMAGED)
        return 0;
    if (b->kind != SNIC_SEGMENTS_DATA || snic_get_le64(s->meta) != SNIC_VOLUME__META_MAGIC)
        return SNIC_ECORRUPT;
    if (snic_get_le32(s->meta + 8) != SNIC_VOLUME__META_FORMAT)
        return SNIC_EVERSION;
    return snic_get_le32(s->meta + 12) == s->epoch ? 0 : SNIC_ECORRUPT;
}

static int server_open_write(struct snic_volume_server *s)
{
    struct snic_segments_block *b = &s->meta_block;
    struct snic_rng rng;
    int anew = b->wver == 0 || b->status == SNIC_SEGMENTS_DAMAGED;
    int r = server_open_known(s);
    if (r != 0)
        return r;
    snic_rng_init(&rng, s->o.seed ^ UINT64_C(0x6b6579));
    if (anew) {
        memset(s->meta, 0, SNIC_EBS_BLOCK_BYTES);
        snic_rng_fill(&rng, s->meta + 16, sizeof(s->key));
    }
    if (s->epoch == 0)
        s->epoch = (uint32_t)snic_rng_below(&rng, SNIC_VOLUME__META_FIRST);
    s->epoch++;
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

/** Begin the step that follows from the result of @p q. */
static int server_open_next(struct snic_volume_server *s, const struct snic_segments_req *q)
{
    int damaged = q->result == SNIC_ECORRUPT && s->meta_block.status == SNIC_SEGMENTS_DAMAGED;
    if (s->meta_state == VOLUME_META_READ && damaged)
        return server_open_write(s);
    if (s->meta_state == VOLUME_META_WRITE && damaged &&
        (s->o.store.flags & SNIC_SEGMENTS_SALVAGE) != 0)
        return server_open_submit(s, VOLUME_META_DELETE, SNIC_SEGMENTS_DELETE);
    if (q->result != 0)
        return q->result;
    if (s->meta_state == VOLUME_META_DELETE)
        return server_open_submit(s, VOLUME_META_CREATE, SNIC_SEGMENTS_CREATE);
    if (s->meta_state == VOLUME_META_CREATE)
        return server_open_read(s);
    return server_open_write(s);
}

static void server_open_step(struct snic_segments_req *req)
{
    struct snic_volume_server *s = SNIC_CONTAINER(req, struct snic_volume_server, meta_req);
    s->meta_out = 0;
    if (s->closing)
        return;
    if (req->result == 0 && s->meta_state == VOLUME_META_WRITE) {
        server_open_over(s, s->meta_block.status == SNIC_SEGMENTS_DONE ? 0 : SNIC_ECORRUPT);
        return;
    }
    int r = server_open_next(s, req);
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
    if (snic_segments_find(s->store, SNIC_VOLUME_META, &stat) != 0)
        result = server_open_submit(s, VOLUME_META_CREATE, SNIC_SEGMENTS_CREATE);
    else if (report->gaps != 0) /* the last start's epoch may be in the lost part */
        result = server_open_submit(s, VOLUME_META_DELETE, SNIC_SEGMENTS_DELETE);
    else
        result = server_open_read(s);
    if (result != 0)
        server_open_over(s, result);
}
