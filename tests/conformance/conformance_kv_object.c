/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects: bytes that come back, space that is counted block by block, holes.
 */
#include "conformance_kv_util.h"

/* Offsets that matter: the beginning, across the first stripe's end, the last bytes there are. */
static uint64_t place(const struct conformance_kv *c, uint32_t n)
{
    switch (n) {
    case 0:
        return 0;
    case 1:
        return c->kv->stripe_bytes - 4 * BLOCK;
    case 2:
        return 1000ULL * c->kv->stripe_bytes + 5 * BLOCK;
    default:
        return SNIC_KVOP_OBJECT_MAX - 16 * BLOCK;
    }
}
enum { PLACES = 4 };

/* An object exists without being made. */
static void kv_object_unwritten_is_a_hole(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t at = place(&c, i);
        kv_check_range(c.kv, 5, at + 1, 3 * BLOCK, 0, 1);
        assert_int_equal(kv_seek(c.kv, 5, at, 0), SNIC_ENOENT);
        assert_int_equal(kv_seek(c.kv, 5, at + 3, 1), (int64_t)at + 3);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_PUNCH, 5, at, 5 * BLOCK), 0);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 5, at, 0), 0);
    }
    assert_int_equal(kv_seek(c.kv, 5, SNIC_KVOP_OBJECT_MAX, 1), SNIC_ENOENT);
    assert_int_equal(kv_stat(c.kv, 5), 0);
    kv_close(&c, b);
}

static void kv_object_aligned_blocks_come_back(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t at = place(&c, i);
        assert_int_equal(kv_write(c.kv, i, at, 8 * BLOCK, 1), 8 * BLOCK);
        assert_int_equal(kv_write(c.kv, i, at + BLOCK, BLOCK, 2), 0); /* in place */
        assert_int_equal(kv_write(c.kv, i, at + 7 * BLOCK, 2 * BLOCK, 3), BLOCK);
        kv_check_range(c.kv, i, at, BLOCK, 1, 0);
        kv_check_range(c.kv, i, at + BLOCK, BLOCK, 2, 0);
        kv_check_range(c.kv, i, at + 2 * BLOCK, 5 * BLOCK, 1, 0);
        kv_check_range(c.kv, i, at + 7 * BLOCK, 2 * BLOCK, 3, 0);
        kv_check_range(c.kv, i, at + 9 * BLOCK, 2 * BLOCK, 0, 1);
        assert_int_equal(kv_stat(c.kv, i), 9 * BLOCK);
        assert_int_equal(kv_seek(c.kv, i, at + 5, 0), (int64_t)at + 5);
        assert_int_equal(kv_seek(c.kv, i, at, 1), (int64_t)(at + 9 * BLOCK));
    }
    kv_close(&c, b);
}

static void kv_object_unaligned_writes_keep_neighbours(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t at = place(&c, i);
        assert_int_equal(kv_write(c.kv, 9, at + 100, 50, 1), BLOCK);
        kv_check_range(c.kv, 9, at, 100, 0, 1);
        kv_check_range(c.kv, 9, at + 100, 50, 1, 0);
        kv_check_range(c.kv, 9, at + 150, BLOCK - 150, 0, 1);
        assert_int_equal(kv_write(c.kv, 9, at + 120, 3 * BLOCK, 7), 3 * BLOCK);
        kv_check_range(c.kv, 9, at + 100, 20, 1, 0);
        kv_check_range(c.kv, 9, at + 120, 3 * BLOCK, 7, 0);
        kv_check_range(c.kv, 9, at + 120 + 3 * BLOCK, BLOCK, 0, 1);
        assert_int_equal(kv_write(c.kv, 9, at + 2 * BLOCK - 1, 2, 8), 0);
        kv_check_range(c.kv, 9, at + 2 * BLOCK - 2, 1, 7, 0);
        kv_check_range(c.kv, 9, at + 2 * BLOCK - 1, 2, 8, 0);
        kv_check_range(c.kv, 9, at + 2 * BLOCK + 1, 100, 7, 0);
    }
    assert_int_equal(kv_stat(c.kv, 9), PLACES * 4 * (int64_t)BLOCK);
    kv_close(&c, b);
}

