/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store's events, and what it should hold: every version of each key, from the first on. */
#include "test_kv_store_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kst kst;

/* ---- The store's events ---- */

static void on_durable(void *ctx, uint64_t address)
{
    (void)ctx;
    assert_true(address >= kst.durable);
    kst.durable = address;
}

static void on_room(void *ctx)
{
    (void)ctx;
    kst.room = 1;
}

/* What the DPU gets to serve must be there: whole, and of that version. */
static int on_cache(void *ctx, const unsigned char hash[16], const struct kv_item *item,
                    uint64_t version)
{
    struct mem_file *f = kst_file_find(&kst.fs, item->file);
    const unsigned char *key;
    const unsigned char *value;
    struct kv_record r;
    unsigned char again[16];
    static const uint64_t seed[2] = {3, 5};

    (void)ctx;
    if (kst_any(8) == 0)
        return SNIC_EAGAIN;
    assert_non_null(f);
    assert_int_equal(kv_record_decode(&r, f->data + item->offset, item->bytes, &key, &value),
                     item->bytes);
    assert_int_equal(r.version, version);
    kv_key_hash(again, seed, r.database, key, r.key_size);
    assert_memory_equal(hash, again, 16);
    kst.cached++;
    return 0;
}

static void on_log(void *ctx, int level, const char *text)
{
    (void)ctx;
    if (level == 0 && getenv("SNIC_VERBOSE") != NULL)
        fprintf(stderr, "%s\n", text);
}

void kst_open(uint64_t device_bytes)
{
    struct kv_store_opts o;
    char error[256];
    int r;

    memset(&o, 0, sizeof(o));
    o.loop = kst.loop;
    o.files = &kst_files_ops;
    o.sync = kst.sync;
    o.sync_interval_ms = 5;
    o.memory_bytes = 2 * SEGMENT;
    o.segment_bytes = SEGMENT;
    o.device_bytes = device_bytes;
    o.databases = 2;
    o.key_max = 64;
    o.value_max = VALUE_MAX;
    o.hash_seed[0] = 3;
    o.hash_seed[1] = 5;
    o.flush_bytes_max = 16u << 10;
    o.hook_bytes_max = kst_any(2) ? 0 : 8192;
    o.cache = on_cache;
    o.durable = on_durable;
    o.room = on_room;
    o.log = on_log;
    kst.durable = 0;
    kst.swap_end = 0; /* addresses of the log before */
    kst.gone = 0;
    r = kv_store_open(&kst.store, &o, error, sizeof(error));
    if (r != 0)
        fail_msg("open: %s", error);
}

/* ---- The model ---- */

static uint32_t key_name(uint32_t k, char out[64])
{
    return (uint32_t)snprintf(out, 64, "key%u%.*s", k, (int)(k % 40),
                              "........................................");
}

static void fill_value(unsigned char *out, uint32_t k, uint32_t n, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        out[i] = (unsigned char)(k * 31 + n * 7 + i);
}

void kst_spin(uint64_t ns)
{
    assert_true(snic_loop_once(kst.loop, ns) >= 0);
}

/* Note a version of key @p k that the store has taken. */
static void model_add(uint32_t k, uint64_t end, int present, uint32_t size, uint64_t expire_ms)
{
    struct model_key *m = &kst.keys[k];

    assert_true(m->newest + 1 < HISTORY);
    m->newest++;
    m->versions[m->newest] = (struct version){end, expire_ms, size, present};
}

/* The result of a write that was not taken; runs the loop where waiting helps. 1: again. */
int kst_refused(int r)
{
    if (r == SNIC_EAGAIN) {
        for (kst.room = 0; !kst.room && !kst.gone;)
            kst_spin(1000000);
        return !kst.gone;
    }
    assert_true(r == SNIC_ENOSPC || r == SNIC_EIO);
    return 0;
}

