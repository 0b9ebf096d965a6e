/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on LMDB against the store in memory: the same random operations, the same results,
 * across closing and opening, with little memory for batches.
 */
#include "kv_lmdb_util.h"

enum {
    RANDOM_GROUPS = 4,
    RANDOM_KEYS = 40,
    RANDOM_OBJECTS = 4,
    RANDOM_SPAN = 3 << 20, /* of an object: three chunks of the map */
    RANDOM_OUT = 1 << 18
};

struct both {
    struct kvl k;
    struct snic_kvmem *model;
    struct snic_rng rng;
    unsigned char *bytes[2]; /* of LMDB's operation and of the model's */
    unsigned char *values;
    char path[512];
    struct snic_kv_lmdb_opts opts;
};

static uint64_t random_below(struct both *b, uint64_t n)
{
    return snic_rng_below(&b->rng, n);
}

/** Both carry it out; results must be equal. */
static void random_both(struct both *b, struct snic_kvop *op)
{
    struct snic_kvop model = *op;
    snic_kvmem_apply(b->model, &model);
    (void)kvl_run(&b->k, op);
    KVL_EQUAL(op->result, model.result);
    KVL_EQUAL(op->failed_guard, model.failed_guard);
    KVL_EQUAL(op->allocated, model.allocated);
}

static struct snic_kvop_key random_key(struct both *b)
{
    struct snic_kvop_key k;
    unsigned char text[SNIC_KVOP_KEY_MAX];
    uint32_t n = (uint32_t)random_below(b, RANDOM_KEYS);
    uint32_t size = n % 7 == 0 ? SNIC_KVOP_KEY_MAX : 1 + n % 12;
    memset(text, 'a' + (int)(n % 3), sizeof(text));
    text[size - 1] = (unsigned char)(n * 6);
    snic_kvop_key_set(&k, random_below(b, RANDOM_GROUPS), text, size);
    return k;
}

static uint32_t random_size(struct both *b)
{
    switch (random_below(b, 8)) {
    case 0:
        return 1 + (uint32_t)random_below(b, SNIC_KVOP_VALUE_MAX);
    case 1:
        return 1900 + (uint32_t)random_below(b, 300); /* about what fits a page */
    default:
        return 1 + (uint32_t)random_below(b, 300);
    }
}

static void random_commit(struct both *b)
{
    struct snic_kvop_change c[6];
    struct snic_kvop_guard g;
    uint32_t n = 1 + (uint32_t)random_below(b, 5);
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = c};
    memset(c, 0, sizeof(c));
    unsigned char *value = b->values;
    for (uint32_t i = 0; i < n; i++) {
        struct snic_kvop_change *x = &c[op.change_count];
        x->key = random_key(b);
        x->kind = random_below(b, 3) == 0 ? SNIC_KVOP_DELETE : SNIC_KVOP_PUT;
        x->size = x->kind == SNIC_KVOP_PUT ? random_size(b) : 0;
        snic_rng_fill(&b->rng, value, snic_min_u64(x->size, 64));
        x->value = x->kind == SNIC_KVOP_PUT ? value : NULL;
        value += x->size;
        int again = 0;
        for (uint32_t j = 0; j < op.change_count; j++)
            again |= snic_kvop_key_compare(&c[j].key, &x->key) == 0;
        op.change_count += !again;
    }
    uint64_t dice = random_below(b, 10);
    if (dice < 2) {
        struct snic_kvop_change *x = &c[op.change_count++];
        memset(x, 0, sizeof(*x));
        x->kind = dice == 0 ? SNIC_KVOP_CHANGE_WRITE : SNIC_KVOP_CHANGE_TRUNCATE;
        x->object = 1 + random_below(b, RANDOM_OBJECTS);
        x->offset = random_below(b, RANDOM_SPAN);
        x->size = dice == 0 ? 1 + (uint32_t)random_below(b, 20000) : 0;
        x->value = dice == 0 ? b->values : NULL;
    }
    unsigned char want[64];
    if (random_below(b, 3) == 0) { /* a guard that holds half of the time */
        g = (struct snic_kvop_guard){.key = random_key(b)};
        struct snic_kvop_get get = {.key = g.key, .value = want, .room = sizeof(want)};
        struct snic_kvop look = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
        if (kvl_run(&b->k, &look) == 0 && random_below(b, 2) == 0) {
            g.value = want;
            g.size = get.size;
        }
        op.guards = &g;
        op.guard_count = 1;
    }
    op.flags = random_below(b, 100) == 0 ? SNIC_KVOP_DURABLE : 0;
    random_both(b, &op);
}

