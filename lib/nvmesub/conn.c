/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections and controllers, from open to stopped; KATO.
 *   C1 A connection ends once: ended is set, its commands in the engine are dropped, END is emitted
 *      unless the transport lost it. It is free after stopped.
 *   C2 A controller that ends is marked in the view before any of its connections gets END.
 */
#include "nvmesub/nvmesub_priv.h"

/* ---- Controllers ---- */

static uint64_t nvmesub_ctrl_limit(const struct snic_nvmesub *s, const struct nvmesub_ctrl *c)
{
    if (c->kato_ms != 0)
        return c->kato_ms * SNIC_NVMESUB__MS;
    if (nvmesub_discovery(s) || (c->csts & SNIC_NVME_CSTS_RDY) == 0 || c->shutdown ||
        (c->csts & SNIC_NVME_CSTS_SHST_COMPLETE) != 0)
        return SNIC_NVMESUB__IDLE_NS;
    return SNIC_NEVER;
}

void nvmesub_ctrl_arm(struct snic_nvmesub *s, struct nvmesub_ctrl *c)
{
    uint64_t limit = nvmesub_ctrl_limit(s, c);
    if (c->state != NVMESUB_CTRL_LIVE || limit == SNIC_NEVER)
        snic_wheel_cancel(&s->wheel, &c->timer);
    else
        snic_wheel_arm(&s->wheel, &c->timer, s->now + limit);
}

struct nvmesub_ctrl *nvmesub_ctrl_new(struct snic_nvmesub *s, struct nvmesub_conn *conn,
                                      uint32_t host, uint32_t rule)
{
    if (snic_link_alone(&s->free_ctrls))
        return NULL;
    struct nvmesub_ctrl *c = SNIC_CONTAINER(s->free_ctrls.next, struct nvmesub_ctrl, order);
    struct nvmesub_ctrl kept = *c;
    snic_link_remove(&c->order);
    memset(c, 0, sizeof(*c));
    snic_timer_init(&c->timer, NULL);
    snic_link_init(&c->order);
    snic_link_init(&c->conns);
    snic_link_init(&c->aers);
    c->queue = kept.queue;
    c->changed = kept.changed;
    c->resv_mask = kept.resv_mask;
    c->epoch = kept.epoch + 1;
    memset(c->queue, 0xff, s->opts.queues_max * sizeof(*c->queue));
    memset(c->changed, 0, s->ns_words * sizeof(*c->changed));
    memset(c->resv_mask, 0, s->opts.namespaces_max);
    c->state = NVMESUB_CTRL_LIVE;
    c->host = host;
    c->rule = rule;
    c->arbitration = 7;
    c->temperature = 343;
    c->admin = (uint32_t)(conn - s->conns);
    conn->ctrl = nvmesub_ctrl_slot(s, c);
    snic_link_append(&c->conns, &conn->sibling);
    s->hosts[host].refs++;
    s->stats.controllers++;
    nvmesub_view_ctrl(s, c, 0);
    return c;
}

static void nvmesub_ctrl_free(struct snic_nvmesub *s, struct nvmesub_ctrl *c)
{
    if (c->state != NVMESUB_CTRL_ENDING || !snic_link_alone(&c->conns))
        return;
    SNIC_ASSERT(c->io == 0 && !c->draining && c->aborts == 0 && snic_link_alone(&c->aers));
    c->state = NVMESUB_CTRL_FREE;
    s->hosts[c->host].refs--;
    nvmesub_host_put(s, c->host);
    s->stats.controllers--;
    snic_link_append(&s->free_ctrls, &c->order); /* the id is used again as late as possible */
}

static void nvmesub_ctrl_drop_aers(struct snic_nvmesub *s, struct nvmesub_ctrl *c)
{
    while (!snic_link_alone(&c->aers))
        nvmesub_drop(s, SNIC_CONTAINER(c->aers.next, struct snic_nvmesub_cmd, link));
    c->aer_count = 0;
}

void nvmesub_ctrl_enable(struct snic_nvmesub *s, struct nvmesub_ctrl *c)
{
    uint32_t css = SNIC_NVME_CC_CSS(c->cc);
    int sizes = nvmesub_discovery(s) ||
                (SNIC_NVME_CC_IOSQES(c->cc) == 6 && SNIC_NVME_CC_IOCQES(c->cc) == 4);
    c->epoch++;
    if (!sizes || SNIC_NVME_CC_MPS(c->cc) != 0 || SNIC_NVME_CC_AMS(c->cc) != 0 ||
        (css != 0 && css != 6)) {
        c->csts = SNIC_NVME_CSTS_CFS;
        nvmesub_view_ctrl(s, c, 0);
        return;
    }
    c->csts = SNIC_NVME_CSTS_RDY;
    nvmesub_view_ctrl(s, c, 1);
    nvmesub_ctrl_arm(s, c);
}

