/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Targets that stand still in part, or do not keep to the protocol: no old write lands on a newer
 * one, close returns, results are as documented.
 */
#include "test_nvmehost_util.h"
#include "wire.h"

#include <string.h>

static struct hx x;
static struct wire wire;
static unsigned char data[256 << 10], back[256 << 10];

/* ---- What the wire does to PDUs of the target ---- */

/* Responses are counted from 1 per connection; C2HData since `armed`. */
static struct {
    uint32_t at, size; /* the PDU under way */
    uint8_t type;
    uint32_t data, responses;
    int armed;
    int setup;           /* armed from the beginning of a connection on */
    int stuck_head;      /* SQHD of the first response is 0 */
    uint32_t block_data; /* which C2HData is an Identify Namespace whose LBADS becomes 13 */
    uint32_t mute_data;  /* which has no SUCCESS: its response never comes */
} edit[2];

static void edit_byte(uint32_t conn, unsigned char *b)
{
    uint32_t at = edit[conn].at++;
    int is_data = edit[conn].type == SNIC_NVMETCP_C2H_DATA;
    if (at == 0) {
        edit[conn].type = *b;
        edit[conn].size = 0;
        edit[conn].data += *b == SNIC_NVMETCP_C2H_DATA && edit[conn].armed;
        edit[conn].responses += *b == SNIC_NVMETCP_CAPSULE_RESP;
    }
    if (at == 1 && is_data && edit[conn].armed && edit[conn].data == edit[conn].mute_data)
        *b &= (unsigned char)~SNIC_NVMETCP_SUCCESS;
    if (at >= 4 && at < 8)
        edit[conn].size |= (uint32_t)*b << (at - 4) * 8;
    if (at == 24 + 130 && is_data && edit[conn].armed && edit[conn].data == edit[conn].block_data)
        *b = 13;
    if ((at == 16 || at == 17) && edit[conn].type == SNIC_NVMETCP_CAPSULE_RESP &&
        edit[conn].responses == 1 && edit[conn].stuck_head)
        *b = 0;
    if (at >= 7 && at + 1 == edit[conn].size)
        edit[conn].at = 0;
}

static void edit_pdus(struct wire *w, uint32_t conn, uint64_t at, unsigned char *bytes, size_t size)
{
    (void)w;
    if (conn > 1)
        return;
    if (at == 0) { /* another connection */
        edit[conn].at = edit[conn].responses = 0;
        edit[conn].armed = edit[conn].setup;
        edit[conn].data = 0;
    }
    for (size_t i = 0; i < size; i++)
        edit_byte(conn, &bytes[i]);
}

static void edit_arm(uint32_t block_data, uint32_t mute_data)
{
    wire.edit = edit_pdus;
    edit[0].armed = 1;
    edit[0].data = 0;
    edit[0].block_data = block_data;
    edit[0].mute_data = mute_data;
}

/* ---- */

/* The first path leads through the wire: its connection 0 is the admin queue, 1 the I/O queue. */
static void open_wired(uint32_t paths)
{
    x.paths = paths;
    hx_open_target(&x);
    struct snic_net_addr to = x.addrs[0];
    wire_open(&wire, x.world, x.fabric, 3, 4421, &to);
    wire.edit = edit_pdus;
    memset(edit, 0, sizeof(edit));
    x.addrs[0].node = 3;
    x.addrs[0].port = 4421;
}

static void resize(uint64_t blocks)
{
    assert_int_equal(snic_nvmesub_ns_resize(snic_nvmet_engine(x.t, 0), 1, blocks), 0);
    snic_nvmet_run(x.t);
}

static void open_host(void)
{
    hx_open_host(&x);
    assert_int_equal(snic_nvmehost_wait(x.h, 10 * HX_S), 0);
    x.io = snic_nvmehost_io(x.h);
    hx_run(&x, 200 * HX_MS);
}

static void close_wired(void)
{
    hx_close_host(&x);
    wire_close(&wire);
    hx_close(&x);
}

/* An I/O queue's thread of the target stands still, the admin queue's ends its connection: what the
 * I/O queue holds can still be carried out. */
static void test_nvmehost_admin_end_proves_nothing(void **state)
{
    struct hx_req w;
    (void)state;
    hx_opts(&x);
    x.stubborn = 1;
    x.o.io_ns = 200 * HX_MS;
    open_wired(2);
    open_host();
    assert_int_equal(
        snic_nvmesub_ana_set(snic_nvmet_engine(x.t, 0), 1, 1, SNIC_NVME_ANA_NON_OPTIMIZED), 0);
    snic_nvmet_run(x.t);
    hx_run(&x, 200 * HX_MS);
    assert_int_equal(hx_stats(&x).usable, 2);
    wire_hold(&wire, 1, 1);
    hx_start(&x, &w, SNIC_IO_WRITE, 0, data, 4096);
    hx_run(&x, 500 * HX_MS); /* the path ends, the other one is up */
    assert_int_equal(hx_stats(&x).failures, 1);
    assert_int_equal(w.done, 0);
    assert_int_equal(hx_stats(&x).proofs, 0);
    assert_int_equal(hx_wait(&x, &w), 4096);
    assert_int_equal(hx_stats(&x).proofs, 0);
    assert_int_equal(hx_stats(&x).fenced, 1);
    close_wired();
}

