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
    p->max = max;
    for (uint32_t i = 0; i < max; i++) {
        t[i].t.index = i;
        t[i].cipher = cipher == NULL
                          ? NULL
                          : cipher + (size_t)i * SNIC_SOLAR_TRAIN_MAX * SNIC_EBS_BLOCK_BYTES;
        snic_queue_push(&p->free, &t[i].t.node);
    }
    p->free_count = max;
}

struct solar_train *solar_train_take(struct solar_pool *p)
{
    struct snic_node *n = snic_queue_pop(&p->free);
    if (n == NULL)
        return NULL;
    struct solar_train *t = SNIC_CONTAINER(n, struct solar_train, t.node);
    p->free_count--;
    t->t.iov = t->iov;
    t->t.iov_count = 0;
    t->t.segment = 0;
    t->t.packets = 0;
    t->t.bytes = 0;
    t->t.cookie = 0;
    t->t.state = SOLAR_TRAIN_BUILT;
    t->acks = 0;
    return t;
}

void solar_train_queue(struct solar_pool *p, struct solar_train *t)
{
    t->t.state = SOLAR_TRAIN_QUEUED;
    snic_queue_push(&p->queue, &t->t.node);
    p->queued++;
}

void solar_train_free(struct solar_pool *p, struct solar_train *t)
{
    SNIC_ASSERT(t->t.state == SOLAR_TRAIN_LENT || t->t.state == SOLAR_TRAIN_BUILT);
    t->t.state = SOLAR_TRAIN_FREE;
    /* The one that was used last is warm. */
    t->t.node.next = p->free.first;
    p->free.first = &t->t.node;
    if (p->free.last == NULL)
        p->free.last = &t->t.node;
    p->free_count++;
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
        uintptr_t bytes = (uintptr_t)data; /* a sender reads only, but iovecs do not say so */
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
    uint32_t free_count = 0, queued = 0, states[4] = {0, 0, 0, 0};
    for (const struct snic_node *n = p->free.first; n != NULL; n = n->next)
        if (++free_count > p->max)
            return SNIC_ECORRUPT;
    for (const struct snic_node *n = p->queue.first; n != NULL; n = n->next)
        if (++queued > p->max)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < p->max; i++) {
        if (p->trains[i].t.state > SOLAR_TRAIN_LENT || p->trains[i].t.index != i)
            return SNIC_ECORRUPT;
        states[p->trains[i].t.state]++;
    }
    return free_count == p->free_count && queued == p->queued &&
                   states[SOLAR_TRAIN_FREE] == free_count && states[SOLAR_TRAIN_QUEUED] == queued
               ? 0
               : SNIC_ECORRUPT;
}

/* ---- Options ---- */

static void solar_default32(uint32_t *field, uint32_t value)
{
    if (*field == 0)
        *field = value;
}

static void solar_default64(uint64_t *field, uint64_t value)
{
    if (*field == 0)
        *field = value;
}

static int solar_within(uint64_t value, uint64_t min, uint64_t max)
{
    return value >= min && value <= max;
}

static int solar_opts_valid(const struct snic_solar_opts *o)
{
    uint64_t hour = UINT64_C(3600000000000);
    return (o->flags & ~(SNIC_SOLAR_INT | SNIC_SOLAR_CRYPTO | SNIC_SOLAR_AUTH)) == 0 &&
           solar_within(o->client_epoch, 1, 65535) && solar_within(o->disks_max, 1, 4096) &&
           solar_within(o->servers_max, 1, 1024) && solar_within(o->paths, 1, 8) &&
           solar_within(o->rpcs_max, 16, 65536) && snic_is_pow2(o->rpcs_max) &&
           solar_within(o->trains_max, 4, 4096) && solar_within(o->chunks_max, 1, 1u << 20) &&
           solar_within(o->disk_blocks_max, 512, UINT64_C(1) << 40) &&
           solar_within(o->read_window_bytes, 65536, 1u << 27) &&
           solar_within(o->window_start, 1, 64) && solar_within(o->window_max, 1, 256) &&
           o->window_start <= o->window_max && solar_within(o->deadline_ns, 1, 24 * hour) &&
           solar_within(o->slow_ns, 1, 24 * hour) && solar_within(o->suspect_ns, 1, hour) &&
           solar_within(o->rto_min_ns, 10000, o->rto_max_ns) &&
           solar_within(o->rto_max_ns, 10000, 8 * SNIC_SOLAR__MS) &&
           solar_within(o->stall_ns, 1000, hour) &&
           solar_within(o->hop_rate, 1000000, UINT64_C(1) << 40) &&
           solar_within(o->base_rtt_ns, 1000, SNIC_SOLAR__MS) &&
           (o->sec == NULL || o->sec->ops_size >= sizeof(struct snic_ebs_sec_ops)) &&
           ((o->flags & SNIC_SOLAR_AUTH) == 0 || solar_wire_able(o->sec, o->wire_keys));
}

