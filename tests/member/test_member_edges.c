/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What hardly ever happens to the membership engine: numbers that are used up, views and messages
 * that make no sense, what comes late; and its check, broken in each way.
 */
#include "test_member_one.h"

#include "member/member_priv.h"
#include "support.h"

#include <string.h>

static struct snic_member_status status(const struct one *t)
{
    struct snic_member_status s;
    snic_member_get_status(t->m, &s);
    return s;
}

static void test_member_edges_times_out_of_range_refused(void **state)
{
    (void)state;
    const struct snic_member_opts good = {.opts_size = sizeof(good), .configured = 7};
    struct snic_member_opts o;
    assert_true(snic_member_memsize(&good) > 0);
#define BAD(field)                                                                                 \
    do {                                                                                           \
        o = good;                                                                                  \
        o.field = SNIC_MEMBER_NS_MAX + 1;                                                          \
        assert_int_equal(snic_member_memsize(&o), 0);                                              \
        support_names(snic_member_opts_wrong(&o), #field);                                         \
    } while (0)
    BAD(lease_ns);
    BAD(lease_max_ns);
    BAD(margin_ns);
    BAD(heartbeat_ns);
    BAD(detect_ns);
    BAD(slow_ns);
    BAD(silent_ns);
    BAD(retry_ns);
    BAD(backoff_ns);
    BAD(restart_wait_ns);
    BAD(rejoin_ns);
#undef BAD
}

/* No node decides such a view, and none of its records is such a record. */
static void test_member_edges_views_without_sense_refused(void **state)
{
    struct one t;
    struct snic_member_view v;
    struct snic_member_record r;
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        one_boot(&t, 0);
        v = one_view(10, 7, 0);
        v.epoch = i == 0 ? SNIC_MEMBER_EPOCH_MAX + 1 : v.epoch;
        v.restart = i == 1 ? 2 : i == 2;
        v.learners = i == 2 ? 4 : 0;
        v.full = i == 2 ? 3 : i == 3 ? 0 : v.full;
        v.donor = i == 4 ? 16 : v.donor;
        v.incarnation[1] = i == 5 ? 0 : 5;
        v.voter[1] = i == 6 ? 0 : v.voter[1];
        v.epoch = i == 7 ? 0 : v.epoch;
        struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 10);
        m.view = v;
        assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
        m.type = SNIC_MEMBER_ACCEPT;
        m.ballot = one_ballot(1, 1);
        assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
        assert_int_equal(status(&t).view.epoch, 9);
        /* The same in a file. */
        memset(&r, 0, sizeof(r));
        r.incarnation = 4;
        r.since = 1;
        r.decided = one_view(9, 7, 0);
        r.promised = r.accepted = one_ballot(1, 1);
        r.proposal = v;
        struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT, .record = &r};
        one_init(&t);
        assert_int_equal(one_step(&t, &ev), SNIC_ECORRUPT);
        r.proposal = one_view(11, 7, 0); /* not the next one */
        assert_int_equal(one_step(&t, &ev), SNIC_ECORRUPT);
        r.proposal = one_view(10, 7, 0);
        r.since = 0;
        assert_int_equal(one_step(&t, &ev), SNIC_ECORRUPT);
        r.since = 1;
        r.pad = 1;
        assert_int_equal(one_step(&t, &ev), SNIC_ECORRUPT);
        r.pad = 0;
        assert_int_equal(one_step(&t, &ev), 0);
    }
}

