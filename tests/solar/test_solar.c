/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The contract of both sides, by hand: one agent, one target, a network of two arrays.
 */
#include "support.h"
#include "test_solar_util.h"

#include <stdlib.h>

/* Writes, zeros, flushes and reads of several segments of one packet train give back what was
   written, and what never was reads as zeros. */
static void test_solar_write_then_read_same_bytes(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w, r, f;
    size_t size = 100 * SNIC_EBS_BLOCK_BYTES;
    unsigned char *out = malloc(size), *in = malloc(size);
    struct snic_iov wi = {out, size}, ri = {in, size};
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(i * 7 + i / 4096);
    memset(in, 0xff, size);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 10, 100, &wi);
    duo_io(d, &f, SNIC_EBS_IO_FLUSH, 0, 0, NULL);
    for (int i = 0; i < 200 && d->acts[SNIC_EBS_ACT_DONE] < 2; i++)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 2);
    assert_true(w.result == 0 && f.result == 0 && w.done_ns <= f.done_ns);
    duo_io(d, &r, SNIC_EBS_IO_READ, 10, 100, &ri);
    for (int i = 0; i < 200 && d->acts[SNIC_EBS_ACT_DONE] < 3; i++)
        duo_turn(d, 0);
    assert_int_equal(r.result, 0);
    assert_memory_equal(in, out, size);
    assert_int_equal(r.retries + w.retries, 0);
    duo_close(d);
    free(out);
    free(in);
}

/* A write that no server acknowledged is fenced before the client hears of an error. */
static void test_solar_write_expired_fenced_first(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_stats s;
    struct snic_ebs_io w;
    static unsigned char block[SNIC_EBS_BLOCK_BYTES];
    struct snic_iov iov = {block, sizeof(block)};
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 1, &iov);
    while (d->now < w.submitted_ns + UINT64_C(60000000))
        duo_turn(d, 1);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
    for (int i = 0; i < 300 && d->acts[SNIC_EBS_ACT_DONE] < 1; i++)
        duo_turn(d, 0);
    snic_solar_get_stats(d->c, &s);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 1);
    assert_int_equal(w.result, SNIC_EIO);
    assert_true(s.fences == 1 && s.rerolls > 0);
    duo_close(d);
}

/* Epochs do not wrap, and 0 is none. */
static void test_solar_attach_epochs_used_up_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 65536, .blocks = 512};
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), SNIC_EOVERFLOW);
    o.sa_epoch = 0;
    assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), SNIC_EINVAL);
    o.sa_epoch = 65535;
    assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), 0);
    assert_int_equal(snic_solar_attach(d->c, 1, &o, d->now), SNIC_EEXIST);
    assert_int_equal(snic_solar_detach(d->c, 1), 0);
    duo_close(d);
}

/* A packet without the token, or the id, is not believed, and nothing changes. */
static void test_solar_recv_forged_reset_and_ack_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_header h;
    struct snic_solar_stats s;
    unsigned char packet[256];
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_RESET;
    h.conn_id = 0x12345678;
    h.pkt_cnt = 1;
    h.srv_epoch = 9;
    h.u.reset.ver_min = h.u.reset.ver_max = SNIC_EBS_VERSION;
    int n = snic_ebs_encode(packet, sizeof(packet), NULL, SNIC_EBS_TO_CLIENT, &h, NULL, 0);
    assert_true(n > 0);
    assert_int_equal(snic_solar_recv(d->c, 0, 0, 0, packet, (size_t)n, 0, d->now), SNIC_EPERM);
    h.type = SNIC_EBS_NAK;
    h.status = SNIC_EBS_FENCED;
    n = snic_ebs_encode(packet, sizeof(packet), NULL, SNIC_EBS_TO_CLIENT, &h, NULL, 0);
    assert_true(n > 0);
    assert_int_equal(snic_solar_recv(d->c, 0, 0, 0, packet, (size_t)n, 0, d->now), SNIC_EPERM);
    snic_solar_get_stats(d->c, &s);
    assert_true(s.refused == 2 && s.resets == 0);
    duo_close(d);
}

