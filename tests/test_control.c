/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The control plane, each promise once: disks, leases, places, moves, QoS, what is refused, and
 * what survives.
 */
#include <stdlib.h>

#include "ctlfix.h"
#include "support.h"

static struct ctlfix fix;
static unsigned char *buffer;

static int setup(void **state)
{
    (void)state;
    buffer = aligned_alloc(4096, 8u << 20);
    assert_non_null(buffer);
    ctlfix_start(&fix, support_seed(), 3);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ctlfix_check(&fix);
    ctlfix_end(&fix);
    free(buffer);
    return 0;
}

static void message(struct snic_control_msg *m, uint32_t type, const char *name)
{
    memset(m, 0, sizeof(*m));
    m->type = (uint8_t)type;
    memcpy(m->name, name, strlen(name));
}

static struct snic_control_item where(uint32_t vd, uint64_t segment)
{
    struct snic_control_item it;
    assert_int_equal(snic_control_find(fix.ctl, vd, segment, &it), 0);
    return it;
}

/* A disk, attached by client 0, all of it written with 7. */
static void attached(void)
{
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    memset(buffer, 7, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8u << 20, buffer), 8u << 20);
}

static void assert_disk_is(int value)
{
    memset(buffer, 0xee, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, fix.holder[0]->c->index, 0, SNIC_IO_READ, 0, 8u << 20, buffer),
                     8u << 20);
    for (uint32_t i = 0; i < 8u << 20; i++)
        if (buffer[i] != value)
            fail_msg("byte %u is %d, not %d", i, buffer[i], value);
}

static void test_control_disk_is_placed_on_all_servers(void **state)
{
    uint32_t seen = 0;
    (void)state;
    attached();
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        seen |= 1u << where(1, i).server;
    assert_int_equal(seen, 2 | 4 | 8);
    assert_disk_is(7);
    assert_int_equal(fix.client[0].wanting, 0);
}

static void test_control_nothing_is_placed_before_it_is_asked_for(void **state)
{
    struct snic_control_stats s;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.segments, 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 2u << 20, 4096, buffer), 4096);
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.segments, 1);
    assert_int_equal(where(1, 1).gen, snic_volume_gen(1, 0));
}

static void test_control_move_keeps_what_was_written(void **state)
{
    (void)state;
    attached();
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++) {
        uint32_t to = where(1, i).server % 3;
        assert_int_equal(ctlfix_move(&fix, 0, i, to), 0);
        assert_int_equal(where(1, i).server, ctlfix_id(&fix, to));
        assert_true(where(1, i).gen > snic_volume_gen(1, 0));
    }
    assert_disk_is(7);
    struct snic_segments_stat stat;
    uint32_t copies = 0;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < CTLFIX_SEGMENTS; k++)
            copies += snic_segments_find(snic_volume_server_store(fix.server[i].s),
                                         snic_control_seg_id(1, k), &stat) == 0;
    assert_int_equal(copies, CTLFIX_SEGMENTS); /* the old ones are gone */
    assert_int_equal(fix.events[SNIC_CONTROL_MOVED], CTLFIX_SEGMENTS);
}

static void test_control_second_client_waits_or_takes(void **state)
{
    (void)state;
    attached();
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), SNIC_EBUSY);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), 0);
    assert_int_equal(fix.client[1].guest[0].lease, 2);
    ctlfix_run(&fix, 50 * CTLFIX_MS);
    assert_int_equal(fix.client[0].guest[0].lost, SNIC_ESTALE);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EROFS);
    assert_disk_is(7);
}

static void test_control_lease_goes_on_after_the_catalog_died(void **state)
{
    (void)state;
    attached();
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    memset(buffer, 8, 8u << 20); /* the map is known */
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8u << 20, buffer), 8u << 20);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), SNIC_EBUSY); /* its holder may come back */
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), SNIC_EBUSY); /* it has */
    assert_int_equal(fix.client[0].links, 2);
    assert_int_equal(ctlfix_move(&fix, 0, 0, where(1, 0).server % 3), 0);
    assert_disk_is(8);
}

static void test_control_detached_disk_is_free(void **state)
{
    (void)state;
    attached();
    snic_io_close(fix.client[0].guest[0].io);
    fix.client[0].guest[0].io = NULL;
    snic_control_client_detach(fix.client[0].cc, 0);
    ctlfix_client_start(&fix, 1);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), 0);
    assert_disk_is(7);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_ready(&fix);
    ctlfix_run(&fix, 200 * CTLFIX_MS);
    assert_disk_is(7);
}

