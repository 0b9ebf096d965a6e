/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What time does: what stays locked or unanswered is queried, sent again or done over, and a node
 * that keeps the others waiting is suspected.
 */
#include "test_ddp_one.h"

#include "support.h"

/* A lock that stays is queried, then the write is done over, with its timestamp (H4). */
static void test_ddp_lock_stays_queries_then_replays(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, ts);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, SNIC_DDP_MSG_REPLAY);
    assert_int_equal(one_tick(&x, 1000000), 0); /* again, to both */
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 2, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_VAL], 1);
    assert_int_equal(one_get(&x), 0);
    support_guard_free(x.mem);
}

/* Strict: a VAL_P that was lost is asked for though nothing is locked (H5). */
static void test_ddp_strict_lost_val_p_queried(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_STRICT, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, ts, 0), 0);
    assert_int_equal(one_get(&x), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_P, 1, ts, 0), 0);
    assert_int_equal(snic_ddp_deadline_ns(x.d), SNIC_NEVER);
    support_guard_free(x.mem);
}

/* SUSPECT is sent when the mask changes: by whatever waits, until the last that waits does not. */
static void test_ddp_suspect_whole_mask_each_change(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    uint64_t a = x.last[SNIC_DDP_INV].ts;
    (void)one_time(&x, 150000000, 0);
    assert_int_equal(x.suspects, 0);
    (void)one_time(&x, 400000000, 0);
    assert_int_equal(x.suspects, 1); /* and not again and again */
    assert_int_equal(x.suspect, 6);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, a, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_SUSPECT], 1);
    assert_int_equal(x.suspect, 4);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0); /* another, which node 2 answers */
    uint64_t b = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, b, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, b, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.suspects, 2);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, a, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_SUSPECT], 1);
    assert_int_equal(x.suspect, 0);
    support_guard_free(x.mem);
}

/* A replay answers no client, and its suspicion ends with it all the same. */
static void test_ddp_suspect_of_replay_withdrawn(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    (void)one_time(&x, 400000000, 0);
    assert_int_equal(x.suspects, 1);
    assert_int_equal(x.suspect, 6);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 2, ts, 0), 0);
    assert_int_equal(x.suspects, 3);
    assert_int_equal(x.suspect, 0);
    /* A new epoch: all nodes begin anew. */
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    (void)one_time(&x, 400000000, 0);
    assert_int_equal(x.suspect, 6);
    assert_int_equal(one_view(&x, 7, 0, 0, 0), 0);
    assert_int_equal(x.suspect, 0);
    support_guard_free(x.mem);
}

/* A restart takes as long as it takes: only a silent node is slow. */
static void test_ddp_restart_suspects_silent_only(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_SYNCH, 0, 3);
    assert_int_equal(one_view(&x, 7, 0, 0, 1), 0);
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(one_message(&x, SNIC_DDP_DIGEST, 1, 0, 0), 0);
        (void)one_time(&x, 50000000, 0);
    }
    assert_int_equal(x.suspects, 1);
    assert_int_equal(x.suspect, 4);
    assert_int_equal(one_message(&x, SNIC_DDP_DIGEST, 2, 0, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_SUSPECT], 1);
    assert_int_equal(x.suspect, 0);
    /* A node that is done hears, of one that is not, that it lives. */
    assert_int_equal(one_message(&x, SNIC_DDP_RESTARTED, 1, 0, 0), 0);
    x.to[SNIC_DDP_DIGEST] = 0;
    uint64_t at = snic_ddp_deadline_ns(x.d);
    struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
    struct snic_ddp_action a;
    uint32_t reported = 0;
    x.now = at;
    assert_int_equal(snic_ddp_step(x.d, x.now, &ev), 0);
    while (snic_ddp_poll(x.d, &a) != 0)
        reported |= a.type == SNIC_DDP_SEND && a.msg.type == SNIC_DDP_DIGEST ? a.to : 0u;
    assert_int_equal(reported, 6);
    support_guard_free(x.mem);
}

/* As long as a write's coordinator answers, no other node does the write over, and it is queried
 * less and less often; a node that does not answer is not waited for longer. */
