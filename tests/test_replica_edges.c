/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One node without its cluster: options, operations that are refused, packets of somebody who is no
 * node, what is looked at without asking, a membership file that no node of this cluster wrote.
 */
#include "replica/replica_priv.h"
#include "support.h"

#include <string.h>

enum { MS = 1000000, PORT = 7000, NODES = 3 };

static struct {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop[NODES];
    struct snic_net *net[NODES];
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_net_addr addrs[SNIC_DDP_NODES_MAX];
    struct snic_replica *r;
    void *mem;
    size_t size;
    struct snic_replica_opts o;
    struct snic_net_dgram *as[NODES]; /* the others are the test */
} fix;

static void doors(uint16_t configured)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {.opts_size = sizeof(d), .sector = 512, .size = 4 << 20};
    struct snic_net_uring_opts net = {.opts_size = sizeof(net), .conns_max = 1};
    net.recv_buffers = 1;
    net.pool_buffers = 2;
    net.send_queue = 128;
    memset(&fix, 0, sizeof(fix));
    assert_int_equal(snic_world_open(&fix.world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&fix.fabric, fix.world, NULL), 0);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(snic_world_loop(fix.world, n, &fix.loop[n]), 0);
        assert_int_equal(snic_net_sim_open(&fix.net[n], fix.fabric, fix.loop[n], &net), 0);
        fix.addrs[n].family = SNIC_NET_SIM;
        fix.addrs[n].node = n;
        fix.addrs[n].port = PORT;
    }
    assert_int_equal(snic_disk_open(&fix.disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&fix.io, fix.loop[0], fix.disk), 0);
    struct snic_replica_opts *o = &fix.o;
    o->opts_size = sizeof(*o);
    o->flags = SNIC_REPLICA_FOUND;
    o->loop = fix.loop[0];
    o->net = fix.net[0];
    o->log = fix.io;
    o->addrs = fix.addrs;
    o->cluster = 0xc1;
    o->incarnation = 1000;
    o->configured = configured;
    o->model = SNIC_DDP_SYNCH;
    o->keys_max = 64;
    o->value_max = 4000;
    o->values_bytes = 1 << 18;
    o->wal.opts_size = sizeof(o->wal);
    o->wal.flags = SNIC_WAL_CREATE;
    o->wal.segment_bytes = 128 << 10;
    o->wal.block_bytes = 512;
}

static void start(void)
{
    fix.size = snic_replica_memsize(&fix.o);
    assert_true(fix.size > 0);
    fix.mem = support_guard_alloc(fix.size, SNIC_REPLICA_ALIGN);
    assert_int_equal(snic_replica_init(&fix.r, fix.mem, fix.size, &fix.o), 0);
}

static void run(uint64_t ns)
{
    uint64_t until = snic_world_now(fix.world) + ns;
    while (snic_world_run(fix.world, until, 1) > 0)
        assert_int_equal(snic_replica_check(fix.r), 0);
}

static struct snic_replica_info info(void)
{
    struct snic_replica_info i;
    snic_replica_inspect(fix.r, &i);
    return i;
}

static void stop(void)
{
    snic_replica_stop(fix.r);
    run(MS);
    assert_ptr_equal(snic_replica_fini(fix.r), fix.mem);
    support_guard_free(fix.mem);
    fix.r = NULL;
}

static void finish(void)
{
    for (uint32_t n = 0; n < NODES; n++)
        snic_net_shut(fix.net[n]);
    snic_io_close(fix.io);
    snic_disk_close(fix.disk);
    for (uint32_t n = 0; n < NODES; n++)
        snic_loop_close(fix.loop[n]);
    snic_net_fabric_close(fix.fabric);
    snic_world_close(fix.world);
}

/* ---- Operations ---- */

struct op {
    struct snic_replica_op op;
    int done;
    uint32_t size;
    unsigned char data[4096];
    int any;
};

static void op_done(struct snic_replica_op *op)
{
    struct op *o = SNIC_CONTAINER(op, struct op, op);
    o->done++;
    o->any = op->data != NULL;
    o->size = op->size;
    if (op->size > 0)
        memcpy(o->data, op->data, op->size);
}

static int begin(struct op *o, uint32_t kind, uint64_t key, const void *data, uint32_t size)
{
    uint64_t ts = o->op.ts;
    memset(o, 0, sizeof(*o));
    o->op.done = op_done;
    o->op.kind = kind;
    o->op.key.w[0] = key;
    o->op.data = data;
    o->op.size = size;
    o->op.ts = ts;
    return snic_replica_submit(fix.r, &o->op);
}

