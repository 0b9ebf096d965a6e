/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What is at the edge of solar.h: limits that change while an I/O waits for them, the least of
 * trains, disks of the stated size, a cipher that fails, and the end.
 */
#include "solar_cipher.h"
#include "support.h"
#include "test_solar_util.h"

#define SECOND UINT64_C(1000000000)

static unsigned char data[SNIC_EBS_READ_BLOCKS][SNIC_EBS_BLOCK_BYTES];
static unsigned char back[SNIC_EBS_READ_BLOCKS][SNIC_EBS_BLOCK_BYTES];

static struct duo *edge_open(void)
{
    memset(&duo, 0, sizeof(duo));
    duo.o.deadline_ns = 100 * SECOND;
    duo_open(&duo);
    return &duo;
}

/* An I/O that waits for limits that are raised, or taken away, waits no more. */
static void test_solar_edges_limits_raised_waiting_resumes(void **state)
{
    (void)state;
    for (uint32_t away = 0; away < 2; away++) {
        struct duo *d = edge_open();
        struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1, .blocks = 512};
        struct snic_ebs_io io[8];
        o.ios_per_second = o.burst_ios = 1;
        assert_int_equal(snic_solar_qos(d->c, 0, &o, d->now), 0);
        for (uint32_t i = 0; i < 8; i++)
            duo_io(d, &io[i], SNIC_EBS_IO_ZERO, i, 1, NULL);
        for (uint32_t i = 0; i < 100 && d->acts[SNIC_EBS_ACT_DONE] == 0; i++)
            duo_turn(d, 0);
        assert_in_range(d->acts[SNIC_EBS_ACT_DONE], 1, 4);
        o.ios_per_second = o.burst_ios = away ? 0 : 1000000;
        uint64_t from = d->now;
        assert_int_equal(snic_solar_qos(d->c, 0, &o, d->now), 0);
        duo_until(d, 8);
        assert_in_range(d->now - from, 0, SECOND / 10);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(io[i].result, 0);
        duo_close(d);
    }
}

/* Odd blocks are written: a read of all has zeros and data in turn, and each pair ends a train. */
static void edge_write_odd(struct duo *d)
{
    static struct snic_iov iov[SNIC_EBS_READ_BLOCKS];
    static struct snic_ebs_io io[SNIC_EBS_READ_BLOCKS];
    for (uint32_t i = 1; i < SNIC_EBS_READ_BLOCKS; i += 2) {
        memset(data[i], (int)i, sizeof(data[i]));
        iov[i].base = data[i];
        iov[i].size = sizeof(data[i]);
        duo_io(d, &io[i], SNIC_EBS_IO_WRITE, i, 1, &iov[i]);
    }
    duo_until(d, SNIC_EBS_READ_BLOCKS / 2);
}

/* An unknown place blocks only the requests that need it. */
static void test_solar_edges_unknown_place_others_go_on(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1, .blocks = 1024};
    (void)state;
    for (uint32_t lost = 1; lost <= 12; lost += 11) { /* of 16 RPCs half may wait so */
        struct duo *d = edge_open();
        struct snic_ebs_io io[13];
        d->mute = 1;
        assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), 0);
        assert_int_equal(snic_solar_map(d->c, 1, 0, 77, 0, 1, d->now), 0);
        for (uint32_t i = 0; i <= lost; i++) {
            memset(&io[i], 0, sizeof(io[i]));
            io[i].op = SNIC_EBS_IO_ZERO;
            io[i].disk = 1;
            io[i].lba = i < lost ? 512 + i : 3;
            io[i].blocks = 1;
            assert_int_equal(snic_solar_submit(d->c, &io[i], d->now), 0);
        }
        uint64_t until = d->now + SECOND;
        while (d->now < until && d->acts[SNIC_EBS_ACT_DONE] == 0)
            duo_turn(d, 0);
        assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], lost < 8);
        assert_true(d->acts[SNIC_EBS_ACT_MAP] > 0);
        if (lost < 8)
            assert_true(io[lost].done_ns != 0 && io[lost].result == 0 && io[0].done_ns == 0);
        assert_int_equal(snic_solar_map(d->c, 1, 1, 78, 0, 1, d->now), 0);
        duo_until(d, lost + 1);
        for (uint32_t i = 0; i <= lost; i++)
            assert_int_equal(io[i].result, 0);
        duo_close(d);
    }
}

