/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The response ring under the explorer, as test_ring_explore.c.
 */
#include "test_ring_stage.h"

/* ---- Responses ---- */

/* Finishes its two reserved records, the younger first; QUIESCENT publishes both at the end. */
static uint64_t respond_body(void *copy)
{
    struct snic_ring_responder *r = copy;
    struct snic_ring_op ops[4];
    struct snic_ring_rec rec[2];
    int i;

    memset(stage.aux, 0, sizeof(stage.aux));
    for (i = 0; i < 2; i++)
        if (snic_ring_resp_reserve(r, 1, 8, 0, &rec[i]) != 0)
            explore_fail("no room");
    for (i = 1; i >= 0; i--) {
        explore_store(rec[i].data, PAYLOAD + rec[i].position, memory_order_relaxed, __func__);
        if (snic_ring_resp_finish(r, rec[i].position, 0) != 0)
            explore_fail("finish refused");
    }
    if (snic_ring_resp_flush(r, ops, 4) != 0)
        explore_fail("flush");
    return 0;
}

/* One try; bit of the position claimed. */
static uint64_t collect_body(void *copy)
{
    struct snic_ring_collector *k = copy;
    struct snic_ring_rec rec;
    uint64_t mask = 0;
    int i, n;

    for (i = 0; i < stage.looks; i++) {
        uint64_t late;

        n = snic_ring_claim(k, &rec);
        if (n < 0)
            explore_fail("the collector calls an honest ring corrupt");
        if (n == 0)
            continue;
        late = explore_late(rec.data);
        mask |= (uint64_t)1 << rec.position / 16;
        if (snic_ring_claim_release(k, &rec) != 0)
            explore_fail("release");
        if (explore_late_value(late) != PAYLOAD + rec.position)
            explore_fail("a response read is not what was written");
    }
    return mask;
}

static void each_once(const uint64_t *outcome)
{
    struct snic_ring_collector k;
    struct snic_ring_rec rec;
    uint64_t mask = outcome[1] | outcome[2];

    if ((outcome[1] & outcome[2]) != 0)
        explore_fail("a response was claimed twice");
    if (snic_ring_collector_attach(&k, stage.memory, stage.size, 0) != 0)
        explore_fail("attach after the end");
    while (snic_ring_claim(&k, &rec) == 1) {
        if ((mask >> rec.position / 16 & 1) != 0 || snic_ring_claim_release(&k, &rec) != 0)
            explore_fail("a claimed response is still there");
        mask |= (uint64_t)1 << rec.position / 16;
    }
    if (mask != 3)
        explore_fail("a response is lost");
    if (snic_get_le64((char *)stage.memory + SNIC_RING_OFF_HEAD) != 32)
        explore_fail("released space was not given back");
}

static void stage_responses(uint32_t discipline)
{
    stage_ring(SNIC_RING_RESPONSE, discipline, 0, 512);
    assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                stage.aux, sizeof(stage.aux)),
                     0);
    assert_int_equal(snic_ring_collector_attach(&stage.collector[0], stage.memory, stage.size, 0),
                     0);
    stage.collector[1] = stage.collector[0];
    stage_thread(respond_body, &stage.responder, sizeof(stage.responder));
    stage_thread(collect_body, &stage.collector[0], sizeof(stage.collector[0]));
    stage_thread(collect_body, &stage.collector[1], sizeof(stage.collector[1]));
    stage.s.final = each_once;
    stage.looks = 1;
}

/* Each response is claimed once, whole, in and out of order, and its space comes back. */
static void test_ring_explore_responses(void **state)
{
    (void)state;
    stage_responses(SNIC_RING_QUIESCENT);
    must_pass("responses in order");
    must_fail("responses in order", weak("ring_rsp_flush_ordered", EXPLORE_STORE, -1));
    must_fail("responses in order", weak("ring_claim_range", EXPLORE_LOAD, -1));
    stage_responses(SNIC_RING_COMMIT);
    must_pass("responses out of order");
    must_fail("responses out of order", weak("ring_rsp_word", EXPLORE_STORE, -1));
    must_fail("responses out of order", weak("second_ring_resp_reserve", EXPLORE_STORE, -1));
}

