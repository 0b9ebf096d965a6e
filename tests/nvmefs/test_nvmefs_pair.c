/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nvme-fs: both halves over steps carried out in any order; the number of DMA operations; small
   queues exhaustively; long runs of chance; aborts, resets, starvation. */
#include "test_nvmefs_util.h"

static const struct snic_nvmefs_dpu_opts basic = {.opts_size = sizeof(basic),
                                                  .flags = SNIC_NVMEFS_DPU_ORDERED,
                                                  .queues_max = DUO_QUEUES,
                                                  .depth_max = 16,
                                                  .chunks = 32,
                                                  .steps = 32};

static void serve_all(struct duo *x)
{
    struct snic_nvmefs_cmd *c;
    duo_settle(x);
    while ((c = snic_nvmefs_dpu_poll_request(x->d)) != NULL) {
        duo_serve(x, c);
        duo_settle(x);
    }
}

/** Run @p r on queue @p q to its end. */
static void run(struct duo *x, uint16_t q, struct snic_nvmefs_req *r)
{
    assert_int_equal(snic_nvmefs_host_submit(x->h[q], r), 0);
    duo_kick(x, q);
    serve_all(x);
    assert_ptr_equal(snic_nvmefs_host_reap(x->h[q]), r);
    assert_null(snic_nvmefs_host_reap(x->h[q]));
    duo_check(x);
}

static void start_with(struct duo *x, const struct snic_nvmefs_dpu_opts *o, uint32_t depth,
                       uint32_t data_bytes)
{
    duo_open(x, o);
    duo_queue(x, 0, depth, data_bytes);
    duo_create(x, 0);
    duo_settle(x);
    assert_int_equal(x->created, 1);
    assert_int_equal(x->created_error, 0);
    x->ops = 0;
}

static void start(struct duo *x, uint32_t depth, uint32_t data_bytes)
{
    start_with(x, &basic, depth, data_bytes);
}

/* ---- The paper's figure 4 ---- */

/* What would break: the point of nvme-fs. Four operations for 8 KiB, wherever in the queue. */
static void test_nvmefs_8k_write_and_read_take_four_operations(void **state)
{
    struct duo x;
    unsigned char *data;
    (void)state;
    start(&x, 8, 0);
    uint64_t key = duo_region_add(&x, 65536, 9);
    data = x.regions[key - 100].base;
    for (int round = 0; round < 40; round++) {
        uint64_t at = (uint64_t)(round % 8) * 8192;
        struct snic_nvmefs_extent e = {SNIC_NVMEFS_ADDRESS(9, at), 8192, 0};
        struct snic_nvmefs_req w = {.op.kind = SNIC_FSOP_WRITE,
                                    .op.ino = 5,
                                    .op.offset = at,
                                    .extents = &e,
                                    .extent_count = 1};
        for (uint32_t i = 0; i < 8192; i++)
            data[at + i] = (unsigned char)((at + i) * 7 + 5);
        x.ops = 0;
        run(&x, 0, &w);
        assert_int_equal(w.op.result, 8192);
        assert_int_equal(x.ops, 4);
        struct snic_nvmefs_req r = w;
        r.op.kind = SNIC_FSOP_READ;
        memset(data + at, 0, 8192);
        x.ops = 0;
        run(&x, 0, &r);
        assert_int_equal(r.op.result, 8192);
        assert_int_equal(r.data_size, 8192);
        assert_int_equal(x.ops, 4);
        for (uint32_t i = 0; i < 8192; i++)
            assert_int_equal(data[at + i], (unsigned char)((at + i) * 7 + 5));
    }
    struct snic_nvmefs_req a = {.op.kind = SNIC_FSOP_GETATTR, .op.ino = 4};
    x.ops = 0;
    run(&x, 0, &a);
    assert_int_equal(a.op.result, 0);
    assert_int_equal(a.op.attr.size, 12);
    assert_int_equal(x.ops, 4); /* entry, header, answer, completion */
    duo_close(&x);
}

