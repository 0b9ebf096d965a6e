/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The contract of both sides, by hand: one agent, one target, pipes in memory (test_luna_util.h).
 */
#include "test_luna_util.h"

#include <stdlib.h>

static struct duo duo;

enum { MANY = 300 };
static unsigned char out[MANY * SNIC_EBS_BLOCK_BYTES], in[MANY * SNIC_EBS_BLOCK_BYTES];

/* Writes, zeros, flushes and reads over several RPCs and a segment's edge give back what was
   written, and what never was reads as zeros. */
static void test_luna_write_then_read_same_bytes(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w, r, f;
    struct snic_iov wi[3] = {{out, 7 * SNIC_EBS_BLOCK_BYTES},
                             {out + 7 * SNIC_EBS_BLOCK_BYTES, SNIC_EBS_BLOCK_BYTES},
                             {out + 8 * SNIC_EBS_BLOCK_BYTES, 192 * SNIC_EBS_BLOCK_BYTES}};
    struct snic_iov ri = {in, sizeof(in)};
    (void)state;
    duo_open(d);
    duo_fill(out, sizeof(out), 1);
    memset(in, 0xff, sizeof(in));
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 400, 200, wi, 3);
    duo_io(d, &f, SNIC_EBS_IO_FLUSH, 0, 0, NULL, 0);
    assert_true(duo_until(d, 2, 200));
    assert_int_equal(w.result, 0);
    assert_true(f.result == 0 && w.done_ns <= f.done_ns);
    duo_io(d, &r, SNIC_EBS_IO_READ, 350, MANY, &ri, 1);
    assert_true(duo_until(d, 3, 200));
    assert_int_equal(r.result, 0);
    for (uint32_t i = 0; i < 50 * SNIC_EBS_BLOCK_BYTES; i++)
        assert_true(in[i] == 0 && in[250 * SNIC_EBS_BLOCK_BYTES + i] == 0);
    assert_memory_equal(in + 50 * SNIC_EBS_BLOCK_BYTES, out, 200 * SNIC_EBS_BLOCK_BYTES);
    assert_int_equal(r.retries + w.retries, 0);
    duo_close(d);
}

/* Whatever is wrong is refused, and nothing changes. */
static void test_luna_options_wrong_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_luna_opts o = {.opts_size = sizeof(o), .client_epoch = 1};
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1};
    struct snic_ebs_disk_opts disk = {.opts_size = sizeof(disk), .sa_epoch = 65536, .blocks = 512};
    struct snic_luna *c = NULL;
    (void)state;
    assert_true(snic_luna_memsize(&o) > 0 && snic_luna_target_memsize(&k) > 0);
    o.flags = 4;
    assert_int_equal(snic_luna_memsize(&o), 0);
    o.flags = SNIC_LUNA_PAPER;
    o.conns = 2;
    assert_int_equal(snic_luna_memsize(&o), 0);
    assert_int_equal(snic_luna_init(&c, in, sizeof(in), &o, 0), SNIC_EINVAL);
    o.flags = 0;
    o.conns = 17;
    assert_int_equal(snic_luna_memsize(&o), 0);
    k.srv_epoch = 0;
    assert_int_equal(snic_luna_target_memsize(&k), 0);
    duo_open(d);
    assert_int_equal(snic_luna_server_add(d->c, 0, d->now), SNIC_EEXIST);
    assert_int_equal(snic_luna_server_add(d->c, 1, d->now), SNIC_EINVAL);
    assert_int_equal(snic_luna_attach(d->c, 1, &disk, d->now), SNIC_EOVERFLOW);
    disk.sa_epoch = 0;
    assert_int_equal(snic_luna_attach(d->c, 1, &disk, d->now), SNIC_EINVAL);
    disk.sa_epoch = 65535;
    disk.xts_key = d; /* without ciphers */
    assert_int_equal(snic_luna_attach(d->c, 1, &disk, d->now), SNIC_EINVAL);
    disk.xts_key = NULL;
    assert_int_equal(snic_luna_attach(d->c, 1, &disk, d->now), 0);
    assert_int_equal(snic_luna_attach(d->c, 1, &disk, d->now), SNIC_EEXIST);
    assert_int_equal(snic_luna_detach(d->c, 1), 0);
    assert_int_equal(snic_luna_detach(d->c, 1), SNIC_ENOENT);
    assert_int_equal(snic_luna_map(d->c, 1, 0, 1, 0, 1, d->now), SNIC_ENOENT);
    assert_int_equal(snic_luna_map(d->c, 0, 0, 1, 1, 1, d->now), SNIC_ENOENT);
    assert_int_equal(snic_luna_map(d->c, 0, 2, 1, 0, 1, d->now), SNIC_EINVAL);
    assert_int_equal(snic_luna_connected(d->c, 0, 0, 7, d->now), SNIC_ENOENT);
    snic_luna_closed(d->c, 0, 9, 1, 0, d->now);
    assert_int_equal(snic_luna_recv(d->c, 0, 0, 9, in, 5, d->now), SNIC_ENOENT);
    duo_check(d);
    duo_close(d);
}

