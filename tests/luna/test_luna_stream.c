/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The streams: their bytes, every way of cutting them, every bit of them damaged, bytes that are no
 * frames at all; every bit of the agent's tables damaged; answers that are wrong; encrypted disks;
 * random I/Os beside a model.
 */
#include "test_luna_util.h"

#include <stdio.h>
#include <stdlib.h>

static struct duo duo;

enum { MANY = 200, BLOCK = SNIC_EBS_BLOCK_BYTES };
static unsigned char out[MANY * BLOCK], in[MANY * BLOCK], model[DUO_BLOCKS * BLOCK];

/* ---- A small exchange: two blocks written, zeros, three read ---- */

static void exchange(struct duo *d)
{
    struct snic_ebs_io w, z, r;
    struct snic_iov wi = {out, 2 * BLOCK},
                    ri[2] = {{in + BLOCK, BLOCK}, {in + 3 * BLOCK, 2 * BLOCK}};
    d->o.conns = 1;
    duo_open(d);
    duo_fill(out, 2 * BLOCK, 5);
    memset(in, 0xee, 5 * BLOCK);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 510, 2, &wi, 1);
    duo_io(d, &z, SNIC_EBS_IO_ZERO, 511, 3, NULL, 0);
    assert_true(duo_until(d, 2, 4000));
    duo_io(d, &r, SNIC_EBS_IO_READ, 510, 3, ri, 2);
    assert_true(duo_until(d, 3, 4000));
    assert_true(w.result == 0 && z.result == 0 && r.result == 0);
    assert_memory_equal(in + BLOCK, out, BLOCK);
    for (uint32_t i = 0; i < 2 * BLOCK; i++)
        assert_true(in[3 * BLOCK + i] == 0);
    assert_true(in[0] == 0xee && in[2 * BLOCK] == 0xee); /* between the pieces */
}

/* Cut at any one byte, in both directions, the streams mean the same. */
static void test_luna_stream_cut_anywhere_same(void **state)
{
    struct duo *d = &duo;
    uint64_t stride = support_stride(3, 23), up = stride, down = stride;
    (void)state;
    for (uint64_t i = support_turn(stride); i < (up > down ? up : down); i += stride) {
        d->split[0] = d->split[1] = i;
        exchange(d);
        up = d->conn[0].up.put;
        down = d->conn[0].down.put;
        assert_true(d->closes == 0 && d->target_closes == 0);
        duo_close(d);
    }
    assert_true(up > 2 * BLOCK && down > BLOCK);
}

/* Cut into pieces of any size up to that of a frame, too. */
static void test_luna_stream_cut_often_same(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 7, 127, 128, 129, 130, 131, 132, 135, 4095, 4096, 4097};
    struct duo *d = &duo;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        d->chunk = sizes[i];
        exchange(d);
        assert_true(d->closes == 0 && d->target_closes == 0);
        duo_close(d);
    }
}

/* Any bit of either stream damaged: it is noticed, and everything comes true nevertheless. */
static void test_luna_stream_bit_flipped_noticed(void **state)
{
    struct duo *d = &duo;
    uint64_t stride = support_stride(61, 461), unseen = 0, tried = 0;
    (void)state;
    for (uint32_t dir = 0; dir < 2; dir++) {
        uint64_t bits = stride;
        for (uint64_t bit = support_turn(stride); bit < bits; bit += stride) {
            struct snic_luna_stats s;
            struct snic_luna_target_stats t;
            d->flip[dir] = bit + 1;
            exchange(d);
            snic_luna_get_stats(d->c, &s);
            snic_luna_target_get_stats(d->t, &t);
            /* The first connection's stream; what it has after a replay is another one's. */
            if (bits == stride)
                bits = 8 * (dir == 0 ? 2 * BLOCK + 8 : BLOCK);
            tried++;
            unseen += d->flip[dir] == 0 &&
                      s.violations + t.violations + s.data_crc + t.data_crc + t.invalid == 0;
            duo_close(d);
        }
    }
    print_message("%llu bits\n", (unsigned long long)tried);
    assert_int_equal(unseen, 0);
}