static void test_ddp_live_coordinator_not_replayed(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    const uint64_t ms[] = {10, 20, 40, 80, 80};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(one_tick(&x, (ms[i] - 1) * 1000000), 0);
        assert_int_equal(x.sent[SNIC_DDP_QUERY], 0);
        assert_int_equal(one_tick(&x, 1000000), 0);
        assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
        assert_int_equal(x.sent[SNIC_DDP_INV], 0);
        if (i % 2 == 0)
            assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 1, ts, SNIC_DDP_MSG_LOCKED), 0);
        else
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    }
    assert_int_equal(one_tick(&x, ms[4] * 1000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    /* Not its coordinator's word. */
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 2, ts, SNIC_DDP_MSG_LOCKED), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, ts, SNIC_DDP_MSG_REPLAY), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, SNIC_DDP_MSG_REPLAY);
    support_guard_free(x.mem);
}

/* QUERY of a write in flight is always answered: by the write to nodes without an ACK. */
static void test_ddp_query_of_live_write_answered(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 1, ts, 0), 0);
    (void)one_time(&x, 40000000, 0);
    uint64_t deadline = snic_ddp_deadline_ns(x.d);
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 1, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    assert_int_equal(x.last[SNIC_DDP_QUERY].flags, SNIC_DDP_MSG_LOCKED);
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 2, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.to[SNIC_DDP_INV], 4);
    /* A QUERY does not delay the next resend to the silent node. */
    assert_int_equal(snic_ddp_deadline_ns(x.d), deadline);
    support_guard_free(x.mem);
}

/* What waits for logs only is not sent again at the pace of what may be lost. */
static void test_ddp_logs_waited_for_patiently(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_STRICT; model <= SNIC_DDP_RENF; model++) {
        struct one x = one_new(model, 0);
        assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
        uint64_t ts = x.last[SNIC_DDP_INV].ts;
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
        assert_int_equal(one_time(&x, 5000000, SNIC_DDP_INV), 2);
        assert_int_equal(x.to[SNIC_DDP_INV], 4); /* not the one that has stored it */
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, ts, 0), 0);
        assert_int_equal(one_time(&x, 60000000, SNIC_DDP_INV), 0);
        assert_int_equal(one_time(&x, 10000000, SNIC_DDP_INV), 1); /* ACK_P may be lost */
        assert_int_equal(x.to[SNIC_DDP_INV], 6);
        support_guard_free(x.mem);
    }
}

static int request_purge(struct one *x, uint64_t ts)
{
    struct snic_ddp_msg m = {.type = SNIC_DDP_PURGE_REQUEST,
                             .src = 1,
                             .epoch = x->view.epoch,
                             .key = world_key(2),
                             .ts = ts};
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    assert_int_equal(one_step(x, &ev), 0);
    return x->sent[SNIC_DDP_PURGE_ACK] != 0;
}

/* A lock that is patiently queried stands in the way of newer tombstones all the same (A4). */
static void test_ddp_patient_lock_holds_back_purge(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    uint64_t gone = snic_ddp_ts(1, 4, 2);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(request_purge(&x, gone), 0);
    for (uint64_t ms = 10; ms <= 80; ms *= 2) {
        assert_int_equal(one_tick(&x, ms * 1000000), 0);
        assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
        assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 1, ts, SNIC_DDP_MSG_LOCKED), 0);
        assert_int_equal(request_purge(&x, gone), 0);
    }
    assert_int_equal(one_message(&x, SNIC_DDP_VAL, 1, ts, 0), 0);
    assert_int_equal(request_purge(&x, gone), 1);
    support_guard_free(x.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_lock_stays_queries_then_replays),
        cmocka_unit_test(test_ddp_strict_lost_val_p_queried),
        cmocka_unit_test(test_ddp_suspect_whole_mask_each_change),
        cmocka_unit_test(test_ddp_suspect_of_replay_withdrawn),
        cmocka_unit_test(test_ddp_restart_suspects_silent_only),
        cmocka_unit_test(test_ddp_live_coordinator_not_replayed),
        cmocka_unit_test(test_ddp_query_of_live_write_answered),
        cmocka_unit_test(test_ddp_logs_waited_for_patiently),
        cmocka_unit_test(test_ddp_patient_lock_holds_back_purge),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
