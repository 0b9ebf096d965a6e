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
    struct snic_solar_io w, r, f;
    size_t size = 100 * SNIC_EBS_BLOCK_BYTES;
    unsigned char *out = malloc(size), *in = malloc(size);
    struct snic_iov wi = {out, size}, ri = {in, size};
    (void)state;
    memset(d, 0, sizeof(*d));
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
    memset(d, 0, sizeof(*d));
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

/* Who does not know the token, or the id, is not believed, and nothing changes. */
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
    struct snic_solar_io w;
    static unsigned char block[SNIC_EBS_BLOCK_BYTES] = {1, 2, 3};
    struct snic_iov iov = {block, sizeof(block)};
    (void)state;
    memset(d, 0, sizeof(*d));
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

/* A fence refuses all smaller versions of its segment, and who is refused so believes the lease to
   be another's: it waits for those that are still under way, of an earlier write and of its own. */
static void test_solar_fence_waits_for_those_who_hope(void **state)
{
    struct duo *d = &duo;
    size_t size = 100 * SNIC_EBS_BLOCK_BYTES;
    unsigned char *bytes = calloc(1, size);
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct snic_solar_io before, w;
        struct snic_iov one = {bytes, SNIC_EBS_BLOCK_BYTES}, iov = {bytes, size};
        memset(d, 0, sizeof(*d));
        d->o.deadline_ns = UINT64_C(1000000000);
        duo_open(d);
        d->hold = own ? 200 : 301;
        d->refuse = 101;
        d->status = SNIC_EBS_IO;
        duo_io(d, &before, SNIC_SOLAR_WRITE, 300, 1, &one);
        duo_io(d, &w, SNIC_SOLAR_WRITE, 100, 100, &iov);
        for (int i = 0; i < 60; i++)
            duo_turn(d, 0);
        assert_true(d->now < before.submitted_ns + d->o.deadline_ns);
        assert_int_equal(d->requests > 0, 1);
        assert_int_equal(d->told[SNIC_SOLAR_DONE], own);
        assert_int_equal(d->fences, 0);
        d->hold = 0;
        duo_until(d, 2);
        assert_true(d->fences > 0);
        assert_int_equal(d->told[SNIC_SOLAR_LEASE], 0);
        assert_true(before.result == 0 && w.result == SNIC_EIO);
        duo_close(d);
    }
    free(bytes);
}

/* What this side does not know is a refusal, not a damaged device. */
static void test_solar_status_of_a_later_version(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_io w;
    static unsigned char block[SNIC_EBS_BLOCK_BYTES];
    struct snic_iov iov = {block, sizeof(block)};
    (void)state;
    memset(d, 0, sizeof(*d));
    duo_open(d);
    d->status = SNIC_EBS_STATUS_END + 7;
    duo_io(d, &w, SNIC_SOLAR_WRITE, 0, 1, &iov);
    duo_until(d, 1);
    assert_int_equal(w.result, SNIC_EINVAL);
    duo_close(d);
}

/* An RPC may cost four turns of its disk: they are taken at once where nobody else is there to take
   them. All blocks of a read come together here, so that nothing else wakes the disk. */
static void test_solar_large_io_goes_on_by_itself(void **state)
{
    struct duo *d = &duo;
    struct snic_solar_io r;
    size_t size = 256 * SNIC_EBS_BLOCK_BYTES;
    unsigned char *bytes = calloc(1, size);
    struct snic_iov iov = {bytes, size};
    (void)state;
    memset(d, 0, sizeof(*d));
    d->o.window_start = 64;
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d, 0);
    duo_io(d, &r, SNIC_SOLAR_READ, 0, 256, &iov);
    duo_until(d, 1);
    assert_int_equal(r.result, 0);
    duo_close(d);
    free(bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_write_then_read_same_bytes),
        cmocka_unit_test(test_solar_write_given_up_fenced_first),
        cmocka_unit_test(test_solar_attach_epochs_used_up_refused),
        cmocka_unit_test(test_solar_recv_forged_reset_and_ack_refused),
        cmocka_unit_test(test_solar_server_restarted_write_arrives),
        cmocka_unit_test(test_solar_fence_waits_for_those_who_hope),
        cmocka_unit_test(test_solar_status_of_a_later_version),
        cmocka_unit_test(test_solar_large_io_goes_on_by_itself),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
