/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Entries without completion, on the loop's io_uring.
 *
 *   U4 A quiet entry that was submitted has failed, and its completion is in the
 *      queue (or in the kernel's overflow list), or it has succeeded. So reap() takes
 *      off the list what has a completion, and when there is no overflow delivers the
 *      rest: first, for these were over before what the completions lead to.
 */
#include "loop/uring_priv.h"

static void loop_uring_quiet_move(struct snic_link *to, struct snic_link *from)
{
    while (!snic_link_alone(from)) {
        struct snic_link *i = from->next;
        snic_link_remove(i);
        snic_link_append(to, i);
    }
}

static void loop_uring_quiet_failed(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct loop_uring_quiet *q = SNIC_CONTAINER(op, struct loop_uring_quiet, op);
    snic_link_remove(&q->link);
    q->complete(op, res, flags);
}

void loop_uring_quiet_init(struct loop_uring_quiet *q, snic_uring_complete_fn complete)
{
    q->op.complete = loop_uring_quiet_failed;
    q->complete = complete;
    snic_link_init(&q->link);
}

int loop_uring_quiet_able(const struct snic_loop *l)
{
    const struct loop_uring *u = loop_uring_self(l);
    /* loop_uring_quiet_now() does not wake a caller that sleeps elsewhere. */
    return u->quiet_able && u->epoll_fd < 0;
}

void loop_uring_quiet(struct snic_loop *l, struct io_uring_sqe *sqe, struct loop_uring_quiet *q,
                      int32_t result)
{
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    q->result = result;
    snic_link_append(&loop_uring_self(l)->quiet, &q->link);
}

void loop_uring_quiet_now(struct snic_loop *l)
{
    loop_uring_self(l)->quiet_now = 1;
}

void loop_uring_quiet_left(struct loop_uring *u)
{
    if (io_uring_sq_ready(&u->ring) == 0)
        loop_uring_quiet_move(&u->quiet_submitted, &u->quiet);
}

uint32_t loop_uring_quiet_deliver(struct loop_uring *u, uint32_t ready)
{
    struct snic_link list;
    uint32_t count = 0;
    if (snic_link_alone(&u->quiet)) /* before the calls: they may set it again */
        u->quiet_now = 0;
    for (uint32_t i = 0; i < ready && !snic_link_alone(&u->quiet_submitted); i++) {
        unsigned at = (*u->ring.cq.khead + i) & *u->ring.cq.kring_mask;
        struct snic_uring_op *op = (struct snic_uring_op *)(uintptr_t)u->ring.cq.cqes[at].user_data;
        if (op->complete == loop_uring_quiet_failed)
            snic_link_remove(&SNIC_CONTAINER(op, struct loop_uring_quiet, op)->link);
    }
    snic_link_init(&list);
    loop_uring_quiet_move(&list, &u->quiet_submitted);
    for (; !snic_link_alone(&list); count++) {
        struct loop_uring_quiet *q = SNIC_CONTAINER(list.next, struct loop_uring_quiet, link);
        snic_link_remove(&q->link);
        u->outstanding--;
        q->complete(&q->op, q->result, 0);
    }
    return count;
}