static void test_luna_submit_wrong_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_iov iov = {out, 2 * SNIC_EBS_BLOCK_BYTES};
    struct snic_ebs_io io = {.iov = &iov, .iov_count = 1, .blocks = 2, .op = SNIC_EBS_IO_WRITE};
    (void)state;
    duo_open(d);
    io.disk = 1;
    assert_int_equal(snic_luna_submit(d->c, &io, d->now), SNIC_ENOENT);
    io.disk = 0;
    io.op = 5;
    assert_int_equal(snic_luna_submit(d->c, &io, d->now), SNIC_EINVAL);
    io.op = SNIC_EBS_IO_WRITE;
    io.lba = DUO_BLOCKS - 1;
    assert_int_equal(snic_luna_submit(d->c, &io, d->now), SNIC_EINVAL);
    io.lba = 0;
    io.blocks = 0;
    assert_int_equal(snic_luna_submit(d->c, &io, d->now), SNIC_EINVAL);
    io.blocks = 3;
    assert_int_equal(snic_luna_submit(d->c, &io, d->now), SNIC_EINVAL);
    io.blocks = 2;
    iov.size--;
    assert_int_equal(snic_luna_submit(d->c, &io, d->now), SNIC_EINVAL);
    duo_check(d);
    duo_close(d);
}

/* A write that no server acknowledged is fenced before the client hears of an error, and not before
   its deadline. */
static void test_luna_write_expired_fenced_first(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_luna_stats s;
    struct snic_iov iov = {out, SNIC_EBS_BLOCK_BYTES};
    (void)state;
    d->o.deadline_ns = UINT64_C(50000000);
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    d->lost_up = 1;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 1, &iov, 1);
    while (d->now < w.submitted_ns + UINT64_C(60000000))
        duo_turn(d);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
    d->lost_up = 0;
    for (uint32_t i = 0; i < 2; i++) /* a gap in a stream is none that TCP makes */
        duo_break(d, i, SNIC_ECONNRESET);
    assert_true(duo_until(d, 1, 400));
    snic_luna_get_stats(d->c, &s);
    assert_int_equal(w.result, SNIC_EIO);
    assert_int_equal(s.fences, 1);
    assert_true(d->fence > w.wver);
    duo_close(d);
}

/* Whatever a connection swallows is on another one within a second; as published it never is. */
static void test_luna_connection_silent_replayed_elsewhere(void **state)
{
    struct duo *d = &duo;
    (void)state;
    for (int paper = 0; paper < 2; paper++) {
        struct snic_ebs_io w, r;
        struct snic_iov iov = {out, 9 * SNIC_EBS_BLOCK_BYTES};
        struct snic_iov ri = {in, 9 * SNIC_EBS_BLOCK_BYTES};
        d->o.flags = paper ? SNIC_LUNA_PAPER : 0;
        duo_open(d);
        duo_fill(out, sizeof(out), 2);
        for (int i = 0; i < 10; i++)
            duo_turn(d);
        d->lost_up = 1;
        d->still = paper;
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 3, 9, &iov, 1);
        duo_turn(d);
        duo_turn(d);
        uint64_t began = d->now;
        while (d->now < began + UINT64_C(1500000000) && d->acts[SNIC_EBS_ACT_DONE] == 0) {
            d->lost_up = d->closes == 0; /* mended when it has been noticed */
            d->now += 1000000;
            duo_turn(d);
        }
        assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], !paper);
        assert_int_equal(d->closes > 0, !paper);
        if (!paper) {
            assert_true(w.done_ns - began < UINT64_C(1000000000) && w.retries >= 9);
            assert_int_equal(d->reason, SNIC_ETIMEDOUT);
        } else {
            d->lost_up = 0;
            duo_break(d, 0, SNIC_ECONNRESET); /* minutes later the operator mends it */
        }
        assert_true(duo_until(d, 1, 400));
        duo_io(d, &r, SNIC_EBS_IO_READ, 3, 9, &ri, 1);
        assert_true(duo_until(d, 2, 400));
        assert_int_equal(w.result, 0);
        assert_int_equal(r.result, 0);
        assert_memory_equal(in, out, 9 * SNIC_EBS_BLOCK_BYTES);
        duo_close(d);
    }
}

