/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A simulated network in a world: nodes, the paths between them, listeners and connections.
 *
 * Everything that takes time is a timer on the loop of the node where it takes effect, so
 * the world orders it, freezes it with its node and replays it. A connection is two structs
 * that point at each other; each keeps what is on its way *to* it.
 *
 * I1  Bytes leave a send request only into a buffer of the receiver's pool, and only while
 *     the receiver holds fewer than recv_buffers (in flight, held back and lent together):
 *     this is the window, and what makes a slow reader stop its sender.
 * I2  Pieces of one direction arrive in order: each no earlier than the one before.
 * I3  User functions are called only from timers of the user's own node.
 * I4  A connection is on its handle's live list from take to give, and give comes right
 *     after `closed`.
 * I5  Memory is taken when the fabric, a handle or the first datagram socket opens, and when a path
 *     is configured.
 */
#include "net/sim_priv.h"

#include <stdlib.h>

/* ---- Listeners and connects ---- */

/*
 * The listener of @node at @port for a client at node @from, or NULL. Several that share the port
 * are numbered in order of listening: the client's node decides where they steer, else a draw.
 */
static struct net_sim_listener *net_sim_listener_pick(struct snic_net_fabric *f, uint32_t node,
                                                      uint32_t port, uint32_t from)
{
    uint64_t count = net_sim_listeners(f, node, port, UINT64_MAX);
    uint64_t draw = count > 1 ? snic_rng_below(f->rng, count) : 0;
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *n = SNIC_CONTAINER(i, struct net_sim, link);
        struct net_sim_listener *l = n->node == node ? net_sim_listener_of(n, port) : NULL;
        if (l == NULL)
            continue;
        uint32_t group = net_steer_of(l->flags);
        uint64_t want = group > 0 && from % group < count ? from % group : draw;
        if (net_sim_listeners(f, node, port, l->serial) == want)
            return l;
    }
    return NULL;
}

static int net_sim_listen(struct snic_net *base, const struct snic_net_addr *a, uint32_t flags,
                          snic_net_accept_fn accept, void *ctx, struct snic_net_listener **out)
{
    struct net_sim *n = (struct net_sim *)base;
    struct net_sim_listener *l = NULL;
    if (a->family != SNIC_NET_SIM)
        return SNIC_ENOTSUP;
    if (a->node != n->node || accept == NULL || !net_listen_flags_valid(flags))
        return SNIC_EINVAL;
    for (struct snic_link *i = n->fabric->handles.next; a->port != 0 && i != &n->fabric->handles;
         i = i->next) {
        struct net_sim *other = SNIC_CONTAINER(i, struct net_sim, link);
        struct net_sim_listener *o =
            other->node == n->node ? net_sim_listener_of(other, a->port) : NULL;
        if (o != NULL && (other == n || (o->flags & flags & SNIC_NET_REUSEPORT) == 0))
            return SNIC_EADDRINUSE;
    }
    for (unsigned i = 0; i < SNIC_NET__SIM_LISTENERS && l == NULL; i++) {
        if (!n->listeners[i].used)
            l = &n->listeners[i];
    }
    if (l == NULL)
        return SNIC_ENOSPC;
    memset(l, 0, sizeof(*l));
    l->l.net = base;
    l->accept = accept;
    l->ctx = ctx;
    l->port = a->port != 0 ? a->port : net_sim_port(n->fabric, n->node);
    l->flags = flags;
    l->serial = n->fabric->next_serial++;
    l->used = 1;
    base->stats.steered += net_steer_of(flags) > 0;
    *out = &l->l;
    return 0;
}

static void net_sim_unlisten(struct snic_net_listener *l)
{
    ((struct net_sim_listener *)l)->used = 0;
}

static void net_sim_addr(struct snic_net_addr *a, uint32_t node, uint16_t port)
{
    memset(a, 0, sizeof(*a));
    a->family = SNIC_NET_SIM;
    a->node = node;
    a->port = port;
}

static int net_sim_listen_addr(const struct snic_net_listener *l, struct snic_net_addr *out)
{
    const struct net_sim_listener *s = (const struct net_sim_listener *)l;
    net_sim_addr(out, ((struct net_sim *)l->net)->node, s->port);
    return 0;
}

