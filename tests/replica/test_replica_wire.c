/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes on the wire and in the membership file: what they are for ever, and what is refused.
 * Values' memory, against a model. */
#include "golden.h"
#include "replica/replica_priv.h"
#include "support.h"

#include <string.h>

static struct snic_ddp_msg ddp_example(void)
{
    struct snic_ddp_msg m;
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_INV;
    m.flags = SNIC_DDP_MSG_CAS;
    m.src = 2;
    m.dst = 1;
    m.epoch = 0x01020304;
    m.src_incarnation = 0x11121314;
    m.dst_incarnation = 0x21222324;
    m.key.w[0] = UINT64_C(0x3132333435363738);
    m.key.w[1] = UINT64_C(0x4142434445464748);
    m.ts = UINT64_C(0x5152535455565758);
    m.scope = UINT64_C(0x6162636465666768);
    m.length = 3;
    m.index = 0x71727374;
    m.seen[0] = UINT64_C(0x8182838485868788);
    m.seen[1] = UINT64_C(0x9192939495969798);
    return m;
}

static struct snic_member_msg member_example(void)
{
    struct snic_member_msg m;
    memset(&m, 0, sizeof(m));
    m.type = SNIC_MEMBER_ACCEPT;
    m.src = 3;
    m.hears = 0x0102;
    m.configured = 0x0304;
    m.witness = 0x0506;
    m.flags = 0x11121314;
    m.epoch = 0x21222324;
    m.src_incarnation = 0x31323334;
    m.dst_incarnation = 0x41424344;
    m.seq = 5;
    m.ballot = 6;
    m.accepted = 7;
    m.lease_ns = 8;
    m.view.epoch = 9;
    m.view.full = 0x0a0b;
    m.view.learners = 0x0c0d;
    m.view.donor = 1;
    m.view.restart = 1;
    m.cluster = UINT64_C(0x1122334455667788);
    m.flush_ns = 10;
    m.since = 11;
    m.view.configured = 0x0e0f;
    m.view.witness = 0x1000;
    m.view.vacant = 0x0800;
    m.view.config_epoch = 4;
    for (uint32_t n = 1; n < 4; n++) {
        m.view.incarnation[n] = 100 + n;
        m.view.voter[n] = 200 + n;
        memset(m.view.addr[n], (int)n, 5 * n);
    }
    return m;
}

static struct replica_packet packet_header(void)
{
    struct replica_packet h = {.version = 3, .src = 2, .dst = 1, .lowest = 3, .highest = 4};
    h.session = 0x71727374;
    h.cluster = UINT64_C(0x0123456789abcdef);
    h.counter = UINT64_C(0x8182838485868788);
    return h;
}

/* A datagram: the sender's times, and an ACCEPT. */
static size_t packet_example(unsigned char *p)
{
    struct replica_packet h = packet_header();
    struct replica_times t = {.stamp = 0x0102, .echo = 0x0304, .held_ns = 0x0506, .flush_us = 7};
    struct snic_member_msg m = member_example();
    unsigned char *at = p + SNIC_REPLICA__PACKET;
    t.flushing_us = 8;
    replica_put_frame(at, REPLICA_TIMES, 0, SNIC_REPLICA__TIMES);
    replica_put_times(at + 4, &t);
    at += 4 + SNIC_REPLICA__TIMES;
    uint32_t bytes = replica_put_member(at + 4, &m);
    replica_put_frame(at, REPLICA_MEMBER, 0, bytes);
    at += 4 + bytes;
    replica_put_packet(p, &h);
    replica_put_packet_crc(p, (uint32_t)(at - p));
    return (size_t)(at - p);
}