static void random_scan(struct both *b)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_SCAN, .out_room = RANDOM_OUT};
    op.scan_max = 1 + (uint32_t)random_below(b, 50);
    op.key = random_key(b);
    op.key.size = (uint8_t)random_below(b, 3);
    memset(op.key.bytes + op.key.size, 0, sizeof(op.key.bytes) - op.key.size);
    op.after.group = op.key.group;
    if (random_below(b, 2) == 0) {
        op.after = random_key(b);
        op.after.group = op.key.group;
    }
    struct snic_kvop model = op;
    op.out = b->bytes[0];
    model.out = b->bytes[1];
    snic_kvmem_apply(b->model, &model);
    (void)kvl_run(&b->k, &op);
    KVL_EQUAL(op.result, model.result);
    KVL_EQUAL(op.out_count, model.out_count);
    KVL_EQUAL(op.end, model.end);
    KVL_EQUAL(op.out_size, model.out_size);
    KVL_CHECK(memcmp(b->bytes[0], b->bytes[1], op.out_size) == 0);
}

static void random_gets(struct both *b)
{
    struct snic_kvop_get g[2][4];
    memset(g, 0, sizeof(g));
    for (int i = 0; i < 4; i++) {
        g[0][i].key = random_key(b);
        g[0][i].room = 1 << 14;
        g[1][i] = g[0][i];
        g[0][i].value = b->bytes[0] + ((size_t)i << 14);
        g[1][i].value = b->bytes[1] + ((size_t)i << 14);
    }
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = g[0], .get_count = 4};
    struct snic_kvop model = {.kind = SNIC_KVOP_GET, .gets = g[1], .get_count = 4};
    snic_kvmem_apply(b->model, &model);
    KVL_EQUAL(kvl_run(&b->k, &op), model.result);
    for (int i = 0; i < 4; i++) {
        KVL_EQUAL(g[0][i].result, g[1][i].result);
        KVL_EQUAL(g[0][i].size, g[1][i].size);
        if (g[0][i].result == 0)
            KVL_CHECK(memcmp(g[0][i].value, g[1][i].value, g[0][i].size) == 0);
    }
}

/** Pieces of any size and alignment. */
static uint32_t random_pieces(struct both *b, struct snic_iov *iov, unsigned char *bytes,
                              uint64_t length, uint64_t seed)
{
    struct snic_rng rng;
    uint32_t n = 0;
    (void)b;
    snic_rng_init(&rng, seed);
    uint64_t most = 1 + snic_rng_below(&rng, length);
    while (length > 0) {
        uint64_t size = n == 200 ? length : 1 + snic_rng_below(&rng, most);
        size = snic_min_u64(size, length);
        iov[n].base = bytes;
        iov[n++].size = size;
        bytes += size;
        length -= size;
    }
    return n;
}

