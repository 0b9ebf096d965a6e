/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The client of a store against a node that answers anything. Bytes of the input are cut into
 * pieces, each sent after a request arrived or some time passed; a piece of the right form is
 * chosen now and then, so that answers are not only malformed. Every accepted operation is answered
 * once, no byte beyond its buffer is written, and snic_storeclient_check() holds.
 */
#include <stdlib.h>
#include <string.h>

#include "snicstore/storeclient.h"

#define CALLS 8
#define OUT 24

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const right[] = {
    "*8\r\n:0\r\n:0\r\n:7\r\n:7\r\n:0\r\n:3\r\n:0\r\n$5\r\nvalue\r\n",
    "*8\r\n:-2\r\n:0\r\n:0\r\n:0\r\n:0\r\n:3\r\n:0\r\n$-1\r\n",
    "*8\r\n:-1003\r\n:2\r\n:0\r\n:9\r\n:0\r\n:3\r\n:0\r\n$-1\r\n",
    "*8\r\n:0\r\n:0\r\n:7\r\n:7\r\n:0\r\n:3\r\n:0\r\n$"
    "40\r\n0123456789012345678901234567890123456789"
    "\r\n",
    "*2\r\n:1\r\n$8\r\nsim:1:80\r\n",
    "*2\r\n:0\r\n$8\r\nsim:2:80\r\n",
    "-CLUSTERDOWN x\r\n",
    "-UNKNOWN x\r\n",
};

struct rig {
    struct snic_world *world;
    struct snic_loop *loop[2];
    struct snic_net_fabric *fabric;
    struct snic_net *net[2];
    struct snic_net_conn *conn; /* the newest; NULL */
    struct snic_storeclient *c;
    const uint8_t *data;
    size_t size;
    uint32_t sends;
};

struct call {
    struct snic_storeclient_op op;
    int open;
    unsigned char out[OUT + 8];
};

struct piece {
    struct snic_net_send_req send;
    struct snic_iov iov;
    struct rig *rig;
    unsigned char bytes[];
};

static void sent(struct snic_net_send_req *s)
{
    struct piece *p = SNIC_CONTAINER(s, struct piece, send);
    p->rig->sends--;
    free(p);
}

static void reply(struct rig *r, const void *bytes, size_t n)
{
    struct piece *p;
    if (r->conn == NULL || n == 0)
        return;
    p = calloc(1, sizeof(*p) + n);
    REQUIRE(p != NULL);
    memcpy(p->bytes, bytes, n);
    p->rig = r;
    p->iov.base = p->bytes;
    p->iov.size = n;
    p->send.region = SNIC_NO_REGION;
    p->send.iov = &p->iov;
    p->send.iov_count = 1;
    p->send.done = sent;
    r->sends++;
    if (snic_net_send(r->conn, &p->send) != 1)
        sent(&p->send);
}

static uint8_t next(struct rig *r)
{
    if (r->size == 0)
        return 0;
    r->size--;
    return *r->data++;
}

static void answer(struct rig *r)
{
    uint8_t what = next(r);
    if (what < 0x80) {
        const char *text = right[what % SNIC_COUNTOF(right)];
        reply(r, text, strlen(text));
    } else {
        size_t n = snic_min_u64(what & 0x3f, r->size);
        reply(r, r->data, n);
        r->data += n;
        r->size -= n;
    }
}

static void server_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct rig *r = ctx;
    (void)conn;
    snic_net_put(r->net[1], buf);
    if (r->size > 0)
        answer(r);
}

static void server_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    struct rig *r = ctx;
    (void)reason;
    if (r->conn == conn)
        r->conn = NULL;
}

static void server_eof(void *ctx, struct snic_net_conn *conn)
{
    (void)ctx;
    snic_net_close(conn);
}

static void server_accept(void *ctx, struct snic_net_conn *conn, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = server_recv, .eof = server_eof, .closed = server_closed};
    struct rig *r = ctx;
    (void)peer;
    r->conn = conn;
    snic_net_bind(conn, &events, r);
}

