/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The medium of the io/mem backend: a sparse disk that knows which of its
 * sectors would be lost in a power cut, and a plan of faults.
 *
 * A flush covers the writes completed before it was submitted and takes effect
 * when it completes: what is acknowledged too early is lost in a cut between the
 * two. A sector that is written again while a flush that covers its older
 * content is under way has that content made durable at once, as a device may.
 *
 * The invariants D1 to D4 are in disk_priv.h.
 */
#include "io/disk_priv.h"

#include <stdlib.h>

/* ---- Bits ---- */

static int disk_bit(const uint64_t *map, uint64_t i)
{
    return (int)(map[i / 64] >> (i % 64) & 1);
}

/** The first set bit of dirty at or after @p from, or dirty_end. */
static uint64_t disk_dirty_next(const struct snic_disk *d, uint64_t from)
{
    from = snic_max_u64(from, d->dirty_first);
    while (from < d->dirty_end) {
        uint64_t word = d->dirty[from / 64] >> (from % 64);
        if (word != 0)
            return from + (uint64_t)__builtin_ctzll(word);
        from = (from / 64 + 1) * 64;
    }
    return d->dirty_end;
}

static void disk_clean(struct snic_disk *d, uint64_t sector)
{
    d->dirty[sector / 64] &= ~(UINT64_C(1) << (sector % 64));
    d->unsynced--;
    if (d->unsynced == 0) {
        d->dirty_first = d->sectors;
        d->dirty_end = 0;
    }
}

static unsigned char *disk_at(unsigned char *image, const struct snic_disk *d, uint64_t sector)
{
    return image + sector * d->opts.sector;
}

/** Before the visible content of @p sector changes: keep what is durable. */
static void disk_dirty(struct snic_disk *d, uint64_t sector)
{
    int was = disk_bit(d->dirty, sector);
    int zero = !disk_bit(d->touched, sector) && !d->exposed; /* D4: in both images */
    d->touched[sector / 64] |= UINT64_C(1) << (sector % 64);
    if (!zero && (!was || (d->flushes > 0 && d->written[sector] <= d->flush_after)))
        memcpy(disk_at(d->undo, d, sector), disk_at(d->visible, d, sector), d->opts.sector);
    if (!was) {
        d->dirty[sector / 64] |= UINT64_C(1) << (sector % 64);
        d->unsynced++;
        d->dirty_first = snic_min_u64(d->dirty_first, sector);
        d->dirty_end = snic_max_u64(d->dirty_end, sector + 1);
    }
    d->written[sector] = d->writes;
}

/** Mark every sector that the range touches; size > 0. */
static void disk_dirty_range(struct snic_disk *d, uint64_t offset, uint64_t size)
{
    uint64_t end = (offset + size - 1) / d->opts.sector + 1;
    d->writes++;
    for (uint64_t s = offset / d->opts.sector; s < end; s++)
        disk_dirty(d, s);
}

/* ---- Data ---- */

/** Copy the bytes [@p from, @p to) of the request's pieces to or from @p at. */
static void disk_copy(unsigned char *at, const struct snic_io_req *req, uint64_t from, uint64_t to,
                      int into)
{
    const struct snic_iov *pieces = req->iov != NULL ? req->iov : &req->buf;
    uint64_t base = 0;
    for (const struct snic_iov *p = pieces; base < to; p++) {
        uint64_t a = snic_max_u64(from, base);
        uint64_t b = snic_min_u64(to, base + p->size);
        if (a < b) {
            unsigned char *mem = (unsigned char *)p->base + (a - base);
            if (into)
                memcpy(at + (a - from), mem, b - a);
            else
                memcpy(mem, at + (a - from), b - a);
        }
        base += p->size;
    }
}

void disk_write(struct snic_disk *d, const struct snic_io_req *req, uint64_t bytes)
{
    SNIC_ASSERT(bytes <= req->length && req->offset + bytes <= d->opts.size);
    if (bytes == 0)
        return;
    disk_dirty_range(d, req->offset, bytes);
    disk_copy(d->visible + req->offset, req, 0, bytes, 1);
}

void disk_read(const struct snic_disk *d, const struct snic_io_req *req, uint64_t bytes)
{
    SNIC_ASSERT(bytes <= req->length && req->offset + bytes <= d->opts.size);
    disk_copy(d->visible + req->offset, req, 0, bytes, 0);
}

