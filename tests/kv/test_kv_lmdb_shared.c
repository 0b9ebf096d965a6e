/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on LMDB with several processes: which is sole; nothing is lost between them. */
#include "kv_lmdb_util.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { SHARED_PROCESSES = 3, SHARED_ROUNDS = 40, SHARED_COUNTERS = 3, SHARED_BLOCKS = 40 };

struct shared {
    char path[512];
    uint32_t index;
    _Atomic uint32_t *phase; /* between processes */
};

static void shared_setup(struct shared *s)
{
    memset(s, 0, sizeof(*s));
    kvl_path(s->path, sizeof(s->path));
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    s->phase = p;
}

/** Turn the loop until the others have come so far. */
static void shared_until(struct kvl *k, struct shared *s, uint32_t phase)
{
    uint64_t until = snic_loop_clock(k->loop) + 60000000000ULL;
    while (atomic_load(s->phase) < phase) {
        KVL_CHECK(snic_loop_clock(k->loop) < until); /* the other has aborted */
        KVL_CHECK(snic_loop_once(k->loop, 1000000) >= 0);
    }
}

/** A new store, and processes that use it at the same time. */
static void shared_start(struct shared *s, struct shared *each, pid_t *pids, void (*body)(void *))
{
    struct kvl k;
    shared_setup(s);
    kvl_open(&k, s->path, SNIC_KV_OPEN_CREATE);
    kvl_close(&k);
    for (uint32_t i = 0; i < SHARED_PROCESSES; i++) {
        each[i] = *s;
        each[i].index = i;
        pids[i] = kvl_fork(body, &each[i]);
    }
}

/* ---- Guarded counters ---- */

static void shared_increment(struct kvl *k, uint64_t counter)
{
    for (;;) {
        uint64_t was = kvl_get(k, 9, counter, 0);
        uint64_t now = was + 1;
        struct snic_kvop_guard g = {.key = kvl_key(9, counter), .value = &was, .size = sizeof(was)};
        if (was == 0) {
            g.value = NULL;
            g.size = 0;
        }
        struct snic_kvop_change c = {
            .key = kvl_key(9, counter), .kind = SNIC_KVOP_PUT, .value = &now, .size = sizeof(now)};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT,
                               .guards = &g,
                               .guard_count = 1,
                               .changes = &c,
                               .change_count = 1};
        int64_t r = kvl_run(k, &op);
        if (r == 0) {
            KVL_EQUAL(kvl_get(k, 9, counter, 0) >= now, 1);
            return;
        }
        KVL_EQUAL(r, SNIC_ECANCELED);
        KVL_EQUAL(op.failed_guard, 0);
    }
}

static void shared_counting(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    kvl_open(&k, s->path, SNIC_KV_OPEN_CREATE);
    for (uint64_t i = 0; i < SHARED_ROUNDS; i++) {
        shared_increment(&k, i % SHARED_COUNTERS);
        if (i % 16 == 15 && s->index == 0) { /* alone in between, and new to it */
            kvl_close(&k);
            kvl_open(&k, s->path, 0);
        }
    }
    kvl_close(&k);
}

/* Two that read the same number and both add one: an update would be lost. */
static void test_kv_lmdb_shared_guarded_increments_lose_nothing(void **state)
{
    struct shared s;
    struct shared each[SHARED_PROCESSES];
    pid_t pids[SHARED_PROCESSES];
    struct kvl k;
    (void)state;
    shared_start(&s, each, pids, shared_counting);
    for (uint32_t i = 0; i < SHARED_PROCESSES; i++)
        assert_int_equal(kvl_wait(pids[i]), 0);
    kvl_open(&k, s.path, 0);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < SHARED_COUNTERS; i++)
        sum += kvl_get(&k, 9, i, 0);
    assert_int_equal(sum, SHARED_PROCESSES * SHARED_ROUNDS);
    kvl_close(&k);
}

/* ---- Switching ---- */

