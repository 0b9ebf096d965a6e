/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * All invariants of the agent at once; the numbers are solar_priv.h's.
 */
#include "solar/solar_priv.h"

struct solar_sums {
    uint64_t read_out;
    uint32_t rpcs;
    uint32_t refs;
    uint32_t inside;
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
        if (x->seq != seq || x->sent_ns < last || x->sent_ns > c->now_ns)
            return SNIC_ECORRUPT; /* I1 */
        if (x->kind == SOLAR_TX_ASK && solar_ones(x->need) != x->weight)
            return SNIC_ECORRUPT;
        last = x->sent_ns;
        inflight += x->weight;
        writes += x->kind == SOLAR_TX_WRITE;
    }
    if (p->una != p->next_seq && p->ring[p->una % SNIC_SOLAR__RING].kind == SOLAR_TX_NONE)
        return SNIC_ECORRUPT;
    if (inflight != p->inflight || (p->state <= SNIC_SOLAR_OPENING && p->una != p->next_seq))
        return SNIC_ECORRUPT; /* I2 */
    /* Somebody wakes up for what is under way. */
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
        if (r->where == SOLAR_FREE || r->server != s->index)
            continue;
        rpcs++;
        backlog += (uint32_t)(r->count - r->next);
    }
    return writes == s->write_out && alive == s->alive_mask && usable == s->usable_mask &&
                   rpcs == s->rpcs && backlog == s->backlog
               ? 0
               : SNIC_ECORRUPT; /* I2 */
}

/* I3: a block's last copy lies where the block says. */
static int solar_check_block(const struct snic_solar *c, const struct solar_rpc *r, uint32_t pkt)
{
    const struct solar_blk *b = &r->b[pkt];
    uint64_t bit = solar_bit(pkt);
    if ((r->acked & bit) != 0 || pkt >= r->next)
        return 0;
    if (((r->need | r->busy) & bit) != 0 || r->where == SOLAR_PARKED || r->where == SOLAR_FENCING)
        return 0;
    if (b->path >= c->path_slots)
        return SNIC_ECORRUPT;
    const struct solar_path *p = &c->servers[r->server].paths[b->path];
    const struct solar_tx *x = &p->ring[b->seq % SNIC_SOLAR__RING];
    return x->kind != SOLAR_TX_NONE && x->seq == b->seq && x->rpc_id == r->id ? 0 : SNIC_ECORRUPT;
}

static int solar_check_rpc(const struct snic_solar *c, const struct solar_rpc *r,
                           struct solar_sums *sum)
{
    if (r->where == SOLAR_FREE)
        return r->io == NULL ? 0 : SNIC_ECORRUPT;
    sum->rpcs++;
    sum->refs += r->refs;
    if (r->credited && r->where != SOLAR_ENDED)
        sum->read_out += (uint64_t)solar_ones(r->all & ~r->acked) * SNIC_EBS_BLOCK_BYTES;
    if ((r->acked & (r->need | r->busy)) != 0 || (r->need & r->busy) != 0 ||
        (r->need & ~solar_mask(r->next)) != 0 || r->next > r->count || snic_link_alone(&r->link) ||
        snic_link_alone(&r->of_disk))
        return SNIC_ECORRUPT; /* I3, I4 */
    if (r->where == SOLAR_ENDED)
        return r->refs > 0 ? 0 : SNIC_ECORRUPT; /* I7 */
    if ((r->where == SOLAR_AGAIN) !=
            (r->need != 0 && r->where != SOLAR_PARKED && r->where != SOLAR_FENCING) ||
        (r->where == SOLAR_OUT && (r->need != 0 || r->next < r->count)) ||
        (r->busy != 0 && !r->timer.armed) || (r->where == SOLAR_FENCING && !r->timer.armed))
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < r->count; i++)
        if (solar_check_block(c, r, i) != 0)
            return SNIC_ECORRUPT;
    return 0;
}

static int solar_check_disk(const struct snic_solar *c, const struct solar_disk *d,
                            struct solar_sums *sum)
{
    uint32_t waiting = 0;
    uint64_t last = 0;
    for (const struct snic_link *l = d->order.next; l != &d->order; l = l->next) {
        const struct snic_solar_io *io = SNIC_CONTAINER(l, struct snic_solar_io, order);
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
    (void)c;
    return d->used || (d->inside == 0 && waiting == 0) ? 0 : SNIC_ECORRUPT;
}

/* A number that is free: nothing of who had it is left. */
static int solar_check_free(const struct snic_solar *c, uint32_t server)
{
    const struct solar_server *s = &c->servers[server];
    for (uint32_t i = 0; i < c->path_slots; i++) {
        const struct solar_path *p = &c->paths[(size_t)server * c->path_slots + i];
        if (p->state != SNIC_SOLAR_CLOSED || p->timer.armed || p->una != p->next_seq)
            return SNIC_ECORRUPT;
    }
    return s->timer.armed || s->rpcs != 0 || !snic_link_alone(&s->event) ? SNIC_ECORRUPT : 0;
}

int snic_solar_check(const struct snic_solar *c)
{
    struct solar_sums sum = {0, 0, 0, 0};
    uint32_t refs = 0, done = 0, nowhere = 0;
    if (solar_pool_check(&c->pool) != 0 || snic_wheel_check(&c->wheel) != 0 ||
        snic_ebs_addr_check(c->addr) != 0 || snic_ebs_qos_check(c->qos) != 0)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.servers_max; i++)
        if ((c->servers[i].used ? solar_check_server(c, &c->servers[i]) : solar_check_free(c, i)) !=
            0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        const struct solar_rpc *r = &c->rpcs[i];
        if (r->where == SOLAR_FREE || r->server != solar_nowhere(c))
            continue;
        if (r->where != SOLAR_PARKED && r->where != SOLAR_ENDED)
            return SNIC_ECORRUPT;
        nowhere++;
    }
    if (nowhere != c->servers[solar_nowhere(c)].rpcs)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++)
        if (solar_check_rpc(c, &c->rpcs[i], &sum) != 0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (solar_check_disk(c, &c->disks[i], &sum) != 0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < c->pool.max; i++)
        if (c->pool.trains[i].t.state != SOLAR_TRAIN_FREE)
            for (uint32_t k = 0; k < c->pool.trains[i].t.packets; k++)
                refs += c->pool.trains[i].rpc[k] != NULL;
    for (const struct snic_link *l = c->done.next; l != &c->done; l = l->next)
        done++;
    return sum.rpcs == c->s.rpcs && sum.read_out == c->read_out && sum.refs == refs &&
                   sum.inside + done == c->s.inside
               ? 0
               : SNIC_ECORRUPT; /* I6, I7 */
}
