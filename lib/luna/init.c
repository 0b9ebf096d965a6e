/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options and memory of the agent.
 */
#include "luna/luna_priv.h"

/* ---- Options ---- */

static const struct ebs_opt luna_opts_rows[] = {
    SNIC_EBS__AGENT_OPTS(snic_luna_opts),
    SNIC_EBS__OPT(snic_luna_opts, conns, 0, 1, SNIC_LUNA_CONNS_MAX, "1..16"),
    SNIC_EBS__OPT(snic_luna_opts, sends_max, 64, 4, 4096, "4..4096"),
    SNIC_EBS__OPT(snic_luna_opts, window_blocks, 512, 1, 65536, "1..65536"),
    SNIC_EBS__OPT(snic_luna_opts, progress_ns, 800 * SNIC_LUNA__MS, SNIC_LUNA__MS, SNIC_EBS__HOUR,
                  "1 ms..1 h"),
    SNIC_EBS__OPT(snic_luna_opts, retry_max_ns, 100 * SNIC_LUNA__MS, SNIC_LUNA__MS, SNIC_EBS__HOUR,
                  "1 ms..1 h"),
};

/* Options with their defaults. @return what is wrong with them, or NULL */
static const char *luna_opts_fill(struct snic_luna_opts *full, const struct snic_luna_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return SNIC_EBS__OPTS_SIZE_WRONG;
    if (full->conns == 0)
        full->conns = (full->flags & SNIC_LUNA_PAPER) != 0 ? 1 : 2;
    ebs_opts_chunks(&full->chunks_max, &full->disk_blocks_max);
    const char *wrong = ebs_opts_fill(full, luna_opts_rows, SNIC_COUNTOF(luna_opts_rows));
    if (wrong != NULL)
        return wrong;
    if ((full->flags & ~(SNIC_LUNA_PAPER | SNIC_LUNA_CRYPTO)) != 0)
        return "flags: unknown bits";
    if ((full->flags & SNIC_LUNA_PAPER) != 0 && full->conns != 1)
        return "conns: not 1 with PAPER";
    if (!snic_is_pow2(full->rpcs_max))
        return "rpcs_max: not a power of two";
    if (full->sec != NULL && full->sec->ops_size < offsetof(struct snic_ebs_sec_ops, gcm_seal))
        return "sec: ops_size is too small";
    return NULL;
}

const char *snic_luna_opts_wrong(const struct snic_luna_opts *o)
{
    struct snic_luna_opts full;
    return luna_opts_fill(&full, o);
}

/* ---- Memory ---- */

static struct snic_luna *luna_layout(struct snic_arena *a, const struct snic_luna_opts *o,
                                     struct snic_luna *parts)
{
    struct ebs_queue_opts q;
    size_t align = SNIC_LUNA_ALIGN;
    struct snic_luna *c = snic_arena_take(a, 1, sizeof(*c), align);
    SNIC_EBS__QUEUE_OPTS(&q, o);
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
    if (luna_opts_fill(&full, o) != NULL)
        return 0;
    memset(&parts, 0, sizeof(parts));
    (void)luna_layout(&a, &full, &parts);
    return a.used == SIZE_MAX ? 0 : snic_align_up(a.used, SNIC_LUNA_ALIGN);
}

static void luna_init_lists(struct snic_luna *c)
{
    snic_link_init(&c->conn_events);
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
    }
}

int snic_luna_init(struct snic_luna **out, void *mem, size_t size, const struct snic_luna_opts *o,
                   uint64_t now_ns)
{
    struct snic_luna_opts full;
    struct snic_luna parts;
    struct snic_arena a = {mem, size, 0};
    if (luna_opts_fill(&full, o) != NULL || (uintptr_t)mem % SNIC_LUNA_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < snic_luna_memsize(o))
        return SNIC_ENOSPC;
    memset(&parts, 0, sizeof(parts));
    struct snic_luna *c = luna_layout(&a, &full, &parts);
    struct ebs_queue_opts q;
    SNIC_EBS__QUEUE_OPTS(&q, &full);
    *c = parts;
    c->o = full;
    c->mem = mem;
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    ebs_queue_init(&c->q, &q, &luna_queue_ops, now_ns);
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

int snic_luna_hole(struct snic_luna *c, uint32_t disk, uint64_t segment, uint64_t lookup_ns,
                   uint64_t now_ns)
{
    return ebs_queue_hole(&c->q, disk, segment, lookup_ns, now_ns);
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
