/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Compare and swap: one of two wins, and only what is complete everywhere is compared with. */
#include "test_ddp_one.h"

#include "support.h"

/*
 * A11's single round is not enough: b is complete and x, concurrent with b and above it, is still
 * on its way here. What compares with b must not succeed.
 */
static void test_ddp_cas_hidden_write_refused(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, SNIC_DDP_EVENT, 0);
    world_start(w);
    int b = world_op(w, SNIC_DDP_WRITE, 1, 1, 0, 0, NULL);
    int xx = world_op(w, SNIC_DDP_WRITE, 2, 1, 0, 0, NULL);
    uint64_t b_ts = snic_ddp_ts(1, 2, 1);
    for (uint32_t i = 0; i < w->messages;) { /* all but x's INVs */
        if (w->message[i].m.type == SNIC_DDP_INV && w->message[i].m.src == 2)
            i++;
        else {
            (void)world_deliver(w, i, 0);
            i = 0;
        }
    }
    assert_int_equal(w->op[b].state, OP_OK);
    int r = world_op(w, SNIC_DDP_READ, 0, 1, 0, 0, NULL);
    assert_int_equal(w->op[r].ts, b_ts);
    int c = world_op(w, SNIC_DDP_CAS, 0, 1, b_ts, 0, NULL);
    world_settle(w);
    assert_int_equal(w->op[c].result, SNIC_ECANCELED);
    assert_int_equal(w->op[c].content, w->op[xx].content);
    world_check_cas(w);
    world_same(w);
    world_free(w);
}

static void test_ddp_cas_compares(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_EVENT; model++) {
        struct world *w = world_new(4, 3, model, 0);
        world_start(w);
        int a = world_op(w, SNIC_DDP_CAS, 0, 1, 0, 0, NULL); /* two create it, one wins */
        int b = world_op(w, SNIC_DDP_CAS, 1, 1, 0, 0, NULL);
        world_settle(w);
        assert_true((w->op[a].state == OP_OK) != (w->op[b].state == OP_OK));
        int won = w->op[a].state == OP_OK ? a : b;
        int c = world_op(w, SNIC_DDP_CAS, 2, 1, w->op[won].ts, 0, NULL);
        world_settle(w);
        assert_int_equal(w->op[c].state, OP_OK);
        int e = world_op(w, SNIC_DDP_CAS, 2, 1, w->op[won].ts, 0, NULL);
        world_settle(w);
        assert_int_equal(w->op[e].result, SNIC_ECANCELED);
        assert_int_equal(w->op[e].ts, w->op[c].ts);
        world_same(w);
        world_free(w);
    }
}

/* What a CAS asks is answered by what answers it: an old acknowledgement of b does not. */
static void test_ddp_cas_old_ack_not_counted(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t b = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, b, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, b, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_CAS, b), 0);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, b);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, b, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, b, SNIC_DDP_MSG_CAS), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1); /* and now it writes, one above */
    assert_int_equal(x.last[SNIC_DDP_INV].ts, snic_ddp_ts(1, 3, 0));
    support_guard_free(x.mem);
}

/* Only its coordinator decides a CAS: another node asks until it may (cas.c, C1), less and less
 * often, and does not wait any longer when it may. */
static void test_ddp_cas_lock_not_replayed_unasked(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t c = snic_ddp_ts(1, 3, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, c, SNIC_DDP_MSG_CAS), 0);
    const uint64_t ms[] = {10, 10, 20, 40, 80, 80};
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(one_tick(&x, (ms[i] - 1) * 1000000), 0);
        assert_int_equal(x.sent[SNIC_DDP_QUERY], 0);
        assert_int_equal(one_tick(&x, 1000000), 0);
        assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
        assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    }
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 1, c, SNIC_DDP_MSG_REPLAY), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, SNIC_DDP_MSG_REPLAY | SNIC_DDP_MSG_CAS);
    support_guard_free(x.mem);
}

/* Two CAS of one base: the one that is stored over the other beat it, also when the node that
 * refused the other is gone before it can report it. */
