/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The order where not all can go: the older of a write and a read, the older of what is sent
 * again, and others than one that never gets through.
 */
#include "support.h"
#include "test_solar_util.h"

#define SECOND UINT64_C(1000000000)

enum { WRITES = 14 };

static unsigned char data[SNIC_EBS_BLOCK_BYTES], back[SNIC_EBS_BLOCK_BYTES];
static struct snic_iov data_iov = {data, sizeof(data)}, back_iov = {back, sizeof(back)};
static struct snic_ebs_io w[WRITES];

/* Paths with a window of a block, a server of so many (0: more than enough), and the segment's
   place known. */
static struct duo *turns_open(uint32_t paths, uint32_t rx_blocks)
{
    memset(&duo, 0, sizeof(duo));
    duo.o.deadline_ns = 300 * SECOND;
    duo.o.paths = paths;
    duo.o.window_start = 1;
    duo.k.rx_blocks = rx_blocks;
    duo_open(&duo);
    duo_io(&duo, &w[0], SNIC_EBS_IO_WRITE, 0, 1, &data_iov);
    duo_until(&duo, 1);
    return &duo;
}

static int turns_done(const struct snic_ebs_io *io)
{
    return io->done_ns != 0;
}

/* Another write for each that is done: there are always more than the window takes, for its answers
   are late. @return how many were done */
static uint32_t turns_more(struct duo *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < WRITES; i++) {
        if (!turns_done(&w[i]))
            continue;
        assert_int_equal(w[i].result, 0);
        duo_io(d, &w[i], SNIC_EBS_IO_WRITE, i, 1, &data_iov);
        n++;
    }
    return n;
}

/* A read waits for the writes that were there before it, not for those that come after. */
static void test_solar_turns_writes_without_end_a_read_goes_on(void **state)
{
    struct duo *d = turns_open(1, 0);
    struct snic_ebs_io read;
    uint32_t writes = 0;
    (void)state;
    for (uint32_t i = 1; i < WRITES; i++)
        duo_io(d, &w[i], SNIC_EBS_IO_WRITE, i, 1, &data_iov);
    for (uint32_t i = 0; i < 200; i++) { /* until the window is as narrow as it gets */
        d->now += d->letters != 0 ? SECOND / 500 : 0;
        duo_turn(d, 0);
        (void)turns_more(d);
    }
    duo_io(d, &read, SNIC_EBS_IO_READ, 0, 1, &back_iov);
    for (uint32_t i = 0; i < 2000 && !turns_done(&read); i++) {
        d->now += d->letters != 0 ? SECOND / 500 : 0;
        duo_turn(d, 0);
        writes += turns_more(d);
    }
    assert_true(turns_done(&read) && read.result == 0);
    assert_in_range(writes, 1, 2 * WRITES);
    duo_until(d, d->acts[SNIC_EBS_ACT_DONE] + WRITES);
    duo_close(d);
}

/* An older write that may not go where there is room gives its slot to none but the oldest. */
static void test_solar_turns_an_older_write_elsewhere_a_read_goes_on(void **state)
{
    struct duo *d = turns_open(2, 0);
    struct snic_ebs_io held, lost, read;
    uint32_t writes = 0, dropped = 0;
    (void)state;
    d->hold = 100 + 1; /* its path is full */
    duo_io(d, &held, SNIC_EBS_IO_WRITE, 100, 1, &data_iov);
    duo_turn(d, 0);
    duo_io(d, &lost, SNIC_EBS_IO_WRITE, 101, 1, &data_iov);
    for (uint32_t i = 0; i < 20 && lost.retries == 0; i++) {
        duo_turn(d, 0);
        for (uint32_t k = 0; k < d->letters; k++)
            if (d->bag[k].to_target && d->bag[k].bytes[1] == SNIC_EBS_WRITE) {
                d->bag[k].size = 0;
                dropped++;
            }
    }
    assert_true(dropped > 0 && lost.retries > 0 && !turns_done(&lost));
    for (uint32_t i = 0; i < WRITES - 1; i++)
        duo_io(d, &w[i], SNIC_EBS_IO_WRITE, i, 1, &data_iov);
    duo_io(d, &read, SNIC_EBS_IO_READ, 0, 1, &back_iov);
    for (uint32_t i = 0; i < 2000 && !turns_done(&read); i++) {
        duo_turn(d, 0);
        for (uint32_t k = 0; k < WRITES - 1; k++)
            if (turns_done(&w[k])) {
                duo_io(d, &w[k], SNIC_EBS_IO_WRITE, k, 1, &data_iov);
                writes++;
            }
    }
    assert_true(turns_done(&read) && !turns_done(&held) && !turns_done(&lost));
    assert_in_range(writes, 1, 2 * WRITES);
    d->hold = 0;
    duo_until(d, d->acts[SNIC_EBS_ACT_DONE] + WRITES - 1 + 2);
    duo_close(d);
}

