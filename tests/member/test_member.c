/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * member, its contract: one engine that a test talks to as the other nodes would. What clusters do
 * is test_member_cluster.c, and test_member_sim.c under faults.
 */
#include "test_member_one.h"

#include "member/member_priv.h"
#include "support.h"

#include <stdlib.h>

/* ---- Options, memory, order of calls ---- */

static void test_member_options_out_of_range_refused(void **state)
{
    struct snic_member_opts good = {.opts_size = sizeof(good), .configured = 7};
    struct snic_member_opts bad[12];
    (void)state;
    for (int i = 0; i < 12; i++)
        bad[i] = good;
    bad[0].opts_size = 3;
    bad[1].flags = 1;
    bad[2].node = 16;
    bad[3].node = 3; /* not configured */
    bad[4].witness = 8;
    bad[5].witness = 3;
    bad[6].drift_ppm = SNIC_MEMBER_DRIFT_MAX + 1;
    bad[7].lease_ns = 99 * (uint64_t)MS; /* below two heartbeats */
    bad[8].lease_max_ns = 399 * (uint64_t)MS;
    bad[9].detect_ns = 99 * (uint64_t)MS;
    bad[10].margin_ns = SNIC_MEMBER_NS_MAX + 1;
    bad[11].min_full = 17;
    struct snic_member *m = NULL;
    struct one t;
    static const char *const name[12] = {"opts_size",    "flags",     "node",      "node",
                                         "witness",      "witness",   "drift_ppm", "lease_ns",
                                         "lease_max_ns", "detect_ns", "margin_ns", "min_full"};
    assert_null(snic_member_opts_wrong(&good));
    for (int i = 0; i < 12; i++) {
        support_names(snic_member_opts_wrong(&bad[i]), name[i]);
        assert_int_equal(snic_member_memsize(&bad[i]), 0);
        assert_int_equal(snic_member_init(&m, t.mem, sizeof(t.mem), &bad[i]), SNIC_EINVAL);
        assert_null(m);
    }
    good.configured = good.witness = 1; /* no node holds data */
    support_names(snic_member_opts_wrong(&good), "configured");
    assert_int_equal(snic_member_memsize(&good), 0);
}

static void test_member_memory_short_or_crooked_refused(void **state)
{
    struct snic_member_opts o = {.opts_size = sizeof(o), .configured = 7};
    size_t size = snic_member_memsize(&o);
    struct snic_member *m = NULL;
    (void)state;
    assert_true(size > 0 && size <= 8192);
    unsigned char *mem = support_guard_alloc(size, SNIC_MEMBER_ALIGN);
    assert_int_equal(snic_member_init(&m, mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_member_init(&m, mem + 8, size, &o), SNIC_EINVAL);
    assert_null(m);
    assert_int_equal(snic_member_init(&m, mem, size, &o), 0);
    struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT, .incarnation = 1};
    struct snic_member_action a;
    ev.flags = SNIC_MEMBER_FIRST;
    assert_int_equal(snic_member_step(m, 1, &ev), 0);
    while (snic_member_poll(m, &a))
        continue;
    assert_int_equal(snic_member_check(m), 0);
    support_guard_free(mem);
}

static void test_member_events_out_of_order_refused(void **state)
{
    struct one t;
    struct snic_member_event boot = {.type = SNIC_MEMBER_BOOT, .incarnation = 1};
    struct snic_member_event ev = {.type = SNIC_MEMBER_TICK};
    (void)state;
    one_init(&t);
    assert_int_equal(snic_member_deadline_ns(t.m), SNIC_NEVER);
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    boot.flags = 1u << 7;
    assert_int_equal(one_step(&t, &boot), SNIC_EINVAL);
    boot.flags = 0;
    assert_int_equal(one_step(&t, &boot), 0);
    assert_int_equal(one_step(&t, &boot), SNIC_EINVAL);
    ev.type = SNIC_MEMBER_STORED;
    ev.id = 77;
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    ev.type = 99;
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    ev.type = SNIC_MEMBER_MESSAGE;
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    ev.type = SNIC_MEMBER_REPORT;
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    ev.kind = SNIC_MEMBER_CAUGHT_UP;
    assert_int_equal(one_step(&t, &ev), SNIC_ESTALE);
    ev.kind = SNIC_MEMBER_NEED_EPOCH;
    assert_int_equal(one_step(&t, &ev), SNIC_ESTALE);
    ev.type = SNIC_MEMBER_OVERRIDE;
    ev.mask = 1; /* itself */
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
}