static void test_member_edges_messages_without_sense_refused(void **state)
{
    struct one t;
    struct snic_member_msg m;
    (void)state;
    one_boot(&t, 0);
    m = one_from(1, SNIC_MEMBER_HEARTBEAT, 9);
    m.seq = 1;
    m.lease_ns = SNIC_MEMBER_NS_MAX + 1;
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    m.lease_ns = 0;
    m.flags = 0x40;
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    m = one_from(1, SNIC_MEMBER_GRANT, 9);
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    m = one_from(1, SNIC_MEMBER_PREPARE, 10); /* of no ballot */
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    m = one_from(1, SNIC_MEMBER_PROMISE, 10);
    m.ballot = one_ballot(0, 1);
    m.view = one_view(10, 7, 0);
    m.accepted = m.ballot + 1; /* later than the promise */
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    m.accepted = m.ballot;
    m.view.full = 0;
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    m.view = one_view(11, 7, 0);
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    m = one_from(1, SNIC_MEMBER_HEARTBEAT, 9);
    m.seq = 1;
    m.src = SNIC_MEMBER_NODES_MAX; /* no node of any cluster */
    assert_int_equal(one_message(&t, &m), SNIC_EPROTO);
    assert_int_equal(status(&t).refused, 8);
    /* Of a node without a name: nothing is counted of it, and nothing granted. */
    m = one_from(1, SNIC_MEMBER_HEARTBEAT, 9);
    m.seq = 1;
    m.src_incarnation = 0;
    m.flags = SNIC_MEMBER_MSG_LEASE_REQUEST;
    m.hears = 7;
    assert_int_equal(one_message(&t, &m), 0);
    assert_int_equal(status(&t).hears & 2, 0);
    /* No node gets more time than was agreed on. */
    (void)one_tick(&t, 2000 * (uint64_t)MS);
    m.src_incarnation = 5;
    m.lease_ns = 401 * (uint64_t)MS;
    assert_int_equal(one_message(&t, &m), 0);
    assert_null(one_sent(&t, SNIC_MEMBER_GRANT));
    m.seq++;
    m.lease_ns = 400 * (uint64_t)MS;
    assert_int_equal(one_message(&t, &m), 0);
    assert_non_null(one_sent(&t, SNIC_MEMBER_GRANT));
}

static void test_member_edges_events_without_sense_refused(void **state)
{
    struct one t;
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_CAUGHT_UP};
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 10);
    (void)state;
    one_boot(&t, 0);
    m.view = one_view(10, 6, 1);
    assert_int_equal(one_message(&t, &m), 0);
    one_store(&t); /* now a learner */
    ev.epoch = 9;
    assert_int_equal(one_step(&t, &ev), SNIC_ESTALE); /* was none then */
    ev.epoch = 11;
    assert_int_equal(one_step(&t, &ev), SNIC_ESTALE); /* not yet */
    ev.epoch = 10;
    assert_int_equal(one_step(&t, &ev), 0);
    ev.kind = SNIC_MEMBER_LOG;
    ev.flags = 1u << 9;
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    ev.type = SNIC_MEMBER_OVERRIDE;
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    ev.flags = 0;
    ev.mask = 8; /* is not configured */
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL);
    ev.type = SNIC_MEMBER_STORED;
    ev.id = 0;
    assert_int_equal(one_step(&t, &ev), SNIC_EINVAL); /* none is under way */
}

/* Both others are heard in this incarnation, for so long; the engine may do what it wants. */
static uint32_t live(struct one *t, uint64_t ns, uint32_t epoch)
{
    uint64_t until = t->now + ns;
    uint32_t steps = 0;
    while (t->now < until) {
        uint64_t at = snic_min_u64(snic_member_deadline_ns(t->m), t->now + 50 * (uint64_t)MS);
        (void)one_tick(t, at > t->now ? at - t->now : 0);
        if (one_action(t, SNIC_MEMBER_STORE) != NULL)
            one_store(t);
        for (uint32_t n = 1; n < 3 && steps % 8 == 0; n++)
            (void)one_heartbeat(t, n, epoch, 5, 0);
        steps++;
        if (steps > 100000)
            fail_msg("%u steps, and still before %llu", steps, (unsigned long long)until);
    }
    return steps;
}

