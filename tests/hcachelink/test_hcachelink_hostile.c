/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Each half against another one that lies: it writes anything into the region at any time and sends
 * anything. The result is an error, never a crash, a hang or an access out of bounds.
 */
#include "golden.h"
#include "test_hcachelink_util.h"

#include "hcachelink/hcachelink_priv.h"

enum { REQS = 12 };

struct lie {
    struct rig g;
    struct snic_rng rng;
    struct snic_hcachelink_req req[REQS];
    unsigned char data[REQS][3 * RIG_PAGE];
    uint64_t ino, ended, refused;
    int scribbles; /* words at each step */
    uint64_t ids[64];
    uint32_t id_count;
    struct hcachelink_message last;
    int talks;
};

static struct lie lie;

/* Mostly small numbers and numbers sent before: those get furthest. */
static uint64_t number(struct lie *t)
{
    switch (snic_rng_below(&t->rng, 6)) {
    case 0:
        return snic_rng_next(&t->rng);
    case 1:
        return UINT64_MAX - snic_rng_below(&t->rng, 3);
    case 2:
        return UINT64_C(1) << snic_rng_below(&t->rng, 64);
    default:
        return snic_rng_below(&t->rng, 70);
    }
}

static void scribble(struct lie *t)
{
    size_t size;
    uint64_t epoch;
    unsigned char *region = snic_hcachelink_host_region(t->g.host, &size, &epoch);
    for (int i = 0; i < t->scribbles && region != NULL; i++) {
        uint64_t words = (snic_rng_below(&t->rng, 8) != 0 ? 4096 : size) / 8;
        uint64_t at = snic_rng_below(&t->rng, words) * 8;
        uint64_t w = snic_get_le64(region + at);
        if (snic_rng_below(&t->rng, 3) == 0)
            w = number(t);
        else
            w ^= UINT64_C(1) << snic_rng_below(&t->rng, 64);
        snic_put_le64(region + at, w);
    }
}

static void req_done(struct snic_hcachelink_req *req)
{
    lie.ended++;
    req->ctx = NULL;
}

static void lie_submit(struct lie *t)
{
    struct snic_hcachelink_req *r = &t->req[snic_rng_below(&t->rng, REQS)];
    int e;
    if (r->ctx != NULL)
        return;
    memset(r, 0, sizeof(*r));
    r->op = 1 + (uint32_t)snic_rng_below(&t->rng, 5);
    r->ino = t->ino + snic_rng_below(&t->rng, 2);
    r->offset = snic_rng_below(&t->rng, 100 * RIG_PAGE);
    r->length = snic_rng_below(&t->rng, sizeof(t->data[0]));
    r->data = t->data[r - t->req];
    r->done = req_done;
    r->ctx = r;
    e = snic_hcachelink_submit(t->g.host, r);
    t->refused += e < 0;
    t->ended += e == 1;
    if (e != 0)
        r->ctx = NULL;
}

static void settle(struct lie *t)
{
    for (int i = 0; i < 3000000; i++) {
        int busy = 0;
        for (int k = 0; k < REQS; k++)
            busy |= t->req[k].ctx != NULL;
        if (!busy)
            return;
        (void)rig_step(&t->g);
    }
    fail_msg("a request hangs");
}

static void lie_open(struct lie *t, uint64_t seed, int no_dpu, int local)
{
    memset(t, 0, sizeof(*t));
    snic_rng_init(&t->rng, seed);
    rig_defaults(&t->g);
    t->g.no_dpu = no_dpu;
    t->g.local = local;
    t->g.po.salvage_ns = 20000000;
    t->g.ho.timeout_ns = 20000000;
    t->g.po.control.flush_ns = 2000000;
    t->g.po.control.prefetch_max = 8;
    rig_open(&t->g);
    t->ino = rig_file(&t->g, "a");
}

/* ---- A DPU's half whose host lies ---- */

static void lie_to_dpu(struct lie *t)
{
    unsigned char msg[SNIC_DMA_MSG_MAX];
    struct hcachelink_message m = {.type = (uint16_t)snic_rng_below(&t->rng, 13),
                                   .id = number(t),
                                   .ino = snic_rng_below(&t->rng, 2) ? t->ino : number(t),
                                   .a = number(t),
                                   .b = number(t),
                                   .c = number(t)};
    uint32_t size = SNIC_HCACHELINK__BYTES;
    if (m.type == HCACHELINK_END && snic_rng_below(&t->rng, 50) != 0)
        m.type = HCACHELINK_READ;
    memset(msg, 0, sizeof(msg));
    hcachelink_encode(msg, &m);
    if (snic_rng_below(&t->rng, 5) == 0)
        msg[snic_rng_below(&t->rng, 64)] ^= (unsigned char)(1u << snic_rng_below(&t->rng, 8));
    if (snic_rng_below(&t->rng, 10) == 0)
        size = 1 + (uint32_t)snic_rng_below(&t->rng, SNIC_DMA_MSG_MAX);
    (void)snic_dma_send(t->g.d[0], msg, size);
}

