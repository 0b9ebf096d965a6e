/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The limits of the control plane, lowered where the defaults are out of reach: what is reported
 * when one is reached, and that the catalog works afterwards.
 */
#include "test_control_util.h"

static void begin_again(void)
{
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_ALL);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    ctlfix_ready(&fix);
}

static uint64_t turned_away(void)
{
    struct snic_control_stats s;
    snic_control_get_stats(fix.ctl, &s);
    return s.rejected;
}

static void operator_ends(void)
{
    (void)snic_control_operator_close(fix.call);
    fix.call = NULL;
    ctlfix_run(&fix, 10 * CTLFIX_MS);
}

/* All sessions are in use: one more client, operator or server gets the reason, and is accepted
   when a session is free. A session that a server leaves is reserved for servers. */
static void test_control_sessions_used_up_reported(void **state)
{
    struct snic_control_client_stats cs;
    struct snic_control_msg m;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    operator_ends();
    fix.sessions_max = 4;
    begin_again();
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0); /* three servers and a client */
    message(&m, SNIC_CONTROL_DISKS, "");
    for (int i = 0; i < 40; i++)
        assert_int_equal(ctlfix_request(&fix, &m), SNIC_ENFILE);
    assert_int_equal(turned_away(), 40);
    ctlfix_client_start(&fix, 1);
    ctlfix_attach_begin(&fix, 1, 0, SNIC_CONTROL_TAKE);
    ctlfix_run(&fix, 3500 * CTLFIX_MS);
    assert_int_equal(fix.client[1].refused, SNIC_ENFILE);
    assert_int_equal(fix.client[1].handle[0].attach, 1);
    snic_control_client_get_stats(fix.client[1].cc, &cs);
    assert_in_range(cs.rejected, 3, 5); /* it asks every second */
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_ALL);
    ctlfix_run(&fix, 5000 * CTLFIX_MS);
    assert_int_equal(fix.client[1].handle[0].attach, 1);
    ctlfix_server_start(&fix, 1);
    ctlfix_ready(&fix);
    ctlfix_client_kill(&fix, 0);
    ctlfix_run(&fix, 4000 * CTLFIX_MS);
    assert_int_equal(fix.client[1].handle[0].attach, 0);
    assert_int_equal(fix.client[1].handle[0].result, 0);
    assert_int_equal(ctlfix_io(&fix, 1, 0, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    assert_true(fix.events[SNIC_CONTROL_SESSIONS_FULL] == turned_away());
}

/* A server without a session reports the reason, and registers when another leaves. */
static void test_control_server_without_session_reported(void **state)
{
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    operator_ends();
    fix.sessions_max = 2;
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_ALL);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_run(&fix, 5000 * CTLFIX_MS);
    uint32_t out = 0, ready = 0;
    for (uint32_t i = 0; i < 3; i++) {
        ready += (uint32_t)fix.server[i].ready;
        out = fix.server[i].ready ? out : i;
    }
    assert_int_equal(ready, 2);
    assert_int_equal(fix.server[out].refused, SNIC_ENFILE);
    ctlfix_server_kill(&fix, (out + 1) % 3, SNIC_FAULT_KEEP_ALL);
    ctlfix_run(&fix, 5000 * CTLFIX_MS);
    assert_int_equal(fix.server[out].ready, 1);
}

static void write_segment(uint32_t disk, uint32_t segment, int64_t expected)
{
    int64_t r = ctlfix_io(&fix, 0, disk, SNIC_IO_WRITE, (uint64_t)segment << 21, 4096, buffer);
    if (r != expected)
        fail_msg("disk %u segment %u: %lld", disk, segment, (long long)r);
}

/* segments_max are placed: a write that needs one more ends with ENOSPC at once, and the event
   does not blame the servers. A deletion makes space. */
static void test_control_segments_used_up_enospc(void **state)
{
    struct snic_control_msg m;
    (void)state;
    fix.segments_max = CTLFIX_SEGMENTS;
    begin_again();
    ctlfix_client_start(&fix, 0);
    for (uint32_t d = 0; d < CTLFIX_DISKS; d++) {
        assert_int_equal(ctlfix_create(&fix, d), 0);
        assert_int_equal(ctlfix_attach(&fix, 0, d, 0), 0);
    }
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        write_segment(0, i, 4096);
    assert_int_equal(fix.events[SNIC_CONTROL_NO_PLACE], 0);
    for (uint32_t i = 0; i < 10 * CTLFIX_SEGMENTS; i++)
        write_segment(1 + i % 2, i / 2 % CTLFIX_SEGMENTS, SNIC_ENOSPC);
    assert_true(fix.events[SNIC_CONTROL_NO_PLACE] >= 10 * CTLFIX_SEGMENTS);
    assert_int_equal(fix.event_error[SNIC_CONTROL_NO_PLACE], SNIC_E2BIG);
    write_segment(0, 1, 4096); /* what has its place works on */
    message(&m, SNIC_CONTROL_REVOKE, ctlfix_name(0));
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    message(&m, SNIC_CONTROL_DELETE, ctlfix_name(0));
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        write_segment(1, i, 4096);
}

