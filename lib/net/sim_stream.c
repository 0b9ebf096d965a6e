/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Streams of the simulated network: moving bytes, windows, ends. Invariants are in sim.c.
 *
 * A pump takes bytes from a connection's queued sends into pieces of random size that lie in
 * buffers of the receiver (I1); one timer per connection then delivers what has arrived. A
 * second timer, the kick, reports to the sender: dones, writable, closed, in this order.
 */
#include "net/sim_priv.h"

static void net_sim_rx_fire(struct snic_timer *t, uint64_t now_ns);
static void net_sim_kick_fire(struct snic_timer *t, uint64_t now_ns);
static void net_sim_stall_fire(struct snic_timer *t, uint64_t now_ns);

static struct snic_net_fabric *net_sim_fabric(const struct net_sim_conn *c)
{
    return ((struct net_sim *)c->c.net)->fabric;
}

/* What queued sends complete with when the connection ends for @reason. */
static int32_t net_sim_send_result(int reason)
{
    return reason == SNIC_ECONNRESET || reason == SNIC_ETIMEDOUT ? reason : SNIC_ECANCELED;
}

static void net_sim_kick(struct net_sim_conn *c)
{
    if (!c->kick.armed)
        snic_loop_arm(c->c.net->loop, &c->kick, snic_world_now(net_sim_fabric(c)->world));
}

/* ---- A handle's connections ---- */

struct net_sim_conn *net_sim_conn_take(struct net_sim *n)
{
    if (n->free_count == 0)
        return NULL;
    struct net_sim_conn *c = n->free_conns[--n->free_count];
    uint32_t gen = c->gen;
    memset(c, 0, sizeof(*c));
    c->gen = gen;
    c->c.net = &n->n;
    snic_link_init(&c->wait);
    snic_link_append(&n->conns, &c->link);
    snic_timer_init(&c->rx_timer, net_sim_rx_fire);
    snic_timer_init(&c->kick, net_sim_kick_fire);
    snic_timer_init(&c->stall, net_sim_stall_fire);
    snic_timer_init(&c->aux, net_sim_linger_fire);
    c->aux_loop = n->n.loop;
    c->fin_ns = SNIC_NEVER;
    c->rst_ns = SNIC_NEVER;
    c->open_ns = SNIC_NEVER;
    c->patience_ns = SNIC_NET__SIM_TIMEOUT_NS;
    n->live++;
    n->n.stats.conns_high = snic_max_u64(n->n.stats.conns_high, n->live);
    return c;
}

void net_sim_conn_give(struct net_sim_conn *c)
{
    struct net_sim *n = (struct net_sim *)c->c.net;
    SNIC_ASSERT(c->peer == NULL && snic_queue_empty(&c->rx) && snic_queue_empty(&c->sends));
    snic_loop_cancel(c->aux_loop, &c->aux);
    snic_loop_cancel(n->n.loop, &c->rx_timer);
    snic_loop_cancel(n->n.loop, &c->kick);
    snic_loop_cancel(n->n.loop, &c->stall);
    snic_link_remove(&c->link);
    snic_link_remove(&c->wait);
    c->state = NET_SIM_FREE;
    c->gen++;
    n->live--;
    n->free_conns[n->free_count++] = c;
}

/* ---- Buffers ---- */

static void net_sim_buf_free(struct net_sim_buf *b)
{
    struct net_sim *n = b->net;
    b->owner = NULL;
    snic_queue_push(&n->bufs, &b->b.node);
    if (!snic_link_alone(&n->waiters)) {
        struct net_sim_conn *w = SNIC_CONTAINER(n->waiters.next, struct net_sim_conn, wait);
        snic_link_remove(&w->wait);
        net_sim_pump(w);
    }
}

static void net_sim_rx_drop(struct net_sim_conn *c)
{
    struct snic_queue rx = c->rx;
    memset(&c->rx, 0, sizeof(c->rx));
    c->rx_count = 0;
    for (struct snic_node *n = snic_queue_pop(&rx); n != NULL; n = snic_queue_pop(&rx))
        net_sim_buf_free((struct net_sim_buf *)SNIC_CONTAINER(n, struct snic_net_buf, node));
}