/* The last possible ballot was promised: nothing can be proposed, and no node spins on that. */
static void test_member_edges_ballots_used_up_waits(void **state)
{
    struct one t;
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_PREPARE, 10);
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_NEED_EPOCH};
    (void)state;
    one_boot(&t, 0);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(one_heartbeat(&t, n, 9, 5, 0), 0);
    m.ballot = one_ballot(1, SNIC_MEMBER__ROUND_MAX);
    assert_int_equal(one_message(&t, &m), 0);
    one_store(&t);
    assert_non_null(one_sent(&t, SNIC_MEMBER_PROMISE));
    ev.epoch = 9;
    assert_int_equal(one_step(&t, &ev), 0);
    uint64_t before = status(&t).proposals;
    assert_true(live(&t, 3000 * (uint64_t)MS, 9) < 1000);
    assert_int_equal(status(&t).proposals, before);
    /* Its owner may still win, and then all continues. */
    m.type = SNIC_MEMBER_DECIDED;
    m.view = one_view(10, 7, 0);
    assert_int_equal(one_message(&t, &m), 0);
    one_store(&t);
    ev.epoch = 10;
    assert_int_equal(one_step(&t, &ev), 0);
    (void)live(&t, 3000 * (uint64_t)MS, 10);
    assert_true(status(&t).proposals > before);
}

/* The last epoch: it stays, and no node spins. */
static void test_member_edges_epochs_used_up_stays(void **state)
{
    struct one t;
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, SNIC_MEMBER_EPOCH_MAX);
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_NEED_EPOCH};
    (void)state;
    one_boot(&t, 0);
    m.view = one_view(SNIC_MEMBER_EPOCH_MAX, 7, 0);
    assert_int_equal(one_message(&t, &m), 0);
    one_store(&t);
    ev.epoch = SNIC_MEMBER_EPOCH_MAX;
    assert_int_equal(one_step(&t, &ev), 0);
    assert_true(live(&t, 3000 * (uint64_t)MS, SNIC_MEMBER_EPOCH_MAX) < 1000);
    assert_int_equal(status(&t).proposals, 0);
}

/* Others counted an incarnation of it that none can follow: it looks on, as after a lost disk. */
static void test_member_edges_incarnations_used_up_looks_on(void **state)
{
    struct one t;
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 10);
    (void)state;
    one_boot(&t, 0);
    m.view = one_view(10, 7, 0);
    m.view.incarnation[0] = UINT32_MAX;
    assert_int_equal(one_message(&t, &m), 0);
    assert_null(one_action(&t, SNIC_MEMBER_STORE));
    assert_int_equal(status(&t).state, SNIC_MEMBER_LOST);
    assert_int_equal(status(&t).lease_until_ns, 0);
    m = one_from(1, SNIC_MEMBER_FENCE, 10);
    assert_int_equal(one_message(&t, &m), 0);
    assert_null(one_sent(&t, SNIC_MEMBER_FENCE_ACK));
}

/* A vote that waits for leases to end is for the highest requesting ballot. */
static void test_member_edges_lower_ballot_leaves_parked_vote(void **state)
{
    struct one t;
    struct snic_member_view without2 = one_view(10, 3, 0), without1 = one_view(10, 5, 0);
    (void)state;
    one_boot(&t, 0);
    assert_int_equal(one_accept(&t, 1, 5, &without2), 0);
    assert_null(one_action(&t, SNIC_MEMBER_STORE)); /* granted before it booted: waits */
    assert_non_null(one_sent(&t, SNIC_MEMBER_FENCE));
    assert_int_equal(one_accept(&t, 2, 4, &without1), 0);
    assert_null(one_sent(&t, SNIC_MEMBER_REJECT));
    for (uint32_t i = 0; i < 100 && one_action(&t, SNIC_MEMBER_STORE) == NULL; i++)
        (void)one_tick(&t, 10 * (uint64_t)MS);
    const struct snic_member_record *r = &one_action(&t, SNIC_MEMBER_STORE)->record;
    assert_int_equal(r->accepted, one_ballot(1, 5));
    assert_int_equal(r->proposal.full, 3);
}