/* One operation at a time: other requests are retried, and all end. */
static void test_control_ops_used_up_all_ends(void **state)
{
    struct snic_control_stats s;
    (void)state;
    fix.ops_max = 1;
    begin_again();
    for (uint32_t d = 0; d < CTLFIX_DISKS; d++)
        assert_int_equal(ctlfix_create(&fix, d), 0);
    ctlfix_client_start(&fix, 0);
    for (uint32_t d = 0; d < CTLFIX_DISKS; d++)
        ctlfix_attach_begin(&fix, 0, d, 0);
    ctlfix_run(&fix, 2000 * CTLFIX_MS);
    for (uint32_t d = 0; d < CTLFIX_DISKS; d++) {
        assert_int_equal(fix.client[0].handle[d].attach, 0);
        assert_int_equal(fix.client[0].handle[d].result, 0);
        ctlfix_load(&fix, 0, d, 40);
    }
    assert_int_equal(ctlfix_settle(&fix, 20000 * CTLFIX_MS), 0); /* all 12 segments are placed */
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.ops, 0);
    for (uint32_t d = 0; d < CTLFIX_DISKS; d++)
        ctlfix_audit(&fix, d);
}

/* ---- A server that responds and does not execute commands ---- */

static int64_t written;

static void write_over(struct snic_io_req *r)
{
    written = r->result;
}

static void stall(uint32_t server, uint64_t ms)
{
    struct snic_fault f = {.kind = SNIC_FAULT_DELAY, .ops = 1u << SNIC_IO_WRITE};
    f.after = 1;
    f.repeat = UINT64_MAX;
    f.delay_ns = ms * CTLFIX_MS;
    assert_int_equal(snic_disk_fault(fix.server[server].disk, &f), 0);
}

/* The device of the server that makes a segment stalls: after ten seconds its session ends and
   another server makes the segment; the server registers when its device works. */
static void test_control_stalled_server_replaced(void **state)
{
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    for (uint32_t i = 0; i < 3; i++)
        if (i != 1)
            ctlfix_server_kill(&fix, i, SNIC_FAULT_KEEP_ALL);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    stall(1, 30000);
    uint32_t down = fix.events[SNIC_CONTROL_SERVER_DOWN];
    struct snic_io_req q, *p = &q;
    snic_io_req_init(&q);
    q.done = write_over;
    q.op = SNIC_IO_WRITE;
    q.length = q.buf.size = 4096;
    q.buf.base = buffer;
    written = 0;
    assert_int_equal(snic_io_submit(fix.client[0].handle[0].io, &p, 1), 1);
    ctlfix_run(&fix, 1000 * CTLFIX_MS);
    ctlfix_server_start(&fix, 0);
    ctlfix_run(&fix, 8900 * CTLFIX_MS);
    assert_int_equal(fix.events[SNIC_CONTROL_SERVER_DOWN], down);
    ctlfix_run(&fix, 700 * CTLFIX_MS);
    assert_int_equal(fix.events[SNIC_CONTROL_SERVER_DOWN], down + 1);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(written, 4096);
    snic_disk_faults_clear(fix.server[1].disk);
    ctlfix_run(&fix, 40000 * CTLFIX_MS);
    assert_int_equal(fix.server[1].ready, 1);
    ctlfix_server_start(&fix, 2);
    ctlfix_ready(&fix);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 4096, buffer), 4096);
}

/* The device stalls during a copy: after a minute the move fails; the segment stays at its
   server and is usable. */