/* Sizes, alignments and scattered pieces: PRP where it can express them, else SGL. */
static void test_nvmefs_data_of_every_shape_arrives(void **state)
{
    struct duo x;
    unsigned char *data;
    (void)state;
    start(&x, 4, 0);
    uint64_t key = duo_region_add(&x, 2 << 20, 9);
    data = x.regions[key - 100].base;
    for (int round = 0; round < 400; round++) {
        struct snic_nvmefs_extent e[64];
        uint32_t n = 1 + (uint32_t)snic_rng_below(&x.rng, round % 2 ? 3 : 40);
        uint32_t sum = 0;
        uint64_t at = 0;
        int pages = round % 4 < 2;
        for (uint32_t i = 0; i < n; i++) {
            at += pages ? 4096 * snic_rng_below(&x.rng, 3) : snic_rng_below(&x.rng, 9000);
            uint32_t size = pages ? 4096 * (1 + (uint32_t)snic_rng_below(&x.rng, 4))
                                  : 1 + (uint32_t)snic_rng_below(&x.rng, 9000);
            e[i] = (struct snic_nvmefs_extent){SNIC_NVMEFS_ADDRESS(9, at), size, 0};
            at += size;
            sum += size;
        }
        if (sum > SNIC_NVMEFS_DATA_MAX)
            continue;
        struct snic_nvmefs_req r = {.op.kind = SNIC_FSOP_READ,
                                    .op.ino = (uint64_t)round,
                                    .op.offset = 77,
                                    .extents = e,
                                    .extent_count = n};
        memset(data, 0, 2 << 20);
        x.reorder = round % 3 == 0;
        run(&x, 0, &r);
        assert_int_equal(r.op.result, sum);
        uint64_t byte = 77;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < e[i].size; k++, byte++)
                assert_int_equal(data[(e[i].address & 0xffffffffffff) + k],
                                 (unsigned char)(byte * 7 + (uint64_t)round));
        struct snic_nvmefs_req w = r;
        w.op.kind = SNIC_FSOP_WRITE;
        run(&x, 0, &w);
        assert_int_equal(w.op.result, sum); /* the server compares every byte */
    }
    struct snic_nvmefs_host_stats s;
    snic_nvmefs_host_get_stats(x.h[0], &s);
    assert_true(s.sgl > 100 && s.sgl < s.submitted - 100);
    duo_close(&x);
}

/*
 * 1 MiB in 256 pages is the most, and of pieces that are no pages as many as a command's page holds
 * beside its header; a byte or a piece more is refused and takes no entry.
 */
static void test_nvmefs_largest_data_arrives_more_refused(void **state)
{
    struct duo x;
    struct snic_nvmefs_extent e[257];
    (void)state;
    start(&x, 4, 0);
    (void)duo_region_add(&x, 4 << 20, 9);
    for (uint32_t i = 0; i < 257; i++)
        e[i] = (struct snic_nvmefs_extent){SNIC_NVMEFS_ADDRESS(9, i * UINT64_C(8192)), 4096, 0};
    struct snic_nvmefs_req r = {
        .op.kind = SNIC_FSOP_READ, .op.ino = 1, .op.offset = 77, .extents = e, .extent_count = 256};
    run(&x, 0, &r);
    assert_int_equal(r.op.result, SNIC_NVMEFS_DATA_MAX);
    e[255].size = 4097;
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EMSGSIZE);
    e[255].size = UINT32_MAX;
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EMSGSIZE);
    for (uint32_t i = 0; i < 257; i++)
        e[i].size = 64;
    for (r.extent_count = 257; r.extent_count > 240; r.extent_count--)
        assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EMSGSIZE);
    assert_int_equal(snic_nvmefs_host_outstanding(x.h[0]), 0);
    r.extent_count = 230;
    run(&x, 0, &r);
    assert_int_equal(r.op.result, 230 * 64);
    duo_close(&x);
}

static void test_nvmefs_copy_goes_through_the_queues_memory(void **state)
{
    struct duo x;
    static unsigned char mine[20000];
    (void)state;
    start(&x, 4, 20480);
    struct snic_nvmefs_req r = {.op.kind = SNIC_FSOP_READ,
                                .op.ino = 3,
                                .op.iov = &(struct snic_iov){mine, sizeof(mine)},
                                .op.iov_count = 1};
    run(&x, 0, &r);
    assert_int_equal(r.data_size, 20000);
    assert_int_equal(mine[19999], (unsigned char)(19999 * 7 + 3));
    r.op.kind = SNIC_FSOP_WRITE;
    run(&x, 0, &r);
    assert_int_equal(r.op.result, 20000);
    struct snic_nvmefs_extent e = {0, 4096, 0};
    r.op.iov->size = 20481;
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EMSGSIZE);
    r.op.iov->size = 5;
    r.extents = &e;
    r.extent_count = 1;
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EINVAL);
    r = (struct snic_nvmefs_req){
        .op.kind = SNIC_FSOP_GETATTR, .op.iov = &(struct snic_iov){mine, 5}, .op.iov_count = 1};
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EINVAL);
    r = (struct snic_nvmefs_req){.op.kind = SNIC_FSOP_WIRE_KINDS};
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EINVAL);
    r = (struct snic_nvmefs_req){.op.kind = SNIC_FSOP_GETATTR, .distributed = 2};
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EINVAL);
    assert_int_equal(snic_nvmefs_host_outstanding(x.h[0]), 0);
    duo_check(&x);
    duo_close(&x);
}

