/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A store of one node: what happens seldom. Records that are no envelopes, no room, a stop at any
 * time, deletions that keep a list, the clock, and the check, broken in each way.
 */
#include "store/store_priv.h"

#include "store_cluster.h"

#include "support.h"

#include <stdio.h>

enum { SECOND = 1000 * STORE_MS };

static struct store_cluster *fresh(const struct store_cluster_opts *opts)
{
    struct store_cluster_opts o = {.seed = support_seed(), .nodes = 1, .checks = 1};
    struct store_cluster *c = store_cluster_new(opts != NULL ? opts : &o);
    for (uint32_t n = 0; n < c->o.nodes; n++)
        store_cluster_up(c, n, 1);
    assert_true(store_cluster_settle(c));
    return c;
}

static void done(struct store_cluster *c)
{
    if (c->failure != NULL)
        print_error("%s\n", c->failure);
    assert_null(c->failure);
    store_cluster_free(c);
}

static struct snic_store_op *op_of(struct store_act *a, uint32_t kind, const char *key)
{
    memset(&a->op, 0, sizeof(a->op));
    a->op.kind = kind;
    a->op.key = key;
    a->op.key_size = (uint32_t)strlen(key);
    return &a->op;
}

static int put(struct store_cluster *c, const char *key, const char *value, uint32_t flags,
               uint64_t ttl_ns, uint64_t client)
{
    struct snic_store_op *op = op_of(&c->got, SNIC_STORE_PUT, key);
    op->data = value;
    op->size = (uint32_t)strlen(value);
    op->flags = flags;
    op->ttl_ns = ttl_ns;
    op->client = op->sequence = client;
    return store_act(c, 0, &c->got);
}

/* ---- What the old value is good for ---- */