/* ---- Entries of the agent's tables, damaged ---- */

/* Tables are private to their module, so entries are found by what is in them: the last place in
   the agent's memory that has this word, at an entry's offset. */
enum { WHERE_BYTES = 24, WHERE_SEG_ID = 0, LIMITS_BYTES = 80, LIMITS_RATE = 8 };

static unsigned char *entry_of(struct duo *d, uint64_t word, uint32_t offset)
{
    unsigned char *found = NULL, *mem = d->cmem;
    for (size_t at = 0, size = snic_luna_memsize(&d->o); at + 8 <= size; at += 8)
        if (memcmp(mem + at, &word, 8) == 0)
            found = mem + at - offset;
    assert_non_null(found);
    return found;
}

static void entry_flip(unsigned char *entry, uint32_t bit)
{
    entry[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

static struct snic_luna_stats stats_of(struct duo *d)
{
    struct snic_luna_stats s;
    snic_luna_get_stats(d->c, &s);
    return s;
}

/* The entry of a disk's limits, any bit of it: made again from the disk's settings, so that of
   two writes the second pays for the first. Else the disk would have no limit ever after. */
static void test_luna_limits_entry_damaged_limit_kept(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .burst_bytes = BLOCK};
    struct duo *d = &duo;
    struct snic_ebs_io a, b;
    struct snic_iov iov = {out, 16 * BLOCK};
    (void)state;
    duo_open(d);
    o.bytes_per_second = (1u << 24) + 12345;
    uint64_t owed = 15 * (uint64_t)BLOCK * 1000000000 / o.bytes_per_second;
    assert_int_equal(snic_luna_qos(d->c, 0, &o, d->now), 0);
    unsigned char *entry = entry_of(d, o.bytes_per_second, LIMITS_RATE);
    for (uint32_t bit = 0; bit < LIMITS_BYTES * 8; bit++) {
        entry_flip(entry, bit);
        duo_io(d, &a, SNIC_EBS_IO_WRITE, 20, 16, &iov, 1);
        duo_io(d, &b, SNIC_EBS_IO_WRITE, 40, 16, &iov, 1);
        assert_true(duo_until(d, 2 * bit + 2, 4000));
        assert_true(a.result == 0 && b.result == 0);
        assert_true(b.admitted_ns >= a.admitted_ns + owed);
        assert_int_equal(stats_of(d).tables, bit + 1);
    }
    duo_close(d);
}

/* The entry of a segment's place: it is not used, but asked for again, and counted. */
static void test_luna_map_entry_damaged_looked_up(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_iov iov = {out, 4 * BLOCK};
    (void)state;
    duo_open(d);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 20, 4, &iov, 1);
    assert_true(duo_until(d, 1, 4000));
    unsigned char *entry = entry_of(d, 70, WHERE_SEG_ID);
    for (uint32_t bit = 0; bit < WHERE_BYTES * 8; bit++) {
        entry_flip(entry, bit);
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 20, 4, &iov, 1);
        assert_true(duo_until(d, bit + 2, 4000));
        assert_int_equal(w.result, 0);
        assert_int_equal(d->maps, bit + 2);
        assert_int_equal(stats_of(d).tables, bit + 1);
    }
    duo_close(d);
}

/* ---- Answers that are wrong ---- */

static void stored_wrong(struct duo *d, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++)
        d->store[i].crc ^= 1;
}

