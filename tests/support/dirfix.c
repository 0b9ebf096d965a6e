/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dirfix.h"
#include "dirfix_priv.h"

#include <stdlib.h>

/* ---- The protocol ---- */

void dirfix_encode(unsigned char *to, const struct dirfix_msg *m)
{
    snic_put_le32(to, m->size);
    to[4] = m->op;
    to[5] = m->arg;
    snic_put_le16(to + 6, m->key);
    snic_put_le32(to + 8, m->id);
    snic_put_le32(to + 12, m->value);
}

void dirfix_decode(struct dirfix_msg *m, const void *from)
{
    const unsigned char *p = from;
    m->size = snic_get_le32(p);
    m->op = p[4];
    m->arg = p[5];
    m->key = snic_get_le16(p + 6);
    m->id = snic_get_le32(p + 8);
    m->value = snic_get_le32(p + 12);
}

uint32_t dirfix_value_size(uint32_t value)
{
    return value % 13 == 0 ? value % 3000 + 1500 : value % 200;
}

void dirfix_value(unsigned char *to, uint32_t value)
{
    uint32_t n = dirfix_value_size(value);
    for (uint32_t i = 0; i < n; i++)
        to[i] = (unsigned char)(value * 31 + i * 7);
}

/* ---- The director's user functions ---- */

static int64_t user_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    const struct dirfix *f = ctx;
    struct dirfix_msg m;
    if (*state >> 63) { /* began with the same message: its own state, and no other's */
        dirfix_decode(&m, data);
        assert_true((*state << 1 >> 1) == ((uint64_t)m.size << 32 | m.id));
        *state = 0;
    }
    if (*state > 0) { /* dropping the rest of a BIG one */
        if (size >= *state)
            return SNIC_DIRECTOR_REFUSE(*state);
        *state -= size;
        return SNIC_DIRECTOR_DROP(size);
    }
    if (size < DIRFIX_HEAD)
        return 0;
    dirfix_decode(&m, data);
    if (m.op == DIRFIX_BAD || m.size < DIRFIX_HEAD)
        return SNIC_EPROTO;
    if (m.op == DIRFIX_BIG) {
        if (size >= m.size)
            return SNIC_DIRECTOR_REFUSE(m.size);
        *state = m.size - size;
        return SNIC_DIRECTOR_DROP(size);
    }
    if (m.size > f->o.director.message_max)
        return SNIC_EMSGSIZE;
    if (size < m.size)
        *state = UINT64_C(1) << 63 | (uint64_t)m.size << 32 | m.id;
    else if (m.id % 2 == 0)
        *state = 77; /* what is left in it at the end is the director's to clear */
    return size >= m.size ? (int64_t)m.size : 0;
}

static uint32_t user_text(char *out, uint8_t status, uint8_t path, const struct dirfix_msg *m)
{
    struct dirfix_msg r = {.size = DIRFIX_HEAD, .op = status, .arg = path, .id = UINT32_MAX};
    if (m != NULL) {
        r.key = m->key;
        r.id = m->id;
        r.value = m->value;
    }
    dirfix_encode((unsigned char *)out, &r);
    return DIRFIX_HEAD;
}

