/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Connections: operations out, replies in, again after a loss. */
#include "load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS 10000000u
#define SLOT_BITS 16

static void load_connect(struct load_conn *c);

/* ---- Out ---- */

static void load_sent(struct snic_net_send_req *req);

static void load_flush(struct load_conn *c)
{
    if (c->sending || c->filled == 0 || c->conn == NULL)
        return;
    c->iov.base = c->halves[c->filling];
    c->iov.size = c->filled;
    memset(&c->req, 0, sizeof(c->req));
    c->req.done = load_sent;
    c->req.iov = &c->iov;
    c->req.iov_count = 1;
    c->req.region = SNIC_NO_REGION;
    c->filling ^= 1;
    c->filled = 0;
    c->sending = 1;
    if (snic_net_send(c->conn, &c->req) != 1)
        c->sending = 0; /* the connection is going: closed follows */
}

static void load_sent(struct snic_net_send_req *req)
{
    struct load_conn *c = SNIC_CONTAINER(req, struct load_conn, req);

    c->sending = 0;
    if (req->result == 0)
        load_flush(c);
}

/* Write operation @p i into the buffer. */
static void load_put(struct load_conn *c, uint32_t i)
{
    struct load *l = c->load;
    struct load_op *op = &c->ops[i];
    unsigned char *out = c->halves[c->filling] + c->filled;
    struct wire_request q = {.id = (uint64_t)op->generation << SLOT_BITS | i,
                             .page = op->page,
                             .lsn = op->lsn,
                             .previous = op->previous,
                             .offset = op->offset,
                             .op = op->op,
                             .flags = op->flags};
    size_t data = 0;

    if (op->op == WIRE_LOG) {
        data = q.length = (uint32_t)l->update_bytes;
        model_bytes(&l->model, op->page, op->lsn, out + WIRE_REQUEST);
    } else if (op->op == WIRE_READ || op->op == WIRE_WRITE) {
        q.length = l->page_bytes;
        if (op->op == WIRE_WRITE) {
            data = l->page_bytes;
            memcpy(out + WIRE_REQUEST, model_file(&l->model, op->page), data);
        }
    }
    c->filled += wire_request_put(out, &q) + data;
    op->state = OP_SENT;
}

static void load_issue_conn(struct load_conn *c)
{
    struct load *l = c->load;

    while (c->conn != NULL && c->spares > 0 && !l->over) {
        uint32_t i = c->spare[c->spares - 1];
        uint32_t generation = c->ops[i].generation + 1;

        memset(&c->ops[i], 0, sizeof(c->ops[i]));
        c->ops[i].generation = generation;
        if (!load_next(l, &c->ops[i]))
            break;
        c->spares--;
        c->ops[i].sent_ns = snic_loop_clock(l->loop);
        l->active++;
        load_put(c, i);
    }
    load_flush(c);
}

void load_issue(struct load *l)
{
    for (uint64_t i = 0; i < l->clients; i++)
        load_issue_conn(&l->conns[i]);
    if (l->over && l->active == 0)
        l->phase_over(l);
}

/* Operations that were refused for now. */
static void load_retry(struct snic_timer *t, uint64_t now)
{
    struct load *l = SNIC_CONTAINER(t, struct load, retry);

    (void)now;
    for (uint64_t i = 0; i < l->clients; i++) {
        struct load_conn *c = &l->conns[i];

        if (c->conn == NULL)
            load_connect(c);
        for (uint32_t k = 0; k < l->pipeline && c->conn != NULL && !c->sending; k++)
            if (c->ops[k].state == OP_AGAIN)
                load_put(c, k);
        load_flush(c);
        for (uint32_t k = 0; k < l->pipeline; k++)
            if (c->ops[k].state == OP_AGAIN)
                snic_loop_arm(l->loop, &l->retry, snic_loop_now(l->loop) + RETRY_NS);
    }
}

static void load_later(struct load *l)
{
    snic_loop_arm(l->loop, &l->retry, snic_loop_now(l->loop) + RETRY_NS);
}

/* ---- In ---- */

static void load_one(struct load_conn *c, const struct wire_reply *r, const unsigned char *data)
{
    struct load *l = c->load;
    uint32_t i = (uint32_t)(r->id & ((1u << SLOT_BITS) - 1));
    struct load_op *op = &c->ops[i];

    if (i >= l->pipeline || op->state != OP_SENT || op->generation != r->id >> SLOT_BITS)
        ex_die("protocol error: %s sent a reply to request %" PRIu64
               ", which is not in flight (%s)",
               l->address, r->id, wire_status_text(r->status));
    if (!load_reply(l, op, r, data)) {
        op->state = OP_AGAIN;
        l->again++;
        load_later(l);
        return;
    }
    ex_wait_moved(&l->wait);
    op->state = OP_FREE;
    c->spare[c->spares++] = i;
    l->active--;
}

/* Whole replies out of @p data. @return bytes used */
static size_t load_replies(struct load_conn *c, const unsigned char *data, size_t size)
{
    size_t at = 0;

    for (;;) {
        struct wire_reply r;
        int64_t n = wire_reply_get(&r, data + at, size - at);

        if (n < 0)
            ex_die("protocol error: %s sent a malformed reply: is it a page_server?",
                   c->load->address);
        if (n == 0)
            return at;
        load_one(c, &r, data + at + WIRE_REPLY);
        at += (size_t)n;
    }
}

