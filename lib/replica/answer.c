/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Answers to the embedder. One comes in the middle of a step; it is delivered by a timer that is
 * due at once, so that `done` may submit again.
 */
#include "replica_priv.h"

void replica_op_finish(struct snic_replica *r, struct snic_replica_op *op, int result)
{
    snic_link_remove(&op->link);
    op->state = REPLICA_OP_DONE;
    op->result = result;
    op->data = NULL;
    op->size = 0;
    op->value = 0;
    snic_link_append(&r->done, &op->link);
}

/* DONE of the data path. */
void replica_client_done(struct snic_replica *r, const struct snic_ddp_action *a)
{
    struct snic_replica_op *op = (struct snic_replica_op *)(uintptr_t)a->token;
    SNIC_ASSERT(op != NULL && op->state == REPLICA_OP_FLIGHT);
    int reads = op->kind == SNIC_REPLICA_GET || a->result == SNIC_ECANCELED;
    replica_op_finish(r, op, a->result);
    op->ts = a->msg.ts;
    op->copies = a->copies;
    if (reads && (a->result == 0 || a->result == SNIC_ECANCELED) && a->msg.ts != 0 &&
        (a->flags & SNIC_DDP_MSG_TOMBSTONE) == 0) {
        op->value = a->msg.value;
        op->data = replica_value_at(&r->values, op->value, &op->size);
        replica_value_hold(&r->values, op->value); /* N2 */
    }
}

/* The node has stopped: operations in flight would not be answered otherwise. */
void replica_client_end(struct snic_replica *r)
{
    replica_client_unconfirmed(r);
    while (!snic_link_alone(&r->flight)) {
        struct snic_replica_op *op = SNIC_CONTAINER(r->flight.next, struct snic_replica_op, link);
        replica_op_finish(r, op, op->kind == SNIC_REPLICA_GET ? SNIC_ESTALE : SNIC_EUNKNOWN);
    }
}

/* This node is FULL no more: there is no confirmation to wait for. */
void replica_client_unconfirmed(struct snic_replica *r)
{
    while (!snic_link_alone(&r->confirms))
        replica_op_finish(r, SNIC_CONTAINER(r->confirms.next, struct snic_replica_op, link),
                          SNIC_ESTALE);
}

/* Arm the timer by which the loop delivers answers and notify, if there are any. */
void replica_deliver(struct snic_replica *r)
{
    if (r->o.notify == NULL)
        r->notify = 0;
    if ((!snic_link_alone(&r->done) || r->notify) && !r->deliver.armed)
        snic_loop_arm(r->o.loop, &r->deliver, 0);
}

void replica_deliver_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_replica *r = SNIC_CONTAINER(t, struct snic_replica, deliver);
    struct snic_link batch;
    uint32_t notify = r->notify;
    (void)now_ns;
    r->notify = 0;
    snic_link_init(&batch);
    while (!snic_link_alone(&r->done)) {
        struct snic_link *l = r->done.next;
        snic_link_remove(l);
        snic_link_append(&batch, l);
    }
    while (!snic_link_alone(&batch)) {
        struct snic_replica_op *op = SNIC_CONTAINER(batch.next, struct snic_replica_op, link);
        uint64_t value = op->value;
        snic_link_remove(&op->link);
        op->state = REPLICA_OP_FREE;
        r->ops--;
        op->done(op);
        if (value != 0)
            replica_value_drop(&r->values, value);
    }
    if (notify)
        r->o.notify(r->o.ctx);
}
