/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The caller of a request: its rights without regard to mode bits. */
#include "kvfs/ops.h"

int kvfs_in_group(const struct kvfs_op *op, uint32_t gid)
{
    const struct snic_fsop_cred *c;
    if (op->req == NULL)
        return 1;
    c = &op->req->cred;
    if (c->gid == gid)
        return 1;
    for (uint32_t i = 0; c->groups != NULL && i < c->group_count; i++) {
        if (c->groups[i] == gid)
            return 1;
    }
    return 0;
}

int kvfs_is_owner(const struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    return kvfs_is_privileged(op) || op->req->cred.uid == 0 || op->req->cred.uid == a->uid;
}
