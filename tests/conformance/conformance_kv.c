/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records: gets, commits, guards, refusals, durability, several handles; the suite as a whole.
 */
#include "conformance_kv_util.h"

/* ---- Gets and puts ---- */

/* A store that invents records, or answers from inside submit, breaks every user. */
static void kv_empty_get_enoent(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    kv_expect(c.kv, 1, "A", NULL);
    kv_expect(c.kv, UINT64_MAX, "A", NULL);
    kv_delete(c.kv, 1, "A"); /* a missing record is fine */
    assert_int_equal(c.kv->stats.submitted, 3);
    assert_int_equal(c.kv->stats.completed, 3);
    assert_int_equal(c.kv->stats.errors, 0);
    assert_int_equal(c.kv->stats.gets, 2);
    assert_int_equal(c.kv->stats.commits, 1);
    kv_close(&c, b);
}

static void kv_value_sizes_come_back(void **state)
{
    static const uint32_t sizes[] = {1, 7, 8, 256, 4095, 4096, 8192, 65536, SNIC_KVOP_VALUE_MAX};
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    unsigned char *p = malloc(SNIC_KVOP_VALUE_MAX + 1);
    unsigned char *q = malloc(SNIC_KVOP_VALUE_MAX + 1);
    struct snic_rng rng;
    snic_rng_init(&rng, 5);
    for (uint32_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
            /* grows in the first round, shrinks in the second */
            uint32_t size = sizes[round == 0 ? i : SNIC_COUNTOF(sizes) - 1 - i];
            struct snic_kvop_key k = kv_key(3, "value");
            snic_rng_fill(&rng, p, size);
            assert_int_equal(kv_put_key(c.kv, &k, p, size), 0);
            assert_int_equal(kv_get_key(c.kv, &k, q, SNIC_KVOP_VALUE_MAX), size);
            assert_memory_equal(p, q, size);
            assert_int_equal(kv_get_key(c.kv, &k, q, size), size); /* it just fits */
            assert_int_equal(kv_get_key(c.kv, &k, size > 1 ? q : NULL, size - 1), SNIC_EMSGSIZE);
        }
    }
    struct snic_kvop_key k = kv_key(3, "value");
    assert_int_equal(kv_put_key(c.kv, &k, p, SNIC_KVOP_VALUE_MAX + 1), SNIC_EMSGSIZE);
    assert_int_equal(kv_get_key(c.kv, &k, q, 1), 1);
    kv_delete(c.kv, 3, "value");
    kv_expect(c.kv, 3, "value", NULL);
    free(p);
    free(q);
    kv_close(&c, b);
}

/* Keys are bytes: zeros, 0xff, and keys that begin another. */
static void kv_keys_of_any_bytes_are_apart(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    static const unsigned char fills[] = {0, 1, 0x7f, 0x80, 0xff};
    unsigned char bytes[SNIC_KVOP_KEY_MAX];
    struct snic_kvop_key k;
    for (uint32_t round = 0; round < 2; round++) {
        for (size_t f = 0; f < SNIC_COUNTOF(fills); f++) {
            memset(bytes, fills[f], sizeof(bytes));
            for (uint32_t size = 1; size <= SNIC_KVOP_KEY_MAX; size += 1 + size / 3 * 2) {
                unsigned char value[2] = {(unsigned char)size, fills[f]};
                unsigned char got[2];
                snic_kvop_key_set(&k, 9, bytes, size);
                if (round == 0) {
                    assert_int_equal(kv_put_key(c.kv, &k, value, 2), 0);
                    continue;
                }
                assert_int_equal(kv_get_key(c.kv, &k, got, 2), 2);
                assert_memory_equal(value, got, 2);
                k.group = 10;
                assert_int_equal(kv_get_key(c.kv, &k, got, 2), SNIC_ENOENT);
            }
        }
    }
    kv_close(&c, b);
}