static void test_control_copy_timeout_move_fails(void **state)
{
    struct snic_control_msg m;
    (void)state;
    attached();
    uint32_t to = where(1, 0).server == ctlfix_id(&fix, 0) ? 1 : 0;
    ctlfix_move_msg(&m, 0, 0, ctlfix_id(&fix, to));
    uint64_t from = snic_world_now(fix.world);
    ctlfix_request_begin(&fix, &m);
    ctlfix_run(&fix, 2 * CTLFIX_MS);
    stall(to, 100000);
    while (!fix.call_done)
        assert_int_equal(snic_world_step(fix.world), 1);
    assert_int_not_equal(fix.call_status, 0);
    assert_in_range(snic_world_now(fix.world) - from, 60000 * CTLFIX_MS, 61000 * CTLFIX_MS);
    assert_true(fix.events[SNIC_CONTROL_MOVE_FAILED] > 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), 4096);
    snic_disk_faults_clear(fix.server[to].disk);
    ctlfix_run(&fix, 110000 * CTLFIX_MS);
    ctlfix_ready(&fix);
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 4096, buffer), 4096);
}

/* ---- Numbers of servers ---- */

static struct snic_net_conn *conn;
static int conn_up, conn_gone, conn_status;
static unsigned char received[4096];
static uint32_t received_size;

static void conn_connected(void *ctx, struct snic_net_conn *c, int error)
{
    (void)ctx;
    (void)c;
    conn_up = error == 0;
}

static void conn_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct snic_control_msg m;
    (void)ctx;
    assert_true(received_size + b->size <= sizeof(received));
    memcpy(received + received_size, b->data, b->size);
    received_size += b->size;
    if (snic_control_get(&m, received, received_size, sizeof(received)) > 0)
        conn_status = m.type == SNIC_CONTROL_DONE ? m.status : 1;
    snic_net_put(c->net, b);
}

static void conn_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
    conn_gone = 1;
}

static void conn_sent(struct snic_net_send_req *r)
{
    (void)r;
}

/* A new store sends HELLO, and disconnects. @return 1 it has a number; SNIC_E* */
static int new_server(void)
{
    static const struct snic_net_stream_events ev = {
        .connected = conn_connected, .recv = conn_recv, .closed = conn_closed};
    const struct snic_net_addr at = {.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    static struct snic_net_send_req q;
    static unsigned char bytes[4096];
    struct snic_iov iov = {.base = bytes};
    struct snic_control_msg m;
    message(&m, SNIC_CONTROL_HELLO, "");
    m.role = SNIC_CONTROL_STORE;
    m.addr = m.peer =
        (struct snic_net_addr){.family = SNIC_NET_SIM, .node = CTLFIX_OPERATOR, .port = 9};
    conn_up = conn_gone = conn_status = 0;
    received_size = 0;
    assert_int_equal(snic_net_connect(fix.op_net, &at, &ev, NULL, &conn), 0);
    while (!conn_up)
        assert_int_equal(snic_world_step(fix.world), 1);
    memset(&q, 0, sizeof(q));
    iov.size = (size_t)snic_control_put(bytes, sizeof(bytes), &m);
    q.iov = &iov;
    q.iov_count = 1;
    q.done = conn_sent;
    q.region = SNIC_NO_REGION;
    assert_int_equal(snic_net_send(conn, &q), 1);
    while (conn_status == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    snic_net_abort(conn);
    while (!conn_gone)
        assert_int_equal(snic_world_step(fix.world), 1);
    ctlfix_run(&fix, CTLFIX_MS);
    return conn_status;
}

static uint32_t peers;

static void peer_connected(void *ctx, struct snic_net_conn *c, int error)
{
    (void)ctx;
    (void)c;
    peers += error == 0;
}

static void peer_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
    peers--;
}

/* Four servers copy from one: a fifth copy gets SNIC_EAGAIN, and succeeds when one of the four
   was silent for ten seconds. */
static void test_control_fifth_copy_from_a_server_waits(void **state)
{
    static const struct snic_net_stream_events ev = {
        .connected = peer_connected, .recv = conn_recv, .closed = peer_closed};
    struct snic_net_addr at = {.family = SNIC_NET_SIM, .port = 7001};
    struct snic_net_conn *c;
    struct snic_control_msg m;
    (void)state;
    attached();
    uint32_t from = 0;
    while (ctlfix_id(&fix, from) != where(1, 0).server)
        from++;
    uint32_t to = (from + 1) % 3;
    at.node = from;
    peers = 0;
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(snic_net_connect(fix.op_net, &at, &ev, NULL, &c), 0);
        ctlfix_run(&fix, CTLFIX_MS);
    }
    assert_int_equal(peers, 4);
    ctlfix_move_msg(&m, 0, 0, ctlfix_id(&fix, to));
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(ctlfix_request(&fix, &m), SNIC_EAGAIN);
        assert_int_equal(peers, 4);
        ctlfix_run(&fix, 50 * CTLFIX_MS);
    }
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 4096, buffer), 4096);
    ctlfix_run(&fix, 10000 * CTLFIX_MS);
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EAGAIN); /* now they are closed */
    ctlfix_run(&fix, 50 * CTLFIX_MS);
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 4096, buffer), 4096);
}

