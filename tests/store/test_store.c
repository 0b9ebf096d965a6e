/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Operations of a store in a cluster of three: what each returns, and what it leaves. */
#include "store_cluster.h"

#include "support.h"

#include <stdio.h>
#include <string.h>

static struct store_cluster *fresh(void)
{
    struct store_cluster_opts o = {.seed = support_seed()};
    struct store_cluster *c = store_cluster_new(&o);
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

/* Keys of any length and content; each key has its own value at every node. */
static void test_store_put_get_delete_at_any_node(void **state)
{
    (void)state;
    struct store_cluster *c = fresh();
    unsigned char key[SNIC_STORE_KEY_MAX];
    char value[32];
    static const uint32_t sizes[] = {0, 1, 16, 17, 255, 1024};
    for (uint32_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        memset(key, (int)i, sizeof(key));
        (void)snprintf(value, sizeof(value), "value of %u", i);
        assert_int_equal(store_put(c, i % 3, key, sizes[i], value, (uint32_t)strlen(value)), 0);
    }
    for (uint32_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        memset(key, (int)i, sizeof(key));
        (void)snprintf(value, sizeof(value), "value of %u", i);
        for (uint32_t n = 0; n < 3; n++) {
            assert_int_equal(store_get(c, n, key, sizes[i]), 0);
            assert_int_equal(c->got.size, strlen(value));
            assert_memory_equal(c->got.data, value, strlen(value));
        }
        assert_int_equal(store_delete(c, (i + 1) % 3, key, sizes[i]), 0);
        assert_int_equal(store_get(c, i % 3, key, sizes[i]), SNIC_ENOENT);
    }
    done(c);
}

static void not_called(void *ctx, const struct snic_replica_change *change)
{
    (void)ctx;
    (void)change;
}

/* Every wrong option is named, and nothing is made of it. */
static void test_store_options_checked(void **state)
{
    struct store_cluster_opts co = {.seed = support_seed()};
    struct store_cluster *c = store_cluster_new(&co);
    struct snic_replica_opts r;
    struct snic_store_opts good, o;
    struct snic_store *s = NULL;
    unsigned char *none = support_guard_alloc(64, SNIC_STORE_ALIGN);
    (void)state;
    store_cluster_options(c, 0, &r, &good);
    assert_null(snic_store_opts_wrong(&good));
    size_t size = snic_store_memsize(&good);
    assert_true(size > 0);
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        o = good;                                                                                  \
        o.field = (value);                                                                         \
        support_names(snic_store_opts_wrong(&o), #field);                                          \
        assert_int_equal(snic_store_memsize(&o), 0);                                               \
        assert_int_equal(snic_store_init(&s, none, 64, &o), SNIC_EINVAL);                          \
    } while (0)
    BAD(opts_size, 3);
    BAD(flags, 1);
    BAD(replica, NULL);
    BAD(value_max, SNIC_STORE_VALUE_MAX + 1);
    BAD(sessions_max, SNIC_STORE_SESSIONS_MAX + 1);
    BAD(session_window_ns, (UINT64_C(1) << 60) + 1);
    BAD(tries_max, (1u << 20) + 1);
    BAD(changes_max, 3);
    BAD(changes_max, 1u << 25);
    BAD(changes_bytes, good.value_max - 1);
    BAD(changes_bytes, (UINT64_C(1) << 36) + 1);
    BAD(ops_max, (1u << 20) + 1);
    BAD(pad, 1);
#undef BAD
    r.changed = not_called;
    support_names(snic_store_opts_wrong(&good), "replica");
    r.changed = NULL;
    r.opts_size = 3;
    support_names(snic_store_opts_wrong(&good), "replica");
    r.opts_size = sizeof(r);
    assert_int_equal(snic_store_init(&s, none + 1, 63, &good), SNIC_EINVAL);
    r.keys_max = 0; /* one of the replica's */
    support_names(snic_store_opts_wrong(&good), "keys_max");
    r.keys_max = 16;
    assert_int_equal(snic_store_init(&s, none, 64, &good), SNIC_ENOSPC);
    assert_null(s);
    support_guard_free(none);
    done(c);
}

/* What cannot be executed is refused at submit, and nothing is borrowed. */
static void test_store_operations_refused(void **state)
{
    struct store_cluster *c = fresh();
    static unsigned char big[SNIC_STORE_KEY_MAX + 1];
    static unsigned char value[STORE_VALUE + 1];
    struct store_act *a = &c->got;
    (void)state;
#define REFUSED(error, ...)                                                                        \
    do {                                                                                           \
        memset(&a->op, 0, sizeof(a->op));                                                          \
        a->op = (struct snic_store_op){.key = "k", .key_size = 1, __VA_ARGS__};                    \
        assert_int_equal(store_begin(c, 0, a), error);                                             \
    } while (0)
    REFUSED(SNIC_EINVAL, .kind = 0);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_SYNC + 1);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_GET, .flags = SNIC_STORE_OLD);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_PUT, .flags = SNIC_STORE_EXACT);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_PUT, .flags = 1u << 9);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_PUT, .condition = SNIC_STORE_IF_VERSION + 1);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_GET, .condition = SNIC_STORE_IF_PRESENT);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_GET, .client = 1, .sequence = 1);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_PUT, .client = 1);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_PUT, .size = 1);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_PUT, .durability = SNIC_STORE_DURABILITIES);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_PUT, .copies_min = 65536 + 1);
    REFUSED(SNIC_EINVAL, .kind = SNIC_STORE_MODIFY);
