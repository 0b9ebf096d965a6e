/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands, from the capsule to the response.
 *
 *   capsule -> io_check -> memory -> switch -> R2T and data -> io_start -> device -> response
 *   capsule ->             memory ->           R2T and data -> nvmesub            -> response
 */
#include "nvmet/nvmet_priv.h"

void nvmet_cmd_free(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    SNIC_ASSERT(cmd->state != NVMET_CMD_FREE && !cmd->away && !cmd->cancelling);
    if (cmd->pages > 0)
        nvmet_pages_put(c, cmd->page, cmd->pages);
    cmd->pages = 0;
    cmd->state = NVMET_CMD_FREE;
    snic_link_remove(&cmd->link);
    snic_link_append(c->free_cmds.next, &cmd->link); /* the next one: it is in the cache */
    if (!snic_link_alone(&c->memory))
        nvmet_conn_dirty(c);
}

void nvmet_cmd_enter(struct nvmet_cmd *cmd, uint8_t state, struct snic_link *list)
{
    snic_link_remove(&cmd->link);
    cmd->state = state;
    if (list != NULL)
        snic_link_append(list, &cmd->link);
}

void nvmet_cmd_finish(struct nvmet_cmd *cmd, const struct snic_nvme_cqe *cqe, uint32_t data_out)
{
    struct nvmet_conn *c = cmd->c;
    struct snic_nvmetcp_completion done;
    memset(&done, 0, sizeof(done));
    done.result = cqe->dw0 | (uint64_t)cqe->dw1 << 32;
    done.status = cqe->status;
    done.cookie = (uintptr_t)cmd;
    if (data_out > 0) {
        cmd->iov.base = cmd->data;
        cmd->iov.size = data_out;
        done.iov = &cmd->iov;
        done.iov_count = 1;
        done.size = data_out;
    }
    if (cmd->kind == NVMET_KIND_IO && cqe->status != 0)
        c->s->stats.errors++;
    int r = snic_nvmetcp_target_complete(c->t, cmd->handle, &done, snic_loop_now(c->s->loop));
    SNIC_ASSERT(r == 0 || r == SNIC_ENOTCONN);
    nvmet_conn_dirty(c);
    if (r == 0 && data_out > 0)
        nvmet_cmd_enter(cmd, NVMET_CMD_SENDING, NULL); /* T3 */
    else
        nvmet_cmd_free(cmd);
}

static void nvmet_cmd_status(struct nvmet_cmd *cmd, uint32_t status, uint32_t dw0)
{
    struct snic_nvme_cqe cqe = {.dw0 = dw0, .status = (uint16_t)status};
    nvmet_cmd_finish(cmd, &cqe, 0);
}

/* ---- For the subsystem ---- */

static void nvmet_cmd_submit(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    struct snic_nvmesub_cmd *n = &cmd->u.sub;
    if (cmd->kind == NVMET_KIND_CONNECT && cmd->in != sizeof(struct snic_nvme_connect_data)) {
        nvmet_cmd_status(cmd, SNIC_NVMET__FAIL(SGL_LENGTH), 0);
        return;
    }
    memset(n, 0, sizeof(*n));
    memcpy(n->sqe, cmd->sqe, sizeof(n->sqe));
    n->data_in = cmd->in;
    n->room = cmd->to_host;
    n->data = cmd->in + cmd->to_host > 0 ? cmd->data : NULL;
    if (cmd->to_host > 0)
        memset(cmd->data, 0, cmd->to_host); /* what it does not fill shows nothing old */
    cmd->auth = NVMET_AUTH_NONE;
    c->sought = 1;
    c->active++;
    nvmet_cmd_enter(cmd, NVMET_CMD_SUBSYSTEM, NULL);
    nvmet_mail_send(c->s, c->s->first, &cmd->mail, nvmet_seat_submit);
}

/* ---- I/O ---- */

static void nvmet_cmd_hold(struct nvmet_cmd *cmd)
{
    cmd->c->s->stats.held++;
    nvmet_cmd_enter(cmd, NVMET_CMD_HELD, &cmd->c->held);
}

/* It is not to run, or not now. */
static void nvmet_cmd_refuse(struct nvmet_cmd *cmd, int what, const struct snic_nvme_cqe *cqe)
{
    if (cmd->reserved) /* nvmet_cmd_returned() starts it again */
        nvmet_inside_release(cmd);
    else if (what == SNIC_NVMESUB_IO_STATUS)
        nvmet_cmd_finish(cmd, cqe, 0);
    else if (what == SNIC_NVMESUB_IO_HOLD)
        nvmet_cmd_hold(cmd);
    else
        nvmet_cmd_free(cmd);
}