/* Reserves once more, where the released record was. */
static uint64_t respond_again_body(void *copy)
{
    struct snic_ring_responder *r = copy;
    struct snic_ring_rec rec;
    int e;

    memcpy(stage.aux, stage.aux_start, sizeof(stage.aux));
    e = snic_ring_resp_reserve(r, 1, stage.reuse_data, stage.reuse_body, &rec);
    if (e != 0 && e != SNIC_EAGAIN)
        explore_fail("the responder calls an honest ring corrupt");
    return 0;
}

static uint64_t claim_once_body(void *copy)
{
    struct snic_ring_rec rec;

    if (snic_ring_claim(copy, &rec) < 0)
        explore_fail("the collector calls an honest ring corrupt");
    return 0;
}

/* The holder of a record gives it back. */
static uint64_t give_back_body(void *copy)
{
    struct snic_ring_collector *k = copy;
    struct snic_ring_rec rec;

    memset(&rec, 0, sizeof(rec));
    rec.position = k->scan - 16;
    if (snic_ring_claim_release(k, &rec) != 0)
        explore_fail("release");
    return 0;
}

static void head_is_there(const uint64_t *outcome)
{
    (void)outcome;
    if (snic_get_le64((char *)stage.memory + SNIC_RING_OFF_HEAD) != 32)
        explore_fail("two neighbours were released and the head stands");
}

/* Two collectors release neighbours at once: one of them must see both. */
static void test_ring_explore_neighbours_released_head_moves(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct snic_ring_rec rec;
        struct snic_ring_op ops[4];

        stage_ring(SNIC_RING_RESPONSE, d, 0, 512);
        assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                    stage.aux, sizeof(stage.aux)),
                         0);
        for (i = 0; i < 2; i++) {
            assert_int_equal(snic_ring_resp_reserve(&stage.responder, 1, 8, 0, &rec), 0);
            assert_int_equal(snic_ring_resp_finish(&stage.responder, rec.position, 0), 0);
        }
        assert_int_equal(snic_ring_resp_flush(&stage.responder, ops, 4), 0);
        for (i = 0; i < 2; i++) {
            assert_int_equal(
                snic_ring_collector_attach(&stage.collector[i], stage.memory, stage.size, 0), 0);
            assert_int_equal(snic_ring_claim(&stage.collector[i], &rec), 1);
            stage_thread(give_back_body, &stage.collector[i], sizeof(stage.collector[i]));
        }
        stage.s.final = head_is_there;
        must_pass("neighbours");
        must_fail("neighbours", weak("second_ring_claim_release", EXPLORE_STORE, -1));
        must_fail("neighbours", weak("ring_advance_head", EXPLORE_LOAD, -1));
    }
}

/* A collector on its walk is overtaken by H, and the responder writes where it reads: that is no
 * corruption. */
static void test_ring_explore_walk_overtaken_is_no_corruption(void **state)
{
    uint32_t d, i, body;

    (void)state;
    for (d = 0; d < 2; d++)
        for (body = 0; body < 2; body++) {
            struct snic_ring_rec rec;
            struct snic_ring_op ops[4];

            stage_ring(SNIC_RING_RESPONSE, d, 0, 1024);
            stage.reuse_data = body ? 8 : 248;
            stage.reuse_body = body ? 232 : 0;
            assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                        stage.aux, sizeof(stage.aux)),
                             0);
            for (i = 0; i < 4; i++) {
                assert_int_equal(snic_ring_resp_reserve(&stage.responder, 1, stage.reuse_data,
                                                        stage.reuse_body, &rec),
                                 0);
                assert_int_equal(
                    snic_ring_resp_finish(&stage.responder, rec.position, SNIC_RING_WHOLE_BODY), 0);
            }
            assert_int_equal(snic_ring_resp_flush(&stage.responder, ops, 4), 0);
            memcpy(stage.aux_start, stage.aux, sizeof(stage.aux));
            for (i = 0; i < 2; i++)
                assert_int_equal(
                    snic_ring_collector_attach(&stage.collector[i], stage.memory, stage.size, 0),
                    0);
            assert_int_equal(snic_ring_claim(&stage.collector[0], &rec), 1);
            stage.collector[0].scan = 16; /* give_back_body: the record at 0 */
            stage_thread(give_back_body, &stage.collector[0], sizeof(stage.collector[0]));
            stage_thread(respond_again_body, &stage.responder, sizeof(stage.responder));
            stage_thread(claim_once_body, &stage.collector[1], sizeof(stage.collector[1]));
            must_pass("overtaken");
            must_fail("overtaken", weak("ring_put_word", EXPLORE_STORE, -1));
        }
}