static void random_object(struct both *b)
{
    static const uint32_t kinds[] = {
        SNIC_KVOP_OBJECT_WRITE, SNIC_KVOP_OBJECT_WRITE,    SNIC_KVOP_OBJECT_WRITE,
        SNIC_KVOP_OBJECT_READ,  SNIC_KVOP_OBJECT_READ,     SNIC_KVOP_OBJECT_ZERO,
        SNIC_KVOP_OBJECT_PUNCH, SNIC_KVOP_OBJECT_TRUNCATE, SNIC_KVOP_OBJECT_ALLOC,
        SNIC_KVOP_OBJECT_STAT,  SNIC_KVOP_OBJECT_SEEK};
    struct snic_iov iov[2][256];
    struct snic_kvop op = {.kind = kinds[random_below(b, SNIC_COUNTOF(kinds))]};
    op.object = 1 + random_below(b, RANDOM_OBJECTS);
    op.offset = random_below(b, RANDOM_SPAN);
    op.length = 1 + random_below(b, random_below(b, 4) == 0 ? 300000 : 20000);
    if (random_below(b, 2) == 0) {
        op.offset = snic_align_down(op.offset, KVL_BLOCK);
        op.length = snic_align_up(op.length, KVL_BLOCK);
    }
    struct snic_kvop model = op;
    uint64_t seed = snic_rng_next(&b->rng);
    int moves = op.kind == SNIC_KVOP_OBJECT_WRITE || op.kind == SNIC_KVOP_OBJECT_READ;
    if (moves) {
        op.flags = random_below(b, 2) == 0 ? SNIC_KVOP_DIRECT : 0;
        snic_rng_fill(&b->rng, b->bytes[0], snic_min_u64(op.length, 4096));
        memcpy(b->bytes[1], b->bytes[0], op.length);
        op.iov = iov[0];
        model.iov = iov[1];
        op.iov_count = random_pieces(b, iov[0], b->bytes[0], op.length, seed);
        model.iov_count = random_pieces(b, iov[1], b->bytes[1], op.length, seed);
    } else if (op.kind == SNIC_KVOP_OBJECT_SEEK) {
        op.flags = random_below(b, 2) == 0 ? SNIC_KVOP_SEEK_HOLE : 0;
        model.flags = op.flags;
    }
    if (op.kind == SNIC_KVOP_OBJECT_WRITE && random_below(b, 40) == 0)
        op.flags |= SNIC_KVOP_DURABLE;
    snic_kvmem_apply(b->model, &model);
    (void)kvl_run(&b->k, &op);
    KVL_EQUAL(op.result, model.result);
    KVL_EQUAL(op.allocated, model.allocated);
    if (moves)
        KVL_CHECK(memcmp(b->bytes[0], b->bytes[1], op.length) == 0);
}

static void random_groups(struct both *b)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_GROUPS, .out = b->bytes[0], .out_room = 4096};
    struct snic_kvop model = op;
    model.out = b->bytes[1];
    snic_kvmem_apply(b->model, &model);
    KVL_EQUAL(kvl_run(&b->k, &op), model.result);
    KVL_EQUAL(op.out_count, model.out_count);
    KVL_CHECK(memcmp(b->bytes[0], b->bytes[1], op.out_size) == 0);
}

static void random_step(struct both *b)
{
    uint64_t dice = random_below(b, 1000);
    if (dice < 400) {
        random_commit(b);
    } else if (dice < 450) {
        random_scan(b);
    } else if (dice < 600) {
        random_gets(b);
    } else if (dice < 980) {
        random_object(b);
    } else if (dice < 985) {
        random_groups(b);
    } else if (dice < 995) {
        KVL_EQUAL(kvl_sync(&b->k), 0);
    } else if (dice < 996) {
        kvl_close(&b->k);
        KVL_EQUAL(kvl_try(&b->k, &b->opts, NULL), 0);
    } else {
        kvl_turn(&b->k, 2000000);
    }
}

static void test_kv_lmdb_random_is_as_in_memory(void **state)
{
    struct both b;
    struct snic_kvmem_opts m = {.opts_size = sizeof(m)};
    (void)state;
    memset(&b, 0, sizeof(b));
    snic_rng_init(&b.rng, support_seed());
    kvl_path(b.path, sizeof(b.path));
    b.opts = (struct snic_kv_lmdb_opts){.opts_size = sizeof(b.opts),
                                        .path = b.path,
                                        .flags = SNIC_KV_OPEN_CREATE,
                                        .batch_bytes = 200000};
    b.bytes[0] = malloc(1 << 19);
    b.bytes[1] = malloc(1 << 19);
    b.values = calloc(1, 1 << 19);
    KVL_CHECK(b.bytes[0] != NULL && b.bytes[1] != NULL && b.values != NULL);
    memset(b.bytes[0], 0, 1 << 19);
    assert_int_equal(snic_kvmem_open(&b.model, &m), 0);
    KVL_EQUAL(kvl_try(&b.k, &b.opts, NULL), 0);
    uint64_t steps = support_scale(12000, 400000);
    for (uint64_t i = 0; i < steps; i++)
        random_step(&b);
    kvl_close(&b.k);
    kvl_audit(b.path);
    snic_kvmem_close(b.model);
    free(b.bytes[0]);
    free(b.bytes[1]);
    free(b.values);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_random_is_as_in_memory),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
