/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The simulated world: order of events, replay, pauses, pollers, quiescence. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "snicstore/loop.h"

static char log_text[4096];
static size_t log_size;

static void log_reset(void)
{
    memset(log_text, 0, sizeof(log_text));
    log_size = 0;
}

static void log_add(char c)
{
    assert_true(log_size < sizeof(log_text) - 1);
    log_text[log_size++] = c;
}

static struct snic_world *world(uint64_t seed)
{
    struct snic_world *w = NULL;
    struct snic_world_opts o = {.opts_size = sizeof(o), .seed = seed};
    assert_int_equal(snic_world_open(&w, &o), 0);
    return w;
}

static struct snic_loop *node(struct snic_world *w, uint32_t n)
{
    struct snic_loop *l = NULL;
    assert_int_equal(snic_world_loop(w, n, &l), 0);
    return l;
}

/* ---- Contract ---- */

/* Each error code, and that the state is unchanged after it. */
static void test_loop_sim_bad_arguments_refused(void **state)
{
    struct snic_world *w = NULL;
    struct snic_loop *a, *b, *c = NULL;
    struct snic_world_opts o = {.opts_size = sizeof(o), .nodes_max = 65536};
    (void)state;
    assert_int_equal(snic_world_open(&w, &o), SNIC_EINVAL);
    o.opts_size = 2;
    assert_int_equal(snic_world_open(&w, &o), SNIC_EINVAL);
    assert_null(w);
    o = (struct snic_world_opts){.opts_size = sizeof(o), .nodes_max = 2, .start_ns = 77};
    assert_int_equal(snic_world_open(&w, &o), 0);
    assert_int_equal(snic_world_now(w), 77);
    a = node(w, 9);
    assert_int_equal(snic_world_loop(w, 9, &c), SNIC_EEXIST);
    b = node(w, 3);
    assert_int_equal(snic_world_loop(w, 4, &c), SNIC_ENOSPC);
    assert_null(c);
    assert_ptr_equal(snic_loop_world(a), w);
    assert_int_equal(snic_loop_fd(a), SNIC_ENOTSUP);
    assert_int_equal(snic_loop_now(b), 77);
    assert_int_equal(snic_loop_clock(b), 77);
    assert_int_equal(snic_world_step(w), 0);
    assert_int_equal(snic_loop_once(a, SNIC_NEVER), 0);
    assert_int_equal(snic_loop_run(a), 0); /* quiescent */
    snic_loop_close(a);
    a = node(w, 9); /* the number is free again */
    snic_loop_close(a);
    snic_loop_close(b);
    snic_world_close(w);
    snic_world_close(NULL);
}

static void leaky_body(void *ctx)
{
    struct snic_world *w = NULL;
    struct snic_loop *l = NULL;
    (void)ctx;
    if (snic_world_open(&w, NULL) == 0 && snic_world_loop(w, 1, &l) == 0)
        snic_world_close(w);
}

/* A world closed under its loops would leave them dangling. */
static void test_loop_sim_world_closed_before_loops_aborts(void **state)
{
    (void)state;
    SUPPORT_EXPECT_ABORT(leaky_body, NULL);
}

/* ---- Order ---- */

struct actor {
    struct snic_loop *loop;
    struct snic_loop_msg msg;
    struct snic_timer timer;
    struct snic_loop_task task;
    struct snic_loop_poller poller;
    char name;
    int polls;
};

static void actor_msg(struct snic_loop_msg *m)
{
    struct actor *a = SNIC_CONTAINER(m, struct actor, msg);
    log_add('m');
    log_add(a->name);
}

static void actor_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct actor *a = SNIC_CONTAINER(t, struct actor, timer);
    assert_true(now_ns >= t->deadline_ns);
    log_add('t');
    log_add(a->name);
}

static uint32_t actor_task(struct snic_loop_task *t, uint32_t budget)
{
    struct actor *a = SNIC_CONTAINER(t, struct actor, task);
    log_add('k');
    log_add(a->name);
    return budget - 1;
}

static int actor_poll(struct snic_loop_poller *p, int sleeping)
{
    struct actor *a = SNIC_CONTAINER(p, struct actor, poller);
    log_add(sleeping ? 'S' : 'p');
    log_add(a->name);
    return a->polls-- > 0;
}