/* Reserves, fills and delivers one response where a released one was. */
static uint64_t respond_next_lap_body(void *copy)
{
    struct snic_ring_responder *r = copy;
    struct snic_ring_op ops[4];
    struct snic_ring_rec rec;
    int e;

    memcpy(stage.aux, stage.aux_start, sizeof(stage.aux));
    e = snic_ring_resp_reserve(r, 1, stage.reuse_data, 0, &rec);
    if (e == 0)
        e = snic_ring_resp_finish(r, rec.position, 0);
    if (e == 0)
        e = snic_ring_resp_flush(r, ops, 4);
    if (e != 0 && e != SNIC_EAGAIN)
        explore_fail("the responder calls an honest ring corrupt");
    return 0;
}

/* Gives the record at 0 back and claims what comes; its position + 1. */
static uint64_t give_back_and_claim_body(void *copy)
{
    struct snic_ring_collector *k = copy;
    struct snic_ring_rec rec;
    int n;

    give_back_body(copy);
    k->scan = 1024; /* the others are this collector's own */
    n = snic_ring_claim(k, &rec);
    if (n < 0)
        explore_fail("the collector calls an honest ring corrupt");
    return n == 1 ? rec.position + 1 : 0;
}

static uint64_t claim_position_body(void *copy)
{
    struct snic_ring_rec rec;
    int n = snic_ring_claim(copy, &rec);

    if (n < 0)
        explore_fail("the collector calls an honest ring corrupt");
    return n == 1 ? rec.position + 1 : 0;
}

static void claimed_by_one(const uint64_t *outcome)
{
    if (outcome[0] != 0 && outcome[0] == outcome[2])
        explore_fail("a response was claimed twice");
    if ((outcome[0] != 0 && outcome[0] != 1025) || (outcome[2] != 0 && outcome[2] != 1025))
        explore_fail("a released response was claimed");
}

/* A collector reads a header and is overtaken by a whole lap before it reads the record's word:
 * another's claim in the next lap is not its own to take. */
static void test_ring_explore_claim_overtaken_by_a_lap(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct snic_ring_rec rec;
        struct snic_ring_op ops[4];

        stage_ring(SNIC_RING_RESPONSE, d, 0, 1024);
        stage.reuse_data = 248;
        assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                    stage.aux, sizeof(stage.aux)),
                         0);
        for (i = 0; i < 4; i++) {
            assert_int_equal(snic_ring_resp_reserve(&stage.responder, 1, stage.reuse_data, 0, &rec),
                             0);
            assert_int_equal(snic_ring_resp_finish(&stage.responder, rec.position, 0), 0);
        }
        assert_int_equal(snic_ring_resp_flush(&stage.responder, ops, 4), 0);
        memcpy(stage.aux_start, stage.aux, sizeof(stage.aux));
        for (i = 0; i < 2; i++)
            assert_int_equal(
                snic_ring_collector_attach(&stage.collector[i], stage.memory, stage.size, 0), 0);
        for (i = 0; i < 4; i++)
            assert_int_equal(snic_ring_claim(&stage.collector[0], &rec), 1);
        stage.collector[0].scan = 16; /* give_back_body: the record at 0 */
        stage_thread(give_back_and_claim_body, &stage.collector[0], sizeof(stage.collector[0]));
        stage_thread(respond_next_lap_body, &stage.responder, sizeof(stage.responder));
        stage_thread(claim_position_body, &stage.collector[1], sizeof(stage.collector[1]));
        stage.s.final = claimed_by_one;
        must_pass("overtaken by a lap");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_explore_responses),
        cmocka_unit_test(test_ring_explore_neighbours_released_head_moves),
        cmocka_unit_test(test_ring_explore_walk_overtaken_is_no_corruption),
        cmocka_unit_test(test_ring_explore_claim_overtaken_by_a_lap),
    };

#if defined(__SANITIZE_THREAD__)
    support_skip_program("the explorer runs in one thread");
#endif
    return SUPPORT_MAIN(argc, argv, tests);
}
