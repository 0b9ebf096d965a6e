/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long random runs of the whole engine: clients at every node, messages lost, doubled and in any
 * order, nodes that crash, are left out, come back as learners, all at once too. The seed of a run
 * that fails is printed by the program; --seed N does it again.
 */
#include "test_ddp_world.h"

#include "support.h"

struct run {
    struct world *w;
    uint32_t cas; /* of 100 operations */
    uint32_t deletes;
    uint32_t time_shift; /* doublings of the time that passes */
    uint32_t crashes;    /* of 10000 steps */
    uint64_t scope[WORLD_NODES];
    uint64_t last[WORLD_NODES][WORLD_KEYS]; /* what a read there gave */
};

static void run_client(struct run *x)
{
    struct world *w = x->w;
    uint32_t node = (uint32_t)snic_rng_below(&w->rng, w->nodes);
    uint32_t key = (uint32_t)snic_rng_below(&w->rng, WORLD_KEYS);
    uint64_t dice = snic_rng_below(&w->rng, 100);
    uint64_t scope = 0;
    if (!w->node[node].up || w->ops + 1 >= WORLD_OPS)
        return;
    if (w->opts.model == SNIC_DDP_SCOPE) {
        if (x->scope[node] == 0 || snic_rng_below(&w->rng, 8) == 0)
            x->scope[node] = (uint64_t)(node + 1) << 32 | w->ops;
        scope = x->scope[node];
        if (snic_rng_below(&w->rng, 6) == 0) {
            (void)world_op(w, SNIC_DDP_SYNC, node, key, 0, scope, NULL);
            x->scope[node] = 0;
            return;
        }
    }
    if (dice < x->cas) {
        uint64_t expect = 0;
        if (snic_rng_below(&w->rng, 4) != 0) {
            struct snic_ddp_entry e;
            struct snic_ddp_key k = world_key(key);
            snic_ddp_prefetch(w->node[node].d, &k, 1);
            int r = snic_ddp_get(w->node[node].d, w->now, &k, &e);
            expect = r == 0 ? e.ts : 0;
        }
        (void)world_op(w, SNIC_DDP_CAS, node, key, expect, scope, NULL);
    } else if (dice < x->cas + x->deletes) {
        (void)world_op(w, SNIC_DDP_DELETE, node, key, 0, scope, NULL);
    } else if (dice < 60) {
        (void)world_op(w, SNIC_DDP_WRITE, node, key, 0, scope, NULL);
    } else {
        (void)world_op(w, SNIC_DDP_READ, node, key, 0, 0, NULL);
    }
}

static void run_time(struct run *x)
{
    struct world *w = x->w;
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    w->now += snic_rng_below(&w->rng, UINT64_C(200000) << x->time_shift);
    for (uint32_t n = 0; n < w->nodes; n++) {
        if (w->node[n].up && snic_ddp_deadline_ns(w->node[n].d) <= w->now)
            assert_int_equal(world_step(w, n, &tick), 0);
    }
}

static uint32_t run_pick(struct world *w, uint16_t mask)
{
    uint32_t n;
    do
        n = (uint32_t)snic_rng_below(&w->rng, w->nodes);
    while ((mask >> n & 1) == 0);
    return n;
}

static void run_steps(struct run *x, uint32_t steps)
{
    struct world *w = x->w;
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t dice = snic_rng_below(&w->rng, 10);
        if (dice < 2)
            run_client(x);
        else if (dice < 3)
            run_time(x);
        else
            (void)world_random(w);
        if (snic_rng_below(&w->rng, 16) == 0)
            world_notify(w, (uint32_t)snic_rng_below(&w->rng, w->nodes));
    }
}

/* A view that all have heard of is the condition of the next one: the membership's lease rule. */
static void run_view(struct run *x, uint16_t full, uint16_t learners, uint32_t donor)
{
    struct world *w = x->w;
    world_notify_all(w);
    world_view(w, full, learners, donor, 0);
}