/* A server that forgot everything is greeted again, and the write arrives. */
static void test_solar_server_restarted_write_arrives(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 10};
    struct snic_solar_stats s;
    struct snic_ebs_io w;
    static unsigned char block[SNIC_EBS_BLOCK_BYTES] = {1, 2, 3};
    struct snic_iov iov = {block, sizeof(block)};
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    size_t size = snic_solar_target_memsize(&k);
    assert_int_equal(snic_solar_target_init(&d->t, d->tmem, size, &k, d->now), 0);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 5, 1, &iov);
    for (int i = 0; i < 100 && d->acts[SNIC_EBS_ACT_DONE] < 1; i++)
        duo_turn(d, 0);
    snic_solar_get_stats(d->c, &s);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 1);
    assert_true(w.result == 0 && s.resets >= 1);
    assert_memory_equal(d->store[5], block, sizeof(block));
    duo_close(d);
}

/* A fence refuses all smaller versions of its segment, and a writer refused so takes the lease to
   be another's: it waits for those that are still under way, of an earlier write and of its own. */
static void test_solar_fence_waits_for_smaller_versions(void **state)
{
    struct duo *d = &duo;
    size_t size = 100 * SNIC_EBS_BLOCK_BYTES;
    unsigned char *bytes = calloc(1, size);
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct snic_ebs_io before, w;
        struct snic_iov one = {bytes, SNIC_EBS_BLOCK_BYTES}, iov = {bytes, size};
        memset(d, 0, sizeof(*d));
        d->o.deadline_ns = UINT64_C(1000000000);
        duo_open(d);
        d->hold = own ? 200 : 301;
        d->refuse = 101;
        d->status = SNIC_EBS_IO;
        duo_io(d, &before, SNIC_EBS_IO_WRITE, 300, 1, &one);
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 100, 100, &iov);
        for (int i = 0; i < 60; i++)
            duo_turn(d, 0);
        assert_true(d->now < before.submitted_ns + d->o.deadline_ns);
        assert_int_equal(d->requests > 0, 1);
        assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], own);
        assert_int_equal(d->fences, 0);
        d->hold = 0;
        duo_until(d, 2);
        assert_true(d->fences > 0);
        assert_int_equal(d->acts[SNIC_EBS_ACT_LEASE], 0);
        assert_true(before.result == 0 && w.result == SNIC_EIO);
        duo_close(d);
    }
    free(bytes);
}

/* What this side does not know is a refusal, not a damaged device. */
static void test_solar_status_of_a_later_version(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    static unsigned char block[SNIC_EBS_BLOCK_BYTES];
    struct snic_iov iov = {block, sizeof(block)};
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    d->status = SNIC_EBS_STATUS_END + 7;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 1, &iov);
    duo_until(d, 1);
    assert_int_equal(w.result, SNIC_EINVAL);
    duo_close(d);
}

/* An RPC may cost four turns of its disk: they are taken at once where no other disk is there to
   take them. All blocks of a read come together here, so that nothing else wakes the disk. */
static void test_solar_large_io_goes_on_by_itself(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io r;
    size_t size = 256 * SNIC_EBS_BLOCK_BYTES;
    unsigned char *bytes = calloc(1, size);
    struct snic_iov iov = {bytes, size};
    (void)state;
    memset(d, 0, sizeof(*d));
    d->o.window_start = 64;
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    duo_io(d, &r, SNIC_EBS_IO_READ, 0, 256, &iov);
    duo_until(d, 1);
    assert_int_equal(r.result, 0);
    duo_close(d);
    free(bytes);
}

/* ---- What is a sign of congestion, and what is not ---- */

static unsigned char round_block[SNIC_EBS_BLOCK_BYTES];
static struct snic_iov round_iov = {round_block, sizeof(round_block)};

static struct snic_solar_path_stats round_path(const struct duo *d)
{
    struct snic_solar_path_stats p;
    assert_int_equal(snic_solar_get_path(d->c, 0, 0, &p), 0);
    return p;
}

