/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scans by prefix and page, also while records come and go; and the list of all groups.
 */
#include "conformance_kv_util.h"

/* ---- Scans ---- */

enum { SCAN_ROOM = 16384 };

/** Scan on; checks that keys ascend. How many records came. */
static uint32_t scan_step(struct conformance_kv *c, struct snic_kvop *op,
                          void (*each)(void *ctx, const struct snic_kvop_record *r), void *ctx)
{
    assert_int_equal(kv_run(c->kv, op), 0);
    uint32_t n = 0;
    for (const struct snic_kvop_record *r = snic_kvop_first(op); r != NULL;
         r = snic_kvop_next(op, r)) {
        struct snic_kvop_key k;
        snic_kvop_key_set(&k, op->key.group, snic_kvop_record_key(r), r->key_size);
        if (op->after.size != 0)
            assert_true(snic_kvop_key_compare(&op->after, &k) < 0);
        assert_true(k.size >= op->key.size);
        assert_memory_equal(k.bytes, op->key.bytes, op->key.size);
        op->after = k;
        each(ctx, r);
        n++;
    }
    assert_int_equal(n, op->out_count);
    return n;
}

static void scan_join(void *ctx, const struct snic_kvop_record *r)
{
    char *text = ctx;
    size_t at = strlen(text);
    memcpy(text + at, snic_kvop_record_key(r), r->key_size);
    at += r->key_size;
    text[at++] = '=';
    memcpy(text + at, snic_kvop_record_value(r), r->value_size);
    at += r->value_size;
    text[at++] = ' ';
    text[at] = 0;
}

/** All records with a prefix, `max` at a time, as "key=value key=value ". */
static void scan_expect(struct conformance_kv *c, uint64_t group, const char *prefix, uint32_t max,
                        const char *want)
{
    static uint64_t out[SCAN_ROOM / 8];
    char text[4096] = "";
    struct snic_kvop op = {.kind = SNIC_KVOP_SCAN,
                           .key = kv_key(group, prefix),
                           .scan_max = max,
                           .out = out,
                           .out_room = SCAN_ROOM};
    do {
        uint32_t n = scan_step(c, &op, scan_join, text);
        assert_true(n <= max && (n > 0 || op.end == 1));
    } while (!op.end);
    assert_string_equal(text, want);
}

static void kv_scan_by_prefix_in_order(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    scan_expect(&c, 1, "", 10, "");
    static const char *keys[] = {"b", "ab", "abc", "a", "aa\xff", "ac", "aa", "abb"};
    for (size_t i = 0; i < SNIC_COUNTOF(keys); i++)
        kv_put(c.kv, 1, keys[i], "1");
    kv_put(c.kv, 0, "ab", "0");
    kv_put(c.kv, 2, "ab", "2");
    (void)kv_write(c.kv, 1, 0, 10, 1); /* an object of the group's number is no record */
    (void)kv_write(c.kv, 1, 5 * BLOCK, 10, 1);
    for (uint32_t max = 1; max < 12; max += 3) {
        scan_expect(&c, 1, "", max, "a=1 aa=1 aa\xff=1 ab=1 abb=1 abc=1 ac=1 b=1 ");
        scan_expect(&c, 1, "ab", max, "ab=1 abb=1 abc=1 ");
        scan_expect(&c, 1, "abc", max, "abc=1 ");
        scan_expect(&c, 1, "aa\xff", max, "aa\xff=1 ");
        scan_expect(&c, 1, "abd", max, "");
        scan_expect(&c, 1, "c", max, "");
        scan_expect(&c, 0, "", max, "ab=0 ");
        scan_expect(&c, 3, "", max, "");
    }
    kv_close(&c, b);
}

static void kv_scan_after_any_key_goes_on(void **state)
{
    static const struct {
        const char *after;
        const char *want;
    } cases[] = {{"a", "k1=1 k2=1 k3=1 "},
                 {"k", "k1=1 k2=1 k3=1 "},
                 {"k1", "k2=1 k3=1 "},
                 {"k11", "k2=1 k3=1 "},
                 {"k3", ""},
                 {"l", ""}};
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    static uint64_t out[SCAN_ROOM / 8];
    kv_put(c.kv, 1, "a", "1");
    kv_put(c.kv, 1, "k1", "1");
    kv_put(c.kv, 1, "k2", "1");
    kv_put(c.kv, 1, "k3", "1");
    kv_put(c.kv, 1, "l", "1");
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        char text[256] = "";
        struct snic_kvop op = {.kind = SNIC_KVOP_SCAN,
                               .key = kv_key(1, "k"),
                               .after = kv_key(1, cases[i].after),
                               .scan_max = 100,
                               .out = out,
                               .out_room = SCAN_ROOM};
        (void)scan_step(&c, &op, scan_join, text);
        assert_string_equal(text, cases[i].want);
        assert_int_equal(op.end, 1);
    }
    kv_close(&c, b);
}