/* A server that forgot everything is greeted again, and the write arrives; what it stored stays. */
static void test_luna_server_restarted_write_arrives(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w, x;
    struct snic_luna_stats s;
    struct snic_iov iov = {out, 70 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    duo_open(d);
    duo_fill(out, sizeof(out), 3);
    d->hold = 1;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 100, 70, &iov, 1);
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    assert_true(d->requests > 0);
    d->hold = 0;
    duo_restart(d, 10);
    duo_io(d, &x, SNIC_EBS_IO_FLUSH, 0, 0, NULL, 0);
    assert_true(duo_until(d, 2, 400));
    snic_luna_get_stats(d->c, &s);
    assert_true(w.result == 0 && s.resets >= 2 && w.retries > 0);
    for (uint32_t i = 0; i < 70; i++)
        assert_memory_equal(d->store[100 + i].data, out + (size_t)i * SNIC_EBS_BLOCK_BYTES,
                            SNIC_EBS_BLOCK_BYTES);
    duo_close(d);
}

/* The server's status is what the client gets. */
static void test_luna_statuses_each_meaning(void **state)
{
    static const struct {
        uint32_t status;
        uint8_t op;
        int32_t result;
    } rows[] = {
        {SNIC_EBS_INVALID, SNIC_EBS_IO_WRITE, SNIC_EINVAL},
        {SNIC_EBS_IO, SNIC_EBS_IO_WRITE, SNIC_EIO},
        {SNIC_EBS_NO_SPACE, SNIC_EBS_IO_ZERO, SNIC_ENOSPC},
        {SNIC_EBS_IO, SNIC_EBS_IO_READ, SNIC_EIO},
        {SNIC_EBS_DAMAGED, SNIC_EBS_IO_READ, SNIC_ECORRUPT},
        {999, SNIC_EBS_IO_READ, SNIC_EINVAL},
        {SNIC_EBS_NO_LEASE, SNIC_EBS_IO_WRITE, SNIC_ESTALE},
        {SNIC_EBS_FENCED, SNIC_EBS_IO_TRIM, SNIC_ESTALE},
        {SNIC_EBS_SUPERSEDED, SNIC_EBS_IO_WRITE, SNIC_ESTALE}, /* by no later write of this agent */
    };
    struct duo *d = &duo;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        struct snic_ebs_io io;
        struct snic_luna_stats s;
        struct snic_iov iov = {in, 20 * SNIC_EBS_BLOCK_BYTES};
        duo_open(d);
        d->status = rows[i].status;
        duo_io(d, &io, rows[i].op, 5, 20, &iov, 1);
        assert_true(duo_until(d, 1, 400));
        assert_int_equal(io.result, rows[i].result);
        snic_luna_get_stats(d->c, &s);
        assert_int_equal(s.fences, 0); /* a server that answers has finished it */
        assert_int_equal(d->acts[SNIC_EBS_ACT_LEASE], rows[i].result == SNIC_ESTALE);
        if (rows[i].result == SNIC_ESTALE)
            assert_int_equal(snic_luna_submit(d->c, &io, d->now), SNIC_EROFS);
        duo_close(d);
    }
}

/* Busy, or requested under an old generation: later it is done. */
static void test_luna_busy_and_stale_once_more(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io io, r;
    struct snic_luna_stats s;
    struct snic_iov iov = {out, 20 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    duo_open(d);
    d->status = SNIC_EBS_BUSY;
    duo_io(d, &io, SNIC_EBS_IO_WRITE, 5, 20, &iov, 1);
    for (int i = 0; i < 40; i++)
        duo_turn(d);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
    d->status = 0;
    assert_true(duo_until(d, 1, 400));
    snic_luna_get_stats(d->c, &s);
    assert_true(io.result == 0 && s.busy > 0 && d->maps == 1);
    d->seg_gen = 2;
    duo_io(d, &r, SNIC_EBS_IO_READ, 5, 20, &iov, 1);
    assert_true(duo_until(d, 2, 400));
    assert_true(r.result == 0 && d->maps == 2);
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, 1, d->now), SNIC_ESTALE);
    duo_close(d);
}