/* The answer to a connect is on its way back. */
static void net_sim_answer(struct net_sim_conn *c, int error)
{
    struct net_sim *n = (struct net_sim *)c->c.net;
    SNIC_ASSERT(!c->aux.armed);
    c->aux_loop = n->n.loop;
    snic_timer_init(&c->aux, net_sim_linger_fire);
    c->error = error;
    c->open_ns = snic_world_now(n->fabric->world) + net_sim_path_delay(n->fabric, c->in);
    c->rx_last_ns = c->open_ns;
    net_sim_arm_rx(c);
}

/* The SYN of @t's connection is at the server's node. */
static void net_sim_syn_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct net_sim_conn *c = SNIC_CONTAINER(t, struct net_sim_conn, aux);
    struct net_sim *client = (struct net_sim *)c->c.net;
    struct snic_net_fabric *f = client->fabric;
    if (c->out != NULL && c->out->cut) {
        snic_loop_arm(c->aux_loop, t, now_ns + 1000000000u); /* tries again until the time-out */
        return;
    }
    struct net_sim_listener *l =
        net_sim_listener_pick(f, c->c.peer.node, c->c.peer.port, client->node);
    struct net_sim *server = l != NULL ? (struct net_sim *)l->l.net : NULL;
    struct net_sim_conn *s = server != NULL ? net_sim_conn_take(server) : NULL;
    if (s == NULL) {
        if (server != NULL)
            server->n.stats.errors++;
        net_sim_answer(c, server != NULL ? SNIC_ECONNRESET : SNIC_ECONNREFUSED);
        return;
    }
    s->state = NET_SIM_OPEN;
    s->local_port = l->port;
    s->peer = c;
    s->out = c->in;
    s->in = c->out;
    c->peer = s;
    net_sim_addr(&s->c.peer, client->node, c->local_port);
    net_sim_answer(c, 0);
    server->n.stats.accepted++;
    l->accept(l->ctx, &s->c, &s->c.peer);
    SNIC_ASSERT(s->bound || s->state != NET_SIM_OPEN); /* bind or abort before returning */
}

static int net_sim_connect(struct snic_net *base, const struct snic_net_addr *a,
                           const struct snic_net_stream_events *ev, void *ctx,
                           struct snic_net_conn **out)
{
    struct net_sim *n = (struct net_sim *)base;
    struct snic_net_fabric *f = n->fabric;
    if (a->family != SNIC_NET_SIM)
        return SNIC_ENOTSUP;
    if (a->port == 0 || ev == NULL || ev->recv == NULL || ev->closed == NULL)
        return SNIC_EINVAL;
    struct net_sim_conn *c = n->shutting ? NULL : net_sim_conn_take(n);
    if (c == NULL)
        return SNIC_ENOSPC;
    uint64_t now = snic_world_now(f->world);
    c->state = NET_SIM_CONNECTING;
    c->ev = *ev;
    c->bound = 1;
    c->c.ctx = ctx;
    net_sim_addr(&c->c.peer, a->node, a->port);
    c->local_port = net_sim_port(f, n->node);
    c->out = net_sim_path_find(f, n->node, a->node);
    c->in = net_sim_path_find(f, a->node, n->node);
    snic_loop_arm(n->n.loop, &c->stall, now + SNIC_NET__SIM_TIMEOUT_NS);
    *out = &c->c;
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *s = SNIC_CONTAINER(i, struct net_sim, link);
        if (s->node != a->node)
            continue;
        c->aux_loop = s->n.loop;
        snic_timer_init(&c->aux, net_sim_syn_fire);
        snic_loop_arm(c->aux_loop, &c->aux, now + net_sim_path_delay(f, c->out));
        return 0;
    }
    net_sim_answer(c, SNIC_ECONNREFUSED); /* no such node: the network answers for it */
    return 0;
}

static void net_sim_bind(struct snic_net_conn *base, const struct snic_net_stream_events *ev,
                         void *ctx)
{
    struct net_sim_conn *c = (struct net_sim_conn *)base;
    SNIC_ASSERT(ev->recv != NULL && ev->closed != NULL);
    c->ev = *ev;
    c->c.ctx = ctx;
    c->bound = 1;
}

/* ---- Handles ---- */

