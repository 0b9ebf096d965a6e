/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "kv_lmdb_work.h"

#include <stdatomic.h>
#include <sys/mman.h>

static void work_value(unsigned char *out, uint32_t key, uint32_t step, uint32_t *size)
{
    *size = 16 + (key * 37 + step * 11) % 900;
    kvl_fill(out, key, 0, 1024, step);
}

/* ---- The run ---- */

static void work_acknowledged(struct work *p, uint64_t commits, uint32_t step)
{
    atomic_store(p->noted, commits << 32 | step);
    if (p->note != NULL)
        p->note(p, commits, step);
}

static void work_commit(struct work *p, uint32_t step)
{
    struct work_state *now = &p->states[step];
    unsigned char values[4][1024];
    struct snic_kvop_change c[5];
    uint32_t n = 1 + (uint32_t)snic_rng_below(&p->rng, 4);
    uint32_t first = (uint32_t)snic_rng_below(&p->rng, WORK_KEYS - 4);
    uint64_t number = ++now->commits;
    p->of_commit[number] = (uint16_t)step;
    memset(c, 0, sizeof(c));
    c[0] = (struct snic_kvop_change){
        .key = kvl_key(1, 0), .kind = SNIC_KVOP_PUT, .value = &number, .size = sizeof(number)};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size;
        int gone = snic_rng_below(&p->rng, 4) == 0;
        work_value(values[i], first + i, step, &size);
        now->keys[first + i] = gone ? 0 : (uint16_t)step;
        c[i + 1] = (struct snic_kvop_change){.key = kvl_key(2 + (first + i) % 3, first + i),
                                             .kind = gone ? SNIC_KVOP_DELETE : SNIC_KVOP_PUT,
                                             .value = values[i],
                                             .size = size};
    }
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = c, .change_count = n + 1};
    op.flags = snic_rng_below(&p->rng, 6) == 0 ? SNIC_KVOP_DURABLE : 0;
    KVL_EQUAL(kvl_run(&p->k, &op), 0);
    if ((op.flags & SNIC_KVOP_DURABLE) != 0)
        work_acknowledged(p, number, (uint32_t)atomic_load(p->noted));
}

static void work_write(struct work *p, uint32_t step)
{
    struct work_state *now = &p->states[step];
    unsigned char bytes[8 * WORK_HALF];
    uint32_t object = (uint32_t)snic_rng_below(&p->rng, WORK_OBJECTS);
    uint32_t n = 1 + (uint32_t)snic_rng_below(&p->rng, 8);
    uint32_t at = (uint32_t)snic_rng_below(&p->rng, WORK_HALVES - n + 1);
    uint32_t kind = SNIC_KVOP_OBJECT_WRITE;
    uint64_t dice = snic_rng_below(&p->rng, 12);
    if (dice == 0)
        kind = SNIC_KVOP_OBJECT_PUNCH;
    else if (dice == 1)
        kind = SNIC_KVOP_OBJECT_ZERO;
    else if (dice == 2 && at > WORK_HALVES / 2)
        kind = SNIC_KVOP_OBJECT_TRUNCATE;
    if (object >= WORK_LARGE) {
        kind = dice < 6 ? SNIC_KVOP_OBJECT_TRUNCATE : SNIC_KVOP_OBJECT_WRITE;
        at = 0;
        n = 2;
    } else if (kind == SNIC_KVOP_OBJECT_TRUNCATE) {
        n = WORK_HALVES - at;
    }
    for (uint32_t i = at; i < at + n; i++)
        now->halves[object][i] = kind == SNIC_KVOP_OBJECT_WRITE ? (uint16_t)step : 0;
    uint64_t length = (uint64_t)n * WORK_HALF;
    if (kind == SNIC_KVOP_OBJECT_WRITE) {
        kvl_fill(bytes, 10 + object, (uint64_t)at * WORK_HALF, length, step);
        KVL_EQUAL(kvl_object(&p->k, kind, snic_rng_below(&p->rng, 2) ? SNIC_KVOP_DIRECT : 0,
                             10 + object, (uint64_t)at * WORK_HALF, length, bytes),
                  length);
    } else {
        KVL_EQUAL(kvl_object(&p->k, kind, 0, 10 + object, (uint64_t)at * WORK_HALF,
                             kind == SNIC_KVOP_OBJECT_TRUNCATE ? 0 : length, NULL),
                  0);
    }
}