static void test_store_edges_old_value_returned(void **state)
{
    struct store_cluster *c = fresh(NULL);
    struct store_act *a = &c->got;
    (void)state;
    assert_int_equal(put(c, "k", "one", SNIC_STORE_OLD, 0, 0), 0);
    assert_false(a->present);
    assert_int_equal(put(c, "k", "two", SNIC_STORE_OLD, 0, 0), 0);
    assert_int_equal(a->size, 3);
    assert_memory_equal(a->data, "one", 3);
    assert_int_equal(put(c, "k", "", SNIC_STORE_OLD, 0, 0), 0);
    assert_memory_equal(a->data, "two", 3);
    op_of(a, SNIC_STORE_DELETE, "k")->flags = SNIC_STORE_OLD;
    assert_int_equal(store_act(c, 0, a), 0);
    assert_true(a->present);
    assert_int_equal(a->size, 0);
    assert_int_equal(store_act(c, 0, (op_of(a, SNIC_STORE_DELETE, "k")->flags = SNIC_STORE_OLD, a)),
                     SNIC_ENOENT);
    assert_int_equal(put(c, "k", "x", 0, 5 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(put(c, "k", "y", SNIC_STORE_KEEP_TTL, 0, 0), 0);
    assert_int_equal(put(c, "k", "z", SNIC_STORE_KEEP_TTL, 0, 0), 0);
    assert_int_equal(store_get(c, 0, "k", 1), 0);
    assert_in_range(a->op.ttl_ns, 4 * (uint64_t)SECOND, 5 * (uint64_t)SECOND);
    assert_int_equal(put(c, "new", "y", SNIC_STORE_KEEP_TTL, SECOND, 0), 0);
    assert_int_equal(store_get(c, 0, "new", 3), 0);
    assert_in_range(a->op.ttl_ns, 1, SECOND);
    done(c);
}

static int wanted;
static int decide(void *ctx, struct snic_store_change *ch)
{
    (void)ctx;
    ch->result = 5;
    ch->answer = ch->old_size;
    ch->data = "data";
    ch->out_size = 4;
    return wanted;
}

/* MODIFY may write its own bytes, delete, decline with a result, or fail. */
static void test_store_edges_modify_decisions(void **state)
{
    struct store_cluster *c = fresh(NULL);
    struct store_act *a = &c->got;
    (void)state;
    static const struct {
        int want;
        int result;
        int left; /* of GET, after it */
    } rows[] = {{SNIC_STORE_CHANGE_NONE, 5, SNIC_ENOENT},
                {SNIC_STORE_CHANGE_DELETE, 5, SNIC_ENOENT},
                {SNIC_ERANGE, SNIC_ERANGE, SNIC_ENOENT},
                {SNIC_STORE_CHANGE_PUT, 5, 0},
                {SNIC_STORE_CHANGE_NONE, 5, 0},
                {SNIC_ERANGE, SNIC_ERANGE, 0},
                {SNIC_STORE_CHANGE_DELETE, 5, SNIC_ENOENT}};
    for (size_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        struct snic_store_op *op = op_of(a, SNIC_STORE_MODIFY, "k");
        op->modify = decide;
        wanted = rows[i].want;
        assert_int_equal(store_act(c, 0, a), rows[i].result);
        assert_int_equal(store_get(c, 0, "k", 1), rows[i].left);
        if (rows[i].left == 0)
            assert_memory_equal(a->data, "data", 4);
    }
    done(c);
}

/* ---- Records of no store ---- */

static void raw_done(struct snic_replica_op *op)
{
    assert_int_equal(op->result, 0);
}

static void put_raw(struct store_cluster *c, const char *key, const void *bytes, uint32_t size)
{
    static struct snic_replica_op op;
    memset(&op, 0, sizeof(op));
    op.done = raw_done;
    op.kind = SNIC_REPLICA_PUT;
    op.data = bytes;
    op.size = size;
    store_name(c->node[0].s, key, (uint32_t)strlen(key), &op.key);
    assert_int_equal(snic_replica_submit(c->node[0].s->replica, &op), 0);
    store_cluster_run(c, 50 * STORE_MS);
}

/* A record that is no envelope is refused by every operation and left as it is. */
static void test_store_edges_corrupt_records_refused(void **state)
{
    struct store_cluster *c = fresh(NULL);
    struct store_act *a = &c->got;
    struct snic_store_entry e;
    struct snic_store_stats stats;
    static struct snic_store_cursor cursor;
    (void)state;
    assert_int_equal(put(c, "good", "v", 0, 0, 0), 0);
    assert_int_equal(put(c, "bad", "v", 0, 0, 0), 0);
    put_raw(c, "bad", "no envelope, though it is long enough for one", 45);
    put_raw(c, "short", "x", 1);
    assert_int_equal(store_get(c, 0, "bad", 3), SNIC_ECORRUPT);
    assert_int_equal(store_get(c, 0, "short", 5), SNIC_ECORRUPT);
    assert_int_equal(put(c, "bad", "v", 0, 0, 0), SNIC_ECORRUPT);
    assert_int_equal(put(c, "bad", "v", SNIC_STORE_OLD, 0, 0), SNIC_ECORRUPT);
    assert_int_equal(store_delete(c, 0, "bad", 3), SNIC_ECORRUPT);
    assert_int_equal(snic_store_look(c->node[0].s, "bad", 3, &e), SNIC_ECORRUPT);
    snic_store_get_stats(c->node[0].s, &stats);
    assert_true(stats.corrupt >= 5);
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), 0);
    assert_memory_equal(e.key, "good", 4);
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_ENOENT);
    assert_int_equal(store_get(c, 0, "good", 4), 0);
    assert_int_equal(a->size, 1);
    done(c);
}

/* Records with random bytes in a right one, and with the key of another: no operation does harm,
 * and index, TTLs and watches stay in order. */
