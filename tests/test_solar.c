/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The contract of both sides, by hand: one agent, one target, a network of two arrays.
 */
#include "snicstore/solar.h"
#include "support.h"

#include <stdlib.h>

enum { BAG = 512 };

struct letter {
    uint32_t size, to_target, path, gen;
    unsigned char bytes[SNIC_EBS_PACKET_BYTES];
};

struct duo {
    struct snic_solar *c;
    struct snic_solar_target *t;
    void *cmem, *tmem;
    uint64_t now;
    uint32_t letters, requests, done;
    uint32_t maps, opened, told[16];
    uint32_t status; /* what the store says */
    uint64_t version[512];
    unsigned char store[512][SNIC_EBS_BLOCK_BYTES];
    uint32_t crc[512];
    struct snic_solar_request request[BAG];
    struct letter bag[BAG];
};

static struct duo duo;

static void duo_open(struct duo *d)
{
    struct snic_solar_opts o = {.opts_size = sizeof(o), .client_epoch = 3, .servers_max = 1};
    struct snic_solar_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 9};
    struct snic_solar_disk_opts disk = {.opts_size = sizeof(disk), .sa_epoch = 1, .blocks = 512};
    memset(d, 0, sizeof(*d));
    d->now = 1000;
    o.rpcs_max = 16;
    o.deadline_ns = UINT64_C(50000000);
    size_t size = snic_solar_memsize(&o), ksize = snic_solar_target_memsize(&k);
    d->cmem = support_guard_alloc(size, SNIC_SOLAR_ALIGN);
    d->tmem = support_guard_alloc(ksize, SNIC_SOLAR_ALIGN);
    assert_int_equal(snic_solar_init(&d->c, d->cmem, size - 1, &o, 0), SNIC_ENOSPC);
    assert_int_equal(snic_solar_init(&d->c, d->cmem, size, &o, d->now), 0);
    assert_int_equal(snic_solar_target_init(&d->t, d->tmem, ksize - 1, &k, 0), SNIC_ENOSPC);
    assert_int_equal(snic_solar_target_init(&d->t, d->tmem, ksize, &k, d->now), 0);
    assert_int_equal(snic_solar_server_add(d->c, 0, d->now), 0);
    assert_int_equal(snic_solar_attach(d->c, 0, &disk, d->now), 0);
}

static void duo_close(struct duo *d)
{
    assert_ptr_equal(snic_solar_fini(d->c), d->cmem);
    assert_ptr_equal(snic_solar_target_fini(d->t), d->tmem);
    support_guard_free(d->cmem);
    support_guard_free(d->tmem);
}

static void duo_post(struct duo *d, const struct snic_solar_train *t, uint32_t to_target)
{
    uint32_t piece = 0;
    for (uint32_t i = 0; i < t->packets; i++) {
        struct letter *l = &d->bag[d->letters++];
        assert_true(d->letters < BAG);
        l->size = 0;
        l->to_target = to_target;
        l->path = to_target ? t->path : (uint32_t)t->peer.word[0];
        l->gen = to_target ? t->gen : (uint32_t)t->peer.word[1];
        while (l->size < t->segment && piece < t->iov_count) {
            memcpy(l->bytes + l->size, t->iov[piece].base, t->iov[piece].size);
            l->size += (uint32_t)t->iov[piece++].size;
        }
    }
}

static void duo_serve(struct duo *d, const struct snic_solar_request *q)
{
    struct snic_solar_block blocks[SNIC_EBS_READ_BLOCKS];
    uint32_t n = 0;
    if (d->status != 0 || q->op == SNIC_SOLAR_DO_FENCE) {
        snic_solar_target_answer(d->t, q, q->op == SNIC_SOLAR_DO_FENCE ? 0 : d->status, 0, 0,
                                 d->now);
        return;
    }
    if (q->op == SNIC_SOLAR_DO_WRITE) {
        if (q->wver > d->version[q->block]) {
            d->version[q->block] = q->wver;
            d->crc[q->block] = q->data_crc;
            if (q->data != NULL)
                memcpy(d->store[q->block], q->data, SNIC_EBS_BLOCK_BYTES);
        }
        snic_solar_target_answer(d->t, q, SNIC_EBS_OK, q->data_crc, 0, d->now);
        return;
    }
    memset(blocks, 0, sizeof(blocks));
    for (uint64_t left = q->need; left != 0; left &= left - 1, n++) {
        uint32_t b = q->block + (uint32_t)__builtin_ctzll(left);
        blocks[n].wver = d->version[b];
        blocks[n].data_crc = d->crc[b];
        blocks[n].data = d->version[b] != 0 ? d->store[b] : NULL;
    }
    assert_true(snic_solar_target_read_done(d->t, q, blocks, 1, d->now) > 0);
}

static void duo_act(struct duo *d, struct snic_solar_action *a)
{
    d->told[a->type]++;
    if (a->type == SNIC_SOLAR_TX) {
        duo_post(d, a->train, 1);
        snic_solar_sent(d->c, a->train, d->now);
    } else if (a->type == SNIC_SOLAR_PATH_OPEN) {
        uint16_t port = (uint16_t)(50000 + d->opened++);
        assert_int_equal(snic_solar_path_opened(d->c, 0, a->path, a->gen, port, d->now), 0);
    } else if (a->type == SNIC_SOLAR_MAP) {
        d->maps++;
        assert_int_equal(snic_solar_map(d->c, 0, 0, 77, 0, d->maps, d->now), 0);
    }
}