static void kv_multi_get_answers_each(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_kvop_get gets[SNIC_KVOP_GETS_MAX + 1];
    char values[SNIC_KVOP_GETS_MAX][16];
    memset(gets, 0, sizeof(gets));
    for (uint32_t i = 0; i < SNIC_KVOP_GETS_MAX; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "value %u", i);
        gets[i].key = kv_key(i / 5, i % 2 == 0 ? "even" : "odd");
        gets[i].key.bytes[10] = (uint8_t)i;
        gets[i].key.size = 11;
        gets[i].value = values[i];
        gets[i].room = i % 4 == 0 ? 3 : sizeof(values[i]);
        if (i % 3 != 0)
            assert_int_equal(kv_put_key(c.kv, &gets[i].key, text, (uint32_t)strlen(text)), 0);
    }
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = gets, .get_count = SNIC_KVOP_GETS_MAX};
    assert_int_equal(kv_run(c.kv, &op), 0);
    for (uint32_t i = 0; i < SNIC_KVOP_GETS_MAX; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "value %u", i);
        if (i % 3 == 0) {
            assert_int_equal(gets[i].result, SNIC_ENOENT);
            continue;
        }
        assert_int_equal(gets[i].size, strlen(text));
        assert_int_equal(gets[i].result, i % 4 == 0 ? SNIC_EMSGSIZE : 0);
        if (i % 4 != 0)
            assert_memory_equal(values[i], text, strlen(text));
    }
    gets[SNIC_KVOP_GETS_MAX] = gets[0];
    op.get_count = SNIC_KVOP_GETS_MAX + 1;
    assert_int_equal(kv_run(c.kv, &op), SNIC_EMSGSIZE);
    kv_close(&c, b);
}

/* ---- Commits ---- */

static struct snic_kvop_guard guard(uint64_t group, const char *key, const char *value)
{
    struct snic_kvop_guard g = {.key = kv_key(group, key),
                                .value = value,
                                .size = value == NULL ? 0 : (uint32_t)strlen(value)};
    return g;
}

static struct snic_kvop_change change(uint64_t group, const char *key, const char *value)
{
    struct snic_kvop_change g = {.key = kv_key(group, key),
                                 .kind = value == NULL ? SNIC_KVOP_DELETE : SNIC_KVOP_PUT,
                                 .value = value,
                                 .size = value == NULL ? 0 : (uint32_t)strlen(value)};
    return g;
}

/** A commit of group 1: result, and which guard failed (UINT32_MAX: none). */
static void commit_expect(struct conformance_kv *c, struct snic_kvop_guard *g, uint32_t guards,
                          struct snic_kvop_change *ch, uint32_t changes, int64_t result,
                          uint32_t failed)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT,
                           .guards = g,
                           .guard_count = guards,
                           .changes = ch,
                           .change_count = changes};
    assert_int_equal(kv_run(c->kv, &op), result);
    assert_int_equal(op.failed_guard, failed);
}

/* A guard that passes or fails wrongly is a lost update or a file system that stands still. */
static void kv_guards_decide_the_commit(void **state)
{
    static const char *wrong[] = {"valu", "value2", "Value", "v", "valuf", NULL};
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    kv_put(c.kv, 1, "a", "value");
    struct snic_kvop_change ch[2] = {change(1, "x", "new"), change(1, "a", NULL)};
    for (size_t i = 0; i < SNIC_COUNTOF(wrong); i++) {
        struct snic_kvop_guard g[3] = {guard(1, "none", NULL), guard(1, "a", "value"),
                                       guard(1, "a", wrong[i])};
        commit_expect(&c, g, 3, ch, 2, SNIC_ECANCELED, 2);
        kv_expect(c.kv, 1, "a", "value");
        kv_expect(c.kv, 1, "x", NULL);
    }
    struct snic_kvop_guard first[2] = {guard(1, "none", "value"), guard(1, "a", NULL)};
    commit_expect(&c, first, 2, ch, 2, SNIC_ECANCELED, 0);
    struct snic_kvop_guard good[2] = {guard(1, "none", NULL), guard(1, "a", "value")};
    commit_expect(&c, good, 2, NULL, 0, 0, UINT32_MAX); /* the guards alone */
    kv_expect(c.kv, 1, "a", "value");
    commit_expect(&c, good, 2, ch, 2, 0, UINT32_MAX);
    kv_expect(c.kv, 1, "a", NULL);
    kv_expect(c.kv, 1, "x", "new");
    commit_expect(&c, good, 2, NULL, 0, SNIC_ECANCELED, 1);
    assert_int_equal(c.kv->stats.errors, 0);
    assert_int_equal(c.kv->stats.guards_failed, SNIC_COUNTOF(wrong) + 2);
    kv_close(&c, b);
}