static void test_store_edges_damaged_records_do_no_harm(void **state)
{
    struct store_cluster *c = fresh(NULL);
    struct store_act *a = &c->got;
    struct snic_store_watch w = {.prefix = 1};
    struct snic_store_event event;
    static struct snic_store_cursor cursor;
    struct snic_store_entry e;
    struct snic_rng rng;
    unsigned char p[256];
    static const char *const keys[] = {"k0", "k1", "k2"};
    (void)state;
    snic_rng_init(&rng, support_seed());
    assert_int_equal(snic_store_watch_start(c->node[0].s, &w), 0);
    for (uint64_t i = 0; i < support_scale(400, 20000); i++) {
        const char *key = keys[snic_rng_below(&rng, 3)];
        unsigned char list[2 * SNIC_STORE__SESSION];
        struct store_session x = {.client = 7, .sequence = 1 + i};
        struct store_envelope env = {.key = (const unsigned char *)key, .key_size = 2};
        store_session_put(list, 0, &x);
        x.client = 8;
        store_session_put(list, 1, &x);
        env.list = list;
        env.sessions = (uint32_t)snic_rng_below(&rng, 3);
        env.ttl_ns = snic_rng_below(&rng, 2) * snic_rng_below(&rng, SECOND);
        store_envelope_put(p, &env);
        uint32_t size = store_envelope_front(&env) + (uint32_t)snic_rng_below(&rng, 40);
        for (uint64_t f = snic_rng_below(&rng, 4); f > 0; f--)
            p[snic_rng_below(&rng, size)] ^= (unsigned char)(1u << snic_rng_below(&rng, 8));
        put_raw(c, keys[snic_rng_below(&rng, 3)], p, size);
        uint32_t kind = SNIC_STORE_GET + (uint32_t)snic_rng_below(&rng, 5);
        struct snic_store_op *op = op_of(a, kind, key);
        op->modify = decide;
        wanted = SNIC_STORE_CHANGE_PUT;
        op->data = kind == SNIC_STORE_PUT ? "v" : NULL;
        op->size = kind == SNIC_STORE_PUT;
        op->client = kind == SNIC_STORE_GET ? 0 : snic_rng_below(&rng, 3) * 7;
        op->sequence = i + 1;
        (void)store_act(c, 0, a);
        memset(&cursor, 0, sizeof(cursor));
        while (snic_store_next(c->node[0].s, &cursor, &e) != SNIC_ENOENT)
            ;
        while (snic_store_watch_next(c->node[0].s, &w, &event) != SNIC_EAGAIN)
            ;
        assert_int_equal(snic_store_check(c->node[0].s), 0);
        assert_null(c->failure);
    }
    done(c);
}

/* ---- Room ---- */

/* More changes than writes at a time: those without room pause and are executed in their turn. */
static void test_store_edges_changes_pause_without_room(void **state)
{
    enum { MANY = 120 };
    struct store_cluster_opts o = {.seed = support_seed(), .tries_max = 1000};
    struct store_cluster *c = fresh(&o);
    struct store_act *acts = test_calloc(MANY, sizeof(*acts));
    char key[16];
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) { /* writes_max is 32, reads_max 64 */
        (void)snprintf(key, sizeof(key), "k%u", i);
        struct snic_store_op *op = op_of(&acts[i], SNIC_STORE_PUT, key);
        op->data = "v";
        op->size = 1;
        op->condition = SNIC_STORE_IF_ABSENT;
        assert_int_equal(store_begin(c, 0, &acts[i]), 0);
    }
    store_cluster_run(c, 5 * (uint64_t)SECOND);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_false(acts[i].pending);
        assert_int_equal(acts[i].op.result, 0);
    }
    assert_int_equal(snic_store_check(c->node[0].s), 0);
    test_free(acts);
    done(c);
}

/* With few tries the same ends with SNIC_EAGAIN, and what ended so wrote nothing. */
static void test_store_edges_changes_give_up_without_room(void **state)
{
    enum { MANY = 120 };
    struct store_cluster_opts o = {.seed = support_seed(), .tries_max = 1};
    struct store_cluster *c = fresh(&o);
    struct store_act *acts = test_calloc(MANY, sizeof(*acts));
    uint32_t refused = 0;
    char key[16];
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        struct snic_store_op *op = op_of(&acts[i], SNIC_STORE_PUT, key);
        op->data = "v";
        op->size = 1;
        op->condition = SNIC_STORE_IF_ABSENT;
        assert_int_equal(store_begin(c, 0, &acts[i]), 0);
    }
    store_cluster_run(c, 5 * (uint64_t)SECOND);
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_false(acts[i].pending);
        int result = acts[i].op.result;
        assert_true(result == 0 || result == SNIC_EAGAIN);
        refused += result == SNIC_EAGAIN;
        assert_int_equal(store_get(c, 1, key, (uint32_t)strlen(key)),
                         result == 0 ? 0 : SNIC_ENOENT);
    }
    assert_true(refused > 0);
    test_free(acts);
    done(c);
}

