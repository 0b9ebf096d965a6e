/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Disks are created and deleted.
 */
#include "control/control_priv.h"

int control_disk_create(struct snic_control *c, const char *name, uint64_t bytes,
                        const struct snic_control_qos *qos, const uint64_t key[2],
                        struct control_disk **out)
{
    SNIC_ASSERT(snic_control_name_ok(name));
    SNIC_ASSERT(control_disk_named(c, name) == NULL);
    uint32_t vd = c->vd + 1;
    if (vd == UINT32_MAX)
        return SNIC_EOVERFLOW;
    struct control_disk *d = control_disk_new(c, vd);
    if (d == NULL)
        return SNIC_ENOSPC;
    c->vd = vd;
    d->bytes = bytes;
    d->qos = *qos;
    memcpy(d->key, key, sizeof(d->key));
    memcpy(d->name, name, sizeof(d->name));
    int r = control_put_head(c); /* numbers are not reused, even if the disk is not created */
    if (r == 0)
        r = control_put_disk(c, d);
    if (r != 0) {
        control_disk_free(c, d);
        return r;
    }
    *out = d;
    return 0;
}

void control_disk_drop(struct snic_control *c, struct control_disk *d)
{
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        (void)control_server_command(c, i, NULL, SNIC_CONTROL_DROP_ALL, 0, d->vd, 0, 0, NULL);
    control_disk_free(c, d);
}

/* The disk is being deleted, with the segments that commands sent before will make. */
static void control_disk_cancel_ops(struct snic_control *c, struct control_disk *d)
{
    uint32_t disk = (uint32_t)(d - c->disks);
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        struct control_op *op = &c->ops[i];
        struct control_session *s = control_session_at(c, op->session);
        if (!op->used || op->disk != disk)
            continue;
        if (op->type == CONTROL_OP_MOVE) {
            control_move_answer(c, op, SNIC_ENOENT);
            continue;
        }
        if (op->type == CONTROL_OP_PLACE) {
            SNIC_ASSERT(c->servers[op->to].making > 0);
            c->servers[op->to].making--;
            control_seg_free(c, d, &c->segs[op->seg]);
        } else if (s != NULL && s->role == SNIC_CONTROL_CLIENT) {
            control_lease_grant(c, s, op->tag, SNIC_ENOENT, NULL);
        } else {
            control_op_reply(c, op, SNIC_ENOENT, 0);
        }
        control_op_free(c, op);
    }
}

int control_disk_delete(struct snic_control *c, struct control_disk *d)
{
    SNIC_ASSERT(!d->reissue);
    int r = control_put_disk_gone(c, d);
    if (r == 0) {
        control_disk_cancel_ops(c, d);
        control_disk_drop(c, d);
    }
    return r;
}
