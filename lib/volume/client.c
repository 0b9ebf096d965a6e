/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The client from outside: options, memory, and the agent's actions, which the pump carries out.
 */
#include "volume/volume_priv.h"

/* ---- Options and memory ---- */

static void client_default(uint32_t *v, uint32_t value)
{
    if (*v == 0)
        *v = value;
}

static void client_agent_opts(const struct snic_volume_opts *o, struct snic_solar_opts *a)
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
    a->slow_ns = o->slow_ns;
    a->suspect_ns = o->suspect_ns;
    a->disk_blocks_max = o->disk_blocks_max;
    a->sec = o->sec;
}

static int client_options(struct snic_volume_opts *o, const struct snic_volume_opts *from)
{
    struct snic_solar_opts a;
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    client_default(&o->disks_max, 4);
    client_default(&o->servers_max, 4);
    client_default(&o->depth, 128);
    client_default(&o->trains_max, 64);
    if (o->flags != 0 || o->pad != 0 || o->loop == NULL || o->net == NULL ||
        o->net->loop != o->loop || o->depth > 4096 || o->disks_max > 4096)
        return SNIC_EINVAL;
    client_agent_opts(o, &a);
    return snic_solar_memsize(&a) == 0 ? SNIC_EINVAL : 0;
}

static void client_given(void *owner, struct snic_solar_train *train)
{
    struct snic_volume *v = owner;
    snic_solar_sent(v->agent, train, volume_now(v));
    volume_soon(v);
}

/* Once to measure, once to place; @agent: the engine's memory. */
static size_t client_layout(struct snic_arena *a, struct snic_volume *v, void **agent)
{
    const struct snic_volume_opts *o = &v->o;
    struct snic_solar_opts e;
    client_agent_opts(o, &e);
    size_t size = snic_solar_memsize(&e);
    *agent = snic_arena_take(a, 1, size, SNIC_VOLUME_ALIGN);
    /* A path that is exchanged has its new socket before the old one is closed. */
    v->sockets_max = o->servers_max * SNIC_SOLAR_PATHS_MAX * 2;
    struct volume_tx *tx = snic_arena_take(a, o->trains_max, sizeof(*tx), 64);
    v->sockets = snic_arena_take(a, v->sockets_max, sizeof(*v->sockets), 64);
    v->servers = snic_arena_take(a, o->servers_max, sizeof(*v->servers), 64);
    v->disks = snic_arena_take(a, o->disks_max, sizeof(*v->disks), 64);
    struct volume_io *ios = snic_arena_take(a, (size_t)o->disks_max * o->depth, sizeof(*ios), 64);
    if (a->base != NULL && a->used != SIZE_MAX) {
        volume_txs_init(&v->txs, tx, o->trains_max, v, client_given);
        memset(v->sockets, 0, v->sockets_max * sizeof(*v->sockets));
        memset(v->servers, 0, o->servers_max * sizeof(*v->servers));
        volume_disks_init(v, ios);
    }
    return size;
}

size_t snic_volume_memsize(const struct snic_volume_opts *o)
{
    struct snic_arena a = {.base = NULL, .size = SIZE_MAX};
    struct snic_volume v;
    void *agent;
    memset(&v, 0, sizeof(v));
    if (client_options(&v.o, o) != 0)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(v), SNIC_VOLUME_ALIGN);
    (void)client_layout(&a, &v, &agent);
    return a.used == SIZE_MAX ? 0 : a.used;
}

/* ---- The pump ---- */

uint64_t volume_now(const struct snic_volume *v)
{
    return snic_loop_now(v->o.loop);
}

void volume_soon(struct snic_volume *v)
{
    if (v->pumping)
        return;
    v->pumping = 1;
    snic_loop_defer(v->o.loop, &v->pump);
}

static void client_act(struct snic_volume *v, const struct snic_solar_action *a)
{
    switch ((enum snic_solar_act)a->type) {
    case SNIC_SOLAR_TX:
        volume_path_send(v, a->train);
        break;
    case SNIC_SOLAR_DONE:
        volume_disk_done(v, a->io);
        break;
    case SNIC_SOLAR_PATH_OPEN:
        volume_path_open(v, a->server, a->path, a->gen);
        break;
    case SNIC_SOLAR_PATH_CLOSE:
        volume_path_close(v, a->server, a->path, a->gen);
        break;
    case SNIC_SOLAR_MAP:
        v->stats.maps++;
        if (!v->closing)
            v->e.map(v->ctx, a->disk, a->segment, a->gen32);
        break;
    case SNIC_SOLAR_SUSPECT:
    case SNIC_SOLAR_RECOVERED:
        if (v->e.suspect != NULL && !v->closing)
            v->e.suspect(v->ctx, a->server, a->type == SNIC_SOLAR_SUSPECT);
        break;
    case SNIC_SOLAR_SLOW:
        if (v->e.slow != NULL && !v->closing)
            v->e.slow(v->ctx, a->io->disk, a->io->lba, a->io->blocks);
        break;
    case SNIC_SOLAR_LEASE:
        v->disks[a->disk].lost = 1;
        if (v->e.lease != NULL && !v->closing)
            v->e.lease(v->ctx, a->disk);
        break;
    }
}