/* One write: so long until it is at the target, and so long until we take the answer. */
static void round_trip(struct duo *d, uint64_t there_ns, uint64_t back_ns)
{
    struct snic_ebs_io w;
    uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
    duo_turn(d, 0);
    d->now += there_ns;
    duo_turn(d, 0);
    d->now += back_ns;
    duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], done + 1);
}

static void round_open(struct duo *d, uint32_t paths, uint32_t window)
{
    memset(d, 0, sizeof(*d));
    d->o.paths = paths;
    d->o.window_start = window;
    duo_open(d);
    for (int i = 0; i < 20; i++)
        duo_turn(d, 0);
    for (int i = 0; i < 40; i++)
        round_trip(d, 10000, 10000);
}

/* A queue lasts; a server that did not get a processor once does not. */
static void test_solar_one_late_round_is_no_queue(void **state)
{
    struct duo *d = &duo;
    (void)state;
    round_open(d, 1, 8);
    uint32_t before = round_path(d).window[0];
    round_trip(d, 900000, 10000);
    assert_true(round_path(d).window[0] >= before);
    for (int i = 0; i < 10; i++)
        round_trip(d, 10000, 10000);
    assert_true(round_path(d).window[0] >= before);
    for (int i = 0; i < 3; i++)
        round_trip(d, 900000, 10000);
    assert_true(round_path(d).window[0] < before);
    duo_close(d);
}

/* Nor is it one when the engine was not called for a while and the answer lay there. */
static void test_solar_answers_that_lay_there_are_no_late_ones(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_stats s;
    struct snic_ebs_io w;
    (void)state;
    round_open(d, 1, 8);
    struct snic_solar_path_stats p = round_path(d);
    assert_true(p.srtt_ns < 100000);
    round_trip(d, 10000, 50000000);
    snic_solar_get_stats(d->c, &s);
    assert_int_equal(s.stalls, 1);
    assert_int_equal(s.timeouts, 0);
    assert_true(round_path(d).srtt_ns < 100000 && round_path(d).min_rtt_ns >= p.min_rtt_ns);
    /* The caller knows when it arrived. */
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
    duo_turn(d, 0);
    uint64_t arrived = d->now + 20000;
    duo_turn(d, 0);
    struct letter ack = d->bag[0];
    assert_int_equal(d->letters, 1);
    d->letters = 0;
    d->now += 900000;
    duo_turn(d, 0);
    (void)snic_solar_recv(d->c, 0, ack.path, ack.gen, ack.bytes, ack.size, 0, arrived);
    duo_turn(d, 0);
    assert_true(round_path(d).srtt_ns < 100000);
    duo_close(d);
}

/* Nor when the server had the answer, and did not come to send it. */
static void test_solar_answers_that_wait_at_the_server_are_held(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    (void)state;
    round_open(d, 1, 8);
    uint32_t before = round_path(d).window[0];
    for (int i = 0; i < 6; i++) {
        uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
        duo_turn(d, 0);
        assert_int_equal(d->letters, 1);
        duo_deliver(d, &d->bag[0]);
        d->letters = 0;
        d->now += 900000;
        duo_turn(d, 0);
        duo_turn(d, 0);
        assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], done + 1);
    }
    assert_true(round_path(d).srtt_ns > 200000);
    assert_true(round_path(d).window[0] >= before);
    duo_close(d);
}

/* However full a path is, and however long its round trips, a block leaves in rto_max_ns. */
static void test_solar_full_path_is_paced_with_a_bound(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    (void)state;
    round_open(d, 1, 8);
    for (int i = 0; i < 200; i++) {
        uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
        uint64_t began = d->now;
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
        while (d->acts[SNIC_EBS_ACT_DONE] == done) {
            d->now += d->letters != 0 ? 2000000 : 0; /* one way */
            duo_turn(d, 0);
        }
        /* One for whom another one left just before; the way there and back, and its time-outs. */
        assert_true(d->now - began <= 2 * 8000000 + 3 * 4100000);
    }
    assert_true(round_path(d).window[0] < 200);   /* a fifth of a block */
    assert_true(round_path(d).srtt_ns > 2000000); /* by which one would leave in 160 ms */
    duo_close(d);
}

