/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on LMDB: how often the records of its space and of its maps are read, and which space
 * goes back to the disk. */
#include "kv_lmdb_util.h"

#include "support/lru.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* ---- LMDB's cursors ---- */

struct space_value { /* MDB_val */
    size_t size;
    void *data;
};

/** Calls of this thread that began at a record of the space. */
static _Thread_local uint32_t space_reads;

int mdb_cursor_get(void *cursor, struct space_value *key, struct space_value *value, int op);

int mdb_cursor_get(void *cursor, struct space_value *key, struct space_value *value, int op)
{
    static int (*_Atomic real)(void *, struct space_value *, struct space_value *, int);
    if (atomic_load(&real) == NULL) {
        int (*found)(void *, struct space_value *, struct space_value *, int) = NULL;
        void *symbol = dlsym(RTLD_NEXT, "mdb_cursor_get");
        KVL_CHECK(symbol != NULL);
        memcpy(&found, &symbol, sizeof(found));
        atomic_store(&real, found);
    }
    if (key->size == 9 && key->data != NULL && *(const unsigned char *)key->data == 'F')
        space_reads++;
    return atomic_load(&real)(cursor, key, value, op);
}

/** Records of maps that were read. */
static _Thread_local uint64_t map_reads;

int mdb_get(void *txn, unsigned dbi, struct space_value *key, struct space_value *value);

int mdb_get(void *txn, unsigned dbi, struct space_value *key, struct space_value *value)
{
    static int (*_Atomic real)(void *, unsigned, struct space_value *, struct space_value *);
    if (atomic_load(&real) == NULL) {
        int (*found)(void *, unsigned, struct space_value *, struct space_value *) = NULL;
        void *symbol = dlsym(RTLD_NEXT, "mdb_get");
        KVL_CHECK(symbol != NULL);
        memcpy(&found, &symbol, sizeof(found));
        atomic_store(&real, found);
    }
    map_reads += key->size > 0 && *(const unsigned char *)key->data == 'M';
    return atomic_load(&real)(txn, dbi, key, value);
}

/* ---- Maps in memory ---- */

/* Objects of 1 MiB or less, of which each has one chunk of the map, in more than there is room for:
 * the record is read as often as an LRU of 16384 chunks needs it. */
static void test_kv_lmdb_space_maps_are_kept_like_lru(void **state)
{
    enum { CHUNKS = 16384, OPS = 60000, SOME = 200 };
    static unsigned char bytes[KVL_BLOCK];
    struct snic_rng rng;
    char path[4096];
    struct kvl k;
    (void)state;
    kvl_path(path, sizeof(path));
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    for (uint64_t o = 1; o <= SOME; o++) { /* the others are holes, which have a chunk, too */
        kvl_fill(bytes, o, 0, sizeof(bytes), 0);
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, o, 0, sizeof(bytes), bytes),
                         sizeof(bytes));
    }
    assert_int_equal(kvl_sync(&k), 0);
    snic_rng_init(&rng, 7 + support_seed());
    for (int n = 0; n < 4; n++) {
        uint32_t keys = n >> 1 ? 2 * CHUNKS : CHUNKS / 10 * 11;
        uint64_t lru_misses = 0;
        struct draw draw;
        struct lru lru;
        draw_open(&draw, keys, n & 1);
        lru_open(&lru, keys, CHUNKS);
        for (uint32_t i = 0; i < OPS + CHUNKS; i++) {
            /* First all once, so that both begin alike. */
            uint32_t key = i < CHUNKS ? i : draw_key(&draw, &rng);
            if (i == CHUNKS)
                map_reads = lru_misses = 0;
            lru_misses += !lru_get(&lru, key);
            lru_put(&lru, key);
            assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, key + 1, 0, 512, bytes), 512);
            assert_true(key < SOME ? kvl_filled(bytes, key + 1, 0, 512, 0) : bytes[0] == 0);
        }
        printf("  %.1f x, %s: %llu of %u read the map, %llu with an LRU\n", keys / (double)CHUNKS,
               n & 1 ? "Zipf" : "uniform", (unsigned long long)map_reads, OPS,
               (unsigned long long)lru_misses);
        assert_true(map_reads <= lru_misses + OPS / 20);
        assert_true(lru_misses == 0 || map_reads > 0);
        lru_close(&lru);
        draw_close(&draw);
    }
    kvl_close(&k);
}

/* ---- Several handles ---- */

struct space {
    char path[512];
    _Atomic uint32_t *phase;
};

static void space_until(struct kvl *k, struct space *s, uint32_t phase)
{
    uint64_t until = snic_loop_clock(k->loop) + 60000000000ULL;
    while (atomic_load(s->phase) < phase) {
        KVL_CHECK(snic_loop_clock(k->loop) < until);
        KVL_CHECK(snic_loop_once(k->loop, 1000000) >= 0);
    }
}

static void space_other(void *ctx)
{
    struct space *s = ctx;
    struct kvl k;
    kvl_open(&k, s->path, 0);
    atomic_store(s->phase, 1);
    space_until(&k, s, 2);
    kvl_close(&k);
}

