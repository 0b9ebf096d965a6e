/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SOLAR's half of a block server: one datagram socket. Datagrams are handed in as they come.
 */
#include "volume/volume_priv.h"

static void front_solar_opts(const struct snic_volume_server *s, struct snic_solar_target_opts *t)
{
    memset(t, 0, sizeof(*t));
    t->opts_size = sizeof(*t);
    t->seed = s->o.seed ^ s->epoch * UINT64_C(0x9e3779b97f4a7c15);
    t->srv_epoch = s->epoch;
    t->conns_max = s->o.conns_max;
    t->trains_max = s->o.trains_max;
    t->rx_blocks = s->o.writes_max;
    memcpy(t->key, s->key, sizeof(t->key));
    if (s->o.secret == NULL && s->o.secret_of == NULL)
        return;
    t->flags = SNIC_SOLAR_AUTH;
    t->sec = s->o.sec;
    t->wire_keys[0] = s->o.wire_keys[0];
    t->wire_keys[1] = s->o.wire_keys[1];
    t->secret = s->o.secret;
    t->key_id = s->o.key_id;
    t->secret_of = s->o.secret_of;
    t->secret_ctx = s->o.secret_ctx;
}

static void front_solar_returned(void *owner, void *what)
{
    struct snic_volume_server *s = owner;
    struct snic_solar_train *train = what;
    uint64_t cookie = train->cookie;
    snic_solar_target_sent(s->solar.target, train);
    volume_request_returned(s, cookie);
    volume_server_soon(s);
}

static const char *front_solar_wrong(struct snic_volume_server *s)
{
    struct snic_solar_target_opts t;
    front_solar_opts(s, &t);
    t.srv_epoch = 1;                         /* not known yet */
    return snic_solar_target_opts_wrong(&t); /* these have the same names */
}

static size_t front_solar_layout(struct snic_arena *a, struct snic_volume_server *s)
{
    struct volume_front_of_solar *f = &s->solar;
    struct snic_solar_target_opts t;
    s->epoch = 1;
    front_solar_opts(s, &t);
    s->epoch = 0;
    f->size = snic_solar_target_memsize(&t);
    f->mem = snic_arena_take(a, 1, f->size, SNIC_VOLUME_ALIGN);
    struct volume_tx *tx = snic_arena_take(a, s->o.trains_max, sizeof(*tx), 64);
    if (a->base != NULL && a->used != SIZE_MAX)
        volume_txs_init(&f->txs, tx, s->o.trains_max, s, front_solar_returned);
    return f->size;
}

static int front_solar_init(struct snic_volume_server *s)
{
    struct snic_solar_target_opts t;
    front_solar_opts(s, &t);
    return snic_solar_target_init(&s->solar.target, s->solar.mem, s->solar.size, &t,
                                  volume_server_now(s));
}

/* ---- Receiving ---- */

SNIC_STATIC_ASSERT(sizeof(struct snic_ebs_peer) == 24, "an address of the net door fits in");

static void front_solar_peer(struct snic_ebs_peer *p, const struct snic_net_addr *a)
{
    p->word[0] = (uint64_t)a->family << 48 | (uint64_t)a->port << 32 | a->node;
    memcpy(&p->word[1], a->ip, sizeof(a->ip));
}

static void front_solar_addr(struct snic_net_addr *a, const struct snic_ebs_peer *p)
{
    memset(a, 0, sizeof(*a));
    a->family = (uint16_t)(p->word[0] >> 48);
    a->port = (uint16_t)(p->word[0] >> 32);
    a->node = (uint32_t)p->word[0];
    memcpy(a->ip, &p->word[1], sizeof(a->ip));
}

static void front_solar_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                             uint32_t count)
{
    struct snic_volume_server *s = ctx;
    struct volume_req q = {.front = &volume_front_solar};
    struct snic_ebs_peer peer;
    (void)d;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t flags = msgs[i].ecn == SNIC_VOLUME__CE ? SNIC_SOLAR_CE : 0;
        front_solar_peer(&peer, &msgs[i].peer);
        if (snic_solar_target_recv(s->solar.target, &peer, msgs[i].data, msgs[i].size, flags, &q.r,
                                   msgs[i].time_ns) == 1)
            volume_request(s, &q);
    }
    volume_request_flush(s); /* V7: the data are lent for this call only */
    volume_server_soon(s);
}

static void front_solar_writable(void *ctx, struct snic_net_dgram *d)
{
    struct snic_volume_server *s = ctx;
    (void)d;
    volume_socket_writable(&s->solar.socket);
}

