/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "segfix.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

#define PAGE SNIC_SEGMENTS_BLOCK
#define REQ_BYTES (SNIC_SEGMENTS_LIST_MAX * PAGE + 64)

void segfix_wrong(struct segfix *f, const char *format, ...)
{
    va_list ap;
    if (f->why[0] != 0)
        return;
    va_start(ap, format);
    (void)vsnprintf(f->why, sizeof(f->why), format, ap);
    va_end(ap);
}

uint32_t segfix_block_number(uint32_t which)
{
    static const uint16_t number[SEGFIX_BLOCKS] = {
        0, 1, 2, 3, 4, 5, 126, 127, 128, 129, 200, 255, 256, 300, 301, 302, 303, 383, 384, 511};
    return number[which];
}

uint32_t segfix_content(unsigned char *out, uint32_t seg, uint32_t creations, uint32_t which,
                        uint64_t wver)
{
    uint64_t x = (uint64_t)seg << 56 ^ (uint64_t)creations << 40 ^ (uint64_t)which << 32 ^ wver;
    x = (x + 1) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t kind = x >> 60 == 0   ? SNIC_SEGMENTS_ZERO
                    : x >> 60 == 1 ? SNIC_SEGMENTS_TRIM
                                   : SNIC_SEGMENTS_DATA;
    if (wver == 0)
        kind = SNIC_SEGMENTS_DATA;
    if (wver == 0 || kind != SNIC_SEGMENTS_DATA) {
        memset(out, 0, PAGE);
        return kind;
    }
    for (uint32_t i = 0; i < PAGE; i += 8)
        snic_put_le64(out + i, x + i * UINT64_C(0x100000001b3));
    return kind;
}

/* ---- Disks and store ---- */

void segfix_plug(struct segfix *f)
{
    for (uint32_t i = 0; i < f->disks; i++)
        assert_int_equal(snic_io_mem_open(&f->io[i], f->loop, f->disk[i]), 0);
}

void segfix_unplug(struct segfix *f)
{
    for (uint32_t i = 0; i < f->disks; i++) {
        snic_io_close(f->io[i]);
        f->io[i] = NULL;
    }
}

void segfix_start(struct segfix *f, uint64_t seed)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = seed};
    assert_int_equal(snic_world_open(&f->world, &w), 0);
    assert_int_equal(snic_world_loop(f->world, 0, &f->loop), 0);
    f->disks = f->disks != 0 ? f->disks : 1;
    f->opts.opts_size = sizeof(f->opts);
    f->opts.uuid[0] = seed;
    if (f->opts.log_bytes == 0)
        f->opts.log_bytes = 4u << 20;
    if (f->opts.cache_blocks == 0)
        f->opts.cache_blocks = 64;
    f->disk_opts.opts_size = sizeof(f->disk_opts);
    f->disk_opts.seed = seed;
    if (f->disk_opts.size == 0)
        f->disk_opts.size = 98304 + f->opts.log_bytes + 3 * (2138112) + 4096 * 8;
    for (uint32_t i = 0; i < f->disks; i++)
        assert_int_equal(snic_disk_open(&f->disk[i], &f->disk_opts), 0);
    f->data = aligned_alloc(4096, (size_t)SEGFIX_REQS * 270336 + 4096);
    assert_non_null(f->data);
    for (uint32_t i = 0; i < SEGFIX_REQS; i++)
        f->req[i].data = f->data + (size_t)i * 270336;
    segfix_plug(f);
}

void segfix_end(struct segfix *f)
{
    if (f->store != NULL)
        segfix_close(f);
    segfix_unplug(f);
    for (uint32_t i = 0; i < f->disks; i++)
        snic_disk_close(f->disk[i]);
    snic_loop_close(f->loop);
    snic_world_close(f->world);
    free(f->data);
    f->data = NULL;
}

static void on_opened(void *ctx, int result, const struct snic_segments_report *r)
{
    struct segfix *f = ctx;
    if (f->opened)
        segfix_wrong(f, "opened twice");
    f->opened = 1;
    f->result = result;
    f->report = *r;
}

static void on_room(void *ctx)
{
    ((struct segfix *)ctx)->rooms++;
}

static void on_failed(void *ctx, uint32_t disk, int error)
{
    struct segfix *f = ctx;
    if (error >= 0 || (f->failed >> disk & 1) != 0)
        segfix_wrong(f, "failed() %d of disk %u", error, disk);
    f->failed |= 1u << disk;
}