static void actor_init(struct actor *a, struct snic_loop *l, char name)
{
    memset(a, 0, sizeof(*a));
    a->loop = l;
    a->name = name;
    a->msg.fn = actor_msg;
    snic_timer_init(&a->timer, actor_timer);
    snic_loop_task_init(&a->task, actor_task, 1);
    snic_loop_poller_init(&a->poller, actor_poll);
}

/* The order is the contract: message, timer, task, poller; then node; then sequence. */
static void test_loop_sim_equal_times_ordered_by_class_node_sequence(void **state)
{
    struct snic_world *w = world(1);
    struct snic_loop *l2 = node(w, 2), *l1 = node(w, 1);
    struct actor a[2][2];
    (void)state;
    actor_init(&a[1][0], l2, 'C');
    actor_init(&a[1][1], l2, 'D');
    actor_init(&a[0][0], l1, 'A');
    actor_init(&a[0][1], l1, 'B');
    log_reset();
    for (int n = 1; n >= 0; n--) {
        for (int i = 0; i < 2; i++) {
            snic_loop_ready(a[n][i].loop, &a[n][i].task);
            snic_loop_arm(a[n][i].loop, &a[n][i].timer, snic_world_now(w));
            snic_loop_post(a[n][i].loop, &a[n][i].msg);
        }
    }
    assert_int_equal(snic_loop_deadline(l1), snic_world_now(w));
    assert_int_equal(snic_world_run(w, SNIC_NEVER, UINT64_MAX), 12);
    assert_string_equal(log_text, "mAmBmCmDtAtBtCtDkAkBkCkD");
    snic_loop_close(l1);
    snic_loop_close(l2);
    snic_world_close(w);
}

/* The clock advances exactly to deadlines; run() stops at its limit, with the clock at it. */
static void test_loop_sim_run_stops_with_clock_at_limit(void **state)
{
    struct snic_world *w = world(1);
    struct snic_loop *l = node(w, 0);
    struct actor a, b;
    uint64_t t0 = snic_world_now(w);
    (void)state;
    actor_init(&a, l, 'A');
    actor_init(&b, l, 'B');
    log_reset();
    snic_loop_arm(l, &b.timer, t0 + 500);
    snic_loop_arm(l, &a.timer, t0 + 300);
    assert_int_equal(snic_loop_deadline(l), t0 + 300);
    assert_int_equal(snic_world_run(w, t0 + 299, UINT64_MAX), 0);
    assert_int_equal(snic_world_now(w), t0 + 299);
    assert_int_equal(snic_world_run(w, t0 + 300, UINT64_MAX), 1);
    assert_int_equal(snic_loop_now(l), t0 + 300);
    assert_int_equal(snic_world_run(w, SNIC_NEVER, 0), 0);
    assert_int_equal(snic_world_run(w, t0, UINT64_MAX), 0); /* in the past: no effect */
    assert_int_equal(snic_world_now(w), t0 + 300);
    assert_int_equal(snic_loop_once(l, 0), 1); /* one event of the world for any timeout */
    assert_int_equal(snic_world_now(w), t0 + 500);
    assert_string_equal(log_text, "tAtB");
    assert_int_equal(snic_world_run(w, t0 + 900, UINT64_MAX),
                     0); /* quiescent: nothing to wait for */
    snic_loop_close(l);
    snic_world_close(w);
}

/* ---- Pollers ---- */

/* A node polls after each event and once more before it sleeps, then not until the next event. */
static void test_loop_sim_poller_sleeps_until_next_event(void **state)
{
    struct snic_world *w = world(1);
    struct snic_loop *l = node(w, 0), *other = node(w, 1);
    struct actor a, b;
    (void)state;
    actor_init(&a, l, 'A');
    actor_init(&b, other, 'B');
    log_reset();
    snic_loop_poller_add(l, &a.poller);
    a.polls = 2;
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "pApApASA");
    log_reset();
    snic_loop_post(other, &b.msg); /* another node's event does not wake this one */
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "mB");
    log_reset();
    snic_loop_post(l, &a.msg);
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "mApASA");
    log_reset();
    snic_loop_wake(l);
    snic_loop_wake(l);
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "pASA");
    log_reset();
    snic_world_pause(w, 0, 1);
    snic_world_pause(w, 0, 0); /* a resumed process polls */
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "pASA");
    snic_loop_poller_remove(l, &a.poller);
    snic_loop_wake(l);
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "pASA");
    snic_loop_close(l);
    snic_loop_close(other);
    snic_world_close(w);
}