/* A broken file must not be taken for a promise that was never made. */
static void test_member_record_broken_refused(void **state)
{
    struct one t;
    struct snic_member_record good = {.incarnation = 4, .since = 1}, r;
    struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT, .record = &r};
    (void)state;
    good.decided = one_view(9, 7, 0);
    for (int i = 0; i < 14; i++) {
        r = good;
        if (i == 0)
            r.incarnation = 0;
        if (i == 1)
            r.since = 5;
        if (i == 2)
            r.flags = 8;
        if (i == 3)
            r.accepted = 1;
        if (i == 4)
            r.proposal = one_view(10, 7, 0);
        if (i == 5)
            r.decided.learners = 1;
        if (i == 6)
            r.decided.full = 15;
        if (i == 7)
            r.decided.donor = 3;
        if (i == 8)
            r.decided.epoch = 0;
        if (i == 9)
            r.decided.vacant = 8; /* not configured */
        if (i == 10)
            r.decided.vacant = 4; /* and FULL */
        if (i == 11)
            r.decided.config_epoch = 10; /* later than the view */
        if (i == 12)
            r.decided.voter[1] = 0;
        if (i == 13)
            r.decided.witness = 6; /* two */
        one_init(&t);
        assert_int_equal(one_step(&t, &ev), SNIC_ECORRUPT);
    }
    r = good;
    r.cluster = 77;
    assert_int_equal(one_step(&t, &ev), SNIC_EXDEV);
    r = good;
    r.incarnation = UINT32_MAX;
    assert_int_equal(one_step(&t, &ev), SNIC_EOVERFLOW);
    assert_int_equal(one_step(&t, &(struct snic_member_event){.type = SNIC_MEMBER_BOOT}), 0);
}

static void step_back(void *ctx)
{
    struct one *t = ctx;
    struct snic_member_event ev = {.type = SNIC_MEMBER_TICK};
    (void)!snic_member_step(t->m, t->now - 1, &ev);
}

static void step_unpolled(void *ctx)
{
    struct one *t = ctx;
    struct snic_member_event ev = {.type = SNIC_MEMBER_TICK};
    (void)!snic_member_step(t->m, t->now + 1000 * (uint64_t)MS, &ev);
    (void)!snic_member_step(t->m, t->now + 1000 * (uint64_t)MS, &ev);
}

static void test_member_misuse_aborts(void **state)
{
    struct one t;
    (void)state;
    one_boot(&t, 0);
    SUPPORT_EXPECT_ABORT(step_back, &t);
    SUPPORT_EXPECT_ABORT(step_unpolled, &t);
}

/* ---- Nothing is sent before it is stored ---- */

static void test_member_prepare_promise_only_after_stored(void **state)
{
    struct one t;
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_PREPARE, 10);
    (void)state;
    one_boot(&t, 0);
    m.ballot = one_ballot(1, 1);
    assert_int_equal(one_message(&t, &m), 0);
    assert_null(one_sent(&t, SNIC_MEMBER_PROMISE));
    assert_int_equal(one_action(&t, SNIC_MEMBER_STORE)->record.promised, m.ballot);
    one_store(&t);
    assert_int_equal(one_sent(&t, SNIC_MEMBER_PROMISE)->ballot, m.ballot);
    /* The answer was lost: it is sent again. A lower ballot gets the higher. */
    assert_int_equal(one_message(&t, &m), 0);
    assert_non_null(one_sent(&t, SNIC_MEMBER_PROMISE));
    m = one_from(2, SNIC_MEMBER_PREPARE, 10);
    m.ballot = one_ballot(2, 0);
    assert_int_equal(one_message(&t, &m), 0);
    assert_int_equal(one_sent(&t, SNIC_MEMBER_REJECT)->ballot, one_ballot(1, 1));
    /* One of an epoch that is over gets its outcome. */
    m.epoch = 9;
    assert_int_equal(one_message(&t, &m), 0);
    assert_int_equal(one_sent(&t, SNIC_MEMBER_DECIDED)->view.epoch, 9);
}

static void test_member_accept_vote_only_after_stored(void **state)
{
    struct one t;
    struct snic_member_view v = one_view(10, 7, 0);
    (void)state;
    one_boot(&t, 0);
    assert_int_equal(one_accept(&t, 1, 1, &v), 0); /* excludes no node: no wait after a boot */
    assert_null(one_sent(&t, SNIC_MEMBER_ACCEPTED));
    assert_int_equal(one_action(&t, SNIC_MEMBER_STORE)->record.accepted, one_ballot(1, 1));
    one_store(&t);
    assert_int_equal(one_sent(&t, SNIC_MEMBER_ACCEPTED)->ballot, one_ballot(1, 1));
}