void nvmesub_ctrl_drained(struct snic_nvmesub *s, struct nvmesub_ctrl *c)
{
    uint8_t reset = c->reset, shutdown = c->shutdown, draining = c->draining;
    c->reset = 0;
    c->shutdown = 0;
    c->draining = 0;
    if (shutdown)
        c->csts = (c->csts & SNIC_NVME_CSTS_RDY) | SNIC_NVME_CSTS_SHST_COMPLETE;
    if (reset) {
        c->csts &= ~(SNIC_NVME_CSTS_RDY | SNIC_NVME_CSTS_CFS);
        c->aec = 0;
        c->events = 0;
        c->masked = 0;
        c->credit = 0;
        if (c->state == NVMESUB_CTRL_LIVE && (c->cc & SNIC_NVME_CC_EN) != 0)
            nvmesub_ctrl_enable(s, c);
    }
    nvmesub_ctrl_arm(s, c);
    if (draining)
        nvmesub_fence_lower(s, c->host);
}

void nvmesub_ctrl_end(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint8_t reason, int all)
{
    if (c->state == NVMESUB_CTRL_FREE)
        return;
    c->epoch++;
    nvmesub_view_ctrl(s, c, 0); /* C2 */
    if (all) {
        c->state = NVMESUB_CTRL_ENDING;
        c->csts |= reason == SNIC_NVMESUB_BY_KATO ? SNIC_NVME_CSTS_CFS : 0U;
        snic_wheel_cancel(&s->wheel, &c->timer);
    } else {
        nvmesub_ctrl_drop_aers(s, c);
    }
    if (c->io != 0 && !c->draining) {
        c->draining = 1;
        nvmesub_fence_raise(s, c->host);
    }
    for (struct snic_link *l = c->conns.next, *next; l != &c->conns; l = next) {
        struct nvmesub_conn *conn = SNIC_CONTAINER(l, struct nvmesub_conn, sibling);
        next = l->next;
        if (conn->state == NVMESUB_CONN_IO || all)
            nvmesub_conn_end(s, conn, reason);
    }
    if (c->io == 0)
        nvmesub_ctrl_drained(s, c);
}

/* ---- Connections ---- */

int snic_nvmesub_open(struct snic_nvmesub *s, const struct snic_nvmesub_peer *peer)
{
    if (peer->port >= SNIC_NVMESUB_PORTS_MAX || peer->address.family > SNIC_NVME_ADRFAM_IPV6)
        return SNIC_EINVAL;
    if (snic_link_alone(&s->free_conns))
        return SNIC_EAGAIN;
    struct nvmesub_conn *conn = SNIC_CONTAINER(s->free_conns.next, struct nvmesub_conn, sibling);
    snic_link_remove(&conn->sibling);
    memset(conn, 0, sizeof(*conn));
    snic_link_init(&conn->out.link);
    snic_link_init(&conn->sibling);
    snic_link_init(&conn->cmds);
    conn->state = NVMESUB_CONN_NEW;
    conn->peer = *peer;
    conn->ctrl = SNIC_NVMESUB__NONE;
    s->stats.conns++;
    return (int)(conn - s->conns);
}

/** C1: what the engine has of it is returned; what the owner has comes back by itself. */
static void nvmesub_conn_drop(struct snic_nvmesub *s, struct nvmesub_conn *conn)
{
    for (struct snic_link *l = conn->cmds.next; l != &conn->cmds; l = l->next) {
        struct snic_nvmesub_cmd *cmd = SNIC_CONTAINER(l, struct snic_nvmesub_cmd, owner);
        if (cmd->state == NVMESUB_CMD_OUT && cmd->waits == SNIC_NVMESUB_ABORT)
            s->ctrls[conn->ctrl].aborts--;
        if (cmd->state == NVMESUB_CMD_EVENT)
            s->ctrls[conn->ctrl].aer_count--;
        if (cmd->state == NVMESUB_CMD_OUT &&
            (cmd->waits == SNIC_NVMESUB_ABORT || cmd->waits == SNIC_NVMESUB_AUTH))
            cmd->waits = SNIC_NVMESUB_DROP;
        else if (cmd->state != NVMESUB_CMD_OUT && cmd->state != NVMESUB_CMD_OWNER)
            nvmesub_drop(s, cmd);
    }
}

void nvmesub_conn_end(struct snic_nvmesub *s, struct nvmesub_conn *conn, uint8_t reason)
{
    if (conn->ended)
        return;
    conn->ended = 1;
    conn->reason = reason;
    nvmesub_conn_drop(s, conn);
    nvmesub_out_push(s, &conn->out, SNIC_NVMESUB_END);
}

/** One I/O queue is gone, and its controller is not: the host is fenced until it has stopped. A
 * lost one that has not authenticated has started nothing. */