/* ---- A stop ---- */

/* Whatever an operation waits for, it is answered after a stop, and none is taken any more. */
static void test_store_edges_stop_answers_all(void **state)
{
    enum { MANY = 40 };
    (void)state;
    for (uint64_t at = 0; at < 20; at++) {
        struct store_cluster *c =
            fresh(&(struct store_cluster_opts){.seed = support_seed() + at, .nodes = 3});
        struct store_act *acts = test_calloc(MANY, sizeof(*acts));
        struct snic_store_watch w = {.prefix = 1};
        struct snic_store_entry e;
        static struct snic_store_cursor cursor;
        assert_int_equal(snic_store_watch_start(c->node[0].s, &w), 0);
        for (uint32_t i = 0; i < MANY; i++) {
            struct snic_store_op *op = op_of(&acts[i],
                                             i % 4 == 0   ? SNIC_STORE_GET
                                             : i % 4 == 1 ? SNIC_STORE_DELETE
                                                          : SNIC_STORE_PUT,
                                             i % 2 != 0 ? "a" : "b");
            op->data = op->kind == SNIC_STORE_PUT ? "v" : NULL;
            op->size = op->kind == SNIC_STORE_PUT;
            op->flags = op->kind == SNIC_STORE_GET ? 0 : SNIC_STORE_OLD;
            int result = store_begin(c, 0, &acts[i]);
            assert_true(result == 0 || result == SNIC_EAGAIN);
            acts[i].lost = result != 0;
        }
        store_cluster_run(c, at * 80000);
        snic_store_stop(c->node[0].s);
        snic_store_stop(c->node[0].s);
        assert_int_equal(store_begin(c, 0, (op_of(&c->got, SNIC_STORE_GET, "a"), &c->got)),
                         SNIC_ESTALE);
        assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_ESTALE);
        assert_int_equal(snic_store_look(c->node[0].s, "a", 1, &e), SNIC_ESTALE);
        store_cluster_run(c, 10 * STORE_MS);
        for (uint32_t i = 0; i < MANY; i++)
            assert_false(acts[i].pending);
        snic_store_watch_stop(c->node[0].s, &w);
        test_free(acts);
        done(c);
    }
}

/* ---- Deletions that keep a list ---- */

/* They are not listed, whatever their number, and end with the session window. */
static void test_store_edges_deletions_with_lists_end(void **state)
{
    enum { KEYS = 300 };
    struct store_cluster_opts o = {.seed = support_seed(), .nodes = 1, .keys_max = 400};
    o.session_window_ns = 20 * (uint64_t)SECOND;
    o.sessions_max = 1;
    struct store_cluster *c = fresh(&o);
    struct snic_store_stats stats;
    static struct snic_store_cursor cursor;
    struct snic_store_entry e;
    char key[16];
    (void)state;
    for (uint32_t i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(put(c, key, "v", 0, 0, 7), 0);
        if (i % 2 == 0)
            assert_int_equal(put(c, key, "v", 0, 0, 8), 0);
        op_of(&c->got, SNIC_STORE_DELETE, key)->flags = i % 3 == 0 ? SNIC_STORE_EXACT : 0;
        assert_int_equal(store_act(c, 0, &c->got), 0);
        assert_int_equal(put(c, key, "v", 0, 0, i % 2 == 0 ? 8 : 7), 0);
        assert_int_equal(c->got.op.out, SNIC_STORE_REPEATED);
    }
    assert_int_equal(store_get(c, 0, "k0", 2), SNIC_ENOENT);
    assert_true(c->got.op.seen != 0 && c->got.op.version == 0);
    assert_int_equal(snic_store_look(c->node[0].s, "k0", 2, &e), SNIC_ENOENT);
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_EAGAIN);
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_ENOENT);
    store_cluster_run(c, 30 * (uint64_t)SECOND);
    snic_store_get_stats(c->node[0].s, &stats);
    assert_int_equal(stats.keys, 0);
    assert_int_equal(stats.expired, KEYS);
    assert_int_equal(snic_store_check(c->node[0].s), 0);
    done(c);
}