static void shared_newcomer(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    kvl_open(&k, s->path, 0);
    KVL_EQUAL(snic_kv_sole(k.kv), 0);
    /* All that the sole one had only in memory. */
    for (uint64_t i = 0; i < 100; i++)
        KVL_EQUAL(kvl_get(&k, 1, i, 0), i + 1);
    unsigned char *p = malloc(SHARED_BLOCKS * KVL_BLOCK);
    KVL_CHECK(p != NULL);
    KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 5, 0, SHARED_BLOCKS * KVL_BLOCK, p),
              SHARED_BLOCKS * KVL_BLOCK);
    KVL_CHECK(kvl_filled(p, 5, 0, SHARED_BLOCKS * KVL_BLOCK, 2));
    /* The other sees what is done here. */
    KVL_EQUAL(kvl_put(&k, 1, 7, 77, 0), 0);
    kvl_fill(p, 5, KVL_BLOCK, KVL_BLOCK, 3);
    KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 5, KVL_BLOCK, KVL_BLOCK, p), KVL_BLOCK);
    kvl_fill(p, 6, 0, 8ULL * KVL_BLOCK, 4);
    KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 6, 0, 8ULL * KVL_BLOCK, p),
              8ULL * KVL_BLOCK);
    free(p);
    atomic_store(s->phase, 1);
    shared_until(&k, s, 2);
    kvl_close(&k);
}

static void test_kv_lmdb_shared_newcomer_ends_sole_and_sees_all(void **state)
{
    struct shared s;
    struct kvl k;
    (void)state;
    shared_setup(&s);
    kvl_open(&k, s.path, SNIC_KV_OPEN_CREATE);
    assert_int_equal(snic_kv_sole(k.kv), 1);
    unsigned char *p = malloc(SHARED_BLOCKS * KVL_BLOCK);
    assert_non_null(p);
    for (uint64_t seed = 1; seed <= 2; seed++) { /* the second time in place */
        kvl_fill(p, 5, 0, SHARED_BLOCKS * KVL_BLOCK, seed);
        assert_int_equal(
            kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 5, 0, SHARED_BLOCKS * KVL_BLOCK, p),
            SHARED_BLOCKS * KVL_BLOCK);
    }
    assert_int_equal(kvl_sync(&k), 0); /* no thread is in malloc() while this one forks */
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(kvl_put(&k, 1, i, i + 1, 0), 0);
    assert_int_equal(snic_kv_sole(k.kv), 1);
    pid_t pid = kvl_fork(shared_newcomer, &s);
    shared_until(&k, &s, 1);
    assert_int_equal(snic_kv_sole(k.kv), 0);
    assert_int_equal(kvl_get(&k, 1, 7, 0), 77);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 5, 0, 3ULL * KVL_BLOCK, p),
                     3ULL * KVL_BLOCK);
    assert_true(kvl_filled(p, 5, 0, KVL_BLOCK, 2));
    assert_true(kvl_filled(p + KVL_BLOCK, 5, KVL_BLOCK, KVL_BLOCK, 3));
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 6, 0, 8ULL * KVL_BLOCK, p),
                     8ULL * KVL_BLOCK);
    assert_true(kvl_filled(p, 6, 0, 8ULL * KVL_BLOCK, 4));
    atomic_store(s.phase, 2);
    assert_int_equal(kvl_wait(pid), 0);
    /* Alone again, it finds out. */
    while (snic_kv_sole(k.kv) == 0)
        kvl_turn(&k, 100000000);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 6, 0, 8ULL * KVL_BLOCK, p),
                     8ULL * KVL_BLOCK);
    assert_true(kvl_filled(p, 6, 0, 8ULL * KVL_BLOCK, 4));
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 6, 0, 8ULL * KVL_BLOCK, p),
                     8ULL * KVL_BLOCK);
    free(p);
    kvl_close(&k);
    kvl_audit(s.path);
}

/* ---- Refusals ---- */

static void shared_refused(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    char text[256] = "";
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = s->path};
    o.flags = s->index == 1 ? SNIC_KV_OPEN_SOLE : 0;
    KVL_EQUAL(kvl_try(&k, &o, text), SNIC_EBUSY);
    KVL_CHECK(text[0] != '\0');
    atomic_store(s->phase, 1);
}

static void test_kv_lmdb_shared_refusals(void **state)
{
    struct shared s;
    struct kvl k;
    struct kvl other;
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o)};
    (void)state;
    shared_setup(&s);
    o.path = s.path;
    for (uint32_t sole = 0; sole < 2; sole++) {
        kvl_open(&k, s.path, SNIC_KV_OPEN_CREATE | (sole == 0 ? SNIC_KV_OPEN_SOLE : 0));
        assert_int_equal(kvl_try(&other, &o, NULL), SNIC_EBUSY); /* the same process */
        s.index = sole;
        atomic_store(s.phase, 0);
        pid_t pid = kvl_fork(shared_refused, &s);
        shared_until(&k, &s, 1);
        assert_int_equal(kvl_wait(pid), 0);
        kvl_close(&k);
    }
}