static void test_control_qos_reaches_the_holder(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    message(&m, SNIC_CONTROL_SET_QOS, "root");
    m.qos.bytes_per_second = 1u << 20;
    assert_int_equal(ctlfix_ask(&fix, &m), 0);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(fix.client[0].guest[0].qos, 1);
    assert_int_equal(fix.client[0].guest[0].rate, 1u << 20);
    uint64_t before = snic_world_now(fix.world);
    assert_disk_is(7); /* 8 MiB at once, as debt, which the next one waits for */
    assert_disk_is(7);
    assert_true(snic_world_now(fix.world) - before > 5000 * CTLFIX_MS);
    ctlfix_client_kill(&fix, 0);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    message(&m, SNIC_CONTROL_DISKS, "");
    assert_int_equal(ctlfix_ask(&fix, &m), 0);
    assert_int_equal(fix.items, 1);
    assert_int_equal(fix.last.qos.bytes_per_second, 1u << 20);
    assert_int_equal(fix.last.lease, 1);
    assert_int_equal(fix.last.value, CTLFIX_SEGMENTS);
}

static void test_control_refuses_what_cannot_be(void **state)
{
    struct snic_control_msg m;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    assert_int_equal(ctlfix_create(&fix, 0), SNIC_EEXIST);
    message(&m, SNIC_CONTROL_CREATE, "other");
    m.bytes = 4097;
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_EINVAL);
    m.bytes = 0;
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_EINVAL);
    message(&m, SNIC_CONTROL_DELETE, "other");
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_ENOENT);
    message(&m, SNIC_CONTROL_REVOKE, "other");
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_ENOENT);
    ctlfix_move_msg(&m, 0, 0, 1);
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_ENOENT); /* not placed */
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 1, 0), SNIC_ENOENT);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 4096, buffer), 4096);
    ctlfix_move_msg(&m, 0, 0, 77);
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_ENOENT);
    ctlfix_move_msg(&m, 0, 0, where(1, 0).server);
    assert_int_equal(ctlfix_ask(&fix, &m), 0); /* it is there */
    message(&m, SNIC_CONTROL_DELETE, "root");
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_EBUSY);
    uint32_t from = where(1, 0).server - 1, to = (from + 1) % 3;
    uint32_t id = ctlfix_id(&fix, to);
    ctlfix_server_kill(&fix, to, 1);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    ctlfix_move_msg(&m, 0, 0, id);
    assert_int_equal(ctlfix_ask(&fix, &m), SNIC_EHOSTUNREACH);
}

static void test_control_deleted_disk_leaves_nothing(void **state)
{
    struct snic_control_msg m;
    struct snic_segments_info info;
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    ctlfix_server_kill(&fix, 2, 1); /* this one hears of it later */
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    message(&m, SNIC_CONTROL_DELETE, "root");
    assert_int_equal(ctlfix_ask(&fix, &m), 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    ctlfix_server_start(&fix, 2);
    ctlfix_ready(&fix);
    for (uint32_t i = 0; i < 3; i++) {
        snic_segments_inspect(snic_volume_server_store(fix.server[i].s), &info);
        assert_int_equal(info.segments, 2); /* the server's own, and this protocol's */
    }
    assert_int_equal(ctlfix_create(&fix, 0), 0); /* the name, not the number */
    assert_int_equal(fix.call_value, 2);
}

static void test_control_revoked_holder_is_refused(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    message(&m, SNIC_CONTROL_REVOKE, "root");
    assert_int_equal(ctlfix_ask(&fix, &m), 0);
    assert_int_equal(fix.call_value, 2);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(fix.client[0].guest[0].lost, SNIC_ESTALE);
    ctlfix_client_kill(&fix, 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(fix.client[0].guest[0].lease, 3);
    assert_disk_is(7);
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_control_disk_is_placed_on_all_servers),
        T(test_control_nothing_is_placed_before_it_is_asked_for),
        T(test_control_move_keeps_what_was_written),
        T(test_control_second_client_waits_or_takes),
        T(test_control_lease_goes_on_after_the_catalog_died),
        T(test_control_detached_disk_is_free),
        T(test_control_qos_reaches_the_holder),
        T(test_control_refuses_what_cannot_be),
        T(test_control_deleted_disk_leaves_nothing),
        T(test_control_revoked_holder_is_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
