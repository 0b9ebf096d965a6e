/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * LUNA under volume, as far as it is not SOLAR's contract (test_volume): connections that send what
 * they like, do not read, fall silent, stay half open or take all places; and the hang that PAPER
 * has and the default bounds.
 */
#include <stdlib.h>

#include "support.h"
#include "volfix.h"
#include "volume/volume_priv.h"

enum { RAW_NODE = 11, RAW_MAX = 16, RAW_KEPT = 64 };

static struct volfix fix;
static unsigned char *buffer;

/* A connection of our own to server 0: an agent of the engine's, or bytes of any kind. */
struct raw {
    struct snic_net_conn *c;
    struct snic_net_buf *kept[RAW_KEPT]; /* if it is deaf */
    uint32_t kept_count;
    struct snic_luna *agent; /* NULL: none */
    void *mem;
    uint16_t gen;
    uint16_t deaf;
    int up, ended;
    uint64_t got;
};

struct raw_send {
    struct snic_net_send_req req;
    struct snic_luna_send *send;
    struct raw *of;
    struct snic_iov iov;
};

static struct raw raws[RAW_MAX];
static struct snic_loop *raw_loop;
static struct snic_net *raw_net;

static int setup_with(uint32_t paper)
{
    buffer = aligned_alloc(4096, 4u << 20);
    assert_non_null(buffer);
    volfix_start(&fix, SNIC_VOLUME_LUNA, support_seed(), 2);
    if (paper) {
        volfix_client_kill(&fix);
        fix.paper = 1;
        volfix_client_start(&fix);
    }
    memset(raws, 0, sizeof(raws));
    assert_int_equal(snic_world_loop(fix.world, RAW_NODE, &raw_loop), 0);
    assert_int_equal(snic_net_sim_open(&raw_net, fix.fabric, raw_loop, NULL), 0);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with(0);
}

static void raw_put(struct raw *x)
{
    while (x->kept_count > 0)
        snic_net_put(raw_net, x->kept[--x->kept_count]);
}

static int teardown(void **state)
{
    (void)state;
    volfix_check(&fix);
    for (uint32_t i = 0; i < RAW_MAX; i++)
        raw_put(&raws[i]);
    snic_net_shut(raw_net);
    snic_loop_close(raw_loop);
    for (uint32_t i = 0; i < RAW_MAX; i++)
        if (raws[i].agent != NULL) {
            struct snic_ebs_action a;
            snic_luna_halt(raws[i].agent, snic_world_now(fix.world));
            while (snic_luna_poll(raws[i].agent, &a, 1, snic_world_now(fix.world)) == 1) {
            }
            free(snic_luna_fini(raws[i].agent));
        }
    volfix_end(&fix);
    free(buffer);
    return 0;
}

/* ---- Raw connections ---- */

static void raw_sent(struct snic_net_send_req *s)
{
    struct raw_send *r = SNIC_CONTAINER(s, struct raw_send, req);
    if (r->send != NULL)
        snic_luna_sent(r->of->agent, r->send, snic_world_now(fix.world));
    else
        free(r->iov.base);
    free(r);
}

static void raw_pump(struct raw *x)
{
    struct snic_ebs_action a;
    while (x->agent != NULL && snic_luna_poll(x->agent, &a, 1, snic_world_now(fix.world)) == 1) {
        if (a.type == SNIC_EBS_ACT_OPEN)
            x->gen = a.gen;
        if (a.type != SNIC_EBS_ACT_SEND)
            continue;
        struct raw_send *r = calloc(1, sizeof(*r));
        assert_non_null(r);
        r->of = x;
        r->send = a.send;
        r->req.region = SNIC_NO_REGION;
        r->req.done = raw_sent;
        r->req.iov = a.send->iov;
        r->req.iov_count = a.send->iov_count;
        if (x->ended || snic_net_send(x->c, &r->req) != 1)
            raw_sent(&r->req);
    }
}

static void raw_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct raw *x = ctx;
    (void)c;
    x->up = error == 0;
    if (x->agent != NULL && x->up)
        assert_int_equal(snic_luna_connected(x->agent, 0, 0, x->gen, snic_world_now(fix.world)), 0);
    raw_pump(x);
}

