/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Writes that are done over while there is room for few: each comes to its end in the PAPER mode
 * too, where an older write waits for a newer one (I9).
 */
#include "test_ddp_one.h"

#include "support.h"

/* The INV from one to the other arrives. */
static void arrive(struct world *w, uint32_t src, uint32_t dst)
{
    for (uint32_t i = 0; i < w->messages; i++) {
        const struct snic_ddp_msg *m = &w->message[i].m;
        if (m->type == SNIC_DDP_INV && m->src == src && m->dst == dst) {
            assert_int_equal(world_deliver(w, i, 0), 0);
            return;
        }
    }
    fail_msg("no INV from %u to %u", src, dst);
}

/* All logs end; what is on the network is lost. */
static void log_and_lose(struct world *w)
{
    for (uint32_t n = 0; n < w->nodes; n++) {
        for (uint32_t i = 0; i < w->node[n].logged; i++) {
            if (!w->node[n].log[i].reported)
                world_complete(w, n, i);
        }
    }
    w->messages = 0;
}

static void write_at(struct world *w, uint32_t node)
{
    uint64_t scope = w->opts.model == SNIC_DDP_SCOPE ? node + 1 : 0;
    assert_true(world_op(w, SNIC_DDP_WRITE, node, 1, 0, scope, NULL) >= 0);
}

static void let_pass(struct world *w, uint32_t node, uint64_t ns)
{
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    w->now += ns;
    assert_int_equal(world_step(w, node, &tick), 0);
}

/*
 * Four writes of a key, a < b < c < d, and PAPER. Node 1 works on its a and on a replay of b, which
 * are all the writes it has room for; c is of node 0; d reached node 1 alone before its coordinator
 * crashed, so only node 1 can complete it. If node 0 let the replay of b wait for c, then b
 * would wait for c, c for d at node 1, and d for the slot that b has.
 */
static void test_ddp_replay_older_waits_for_nothing(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        struct world *w = world_new_room(support_seed(), 4, model, SNIC_DDP_PAPER, 2);
        struct snic_ddp_stats info;
        world_start(w);
        write_at(w, 1); /* a */
        arrive(w, 1, 0);
        arrive(w, 1, 3);
        log_and_lose(w);
        write_at(w, 2); /* b */
        arrive(w, 2, 1);
        log_and_lose(w);
        let_pass(w, 1, 10000000); /* asks, and is not answered */
        let_pass(w, 1, 10000000);
        snic_ddp_get_stats(w->node[1].d, &info);
        assert_int_equal(info.counters.replays, 1);
        assert_int_equal(info.writes, 2);
        log_and_lose(w);
        write_at(w, 0); /* c */
        log_and_lose(w);
        write_at(w, 3); /* d */
        arrive(w, 3, 1);
        log_and_lose(w);
        world_crash(w, 2);
        world_crash(w, 3);
        world_view(w, 3, 0, 0, 0);
        world_notify_all(w);
        world_settle(w);
        world_same(w);
        world_free(w);
    }
}

/*
 * Two nodes begin from their logs. Each has of two keys what is newer and of two what is older, and
 * does the latter over first, which is all that it has room for. Waiting for the newer, each would
 * wait for the other's room.
 */
static void test_ddp_restart_replays_older_first(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        struct world *w = world_new_room(support_seed(), 2, model, SNIC_DDP_PAPER, 2);
        for (uint32_t n = 0; n < 2; n++) {
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t k = (n * 2 + i) % 4; /* node 0 has the newer of 2 and 3 */
                uint64_t version = 2 + 2 * (i / 2);
                struct snic_ddp_key key = world_key(k);
                world_load(w, n, &key, snic_ddp_ts(1, version, n), 10 * k + version, 5);
            }
        }
        w->view.epoch = 1;
        world_view(w, 3, 0, 0, 1);
        world_notify_all(w);
        world_settle(w);
        world_same(w);
        for (uint32_t k = 0; k < WORLD_KEYS; k++) {
            struct snic_ddp_entry e;
            assert_true(world_look(w, 0, k, &e));
            assert_int_equal(e.ts, snic_ddp_ts(1, 4, k < 2));
        }
        world_free(w);
    }
}

/*
 * PAPER: a replay that is older than the present record is acknowledged as in FAST, and does not
 * count among those that wait for the newer write, which get half of the slots.
 */
