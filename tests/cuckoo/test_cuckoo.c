/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cache table, one thread: contract, exhaustive small, long random against a model, sizes. */
#include "test_cuckoo_util.h"

#include <stdlib.h>

/* ---- Contract ---- */

/* A bad option that got through would size or index memory wrongly later. */
static void test_cuckoo_bad_options_init_refused(void **state)
{
    const struct snic_cuckoo_opts good = {sizeof(good), 8, 16, 0, 64, 1};
    struct snic_cuckoo *t = (struct snic_cuckoo *)(void *)&t;
    struct snic_cuckoo_opts o;
    size_t size = snic_cuckoo_memsize(&good);
    unsigned char *mem = support_guard_alloc(size, SNIC_CUCKOO_ALIGN);

    (void)state;
#define BAD(field, value)                                                                          \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    assert_int_equal(snic_cuckoo_memsize(&o), 0);                                                  \
    assert_int_equal(snic_cuckoo_init(&t, mem, size, &o), SNIC_EINVAL);                            \
    assert_ptr_equal(t, &t)
    BAD(opts_size, 0);
    BAD(opts_size, 3);
    BAD(key_size, 0);
    BAD(key_size, SNIC_CUCKOO_KEY_MAX + 1);
    BAD(item_size, SNIC_CUCKOO_ITEM_MAX + 1);
    BAD(flags, 4);
    BAD(flags, 1);
    BAD(capacity_slots, 0);
    BAD(capacity_slots, SNIC_CUCKOO_CAPACITY_MAX + 1);
    BAD(capacity_slots, UINT64_MAX);
#undef BAD
    assert_int_equal(snic_cuckoo_init(&t, mem + 64, size - 64, &good), SNIC_EINVAL);
    assert_int_equal(snic_cuckoo_init(&t, mem, size - 1, &good), SNIC_ENOSPC);
    assert_ptr_equal(t, &t);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(mem[i], 0xa5); /* a refused init has touched nothing */
    assert_int_equal(snic_cuckoo_init(&t, mem, size, &good), 0);
    assert_ptr_equal(snic_cuckoo_fini(t), mem);
    support_guard_free(mem);
}

/* The largest table must be sized without overflow, and slots cost what is promised. */
static void test_cuckoo_memsize_counts_bytes_per_slot(void **state)
{
    struct snic_cuckoo_opts o = {sizeof(o), 8, 16, 0, 1 << 24, 0};

    (void)state;
    assert_true((double)snic_cuckoo_memsize(&o) / (double)o.capacity_slots <= 28);
    o.key_size = SNIC_CUCKOO_KEY_MAX;
    o.item_size = SNIC_CUCKOO_ITEM_MAX;
    o.capacity_slots = SNIC_CUCKOO_CAPACITY_MAX;
    assert_true(snic_cuckoo_memsize(&o) / 322 >= SNIC_CUCKOO_CAPACITY_MAX);
}