/* A block of a stream: a credit, an ACK, and an INV with the value "abc". */
static size_t block_example(unsigned char *p)
{
    struct replica_credit c = {.limit = {0x0102, 0x0304}, .taken = {5, 6, 7}, .stalls = 8};
    struct snic_ddp_msg d = ddp_example(), ack = d;
    unsigned char *at = p + SNIC_REPLICA__BLOCK;
    ack.type = SNIC_DDP_ACK;
    replica_put_frame(at, REPLICA_CREDIT, 0, SNIC_REPLICA__CREDIT);
    replica_put_credit(at + 4, &c);
    at += 4 + SNIC_REPLICA__CREDIT;
    replica_put_frame(at, REPLICA_DDP, 0, SNIC_REPLICA__DDP);
    replica_put_ddp(at + 4, 3, &ack);
    at += 4 + SNIC_REPLICA__DDP;
    replica_put_frame(at, REPLICA_BYTES, REPLICA_CH_WRITES, SNIC_REPLICA__DDP + 3);
    replica_put_ddp(at + 4, 3, &d);
    memcpy(at + 4 + SNIC_REPLICA__DDP, "abc", 3);
    at += 4 + SNIC_REPLICA__DDP + 3;
    replica_put_block(p, (uint32_t)(at - p) - SNIC_REPLICA__BLOCK, 0);
    replica_put_block_crc(p, (uint32_t)(at - p) - SNIC_REPLICA__BLOCK);
    return (size_t)(at - p);
}

static struct replica_hello hello_example(void)
{
    struct replica_hello h = {.lowest = 3, .highest = 4, .src = 2, .dst = 1, .flags = 3};
    h.model = SNIC_DDP_STRICT;
    h.refusal = SNIC_EVERSION;
    h.value_max = 65536;
    h.cluster = UINT64_C(0x0123456789abcdef);
    h.boot = UINT64_C(0x1112131415161718);
    for (uint32_t i = 0; i < 16; i++) {
        h.nonce[i] = (unsigned char)(0x20 + i);
        h.echo[i] = (unsigned char)(0x40 + i);
        h.mac[i] = (unsigned char)(0x60 + i);
    }
    return h;
}

/* lib/replica/FORMAT.md, to the last byte: nodes of other builds read it. */
static void test_replica_wire_packet_is_as_ever(void **state)
{
    struct replica_hello h = hello_example();
    unsigned char p[512];
    (void)state;
    golden_bytes("replica", "packet", p, packet_example(p));
    golden_bytes("replica", "block", p, block_example(p));
    replica_put_hello(p, &h);
    golden_bytes("replica", "hello", p, SNIC_REPLICA__HELLO);
}

static void test_replica_wire_packet_round_trip(void **state)
{
    unsigned char p[512];
    struct replica_part part;
    struct replica_packet h = {.pad = 0}, want = packet_header();
    struct replica_times t;
    struct snic_member_msg m, want_m = member_example();
    size_t at = SNIC_REPLICA__PACKET;
    (void)state;
    size_t size = packet_example(p);
    assert_int_equal(replica_get_packet(p, size, &h), 0);
    assert_memory_equal(&h, &want, sizeof(h));
    assert_int_equal(replica_get_part(p, size, &at, &part), 1);
    assert_int_equal(part.kind, REPLICA_TIMES);
    assert_int_equal(replica_get_times(part.data, part.size, &t), 0);
    assert_true(t.stamp == 0x0102 && t.echo == 0x0304 && t.held_ns == 0x0506);
    assert_true(t.flush_us == 7 && t.flushing_us == 8);
    assert_int_equal(replica_get_times(part.data, part.size - 1, &t), SNIC_EPROTO);
    assert_int_equal(replica_get_part(p, size, &at, &part), 1);
    assert_int_equal(replica_get_member(part.data, part.size, &m), 0);
    assert_memory_equal(&m, &want_m, sizeof(m));
    assert_int_equal(replica_get_part(p, size, &at, &part), 0);
}

