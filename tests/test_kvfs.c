/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine: creation and lookup, its rules and errors, and its machinery. */
#include "test_kvfs_util.h"

#include <string.h>

/* The first thing anybody does. */
static void test_kvfs_fresh_made_found(void **state)
{
    struct kvt t;
    char target[16];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_KVFS_ROOT, "dir", 0755);
    uint64_t file = kvt_file(&t, dir, "file", 0644);
    assert_int_equal(kvt_try_lookup(&t, SNIC_KVFS_ROOT, "dir"), dir);
    assert_int_equal(kvt_try_lookup(&t, dir, "file"), file);
    assert_int_equal(kvt_try_lookup(&t, dir, "none"), SNIC_ENOENT);
    assert_int_equal(kvt_try_lookup(&t, file, "x"), SNIC_ENOTDIR);
    assert_int_equal(kvt_try_resolve(&t, SNIC_KVFS_ROOT, "/dir/../dir/./file"), file);
    assert_int_equal(kvt_try_mkdir(&t, dir, "file", 0755), SNIC_EEXIST);
    int64_t link = kvt_try_symlink(&t, dir, "link", "target");
    assert_true(link > 0);
    assert_int_equal(kvt_readlink(&t, (uint64_t)link, target, sizeof(target)), 6);
    assert_memory_equal(target, "target", 6);
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_fresh_made_found),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