/* What waits together leaves over one path, as far as its window goes, and has one answer. */
static void test_solar_waiting_together_one_path_one_answer(void **state)
{
    struct duo *d = &duo;
    static struct snic_ebs_io w[16];
    (void)state;
    round_open(d, 4, 64);
    uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
    for (uint32_t i = 0; i < 16; i++)
        duo_io(d, &w[i], SNIC_EBS_IO_WRITE, i, 1, &round_iov);
    duo_turn(d, 0);
    assert_int_equal(d->letters, 16);
    for (uint32_t i = 1; i < 16; i++)
        assert_int_equal(d->bag[i].path, d->bag[0].path);
    d->now += 10000;
    duo_turn(d, 0);
    assert_int_equal(d->letters, 1);
    duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], done + 16);
    duo_close(d);
}

/* What a path bursts is two trains, however much waits and however wide its window is. */
static void test_solar_bursts_are_two_trains(void **state)
{
    static unsigned char blocks[6 * SNIC_EBS_BLOCK_BYTES];
    struct snic_iov iov = {blocks, sizeof(blocks)};
    struct duo *d = &duo;
    static struct snic_ebs_io w[16];
    uint32_t burst[SNIC_SOLAR_PATHS_MAX] = {0}, full = 0;
    (void)state;
    round_open(d, 4, 64);
    uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
    for (uint32_t i = 0; i < 16; i++)
        duo_io(d, &w[i], SNIC_EBS_IO_WRITE, 6 * i, 6, &iov);
    duo_turn(d, 0);
    for (uint32_t i = 0; i < d->letters; i++)
        burst[d->bag[i].path]++;
    for (uint32_t i = 0; i < SNIC_SOLAR_PATHS_MAX; i++) {
        assert_true(burst[i] <= 2 * SNIC_SOLAR_TRAIN_MAX);
        full += burst[i] == 2 * SNIC_SOLAR_TRAIN_MAX;
    }
    assert_true(full >= 2); /* of 96 blocks over four paths */
    duo_until(d, done + 16);
    duo_close(d);
}

/* ---- Where it is, once more ---- */

#define SECOND UINT64_C(1000000000)

static struct snic_ebs_io lookup_io[4];

/* No place is known; the lookup is sent, with a pause that grows, and by all at once.
   @return how often */
static uint32_t began(struct duo *d, int lost, uint64_t first_ns, uint64_t *at, uint32_t max)
{
    uint64_t from = d->now;
    uint32_t n = 0, before = d->acts[SNIC_EBS_ACT_MAP];
    while (d->now < from + 40 * SECOND && n < max) {
        uint64_t now = d->now;
        duo_turn(d, lost);
        uint32_t more = d->acts[SNIC_EBS_ACT_MAP] - before - n;
        assert_true(more <= 1);
        if (more == 1)
            at[n++] = now - from;
    }
    if (n > 0)
        assert_in_range(at[0], first_ns, first_ns + first_ns / 4);
    for (uint32_t i = 1; i < n; i++) {
        uint64_t pause = SECOND << (i <= 3 ? i - 1 : 3);
        assert_in_range(at[i] - at[i - 1], pause, pause + pause / 4 + SECOND / 50);
    }
    return n;
}

static void lookup_open(struct duo *d, uint64_t store_ns)
{
    memset(d, 0, sizeof(*d));
    d->o.deadline_ns = 300 * SECOND;
    duo_open(d);
    duo_io(d, &lookup_io[0], SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
    duo_until(d, 1);
    d->store_ns = store_ns;
    d->mute = 1;
}

static void lookup_write(struct duo *d, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        duo_io(d, &lookup_io[i], SNIC_EBS_IO_WRITE, i, 1, &round_iov);
}

/* A server that is gone refuses no request. */
static void test_solar_lookup_repeated_server_silent(void **state)
{
    struct duo *d = &duo;
    uint64_t at[16];
    (void)state;
    lookup_open(d, 0);
    lookup_write(d, 4);
    uint32_t n = began(d, 1, 300000000, at, 16);
    assert_in_range(n, 6, 7);
    assert_int_equal(d->acts[SNIC_EBS_ACT_SUSPECT], 1);
    /* It is where it was: nothing changes. Somewhere else: all go there. */
    assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, d->maps, d->now), 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 1);
    assert_int_equal(snic_solar_map(d->c, 0, 0, 78, 0, d->maps + 1, d->now), 0);
    duo_until(d, 5);
    uint32_t maps = d->acts[SNIC_EBS_ACT_MAP];
    for (int i = 0; i < 100; i++)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], maps);
    assert_int_equal(snic_solar_deadline_ns(d->c), SNIC_NEVER);
    duo_close(d);
}