/* The server takes one write at a time, and has one: zeros wait for it as data do, a read does
   not. */
static void test_solar_turns_no_credit_for_zeros_a_read_goes_on(void **state)
{
    (void)state;
    for (int op = SNIC_EBS_IO_WRITE; op <= SNIC_EBS_IO_TRIM; op++) {
        struct duo *d = turns_open(1, 1);
        struct snic_ebs_io held, waits, read;
        int data_too = op == SNIC_EBS_IO_WRITE;
        d->hold = 100 + 1;
        duo_io(d, &held, SNIC_EBS_IO_WRITE, 100, 1, &data_iov);
        duo_turn(d, 0);
        duo_io(d, &waits, (uint8_t)op, 101, 1, data_too ? &data_iov : NULL);
        duo_io(d, &read, SNIC_EBS_IO_READ, 0, 1, &back_iov);
        duo_until(d, 2);
        assert_true(turns_done(&read) && !turns_done(&held) && !turns_done(&waits));
        d->hold = 0;
        duo_until(d, 4);
        duo_close(d);
    }
}

/* Writes of one block that come one after the other, and are all lost for a while. */
static void turns_lose(struct duo *d, uint64_t while_ns)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        duo_io(d, &w[i], SNIC_EBS_IO_WRITE, i, 1, &data_iov);
        duo_turn(d, 1);
    }
    for (uint64_t until = d->now + while_ns; d->now < until;)
        duo_turn(d, 1);
}

/* Those are done in the order of arrival, as long as none is lost too often for that. */
static void test_solar_turns_sent_again_the_oldest_first(void **state)
{
    (void)state;
    for (uint64_t ms = 1; ms <= 20; ms++) {
        struct duo *d = turns_open(2, 0);
        turns_lose(d, ms * SECOND / 1000);
        duo_until(d, 1 + WRITES);
        for (uint32_t i = 1; i < WRITES; i++)
            assert_true(w[i - 1].done_ns <= w[i].done_ns);
        duo_close(d);
    }
}

/* Something on the way swallows packets of one RPC, and one packet of all others first. */
static void turns_swallow(struct duo *d, uint32_t done)
{
    for (uint32_t n = 0; n < 10000 && d->acts[SNIC_EBS_ACT_DONE] < done; n++) {
        duo_turn(d, 0);
        for (uint32_t i = 0; i < d->letters; i++) {
            struct letter *l = &d->bag[i];
            if (l->to_target && l->bytes[1] == SNIC_EBS_WRITE &&
                (snic_get_be64(l->bytes + 88) < 32 || l->bytes[22] == 0))
                l->size = 0;
        }
    }
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], done);
}

/* It is more than all windows: the others have their turn. */
static void test_solar_turns_one_never_gets_through_others_do(void **state)
{
    static unsigned char many[32 * SNIC_EBS_BLOCK_BYTES];
    struct snic_iov many_iov = {many, sizeof(many)};
    struct duo *d = turns_open(1, 0);
    (void)state;
    duo_io(d, &w[0], SNIC_EBS_IO_WRITE, 0, 32, &many_iov);
    for (uint32_t i = 1; i < WRITES; i++)
        duo_io(d, &w[i], SNIC_EBS_IO_WRITE, 32 + i, 1, &data_iov);
    turns_swallow(d, WRITES); /* one of turns_open, and all but one */
    for (uint32_t i = 0; i < 10; i++) {
        duo_io(d, &w[1], SNIC_EBS_IO_WRITE, 33, 1, &data_iov);
        turns_swallow(d, WRITES + 1 + i);
    }
    assert_true(!turns_done(&w[0]));
    duo_until(d, WRITES + 11);
    assert_int_equal(w[0].result, 0);
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_turns_writes_without_end_a_read_goes_on),
        cmocka_unit_test(test_solar_turns_an_older_write_elsewhere_a_read_goes_on),
        cmocka_unit_test(test_solar_turns_no_credit_for_zeros_a_read_goes_on),
        cmocka_unit_test(test_solar_turns_sent_again_the_oldest_first),
        cmocka_unit_test(test_solar_turns_one_never_gets_through_others_do),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
