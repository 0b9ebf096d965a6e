/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A socket per path. Ports are drawn at random, because the fabric's ECMP hashes them, and the
 * agent rejects some (those that failed in the last minute, or share a hash with another).
 */
#include "volume/volume_priv.h"

/* A path's place: CLOSE of one socket precedes OPEN of the next. */
static struct volume_socket *path_place(struct snic_volume *v, uint32_t server, uint16_t path)
{
    return &v->sockets[(size_t)server * SNIC_SOLAR_PATHS_MAX + path];
}

static struct volume_socket *path_find(struct snic_volume *v, uint32_t server, uint16_t path,
                                       uint16_t gen)
{
    struct volume_socket *k = path_place(v, server, path);
    return k->used && k->gen == gen ? k : NULL;
}

static void path_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                      uint32_t count)
{
    struct volume_socket *k = ctx;
    struct snic_volume *v = k->owner;
    (void)d;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t flags = msgs[i].ecn == SNIC_VOLUME__CE ? SNIC_SOLAR_CE : 0;
        (void)snic_solar_recv(v->solar, k->server, k->path, k->gen, msgs[i].data, msgs[i].size,
                              flags, msgs[i].time_ns);
    }
    volume_soon(v);
}

static void path_writable(void *ctx, struct snic_net_dgram *d)
{
    (void)d;
    volume_socket_writable(ctx);
}

static void path_unreachable(void *ctx, struct snic_net_dgram *d, const struct snic_net_addr *peer,
                             int error)
{
    struct volume_socket *k = ctx;
    struct snic_volume *v = k->owner;
    (void)d;
    (void)peer;
    if (error == SNIC_EMSGSIZE)
        v->txs.too_large++;
    else
        snic_solar_path_hint(v->solar, k->server, k->path, k->gen, volume_now(v));
    volume_soon(v);
}

/* Servers may be of two address families: without a chosen local address each path has its
 * server's. */
static struct snic_net_addr path_local(const struct snic_volume *v, uint32_t server)
{
    static const unsigned char any[16];
    struct snic_net_addr local = v->o.local;
    if (memcmp(local.ip, any, sizeof(any)) == 0 && v->servers[server].known)
        local.family = v->servers[server].addr.family;
    return local;
}

/* 1: open; 0: not with this port, try another; -1: the agent does not want the path. */
static int path_bind(struct snic_volume *v, struct volume_socket *k)
{
    static const struct snic_net_dgram_events ev = {
        .recv = path_recv, .writable = path_writable, .unreachable = path_unreachable};
    struct snic_net_addr local = path_local(v, k->server);
    local.port = (uint16_t)(49152 + snic_rng_below(&v->rng, 65536 - 49152));
    if (snic_net_dgram_open(v->o.net, &local, &ev, k, &k->d) != 0) {
        v->stats.binds++;
        k->d = NULL;
        return 0;
    }
    int r = snic_solar_path_opened(v->solar, k->server, k->path, k->gen, local.port, volume_now(v));
    if (r == 0) {
        v->stats.sockets++;
        return 1;
    }
    snic_net_dgram_close(k->d);
    k->d = NULL;
    return r == SNIC_EADDRINUSE ? 0 : -1;
}

void volume_path_open(struct snic_volume *v, uint32_t server, uint16_t path, uint16_t gen)
{
    struct volume_socket *k = path_place(v, server, path);
    if (!k->used && !v->closing) {
        memset(k, 0, sizeof(*k));
        k->owner = v;
        k->server = server;
        k->path = path;
        k->gen = gen;
        k->used = 1;
        int r = 0;
        /* More than the agent rejects in a row, and some for ports in use. */
        for (uint32_t i = 0; i < 16 + SNIC_VOLUME__BINDS && r == 0; i++)
            r = path_bind(v, k);
        if (r == 1)
            return;
        k->used = 0;
        if (r < 0)
            return;
    }
    int r = snic_solar_path_opened(v->solar, server, path, gen, 0, volume_now(v));
    (void)r; /* the agent emits OPEN again, or does not want the path any more */
}

void volume_path_close(struct snic_volume *v, uint32_t server, uint16_t path, uint16_t gen)
{
    struct volume_socket *k = path_find(v, server, path, gen);
    if (k != NULL)
        volume_socket_close(k);
}

void volume_path_send(struct snic_volume *v, struct snic_solar_train *t)
{
    struct volume_socket *k = path_find(v, t->server, t->path, t->gen);
    if (k == NULL || v->closing) {
        v->txs.unsent++;
        snic_solar_sent(v->solar, t, volume_now(v));
        return;
    }
    volume_socket_send(k, &v->txs, t, &v->servers[t->server].addr);
}
