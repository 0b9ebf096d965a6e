/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The guarantees of the control plane, each once: disks, leases, placement, moves, limits, refused
 * requests, and what survives a restart.
 */
#include "test_control_util.h"

static int over;

static void io_over(struct snic_io_req *r)
{
    (void)r;
    over = 1;
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

static void test_control_disk_placed_round_robin(void **state)
{
    uint32_t seen = 0;
    (void)state;
    attached();
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        seen |= 1u << where(1, i).server;
    assert_int_equal(seen, 2 | 4 | 8);
    assert_disk_is(7);
    assert_int_equal(fix.client[0].lookups_failed, 0);
}

static void test_control_move_keeps_written_data(void **state)
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

/* During a move no two servers have the segment in the same generation, and the destination
   never has one that clients have from the source: a server that misses the last command refuses
   later requests. */
static void test_control_move_generation_names_one_server(void **state)
{
    uint32_t both = 0;
    (void)state;
    attached();
    for (uint32_t round = 0; round < 6; round++) {
        struct snic_control_msg m;
        struct snic_control_item from = where(1, 0);
        ctlfix_move_msg(&m, 0, 0, ctlfix_id(&fix, from.server % 3));
        ctlfix_request_begin(&fix, &m);
        while (!fix.call_done) {
            uint32_t gen[3] = {0, 0, 0};
            assert_int_equal(snic_world_step(fix.world), 1);
            for (uint32_t i = 0; i < 3; i++) {
                struct snic_segments_stat st;
                if (snic_segments_find(snic_volume_server_store(fix.server[i].s),
                                       snic_control_seg_id(1, 0), &st) != 0)
                    continue;
                gen[i] = st.gen;
                for (uint32_t k = 0; k < i; k++) {
                    both += gen[k] != 0;
                    assert_true(gen[k] != gen[i]);
                }
                struct snic_control_item location = where(1, 0);
                if (location.server != ctlfix_id(&fix, i))
                    assert_true(gen[i] != location.gen);
            }
        }
        assert_int_equal(fix.call_status, 0);
    }
    assert_true(both > 20);
}

static void test_control_attach_held_disk_refused_or_taken(void **state)
{
    (void)state;
    attached();
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), SNIC_EBUSY);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), 0);
    assert_int_equal(fix.client[1].handle[0].lease, 2);
    ctlfix_run(&fix, 50 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].lost, SNIC_ESTALE);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EROFS);
    assert_disk_is(7);
}

static void test_control_lease_survives_catalog_restart(void **state)
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

static void test_control_detach_frees_disk(void **state)
{
    (void)state;
    attached();
    snic_io_close(fix.client[0].handle[0].io);
    fix.client[0].handle[0].io = NULL;
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

static void test_control_qos_change_reaches_holder(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    message(&m, SNIC_CONTROL_SET_QOS, "root");
    m.qos.bytes_per_second = 1u << 20;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].qos, 1);
    assert_int_equal(fix.client[0].handle[0].rate, 1u << 20);
    uint64_t before = snic_world_now(fix.world);
    assert_disk_is(7); /* 8 MiB at once, as debt, which the next one waits for */
    assert_disk_is(7);
    assert_true(snic_world_now(fix.world) - before > 5000 * CTLFIX_MS);
    ctlfix_client_kill(&fix, 0);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    message(&m, SNIC_CONTROL_DISKS, "");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(fix.items, 1);
    assert_int_equal(fix.last.qos.bytes_per_second, 1u << 20);
    assert_int_equal(fix.last.lease, 1);
    assert_int_equal(fix.last.value, CTLFIX_SEGMENTS);
}

static void create_named(const char *name, int expected)
{
    struct snic_control_msg m;
    message(&m, SNIC_CONTROL_CREATE, name);
    m.bytes = CTLFIX_BLOCKS * 4096;
    int r = ctlfix_request(&fix, &m);
    if (r != expected)
        fail_msg("%s: %s", name, snic_errname(r));
}

