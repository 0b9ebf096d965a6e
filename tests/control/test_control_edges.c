/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Unusual states of the control plane: peers that disconnect or reconnect in the middle of an
 * operation, reserved names, limits out of range.
 */
#include "control/agent_priv.h"
#include "test_control_util.h"

static void assert_disk_is(int value)
{
    memset(buffer, 0xee, 8u << 20);
    assert_int_equal(ctlfix_io(&fix, fix.holder[0]->c->index, 0, SNIC_IO_READ, 0, 8u << 20, buffer),
                     8u << 20);
    for (uint32_t i = 0; i < 8u << 20; i++)
        if (buffer[i] != value)
            fail_msg("byte %u is %d, not %d", i, buffer[i], value);
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

static void cut(uint32_t node, int is)
{
    snic_net_fabric_partition(fix.fabric, CTLFIX_CTL, node, is);
    snic_net_fabric_partition(fix.fabric, node, CTLFIX_CTL, is);
}

/* A change of limits that was acknowledged to an operator reaches a holder that was disconnected
   then. */
static void test_control_qos_change_reaches_reconnected_holder(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    cut(CTLFIX_CLIENT, 1);
    ctlfix_run(&fix, 5000 * CTLFIX_MS); /* the session has ended on both sides */
    message(&m, SNIC_CONTROL_SET_QOS, "root");
    m.qos.ios_per_second = 77000;
    m.qos.bytes_per_second = 1u << 30;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(fix.client[0].handle[0].qos, 0);
    cut(CTLFIX_CLIENT, 0);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].qos, 1);
    assert_int_equal(fix.client[0].handle[0].rate, 1u << 30);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].qos, 1); /* nothing is new */
    assert_int_equal(fix.client[0].handle[0].lost, 0);
    assert_disk_is(7);
}

/* Limits that no engine accepts are refused by the catalog, and nothing changes: were they
   recorded, no client could open the disk. */
static void test_control_limits_out_of_range_refused(void **state)
{
    uint64_t most = UINT64_C(1) << 40;
    const struct snic_control_qos bad[] = {{most + 1, 0, 0, 0},         {UINT64_MAX, 4096, 0, 0},
                                           {1000, most + 1, 0, 0},      {0, 0, most + 1, 0},
                                           {0, 0, 1000, UINT64_MAX},    {1000, 0, most + 1, 1},
                                           {most, most, most, most + 1}};
    const struct snic_control_qos good[] = {
        {0, 0, 0, 0}, {1, 0, 1, 0}, {0, UINT64_MAX, most, 0}, {most, most, most, most}};
    struct snic_control_msg m;
    (void)state;
    attached();
    for (uint32_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        message(&m, SNIC_CONTROL_CREATE, "limits");
        m.bytes = CTLFIX_BLOCKS * 4096;
        m.qos = bad[i];
        assert_int_equal(ctlfix_request(&fix, &m), SNIC_EINVAL);
        message(&m, SNIC_CONTROL_SET_QOS, "root");
        m.qos = bad[i];
        assert_int_equal(ctlfix_request(&fix, &m), SNIC_EINVAL);
    }
    message(&m, SNIC_CONTROL_DISKS, "");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(fix.items, 1);
    assert_memory_equal(&fix.last.qos, &good[0], sizeof(good[0]));
    assert_int_equal(fix.client[0].handle[0].qos, 0);
    for (uint32_t i = 0; i < SNIC_COUNTOF(good); i++) {
        message(&m, SNIC_CONTROL_SET_QOS, "root");
        m.qos = good[i];
        assert_int_equal(ctlfix_request(&fix, &m), 0);
        ctlfix_run(&fix, 10 * CTLFIX_MS);
        assert_int_equal(fix.client[0].handle[0].qos, i + 1);
    }
    ctlfix_client_kill(&fix, 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, SNIC_CONTROL_TAKE), 0); /* it is opened with them */
    assert_disk_is(7);
}

