/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The control plane's codec, and its catalog. The first byte chooses.
 *   0, 1  The rest are bytes from the network, with 1 their checksum made right: what is understood
 *         is written again and must be the same bytes.
 *   else  A catalog in a world, and three connections that send messages chosen by the input, as
 *         clients, servers, operators or without a role, in any order, with fields that are
 *         sometimes right; rights change, and now and then no token can be signed. It is checked
 *         after each message, and a restart at the end recovers as many disks, segments, servers.
 */
#include "snicstore/control.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNS = 3, NODE = 9, MESSAGES = 200, UNSIGNED = 8 };

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_disk *disk;
    struct snic_loop *loop, *loop_out;
    struct snic_net *net, *net_out;
    struct snic_io *io;
    struct snic_control *c;
    struct snic_net_conn *conn[CONNS];
    uint32_t tags[4]; /* of commands received */
    uint32_t rights;  /* SNIC_EBS_MAY_*, of all clients; with UNSIGNED no token can be signed */
    int opened;
    int result;
};

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

/* ---- The codec ---- */

static void again(const unsigned char *p, uint32_t size)
{
    static unsigned char out[SNIC_CONTROL_LARGE];
    struct snic_control_msg m;
    int n = snic_control_get(&m, p, size, SNIC_CONTROL_LARGE);
    if (n <= 0)
        return;
    must((uint32_t)n <= size && m.count <= SNIC_CONTROL_ITEMS);
    must(snic_control_put(out, sizeof(out), &m) == n && memcmp(out, p, (size_t)n) == 0);
    must(snic_control_put(out, (uint32_t)n - 1, &m) == SNIC_ENOSPC);
}

static void codec(const uint8_t *data, size_t size, int right)
{
    static unsigned char p[16384];
    if (size > sizeof(p))
        return;
    memcpy(p, data, size);
    if (right && size >= SNIC_CONTROL_HEAD) {
        p[0] = 0x53;
        p[1] = 0x43;
        p[2] = SNIC_CONTROL_VERSION;
        snic_put_le32(p + 4, (uint32_t)size - SNIC_CONTROL_HEAD);
        snic_put_le32(p + 12, snic_crc32c(snic_crc32c(0, p, 12), p + SNIC_CONTROL_HEAD,
                                          size - SNIC_CONTROL_HEAD));
    }
    again(p, (uint32_t)size);
}

/* ---- The catalog ---- */

static void opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct fuzz *f = ctx;
    (void)report;
    f->opened = 1;
    f->result = result;
}

static uint32_t rights(void *ctx, uint32_t account, uint32_t vd)
{
    const struct fuzz *f = ctx;
    (void)account;
    (void)vd;
    return f->rights & SNIC_EBS_MAY_ALL;
}

static int no_mac(void *secret, const void *in, size_t size, unsigned char out[32])
{
    (void)secret;
    (void)in;
    (void)size;
    memset(out, 0, 32);
    return 0;
}

/* None that permits more than the account may, or nothing. */
static int token(void *ctx, struct snic_ebs_token *t, unsigned char out[SNIC_EBS_TOKEN_BYTES])
{
    static const struct snic_ebs_sec_ops ops = {.ops_size = sizeof(ops), .mac = no_mac};
    struct fuzz *f = ctx;
    must((t->rights & ~f->rights) == 0);
    if ((f->rights & UNSIGNED) != 0)
        return SNIC_EIO;
    int r = snic_ebs_token_sign(out, t, &ops, f);
    must(r == (t->rights != 0 ? 0 : SNIC_EINVAL));
    return r == 0 ? 600 : r;
}

static void control_start(struct fuzz *f)
{
    static const struct snic_control_events ev = {
        .opened = opened, .rights = rights, .token = token};
    struct snic_control_opts o = {.opts_size = sizeof(o), .flags = SNIC_WAL_CREATE};
    must(snic_world_loop(f->world, 1, &f->loop) == 0);
    must(snic_net_sim_open(&f->net, f->fabric, f->loop, NULL) == 0);
    must(snic_io_mem_open(&f->io, f->loop, f->disk) == 0);
    o.loop = f->loop;
    o.net = f->net;
    o.io = f->io;
    o.addr = (struct snic_net_addr){.family = SNIC_NET_SIM, .node = 1, .port = 7};
    o.disks_max = 4;
    o.segments_max = 8;
    o.sessions_max = CONNS;
    o.ops_max = 4;
    o.lease_ns = 100000000;
    o.server_ns = 100000000;
    o.uuid[0] = 5;
    size_t size = snic_control_memsize(&o);
    void *mem = aligned_alloc(128, (size + 127) & ~(size_t)127);
    must(mem != NULL && snic_control_open(&f->c, mem, size, &o, &ev, f) == 0);
    f->opened = 0;
    while (!f->opened)
        must(snic_world_step(f->world) == 1);
    must(f->result == 0);
}

static void control_stop(struct fuzz *f)
{
    must(snic_control_check(f->c) == 0);
    free(snic_control_close(f->c));
    snic_io_close(f->io);
    snic_net_shut(f->net);
    snic_loop_close(f->loop);
}

static void conn_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct fuzz *f = ctx;
    struct snic_control_msg m;
    (void)n;
    /* Pieces are cut at random: tags are learned from those that begin with a message. */
    if (snic_control_get(&m, b->data, b->size, SNIC_CONTROL_SMALL) > 0)
        f->tags[m.tag & 3] = m.tag;
    snic_net_put(f->net_out, b);
}