/* Private memory in several pieces, one of them empty: each byte is where its piece has it. */
static void test_nvmefs_copy_of_pieces_is_joined(void **state)
{
    struct duo x;
    static unsigned char mine[3 * 5000];
    struct snic_iov iov[4] = {{mine, 1}, {NULL, 0}, {mine + 5000, 4095}, {mine + 10000, 4097}};
    struct snic_nvmefs_req r = {.op = {.kind = SNIC_FSOP_READ, .ino = 3, .iov = iov}};
    (void)state;
    start(&x, 4, 8192);
    r.op.iov_count = 4;
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EMSGSIZE);
    iov[3] = (struct snic_iov){NULL, 4096};
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), SNIC_EINVAL);
    iov[3].base = mine + 10000;
    run(&x, 0, &r);
    for (uint32_t p = 0, at = 0; p < 4; p++)
        for (uint32_t i = 0; i < iov[p].size; i++, at++)
            assert_int_equal(((unsigned char *)iov[p].base)[i], (unsigned char)(at * 7 + 3));
    assert_true(mine[1] == 0 && mine[5000 + 4095] == 0 && mine[10000 + 4096] == 0);
    r.op.kind = SNIC_FSOP_WRITE; /* the server verifies the bytes */
    run(&x, 0, &r);
    assert_int_equal(r.op.result, 8192);
    duo_close(&x);
}

/* ---- Small queues, exhaustively ---- */

enum { WORD_OPS = 6 };

static void word_open(struct duo *x, uint32_t depth, uint32_t flags)
{
    struct snic_nvmefs_dpu_opts o = basic;
    o.flags = flags;
    o.depth_max = depth;
    o.queues_max = 1;
    o.chunks = 16;
    o.chunk_bytes = 4096;
    o.steps = 2;
    duo_open(x, &o);
    x->reorder = 1;
    duo_queue(x, 0, depth, 0);
    duo_create(x, 0);
}

/** One word of operations on a queue of @p depth; the model is a counter and a FIFO set. */
static void word_run(uint32_t depth, uint32_t word, uint32_t length, uint32_t flags)
{
    struct duo x;
    struct snic_nvmefs_req reqs[16];
    struct snic_nvmefs_cmd *held[16];
    uint32_t submitted = 0;
    uint32_t reaped = 0;
    uint32_t kept = 0;
    uint32_t finished = 0;
    memset(reqs, 0, sizeof(reqs));
    word_open(&x, depth, flags);
    for (uint32_t i = 0; i < length; i++, word /= WORD_OPS) {
        struct snic_nvmefs_cmd *c;
        struct snic_nvmefs_req *r;
        int e;
        switch (word % WORD_OPS) {
        case 0:
            reqs[submitted].op.kind = SNIC_FSOP_GETATTR;
            reqs[submitted].op.ino = submitted + 1;
            e = snic_nvmefs_host_submit(x.h[0], &reqs[submitted]);
            if (submitted - reaped == depth - 1)
                assert_int_equal(e, SNIC_EAGAIN);
            else if (e == 0)
                submitted++;
            break;
        case 1:
            duo_kick(&x, 0);
            break;
        case 2:
            (void)duo_turn(&x);
            (void)duo_turn(&x);
            break;
        case 3: /* the oldest that waits, or keep one more */
            c = snic_nvmefs_dpu_poll_request(x.d);
            if (c != NULL)
                held[kept++] = c;
            break;
        case 4: /* the newest held is finished: out of order */
            if (kept > 0) {
                duo_serve(&x, held[--kept]);
                finished++;
            }
            break;
        default:
            r = snic_nvmefs_host_reap(x.h[0]);
            if (r != NULL) {
                reaped++;
                assert_int_equal(r->op.result, 0);
                assert_int_equal(r->op.attr.size, r->op.ino * 3);
                assert_true(reaped <= finished);
            }
            break;
        }
        duo_check(&x);
    }
    while (kept > 0)
        duo_serve(&x, held[--kept]);
    duo_kick(&x, 0);
    do {
        serve_all(&x);
    } while (snic_nvmefs_dpu_sleep(x.d));
    while (snic_nvmefs_host_reap(x.h[0]) != NULL)
        reaped++;
    /* Nothing is lost, whatever the order: a bell that was not rung would leave one behind. */
    assert_int_equal(reaped, submitted);
    assert_int_equal(snic_nvmefs_host_error(x.h[0]), 0);
    duo_close(&x);
}

