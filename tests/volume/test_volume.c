/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Block server and client, each promise once: what a disk takes and refuses, what a server checks,
 * epochs, leases, and the end.
 */
#include "test_volume_util.h"

static int setup(uint32_t transport)
{
    buffer = aligned_alloc(4096, 4u << 20);
    assert_non_null(buffer);
    volfix_start(&fix, transport, support_seed(), 2);
    return 0;
}

static void test_volume_written_is_read(void **state)
{
    (void)state;
    memset(buffer, 7, 1u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 2u << 20, 1u << 20, buffer), 1u << 20);
    memset(buffer, 0, 1u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 2u << 20, 1u << 20, buffer), 1u << 20);
    assert_true(all_are(buffer, 1u << 20, 7));
    assert_int_equal(volfix_io(&fix, SNIC_IO_FLUSH, 0, 0, NULL), 0);
    struct snic_volume_stats s;
    snic_volume_get_stats(fix.v, &s);
    assert_int_equal(s.transport, fix.transport);
    assert_int_equal(volfix_blocks_written(&fix), 256);
    assert_int_equal(s.unsent, 0);
    assert_int_equal(fix.io->stats.write_bytes, 1u << 20);
}

static void test_volume_never_written_is_zeros(void **state)
{
    (void)state;
    memset(buffer, 1, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 4096, 65536, buffer), 65536);
    assert_true(all_are(buffer, 65536, 0));
}

static void test_volume_zeros_over_segments(void **state)
{
    (void)state;
    memset(buffer, 9, 4u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4u << 20, buffer), 4u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_ZERO, 4096, 3u << 20, NULL), 3u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_DISCARD, (3u << 20) + 8192, 4096, NULL), 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4u << 20, buffer), 4u << 20);
    assert_true(all_are(buffer, 4096, 9));
    assert_true(all_are(buffer + 4096, 3u << 20, 0));
    assert_true(all_are(buffer + 4096 + (3u << 20), 4096, 9));
    assert_true(all_are(buffer + 8192 + (3u << 20), 4096, 0));
    assert_true(all_are(buffer + 12288 + (3u << 20), (1u << 20) - 12288, 9));
}

/* What was written, and how, at each place: in memory, at home, and after a power cut. */
static void test_volume_states_of_blocks_returned(void **state)
{
    struct snic_io_req r;
    (void)state;
    memset(buffer, 9, 1u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 8192, 12288, buffer), 12288);
    assert_int_equal(volfix_io(&fix, SNIC_IO_ZERO, 12288, 4096, NULL), 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_DISCARD, 511 * 4096, 8192, NULL), 8192);
    for (uint32_t round = 0; round < 3; round++) {
        memset(buffer, 0xff, 8192);
        assert_int_equal(volfix_states(&fix, 0, buffer), 4096);
        for (uint32_t i = 0; i < 4096; i++) {
            uint32_t want = i == 2 || i == 4 ? SNIC_EBS_STATE_DATA : SNIC_EBS_STATE_NEVER;
            want = i == 3 ? SNIC_EBS_STATE_ZERO : i == 511 ? SNIC_EBS_STATE_TRIM : want;
            assert_int_equal(buffer[i], want);
        }
        assert_int_equal(buffer[4096], 0xff);
        assert_int_equal(volfix_states(&fix, 1, buffer), 4096);
        assert_int_equal(buffer[0], SNIC_EBS_STATE_TRIM);
        assert_true(all_are(buffer + 1, 4095, SNIC_EBS_STATE_NEVER));
        if (round == 0)
            volfix_settle_home(&fix, 0);
        if (round == 1) {
            volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE);
            assert_int_equal(volfix_server_start(&fix, 0), 0);
        }
    }
    snic_io_req_init(&r);
    r.op = SNIC_IO_READ;
    r.length = r.buf.size = 4096;
    r.buf.base = buffer;
    r.offset = 4096;
    assert_int_equal(snic_volume_disk_states(fix.io, &r), SNIC_EINVAL);
    assert_int_equal(volfix_states(&fix, VOLFIX_SEGMENTS, buffer), SNIC_ERANGE);
}