static int solar_opts(struct snic_solar_opts *full, const struct snic_solar_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return SNIC_EINVAL;
    solar_default32(&full->disks_max, 16);
    solar_default32(&full->servers_max, 8);
    solar_default32(&full->paths, 4);
    solar_default32(&full->rpcs_max, 1024);
    solar_default32(&full->trains_max, 64);
    solar_default64(&full->disk_blocks_max, (uint64_t)(full->chunks_max != 0 ? full->chunks_max : 8)
                                                << 18);
    solar_default32(
        &full->chunks_max,
        (uint32_t)snic_min_u64((full->disk_blocks_max + (1u << 18) - 1) >> 18, 1u << 20));
    solar_default32(&full->read_window_bytes, 262144);
    solar_default32(&full->window_start, 4);
    solar_default32(&full->window_max, 256);
    solar_default64(&full->deadline_ns, UINT64_C(60000000000));
    solar_default64(&full->slow_ns, UINT64_C(1000000000));
    solar_default64(&full->suspect_ns, 300 * SNIC_SOLAR__MS);
    solar_default64(&full->rto_min_ns, SNIC_SOLAR__MS);
    solar_default64(&full->rto_max_ns, 8 * SNIC_SOLAR__MS);
    solar_default64(&full->stall_ns, SNIC_SOLAR__MS);
    solar_default64(&full->hop_rate, 1250000000);
    solar_default64(&full->base_rtt_ns, 30 * SNIC_SOLAR__US);
    return solar_opts_valid(full) ? 0 : SNIC_EINVAL;
}

/* ---- Memory ---- */

static void solar_map_opts(struct snic_ebs_map_opts *m, const struct snic_solar_opts *o,
                           uint64_t blocks)
{
    uint64_t segments = (blocks + SNIC_EBS_SEGMENT_BLOCKS - 1) / SNIC_EBS_SEGMENT_BLOCKS;
    uint64_t chunks = (segments + 511) / 512;
    memset(m, 0, sizeof(*m));
    m->opts_size = sizeof(*m);
    m->segments = segments;
    m->chunks = (uint32_t)snic_min_u64(chunks, o->chunks_max);
}

static void solar_addr_opts(struct snic_ebs_addr_opts *a, const struct snic_solar_opts *o)
{
    /* An RPC gets its credit when less than the window is out, so the last one may exceed it. */
    uint64_t slots =
        snic_pow2_up(o->read_window_bytes / SNIC_EBS_BLOCK_BYTES + SNIC_EBS_RPC_BLOCKS);
    memset(a, 0, sizeof(*a));
    a->opts_size = sizeof(*a);
    a->slots = (uint32_t)snic_min_u64(slots, 65536);
}

static struct snic_solar *solar_layout(struct snic_arena *a, const struct snic_solar_opts *o,
                                       struct snic_solar *parts)
{
    struct snic_ebs_qos_opts q = {.opts_size = sizeof(q), .disks = o->disks_max};
    struct snic_ebs_map_opts m;
    struct snic_ebs_addr_opts ad;
    size_t align = SNIC_SOLAR_ALIGN;
    uint32_t paths = o->servers_max * 2 * o->paths;
    struct snic_solar *c = snic_arena_take(a, 1, sizeof(*c), align);
    solar_map_opts(&m, o, o->disk_blocks_max);
    solar_addr_opts(&ad, o);
    parts->disks = snic_arena_take(a, o->disks_max, sizeof(struct solar_disk), align);
    /* One more: solar_nowhere(). */
    parts->servers =
        snic_arena_take(a, (size_t)o->servers_max + 1, sizeof(struct solar_server), align);
    parts->paths = snic_arena_take(a, paths, sizeof(struct solar_path), align);
    parts->rpcs = snic_arena_take(a, o->rpcs_max, sizeof(struct solar_rpc), align);
    parts->pool.trains = snic_arena_take(a, o->trains_max, sizeof(struct solar_train), align);
    parts->qos = snic_arena_take(a, 1, snic_ebs_qos_memsize(&q), align);
    parts->addr_mem = snic_arena_take(a, 1, snic_ebs_addr_memsize(&ad), align);
    struct solar_tx *rings =
        snic_arena_take(a, (size_t)paths * SNIC_SOLAR__RING, sizeof(*rings), align);
    unsigned char *cipher = NULL;
    if ((o->flags & (SNIC_SOLAR_CRYPTO | SNIC_SOLAR_AUTH)) != 0)
        cipher = snic_arena_take(a, (size_t)o->trains_max * SNIC_SOLAR_TRAIN_MAX,
                                 SNIC_EBS_BLOCK_BYTES, align);
    if ((o->flags & SNIC_SOLAR_AUTH) != 0)
        parts->wire.plain = snic_arena_take(a, 1, SNIC_EBS_BLOCK_BYTES, align);
    size_t map = snic_ebs_map_memsize(&m);
    unsigned char *maps = snic_arena_take(a, o->disks_max, snic_align_up(map, align), align);
    if (a->base == NULL || a->used == SIZE_MAX)
        return c;
    memset(a->base, 0, a->used - (size_t)o->disks_max * snic_align_up(map, align));
    for (uint32_t i = 0; i < o->disks_max; i++)
        parts->disks[i].map_mem = maps + i * snic_align_up(map, align);
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
    if (solar_opts(&full, o) != 0)
        return 0;
    memset(&parts, 0, sizeof(parts));
    (void)solar_layout(&a, &full, &parts);
    return a.used == SIZE_MAX ? 0 : snic_align_up(a.used, SNIC_SOLAR_ALIGN);
}