static void raw_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct raw *x = ctx;
    (void)c;
    x->got += b->size;
    if (x->deaf) {
        assert_true(x->kept_count < RAW_KEPT);
        x->kept[x->kept_count++] = b;
        return;
    }
    if (x->agent != NULL)
        (void)snic_luna_recv(x->agent, 0, 0, x->gen, b->data, b->size, snic_world_now(fix.world));
    snic_net_put(raw_net, b);
    raw_pump(x);
}

static void raw_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct raw *x = ctx;
    (void)c;
    (void)reason;
    x->ended = 1;
}

static void raw_open(struct raw *x)
{
    static const struct snic_net_stream_events ev = {
        .connected = raw_connected, .recv = raw_recv, .closed = raw_closed};
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 0, .port = VOLFIX_PORT};
    x->up = x->ended = 0;
    x->got = 0;
    assert_int_equal(snic_net_connect(raw_net, &a, &ev, x, &x->c), 0);
}

static void raw_send(struct raw *x, const unsigned char *bytes, size_t size)
{
    struct raw_send *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->iov.base = malloc(size);
    assert_non_null(r->iov.base);
    memcpy(r->iov.base, bytes, size);
    r->iov.size = size;
    r->req.region = SNIC_NO_REGION;
    r->req.done = raw_sent;
    r->req.iov = &r->iov;
    r->req.iov_count = 1;
    if (x->ended || snic_net_send(x->c, &r->req) != 1)
        raw_sent(&r->req);
}

/* An agent for it, with disk @p vd, whose segment 0 is segment @p seg_id. */
static void raw_agent_of(struct raw *x, uint64_t vd, uint64_t seg_id, uint32_t gen)
{
    struct snic_luna_opts o = {.opts_size = sizeof(o), .client_epoch = 77, .conns = 1};
    struct snic_ebs_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = fix.epoch, .vd_id = vd};
    uint64_t now = snic_world_now(fix.world);
    o.seed = 99 + (uint64_t)(x - raws);
    o.servers_max = 1;
    o.disks_max = 1;
    o.window_blocks = 4096;
    o.progress_ns = 3600000 * VOLFIX_MS; /* it has all the patience there is */
    o.deadline_ns = o.slow_ns = 3600000 * VOLFIX_MS;
    d.blocks = 512;
    size_t size = snic_luna_memsize(&o);
    x->mem = aligned_alloc(SNIC_LUNA_ALIGN, snic_align_up(size, SNIC_LUNA_ALIGN));
    assert_non_null(x->mem);
    assert_int_equal(snic_luna_init(&x->agent, x->mem, size, &o, now), 0);
    assert_int_equal(snic_luna_server_add(x->agent, 0, now), 0);
    assert_int_equal(snic_luna_attach(x->agent, 0, &d, now), 0);
    assert_int_equal(snic_luna_map(x->agent, 0, 0, seg_id, 0, gen, now), 0);
    raw_pump(x);
    raw_open(x);
}

static void raw_agent(struct raw *x, uint64_t seg_id, uint32_t gen)
{
    raw_agent_of(x, 9, seg_id, gen);
}

static struct snic_luna_target_stats target(void)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    return s.luna;
}

static int all_are(const unsigned char *p, size_t size, int value)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != value)
            return 0;
    return 1;
}

static void write_ones(void)
{
    memset(buffer, 1, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 65536, buffer), 65536);
}

static void read_ones(void)
{
    memset(buffer, 0, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 65536, buffer), 65536);
    assert_true(all_are(buffer, 65536, 1));
}

/* ---- What is no stream of ours ---- */

