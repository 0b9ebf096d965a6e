/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Nodes that come in: a learner and its donor, and a restart of all that reaches one node late. */
#include "test_ddp_one.h"

#include "support.h"

/* A cursor is of one donor's table: with another donor a learner begins again. */
static void test_ddp_learner_other_donor_begins_again(void **state)
{
    (void)state;
    struct one x;
    struct snic_ddp_opts o = one_opts(SNIC_DDP_SYNCH, 0);
    memset(&x, 0, sizeof(x));
    x.size = snic_ddp_memsize(&o);
    x.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&x.d, x.mem, x.size, &o), 0);
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    x.view.epoch = 1;
    x.view.full = 6;
    x.view.learners = 1;
    x.view.donor = 1;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 0);
    struct snic_ddp_msg m;
    struct snic_ddp_event end = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_PULLED;
    m.src = 1;
    m.epoch = 1;
    m.seen[0] = 5;
    assert_int_equal(one_step(&x, &end), 0); /* an empty piece */
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 5);
    x.view.epoch = 2; /* the same donor: continues */
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 5);
    x.view.epoch = 3;
    x.view.donor = 2;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 0);
    m.src = 2;
    m.epoch = 3;
    assert_int_equal(one_step(&x, &end), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 5);
    x.view.epoch = 4;
    x.view.incarnation[2] = 1; /* the same node with another table */
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 0);
    x.view.epoch = 5;
    x.view.full = 7;
    x.view.learners = 0;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* not before it has all */
    support_guard_free(x.mem);
}

/*
 * A donor whose network carries one value of an answer and drops the others: the learner gets all
 * of them, in as many questions, and suspects no node.
 */
static void test_ddp_learner_catches_up_value_by_value(void **state)
{
    (void)state;
    enum { KEYS = 100 };
    struct one donor = one_fresh(SNIC_DDP_EVENT, 0, KEYS);
    struct one x = one_fresh(SNIC_DDP_EVENT, 2, KEYS);
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    struct snic_ddp_stats info;
    assert_int_equal(one_view(&donor, 1, 0, 0, 0), 0);
    assert_int_equal(one_step(&donor, &lease), 0);
    for (uint32_t k = 0; k < KEYS; k++) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = world_key(k), .value = k + 1};
        assert_int_equal(one_step(&donor, &ev), 0);
    }
    assert_int_equal(one_view(&donor, 1, 4, 0, 0), 0);
    x.view.epoch = 1;
    assert_int_equal(one_view(&x, 1, 4, 0, 0), 0);
    for (uint32_t i = 0; x.did[SNIC_DDP_FLUSH] == 0; i++) {
        struct snic_ddp_msg m = x.last[SNIC_DDP_PULL];
        struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
        struct snic_ddp_action a;
        uint32_t records = 0;
        assert_true(i <= KEYS);
        assert_true(x.sent[SNIC_DDP_PULL] == 1);
        m.dst = 0;
        assert_int_equal(snic_ddp_step(donor.d, donor.now, &ev), 0);
        while (snic_ddp_poll(donor.d, &a) != 0) {
            assert_int_equal(a.type, SNIC_DDP_SEND);
            if (a.msg.type == SNIC_DDP_RECORD && records++ > 0)
                continue;
            m = a.msg;
            m.dst = 2;
            assert_int_equal(one_step(&x, &ev), 0);
            if (x.sent[SNIC_DDP_PULL] != 0)
                break; /* asks for the next piece */
        }
        if (x.sent[SNIC_DDP_PULL] == 0 && x.did[SNIC_DDP_FLUSH] == 0)
            assert_int_equal(one_tick(&x, 1000000), 0);
    }
    assert_int_equal(x.suspects, 0);
    snic_ddp_get_stats(x.d, &info);
    assert_int_equal(info.records, KEYS);
    support_guard_free(donor.mem);
    support_guard_free(x.mem);
}

/* Of a piece the donor lists first what it has, then sends what the learner lacks. */
static void test_ddp_donor_sends_what_is_missing(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_EVENT, 0, 3);
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    struct snic_ddp_msg m;
    struct snic_ddp_event pull = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    struct snic_ddp_stats info;
    assert_int_equal(one_view(&x, 1, 0, 0, 0), 0);
    assert_int_equal(one_step(&x, &lease), 0);
    for (uint32_t k = 0; k < 3; k++) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = world_key(k), .value = k + 1};
        assert_int_equal(one_step(&x, &ev), 0);
    }
    assert_int_equal(one_view(&x, 1, 4, 0, 0), 0);
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_PULL;
    m.src = 2;
    m.epoch = 2;
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.order, SNIC_DDP_PULLED | SNIC_DDP_RECORD << 8);
    assert_int_equal(x.sent[SNIC_DDP_RECORD], 3);
    assert_int_equal(x.last[SNIC_DDP_PULLED].seen[1], 7);
    m.seen[0] = 5;
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.sent[SNIC_DDP_RECORD], 1);
    assert_int_equal(x.last[SNIC_DDP_RECORD].index, 1);
    m.scope = 99; /* behind all */
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.sent[SNIC_DDP_RECORD], 0);
    assert_int_equal(x.last[SNIC_DDP_PULLED].seen[0], UINT64_MAX);
    support_guard_free(x.mem);
    /* One that does not serve yet is asked for nothing wrong. */
    x = one_fresh(SNIC_DDP_EVENT, 0, 3);
    assert_int_equal(one_view(&x, 3, 4, 1, 1), 0);
    m.epoch = 1;
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.did[SNIC_DDP_SEND], 0);
    snic_ddp_get_stats(x.d, &info);
    assert_int_equal(info.counters.invalid, 0);
    support_guard_free(x.mem);
}