/* When very many end at one moment more are deleted at a time, up to half of the writes that there
 * are: a flush of 10 ms is shared by more than 100, and clients' writes find room. */
static void test_store_edges_very_many_end_at_one_moment(void **state)
{
    enum { MANY = 30, ROUNDS = 66 };
    struct store_cluster_opts o = {.seed = support_seed(), .nodes = 1, .keys_max = 2100};
    o.writes_max = 256;
    o.flush_ns_max = 10 * STORE_MS;
    struct store_cluster *c = fresh(&o);
    struct store_act *acts = test_calloc(MANY, sizeof(*acts));
    struct snic_store_stats stats;
    uint32_t most = 0, steps = 0;
    char key[16];
    (void)state;
    uint64_t end = snic_world_now(c->world) + 9 * (uint64_t)SECOND;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        for (uint32_t i = 0; i < MANY; i++) {
            (void)snprintf(key, sizeof(key), "k%u", r * MANY + i);
            struct snic_store_op *op = op_of(&acts[i], SNIC_STORE_PUT, key);
            op->data = "v";
            op->size = 1;
            op->ttl_ns = end - snic_world_now(c->world);
            assert_int_equal(store_begin(c, 0, &acts[i]), 0);
        }
        store_cluster_run(c, 100 * STORE_MS);
    }
    snic_store_get_stats(c->node[0].s, &stats);
    assert_int_equal(stats.expiring, MANY * ROUNDS);
    store_cluster_run(c, end - snic_world_now(c->world));
    do { /* of a client: it is answered within two flushes */
        uint64_t begun = snic_world_now(c->world);
        assert_int_equal(put(c, "client", "v", 0, 0, 0), 0);
        assert_true(snic_world_now(c->world) - begun < 30 * (uint64_t)STORE_MS);
        snic_store_get_stats(c->node[0].s, &stats);
        most = stats.changing > most ? stats.changing : most;
        assert_true(stats.changing <= 128);
        steps++;
    } while (stats.expiring > 0 && steps < 1000);
    print_message("%u at a time, %u flushes\n", most, steps);
    store_cluster_run(c, SECOND);
    snic_store_get_stats(c->node[0].s, &stats);
    assert_int_equal(stats.expired, MANY * ROUNDS);
    assert_int_equal(stats.keys, 1);
    assert_true(most > 100);
    assert_true(steps < 40);
    test_free(acts);
    done(c);
}

/* More values end at one moment than are deleted at a time: all are, in their order. By a clock
 * that is not the loop's. */
static void test_store_edges_many_end_at_one_moment(void **state)
{
    enum { MANY = 30, ROUNDS = 6 };
    struct store_cluster_opts o = {.seed = support_seed(), .nodes = 1};
    o.clock_ns = 1000 * (uint64_t)SECOND;
    struct store_cluster *c = fresh(&o);
    struct store_act *acts = test_calloc(MANY, sizeof(*acts));
    struct snic_store_stats stats;
    char key[16];
    (void)state;
    uint64_t end = snic_world_now(c->world) + 9 * (uint64_t)SECOND;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        for (uint32_t i = 0; i < MANY; i++) {
            (void)snprintf(key, sizeof(key), "k%u", r * MANY + (i * 7) % MANY);
            struct snic_store_op *op = op_of(&acts[i], SNIC_STORE_PUT, key);
            op->data = "v";
            op->size = 1;
            op->ttl_ns = end - snic_world_now(c->world) + (i % 3);
            assert_int_equal(store_begin(c, 0, &acts[i]), 0);
        }
        store_cluster_run(c, 100 * STORE_MS);
    }
    for (uint32_t i = 0; i < 4; i++) /* some get another end */
        assert_int_equal(put(c, "k3", "v", 0, (i + 1) * (uint64_t)SECOND, 0), 0);
    snic_store_get_stats(c->node[0].s, &stats);
    assert_int_equal(stats.expiring, MANY * ROUNDS);
    assert_int_equal(snic_store_check(c->node[0].s), 0);
    store_cluster_run(c, end - 10 * STORE_MS - snic_world_now(c->world));
    snic_store_get_stats(c->node[0].s, &stats);
    assert_int_equal(stats.expiring, MANY * ROUNDS - 1);
    store_cluster_run(c, SECOND);
    snic_store_get_stats(c->node[0].s, &stats);
    assert_int_equal(stats.keys, 0);
    assert_int_equal(stats.expired, MANY * ROUNDS);
    test_free(acts);
    done(c);
}

