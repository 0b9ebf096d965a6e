/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Memory, opening and closing; and who runs when.
 */
#include "segments/segments_priv.h"

SNIC_STATIC_ASSERT(SNIC_SEGMENTS__ENTRIES(SNIC_SEGMENTS__PLACES_MAX) / SNIC_SEGMENTS_BLOCKS ==
                       SNIC_SEGMENTS__PLACES_MAX,
                   "the entries of the largest device can be counted");

/* ---- Scheduling ---- */

static void segments_pump(struct snic_segments *s)
{
    for (uint32_t i = 0; i < s->disks; i++) {
        struct segments_disk *d = &s->disk[i];
        if (d->state == SEGMENTS_OPEN && s->opened)
            segments_round_pump(d);
        segments_io_pump(d);
    }
    segments_deliver(s);
}

static void segments_message(struct snic_loop_msg *m)
{
    struct snic_segments *s = SNIC_CONTAINER(m, struct snic_segments, message);
    s->message_on = 0;
    segments_pump(s);
}

static void segments_writable(struct snic_io_waiter *w)
{
    segments_pump(SNIC_CONTAINER(w, struct segments_disk, room)->store);
}

/* ---- Opening ---- */

/** No segment is on two devices. */
static int segments_chain_all(struct snic_segments *s)
{
    for (uint32_t i = 0; i < s->disks; i++) {
        struct segments_disk *d = &s->disk[i];
        s->report.disk = i;
        for (uint32_t k = 0; k < d->geo.places; k++) {
            uint32_t at[2];
            if (!d->place[k].attr.used)
                continue;
            if (segments_lookup(s, d->place[k].attr.seg_id, &at[0], &at[1]) != NULL)
                return SNIC_ECORRUPT;
            segments_chain(d, k);
            s->report.segments++;
        }
    }
    return 0;
}

/** The result of all: of the first device with an error that is its own. */
static int segments_worst(struct snic_segments *s)
{
    int result = 0;
    s->list_max = SNIC_SEGMENTS_LIST_MAX;
    for (uint32_t i = s->disks; i-- > 0;) {
        const struct segments_disk *d = &s->disk[i];
        int r = d->result == 0 && d->state == SEGMENTS_DEAD ? SNIC_EIO : d->result;
        if (d->geo.list_max < s->list_max)
            s->list_max = d->geo.list_max;
        if (r != 0 && (result == 0 || r != SNIC_ECANCELED)) {
            result = r;
            s->report.disk = i;
        }
    }
    return result;
}

static void segments_report(struct snic_segments *s)
{
    struct snic_segments_report *r = &s->report;
    const struct segments_disk *d = &s->disk[r->disk];
    r->is_disk = d->load.found.disk;
    r->is_disks = d->load.found.disks;
    r->mixed = d->load.mixed;
    r->version = d->load.found.version;
    r->log_bytes = d->geo.log_bytes;
    r->first_missing = d->load.first_missing;
    r->last_missing = d->load.last_missing;
}

/** Something has become known of a device: the next step of opening, for all of them. */
static void segments_open_on(struct snic_segments *s)
{
    if (s->closing || s->reported)
        return;
    segments_look(s);
    segments_super_seconds(s);
    for (uint32_t i = 0; i < s->disks; i++)
        if (!s->disk[i].loaded)
            return;
    int result = segments_worst(s);
    if (result == 0)
        result = segments_chain_all(s);
    if (result == 0)
        s->report.disk = 0;
    segments_report(s);
    s->opened = result == 0;
    s->reported = 1;
    s->events.opened(s->ctx, result, &s->report);
    segments_kick(s);
}

/* ---- Options and memory ---- */

static int segments_options(struct snic_segments_opts *o, const struct snic_segments_opts *in)
{
    uint32_t known = SNIC_SEGMENTS_BLANK | SNIC_SEGMENTS_FORMAT | SNIC_SEGMENTS_STRICT |
                     SNIC_SEGMENTS_SALVAGE | SNIC_SEGMENTS_NO_FUA;
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), in) != 0 || (o->flags & ~known) != 0)
        return SNIC_EINVAL;
    o->cache_blocks = o->cache_blocks != 0 ? o->cache_blocks : 16384;
    o->bounces = o->bounces != 0 ? o->bounces : 32;
    if (o->cache_blocks < SNIC_SEGMENTS_LIST_MAX || o->cache_blocks > 1u << 22 || o->bounces > 1024)
        return SNIC_EINVAL;
    return 0;
}

static int segments_check_devices(struct segments_geo *g, struct snic_io *const *io, uint32_t disks,
                                  const struct snic_segments_opts *o)
{
    if (disks == 0 || disks > SNIC_SEGMENTS_DISKS_MAX)
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < disks; i++) {
        if (io[i]->loop != io[0]->loop)
            return SNIC_EINVAL;
        if ((io[i]->caps & SNIC_IO_CAP_READONLY) != 0)
            return SNIC_EPERM;
        int r = segments_geo_make(&g[i], io[i], o);
        if (r != 0)
            return SNIC_EINVAL;
        g[i].disk = i;
        g[i].disks = disks;
        segments_geo_derive(&g[i]);
    }
    return 0;
}

