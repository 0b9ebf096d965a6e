/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections: the socket on one side, the engine on the other. Events of the socket only give the
 * engine what has come; the pump serves. An end is orderly if it can be: this side sends no more
 * and waits for the peer's end of stream, which proves that nothing of this connection will happen
 * any more (P2).
 */
#include "nvmehost/nvmehost_priv.h"

static void nvmehost_conn_put(struct nvmehost_conn *c)
{
    while (!snic_queue_empty(&c->bufs))
        snic_net_put(c->p->s->net,
                     SNIC_CONTAINER(snic_queue_pop(&c->bufs), struct snic_net_buf, node));
}

/* ---- Engine events ---- */

static void nvmehost_conn_command(struct nvmehost_conn *c, struct snic_nvmetcp_command *cmd)
{
    if (cmd == &c->cmd || cmd == &c->p->aer || cmd == &c->p->alive) {
        nvmehost_path_done(c, cmd);
        return;
    }
    c->inflight--;
    c->room = c->p->entries - 1;
    nvmehost_slot_ended(SNIC_CONTAINER(cmd, struct nvmehost_slot, cmd));
}

static void nvmehost_conn_over(struct nvmehost_conn *c)
{
    struct snic_nvmehost *s = c->p->s;
    c->state = NVMEHOST_CONN_ENDING;
    c->usable = 0;
    nvmehost_conn_put(c);
    c->give_up_ns =
        snic_loop_now(s->loop) + snic_min_u64(s->o.fence_ns, s->o.kato_ms * UINT64_C(1000000));
    if (c->net == NULL)
        return;
    if (c->proved || !c->connected)
        snic_net_abort(c->net);
    else
        snic_net_shutdown(c->net);
}

static void nvmehost_conn_events(struct nvmehost_conn *c, uint64_t now)
{
    struct snic_nvmetcp_event e;
    while (c->state != NVMEHOST_CONN_ENDING && snic_nvmetcp_host_poll(c->e, &e, now)) {
        switch (e.type) {
        case SNIC_NVMETCP_READY:
            c->state = NVMEHOST_CONN_UP;
            nvmehost_path_ready(c);
            break;
        case SNIC_NVMETCP_DONE:
            nvmehost_conn_command(c, e.req);
            break;
        case SNIC_NVMETCP_TERM:
            c->term = 1;
            c->usable = 0;
            nvmehost_path_fail(c->p, e.reason, 0);
            break;
        case SNIC_NVMETCP_ENDED:
            nvmehost_conn_over(c);
            nvmehost_path_fail(c->p, e.reason, 0);
            break;
        default:
            break;
        }
    }
}

void nvmehost_conn_end(struct nvmehost_conn *c, int reason)
{
    uint64_t now = snic_loop_now(c->p->s->loop);
    if (c->state == NVMEHOST_CONN_CLOSED || c->state == NVMEHOST_CONN_ENDING || c->term)
        return;
    c->usable = 0;
    snic_nvmetcp_host_end(c->e, reason, now);
    nvmehost_conn_events(c, now);
}

/* ---- The socket ---- */

static int nvmehost_conn_feed(struct nvmehost_conn *c, uint64_t now)
{
    int moved = 0;
    while ((c->state == NVMEHOST_CONN_OPENING || c->state == NVMEHOST_CONN_UP) &&
           !snic_queue_empty(&c->bufs)) {
        struct snic_net_buf *b = SNIC_CONTAINER(c->bufs.first, struct snic_net_buf, node);
        size_t used = b->size;
        (void)snic_nvmetcp_host_recv(c->e, b->data, b->size, &used, now);
        b->data += used;
        b->size -= (uint32_t)used;
        moved |= used > 0;
        if (b->size > 0)
            break; /* paused */
        (void)snic_queue_pop(&c->bufs);
        snic_net_put(c->p->s->net, b);
    }
    return moved;
}

static void nvmehost_conn_sent(struct snic_net_send_req *r)
{
    struct nvmehost_conn *c = SNIC_CONTAINER(r, struct nvmehost_conn, req);
    if (r->result == 0 && c->state != NVMEHOST_CONN_ENDING)
        snic_nvmetcp_host_sent(c->e, c->sending, snic_loop_now(c->p->s->loop));
    c->sending = 0;
    nvmehost_kick(c->p->s);
}

void nvmehost_conn_output(struct nvmehost_conn *c)
{
    size_t bytes;
    if ((c->state != NVMEHOST_CONN_OPENING && c->state != NVMEHOST_CONN_UP) || c->net == NULL ||
        c->sending > 0)
        return;
    uint32_t n = snic_nvmetcp_host_output(c->e, c->iov, SNIC_NVMEHOST__IOVS, &bytes);
    if (n == 0)
        return;
    memset(&c->req, 0, sizeof(c->req));
    c->req.region = SNIC_NO_REGION;
    c->req.done = nvmehost_conn_sent;
    c->req.iov = c->iov;
    c->req.iov_count = n;
    if (snic_net_send(c->net, &c->req) == 1)
        c->sending = bytes;
    else
        snic_nvmetcp_host_rewind(c->e); /* `writable` or `closed` follows */
}