static void nvmesub_conn_fence(struct snic_nvmesub *s, struct nvmesub_conn *conn)
{
    conn->fences = 1;
    nvmesub_fence_raise(s, s->ctrls[conn->ctrl].host);
}

void nvmesub_conn_delete(struct snic_nvmesub *s, struct nvmesub_conn *conn)
{
    nvmesub_conn_fence(s, conn);
    nvmesub_conn_end(s, conn, SNIC_NVMESUB_BY_HOST);
}

void snic_nvmesub_lost(struct snic_nvmesub *s, uint32_t conn_index, uint64_t now_ns)
{
    SNIC_ASSERT(conn_index < s->opts.conns_max);
    struct nvmesub_conn *conn = &s->conns[conn_index];
    SNIC_ASSERT(conn->state != NVMESUB_CONN_FREE);
    s->now = snic_max_u64(s->now, now_ns);
    if (conn->ended)
        return;
    conn->ended = 1;
    nvmesub_conn_drop(s, conn);
    if (conn->state == NVMESUB_CONN_ADMIN)
        nvmesub_ctrl_end(s, &s->ctrls[conn->ctrl], SNIC_NVMESUB_BY_LOSS, 1);
    else if (conn->state == NVMESUB_CONN_IO && !conn->auth)
        nvmesub_conn_fence(s, conn);
}

void snic_nvmesub_stopped(struct snic_nvmesub *s, uint32_t conn_index, uint64_t now_ns)
{
    SNIC_ASSERT(conn_index < s->opts.conns_max);
    struct nvmesub_conn *conn = &s->conns[conn_index];
    SNIC_ASSERT(conn->state != NVMESUB_CONN_FREE && conn->ended);
    SNIC_ASSERT(snic_link_alone(&conn->cmds));
    s->now = snic_max_u64(s->now, now_ns);
    if (conn->out.kind != 0)
        snic_link_remove(&conn->out.link);
    conn->out.kind = 0;
    snic_link_remove(&conn->sibling);
    uint8_t state = conn->state;
    conn->state = NVMESUB_CONN_FREE;
    atomic_store_explicit(&s->view.seen[conn_index], 0, memory_order_relaxed);
    snic_link_append(&s->free_conns, &conn->sibling);
    s->stats.conns--;
    if (state == NVMESUB_CONN_NEW)
        return;
    struct nvmesub_ctrl *c = &s->ctrls[conn->ctrl];
    if (state == NVMESUB_CONN_ADMIN) {
        c->admin = SNIC_NVMESUB__NONE;
    } else {
        c->queue[conn->qid - 1] = SNIC_NVMESUB__NONE;
        c->io--;
        if (conn->fences)
            nvmesub_fence_lower(s, c->host);
        if (c->io == 0 && (c->draining || c->reset || c->shutdown))
            nvmesub_ctrl_drained(s, c);
    }
    nvmesub_ctrl_free(s, c);
}

void snic_nvmesub_authenticated(struct snic_nvmesub *s, uint32_t conn)
{
    SNIC_ASSERT(conn < s->opts.conns_max && s->conns[conn].state != NVMESUB_CONN_FREE);
    s->conns[conn].auth = 0;
}

/* ---- Time ---- */

static int nvmesub_ctrl_seen(struct snic_nvmesub *s, struct nvmesub_ctrl *c)
{
    int seen = c->seen;
    c->seen = 0;
    for (struct snic_link *l = c->conns.next; l != &c->conns; l = l->next) {
        size_t i = (size_t)(SNIC_CONTAINER(l, struct nvmesub_conn, sibling) - s->conns);
        if (atomic_load_explicit(&s->view.seen[i], memory_order_relaxed) != 0) {
            seen = 1;
            atomic_store_explicit(&s->view.seen[i], 0, memory_order_relaxed);
        }
    }
    return seen;
}

void snic_nvmesub_tick(struct snic_nvmesub *s, uint64_t now_ns)
{
    struct snic_timer *t;
    s->now = snic_max_u64(s->now, now_ns);
    while ((t = snic_wheel_pop(&s->wheel, s->now)) != NULL) {
        struct nvmesub_ctrl *c = SNIC_CONTAINER(t, struct nvmesub_ctrl, timer);
        if (nvmesub_ctrl_seen(s, c)) {
            nvmesub_ctrl_arm(s, c);
            continue;
        }
        s->stats.expired += c->kato_ms != 0;
        nvmesub_ctrl_end(s, c, c->kato_ms != 0 ? SNIC_NVMESUB_BY_KATO : SNIC_NVMESUB_BY_IDLE, 1);
    }
}

uint64_t snic_nvmesub_deadline_ns(struct snic_nvmesub *s)
{
    return snic_wheel_deadline_ns(&s->wheel);
}
