/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* LUNA's agent and target on streams, without a store. */
#include "solar_net.h"
#include "solar_peers.h"

#include <stdio.h>
#include <stdlib.h>

enum { LUNA_SENDS = 64, LUNA_CONNS = 2 };

struct luna_net_tx {
    struct snic_net_send_req r;
    struct snic_luna_send *send;
    struct luna_net_tx *next;
    int server;
};

struct luna_net_conn {
    struct snic_net_conn *c;
    uint32_t handle;    /* the server's */
    uint16_t conn, gen; /* the client's */
};

static struct {
    struct net_env *e;
    struct snic_net *net;
    struct snic_net_listener *listener;
    struct snic_net_addr server;
    struct snic_luna *c;
    struct snic_luna_target *t;
    struct luna_net_conn client[LUNA_CONNS];
    struct luna_net_conn accepted[LUNA_CONNS];
    struct luna_net_tx tx[5 * LUNA_SENDS];
    struct luna_net_tx *free;
    struct snic_ebs_io io[NET_SLOTS];
    struct snic_iov iov[NET_SLOTS];
    struct snic_loop_msg pump;
    struct snic_timer timer;
    uint32_t out;
    int pumping;
    int closing;
    unsigned char block[SNIC_EBS_BLOCK_BYTES];
    uint32_t crc;
} l;

static void luna_soon(void)
{
    if (!l.pumping) {
        l.pumping = 1;
        snic_loop_defer(l.e->loop, &l.pump);
    }
}

static void luna_returned(struct luna_net_tx *x)
{
    uint64_t now = snic_loop_now(l.e->loop);
    if (x->server)
        snic_luna_target_sent(l.t, x->send, now);
    else
        snic_luna_sent(l.c, x->send, now);
    x->next = l.free;
    l.free = x;
    l.out--;
    luna_soon();
}

static void luna_sent(struct snic_net_send_req *r)
{
    luna_returned(SNIC_CONTAINER(r, struct luna_net_tx, r));
}

static void luna_send(struct snic_net_conn *c, struct snic_luna_send *send, int server)
{
    struct luna_net_tx *x = l.free;
    l.free = x->next;
    l.out++;
    memset(&x->r, 0, sizeof(x->r));
    x->send = send;
    x->server = server;
    x->r.done = luna_sent;
    x->r.iov = send->iov;
    x->r.iov_count = send->iov_count;
    x->r.region = SNIC_NO_REGION;
    if (c == NULL || snic_net_send(c, &x->r) != 1) {
        net_must(l.closing, "a connection takes no more");
        luna_returned(x);
    }
}

/* ---- The server ---- */

static void luna_do(const struct snic_ebs_request *q, uint64_t now)
{
    struct snic_ebs_read_block b[SNIC_EBS_READ_BLOCKS];
    if (q->op != SNIC_EBS_DO_READ) {
        snic_luna_target_answer(l.t, q, SNIC_EBS_OK, q->data_crc, 0, now);
        return;
    }
    for (uint32_t i = 0; i < SNIC_EBS_READ_BLOCKS; i++)
        b[i] = (struct snic_ebs_read_block){.data = l.block, .wver = 1, .data_crc = l.crc};
    net_must(snic_luna_target_read_done(l.t, q, b, 1, now) == 1, "no send for an answer");
}

static void luna_server_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf)
{
    const struct luna_net_conn *k = ctx;
    const unsigned char *data = buf->data;
    size_t size = buf->size, used;
    struct snic_ebs_request q;
    uint64_t now = snic_loop_now(l.e->loop), began = net_begin(l.e);
    int r;
    (void)c;
    do {
        r = snic_luna_target_recv(l.t, k->handle, data, size, &used, &q, now);
        data += used;
        size -= used;
        if (r == 1)
            luna_do(&q, now);
    } while (r == 1);
    net_must(r == 0 || l.closing, "the server is paused");
    net_end(l.e, NET_ENGINE, began);
    snic_net_put(l.net, buf);
    luna_soon();
}

static void luna_server_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct luna_net_conn *k = ctx;
    (void)c;
    (void)reason;
    k->c = NULL;
    snic_luna_target_closed(l.t, k->handle, snic_loop_now(l.e->loop));
}