static void test_volume_refuses_what_the_geometry_excludes(void **state)
{
    uint64_t size = fix.io->geometry.size;
    (void)state;
    assert_int_equal(fix.io->geometry.block, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 512, 4096, buffer), SNIC_EINVAL);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 512, buffer), SNIC_EINVAL);
    assert_int_equal(volfix_io(&fix, SNIC_IO_ZERO, 0, 512, NULL), SNIC_EINVAL);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, size, 4096, buffer), SNIC_ERANGE);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, size - 4096, 8192, buffer), SNIC_ERANGE);
    assert_int_equal(volfix_io(&fix, 77, 0, 4096, buffer), SNIC_EINVAL);
    assert_int_equal(fix.io->stats.errors, 6);
}

static void test_volume_epoch_rises_at_each_start(void **state)
{
    struct snic_volume_server_stats s;
    (void)state;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    uint32_t first = s.srv_epoch;
    for (uint32_t i = 1; i < 4; i++) {
        if (i % 2 != 0)
            volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE);
        else
            volfix_server_stop(&fix, 0);
        assert_int_equal(volfix_server_start(&fix, 0), 0);
        snic_volume_server_get_stats(fix.server[0].s, &s);
        assert_int_equal(s.srv_epoch, first + i);
    }
}

static void test_volume_epoch_not_durable_is_not_used(void **state)
{
    struct snic_fault fault = {.kind = SNIC_FAULT_ERROR, .ops = 1u << SNIC_IO_WRITE};
    struct snic_volume_server_stats s;
    struct snic_net_addr a;
    (void)state;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    uint32_t before = s.srv_epoch;
    volfix_server_stop(&fix, 0);
    fault.after = 1;
    fault.repeat = UINT64_MAX;
    fault.error = SNIC_EIO;
    assert_int_equal(snic_disk_fault(fix.server[0].disk, &fault), 0);
    assert_int_not_equal(volfix_server_start(&fix, 0), 0);
    assert_int_equal(snic_volume_server_addr(fix.server[0].s, &a), SNIC_EBUSY);
    volfix_server_stop(&fix, 0);
    snic_disk_faults_clear(fix.server[0].disk);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_int_equal(s.srv_epoch, before + 1);
}

static void test_volume_acknowledged_survives_power(void **state)
{
    (void)state;
    memset(buffer, 3, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 65536, buffer), 65536);
    volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    memset(buffer, 0, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 65536, buffer), 65536);
    assert_true(all_are(buffer, 65536, 3));
}

/* A second client has the lease: the first one's writes end, nothing of them is applied. */
static void test_volume_lost_lease_ends_writes(void **state)
{
    (void)state;
    memset(buffer, 1, 8192);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 8192, buffer), 8192);
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100};
    q.gen = snic_volume_gen(fix.epoch + 1, 0);
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    memset(buffer, 2, 8192);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 8192, buffer), SNIC_ESTALE);
    assert_int_equal(fix.leases, 1);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 8u << 19, 4096, buffer), SNIC_EROFS);
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_true(s.no_lease > 0);
    struct snic_segments_block b = {.data = buffer};
    struct snic_segments_req r = {.op = SNIC_SEGMENTS_READ, .seg_id = 100, .count = 1};
    r.flags = SNIC_SEGMENTS_ANY_GEN;
    r.blocks = &b;
    assert_int_equal(volfix_store(&fix, 0, &r), 0);
    assert_true(all_are(buffer, 4096, 1));
}

/* A generation that is too old: the client asks, and goes to the place of the answer. */
static void test_volume_stale_generation_looked_up(void **state)
{
    (void)state;
    memset(buffer, 1, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    uint32_t maps = fix.maps;
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100};
    q.gen = fix.place[0].gen = snic_volume_gen(fix.epoch, 1);
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    /* A second copy of the packet, sent for being late, may be refused after the first was. */
    assert_in_range(fix.maps, maps + 1, maps + 2);
}