/* A value that begins with the guard's, and large guards, are compared to the end. */
static void kv_guards_compare_all_bytes(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    uint32_t size = SNIC_KVOP_VALUE_MAX;
    unsigned char *p = calloc(1, size);
    struct snic_kvop_key k = kv_key(4, "large");
    struct snic_kvop_guard g = {.key = k, .value = p, .size = size};
    struct snic_kvop_change ch = change(4, "mark", "yes");
    p[0] = 1;
    assert_int_equal(kv_put_key(c.kv, &k, p, size), 0);
    p[size - 1] ^= 1;
    commit_expect(&c, &g, 1, &ch, 1, SNIC_ECANCELED, 0);
    p[size - 1] ^= 1;
    g.size = size - 1;
    commit_expect(&c, &g, 1, &ch, 1, SNIC_ECANCELED, 0);
    kv_expect(c.kv, 4, "mark", NULL);
    g.size = size;
    commit_expect(&c, &g, 1, &ch, 1, 0, UINT32_MAX);
    kv_expect(c.kv, 4, "mark", "yes");
    free(p);
    kv_close(&c, b);
}

static void kv_commit_is_all_or_nothing(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_kvop_change ch[SNIC_KVOP_CHANGES_MAX + 1];
    char keys[SNIC_KVOP_CHANGES_MAX + 1][8];
    struct snic_kvop_guard g[SNIC_KVOP_GUARDS_MAX];
    for (uint32_t i = 0; i <= SNIC_KVOP_CHANGES_MAX; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%u", i);
        ch[i] = change(2, keys[i], "one");
        if (i < SNIC_KVOP_GUARDS_MAX)
            g[i] = guard(2, keys[i], i + 1 == SNIC_KVOP_GUARDS_MAX ? "no" : NULL);
    }
    commit_expect(&c, g, SNIC_KVOP_GUARDS_MAX, ch, SNIC_KVOP_CHANGES_MAX, SNIC_ECANCELED,
                  SNIC_KVOP_GUARDS_MAX - 1);
    for (uint32_t i = 0; i < SNIC_KVOP_CHANGES_MAX; i++)
        kv_expect(c.kv, 2, keys[i], NULL);
    commit_expect(&c, g, SNIC_KVOP_GUARDS_MAX - 1, ch, SNIC_KVOP_CHANGES_MAX, 0, UINT32_MAX);
    for (uint32_t i = 0; i < SNIC_KVOP_CHANGES_MAX; i++)
        kv_expect(c.kv, 2, keys[i], "one");
    commit_expect(&c, NULL, 0, ch, SNIC_KVOP_CHANGES_MAX + 1, SNIC_EMSGSIZE, UINT32_MAX);
    for (uint32_t i = 0; i < SNIC_KVOP_CHANGES_MAX; i++)
        ch[i] = change(2, keys[i], i % 2 == 0 ? NULL : "two");
    commit_expect(&c, NULL, 0, ch, SNIC_KVOP_CHANGES_MAX, 0, UINT32_MAX);
    for (uint32_t i = 0; i < SNIC_KVOP_CHANGES_MAX; i++)
        kv_expect(c.kv, 2, keys[i], i % 2 == 0 ? NULL : "two");
    kv_close(&c, b);
}