/* Where a server reports an RPC in hand, and nothing more, its place is looked up after slow_ns. */
static void test_solar_lookup_repeated_store_slow(void **state)
{
    struct duo *d = &duo;
    uint64_t at[16];
    (void)state;
    lookup_open(d, 20 * SECOND);
    lookup_write(d, 4);
    assert_int_equal(began(d, 0, SECOND, at, 4), 4);
    while (d->acts[SNIC_EBS_ACT_DONE] < 5 && d->now < 60 * SECOND)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 5);
    assert_int_equal(d->acts[SNIC_EBS_ACT_SUSPECT], 0);
    duo_close(d);
}

/* What is refused, and a segment of which nothing is known: an owner may forget the question. */
static void test_solar_lookup_repeated_owner_forgot(void **state)
{
    struct duo *d = &duo;
    (void)state;
    memset(d, 0, sizeof(*d));
    d->o.deadline_ns = 300 * SECOND;
    duo_open(d);
    d->mute = 1;
    lookup_write(d, 2);
    duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], 1);
    for (uint32_t want = 2; want < 5; want++) {
        uint64_t from = d->now;
        while (d->acts[SNIC_EBS_ACT_MAP] < want && d->now < from + 20 * SECOND)
            duo_turn(d, 0);
        assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], want);
        assert_true(d->now - from >= SECOND << (want - 2));
    }
    d->status = SNIC_EBS_STALE_GEN;
    assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, ++d->maps, d->now), 0);
    uint32_t maps = d->acts[SNIC_EBS_ACT_MAP];
    while (d->acts[SNIC_EBS_ACT_MAP] == maps)
        duo_turn(d, 0);
    uint64_t from = d->now;
    while (d->acts[SNIC_EBS_ACT_MAP] < maps + 2 && d->now < from + 20 * SECOND)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], maps + 2);
    assert_true(d->now - from >= SECOND - SECOND / 10);
    d->status = 0;
    assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, ++d->maps, d->now), 0);
    duo_until(d, 2);
    duo_close(d);
}

/* ---- A server's number is freed ---- */

/* Not while an I/O waits for it, nor, if that is not wanted, while a segment is there. */
static void test_solar_server_removed_only_when_not_in_use(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_path_stats p;
    (void)state;
    lookup_open(d, 0);
    assert_int_equal(snic_solar_server_remove(d->c, 1, 1, d->now), SNIC_ENOENT);
    duo_io(d, &lookup_io[0], SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
    duo_turn(d, 0);
    assert_int_equal(snic_solar_server_remove(d->c, 0, 0, d->now), SNIC_EBUSY);
    assert_int_equal(snic_solar_server_remove(d->c, 0, 1, d->now), SNIC_EBUSY);
    duo_until(d, 2); /* nothing has changed */
    assert_int_equal(lookup_io[0].result, 0);
    assert_int_equal(snic_solar_server_remove(d->c, 0, 0, d->now), SNIC_EBUSY);
    assert_int_equal(snic_solar_get_path(d->c, 0, 0, &p), 0);
    assert_int_equal(snic_solar_server_remove(d->c, 0, 1, d->now), 0);
    assert_int_equal(snic_solar_server_remove(d->c, 0, 1, d->now), SNIC_ENOENT);
    assert_int_equal(snic_solar_get_path(d->c, 0, 0, &p), SNIC_ENOENT);
    assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, 9, d->now), SNIC_ENOENT);
    assert_int_equal(snic_solar_check(d->c), 0);
    uint32_t sent = d->acts[SNIC_EBS_ACT_SEND];
    for (int i = 0; i < 20; i++)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_CLOSE], 4);
    assert_int_equal(d->acts[SNIC_EBS_ACT_SEND], sent);
    assert_int_equal(snic_solar_deadline_ns(d->c), SNIC_NEVER); /* it is silent */
    duo_close(d);
}