/** Memory for the device; its alignment by hand, for the base is aligned to a line only. */
static unsigned char *segments_carve_aligned(struct snic_arena *a, uint64_t bytes)
{
    unsigned char *b = snic_arena_take(a, 1, bytes + SNIC_SEGMENTS__PAGE, SNIC_CACHELINE);
    if (b != NULL)
        b += (size_t)(snic_align_up((uintptr_t)b, SNIC_SEGMENTS__PAGE) - (uintptr_t)b);
    return b;
}

static void segments_carve_disk(struct snic_arena *a, struct segments_disk *d,
                                const struct segments_geo *g, struct snic_io *io,
                                const struct snic_segments_opts *o)
{
    size_t places = g->places;
    struct segments_window window;
    struct snic_wal_opts w = segments_wal_opts(g, o->flags);
    segments_window_make(&window, io, g);
    size_t wal = snic_wal_memsize(&window.io, &w);
    if (wal == 0)
        wal = SIZE_MAX / 2;
    void *wal_mem = snic_arena_take(a, 1, wal, SNIC_WAL_ALIGN);
    struct segments_place *place = snic_arena_take(a, places, sizeof(*place), SNIC_CACHELINE);
    struct segments_entry *entry =
        snic_arena_take(a, SNIC_SEGMENTS__ENTRIES(places), sizeof(*entry), SNIC_CACHELINE);
    struct segments_slot *slot = snic_arena_take(a, g->cache_blocks, sizeof(*slot), SNIC_CACHELINE);
    struct segments_op *op = snic_arena_take(a, SNIC_SEGMENTS__OPS, sizeof(*op), SNIC_CACHELINE);
    uint32_t *bounce = snic_arena_take(a, o->bounces, sizeof(*bounce), SNIC_CACHELINE);
    unsigned char *staging = snic_arena_take(a, 1, g->record_max, SNIC_CACHELINE);
    unsigned char *bytes = segments_carve_aligned(a, (uint64_t)g->cache_blocks << 12);
    unsigned char *bounces = segments_carve_aligned(a, (uint64_t)o->bounces << 12);
    unsigned char *pages = segments_carve_aligned(a, (uint64_t)SNIC_SEGMENTS__OPS << 12);
    if (d == NULL || pages == NULL)
        return;
    d->wal_mem = wal_mem;
    d->wal_size = wal;
    d->place = place;
    d->entry = entry;
    d->slot = slot;
    d->round.op = op;
    d->bounce_free = bounce;
    d->staging = staging;
    d->bytes = bytes;
    d->bounce = bounces;
    memset(place, 0, places * sizeof(*place));
    memset(entry, 0, SNIC_SEGMENTS__ENTRIES(places) * sizeof(*entry));
    memset(op, 0, SNIC_SEGMENTS__OPS * sizeof(*op));
    memset(pages, 0, (size_t)SNIC_SEGMENTS__OPS << 12);
    /* Not the cache's blocks, which are most of the memory: a slot is filled before it is read. */
    for (uint32_t i = 0; i < SNIC_SEGMENTS__OPS; i++)
        op[i].page = pages + ((size_t)i << 12);
}

static struct snic_segments *segments_carve(struct snic_arena *a, struct snic_io *const *io,
                                            const struct segments_geo *g, uint32_t disks,
                                            const struct snic_segments_opts *o)
{
    uint64_t places = 0;
    uint32_t chains = 16;
    struct snic_segments *s = snic_arena_take(a, 1, sizeof(*s), SNIC_SEGMENTS_ALIGN);
    for (uint32_t i = 0; i < disks; i++)
        places += g[i].places;
    while (chains < places && chains < 1u << 30)
        chains *= 2;
    uint32_t *chain = snic_arena_take(a, chains, sizeof(*chain), SNIC_CACHELINE);
    if (s != NULL && chain != NULL) {
        memset(s, 0, sizeof(*s));
        s->chains = chains;
        s->chain = chain;
        memset(chain, 0xff, chains * sizeof(*chain));
    }
    for (uint32_t i = 0; i < disks; i++)
        segments_carve_disk(a, s != NULL ? &s->disk[i] : NULL, &g[i], io[i], o);
    return s;
}

const char *snic_segments_opts_wrong(struct snic_io *const *io, uint32_t disks,
                                     const struct snic_segments_opts *in)
{
    struct segments_geo g[SNIC_SEGMENTS_DISKS_MAX];
    struct snic_segments_opts o = {.opts_size = sizeof(o)};
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (segments_options(&o, in) != 0)
        return o.cache_blocks != 0 &&
                       (o.cache_blocks < SNIC_SEGMENTS_LIST_MAX || o.cache_blocks > 1u << 22)
                   ? "cache_blocks: not 64..2^22"
               : o.bounces > 1024 ? "bounces: not 1..1024"
                                  : "flags: unknown bits";
    if (o.log_bytes != 0 && (o.log_bytes < 2u << 20 || o.log_bytes > (uint64_t)64 << 30))
        return "log_bytes: not 2 MiB..64 GiB";
    if (disks == 0 || disks > SNIC_SEGMENTS_DISKS_MAX)
        return "disks: none, or above SNIC_SEGMENTS_DISKS_MAX";
    for (uint32_t i = 0; i < disks; i++)
        if (io[i]->loop != io[0]->loop)
            return "io: devices of different loops";
    if (segments_check_devices(g, io, disks, &o) != 0)
        return "io: a device that cannot be written, is too small for log_bytes and a segment, or "
               "wants another alignment or smaller transfers";
    return NULL;
}