static void test_nvmefs_every_short_word_on_small_queues(void **state)
{
    const uint32_t flags[3] = {SNIC_NVMEFS_DPU_ORDERED, 0,
                               SNIC_NVMEFS_DPU_ORDERED | SNIC_NVMEFS_DPU_EAGER};
    uint32_t length = support_nightly() ? 8 : 6;
    uint32_t words = 1;
    uint64_t stride = support_stride(7, 97);
    (void)state;
    for (uint32_t i = 0; i < length; i++)
        words *= WORD_OPS;
    for (uint32_t depth = 2; depth <= 4; depth *= 2)
        for (uint64_t w = support_turn(stride); w < words; w += stride)
            word_run(depth, (uint32_t)w, length, flags[w % 3]);
}

/* ---- Long runs of chance ---- */

enum { CROWD = 48 };

struct crowd {
    struct snic_nvmefs_req r;
    int state; /* 0 free, 1 outstanding */
    struct snic_nvmefs_extent e[2];
};

static void crowd_submit(struct duo *x, struct crowd *all, uint32_t n, uint16_t q)
{
    struct crowd *c = &all[q * n + snic_rng_below(&x->rng, n)];
    static const uint8_t ops[4] = {SNIC_FSOP_GETATTR, SNIC_FSOP_READ, SNIC_FSOP_GETATTR,
                                   SNIC_FSOP_READ};
    if (c->state != 0)
        return;
    memset(&c->r, 0, sizeof(c->r));
    c->r.op.kind = ops[snic_rng_below(&x->rng, 4)];
    c->r.op.ino = snic_rng_below(&x->rng, 1000);
    c->r.op.ctx = c;
    c->r.op.offset = snic_rng_below(&x->rng, 1000);
    if (c->r.op.kind == SNIC_FSOP_READ) {
        uint64_t page = (uint64_t)(c - all) * 65536;
        c->e[0] = (struct snic_nvmefs_extent){SNIC_NVMEFS_ADDRESS(9, page),
                                              1 + (uint32_t)snic_rng_below(&x->rng, 30000), 0};
        c->e[1] = (struct snic_nvmefs_extent){SNIC_NVMEFS_ADDRESS(9, page + 32768), 4096, 0};
        c->r.extents = c->e;
        c->r.extent_count = 1 + (uint32_t)snic_rng_below(&x->rng, 2);
    }
    if (snic_nvmefs_host_submit(x->h[q], &c->r) == 0)
        c->state = 1;
}

static void crowd_reap(struct duo *x, uint16_t q, uint64_t *done)
{
    struct snic_nvmefs_req *r;
    while ((r = snic_nvmefs_host_reap(x->h[q])) != NULL) {
        struct crowd *c = r->op.ctx;
        assert_int_equal(c->state, 1);
        c->state = 0;
        (*done)++;
        if (r->op.kind == SNIC_FSOP_GETATTR) {
            assert_int_equal(r->op.attr.size, r->op.ino * 3);
            continue;
        }
        uint32_t size = r->extents[0].size;
        const unsigned char *p = x->regions[0].base + (r->extents[0].address & 0xffffffff);
        assert_int_equal(r->op.result, size + (r->extent_count > 1 ? 4096 : 0));
        assert_int_equal(p[0], (unsigned char)(r->op.offset * 7 + r->op.ino));
        assert_int_equal(p[size - 1], (unsigned char)((r->op.offset + size - 1) * 7 + r->op.ino));
    }
}