static void assert_limits(uint64_t bytes, uint64_t burst_bytes, uint64_t ios, uint64_t burst_ios)
{
    struct snic_control_msg m;
    message(&m, SNIC_CONTROL_DISKS, "");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(fix.last.qos.bytes_per_second, bytes);
    assert_int_equal(fix.last.qos.burst_bytes, burst_bytes);
    assert_int_equal(fix.last.qos.ios_per_second, ios);
    assert_int_equal(fix.last.qos.burst_ios, burst_ios);
}

/* A change of one limit leaves the others as they are. */
static void test_control_qos_keep_leaves_limit(void **state)
{
    const uint64_t keep = SNIC_CONTROL_KEEP;
    struct snic_control_msg m;
    (void)state;
    attached();
    message(&m, SNIC_CONTROL_SET_QOS, "root");
    m.qos = (struct snic_control_qos){1u << 30, 1u << 20, 5000, 50};
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    m.qos = (struct snic_control_qos){keep, keep, 7000, keep};
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_limits(1u << 30, 1u << 20, 7000, 50);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].rate, 1u << 30);
    m.qos = (struct snic_control_qos){0, keep, keep, keep};
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_limits(0, 1u << 20, 7000, 50);
    /* What is refused changes nothing, and a new disk has nothing to keep. */
    m.qos = (struct snic_control_qos){keep, keep, (UINT64_C(1) << 40) + 1, keep};
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EINVAL);
    assert_limits(0, 1u << 20, 7000, 50);
    message(&m, SNIC_CONTROL_CREATE, "other");
    m.bytes = 1u << 20;
    m.qos.ios_per_second = keep;
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EINVAL);
}

/* A disk larger than clients can open is not created; the largest one is opened. */
static void test_control_disk_too_large_refused(void **state)
{
    const uint64_t most = SNIC_VOLUME_DISK_BYTES_MAX;
    struct snic_volume_opts o = {.opts_size = sizeof(o), .client_epoch = 1, .disks_max = 1};
    struct snic_control_msg m;
    (void)state;
    message(&m, SNIC_CONTROL_CREATE, "large");
    m.bytes = most + 4096;
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EFBIG);
    m.bytes = UINT64_C(1) << 52;
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EFBIG);
    message(&m, SNIC_CONTROL_DISKS, "");
    fix.items = 0;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(fix.items, 0);
    message(&m, SNIC_CONTROL_CREATE, "large");
    m.bytes = most;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    ctlfix_client_start(&fix, 0);
    o.loop = fix.client[0].loop;
    o.net = fix.client[0].net;
    for (uint32_t t = SNIC_VOLUME_SOLAR; t <= SNIC_VOLUME_LUNA; t++) {
        o.transport = t;
        o.disk_blocks_max = most / 4096;
        assert_true(snic_volume_memsize(&o) != 0);
        o.disk_blocks_max++;
        o.chunks_max = (1u << 20) + 1;
        assert_int_equal(snic_volume_memsize(&o), 0);
        o.chunks_max = 0;
    }
}

/* The catalog sends limits that the volume refuses: the previous ones stay in effect, and the
   qos event is not called. */
static void test_control_limits_volume_refuses_not_reported(void **state)
{
    struct snic_control_client_stats s;
    struct snic_control_msg m;
    (void)state;
    attached();
    message(&m, SNIC_CONTROL_SET_QOS, "root");
    m.qos.bytes_per_second = 1u << 30;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].qos, 1);
    struct control_disk *d = control_disk_find(fix.ctl, fix.client[0].handle[0].vd);
    d->qos.bytes_per_second = (UINT64_C(1) << 40) + 1;
    cut(CTLFIX_CLIENT, 1);
    ctlfix_run(&fix, 5000 * CTLFIX_MS);
    cut(CTLFIX_CLIENT, 0);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    snic_control_client_get_stats(fix.client[0].cc, &s);
    assert_int_equal(s.refused, 1);
    assert_int_equal(fix.client[0].handle[0].qos, 1);
    assert_int_equal(fix.client[0].handle[0].lost, 0);
    m.qos.bytes_per_second = 1u << 29;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    ctlfix_run(&fix, 10 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].qos, 2);
    assert_int_equal(fix.client[0].handle[0].rate, 1u << 29);
    assert_disk_is(7);
}

