/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The plain echo: the messages of NVMe/TCP by number and size, without what is in them. A message
 * is its type, its slot and padding; the server looks at no more, copies nothing, computes nothing,
 * and sends the answers of all messages that have come in one call, as the target does.
 */
#include "nvmetcp_net.h"

#include <stdlib.h>

enum { COMMAND, R2T, DATA, RESPONSE, TYPES };

/* One end of the one connection. */
struct end {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_conn *conn;
    void (*message)(uint32_t type, uint32_t slot);
    uint32_t sizes[TYPES];
    unsigned char *messages; /* all of all slots */
    /* input */
    unsigned char head[2];
    uint32_t have; /* of head */
    uint32_t left; /* of the message */
    /* output: those that wait, and those that are being sent */
    uint16_t out[2 * NET_DEPTH];
    uint32_t out_at, out_end;
    struct snic_net_send_req req;
    struct snic_iov iov[SNIC_NET_IOV_MAX];
    int sending;
    struct snic_loop_msg pump;
    int pump_on;
};

static struct end end;
static enum net_op op;

static void end_sizes(struct end *e, const struct net_case *c)
{
    uint32_t header = c->digests ? 4 : 0, block = NET_BLOCK + header;
    e->sizes[COMMAND] = 72 + header + (c->op == NET_WRITE ? block : 0);
    e->sizes[R2T] = 24 + header;
    e->sizes[DATA] = 24 + header + block;
    e->sizes[RESPONSE] = 24 + header + (c->op == NET_READ ? block : 0);
}

static unsigned char *end_message(struct end *e, uint32_t type, uint32_t slot)
{
    return e->messages + (type * NET_DEPTH + slot) * (size_t)(2 * NET_BLOCK);
}

static void end_sent(struct snic_net_send_req *r);

static void end_pump(struct snic_loop_msg *msg)
{
    struct end *e = SNIC_CONTAINER(msg, struct end, pump);
    uint32_t n = 0;
    e->pump_on = 0;
    if (e->sending)
        return;
    for (; n < SNIC_NET_IOV_MAX && e->out_at != e->out_end; n++, e->out_at++) {
        uint32_t m = e->out[e->out_at % SNIC_COUNTOF(e->out)];
        e->iov[n].base = end_message(e, m >> 8, m & 255);
        e->iov[n].size = e->sizes[m >> 8];
    }
    if (n == 0)
        return;
    memset(&e->req, 0, sizeof(e->req));
    e->req.region = SNIC_NO_REGION;
    e->req.done = end_sent;
    e->req.iov = e->iov;
    e->req.iov_count = n;
    e->sending = 1;
    net_must(snic_net_send(e->conn, &e->req) == 1, "the socket takes nothing");
}

static void end_soon(struct end *e)
{
    if (e->pump_on)
        return;
    e->pump_on = 1;
    snic_loop_defer(e->loop, &e->pump);
}

static void end_sent(struct snic_net_send_req *r)
{
    struct end *e = SNIC_CONTAINER(r, struct end, req);
    e->sending = 0;
    end_soon(e);
}

static void end_put(struct end *e, uint32_t type, uint32_t slot)
{
    e->out[e->out_end++ % SNIC_COUNTOF(e->out)] = (uint16_t)(type << 8 | slot);
    end_soon(e);
}

static void end_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct end *e = ctx;
    uint32_t at = 0;
    (void)conn;
    while (at < buf->size) {
        if (e->have < sizeof(e->head)) {
            e->head[e->have++] = buf->data[at++];
            if (e->have < sizeof(e->head))
                continue;
            net_must(e->head[0] < TYPES && e->head[1] < NET_DEPTH, "no such message");
            e->left = e->sizes[e->head[0]] - (uint32_t)sizeof(e->head);
        }
        uint32_t n = (uint32_t)snic_min_u64(e->left, buf->size - at);
        at += n;
        e->left -= n;
        if (e->left > 0)
            break;
        e->have = 0;
        e->message(e->head[0], e->head[1]);
    }
    snic_net_put(e->net, buf);
}

static void end_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    (void)ctx;
    (void)conn;
    (void)reason;
    end.conn = NULL;
}

static const struct snic_net_stream_events events = {.recv = end_recv, .closed = end_closed};

static void end_open(struct snic_loop *loop, const struct net_case *c,
                     void (*message)(uint32_t type, uint32_t slot))
{
    memset(&end, 0, sizeof(end));
    op = c->op;
    end.loop = loop;
    end.net = net_sockets(loop, 128);
    end.message = message;
    end.pump.fn = end_pump;
    end_sizes(&end, c);
    end.messages = net_memory(TYPES * NET_DEPTH * (size_t)(2 * NET_BLOCK));
    for (uint32_t type = 0; type < TYPES; type++) {
        for (uint32_t slot = 0; slot < NET_DEPTH; slot++) {
            end_message(&end, type, slot)[0] = (unsigned char)type;
            end_message(&end, type, slot)[1] = (unsigned char)slot;
        }
    }
}

/* ---- The server ---- */

static void server_message(uint32_t type, uint32_t slot)
{
    end_put(&end, type == COMMAND && op == NET_WRITE_R2T ? R2T : RESPONSE, slot);
}

static void server_accept(void *ctx, struct snic_net_conn *conn, const struct snic_net_addr *peer)
{
    (void)ctx;
    (void)peer;
    end.conn = conn;
    snic_net_bind(conn, &events, &end);
}

static void echo_serve(const struct net_case *c)
{
    struct snic_loop *loop = net_loop();
    struct snic_net_listener *l = NULL;
    struct snic_net_addr at;
    end_open(loop, c, server_message);
    net_must(snic_net_addr_parse(&at, "127.0.0.1:0") == 0, "address");
    net_must(snic_net_listen(end.net, &at, 0, server_accept, NULL, &l) == 0 &&
                 snic_net_listen_addr(l, &at) == 0,
             "the echo cannot listen");
    net_listens(at.port);
    (void)snic_loop_run(loop);
}

/* ---- The client ---- */

static void client_message(uint32_t type, uint32_t slot)
{
    if (type == R2T)
        end_put(&end, DATA, slot);
    else
        net_done(slot);
}

static void echo_open(const struct net_case *c, const struct snic_net_addr *at,
                      struct snic_loop *loop)
{
    end_open(loop, c, client_message);
    net_must(snic_net_connect(end.net, at, &events, &end, &end.conn) == 0, "no connection");
}

static void echo_submit(uint32_t slot)
{
    end_put(&end, COMMAND, slot);
}

static void echo_count(struct net_bytes *b)
{
    b->sent = end.net->stats.sent_bytes;
    b->received = end.net->stats.recv_bytes;
}

static void echo_close(void)
{
    snic_net_shut(end.net);
    free(end.messages);
}

const struct net_who net_echo = {"echo",      echo_serve, echo_open,
                                 echo_submit, echo_count, echo_close};