static void user_predicate(void *ctx, struct snic_offload *o, uint64_t *conn_user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    const struct dirfix *f = ctx;
    struct dirfix_msg m;
    uint64_t hash;
    assert_true(size >= DIRFIX_HEAD);
    dirfix_decode(&m, msg);
    assert_int_equal(m.size, size);
    switch (m.op) {
    case DIRFIX_GET:
    case DIRFIX_MGET:
        if (o == NULL)
            break;
        out->route = SNIC_DIRECTOR_DPU;
        for (uint32_t i = 0; i < (m.op == DIRFIX_GET ? 1u : m.arg); i++) {
            hash = dirfix_hash(f, (uint16_t)(m.key + i));
            if (snic_offload_get(o, &hash, NULL, NULL) != 0)
                out->route = SNIC_DIRECTOR_HOST;
        }
        break;
    case DIRFIX_SET:
    case DIRFIX_DEL:
        out->route = (f->o.broken & DIRFIX_NO_R4) ? SNIC_DIRECTOR_HOST : SNIC_DIRECTOR_BARRIER;
        break;
    case DIRFIX_WORD:
        *conn_user = m.value;
        out->route = SNIC_DIRECTOR_ANSWER;
        out->reply_size = user_text(out->reply, DIRFIX_OK, DIRFIX_BY_RULE, &m);
        break;
    case DIRFIX_CHANGE:
        out->route = SNIC_DIRECTOR_SWITCH;
        break;
    case DIRFIX_SEEN: {
        uint64_t version = 0;
        hash = dirfix_hash(f, m.key);
        out->route = SNIC_DIRECTOR_ANSWER;
        (void)!snic_offload_get(o, &hash, NULL, &version);
        m.value = (uint32_t)version;
        out->reply_size = user_text(out->reply, DIRFIX_OK, DIRFIX_BY_RULE, &m);
        break;
    }
    case DIRFIX_PING:
    case DIRFIX_BYE:
        out->route = m.op == DIRFIX_BYE ? SNIC_DIRECTOR_CLOSE : SNIC_DIRECTOR_ANSWER;
        out->reply_size = user_text(out->reply, DIRFIX_OK, DIRFIX_BY_RULE, &m);
        break;
    default:
        break;
    }
}

static uint32_t user_protocol_error(void *ctx, int error, const unsigned char *data, size_t size,
                                    char *out, uint32_t max)
{
    (void)ctx;
    (void)data;
    (void)size;
    assert_true(max >= DIRFIX_HEAD);
    struct dirfix_msg m = {.id = UINT32_MAX, .value = (uint32_t)-error};
    return user_text(out, DIRFIX_ERROR, DIRFIX_BY_RULE, &m);
}

static uint32_t user_host_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                               uint32_t max)
{
    struct dirfix_msg m;
    (void)ctx;
    (void)size;
    assert_true(max >= DIRFIX_HEAD);
    if (msg != NULL)
        dirfix_decode(&m, msg);
    return user_text(out, DIRFIX_ERROR, DIRFIX_GONE, msg != NULL ? &m : NULL);
}

static int64_t user_frame_reply(void *ctx, const unsigned char *data, size_t size, uint64_t *state,
                                int *done)
{
    (void)ctx;
    if (*state == 0) {
        if (size < DIRFIX_HEAD)
            return 0;
        *state = snic_get_le32(data);
        if (*state < DIRFIX_HEAD)
            return SNIC_EPROTO;
    }
    uint64_t n = snic_min_u64(size, *state);
    *state -= n;
    *done = *state == 0;
    return (int64_t)n;
}

/* ---- The DPU ---- */

static void dirfix_open_files(struct dirfix *f)
{
    struct snic_disk_opts dopt = {.opts_size = sizeof(dopt),
                                  .size = 16u << 20,
                                  .seed = f->o.seed,
                                  .delay_min_ns = 1000,
                                  .delay_max_ns =
                                      f->o.disk_delay_ns == 0 ? 200000 : f->o.disk_delay_ns};
    struct snic_files_format_opts fo = {.opts_size = sizeof(fo), .segment_bytes = 65536};
    struct snic_files_mount_opts mo = {.opts_size = sizeof(mo)};
    struct snic_files_info info;
    struct snic_files_req req = {.op = SNIC_FILES_CREATE, .name = "log", .name_size = 3};
    assert_int_equal(snic_disk_open(&f->disk, &dopt), 0);
    assert_int_equal(snic_io_mem_open(&f->io, f->dpu, f->disk), 0);
    fo.files_max = 64;
    fo.dirs_max = 4;
    assert_int_equal(snic_files_format(f->io, &fo), 0);
    assert_int_equal(snic_files_probe(f->io, &info), 0);
    size_t n = snic_files_memsize(&info, &mo);
    f->files_mem = support_guard_alloc(n, SNIC_FILES_ALIGN);
    assert_int_equal(snic_files_mount(&f->files, f->files_mem, n, f->io, &mo), 0);
    assert_int_equal(snic_files_run(f->files, &req), 0);
    f->file = req.id;
    f->file_end = 4096; /* 0 means none */
}

