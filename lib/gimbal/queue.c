/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A tenant's priority queues.
 *
 * I1  last[p] is the last I/O of a circular list in order of submission, or NULL; bit p of ready
 *     is set if it is not NULL; queued counts them all.
 * I2  The queues take turns, the most urgent first, each for priority_weight[p] I/Os: turn is the
 *     queue that sent last and may send left more. Which I/O is next follows from that and from
 *     the queues as they are: an urgent arrival is next at once if its queue's turn is.
 */
#include "gimbal/gimbal_priv.h"

/* The tenant's next I/O; it has one. */
struct snic_gimbal_io *gimbal_tenant_head(const struct gimbal_tenant *t)
{
    unsigned p = t->turn;
    SNIC_DASSERT(t->ready != 0);
    if (t->left == 0 || (t->ready >> p & 1) == 0) {
        unsigned below = t->ready & ((1u << p) - 1);
        p = 31 - (unsigned)__builtin_clz(below != 0 ? below : t->ready);
    }
    return SNIC_CONTAINER(t->last[p]->link.next, struct snic_gimbal_io, link);
}

/* Any I/O of the tenant's queues out of them. */
void gimbal_tenant_take(struct gimbal_tenant *t, struct snic_gimbal_io *io)
{
    SNIC_DASSERT(t->queued > 0);
    t->queued--;
    if (snic_link_alone(&io->link)) {
        t->last[io->priority] = NULL;
        t->ready &= (uint8_t) ~(1u << io->priority);
        return;
    }
    if (t->last[io->priority] == io)
        t->last[io->priority] = SNIC_CONTAINER(io->link.prev, struct snic_gimbal_io, link);
    io->link.prev->next = io->link.next;
    io->link.next->prev = io->link.prev;
}

/* The I/O, which was next, leaves: I2. */
void gimbal_tenant_send(struct gimbal_tenant *t, struct snic_gimbal_io *io)
{
    if (t->left == 0 || t->turn != io->priority) {
        t->turn = io->priority;
        t->left = t->priority_weight[io->priority];
    }
    t->left--;
    gimbal_tenant_take(t, io);
}

void gimbal_tenant_push(struct gimbal_tenant *t, struct snic_gimbal_io *io)
{
    struct snic_gimbal_io *last = t->last[io->priority];
    if (t->ready == 0) {
        t->turn = 0; /* a new cycle, from the most urgent on */
        t->left = 0;
    }
    if (last == NULL) {
        snic_link_init(&io->link);
        t->ready |= (uint8_t)(1u << io->priority);
    } else {
        io->link.next = last->link.next;
        io->link.prev = &last->link;
        last->link.next->prev = &io->link;
        last->link.next = &io->link;
    }
    t->last[io->priority] = io;
    t->queued++;
}