void net_sim_put(struct snic_net_buf *base)
{
    struct net_sim_buf *b = (struct net_sim_buf *)base;
    struct net_sim_conn *c = b->owner;
    SNIC_ASSERT(c != NULL); /* put twice */
    if (c->gen != b->owner_gen)
        c = NULL;
    if (c != NULL)
        c->lent--;
    net_sim_buf_free(b);
    if (c != NULL && c->peer != NULL)
        net_sim_pump(c->peer);
}

/* ---- Ends ---- */

/* A reset is on its way to @p, behind everything that is. */
static void net_sim_reset(struct net_sim_conn *p)
{
    if (p->state == NET_SIM_DYING || p->rst_ns != SNIC_NEVER || net_sim_cut(p))
        return;
    uint64_t at =
        snic_world_now(net_sim_fabric(p)->world) + net_sim_path_delay(net_sim_fabric(p), p->in);
    p->rst_ns = snic_max_u64(at, p->rx_last_ns);
    net_sim_arm_rx(p);
}

/* The connection is over for @reason; dones and closed follow from its own node's timer. */
void net_sim_finish(struct net_sim_conn *c, int reason)
{
    struct net_sim *n = (struct net_sim *)c->c.net;
    struct net_sim_conn *p = c->peer;
    if (c->state == NET_SIM_DYING)
        return;
    snic_loop_cancel(n->n.loop, &c->rx_timer);
    snic_loop_cancel(n->n.loop, &c->stall);
    snic_loop_cancel(c->aux_loop, &c->aux);
    c->aux_loop = n->n.loop;
    snic_link_remove(&c->wait);
    c->report = c->state == NET_SIM_CONNECTING && reason != SNIC_ECONNABORTED;
    c->state = NET_SIM_DYING;
    c->error = reason;
    if (reason != 0)
        n->n.stats.errors++;
    struct snic_node *node = snic_queue_pop(&c->sends);
    for (; node != NULL; node = snic_queue_pop(&c->sends)) {
        SNIC_CONTAINER(node, struct snic_net_send_req, node)->result = net_sim_send_result(reason);
        snic_queue_push(&c->dones, node);
    }
    c->peer = NULL;
    if (p != NULL)
        p->peer = NULL;
    net_sim_rx_drop(c);
    if (p != NULL) {
        if (reason != 0)
            net_sim_reset(p);
        else
            net_sim_pump(p); /* what it still sends is discarded */
    }
    net_sim_kick(c);
}

/* Both directions have ended in order? */
static void net_sim_check_end(struct net_sim_conn *c)
{
    if (c->state != NET_SIM_OPEN || !c->fin_sent || c->send_count > 0)
        return;
    if (c->closing ? c->peer == NULL || (!c->aux.armed && !net_sim_cut(c)) : c->eof)
        net_sim_finish(c, 0);
}

/* All that was sent before a close has arrived: nothing can be lost any more. */
void net_sim_linger_fire(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    net_sim_check_end(SNIC_CONTAINER(t, struct net_sim_conn, aux));
}

static void net_sim_stall_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct net_sim_conn *c = SNIC_CONTAINER(t, struct net_sim_conn, stall);
    (void)now_ns;
    net_sim_finish(c, SNIC_ETIMEDOUT);
}

/* A path of @c was cut or mended. */
void net_sim_mended(struct net_sim_conn *c)
{
    struct snic_loop *l = c->c.net->loop;
    uint64_t now = snic_world_now(net_sim_fabric(c)->world);
    if (c->state == NET_SIM_DYING)
        return;
    if (net_sim_cut(c)) {
        if (!c->stall.armed)
            snic_loop_arm(l, &c->stall, now + c->patience_ns);
    } else {
        if (c->state == NET_SIM_OPEN)
            snic_loop_cancel(l, &c->stall);
        if (c->state == NET_SIM_OPEN && c->peer == NULL && c->fin_ns == SNIC_NEVER)
            net_sim_reset(c); /* keep-alive finds out */
        if (c->closing && c->fin_sent && !c->aux.armed)
            snic_loop_arm(l, &c->aux, now + net_sim_path_delay(net_sim_fabric(c), c->in));
        net_sim_pump(c);
    }
    net_sim_arm_rx(c);
}

