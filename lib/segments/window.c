/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The log's part of the device: the log gets a handle of its own, and its options.
 */
#include "segments/segments_priv.h"

/**
 * The log sets a request's offset each time it submits, so it may be moved here; what it flushes is
 * the whole device.
 */
static int segments_window_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct segments_window *w = SNIC_CONTAINER(io, struct segments_window, io);
    for (uint32_t i = 0; i < n; i++)
        if (reqs[i]->op != SNIC_IO_FLUSH)
            reqs[i]->offset += SNIC_SEGMENTS__LOG_AT;
    return snic_io_submit(w->device, reqs, n);
}

static void segments_window_cancel(struct snic_io *io, struct snic_io_req *req)
{
    struct segments_window *w = SNIC_CONTAINER(io, struct segments_window, io);
    snic_io_cancel(w->device, req);
}

static void segments_window_close(struct snic_io *io)
{
    (void)io;
}

static void segments_window_wait(struct snic_io *io, struct snic_io_waiter *waiter)
{
    snic_io_wait(SNIC_CONTAINER(io, struct segments_window, io)->device, waiter);
}

static const struct snic_io_ops segments_window_ops = {.ops_size = sizeof(struct snic_io_ops),
                                                       .name = "segments",
                                                       .submit = segments_window_submit,
                                                       .cancel = segments_window_cancel,
                                                       .close = segments_window_close,
                                                       .wait = segments_window_wait};

void segments_window_make(struct segments_window *w, struct snic_io *device,
                          const struct segments_geo *g)
{
    memset(w, 0, sizeof(*w));
    w->device = device;
    w->io.ops = &segments_window_ops;
    w->io.loop = device->loop;
    w->io.geometry = device->geometry;
    w->io.geometry.size = SNIC_SEGMENTS__LOG_HEAD + g->log_bytes;
    w->io.caps = device->caps & ~(SNIC_IO_CAP_ZERO | SNIC_IO_CAP_DISCARD);
    w->io.depth_max = device->depth_max;
}

struct snic_wal_opts segments_wal_opts(const struct segments_geo *g, uint32_t flags)
{
    struct snic_wal_opts w = {.opts_size = sizeof(w)};
    w.flags = (flags & SNIC_SEGMENTS_NO_FUA) != 0 ? SNIC_WAL_NO_FUA : 0;
    w.segment_bytes = g->wal_segment;
    w.block_bytes = SNIC_SEGMENTS__WAL_BLOCK;
    w.record_max = g->record_max;
    w.batch_bytes = g->batch_bytes;
    w.uuid[0] = g->uuid[0];
    w.uuid[1] = g->uuid[1] + g->disk;
    return w;
}