static void test_replica_wire_block_round_trip(void **state)
{
    unsigned char p[512];
    struct replica_part part;
    struct replica_credit c;
    struct replica_hello h, want_h = hello_example();
    struct snic_ddp_msg d, want = ddp_example();
    uint32_t size, flags;
    size_t at = 0;
    (void)state;
    size_t whole = block_example(p);
    assert_int_equal(replica_get_block(p, &size, &flags), 0);
    assert_true(size == whole - SNIC_REPLICA__BLOCK && flags == 0);
    assert_int_equal(replica_get_block_crc(p, size), 0);
    const unsigned char *body = p + SNIC_REPLICA__BLOCK;
    assert_int_equal(replica_get_part(body, size, &at, &part), 1);
    assert_int_equal(replica_get_credit(part.data, part.size, &c), 0);
    assert_true(c.limit[0] == 0x0102 && c.limit[1] == 0x0304 && c.stalls == 8);
    assert_true(c.taken[0] == 5 && c.taken[1] == 6 && c.taken[2] == 7);
    assert_int_equal(replica_get_credit(part.data, part.size + 1, &c), SNIC_EPROTO);
    assert_int_equal(replica_get_part(body, size, &at, &part), 1);
    assert_int_equal(replica_get_ddp(part.data, 3, 0, &d), 0);
    assert_int_equal(d.type, SNIC_DDP_ACK);
    assert_int_equal(replica_get_part(body, size, &at, &part), 1);
    assert_int_equal(part.channel, REPLICA_CH_WRITES);
    assert_int_equal(replica_get_ddp(part.data, 3, 3, &d), 0);
    assert_memory_equal(&d, &want, sizeof(d));
    assert_int_equal(replica_get_ddp(part.data, 3, 2, &d), SNIC_EPROTO);
    assert_int_equal(replica_get_part(body, size, &at, &part), 0);
    replica_put_hello(p, &want_h);
    memset(&h, 0, sizeof(h));
    assert_int_equal(replica_get_hello(p, SNIC_REPLICA__HELLO, &h), 0);
    assert_memory_equal(&h, &want_h, sizeof(h));
    assert_int_equal(replica_get_hello(p, SNIC_REPLICA__HELLO - 1, &h), SNIC_EPROTO);
}

/* Each damaged byte is noticed; an earlier and a later version are named, whatever else is in
 * them, and who sent them. */
static void test_replica_wire_damage_refused(void **state)
{
    unsigned char p[512];
    struct replica_packet h;
    (void)state;
    size_t size = packet_example(p);
    for (size_t i = 0; i < size; i++) {
        p[i] ^= 0x10;
        assert_true(replica_get_packet(p, size, &h) < 0);
        p[i] ^= 0x10;
    }
    for (size_t i = 0; i < size; i++)
        assert_true(replica_get_packet(p, i, &h) < 0);
    const unsigned char versions[] = {2, SNIC_REPLICA__WIRE_HIGHEST + 1};
    for (size_t i = 0; i < 2; i++) {
        p[6] = versions[i];
        for (uint32_t n = 8; n <= 40; n += 8) {
            replica_put_packet_crc(p, n);
            assert_int_equal(replica_get_packet(p, n, &h), SNIC_EVERSION);
            assert_int_equal(h.src, 2);
        }
    }
    size = block_example(p);
    for (size_t i = 4; i < size; i++) {
        p[i] ^= 0x10;
        assert_int_equal(replica_get_block_crc(p, (uint32_t)size - SNIC_REPLICA__BLOCK),
                         SNIC_ECORRUPT);
        p[i] ^= 0x10;
    }
}

