/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine: its contract, one behaviour at a time. What several engines do together
 * is at the end; compare and swap, scopes, learners and what time does have files of their own.
 */
#include "test_ddp_one.h"

#include "support.h"

/* Memory is as large as memsize states, and options are looked at. */
static void test_ddp_init_options_checked(void **state)
{
    (void)state;
    struct snic_ddp *d = NULL;
    struct snic_ddp_opts good = one_opts(SNIC_DDP_SYNCH, 0);
    size_t size = snic_ddp_memsize(&good);
    void *mem = support_guard_alloc(size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&d, mem, size - 1, &good), SNIC_ENOSPC);
    assert_null(d);
    struct snic_ddp_opts bad[10];
    for (size_t i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].model = 0;
    bad[1].model = 6;
    bad[2].flags = 8;
    bad[3].node = SNIC_DDP_NODES_MAX;
    bad[4].keys_max = 0;
    bad[5].writes_max = 1;
    bad[6].waits_max = 1;
    bad[7].reads_max = (1u << 20) + 1;
    bad[8].replay_ns = UINT64_MAX;
    bad[9].opts_size = 3;
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(snic_ddp_memsize(&bad[i]), 0);
        assert_int_equal(snic_ddp_init(&d, mem, size, &bad[i]), SNIC_EINVAL);
    }
    assert_int_equal(snic_ddp_init(&d, mem, size, &good), 0);
    support_guard_free(mem);
}

/* The state as bytes, to see that nothing changed. */
static size_t one_canon(struct one *x, unsigned char *out, size_t size)
{
    size_t n = snic_ddp_canon(x->d, NULL, 0, out, size);
    assert_true(n <= size);
    return n;
}

/* Each refusal leaves everything as it was. */
static void test_ddp_refused_event_changes_nothing(void **state)
{
    (void)state;
    static unsigned char before[4096];
    static unsigned char after[4096];
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t other = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, other, 0), 0);
    size_t n = one_canon(&x, before, sizeof(before));
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, other, 0), SNIC_EPROTO); /* not its own */
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, snic_ddp_ts(2, 2, 1), 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, 0, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 16, other, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 3, other, 0), SNIC_ESTALE); /* no member */
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 0, other, 0), SNIC_ESTALE); /* itself */
    assert_int_equal(one_message(&x, SNIC_DDP_VAL, 1, snic_ddp_ts(1, 9, 1), 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, other, 16), SNIC_EPROTO); /* no rules */
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, other, 7 << 4), SNIC_EPROTO);
    assert_int_equal(one_message(&x, 0, 1, other, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, 99, 1, other, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, other, 128), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_PULL, 1, 0, 0), SNIC_EPROTO); /* no learner */
    assert_int_equal(one_message(&x, SNIC_DDP_RECORD, 1, other, 0), SNIC_EPROTO);
    assert_int_equal(one_client(&x, SNIC_DDP_SYNC, 0), SNIC_EINVAL);
    assert_int_equal(one_client(&x, 99, 0), SNIC_EINVAL);
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* goes back */
    ev.type = SNIC_DDP_LOADED;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* too late */
    ev.type = SNIC_DDP_FIRE;
    ev.id = 1000;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL);
    assert_int_equal(one_canon(&x, after, sizeof(after)), n);
    assert_memory_equal(before, after, n);
    struct snic_ddp_stats info;
    snic_ddp_get_stats(x.d, &info);
    assert_int_equal(info.counters.invalid, 12);
    assert_int_equal(info.counters.foreign, 2);
    support_guard_free(x.mem);
}