/* Its segments are began for, and the generation that is too old is remembered. */
static void test_solar_server_removed_segments_looked_up(void **state)
{
    struct duo *d = &duo;
    (void)state;
    lookup_open(d, 0);
    uint32_t maps = d->acts[SNIC_EBS_ACT_MAP], gen = d->maps;
    assert_int_equal(snic_solar_server_remove(d->c, 0, 1, d->now), 0);
    assert_int_equal(snic_solar_server_add(d->c, 0, d->now), 0);
    for (int i = 0; i < 20; i++)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], maps);
    duo_io(d, &lookup_io[0], SNIC_EBS_IO_WRITE, 1, 1, &round_iov);
    for (int i = 0; i < 8; i++)
        duo_turn(d, 0);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 1); /* the number has another server now */
    assert_true(d->acts[SNIC_EBS_ACT_MAP] > maps);   /* no answer: again and again */
    assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, gen - 1, d->now), SNIC_ESTALE);
    assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, gen, d->now), 0);
    duo_until(d, 2);
    assert_int_equal(lookup_io[0].result, 0);
    duo_close(d);
}

/* Late answers of the one before are not taken as the next one's, whatever socket brings them. */
static void test_solar_server_removed_late_answers_are_refused(void **state)
{
    static struct letter late[BAG];
    struct duo *d = &duo;
    struct snic_solar_stats before, after;
    uint32_t count = 0;
    (void)state;
    lookup_open(d, 0);
    duo_io(d, &lookup_io[0], SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
    duo_io(d, &lookup_io[1], SNIC_EBS_IO_READ, 0, 1, &round_iov);
    while (d->acts[SNIC_EBS_ACT_DONE] < 3) {
        duo_turn(d, 0);
        for (uint32_t i = 0; i < d->letters && count < BAG; i++)
            if (!d->bag[i].to_target)
                late[count++] = d->bag[i];
    }
    assert_true(count >= 2);
    assert_int_equal(snic_solar_server_remove(d->c, 0, 1, d->now), 0);
    assert_int_equal(snic_solar_server_add(d->c, 0, d->now), 0);
    d->mute = 0;
    for (int i = 0; i < 20; i++)
        duo_turn(d, 0); /* the next one is greeted */
    duo_io(d, &lookup_io[2], SNIC_EBS_IO_READ, 0, 1, &round_iov);
    for (int i = 0; i < 3; i++)
        duo_turn(d, 1);
    snic_solar_get_stats(d->c, &before);
    for (uint32_t i = 0; i < count; i++) {
        const struct letter *l = &late[i];
        struct snic_solar_path_stats p;
        assert_int_equal(snic_solar_recv(d->c, 0, l->path, l->gen, l->bytes, l->size, 0, d->now),
                         SNIC_ENOENT); /* by its own socket */
        assert_int_equal(snic_solar_get_path(d->c, 0, l->path, &p), 0);
        assert_int_not_equal(p.gen, l->gen);
        assert_int_equal(snic_solar_recv(d->c, 0, l->path, p.gen, l->bytes, l->size, 0, d->now),
                         SNIC_EPERM); /* by the next one's, which has its port */
        assert_int_equal(snic_solar_check(d->c), 0);
    }
    snic_solar_get_stats(d->c, &after);
    assert_int_equal(after.refused - before.refused, count);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 3);
    duo_until(d, 4);
    assert_int_equal(lookup_io[2].result, 0);
    duo_close(d);
}

