/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * All invariants of the agent at once; the numbers are luna_priv.h's.
 */
#include "luna/luna_priv.h"

struct luna_sums {
    uint32_t rpcs;
    uint32_t refs;
    uint32_t inside;
};

static int luna_check_conn(const struct snic_luna *c, const struct luna_conn *n)
{
    uint32_t outside = 0, writes = 0, rpcs = 0;
    for (const struct snic_link *l = n->rpcs.next; l != &n->rpcs; l = l->next) {
        const struct luna_rpc *r = SNIC_CONTAINER(l, struct luna_rpc, of_conn);
        if (++rpcs > c->o.rpcs_max || r->out == 0 || r->conn != n->index || r->server != n->server)
            return SNIC_ECORRUPT; /* I2 */
        outside += luna_ones(r->out);
        writes += luna_is_write(r->op) ? luna_ones(r->out) : 0;
    }
    if (outside != n->outside || writes != n->write_out)
        return SNIC_ECORRUPT; /* I3 */
    if (n->state != SNIC_LUNA_UP && (outside > 0 || n->probe_out || n->fence_out))
        return SNIC_ECORRUPT;
    /* Somebody wakes up for what is outside. */
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
        if (r->where == LUNA_FREE || r->server != s->index)
            continue;
        rpcs++;
        backlog += r->where == LUNA_READY ? luna_ones(r->need) : 0;
    }
    return ups == s->ups && rpcs == s->rpcs && backlog == s->backlog &&
                   (ups == 0) == (s->dark_ns != SNIC_NEVER)
               ? 0
               : SNIC_ECORRUPT; /* I4 */
}

static int luna_check_rpc(const struct snic_luna *c, const struct luna_rpc *r,
                          struct luna_sums *sum)
{
    if (r->where == LUNA_FREE)
        return r->io == NULL && r->out == 0 ? 0 : SNIC_ECORRUPT;
    sum->rpcs++;
    sum->refs += r->refs;
    if ((r->acked & (r->need | r->out | r->busy)) != 0 || (r->need & (r->out | r->busy)) != 0 ||
        (r->out & r->busy) != 0 || (r->acked | r->need | r->out | r->busy) != r->all)
        return SNIC_ECORRUPT; /* I1 */
    if (snic_link_alone(&r->link) || snic_link_alone(&r->of_disk) ||
        (r->out == 0) != snic_link_alone(&r->of_conn))
        return SNIC_ECORRUPT; /* I2 */
    if (r->queued != (r->where == LUNA_READY ? luna_ones(r->need) : 0))
        return SNIC_ECORRUPT;
    if (r->where == LUNA_ENDED)
        return r->refs > 0 && r->acked == r->all ? 0 : SNIC_ECORRUPT; /* I6 */
    if ((r->where == LUNA_READY) != (r->need != 0 && r->where != LUNA_PARKED) ||
        (r->busy != 0 && !r->timer.armed) || (r->where == LUNA_FENCING && !r->timer.armed) ||
        r->acked == r->all)
        return SNIC_ECORRUPT;
    (void)c;
    return 0;
}

static int luna_check_disk(const struct luna_disk *d, struct luna_sums *sum)
{
    uint32_t waiting = 0;
    uint64_t last = 0;
    for (const struct snic_link *l = d->order.next; l != &d->order; l = l->next) {
        const struct snic_luna_io *io = SNIC_CONTAINER(l, struct snic_luna_io, order);
        if (io->wver != 0 && io->wver <= last)
            return SNIC_ECORRUPT; /* I5 */
        last = snic_max_u64(last, io->wver);
        if (io->wver > d->wver)
            return SNIC_ECORRUPT;
    }
    for (const struct snic_link *l = d->queue.next; l != &d->queue; l = l->next)
        waiting++;
    /* Whoever waits is on a list that is looked at, or has asked for the map. */
    if (waiting > 0 && snic_link_alone(&d->turn) && !d->say_map && !d->map_said)
        return SNIC_ECORRUPT;
    sum->inside += d->inside;
    return d->used || (d->inside == 0 && waiting == 0) ? 0 : SNIC_ECORRUPT;
}

/* A number that is free: nothing of who had it is left. */
static int luna_check_free(const struct snic_luna *c, uint32_t server)
{
    const struct luna_server *s = &c->servers[server];
    for (uint32_t i = 0; i < c->o.conns; i++) {
        const struct luna_conn *n = &c->conns[(size_t)server * c->o.conns + i];
        if (n->state != SNIC_LUNA_UNUSED || n->timer.armed || n->outside != 0)
            return SNIC_ECORRUPT;
    }
    return s->timer.armed || s->rpcs != 0 || !snic_link_alone(&s->event) ? SNIC_ECORRUPT : 0;
}

int snic_luna_check(const struct snic_luna *c)
{
    struct luna_sums sum = {0, 0, 0};
    uint32_t refs = 0, done = 0, nowhere = 0;
    if (luna_pool_check(&c->pool) != 0 || snic_wheel_check(&c->wheel) != 0 ||
        snic_ebs_qos_check(c->qos) != 0)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.servers_max; i++)
        if ((c->servers[i].used ? luna_check_server(c, &c->servers[i]) : luna_check_free(c, i)) !=
            0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        const struct luna_rpc *r = &c->rpcs[i];
        if (r->where == LUNA_FREE || r->server != luna_nowhere(c))
            continue;
        if (r->where != LUNA_PARKED && r->where != LUNA_ENDED)
            return SNIC_ECORRUPT;
        nowhere++;
    }
    if (nowhere != c->servers[luna_nowhere(c)].rpcs)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++)
        if (luna_check_rpc(c, &c->rpcs[i], &sum) != 0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (luna_check_disk(&c->disks[i], &sum) != 0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->pool.max; i++)
        if (c->pool.outs[i].s.state != LUNA_OUT_FREE)
            for (uint32_t k = 0; k < c->pool.outs[i].s.frames; k++)
                refs += c->pool.outs[i].rpc[k] != NULL;
    for (const struct snic_link *l = c->done.next; l != &c->done; l = l->next)
        done++;
    return sum.rpcs == c->s.rpcs && sum.refs == refs && sum.inside + done == c->s.inside
               ? 0
               : SNIC_ECORRUPT;
}