/* The largest commit there may be: values of COMMIT_MAX bytes together. */
static void kv_commit_of_the_largest_size(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_kvop_change ch[9];
    char keys[9][4];
    unsigned char *p = malloc(SNIC_KVOP_COMMIT_MAX);
    unsigned char *q = malloc(SNIC_KVOP_VALUE_MAX);
    struct snic_rng rng;
    snic_rng_init(&rng, 8);
    snic_rng_fill(&rng, p, SNIC_KVOP_COMMIT_MAX);
    for (uint32_t i = 0; i < 9; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%u", i);
        ch[i] = change(6, keys[i], "?");
        ch[i].value = p + i * 58254U;
        ch[i].size = i == 8 ? SNIC_KVOP_COMMIT_MAX - 8 * 58254 : 58254;
    }
    commit_expect(&c, NULL, 0, ch, 9, 0, UINT32_MAX);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(kv_get_key(c.kv, &ch[i].key, q, SNIC_KVOP_VALUE_MAX), ch[i].size);
        assert_memory_equal(q, ch[i].value, ch[i].size);
    }
    ch[8].value = p;
    ch[8].size++;
    commit_expect(&c, NULL, 0, ch, 9, SNIC_EMSGSIZE, UINT32_MAX);
    free(p);
    free(q);
    kv_close(&c, b);
}

static void kv_commit_of_several_groups(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    int multi = kv_has(&c, SNIC_KV_CAP_ATOMIC_MULTI);
    kv_put(c.kv, 1, "a", "one");
    struct snic_kvop_change ch[3] = {change(1, "a", NULL), change(2, "a", "two"),
                                     change(UINT64_MAX, "z", "three")};
    struct snic_kvop_guard bad = guard(3, "g", "there");
    struct snic_kvop_guard good = guard(3, "g", NULL);
    commit_expect(&c, &bad, 1, ch, 3, multi ? SNIC_ECANCELED : SNIC_ENOTSUP,
                  multi ? 0 : UINT32_MAX);
    kv_expect(c.kv, 1, "a", "one");
    kv_expect(c.kv, 2, "a", NULL);
    commit_expect(&c, &good, 1, ch, 3, multi ? 0 : SNIC_ENOTSUP, UINT32_MAX);
    kv_expect(c.kv, 1, "a", multi ? NULL : "one");
    kv_expect(c.kv, 2, "a", multi ? "two" : NULL);
    kv_expect(c.kv, UINT64_MAX, "z", multi ? "three" : NULL);
    kv_close(&c, b);
}

/* ---- Refusals ---- */

/* One function decides what is malformed, whatever the store; and the error comes by the loop. */
static void kv_malformed_operations_are_refused(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_kvop_get g = {.key = kv_key(1, "a")};
    struct snic_kvop_change two[2] = {change(1, "a", "x"), change(1, "a", NULL)};
    struct snic_iov piece = {two, 10};
    uint64_t out[2];
    const struct snic_kvop ops[] = {
        {.kind = 0},
        {.kind = 15},
        {.kind = SNIC_KVOP_SYNC, .flags = 1U << 20},
        {.kind = SNIC_KVOP_GET},
        {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1, .flags = SNIC_KVOP_DURABLE},
        {.kind = SNIC_KVOP_SCAN, .out = out, .out_room = 16},
        {.kind = SNIC_KVOP_SCAN, .scan_max = 1},
        {.kind = SNIC_KVOP_GROUPS, .out = out, .out_room = 7},
        {.kind = SNIC_KVOP_COMMIT, .changes = two, .change_count = 2},
        {.kind = SNIC_KVOP_COMMIT, .change_count = 1},
        {.kind = SNIC_KVOP_OBJECT_READ, .iov = &piece, .iov_count = 1, .length = 11},
        {.kind = SNIC_KVOP_OBJECT_WRITE, .iov = &piece, .iov_count = 1},
        {.kind = SNIC_KVOP_OBJECT_WRITE,
         .iov = &piece,
         .iov_count = 1,
         .length = 10,
         .offset = SNIC_KVOP_OBJECT_MAX - 9},
        {.kind = SNIC_KVOP_OBJECT_PUNCH},
        {.kind = SNIC_KVOP_OBJECT_ZERO, .length = 2, .offset = SNIC_KVOP_OBJECT_MAX - 1},
        {.kind = SNIC_KVOP_OBJECT_TRUNCATE, .offset = SNIC_KVOP_OBJECT_MAX + 1},
        {.kind = SNIC_KVOP_OBJECT_SEEK, .offset = UINT64_MAX},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(ops); i++) {
        struct snic_kvop op = ops[i];
        int want = snic_kvop_validate(&op, c.kv->caps);
        assert_true(want < 0);
        assert_int_equal(kv_run(c.kv, &op), want);
    }
    kv_expect(c.kv, 1, "a", NULL);
    assert_int_equal(kv_stat(c.kv, 0), 0);
    assert_int_equal(c.kv->stats.errors, SNIC_COUNTOF(ops));
    kv_close(&c, b);
}