void disk_fill(struct snic_disk *d, uint64_t offset, uint64_t size, unsigned char byte)
{
    SNIC_ASSERT(offset + size <= d->opts.size);
    if (size == 0)
        return;
    disk_dirty_range(d, offset, size);
    memset(d->visible + offset, byte, size);
}

/* ---- Durability ---- */

uint64_t disk_flush_begin(struct snic_disk *d)
{
    d->flushes++;
    d->flush_after = d->writes; /* the latest flush covers the most */
    return d->writes;
}

void disk_flush_end(struct snic_disk *d, uint64_t covers, uint64_t offset, uint64_t size, int done)
{
    SNIC_ASSERT(d->flushes > 0);
    d->flushes--;
    if (!done)
        return;
    uint64_t first = size == 0 ? 0 : offset / d->opts.sector;
    uint64_t end = size == 0 ? d->sectors : (offset + size - 1) / d->opts.sector + 1;
    for (uint64_t s = disk_dirty_next(d, first); s < d->dirty_end && s < end;
         s = disk_dirty_next(d, s + 1)) {
        if (d->written[s] <= covers)
            disk_clean(d, s);
    }
}

void disk_settle(struct snic_disk *d, uint64_t offset, uint64_t size)
{
    if (size == 0)
        return;
    uint64_t end = (offset + size - 1) / d->opts.sector + 1;
    for (uint64_t s = disk_dirty_next(d, offset / d->opts.sector); s < d->dirty_end && s < end;
         s = disk_dirty_next(d, s + 1)) {
        if (d->written[s] != SNIC_DISK__LOST)
            disk_clean(d, s);
    }
}

void snic_disk_sync(struct snic_disk *d)
{
    disk_settle(d, 0, d->opts.size);
}

/** One un-synced sector meets the power cut. */
static void disk_resolve(struct snic_disk *d, uint64_t sector, int keep)
{
    if (!keep)
        memcpy(disk_at(d->visible, d, sector), disk_at(d->undo, d, sector), d->opts.sector);
    disk_clean(d, sector);
}

/** Few, half or most of them: the extremes find more than even odds alone. */
static int disk_toss(struct snic_rng *rng, uint64_t seed)
{
    static const uint64_t odds[3] = {1, 4, 7};
    if (seed == SNIC_FAULT_KEEP_NONE)
        return 0;
    if (seed == SNIC_FAULT_KEEP_ALL)
        return 1;
    return snic_rng_below(rng, 8) < odds[seed % 3];
}

void disk_lose(struct snic_disk *d, uint64_t covers, uint64_t offset, uint64_t size, uint64_t seed)
{
    uint64_t first = size == 0 ? 0 : offset / d->opts.sector;
    uint64_t end = size == 0 ? d->sectors : (offset + size - 1) / d->opts.sector + 1;
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    for (uint64_t s = disk_dirty_next(d, first); s < d->dirty_end && s < end;
         s = disk_dirty_next(d, s + 1)) {
        if (d->written[s] > covers)
            continue;
        if ((d->opts.caps & SNIC_IO_CAP_DIRECT) != 0)
            disk_resolve(d, s, disk_toss(&rng, seed));
        else
            d->written[s] = SNIC_DISK__LOST;
    }
}

void disk_cut(struct snic_disk *d, struct snic_rng *rng, uint64_t seed)
{
    for (uint64_t s = disk_dirty_next(d, 0); s < d->dirty_end; s = disk_dirty_next(d, s + 1)) {
        int lost = d->written[s] == SNIC_DISK__LOST && seed == SNIC_FAULT_KEEP_ALL;
        disk_resolve(d, s, disk_toss(rng, seed) && !lost);
    }
    SNIC_ASSERT(d->unsynced == 0); /* D1 */
}

void disk_cut_keep(struct snic_disk *d, const uint64_t *keep, uint64_t n)
{
    for (uint64_t s = disk_dirty_next(d, 0); s < d->dirty_end; s = disk_dirty_next(d, s + 1)) {
        int kept = 0;
        for (uint64_t i = 0; i < n && !kept; i++)
            kept = keep[i] == s;
        disk_resolve(d, s, kept);
    }
}