/* ---- Leases ---- */

/* The granter's count by its clock, to the nanosecond; holders count from when they sent. */
static void test_member_vote_waits_for_the_last_nanosecond(void **state)
{
    struct one t;
    struct snic_member_view v = one_view(10, 3, 0); /* without 2 */
    uint64_t span = (uint64_t)400 * MS * 1000500 / 999500 + 1 + 10 * (uint64_t)MS;
    (void)state;
    one_boot(&t, 0);
    one_tick(&t, 1000 * (uint64_t)MS); /* past the quiet time */
    assert_int_equal(one_heartbeat(&t, 2, 9, 5, SNIC_MEMBER_MSG_LEASE_REQUEST), 0);
    const struct snic_member_msg *g = one_sent(&t, SNIC_MEMBER_GRANT);
    assert_non_null(g);
    assert_int_equal(g->seq, 1);
    uint64_t end = t.now + span;
    assert_int_equal(one_accept(&t, 1, 1, &v), 0);
    assert_non_null(one_sent(&t, SNIC_MEMBER_FENCE));
    /* And no more grants for it meanwhile (M7), but for the others. */
    assert_int_equal(one_heartbeat(&t, 2, 9, 5, SNIC_MEMBER_MSG_LEASE_REQUEST), 0);
    assert_null(one_sent(&t, SNIC_MEMBER_GRANT));
    assert_int_equal(one_heartbeat(&t, 1, 9, 5, SNIC_MEMBER_MSG_LEASE_REQUEST), 0);
    assert_non_null(one_sent(&t, SNIC_MEMBER_GRANT));
    one_tick(&t, end - 1 - t.now);
    assert_null(one_action(&t, SNIC_MEMBER_STORE));
    assert_int_equal(snic_member_deadline_ns(t.m), end);
    one_tick(&t, 1);
    assert_int_equal(one_action(&t, SNIC_MEMBER_STORE)->record.accepted, one_ballot(1, 1));
}

static void test_member_fence_acknowledged_vote_at_once(void **state)
{
    struct one t;
    struct snic_member_view v = one_view(10, 3, 0);
    (void)state;
    for (int how = 0; how < 2; how++) {
        one_boot(&t, 0);
        one_tick(&t, 1000 * (uint64_t)MS);
        assert_int_equal(one_heartbeat(&t, 2, 9, 5, SNIC_MEMBER_MSG_LEASE_REQUEST), 0);
        assert_int_equal(one_accept(&t, 1, 1, &v), 0);
        assert_null(one_action(&t, SNIC_MEMBER_STORE));
        if (how == 0) {
            struct snic_member_msg ack = one_from(2, SNIC_MEMBER_FENCE_ACK, 9);
            ack.src_incarnation = 4; /* of a process before */
            assert_int_equal(one_message(&t, &ack), 0);
            assert_int_equal(t.m->gone, 0);
            ack.src_incarnation = 5;
            ack.epoch = 8; /* of a lease before */
            assert_int_equal(one_message(&t, &ack), 0);
            assert_int_equal(t.m->gone, 0);
            ack.epoch = 9;
            assert_int_equal(one_message(&t, &ack), 0);
        } else { /* it booted: what held the lease has ended */
            assert_int_equal(one_heartbeat(&t, 2, 9, 6, 0), 0);
        }
        assert_int_equal(t.m->gone, 4);
        one_tick(&t, snic_member_deadline_ns(t.m) - t.now);
        for (int i = 0; i < 3 && one_action(&t, SNIC_MEMBER_STORE) == NULL; i++)
            one_tick(&t, snic_member_deadline_ns(t.m) - t.now);
        assert_int_equal(one_action(&t, SNIC_MEMBER_STORE)->record.accepted, one_ballot(1, 1));
    }
}