static void test_control_invalid_requests_refused(void **state)
{
    struct snic_control_msg m;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    assert_int_equal(ctlfix_create(&fix, 0), SNIC_EEXIST);
    message(&m, SNIC_CONTROL_CREATE, "other");
    m.bytes = 4097;
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EINVAL);
    m.bytes = 0;
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EINVAL);
    message(&m, SNIC_CONTROL_DELETE, "other");
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_ENOENT);
    message(&m, SNIC_CONTROL_REVOKE, "other");
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_ENOENT);
    ctlfix_move_msg(&m, 0, 0, 1);
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_ENOENT); /* not placed */
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 1, 0), SNIC_ENOENT);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    ctlfix_move_msg(&m, 0, 0, 77);
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_ENOENT);
    ctlfix_move_msg(&m, 0, 0, where(1, 0).server);
    assert_int_equal(ctlfix_request(&fix, &m), 0); /* it is there */
    message(&m, SNIC_CONTROL_DELETE, "root");
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EBUSY);
    uint32_t from = where(1, 0).server - 1, to = (from + 1) % 3;
    uint32_t id = ctlfix_id(&fix, to);
    ctlfix_server_kill(&fix, to, 1);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    ctlfix_move_msg(&m, 0, 0, id);
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EHOSTUNREACH);
}

static void test_control_delete_removes_segments(void **state)
{
    struct snic_control_msg m;
    struct snic_segments_info info;
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    ctlfix_server_kill(&fix, 2, 1); /* this one hears of it later */
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    message(&m, SNIC_CONTROL_DELETE, "root");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
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

static void test_control_revoke_ends_lease(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    message(&m, SNIC_CONTROL_REVOKE, "root");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(fix.call_value, 2);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].lost, SNIC_ESTALE);
    ctlfix_client_kill(&fix, 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(fix.client[0].handle[0].lease, 3);
    assert_disk_is(7);
}

/* The client that lost a disk continues to write: no write is executed. */
static void test_control_lost_lease_late_writes_refused(void **state)
{
    struct snic_net_link slow = {.delay_min_ns = 5000, .delay_max_ns = 30000};
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    ctlfix_load(&fix, 0, 0, 100);
    assert_int_equal(ctlfix_settle(&fix, 20000 * CTLFIX_MS), 0);
    slow.reorder_ppm = 700000; /* many of its packets come long after they left */
    slow.reorder_ns = 40 * CTLFIX_MS;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(snic_net_fabric_link(fix.fabric, CTLFIX_CLIENT, i, &slow), 0);
    snic_net_fabric_partition(fix.fabric, CTLFIX_CTL, CTLFIX_CLIENT, 1); /* deaf */
    struct snic_net_link far = {.delay_min_ns = 15 * CTLFIX_MS, .delay_max_ns = 20 * CTLFIX_MS};
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(snic_net_fabric_link(fix.fabric, CTLFIX_CTL, i, &far), 0);
    ctlfix_load(&fix, 0, 0, 100000);
    ctlfix_client_start(&fix, 1);
    for (uint32_t i = 0; i < 6; i++) {
        ctlfix_run(&fix, 5 * CTLFIX_MS);
        uint64_t before = fix.client[0].handle[0].begun;
        if (i == 0)
            assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), 0);
        ctlfix_audit(&fix, 0); /* what is read once */
        ctlfix_run(&fix, 50 * CTLFIX_MS);
        ctlfix_audit(&fix, 0); /* is there again */
        assert_true(i > 0 || fix.client[0].handle[0].begun >= before);
    }
    fix.client[0].handle[0].wanted = 0;
    struct snic_volume_server_stats s;
    uint64_t refused = 0;
    for (uint32_t i = 0; i < 3; i++) {
        snic_volume_server_get_stats(fix.server[i].s, &s);
        refused += s.no_lease + s.stale;
    }
    assert_true(refused > 0);
    ctlfix_client_kill(&fix, 0);
}

static void test_control_server_reconnects_leases_raised(void **state)
{
    struct snic_control_item it;
    struct snic_segments_stat stat;
    (void)state;
    attached();
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_ALL);
    ctlfix_client_kill(&fix, 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), 0); /* without it */
    ctlfix_server_start(&fix, 1);
    ctlfix_ready(&fix);
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++) {
        it = where(1, i);
        if (it.server != ctlfix_id(&fix, 1))
            continue;
        assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[1].s),
                                            snic_control_seg_id(1, i), &stat),
                         0);
        assert_int_equal(stat.gen >> 16, 2);
    }
    assert_disk_is(7);
}

/* A late refusal makes a client look up a location that it already has: the lookup must be
   answered. */
