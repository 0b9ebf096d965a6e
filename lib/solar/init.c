/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options and memory of the agent, and the pool of trains that both sides have.
 */
#include "solar/solar_priv.h"

/* ---- Trains ---- */

void solar_pool_init(struct solar_pool *p, struct solar_train *t, unsigned char *cipher,
                     uint32_t max)
{
    memset(p, 0, sizeof(*p));
    p->trains = t;
    p->p.max = max;
    for (uint32_t i = max; i-- > 0;) {
        t[i].t.index = i;
        t[i].cipher = cipher == NULL
                          ? NULL
                          : cipher + (size_t)i * SNIC_SOLAR_TRAIN_MAX * SNIC_EBS_BLOCK_BYTES;
        ebs_pool_free(&p->p, &t[i].t.node);
    }
}

struct solar_train *solar_train_take(struct solar_pool *p)
{
    struct snic_node *n = ebs_pool_take(&p->p);
    if (n == NULL)
        return NULL;
    struct solar_train *t = SNIC_CONTAINER(n, struct solar_train, t.node);
    t->t.iov = t->iov;
    t->t.iov_count = 0;
    t->t.segment = 0;
    t->t.packets = 0;
    t->t.bytes = 0;
    t->t.cookie = 0;
    t->t.state = EBS_LENT_BUILT;
    t->acks = 0;
    return t;
}

void solar_train_queue(struct solar_pool *p, struct solar_train *t)
{
    t->t.state = EBS_LENT_QUEUED;
    ebs_pool_queue(&p->p, &t->t.node);
}

struct solar_train *solar_train_next(struct solar_pool *p)
{
    struct snic_node *n = ebs_pool_next(&p->p);
    if (n == NULL)
        return NULL;
    struct solar_train *t = SNIC_CONTAINER(n, struct solar_train, t.node);
    t->t.state = EBS_LENT_OUT;
    return t;
}

void solar_train_free(struct solar_pool *p, struct solar_train *t)
{
    SNIC_ASSERT(t->t.state == EBS_LENT_OUT || t->t.state == EBS_LENT_BUILT);
    t->t.state = EBS_LENT_FREE;
    ebs_pool_free(&p->p, &t->t.node);
}

void solar_train_add(struct solar_train *t, void *head, uint32_t head_size, const void *data,
                     uint32_t data_size)
{
    uint32_t size = head_size + data_size;
    SNIC_DASSERT(t->t.packets < SNIC_SOLAR_TRAIN_MAX);
    if (t->t.packets == 0)
        t->t.segment = size;
    SNIC_DASSERT(t->t.bytes == t->t.packets * t->t.segment);
    t->iov[t->t.iov_count].base = head;
    t->iov[t->t.iov_count++].size = head_size;
    if (data_size > 0) {
        uintptr_t bytes = (uintptr_t)data; /* a sender only reads it, but an iovec is not const */
        t->iov[t->t.iov_count].base = (void *)bytes;
        t->iov[t->t.iov_count++].size = data_size;
    }
    t->t.packets++;
    t->t.bytes += size;
}

void solar_train_append(struct solar_train *t, void *bytes, uint32_t size)
{
    if (t->t.packets == 1)
        t->t.segment += size;
    t->iov[t->t.iov_count].base = bytes;
    t->iov[t->t.iov_count++].size = size;
    t->t.bytes += size;
}

int solar_pool_check(const struct solar_pool *p)
{
    uint32_t states[EBS_LENT_STATES] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < p->p.max; i++) {
        if (p->trains[i].t.state >= EBS_LENT_STATES || p->trains[i].t.index != i)
            return SNIC_ECORRUPT;
        states[p->trains[i].t.state]++;
    }
    return ebs_pool_check(&p->p, states);
}

/* ---- Options ---- */

static const struct ebs_opt solar_opts_rows[] = {
    SNIC_EBS__AGENT_OPTS(snic_solar_opts),
    SNIC_EBS__OPT(snic_solar_opts, paths, 4, 1, 8, "1..8"),
    SNIC_EBS__OPT(snic_solar_opts, trains_max, 64, 4, 4096, "4..4096"),
    SNIC_EBS__OPT(snic_solar_opts, read_window_bytes, 262144, 65536, 1u << 27, "64 KiB..128 MiB"),
    SNIC_EBS__OPT(snic_solar_opts, window_start, 4, 1, 64, "1..64"),
    SNIC_EBS__OPT(snic_solar_opts, window_max, 256, 1, 256, "1..256"),
    SNIC_EBS__OPT(snic_solar_opts, rto_max_ns, 8 * SNIC_SOLAR__MS, 10000, 8 * SNIC_SOLAR__MS,
                  "10 us..8 ms"),
    SNIC_EBS__OPT(snic_solar_opts, rto_min_ns, SNIC_SOLAR__MS, 10000, 8 * SNIC_SOLAR__MS,
                  "10 us..rto_max_ns"),
    SNIC_EBS__OPT(snic_solar_opts, hop_rate, 1250000000, 1000000, UINT64_C(1) << 40, "10^6..2^40"),
    SNIC_EBS__OPT(snic_solar_opts, base_rtt_ns, 30 * SNIC_SOLAR__US, 1000, SNIC_SOLAR__MS,
                  "1 us..1 ms"),
};

