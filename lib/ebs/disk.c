/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options and memory of a queue; disks are attached and detached, their limits change, their
 * segments move. All of it is rare.
 */
#include "ebs/queue_priv.h"

static void ebs_map_opts(struct snic_ebs_map_opts *m, const struct ebs_queue_opts *o,
                         uint64_t blocks)
{
    uint64_t segments = (blocks + SNIC_EBS_SEGMENT_BLOCKS - 1) / SNIC_EBS_SEGMENT_BLOCKS;
    uint64_t chunks = (segments + 511) / 512;
    memset(m, 0, sizeof(*m));
    m->opts_size = sizeof(*m);
    m->segments = segments;
    m->chunks = (uint32_t)snic_min_u64(chunks, o->chunks_max);
}

/* ---- Memory ---- */

void ebs_queue_layout(struct snic_arena *a, const struct ebs_queue_opts *o, struct ebs_queue *parts)
{
    struct snic_ebs_qos_opts l = {.opts_size = sizeof(l), .disks = o->disks_max};
    struct snic_ebs_map_opts m;
    size_t align = SNIC_CACHELINE;
    ebs_map_opts(&m, o, o->disk_blocks_max);
    parts->disks = snic_arena_take(a, o->disks_max, sizeof(struct ebs_disk), align);
    parts->loads = snic_arena_take(a, (size_t)o->servers_max + 1, sizeof(struct ebs_load), align);
    parts->qos = snic_arena_take(a, 1, snic_ebs_qos_memsize(&l), align);
    size_t map = snic_align_up(snic_ebs_map_memsize(&m), align);
    parts->maps = snic_arena_take(a, o->disks_max, map, align);
    parts->map_bytes = o->disks_max * map;
}

void ebs_queue_init(struct ebs_queue *q, const struct ebs_queue_opts *o,
                    const struct ebs_queue_ops *ops, uint64_t now_ns)
{
    struct snic_ebs_qos_opts l = {.opts_size = sizeof(l), .disks = o->disks_max};
    struct snic_link *heads[] = {&q->free, &q->outs, &q->parked,      &q->turns,        &q->limited,
                                 &q->done, &q->ages, &q->disk_events, &q->server_events};
    struct snic_ebs_qos *qos = NULL;
    q->o = *o;
    q->ops = ops;
    while (((uint32_t)1 << q->slot_bits) < o->rpcs_max)
        q->slot_bits++;
    q->now_ns = now_ns;
    q->qos_ns = SNIC_NEVER;
    ebs_lookups_init(&q->lookups, o->slow_ns);
    snic_rng_init(&q->rng, o->seed);
    snic_wheel_init(&q->wheel, now_ns);
    for (size_t i = 0; i < SNIC_COUNTOF(heads); i++)
        snic_link_init(heads[i]);
    for (uint32_t i = 0; i <= o->servers_max; i++)
        snic_link_init(&q->loads[i].event);
    q->slow = &q->ages;
    q->orphan.rpcs = 1; /* it is never done */
    for (uint32_t i = 0; i < o->disks_max; i++) {
        struct ebs_disk *d = &q->disks[i];
        struct snic_link *links[] = {&d->queue, &d->order, &d->rpcs, &d->turn, &d->event};
        for (size_t k = 0; k < SNIC_COUNTOF(links); k++)
            snic_link_init(links[k]);
        ebs_lookup_init(&d->lookup);
        d->index = i;
        d->map_mem = q->maps + i * (q->map_bytes / o->disks_max);
    }
    int bad = snic_ebs_qos_init(&qos, q->qos, snic_ebs_qos_memsize(&l), &l);
    SNIC_ASSERT(bad == 0);
    (void)bad;
    q->qos = qos;
}

void ebs_queue_add(struct ebs_queue *q, struct ebs_rpc *r, uint32_t slot, snic_timer_fn fired)
{
    r->slot = slot;
    snic_timer_init(&r->timer, fired);
    snic_link_init(&r->of_disk);
    ebs_lookup_init(&r->lookup);
    snic_link_append(&q->free, &r->link);
    q->rpcs_free++;
}

/* ---- Disks ---- */

static int ebs_disk_opts(struct snic_ebs_disk_opts *full, struct snic_ebs_qos_limits *l,
                         const struct snic_ebs_disk_opts *o)
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