static void on_damaged(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, uint32_t blocks)
{
    (void)disk;
    (void)seg_id;
    (void)block;
    (void)blocks;
    ((struct segfix *)ctx)->damages++;
}

static void on_misread(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, int error)
{
    struct segfix *f = ctx;
    if (disk >= f->disks || error >= 0)
        segfix_wrong(f, "misread() %d of disk %u", error, disk);
    f->misreads++;
    f->misread_seg = seg_id;
    f->misread_block = block;
    f->misread_error = error;
}

int segfix_open_begin(struct segfix *f, uint32_t flags)
{
    const struct snic_segments_events e = {.opened = on_opened,
                                           .damaged = on_damaged,
                                           .room = on_room,
                                           .failed = on_failed,
                                           .misread = on_misread};
    struct snic_segments_opts o = f->opts;
    o.flags |= flags;
    size_t size = snic_segments_memsize(f->io, f->disks, &o);
    assert_int_not_equal(size, 0);
    f->mem = support_guard_alloc(size, SNIC_SEGMENTS_ALIGN);
    f->opened = 0;
    f->failed = 0;
    f->damages = 0;
    int r = snic_segments_open(&f->store, f->mem, size, f->io, f->disks, &o, &e, f);
    if (r != 0) {
        support_guard_free(f->mem);
        f->store = NULL;
    }
    return r;
}

int segfix_open(struct segfix *f, uint32_t flags)
{
    int r = segfix_open_begin(f, flags);
    if (r != 0)
        return r;
    while (!f->opened)
        if (snic_loop_once(f->loop, SNIC_NEVER) == 0)
            fail_msg("opened() does not come");
    if (snic_segments_check(f->store) != 0)
        segfix_wrong(f, "check after open");
    return f->result;
}

void segfix_close(struct segfix *f)
{
    if (snic_segments_close(f->store) != f->mem)
        segfix_wrong(f, "close gave other memory");
    f->store = NULL;
    if (f->busy != 0)
        segfix_wrong(f, "%u requests did not complete", f->busy);
    support_guard_free(f->mem);
}

void segfix_run(struct segfix *f, uint64_t ns)
{
    uint64_t until = snic_loop_now(f->loop) + ns;
    while (snic_world_run(f->world, until, 1) > 0)
        if (f->store != NULL && snic_segments_check(f->store) != 0)
            segfix_wrong(f, "check");
}

void segfix_settle(struct segfix *f)
{
    while (f->busy != 0)
        if (snic_loop_once(f->loop, SNIC_NEVER) == 0)
            fail_msg("%u requests stay under way: %s", f->busy, f->why);
}

/* ---- Answers ---- */

static void answered_block(struct segfix_req *r, uint32_t i)
{
    struct segfix *f = r->f;
    const struct snic_segments_block *b = &r->block[i];
    struct segfix_block *m = &f->m.seg[r->seg].block[r->which[i]];
    unsigned char want[PAGE];
    if (b->status == SNIC_SEGMENTS_DAMAGED && f->forgiving) {
        f->read_damaged++;
        return;
    }
    if (b->status != SNIC_SEGMENTS_DONE) {
        segfix_wrong(f, "read %u/%u: status %u", r->seg, r->which[i], b->status);
        return;
    }
    int issued = b->wver == 0 ||
                 (b->wver < SEGFIX_VERSIONS && (m->issued[b->wver / 64] >> b->wver % 64 & 1) != 0);
    if (b->wver < r->low[i] || !issued) {
        segfix_wrong(f, "read %u/%u: version %" PRIu64 ", at least %" PRIu64, r->seg, r->which[i],
                     b->wver, r->low[i]);
        return;
    }
    uint32_t kind = segfix_content(want, r->seg, r->creations, r->which[i], b->wver);
    uint32_t tag = b->wver == 0 ? 0 : (uint32_t)b->wver * 77 + r->which[i];
    if (b->kind != kind || b->block_tag != tag || memcmp(want, b->data, PAGE) != 0 ||
        b->data_crc != snic_crc32c(0, want, PAGE))
        segfix_wrong(f, "read %u/%u: not what version %" PRIu64 " is", r->seg, r->which[i],
                     b->wver);
    m->acked = snic_max_u64(m->acked, b->wver); /* what was read is durable */
}