/* Where half of all RPCs wait for places already, the next place is lookups for by the disk itself,
   and again, until it is known. */
static void test_solar_edges_unknown_place_of_a_disk_looked_up_again(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1, .blocks = 1536};
    struct duo *d = edge_open();
    struct snic_ebs_action a;
    struct snic_ebs_io io[9];
    uint32_t lookups[3] = {0, 0, 0};
    (void)state;
    assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), 0);
    for (uint32_t i = 0; i < 9; i++) {
        memset(&io[i], 0, sizeof(io[i]));
        io[i].op = SNIC_EBS_IO_ZERO;
        io[i].disk = 1;
        io[i].lba = i < 8 ? 512 : 1024;
        io[i].blocks = 1;
        assert_int_equal(snic_solar_submit(d->c, &io[i], d->now), 0);
    }
    for (uint32_t i = 0; i < 200; i++) { /* 20 s: 0, 1, 3, 7, 15 and a quarter more of each */
        d->now += SECOND / 10;
        while (snic_solar_poll(d->c, &a, 1, d->now) == 1) {
            if (a.type == SNIC_EBS_ACT_SEND)
                snic_solar_sent(d->c, a.train, d->now);
            if (a.type == SNIC_EBS_ACT_MAP && a.disk == 1)
                lookups[a.segment]++;
        }
        assert_int_equal(snic_solar_check(d->c), 0);
    }
    assert_int_equal(lookups[0], 0);
    assert_in_range(lookups[1], 4, 6);
    assert_in_range(lookups[2], 4, 6);
    snic_solar_halt(d->c, d->now);
    while (snic_solar_poll(d->c, &a, 1, d->now) == 1)
        ;
    duo_close(d);
}

/* What has no place is abandoned after its time, as all is; nothing of it was ever sent. */
static void test_solar_edges_unknown_place_expires(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1, .blocks = 1024};
    struct snic_ebs_io io;
    struct duo *d = edge_open();
    (void)state;
    d->mute = 1;
    assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), 0);
    memset(&io, 0, sizeof(io));
    io.op = SNIC_EBS_IO_ZERO;
    io.disk = 1;
    io.blocks = 512;
    assert_int_equal(snic_solar_submit(d->c, &io, d->now), 0);
    duo_until(d, 1);
    assert_int_equal(io.result, SNIC_EIO);
    assert_in_range(io.done_ns - io.submitted_ns, 100 * SECOND, 101 * SECOND);
    assert_int_equal(d->fences, 0);
    duo_close(d);
}

static void edge_trains_back(struct duo *d, int *with_cookie)
{
    struct snic_solar_train *t;
    while (snic_solar_target_poll(d->t, &t, 1, d->now) == 1) {
        *with_cookie += t->cookie == 7;
        snic_solar_target_sent(d->t, t);
    }
}

static uint32_t fails; /* of the seals from here on those with a bit here fail */
static uint32_t seals;

/* All blocks are lookups for at once, and nothing else has a train; with @p failing as `fails`.
   @return the trains of read_done(), which all came back */
static int edge_read(struct duo *d, uint32_t failing)
{
    static struct snic_ebs_io r;
    static struct snic_iov in = {back, sizeof(back)};
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    int none = 0, left = 0;
    edge_write_odd(d);
    d->store_ns = SECOND; /* so that the request is here, and not answered */
    duo_io(d, &r, SNIC_EBS_IO_READ, 0, SNIC_EBS_READ_BLOCKS, &in);
    for (uint32_t i = 0; i < 100 && d->requests == 0; i++)
        duo_turn(d, 0);
    assert_int_equal(d->requests, 1);
    assert_int_equal(d->request[0].need, 0xffff);
    memset(blocks, 0, sizeof(blocks));
    for (uint32_t i = 0; i < SNIC_EBS_READ_BLOCKS; i++) {
        blocks[i].wver = d->version[i];
        blocks[i].data = i % 2 != 0 ? data[i] : NULL;
        blocks[i].data_crc = d->crc[i];
    }
    edge_trains_back(d, &none);
    seals = 0;
    fails = failing;
    int trains = snic_solar_target_read_done(d->t, &d->request[0], blocks, 7, d->now);
    edge_trains_back(d, &left);
    assert_int_equal(left, trains);
    assert_int_equal(snic_solar_target_check(d->t), 0);
    d->requests = 0;
    snic_solar_halt(d->c, d->now);
    for (uint32_t done = d->acts[SNIC_EBS_ACT_DONE]; d->acts[SNIC_EBS_ACT_DONE] == done;)
        duo_turn(d, 1);
    return trains;
}

