/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The loop's core on io_uring: messages, timers, tasks, pollers, sleep. Every test runs with
 * the ring's flags as they are and with each of them masked away.
 */
#include "test_loop_util.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A message that ran inside post() or defer(), or out of order, would surprise every door. */
static void test_loop_idle_messages_run_later_in_order(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        struct letter a = letter(l, 'a', 0), b = letter(l, 'b', 0), c = letter(l, 'c', 0);
        struct letter d = letter(l, 'd', 0);
        trace_reset();
        snic_loop_post(l, &a.msg);
        snic_loop_post(l, &b.msg);
        snic_loop_defer(l, &c.msg);
        snic_loop_post(l, &d.msg);
        assert_string_equal(trace, "");
        assert_true(snic_loop_deadline(l) <= snic_loop_clock(l));
        assert_true(snic_loop_once(l, 0) > 0);
        assert_int_equal(trace_size, 4);
        assert_true(strchr(trace, 'a') < strchr(trace, 'b'));
        assert_true(strchr(trace, 'b') < strchr(trace, 'd')); /* of one thread, in posting order */
        assert_non_null(strchr(trace, 'c'));
        assert_int_equal(snic_loop_once(l, 0), 0);
        assert_int_equal(stats_of(l).messages, 4);
        assert_true(snic_loop_deadline(l) == SNIC_NEVER);
    }
}

/* A message that defers itself for ever must not keep timers from firing. */
static void timer_t_fires(struct snic_timer *t, uint64_t now_ns)
{
    assert_true(now_ns >= t->deadline_ns);
    trace_add('t');
}

static void test_loop_message_defers_itself_next_phase_not_starved(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        struct letter a = letter(l, 'a', 3);
        struct snic_timer t;
        snic_timer_init(&t, timer_t_fires);
        snic_loop_arm(l, &t, 0);
        trace_reset();
        snic_loop_defer(l, &a.msg);
        while (trace_size < 5)
            assert_true(snic_loop_once(l, SNIC_NEVER) > 0);
        assert_string_equal(trace, "ataaa");
    }
}

/* What a timer defers, and what that defers, runs in the same iteration: one system call takes all
 * of it to the kernel. What defers itself for ever ends the iteration all the same. */
static struct letter *timer_defers;

static void timer_t_defers(struct snic_timer *t, uint64_t now_ns)
{
    timer_t_fires(t, now_ns);
    snic_loop_defer(timer_defers->loop, &timer_defers->msg);
}

static void test_loop_timer_defers_same_iteration_runs_it(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        struct letter a = letter(l, 'a', 1);
        struct letter forever = letter(l, 'f', 20);
        struct snic_timer t;
        snic_timer_init(&t, timer_t_defers);
        timer_defers = &a;
        snic_loop_arm(l, &t, 0);
        trace_reset();
        assert_true(snic_loop_once(l, 0) > 0);
        assert_string_equal(trace, "taa");
        assert_int_equal(snic_loop_once(l, 0), 0);
        timer_defers = &forever;
        snic_loop_arm(l, &t, 0);
        trace_reset();
        assert_true(snic_loop_once(l, 0) > 0);
        assert_true(trace_size < 10);
        while (snic_loop_once(l, 0) > 0)
            ;
    }
}

/* ---- Time ---- */

struct alarm_clock {
    struct snic_timer timer;
    struct snic_loop *loop;
    char name;
    struct alarm_clock *cancels;
    int again; /* re-arm in the past so many times */
};

static void alarm_rings(struct snic_timer *t, uint64_t now_ns)
{
    struct alarm_clock *a = SNIC_CONTAINER(t, struct alarm_clock, timer);
    assert_true(now_ns >= t->deadline_ns); /* never early */
    assert_true(snic_loop_now(a->loop) == now_ns);
    trace_add(a->name);
    if (a->cancels != NULL)
        snic_loop_cancel(a->loop, &a->cancels->timer);
    if (a->again-- > 0)
        snic_loop_arm(a->loop, t, now_ns - 1);
}

static void alarm_init(struct alarm_clock *a, struct snic_loop *l, char name)
{
    memset(a, 0, sizeof(*a));
    a->loop = l;
    a->name = name;
    snic_timer_init(&a->timer, alarm_rings);
}