static void answered_list(struct segfix_req *r)
{
    struct segfix *f = r->f;
    struct segfix_seg *s = &f->m.seg[r->seg];
    int write = r->q.op == SNIC_SEGMENTS_WRITE;
    uint32_t refused = 0;
    if (s->creations != r->creations || !s->exists)
        return; /* deleted meanwhile */
    if (r->q.result == SNIC_ENOENT) {
        segfix_wrong(f, "segment %u is gone", r->seg);
        return;
    }
    for (uint32_t i = 0; i < r->q.count; i++) {
        const struct snic_segments_block *b = &r->block[i];
        refused += b->status >= SNIC_SEGMENTS_FENCED;
        if (!write) {
            answered_block(r, i);
        } else if (b->status != r->expect[i]) {
            segfix_wrong(f, "write %u/%u of version %" PRIu64 ": status %u, not %u", r->seg,
                         r->which[i], b->wver, b->status, r->expect[i]);
        } else if (b->status <= SNIC_SEGMENTS_SUPERSEDED) {
            struct segfix_block *m = &s->block[r->which[i]];
            m->acked = snic_max_u64(m->acked, b->wver);
        }
    }
    if (refused != r->q.refused || (refused == 0) != (r->q.result == 0))
        segfix_wrong(f, "result %d, %u refused", r->q.result, refused);
}

static void answered_control(struct segfix_req *r)
{
    struct segfix_seg *s = &r->f->m.seg[r->seg];
    s->control = 0;
    if (r->q.result != 0) {
        segfix_wrong(r->f, "control %u: %d", r->q.op, r->q.result);
        return;
    }
    s->acked_exists = s->exists;
    s->acked_gen = s->gen;
    s->acked_fence = s->fence;
}

static void on_done(struct snic_segments_req *q)
{
    struct segfix_req *r = SNIC_CONTAINER(q, struct segfix_req, q);
    struct segfix *f = r->f;
    if (!r->busy)
        segfix_wrong(f, "done twice");
    r->busy = 0;
    f->busy--;
    f->answered++;
    if (q->result == SNIC_EIO) {
        if (f->failed == 0 && !f->forgiving)
            segfix_wrong(f, "SNIC_EIO");
        return;
    }
    if (q->op <= SNIC_SEGMENTS_WRITE)
        answered_list(r);
    else
        answered_control(r);
}

/* ---- Requests ---- */

static struct segfix_req *request(struct segfix *f, uint32_t seg, uint32_t op)
{
    for (uint32_t i = 0; i < SEGFIX_REQS; i++) {
        struct segfix_req *r = &f->req[i];
        if (r->busy)
            continue;
        memset(&r->q, 0, sizeof(r->q));
        memset(r->block, 0, sizeof(r->block));
        r->f = f;
        r->seg = seg;
        r->creations = f->m.seg[seg].creations;
        r->q.done = on_done;
        r->q.seg_id = seg + 1;
        r->q.op = (uint16_t)op;
        r->q.blocks = r->block;
        r->q.gen = f->m.seg[seg].gen;
        r->q.disk = SNIC_SEGMENTS_ANY_DISK;
        return r;
    }
    return NULL;
}

static int submit(struct segfix *f, struct segfix_req *r)
{
    f->last = r;
    r->busy = 1;
    f->busy++;
    int e = snic_segments_submit(f->store, &r->q);
    if (snic_segments_check(f->store) != 0)
        segfix_wrong(f, "check after submit");
    if (e == 0)
        return 1;
    r->busy = 0;
    f->busy--;
    f->eagain++;
    if (e != SNIC_EAGAIN)
        segfix_wrong(f, "submit: %d", e);
    return 0;
}

static uint8_t expected(const struct segfix_seg *s, uint32_t which, uint64_t wver)
{
    const struct segfix_block *b = &s->block[which];
    if (wver == b->current)
        return SNIC_SEGMENTS_DUP;
    if (wver < b->current)
        return SNIC_SEGMENTS_SUPERSEDED;
    return wver < s->fence ? SNIC_SEGMENTS_FENCED : SNIC_SEGMENTS_DONE;
}