/* Structs of callers are validated: bytes behind a name's end are ignored, and an address that
   cannot be encoded for clients is an invalid option. */
static void test_control_caller_structs_validated(void **state)
{
    struct snic_control_agent_opts o = {.opts_size = sizeof(o), .loop = fix.server[0].loop};
    struct snic_control_msg m;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    message(&m, SNIC_CONTROL_REVOKE, "root");
    memset(m.name + 5, 'x', sizeof(m.name) - 5);
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    o.net = fix.server[0].net;
    o.store = snic_volume_server_store(fix.server[0].s);
    o.control = o.addr = o.listen = (struct snic_net_addr){.family = SNIC_NET_SIM, .port = 9};
    assert_true(snic_control_agent_memsize(&o) > 0);
    assert_null(snic_control_agent_opts_wrong(&o));
    o.addr.family = SNIC_NET_UNIX;
    assert_int_equal(snic_control_agent_memsize(&o), 0);
    assert_non_null(strstr(snic_control_agent_opts_wrong(&o), "addr: "));
    o.addr.family = SNIC_NET_SIM;
    o.listen.family = 77;
    assert_int_equal(snic_control_agent_memsize(&o), 0);
    assert_non_null(strstr(snic_control_agent_opts_wrong(&o), "listen: "));
}

/* Every disk can be reissued, whatever its name, and no other disk is deleted for it. */
static void test_control_reissue_keeps_other_disks(void **state)
{
    static const char longest[] = "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ.012345678";
    struct snic_control_msg m;
    struct snic_control_stats s;
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    create_named("root.reissue", SNIC_EINVAL); /* a name of ours */
    create_named("root.reissued", 0);
    create_named(longest, 0);
    message(&m, SNIC_CONTROL_REISSUE, longest);
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    message(&m, SNIC_CONTROL_REISSUE, "root");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.disks, 3);
    message(&m, SNIC_CONTROL_DELETE, longest);
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    message(&m, SNIC_CONTROL_DELETE, "root.reissued");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_disk_is(7);
}

/* A lease is revoked at any moment of a server's registration: no operation waits for that
   server, and registration is not restarted. When the server is READY it refuses the lease. */
static void test_control_lease_ends_while_a_server_registers(void **state)
{
    struct snic_control_msg m[2];
    struct snic_segments_stat stat;
    struct snic_control_agent_stats a;
    uint32_t lease = 1;
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    assert_int_equal(ctlfix_create(&fix, 1), 0); /* nothing of it is anywhere */
    message(&m[0], SNIC_CONTROL_REVOKE, "root");
    message(&m[1], SNIC_CONTROL_REVOKE, "data-1");
    for (uint32_t k = 0; k < 400; k++) {
        uint32_t there = 0;
        ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_ALL);
        ctlfix_run(&fix, 10 * CTLFIX_MS);
        ctlfix_server_start(&fix, 1);
        ctlfix_run(&fix, 49 * CTLFIX_MS + k / 2 * 10000); /* it asks its store first */
        uint64_t before = snic_world_now(fix.world);
        assert_int_equal(ctlfix_request(&fix, &m[k % 2]), 0);
        lease += k % 2 == 0;
        uint64_t took = snic_world_now(fix.world) - before;
        if (took > 500 * CTLFIX_MS)
            fail_msg("step %u: it took %u ms to end", k, (uint32_t)(took / CTLFIX_MS));
        ctlfix_ready(&fix);
        for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++) {
            if (where(1, i).server != ctlfix_id(&fix, 1))
                continue;
            there++;
            assert_int_equal(snic_segments_find(snic_volume_server_store(fix.server[1].s),
                                                snic_control_seg_id(1, i), &stat),
                             0);
            if (stat.gen >> 16 != lease)
                fail_msg("step %u: lease %u at the server, %u here", k, stat.gen >> 16, lease);
        }
        snic_control_agent_get_stats(fix.server[1].agent, &a);
        if (a.claimed != there)
            fail_msg("step %u: it claimed %u times", k, (uint32_t)a.claimed / there);
    }
}