static int front_solar_listen(struct snic_volume_server *s, struct snic_net_addr *a)
{
    static const struct snic_net_dgram_events ev = {.recv = front_solar_recv,
                                                    .writable = front_solar_writable};
    int r = snic_net_dgram_open(s->o.net, a, &ev, s, &s->solar.socket.d);
    if (r == 0)
        return snic_net_dgram_addr(s->solar.socket.d, a);
    s->solar.socket.d = NULL;
    return r;
}

static void front_solar_unlisten(struct snic_volume_server *s)
{
    volume_socket_close(&s->solar.socket);
}

/* ---- Sending ---- */

static void front_solar_answer(struct snic_volume_server *s, const struct volume_req *q,
                               uint32_t status)
{
    snic_solar_target_answer(s->solar.target, &q->r, status, q->r.data_crc, SNIC_VOLUME__BUSY_US,
                             volume_server_now(s));
}

static int front_solar_read_done(struct snic_volume_server *s, const struct volume_req *q,
                                 const struct snic_ebs_read_block *blocks, uint64_t cookie)
{
    return snic_solar_target_read_done(s->solar.target, &q->r, blocks, cookie,
                                       snic_loop_clock(s->o.loop));
}

/* The present time, not the start of the loop's iteration: the store's time counts as a hold. */
static void front_solar_pump(struct snic_volume_server *s)
{
    struct snic_solar_train *t;
    struct snic_net_addr peer;
    uint64_t now = snic_loop_clock(s->o.loop);
    while (snic_solar_target_poll(s->solar.target, &t, 1, now) == 1) {
        front_solar_addr(&peer, &t->peer);
        volume_socket_send(&s->solar.socket, &s->solar.txs, t, &peer);
    }
}

static void front_solar_stop(struct snic_volume_server *s)
{
    struct snic_solar_train *t;
    volume_socket_close(&s->solar.socket);
    while (s->solar.target != NULL &&
           snic_solar_target_poll(s->solar.target, &t, 1, volume_server_now(s)) == 1)
        front_solar_returned(s, t);
}

static int front_solar_silent(const struct snic_volume_server *s)
{
    return s->solar.txs.out == 0;
}

static void front_solar_fini(struct snic_volume_server *s)
{
    if (s->solar.target != NULL)
        (void)snic_solar_target_fini(s->solar.target);
}

static void front_solar_stats(const struct snic_volume_server *s,
                              struct snic_volume_server_stats *out)
{
    out->unsent += s->solar.txs.unsent;
    if (s->solar.target != NULL)
        snic_solar_target_get_stats(s->solar.target, &out->target);
}

static int front_solar_client(const struct snic_volume_server *s, uint32_t place,
                              struct snic_volume_server_client *out)
{
    struct snic_solar_target_client c;
    if (place >= s->o.conns_max)
        return SNIC_ENOENT;
    if (s->solar.target == NULL || snic_solar_target_get_client(s->solar.target, place, &c) != 0)
        return 0;
    memset(out, 0, sizeof(*out));
    out->transport = SNIC_VOLUME_SOLAR;
    out->inside = c.requests;
    out->client_id = c.client_id;
    front_solar_addr(&out->addr, &c.peer);
    out->since_ns = c.since_ns;
    out->heard_ns = c.heard_ns;
    out->blocks_written = c.blocks_written;
    out->blocks_read = c.blocks_read;
    out->refused = c.refused;
    out->packets = c.packets;
    out->missing = c.missing;
    out->rerolls = c.rerolls;
    out->paths = c.paths;
    return 1;
}

static int front_solar_check(const struct snic_volume_server *s)
{
    if (volume_txs_check(&s->solar.txs) != 0)
        return SNIC_ECORRUPT;
    return s->solar.target != NULL ? snic_solar_target_check(s->solar.target) : 0;
}

const struct volume_front volume_front_solar = {
    .accounts = 1,
    .wrong = front_solar_wrong,
    .layout = front_solar_layout,
    .init = front_solar_init,
    .listen = front_solar_listen,
    .unlisten = front_solar_unlisten,
    .answer = front_solar_answer,
    .read_done = front_solar_read_done,
    .pump = front_solar_pump,
    .stop = front_solar_stop,
    .silent = front_solar_silent,
    .fini = front_solar_fini,
    .stats = front_solar_stats,
    .client = front_solar_client,
    .check = front_solar_check,
};
