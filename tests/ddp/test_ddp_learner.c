/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Nodes that come in: a learner and its donor, and a restart of all that reaches one node late. */
#include "test_ddp_one.h"
#include "test_ddp_pair.h"

#include "ddp/ddp_priv.h"
#include "support.h"

/* 20,000 keys of 1 KB, one of a hundred written since: few bytes, and no step of more than a few.
 */
static void test_ddp_learner_transfers_what_changed(void **state)
{
    (void)state;
    enum { KEYS = 20000, VALUE = 1000 };
    struct pair *p = pair_new(SNIC_DDP_EVENT, KEYS);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_write(p, k, VALUE);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_load(p, k, 0);
    for (uint64_t k = 0; k < KEYS; k += 100)
        pair_write(p, k, VALUE);
    p->appends = 0;
    pair_join(p, 0);
    pair_run(p);
    pair_same(p);
    struct snic_ddp_stats info = pair_stats(p);
    print_message("%llu bytes in %llu messages, %u actions a step, %llu confirmed\n",
                  (unsigned long long)p->bytes, (unsigned long long)p->sent, p->most,
                  (unsigned long long)p->confirmed);
    assert_true(p->bytes * 100 <= (uint64_t)KEYS * VALUE * 3);
    assert_int_equal(info.learning.pulled, KEYS / 100);
    assert_int_equal(info.learning.bytes, KEYS / 100 * VALUE);
    assert_int_equal(info.learning.confirmed, KEYS - KEYS / 100);
    assert_int_equal(info.learning.done, UINT64_C(1) << 32);
    assert_int_equal(p->appends, KEYS / 100); /* what is equal is in the log already */
    /* M5: nothing is done for all keys at once. */
    assert_true(p->most <= 64 && p->confirmed <= 128);
    pair_free(p);
}

/* The same, with all that may be different, and a network that loses, doubles and reorders. */
static void test_ddp_learner_of_any_log_ends_equal(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    for (uint32_t how = 0; how < 4; how++) {
        struct pair *p = pair_new(how < 2 ? SNIC_DDP_EVENT : SNIC_DDP_SYNCH, KEYS);
        for (uint64_t k = 0; k < KEYS; k++)
            pair_write(p, k, (uint32_t)(k % 300));
        for (uint64_t k = 0; k < KEYS; k++) {
            uint64_t what = snic_rng_below(&p->rng, 10);
            if (what == 0)
                continue; /* new to the learner */
            pair_load(p, what == 1 ? k + KEYS : k, what == 2);
            if (what == 3)
                pair_write(p, k, 77);
            if (what == 4)
                pair_delete(p, k);
        }
        p->lose = how % 2 != 0 ? 200 : 0;
        p->twice = 200;
        pair_join(p, how == 3 ? SNIC_DDP_RETIRED : 0);
        pair_run(p);
        pair_same(p);
        assert_int_equal(p->suspects, 0);
        assert_true(how == 3 ? p->drops + p->replaces == 0 : p->drops != 0 && p->replaces != 0);
        assert_true(how != 3 || p->appends >= KEYS);
        pair_free(p);
    }
}

/* Keys chosen so that all have one hash: compared a part at a time. */
static void test_ddp_learner_of_one_hash_ends(void **state)
{
    (void)state;
    enum { KEYS = 100 };
    struct pair *p = pair_new(SNIC_DDP_EVENT, 3 * KEYS);
    for (uint64_t k = 0; k < KEYS; k++) {
        uint64_t h = k * UINT64_C(0x9e3779b97f4a7c15);
        struct snic_ddp_key key = {{k, (h ^ h >> 32) ^ 0x1234}};
        struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = key, .value = 1, .length = 5};
        struct snic_ddp_key gone = {{k + KEYS, 0}};
        h = gone.w[0] * UINT64_C(0x9e3779b97f4a7c15);
        gone.w[1] = (h ^ h >> 32) ^ 0x1234;
        assert_int_equal(ddp_hash(&key), ddp_hash(&gone));
        p->handles[PAIR_DONOR]++;
        assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
        if (k % 3 == 0)
            pair_load_key(p, &key, snic_ddp_ts(1, 2, 0), 5, 0);
        if (k % 3 != 2)
            pair_load_key(p, &gone, snic_ddp_ts(1, 2, 0), 5, 0);
    }
    pair_join(p, 0);
    pair_run(p);
    pair_same(p);
    assert_true(p->most <= 128);
    pair_free(p);
}