static void work_append(struct work *p, uint32_t step)
{
    struct work_state *now = &p->states[step];
    unsigned char bytes[KVL_BLOCK];
    uint64_t at = (uint64_t)now->appended * KVL_BLOCK;
    if (now->appended == WORK_APPEND)
        return;
    kvl_fill(bytes, 99, at, KVL_BLOCK, 1);
    KVL_EQUAL(kvl_object(&p->k, SNIC_KVOP_OBJECT_WRITE, 0, 99, at, KVL_BLOCK, bytes), KVL_BLOCK);
    now->appended++;
}

static void work_step(struct work *p, uint32_t step)
{
    p->begun[step] = p->length == NULL ? step : p->length();
    p->states[step] = p->states[step - 1];
    atomic_store(p->step, step); /* last: a kill may come between any two of them */
    uint64_t dice = snic_rng_below(&p->rng, 20);
    if (dice < 8) {
        work_commit(p, step);
    } else if (dice < 15) {
        work_write(p, step);
    } else if (dice < 17) {
        work_append(p, step);
    } else if (dice < 18) {
        KVL_EQUAL(kvl_sync(&p->k), 0);
        work_acknowledged(p, p->states[step].commits, step);
    } else if (dice < 19) {
        kvl_turn(&p->k, 6000000);                 /* a batch of its own accord */
    } else if (snic_rng_below(&p->rng, 3) == 0) { /* an orderly end, and marks removed */
        kvl_close(&p->k);
        work_acknowledged(p, p->states[step].commits, step);
        KVL_EQUAL(kvl_try(&p->k, &p->opts, NULL), 0);
    }
}

static void *work_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    KVL_CHECK(p != MAP_FAILED);
    return p;
}

void work_open(struct work *p, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    snic_rng_init(&p->rng, seed);
    kvl_path(p->path, sizeof(p->path));
    p->opts = (struct snic_kv_lmdb_opts){.opts_size = sizeof(p->opts), .path = p->path};
    p->states = work_memory((WORK_STEPS + 1) * sizeof(*p->states));
    p->begun = work_memory((WORK_STEPS + 1) * sizeof(*p->begun));
    p->of_commit = work_memory((WORK_STEPS + 1) * sizeof(*p->of_commit));
    p->step = work_memory(sizeof(*p->step));
    p->noted = work_memory(sizeof(*p->noted));
    kvl_open(&p->k, p->path, SNIC_KV_OPEN_CREATE);
    kvl_close(&p->k);
}

void work_close(struct work *p)
{
    (void)munmap(p->states, (WORK_STEPS + 1) * sizeof(*p->states));
    (void)munmap(p->begun, (WORK_STEPS + 1) * sizeof(*p->begun));
    (void)munmap(p->of_commit, (WORK_STEPS + 1) * sizeof(*p->of_commit));
    (void)munmap(p->step, sizeof(*p->step));
    (void)munmap(p->noted, sizeof(*p->noted));
    work_remove(p->path);
}

void work_run(struct work *p)
{
    KVL_EQUAL(kvl_try(&p->k, &p->opts, NULL), 0);
    for (uint32_t step = 1; step <= WORK_STEPS; step++)
        work_step(p, step);
    kvl_close(&p->k);
}

/* ---- The check ---- */