int ebs_queue_attach(struct ebs_queue *q, uint32_t disk, const struct snic_ebs_disk_opts *o,
                     const struct snic_ebs_sec_ops *sec, uint64_t now_ns)
{
    struct snic_ebs_disk_opts full;
    struct snic_ebs_qos_limits l;
    struct snic_ebs_map_opts m;
    struct snic_ebs_tag_key tag;
    memset(&tag, 0, sizeof(tag));
    if (disk >= q->o.disks_max || ebs_disk_opts(&full, &l, o) != 0 || full.sa_epoch == 0 ||
        full.blocks == 0 || full.blocks > q->o.disk_blocks_max ||
        (full.xts_key != NULL && sec == NULL))
        return SNIC_EINVAL;
    struct ebs_disk *d = &q->disks[disk];
    if (d->used)
        return SNIC_EEXIST;
    if (full.sa_epoch > 65535)
        return SNIC_EOVERFLOW;
    int r = full.xts_key == NULL ? 0 : snic_ebs_tag_key_init(&tag, sec, full.xts_key);
    if (r != 0)
        return r;
    d->limited = full.bytes_per_second != 0 || full.ios_per_second != 0;
    if (d->limited && snic_ebs_qos_set(q->qos, disk, &l, now_ns) != 0)
        return SNIC_EINVAL;
    d->limits = l;
    ebs_map_opts(&m, &q->o, full.blocks);
    if (snic_ebs_map_init(&d->map, d->map_mem, snic_ebs_map_memsize(&m), &m) != 0)
        return SNIC_EINVAL;
    d->used = 1;
    d->lost = 0;
    d->lease_pending = 0;
    d->map_reported = 0;
    d->map_pending = 0;
    d->token_pending = 0;
    d->token_serial = 0;
    d->token_bad = 0;
    d->token_report_ns = 0;
    d->charged = 0;
    d->deficit = 0;
    d->vd_id = full.vd_id;
    d->blocks = full.blocks;
    d->wver = snic_ebs_id(full.sa_epoch, 0);
    d->xts_key = full.xts_key;
    d->tag = tag;
    return 0;
}

int ebs_queue_detach(struct ebs_queue *q, uint32_t disk)
{
    if (disk >= q->o.disks_max || !q->disks[disk].used)
        return SNIC_ENOENT;
    struct ebs_disk *d = &q->disks[disk];
    if (d->inside > 0)
        return SNIC_EBUSY;
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) { /* abandoned ones */
        next = l->next;
        q->ops->end(q, SNIC_CONTAINER(l, struct ebs_rpc, of_disk), SNIC_EUNKNOWN);
    }
    (void)snic_ebs_qos_clear(q->qos, disk);
    (void)snic_ebs_map_fini(d->map);
    snic_link_remove(&d->event);
    memset(&d->tag, 0, sizeof(d->tag));
    memset(d->token, 0, sizeof(d->token));
    d->used = 0;
    return 0;
}

int ebs_queue_limit(struct ebs_queue *q, uint32_t disk, const struct snic_ebs_disk_opts *o,
                    uint64_t now_ns)
{
    struct snic_ebs_disk_opts full;
    struct snic_ebs_qos_limits l;
    if (disk >= q->o.disks_max || !q->disks[disk].used)
        return SNIC_ENOENT;
    if (ebs_disk_opts(&full, &l, o) != 0)
        return SNIC_EINVAL;
    struct ebs_disk *d = &q->disks[disk];
    uint8_t limited = full.bytes_per_second != 0 || full.ios_per_second != 0;
    if (limited && snic_ebs_qos_set(q->qos, disk, &l, now_ns) != 0)
        return SNIC_EINVAL;
    if (!limited)
        (void)snic_ebs_qos_clear(q->qos, disk);
    d->limited = limited;
    d->limits = l;
    q->qos_ns = 0; /* a disk that waits for the old limits tries the new ones */
    q->dirty = 1;
    return 0;
}

/* ---- Locations ---- */

int ebs_queue_map(struct ebs_queue *q, uint32_t disk, uint64_t segment,
                  const struct snic_ebs_where *w, uint64_t now_ns)
{
    if (disk >= q->o.disks_max || !q->disks[disk].used || w->server >= q->o.servers_max ||
        !q->loads[w->server].used)
        return SNIC_ENOENT;
    struct ebs_disk *d = &q->disks[disk];
    int r = snic_ebs_map_set(d->map, segment, w);
    if (r != 0)
        return r == SNIC_ERANGE ? SNIC_EINVAL : r;
    q->now_ns = snic_max_u64(q->now_ns, now_ns);
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct ebs_rpc *rpc = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        next = l->next;
        if (ebs_segment_of(rpc) == segment)
            ebs_rpc_retarget(q, rpc, w);
    }
    ebs_disk_resume(q, d, segment);
    return 0;
}