/* Another block size on a path that is up: no command is made with it. */
static void test_nvmehost_other_block_never_used(void **state)
{
    (void)state;
    hx_opts(&x);
    open_wired(1);
    open_host();
    memset(data, 7, 3 * HX_BLOCK);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, 3 * HX_BLOCK), 3 * HX_BLOCK);
    edit_arm(2, 3); /* the log, Identify Namespace, the descriptors */
    resize(HX_BLOCKS / 2);
    hx_run(&x, 50 * HX_MS);
    assert_int_equal(edit[0].data >= 2, 1);
    assert_int_equal(hx_do(&x, SNIC_IO_ZERO, HX_BLOCK, NULL, HX_BLOCK), HX_BLOCK);
    memset(data + HX_BLOCK, 0, HX_BLOCK);
    assert_int_equal(hx_do(&x, SNIC_IO_READ, 0, back, 3 * HX_BLOCK), 3 * HX_BLOCK);
    assert_memory_equal(back, data, 3 * HX_BLOCK);
    assert_int_equal(hx_stats(&x).failures, 1);
    assert_int_equal(hx_stats(&x).error, SNIC_ESTALE);
    assert_int_equal(x.io->geometry.size, HX_BYTES / 2);
    close_wired();
}

/* A query after an event is not answered, Keep Alives are: the path ends in time, and so does
 * close. */
static void test_nvmehost_event_without_answer_ends_path(void **state)
{
    (void)state;
    hx_opts(&x);
    x.o.connect_ns = 2 * HX_S;
    open_wired(1);
    open_host();
    edit_arm(0, 2);
    resize(HX_BLOCKS / 2);
    hx_run(&x, 1500 * HX_MS);
    assert_int_equal(hx_stats(&x).failures, 0);
    assert_int_equal(x.io->geometry.size, HX_BYTES);
    hx_run(&x, 2 * HX_S);
    assert_int_equal(hx_stats(&x).failures, 1);
    assert_int_equal(hx_stats(&x).error, SNIC_ETIMEDOUT);
    assert_int_equal(x.io->geometry.size, HX_BYTES / 2);
    edit_arm(0, 2);
    resize(HX_BLOCKS / 4);
    hx_run(&x, 50 * HX_MS);
    assert_int_equal(edit[0].data, 2);
    uint64_t now = snic_world_now(x.world);
    hx_close_host(&x);
    assert_in_range(snic_world_now(x.world), now, now + 5 * HX_S);
    close_wired();
}

static struct snic_timer bell;
static uint32_t rings;

static void ring(struct snic_timer *t, uint64_t now)
{
    resize(HX_BLOCKS / 2 + rings++ % 2);
    snic_loop_arm(x.tloop, t, now + 5 * HX_MS);
}

/* Events without end, of a target that is far away, do not keep close from its end. */
static void test_nvmehost_events_without_end_close_returns(void **state)
{
    static const struct snic_net_link far = {.delay_min_ns = 10 * HX_MS,
                                             .delay_max_ns = 10 * HX_MS};
    (void)state;
    hx_opts(&x);
    open_wired(1);
    open_host();
    assert_int_equal(snic_net_fabric_link(x.fabric, 1, 3, &far), 0);
    assert_int_equal(snic_net_fabric_link(x.fabric, 3, 1, &far), 0);
    rings = 0;
    snic_timer_init(&bell, ring);
    snic_loop_arm(x.tloop, &bell, snic_world_now(x.world) + 5 * HX_MS);
    hx_run(&x, HX_S);
    assert_true(hx_stats(&x).events > 5);
    uint64_t now = snic_world_now(x.world);
    hx_close_host(&x);
    assert_in_range(snic_world_now(x.world), now, now + 2 * HX_S);
    snic_loop_cancel(x.tloop, &bell);
    close_wired();
}

/* A change of which something was done, or a command lost, ends as unknown whatever the status of
 * its last command. */