/* ---- Pauses ---- */

/* A paused node runs nothing. Resumed, it gets its messages, and its timers fire late. */
static void test_loop_sim_resumed_node_timers_late_messages_kept(void **state)
{
    struct snic_world *w = world(1);
    struct snic_loop *l = node(w, 0), *other = node(w, 1);
    struct actor a, b;
    uint64_t t0 = snic_world_now(w);
    (void)state;
    actor_init(&a, l, 'A');
    actor_init(&b, other, 'B');
    log_reset();
    snic_loop_arm(l, &a.timer, t0 + 100);
    snic_loop_arm(other, &b.timer, t0 + 1000);
    snic_loop_post(l, &a.msg);
    snic_world_pause(w, 0, 1);
    snic_world_pause(w, 77, 1); /* no such node: no effect */
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "tB");
    assert_int_equal(snic_world_now(w), t0 + 1000);
    snic_world_pause(w, 0, 0);
    (void)snic_world_run(w, SNIC_NEVER, UINT64_MAX);
    assert_string_equal(log_text, "tBmAtA");
    assert_int_equal(snic_world_now(w), t0 + 1000); /* fired late, and time has not advanced */
    snic_loop_close(l);
    snic_loop_close(other);
    snic_world_close(w);
}

/* ---- Stop and run ---- */

static void stop_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct actor *a = SNIC_CONTAINER(t, struct actor, timer);
    log_add('x');
    snic_loop_stop(a->loop);
    snic_loop_arm(a->loop, t, now_ns + 10);
}

/* snic_loop_run() on a simulated loop runs the world until this loop stops. */
static void test_loop_sim_run_ends_after_loop_stop(void **state)
{
    struct snic_world *w = world(1);
    struct snic_loop *l = node(w, 0);
    struct actor a;
    (void)state;
    actor_init(&a, l, 'A');
    snic_timer_init(&a.timer, stop_timer);
    snic_loop_arm(l, &a.timer, snic_world_now(w) + 10);
    log_reset();
    assert_int_equal(snic_loop_run(l), 0);
    assert_int_equal(snic_loop_run(l), 0);
    assert_string_equal(log_text, "xx");
    snic_loop_cancel(l, &a.timer);
    assert_int_equal(snic_loop_run(l), 0);
    snic_loop_close(l);
    snic_world_close(w);
}

/* ---- Random worlds ---- */

#define NODES 5
#define ACTORS 4

struct chaos {
    struct snic_world *world;
    struct snic_loop *loops[NODES];
    struct chaos_actor *actors;
    uint64_t hash;
    uint64_t events;
    uint64_t last_ns;
    uint32_t last_class, last_node;
    uint64_t sequences[NODES][4];
    int paused[NODES];
    int wrong; /* 1: order of time, or a paused node ran; 2: sequence; 3: a timer fired early */
};

struct chaos_actor {
    struct actor base;
    struct chaos *chaos;
    int queued;
    uint64_t rounds;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

static void chaos_trace(void *ctx, uint64_t now_ns, uint32_t n, uint32_t class_id,
                        uint64_t sequence)
{
    struct chaos *c = ctx;
    c->hash = mix(mix(mix(mix(c->hash, now_ns), n), class_id), sequence);
    if (now_ns < c->last_ns || class_id > 3 || n >= NODES || c->paused[n])
        c->wrong = 1;
    else if (sequence != c->sequences[n][class_id]++)
        c->wrong = 2;
    c->last_ns = now_ns;
    c->events++;
}

/* Random actions, drawn from the world's generator, so that the seed determines them. */
static void chaos_act(struct chaos *c)
{
    struct snic_rng *rng = snic_world_rng(c->world);
    for (uint64_t n = snic_rng_below(rng, 3); n > 0; n--) {
        struct chaos_actor *a = &c->actors[snic_rng_below(rng, NODES * ACTORS)];
        struct snic_loop *l = a->base.loop;
        switch (snic_rng_below(rng, 6)) {
        case 0:
            if (!a->queued++)
                snic_loop_post(l, &a->base.msg);
            break;
        case 1:
            snic_loop_arm(l, &a->base.timer, snic_world_now(c->world) + snic_rng_below(rng, 5000));
            break;
        case 2:
            snic_loop_cancel(l, &a->base.timer);
            break;
        case 3:
            snic_loop_ready(l, &a->base.task);
            break;
        case 4:
            snic_loop_poller_add(l, &a->base.poller);
            break;
        default: {
            uint32_t at = (uint32_t)snic_rng_below(rng, NODES);
            c->paused[at] = snic_rng_below(rng, 4) == 0;
            snic_world_pause(c->world, at, c->paused[at]);
            break;
        }
        }
    }
}

static void chaos_msg(struct snic_loop_msg *m)
{
    struct chaos_actor *a = SNIC_CONTAINER(m, struct chaos_actor, base.msg);
    a->queued = 0;
    chaos_act(a->chaos);
}

static void chaos_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct chaos_actor *a = SNIC_CONTAINER(t, struct chaos_actor, base.timer);
    if (now_ns < t->deadline_ns)
        a->chaos->wrong = 3;
    chaos_act(a->chaos);
}