static void work_records(struct work *p, struct kvl *k, uint64_t commits)
{
    const struct work_state *then = &p->states[p->of_commit[commits]];
    for (uint32_t i = 0; i < WORK_KEYS; i++) {
        unsigned char value[1024];
        unsigned char want[1024];
        struct snic_kvop_get g = {.key = kvl_key(2 + i % 3, i), .value = value, .room = 1024};
        struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
        int64_t r = kvl_run(k, &op);
        if (then->keys[i] == 0) {
            KVL_EQUAL(r, SNIC_ENOENT);
            continue;
        }
        uint32_t size;
        work_value(want, i, then->keys[i], &size);
        KVL_EQUAL(r, 0);
        KVL_EQUAL(g.size, size);
        KVL_CHECK(memcmp(value, want, size) == 0);
    }
}

static int work_zeros(const unsigned char *b)
{
    static const unsigned char zeros[WORK_HALF];
    return memcmp(b, zeros, WORK_HALF) == 0;
}

/** Is what a half block holds what some step from @p low to @p high left there? */
static void work_half(struct work *p, const unsigned char *b, uint32_t object, uint32_t half,
                      uint32_t low, uint32_t high)
{
    for (uint32_t step = high + 1; step-- > low;) {
        uint16_t by = p->states[step].halves[object][half];
        if (by == 0 ? work_zeros(b)
                    : kvl_filled(b, 10 + object, (uint64_t)half * WORK_HALF, WORK_HALF, by))
            return;
    }
    (void)fprintf(stderr, "object %u half %u: nothing of steps %u to %u\n", object, half, low,
                  high);
    abort();
}

void work_check(struct work *p, const char *path, size_t cut, uint64_t note)
{
    struct kvl k;
    uint32_t low = (uint32_t)note;
    uint32_t high = atomic_load(p->step);
    unsigned char b[KVL_BLOCK];
    while (high > 0 && p->begun[high] >= cut)
        high--;
    kvl_open(&k, path, 0);
    uint64_t commits = kvl_get(&k, 1, 0, 0);
    KVL_CHECK(commits >= note >> 32 && commits <= p->states[high].commits);
    work_records(p, &k, commits);
    for (uint32_t object = 0; object < WORK_OBJECTS; object++) {
        for (uint32_t half = 0; half < (object < WORK_LARGE ? WORK_HALVES : 2); half++) {
            KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 10 + object,
                                 (uint64_t)half * WORK_HALF, WORK_HALF, b),
                      WORK_HALF);
            work_half(p, b, object, half, low, high);
        }
    }
    /* Blocks that are new come with the commits that follow them. */
    uint32_t there = 0;
    for (; there < WORK_APPEND; there++) {
        uint64_t at = (uint64_t)there * KVL_BLOCK;
        KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 99, at, KVL_BLOCK, b), KVL_BLOCK);
        if (!kvl_filled(b, 99, at, KVL_BLOCK, 1))
            break;
    }
    KVL_CHECK(there >= p->states[low].appended &&
              there >= p->states[p->of_commit[commits]].appended);
    /* It continues to work, and closes. */
    KVL_EQUAL(kvl_put(&k, 1, 0, commits + 1, SNIC_KVOP_DURABLE), 0);
    kvl_fill(b, 10, 0, KVL_BLOCK, 7);
    KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 10, 0, KVL_BLOCK, b), KVL_BLOCK);
    kvl_close(&k);
    kvl_open(&k, path, 0);
    KVL_EQUAL(kvl_get(&k, 1, 0, 0), commits + 1);
    KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 10, 0, KVL_BLOCK, b), KVL_BLOCK);
    KVL_CHECK(kvl_filled(b, 10, 0, KVL_BLOCK, 7));
    kvl_close(&k);
    kvl_audit(path);
}

void work_remove(const char *path)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "objects", "session.lock"};
    for (size_t i = 0; i < SNIC_COUNTOF(names); i++) {
        char name[600];
        (void)snprintf(name, sizeof(name), "%s/%s", path, names[i]);
        (void)unlink(name);
    }
    (void)rmdir(path);
}