/* As many pieces as there may be, odd ones, over a stripe's end; and one more of everything. */
static void kv_object_pieces_and_limits(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct snic_iov iov[SNIC_KVOP_IOV_MAX + 1];
    uint64_t size = SNIC_KVOP_TRANSFER_MAX;
    unsigned char *p = malloc(size + 1);
    unsigned char *q = malloc(size);
    struct snic_rng rng;
    snic_rng_init(&rng, 11);
    snic_rng_fill(&rng, p, size);
    uint64_t left = size;
    for (uint32_t i = 0; i < SNIC_KVOP_IOV_MAX; i++) {
        uint64_t n = i + 1 == SNIC_KVOP_IOV_MAX ? left : 1 + snic_rng_below(&rng, 30000) % left;
        n = snic_min_u64(n, left - (SNIC_KVOP_IOV_MAX - 1 - i));
        iov[i] = (struct snic_iov){p + (size - left), (size_t)n};
        left -= n;
    }
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_WRITE,
                           .object = 3,
                           .offset = c.kv->stripe_bytes - 1000001,
                           .length = size,
                           .iov = iov,
                           .iov_count = SNIC_KVOP_IOV_MAX,
                           .flags = SNIC_KVOP_DIRECT | SNIC_KVOP_DURABLE};
    assert_int_equal(kv_run(c.kv, &op), size);
    uint64_t first = op.offset / BLOCK;
    uint64_t end = (op.offset + size + BLOCK - 1) / BLOCK;
    assert_int_equal(op.allocated, (end - first) * BLOCK);
    assert_int_equal(kv_object(c.kv, SNIC_KVOP_OBJECT_READ, 3, op.offset, size, q, NULL), size);
    assert_memory_equal(p, q, size);
    memset(p, 0, size);
    op.kind = SNIC_KVOP_OBJECT_READ;
    op.flags = SNIC_KVOP_DIRECT;
    assert_int_equal(kv_run(c.kv, &op), size);
    assert_memory_equal(p, q, size);
    op.iov_count = SNIC_KVOP_IOV_MAX + 1;
    assert_int_equal(kv_run(c.kv, &op), SNIC_EMSGSIZE);
    assert_int_equal(kv_object(c.kv, SNIC_KVOP_OBJECT_WRITE, 3, 0, size + 1, p, NULL),
                     SNIC_EMSGSIZE);
    assert_int_equal(kv_stat(c.kv, 3), (end - first) * BLOCK);
    free(p);
    free(q);
    kv_close(&c, b);
}

static void kv_object_ends_at_its_limit(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    uint64_t last = SNIC_KVOP_OBJECT_MAX - BLOCK;
    char byte = 1;
    assert_int_equal(kv_write(c.kv, 1, last, BLOCK, 5), BLOCK);
    kv_check_range(c.kv, 1, last, BLOCK, 5, 0);
    assert_int_equal(
        kv_object(c.kv, SNIC_KVOP_OBJECT_WRITE, 1, SNIC_KVOP_OBJECT_MAX, 1, &byte, NULL),
        SNIC_ERANGE);
    assert_int_equal(kv_object(c.kv, SNIC_KVOP_OBJECT_READ, 1, UINT64_MAX - 5, 1, &byte, NULL),
                     SNIC_ERANGE);
    assert_int_equal(kv_seek(c.kv, 1, 0, 0), (int64_t)last);
    assert_int_equal(kv_seek(c.kv, 1, last + 3, 1), SNIC_ENOENT);
    assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 1, last + 1, 0), 0);
    kv_check_range(c.kv, 1, last, 1, 5, 0);
    kv_check_range(c.kv, 1, last + 1, BLOCK - 1, 5, 1);
    assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 1, last, 0), -(int64_t)BLOCK);
    kv_close(&c, b);
}

/* ---- Zero, punch, alloc, truncate ---- */

static void kv_object_zero_keeps_and_takes_space(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t at = place(&c, i);
        assert_int_equal(kv_write(c.kv, 2, at, 6 * BLOCK, 1), 6 * BLOCK);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_ZERO, 2, at + 10, 3 * BLOCK), 0);
        kv_check_range(c.kv, 2, at, 10, 1, 0);
        kv_check_range(c.kv, 2, at + 10, 3 * BLOCK, 1, 1);
        kv_check_range(c.kv, 2, at + 10 + 3 * BLOCK, 2 * BLOCK, 1, 0);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_ZERO, 2, at + 5 * BLOCK + 1, 2 * BLOCK),
                         2 * BLOCK);
        kv_check_range(c.kv, 2, at + 5 * BLOCK, 1, 1, 0);
        kv_check_range(c.kv, 2, at + 5 * BLOCK + 1, 4 * BLOCK, 1, 1);
        assert_int_equal(kv_seek(c.kv, 2, at, 1), (int64_t)(at + 8 * BLOCK));
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_ZERO, 2, at + 9 * BLOCK, 1), BLOCK);
        assert_int_equal(kv_seek(c.kv, 2, at + 8 * BLOCK, 0), (int64_t)(at + 9 * BLOCK));
    }
    assert_int_equal(kv_stat(c.kv, 2), PLACES * 9 * (int64_t)BLOCK);
    kv_close(&c, b);
}

