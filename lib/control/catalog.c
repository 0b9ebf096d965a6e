/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The catalog in memory: hash tables of disks and segments, and a list of each disk's segments.
 *
 * A record holds the whole state of its key, so only the newest one is valid. Keys are
 * {type, number} and, of segments, {type | number, segment}. `ts` counts records over all keys. A
 * deleted disk gets a TOMBSTONE, which makes the records of its segments obsolete, too: the log
 * drops a tombstone only after all older records.
 */
#include "control/control_priv.h"

/* ---- Tables ---- */

void control_catalog_init(struct snic_control *c)
{
    for (uint32_t i = 0; i <= c->disk_mask; i++)
        c->disk_hash[i] = SNIC_CONTROL__NIL;
    for (uint32_t i = 0; i <= c->seg_mask; i++)
        c->seg_hash[i] = SNIC_CONTROL__NIL;
    memset(c->disks, 0, c->o.disks_max * sizeof(*c->disks));
    memset(c->segs, 0, c->o.segments_max * sizeof(*c->segs));
    c->disk_free = c->seg_free = SNIC_CONTROL__NIL;
    c->disk_end = c->seg_end = 0;
    for (uint32_t i = c->o.disks_max; i-- > 0;) {
        c->disks[i].next = c->disk_free;
        c->disk_free = i;
    }
    for (uint32_t i = c->o.segments_max; i-- > 0;) {
        c->segs[i].next = c->seg_free;
        c->seg_free = i;
    }
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        control_server_clear(&c->servers[i], i + 1);
}

static uint32_t control_disk_slot(const struct snic_control *c, uint32_t vd)
{
    return vd * 0x9e3779b1u >> 8 & c->disk_mask;
}

static uint32_t control_seg_slot(const struct snic_control *c, uint32_t vd, uint64_t segment)
{
    uint64_t h = ((uint64_t)vd << 32 ^ segment) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & c->seg_mask;
}

struct control_disk *control_disk_find(struct snic_control *c, uint32_t vd)
{
    uint32_t i = c->disk_hash[control_disk_slot(c, vd)];
    while (i != SNIC_CONTROL__NIL && c->disks[i].vd != vd)
        i = c->disks[i].next;
    return i == SNIC_CONTROL__NIL ? NULL : &c->disks[i];
}

struct control_disk *control_disk_named(struct snic_control *c, const char *name)
{
    for (uint32_t i = 0; i < c->disk_end; i++)
        if (c->disks[i].used && strcmp(c->disks[i].name, name) == 0)
            return &c->disks[i];
    return NULL;
}

struct control_disk *control_disk_new(struct snic_control *c, uint32_t vd)
{
    uint32_t i = c->disk_free, slot = control_disk_slot(c, vd);
    if (i == SNIC_CONTROL__NIL)
        return NULL;
    SNIC_ASSERT(vd != 0);
    SNIC_ASSERT(control_disk_find(c, vd) == NULL);
    struct control_disk *d = &c->disks[i];
    c->disk_free = d->next;
    c->disk_end = (uint32_t)snic_max_u64(c->disk_end, i + 1);
    memset(d, 0, sizeof(*d));
    d->used = 1;
    d->vd = vd;
    d->session = SNIC_CONTROL__NIL;
    d->first = SNIC_CONTROL__NIL;
    d->next = c->disk_hash[slot];
    c->disk_hash[slot] = i;
    c->stats.disks++;
    return d;
}

/* Free the disk and its segments. */
void control_disk_free(struct snic_control *c, struct control_disk *d)
{
    uint32_t i = (uint32_t)(d - c->disks);
    uint32_t *at = &c->disk_hash[control_disk_slot(c, d->vd)];
    SNIC_ASSERT(d->used);
    while (d->first != SNIC_CONTROL__NIL)
        control_seg_free(c, d, &c->segs[d->first]);
    SNIC_ASSERT(d->segments == 0);
    while (*at != i)
        at = &c->disks[*at].next;
    *at = d->next;
    memset(d, 0, sizeof(*d));
    d->next = c->disk_free;
    c->disk_free = i;
    c->stats.disks--;
}

struct control_seg *control_seg_find(const struct snic_control *c, uint32_t vd, uint64_t segment)
{
    uint32_t i = c->seg_hash[control_seg_slot(c, vd, segment)];
    while (i != SNIC_CONTROL__NIL && (c->segs[i].vd != vd || c->segs[i].segment != segment))
        i = c->segs[i].next;
    return i == SNIC_CONTROL__NIL ? NULL : &c->segs[i];
}

