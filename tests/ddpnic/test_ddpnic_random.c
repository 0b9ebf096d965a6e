/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long random runs of nodes of two halves: clients at every host, messages lost, doubled and in any
 * order, FIFOs of few slots, nodes that crash or are left out, against what by timestamps must be
 * visible and what must be durable if all crashed now. The seed of a run that fails is printed by
 * the program; --seed N does it again.
 */
#include "test_ddpnic_world.h"

#include "support.h"

#include <stdio.h>

static void run_client(struct nw_world *w, uint64_t *scope)
{
    uint32_t node = (uint32_t)snic_rng_below(&w->rng, w->nodes);
    uint32_t key = (uint32_t)snic_rng_below(&w->rng, NW_KEYS);
    uint64_t dice = snic_rng_below(&w->rng, 100);
    uint64_t id = 0;
    if (!w->node[node].up || w->ops + 1 >= NW_OPS || w->written + 1 >= NW_WRITTEN)
        return;
    if (w->opts.model == SNIC_DDP_SCOPE) {
        if (scope[node] == 0 || snic_rng_below(&w->rng, 8) == 0)
            scope[node] = (uint64_t)(node + 1) << 32 | (w->ops + 1);
        id = scope[node];
        if (snic_rng_below(&w->rng, 6) == 0) {
            (void)nw_op(w, SNIC_DDP_SYNC, node, key, id, NULL);
            scope[node] = 0;
            return;
        }
    }
    if (dice < 10)
        (void)nw_op(w, SNIC_DDP_DELETE, node, key, id, NULL);
    else if (dice < 60)
        (void)nw_op(w, SNIC_DDP_WRITE, node, key, id, NULL);
    else
        (void)nw_op(w, SNIC_DDP_READ, node, key, 0, NULL);
}

static void run_time(struct nw_world *w)
{
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    w->now += snic_rng_below(&w->rng, 1000000);
    for (uint32_t n = 0; n < w->nodes; n++) {
        if (w->node[n].up && snic_ddpnic_deadline_ns(w->node[n].d) <= w->now)
            assert_int_equal(nw_step_nic(w, n, &tick), 0);
    }
}

static void run_steps(struct nw_world *w, uint32_t steps, uint64_t *scope)
{
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t dice = snic_rng_below(&w->rng, 20);
        if (dice < 3)
            run_client(w, scope);
        else if (dice < 4)
            run_time(w);
        else
            (void)nw_random(w);
        if (snic_rng_below(&w->rng, 16) == 0)
            nw_notify(w, (uint32_t)snic_rng_below(&w->rng, w->nodes));
        if (i % 16 == 0)
            nw_promised(w);
    }
}

/* A node crashes, or is left out while it works on. */
static void run_lose_node(struct nw_world *w, uint64_t *scope)
{
    uint32_t gone;
    if ((w->view.full & (w->view.full - 1)) == 0)
        return;
    do
        gone = (uint32_t)snic_rng_below(&w->rng, w->nodes);
    while ((w->view.full >> gone & 1) == 0);
    nw_notify_all(w); /* a view that all have heard of is the condition of the next one */
    if (snic_rng_below(&w->rng, 2) != 0) {
        nw_crash(w, gone);
        run_steps(w, 60, scope);
    }
    nw_leave(w, (uint16_t)(1u << gone));
    run_steps(w, 100, scope);
}

static uint64_t run(uint64_t seed, uint32_t *stalls)
{
    struct snic_rng rng;
    uint64_t scope[NW_NODES] = {0};
    snic_rng_init(&rng, seed);
    static const uint32_t flags[] = {0, SNIC_DDP_PAPER, SNIC_DDPNIC_UNBATCHED,
                                     SNIC_DDPNIC_UNBATCHED | SNIC_DDPNIC_UNICAST,
                                     SNIC_DDPNIC_UNICAST};
    struct snic_ddpnic_opts o = {.opts_size = sizeof(o),
                                 .model = 1 + (uint32_t)snic_rng_below(&rng, 5),
                                 .flags = flags[snic_rng_below(&rng, 5)],
                                 .keys_max = NW_KEYS,
                                 .writes_max = 2 + (uint32_t)snic_rng_below(&rng, 8),
                                 .waits_max = 2 + (uint32_t)snic_rng_below(&rng, 12),
                                 .reads_max = (uint32_t)snic_rng_below(&rng, 5),
                                 .scopes_max = 1 + (uint32_t)snic_rng_below(&rng, 4),
                                 .vfifo_max = 1 + (uint32_t)snic_rng_below(&rng, 5),
                                 .dfifo_max = 1 + (uint32_t)snic_rng_below(&rng, 5)};
    if (seed % 4 == 0)
        o.keys_max = 2; /* with one key too many */
    struct nw_world *w = nw_new(seed, 1 + (uint32_t)snic_rng_below(&rng, NW_NODES), &o);
    w->lose = (uint32_t)snic_rng_below(&rng, 3) * 60;
    w->twice = (uint32_t)snic_rng_below(&rng, 3) * 60;
    nw_start(w);
    for (uint32_t round = 0; round < 1 + snic_rng_below(&rng, 4); round++) {
        run_steps(w, 300, scope);
        if (snic_rng_below(&rng, 2) != 0)
            run_lose_node(w, scope);
    }
    nw_notify_all(w);
    nw_settle(w);
    nw_same(w);
    nw_promised(w);
    uint64_t hash = w->hash;
    *stalls += w->stalls;
    nw_free(w);
    return hash;
}

/* Any history in which a read shows too little, or a promise is not in every log. */
static void test_ddpnic_random_histories_linearizable(void **state)
{
    uint64_t runs = support_scale(1500, 60000);
    uint32_t stalls = 0;
    (void)state;
    for (uint64_t i = 0; i < runs; i++)
        (void)run(support_seed() * 1000003 + i, &stalls);
    assert_true(stalls > runs); /* FIFOs were full now and then */
}

/* Histories that were wrong once. */
static void test_ddpnic_random_seeds_of_old_defects_linearizable(void **state)
{
    static const uint64_t seeds[] = {
        UINT64_C(6224292346319007511), /* PAPER: a replay waited for a write that needed its slot */
    };
    uint32_t stalls = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
        (void)run(seeds[i], &stalls);
}

/* The same events give the same actions. */
static void test_ddpnic_random_again_same(void **state)
{
    uint32_t stalls = 0;
    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        assert_true(run(support_seed() + i, &stalls) == run(support_seed() + i, &stalls));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_random_histories_linearizable),
        cmocka_unit_test(test_ddpnic_random_seeds_of_old_defects_linearizable),
        cmocka_unit_test(test_ddpnic_random_again_same),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