/* Timers out of order or early break every time-out above; cancelled ones must stay silent. */
static void test_loop_timers_fire_in_order_never_early(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        struct alarm_clock a[6];
        uint64_t now = snic_loop_now(l);
        for (int i = 0; i < 6; i++)
            alarm_init(&a[i], l, (char)('a' + i));
        trace_reset();
        snic_loop_arm(l, &a[0].timer, now + 3000000);
        snic_loop_arm(l, &a[1].timer, now + 1000000);
        snic_loop_arm(l, &a[2].timer, now + 2000000);
        snic_loop_arm(l, &a[3].timer, now + 1000000); /* tie: after b */
        snic_loop_arm(l, &a[4].timer, now + 2500000); /* cancelled from c */
        snic_loop_arm(l, &a[5].timer, now + 1);
        snic_loop_arm(l, &a[5].timer, now + 3500000); /* re-armed */
        a[2].cancels = &a[4];
        assert_true(snic_loop_deadline(l) == now + 1000000);
        while (trace_size < 5)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        assert_string_equal(trace, "bdcaf");
        assert_true(snic_loop_deadline(l) == SNIC_NEVER);
        assert_int_equal(stats_of(l).timers, 5);
    }
}

/* A timer that re-arms itself in the past must not lock the loop up, whatever else is armed. */
static void test_loop_timer_rearmed_in_the_past_fires_once_per_iteration(void **state)
{
    struct snic_loop *l = open_loop(0, 0);
    struct alarm_clock others[8];
    struct alarm_clock a;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(others); i++) {
        alarm_init(&others[i], l, 'x');
        snic_loop_arm(l, &others[i].timer, snic_loop_now(l) + UINT64_C(3600000000000));
    }
    alarm_init(&a, l, 'a');
    a.again = 3;
    trace_reset();
    snic_loop_arm(l, &a.timer, 1);
    for (size_t n = 1; n <= 4; n++) {
        assert_int_equal(snic_loop_once(l, 0), 1);
        assert_int_equal(trace_size, n);
    }
    assert_int_equal(snic_loop_once(l, 0), 0);
    snic_loop_close(l);
}

/* Sleeping shorter than asked for would be busy waiting; once(0) must not sleep. */
static void test_loop_idle_once_waits_as_requested(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        while (snic_loop_once(l, 0) > 0)
            ;
        struct snic_loop_stats before = stats_of(l);
        assert_int_equal(snic_loop_once(l, 0), 0);
        assert_int_equal(stats_of(l).sleeps, before.sleeps);
        uint64_t from = real_ns();
        int r = snic_loop_once(l, 3000000);
        assert_true(r > 0 || real_ns() - from >= 2900000);
        struct snic_loop_stats after = stats_of(l);
        assert_int_equal(after.sleeps, before.sleeps + 1);
        assert_true(after.enters - before.enters <= 2); /* idle costs no CPU */
        uint64_t t0 = snic_loop_now(l);
        uint64_t t1 = snic_loop_clock(l);
        assert_true(t1 >= t0);
    }
}

/* ---- Tasks ---- */

struct work {
    struct snic_loop_task task;
    struct snic_loop *loop;
    uint64_t left;
    uint64_t done;
    uint32_t turns;
    uint32_t overdraw; /* cost of each unit beyond the budget, once */
    int leave;         /* take itself off */
    int again;         /* make itself ready though nothing is left */
};

static uint32_t work_do(struct snic_loop_task *t, uint32_t budget)
{
    struct work *w = SNIC_CONTAINER(t, struct work, task);
    w->turns++;
    uint32_t used = (uint32_t)snic_min_u64(budget, w->left);
    w->left -= used;
    w->done += used;
    if (w->leave)
        snic_loop_unready(w->loop, t);
    if (w->again-- > 0)
        snic_loop_ready(w->loop, t);
    if (used == budget && w->overdraw != 0) {
        used += w->overdraw;
        w->overdraw = 0;
    }
    return used;
}

static void work_init(struct work *w, struct snic_loop *l, uint32_t quantum, uint64_t left)
{
    memset(w, 0, sizeof(*w));
    w->loop = l;
    w->left = left;
    snic_loop_task_init(&w->task, work_do, quantum);
}

