/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The table of operations of several steps, and the commands that they send. An op waits for the
 * answers of servers; each arrives, or the server's session ends (dispatch.c). The steps are in
 * lease.c, segment_place.c, segment_move.c and disk_reissue.c.
 */
#include "control/control_priv.h"

void control_op_init(struct snic_control *c)
{
    memset(c->ops, 0, c->o.ops_max * sizeof(*c->ops));
    c->op_free = SNIC_CONTROL__NIL;
    for (uint32_t i = c->o.ops_max; i-- > 0;) {
        c->ops[i].next = c->op_free;
        c->op_free = i;
    }
}

struct control_op *control_op_new(struct snic_control *c, uint32_t type,
                                  const struct control_session *s, uint32_t tag,
                                  struct control_session *charged)
{
    if (c->op_free == SNIC_CONTROL__NIL ||
        (charged != NULL && charged->ops >= c->o.ops_max - c->stats.ops))
        return NULL;
    struct control_op *op = &c->ops[c->op_free];
    SNIC_ASSERT(!op->used);
    uint32_t serial = op->serial + 1;
    c->op_free = op->next;
    memset(op, 0, sizeof(*op));
    op->used = 1;
    op->type = (uint8_t)type;
    op->serial = serial & 0xffffu;
    op->session = s != NULL ? s->index : SNIC_CONTROL__NIL;
    op->tag = tag;
    op->seg = SNIC_CONTROL__NIL;
    op->charged = SNIC_CONTROL__NIL;
    if (charged != NULL) {
        op->charged = charged->index;
        charged->ops++;
    }
    c->stats.ops++;
    return op;
}

void control_op_free(struct snic_control *c, struct control_op *op)
{
    SNIC_ASSERT(op->used);
    SNIC_ASSERT(c->stats.ops > 0);
    if (op->charged != SNIC_CONTROL__NIL) {
        SNIC_ASSERT(c->sessions[op->charged].ops > 0);
        c->sessions[op->charged].ops--;
    }
    op->used = 0;
    op->next = c->op_free;
    c->op_free = (uint32_t)(op - c->ops);
    c->stats.ops--;
}

static uint32_t control_op_tag(const struct snic_control *c, const struct control_op *op)
{
    return op->serial << 16 | ((uint32_t)(op - c->ops) + 1);
}

void control_op_reply(struct snic_control *c, const struct control_op *op, int status,
                      uint64_t value)
{
    struct control_session *s = control_session_at(c, op->session);
    if (s != NULL)
        control_session_reply(s, op->tag, status, value);
}

void control_op_session_gone(struct snic_control *c, uint32_t session)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        if (c->ops[i].used && c->ops[i].session == session)
            c->ops[i].session = SNIC_CONTROL__NIL;
        if (c->ops[i].used && c->ops[i].charged == session)
            c->ops[i].charged = SNIC_CONTROL__NIL;
    }
    c->sessions[session].ops = 0;
}

int control_op_on_disk(const struct snic_control *c, const struct control_disk *d)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++)
        if (c->ops[i].used && c->ops[i].disk == (uint32_t)(d - c->disks))
            return 1;
    return 0;
}

int control_server_command(struct snic_control *c, uint32_t server, struct control_op *op,
                           uint32_t what, uint64_t id, uint32_t vd, uint64_t lba, uint32_t gen,
                           const struct snic_net_addr *from)
{
    SNIC_ASSERT(server < SNIC_CONTROL_SERVERS_MAX);
    SNIC_ASSERT(what != 0);
    SNIC_ASSERT(what < SNIC_CONTROL_OP_END);
    struct control_server *n = &c->servers[server];
    struct control_session *s = control_session_at(c, n->session);
    struct snic_control_msg m;
    if (s == NULL || n->state == CONTROL_DOWN)
        return SNIC_EPEERDEAD;
    control_msg(&m, SNIC_CONTROL_COMMAND, op != NULL ? control_op_tag(c, op) : 0);
    m.op = (uint8_t)what;
    m.segment = id;
    m.vd = vd;
    m.value = lba;
    m.gen = gen;
    if (from != NULL)
        m.addr = *from;
    control_session_send(s, &m);
    if (op != NULL) {
        SNIC_ASSERT((op->await[server / 64] >> server % 64 & 1) == 0);
        op->await[server / 64] |= UINT64_C(1) << server % 64;
        op->awaited++;
        op->sent_ns = control_now(c);
    }
    return 0;
}
