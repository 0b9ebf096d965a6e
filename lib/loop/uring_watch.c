/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Descriptors that no door serves: a poll of one shot, which travels with the loop's next call. */
#include "loop/uring.h"

#include <poll.h>

SNIC_STATIC_ASSERT(sizeof(struct snic_uring_op) <= sizeof(((struct snic_loop_watch *)0)->backend),
                   "the operation lives in the watch");

static struct snic_uring_op *uring_watch_op(struct snic_loop_watch *w)
{
    return (struct snic_uring_op *)(void *)w->backend;
}

static void uring_watch_complete(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct snic_loop_watch *w = SNIC_CONTAINER(op, struct snic_loop_watch, backend);
    (void)flags;
    w->armed = 0;
    w->fn(w, res < 0 ? snic_error_from_os(res) : 0);
}

int snic_loop_watch_start(struct snic_loop *l, struct snic_loop_watch *w)
{
    struct io_uring_sqe *sqe;
    SNIC_ASSERT(!w->armed);
    if (!loop_uring_is(l))
        return SNIC_ENOTSUP;
    uring_watch_op(w)->complete = uring_watch_complete;
    sqe = loop_uring_sqe(l, uring_watch_op(w));
    if (sqe == NULL)
        return SNIC_EAGAIN;
    io_uring_prep_poll_add(sqe, w->fd, POLLIN);
    w->armed = 1;
    return 0;
}

void snic_loop_watch_stop(struct snic_loop *l, struct snic_loop_watch *w)
{
    if (w->armed)
        (void)loop_uring_cancel(l, uring_watch_op(w));
}
