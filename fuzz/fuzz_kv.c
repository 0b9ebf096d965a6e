/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store in memory driven by a string of operations, twelve bytes each, well-formed and not:
 * an operation that is refused or only reads leaves the contents unchanged, records match a model,
 * the structure holds after each step, and a crash that keeps everything, like a copy, changes
 * nothing. Another crash goes back to where some change ended.
 */
#include <stdlib.h>
#include <string.h>

#include "snicstore/kv.h"

#define GROUPS 3
#define KEYS 6
#define ROOM 40000

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct model {
    uint32_t sizes[GROUPS][KEYS]; /* 0: none */
    uint8_t fill[GROUPS][KEYS];
};

static unsigned char bytes[ROOM];
static uint64_t out[512];

static struct snic_kvop_key key(uint32_t group, uint32_t n)
{
    struct snic_kvop_key k;
    unsigned char text[3] = {'k', (unsigned char)(n % 2), (unsigned char)n};
    snic_kvop_key_set(&k, group, text, 1 + n % 3);
    if (n % 3 == 0)
        k.bytes[0] = (unsigned char)n;
    return k;
}

/** Offsets near the beginning, a stripe's end, and far away. */
static uint64_t offset_of(const uint8_t *b)
{
    static const uint64_t base[4] = {0, 4 * SNIC_KVOP_BLOCK - 3000, 1ULL << 40,
                                     SNIC_KVOP_OBJECT_MAX - 3 * SNIC_KVOP_BLOCK};
    return base[b[0] % 4] + (uint64_t)b[1] * 151;
}

static void check_records(struct snic_kvmem *m, const struct model *model)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        for (uint32_t n = 0; n < KEYS; n++) {
            struct snic_kvop_get get = {.key = key(g, n), .value = bytes, .room = ROOM};
            struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
            snic_kvmem_apply(m, &op);
            REQUIRE(op.result == (model->sizes[g][n] == 0 ? SNIC_ENOENT : 0));
            REQUIRE(get.size == model->sizes[g][n]);
            for (uint32_t i = 0; i < get.size; i++)
                REQUIRE(bytes[i] == model->fill[g][n]);
        }
    }
}

static int is_change(uint32_t kind)
{
    return kind == SNIC_KVOP_COMMIT || kind == SNIC_KVOP_OBJECT_WRITE ||
           (kind >= SNIC_KVOP_OBJECT_ZERO && kind <= SNIC_KVOP_OBJECT_TRUNCATE);
}

/** Two records, perhaps guarded, perhaps with bytes or a truncation. */
static void commit(struct snic_kvmem *m, struct model *model, const uint8_t *b)
{
    uint32_t g = b[1] % GROUPS, other = b[2] % 4 == 0 ? b[2] / 4 % GROUPS : g;
    uint32_t n = b[3] % KEYS, n2 = b[4] % KEYS;
    struct snic_kvop_guard guard = {.key = key(g, n), .value = bytes, .size = model->sizes[g][n]};
    struct snic_kvop_change c[3] = {
        {.key = key(g, n), .kind = SNIC_KVOP_PUT, .value = bytes, .size = 1 + b[5] * 9U},
        {.key = key(other, n2), .kind = SNIC_KVOP_DELETE},
        {.kind = b[6] % 2 == 0 ? SNIC_KVOP_CHANGE_WRITE : SNIC_KVOP_CHANGE_TRUNCATE,
         .object = b[7] % 3,
         .offset = offset_of(b + 8),
         .value = bytes,
         .size = 1 + b[10] * 90U}};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT,
                           .flags = b[11] % 8 == 0 ? SNIC_KVOP_DURABLE : 0,
                           .guards = &guard,
                           .guard_count = b[6] / 2 % 2u,
                           .changes = c,
                           .change_count = b[6] / 4 % 4u};
    int wrong = b[6] >= 128; /* the guard does not hold */
    memset(bytes, model->fill[g][n], sizeof(bytes));
    if (wrong)
        guard.size = guard.size % 300 + 1;
    if (guard.size == 0)
        guard.value = NULL;
    unsigned char *value = malloc(c[0].size);
    REQUIRE(value != NULL);
    memset(value, b[11], c[0].size);
    c[0].value = value;
    snic_kvmem_apply(m, &op);
    if (op.result == 0) {
        REQUIRE(op.guard_count == 0 || !wrong || guard.size == model->sizes[g][n]);
        if (op.change_count > 0) {
            model->sizes[g][n] = c[0].size;
            model->fill[g][n] = b[11];
        }
        if (op.change_count > 1)
            model->sizes[other][n2] = 0;
    }
    free(value);
}

