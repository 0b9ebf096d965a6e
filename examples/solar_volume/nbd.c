/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections of NBD clients: accept, receive, close. nbd_options.c and then nbd_request.c parse
 * the bytes; nbd_reply.c sends.
 *
 * A connection's memory is freed when the net has closed it, none of its requests is in flight and
 * no send of the handshake (nbd_send_bytes) is.
 */
#include "nbd_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a client that takes no bytes of its replies; one has 32 MiB at most. */
#define NBD_PATIENCE_NS UINT64_C(3000000000)

/* ---- The end ---- */

void nbd_free(struct nbd_conn *c)
{
    struct nbd *n = c->n;
    if (!c->gone || c->inside != 0 || c->handshakes != 0)
        return;
    snic_link_remove(&c->link);
    n->s.clients--;
    free(c);
    if (n->draining && snic_link_alone(&n->conns) && n->over != NULL) {
        void (*over)(void *) = n->over;
        n->over = NULL;
        over(n->ctx);
    }
}

static void nbd_drop_held(struct nbd_conn *c)
{
    for (struct snic_node *i = snic_queue_pop(&c->held); i != NULL; i = snic_queue_pop(&c->held))
        snic_net_put(c->n->net, SNIC_CONTAINER(i, struct snic_net_buf, node));
}

/* Orderly, after what is queued: requests that are inside are answered first. */
void nbd_hang_up(struct nbd_conn *c)
{
    if (c->state == NBD_ENDED && c->inside == 0 && !c->closing && !c->gone && !c->cut) {
        c->closing = 1;
        snic_net_close(c->net);
    }
}

static void nbd_forget_payload(struct nbd_conn *c)
{
    struct nbd_req *q = c->now;
    if (q == NULL)
        return;
    c->now = NULL;
    c->bytes -= q->memory_size;
    free(q->memory);
    q->memory = NULL;
    q->next = c->free;
    c->free = q;
    c->inside--;
}

/* One line in a second. */
static void nbd_log_ended(struct nbd *n, const char *why)
{
    uint64_t now = snic_loop_now(n->loop);
    char more[64] = "";
    n->s.protocol++;
    n->ended++;
    if (now < n->ended_ns)
        return;
    if (n->ended > 1)
        snprintf(more, sizeof(more), "; %" PRIu64 " such ends since the last such line", n->ended);
    n->ended = 0;
    n->ended_ns = now + UINT64_C(1000000000);
    ex_log(EX_WARNING, "NBD connection closed: the client %s%s", why, more);
}

void nbd_end(struct nbd_conn *c, const char *why)
{
    if (c->state == NBD_ENDED)
        return;
    if (why != NULL)
        nbd_log_ended(c->n, why);
    c->state = NBD_ENDED;
    c->want = 0;
    nbd_forget_payload(c);
    nbd_drop_held(c);
    nbd_hang_up(c);
}

/* ---- What comes ---- */

static int nbd_full(const struct nbd_conn *c)
{
    return c->state == NBD_REQUEST && (c->free == NULL || c->bytes >= NBD_BYTES);
}

/* Take from the first buffer what is wanted; 0: there is none. */
static int nbd_take(struct nbd_conn *c)
{
    if (snic_queue_empty(&c->held))
        return 0;
    struct snic_net_buf *b = SNIC_CONTAINER(c->held.first, struct snic_net_buf, node);
    uint32_t n = c->want - c->have < b->size ? c->want - c->have : b->size;
    unsigned char *to = c->state == NBD_PAYLOAD ? c->now->memory : c->in;
    if (c->state != NBD_SKIP)
        memcpy(to + c->have, b->data, n);
    c->have += n;
    b->data += n;
    b->size -= n;
    if (b->size == 0) {
        (void)snic_queue_pop(&c->held);
        snic_net_put(c->n->net, b);
    }
    return 1;
}