/* ---- Maps of different sizes ---- */

enum { SHARED_LARGE = 6000 };

static void shared_large_map(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    unsigned char value[3000];
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = s->path, .map_bytes = 128U << 20};
    KVL_EQUAL(kvl_try(&k, &o, NULL), 0);
    memset(value, 9, sizeof(value));
    for (uint64_t i = 0; i < SHARED_LARGE; i += 50) {
        struct snic_kvop_change c[50];
        memset(c, 0, sizeof(c));
        for (uint64_t n = 0; n < 50; n++) {
            c[n].key = kvl_key(4, i + n);
            c[n].kind = SNIC_KVOP_PUT;
            c[n].value = value;
            c[n].size = sizeof(value);
        }
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = c, .change_count = 50};
        KVL_EQUAL(kvl_run(&k, &op), 0);
    }
    atomic_store(s->phase, 1);
    shared_until(&k, s, 2);
    KVL_EQUAL(kvl_get(&k, 4, SHARED_LARGE, 0), 11);
    kvl_close(&k);
}

/* Another handle has made the data base larger than this one's map. */
static void test_kv_lmdb_shared_larger_map_is_followed(void **state)
{
    struct shared s;
    struct kvl k;
    (void)state;
    shared_setup(&s);
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o),
                                  .path = s.path,
                                  .flags = SNIC_KV_OPEN_CREATE,
                                  .map_bytes = 8U << 20};
    assert_int_equal(kvl_try(&k, &o, NULL), 0);
    assert_int_equal(kvl_put(&k, 4, 1 << 20, 5, 0), 0);
    assert_int_equal(kvl_sync(&k), 0); /* no thread is in malloc() while this one forks */
    pid_t pid = kvl_fork(shared_large_map, &s);
    shared_until(&k, &s, 1);
    assert_int_equal(kvl_put(&k, 4, SHARED_LARGE, 11, 0), 0);
    unsigned char value[3000];
    for (uint64_t i = 0; i < SHARED_LARGE; i += 100) {
        struct snic_kvop_get g = {.key = kvl_key(4, i), .value = value, .room = sizeof(value)};
        struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
        assert_int_equal(kvl_run(&k, &op), 0);
        assert_int_equal(g.size, sizeof(value));
    }
    atomic_store(s.phase, 2);
    assert_int_equal(kvl_wait(pid), 0);
    assert_int_equal(kvl_get(&k, 4, 1 << 20, 0), 5);
    kvl_close(&k);
    kvl_audit(s.path);
}

/* ---- Objects of several writers ---- */

/** Each process has its 64 bytes of each block, and appends to an object of its own. */
static void shared_writing(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    struct snic_rng rng;
    unsigned char p[64];
    unsigned char *big = malloc(1 << 18);
    KVL_CHECK(big != NULL);
    kvl_open(&k, s->path, 0);
    snic_rng_init(&rng, support_seed() * 100 + s->index);
    for (uint64_t i = 1; i <= SHARED_ROUNDS; i++) {
        for (uint64_t b = 0; b < 4; b++) {
            uint64_t at = b * KVL_BLOCK + 64ULL * s->index;
            if (i > 1) {
                KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 50, at, 64, p), 64);
                KVL_CHECK(kvl_filled(p, 50, at, 64, i - 1));
            }
            kvl_fill(p, 50, at, 64, i);
            KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 50, at, 64, p), 64);
        }
        uint64_t size = (1 + snic_rng_below(&rng, 32)) * KVL_BLOCK;
        uint64_t object = 60 + s->index;
        kvl_fill(big, object, 0, size, i);
        KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, object, 0, size, big), size);
        KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, SNIC_KVOP_DIRECT, object, 0, size, big),
                  size);
        KVL_CHECK(kvl_filled(big, object, 0, size, i));
        if (i % 4 == 0)
            KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_TRUNCATE, 0, object, 0, 0, NULL), 0);
        if (s->index == 2 && i == SHARED_ROUNDS / 2)
            (void)raise(SIGKILL); /* one of them dies in the middle */
    }
    free(big);
    kvl_close(&k);
}