/* A server without room takes no more than it has room for, answers keep-alives all the same,
   and resumes where it stopped. */
static void test_luna_target_full_pauses_and_resumes(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io io[8], z;
    struct snic_luna_target_stats s;
    struct snic_iov iov = {out, 30 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    d->still = 1;
    d->k.rx_blocks = 4;
    d->k.frames_max = 2;
    duo_open(d);
    d->hold = 1;
    duo_fill(out, sizeof(out), 4);
    for (uint32_t i = 0; i < 8; i++)
        duo_io(d, &io[i], SNIC_EBS_IO_WRITE, 40 * i, 30, &iov, 1);
    duo_io(d, &z, SNIC_EBS_IO_ZERO, 900, 64, NULL, 0);
    uint32_t turns = 0;
    while (d->acts[SNIC_EBS_ACT_DONE] < 9 && turns++ < 4000) {
        duo_turn(d);
        assert_true(d->requests <= 4);
        if (turns % 3 == 0)
            duo_answer(d);
    }
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 9);
    snic_luna_target_get_stats(d->t, &s);
    assert_true(s.pauses > 0 && s.writes_out == 0 && s.requests == 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(io[i].result, 0);
    assert_true(d->store[900].kind == SNIC_EBS_ZERO && d->store[963].kind == SNIC_EBS_ZERO);
    duo_close(d);
}

/* A client that does not read holds what it may hold, and no longer than stall_ns. */
static void test_luna_client_deaf_closed(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io io[40];
    struct snic_luna_target_stats s;
    struct snic_iov iov = {out, SNIC_EBS_BLOCK_BYTES};
    (void)state;
    d->k.sends_max = 8;
    d->k.stall_ns = UINT64_C(5000000);
    d->o.flags = SNIC_LUNA_PAPER;
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    d->lends = 1; /* what the server sends goes nowhere */
    d->lost_down = 1;
    for (uint32_t i = 0; i < 40; i++) {
        duo_io(d, &io[i], SNIC_EBS_IO_WRITE, i, 1, &iov, 1);
        duo_turn(d);
        snic_luna_target_get_stats(d->t, &s);
        assert_true(s.sends_out <= 2);
    }
    assert_int_equal(d->target_closes, 0);
    d->now += UINT64_C(5000000);
    duo_turn(d);
    assert_int_equal(d->target_closes, 1);
    assert_int_equal(d->target_reason, SNIC_ETIMEDOUT);
    d->lends = 0;
    d->lost_down = 0;
    assert_true(duo_until(d, 40, 400));
    snic_luna_target_get_stats(d->t, &s);
    assert_int_equal(s.deaf, 1);
    duo_close(d);
}

/* Stopped, everything comes back. */
static void test_luna_halt_all_comes_back(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io io[3];
    struct snic_iov iov = {out, 100 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    duo_open(d);
    d->hold = 1;
    duo_io(d, &io[0], SNIC_EBS_IO_WRITE, 0, 100, &iov, 1);
    duo_io(d, &io[1], SNIC_EBS_IO_FLUSH, 0, 0, NULL, 0);
    duo_io(d, &io[2], SNIC_EBS_IO_READ, 0, 100, &iov, 1);
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    snic_luna_halt(d->c, d->now);
    assert_true(duo_until(d, 3, 3));
    assert_true(io[0].result == SNIC_EUNKNOWN && io[2].result == SNIC_EUNKNOWN);
    assert_int_equal(snic_luna_submit(d->c, &io[0], d->now), SNIC_ENOENT);
    duo_close(d);
}

/* Places are few: the one that is silent for longest makes room, a busy one does not. */
static void test_luna_target_places_used_up_idle_evicted(void **state)
{
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1, .conns_max = 2};
    struct snic_luna_target *t;
    struct snic_luna_target_action a;
    uint32_t h[3];
    size_t size = snic_luna_target_memsize(&k);
    void *mem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    (void)state;
    assert_int_equal(snic_luna_target_init(&t, mem, size, &k, 0), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[0], 0), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[1], 5), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[2], 10), SNIC_ENOSPC);
    assert_int_equal(snic_luna_target_poll(t, &a, 1, 10), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[2], UINT64_C(10000000003)), SNIC_ENOSPC);
    assert_int_equal(snic_luna_target_poll(t, &a, 1, UINT64_C(10000000003)), 1);
    assert_true(a.type == SNIC_LUNA_TARGET_CLOSE && a.handle == h[0]);
    assert_int_equal(snic_luna_target_opened(t, &h[2], UINT64_C(10000000004)), 0);
    assert_true(h[2] != h[0] && h[2] != h[1]);
    assert_int_equal(snic_luna_target_check(t), 0);
    assert_ptr_equal(snic_luna_target_fini(t), mem);
    support_guard_free(mem);
}