/* One bad answer about many blocks is one about each of them, and no reason to give up any. */
static void test_luna_read_frame_wrong_once_repeated(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w, r;
    struct snic_iov wi = {out, 16 * BLOCK}, ri = {in, 16 * BLOCK};
    (void)state;
    duo_open(d);
    duo_fill(out, 16 * BLOCK, 5);
    memset(in, 0, 16 * BLOCK);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 16, &wi, 1);
    assert_true(duo_until(d, 1, 400));
    d->hold = 1;
    duo_io(d, &r, SNIC_EBS_IO_READ, 0, 16, &ri, 1);
    for (int i = 0; i < 400 && d->requests == 0; i++)
        duo_turn(d);
    assert_true(d->requests == 1 && d->request[0].count == 16);
    stored_wrong(d, 16);
    duo_answer(d);
    stored_wrong(d, 16);
    d->hold = 0;
    assert_true(duo_until(d, 2, 400));
    assert_int_equal(r.result, 0);
    assert_memory_equal(in, out, 16 * BLOCK);
    assert_int_equal(stats_of(d).data_crc, 16);
    duo_close(d);
}

/* A block of which every answer is wrong is damaged there, after eight of them; where the segment
   is afterwards it is asked for as often. */
static void test_luna_block_wrong_often_damaged_until_moved(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w, r;
    struct snic_iov wi = {out, 3 * BLOCK}, ri = {in, 3 * BLOCK};
    (void)state;
    for (uint32_t moved = 0; moved < 2; moved++) {
        duo_open(d);
        duo_fill(out, 3 * BLOCK, 6);
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 3, &wi, 1);
        assert_true(duo_until(d, 1, 400));
        stored_wrong(d, 1);
        duo_io(d, &r, SNIC_EBS_IO_READ, 0, 3, &ri, 1);
        for (uint32_t i = 0; moved && i < 2; i++) {
            while (stats_of(d).data_crc < 7 * (i + 1) && d->acts[SNIC_EBS_ACT_DONE] == 1)
                duo_turn(d);
            assert_int_equal(stats_of(d).data_crc, 7 * (i + 1));
            d->seg_gen = i + 2;
            assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, d->seg_gen, d->now), 0);
        }
        if (moved)
            stored_wrong(d, 1); /* it is right there */
        assert_true(duo_until(d, 2, 400));
        assert_int_equal(r.result, moved ? 0 : SNIC_ECORRUPT);
        assert_int_equal(stats_of(d).data_crc, moved ? 14 : 8);
        if (moved)
            assert_memory_equal(in, out, 3 * BLOCK);
        duo_close(d);
    }
}

/* A request answered with anything but BUSY waits too, but no server was busy. */
static void test_luna_write_refused_busy_is_busy_only(void **state)
{
    static const uint32_t statuses[] = {SNIC_EBS_BAD_CRC, SNIC_EBS_NO_CONN, SNIC_EBS_BUSY};
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    struct snic_iov wi = {out, 3 * BLOCK};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(statuses); i++) {
        d->o.conns = 1;
        d->tape = 1;
        duo_open(d);
        const unsigned char *first = d->conn[0].down.bytes + 128; /* after HELLO_ACK */
        d->status = statuses[i];
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 3, &wi, 1);
        for (uint32_t k = 0; k < 200; k++)
            duo_turn(d);
        assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
        assert_true((stats_of(d).data_crc > 8) == (i == 0));
        assert_true((stats_of(d).busy > 0) == (i == 2));
        assert_int_equal(
            snic_ebs_decode(&h, &place, SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT, first, 128), 0);
        assert_true(h.type == SNIC_EBS_WACK && h.status == statuses[i]);
        if (i == 2)
            assert_int_equal(h.u.block.agg_crc, 500); /* microseconds, from the store */
        d->status = 0;
        assert_true(duo_until(d, 1, 400));
        assert_int_equal(w.result, 0);
        duo_close(d);
    }
}

/* ---- Bytes that are no stream ---- */

static void feed(struct snic_luna_target *t, uint32_t handle, const unsigned char *p, size_t size,
                 int want)
{
    struct snic_ebs_request q;
    size_t used;
    assert_int_equal(snic_luna_target_recv(t, handle, p, size, &used, &q, 10), want);
    assert_int_equal(snic_luna_target_check(t), 0);
}

