/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A director between hostile clients and a hostile host, in a simulated world. The input is a
 * string of operations: bytes from a client (cut by a small framer), records of any content from
 * the host's ring, well-formed replies in any order, ends of either. Afterwards every structure
 * is checked, and everything must end.
 */
#include "snicstore/director.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 3, SEEN = 64, HOSTS = 5 };

struct fuzz_client {
    struct snic_net_conn *conn;
    struct snic_net_send_req send;
    struct snic_iov iov;
    unsigned char out[256];
    int busy;
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_world *w;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop[3]; /* DPU, host, clients */
    struct snic_net *net[2];   /* DPU, clients */
    struct snic_dma *dma[2];
    struct snic_channel_hub *hub[2];
    void *hub_mem[2];
    struct snic_channel *host;
    struct snic_channel_sender sender;
    struct snic_offload *o;
    struct snic_director *d;
    struct snic_net_addr addr;
    struct fuzz_client clients[CLIENTS];
    unsigned char heads[SEEN][16]; /* conn and seq of messages that the host got */
    uint32_t seen;
    uint32_t hosts; /* opened; each costs half a megabyte of rings */
    int drained;
};

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static uint32_t take_bytes(struct fuzz *f, unsigned char *to, uint32_t most)
{
    uint32_t n = (uint32_t)(f->left < most ? f->left : most);
    memcpy(to, f->in, n);
    f->in += n;
    f->left -= n;
    return n;
}

/* ---- The user's functions: a message is a byte of length (of all), then a byte of what ---- */

static int64_t fuzz_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    if (*state > 0) {
        uint64_t n = size < *state ? size : *state;
        *state -= n;
        return *state == 0 ? SNIC_DIRECTOR_REFUSE(n) : SNIC_DIRECTOR_DROP(n);
    }
    if (size < 2)
        return 0;
    uint64_t n = data[1] == 'L' ? 100u * data[0] : data[0];
    if (n < 2)
        return n == 0 ? SNIC_EPROTO : SNIC_EMSGSIZE;
    if (data[1] == 'X') {
        *state = n;
        return fuzz_frame(ctx, data, size, state);
    }
    return size >= n ? (int64_t)n : 0;
}

static void fuzz_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    (void)ctx;
    (void)o;
    *user += size;
    out->route = (enum snic_director_route)(msg[1] % 5);
    out->reply_size = size < 40 ? size : 40;
    memcpy(out->reply, msg, out->reply_size);
}

static uint32_t fuzz_error(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                           uint32_t max)
{
    (void)ctx;
    (void)error;
    uint32_t n = (uint32_t)(size < max ? size : max);
    if (n > 0)
        memcpy(out, data, n);
    return n;
}

static uint32_t fuzz_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                          uint32_t max)
{
    return fuzz_error(ctx, 0, msg, msg == NULL ? 0 : size, out, max);
}

/* ---- The host: whatever it likes ---- */

static int host_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct fuzz *f = ctx;
    (void)c;
    if (m->payload_bytes >= 32)
        memcpy(f->heads[f->seen++ % SEEN], m->payload, 16);
    return 1;
}

static void host_closed(void *ctx, struct snic_channel *c, int reason)
{
    struct fuzz *f = ctx;
    (void)reason;
    f->host = NULL;
    snic_channel_close(c);
}

static int dpu_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer)
{
    struct fuzz *f = ctx;
    return snic_director_upstream_channel(f->d, h, offer);
}

static void host_record(struct fuzz *f, uint32_t type, uint32_t head_bytes)
{
    unsigned char head[64];
    unsigned char body[1024];
    uint32_t h = take_bytes(f, head, head_bytes);
    uint32_t n = take_bytes(f, body, 4u * take(f));
    struct snic_iov v = {body, n};
    if (f->host != NULL && n > 0)
        (void)!snic_channel_up_push(&f->sender, type, head, h, &v, 1);
}

