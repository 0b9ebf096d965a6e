/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The queue in front of the device, and requests that are finished: the user's `done` is called
 * later, by files_deliver().
 */
#include "files/files_priv.h"

static void files_io_fail(struct snic_files *f, struct snic_io_req *io, int error)
{
    io->result = error;
    io->os_error = 0;
    snic_queue_push(&f->io_failed, &io->node);
    if (!f->finish_armed) {
        f->finish_armed = 1;
        snic_loop_defer(f->loop, &f->finish_msg);
    }
}

/* A device request has ended. */
void files_io_ended(struct snic_files *f)
{
    SNIC_ASSERT(f->io_active > 0);
    f->io_active--;
}

/* Queue a device request; files_io_submit() hands the queue over. */
void files_io_push(struct snic_files *f, struct snic_io_req *io)
{
    f->io_active++;
    snic_queue_push(&f->io_queue, &io->node);
}

void files_io_submit(struct snic_files *f)
{
    struct snic_io_req *batch[SNIC_FILES__IO_BATCH];
    while (!snic_queue_empty(&f->io_queue) && !snic_io_waits(&f->io_room)) {
        struct snic_node *node = f->io_queue.first;
        uint32_t n = 0;
        uint32_t i;
        int taken;
        for (; node != NULL && n < SNIC_FILES__IO_BATCH; node = node->next)
            batch[n++] = SNIC_CONTAINER(node, struct snic_io_req, node);
        for (i = 0; i < n; i++)
            (void)snic_queue_pop(&f->io_queue);
        taken = snic_io_submit(f->io, batch, n);
        if (taken < 0) {
            for (i = 0; i < n; i++)
                files_io_fail(f, batch[i], SNIC_EIO);
            continue;
        }
        SNIC_ASSERT((uint32_t)taken <= n);
        if ((uint32_t)taken == n)
            continue;
        for (i = n; i > (uint32_t)taken; i--) { /* full: back to the front, in order */
            batch[i - 1]->node.next = f->io_queue.first;
            f->io_queue.first = &batch[i - 1]->node;
            if (f->io_queue.last == NULL)
                f->io_queue.last = &batch[i - 1]->node;
        }
        snic_io_wait(f->io, &f->io_room);
    }
}

void files_io_writable(struct snic_io_waiter *w)
{
    files_io_submit(SNIC_CONTAINER(w, struct snic_files, io_room));
}

void files_finish(struct snic_files *f, struct snic_files_req *r, int64_t result)
{
    SNIC_ASSERT(r->private_.state != FILES_RQ_DONE);
    SNIC_ASSERT(r->private_.inflight == 0);
    r->private_.state = FILES_RQ_DONE;
    r->result = result;
    r->done_ns = snic_loop_now(f->loop);
    if (result < 0)
        f->stats.errors++;
    snic_queue_push(&f->finished, &r->node);
    if (!f->finish_armed) {
        f->finish_armed = 1;
        snic_loop_defer(f->loop, &f->finish_msg);
    }
}
