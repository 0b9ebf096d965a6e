/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated network: the conformance suite, then what only a simulation can do.
 */
#include "conformance_net.h"

static const struct conf_backend backends[] = {{"sim", CONF_SIM, 0, 0},
                                               {"sim_switched", CONF_SIM, 0, 0}};

/* Two switches between the nodes, two cables everywhere. */
static void wires_open(struct conf_env *e)
{
    const struct snic_net_link l = {
        .delay_min_ns = 1000, .delay_max_ns = 1000, .bytes_per_s = 1000000000};
    uint32_t places[4] = {1, 0, 0, 2};
    assert_int_equal(snic_net_fabric_switch(e->fabric, &places[1]), 0);
    assert_int_equal(snic_net_fabric_switch(e->fabric, &places[2]), 0);
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t a = places[i / 2 % 3], b = places[i / 2 % 3 + 1], wire = 0;
        assert_int_equal(snic_net_fabric_wire(e->fabric, i < 6 ? a : b, i < 6 ? b : a, &l, &wire),
                         0);
        assert_int_equal(wire, i);
    }
}

void conf_backend_open(struct conf_env *e, const struct snic_net_uring_opts *server,
                       const struct snic_net_uring_opts *client)
{
    struct snic_world_opts w;
    memset(&w, 0, sizeof(w));
    w.opts_size = sizeof(w);
    w.seed = support_seed();
    assert_int_equal(snic_world_open(&e->world, &w), 0);
    assert_int_equal(snic_world_loop(e->world, 1, &e->loops[0]), 0);
    assert_int_equal(snic_world_loop(e->world, 2, &e->loops[1]), 0);
    assert_int_equal(snic_net_fabric_open(&e->fabric, e->world, NULL), 0);
    if (e->backend == &backends[1])
        wires_open(e);
    assert_int_equal(snic_net_sim_open(&e->server, e->fabric, e->loops[0], server), 0);
    assert_int_equal(snic_net_sim_open(&e->client, e->fabric, e->loops[1], client), 0);
    assert_int_equal(snic_net_addr_parse(&e->listen_addr, "sim:1:0"), 0);
}

void conf_backend_close(struct conf_env *e)
{
    snic_net_shut(e->client);
    snic_net_shut(e->server);
    snic_net_fabric_close(e->fabric);
    for (int i = 0; i < 2; i++) {
        if (e->loops[i] != NULL)
            snic_loop_close(e->loops[i]);
    }
    snic_world_close(e->world);
    memset(&e->server, 0, 2 * sizeof(e->server));
}

int conf_backend_step(struct conf_env *e)
{
    return snic_world_step(e->world);
}

/* ---- What only a simulation can do ---- */

#define SECOND UINT64_C(1000000000)

static void *const sim_state = (void *)(uintptr_t)&backends[0];

/* A pair of peers that talk from node 2 to node 1. */
static struct conf_pair *pair_open(void)
{
    void *state = sim_state;
    return conf_pair_open(&state);
}

static void run_for(struct conf_env *e, uint64_t ns)
{
    uint64_t until = snic_world_now(e->world) + ns;
    (void)snic_world_run(e->world, until, UINT64_MAX);
    conf_check(e);
}

static uint64_t trace_hash;

static void trace(void *ctx, uint64_t now_ns, uint32_t node, uint32_t class_id, uint64_t sequence)
{
    uint64_t words[4] = {now_ns, node, class_id, sequence};
    (void)ctx;
    trace_hash =
        trace_hash * 0x100000001b3u ^ snic_crc32c((uint32_t)trace_hash, words, sizeof(words));
}