/* Rooms that are full, the lease that ended. */
static void test_ddp_full_or_fenced_refused(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), SNIC_EAGAIN); /* one is for a deletion, */
    assert_int_equal(one_client(&x, SNIC_DDP_DELETE, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_DELETE, 0), SNIC_EAGAIN); /* one is for a replay */
    assert_int_equal(one_client(&x, SNIC_DDP_READ, 0), 0);             /* waits */
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_client(&x, SNIC_DDP_READ, 0), SNIC_EAGAIN);
    assert_int_equal(one_get(&x), SNIC_EAGAIN);
    x.now = 1000000000;
    assert_int_equal(one_get(&x), SNIC_ESTALE);
    assert_int_equal(one_client(&x, SNIC_DDP_READ, 0), SNIC_ESTALE);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), SNIC_ESTALE);
    /* Left out: every client hears of it. */
    x.view.epoch = 2;
    x.view.full = 6;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 4);
    assert_int_equal(x.done.result, SNIC_ESTALE); /* the read, last: shows nothing any more */
    x.view.epoch = 3;
    x.view.full = 7;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* only anew */
    support_guard_free(x.mem);
}

/*
 * Writes wait for logs that are full: of the last two places one is for a deletion and one for a
 * replay, whichever comes first, and a second of the same kind does not take the other's.
 */
static void test_ddp_last_places_of_writes_one_each(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 2; first++) {
        struct one x = one_new(SNIC_DDP_SYNCH, 0);
        struct snic_ddp_stats info;
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
        if (first != 0)
            assert_int_equal(one_client(&x, SNIC_DDP_DELETE, 0), 0);
        for (uint32_t i = 0; i < 2; i++) { /* two of node 2's, which falls silent */
            uint64_t ts = snic_ddp_ts(1, 100 + 2 * i, 2);
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, ts, 0), 0);
            (void)one_time(&x, 200000000, SNIC_DDP_INV);
            snic_ddp_get_stats(x.d, &info);
            assert_int_equal(info.counters.replays, 1);
            assert_int_equal(info.writes, 3 + first);
        }
        assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), SNIC_EAGAIN);
        assert_int_equal(one_client(&x, SNIC_DDP_DELETE, 0), first != 0 ? SNIC_EAGAIN : 0);
        assert_int_equal(one_client(&x, SNIC_DDP_DELETE, 0), SNIC_EAGAIN);
        support_guard_free(x.mem);
    }
}

/* The last version of an epoch is not passed. */
static void test_ddp_versions_used_up_requests_epoch(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t last = snic_ddp_ts(1, SNIC_DDP_VERSION_MAX - 1, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, last, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, last, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), SNIC_EAGAIN);
    assert_int_equal(x.did[SNIC_DDP_NEED_EPOCH], 1);
    x.view.epoch = 2;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    assert_true(x.last[SNIC_DDP_INV].ts > last);
    support_guard_free(x.mem);
}

/*
 * The coordinator's table (lib/ddp/model.c), as what is true after each of: stored everywhere (c),
 * durable everywhere else (p), durable here (l). 1: answered, 2: unlocked, 4: validated, 8: VAL_P.
 */
static void test_ddp_coordinator_each_model_table(void **state)
{
    (void)state;
    static const struct {
        uint32_t model;
        uint32_t flags;
        uint8_t c, cp, cpl, cl; /* what is true then */
    } rows[] = {
        {SNIC_DDP_SYNCH, 0, 0, 0, 7, 0},
        {SNIC_DDP_STRICT, 0, 6, 6, 15, 6},
        {SNIC_DDP_STRICT, SNIC_DDP_VALC_AFTER_PERSIST, 0, 0, 15, 6},
        {SNIC_DDP_RENF, 0, 1, 1, 7, 1},
        {SNIC_DDP_EVENT, 0, 7, 7, 7, 7},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        for (uint32_t order = 0; order < 2; order++) {
            struct one x = one_new(rows[i].model, rows[i].flags);
            uint32_t is = 0;
            int whole = rows[i].model == SNIC_DDP_SYNCH;
            int c_only = rows[i].model == SNIC_DDP_EVENT;
            assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
            uint64_t ts = x.last[SNIC_DDP_INV].ts;
            for (uint32_t phase = 0; phase < 3; phase++) {
                /* c, p, l or c, l, p. */
                uint32_t what = phase == 0 ? 0 : (phase == 1) == (order == 0) ? 1 : 2;
                for (uint32_t n = 1; n < 3; n++) {
                    if (what == 2 && n == 2)
                        break;
                    if (what == 2)
                        assert_int_equal(one_appended(&x, ts), 0);
                    else if (what == 0 && !whole)
                        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, ts, 0), 0);
                    else if (what == 1 && !c_only)
                        assert_int_equal(
                            one_message(&x, whole ? SNIC_DDP_ACK : SNIC_DDP_ACK_P, n, ts, 0), 0);
                    else
                        continue;
                    is |= x.did[SNIC_DDP_DONE] != 0 ? 1 : 0;
                    is |= x.sent[SNIC_DDP_VAL] + x.sent[SNIC_DDP_VAL_C] != 0 ? 4 : 0;
                    is |= x.sent[SNIC_DDP_VAL_P] != 0 ? 8 : 0;
                }
                is |= one_get(&x) == 0 ? 2 : 0;
                uint32_t want = phase == 0   ? rows[i].c
                                : phase == 2 ? rows[i].cpl
                                : order == 0 ? rows[i].cp
                                             : rows[i].cl;
                assert_int_equal(is, want);
            }
            support_guard_free(x.mem);
        }
    }
}