/* A segment in PLACING; control_seg_link() puts it on its disk's list. */
struct control_seg *control_seg_new(struct snic_control *c, uint32_t vd, uint32_t segment)
{
    uint32_t i = c->seg_free, slot = control_seg_slot(c, vd, segment);
    if (i == SNIC_CONTROL__NIL)
        return NULL;
    SNIC_ASSERT(control_seg_find(c, vd, segment) == NULL);
    struct control_seg *g = &c->segs[i];
    c->seg_free = g->next;
    c->seg_end = (uint32_t)snic_max_u64(c->seg_end, i + 1);
    memset(g, 0, sizeof(*g));
    g->state = CONTROL_PLACING;
    g->vd = vd;
    g->segment = segment;
    g->next_disk = g->prev_disk = SNIC_CONTROL__NIL;
    g->next = c->seg_hash[slot];
    c->seg_hash[slot] = i;
    return g;
}

static void control_seg_count(struct snic_control *c, struct control_disk *d,
                              const struct control_seg *g)
{
    SNIC_ASSERT(g->server < SNIC_CONTROL_SERVERS_MAX);
    d->segments++;
    c->servers[g->server].segments++;
    c->stats.segments++;
}

void control_seg_link(struct snic_control *c, struct control_disk *d, struct control_seg *g)
{
    uint32_t i = (uint32_t)(g - c->segs);
    SNIC_ASSERT(g->state != CONTROL_FREE);
    SNIC_ASSERT(g->vd == d->vd);
    g->next_disk = d->first;
    if (d->first != SNIC_CONTROL__NIL)
        c->segs[d->first].prev_disk = i;
    d->first = i;
    if (g->state == CONTROL_PLACED)
        control_seg_count(c, d, g);
}

void control_seg_placed(struct snic_control *c, struct control_disk *d, struct control_seg *g)
{
    SNIC_ASSERT(g->state == CONTROL_PLACING);
    g->state = CONTROL_PLACED;
    control_seg_count(c, d, g);
}

void control_seg_free(struct snic_control *c, struct control_disk *d, struct control_seg *g)
{
    uint32_t i = (uint32_t)(g - c->segs);
    uint32_t *at = &c->seg_hash[control_seg_slot(c, g->vd, g->segment)];
    SNIC_ASSERT(g->state != CONTROL_FREE);
    SNIC_ASSERT(!g->moving);
    if (g->state == CONTROL_PLACED && d != NULL) {
        SNIC_ASSERT(d->segments > 0);
        SNIC_ASSERT(c->servers[g->server].segments > 0);
        d->segments--;
        c->servers[g->server].segments--;
        c->stats.segments--;
    }
    if (g->prev_disk != SNIC_CONTROL__NIL)
        c->segs[g->prev_disk].next_disk = g->next_disk;
    else if (d != NULL && d->first == i)
        d->first = g->next_disk;
    if (g->next_disk != SNIC_CONTROL__NIL)
        c->segs[g->next_disk].prev_disk = g->prev_disk;
    while (*at != i)
        at = &c->segs[*at].next;
    *at = g->next;
    memset(g, 0, sizeof(*g));
    g->next = c->seg_free;
    c->seg_free = i;
}

uint32_t control_seg_gen(const struct control_disk *d, const struct control_seg *g)
{
    return (uint32_t)snic_max_u64(g->gen, snic_volume_gen(d->lease, 0));
}

uint64_t control_disk_segments(const struct control_disk *d)
{
    return (d->bytes + SNIC_VOLUME_SEGMENT_BYTES - 1) / SNIC_VOLUME_SEGMENT_BYTES;
}

void control_server_clear(struct control_server *n, uint32_t id)
{
    memset(n, 0, sizeof(*n));
    n->id = id;
    n->session = SNIC_CONTROL__NIL;
}

/* ---- Records ---- */

static int control_put(struct snic_control *c, uint64_t w0, uint64_t w1, const unsigned char *p,
                       uint32_t size, uint32_t flags, uint64_t *ts)
{
    struct snic_wal_record r;
    uint64_t position = 0;
    SNIC_ASSERT(size <= SNIC_CONTROL__RECORD);
    memset(&r, 0, sizeof(r));
    r.key.w[0] = w0;
    r.key.w[1] = w1;
    r.ts = c->ts + 1;
    r.flags = flags;
    r.bytes = p;
    r.length = size;
    int e = c->dead || c->closing ? SNIC_EIO : snic_wal_append(c->wal, &r, &position);
    if (e != 0)
        return e;
    c->ts++;
    c->position = position;
    c->stats.records++;
    *ts = c->ts;
    return 0;
}

int control_put_head(struct snic_control *c)
{
    unsigned char p[SNIC_CONTROL__RECORD];
    return control_put(c, (uint64_t)CONTROL_R_HEAD << 56, 0, p, control_record_head(p, c), 0,
                       &c->head_ts);
}

int control_put_disk(struct snic_control *c, struct control_disk *d)
{
    unsigned char p[SNIC_CONTROL__RECORD];
    SNIC_ASSERT(d->used);
    return control_put(c, (uint64_t)CONTROL_R_DISK << 56 | d->vd, 0, p, control_record_disk(p, d),
                       0, &d->ts);
}