/* What is under way begins anew. */
int net_sim_patience(struct snic_net_conn *base, uint32_t ms)
{
    struct net_sim_conn *c = (struct net_sim_conn *)base;
    if (ms == 0 || ms > SNIC_NET__PATIENCE_MAX)
        return SNIC_EINVAL;
    c->patience_ns = (uint64_t)ms * 1000000u;
    if (c->stall.armed) {
        snic_loop_cancel(c->c.net->loop, &c->stall);
        snic_loop_arm(c->c.net->loop, &c->stall,
                      snic_world_now(net_sim_fabric(c)->world) + c->patience_ns);
    }
    return 0;
}

/* ---- Sending ---- */

/* Copy up to @max bytes out of the queued sends; finished ones go to dones. */
static uint32_t net_sim_take(struct net_sim_conn *c, unsigned char *to, uint32_t max)
{
    uint32_t got = 0;
    while (!snic_queue_empty(&c->sends)) {
        struct snic_net_send_req *s =
            SNIC_CONTAINER(c->sends.first, struct snic_net_send_req, node);
        const struct snic_iov *v = &s->iov[c->iov_at];
        if (got == max && c->iov_off < v->size)
            break; /* empty pieces at the end go with what is before them */
        size_t n = snic_min_u64(max - got, v->size - c->iov_off);
        if (to != NULL && n > 0)
            memcpy(to + got, (unsigned char *)v->base + c->iov_off, n);
        got += (uint32_t)n;
        c->iov_off += n;
        if (c->iov_off < v->size)
            continue;
        c->iov_off = 0;
        if (++c->iov_at < s->iov_count)
            continue;
        c->iov_at = 0;
        s->result = 0;
        snic_queue_push(&c->dones, snic_queue_pop(&c->sends));
        net_sim_kick(c);
    }
    c->c.net->stats.sent_bytes += got;
    return got;
}

/* When @bytes that leave @c now reach its peer. */
static uint64_t net_sim_arrival(struct net_sim_conn *c, uint64_t bytes)
{
    struct snic_net_fabric *f = net_sim_fabric(c);
    uint64_t at = net_sim_path_arrival(f, c->out, bytes);
    uint32_t loss = c->out != NULL ? c->out->link.loss_ppm : f->link.loss_ppm;
    if (at == SNIC_NEVER) /* the queue dropped it */
        at = c->out->busy_ns + SNIC_NET__SIM_RTO_NS;
    else if (loss > 0 && snic_rng_below(f->rng, 1000000) < loss)
        at += SNIC_NET__SIM_RTO_NS;
    c->peer->rx_last_ns = snic_max_u64(at, c->peer->rx_last_ns); /* I2 */
    return c->peer->rx_last_ns;
}

/* One piece on its way; 0 when the window or the pool has no room. */
static int net_sim_piece(struct net_sim_conn *c)
{
    struct net_sim_conn *p = c->peer;
    struct net_sim *to = (struct net_sim *)p->c.net;
    struct snic_net_fabric *f = net_sim_fabric(c);
    uint32_t max = to->opts.recv_size;
    if (p->closing) {
        (void)net_sim_take(c, NULL, UINT32_MAX);
        return 1;
    }
    if (p->rx_count + p->lent >= to->opts.recv_buffers) {
        to->n.stats.pauses++;
        return 0; /* I1 */
    }
    struct snic_node *node = snic_queue_pop(&to->bufs);
    if (node == NULL) {
        to->n.stats.pauses++;
        if (snic_link_alone(&c->wait))
            snic_link_append(&to->waiters, &c->wait);
        return 0;
    }
    struct net_sim_buf *b = (struct net_sim_buf *)SNIC_CONTAINER(node, struct snic_net_buf, node);
    if (snic_rng_below(f->rng, 2) == 0)
        max = 1 + (uint32_t)snic_rng_below(f->rng, max);
    b->b.data = b->mem;
    b->b.size = net_sim_take(c, b->mem, max);
    b->b.conn = &p->c;
    b->owner = p;
    b->owner_gen = p->gen;
    b->arrive_ns = net_sim_arrival(c, b->b.size);
    snic_queue_push(&p->rx, &b->b.node);
    p->rx_count++;
    return 1;
}