/* Unfair turns would let one tenant or role starve the others. */
static void test_loop_busy_tasks_share_by_quantum(void **state)
{
    struct snic_loop *l = open_loop(0, 0);
    struct work a, b, c;
    (void)state;
    work_init(&a, l, 100, 100000);
    work_init(&b, l, 300, 100000);
    work_init(&c, l, 100, 250);
    snic_loop_ready(l, &a.task);
    snic_loop_ready(l, &b.task);
    snic_loop_ready(l, &c.task);
    snic_loop_ready(l, &c.task); /* harmless */
    for (int i = 0; i < 50; i++)
        assert_true(snic_loop_once(l, SNIC_NEVER) > 0);
    assert_int_equal(a.done, 50 * 100);
    assert_int_equal(b.done, 50 * 300);
    assert_int_equal(c.done, 250);
    assert_int_equal(c.turns, 3); /* 100, 100, 50 and off the list */
    assert_true(snic_loop_deadline(l) <= snic_loop_clock(l));
    snic_loop_unready(l, &a.task);
    snic_loop_unready(l, &b.task);
    snic_loop_unready(l, &b.task); /* harmless */
    assert_int_equal(snic_loop_once(l, 0), 0);
    snic_loop_close(l);
}

/* An overdraft that was forgiven would be a way to more than one's share. */
static void test_loop_task_overdraws_pays_in_later_turns(void **state)
{
    struct snic_loop *l = open_loop(0, 0);
    struct work a, b;
    (void)state;
    work_init(&a, l, 100, 100000);
    work_init(&b, l, 100, 100000);
    a.overdraw = 950;
    snic_loop_ready(l, &a.task);
    snic_loop_ready(l, &b.task);
    for (int i = 0; i < 20; i++)
        assert_true(snic_loop_once(l, 0) > 0);
    assert_int_equal(b.done, 2000);
    assert_int_equal(a.done + 950, 2000); /* the overdraft is part of its share */
    assert_int_equal(a.turns, 11);        /* 9 turns only paid, the tenth had 50 */
    snic_loop_unready(l, &a.task);
    snic_loop_unready(l, &b.task);
    snic_loop_close(l);
}

/* A task may leave, or be freed, or come back, from inside its own turn. */
static void test_loop_task_in_its_turn_leaves_or_returns(void **state)
{
    struct snic_loop *l = open_loop(0, 0);
    struct work a;
    (void)state;
    work_init(&a, l, 10, 1000);
    a.leave = 1;
    snic_loop_ready(l, &a.task);
    assert_true(snic_loop_once(l, 0) > 0);
    assert_int_equal(snic_loop_once(l, 0), 0);
    assert_int_equal(a.turns, 1);
    work_init(&a, l, 10, 5);
    a.again = 2;
    snic_loop_ready(l, &a.task);
    while (snic_loop_once(l, 0) > 0)
        ;
    assert_int_equal(a.turns, 3);
    snic_loop_close(l);
}

/* ---- Pollers ---- */

struct looker {
    struct snic_loop_poller poller;
    struct snic_loop *loop;
    int work_awake, work_sleeping; /* so many times it finds work */
    struct looker *remove;         /* when called */
};

static int looker_look(struct snic_loop_poller *p, int sleeping)
{
    struct looker *k = SNIC_CONTAINER(p, struct looker, poller);
    trace_add(sleeping ? 'S' : 'a');
    if (k->remove != NULL)
        snic_loop_poller_remove(k->loop, &k->remove->poller);
    return sleeping ? k->work_sleeping-- > 0 : k->work_awake-- > 0;
}

static struct looker looker(struct snic_loop *l)
{
    struct looker k = {.loop = l};
    snic_loop_poller_init(&k.poller, looker_look);
    return k;
}

/* Sleeping without the last look, or in spite of it, is a lost wake-up on shared memory. */
static void test_loop_poller_going_to_sleep_looks_once_more(void **state)
{
    struct snic_loop *l = open_loop(0, 0);
    struct looker k = looker(l);
    (void)state;
    snic_link_init(&k.poller.link);
    while (snic_loop_once(l, 0) > 0)
        ;
    snic_loop_poller_add(l, &k.poller);
    snic_loop_poller_add(l, &k.poller); /* harmless */
    while (snic_loop_once(l, 0) > 0)
        ;
    trace_reset();
    struct snic_loop_stats before = stats_of(l);
    k.work_awake = 1;
    assert_true(snic_loop_once(l, SNIC_NEVER) > 0); /* work: no sleep */
    assert_string_equal(trace, "a");
    k.work_awake = 0;
    k.work_sleeping = 1;
    assert_int_equal(snic_loop_once(l, SNIC_NEVER), 0); /* work at the last moment: no sleep */
    assert_string_equal(trace, "aaSa");
    assert_int_equal(stats_of(l).sleeps, before.sleeps);
    k.work_sleeping = 0;
    k.work_awake = 0;
    assert_true(snic_loop_once(l, 1) >= 0);
    assert_string_equal(trace, "aaSaaSa"); /* slept, and woke with sleeping = 0 */
    assert_int_equal(stats_of(l).sleeps, before.sleeps + 1);
    snic_loop_poller_remove(l, &k.poller);
    snic_loop_poller_remove(l, &k.poller); /* harmless */
    snic_loop_close(l);
}