static int hello(unsigned char *p, struct snic_ebs_header *h)
{
    memset(h, 0, sizeof(*h));
    h->type = SNIC_EBS_HELLO;
    h->pkt_cnt = 1;
    h->path_seq = 1;
    h->u.hello.ver_min = h->u.hello.ver_max = SNIC_EBS_VERSION;
    h->u.hello.conn_id = 77;
    h->u.hello.client_id = 5;
    return snic_ebs_encode(p, 128, NULL, SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER, h, NULL, 0);
}

static void test_luna_target_not_a_stream_closed(void **state)
{
    static const int errors[] = {SNIC_ECORRUPT, SNIC_EVERSION, SNIC_EPROTO, SNIC_EPROTO,
                                 SNIC_EVERSION, SNIC_EPROTO,   SNIC_EPERM,  SNIC_ECONNRESET};
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1};
    struct snic_luna_target *t;
    size_t size = snic_luna_target_memsize(&k);
    void *mem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    unsigned up = SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER;
    (void)state;
    assert_int_equal(snic_luna_target_init(&t, mem, size, &k, 0), 0);
    for (uint32_t i = 0; i < SNIC_COUNTOF(errors); i++) {
        struct snic_luna_target_action a;
        struct snic_ebs_header h;
        unsigned char p[256];
        uint32_t handle, closes = 0, resets = 0;
        assert_int_equal(snic_luna_target_opened(t, &handle, 5), 0);
        assert_int_equal(hello(p, &h), 128);
        p[9] ^= i == 0;              /* damaged */
        p[0] ^= i == 1 ? 0x30 : 0;   /* another version */
        h.path_seq = i == 2 ? 2 : 1; /* a gap */
        h.type = i == 3 ? SNIC_EBS_PROBE : SNIC_EBS_HELLO;
        h.u.hello.ver_min = h.u.hello.ver_max = i == 4 ? 9 : SNIC_EBS_VERSION;
        if (i == 2 || i == 3 || i == 4)
            assert_int_equal(snic_ebs_encode(p, 128, NULL, up, &h, NULL, 0), 128);
        feed(t, handle, p, 128, i < 5 ? errors[i] : 0);
        if (i >= 5) { /* HELLO twice; another's conn_id; RESET */
            h.path_seq = 2;
            h.type = i == 5 ? SNIC_EBS_HELLO : i == 6 ? SNIC_EBS_PROBE : SNIC_EBS_RESET;
            h.conn_id = 1;
            assert_int_equal(snic_ebs_encode(p, 128, NULL, up, &h, NULL, 0), 128);
            feed(t, handle, p, 128, i == 5 ? SNIC_EPERM : errors[i]);
        }
        while (snic_luna_target_poll(t, &a, 1, 10) == 1) {
            closes += a.type == SNIC_LUNA_TARGET_CLOSE;
            if (a.type == SNIC_LUNA_TARGET_SEND) {
                resets += ((unsigned char *)a.send->iov[0].base)[1] == SNIC_EBS_RESET;
                snic_luna_target_sent(t, a.send, 10);
            }
        }
        assert_int_equal(closes, 1);
        assert_int_equal(resets, errors[i] == SNIC_EVERSION);
        feed(t, handle, p, 128, SNIC_ENOENT);
    }
    assert_ptr_equal(snic_luna_target_fini(t), mem);
    support_guard_free(mem);
}