/* Options with their defaults. @return what is wrong with them, or NULL */
static const char *solar_opts_fill(struct snic_solar_opts *full, const struct snic_solar_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return SNIC_EBS__OPTS_SIZE_WRONG;
    ebs_opts_chunks(&full->chunks_max, &full->disk_blocks_max);
    const char *wrong = ebs_opts_fill(full, solar_opts_rows, SNIC_COUNTOF(solar_opts_rows));
    if (wrong != NULL)
        return wrong;
    if ((full->flags & ~(SNIC_SOLAR_INT | SNIC_SOLAR_CRYPTO | SNIC_SOLAR_AUTH)) != 0)
        return "flags: unknown bits";
    if (!snic_is_pow2(full->rpcs_max))
        return "rpcs_max: not a power of two";
    if (full->window_start > full->window_max)
        return "window_start: above window_max";
    if (full->rto_min_ns > full->rto_max_ns)
        return "rto_min_ns: not 10 us..rto_max_ns";
    if (full->sec != NULL && full->sec->ops_size < sizeof(struct snic_ebs_sec_ops))
        return "sec: ops_size is too small";
    if ((full->flags & SNIC_SOLAR_AUTH) != 0 && !solar_wire_able(full->sec, full->wire_keys))
        return "flags: AUTH needs sec with GCM and MAC, and two wire_keys";
    return NULL;
}

const char *snic_solar_opts_wrong(const struct snic_solar_opts *o)
{
    struct snic_solar_opts full;
    return solar_opts_fill(&full, o);
}

/* ---- Memory ---- */

static void solar_addr_opts(struct snic_ebs_addr_opts *a, const struct snic_solar_opts *o)
{
    /* An RPC gets its credit while less than the window is out, so the last one may exceed it. */
    uint64_t slots =
        snic_pow2_up(o->read_window_bytes / SNIC_EBS_BLOCK_BYTES + SNIC_EBS_RPC_BLOCKS);
    memset(a, 0, sizeof(*a));
    a->opts_size = sizeof(*a);
    a->slots = (uint32_t)snic_min_u64(slots, 65536);
}

static struct snic_solar *solar_layout(struct snic_arena *a, const struct snic_solar_opts *o,
                                       struct snic_solar *parts)
{
    struct ebs_queue_opts q;
    struct snic_ebs_addr_opts ad;
    size_t align = SNIC_SOLAR_ALIGN;
    uint32_t paths = o->servers_max * 2 * o->paths;
    struct snic_solar *c = snic_arena_take(a, 1, sizeof(*c), align);
    SNIC_EBS__QUEUE_OPTS(&q, o);
    solar_addr_opts(&ad, o);
    parts->servers = snic_arena_take(a, o->servers_max, sizeof(struct solar_server), align);
    parts->paths = snic_arena_take(a, paths, sizeof(struct solar_path), align);
    parts->rpcs = snic_arena_take(a, o->rpcs_max, sizeof(struct solar_rpc), align);
    parts->pool.trains = snic_arena_take(a, o->trains_max, sizeof(struct solar_train), align);
    parts->addr_mem = snic_arena_take(a, 1, snic_ebs_addr_memsize(&ad), align);
    struct solar_tx *rings =
        snic_arena_take(a, (size_t)paths * SNIC_SOLAR__RING, sizeof(*rings), align);
    unsigned char *cipher = NULL;
    if ((o->flags & (SNIC_SOLAR_CRYPTO | SNIC_SOLAR_AUTH)) != 0)
        cipher = snic_arena_take(a, (size_t)o->trains_max * SNIC_SOLAR_TRAIN_MAX,
                                 SNIC_EBS_BLOCK_BYTES, align);
    if ((o->flags & SNIC_SOLAR_AUTH) != 0)
        parts->wire.plain = snic_arena_take(a, 1, SNIC_EBS_BLOCK_BYTES, align);
    ebs_queue_layout(a, &q, &parts->q);
    if (a->base == NULL || a->used == SIZE_MAX)
        return c;
    /* The maps are large, and most of their memory is never used. */
    memset(a->base, 0, a->used - parts->q.map_bytes);
    for (uint32_t i = 0; i < paths; i++)
        parts->paths[i].ring = rings + (size_t)i * SNIC_SOLAR__RING;
    solar_pool_init(&parts->pool, parts->pool.trains, cipher, o->trains_max);
    return c;
}

size_t snic_solar_memsize(const struct snic_solar_opts *o)
{
    struct snic_solar_opts full;
    struct snic_solar parts;
    struct snic_arena a = {NULL, 0, 0};
    if (solar_opts_fill(&full, o) != NULL)
        return 0;
    memset(&parts, 0, sizeof(parts));
    (void)solar_layout(&a, &full, &parts);
    return a.used == SIZE_MAX ? 0 : snic_align_up(a.used, SNIC_SOLAR_ALIGN);
}