/* Every result of every call, on the way of one key through the table. */
static void test_cuckoo_empty_one_key_lives_and_dies(void **state)
{
    struct util_table u;
    struct snic_cuckoo_stats s;
    uint64_t key = 0;
    uint64_t item[2] = {1, 2};
    uint64_t out[2] = {7, 7};
    uint64_t cursor = 0;

    (void)state;
    util_open(&u, 8, 16, 1, 0);
    assert_int_equal(snic_cuckoo_get(u.t, &key, out), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_get(u.t, &key, NULL), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_get_n(u.t, &key, 1, out), 0);
    assert_int_equal(snic_cuckoo_del(u.t, &key), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_next(u.t, &cursor, &key, out), SNIC_ENOENT);
    assert_int_equal(out[0], 7); /* outputs of failed calls are untouched */
    assert_int_equal(snic_cuckoo_put(u.t, &key, item), 0);
    item[1] = 3;
    assert_int_equal(snic_cuckoo_put(u.t, &key, item), 1);
    assert_int_equal(snic_cuckoo_count(u.t), 1);
    assert_int_equal(snic_cuckoo_get(u.t, &key, NULL), 0);
    assert_int_equal(snic_cuckoo_get(u.t, &key, out), 0);
    assert_memory_equal(out, item, sizeof(item));
    memset(out, 0, sizeof(out));
    assert_int_equal(snic_cuckoo_get_n(u.t, &key, 1, out), 1);
    assert_memory_equal(out, item, sizeof(item));
    assert_int_equal(snic_cuckoo_get_n(u.t, &key, 1, NULL), 1);
    assert_int_equal(snic_cuckoo_get_n(u.t, &key, 0, NULL), 0);
    assert_int_equal(snic_cuckoo_put_n(u.t, &key, item, 0), 0);
    assert_int_equal(snic_cuckoo_del(u.t, &key), 0);
    assert_int_equal(snic_cuckoo_get(u.t, &key, out), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    snic_cuckoo_get_stats(u.t, &s);
    assert_int_equal(s.capacity_slots, 8);
    assert_int_equal(s.memory_bytes, u.size);
    assert_int_equal(s.inserts, 1);
    assert_int_equal(s.replaces, 1);
    assert_int_equal(s.deletes, 1);
    assert_int_equal(s.paths[0], 1);
    util_close(&u);
}

struct update_ctx {
    struct snic_cuckoo *t;
    uint64_t version;
    int resident;
    enum snic_cuckoo_verdict verdict;
};

/* Store unless older, as an invalidating cache does. */
static enum snic_cuckoo_verdict update_newer(void *ctx, void *item, int resident)
{
    struct update_ctx *c = ctx;
    uint64_t *words = item;

    c->resident = resident;
    if (!resident)
        assert_int_equal(words[0] | words[1], 0);
    if (resident && words[0] > c->version)
        return SNIC_CUCKOO_KEEP;
    words[0] = c->version;
    words[1] = ~c->version;
    return c->verdict;
}

/* The offload service keeps late flushes of old versions out with this. */
static void test_cuckoo_update_verdicts_carried_out(void **state)
{
    struct update_ctx c = {NULL, 5, 9, SNIC_CUCKOO_STORE};
    struct util_table u;
    uint64_t key = 42;
    uint64_t out[2] = {0, 0};

    (void)state;
    util_open(&u, 8, 16, 64, 1);
    assert_int_equal(snic_cuckoo_update(u.t, &key, &c, update_newer), 0);
    assert_int_equal(c.resident, 0);
    c.version = 4;
    assert_int_equal(snic_cuckoo_update(u.t, &key, &c, update_newer), 0);
    assert_int_equal(c.resident, 1);
    assert_int_equal(snic_cuckoo_get(u.t, &key, out), 0);
    assert_int_equal(out[0], 5); /* the older version stayed out */
    c.version = 6;
    assert_int_equal(snic_cuckoo_update(u.t, &key, &c, update_newer), 0);
    assert_int_equal(snic_cuckoo_get(u.t, &key, out), 0);
    assert_int_equal(out[0], 6);
    assert_true(out[1] == ~(uint64_t)6);
    c.verdict = SNIC_CUCKOO_REMOVE;
    assert_int_equal(snic_cuckoo_update(u.t, &key, &c, update_newer), 0);
    assert_int_equal(snic_cuckoo_get(u.t, &key, out), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_update(u.t, &key, &c, update_newer), 0);
    assert_int_equal(c.resident, 0);
    assert_int_equal(snic_cuckoo_count(u.t), 0);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    util_close(&u);
}

static enum snic_cuckoo_verdict update_scribble(void *ctx, void *item, int resident)
{
    (void)resident;
    memset(item, 0xff, *(const size_t *)ctx);
    return SNIC_CUCKOO_STORE;
}

/* Bytes beyond an item of odd size must stay zero, or check and copies would see dirt. */
static void test_cuckoo_update_odd_size_padding_stays_zero(void **state)
{
    struct util_table u;
    size_t size = 16; /* what the callback writes: whole words */
    unsigned char out[13];
    uint64_t key = 1;

    (void)state;
    util_open(&u, 5, 13, 16, 1);
    assert_int_equal(snic_cuckoo_update(u.t, &key, &size, update_scribble), 0);
    assert_int_equal(snic_cuckoo_get(u.t, &key, out), 0);
    assert_int_equal(out[12], 0xff);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    util_close(&u);
}

static enum snic_cuckoo_verdict update_reenters(void *ctx, void *item, int resident)
{
    struct update_ctx *c = ctx;
    uint64_t key = 1;

    (void)item;
    (void)resident;
    if (c->t != NULL)
        (void)snic_cuckoo_del(c->t, &key);
    return c->verdict;
}

static void body_reenter(void *ctx)
{
    struct update_ctx c = {ctx, 0, 0, SNIC_CUCKOO_KEEP};
    uint64_t key = 1;

    (void)!snic_cuckoo_update(ctx, &key, &c, update_reenters);
}

static void body_bad_verdict(void *ctx)
{
    struct update_ctx c = {NULL, 0, 0, (enum snic_cuckoo_verdict)3};
    uint64_t key = 1;

    (void)!snic_cuckoo_update(ctx, &key, &c, update_reenters);
}

static void body_big_batch(void *ctx)
{
    uint64_t keys[SNIC_CUCKOO_BATCH_MAX + 1] = {0};

    (void)!snic_cuckoo_get_n(ctx, keys, SNIC_CUCKOO_BATCH_MAX + 1, NULL);
}

static void body_null_item(void *ctx)
{
    uint64_t key = 1;

    (void)!snic_cuckoo_put(ctx, &key, NULL);
}

/* Broken contracts stop the program instead of corrupting the table. */
static void test_cuckoo_broken_contract_aborts(void **state)
{
    struct util_table u;

    (void)state;
    util_open(&u, 8, 8, 16, 1);
    SUPPORT_EXPECT_DEBUG_ABORT(body_reenter, u.t);
    SUPPORT_EXPECT_ABORT(body_bad_verdict, u.t);
    SUPPORT_EXPECT_ABORT(body_big_batch, u.t);
    SUPPORT_EXPECT_ABORT(body_null_item, u.t);
    util_close(&u);
}

/* Iteration must give each entry once, also while the writer deletes and replaces as it goes. */
static void test_cuckoo_iterate_each_entry_once(void **state)
{
    enum { ENTRIES = 500 };
    unsigned char seen[ENTRIES] = {0};
    struct util_table u;
    uint64_t cursor = 0;
    uint64_t key;
    uint64_t item;
    uint64_t found = 0;

    (void)state;
    util_open(&u, 8, 8, 600, support_seed());
    for (key = 0; key < ENTRIES; key++) {
        item = key * 3;
        assert_int_equal(snic_cuckoo_put(u.t, &key, &item), 0);
    }
    while (snic_cuckoo_next(u.t, &cursor, &key, &item) == 0) {
        assert_true(key < ENTRIES);
        assert_int_equal(item, key * 3);
        assert_int_equal(seen[key]++, 0);
        found++;
        if (key % 2 == 0)
            assert_int_equal(snic_cuckoo_del(u.t, &key), 0);
        else
            assert_int_equal(snic_cuckoo_put(u.t, &key, &item), 1);
    }
    assert_int_equal(found, ENTRIES);
    assert_int_equal(snic_cuckoo_count(u.t), ENTRIES / 2);
    assert_int_equal(snic_cuckoo_next(u.t, &cursor, NULL, NULL), SNIC_ENOENT);
    cursor = UINT64_MAX; /* a cursor from nowhere is past the end */
    assert_int_equal(snic_cuckoo_next(u.t, &cursor, NULL, NULL), SNIC_ENOENT);
    snic_cuckoo_clear(u.t);
    assert_int_equal(snic_cuckoo_count(u.t), 0);
    cursor = 0;
    assert_int_equal(snic_cuckoo_next(u.t, &cursor, NULL, NULL), SNIC_ENOENT);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    util_close(&u);
}

/* ---- Exhaustive: all operation sequences on the smallest table ---- */

enum { TINY_KEYS = 3, TINY_FILL = 8, TINY_ALL = TINY_KEYS + TINY_FILL };

struct tiny {
    struct util_table u;
    void *images[9];             /* the table's bytes at each depth */
    uint64_t model[9][TINY_ALL]; /* 0: absent, else the item */
    uint32_t depth_max;
    uint64_t nodes;
};

static void tiny_verify(struct tiny *x, const uint64_t *model)
{
    uint64_t count = 0;

    for (uint64_t k = 0; k < TINY_ALL; k++) {
        uint64_t out = 0;
        int r = snic_cuckoo_get(x->u.t, &k, &out);

        if (r != (model[k] != 0 ? 0 : SNIC_ENOENT) || out != model[k])
            fail_msg("key %u: result %d, item %u instead of %u", (unsigned)k, r, (unsigned)out,
                     (unsigned)model[k]);
        count += model[k] != 0;
    }
    assert_int_equal(snic_cuckoo_count(x->u.t), count);
    assert_int_equal(snic_cuckoo_check(x->u.t), 0);
    x->nodes++;
}

/* Operation op: put or delete key op / 2. */
static void tiny_apply(struct tiny *x, uint64_t *model, uint32_t op, uint64_t value)
{
    uint64_t key = op / 2;
    int r;

    if (op % 2 == 0) {
        r = snic_cuckoo_put(x->u.t, &key, &value);
        if (r == SNIC_ENOSPC)
            assert_int_equal(model[key], 0);
        else
            assert_int_equal(r, model[key] != 0);
        if (r >= 0)
            model[key] = value;
    } else {
        r = snic_cuckoo_del(x->u.t, &key);
        assert_int_equal(r, model[key] != 0 ? 0 : SNIC_ENOENT);
        model[key] = 0;
    }
}

/* Depth-first over every sequence: op[d] counts through the operations at depth d. */
static void tiny_walk(struct tiny *x)
{
    uint32_t op[9] = {0};
    uint32_t d = 0;

    for (;;) {
        if (op[d] == 2 * TINY_KEYS) {
            if (d == 0)
                return;
            op[d--] = 0;
            op[d]++;
            continue;
        }
        memcpy(x->u.mem, x->images[d], x->u.size);
        memcpy(x->model[d + 1], x->model[d], sizeof(x->model[d]));
        tiny_apply(x, x->model[d + 1], op[d], 100 + d);
        tiny_verify(x, x->model[d + 1]);
        if (d + 1 < x->depth_max) {
            memcpy(x->images[d + 1], x->u.mem, x->u.size);
            d++;
        } else {
            op[d]++;
        }
    }
}

/*
 * Any sequence of operations that loses, doubles or mixes up a key on 8 slots, starting empty and
 * starting with so many entries that inserts displace and are refused.
 */
static void test_cuckoo_smallest_all_sequences_match_model(void **state)
{
    static struct tiny x;

    (void)state;
    for (uint32_t fill = 0; fill <= TINY_FILL; fill += fill == 0 ? 5 : 1) {
        memset(&x, 0, sizeof(x));
        util_open(&x.u, 8, 8, 1, support_seed() + fill);
        x.depth_max = (uint32_t)(fill == 0 ? support_scale(7, 8) : support_scale(6, 7));
        x.depth_max -= UTIL_SHARE > 1;
        for (uint32_t d = 0; d < x.depth_max; d++)
            x.images[d] = malloc(x.u.size);
        for (uint64_t k = TINY_KEYS; k < TINY_KEYS + fill; k++) {
            uint64_t item = k;

            if (snic_cuckoo_put(x.u.t, &k, &item) == 0)
                x.model[0][k] = item;
        }
        memcpy(x.images[0], x.u.mem, x.u.size);
        tiny_walk(&x);
        for (uint32_t d = 0; d < x.depth_max; d++)
            free(x.images[d]);
        util_close(&x.u);
    }
}

/* ---- Long random against a model ---- */

enum { MODEL_KEYS = 6000 };

struct model {
    struct util_table u;
    struct snic_rng rng;
    uint64_t version[MODEL_KEYS]; /* 0: absent */
    uint64_t count;
    uint64_t next;
};

static void model_put(struct model *m, uint64_t n)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX];
    unsigned char item[SNIC_CUCKOO_ITEM_MAX];
    int r;

    util_key(key, m->u.o.key_size, n);
    util_item(item, m->u.o.item_size, n, m->next);
    r = snic_cuckoo_put(m->u.t, key, item);
    if (r == SNIC_ENOSPC) {
        assert_int_equal(m->version[n], 0);
        return;
    }
    assert_int_equal(r, m->version[n] != 0);
    m->count += m->version[n] == 0;
    m->version[n] = m->next++;
}