/* An answer to the second half that comes in the first, and one without a request. */
static void test_member_edges_answers_out_of_turn_ignored(void **state)
{
    struct one t;
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_ACCEPTED, 10);
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_NEED_EPOCH};
    (void)state;
    one_boot(&t, 0);
    ev.epoch = 9;
    assert_int_equal(one_step(&t, &ev), 0);
    for (uint32_t i = 0; one_sent(&t, SNIC_MEMBER_PREPARE) == NULL; i++) {
        assert_true(i < 1000);
        for (uint32_t n = 1; n < 3; n++)
            (void)one_heartbeat(&t, n, 9, 5, 0);
        (void)one_tick(&t, 10 * (uint64_t)MS);
    }
    m.ballot = one_sent(&t, SNIC_MEMBER_PREPARE)->ballot;
    one_store(&t);
    for (uint8_t n = 1; n < 3; n++) {
        m.src = n;
        assert_int_equal(one_message(&t, &m), 0);
    }
    assert_null(one_sent(&t, SNIC_MEMBER_DECIDED));
    m.type = SNIC_MEMBER_PROMISE;
    assert_int_equal(one_message(&t, &m), 0);
    assert_non_null(one_sent(&t, SNIC_MEMBER_ACCEPT));
    m.src = 1;
    assert_int_equal(one_message(&t, &m), 0); /* another promise, late */
    assert_null(one_sent(&t, SNIC_MEMBER_ACCEPT));
    assert_int_equal(status(&t).view.epoch, 9);
}

/* ---- The check ---- */

#define BREAK(damage)                                                                              \
    do {                                                                                           \
        damage;                                                                                    \
        if (snic_member_check(m) != SNIC_ECORRUPT)                                                 \
            fail_msg("not noticed: %s", #damage);                                                  \
        *m = right;                                                                                \
        assert_int_equal(snic_member_check(m), 0);                                                 \
    } while (0)

static void test_member_edges_check_broken_detected(void **state)
{
    struct one t;
    (void)state;
    one_boot(&t, 0);
    (void)one_tick(&t, 2000 * (uint64_t)MS);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(one_heartbeat(&t, n, 9, 5, SNIC_MEMBER_MSG_LEASE_REQUEST), 0);
    struct snic_member *m = t.m;
    struct snic_member right = *m;
    const uint64_t ballot = UINT64_C(1) << 36 | (uint64_t)right.rec.incarnation << 4;
    assert_true(m->peers[1].grant_until_ns > m->now_ns);
    BREAK(m->booted = 2);
    BREAK(m->role = SNIC_MEMBER_ROLE_FULL + 1);
    BREAK(m->rec.since = 0);
    BREAK(m->stored = m->generation + 1);
    BREAK(m->storing = m->generation + 1);
    BREAK(m->incarnation_generation = m->generation + 1);
    BREAK(m->promise_generation = m->generation + 1);
    BREAK(m->accept_generation = m->generation + 1);
    BREAK(m->view_generation = m->generation + 1);
    BREAK(m->installed = m->rec.decided.epoch + 1);
    BREAK(m->installed = m->rec.decided.epoch - 1);
    BREAK((m->parked = 1, m->rec.promised = 2, m->parked_view = one_view(10, 7, 0)));
    BREAK((m->parked = 3, m->parked_view = one_view(11, 7, 0)));
    BREAK(m->phase = MEMBER_ACCEPTING + 1);
    BREAK((m->phase = MEMBER_PREPARING, m->ballot = ballot + 1));
    BREAK((m->phase = MEMBER_PREPARING, m->ballot = ballot + 16));
    BREAK((m->phase = MEMBER_PREPARING, m->ballot = ballot, m->rec.decided.voter[0] = 9));
    BREAK((m->phase = MEMBER_PREPARING, m->ballot = ballot, m->stored = 0));
    BREAK((m->phase = MEMBER_ACCEPTING, m->ballot = ballot));
    BREAK((m->phase = MEMBER_ACCEPTING, m->ballot = ballot, m->value = one_view(11, 7, 0)));
    BREAK((m->lease_until_ns = m->now_ns + 1, m->rec.decided.full = 6, m->rec.decided.donor = 1));
    BREAK((m->lease_until_ns = m->now_ns + 1, m->fenced = 9));
    BREAK((m->lease_until_ns = m->now_ns + 1, m->stored = 0));
    BREAK(m->gone = 1);
    BREAK((m->rec.decided.full = 3, m->gone = 4));
    BREAK(m->peers[1].grant_until_ns = m->now_ns + m->grant_ns + 1);
    BREAK(m->quiet_ns = m->now_ns + 1);
    BREAK((m->rec.promised = m->rec.accepted = 3, m->rec.proposal = one_view(10, 5, 0)));
    BREAK(m->peers[2].heard_ns = m->now_ns + 1);
    BREAK(m->peers[2].mutual_ns = m->peers[2].heard_ns + 1);
}

static int hears_one(struct one *t, uint32_t as)
{
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_HEARTBEAT, 9);
    m.seq = ++t->seq[1];
    m.hears = 7;
    m.dst_incarnation = as;
    assert_int_equal(one_message(t, &m), 0);
    return (status(t).hears & 2) != 0;
}