/* Of two writes that are outside at once the later is refused, and its copies have to be fenced:
   not before the earlier one, which a fence would hit, is done. */
static void test_luna_fence_waits_for_smaller_versions(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io a, b;
    struct snic_iov iov = {out, 2 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    d->still = 1;
    duo_open(d);
    d->hold = 1;
    duo_io(d, &a, SNIC_EBS_IO_WRITE, 0, 2, &iov, 1);
    duo_io(d, &b, SNIC_EBS_IO_WRITE, 8, 2, &iov, 1);
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    for (uint32_t i = 0; i < 2; i++) /* so that there are copies */
        duo_break(d, i, SNIC_ECONNRESET);
    for (int i = 0; i < 200; i++)
        duo_turn(d);
    for (uint32_t i = 0; i < d->requests; i++) /* b's, of both times */
        if (d->request[i].wver == b.wver)
            snic_luna_target_answer(d->t, &d->request[i], SNIC_EBS_IO, 0, 0, d->now);
    uint32_t left = 0;
    for (uint32_t i = 0; i < d->requests; i++)
        if (d->request[i].wver != b.wver)
            d->request[left++] = d->request[i];
    d->requests = left;
    for (int i = 0; i < 2000; i++)
        duo_turn(d);
    assert_int_equal(d->requests, left); /* no fence */
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
    d->hold = 0;
    duo_answer(d);
    assert_true(duo_until(d, 2, 20000));
    assert_true(a.result == 0 && b.result == SNIC_EIO && d->fence == b.wver + 1);
    assert_int_equal(d->acts[SNIC_EBS_ACT_LEASE], 0);
    duo_close(d);
}

/* Nor before the other RPCs of its own I/O are, which have the same version. */
static void test_luna_fence_waits_for_its_own(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_iov iov = {out, 100 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    d->still = 1;
    duo_open(d);
    d->hold = 1;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 100, &iov, 1);
    for (int i = 0; i < 40; i++)
        duo_turn(d);
    for (uint32_t i = 0; i < 2; i++)
        duo_break(d, i, SNIC_ECONNRESET);
    for (int i = 0; i < 400; i++)
        duo_turn(d);
    uint32_t left = 0, refused = 0;
    for (uint32_t i = 0; i < d->requests; i++) {
        if (d->request[i].lba < 64) {
            snic_luna_target_answer(d->t, &d->request[i], SNIC_EBS_IO, 0, 0, d->now);
            refused++;
        } else {
            d->request[left++] = d->request[i];
        }
    }
    d->requests = left;
    assert_true(refused > 0 && left > 0);
    for (int i = 0; i < 2000; i++)
        duo_turn(d);
    assert_int_equal(d->requests, left); /* no fence */
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
    d->hold = 0;
    duo_answer(d);
    assert_true(duo_until(d, 1, 20000));
    assert_int_equal(w.result, SNIC_EIO);
    assert_true(d->fence == w.wver + 1);
    assert_int_equal(d->acts[SNIC_EBS_ACT_LEASE], 0);
    duo_close(d);
}

/* A server that reports that it stored something else is not believed to have stored it. */
static void test_luna_data_stored_otherwise_sent_again(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_luna_stats s;
    struct snic_iov iov = {out, 3 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    duo_open(d);
    duo_fill(out, sizeof(out), 7);
    d->hold = 1;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 3, &iov, 1);
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    assert_int_equal(d->requests, 3);
    for (uint32_t i = 0; i < 3; i++) /* the right ones, swapped */
        snic_luna_target_answer(d->t, &d->request[i], 0, d->request[(i + 1) % 3].data_crc, 0,
                                d->now);
    d->requests = 0;
    d->hold = 0;
    assert_true(duo_until(d, 1, 200));
    snic_luna_get_stats(d->c, &s);
    assert_true(w.result == 0 && w.retries == 3 && s.data_crc == 1);
    duo_close(d);
}

/* What is on its way when its segment moves does not come into the client's memory any more. */
static void test_luna_segment_moved_while_data_come(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w, r;
    struct snic_iov wi = {out, 3 * SNIC_EBS_BLOCK_BYTES}, ri = {in, 3 * SNIC_EBS_BLOCK_BYTES};
    struct duo_pipe *p = &d->conn[0].down;
    (void)state;
    d->o.conns = 1;
    duo_open(d);
    duo_fill(out, sizeof(out), 8);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 3, &wi, 1);
    assert_true(duo_until(d, 1, 100));
    duo_io(d, &r, SNIC_EBS_IO_READ, 0, 3, &ri, 1);
    duo_turn(d);
    duo_turn(d);
    size_t size = p->tail - p->head, half = 128 + 12 + 5000;
    assert_int_equal(size, 128 + 12 + 3 * SNIC_EBS_BLOCK_BYTES);
    assert_int_equal(snic_luna_recv(d->c, 0, 0, d->conn[0].gen, p->bytes + p->head, half, d->now),
                     0);
    assert_memory_equal(in, out, 5000);
    d->seg_gen = 2;
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, 2, d->now), 0);
    /* The first block is done; the others are asked for anew. */
    memset(in + SNIC_EBS_BLOCK_BYTES, 0x11, 2 * SNIC_EBS_BLOCK_BYTES);
    (void)duo_agent(d);
    p->head += half;
    assert_int_equal(
        snic_luna_recv(d->c, 0, 0, d->conn[0].gen, p->bytes + p->head, size - half, d->now), 0);
    p->head += size - half;
    for (size_t i = SNIC_EBS_BLOCK_BYTES; i < 3 * SNIC_EBS_BLOCK_BYTES; i++)
        assert_int_equal(in[i], 0x11);
    assert_true(duo_until(d, 2, 100));
    assert_memory_equal(in, out, 3 * SNIC_EBS_BLOCK_BYTES);
    duo_close(d);
}