int segfix_write(struct segfix *f, uint32_t seg, const uint32_t *which, const uint64_t *wver,
                 uint32_t count)
{
    struct segfix_seg *s = &f->m.seg[seg];
    struct segfix_req *r = request(f, seg, SNIC_SEGMENTS_WRITE);
    if (r == NULL || !s->exists)
        return 0;
    r->q.count = (uint16_t)count;
    for (uint32_t i = 0; i < count; i++) {
        struct snic_segments_block *b = &r->block[i];
        unsigned char *data = r->data + f->skew + (size_t)i * PAGE;
        r->which[i] = which[i];
        b->wver = wver[i];
        b->block = (uint16_t)segfix_block_number(which[i]);
        b->kind = (uint8_t)segfix_content(data, seg, s->creations, which[i], wver[i]);
        b->data = b->kind == SNIC_SEGMENTS_DATA ? data : NULL;
        b->data_crc = b->data != NULL ? snic_crc32c(0, data, PAGE) : 0;
        b->block_tag = (uint32_t)wver[i] * 77 + which[i];
        r->expect[i] = expected(s, which[i], wver[i]);
    }
    if (!submit(f, r))
        return 0;
    memset(r->data, 0xee, (size_t)count * PAGE); /* borrowed for the call */
    for (uint32_t i = 0; i < count; i++) {
        struct segfix_block *b = &s->block[which[i]];
        if (r->expect[i] != SNIC_SEGMENTS_DONE || f->failed != 0)
            continue;
        b->current = wver[i];
        b->issued[wver[i] / 64] |= (uint64_t)1 << wver[i] % 64;
    }
    return 1;
}

int segfix_read(struct segfix *f, uint32_t seg, const uint32_t *which, uint32_t count)
{
    struct segfix_seg *s = &f->m.seg[seg];
    struct segfix_req *r = request(f, seg, SNIC_SEGMENTS_READ);
    if (r == NULL || !s->exists)
        return 0;
    r->q.count = (uint16_t)count;
    memset(r->data, 0x5a, REQ_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        r->which[i] = which[i];
        r->low[i] = s->block[which[i]].acked;
        r->block[i].block = (uint16_t)segfix_block_number(which[i]);
        r->block[i].data = r->data + f->skew + (size_t)i * PAGE;
    }
    return submit(f, r);
}

int segfix_control(struct segfix *f, uint32_t seg, uint32_t op, uint64_t value)
{
    struct segfix_seg *s = &f->m.seg[seg];
    struct segfix_req *r = request(f, seg, op);
    if (r == NULL || s->control || s->exists == (op == SNIC_SEGMENTS_CREATE))
        return 0;
    r->q.min_wver = value;
    r->q.vd_id = 7 * seg;
    r->q.base_lba = 9 * seg;
    if (op == SNIC_SEGMENTS_CREATE || op == SNIC_SEGMENTS_SET_GEN)
        r->q.gen = (uint32_t)value;
    if (!submit(f, r))
        return 0;
    if (f->failed != 0)
        return 1;
    s->control = r->busy;
    if (op == SNIC_SEGMENTS_CREATE || op == SNIC_SEGMENTS_DELETE) {
        s->exists = op == SNIC_SEGMENTS_CREATE;
        s->gen = op == SNIC_SEGMENTS_CREATE ? (uint32_t)value : 0;
        s->fence = 0;
    } else if (op == SNIC_SEGMENTS_SET_GEN) {
        s->gen = (uint32_t)value;
    } else {
        s->fence = snic_max_u64(s->fence, value);
    }
    if (op == SNIC_SEGMENTS_CREATE) { /* a new segment: nothing of the one before */
        s->creations++;
        s->acked_gen = 0;
        s->acked_fence = 0;
        memset(s->block, 0, sizeof(s->block));
    }
    return 1;
}

/* ---- Judgement ---- */

static void judge_blocks(struct segfix *f, uint32_t seg)
{
    struct segfix_seg *s = &f->m.seg[seg];
    uint32_t which[SEGFIX_BLOCKS];
    for (uint32_t i = 0; i < SEGFIX_BLOCKS; i++)
        which[i] = i;
    if (!segfix_read(f, seg, which, SEGFIX_BLOCKS)) {
        segfix_wrong(f, "segment %u cannot be read", seg);
        return;
    }
    segfix_settle(f);
    for (uint32_t i = 0; i < SEGFIX_BLOCKS; i++)
        if (f->last->block[i].status == SNIC_SEGMENTS_DONE)
            s->block[i].current = f->last->block[i].wver;
}

