/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The client's agent for LUNA: sends on connections, which are opened on the engine's OPEN.
 *
 * Each connection of the engine has two places: one that was ended may still be closing when the
 * next is opened. If both are closing, the attempt has failed, and the engine retries later.
 * Received data are handed in in place and the buffer is put back at once (V6): the engine has
 * taken all of it, so receiving never waits.
 */
#include "volume/volume_priv.h"

#define SNIC_VOLUME__PROGRESS_NS UINT64_C(800000000) /* luna.h's default */

static void agent_luna_opts(const struct snic_volume_opts *o, struct snic_luna_opts *a)
{
    memset(a, 0, sizeof(*a));
    a->opts_size = sizeof(*a);
    a->flags = o->sec != NULL ? SNIC_LUNA_CRYPTO : 0;
    a->flags |= (o->flags & SNIC_VOLUME_PAPER) != 0 ? SNIC_LUNA_PAPER : 0;
    a->seed = o->seed;
    a->client_epoch = o->client_epoch;
    a->disks_max = o->disks_max;
    a->servers_max = o->servers_max;
    a->conns = o->paths;
    a->rpcs_max = o->rpcs_max;
    a->sends_max = o->trains_max;
    a->chunks_max = o->chunks_max;
    a->window_blocks = o->window_blocks;
    a->disk_blocks_max = o->disk_blocks_max;
    a->deadline_ns = o->deadline_ns;
    a->error_ns = o->error_ns;
    a->slow_ns = o->slow_ns;
    a->suspect_ns = o->suspect_ns;
    a->progress_ns = o->progress_ns;
    a->sec = o->sec;
}

static const char *agent_luna_wrong(const struct snic_volume_opts *o)
{
    struct snic_luna_opts a;
    if ((o->flags & ~SNIC_VOLUME_PAPER) != 0)
        return "flags: unknown bits";
    if (o->read_window_bytes != 0)
        return "read_window_bytes: needs SOLAR";
    if (o->secret != NULL)
        return "secret: needs SOLAR";
    if (o->paths > SNIC_LUNA_CONNS_MAX || ((o->flags & SNIC_VOLUME_PAPER) != 0 && o->paths > 1))
        return "paths: not 1..16, or with PAPER not 1";
    agent_luna_opts(o, &a);
    return snic_luna_opts_wrong(&a); /* these have the same names */
}

static size_t agent_luna_memsize(const struct snic_volume_opts *o)
{
    struct snic_luna_opts a;
    agent_luna_opts(o, &a);
    return snic_luna_memsize(&a);
}

/* The engine's defaults. */
static uint32_t agent_luna_conns(const struct snic_volume_opts *o)
{
    if (o->paths != 0)
        return o->paths;
    return (o->flags & SNIC_VOLUME_PAPER) != 0 ? 1 : 2;
}

static void agent_luna_returned(void *owner, void *send)
{
    struct snic_volume *v = owner;
    snic_luna_sent(v->luna, send, volume_now(v));
    volume_soon(v);
}

static void agent_luna_layout(struct snic_arena *a, struct snic_volume *v)
{
    const struct snic_volume_opts *o = &v->o;
    v->sockets_max = o->servers_max * agent_luna_conns(o) * 2;
    struct volume_tx *tx = snic_arena_take(a, o->trains_max, sizeof(*tx), 64);
    v->links = snic_arena_take(a, v->sockets_max, sizeof(*v->links), 64);
    if (a->base == NULL || a->used == SIZE_MAX)
        return;
    volume_txs_init(&v->txs, tx, o->trains_max, v, agent_luna_returned);
    memset(v->links, 0, v->sockets_max * sizeof(*v->links));
}

static int agent_luna_init(struct snic_volume *v, void *mem, size_t size)
{
    struct snic_luna_opts a;
    agent_luna_opts(&v->o, &a);
    return snic_luna_init(&v->luna, mem, size, &a, volume_now(v));
}

static void agent_luna_fini(struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->sockets_max; i++)
        SNIC_ASSERT(!v->links[i].used);
    (void)snic_luna_fini(v->luna);
}

static int agent_luna_server_add(struct snic_volume *v, uint32_t server)
{
    return snic_luna_server_add(v->luna, server, volume_now(v));
}

static int agent_luna_map(struct snic_volume *v, uint32_t disk, uint64_t segment, uint64_t seg_id,
                          uint32_t server, uint32_t gen)
{
    return snic_luna_map(v->luna, disk, segment, seg_id, server, gen, volume_now(v));
}

static int agent_luna_hole(struct snic_volume *v, uint32_t disk, uint64_t segment,
                           uint64_t lookup_ns)
{
    return snic_luna_hole(v->luna, disk, segment, lookup_ns, volume_now(v));
}

