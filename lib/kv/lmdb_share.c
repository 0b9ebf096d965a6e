/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects while other handles have the store open.
 */
#include "snicstore/kv.h"

#if defined(SNIC_WITH_LMDB)

#include <lmdb.h>
#include <pthread.h>

#include "kv/lmdb_priv.h"

int lmdb_share_enter(struct lmdb_job *j)
{
    (void)j;
    return 1;
}

void lmdb_share_leave(struct lmdb_job *j)
{
    (void)j;
}

int lmdb_share_marked(struct lmdb_kv *s, uint32_t block)
{
    (void)s;
    (void)block;
    return 0;
}

uint64_t lmdb_share_mark(struct lmdb_kv *s, uint32_t block)
{
    (void)s;
    (void)block;
    return 0;
}

void lmdb_share_reserve(struct lmdb_job *j, uint32_t blocks)
{
    (void)j;
    (void)blocks;
}

int lmdb_shared_body(struct lmdb_kv *s, MDB_txn *txn, struct lmdb_batch *b)
{
    (void)s;
    (void)txn;
    (void)b;
    return 0;
}

#endif /* SNIC_WITH_LMDB */
