/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The commands of ddp_server, from the bytes that clients send to the replies, on one node in
 * memory and simulated time. The first byte chooses the number of shards (bit 0) and RESP3 (bit 1);
 * the rest is split at bytes of 0xff, and each piece is sent by the next of two clients. Replies
 * are RESP, whatever was sent; the store holds together; when the clients have gone nothing of them
 * is left.
 */
#include <stdlib.h>
#include <string.h>

#include "../ddp_server/commands.h"

#include "../common.h"

#define SHARDS 2
#define CLIENTS 2
#define CLIENT_NODE 5
#define MS 1000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int ok)
{
    if (!ok)
        abort();
}

/* ---- The node ---- */

struct setup {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_disk *disks[SHARDS];
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_timer until;
    struct ds_config config;
    struct ds_node node;
    struct ds_shard shards[SHARDS];
};

static void nothing(struct snic_loop_msg *m)
{
    (void)m;
}

static void tick(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

/* As ds_shard_open(), with simulated doors. */
static void shard_open(struct setup *u, uint32_t i)
{
    struct ds_shard *s = &u->shards[i];
    struct snic_net_uring_opts net = {.opts_size = sizeof(net), .conns_max = 8};
    struct snic_disk_opts disk = {.opts_size = sizeof(disk), .sector = 512, .size = 8u << 20};
    struct snic_net_addr addr = {.family = SNIC_NET_SIM, .node = i, .port = 7000};
    struct snic_replica_opts r = {.opts_size = sizeof(r), .flags = SNIC_REPLICA_FOUND};
    struct snic_store_opts t = {.opts_size = sizeof(t), .replica = &r, .changes_max = 16};
    size_t size;

    s->node = &u->node;
    s->index = i;
    ds_shard_prepare(s);
    s->drain.fn = nothing;
    need(snic_world_loop(u->world, i, &s->loop) == 0 && snic_disk_open(&u->disks[i], &disk) == 0 &&
         snic_net_sim_open(&s->net, u->fabric, s->loop, &net) == 0 &&
         snic_io_mem_open(&s->log, s->loop, u->disks[i]) == 0);
    r.loop = s->loop;
    r.net = s->net;
    r.log = s->log;
    r.addrs = &addr;
    r.cluster = 1 + i;
    r.incarnation = 1;
    r.configured = 1;
    r.model = SNIC_DDP_SYNCH;
    r.keys_max = 32;
    r.writes_max = 8;
    r.reads_max = 8;
    r.waits_max = 8;
    r.scopes_max = 4;
    r.sends_max = 256;
    r.appends_max = 1024;
    r.values_bytes = 1u << 18;
    r.wal.opts_size = sizeof(r.wal);
    r.wal.flags = SNIC_WAL_CREATE;
    r.wal.segment_bytes = 1u << 18;
    r.wal.block_bytes = 512;
    t.value_max = (uint32_t)u->config.value_max;
    t.changes_bytes = 4096;
    size = snic_store_memsize(&t);
    need(size != 0);
    need(snic_store_init(&s->store, ex_memory(&s->memory, size, "store"), size, &t) == 0);
}

static void node_open(struct setup *u, uint32_t shards)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 1, .nodes_max = 8};
    struct snic_net_uring_opts net = {.opts_size = sizeof(net), .conns_max = 8};
    static char listen[SHARDS][16] = {"sim:0:6379", "sim:1:6379"};

    memset(u, 0, sizeof(*u));
    u->config.server.name = "ddp";
    u->config.server.conns_max = 4;
    u->config.shards = u->node.count = shards;
    u->config.value_max = 2000;
    u->config.message_max = 8000;
    u->config.timeout_s = 2;
    u->config.nodes = 1;
    resp_settings_default(&u->config.settings);
    u->node.config = &u->config;
    u->node.shards = u->shards;
    ds_slow_init(&u->node);
    u->node.commands = ds_command_table(&u->node.commands_count);
    (void)pthread_mutex_init(&u->node.lock, NULL);
    need(snic_world_open(&u->world, &w) == 0 &&
         snic_net_fabric_open(&u->fabric, u->world, NULL) == 0 &&
         snic_world_loop(u->world, CLIENT_NODE, &u->loop) == 0 &&
         snic_net_sim_open(&u->net, u->fabric, u->loop, &net) == 0);
    snic_timer_init(&u->until, tick);
    for (uint32_t i = 0; i < shards; i++)
        shard_open(u, i);
    for (uint32_t i = 0; i < shards; i++) {
        struct snic_net_addr bound;

        u->config.server.listen = listen[i];
        ds_client_listen(&u->shards[i], &bound);
    }
}

static void run(struct setup *u, uint64_t ms)
{
    uint64_t until = snic_world_now(u->world) + ms * MS;

    snic_loop_arm(u->loop, &u->until, until);
    (void)snic_world_run(u->world, until, UINT64_MAX);
    for (uint32_t i = 0; i < u->node.count; i++) {
        need(snic_store_check(u->shards[i].store) == 0);
        ds_state_publish(&u->shards[i]);
        ds_request_expire(&u->shards[i], snic_loop_now(u->shards[i].loop));
    }
}

static int serves(struct setup *u)
{
    int all = 1;

    for (uint32_t i = 0; i < u->node.count; i++)
        all &= snic_replica_serves(snic_store_replica(u->shards[i].store));
    return all;
}