static void test_ddp_follower_replay_as_fast(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_EVENT; model++) {
        struct one x = one_new(model, SNIC_DDP_PAPER);
        uint64_t newer = snic_ddp_ts(1, 6, 2);
        uint32_t split = model != SNIC_DDP_SYNCH;
        uint32_t p = split ? SNIC_DDP_ACK_P : SNIC_DDP_ACK;
        uint32_t durable = model != SNIC_DDP_EVENT;
        assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, newer, 0), 0);
        for (uint32_t version = 2; version <= 4; version++)
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, snic_ddp_ts(1, version, 1), 0),
                             version == 4 ? SNIC_EAGAIN : 0);
        assert_int_equal(
            one_message(&x, SNIC_DDP_INV, 1, snic_ddp_ts(1, 2, 2), SNIC_DDP_MSG_REPLAY), 0);
        assert_int_equal(x.did[SNIC_DDP_RELEASE], 1);
        assert_int_equal(x.sent[SNIC_DDP_ACK_C], split);
        assert_int_equal(x.sent[SNIC_DDP_ACK] + x.sent[SNIC_DDP_ACK_P], 0);
        assert_int_equal(one_appended(&x, newer), 0);
        assert_int_equal(x.sent[SNIC_DDP_ACK_C], 0);
        assert_int_equal(x.sent[p], durable ? 2 : 0); /* the newer and the replay */
        assert_int_equal(
            one_message(&x, SNIC_DDP_INV, 1, snic_ddp_ts(1, 2, 2), SNIC_DDP_MSG_REPLAY), 0);
        assert_int_equal(x.sent[SNIC_DDP_ACK_C], split);
        assert_int_equal(x.sent[p], durable);
        support_guard_free(x.mem);
    }
}

static int times(struct world *w, uint32_t flags, uint64_t retransmit_ns, uint64_t replay_ns)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_TIMES, .ts = retransmit_ns, .scope = replay_ns};
    ev.flags = flags;
    return world_step(w, 0, &ev);
}

static uint64_t again(const struct world *w, uint32_t node)
{
    struct snic_ddp_stats info;
    snic_ddp_get_stats(w->node[node].d, &info);
    return info.counters.retransmits;
}

/*
 * Longer: a write is sent again that late. Shorter: not before one that was armed for longer.
 * AGAIN: all of them.
 */
static void test_ddp_times_changed_timers_follow(void **state)
{
    const uint64_t ms = 1000000;
    (void)state;
    struct world *w = world_new_room(support_seed(), 2, SNIC_DDP_SYNCH, 0, 4);
    world_start(w);
    assert_int_equal(times(w, 0, 0, ms), SNIC_EINVAL);
    assert_int_equal(times(w, 0, ms, 0), SNIC_EINVAL);
    assert_int_equal(times(w, 0, (UINT64_C(1) << 50) + 1, ms), SNIC_EINVAL);
    assert_int_equal(times(w, 0, ms, (UINT64_C(1) << 50) + 1), SNIC_EINVAL);
    assert_int_equal(times(w, 0, 5000 * ms, 5000 * ms), 0);
    write_at(w, 0);
    assert_true(snic_ddp_deadline_ns(w->node[0].d) == w->now + 5000 * ms);
    let_pass(w, 0, 4990 * ms);
    assert_int_equal(again(w, 0), 0);
    assert_int_equal(times(w, 0, 7 * ms, 70 * ms), 0);
    assert_true(world_op(w, SNIC_DDP_WRITE, 0, 2, 0, 0, NULL) >= 0);
    assert_int_equal(snic_ddp_check(w->node[0].d), 0);
    let_pass(w, 0, 10 * ms);
    assert_int_equal(again(w, 0), 2); /* both at once: the order of the list */
    assert_true(snic_ddp_deadline_ns(w->node[0].d) == w->now + 14 * ms);
    assert_int_equal(times(w, 1, 7 * ms, 70 * ms), SNIC_EINVAL);
    assert_int_equal(times(w, SNIC_DDP_AGAIN, 7 * ms, 70 * ms), 0);
    assert_int_equal(snic_ddp_check(w->node[0].d), 0);
    assert_true(snic_ddp_deadline_ns(w->node[0].d) == w->now + 7 * ms);
    let_pass(w, 0, 7 * ms);
    assert_int_equal(again(w, 0), 4);
    world_free(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_replay_older_waits_for_nothing),
        cmocka_unit_test(test_ddp_restart_replays_older_first),
        cmocka_unit_test(test_ddp_follower_replay_as_fast),
        cmocka_unit_test(test_ddp_times_changed_timers_follow),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