/* Move what can be moved, then our end if that is due. */
void net_sim_pump(struct net_sim_conn *c)
{
    struct net_sim_conn *p = c->peer;
    if (c->state != NET_SIM_OPEN)
        return;
    if (p == NULL && !snic_queue_empty(&c->sends)) {
        net_sim_reset(c); /* after a moment; sends wait for it */
        return;
    }
    while (!snic_queue_empty(&c->sends)) {
        if (!net_sim_piece(c))
            break;
    }
    if (snic_queue_empty(&c->sends) && c->shut && !c->fin_sent) {
        c->fin_sent = 1;
        if (p != NULL) {
            p->fin_ns = net_sim_arrival(c, 0);
            if (c->closing && !net_sim_cut(c))
                snic_loop_arm(c->aux_loop, &c->aux,
                              p->fin_ns + net_sim_path_delay(net_sim_fabric(c), c->in));
        }
        net_sim_kick(c);
    }
    if (p != NULL)
        net_sim_arm_rx(p);
}

int net_sim_send(struct snic_net_conn *base, struct snic_net_send_req *s)
{
    struct net_sim_conn *c = (struct net_sim_conn *)base;
    struct net_sim *n = (struct net_sim *)base->net;
    if (c->state == NET_SIM_DYING || c->shut)
        return SNIC_EPIPE;
    if (!net_send_valid(s))
        return SNIC_EINVAL;
    if (c->send_count >= n->opts.send_queue) {
        c->full = 1;
        return 0;
    }
    n->n.stats.send_requests++;
    c->send_count++;
    snic_queue_push(&c->sends, &s->node);
    net_sim_pump(c);
    return 1;
}

void net_sim_shutdown(struct snic_net_conn *base)
{
    struct net_sim_conn *c = (struct net_sim_conn *)base;
    if (c->state == NET_SIM_DYING || c->shut)
        return;
    c->shut = 1;
    net_sim_pump(c);
}

void net_sim_close(struct snic_net_conn *base)
{
    struct net_sim_conn *c = (struct net_sim_conn *)base;
    struct net_sim_conn *p = c->peer;
    if (c->state == NET_SIM_CONNECTING) {
        net_sim_finish(c, SNIC_ECONNABORTED);
        return;
    }
    if (c->state == NET_SIM_DYING || c->closing)
        return;
    c->closing = 1;
    c->shut = 1;
    net_sim_rx_drop(c);
    if (p != NULL)
        net_sim_pump(p); /* what it sends is discarded from now on */
    if (c->fin_sent && p != NULL && !net_sim_cut(c))
        snic_loop_arm(c->aux_loop, &c->aux,
                      snic_max_u64(p->fin_ns, snic_world_now(net_sim_fabric(c)->world)) +
                          net_sim_path_delay(net_sim_fabric(c), c->in));
    net_sim_pump(c);
    net_sim_kick(c);
}

void net_sim_abort(struct snic_net_conn *base)
{
    net_sim_finish((struct net_sim_conn *)base, SNIC_ECONNABORTED);
}

/* Dones, then writable; for a dying connection closed, after which it is gone. */
static void net_sim_report(struct net_sim_conn *c)
{
    struct snic_queue dones = c->dones;
    memset(&c->dones, 0, sizeof(c->dones));
    if (c->report) {
        c->report = 0;
        if (c->ev.connected != NULL)
            c->ev.connected(c->c.ctx, &c->c, c->error);
    }
    for (struct snic_node *n = snic_queue_pop(&dones); n != NULL; n = snic_queue_pop(&dones)) {
        struct snic_net_send_req *s = SNIC_CONTAINER(n, struct snic_net_send_req, node);
        c->send_count--;
        s->done(s);
    }
    net_sim_check_end(c);
    if (c->state == NET_SIM_DYING) {
        if (!snic_queue_empty(&c->dones)) {
            net_sim_kick(c);
            return;
        }
        SNIC_ASSERT(c->send_count == 0);
        c->c.net->stats.closed++;
        if (c->bound)
            c->ev.closed(c->c.ctx, &c->c, c->error);
        net_sim_conn_give(c);
        return;
    }
    if (c->full && !c->shut && c->send_count <= ((struct net_sim *)c->c.net)->opts.send_queue / 2) {
        c->full = 0;
        if (c->ev.writable != NULL)
            c->ev.writable(c->c.ctx, &c->c);
    }
}