/* An agent's valid messages up to a write of 3 blocks: to a segment that does not exist. */
static size_t recorded(unsigned char *to, size_t max)
{
    struct raw *x = &raws[0];
    static struct snic_ebs_io io;
    static struct snic_iov iov;
    struct snic_ebs_action a;
    size_t size = 0;
    uint64_t now = snic_world_now(fix.world);
    raw_agent(x, 999, 1);
    while (!x->up || x->got == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    memset(&io, 0, sizeof(io));
    iov = (struct snic_iov){buffer, 12288};
    io.iov = &iov;
    io.iov_count = 1;
    io.blocks = 3;
    io.op = SNIC_EBS_IO_WRITE;
    assert_int_equal(snic_luna_submit(x->agent, &io, now), 0);
    while (size == 0 && snic_luna_poll(x->agent, &a, 1, now) == 1) {
        if (a.type != SNIC_EBS_ACT_SEND)
            continue;
        for (uint32_t i = 0; i < a.send->iov_count; i++) {
            assert_true(size + a.send->iov[i].size <= max);
            memcpy(to + size, a.send->iov[i].base, a.send->iov[i].size);
            size += a.send->iov[i].size;
        }
        snic_luna_sent(x->agent, a.send, now);
    }
    assert_true(size > 12288);
    return size;
}

static void test_volume_luna_noise_is_closed(void **state)
{
    static unsigned char noise[32768];
    (void)state;
    write_ones();
    uint64_t before = target().violations;
    for (uint32_t round = 0; round < support_rounds(40, 1000); round++) {
        struct raw *x = &raws[1 + round % 4];
        size_t size = 1 + snic_rng_below(&fix.rng, sizeof(noise));
        snic_rng_fill(&fix.rng, noise, size);
        raw_open(x);
        raw_send(x, noise, size);
        volfix_run(&fix, snic_rng_below(&fix.rng, 5 * VOLFIX_MS));
        if (!x->ended)
            snic_net_abort(x->c);
        while (!x->ended)
            assert_int_equal(snic_world_step(fix.world), 1);
        volfix_check(&fix);
    }
    assert_true(target().violations > before);
    volfix_run(&fix, 1000 * VOLFIX_MS);
    assert_int_equal(fix.server[0].s->luna.used, 2); /* the client's */
    read_ones();
}

/* On a connection that has greeted: a write, whole, cut off, or with damage anywhere. */
static void test_volume_luna_damaged_frames_change_nothing(void **state)
{
    static unsigned char bytes[65536], sent[65536];
    (void)state;
    write_ones();
    size_t size = recorded(bytes, sizeof(bytes));
    raw_send(&raws[0], bytes, size); /* as it was meant */
    volfix_run(&fix, 50 * VOLFIX_MS);
    assert_false(raws[0].ended);
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_int_equal(s.no_segment, 3);
    uint64_t groups = s.groups;
    for (uint32_t round = 0; round < support_rounds(60, 2000); round++) {
        struct raw *x = &raws[1 + round % 4];
        if (x->agent != NULL) {
            snic_luna_halt(x->agent, snic_world_now(fix.world));
            free(snic_luna_fini(x->agent));
            x->agent = NULL;
        }
        raw_agent(x, 999, 1);
        while (!x->up || x->got == 0)
            assert_int_equal(snic_world_step(fix.world), 1);
        memcpy(sent, bytes, size);
        sent[snic_rng_below(&fix.rng, 200)] ^= (unsigned char)(1 + snic_rng_below(&fix.rng, 255));
        raw_send(x, sent, 1 + snic_rng_below(&fix.rng, size));
        volfix_run(&fix, snic_rng_below(&fix.rng, 3 * VOLFIX_MS));
        if (!x->ended)
            snic_net_abort(x->c); /* in the middle of it */
        while (!x->ended)
            assert_int_equal(snic_world_step(fix.world), 1);
        volfix_check(&fix);
    }
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_int_equal(s.groups, groups);
    assert_int_equal(s.inside, 0);
    read_ones();
}

/* A write of zeros to block 0 of @p seg_id, by a peer with arbitrary fields: how it ends. */
static int32_t intrude(struct raw *x, uint64_t vd, uint64_t seg_id, uint32_t gen)
{
    static struct snic_ebs_io io;
    raw_agent_of(x, vd, seg_id, gen);
    while (!x->up || x->got == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    memset(&io, 0, sizeof(io));
    io.blocks = 1;
    io.op = SNIC_EBS_IO_ZERO;
    assert_int_equal(snic_luna_submit(x->agent, &io, snic_world_now(fix.world)), 0);
    raw_pump(x);
    volfix_run(&fix, 100 * VOLFIX_MS);
    return io.done_ns != 0 ? io.result : 1;
}

static void test_volume_luna_another_disk_is_refused(void **state)
{
    struct snic_volume_server_stats s;
    (void)state;
    write_ones();
    assert_int_equal(intrude(&raws[1], 8, 100, fix.place[0].gen), SNIC_EINVAL);
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_int_equal(s.invalid, 1);
    read_ones();
}

static void test_volume_luna_own_segment_is_not_written(void **state)
{
    struct snic_volume_server_stats s;
    (void)state;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    uint32_t before = s.srv_epoch;
    assert_int_equal(
        intrude(&raws[1], SNIC_VOLUME_META, SNIC_VOLUME_META, snic_volume_gen(fix.epoch, 1)),
        1); /* it asks where that is */
    snic_net_abort(raws[1].c);
    volfix_server_stop(&fix, 0);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_int_equal(s.srv_epoch, before + 1);
}

/* A client of another version is refused, and gets the reason. */
static void test_volume_luna_other_version_reported(void **state)
{
    unsigned char hello[SNIC_EBS_HEADER_BYTES];
    struct snic_ebs_header h = {.type = SNIC_EBS_HELLO, .pkt_cnt = 1, .path_seq = 1, .pn = 1};
    struct raw *x = &raws[1];
    (void)state;
    h.u.hello.ver_min = h.u.hello.ver_max = SNIC_EBS_VERSION + 1;
    h.u.hello.conn_id = 5;
    h.u.hello.client_id = 6;
    h.u.hello.nonce = 7;
    assert_true(snic_ebs_encode(hello, sizeof(hello), NULL, SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER,
                                &h, NULL, 0) > 0);
    raw_open(x);
    raw_send(x, hello, sizeof(hello));
    volfix_run(&fix, 20 * VOLFIX_MS);
    assert_int_equal(x->got, SNIC_EBS_HEADER_BYTES); /* RESET */
    snic_net_close(x->c);
    while (!x->ended)
        assert_int_equal(snic_world_step(fix.world), 1);
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_int_equal(fix.server[0].s->luna.used, 2);
}

/* ---- Back-pressure ---- */

/* A client asks for much and reads nothing: others proceed, it is closed, nothing of it is left. */
static void test_volume_luna_deaf_client_is_closed(void **state)
{
    static struct snic_ebs_io io[8];
    static struct snic_iov iov;
    struct raw *x = &raws[1];
    (void)state;
    write_ones();
    raw_agent(x, 100, fix.place[0].gen);
    while (!x->up || x->got == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    x->deaf = 1;
    iov = (struct snic_iov){buffer + (1u << 20), 64 * 4096};
    for (uint32_t i = 0; i < SNIC_COUNTOF(io); i++) {
        memset(&io[i], 0, sizeof(io[i]));
        io[i].iov = &iov;
        io[i].iov_count = 1;
        io[i].blocks = 64;
        io[i].lba = 0;
        io[i].op = SNIC_EBS_IO_READ;
        assert_int_equal(snic_luna_submit(x->agent, &io[i], snic_world_now(fix.world)), 0);
    }
    raw_pump(x);
    volfix_run(&fix, 100 * VOLFIX_MS);
    assert_int_equal(target().sends_out, 4); /* a quarter */
    assert_true(target().pauses > 0);
    assert_true(fix.server[0].s->reads.out > 4); /* they wait */
    uint64_t began = snic_world_now(fix.world);
    for (uint32_t i = 0; i < 50; i++)
        read_ones();
    assert_true(snic_world_now(fix.world) - began < 500 * VOLFIX_MS);
    assert_false(x->ended);
    volfix_run(&fix, 11000 * VOLFIX_MS);
    assert_int_equal(target().deaf, 1);
    assert_true(x->ended);
    assert_int_equal(fix.server[0].s->reads.out, 0);
    assert_int_equal(target().sends_out, 0);
    read_ones();
}

/* More than the store has room for: receiving pauses, and all arrives. */
static void test_volume_luna_server_full_pauses(void **state)
{
    (void)state;
    uint32_t held = 0;
    volfix_load(&fix, 400);
    while (fix.inflight > 0 || fix.begun < fix.wanted) {
        volfix_run(&fix, 10000);
        volfix_load(&fix, fix.wanted - fix.begun);
        for (uint32_t i = 0; i < fix.server[0].s->o.streams_max; i++)
            held += !snic_queue_empty(&fix.server[0].s->luna.peers[i].held);
    }
    assert_true(held > 0);
    assert_true(target().pauses > 0);
    assert_true(target().cut > 0);
    assert_int_equal(target().violations, 0);
    volfix_audit(&fix);
}

/* ---- Silence ---- */

/* The server's owner does not read one connection any more: its kernel lives, nothing is answered.
 */
static void freeze(int paused)
{
    struct snic_luna_conn_stats c;
    for (uint32_t i = 0; i < fix.server[0].s->o.streams_max; i++)
        if (fix.server[0].s->luna.peers[i].k.c != NULL) {
            snic_net_pause(fix.server[0].s->luna.peers[i].k.c, paused);
            break;
        }
    assert_int_equal(snic_volume_get_conn(fix.v, 0, 0, &c), 0);
    assert_int_equal(c.state, SNIC_LUNA_UP);
}

static int done;
static void io_done(struct snic_io_req *r)
{
    done += r->result == (int64_t)r->length;
}

static void begin(struct snic_io_req *r, uint64_t block)
{
    struct snic_io_req *p = r;
    snic_io_req_init(r);
    r->done = io_done;
    r->op = SNIC_IO_WRITE;
    r->offset = block * 4096;
    r->length = 4096;
    r->buf.base = buffer;
    r->buf.size = 4096;
    assert_int_equal(snic_io_submit(fix.io, &p, 1), 1);
}

static void test_volume_luna_silent_connection_is_replayed(void **state)
{
    static struct snic_io_req r[16];
    struct snic_volume_stats s;
    (void)state;
    write_ones();
    freeze(1);
    done = 0;
    uint64_t began = snic_world_now(fix.world);
    for (uint32_t i = 0; i < 16; i++) { /* to one, and to the other */
        begin(&r[i], i);
        volfix_run(&fix, 20000);
    }
    while (done < 16 && snic_world_now(fix.world) - began < 1000 * VOLFIX_MS)
        assert_int_equal(snic_world_step(fix.world), 1);
    assert_int_equal(done, 16);
    snic_volume_get_stats(fix.v, &s);
    assert_int_equal(s.luna.silences, 1);
    assert_true(s.luna.replays > 0);
}

static void test_volume_luna_paper_hangs(void **state)
{
    static struct snic_io_req r[16];
    struct snic_volume_stats s;
    (void)state;
    setup_with(1);
    write_ones();
    freeze(1);
    done = 0;
    for (uint32_t i = 0; i < 16; i++)
        begin(&r[i], i);
    volfix_run(&fix, 20000 * VOLFIX_MS);
    assert_int_equal(done, 0);
    freeze(0);
    volfix_run(&fix, 1000 * VOLFIX_MS);
    assert_int_equal(done, 16);
    snic_volume_get_stats(fix.v, &s);
    assert_int_equal(s.luna.silences + s.luna.resets + s.luna.replays + s.luna.probes, 0);
    assert_int_equal(s.open, 2); /* one a server */
    (void)teardown(NULL);
}

/* The client hears nothing and leaves; the server does not hear that it left. */
static void test_volume_luna_half_open_is_replaced(void **state)
{
    static struct snic_io_req r;
    struct snic_luna_conn_stats c;
    (void)state;
    write_ones();
    snic_net_fabric_partition(fix.fabric, 10, 0, 1);
    snic_net_fabric_partition(fix.fabric, 0, 10, 1);
    done = 0;
    begin(&r, 0);
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_int_equal(done, 0);
    assert_true(fix.suspects > 0);
    assert_int_equal(target().closed, 0);
    snic_net_fabric_partition(fix.fabric, 10, 0, 0);
    snic_net_fabric_partition(fix.fabric, 0, 10, 0);
    volfix_run(&fix, 1500 * VOLFIX_MS);
    assert_int_equal(done, 1);
    assert_true(target().closed >= 2);
    assert_int_equal(target().conns, 2);
    assert_int_equal(snic_volume_get_conn(fix.v, 0, 0, &c), 0);
    assert_true(c.closes > 0 && c.gen > 1);
    assert_int_equal(snic_volume_get_conn(fix.v, 0, 2, &c), SNIC_ENOENT);
    assert_int_equal(snic_volume_get_path(fix.v, 0, 0, &(struct snic_solar_path_stats){0}),
                     SNIC_ENOENT);
}

/* ---- Places ---- */

/* Six silent ones and two of a client's are all: the next client has a place after 1 s. */
static void test_volume_luna_silent_ones_make_room(void **state)
{
    struct snic_volume_server_stats s;
    (void)state;
    write_ones();
    for (uint32_t i = 0; i < 6; i++)
        raw_open(&raws[i]);
    volfix_run(&fix, 10 * VOLFIX_MS);
    assert_int_equal(target().conns, 8);
    volfix_client_kill(&fix);
    volfix_run(&fix, 10 * VOLFIX_MS);
    for (uint32_t i = 6; i < 8; i++)
        raw_open(&raws[i]);
    volfix_run(&fix, 10 * VOLFIX_MS);
    assert_int_equal(target().conns, 8);
    raw_open(&raws[8]);
    volfix_run(&fix, 10 * VOLFIX_MS);
    assert_true(raws[8].ended);
    volfix_client_start(&fix);
    uint64_t began = snic_world_now(fix.world);
    read_ones();
    assert_true(snic_world_now(fix.world) - began > 900 * VOLFIX_MS);
    assert_true(snic_world_now(fix.world) - began < 2000 * VOLFIX_MS);
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_true(s.turned_away > 1);
    assert_true(s.luna.evicted > 0);
}

/* ---- A server that is none ---- */

enum { LIAR_PORT = 7777, LIAR_CONNS = 8, LIAR_BYTES = 8192 };
enum {
    LIAR_ABORTS = 0,
    LIAR_CLOSES,
    LIAR_NOISE,
    LIAR_ECHO,
    LIAR_SILENT,
    LIAR_NOISE_ENDS,
    LIAR_MODES
};

static struct liar {
    struct snic_net_conn *c; /* NULL: free */
    struct snic_net_send_req req;
    struct snic_iov iov;
    unsigned char bytes[LIAR_BYTES];
    int busy;
} liars[LIAR_CONNS];
static uint32_t liar_mode, liar_accepts;

static void liar_sent(struct snic_net_send_req *r)
{
    SNIC_CONTAINER(r, struct liar, req)->busy = 0;
}

static void liar_send(struct liar *x, size_t size)
{
    memset(&x->req, 0, sizeof(x->req));
    x->iov = (struct snic_iov){x->bytes, size};
    x->req.iov = &x->iov;
    x->req.iov_count = 1;
    x->req.done = liar_sent;
    x->req.region = SNIC_NO_REGION;
    x->busy = snic_net_send(x->c, &x->req) == 1;
}

static void liar_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct liar *x = ctx;
    if (liar_mode == LIAR_ECHO && !x->busy) { /* what it has sent itself */
        size_t size = b->size < LIAR_BYTES ? b->size : LIAR_BYTES;
        memcpy(x->bytes, b->data, size);
        liar_send(x, size);
    }
    snic_net_put(c->net, b);
}

static void liar_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)c;
    (void)reason;
    ((struct liar *)ctx)->c = NULL;
}