/* Removal from inside the walk must neither skip a neighbour nor call a removed one. */
static void test_loop_pollers_removed_while_walking(void **state)
{
    struct snic_loop *l = open_loop(0, 0);
    struct looker k[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        k[i] = looker(l);
        snic_link_init(&k[i].poller.link);
        snic_loop_poller_add(l, &k[i].poller);
    }
    while (snic_loop_once(l, 0) > 0)
        ;
    trace_reset();
    k[1].remove = &k[1];
    (void)snic_loop_once(l, 0);
    assert_string_equal(trace, "aaa");
    (void)snic_loop_once(l, 0);
    assert_string_equal(trace, "aaaaa");
    snic_loop_poller_add(l, &k[1].poller); /* now 0, 2, 1 */
    while (snic_loop_once(l, 0) > 0)
        ;
    snic_loop_poller_add(l, &k[1].poller);
    k[1].remove = NULL;
    k[0].remove = &k[2]; /* the one that would be next */
    trace_reset();
    (void)snic_loop_once(l, 0);
    assert_string_equal(trace, "aa");
    for (int i = 0; i < 3; i++)
        snic_loop_poller_remove(l, &k[i].poller);
    (void)snic_loop_once(l, 0);
    assert_string_equal(trace, "aa");
    snic_loop_close(l);
}

/* A one-word ring with a need-wake flag, as the shared rings use it. */
struct mailbox {
    struct snic_loop_poller poller;
    struct snic_loop *loop;
    atomic_uint need_wake;
    atomic_uint full;
    uint64_t taken;
    uint64_t rounds;
};

static int mailbox_look(struct snic_loop_poller *p, int sleeping)
{
    struct mailbox *m = SNIC_CONTAINER(p, struct mailbox, poller);
    /* Sequentially consistent: the flag is published before the last look, and the producer
     * looks at the flag after it filled the box. */
    atomic_store_explicit(&m->need_wake, (unsigned)sleeping, memory_order_seq_cst);
    if (atomic_load_explicit(&m->full, memory_order_seq_cst) == 0)
        return 0;
    atomic_store_explicit(&m->full, 0, memory_order_seq_cst);
    m->taken++;
    return 1;
}

static void mailbox_member(void *ctx, unsigned index)
{
    struct mailbox *m = ctx;
    if (index == 0) {
        while (m->taken < m->rounds)
            (void)snic_loop_once(m->loop, SNIC_NEVER);
        return;
    }
    for (uint64_t i = 0; i < m->rounds; i++) {
        atomic_store_explicit(&m->full, 1, memory_order_seq_cst);
        if (atomic_load_explicit(&m->need_wake, memory_order_seq_cst) != 0)
            snic_loop_wake(m->loop);
        while (atomic_load_explicit(&m->full, memory_order_seq_cst) != 0)
            sched_yield();
    }
}

/* The protocol the rings use, against a real producer: a lost wake-up hangs. */
static void test_loop_poller_need_wake_protocol_no_item_waits(void **state)
{
    (void)state;
    for (uint32_t spin = 0; spin <= 5; spin += 5) {
        struct mailbox m = {.rounds = support_scale(2000, 200000)};
        m.loop = open_loop(0, spin);
        snic_loop_poller_init(&m.poller, mailbox_look);
        snic_link_init(&m.poller.link);
        snic_loop_poller_add(m.loop, &m.poller);
        support_threads(2, mailbox_member, &m);
        assert_int_equal(m.taken, m.rounds);
        snic_loop_poller_remove(m.loop, &m.poller);
        snic_loop_close(m.loop);
    }
}

/* ---- Stalls ---- */

struct stalls {
    uint64_t count, sum, max;
};

static void stall_seen(void *ctx, uint64_t gap_ns)
{
    struct stalls *s = ctx;
    s->count++;
    s->sum += gap_ns;
    s->max = snic_max_u64(s->max, gap_ns);
}

static void busy_message(struct snic_loop_msg *msg)
{
    (void)msg;
    uint64_t from = real_ns();
    while (real_ns() - from < 3000000)
        ;
}

