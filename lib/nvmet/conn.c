/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections: the socket on one side, the two engines on the other. Events of the socket only give
 * the connection's engine what has come, which keeps as much as it has slots and buffers for;
 * nvmet_pump() serves all connections that have something to do, one after the other.
 */
#include "nvmet/nvmet_priv.h"

void nvmet_conn_dirty(struct nvmet_conn *c)
{
    struct snic_nvmet *s = c->s;
    if (snic_link_alone(&c->dirty))
        snic_link_append(&s->dirty, &c->dirty);
    if (!s->pump_on) {
        s->pump_on = 1;
        snic_loop_defer(s->loop, &s->pump);
    }
}

static void nvmet_conn_fire(struct snic_timer *t, uint64_t now)
{
    struct nvmet_conn *c = SNIC_CONTAINER(t, struct nvmet_conn, timer);
    (void)now;
    c->armed_ns = SNIC_NEVER;
    nvmet_conn_dirty(c);
}

void nvmet_conn_init(struct nvmet_conn *c)
{
    snic_link_init(&c->link);
    snic_link_init(&c->dirty);
    snic_link_init(&c->memory);
    snic_link_init(&c->granted);
    snic_link_init(&c->held);
    snic_link_init(&c->free_cmds);
    snic_timer_init(&c->timer, nvmet_conn_fire);
    snic_io_waiter_init(&c->waiter, nvmet_flush_room);
    c->armed_ns = SNIC_NEVER;
    snic_link_append(&c->s->free_conns, &c->link);
}

/* ---- The end ---- */

static void nvmet_conn_put(struct nvmet_conn *c)
{
    while (!snic_queue_empty(&c->bufs))
        snic_net_put(c->s->net,
                     SNIC_CONTAINER(snic_queue_pop(&c->bufs), struct snic_net_buf, node));
}

static void nvmet_conn_free(struct nvmet_conn *c)
{
    struct snic_nvmet *s = c->s;
    for (uint32_t i = 0; i < s->cmds; i++) {
        SNIC_ASSERT(c->cmds[i].state == NVMET_CMD_FREE || c->cmds[i].state == NVMET_CMD_SENDING);
        if (c->cmds[i].state == NVMET_CMD_SENDING)
            s->stats.memory -= (uint64_t)c->cmds[i].pages * SNIC_NVMET__PAGE;
    }
    nvmet_conn_put(c);
    (void)snic_nvmetcp_target_fini(c->t);
    snic_loop_cancel(s->loop, &c->timer);
    c->armed_ns = SNIC_NEVER;
    snic_link_remove(&c->dirty);
    snic_link_remove(&c->link);
    snic_link_append(&s->free_conns, &c->link);
    c->used = 0;
    s->stats.conns--;
    nvmet_conn_done(s);
}

void nvmet_conn_done(struct snic_nvmet *s)
{
    if (!s->closing || s->leaving || s->stats.conns > 0)
        return;
    s->leaving = 1;
    nvmet_mail_send(s, s->first, &s->done, nvmet_seat_done);
}

void nvmet_conn_check(struct nvmet_conn *c)
{
    if (!c->used || !c->stopping || c->active > 0)
        return;
    if (c->sought && !c->leaving) {
        if (c->shutdown && c->sub != NULL && nvmet_inside_flush(c))
            return;
        c->leaving = 1;
        c->s->stats.queues -= c->kind == NVMET_CONN_IO;
        nvmet_mail_send(c->s, c->s->first, &c->stop, nvmet_seat_stopped);
    }
    if (c->over && c->net == NULL)
        nvmet_conn_dirty(c); /* which frees it, outside of whatever this is */
}

void nvmet_conn_left(struct nvmet_mail *m)
{
    struct nvmet_conn *c = SNIC_CONTAINER(m, struct nvmet_conn, stop);
    c->stopped = 1;
    nvmet_conn_check(c);
}