static void nvmehost_conn_connected(void *ctx, struct snic_net_conn *net, int error)
{
    struct nvmehost_conn *c = ctx;
    (void)net;
    c->connected = error == 0;
    if (error != 0)
        c->p->error = error; /* the engine knows of it by closed */
    nvmehost_kick(c->p->s);
}

static void nvmehost_conn_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct nvmehost_conn *c = ctx;
    (void)net;
    if (c->state == NVMEHOST_CONN_ENDING) {
        snic_net_put(c->p->s->net, buf);
        return;
    }
    snic_queue_push(&c->bufs, &buf->node);
    (void)nvmehost_conn_feed(c, snic_loop_now(c->p->s->loop));
    nvmehost_kick(c->p->s);
}

static void nvmehost_conn_eof(void *ctx, struct snic_net_conn *net)
{
    struct nvmehost_conn *c = ctx;
    (void)net;
    c->proved = 1;
    nvmehost_kick(c->p->s);
}

static void nvmehost_conn_writable(void *ctx, struct snic_net_conn *net)
{
    (void)net;
    nvmehost_kick(((struct nvmehost_conn *)ctx)->p->s);
}

static void nvmehost_conn_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct nvmehost_conn *c = ctx;
    (void)net;
    c->net = NULL;
    if (reason == SNIC_ECONNRESET && c->connected)
        c->proved = 1;
    if (!c->connected || !c->proved)
        c->p->error = reason == 0 || reason == SNIC_ECONNABORTED ? c->p->error : reason;
    nvmehost_kick(c->p->s);
}

/* ---- Open, serve, close ---- */

int nvmehost_conn_open(struct nvmehost_conn *c, uint32_t entries)
{
    static const struct snic_net_stream_events events = {.connected = nvmehost_conn_connected,
                                                         .recv = nvmehost_conn_recv,
                                                         .eof = nvmehost_conn_eof,
                                                         .writable = nvmehost_conn_writable,
                                                         .closed = nvmehost_conn_closed};
    struct snic_nvmehost *s = c->p->s;
    struct snic_nvmetcp_host_opts o;
    SNIC_ASSERT(c->state == NVMEHOST_CONN_CLOSED && c->net == NULL && c->inflight == 0);
    nvmehost_engine_opts(&s->o, entries, &o);
    int r = snic_nvmetcp_host_init(&c->e, c->mem, c->mem_size, &o, snic_loop_now(s->loop));
    SNIC_ASSERT(r == 0);
    memset(&c->bufs, 0, sizeof(c->bufs));
    c->sending = 0;
    c->room = entries - 1;
    c->connected = c->usable = c->term = c->proved = c->worked = 0;
    r = snic_net_connect(s->net, &c->p->addr, &events, c, &c->net);
    if (r != 0) {
        c->net = NULL;
        return r;
    }
    (void)snic_net_patience(c->net, s->o.kato_ms); /* a UNIX socket has none */
    c->state = NVMEHOST_CONN_OPENING;
    return 0;
}

void nvmehost_conn_serve(struct nvmehost_conn *c, uint64_t now)
{
    if (c->state == NVMEHOST_CONN_CLOSED)
        return;
    do {
        nvmehost_conn_events(c, now);
    } while (nvmehost_conn_feed(c, now));
    nvmehost_conn_events(c, now);
    if ((c->proved || c->net == NULL) && c->state != NVMEHOST_CONN_ENDING) {
        snic_nvmetcp_host_closed(c->e, now); /* what was received before was consumed */
        nvmehost_conn_events(c, now);
    }
    if (c->state != NVMEHOST_CONN_ENDING)
        return;
    if (c->net != NULL && (c->proved || now >= c->give_up_ns)) {
        c->give_up_ns = SNIC_NEVER;
        snic_net_abort(c->net);
    }
    if (c->net == NULL) {
        (void)snic_nvmetcp_host_fini(c->e);
        c->state = NVMEHOST_CONN_CLOSED;
    }
}

uint64_t nvmehost_conn_deadline(const struct nvmehost_conn *c)
{
    if (c->state == NVMEHOST_CONN_ENDING)
        return c->net != NULL ? c->give_up_ns : 0;
    return c->state == NVMEHOST_CONN_CLOSED ? SNIC_NEVER : snic_nvmetcp_host_deadline_ns(c->e);
}