static void net_sim_kick_fire(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    net_sim_report(SNIC_CONTAINER(t, struct net_sim_conn, kick));
}

/* For shut: report until @c is gone. */
void net_sim_drain(struct net_sim_conn *c)
{
    while (c->state == NET_SIM_DYING)
        net_sim_report(c);
}

/* ---- Receiving ---- */

/* The one timer is armed at the next thing that can be delivered. */
void net_sim_arm_rx(struct net_sim_conn *c)
{
    uint64_t at = c->rst_ns;
    if (c->state == NET_SIM_DYING || (c->in != NULL && c->in->cut)) {
        snic_loop_cancel(c->c.net->loop, &c->rx_timer);
        return;
    }
    if (c->state == NET_SIM_CONNECTING) {
        at = c->open_ns;
    } else if (!c->paused && !c->closing) {
        if (!snic_queue_empty(&c->rx)) {
            struct snic_net_buf *b = SNIC_CONTAINER(c->rx.first, struct snic_net_buf, node);
            at = snic_min_u64(at, ((struct net_sim_buf *)b)->arrive_ns);
        } else if (!c->eof) {
            at = snic_min_u64(at, c->fin_ns);
        }
    }
    if (at == SNIC_NEVER)
        snic_loop_cancel(c->c.net->loop, &c->rx_timer);
    else
        snic_loop_arm(c->c.net->loop, &c->rx_timer,
                      snic_max_u64(at, snic_world_now(net_sim_fabric(c)->world)));
}

/* The answer to our connect is here. */
static void net_sim_answered(struct net_sim_conn *c)
{
    struct snic_loop *l = c->c.net->loop;
    if (c->error != 0) {
        net_sim_finish(c, c->error);
        return;
    }
    c->state = NET_SIM_OPEN;
    if (!net_sim_cut(c))
        snic_loop_cancel(l, &c->stall);
    c->c.net->stats.connected++;
    if (c->ev.connected != NULL)
        c->ev.connected(c->c.ctx, &c->c, 0);
    net_sim_pump(c);
}

/* Deliver one piece or the end; 0 when none is due. */
static int net_sim_deliver(struct net_sim_conn *c, uint64_t now_ns)
{
    struct net_sim *n = (struct net_sim *)c->c.net;
    if (c->state != NET_SIM_OPEN || c->paused || c->closing || (c->in != NULL && c->in->cut))
        return 0;
    if (snic_queue_empty(&c->rx)) {
        if (c->eof || c->fin_ns > now_ns)
            return 0;
        c->eof = 1;
        if (c->ev.eof != NULL)
            c->ev.eof(c->c.ctx, &c->c);
        net_sim_check_end(c);
        return 1;
    }
    struct snic_net_buf *b = SNIC_CONTAINER(c->rx.first, struct snic_net_buf, node);
    if (((struct net_sim_buf *)b)->arrive_ns > now_ns)
        return 0;
    (void)snic_queue_pop(&c->rx);
    c->rx_count--;
    c->lent++;
    SNIC_ASSERT(c->rx_count + c->lent <= n->opts.recv_buffers); /* I1 */
    n->n.stats.recv_events++;
    n->n.stats.recv_bytes += b->size;
    c->ev.recv(c->c.ctx, &c->c, b);
    return 1;
}

static void net_sim_rx_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct net_sim_conn *c = SNIC_CONTAINER(t, struct net_sim_conn, rx_timer);
    if (c->state == NET_SIM_CONNECTING && c->open_ns <= now_ns)
        net_sim_answered(c);
    while (net_sim_deliver(c, now_ns)) {
    }
    if (c->state == NET_SIM_OPEN && c->rst_ns <= now_ns && !(c->in != NULL && c->in->cut))
        net_sim_finish(c, SNIC_ECONNRESET);
    if (c->state != NET_SIM_FREE)
        net_sim_arm_rx(c);
}

void net_sim_pause(struct snic_net_conn *base, int paused)
{
    struct net_sim_conn *c = (struct net_sim_conn *)base;
    c->paused = paused != 0;
    net_sim_arm_rx(c);
}