static void liar_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events ev = {.recv = liar_recv, .closed = liar_closed};
    struct liar *x = NULL;
    (void)ctx;
    (void)peer;
    liar_accepts++;
    for (uint32_t i = 0; i < LIAR_CONNS && x == NULL; i++)
        if (liars[i].c == NULL && !liars[i].busy)
            x = &liars[i];
    if (x == NULL || liar_mode == LIAR_ABORTS) {
        snic_net_abort(c);
        return;
    }
    x->c = c;
    snic_net_bind(c, &ev, x);
    if (liar_mode == LIAR_NOISE || liar_mode == LIAR_NOISE_ENDS) {
        size_t size = 1 + snic_rng_below(&fix.rng, LIAR_BYTES);
        snic_rng_fill(&fix.rng, x->bytes, size);
        liar_send(x, size);
    }
    if (liar_mode == LIAR_CLOSES || liar_mode == LIAR_NOISE_ENDS)
        snic_net_close(c);
}

/* Another process at the server's address sends garbage: the client keeps its I/O, connects again
   and again, but not in a tight loop, and resumes when the server is back. */
static void test_volume_luna_server_that_is_none_is_left(void **state)
{
    static struct snic_io_req r;
    struct snic_net_addr at = {.family = SNIC_NET_SIM, .node = RAW_NODE, .port = LIAR_PORT};
    struct snic_net_addr home = {.family = SNIC_NET_SIM, .node = 0, .port = VOLFIX_PORT};
    struct snic_net_listener *listener;
    (void)state;
    write_ones();
    assert_int_equal(snic_net_listen(raw_net, &at, 0, liar_accept, NULL, &listener), 0);
    volfix_server_stop(&fix, 0);
    assert_int_equal(snic_volume_server_readdress(fix.v, 0, &at), 0);
    done = 0;
    begin(&r, 0);
    for (liar_mode = 0; liar_mode < LIAR_MODES; liar_mode++) {
        liar_accepts = 0;
        volfix_run(&fix, 5000 * VOLFIX_MS);
        volfix_check(&fix);
        assert_int_equal(done, 0);
        if (liar_accepts == 0 || liar_accepts > 1000)
            fail_msg("it connected %u times in 5 s, mode %u", liar_accepts, liar_mode);
    }
    snic_net_unlisten(listener);
    for (uint32_t i = 0; i < LIAR_CONNS; i++)
        if (liars[i].c != NULL)
            snic_net_abort(liars[i].c);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    assert_int_equal(snic_volume_server_readdress(fix.v, 0, &home), 0);
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_int_equal(done, 1);
    read_ones();
}

