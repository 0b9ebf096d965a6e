/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rebuilds the catalog from a log's records (FORMAT.md). Of a key the newest record counts; the
 * log returns them in the order they were appended, and copies of old ones behind newer ones of
 * other keys, so a segment may be found before its disk: they are joined at the end.
 */
#include "control/control_priv.h"

static void control_recover_addr(const unsigned char *p, struct snic_net_addr *a)
{
    memset(a, 0, sizeof(*a));
    a->family = snic_get_le16(p);
    a->port = snic_get_le16(p + 2);
    a->node = snic_get_le32(p + 4);
    memcpy(a->ip, p + 8, sizeof(a->ip));
}

/* ---- Decoding ---- */

static int control_recover_head(struct snic_control *c, const unsigned char *p, uint32_t size)
{
    if (size != 36)
        return SNIC_ECORRUPT;
    c->incarnation = snic_get_le64(p + 8);
    c->uuid[0] = snic_get_le64(p + 16);
    c->uuid[1] = snic_get_le64(p + 24);
    c->vd = snic_get_le32(p + 32);
    return 0;
}

static int control_recover_server(struct snic_control *c, uint32_t id,
                                  const struct snic_wal_record *r)
{
    const unsigned char *p = r->bytes;
    int gone = (r->flags & SNIC_WAL_TOMBSTONE) != 0;
    if ((!gone && r->length != 56 && r->length != 64) || id - 1 >= SNIC_CONTROL_SERVERS_MAX)
        return SNIC_ECORRUPT;
    struct control_server *n = &c->servers[id - 1];
    if (r->ts < n->ts)
        return 0;
    if (gone) {
        control_server_clear(n, id);
        return 0;
    }
    n->ts = r->ts;
    n->serial = r->length == 64 ? snic_get_le64(p + 56) : 0;
    control_recover_addr(p + 8, &n->addr);
    control_recover_addr(p + 32, &n->peer);
    return control_addr_known(&n->addr) && control_addr_known(&n->peer) ? 0 : SNIC_ECORRUPT;
}

static void control_recover_seg_gone(struct snic_control *c, struct control_seg *g)
{
    g->state = CONTROL_PLACING; /* it is not counted yet */
    control_seg_free(c, NULL, g);
}

/* A disk's tombstone: its segments' records precede it, and are on no list yet. There may be as
   many tombstones as the log has space for: all segments are scanned only for a disk that may have
   as many, and for one whose own record is gone. */
static void control_recover_disk_gone(struct snic_control *c, uint32_t vd)
{
    struct control_disk *d = control_disk_find(c, vd);
    uint64_t most = d != NULL ? control_disk_segments(d) : UINT64_MAX;
    if (most < c->o.segments_max) {
        for (uint64_t i = 0; i < most; i++) {
            struct control_seg *g = control_seg_find(c, vd, i);
            if (g != NULL)
                control_recover_seg_gone(c, g);
        }
    } else {
        for (uint32_t i = 0; i < c->o.segments_max; i++)
            if (c->segs[i].state != CONTROL_FREE && c->segs[i].vd == vd)
                control_recover_seg_gone(c, &c->segs[i]);
    }
    if (d != NULL)
        control_disk_free(c, d);
}

/* All bytes are sent to peers: there must be an end, and zeros behind it. */
static int control_recover_name_ok(const char *name)
{
    static const char none[SNIC_CONTROL_NAME];
    size_t n = 0;
    while (n < SNIC_CONTROL_NAME && name[n] != 0)
        n++;
    return snic_control_name_ok(name) && memcmp(name + n, none, SNIC_CONTROL_NAME - n) == 0;
}