/*
 * A key that is new since the donor listed a piece takes a number inside it, and pushes the
 * last one out of what the donor sends: that one is of the next piece then, and not waited for.
 */
static void test_ddp_learner_piece_ends_earlier(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_EVENT, 2, 40);
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    assert_int_equal(one_view(&x, 1, 4, 0, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PULL], 1);
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_PULLED;
    m.dst = 2;
    m.epoch = 1;
    m.seen[0] = 17;
    m.seen[1] = 0x1dfff; /* 13 is free, 16 gets lost */
    assert_int_equal(one_step(&x, &ev), 0);
    for (uint32_t i = 0; i < 16; i++) {
        m.type = SNIC_DDP_RECORD;
        m.key = world_key(i);
        m.ts = m.seen[0] = snic_ddp_ts(1, 2 + i, 0);
        m.seen[1] = 0;
        m.index = i;
        m.value = i + 1;
        assert_int_equal(i == 13 ? 0 : one_step(&x, &ev), 0);
    }
    assert_int_equal(x.sent[SNIC_DDP_PULL], 0);
    memset(&m.key, 0, sizeof(m.key));
    m.type = SNIC_DDP_PULLED;
    m.ts = m.value = m.index = 0;
    m.seen[0] = 16;
    m.seen[1] = 0xffff;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.sent[SNIC_DDP_PULL], 0);
    m.type = SNIC_DDP_RECORD;
    m.key = world_key(13);
    m.ts = m.seen[0] = snic_ddp_ts(1, 99, 0);
    m.seen[1] = 0;
    m.index = 13;
    m.value = 14;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.sent[SNIC_DDP_PULL], 1);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 16);
    support_guard_free(x.mem);
}

/*
 * A CAS asks whether what it is based on is the newest; the learner, which had nothing, takes that
 * for a CAS that is not decided. The donor's record has it as complete: it is decided, and if
 * its log is behind it is replayed as a write that no node may refuse.
 */
static void test_ddp_learner_record_decides(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_STRICT, 2, 4);
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    struct snic_ddp_entry e;
    struct snic_ddp_key key = world_key(1);
    uint64_t ts = snic_ddp_ts(1, 2, 0);
    assert_int_equal(one_view(&x, 1, 4, 0, 0), 0);
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_INV;
    m.flags = SNIC_DDP_MSG_CAS | SNIC_DDP_MSG_REPLAY;
    m.dst = 2;
    m.epoch = 1;
    m.key = key;
    m.ts = ts;
    m.value = 7;
    assert_int_equal(one_step(&x, &ev), 0);
    m.type = SNIC_DDP_PULLED;
    m.flags = 0;
    memset(&m.key, 0, sizeof(m.key));
    m.ts = m.value = 0;
    m.seen[0] = 1;
    m.seen[1] = 1;
    assert_int_equal(one_step(&x, &ev), 0);
    m.type = SNIC_DDP_RECORD;
    m.key = key;
    m.ts = ts;
    m.value = 8;
    m.seen[1] = 0;
    /* Not decided, and yet complete or readable: no donor has that. */
    m.flags = SNIC_DDP_MSG_CAS | SNIC_DDP_MSG_LOCKED;
    m.seen[0] = ts;
    assert_int_equal(one_step(&x, &ev), SNIC_EPROTO);
    m.flags = SNIC_DDP_MSG_CAS;
    m.seen[0] = 0;
    assert_int_equal(one_step(&x, &ev), SNIC_EPROTO);
    assert_int_equal(snic_ddp_find(x.d, &key, &e), 0);
    assert_int_equal(e.flags & SNIC_DDP_MSG_CAS, SNIC_DDP_MSG_CAS);
    m.flags = 0;
    m.seen[0] = ts;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(snic_ddp_find(x.d, &key, &e), 0);
    assert_int_equal(e.flags & (SNIC_DDP_MSG_CAS | SNIC_DDP_MSG_LOCKED), 0);
    support_guard_free(x.mem);
}

/* Others are in order and serve when a new epoch finds this node still waiting to hear so: no
 * digests come any more (H18). It must not wait for them for ever. */
static void test_ddp_restart_epoch_after_others_done(void **state)
{
    (void)state;
    struct world *w = world_new(support_seed(), 3, SNIC_DDP_SYNCH, 0);
    struct snic_ddp_stats info;
    world_view(w, 7, 0, 0, 1);
    world_notify_all(w);
    for (uint32_t served = 0; served < 2;) { /* node 2 does not hear that others are done */
        assert_true(w->messages > 0);
        const struct snic_ddp_msg *m = &w->message[0].m;
        if (m->type == SNIC_DDP_RESTARTED && m->dst == 2)
            world_drop(w, 0);
        else
            (void)world_deliver(w, 0, 0);
        served = 0;
        for (uint32_t n = 0; n < 2; n++) {
            snic_ddp_get_stats(w->node[n].d, &info);
            served += info.serves;
        }
    }
    while (w->messages > 0)
        world_drop(w, 0);
    world_view(w, 7, 0, 0, 0);
    world_notify_all(w);
    world_settle(w);
    snic_ddp_get_stats(w->node[2].d, &info);
    assert_int_equal(info.serves, 1);
    world_same(w);
    world_free(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_learner_other_donor_begins_again),
        cmocka_unit_test(test_ddp_learner_catches_up_value_by_value),
        cmocka_unit_test(test_ddp_donor_sends_what_is_missing),
        cmocka_unit_test(test_ddp_learner_piece_ends_earlier),
        cmocka_unit_test(test_ddp_learner_record_decides),
        cmocka_unit_test(test_ddp_restart_epoch_after_others_done),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