/* Messages to a server before it restarted are not for its new incarnation. */
static void test_luna_target_other_epoch_closed(void **state)
{
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 4};
    struct snic_luna_target_action a;
    struct snic_luna_target *t;
    struct snic_ebs_header h, ack;
    struct snic_ebs_place place;
    size_t size = snic_luna_target_memsize(&k);
    void *mem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    unsigned char p[128];
    uint32_t handle, acks = 0;
    (void)state;
    assert_int_equal(snic_luna_target_init(&t, mem, size, &k, 0), 0);
    assert_int_equal(snic_luna_target_opened(t, &handle, 5), 0);
    assert_int_equal(hello(p, &h), 128);
    feed(t, handle, p, 128, 0);
    while (snic_luna_target_poll(t, &a, 1, 10) == 1) {
        assert_int_equal(a.type, SNIC_LUNA_TARGET_SEND);
        assert_int_equal(snic_ebs_decode(&ack, &place, SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT,
                                         a.send->iov[0].base, 128),
                         0);
        acks += ack.type == SNIC_EBS_HELLO_ACK;
        snic_luna_target_sent(t, a.send, 10);
    }
    assert_int_equal(acks, 1);
    for (uint32_t epoch = 4; epoch >= 3; epoch--) {
        memset(&h, 0, sizeof(h));
        h.type = SNIC_EBS_PROBE;
        h.pkt_cnt = 1;
        h.pn = h.path_seq = 6 - epoch;
        h.conn_id = ack.u.hello.conn_id;
        h.srv_epoch = epoch;
        h.u.probe.probe_bytes = SNIC_EBS_HEADER_BYTES;
        assert_int_equal(
            snic_ebs_encode(p, 128, NULL, SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER, &h, NULL, 0), 128);
        feed(t, handle, p, 128, epoch == 4 ? 0 : SNIC_EPERM);
    }
    while (snic_luna_target_poll(t, &a, 1, 10) == 1)
        if (a.type == SNIC_LUNA_TARGET_SEND)
            snic_luna_target_sent(t, a.send, 10);
    assert_ptr_equal(snic_luna_target_fini(t), mem);
    support_guard_free(mem);
}

/* A server that is not the one, or talks nonsense: closed, and tried again. */
static void test_luna_agent_not_a_stream_closed(void **state)
{
    struct duo *d = &duo;
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct snic_luna_stats s;
        struct snic_ebs_header h;
        unsigned char p[128];
        d->o.conns = 1;
        duo_open(d);
        for (int k = 0; k < 10 && i >= 2; k++)
            duo_turn(d);
        if (i < 2) { /* before its HELLO was answered */
            duo_turn(d);
            duo_turn(d);
        }
        memset(&h, 0, sizeof(h));
        h.type = i == 0 ? SNIC_EBS_HELLO_ACK : i == 1 ? SNIC_EBS_WACK : SNIC_EBS_RESET;
        h.path_seq = 1;
        h.pkt_cnt = 1;
        if (h.type == SNIC_EBS_WACK)
            h.u.block.blk_cnt = 1;
        h.u.hello.ver_min = h.u.hello.ver_max = i < 1 ? SNIC_EBS_VERSION : 0;
        if (i == 0)
            h.u.hello.conn_id = 4;
        if (i == 1)
            memset(&h.u, 0, sizeof(h.u)), h.u.block.blk_cnt = 1;
        assert_int_equal(
            snic_ebs_encode(p, sizeof(p), NULL, SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT, &h, NULL, 0),
            128);
        if (i == 3)
            duo_fill(p, sizeof(p), 9);
        uint32_t gen = d->conn[0].gen;
        assert_true(snic_luna_recv(d->c, 0, 0, gen, p, sizeof(p), d->now) < 0);
        duo_check(d);
        assert_int_equal(snic_luna_recv(d->c, 0, 0, gen, p, sizeof(p), d->now), SNIC_ENOENT);
        for (int k = 0; k < 200 && d->acts[SNIC_EBS_ACT_OPEN] < 2; k++)
            duo_turn(d);
        snic_luna_get_stats(d->c, &s);
        assert_true(s.violations == 1 && d->closes == 1 && d->acts[SNIC_EBS_ACT_OPEN] == 2);
        duo_close(d);
    }
}

/* ---- Encrypted disks, with a cipher that is one only by its interface ---- */

static int test_xts(void *key, uint64_t unit, void *to, const void *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)to)[i] = (unsigned char)(((const unsigned char *)from)[i] ^
                                                   (unit * 31 + i * 7 + *(unsigned char *)key));
    return 0;
}

