/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Scopes: what [PERSIST]sc promises, and a scope that is used again. */
#include "test_ddp_one.h"

#include "support.h"

/* [PERSIST]sc is answered when every log holds the scope, not before. */
static void test_ddp_scope_sync_durable_everywhere(void **state)
{
    (void)state;
    struct world *w = world_new(5, 3, SNIC_DDP_SCOPE, 0);
    world_start(w);
    int r = 0;
    int u = world_op(w, SNIC_DDP_SYNC, 0, 0, 0, 5, NULL);
    assert_int_equal(w->op[u].result, SNIC_ESTALE);
    assert_int_equal(world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 0, &r), -1);
    assert_int_equal(r, SNIC_EINVAL);
    int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 5, NULL);
    int s = world_op(w, SNIC_DDP_SYNC, 0, 0, 0, 5, NULL);
    while (w->messages > 0)
        (void)world_deliver(w, 0, 0);
    assert_int_equal(w->op[a].state, OP_OK);
    assert_int_equal(w->op[s].state, OP_OPEN); /* no log has flushed */
    struct snic_ddp_event own = {.type = SNIC_DDP_FLUSHED, .id = w->node[0].flush[0].id};
    w->node[0].flushes = 0;
    assert_int_equal(world_step(w, 0, &own), 0);
    assert_int_equal(w->op[s].state, OP_OPEN); /* the others' have not */
    world_settle(w);
    assert_int_equal(w->op[s].state, OP_OK);
    for (uint32_t n = 0; n < 3; n++)
        assert_true(world_durable(w, n, 1) >= w->op[a].ts);
    world_same(w);
    world_free(w);
}

/*
 * No log flushes, since all are full: every scope may wait for that but one, so that something can
 * still be deleted.
 */
static void test_ddp_scope_one_stays_for_deletions(void **state)
{
    (void)state;
    struct world *w = world_new(5, 3, SNIC_DDP_SCOPE, 0);
    world_start(w);
    int r = 0;
    for (uint32_t scope = 5; scope < 9; scope++) { /* as many as there are */
        assert_true(world_op(w, SNIC_DDP_WRITE, 0, 1, 0, scope, NULL) >= 0);
        while (w->messages > 0)
            (void)world_deliver(w, 0, 0);
        int s = world_op(w, SNIC_DDP_SYNC, 0, 0, 0, scope, &r);
        assert_int_equal(s < 0, scope == 8);
    }
    assert_int_equal(r, SNIC_EAGAIN);
    assert_int_equal(world_op(w, SNIC_DDP_DELETE, 0, 1, 0, 7, &r), -1);
    int u = world_op(w, SNIC_DDP_DELETE, 0, 1, 0, 8, NULL);
    while (w->messages > 0)
        (void)world_deliver(w, 0, 0);
    assert_int_equal(w->op[u].state, OP_OK);
    world_settle(w);
    int s = world_op(w, SNIC_DDP_SYNC, 0, 0, 0, 8, NULL);
    world_settle(w);
    assert_int_equal(w->op[s].state, OP_OK);
    world_same(w);
    world_free(w);
}

static int one_scope(struct one *x, uint32_t type, uint32_t src, uint64_t scope, uint32_t round)
{
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = (uint8_t)type;
    m.src = (uint8_t)src;
    m.epoch = x->view.epoch;
    m.scope = scope;
    m.index = round;
    return one_step(x, &ev);
}

static int one_flushed(struct one *x, uint32_t id)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_FLUSHED, .id = id};
    return one_step(x, &ev);
}

/*
 * A scope that is used again after SYNC: the flush for a late copy of the first [PERSIST]sc began
 * before the second one's writes came, and must not stand for the second one's.
 */