static void net_sim_free(struct net_sim *n)
{
    snic_link_remove(&n->link);
    free(n->conn_mem);
    free(n->free_conns);
    free(n->buf_mem);
    free(n->buf_data);
    free(n->dgrams);
    free(n);
}

static void net_sim_shut(struct snic_net *base)
{
    struct net_sim *n = (struct net_sim *)base;
    struct snic_net_fabric *f = n->fabric;
    n->shutting = 1;
    for (unsigned i = 0; i < SNIC_NET__SIM_LISTENERS; i++)
        n->listeners[i].used = 0;
    /* A connect that is under way to this node's loop must not fire there any more. */
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *o = SNIC_CONTAINER(i, struct net_sim, link);
        for (struct snic_link *k = o->conns.next; o != n && k != &o->conns; k = k->next) {
            struct net_sim_conn *c = SNIC_CONTAINER(k, struct net_sim_conn, link);
            if (c->state != NET_SIM_CONNECTING || c->aux_loop != n->n.loop || !c->aux.armed)
                continue;
            snic_loop_cancel(c->aux_loop, &c->aux);
            net_sim_answer(c, SNIC_ECONNREFUSED);
        }
    }
    while (!snic_link_alone(&n->conns)) {
        struct net_sim_conn *c = SNIC_CONTAINER(n->conns.next, struct net_sim_conn, link);
        net_sim_finish(c, SNIC_ECONNABORTED);
        net_sim_drain(c);
    }
    net_sim_dgram_shut(n);
    net_sim_free(n);
}

static const struct snic_net_ops net_sim_ops = {
    .ops_size = sizeof(struct snic_net_ops),
    .name = "sim",
    .listen = net_sim_listen,
    .unlisten = net_sim_unlisten,
    .listen_addr = net_sim_listen_addr,
    .connect = net_sim_connect,
    .bind = net_sim_bind,
    .send = net_sim_send,
    .put = net_sim_put,
    .pause = net_sim_pause,
    .shutdown = net_sim_shutdown,
    .close = net_sim_close,
    .abort = net_sim_abort,
    .dgram_open = net_sim_dgram_open,
    .dgram_send = net_sim_dgram_send,
    .dgram_close = net_sim_dgram_close,
    .close_all = net_sim_shut,
    .dgram_addr = net_sim_dgram_addr,
    .patience = net_sim_patience,
};

/* Paths between the new node and all nodes there are, itself included. */
static int net_sim_paths(struct net_sim *n)
{
    struct snic_net_fabric *f = n->fabric;
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *o = SNIC_CONTAINER(i, struct net_sim, link);
        if (net_sim_path_make(f, n->node, o->node) == NULL ||
            net_sim_path_make(f, o->node, n->node) == NULL)
            return SNIC_ENOMEM;
    }
    return 0;
}

static void net_sim_place(struct net_sim *n)
{
    for (uint32_t i = 0; i < n->opts.pool_buffers; i++) {
        struct net_sim_buf *b = &n->buf_mem[i];
        b->net = n;
        b->mem = n->buf_data + (size_t)i * n->opts.recv_size;
        b->b.backend = i;
        snic_queue_push(&n->bufs, &b->b.node);
    }
    for (uint32_t i = n->opts.conns_max; i > 0; i--)
        n->free_conns[n->free_count++] = &n->conn_mem[i - 1];
}

int snic_net_sim_open(struct snic_net **out, struct snic_net_fabric *f, struct snic_loop *l,
                      const struct snic_net_uring_opts *o)
{
    struct snic_net_uring_opts opts;
    if (net_opts_read(&opts, o) < 0)
        return SNIC_EINVAL;
    if (snic_loop_world(l) != f->world)
        return SNIC_ENOTSUP;
    if (opts.recv_size > f->recv_size)
        opts.recv_size = f->recv_size;
    struct net_sim *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return SNIC_ENOMEM;
    n->n.ops = &net_sim_ops;
    n->n.loop = l;
    n->n.caps = SNIC_NET_CAP_STREAM | SNIC_NET_CAP_DGRAM | SNIC_NET_CAP_TIMESTAMP;
    n->n.zc_bytes_min = UINT32_MAX;
    n->fabric = f;
    n->opts = opts;
    n->node = snic_loop_node(l);
    snic_link_init(&n->conns);
    snic_link_init(&n->waiters);
    snic_link_init(&n->packets);
    snic_link_append(&f->handles, &n->link);
    n->conn_mem = calloc(opts.conns_max, sizeof(*n->conn_mem));
    n->free_conns = calloc(opts.conns_max, sizeof(struct net_sim_conn *));
    n->buf_mem = calloc(opts.pool_buffers, sizeof(*n->buf_mem));
    n->buf_data = calloc(opts.pool_buffers, opts.recv_size);
    n->dgrams = calloc(opts.dgrams_max, sizeof(*n->dgrams));
    if (n->conn_mem == NULL || n->free_conns == NULL || n->buf_mem == NULL || n->buf_data == NULL ||
        n->dgrams == NULL || net_sim_paths(n) < 0) {
        net_sim_free(n);
        return SNIC_ENOMEM;
    }
    net_sim_place(n);
    *out = &n->n;
    return 0;
}