static void conn_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    struct fuzz *f = ctx;
    (void)reason;
    for (uint32_t i = 0; i < CONNS; i++)
        if (f->conn[i] == n)
            f->conn[i] = NULL;
}

struct sending {
    struct snic_net_send_req req;
    struct snic_iov iov;
    unsigned char bytes[SNIC_CONTROL_SMALL];
};

static void sent(struct snic_net_send_req *q)
{
    free(SNIC_CONTAINER(q, struct sending, req));
}

static void say(struct fuzz *f, uint32_t i, const struct snic_control_msg *m)
{
    struct sending *s = calloc(1, sizeof(*s));
    must(s != NULL);
    int n = snic_control_put(s->bytes, sizeof(s->bytes), m);
    s->req.done = sent;
    s->req.region = SNIC_NO_REGION;
    s->req.iov = &s->iov;
    s->req.iov_count = 1;
    s->iov.base = s->bytes;
    s->iov.size = n > 0 ? (size_t)n : 0;
    if (n <= 0 || snic_net_send(f->conn[i], &s->req) != 1)
        free(s);
}

static void invent(struct fuzz *f, struct snic_control_msg *m)
{
    static const char *const names[] = {"", "a", "b", "c"};
    uint8_t b = take(f), bits = take(f);
    memset(m, 0, sizeof(*m));
    m->type = (uint8_t)(b % SNIC_CONTROL_TYPE_END);
    m->role = take(f) % 6;
    m->flags = bits & 1;
    m->tag = f->tags[bits >> 1 & 3];
    m->vd = bits >> 3 & 3;
    m->server = take(f) % 4;
    m->lease = take(f) % 8;
    m->segment = take(f) % 10;
    m->gen = m->lease << 16 | (bits >> 5);
    m->status = (bits & 64) != 0 ? -(int)(take(f) % 140) : (int)(bits >> 5);
    m->bytes = (uint64_t)(take(f) % 6) << 21;
    m->value = m->bytes >> 18;
    m->uuid[0] = (bits & 128) != 0 ? 5 : 0;
    m->addr = m->peer =
        (struct snic_net_addr){.family = SNIC_NET_SIM, .node = m->server, .port = 9};
    memcpy(m->name, names[b >> 6], strlen(names[b >> 6]));
    m->count = take(f) % 5;
    for (uint32_t i = 0; i < m->count; i++) {
        m->item[i].segment = (uint64_t)(take(f) % 4) << ((bits & 2) != 0 ? 32 : 0) | take(f) % 6;
        m->item[i].gen = (uint32_t)take(f) << 14;
    }
}

static void step(struct fuzz *f)
{
    static const struct snic_net_stream_events ev = {.recv = conn_recv, .closed = conn_closed};
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1, .port = 7};
    struct snic_control_msg m;
    uint8_t b = take(f);
    uint32_t i = b % CONNS;
    if ((b & 0xfc) == 0xf8) {
        f->rights = take(f) & (SNIC_EBS_MAY_ALL | UNSIGNED);
        snic_control_accounts_changed(f->c);
    } else if (f->conn[i] == NULL) {
        must(snic_net_connect(f->net_out, &a, &ev, f, &f->conn[i]) == 0);
        if ((b & 64) == 0) { /* well begun */
            memset(&m, 0, sizeof(m));
            m.type = SNIC_CONTROL_HELLO;
            m.role = 1 + (b >> 2) % 3;
            m.addr = m.peer = (struct snic_net_addr){.family = SNIC_NET_SIM, .node = 3, .port = 9};
            say(f, i, &m);
        }
    } else if ((b & 0xfc) == 0xfc) {
        snic_net_abort(f->conn[i]);
    } else {
        invent(f, &m);
        say(f, i, &m);
    }
    uint64_t ns = (b & 128) != 0 ? 30000000 : 300000;
    (void)snic_world_run(f->world, snic_world_now(f->world) + ns, UINT64_MAX);
    must(snic_control_check(f->c) == 0);
}

static void catalog(struct fuzz *f)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 3};
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = 2u << 20};
    struct snic_control_stats before, after;
    must(snic_world_open(&f->world, &w) == 0);
    must(snic_net_fabric_open(&f->fabric, f->world, NULL) == 0);
    must(snic_disk_open(&f->disk, &d) == 0);
    must(snic_world_loop(f->world, NODE, &f->loop_out) == 0);
    must(snic_net_sim_open(&f->net_out, f->fabric, f->loop_out, NULL) == 0);
    control_start(f);
    for (uint32_t i = 0; i < MESSAGES && f->left > 0; i++)
        step(f);
    (void)snic_world_run(f->world, snic_world_now(f->world) + 1000000, UINT64_MAX);
    snic_control_get_stats(f->c, &before);
    control_stop(f);
    control_start(f);
    snic_control_get_stats(f->c, &after);
    must(after.disks == before.disks && after.segments == before.segments &&
         after.servers == before.servers);
    control_stop(f);
    snic_net_shut(f->net_out);
    snic_loop_close(f->loop_out);
    snic_disk_close(f->disk);
    snic_net_fabric_close(f->fabric);
    snic_world_close(f->world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f;
    if (size == 0 || size > 16384)
        return 0;
    if (data[0] < 2) {
        codec(data + 1, size - 1, data[0]);
        return 0;
    }
    memset(&f, 0, sizeof(f));
    f.in = data + 1;
    f.left = size - 1;
    f.rights = SNIC_EBS_MAY_ALL;
    catalog(&f);
    return 0;
}