/* At most the newest exchange is of unknown outcome, and the marker shows it. */
static void swap_settle(uint64_t end)
{
    while (kst.sync == KV_SYNC_ALWAYS && !kst.cut && !kst.gone && kst.durable < end)
        kst_spin(1000000);
}

uint32_t kst_database(uint32_t k)
{
    return (k + kst.swaps) % 2;
}

/* The marker is in database swaps % 2, durably. */
static int marker_set(void)
{
    uint64_t end;
    int r;

    do
        r = kv_store_set(kst.store, kst.swaps % 2, "marker", 6, "", 0, 0, &end);
    while (r != 0 && kst_refused(r));
    if (r == 0)
        swap_settle(end);
    return r == 0;
}

void kst_swap(void)
{
    uint64_t end;
    int r;

    swap_settle(kst.swap_end);
    if (!marker_set()) /* a flush may have taken it */
        return;
    do
        r = kv_store_swap(kst.store, 0, 1, &end);
    while (r != 0 && kst_refused(r));
    if (r == 0) {
        kst.swaps++;
        kst.swap_end = end;
    }
}

/* 1: taken. */
int kst_set(uint32_t k)
{
    static unsigned char value[VALUE_MAX];
    char key[64];
    uint32_t n = key_name(k, key);
    uint32_t size = kst_any(4) ? kst_any(200) : kst_any(VALUE_MAX);
    uint64_t expire = kst_any(10) ? 0 : kv_store_wall_ms(kst.store) + 1 + kst_any(50);
    uint64_t end;
    int r;

    fill_value(value, k, kst.keys[k].newest + 1, size);
    do
        r = kv_store_set(kst.store, kst_database(k), key, n, value, size, expire, &end);
    while (r != 0 && kst_refused(r));
    if (r == 0)
        model_add(k, end, 1, size, expire);
    return r == 0;
}

int kst_delete(uint32_t k)
{
    char key[64];
    uint32_t n = key_name(k, key);
    struct kv_entry *e;
    uint64_t end;
    int r = 0;

    do {
        e = kv_store_find(kst.store, kst_database(k), key, n);
        if (e == NULL)
            return 0;
        r = kv_store_delete(kst.store, e, &end);
    } while (r != 0 && kst_refused(r));
    if (r == 0)
        model_add(k, end, 0, 0, 0);
    return r == 0;
}

void kst_flush(uint32_t database)
{
    uint64_t end;
    int r;

    swap_settle(kst.swap_end);
    do
        r = kv_store_flush_keys(kst.store, database, &end);
    while (r != 0 && kst_refused(r));
    for (uint32_t k = 0; r == 0 && k < KEYS; k++)
        if (database == KV_ALL_DATABASES || kst_database(k) == database)
            model_add(k, end, 0, 0, 0);
}

struct got {
    int done;
    int result;
    uint32_t size;
    unsigned char data[VALUE_MAX];
};

static void on_read(struct kv_read *r)
{
    struct got *g = r->ctx;

    g->done = 1;
    g->result = r->result;
    g->size = r->value_size;
    if (r->result == 0)
        memcpy(g->data, r->value, r->value_size);
}

/* The present value of a key, from memory or the device. 1: it exists. */
static int get(uint32_t k, struct got *g)
{
    char key[64];
    uint32_t n = key_name(k, key);
    struct kv_entry *e = kv_store_find(kst.store, kst_database(k), key, n);
    const unsigned char *value;

    if (e == NULL)
        return 0;
    value = kv_store_value(kst.store, e);
    if (value != NULL) {
        g->size = e->value_size;
        memcpy(g->data, value, g->size);
        return 1;
    }
    g->done = 0;
    assert_int_equal(kv_store_read(kst.store, e, (int)kst_any(2), on_read, g, 0), 0);
    while (!g->done)
        kst_spin(1000000);
    assert_int_equal(g->result, 0);
    return 1;
}