size_t snic_segments_memsize(struct snic_io *const *io, uint32_t disks,
                             const struct snic_segments_opts *in)
{
    struct snic_arena a = {NULL, 0, 0};
    struct segments_geo g[SNIC_SEGMENTS_DISKS_MAX];
    struct snic_segments_opts o;
    if (segments_options(&o, in) != 0 || segments_check_devices(g, io, disks, &o) != 0)
        return 0;
    (void)segments_carve(&a, io, g, disks, &o);
    return a.used >= SIZE_MAX / 2 ? 0 : (size_t)snic_align_up(a.used, SNIC_SEGMENTS_ALIGN);
}

static void segments_disk_init(struct segments_disk *d, struct snic_segments *s, uint32_t number,
                               struct snic_io *io, const struct segments_geo *g)
{
    d->store = s;
    d->io = io;
    d->geo = *g;
    d->number = number;
    d->state = SEGMENTS_OPENING;
    snic_io_waiter_init(&d->room, segments_writable);
    snic_link_init(&d->bouncing);
    snic_link_init(&d->waiting);
    d->bounces_free = s->opts.bounces;
    for (uint32_t i = 0; i < s->opts.bounces; i++)
        d->bounce_free[i] = i;
    for (size_t i = 0; i < SNIC_SEGMENTS__ENTRIES(g->places); i++)
        d->entry[i].slot = SNIC_SEGMENTS__NONE;
    segments_slots_init(d);
}

int snic_segments_open(struct snic_segments **out, void *mem, size_t mem_size,
                       struct snic_io *const *io, uint32_t disks,
                       const struct snic_segments_opts *in, const struct snic_segments_events *e,
                       void *ctx)
{
    struct snic_arena a = {mem, mem_size, 0};
    struct segments_geo g[SNIC_SEGMENTS_DISKS_MAX];
    struct snic_segments_opts o;
    static const unsigned char zeros[64];
    int r = segments_options(&o, in);
    if (r == 0)
        r = segments_check_devices(g, io, disks, &o);
    if (r != 0)
        return r;
    size_t need = snic_segments_memsize(io, disks, in);
    if (need == 0 || ((uintptr_t)mem & (SNIC_SEGMENTS_ALIGN - 1)) != 0 || e->opened == NULL)
        return SNIC_EINVAL;
    if (mem_size < need)
        return SNIC_ENOSPC;
    struct snic_segments *s = segments_carve(&a, io, g, disks, &o);
    if (s == NULL)
        return SNIC_ENOSPC;
    s->mem = mem;
    s->opts = o;
    s->events = *e;
    s->ctx = ctx;
    s->loop = io[0]->loop;
    s->disks = disks;
    s->message.fn = segments_message;
    s->open_step = segments_open_on;
    snic_link_init(&s->finished);
    for (uint32_t i = 0; i < SNIC_SEGMENTS_BLOCK / sizeof(zeros); i++)
        s->zero_crc = snic_crc32c(s->zero_crc, zeros, sizeof(zeros));
    for (uint32_t i = 0; i < disks; i++)
        segments_disk_init(&s->disk[i], s, i, io[i], &g[i]);
    for (uint32_t i = 0; i < disks; i++)
        segments_load_begin(&s->disk[i]);
    *out = s;
    return 0;
}

/* ---- Closing ---- */

static int segments_busy(const struct snic_segments *s)
{
    int busy = s->message_on || s->in_flight != 0;
    for (uint32_t i = 0; i < s->disks; i++)
        busy |= s->disk[i].out != 0 || !snic_queue_empty(&s->disk[i].queue);
    return busy;
}

struct snic_loop *snic_segments_loop(const struct snic_segments *s)
{
    return s->loop;
}

void *snic_segments_close(struct snic_segments *s)
{
    void *mem = s->mem;
    s->closing = 1;
    while (segments_busy(s)) {
        int r = snic_loop_once(s->loop, SNIC_NEVER);
        SNIC_ASSERT(r > 0 || snic_loop_world(s->loop) == NULL); /* else the node is paused */
        SNIC_ASSERT(r >= 0);
    }
    for (uint32_t i = 0; i < s->disks; i++) {
        snic_io_unwait(&s->disk[i].room);
        if (s->disk[i].wal != NULL)
            (void)snic_wal_close(s->disk[i].wal);
    }
    while (segments_busy(s))
        (void)snic_loop_once(s->loop, SNIC_NEVER);
    return mem;
}