/* One run of random traffic over a bad network; its hash. */
static uint64_t replay(uint64_t seed)
{
    struct conf_pair p;
    struct snic_world_opts w;
    struct snic_net_fabric_opts f;
    memset(&p, 0, sizeof(p));
    memset(&w, 0, sizeof(w));
    memset(&f, 0, sizeof(f));
    w.opts_size = sizeof(w);
    w.seed = seed;
    w.trace = trace;
    f.opts_size = sizeof(f);
    f.link.delay_min_ns = 1000;
    f.link.delay_max_ns = 900000;
    f.link.loss_ppm = 20000;
    f.link.bytes_per_s = 50000000;
    f.link.queue_bytes = 10000;
    trace_hash = 0;
    p.e.backend = &backends[0];
    snic_rng_init(&p.e.rng, 99);
    struct snic_net_uring_opts o = conf_small(&p.e);
    assert_int_equal(snic_world_open(&p.e.world, &w), 0);
    assert_int_equal(snic_world_loop(p.e.world, 1, &p.e.loops[0]), 0);
    assert_int_equal(snic_world_loop(p.e.world, 2, &p.e.loops[1]), 0);
    assert_int_equal(snic_net_fabric_open(&p.e.fabric, p.e.world, &f), 0);
    assert_int_equal(snic_net_sim_open(&p.e.server, p.e.fabric, p.e.loops[0], &o), 0);
    assert_int_equal(snic_net_sim_open(&p.e.client, p.e.fabric, p.e.loops[1], &o), 0);
    assert_int_equal(snic_net_addr_parse(&p.e.listen_addr, "sim:1:80"), 0);
    conf_peer_init(&p.server, &p.e, p.e.server);
    conf_peer_init(&p.client, &p.e, p.e.client);
    conf_pair_start(&p);
    p.client.to_send = 200000;
    p.server.to_send = 100000;
    p.client.shutdown_when_sent = 1;
    p.server.shutdown_when_sent = 1;
    conf_peer_send(&p.client);
    conf_until(&p.e, conf_both_closed, &p);
    assert_int_equal(p.server.received, 200000);
    assert_int_equal(p.client.received, 100000);
    conf_backend_close(&p.e);
    conf_peer_fini(&p.server);
    conf_peer_fini(&p.client);
    return trace_hash;
}

/* A failing seed would not fail again. */
static void test_net_sim_same_seed_same_run(void **state)
{
    uint64_t seed = support_seed();
    uint64_t first = replay(seed);
    (void)state;
    assert_int_equal(replay(seed), first);
    assert_int_not_equal(replay(seed + 1), first);
}

/* A short partition would break streams or lose their bytes. */
static void test_net_sim_cut_mended_stream_goes_on(void **state)
{
    (void)state;
    for (int direction = 0; direction < 3; direction++) {
        struct conf_pair *p = pair_open();
        p->client.to_send = 50000;
        p->client.shutdown_when_sent = 1;
        p->server.shutdown_on_eof = 1;
        snic_net_fabric_partition(p->e.fabric, 1, 2, direction != 1);
        snic_net_fabric_partition(p->e.fabric, 2, 1, direction != 0);
        conf_peer_send(&p->client);
        run_for(&p->e, 29 * SECOND);
        assert_int_equal(p->client.closes, 0);
        if (direction != 0) /* else the server has it all, and closes */
            assert_int_equal(p->server.received + p->server.closes, 0);
        snic_net_fabric_partition(p->e.fabric, 1, 2, 0);
        snic_net_fabric_partition(p->e.fabric, 2, 1, 0);
        run_for(&p->e, 29 * SECOND);
        assert_int_equal(p->server.received, 50000);
        conf_until(&p->e, conf_both_closed, p);
        assert_int_equal(p->server.reason + p->client.reason, 0);
        conf_pair_close(p);
    }
}

/* A partition that is over would still end idle streams half a minute after it began. */
static void test_net_sim_cut_mended_idle_stream_stays(void **state)
{
    struct conf_pair *p = pair_open();
    (void)state;
    snic_net_fabric_partition(p->e.fabric, 1, 2, 1);
    run_for(&p->e, 20 * SECOND);
    snic_net_fabric_partition(p->e.fabric, 1, 2, 0);
    run_for(&p->e, 60 * SECOND);
    assert_int_equal(p->client.closes + p->server.closes, 0);
    conf_pair_close(p);
}

/* Both ends of a long partition must give up, with their requests. */
static void test_net_sim_cut_for_long_both_time_out(void **state)
{
    struct conf_pair *p = pair_open();
    (void)state;
    p->client.to_send = 50000;
    conf_peer_send(&p->client);
    snic_net_fabric_partition(p->e.fabric, 2, 1, 1);
    uint32_t held = p->client.in_flight;
    run_for(&p->e, 31 * SECOND);
    assert_int_equal(p->client.reason, SNIC_ETIMEDOUT);
    assert_int_equal(p->server.reason, SNIC_ETIMEDOUT);
    assert_int_equal(p->client.closes + p->server.closes, 2);
    assert_true(held > 0 && p->client.in_flight == 0);
    assert_int_equal(p->client.last_result, SNIC_ETIMEDOUT);
    p->server.closes = 1;
    conf_pair_close(p);
}

