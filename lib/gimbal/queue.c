/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A flow's priority queues.
 *
 * I1  last[p] is the last I/O of a circular list in order of submission, or NULL; bit p of ready
 *     is set if it is not NULL; queued counts them all.
 * I2  The queues take turns, the most urgent first, each for priority_weight[p] I/Os: turn is the
 *     queue that sent last and may send left more. Which I/O is next follows from that and from
 *     the queues as they are: an urgent arrival is next at once if its queue's turn is.
 */
#include "gimbal/gimbal_priv.h"

/* The first I/O of a priority that has one. */
struct snic_gimbal_io *gimbal_flow_first(const struct gimbal_flow *f, unsigned priority)
{
    return SNIC_CONTAINER(f->last[priority]->link.next, struct snic_gimbal_io, link);
}

/* The flow's next I/O; it has one. Of a group's flow: of the tenant that is next (group.c). */
struct snic_gimbal_io *gimbal_flow_head(const struct gimbal_flow *f)
{
    if (f->inner_root != NULL)
        f = gimbal_inner_next(f);
    unsigned p = f->turn;
    SNIC_DASSERT(f->ready != 0);
    if (f->left == 0 || (f->ready >> p & 1) == 0) {
        unsigned below = f->ready & ((1u << p) - 1);
        p = 31 - (unsigned)__builtin_clz(below != 0 ? below : f->ready);
    }
    return gimbal_flow_first(f, p);
}

/* Any I/O of the flow's queues out of them. */
void gimbal_flow_take(struct gimbal_flow *f, struct snic_gimbal_io *io)
{
    SNIC_DASSERT(f->queued > 0);
    f->queued--;
    if (snic_link_alone(&io->link)) {
        f->last[io->priority] = NULL;
        f->ready &= (uint8_t) ~(1u << io->priority);
        return;
    }
    if (f->last[io->priority] == io)
        f->last[io->priority] = SNIC_CONTAINER(io->link.prev, struct snic_gimbal_io, link);
    io->link.prev->next = io->link.next;
    io->link.next->prev = io->link.prev;
}

/* The I/O, which was next, leaves: I2. */
void gimbal_flow_send(struct gimbal_flow *f, struct snic_gimbal_io *io)
{
    if (f->left == 0 || f->turn != io->priority) {
        f->turn = io->priority;
        f->left = f->tenant->priority_weight[io->priority];
    }
    f->left--;
    gimbal_flow_take(f, io);
}

void gimbal_flow_push(struct gimbal_flow *f, struct snic_gimbal_io *io)
{
    struct snic_gimbal_io *last = f->last[io->priority];
    if (f->ready == 0) {
        f->turn = 0; /* a new cycle, from the most urgent on */
        f->left = 0;
    }
    if (last == NULL) {
        snic_link_init(&io->link);
        f->ready |= (uint8_t)(1u << io->priority);
    } else {
        io->link.next = last->link.next;
        io->link.prev = &last->link;
        last->link.next->prev = &io->link;
        last->link.next = &io->link;
    }
    f->last[io->priority] = io;
    f->queued++;
}