/* ---- Handles ---- */

/* Closing makes everything durable; another handle finds it. */
static void kv_reopened_has_everything(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    if (b->again == NULL) {
        kv_close(&c, b);
        support_skip("one handle only");
    }
    kv_put(c.kv, 1, "a", "value");
    kv_put(c.kv, 1, "b", "value");
    kv_delete(c.kv, 1, "b");
    (void)kv_write(c.kv, 7, 3, 3 * BLOCK, 9);
    struct snic_kvop sync = {.kind = SNIC_KVOP_SYNC};
    assert_int_equal(kv_run(c.kv, &sync), 0);
    kv_put(c.kv, 1, "c", "after the sync");
    (void)kv_change(c.kv, SNIC_KVOP_OBJECT_PUNCH, 7, BLOCK, BLOCK);
    snic_kv_close(c.kv);
    assert_int_equal(b->again(&c, &c.kv), 0);
    kv_expect(c.kv, 1, "a", "value");
    kv_expect(c.kv, 1, "b", NULL);
    kv_expect(c.kv, 1, "c", "after the sync");
    kv_check_range(c.kv, 7, 3, BLOCK - 3, 9, 0);
    kv_check_range(c.kv, 7, BLOCK, BLOCK, 9, 1);
    kv_check_range(c.kv, 7, 2 * BLOCK, BLOCK + 3, 9, 0);
    assert_int_equal(kv_stat(c.kv, 7), 3 * BLOCK);
    kv_close(&c, b);
}

/* Two mounts of one store: what completed on one is seen by the other, guards hold for both. */
static void kv_two_handles_see_each_other(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_kv *other = NULL;
    if (b->again == NULL || !kv_has(&c, SNIC_KV_CAP_SHARED)) {
        kv_close(&c, b);
        support_skip("one handle only");
    }
    if (b->single) { /* it has a test with processes */
        kv_close(&c, b);
        return;
    }
    int sole = snic_kv_sole(c.kv);
    kv_put(c.kv, 1, "a", "before the other");
    assert_int_equal(b->again(&c, &other), 0);
    assert_int_equal(snic_kv_sole(c.kv), 0);
    assert_int_equal(snic_kv_sole(other), 0);
    kv_expect(other, 1, "a", "before the other");
    for (int i = 0; i < 10; i++) {
        struct snic_kv *from = i % 2 == 0 ? c.kv : other;
        struct snic_kv *to = i % 2 == 0 ? other : c.kv;
        char value[16];
        (void)snprintf(value, sizeof(value), "round %d", i);
        kv_put(from, 1, "a", value);
        kv_expect(to, 1, "a", value);
        struct snic_kvop_guard g = guard(1, "a", value);
        struct snic_kvop_change ch = change(1, "a", "taken");
        assert_int_equal(kv_commit(to, &g, 1, &ch, 1), 0);
        assert_int_equal(kv_commit(from, &g, 1, &ch, 1), SNIC_ECANCELED);
        assert_int_equal(kv_write(from, 5, (uint64_t)i * BLOCK, BLOCK, (unsigned char)i), BLOCK);
        kv_check_range(to, 5, (uint64_t)i * BLOCK, BLOCK, (unsigned char)i, 0);
        assert_int_equal(kv_write(to, 5, (uint64_t)i * BLOCK, BLOCK, (unsigned char)i), 0);
        assert_int_equal(kv_stat(from, 5), (i + 1) * (int64_t)BLOCK);
    }
    assert_int_equal(kv_change(other, SNIC_KVOP_OBJECT_TRUNCATE, 5, 0, 0), -10 * (int64_t)BLOCK);
    assert_int_equal(kv_write(c.kv, 5, 0, BLOCK, 1), BLOCK);
    kv_check_range(c.kv, 5, BLOCK, 9 * BLOCK, 0, 1);
    snic_kv_close(other);
    if (sole)
        assert_true(snic_kv_sole(c.kv) == 1 || snic_kv_sole(c.kv) == 0);
    kv_expect(c.kv, 1, "a", "taken");
    kv_close(&c, b);
}