/* With several handles only the records know what is free, some 65,000 of them in a store of 1 TB:
 * taking space does not sum, and a caller that often asks gets one sum for a while. */
static void test_kv_lmdb_space_is_summed_once_in_a_while(void **state)
{
    enum { MIB = 1 << 20, SEGMENTS = 4, REQUESTS = 3 };
    struct space s;
    struct kvl k;
    struct kvl_call c[REQUESTS];
    struct snic_kv_req *reqs[REQUESTS];
    (void)state;
    kvl_path(s.path, sizeof(s.path));
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    s.phase = p;
    kvl_open(&k, s.path, SNIC_KV_OPEN_CREATE);
    assert_int_equal(
        kvl_object(&k, SNIC_KVOP_OBJECT_ALLOC, 0, 1, 0, (SEGMENTS * 16ULL - 1) * MIB, NULL), 0);
    assert_int_equal(kvl_sync(&k), 0);
    pid_t pid = kvl_fork(space_other, &s);
    space_until(&k, &s, 1);
    assert_int_equal(snic_kv_sole(k.kv), 0);
    space_reads = 0;
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_ALLOC, 0, 2, 0, 2ULL * MIB, NULL), 0);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_ZERO, 0, 2, 0, 2ULL * MIB, NULL), 0);
    assert_int_equal(space_reads, 0);
    memset(c, 0, sizeof(c));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        c[i].op.kind = SNIC_KVOP_SPACE;
        c[i].req.op = &c[i].op;
        c[i].req.done = kvl_done;
        reqs[i] = &c[i].req;
    }
    assert_int_equal(snic_kv_submit(k.kv, reqs, REQUESTS), REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(kvl_end(&k, &c[i]), 0);
        assert_int_equal(c[i].op.space_free, c[0].op.space_free);
    }
    /* Once: each is found, and stepped behind; a reservation may have begun others. */
    assert_in_range(space_reads, SEGMENTS, 2 * (SEGMENTS + 3));
    atomic_store(s.phase, 2);
    assert_int_equal(kvl_wait(pid), 0);
    kvl_close(&k);
}

/* ---- Space goes back to the disk ---- */

static uint64_t space_taken(const char *path)
{
    char name[4200];
    struct stat st;
    (void)snprintf(name, sizeof(name), "%s/objects", path);
    assert_int_equal(stat(name, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* Objects 1 to `count` of `size` bytes: written, or compared. */
static void space_objects(struct kvl *k, uint64_t count, uint64_t size, int write)
{
    enum { PIECE = 1 << 20 };
    static unsigned char bytes[PIECE];
    for (uint64_t o = 1; o <= count; o++) {
        for (uint64_t at = 0; at < size; at += PIECE) {
            if (write)
                kvl_fill(bytes, o, at, PIECE, 0);
            assert_int_equal(kvl_object(k, write ? SNIC_KVOP_OBJECT_WRITE : SNIC_KVOP_OBJECT_READ,
                                        0, o, at, PIECE, bytes),
                             PIECE);
            assert_true(write || kvl_filled(bytes, o, at, PIECE, 0));
        }
    }
}

/* 160 MiB that are removed: 64 MiB of them stay at hand, until the store is closed. What is written
 * into the space that was freed is there, also after the store was opened anew. */
static void test_kv_lmdb_space_goes_back(void **state)
{
    enum { MIB = 1 << 20, OBJECTS = 10, SIZE = 16 * MIB, SPARE = 64 * MIB, SMALL = 2 * MIB };
    char path[4096];
    struct kvl k;
    (void)state;
    kvl_path(path, sizeof(path));
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    for (int round = 0; round < 3; round++) {
        space_objects(&k, OBJECTS, SIZE, 1);
        assert_int_equal(kvl_sync(&k), 0);
        assert_true(space_taken(path) >= OBJECTS * (uint64_t)SIZE);
        space_objects(&k, OBJECTS, SIZE, 0);
        for (uint64_t o = 2; o <= OBJECTS; o++)
            assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_TRUNCATE, 0, o, 0, 0, NULL), 0);
        assert_int_equal(kvl_sync(&k), 0);
        while (space_taken(path) > SPARE + 3 * (uint64_t)SIZE)
            kvl_turn(&k, 100000000);
        space_objects(&k, 1, SIZE, 0);
        kvl_close(&k);
        assert_true(space_taken(path) <= 2 * (uint64_t)SIZE + SMALL);
        kvl_open(&k, path, 0);
        space_objects(&k, 1, SIZE, 0);
    }
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_TRUNCATE, 0, 1, 0, 0, NULL), 0);
    kvl_close(&k);
    assert_true(space_taken(path) <= SMALL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_space_maps_are_kept_like_lru),
        cmocka_unit_test(test_kv_lmdb_space_is_summed_once_in_a_while),
        cmocka_unit_test(test_kv_lmdb_space_goes_back),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