static void client_run(struct snic_volume *v)
{
    struct snic_solar_action a;
    uint64_t now = volume_now(v);
    for (uint32_t i = 0; i < v->o.disks_max; i++)
        if (v->disks[i].used)
            (void)volume_disk_failed(&v->disks[i]);
    while (snic_solar_poll(v->agent, &a, 1, now) == 1)
        client_act(v, &a);
    uint64_t deadline = snic_solar_deadline_ns(v->agent);
    if (deadline == SNIC_NEVER)
        snic_loop_cancel(v->o.loop, &v->timer);
    else
        snic_loop_arm(v->o.loop, &v->timer, deadline);
}

static void client_pump(struct snic_loop_msg *m)
{
    struct snic_volume *v = SNIC_CONTAINER(m, struct snic_volume, pump);
    v->pumping = 0;
    client_run(v);
}

static void client_timer(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    client_run(SNIC_CONTAINER(t, struct snic_volume, timer));
}

/* ---- Open and close ---- */

int snic_volume_open(struct snic_volume **out, void *mem, size_t size,
                     const struct snic_volume_opts *o, const struct snic_volume_events *e,
                     void *ctx)
{
    struct snic_arena a = {.base = mem, .size = size};
    struct snic_volume_opts opts;
    struct snic_solar_opts agent;
    void *agent_mem;
    if (e->map == NULL || (uintptr_t)mem % SNIC_VOLUME_ALIGN != 0 || client_options(&opts, o) != 0)
        return SNIC_EINVAL;
    struct snic_volume *v = snic_arena_take(&a, 1, sizeof(*v), SNIC_VOLUME_ALIGN);
    if (v == NULL)
        return SNIC_ENOSPC;
    memset(v, 0, sizeof(*v));
    v->o = opts;
    v->e = *e;
    v->ctx = ctx;
    v->pump.fn = client_pump;
    snic_timer_init(&v->timer, client_timer);
    snic_rng_init(&v->rng, opts.seed ^ UINT64_C(0x706f727473));
    size_t agent_size = client_layout(&a, v, &agent_mem);
    if (a.used == SIZE_MAX)
        return SNIC_ENOSPC;
    client_agent_opts(&v->o, &agent);
    int r = snic_solar_init(&v->agent, agent_mem, agent_size, &agent, volume_now(v));
    if (r == 0)
        *out = v;
    return r;
}

static int client_silent(const struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->o.disks_max; i++)
        if (v->disks[i].used && (v->disks[i].inside != 0 || !snic_queue_empty(&v->disks[i].failed)))
            return 0;
    return v->txs.out == 0 && !v->pumping;
}

void *snic_volume_close(struct snic_volume *v)
{
    v->closing = 1;
    snic_solar_halt(v->agent, volume_now(v));
    for (uint32_t i = 0; i < v->sockets_max; i++)
        if (v->sockets[i].used)
            volume_socket_close(&v->sockets[i]);
    volume_soon(v);
    while (!client_silent(v))
        (void)snic_loop_once(v->o.loop, SNIC_NEVER);
    snic_loop_cancel(v->o.loop, &v->timer);
    for (uint32_t i = 0; i < v->sockets_max; i++)
        SNIC_ASSERT(!v->sockets[i].used);
    (void)snic_solar_fini(v->agent);
    return v;
}

int snic_volume_server_add(struct snic_volume *v, uint32_t server, const struct snic_net_addr *addr)
{
    if (server >= v->o.servers_max)
        return SNIC_EINVAL;
    int r = snic_solar_server_add(v->agent, server, volume_now(v));
    if (r != 0)
        return r;
    v->servers[server].addr = *addr;
    v->servers[server].known = 1;
    volume_soon(v);
    return 0;
}

int snic_volume_map(struct snic_volume *v, uint32_t disk, uint64_t segment, uint64_t seg_id,
                    uint32_t server, uint32_t gen)
{
    int r = snic_solar_map(v->agent, disk, segment, seg_id, server, gen, volume_now(v));
    volume_soon(v);
    return r;
}

/* ---- Views ---- */

void snic_volume_get_stats(const struct snic_volume *v, struct snic_volume_stats *out)
{
    *out = v->stats;
    snic_solar_get_stats(v->agent, &out->agent);
    out->unsent = v->txs.unsent;
    for (uint32_t i = 0; i < v->sockets_max; i++)
        out->open += v->sockets[i].used;
}

int snic_volume_get_path(const struct snic_volume *v, uint32_t server, uint32_t path,
                         struct snic_solar_path_stats *out)
{
    return snic_solar_get_path(v->agent, server, path, out);
}

int snic_volume_check(const struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->o.disks_max; i++) {
        const struct volume_disk *d = &v->disks[i];
        uint32_t free = 0;
        if (!d->used)
            continue;
        for (uint32_t k = d->free; k != SNIC_VOLUME__NIL && free <= v->o.depth; k = d->ios[k].next)
            free++;
        if (free + d->inside != v->o.depth)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = 0; i < v->sockets_max; i++)
        if (v->sockets[i].used != (v->sockets[i].d != NULL))
            return SNIC_ECORRUPT;
    return volume_txs_check(&v->txs) != 0 ? SNIC_ECORRUPT : snic_solar_check(v->agent);
}
