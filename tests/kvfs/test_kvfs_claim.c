/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Appends where a commit cannot have the bytes: they are claimed by the size, then written. */
#include "test_kvfs_many.h"

#include <string.h>

enum { CLAIM_START = 5 << 20, CLAIM_PART = 3000 };

static unsigned char claim_ones[CLAIM_PART], claim_twos[CLAIM_PART];

static int64_t claim_data(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                          uint64_t offset, void *bytes, uint64_t size, uint32_t flags)
{
    struct snic_fsop req;
    struct snic_iov iov = {.base = bytes, .size = (size_t)size};
    kvt_req(&y->t[i], &req, kind, ino, NULL);
    req.flags |= flags;
    req.offset = offset;
    req.length = size;
    req.iov = &iov;
    req.iov_count = 1;
    req.set_mask = kind == SNIC_FSOP_SETATTR ? SNIC_FSOP_SET_SIZE : 0;
    req.attr.size = size;
    return many_call(y, i, &req);
}

/* Session 0 begins to append ones to a file of CLAIM_START zeros; @p offset 0: to write there. */
static uint64_t claim_begin(struct many *y, struct snic_fsop *w, uint64_t offset)
{
    static struct snic_iov iov = {.base = claim_ones, .size = CLAIM_PART};
    memset(claim_ones, 1, CLAIM_PART);
    memset(claim_twos, 2, CLAIM_PART);
    many_open(y, 2, MANY_CAPS, support_seed());
    many_mount(y);
    uint64_t ino = many_file(y, 0, "f");
    assert_int_equal(claim_data(y, 0, SNIC_FSOP_SETATTR, ino, 0, NULL, CLAIM_START, 0), 0);
    kvt_req(&y->t[0], w, SNIC_FSOP_WRITE, ino, NULL);
    w->flags |= offset == 0 ? SNIC_FSOP_APPEND : 0;
    w->offset = offset;
    w->iov = &iov;
    w->iov_count = 1;
    many_start(y, 0, w);
    return ino;
}

/* The other session appends twos meanwhile. */
static void claim_other(struct many *y, uint64_t ino)
{
    assert_int_equal(
        claim_data(y, 1, SNIC_FSOP_WRITE, ino, 0, claim_twos, CLAIM_PART, SNIC_FSOP_APPEND),
        CLAIM_PART);
}

/* From CLAIM_START on there are so many bytes `first`, then so many twos. */
static void claim_check(struct many *y, uint64_t ino, int first)
{
    static unsigned char out[3 * CLAIM_PART];
    assert_int_equal(claim_data(y, 1, SNIC_FSOP_READ, ino, CLAIM_START, out, sizeof(out), 0),
                     2 * CLAIM_PART);
    for (uint32_t i = 0; i < 2 * CLAIM_PART; i++)
        assert_int_equal(out[i], i < CLAIM_PART ? first : 2);
}

/* Its bytes are on their way: the other's append has other ones, and these are zeros until then. */
static void test_kvfs_claim_append_beside_append(void **state)
{
    const uint64_t offsets[] = {0, CLAIM_START}; /* an append; a write at the end */
    static struct many y;
    struct snic_fsop w;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(offsets); i++) {
        uint64_t ino = claim_begin(&y, &w, offsets[i]);
        struct snic_kvfs_io *bytes = many_hold(&y, 0, SNIC_KVOP_OBJECT_WRITE, ino);
        assert_int_equal(bytes->op.offset, CLAIM_START);
        claim_other(&y, ino);
        claim_check(&y, ino, 0);
        many_give_back(&y, 0, bytes);
        many_finish(&y, 1);
        assert_int_equal(w.result, CLAIM_PART);
        claim_check(&y, ino, 1);
        many_close(&y);
    }
}

/* The other one was first: the claim's guard fails, and it claims what is behind. */
static void test_kvfs_claim_overtaken_claims_behind(void **state)
{
    static unsigned char out[2 * CLAIM_PART];
    static struct many y;
    struct snic_fsop w;
    (void)state;
    uint64_t ino = claim_begin(&y, &w, 0);
    struct snic_kvfs_io *claim = many_hold(&y, 0, SNIC_KVOP_COMMIT, ino);
    claim_other(&y, ino);
    many_give_back(&y, 0, claim);
    many_finish(&y, 1);
    assert_int_equal(w.result, CLAIM_PART);
    assert_int_equal(claim_data(&y, 1, SNIC_FSOP_READ, ino, CLAIM_START, out, sizeof(out), 0),
                     2 * CLAIM_PART);
    for (uint32_t i = 0; i < 2 * CLAIM_PART; i++)
        assert_int_equal(out[i], i < CLAIM_PART ? 2 : 1);
    many_close(&y);
}

/* The session dies, or the write fails, between the claim and the bytes: zeros stay. */
static void test_kvfs_claim_without_bytes_zeros_stay(void **state)
{
    static struct many y;
    struct snic_fsop w;
    (void)state;
    uint64_t ino = claim_begin(&y, &w, 0);
    struct snic_kvfs_io *bytes = many_hold(&y, 0, SNIC_KVOP_OBJECT_WRITE, ino);
    claim_other(&y, ino);
    bytes->op.result = SNIC_EIO;
    snic_kvfs_complete(y.t[0].k, bytes, y.now);
    many_finish(&y, 1);
    assert_int_equal(w.result, SNIC_EIO);
    claim_check(&y, ino, 0);
    many_close(&y);
}

/* Truncated between the claim and the bytes: as if the append had come first. */
static void test_kvfs_claim_truncated_is_not_written(void **state)
{
    const uint64_t sizes[] = {0, 100, CLAIM_START, CLAIM_START + 1000};
    static unsigned char out[2 * CLAIM_PART];
    static struct many y;
    struct snic_fsop w;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        int64_t left = sizes[i] > CLAIM_START ? (int64_t)(sizes[i] - CLAIM_START) : 0;
        uint64_t ino = claim_begin(&y, &w, 0);
        many_give_back(&y, 0, many_hold(&y, 0, SNIC_KVOP_COMMIT, ino));
        struct snic_kvfs_io *get = many_hold(&y, 0, SNIC_KVOP_GET, ino);
        assert_int_equal(claim_data(&y, 1, SNIC_FSOP_SETATTR, ino, 0, NULL, sizes[i], 0), 0);
        many_give_back(&y, 0, get);
        many_finish(&y, 1);
        assert_int_equal(w.result, CLAIM_PART);
        assert_int_equal(claim_data(&y, 1, SNIC_FSOP_READ, ino, CLAIM_START, out, sizeof(out), 0),
                         left);
        for (int64_t n = 0; n < left; n++)
            assert_int_equal(out[n], 1);
        many_close(&y);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_claim_append_beside_append),
        cmocka_unit_test(test_kvfs_claim_overtaken_claims_behind),
        cmocka_unit_test(test_kvfs_claim_without_bytes_zeros_stay),
        cmocka_unit_test(test_kvfs_claim_truncated_is_not_written),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
