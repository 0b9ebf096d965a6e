/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes in the data base of a store on LMDB, as lib/kv/FORMAT.md has them. */
#include "golden.h"
#include "kv_lmdb_util.h"

#if defined(__has_include)
#if __has_include(<lmdb.h>)
#define FORMAT_LMDB 1
#endif
#endif

#if defined(FORMAT_LMDB)
#undef FORMAT_LMDB

#include <lmdb.h>

static void format_compare(const MDB_val *k, const MDB_val *v)
{
    static const struct {
        char kind;
        const char *title;
    } titles[] = {{'S', "head"}, {'R', "record"}, {'M', "map"}, {'F', "segment"}};
    unsigned char pair[1024];
    unsigned char *value = pair + k->mv_size;
    assert_true(k->mv_size + v->mv_size <= sizeof(pair));
    memcpy(pair, k->mv_data, k->mv_size);
    memcpy(value, v->mv_data, v->mv_size);
    if (pair[0] == 'S')
        memset(value + 24, 0, 16);
    if (pair[0] == 'F')
        memset(value + 4, 0, 4);
    if (pair[0] == 'S' || pair[0] == 'F')
        memset(value + v->mv_size - 4, 0, 4);
    for (size_t i = 0; i < SNIC_COUNTOF(titles); i++) {
        if (titles[i].kind == (char)pair[0])
            golden_bytes("kv", titles[i].title, pair, k->mv_size + v->mv_size);
    }
}

/* lib/kv/FORMAT.md. */
static void test_kv_lmdb_format_vectors(void **state)
{
    static unsigned char block[KVL_BLOCK];
    char path[512];
    struct kvl k;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *c;
    MDB_val key;
    MDB_val value;
    uint32_t found = 0;
    (void)state;
    support_tmpname(path, sizeof(path), "format");
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    assert_int_equal(kvl_put(&k, 5, 6, 7, 0), 0);
    memset(block, 0x5a, sizeof(block));
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 9, KVL_BLOCK, KVL_BLOCK, block),
                     KVL_BLOCK);
    assert_int_equal(kvl_sync(&k), 0);
    kvl_close(&k);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_RDONLY, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    assert_int_equal(mdb_cursor_open(txn, dbi, &c), 0);
    for (; mdb_cursor_get(c, &key, &value, MDB_NEXT) == 0; found++)
        format_compare(&key, &value);
    mdb_cursor_close(c);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    assert_int_equal(found, 4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_format_vectors),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}

#else

int main(void)
{
    return 77; /* built without LMDB */
}

#endif