/* A datagram that is for another disk's segment, or the server's own, changes nothing. */
static void test_volume_own_segment_is_not_served(void **state)
{
    (void)state;
    assert_int_equal(snic_volume_map(fix.v, 0, 0, SNIC_VOLUME_META, 0, snic_volume_gen(1, 0)), 0);
    memset(buffer, 5, 4096);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096); /* after asking */
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    assert_true(s.no_segment > 0);
}

/* What a server knows of its clients, all of them together; @p last: the one heard last. */
static uint32_t clients(uint32_t server, struct snic_volume_server_client *sum,
                        struct snic_volume_server_client *last)
{
    struct snic_volume_server_client c;
    uint32_t n = 0, cursor = 0;
    memset(sum, 0, sizeof(*sum));
    memset(last, 0, sizeof(*last));
    while (snic_volume_server_next_client(fix.server[server].s, &cursor, &c) == 1) {
        n++;
        assert_int_equal(c.transport, fix.transport);
        assert_int_equal(c.addr.family, SNIC_NET_SIM);
        assert_int_equal(c.addr.node, 10);
        assert_true(c.client_id != 0 && c.since_ns <= c.heard_ns);
        assert_true(c.heard_ns <= snic_world_now(fix.world));
        sum->blocks_written += c.blocks_written;
        sum->blocks_read += c.blocks_read;
        sum->refused += c.refused;
        sum->inside += c.inside;
        sum->packets += c.packets;
        sum->missing += c.missing;
        sum->rerolls += c.rerolls;
        if (c.heard_ns >= last->heard_ns)
            *last = c;
    }
    return n;
}

static int over;

static void read_over(struct snic_io_req *r)
{
    (void)r;
    over = 1;
}

/* A server reports of each of its clients what it asks for, what of that it does not get, and, with
   SOLAR, what is lost on the way and how often ports change. */
static void test_volume_server_clients_distinguished(void **state)
{
    struct snic_volume_server_client sum, first, second;
    struct snic_net_link lossy = {.loss_ppm = 200000}, none = {0};
    int solar = fix.transport == SNIC_VOLUME_SOLAR;
    (void)state;
    memset(buffer, 7, 1u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 1u << 20, buffer), 1u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 1u << 19, buffer), 1u << 19);
    uint32_t n = clients(0, &sum, &first);
    assert_int_equal(n, solar ? 1 : 2);                          /* LUNA has two connections */
    assert_in_range(sum.blocks_written, 256, solar ? 280 : 256); /* tails are hedged */
    assert_in_range(sum.blocks_read, 128, solar ? 140 : 128);
    assert_true(sum.refused == 0 && sum.inside == 0 && sum.missing == 0 && sum.rerolls == 0);
    assert_int_equal(first.paths > 0, solar || first.paths == 1);
    assert_int_equal(sum.packets > 256, solar);
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100};
    q.gen = fix.place[0].gen = snic_volume_gen(fix.epoch, 1);
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    struct snic_volume_stats before, after;
    snic_volume_get_stats(fix.v, &before);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    snic_volume_get_stats(fix.v, &after);
    (void)clients(0, &sum, &first);
    uint64_t copies = after.agent.hedges - before.agent.hedges; /* each of which is refused, too */
    copies += after.agent.retransmits - before.agent.retransmits;
    assert_in_range(sum.refused, 1, 1 + copies);
    assert_int_equal(snic_net_fabric_link(fix.fabric, 10, 0, solar ? &lossy : &none), 0);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 1u << 20, buffer), 1u << 20);
    assert_int_equal(snic_net_fabric_link(fix.fabric, 10, 0, &none), 0);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 1u << 20, buffer), 1u << 20);
    (void)clients(0, &sum, &first);
    assert_int_equal(sum.missing > 20 && sum.missing < sum.packets / 2, solar);
    snic_net_fabric_partition(fix.fabric, 10, 0, 1);
    struct snic_io_req r, *p = &r;
    snic_io_req_init(&r);
    r.done = read_over;
    r.op = SNIC_IO_READ;
    r.length = r.buf.size = 4096;
    r.buf.base = buffer;
    over = 0;
    assert_int_equal(snic_io_submit(fix.io, &p, 1), 1);
    volfix_run(&fix, 500 * VOLFIX_MS);
    snic_net_fabric_partition(fix.fabric, 10, 0, 0);
    volfix_run(&fix, 1000 * VOLFIX_MS);
    assert_int_equal(over, 1);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 1u << 18, buffer), 1u << 18);
    (void)clients(0, &sum, &first);
    assert_int_equal(sum.rerolls > 0, solar);
    /* The next one is another. */
    volfix_client_kill(&fix);
    volfix_client_start(&fix);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
    n = clients(0, &sum, &second);
    assert_true(second.client_id != first.client_id && second.since_ns > first.since_ns);
    assert_int_equal(n, 2); /* SOLAR's is silent, LUNA's connections are closed */
    assert_int_equal(second.blocks_written, 0);
}