/* Does what was found agree with version @p v of the key? */
static int agrees(uint32_t k, uint32_t v, int found, const struct got *g)
{
    static unsigned char value[VALUE_MAX];
    const struct version *m = &kst.keys[k].versions[v];
    uint64_t now = kv_store_wall_ms(kst.store);

    if (v == 0 || !m->present || (!found && m->expire_ms != 0 && m->expire_ms <= now))
        return !found; /* an expired one may have been found just before */
    fill_value(value, k, v, m->size);
    return found && g->size == m->size && memcmp(g->data, value, m->size) == 0;
}

void kst_check_key(uint32_t k)
{
    static struct got g;
    int found = get(k, &g);

    /* It may have expired while it was read. */
    if (!agrees(k, kst.keys[k].newest, found, &g) &&
        kst.keys[k].versions[kst.keys[k].newest].expire_ms == 0)
        fail_msg("key %u is not its newest version (%u)", k, kst.keys[k].newest);
}

void kst_check_all(void)
{
    for (uint32_t k = 0; k < KEYS; k++)
        kst_check_key(k);
    assert_int_equal(kv_store_check(kst.store), 0);
}

/* After a cut: a version from the acknowledged one to the newest one. */
void kst_check_survivors(void)
{
    static struct got g;
    int marked = kv_store_find(kst.store, 0, "marker", 6) != NULL ? 0 : -1;

    if (kv_store_find(kst.store, 1, "marker", 6) != NULL) {
        assert_int_equal(marked, -1);
        marked = 1;
    }
    kst.swaps = kst.swaps_acked;
    if (marked >= 0 && kst.swaps % 2 != (uint32_t)marked)
        kst.swaps++; /* the one that was not acknowledged */
    assert_true(kst.swaps <= kst.swaps_issued);
    for (uint32_t k = 0; k < KEYS; k++) {
        char key[64];
        uint32_t n = key_name(k, key);
        int found = get(k, &g);
        uint32_t v = kst.newest[k] + 1;

        /* L7: what was written behind an exchange is not there without it. */
        assert_null(kv_store_find(kst.store, 1 - kst_database(k), key, n));
        while (v > kst.acked[k] && !agrees(k, v - 1, found, &g))
            v--;
        if (v == kst.acked[k] && kst.keys[k].versions[kst.acked[k]].expire_ms == 0)
            fail_msg("operation %llu, key %u: %s, none of versions %u to %u",
                     (unsigned long long)kst.cut_at, k, found ? "found" : "absent", kst.acked[k],
                     kst.newest[k]);
        /* The model continues from the actual state. */
        memset(&kst.keys[k].versions[1], 0, sizeof(struct version));
        if (v > kst.acked[k] && v - 1 > 0)
            kst.keys[k].versions[1] = kst.keys[k].versions[v - 1];
    }
}

/* ---- Scaffold ---- */

void kst_begin(uint64_t seed, enum kv_sync sync)
{
    struct snic_world_opts o = {.opts_size = sizeof(o)};

    o.seed = seed;
    memset(&kst, 0, sizeof(kst));
    snic_rng_init(&kst.rng, seed);
    kst.sync = sync;
    assert_int_equal(snic_world_open(&kst.world, &o), 0);
    assert_int_equal(snic_world_loop(kst.world, 0, &kst.loop), 0);
}

void kst_end(void)
{
    if (kst.store != NULL)
        assert_int_equal(kv_store_close(kst.store), 0);
    assert_null(kst.ops);
    snic_loop_close(kst.loop);
    snic_world_close(kst.world);
    kst_files_clear(&kst.fs);
    kst_files_clear(&kst.image);
}

void kst_detach_attach(void)
{
    kst.gone = 1;
    kv_store_detach(kst.store);
    while (kst.ops != NULL)
        kst_spin(1000000);
    kst.gone = 0;
    kv_store_attach(kst.store, &kst_files_ops, NULL);
}

void kst_restart(void)
{
    assert_int_equal(kv_store_close(kst.store), 0);
    assert_null(kst.ops);
    kst_open(0);
}