static void kv_object_punch_gives_whole_blocks_back(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t at = place(&c, i);
        assert_int_equal(kv_write(c.kv, i, at, 8 * BLOCK, 1), 8 * BLOCK);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_PUNCH, i, at + 10, 100), 0);
        kv_check_range(c.kv, i, at, 10, 1, 0);
        kv_check_range(c.kv, i, at + 10, 100, 1, 1);
        kv_check_range(c.kv, i, at + 110, BLOCK, 1, 0);
        assert_int_equal(
            kv_change(c.kv, SNIC_KVOP_OBJECT_PUNCH, i, at + 2 * BLOCK - 1, 3 * BLOCK + 2),
            -3 * (int64_t)BLOCK);
        kv_check_range(c.kv, i, at + 2 * BLOCK - 2, 1, 1, 0);
        kv_check_range(c.kv, i, at + 2 * BLOCK - 1, 3 * BLOCK + 2, 1, 1);
        kv_check_range(c.kv, i, at + 5 * BLOCK + 1, 3 * BLOCK - 1, 1, 0);
        assert_int_equal(kv_seek(c.kv, i, at + 2 * BLOCK + 5, 0), (int64_t)(at + 5 * BLOCK));
        assert_int_equal(kv_seek(c.kv, i, at + 1, 1), (int64_t)(at + 2 * BLOCK));
        /* what was freed reads as zeros where it is written again in part */
        assert_int_equal(kv_write(c.kv, i, at + 3 * BLOCK + 5, 5, 9), BLOCK);
        kv_check_range(c.kv, i, at + 3 * BLOCK, 5, 0, 1);
        kv_check_range(c.kv, i, at + 3 * BLOCK + 5, 5, 9, 0);
        kv_check_range(c.kv, i, at + 3 * BLOCK + 10, BLOCK - 10, 0, 1);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_PUNCH, i, 0, SNIC_KVOP_OBJECT_MAX),
                         -6 * (int64_t)BLOCK);
        assert_int_equal(kv_stat(c.kv, i), 0);
        kv_check_range(c.kv, i, at, 8 * BLOCK, 0, 1);
    }
    kv_close(&c, b);
}

static void kv_object_alloc_takes_space_only(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    if (!kv_has(&c, SNIC_KV_CAP_ALLOC)) {
        assert_int_equal(kv_object(c.kv, SNIC_KVOP_OBJECT_ALLOC, 1, 0, BLOCK, NULL, NULL),
                         SNIC_ENOTSUP);
        assert_int_equal(kv_stat(c.kv, 1), 0);
        kv_close(&c, b);
        return;
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t at = place(&c, i);
        assert_int_equal(kv_write(c.kv, i, at + BLOCK, BLOCK, 1), BLOCK);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_ALLOC, i, at + 5, 4 * BLOCK), 4 * BLOCK);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_ALLOC, i, at, 5 * BLOCK), 0);
        kv_check_range(c.kv, i, at, BLOCK, 0, 1);
        kv_check_range(c.kv, i, at + BLOCK, BLOCK, 1, 0);
        kv_check_range(c.kv, i, at + 2 * BLOCK, 4 * BLOCK, 0, 1);
        assert_int_equal(kv_write(c.kv, i, at + 2 * BLOCK + 5, 10, 2), 0);
        kv_check_range(c.kv, i, at + 2 * BLOCK, 5, 0, 1);
        kv_check_range(c.kv, i, at + 2 * BLOCK + 5, 10, 2, 0);
        assert_int_equal(kv_stat(c.kv, i), 5 * BLOCK);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, i, 0, 0), -5 * (int64_t)BLOCK);
    }
    kv_close(&c, b);
}