/* nbd_req_free() may call it from inside: it then finds the state as it is. */
void nbd_parse(struct nbd_conn *c)
{
    while (c->state != NBD_ENDED && !nbd_full(c) && !c->n->draining && nbd_take(c)) {
        if (c->have < c->want)
            continue;
        if (c->state == NBD_REQUEST)
            nbd_request(c);
        else if (c->state == NBD_PAYLOAD)
            nbd_payload(c);
        else
            nbd_handshake(c);
    }
}

static void nbd_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf)
{
    struct nbd_conn *c = ctx;
    (void)net;
    if (c->state == NBD_ENDED || c->n->draining) {
        snic_net_put(c->n->net, buf);
        return;
    }
    snic_queue_push(&c->held, &buf->node);
    nbd_parse(c);
}

static void nbd_eof(void *ctx, struct snic_net_conn *net)
{
    (void)net;
    nbd_end(ctx, NULL);
}

static void nbd_closed(void *ctx, struct snic_net_conn *net, int reason)
{
    struct nbd_conn *c = ctx;
    (void)net;
    (void)reason;
    c->gone = 1;
    nbd_end(c, NULL);
    nbd_free(c);
}

/* One line in five seconds. */
static void nbd_crowded(struct nbd *n)
{
    uint64_t now = snic_loop_now(n->loop);
    n->s.turned_away++;
    n->crowd++;
    if (now < n->crowd_ns)
        return;
    ex_log(EX_WARNING, "more than %d NBD clients: %" PRIu64 " were refused", NBD_CLIENTS, n->crowd);
    n->crowd = 0;
    n->crowd_ns = now + UINT64_C(5000000000);
}

/* A client that connects and sends nothing would occupy its place for ever. */
static void nbd_hello_over(struct snic_timer *t, uint64_t now)
{
    struct nbd *n = SNIC_CONTAINER(t, struct nbd, hello);
    int left = 0;
    for (struct snic_link *l = n->conns.next, *next; l != &n->conns; l = next) {
        struct nbd_conn *c = SNIC_CONTAINER(l, struct nbd_conn, link);
        next = l->next;
        if (c->gone || c->cut || c->state >= NBD_REQUEST)
            continue;
        if (now < c->since_ns + NBD_HELLO_NS) {
            left = 1;
            continue;
        }
        c->cut = 1;
        snic_net_abort(c->net);
        nbd_end(c, "has not chosen a disk in 10 seconds");
    }
    n->hello_armed = left;
    if (left)
        snic_loop_arm(n->loop, t, now + UINT64_C(1000000000));
}

static void nbd_accept(void *ctx, struct snic_net_conn *net, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events ev = {
        .recv = nbd_recv, .eof = nbd_eof, .closed = nbd_closed};
    struct nbd *n = ctx;
    int room = n->s.clients < NBD_CLIENTS;
    struct nbd_conn *c = n->draining || !room ? NULL : calloc(1, sizeof(*c));
    (void)peer;
    if (!room)
        nbd_crowded(n);
    if (c == NULL) {
        snic_net_abort(net);
        return;
    }
    c->n = n;
    c->net = net;
    for (int i = NBD_DEPTH; i-- > 0;) {
        c->reqs[i].next = c->free;
        c->free = &c->reqs[i];
    }
    snic_link_init(&c->link);
    snic_link_append(&n->conns, &c->link);
    n->s.clients++;
    n->s.accepted++;
    c->since_ns = snic_loop_now(n->loop);
    if (!n->hello_armed)
        snic_loop_arm(n->loop, &n->hello, c->since_ns + UINT64_C(1000000000));
    n->hello_armed = 1;
    snic_net_bind(net, &ev, c);
    nbd_hello(c);
}

/* ---- The server ---- */

/* Each connection has all its buffers, however many the others keep; those that are turned away
 * are connections for a moment. */
enum { NBD_BUFFERS = 4, NBD_TURNED_AWAY = 16 };
SNIC_STATIC_ASSERT((NBD_CLIENTS * NBD_BUFFERS & (NBD_CLIENTS * NBD_BUFFERS - 1)) == 0,
                   "a pool is a power of two");