static int act(struct op *o, uint32_t kind, uint64_t key, const void *data, uint32_t size)
{
    int e = begin(o, kind, key, data, size);
    if (e != 0)
        return e;
    for (uint32_t i = 0; !o->done; i++) {
        assert_true(i < 1000);
        run(MS);
    }
    return o->op.result;
}

static void test_replica_edges_options_checked(void **state)
{
    struct snic_replica_opts o;
    struct snic_replica *r = NULL;
    (void)state;
    doors(1);
    size_t size = snic_replica_memsize(&fix.o);
    unsigned char *mem = support_guard_alloc(size + 8, SNIC_REPLICA_ALIGN);
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        o = fix.o;                                                                                 \
        o.field = (value);                                                                         \
        assert_int_equal(snic_replica_memsize(&o), 0);                                             \
        assert_int_equal(snic_replica_init(&r, mem, size, &o), SNIC_EINVAL);                       \
    } while (0)
    BAD(opts_size, 3);
    BAD(flags, 2);
    BAD(loop, NULL);
    BAD(net, NULL);
    BAD(log, NULL);
    BAD(addrs, NULL);
    BAD(net, fix.net[1]); /* on another loop */
    BAD(loop, fix.loop[1]);
    BAD(value_max, SNIC_REPLICA_VALUE_MAX + 1);
    BAD(datagram_max, 255);
    BAD(datagram_max, 65281);
    BAD(sends_max, 65537);
    BAD(sends_max, 2); /* fewer than the largest value takes */
    BAD(pieces_max, 1025);
    BAD(values_bytes, (UINT64_C(1) << 36) + 1);
    BAD(values_bytes, 3999);
    BAD(appends_max, (1u << 24) + 1);
    BAD(appends_max, 1u << 25);
    BAD(appends_max, 4097);
    BAD(appends_max, 256); /* with 256 writes at a time */
    BAD(pad, 1);
    BAD(background_ns, (UINT64_C(1) << 40) + 1);
    BAD(keys_max, 0);
    BAD(node, 1); /* none of the configured ones */
    BAD(wal.flags, 64);
    o = fix.o;
    struct snic_io other = *fix.io;
    other.loop = fix.loop[1];
    o.log = &other;
    assert_int_equal(snic_replica_memsize(&o), 0);
#undef BAD
    assert_int_equal(snic_replica_init(&r, mem, size - 1, &fix.o), SNIC_ENOSPC);
    assert_int_equal(snic_replica_init(&r, mem + 8, size, &fix.o), SNIC_EINVAL);
    /* Its address is somebody else's. */
    struct snic_net_dgram_events none = {.recv = replica_link_recv};
    struct snic_net_dgram *d;
    assert_int_equal(snic_net_dgram_open(fix.net[0], &fix.addrs[0], &none, NULL, &d), 0);
    int e = snic_replica_init(&r, mem, size, &fix.o);
    assert_true(e < 0 && e != SNIC_EINVAL && e != SNIC_ENOSPC);
    assert_null(r);
    snic_net_dgram_close(d);
    support_guard_free(mem);
    finish();
}

/* Memory for values is full of what the embedder holds. */
static void embedder_holds_all(const unsigned char *bytes)
{
    struct snic_ddp_key k = {{2, 0}};
    struct snic_replica_entry e;
    struct op o, p;
    uint32_t held = 0;
    uint64_t values[256];
    memset(&o, 0, sizeof(o));
    memset(&p, 0, sizeof(p));
    while (act(&o, SNIC_REPLICA_PUT, 2, bytes, 4000) == 0) {
        assert_int_equal(act(&p, SNIC_REPLICA_GET, 2, NULL, 0), 0);
        assert_int_equal(snic_replica_look(fix.r, &k, &e), 0);
        snic_replica_hold(fix.r, e.value);
        values[held++] = e.value;
        assert_true(held < 256);
    }
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 2, bytes, 4000), SNIC_EAGAIN);
    assert_int_equal(info().ops, 0);
    while (held > 0)
        snic_replica_drop(fix.r, values[--held]);
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 2, bytes, 4000), 0);
    assert_int_equal(info().values, 2);
}