int control_put_disk_gone(struct snic_control *c, struct control_disk *d)
{
    return control_put(c, (uint64_t)CONTROL_R_DISK << 56 | d->vd, 0, NULL, 0, SNIC_WAL_TOMBSTONE,
                       &d->ts);
}

/* Delete the disks that recovery found replaced, so that none reappears when its replacement is
 * deleted. */
int control_put_replaced_gone(struct snic_control *c)
{
    int r = 0;
    uint64_t ts;
    while (r == 0 && c->replaced_count > 0) {
        r = control_put(c, (uint64_t)CONTROL_R_DISK << 56 | c->replaced[c->replaced_count - 1], 0,
                        NULL, 0, SNIC_WAL_TOMBSTONE, &ts);
        c->replaced_count -= r == 0;
    }
    return r;
}

int control_put_seg(struct snic_control *c, struct control_seg *g)
{
    unsigned char p[SNIC_CONTROL__RECORD];
    SNIC_ASSERT(g->state != CONTROL_FREE);
    SNIC_ASSERT(g->server < SNIC_CONTROL_SERVERS_MAX);
    return control_put(c, (uint64_t)CONTROL_R_SEGMENT << 56 | g->vd, g->segment, p,
                       control_record_seg(p, g), 0, &g->ts);
}

int control_put_server(struct snic_control *c, struct control_server *n)
{
    unsigned char p[SNIC_CONTROL__RECORD];
    SNIC_ASSERT(n->id - 1 < SNIC_CONTROL_SERVERS_MAX);
    return control_put(c, (uint64_t)CONTROL_R_SERVER << 56 | n->id, 0, p,
                       control_record_server(p, n), 0, &n->ts);
}

int control_put_server_gone(struct snic_control *c, const struct control_server *n)
{
    uint64_t ts;
    SNIC_ASSERT(n->segments == 0);
    return control_put(c, (uint64_t)CONTROL_R_SERVER << 56 | n->id, 0, NULL, 0, SNIC_WAL_TOMBSTONE,
                       &ts);
}

/* 1 if @r is the newest record of its key. */
int control_record_current(void *ctx, const struct snic_wal_record *r)
{
    struct snic_control *c = ctx;
    uint32_t number = (uint32_t)r->key.w[0];
    const struct control_disk *d;
    const struct control_seg *g;
    switch (r->key.w[0] >> 56) {
    case CONTROL_R_HEAD:
        return r->ts == c->head_ts;
    case CONTROL_R_SERVER:
        return number - 1 < SNIC_CONTROL_SERVERS_MAX && c->servers[number - 1].ts == r->ts;
    case CONTROL_R_DISK:
        d = control_disk_find(c, number);
        return d != NULL && d->ts == r->ts;
    case CONTROL_R_SEGMENT:
        g = control_seg_find(c, number, r->key.w[1]);
        return g != NULL && g->state == CONTROL_PLACED && g->ts == r->ts;
    default:
        return 0;
    }
}

/* ---- Check ---- */

static int control_check_disk(const struct snic_control *c, const struct control_disk *d)
{
    uint32_t placed = 0, prev = SNIC_CONTROL__NIL, all = 0;
    for (uint32_t i = d->first; i != SNIC_CONTROL__NIL; i = c->segs[i].next_disk) {
        const struct control_seg *g = &c->segs[i];
        if (g->state == CONTROL_FREE || g->vd != d->vd || g->prev_disk != prev ||
            ++all > c->o.segments_max || control_seg_find(c, g->vd, g->segment) != g)
            return SNIC_ECORRUPT;
        if (g->segment >= control_disk_segments(d) || g->gen >> 16 > d->lease)
            return SNIC_ECORRUPT;
        placed += g->state == CONTROL_PLACED;
        prev = i;
    }
    if (placed != d->segments || d->lease > SNIC_CONTROL__LEASE_ENDED || d->vd > c->vd ||
        !snic_control_name_ok(d->name) || (d->session != SNIC_CONTROL__NIL && !d->held))
        return SNIC_ECORRUPT;
    return 0;
}

int control_catalog_check(const struct snic_control *c)
{
    uint32_t placed_on[SNIC_CONTROL_SERVERS_MAX] = {0};
    uint32_t disks = 0, segs = 0;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        if (!c->disks[i].used)
            continue;
        disks++;
        if (control_check_disk(c, &c->disks[i]) != 0)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = 0; i < c->o.segments_max; i++) {
        if (c->segs[i].state != CONTROL_PLACED)
            continue;
        segs++;
        if (c->segs[i].server >= SNIC_CONTROL_SERVERS_MAX)
            return SNIC_ECORRUPT;
        placed_on[c->segs[i].server]++;
    }
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        if (placed_on[i] != c->servers[i].segments || (placed_on[i] != 0 && c->servers[i].ts == 0))
            return SNIC_ECORRUPT;
    return disks == c->stats.disks && segs == c->stats.segments ? 0 : SNIC_ECORRUPT;
}
