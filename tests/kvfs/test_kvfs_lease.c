/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What may be cached outside of the engine, and until when. */
#include "test_kvfs_many.h"

#include <string.h>

enum { LEASE_SECOND = 1000000000 };

static uint64_t lease_valid(struct many *y, uint32_t i)
{
    return snic_kvfs_valid_until_ns(y->t[i].k);
}

/* The next thing happens at engine 1, or its time passes. */
static void lease_next(struct many *y)
{
    if (many_step(y))
        return;
    uint64_t next = snic_kvfs_deadline_ns(y->t[1].k);
    assert_true(next != SNIC_NEVER);
    many_time(y, next > y->now.mono_ns ? next - y->now.mono_ns : 0);
}

/*
 * A session that is alone is stopped at some moment. What a kernel has cached by then has ended
 * before the newcomer, which declares it dead, serves its first request.
 */
static void test_kvfs_lease_stopped_alone_validity_ends_first(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= support_rounds(40, 2000); seed++) {
        struct many y;
        struct snic_fsop mount;
        many_open(&y, 2, MANY_CAPS | (seed % 2 ? SNIC_KV_CAP_ATOMIC_MULTI : 0), seed);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        many_pass(&y, 1 + snic_rng_below(&y.rng, 3 * (uint64_t)LEASE_SECOND));
        uint64_t until = lease_valid(&y, 0);
        assert_true(until > y.now.mono_ns);
        assert_true(until <= y.now.mono_ns + y.t[0].o.lease_ns / 2);
        y.paused = 1;
        kvt_req(&y.t[1], &mount, SNIC_FSOP_MOUNT, 0, NULL);
        many_start(&y, 1, &mount);
        while (snic_kvfs_poll_done(y.t[1].k) == NULL)
            lease_next(&y);
        assert_int_equal(mount.result, 0);
        assert_true(y.now.mono_ns >= until + y.t[0].o.lease_ns / 2 - LEASE_SECOND);
        y.paused = 0;
        many_pass(&y, 2 * (uint64_t)LEASE_SECOND);
        assert_int_equal(lease_valid(&y, 0), 0); /* dead */
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), SNIC_EIO);
        many_close(&y);
    }
}

/* Each heartbeat moves it on, so that a session that runs never has none. */
static void test_kvfs_lease_alone_validity_moves_on(void **state)
{
    struct many y;
    (void)state;
    many_open(&y, 1, MANY_CAPS, 3);
    assert_int_equal(lease_valid(&y, 0), 0);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    for (uint32_t i = 0; i < 30; i++) {
        many_pass(&y, LEASE_SECOND);
        assert_true(lease_valid(&y, 0) >=
                    y.now.mono_ns + y.t[0].o.lease_ns / 2 - 2 * (uint64_t)LEASE_SECOND);
    }
    /* No other handle, and none without this session's consent: no limit of time. */
    snic_kvfs_set_sole(y.t[0].k, 1);
    many_pass(&y, LEASE_SECOND);
    assert_true(lease_valid(&y, 0) == SNIC_NEVER);
    snic_kvfs_set_sole(y.t[0].k, 0);
    assert_true(lease_valid(&y, 0) != SNIC_NEVER);
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    assert_int_equal(lease_valid(&y, 0), 0);
    many_close(&y);
}

/* Beside another session nothing is cached outside, until that one has left. */
static void test_kvfs_lease_shared_no_validity(void **state)
{
    struct many y;
    (void)state;
    many_open(&y, 2, MANY_CAPS, 4);
    many_mount(&y);
    assert_int_equal(lease_valid(&y, 0), 0);
    assert_int_equal(lease_valid(&y, 1), 0);
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    many_pass(&y, 3 * (uint64_t)LEASE_SECOND);
    assert_true(lease_valid(&y, 0) > y.now.mono_ns);
    many_close(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_lease_stopped_alone_validity_ends_first),
        cmocka_unit_test(test_kvfs_lease_alone_validity_moves_on),
        cmocka_unit_test(test_kvfs_lease_shared_no_validity),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