void disk_cut_write(struct snic_disk *d, const struct snic_io_req *req, struct snic_rng *rng,
                    uint64_t seed)
{
    uint64_t end = req->offset + req->length;
    for (uint64_t at = req->offset; at < end;) {
        uint64_t stop = snic_min_u64(end, snic_align_down(at, d->opts.sector) + d->opts.sector);
        if (disk_toss(rng, seed)) {
            disk_dirty_range(d, at, stop - at);
            disk_copy(d->visible + at, req, at - req->offset, stop - req->offset, 1);
            disk_settle(d, at, stop - at);
        }
        at = stop;
    }
}

uint64_t snic_disk_unsynced(const struct snic_disk *d, uint64_t *out, uint64_t max)
{
    uint64_t n = 0;
    SNIC_ASSERT(max == 0 || out != NULL);
    for (uint64_t s = disk_dirty_next(d, 0); s < d->dirty_end && n < max;
         s = disk_dirty_next(d, s + 1))
        out[n++] = s;
    return d->unsynced;
}

/* ---- Faults ---- */

int snic_disk_fault(struct snic_disk *d, const struct snic_fault *f)
{
    const uint32_t all = (1u << (SNIC_IO_DISCARD + 1)) - 2;
    if (f->kind < SNIC_FAULT_ERROR || f->kind > SNIC_FAULT_LOST || f->after == 0 ||
        (f->ops & ~all) != 0 || f->reserved != 0 || f->length > UINT64_MAX - f->offset ||
        ((f->kind == SNIC_FAULT_ERROR || f->kind == SNIC_FAULT_LOST) && f->error >= 0))
        return SNIC_EINVAL;
    if (d->faults_count == SNIC_DISK__FAULTS)
        return SNIC_ENOSPC;
    struct snic_fault *to = &d->faults[d->faults_count++];
    *to = *f;
    to->ops = f->ops == 0 ? all : f->ops;
    if (f->kind == SNIC_FAULT_TORN)
        to->ops &= 1u << SNIC_IO_WRITE;
    if (f->kind == SNIC_FAULT_SHORT) /* a flush has no length */
        to->ops &= ~(1u << SNIC_IO_FLUSH);
    if (f->kind == SNIC_FAULT_LOST)
        to->ops &= 1u << SNIC_IO_FLUSH | 1u << SNIC_IO_WRITE;
    return 0;
}

void snic_disk_faults_clear(struct snic_disk *d)
{
    d->faults_count = 0;
}

static int disk_fault_touches(const struct snic_fault *f, const struct snic_io_req *req)
{
    if ((f->ops >> req->op & 1) == 0)
        return 0;
    if (f->kind == SNIC_FAULT_LOST && req->op == SNIC_IO_WRITE && (req->flags & SNIC_IO_FUA) == 0)
        return 0;
    if (f->offset == 0 && f->length == 0)
        return 1;
    if (req->op == SNIC_IO_FLUSH && req->length == 0)
        return 1;
    return req->offset < f->offset + f->length && f->offset < req->offset + req->length;
}

struct disk_verdict disk_judge(struct snic_disk *d, const struct snic_io_req *req)
{
    struct disk_verdict v = {0};
    uint32_t left = 0;
    for (uint32_t i = 0; i < d->faults_count; i++) {
        struct snic_fault *f = &d->faults[i];
        int fires = disk_fault_touches(f, req) && --f->after == 0;
        if (fires && f->kind == SNIC_FAULT_DELAY) {
            v.delay_ns += f->delay_ns;
        } else if (fires && v.kind == 0) { /* the one that was added first wins */
            v.kind = f->kind;
            v.error = f->error;
            v.bytes = f->bytes;
            v.seed = f->seed;
        }
        if (fires && f->repeat == 0)
            continue; /* used up */
        if (fires) {
            f->after = 1;
            f->repeat -= f->repeat != UINT64_MAX;
        }
        if (left != i)
            d->faults[left] = *f;
        left++;
    }
    d->faults_count = left;
    return v;
}

/* ---- Open, clone, close ---- */

static int disk_opts_check(const struct snic_disk_opts *o)
{
    const uint32_t known = (SNIC_IO_CAP_READONLY << 1) - 1;
    if (!snic_is_pow2(o->sector) || o->sector < 512 || o->sector > 65536 || o->size == 0 ||
        o->size % o->sector != 0 || o->size > (uint64_t)1 << 47 ||
        o->delay_min_ns > o->delay_max_ns || o->delay_max_ns > (uint64_t)1 << 62 ||
        o->depth > 32768 || (o->caps & ~known) != 0 || !snic_is_pow2(o->align) ||
        o->align > o->sector || o->transfer_max < o->align || o->transfer_max > 1u << 30)
        return SNIC_EINVAL;
    return 0;
}