#undef REFUSED
    assert_int_equal(store_get(c, 0, big, sizeof(big)), SNIC_EMSGSIZE);
    assert_int_equal(store_get(c, 0, NULL, 1), SNIC_EINVAL);
    assert_int_equal(store_put(c, 0, "k", 1, value, sizeof(value)), SNIC_EMSGSIZE);
    assert_int_equal(store_put(c, 0, "k", 1, value, sizeof(value) - 1), 0);
    assert_int_equal(store_get(c, 1, "k", 1), 0);
    assert_int_equal(c->got.size, sizeof(value) - 1);
    done(c);
}

/* Adds one to a number of 8 bytes. */
static int increment(void *ctx, struct snic_store_change *ch)
{
    uint64_t n = 0;
    (void)ctx;
    if (ch->old_size == 8)
        n = snic_get_le64(ch->old);
    snic_put_le64(ch->out, n + 1);
    ch->out_size = 8;
    ch->answer = n + 1;
    return SNIC_STORE_CHANGE_PUT;
}

static void prepare_increment(struct store_act *a, uint64_t client, uint64_t sequence)
{
    memset(&a->op, 0, sizeof(a->op));
    a->op.kind = SNIC_STORE_MODIFY;
    a->op.key = "count";
    a->op.key_size = 5;
    a->op.modify = increment;
    a->op.client = client;
    a->op.sequence = sequence;
}

static int put_if(struct store_cluster *c, uint32_t node, const char *value, uint32_t condition,
                  uint64_t version)
{
    struct store_act *a = &c->got;
    memset(&a->op, 0, sizeof(a->op));
    a->op.kind = SNIC_STORE_PUT;
    a->op.key = "key";
    a->op.key_size = 3;
    a->op.data = value;
    a->op.size = (uint32_t)strlen(value);
    a->op.condition = condition;
    a->op.version = version;
    return store_act(c, node, a);
}

/* An answer has the number of FULL copies. With fewer than min_full, or than the operation asks
 * for, writes of both kinds are refused and change nothing; reads are served. */
static void test_store_copies_counted_and_demanded(void **state)
{
    struct store_cluster *c = fresh();
    struct store_act *a = &c->got;
    (void)state;
    assert_int_equal(store_put(c, 0, "key", 3, "v", 1), 0);
    assert_int_equal(a->op.copies, 3);
    assert_int_equal(put_if(c, 1, "w", SNIC_STORE_IF_PRESENT, 0), 0);
    assert_int_equal(a->op.copies, 3);
    store_cluster_down(c, 2, STORE_CRASH);
    store_cluster_run(c, 5000 * (uint64_t)STORE_MS);
    assert_int_equal(put_if(c, 1, "x", SNIC_STORE_IF_PRESENT, 0), 0);
    assert_int_equal(a->op.copies, 2);
    for (uint32_t condition = 0; condition <= SNIC_STORE_IF_PRESENT; condition += 2) {
        memset(&a->op, 0, sizeof(a->op));
        a->op.kind = SNIC_STORE_DELETE;
        a->op.key = "key";
        a->op.key_size = 3;
        a->op.condition = condition;
        a->op.copies_min = 3;
        assert_int_equal(store_act(c, 0, a), SNIC_ENOQUORUM);
    }
    assert_int_equal(store_get(c, 1, "key", 3), 0);
    assert_int_equal(a->data[0], 'x');
    for (uint32_t copies = 0; copies <= 3; copies++) { /* executed once, and then repeated */
        prepare_increment(a, 7, 1);
        a->op.copies_min = copies;
        assert_int_equal(store_act(c, copies % 2, a), copies <= 2 ? 0 : SNIC_EUNKNOWN);
        assert_int_equal(a->op.copies, copies <= 2 ? 2 : 0);
        assert_int_equal(a->op.out, copies == 1 || copies == 2 ? SNIC_STORE_REPEATED : 0);
    }
    done(c);
}