static void test_solar_edges_least_of_trains_any_read_is_answered(void **state)
{
    struct snic_solar_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1, .trains_max = 8};
    (void)state;
    assert_int_equal(snic_solar_target_memsize(&k), 0);
    memset(&duo, 0, sizeof(duo));
    duo.o.deadline_ns = 100 * SECOND;
    duo.o.window_start = 64;
    duo.k.trains_max = 9;
    duo_open(&duo);
    assert_int_equal(edge_read(&duo, 0), 9);
    duo_close(&duo);
}

/* A disk is as large as its map, unless an option sets less: 8 GiB without any option. */
static void test_solar_edges_disks_size_limited(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1};
    (void)state;
    memset(&duo, 0, sizeof(duo));
    duo_open(&duo);
    o.blocks = (UINT64_C(8) << 18) + 1;
    assert_int_equal(snic_solar_attach(duo.c, 1, &o, duo.now), SNIC_EINVAL);
    o.blocks--;
    assert_int_equal(snic_solar_attach(duo.c, 1, &o, duo.now), 0);
    for (uint64_t g = 0; g < 8; g++)
        assert_int_equal(snic_solar_map(duo.c, 1, g << 9, 5, 0, 1, duo.now), 0);
    duo_close(&duo);
    memset(&duo, 0, sizeof(duo));
    duo.o.disk_blocks_max = (UINT64_C(20) << 18) + 1;
    duo_open(&duo);
    o.blocks = duo.o.disk_blocks_max;
    assert_int_equal(snic_solar_attach(duo.c, 1, &o, duo.now), 0);
    for (uint64_t g = 0; g < 21; g++)
        assert_int_equal(snic_solar_map(duo.c, 1, g << 9, 5, 0, 1, duo.now), 0);
    for (uint32_t n = 1; n <= 10; n += 9) { /* an I/O has so many blocks, the volume splits it */
        struct snic_ebs_io io = {.disk = 1, .op = SNIC_EBS_IO_ZERO};
        io.blocks = n * SNIC_EBS_IO_BLOCKS_MAX + 1;
        assert_int_equal(snic_solar_submit(duo.c, &io, duo.now), SNIC_EINVAL);
    }
    duo_close(&duo);
}

static int edge_seal(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                     void *out, const void *in, size_t size, unsigned char tag[16])
{
    uint32_t n = seals++;
    if (n < 32 && (fails >> n & 1) != 0)
        return SNIC_EIO;
    return solar_toy_ops.gcm_seal(key, nonce, aad, aad_size, out, in, size, tag);
}

static struct duo *edge_sealed(struct snic_ebs_sec_ops *ops)
{
    static struct solar_toy_key keys[4], secret = {{17, 23}};
    struct duo *d = &duo;
    memset(d, 0, sizeof(*d));
    *ops = solar_toy_ops;
    ops->gcm_seal = edge_seal;
    d->o.flags = d->k.flags = SNIC_SOLAR_AUTH;
    d->o.sec = d->k.sec = ops;
    for (uint32_t i = 0; i < 2; i++) {
        d->o.wire_keys[i] = &keys[i];
        d->k.wire_keys[i] = &keys[2 + i];
    }
    d->k.secret = d->secret = &secret;
    fails = 0;
    d->o.deadline_ns = 100 * SECOND;
    d->o.window_start = 64;
    duo_open(d);
    return d;
}

/* Blocks of a read cannot be sealed: as many trains leave as returned, and they come back. */
static void test_solar_edges_seal_fails_trains_counted(void **state)
{
    static const uint32_t sets[] = {0, 1, 2, 3, 0x8000, 0xffff, 0x5555, 0xaaaa, 0xff, 0x7ffe};
    struct snic_ebs_sec_ops ops;
    (void)state;
    for (uint32_t k = 0; k < SNIC_COUNTOF(sets); k++) {
        struct duo *d = edge_sealed(&ops);
        assert_in_range(edge_read(d, sets[k]), 1, 9);
        duo_close(d);
    }
}