static uint32_t chaos_task(struct snic_loop_task *t, uint32_t budget)
{
    struct chaos_actor *a = SNIC_CONTAINER(t, struct chaos_actor, base.task);
    chaos_act(a->chaos);
    return (uint32_t)snic_rng_below(snic_world_rng(a->chaos->world), budget + 2);
}

static int chaos_poll(struct snic_loop_poller *p, int sleeping)
{
    struct chaos_actor *a = SNIC_CONTAINER(p, struct chaos_actor, base.poller);
    uint64_t draw = snic_rng_below(snic_world_rng(a->chaos->world), 8);
    if (draw == 7)
        snic_loop_poller_remove(a->base.loop, p);
    if (draw == 6)
        chaos_act(a->chaos);
    return draw < 2 && !sleeping;
}

static uint64_t chaos_run(uint64_t seed, uint64_t events)
{
    struct chaos c = {.hash = 1};
    struct snic_world_opts o = {
        .opts_size = sizeof(o), .seed = seed, .trace = chaos_trace, .ctx = &c};
    struct chaos_actor *actors = calloc(NODES * ACTORS, sizeof(*actors));
    assert_non_null(actors);
    c.actors = actors;
    assert_int_equal(snic_world_open(&c.world, &o), 0);
    for (uint32_t n = 0; n < NODES; n++)
        c.loops[n] = node(c.world, n);
    for (uint32_t i = 0; i < NODES * ACTORS; i++) {
        struct chaos_actor *a = &actors[i];
        actor_init(&a->base, c.loops[i % NODES], '?');
        a->chaos = &c;
        a->base.msg.fn = chaos_msg;
        a->base.timer.fn = chaos_timer;
        a->base.task.fn = chaos_task;
        a->base.poller.fn = chaos_poll;
    }
    while (c.events < events && c.wrong == 0) {
        if (snic_world_step(c.world) == 0) { /* quiescent: resume all nodes and act */
            for (uint32_t n = 0; n < NODES; n++) {
                c.paused[n] = 0;
                snic_world_pause(c.world, n, 0);
            }
            chaos_act(&c);
        }
    }
    assert_int_equal(c.wrong, 0);
    for (uint32_t i = 0; i < NODES * ACTORS; i++)
        snic_loop_cancel(actors[i].base.loop, &actors[i].base.timer);
    for (uint32_t n = 0; n < NODES; n++)
        snic_loop_close(c.loops[n]);
    snic_world_close(c.world);
    free(actors);
    return c.hash;
}

/* If a run did not replay bit for bit, no failing seed could ever be debugged. */
static void test_loop_sim_same_seed_replays_bit_for_bit(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(20, 500); i++) {
        uint64_t seed = support_seed() * 1000 + i;
        uint64_t hash = chaos_run(seed, 2000);
        assert_true(chaos_run(seed, 2000) == hash);
        assert_true(chaos_run(seed + 1000000, 2000) != hash);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_sim_bad_arguments_refused),
        cmocka_unit_test(test_loop_sim_world_closed_before_loops_aborts),
        cmocka_unit_test(test_loop_sim_equal_times_ordered_by_class_node_sequence),
        cmocka_unit_test(test_loop_sim_run_stops_with_clock_at_limit),
        cmocka_unit_test(test_loop_sim_poller_sleeps_until_next_event),
        cmocka_unit_test(test_loop_sim_resumed_node_timers_late_messages_kept),
        cmocka_unit_test(test_loop_sim_run_ends_after_loop_stop),
        cmocka_unit_test(test_loop_sim_same_seed_replays_bit_for_bit),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