static void done(struct snic_storeclient_op *op)
{
    struct call *c = SNIC_CONTAINER(op, struct call, op);
    REQUIRE(c->open);
    c->open = 0;
    for (uint32_t i = OUT; i < OUT + 8; i++)
        REQUIRE(c->out[i] == 0xee);
}

static void submit(struct rig *r, struct call *c, uint8_t how)
{
    if (c->open)
        return;
    memset(c, 0, sizeof(*c));
    memset(c->out, 0xee, sizeof(c->out));
    c->op.done = done;
    c->op.kind = 1 + how % 3;
    c->op.key = "key";
    c->op.key_size = 1 + how / 3 % 3u;
    c->op.data = c->op.kind == SNIC_STORE_PUT ? "value" : NULL;
    c->op.size = c->op.kind == SNIC_STORE_PUT ? 5 : 0;
    c->op.out = c->out;
    c->op.out_max = OUT;
    c->op.timeout_ns = 1000000u << (how >> 4);
    c->open = 1;
    REQUIRE(snic_storeclient_submit(r->c, &c->op) == 0);
}

static void run(struct rig *r, uint64_t ns)
{
    (void)snic_world_run(r->world, snic_world_now(r->world) + ns, UINT64_MAX);
    REQUIRE(snic_storeclient_check(r->c) == 0);
}

static void rig_open(struct rig *r, void **mem)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 1};
    struct snic_storeclient_opts o = {.opts_size = sizeof(o), .addr_count = 1, .client = 5};
    struct snic_net_listener *listener;
    struct snic_net_addr addr;
    memset(&addr, 0, sizeof(addr));
    REQUIRE(snic_net_addr_parse(&addr, "sim:1:80") == 0);
    REQUIRE(snic_world_open(&r->world, &w) == 0);
    REQUIRE(snic_net_fabric_open(&r->fabric, r->world, NULL) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        REQUIRE(snic_world_loop(r->world, i, &r->loop[i]) == 0);
        REQUIRE(snic_net_sim_open(&r->net[i], r->fabric, r->loop[i], NULL) == 0);
    }
    REQUIRE(snic_net_listen(r->net[1], &addr, 0, server_accept, r, &listener) == 0);
    o.loop = r->loop[0];
    o.net = r->net[0];
    o.addrs = &addr;
    o.ops_max = CALLS;
    size_t bytes = snic_storeclient_memsize(&o);
    *mem = aligned_alloc(SNIC_STORECLIENT_ALIGN, snic_align_up(bytes, SNIC_STORECLIENT_ALIGN));
    REQUIRE(*mem != NULL);
    REQUIRE(snic_storeclient_init(&r->c, *mem, bytes, &o) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rig r;
    struct call calls[CALLS];
    void *mem;
    memset(&r, 0, sizeof(r));
    memset(calls, 0, sizeof(calls));
    r.data = data;
    r.size = size;
    rig_open(&r, &mem);
    while (r.size > 0) {
        uint8_t what = next(&r);
        submit(&r, &calls[what % CALLS], next(&r));
        if ((what & 0x40) != 0)
            answer(&r);
        run(&r, (uint64_t)(1 + what / 8) * 10000000);
    }
    snic_storeclient_stop(r.c);
    run(&r, UINT64_C(60000000000));
    for (uint32_t i = 0; i < CALLS; i++)
        REQUIRE(!calls[i].open);
    REQUIRE(snic_storeclient_idle(r.c));
    (void)snic_storeclient_fini(r.c);
    for (uint32_t i = 0; i < 2; i++)
        snic_net_shut(r.net[i]);
    REQUIRE(r.sends == 0);
    snic_net_fabric_close(r.fabric);
    for (uint32_t i = 0; i < 2; i++)
        snic_loop_close(r.loop[i]);
    snic_world_close(r.world);
    free(mem);
    return 0;
}