static void test_nvmehost_status_after_a_part_is_unknown(void **state)
{
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR, .after = 2, .error = SNIC_ENOSPC};
    struct hx_req r;
    (void)state;
    hx_opts(&x);
    x.stubborn = 1;
    x.d.delay_min_ns = x.d.delay_max_ns = 20 * HX_MS;
    hx_open(&x);
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    hx_start(&x, &r, SNIC_IO_WRITE, 0, data, 128 << 10);
    assert_int_equal(hx_wait(&x, &r), SNIC_EUNKNOWN);
    assert_int_equal(r.req.os_error, SNIC_NVME_SC_CAPACITY);
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(hx_do(&x, SNIC_IO_READ, 0, back, 128 << 10), SNIC_ENOSPC);
    hx_start(&x, &r, SNIC_IO_WRITE, 0, data, 4096);
    hx_run(&x, 10 * HX_MS);
    hx_kill_target(&x);
    hx_run(&x, 100 * HX_MS);
    f.after = 1;
    f.error = SNIC_EIO;
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    hx_start_target(&x);
    assert_int_equal(hx_wait(&x, &r), SNIC_EUNKNOWN);
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, 4096), SNIC_EIO);
    hx_close(&x);
}

/* A target whose SQ flow control stands still stops its own path alone. */
static void test_nvmehost_full_queue_stops_no_other(void **state)
{
    static struct hx_req r[32];
    (void)state;
    hx_opts(&x);
    open_wired(2);
    edit[1].stuck_head = 1;
    open_host();
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(hx_do(&x, SNIC_IO_WRITE, i * 4096, data, 4096), 4096);
    for (uint32_t i = 0; i < 32; i++)
        hx_start(&x, &r[i], SNIC_IO_WRITE, i * 4096, data, 4096);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(hx_wait(&x, &r[i]), 4096);
    assert_true(hx_stats(&x).failures >= 1);
    assert_int_equal(hx_stats(&x).error, SNIC_EPROTO);
    close_wired();
}

/* A request that is lost on each path in turn is tried for loss_ns and no longer. */
static void test_nvmehost_lost_on_all_paths_in_turn_ends(void **state)
{
    static const struct snic_fault slow = {
        .kind = SNIC_FAULT_DELAY, .after = 1, .repeat = UINT64_MAX, .delay_ns = HX_S / 2};
    struct hx_req r;
    (void)state;
    hx_opts(&x);
    x.paths = 2;
    x.o.io_ns = 200 * HX_MS;
    x.o.loss_ns = HX_S;
    hx_open(&x);
    hx_run(&x, 200 * HX_MS);
    assert_int_equal(snic_disk_fault(x.disk, &slow), 0);
    hx_start(&x, &r, SNIC_IO_READ, 0, back, 4096);
    assert_int_equal(hx_wait(&x, &r), SNIC_EIO);
    assert_in_range(r.req.done_ns - r.req.queued_ns, HX_S, HX_S + 300 * HX_MS);
    assert_true(hx_stats(&x).failures >= 3);
    hx_close(&x);
}

/* Paths that are set up at once, to different namespaces: one of them only is used. */
static void test_nvmehost_paths_at_once_differ_one_used(void **state)
{
    static const struct snic_net_link near = {.delay_min_ns = 500000, .delay_max_ns = 500000};
    (void)state;
    for (uint32_t i = 0; i < 9; i++) { /* the other path from a little faster to a little slower */
        uint64_t ns = 800000 + i * 50000;
        struct snic_net_link link = {.delay_min_ns = ns, .delay_max_ns = ns};
        hx_opts(&x);
        open_wired(2);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(snic_net_fabric_link(x.fabric, 2 - k, 1 + k, &link), 0);
            assert_int_equal(snic_net_fabric_link(x.fabric, 2 + k, 3 - k, &near), 0);
            assert_int_equal(snic_net_fabric_link(x.fabric, k == 0 ? 1 : 3, k == 0 ? 3 : 1, &near),
                             0);
        }
        edit[0].setup = 1;
        edit[0].block_data = 2; /* the controller, the namespace */
        open_host();
        assert_int_equal(hx_stats(&x).up, 1);
        assert_true(hx_stats(&x).failures >= 1);
        assert_int_equal(hx_stats(&x).error, SNIC_ESTALE);
        close_wired();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmehost_admin_end_proves_nothing),
        cmocka_unit_test(test_nvmehost_other_block_never_used),
        cmocka_unit_test(test_nvmehost_event_without_answer_ends_path),
        cmocka_unit_test(test_nvmehost_events_without_end_close_returns),
        cmocka_unit_test(test_nvmehost_status_after_a_part_is_unknown),
        cmocka_unit_test(test_nvmehost_full_queue_stops_no_other),
        cmocka_unit_test(test_nvmehost_lost_on_all_paths_in_turn_ends),
        cmocka_unit_test(test_nvmehost_paths_at_once_differ_one_used),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