/* An answer from where the segment was is none, though the same blocks wait on the same connection.
 */
static void test_luna_answer_of_the_older_place_is_late(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_luna_stats s;
    struct snic_iov iov = {out, 3 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    d->o.conns = 1;
    duo_open(d);
    duo_fill(out, sizeof(out), 9);
    d->hold = 1;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 3, &iov, 1);
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    assert_int_equal(d->requests, 3);
    d->seg_gen = 2;
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, 2, d->now), 0);
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    assert_int_equal(d->requests, 6);
    for (uint32_t i = 0; i < 3; i++)
        snic_luna_target_answer(d->t, &d->request[i], 0, d->request[i].data_crc, 0, d->now);
    d->still = 1;
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
    snic_luna_get_stats(d->c, &s);
    assert_int_equal(s.late, 1);
    memmove(d->request, d->request + 3, 3 * sizeof(d->request[0]));
    d->requests = 3;
    d->hold = 0;
    duo_answer(d);
    assert_true(duo_until(d, 1, 100));
    assert_int_equal(w.result, 0);
    duo_close(d);
}

/* A write that a second connection brought is not the client's again while the first has its bytes.
 */
static void test_luna_not_done_before_sends_are_back(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_iov iov = {out, 3 * SNIC_EBS_BLOCK_BYTES};
    (void)state;
    duo_open(d);
    duo_fill(out, sizeof(out), 10);
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    d->keeps = 1;
    d->lost_up = 1;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 0, 3, &iov, 1);
    duo_turn(d);
    assert_int_equal(d->kept, 1);
    d->keeps = 0;
    d->lost_up = 0;
    duo_break(d, d->keep[0]->conn, SNIC_ECONNRESET);
    d->still = 1;
    for (int i = 0; i < 50; i++)
        duo_turn(d);
    assert_int_equal(d->store[2].wver, w.wver);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 0);
    duo_keep_back(d);
    assert_true(duo_until(d, 1, 10));
    assert_int_equal(w.result, 0);
    duo_close(d);
}

/* Of writes no more is outside than the server has granted. */
static void test_luna_credit_bounds_writes(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io io[20];
    struct snic_luna_conn_stats c;
    struct snic_iov iov = {out, SNIC_EBS_BLOCK_BYTES};
    (void)state;
    d->o.conns = 1;
    d->k.rx_blocks = 4;
    duo_open(d);
    d->hold = 1;
    duo_fill(out, sizeof(out), 11);
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    for (uint32_t i = 0; i < 20; i++)
        duo_io(d, &io[i], SNIC_EBS_IO_WRITE, i, 1, &iov, 1);
    for (uint32_t i = 0; i < 400 && d->acts[SNIC_EBS_ACT_DONE] < 20; i++) {
        duo_turn(d);
        assert_int_equal(snic_luna_get_conn(d->c, 0, 0, &c), 0);
        assert_true(c.outside <= 4);
        if (i % 5 == 4)
            duo_answer(d);
    }
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 20);
    duo_close(d);
}