static struct snic_net *nbd_net(struct snic_loop *loop)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o),
                                    .conns_max = NBD_CLIENTS + NBD_TURNED_AWAY,
                                    .recv_size = 65536,
                                    .recv_buffers = NBD_BUFFERS,
                                    .pool_buffers = NBD_CLIENTS * NBD_BUFFERS,
                                    .send_queue = 192,
                                    .taken_wait_ms = EX_TAKEN_WAIT_MS};
    struct snic_net *net;
    int r = snic_net_uring_open(&net, loop, &o);
    if (r != 0)
        ex_die("cannot open the network for NBD: %s", snic_strerror(r));
    return net;
}

/* A client that does not read would keep the process for ever. Requests that are at the disk have
 * no time limit. */
static void nbd_patience(struct snic_timer *t, uint64_t now)
{
    struct nbd *n = SNIC_CONTAINER(t, struct nbd, patience);
    for (struct snic_link *l = n->conns.next; l != &n->conns; l = l->next) {
        struct nbd_conn *c = SNIC_CONTAINER(l, struct nbd_conn, link);
        if (c->gone || c->cut || (c->leaving == 0 && !c->closing) ||
            now < c->moved_ns + NBD_PATIENCE_NS)
            continue;
        c->cut = 1;
        ex_log(EX_WARNING, "NBD connection closed: the client does not read its replies");
        snic_net_abort(c->net);
    }
    snic_loop_arm(n->loop, t, now + NBD_PATIENCE_NS / 8);
}

struct nbd *nbd_open(struct snic_loop *loop, const struct snic_net_addr *addr)
{
    struct nbd *n = calloc(1, sizeof(*n));
    char text[160];
    if (n == NULL)
        ex_die("out of memory for NBD connections");
    n->loop = loop;
    n->net = nbd_net(loop);
    snic_link_init(&n->conns);
    snic_timer_init(&n->patience, nbd_patience);
    snic_timer_init(&n->hello, nbd_hello_over);
    int r = snic_net_listen(n->net, addr, 0, nbd_accept, n, &n->listener);
    if (r != 0) {
        (void)snic_net_addr_format(addr, text, sizeof(text));
        ex_die("cannot listen on socket %s (--socket): %s", text, ex_listen_error(text, r));
    }
    return n;
}

int nbd_export(struct nbd *n, const char *name, struct snic_io *io)
{
    if (n->count == NBD_EXPORTS || strlen(name) >= NBD_NAME)
        return SNIC_ENOSPC;
    struct nbd_export *x = &n->exports[n->count++];
    memcpy(x->name, name, strlen(name) + 1);
    block_init(&x->dev, io);
    x->size = io->geometry.size;
    x->read_only = (io->caps & SNIC_IO_CAP_READONLY) != 0;
    return 0;
}

void nbd_stats(const struct nbd *n, struct nbd_stats *out)
{
    *out = n->s;
}

void nbd_drain(struct nbd *n, void (*over)(void *ctx), void *ctx)
{
    if (n->draining)
        return;
    n->draining = 1;
    n->over = over;
    n->ctx = ctx;
    snic_net_unlisten(n->listener);
    n->listener = NULL;
    if (snic_link_alone(&n->conns)) {
        n->over = NULL;
        over(ctx);
        return;
    }
    uint64_t now = snic_loop_now(n->loop);
    for (struct snic_link *l = n->conns.next, *next; l != &n->conns; l = next) {
        struct nbd_conn *c = SNIC_CONTAINER(l, struct nbd_conn, link);
        next = l->next;
        c->moved_ns = now;
        nbd_end(c, NULL);
    }
    snic_loop_arm(n->loop, &n->patience, now + NBD_PATIENCE_NS);
}

void nbd_close(struct nbd *n)
{
    snic_loop_cancel(n->loop, &n->patience);
    snic_loop_cancel(n->loop, &n->hello);
    snic_net_shut(n->net);
    free(n);
}
