/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_net_util.h"

struct clos c;

static void got_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m,
                     uint32_t count)
{
    struct got *g = ctx;
    (void)d;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = snic_get_le32(m[i].data);
        g->overtakes += number < g->last;
        g->last = number;
        g->messages++;
        g->ecn[m[i].ecn]++;
        g->bytes += m[i].size;
        g->last_ns = m[i].time_ns;
        g->wrong_bits += (uint32_t)__builtin_popcount(number ^ snic_get_le32(m[i].data + 60));
        for (uint32_t k = 4; k < m[i].size; k++) {
            if (k >= 64 || (k < 60 && !c.stamped))
                g->wrong_bits += (uint32_t)__builtin_popcount(m[i].data[k] ^ (k < 64 ? 0 : 0x33u));
        }
        memcpy(g->newest, m[i].data, m[i].size < 256 ? m[i].size : 256);
        g->hash = (g->hash ^ m[i].time_ns ^ (uint64_t)m[i].peer.port << 48 ^
                   snic_crc32c(0, m[i].data, m[i].size)) *
                  UINT64_C(0x100000001b3);
    }
}

static void train_done(struct snic_net_train *t)
{
    assert_true(t->result >= 1);
}

static const struct snic_net_dgram_events events = {.recv = got_recv};

static uint32_t wire(uint32_t from, uint32_t to, const struct snic_net_link *l)
{
    uint32_t id = 0;
    assert_int_equal(snic_net_fabric_wire(c.f, from, to, l, &id), 0);
    return id;
}

void world(uint64_t seed)
{
    struct snic_world_opts w;
    memset(&c, 0, sizeof(c));
    memset(&w, 0, sizeof(w));
    w.opts_size = sizeof(w);
    w.seed = seed;
    assert_int_equal(snic_world_open(&c.w, &w), 0);
    assert_int_equal(snic_net_fabric_open(&c.f, c.w, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(snic_world_loop(c.w, i + 1, &c.loops[i]), 0);
        assert_int_equal(snic_net_sim_open(&c.net[i], c.f, c.loops[i], NULL), 0);
    }
}

void sockets(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < PORTS; k++) {
            struct snic_net_addr a;
            memset(&a, 0, sizeof(a));
            a.family = SNIC_NET_SIM;
            a.node = i + 1;
            a.port = (uint16_t)(1000 * (i + 1) + k);
            assert_int_equal(snic_net_dgram_open(c.net[i], &a, &events, &c.got[i], &c.d[i][k]), 0);
        }
    }
}

void clos_open(uint64_t seed, const struct snic_net_link *l)
{
    world(seed);
    for (uint32_t i = 0; i < SPINES; i++)
        assert_int_equal(snic_net_fabric_switch(c.f, &c.spine[i]), 0);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t t = 0; t < TORS; t++) {
            assert_int_equal(snic_net_fabric_switch(c.f, &c.tor[i][t]), 0);
            c.up[i][t] = wire(i + 1, c.tor[i][t], l);
            c.down[i][t] = wire(c.tor[i][t], i + 1, l);
            for (uint32_t s = 0; s < SPINES; s++) {
                c.rise[i][t][s] = wire(c.tor[i][t], c.spine[s], l);
                c.fall[i][t][s] = wire(c.spine[s], c.tor[i][t], l);
            }
        }
    }
    sockets();
}

void clos_close(void)
{
    snic_net_shut(c.net[0]);
    snic_net_shut(c.net[1]);
    snic_net_fabric_close(c.f);
    snic_loop_close(c.loops[0]);
    snic_loop_close(c.loops[1]);
    snic_world_close(c.w);
}

void run_for(uint64_t ns)
{
    (void)snic_world_run(c.w, snic_world_now(c.w) + ns, UINT64_MAX);
}

/* One datagram of @size bytes from node @from + 1 by its socket @port to the other's socket 0. */
void send_one(uint32_t from, uint32_t port, uint32_t size, uint32_t ecn)
{
    static struct snic_net_train t[8];
    static unsigned char bytes[8][16384];
    uint32_t i = c.number % 8;
    struct snic_iov v = {bytes[i], size};
    memset(bytes[i], 0, 64);
    memset(bytes[i] + 64, 0x33, sizeof(bytes[i]) - 64);
    snic_put_le32(bytes[i], ++c.number);
    snic_put_le32(bytes[i] + 60, c.number);
    memset(&t[i], 0, sizeof(t[i]));
    t[i].done = train_done;
    t[i].peer.family = SNIC_NET_SIM;
    t[i].peer.node = 2 - from;
    t[i].peer.port = (uint16_t)(1000 * (2 - from));
    t[i].iov = &v;
    t[i].iov_count = 1;
    t[i].segment = size;
    t[i].ecn = ecn;
    assert_int_equal(snic_net_dgram_send(c.d[from][port], &t[i]), 1);
    if (i == 7)
        run_for(1); /* dones */
}

uint32_t add_fault(const struct snic_net_fault *x)
{
    uint32_t id = 0;
    assert_int_equal(snic_net_fabric_fault(c.f, x, &id), 0);
    return id;
}

struct snic_net_wire_stats wire_stats(uint32_t id)
{
    struct snic_net_wire_stats s;
    assert_int_equal(snic_net_fabric_wire_stats(c.f, id, &s), 0);
    return s;
}

/* The wires of port @port's way out, and of the way back to it. */
void ways(uint32_t port, uint32_t out[4], uint32_t back[4])
{
    uint16_t mine = (uint16_t)(1000 + port);
    assert_int_equal(snic_net_fabric_way(c.f, 1, mine, 2, 2000, out, 4), 4);
    assert_int_equal(snic_net_fabric_way(c.f, 2, 2000, 1, mine, back, 4), 4);
}

/* How many of one datagram by each port arrive. */
uint32_t arrivals(void)
{
    uint32_t before = c.got[1].messages;
    for (uint32_t p = 0; p < PORTS; p++)
        send_one(0, p, 100, 0);
    run_for(100 * US);
    return c.got[1].messages - before;
}