/* A server whose store is gone comes again at its address, with an empty one: it cannot even report
   that it does not know us. */
static void test_volume_server_that_lost_all_is_met_again(void **state)
{
    (void)state;
    memset(buffer, 7, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 65536, buffer), 65536);
    volfix_server_stop(&fix, 0);
    memset(snic_disk_bytes(fix.server[0].disk), 0, 32u << 20);
    snic_disk_sync(fix.server[0].disk);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    for (uint32_t i = 0; i < VOLFIX_SEGMENTS; i += 2)
        volfix_segment_create(&fix, 0, i, fix.place[i].gen);
    struct snic_io_req r, *p = &r;
    snic_io_req_init(&r);
    r.done = read_over;
    r.op = SNIC_IO_READ;
    r.length = r.buf.size = 4096;
    r.buf.base = buffer;
    over = 0;
    assert_int_equal(snic_io_submit(fix.io, &p, 1), 1);
    volfix_run(&fix, 6000 * VOLFIX_MS);
    assert_int_equal(over, 1);
    assert_true(all_are(buffer, 4096, 0));
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 65536, buffer), 65536);
}

/* The server is another one, elsewhere: the client goes there at once. */
static void test_volume_server_elsewhere_is_met_at_once(void **state)
{
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1, .port = VOLFIX_PORT};
    uint64_t begun = snic_world_now(fix.world);
    (void)state;
    memset(buffer, 7, 65536);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 65536, buffer), 65536);
    volfix_segment_create(&fix, 1, 0, fix.place[0].gen); /* a segment 0 there, too; empty */
    fix.place[0].server = 0;                             /* for the client it is server 0's */
    assert_int_equal(snic_volume_server_readdress(fix.v, 0, &a), 0);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 4096, buffer), 4096);
    assert_true(all_are(buffer, 4096, 0));
    assert_true(snic_world_now(fix.world) - begun < 500 * VOLFIX_MS);
    assert_int_equal(snic_volume_server_readdress(fix.v, 4, &a), SNIC_ENOENT);
}

static void test_volume_closing_ends_ios(void **state)
{
    (void)state;
    volfix_server_stop(&fix, 0);
    volfix_server_stop(&fix, 1);
    volfix_load(&fix, VOLFIX_DEPTH);
    volfix_run(&fix, 3 * VOLFIX_MS);
    assert_true(fix.inflight > 0);
    volfix_client_kill(&fix);
    assert_int_equal(fix.inflight, 0);
    assert_true(fix.failed > 0);
}

static void wrong(const struct snic_volume_opts *o, const char *option)
{
    assert_int_equal(snic_volume_memsize(o), 0);
    support_names(snic_volume_opts_wrong(o), option);
}