static void test_replica_edges_operations_refused(void **state)
{
    static unsigned char bytes[4001];
    struct op o, p;
    struct snic_replica_entry e;
    uint64_t cursor = 0;
    (void)state;
    memset(&o, 0, sizeof(o));
    memset(&p, 0, sizeof(p));
    doors(1);
    start();
    assert_int_equal(snic_replica_override(fix.r, 0, 0), SNIC_EAGAIN); /* it reads its log */
    assert_int_equal(begin(&o, SNIC_REPLICA_GET, 1, NULL, 0), SNIC_ESTALE);
    assert_int_equal(snic_replica_look(fix.r, &o.op.key, &e), SNIC_ESTALE);
    assert_int_equal(snic_replica_next(fix.r, &cursor, &e), SNIC_ESTALE);
    run(2000 * (uint64_t)MS);
    assert_int_equal(info().serves, 1);
    assert_int_equal(snic_replica_override(fix.r, 2, 0), SNIC_EINVAL); /* who is that? */
    assert_int_equal(begin(&o, 0, 1, NULL, 0), SNIC_EINVAL);
    assert_int_equal(begin(&o, SNIC_REPLICA_SYNC + 1, 1, NULL, 0), SNIC_EINVAL);
    assert_int_equal(begin(&o, SNIC_REPLICA_SYNC, 1, NULL, 0), SNIC_EINVAL); /* the model's */
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 1, NULL, 5), SNIC_EINVAL);
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 1, bytes, 4001), SNIC_EMSGSIZE);
    assert_int_equal(info().values, 0);
    assert_int_equal(info().ops, 0);
    /* Nothing is a value, too. */
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 1, NULL, 0), 0);
    assert_int_equal(act(&o, SNIC_REPLICA_GET, 1, NULL, 0), 0);
    assert_true(o.any && o.size == 0);
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, bytes, 0), 0); /* with what was read */
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, NULL, 0), 0);  /* deletes */
    assert_int_equal(act(&o, SNIC_REPLICA_GET, 1, NULL, 0), SNIC_ENOENT);
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, NULL, 0), SNIC_ECANCELED);
    assert_false(o.any);
    /* A CAS that lost has what won; its own value is given back. */
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 1, "right", 5), 0);
    o.op.ts++;
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, "wrong", 5), SNIC_ECANCELED);
    assert_int_equal(o.size, 5);
    assert_memory_equal(o.data, "right", 5);
    assert_int_equal(info().values, 1);
    embedder_holds_all(bytes);
    /* What is under way when it stops. */
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 3, bytes, 9), 0);
    assert_int_equal(begin(&p, SNIC_REPLICA_GET, 3, NULL, 0), 0);
    snic_replica_stop(fix.r);
    snic_replica_stop(fix.r);
    assert_int_equal(o.done + p.done, 0);
    run(MS);
    assert_int_equal(o.op.result, SNIC_EUNKNOWN);
    assert_int_equal(p.op.result, SNIC_ESTALE);
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 3, bytes, 9), SNIC_ESTALE);
    assert_int_equal(snic_replica_override(fix.r, 0, 0), SNIC_ESTALE);
    stop();
    finish();
}

/* What next gives: deleted keys not, what is being written or deleted without its value. */
static void test_replica_edges_next_gives_keys(void **state)
{
    struct snic_replica_entry e;
    struct op o, p;
    uint64_t cursor = 0;
    (void)state;
    memset(&o, 0, sizeof(o));
    memset(&p, 0, sizeof(p));
    doors(1);
    start();
    run(2000 * (uint64_t)MS);
    assert_int_equal(snic_replica_next(fix.r, &cursor, &e), SNIC_ENOENT);
    for (uint64_t k = 1; k <= 4; k++)
        assert_int_equal(act(&o, SNIC_REPLICA_PUT, k, "abcd", (uint32_t)k), 0);
    assert_int_equal(act(&o, SNIC_REPLICA_DELETE, 2, NULL, 0), 0);
    assert_int_equal(begin(&o, SNIC_REPLICA_DELETE, 3, NULL, 0), 0);
    assert_int_equal(begin(&p, SNIC_REPLICA_PUT, 4, "new", 3), 0);
    uint32_t seen = 0;
    while (snic_replica_next(fix.r, &cursor, &e) == 0) {
        uint64_t k = e.key.w[0];
        assert_true(k == 1 || k == 3 || k == 4);
        seen |= 1u << k;
        if (k == 1) {
            assert_int_equal(e.size, 1);
            assert_memory_equal(e.data, "a", 1);
        } else {
            assert_null(e.data);
            assert_int_equal(snic_replica_look(fix.r, &e.key, &e), SNIC_EAGAIN);
        }
    }
    assert_int_equal(seen, 1 << 1 | 1 << 3 | 1 << 4);
    run(100 * (uint64_t)MS);
    assert_true(o.done && p.done);
    struct snic_ddp_key k = {{3, 0}};
    assert_int_equal(snic_replica_look(fix.r, &k, &e), SNIC_ENOENT);
    k.w[0] = 4;
    assert_int_equal(snic_replica_look(fix.r, &k, &e), 0);
    assert_memory_equal(e.data, "new", 3);
    stop();
    finish();
}