static void dirfix_open_offload(struct dirfix *f)
{
    struct snic_offload_opts o = {.opts_size = sizeof(o), .key_size = 8, .item_size = 24};
    struct snic_offload_user u = {.func = dirfix_func, .reply = dirfix_judge, .ctx = f};
    o.cache_capacity = f->o.cache_capacity == 0 ? 256 : f->o.cache_capacity;
    o.cache_seed = f->o.seed;
    o.contexts = f->o.contexts == 0 ? 64 : f->o.contexts;
    o.read_max = 8192;
    o.pool_bytes = 1u << 20;
    o.message_max = f->o.offload_message_max == 0 ? 256 : f->o.offload_message_max;
    size_t n = snic_offload_memsize(&o);
    f->offload_mem = support_guard_alloc(n, SNIC_OFFLOAD_ALIGN);
    assert_int_equal(snic_offload_init(&f->offload, f->offload_mem, n, f->dpu, f->files, &u, &o),
                     0);
}

static void dirfix_open_director(struct dirfix *f)
{
    struct snic_director_opts *o = &f->o.director;
    struct snic_net_addr at = {.family = SNIC_NET_SIM, .node = DIRFIX_DPU, .port = 100};
    o->opts_size = sizeof(*o);
    o->conns_max = o->conns_max == 0 ? DIRFIX_CLIENTS : o->conns_max;
    o->message_max = o->message_max == 0 ? 200000 : o->message_max;
    o->pool_bytes = o->pool_bytes == 0 ? 4u << 20 : o->pool_bytes;
    f->user =
        (struct snic_director_user){.frame = user_frame,
                                    .predicate = user_predicate,
                                    .protocol_error = user_protocol_error,
                                    .host_gone = user_host_gone,
                                    .frame_reply = f->o.no_frame_reply ? NULL : user_frame_reply,
                                    .ctx = f,
                                    .full = f->o.full};
    size_t n = snic_director_memsize(o);
    assert_true(n > 0);
    f->director_mem = support_guard_alloc(n, SNIC_DIRECTOR_ALIGN);
    assert_int_equal(snic_director_init(&f->d, f->director_mem, n, f->net, f->offload, &f->user, o),
                     0);
    assert_int_equal(snic_director_listen(f->d, &at, 0, &f->addr), 0);
}

static int dirfix_accept(void *ctx, struct snic_channel_hub *h,
                         const struct snic_channel_offer *offer)
{
    struct dirfix *f = ctx;
    return snic_director_upstream_channel(f->d, h, offer);
}

void dirfix_host_attach(struct dirfix *f)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_channel_hub_opts ho = {.opts_size = sizeof(ho)};
    if (f->hub[1] != NULL)
        dirfix_run(f, 1000000);   /* the DPU learns that it is gone */
    for (int i = 0; i < 2; i++) { /* what is left of the one before */
        if (f->hub[i] != NULL) {
            snic_channel_hub_fini(f->hub[i]);
            support_guard_free(f->hub_mem[i]);
            f->hub[i] = NULL;
        }
    }
    if (f->o.local) {
        assert_int_equal(snic_dma_local_open(&f->dma[0], f->host, &none, &f->dma[1], f->dpu, &none),
                         0);
    } else {
        struct snic_dma_sim_opts so = {.opts_size = sizeof(so),
                                       .caps = SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC};
        assert_int_equal(
            snic_dma_sim_open(&f->dma[0], f->host, &none, &f->dma[1], f->dpu, &none, &so), 0);
    }
    for (int i = 0; i < 2; i++) {
        ho.ctx = f;
        ho.accept = i == 1 ? dirfix_accept : NULL;
        size_t n = snic_channel_hub_memsize(&ho);
        f->hub_mem[i] = support_guard_alloc(n, 16);
        assert_int_equal(snic_channel_hub_init(&f->hub[i], f->hub_mem[i], n, f->dma[i], &ho), 0);
    }
    dirfix_host_start(f);
}