/* Impatience would not end a stream sooner, or an endless one would. */
static void test_net_sim_impatient_times_out_sooner(void **state)
{
    void *sim = sim_state;
    struct conf_pair *p = pair_open();
    (void)state;
    assert_int_equal(snic_net_patience(p->client.conn, 0), SNIC_EINVAL);
    assert_int_equal(snic_net_patience(p->client.conn, UINT32_MAX), SNIC_EINVAL);
    assert_int_equal(snic_net_patience(p->client.conn, 800), 0);
    run_for(&p->e, 100 * SECOND);
    assert_int_equal(p->client.closes, 0);
    p->client.to_send = 50000;
    conf_peer_send(&p->client);
    snic_net_fabric_partition(p->e.fabric, 2, 1, 1);
    run_for(&p->e, SECOND * 79 / 100);
    assert_int_equal(p->client.closes, 0);
    run_for(&p->e, SECOND / 50);
    assert_int_equal(p->client.closes, 1);
    assert_int_equal(p->client.reason, SNIC_ETIMEDOUT);
    assert_int_equal(p->server.closes, 0); /* it is patient */
    conf_pair_close(p);
    p = conf_pair_make(&sim);
    snic_net_fabric_partition(p->e.fabric, 2, 1, 1);
    conf_pair_start(p);
    assert_int_equal(snic_net_patience(p->client.conn, 800), 0);
    run_for(&p->e, SECOND);
    assert_int_equal(p->client.connect_error, SNIC_ETIMEDOUT);
    conf_pair_close(p);
}

/* A connect into a partition must end, and one that is mended in time succeed. */
static void test_net_sim_cut_connect_times_out_or_succeeds(void **state)
{
    void *sim = sim_state;
    (void)state;
    for (int mended = 0; mended < 2; mended++) {
        struct conf_pair *p = conf_pair_make(&sim);
        snic_net_fabric_partition(p->e.fabric, 2, 1, 1);
        conf_pair_start(p);
        run_for(&p->e, 20 * SECOND);
        assert_int_equal(p->client.connected, 0);
        if (mended)
            snic_net_fabric_partition(p->e.fabric, 2, 1, 0);
        run_for(&p->e, 40 * SECOND);
        assert_int_equal(p->client.connected, 1);
        assert_int_equal(p->client.connect_error, mended ? 0 : SNIC_ETIMEDOUT);
        assert_int_equal(p->client.closes, !mended);
        assert_int_equal(p->s.accepted, mended);
        conf_pair_close(p);
    }
}

/* A peer that vanished behind a partition must be found out after it. */
static void test_net_sim_peer_gone_behind_cut_reset_when_mended(void **state)
{
    struct conf_pair *p = pair_open();
    (void)state;
    snic_net_fabric_partition(p->e.fabric, 1, 2, 1);
    snic_net_fabric_partition(p->e.fabric, 2, 1, 1);
    CONF_CALL(&p->e, snic_net_abort(p->server.conn));
    run_for(&p->e, 10 * SECOND);
    assert_int_equal(p->server.closes, 1);
    assert_int_equal(p->client.closes, 0);
    snic_net_fabric_partition(p->e.fabric, 1, 2, 0);
    snic_net_fabric_partition(p->e.fabric, 2, 1, 0);
    run_for(&p->e, SECOND);
    assert_int_equal(p->client.closes, 1);
    assert_int_equal(p->client.reason, SNIC_ECONNRESET);
    conf_pair_close(p);
}

/* A killed node must reset its peers and refuse connects until it listens again. */
static void test_net_sim_node_killed_peers_reset_listeners_gone(void **state)
{
    struct conf_pair *p = pair_open();
    struct conf_peer again;
    (void)state;
    p->client.to_send = 1000000;
    conf_peer_send(&p->client);
    snic_net_fabric_kill(p->e.fabric, 1);
    run_for(&p->e, SECOND);
    assert_int_equal(p->server.reason, SNIC_ECONNRESET);
    assert_int_equal(p->client.reason, SNIC_ECONNRESET);
    assert_int_equal(p->client.in_flight, 0);
    conf_peer_init(&again, &p->e, p->e.client);
    conf_connect(&again, &p->e.listen_addr);
    run_for(&p->e, SECOND);
    assert_int_equal(again.connect_error, SNIC_ECONNREFUSED);
    p->server.closes = 0;
    p->server.conn = NULL;
    conf_listen(&p->s, &p->e, &p->server, 1); /* the same port: it is free */
    again.closes = 0;
    again.connected = 0;
    conf_connect(&again, &p->e.listen_addr);
    run_for(&p->e, SECOND);
    assert_int_equal(again.connected, 1);
    assert_int_equal(again.connect_error, 0);
    CONF_CALL(&p->e, snic_net_abort(again.conn));
    run_for(&p->e, SECOND);
    conf_peer_fini(&again);
    conf_pair_close(p);
}

