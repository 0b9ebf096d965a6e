/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The block server from outside: options, memory, what comes from the network and what leaves.
 *
 * Datagrams are handed in as they come; neighbouring writes of a segment become one write of the
 * store. Answers leave when all that has arrived was handed in (V1).
 */
#include "volume/volume_priv.h"

/* ---- Options and memory ---- */

static void server_default(uint32_t *v, uint32_t value)
{
    if (*v == 0)
        *v = value;
}

static void server_target_opts(const struct snic_volume_server *s, struct snic_solar_target_opts *t)
{
    memset(t, 0, sizeof(*t));
    t->opts_size = sizeof(*t);
    t->seed = s->o.seed ^ s->epoch * UINT64_C(0x9e3779b97f4a7c15);
    t->srv_epoch = s->epoch;
    t->conns_max = s->o.conns_max;
    t->trains_max = s->o.trains_max;
    t->rx_blocks = s->o.writes_max;
    memcpy(t->key, s->key, sizeof(t->key));
}

static int server_options(struct snic_volume_server_opts *o,
                          const struct snic_volume_server_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    server_default(&o->conns_max, 256);
    server_default(&o->trains_max, 64);
    server_default(&o->writes_max, 256);
    server_default(&o->reads_max, 64);
    o->store.opts_size = sizeof(o->store);
    if (o->flags != 0 || o->pad != 0 || o->loop == NULL || o->net == NULL || o->io == NULL ||
        o->disks == 0 || o->disks > SNIC_SEGMENTS_DISKS_MAX || o->net->loop != o->loop)
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < o->disks; i++)
        if (o->io[i] == NULL || o->io[i]->loop != o->loop)
            return SNIC_EINVAL;
    if (o->writes_max < 4 || o->writes_max > 65536 || o->reads_max < 4 || o->reads_max > 65536)
        return SNIC_EINVAL;
    return snic_segments_memsize(o->io, o->disks, &o->store) == 0 ? SNIC_EINVAL : 0;
}

static void server_given(void *owner, struct snic_solar_train *train)
{
    struct snic_volume_server *s = owner;
    uint64_t cookie = train->cookie;
    snic_solar_target_sent(s->target, train);
    volume_request_given(s, cookie);
    volume_server_soon(s);
}

/* Once to measure, once to place; @store: the store's memory. 0: the target's options are wrong. */
static size_t server_layout(struct snic_arena *a, struct snic_volume_server *s, void **store,
                            size_t *store_size)
{
    const struct snic_volume_server_opts *o = &s->o;
    struct snic_solar_target_opts t;
    s->epoch = 1;
    server_target_opts(s, &t);
    s->epoch = 0;
    s->target_size = snic_solar_target_memsize(&t);
    *store_size = snic_segments_memsize(o->io, o->disks, &o->store);
    s->target_mem = snic_arena_take(a, 1, s->target_size, SNIC_VOLUME_ALIGN);
    *store = snic_arena_take(a, 1, *store_size, SNIC_VOLUME_ALIGN);
    struct volume_tx *tx = snic_arena_take(a, o->trains_max, sizeof(*tx), 64);
    struct volume_op *writes = snic_arena_take(a, o->writes_max, sizeof(*writes), 64);
    struct volume_op *reads = snic_arena_take(a, o->reads_max, sizeof(*reads), 64);
    unsigned char *data =
        snic_arena_take(a, o->reads_max, (size_t)SNIC_VOLUME__GROUP * SNIC_EBS_BLOCK_BYTES, 4096);
    s->meta = snic_arena_take(a, 1, SNIC_EBS_BLOCK_BYTES, 4096);
    if (a->base != NULL && a->used != SIZE_MAX) {
        volume_txs_init(&s->txs, tx, o->trains_max, s, server_given);
        volume_ops_init(s, &s->writes, writes, o->writes_max, NULL);
        volume_ops_init(s, &s->reads, reads, o->reads_max, data);
    }
    return s->target_size;
}