/* A GET that a majority confirms is answered while there is one, and not by a node that is alone.
 */
static void test_store_confirmed_get_needs_a_majority(void **state)
{
    struct store_cluster *c = fresh();
    struct store_act *a = &c->got;
    (void)state;
    assert_int_equal(store_put(c, 0, "key", 3, "v", 1), 0);
    for (uint32_t alone = 0; alone < 2; alone++) {
        memset(&a->op, 0, sizeof(a->op));
        a->op.kind = SNIC_STORE_GET;
        a->op.key = "key";
        a->op.key_size = 3;
        a->op.flags = SNIC_STORE_CONFIRM;
        assert_int_equal(store_begin(c, 0, a), 0);
        store_cluster_run(c, 5000 * (uint64_t)STORE_MS);
        assert_true(alone ? a->pending || a->op.result != 0 : !a->pending && a->op.result == 0);
        store_cluster_down(c, 1, STORE_CRASH);
        store_cluster_down(c, 2, STORE_CRASH);
    }
    done(c);
}

static int grow(void *ctx, struct snic_store_change *ch)
{
    const uint32_t *by = ctx;
    if (ch->old_size + *by <= ch->out_max)
        memcpy(ch->out, ch->old, ch->old_size);
    ch->out_size = ch->old_size + *by;
    return SNIC_STORE_CHANGE_PUT;
}

/* The largest values there can be are stored, and grow to no more. */
static void test_store_largest_values(void **state)
{
    enum { LARGEST = SNIC_STORE_VALUE_MAX };
    struct store_cluster_opts o = {.seed = support_seed(), .nodes = 1, .keys_max = 3};
    unsigned char *value = test_malloc(LARGEST);
    struct snic_store_entry e;
    uint32_t by = LARGEST / 2;
    (void)state;
    o.value_max = LARGEST;
    struct store_cluster *c = store_cluster_new(&o);
    struct store_act *a = &c->got;
    store_cluster_up(c, 0, 1);
    assert_true(store_cluster_settle(c));
    for (uint32_t i = 0; i < LARGEST; i++)
        value[i] = (unsigned char)(i * 7 + (i >> 12));
    assert_int_equal(store_put(c, 0, "big", 3, value, LARGEST), 0);
    assert_int_equal(snic_store_look(c->node[0].s, "big", 3, &e), 0);
    assert_int_equal(e.size, LARGEST);
    assert_memory_equal(e.data, value, LARGEST);
    assert_int_equal(store_put(c, 0, "half", 4, value, LARGEST / 2), 0);
    for (uint32_t i = 0; i < 2; i++) {
        memset(&a->op, 0, sizeof(a->op));
        a->op.kind = SNIC_STORE_MODIFY;
        a->op.key = "half";
        a->op.key_size = 4;
        a->op.modify = grow;
        a->op.ctx = &by;
        assert_int_equal(store_act(c, 0, a), i == 0 ? 0 : SNIC_EMSGSIZE);
        by = 1;
    }
    assert_int_equal(snic_store_look(c->node[0].s, "half", 4, &e), 0);
    assert_int_equal(e.size, LARGEST);
    test_free(value);
    done(c);
}

