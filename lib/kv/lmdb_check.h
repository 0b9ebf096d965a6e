/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * LMDB trusts its file: it reads it as memory, so that a page that was cut off ends the process
 * with a signal, and it divides by the page size in the file. These functions check it first.
 */
#ifndef SNIC_KV_LMDB_CHECK_H
#define SNIC_KV_LMDB_CHECK_H

#if defined(SNIC_WITH_LMDB)

#include <lmdb.h>

/**
 * Before the data base in the folder is opened: check the metas of its file. A file of another
 * program is left to LMDB. 0; SNIC_ECORRUPT, or, when it is empty and not to be created,
 * SNIC_ENOENT, with @p text.
 */
int lmdb_check_meta(const char *folder, int create, char *text);

/**
 * Check that all pages that @p snap uses are in the file, and, with @p all, that they are as LMDB
 * needs them. It renews the snapshot while others write.
 * 0; SNIC_ECORRUPT with @p text; SNIC_EBUSY with @p text: others commit all the time; SNIC_ENOMEM.
 */
int lmdb_check_pages(MDB_env *env, MDB_txn *snap, int all, char *text);

#endif /* SNIC_WITH_LMDB */
#endif /* SNIC_KV_LMDB_CHECK_H */
