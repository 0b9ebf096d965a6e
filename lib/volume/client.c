/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The client's public functions: options, memory, time, and when the agent is polled.
 */
#include "volume/volume_priv.h"

/* ---- Options and memory ---- */

static const struct ebs_opt client_opts_rows[] = {
    SNIC_EBS__OPT(snic_volume_opts, disks_max, 4, 1, 4096, "1..4096"),
    SNIC_EBS__OPT(snic_volume_opts, servers_max, 4, 1, 1024, "1..1024"),
    SNIC_EBS__OPT(snic_volume_opts, depth, 128, 1, 4096, "1..4096"),
    SNIC_EBS__OPT(snic_volume_opts, trains_max, 64, 4, 4096, "4..4096"),
    SNIC_EBS__OPT(snic_volume_opts, transport, 0, 0, SNIC_VOLUME_LUNA, "SOLAR or LUNA"),
};

static const struct volume_agent *client_agent(const struct snic_volume_opts *o)
{
    return o->transport == SNIC_VOLUME_LUNA ? &volume_agent_luna : &volume_agent_solar;
}

/* Options with their defaults. @return what is wrong with them, or NULL */
static const char *client_opts_fill(struct snic_volume_opts *o, const struct snic_volume_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return SNIC_EBS__OPTS_SIZE_WRONG;
    const char *wrong = ebs_opts_fill(o, client_opts_rows, SNIC_COUNTOF(client_opts_rows));
    if (wrong != NULL)
        return wrong;
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or of another loop";
    return client_agent(o)->wrong(o);
}

const char *snic_volume_opts_wrong(const struct snic_volume_opts *o)
{
    struct snic_volume_opts full;
    return client_opts_fill(&full, o);
}

/* Once to measure, once to place; @agent: the engine's memory. */
static size_t client_layout(struct snic_arena *a, struct snic_volume *v, void **agent)
{
    const struct snic_volume_opts *o = &v->o;
    v->agent = client_agent(o);
    size_t size = v->agent->memsize(o);
    if (size == 0)
        a->used = SIZE_MAX; /* beyond what memory can be */
    *agent = snic_arena_take(a, 1, size, SNIC_VOLUME_ALIGN);
    v->agent->layout(a, v);
    v->servers = snic_arena_take(a, o->servers_max, sizeof(*v->servers), 64);
    v->disks = snic_arena_take(a, o->disks_max, sizeof(*v->disks), 64);
    struct volume_io *ios = snic_arena_take(a, (size_t)o->disks_max * o->depth, sizeof(*ios), 64);
    if (a->base != NULL && a->used != SIZE_MAX) {
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
    if (client_opts_fill(&v.o, o) != NULL)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(v), SNIC_VOLUME_ALIGN);
    (void)client_layout(&a, &v, &agent);
    return a.used == SIZE_MAX ? 0 : a.used;
}

/* ---- The pump ---- */

static void client_run(struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->o.disks_max; i++)
        if (v->disks[i].used)
            (void)volume_disk_failed(&v->disks[i]);
    uint64_t deadline = v->agent->pump(v);
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
    void *agent_mem;
    if (e->map == NULL || (uintptr_t)mem % SNIC_VOLUME_ALIGN != 0 ||
        client_opts_fill(&opts, o) != NULL)
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
    int r = v->agent->init(v, agent_mem, agent_size);
    if (r == 0)
        *out = v;
    return r;
}

static int client_silent(const struct snic_volume *v)
{
    for (uint32_t i = 0; i < v->o.disks_max; i++)
        if (v->disks[i].used &&
            (v->disks[i].inside != 0 || !snic_queue_empty(&v->disks[i].failed) ||
             !snic_io_room_idle(&v->disks[i].room)))
            return 0;
    return v->agent->silent(v) && !v->pumping;
}

void *snic_volume_close(struct snic_volume *v)
{
    v->closing = 1;
    v->agent->halt(v);
    volume_soon(v);
    while (!client_silent(v))
        (void)snic_loop_once(v->o.loop, SNIC_NEVER);
    snic_loop_cancel(v->o.loop, &v->timer);
    v->agent->fini(v);
    return v;
}

int snic_volume_server_add(struct snic_volume *v, uint32_t server, const struct snic_net_addr *addr)
{
    if (server >= v->o.servers_max)
        return SNIC_EINVAL;
    int r = v->agent->server_add(v, server);
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
    int r = v->agent->map(v, disk, segment, seg_id, server, gen);
    volume_soon(v);
    return r;
}

int snic_volume_hole(struct snic_volume *v, uint32_t disk, uint64_t segment, uint64_t lookup_ns)
{
    int r = v->agent->hole(v, disk, segment, lookup_ns);
    volume_soon(v);
    return r;
}

int snic_volume_refuse(struct snic_volume *v, uint32_t disk, uint64_t segment, int result)
{
    int r = v->agent->refuse(v, disk, segment, result);
    volume_soon(v);
    return r;
}

uint32_t snic_volume_waits(const struct snic_volume *v, uint32_t disk, uint64_t segment)
{
    return v->agent->waits(v, disk, segment);
}

/* ---- Views ---- */

void snic_volume_get_stats(const struct snic_volume *v, struct snic_volume_stats *out)
{
    *out = v->stats;
    out->unsent = v->txs.unsent;
    out->too_large = v->txs.too_large;
    out->transport = v->o.transport;
    v->agent->stats(v, out);
}

int snic_volume_get_busy(const struct snic_volume *v, uint32_t server, struct snic_ebs_busy *out)
{
    return v->solar != NULL ? snic_solar_get_busy(v->solar, server, out)
                            : snic_luna_get_busy(v->luna, server, out);
}

int snic_volume_get_wait(const struct snic_volume *v, uint32_t disk, struct snic_ebs_wait *out)
{
    return v->solar != NULL ? snic_solar_get_wait(v->solar, disk, out)
                            : snic_luna_get_wait(v->luna, disk, out);
}

int snic_volume_get_addr(const struct snic_volume *v, uint32_t server, struct snic_net_addr *out)
{
    if (server >= v->o.servers_max || !v->servers[server].known)
        return SNIC_ENOENT;
    *out = v->servers[server].addr;
    return 0;
}

int snic_volume_get_path(const struct snic_volume *v, uint32_t server, uint32_t path,
                         struct snic_solar_path_stats *out)
{
    return v->solar == NULL ? SNIC_ENOENT : snic_solar_get_path(v->solar, server, path, out);
}

int snic_volume_get_conn(const struct snic_volume *v, uint32_t server, uint32_t conn,
                         struct snic_luna_conn_stats *out)
{
    return v->luna == NULL ? SNIC_ENOENT : snic_luna_get_conn(v->luna, server, conn, out);
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
    return volume_txs_check(&v->txs) != 0 ? SNIC_ECORRUPT : v->agent->check(v);
}
