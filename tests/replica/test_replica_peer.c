/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_replica_peer.h"

#include "support.h"

#include <string.h>

struct peer peer;

static void on_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    (void)c;
    if (peer.size + b->size <= SEEN) {
        memcpy(peer.seen + peer.size, b->data, b->size);
        peer.size += b->size;
    }
    snic_net_put(peer.net, b);
}

static void on_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
    peer.closed = 1;
    peer.c = NULL;
}

static const struct snic_net_stream_events peer_events = {.recv = on_recv, .closed = on_closed};

void peer_connect_to(uint32_t host, const struct snic_net_addr *addr)
{
    memset(&peer, 0, sizeof(peer));
    peer.net = fix.net[host];
    assert_int_equal(snic_net_connect(peer.net, addr, &peer_events, NULL, &peer.c), 0);
    (void)snic_world_run(fix.world, snic_world_now(fix.world) + MS, UINT32_MAX);
}

void peer_connect_from(uint32_t host)
{
    peer_connect_to(host, &fix.addrs[0]);
}

static struct snic_net_listener *listener;

static void on_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *from)
{
    (void)ctx;
    (void)from;
    memset(&peer, 0, sizeof(peer));
    peer.net = fix.net[1];
    peer.c = c;
    snic_net_bind(c, &peer_events, NULL);
}

void peer_listen(const struct snic_net_addr *addr)
{
    memset(&peer, 0, sizeof(peer));
    assert_int_equal(snic_net_listen(fix.net[1], addr, 0, on_accept, NULL, &listener), 0);
}

void peer_unlisten(void)
{
    snic_net_unlisten(listener);
}

void peer_connect(void)
{
    peer_connect_from(1);
}

static void peer_sent(struct snic_net_send_req *r)
{
    (void)r;
}

void peer_send(const unsigned char *bytes, uint32_t size)
{
    static struct snic_net_send_req req[64];
    static struct snic_iov iov[64];
    static unsigned char copy[64][SNIC_REPLICA__BLOCK + SNIC_REPLICA__BODY];
    static uint32_t turn;
    uint32_t i = turn++ % 64;
    if (peer.c == NULL)
        return;
    memset(&req[i], 0, sizeof(req[i]));
    memcpy(copy[i], bytes, size);
    iov[i] = (struct snic_iov){.base = copy[i], .size = size};
    req[i].done = peer_sent;
    req[i].iov = &iov[i];
    req[i].iov_count = 1;
    req[i].region = SNIC_NO_REGION;
    assert_int_equal(snic_net_send(peer.c, &req[i]), 1);
}

/* ---- Blocks ---- */

unsigned char block[SNIC_REPLICA__BLOCK + SNIC_REPLICA__BODY];
uint32_t used;

void block_new(void)
{
    used = 0;
}

unsigned char *block_frame(uint32_t kind, uint32_t channel, uint32_t size)
{
    unsigned char *at = block + SNIC_REPLICA__BLOCK + used;
    replica_put_frame(at, kind, channel, size);
    used += SNIC_REPLICA__FRAME + size;
    return at + SNIC_REPLICA__FRAME;
}

uint32_t block_end(void)
{
    replica_put_block(block, used, 0);
    replica_put_block_crc(block, used);
    return SNIC_REPLICA__BLOCK + used;
}

void block_send(void)
{
    peer_send(block, block_end());
}

struct replica_hello hello(void)
{
    struct replica_hello h = {.lowest = 3, .highest = 3, .src = 1, .dst = 0};
    h.model = SNIC_DDP_SYNCH;
    h.value_max = fix.o.value_max;
    h.cluster = 0xc1;
    h.boot = 77;
    memset(h.nonce, 5, 16);
    return h;
}

void hello_send(const struct replica_hello *h)
{
    block_new();
    replica_put_hello(block_frame(REPLICA_HELLO, 0, SNIC_REPLICA__HELLO), h);
    block_send();
    run(MS);
}

/* What the node sent, not sealed. */
void peer_read(void)
{
    uint32_t at = 0, size, flags;
    memset(peer.frames, 0, sizeof(peer.frames));
    while (peer.size - at >= SNIC_REPLICA__BLOCK) {
        struct replica_part part;
        size_t in = 0;
        assert_int_equal(replica_get_block(peer.seen + at, &size, &flags), 0);
        if (peer.size - at < SNIC_REPLICA__BLOCK + size)
            break;
        assert_int_equal(replica_get_block_crc(peer.seen + at, size), 0);
        while (replica_get_part(peer.seen + at + SNIC_REPLICA__BLOCK, size, &in, &part) == 1) {
            peer.frames[part.kind]++;
            if (part.kind == REPLICA_CREDIT)
                assert_int_equal(replica_get_credit(part.data, part.size, &peer.credit), 0);
            if (part.kind == REPLICA_HELLO)
                assert_int_equal(replica_get_hello(part.data, part.size, &peer.hello), 0);
        }
        assert_int_equal(in, size);
        at += SNIC_REPLICA__BLOCK + size;
    }
    memmove(peer.seen, peer.seen + at, peer.size - at);
    peer.size -= at;
}

/* ---- The node and its peer ---- */

/* A connection that the node has agreed on. */
void peer_up(void)
{
    struct replica_hello h = hello();
    peer_connect();
    hello_send(&h);
    peer_read();
    assert_int_equal(peer.frames[REPLICA_HELLO], 1);
    assert_int_equal(peer.hello.refusal, 0);
    assert_memory_equal(peer.hello.echo, h.nonce, 16);
    assert_null(fix.r->peers[1].conn); /* nothing has proved it */
    block_new();
    (void)block_frame(REPLICA_PING, 0, 0);
    block_send();
    run(5 * (uint64_t)MS);
    assert_non_null(fix.r->peers[1].conn);
    peer_read();
    assert_int_equal(peer.frames[REPLICA_PONG], 1);
    assert_int_equal(peer.frames[REPLICA_CREDIT], 1);
    assert_int_equal(peer.credit.limit[0], fix.o.window_bytes);
}

void peer_gone(void)
{
    if (peer.c != NULL)
        snic_net_abort(peer.c);
    run(10 * (uint64_t)MS);
    assert_null(fix.r->peers[1].conn);
    assert_int_equal(fix.r->conns_live, 0);
}

void begin_link(void)
{
    doors(3);
    fix.o.window_bytes = 65536;
    fix.o.sends_max = 64;
    start();
    run(10 * (uint64_t)MS);
}

void end_link(void)
{
    assert_int_equal(info().state, SNIC_REPLICA_RUNNING);
    assert_int_equal(info().values, 0);
    stop();
    finish();
}

struct snic_replica_peer_stats stats(void)
{
    struct snic_replica_peer_stats p;
    assert_int_equal(snic_replica_get_peer(fix.r, 1, &p), 0);
    return p;
}