/* ---- Odds and ends ---- */

/* Another hash key, other names. */
static void test_store_edges_names_depend_on_the_hash_key(void **state)
{
    struct store_cluster_opts o = {.seed = support_seed(), .nodes = 1};
    struct snic_ddp_key names[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        o.hash_key[15] = (unsigned char)i;
        struct store_cluster *c = fresh(&o);
        store_name(c->node[0].s, "key", 3, &names[i]);
        assert_int_equal(put(c, "key", "v", 0, 0, 0), 0);
        done(c);
    }
    assert_true(names[0].w[0] != names[1].w[0] && names[0].w[1] != names[1].w[1]);
}

static void test_store_edges_cursor_and_empty_key(void **state)
{
    struct store_cluster *c = fresh(NULL);
    static struct snic_store_cursor cursor;
    struct snic_store_entry e;
    (void)state;
    cursor.key_size = SNIC_STORE_KEY_MAX + 1;
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_EMSGSIZE);
    assert_int_equal(snic_store_look(c->node[0].s, cursor.key, SNIC_STORE_KEY_MAX + 1, &e),
                     SNIC_EMSGSIZE);
    cursor.key_size = 0;
    cursor.prefix_size = SNIC_STORE_KEY_MAX + 1;
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_EMSGSIZE);
    assert_int_equal(put(c, "", "v", 0, SECOND, 0), 0);
    assert_int_equal(put(c, "b1", "v", 0, 0, 0), 0);
    assert_int_equal(put(c, "c", "v", 0, 0, 0), 0);
    memset(&cursor, 0, sizeof(cursor)); /* a prefix alone begins there */
    cursor.prefix[0] = 'b';
    cursor.prefix_size = 1;
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), 0);
    assert_memory_equal(e.key, "b1", 2);
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_ENOENT);
    memset(&cursor, 0, sizeof(cursor));
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), 0);
    assert_int_equal(e.key_size, 0);
    assert_in_range(e.ttl_ns, 1, SECOND);
    snic_store_hold(c->node[0].s, e.value);
    store_cluster_run(c, 2 * (uint64_t)SECOND);
    assert_memory_equal(e.data, "v", 1);
    snic_store_drop(c->node[0].s, e.value);
    assert_int_equal(store_get(c, 0, "", 0), SNIC_ENOENT);
    assert_int_equal(put(c, "c", "v", 0, UINT64_MAX, 0), 0); /* never, and no overflow */
    assert_int_equal(store_get(c, 0, "c", 1), 0);
    assert_non_null(snic_store_latency(c->node[0].s, SNIC_STORE_CLASS_READ, 0));
    assert_true(snic_store_latency(c->node[0].s, SNIC_STORE_CLASS_READ, 0)->count > 0);
    assert_null(snic_store_latency(c->node[0].s, SNIC_STORE_CLASSES, 0));
    assert_null(snic_store_latency(c->node[0].s, 0, SNIC_STORE_DURABILITIES));
    done(c);
}

