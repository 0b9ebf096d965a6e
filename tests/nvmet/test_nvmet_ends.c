/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How connections end, and what others notice: hosts that die with commands at the device, that do
 * not read, do not send, do not speak, or speak nonsense; namespaces that go; Abort; shutdown.
 */
#include "test_nvmet_util.h"

#include <string.h>

static struct tx x;
static struct nh_queue admin[TX_HOSTS], io[TX_HOSTS], second;
static unsigned char out[1 << 16], in[1 << 16];

/* ---- Clients that are no hosts ---- */

struct raw {
    struct snic_net *net;
    struct snic_net_conn *c;
    struct snic_net_send_req req;
    struct snic_iov iov;
    unsigned char bytes[4096];
    int connected, eof, closed;
};

static void raw_connected(void *ctx, struct snic_net_conn *c, int error)
{
    (void)c;
    ((struct raw *)ctx)->connected = error == 0;
}

static void raw_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)c;
    snic_net_put(((struct raw *)ctx)->net, b);
}

static void raw_eof(void *ctx, struct snic_net_conn *c)
{
    (void)c;
    ((struct raw *)ctx)->eof = 1;
}

static void raw_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)c;
    (void)reason;
    ((struct raw *)ctx)->closed = 1;
}

static void raw_open(struct raw *r, int host)
{
    static const struct snic_net_stream_events events = {
        .connected = raw_connected, .recv = raw_recv, .eof = raw_eof, .closed = raw_closed};
    memset(r, 0, sizeof(*r));
    r->net = x.h[host].net;
    assert_int_equal(snic_net_connect(r->net, &x.h[host].addr, &events, r, &r->c), 0);
}

static void raw_sent(struct snic_net_send_req *s)
{
    (void)s;
}

static void raw_send(struct raw *r, uint32_t bytes)
{
    r->iov.base = r->bytes;
    r->iov.size = bytes;
    r->req.iov = &r->iov;
    r->req.iov_count = 1;
    r->req.region = SNIC_NO_REGION;
    r->req.done = raw_sent;
    assert_int_equal(snic_net_send(r->c, &r->req), 1);
}

static void raw_end(struct raw *r)
{
    if (!r->closed)
        snic_net_abort(r->c);
    while (!r->closed)
        tx_run(&x, TX_MS);
}

