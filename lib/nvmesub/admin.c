/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands from submit to their handler; Abort, Keep Alive, Disconnect, authentication. */
#include "nvmesub/nvmesub_priv.h"

/* ---- Abort ---- */

static struct snic_nvmesub_cmd *nvmesub_abort_find(struct nvmesub_ctrl *c, uint16_t cid)
{
    for (struct snic_link *l = c->aers.next; l != &c->aers; l = l->next) {
        struct snic_nvmesub_cmd *cmd = SNIC_CONTAINER(l, struct snic_nvmesub_cmd, link);
        if (snic_get_le16(cmd->sqe + 2) == cid)
            return cmd;
    }
    return NULL;
}

static uint32_t nvmesub_abort(struct nvmesub_req *r)
{
    struct nvmesub_ctrl *c = r->ctrl;
    uint32_t qid = r->sqe.cdw10 & 0xffff;
    uint16_t cid = (uint16_t)(r->sqe.cdw10 >> 16);
    if (c->aborts == SNIC_NVMESUB_ABORTS_MAX)
        return SNIC_NVMESUB__FAIL(ABORT_LIMIT);
    r->cmd->cqe.dw0 = 1; /* not aborted */
    if (qid == 0) {      /* of this queue only event requests take time */
        struct snic_nvmesub_cmd *cmd = nvmesub_abort_find(c, cid);
        if (cmd != NULL) {
            c->aer_count--;
            nvmesub_complete(r->s, cmd, SNIC_NVME_SC_ABORT_REQUESTED);
            r->cmd->cqe.dw0 = 0;
        }
        return 0;
    }
    if (qid > r->s->opts.queues_max || c->queue[qid - 1] == SNIC_NVMESUB__NONE)
        return 0;
    c->aborts++;
    r->cmd->wait[0] = c->queue[qid - 1];
    r->cmd->wait[1] = cid;
    nvmesub_to_owner(r->s, r->cmd, SNIC_NVMESUB_ABORT);
    return SNIC_NVMESUB__PENDING;
}

void snic_nvmesub_abort_done(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd, int aborted)
{
    SNIC_ASSERT(cmd->state == NVMESUB_CMD_OWNER);
    s->ctrls[s->conns[cmd->conn].ctrl].aborts--;
    cmd->wait[0] = 0;
    cmd->cqe.dw0 = aborted ? 0 : 1;
    nvmesub_complete(s, cmd, 0);
}

void snic_nvmesub_auth_done(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd, uint32_t status)
{
    SNIC_ASSERT(cmd->state == NVMESUB_CMD_OWNER && cmd->data_out <= cmd->room);
    nvmesub_complete(s, cmd, status);
}

/* ---- Dispatch ---- */

static uint32_t nvmesub_disconnect(struct nvmesub_req *r)
{
    if ((r->sqe.cdw10 & 0xffff) != 0)
        return SNIC_NVMESUB__FAIL(CONNECT_FORMAT);
    if (r->conn->state == NVMESUB_CONN_ADMIN)
        return SNIC_NVMESUB__FAIL(QUEUE_TYPE);
    nvmesub_complete(r->s, r->cmd, 0);
    nvmesub_conn_delete(r->s, r->conn);
    return SNIC_NVMESUB__PENDING;
}

static uint32_t nvmesub_fabrics(struct nvmesub_req *r)
{
    uint32_t type = r->sqe.nsid & 0xff;
    int admin = r->conn->state == NVMESUB_CONN_ADMIN;
    if (type == SNIC_NVME_FABRICS_CONNECT)
        return nvmesub_connect(r);
    if (r->conn->state == NVMESUB_CONN_NEW)
        return SNIC_NVMESUB__FAIL(SEQUENCE);
    if (type == SNIC_NVME_FABRICS_AUTH_SEND || type == SNIC_NVME_FABRICS_AUTH_RECEIVE) {
        nvmesub_to_owner(r->s, r->cmd, SNIC_NVMESUB_AUTH);
        return SNIC_NVMESUB__PENDING;
    }
    if (r->conn->auth)
        return SNIC_NVMESUB__FAIL(AUTH_REQUIRED);
    if (type == SNIC_NVME_FABRICS_PROPERTY_GET && admin)
        return nvmesub_property_get(r);
    if (type == SNIC_NVME_FABRICS_PROPERTY_SET && admin)
        return nvmesub_property_set(r);
    if (type == SNIC_NVME_FABRICS_DISCONNECT)
        return nvmesub_disconnect(r);
    return SNIC_NVMESUB__FAIL(INVALID_OPCODE);
}