static void kv_space_is_said(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_kvop op = {.kind = SNIC_KVOP_SPACE};
    assert_int_equal(kv_run(c.kv, &op), 0);
    assert_true(op.space > 0 && op.space_free <= op.space);
    kv_close(&c, b);
}

static const struct conformance_kv_check kv_records[] = {
    {"empty_get_enoent", kv_empty_get_enoent},
    {"value_sizes_come_back", kv_value_sizes_come_back},
    {"keys_of_any_bytes_are_apart", kv_keys_of_any_bytes_are_apart},
    {"multi_get_answers_each", kv_multi_get_answers_each},
    {"guards_decide_the_commit", kv_guards_decide_the_commit},
    {"guards_compare_all_bytes", kv_guards_compare_all_bytes},
    {"commit_is_all_or_nothing", kv_commit_is_all_or_nothing},
    {"commit_of_the_largest_size", kv_commit_of_the_largest_size},
    {"commit_of_several_groups", kv_commit_of_several_groups},
    {"malformed_operations_are_refused", kv_malformed_operations_are_refused},
    {"reopened_has_everything", kv_reopened_has_everything},
    {"two_handles_see_each_other", kv_two_handles_see_each_other},
    {"space_is_said", kv_space_is_said},
};

static size_t kv_add(struct CMUnitTest *out, size_t n, size_t max,
                     const struct conformance_kv_backend *b,
                     const struct conformance_kv_check *checks, size_t count)
{
    static char names[512][96];
    static size_t used;
    for (size_t i = 0; i < count && n < max && used < SNIC_COUNTOF(names); i++) {
        (void)snprintf(names[used], sizeof(names[used]), "test_kv_%s_%s", b->name, checks[i].name);
        out[n] = (struct CMUnitTest){
            .name = names[used], .test_func = checks[i].run, .initial_state = (void *)(uintptr_t)b};
        used++;
        n++;
    }
    return n;
}

size_t conformance_kv_tests(struct CMUnitTest *out, size_t max,
                            const struct conformance_kv_backend *backends, size_t count)
{
    size_t n = 0;
    for (size_t b = 0; b < count; b++) {
        n = kv_add(out, n, max, &backends[b], kv_records, SNIC_COUNTOF(kv_records));
        n = kv_add(out, n, max, &backends[b], conformance_kv_scans, conformance_kv_scans_count);
        n = kv_add(out, n, max, &backends[b], conformance_kv_objects, conformance_kv_objects_count);
        n = kv_add(out, n, max, &backends[b], conformance_kv_flights, conformance_kv_flights_count);
        n = kv_add(out, n, max, &backends[b], conformance_kv_randoms, conformance_kv_randoms_count);
    }
    return n;
}
