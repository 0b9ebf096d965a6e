/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** Segments, counters, invariants. */
#include "segments/segments_priv.h"

static void segments_stat(const struct segments_disk *d, uint32_t place,
                          struct snic_segments_stat *out)
{
    const struct segments_place *p = &d->place[place];
    memset(out, 0, sizeof(*out));
    out->seg_id = p->attr.seg_id;
    out->vd_id = p->attr.vd_id;
    out->base_lba = p->attr.base_lba;
    out->min_wver = p->attr.min_wver;
    out->gen = p->attr.gen;
    out->disk = d->number;
    for (uint32_t i = 0; i < SNIC_SEGMENTS_BLOCKS; i += SNIC_SEGMENTS__TABLE)
        out->damaged += segments_block_lost(p, i) ? SNIC_SEGMENTS__TABLE : 0;
}

int snic_segments_find(const struct snic_segments *s, uint64_t seg_id,
                       struct snic_segments_stat *out)
{
    uint32_t disk;
    uint32_t place;
    if (!s->opened || segments_lookup(s, seg_id, &disk, &place) == NULL)
        return SNIC_ENOENT;
    segments_stat(&s->disk[disk], place, out);
    return 0;
}

int snic_segments_next(const struct snic_segments *s, uint64_t *cursor,
                       struct snic_segments_stat *out)
{
    uint32_t disk = (uint32_t)(*cursor >> 32);
    uint32_t place = (uint32_t)*cursor;
    for (; s->opened && disk < s->disks; disk++, place = 0) {
        const struct segments_disk *d = &s->disk[disk];
        while (place < d->geo.places && !d->place[place].attr.used)
            place++;
        if (place < d->geo.places) {
            segments_stat(d, place, out);
            *cursor = (uint64_t)disk << 32 | (place + 1);
            return 1;
        }
    }
    *cursor = (uint64_t)disk << 32 | place;
    return 0;
}

int snic_segments_states(const struct snic_segments *s, uint64_t seg_id, uint8_t *out)
{
    uint32_t disk, place;
    const struct segments_place *p = segments_lookup(s, seg_id, &disk, &place);
    if (p == NULL)
        return SNIC_ENOENT;
    for (uint32_t i = 0; i < SNIC_SEGMENTS_BLOCKS; i++) {
        struct segments_version v;
        segments_version_of(&s->disk[disk], segments_entry(&s->disk[disk], place, i), &v);
        uint32_t kind = v.kind == SNIC_SEGMENTS_LOST ? SNIC_SEGMENTS_DATA : v.kind;
        if (segments_block_lost(p, i))
            out[i] = 1 + SNIC_SEGMENTS_DATA;
        else
            out[i] = (uint8_t)(v.wver != 0 ? 1 + kind : 0);
    }
    return 0;
}

void snic_segments_inspect(const struct snic_segments *s, struct snic_segments_info *out)
{
    memset(out, 0, sizeof(*out));
    out->disks = s->disks;
    out->list_max = s->list_max;
    out->in_flight = s->in_flight;
    out->refused = s->refusals;
    for (uint32_t i = 0; i < s->disks && s->opened; i++) {
        const struct segments_disk *d = &s->disk[i];
        struct snic_wal_info w;
        snic_wal_inspect(d->wal, &w);
        out->dead += d->state == SEGMENTS_DEAD;
        out->places += d->geo.places;
        out->segments += d->used_places;
        out->cache_blocks += d->geo.cache_blocks;
        out->dirty += d->geo.cache_blocks - d->slots_free;
        out->writes += d->info.writes;
        out->reads += d->info.reads;
        out->applied += d->info.applied;
        out->dup += d->info.dup;
        out->superseded += d->info.superseded;
        out->fenced += d->info.fenced;
        out->bad_crc += d->info.bad_crc;
        out->read_blocks += d->info.read_blocks;
        out->read_cached += d->info.read_cached;
        out->read_damaged += d->info.read_damaged;
        out->misread += d->info.misread;
        out->rounds += d->info.rounds;
        out->home_blocks += d->info.home_blocks;
        out->home_writes += d->info.home_writes;
        out->tables += d->info.tables;
        out->flushes += d->info.flushes;
        out->log_bytes += w.batch_bytes;
        out->log_batches += w.batches;
        out->log_copies += w.copies;
    }
}