/* Room for less than one record is an error; for some of them, a page. */
static void kv_scan_with_little_room(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    static uint64_t out[SCAN_ROOM / 8];
    char value[1001];
    char text[8192] = "";
    memset(value, 'v', 1000);
    value[1000] = 0;
    kv_put(c.kv, 1, "a", "small");
    kv_put(c.kv, 1, "b", value);
    kv_put(c.kv, 1, "c", value);
    struct snic_kvop op = {.kind = SNIC_KVOP_SCAN,
                           .key = kv_key(1, ""),
                           .scan_max = 100,
                           .out = out,
                           .out_room = 1000};
    assert_int_equal(scan_step(&c, &op, scan_join, text), 1);
    assert_int_equal(op.end, 0);
    assert_int_equal(kv_run(c.kv, &op), SNIC_EMSGSIZE);
    assert_int_equal(op.out_count, 0);
    op.out_room = 1024;
    assert_int_equal(scan_step(&c, &op, scan_join, text), 1);
    assert_int_equal(op.end, 0);
    assert_int_equal(scan_step(&c, &op, scan_join, text), 1);
    assert_int_equal(op.end, 1);
    assert_int_equal(strlen(text), strlen("a=small ") + 2 * 1003);
    kv_close(&c, b);
}

static void scan_count(void *ctx, const struct snic_kvop_record *r)
{
    int *seen = ctx;
    char text[16] = "";
    memcpy(text, snic_kvop_record_key(r), snic_min_u64(r->key_size, 15));
    seen[strtol(text + 1, NULL, 10)]++;
}

/* A key that is there all the time comes once, whatever comes and goes between the pages. */
static void kv_scan_under_change_is_stable(void **state)
{
    enum { KEYS = 300 };
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    static uint64_t out[SCAN_ROOM / 8];
    int seen[KEYS] = {0};
    int stays[KEYS];
    char key[16];
    struct snic_rng rng;
    snic_rng_init(&rng, support_seed());
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof(key), "e%03d", i);
        if (i % 3 != 1)
            kv_put(c.kv, 5, key, "x");
        stays[i] = i % 3 == 2;
    }
    struct snic_kvop op = {.kind = SNIC_KVOP_SCAN,
                           .key = kv_key(5, "e"),
                           .scan_max = 7,
                           .out = out,
                           .out_room = SCAN_ROOM};
    do {
        (void)scan_step(&c, &op, scan_count, seen);
        for (int i = 0; i < 6; i++) {
            uint64_t n = snic_rng_below(&rng, KEYS);
            (void)snprintf(key, sizeof(key), "e%03u", (unsigned)n);
            if (n % 3 == 0)
                kv_delete(c.kv, 5, key);
            else if (n % 3 == 1)
                kv_put(c.kv, 5, key, "y");
            else
                kv_put(c.kv, 5, key, "z");
        }
    } while (!op.end);
    for (int i = 0; i < KEYS; i++)
        assert_true(stays[i] ? seen[i] == 1 : seen[i] <= 1);
    kv_close(&c, b);
}

/* ---- Groups ---- */

/** All numbers, `room` of them at a time, sorted into @p out; how many. */
static uint32_t groups_all(struct conformance_kv *c, uint32_t room, uint64_t *out, uint32_t max)
{
    uint64_t page[64];
    uint32_t n = 0;
    struct snic_kvop op = {.kind = SNIC_KVOP_GROUPS, .out = page, .out_room = room * 8};
    do {
        assert_int_equal(kv_run(c->kv, &op), 0);
        assert_int_equal(op.out_size, op.out_count * 8);
        assert_true(op.out_count <= room && n + op.out_count <= max);
        for (uint32_t i = 0; i < op.out_count; i++) {
            uint32_t at = n++;
            for (; at > 0 && out[at - 1] > page[i]; at--)
                out[at] = out[at - 1];
            out[at] = page[i];
        }
    } while (!op.end);
    return n;
}

