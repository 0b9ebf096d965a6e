/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The io door's conformance suite; see conformance_io.h. */
#include "conformance_io_util.h"

#include <stdio.h>

/* ---- Set-up ---- */

void conformance_io_close(struct conformance_io *c)
{
    snic_io_close(c->io);
    snic_loop_close(c->loop);
    snic_world_close(c->world);
    snic_disk_close(c->disk);
}

void conformance_io_open_mem_sim(struct conformance_io *c, const struct conformance_io_backend *b,
                                 uint32_t depth)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {.opts_size = sizeof(d),
                               .size = CONFORMANCE_IO_BYTES,
                               .seed = support_seed(),
                               .delay_min_ns = b->delay_ns / 2,
                               .delay_max_ns = b->delay_ns,
                               .depth = depth,
                               .align = b->align,
                               .caps = b->caps};
    assert_int_equal(snic_world_open(&c->world, &w), 0);
    assert_int_equal(snic_world_loop(c->world, 1, &c->loop), 0);
    assert_int_equal(snic_disk_open(&c->disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&c->io, c->loop, c->disk), 0);
}

/* ---- Reading what was written ---- */

/* The one thing a disk is for. */
static void check_written_read_returns_it(void **state)
{
    struct conformance_io c;
    struct request r;
    (void)open_backend(&c, state, 16);
    uint64_t u = unit_of(c.io);
    unsigned char *a = buffer(8 * u), *b = buffer(8 * u);
    pattern(a, 8 * u, support_seed());
    request_init(&r, c.io, SNIC_IO_READ, 0, b, 8 * u);
    assert_int_equal(request_run(&r), 8 * u);
    for (uint64_t i = 0; i < 8 * u; i++)
        assert_int_equal(b[i], 0); /* a new disk reads as zeros */
    request_init(&r, c.io, SNIC_IO_WRITE, 2 * u, a, 8 * u);
    r.req.tenant = 7;
    r.req.priority = 3;
    assert_int_equal(request_run(&r), 8 * u);
    assert_int_equal(r.req.os_error, 0);
    assert_true(r.req.queued_ns != 0 && r.req.queued_ns <= r.req.device_ns);
    assert_true(r.req.device_ns <= r.req.done_ns);
    assert_int_equal(r.req.tenant, 7); /* what is the caller's stays as it was */
    assert_int_equal(r.req.priority, 3);
    assert_int_equal(r.req.offset, 2 * u);
    assert_int_equal(r.req.length, 8 * u);
    assert_ptr_equal(r.req.buf.base, a);
    request_init(&r, c.io, SNIC_IO_READ, 2 * u, b, 8 * u);
    assert_int_equal(request_run(&r), 8 * u);
    assert_memory_equal(a, b, 8 * u);
    request_init(&r, c.io, SNIC_IO_WRITE, CONFORMANCE_IO_BYTES - u, a, u); /* up to the last byte */
    assert_int_equal(request_run(&r), u);
    request_init(&r, c.io, SNIC_IO_READ, CONFORMANCE_IO_BYTES - 2 * u, b, 2 * u);
    assert_int_equal(request_run(&r), 2 * u);
    assert_memory_equal(a, b + u, u);
    conformance_io_close(&c);
    free(a);
    free(b);
}