static void test_control_lookup_known_location_sent_again(void **state)
{
    struct snic_control_client_stats s;
    (void)state;
    attached();
    snic_control_client_map(fix.client[0].cc, 0, 0, snic_volume_gen(1, 0));
    ctlfix_run(&fix, 20 * CTLFIX_MS);
    snic_control_client_get_stats(fix.client[0].cc, &s);
    assert_int_equal(s.lookups_pending, 0);
}

static void test_control_leases_used_up_reissue(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    message(&m, SNIC_CONTROL_REVOKE, "root");
    for (uint32_t i = 2; i <= SNIC_CONTROL_LEASE_MAX + 1; i++) {
        assert_int_equal(ctlfix_request(&fix, &m), 0);
        assert_int_equal(fix.call_value, i);
    }
    assert_int_equal(ctlfix_request(&fix, &m), 0); /* it has no holder, and cannot get one */
    assert_int_equal(fix.call_value, SNIC_CONTROL_LEASE_MAX + 1);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), SNIC_EOVERFLOW);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 500 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), SNIC_EOVERFLOW);
    struct snic_control_stats s;
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.disks, 1); /* the log went round many times */
    assert_int_equal(s.segments, CTLFIX_SEGMENTS);
    ctlfix_ready(&fix);
    message(&m, SNIC_CONTROL_REISSUE, "root");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(fix.call_value, 2); /* it is another disk */
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(fix.client[0].handle[0].lease, 1);
    assert_disk_is(7);
    memset(buffer, 9, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8u << 20, buffer), 8u << 20);
    assert_disk_is(9);
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.disks, 1);
    assert_int_equal(s.segments, CTLFIX_SEGMENTS);
}

static void test_control_store_of_another_catalog_refused(void **state)
{
    struct snic_disk *old, *other;
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = 2u << 20};
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    assert_int_equal(snic_disk_clone(fix.disk, &old), 0);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 500 * CTLFIX_MS); /* servers have seen incarnation 2 */
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    struct snic_disk *mine = fix.disk;
    assert_int_equal(snic_disk_open(&other, &d), 0);
    fix.disk = other;
    fix.seed += 1000;
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(fix.server[i].ready, 0);
        assert_int_equal(fix.server[i].refused, SNIC_EPERM);
    }
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    snic_disk_close(other);
    fix.disk = mine;
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    ctlfix_ready(&fix);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    fix.disk = old; /* a copy from before */
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(fix.server[i].refused, SNIC_ESTALE);
    snic_disk_close(mine);
}

/* An older copy of the catalog is restored. A server with a later state refuses it, and deletes
   nothing. Then the newest state is restored. */
static void put_back(struct snic_disk *old)
{
    struct snic_disk *mine = fix.disk;
    uint32_t refused = 0, copies = 0;
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    fix.disk = old;
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    for (uint32_t i = 0; i < 3; i++)
        refused += fix.server[i].refused == SNIC_ESTALE;
    assert_int_equal(refused, 3);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    fix.disk = mine;
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    ctlfix_ready(&fix);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < CTLFIX_SEGMENTS; k++) {
            struct snic_segments_stat st;
            copies += snic_segments_find(snic_volume_server_store(fix.server[i].s),
                                         snic_control_seg_id(1, k), &st) == 0;
        }
    assert_int_equal(copies, CTLFIX_SEGMENTS);
    snic_disk_close(old);
}

static void test_control_restored_catalog_before_lease_refused(void **state)
{
    struct snic_disk *old;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    assert_int_equal(snic_disk_clone(fix.disk, &old), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    memset(buffer, 7, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8u << 20, buffer), 8u << 20);
    ctlfix_client_kill(&fix, 0);
    put_back(old);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), 0);
    memset(buffer, 0, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 8u << 20, buffer), 8u << 20);
    for (uint32_t i = 0; i < 8u << 20; i++)
        assert_true(buffer[i] == 7);
}

static void test_control_restored_catalog_before_move_refused(void **state)
{
    struct snic_disk *old;
    (void)state;
    attached();
    assert_int_equal(snic_disk_clone(fix.disk, &old), 0);
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        assert_int_equal(ctlfix_move(&fix, 0, i, where(1, i).server % 3), 0);
    put_back(old);
    assert_disk_is(7);
}

/* ---- Records written without the catalog ---- */

static struct forged {
    int opened;
    uint64_t durable, ts;
    struct snic_wal_record disk[2], node;
    unsigned char bytes[3][512];
} forged;

