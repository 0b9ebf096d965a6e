/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A disk as a handle of the io door. A request is one I/O of the agent, or, beyond its largest,
 * several, one after the other.
 */
#include "volume/volume_priv.h"

static void disk_complete(struct volume_disk *d, struct snic_io_req *req, int64_t result)
{
    req->result = result;
    req->done_ns = volume_now(d->v);
    d->io.stats.completed++;
    if (result < 0)
        d->io.stats.errors++;
    else if (req->op == SNIC_IO_READ)
        d->io.stats.read_bytes += (uint64_t)result;
    else if (req->op == SNIC_IO_WRITE)
        d->io.stats.write_bytes += (uint64_t)result;
    req->done(req);
}

/* ---- Submit ---- */

/* Without an I/O: the pump completes it with an error. */
static void disk_refuse(struct volume_disk *d, struct snic_io_req *req, int result)
{
    req->result = result;
    snic_queue_push(&d->failed, &req->node);
    volume_soon(d->v);
}

uint32_t volume_disk_failed(struct volume_disk *d)
{
    struct snic_queue q = d->failed;
    uint32_t n = 0;
    memset(&d->failed, 0, sizeof(d->failed));
    for (struct snic_node *i = snic_queue_pop(&q); i != NULL; i = snic_queue_pop(&q), n++) {
        struct snic_io_req *req = SNIC_CONTAINER(i, struct snic_io_req, node);
        disk_complete(d, req, req->result);
    }
    return n;
}

static int disk_part(struct volume_disk *d, struct volume_io *x)
{
    static const uint8_t ops[] = {[SNIC_IO_READ] = SNIC_EBS_IO_READ,
                                  [SNIC_IO_WRITE] = SNIC_EBS_IO_WRITE,
                                  [SNIC_IO_FLUSH] = SNIC_EBS_IO_FLUSH,
                                  [SNIC_IO_ZERO] = SNIC_EBS_IO_ZERO,
                                  [SNIC_IO_DISCARD] = SNIC_EBS_IO_TRIM};
    const struct snic_io_req *req = x->req;
    uint64_t lba = (req->offset + req->length) / SNIC_EBS_BLOCK_BYTES - x->blocks;
    struct snic_ebs_io *io = &x->io;
    memset(io, 0, sizeof(*io));
    io->disk = d->index;
    io->flags = x->flags;
    io->op = ops[req->op];
    if (req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE) {
        io->iov = req->iov != NULL ? req->iov : &req->buf;
        io->iov_count = req->iov != NULL ? req->iov_count : 1;
    }
    if (req->op != SNIC_IO_FLUSH) {
        io->lba = lba;
        io->blocks = (uint32_t)snic_min_u64(x->blocks, SNIC_EBS_IO_BLOCKS_MAX);
    }
    return d->lost && req->op != SNIC_IO_READ ? SNIC_EROFS : d->v->agent->submit(d->v, &x->io);
}

static void disk_free(struct volume_disk *d, struct volume_io *x)
{
    SNIC_ASSERT(x->used && d->inside > 0);
    x->used = 0;
    x->next = d->free;
    d->free = (uint32_t)(x - d->ios);
    d->inside--;
    snic_io_room_freed(&d->room);
}

static void disk_accept(struct volume_disk *d, struct snic_io_req *req, uint16_t flags)
{
    struct volume_io *x = &d->ios[d->free];
    d->io.stats.submitted++;
    req->queued_ns = req->device_ns = volume_now(d->v);
    req->os_error = 0;
    req->credit = 0;
    int r = snic_io_validate(&d->io, req);
    if (r != 0) {
        disk_refuse(d, req, r);
        return;
    }
    d->free = x->next;
    d->inside++;
    d->io.stats.queue_high = snic_max_u64(d->io.stats.queue_high, d->inside);
    d->io.stats.flushes += req->op == SNIC_IO_FLUSH;
    x->used = 1;
    x->flags = flags;
    x->req = req;
    x->disk = d;
    x->blocks = req->op == SNIC_IO_FLUSH ? 0 : req->length / SNIC_EBS_BLOCK_BYTES;
    r = disk_part(d, x);
    if (r != 0) {
        disk_free(d, x);
        disk_refuse(d, req, r);
    }
    volume_soon(d->v);
}