/* After halt() the only actions are DONE of what is in flight. */
static void test_solar_edges_halted_nothing_requested(void **state)
{
    struct duo *d = edge_open();
    struct snic_ebs_action a;
    struct snic_ebs_io io;
    (void)state;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 0, 1, NULL);
    assert_true(snic_solar_deadline_ns(d->c) <= d->now);
    snic_solar_halt(d->c, d->now);
    assert_int_equal(snic_solar_poll(d->c, &a, 1, d->now), 1);
    assert_int_equal(a.type, SNIC_EBS_ACT_DONE);
    assert_int_equal(io.result, SNIC_EUNKNOWN);
    assert_int_equal(snic_solar_poll(d->c, &a, 1, d->now), 0);
    assert_true(snic_solar_deadline_ns(d->c) == SNIC_NEVER);
    duo_close(d);
}

/* A server whose store is full is not a broken one: the client's error shows which it is. */
static void test_solar_edges_full_store_reported(void **state)
{
    struct duo *d = edge_open();
    struct snic_ebs_io io;
    (void)state;
    d->status = SNIC_EBS_NO_SPACE;
    d->refuse = 1;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 0, 1, NULL);
    duo_until(d, 1);
    assert_int_equal(io.result, SNIC_ENOSPC);
    duo_close(d);
}

/* A write is older than the stored block, and no later one of this agent is: there is another
   writer, and none of it is acknowledged. What a later write has passed is as good as done. */
static void test_solar_edges_superseded_unwritten_ends_the_lease(void **state)
{
    (void)state;
    for (uint32_t later = 0; later < 2; later++) {
        struct duo *d = edge_open();
        struct snic_ebs_io io[2];
        d->status = SNIC_EBS_SUPERSEDED;
        d->refuse = 5 + 1;
        duo_io(d, &io[0], SNIC_EBS_IO_ZERO, 5, 1, NULL);
        if (later)
            duo_io(d, &io[1], SNIC_EBS_IO_ZERO, 6, 1, NULL);
        duo_until(d, 1 + later);
        assert_int_equal(io[0].result, later ? 0 : SNIC_ESTALE);
        assert_int_equal(d->acts[SNIC_EBS_ACT_LEASE], !later);
        io[0].blocks = 1;
        if (!later)
            assert_int_equal(snic_solar_submit(d->c, &io[0], d->now), SNIC_EROFS);
        duo_close(d);
    }
}

/* One block is refused for now, another because the segment is gone: both wait for the map. */
static void test_solar_edges_busy_and_gone_wait_for_the_map(void **state)
{
    struct duo *d = edge_open();
    struct snic_ebs_io io;
    struct snic_ebs_busy b = {.count = 0};
    (void)state;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 9, 1, NULL);
    duo_until(d, 1);
    d->mute = 1;
    d->status = SNIC_EBS_BUSY;
    d->refuse = 0 + 1;
    d->hold = 1 + 1;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 0, 2, NULL);
    for (uint32_t i = 0; i < 100 && b.count == 0; i++) {
        duo_turn(d, 0);
        assert_int_equal(snic_solar_get_busy(d->c, 0, &b), 0);
    }
    assert_true(b.count > 0);
    uint32_t maps = d->acts[SNIC_EBS_ACT_MAP];
    d->status = SNIC_EBS_STALE_GEN;
    d->refuse = d->hold = 0;
    for (uint32_t i = 0; i < 20 && d->acts[SNIC_EBS_ACT_MAP] == maps; i++)
        duo_turn(d, 0);
    assert_true(d->acts[SNIC_EBS_ACT_MAP] > maps);
    d->status = 0;
    d->mute = 0;
    duo_until(d, 2);
    assert_int_equal(io.result, 0);
    duo_close(d);
}