static void crowd_open(struct duo *x, uint32_t flags, uint32_t steps, uint32_t chunks)
{
    struct snic_nvmefs_dpu_opts o = basic;
    o.flags = flags;
    o.steps = steps;
    o.chunks = chunks;
    o.chunk_bytes = 4096;
    duo_open(x, &o);
    x->reorder = 1;
    (void)duo_region_add(x, CROWD * 65536, 9);
    for (uint16_t q = 0; q < DUO_QUEUES; q++) {
        duo_queue(x, q, 4U << (q % 3), 0);
        duo_create(x, q);
    }
}

static void crowd_run(uint32_t flags, uint32_t steps, uint32_t chunks, uint64_t turns)
{
    struct duo x;
    static struct crowd all[CROWD];
    struct snic_nvmefs_cmd *held[64];
    uint32_t kept = 0;
    uint64_t done = 0;
    memset(all, 0, sizeof(all));
    crowd_open(&x, flags, steps, chunks);
    for (uint64_t i = 0; i < turns; i++) {
        uint16_t q = (uint16_t)snic_rng_below(&x.rng, DUO_QUEUES);
        struct snic_nvmefs_cmd *c;
        switch (snic_rng_below(&x.rng, 8)) {
        case 0:
        case 1:
            /* each queue has requests of its own */
            crowd_submit(&x, all, 12, q);
            duo_kick(&x, q);
            break;
        case 2:
            c = kept < 64 ? snic_nvmefs_dpu_poll_request(x.d) : NULL;
            if (c != NULL)
                held[kept++] = c;
            break;
        case 3:
            if (kept > 0) {
                uint32_t k = (uint32_t)snic_rng_below(&x.rng, kept);
                c = held[k];
                held[k] = held[--kept];
                duo_serve(&x, c);
            }
            break;
        case 4:
            crowd_reap(&x, q, &done);
            break;
        case 5:
            if ((flags & SNIC_NVMEFS_DPU_EAGER) != 0)
                snic_nvmefs_dpu_tick(x.d, q);
            break;
        default:
            (void)duo_turn(&x);
        }
        if (i % 64 == 0)
            duo_check(&x);
    }
    while (kept > 0)
        duo_serve(&x, held[--kept]);
    for (uint16_t q = 0; q < DUO_QUEUES; q++)
        duo_kick(&x, q);
    for (int i = 0; i < 4; i++) {
        serve_all(&x);
        while (snic_nvmefs_dpu_sleep(x.d))
            serve_all(&x);
    }
    for (uint16_t q = 0; q < DUO_QUEUES; q++) {
        crowd_reap(&x, q, &done);
        assert_int_equal(snic_nvmefs_host_outstanding(x.h[q]), 0);
    }
    assert_true(done > turns / 100);
    duo_check(&x);
    duo_close(&x);
}

static void test_nvmefs_random_runs_lose_and_double_nothing(void **state)
{
    uint64_t n = support_rounds(40000, 2000000);
    (void)state;
    crowd_run(SNIC_NVMEFS_DPU_ORDERED, 32, 64, n);
    crowd_run(0, 32, 64, n);
    crowd_run(SNIC_NVMEFS_DPU_ORDERED | SNIC_NVMEFS_DPU_EAGER, 2, 16, n);
    crowd_run(SNIC_NVMEFS_DPU_ORDERED, 3, 16, n);
}

/* ---- Aborts and resets ---- */