/* A well-formed batch with one entry. */
static void host_entry(struct fuzz *f, uint16_t kind, const unsigned char *ids)
{
    unsigned char e[32 + 256] = {0};
    uint32_t n = take(f) % 200u;
    memcpy(e, ids, 16);
    snic_put_le64(e + 16, take(f)); /* user or version */
    if (kind == 3) {
        n = 16; /* a hello that is accepted: what follows is judged by itself */
        snic_put_le32(e + 32, 8);
        snic_put_le32(e + 36, 8);
        snic_put_le32(e + 40, 1u << 30);
        snic_put_le32(e + 44, 2); /* SNIC_DIRECTOR__VERSION */
    } else {
        n = take_bytes(f, e + 32, n);
    }
    snic_put_le32(e + 24, n);
    snic_put_le16(e + 28, kind);
    snic_put_le16(e + 30, take(f) & 7);
    struct snic_iov v = {e, snic_align_up(32 + n, 8)};
    if (f->host != NULL)
        (void)!snic_channel_up_push(&f->sender, 1, NULL, 0, &v, 1);
}

static void host_open(struct fuzz *f)
{
    struct snic_channel_opts o = {.opts_size = sizeof(o),
                                  .kind = SNIC_DIRECTOR_CHANNEL_KIND,
                                  .up_bytes = 256 << 10,
                                  .down_bytes = 256 << 10};
    struct snic_channel_events ev = {.message = host_message, .closed = host_closed, .ctx = f};
    if (f->host != NULL || f->hosts == HOSTS || snic_channel_hub_count(f->hub[0]) >= 4 ||
        snic_channel_open(&f->host, f->hub[0], &o, &ev) != 0)
        return;
    f->hosts++;
    if (snic_channel_sender_init(&f->sender, f->host) != 0)
        abort();
}

/* ---- Clients ---- */

static void client_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    snic_net_put(c->net, b);
}

static void client_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct snic_net_conn **slot = ctx;
    (void)c;
    (void)reason;
    *slot = NULL;
}

static void client_sent(struct snic_net_send_req *r)
{
    SNIC_CONTAINER(r, struct fuzz_client, send)->busy = 0;
}

static void client_do(struct fuzz *f, uint8_t what)
{
    static const struct snic_net_stream_events ev = {.recv = client_recv, .closed = client_closed};
    struct fuzz_client *c = &f->clients[what % CLIENTS];
    if (c->conn == NULL) {
        c->busy = 0;
        if (snic_net_connect(f->net[1], &f->addr, &ev, &c->conn, &c->conn) != 0)
            c->conn = NULL;
        return;
    }
    switch (what / CLIENTS % 8) {
    case 0:
        snic_net_abort(c->conn);
        return;
    case 1:
        snic_net_shutdown(c->conn);
        return;
    case 2:
        snic_net_pause(c->conn, take(f) & 1);
        return;
    default:
        break;
    }
    if (c->busy)
        return;
    uint32_t n = take_bytes(f, c->out, take(f));
    c->iov = (struct snic_iov){c->out, n};
    c->send = (struct snic_net_send_req){
        .done = client_sent, .iov = &c->iov, .iov_count = 1, .region = SNIC_NO_REGION};
    if (n > 0 && snic_net_send(c->conn, &c->send) == 1)
        c->busy = 1;
}

/* ---- The world ---- */

static void *fuzz_memory(size_t size)
{
    void *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (p == NULL)
        abort();
    return p;
}

static void must(int r)
{
    if (r != 0)
        abort();
}

