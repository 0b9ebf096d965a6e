/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * All invariants of the agent at once; the numbers are luna_priv.h's.
 */
#include "luna/luna_priv.h"

struct luna_sums {
    uint32_t rpcs;
    uint32_t refs;
};

static int luna_check_conn(const struct snic_luna *c, const struct luna_conn *n)
{
    uint32_t outside = 0, writes = 0, rpcs = 0;
    for (const struct snic_link *l = n->rpcs.next; l != &n->rpcs; l = l->next) {
        const struct luna_rpc *r = SNIC_CONTAINER(l, struct luna_rpc, of_conn);
        if (++rpcs > c->o.rpcs_max || r->out == 0 || r->conn != n->index ||
            r->q.server != n->server)
            return SNIC_ECORRUPT; /* I2 */
        outside += ebs_ones(r->out);
        writes += ebs_io_writes(r->q.op) ? ebs_ones(r->out) : 0;
    }
    if (outside != n->outside || writes != n->write_out)
        return SNIC_ECORRUPT; /* I3 */
    if (n->state != SNIC_LUNA_UP && (outside > 0 || n->probe_out || n->fence_out))
        return SNIC_ECORRUPT;
    /* A timer is armed while blocks are in flight. */
    int waits = outside > 0 || n->probe_out || n->fence_out || n->state == SNIC_LUNA_CONNECTING ||
                n->state == SNIC_LUNA_GREETING;
    if ((c->o.flags & SNIC_LUNA_PAPER) == 0 && waits && !n->timer.armed)
        return SNIC_ECORRUPT;
    return n->state != SNIC_LUNA_WAITING || n->timer.armed ? 0 : SNIC_ECORRUPT;
}

static int luna_check_server(const struct snic_luna *c, const struct luna_server *s)
{
    uint32_t ups = 0, rpcs = 0, backlog = 0;
    for (uint32_t i = 0; i < c->o.conns; i++) {
        if (luna_check_conn(c, &s->conns[i]) != 0)
            return SNIC_ECORRUPT;
        ups += s->conns[i].state == SNIC_LUNA_UP;
    }
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        const struct luna_rpc *r = &c->rpcs[i];
        if (r->q.where == EBS_RPC_FREE || r->q.server != s->index)
            continue;
        rpcs++;
        backlog += r->q.where == LUNA_READY ? ebs_ones(r->need) : 0;
    }
    return ups == s->ups && rpcs == s->load->rpcs && backlog == s->load->backlog &&
                   (ups == 0) == (s->dark_ns != SNIC_NEVER)
               ? 0
               : SNIC_ECORRUPT; /* I4 */
}

static int luna_check_rpc(const struct luna_rpc *r, struct luna_sums *sum)
{
    if (r->q.where == EBS_RPC_FREE)
        return r->q.io == NULL && r->out == 0 ? 0 : SNIC_ECORRUPT;
    sum->rpcs++;
    sum->refs += r->q.refs;
    if ((r->q.acked & (r->need | r->out | r->busy)) != 0 || (r->need & (r->out | r->busy)) != 0 ||
        (r->out & r->busy) != 0 || (r->q.acked | r->need | r->out | r->busy) != r->q.all)
        return SNIC_ECORRUPT; /* I1 */
    if (snic_link_alone(&r->q.link) || snic_link_alone(&r->q.of_disk) ||
        (r->out == 0) != snic_link_alone(&r->of_conn))
        return SNIC_ECORRUPT; /* I2 */
    if (r->queued != (r->q.where == LUNA_READY ? ebs_ones(r->need) : 0))
        return SNIC_ECORRUPT;
    if (r->q.where == EBS_RPC_ENDED)
        return r->q.refs > 0 && r->q.acked == r->q.all ? 0 : SNIC_ECORRUPT; /* I5 */
    if ((r->q.where == LUNA_READY) != (r->need != 0 && r->q.where != EBS_RPC_PARKED) ||
        (r->busy != 0 && !r->q.timer.armed) ||
        (r->q.where == EBS_RPC_FENCING && !r->q.timer.armed) || r->q.acked == r->q.all)
        return SNIC_ECORRUPT;
    return 0;
}

/* A free number: no state of the server that had it is left. */
static int luna_check_free(const struct snic_luna *c, uint32_t server)
{
    const struct luna_server *s = &c->servers[server];
    for (uint32_t i = 0; i < c->o.conns; i++) {
        const struct luna_conn *n = &c->conns[(size_t)server * c->o.conns + i];
        if (n->state != SNIC_LUNA_UNUSED || n->timer.armed || n->outside != 0)
            return SNIC_ECORRUPT;
    }
    return s->timer.armed || s->load->rpcs != 0 || !snic_link_alone(&s->load->event) ? SNIC_ECORRUPT
                                                                                     : 0;
}

int snic_luna_check(const struct snic_luna *c)
{
    struct luna_sums sum = {0, 0};
    uint32_t refs = 0;
    if (luna_pool_check(&c->pool) != 0 || ebs_queue_check(&c->q) != 0)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.servers_max; i++)
        if ((c->q.loads[i].used ? luna_check_server(c, &c->servers[i]) : luna_check_free(c, i)) !=
            0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++)
        if (luna_check_rpc(&c->rpcs[i], &sum) != 0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->pool.p.max; i++)
        if (c->pool.outs[i].s.state != EBS_LENT_FREE)
            for (uint32_t k = 0; k < c->pool.outs[i].s.frames; k++)
                refs += c->pool.outs[i].rpc[k] != NULL;
    return sum.rpcs == c->q.s.rpcs && sum.refs == refs ? 0 : SNIC_ECORRUPT;
}