/* What the checksum of a peer is right for, and no node sends. */
static void test_replica_wire_senseless_refused(void **state)
{
    unsigned char p[1024];
    struct replica_hello h = hello_example();
    struct replica_part part;
    struct snic_ddp_msg d = ddp_example();
    struct snic_member_msg m = member_example();
    size_t at = 0;
    (void)state;
    memset(p, 0, sizeof(p));
    replica_put_frame(p, REPLICA_BYTES, REPLICA_CHANNELS, 0);
    assert_int_equal(replica_get_part(p, 4, &at, &part), SNIC_EPROTO);
    replica_put_hello(p, &h);
    p[6] = 1;
    assert_int_equal(replica_get_hello(p, SNIC_REPLICA__HELLO, &h), SNIC_EPROTO);
    for (uint32_t type = 0; type <= SNIC_DDP_OFFER + 1; type += SNIC_DDP_OFFER + 1) {
        d.type = (uint8_t)type;
        replica_put_ddp(p, 3, &d);
        assert_int_equal(replica_get_ddp(p, 3, 100, &d), SNIC_EPROTO);
    }
    d = ddp_example();
    replica_put_ddp(p, 4, &d);
    assert_int_equal(replica_get_ddp(p, 4, 100, &d), 0);
    p[SNIC_REPLICA__DDP_MOST - 1] = 1; /* more than version 4 has */
    assert_int_equal(replica_get_ddp(p, 4, 100, &d), SNIC_EPROTO);
    uint32_t size = replica_put_member(p, &m);
    for (uint32_t n = 0; n < size; n++)
        assert_int_equal(replica_get_member(p, n, &m), n == SNIC_REPLICA__MEMBER ? 0 : SNIC_EPROTO);
    m = member_example();
    unsigned char *node = p + SNIC_REPLICA__MEMBER + SNIC_REPLICA__VIEW; /* node 1: 5 bytes */
    node[8] = SNIC_MEMBER_ADDR_MAX + 1;
    assert_int_equal(replica_get_member(p, size, &m), SNIC_EPROTO);
    m = member_example();
    (void)replica_put_member(p, &m);
    node[SNIC_REPLICA__VIEW_NODE + 4] = 0; /* its last byte is not needed */
    assert_int_equal(replica_get_member(p, size, &m), SNIC_EPROTO);
    m.view.epoch = 0; /* a view of none */
    memset(p + SNIC_REPLICA__MEMBER, 0, SNIC_REPLICA__VIEW);
    assert_int_equal(replica_get_member(p, SNIC_REPLICA__MEMBER + SNIC_REPLICA__VIEW, &m),
                     SNIC_EPROTO);
}

/* The membership file. */
static void test_replica_wire_record_round_trip(void **state)
{
    unsigned char p[SNIC_REPLICA__RECORD];
    struct snic_member_record r, out;
    struct snic_member_msg m = member_example();
    (void)state;
    memset(&r, 0, sizeof(r));
    r.flags = 1;
    r.incarnation = 5;
    r.since = 2;
    r.cluster = m.cluster;
    r.promised = UINT64_C(0x0102030405060708);
    r.accepted = 7;
    r.decided = m.view;
    r.proposal = m.view;
    r.proposal.epoch++;
    uint32_t size = replica_put_record(p, &r);
    assert_int_equal(replica_get_record(p, size, &out), 0);
    assert_memory_equal(&r, &out, sizeof(r));
    golden_bytes("replica", "record", p, size);
    for (size_t i = 0; i < size; i++) {
        p[i] ^= 1;
        assert_true(replica_get_record(p, size, &out) != 0);
        p[i] ^= 1;
    }
    assert_int_equal(replica_get_record(p, size - 1, &out), SNIC_EPROTO);
    for (uint32_t n = 0; n < SNIC_REPLICA__RECORD_HEAD; n++) { /* a smaller length */
        snic_put_le32(p + 8, n);
        snic_put_le32(p, snic_crc32c(0, p + 4, n > 4 ? n - 4 : 0));
        assert_int_equal(replica_get_record(p, n % 2 ? n : size, &out), SNIC_EPROTO);
    }
    /* The largest, and one with a node of which all is zero. */
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        r.decided.voter[n] = r.proposal.voter[n] = n + 1;
        memset(r.decided.addr[n], 1, SNIC_MEMBER_ADDR_MAX);
    }
    memcpy(r.proposal.addr, r.decided.addr, sizeof(r.decided.addr));
    assert_int_equal(replica_put_record(p, &r), sizeof(p));
    assert_int_equal(replica_get_record(p, sizeof(p), &out), 0);
    assert_memory_equal(&r, &out, sizeof(r));
    memset(&r.decided, 0, sizeof(r.decided));
    memset(&r.proposal, 0, sizeof(r.proposal));
    size = replica_put_record(p, &r);
    p[SNIC_REPLICA__RECORD_HEAD + 32] = 1; /* a node in the first view: nine bytes more */
    memmove(p + SNIC_REPLICA__RECORD_HEAD + 43, p + SNIC_REPLICA__RECORD_HEAD + 34, 34);
    memset(p + SNIC_REPLICA__RECORD_HEAD + 34, 0, 9);
    snic_put_le32(p + 8, size + 9);
    snic_put_le32(p, snic_crc32c(0, p + 4, size + 9 - 4));
    assert_int_equal(replica_get_record(p, size + 9, &out), SNIC_EPROTO);
}