/* Another epoch, another donor: what was compared stays so, the rest is compared then. */
static void test_ddp_learner_continues_in_another_epoch(void **state)
{
    (void)state;
    enum { KEYS = 5000 };
    struct pair *p = pair_new(SNIC_DDP_EVENT, KEYS);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_write(p, k, 100);
    for (uint64_t k = 0; k < KEYS; k += 2)
        pair_load(p, k, 0);
    pair_join(p, 0);
    while (pair_stats(p).learning.confirmed < KEYS / 4)
        pair_turn(p);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t done = pair_stats(p).learning.done;
        pair_join(p, 0);
        assert_true(pair_stats(p).learning.done >= done);
        for (uint32_t n = 0; n < 20; n++)
            pair_turn(p);
    }
    pair_run(p);
    pair_same(p);
    assert_int_equal(pair_stats(p).learning.confirmed, KEYS / 2);
    assert_int_equal(pair_stats(p).learning.pulled, KEYS / 2);
    pair_free(p);
}

/* Values are requested a few at a time, by their bytes: one, if it is that large. */
static void test_ddp_learner_of_large_values_is_patient(void **state)
{
    (void)state;
    enum { KEYS = 60, LARGE = 1 << 22 };
    struct pair *p = pair_new(SNIC_DDP_EVENT, KEYS);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_write(p, k, LARGE);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_load(p, k, 1);
    pair_join(p, 0);
    while (!p->caught_up) {
        uint32_t open = 0;
        for (uint32_t i = 0; i < p->count; i++) {
            const struct snic_ddp_msg *m = &p->queue[i];
            open += (m->type == SNIC_DDP_PULL && m->ts != 0) || m->type == SNIC_DDP_RECORD;
        }
        assert_true(open <= 1);
        pair_turn(p);
    }
    pair_same(p);
    pair_free(p);
}

/* A full table of what is not confirmed gives way to what comes in; so does memory (SHED). */
static void test_ddp_learner_gives_way(void **state)
{
    (void)state;
    enum { KEYS = 200 };
    struct pair *p = pair_new(SNIC_DDP_EVENT, KEYS);
    struct snic_ddp_event shed = {.type = SNIC_DDP_SHED};
    for (uint64_t k = 0; k < KEYS; k++)
        pair_write(p, k, 100);
    for (uint64_t k = 0; k < KEYS + 8; k++) /* all others */
        pair_load(p, k + KEYS, 0);
    assert_int_equal(pair_step(p, PAIR_LEARNER, &shed), SNIC_ENOENT);
    p->hold = 1;
    pair_join(p, 0);
    assert_int_equal(pair_step(p, PAIR_LEARNER, &shed), 0);
    assert_int_equal(p->drops, 1);
    p->hold = 0;
    pair_run(p);
    pair_same(p);
    assert_int_equal(pair_stats(p).learning.dropped, KEYS + 8);
    assert_int_equal(pair_step(p, PAIR_LEARNER, &shed), SNIC_ENOENT);
    pair_free(p);
    /* One that is being compared: what was sent of it is not true any more. */
    p = pair_new(SNIC_DDP_EVENT, KEYS);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_write(p, k, 100);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_load(p, k, 0);
    pair_join(p, 0);
    pair_turn(p);
    assert_true(p->count > 0 && pair_stats(p).learning.done == UINT64_C(1) << 32);
    assert_int_equal(pair_step(p, PAIR_LEARNER, &shed), 0);
    pair_run(p);
    pair_same(p);
    assert_int_equal(pair_stats(p).learning.pulled, 1);
    pair_free(p);
}

/*
 * Nothing is compared before what the log has taken is durable; and before the donor has confirmed
 * it nothing of it is visible.
 */