/* Gather and scatter lists must put each byte where it belongs. */
static void check_iov_lists_all_pieces_in_order(void **state)
{
    struct conformance_io c;
    struct request r;
    struct snic_iov iov[SNIC_IO_IOV_MAX + 1];
    (void)open_backend(&c, state, 16);
    uint64_t u = unit_of(c.io);
    unsigned char *a = buffer(2 * SNIC_IO_IOV_MAX * u), *b = buffer(SNIC_IO_IOV_MAX * u);
    static const uint32_t counts[] = {1, 2, 3, 17, SNIC_IO_IOV_MAX};
    for (size_t n = 0; n < SNIC_COUNTOF(counts); n++) {
        uint32_t count = counts[n];
        pattern(a, 2 * SNIC_IO_IOV_MAX * u, support_seed() + n);
        for (uint32_t i = 0; i < count; i++) /* every second unit, backwards */
            iov[i] = (struct snic_iov){.base = a + 2 * (count - 1 - i) * u, .size = u};
        request_init(&r, c.io, SNIC_IO_WRITE, u, NULL, count * u);
        r.req.iov = iov;
        r.req.iov_count = count;
        assert_int_equal(request_run(&r), count * u);
        request_init(&r, c.io, SNIC_IO_READ, u, b, count * u);
        assert_int_equal(request_run(&r), count * u);
        for (uint32_t i = 0; i < count; i++)
            assert_memory_equal(b + i * u, a + 2 * (count - 1 - i) * u, u);
        memset(a, 0, 2 * SNIC_IO_IOV_MAX * u);
        request_init(&r, c.io, SNIC_IO_READ, u, NULL, count * u);
        r.req.iov = iov;
        r.req.iov_count = count;
        assert_int_equal(request_run(&r), count * u);
        for (uint32_t i = 0; i < count; i++)
            assert_memory_equal(b + i * u, a + 2 * (count - 1 - i) * u, u);
    }
    conformance_io_close(&c);
    free(a);
    free(b);
}

/* Registered memory must move the same bytes, in one piece and in several. */
static void check_registered_memory_moves_same_bytes(void **state)
{
    struct conformance_io c;
    struct request r;
    struct snic_iov iov[2];
    (void)open_backend(&c, state, 16);
    uint64_t u = unit_of(c.io);
    unsigned char *a = buffer(16 * u);
    if ((c.io->caps & SNIC_IO_CAP_REGISTERED) == 0) {
        request_init(&r, c.io, SNIC_IO_WRITE, 0, a, u);
        r.req.region = 0;
        assert_int_equal(request_run(&r), SNIC_ENOTSUP);
        conformance_io_close(&c);
        free(a);
        return;
    }
    unsigned char *other = buffer(16 * u); /* so that ours is not the first */
    int first = snic_loop_region_add(c.loop, other, 16 * u);
    int region = snic_loop_region_add(c.loop, a, 16 * u);
    if (region == SNIC_ENOMEM) {
        conformance_io_close(&c);
        free(a);
        free(other);
        support_skip("memlock limit too small");
    }
    assert_true(region >= 0 && first >= 0 && first != region);
    pattern(a, 8 * u, support_seed());
    request_init(&r, c.io, SNIC_IO_WRITE, 0, a, 8 * u);
    r.req.region = region;
    assert_int_equal(request_run(&r), 8 * u);
    request_init(&r, c.io, SNIC_IO_READ, 0, a + 8 * u, 8 * u);
    r.req.region = region;
    assert_int_equal(request_run(&r), 8 * u);
    assert_memory_equal(a, a + 8 * u, 8 * u);
    iov[0] = (struct snic_iov){.base = a + 4 * u, .size = u};
    iov[1] = (struct snic_iov){.base = a, .size = u};
    request_init(&r, c.io, SNIC_IO_WRITE, 0, NULL, 2 * u);
    r.req.region = region;
    r.req.iov = iov;
    r.req.iov_count = 2;
    assert_int_equal(request_run(&r), 2 * u);
    iov[0].base = a + 8 * u;
    r.req.iov_count = 1;
    r.req.length = u;
    r.req.op = SNIC_IO_READ;
    r.done = 0;
    assert_int_equal(request_run(&r), u);
    assert_memory_equal(a + 8 * u, a + 4 * u, u);
    request_init(&r, c.io, SNIC_IO_READ, 0, a, u);
    r.req.region = first; /* not this one */
    assert_int_equal(request_run(&r), SNIC_EFAULT);
    request_init(&r, c.io, SNIC_IO_READ, 0, a, u);
    r.req.region = region + 1; /* no such region */
    assert_int_equal(request_run(&r), SNIC_EFAULT);
    request_init(&r, c.io, SNIC_IO_READ, 0, a + 15 * u, 2 * u); /* sticks out */
    r.req.region = region;
    assert_int_equal(request_run(&r), SNIC_EFAULT);
    snic_loop_region_remove(c.loop, region);
    request_init(&r, c.io, SNIC_IO_READ, 0, a, u); /* gone */
    r.req.region = region;
    assert_int_equal(request_run(&r), SNIC_EFAULT);
    snic_loop_region_remove(c.loop, first);
    conformance_io_close(&c);
    free(a);
    free(other);
}