static int disk_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct volume_disk *d = (struct volume_disk *)(void *)io;
    uint32_t i = 0;
    if (d->closing || d->v->closing)
        return SNIC_ECANCELED;
    if (snic_io_room_taken(&d->room))
        return 0;
    for (; i < n && d->free != SNIC_VOLUME__NIL; i++)
        disk_accept(d, reqs[i], 0);
    return (int)i;
}

static void disk_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req; /* a server may be executing it already */
}

static const struct snic_io_ops disk_ops;

int snic_volume_disk_states(struct snic_io *io, struct snic_io_req *req)
{
    struct volume_disk *d = (struct volume_disk *)(void *)io;
    if (io->ops != &disk_ops || req->op != SNIC_IO_READ || req->length != SNIC_EBS_BLOCK_BYTES ||
        req->offset % SNIC_VOLUME_SEGMENT_BYTES != 0)
        return SNIC_EINVAL;
    if (d->closing || d->v->closing)
        return SNIC_ECANCELED;
    if (d->free == SNIC_VOLUME__NIL || snic_io_room_taken(&d->room))
        return 0;
    disk_accept(d, req, SNIC_EBS_IO_STATES);
    return 1;
}

/* ---- Done ---- */

void volume_disk_done(struct snic_volume *v, struct snic_ebs_io *io)
{
    struct volume_io *x = SNIC_CONTAINER(io, struct volume_io, io);
    struct volume_disk *d = x->disk;
    struct snic_io_req *req = x->req;
    uint32_t blocks = io->blocks;
    int result = io->result;
    SNIC_ASSERT(x->used && d->v == v);
    if (result == 0 && blocks < x->blocks && !v->closing) {
        x->blocks -= blocks;
        result = disk_part(d, x);
        if (result == 0)
            return;
    } else if (result == 0 && blocks < x->blocks) {
        result = SNIC_EUNKNOWN;
    }
    disk_free(d, x);
    disk_complete(d, req, result != 0 ? result : (int64_t)req->length);
}

/* ---- Open and close ---- */

static void disk_close(struct snic_io *io)
{
    struct volume_disk *d = (struct volume_disk *)(void *)io;
    struct snic_volume *v = d->v;
    d->closing = 1;
    while (d->inside != 0 || !snic_queue_empty(&d->failed) || !snic_io_room_idle(&d->room))
        (void)snic_loop_once(v->o.loop, SNIC_NEVER);
    int r = v->agent->detach(v, d->index);
    SNIC_ASSERT(r == 0);
    (void)r;
    d->used = 0;
}

void volume_disks_init(struct snic_volume *v, struct volume_io *ios)
{
    for (uint32_t i = 0; i < v->o.disks_max; i++) {
        memset(&v->disks[i], 0, sizeof(v->disks[i]));
        v->disks[i].v = v;
        v->disks[i].index = i;
        v->disks[i].ios = ios + (size_t)i * v->o.depth;
    }
    memset(ios, 0, (size_t)v->o.disks_max * v->o.depth * sizeof(*ios));
}

static int disk_ready(const struct snic_io_room *r)
{
    return SNIC_CONTAINER(r, struct volume_disk, room)->free != SNIC_VOLUME__NIL;
}

static void disk_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_room_wait(&((struct volume_disk *)(void *)io)->room, w);
}

static void disk_agent_opts(const struct snic_volume_disk_opts *o, struct snic_ebs_disk_opts *a)
{
    memset(a, 0, sizeof(*a));
    a->opts_size = sizeof(*a);
    a->sa_epoch = o->sa_epoch;
    a->vd_id = o->vd_id;
    a->blocks = o->bytes / SNIC_EBS_BLOCK_BYTES;
    a->bytes_per_second = o->bytes_per_second;
    a->burst_bytes = o->burst_bytes;
    a->ios_per_second = o->ios_per_second;
    a->burst_ios = o->burst_ios;
    a->xts_key = o->xts_key;
}

static const struct snic_io_ops disk_ops = {.ops_size = sizeof(disk_ops),
                                            .name = "volume",
                                            .submit = disk_submit,
                                            .cancel = disk_cancel,
                                            .close = disk_close,
                                            .wait = disk_wait};