static void test_luna_disk_with_key_ciphertext_at_rest(void **state)
{
    static const struct snic_ebs_sec_ops ops = {
        .ops_size = sizeof(ops), .xts_encrypt = test_xts, .xts_decrypt = test_xts};
    struct duo *d = &duo;
    struct snic_ebs_tag_key tags;
    unsigned char key = 9;
    struct snic_ebs_io w, r;
    struct snic_iov wi = {out, 100 * BLOCK}, ri = {in, 110 * BLOCK};
    (void)state;
    d->o.flags = SNIC_LUNA_CRYPTO;
    d->o.sec = &ops;
    d->xts_key = &key;
    duo_open(d);
    duo_fill(out, 100 * BLOCK, 6);
    assert_int_equal(snic_ebs_tag_key_init(&tags, &ops, &key), 0);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 450, 100, &wi, 1);
    assert_true(duo_until(d, 1, 400));
    duo_io(d, &r, SNIC_EBS_IO_READ, 445, 110, &ri, 1);
    assert_true(duo_until(d, 2, 400));
    assert_true(w.result == 0 && r.result == 0);
    assert_memory_equal(in + 5 * BLOCK, out, 100 * BLOCK);
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(memcmp(d->store[450 + i].data, out + i * BLOCK, BLOCK) != 0);
        assert_int_equal(d->store[450 + i].block_tag,
                         snic_ebs_tag(&tags, 450 + i, out + i * BLOCK));
        assert_int_equal(d->store[450 + i].crc, snic_crc32c(0, d->store[450 + i].data, BLOCK));
    }
    d->store[460].block_tag ^= 1; /* the right ciphertext of the wrong data */
    duo_io(d, &r, SNIC_EBS_IO_READ, 445, 110, &ri, 1);
    assert_true(duo_until(d, 3, 400));
    assert_int_equal(r.result, SNIC_ECORRUPT);
    duo_close(d);
}

/* ---- Golden frames ---- */

static const unsigned char *golden(const char *name, const unsigned char *p, size_t size,
                                   uint32_t want)
{
    uint32_t crc = snic_crc32c(0, p, size);
    if (crc != want)
        fail_msg("%s: 0x%08x", name, crc);
    return p + size;
}

/* The frames of one exchange, byte for byte, times and credits included: where anything else
   changes it is another version of the format. */
static void test_luna_stream_golden(void **state)
{
    struct duo *d = &duo;
    (void)state;
    d->tape = 1;
    d->o.seed = 1;
    d->k.seed = 2;
    exchange(d);
    const unsigned char *u = d->conn[0].up.bytes, *v = d->conn[0].down.bytes;
    u = golden("HELLO", u, 128, 0xaa58ba9e);
    /* 1 version, 8 * 16 bytes; WRITE; LAST_PKT; vd 7, seg 70, block 510, 2 blocks of 2^12, data */
    assert_true(u[0] == 0x28 && u[1] == 1 && snic_get_be16(u + 2) == 0x80);
    assert_true(snic_get_be16(u + 16) == 0 && snic_get_be16(u + 18) == 2);
    assert_true(snic_get_be32(u + 24) == 2 && snic_get_be64(u + 56) == 2);
    assert_true(snic_get_be64(u + 64) == 7 && snic_get_be64(u + 72) == 70);
    assert_true(snic_get_be64(u + 80) == UINT64_C(0x01fe00020c000000));
    assert_true(snic_get_be64(u + 88) == 510 && snic_get_be64(u + 96) == ((UINT64_C(1) << 48) | 1));
    assert_true(snic_get_be32(u + 128) == snic_crc32c(0, out, BLOCK));
    assert_true(snic_get_be32(u + 108) == snic_crc32c(0, u + 128, 8));
    assert_true(snic_get_be32(u + 116) == snic_crc32c(0, out, 2 * BLOCK));
    u = golden("WRITE, its list", u, 136, 0x538e8c4c);
    assert_memory_equal(u, out, 2 * BLOCK);
    u = golden("WRITE of zeros", u + 2 * BLOCK, 256, 0x8d675cf2);
    u = golden("READ_REQ", u, 256, 0x182a2710);
    assert_int_equal(u - d->conn[0].up.bytes, d->conn[0].up.put);
    v = golden("HELLO_ACK", v, 128, 0x23f2302a);
    v = golden("WACK", v, 384, 0xeb4356a5);
    v = golden("READ_RESP, its list", v, 132, 0x061b0719);
    v = golden("READ_RESP of zeros", v + BLOCK, 256, 0x2bb4e9ec);
    assert_int_equal(v - d->conn[0].down.bytes, d->conn[0].down.put);
    duo_close(d);
}

