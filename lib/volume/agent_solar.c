/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The client's agent for SOLAR: trains on a datagram socket per path (path.c).
 */
#include "volume/volume_priv.h"

static void agent_solar_opts(const struct snic_volume_opts *o, struct snic_solar_opts *a)
{
    memset(a, 0, sizeof(*a));
    a->opts_size = sizeof(*a);
    a->flags = o->sec != NULL ? SNIC_SOLAR_CRYPTO : 0;
    a->seed = o->seed;
    a->client_epoch = o->client_epoch;
    a->disks_max = o->disks_max;
    a->servers_max = o->servers_max;
    a->paths = o->paths;
    a->rpcs_max = o->rpcs_max;
    a->trains_max = o->trains_max;
    a->chunks_max = o->chunks_max;
    a->read_window_bytes = o->read_window_bytes;
    a->deadline_ns = o->deadline_ns;
    a->error_ns = o->error_ns;
    a->slow_ns = o->slow_ns;
    a->suspect_ns = o->suspect_ns;
    a->disk_blocks_max = o->disk_blocks_max;
    a->sec = o->sec;
    if (o->secret == NULL)
        return;
    a->flags |= SNIC_SOLAR_AUTH;
    a->wire_keys[0] = o->wire_keys[0];
    a->wire_keys[1] = o->wire_keys[1];
}

static const char *agent_solar_wrong(const struct snic_volume_opts *o)
{
    struct snic_solar_opts a;
    if (o->flags != 0)
        return "flags: unknown bits, or PAPER without LUNA";
    if (o->progress_ns != 0)
        return "progress_ns: needs LUNA";
    if (o->window_blocks != 0)
        return "window_blocks: needs LUNA";
    agent_solar_opts(o, &a);
    return snic_solar_opts_wrong(&a); /* these have the same names */
}

static size_t agent_solar_memsize(const struct snic_volume_opts *o)
{
    struct snic_solar_opts a;
    agent_solar_opts(o, &a);
    return snic_solar_memsize(&a);
}

static void agent_solar_returned(void *owner, void *train)
{
    struct snic_volume *v = owner;
    snic_solar_sent(v->solar, train, volume_now(v));
    volume_soon(v);
}

static void agent_solar_layout(struct snic_arena *a, struct snic_volume *v)
{
    const struct snic_volume_opts *o = &v->o;
    /* An exchanged path has its new socket before the old one is closed. */
    v->sockets_max = o->servers_max * SNIC_SOLAR_PATHS_MAX;
    struct volume_tx *tx = snic_arena_take(a, o->trains_max, sizeof(*tx), 64);
    v->sockets = snic_arena_take(a, v->sockets_max, sizeof(*v->sockets), 64);
    if (a->base == NULL || a->used == SIZE_MAX)
        return;
    volume_txs_init(&v->txs, tx, o->trains_max, v, agent_solar_returned);
    memset(v->sockets, 0, v->sockets_max * sizeof(*v->sockets));
}

static int agent_solar_init(struct snic_volume *v, void *mem, size_t size)
{
    struct snic_solar_opts a;
    agent_solar_opts(&v->o, &a);
    return snic_solar_init(&v->solar, mem, size, &a, volume_now(v));
}

static void agent_solar_fini(struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->sockets_max; i++)
        SNIC_ASSERT(!v->sockets[i].used);
    (void)snic_solar_fini(v->solar);
}

static int agent_solar_server_add(struct snic_volume *v, uint32_t server)
{
    int r = snic_solar_server_add(v->solar, server, volume_now(v));
    if (r == 0 && v->o.secret != NULL)
        r = snic_solar_server_auth(v->solar, server, v->o.secret, v->o.key_id, v->o.account);
    return r;
}

/* The sockets do not wait for CLOSE: the next server with the number has another address. */
static int agent_solar_server_remove(struct snic_volume *v, uint32_t server, int forget)
{
    int r = snic_solar_server_remove(v->solar, server, forget, volume_now(v));
    for (uint32_t i = 0; i < v->sockets_max && r == 0; i++)
        if (v->sockets[i].used && v->sockets[i].server == server)
            volume_socket_close(&v->sockets[i]);
    return r;
}

static void agent_solar_server_moved(struct snic_volume *v, uint32_t server)
{
    int r = snic_solar_server_renew(v->solar, server, volume_now(v));
    (void)r; /* it is known */
}