static void model_del(struct model *m, uint64_t n)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX];

    util_key(key, m->u.o.key_size, n);
    assert_int_equal(snic_cuckoo_del(m->u.t, key), m->version[n] != 0 ? 0 : SNIC_ENOENT);
    m->count -= m->version[n] != 0;
    m->version[n] = 0;
}

static void model_get(struct model *m, uint64_t n)
{
    unsigned char key[SNIC_CUCKOO_KEY_MAX];
    unsigned char want[SNIC_CUCKOO_ITEM_MAX];
    unsigned char out[SNIC_CUCKOO_ITEM_MAX];

    util_key(key, m->u.o.key_size, n);
    util_item(want, m->u.o.item_size, n, m->version[n]);
    assert_int_equal(snic_cuckoo_get(m->u.t, key, out), m->version[n] != 0 ? 0 : SNIC_ENOENT);
    if (m->version[n] != 0)
        assert_memory_equal(out, want, m->u.o.item_size);
}

static void model_batch(struct model *m, uint32_t n, int put)
{
    unsigned char keys[SNIC_CUCKOO_BATCH_MAX * SNIC_CUCKOO_KEY_MAX] = {0};
    unsigned char items[SNIC_CUCKOO_BATCH_MAX * SNIC_CUCKOO_ITEM_MAX] = {0};
    unsigned char want[SNIC_CUCKOO_ITEM_MAX];
    uint64_t numbers[SNIC_CUCKOO_BATCH_MAX];
    uint32_t key_size = m->u.o.key_size;
    uint32_t item_size = m->u.o.item_size;
    uint64_t found;

    for (uint32_t i = 0; i < n; i++) {
        numbers[i] = snic_rng_below(&m->rng, MODEL_KEYS);
        util_key(keys + (size_t)i * key_size, key_size, numbers[i]);
        util_item(items + (size_t)i * item_size, item_size, numbers[i], m->next + i);
    }
    if (put) {
        uint32_t done = snic_cuckoo_put_n(m->u.t, keys, items, n);

        for (uint32_t i = 0; i < done; i++) {
            m->count += m->version[numbers[i]] == 0;
            m->version[numbers[i]] = m->next + i;
        }
        if (done < n)
            assert_int_equal(m->version[numbers[done]], 0);
        m->next += n;
        return;
    }
    found = snic_cuckoo_get_n(m->u.t, keys, n, items);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(found >> i & 1, m->version[numbers[i]] != 0);
        if (m->version[numbers[i]] != 0) {
            util_item(want, item_size, numbers[i], m->version[numbers[i]]);
            assert_memory_equal(items + (size_t)i * item_size, want, item_size);
        }
    }
}

