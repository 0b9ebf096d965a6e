/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Disks come and go, their limits change, their segments move. All of it is rare.
 */
#include "luna/luna_priv.h"

void luna_map_opts(struct snic_ebs_map_opts *m, const struct snic_luna_opts *o, uint64_t blocks)
{
    uint64_t segments = (blocks + SNIC_EBS_SEGMENT_BLOCKS - 1) / SNIC_EBS_SEGMENT_BLOCKS;
    uint64_t chunks = (segments + 511) / 512;
    memset(m, 0, sizeof(*m));
    m->opts_size = sizeof(*m);
    m->segments = segments;
    m->chunks = (uint32_t)snic_min_u64(chunks, o->chunks_max);
}

static int luna_disk_opts(struct snic_luna_disk_opts *full, struct snic_ebs_qos_limits *l,
                          const struct snic_luna_disk_opts *o)
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

int snic_luna_attach(struct snic_luna *c, uint32_t disk, const struct snic_luna_disk_opts *o,
                     uint64_t now_ns)
{
    struct snic_luna_disk_opts full;
    struct snic_ebs_qos_limits l;
    struct snic_ebs_map_opts m;
    if (disk >= c->o.disks_max || luna_disk_opts(&full, &l, o) != 0 || full.sa_epoch == 0 ||
        full.blocks == 0 || full.blocks > c->o.disk_blocks_max ||
        (full.xts_key != NULL && (c->o.sec == NULL || (c->o.flags & SNIC_LUNA_CRYPTO) == 0)))
        return SNIC_EINVAL;
    struct luna_disk *d = &c->disks[disk];
    if (d->used)
        return SNIC_EEXIST;
    if (full.sa_epoch > 65535)
        return SNIC_EOVERFLOW;
    d->limited = full.bytes_per_second != 0 || full.ios_per_second != 0;
    if (d->limited && snic_ebs_qos_set(c->qos, disk, &l, now_ns) != 0)
        return SNIC_EINVAL;
    d->limits = l;
    luna_map_opts(&m, &c->o, full.blocks);
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

int snic_luna_detach(struct snic_luna *c, uint32_t disk)
{
    if (disk >= c->o.disks_max || !c->disks[disk].used)
        return SNIC_ENOENT;
    struct luna_disk *d = &c->disks[disk];
    if (d->inside > 0)
        return SNIC_EBUSY;
    (void)snic_ebs_qos_clear(c->qos, disk);
    (void)snic_ebs_map_fini(d->map);
    snic_link_remove(&d->event);
    d->used = 0;
    return 0;
}

int snic_luna_qos(struct snic_luna *c, uint32_t disk, const struct snic_luna_disk_opts *o,
                  uint64_t now_ns)
{
    struct snic_luna_disk_opts full;
    struct snic_ebs_qos_limits l;
    if (disk >= c->o.disks_max || !c->disks[disk].used)
        return SNIC_ENOENT;
    if (luna_disk_opts(&full, &l, o) != 0)
        return SNIC_EINVAL;
    struct luna_disk *d = &c->disks[disk];
    uint8_t limited = full.bytes_per_second != 0 || full.ios_per_second != 0;
    if (limited && snic_ebs_qos_set(c->qos, disk, &l, now_ns) != 0)
        return SNIC_EINVAL;
    if (!limited)
        (void)snic_ebs_qos_clear(c->qos, disk);
    d->limited = limited;
    d->limits = l;
    c->qos_ns = 0; /* whoever waited for the old limits tries the new ones */
    c->dirty = 1;
    return 0;
}

int snic_luna_map(struct snic_luna *c, uint32_t disk, uint64_t segment, uint64_t seg_id,
                  uint32_t server, uint32_t gen, uint64_t now_ns)
{
    struct snic_ebs_where w;
    if (disk >= c->o.disks_max || !c->disks[disk].used || server >= c->o.servers_max ||
        !c->servers[server].used)
        return SNIC_ENOENT;
    struct luna_disk *d = &c->disks[disk];
    memset(&w, 0, sizeof(w));
    w.seg_id = seg_id;
    w.server = server;
    w.seg_gen = gen;
    int r = snic_ebs_map_set(d->map, segment, &w);
    if (r != 0)
        return r == SNIC_ERANGE ? SNIC_EINVAL : r;
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct luna_rpc *rpc = SNIC_CONTAINER(l, struct luna_rpc, of_disk);
        next = l->next;
        if (rpc->lba >> SNIC_EBS_SEGMENT_LOG2 == segment)
            luna_rpc_retarget(c, rpc, &w);
    }
    if ((d->map_said || d->say_map) &&
        (d->need_segment == segment ||
         c->servers[luna_nowhere(c)].rpcs < luna_server_share(c, luna_nowhere(c)))) {
        d->map_said = 0;
        d->say_map = 0;
        luna_disk_turn(c, d);
    }
    return 0;
}
