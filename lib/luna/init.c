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
           o->error_ns <= 24 * hour && luna_within(o->suspect_ns, 1, hour) &&
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

static void luna_queue_opts(struct ebs_queue_opts *q, const struct snic_luna_opts *o)
{
    memset(q, 0, sizeof(*q));
    q->client_epoch = o->client_epoch;
    q->disks_max = o->disks_max;
    q->servers_max = o->servers_max;
    q->rpcs_max = o->rpcs_max;
    q->chunks_max = o->chunks_max;
    q->disk_blocks_max = o->disk_blocks_max;
    q->deadline_ns = o->deadline_ns;
    q->slow_ns = o->slow_ns;
    q->error_ns = o->error_ns;
    q->seed = o->seed;
}

static struct snic_luna *luna_layout(struct snic_arena *a, const struct snic_luna_opts *o,
                                     struct snic_luna *parts)
{
    struct ebs_queue_opts q;
    size_t align = SNIC_LUNA_ALIGN;
    struct snic_luna *c = snic_arena_take(a, 1, sizeof(*c), align);
    luna_queue_opts(&q, o);
    parts->servers = snic_arena_take(a, o->servers_max, sizeof(struct luna_server), align);
    parts->conns =
        snic_arena_take(a, (size_t)o->servers_max * o->conns, sizeof(struct luna_conn), align);
    parts->rpcs = snic_arena_take(a, o->rpcs_max, sizeof(struct luna_rpc), align);
    parts->pool.outs = snic_arena_take(a, o->sends_max, sizeof(struct luna_out), align);
    unsigned char *cipher = NULL;
    if ((o->flags & SNIC_LUNA_CRYPTO) != 0)
        cipher = snic_arena_take(a, (size_t)o->sends_max * SNIC_LUNA__CIPHERS, SNIC_EBS_BLOCK_BYTES,
                                 align);
    ebs_queue_layout(a, &q, &parts->q);
    if (a->base == NULL || a->used == SIZE_MAX)
        return c;
    /* The maps are large, and most of their memory is never used. */
    memset(a->base, 0, a->used - parts->q.map_bytes);
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
    snic_link_init(&c->conn_events);
    snic_link_init(&c->server_events);
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        c->rpcs[i].c = c;
        snic_link_init(&c->rpcs[i].of_conn);
        ebs_queue_add(&c->q, &c->rpcs[i].q, i, luna_rpc_fired);
    }
    for (uint32_t i = 0; i < c->o.servers_max * c->o.conns; i++) {
        snic_link_init(&c->conns[i].event);
        snic_link_init(&c->conns[i].rpcs);
    }
    for (uint32_t i = 0; i < c->o.servers_max; i++) {
        c->servers[i].load = &c->q.loads[i];
        snic_link_init(&c->servers[i].event);
    }
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
    struct ebs_queue_opts q;
    luna_queue_opts(&q, &full);
    *c = parts;
    c->o = full;
    c->mem = mem;
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    ebs_queue_init(&c->q, &q, &luna_rpc_ops, now_ns);
    c->client_id = snic_rng_next(&c->q.rng);
    luna_init_lists(c);
    *out = c;
    return 0;
}

void *snic_luna_fini(struct snic_luna *c)
{
    SNIC_ASSERT(c->q.s.inside == 0);
    SNIC_ASSERT(c->pool.p.free_count + c->pool.p.queued == c->pool.p.max);
    return c->mem;
}

/* ---- Calls of the queue ---- */

int snic_luna_attach(struct snic_luna *c, uint32_t disk, const struct snic_ebs_disk_opts *o,
                     uint64_t now_ns)
{
    int keys = (c->o.flags & SNIC_LUNA_CRYPTO) != 0;
    return ebs_queue_attach(&c->q, disk, o, keys ? c->o.sec : NULL, now_ns);
}

int snic_luna_detach(struct snic_luna *c, uint32_t disk)
{
    return ebs_queue_detach(&c->q, disk);
}

int snic_luna_qos(struct snic_luna *c, uint32_t disk, const struct snic_ebs_disk_opts *o,
                  uint64_t now_ns)
{
    return ebs_queue_limit(&c->q, disk, o, now_ns);
}

int snic_luna_token(struct snic_luna *c, uint32_t disk,
                    const unsigned char token[SNIC_EBS_TOKEN_BYTES], uint64_t now_ns)
{
    int r = ebs_queue_token(&c->q, disk, token);
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    for (uint32_t i = 0; r == 1 && i < c->q.servers_high; i++)
        for (uint32_t k = 0; k < c->o.conns && c->q.loads[i].used; k++)
            if (c->servers[i].conns[k].state == SNIC_LUNA_UP)
                luna_token_due(c, &c->servers[i].conns[k], disk);
    return r < 0 ? r : 0;
}

int snic_luna_map(struct snic_luna *c, uint32_t disk, uint64_t segment, uint64_t seg_id,
                  uint32_t server, uint32_t gen, uint64_t now_ns)
{
    const struct snic_ebs_where w = {.seg_id = seg_id, .server = server, .seg_gen = gen};
    return ebs_queue_map(&c->q, disk, segment, &w, now_ns);
}

int snic_luna_hole(struct snic_luna *c, uint32_t disk, uint64_t segment, uint64_t asked_ns,
                   uint64_t now_ns)
{
    return ebs_queue_hole(&c->q, disk, segment, asked_ns, now_ns);
}

int snic_luna_refuse(struct snic_luna *c, uint32_t disk, uint64_t segment, int result,
                     uint64_t now_ns)
{
    return ebs_queue_refuse(&c->q, disk, segment, result, now_ns);
}

uint32_t snic_luna_waits(const struct snic_luna *c, uint32_t disk, uint64_t segment)
{
    return ebs_queue_waits(&c->q, disk, segment);
}

int snic_luna_submit(struct snic_luna *c, struct snic_ebs_io *io, uint64_t now_ns)
{
    return ebs_queue_submit(&c->q, io, now_ns);
}

int snic_luna_get_busy(const struct snic_luna *c, uint32_t server, struct snic_ebs_busy *out)
{
    return ebs_queue_get_busy(&c->q, server, out);
}

int snic_luna_get_wait(const struct snic_luna *c, uint32_t disk, struct snic_ebs_wait *out)
{
    return ebs_queue_get_wait(&c->q, disk, out);
}