/* No client is left, and nothing that one had begun. */
static void node_close(struct setup *u)
{
    for (uint32_t i = 0; i < u->node.count; i++) {
        struct ds_shard *s = &u->shards[i];

        need(s->bytes == 0 && s->watches == 0 && snic_link_alone(&s->timed));
        for (uint32_t l = 0; l < DS_HELD_LISTS; l++)
            need(snic_link_alone(&s->held[l]));
    }
    for (uint32_t i = 0; i < u->node.count; i++)
        ds_shard_close(&u->shards[i]);
    snic_loop_cancel(u->loop, &u->until);
    snic_net_shut(u->net);
    for (uint32_t i = 0; i < u->node.count; i++) {
        snic_loop_close(u->shards[i].loop);
        snic_disk_close(u->disks[i]);
    }
    snic_loop_close(u->loop);
    snic_net_fabric_close(u->fabric);
    snic_world_close(u->world);
    ds_slow_free(&u->node);
    (void)pthread_mutex_destroy(&u->node.lock);
}

/* ---- Clients ---- */

struct client {
    struct setup *u;
    struct snic_net_conn *conn;
    struct snic_net_send_req send;
    struct snic_iov iov;
    int sending;
    unsigned char *got;
    size_t size;
    size_t room;
};

static void client_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct client *c = ctx;

    (void)conn;
    if (c->size + buf->size > c->room) {
        c->room = 2 * (c->size + buf->size);
        c->got = realloc(c->got, c->room);
        need(c->got != NULL);
    }
    memcpy(c->got + c->size, buf->data, buf->size);
    c->size += buf->size;
    snic_net_put(c->u->net, buf);
}

static void client_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    struct client *c = ctx;

    (void)conn;
    (void)reason;
    c->conn = NULL;
}

static void client_sent(struct snic_net_send_req *s)
{
    SNIC_CONTAINER(s, struct client, send)->sending = 0;
}

static const struct snic_net_stream_events client_events = {.recv = client_recv,
                                                            .closed = client_closed};

static void client_open(struct setup *u, struct client *c, uint32_t shard)
{
    struct snic_net_addr to = {.family = SNIC_NET_SIM, .node = shard, .port = 6379};

    memset(c, 0, sizeof(*c));
    c->u = u;
    need(snic_net_connect(u->net, &to, &client_events, c, &c->conn) == 0);
}

/* Borrowed until it was sent. */
static void client_send(struct client *c, const void *data, size_t size)
{
    if (c->conn == NULL || c->sending || size == 0)
        return;
    c->iov = (struct snic_iov){(void *)(uintptr_t)data, size};
    memset(&c->send, 0, sizeof(c->send));
    c->send.region = SNIC_NO_REGION;
    c->send.done = client_sent;
    c->send.iov = &c->iov;
    c->send.iov_count = 1;
    c->sending = snic_net_send(c->conn, &c->send) == 1;
}

/* The size of a reply; where the end of the bytes cuts it, what is left of them. */
static size_t reply_skip(const unsigned char *p, size_t size)
{
    uint64_t left = 1;
    size_t at = 0;

    while (left > 0 && at < size) {
        const unsigned char *end = memchr(p + at, '\n', size - at);
        char kind = (char)p[at];
        long long n;

        need(strchr("+-:$*%~>=_#,(", kind) != NULL && kind != 0);
        if (end == NULL)
            return size;
        need(end > p + at && end[-1] == '\r');
        n = strtoll((const char *)p + at + 1, NULL, 10);
        at = (size_t)(end - p) + 1;
        left--;
        if ((kind == '$' || kind == '=') && n >= 0) {
            if (size - at < (size_t)n + 2)
                return size;
            need(p[at + (size_t)n] == '\r' && p[at + (size_t)n + 1] == '\n');
            at += (size_t)n + 2;
        } else if (strchr("*%~>", kind) != NULL && n > 0) {
            left += (uint64_t)n * (kind == '%' ? 2 : 1);
        }
    }
    return at;
}

static void client_close(struct client *c)
{
    for (size_t at = 0; at < c->size;)
        at += reply_skip(c->got + at, c->size - at);
    free(c->got);
    if (c->conn != NULL)
        snic_net_abort(c->conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct setup u;
    struct client clients[CLIENTS];
    uint32_t turn = 0;

    if (size < 2 || size > 4000)
        return 0;
    ex_log_set(EX_ERROR, "fuzz");
    node_open(&u, 1 + (data[0] & 1u));
    while (!serves(&u)) {
        need(snic_world_now(u.world) < 60000 * (uint64_t)MS);
        run(&u, 100);
    }
    for (uint32_t i = 0; i < CLIENTS; i++)
        client_open(&u, &clients[i], i % u.node.count);
    run(&u, 1);
    for (uint32_t i = 0; i < CLIENTS && (data[0] & 2) != 0; i++)
        client_send(&clients[i], "HELLO 3\r\n", 9);
    run(&u, 5);
    for (size_t at = 1; at < size;) {
        const uint8_t *end = memchr(data + at, 0xff, size - at);
        size_t piece = (end != NULL ? (size_t)(end - data) : size) - at;

        client_send(&clients[turn++ % CLIENTS], data + at, piece);
        run(&u, 20);
        at += piece + 1;
    }
    run(&u, 3000);
    for (uint32_t i = 0; i < CLIENTS; i++)
        client_close(&clients[i]);
    run(&u, 5000);
    node_close(&u);
    return 0;
}