/* Reads of several keys are what each of them is by itself. */
static void test_store_look_many_as_each(void **state)
{
    enum { COUNT = 50 };
    struct store_cluster *c = fresh();
    struct snic_store_lookup looks[COUNT];
    char key[COUNT][8];
    unsigned char large[SNIC_STORE_KEY_MAX + 1] = {0};
    (void)state;
    memset(looks, 0, sizeof(looks));
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)snprintf(key[i], sizeof(key[i]), "k%u", i);
        looks[i].key = key[i];
        looks[i].key_size = (uint32_t)strlen(key[i]);
        if (i % 3 != 0)
            assert_int_equal(store_put(c, 0, key[i], looks[i].key_size, key[i], 2), 0);
    }
    looks[30].key = large;
    looks[30].key_size = sizeof(large);
    looks[31].key_size = 0;
    snic_store_look_many(c->node[0].s, looks, 0);
    assert_int_equal(looks[1].result, 0);
    assert_null(looks[1].entry.data);
    snic_store_look_many(c->node[0].s, looks, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct snic_store_entry e;
        const struct snic_store_entry *g = &looks[i].entry;
        int result = snic_store_look(c->node[0].s, looks[i].key, looks[i].key_size, &e);
        assert_int_equal(looks[i].result, result);
        assert_int_equal(result, i == 30 ? SNIC_EMSGSIZE : i % 3 == 0 || i == 31 ? SNIC_ENOENT : 0);
        if (result != 0)
            continue;
        assert_int_equal(g->size, 2);
        assert_memory_equal(g->data, key[i], 2);
        assert_ptr_equal(g->data, e.data);
        assert_ptr_equal(g->key, e.key);
        assert_int_equal(g->key_size, e.key_size);
        assert_int_equal(g->version, e.version);
        assert_int_equal(g->value, e.value);
        assert_int_equal(g->ttl_ns, e.ttl_ns);
    }
    done(c);
}

/* A condition that holds writes once; one that does not writes nothing and returns the value. */
static void test_store_conditions_decide(void **state)
{
    struct store_cluster *c = fresh();
    (void)state;
    assert_int_equal(put_if(c, 0, "a", SNIC_STORE_IF_PRESENT, 0), SNIC_ECANCELED);
    assert_int_equal(c->got.op.version, 0);
    assert_int_equal(put_if(c, 1, "b", SNIC_STORE_IF_ABSENT, 0), 0);
    uint64_t version = c->got.op.version;
    assert_int_equal(put_if(c, 2, "c", SNIC_STORE_IF_ABSENT, 0), SNIC_ECANCELED);
    assert_int_equal(c->got.op.version, version);
    assert_int_equal(c->got.size, 1);
    assert_int_equal(c->got.data[0], 'b');
    assert_int_equal(put_if(c, 0, "d", SNIC_STORE_IF_VERSION, version + 16), SNIC_ECANCELED);
    assert_int_equal(put_if(c, 0, "d", SNIC_STORE_IF_VERSION, version), 0);
    assert_int_equal(put_if(c, 1, "e", SNIC_STORE_IF_VERSION, version), SNIC_ECANCELED);
    assert_int_equal(put_if(c, 1, "e", SNIC_STORE_IF_VERSION, 0), SNIC_ECANCELED);
    assert_int_equal(put_if(c, 2, "f", SNIC_STORE_IF_PRESENT, 0), 0);
    assert_int_equal(store_get(c, 0, "key", 3), 0);
    assert_int_equal(c->got.data[0], 'f');
    assert_int_equal(store_delete(c, 1, "key", 3), 0);
    assert_int_equal(put_if(c, 2, "g", SNIC_STORE_IF_VERSION, 0), 0);
    done(c);
}

/* Increments at all nodes at once: each counts once, whatever order they take. */
static void test_store_modify_concurrent_increments_all_count(void **state)
{
    enum { MANY = 12 };
    struct store_cluster *c = fresh();
    struct store_act *acts = test_calloc(MANY * 3, sizeof(*acts));
    uint64_t sum = 0;
    (void)state;
    for (uint32_t i = 0; i < MANY * 3; i++) {
        prepare_increment(&acts[i], 0, 0);
        assert_int_equal(store_begin(c, i % 3, &acts[i]), 0);
    }
    store_cluster_run(c, 2000 * (uint64_t)STORE_MS);
    for (uint32_t i = 0; i < MANY * 3; i++) {
        assert_false(acts[i].pending);
        assert_int_equal(acts[i].op.result, 0);
        sum += acts[i].op.answer;
    }
    assert_int_equal(sum, MANY * 3 * (MANY * 3 + 1) / 2); /* each number once */
    assert_int_equal(store_get(c, 2, "count", 5), 0);
    assert_int_equal(snic_get_le64(c->got.data), MANY * 3);
    assert_int_equal(snic_store_check(c->node[0].s), 0);
    test_free(acts);
    done(c);
}

