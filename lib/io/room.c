/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The queue of users that wait for room on a handle.
 *
 * Invariants
 *   R1 If users wait and `ready` holds, the message is queued in the loop: no wake-up is lost.
 *   R2 A message serves the first waiter only; the others have the next messages, so that the
 *      users of one handle do not delay the loop.
 *   R3 While users wait, submit accepts requests only during R2: snic_io_room_taken().
 */
#include "snicstore/io.h"

void snic_io_room_freed(struct snic_io_room *r)
{
    if (r->message_on || snic_link_alone(&r->waiters) || !r->ready(r))
        return;
    r->message_on = 1;
    snic_loop_defer(r->io->loop, &r->message);
}

static void io_room_message(struct snic_loop_msg *msg)
{
    struct snic_io_room *r = SNIC_CONTAINER(msg, struct snic_io_room, message);
    SNIC_ASSERT(r->message_on);
    r->message_on = 0;
    if (!snic_link_alone(&r->waiters) && r->ready(r)) {
        struct snic_io_waiter *w = SNIC_CONTAINER(r->waiters.next, struct snic_io_waiter, link);
        snic_link_remove(&w->link); /* it may wait again, behind the others */
        r->serving = 1;
        w->writable(w);
        r->serving = 0;
    }
    snic_io_room_freed(r); /* R1 */
}

void snic_io_room_init(struct snic_io_room *r, struct snic_io *io, snic_io_room_ready_fn ready)
{
    SNIC_ASSERT(io->loop != NULL);
    r->io = io;
    r->ready = ready;
    snic_link_init(&r->waiters);
    memset(&r->message, 0, sizeof(r->message));
    r->message.fn = io_room_message;
    r->message_on = 0;
    r->serving = 0;
}

void snic_io_room_wait(struct snic_io_room *r, struct snic_io_waiter *w)
{
    SNIC_ASSERT(w->writable != NULL);
    if (!snic_link_alone(&w->link))
        return;
    snic_link_append(&r->waiters, &w->link);
    if (!r->serving)
        snic_io_room_freed(r); /* R1 */
}