/* A paused node must hear nothing, and everything when it resumes. */
static void test_net_sim_node_paused_events_wait(void **state)
{
    struct conf_pair *p = pair_open();
    (void)state;
    snic_world_pause(p->e.world, 1, 1);
    p->client.to_send = 30000;
    p->client.shutdown_when_sent = 1;
    p->server.shutdown_on_eof = 1;
    conf_peer_send(&p->client);
    run_for(&p->e, 100 * SECOND);
    assert_int_equal(p->server.received, 0);
    snic_world_pause(p->e.world, 1, 0);
    conf_until(&p->e, conf_both_closed, p);
    assert_int_equal(p->server.received, 30000);
    conf_pair_close(p);
}

/* A connect that is under way when the server's handle is shut would call into freed memory. */
static void test_net_sim_server_shut_connect_under_way_refused(void **state)
{
    void *sim = sim_state;
    struct conf_pair *p = conf_pair_make(&sim);
    (void)state;
    conf_pair_start(p);
    snic_net_shut(p->e.server);
    snic_loop_close(p->e.loops[0]);
    p->e.loops[0] = NULL;
    run_for(&p->e, SECOND);
    assert_int_equal(p->client.connected, 1);
    assert_int_equal(p->client.connect_error, SNIC_ECONNREFUSED);
    conf_connect(&p->client, &p->e.listen_addr); /* no handle at all any more */
    p->client.closes = 0;
    run_for(&p->e, SECOND);
    assert_int_equal(p->client.connected, 2);
    assert_int_equal(p->client.connect_error, SNIC_ECONNREFUSED);
    p->e.server = NULL;
    conf_pair_close(p);
}

/* ---- Links ---- */

struct counter {
    uint32_t messages;
    uint32_t changed_bits;
    uint32_t overtakes;
    uint32_t last;
    uint64_t last_ns;
};

static void count_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                       uint32_t count)
{
    struct counter *c = ctx;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = snic_get_le32(msgs[i].data);
        c->overtakes += number < c->last;
        c->last = number;
        c->messages++;
        c->last_ns = msgs[i].time_ns;
        for (uint32_t k = 4; k < msgs[i].size; k++)
            c->changed_bits += (uint32_t)__builtin_popcount(msgs[i].data[k] ^ 0x33u);
    }
    assert_int_equal(snic_loop_now(d->net->loop), c->last_ns);
}

static void train_done(struct snic_net_train *t)
{
    assert_true(t->result == 1);
}

/* Send @count datagrams of 100 bytes over @link, perhaps cut, 8 at a time; what arrives. */
static struct counter over_link(const struct snic_net_link *link, uint32_t count, int cut)
{
    static const struct snic_net_dgram_events events = {.recv = count_recv};
    struct conf_env e;
    void *sim = sim_state;
    struct counter c = {0};
    struct snic_net_dgram *d[2] = {NULL, NULL};
    struct snic_net_train t[8];
    unsigned char bytes[8][100];
    struct snic_net_addr a;
    conf_env_open(&e, &sim, NULL, NULL);
    uint64_t start = snic_world_now(e.world);
    assert_int_equal(snic_net_fabric_link(e.fabric, 2, 1, link), 0);
    snic_net_fabric_partition(e.fabric, 2, 1, cut);
    assert_int_equal(snic_net_addr_parse(&a, "sim:1:7"), 0);
    assert_int_equal(snic_net_dgram_open(e.server, &a, &events, &c, &d[0]), 0);
    a.node = 2;
    assert_int_equal(snic_net_dgram_open(e.client, &a, &events, &c, &d[1]), 0);
    a.node = 1;
    for (uint32_t i = 0; i < count; i++) {
        struct snic_iov v = {bytes[i % 8], 100};
        memset(bytes[i % 8], 0x33, 100);
        snic_put_le32(bytes[i % 8], i);
        memset(&t[i % 8], 0, sizeof(t[0]));
        t[i % 8].done = train_done;
        t[i % 8].peer = a;
        t[i % 8].iov = &v;
        t[i % 8].iov_count = 1;
        t[i % 8].segment = 100;
        assert_int_equal(snic_net_dgram_send(d[1], &t[i % 8]), 1);
        if (i % 8 == 7)
            run_for(&e, 1000); /* dones */
    }
    run_for(&e, SECOND);
    c.last_ns -= start;
    conf_env_close(&e);
    return c;
}