static void luna_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events ev = {.recv = luna_server_recv,
                                                     .closed = luna_server_closed};
    (void)ctx;
    (void)peer;
    for (uint32_t i = 0; i < LUNA_CONNS; i++) {
        struct luna_net_conn *k = &l.accepted[i];
        if (k->c != NULL)
            continue;
        net_must(snic_luna_target_opened(l.t, &k->handle, snic_loop_now(l.e->loop)) == 0,
                 "no connection left");
        k->c = c;
        snic_net_bind(c, &ev, k);
        return;
    }
    snic_net_abort(c);
}

static int luna_server_run(void)
{
    struct snic_luna_target_action act;
    uint64_t began = net_begin(l.e);
    uint32_t n = snic_luna_target_poll(l.t, &act, 1, snic_loop_now(l.e->loop));
    net_end(l.e, NET_ENGINE, began);
    if (n == 0)
        return 0;
    net_must(act.type == SNIC_LUNA_TARGET_SEND, "the server closes, or is paused");
    struct snic_net_conn *c = NULL;
    for (uint32_t i = 0; i < LUNA_CONNS; i++)
        if (l.accepted[i].c != NULL && l.accepted[i].handle == act.send->handle)
            c = l.accepted[i].c;
    luna_send(c, act.send, 1);
    return 1;
}

/* ---- The client ---- */

static void luna_client_connected(void *ctx, struct snic_net_conn *c, int error)
{
    const struct luna_net_conn *k = ctx;
    (void)c;
    net_must(error == 0 &&
                 snic_luna_connected(l.c, 0, k->conn, k->gen, snic_loop_now(l.e->loop)) == 0,
             "no connection");
    luna_soon();
}

static void luna_client_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf)
{
    const struct luna_net_conn *k = ctx;
    uint64_t began = net_begin(l.e);
    (void)c;
    (void)snic_luna_recv(l.c, 0, k->conn, k->gen, buf->data, buf->size, snic_loop_now(l.e->loop));
    net_end(l.e, NET_ENGINE, began);
    snic_net_put(l.net, buf);
    luna_soon();
}

static void luna_client_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct luna_net_conn *k = ctx;
    (void)c;
    k->c = NULL;
    net_must(l.closing, "a connection is gone");
    snic_luna_closed(l.c, 0, k->conn, k->gen, reason, snic_loop_now(l.e->loop));
}

static void luna_act(const struct snic_ebs_action *act)
{
    static const struct snic_net_stream_events ev = {
        .connected = luna_client_connected, .recv = luna_client_recv, .closed = luna_client_closed};
    struct luna_net_conn *k = &l.client[act->path % LUNA_CONNS];
    switch (act->type) {
    case SNIC_EBS_ACT_SEND:
        k = &l.client[act->send->conn % LUNA_CONNS];
        luna_send(k->c, act->send, 0);
        break;
    case SNIC_EBS_ACT_DONE:
        net_must(act->io->result == 0, "an I/O failed");
        l.e->done((uint32_t)(act->io - l.io));
        break;
    case SNIC_EBS_ACT_OPEN:
        k->conn = act->path;
        k->gen = act->gen;
        net_must(snic_net_connect(l.net, &l.server, &ev, k, &k->c) == 0, "connect");
        break;
    default:
        net_must(act->type != SNIC_EBS_ACT_CLOSE, "the agent closes a connection");
        break;
    }
}

static void luna_run(void)
{
    struct snic_ebs_action act;
    for (;;) {
        uint64_t now = snic_loop_now(l.e->loop), began = net_begin(l.e);
        uint32_t n = snic_luna_poll(l.c, &act, 1, now);
        net_end(l.e, NET_ENGINE, began);
        if (n == 1 && l.closing && act.type != SNIC_EBS_ACT_SEND)
            continue;
        if (n == 1)
            luna_act(&act);
        else if (!luna_server_run())
            break;
    }
    uint64_t deadline = snic_min_u64(snic_luna_deadline_ns(l.c), snic_luna_target_deadline_ns(l.t));
    if (deadline == SNIC_NEVER || l.closing)
        snic_loop_cancel(l.e->loop, &l.timer);
    else
        snic_loop_arm(l.e->loop, &l.timer, deadline);
}

static void luna_pump(struct snic_loop_msg *m)
{
    (void)m;
    l.pumping = 0;
    luna_run();
}

static void luna_timer(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
    luna_run();
}