static void disk_handle(struct volume_disk *d, uint64_t bytes)
{
    struct snic_io *io = &d->io;
    memset(io, 0, sizeof(*io));
    io->ops = &disk_ops;
    io->loop = d->v->o.loop;
    io->geometry.size = bytes;
    io->geometry.block = SNIC_EBS_BLOCK_BYTES;
    io->geometry.memory_align = 1;
    io->geometry.offset_align = SNIC_EBS_BLOCK_BYTES;
    io->geometry.length_align = SNIC_EBS_BLOCK_BYTES;
    io->geometry.transfer_max = SNIC_VOLUME__TRANSFER;
    io->geometry.atomic_write = SNIC_EBS_BLOCK_BYTES;
    io->caps = SNIC_IO_CAP_FUA | SNIC_IO_CAP_DISCARD | SNIC_IO_CAP_ZERO;
    io->depth_max = d->v->o.depth;
}

int snic_volume_disk_open(struct snic_volume *v, uint32_t disk,
                          const struct snic_volume_disk_opts *from, struct snic_io **out)
{
    struct snic_volume_disk_opts o;
    struct snic_ebs_disk_opts a;
    memset(&o, 0, sizeof(o));
    if (snic_opts_copy(&o, sizeof(o), from) != 0 || disk >= v->o.disks_max || v->closing ||
        o.bytes == 0 || o.bytes % SNIC_EBS_BLOCK_BYTES != 0 || o.sa_epoch == 0)
        return SNIC_EINVAL;
    struct volume_disk *d = &v->disks[disk];
    if (d->used)
        return SNIC_EEXIST;
    disk_agent_opts(&o, &a);
    int r = v->agent->attach(v, disk, &a);
    if (r != 0)
        return r;
    disk_handle(d, o.bytes);
    snic_io_room_init(&d->room, &d->io, disk_ready);
    d->used = 1;
    d->closing = 0;
    d->lost = 0;
    d->inside = 0;
    d->free = SNIC_VOLUME__NIL;
    for (uint32_t i = v->o.depth; i-- > 0;) {
        d->ios[i].next = d->free;
        d->free = i;
    }
    *out = &d->io;
    return 0;
}

int snic_volume_disk_qos(struct snic_volume *v, uint32_t disk,
                         const struct snic_volume_disk_opts *from)
{
    struct snic_volume_disk_opts o;
    struct snic_ebs_disk_opts a;
    memset(&o, 0, sizeof(o));
    if (snic_opts_copy(&o, sizeof(o), from) != 0 || disk >= v->o.disks_max)
        return SNIC_EINVAL;
    if (!v->disks[disk].used)
        return SNIC_ENOENT;
    disk_agent_opts(&o, &a);
    a.sa_epoch = a.sa_epoch == 0 ? 1 : a.sa_epoch;
    a.blocks = v->disks[disk].io.geometry.size / SNIC_EBS_BLOCK_BYTES;
    volume_soon(v);
    return v->agent->qos(v, disk, &a);
}

int snic_volume_disk_token(struct snic_volume *v, uint32_t disk,
                           const unsigned char token[SNIC_EBS_TOKEN_BYTES])
{
    if (disk >= v->o.disks_max || !v->disks[disk].used)
        return SNIC_ENOENT;
    volume_soon(v);
    return v->agent->token(v, disk, token);
}

void snic_volume_disk_lost(struct snic_volume *v, uint32_t disk)
{
    if (disk < v->o.disks_max && v->disks[disk].used)
        v->disks[disk].lost = 1;
}

/* ---- Reports of the engine ---- */

void volume_report(struct snic_volume *v, const struct snic_ebs_action *a)
{
    v->stats.maps += a->type == SNIC_EBS_ACT_MAP;
    if (a->type == SNIC_EBS_ACT_DONE)
        volume_disk_done(v, a->io);
    if (a->type == SNIC_EBS_ACT_LEASE)
        v->disks[a->disk].lost = 1;
    if (v->closing)
        return;
    if (a->type == SNIC_EBS_ACT_MAP)
        v->e.map(v->ctx, a->disk, a->segment, a->gen32);
    else if (a->type == SNIC_EBS_ACT_LEASE && v->e.lease != NULL)
        v->e.lease(v->ctx, a->disk);
    else if (a->type == SNIC_EBS_ACT_TOKEN && v->e.token != NULL)
        v->e.token(v->ctx, a->disk);
    else if (a->type == SNIC_EBS_ACT_SLOW && v->e.slow != NULL)
        v->e.slow(v->ctx, a->io->disk, a->io->lba, a->io->blocks);
    else if ((a->type == SNIC_EBS_ACT_SUSPECT || a->type == SNIC_EBS_ACT_RECOVERED) &&
             v->e.suspect != NULL)
        v->e.suspect(v->ctx, a->server, a->type == SNIC_EBS_ACT_SUSPECT);
}