static void test_kv_lmdb_shared_objects_of_several_writers(void **state)
{
    struct shared s;
    struct shared each[SHARED_PROCESSES];
    pid_t pids[SHARED_PROCESSES];
    struct kvl k;
    (void)state;
    shared_start(&s, each, pids, shared_writing);
    for (uint32_t i = 0; i < SHARED_PROCESSES; i++)
        assert_int_equal(kvl_wait(pids[i]), i == 2 ? SIGKILL : 0);
    kvl_open(&k, s.path, 0);
    unsigned char p[64];
    for (uint32_t i = 0; i < SHARED_PROCESSES; i++) {
        for (uint64_t b = 0; b < 4; b++) {
            uint64_t at = b * KVL_BLOCK + 64ULL * i;
            assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 50, at, 64, p), 64);
            assert_true(kvl_filled(p, 50, at, 64, i == 2 ? SHARED_ROUNDS / 2 : SHARED_ROUNDS));
        }
    }
    kvl_close(&k);
    kvl_audit(s.path); /* what the dead one had reserved is back */
}

/* ---- Appends ---- */

enum { SHARED_RECORD = 64, SHARED_LOG = 70, SHARED_APPENDS = 100 };

static void shared_record(unsigned char *p, uint64_t index, uint64_t n)
{
    memset(p, 0, SHARED_RECORD);
    snic_put_le64(p, index + 1);
    snic_put_le64(p + 8, n);
}

static void shared_append(struct kvl *k, uint64_t index, uint64_t n)
{
    unsigned char p[SHARED_RECORD];
    shared_record(p, index, n);
    kvl_append(k, SHARED_LOG, p, sizeof(p));
}

static void shared_appending(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    kvl_open(&k, s->path, 0);
    for (uint64_t n = 0; n < SHARED_APPENDS; n++)
        shared_append(&k, s->index, n);
    kvl_close(&k);
}

/* A commit whose guard fails leaves the object's bytes: else it would overwrite a record that
 * another one has seen. */
static void test_kv_lmdb_shared_appends_of_several_writers(void **state)
{
    struct shared s;
    struct shared each[SHARED_PROCESSES];
    pid_t pids[SHARED_PROCESSES];
    uint64_t next[SHARED_PROCESSES] = {0};
    struct kvl k;
    (void)state;
    shared_start(&s, each, pids, shared_appending);
    for (uint32_t i = 0; i < SHARED_PROCESSES; i++)
        assert_int_equal(kvl_wait(pids[i]), 0);
    kvl_open(&k, s.path, 0);
    assert_int_equal(kvl_get(&k, SHARED_LOG, 0, 0), SHARED_PROCESSES * SHARED_APPENDS);
    for (uint64_t n = 0; n < SHARED_PROCESSES * SHARED_APPENDS; n++) {
        unsigned char p[SHARED_RECORD];
        unsigned char right[SHARED_RECORD];
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, SHARED_LOG, n * SHARED_RECORD,
                                    SHARED_RECORD, p),
                         SHARED_RECORD);
        uint64_t index = snic_get_le64(p) - 1;
        assert_true(index < SHARED_PROCESSES);
        shared_record(right, index, next[index]++); /* each one's are in their order */
        assert_memory_equal(p, right, sizeof(p));
    }
    kvl_close(&k);
    kvl_audit(s.path);
}

/* ---- Appends and truncations ---- */

enum { SHARED_CUT = 71, SHARED_STRIDE = 5000, SHARED_CUTS = 150, SHARED_LONGEST = 6 };

/** The commit of a log's new state, if the state is still `was`. 1: it happened. */
static int shared_change(struct kvl *k, uint64_t was, uint64_t now,
                         const struct snic_kvop_change *object)
{
    struct snic_kvop_guard g = {.key = kvl_key(SHARED_CUT, 0),
                                .value = was == 0 ? NULL : &was,
                                .size = was == 0 ? 0 : sizeof(was)};
    struct snic_kvop_change c[2] = {
        {.key = g.key, .kind = SNIC_KVOP_PUT, .value = &now, .size = sizeof(now)}, *object};
    struct snic_kvop op = {
        .kind = SNIC_KVOP_COMMIT, .guards = &g, .guard_count = 1, .changes = c, .change_count = 2};
    int64_t r = kvl_run(k, &op);
    if (r != 0)
        KVL_EQUAL(r, SNIC_ECANCELED);
    return r == 0;
}

