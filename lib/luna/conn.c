/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections of the agent: opened, HELLO, watched, ended and opened again; and whether a server
 * has any.
 */
#include "luna/luna_priv.h"

#define SNIC_LUNA__WAIT_MIN_NS SNIC_LUNA__MS

/* ---- Events ---- */

static void luna_conn_report(struct snic_luna *c, struct luna_conn *n, uint8_t what)
{
    n->pending |= what;
    if (snic_link_alone(&n->event))
        snic_link_append(&c->conn_events, &n->event);
}

/* ---- SUSPECT and RECOVERED ---- */

static void luna_server_light(struct snic_luna *c, struct luna_server *s)
{
    if (s->ups == 0 && s->dark_ns == SNIC_NEVER) {
        s->dark_ns = c->q.now_ns;
        snic_wheel_arm(&c->q.wheel, &s->timer, s->dark_ns + c->o.suspect_ns);
    } else if (s->ups > 0) {
        s->dark_ns = SNIC_NEVER;
        snic_wheel_cancel(&c->q.wheel, &s->timer);
        if (s->load->suspect)
            ebs_server_suspect(&c->q, s->load, 0);
    }
}

void luna_server_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct luna_server *s = SNIC_CONTAINER(t, struct luna_server, timer);
    (void)now_ns;
    if (s->dark_ns != SNIC_NEVER && !s->load->suspect)
        ebs_server_suspect(&s->c->q, s->load, 1);
}

int snic_luna_server_add(struct snic_luna *c, uint32_t server, uint64_t now_ns)
{
    int r = ebs_server_add(&c->q, server, now_ns);
    if (r != 0)
        return r;
    struct luna_server *s = &c->servers[server];
    s->c = c;
    s->index = server;
    s->dark_ns = SNIC_NEVER;
    s->conns = c->conns + (size_t)server * c->o.conns;
    snic_timer_init(&s->timer, luna_server_fired);
    snic_link_init(&s->ready[0]);
    snic_link_init(&s->ready[1]);
    snic_link_init(&s->again);
    for (uint32_t i = 0; i < c->o.conns; i++)
        luna_conn_init(c, s, i);
    luna_server_light(c, s);
    return 0;
}

/* Gens continue: a late event of an old connection matches none of the next server's. */
int snic_luna_server_remove(struct snic_luna *c, uint32_t server, int forget, uint64_t now_ns)
{
    int r = ebs_server_release(&c->q, server, forget, now_ns);
    if (r != 0)
        return r;
    struct luna_server *s = &c->servers[server];
    for (uint32_t i = 0; i < c->o.conns; i++) {
        struct luna_conn *n = &s->conns[i];
        if (n->state >= SNIC_LUNA_CONNECTING)
            luna_conn_end(c, n, SNIC_ECANCELED, 1);
        snic_wheel_cancel(&c->q.wheel, &n->timer);
        n->state = SNIC_LUNA_UNUSED;
        n->srtt_ns = n->bytes_out = n->bytes_in = n->frames_out = n->frames_in = n->closes = 0;
    }
    SNIC_ASSERT(s->ups == 0);
    snic_wheel_cancel(&c->q.wheel, &s->timer);
    ebs_server_removed(&c->q, s->load);
    memset(s, 0, sizeof(*s));
    s->load = &c->q.loads[server];
    s->conns = c->conns + (size_t)server * c->o.conns; /* queued sends refer to it */
    return 0;
}

/* ---- States of a connection ---- */

static void luna_conn_begin(struct snic_luna *c, struct luna_conn *n)
{
    n->gen++;
    n->state = SNIC_LUNA_CONNECTING;
    n->heard = luna_alive(c);
    luna_conn_report(c, n, LUNA_PENDING_CONNECT);
    luna_conn_watch(c, n);
}

void luna_conn_init(struct snic_luna *c, struct luna_server *s, uint32_t index)
{
    struct luna_conn *n = &s->conns[index];
    n->c = c;
    n->server = s->index;
    n->index = (uint8_t)index;
    n->wait_ns = SNIC_LUNA__WAIT_MIN_NS;
    snic_timer_init(&n->timer, luna_conn_fired);
    snic_link_init(&n->rpcs);
    luna_conn_begin(c, n);
}

static struct luna_conn *luna_conn_of(struct snic_luna *c, uint32_t server, uint32_t conn,
                                      uint32_t gen)
{
    if (server >= c->o.servers_max || !c->q.loads[server].used || conn >= c->o.conns || c->q.halted)
        return NULL;
    struct luna_conn *n = &c->servers[server].conns[conn];
    return n->gen == gen && n->state >= SNIC_LUNA_CONNECTING &&
                   (n->pending & LUNA_PENDING_CONNECT) == 0
               ? n
               : NULL;
}