/* fsck and the search for leaked inodes go through all that there is. */
static void kv_groups_lists_what_holds_anything(void **state)
{
    static const uint64_t want[] = {0, 1, 2, 7, 1000, 1ULL << 61, UINT64_MAX - 1, UINT64_MAX};
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    uint64_t all[32];
    assert_int_equal(groups_all(&c, 4, all, 32), 0);
    for (size_t i = 0; i < SNIC_COUNTOF(want); i++) {
        if (i % 3 != 1)
            kv_put(c.kv, want[i], "key", "value");
        if (i % 3 != 0)
            (void)kv_write(c.kv, want[i], 0, 100, 3);
    }
    (void)kv_write(c.kv, 8, 10ULL * c.kv->stripe_bytes, 100, 3); /* far behind, and gone again */
    (void)kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 8, 0, 0);
    kv_put(c.kv, 9, "key", "value");
    kv_delete(c.kv, 9, "key");
    for (uint32_t room = 1; room <= 64; room *= 4) {
        uint32_t n = groups_all(&c, room, all, 32);
        assert_int_equal(n, SNIC_COUNTOF(want));
        assert_memory_equal(all, want, sizeof(want));
    }
    (void)kv_write(c.kv, 8, 10ULL * c.kv->stripe_bytes, 100, 3); /* nothing in the first stripe */
    assert_int_equal(groups_all(&c, 64, all, 32), SNIC_COUNTOF(want) + 1);
    kv_close(&c, b);
}

/* ---- Damage ---- */

static void damage_mended(struct conformance_kv *c, int put)
{
    if (put)
        kv_put(c->kv, 1, "b", "new");
    else
        kv_delete(c->kv, 1, "b");
    kv_expect(c->kv, 1, "b", put ? "new" : NULL);
    scan_expect(c, 1, "", 10, put ? "a=first b=new c=third " : "a=first c=third ");
}

/* One bad record takes no other with it, is named, and goes when it is written or deleted. */
static void kv_damaged_record_is_told_and_mended(void **state)
{
    for (int put = 0; put < 2; put++) {
        struct conformance_kv c;
        const struct conformance_kv_backend *b = kv_open(&c, state);
        uint64_t all[4];
        char out[3][64];
        kv_put(c.kv, 1, "a", "first");
        kv_put(c.kv, 1, "b", "second");
        kv_put(c.kv, 1, "c", "third");
        kv_put(c.kv, 2, "b", "alone");
        kv_put(c.kv, 3, "a", "other");
        struct snic_kvop_key bad[] = {kv_key(1, "b"), kv_key(2, "b")};
        if (b->damage == NULL) {
            kv_close(&c, b);
            return;
        }
        for (size_t i = 0; i < SNIC_COUNTOF(bad); i++)
            b->damage(&c, &bad[i]);
        for (uint32_t max = 1; max < 4; max++) {
            scan_expect(&c, 1, "", max, "a=first b= c=third ");
            scan_expect(&c, 1, "b", max, "b= ");
            scan_expect(&c, 1, "a", max, "a=first "); /* what is behind is looked at, too */
        }
        assert_int_equal(groups_all(&c, 4, all, 4), 3);
        assert_true(all[0] == 1 && all[1] == 2 && all[2] == 3);
        struct snic_kvop_get g[3];
        memset(g, 0, sizeof(g));
        for (uint32_t i = 0; i < 3; i++) {
            static const char *const names[] = {"a", "b", "c"};
            g[i] = (struct snic_kvop_get){
                .key = kv_key(1, names[i]), .value = out[i], .room = sizeof(out[i]), .size = 77};
        }
        struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = g, .get_count = 3};
        assert_int_equal(kv_run(c.kv, &op), SNIC_ECORRUPT);
        assert_true(g[0].result == 0 && g[0].size == 5 && memcmp(out[0], "first", 5) == 0);
        assert_true(g[1].result == SNIC_ECORRUPT && g[1].size == 0);
        assert_true(g[2].result == 0 && g[2].size == 5 && memcmp(out[2], "third", 5) == 0);
        for (uint32_t i = 0; i < 2; i++) {
            struct snic_kvop_guard guard = {.key = bad[0], .value = i == 0 ? NULL : "second"};
            guard.size = i == 0 ? 0 : 6;
            struct snic_kvop_change change = {
                .key = kv_key(1, "a"), .kind = SNIC_KVOP_PUT, .value = "x", .size = 1};
            assert_int_equal(kv_commit(c.kv, &guard, 1, &change, 1), SNIC_ECORRUPT);
            kv_expect(c.kv, 1, "a", "first");
        }
        damage_mended(&c, put);
        kv_delete(c.kv, 2, "b");
        assert_int_equal(groups_all(&c, 4, all, 4), 2);
        kv_close(&c, b);
    }
}

const struct conformance_kv_check conformance_kv_scans[] = {
    {"scan_by_prefix_in_order", kv_scan_by_prefix_in_order},
    {"scan_after_any_key_goes_on", kv_scan_after_any_key_goes_on},
    {"scan_with_little_room", kv_scan_with_little_room},
    {"scan_under_change_is_stable", kv_scan_under_change_is_stable},
    {"groups_lists_what_holds_anything", kv_groups_lists_what_holds_anything},
    {"damaged_record_is_told_and_mended", kv_damaged_record_is_told_and_mended},
};
const size_t conformance_kv_scans_count = SNIC_COUNTOF(conformance_kv_scans);
