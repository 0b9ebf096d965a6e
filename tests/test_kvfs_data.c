/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* READ and WRITE: all short sequences around the border of small and big, long random runs. */
#include "test_kvfs_bytes.h"

#include <stdlib.h>
#include <string.h>

/* ---- All sequences ---- */

enum { STEPS = 17 };

/* The n-th kind of step, in the engine and in the model; `tag` makes its bytes. */
static void step(struct kvt *t, struct kvb *f, unsigned kind, uint64_t tag)
{
    unsigned char bytes[9000];
    struct {
        uint64_t offset;
        uint64_t size;
        uint32_t flags;
    } write[] = {{0, 1, 0}, {8100, 200, 0}, {0, 8192, 0}, {8192, 10, 0}, {20000, 300, 0}},
      space[] = {{4000, 5000, SNIC_KVFS_FALLOC_PUNCH | SNIC_KVFS_FALLOC_KEEP_SIZE},
                 {8192, 16384, SNIC_KVFS_FALLOC_PUNCH | SNIC_KVFS_FALLOC_KEEP_SIZE},
                 {100, 16400, SNIC_KVFS_FALLOC_ZERO},
                 {8000, 12000, SNIC_KVFS_FALLOC_ZERO | SNIC_KVFS_FALLOC_KEEP_SIZE},
                 {0, 9000, 0},
                 {0, 30000, SNIC_KVFS_FALLOC_KEEP_SIZE}};
    static const uint64_t sizes[] = {0, 5, 8192, 8193, 30000};
    kvb_fill(bytes, sizeof(bytes), tag);
    if (kind < 5) {
        assert_int_equal(kvt_write(t, f->ino, write[kind].offset, bytes, write[kind].size),
                         write[kind].size);
        kvb_put(f, write[kind].offset, bytes, write[kind].size);
    } else if (kind < 10) {
        assert_int_equal(kvt_truncate(t, f->ino, sizes[kind - 5]), 0);
        kvb_cut(f, sizes[kind - 5]);
    } else if (kind < 16) {
        kind -= 10;
        assert_int_equal(kvb_fallocate(t, f->ino, space[kind].offset, space[kind].size,
                                       space[kind].flags),
                         0);
        if (kind < 4) {
            uint64_t size = f->size;
            kvb_zero(f, space[kind].offset, space[kind].size, kind != 2);
            assert_true(kind == 2 || f->size == size);
        } else if (kind == 4 && f->size < 9000) {
            f->size = 9000;
        }
    } else {
        assert_int_equal(kvb_append(t, f->ino, bytes, 5000), 5000);
        kvb_put(f, f->size, bytes, 5000);
    }
}

static void sequence(struct kvt *t, struct kvb *f, const unsigned *kinds, unsigned count)
{
    f->ino = kvt_file(t, SNIC_KVFS_ROOT, "f", 0644);
    f->size = 0;
    memset(f->bytes, 0, sizeof(f->bytes));
    for (unsigned i = 0; i < count; i++)
        step(t, f, kinds[i], i + kinds[i] * 7);
    kvb_check(t, f);
    assert_int_equal(kvt_unlink(t, SNIC_KVFS_ROOT, "f"), 0);
}

/* Any sequence that leaves other bytes than the array, or a wrong st_blocks, is silent damage. */
static void test_kvfs_data_all_sequences_as_array(void **state)
{
    static struct kvb f;
    struct kvt t;
    unsigned kinds[4], length = (unsigned)support_scale(3, 4);
    (void)state;
    kvt_open(&t, NULL);
    for (unsigned n = 1; n <= length; n++) {
        memset(kinds, 0, sizeof(kinds));
        for (;;) {
            unsigned i = 0;
            sequence(&t, &f, kinds, n);
            while (i < n && ++kinds[i] == STEPS)
                kinds[i++] = 0;
            if (i == n)
                break;
        }
    }
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_data_all_sequences_as_array),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