static int control_recover_disk(struct snic_control *c, uint32_t vd,
                                const struct snic_wal_record *r)
{
    const unsigned char *p = r->bytes;
    struct control_disk *d = control_disk_find(c, vd);
    if (d != NULL && r->ts < d->ts)
        return 0;
    if ((r->flags & SNIC_WAL_TOMBSTONE) != 0) {
        control_recover_disk_gone(c, vd);
        return 0;
    }
    if ((r->length != 120 && r->length != 136 && r->length != 140 && r->length != 144) || vd == 0)
        return SNIC_ECORRUPT;
    if (d == NULL)
        d = control_disk_new(c, vd);
    if (d == NULL)
        return SNIC_ENOSPC;
    d->ts = r->ts;
    d->bytes = snic_get_le64(p + 8);
    d->qos.bytes_per_second = snic_get_le64(p + 16);
    d->qos.burst_bytes = snic_get_le64(p + 24);
    d->qos.ios_per_second = snic_get_le64(p + 32);
    d->qos.burst_ios = snic_get_le64(p + 40);
    d->lease = snic_get_le32(p + 48);
    d->held = snic_get_le32(p + 52);
    memcpy(d->name, p + 56, SNIC_CONTROL_NAME);
    d->key[0] = r->length >= 136 ? snic_get_le64(p + 120) : 0;
    d->key[1] = r->length >= 136 ? snic_get_le64(p + 128) : 0;
    d->account = r->length >= 140 ? snic_get_le32(p + 136) : 0;
    d->rights = r->length >= 144 ? snic_get_le32(p + 140) : 0;
    if (!control_recover_name_ok(d->name) || d->lease > SNIC_CONTROL__LEASE_ENDED || d->held > 1 ||
        (d->rights & ~SNIC_EBS_MAY_ALL) != 0 || d->bytes == 0 ||
        d->bytes % SNIC_EBS_BLOCK_BYTES != 0 || d->bytes > UINT64_C(1) << 52)
        return SNIC_ECORRUPT;
    return 0;
}

static int control_recover_seg(struct snic_control *c, uint32_t vd, const struct snic_wal_record *r)
{
    const unsigned char *p = r->bytes;
    if (r->length != 16 || r->key.w[1] > UINT32_MAX)
        return SNIC_ECORRUPT;
    struct control_seg *g = control_seg_find(c, vd, r->key.w[1]);
    if (g != NULL && r->ts < g->ts)
        return 0;
    if (g == NULL)
        g = control_seg_new(c, vd, (uint32_t)r->key.w[1]);
    if (g == NULL)
        return SNIC_ENOSPC;
    g->ts = r->ts;
    g->server = snic_get_le32(p + 8);
    g->gen = snic_get_le32(p + 12);
    g->state = CONTROL_PLACED;
    return g->server < SNIC_CONTROL_SERVERS_MAX ? 0 : SNIC_ECORRUPT;
}

void control_recover_record(void *ctx, const struct snic_wal_record *r)
{
    struct snic_control *c = ctx;
    uint32_t number = (uint32_t)r->key.w[0];
    int e = 0;
    c->ts = snic_max_u64(c->ts, r->ts);
    if ((r->flags & SNIC_WAL_TOMBSTONE) == 0 &&
        (r->length < 8 || snic_get_le32(r->bytes) != SNIC_CONTROL__FORMAT))
        e = SNIC_EVERSION;
    else if (r->key.w[0] >> 56 == CONTROL_R_HEAD && r->ts >= c->head_ts) {
        c->head_ts = r->ts;
        e = control_recover_head(c, r->bytes, r->length);
    } else if (r->key.w[0] >> 56 == CONTROL_R_SERVER)
        e = control_recover_server(c, number, r);
    else if (r->key.w[0] >> 56 == CONTROL_R_DISK)
        e = control_recover_disk(c, number, r);
    else if (r->key.w[0] >> 56 == CONTROL_R_SEGMENT)
        e = control_recover_seg(c, number, r);
    if (e != 0 && c->error == 0)
        c->error = e;
}

/* Of two disks of a name the newer one has been reissued from the other. */
static void control_recover_names(struct snic_control *c)
{
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct control_disk *d = &c->disks[i];
        struct control_disk *same = d->used ? control_disk_named(c, d->name) : d;
        if (same == d)
            continue;
        struct control_disk *old = same->vd < d->vd ? same : d;
        c->replaced[c->replaced_count++] = old->vd;
        control_disk_free(c, old); /* its segments are on no list, and are dropped below */
    }
}

/* All records are read. */
int control_recover_finish(struct snic_control *c)
{
    control_recover_names(c);
    for (uint32_t i = 0; c->error == 0 && i < c->o.segments_max; i++) {
        struct control_seg *g = &c->segs[i];
        if (g->state != CONTROL_PLACED)
            continue;
        struct control_disk *d = control_disk_find(c, g->vd);
        if (d == NULL) {
            g->state = CONTROL_PLACING; /* it is not counted yet */
            control_seg_free(c, NULL, g);
        } else {
            control_seg_link(c, d, g);
        }
    }
    if (c->error == 0)
        c->error = control_catalog_check(c);
    return c->error;
}
