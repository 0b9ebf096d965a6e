/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands that the loop of a namespace's device has, as the loop of their connection sees them:
 * what is sent there, what comes back, and who waits until nothing is inside any more (T5, T7).
 */
#include "nvmet/nvmet_priv.h"

static void nvmet_inside_send(struct nvmet_cmd *cmd, nvmet_mail_fn fn)
{
    cmd->away = 1;
    nvmet_mail_send(cmd->c->s, cmd->ns->dev->s, &cmd->mail, fn);
}

static void nvmet_inside_enter(struct nvmet_cmd *cmd)
{
    cmd->c->active++;
    cmd->ns->inside++;
}

/* Answer a QUIESCE when nothing is left that it waits for. */
static void nvmet_quiesced(struct nvmet_ns *ns)
{
    if (!ns->quiesce || ns->quiesce_left > 0 || (ns->removal && ns->inside > 0))
        return;
    ns->quiesce = 0;
    ns->removal = 0;
    nvmet_mail_send(ns->s, ns->s->first, &ns->mail, nvmet_seat_quiesced);
}

static void nvmet_inside_leave(struct nvmet_conn *c, struct nvmet_ns *ns)
{
    SNIC_ASSERT(c->active > 0 && ns->inside > 0);
    c->active--;
    ns->inside--;
}

/* ---- To the device ---- */

void nvmet_inside_start(struct nvmet_cmd *cmd)
{
    cmd->c->s->stats.at_device++;
    nvmet_cmd_enter(cmd, NVMET_CMD_DEVICE, NULL);
    if (cmd->reserved) {
        SNIC_ASSERT(cmd->reserved == NVMET_IS_RESERVED && !cmd->away);
        cmd->reserved = NVMET_NOT_RESERVED;
        nvmet_inside_send(cmd, nvmet_device_commit);
        return;
    }
    nvmet_inside_enter(cmd);
    nvmet_inside_send(cmd, nvmet_device_start);
}

int nvmet_inside_reserve(struct nvmet_cmd *cmd)
{
    if (cmd->kind != NVMET_KIND_IO || cmd->op.kind != SNIC_NVMESUB_WRITE ||
        cmd->ns->dev->reserve == NULL || cmd->reserved || cmd->refused)
        return 0;
    cmd->reserved = NVMET_IS_RESERVED;
    nvmet_inside_enter(cmd);
    nvmet_cmd_enter(cmd, NVMET_CMD_RESERVED, NULL);
    nvmet_inside_send(cmd, nvmet_device_reserve);
    return 1;
}

void nvmet_inside_cancel(struct nvmet_cmd *cmd)
{
    SNIC_ASSERT(cmd->away);
    if (cmd->cancelling)
        return;
    cmd->cancelling = 1;
    nvmet_mail_send(cmd->c->s, cmd->ns->dev->s, &cmd->cancel, nvmet_device_cancel);
}

void nvmet_inside_release(struct nvmet_cmd *cmd)
{
    if (cmd->state != NVMET_CMD_DATA || cmd->complete || cmd->c->stopping)
        nvmet_cmd_enter(cmd, NVMET_CMD_RESERVED, NULL);
    if (cmd->reserved != NVMET_IS_RESERVED)
        return;
    cmd->reserved = NVMET_CANCELLED;
    if (cmd->away)
        nvmet_inside_cancel(cmd);
    else
        nvmet_inside_send(cmd, nvmet_device_release);
}

/* ---- Back from the device ---- */

static void nvmet_inside_count(const struct nvmet_cmd *cmd, uint32_t status)
{
    struct snic_nvmet_stats *n = &cmd->c->s->stats;
    n->at_device--;
    if (status != 0)
        return;
    if (cmd->op.kind == SNIC_NVMESUB_READ) {
        n->reads++;
        n->read_bytes += cmd->op.bytes;
    } else if (cmd->op.kind == SNIC_NVMESUB_WRITE) {
        n->writes++;
        n->write_bytes += cmd->op.bytes;
    } else {
        n->others++;
    }
}

static void nvmet_inside_observe(const struct nvmet_cmd *cmd)
{
    const struct snic_nvmet *s = cmd->c->s;
    struct snic_nvmet_observed o = {.loop = s->index,
                                    .tenant = cmd->c->tenant,
                                    .subsystem = cmd->c->sub->index,
                                    .nsid = cmd->op.nsid,
                                    .kind = cmd->op.kind,
                                    .bytes = cmd->op.bytes,
                                    .status = cmd->status,
                                    .credit = cmd->credit};
    o.ns = snic_loop_now(s->loop) - cmd->arrived_ns;
    s->o.observe(s->o.observe_ctx, &o);
}