/* What is in the bag arrives (or is lost), all act, time passes to the next deadline. */
static void duo_turn(struct duo *d, int lost)
{
    struct snic_solar_action a;
    struct snic_solar_train *t;
    uint32_t n = d->letters;
    d->now += 20000;
    for (uint32_t i = 0; i < n && !lost; i++) {
        struct letter *l = &d->bag[i];
        struct snic_solar_peer peer = {{l->path, l->gen, 0}};
        struct snic_solar_request q;
        if (!l->to_target)
            (void)snic_solar_recv(d->c, 0, l->path, l->gen, l->bytes, l->size, 0, d->now);
        else if (snic_solar_target_recv(d->t, &peer, l->bytes, l->size, 0, &q, d->now) == 1)
            duo_serve(d, &q);
    }
    d->letters = 0;
    while (snic_solar_target_poll(d->t, &t, 1, d->now) == 1) {
        duo_post(d, t, 0);
        snic_solar_target_sent(d->t, t);
    }
    while (snic_solar_poll(d->c, &a, 1, d->now) == 1)
        duo_act(d, &a);
    assert_int_equal(snic_solar_check(d->c), 0);
    assert_int_equal(snic_solar_target_check(d->t), 0);
    uint64_t due = snic_solar_deadline_ns(d->c);
    if (d->letters == 0 && due != SNIC_NEVER)
        d->now = snic_max_u64(d->now, due);
}

static void duo_io(struct duo *d, struct snic_solar_io *io, uint8_t op, uint64_t lba,
                   uint32_t blocks, struct snic_iov *iov)
{
    memset(io, 0, sizeof(*io));
    io->op = op;
    io->lba = lba;
    io->blocks = blocks;
    io->iov = iov;
    io->iov_count = iov != NULL;
    assert_int_equal(snic_solar_submit(d->c, io, d->now), 0);
}

/* Writes, zeros, flushes and reads of several segments of one packet train give back what was
   written, and what never was reads as zeros. */
static void test_solar_write_then_read_same_bytes(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_io w, r, f;
    size_t size = 100 * SNIC_EBS_BLOCK_BYTES;
    unsigned char *out = malloc(size), *in = malloc(size);
    struct snic_iov wi = {out, size}, ri = {in, size};
    (void)state;
    duo_open(d);
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(i * 7 + i / 4096);
    memset(in, 0xff, size);
    duo_io(d, &w, SNIC_SOLAR_WRITE, 10, 100, &wi);
    duo_io(d, &f, SNIC_SOLAR_FLUSH, 0, 0, NULL);
    for (int i = 0; i < 200 && d->told[SNIC_SOLAR_DONE] < 2; i++)
        duo_turn(d, 0);
    assert_int_equal(d->told[SNIC_SOLAR_DONE], 2);
    assert_true(w.result == 0 && f.result == 0 && w.done_ns <= f.done_ns);
    duo_io(d, &r, SNIC_SOLAR_READ, 10, 100, &ri);
    for (int i = 0; i < 200 && d->told[SNIC_SOLAR_DONE] < 3; i++)
        duo_turn(d, 0);
    assert_int_equal(r.result, 0);
    assert_memory_equal(in, out, size);
    assert_int_equal(r.retries + w.retries, 0);
    duo_close(d);
    free(out);
    free(in);
}

/* A write that nobody acknowledged is fenced before the guest hears of an error. */
static void test_solar_write_given_up_fenced_first(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_stats s;
    struct snic_solar_io w;
    static unsigned char block[SNIC_EBS_BLOCK_BYTES];
    struct snic_iov iov = {block, sizeof(block)};
    (void)state;
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    duo_io(d, &w, SNIC_SOLAR_WRITE, 0, 1, &iov);
    while (d->now < w.submitted_ns + UINT64_C(60000000))
        duo_turn(d, 1);
    assert_int_equal(d->told[SNIC_SOLAR_DONE], 0);
    for (int i = 0; i < 300 && d->told[SNIC_SOLAR_DONE] < 1; i++)
        duo_turn(d, 0);
    snic_solar_get_stats(d->c, &s);
    assert_int_equal(d->told[SNIC_SOLAR_DONE], 1);
    assert_int_equal(w.result, SNIC_EIO);
    assert_true(s.fences == 1 && s.rerolls > 0);
    duo_close(d);
}

/* Epochs do not wrap, and 0 is none. */
static void test_solar_attach_epochs_used_up_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = 65536, .blocks = 512};
    (void)state;
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

/* Who does not know the token, or the id, is not believed, and nothing changes. */
static void test_solar_recv_forged_reset_and_ack_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_ebs_header h;
    struct snic_solar_stats s;
    unsigned char packet[256];
    (void)state;
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
    struct snic_solar_io w;
    static unsigned char block[SNIC_EBS_BLOCK_BYTES] = {1, 2, 3};
    struct snic_iov iov = {block, sizeof(block)};
    (void)state;
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    size_t size = snic_solar_target_memsize(&k);
    assert_int_equal(snic_solar_target_init(&d->t, d->tmem, size, &k, d->now), 0);
    duo_io(d, &w, SNIC_SOLAR_WRITE, 5, 1, &iov);
    for (int i = 0; i < 100 && d->told[SNIC_SOLAR_DONE] < 1; i++)
        duo_turn(d, 0);
    snic_solar_get_stats(d->c, &s);
    assert_int_equal(d->told[SNIC_SOLAR_DONE], 1);
    assert_true(w.result == 0 && s.resets >= 1);
    assert_memory_equal(d->store[5], block, sizeof(block));
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_write_then_read_same_bytes),
        cmocka_unit_test(test_solar_write_given_up_fenced_first),
        cmocka_unit_test(test_solar_attach_epochs_used_up_refused),
        cmocka_unit_test(test_solar_recv_forged_reset_and_ack_refused),
        cmocka_unit_test(test_solar_server_restarted_write_arrives),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
