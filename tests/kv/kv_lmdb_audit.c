/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The space that maps name against the space that is in use, read past the store. */
#include "kv_lmdb_util.h"

#if defined(__has_include)
#if __has_include(<lmdb.h>)
#define AUDIT_LMDB 1
#endif
#endif

#if defined(AUDIT_LMDB)
#undef AUDIT_LMDB

#include <lmdb.h>

enum { AUDIT_SEGMENTS = 64, AUDIT_SEGMENT = 2048 };

struct audit {
    unsigned char named[AUDIT_SEGMENTS][AUDIT_SEGMENT];
    unsigned char used[AUDIT_SEGMENTS][AUDIT_SEGMENT];
    uint32_t marked;
    uint32_t unchecked;
};

static void audit_map(struct audit *a, const unsigned char *v)
{
    for (uint32_t r = 0; r < snic_get_le16(v); r++) {
        const unsigned char *run = v + 2 + 8 * (size_t)r;
        uint32_t block = snic_get_le32(run + 4);
        for (uint32_t i = 0; i < run[1] + 1U; i++, block++) {
            KVL_CHECK(block / AUDIT_SEGMENT < AUDIT_SEGMENTS);
            KVL_EQUAL(a->named[block / AUDIT_SEGMENT][block % AUDIT_SEGMENT]++, 0);
        }
        a->unchecked += (run[2] & 2) != 0 ? run[1] + 1U : 0;
    }
}

static void audit_segment(struct audit *a, uint64_t n, const unsigned char *v)
{
    KVL_CHECK(n < AUDIT_SEGMENTS);
    a->marked += snic_get_le32(v) & 1;
    for (uint32_t i = 0; i < AUDIT_SEGMENT; i++)
        a->used[n][i] = v[8 + i / 8] >> i % 8 & 1;
}

static void audit_read(struct audit *a, const char *path)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *c;
    MDB_val k;
    MDB_val v;
    KVL_EQUAL(mdb_env_create(&env), 0);
    KVL_EQUAL(mdb_env_open(env, path, MDB_RDONLY, 0600), 0);
    KVL_EQUAL(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
    KVL_EQUAL(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    KVL_EQUAL(mdb_cursor_open(txn, dbi, &c), 0);
    while (mdb_cursor_get(c, &k, &v, MDB_NEXT) == 0) {
        const unsigned char *key = k.mv_data;
        if (key[0] == 'M')
            audit_map(a, v.mv_data);
        else if (key[0] == 'F')
            audit_segment(a, snic_get_be64(key + 1), v.mv_data);
    }
    mdb_cursor_close(c);
    mdb_txn_abort(txn);
    mdb_env_close(env);
}

void kvl_audit(const char *path)
{
    struct audit *a = calloc(1, sizeof(*a));
    KVL_CHECK(a != NULL);
    audit_read(a, path);
    if (a->used[0][0] != 0) /* the file's head */
        a->named[0][0]++;
    for (uint32_t n = 0; n < AUDIT_SEGMENTS; n++) {
        for (uint32_t i = 0; i < AUDIT_SEGMENT; i++)
            KVL_EQUAL(a->used[n][i], a->named[n][i]);
    }
    KVL_EQUAL(a->marked, 0);
    free(a);
}

#else

void kvl_audit(const char *path)
{
    (void)path;
}

#endif