static void test_ddp_learner_begins_with_a_flush(void **state)
{
    (void)state;
    struct pair *p = pair_new(SNIC_DDP_SYNCH, 8);
    struct snic_ddp_key key = pair_key(1);
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    pair_write(p, 1, 3);
    pair_load(p, 1, 0);
    assert_int_equal(snic_ddp_find(p->d[PAIR_LEARNER], &key, &e), 0);
    p->hold = 1;
    pair_join(p, 0);
    assert_true(p->flushing && p->sent == 0);
    assert_int_equal(snic_ddp_find(p->d[PAIR_LEARNER], &key, &e), SNIC_ENOENT);
    assert_int_equal(snic_ddp_kept(p->d[PAIR_LEARNER], &key, &e), 0);
    assert_int_equal(snic_ddp_next(p->d[PAIR_LEARNER], &cursor, &e), 0);
    assert_int_equal(e.flags & SNIC_DDP_HINT, SNIC_DDP_HINT);
    p->hold = 0;
    pair_run(p);
    pair_same(p);
    assert_int_equal(pair_stats(p).learning.pulled, 0);
    pair_free(p);
}

/* What makes a record of the log void, when it is loaded again. */
static void test_ddp_loaded_in_the_order_of_the_log(void **state)
{
    (void)state;
    struct pair *p = pair_new(SNIC_DDP_SYNCH, 8);
    struct snic_ddp_key key = pair_key(1);
    struct snic_ddp_entry e;
    pair_load_key(p, &key, 70, 5, 0);
    pair_load_key(p, &key, 50, 6, SNIC_DDP_REPLACES);
    assert_int_equal(snic_ddp_find(p->d[PAIR_LEARNER], &key, &e), 0);
    assert_true(e.ts == 50 && e.length == 6);
    pair_load_key(p, &key, 40, 7, 0); /* an older one */
    pair_load_key(p, &key, 60, 8, SNIC_DDP_REPLACES);
    assert_int_equal(snic_ddp_find(p->d[PAIR_LEARNER], &key, &e), 0);
    assert_true(e.ts == 60 && e.length == 8);
    pair_load_key(p, &key, 60, 0, SNIC_DDP_DROPS | SNIC_DDP_MSG_TOMBSTONE);
    assert_int_equal(snic_ddp_find(p->d[PAIR_LEARNER], &key, &e), SNIC_ENOENT);
    pair_load_key(p, &key, 60, 0, SNIC_DDP_DROPS | SNIC_DDP_MSG_TOMBSTONE);
    assert_int_equal(p->handles[PAIR_LEARNER], 0);
    pair_free(p);
}

/* A PULL that no learner sends. */
static void test_ddp_donor_refuses_nonsense(void **state)
{
    (void)state;
    static const uint64_t scopes[] = {
        UINT64_C(0x101e00000000),                           /* a list of more than one hash */
        UINT64_C(0x000e00000000),                           /* no range */
        UINT64_C(0x050000000000),                           /* too many */
        UINT64_C(0x011f00000000), UINT64_C(0x041e00000001), /* beyond the last hash */
        UINT64_C(0x410000000000), UINT64_C(0x120000000000),
    };
    struct pair *p = pair_new(SNIC_DDP_SYNCH, 8);
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_PULL;
    m.src = 2;
    m.epoch = 2;
    pair_join(p, 0);
    for (uint32_t i = 0; i < SNIC_COUNTOF(scopes); i++) {
        m.scope = scopes[i];
        assert_int_equal(pair_step(p, PAIR_DONOR, &ev), SNIC_EPROTO);
    }
    m.scope = UINT64_C(0x040000000000); /* four hashes: nothing there */
    p->sent = 0;
    assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
    assert_int_equal(p->sent, 1);
    m.ts = snic_ddp_ts(1, 2, 0); /* the value of a key that is not there */
    assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
    assert_int_equal(p->sent, 1);
    pair_free(p);
}

/* A node that was left out returns with what its memory has, whatever of it the log has. */
static void test_ddp_learner_returns_with_its_memory(void **state)
{
    (void)state;
    enum { KEYS = 100 };
    struct pair *p = pair_new(SNIC_DDP_EVENT, KEYS);
    for (uint64_t k = 0; k < KEYS; k++)
        pair_write(p, k, 100);
    pair_join(p, 0);
    pair_run(p);
    pair_same(p);
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &p->view};
    p->view.epoch++;
    p->view.learners = 0;
    assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
    assert_int_equal(pair_step(p, PAIR_LEARNER, &ev), 0);
    pair_write(p, 5, 50);
    p->view.learners = 4;
    p->view.epoch++;
    assert_int_equal(pair_step(p, PAIR_LEARNER, &ev), SNIC_EINVAL); /* not as the same */
    p->view.incarnation[2] = 1;
    p->caught_up = 0;
    p->appends = 0;
    pair_join(p, 0);
    pair_run(p);
    pair_same(p);
    assert_int_equal(pair_stats(p).learning.pulled, 1);
    assert_int_equal(pair_stats(p).learning.confirmed, KEYS - 1);
    assert_int_equal(p->appends, 1);
    pair_free(p);
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