static void test_nvmefs_abort_ends_a_waiting_lock(void **state)
{
    struct duo x;
    struct snic_nvmefs_cmd *c;
    struct snic_nvmefs_req locks[3];
    (void)state;
    start(&x, 4, 0); /* three requests fill it */
    memset(locks, 0, sizeof(locks));
    for (int i = 0; i < 3; i++) {
        locks[i].op.kind = SNIC_FSOP_SETLK;
        locks[i].op.flags = SNIC_FSOP_LOCK_WAIT;
        assert_int_equal(snic_nvmefs_host_submit(x.h[0], &locks[i]), 0);
    }
    duo_kick(&x, 0);
    serve_all(&x);
    assert_null(snic_nvmefs_dpu_poll_cancel(x.d));
    assert_int_equal(snic_nvmefs_host_abort(x.h[0], &locks[1]), 0);
    assert_int_equal(snic_nvmefs_host_abort(x.h[0], &locks[2]), 0);
    duo_kick(&x, 0);
    serve_all(&x);
    c = snic_nvmefs_dpu_poll_cancel(x.d);
    assert_non_null(c);
    assert_int_equal(c->req.cid, locks[1].cid);
    snic_nvmefs_dpu_finish(x.d, c, SNIC_NVMEFS_STATUS_OK, SNIC_EINTR);
    serve_all(&x);
    assert_ptr_equal(snic_nvmefs_host_reap(x.h[0]), &locks[1]);
    assert_int_equal(locks[1].op.result, SNIC_EINTR);
    assert_null(snic_nvmefs_host_reap(x.h[0])); /* the second Abort goes when the first is back */
    duo_kick(&x, 0);
    serve_all(&x);
    c = snic_nvmefs_dpu_poll_cancel(x.d);
    assert_non_null(c);
    assert_int_equal(c->req.cid, locks[2].cid);
    snic_nvmefs_dpu_finish(x.d, c, SNIC_NVMEFS_STATUS_OK, SNIC_EINTR);
    serve_all(&x);
    assert_ptr_equal(snic_nvmefs_host_reap(x.h[0]), &locks[2]);
    assert_int_equal(snic_nvmefs_host_abort(x.h[0], &locks[2]), SNIC_ENOENT);
    duo_check(&x);
    /* The one left goes with the queue. */
    duo_delete(&x, 0);
    duo_settle(&x);
    assert_int_equal(x.deleted, 0);
    c = snic_nvmefs_dpu_poll_cancel(x.d);
    assert_non_null(c);
    snic_nvmefs_dpu_finish(x.d, c, SNIC_NVMEFS_STATUS_OK, SNIC_EINTR);
    duo_settle(&x);
    assert_int_equal(x.deleted, 1);
    snic_nvmefs_host_reset(x.h[0]);
    duo_check(&x);
    assert_ptr_equal(snic_nvmefs_host_reap(x.h[0]), &locks[0]);
    assert_int_equal(locks[0].op.result, SNIC_EUNKNOWN);
    duo_create(&x, 0);
    duo_settle(&x);
    assert_int_equal(x.created, 2);
    struct snic_nvmefs_req a = {.op.kind = SNIC_FSOP_GETATTR, .op.ino = 4};
    run(&x, 0, &a);
    assert_int_equal(a.op.result, 0);
    duo_close(&x);
}

/* An Abort at every moment of a command's life: it ends once, with its result or ABORTED. */
static void abort_at(uint8_t op, uint32_t moment, uint64_t seed)
{
    static unsigned char data[9000];
    struct duo x;
    struct snic_nvmefs_cmd *c;
    struct snic_nvmefs_req *back;
    struct snic_nvmefs_dpu_opts small = basic;
    uint32_t ended = 0;
    small.chunk_bytes = 4096; /* so that data takes several operations */
    start_with(&x, &small, 4, 16384);
    x.reorder = seed != 0; /* the Abort's look may pass the command's own steps */
    if (seed != 0)
        snic_rng_init(&x.rng, support_seed() * 1000 + seed);
    struct snic_nvmefs_req r = {.op.kind = op,
                                .op.ino = 1,
                                .op.iov = &(struct snic_iov){data, sizeof(data)},
                                .op.iov_count = 1};
    struct snic_nvmefs_req other = {.op.kind = SNIC_FSOP_GETATTR, .op.ino = 7};
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &other), 0);
    assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r), 0);
    duo_kick(&x, 0);
    for (uint32_t i = 0; i < moment; i++)
        if (!duo_turn(&x) && (c = snic_nvmefs_dpu_poll_request(x.d)) != NULL)
            duo_serve(&x, c);
    assert_int_equal(snic_nvmefs_host_abort(x.h[0], &r), 0);
    duo_kick(&x, 0);
    for (int i = 0; i < 3; i++) {
        serve_all(&x);
        while ((c = snic_nvmefs_dpu_poll_cancel(x.d)) != NULL)
            snic_nvmefs_dpu_finish(x.d, c, SNIC_NVMEFS_STATUS_OK, SNIC_EINTR);
    }
    for (; (back = snic_nvmefs_host_reap(x.h[0])) != NULL; ended++)
        assert_true(back == &r || back == &other);
    assert_int_equal(ended, 2);
    assert_int_equal(other.op.result, 0);
    assert_true(r.op.result == 9000 || r.op.result == SNIC_ECANCELED || r.op.result == SNIC_EINTR ||
                (op == SNIC_FSOP_WRITE && r.op.result == SNIC_EIO)); /* not what the server wants */
    assert_int_equal(snic_nvmefs_host_error(x.h[0]), 0);
    assert_null(snic_nvmefs_dpu_poll_request(x.d));
    duo_check(&x);
    duo_close(&x);
}