/* ---- Flow ---- */

/* Full means full, and room comes with each completion: users are written against that. */
static void check_depth_full_takes_none_until_one_completes(void **state)
{
    enum { DEPTH = 4 };
    struct conformance_io c;
    struct request r[DEPTH + 3];
    struct snic_io_req *list[DEPTH + 3];
    (void)open_backend(&c, state, DEPTH);
    uint64_t u = unit_of(c.io);
    unsigned char *mem = buffer((DEPTH + 3) * u);
    for (uint32_t i = 0; i < DEPTH + 3; i++) {
        request_init(&r[i], c.io, i % 2 ? SNIC_IO_READ : SNIC_IO_WRITE, i * u, mem + i * u, u);
        list[i] = &r[i].req;
    }
    r[1].req.length = 0; /* an invalid one takes a place, too */
    assert_int_equal(snic_io_submit(c.io, list, 0), 0);
    assert_int_equal(snic_io_submit(c.io, list, DEPTH + 3), DEPTH);
    assert_int_equal(snic_io_submit(c.io, list + DEPTH, 3), 0);
    for (uint32_t i = 0; i < DEPTH + 3; i++)
        assert_int_equal(r[i].done, 0);
    uint32_t done = 0;
    while (done == 0) {
        assert_true(snic_loop_once(c.loop, SNIC_NEVER) >= 0);
        for (uint32_t i = 0; i < DEPTH; i++)
            done += r[i].done != 0;
    }
    assert_int_equal(snic_io_submit(c.io, list + DEPTH, 3), snic_min_u64(done, 3));
    for (uint32_t i = 0; i < DEPTH + snic_min_u64(done, 3); i++)
        request_wait(&r[i]);
    assert_int_equal(c.io->stats.queue_high, DEPTH);
    assert_int_equal(r[1].req.result, SNIC_EINVAL);
    assert_int_equal(r[0].req.result, u);
    conformance_io_close(&c);
    free(mem);
}

/* Submitting the next from inside done is how every service keeps its queue full. */
static void check_submit_inside_done_accepted(void **state)
{
    enum { COUNT = 50 };
    struct conformance_io c;
    struct request r[COUNT];
    (void)open_backend(&c, state, 1); /* the slot must be free by then */
    uint64_t u = unit_of(c.io);
    unsigned char *mem = buffer(u);
    for (int i = 0; i < COUNT; i++) {
        request_init(&r[i], c.io, i % 3 == 2 ? SNIC_IO_FLUSH : SNIC_IO_WRITE, 0, mem, u);
        r[i].req.length = i % 3 == 1 ? 0 : u; /* some are refused */
        r[i].chain = i + 1 < COUNT ? &r[i + 1] : NULL;
    }
    assert_int_equal(request_submit(&r[0]), 1);
    for (int i = 0; i < COUNT; i++)
        request_wait(&r[i]);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(r[i].req.result, i % 3 == 2 ? 0 : i % 3 == 1 ? SNIC_EINVAL : (int64_t)u);
    conformance_io_close(&c);
    free(mem);
}

static int late_result;

static void late_done(struct snic_io_req *req)
{
    struct request *r = SNIC_CONTAINER(req, struct request, req);
    struct snic_io_req *next = &r->chain->req;
    late_result = snic_io_submit(r->io, &next, 1);
    r->done++;
}

/* A closing handle that took new requests would never be done closing. */
static void check_submit_while_closing_refused(void **state)
{
    struct conformance_io c;
    struct request r, late;
    (void)open_backend(&c, state, 8);
    uint64_t u = unit_of(c.io);
    unsigned char *mem = buffer(u);
    request_init(&r, c.io, SNIC_IO_WRITE, 0, mem, u);
    request_init(&late, c.io, SNIC_IO_WRITE, 0, mem, u);
    r.req.done = late_done;
    r.chain = &late;
    late_result = 1;
    assert_int_equal(request_submit(&r), 1);
    snic_io_close(c.io);
    c.io = NULL;
    assert_int_equal(r.done, 1);
    assert_int_equal(r.req.result, u);
    assert_int_equal(late_result, SNIC_ECANCELED);
    assert_int_equal(late.done, 0);
    conformance_io_close(&c);
    free(mem);
}

