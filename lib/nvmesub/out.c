/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Actions in order, completions, the data of commands.
 *   A1 Every submitted command is in its connection's list until poll has returned it, and in
 *      exactly one of: the queue of actions, a list of its state, or with the owner.
 */
#include "nvmesub/nvmesub_priv.h"

void nvmesub_out_push(struct snic_nvmesub *s, struct nvmesub_out *o, uint8_t kind)
{
    if (o->kind != 0)
        return;
    o->kind = kind;
    snic_link_append(&s->out, &o->link);
}

/* A command's own link is its place in the queue of actions; waits holds the kind there. */
static void nvmesub_out_cmd(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd, uint8_t kind)
{
    snic_link_remove(&cmd->link);
    cmd->state = NVMESUB_CMD_OUT;
    cmd->waits = kind;
    snic_link_append(&s->out, &cmd->link);
}

void nvmesub_keep(struct snic_nvmesub_cmd *cmd, struct snic_link *list, uint8_t state)
{
    snic_link_remove(&cmd->link);
    cmd->state = state;
    if (list != NULL)
        snic_link_append(list, &cmd->link);
}

void nvmesub_to_owner(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd, uint8_t kind)
{
    nvmesub_out_cmd(s, cmd, kind);
}

/** Into the controller's error log. */
static void nvmesub_log_error(struct snic_nvmesub *s, struct nvmesub_ctrl *c,
                              const struct nvmesub_conn *conn, const struct snic_nvmesub_cmd *cmd,
                              uint32_t status)
{
    struct snic_nvme_error_entry *e = &c->errors[c->error_total++ % SNIC_NVMESUB_ERRORS_MAX];
    struct snic_nvme_sqe sqe;
    snic_nvme_sqe_load(&sqe, cmd->sqe);
    memset(e, 0, sizeof(*e));
    snic_put_le64(&e->count, c->error_total);
    snic_put_le16(&e->sqid, conn->qid);
    snic_put_le16(&e->cid, sqe.cid);
    snic_put_le16(&e->status, (uint16_t)(status << 1));
    snic_put_le16(&e->location, 0xffff);
    snic_put_le32(&e->nsid, sqe.opcode == SNIC_NVME_FABRICS ? 0 : sqe.nsid);
    e->trtype = SNIC_NVME_TRTYPE_TCP;
    s->stats.errors++;
}

void nvmesub_complete(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd, uint32_t status)
{
    struct nvmesub_conn *conn = &s->conns[cmd->conn];
    if (conn->ended) {
        nvmesub_drop(s, cmd);
        return;
    }
    if (status != 0) {
        cmd->data_out = 0;
        if (conn->state != NVMESUB_CONN_NEW) {
            status |= SNIC_NVME_MORE;
            nvmesub_log_error(s, &s->ctrls[conn->ctrl], conn, cmd, status);
        } else {
            s->stats.errors++;
        }
    }
    conn->head = (uint16_t)(conn->head + 1 >= conn->depth ? 0 : conn->head + 1);
    cmd->cqe.sqhd = conn->no_sq_flow ? 0 : conn->head;
    cmd->cqe.cid = snic_get_le16(cmd->sqe + 2);
    cmd->cqe.status = (uint16_t)status;
    nvmesub_out_cmd(s, cmd, SNIC_NVMESUB_COMPLETE);
}

void nvmesub_drop(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd)
{
    cmd->data_out = 0;
    nvmesub_out_cmd(s, cmd, SNIC_NVMESUB_DROP);
}

/* ---- Data ---- */

uint32_t nvmesub_data_in(const struct nvmesub_req *r, uint32_t bytes)
{
    uint8_t type = snic_nvme_sgl_type(&r->sqe);
    if (type != SNIC_NVME_SGL_TRANSPORT && type != SNIC_NVME_SGL_DATA_OFFSET)
        return SNIC_NVMESUB__FAIL(SGL_TYPE);
    if (r->sqe.sgl_length != bytes)
        return SNIC_NVMESUB__FAIL(SGL_LENGTH);
    return r->cmd->data_in < bytes ? SNIC_NVMESUB__FAIL(INVALID_FIELD) : 0;
}

uint32_t nvmesub_data_out(const struct nvmesub_req *r, uint32_t bytes)
{
    if (snic_nvme_sgl_type(&r->sqe) != SNIC_NVME_SGL_TRANSPORT)
        return SNIC_NVMESUB__FAIL(SGL_TYPE);
    if (r->sqe.sgl_length != bytes)
        return SNIC_NVMESUB__FAIL(SGL_LENGTH);
    if (r->cmd->room < bytes)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    r->cmd->data_out = bytes;
    memset(r->cmd->data, 0, bytes);
    return 0;
}

void nvmesub_window_put(struct nvmesub_window *w, const void *data, size_t size)
{
    uint64_t at = w->at, end = at + size;
    w->at = end;
    if (end <= w->from || at >= w->to)
        return;
    uint64_t from = snic_max_u64(at, w->from), to = snic_min_u64(end, w->to);
    memcpy(w->out + (from - w->from), (const unsigned char *)data + (from - at), to - from);
}
