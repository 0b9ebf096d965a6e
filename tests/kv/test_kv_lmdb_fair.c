/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on LMDB: what large transfers of some objects cost those of others, counted. */
#include "kv_lmdb_util.h"

enum { MIB = 1 << 20, LARGE = 24, FEW = 2, SMALL = KVL_BLOCK, ONE = 1, OTHER = 2, FIRST = 3 };

struct fair {
    struct kvl k;
    unsigned char *bytes; /* LARGE + 1 MiB */
    struct kvl_call large[LARGE];
    struct snic_iov large_piece[LARGE];
    struct kvl_call few[FEW];
    struct snic_iov few_piece[FEW];
};

static void fair_open(struct fair *f)
{
    char path[4096];

    kvl_path(path, sizeof(path));
    kvl_open(&f->k, path, SNIC_KV_OPEN_CREATE);
    f->bytes = aligned_alloc(4096, (size_t)(LARGE + 1) * MIB);
    assert_non_null(f->bytes);
    memset(f->bytes, 'x', (size_t)(LARGE + 1) * MIB);
    /* All have bytes, so that both reads and writes go to the disk. */
    for (uint64_t o = ONE; o < FIRST + LARGE; o++)
        for (uint64_t at = 0; at < (o == ONE ? LARGE : FEW); at++)
            assert_int_equal(
                kvl_object(&f->k, SNIC_KVOP_OBJECT_WRITE, 0, o, at * MIB, MIB, f->bytes), MIB);
    assert_int_equal(kvl_sync(&f->k), 0);
}

static void fair_close(struct fair *f)
{
    kvl_close(&f->k);
    free(f->bytes);
}

static void fair_begin(struct fair *f, struct kvl_call *c, struct snic_iov *piece, uint32_t kind,
                       uint64_t object, uint64_t at, uint64_t length, unsigned char *memory)
{
    *piece = (struct snic_iov){memory, length};
    memset(c, 0, sizeof(*c));
    c->op = (struct snic_kvop){.kind = kind,
                               .flags = SNIC_KVOP_DIRECT,
                               .object = object,
                               .offset = at,
                               .length = length,
                               .iov = piece,
                               .iov_count = 1};
    kvl_begin(&f->k, c);
    assert_true(!c->done || c->op.result == (int64_t)length);
}

static uint32_t fair_large_done(const struct fair *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < LARGE; i++)
        n += f->large[i].done != 0;
    return n;
}

/* @p count transfers of @p length of object OTHER behind LARGE ones of @p of objects, or of ONE.
 * @return how many of the large ones were over when they were */
static uint32_t fair_behind(struct fair *f, uint32_t kind, int one, uint32_t count, uint64_t length)
{
    uint32_t before;

    for (uint32_t i = 0; i < LARGE; i++)
        fair_begin(f, &f->large[i], &f->large_piece[i], kind, one ? ONE : FIRST + i,
                   one ? (uint64_t)i * MIB : 0, MIB, f->bytes + (size_t)i * MIB);
    for (uint32_t i = 0; i < count; i++)
        fair_begin(f, &f->few[i], &f->few_piece[i], kind, OTHER, i * length, length,
                   f->bytes + (size_t)LARGE * MIB);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(kvl_end(&f->k, &f->few[i]), length);
    before = fair_large_done(f);
    for (uint32_t i = 0; i < LARGE; i++)
        assert_int_equal(kvl_end(&f->k, &f->large[i]), MIB);
    return before;
}

/* A small transfer behind 24 MiB of others' waits for two or three of them, not for all. */
static void test_kv_lmdb_fair_small_behind_large(void **state)
{
    static struct fair f;
    (void)state;
    fair_open(&f);
    for (uint32_t kind = SNIC_KVOP_OBJECT_READ; kind <= SNIC_KVOP_OBJECT_WRITE; kind++)
        for (int one = 0; one < 2; one++)
            assert_in_range(fair_behind(&f, kind, one, 1, SMALL), 0, LARGE / 4);
    fair_close(&f);
}

/* So does a large one behind those of one object: objects take turns. */
static void test_kv_lmdb_fair_objects_take_turns(void **state)
{
    static struct fair f;
    (void)state;
    fair_open(&f);
    for (uint32_t kind = SNIC_KVOP_OBJECT_READ; kind <= SNIC_KVOP_OBJECT_WRITE; kind++)
        assert_in_range(fair_behind(&f, kind, 1, FEW, MIB), 0, LARGE / 3);
    fair_close(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_fair_small_behind_large),
        cmocka_unit_test(test_kv_lmdb_fair_objects_take_turns),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