/* A request lost or completed twice at close is a use after free in some service. */
static void check_closed_in_flight_each_completes_once(void **state)
{
    enum { COUNT = 64 };
    struct conformance_io c;
    (void)open_backend(&c, state, COUNT);
    struct request *r = calloc(COUNT, sizeof(*r));
    uint64_t u = unit_of(c.io);
    unsigned char *mem = buffer(COUNT * u);
    for (uint32_t i = 0; i < COUNT; i++) {
        request_init(&r[i], c.io,
                     i % 8 == 7 ? SNIC_IO_FLUSH
                     : i % 2    ? SNIC_IO_READ
                                : SNIC_IO_WRITE,
                     i * u, mem + i * u, u);
        if (i % 10 == 9)
            r[i].req.op = 99;
        assert_int_equal(request_submit(&r[i]), 1);
    }
    snic_io_close(c.io);
    c.io = NULL;
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(r[i].done, 1);
        assert_int_equal(r[i].in_submit, 0);
        int64_t expect = i % 10 == 9 ? SNIC_EINVAL : i % 8 == 7 ? 0 : (int64_t)u;
        assert_int_equal(r[i].req.result, expect);
    }
    assert_true(snic_loop_once(c.loop, 0) >= 0); /* nothing is left that could complete */
    conformance_io_close(&c);
    free(r);
    free(mem);
}

/* Cancel may come at any moment; each request still completes once, with a true result. */
static void check_cancelled_each_completes_once(void **state)
{
    enum { COUNT = 48 };
    struct conformance_io c;
    struct request r[COUNT];
    struct snic_rng rng;
    (void)open_backend(&c, state, COUNT);
    uint64_t u = unit_of(c.io);
    unsigned char *mem = buffer(COUNT * u), *seen = buffer(u);
    snic_rng_init(&rng, support_seed());
    for (int round = 0; round < 10; round++) {
        pattern(mem, COUNT * u, support_seed() + (uint64_t)round);
        for (uint32_t i = 0; i < COUNT; i++) {
            request_init(&r[i], c.io, SNIC_IO_WRITE, i * u, mem + i * u, u);
            if (i % 16 == 15)
                r[i].req.length = 0; /* refused: cancel finds it waiting for that */
            assert_int_equal(request_submit(&r[i]), 1);
            if (snic_rng_below(&rng, 3) == 0)
                (void)snic_loop_once(c.loop, 0);
            snic_io_cancel(c.io, &r[snic_rng_below(&rng, i + 1)].req);
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            request_wait(&r[i]);
            snic_io_cancel(c.io, &r[i].req); /* too late: harmless */
            if (i % 16 == 15) {
                assert_int_equal(r[i].req.result, SNIC_EINVAL);
                continue;
            }
            assert_true(r[i].req.result == (int64_t)u || r[i].req.result == SNIC_ECANCELED);
            struct request look;
            int64_t result = r[i].req.result;
            request_init(&look, c.io, SNIC_IO_READ, i * u, seen, u);
            assert_int_equal(request_run(&look), u);
            if (result > 0)
                assert_memory_equal(seen, mem + i * u, u);
        }
    }
    request_init(&r[0], c.io, SNIC_IO_WRITE, 0, mem, u);
    assert_int_equal(request_run(&r[0]), u);
    request_init(&r[1], c.io, SNIC_IO_READ, 0, seen, u); /* takes the place of the first */
    assert_int_equal(request_submit(&r[1]), 1);
    snic_io_cancel(c.io, &r[0].req);
    request_wait(&r[1]);
    assert_int_equal(r[1].req.result, u);
    conformance_io_close(&c);
    free(mem);
    free(seen);
}

/* ---- Flush, zero, discard, counters ---- */