/* Every lookup to a closed port is answered by a hint: it is not sent the faster for that. */
static void test_solar_edges_hints_are_no_flood(void **state)
{
    struct duo *d = edge_open();
    struct snic_ebs_io io;
    struct snic_solar_stats s;
    uint32_t hints = 0;
    (void)state;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 0, 1, NULL);
    while (d->now < 3 * SECOND) {
        struct snic_solar_path_stats p;
        duo_turn(d, 1);
        for (uint32_t i = 0; i < 8; i++) {
            if (snic_solar_get_path(d->c, 0, i, &p) != 0)
                continue;
            snic_solar_path_hint(d->c, 0, i, p.gen, d->now);
            hints++;
        }
    }
    snic_solar_get_stats(d->c, &s);
    assert_in_range(s.hellos, 100, 3 * 8 * 100);
    assert_true(hints > s.hellos);
    for (uint32_t i = 0; i < 100 && d->acts[SNIC_EBS_ACT_DONE] == 0; i++)
        duo_turn(d, 0);
    assert_int_equal(io.result, 0);
    duo_close(d);
}

/* A server whose store is dead is not lookups for its promise the faster for that, and is known. */
static void test_solar_edges_fences_that_are_refused_are_no_flood(void **state)
{
    struct duo *d = edge_open();
    struct snic_ebs_io io;
    struct snic_ebs_busy b;
    (void)state;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 9, 1, NULL);
    duo_until(d, 1);
    d->mute = 1; /* or the map's answer releases it */
    d->status = d->promise = SNIC_EBS_IO;
    d->refuse = 0 + 1;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 0, 1, NULL);
    uint64_t from = d->now;
    while (d->now < 20 * SECOND)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 1);
    assert_in_range(d->fences, 15, 80);
    assert_int_equal(snic_solar_get_busy(d->c, 0, &b), 0);
    assert_in_range(b.failed, 15, 82); /* the write's answer, and those of the fences */
    assert_in_range(b.failed_since_ns, from, from + SECOND);
    assert_true(b.count == 0 && b.since_ns == 0);
    d->promise = 0;
    duo_until(d, 2);
    assert_int_equal(io.result, SNIC_EIO);
    assert_in_range(d->now, 20 * SECOND, 23 * SECOND);
    assert_int_equal(snic_solar_get_busy(d->c, 0, &b), 0);
    assert_true(b.failed_since_ns == 0); /* it could promise */
    duo_close(d);
}

/*
 * What a disk waits for, and since when: its operator has to know whether to look for a place or
 * for a server, and for which.
 */
static void test_solar_edges_what_a_disk_waits_for(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1, .blocks = 1536};
    struct duo *d = edge_open();
    struct snic_ebs_io io[10];
    struct snic_ebs_wait w = {9, 9, 9, 9};
    (void)state;
    d->mute = 1;
    assert_int_equal(snic_solar_get_wait(d->c, 1, &w), SNIC_ENOENT);
    assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), 0);
    assert_int_equal(snic_solar_get_wait(d->c, 1, &w), 0);
    assert_true(w.segment == 9 && w.since_ns == 9 && w.server == 9 && w.place == 9);
    uint64_t from = d->now;
    for (uint32_t i = 0; i < 10; i++) { /* of 16 RPCs half wait for places, then the disk does */
        memset(&io[i], 0, sizeof(io[i]));
        io[i].op = SNIC_EBS_IO_ZERO;
        io[i].disk = 1;
        io[i].lba = i == 0 ? 600 : 1030 + i;
        io[i].blocks = 1;
        assert_int_equal(snic_solar_submit(d->c, &io[i], d->now), 0);
    }
    while (d->now < 3 * SECOND)
        duo_turn(d, 0);
    assert_int_equal(snic_solar_get_wait(d->c, 1, &w), 1);
    assert_true(w.segment == 1 && w.server == UINT32_MAX && w.place == 1);
    assert_in_range(w.since_ns, from, from + SECOND);
    d->status = SNIC_EBS_BUSY; /* it has a place, and is not done there */
    assert_int_equal(snic_solar_map(d->c, 1, 1, 78, 0, 1, d->now), 0);
    while (d->now < 4 * SECOND)
        duo_turn(d, 0);
    assert_int_equal(snic_solar_get_wait(d->c, 1, &w), 1);
    assert_true(w.segment == 1 && w.server == 0 && w.place == 0);
    assert_in_range(w.since_ns, from, from + SECOND);
    d->status = SNIC_EBS_NO_SEGMENT; /* the server knows better */
    while (d->now < 5 * SECOND)
        duo_turn(d, 0);
    assert_int_equal(snic_solar_get_wait(d->c, 1, &w), 1);
    assert_true(w.segment == 1 && w.server == 0 && w.place == 1);
    d->status = 0;
    assert_int_equal(snic_solar_map(d->c, 1, 1, 78, 0, 2, d->now), 0);
    duo_until(d, 1);
    assert_int_equal(snic_solar_get_wait(d->c, 1, &w), 1);
    assert_true(w.segment == 2 && w.server == UINT32_MAX && w.place == 1);
    assert_int_equal(snic_solar_map(d->c, 1, 2, 79, 0, 1, d->now), 0);
    duo_until(d, 10);
    assert_int_equal(snic_solar_get_wait(d->c, 1, &w), 0);
    duo_close(d);
}