static void solar_init_lists(struct snic_solar *c)
{
    snic_link_init(&c->read_wait);
    snic_link_init(&c->path_events);
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        c->rpcs[i].c = c;
        ebs_queue_add(&c->q, &c->rpcs[i].q, i, solar_rpc_fired);
    }
    for (uint32_t i = 0; i < c->o.servers_max * c->path_slots; i++)
        snic_link_init(&c->paths[i].event);
    for (uint32_t i = 0; i < c->o.servers_max; i++) {
        c->servers[i].load = &c->q.loads[i];
    }
}

int snic_solar_init(struct snic_solar **out, void *mem, size_t size,
                    const struct snic_solar_opts *o, uint64_t now_ns)
{
    struct snic_solar_opts full;
    struct snic_solar parts;
    struct snic_arena a = {mem, size, 0};
    if (solar_opts_fill(&full, o) != NULL || (uintptr_t)mem % SNIC_SOLAR_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < snic_solar_memsize(o))
        return SNIC_ENOSPC;
    memset(&parts, 0, sizeof(parts));
    struct snic_solar *c = solar_layout(&a, &full, &parts);
    struct ebs_queue_opts q;
    struct snic_ebs_addr_opts ad;
    struct snic_ebs_addr *addr = NULL;
    SNIC_EBS__QUEUE_OPTS(&q, &full);
    solar_addr_opts(&ad, &full);
    *c = parts;
    c->o = full;
    solar_wire_init(&c->wire, full.sec, full.wire_keys);
    c->mem = mem;
    c->path_slots = 2 * full.paths;
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    c->read_max = full.read_window_bytes;
    ebs_queue_init(&c->q, &q, &solar_queue_ops, now_ns);
    c->client_id = snic_rng_next(&c->q.rng);
    solar_init_lists(c);
    int bad = snic_ebs_addr_init(&addr, c->addr_mem, snic_ebs_addr_memsize(&ad), &ad);
    SNIC_ASSERT(bad == 0);
    (void)bad;
    c->addr = addr;
    *out = c;
    return 0;
}

void *snic_solar_fini(struct snic_solar *c)
{
    SNIC_ASSERT(c->q.s.inside == 0);
    SNIC_ASSERT(c->pool.p.free_count + c->pool.p.queued == c->pool.p.max);
    return c->mem;
}

/* ---- Calls of the queue ---- */

int snic_solar_attach(struct snic_solar *c, uint32_t disk, const struct snic_ebs_disk_opts *o,
                      uint64_t now_ns)
{
    int keys = (c->o.flags & SNIC_SOLAR_CRYPTO) != 0;
    return ebs_queue_attach(&c->q, disk, o, keys ? c->o.sec : NULL, now_ns);
}

int snic_solar_detach(struct snic_solar *c, uint32_t disk)
{
    return ebs_queue_detach(&c->q, disk);
}

int snic_solar_qos(struct snic_solar *c, uint32_t disk, const struct snic_ebs_disk_opts *o,
                   uint64_t now_ns)
{
    return ebs_queue_limit(&c->q, disk, o, now_ns);
}

int snic_solar_token(struct snic_solar *c, uint32_t disk,
                     const unsigned char token[SNIC_EBS_TOKEN_BYTES], uint64_t now_ns)
{
    int r = ebs_queue_token(&c->q, disk, token);
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    for (uint32_t i = 0; r == 1 && i < c->q.servers_high; i++)
        if (c->servers[i].load->used)
            (void)solar_send_token(c, &c->servers[i], disk);
    return r < 0 ? r : 0;
}

int snic_solar_map(struct snic_solar *c, uint32_t disk, uint64_t segment, uint64_t seg_id,
                   uint32_t server, uint32_t gen, uint64_t now_ns)
{
    const struct snic_ebs_where w = {.seg_id = seg_id, .server = server, .seg_gen = gen};
    return ebs_queue_map(&c->q, disk, segment, &w, now_ns);
}

int snic_solar_hole(struct snic_solar *c, uint32_t disk, uint64_t segment, uint64_t lookup_ns,
                    uint64_t now_ns)
{
    return ebs_queue_hole(&c->q, disk, segment, lookup_ns, now_ns);
}

int snic_solar_refuse(struct snic_solar *c, uint32_t disk, uint64_t segment, int result,
                      uint64_t now_ns)
{
    return ebs_queue_refuse(&c->q, disk, segment, result, now_ns);
}

uint32_t snic_solar_waits(const struct snic_solar *c, uint32_t disk, uint64_t segment)
{
    return ebs_queue_waits(&c->q, disk, segment);
}

int snic_solar_submit(struct snic_solar *c, struct snic_ebs_io *io, uint64_t now_ns)
{
    return ebs_queue_submit(&c->q, io, now_ns);
}

int snic_solar_get_busy(const struct snic_solar *c, uint32_t server, struct snic_ebs_busy *out)
{
    return ebs_queue_get_busy(&c->q, server, out);
}

int snic_solar_get_wait(const struct snic_solar *c, uint32_t disk, struct snic_ebs_wait *out)
{
    return ebs_queue_get_wait(&c->q, disk, out);
}