/* ---- Random I/Os beside a model ---- */

struct io {
    struct snic_ebs_io io;
    struct snic_iov iov[3];
    unsigned char *data;
    int busy;
};

static void random_io(struct duo *d, struct snic_rng *g, struct io *io, const unsigned char *taken)
{
    static const uint8_t ops[] = {SNIC_EBS_IO_READ, SNIC_EBS_IO_WRITE, SNIC_EBS_IO_WRITE,
                                  SNIC_EBS_IO_ZERO, SNIC_EBS_IO_TRIM,  SNIC_EBS_IO_READ,
                                  SNIC_EBS_IO_FLUSH};
    uint8_t op = ops[snic_rng_below(g, SNIC_COUNTOF(ops))];
    uint32_t blocks = 1 + (uint32_t)snic_rng_below(g, snic_rng_below(g, 4) == 0 ? MANY : 8);
    uint64_t lba = snic_rng_below(g, DUO_BLOCKS - blocks + 1);
    uint32_t cut = (uint32_t)snic_rng_below(g, blocks + 1), pieces = 0;
    for (uint32_t i = 0; i < blocks; i++)
        if (taken[lba + i])
            return; /* those in flight do not overlap, so the model knows the outcome */
    if (op == SNIC_EBS_IO_WRITE)
        snic_rng_fill(g, io->data, (size_t)blocks * BLOCK);
    if (cut > 0)
        io->iov[pieces++] = (struct snic_iov){io->data, (size_t)cut * BLOCK};
    if (cut < blocks)
        io->iov[pieces++] =
            (struct snic_iov){io->data + (size_t)cut * BLOCK, (size_t)(blocks - cut) * BLOCK};
    io->busy = 1;
    duo_io(d, &io->io, op, op == SNIC_EBS_IO_FLUSH ? 0 : lba, op == SNIC_EBS_IO_FLUSH ? 0 : blocks,
           io->iov, pieces);
}

static void random_done(struct io *io)
{
    size_t size = (size_t)io->io.blocks * BLOCK;
    unsigned char *m = model + io->io.lba * BLOCK;
    assert_int_equal(io->io.result, 0);
    if (io->io.op == SNIC_EBS_IO_READ)
        assert_memory_equal(io->data, m, size);
    else if (io->io.op == SNIC_EBS_IO_WRITE)
        memcpy(m, io->data, size);
    else if (io->io.op != SNIC_EBS_IO_FLUSH)
        memset(m, 0, size);
    io->busy = 0;
}

