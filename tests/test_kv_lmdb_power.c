/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Power loss under the store on LMDB. A run of commits and object writes is recorded; then, for
 * many points of it, the files are rebuilt with any subset of what was not synced. Each must open,
 * hold a prefix of the commits that contains all acknowledged as durable, hold in every half block
 * of an object something written there that is not older than the last synced, and read without a
 * checksum error.
 */
#include "kv_lmdb_record.h"
#include "kv_lmdb_util.h"

enum {
    POWER_KEYS = 24,
    POWER_OBJECTS = 3,
    POWER_HALVES = 2 * 20,
    POWER_HALF = 4096,
    POWER_STEPS = 420,
    POWER_APPEND = 90
};

/** What the store holds after a step. */
struct power_state {
    uint16_t keys[POWER_KEYS];                    /* the step that wrote it, 0 none */
    uint16_t halves[POWER_OBJECTS][POWER_HALVES]; /* likewise; 0: zeros */
    uint16_t commits;                             /* steps that were commits, until now */
    uint16_t appended;                            /* blocks of the object that grows */
};

struct power {
    struct kvl k;
    struct snic_rng rng;
    struct power_state *states; /* by step */
    size_t *begun;              /* the log's length when the step was begun */
    uint16_t *of_commit;        /* the step of the n-th commit */
    uint32_t steps;
    char path[512];
};

static void power_value(unsigned char *out, uint32_t key, uint32_t step, uint32_t *size)
{
    *size = 16 + (key * 37 + step * 11) % 900;
    kvl_fill(out, key, 0, 1024, step);
}

/* ---- The run ---- */

static void power_commit(struct power *p, uint32_t step)
{
    struct power_state *now = &p->states[step];
    unsigned char values[4][1024];
    struct snic_kvop_change c[5];
    uint32_t n = 1 + (uint32_t)snic_rng_below(&p->rng, 4);
    uint32_t first = (uint32_t)snic_rng_below(&p->rng, POWER_KEYS - 4);
    uint64_t number = ++now->commits;
    p->of_commit[number] = (uint16_t)step;
    memset(c, 0, sizeof(c));
    c[0] = (struct snic_kvop_change){
        .key = kvl_key(1, 0), .kind = SNIC_KVOP_PUT, .value = &number, .size = sizeof(number)};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size;
        int gone = snic_rng_below(&p->rng, 4) == 0;
        power_value(values[i], first + i, step, &size);
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
        (void)record_note(number << 32 | (record_noted(record_length()) & UINT32_MAX));
}

static void power_write(struct power *p, uint32_t step)
{
    struct power_state *now = &p->states[step];
    unsigned char bytes[8 * POWER_HALF];
    uint32_t object = (uint32_t)snic_rng_below(&p->rng, POWER_OBJECTS);
    uint32_t n = 1 + (uint32_t)snic_rng_below(&p->rng, 8);
    uint32_t at = (uint32_t)snic_rng_below(&p->rng, POWER_HALVES - n + 1);
    uint32_t kind = SNIC_KVOP_OBJECT_WRITE;
    uint64_t dice = snic_rng_below(&p->rng, 12);
    if (dice == 0)
        kind = SNIC_KVOP_OBJECT_PUNCH;
    else if (dice == 1)
        kind = SNIC_KVOP_OBJECT_ZERO;
    else if (dice == 2 && at > POWER_HALVES / 2)
        kind = SNIC_KVOP_OBJECT_TRUNCATE;
    if (kind == SNIC_KVOP_OBJECT_TRUNCATE)
        n = POWER_HALVES - at;
    for (uint32_t i = at; i < at + n; i++)
        now->halves[object][i] = kind == SNIC_KVOP_OBJECT_WRITE ? (uint16_t)step : 0;
    uint64_t length = (uint64_t)n * POWER_HALF;
    if (kind == SNIC_KVOP_OBJECT_WRITE) {
        kvl_fill(bytes, 10 + object, (uint64_t)at * POWER_HALF, length, step);
        KVL_EQUAL(kvl_object(&p->k, kind, snic_rng_below(&p->rng, 2) ? SNIC_KVOP_DIRECT : 0,
                             10 + object, (uint64_t)at * POWER_HALF, length, bytes),
                  length);
    } else {
        KVL_EQUAL(kvl_object(&p->k, kind, 0, 10 + object, (uint64_t)at * POWER_HALF,
                             kind == SNIC_KVOP_OBJECT_TRUNCATE ? 0 : length, NULL),
                  0);
    }
}

