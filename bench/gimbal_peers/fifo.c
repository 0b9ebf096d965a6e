/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* No scheduler: an NVMe-oF target that submits every command to the device on arrival. Fairness is
 * only that of the device's round robin over the tenants' queues. */
#include "sched.h"

#include <stdlib.h>

struct sched {
    struct sched_queue queue;
};

static struct sched *fifo_open(const struct sched_opts *o, uint64_t now)
{
    (void)o;
    (void)now;
    return calloc(1, sizeof(struct sched));
}

static void fifo_close(struct sched *s)
{
    free(s);
}

static void fifo_submit(struct sched *s, struct sched_io *io, uint64_t now)
{
    (void)now;
    sched_queue_push(&s->queue, io);
}

static struct sched_io *fifo_poll(struct sched *s, uint64_t now)
{
    (void)now;
    return sched_queue_pop(&s->queue);
}

static uint64_t fifo_deadline(struct sched *s)
{
    return s->queue.first != NULL ? 0 : SNIC_NEVER;
}

static void fifo_complete(struct sched *s, struct sched_io *io, uint64_t now)
{
    (void)s;
    (void)io;
    (void)now;
}

const struct sched_ops sched_fifo = {"fifo",        fifo_open, fifo_close,
                                     fifo_submit,   fifo_poll, fifo_deadline,
                                     fifo_complete, NULL,      NULL};