/* A watch of no key, of a position that has not been, and one that was never begun. */
static void test_store_edges_watches_refused(void **state)
{
    struct store_cluster *c = fresh(NULL);
    struct snic_store *s = c->node[0].s;
    struct snic_store_watch w = {.key_size = 1}, none;
    struct snic_store_event e;
    (void)state;
    memset(&none, 0, sizeof(none));
    assert_int_equal(snic_store_watch_start(s, &w), SNIC_EINVAL);
    w = (struct snic_store_watch){.prefix = 1};
    assert_int_equal(snic_store_watch_start(s, &w), 0);
    w.position.number++;
    assert_int_equal(snic_store_watch_next(s, &w, &e), SNIC_EOVERFLOW);
    assert_int_equal(snic_store_watch_next(s, &w, &e), SNIC_EAGAIN);
    snic_store_watch_stop(s, &none);
    snic_store_watch_stop(s, &w);
    snic_store_watch_stop(s, &w);
    assert_int_equal(s->stats.watches, 0);
    done(c);
}

/* The check, each invariant broken once. */
static void test_store_edges_check_finds_what_is_broken(void **state)
{
    struct store_cluster_opts o = {.seed = support_seed(), .nodes = 1};
    struct store_cluster *c = fresh(&o);
    struct snic_store *s = c->node[0].s;
    (void)state;
    assert_int_equal(put(c, "a", "v", 0, 900 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(put(c, "b", "v", 0, 800 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(put(c, "c", "v", 0, 0, 0), 0);
    assert_int_equal(snic_store_check(s), 0);
    struct store_node *top = &s->p.nodes[s->root];
#define BROKEN(field, value)                                                                       \
    do {                                                                                           \
        __typeof__(field) was = field;                                                             \
        field = (value);                                                                           \
        assert_int_equal(snic_store_check(s), SNIC_ECORRUPT);                                      \
        field = was;                                                                               \
        assert_int_equal(snic_store_check(s), 0);                                                  \
    } while (0)
    BROKEN(s->stats.keys, 2);
    BROKEN(s->changing, 1);
    BROKEN(s->stats.watches, 1);
    BROKEN(s->waiting, 1);
    BROKEN(s->ring_bytes, 1);
    BROKEN(s->heap_count, 1);
    BROKEN(top->prefix, top->prefix + 1);
    BROKEN(top->flags, 0);
    BROKEN(top->flags, top->flags | STORE_N_LOCKED);
    BROKEN(top->ts, top->ts + 1);
    BROKEN(top->generation, 0);
    BROKEN(s->p.nodes[s->p.heap[0]].due_ns, UINT64_MAX);
    BROKEN(s->p.nodes[s->p.heap[0]].heap, 7);
    struct snic_store_op *op = op_of(&c->got, SNIC_STORE_PUT, "d");
    op->flags = SNIC_STORE_OLD; /* of those that are known while they are under way */
    assert_int_equal(store_begin(c, 0, &c->got), 0);
    BROKEN(op->store, NULL);
    BROKEN(op->state, STORE_OP_FREE);
    BROKEN(op->state, STORE_OP_PAUSED + 1);
    store_cluster_run(c, SECOND);
    assert_int_equal(c->got.pending, 0);
    assert_int_equal(op->result, 0); /* of nothing */
#undef BROKEN
    done(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_edges_old_value_returned),
        cmocka_unit_test(test_store_edges_modify_decisions),
        cmocka_unit_test(test_store_edges_corrupt_records_refused),
        cmocka_unit_test(test_store_edges_damaged_records_do_no_harm),
        cmocka_unit_test(test_store_edges_changes_pause_without_room),
        cmocka_unit_test(test_store_edges_changes_give_up_without_room),
        cmocka_unit_test(test_store_edges_stop_answers_all),
        cmocka_unit_test(test_store_edges_deletions_with_lists_end),
        cmocka_unit_test(test_store_edges_many_end_at_one_moment),
        cmocka_unit_test(test_store_edges_very_many_end_at_one_moment),
        cmocka_unit_test(test_store_edges_names_depend_on_the_hash_key),
        cmocka_unit_test(test_store_edges_cursor_and_empty_key),
        cmocka_unit_test(test_store_edges_watches_refused),
        cmocka_unit_test(test_store_edges_check_finds_what_is_broken),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
