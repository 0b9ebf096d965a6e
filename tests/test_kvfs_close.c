/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What closes and syncs leave behind: locks of a close that the store fails, files closed before a
 * SYNCFS. */
#include "kvfs/locks_priv.h"
#include "test_kvfs_many.h"

#include <string.h>

/* ---- SYNCFS ---- */

static int64_t stored_mtime(struct kvt *t, uint64_t ino)
{
    unsigned char value[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_get get = {.value = value, .room = sizeof(value)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
    struct snic_kvfs_attr a;
    snic_kvfs_key(&get.key, ino, SNIC_KVFS_REC_ATTR);
    snic_kvmem_apply(t->m, &op);
    assert_int_equal(get.result, 0);
    assert_int_equal(snic_kvfs_attr_decode(&a, value, get.size), 0);
    return (int64_t)a.mtime.sec * 1000000000 + a.mtime.nsec;
}

static int64_t mtime(struct kvt *t, uint64_t ino)
{
    struct snic_kvfs_attr a = kvt_attr(t, ino);
    return (int64_t)a.mtime.sec * 1000000000 + a.mtime.nsec;
}

/* What is kept back of an inode goes with its memory once it is written, when the file is not
 * open: the next one is not to be skipped for it. */
static void test_kvfs_close_syncfs_writes_all_closed(void **state)
{
    enum { N = 40 };
    static unsigned char bytes[20000];
    struct snic_kvfs_req req;
    uint64_t ino[N];
    char name[3] = "f";
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    for (unsigned i = 0; i < N; i++) {
        name[1] = (char)('0' + i);
        ino[i] = kvt_file(&t, SNIC_KVFS_ROOT, name, 0644);
        assert_int_equal(kvt_write(&t, ino[i], 0, bytes, sizeof(bytes)), sizeof(bytes));
    }
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(kvt_write(&t, ino[i], 5, bytes, 10), 10);
        assert_true(stored_mtime(&t, ino[i]) < mtime(&t, ino[i]));
        assert_int_equal(kvfs_inode_opens(t.k, ino[i]), 0);
    }
    kvt_req(&t, &req, SNIC_KVFS_SYNCFS, SNIC_KVFS_ROOT, NULL);
    assert_int_equal(kvt_call(&t, &req), 0);
    for (unsigned i = 0; i < N; i++)
        assert_true(stored_mtime(&t, ino[i]) == mtime(&t, ino[i]));
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_close_syncfs_writes_all_closed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