/* What has not reached the device, or the subsystem, is dropped. */
static void nvmet_conn_drop(struct nvmet_cmd *cmd)
{
    switch (cmd->state) {
    case NVMET_CMD_MEMORY:
    case NVMET_CMD_DATA:
    case NVMET_CMD_RESERVED:
    case NVMET_CMD_HELD:
        if (cmd->reserved)
            nvmet_inside_release(cmd);
        else
            nvmet_cmd_free(cmd);
        break;
    case NVMET_CMD_DEVICE:
        nvmet_inside_cancel(cmd);
        break;
    default:
        break;
    }
}

void nvmet_conn_stop(struct nvmet_conn *c)
{
    if (c->stopping)
        return;
    c->stopping = 1;
    /* What the host has ended before is seen by the device's loop (T6), which loads it. */
    atomic_store_explicit(&c->gone, 1, memory_order_release);
    if (c->kind == NVMET_CONN_IO)
        snic_nvmesub_io_lost(c->sub->view, &c->queue); /* T2: before any message */
    if (c->sought && !c->ended)
        nvmet_mail_send(c->s, c->s->first, &c->lost, nvmet_seat_lost);
    for (uint32_t i = 0; i < c->s->cmds; i++)
        nvmet_conn_drop(&c->cmds[i]);
    nvmet_conn_check(c);
    nvmet_conn_dirty(c);
}

void nvmet_conn_kill(struct nvmet_conn *c, int reason, int drain)
{
    snic_nvmetcp_target_end(c->t, reason, drain, snic_loop_now(c->s->loop));
    nvmet_conn_stop(c);
    nvmet_conn_dirty(c);
}

/* ---- Messages of the owner ---- */

/* The queue is connected, before its completion is sent. */
static void nvmet_conn_connected(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    struct snic_nvmetcp_queue q = {.opts_size = sizeof(q)};
    struct snic_nvme_sqe e;
    snic_nvme_sqe_load(&e, cmd->u.sub.sqe);
    q.entries = (e.cdw11 & 0xffff) + 1;
    q.flags = (e.cdw11 >> 16 & SNIC_NVME_CATTR_NO_SQ_FLOW) != 0 ? SNIC_NVMETCP_NO_SQ_FLOW : 0;
    c->sub = c->seat.sub;
    c->tenant = c->seat.tenant;
    c->kind = c->seat.kind;
    q.inline_max = c->kind == NVMET_CONN_IO ? c->s->o.capsule_bytes : 8192;
    if (c->kind == NVMET_CONN_IO) {
        c->s->stats.queues++;
        c->queue = c->mark = c->seat.queue;
    }
    if (c->seat.unproven) {
        c->proof_ns = snic_loop_now(c->s->loop) + c->s->first->auth.limit_ns;
    } else if (c->sub->index < c->s->o.subsystems_max) { /* one of discovery makes room */
        snic_link_remove(&c->link);
        snic_link_append(&c->s->up, &c->link);
    }
    int r = snic_nvmetcp_target_connected(c->t, &q);
    SNIC_ASSERT(r == 0 || r == SNIC_ENOTCONN); /* the engine has checked the entry */
}

/* What an authentication command has led to, before its response is sent. */
static void nvmet_conn_proof(struct nvmet_conn *c, uint8_t result)
{
    if (result == NVMET_AUTH_PENDING && c->proof_ns == SNIC_NEVER)
        c->proof_ns = snic_loop_now(c->s->loop) + c->s->first->auth.limit_ns;
    if (result == NVMET_AUTH_FAILING)
        c->proof_ns = snic_min_u64(c->proof_ns, snic_loop_now(c->s->loop) + c->s->o.close_ns);
    if (result != NVMET_AUTH_DONE)
        return;
    c->proof_ns = SNIC_NEVER;
    if (c->kind == NVMET_CONN_IO)
        snic_nvmesub_io_authenticated(&c->queue);
    snic_link_remove(&c->link);
    snic_link_append(&c->s->up, &c->link);
}