/* A device without space for all records that the options permit is refused at open, and opens
   with other options. So is one with more segments than the options permit. */
static void test_control_catalog_larger_than_device_refused(void **state)
{
    static const uint32_t too_many[] = {1u << 20, 1u << 14, CTLFIX_SEGMENTS - 1};
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    for (uint32_t i = 0; i < SNIC_COUNTOF(too_many); i++) {
        ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
        fix.segments_max = too_many[i];
        if (ctlfix_ctl_start(&fix) != SNIC_ENOSPC)
            fail_msg("with %u segments: %s", too_many[i], snic_errname(fix.result));
    }
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    fix.segments_max = CTLFIX_SEGMENTS;
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_disk_is(7);
}

/* ---- A raw peer that writes its own messages ---- */

static struct raw {
    struct snic_net_conn *c;
    struct snic_net_send_req req;
    struct snic_iov iov;
    unsigned char bytes[256u << 10];
    uint32_t size;
    int connected, gone, sent;
} raw;

static void raw_connected(void *ctx, struct snic_net_conn *c, int error)
{
    (void)ctx;
    (void)c;
    raw.connected = error == 0;
}

static void raw_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    snic_net_put(c->net, b);
}

static void raw_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
    raw.gone = 1;
}

static void raw_sent(struct snic_net_send_req *r)
{
    (void)r;
    raw.sent = 1;
}

static uint32_t crowd; /* connections that are there */

static void crowd_connected(void *ctx, struct snic_net_conn *c, int error)
{
    (void)ctx;
    (void)c;
    crowd += error == 0;
}

static void crowd_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
    crowd--;
}

static void raw_open(void)
{
    static const struct snic_net_stream_events ev = {
        .connected = raw_connected, .recv = raw_recv, .closed = raw_closed};
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    memset(&raw, 0, sizeof(raw));
    assert_int_equal(snic_net_connect(fix.op_net, &a, &ev, NULL, &raw.c), 0);
    while (!raw.connected)
        assert_int_equal(snic_world_step(fix.world), 1);
}

static void raw_put(const struct snic_control_msg *m)
{
    int n = snic_control_put(raw.bytes + raw.size, (uint32_t)sizeof(raw.bytes) - raw.size, m);
    assert_true(n > 0);
    raw.size += (uint32_t)n;
}

static void raw_send(void)
{
    raw.sent = 0;
    raw.iov.base = raw.bytes;
    raw.iov.size = raw.size;
    raw.req.iov = &raw.iov;
    raw.req.iov_count = 1;
    raw.req.done = raw_sent;
    raw.req.region = SNIC_NO_REGION;
    assert_int_equal(snic_net_send(raw.c, &raw.req), 1);
}

/* A client that is refused and does not close its connection does not keep its session. */
static void test_control_refused_client_vanishes_session_freed(void **state)
{
    struct snic_control_msg m;
    struct snic_control_stats s;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    snic_control_get_stats(fix.ctl, &s);
    uint32_t before = s.sessions, refused = fix.events[SNIC_CONTROL_SERVER_REFUSED];
    raw_open();
    message(&m, SNIC_CONTROL_HELLO, "");
    m.role = SNIC_CONTROL_STORE;
    m.server = 1;
    m.uuid[0] = 77;
    raw_put(&m);
    raw_send();
    while (fix.events[SNIC_CONTROL_SERVER_REFUSED] == refused)
        assert_int_equal(snic_world_step(fix.world), 1);
    cut(CTLFIX_OPERATOR, 1);
    ctlfix_run(&fix, 10000 * CTLFIX_MS);
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.sessions, before - 1); /* the operator's, too */
    cut(CTLFIX_OPERATOR, 0);
    snic_net_abort(raw.c);
    while (!raw.gone)
        assert_int_equal(snic_world_step(fix.world), 1);
}