/** Any operation, with fields as they come. */
static void any(struct snic_kvmem *m, const uint8_t *b, uint32_t caps)
{
    struct snic_iov iov[2] = {{bytes, b[6]}, {bytes + 500, b[7] * 70U}};
    struct snic_kvop op = {.kind = b[1] % 17u,
                           .flags = b[2] % 4 == 0 ? b[2] / 4u : 0,
                           .object = b[3] % 3,
                           .offset = offset_of(b + 4),
                           .length = b[6] + b[7] * 70U,
                           .iov = iov,
                           .iov_count = 1 + (b[7] != 0),
                           .scan_max = b[8] % 8u,
                           .out = out,
                           .out_room = b[9] * 16U,
                           .cursor = b[10] % 4};
    if (b[8] % 2 == 0)
        op.length = b[8] * 100000ULL * (b[9] % 8);
    op.key = key(b[3] % GROUPS, b[10] % KEYS);
    op.key.size = (uint8_t)(b[11] % 3);
    memset(op.key.bytes + op.key.size, 0, sizeof(op.key.bytes) - op.key.size);
    if (b[11] / 4 % 2 == 0)
        op.after = key(b[3] % GROUPS, b[11] / 8);
    if (op.kind == SNIC_KVOP_COMMIT || op.kind == SNIC_KVOP_GET)
        return;
    uint64_t before = snic_kvmem_digest(m);
    int valid = snic_kvop_validate(&op, caps);
    snic_kvmem_apply(m, &op);
    REQUIRE(valid == 0 || op.result == valid);
    if (op.result < 0 || !is_change(op.kind))
        REQUIRE(snic_kvmem_digest(m) == before);
    if (op.kind == SNIC_KVOP_SCAN && op.result == 0) {
        uint32_t n = 0;
        for (const struct snic_kvop_record *r = snic_kvop_first(&op); r != NULL;
             r = snic_kvop_next(&op, r))
            n++;
        REQUIRE(n == op.out_count && n <= op.scan_max && op.out_size <= op.out_room);
    }
}

static void crash(struct snic_kvmem *m, uint64_t keep)
{
    uint64_t before = snic_kvmem_digest(m);
    uint64_t unsynced = snic_kvmem_unsynced(m);
    snic_kvmem_crash(m, keep);
    snic_kvmem_restart(m);
    if (keep >= unsynced)
        REQUIRE(snic_kvmem_digest(m) == before);
}

/** Take the store's contents as the model anew. */
static void learn(struct snic_kvmem *m, struct model *model)
{
    for (uint32_t i = 0; i < GROUPS * KEYS; i++) {
        struct snic_kvop_get get = {.key = key(i / KEYS, i % KEYS), .value = bytes, .room = ROOM};
        struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
        snic_kvmem_apply(m, &op);
        model->sizes[i / KEYS][i % KEYS] = op.result == 0 ? get.size : 0;
        model->fill[i / KEYS][i % KEYS] = bytes[0];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model model;
    struct snic_kvmem *m = NULL, *copy = NULL;
    struct snic_kvmem_opts o = {.opts_size = sizeof(o),
                                .track = 1,
                                .space = 100 * SNIC_KVOP_BLOCK,
                                .stripe_bytes = 4 * SNIC_KVOP_BLOCK};
    memset(&model, 0, sizeof(model));
    if (size % 12 == 1)
        o.caps = SNIC_KV_CAP_SHARED;
    REQUIRE(snic_kvmem_open(&m, &o) == 0);
    uint32_t caps = o.caps != 0 ? o.caps : SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ALLOC;
    for (; size >= 12; data += 12, size -= 12) {
        switch (data[0] % 8) {
        case 0:
            crash(m, data[1] % 2 == 0 ? UINT64_MAX : data[2]);
            learn(m, &model);
            break;
        case 1:
        case 2:
        case 3:
            commit(m, &model, data);
            break;
        default:
            any(m, data, caps);
            break;
        }
        REQUIRE(snic_kvmem_check(m) == 0);
        check_records(m, &model);
    }
    REQUIRE(snic_kvmem_clone(m, &copy) == 0);
    REQUIRE(snic_kvmem_digest(copy) == snic_kvmem_digest(m) && snic_kvmem_check(copy) == 0);
    snic_kvmem_close(copy);
    snic_kvmem_close(m);
    return 0;
}