void nvmet_conn_return(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    struct nvmet_conn *c = cmd->c;
    struct snic_nvme_cqe cqe = cmd->u.sub.cqe;
    uint8_t auth = cmd->auth;
    SNIC_ASSERT(cmd->state == NVMET_CMD_SUBSYSTEM && c->active > 0);
    c->active--;
    if (cmd->result == NVMET_BACK_NONE || c->stopping) {
        nvmet_cmd_free(cmd);
        nvmet_conn_check(c);
        return;
    }
    if (cmd->kind == NVMET_KIND_CONNECT && cqe.status == 0)
        nvmet_conn_connected(cmd);
    if (cmd->kind == NVMET_KIND_FORWARD)
        snic_nvmesub_io_finish(c->sub->view, &c->queue, 0, &cqe);
    nvmet_conn_proof(c, auth);
    nvmet_cmd_finish(cmd, &cqe, cmd->u.sub.data_out);
    if (auth == NVMET_AUTH_OVER)
        nvmet_conn_kill(c, SNIC_EACCES, 1); /* behind the response */
}

void nvmet_conn_end(struct nvmet_mail *m)
{
    struct nvmet_conn *c = SNIC_CONTAINER(m, struct nvmet_conn, end);
    c->ended = 1;
    if (c->seat.reason == SNIC_NVMESUB_BY_SHUTDOWN)
        c->shutdown = 1;
    nvmet_conn_kill(c, SNIC_ECONNABORTED, 1);
}

void nvmet_conn_abort(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    struct nvmet_conn *c = cmd->aborts;
    cmd->result = (uint8_t)(!c->stopping && nvmet_cmd_abort(c, cmd->aborts_cid));
    nvmet_mail_send(c->s, c->s->first, m, nvmet_seat_aborted);
}

static void nvmet_conn_again(struct nvmet_conn *c)
{
    struct snic_link again;
    snic_link_init(&again);
    while (!snic_link_alone(&c->held)) {
        struct snic_link *l = c->held.next;
        snic_link_remove(l);
        snic_link_append(&again, l);
    }
    while (!snic_link_alone(&again))
        nvmet_cmd_retry(SNIC_CONTAINER(again.next, struct nvmet_cmd, link));
}

void nvmet_conn_unfence(struct snic_nvmet *s, struct nvmet_sub *sub)
{
    for (uint32_t i = 0; i < s->o.conns_max; i++) {
        struct nvmet_conn *c = &s->conns[i];
        if (c->used && c->sub == sub && !c->stopped)
            nvmet_conn_again(c);
    }
}

/* ---- Engine events ---- */

static void nvmet_conn_over(struct nvmet_conn *c, const struct snic_nvmetcp_event *e)
{
    c->over = 1;
    nvmet_conn_put(c);
    c->s->stats.violations += e->reason == SNIC_EPROTO || e->reason == SNIC_EOVERFLOW;
    c->s->stats.timeouts += e->reason == SNIC_ETIMEDOUT;
    if (c->net != NULL) {
        if (c->sending > 0 || c->s->closing || e->reason == SNIC_ETIMEDOUT ||
            e->reason == SNIC_ECANCELED)
            snic_net_abort(c->net);
        else
            snic_net_close(c->net);
    }
    nvmet_conn_stop(c);
}

static void nvmet_conn_events(struct nvmet_conn *c)
{
    struct snic_nvmetcp_event e;
    uint64_t now = snic_loop_now(c->s->loop);
    while (!c->over && snic_nvmetcp_target_poll(c->t, &e, now)) {
        switch (e.type) {
        case SNIC_NVMETCP_TERM:
            nvmet_conn_stop(c);
            break;
        case SNIC_NVMETCP_ENDED:
            nvmet_conn_over(c, &e);
            break;
        case SNIC_NVMETCP_SENT:
            nvmet_cmd_free((struct nvmet_cmd *)(uintptr_t)e.cookie);
            break;
        case SNIC_NVMETCP_DATA_IN:
            nvmet_cmd_data(c, &e);
            break;
        default:
            nvmet_cmd_event(c, &e);
            break;
        }
    }
}

/* ---- The socket ---- */

/* @return 1 bytes were consumed */
static int nvmet_conn_feed(struct nvmet_conn *c)
{
    uint64_t now = snic_loop_now(c->s->loop);
    int moved = 0;
    while (!c->over && !snic_queue_empty(&c->bufs)) {
        struct snic_net_buf *b = SNIC_CONTAINER(c->bufs.first, struct snic_net_buf, node);
        size_t used;
        (void)snic_nvmetcp_target_recv(c->t, b->data, b->size, &used, now);
        b->data += used;
        b->size -= (uint32_t)used;
        moved |= used > 0;
        if (b->size > 0)
            break; /* paused */
        snic_queue_pop(&c->bufs);
        snic_net_put(c->s->net, b);
    }
    return moved;
}