/** While the log's state is the same before and after, what it lists is there. */
static void shared_look(struct kvl *k)
{
    unsigned char p[SHARED_LONGEST][SHARED_RECORD];
    uint64_t was = kvl_get(k, SHARED_CUT, 0, 0);
    uint64_t count = was & 0xff;
    for (uint64_t n = 0; n < count; n++)
        KVL_EQUAL(kvl_object(k, SNIC_KVOP_OBJECT_READ, 0, SHARED_CUT, n * SHARED_STRIDE,
                             SHARED_RECORD, p[n]),
                  SHARED_RECORD);
    if (kvl_get(k, SHARED_CUT, 0, 0) != was)
        return;
    for (uint64_t n = 0; n < count; n++) {
        unsigned char right[SHARED_RECORD];
        shared_record(right, n, n);
        KVL_EQUAL(memcmp(p[n], right, sizeof(right)), 0);
    }
}

/** The log's state is a number of changes, and how many records it has in the lowest byte. */
static void shared_cutting(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    struct snic_rng rng;
    snic_rng_init(&rng, support_seed() * 100 + s->index);
    kvl_open(&k, s->path, 0);
    for (uint32_t n = 0; n < SHARED_CUTS;) {
        unsigned char p[SHARED_RECORD];
        uint64_t was = kvl_get(&k, SHARED_CUT, 0, 0);
        uint64_t count = was & 0xff;
        struct snic_kvop_change c = {.object = SHARED_CUT};
        if (count == SHARED_LONGEST || snic_rng_below(&rng, 3) == 0) {
            count = snic_rng_below(&rng, 2) * count / 2;
            c.kind = SNIC_KVOP_CHANGE_TRUNCATE;
            c.offset = count * SHARED_STRIDE;
        } else {
            shared_record(p, count, count);
            c.kind = SNIC_KVOP_CHANGE_WRITE;
            c.offset = count * SHARED_STRIDE;
            c.value = p;
            c.size = sizeof(p);
            count++;
        }
        n += (uint32_t)shared_change(&k, was, (((was >> 8) + 1) << 8) + count, &c);
        shared_look(&k);
    }
    kvl_close(&k);
}

/* A truncation that comes after its records when others have seen those: it would take away what
 * another one has seen. */
static void test_kv_lmdb_shared_truncation_spares_later_appends(void **state)
{
    struct shared s;
    struct shared each[SHARED_PROCESSES];
    pid_t pids[SHARED_PROCESSES];
    struct kvl k;
    (void)state;
    shared_start(&s, each, pids, shared_cutting);
    for (uint32_t i = 0; i < SHARED_PROCESSES; i++)
        assert_int_equal(kvl_wait(pids[i]), 0);
    kvl_open(&k, s.path, 0);
    assert_int_equal(kvl_get(&k, SHARED_CUT, 0, 0) >> 8, SHARED_PROCESSES * SHARED_CUTS);
    shared_look(&k);
    kvl_close(&k);
    kvl_audit(s.path);
}

/* ---- Space ---- */

static void shared_space_other(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    kvl_open(&k, s->path, 0);
    atomic_store(s->phase, 1);
    shared_until(&k, s, 2);
    kvl_close(&k);
}

/* What is free is the same to one handle and to several: free blocks of the file, and no others. */
static void test_kv_lmdb_shared_space_counts_free_blocks(void **state)
{
    enum { MIB = 1 << 20, ALL = 64, TAKEN = 40 };
    struct shared s;
    struct kvl k;
    char text[256];
    (void)state;
    shared_setup(&s);
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o),
                                  .path = s.path,
                                  .flags = SNIC_KV_OPEN_CREATE,
                                  .object_bytes = (uint64_t)ALL * MIB};
    assert_int_equal(kvl_try(&k, &o, text), 0);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_ALLOC, 0, 1, 0, (uint64_t)TAKEN * MIB, NULL),
                     0);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_TRUNCATE, 0, 1, 30ULL * MIB, 0, NULL), 0);
    assert_int_equal(kvl_sync(&k), 0);
    struct snic_kvop alone = {.kind = SNIC_KVOP_SPACE};
    assert_int_equal(kvl_run(&k, &alone), 0);
    assert_int_equal(alone.space_free, 34ULL * MIB - KVL_BLOCK);
    pid_t pid = kvl_fork(shared_space_other, &s);
    shared_until(&k, &s, 1);
    assert_int_equal(snic_kv_sole(k.kv), 0);
    struct snic_kvop both = {.kind = SNIC_KVOP_SPACE};
    assert_int_equal(kvl_run(&k, &both), 0);
    assert_int_equal(both.space_free, alone.space_free);
    atomic_store(s.phase, 2);
    assert_int_equal(kvl_wait(pid), 0);
    kvl_close(&k);
}