/* A large I/O progresses: what its last RPCs wait for is not as old as it is, nor is a place that
 * is missing for one that is not made yet. */
static void test_solar_edges_what_waits_is_as_old_as_its_rpc(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1, .blocks = 1536};
    struct duo *d = edge_open();
    struct snic_ebs_io io[2];
    struct snic_ebs_wait w;
    (void)state;
    d->mute = 1;
    d->store_ns = SECOND / 1000; /* a server that refuses at once gets 50,000 requests a second */
    for (uint32_t disk = 1; disk <= 2; disk++) { /* of 24 RPCs there are 16, and half for places */
        uint64_t from = d->now, last = disk == 1 ? 2 : 1;
        assert_int_equal(snic_solar_attach(d->c, disk, &o, d->now), 0);
        for (uint64_t k = 0; k < last; k++)
            assert_int_equal(snic_solar_map(d->c, disk, k, 80 + 4 * disk + k, 0, 1, d->now), 0);
        d->status = SNIC_EBS_BUSY;
        memset(&io[disk - 1], 0, sizeof(io[0]));
        io[disk - 1].op = SNIC_EBS_IO_ZERO;
        io[disk - 1].disk = disk;
        io[disk - 1].blocks = 1536;
        assert_int_equal(snic_solar_submit(d->c, &io[disk - 1], d->now), 0);
        while (d->now < from + 3 * SECOND)
            duo_turn(d, 0);
        from = d->now;
        d->status = 0;
        while (d->now < from + 3 * SECOND)
            duo_turn(d, 0);
        assert_int_equal(snic_solar_get_wait(d->c, disk, &w), 1);
        assert_true(w.segment == last && w.server == UINT32_MAX && w.place == 1);
        assert_in_range(w.since_ns, from, from + 2 * SECOND);
    }
    for (uint32_t disk = 1; disk <= 2; disk++)
        for (uint64_t k = disk == 1 ? 2 : 1; k < 3; k++)
            assert_int_equal(snic_solar_map(d->c, disk, k, 80 + 4 * disk + k, 0, 1, d->now), 0);
    duo_until(d, 2);
    duo_close(d);
}

/* A place that is missing where no RPC is left for it. */
static void test_solar_edges_what_waits_without_an_rpc(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 1, .blocks = 1536};
    struct duo *d = edge_open();
    struct snic_ebs_io io[9], last;
    struct snic_ebs_wait w;
    (void)state;
    d->mute = 1;
    for (uint32_t disk = 1; disk <= 2; disk++)
        assert_int_equal(snic_solar_attach(d->c, disk, &o, d->now), 0);
    for (uint32_t i = 0; i < 9; i++) {
        memset(&io[i], 0, sizeof(io[i]));
        io[i].op = SNIC_EBS_IO_ZERO;
        io[i].disk = 1;
        io[i].lba = i;
        io[i].blocks = 1;
        assert_int_equal(snic_solar_submit(d->c, &io[i], d->now), 0);
    }
    while (d->now < SECOND)
        duo_turn(d, 0);
    memset(&last, 0, sizeof(last));
    last.op = SNIC_EBS_IO_ZERO;
    last.disk = 2;
    last.lba = 1024;
    last.blocks = 1;
    uint64_t from = d->now;
    assert_int_equal(snic_solar_submit(d->c, &last, d->now), 0);
    while (d->now < 2 * SECOND)
        duo_turn(d, 0);
    assert_int_equal(snic_solar_get_wait(d->c, 2, &w), 1);
    assert_true(w.segment == 2 && w.server == UINT32_MAX && w.place == 1 && w.since_ns == from);
    assert_int_equal(snic_solar_map(d->c, 2, 2, 79, 0, 1, d->now), 0);
    assert_int_equal(snic_solar_map(d->c, 1, 0, 78, 0, 1, d->now), 0);
    duo_until(d, 10);
    duo_close(d);
}