static void test_nvmefs_abort_at_every_moment(void **state)
{
    (void)state;
    for (uint32_t moment = 0; moment < 60; moment++)
        for (uint64_t seed = 0; seed < support_rounds(16, 200); seed++)
            for (uint8_t op = SNIC_FSOP_READ; op <= SNIC_FSOP_WRITE; op++)
                abort_at(op, moment, seed);
}

/* DELETE at every moment: DELETED comes when nothing touches the queue's memory any more. */
static void test_nvmefs_delete_at_every_moment(void **state)
{
    (void)state;
    for (uint32_t moment = 0; moment < 80; moment++) {
        struct duo x;
        struct snic_nvmefs_cmd *c;
        struct snic_nvmefs_req r[3];
        start(&x, 4, 0);
        x.reorder = 1;
        memset(r, 0, sizeof(r));
        for (int i = 0; i < 3; i++) {
            r[i].op.kind = SNIC_FSOP_GETATTR;
            assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r[i]), 0);
        }
        duo_kick(&x, 0);
        for (uint32_t i = 0; i < moment; i++)
            if (!duo_turn(&x) && (c = snic_nvmefs_dpu_poll_request(x.d)) != NULL)
                duo_serve(&x, c);
        duo_delete(&x, 0);
        for (int i = 0; i < 1000 && x.deleted == 0; i++) {
            (void)duo_turn(&x);
            while ((c = snic_nvmefs_dpu_poll_cancel(x.d)) != NULL)
                snic_nvmefs_dpu_finish(x.d, c, SNIC_NVMEFS_STATUS_OK, SNIC_EINTR);
            duo_check(&x);
        }
        assert_int_equal(x.deleted, 1);
        assert_int_equal(x.out_count, 0);
        unsigned char before[256];
        memcpy(before, x.h[0]->cq, sizeof(before) < 64 ? sizeof(before) : 64);
        duo_settle(&x);
        assert_memory_equal(before, x.h[0]->cq, 64);
        snic_nvmefs_host_reset(x.h[0]);
        for (int i = 0; i < 3; i++)
            assert_non_null(snic_nvmefs_host_reap(x.h[0]));
        assert_int_equal(snic_nvmefs_dpu_idle(x.d), 1);
        duo_close(&x);
    }
}

/* ---- The host's sleep ---- */

/* What would break: the host sleeps and a completion is there. */
static void test_nvmefs_who_sleeps_is_rung(void **state)
{
    struct duo x;
    (void)state;
    start(&x, 16, 0);
    for (int round = 0; round < 200; round++) {
        struct snic_nvmefs_req r[12];
        uint32_t n = 1 + (uint32_t)snic_rng_below(&x.rng, 12);
        uint32_t got = 0;
        memset(r, 0, sizeof(r));
        for (uint32_t i = 0; i < n; i++) {
            r[i].op.kind = SNIC_FSOP_GETATTR;
            assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r[i]), 0);
            if (i % 3 == 0)
                duo_kick(&x, 0);
        }
        duo_kick(&x, 0);
        while (got < n) {
            uint64_t rung = x.bells_down;
            while (snic_nvmefs_host_reap(x.h[0]) != NULL)
                got++;
            if (got == n)
                break;
            if (snic_nvmefs_host_sleep(x.h[0])) {
                snic_nvmefs_dpu_bell(x.d, 0);
                duo_bells(&x);
            }
            while (snic_nvmefs_host_reap(x.h[0]) != NULL)
                got++;
            if (got == n)
                break;
            /* asleep: only a bell lets it look again */
            for (int i = 0; i < 10000 && x.bells_down == rung; i++) {
                struct snic_nvmefs_cmd *c;
                (void)duo_turn(&x);
                c = snic_nvmefs_dpu_poll_request(x.d);
                if (c != NULL)
                    duo_serve(&x, c);
            }
            assert_true(x.bells_down > rung);
        }
    }
    struct snic_nvmefs_dpu_stats s;
    duo_settle(&x);
    snic_nvmefs_dpu_get_stats(x.d, &s);
    assert_true(s.disarms > 0 && s.arms > 0);
    duo_check(&x);
    duo_close(&x);
}