static uint32_t nvmesub_admin(struct nvmesub_req *r)
{
    switch (r->sqe.opcode) {
    case SNIC_NVME_ADMIN_GET_LOG:
        return nvmesub_get_log(r);
    case SNIC_NVME_ADMIN_IDENTIFY:
        return nvmesub_identify(r);
    case SNIC_NVME_ADMIN_ABORT:
        return nvmesub_discovery(r->s) ? SNIC_NVMESUB__FAIL(INVALID_OPCODE) : nvmesub_abort(r);
    case SNIC_NVME_ADMIN_SET_FEATURES:
        return nvmesub_set_features(r);
    case SNIC_NVME_ADMIN_GET_FEATURES:
        return nvmesub_get_features(r);
    case SNIC_NVME_ADMIN_AER:
        return nvmesub_aer(r);
    case SNIC_NVME_ADMIN_KEEP_ALIVE:
        return 0;
    default:
        return SNIC_NVMESUB__FAIL(INVALID_OPCODE);
    }
}

static uint32_t nvmesub_dispatch(struct nvmesub_req *r)
{
    if ((r->sqe.flags & SNIC_NVME_FLAG_FUSE) != 0 ||
        ((r->sqe.flags & SNIC_NVME_FLAG_PSDT) != SNIC_NVME_FLAG_SGL &&
         (r->sqe.flags & SNIC_NVME_FLAG_PSDT) != SNIC_NVME_FLAG_SGL_SEGMENT))
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (r->sqe.opcode == SNIC_NVME_FABRICS)
        return nvmesub_fabrics(r);
    if (r->conn->state == NVMESUB_CONN_NEW)
        return SNIC_NVMESUB__FAIL(SEQUENCE);
    if (r->conn->auth)
        return SNIC_NVMESUB__FAIL(AUTH_REQUIRED);
    if ((r->ctrl->csts & SNIC_NVME_CSTS_RDY) == 0 || r->ctrl->reset)
        return SNIC_NVMESUB__FAIL(SEQUENCE);
    if (r->conn->state == NVMESUB_CONN_ADMIN)
        return nvmesub_admin(r);
    if (r->sqe.opcode == SNIC_NVME_IO_RESV_REGISTER || r->sqe.opcode == SNIC_NVME_IO_RESV_REPORT ||
        r->sqe.opcode == SNIC_NVME_IO_RESV_ACQUIRE || r->sqe.opcode == SNIC_NVME_IO_RESV_RELEASE)
        return nvmesub_reserve(r);
    return SNIC_NVMESUB__FAIL(INVALID_OPCODE);
}

void nvmesub_execute(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd)
{
    struct nvmesub_conn *conn = &s->conns[cmd->conn];
    struct nvmesub_req r = {.s = s, .conn = conn, .cmd = cmd};
    snic_link_remove(&cmd->link);
    snic_nvme_sqe_load(&r.sqe, cmd->sqe);
    if (conn->state != NVMESUB_CONN_NEW) {
        r.ctrl = &s->ctrls[conn->ctrl];
        r.ctrl->seen = 1;
    }
    uint32_t status = nvmesub_dispatch(&r);
    if (status != SNIC_NVMESUB__PENDING)
        nvmesub_complete(s, cmd, status);
}

void snic_nvmesub_submit(struct snic_nvmesub *s, uint32_t conn_index, struct snic_nvmesub_cmd *cmd,
                         uint64_t now_ns)
{
    SNIC_ASSERT(conn_index < s->opts.conns_max);
    struct nvmesub_conn *conn = &s->conns[conn_index];
    SNIC_ASSERT(conn->state != NVMESUB_CONN_FREE);
    SNIC_ASSERT(cmd->data != NULL || (cmd->data_in == 0 && cmd->room == 0));
    SNIC_ASSERT((uintptr_t)cmd->data % 8 == 0);
    s->now = snic_max_u64(s->now, now_ns);
    snic_link_init(&cmd->link);
    memset(&cmd->cqe, 0, sizeof(cmd->cqe));
    cmd->data_out = 0;
    cmd->conn = conn_index;
    cmd->wait[0] = 0;
    cmd->wait[1] = 0;
    cmd->status = 0;
    cmd->waits = 0;
    cmd->state = 0;
    snic_link_init(&cmd->owner);
    snic_link_append(&conn->cmds, &cmd->owner);
    s->stats.commands++;
    if (conn->ended)
        nvmesub_drop(s, cmd);
    else
        nvmesub_execute(s, cmd);
}