static void load_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *b)
{
    struct load_conn *c = ctx;
    struct load *l = c->load;
    size_t used = 0;

    (void)conn;
    while (used < b->size && c->in_size > 0) { /* as much as makes the reply whole */
        size_t room = WIRE_REPLY + WIRE_DATA_MAX - c->in_size;
        size_t want = c->in_size < WIRE_REPLY ? WIRE_REPLY - c->in_size
                                              : snic_get_le32(c->in + 4) - c->in_size;
        size_t n = snic_min_u64(b->size - used, snic_min_u64(want, room));

        memcpy(c->in + c->in_size, b->data + used, n);
        c->in_size += n;
        used += n;
        if (load_replies(c, c->in, c->in_size) > 0)
            c->in_size = 0;
    }
    if (c->in_size == 0) {
        used += load_replies(c, b->data + used, b->size - used);
        memcpy(c->in, b->data + used, b->size - used);
        c->in_size = b->size - used;
    }
    snic_net_put(l->net, b);
    load_issue_conn(c);
    if (l->over && l->active == 0)
        l->phase_over(l);
}

/* ---- Connections ---- */

static void load_lost(struct load_conn *c)
{
    struct load *l = c->load;

    c->conn = NULL;
    c->filled = c->in_size = 0;
    c->sending = 0;
    for (uint32_t i = 0; i < l->pipeline; i++)
        if (c->ops[i].state == OP_SENT)
            c->ops[i].state = OP_AGAIN; /* L1 */
    load_later(l);
}

static void load_connected(void *ctx, struct snic_net_conn *conn, int error)
{
    struct load_conn *c = ctx;
    struct load *l = c->load;

    (void)conn;
    if (error != 0 && !l->reconnect)
        ex_die("cannot connect to %s: %s", l->address, snic_strerror(error));
    if (error == 0 && ++l->connected == l->clients)
        load_issue(l); /* all begin together */
    else if (error == 0 && l->connected > l->clients)
        load_issue_conn(c);
}

static void load_eof(void *ctx, struct snic_net_conn *conn)
{
    struct load_conn *c = ctx;

    if (!c->load->reconnect)
        ex_die("the server at %s closed a connection (--reconnect retries)", c->load->address);
    snic_net_abort(conn);
}

static void load_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    struct load_conn *c = ctx;
    struct load *l = c->load;

    (void)conn;
    l->gone++;
    if (l->phase > PHASE_CHECK)
        return; /* our own end */
    if (!l->reconnect)
        ex_die("connection to %s lost: %s (--reconnect retries)", l->address,
               snic_strerror(reason));
    l->lost++;
    load_lost(c);
}

static void load_connect(struct load_conn *c)
{
    static const struct snic_net_stream_events events = {
        .connected = load_connected, .recv = load_recv, .eof = load_eof, .closed = load_closed};
    struct load *l = c->load;
    int r = snic_net_connect(l->net, &l->addr, &events, c, &c->conn);

    if (r != 0)
        ex_die("cannot connect to %s: %s", l->address, snic_strerror(r));
}

void load_open(struct load *l)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o)};
    size_t half = (size_t)l->pipeline * (WIRE_REQUEST + WIRE_DATA_MAX);
    int r;

    ex_address("server", l->address, &l->addr);
    ex_open_files("clients", l->clients * 2);
    l->loop = ex_loop_open(0);
    o.conns_max = (uint32_t)l->clients * 2; /* the old ones go while new ones come */
    r = snic_net_uring_open(&l->net, l->loop, &o);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
    snic_timer_init(&l->retry, load_retry);
    l->wait = (struct ex_wait){
        .loop = l->loop, .timeout_s = l->timeout_s, .server = l->address, .kind = "a page_server"};
    ex_wait_start(&l->wait);
    l->conns = calloc((size_t)l->clients, sizeof(*l->conns));
    if (l->conns == NULL)
        ex_die("out of memory for %" PRIu64 " connections (--clients)", l->clients);
    for (uint64_t i = 0; i < l->clients; i++) {
        struct load_conn *c = &l->conns[i];

        c->load = l;
        c->ops = calloc((size_t)l->pipeline, sizeof(*c->ops));
        c->spare = calloc((size_t)l->pipeline, sizeof(*c->spare));
        c->halves[0] = malloc(half);
        c->halves[1] = malloc(half);
        c->in = malloc(WIRE_REPLY + WIRE_DATA_MAX);
        if (c->ops == NULL || c->spare == NULL || c->halves[0] == NULL || c->halves[1] == NULL ||
            c->in == NULL)
            ex_die("out of memory for the connections' buffers (--clients, --pipeline)");
        for (uint32_t k = 0; k < l->pipeline; k++)
            c->spare[c->spares++] = (uint32_t)l->pipeline - 1 - k;
        load_connect(c);
    }
}

void load_close(struct load *l)
{
    ex_wait_stop(&l->wait);
    snic_loop_cancel(l->loop, &l->retry);
    for (uint64_t i = 0; i < l->clients; i++)
        if (l->conns[i].conn != NULL)
            snic_net_abort(l->conns[i].conn);
    snic_net_shut(l->net);
    snic_loop_close(l->loop);
    for (uint64_t i = 0; i < l->clients; i++) {
        free(l->conns[i].ops);
        free(l->conns[i].spare);
        free(l->conns[i].halves[0]);
        free(l->conns[i].halves[1]);
        free(l->conns[i].in);
    }
    free(l->conns);
}
