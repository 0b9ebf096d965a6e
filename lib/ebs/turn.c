/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What all of a queue uses: a disk's turn and its notifications, and the end of an I/O.
 */
#include "ebs/queue_priv.h"

uint32_t ebs_share(const struct ebs_queue *q, uint32_t server)
{
    return q->o.servers_max == 1 && server == 0 ? q->o.rpcs_max : q->o.rpcs_max / 2;
}

void ebs_disk_turn(struct ebs_queue *q, struct ebs_disk *d)
{
    if (snic_link_alone(&d->queue) || d->map_pending || d->map_reported)
        return;
    if (snic_link_alone(&d->turn)) {
        snic_link_append(&q->turns, &d->turn);
        q->dirty = 1;
    }
}

void ebs_disk_event(struct ebs_queue *q, struct ebs_disk *d)
{
    if (snic_link_alone(&d->event))
        snic_link_append(&q->disk_events, &d->event);
}

void ebs_disk_lookup(struct ebs_queue *q, struct ebs_disk *d)
{
    d->map_pending = 1;
    ebs_disk_event(q, d);
}

void ebs_disk_resume(struct ebs_queue *q, struct ebs_disk *d, uint64_t segment)
{
    uint32_t nowhere = ebs_server_none(q);
    if ((!d->map_reported && !d->map_pending) ||
        (d->need_segment != segment && q->loads[nowhere].rpcs >= ebs_share(q, nowhere)))
        return;
    d->map_reported = 0;
    d->map_pending = 0;
    ebs_disk_turn(q, d);
}

/* ---- The end ---- */

void ebs_io_forget_age(struct ebs_queue *q, struct snic_ebs_io *io)
{
    if (q->slow == &io->age)
        q->slow = io->age.next;
    snic_link_remove(&io->age);
}

static void ebs_io_done(struct ebs_queue *q, struct snic_ebs_io *io)
{
    struct ebs_disk *d = &q->disks[io->disk];
    SNIC_ASSERT(io->rpcs == 0 && io->state != EBS_IO_OVER);
    io->state = EBS_IO_OVER;
    io->done_ns = q->now_ns;
    ebs_io_forget_age(q, io);
    snic_link_remove(&io->order);
    snic_link_remove(&io->link);
    snic_link_append(&q->done, &io->link);
    d->inside--;
}

void ebs_disk_flushes(struct ebs_queue *q, struct ebs_disk *d)
{
    while (!snic_link_alone(&d->order)) {
        struct snic_ebs_io *io = SNIC_CONTAINER(d->order.next, struct snic_ebs_io, order);
        if (io->op != SNIC_EBS_IO_FLUSH)
            return;
        ebs_io_done(q, io);
    }
}

void ebs_io_progress(struct ebs_queue *q, struct snic_ebs_io *io)
{
    struct ebs_disk *d = &q->disks[io->disk];
    if (io->rpcs > 0 || io->cursor < io->blocks)
        return;
    ebs_io_done(q, io);
    ebs_disk_flushes(q, d);
}
