/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every structural invariant, by the letters of the files that state them. */
#include "nvmesub/nvmesub_priv.h"

static uint32_t nvmesub_length(const struct snic_link *head)
{
    uint32_t n = 0;
    for (const struct snic_link *l = head->next; l != head; l = l->next)
        n++;
    return n;
}

static int nvmesub_check_conn(const struct snic_nvmesub *s, uint32_t i)
{
    const struct nvmesub_conn *conn = &s->conns[i];
    if (conn->state == NVMESUB_CONN_FREE)
        return snic_link_alone(&conn->cmds);
    if (conn->state == NVMESUB_CONN_NEW)
        return conn->ctrl == SNIC_NVMESUB__NONE;
    const struct nvmesub_ctrl *c = &s->ctrls[conn->ctrl];
    if (c->state == NVMESUB_CTRL_FREE || (c->state == NVMESUB_CTRL_ENDING && !conn->ended))
        return 0;
    for (const struct snic_link *l = conn->cmds.next; conn->ended && l != &conn->cmds;
         l = l->next) { /* C1 */
        const struct snic_nvmesub_cmd *cmd = SNIC_CONTAINER(l, struct snic_nvmesub_cmd, owner);
        if (cmd->state != NVMESUB_CMD_OUT && cmd->state != NVMESUB_CMD_OWNER)
            return 0;
    }
    return conn->state == NVMESUB_CONN_ADMIN ? c->admin == i : c->queue[conn->qid - 1] == i;
}

static int nvmesub_check_ctrl(const struct snic_nvmesub *s, uint32_t i)
{
    const struct nvmesub_ctrl *c = &s->ctrls[i];
    uint64_t word = atomic_load_explicit(&s->view.ctrl[i], memory_order_relaxed);
    uint32_t io = 0;
    if (c->state == NVMESUB_CTRL_FREE)
        return snic_link_alone(&c->conns) && (word & SNIC_NVMESUB__C_LIVE) == 0;
    for (const struct snic_link *l = c->conns.next; l != &c->conns; l = l->next) { /* N1 */
        const struct nvmesub_conn *conn = SNIC_CONTAINER(l, struct nvmesub_conn, sibling);
        if (conn->ctrl != i)
            return 0;
        io += conn->state == NVMESUB_CONN_IO;
    }
    int live = c->state == NVMESUB_CTRL_LIVE && (c->csts & SNIC_NVME_CSTS_RDY) != 0 && !c->reset &&
               (c->csts & (SNIC_NVME_CSTS_SHST_OCCURRING | SNIC_NVME_CSTS_SHST_COMPLETE)) == 0;
    return io == c->io && (!c->draining || c->io > 0) && c->aer_count == nvmesub_length(&c->aers) &&
           c->aer_count <= SNIC_NVMESUB_AERS_MAX && c->aborts <= SNIC_NVMESUB_ABORTS_MAX &&
           c->notice_count <= SNIC_NVMESUB_NOTICES_MAX &&
           ((c->events & ~c->masked) == 0 || c->aer_count == 0) && word >> 32 == c->epoch &&
           ((word & SNIC_NVMESUB__C_LIVE) != 0) == live && s->hosts[c->host].used;
}

static int nvmesub_check_host(const struct snic_nvmesub *s, uint32_t i)
{
    const struct nvmesub_host *h = &s->hosts[i];
    uint32_t refs = 0, registrations = 0, ending = 0;
    for (uint32_t k = 0; k < s->opts.controllers_max; k++) {
        const struct nvmesub_ctrl *c = &s->ctrls[k];
        if (c->state == NVMESUB_CTRL_FREE || c->host != i)
            continue;
        refs++;
        ending += c->draining;
        for (const struct snic_link *l = c->conns.next; l != &c->conns; l = l->next)
            ending += SNIC_CONTAINER(l, struct nvmesub_conn, sibling)->fences;
    }
    for (uint32_t k = 0; k < s->opts.namespaces_max; k++)
        registrations += (uint32_t)nvmesub_bit(s->ns[k].regs, i);
    uint32_t fence = atomic_load_explicit(&s->view.fence[i], memory_order_relaxed);
    return refs == h->refs && registrations == h->registrations && ending == h->ending &&
           h->used == (refs + registrations + ending != 0 || !snic_link_alone(&h->held)) &&
           (h->ending == 0 || fence != 0) &&
           (h->ending != 0 || h->out.kind != 0 || snic_link_alone(&h->held));
}

static int nvmesub_check_ns(const struct snic_nvmesub *s, uint32_t i)
{
    const struct nvmesub_ns *n = &s->ns[i];
    uint32_t registrants = 0;
    struct nvmesub_seen seen;
    for (uint32_t k = 0; k < s->opts.hosts_max; k++) { /* R1 */
        registrants += n->keys[k] != 0;
        if (nvmesub_bit(n->regs, k) != (n->keys[k] != 0))
            return 0;
    }
    nvmesub_view_read((struct snic_nvmesub_view *)(uintptr_t)&s->view, i + 1, 0, 0, &seen);
    if (registrants != n->registrants || seen.present != (n->used && !n->removing) ||
        (seen.present && (seen.blocks != n->blocks || seen.rtype != n->rtype)))
        return 0;
    int single = n->rtype >= 1 && n->rtype <= SNIC_NVME_RESV_EXCLUSIVE_ACCESS_RO;
    if (single ? n->holder == SNIC_NVMESUB__NONE || !nvmesub_bit(n->regs, n->holder)
               : n->holder != SNIC_NVMESUB__NONE) /* R2 */
        return 0;
    return (n->rtype == 0 || registrants != 0) && n->quiesce_sent - n->quiesce_done <= 1 &&
           n->persist_done <= n->persist_sent && n->persist_sent <= n->persist_want &&
           (!n->removing || n->removal_sent || n->quiesce_sent != n->quiesce_done);
}

int snic_nvmesub_check(const struct snic_nvmesub *s)
{
    uint32_t free_conns = nvmesub_length(&s->free_conns), open = 0;
    for (uint32_t i = 0; i < s->opts.conns_max; i++) {
        open += s->conns[i].state != NVMESUB_CONN_FREE;
        if (!nvmesub_check_conn(s, i))
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = 0; i < s->opts.controllers_max; i++)
        if (!nvmesub_check_ctrl(s, i))
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < s->opts.hosts_max; i++)
        if (!nvmesub_check_host(s, i))
            return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < s->opts.namespaces_max; i++)
        if (!nvmesub_check_ns(s, i))
            return SNIC_ECORRUPT;
    return open == s->stats.conns && open + free_conns == s->opts.conns_max ? 0 : SNIC_ECORRUPT;
}