/* ---- All of it ---- */

void dirfix_open(struct dirfix *f, const struct dirfix_opts *o)
{
    memset(f, 0, sizeof(*f));
    f->o = *o;
    snic_rng_init(&f->rng, o->seed * 77 + 5);
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .nodes_max = 128, .seed = o->seed};
    struct snic_net_fabric_opts no = {.opts_size = sizeof(no),
                                      .recv_size = o->net_recv_size == 0 ? 1000 : o->net_recv_size};
    struct snic_net_uring_opts nu = {
        .opts_size = sizeof(nu), .conns_max = 256, .recv_buffers = 4, .pool_buffers = 1024};
    nu.send_queue = 4096; /* the toy server keeps nothing back */
    nu.recv_size = no.recv_size < 512 ? 512 : no.recv_size;
    assert_int_equal(snic_world_open(&f->w, &wo), 0);
    assert_int_equal(snic_net_fabric_open(&f->fabric, f->w, &no), 0);
    assert_int_equal(snic_world_loop(f->w, DIRFIX_DPU, &f->dpu), 0);
    assert_int_equal(snic_world_loop(f->w, DIRFIX_HOST, &f->host), 0);
    struct snic_net_uring_opts du = nu;
    du.conns_max = o->net_conns == 0 ? nu.conns_max : o->net_conns;
    assert_int_equal(snic_net_sim_open(&f->net, f->fabric, f->dpu, &du), 0);
    dirfix_open_files(f);
    if (!o->no_offload)
        dirfix_open_offload(f);
    dirfix_open_director(f);
    if (o->net) {
        assert_int_equal(snic_world_loop(f->w, DIRFIX_SERVER, &f->server_loop), 0);
        assert_int_equal(snic_net_sim_open(&f->server_net, f->fabric, f->server_loop, &nu), 0);
        dirfix_server_start(f);
    } else {
        dirfix_host_attach(f);
    }
    for (uint32_t i = 0; i < o->clients; i++) {
        struct dirfix_client *c = &f->clients[i];
        c->f = f;
        c->node = DIRFIX_CLIENT + i;
        assert_int_equal(snic_world_loop(f->w, c->node, &c->loop), 0);
        assert_int_equal(snic_net_sim_open(&c->net, f->fabric, c->loop, &nu), 0);
    }
    dirfix_run(f, 1000000);
}

static void dirfix_drained(void *ctx)
{
    *(int *)ctx = 1;
}

void dirfix_close(struct dirfix *f)
{
    int drained = 0;
    for (uint32_t i = 0; i < f->o.clients; i++) {
        struct dirfix_client *c = &f->clients[i];
        if (c->open && !c->closed)
            dirfix_disconnect(c, 0);
    }
    snic_director_drain(f->d, dirfix_drained, &drained);
    snic_loop_wake(f->dpu);
    for (int i = 0; i < 10000000 && !drained; i++)
        if (dirfix_step(f) == 0)
            break;
    assert_true(drained);
    dirfix_host_stop(f);
    while (dirfix_step(f) > 0) {
    }
    if (f->offload != NULL)
        assert_int_equal(snic_offload_active(f->offload), 0);
    struct snic_director_stats st = dirfix_stats(f);
    assert_int_equal(st.conns, 0);
    assert_int_equal(snic_director_check(f->d), 0);
    snic_director_fini(f->d);
    for (int i = 0; i < 2; i++)
        if (f->hub[i] != NULL) {
            snic_channel_hub_fini(f->hub[i]);
            support_guard_free(f->hub_mem[i]);
        }
    if (f->offload != NULL) {
        assert_int_equal(snic_offload_check(f->offload), 0);
        snic_offload_fini(f->offload);
        support_guard_free(f->offload_mem);
    }
    assert_int_equal(snic_files_unmount(f->files), 0);
    support_guard_free(f->files_mem);
    support_guard_free(f->director_mem);
    snic_io_close(f->io);
    snic_disk_close(f->disk);
    snic_net_shut(f->net);
    if (f->server_net != NULL) {
        snic_net_shut(f->server_net);
        snic_loop_close(f->server_loop);
    }
    for (uint32_t i = 0; i < f->o.clients; i++) {
        snic_net_shut(f->clients[i].net);
        snic_loop_close(f->clients[i].loop);
        free(f->clients[i].out);
        free(f->clients[i].in);
    }
    snic_loop_close(f->host);
    snic_loop_close(f->dpu);
    snic_net_fabric_close(f->fabric);
    snic_world_close(f->w);
}