static void kv_object_truncate_removes_the_rest(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    int64_t blocks = 0;
    for (uint32_t i = 0; i < PLACES; i++)
        blocks += kv_write(c.kv, 6, place(&c, i), 8 * BLOCK, 1) / (int64_t)BLOCK;
    assert_int_equal(blocks, 8 * PLACES);
    for (uint32_t i = PLACES; i-- > 0;) {
        uint64_t at = place(&c, i);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 6, at + 7 * BLOCK, 0),
                         -(int64_t)BLOCK);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 6, at + 4 * BLOCK + 100, 0),
                         -2 * (int64_t)BLOCK);
        kv_check_range(c.kv, 6, at, 4 * BLOCK + 100, 1, 0);
        kv_check_range(c.kv, 6, at + 4 * BLOCK + 100, 4 * BLOCK, 1, 1);
        assert_int_equal(kv_seek(c.kv, 6, at, 1), (int64_t)(at + 5 * BLOCK));
        assert_int_equal(kv_write(c.kv, 6, at + 6 * BLOCK + 7, 3, 4), BLOCK);
        kv_check_range(c.kv, 6, at + 4 * BLOCK + 100, 2 * BLOCK - 100, 1, 1);
        assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 6, at, 0), -6 * (int64_t)BLOCK);
        assert_int_equal(kv_stat(c.kv, 6), (int64_t)i * 8 * (int64_t)BLOCK);
    }
    /* all at once, over many stripes */
    for (uint32_t i = 0; i < 20; i++)
        (void)kv_write(c.kv, 6, i * (uint64_t)c.kv->stripe_bytes + i * BLOCK, 100, 1);
    assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 6, 10ULL * c.kv->stripe_bytes, 0),
                     -10 * (int64_t)BLOCK);
    assert_int_equal(kv_seek(c.kv, 6, 9 * (uint64_t)c.kv->stripe_bytes + 10 * BLOCK, 0),
                     SNIC_ENOENT);
    assert_int_equal(kv_change(c.kv, SNIC_KVOP_OBJECT_TRUNCATE, 6, 0, 0), -10 * (int64_t)BLOCK);
    kv_check_range(c.kv, 6, 0, BLOCK, 1, 1);
    kv_close(&c, b);
}

static void kv_object_seek_finds_data_and_holes(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    uint64_t stripe = c.kv->stripe_bytes;
    const uint64_t data[] = {3 * BLOCK, stripe - BLOCK, stripe, 7 * stripe + BLOCK,
                             SNIC_KVOP_OBJECT_MAX / 2};
    for (size_t i = 0; i < SNIC_COUNTOF(data); i++)
        (void)kv_write(c.kv, 8, data[i] + 5, 1, 1);
    uint64_t from = 0;
    for (size_t i = 0; i < SNIC_COUNTOF(data); i++) {
        assert_int_equal(kv_seek(c.kv, 8, from, 0), (int64_t)data[i]);
        uint64_t hole = data[i] + BLOCK == stripe ? data[i] + 2 * BLOCK : data[i] + BLOCK;
        assert_int_equal(kv_seek(c.kv, 8, data[i] + 1, 1), (int64_t)hole);
        assert_int_equal(kv_seek(c.kv, 8, data[i] + 9, 0), (int64_t)data[i] + 9);
        from = data[i] + BLOCK;
    }
    assert_int_equal(kv_seek(c.kv, 8, from, 0), SNIC_ENOENT);
    kv_close(&c, b);
}

/* ---- Objects and records in one commit ---- */

static int64_t commit_bytes(struct conformance_kv *c, uint64_t group, uint64_t object,
                            uint64_t offset, uint32_t size, const char *guard_value,
                            int64_t *allocated)
{
    unsigned char *p = malloc(size);
    for (uint32_t i = 0; i < size; i++)
        p[i] = (unsigned char)(3 + (offset + i) % 251);
    struct snic_kvop_guard g = {.key = kv_key(group, "state"),
                                .value = guard_value,
                                .size = guard_value == NULL ? 0 : (uint32_t)strlen(guard_value)};
    struct snic_kvop_change ch[2] = {
        {.key = kv_key(group, "state"), .kind = SNIC_KVOP_PUT, .value = "written", .size = 7},
        {.kind = SNIC_KVOP_CHANGE_WRITE,
         .object = object,
         .offset = offset,
         .value = p,
         .size = size}};
    struct snic_kvop op = {
        .kind = SNIC_KVOP_COMMIT, .guards = &g, .guard_count = 1, .changes = ch, .change_count = 2};
    int64_t r = kv_run(c->kv, &op);
    *allocated = op.allocated;
    free(p);
    return r;
}