/* A node goes, in one of two ways; the others notice; it comes back as a learner, is let in. */
static void run_one_node(struct run *x)
{
    struct world *w = x->w;
    uint32_t gone = run_pick(w, w->view.full);
    uint16_t rest = (uint16_t)(w->view.full & ~(1u << gone));
    if (rest == 0)
        return;
    world_notify_all(w);
    world_crash(w, gone);
    run_steps(x, 50);
    run_view(x, rest, 0, 0);
    run_steps(x, 200);
    if (snic_rng_below(&w->rng, 3) == 0)
        w->node[gone].logged = 0; /* a new disk */
    world_boot(w, gone);
    world_load_log(w, gone);
    uint32_t donor = run_pick(w, rest);
    run_view(x, rest, (uint16_t)(1u << gone), donor);
    for (uint32_t i = 0; i < 400 && !w->node[gone].caught_up; i++) {
        run_steps(x, 20);
        world_notify_all(w);
        w->now += 1000000;
    }
    if (snic_rng_below(&w->rng, 4) == 0) {
        run_view(x, rest, (uint16_t)(1u << gone), run_pick(w, rest));
        run_steps(x, 100);
    }
    world_notify_all(w);
    for (uint32_t i = 0; i < 4000 && !w->node[gone].caught_up; i++) {
        run_steps(x, 20);
        w->now += 1000000;
    }
    assert_true(w->node[gone].caught_up);
    run_view(x, (uint16_t)(rest | 1u << gone), 0, 0);
    run_steps(x, 50);
    world_notify_all(w);
}

static void run_promise(struct run *x, uint32_t node)
{
    struct world *w = x->w;
    for (uint32_t k = 0; k < WORLD_KEYS; k++) {
        uint64_t have = world_durable(w, node, k);
        uint32_t m = w->opts.model;
        /* A tombstone that was purged everywhere is rightly in no log. */
        if (have == 0)
            continue;
        if (m == SNIC_DDP_SYNCH || m == SNIC_DDP_STRICT)
            assert_true(have >= w->answered[k]);
        if (m == SNIC_DDP_SYNCH || m == SNIC_DDP_RENF)
            assert_true(have >= w->read[k]);
    }
}

/* The power goes everywhere; some of the FULL members come back, with their logs. */
static void run_restart(struct run *x)
{
    struct world *w = x->w;
    uint16_t full = 0;
    world_notify_all(w);
    run_steps(x, 40);
    for (uint32_t n = 0; n < w->nodes; n++)
        world_crash(w, n);
    for (uint32_t n = 0; n < w->nodes; n++)
        run_promise(x, n);
    w->messages = 0;
    world_check_cas(w);
    do
        full = (uint16_t)(snic_rng_next(&w->rng) & ((1u << w->nodes) - 1));
    while (full == 0);
    memset(w->visible, 0, sizeof(w->visible));
    memset(w->answered, 0, sizeof(w->answered));
    memset(w->read, 0, sizeof(w->read));
    for (uint32_t i = 0; i < w->written; i++)
        w->write[i].seen = 0;
    for (uint32_t n = 0; n < w->nodes; n++) {
        if ((full >> n & 1) == 0) {
            w->node[n].logged = 0;
            continue;
        }
        world_boot(w, n);
        world_load_log(w, n);
    }
    for (uint32_t i = 0; i < w->ops; i++) {
        if (w->op[i].state == OP_OK)
            w->op[i].state = OP_UNKNOWN;
    }
    world_view(w, full, 0, 0, 1);
    run_steps(x, 100);
    world_notify_all(w);
}

static void run_end(struct run *x)
{
    struct world *w = x->w;
    w->lose = w->twice = 0;
    world_notify_all(w);
    world_settle(w);
    world_same(w);
    world_check_cas(w);
}

static struct run run_begin(uint64_t seed, uint32_t nodes, uint32_t model, uint32_t flags)
{
    struct run x;
    memset(&x, 0, sizeof(x));
    x.w = world_new(seed, nodes, model, flags);
    world_start(x.w);
    return x;
}

static uint64_t run_now; /* the run that is on, for a debugger */

static int run_teardown(void **state)
{
    (void)state;
    if (run_now != 0)
        print_message("the run that failed was number %llu\n", (unsigned long long)run_now - 1);
    run_now = 0;
    return 0;
}