size_t snic_volume_server_memsize(const struct snic_volume_server_opts *from)
{
    struct snic_volume_server s;
    struct snic_arena a = {.base = NULL, .size = SIZE_MAX};
    void *store;
    size_t store_size;
    memset(&s, 0, sizeof(s));
    if (server_options(&s.o, from) != 0)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(s), SNIC_VOLUME_ALIGN);
    if (server_layout(&a, &s, &store, &store_size) == 0 || a.used == SIZE_MAX)
        return 0;
    return a.used + 3 * 4096; /* blocks are aligned to pages, the memory may not be */
}

/* ---- Network ---- */

uint64_t volume_server_now(const struct snic_volume_server *s)
{
    return snic_loop_now(s->o.loop);
}

void volume_server_soon(struct snic_volume_server *s)
{
    if (s->pumping || s->closing)
        return;
    s->pumping = 1;
    snic_loop_defer(s->o.loop, &s->pump);
}

SNIC_STATIC_ASSERT(sizeof(struct snic_solar_peer) == 24, "an address of the net door fits in");

static void server_peer(struct snic_solar_peer *p, const struct snic_net_addr *a)
{
    p->word[0] = (uint64_t)a->family << 48 | (uint64_t)a->port << 32 | a->node;
    memcpy(&p->word[1], a->ip, sizeof(a->ip));
}

static void server_addr(struct snic_net_addr *a, const struct snic_solar_peer *p)
{
    memset(a, 0, sizeof(*a));
    a->family = (uint16_t)(p->word[0] >> 48);
    a->port = (uint16_t)(p->word[0] >> 32);
    a->node = (uint32_t)p->word[0];
    memcpy(a->ip, &p->word[1], sizeof(a->ip));
}

static void server_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                        uint32_t count)
{
    struct snic_volume_server *s = ctx;
    struct snic_solar_request q;
    struct snic_solar_peer peer;
    uint64_t now = volume_server_now(s);
    (void)d;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t flags = msgs[i].ecn == SNIC_VOLUME__CE ? SNIC_SOLAR_CE : 0;
        server_peer(&peer, &msgs[i].peer);
        if (snic_solar_target_recv(s->target, &peer, msgs[i].data, msgs[i].size, flags, &q, now) ==
            1)
            volume_request(s, &q);
    }
    volume_request_flush(s); /* the data are lent for this call only */
    volume_server_soon(s);
}

static void server_writable(void *ctx, struct snic_net_dgram *d)
{
    struct snic_volume_server *s = ctx;
    (void)d;
    volume_socket_writable(&s->socket);
}

static void server_pump(struct snic_loop_msg *m)
{
    struct snic_volume_server *s = SNIC_CONTAINER(m, struct snic_volume_server, pump);
    struct snic_solar_train *t;
    struct snic_net_addr peer;
    s->pumping = 0;
    if (s->closing)
        return;
    while (snic_solar_target_poll(s->target, &t, 1, volume_server_now(s)) == 1) {
        server_addr(&peer, &t->peer);
        volume_socket_send(&s->socket, &s->txs, t, &peer);
    }
}

/* The epoch is durable: the first datagram may come. */
int volume_server_start(struct snic_volume_server *s)
{
    static const struct snic_net_dgram_events ev = {.recv = server_recv,
                                                    .writable = server_writable};
    struct snic_solar_target_opts t;
    struct snic_segments_info info;
    snic_segments_inspect(s->store, &info);
    s->list_max = info.list_max;
    server_target_opts(s, &t);
    int r =
        snic_solar_target_init(&s->target, s->target_mem, s->target_size, &t, volume_server_now(s));
    if (r != 0)
        return r;
    r = snic_net_dgram_open(s->o.net, &s->o.addr, &ev, s, &s->socket.d);
    if (r != 0)
        s->socket.d = NULL;
    return r;
}

/* ---- Open and close ---- */

static void server_failed(void *ctx, uint32_t disk, int error)
{
    struct snic_volume_server *s = ctx;
    if (s->e.failed != NULL && !s->closing)
        s->e.failed(s->ctx, disk, error);
}

static void server_room(void *ctx)
{
    volume_request_room(ctx);
}

