/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * All invariants of the agent at once; the numbers are solar_priv.h's.
 */
#include "solar/solar_priv.h"

struct solar_sums {
    uint64_t read_out;
    uint32_t rpcs;
    uint32_t refs;
};

static int solar_check_path(const struct snic_solar *c, const struct solar_path *p)
{
    uint32_t inflight = 0, writes = 0;
    if (p->next_seq - p->una > SNIC_SOLAR__RING)
        return SNIC_ECORRUPT; /* I1 */
    uint64_t last = 0;
    for (uint32_t seq = p->una; seq != p->next_seq; seq++) {
        const struct solar_tx *x = &p->ring[seq % SNIC_SOLAR__RING];
        if (x->kind == SOLAR_TX_NONE)
            continue;
        if (x->seq != seq || x->sent_ns < last || x->sent_ns > c->q.now_ns)
            return SNIC_ECORRUPT; /* I1 */
        if (x->kind == SOLAR_TX_READ && ebs_ones(x->need) != x->weight)
            return SNIC_ECORRUPT;
        last = x->sent_ns;
        inflight += x->weight;
        writes += x->kind == SOLAR_TX_WRITE;
    }
    if (p->una != p->next_seq && p->ring[p->una % SNIC_SOLAR__RING].kind == SOLAR_TX_NONE)
        return SNIC_ECORRUPT;
    if (inflight != p->inflight || (p->state <= SNIC_SOLAR_OPENING && p->una != p->next_seq))
        return SNIC_ECORRUPT; /* I2 */
    /* A timer is armed while transmissions are in flight. */
    if (p->una != p->next_seq && !p->timer.armed)
        return SNIC_ECORRUPT;
    return (int)writes;
}

static int solar_check_server(const struct snic_solar *c, const struct solar_server *s)
{
    uint32_t writes = 0, alive = 0, usable = 0, rpcs = 0, backlog = 0;
    for (uint32_t i = 0; i < c->path_slots; i++) {
        int n = solar_check_path(c, &s->paths[i]);
        if (n < 0)
            return n;
        writes += (uint32_t)n;
        alive |= (uint32_t)(s->paths[i].state == SNIC_SOLAR_ALIVE) << i;
        usable |= (uint32_t)(s->paths[i].state > SNIC_SOLAR_OPENING) << i;
    }
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        const struct solar_rpc *r = &c->rpcs[i];
        if (r->q.where == EBS_RPC_FREE || r->q.server != s->index)
            continue;
        rpcs++;
        backlog += (uint32_t)(r->q.count - r->next);
    }
    return writes == s->write_out && alive == s->alive_mask && usable == s->usable_mask &&
                   rpcs == s->load->rpcs && backlog == s->load->backlog
               ? 0
               : SNIC_ECORRUPT; /* I2 */
}

/* I3: a block's last copy is in the ring entry that the block refers to. */
static int solar_check_block(const struct snic_solar *c, const struct solar_rpc *r, uint32_t pkt)
{
    const struct solar_blk *b = &r->b[pkt];
    uint64_t bit = ebs_bit(pkt);
    if ((r->q.acked & bit) != 0 || pkt >= r->next)
        return 0;
    if (((r->need | r->busy) & bit) != 0 || r->q.where == EBS_RPC_PARKED ||
        r->q.where == EBS_RPC_FENCING)
        return 0;
    if (b->path >= c->path_slots)
        return SNIC_ECORRUPT;
    const struct solar_path *p = &c->servers[r->q.server].paths[b->path];
    const struct solar_tx *x = &p->ring[b->seq % SNIC_SOLAR__RING];
    return x->kind != SOLAR_TX_NONE && x->seq == b->seq && x->rpc_id == r->q.id ? 0 : SNIC_ECORRUPT;
}

static int solar_check_rpc(const struct snic_solar *c, const struct solar_rpc *r,
                           struct solar_sums *sum)
{
    if (r->q.where == EBS_RPC_FREE)
        return r->q.io == NULL ? 0 : SNIC_ECORRUPT;
    sum->rpcs++;
    sum->refs += r->q.refs;
    if (r->credited && r->q.where != EBS_RPC_ENDED)
        sum->read_out += (uint64_t)ebs_ones(r->q.all & ~r->q.acked) * SNIC_EBS_BLOCK_BYTES;
    if ((r->q.acked & (r->need | r->busy)) != 0 || (r->need & r->busy) != 0 ||
        (r->need & ~ebs_mask(r->next)) != 0 || r->next > r->q.count ||
        snic_link_alone(&r->q.link) || snic_link_alone(&r->q.of_disk))
        return SNIC_ECORRUPT; /* I3, I4 */
    if (r->q.where == EBS_RPC_ENDED)
        return r->q.refs > 0 ? 0 : SNIC_ECORRUPT; /* I6 */
    if ((r->q.where == SOLAR_AGAIN) !=
            (r->need != 0 && r->q.where != EBS_RPC_PARKED && r->q.where != EBS_RPC_FENCING) ||
        (r->q.where == EBS_RPC_OUT && (r->need != 0 || r->next < r->q.count)) ||
        (r->busy != 0 && !r->q.timer.armed) || (r->q.where == EBS_RPC_FENCING && !r->q.timer.armed))
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < r->q.count; i++)
        if (solar_check_block(c, r, i) != 0)
            return SNIC_ECORRUPT;
    return 0;
}

/* A free number: no state of the server that had it is left. */
static int solar_check_free(const struct snic_solar *c, uint32_t server)
{
    const struct solar_server *s = &c->servers[server];
    for (uint32_t i = 0; i < c->path_slots; i++) {
        const struct solar_path *p = &c->paths[(size_t)server * c->path_slots + i];
        if (p->state != SNIC_SOLAR_CLOSED || p->timer.armed || p->una != p->next_seq)
            return SNIC_ECORRUPT;
    }
    return s->timer.armed || s->load->rpcs != 0 || !snic_link_alone(&s->load->event) ? SNIC_ECORRUPT
                                                                                     : 0;
}

int snic_solar_check(const struct snic_solar *c)
{
    struct solar_sums sum = {0, 0, 0};
    uint32_t refs = 0;
    if (solar_pool_check(&c->pool) != 0 || snic_ebs_addr_check(c->addr) != 0 ||
        ebs_queue_check(&c->q) != 0)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.servers_max; i++)
        if ((c->q.loads[i].used ? solar_check_server(c, &c->servers[i]) : solar_check_free(c, i)) !=
            0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++)
        if (solar_check_rpc(c, &c->rpcs[i], &sum) != 0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->pool.p.max; i++)
        if (c->pool.trains[i].t.state != EBS_LENT_FREE)
            for (uint32_t k = 0; k < c->pool.trains[i].t.packets; k++)
                refs += c->pool.trains[i].rpc[k] != NULL;
    return sum.rpcs == c->q.s.rpcs && sum.read_out == c->read_out && sum.refs == refs
               ? 0
               : SNIC_ECORRUPT; /* I5, I6 */
}