static void nvmet_cmd_start(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    struct snic_nvme_cqe cqe = {.status = cmd->verdict};
    int what = SNIC_NVMESUB_IO_STATUS;
    if (cmd->verdict == 0)
        what = snic_nvmesub_io_start(c->sub->view, &c->queue, &cmd->op, &cqe);
    if (what != SNIC_NVMESUB_IO_RUN) {
        nvmet_cmd_refuse(cmd, what, &cqe);
        return;
    }
    nvmet_inside_start(cmd);
}

/* Its data are complete. */
static void nvmet_cmd_go(struct nvmet_cmd *cmd)
{
    cmd->complete = 1;
    if (cmd->kind == NVMET_KIND_IO)
        nvmet_cmd_start(cmd);
    else
        nvmet_cmd_submit(cmd);
}

/* ---- Memory and data ---- */

/* Data in a capsule lie where the host put them: some users need them aligned. */
static int nvmet_cmd_misaligned(const struct nvmet_cmd *cmd)
{
    uint32_t align = 8;
    if (cmd->kind == NVMET_KIND_IO)
        align = cmd->op.kind == SNIC_NVMESUB_WRITE ? cmd->ns->dev->io->geometry.memory_align : 1;
    return cmd->in > 0 && cmd->wanted == 0 && (uintptr_t)cmd->data % align != 0;
}

static uint32_t nvmet_cmd_bytes(const struct nvmet_cmd *cmd)
{
    const struct snic_nvmesub_op *op = &cmd->op;
    uint32_t host = cmd->wanted > 0 || nvmet_cmd_misaligned(cmd) ? cmd->in : cmd->to_host;
    if (cmd->kind != NVMET_KIND_IO)
        return host;
    switch (op->kind) {
    case SNIC_NVMESUB_COMPARE:
        return 2 * op->bytes; /* the device's, then the host's */
    case SNIC_NVMESUB_VERIFY:
        return (uint32_t)snic_min_u64(op->length, cmd->c->s->o.data_max);
    default:
        return host;
    }
}

/* @return 0 it has to wait for an earlier R2T to be sent */
static int nvmet_cmd_grant(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    cmd->iov.base = cmd->data;
    cmd->iov.size = cmd->in;
    int r = snic_nvmetcp_target_grant(c->t, cmd->handle, &cmd->iov, 1, cmd->in,
                                      snic_loop_now(c->s->loop));
    if (r == SNIC_EAGAIN)
        return 0;
    SNIC_ASSERT(r == 0 || r == SNIC_ENOTCONN);
    nvmet_cmd_enter(cmd, NVMET_CMD_DATA, &c->granted);
    nvmet_conn_dirty(c);
    return 1;
}

/* @return 0 there is no memory for it now */
static int nvmet_cmd_place(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    uint32_t bytes = nvmet_cmd_bytes(cmd);
    uint32_t pages = (bytes + SNIC_NVMET__PAGE - 1) / SNIC_NVMET__PAGE;
    if (pages > 0 && !nvmet_pages_take(c, pages, &cmd->page))
        return 0;
    unsigned char *base = c->arena + (size_t)cmd->page * SNIC_NVMET__PAGE;
    unsigned char *host = base + (cmd->op.kind == SNIC_NVMESUB_COMPARE ? cmd->op.bytes : 0);
    cmd->pages = pages;
    cmd->admitted = 1;
    if (cmd->wanted > 0) {
        cmd->data = host;
    } else if (pages > 0 && cmd->in > 0) {
        memcpy(host, cmd->data, cmd->in);
        cmd->data = host;
    } else if (pages > 0) {
        cmd->data = base;
    }
    return 1;
}

/* @return 0 there is no memory, or no R2T, for it now */
static int nvmet_cmd_admit(struct nvmet_cmd *cmd)
{
    if (cmd->verdict != 0 && !cmd->reserved) { /* its namespace may be gone */
        nvmet_cmd_status(cmd, cmd->verdict, 0);
        return 1;
    }
    if (!cmd->admitted && !nvmet_cmd_place(cmd))
        return 0;
    if (cmd->wanted > 0)
        return nvmet_inside_reserve(cmd) || nvmet_cmd_grant(cmd);
    nvmet_cmd_go(cmd);
    return 1;
}

static void nvmet_cmd_need(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    if (snic_link_alone(&c->memory) && nvmet_cmd_admit(cmd))
        return;
    c->s->stats.waits++;
    nvmet_cmd_enter(cmd, NVMET_CMD_MEMORY, &c->memory);
}

void nvmet_cmd_granted(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    if (nvmet_cmd_grant(cmd))
        return;
    nvmet_cmd_enter(cmd, NVMET_CMD_MEMORY, &c->memory);
    nvmet_conn_dirty(c);
}