static void luna_engines(struct net_env *e)
{
    struct snic_luna_opts o = {.opts_size = sizeof(o), .client_epoch = 1, .servers_max = 1};
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1, .seed = 2};
    struct snic_ebs_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 1, .blocks = NET_BLOCKS};
    uint64_t now = snic_loop_now(e->loop);
    o.seed = 1;
    o.conns = LUNA_CONNS;
    o.sends_max = LUNA_SENDS;
    o.chunks_max = 1;
    o.disk_blocks_max = NET_BLOCKS;
    o.flags = e->sec ? SNIC_LUNA_CRYPTO : 0;
    o.sec = net_sec(e);
    o.crc = k.crc = net_crc;
    o.crc_ctx = k.crc_ctx = e;
    k.sends_max = 4 * LUNA_SENDS;
    d.xts_key = net_key(e);
    if (e->qos) {
        d.ios_per_second = 1000000000;
        d.bytes_per_second = UINT64_C(1) << 40;
    }
    size_t size = snic_luna_memsize(&o);
    int r = snic_luna_init(&l.c, net_memory(size), size, &o, now);
    size = snic_luna_target_memsize(&k);
    if (r == 0)
        r = snic_luna_target_init(&l.t, net_memory(size), size, &k, now);
    if (r == 0)
        r = snic_luna_server_add(l.c, 0, now);
    if (r == 0)
        r = snic_luna_attach(l.c, 0, &d, now);
    for (uint32_t i = 0; i < NET_SEGMENTS && r == 0; i++)
        r = snic_luna_map(l.c, 0, i, i + 1, 0, 1, now);
    net_must(r == 0, "no engines");
}

static void luna_net_open(struct net_env *e)
{
    struct snic_net_uring_opts n = {
        .opts_size = sizeof(n), .recv_size = 65536, .pool_buffers = 256, .send_queue = LUNA_SENDS};
    char text[64];
    memset(&l, 0, sizeof(l));
    l.e = e;
    l.pump.fn = luna_pump;
    snic_timer_init(&l.timer, luna_timer);
    l.crc = net_crc(e, l.block, sizeof(l.block));
    for (uint32_t i = 0; i < SNIC_COUNTOF(l.tx); i++) {
        l.tx[i].next = l.free;
        l.free = &l.tx[i];
    }
    for (uint32_t i = 0; i < NET_SLOTS; i++)
        l.iov[i] = (struct snic_iov){net_data(i), SNIC_EBS_BLOCK_BYTES};
    peer_enter(e->ns[1]);
    net_must(snic_net_uring_open(&l.net, e->loop, &n) == 0 &&
                 snic_net_addr_parse(&l.server, "0.0.0.0:0") == 0 &&
                 snic_net_listen(l.net, &l.server, 0, luna_accept, NULL, &l.listener) == 0 &&
                 snic_net_listen_addr(l.listener, &l.server) == 0,
             "no listener");
    peer_enter(e->ns[0]);
    (void)snprintf(text, sizeof(text), "%s:%u", e->host, l.server.port);
    net_must(snic_net_addr_parse(&l.server, text) == 0, "the host is no address");
    luna_engines(e);
    luna_soon();
}

static void luna_net_submit(uint32_t slot, int read)
{
    struct snic_ebs_io *io = &l.io[slot];
    uint64_t began = net_begin(l.e);
    memset(io, 0, sizeof(*io));
    io->op = read ? SNIC_EBS_IO_READ : SNIC_EBS_IO_WRITE;
    io->lba = net_lba(slot);
    io->blocks = 1;
    io->iov = &l.iov[slot];
    io->iov_count = 1;
    net_must(snic_luna_submit(l.c, io, snic_loop_now(l.e->loop)) == 0, "submit");
    net_end(l.e, NET_ENGINE, began);
    luna_soon();
}

static void luna_net_close(void)
{
    l.closing = 1;
    snic_luna_halt(l.c, snic_loop_now(l.e->loop));
    luna_soon();
    while (l.pumping || l.out != 0)
        (void)snic_loop_once(l.e->loop, 1000000);
    snic_net_unlisten(l.listener);
    snic_net_shut(l.net);
    while (l.pumping)
        (void)snic_loop_once(l.e->loop, 1000000);
    snic_loop_cancel(l.e->loop, &l.timer);
    free(snic_luna_fini(l.c));
    free(snic_luna_target_fini(l.t));
}

static void luna_net_count(struct net_counts *k)
{
    net_count(l.net, k);
}

const struct net_who net_luna = {"luna", luna_net_open, luna_net_submit, luna_net_close,
                                 luna_net_count};
