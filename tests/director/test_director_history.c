/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The consistency contract of offloading (offload.h), on recorded histories: clients read and
 * write the same few keys through both paths, pipelined, while old versions reach the device late
 * and hosts die. Every history is linearizable per key; with any rule removed some is not.
 */
#include <stdlib.h>
#include <string.h>

#include "dirfix.h"
#include "history.h"

enum { CLIENTS = 4, KEYS = 3, IDS = 1 << 14 };

static struct dirfix fix;

struct pending {
    struct history_op op;
    size_t index; /* in the history; reads enter it with their answer */
    uint8_t kind;
};

struct recorder {
    struct pending ops[IDS];
    size_t last[KEYS * 2]; /* last write on the way: its index */
    uint8_t out[KEYS * 2];
};

static struct recorder recorders[CLIENTS];
static struct history hist;
static uint32_t next_value;
static uint32_t by_dpu;

static uint64_t now(void)
{
    return snic_world_now(fix.w);
}

static void on_reply(struct dirfix_client *c, const struct dirfix_msg *m, const unsigned char *body)
{
    struct recorder *r = c->user;
    struct pending *p = &r->ops[(c->replies - 1) % IDS]; /* in order: the one whose turn it was */
    (void)body;
    uint64_t key = p->op.key;
    if (p->kind == DIRFIX_GET) {
        if (m->op == DIRFIX_ERROR)
            return;
        p->op.end = now();
        p->op.value = m->op == DIRFIX_NONE ? 0 : m->value;
        by_dpu += m->arg == DIRFIX_BY_DPU;
        (void)history_add(&hist, &p->op);
    } else if (p->kind == DIRFIX_SET || p->kind == DIRFIX_DEL) {
        if (r->out[key] && r->last[key] == p->index)
            r->out[key] = 0;
        if (m->op == DIRFIX_OK)
            hist.ops[p->index].end = now();
        else if (m->arg != DIRFIX_GONE)
            hist.ops[p->index].value = UINT32_MAX; /* refused: it has not happened, see below */
    }
}

static void request_reads(struct dirfix *f, struct dirfix_client *c, uint64_t reads, int deletes)
{
    struct recorder *r = c->user;
    uint16_t key = (uint16_t)snic_rng_below(&f->rng, f->o.collide ? KEYS * 2 : KEYS);
    uint64_t what = snic_rng_below(&f->rng, 10);
    uint8_t kind = what < reads ? DIRFIX_GET : what < 9 || !deletes ? DIRFIX_SET : DIRFIX_DEL;
    uint32_t value = kind == DIRFIX_SET ? ++next_value : 0;
    uint32_t id = dirfix_send(c, kind, 0, key, value, 0);
    struct pending *p = &r->ops[id % IDS];
    p->kind = kind;
    p->op = (struct history_op){.call = now(),
                                .end = HISTORY_OPEN,
                                .key = key,
                                .value = value,
                                .after = HISTORY_NONE,
                                .write = kind != DIRFIX_GET};
    if (r->out[key])
        p->op.after = r->last[key]; /* pipelined behind its own write */
    if (kind != DIRFIX_GET) {
        p->index = history_add(&hist, &p->op);
        r->last[key] = p->index;
        r->out[key] = 1;
    }
}

/* Writes that were refused are not part of the history. */
static enum history_verdict judge(void)
{
    struct history h = {0};
    size_t *to = calloc(hist.count + 1, sizeof(size_t));
    uint64_t key = 0;
    assert_non_null(to);
    for (size_t i = 0; i < hist.count; i++) {
        struct history_op op = hist.ops[i];
        to[i] = HISTORY_NONE;
        if (op.write && op.value == UINT32_MAX)
            continue;
        if (op.after != HISTORY_NONE)
            op.after = to[op.after];
        to[i] = history_add(&h, &op);
    }
    enum history_verdict v = history_check(&h, &key);
    free(to);
    history_free(&h);
    return v;
}