/* All server numbers are in use: one more server is refused and reported, the others are served,
   and a freed number is assigned to the next one. */
static void test_control_servers_used_up_enospc(void **state)
{
    struct snic_control_msg m;
    struct snic_control_stats s;
    (void)state;
    attached();
    for (uint32_t i = 3; i < SNIC_CONTROL_SERVERS_MAX; i++)
        assert_int_equal(new_server(), 1);
    snic_control_get_stats(fix.ctl, &s);
    assert_int_equal(s.servers, SNIC_CONTROL_SERVERS_MAX);
    assert_int_equal(fix.events[SNIC_CONTROL_SERVER_REFUSED], 0);
    for (uint32_t i = 1; i <= 10; i++) {
        assert_int_equal(new_server(), SNIC_ENOSPC);
        assert_int_equal(fix.events[SNIC_CONTROL_SERVER_REFUSED], i);
    }
    assert_int_equal(fix.event_error[SNIC_CONTROL_SERVER_REFUSED], SNIC_ENOSPC);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 8u << 20, buffer), 8u << 20);
    message(&m, SNIC_CONTROL_FORGET, "");
    m.server = 77;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(new_server(), 1);
    assert_int_equal(new_server(), SNIC_ENOSPC);
    begin_again();
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 8u << 20, buffer), 8u << 20);
}

/* Times beyond the ranges in the header are refused by memsize; so is a disk number beyond
   disks_max. */
static void test_control_limits_of_options(void **state)
{
    const uint64_t least = 100 * CTLFIX_MS, most = UINT64_C(86400000000000);
    struct snic_control_opts o = {.opts_size = sizeof(o), .loop = fix.loop, .net = fix.net};
    uint64_t *const of[] = {&o.lease_ns, &o.server_ns};
    (void)state;
    o.io = fix.io;
    for (uint32_t i = 0; i < SNIC_COUNTOF(of); i++) {
        const uint64_t good[] = {0, least, most}, bad[] = {1, least - 1, most + 1, UINT64_MAX};
        for (uint32_t k = 0; k < SNIC_COUNTOF(good); k++) {
            *of[i] = good[k];
            assert_true(snic_control_memsize(&o) > 0);
        }
        for (uint32_t k = 0; k < SNIC_COUNTOF(bad); k++) {
            *of[i] = bad[k];
            assert_int_equal(snic_control_memsize(&o), 0);
        }
        *of[i] = 0;
    }
    ctlfix_client_start(&fix, 0);
    for (uint32_t i = 4; i < 100; i++) /* the default */
        assert_int_equal(snic_control_client_attach(fix.client[0].cc, i, "root", 0, NULL),
                         SNIC_EINVAL);
}

/* A silent holder is replaced after lease_ns, not before; one that sends messages keeps its
   lease. A silent server is disconnected after server_ns. */
static void test_control_silent_peers_time_out(void **state)
{
    (void)state;
    attached();
    ctlfix_client_start(&fix, 1);
    ctlfix_run(&fix, 10000 * CTLFIX_MS); /* five times lease_ns */
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), SNIC_EBUSY);
    uint64_t from = snic_world_now(fix.world);
    snic_net_fabric_partition(fix.fabric, CTLFIX_CLIENT, CTLFIX_CTL, 1);
    snic_net_fabric_partition(fix.fabric, 1, CTLFIX_CTL, 1);
    while (fix.events[SNIC_CONTROL_SERVER_DOWN] == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    assert_in_range(snic_world_now(fix.world) - from, 1000 * CTLFIX_MS, 1600 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), SNIC_EBUSY);
    while (fix.events[SNIC_CONTROL_ENDED] == 0)
        assert_int_equal(snic_world_step(fix.world), 1);
    assert_in_range(snic_world_now(fix.world) - from, 1000 * CTLFIX_MS, 2100 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), 0);
    snic_net_fabric_partition(fix.fabric, 1, CTLFIX_CTL, 0);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(fix.server[1].ready, 1);
}

int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_control_sessions_used_up_reported),
        T(test_control_server_without_session_reported),
        T(test_control_segments_used_up_enospc),
        T(test_control_ops_used_up_all_ends),
        T(test_control_stalled_server_replaced),
        T(test_control_copy_timeout_move_fails),
        T(test_control_fifth_copy_from_a_server_waits),
        T(test_control_servers_used_up_enospc),
        T(test_control_limits_of_options),
        T(test_control_silent_peers_time_out),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