/* Where clients reach a node, behind its address, where there is room. */
static void test_replica_wire_address_for_clients(void **state)
{
    static const struct {
        const char *node;
        const char *client;
        int fits;
    } cases[] = {{"10.0.0.1:7000", "10.0.0.1:6379", 1},
                 {"10.0.0.1:7000", "192.168.1.2:6379", 1},
                 {"[fe80::1]:7000", "[fe80::1]:6379", 1},
                 {"[fe80::1]:7000", "[fe80::2]:6379", 0},
                 {"[fe80::1]:7000", "10.0.0.1:6379", 0},
                 {"10.0.0.1:7000", "[fe80::1]:6379", 0},
                 {"sim:3:7", "sim:3:8", 1},
                 {"sim:3:7", "sim:4:7", 1},
                 {"10.0.0.1:7000", "10.0.0.1:0", 0}};
    struct snic_member_view v;
    struct snic_net_addr node, client, out;
    char text[64];
    (void)state;
    memset(&v, 0, sizeof(v));
    assert_int_equal(snic_replica_client_addr(&v, 0, &out), SNIC_ENOENT);
    assert_int_equal(snic_replica_client_addr(&v, SNIC_MEMBER_NODES_MAX, &out), SNIC_EINVAL);
    assert_int_equal(snic_net_addr_parse(&node, "10.0.0.1:7000"), 0);
    assert_int_equal(replica_put_client(v.addr[0], &node), 0); /* of a node without one */
    assert_true(replica_put_addr(v.addr[0], &node));
    assert_int_equal(snic_net_addr_parse(&client, "unix:/a"), 0);
    client.port = 1;
    assert_int_equal(replica_put_client(v.addr[0], &client), 0);
    assert_int_equal(replica_put_client(v.addr[0], &node), 1);
    snic_put_le16(v.addr[0] + 8, 0); /* without a port */
    assert_int_equal(snic_replica_client_addr(&v, 0, &out), SNIC_ENOENT);
    memset(v.addr[0], 0, sizeof(v.addr[0]));
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        memset(&node, 0, sizeof(node));
        memset(&client, 0, sizeof(client));
        assert_int_equal(snic_net_addr_parse(&node, cases[i].node), 0);
        assert_int_equal(snic_net_addr_parse(&client, cases[i].client), 0);
        assert_true(replica_put_addr(v.addr[1], &node));
        assert_int_equal(snic_replica_client_addr(&v, 1, &out), SNIC_ENOENT);
        assert_int_equal(replica_put_client(v.addr[1], &client), cases[i].fits);
        assert_int_equal(snic_replica_client_addr(&v, 1, &out), cases[i].fits ? 0 : SNIC_ENOENT);
        if (cases[i].fits) {
            (void)snic_net_addr_format(&out, text, sizeof(text));
            assert_string_equal(text, cases[i].client);
        }
        assert_true(replica_get_addr(v.addr[1], &out)); /* the first stays what it was */
        (void)snic_net_addr_format(&out, text, sizeof(text));
        assert_string_equal(text, cases[i].node);
    }
    for (uint32_t at = 0; at < SNIC_MEMBER_ADDR_MAX; at++) /* a view may have any bytes */
        for (uint32_t b = 0; b < 256; b++) {
            memset(v.addr[2], (int)b, SNIC_MEMBER_ADDR_MAX);
            v.addr[2][0] = SNIC_NET_IPV4;
            v.addr[2][at] = (uint8_t)(b + 1);
            int result = snic_replica_client_addr(&v, 2, &out);
            assert_true(result == 0 || result == SNIC_ENOENT);
        }
}