uint64_t ebs_queue_mapped(struct ebs_queue *q, uint32_t server, int forget)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < q->o.disks_max; i++)
        if (q->disks[i].used)
            count += snic_ebs_map_server(q->disks[i].map, server, forget);
    return count;
}

/* ---- Invariants ---- */

struct ebs_sums {
    uint32_t rpcs;
    uint32_t parked;
    uint32_t outs;
    uint32_t nowhere;
    uint32_t inside;
};

static uint32_t ebs_length(const struct snic_link *head, uint32_t most)
{
    uint32_t n = 0;
    for (const struct snic_link *l = head->next; l != head && n <= most; l = l->next)
        n++;
    return n;
}

static int ebs_check_rpc(const struct ebs_queue *q, const struct ebs_disk *d,
                         const struct ebs_rpc *r, struct ebs_sums *sum)
{
    if (++sum->rpcs > q->o.rpcs_max || r->where == EBS_RPC_FREE || r->io == NULL ||
        snic_link_alone(&r->link) || r->disk != d->index || r->server > ebs_server_none(q))
        return SNIC_ECORRUPT; /* Q1 */
    sum->parked += r->where == EBS_RPC_PARKED;
    sum->outs +=
        r->where == EBS_RPC_FENCING || r->where == EBS_RPC_ENDED || r->where == EBS_RPC_OUT;
    if ((r->where == EBS_RPC_ENDED && r->refs == 0) ||
        (r->where == EBS_RPC_FENCING && !r->timer.armed))
        return SNIC_ECORRUPT;
    if (r->server != ebs_server_none(q))
        return 0;
    sum->nowhere++;
    return r->where == EBS_RPC_PARKED || r->where == EBS_RPC_ENDED ? 0 : SNIC_ECORRUPT; /* Q5 */
}

static int ebs_check_disk(const struct ebs_queue *q, const struct ebs_disk *d, struct ebs_sums *sum)
{
    uint32_t waiting = 0;
    uint64_t last = 0;
    for (const struct snic_link *l = d->order.next; l != &d->order; l = l->next) {
        const struct snic_ebs_io *io = SNIC_CONTAINER(l, struct snic_ebs_io, order);
        if (io->wver != 0 && io->wver <= last)
            return SNIC_ECORRUPT; /* Q3 */
        last = snic_max_u64(last, io->wver);
        if (io->wver > d->wver)
            return SNIC_ECORRUPT;
    }
    for (const struct snic_link *l = d->queue.next; l != &d->queue; l = l->next)
        waiting++;
    if (waiting > 0 && snic_link_alone(&d->turn) && !d->map_pending && !d->map_reported)
        return SNIC_ECORRUPT; /* Q4 */
    for (const struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next)
        if (ebs_check_rpc(q, d, SNIC_CONTAINER(l, struct ebs_rpc, of_disk), sum) != 0)
            return SNIC_ECORRUPT;
    sum->inside += d->inside;
    return d->used || (d->inside == 0 && waiting == 0) ? 0 : SNIC_ECORRUPT;
}

/* RPCs of a server. */
static uint32_t ebs_rpcs_of(const struct ebs_queue *q, uint32_t server)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->o.disks_max; i++)
        for (const struct snic_link *l = q->disks[i].rpcs.next; l != &q->disks[i].rpcs; l = l->next)
            n += SNIC_CONTAINER(l, struct ebs_rpc, of_disk)->server == server;
    return n;
}

int ebs_queue_check(const struct ebs_queue *q)
{
    struct ebs_sums sum = {0, 0, 0, 0, 0};
    if (snic_wheel_check(&q->wheel) != 0 || snic_ebs_qos_check(q->qos) != 0)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < q->o.disks_max; i++)
        if (ebs_check_disk(q, &q->disks[i], &sum) != 0)
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i <= ebs_server_none(q); i++)
        if (ebs_rpcs_of(q, i) != q->loads[i].rpcs)
            return SNIC_ECORRUPT; /* Q2 */
    if (ebs_length(&q->parked, q->o.rpcs_max) != sum.parked ||
        ebs_length(&q->outs, q->o.rpcs_max) != sum.outs ||
        ebs_length(&q->free, q->o.rpcs_max) != q->rpcs_free ||
        q->rpcs_free + sum.rpcs > q->o.rpcs_max)
        return SNIC_ECORRUPT; /* Q1 */
    sum.inside += ebs_length(&q->done, q->s.inside);
    return sum.rpcs == q->s.rpcs && sum.inside == q->s.inside ? 0 : SNIC_ECORRUPT;
}