/* Greetings that wait to be sent are not sent to the number's next server. */
static void test_solar_server_removed_queued_trains_come_back(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_action a;
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    for (uint32_t opened = 0; opened < 4;) {
        assert_int_equal(snic_solar_poll(d->c, &a, 1, d->now), 1);
        assert_int_equal(a.type, SNIC_EBS_ACT_OPEN);
        assert_int_equal(
            snic_solar_path_opened(d->c, 0, a.path, a.gen, (uint16_t)(5000 + opened++), d->now), 0);
    }
    assert_int_equal(snic_solar_poll(d->c, &a, 1, d->now), 1);
    assert_int_equal(a.type, SNIC_EBS_ACT_SEND); /* one is lent, others wait */
    assert_int_equal(snic_solar_server_remove(d->c, 0, 0, d->now), 0);
    assert_int_equal(snic_solar_server_add(d->c, 0, d->now), 0);
    assert_int_equal(snic_solar_check(d->c), 0);
    snic_solar_sent(d->c, a.train, d->now);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(snic_solar_poll(d->c, &a, 1, d->now), 1);
        assert_int_equal(a.type, i % 2 ? SNIC_EBS_ACT_OPEN : SNIC_EBS_ACT_CLOSE);
    }
    assert_int_equal(snic_solar_poll(d->c, &a, 1, d->now), 0);
    duo_close(d);
}

/* A server that refuses for now is there: it is reported since when it does nothing else. */
static void test_solar_busy_server_is_counted(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_busy b, more;
    (void)state;
    lookup_open(d, 0);
    assert_int_equal(snic_solar_get_busy(d->c, 1, &b), SNIC_ENOENT);
    assert_int_equal(snic_solar_get_busy(d->c, 0, &b), 0);
    assert_true(b.count == 0 && b.since_ns == 0);
    d->status = SNIC_EBS_BUSY;
    uint64_t from = d->now;
    uint32_t maps = d->acts[SNIC_EBS_ACT_MAP];
    duo_io(d, &lookup_io[0], SNIC_EBS_IO_WRITE, 0, 1, &round_iov);
    for (int i = 0; i < 40; i++)
        duo_turn(d, 0);
    assert_int_equal(snic_solar_get_busy(d->c, 0, &b), 0);
    assert_true(b.count > 3);
    assert_in_range(b.since_ns, from, from + SECOND);
    for (int i = 0; i < 40; i++)
        duo_turn(d, 0);
    assert_int_equal(snic_solar_get_busy(d->c, 0, &more), 0);
    assert_true(more.count > b.count && more.since_ns == b.since_ns);
    assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], maps);
    d->status = 0;
    duo_until(d, 2);
    assert_int_equal(snic_solar_get_busy(d->c, 0, &b), 0);
    assert_true(b.count >= more.count && b.since_ns == 0);
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_write_then_read_same_bytes),
        cmocka_unit_test(test_solar_write_expired_fenced_first),
        cmocka_unit_test(test_solar_attach_epochs_used_up_refused),
        cmocka_unit_test(test_solar_recv_forged_reset_and_ack_refused),
        cmocka_unit_test(test_solar_server_restarted_write_arrives),
        cmocka_unit_test(test_solar_fence_waits_for_smaller_versions),
        cmocka_unit_test(test_solar_status_of_a_later_version),
        cmocka_unit_test(test_solar_large_io_goes_on_by_itself),
        cmocka_unit_test(test_solar_one_late_round_is_no_queue),
        cmocka_unit_test(test_solar_answers_that_lay_there_are_no_late_ones),
        cmocka_unit_test(test_solar_answers_that_wait_at_the_server_are_held),
        cmocka_unit_test(test_solar_full_path_is_paced_with_a_bound),
        cmocka_unit_test(test_solar_waiting_together_one_path_one_answer),
        cmocka_unit_test(test_solar_bursts_are_two_trains),
        cmocka_unit_test(test_solar_lookup_repeated_server_silent),
        cmocka_unit_test(test_solar_lookup_repeated_store_slow),
        cmocka_unit_test(test_solar_lookup_repeated_owner_forgot),
        cmocka_unit_test(test_solar_busy_server_is_counted),
        cmocka_unit_test(test_solar_server_removed_only_when_not_in_use),
        cmocka_unit_test(test_solar_server_removed_segments_looked_up),
        cmocka_unit_test(test_solar_server_removed_late_answers_are_refused),
        cmocka_unit_test(test_solar_server_removed_queued_trains_come_back),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