/* Operators read these numbers; each completion counts once, bytes as transferred. */
static void check_counters_add_up(void **state)
{
    struct conformance_io c;
    struct request r;
    (void)open_backend(&c, state, 8);
    uint64_t u = unit_of(c.io);
    unsigned char *mem = buffer(4 * u);
    request_init(&r, c.io, SNIC_IO_WRITE, 0, mem, 4 * u);
    assert_int_equal(request_run(&r), 4 * u);
    request_init(&r, c.io, SNIC_IO_READ, 0, mem, 3 * u);
    assert_int_equal(request_run(&r), 3 * u);
    request_init(&r, c.io, SNIC_IO_FLUSH, 0, NULL, 0);
    assert_int_equal(request_run(&r), 0);
    request_init(&r, c.io, SNIC_IO_FLUSH, u, NULL, u); /* a range */
    assert_int_equal(request_run(&r), 0);
    request_init(&r, c.io, SNIC_IO_READ, CONFORMANCE_IO_BYTES, mem, u);
    assert_int_equal(request_run(&r), SNIC_ERANGE);
    const struct snic_io_stats *s = &c.io->stats;
    assert_int_equal(s->submitted, 5);
    assert_int_equal(s->completed, 5);
    assert_int_equal(s->errors, 1);
    assert_int_equal(s->write_bytes, 4 * u);
    assert_int_equal(s->read_bytes, 3 * u);
    assert_int_equal(s->flushes, 2);
    assert_int_equal(s->queue_high, 1);
    conformance_io_close(&c);
    free(mem);
}

/* Random work over all of it, against a plain array. */
enum { AREAS = 6, AREA_UNITS = 32 };

struct model {
    unsigned char *bytes;   /* what each byte must be            */
    unsigned char *unknown; /* 1: discarded, anything goes       */
};

static void model_apply(struct model *m, const struct request *r, const unsigned char *mem)
{
    uint64_t at = r->req.offset, n = r->req.length;
    switch (r->req.op) {
    case SNIC_IO_WRITE:
        assert_int_equal(r->req.result, n);
        memcpy(m->bytes + at, mem, n);
        memset(m->unknown + at, 0, n);
        break;
    case SNIC_IO_READ:
        assert_int_equal(r->req.result, n);
        for (uint64_t i = 0; i < n; i++)
            assert_true(m->unknown[at + i] || m->bytes[at + i] == mem[i]);
        break;
    case SNIC_IO_ZERO:
        assert_int_equal(r->req.result, n);
        memset(m->bytes + at, 0, n);
        memset(m->unknown + at, 0, n);
        break;
    case SNIC_IO_DISCARD:
        assert_int_equal(r->req.result, n);
        memset(m->unknown + at, 1, n);
        break;
    default:
        assert_int_equal(r->req.result, 0);
        break;
    }
}

static void model_choose(struct request *r, struct snic_io *io, struct snic_rng *rng, uint64_t area,
                         unsigned char *mem, struct snic_iov *iov, int region)
{
    uint64_t u = unit_of(io);
    uint64_t n = 1 + snic_rng_below(rng, 8);
    uint64_t at = area * AREA_UNITS + snic_rng_below(rng, AREA_UNITS - n + 1);
    enum snic_io_op op = snic_rng_below(rng, 2) ? SNIC_IO_READ : SNIC_IO_WRITE;
    uint64_t draw = snic_rng_below(rng, 16);
    if (draw == 0)
        op = SNIC_IO_FLUSH;
    else if (draw == 1 && (io->caps & SNIC_IO_CAP_ZERO) != 0)
        op = SNIC_IO_ZERO;
    else if (draw == 2 && (io->caps & SNIC_IO_CAP_DISCARD) != 0)
        op = SNIC_IO_DISCARD;
    request_init(r, io, op, at * u, mem, n * u);
    if (op == SNIC_IO_WRITE) {
        pattern(mem, n * u, snic_rng_next(rng));
        if ((io->caps & SNIC_IO_CAP_FUA) != 0 && snic_rng_below(rng, 4) == 0)
            r->req.flags = SNIC_IO_FUA;
    }
    if (op <= SNIC_IO_WRITE && region >= 0 && snic_rng_below(rng, 2))
        r->req.region = region;
    if (op <= SNIC_IO_WRITE && snic_rng_below(rng, 3) == 0) {
        uint32_t pieces = 0;
        for (uint64_t i = 0; i < n;) {
            uint64_t k = 1 + snic_rng_below(rng, n - i);
            iov[pieces++] = (struct snic_iov){.base = mem + i * u, .size = k * u};
            i += k;
        }
        r->req.iov = iov;
        r->req.iov_count = pieces;
    }
}