/* ---- The fabric ---- */

int snic_net_fabric_open(struct snic_net_fabric **out, struct snic_world *w,
                         const struct snic_net_fabric_opts *o)
{
    struct snic_net_fabric_opts opts;
    memset(&opts, 0, sizeof(opts));
    opts.opts_size = sizeof(opts);
    if (o != NULL && snic_opts_copy(&opts, sizeof(opts), o) < 0)
        return SNIC_EINVAL;
    if (opts.recv_size == 0)
        opts.recv_size = 4096;
    if (opts.recv_size > 1u << 20 || net_sim_link_read(&opts.link, &opts.link) < 0)
        return SNIC_EINVAL;
    struct snic_net_fabric *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return SNIC_ENOMEM;
    f->world = w;
    f->rng = snic_world_rng(w);
    f->recv_size = opts.recv_size;
    f->link = opts.link;
    f->gather_ns = opts.gather_ns;
    f->graph.converge_ns = opts.converge_ns != 0 ? opts.converge_ns : 1000000;
    snic_link_init(&f->handles);
    snic_link_init(&f->graph.transit);
    *out = f;
    return 0;
}

void snic_net_fabric_close(struct snic_net_fabric *f)
{
    if (f == NULL)
        return;
    SNIC_ASSERT(snic_link_alone(&f->handles)); /* handles are shut before */
    for (unsigned i = 0; i < SNIC_NET__SIM_BUCKETS; i++) {
        for (struct net_sim_path *p = f->paths[i]; p != NULL;) {
            struct net_sim_path *next = p->next;
            free(p);
            p = next;
        }
    }
    net_sim_graph_close(f);
    free(f->packet_mem);
    free(f->packet_data);
    free(f);
}

int snic_net_fabric_link(struct snic_net_fabric *f, uint32_t a, uint32_t b,
                         const struct snic_net_link *l)
{
    struct snic_net_link link;
    if (net_sim_link_read(&link, l) < 0)
        return SNIC_EINVAL;
    struct net_sim_path *p = net_sim_path_make(f, a, b);
    if (p == NULL)
        return SNIC_ENOMEM;
    p->link = link;
    return 0;
}

void snic_net_fabric_partition(struct snic_net_fabric *f, uint32_t a, uint32_t b, int cut)
{
    struct net_sim_path *p = net_sim_path_make(f, a, b);
    SNIC_ASSERT(p != NULL); /* a hundred bytes for a test */
    p->cut = cut != 0;
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *n = SNIC_CONTAINER(i, struct net_sim, link);
        for (struct snic_link *k = n->conns.next; k != &n->conns; k = k->next) {
            struct net_sim_conn *c = SNIC_CONTAINER(k, struct net_sim_conn, link);
            if (c->in == p || c->out == p)
                net_sim_mended(c);
        }
    }
}

void snic_net_fabric_kill(struct snic_net_fabric *f, uint32_t node)
{
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *n = SNIC_CONTAINER(i, struct net_sim, link);
        if (n->node != node)
            continue;
        for (unsigned k = 0; k < SNIC_NET__SIM_LISTENERS; k++)
            n->listeners[k].dead = n->listeners[k].used;
        for (struct snic_link *k = n->conns.next; k != &n->conns; k = k->next)
            net_sim_finish(SNIC_CONTAINER(k, struct net_sim_conn, link), SNIC_ECONNRESET);
    }
}