/* A restart looks at a part of its records in a step: to add them up, and to replay (M5). */
static void test_ddp_restart_in_steps(void **state)
{
    (void)state;
    enum { KEYS = 20000, PART = 4096 };
    struct one x = one_fresh(SNIC_DDP_SYNCH, 0, KEYS);
    struct snic_ddp_msg m;
    struct snic_ddp_event digest = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    uint32_t steps = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_LOADED, .key = {{k, 0}}, .value = k + 1};
        struct snic_ddp_action a;
        ev.ts = snic_ddp_ts(1, 2, 0);
        assert_int_equal(snic_ddp_step(x.d, x.now, &ev), 0);
        assert_int_equal(snic_ddp_poll(x.d, &a), 0);
    }
    x.view.epoch = 1;
    assert_int_equal(one_view(&x, 3, 0, 0, 1), 0);
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_DIGEST;
    m.src = 1;
    m.epoch = 2;
    assert_int_equal(one_step(&x, &digest), 0); /* too early: not taken */
    for (; x.sent[SNIC_DDP_DIGEST] == 0; steps++) {
        assert_true(snic_ddp_deadline_ns(x.d) <= x.now + 1);
        assert_int_equal(one_tick(&x, 1), 0);
    }
    assert_int_equal(steps, KEYS / PART);
    assert_int_equal(x.sent[SNIC_DDP_DIGEST], 64);
    (void)one_tick(&x, 1000000);
    assert_true(x.sent[SNIC_DDP_DIGEST] != 0); /* the other's is still missing */
    /* The same digests: nothing is replayed, in as many steps. */
    for (uint32_t i = 0; i < 64; i++) {
        m.index = i;
        m.scope = 0;
        m.flags = SNIC_DDP_MSG_LOCKED; /* it is still adding up */
        assert_int_equal(one_step(&x, &digest), 0);
    }
    uint64_t sums[64] = {0};
    for (uint64_t k = 0; k < KEYS; k++) {
        struct snic_ddp_key key = {{k, 0}};
        sums[ddp_hash(&key) >> 26] += ddp_rec_sum(&key, snic_ddp_ts(1, 2, 0), 0);
    }
    m.flags = 0;
    for (uint32_t i = 0; i < 64; i++) {
        m.index = i;
        m.scope = sums[i];
        assert_int_equal(one_step(&x, &digest), 0);
        assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    }
    for (steps = 0; x.sent[SNIC_DDP_RESTARTED] == 0; steps++) {
        assert_true(snic_ddp_deadline_ns(x.d) <= x.now + 1);
        assert_int_equal(one_tick(&x, 1), 0);
        assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    }
    assert_int_equal(steps, KEYS / PART);
    support_guard_free(x.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_learner_transfers_what_changed),
        cmocka_unit_test(test_ddp_learner_of_any_log_ends_equal),
        cmocka_unit_test(test_ddp_learner_of_one_hash_ends),
        cmocka_unit_test(test_ddp_learner_continues_in_another_epoch),
        cmocka_unit_test(test_ddp_learner_of_large_values_is_patient),
        cmocka_unit_test(test_ddp_learner_gives_way),
        cmocka_unit_test(test_ddp_learner_begins_with_a_flush),
        cmocka_unit_test(test_ddp_loaded_in_the_order_of_the_log),
        cmocka_unit_test(test_ddp_donor_refuses_nonsense),
        cmocka_unit_test(test_ddp_learner_returns_with_its_memory),
        cmocka_unit_test(test_ddp_learner_record_decides),
        cmocka_unit_test(test_ddp_restart_in_steps),
        cmocka_unit_test(test_ddp_restart_epoch_after_others_done),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