/* A3: a node that booted has forgotten what it granted. */
static void test_member_booted_grants_and_excludes_late(void **state)
{
    struct one t;
    struct snic_member_view v = one_view(10, 3, 0);
    uint64_t span = (uint64_t)400 * MS * 1000500 / 999500 + 1 + 10 * (uint64_t)MS;
    (void)state;
    one_boot(&t, 0);
    assert_int_equal(one_accept(&t, 1, 1, &v), 0);
    for (uint64_t at = 0; at < span; at += 50 * (uint64_t)MS) {
        assert_int_equal(one_heartbeat(&t, 1, 9, 5, SNIC_MEMBER_MSG_LEASE_REQUEST), 0);
        assert_null(one_sent(&t, SNIC_MEMBER_GRANT));
        assert_null(one_action(&t, SNIC_MEMBER_STORE));
        assert_int_equal(one_accept(&t, 1, 1, &v), 0); /* its proposer is at work */
        assert_null(one_action(&t, SNIC_MEMBER_STORE));
        t.now = 1000 + snic_min_u64(at + 50 * (uint64_t)MS, span);
        if (at + 50 * (uint64_t)MS >= span) {
            t.now--;
            one_tick(&t, 0);
            assert_null(one_action(&t, SNIC_MEMBER_STORE));
            t.now++;
        }
    }
    one_tick(&t, 0);
    assert_non_null(one_action(&t, SNIC_MEMBER_STORE));
    assert_int_equal(one_heartbeat(&t, 1, 9, 5, SNIC_MEMBER_MSG_LEASE_REQUEST), 0);
    assert_non_null(one_sent(&t, SNIC_MEMBER_GRANT));
}

static void test_member_fenced_stops_serving_and_requests(void **state)
{
    struct one t;
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_GRANT, 9);
    struct snic_member_status st;
    (void)state;
    one_boot(&t, 0);
    one_tick(&t, 60 * (uint64_t)MS);
    const struct snic_member_msg *hb = one_sent(&t, SNIC_MEMBER_HEARTBEAT);
    assert_true((hb->flags & SNIC_MEMBER_MSG_LEASE_REQUEST) != 0);
    uint64_t sent = t.now;
    m.seq = hb->seq;
    m.dst_incarnation = 5;
    t.now += 30 * (uint64_t)MS;
    assert_int_equal(one_message(&t, &m), 0); /* one of three, itself does not grant yet */
    assert_null(one_action(&t, SNIC_MEMBER_LEASE));
    m.src = 2;
    m.dst_incarnation = 4; /* for a process before */
    assert_int_equal(one_message(&t, &m), 0);
    assert_null(one_action(&t, SNIC_MEMBER_LEASE));
    m.dst_incarnation = 5;
    assert_int_equal(one_message(&t, &m), 0);
    assert_int_equal(one_action(&t, SNIC_MEMBER_LEASE)->until_ns, sent + 400 * (uint64_t)MS);
    snic_member_get_status(t.m, &st);
    assert_int_equal(st.state, SNIC_MEMBER_SERVING);
    /* A fence: stop first, report then. */
    struct snic_member_msg f = one_from(2, SNIC_MEMBER_FENCE, 9);
    f.dst_incarnation = 5;
    assert_int_equal(one_message(&t, &f), 0);
    assert_int_equal(t.actions[0].type, SNIC_MEMBER_LEASE);
    assert_int_equal(t.actions[0].until_ns, 0);
    assert_non_null(one_sent(&t, SNIC_MEMBER_FENCE_ACK));
    m.src = 1;
    assert_int_equal(one_message(&t, &m), 0); /* a late grant */
    assert_null(one_action(&t, SNIC_MEMBER_LEASE));
    one_tick(&t, 60 * (uint64_t)MS);
    assert_int_equal(one_sent(&t, SNIC_MEMBER_HEARTBEAT)->flags & SNIC_MEMBER_MSG_LEASE_REQUEST, 0);
    snic_member_get_status(t.m, &st);
    assert_int_equal(st.fenced, 1);
}

/* A node that booted is not that of its file, and one voted out comes back under a new number. */
static void test_member_booted_is_fenced(void **state)
{
    struct one t;
    struct snic_member_status st;
    (void)state;
    one_boot(&t, 1);
    one_tick(&t, 60 * (uint64_t)MS);
    snic_member_get_status(t.m, &st);
    assert_int_equal(st.role, SNIC_MEMBER_ROLE_FENCED);
    assert_int_equal(st.incarnation, 5);
    one_boot(&t, 0);
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 10);
    m.view = one_view(10, 6, 0);
    assert_int_equal(one_message(&t, &m), 0);
    assert_int_equal(one_action(&t, SNIC_MEMBER_STORE)->record.incarnation, 6);
    one_store(&t);
    assert_int_equal(one_action(&t, SNIC_MEMBER_VIEW)->role, SNIC_MEMBER_ROLE_FENCED);
}