/* Memory for less than a unit takes nothing. */
static void test_replica_value_no_memory(void **state)
{
    struct replica_values v;
    void *mem = support_guard_alloc(replica_values_memsize(0) + 64, SNIC_REPLICA_ALIGN);
    (void)state;
    replica_values_init(&v, mem, 0);
    assert_true(replica_value_new(&v, 0) == 0);
    assert_int_equal(replica_values_check(&v), 0);
    support_guard_free(mem);
}

enum { VALUES = 64 };

/* Allocated, held, handed to the engine, dropped: bytes stay, and at the end all is one block. */
static void test_replica_value_random_model(void **state)
{
    static uint64_t handle[VALUES];
    static uint32_t refs[VALUES], size[VALUES], handed[VALUES];
    struct replica_values v;
    struct snic_rng rng;
    size_t bytes = 128 * 333; /* no power of two */
    void *mem = support_guard_alloc(replica_values_memsize(bytes), SNIC_REPLICA_ALIGN);
    (void)state;
    memset(refs, 0, sizeof(refs));
    memset(handed, 0, sizeof(handed));
    replica_values_init(&v, mem, bytes);
    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < support_scale(20000, 1000000); i++) {
        uint32_t k = (uint32_t)snic_rng_below(&rng, VALUES);
        uint32_t n;
        if (refs[k] == 0) {
            size[k] = (uint32_t)snic_rng_below(&rng, i % 7 == 0 ? 9000 : 500);
            handle[k] = replica_value_new(&v, size[k]);
            if (handle[k] == 0)
                continue;
            memset(replica_value_at(&v, handle[k], &n), (int)k, size[k]);
            assert_int_equal(n, size[k]);
            refs[k] = 1;
            handed[k] = 0;
        } else if (snic_rng_below(&rng, 3) == 0) {
            replica_value_hold(&v, handle[k]);
            refs[k]++;
        } else if (!handed[k] && snic_rng_below(&rng, 2) == 0) {
            replica_value_give(&v, handle[k]);
            handed[k] = 1;
        } else {
            const unsigned char *p = replica_value_at(&v, handle[k], &n);
            assert_true(n == 0 || (p[0] == k && p[n - 1] == k));
            if (handed[k] && refs[k] == 1) {
                replica_value_release(&v, handle[k]);
                handed[k] = 0;
            } else {
                replica_value_drop(&v, handle[k]);
            }
            refs[k]--;
        }
        assert_int_equal(replica_values_check(&v), 0);
    }
    replica_values_reclaim(&v);
    for (uint32_t k = 0; k < VALUES; k++) {
        for (refs[k] -= handed[k] && refs[k] > 0; refs[k] > 0; refs[k]--)
            replica_value_drop(&v, handle[k]);
    }
    assert_int_equal(replica_values_check(&v), 0);
    assert_true(v.live == 0 && v.used_bytes == 0);
    assert_true(replica_value_new(&v, 128 * 256) != 0); /* no crumbs */
    support_guard_free(mem);
}

/* Values of one size fill memory but for an eighth, and again after every second one has gone. */
static void test_replica_value_little_is_wasted(void **state)
{
    static const uint32_t sizes[] = {100, 129, 1024, 1100, 2050, 5000, 65536 + 80, 300000};
    static uint64_t handle[40000];
    const size_t bytes = 4 << 20;
    void *mem = support_guard_alloc(replica_values_memsize(bytes), SNIC_REPLICA_ALIGN);
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        struct replica_values v;
        uint32_t count = 0, again = 0;
        replica_values_init(&v, mem, bytes);
        while ((handle[count] = replica_value_new(&v, sizes[i])) != 0)
            count++;
        uint64_t each = snic_align_up(sizes[i], 128);
        assert_true((count + 1) * each > bytes - bytes / 8);
        for (uint32_t k = 0; k < count; k += 2)
            replica_value_drop(&v, handle[k]);
        while (replica_value_new(&v, sizes[i]) != 0)
            again++;
        assert_int_equal(again, (count + 1) / 2);
        assert_int_equal(replica_values_check(&v), 0);
    }
    support_guard_free(mem);
}