/* ---- Both at once ---- */

static void test_volume_luna_and_solar_share_a_store(void **state)
{
    struct snic_volume_server_stats s;
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        write_ones();
        volfix_client_kill(&fix);
        fix.transport = i % 2 == 0 ? SNIC_VOLUME_SOLAR : SNIC_VOLUME_LUNA;
        volfix_client_start(&fix);
        read_ones();
    }
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_true(s.target.writes > 0 && s.luna.writes > 0);
    assert_true(s.writes >= 4 * 16); /* SOLAR may send one twice */
}

/* A server serves what its options allow, and nothing else. */
static void test_volume_luna_only_where_it_is_served(void **state)
{
    static struct snic_io_req r;
    struct snic_volume_server_stats s;
    (void)state;
    write_ones();
    volfix_server_stop(&fix, 0);
    fix.transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    done = 0;
    begin(&r, 0);
    volfix_run(&fix, 2000 * VOLFIX_MS);
    assert_int_equal(done, 0);
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_int_equal(s.luna.opened, 0);
    volfix_server_stop(&fix, 0);
    fix.transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    volfix_run(&fix, 1000 * VOLFIX_MS);
    assert_int_equal(done, 1);
    read_ones();
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_true(s.luna.opened > 0);
    assert_int_equal(s.target.packets_in, 0);
    volfix_server_stop(&fix, 0);
    fix.transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA + 1);
    struct snic_volume_server_opts o = {.opts_size = sizeof(o), .disks = 1};
    o.loop = fix.loop;
    o.net = fix.net;
    o.transports = fix.transports;
    assert_int_equal(snic_volume_server_memsize(&o), 0);
    fix.transports = 0;
    assert_int_equal(volfix_server_start(&fix, 0), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {CASE(test_volume_luna_noise_is_closed),
                                       CASE(test_volume_luna_damaged_frames_change_nothing),
                                       CASE(test_volume_luna_another_disk_is_refused),
                                       CASE(test_volume_luna_own_segment_is_not_written),
                                       CASE(test_volume_luna_other_version_reported),
                                       CASE(test_volume_luna_deaf_client_is_closed),
                                       CASE(test_volume_luna_server_full_pauses),
                                       CASE(test_volume_luna_silent_connection_is_replayed),
                                       cmocka_unit_test(test_volume_luna_paper_hangs),
                                       CASE(test_volume_luna_half_open_is_replaced),
                                       CASE(test_volume_luna_silent_ones_make_room),
                                       CASE(test_volume_luna_server_that_is_none_is_left),
                                       CASE(test_volume_luna_and_solar_share_a_store),
                                       CASE(test_volume_luna_only_where_it_is_served)};
    return SUPPORT_MAIN(argc, argv, tests);
}