void nvmet_cmd_returned(struct nvmet_cmd *cmd)
{
    if (cmd->c->stopping) {
        nvmet_cmd_free(cmd);
    } else if (cmd->state == NVMET_CMD_RESERVED) {
        if (cmd->verdict != 0 || cmd->complete) {
            nvmet_cmd_start(cmd);
            return;
        }
        cmd->refused = 1;
        nvmet_cmd_granted(cmd);
    } else { /* it waits for an R2T or its data, and needs no reservation any more */
        cmd->refused = 1;
        nvmet_conn_dirty(cmd->c);
    }
}

void nvmet_cmd_memory(struct nvmet_conn *c)
{
    while (!snic_link_alone(&c->memory)) {
        if (!nvmet_cmd_admit(SNIC_CONTAINER(c->memory.next, struct nvmet_cmd, link)))
            return;
    }
}

/* ---- Events ---- */

static void nvmet_cmd_check(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    struct snic_nvme_cqe cqe;
    cmd->kind = NVMET_KIND_IO;
    switch (snic_nvmesub_io_check(c->sub->view, &c->queue, cmd->sqe, &cmd->op, &cqe)) {
    case SNIC_NVMESUB_IO_RUN:
        cmd->ns = &c->s->ns[c->sub->index][cmd->op.nsid - 1];
        nvmet_cmd_need(cmd);
        break;
    case SNIC_NVMESUB_IO_STATUS:
        nvmet_cmd_finish(cmd, &cqe, 0);
        break;
    case SNIC_NVMESUB_IO_FORWARD:
        cmd->kind = NVMET_KIND_FORWARD;
        nvmet_cmd_need(cmd);
        break;
    case SNIC_NVMESUB_IO_HOLD:
        nvmet_cmd_hold(cmd);
        break;
    default:
        nvmet_cmd_free(cmd);
        break;
    }
}

void nvmet_cmd_event(struct nvmet_conn *c, const struct snic_nvmetcp_event *e)
{
    SNIC_ASSERT(!snic_link_alone(&c->free_cmds)); /* as many as the engine has responses */
    struct nvmet_cmd *cmd = SNIC_CONTAINER(c->free_cmds.next, struct nvmet_cmd, link);
    snic_link_remove(&cmd->link);
    memset((unsigned char *)cmd + offsetof(struct nvmet_cmd, page), 0,
           offsetof(struct nvmet_cmd, iov) - offsetof(struct nvmet_cmd, page));
    cmd->ns = NULL;
    cmd->op.kind = 0;
    cmd->state = NVMET_CMD_MEMORY;
    cmd->arrived_ns = snic_loop_now(c->s->loop);
    cmd->sqe = e->sqe;
    cmd->handle = e->command;
    cmd->data = e->data;
    cmd->wanted = e->wanted;
    cmd->in = e->wanted > 0 ? e->wanted : e->data_size;
    cmd->to_host = e->to_host;
    if (e->type == SNIC_NVMETCP_CONNECT)
        cmd->kind = NVMET_KIND_CONNECT;
    else if (c->kind == NVMET_CONN_IO) {
        nvmet_cmd_check(cmd);
        return;
    } else
        cmd->kind = NVMET_KIND_ADMIN;
    nvmet_cmd_need(cmd);
}

void nvmet_cmd_data(struct nvmet_conn *c, const struct snic_nvmetcp_event *e)
{
    for (struct snic_link *l = c->granted.next; l != &c->granted; l = l->next) {
        struct nvmet_cmd *cmd = SNIC_CONTAINER(l, struct nvmet_cmd, link);
        if (cmd->handle != e->command)
            continue;
        SNIC_ASSERT(e->all);
        if (e->reason != 0) /* the data are damaged */
            cmd->verdict = SNIC_NVME_SC_TRANSPORT;
        if (e->reason != 0 && cmd->kind != NVMET_KIND_IO)
            nvmet_cmd_status(cmd, cmd->verdict, 0);
        else
            nvmet_cmd_go(cmd);
        return;
    }
    SNIC_ASSERT(c->stopping); /* it was dropped */
}

/** The fence is down. */
void nvmet_cmd_retry(struct nvmet_cmd *cmd)
{
    snic_link_remove(&cmd->link);
    if (cmd->verdict != 0)
        nvmet_cmd_status(cmd, cmd->verdict, 0);
    else if (cmd->complete)
        nvmet_cmd_start(cmd);
    else
        nvmet_cmd_check(cmd);
}

int nvmet_cmd_abort(struct nvmet_conn *c, uint16_t cid)
{
    struct snic_link *lists[] = {&c->memory, &c->held};
    for (size_t i = 0; i < SNIC_COUNTOF(lists); i++)
        for (struct snic_link *l = lists[i]->next; l != lists[i]; l = l->next) {
            struct nvmet_cmd *cmd = SNIC_CONTAINER(l, struct nvmet_cmd, link);
            if (cmd->reserved || snic_get_le16(cmd->sqe + 2) != cid)
                continue;
            nvmet_cmd_status(cmd, SNIC_NVME_SC_ABORT_REQUESTED, 0);
            return 1;
        }
    return 0;
}
