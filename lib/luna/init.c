/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options and memory of the agent.
 */
#include "luna/luna_priv.h"

/* ---- Options ---- */

static void luna_default32(uint32_t *field, uint32_t value)
{
    if (*field == 0)
        *field = value;
}

static void luna_default64(uint64_t *field, uint64_t value)
{
    if (*field == 0)
        *field = value;
}

static int luna_within(uint64_t value, uint64_t min, uint64_t max)
{
    return value >= min && value <= max;
}

static int luna_opts_valid(const struct snic_luna_opts *o)
{
    uint64_t hour = UINT64_C(3600000000000);
    return (o->flags & ~(SNIC_LUNA_PAPER | SNIC_LUNA_CRYPTO)) == 0 &&
           luna_within(o->client_epoch, 1, 65535) && luna_within(o->disks_max, 1, 4096) &&
           luna_within(o->servers_max, 1, 1024) && luna_within(o->conns, 1, SNIC_LUNA_CONNS_MAX) &&
           ((o->flags & SNIC_LUNA_PAPER) == 0 || o->conns == 1) &&
           luna_within(o->rpcs_max, 16, 65536) && snic_is_pow2(o->rpcs_max) &&
           luna_within(o->sends_max, 4, 4096) && luna_within(o->chunks_max, 1, 1u << 20) &&
           luna_within(o->window_blocks, 1, 65536) &&
           luna_within(o->disk_blocks_max, 512, UINT64_C(1) << 40) &&
           luna_within(o->deadline_ns, 1, 24 * hour) && luna_within(o->slow_ns, 1, 24 * hour) &&
           luna_within(o->suspect_ns, 1, hour) &&
           luna_within(o->progress_ns, SNIC_LUNA__MS, hour) &&
           luna_within(o->retry_max_ns, SNIC_LUNA__MS, hour) &&
           luna_within(o->stall_ns, 1000, hour) &&
           (o->sec == NULL || o->sec->ops_size >= offsetof(struct snic_ebs_sec_ops, gcm_seal));
}

static int luna_opts(struct snic_luna_opts *full, const struct snic_luna_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return SNIC_EINVAL;
    luna_default32(&full->disks_max, 16);
    luna_default32(&full->servers_max, 8);
    luna_default32(&full->conns, (full->flags & SNIC_LUNA_PAPER) != 0 ? 1 : 2);
    luna_default32(&full->rpcs_max, 1024);
    luna_default32(&full->sends_max, 64);
    luna_default32(&full->window_blocks, 512);
    luna_default64(&full->disk_blocks_max, (uint64_t)(full->chunks_max != 0 ? full->chunks_max : 8)
                                               << 18);
    luna_default32(
        &full->chunks_max,
        (uint32_t)snic_min_u64((full->disk_blocks_max + (1u << 18) - 1) >> 18, 1u << 20));
    luna_default64(&full->deadline_ns, UINT64_C(60000000000));
    luna_default64(&full->slow_ns, UINT64_C(1000000000));
    luna_default64(&full->suspect_ns, 300 * SNIC_LUNA__MS);
    luna_default64(&full->progress_ns, 800 * SNIC_LUNA__MS);
    luna_default64(&full->retry_max_ns, 100 * SNIC_LUNA__MS);
    luna_default64(&full->stall_ns, SNIC_LUNA__MS);
    return luna_opts_valid(full) ? 0 : SNIC_EINVAL;
}

/* ---- Memory ---- */

static struct snic_luna *luna_layout(struct snic_arena *a, const struct snic_luna_opts *o,
                                     struct snic_luna *parts)
{
    struct snic_ebs_qos_opts q = {.opts_size = sizeof(q), .disks = o->disks_max};
    struct snic_ebs_map_opts m;
    size_t align = SNIC_LUNA_ALIGN;
    struct snic_luna *c = snic_arena_take(a, 1, sizeof(*c), align);
    luna_map_opts(&m, o, o->disk_blocks_max);
    parts->disks = snic_arena_take(a, o->disks_max, sizeof(struct luna_disk), align);
    /* One more: luna_nowhere(). */
    parts->servers =
        snic_arena_take(a, (size_t)o->servers_max + 1, sizeof(struct luna_server), align);
    parts->conns =
        snic_arena_take(a, (size_t)o->servers_max * o->conns, sizeof(struct luna_conn), align);
    parts->rpcs = snic_arena_take(a, o->rpcs_max, sizeof(struct luna_rpc), align);
    parts->pool.outs = snic_arena_take(a, o->sends_max, sizeof(struct luna_out), align);
    parts->qos = snic_arena_take(a, 1, snic_ebs_qos_memsize(&q), align);
    unsigned char *cipher = NULL;
    if ((o->flags & SNIC_LUNA_CRYPTO) != 0)
        cipher = snic_arena_take(a, (size_t)o->sends_max * SNIC_LUNA__CIPHERS, SNIC_EBS_BLOCK_BYTES,
                                 align);
    size_t map = snic_align_up(snic_ebs_map_memsize(&m), align);
    unsigned char *maps = snic_arena_take(a, o->disks_max, map, align);
    if (a->base == NULL || a->used == SIZE_MAX)
        return c;
    memset(a->base, 0, a->used - (size_t)o->disks_max * map);
    for (uint32_t i = 0; i < o->disks_max; i++)
        parts->disks[i].map_mem = maps + i * map;
    luna_pool_init(&parts->pool, parts->pool.outs, cipher, o->sends_max);
    return c;
}