static void power_append(struct power *p, uint32_t step)
{
    struct power_state *now = &p->states[step];
    unsigned char bytes[KVL_BLOCK];
    uint64_t at = (uint64_t)now->appended * KVL_BLOCK;
    if (now->appended == POWER_APPEND)
        return;
    kvl_fill(bytes, 99, at, KVL_BLOCK, 1);
    KVL_EQUAL(kvl_object(&p->k, SNIC_KVOP_OBJECT_WRITE, 0, 99, at, KVL_BLOCK, bytes), KVL_BLOCK);
    now->appended++;
}

/** Notes are (commits acknowledged) << 32 | step whose object bytes are. */
static void power_step(struct power *p, uint32_t step)
{
    p->begun[step] = record_length();
    p->states[step] = p->states[step - 1];
    uint64_t dice = snic_rng_below(&p->rng, 20);
    if (dice < 8) {
        power_commit(p, step);
    } else if (dice < 15) {
        power_write(p, step);
    } else if (dice < 17) {
        power_append(p, step);
    } else if (dice < 18) {
        KVL_EQUAL(kvl_sync(&p->k), 0);
        (void)record_note((uint64_t)p->states[step].commits << 32 | step);
    } else if (dice < 19) {
        kvl_turn(&p->k, 6000000);                 /* a batch of its own accord */
    } else if (snic_rng_below(&p->rng, 8) == 0) { /* an orderly end, and marks removed */
        struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = p->path, .wrap = record_wrap};
        kvl_close(&p->k);
        (void)record_note((uint64_t)p->states[step].commits << 32 | step);
        KVL_EQUAL(kvl_try(&p->k, &o, NULL), 0);
    }
}

static void power_run(struct power *p, uint64_t seed)
{
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = p->path, .wrap = record_wrap};
    memset(p, 0, sizeof(*p));
    snic_rng_init(&p->rng, seed);
    kvl_path(p->path, sizeof(p->path));
    kvl_open(&p->k, p->path, SNIC_KV_OPEN_CREATE);
    kvl_close(&p->k);
    record_begin(p->path);
    o.path = p->path;
    KVL_EQUAL(kvl_try(&p->k, &o, NULL), 0);
    p->states = calloc(POWER_STEPS + 1, sizeof(*p->states));
    p->begun = calloc(POWER_STEPS + 2, sizeof(*p->begun));
    p->of_commit = calloc(POWER_STEPS + 1, sizeof(*p->of_commit));
    KVL_CHECK(p->states != NULL && p->begun != NULL && p->of_commit != NULL);
    for (uint32_t step = 1; step <= POWER_STEPS; step++)
        power_step(p, step);
    p->steps = POWER_STEPS;
    kvl_close(&p->k);
    record_stop();
}

/* ---- The check ---- */

static void power_records(struct power *p, struct kvl *k, uint64_t commits)
{
    const struct power_state *then = &p->states[p->of_commit[commits]];
    for (uint32_t i = 0; i < POWER_KEYS; i++) {
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
        power_value(want, i, then->keys[i], &size);
        KVL_EQUAL(r, 0);
        KVL_EQUAL(g.size, size);
        KVL_CHECK(memcmp(value, want, size) == 0);
    }
}

static int power_zeros(const unsigned char *b)
{
    static const unsigned char zeros[POWER_HALF];
    return memcmp(b, zeros, POWER_HALF) == 0;
}