static void test_hcachelink_dpu_survives_a_lying_host(void **state)
{
    uint64_t rounds = support_rounds(12, 400);
    uint64_t ended = 0;
    uint64_t writes = 0;
    struct snic_hcachelink_dpu_stats c;
    (void)state;
    for (uint64_t round = 0; round < rounds; round++) {
        struct lie *t = &lie;
        lie_open(t, support_seed() * 1000 + round, 0, 0);
        for (int i = 0; i < 10000; i++) {
            t->scribbles = snic_rng_below(&t->rng, 12) == 0;
            if (t->g.opened != 0 || round % 4 == 0)
                scribble(t);
            if (snic_rng_below(&t->rng, 8) == 0)
                lie_submit(t);
            if (i > 7000 && snic_rng_below(&t->rng, 8) == 0)
                lie_to_dpu(t);
            if (snic_rng_below(&t->rng, 30) == 0)
                (void)snic_dma_ring(t->g.d[0], (uint32_t)snic_rng_below(&t->rng, 64));
            (void)rig_step(&t->g);
        }
        settle(t);
        c = rig_dpu_stats(t->g.dpu);
        /* the file system is what it was: it serves others */
        assert_int_equal(snic_fs_put(t->g.fs, "/other", "x", 1, 0600), 0);
        assert_int_equal(snic_fs_get(t->g.fs, "/other", t->data[0], 10), 1);
        snic_dma_sim_kill(t->g.d[0]);
        snic_hcachelink_host_death(t->g.host, SNIC_DMA_DEATH_EXIT);
        rig_close(&t->g);
        ended += t->ended;
        writes += c.writes + c.orphans;
    }
    print_message("%u requests, %u pages written\n", (unsigned)ended, (unsigned)writes);
    assert_true(ended > 10 * rounds && writes > rounds);
}

/* A truncation behind END: the page that it cuts is dirty and held until it is answered, and END
 * waits for that page. */
static void test_hcachelink_request_behind_end_closes_the_link(void **state)
{
    struct hcachelink_message end = {.type = HCACHELINK_END};
    unsigned char msg[SNIC_HCACHELINK__BYTES];
    struct lie *t = &lie;
    (void)state;
    lie_open(t, support_seed(), 0, 0);
    for (int i = 0; i < 100000 && t->g.opened == 0; i++)
        (void)rig_step(&t->g);
    for (uint32_t n = 0; n < 2; n++) {
        t->req[n] = (struct snic_hcachelink_req){.op = n == 0 ? SNIC_HCACHELINK_WRITE
                                                              : SNIC_HCACHELINK_TRUNCATE,
                                                 .ino = t->ino,
                                                 .length = n == 0 ? RIG_PAGE : 100,
                                                 .data = t->data[n],
                                                 .done = req_done};
        t->req[n].ctx = &t->req[n];
        hcachelink_encode(msg, &end);
        if (n == 1)
            assert_true(snic_dma_send(t->g.d[0], msg, sizeof(msg)) >= 0);
        int r = snic_hcachelink_submit(t->g.host, &t->req[n]);
        assert_true(r == 0 || (r == 1 && n == 0));
        if (r == 1)
            t->req[n].ctx = NULL;
        settle(t);
    }
    assert_int_equal(t->req[0].result, RIG_PAGE);
    assert_true(t->req[1].result < 0);
    for (int i = 0; i < 100000 && t->g.closed == 0; i++)
        (void)rig_step(&t->g);
    assert_int_equal(t->g.closed, 1);
    assert_int_equal(t->g.reason, SNIC_EPROTO);
    snic_dma_sim_kill(t->g.d[0]);
    snic_hcachelink_host_death(t->g.host, SNIC_DMA_DEATH_EXIT);
    rig_close(&t->g);
}

