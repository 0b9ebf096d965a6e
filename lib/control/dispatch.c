/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What operations wait for: the answer of a server, the end of its session, time.
 */
#include "control/control_priv.h"

#define SNIC_CONTROL__COMMAND_NS UINT64_C(10000000000)
#define SNIC_CONTROL__COPY_NS UINT64_C(60000000000)

static int control_op_awaits(const struct control_op *op, uint32_t server)
{
    return op->used && (op->await[server / 64] >> server % 64 & 1) != 0;
}

static void control_op_answer(struct snic_control *c, struct control_op *op, uint32_t server,
                              int status)
{
    if (op->type == CONTROL_OP_ATTACH)
        control_attach_answer(c, op, server, status);
    else if (op->type == CONTROL_OP_PLACE)
        control_place_answer(c, op, status);
    else if (op->type == CONTROL_OP_REISSUE)
        control_reissue_answer(c, op, status);
    else
        control_move_answer(c, op, status);
}

static void control_op_answered(struct snic_control *c, struct control_op *op, uint32_t server,
                                int status)
{
    SNIC_ASSERT(control_op_awaits(op, server));
    SNIC_ASSERT(op->awaited > 0);
    op->await[server / 64] &= ~(UINT64_C(1) << server % 64);
    op->awaited--;
    control_op_answer(c, op, server, status);
}

void control_op_result(struct snic_control *c, uint32_t server, uint32_t tag, int status)
{
    uint32_t index = (tag & 0xffffu) - 1;
    if (index >= c->o.ops_max || c->ops[index].serial != tag >> 16 ||
        !control_op_awaits(&c->ops[index], server))
        return; /* of an op that has ended */
    control_op_answered(c, &c->ops[index], server, status);
}

void control_op_server_gone(struct snic_control *c, uint32_t server)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        struct control_op *op = &c->ops[i];
        if (control_op_awaits(op, server))
            control_op_answered(c, op, server, SNIC_EPEERDEAD);
        else if (op->used && op->type == CONTROL_OP_MOVE &&
                 (op->from == server || op->to == server))
            control_move_answer(c, op, SNIC_EPEERDEAD);
        else if (op->used && op->type == CONTROL_OP_PLACE && op->to == server)
            control_place_answer(c, op, SNIC_EPEERDEAD);
        else if (op->used && op->type == CONTROL_OP_REISSUE && op->to == server)
            control_reissue_gone(c, op);
    }
}

/* A server that does not answer a command in time is treated as gone, and registers again. */
static void control_op_late(struct snic_control *c, struct control_op *op)
{
    uint64_t most = op->type >= CONTROL_OP_MOVE ? SNIC_CONTROL__COPY_NS : SNIC_CONTROL__COMMAND_NS;
    if (op->awaited == 0 || control_now(c) - op->sent_ns <= most)
        return;
    for (uint32_t n = 0; n < SNIC_CONTROL_SERVERS_MAX; n++) {
        struct control_session *s = control_session_at(c, c->servers[n].session);
        if (control_op_awaits(op, n) && s != NULL)
            control_session_end(s, 0);
    }
}

void control_op_tick(struct snic_control *c)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        struct control_op *op = &c->ops[i];
        if (op->used)
            control_op_late(c, op);
        if (op->used && op->type == CONTROL_OP_MOVE)
            control_move_tick(c, op);
        else if (op->used && op->type == CONTROL_OP_PLACE)
            control_place_tick(c, op);
        else if (op->used && op->type == CONTROL_OP_REISSUE)
            control_reissue_step(c, op);
    }
}
