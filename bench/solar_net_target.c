/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SOLAR's server end on a socket, without a store. */
#include "solar_net.h"
#include "solar_peers.h"

#include <stdio.h>
#include <stdlib.h>

enum { TARGET_TRAINS = 64 };

struct target_tx {
    struct snic_net_train t;
    struct snic_solar_train *train;
    struct target_tx *next;
};

static struct {
    struct net_env *e;
    struct snic_net *net;
    struct snic_net_dgram *d;
    struct snic_solar_target *t;
    struct target_tx tx[TARGET_TRAINS];
    struct target_tx *free;
    uint32_t out;
    struct snic_loop_msg pump;
    int pumping;
    unsigned char block[SNIC_EBS_BLOCK_BYTES];
    uint32_t crc;
} k;

static void target_soon(void)
{
    if (!k.pumping) {
        k.pumping = 1;
        snic_loop_defer(k.e->loop, &k.pump);
    }
}

static void target_do(const struct snic_ebs_request *q, uint64_t now)
{
    struct snic_ebs_read_block b[SNIC_EBS_READ_BLOCKS];
    if (q->op != SNIC_EBS_DO_READ) {
        snic_solar_target_answer(k.t, q, SNIC_EBS_OK, q->data_crc, 0, now);
        return;
    }
    for (uint32_t i = 0; i < SNIC_EBS_READ_BLOCKS; i++)
        b[i] = (struct snic_ebs_read_block){
            .data = k.block, .wver = 1, .data_crc = k.crc, .block_tag = 0};
    net_must(snic_solar_target_read_done(k.t, q, b, 1, now) > 0, "no train for an answer");
}

static void target_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m,
                        uint32_t count)
{
    struct snic_ebs_request q;
    struct snic_ebs_peer peer;
    uint64_t now = snic_loop_now(k.e->loop), began = net_begin(k.e);
    (void)ctx;
    (void)d;
    for (uint32_t i = 0; i < count; i++) {
        peer.word[0] = (uint64_t)m[i].peer.family << 48 | (uint64_t)m[i].peer.port << 32;
        memcpy(&peer.word[1], m[i].peer.ip, sizeof(m[i].peer.ip));
        if (snic_solar_target_recv(k.t, &peer, m[i].data, m[i].size, 0, &q, m[i].time_ns) == 1)
            target_do(&q, now);
    }
    net_end(k.e, NET_ENGINE, began);
    target_soon();
}

static void target_sent(struct snic_net_train *t)
{
    struct target_tx *x = SNIC_CONTAINER(t, struct target_tx, t);
    snic_solar_target_sent(k.t, x->train);
    x->next = k.free;
    k.free = x;
    k.out--;
}

static void target_pump(struct snic_loop_msg *m)
{
    struct snic_solar_train *t;
    (void)m;
    k.pumping = 0;
    for (;;) {
        uint64_t began = net_begin(k.e);
        uint32_t n = snic_solar_target_poll(k.t, &t, 1, snic_loop_now(k.e->loop));
        net_end(k.e, NET_ENGINE, began);
        if (n == 0)
            return;
        struct target_tx *x = k.free;
        k.free = x->next;
        k.out++;
        memset(&x->t, 0, sizeof(x->t));
        x->train = t;
        x->t.done = target_sent;
        x->t.peer.family = (uint16_t)(t->peer.word[0] >> 48);
        x->t.peer.port = (uint16_t)(t->peer.word[0] >> 32);
        memcpy(x->t.peer.ip, &t->peer.word[1], sizeof(x->t.peer.ip));
        x->t.iov = t->iov;
        x->t.iov_count = t->iov_count;
        x->t.segment = t->segment;
        net_must(snic_net_dgram_send(k.d, &x->t) == 1, "the server's socket takes no train");
    }
}

void net_target_open(struct net_env *e, struct snic_net_addr *at)
{
    static const struct snic_net_dgram_events ev = {.recv = target_recv};
    struct snic_solar_target_opts o = {.opts_size = sizeof(o), .srv_epoch = 1, .seed = 2};
    struct snic_net_uring_opts n = {.opts_size = sizeof(n),
                                    .send_queue = TARGET_TRAINS,
                                    .dgram_flags = SNIC_NET_DGRAM_DF | SNIC_NET_DGRAM_TIME,
                                    .dgram_recv_bytes = 8u << 20,
                                    .dgram_send_bytes = 8u << 20};
    memset(&k, 0, sizeof(k));
    k.e = e;
    k.pump.fn = target_pump;
    k.crc = net_crc(e, k.block, sizeof(k.block));
    o.trains_max = TARGET_TRAINS;
    o.crc = net_crc;
    o.crc_ctx = e;
    for (uint32_t i = 0; i < TARGET_TRAINS; i++) {
        k.tx[i].next = k.free;
        k.free = &k.tx[i];
    }
    size_t size = snic_solar_target_memsize(&o);
    net_must(snic_solar_target_init(&k.t, net_memory(size), size, &o, snic_loop_now(e->loop)) == 0,
             "no target");
    peer_enter(e->ns[1]);
    net_must(snic_net_uring_open(&k.net, e->loop, &n) == 0 &&
                 snic_net_addr_parse(at, "0.0.0.0:0") == 0 &&
                 snic_net_dgram_open(k.net, at, &ev, NULL, &k.d) == 0 &&
                 snic_net_dgram_addr(k.d, at) == 0,
             "no socket for the server");
    peer_enter(e->ns[0]);
    uint16_t port = at->port;
    char text[64];
    (void)snprintf(text, sizeof(text), "%s:%u", e->host, port);
    net_must(snic_net_addr_parse(at, text) == 0, "the host is no address");
}

void net_target_close(void)
{
    while (k.out != 0 || k.pumping)
        (void)snic_loop_once(k.e->loop, 1000000);
    snic_net_shut(k.net);
    free(snic_solar_target_fini(k.t));
}

void net_target_count(struct net_counts *c)
{
    net_count(k.net, c);
}