/* All sessions are in use: one more client is refused, counted and reported; sessions without
   HELLO time out and make space. At 1 and at 10 times the 16 sessions of the fixture. */
static void test_control_sessions_used_up_rejected(void **state)
{
    static const struct snic_net_stream_events ev = {
        .connected = crowd_connected, .recv = raw_recv, .closed = crowd_closed};
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    struct snic_control_stats s;
    struct snic_net_conn *c;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    snic_control_get_stats(fix.ctl, &s);
    uint32_t before = s.sessions, more = 16 - before;
    assert_true(before < 16 && s.rejected == 0);
    for (uint32_t i = 0; i < 16 - before + 10 * 16; i++) {
        assert_int_equal(snic_net_connect(fix.op_net, &a, &ev, NULL, &c), 0);
        ctlfix_run(&fix, CTLFIX_MS);
        snic_control_get_stats(fix.ctl, &s);
        assert_int_equal(s.sessions, i < more ? before + i + 1 : 16);
        assert_int_equal(s.rejected, i < more ? 0 : i - more + 1);
    }
    assert_int_equal(fix.events[SNIC_CONTROL_SESSIONS_FULL], 10 * 16);
    ctlfix_run(&fix, 3500 * CTLFIX_MS);
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.sessions, before);
    assert_int_equal(crowd, 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
}

/* A catalog has disks_max disks: one more is refused, and created after another was deleted. */
static void test_control_disks_used_up_enospc(void **state)
{
    struct snic_control_msg m;
    char name[3] = "a0";
    (void)state;
    for (uint32_t i = 0; i < 80; i++) {
        name[0] = (char)('a' + i / 10);
        name[1] = (char)('0' + i % 10);
        message(&m, SNIC_CONTROL_CREATE, name);
        m.bytes = CTLFIX_BLOCKS * 4096;
        assert_int_equal(ctlfix_request(&fix, &m), i < 8 ? 0 : SNIC_ENOSPC);
    }
    message(&m, SNIC_CONTROL_DELETE, "a3");
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    message(&m, SNIC_CONTROL_CREATE, "more");
    m.bytes = CTLFIX_BLOCKS * 4096;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
}

/* Options beyond the ranges in the header are refused by memsize and named by opts_wrong. */
static void test_control_options_out_of_range_refused(void **state)
{
    struct snic_control_opts o = {.opts_size = sizeof(o), .loop = fix.loop, .net = fix.net};
    struct snic_control_client_opts k = {.opts_size = sizeof(k)};
    const struct {
        uint32_t *field, most;
        const char *wrong;
    } of[] = {{&o.disks_max, 65536, "disks_max: above 65536"},
              {&o.segments_max, 1u << 28, "segments_max: above 2^28"},
              {&o.sessions_max, 4096, "sessions_max: above 4096"},
              {&o.ops_max, 32768, "ops_max: above 32768"},
              {&k.disks_max, 64, "disks_max: above 64"},
              {&k.servers_max, 1024, "servers_max: above 1024"},
              {&k.lookups_max, 1u << 20, "lookups_max: above 2^20"}};
    (void)state;
    o.io = fix.io;
    k.loop = fix.loop;
    k.net = fix.net;
    for (uint32_t i = 0; i < SNIC_COUNTOF(of); i++) {
        *of[i].field = of[i].most;
        assert_true(snic_control_memsize(&o) > 0 && snic_control_client_memsize(&k) > 0);
        *of[i].field = of[i].most + 1;
        assert_true((snic_control_memsize(&o) == 0) != (snic_control_client_memsize(&k) == 0));
        const char *wrong = snic_control_opts_wrong(&o);
        assert_true((wrong == NULL) != (snic_control_client_opts_wrong(&k) == NULL));
        assert_string_equal(wrong != NULL ? wrong : snic_control_client_opts_wrong(&k),
                            of[i].wrong);
        *of[i].field = 10 * of[i].most;
        assert_true((snic_control_memsize(&o) == 0) != (snic_control_client_memsize(&k) == 0));
        *of[i].field = 1;
    }
}