static int agent_luna_refuse(struct snic_volume *v, uint32_t disk, uint64_t segment, int result)
{
    return snic_luna_refuse(v->luna, disk, segment, result, volume_now(v));
}

static uint32_t agent_luna_waits(const struct snic_volume *v, uint32_t disk, uint64_t segment)
{
    return snic_luna_waits(v->luna, disk, segment);
}

static int agent_luna_attach(struct snic_volume *v, uint32_t disk,
                             const struct snic_ebs_disk_opts *o)
{
    return snic_luna_attach(v->luna, disk, o, volume_now(v));
}

static int agent_luna_detach(struct snic_volume *v, uint32_t disk)
{
    return snic_luna_detach(v->luna, disk);
}

static int agent_luna_qos(struct snic_volume *v, uint32_t disk, const struct snic_ebs_disk_opts *o)
{
    return snic_luna_qos(v->luna, disk, o, volume_now(v));
}

static int agent_luna_token(struct snic_volume *v, uint32_t disk, const unsigned char *token)
{
    return snic_luna_token(v->luna, disk, token, volume_now(v));
}

static int agent_luna_submit(struct snic_volume *v, struct snic_ebs_io *io)
{
    return snic_luna_submit(v->luna, io, volume_now(v));
}

/* ---- Connections ---- */

static struct volume_link *agent_luna_places(struct snic_volume *v, uint32_t server, uint32_t conn)
{
    return &v->links[((size_t)server * agent_luna_conns(&v->o) + conn) * 2];
}

/* NULL: there is none, or it is over. */
static struct volume_link *agent_luna_find(struct snic_volume *v, uint32_t server, uint32_t conn,
                                           uint32_t gen)
{
    struct volume_link *l = agent_luna_places(v, server, conn);
    for (uint32_t i = 0; i < 2; i++)
        if (l[i].used && !l[i].k.over && l[i].gen == gen)
            return &l[i];
    return NULL;
}

/* It ended, and not by the engine's CLOSE. */
static void agent_luna_lost(struct volume_link *l, int reason)
{
    struct snic_volume *v = l->k.owner;
    if (!l->k.over)
        snic_luna_closed(v->luna, l->server, l->conn, l->gen, reason, volume_now(v));
    volume_soon(v);
}

static int agent_luna_server_remove(struct snic_volume *v, uint32_t server, int forget)
{
    int r = snic_luna_server_remove(v->luna, server, forget, volume_now(v));
    for (uint32_t i = 0; i < v->sockets_max && r == 0; i++)
        if (v->links[i].used && v->links[i].server == server)
            volume_stream_end(&v->links[i].k, 0);
    return r;
}

/* Its connections end, and the next ones go there. */
static void agent_luna_server_moved(struct snic_volume *v, uint32_t server)
{
    for (uint32_t i = 0; i < v->sockets_max; i++) {
        struct volume_link *l = &v->links[i];
        if (!l->used || l->k.over || l->server != server)
            continue;
        agent_luna_lost(l, SNIC_ECONNRESET);
        volume_stream_end(&l->k, 0);
    }
}

static void agent_luna_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct volume_link *l = ctx;
    struct snic_volume *v = l->k.owner;
    (void)c;
    if (error != 0 || l->k.over)
        return; /* `closed` follows */
    if (snic_luna_connected(v->luna, l->server, l->conn, l->gen, volume_now(v)) != 0)
        volume_stream_end(&l->k, 0);
    volume_soon(v);
}

static void agent_luna_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf)
{
    struct volume_link *l = ctx;
    struct snic_volume *v = l->k.owner;
    if (!l->k.over)
        (void)snic_luna_recv(v->luna, l->server, l->conn, l->gen, buf->data, buf->size,
                             volume_now(v)); /* on an error the engine emits CLOSE */
    snic_net_put(c->net, buf);
    volume_soon(v);
}

/* A server that sends no more can not answer. */
static void agent_luna_eof(void *ctx, struct snic_net_conn *c)
{
    struct volume_link *l = ctx;
    (void)c;
    agent_luna_lost(l, SNIC_ECONNRESET);
    volume_stream_end(&l->k, 0);
}

static void agent_luna_writable(void *ctx, struct snic_net_conn *c)
{
    struct volume_link *l = ctx;
    (void)c;
    volume_stream_writable(&l->k);
}

static void agent_luna_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct volume_link *l = ctx;
    (void)c;
    agent_luna_lost(l, reason != 0 ? reason : SNIC_ECONNRESET);
    volume_stream_gone(&l->k);
    l->used = 0;
}

