/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What is not there yet: each of these yields to the function of the same name, and goes with it.
 */
#include "kvfs/core.h"

#define SNIC_KVFS__PENDING(name)                                                                   \
    __attribute__((weak)) int name(struct kvfs_op *op)                                             \
    {                                                                                              \
        (void)op;                                                                                  \
        return SNIC_ENOTSUP;                                                                       \
    }
SNIC_KVFS__PENDING(kvfs_run_open)
SNIC_KVFS__PENDING(kvfs_run_release)
SNIC_KVFS__PENDING(kvfs_run_flush)
SNIC_KVFS__PENDING(kvfs_run_fsync)
SNIC_KVFS__PENDING(kvfs_run_read)
SNIC_KVFS__PENDING(kvfs_run_write)
SNIC_KVFS__PENDING(kvfs_run_fallocate)
SNIC_KVFS__PENDING(kvfs_run_seek)
SNIC_KVFS__PENDING(kvfs_run_copy)
SNIC_KVFS__PENDING(kvfs_run_statfs)
SNIC_KVFS__PENDING(kvfs_run_getlk)
SNIC_KVFS__PENDING(kvfs_run_setlk)
SNIC_KVFS__PENDING(kvfs_run_flock)

__attribute__((weak)) int kvfs_intent_resolve(struct kvfs_op *op, const struct snic_kvop_key *key,
                                              const void *raw, uint32_t raw_size,
                                              const void **record, uint32_t *size)
{
    (void)op, (void)key, (void)raw, (void)raw_size, (void)record, (void)size;
    return SNIC_ENOTSUP;
}
__attribute__((weak)) size_t kvfs_locks_memsize(const struct snic_kvfs_opts *o)
{
    (void)o;
    return 64;
}
__attribute__((weak)) void kvfs_locks_init(struct kvfs_locks *locks, const struct snic_kvfs_opts *o)
{
    (void)locks, (void)o;
}

__attribute__((weak)) int kvfs_truncate(struct kvfs_op *op, struct snic_kvfs_attr *a, uint64_t size,
                                        uint32_t phase)
{
    int rc;
    (void)phase;
    a->size = size;
    rc = kvfs_put_attr(op, a);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

__attribute__((weak)) int kvfs_locks_publish(struct kvfs_op *op)
{
    (void)op;
    return 0;
}
int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session);
__attribute__((weak)) int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session)
{
    (void)op, (void)session;
    return 0;
}

#undef SNIC_KVFS__PENDING
__attribute__((weak)) int kvfs_locks_drop(struct kvfs_op *op, uint64_t ino, uint64_t owner,
                                          uint32_t kinds)
{
    (void)op, (void)ino, (void)owner, (void)kinds;
    return 0;
}
__attribute__((weak)) int kvfs_intent_commit(struct kvfs_op *op, int durable)
{
    (void)op, (void)durable;
    return SNIC_ENOTSUP;
}