/* The log has no space now, or the catalog is busy: an attach is retried, not refused. */
static void test_control_attach_to_a_busy_catalog_waits(void **state)
{
    struct snic_fault stall = {.kind = SNIC_FAULT_DELAY, .ops = 1u << SNIC_IO_WRITE};
    struct snic_control_msg m;
    struct snic_control_stats s;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    stall.after = 1;
    stall.repeat = UINT64_MAX;
    stall.delay_ns = 300 * CTLFIX_MS;
    assert_int_equal(snic_disk_fault(fix.disk, &stall), 0);
    raw_open();
    message(&m, SNIC_CONTROL_HELLO, "");
    m.role = SNIC_CONTROL_OPERATOR;
    raw_put(&m);
    message(&m, SNIC_CONTROL_SET_QOS, "root");
    for (uint32_t i = 0; i < 1800; i++) /* more than the log takes before a write is durable */
        raw_put(&m);
    raw_send();
    ctlfix_run(&fix, 20 * CTLFIX_MS);
    snic_control_get_stats(fix.ctl, &s);
    assert_true(s.refused > 0); /* it is full */
    ctlfix_attach_begin(&fix, 0, 0, 0);
    ctlfix_run(&fix, 1500 * CTLFIX_MS);
    snic_disk_faults_clear(fix.disk);
    ctlfix_run(&fix, 500 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].attach, 0);
    assert_int_equal(fix.client[0].handle[0].result, 0);
    if (!raw.gone)
        snic_net_abort(raw.c);
    while (!raw.gone)
        assert_int_equal(snic_world_step(fix.world), 1);
}

/* A copy of a server's store is started beside it: it is refused. Were it taken for the same
   server after a reconnection, each of the two would have a part of what clients write. */
static void test_control_duplicate_server_refused(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    uint32_t refused = fix.events[SNIC_CONTROL_SERVER_REFUSED];
    uint64_t readies = fix.server[1].readies;
    raw_open();
    message(&m, SNIC_CONTROL_HELLO, "");
    m.role = SNIC_CONTROL_STORE;
    m.server = ctlfix_id(&fix, 1);
    m.uuid[0] = fix.seed + 1;
    m.addr = (struct snic_net_addr){.family = SNIC_NET_SIM, .node = CTLFIX_OPERATOR, .port = 7000};
    m.peer = m.addr;
    raw_put(&m);
    raw_send();
    ctlfix_run(&fix, 1000 * CTLFIX_MS);
    assert_int_equal(fix.events[SNIC_CONTROL_SERVER_DOWN], 0);
    assert_int_equal(fix.events[SNIC_CONTROL_SERVER_REFUSED], refused + 1);
    assert_int_equal(fix.server[1].readies, readies);
    assert_disk_is(7);
    if (!raw.gone)
        snic_net_abort(raw.c);
    while (!raw.gone)
        assert_int_equal(snic_world_step(fix.world), 1);
    /* The server itself may come again elsewhere. */
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_ALL);
    fix.server[1].port = 5;
    ctlfix_server_start(&fix, 1);
    ctlfix_ready(&fix);
    assert_disk_is(7);
}

/* ---- Reissue ---- */

static uint64_t copied_by(uint32_t server)
{
    struct snic_control_agent_stats s;
    if (fix.server[server].agent == NULL)
        return 0;
    snic_control_agent_get_stats(fix.server[server].agent, &s);
    return s.copied_in;
}

/* Steps until servers have copied @p blocks, all together. */
static void copied_until(uint64_t blocks)
{
    while (!fix.call_done && copied_by(0) + copied_by(1) + copied_by(2) < blocks)
        assert_int_equal(snic_world_step(fix.world), 1);
    assert_int_equal(fix.call_done, 0);
}

