/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What is not there yet: each of these yields to the function of the same name, and goes with it.
 */
#include "kvfs/core.h"

__attribute__((weak)) int kvfs_intent_commit(struct kvfs_op *op, int durable)
{
    (void)op, (void)durable;
    return SNIC_ENOTSUP;
}
__attribute__((weak)) int kvfs_intent_resolve(struct kvfs_op *op, const struct snic_kvop_key *key,
                                              const void *raw, uint32_t raw_size,
                                              const void **record, uint32_t *size)
{
    (void)op, (void)key, (void)raw, (void)raw_size, (void)record, (void)size;
    return SNIC_ENOTSUP;
}
int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session);
__attribute__((weak)) int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session)
{
    (void)op, (void)session;
    return 0;
}