/* It dies, and what it has left to be salvaged is nonsense. */
static void test_hcachelink_salvage_of_a_liars_region(void **state)
{
    uint64_t rounds = support_rounds(40, 2000);
    uint64_t salvaged = 0;
    (void)state;
    for (uint64_t round = 0; round < rounds; round++) {
        struct lie *t = &lie;
        uint64_t began;
        lie_open(t, support_seed() * 1000 + round, 0, 1);
        for (int i = 0; i < 1500; i++) {
            t->scribbles = i > 300 && snic_rng_below(&t->rng, 40) == 0;
            scribble(t);
            if (snic_rng_below(&t->rng, 8) == 0)
                lie_submit(t);
            (void)rig_step(&t->g);
        }
        t->scribbles = (int)snic_rng_below(&t->rng, 200);
        scribble(t);
        began = snic_world_now(t->g.w);
        snic_hcachelink_dpu_death(t->g.dpu, SNIC_DMA_DEATH_EXIT);
        for (int i = 0; i < 3000000 && t->g.gone == 0; i++)
            (void)rig_step(&t->g);
        assert_true(t->g.gone > 0);
        assert_true(snic_world_now(t->g.w) - began < 2 * t->g.po.salvage_ns);
        salvaged += rig_dpu_stats(t->g.dpu).salvaged;
        snic_hcachelink_host_death(t->g.host, SNIC_DMA_DEATH_EXIT);
        rig_close(&t->g);
    }
    print_message("%u pages salvaged\n", (unsigned)salvaged);
    assert_true(salvaged > 0);
}

/* ---- A host's half whose DPU lies ---- */

static void hear(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct lie *t = ctx;
    struct hcachelink_message m;
    (void)d;
    if (hcachelink_decode(&m, msg, size) != 0)
        return;
    if (m.type == HCACHELINK_REGION)
        t->last = m;
    else if (t->id_count < 64)
        t->ids[t->id_count++] = m.id;
}

static void lie_to_host(struct lie *t, int honest)
{
    unsigned char msg[SNIC_DMA_MSG_MAX];
    struct hcachelink_message m = {.type = HCACHELINK_DONE, .id = number(t), .a = number(t)};
    uint32_t size = SNIC_HCACHELINK__BYTES;
    if (t->last.type == HCACHELINK_REGION) { /* a beginning that is believed */
        m.id = 0;
        m.a = 2 + snic_rng_below(&t->rng, 63);
        t->last.type = 0;
    } else if (t->id_count > 0) {
        uint32_t i = (uint32_t)snic_rng_below(&t->rng, t->id_count);
        m.id = t->ids[i];
        if (honest || snic_rng_below(&t->rng, 4) != 0)
            t->ids[i] = t->ids[--t->id_count];
        m.result = snic_rng_below(&t->rng, 3) == 0 ? SNIC_EIO : 0;
    } else if (honest) {
        return;
    }
    if (!honest && snic_rng_below(&t->rng, 20) == 0)
        m.type = (uint16_t)snic_rng_below(&t->rng, 13);
    if (!honest && snic_rng_below(&t->rng, 10) == 0)
        m.result = (int32_t)snic_rng_next(&t->rng);
    memset(msg, 0, sizeof(msg));
    hcachelink_encode(msg, &m);
    if (!honest && snic_rng_below(&t->rng, 20) == 0)
        msg[snic_rng_below(&t->rng, 64)] ^= (unsigned char)(1u << snic_rng_below(&t->rng, 8));
    if (!honest && snic_rng_below(&t->rng, 30) == 0)
        size = 1 + (uint32_t)snic_rng_below(&t->rng, SNIC_DMA_MSG_MAX);
    (void)snic_dma_send(t->g.d[1], msg, size);
}

/* @p honest: its answers are in order, and only the region is not what it should be. */
static void lying_dpu(int honest, uint64_t seed, uint64_t *lived)
{
    struct lie *t = &lie;
    lie_open(t, seed, 1, 0);
    t->g.d[1]->events = (struct snic_dma_events){hear, NULL, NULL, t};
    for (int i = 0; i < 4000 && t->g.closed == 0; i++) {
        if (honest || i > 200) {
            t->scribbles = snic_rng_below(&t->rng, 3) == 0;
            scribble(t);
        }
        if (snic_rng_below(&t->rng, 4) == 0)
            lie_submit(t);
        if (snic_rng_below(&t->rng, 4) == 0)
            lie_to_host(t, honest || i < 200);
        if (snic_rng_below(&t->rng, 30) == 0)
            (void)snic_dma_ring(t->g.d[1], (uint32_t)snic_rng_below(&t->rng, 64));
        (void)rig_step(&t->g);
    }
    settle(t); /* it sends nothing any more */
    *lived += t->g.closed == 0;
    if (t->g.closed == 0)
        snic_hcachelink_host_end(t->g.host);
    rig_close(&t->g);
    assert_true(t->g.reason < 0);
}

static void test_hcachelink_host_survives_a_lying_dpu(void **state)
{
    uint64_t rounds = support_rounds(40, 2000);
    uint64_t lived = 0;
    (void)state;
    for (uint64_t round = 0; round < rounds; round++)
        lying_dpu(0, support_seed() * 1000 + round, &lived);
    print_message("%u of %u links were not closed for it\n", (unsigned)lived, (unsigned)rounds);
}

