/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/kvfs_tool/store.h
 * What kvfs_mount and kvfs_tool share: a store named on the command line, and the file system on
 * it. What goes wrong is logged in words.
 */
#ifndef KVFS_STORE_H
#define KVFS_STORE_H

#include "snicstore.h"

#define KVFS_STORE_NAMES "lmdb:PATH|rados:CONF:POOL[:NAMESPACE]|mem"

/** Zero it, set what is wanted. */
struct kvfs_store {
    const char *spec;     /**< one of KVFS_STORE_NAMES; CONF may be "": the cluster's default  */
    int create;           /**< lmdb: make the folder's files when missing                         */
    int read_only;        /**< the store and the file system                                      */
    uint32_t flags;       /**< of the engine: SNIC_KVFS_NO_ATIME and the like                     */
    int sole;             /**< lmdb: no other process may have it open                           */
    int verify;           /**< lmdb: look at all pages of its file first                          */
    uint64_t cache_bytes; /**< of the engine; 0: its default                                   */
    uint32_t requests;    /**< of the engine; 0: its default                                      */
    uint32_t inodes;      /**< open at once, of the engine; 0: its default                        */
    void (*alone)(struct kvfs_store *s, int alone); /**< as in fs.h; may be NULL               */

    struct snic_loop *loop;
    struct snic_kv *kv;
    struct snic_kvmem *medium; /**< mem                                                        */
    struct snic_fs *fs;
    void *memory;
    uint64_t damages; /**< records and blocks found damaged                                    */
    uint64_t fence_failures; /**< of the engine's, as last logged                              */
    int keep_quiet; /**< damage is counted, not logged                                       */
};

/** Is @p spec well-formed? 0 or -1; for EX_PARSE, *target is a const char *. */
int kvfs_store_parse(void *target, const char *spec);
/** Open store and service on s->loop. @return 0 or SNIC_E*, logged */
int kvfs_store_open(struct kvfs_store *s);
/** Mount; with @p make, a store without a file system gets one. @return 0 or SNIC_E*, logged */
int kvfs_store_mount(struct kvfs_store *s, int make);
/** After an unmount: another session on the same store. @return 0 or SNIC_E*, logged */
int kvfs_store_again(struct kvfs_store *s);
/** Close; the file system must be unmounted, or never have been mounted. NULLs are fine. */
void kvfs_store_close(struct kvfs_store *s);
/** ns since 1970. */
int64_t kvfs_store_wall(void *ctx);

#endif /* KVFS_STORE_H */