/* An unreported stall makes time-outs look like the peer's fault. */
static void test_loop_busy_longer_than_limit_stall_reported(void **state)
{
    struct stalls s = {0};
    struct snic_loop *l = NULL;
    struct snic_loop_uring_opts o = {
        .opts_size = sizeof(o), .stall_ns = 1000000, .on_stall = stall_seen, .ctx = &s};
    struct snic_loop_msg m = {.fn = busy_message};
    (void)state;
    assert_int_equal(snic_loop_uring_open(&l, &o), 0);
    (void)snic_loop_once(l, 0);
    uint64_t before = s.count;
    snic_loop_defer(l, &m);
    (void)snic_loop_once(l, 0);
    (void)snic_loop_once(l, 0);
    assert_true(s.count > before);
    assert_true(s.max >= 3000000);
    assert_int_equal(stats_of(l).stalls, s.count);
    assert_int_equal(stats_of(l).stall_max_ns, s.max);
    snic_loop_close(l);
}

/* Sleeping on purpose is no stall: reports would be noise. */
static void test_loop_intended_sleep_not_a_stall(void **state)
{
    int fine = 0;
    (void)state;
    for (int attempt = 0; attempt < 10 && !fine; attempt++) { /* the machine may stall for real */
        struct stalls s = {0};
        struct snic_loop *l = NULL;
        struct snic_loop_uring_opts o = {
            .opts_size = sizeof(o), .stall_ns = 10000000, .on_stall = stall_seen, .ctx = &s};
        assert_int_equal(snic_loop_uring_open(&l, &o), 0);
        while (snic_loop_once(l, 0) > 0)
            ;
        assert_int_equal(snic_loop_once(l, 40000000), 0);
        fine = s.count == 0;
        snic_loop_close(l);
    }
    assert_true(fine);
}

/* ---- Running ---- */

static void stop_message(struct snic_loop_msg *msg)
{
    struct letter *m = SNIC_CONTAINER(msg, struct letter, msg);
    trace_add('x');
    snic_loop_stop(m->loop);
}

struct handover {
    struct snic_loop *loop;
    struct letter stop;
    int result;
};

static void handover_member(void *ctx, unsigned index)
{
    struct handover *h = ctx;
    (void)index;
    h->result = snic_loop_run(h->loop);
}

/* A loop opened on the main thread and run on another must not fail on its single issuer. */
static void test_loop_opened_here_runs_on_another_thread(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        struct handover h = {.loop = l, .stop = letter(l, 'x', 0), .result = 1};
        h.stop.msg.fn = stop_message;
        trace_reset();
        snic_loop_post(l, &h.stop.msg);
        support_threads(1, handover_member, &h);
        assert_int_equal(h.result, 0);
        assert_string_equal(trace, "x");
    }
}

static struct snic_loop *nest_loop;

static void nest_message(struct snic_loop_msg *msg)
{
    (void)msg;
    (void)snic_loop_once(nest_loop, 0);
}

static void nest_body(void *ctx)
{
    struct snic_loop_msg m = {.fn = nest_message};
    (void)ctx;
    if (snic_loop_uring_open(&nest_loop, NULL) != 0)
        return;
    snic_loop_defer(nest_loop, &m);
    (void)snic_loop_once(nest_loop, 0);
}

/* Running the loop from inside a callback would re-enter everything. */
static void test_loop_inside_callback_once_aborts(void **state)
{
    (void)state;
    snic_loop_close(open_loop(0, 0)); /* skips where there is no io_uring */
    SUPPORT_EXPECT_ABORT(nest_body, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_idle_messages_run_later_in_order),
        cmocka_unit_test(test_loop_message_defers_itself_next_phase_not_starved),
        cmocka_unit_test(test_loop_timer_defers_same_iteration_runs_it),
        cmocka_unit_test(test_loop_timers_fire_in_order_never_early),
        cmocka_unit_test(test_loop_timer_rearmed_in_the_past_fires_once_per_iteration),
        cmocka_unit_test(test_loop_idle_once_waits_as_requested),
        cmocka_unit_test(test_loop_busy_tasks_share_by_quantum),
        cmocka_unit_test(test_loop_task_overdraws_pays_in_later_turns),
        cmocka_unit_test(test_loop_task_in_its_turn_leaves_or_returns),
        cmocka_unit_test(test_loop_poller_going_to_sleep_looks_once_more),
        cmocka_unit_test(test_loop_pollers_removed_while_walking),
        cmocka_unit_test(test_loop_poller_need_wake_protocol_no_item_waits),
        cmocka_unit_test(test_loop_busy_longer_than_limit_stall_reported),
        cmocka_unit_test(test_loop_intended_sleep_not_a_stall),
        cmocka_unit_test(test_loop_opened_here_runs_on_another_thread),
        cmocka_unit_test(test_loop_inside_callback_once_aborts),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