/** Is what a half block holds what some step from @p low to @p high left there? */
static void power_half(struct power *p, const unsigned char *b, uint32_t object, uint32_t half,
                       uint32_t low, uint32_t high)
{
    for (uint32_t step = high + 1; step-- > low;) {
        uint16_t by = p->states[step].halves[object][half];
        if (by == 0 ? power_zeros(b)
                    : kvl_filled(b, 10 + object, (uint64_t)half * POWER_HALF, POWER_HALF, by))
            return;
    }
    (void)fprintf(stderr, "object %u half %u: nothing of steps %u to %u\n", object, half, low,
                  high);
    abort();
}

static void power_check(struct power *p, const char *path, size_t cut)
{
    struct kvl k;
    uint64_t note = record_noted(cut);
    uint32_t low = (uint32_t)note;
    uint32_t high = p->steps;
    unsigned char b[KVL_BLOCK];
    while (high > 0 && p->begun[high] >= cut)
        high--;
    kvl_open(&k, path, 0);
    uint64_t commits = kvl_get(&k, 1, 0, 0);
    KVL_CHECK(commits >= note >> 32 && commits <= p->states[high].commits);
    power_records(p, &k, commits);
    for (uint32_t object = 0; object < POWER_OBJECTS; object++) {
        for (uint32_t half = 0; half < POWER_HALVES; half++) {
            KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 10 + object,
                                 (uint64_t)half * POWER_HALF, POWER_HALF, b),
                      POWER_HALF);
            power_half(p, b, object, half, low, high);
        }
    }
    /* Blocks that are new come with the commits that follow them. */
    uint32_t there = 0;
    for (; there < POWER_APPEND; there++) {
        uint64_t at = (uint64_t)there * KVL_BLOCK;
        KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 99, at, KVL_BLOCK, b), KVL_BLOCK);
        if (!kvl_filled(b, 99, at, KVL_BLOCK, 1))
            break;
    }
    KVL_CHECK(there >= p->states[low].appended &&
              there >= p->states[p->of_commit[commits]].appended);
    /* It goes on working, and closes. */
    KVL_EQUAL(kvl_put(&k, 1, 0, commits + 1, SNIC_KVOP_DURABLE), 0);
    kvl_fill(b, 10, 0, KVL_BLOCK, 7);
    KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 10, 0, KVL_BLOCK, b), KVL_BLOCK);
    kvl_close(&k);
    kvl_open(&k, path, 0);
    KVL_EQUAL(kvl_get(&k, 1, 0, 0), commits + 1);
    KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, 10, 0, KVL_BLOCK, b), KVL_BLOCK);
    KVL_CHECK(kvl_filled(b, 10, 0, KVL_BLOCK, 7));
    kvl_close(&k);
}

static void power_remove(const char *path)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "objects", "session.lock"};
    for (size_t i = 0; i < SNIC_COUNTOF(names); i++) {
        char name[600];
        (void)snprintf(name, sizeof(name), "%s/%s", path, names[i]);
        (void)unlink(name);
    }
    (void)rmdir(path);
}

static void test_kv_lmdb_power_cut_anywhere_leaves_a_store(void **state)
{
    struct power p;
    char path[512];
    (void)state;
    uint64_t runs = support_scale(1, 6);
    kvl_path(path, sizeof(path));
    for (uint64_t run = 0; run < runs; run++) {
        power_run(&p, support_seed() * 1000 + run);
        size_t length = record_length();
        size_t stride = support_scale(length / 130 + 1, 1);
        (void)printf("%zu events\n", length);
        for (size_t cut = 0; cut <= length; cut += 1 + snic_rng_below(&p.rng, 2 * stride - 1)) {
            enum record_choice choice = (enum record_choice)snic_rng_below(&p.rng, 4);
            record_image(path, cut, choice, run * 1000003 + cut);
            power_check(&p, path, cut);
            power_remove(path);
        }
        record_end();
        free(p.states);
        free(p.begun);
        free(p.of_commit);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_power_cut_anywhere_leaves_a_store),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