int dirfix_step(struct dirfix *f)
{
    static uint32_t turns;
    int r = snic_world_step(f->w);
    if (++turns % 64 == 0) {
        assert_int_equal(snic_director_check(f->d), 0);
        if (turns % 1024 == 0 && f->offload != NULL)
            assert_int_equal(snic_offload_check(f->offload), 0);
    }
    return r;
}

void dirfix_run(struct dirfix *f, uint64_t ns)
{
    (void)snic_world_run(f->w, snic_world_now(f->w) + ns, UINT64_MAX);
    assert_int_equal(snic_director_check(f->d), 0);
}

void dirfix_finish(struct dirfix *f)
{
    for (;;) {
        uint32_t owed = 0;
        for (uint32_t i = 0; i < f->o.clients; i++)
            owed += f->clients[i].open && !f->clients[i].closed && !f->clients[i].paused
                        ? f->clients[i].order_count
                        : 0;
        if (owed == 0)
            return;
        if (dirfix_step(f) == 0)
            fail_msg("stands still: %u answers owed (seed %llu)", owed,
                     (unsigned long long)f->o.seed);
    }
}

struct snic_director_stats dirfix_stats(const struct dirfix *f)
{
    struct snic_director_stats st;
    snic_director_get_stats(f->d, &st);
    return st;
}

/* ---- Clients ---- */

static void client_sent(struct snic_net_send_req *s)
{
    struct dirfix_client *c = SNIC_CONTAINER(s, struct dirfix_client, send);
    c->out_at += c->sending;
    c->sending = 0;
    if (c->out_at == c->out_size)
        c->out_at = c->out_size = 0;
    if (s->result == 0)
        dirfix_pump(c);
}

void dirfix_pump(struct dirfix_client *c)
{
    if (c->sending > 0 || c->closed || c->conn == NULL || c->out_at == c->out_size || c->shut > 1)
        return;
    size_t left = c->out_size - c->out_at;
    size_t most = c->max_piece > 0 ? c->max_piece : 1 + snic_rng_below(&c->f->rng, 3000);
    c->sending = left < most ? left : most;
    c->iov.base = c->out + c->out_at;
    c->iov.size = c->sending;
    c->send = (struct snic_net_send_req){
        .done = client_sent, .iov = &c->iov, .iov_count = 1, .region = SNIC_NO_REGION};
    if (snic_net_send(c->conn, &c->send) != 1)
        c->sending = 0;
}

void dirfix_send_raw(struct dirfix_client *c, const void *bytes, size_t n)
{
    if (c->out_size + n > c->out_cap || c->out == NULL) {
        size_t cap = (c->out_size + n) * 2 + (4u << 20); /* grows rarely, never under a send */
        assert_true(c->sending == 0 || c->out_size + n <= c->out_cap);
        unsigned char *p = realloc(c->out, cap);
        assert_non_null(p);
        c->out = p;
        c->out_cap = cap;
    }
    memcpy(c->out + c->out_size, bytes, n);
    c->out_size += n;
}