static void nvmet_conn_sent(struct snic_net_send_req *r)
{
    struct nvmet_conn *c = SNIC_CONTAINER(r, struct nvmet_conn, req);
    if (r->result == 0)
        snic_nvmetcp_target_sent(c->t, c->sending, snic_loop_now(c->s->loop));
    c->sending = 0;
    nvmet_conn_dirty(c);
}

static void nvmet_conn_output(struct nvmet_conn *c)
{
    size_t bytes;
    if (c->over || c->net == NULL || c->sending > 0)
        return;
    uint32_t n = snic_nvmetcp_target_output(c->t, c->iov, SNIC_NVMET__IOVS, &bytes);
    if (n == 0)
        return;
    memset(&c->req, 0, sizeof(c->req));
    c->req.region = SNIC_NO_REGION;
    c->req.done = nvmet_conn_sent;
    c->req.iov = c->iov;
    c->req.iov_count = n;
    if (snic_net_send(c->net, &c->req) == 1)
        c->sending = bytes;
    else
        snic_nvmetcp_target_rewind(c->t); /* `writable` or `closed` follows */
}

static void nvmet_conn_serve(struct nvmet_conn *c)
{
    if (!c->stopping && c->proof_ns <= snic_loop_now(c->s->loop))
        nvmet_conn_kill(c, SNIC_ETIMEDOUT, 0);
    do {
        nvmet_conn_events(c);
        nvmet_cmd_memory(c);
    } while (nvmet_conn_feed(c));
    nvmet_conn_events(c);
    nvmet_conn_output(c);
    if (c->over && c->net == NULL && c->active == 0 && (!c->sought || c->stopped)) {
        nvmet_conn_free(c);
        return;
    }
    uint64_t at = c->over ? SNIC_NEVER : snic_nvmetcp_target_deadline_ns(c->t);
    if (!c->stopping)
        at = snic_min_u64(at, c->proof_ns);
    if (at == c->armed_ns)
        return;
    c->armed_ns = at;
    if (at == SNIC_NEVER)
        snic_loop_cancel(c->s->loop, &c->timer);
    else
        snic_loop_arm(c->s->loop, &c->timer, at);
}

void nvmet_pump(struct snic_loop_msg *msg)
{
    struct snic_nvmet *s = SNIC_CONTAINER(msg, struct snic_nvmet, pump);
    struct snic_link now;
    s->pump_on = 0;
    snic_link_init(&now);
    while (!snic_link_alone(&s->dirty)) {
        struct snic_link *l = s->dirty.next;
        snic_link_remove(l);
        snic_link_append(&now, l);
    }
    while (!snic_link_alone(&now)) { /* those that become dirty meanwhile are served next time */
        struct nvmet_conn *c = SNIC_CONTAINER(now.next, struct nvmet_conn, dirty);
        snic_link_remove(&c->dirty);
        nvmet_conn_serve(c);
    }
}

static void nvmet_conn_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct nvmet_conn *c = ctx;
    (void)net;
    if (c->over) {
        snic_net_put(c->s->net, buf);
        return;
    }
    snic_queue_push(&c->bufs, &buf->node);
    (void)nvmet_conn_feed(c);
    nvmet_conn_dirty(c);
}

static void nvmet_conn_eof(void *ctx, struct snic_net_conn *net)
{
    struct nvmet_conn *c = ctx;
    (void)net;
    snic_nvmetcp_target_closed(c->t, snic_loop_now(c->s->loop));
    nvmet_conn_dirty(c);
}

static void nvmet_conn_writable(void *ctx, struct snic_net_conn *net)
{
    (void)net;
    nvmet_conn_dirty(ctx);
}

static void nvmet_conn_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct nvmet_conn *c = ctx;
    (void)net;
    (void)reason;
    c->net = NULL;
    snic_nvmetcp_target_closed(c->t, snic_loop_now(c->s->loop));
    nvmet_conn_dirty(c);
}