/* A server that is gone refuses no request: where the segment is now is asked for, with a pause
   that grows, and by all that wait for it at once. */
static void test_luna_lookup_repeated_server_silent(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io io[4];
    struct snic_iov iov = {out, SNIC_EBS_BLOCK_BYTES};
    uint64_t second = 1000000000, before = 0;
    (void)state;
    d->o.deadline_ns = 300 * second;
    duo_open(d);
    duo_io(d, &io[0], SNIC_EBS_IO_WRITE, 0, 1, &iov, 1);
    assert_true(duo_until(d, 1, 100));
    d->mute = d->refused = d->lost_up = 1;
    for (uint32_t i = 0; i < DUO_CONNS; i++)
        if (d->conn[i].open != 0)
            duo_break(d, i, SNIC_ECONNRESET);
    uint64_t from = d->now;
    for (uint32_t i = 0; i < 4; i++)
        duo_io(d, &io[i], SNIC_EBS_IO_WRITE, i, 1, &iov, 1);
    for (uint32_t n = 0; n < 6; n++) {
        uint32_t maps = d->acts[SNIC_EBS_ACT_MAP];
        while (d->acts[SNIC_EBS_ACT_MAP] == maps && d->now < from + 40 * second)
            duo_turn(d);
        uint64_t at = d->now - from, pause = second << (n <= 3 ? n - (n > 0) : 3);
        assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], maps + 1);
        if (n == 0)
            assert_in_range(at, 300000000, 420000000);
        else /* seen up to an attempt to connect later */
            assert_in_range(at - before, pause - second / 5, pause + pause / 4 + second / 5);
        before = at;
    }
    assert_int_equal(d->acts[SNIC_EBS_ACT_SUSPECT], 1);
    d->refused = d->lost_up = 0;
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, 1, d->now), 0);
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, 2, d->now), 0);
    assert_true(duo_until(d, 5, 1000));
    uint32_t maps = d->acts[SNIC_EBS_ACT_MAP];
    for (int i = 0; i < 100; i++)
        duo_turn(d);
    assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], maps);
    duo_close(d);
}

/* What a test that failed left behind is not the next one's. */
static int fresh(void **state)
{
    (void)state;
    memset(&duo, 0, sizeof(duo));
    return 0;
}

/* A number is freed while nothing waits for its server, and connections of before are not the
   next server's. */
static void test_luna_server_removed_number_is_free(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w, r;
    struct snic_luna_conn_stats n;
    struct snic_iov wi = {out, SNIC_EBS_BLOCK_BYTES}, ri = {in, SNIC_EBS_BLOCK_BYTES};
    (void)state;
    duo_open(d);
    duo_fill(out, SNIC_EBS_BLOCK_BYTES, 3);
    assert_int_equal(snic_luna_server_remove(d->c, 1, 1, d->now), SNIC_ENOENT);
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 5, 1, &wi, 1);
    d->hold = 1;
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_server_remove(d->c, 0, 0, d->now), SNIC_EBUSY);
    assert_int_equal(snic_luna_server_remove(d->c, 0, 1, d->now), SNIC_EBUSY);
    d->hold = 0;
    duo_answer(d);
    assert_true(duo_until(d, 1, 100));
    assert_int_equal(w.result, 0);
    assert_int_equal(snic_luna_server_remove(d->c, 0, 0, d->now), SNIC_EBUSY); /* a segment */
    assert_int_equal(snic_luna_get_conn(d->c, 0, 0, &n), 0);
    uint16_t gen = n.gen;
    uint32_t maps = d->acts[SNIC_EBS_ACT_MAP], connects = d->acts[SNIC_EBS_ACT_OPEN];
    assert_int_equal(snic_luna_server_remove(d->c, 0, 1, d->now), 0);
    assert_int_equal(snic_luna_server_remove(d->c, 0, 1, d->now), SNIC_ENOENT);
    assert_int_equal(snic_luna_get_conn(d->c, 0, 0, &n), SNIC_ENOENT);
    assert_int_equal(snic_luna_recv(d->c, 0, 0, gen, in, 5, d->now), SNIC_ENOENT);
    duo_check(d);
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    assert_int_equal(d->closes, 2);
    assert_int_equal(d->acts[SNIC_EBS_ACT_OPEN], connects);
    assert_int_equal(snic_luna_deadline_ns(d->c), SNIC_NEVER); /* it is silent */
    assert_int_equal(snic_luna_server_add(d->c, 0, d->now), 0);
    assert_int_equal(snic_luna_recv(d->c, 0, 0, gen, in, 5, d->now), SNIC_ENOENT);
    assert_int_equal(snic_luna_connected(d->c, 0, 0, gen, d->now), SNIC_ENOENT);
    duo_io(d, &r, SNIC_EBS_IO_READ, 5, 1, &ri, 1);
    assert_true(duo_until(d, 2, 100));
    assert_int_equal(r.result, 0);
    assert_memory_equal(in, out, SNIC_EBS_BLOCK_BYTES);
    assert_int_equal(d->acts[SNIC_EBS_ACT_MAP], maps + 1); /* it was asked for */
    assert_int_equal(d->acts[SNIC_EBS_ACT_OPEN], connects + 2);
    assert_int_equal(snic_luna_get_conn(d->c, 0, 0, &n), 0);
    assert_int_not_equal(n.gen, gen);
    assert_int_equal(snic_luna_recv(d->c, 0, 0, gen, in, 5, d->now), SNIC_ENOENT);
    duo_close(d);
}