uint32_t dirfix_send(struct dirfix_client *c, uint8_t op, uint8_t arg, uint16_t key, uint32_t value,
                     uint32_t pad)
{
    struct dirfix_msg m = {.size = DIRFIX_HEAD + pad,
                           .op = op,
                           .arg = arg,
                           .key = key,
                           .id = c->next_id++,
                           .value = value};
    unsigned char head[DIRFIX_HEAD];
    static const unsigned char zeros[4096];
    dirfix_encode(head, &m);
    dirfix_send_raw(c, head, sizeof(head));
    for (uint32_t at = 0; at < pad; at += sizeof(zeros))
        dirfix_send_raw(c, zeros, pad - at < sizeof(zeros) ? pad - at : sizeof(zeros));
    assert_true(c->order_count < DIRFIX_PENDING);
    c->order[(c->order_first + c->order_count++) % DIRFIX_PENDING] = m.id;
    return m.id;
}

/* The answer to @m->id: in order, or any that is under way. */
static void client_match(struct dirfix_client *c, const struct dirfix_msg *m)
{
    uint32_t i = 0;
    assert_true(c->order_count > 0);
    if (m->id != UINT32_MAX) {
        uint32_t most = c->in_order ? 1 : c->order_count;
        while (i < most && c->order[(c->order_first + i) % DIRFIX_PENDING] != m->id)
            i++;
        if (i == most)
            fail_msg("answer %u is not the one that is due (%u)", m->id, c->order[c->order_first]);
    }
    for (; i > 0; i--)
        c->order[(c->order_first + i) % DIRFIX_PENDING] =
            c->order[(c->order_first + i - 1) % DIRFIX_PENDING];
    c->order_first = (c->order_first + 1) % DIRFIX_PENDING;
    c->order_count--;
    c->replies++;
}

static void client_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct dirfix_client *c = ctx;
    struct dirfix_msg m;
    size_t at = 0;
    (void)n;
    if (c->in_size + b->size > c->in_cap) {
        c->in_cap = (c->in_size + b->size) * 2;
        c->in = realloc(c->in, c->in_cap);
        assert_non_null(c->in);
    }
    memcpy(c->in + c->in_size, b->data, b->size);
    c->in_size += b->size;
    snic_net_put(c->net, b);
    while (c->in_size - at >= DIRFIX_HEAD) {
        dirfix_decode(&m, c->in + at);
        assert_true(m.size >= DIRFIX_HEAD && m.size < (16u << 20));
        if (c->in_size - at < m.size)
            break;
        client_match(c, &m);
        if (c->reply != NULL)
            c->reply(c, &m, c->in + at + DIRFIX_HEAD);
        at += m.size;
    }
    memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
    dirfix_pump(c);
}

static void client_connected(void *ctx, struct snic_net_conn *n, int error)
{
    struct dirfix_client *c = ctx;
    (void)n;
    if (error == 0)
        dirfix_pump(c);
}

static void client_eof(void *ctx, struct snic_net_conn *n)
{
    struct dirfix_client *c = ctx;
    c->eof = 1;
    if (!c->shut) {
        c->shut = 2;
        snic_net_shutdown(n);
    }
}

static void client_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    struct dirfix_client *c = ctx;
    (void)n;
    c->closed = 1;
    c->reason = reason;
    c->conn = NULL;
    c->sending = 0;
}

struct dirfix_client *dirfix_connect(struct dirfix *f, uint32_t i, dirfix_reply_fn reply)
{
    static const struct snic_net_stream_events ev = {.connected = client_connected,
                                                     .recv = client_recv,
                                                     .eof = client_eof,
                                                     .closed = client_closed};
    struct dirfix_client *c = &f->clients[i];
    assert_true(!c->open || c->closed);
    c->open = 1;
    c->closed = c->eof = c->reason = c->shut = c->paused = 0;
    c->out_at = c->out_size = c->in_size = 0;
    c->order_count = 0;
    c->reply = reply;
    c->in_order = (f->o.director.flags & SNIC_DIRECTOR_IN_ORDER) != 0;
    assert_int_equal(snic_net_connect(c->net, &f->addr, &ev, c, &c->conn), 0);
    return c;
}

void dirfix_disconnect(struct dirfix_client *c, int abort)
{
    if (c->conn == NULL)
        return;
    if (abort)
        snic_net_abort(c->conn);
    else
        snic_net_close(c->conn);
}