static void test_hcachelink_host_survives_a_scribbled_region(void **state)
{
    uint64_t rounds = support_rounds(20, 1000);
    uint64_t lived = 0;
    (void)state;
    for (uint64_t round = 0; round < rounds; round++)
        lying_dpu(1, support_seed() * 1000 + round, &lived);
}

/* An answer that was sent before is none to the next request, though it has the same place. */
static void test_hcachelink_old_answer_closes_the_link(void **state)
{
    struct lie *t = &lie;
    unsigned char msg[SNIC_HCACHELINK__BYTES];
    struct hcachelink_message m = {.type = HCACHELINK_DONE, .a = 4};
    (void)state;
    lie_open(t, 1, 1, 0);
    t->g.d[1]->events = (struct snic_dma_events){hear, NULL, NULL, t};
    for (int i = 0; i < 3; i++) {
        struct snic_hcachelink_req *r = &t->req[i];
        *r = (struct snic_hcachelink_req){
            .op = SNIC_HCACHELINK_FSYNC, .ino = 5, .done = req_done, .ctx = r};
        if (i > 0)
            assert_int_equal(snic_hcachelink_submit(t->g.host, r), 0);
        for (int k = 0; k < 200 && t->id_count < (uint32_t)i; k++)
            (void)rig_step(&t->g);
        m.id = i == 0 ? 0 : t->ids[0];
        hcachelink_encode(msg, &m);
        assert_int_equal(snic_dma_send(t->g.d[1], msg, sizeof(msg)), 1);
        rig_settle(&t->g, 1000000);
        assert_int_equal(t->g.closed, i == 2);
    }
    assert_int_equal(t->req[1].result, 0);
    assert_int_equal(t->req[2].result, SNIC_EPROTO);
    assert_int_equal(t->g.reason, SNIC_EPROTO);
    rig_close(&t->g);
}

/* The dead DPU has left nonsense in the header: the region keeps the geometry that it was made
   with. */
static void test_hcachelink_move_keeps_the_geometry(void **state)
{
    struct rig g;
    struct snic_dma *old;
    unsigned char page[RIG_PAGE];
    size_t size;
    uint64_t epoch, ino;
    unsigned char *region;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    memset(page, 7, sizeof(page));
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    snic_hcachelink_dpu_detach(g.dpu);
    for (int i = 0; i < 1000000 && !snic_hcachelink_dpu_idle(g.dpu); i++)
        (void)rig_step(&g);
    support_guard_free(snic_hcachelink_dpu_fini(g.dpu));
    snic_dma_close(g.d[1]);
    g.dpu = NULL;
    for (int i = 0; i < 1000000 && g.closed == 0; i++)
        (void)rig_step(&g);
    region = snic_hcachelink_host_region(g.host, &size, &epoch);
    memset(region, 0x5a, SNIC_HCACHE_HEADER_BYTES);
    old = g.d[0];
    g.closed = 0;
    rig_link(&g);
    rig_dpu(&g);
    assert_int_equal(snic_hcachelink_host_attach(g.host, g.d[0]), 0);
    snic_dma_close(old);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    memset(page, 0, sizeof(page));
    assert_int_equal(snic_fs_get(g.fs, "/a", page, sizeof(page)), RIG_PAGE);
    for (int i = 0; i < RIG_PAGE; i++)
        assert_int_equal(page[i], 7);
    rig_close(&g);
}

/* lib/hcachelink/FORMAT.md. */
static void test_hcachelink_format_vector(void **state)
{
    const struct hcachelink_message m = {.type = HCACHELINK_READ,
                                         .result = -2,
                                         .id = 0x0102030405060708,
                                         .ino = 0x1112131415161718,
                                         .a = 3,
                                         .b = 4,
                                         .c = 1};
    unsigned char out[SNIC_HCACHELINK__BYTES];
    (void)state;
    hcachelink_encode(out, &m);
    golden_bytes("hcachelink", "message", out, sizeof(out));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_dpu_survives_a_lying_host),
        cmocka_unit_test(test_hcachelink_request_behind_end_closes_the_link),
        cmocka_unit_test(test_hcachelink_salvage_of_a_liars_region),
        cmocka_unit_test(test_hcachelink_host_survives_a_lying_dpu),
        cmocka_unit_test(test_hcachelink_host_survives_a_scribbled_region),
        cmocka_unit_test(test_hcachelink_old_answer_closes_the_link),
        cmocka_unit_test(test_hcachelink_move_keeps_the_geometry),
        cmocka_unit_test(test_hcachelink_format_vector),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