static void play(const struct dirfix_opts *o, uint32_t rounds, int deaths)
{
    struct dirfix *f = &fix;
    dirfix_open(f, o);
    memset(recorders, 0, sizeof(recorders));
    for (uint32_t i = 0; i < CLIENTS; i++)
        dirfix_connect(f, i, on_reply)->user = &recorders[i];
    for (uint32_t n = 0; n < rounds; n++) {
        for (uint32_t i = 0; i < CLIENTS; i++) { /* a host's death cut it off in the middle */
            struct dirfix_client *c = &f->clients[i];
            if (c->closed) {
                dirfix_connect(f, i, on_reply);
                c->replies = c->next_id;
                memset(recorders[i].out, 0, sizeof(recorders[i].out));
            }
        }
        uint64_t reads = n % 10 < 4 ? 6 : n % 10 < 7 ? 9 : 10; /* of ten */
        for (uint32_t i = 0; i < CLIENTS; i++) {
            for (uint64_t k = snic_rng_below(&f->rng, 4); k > 0; k--)
                request_reads(f, &f->clients[i], reads, !o->sync);
            dirfix_pump(&f->clients[i]);
        }
        if (!o->sync && f->host_alive)
            for (uint16_t k = 0; k < KEYS * 2; k++)
                if (snic_rng_below(&f->rng, 3) == 0)
                    dirfix_flush(f, k);
        dirfix_run(f, snic_rng_below(&f->rng, 200000));
        if (deaths && snic_rng_below(&f->rng, 25) == 0) {
            dirfix_host_kill(f);
            dirfix_run(f, snic_rng_below(&f->rng, 1000000));
            dirfix_host_attach(f);
        }
        if (snic_rng_below(&f->rng, 3) == 0)
            dirfix_finish(f);
    }
    dirfix_finish(f);
}

static struct dirfix_opts options(uint64_t i)
{
    struct dirfix_opts o = {.seed = support_seed() * 1000 + i, .clients = CLIENTS};
    o.local = i % 2 == 0;
    o.host_delay_ns = i % 3 == 0 ? 0 : 60000;
    o.disk_delay_ns = 400000;
    o.director.flags = SNIC_DIRECTOR_IN_ORDER;
    return o;
}

static enum history_verdict run(const struct dirfix_opts *o, int deaths)
{
    memset(&hist, 0, sizeof(hist));
    next_value = 0;
    play(o, 80, deaths);
    enum history_verdict v = judge();
    history_free(&hist);
    return v;
}

/** Writers, readers, late flushes: linearizable, and much is really offloaded. */
static void test_director_history_is_linearizable(void **state)
{
    (void)state;
    by_dpu = 0;
    for (uint64_t i = 0; i < support_scale(12, 300); i++) {
        struct dirfix_opts o = options(i);
        o.cache_capacity = i % 4 == 3 ? 2 : 0; /* no room for the tombstones */
        assert_int_equal(run(&o, 0), HISTORY_GOOD);
        assert_int_equal(fix.mismatches, 0);
        dirfix_close(&fix);
    }
    assert_true(by_dpu > 300);
}

/** The same while hosts die and others take over: what they did not answer may have happened. */
static void test_director_history_survives_hosts(void **state)
{
    (void)state;
    by_dpu = 0;
    for (uint64_t i = 0; i < support_scale(8, 200); i++) {
        struct dirfix_opts o = options(i + 500);
        assert_int_equal(run(&o, 1), HISTORY_GOOD);
        dirfix_close(&fix);
    }
    assert_true(by_dpu > 100);
}

/** Writes that are acknowledged when durable, and sometimes fail. */
static void test_director_history_sync_is_linearizable(void **state)
{
    (void)state;
    by_dpu = 0;
    for (uint64_t i = 0; i < support_scale(8, 200); i++) {
        struct dirfix_opts o = options(i + 1000);
        o.sync = 1;
        assert_int_equal(run(&o, 0), HISTORY_GOOD);
        dirfix_close(&fix);
    }
    assert_true(by_dpu > 200);
}