static void test_ddp_scope_used_again_flushes_again(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SCOPE, 0);
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 1), 0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_flushed(&x, x.flush), 0);
    assert_int_equal(x.sent[SNIC_DDP_PERSIST_ACK], 1);
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 1), 0); /* a copy */
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 1), 0); /* and one more */
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 0);
    uint32_t late = x.flush;
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 2), 0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_flushed(&x, late), 0);
    assert_int_equal(x.last[SNIC_DDP_PERSIST_ACK].index, 1);
    assert_int_equal(one_flushed(&x, x.flush), 0);
    assert_int_equal(x.last[SNIC_DDP_PERSIST_ACK].index, 2);
    assert_int_equal(x.last[SNIC_DDP_PERSIST_ACK].scope, 7);
    support_guard_free(x.mem);
}

/* The coordinator's side of it: what acknowledges the first SYNC does not count for the second. */
static void test_ddp_scope_used_again_old_ack_not_counted(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SCOPE, 0);
    for (uint32_t round = 1; round <= 2; round++) {
        struct snic_ddp_event write = {.type = SNIC_DDP_WRITE, .key = world_key(1), .scope = 7};
        struct snic_ddp_event sync = {.type = SNIC_DDP_SYNC, .scope = 7, .token = 5};
        assert_int_equal(one_step(&x, &write), 0);
        uint64_t ts = x.last[SNIC_DDP_INV].ts;
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, ts, 0), 0);
        assert_int_equal(one_step(&x, &sync), 0);
        assert_int_equal(x.last[SNIC_DDP_PERSIST].index, round);
        assert_int_equal(one_flushed(&x, x.flush), 0);
        for (uint32_t n = 1; n <= 2 && round == 2; n++)
            assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST_ACK, n, 7, 1), 0);
        assert_int_equal(x.did[SNIC_DDP_DONE], 0);
        for (uint32_t n = 1; n <= 2; n++)
            assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST_ACK, n, 7, round), 0);
        assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    }
    support_guard_free(x.mem);
}

/*
 * A checker's state has a FLUSH by what it is for, not by its number, which depends on what was
 * allocated before: equal states would count as different ones, found or not as the order has it.
 */
static void test_ddp_scope_canon_flush_by_purpose(void **state)
{
    (void)state;
    unsigned char bytes[3][4096];
    size_t size[3];
    struct one x = one_new(SNIC_DDP_SCOPE, 0);
    struct one y = one_new(SNIC_DDP_SCOPE, 0);
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 1), 0);
    assert_int_equal(one_scope(&y, SNIC_DDP_PERSIST, 2, 9, 1), 0);
    uint32_t first = y.flush;
    assert_int_equal(one_scope(&y, SNIC_DDP_PERSIST, 1, 7, 1), 0);
    assert_int_equal(one_flushed(&y, first), 0);
    assert_int_not_equal(x.flush, y.flush);
    size[0] = snic_ddp_canon(x.d, &x.flush, 1, bytes[0], sizeof(bytes[0]));
    size[1] = snic_ddp_canon(y.d, &y.flush, 1, bytes[1], sizeof(bytes[1]));
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);

    /* Of two, which is the first is part of the state. */
    uint32_t flush[3] = {x.flush};
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 2, 9, 1), 0);
    flush[1] = x.flush;
    flush[2] = flush[0];
    size[0] = snic_ddp_canon(x.d, flush, 2, bytes[0], sizeof(bytes[0]));
    size[1] = snic_ddp_canon(x.d, flush + 1, 2, bytes[1], sizeof(bytes[1]));
    size[2] = snic_ddp_canon(x.d, NULL, 0, bytes[2], sizeof(bytes[2]));
    assert_true(size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) != 0);
    assert_true(size[0] > size[2]);
    support_guard_free(x.mem);
    support_guard_free(y.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_scope_sync_durable_everywhere),
        cmocka_unit_test(test_ddp_scope_one_stays_for_deletions),
        cmocka_unit_test(test_ddp_scope_used_again_flushes_again),
        cmocka_unit_test(test_ddp_scope_used_again_old_ack_not_counted),
        cmocka_unit_test(test_ddp_scope_canon_flush_by_purpose),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