/* Run number i of the program's seed @p of. */
static void run_number(uint64_t of, uint64_t i, void (*body)(struct run *x))
{
    uint64_t seed = of * 1000003 + i;
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    uint32_t model = SNIC_DDP_SYNCH + (uint32_t)(i % 5);
    uint32_t flags = (uint32_t)snic_rng_below(&rng, 4);
    struct run x = run_begin(seed, 2 + (uint32_t)snic_rng_below(&rng, 4), model, flags);
    run_now = i + 1;
    body(&x);
    run_end(&x);
    world_free(x.w);
    run_now = 0;
}

static void run_each(uint64_t runs, void (*body)(struct run *x))
{
    for (uint64_t i = 0; i < runs; i++)
        run_number(support_seed(), i, body);
}

static void body_calm(struct run *x)
{
    run_steps(x, 1500);
}

/* Without faults, any order of delivery: it ends converged. */
static void test_ddp_random_calm_converges(void **state)
{
    (void)state;
    run_each(support_rounds(200, 5000), body_calm);
}

static void body_lossy(struct run *x)
{
    x->w->lose = 100;
    x->w->twice = 100;
    x->deletes = 10;
    run_steps(x, 1500);
}

static void test_ddp_random_lossy_converges(void **state)
{
    (void)state;
    run_each(support_rounds(300, 10000), body_lossy);
}

static void body_cas(struct run *x)
{
    body_lossy(x);
    x->cas = 30;
    run_steps(x, 1500);
}

static void test_ddp_random_cas_atomic(void **state)
{
    (void)state;
    run_each(support_rounds(300, 10000), body_cas);
}

static void body_members(struct run *x)
{
    x->w->lose = 50;
    x->w->twice = 50;
    x->deletes = 10;
    x->cas = 10;
    run_steps(x, 200);
    for (uint32_t i = 0; i < 3; i++)
        run_one_node(x);
}

static void test_ddp_random_members_come_and_go(void **state)
{
    (void)state;
    run_each(support_rounds(300, 10000), body_members);
}

static uint64_t run_purged;

static void body_purge(struct run *x)
{
    struct world *w = x->w;
    x->w->lose = 20;
    x->w->twice = 300;
    x->deletes = 30;
    x->cas = 15;
    x->time_shift = 5;
    for (uint32_t i = 0; i < 10; i++) {
        run_steps(x, 200);
        for (uint32_t k = 0; k < 150; k++) /* quiet, so that something can be purged */
            (void)(snic_rng_below(&w->rng, 8) == 0 ? (run_time(x), 0) : world_random(w));
    }
    for (uint32_t n = 0; n < w->nodes; n++) {
        struct snic_ddp_stats info;
        snic_ddp_get_stats(w->node[n].d, &info);
        run_purged += info.counters.purged;
    }
}

/* Runs that failed once. */
static void test_ddp_random_seeds_of_old_faults(void **state)
{
    (void)state;
    /* A learner's record of a CAS stayed undecided though the donor's was complete. */
    run_number(1795646145124641, 2940, body_members);
    /* A late NACK brought back what had been purged. */
    run_number(1795660783003318, 5869, body_purge);
}

/* Keys are deleted, purged and made again while copies of old messages are under way. */
static void test_ddp_random_purged_keys_stay_away(void **state)
{
    (void)state;
    run_purged = 0;
    run_each(support_scale(150, 10000), body_purge);
    print_message("purged: %llu\n", (unsigned long long)run_purged);
    assert_true(run_purged > 0);
}

static void body_restart(struct run *x)
{
    x->w->lose = 50;
    x->w->twice = 50;
    x->deletes = 10;
    x->cas = 10;
    run_steps(x, 400);
    run_restart(x);
    run_steps(x, 400);
}

static void test_ddp_random_restart_keeps_promise(void **state)
{
    (void)state;
    run_each(support_rounds(300, 10000), body_restart);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_ddp_random_calm_converges, run_teardown),
        cmocka_unit_test_teardown(test_ddp_random_lossy_converges, run_teardown),
        cmocka_unit_test_teardown(test_ddp_random_cas_atomic, run_teardown),
        cmocka_unit_test_teardown(test_ddp_random_members_come_and_go, run_teardown),
        cmocka_unit_test_teardown(test_ddp_random_seeds_of_old_faults, run_teardown),
        cmocka_unit_test_teardown(test_ddp_random_purged_keys_stay_away, run_teardown),
        cmocka_unit_test_teardown(test_ddp_random_restart_keeps_promise, run_teardown),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