static void model_verify(struct model *m)
{
    assert_int_equal(snic_cuckoo_check(m->u.t), 0);
    assert_int_equal(snic_cuckoo_count(m->u.t), m->count);
    for (uint64_t n = 0; n < MODEL_KEYS; n++)
        model_get(m, n);
}

/* `lean` of 100 changes are deletes: few keep the table full and inserts displacing. */
static void model_run(struct model *m, uint64_t steps, uint32_t lean)
{
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t n = snic_rng_below(&m->rng, MODEL_KEYS);
        uint64_t what = snic_rng_below(&m->rng, 100);

        if (what < 2)
            model_batch(m, (uint32_t)snic_rng_below(&m->rng, SNIC_CUCKOO_BATCH_MAX + 1), 0);
        else if (what < 4)
            model_batch(m, (uint32_t)snic_rng_below(&m->rng, SNIC_CUCKOO_BATCH_MAX + 1), 1);
        else if (what < 30)
            model_get(m, n);
        else if (snic_rng_below(&m->rng, 100) < lean)
            model_del(m, n);
        else
            model_put(m, n);
    }
    model_verify(m);
}

/* Anything that drifts: lost keys, wrong counts, items swapped between keys, at any load. */
static void test_cuckoo_random_operations_match_model(void **state)
{
    static const uint32_t sizes[][2] = {{8, 16}, {8, 8}, {16, 8}, {16, 16}, {24, 40}, {3, 9}};
    static struct model m;

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        memset(&m, 0, sizeof(m));
        snic_rng_init(&m.rng, support_seed() + i);
        util_open(&m.u, sizes[i][0], sizes[i][1], 4096, snic_rng_next(&m.rng));
        m.next = 1;
        for (uint32_t round = 0; round < support_scale(6, 100) / UTIL_SHARE + 1; round++)
            model_run(&m, 20000 / UTIL_SHARE, round % 2 == 0 ? 5 : 60);
        util_close(&m.u);
    }
}