static void agent_luna_patience(struct snic_volume *v, struct volume_link *l)
{
    uint64_t ns = v->o.progress_ns != 0 ? v->o.progress_ns : SNIC_VOLUME__PROGRESS_NS;
    if ((v->o.flags & SNIC_VOLUME_PAPER) != 0)
        return;
    int r = snic_net_patience(l->k.c, (uint32_t)snic_max_u64(ns / 1000000u, 1));
    (void)r; /* UNIX sockets have none, and need none */
}

static void agent_luna_connect(struct snic_volume *v, uint32_t server, uint16_t conn, uint16_t gen)
{
    static const struct snic_net_stream_events ev = {.connected = agent_luna_connected,
                                                     .recv = agent_luna_recv,
                                                     .eof = agent_luna_eof,
                                                     .writable = agent_luna_writable,
                                                     .closed = agent_luna_closed};
    struct volume_link *l = agent_luna_places(v, server, conn);
    int r = SNIC_ENOSPC;
    l += l->used != 0;
    if (!l->used && !v->closing) {
        memset(l, 0, sizeof(*l));
        l->k.owner = v;
        l->server = server;
        l->conn = conn;
        l->gen = gen;
        r = snic_net_connect(v->o.net, &v->servers[server].addr, &ev, l, &l->k.c);
        l->used = r == 0;
    }
    if (r != 0) {
        v->stats.binds++;
        snic_luna_closed(v->luna, server, conn, gen, r, volume_now(v));
        return; /* it emits OPEN again */
    }
    v->stats.sockets++;
    agent_luna_patience(v, l);
}

/* ---- Actions ---- */

static void agent_luna_act(struct snic_volume *v, const struct snic_ebs_action *a)
{
    if (a->type == SNIC_EBS_ACT_OPEN) {
        agent_luna_connect(v, a->server, a->path, a->gen);
    } else if (a->type == SNIC_EBS_ACT_SEND || a->type == SNIC_EBS_ACT_CLOSE) {
        struct volume_link *l = agent_luna_find(v, a->server, a->path, a->gen);
        if (a->type == SNIC_EBS_ACT_SEND)
            volume_stream_send(l != NULL ? &l->k : NULL, &v->txs, a->send);
        else if (l != NULL)
            volume_stream_end(&l->k, 0);
    } else {
        volume_report(v, a);
    }
}

static uint64_t agent_luna_pump(struct snic_volume *v)
{
    struct snic_ebs_action a;
    uint64_t now = volume_now(v);
    while (snic_luna_poll(v->luna, &a, 1, now) == 1)
        agent_luna_act(v, &a);
    return snic_luna_deadline_ns(v->luna);
}

static void agent_luna_halt(struct snic_volume *v)
{
    snic_luna_halt(v->luna, volume_now(v));
    for (uint32_t i = 0; i < v->sockets_max; i++)
        if (v->links[i].used)
            volume_stream_end(&v->links[i].k, 0);
}

static int agent_luna_silent(const struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->sockets_max; i++)
        if (v->links[i].used)
            return 0;
    return v->txs.out == 0;
}

static void agent_luna_stats(const struct snic_volume *v, struct snic_volume_stats *out)
{
    snic_luna_get_stats(v->luna, &out->luna);
    for (uint32_t i = 0; i < v->sockets_max; i++)
        out->open += v->links[i].used;
}

static int agent_luna_check(const struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->sockets_max; i++) {
        const struct volume_link *l = &v->links[i];
        if (l->used != (l->k.c != NULL) || (l->k.over && !snic_queue_empty(&l->k.backlog)))
            return SNIC_ECORRUPT;
        if (l->used && !l->k.over && (i ^ 1) < v->sockets_max && v->links[i ^ 1].used &&
            !v->links[i ^ 1].k.over)
            return SNIC_ECORRUPT; /* one of the two is over */
    }
    return snic_luna_check(v->luna);
}

const struct volume_agent volume_agent_luna = {
    .wrong = agent_luna_wrong,
    .memsize = agent_luna_memsize,
    .layout = agent_luna_layout,
    .init = agent_luna_init,
    .fini = agent_luna_fini,
    .server_add = agent_luna_server_add,
    .server_remove = agent_luna_server_remove,
    .server_moved = agent_luna_server_moved,
    .map = agent_luna_map,
    .hole = agent_luna_hole,
    .refuse = agent_luna_refuse,
    .waits = agent_luna_waits,
    .attach = agent_luna_attach,
    .detach = agent_luna_detach,
    .qos = agent_luna_qos,
    .token = agent_luna_token,
    .submit = agent_luna_submit,
    .pump = agent_luna_pump,
    .halt = agent_luna_halt,
    .silent = agent_luna_silent,
    .stats = agent_luna_stats,
    .check = agent_luna_check,
};
