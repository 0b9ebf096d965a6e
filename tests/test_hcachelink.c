/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The hybrid cache's two halves over dma's sim backend: what each operation promises, and what it
   costs. */
#include "test_hcachelink_util.h"

static unsigned char page[4 * RIG_PAGE];
static unsigned char out[4 * RIG_PAGE];
static unsigned char file[16 * RIG_PAGE];

static void fill(unsigned char *p, size_t n, uint64_t seed)
{
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)snic_rng_below(&rng, 256);
}

/* A page written, flushed, and read back through the file system and through the cache. */
static void test_hcachelink_page_written_is_in_the_store(void **state)
{
    struct rig g;
    uint64_t ino;
    (void)state;
    rig_defaults(&g);
    rig_open(&g);
    ino = rig_file(&g, "a");
    fill(page, sizeof(page), 1);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_WRITE, ino, 0, RIG_PAGE, page), RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(snic_fs_get(g.fs, "/a", file, sizeof(file)), RIG_PAGE);
    assert_memory_equal(file, page, RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page, RIG_PAGE);
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_DROP, ino, 0, 0, NULL), 0);
    memset(out, 0, sizeof(out));
    assert_int_equal(rig_op(&g, SNIC_HCACHELINK_READ, ino, 100, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page + 100, RIG_PAGE - 100);
    assert_int_equal(g.opened, 1);
    rig_close(&g);
    assert_int_equal(g.reason, 0);
    assert_int_equal(g.gone, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_page_written_is_in_the_store),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