/* ---- Packets ---- */

static int sent;

static void on_sent(struct snic_net_train *t)
{
    (void)t;
    sent = 1;
}

static void on_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m, uint32_t n)
{
    (void)ctx;
    (void)d;
    (void)m;
    (void)n;
}

/* From node @p from's address; how many more were refused. */
static uint64_t throw_at(uint32_t from, const unsigned char *bytes, uint32_t size)
{
    struct snic_iov iov = {.base = (unsigned char *)(uintptr_t)bytes, .size = size};
    struct snic_net_train t;
    struct snic_replica_info before = info();
    memset(&t, 0, sizeof(t));
    t.done = on_sent;
    t.peer = fix.addrs[0];
    t.iov = &iov;
    t.iov_count = 1;
    t.segment = size;
    sent = 0;
    assert_int_equal(snic_net_dgram_send(fix.as[from], &t), 1);
    run(20 * (uint64_t)MS);
    assert_int_equal(sent, 1);
    assert_int_equal(info().packets, before.packets + 1);
    assert_int_equal(info().values, 0);
    return info().refused - before.refused;
}

static unsigned char packet[1400];

/* A packet of one frame, whose body is in place. */
static uint32_t wrap(uint32_t kind, uint32_t size, uint32_t src)
{
    replica_put_frame(packet + SNIC_REPLICA__PACKET, kind, size);
    size += SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME;
    replica_put_packet(packet, size, src, 0xc1);
    return size;
}

/* Node 0 of three; the test is the others. */
static void start_alone_of_three(void)
{
    static const struct snic_net_dgram_events events = {.recv = on_recv};
    doors(7);
    start();
    for (uint32_t n = 1; n < NODES; n++)
        assert_int_equal(snic_net_dgram_open(fix.net[n], &fix.addrs[n], &events, NULL, &fix.as[n]),
                         0);
    run(10 * (uint64_t)MS);
}

static void finish_alone_of_three(void)
{
    assert_int_equal(info().state, SNIC_REPLICA_RUNNING);
    for (uint32_t n = 1; n < NODES; n++)
        snic_net_dgram_close(fix.as[n]);
    stop();
    finish();
}