/* A server that refuses for now is there: it is reported since when it does nothing else. */
static void test_luna_busy_server_is_counted(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_io w;
    struct snic_ebs_busy b, more;
    struct snic_iov wi = {out, SNIC_EBS_BLOCK_BYTES};
    (void)state;
    duo_open(d);
    assert_int_equal(snic_luna_get_busy(d->c, 1, &b), SNIC_ENOENT);
    d->status = SNIC_EBS_BUSY;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 5, 1, &wi, 1);
    for (int i = 0; i < 60; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_busy(d->c, 0, &b), 0);
    assert_true(b.count > 3 && b.since_ns > 0 && b.since_ns < d->now);
    for (int i = 0; i < 60; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_busy(d->c, 0, &more), 0);
    assert_true(more.count > b.count && more.since_ns == b.since_ns);
    d->status = 0;
    assert_true(duo_until(d, 1, 100));
    assert_int_equal(snic_luna_get_busy(d->c, 0, &b), 0);
    assert_true(b.count >= more.count && b.since_ns == 0);
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_luna_write_then_read_same_bytes, fresh),
        cmocka_unit_test_setup(test_luna_options_wrong_refused, fresh),
        cmocka_unit_test_setup(test_luna_submit_wrong_refused, fresh),
        cmocka_unit_test_setup(test_luna_write_expired_fenced_first, fresh),
        cmocka_unit_test_setup(test_luna_connection_silent_replayed_elsewhere, fresh),
        cmocka_unit_test_setup(test_luna_server_restarted_write_arrives, fresh),
        cmocka_unit_test_setup(test_luna_statuses_each_meaning, fresh),
        cmocka_unit_test_setup(test_luna_busy_and_stale_once_more, fresh),
        cmocka_unit_test_setup(test_luna_target_full_pauses_and_resumes, fresh),
        cmocka_unit_test_setup(test_luna_client_deaf_closed, fresh),
        cmocka_unit_test_setup(test_luna_fence_waits_for_smaller_versions, fresh),
        cmocka_unit_test_setup(test_luna_fence_waits_for_its_own, fresh),
        cmocka_unit_test_setup(test_luna_data_stored_otherwise_sent_again, fresh),
        cmocka_unit_test_setup(test_luna_segment_moved_while_data_come, fresh),
        cmocka_unit_test_setup(test_luna_answer_of_the_older_place_is_late, fresh),
        cmocka_unit_test_setup(test_luna_not_done_before_sends_are_back, fresh),
        cmocka_unit_test_setup(test_luna_credit_bounds_writes, fresh),
        cmocka_unit_test_setup(test_luna_lookup_repeated_server_silent, fresh),
        cmocka_unit_test_setup(test_luna_busy_server_is_counted, fresh),
        cmocka_unit_test_setup(test_luna_server_removed_number_is_free, fresh),
        cmocka_unit_test_setup(test_luna_halt_all_comes_back, fresh),
        cmocka_unit_test_setup(test_luna_target_places_used_up_idle_evicted, fresh),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