/* The follower's, FAST and PAPER: what an INV is answered with at once, and once it is durable. */
static void test_ddp_follower_each_model_table(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_EVENT; model++) {
        for (uint32_t paper = 0; paper < 2; paper++) {
            struct one x = one_new(model, paper);
            uint64_t newer = snic_ddp_ts(1, 2, 2);
            uint64_t older = snic_ddp_ts(1, 2, 1);
            uint32_t split = model != SNIC_DDP_SYNCH;
            uint32_t p = model == SNIC_DDP_SYNCH   ? SNIC_DDP_ACK
                         : model == SNIC_DDP_EVENT ? 0
                                                   : SNIC_DDP_ACK_P;
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, newer, 0), 0);
            assert_int_equal(x.did[SNIC_DDP_APPEND], 1);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split);
            assert_int_equal(x.sent[SNIC_DDP_ACK] + x.sent[SNIC_DDP_ACK_P], 0);
            assert_int_equal(one_get(&x), SNIC_EAGAIN);
            /* The older write's INV comes after the newer one's. */
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, older, 0), 0);
            assert_int_equal(x.did[SNIC_DDP_RELEASE], 1);
            assert_int_equal(x.did[SNIC_DDP_APPEND], 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split && !paper);
            assert_int_equal(one_appended(&x, newer), 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK] + x.sent[SNIC_DDP_ACK_P], p == 0  ? 0
                                                                            : paper ? 1
                                                                                    : 2);
            /* The newer one is complete. */
            uint32_t val =
                model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF ? SNIC_DDP_VAL : SNIC_DDP_VAL_C;
            assert_int_equal(one_message(&x, val, 2, newer, 0), 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split && paper);
            assert_int_equal(one_get(&x), 0);
            if (model == SNIC_DDP_STRICT)
                assert_int_equal(one_message(&x, SNIC_DDP_VAL_P, 2, newer, 0), 0);
            assert_int_equal(p != 0 ? x.sent[p] : 0, p != 0 && paper);
            /* Twice the same INV: acknowledged again, never locked again (H3). */
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, newer, 0), 0);
            assert_int_equal(one_get(&x), 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split);
            assert_int_equal(p != 0 ? x.sent[p] : 0, p != 0);
            assert_int_equal(x.did[SNIC_DDP_RELEASE], 1);
            assert_int_equal(snic_ddp_deadline_ns(x.d), SNIC_NEVER);
            support_guard_free(x.mem);
        }
    }
}

/* VALs that overtake each other: what is known to be everywhere only grows (H6). */
static void test_ddp_val_reordered_never_lowers(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, snic_ddp_ts(1, 2, 1), 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, snic_ddp_ts(1, 4, 2), 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 2, snic_ddp_ts(1, 4, 2), 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, snic_ddp_ts(1, 2, 1), 0), 0);
    assert_int_equal(snic_ddp_next(x.d, &cursor, &e), 0);
    assert_int_equal(e.seen[0], snic_ddp_ts(1, 4, 2));
    support_guard_free(x.mem);
}