/* A9 */
static void test_member_without_file_never_votes(void **state)
{
    struct one t;
    struct snic_member_event boot = {.type = SNIC_MEMBER_BOOT, .incarnation = 700};
    struct snic_member_msg p = one_from(1, SNIC_MEMBER_PREPARE, 1);
    struct snic_member_status st;
    (void)state;
    one_init(&t);
    assert_int_equal(one_step(&t, &boot), 0);
    assert_int_equal(one_action(&t, SNIC_MEMBER_STORE)->record.flags, 0);
    one_store(&t);
    p.ballot = one_ballot(1, 1);
    assert_int_equal(one_message(&t, &p), 0);
    assert_int_equal(t.count, 0);
    snic_member_get_status(t.m, &st);
    assert_int_equal(st.vote, 0);
    one_init(&t);
    boot.incarnation = 0;
    assert_int_equal(one_step(&t, &boot), 0);
    assert_null(one_action(&t, SNIC_MEMBER_STORE));
    snic_member_get_status(t.m, &st);
    assert_int_equal(st.state, SNIC_MEMBER_LOST);
    /* Started with FIRST for a cluster that exists already: a lost disk all the same. */
    one_init(&t);
    boot.incarnation = 700;
    boot.flags = SNIC_MEMBER_FIRST;
    assert_int_equal(one_step(&t, &boot), 0);
    one_store(&t);
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 9);
    m.view = one_view(9, 7, 0);
    assert_int_equal(one_message(&t, &m), 0);
    assert_int_equal(one_action(&t, SNIC_MEMBER_STORE)->record.flags, 0);
    snic_member_get_status(t.m, &st);
    assert_int_equal(st.vote, 0);
}

/*
 * The number of an empty file needs no order: above what a view or another node knows of its node
 * the file begins anew, while it has promised nothing and no view has named it.
 */
static void test_member_empty_file_takes_later_number(void **state)
{
    const struct {
        uint32_t number, voter, incarnation, full, learners, want;
    } views[] = {
        {3, 40, 90, 6, 0, 94},   /* below both */
        {70, 40, 90, 6, 0, 161}, /* its log would pass for one of that time */
        {90, 40, 90, 7, 0, 181}, /* it would be FULL out of nothing */
        {90, 40, 90, 6, 1, 90},  /* it is that learner */
        {91, 40, 90, 6, 0, 91},  /* above both */
        {40, 40, 90, 6, 0, 40},  /* it is the voter */
        {(1 << 20) + 3, 1 << 21, 90, 6, 0, (1 << 21) + 4},
        {3, UINT32_MAX - 3, 90, 6, 0, 0}, /* there is none */
    };
    struct snic_member_status st;
    struct one t;
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(views); i++) {
        struct snic_member_event boot = {.type = SNIC_MEMBER_BOOT, .flags = SNIC_MEMBER_FIRST};
        struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 9);
        boot.incarnation = views[i].number;
        one_init(&t);
        assert_int_equal(one_step(&t, &boot), 0);
        one_store(&t);
        m.view = one_view(9, (uint16_t)views[i].full, (uint16_t)views[i].learners);
        m.view.voter[0] = views[i].voter;
        m.view.incarnation[0] = views[i].incarnation;
        assert_int_equal(one_message(&t, &m), 0);
        const struct snic_member_action *a = one_action(&t, SNIC_MEMBER_STORE);
        snic_member_get_status(t.m, &st);
        if (views[i].want == 0) {
            assert_null(a);
            assert_int_equal(st.state, SNIC_MEMBER_LOST);
            continue;
        }
        assert_int_equal(a->record.since, views[i].want);
        assert_int_equal(a->record.flags, 0);
        one_store(&t);
        snic_member_get_status(t.m, &st);
        assert_int_equal(st.vote, views[i].number == 40);
        assert_int_equal(st.role == SNIC_MEMBER_ROLE_FULL, 0);
    }
}