static void forged_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    (void)ctx;
    (void)report;
    assert_int_equal(result, 0);
    forged.opened = 1;
}

static void forged_found(void *ctx, const struct snic_wal_record *r)
{
    (void)ctx;
    forged.ts = r->ts > forged.ts ? r->ts : forged.ts;
    uint32_t vd = (uint32_t)r->key.w[0];
    if (r->key.w[0] >> 56 == 2) { /* a server */
        forged.node = *r;
        memcpy(forged.bytes[2], r->bytes, r->length);
    }
    if (r->length > 100 && (vd == 1 || vd == 3)) {
        forged.disk[vd / 2] = *r;
        memcpy(forged.bytes[vd / 2], r->bytes, r->length);
    }
}

static void forged_durable(void *ctx, uint64_t up_to)
{
    (void)ctx;
    forged.durable = up_to;
}

static void forged_failed(void *ctx, int error)
{
    (void)ctx;
    fail_msg("the log is dead: %d", error);
}

/* Disk 2 has been reissued from disk 1, disk 4 from disk 3, and the catalog died before these
   were deleted; or @node: a server has an address that cannot be. */
static void forge(int node)
{
    static const struct snic_wal_events ev = {.opened = forged_opened,
                                              .found = forged_found,
                                              .durable = forged_durable,
                                              .failed = forged_failed};
    struct snic_wal_opts o = {.opts_size = sizeof(o), .record_max = 1024};
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_wal *w;
    uint64_t position = 0;
    memset(&forged, 0, sizeof(forged));
    o.segment_bytes = 128u << 10;
    o.batch_bytes = 64u << 10;
    assert_int_equal(snic_world_loop(fix.world, CTLFIX_CTL, &loop), 0);
    assert_int_equal(snic_io_mem_open(&io, loop, fix.disk), 0);
    size_t size = snic_wal_memsize(io, &o);
    void *mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    assert_int_equal(snic_wal_open(&w, mem, size, io, &o, &ev, NULL), 0);
    while (!forged.opened)
        assert_int_equal(snic_world_step(fix.world), 1);
    for (uint32_t i = node ? 2 : 0; i < (node ? 3 : 2); i++) {
        struct snic_wal_record *d = i == 2 ? &forged.node : &forged.disk[i];
        assert_true(d->length > 0);
        d->bytes = forged.bytes[i];
        if (i == 2)
            snic_put_le16(forged.bytes[2] + 8, 0x7777); /* an unknown family */
        else
            d->key.w[0]++;
        d->ts = ++forged.ts;
        assert_int_equal(snic_wal_append(w, d, &position), 0);
    }
    (void)snic_wal_flush(w);
    while (forged.durable < position)
        assert_int_equal(snic_world_step(fix.world), 1);
    support_guard_free(snic_wal_close(w));
    snic_io_close(io);
    snic_loop_close(loop);
}

static uint32_t disks_now(void)
{
    struct snic_control_stats s;
    snic_control_get_stats(fix.ctl, &s);
    return s.disks;
}

static void test_control_replaced_disks_stay_deleted(void **state)
{
    struct snic_control_msg m;
    (void)state;
    create_named("root", 0);
    create_named("root-to-be", 0);
    create_named("data", 0);
    create_named("data-to-be", 0);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_ALL);
    forge(0);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    assert_int_equal(disks_now(), 2);
    message(&m, SNIC_CONTROL_DISKS, "");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_true(fix.last.vd == 2 || fix.last.vd == 4);
    message(&m, SNIC_CONTROL_DELETE, "root");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    message(&m, SNIC_CONTROL_DELETE, "data");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    for (int i = 0; i < 2; i++) {
        ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
        assert_int_equal(ctlfix_ctl_start(&fix), 0);
        assert_int_equal(disks_now(), 0);
    }
}

/* An address that cannot be encoded for clients is found when the catalog starts, not when a
   client connects. */
static void test_control_unknown_address_family_refused(void **state)
{
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_ALL);
    forge(1);
    int r = ctlfix_ctl_start(&fix);
    if (r == 0) {
        ctlfix_client_start(&fix, 0);
        ctlfix_run(&fix, 1000 * CTLFIX_MS);
    }
    assert_int_equal(r, SNIC_ECORRUPT);
}

static int filled;

static void fill_done(struct snic_segments_req *q)
{
    filled = q->result == 0 ? 1 : q->result;
}

