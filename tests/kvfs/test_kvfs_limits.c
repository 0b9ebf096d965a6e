/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What an engine's tables bound: open inodes. Refused with SNIC_ENFILE, and nothing has happened.
 */
#include "test_kvfs_util.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT_INODES = 16 };

static int64_t limit_open(struct kvt *t, uint64_t ino)
{
    struct snic_fsop q;
    kvt_req(t, &q, SNIC_FSOP_OPEN, ino, NULL);
    q.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
    return kvt_call(t, &q);
}

static void limit_name(char *out, unsigned i)
{
    snprintf(out, 16, "f%u", i);
}

/* Files that are there are opened until no more can be; then one is closed, and one opens. */
static void test_kvfs_limits_open_files(void **state)
{
    struct snic_kvfs_opts o;
    struct kvt t;
    uint64_t ino[4 * LIMIT_INODES];
    unsigned opened = 0;
    char name[16];
    (void)state;
    kvt_opts(&o);
    o.inodes_max = LIMIT_INODES;
    o.requests_max = 2;
    kvt_open(&t, &o);
    for (unsigned i = 0; i < SNIC_COUNTOF(ino); i++) {
        limit_name(name, i);
        ino[i] = kvt_file(&t, SNIC_FSOP_ROOT, name, 0644);
    }
    while (opened < SNIC_COUNTOF(ino) && limit_open(&t, ino[opened]) == 0)
        opened++;
    assert_in_range(opened, LIMIT_INODES / 2, LIMIT_INODES + o.requests_max);
    KVT_REFUSED(&t, SNIC_ENFILE, limit_open(&t, ino[opened]));
    kvt_check(&t);

    /* What is open keeps working: bytes, and its name may go. */
    assert_int_equal(kvt_write(&t, ino[0], 0, "text", 4), 4);
    assert_int_equal(limit_open(&t, ino[0]), 0); /* a second time needs no more room */
    assert_int_equal(kvt_release(&t, ino[0], SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);

    for (unsigned i = 0; i < opened; i++)
        assert_int_equal(kvt_release(&t, ino[i], SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    assert_int_equal(limit_open(&t, ino[opened]), 0);
    assert_int_equal(kvt_release(&t, ino[opened], SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    kvt_check(&t);
    kvt_close(&t);
}

/* A name that cannot be opened is not made; one that is there is not truncated. */
static void test_kvfs_limits_nothing_is_made(void **state)
{
    struct snic_kvfs_opts o;
    struct kvt t;
    uint64_t ino[4 * LIMIT_INODES];
    unsigned made = 0;
    int64_t r = 0;
    char name[16];
    (void)state;
    kvt_opts(&o);
    o.inodes_max = LIMIT_INODES;
    o.requests_max = 2;
    kvt_open(&t, &o);
    for (; made < SNIC_COUNTOF(ino); made++) {
        limit_name(name, made);
        r = kvt_try_create(&t, SNIC_FSOP_ROOT, name, 0644);
        if (r < 0)
            break;
        ino[made] = (uint64_t)r;
    }
    assert_int_equal(r, SNIC_ENFILE);
    assert_in_range(made, LIMIT_INODES / 2, LIMIT_INODES + o.requests_max);
    KVT_REFUSED(&t, SNIC_ENFILE, kvt_try_create(&t, SNIC_FSOP_ROOT, "one", 0644));
    for (unsigned i = 0; i < made; i++)
        assert_int_equal(kvt_release(&t, ino[i], SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    assert_int_equal(kvt_try_lookup(&t, SNIC_FSOP_ROOT, "one"), SNIC_ENOENT);
    limit_name(name, made);
    assert_int_equal(kvt_try_lookup(&t, SNIC_FSOP_ROOT, name), SNIC_ENOENT);
    assert_true(kvt_file(&t, SNIC_FSOP_ROOT, "one", 0644) != 0);
    kvt_check(&t);
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_limits_open_files),
        cmocka_unit_test(test_kvfs_limits_nothing_is_made),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