/** Keys that share their hashes: the whole key decides. */
static void test_director_history_colliding_keys_distinguished(void **state)
{
    (void)state;
    uint32_t refused = 0;
    for (uint64_t i = 0; i < support_scale(8, 200); i++) {
        struct dirfix_opts o = options(i + 1500);
        o.collide = 1;
        assert_int_equal(run(&o, 0), HISTORY_GOOD);
        refused += fix.mismatches;
        dirfix_close(&fix);
    }
    assert_true(refused > 0);
}

/* Some history within @tries must be bad without the rule. */
static void red_without(uint32_t rule, int sync, int collide)
{
    uint32_t bad = 0;
    for (uint64_t i = 0; i < 30 && bad == 0; i++) {
        struct dirfix_opts o = options(i + 2000);
        o.broken = rule;
        o.sync = sync;
        o.collide = collide;
        bad += run(&o, 0) == HISTORY_BAD;
        dirfix_close(&fix);
    }
    assert_true(bad > 0);
}

/** R1: the host does not invalidate before it acknowledges. */
static void test_director_history_without_invalidation_is_red(void **state)
{
    (void)state;
    red_without(DIRFIX_NO_R1, 0, 0);
}

/** R1 almost: a single invalidation that is lost, of many, is seen. */
static void test_director_history_with_lost_invalidation_is_red(void **state)
{
    (void)state;
    red_without(DIRFIX_DROP_SOME, 0, 0);
}

/** Two completions that change places: a read behind a write gets what was before it. */
static void test_director_history_with_swapped_completions_is_red(void **state)
{
    (void)state;
    red_without(DIRFIX_SWAP_GETS, 0, 0);
}

/** R2: a late flush of an old version passes for the newest. */
static void test_director_history_without_versions_is_red(void **state)
{
    (void)state;
    red_without(DIRFIX_NO_R2, 0, 0);
}

/** R3: cached before it is known that the write has happened. */
static void test_director_history_without_durability_is_red(void **state)
{
    (void)state;
    red_without(DIRFIX_NO_R3, 1, 0);
}

/** R4: reads are offloaded behind their client's own write. */
static void test_director_history_without_barrier_is_red(void **state)
{
    (void)state;
    red_without(DIRFIX_NO_R4, 0, 0);
}

/** R5: space is used again under reads in flight. R6 still notices, and is the only one. */
static void test_director_history_without_space_rule_is_red(void **state)
{
    uint32_t noticed = 0;
    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        struct dirfix_opts o = options(i + 3000);
        o.broken = DIRFIX_NO_R5;
        assert_int_equal(run(&o, 0), HISTORY_GOOD);
        noticed += fix.mismatches; /* 0 wherever the rule holds: see the first test */
        dirfix_close(&fix);
    }
    assert_true(noticed > 0);
    red_without(DIRFIX_NO_R5 | DIRFIX_NO_R6, 0, 0);
}

/** R6: what was read is not compared with what was asked for. */
static void test_director_history_without_comparison_is_red(void **state)
{
    (void)state;
    red_without(DIRFIX_NO_R6, 0, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_history_is_linearizable),
        cmocka_unit_test(test_director_history_survives_hosts),
        cmocka_unit_test(test_director_history_sync_is_linearizable),
        cmocka_unit_test(test_director_history_colliding_keys_distinguished),
        cmocka_unit_test(test_director_history_without_invalidation_is_red),
        cmocka_unit_test(test_director_history_with_lost_invalidation_is_red),
        cmocka_unit_test(test_director_history_with_swapped_completions_is_red),
        cmocka_unit_test(test_director_history_without_versions_is_red),
        cmocka_unit_test(test_director_history_without_durability_is_red),
        cmocka_unit_test(test_director_history_without_barrier_is_red),
        cmocka_unit_test(test_director_history_without_space_rule_is_red),
        cmocka_unit_test(test_director_history_without_comparison_is_red),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