static void random_runs(uint64_t seed, uint64_t runs)
{
    struct duo *d = &duo;
    struct snic_rng g;
    static struct io ios[6];
    snic_rng_init(&g, seed);
    for (uint32_t i = 0; i < SNIC_COUNTOF(ios); i++) {
        ios[i].data = malloc((size_t)MANY * BLOCK);
        ios[i].busy = 0;
    }
    for (uint64_t run = 0; run < runs; run++) {
        memset(model, 0, sizeof(model));
        d->o.conns = 1 + (uint32_t)snic_rng_below(&g, DUO_CONNS);
        d->o.window_blocks = 1u << snic_rng_below(&g, 9);
        d->o.sends_max = 4 + (uint32_t)snic_rng_below(&g, 8);
        d->k.frames_max = 2 + (uint32_t)snic_rng_below(&g, 8);
        d->k.rx_blocks = 1u << snic_rng_below(&g, 8);
        d->k.sends_max = 4;
        duo_open(d);
        for (uint32_t turn = 0; turn < 400; turn++) {
            unsigned char taken[DUO_BLOCKS] = {0};
            d->chunk = snic_rng_below(&g, 3) == 0 ? 1 + (size_t)snic_rng_below(&g, 5000) : 0;
            for (uint32_t i = 0; i < SNIC_COUNTOF(ios); i++)
                for (uint32_t k = 0; ios[i].busy && k < ios[i].io.blocks; k++)
                    taken[ios[i].io.lba + k] = 1;
            uint32_t i = (uint32_t)snic_rng_below(&g, SNIC_COUNTOF(ios));
            if (!ios[i].busy && turn < 350)
                random_io(d, &g, &ios[i], taken);
            if (snic_rng_below(&g, 40) == 0)
                duo_break(d, (uint32_t)snic_rng_below(&g, d->o.conns), SNIC_ECONNRESET);
            if (snic_rng_below(&g, 200) == 0)
                duo_restart(d, d->k.srv_epoch + 1);
            duo_turn(d);
            for (i = 0; i < SNIC_COUNTOF(ios); i++)
                if (ios[i].busy && ios[i].io.done_ns != 0)
                    random_done(&ios[i]);
        }
        for (uint32_t i = 0; i < SNIC_COUNTOF(ios); i++)
            for (uint32_t k = 0; ios[i].busy && k < 2000; k++) {
                duo_turn(d);
                if (ios[i].io.done_ns != 0)
                    random_done(&ios[i]);
            }
        for (uint32_t i = 0; i < SNIC_COUNTOF(ios); i++)
            assert_false(ios[i].busy);
        duo_turn(d);
        duo_close(d);
    }
    for (uint32_t i = 0; i < SNIC_COUNTOF(ios); i++)
        free(ios[i].data);
}

static void test_luna_random_ios_as_model(void **state)
{
    (void)state;
    random_runs(support_seed(), support_rounds(6, 60));
}

/* A read that waits for a send while another connection may proceed. */
static void test_luna_random_ios_seed_of_a_night(void **state)
{
    (void)state;
    random_runs(UINT64_C(1795702460901118), 60);
}

/* What a test that failed left behind is not the next one's. */
static int fresh(void **state)
{
    (void)state;
    memset(&duo, 0, sizeof(duo));
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_luna_stream_golden, fresh),
        cmocka_unit_test_setup(test_luna_stream_cut_anywhere_same, fresh),
        cmocka_unit_test_setup(test_luna_stream_cut_often_same, fresh),
        cmocka_unit_test_setup(test_luna_stream_bit_flipped_noticed, fresh),
        cmocka_unit_test_setup(test_luna_limits_entry_damaged_limit_kept, fresh),
        cmocka_unit_test_setup(test_luna_map_entry_damaged_looked_up, fresh),
        cmocka_unit_test_setup(test_luna_read_frame_wrong_once_repeated, fresh),
        cmocka_unit_test_setup(test_luna_block_wrong_often_damaged_until_moved, fresh),
        cmocka_unit_test_setup(test_luna_write_refused_busy_is_busy_only, fresh),
        cmocka_unit_test_setup(test_luna_target_not_a_stream_closed, fresh),
        cmocka_unit_test_setup(test_luna_target_other_epoch_closed, fresh),
        cmocka_unit_test_setup(test_luna_agent_not_a_stream_closed, fresh),
        cmocka_unit_test_setup(test_luna_disk_with_key_ciphertext_at_rest, fresh),
        cmocka_unit_test_setup(test_luna_random_ios_as_model, fresh),
        cmocka_unit_test_setup(test_luna_random_ios_seed_of_a_night, fresh),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