/* A node that reports hearing the process before this one may have ended since. */
static void test_member_edges_messages_to_an_earlier_run_do_not_count(void **state)
{
    struct one t;
    (void)state;
    one_boot(&t, 1); /* 4 was before, 5 is now */
    assert_false(hears_one(&t, 0));
    assert_false(hears_one(&t, 4));
    assert_int_equal(status(&t).state, SNIC_MEMBER_NO_MAJORITY);
    assert_true(hears_one(&t, 5));
    /* Voted out, it continues as 6: the same process. */
    one_boot(&t, 0);
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 10);
    m.view = one_view(10, 6, 0);
    assert_int_equal(one_message(&t, &m), 0);
    one_store(&t);
    assert_int_equal(status(&t).incarnation, 6);
    assert_false(hears_one(&t, 4));
    assert_true(hears_one(&t, 5));
}

/* Each gets the incarnation it is heard as; a node that is not heard, none. */
static void test_member_edges_heartbeat_names_whom_it_hears(void **state)
{
    struct one t;
    uint32_t reported = 0;
    (void)state;
    one_boot(&t, 0);
    assert_int_equal(one_heartbeat(&t, 1, 9, 6, 0), 0);
    (void)one_tick(&t, 60 * (uint64_t)MS);
    for (uint32_t i = 0; i < t.count; i++) {
        const struct snic_member_action *a = &t.actions[i];
        if (a->type != SNIC_MEMBER_SEND || a->msg.type != SNIC_MEMBER_HEARTBEAT)
            continue;
        assert_int_equal(a->msg.hears, 3);
        assert_int_equal(a->msg.dst_incarnation, a->to == 2 ? 6 : 0);
        reported |= a->to;
    }
    assert_int_equal(reported, 6);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_edges_times_out_of_range_refused),
        cmocka_unit_test(test_member_edges_views_without_sense_refused),
        cmocka_unit_test(test_member_edges_messages_without_sense_refused),
        cmocka_unit_test(test_member_edges_events_without_sense_refused),
        cmocka_unit_test(test_member_edges_ballots_used_up_waits),
        cmocka_unit_test(test_member_edges_epochs_used_up_stays),
        cmocka_unit_test(test_member_edges_incarnations_used_up_looks_on),
        cmocka_unit_test(test_member_edges_lower_ballot_leaves_parked_vote),
        cmocka_unit_test(test_member_edges_answers_out_of_turn_ignored),
        cmocka_unit_test(test_member_edges_check_broken_detected),
        cmocka_unit_test(test_member_edges_messages_to_an_earlier_run_do_not_count),
        cmocka_unit_test(test_member_edges_heartbeat_names_whom_it_hears),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