static void test_volume_options_checked(void **state)
{
    struct snic_volume_opts o = {.opts_size = sizeof(o)};
    struct snic_volume_server_opts s = {.opts_size = sizeof(s)};
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d), .vd_id = 1, .bytes = 4096};
    struct snic_io *io;
    (void)state;
    wrong(&o, "loop");
    o.loop = fix.loop;
    o.net = fix.net;
    wrong(&o, "client_epoch"); /* no epoch */
    o.client_epoch = 1;
    assert_true(snic_volume_memsize(&o) > 0);
    o.flags = SNIC_VOLUME_PAPER; /* LUNA's */
    wrong(&o, "flags");
    o.transport = SNIC_VOLUME_LUNA;
    assert_true(snic_volume_memsize(&o) > 0);
    o.paths = 2; /* PAPER has one */
    wrong(&o, "paths");
    o.flags = 0;
    assert_true(snic_volume_memsize(&o) > 0);
    o.paths = SNIC_LUNA_CONNS_MAX + 1;
    wrong(&o, "paths");
    o.paths = 0;
    o.read_window_bytes = 1u << 20; /* SOLAR's */
    wrong(&o, "read_window_bytes");
    o.read_window_bytes = 0;
    o.transport = SNIC_VOLUME_LUNA + 1;
    wrong(&o, "transport");
    o.transport = SNIC_VOLUME_SOLAR;
    o.flags = 2;
    wrong(&o, "flags");
    assert_int_equal(snic_volume_server_memsize(&s), 0);
    support_names(snic_volume_server_opts_wrong(&s), "disks");
    assert_int_equal(snic_volume_disk_open(fix.v, 1, &d, &io), SNIC_EINVAL); /* no lease */
    d.sa_epoch = 1;
    assert_int_equal(snic_volume_disk_open(fix.v, 0, &d, &io), SNIC_EEXIST);
    assert_int_equal(snic_volume_disk_open(fix.v, 4, &d, &io), SNIC_EINVAL);
    d.sa_epoch = 65536;
    assert_int_equal(snic_volume_disk_open(fix.v, 1, &d, &io), SNIC_EOVERFLOW);
    d.sa_epoch = 1;
    d.bytes = 100;
    assert_int_equal(snic_volume_disk_open(fix.v, 1, &d, &io), SNIC_EINVAL);
    d.bytes = 8192;
    assert_int_equal(snic_volume_disk_open(fix.v, 1, &d, &io), 0);
    d.ios_per_second = 100;
    assert_int_equal(snic_volume_disk_qos(fix.v, 1, &d), 0);
    assert_int_equal(snic_volume_disk_qos(fix.v, 2, &d), SNIC_ENOENT);
    snic_io_close(io);
    assert_int_equal(snic_volume_disk_open(fix.v, 1, &d, &io), 0);
    snic_io_close(io);
    assert_int_equal(snic_volume_map(fix.v, 1, 0, 1, 0, 1), SNIC_ENOENT);
}

/* The same over both transports. */
#define CASE(name)                                                                                 \
    {#name "_solar", name, setup_solar, teardown, NULL},                                           \
    {                                                                                              \
#name "_luna", name, setup_luna, teardown, NULL                                            \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {CASE(test_volume_written_is_read),
                                       CASE(test_volume_never_written_is_zeros),
                                       CASE(test_volume_zeros_over_segments),
                                       CASE(test_volume_states_of_blocks_returned),
                                       CASE(test_volume_refuses_what_the_geometry_excludes),
                                       CASE(test_volume_epoch_rises_at_each_start),
                                       CASE(test_volume_epoch_not_durable_is_not_used),
                                       CASE(test_volume_acknowledged_survives_power),
                                       CASE(test_volume_lost_lease_ends_writes),
                                       CASE(test_volume_stale_generation_looked_up),
                                       CASE(test_volume_own_segment_is_not_served),
                                       CASE(test_volume_server_clients_distinguished),
                                       CASE(test_volume_server_that_lost_all_is_met_again),
                                       CASE(test_volume_server_elsewhere_is_met_at_once),
                                       CASE(test_volume_closing_ends_ios),
                                       CASE(test_volume_options_checked)};
    return SUPPORT_MAIN(argc, argv, tests);
}