/* The same (client, sequence) at every node: executed once, and each time with that answer. */
static void test_store_session_repeated_executes_once(void **state)
{
    struct store_cluster *c = fresh();
    struct store_act *a = &c->got;
    (void)state;
    prepare_increment(a, 7, 1);
    assert_int_equal(store_act(c, 0, a), 0);
    assert_int_equal(a->op.answer, 1);
    assert_int_equal(a->op.out, 0);
    for (uint32_t n = 0; n < 3; n++) {
        prepare_increment(a, 7, 1);
        assert_int_equal(store_act(c, n, a), 0);
        assert_int_equal(a->op.answer, 1);
        assert_int_equal(a->op.out, SNIC_STORE_REPEATED);
    }
    prepare_increment(a, 7, 2);
    assert_int_equal(store_act(c, 1, a), 0);
    assert_int_equal(a->op.answer, 2);
    prepare_increment(a, 7, 1); /* older than what the list has */
    assert_int_equal(store_act(c, 1, a), SNIC_EUNKNOWN);
    assert_int_equal(a->op.out, SNIC_STORE_NOT_TRIED);
    assert_int_equal(store_put(c, 2, "count", 5, "\1\0\0\0\0\0\0\0", 8), 0);
    prepare_increment(a, 7, 2); /* a plain write keeps the list */
    assert_int_equal(store_act(c, 0, a), 0);
    assert_int_equal(a->op.answer, 2);
    assert_int_equal(a->op.out, SNIC_STORE_REPEATED);
    assert_int_equal(store_delete(c, 1, "count", 5), 0);
    assert_int_equal(store_get(c, 2, "count", 5), SNIC_ENOENT);
    prepare_increment(a, 7, 2); /* and so does a deletion */
    assert_int_equal(store_act(c, 2, a), 0);
    assert_int_equal(a->op.out, SNIC_STORE_REPEATED);
    prepare_increment(a, 7, 3);
    assert_int_equal(store_act(c, 2, a), 0);
    assert_int_equal(a->op.answer, 1);
    done(c);
}

/* A repeated operation of ALL is answered when the write that it finds is durable, not when it is
 * readable: what was answered survives the loss of all power. */
static void test_store_session_repeated_is_durable(void **state)
{
    struct store_cluster_opts o = {.seed = support_seed(), .model = SNIC_DDP_STRICT};
    struct store_act *acts = test_calloc(2, sizeof(*acts));
    (void)state;
    o.flush_ns_max = 50 * (uint64_t)STORE_MS;
    for (uint32_t i = 0; i < 8; i++, o.seed++) {
        struct store_cluster *c = store_cluster_new(&o);
        struct snic_store_entry e;
        for (uint32_t n = 0; n < 3; n++)
            store_cluster_up(c, n, 1);
        assert_true(store_cluster_settle(c));
        prepare_increment(&acts[0], 7, 1);
        assert_int_equal(store_begin(c, 0, &acts[0]), 0);
        for (uint32_t t = 0; snic_store_look(c->node[1].s, "count", 5, &e) != 0; t++) {
            assert_true(t < 10000);
            store_cluster_run(c, STORE_MS / 10);
        }
        prepare_increment(&acts[1], 7, 1);
        assert_int_equal(store_act(c, 1, &acts[1]), 0);
        assert_int_equal(acts[1].op.out, SNIC_STORE_REPEATED);
        store_cluster_down_all(c, STORE_DARK);
        for (uint32_t n = 0; n < 3; n++)
            store_cluster_up(c, n, 0);
        assert_true(store_cluster_settle(c));
        assert_int_equal(store_get(c, 2, "count", 5), 0);
        done(c);
    }
    test_free(acts);
}

/* A deletion with a condition keeps the list as well, and it has a list entry of its own. */
static void test_store_session_deletion_keeps_the_list(void **state)
{
    struct store_cluster *c = fresh();
    struct store_act *a = &c->got;
    (void)state;
    prepare_increment(a, 7, 1);
    assert_int_equal(store_act(c, 0, a), 0);
    for (uint64_t client = 0; client < 2; client++) {
        memset(&a->op, 0, sizeof(a->op));
        a->op.kind = SNIC_STORE_DELETE;
        a->op.key = "count";
        a->op.key_size = 5;
        a->op.flags = SNIC_STORE_EXACT;
        a->op.client = a->op.sequence = 8 * client;
        assert_int_equal(store_act(c, 1, a), client == 0 ? 0 : SNIC_ENOENT);
        prepare_increment(a, 7, 1);
        assert_int_equal(store_act(c, 2, a), 0);
        assert_int_equal(a->op.out, SNIC_STORE_REPEATED);
    }
    assert_int_equal(store_get(c, 2, "count", 5), SNIC_ENOENT);
    done(c);
}