size_t snic_luna_memsize(const struct snic_luna_opts *o)
{
    struct snic_luna_opts full;
    struct snic_luna parts;
    struct snic_arena a = {NULL, 0, 0};
    if (luna_opts(&full, o) != 0)
        return 0;
    memset(&parts, 0, sizeof(parts));
    (void)luna_layout(&a, &full, &parts);
    return a.used == SIZE_MAX ? 0 : snic_align_up(a.used, SNIC_LUNA_ALIGN);
}

static void luna_init_lists(struct snic_luna *c)
{
    struct snic_link *heads[] = {&c->free_rpcs,     &c->outs,       &c->parked,  &c->turns,
                                 &c->done,          &c->ages,       &c->limited, &c->conn_events,
                                 &c->server_events, &c->disk_events};
    for (size_t i = 0; i < SNIC_COUNTOF(heads); i++)
        snic_link_init(heads[i]);
    c->slow = &c->ages;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        struct luna_rpc *r = &c->rpcs[i];
        r->slot = i;
        r->c = c;
        snic_timer_init(&r->timer, luna_rpc_fired);
        snic_link_init(&r->of_disk);
        snic_link_init(&r->of_conn);
        snic_ebs_ask_init(&r->ask);
        snic_link_append(&c->free_rpcs, &r->link);
    }
    c->rpcs_free = c->o.rpcs_max;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct luna_disk *d = &c->disks[i];
        struct snic_link *links[] = {&d->queue, &d->order, &d->rpcs, &d->turn, &d->event};
        for (size_t k = 0; k < SNIC_COUNTOF(links); k++)
            snic_link_init(links[k]);
        snic_ebs_ask_init(&d->ask);
        d->index = i;
    }
    for (uint32_t i = 0; i < c->o.servers_max * c->o.conns; i++) {
        snic_link_init(&c->conns[i].event);
        snic_link_init(&c->conns[i].rpcs);
    }
    for (uint32_t i = 0; i <= luna_nowhere(c); i++)
        snic_link_init(&c->servers[i].event);
}

int snic_luna_init(struct snic_luna **out, void *mem, size_t size, const struct snic_luna_opts *o,
                   uint64_t now_ns)
{
    struct snic_luna_opts full;
    struct snic_luna parts;
    struct snic_arena a = {mem, size, 0};
    if (luna_opts(&full, o) != 0 || (uintptr_t)mem % SNIC_LUNA_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < snic_luna_memsize(o))
        return SNIC_ENOSPC;
    memset(&parts, 0, sizeof(parts));
    struct snic_luna *c = luna_layout(&a, &full, &parts);
    struct snic_ebs_qos_opts q = {.opts_size = sizeof(q), .disks = full.disks_max};
    *c = parts;
    c->o = full;
    c->mem = mem;
    while (((uint32_t)1 << c->slot_bits) < full.rpcs_max)
        c->slot_bits++;
    c->now_ns = now_ns;
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    c->qos_ns = SNIC_NEVER;
    snic_ebs_asks_init(&c->asks, full.slow_ns);
    snic_rng_init(&c->rng, full.seed);
    c->client_id = snic_rng_next(&c->rng);
    snic_wheel_init(&c->wheel, now_ns);
    luna_init_lists(c);
    struct snic_ebs_qos *qos = NULL;
    int bad = snic_ebs_qos_init(&qos, c->qos, snic_ebs_qos_memsize(&q), &q);
    SNIC_ASSERT(bad == 0);
    c->qos = qos;
    *out = c;
    return 0;
}

void *snic_luna_fini(struct snic_luna *c)
{
    SNIC_ASSERT(c->s.inside == 0);
    SNIC_ASSERT(c->pool.free_count + c->pool.queued == c->pool.max);
    return c->mem;
}