/* ---- An allocation that fails half-way ---- */

enum { SHARED_FULL_BLOCKS = 4096, SHARED_FULL_AT = 127 };

static int64_t shared_full_open(struct kvl *k, const char *path, uint64_t batch_ns)
{
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o),
                                  .path = path,
                                  .flags = SNIC_KV_OPEN_CREATE,
                                  .object_bytes = SHARED_FULL_BLOCKS * KVL_BLOCK,
                                  .batch_ns = batch_ns};
    char text[256];
    return kvl_try(k, &o, text);
}

/* Takes what there is left, some of it for the object's first chunk. */
static void shared_full_other(void *ctx)
{
    struct shared *s = ctx;
    struct kvl k;
    int64_t r = 0;
    KVL_EQUAL(shared_full_open(&k, s->path, 5000000000ULL), 0);
    atomic_store(s->phase, 1);
    shared_until(&k, s, 2);
    for (uint64_t n = 1; r == 0; n++) /* odd pieces: the last one ends inside the chunk */
        r = kvl_object(&k, SNIC_KVOP_OBJECT_ALLOC, 0, 100 + n, 0, 97ULL * KVL_BLOCK, NULL);
    KVL_EQUAL(r, SNIC_ENOSPC);
    r = kvl_object(&k, SNIC_KVOP_OBJECT_TRUNCATE, 0, 101, 30ULL * KVL_BLOCK, 0, NULL);
    KVL_EQUAL(r, 0);
    KVL_EQUAL(kvl_sync(&k), 0);
    r = kvl_object(&k, SNIC_KVOP_OBJECT_ALLOC, 0, 5, 0, SHARED_FULL_AT * KVL_BLOCK, NULL);
    KVL_EQUAL(r, SNIC_ENOSPC);
    atomic_store(s->phase, 3);
    shared_until(&k, s, 4);
    kvl_close(&k);
}

/* The map that it changed is not put over one that another handle has changed since. */
static void test_kv_lmdb_shared_failed_allocation_spares_others(void **state)
{
    static unsigned char p[KVL_BLOCK], q[KVL_BLOCK];
    struct shared s;
    struct kvl k;
    (void)state;
    shared_setup(&s);
    assert_int_equal(shared_full_open(&k, s.path, 0), 0);
    pid_t pid = kvl_fork(shared_full_other, &s);
    shared_until(&k, &s, 1);
    kvl_fill(p, 6, 0, sizeof(p), 1); /* blocks in reserve */
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 6, 0, sizeof(p), p), sizeof(p));
    atomic_store(s.phase, 2);
    shared_until(&k, &s, 3);
    kvl_fill(p, 5, 0, sizeof(p), 1);
    assert_int_equal(
        kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 5, SHARED_FULL_AT * KVL_BLOCK, sizeof(p), p),
        sizeof(p));
    assert_int_equal(kvl_sync(&k), 0);
    atomic_store(s.phase, 4);
    while (waitpid(pid, NULL, WNOHANG) == 0)
        assert_true(snic_loop_once(k.loop, 1000000) >= 0);
    assert_int_equal(
        kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 5, SHARED_FULL_AT * KVL_BLOCK, sizeof(q), q),
        sizeof(q));
    assert_memory_equal(p, q, sizeof(p));
    kvl_close(&k);
    assert_int_equal(shared_full_open(&k, s.path, 0), 0);
    kvl_close(&k);
    kvl_audit(s.path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_shared_newcomer_ends_sole_and_sees_all),
        cmocka_unit_test(test_kv_lmdb_shared_guarded_increments_lose_nothing),
        cmocka_unit_test(test_kv_lmdb_shared_refusals),
        cmocka_unit_test(test_kv_lmdb_shared_larger_map_is_followed),
        cmocka_unit_test(test_kv_lmdb_shared_objects_of_several_writers),
        cmocka_unit_test(test_kv_lmdb_shared_appends_of_several_writers),
        cmocka_unit_test(test_kv_lmdb_shared_truncation_spares_later_appends),
        cmocka_unit_test(test_kv_lmdb_shared_space_counts_free_blocks),
        cmocka_unit_test(test_kv_lmdb_shared_failed_allocation_spares_others),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