/*
 * A host that only looks, and never announces that it sleeps, puts in one more request at every
 * moment of a queue's way into and out of not being rung: it is seen. What would break: the write
 * of sq_event and the look behind it change places, and both sides wait for the other.
 */
static void test_nvmefs_a_request_at_every_moment_is_seen(void **state)
{
    uint64_t silent = 0;
    uint64_t moments = 0;
    (void)state;
    for (uint32_t seed = 0; seed < support_rounds(8, 200); seed++) {
        for (uint32_t moment = 0; moment < 160; moment++, moments++) {
            struct duo x;
            struct snic_nvmefs_req r[8];
            struct snic_nvmefs_cmd *c;
            uint32_t got = 0;
            start(&x, 16, 0);
            snic_rng_init(&x.rng, support_seed() + seed);
            x.reorder = 1;
            memset(r, 0, sizeof(r));
            for (int i = 0; i < 8; i++)
                r[i].op.kind = SNIC_FSOP_GETATTR;
            for (int i = 0; i < 7; i++)
                assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r[i]), 0);
            duo_kick(&x, 0);
            for (uint32_t i = 0; i < moment; i++) {
                (void)duo_turn(&x);
                c = i % 8 == 0 ? snic_nvmefs_dpu_poll_request(x.d) : NULL;
                if (c != NULL)
                    duo_serve(&x, c);
            }
            uint64_t bells = x.bells_up;
            assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r[7]), 0);
            duo_kick(&x, 0);
            silent += bells == x.bells_up;
            serve_all(&x);
            while (snic_nvmefs_host_reap(x.h[0]) != NULL)
                got++;
            assert_int_equal(got, 8);
            duo_close(&x);
        }
    }
    assert_true(silent > moments / 16); /* it was not rung for */
}

/* A busy queue: sq_event is NEVER, and no bell is rung either way while both sides look. */
static void test_nvmefs_a_busy_queue_rings_no_bell(void **state)
{
    struct duo x;
    struct snic_nvmefs_req r[12];
    uint64_t done = 0;
    (void)state;
    start(&x, 16, 0);
    memset(r, 0, sizeof(r));
    for (int i = 0; i < 12; i++) {
        r[i].op.kind = SNIC_FSOP_GETATTR;
        assert_int_equal(snic_nvmefs_host_submit(x.h[0], &r[i]), 0);
    }
    duo_kick(&x, 0);
    uint64_t up = 0;
    uint64_t down = 0;
    while (done < 20000) {
        struct snic_nvmefs_req *got;
        struct snic_nvmefs_cmd *c;
        (void)duo_turn(&x);
        c = snic_nvmefs_dpu_poll_request(x.d);
        if (c != NULL)
            duo_serve(&x, c);
        while ((got = snic_nvmefs_host_reap(x.h[0])) != NULL) {
            done++;
            assert_int_equal(snic_nvmefs_host_submit(x.h[0], got), 0);
        }
        duo_kick(&x, 0);
        if (done < 1000) {
            up = x.bells_up;
            down = x.bells_down;
        }
    }
    assert_int_equal(x.bells_up, up);
    assert_int_equal(x.bells_down, down);
    for (int i = 0; i < 100; i++)
        serve_all(&x);
    while (snic_nvmefs_host_reap(x.h[0]) != NULL)
        done++;
    duo_check(&x);
    duo_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmefs_8k_write_and_read_take_four_operations),
        cmocka_unit_test(test_nvmefs_data_of_every_shape_arrives),
        cmocka_unit_test(test_nvmefs_largest_data_arrives_more_refused),
        cmocka_unit_test(test_nvmefs_copy_goes_through_the_queues_memory),
        cmocka_unit_test(test_nvmefs_copy_of_pieces_is_joined),
        cmocka_unit_test(test_nvmefs_every_short_word_on_small_queues),
        cmocka_unit_test(test_nvmefs_random_runs_lose_and_double_nothing),
        cmocka_unit_test(test_nvmefs_abort_ends_a_waiting_lock),
        cmocka_unit_test(test_nvmefs_abort_at_every_moment),
        cmocka_unit_test(test_nvmefs_delete_at_every_moment),
        cmocka_unit_test(test_nvmefs_who_sleeps_is_rung),
        cmocka_unit_test(test_nvmefs_a_request_at_every_moment_is_seen),
        cmocka_unit_test(test_nvmefs_a_busy_queue_rings_no_bell),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