/* A disk is reissued, and the server that fills its segments is killed and restarted at every
   step: the reissue fails, or its result is complete. */
static void test_control_reissue_server_reconnects_any_time(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    ctlfix_client_kill(&fix, 0);
    message(&m, SNIC_CONTROL_REISSUE, "root");
    for (uint32_t k = 1; k <= 4; k++) {
        ctlfix_run(&fix, 10 * CTLFIX_MS); /* the holder is gone */
        uint64_t before[3] = {copied_by(0), copied_by(1), copied_by(2)};
        ctlfix_request_begin(&fix, &m);
        copied_until(before[0] + before[1] + before[2] + k * SNIC_SEGMENTS_BLOCKS / 2);
        uint32_t to = copied_by(0) != before[0] ? 0 : copied_by(1) != before[1] ? 1 : 2;
        ctlfix_run(&fix, CTLFIX_MS / 2);
        ctlfix_server_kill(&fix, to, SNIC_FAULT_KEEP_ALL);
        ctlfix_run(&fix, 10 * CTLFIX_MS);
        ctlfix_server_start(&fix, to);
        ctlfix_ready(&fix);
        while (!fix.call_done)
            assert_int_equal(snic_world_step(fix.world), 1);
        if (fix.call_status != 0)
            assert_int_equal(ctlfix_request(&fix, &m), 0);
        ctlfix_client_start(&fix, 0);
        assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
        for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++) {
            uint32_t vd = fix.client[0].handle[0].vd, s = 0;
            struct snic_control_item it = where(vd, i);
            struct snic_segments_stat stat;
            while (ctlfix_id(&fix, s) != it.server)
                s++;
            if (snic_segments_find(snic_volume_server_store(fix.server[s].s),
                                   snic_control_seg_id(vd, i), &stat) != 0)
                fail_msg("step %u: segment %u is not at server %u", k, i, it.server);
        }
        assert_disk_is(7);
        ctlfix_client_kill(&fix, 0);
    }
}

/* A recorded name with bytes behind its end is refused: it could not be sent to a client. */
static void test_control_recover_name_not_zero_padded_refused(void **state)
{
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    struct control_disk *d = control_disk_find(fix.ctl, 1);
    assert_non_null(d);
    d->name[SNIC_CONTROL_NAME - 2] = 'x';
    assert_int_equal(control_put_disk(fix.ctl, d), 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_ALL);
    assert_int_equal(ctlfix_ctl_start(&fix), SNIC_ECORRUPT);
}

/* A verdict arrives before the claim, while the store still executes requests of the previous
   session: the server ends the session and does not execute it. */
static void test_control_verdict_before_the_claim_ends_the_session(void **state)
{
    struct snic_control_agent *a = fix.server[0].agent;
    struct snic_control_msg m;
    uint64_t readies = fix.server[0].readies;
    (void)state;
    message(&m, SNIC_CONTROL_VERDICT, "");
    a->state = CONTROL_AGENT_CLAIMING;
    a->claim_due = 1;
    a->slots_used++;
    a->s.e->msg(a->s.owner, &m);
    assert_int_equal(a->sweep_op, 0);
    a->slots_used--;
    ctlfix_run(&fix, 5000 * CTLFIX_MS);
    assert_true(fix.server[0].ready && fix.server[0].readies > readies);
}

/* A source sends more blocks than were requested: the copy ends, and the versions of other
   blocks do not change. */
static void test_control_copy_of_too_many_blocks_ends(void **state)
{
    static unsigned char body[(SNIC_CONTROL__LIST + 1) * SNIC_CONTROL__BLOCK];
    struct snic_control_agent *a = fix.server[0].agent;
    struct snic_control_msg m;
    (void)state;
    message(&m, SNIC_CONTROL_BLOCKS, "");
    m.body = body;
    m.body_size = sizeof(body);
    for (uint32_t i = 0; i <= SNIC_CONTROL__LIST; i++) {
        snic_put_le16(body + i * SNIC_CONTROL__BLOCK, (uint16_t)i);
        body[i * SNIC_CONTROL__BLOCK + 2] = SNIC_SEGMENTS_ZERO;
        snic_put_le64(body + i * SNIC_CONTROL__BLOCK + 8, 5);
    }
    for (uint32_t i = 0; i < SNIC_SEGMENTS_BLOCKS; i++)
        a->sink.version[i] = 7;
    a->sink.busy = 1;
    a->sink.s.e->msg(a, &m);
    assert_int_equal(a->sink.busy, 0);
    for (uint32_t i = 0; i < SNIC_SEGMENTS_BLOCKS; i++)
        assert_int_equal(a->sink.version[i], 7);
}