static int disk_allocate(struct snic_disk **out, const struct snic_disk_opts *o)
{
    struct snic_disk *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return SNIC_ENOMEM;
    d->opts = *o;
    d->sectors = o->size / o->sector;
    d->words = (d->sectors + 63) / 64;
    d->dirty_first = d->sectors;
    d->visible = calloc(1, o->size);
    d->undo = calloc(1, o->size);
    d->dirty = calloc(d->words, sizeof(uint64_t));
    d->touched = calloc(d->words, sizeof(uint64_t));
    d->written = calloc(d->sectors, sizeof(uint64_t));
    snic_link_init(&d->handles);
    if (d->visible == NULL || d->undo == NULL || d->dirty == NULL || d->touched == NULL ||
        d->written == NULL) {
        snic_disk_close(d);
        return SNIC_ENOMEM;
    }
    *out = d;
    return 0;
}

int snic_disk_open(struct snic_disk **out, const struct snic_disk_opts *opts)
{
    struct snic_disk_opts o = {.opts_size = sizeof(o)};
    int r = snic_opts_copy(&o, sizeof(o), opts);
    if (r != 0)
        return r;
    o.sector = o.sector == 0 ? 4096 : o.sector;
    o.depth = o.depth == 0 ? 1024 : o.depth;
    o.caps = o.caps == 0 ? SNIC_IO_CAP_FUA | SNIC_IO_CAP_DISCARD | SNIC_IO_CAP_ZERO : o.caps;
    o.align = o.align == 0 ? 1 : o.align;
    o.transfer_max = o.transfer_max == 0 ? 1u << 30 : o.transfer_max;
    r = disk_opts_check(&o);
    if (r == 0)
        r = disk_allocate(out, &o);
    if (r == 0)
        snic_rng_init(&(*out)->rng, o.seed);
    return r;
}

void snic_disk_close(struct snic_disk *d)
{
    if (d == NULL)
        return;
    SNIC_ASSERT(snic_link_alone(&d->handles));
    free(d->visible);
    free(d->undo);
    free(d->dirty);
    free(d->touched);
    free(d->written);
    free(d);
}

/** Sectors that were written through a snic_disk_bytes() pointer and by no request. */
static int disk_is_zero(const unsigned char *p, size_t size)
{
    return p[0] == 0 && memcmp(p, p + 1, size - 1) == 0;
}

int snic_disk_clone(const struct snic_disk *d, struct snic_disk **out)
{
    struct snic_disk *c = NULL;
    int r = disk_allocate(&c, &d->opts);
    if (r != 0)
        return r;
    for (uint64_t s = 0; s < d->sectors; s++) {
        if (!d->exposed && d->touched[s / 64] == 0) {
            s |= 63;
            continue;
        }
        const unsigned char *from = disk_at(d->visible, d, s);
        if (disk_bit(d->touched, s) || (d->exposed && !disk_is_zero(from, d->opts.sector)))
            memcpy(disk_at(c->visible, c, s), from, d->opts.sector);
    }
    for (uint64_t s = disk_dirty_next(d, 0); s < d->dirty_end; s = disk_dirty_next(d, s + 1)) {
        memcpy(disk_at(c->undo, c, s), disk_at(d->undo, d, s), d->opts.sector);
        c->written[s] = d->written[s];
    }
    memcpy(c->dirty, d->dirty, d->words * sizeof(uint64_t));
    memcpy(c->touched, d->touched, d->words * sizeof(uint64_t));
    c->rng = d->rng;
    c->writes = d->writes;
    c->unsynced = d->unsynced;
    c->dirty_first = d->dirty_first;
    c->dirty_end = d->dirty_end;
    c->op_count = d->op_count;
    c->exposed = d->exposed;
    *out = c;
    return 0;
}

unsigned char *snic_disk_bytes(struct snic_disk *d)
{
    d->exposed = 1; /* D4 */
    return d->visible;
}

uint64_t snic_disk_op_count(const struct snic_disk *d)
{
    return d->op_count;
}