/* Faults that are asked for must happen, and others must not. */
static void test_net_sim_link_faults_as_configured(void **state)
{
    struct snic_net_link l = {.delay_min_ns = 1000, .delay_max_ns = 1000};
    struct counter c = over_link(&l, 1000, 0);
    (void)state;
    assert_int_equal(c.messages, 1000);
    assert_int_equal(c.overtakes, 0);
    assert_int_equal(c.changed_bits, 0);
    assert_int_equal(over_link(&l, 1000, 1).messages, 0);
    l.loss_ppm = 1000000;
    assert_int_equal(over_link(&l, 1000, 0).messages, 0);
    l.loss_ppm = 300000;
    c = over_link(&l, 1000, 0);
    assert_true(c.messages > 500 && c.messages < 900);
    l.loss_ppm = 0;
    l.duplicate_ppm = 1000000;
    assert_int_equal(over_link(&l, 1000, 0).messages, 2000);
    l.duplicate_ppm = 0;
    l.delay_max_ns = 1000000;
    c = over_link(&l, 1000, 0);
    assert_int_equal(c.messages, 1000);
    assert_true(c.overtakes > 100);
    l.delay_max_ns = 1000;
    l.corrupt_ppm = 1000000;
    c = over_link(&l, 1000, 0);
    assert_int_equal(c.messages, 1000);
    assert_true(c.changed_bits > 900 && c.changed_bits <= 1000); /* some hit the number */
}

/* A rate must take its time, and a full queue drop. */
static void test_net_sim_link_rate_and_queue_kept(void **state)
{
    struct snic_net_link l = {
        .delay_min_ns = 1, .delay_max_ns = 1, .bytes_per_s = 1000000, .queue_bytes = 1u << 20};
    struct counter c = over_link(&l, 1000, 0);
    (void)state;
    assert_int_equal(c.messages, 1000);
    assert_true(c.last_ns >= 100000000 && c.last_ns < 101000000); /* 100 kB at 1 MB/s */
    l.queue_bytes = 1000;
    c = over_link(&l, 1000, 0);
    assert_true(c.messages >= 9 && c.messages < 30);
}

static int refused_link(struct conf_env *e, const struct snic_net_link *l)
{
    return snic_net_fabric_link(e->fabric, 1, 2, l) == SNIC_EINVAL;
}

/* Nonsense must be noticed, and loops of another world. */
static void test_net_sim_bad_arguments_refused(void **state)
{
    struct conf_env e;
    void *sim = sim_state;
    struct snic_world *w = NULL;
    struct snic_loop *l = NULL;
    struct snic_net *n = NULL;
    struct snic_net_fabric *f = NULL;
    struct snic_net_listener *x = NULL;
    (void)state;
    conf_env_open(&e, &sim, NULL, NULL);
    assert_true(refused_link(&e, &(struct snic_net_link){.delay_min_ns = 2, .delay_max_ns = 1}));
    assert_true(refused_link(&e, &(struct snic_net_link){.loss_ppm = 1000001}));
    assert_true(refused_link(&e, &(struct snic_net_link){.duplicate_ppm = 1000001}));
    assert_true(refused_link(&e, &(struct snic_net_link){.corrupt_ppm = 1000001}));
    assert_true(refused_link(&e, &(struct snic_net_link){.delay_max_ns = UINT64_MAX}));
    assert_true(refused_link(&e, &(struct snic_net_link){.bytes_per_s = UINT64_MAX}));
    struct snic_net_fabric_opts o = {.opts_size = sizeof(o), .recv_size = UINT32_MAX};
    assert_int_equal(snic_net_fabric_open(&f, e.world, &o), SNIC_EINVAL);
    assert_int_equal(snic_world_open(&w, NULL), 0);
    assert_int_equal(snic_world_loop(w, 1, &l), 0);
    assert_int_equal(snic_net_sim_open(&n, e.fabric, l, NULL), SNIC_ENOTSUP);
    struct snic_net_uring_opts bad = {.opts_size = sizeof(bad), .pool_buffers = 3};
    assert_int_equal(snic_net_sim_open(&n, e.fabric, e.loops[0], &bad), SNIC_EINVAL);
    assert_null(n);
    assert_null(f);
    e.listen_addr.node = 9; /* not this node */
    assert_int_equal(snic_net_listen(e.server, &e.listen_addr, 0, conf_accept, NULL, &x),
                     SNIC_EINVAL);
    snic_loop_close(l);
    snic_world_close(w);
    conf_env_close(&e);
}