int snic_luna_connected(struct snic_luna *c, uint32_t server, uint32_t conn, uint32_t gen,
                        uint64_t now_ns)
{
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    struct luna_conn *n = luna_conn_of(c, server, conn, gen);
    if (n == NULL || n->state != SNIC_LUNA_CONNECTING)
        return SNIC_ENOENT;
    n->state = SNIC_LUNA_GREETING;
    n->nonce = snic_rng_next(&c->q.rng);
    n->mine = (uint32_t)snic_rng_next(&c->q.rng);
    n->mine += n->mine == 0;
    n->conn_id = 0;
    n->srv_epoch = 0;
    n->credit = 1;
    n->seq = 0;
    n->hello_due = 1;
    n->heard = luna_alive(c);
    memset(&n->in, 0, sizeof(n->in));
    luna_conn_watch(c, n);
    c->q.dirty = 1;
    return 0;
}

void luna_conn_up(struct snic_luna *c, struct luna_conn *n)
{
    struct luna_server *s = &c->servers[n->server];
    n->state = SNIC_LUNA_UP;
    luna_token_due(c, n, UINT32_MAX);
    n->heard = luna_alive(c);
    s->ups++;
    c->s.ups++;
    c->q.dirty = 1;
    luna_server_light(c, s);
    luna_conn_watch(c, n);
}

void luna_conn_end(struct snic_luna *c, struct luna_conn *n, int reason, int notify)
{
    struct luna_server *s = &c->servers[n->server];
    SNIC_ASSERT(n->state >= SNIC_LUNA_CONNECTING);
    s->ups -= n->state == SNIC_LUNA_UP;
    n->state = SNIC_LUNA_WAITING;
    n->reason = reason;
    n->closes++;
    n->rpc = NULL;
    n->hello_due = 0;
    n->probe_due = 0;
    n->probe_out = 0;
    n->fence_out = 0;
    n->token_next = n->token_end = 0;
    if ((n->pending & LUNA_PENDING_CONNECT) != 0) {
        n->pending &= (uint8_t)~LUNA_PENDING_CONNECT; /* not reported yet */
        if (n->pending == 0)
            snic_link_remove(&n->event);
    } else if (notify) {
        n->close_gen = n->gen;
        luna_conn_report(c, n, LUNA_PENDING_CLOSE);
    }
    while (!snic_link_alone(&n->rpcs)) {
        struct luna_rpc *r = SNIC_CONTAINER(n->rpcs.next, struct luna_rpc, of_conn);
        luna_rpc_again(c, r, r->out);
    }
    n->retry_ns = c->q.now_ns + n->wait_ns;
    n->wait_ns = snic_min_u64(2 * n->wait_ns, c->o.retry_max_ns);
    snic_wheel_arm(&c->q.wheel, &n->timer, n->retry_ns);
    luna_server_light(c, s);
    c->q.dirty = 1;
}

void snic_luna_closed(struct snic_luna *c, uint32_t server, uint32_t conn, uint32_t gen, int reason,
                      uint64_t now_ns)
{
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    struct luna_conn *n = luna_conn_of(c, server, conn, gen);
    if (n == NULL)
        return;
    c->s.resets++;
    luna_conn_end(c, n, reason, 0);
}

/* ---- Silence ---- */

/* If one connection of a server with I/O is silent, idle ones may be dead as well: of that server,
   and of those that carry the waiting I/O next, which is behind it in its disk's queue or whose
   segment moves. A PROBE sent now has an answer, or none, by the time the connection is needed. All
   get one at each quarter of a silence: some may be new since, and dead again. */
static void luna_conn_doubt(struct snic_luna *c)
{
    for (uint32_t server = 0; server < c->o.servers_max; server++)
        for (uint32_t i = 0; c->q.loads[server].used && i < c->o.conns; i++) {
            struct luna_conn *n = &c->servers[server].conns[i];
            if (n->state == SNIC_LUNA_UP && !n->probe_out)
                n->probe_due = 1;
        }
    c->q.dirty = 1;
}

void luna_conn_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct luna_conn *n = SNIC_CONTAINER(t, struct luna_conn, timer);
    struct snic_luna *c = n->c;
    uint64_t silent = luna_alive(c) - n->heard;
    (void)now_ns;
    if (n->state == SNIC_LUNA_WAITING) {
        luna_conn_begin(c, n);
        return;
    }
    if (luna_conn_waits(n) && silent >= c->o.progress_ns) {
        c->s.silences++;
        luna_conn_end(c, n, SNIC_ETIMEDOUT, 1);
        return;
    }
    if (n->state == SNIC_LUNA_UP && c->q.loads[n->server].rpcs > 0 &&
        silent >= c->o.progress_ns / 4)
        luna_conn_doubt(c);
    luna_conn_watch(c, n);
}

int snic_luna_get_conn(const struct snic_luna *c, uint32_t server, uint32_t conn,
                       struct snic_luna_conn_stats *out)
{
    if (server >= c->o.servers_max || !c->q.loads[server].used || conn >= c->o.conns)
        return SNIC_ENOENT;
    const struct luna_conn *n = &c->servers[server].conns[conn];
    memset(out, 0, sizeof(*out));
    out->state = n->state;
    out->gen = n->gen;
    out->outside = n->outside;
    out->credit = n->credit;
    out->srtt_ns = n->srtt_ns;
    out->bytes_out = n->bytes_out;
    out->bytes_in = n->bytes_in;
    out->frames_out = n->frames_out;
    out->frames_in = n->frames_in;
    out->closes = n->closes;
    out->reason = n->reason;
    return 0;
}
