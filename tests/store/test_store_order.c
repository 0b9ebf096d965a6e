/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Scans, TTLs and watches of stores in a cluster of three. */
#include "store/store_priv.h"
#include "store_cluster.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND = 1000 * STORE_MS };

static struct store_cluster *fresh(const struct store_cluster_opts *opts)
{
    struct store_cluster_opts o = {.seed = support_seed(), .checks = 1};
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

/* ---- Scan ---- */

struct key {
    uint32_t size;
    unsigned char bytes[24];
    int here;
};

static int key_order(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    uint32_t both = x->size < y->size ? x->size : y->size;
    int c = memcmp(x->bytes, y->bytes, both);
    return c != 0 ? c : x->size < y->size ? -1 : x->size > y->size;
}

/* Keys that share prefixes, have zeros at their end, and are of every size from 0 on. */
static uint32_t make_keys(struct key *k, uint32_t most, uint64_t seed)
{
    struct snic_rng rng;
    uint32_t n = 0;
    snic_rng_init(&rng, seed);
    memset(k, 0, most * sizeof(*k));
    while (n < most) {
        k[n].size = (uint32_t)snic_rng_below(&rng, 20);
        for (uint32_t i = 0; i < k[n].size; i++)
            k[n].bytes[i] = (unsigned char)(snic_rng_below(&rng, 3) * 127);
        uint32_t same = 0;
        for (uint32_t i = 0; i < n; i++)
            same += key_order(&k[i], &k[n]) == 0;
        n += same == 0;
    }
    qsort(k, n, sizeof(*k), key_order);
    return n;
}

/* All that a scan gives is what the model has, from the cursor on. */
static void scan_all(struct store_cluster *c, uint32_t node, const struct key *k, uint32_t n,
                     const struct key *from, uint32_t prefix)
{
    struct snic_store_cursor cursor;
    struct snic_store_entry e;
    int result;
    memset(&cursor, 0, sizeof(cursor));
    memcpy(cursor.key, from->bytes, from->size);
    cursor.key_size = from->size;
    memcpy(cursor.prefix, from->bytes, prefix);
    cursor.prefix_size = prefix;
    for (uint32_t i = 0; i < n; i++) {
        if (!k[i].here || key_order(&k[i], from) < 0 || k[i].size < prefix ||
            memcmp(k[i].bytes, from->bytes, prefix) != 0)
            continue;
        while ((result = snic_store_next(c->node[node].s, &cursor, &e)) == SNIC_EAGAIN)
            ;
        assert_int_equal(result, 0);
        assert_int_equal(e.key_size, k[i].size);
        assert_memory_equal(e.key, k[i].bytes, k[i].size);
        assert_int_equal(e.size, 4);
    }
    while ((result = snic_store_next(c->node[node].s, &cursor, &e)) == SNIC_EAGAIN)
        ;
    assert_int_equal(result, SNIC_ENOENT);
}

/* Random keys come and go: at every node a scan from anywhere, with any prefix, has those that are
 * there, in order. */
static void test_store_scan_is_the_sorted_model(void **state)
{
    enum { KEYS = 60 };
    struct store_cluster *c = fresh(NULL);
    struct key k[KEYS];
    struct snic_rng rng;
    (void)state;
    uint32_t n = make_keys(k, KEYS, support_seed());
    snic_rng_init(&rng, support_seed() + 1);
    for (uint64_t i = 0; i < support_scale(250, 5000); i++) {
        struct key *x = &k[snic_rng_below(&rng, n)];
        if (x->here)
            assert_int_equal(store_delete(c, (uint32_t)(i % 3), x->bytes, x->size), 0);
        else
            assert_int_equal(store_put(c, (uint32_t)(i % 3), x->bytes, x->size, "data", 4), 0);
        x->here = !x->here;
        store_cluster_run(c, 5 * STORE_MS); /* the other nodes have it readable */
        const struct key *from = &k[snic_rng_below(&rng, n)];
        scan_all(c, (uint32_t)((i + 1) % 3), k, n, from,
                 (uint32_t)snic_rng_below(&rng, from->size + 1));
    }
    done(c);
}

/* A node that is restarted, and one that learns, has all keys in its index. */
static void test_store_scan_after_rejoin_and_restart(void **state)
{
    enum { KEYS = 40 };
    struct store_cluster *c = fresh(NULL);
    struct key k[KEYS];
    (void)state;
    uint32_t n = make_keys(k, KEYS, support_seed());
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(store_put(c, i % 3, k[i].bytes, k[i].size, "data", 4), 0);
        k[i].here = 1;
    }
    store_cluster_down(c, 1, STORE_CRASH);
    store_cluster_run(c, 5 * (uint64_t)SECOND);
    for (uint32_t i = 0; i < n; i += 3) {
        assert_int_equal(store_delete(c, 0, k[i].bytes, k[i].size), 0);
        k[i].here = 0;
    }
    store_cluster_up(c, 1, 0);
    assert_true(store_cluster_settle(c));
    for (uint32_t i = 0; i < 3; i++)
        scan_all(c, i, k, n, &k[0], 0);
    store_cluster_down_all(c, STORE_CRASH);
    for (uint32_t i = 0; i < 3; i++)
        store_cluster_up(c, i, 0);
    assert_true(store_cluster_settle(c));
    for (uint32_t i = 0; i < 3; i++)
        scan_all(c, i, k, n, &k[0], 0);
    done(c);
}