static void kv_commit_carries_object_bytes(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    uint32_t size = SNIC_KVOP_VALUE_MAX - 100;
    int64_t blocks = ((int64_t)size + 200 + (int64_t)BLOCK - 1) / (int64_t)BLOCK;
    int64_t allocated;
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t at = place(&c, i) + 200;
        for (uint64_t object = 10; object < 12; object++) { /* of the group's number, and not */
            kv_delete(c.kv, 10, "state");
            assert_int_equal(commit_bytes(&c, 10, object, at, size, NULL, &allocated), 0);
            assert_int_equal(allocated, blocks * (int64_t)BLOCK);
            kv_check_range(c.kv, object, at, size, 3, 0);
            kv_check_range(c.kv, object, at - 200, 200, 3, 1);
            kv_expect(c.kv, 10, "state", "written");
            assert_int_equal(commit_bytes(&c, 10, object, at, size, "written", &allocated), 0);
            assert_int_equal(allocated, 0);
        }
    }
    /* within one step a failed guard leaves the bytes as they were */
    assert_int_equal(kv_write(c.kv, 10, 200, 1000, 50), 0);
    assert_int_equal(commit_bytes(&c, 10, 10, 200, 500, "other", &allocated), SNIC_ECANCELED);
    kv_check_range(c.kv, 10, 200, 1000, 50, 0);
    kv_close(&c, b);
}

static void kv_commit_truncates_objects(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    (void)kv_write(c.kv, 20, 0, 4 * BLOCK, 1);
    (void)kv_write(c.kv, 21, place(&c, 1), 8 * BLOCK, 1);
    struct snic_kvop_guard g = {.key = kv_key(20, "state"), .value = "no", .size = 2};
    struct snic_kvop_change ch[3] = {
        {.key = kv_key(20, "state"), .kind = SNIC_KVOP_PUT, .value = "cut", .size = 3},
        {.kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = 20, .offset = BLOCK + 5},
        {.kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = 21}};
    assert_int_equal(kv_commit(c.kv, &g, 1, ch, 3), SNIC_ECANCELED);
    kv_check_range(c.kv, 20, 0, 4 * BLOCK, 1, 0);
    kv_check_range(c.kv, 21, place(&c, 1), 8 * BLOCK, 1, 0);
    struct snic_kvop op = {
        .kind = SNIC_KVOP_COMMIT, .changes = ch, .change_count = 3, .flags = SNIC_KVOP_DURABLE};
    assert_int_equal(kv_run(c.kv, &op), 0);
    assert_int_equal(op.allocated, -10 * (int64_t)BLOCK);
    kv_check_range(c.kv, 20, 0, BLOCK + 5, 1, 0);
    kv_check_range(c.kv, 20, BLOCK + 5, 4 * BLOCK, 1, 1);
    assert_int_equal(kv_stat(c.kv, 20), 2 * BLOCK);
    assert_int_equal(kv_stat(c.kv, 21), 0);
    kv_expect(c.kv, 20, "state", "cut");
    kv_close(&c, b);
}

const struct conformance_kv_check conformance_kv_objects[] = {
    {"object_unwritten_is_a_hole", kv_object_unwritten_is_a_hole},
    {"object_aligned_blocks_come_back", kv_object_aligned_blocks_come_back},
    {"object_unaligned_writes_keep_neighbours", kv_object_unaligned_writes_keep_neighbours},
    {"object_pieces_and_limits", kv_object_pieces_and_limits},
    {"object_ends_at_its_limit", kv_object_ends_at_its_limit},
    {"object_zero_keeps_and_takes_space", kv_object_zero_keeps_and_takes_space},
    {"object_punch_gives_whole_blocks_back", kv_object_punch_gives_whole_blocks_back},
    {"object_alloc_takes_space_only", kv_object_alloc_takes_space_only},
    {"object_truncate_removes_the_rest", kv_object_truncate_removes_the_rest},
    {"object_seek_finds_data_and_holes", kv_object_seek_finds_data_and_holes},
    {"commit_carries_object_bytes", kv_commit_carries_object_bytes},
    {"commit_truncates_objects", kv_commit_truncates_objects},
};
const size_t conformance_kv_objects_count = SNIC_COUNTOF(conformance_kv_objects);