/*
 * The target keeps nothing of an RPC, so no end can check what a packet states of the whole; after
 * a move it would be of the old place, too. Each block's own checksums suffice.
 */
static void test_solar_edges_a_packet_speaks_for_itself(void **state)
{
    static unsigned char bytes[3][SNIC_EBS_BLOCK_BYTES];
    struct duo *d = edge_open();
    struct snic_ebs_io io[2];
    struct snic_iov iov = {bytes, sizeof(bytes)};
    uint32_t writes = 0;
    (void)state;
    duo_io(d, &io[0], SNIC_EBS_IO_WRITE, 0, 3, &iov);
    duo_io(d, &io[1], SNIC_EBS_IO_ZERO, 8, 2, NULL);
    while (d->acts[SNIC_EBS_ACT_DONE] < 2) {
        duo_turn(d, 0);
        for (uint32_t i = 0; i < d->letters; i++) {
            const unsigned char *p = d->bag[i].bytes;
            if (!d->bag[i].to_target || p[1] != SNIC_EBS_WRITE)
                continue;
            writes++;
            assert_int_equal(snic_get_be16(p + 2) & SNIC_EBS_LAST_PKT, 0);
            assert_int_equal(snic_get_be32(p + 116), 0); /* agg_crc */
        }
    }
    assert_true(writes >= 5 && io[0].result == 0 && io[1].result == 0);
    duo_close(d);
}

/* On the way ports are replaced by others (a NAT that was restarted): reads resume as soon as the
   new ones are proven, and no port is exchanged for it. */
static void test_solar_edges_new_address_is_proven_and_reads_go_on(void **state)
{
    static unsigned char wrote[SNIC_EBS_BLOCK_BYTES], got[SNIC_EBS_BLOCK_BYTES];
    struct snic_iov from = {wrote, sizeof(wrote)}, into = {got, sizeof(got)};
    struct duo *d = &duo;
    struct snic_solar_target_stats t;
    struct snic_solar_stats s;
    struct snic_ebs_io io;
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    memset(wrote, 9, sizeof(wrote));
    duo_io(d, &io, SNIC_EBS_IO_WRITE, 3, 1, &from);
    duo_until(d, 1);
    for (uint32_t i = 0; i < 5; i++) {
        d->nat++;
        memset(got, 0, sizeof(got));
        duo_io(d, &io, SNIC_EBS_IO_READ, 3, 1, &into);
        duo_until(d, 2 + i);
        assert_int_equal(io.result, 0);
        assert_memory_equal(got, wrote, sizeof(wrote));
        assert_true(io.done_ns - io.submitted_ns < 5000000);
    }
    snic_solar_target_get_stats(d->t, &t);
    snic_solar_get_stats(d->c, &s);
    assert_true(t.unproven >= 5 && t.unproven < 100);
    assert_int_equal(s.rerolls, 0);
    duo_close(d);
}

/* ---- Options at the ends of their ranges ---- */

#define U32(field) #field, offsetof(struct snic_solar_opts, field), 0
#define U64(field) #field, offsetof(struct snic_solar_opts, field), 1
#define T32(field) #field, offsetof(struct snic_solar_target_opts, field), 0

struct range {
    const char *name;
    size_t at;
    int wide;
    uint64_t least, most; /* 0 asks for the default */
};

static void put(void *opts, const struct range *r, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    if (r->wide)
        memcpy((char *)opts + r->at, &value, sizeof(value));
    else
        memcpy((char *)opts + r->at, &narrow, sizeof(narrow));
}