/* Before the first view, too: from what others have heard. But not if the file has promised. */
static void test_member_empty_file_hears_of_its_numbers(void **state)
{
    struct snic_member_event boot = {
        .type = SNIC_MEMBER_BOOT, .flags = SNIC_MEMBER_FIRST, .incarnation = 2};
    struct snic_member_msg p = one_from(1, SNIC_MEMBER_PREPARE, 1);
    struct snic_member_status st;
    struct one t;
    (void)state;
    for (uint32_t votes = 0; votes < 2; votes++) {
        one_init(&t);
        assert_int_equal(one_step(&t, &boot), 0);
        one_store(&t);
        if (votes) {
            p.ballot = one_ballot(1, 1);
            assert_int_equal(one_message(&t, &p), 0);
            one_store(&t);
        }
        assert_int_equal(one_heartbeat(&t, 1, 0, 5, SNIC_MEMBER_MSG_FIRST), 0); /* it heard 5 */
        snic_member_get_status(t.m, &st);
        assert_int_equal(st.incarnation, votes ? 2 : 8);
        if (votes)
            continue;
        assert_int_equal(st.state, SNIC_MEMBER_BOOTING);
        const struct snic_member_action *a = one_action(&t, SNIC_MEMBER_STORE);
        assert_int_equal(a->record.since, 8);
        assert_int_equal(a->record.flags, SNIC_MEMBER_REC_FIRST);
        one_store(&t);
        assert_int_equal(one_heartbeat(&t, 1, 0, 5, SNIC_MEMBER_MSG_FIRST), 0);
        snic_member_get_status(t.m, &st);
        assert_int_equal(st.incarnation, 8);
        assert_int_equal(st.hears, 1); /* of another process */
    }
}

/* ---- Hostile messages ---- */

static void test_member_messages_without_sense_counted(void **state)
{
    struct one t;
    struct snic_member_msg good = one_from(1, SNIC_MEMBER_HEARTBEAT, 9), m;
    struct snic_member_status st;
    (void)state;
    one_boot(&t, 0);
    good.seq = 1;
    for (int i = 0; i < 13; i++) {
        m = good;
        if (i == 0)
            m.src = 0;
        if (i == 1)
            m.src = 16;
        if (i == 2)
            m.src = 200;
        if (i == 3)
            m.flags = 0x40;
        if (i == 4)
            m.lease_ns = SNIC_MEMBER_NS_MAX + 1;
        if (i == 5)
            m.type = 0;
        if (i == 6)
            m.type = SNIC_MEMBER_MSG_TYPES;
        if (i == 7)
            m.seq = 0;
        if (i == 8) {
            m.type = SNIC_MEMBER_DECIDED;
            m.view = one_view(10, 7, 0);
            m.view.configured = 3; /* a member is not */
        }
        if (i == 9)
            m.epoch = SNIC_MEMBER_EPOCH_MAX + 1;
        if (i == 10) {
            m.type = SNIC_MEMBER_PREPARE;
            m.ballot = one_ballot(2, 1); /* another's */
        }
        if (i == 11)
            m.type = SNIC_MEMBER_DECIDED; /* no view */
        if (i == 12) {
            m.type = SNIC_MEMBER_ACCEPT;
            m.epoch = 10;
            m.ballot = one_ballot(1, 1);
            m.view = one_view(11, 7, 0);
        }
        assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
        snic_member_get_status(t.m, &st);
        assert_int_equal(st.refused, i + 1);
    }
    good.cluster = 77;
    assert_int_equal(one_message(&t, &good), SNIC_EXDEV);
    snic_member_get_status(t.m, &st);
    assert_int_equal(st.foreign, 1);
    assert_int_equal(st.refused, 13);
    good.cluster = 0;
    assert_int_equal(one_message(&t, &good), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_options_out_of_range_refused),
        cmocka_unit_test(test_member_memory_short_or_crooked_refused),
        cmocka_unit_test(test_member_events_out_of_order_refused),
        cmocka_unit_test(test_member_record_broken_refused),
        cmocka_unit_test(test_member_misuse_aborts),
        cmocka_unit_test(test_member_prepare_promise_only_after_stored),
        cmocka_unit_test(test_member_accept_vote_only_after_stored),
        cmocka_unit_test(test_member_vote_waits_for_the_last_nanosecond),
        cmocka_unit_test(test_member_fence_acknowledged_vote_at_once),
        cmocka_unit_test(test_member_booted_grants_and_excludes_late),
        cmocka_unit_test(test_member_fenced_stops_serving_and_requests),
        cmocka_unit_test(test_member_booted_is_fenced),
        cmocka_unit_test(test_member_without_file_never_votes),
        cmocka_unit_test(test_member_empty_file_takes_later_number),
        cmocka_unit_test(test_member_empty_file_hears_of_its_numbers),
        cmocka_unit_test(test_member_messages_without_sense_counted),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