void segfix_judge(struct segfix *f)
{
    for (uint32_t i = 0; i < SEGFIX_SEGS; i++) {
        struct segfix_seg *s = &f->m.seg[i];
        struct snic_segments_stat st;
        int there = snic_segments_find(f->store, i + 1, &st) == 0;
        uint32_t gen = s->gen > s->acked_gen ? s->gen : s->acked_gen;
        if (s->exists == s->acked_exists && there != (int)s->exists) {
            segfix_wrong(f, "segment %u: %s", i, there ? "is back" : "is lost");
            return;
        }
        int revived = there && !s->exists; /* its deletion was not answered */
        s->exists = s->acked_exists = (uint32_t)there;
        s->control = 0;
        if (there) {
            if (!revived && (st.gen < s->acked_gen || st.gen > gen || st.vd_id != 7 * i ||
                             st.min_wver < s->acked_fence || st.min_wver > s->fence))
                segfix_wrong(f, "segment %u: generation %u, fence %" PRIu64, i, st.gen,
                             st.min_wver);
            s->gen = s->acked_gen = st.gen;
            s->fence = s->acked_fence = st.min_wver;
            judge_blocks(f, i);
        } else {
            s->gen = s->acked_gen = 0;
            s->fence = s->acked_fence = 0;
        }
    }
    segfix_settle(f);
}

/* ---- Random clients ---- */

static uint32_t draw(const struct segfix *f, struct snic_rng *rng, uint32_t seg, uint32_t *which,
                     uint64_t *wver, uint32_t most)
{
    uint32_t from = (uint32_t)snic_rng_below(rng, SEGFIX_BLOCKS);
    uint32_t n = 1 + (uint32_t)snic_rng_below(rng, most);
    if (n > SEGFIX_BLOCKS - from)
        n = SEGFIX_BLOCKS - from;
    for (uint32_t i = 0; i < n; i++) {
        const struct segfix_block *b = &f->m.seg[seg].block[from + i];
        which[i] = from + i;
        uint64_t v = b->current + 1 + snic_rng_below(rng, 3);
        if (snic_rng_below(rng, 6) == 0) /* late, or twice */
            v = 1 + snic_rng_below(rng, b->current + 1);
        wver[i] = snic_min_u64(v, SEGFIX_VERSIONS - 1);
    }
    return n;
}

static void step_control(struct segfix *f, struct snic_rng *rng, uint32_t seg)
{
    const struct segfix_seg *s = &f->m.seg[seg];
    uint64_t highest = 0;
    for (uint32_t i = 0; i < SEGFIX_BLOCKS; i++)
        highest = snic_max_u64(highest, s->block[i].current);
    if (!s->exists) {
        struct snic_segments_info info;
        snic_segments_inspect(f->store, &info);
        if (info.segments < info.places)
            (void)segfix_control(f, seg, SNIC_SEGMENTS_CREATE, snic_rng_below(rng, 3));
        return;
    }
    switch (snic_rng_below(rng, 8)) {
    case 0:
        (void)segfix_control(f, seg, SNIC_SEGMENTS_DELETE, 0);
        break;
    case 1:
    case 2:
    case 3:
        (void)segfix_control(f, seg, SNIC_SEGMENTS_SET_GEN, s->gen + snic_rng_below(rng, 2));
        break;
    default:
        if (highest + 2 < SEGFIX_VERSIONS)
            (void)segfix_control(f, seg, SNIC_SEGMENTS_FENCE, snic_rng_below(rng, highest + 2));
        break;
    }
}

void segfix_step(struct segfix *f, struct snic_rng *rng)
{
    static const uint64_t waits[] = {0, 1000, 10000, 60000, 300000};
    uint32_t which[SNIC_SEGMENTS_LIST_MAX];
    uint64_t wver[SNIC_SEGMENTS_LIST_MAX];
    struct snic_segments_info info;
    uint32_t seg = (uint32_t)snic_rng_below(rng, SEGFIX_SEGS);
    snic_segments_inspect(f->store, &info);
    switch (snic_rng_below(rng, 12)) {
    case 0:
        step_control(f, rng, seg);
        break;
    case 1:
    case 2:
        segfix_run(f, waits[snic_rng_below(rng, SNIC_COUNTOF(waits))]);
        break;
    case 3:
    case 4:
    case 5:
        (void)segfix_read(f, seg, which, draw(f, rng, seg, which, wver, 12));
        break;
    case 6:
        if (snic_rng_below(rng, 20) == 0)
            snic_segments_checkpoint(f->store);
        break;
    default: {
        uint32_t n = draw(f, rng, seg, which, wver, info.list_max);
        if (!segfix_write(f, seg, which, wver, n))
            segfix_run(f, 50000);
        break;
    }
    }
}