static int listed(struct store_cluster *c, uint32_t node, const char *key)
{
    static struct snic_store_cursor cursor;
    struct snic_store_entry e;
    memset(&cursor, 0, sizeof(cursor));
    memcpy(cursor.key, key, strlen(key));
    cursor.key_size = (uint32_t)strlen(key);
    int result = snic_store_next(c->node[node].s, &cursor, &e);
    return result == 0 && e.key_size == strlen(key) && memcmp(e.key, key, e.key_size) == 0;
}

/* A conditional deletion meets a write and fails: the key was always present, and is in each scan
 * of each node, at each moment of it. */
static void test_store_scan_during_a_deletion_that_fails(void **state)
{
    struct store_cluster *c = fresh(&(struct store_cluster_opts){.seed = support_seed()});
    struct store_act *put = test_calloc(2, sizeof(*put)), *del = put + 1;
    uint32_t failed = 0;
    (void)state;
    assert_int_equal(store_put(c, 0, "key", 3, "1", 1), 0);
    for (uint32_t i = 0; i < 60; i++) {
        int gap = 0;
        store_cluster_run(c, 5 * STORE_MS);
        assert_int_equal(store_get(c, 0, "key", 3), 0);
        memset(put, 0, 2 * sizeof(*put));
        del->op.kind = SNIC_STORE_DELETE;
        del->op.key = put->op.key = "key";
        del->op.key_size = put->op.key_size = 3;
        del->op.condition = SNIC_STORE_IF_VERSION;
        del->op.version = c->got.op.version;
        put->op.kind = SNIC_STORE_PUT;
        put->op.data = "2";
        put->op.size = 1;
        assert_int_equal(store_begin(c, i % 3, del), 0);
        store_cluster_run(c, 10000 * (i % 10));
        assert_int_equal(store_begin(c, (i + 1) % 3, put), 0);
        for (uint32_t t = 0; put->pending || del->pending; t++) {
            assert_true(t < 100000);
            store_cluster_run(c, 2000);
            for (uint32_t n = 0; n < 3; n++)
                gap |= !listed(c, n, "key");
        }
        assert_int_equal(put->op.result, 0);
        if (del->op.result == SNIC_ECANCELED)
            assert_false(gap);
        failed += del->op.result == SNIC_ECANCELED;
        store_cluster_run(c, 5 * STORE_MS);
        if (store_get(c, 1, "key", 3) != 0)
            assert_int_equal(store_put(c, 0, "key", 3, "1", 1), 0);
    }
    assert_true(failed > 5);
    test_free(put);
    done(c);
}