struct shared {
    uint32_t accepted[2];
};

static void shared_first(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    (void)peer;
    ((struct shared *)ctx)->accepted[0]++;
    snic_net_abort(c);
}

static void shared_second(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    (void)peer;
    ((struct shared *)ctx)->accepted[1]++;
    snic_net_abort(c);
}

static void shared_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    snic_net_put(c->net, b);
}

static void shared_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
}

/* A group that steers must send a node's connections to one listener, and always the same; one
 * that does not must not. */
static void test_net_sim_steered_connections_go_by_node(void **state)
{
    static const struct snic_net_stream_events ev = {.recv = shared_recv, .closed = shared_closed};
    (void)state;
    for (uint32_t steer = 0; steer < 2; steer++) {
        struct conf_env e;
        void *sim = sim_state;
        struct shared s = {{0, 0}};
        struct snic_net *other = NULL;
        struct snic_net_listener *l = NULL;
        uint32_t flags = SNIC_NET_REUSEPORT | (steer ? SNIC_NET_STEER_CPU(2) : 0);
        conf_env_open(&e, &sim, NULL, NULL);
        assert_int_equal(snic_net_sim_open(&other, e.fabric, e.loops[0], NULL), 0);
        e.listen_addr.port = 7;
        assert_int_equal(
            snic_net_listen(other, &e.listen_addr, SNIC_NET_STEER_CPU(2), shared_first, &s, &l),
            SNIC_EINVAL);
        assert_int_equal(snic_net_listen(other, &e.listen_addr, flags, shared_first, &s, &l), 0);
        assert_int_equal(snic_net_listen(e.server, &e.listen_addr, flags, shared_second, &s, &l),
                         0);
        assert_int_equal(other->stats.steered, steer);
        for (uint32_t i = 0; i < 60; i++) {
            struct snic_net_conn *c = NULL; /* of node 2, number 0 of two, or of node 1 */
            assert_int_equal(
                snic_net_connect(i % 3 ? e.client : e.server, &e.listen_addr, &ev, NULL, &c), 0);
            run_for(&e, SECOND);
        }
        assert_int_equal(s.accepted[0] + s.accepted[1], 60);
        if (steer)
            assert_int_equal(s.accepted[0], 40);
        else
            assert_in_range(s.accepted[0], 10, 50);
        snic_net_shut(other);
        conf_env_close(&e);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_net_sim_same_seed_same_run),
        cmocka_unit_test(test_net_sim_cut_mended_stream_goes_on),
        cmocka_unit_test(test_net_sim_cut_mended_idle_stream_stays),
        cmocka_unit_test(test_net_sim_cut_for_long_both_time_out),
        cmocka_unit_test(test_net_sim_impatient_times_out_sooner),
        cmocka_unit_test(test_net_sim_cut_connect_times_out_or_succeeds),
        cmocka_unit_test(test_net_sim_peer_gone_behind_cut_reset_when_mended),
        cmocka_unit_test(test_net_sim_node_killed_peers_reset_listeners_gone),
        cmocka_unit_test(test_net_sim_node_paused_events_wait),
        cmocka_unit_test(test_net_sim_server_shut_connect_under_way_refused),
        cmocka_unit_test(test_net_sim_link_faults_as_configured),
        cmocka_unit_test(test_net_sim_link_rate_and_queue_kept),
        cmocka_unit_test(test_net_sim_steered_connections_go_by_node),
        cmocka_unit_test(test_net_sim_bad_arguments_refused),
    };
    static struct CMUnitTest tests[128];
    size_t n = conformance_net(tests, SNIC_COUNTOF(tests) - SNIC_COUNTOF(own), backends,
                               SNIC_COUNTOF(backends));
    memcpy(&tests[n], own, sizeof(own));
    return support_main(argc, argv, tests, n + SNIC_COUNTOF(own));
}