static void test_replica_edges_packets_without_sense_refused(void **state)
{
    unsigned char *body = packet + SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME;
    const uint32_t head = SNIC_REPLICA__PACKET;
    struct snic_ddp_msg m = {.type = SNIC_DDP_INV, .src = 1, .epoch = 1, .ts = 99, .length = 3};
    struct snic_member_msg mm;
    (void)state;
    start_alone_of_three();
    replica_put_ddp(body, &m);
    memcpy(body + SNIC_REPLICA__DDP, "abc", 3);
    uint32_t size = wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 3, 1);
    assert_int_equal(throw_at(1, packet, size), 0); /* of another epoch, but a message */
    assert_int_equal(throw_at(2, packet, size), 1); /* not node 1's address */
    assert_int_equal(throw_at(1, packet, head), 1);
    packet[20]++;
    assert_int_equal(throw_at(1, packet, size), 1); /* the checksum */
    packet[20]--;
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 3, 0)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 3, 5)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 3, 16)), 1);
    assert_int_equal(throw_at(2, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 3, 2)), 1); /* src */
    replica_put_packet(packet, size, 1, 0xc2);
    assert_int_equal(throw_at(1, packet, size), 1);
    /* Frames. */
    assert_int_equal(throw_at(1, packet, wrap(0, 4, 1)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_PIECE + 1, 4, 1)), 1);
    (void)wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 3, 1);
    replica_put_packet(packet, size - 1, 1, 0xc1); /* longer than the packet */
    assert_int_equal(throw_at(1, packet, size - 1), 1);
    packet[head + 1] = 1;
    replica_put_packet(packet, size, 1, 0xc1);
    assert_int_equal(throw_at(1, packet, size), 1);
    replica_put_packet(packet, head + 3, 1, 0xc1);
    assert_int_equal(throw_at(1, packet, head + 3), 1);
    /* The data path's. */
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP - 1, 1)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 2, 1)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP + 4, 1)), 1);
    for (uint32_t type = 0; type < 2; type++) {
        m.type = (uint8_t)(type == 0 ? 0 : SNIC_DDP_PURGE + 1);
        replica_put_ddp(body, &m);
        assert_int_equal(throw_at(1, packet, wrap(REPLICA_DDP, SNIC_REPLICA__DDP, 1)), 1);
    }
    /* The membership's. */
    memset(&mm, 0, sizeof(mm));
    mm.type = SNIC_MEMBER_ACCEPT;
    mm.src = 2;
    replica_put_member(body, &mm);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 1)), 1);
    assert_int_equal(throw_at(2, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER + 1, 2)), 1);
    uint64_t refused = info().member.refused;
    assert_int_equal(throw_at(2, packet, wrap(REPLICA_MEMBER, SNIC_REPLICA__MEMBER, 2)), 0);
    assert_int_equal(info().member.refused, refused + 1); /* no sense, but from node 2 */
    finish_alone_of_three();
}

static void test_replica_edges_pieces_without_sense_refused(void **state)
{
    unsigned char *body = packet + SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME;
    struct snic_ddp_msg m = {.type = SNIC_DDP_INV, .src = 2, .epoch = 1, .ts = 99, .length = 1000};
    (void)state;
    start_alone_of_three();
    struct replica_cut c = {.crc = 1, .total = SNIC_REPLICA__DDP + 1000, .offset = 0};
    replica_put_cut(body, &c);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_PIECE, SNIC_REPLICA__PIECE, 1)), 1);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_PIECE, SNIC_REPLICA__PIECE + 65, 1)), 1);
    /* All of it, but not what its checksum says. */
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_PIECE, SNIC_REPLICA__PIECE + 1072, 1)), 1);
    /* Two messages of one checksum are told apart by their lengths. */
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_PIECE, SNIC_REPLICA__PIECE + 64, 1)), 0);
    c.total += 64;
    replica_put_cut(body, &c);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_PIECE, SNIC_REPLICA__PIECE + 64, 1)), 0);
    assert_int_equal(fix.r->wholes[0].used + fix.r->wholes[1].used, 2);
    /* A whole message that is none of the sender's. */
    replica_put_ddp(body + SNIC_REPLICA__PIECE, &m);
    c.total = SNIC_REPLICA__DDP + 1000;
    c.crc = snic_crc32c(0, body + SNIC_REPLICA__PIECE, c.total);
    replica_put_cut(body, &c);
    assert_int_equal(throw_at(1, packet, wrap(REPLICA_PIECE, SNIC_REPLICA__PIECE + c.total, 1)), 1);
    assert_int_equal(throw_at(2, packet, wrap(REPLICA_PIECE, SNIC_REPLICA__PIECE + c.total, 2)), 0);
    finish_alone_of_three();
}

/* ---- Files of the membership that are not this node's ---- */

static int reopened;

static void on_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    (void)ctx;
    (void)report;
    assert_int_equal(result, 0);
    reopened = 1;
}

static void on_durable(void *ctx, uint64_t up_to)
{
    (void)ctx;
    (void)up_to;
}

static void on_failed(void *ctx, int error)
{
    (void)ctx;
    fail_msg("%s", snic_strerror(error));
}

/* The log's meta slot holds this. */
static void meta(const unsigned char *bytes, uint32_t length)
{
    static const struct snic_wal_events events = {
        .opened = on_opened, .durable = on_durable, .failed = on_failed};
    struct snic_wal_opts o = fix.o.wal;
    struct snic_wal *w;
    o.record_max = fix.o.value_max;
    size_t size = snic_wal_memsize(fix.io, &o);
    void *mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    reopened = 0;
    assert_int_equal(snic_wal_open(&w, mem, size, fix.io, &o, &events, NULL), 0);
    while (!reopened)
        assert_true(snic_loop_once(fix.loop[0], SNIC_NEVER) > 0);
    assert_int_equal(snic_wal_meta_put(w, bytes, length), 0);
    (void)snic_world_run(fix.world, snic_world_now(fix.world) + 10 * (uint64_t)MS, UINT32_MAX);
    support_guard_free(snic_wal_close(w));
}