/* ---- Invariants ---- */

static int segments_check_places(const struct segments_disk *d, uint32_t *slots, uint32_t *used)
{
    uint64_t marked = d->round.phase == SEGMENTS_FREE ? 0 : d->mark.stamp;
    for (uint32_t i = 0; i < d->geo.places; i++) {
        const struct segments_place *p = &d->place[i];
        uint32_t n = 0;
        for (uint32_t b = 0; b < SNIC_SEGMENTS_BLOCKS; b++) {
            const struct segments_entry *e = segments_entry(d, i, b);
            int bit = (p->bits[b / 64] >> b % 64 & 1) != 0;
            if (bit != (e->slot != SNIC_SEGMENTS__NONE))
                return SNIC_ECORRUPT;
            if (!bit)
                continue;
            if (e->slot >= d->geo.cache_blocks)
                return SNIC_ECORRUPT;
            const struct segments_slot *s = &d->slot[e->slot];
            if (s->place != i || s->block != b || s->state == SEGMENTS_SLOT_FREE || s->orphan ||
                s->v.wver < e->wver || s->stamp <= marked)
                return SNIC_ECORRUPT;
            n++;
        }
        if (n != p->slots || p->attr.used != p->chained || (n != 0 && !p->attr.used))
            return SNIC_ECORRUPT;
        *slots += n;
        *used += p->attr.used;
    }
    return 0;
}

static int segments_check_slots(const struct segments_disk *d, uint32_t held)
{
    uint32_t linked = 0;
    uint32_t free = 0;
    uint32_t orphans = 0;
    uint64_t stamp = 0;
    for (uint32_t n = d->oldest; n != SNIC_SEGMENTS__NONE; n = d->slot[n].next) {
        if (d->slot[n].stamp < stamp || d->slot[n].stamp > d->stamp || linked++ > held)
            return SNIC_ECORRUPT;
        stamp = d->slot[n].stamp;
    }
    for (uint32_t n = d->slot_free; n != SNIC_SEGMENTS__NONE; n = d->slot[n].next)
        if (d->slot[n].state != SEGMENTS_SLOT_FREE || free++ > d->geo.cache_blocks)
            return SNIC_ECORRUPT;
    for (uint32_t n = 0; n < d->geo.cache_blocks; n++)
        orphans += d->slot[n].orphan;
    if (linked != held || free != d->slots_free || linked + free + orphans != d->geo.cache_blocks)
        return SNIC_ECORRUPT;
    return 0;
}

static int segments_check_disk(const struct segments_disk *d)
{
    uint32_t slots = 0;
    uint32_t used = 0;
    uint32_t busy = 0;
    if (segments_check_places(d, &slots, &used) != 0 || segments_check_slots(d, slots) != 0)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < SNIC_SEGMENTS__OPS; i++)
        busy += d->round.op[i].busy;
    if (used != d->used_places || busy > d->round.out || d->bounces_free > d->store->opts.bounces ||
        d->mark.stamp > d->stamp)
        return SNIC_ECORRUPT;
    uint64_t wait = 0;
    for (const struct snic_link *l = d->waiting.next; l != &d->waiting; l = l->next) {
        const struct snic_segments_req *q = SNIC_CONTAINER(l, struct snic_segments_req, link);
        if (q->wait < wait || q->wait <= snic_wal_durable(d->wal))
            return SNIC_ECORRUPT;
        wait = q->wait;
    }
    return d->state == SEGMENTS_DEAD ? 0 : snic_wal_check(d->wal);
}

int snic_segments_check(const struct snic_segments *s)
{
    for (uint32_t i = 0; i < s->disks && s->opened; i++)
        if (segments_check_disk(&s->disk[i]) != 0)
            return SNIC_ECORRUPT;
    return 0;
}