/* A key that many clients read in one iteration of the loop: each answer holds its value. */
static void test_replica_value_many_references(void **state)
{
    enum { MANY = 3 * 65536 };
    struct replica_values v;
    size_t bytes = 128 * 16;
    uint32_t n;
    void *mem = support_guard_alloc(replica_values_memsize(bytes), SNIC_REPLICA_ALIGN);
    (void)state;
    replica_values_init(&v, mem, bytes);
    uint64_t h = replica_value_new(&v, 3);
    memcpy(replica_value_at(&v, h, &n), "abc", 3);
    replica_value_give(&v, h);
    for (uint32_t i = 0; i < MANY; i++)
        replica_value_hold(&v, h);
    assert_int_equal(replica_values_check(&v), 0);
    replica_value_release(&v, h);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_memory_equal(replica_value_at(&v, h, &n), "abc", 3);
        assert_int_equal(v.live, 1);
        replica_value_drop(&v, h);
    }
    assert_int_equal(v.live, 0);
    assert_int_equal(replica_values_check(&v), 0);
    support_guard_free(mem);
}

/* A log that is busy, or whose ring is full of what is not yet durable, is not one that is full. */
static void test_replica_room_full_or_busy(void **state)
{
    static const struct {
        uint32_t head, mid, tail;
        int refusal, record, tombstone;
    } cases[] = {{0, 0, 0, 0, 0, 0},
                 {0, 0, 31, SNIC_EAGAIN, 0, 0},
                 {0, 0, 32, SNIC_EAGAIN, SNIC_EAGAIN, SNIC_EAGAIN},
                 {0, 0, 32, 0, SNIC_EAGAIN, SNIC_EAGAIN},
                 {0, 0, 1, SNIC_ENOSPC, SNIC_ENOSPC, 0},
                 {0, 0, 100, SNIC_ENOSPC, SNIC_ENOSPC, 0},
                 {0, 160, 160, 0, SNIC_EAGAIN, SNIC_EAGAIN},
                 {UINT32_MAX - 3, 10, 155, 0, SNIC_EAGAIN, SNIC_EAGAIN},
                 {0, 159, 160, SNIC_ENOSPC, SNIC_ENOSPC, SNIC_ENOSPC}};
    static struct snic_replica r;
    (void)state;
    r.o.writes_max = 30;
    r.o.scopes_max = 2;
    r.log.entries = 256; /* 96 of them reserved */
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        r.log.head = cases[i].head;
        r.log.mid = cases[i].mid;
        r.log.tail = cases[i].tail;
        r.log.refusal = cases[i].refusal;
        assert_int_equal(replica_log_room(&r, REPLICA_ROOM_RECORD), cases[i].record);
        assert_int_equal(replica_log_room(&r, REPLICA_ROOM_TOMBSTONE), cases[i].tombstone);
    }
    r.log = (struct replica_log){.entries = 256, .tail = 1, .refusal = SNIC_ENOSPC};
    r.restarts = 1; /* deletions are possible when all have the same records */
    assert_int_equal(replica_log_room(&r, REPLICA_ROOM_RECORD), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_wire_packet_is_as_ever),
        cmocka_unit_test(test_replica_wire_packet_round_trip),
        cmocka_unit_test(test_replica_wire_block_round_trip),
        cmocka_unit_test(test_replica_wire_damage_refused),
        cmocka_unit_test(test_replica_wire_senseless_refused),
        cmocka_unit_test(test_replica_wire_record_round_trip),
        cmocka_unit_test(test_replica_wire_address_for_clients),
        cmocka_unit_test(test_replica_value_no_memory),
        cmocka_unit_test(test_replica_value_random_model),
        cmocka_unit_test(test_replica_value_little_is_wasted),
        cmocka_unit_test(test_replica_value_many_references),
        cmocka_unit_test(test_replica_room_full_or_busy),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