static void solar_init_lists(struct snic_solar *c)
{
    struct snic_link *heads[] = {&c->free_rpcs,   &c->outs,          &c->read_wait,  &c->parked,
                                 &c->turns,       &c->done,          &c->ages,       &c->limited,
                                 &c->path_events, &c->server_events, &c->disk_events};
    for (size_t i = 0; i < SNIC_COUNTOF(heads); i++)
        snic_link_init(heads[i]);
    c->slow = &c->ages;
    for (uint32_t i = 0; i < c->o.rpcs_max; i++) {
        struct solar_rpc *r = &c->rpcs[i];
        r->slot = i;
        r->c = c;
        snic_timer_init(&r->timer, solar_rpc_fired);
        snic_link_init(&r->of_disk);
        snic_ebs_ask_init(&r->ask);
        snic_link_append(&c->free_rpcs, &r->link);
    }
    c->rpcs_free = c->o.rpcs_max;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct solar_disk *d = &c->disks[i];
        struct snic_link *links[] = {&d->queue, &d->order, &d->rpcs, &d->turn, &d->event};
        for (size_t k = 0; k < SNIC_COUNTOF(links); k++)
            snic_link_init(links[k]);
        snic_ebs_ask_init(&d->ask);
        d->index = i;
    }
    for (uint32_t i = 0; i < c->o.servers_max * c->path_slots; i++)
        snic_link_init(&c->paths[i].event);
    for (uint32_t i = 0; i <= solar_nowhere(c); i++)
        snic_link_init(&c->servers[i].event);
}

int snic_solar_init(struct snic_solar **out, void *mem, size_t size,
                    const struct snic_solar_opts *o, uint64_t now_ns)
{
    struct snic_solar_opts full;
    struct snic_solar parts;
    struct snic_arena a = {mem, size, 0};
    if (solar_opts(&full, o) != 0 || (uintptr_t)mem % SNIC_SOLAR_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < snic_solar_memsize(o))
        return SNIC_ENOSPC;
    memset(&parts, 0, sizeof(parts));
    struct snic_solar *c = solar_layout(&a, &full, &parts);
    struct snic_ebs_qos_opts q = {.opts_size = sizeof(q), .disks = full.disks_max};
    struct snic_ebs_addr_opts ad;
    solar_addr_opts(&ad, &full);
    *c = parts;
    c->o = full;
    solar_wire_init(&c->wire, full.sec, full.wire_keys);
    c->mem = mem;
    c->path_slots = 2 * full.paths;
    while (((uint32_t)1 << c->slot_bits) < full.rpcs_max)
        c->slot_bits++;
    c->now_ns = now_ns;
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    c->qos_ns = SNIC_NEVER;
    snic_ebs_asks_init(&c->asks, full.slow_ns);
    c->read_max = full.read_window_bytes;
    snic_rng_init(&c->rng, full.seed);
    c->client_id = snic_rng_next(&c->rng);
    snic_wheel_init(&c->wheel, now_ns);
    solar_init_lists(c);
    struct snic_ebs_qos *qos = NULL;
    struct snic_ebs_addr *addr = NULL;
    int bad = snic_ebs_qos_init(&qos, c->qos, snic_ebs_qos_memsize(&q), &q) != 0 ||
              snic_ebs_addr_init(&addr, c->addr_mem, snic_ebs_addr_memsize(&ad), &ad) != 0;
    SNIC_ASSERT(!bad);
    c->qos = qos;
    c->addr = addr;
    *out = c;
    return 0;
}

