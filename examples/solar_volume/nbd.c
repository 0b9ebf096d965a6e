/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections of NBD clients: bytes in, requests to the disk, replies out.
 *
 * A connection's memory goes when the net has closed it, none of its requests is inside and nothing
 * it says is under way.
 */
#include "nbd_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CMD_READ, CMD_WRITE, CMD_DISC, CMD_FLUSH, CMD_TRIM, CMD_CACHE, CMD_ZEROES };
enum { CMD_FUA = 1, CMD_NO_HOLE = 2, CMD_FAST = 16 };
#define REQUEST_MAGIC 0x25609513u
#define REPLY_MAGIC 0x67446698u
/* Of one who is not heard to read; a reply has 32 MiB at most. */
#define NBD_PATIENCE_NS UINT64_C(3000000000)

static void nbd_parse(struct nbd_conn *c);

/* ---- The end ---- */

static void nbd_free(struct nbd_conn *c)
{
    struct nbd *n = c->n;
    if (!c->gone || c->inside != 0 || c->says != 0)
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
static void nbd_hang_up(struct nbd_conn *c)
{
    if (c->state == NBD_ENDED && c->inside == 0 && !c->closing && !c->gone) {
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

void nbd_end(struct nbd_conn *c, const char *why)
{
    if (c->state == NBD_ENDED)
        return;
    if (why != NULL) {
        c->n->s.protocol++;
        ex_log(EX_WARNING, "an NBD client %s: its connection is closed", why);
    }
    c->state = NBD_ENDED;
    c->want = 0;
    nbd_forget_payload(c);
    nbd_drop_held(c);
    nbd_hang_up(c);
}

/* ---- What leaves ---- */

/* 1: the net has it, and its done will come. */
static int nbd_send(struct nbd_conn *c, struct snic_net_send_req *s)
{
    if (c->gone || snic_net_send(c->net, s) != 1)
        return 0;
    if (c->leaving++ == 0)
        c->moved_ns = snic_loop_now(c->n->loop);
    return 1;
}

static void nbd_left(struct nbd_conn *c)
{
    c->leaving--;
    c->moved_ns = snic_loop_now(c->n->loop);
}

static void nbd_said(struct snic_net_send_req *s)
{
    struct nbd_say *y = SNIC_CONTAINER(s, struct nbd_say, send);
    struct nbd_conn *c = y->c;
    free(y);
    nbd_left(c);
    c->says--;
    nbd_free(c);
}

void nbd_say(struct nbd_conn *c, const void *bytes, uint32_t size)
{
    struct nbd_say *y = calloc(1, sizeof(*y));
    if (y == NULL || size > sizeof(y->bytes)) {
        free(y);
        nbd_end(c, "finds no memory here");
        return;
    }
    memcpy(y->bytes, bytes, size);
    y->c = c;
    y->iov.base = y->bytes;
    y->iov.size = size;
    y->send.done = nbd_said;
    y->send.iov = &y->iov;
    y->send.iov_count = 1;
    y->send.region = SNIC_NO_REGION;
    if (nbd_send(c, &y->send)) {
        c->says++;
        return;
    }
    free(y);
    if (c->state == NBD_ENDED)
        return;
    /* It asks faster than it reads: an orderly end would wait for it. */
    nbd_end(c, "does not read what it asks for");
    snic_net_abort(c->net);
}

static void nbd_req_free(struct nbd_req *q)
{
    struct nbd_conn *c = q->c;
    c->bytes -= q->memory_size;
    free(q->memory);
    q->memory = NULL;
    q->next = c->free;
    c->free = q;
    c->inside--;
    if (c->gone) {
        nbd_free(c);
        return;
    }
    if (c->state == NBD_ENDED)
        nbd_hang_up(c);
    else
        nbd_parse(c);
}

static void nbd_replied(struct snic_net_send_req *s)
{
    struct nbd_req *q = SNIC_CONTAINER(s, struct nbd_req, send);
    nbd_left(q->c);
    nbd_req_free(q);
}

static uint32_t nbd_error(int result)
{
    switch (result) {
    case 0:
        return 0;
    case SNIC_EPERM:
    case SNIC_EROFS:
    case SNIC_ESTALE:
        return 1;
    case SNIC_EINVAL:
    case SNIC_ERANGE:
        return 22;
    case SNIC_ENOSPC:
        return 28;
    case SNIC_ENOTSUP:
        return 95;
    case SNIC_ECANCELED:
    case SNIC_EUNKNOWN:
        return 108;
    default:
        return 5;
    }
}

static void nbd_reply(struct nbd_req *q, int result)
{
    struct nbd_conn *c = q->c;
    snic_put_be32(q->head, REPLY_MAGIC);
    snic_put_be32(q->head + 4, nbd_error(result));
    c->n->s.errors += result != 0;
    q->iov[0].base = q->head;
    q->iov[0].size = sizeof(q->head);
    memset(&q->send, 0, sizeof(q->send));
    q->send.region = SNIC_NO_REGION;
    q->send.done = nbd_replied;
    q->send.iov = q->iov;
    q->send.iov_count = 1;
    if (result == 0 && q->b.op == SNIC_IO_READ) {
        q->iov[1].base = q->b.bytes;
        q->iov[1].size = q->b.length;
        q->send.iov_count = 2;
    }
    if (nbd_send(c, &q->send))
        return;
    if (c->state != NBD_ENDED) { /* or nbd_req_free() would go on with what it asked behind this */
        nbd_end(c, NULL);
        snic_net_abort(c->net);
    }
    nbd_req_free(q);
}

static void nbd_block_done(struct block_req *b, int result)
{
    struct nbd_req *q = SNIC_CONTAINER(b, struct nbd_req, b);
    if (result != 0)
        ex_log(EX_DEBUG, "an I/O failed: %s", snic_strerror(result));
    nbd_reply(q, result);
}

/* ---- Requests ---- */

static int nbd_judge(const struct nbd_conn *c, uint16_t flags, uint16_t type, uint64_t offset,
                     uint32_t length)
{
    static const uint16_t known[] = {[CMD_READ] = CMD_FUA,
                                     [CMD_WRITE] = CMD_FUA,
                                     [CMD_FLUSH] = CMD_FUA,
                                     [CMD_TRIM] = CMD_FUA,
                                     [CMD_ZEROES] = CMD_FUA | CMD_NO_HOLE};
    if (type > CMD_ZEROES || type == CMD_CACHE || type == CMD_DISC)
        return SNIC_EINVAL;
    if (type == CMD_ZEROES && (flags & CMD_FAST) != 0)
        return SNIC_ENOTSUP;
    if ((flags & ~known[type]) != 0)
        return SNIC_EINVAL;
    if (type == CMD_FLUSH)
        return offset == 0 && length == 0 ? 0 : SNIC_EINVAL;
    if (c->x->read_only && type != CMD_READ)
        return SNIC_EPERM;
    if (length == 0 || (type <= CMD_WRITE && length > NBD_REQUEST_MAX))
        return SNIC_EINVAL;
    if (offset > c->x->size || length > c->x->size - offset)
        return type == CMD_READ ? SNIC_EINVAL : SNIC_ENOSPC;
    return 0;
}

static void nbd_start(struct nbd_req *q)
{
    block_submit(&q->c->x->dev, &q->b);
}

/* A header is in c->in, and a request is free for it. */
static void nbd_request(struct nbd_conn *c)
{
    static const uint8_t ops[] = {[CMD_READ] = SNIC_IO_READ,
                                  [CMD_WRITE] = SNIC_IO_WRITE,
                                  [CMD_FLUSH] = SNIC_IO_FLUSH,
                                  [CMD_TRIM] = SNIC_IO_DISCARD,
                                  [CMD_ZEROES] = SNIC_IO_ZERO};
    const unsigned char *h = c->in;
    uint16_t flags = snic_get_be16(h + 4), type = snic_get_be16(h + 6);
    uint64_t offset = snic_get_be64(h + 16);
    uint32_t length = snic_get_be32(h + 24);
    c->have = 0;
    if (snic_get_be32(h) != REQUEST_MAGIC) {
        nbd_end(c, "sends no request");
        return;
    }
    if (type == CMD_DISC) {
        nbd_end(c, NULL);
        return;
    }
    if (type == CMD_WRITE && length > NBD_REQUEST_MAX) { /* its data are not to be waited for */
        nbd_end(c, "writes more than is allowed at once");
        return;
    }
    struct nbd_req *q = c->free;
    int result = nbd_judge(c, flags, type, offset, length);
    c->n->s.requests++;
    uint64_t room = type == CMD_WRITE ? length : 0;
    if (type == CMD_READ && result == 0)
        room = (uint64_t)length + 2 * BLOCK_BYTES;
    unsigned char *memory = room != 0 ? malloc(room) : NULL;
    if (room != 0 && memory == NULL) {
        nbd_end(c, "finds no memory here");
        return;
    }
    c->free = q->next;
    c->inside++;
    c->bytes += room;
    memset(&q->b, 0, offsetof(struct block_req, edge));
    q->c = c;
    q->memory = memory;
    q->memory_size = room;
    memcpy(q->head + 8, h + 8, 8);
    q->b.done = nbd_block_done;
    q->b.data = memory;
    q->b.offset = offset;
    q->b.length = length;
    q->b.op = type <= CMD_ZEROES ? ops[type] : 0;
    q->b.fua = (flags & CMD_FUA) != 0;
    if (type == CMD_WRITE && length != 0) {
        q->b.step = result; /* until its data are here */
        c->now = q;
        c->state = NBD_PAYLOAD;
        c->want = length;
    } else if (result != 0) {
        nbd_reply(q, result);
    } else {
        nbd_start(q);
    }
}

static void nbd_payload(struct nbd_conn *c)
{
    struct nbd_req *q = c->now;
    int result = q->b.step;
    c->now = NULL;
    c->have = 0;
    c->want = 28;
    c->state = NBD_REQUEST;
    if (result != 0)
        nbd_reply(q, result);
    else
        nbd_start(q);
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
static void nbd_parse(struct nbd_conn *c)
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
    n->crowd++;
    if (now < n->crowd_ns)
        return;
    ex_log(EX_WARNING, "more than %d NBD clients: %" PRIu64 " were turned away", NBD_CLIENTS,
           n->crowd);
    n->crowd = 0;
    n->crowd_ns = now + UINT64_C(5000000000);
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
        ex_die("no network for NBD: %s", snic_strerror(r));
    return net;
}

/* Who does not read would keep the process for ever. Requests that are at the disk may take as long
 * as they like. */
static void nbd_patience(struct snic_timer *t, uint64_t now)
{
    struct nbd *n = SNIC_CONTAINER(t, struct nbd, patience);
    for (struct snic_link *l = n->conns.next; l != &n->conns; l = l->next) {
        struct nbd_conn *c = SNIC_CONTAINER(l, struct nbd_conn, link);
        if (c->gone || c->cut || (c->leaving == 0 && !c->closing) ||
            now < c->moved_ns + NBD_PATIENCE_NS)
            continue;
        c->cut = 1;
        ex_log(EX_WARNING, "an NBD client does not read its answers: its connection is cut");
        snic_net_abort(c->net);
    }
    snic_loop_arm(n->loop, t, now + NBD_PATIENCE_NS / 8);
}

struct nbd *nbd_open(struct snic_loop *loop, const struct snic_net_addr *addr)
{
    struct nbd *n = calloc(1, sizeof(*n));
    char text[160];
    if (n == NULL)
        ex_die("no memory");
    n->loop = loop;
    n->net = nbd_net(loop);
    snic_link_init(&n->conns);
    snic_timer_init(&n->patience, nbd_patience);
    int r = snic_net_listen(n->net, addr, 0, nbd_accept, n, &n->listener);
    if (r != 0) {
        (void)snic_net_addr_format(addr, text, sizeof(text));
        ex_die("cannot listen at %s: %s%s", text, snic_strerror(r),
               r == SNIC_EINVAL ? " (is its folder there?)" : "");
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
    snic_net_shut(n->net);
    free(n);
}