/* A view drops what a node of another incarnation acknowledged, and asks the others (H19). */
static void test_ddp_epoch_keeps_acks_of_same_incarnation(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
    x.view.epoch = 2;
    x.view.incarnation[1] = 1;
    x.view.full = 5;
    x.view.learners = 2;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, ts, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), SNIC_ESTALE); /* its old one */
    x.view.epoch = 3;
    x.view.learners = 0;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1); /* node 2's counts on */
    support_guard_free(x.mem);
}

/* A deleted key leaves: promises first, then a floor under which nothing comes back (A4). */
static void test_ddp_purge_promises_then_floor(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t old = snic_ddp_ts(1, 2, 2);
    uint64_t gone = snic_ddp_ts(1, 40, 1);
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, old, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, gone, SNIC_DDP_MSG_TOMBSTONE), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_REQUEST, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0); /* locked */
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, gone, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_REQUEST, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0); /* not durable */
    assert_int_equal(one_appended(&x, gone), 0);
    /* A write of another key, numbered below, is in flight. */
    struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = world_key(2), .value = 9};
    assert_int_equal(one_step(&x, &ev), 0);
    uint64_t low = x.last[SNIC_DDP_INV].ts;
    assert_true(low < gone);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_REQUEST, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0);
    for (uint32_t n = 1; n < 3; n++) {
        struct snic_ddp_msg m = x.last[SNIC_DDP_INV];
        struct snic_ddp_event ack = {.type = SNIC_DDP_MESSAGE, .msg = &m};
        m.type = SNIC_DDP_ACK_C;
        m.src = (uint8_t)n;
        m.dst = 0;
        assert_int_equal(one_step(&x, &ack), 0);
    }
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_REQUEST, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 1);
    /* It promised: no key is numbered below any more. */
    ev.key = world_key(3);
    assert_int_equal(one_step(&x, &ev), 0);
    assert_true(x.last[SNIC_DDP_INV].ts > gone);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE, 1, gone, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_FORGET], 1);
    /* A copy of the old write comes late: as if the deletion were still here. */
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, old, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_C], 1);
    assert_int_equal(x.did[SNIC_DDP_RELEASE], 1);
    while (snic_ddp_next(x.d, &cursor, &e) == 0)
        assert_true(e.key.w[0] != world_key(1).w[0]);
    support_guard_free(x.mem);
}

/* Two nodes let in one new key each where there is room for one: both writes are answered. */
static void test_ddp_last_room_taken_twice(void **state)
{
    (void)state;
    struct world *w = world_new(support_seed(), 2, SNIC_DDP_SYNCH, 0);
    int r = 0;
    w->opts.keys_max = 2;
    for (uint32_t n = 0; n < 2; n++) {
        world_crash(w, n);
        world_boot(w, n);
    }
    world_start(w);
    (void)world_op(w, SNIC_DDP_WRITE, 0, 0, 0, 0, NULL);
    world_settle(w);
    int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 0, NULL);
    int b = world_op(w, SNIC_DDP_WRITE, 1, 2, 0, 0, NULL);
    assert_true(a >= 0 && b >= 0);
    for (uint32_t i = 0; i < 100 && w->messages > 0; i++)
        (void)world_deliver(w, 0, 0);
    world_settle(w);
    assert_int_equal(w->op[a].state, OP_OK);
    assert_int_equal(w->op[b].state, OP_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(world_op(w, SNIC_DDP_WRITE, n, 3, 0, 0, &r), -1);
        assert_int_equal(r, SNIC_ENOSPC);
    }
    world_same(w);
    world_free(w);
}

/* A view of more nodes than there is room for. */
static void test_ddp_others_max_checked(void **state)
{
    (void)state;
    struct snic_ddp *d = NULL;
    struct snic_ddp_opts o = one_opts(SNIC_DDP_SYNCH, 0);
    size_t all = snic_ddp_memsize(&o);
    o.others_max = 16;
    assert_int_equal(snic_ddp_memsize(&o), 0);
    o.others_max = 1;
    size_t size = snic_ddp_memsize(&o);
    assert_true(size < all);
    void *mem = support_guard_alloc(size, SNIC_DDP_ALIGN);
    struct snic_ddp_view v = {.epoch = 1, .full = 7};
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &v};
    assert_int_equal(snic_ddp_init(&d, mem, size, &o), 0);
    assert_int_equal(snic_ddp_step(d, 0, &ev), SNIC_EINVAL);
    v.full = 3;
    assert_int_equal(snic_ddp_step(d, 0, &ev), 0);
    support_guard_free(mem);
}