/* Ordering, offsets, pieces or regions gone wrong anywhere show up here. */
static void check_random_work_matches_model(void **state)
{
    struct conformance_io c;
    struct request r[AREAS];
    struct snic_iov iov[AREAS][8];
    struct snic_rng rng;
    (void)open_backend(&c, state, AREAS);
    uint64_t u = unit_of(c.io), stride = 8 * u;
    assert_true(AREAS * AREA_UNITS * u <= CONFORMANCE_IO_BYTES);
    unsigned char *mem = buffer(AREAS * stride);
    struct model m = {calloc(1, CONFORMANCE_IO_BYTES), calloc(1, CONFORMANCE_IO_BYTES)};
    int region = (c.io->caps & SNIC_IO_CAP_REGISTERED) != 0
                     ? snic_loop_region_add(c.loop, mem, AREAS * stride)
                     : -1;
    uint64_t left = support_scale(600, 20000);
    snic_rng_init(&rng, support_seed());
    memset(r, 0, sizeof(r));
    for (uint32_t busy = 0; left > 0 || busy > 0;) {
        busy = 0;
        for (uint32_t i = 0; i < AREAS; i++) {
            if (r[i].done != 0) {
                assert_int_equal(r[i].in_submit, 0);
                model_apply(&m, &r[i], mem + i * stride);
                r[i].io = NULL;
                r[i].done = 0;
            }
            if (r[i].io == NULL && left > 0) {
                left--;
                model_choose(&r[i], c.io, &rng, i, mem + i * stride, iov[i], region);
                assert_int_equal(request_submit(&r[i]), 1);
            }
            busy += r[i].io != NULL;
        }
        if (busy > 0)
            assert_true(snic_loop_once(c.loop, SNIC_NEVER) >= 0);
    }
    snic_loop_region_remove(c.loop, region < 0 ? SNIC_NO_REGION : region);
    conformance_io_close(&c);
    free(mem);
    free(m.bytes);
    free(m.unknown);
}

/* ---- The list ---- */

static const struct {
    const char *name;
    CMUnitTestFunction run;
} checks[] = {
    {"written_read_returns_it", check_written_read_returns_it},
    {"iov_lists_all_pieces_in_order", check_iov_lists_all_pieces_in_order},
    {"registered_memory_moves_same_bytes", check_registered_memory_moves_same_bytes},
    {"invalid_requests_complete_refused", conformance_io_refusals},
    {"depth_full_takes_none_until_one_completes", check_depth_full_takes_none_until_one_completes},
    {"submit_inside_done_accepted", check_submit_inside_done_accepted},
    {"submit_while_closing_refused", check_submit_while_closing_refused},
    {"closed_in_flight_each_completes_once", check_closed_in_flight_each_completes_once},
    {"cancelled_each_completes_once", check_cancelled_each_completes_once},
    {"room_full_reported_once", conformance_io_room_full_reported_once},
    {"room_there_reported_all_the_same", conformance_io_room_there_reported_all_the_same},
    {"room_greedy_starves_none", conformance_io_room_greedy_starves_none},
    {"room_users_take_turns", conformance_io_room_users_take_turns},
    {"room_left_passes_on", conformance_io_room_left_passes_on},
    {"room_closed_reported", conformance_io_room_closed_reported},
    {"counters_add_up", check_counters_add_up},
    {"random_work_matches_model", check_random_work_matches_model},
};

size_t conformance_io_tests(struct CMUnitTest *out, size_t max,
                            const struct conformance_io_backend *backends, size_t count)
{
    static char names[512][96];
    size_t n = 0;
    for (size_t b = 0; b < count; b++) {
        for (size_t i = 0; i < SNIC_COUNTOF(checks); i++) {
            if (n == max || n == SNIC_COUNTOF(names))
                abort(); /* none is left out silently */
            (void)snprintf(names[n], sizeof(names[n]), "test_io_%s_%s", backends[b].name,
                           checks[i].name);
            out[n] = (struct CMUnitTest){.name = names[n],
                                         .test_func = checks[i].run,
                                         .initial_state = (void *)(uintptr_t)&backends[b]};
            n++;
        }
    }
    return n;
}