static void test_ddp_cas_beaten_by_another(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t b = snic_ddp_ts(1, 2, 1);
    uint64_t mine = snic_ddp_ts(1, 3, 0);
    uint64_t other = snic_ddp_ts(1, 3, 2);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, b, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, b, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_CAS, b), 0);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, b, SNIC_DDP_MSG_CAS), 0);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, mine);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, mine, SNIC_DDP_MSG_CAS), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, other, SNIC_DDP_MSG_CAS), 0);
    assert_int_equal(one_view(&x, 3, 0, 0, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, mine, SNIC_DDP_MSG_CAS), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_tick(&x, 10000000), 0); /* the other's coordinator is gone: replayed */
    assert_int_equal(x.last[SNIC_DDP_INV].ts, other);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, other, SNIC_DDP_MSG_CAS), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.done.result, SNIC_ECANCELED);
    assert_int_equal(x.done.msg.ts, other);
    support_guard_free(x.mem);
}

/* NACK of the CAS that creates key 1: @p ts beat it, a value or a deletion. */
static int nack_of_creation(struct one *x, uint64_t ts, uint8_t flags)
{
    struct snic_ddp_msg m = {.type = SNIC_DDP_NACK, .src = 2, .epoch = x->view.epoch};
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    m.flags = flags;
    m.key = world_key(1);
    m.seen[0] = ts;
    m.value = ts;
    return one_step(x, &ev);
}

/*
 * A late NACK of an earlier attempt to create the key brings what has been deleted and purged
 * since. The CAS is beaten, and nothing comes back.
 */
static void test_ddp_cas_beaten_by_what_is_purged(void **state)
{
    (void)state;
    for (uint32_t deleted = 0; deleted < 2; deleted++) {
        struct one x = one_new(SNIC_DDP_EVENT, 0);
        uint64_t value = snic_ddp_ts(1, 2, 1), gone = snic_ddp_ts(1, 4, 1);
        uint8_t flags = deleted ? SNIC_DDP_MSG_TOMBSTONE : 0;
        assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, gone, SNIC_DDP_MSG_TOMBSTONE), 0);
        assert_int_equal(one_appended(&x, gone), 0);
        assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, gone, 0), 0);
        assert_int_equal(one_message(&x, SNIC_DDP_PURGE, 1, gone, 0), 0);
        assert_int_equal(x.did[SNIC_DDP_FORGET], 1);
        assert_int_equal(one_client(&x, SNIC_DDP_CAS, 0), 0);
        assert_int_equal(nack_of_creation(&x, deleted ? gone : value, flags), 0);
        assert_int_equal(x.did[SNIC_DDP_APPEND], 0);
        assert_int_equal(x.did[SNIC_DDP_RELEASE], deleted ? 1 : 2); /* the CAS's, the NACK's */
        assert_int_equal(x.did[SNIC_DDP_DONE], 1);
        assert_int_equal(x.done.result, SNIC_ECANCELED);
        assert_int_equal(x.done.msg.ts, 0);
        assert_int_equal(one_get(&x), SNIC_ENOENT);
        /* What was numbered since does beat it, and is here from then on. */
        assert_int_equal(one_client(&x, SNIC_DDP_CAS, 0), 0);
        assert_int_equal(nack_of_creation(&x, snic_ddp_ts(1, 6, 1), 0), 0);
        assert_int_equal(x.did[SNIC_DDP_APPEND], 1);
        assert_int_equal(one_get(&x), SNIC_EAGAIN);
        support_guard_free(x.mem);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_cas_hidden_write_refused),
        cmocka_unit_test(test_ddp_cas_compares),
        cmocka_unit_test(test_ddp_cas_old_ack_not_counted),
        cmocka_unit_test(test_ddp_cas_lock_not_replayed_unasked),
        cmocka_unit_test(test_ddp_cas_beaten_by_another),
        cmocka_unit_test(test_ddp_cas_beaten_by_what_is_purged),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