/* ---- TTL ---- */

static int put_ttl(struct store_cluster *c, uint32_t node, const char *key, uint64_t ttl_ns,
                   uint64_t client)
{
    struct store_act *a = &c->got;
    memset(&a->op, 0, sizeof(a->op));
    a->op.kind = SNIC_STORE_PUT;
    a->op.key = key;
    a->op.key_size = (uint32_t)strlen(key);
    a->op.data = "x";
    a->op.size = 1;
    a->op.ttl_ns = ttl_ns;
    a->op.client = client;
    a->op.sequence = client;
    return store_act(c, node, a);
}

static int expire(struct store_cluster *c, uint32_t node, const char *key, uint64_t ttl_ns)
{
    struct store_act *a = &c->got;
    memset(&a->op, 0, sizeof(a->op));
    a->op.kind = SNIC_STORE_EXPIRE;
    a->op.key = key;
    a->op.key_size = (uint32_t)strlen(key);
    a->op.ttl_ns = ttl_ns;
    return store_act(c, node, a);
}

static int get(struct store_cluster *c, uint32_t node, const char *key)
{
    return store_get(c, node, key, (uint32_t)strlen(key));
}

/* A value is there for its TTL at every node, and then at none; a newer one is not deleted by the
 * older one's TTL; EXPIRE sets and removes it. */