void *snic_solar_fini(struct snic_solar *c)
{
    SNIC_ASSERT(c->s.inside == 0);
    SNIC_ASSERT(c->pool.free_count + c->pool.queued == c->pool.max);
    return c->mem;
}

/* ---- Disks come and go; what is here is rare ---- */

static int solar_disk_opts(struct snic_solar_disk_opts *full, struct snic_ebs_qos_limits *l,
                           const struct snic_solar_disk_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return SNIC_EINVAL;
    memset(l, 0, sizeof(*l));
    l->bytes_per_second = full->bytes_per_second;
    l->ios_per_second = full->ios_per_second;
    l->burst_bytes = full->burst_bytes;
    l->burst_ios = full->burst_ios;
    if (l->burst_bytes == 0)
        l->burst_bytes = snic_max_u64(l->bytes_per_second / 100, 1 << 20);
    if (l->burst_ios == 0)
        l->burst_ios = snic_max_u64(l->ios_per_second / 100, 32);
    return 0;
}

int snic_solar_attach(struct snic_solar *c, uint32_t disk, const struct snic_solar_disk_opts *o,
                      uint64_t now_ns)
{
    struct snic_solar_disk_opts full;
    struct snic_ebs_qos_limits l;
    struct snic_ebs_map_opts m;
    if (disk >= c->o.disks_max || solar_disk_opts(&full, &l, o) != 0 || full.sa_epoch == 0 ||
        full.blocks == 0 || full.blocks > c->o.disk_blocks_max ||
        (full.xts_key != NULL && (c->o.sec == NULL || (c->o.flags & SNIC_SOLAR_CRYPTO) == 0)))
        return SNIC_EINVAL;
    struct solar_disk *d = &c->disks[disk];
    if (d->used)
        return SNIC_EEXIST;
    if (full.sa_epoch > 65535)
        return SNIC_EOVERFLOW;
    d->limited = full.bytes_per_second != 0 || full.ios_per_second != 0;
    if (d->limited && snic_ebs_qos_set(c->qos, disk, &l, now_ns) != 0)
        return SNIC_EINVAL;
    d->limits = l;
    solar_map_opts(&m, &c->o, full.blocks);
    if (snic_ebs_map_init(&d->map, d->map_mem, snic_ebs_map_memsize(&m), &m) != 0)
        return SNIC_EINVAL;
    d->used = 1;
    d->lost = 0;
    d->say = 0;
    d->map_said = 0;
    d->say_map = 0;
    d->charged = 0;
    d->deficit = 0;
    d->vd_id = full.vd_id;
    d->blocks = full.blocks;
    d->wver = snic_ebs_id(full.sa_epoch, 0);
    d->xts_key = full.xts_key;
    return 0;
}

int snic_solar_detach(struct snic_solar *c, uint32_t disk)
{
    if (disk >= c->o.disks_max || !c->disks[disk].used)
        return SNIC_ENOENT;
    struct solar_disk *d = &c->disks[disk];
    if (d->inside > 0)
        return SNIC_EBUSY;
    (void)snic_ebs_qos_clear(c->qos, disk);
    (void)snic_ebs_map_fini(d->map);
    snic_link_remove(&d->event);
    d->used = 0;
    return 0;
}

int snic_solar_qos(struct snic_solar *c, uint32_t disk, const struct snic_solar_disk_opts *o,
                   uint64_t now_ns)
{
    struct snic_solar_disk_opts full;
    struct snic_ebs_qos_limits l;
    if (disk >= c->o.disks_max || !c->disks[disk].used)
        return SNIC_ENOENT;
    if (solar_disk_opts(&full, &l, o) != 0)
        return SNIC_EINVAL;
    uint8_t limited = full.bytes_per_second != 0 || full.ios_per_second != 0;
    if (limited && snic_ebs_qos_set(c->qos, disk, &l, now_ns) != 0)
        return SNIC_EINVAL;
    if (!limited)
        (void)snic_ebs_qos_clear(c->qos, disk);
    c->disks[disk].limited = limited;
    c->disks[disk].limits = l;
    c->qos_ns = 0; /* who waits for the old limits tries the new ones */
    c->dirty = 1;
    return 0;
}