static int agent_solar_map(struct snic_volume *v, uint32_t disk, uint64_t segment, uint64_t seg_id,
                           uint32_t server, uint32_t gen)
{
    return snic_solar_map(v->solar, disk, segment, seg_id, server, gen, volume_now(v));
}

static int agent_solar_hole(struct snic_volume *v, uint32_t disk, uint64_t segment,
                            uint64_t lookup_ns)
{
    return snic_solar_hole(v->solar, disk, segment, lookup_ns, volume_now(v));
}

static int agent_solar_refuse(struct snic_volume *v, uint32_t disk, uint64_t segment, int result)
{
    return snic_solar_refuse(v->solar, disk, segment, result, volume_now(v));
}

static uint32_t agent_solar_waits(const struct snic_volume *v, uint32_t disk, uint64_t segment)
{
    return snic_solar_waits(v->solar, disk, segment);
}

static int agent_solar_attach(struct snic_volume *v, uint32_t disk,
                              const struct snic_ebs_disk_opts *o)
{
    return snic_solar_attach(v->solar, disk, o, volume_now(v));
}

static int agent_solar_detach(struct snic_volume *v, uint32_t disk)
{
    return snic_solar_detach(v->solar, disk);
}

static int agent_solar_qos(struct snic_volume *v, uint32_t disk, const struct snic_ebs_disk_opts *o)
{
    return snic_solar_qos(v->solar, disk, o, volume_now(v));
}

static int agent_solar_token(struct snic_volume *v, uint32_t disk, const unsigned char *token)
{
    return snic_solar_token(v->solar, disk, token, volume_now(v));
}

static int agent_solar_submit(struct snic_volume *v, struct snic_ebs_io *io)
{
    return snic_solar_submit(v->solar, io, volume_now(v));
}

/* ---- Actions ---- */

static void agent_solar_act(struct snic_volume *v, const struct snic_ebs_action *a)
{
    if (a->type == SNIC_EBS_ACT_SEND)
        volume_path_send(v, a->train);
    else if (a->type == SNIC_EBS_ACT_OPEN)
        volume_path_open(v, a->server, a->path, a->gen);
    else if (a->type == SNIC_EBS_ACT_CLOSE)
        volume_path_close(v, a->server, a->path, a->gen);
    else
        volume_report(v, a);
}

/* Packets are stamped when they leave, not when the loop's iteration began: the iteration's work
 * would count as delay of the fabric, and narrow its window. */
static uint64_t agent_solar_pump(struct snic_volume *v)
{
    struct snic_ebs_action a;
    uint64_t now = snic_loop_clock(v->o.loop);
    while (snic_solar_poll(v->solar, &a, 1, now) == 1)
        agent_solar_act(v, &a);
    return snic_solar_deadline_ns(v->solar);
}

static void agent_solar_halt(struct snic_volume *v)
{
    snic_solar_halt(v->solar, volume_now(v));
    for (uint32_t i = 0; i < v->sockets_max; i++)
        if (v->sockets[i].used)
            volume_socket_close(&v->sockets[i]);
}

static int agent_solar_silent(const struct snic_volume *v)
{
    return v->txs.out == 0;
}

static void agent_solar_stats(const struct snic_volume *v, struct snic_volume_stats *out)
{
    snic_solar_get_stats(v->solar, &out->agent);
    for (uint32_t i = 0; i < v->sockets_max; i++)
        out->open += v->sockets[i].used;
}

static int agent_solar_check(const struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->sockets_max; i++)
        if (v->sockets[i].used != (v->sockets[i].d != NULL))
            return SNIC_ECORRUPT;
    return snic_solar_check(v->solar);
}

const struct volume_agent volume_agent_solar = {
    .wrong = agent_solar_wrong,
    .memsize = agent_solar_memsize,
    .layout = agent_solar_layout,
    .init = agent_solar_init,
    .fini = agent_solar_fini,
    .server_add = agent_solar_server_add,
    .server_remove = agent_solar_server_remove,
    .server_moved = agent_solar_server_moved,
    .map = agent_solar_map,
    .hole = agent_solar_hole,
    .refuse = agent_solar_refuse,
    .waits = agent_solar_waits,
    .attach = agent_solar_attach,
    .detach = agent_solar_detach,
    .qos = agent_solar_qos,
    .token = agent_solar_token,
    .submit = agent_solar_submit,
    .pump = agent_solar_pump,
    .halt = agent_solar_halt,
    .silent = agent_solar_silent,
    .stats = agent_solar_stats,
    .check = agent_solar_check,
};