static void test_store_ttl_ends_everywhere(void **state)
{
    struct store_cluster *c = fresh(NULL);
    (void)state;
    assert_int_equal(put_ttl(c, 0, "a", 2 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(put_ttl(c, 1, "b", 2 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(put_ttl(c, 2, "c", 2 * (uint64_t)SECOND, 7), 0);
    assert_int_equal(put_ttl(c, 2, "d", 2 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(put_ttl(c, 0, "e", 2 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(get(c, 1, "a"), 0);
    assert_in_range(c->got.op.ttl_ns, SECOND, 2 * (uint64_t)SECOND);
    store_cluster_run(c, SECOND);
    assert_int_equal(put_ttl(c, 2, "b", 0, 0), 0);
    assert_int_equal(expire(c, 0, "d", 0), 0);
    assert_int_equal(expire(c, 1, "e", 4 * (uint64_t)SECOND), 0);
    assert_int_equal(expire(c, 1, "none", SECOND), SNIC_ENOENT);
    store_cluster_run(c, SECOND / 2);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(get(c, n, "a"), 0);
        assert_int_equal(get(c, n, "c"), 0);
    }
    store_cluster_run(c, 3 * (uint64_t)SECOND / 5);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(get(c, n, "a"), SNIC_ENOENT);
        assert_int_equal(get(c, n, "b"), 0);
        assert_int_equal(c->got.op.ttl_ns, 0);
        assert_int_equal(get(c, n, "c"), SNIC_ENOENT);
        assert_int_equal(get(c, n, "d"), 0);
        assert_int_equal(get(c, n, "e"), 0);
    }
    assert_int_equal(put_ttl(c, 1, "c", 0, 7), 0); /* its list is still there */
    assert_int_equal(c->got.op.out, SNIC_STORE_REPEATED);
    store_cluster_run(c, 4 * (uint64_t)SECOND);
    assert_int_equal(get(c, 2, "e"), SNIC_ENOENT);
    done(c);
}

/* A write that meets the end of the older value's TTL, some microseconds before or after: it stays.
 */
static void test_store_ttl_race_with_a_write(void **state)
{
    struct store_cluster *c = fresh(&(struct store_cluster_opts){.seed = support_seed()});
    struct store_act *put = test_calloc(1, sizeof(*put));
    struct snic_store_entry e;
    (void)state;
    for (uint32_t i = 0; i < 150; i++) {
        assert_int_equal(put_ttl(c, 0, "k", 20 * STORE_MS, 0), 0);
        assert_int_equal(snic_store_look(c->node[0].s, "k", 1, &e), 0);
        store_cluster_run(c, e.ttl_ns + 1000 * (uint64_t)i - 100000);
        memset(put, 0, sizeof(*put));
        put->op.kind = SNIC_STORE_PUT;
        put->op.key = "k";
        put->op.key_size = 1;
        put->op.data = "new";
        put->op.size = 3;
        assert_int_equal(store_begin(c, 1 + i % 2, put), 0);
        store_cluster_run(c, 50 * STORE_MS);
        assert_int_equal(put->op.result, 0);
        assert_int_equal(get(c, 0, "k"), 0);
        assert_memory_equal(c->got.data, "new", 3);
    }
    test_free(put);
    done(c);
}

static int append(void *ctx, struct snic_store_change *ch)
{
    (void)ctx;
    if (ch->old_size != 0)
        memcpy(ch->out, ch->old, ch->old_size);
    ((char *)ch->out)[ch->old_size] = '+';
    ch->out_size = ch->old_size + 1;
    ch->keep_ttl = 1;
    return SNIC_STORE_CHANGE_PUT;
}

/* Changes that keep the TTL, at changing nodes, do not move its end. */
static void test_store_ttl_kept_by_changes(void **state)
{
    struct store_cluster *c = fresh(NULL);
    struct store_act *a = &c->got;
    (void)state;
    assert_int_equal(put_ttl(c, 0, "k", 2 * (uint64_t)SECOND, 0), 0);
    for (uint32_t i = 0; i < 100; i++) {
        memset(&a->op, 0, sizeof(a->op));
        a->op.kind = SNIC_STORE_MODIFY;
        a->op.key = "k";
        a->op.key_size = 1;
        a->op.modify = append;
        assert_int_equal(store_act(c, i % 3, a), 0);
        store_cluster_run(c, 10 * STORE_MS);
    }
    assert_int_equal(get(c, 0, "k"), 0);
    assert_true(c->got.op.ttl_ns < SECOND);
    store_cluster_run(c, c->got.op.ttl_ns + 300 * (uint64_t)STORE_MS);
    assert_int_equal(get(c, 1, "k"), SNIC_ENOENT);
    done(c);
}

/* The coordinator is gone when the TTL ends: the lowest FULL node deletes. */
static void test_store_ttl_of_a_dead_coordinator(void **state)
{
    struct store_cluster *c = fresh(NULL);
    (void)state;
    assert_int_equal(put_ttl(c, 2, "k", 4 * (uint64_t)SECOND, 0), 0);
    assert_int_equal(put_ttl(c, 0, "m", 4 * (uint64_t)SECOND, 0), 0);
    store_cluster_down(c, 2, STORE_CRASH);
    store_cluster_run(c, 6 * (uint64_t)SECOND);
    assert_int_equal(get(c, 1, "k"), SNIC_ENOENT);
    assert_int_equal(get(c, 1, "m"), SNIC_ENOENT);
    assert_int_equal(put_ttl(c, 1, "k", 4 * (uint64_t)SECOND, 0), 0);
    store_cluster_down(c, 1, STORE_CRASH); /* min_full: no deletion now */
    store_cluster_run(c, 6 * (uint64_t)SECOND);
    store_cluster_up(c, 1, 0);
    store_cluster_up(c, 2, 0);
    assert_true(store_cluster_settle(c));
    store_cluster_run(c, 12 * (uint64_t)SECOND);
    assert_int_equal(get(c, 1, "k"), SNIC_ENOENT);
    done(c);
}

/* After a restart of all a TTL begins anew, and ends. */
static void test_store_ttl_after_restart_begins_anew(void **state)
{
    struct store_cluster *c = fresh(NULL);
    (void)state;
    assert_int_equal(put_ttl(c, 2, "k", 10 * (uint64_t)SECOND, 0), 0);
    store_cluster_run(c, 8 * (uint64_t)SECOND);
    store_cluster_down_all(c, STORE_CRASH);
    for (uint32_t i = 0; i < 3; i++)
        store_cluster_up(c, i, 0);
    assert_true(store_cluster_settle(c));
    assert_int_equal(get(c, 1, "k"), 0);
    store_cluster_run(c, 5 * (uint64_t)SECOND);
    assert_int_equal(get(c, 0, "k"), 0);
    store_cluster_run(c, 7 * (uint64_t)SECOND);
    assert_int_equal(get(c, 0, "k"), SNIC_ENOENT);
    done(c);
}

/* In each model a TTL ends; in SCOPE its deletion is of no scope, and none is left open. */
static void test_store_ttl_in_each_model(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_STRICT; model <= SNIC_DDP_SCOPE; model++) {
        struct store_cluster_opts o = {.seed = support_seed(), .model = model, .checks = 1};
        struct store_cluster *c = fresh(&o);
        struct store_act *a = &c->got;
        struct snic_replica_stats stats;
        for (uint32_t i = 0; i < 20; i++) {
            memset(&a->op, 0, sizeof(a->op));
            a->op.kind = SNIC_STORE_PUT;
            a->op.key = "k";
            a->op.key_size = 1;
            a->op.data = "x";
            a->op.size = 1;
            a->op.ttl_ns = SECOND / 10;
            a->op.client = i % 2;
            a->op.sequence = i + 1;
            a->op.scope = model == SNIC_DDP_SCOPE ? snic_store_scope(c->node[0].s) : 0;
            uint64_t scope = a->op.scope;
            assert_int_equal(store_act(c, 0, a), 0);
            if (scope != 0) {
                memset(&a->op, 0, sizeof(a->op));
                a->op.kind = SNIC_STORE_SYNC;
                a->op.scope = scope;
                assert_int_equal(store_act(c, 0, a), 0);
            }
            store_cluster_run(c, SECOND / 5);
            assert_int_equal(get(c, 2, "k"), SNIC_ENOENT);
        }
        snic_replica_get_stats(snic_store_replica(c->node[0].s), &stats);
        assert_int_equal(stats.ddp.scopes, 0);
        done(c);
    }
}

/* Many end at once: all are deleted, a bounded number at a time. */
static void test_store_ttl_many_end_at_once(void **state)
{
    enum { KEYS = 150 };
    struct store_cluster *c = fresh(&(struct store_cluster_opts){.seed = support_seed()});
    char key[16];
    (void)state;
    for (uint32_t i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(put_ttl(c, i % 3, key, 3 * (uint64_t)SECOND, 0), 0);
    }
    store_cluster_run(c, 6 * (uint64_t)SECOND);
    struct snic_store_stats stats;
    for (uint32_t n = 0; n < 3; n++) {
        snic_store_get_stats(c->node[n].s, &stats);
        assert_int_equal(stats.keys, 0);
        assert_int_equal(stats.expiring, 0);
        assert_int_equal(snic_store_check(c->node[n].s), 0);
    }
    done(c);
}

/* ---- Watch ---- */

static void ready(struct snic_store_watch *w)
{
    w->pad++;
}

static void expect_event(struct store_cluster *c, uint32_t node, struct snic_store_watch *w,
                         uint32_t kind, const char *key, const char *data)
{
    struct snic_store_event e;
    assert_int_equal(snic_store_watch_next(c->node[node].s, w, &e), 0);
    assert_int_equal(e.kind, kind);
    assert_int_equal(e.key_size, strlen(key));
    assert_memory_equal(e.key, key, e.key_size);
    if (data == NULL)
        assert_null(e.data);
    else
        assert_memory_equal(e.data, data, strlen(data));
}

/* A key and a prefix: each change once, in order, deletions by a TTL as such. */
static void test_store_watch_sees_each_change(void **state)
{
    struct store_cluster *c = fresh(NULL);
    struct snic_store_watch one = {.key = "ab", .key_size = 2, .ready = ready};
    struct snic_store_watch all = {.key = "a", .key_size = 1, .prefix = 1, .ready = ready};
    struct snic_store_event e;
    struct snic_store *s = c->node[1].s;
    (void)state;
    assert_int_equal(snic_store_watch_start(s, &one), 0);
    assert_int_equal(snic_store_watch_start(s, &all), 0);
    assert_int_equal(snic_store_watch_next(s, &one, &e), SNIC_EAGAIN);
    assert_int_equal(store_put(c, 0, "ab", 2, "1", 1), 0);
    assert_int_equal(store_put(c, 2, "abc", 3, "2", 1), 0);
    assert_int_equal(store_put(c, 0, "b", 1, "3", 1), 0);
    assert_int_equal(store_delete(c, 2, "ab", 2), 0);
    assert_int_equal(put_ttl(c, 2, "abc", SECOND, 0), 0);
    assert_int_equal(put_ttl(c, 2, "abd", SECOND, 9), 0);
    store_cluster_run(c, 3 * (uint64_t)SECOND);
    assert_true(one.pad > 0);
    expect_event(c, 1, &one, SNIC_STORE_EVENT_PUT, "ab", "1");
    expect_event(c, 1, &one, SNIC_STORE_EVENT_DELETE, "ab", NULL);
    assert_int_equal(snic_store_watch_next(s, &one, &e), SNIC_EAGAIN);
    expect_event(c, 1, &all, SNIC_STORE_EVENT_PUT, "ab", "1");
    expect_event(c, 1, &all, SNIC_STORE_EVENT_PUT, "abc", "2");
    expect_event(c, 1, &all, SNIC_STORE_EVENT_DELETE, "ab", NULL);
    expect_event(c, 1, &all, SNIC_STORE_EVENT_PUT, "abc", "x");
    expect_event(c, 1, &all, SNIC_STORE_EVENT_PUT, "abd", "x");
    expect_event(c, 1, &all, SNIC_STORE_EVENT_EXPIRE, "abc", NULL);
    expect_event(c, 1, &all, SNIC_STORE_EVENT_EXPIRE, "abd", NULL);
    assert_int_equal(snic_store_watch_next(s, &all, &e), SNIC_EAGAIN);
    /* Reconnecting to the same node continues; to another one, or after a restart: a scan. */
    struct snic_store_position at = all.position;
    snic_store_watch_stop(s, &all);
    assert_int_equal(store_put(c, 0, "az", 2, "4", 1), 0);
    store_cluster_run(c, 10 * STORE_MS);
    all.position = at;
    assert_int_equal(snic_store_watch_start(s, &all), 0);
    expect_event(c, 1, &all, SNIC_STORE_EVENT_PUT, "az", "4");
    snic_store_watch_stop(s, &all);
    snic_store_watch_stop(s, &one);
    snic_store_watch_stop(s, &one);
    all.position = at;
    assert_int_equal(snic_store_watch_start(c->node[0].s, &all), SNIC_EOVERFLOW);
    assert_int_equal(all.position.node, 0);
    snic_store_watch_stop(c->node[0].s, &all);
    store_cluster_down(c, 1, STORE_CRASH);
    store_cluster_up(c, 1, 0);
    assert_true(store_cluster_settle(c));
    memset(&all.position, 0, sizeof(all.position));
    assert_int_equal(snic_store_watch_start(c->node[1].s, &all), 0);
    for (uint32_t i = 0; i < 20; i++) /* its numbers reach the old position */
        assert_int_equal(store_put(c, 1, "ab", 2, "5", 1), 0);
    snic_store_watch_stop(c->node[1].s, &all);
    all.position = at;
    assert_int_equal(snic_store_watch_start(c->node[1].s, &all), SNIC_EOVERFLOW);
    snic_store_watch_stop(c->node[1].s, &all);
    done(c);
}

static int has_readable(struct snic_store *s)
{
    struct snic_replica_stats stats;
    snic_replica_get_stats(snic_store_replica(s), &stats);
    return stats.ddp.serves != 0;
}

/* Watches that begin at any time before their node serves, when it learns and when all restart,
 * have missed what became readable when it served: they overflow then, without another change. */
static void test_store_watch_begun_while_learning_overflows(void **state)
{
    enum { WATCHES = 200 };
    struct store_cluster *c = fresh(NULL);
    struct snic_store_watch *w = test_calloc(WATCHES, sizeof(*w));
    struct snic_store_event e;
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t count = 0;
        store_cluster_down(c, 1, STORE_CRASH);
        store_cluster_run(c, 5 * (uint64_t)SECOND);
        assert_int_equal(store_put(c, 0, "key", 3, "1", 1), 0);
        if (i == 1)
            store_cluster_down_all(c, STORE_CRASH);
        for (uint32_t n = 0; n < 3; n++)
            store_cluster_up(c, n, 0);
        while (!has_readable(c->node[1].s)) {
            assert_int_not_equal(count, WATCHES);
            w[count] = (struct snic_store_watch){.prefix = 1, .ready = ready};
            assert_int_equal(snic_store_watch_start(c->node[1].s, &w[count++]), 0);
            store_cluster_run(c, 10 * STORE_MS);
        }
        assert_true(count > 1);
        store_cluster_run(c, 5 * STORE_MS);
        for (uint32_t k = 0; k < count; k++) {
            assert_int_equal(snic_store_watch_next(c->node[1].s, &w[k], &e), SNIC_EOVERFLOW);
            assert_int_equal(snic_store_watch_next(c->node[1].s, &w[k], &e), SNIC_EAGAIN);
            snic_store_watch_stop(c->node[1].s, &w[k]);
        }
        assert_true(store_cluster_settle(c));
    }
    test_free(w);
    done(c);
}

/* A watch that is not read misses changes when the ring has gone past it, by number or by bytes,
 * and continues after an error; the other watches are not delayed and memory is bounded. */
static void test_store_watch_slow_one_overflows(void **state)
{
    struct store_cluster_opts o = {.seed = support_seed(), .checks = 1, .changes_max = 8};
    struct store_cluster *c = fresh(&o);
    struct snic_store_watch slow = {.prefix = 1}, fast = {.prefix = 1};
    struct snic_store_event e;
    struct snic_store_stats stats;
    struct snic_store *s = c->node[0].s;
    char key[8];
    (void)state;
    assert_int_equal(snic_store_watch_start(s, &slow), 0);
    assert_int_equal(snic_store_watch_start(s, &fast), 0);
    for (uint32_t i = 0; i < 80; i++) { /* ten times the ring */
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(store_put(c, 0, key, (uint32_t)strlen(key), "v", 1), 0);
        expect_event(c, 0, &fast, SNIC_STORE_EVENT_PUT, key, "v");
    }
    assert_int_equal(snic_store_watch_next(s, &slow, &e), SNIC_EOVERFLOW);
    assert_int_equal(store_put(c, 0, "last", 4, "v", 1), 0);
    expect_event(c, 0, &slow, SNIC_STORE_EVENT_PUT, "last", "v");
    assert_int_equal(snic_store_watch_next(s, &slow, &e), SNIC_EAGAIN);
    snic_store_get_stats(s, &stats);
    assert_int_equal(stats.overflows, 1);
    assert_int_equal(stats.watches, 2);
    done(c);
}

static struct snic_store *many;
static uint32_t called, got;

/* It reads all that there is for it. */
static void read_all(struct snic_store_watch *w)
{
    struct snic_store_event e;
    called++;
    while (snic_store_watch_next(many, w, &e) == 0)
        got += w->key_size;
}

/* What watches of other keys make of an iteration of the loop is bounded, however many there are
 * and however many changes came: a loop that is late loses the node's lease. */
static void test_store_watch_many_in_turn(void **state)
{
    enum { WATCHES = 4000, PUTS = 200 };
    struct snic_store_watch *w = test_calloc(WATCHES, sizeof(*w));
    uint32_t most = 0;
    (void)state;
    struct store_cluster *c = fresh(NULL);
    struct snic_store *s = many = c->node[0].s;
    for (uint32_t i = 0; i < WATCHES; i++) {
        struct snic_store_event e;
        w[i] = (struct snic_store_watch){.key = "other", .key_size = 5, .ready = read_all};
        w[i].key_size = i == WATCHES - 1 ? 1 : 5;
        assert_int_equal(snic_store_watch_start(s, &w[i]), 0);
        assert_int_equal(snic_store_watch_next(s, &w[i], &e), SNIC_EAGAIN);
    }
    snic_loop_arm(s->loop, &s->wake, SNIC_NEVER - 1); /* all changes come in one iteration */
    for (uint32_t i = 0; i < PUTS; i++)
        assert_int_equal(store_put(c, 0, i == PUTS / 2 ? "o" : "x", 1, "v", 1), 0);
    got = 0;
    for (snic_loop_arm(s->loop, &s->wake, 0); s->wake.armed;) {
        called = 0;
        assert_true(snic_world_step(c->world) != 0);
        most = called > most ? called : most;
    }
    assert_true(most > 0 && most * PUTS <= 40000);
    assert_int_equal(got, 1);
    for (uint32_t i = 0; i < WATCHES; i++)
        assert_true(w[i].position.number == s->ring_next);
    for (uint32_t i = 0; i < WATCHES; i++)
        snic_store_watch_stop(s, &w[i]);
    test_free(w);
    done(c);
}

static void test_store_watch_bytes_bounded(void **state)
{
    struct store_cluster_opts o = {.seed = support_seed(), .checks = 1};
    o.changes_bytes = STORE_VALUE;
    struct store_cluster *c = fresh(&o);
    static unsigned char value[STORE_VALUE];
    struct snic_store_watch slow = {.prefix = 1};
    struct snic_store_event e;
    (void)state;
    assert_int_equal(snic_store_watch_start(c->node[0].s, &slow), 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(store_put(c, 0, "k", 1, value, sizeof(value)), 0);
    assert_int_equal(snic_store_watch_next(c->node[0].s, &slow, &e), SNIC_EOVERFLOW);
    assert_int_equal(store_put(c, 0, "k", 1, value, sizeof(value)), 0);
    assert_int_equal(snic_store_watch_next(c->node[0].s, &slow, &e), 0);
    assert_int_equal(e.size, sizeof(value));
    done(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_scan_is_the_sorted_model),
        cmocka_unit_test(test_store_scan_after_rejoin_and_restart),
        cmocka_unit_test(test_store_scan_during_a_deletion_that_fails),
        cmocka_unit_test(test_store_ttl_ends_everywhere),
        cmocka_unit_test(test_store_ttl_race_with_a_write),
        cmocka_unit_test(test_store_ttl_kept_by_changes),
        cmocka_unit_test(test_store_ttl_of_a_dead_coordinator),
        cmocka_unit_test(test_store_ttl_after_restart_begins_anew),
        cmocka_unit_test(test_store_ttl_in_each_model),
        cmocka_unit_test(test_store_ttl_many_end_at_once),
        cmocka_unit_test(test_store_watch_sees_each_change),
        cmocka_unit_test(test_store_watch_begun_while_learning_overflows),
        cmocka_unit_test(test_store_watch_slow_one_overflows),
        cmocka_unit_test(test_store_watch_many_in_turn),
        cmocka_unit_test(test_store_watch_bytes_bounded),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