/* A size for which words, padding or strides are computed wrongly. */
static void test_cuckoo_every_size_stores_and_finds(void **state)
{
    (void)state;
    for (uint32_t key_size = 1; key_size <= SNIC_CUCKOO_KEY_MAX; key_size++) {
        for (uint32_t item_size = 0; item_size <= SNIC_CUCKOO_ITEM_MAX;
             item_size += item_size < 18 ? 1 : 17) {
            unsigned char keys[40 * SNIC_CUCKOO_KEY_MAX];
            unsigned char items[40 * SNIC_CUCKOO_ITEM_MAX] = {0};
            unsigned char out[40 * SNIC_CUCKOO_ITEM_MAX];
            struct util_table u;

            util_open(&u, key_size, item_size, 64, support_seed());
            for (uint32_t i = 0; i < 40; i++) {
                util_key(keys + i * key_size, key_size, i * 5);
                util_item(items + i * item_size, item_size, i, i);
                if (i >= 20)
                    assert_int_equal(snic_cuckoo_put(u.t, keys + i * key_size,
                                                     item_size ? items + i * item_size : NULL),
                                     0);
            }
            assert_int_equal(snic_cuckoo_put_n(u.t, keys, item_size ? items : NULL, 20), 20);
            assert_true(snic_cuckoo_get_n(u.t, keys, 40, out) == ((uint64_t)1 << 40) - 1);
            assert_memory_equal(out, items, 40 * item_size);
            for (uint32_t i = 0; i < 40; i++)
                assert_int_equal(snic_cuckoo_get(u.t, keys + i * key_size, out), 0);
            assert_memory_equal(out, items + 39 * item_size, item_size);
            assert_int_equal(snic_cuckoo_put(u.t, keys, items), 1);
            assert_int_equal(snic_cuckoo_check(u.t), 0);
            util_close(&u);
        }
    }
}