/** Neither silence nor a greeting alone keeps a connection beyond greet_ns. */
static void test_nvmet_without_connect_closed(void **state)
{
    static struct raw r;
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    raw_open(&r, 1);
    assert_int_equal(nh_open(&admin[0], &x.h[0]), 0);
    tx_run(&x, 9000 * TX_MS);
    assert_int_equal(tx_stats(&x).conns, 2);
    tx_run(&x, 2000 * TX_MS);
    assert_int_equal(tx_stats(&x).conns, 0);
    assert_int_equal(tx_stats(&x).timeouts, 2);
    assert_true(r.closed && admin[0].closed);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** Nonsense ends its own connection and nothing else. */
static void test_nvmet_garbage_ends_its_connection(void **state)
{
    static struct raw r[8];
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    for (uint32_t i = 0; i < 8; i++) {
        raw_open(&r[i], 1);
        tx_run(&x, TX_MS);
        tx_fill(r[i].bytes, sizeof(r[i].bytes), i + support_seed());
        if (i == 0)
            r[i].bytes[0] = SNIC_NVMETCP_CAPSULE_CMD; /* before the greeting */
        raw_send(&r[i], i == 1 ? 3 : 4096);
    }
    tx_run(&x, 100 * TX_MS);
    assert_int_equal(nh_io(&io[0], SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), 0);
    for (uint32_t i = 0; i < 8; i++)
        raw_end(&r[i]);
    tx_run(&x, 100 * TX_MS);
    assert_true(tx_stats(&x).violations >= 6);
    assert_int_equal(tx_stats(&x).conns, 2);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** Four times as many silent clients as there are places: a host connects all the same, and one
 * that is connected is never closed for them. */
static void test_nvmet_flood_of_clients_keeps_no_host_out(void **state)
{
    static struct raw r[64];
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 1, &admin[1], &io[1]);
    for (uint32_t i = 0; i < 64; i++) {
        raw_open(&r[i], 0);
        if (i % 8 == 7)
            tx_run(&x, TX_MS);
    }
    tx_run(&x, TX_MS);
    assert_true(tx_stats(&x).evicted > 0);
    tx_host(&x, 2, &admin[2], &io[2]);
    assert_int_equal(nh_io(&io[2], SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), 0);
    assert_int_equal(nh_io(&io[1], SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), 0);
    for (uint32_t i = 0; i < 64; i++)
        raw_end(&r[i]);
    for (int i = 1; i < 3; i++) {
        nh_close(&io[i]);
        nh_close(&admin[i]);
    }
    tx_run(&x, 100 * TX_MS);
    assert_int_equal(tx_stats(&x).conns, 0);
    tx_close(&x);
}

/** A host name has its most connections; another host has places still. */
static void test_nvmet_connections_of_a_host_bounded(void **state)
{
    static struct nh_queue q[9];
    (void)state;
    tx_opts(&x); /* 16, of a host 8 */
    tx_open(&x);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(nh_admin(&q[i], &x.h[0]), 0);
    assert_int_equal(nh_admin(&q[8], &x.h[0]), SNIC_NVME_SC_CONNECT_BUSY);
    assert_int_equal(tx_stats(&x).busy, 1);
    tx_host(&x, 1, &admin[1], &io[1]);
    nh_close(&q[3]);
    tx_run(&x, 10 * TX_MS);
    assert_int_equal(nh_connect(&q[8], 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
    for (uint32_t i = 0; i < 9; i++)
        nh_close(&q[i]);
    nh_close(&io[1]);
    nh_close(&admin[1]);
    tx_close(&x);
}

/* ---- Dead hosts ---- */

enum { OLD = 6 };
static struct nh_cmd old[OLD];
static unsigned char old_data[OLD][TX_BLOCK];

static void old_writes(struct nh_queue *q)
{
    for (uint32_t i = 0; i < OLD; i++) {
        memset(old_data[i], 0xaa, TX_BLOCK);
        nh_rw(&old[i], SNIC_NVME_IO_WRITE, 1, i, 1, old_data[i], TX_BLOCK);
        assert_int_equal(nh_submit(q, &old[i]), 0);
    }
    while (tx_stats(&x).at_device < OLD)
        tx_run(&x, TX_MS / 10);
}

static void new_writes(struct nh_queue *q)
{
    memset(out, 0xbb, TX_BLOCK);
    for (uint32_t i = 0; i < OLD; i++)
        assert_int_equal(nh_io(q, SNIC_NVME_IO_WRITE, 1, i, 1, out, TX_BLOCK), 0);
    tx_run(&x, 500 * TX_MS);
    for (uint32_t i = 0; i < OLD; i++)
        assert_memory_equal(snic_disk_bytes(x.disk) + i * TX_BLOCK, out, TX_BLOCK);
}

static void slow_disk(void)
{
    tx_opts(&x);
    x.stubborn = 1;
    x.d.delay_min_ns = 20 * TX_MS;
    x.d.delay_max_ns = 100 * TX_MS;
}

/** A host dies with writes at the device and connects again: no old write lands on a new one. */
static void test_nvmet_host_dies_and_returns(void **state)
{
    (void)state;
    slow_disk();
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    old_writes(&io[0]);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_host(&x, 0, &admin[0], &io[0]); /* waits for the old ones to end */
    assert_int_equal(tx_stats(&x).at_device, 0);
    new_writes(&io[0]);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** One queue dies: writes of the host's other queue are held until its own have ended. */
static void test_nvmet_queue_dies_other_is_held(void **state)
{
    (void)state;
    slow_disk();
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    assert_int_equal(nh_io_queue(&second, &admin[0], 2), 0);
    old_writes(&io[0]);
    nh_close(&io[0]);
    new_writes(&second);
    assert_true(tx_stats(&x).held > 0);
    assert_int_equal(nh_io_queue(&io[0], &admin[0], 1), 0); /* its number is free again */
    nh_close(&io[0]);
    nh_close(&second);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** Connects that a fence holds are connections of their host, too. */
static void test_nvmet_held_connects_of_a_host_bounded(void **state)
{
    static struct nh_queue q[6];
    static struct nh_cmd cmd[6];
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e = {
        .opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_CONNECT, .cdw11 = 31};
    uint32_t connected = 0;
    (void)state;
    slow_disk();
    x.o.host_conns_max = 4;
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    old_writes(&io[0]);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    memset(&d, 0, sizeof(d));
    memcpy(d.hostid, x.h[0].hostid, sizeof(d.hostid));
    snic_put_le16(&d.cntlid, SNIC_NVME_CNTLID_DYNAMIC);
    memcpy(d.subnqn, x.h[0].subnqn, strlen(x.h[0].subnqn));
    memcpy(d.hostnqn, x.h[0].hostnqn, strlen(x.h[0].hostnqn));
    for (int i = 0; i < 6; i++) {
        assert_int_equal(nh_open(&q[i], &x.h[0]), 0);
        snic_nvmetcp_host_inline(q[i].e, 8192);
        nh_prepare(&cmd[i], &e, &d, sizeof(d));
        assert_int_equal(nh_submit(&q[i], &cmd[i]), 0);
    }
    for (int i = 0; i < 6; i++)
        connected += nh_wait(&q[i], &cmd[i]) == 0;
    assert_true(connected > 0 && connected <= 4);
    assert_int_equal(tx_stats(&x).busy, 6 - connected);
    for (int i = 0; i < 6; i++)
        nh_close(&q[i]);
    tx_close(&x);
}

/** The keep-alive of a host that is cut off expires: all its connections end. */
static void test_nvmet_keep_alive_expires(void **state)
{
    (void)state;
    slow_disk();
    tx_open(&x);
    x.h[0].kato_ms = 1000;
    tx_host(&x, 0, &admin[0], &io[0]);
    tx_host(&x, 1, &admin[1], &io[1]);
    old_writes(&io[0]);
    snic_net_fabric_partition(x.fabric, 2, 1, 1);
    snic_net_fabric_partition(x.fabric, 1, 2, 1);
    tx_run(&x, 3000 * TX_MS);
    assert_int_equal(tx_stats(&x).queues, 1);
    assert_int_equal(nh_io(&io[1], SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), 0);
    snic_net_fabric_partition(x.fabric, 2, 1, 0);
    snic_net_fabric_partition(x.fabric, 1, 2, 0);
    for (int i = 0; i < 2; i++) {
        nh_close(&io[i]);
        nh_close(&admin[i]);
    }
    tx_close(&x);
}

/** Data that were asked for do not come: the connection ends, and delays no other before. */
static void test_nvmet_data_do_not_come(void **state)
{
    struct nh_cmd cmd;
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    tx_host(&x, 1, &admin[1], &io[1]);
    io[0].deaf = 1; /* does not see the R2T */
    nh_rw(&cmd, SNIC_NVME_IO_WRITE, 1, 0, 16, out, sizeof(out));
    assert_int_equal(nh_submit(&io[0], &cmd), 0);
    tx_run(&x, 5000 * TX_MS);
    assert_int_equal(tx_stats(&x).conns, 4);
    assert_int_equal(nh_io(&io[1], SNIC_NVME_IO_WRITE, 1, 0, 16, out, sizeof(out)), 0);
    tx_run(&x, 6000 * TX_MS);
    assert_int_equal(tx_stats(&x).timeouts, 1);
    assert_int_equal(tx_stats(&x).conns, 3);
    for (int i = 0; i < 2; i++) {
        nh_close(&io[i]);
        nh_close(&admin[i]);
    }
    tx_close(&x);
}

/** A host that reads nothing holds its own memory only. */
static void test_nvmet_deaf_host_beside_another(void **state)
{
    static struct nh_cmd cmds[31];
    static unsigned char data[31][1 << 16];
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    tx_host(&x, 1, &admin[1], &io[1]);
    io[0].deaf = 1;
    for (uint32_t i = 0; i < SNIC_COUNTOF(cmds); i++) {
        nh_rw(&cmds[i], SNIC_NVME_IO_READ, 1, i * 16, 16, data[i], sizeof(data[i]));
        assert_int_equal(nh_submit(&io[0], &cmds[i]), 0);
    }
    tx_run(&x, 1000 * TX_MS);
    assert_true(tx_stats(&x).reads < SNIC_COUNTOF(cmds));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(nh_io(&io[1], SNIC_NVME_IO_READ, 1, i, 1, in, TX_BLOCK), 0);
    io[0].deaf = 0;
    nh_pump(&io[0]);
    for (uint32_t i = 0; i < SNIC_COUNTOF(cmds); i++)
        assert_int_equal(nh_wait(&io[0], &cmds[i]), 0);
    for (int i = 0; i < 2; i++) {
        nh_close(&io[i]);
        nh_close(&admin[i]);
    }
    tx_close(&x);
}

/* ---- Orderly ends ---- */

/** Disconnect is answered, then the connection closes; the controller stays. */
static void test_nvmet_disconnect_answered(void **state)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_DISCONNECT};
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    assert_int_equal(nh_run(&io[0], &e, NULL, 0, NULL), 0);
    while (!io[0].closed)
        nh_once(&x.h[0]);
    assert_int_equal(io[0].term, 0);
    nh_close(&io[0]);
    assert_int_equal(nh_identify(&admin[0], SNIC_NVME_CNS_CTRL, 0, in), 0);
    assert_int_equal(tx_stats(&x).conns, 1);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** A reset ends the I/O queues at once; the admin queue enables the controller again. */
static void test_nvmet_reset_ends_queues(void **state)
{
    uint64_t csts = SNIC_NVME_CSTS_RDY;
    (void)state;
    slow_disk();
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    old_writes(&io[0]);
    assert_int_equal(nh_property_set(&admin[0], SNIC_NVME_PROP_CC, 0x460000), 0);
    while ((csts & SNIC_NVME_CSTS_RDY) != 0)
        assert_int_equal(nh_property_get(&admin[0], SNIC_NVME_PROP_CSTS, &csts), 0);
    assert_int_equal(tx_stats(&x).at_device, 0);
    for (uint32_t i = 0; i < OLD; i++)
        assert_int_equal(nh_wait(&io[0], &old[i]), NH_ENDED);
    nh_close(&io[0]);
    assert_int_equal(nh_property_set(&admin[0], SNIC_NVME_PROP_CC, SNIC_NVME_CC_EN | 0x460000), 0);
    assert_int_equal(nh_io_queue(&io[0], &admin[0], 1), 0);
    new_writes(&io[0]);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** A command that waits for memory is aborted; one at the device is not. */
static void test_nvmet_abort(void **state)
{
    static struct nh_cmd cmds[4];
    static unsigned char data[4][1 << 16];
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_ABORT};
    uint64_t result;
    (void)state;
    slow_disk();
    x.o.data_bytes = 128u << 10;
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    for (uint32_t i = 0; i < 4; i++) {
        nh_rw(&cmds[i], SNIC_NVME_IO_READ, 1, 0, 16, data[i], sizeof(data[i]));
        assert_int_equal(nh_submit(&io[0], &cmds[i]), 0);
    }
    while (tx_stats(&x).waits < 2)
        tx_run(&x, TX_MS / 10);
    e.cdw10 = 1 | (uint32_t)cmds[3].c.cid << 16;
    assert_int_equal(nh_run(&admin[0], &e, NULL, 0, &result), 0);
    assert_int_equal(result & 1, 0);
    assert_int_equal(nh_wait(&io[0], &cmds[3]), SNIC_NVME_SC_ABORT_REQUESTED);
    e.cdw10 = 1 | (uint32_t)cmds[0].c.cid << 16;
    assert_int_equal(nh_run(&admin[0], &e, NULL, 0, &result), 0);
    assert_int_equal(result & 1, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(nh_wait(&io[0], &cmds[i]), 0);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

static struct snic_io *removed_io;

static void removed(void *ctx, struct snic_io *handle)
{
    assert_int_equal(tx_stats(ctx).at_device, 0);
    removed_io = handle;
}

/** A namespace goes under I/O: what is at the device ends, the rest is refused, the id is free. */
static void test_nvmet_namespace_removed_under_io(void **state)
{
    static struct nh_cmd more[8];
    uint32_t refused = 0;
    (void)state;
    removed_io = NULL;
    slow_disk();
    x.d.depth = 8;
    x.o.data_bytes = 128u << 10;
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    old_writes(&io[0]);
    for (uint32_t i = 0; i < 8; i++) {
        nh_rw(&more[i], SNIC_NVME_IO_WRITE, 1, 20, 16, out, sizeof(out));
        assert_int_equal(nh_submit(&io[0], &more[i]), 0);
    }
    tx_run(&x, TX_MS);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 1, removed, &x), 0);
    assert_null(removed_io);
    for (uint32_t i = 0; i < OLD; i++)
        assert_int_equal(nh_wait(&io[0], &old[i]), 0);
    for (uint32_t i = 0; i < 8; i++)
        refused += nh_wait(&io[0], &more[i]) == (SNIC_NVME_SC_INVALID_NS | SNIC_NVME_DNR);
    assert_true(refused >= 4);
    assert_ptr_equal(removed_io, x.io);
    assert_int_equal(nh_io(&io[0], SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK),
                     SNIC_NVME_SC_INVALID_NS | SNIC_NVME_DNR);
    x.n.nsid = 1;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &x.n), 1);
    assert_int_equal(nh_io(&io[0], SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), 0);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** A namespace goes while a host owes it the data of a write: that delays the removal no longer
 * than it takes to give back what a switch has reserved, and the write is refused. */
static void test_nvmet_namespace_removed_before_data(void **state)
{
    struct nh_cmd cmd;
    (void)state;
    removed_io = NULL;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    io[0].deaf = 1; /* does not see the R2T yet */
    nh_rw(&cmd, SNIC_NVME_IO_WRITE, 1, 0, 16, out, sizeof(out));
    assert_int_equal(nh_submit(&io[0], &cmd), 0);
    tx_run(&x, 100 * TX_MS);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 1, removed, &x), 0);
    tx_run(&x, 100 * TX_MS);
    assert_ptr_equal(removed_io, x.io);
    io[0].deaf = 0;
    nh_pump(&io[0]);
    assert_int_equal(nh_wait(&io[0], &cmd), SNIC_NVME_SC_INVALID_NS | SNIC_NVME_DNR);
    assert_int_equal(snic_disk_op_count(x.disk), 0);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** The namespace shrinks while a write's data are under way: it is refused before the device. */
static void test_nvmet_namespace_shrinks_before_data(void **state)
{
    struct nh_cmd cmd;
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    io[0].deaf = 1; /* does not see the R2T yet */
    nh_rw(&cmd, SNIC_NVME_IO_WRITE, 1, TX_BLOCKS - 16, 16, out, sizeof(out));
    assert_int_equal(nh_submit(&io[0], &cmd), 0);
    tx_run(&x, 100 * TX_MS);
    assert_int_equal(snic_nvmesub_ns_resize(snic_nvmet_engine(x.t, 0), 1, TX_BLOCKS / 2), 0);
    snic_nvmet_run(x.t);
    io[0].deaf = 0;
    nh_pump(&io[0]);
    assert_int_equal(nh_wait(&io[0], &cmd), SNIC_NVME_SC_LBA_RANGE | SNIC_NVME_DNR);
    assert_int_equal(snic_disk_op_count(x.disk), 0);
    assert_int_equal(nh_io(&io[0], SNIC_NVME_IO_WRITE, 1, 0, 16, out, sizeof(out)), 0);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** The target closes while commands are in every state. */
static void test_nvmet_close_with_commands_inside(void **state)
{
    static struct nh_cmd cmds[24];
    static unsigned char data[24][1 << 16];
    (void)state;
    slow_disk();
    x.d.depth = 2;
    x.o.data_bytes = 128u << 10;
    tx_open(&x);
    tx_host(&x, 0, &admin[0], &io[0]);
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t blocks = i < 8 ? 1 : 16;
        nh_rw(&cmds[i], i % 2 != 0 ? SNIC_NVME_IO_WRITE : SNIC_NVME_IO_READ, 1, i * 16, blocks,
              data[i], blocks * TX_BLOCK);
        assert_int_equal(nh_submit(&io[0], &cmds[i]), 0);
    }
    tx_run(&x, 2 * TX_MS);
    assert_true(tx_stats(&x).rooms > 0 && tx_stats(&x).waits > 0);
    tx_close_target(&x);
    nh_close(&io[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/* Each without and with a switch in front of the device, on one loop and on several. */
#define TEST(f)                                                                                    \
    cmocka_unit_test_setup(f, tx_without_switch),                                                  \
        {#f "_switch", f, tx_with_switch, tx_without_switch, NULL},                                \
        {#f "_loops", f, tx_with_loops, tx_without_switch, NULL},                                  \
    {                                                                                              \
#f "_both", f, tx_with_both, tx_without_switch, NULL                                       \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nvmet_without_connect_closed),
        TEST(test_nvmet_garbage_ends_its_connection),
        TEST(test_nvmet_flood_of_clients_keeps_no_host_out),
        TEST(test_nvmet_connections_of_a_host_bounded),
        TEST(test_nvmet_host_dies_and_returns),
        TEST(test_nvmet_queue_dies_other_is_held),
        TEST(test_nvmet_held_connects_of_a_host_bounded),
        TEST(test_nvmet_keep_alive_expires),
        TEST(test_nvmet_data_do_not_come),
        TEST(test_nvmet_deaf_host_beside_another),
        TEST(test_nvmet_disconnect_answered),
        TEST(test_nvmet_reset_ends_queues),
        TEST(test_nvmet_abort),
        TEST(test_nvmet_namespace_removed_under_io),
        TEST(test_nvmet_namespace_removed_before_data),
        TEST(test_nvmet_namespace_shrinks_before_data),
        TEST(test_nvmet_close_with_commands_inside),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