static void nvmet_inside_done(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    struct nvmet_ns *ns = cmd->ns;
    struct snic_nvme_cqe cqe;
    int read = cmd->op.kind == SNIC_NVMESUB_READ && cmd->status == 0;
    SNIC_ASSERT(cmd->state == NVMET_CMD_DEVICE);
    nvmet_inside_count(cmd, cmd->status);
    if (c->s->o.observe != NULL)
        nvmet_inside_observe(cmd);
    /* A host may close its I/O queues before it shuts down: their STOPPED, which the end of the
     * shutdown waits for, follows the flush. */
    if (cmd->op.kind == SNIC_NVMESUB_WRITE || cmd->op.kind == SNIC_NVMESUB_ZEROES)
        c->shutdown = 1;
    snic_nvmesub_io_done(c->sub->view, &c->queue, cmd->op.cid, cmd->status, cmd->credit, &cqe);
    nvmet_inside_leave(c, ns);
    ns->quiesce_left -= cmd->quiesced;
    if (c->stopping)
        nvmet_cmd_free(cmd);
    else
        nvmet_cmd_finish(cmd, &cqe, read ? cmd->op.bytes : 0);
    nvmet_quiesced(ns);
    nvmet_conn_check(c);
}

static void nvmet_inside_returned(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    struct nvmet_ns *ns = cmd->ns;
    SNIC_ASSERT(cmd->reserved != NVMET_NOT_RESERVED);
    cmd->reserved = NVMET_NOT_RESERVED;
    nvmet_inside_leave(c, ns);
    nvmet_cmd_returned(cmd);
    nvmet_quiesced(ns);
    nvmet_conn_check(c);
}

static void nvmet_inside_take(struct nvmet_cmd *cmd, uint8_t back)
{
    if (back == NVMET_BACK_DONE)
        nvmet_inside_done(cmd);
    else if (back == NVMET_BACK_RETURNED)
        nvmet_inside_returned(cmd);
    else if (cmd->reserved == NVMET_IS_RESERVED)
        nvmet_cmd_granted(cmd);
    else
        nvmet_inside_send(cmd, nvmet_device_release); /* it is not wanted any more */
}

void nvmet_inside_back(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    cmd->away = 0;
    if (cmd->cancelling)
        cmd->back = cmd->result; /* T5 */
    else
        nvmet_inside_take(cmd, cmd->result);
}

void nvmet_inside_cancelled(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, cancel);
    uint8_t back = cmd->back;
    cmd->cancelling = 0;
    cmd->back = NVMET_BACK_NONE;
    if (back != NVMET_BACK_NONE)
        nvmet_inside_take(cmd, back);
}

/* ---- Quiesce ---- */

static uint32_t nvmet_quiesce_status(const struct snic_nvmesub_action *a)
{
    return a->removal ? SNIC_NVMET__FAIL(INVALID_NS) : SNIC_NVME_SC_PREEMPT_ABORT;
}

static void nvmet_quiesce_cmd(struct nvmet_cmd *cmd, const struct snic_nvmesub_action *a,
                              struct nvmet_ns *ns)
{
    if (cmd->state == NVMET_CMD_DEVICE) {
        ns->quiesce_left += !cmd->quiesced;
        cmd->quiesced = 1;
    } else if (cmd->state != NVMET_CMD_SENDING) {
        cmd->verdict = (uint16_t)nvmet_quiesce_status(a); /* nvmet_cmd_start() gives it */
        if (cmd->reserved)
            nvmet_inside_release(cmd);
    }
}

void nvmet_inside_quiesce(struct nvmet_mail *m)
{
    struct nvmet_ns *ns = SNIC_CONTAINER(m, struct nvmet_ns, mail);
    struct snic_nvmet *s = ns->s;
    const struct snic_nvmesub_action *a = &ns->dev->quiesce;
    SNIC_ASSERT(!ns->quiesce);
    ns->present = ns->present && !a->removal;
    for (uint32_t i = 0; i < s->o.conns_max; i++) {
        struct nvmet_conn *c = &s->conns[i];
        if (!c->used || c->kind != NVMET_CONN_IO || c->sub != ns->dev->sub || c->stopped)
            continue;
        if (!a->removal && (a->hosts[c->queue.host / 64] >> c->queue.host % 64 & 1U) == 0)
            continue;
        for (uint32_t k = 0; k < s->cmds; k++)
            if (c->cmds[k].state != NVMET_CMD_FREE && c->cmds[k].kind == NVMET_KIND_IO &&
                c->cmds[k].op.nsid == a->nsid)
                nvmet_quiesce_cmd(&c->cmds[k], a, ns);
    }
    ns->quiesce = 1;
    ns->removal = a->removal;
    nvmet_quiesced(ns);
}

void nvmet_inside_added(struct nvmet_mail *m)
{
    SNIC_CONTAINER(m, struct nvmet_ns, added)->present = 1;
}

/* ---- Flushes of a shutdown ---- */

void nvmet_inside_flushed(struct nvmet_mail *m)
{
    struct nvmet_conn *c = SNIC_CONTAINER(m, struct nvmet_conn, flush_mail);
    struct nvmet_ns *ns = &c->s->ns[c->sub->index][c->flush_dev->nsid - 1];
    nvmet_inside_leave(c, ns);
    nvmet_quiesced(ns);
    nvmet_conn_check(c);
}

int nvmet_inside_flush(struct nvmet_conn *c)
{
    while (c->sub->devs != NULL && c->flush_next < c->s->o.namespaces_max) {
        struct nvmet_ns *ns = &c->s->ns[c->sub->index][c->flush_next++];
        if (!ns->present)
            continue;
        c->active++;
        ns->inside++;
        c->flush_dev = ns->dev;
        nvmet_mail_send(c->s, ns->dev->s, &c->flush_mail, nvmet_device_flush);
        return 1;
    }
    return 0;
}