/* Batched calls must be nothing but faster: same results, same table, bit for bit. */
static void test_cuckoo_batched_equals_scalar(void **state)
{
    struct util_table a;
    struct util_table b;
    struct snic_rng rng;
    uint32_t n = 0;

    (void)state;
    snic_rng_init(&rng, support_seed());
    util_open(&a, 8, 16, 2048, support_seed());
    util_open(&b, 8, 16, 2048, support_seed());
    do {
        uint64_t keys[SNIC_CUCKOO_BATCH_MAX];
        uint64_t items[SNIC_CUCKOO_BATCH_MAX][2];
        uint32_t i;

        for (i = 0; i < SNIC_CUCKOO_BATCH_MAX; i++) {
            keys[i] = snic_rng_below(&rng, 3000);
            items[i][0] = items[i][1] = snic_rng_next(&rng);
        }
        n = snic_cuckoo_put_n(a.t, keys, items, SNIC_CUCKOO_BATCH_MAX);
        for (i = 0; i < SNIC_CUCKOO_BATCH_MAX; i++) {
            if (snic_cuckoo_put(b.t, &keys[i], items[i]) < 0)
                break;
        }
        assert_int_equal(i, n);
        assert_memory_equal(a.mem, b.mem, a.size);
    } while (n == SNIC_CUCKOO_BATCH_MAX);
    util_close(&a);
    util_close(&b);
}

/** A refusal names the wrong option, and only that one. */
static void test_cuckoo_wrong_option_is_named(void **state)
{
    (void)state;
    {
        struct snic_cuckoo_opts good = {
            .opts_size = sizeof(good), .key_size = 8, .item_size = 8, .capacity_slots = 64};
        assert_null(snic_cuckoo_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_cuckoo_opts bad = good;                                                        \
        bad.field = value;                                                                         \
        support_names(snic_cuckoo_opts_wrong(&bad), name);                                         \
        assert_int_equal(snic_cuckoo_memsize(&bad), 0);                                            \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(key_size, 0, "key_size");
        WRONG(key_size, 65, "key_size");
        WRONG(item_size, 257, "item_size");
        WRONG(flags, 0x100, "flags");
        WRONG(capacity_slots, 0, "capacity_slots");
        WRONG(capacity_slots, SNIC_CUCKOO_CAPACITY_MAX + 1, "capacity_slots");
#undef WRONG
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuckoo_bad_options_init_refused),
        cmocka_unit_test(test_cuckoo_wrong_option_is_named),
        cmocka_unit_test(test_cuckoo_memsize_counts_bytes_per_slot),
        cmocka_unit_test(test_cuckoo_empty_one_key_lives_and_dies),
        cmocka_unit_test(test_cuckoo_update_verdicts_carried_out),
        cmocka_unit_test(test_cuckoo_update_odd_size_padding_stays_zero),
        cmocka_unit_test(test_cuckoo_broken_contract_aborts),
        cmocka_unit_test(test_cuckoo_iterate_each_entry_once),
        cmocka_unit_test(test_cuckoo_smallest_all_sequences_match_model),
        cmocka_unit_test(test_cuckoo_random_operations_match_model),
        cmocka_unit_test(test_cuckoo_every_size_stores_and_finds),
        cmocka_unit_test(test_cuckoo_batched_equals_scalar),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