/* Strict, all crash: what was read and not yet durable is gone, as the header documents. */
static void test_ddp_strict_read_can_unhappen(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_STRICT; model++) {
        struct world *w = world_new(6, 3, model, 0);
        world_start(w);
        int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 0, NULL);
        while (w->messages > 0)
            (void)world_deliver(w, 0, 0);
        int r = world_op(w, SNIC_DDP_READ, 2, 1, 0, 0, NULL);
        assert_int_equal(w->op[a].state, OP_OPEN);
        assert_int_equal(w->op[r].state, model == SNIC_DDP_STRICT ? OP_OK : OP_OPEN);
        assert_int_equal(world_durable(w, 2, 1), 0);
        world_free(w);
    }
}

/* A copy of the memory is a node in the same state. */
static void test_ddp_copy_continues_alike(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_STRICT, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    struct one y = x;
    y.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    memcpy(y.mem, x.mem, x.size);
    y.d = y.mem;
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    for (uint32_t n = 1; n < 3; n++) {
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, ts, 0), 0);
        assert_int_equal(one_message(&y, SNIC_DDP_ACK_C, n, ts, 0), 0);
    }
    assert_int_equal(x.sent[SNIC_DDP_VAL_C], 1);
    assert_int_equal(y.sent[SNIC_DDP_VAL_C], 1);
    assert_memory_equal(x.mem, y.mem, x.size);
    support_guard_free(x.mem);
    support_guard_free(y.mem);
}

/* Every model, both modes: a write is answered, read everywhere, and nothing is left behind. */
static void test_ddp_three_nodes_write_read_everywhere(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            struct world *w = world_new(1, 3, model, flags);
            uint64_t scope = model == SNIC_DDP_SCOPE ? 9 : 0;
            world_start(w);
            int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, scope, NULL);
            int b = world_op(w, SNIC_DDP_WRITE, 2, 1, 0, scope, NULL);
            assert_true(a >= 0 && b >= 0);
            world_settle(w);
            assert_int_equal(w->op[a].state, OP_OK);
            for (uint32_t n = 0; n < 3; n++) {
                int r = world_op(w, SNIC_DDP_READ, n, 1, 0, 0, NULL);
                assert_int_equal(w->op[r].state, OP_OK);
                assert_int_equal(w->op[r].content, w->op[b].content);
                r = world_op(w, SNIC_DDP_READ, n, 2, 0, 0, NULL);
                assert_int_equal(w->op[r].result, SNIC_ENOENT);
            }
            world_same(w);
            world_free(w);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_init_options_checked),
        cmocka_unit_test(test_ddp_refused_event_changes_nothing),
        cmocka_unit_test(test_ddp_full_or_fenced_refused),
        cmocka_unit_test(test_ddp_last_places_of_writes_one_each),
        cmocka_unit_test(test_ddp_versions_used_up_requests_epoch),
        cmocka_unit_test(test_ddp_coordinator_each_model_table),
        cmocka_unit_test(test_ddp_follower_each_model_table),
        cmocka_unit_test(test_ddp_val_reordered_never_lowers),
        cmocka_unit_test(test_ddp_epoch_keeps_acks_of_same_incarnation),
        cmocka_unit_test(test_ddp_purge_promises_then_floor),
        cmocka_unit_test(test_ddp_last_room_taken_twice),
        cmocka_unit_test(test_ddp_others_max_checked),
        cmocka_unit_test(test_ddp_strict_read_can_unhappen),
        cmocka_unit_test(test_ddp_copy_continues_alike),
        cmocka_unit_test(test_ddp_three_nodes_write_read_everywhere),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