/* More clients than the list has: the first one's retry is unknown, never executed again; a new
 * operation with what a read gave is. */
static void test_store_session_beyond_bound_unknown(void **state)
{
    struct store_cluster *c = fresh();
    struct store_act *a = &c->got;
    (void)state;
    for (uint64_t client = 1; client <= 9; client++) {
        prepare_increment(a, client, 1);
        assert_int_equal(store_act(c, (uint32_t)client % 3, a), 0);
    }
    prepare_increment(a, 1, 1);
    assert_int_equal(store_act(c, 0, a), SNIC_EUNKNOWN);
    assert_int_equal(a->op.out, SNIC_STORE_NOT_TRIED);
    uint64_t seen = a->op.seen;
    prepare_increment(a, 2, 1); /* the oldest that is left */
    assert_int_equal(store_act(c, 0, a), 0);
    assert_int_equal(a->op.out, SNIC_STORE_REPEATED);
    prepare_increment(a, 1, 2);
    a->op.seen = seen;
    assert_int_equal(store_act(c, 0, a), 0);
    assert_int_equal(a->op.answer, 10);
    prepare_increment(a, 99, 1);
    a->op.age_ns = UINT64_MAX;
    assert_int_equal(store_act(c, 0, a), SNIC_EUNKNOWN);
    assert_int_equal(a->op.out, SNIC_STORE_NOT_TRIED);
    assert_int_equal(store_get(c, 1, "count", 5), 0);
    assert_int_equal(snic_get_le64(c->got.data), 10);
    done(c);
}

/* ops_max read-modify-writes at a time, one more is refused; they drain. tries_max ends one that
 * others always come before. */
static void test_store_changes_bounded(void **state)
{
    struct store_cluster_opts o = {.seed = support_seed(), .ops_max = 4, .tries_max = 1};
    struct store_cluster *c = store_cluster_new(&o);
    struct store_act *acts = test_calloc(15, sizeof(*acts));
    uint32_t gave_up = 0;
    (void)state;
    for (uint32_t n = 0; n < 3; n++)
        store_cluster_up(c, n, 1);
    assert_true(store_cluster_settle(c));
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 15; i++) {
            prepare_increment(&acts[i], 0, 0);
            assert_int_equal(store_begin(c, i % 3, &acts[i]), i < 12 ? 0 : SNIC_EAGAIN);
        }
        store_cluster_run(c, 1000 * (uint64_t)STORE_MS);
        for (uint32_t i = 0; i < 12; i++) {
            assert_false(acts[i].pending);
            assert_true(acts[i].op.result == 0 || acts[i].op.result == SNIC_EAGAIN);
            gave_up += acts[i].op.result == SNIC_EAGAIN;
        }
    }
    assert_true(gave_up > 0);
    assert_int_equal(store_get(c, 0, "count", 5), 0);
    assert_int_equal(snic_get_le64(c->got.data), 240 - gave_up); /* and nothing was written */
    test_free(acts);
    done(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_options_checked),
        cmocka_unit_test(test_store_operations_refused),
        cmocka_unit_test(test_store_put_get_delete_at_any_node),
        cmocka_unit_test(test_store_copies_counted_and_demanded),
        cmocka_unit_test(test_store_confirmed_get_needs_a_majority),
        cmocka_unit_test(test_store_largest_values),
        cmocka_unit_test(test_store_look_many_as_each),
        cmocka_unit_test(test_store_conditions_decide),
        cmocka_unit_test(test_store_modify_concurrent_increments_all_count),
        cmocka_unit_test(test_store_session_repeated_executes_once),
        cmocka_unit_test(test_store_session_repeated_is_durable),
        cmocka_unit_test(test_store_session_deletion_keeps_the_list),
        cmocka_unit_test(test_store_session_beyond_bound_unknown),
        cmocka_unit_test(test_store_changes_bounded),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