static int store_submit(uint32_t server, uint16_t op, uint64_t id)
{
    struct snic_segments_req q = {.op = op, .seg_id = id, .vd_id = id >> 32, .gen = 1};
    q.done = fill_done;
    q.disk = SNIC_SEGMENTS_ANY_DISK;
    filled = 0;
    assert_int_equal(snic_segments_submit(snic_volume_server_store(fix.server[server].s), &q), 0);
    while (filled == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    return filled;
}

/* No server has a free place: a write that needs one is refused at once, other I/O succeeds.
   While a server that may have space is down, the write waits. The next write after space was
   freed succeeds. */
static void test_control_no_space_enospc_at_once(void **state)
{
    uint32_t n = 0;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) /* of a disk that this catalog has never made */
        while (store_submit(i, SNIC_SEGMENTS_CREATE, snic_control_seg_id(1000, n)) == 1)
            n++;
    assert_true(n > 20);
    ctlfix_run(&fix, 1000 * CTLFIX_MS);
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    uint64_t from = snic_loop_now(fix.client[0].loop);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_ENOSPC);
    assert_true(snic_loop_now(fix.client[0].loop) < from + 1000 * CTLFIX_MS);
    assert_true(fix.client[0].lookups_failed > 0);
    assert_true(fix.events[SNIC_CONTROL_NO_PLACE] > 0);
    memset(buffer + 4096, 1, 4096);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 4096, 4096, buffer + 4096), 4096);
    for (uint32_t i = 4096; i < 8192; i++)
        assert_int_equal(buffer[i], 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_ZERO, 8192, 4096, NULL), 4096);
    /* Of several in one I/O: it ends so, and none of the others is in doubt. */
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, (2u << 20) - 4096, 8192, buffer),
                     SNIC_ENOSPC);
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_ALL);
    struct snic_io_req r, *p = &r;
    snic_io_req_init(&r);
    r.done = io_over;
    r.op = SNIC_IO_WRITE;
    r.length = 4096;
    r.buf.base = buffer;
    r.buf.size = 4096;
    over = 0;
    ctlfix_run(&fix, 3000 * CTLFIX_MS); /* it is seen to be gone */
    assert_int_equal(snic_io_submit(fix.client[0].handle[0].io, &p, 1), 1);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    assert_int_equal(over, 0);
    /* What has nothing to wait for does not wait with it. */
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 4096, 4096, buffer + 4096), 4096);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_ZERO, 8192, 4096, NULL), 4096);
    assert_int_equal(over, 0);
    ctlfix_server_start(&fix, 1);
    ctlfix_ready(&fix); /* what it has of others stays */
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    assert_int_equal(over, 1);
    assert_int_equal(r.result, SNIC_ENOSPC);
    assert_int_equal(store_submit(0, SNIC_SEGMENTS_DELETE, snic_control_seg_id(1000, 0)), 1);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    /* One that is away is waited for ten seconds, and not for ever. */
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_ALL);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    over = 0;
    r.offset = 4u << 20;
    assert_int_equal(snic_io_submit(fix.client[0].handle[0].io, &p, 1), 1);
    ctlfix_run(&fix, 5500 * CTLFIX_MS);
    assert_int_equal(over, 0);
    ctlfix_run(&fix, 4000 * CTLFIX_MS);
    assert_int_equal(over, 1);
    assert_int_equal(r.result, SNIC_ENOSPC);
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_control_disk_placed_round_robin),
        T(test_control_move_keeps_written_data),
        T(test_control_move_generation_names_one_server),
        T(test_control_attach_held_disk_refused_or_taken),
        T(test_control_lease_survives_catalog_restart),
        T(test_control_detach_frees_disk),
        T(test_control_qos_change_reaches_holder),
        T(test_control_invalid_requests_refused),
        T(test_control_delete_removes_segments),
        T(test_control_revoke_ends_lease),
        T(test_control_lost_lease_late_writes_refused),
        T(test_control_server_reconnects_leases_raised),
        T(test_control_lookup_known_location_sent_again),
        T(test_control_leases_used_up_reissue),
        T(test_control_store_of_another_catalog_refused),
        T(test_control_restored_catalog_before_lease_refused),
        T(test_control_restored_catalog_before_move_refused),
        T(test_control_no_space_enospc_at_once),
        T(test_control_unknown_address_family_refused),
        T(test_control_replaced_disks_stay_deleted),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