int snic_volume_server_open(struct snic_volume_server **out, void *mem, size_t size,
                            const struct snic_volume_server_opts *o,
                            const struct snic_volume_server_events *e, void *ctx)
{
    static const struct snic_segments_events ev = {
        .opened = volume_server_opened, .room = server_room, .failed = server_failed};
    struct snic_arena a = {.base = mem, .size = size};
    struct snic_volume_server_opts opts;
    void *store;
    size_t store_size;
    if (e->opened == NULL || (uintptr_t)mem % SNIC_VOLUME_ALIGN != 0 ||
        server_options(&opts, o) != 0)
        return SNIC_EINVAL;
    size_t skew = (4096 - (uintptr_t)mem % 4096) % 4096;
    struct snic_volume_server *s = snic_arena_take(&a, 1, sizeof(*s), SNIC_VOLUME_ALIGN);
    if (s == NULL)
        return SNIC_ENOSPC;
    /* Pages are aligned in memory, not only in the arena. */
    a.used = snic_align_up(a.used, 4096) + skew;
    struct snic_arena rest = {.base = (unsigned char *)mem + a.used,
                              .size = size > a.used ? size - a.used : 0};
    memset(s, 0, sizeof(*s));
    s->o = opts;
    s->e = *e;
    s->ctx = ctx;
    s->pump.fn = server_pump;
    if (server_layout(&rest, s, &store, &store_size) == 0)
        return SNIC_EINVAL;
    if (rest.used == SIZE_MAX)
        return SNIC_ENOSPC;
    int r = snic_segments_open(&s->store, store, store_size, o->io, o->disks, &s->o.store, &ev, s);
    if (r == 0)
        *out = s;
    return r;
}

static int server_silent(const struct snic_volume_server *s)
{
    return s->txs.out == 0 && !s->pumping && !s->meta_out && s->writes.out == 0 &&
           s->reads.out == 0;
}

void *snic_volume_server_close(struct snic_volume_server *s)
{
    s->closing = 1;
    volume_socket_close(&s->socket);
    volume_request_room(s); /* what waits ends */
    volume_request_given(s, 0);
    struct snic_solar_train *t;
    while (s->target != NULL && snic_solar_target_poll(s->target, &t, 1, volume_server_now(s)) == 1)
        server_given(s, t);
    while (!server_silent(s))
        (void)snic_loop_once(s->o.loop, SNIC_NEVER);
    (void)snic_segments_close(s->store);
    if (s->target != NULL)
        (void)snic_solar_target_fini(s->target);
    return s;
}

/* ---- Views ---- */

int snic_volume_server_addr(const struct snic_volume_server *s, struct snic_net_addr *out)
{
    return s->socket.d == NULL ? SNIC_EBUSY : snic_net_dgram_addr(s->socket.d, out);
}

struct snic_segments *snic_volume_server_store(struct snic_volume_server *s)
{
    return s->store;
}

void snic_volume_server_get_stats(const struct snic_volume_server *s,
                                  struct snic_volume_server_stats *out)
{
    *out = s->stats;
    out->srv_epoch = s->epoch;
    out->inside = s->writes.out + s->reads.out;
    out->unsent = s->txs.unsent;
    if (s->target != NULL)
        snic_solar_target_get_stats(s->target, &out->target);
}

static int server_check_ops(const struct volume_ops *p)
{
    uint32_t free = 0;
    for (uint32_t i = p->free; i != SNIC_VOLUME__NIL && free <= p->count; i = p->op[i].next) {
        if (i >= p->count || p->op[i].used)
            return SNIC_ECORRUPT;
        free++;
    }
    return free + p->out == p->count ? 0 : SNIC_ECORRUPT;
}

int snic_volume_server_check(const struct snic_volume_server *s)
{
    if (volume_txs_check(&s->txs) != 0 || server_check_ops(&s->writes) != 0 ||
        server_check_ops(&s->reads) != 0 || s->group != NULL)
        return SNIC_ECORRUPT;
    if (s->target != NULL && snic_solar_target_check(s->target) != 0)
        return SNIC_ECORRUPT;
    return snic_segments_check(s->store);
}
