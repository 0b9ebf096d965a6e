/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The next action for the owner. */
#include "nvmesub/nvmesub_priv.h"

/* Actions of a namespace, a host and a connection are found by where their struct lies. */
static int nvmesub_out_within(const void *p, const void *array, size_t count, size_t size,
                              size_t *index)
{
    uintptr_t a = (uintptr_t)p, b = (uintptr_t)array;
    if (a < b || a >= b + count * size)
        return 0;
    *index = (a - b) / size;
    return 1;
}

static void nvmesub_poll_cmd(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd,
                             struct snic_nvmesub_action *out)
{
    const struct nvmesub_conn *conn = &s->conns[cmd->conn];
    out->kind = cmd->waits;
    out->cmd = cmd;
    out->conn = cmd->conn;
    snic_link_remove(&cmd->link);
    cmd->waits = 0;
    if (out->kind == SNIC_NVMESUB_ABORT || out->kind == SNIC_NVMESUB_AUTH) {
        cmd->state = NVMESUB_CMD_OWNER;
        if (out->kind == SNIC_NVMESUB_ABORT) {
            out->conn = (uint32_t)cmd->wait[0];
            out->cid = (uint16_t)cmd->wait[1];
        }
        return;
    }
    cmd->state = 0;
    snic_link_remove(&cmd->owner);
    if (out->kind == SNIC_NVMESUB_COMPLETE && cmd->wait[0] == UINT64_MAX) {
        const struct nvmesub_ctrl *c = &s->ctrls[conn->ctrl];
        out->attached = 1;
        out->queue = (struct snic_nvmesub_queue){.conn = cmd->conn,
                                                 .epoch = conn->epoch,
                                                 .ctrl = (uint16_t)conn->ctrl,
                                                 .cntlid = nvmesub_cntlid(s, c),
                                                 .host = (uint16_t)c->host,
                                                 .qid = conn->qid,
                                                 .depth = conn->depth,
                                                 .head = conn->head,
                                                 .port = (uint16_t)conn->peer.port,
                                                 .no_sq_flow = conn->no_sq_flow,
                                                 .auth = conn->auth};
    }
}

static void nvmesub_poll_ns(struct nvmesub_ns *n, size_t index, const struct nvmesub_out *o,
                            uint32_t words, struct snic_nvmesub_action *out)
{
    out->nsid = (uint32_t)index + 1;
    if (o == &n->persist) {
        n->persist_sent = n->persist_want;
        out->sequence = n->persist_sent;
        return;
    }
    out->sequence = n->quiesce_sent;
    out->removal = n->removal_sent;
    memcpy(out->hosts, n->abort, words * sizeof(uint64_t));
    memset(n->abort, 0, words * sizeof(uint64_t));
}

/** The fence is down: its Connects, unless it has been raised again. */
static void nvmesub_poll_held(struct snic_nvmesub *s, struct nvmesub_host *h)
{
    while (h->ending == 0 && !snic_link_alone(&h->held))
        nvmesub_execute(s, SNIC_CONTAINER(h->held.next, struct snic_nvmesub_cmd, link));
    nvmesub_host_put(s, (uint32_t)(h - s->hosts));
}

int snic_nvmesub_poll(struct snic_nvmesub *s, struct snic_nvmesub_action *out)
{
    struct snic_link *l = s->out.next;
    struct nvmesub_host *host = NULL;
    size_t i;
    if (l == &s->out)
        return 0;
    memset(out, 0, sizeof(*out));
    struct nvmesub_out *o = SNIC_CONTAINER(l, struct nvmesub_out, link);
    if (nvmesub_out_within(l, s->conns, s->opts.conns_max, sizeof(*s->conns), &i)) {
        out->conn = (uint32_t)i;
        out->reason = s->conns[i].reason;
    } else if (nvmesub_out_within(l, s->hosts, s->opts.hosts_max, sizeof(*s->hosts), &i)) {
        out->host = (uint16_t)i;
        host = &s->hosts[i];
    } else if (nvmesub_out_within(l, s->ns, s->opts.namespaces_max, sizeof(*s->ns), &i)) {
        nvmesub_poll_ns(&s->ns[i], i, o, s->host_words, out);
    } else {
        nvmesub_poll_cmd(s, SNIC_CONTAINER(l, struct snic_nvmesub_cmd, link), out);
        return 1;
    }
    out->kind = o->kind;
    o->kind = 0;
    snic_link_remove(l);
    if (host != NULL)
        nvmesub_poll_held(s, host);
    return 1;
}