static void test_solar_edges_options_out_of_range_refused(void **state)
{
    const uint64_t ms = 1000000, hour = UINT64_C(3600000) * ms;
    const struct range agent[] = {
        {U32(disks_max), 1, 4096},
        {U32(servers_max), 1, 1024},
        {U32(paths), 1, 8},
        {U32(rpcs_max), 16, 65536},
        {U32(trains_max), 4, 4096},
        {U32(chunks_max), 1, 1u << 20},
        {U32(window_max), 4, 256}, /* window_start is 4 */
        {U64(disk_blocks_max), 512, UINT64_C(1) << 40},
        {U64(deadline_ns), 1, 24 * hour},
        {U64(slow_ns), 1, 24 * hour},
        {U64(error_ns), 0, 24 * hour},
        {U64(suspect_ns), 1, hour},
        {U64(rto_min_ns), 10000, 8 * ms}, /* rto_max_ns */
        {U64(rto_max_ns), ms, 8 * ms},    /* rto_min_ns and the longest */
        {U64(base_rtt_ns), 1000, ms},
        {U64(stall_ns), 1000, hour},
    };
    const struct range target[] = {
        {T32(conns_max), 1, 65536},
        {T32(trains_max), 9, 4096},
    };
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(agent); i++)
        for (uint64_t by = 1; by <= 10; by += 9) {
            const struct range *r = &agent[i];
            struct snic_solar_opts o = {.opts_size = sizeof(o), .client_epoch = 1};
            o.chunks_max = 1; /* a map of 2^40 blocks is not lookups for */
            put(&o, r, r->least);
            assert_null(snic_solar_opts_wrong(&o));
            assert_true(snic_solar_memsize(&o) > 0);
            put(&o, r, r->most);
            assert_true(snic_solar_memsize(&o) > 0);
            put(&o, r, by == 1 ? r->most + 1 : 10 * r->most);
            assert_int_equal(snic_solar_memsize(&o), 0);
            support_names(snic_solar_opts_wrong(&o), r->name);
            if (r->least > 1) {
                put(&o, r, r->least - 1);
                assert_int_equal(snic_solar_memsize(&o), 0);
                assert_non_null(snic_solar_opts_wrong(&o));
            }
        }
    for (uint32_t i = 0; i < SNIC_COUNTOF(target); i++)
        for (uint64_t by = 1; by <= 10; by += 9) {
            const struct range *r = &target[i];
            struct snic_solar_target_opts o = {.opts_size = sizeof(o), .srv_epoch = 1};
            put(&o, r, r->least);
            assert_null(snic_solar_target_opts_wrong(&o));
            assert_true(snic_solar_target_memsize(&o) > 0);
            put(&o, r, r->most);
            assert_true(snic_solar_target_memsize(&o) > 0);
            put(&o, r, by == 1 ? r->most + 1 : 10 * r->most);
            assert_int_equal(snic_solar_target_memsize(&o), 0);
            support_names(snic_solar_target_opts_wrong(&o), r->name);
            if (r->least > 1) {
                put(&o, r, r->least - 1);
                assert_int_equal(snic_solar_target_memsize(&o), 0);
                assert_non_null(snic_solar_target_opts_wrong(&o));
            }
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_edges_options_out_of_range_refused),
        cmocka_unit_test(test_solar_edges_limits_raised_waiting_resumes),
        cmocka_unit_test(test_solar_edges_least_of_trains_any_read_is_answered),
        cmocka_unit_test(test_solar_edges_unknown_place_others_go_on),
        cmocka_unit_test(test_solar_edges_unknown_place_of_a_disk_looked_up_again),
        cmocka_unit_test(test_solar_edges_unknown_place_expires),
        cmocka_unit_test(test_solar_edges_disks_size_limited),
        cmocka_unit_test(test_solar_edges_seal_fails_trains_counted),
        cmocka_unit_test(test_solar_edges_halted_nothing_requested),
        cmocka_unit_test(test_solar_edges_full_store_reported),
        cmocka_unit_test(test_solar_edges_hints_are_no_flood),
        cmocka_unit_test(test_solar_edges_fences_that_are_refused_are_no_flood),
        cmocka_unit_test(test_solar_edges_a_packet_speaks_for_itself),
        cmocka_unit_test(test_solar_edges_what_a_disk_waits_for),
        cmocka_unit_test(test_solar_edges_what_waits_is_as_old_as_its_rpc),
        cmocka_unit_test(test_solar_edges_what_waits_without_an_rpc),
        cmocka_unit_test(test_solar_edges_busy_and_gone_wait_for_the_map),
        cmocka_unit_test(test_solar_edges_superseded_unwritten_ends_the_lease),
        cmocka_unit_test(test_solar_edges_new_address_is_proven_and_reads_go_on),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