/* Damaged, of a later version, of another cluster: it ran, and votes never again (A9). */
static void test_replica_edges_foreign_membership_no_vote(void **state)
{
    struct snic_member_record rec;
    unsigned char bytes[SNIC_REPLICA__RECORD + 1];
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t length = SNIC_REPLICA__RECORD;
        doors(1);
        memset(&rec, 0, sizeof(rec));
        rec.incarnation = 5;
        rec.since = 5;
        rec.decided.epoch = 3;
        rec.decided.full = 1;
        rec.decided.incarnation[0] = 5;
        rec.promised = 0;
        if (i == 4)
            rec.decided.full = 2; /* of whom this node knows nothing */
        replica_put_record(bytes, &rec);
        if (i == 1)
            bytes[40] ^= 1;
        if (i == 2)
            bytes[4]++;
        if (i == 3)
            bytes[8]++;
        snic_put_le32(bytes, i == 1 ? snic_get_le32(bytes)
                                    : snic_crc32c(0, bytes + 4, SNIC_REPLICA__RECORD - 4));
        if (i == 0)
            length = 9;
        meta(bytes, length);
        fix.o.incarnation = 2000;
        start();
        run(3000 * (uint64_t)MS);
        assert_int_equal(info().state, SNIC_REPLICA_RUNNING);
        assert_int_equal(info().failure, 0);
        assert_int_equal(info().serves, 0);
        assert_int_equal(info().member.vote, 0);
        stop();
        finish();
    }
}

/* ---- The checks ---- */

#define BREAK(damage, repair)                                                                      \
    do {                                                                                           \
        damage;                                                                                    \
        if (snic_replica_check(fix.r) != SNIC_ECORRUPT)                                            \
            fail_msg("not noticed: %s", #damage);                                                  \
        repair;                                                                                    \
        assert_int_equal(snic_replica_check(fix.r), 0);                                            \
    } while (0)

static void test_replica_edges_check_broken_said(void **state)
{
    struct op o;
    (void)state;
    memset(&o, 0, sizeof(o));
    doors(1);
    start();
    run(2000 * (uint64_t)MS);
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 1, "abcdefgh", 8), 0);
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 2, "abcdefgh", 8), 0);
    struct snic_replica *r = fix.r;
    struct replica_values *v = &r->values;
    uint32_t used = 0, order = 0;
    while ((v->unit[used].state & 3) != REPLICA_U_USED)
        used++;
    while (v->free[order] == SNIC_REPLICA__NIL)
        order++;
    struct replica_unit *u = &v->unit[used], *f = &v->unit[v->free[order]];
    BREAK(r->ops--, r->ops++);
    BREAK(r->sends_used++, r->sends_used--);
    BREAK(r->peers[0].open = 0, r->peers[0].open = SNIC_REPLICA__NIL);
    BREAK(r->depth = 1, r->depth = 0);
    BREAK(v->live++, v->live--);
    uint32_t refs = u->refs;
    BREAK(u->refs = 0, u->refs = refs);
    uint8_t was = u->state;
    BREAK(u->state = REPLICA_U_INSIDE, u->state = was);
    uint8_t size = u->order;
    BREAK(u->order = 20, u->order = size);
    BREAK(f->state = REPLICA_U_USED, f->state = REPLICA_U_FREE);
    BREAK(f->order++, f->order--);
    uint32_t first = v->free[order];
    BREAK(v->free[order] = SNIC_REPLICA__NIL, v->free[order] = first);
    BREAK(v->free[order] = used, v->free[order] = first);
    run(100 * (uint64_t)MS);
    assert_int_equal(o.done, 1);
    stop();
    finish();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_edges_options_checked),
        cmocka_unit_test(test_replica_edges_operations_refused),
        cmocka_unit_test(test_replica_edges_next_gives_keys),
        cmocka_unit_test(test_replica_edges_packets_without_sense_refused),
        cmocka_unit_test(test_replica_edges_pieces_without_sense_refused),
        cmocka_unit_test(test_replica_edges_foreign_membership_no_vote),
        cmocka_unit_test(test_replica_edges_check_broken_said),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