/* ---- Accept ---- */

/* The last place was taken: the oldest connection that is not up makes room. */
static void nvmet_conn_evict(struct snic_nvmet *s, const struct nvmet_conn *newest)
{
    for (struct snic_link *l = s->fresh.next; l != &s->fresh; l = l->next) {
        struct nvmet_conn *c = SNIC_CONTAINER(l, struct nvmet_conn, link);
        if (c == newest || c->stopping)
            continue;
        s->stats.evicted++;
        snic_link_remove(&c->link); /* it is not chosen again */
        nvmet_conn_kill(c, SNIC_ECANCELED, 0);
        return;
    }
}

static void nvmet_conn_begin(struct nvmet_conn *c)
{
    struct snic_nvmet *s = c->s;
    c->sub = NULL;
    c->active = 0;
    c->used = 1;
    c->kind = NVMET_CONN_NEW;
    c->over = c->sought = c->ended = c->stopping = c->leaving = c->stopped = c->shutdown = 0;
    atomic_store_explicit(&c->gone, 0, memory_order_relaxed); /* no other loop uses it now */
    memset(&c->seat, 0, sizeof(c->seat));
    snic_link_init(&c->seat.link);
    c->proof_ns = SNIC_NEVER;
    c->flush_next = 0;
    c->sending = 0;
    c->tenant = 0;
    memset(&c->queue, 0, sizeof(c->queue));
    memset(&c->mark, 0, sizeof(c->mark));
    memset(&c->bufs, 0, sizeof(c->bufs));
    memset(c->map, 0, snic_align_up(s->arena_pages, 64) / 8);
    if (s->arena_pages % 64 != 0)
        c->map[s->arena_pages / 64] = UINT64_MAX << s->arena_pages % 64;
    snic_link_init(&c->memory);
    snic_link_init(&c->granted);
    snic_link_init(&c->held);
    snic_link_init(&c->free_cmds);
    for (uint32_t i = 0; i < s->cmds; i++) {
        c->cmds[i].state = NVMET_CMD_FREE;
        c->cmds[i].c = c;
        snic_link_init(&c->cmds[i].link);
        snic_link_append(&c->free_cmds, &c->cmds[i].link);
    }
}

static void nvmet_conn_peer(struct nvmet_conn *c, uint32_t port)
{
    const struct snic_net_addr *a = &c->net->peer;
    memset(&c->peer, 0, sizeof(c->peer));
    c->peer.port = port;
    c->peer.address.family = a->family == SNIC_NET_IPV4   ? SNIC_NVME_ADRFAM_IPV4
                             : a->family == SNIC_NET_IPV6 ? SNIC_NVME_ADRFAM_IPV6
                                                          : 0;
    memcpy(c->peer.address.address, a->ip, sizeof(a->ip));
}

void nvmet_conn_accept(void *ctx, struct snic_net_conn *net, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {.recv = nvmet_conn_recv,
                                                         .eof = nvmet_conn_eof,
                                                         .writable = nvmet_conn_writable,
                                                         .closed = nvmet_conn_closed};
    struct nvmet_port *p = ctx;
    struct snic_nvmet *s = p->s;
    (void)peer;
    if (snic_link_alone(&s->free_conns) || s->closing) {
        s->stats.refused += !s->closing;
        snic_net_abort(net);
        return;
    }
    struct nvmet_conn *c = SNIC_CONTAINER(s->free_conns.next, struct nvmet_conn, link);
    nvmet_conn_begin(c);
    int r = snic_nvmetcp_target_init(&c->t, c->target_mem, snic_nvmetcp_target_memsize(&s->target),
                                     &s->target, snic_loop_now(s->loop));
    SNIC_ASSERT(r == 0);
    c->net = net;
    nvmet_conn_peer(c, p->number);
    snic_link_remove(&c->link);
    snic_link_append(&s->fresh, &c->link);
    s->stats.accepted++;
    s->stats.conns++;
    snic_net_bind(net, &events, c);
    nvmet_conn_dirty(c);
    if (snic_link_alone(&s->free_conns))
        nvmet_conn_evict(s, c);
}