/* Doors of different loops are refused: two threads would run one catalog, agent or client. */
static void test_control_doors_of_other_loops_refused(void **state)
{
    const struct snic_net_addr at = {.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    struct ctlfix_server *server = &fix.server[0];
    (void)state;
    attached();
    struct snic_control_opts c = {.opts_size = sizeof(c),
                                  .loop = fix.loop,
                                  .net = fix.net,
                                  .io = fix.io,
                                  .addr = at,
                                  .segments_max = fix.segments_max};
    assert_true(snic_control_memsize(&c) > 0);
    c.net = server->net;
    assert_int_equal(snic_control_memsize(&c), 0);
    c.net = fix.net;
    c.io = server->io;
    assert_int_equal(snic_control_memsize(&c), 0);
    c.io = fix.io;
    c.loop = server->loop;
    assert_int_equal(snic_control_memsize(&c), 0);

    struct snic_control_agent_opts a = {.opts_size = sizeof(a),
                                        .loop = server->loop,
                                        .net = server->net,
                                        .store = snic_volume_server_store(server->s),
                                        .control = at,
                                        .addr = at,
                                        .listen = at};
    assert_true(snic_control_agent_memsize(&a) > 0);
    a.net = fix.net;
    assert_int_equal(snic_control_agent_memsize(&a), 0);
    a.net = server->net;
    a.store = snic_volume_server_store(fix.server[1].s);
    assert_int_equal(snic_control_agent_memsize(&a), 0);

    struct snic_control_client_opts k = {.opts_size = sizeof(k),
                                         .loop = fix.client[0].loop,
                                         .net = fix.client[0].net,
                                         .control = at};
    assert_true(snic_control_client_memsize(&k) > 0);
    k.net = fix.net;
    assert_int_equal(snic_control_client_memsize(&k), 0);

    struct snic_control_operator_opts o = {
        .opts_size = sizeof(o), .loop = fix.op_loop, .net = fix.op_net, .control = at};
    assert_true(snic_control_operator_memsize(&o) > 0);
    assert_null(snic_control_operator_opts_wrong(&o));
    o.net = fix.net;
    assert_int_equal(snic_control_operator_memsize(&o), 0);
    assert_string_equal(snic_control_operator_opts_wrong(&o), "net: NULL, or of another loop");
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_control_qos_change_reaches_reconnected_holder),
        T(test_control_limits_out_of_range_refused),
        T(test_control_doors_of_other_loops_refused),
        T(test_control_qos_keep_leaves_limit),
        T(test_control_disk_too_large_refused),
        T(test_control_limits_volume_refuses_not_reported),
        T(test_control_caller_structs_validated),
        T(test_control_reissue_keeps_other_disks),
        T(test_control_lease_ends_while_a_server_registers),
        T(test_control_catalog_larger_than_device_refused),
        T(test_control_refused_client_vanishes_session_freed),
        T(test_control_sessions_used_up_rejected),
        T(test_control_disks_used_up_enospc),
        T(test_control_options_out_of_range_refused),
        T(test_control_attach_to_a_busy_catalog_waits),
        T(test_control_duplicate_server_refused),
        T(test_control_reissue_server_reconnects_any_time),
        T(test_control_recover_name_not_zero_padded_refused),
        T(test_control_verdict_before_the_claim_ends_the_session),
        T(test_control_copy_of_too_many_blocks_ends),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