static void fuzz_open(struct fuzz *f)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = 1};
    struct snic_net_fabric_opts fo = {.opts_size = sizeof(fo), .recv_size = 512};
    struct snic_net_uring_opts no = {.opts_size = sizeof(no),
                                     .conns_max = 16,
                                     .recv_buffers = 2,
                                     .recv_size = 512,
                                     .pool_buffers = 32};
    struct snic_offload_opts oo = {.opts_size = sizeof(oo),
                                   .key_size = 8,
                                   .item_size = 8,
                                   .cache_capacity = 16,
                                   .contexts = 1,
                                   .read_max = 512,
                                   .pool_bytes = 8192};
    struct snic_director_opts o = {.opts_size = sizeof(o),
                                   .conns_max = 4,
                                   .message_max = 20000,
                                   .pending_max = 8,
                                   .conn_bytes = 16384,
                                   .pool_bytes = 1 << 20};
    struct snic_director_user u = {.frame = fuzz_frame,
                                   .predicate = fuzz_predicate,
                                   .protocol_error = fuzz_error,
                                   .host_gone = fuzz_gone,
                                   .ctx = f};
    struct snic_offload_user ou = {0};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_net_addr at = {.family = SNIC_NET_SIM, .node = 0, .port = 1};
    must(snic_world_open(&f->w, &wo));
    must(snic_net_fabric_open(&f->fabric, f->w, &fo));
    for (uint32_t i = 0; i < 3; i++)
        must(snic_world_loop(f->w, i, &f->loop[i]));
    must(snic_net_sim_open(&f->net[0], f->fabric, f->loop[0], &no));
    must(snic_net_sim_open(&f->net[1], f->fabric, f->loop[2], &no));
    must(snic_offload_init(&f->o, fuzz_memory(snic_offload_memsize(&oo)), snic_offload_memsize(&oo),
                           f->loop[0], NULL, &ou, &oo));
    o.flags = take(f) & 1;
    size_t n = snic_director_memsize(&o);
    must(snic_director_init(&f->d, fuzz_memory(n), n, f->net[0], f->o, &u, &o));
    must(snic_director_listen(f->d, &at, 0, &f->addr));
    must(snic_dma_local_open(&f->dma[0], f->loop[1], &none, &f->dma[1], f->loop[0], &none));
    for (int i = 0; i < 2; i++) {
        struct snic_channel_hub_opts ho = {
            .opts_size = sizeof(ho), .accept = i == 1 ? dpu_accept : NULL, .ctx = f};
        n = snic_channel_hub_memsize(&ho);
        f->hub_mem[i] = fuzz_memory(n);
        must(snic_channel_hub_init(&f->hub[i], f->hub_mem[i], n, f->dma[i], &ho));
    }
}

static void fuzz_drained(void *ctx)
{
    *(int *)ctx = 1;
}

static void fuzz_close(struct fuzz *f)
{
    for (int i = 0; i < CLIENTS; i++)
        if (f->clients[i].conn != NULL)
            snic_net_abort(f->clients[i].conn);
    snic_director_drain(f->d, fuzz_drained, &f->drained);
    snic_loop_wake(f->loop[0]);
    (void)snic_world_run(f->w, snic_world_now(f->w) + 20000000000u, 2000000);
    if (!f->drained || snic_director_check(f->d) != 0)
        abort();
    snic_director_upstream_close(f->d);
    if (f->host != NULL)
        snic_channel_close(f->host);
    (void)snic_world_run(f->w, snic_world_now(f->w) + 1000000000u, 1000000);
    free(snic_director_fini(f->d));
    if (snic_offload_check(f->o) != 0)
        abort();
    free(snic_offload_fini(f->o));
    for (int i = 0; i < 2; i++)
        free(snic_channel_hub_fini(f->hub[i]));
    snic_net_shut(f->net[0]);
    snic_net_shut(f->net[1]);
    for (int i = 0; i < 3; i++)
        snic_loop_close(f->loop[i]);
    snic_net_fabric_close(f->fabric);
    snic_world_close(f->w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz;
    struct fuzz *f = &fuzz;
    static const unsigned char unknown_peer[16];
    memset(f, 0, sizeof(*f));
    f->in = data;
    f->left = size < 8192 ? size : 8192;
    fuzz_open(f);
    while (f->left > 0) {
        uint8_t op = take(f);
        switch (op % 10) {
        case 0:
            host_record(f, op / 10 % 3, 0);
            break;
        case 1:
            host_record(f, 2, 48);
            break;
        case 2:
            host_open(f);
            break;
        case 3:
            host_entry(f, 3, unknown_peer);
            break;
        case 4:
            host_entry(f, (uint16_t)(op / 10 % 9), f->heads[take(f) % SEEN]);
            break;
        case 5:
            host_entry(f, 4, f->heads[f->seen == 0 ? 0 : (f->seen - 1) % SEEN]);
            break;
        case 6:
            (void)snic_world_run(f->w, snic_world_now(f->w) + 1000u * (1u + op), 2000);
            break;
        case 7:
            if (op > 200 && f->host != NULL) {
                snic_channel_close(f->host);
                f->host = NULL;
            }
            break;
        default:
            client_do(f, take(f));
            break;
        }
        if (snic_director_check(f->d) != 0)
            abort();
    }
    fuzz_close(f);
    return 0;
}
