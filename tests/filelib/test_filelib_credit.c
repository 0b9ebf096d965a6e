/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tenants and credit between a host and the service: which waits, in which order, and for which. */
#include "filelink.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { TENANTS = 4, BASE = 100, BLOCK = 4096, BLOCKS = 64, LOG_MAX = 4096 };

/* ---- A device that grants credit: in front of the simulated one ---- */

static struct {
    const struct snic_io_ops *real;
    struct snic_io_ops ops;
    uint32_t grant[TENANTS]; /* 0: grants nothing */
    uint32_t out[TENANTS];
    uint32_t high[TENANTS];
    uint64_t offsets[LOG_MAX]; /* in the order of submission, of tenants BASE.. */
    uint32_t tenants[LOG_MAX];
    uint32_t logged;
} device;

static void device_done(struct snic_io_req *req)
{
    uint32_t t = req->tenant - BASE;
    uint64_t done = req->backend[5];
    if (t < TENANTS) {
        device.out[t]--;
        req->credit = device.grant[t];
    }
    req->done = (snic_io_done_fn)(uintptr_t)done;
    req->done(req);
}

static int device_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct snic_io_req *req = reqs[i];
        uint32_t t = req->tenant - BASE;
        req->backend[5] = (uint64_t)(uintptr_t)req->done;
        req->done = device_done;
        assert_int_equal(device.real->submit(io, &req, 1), 1);
        if (t >= TENANTS)
            continue;
        device.out[t]++;
        if (device.out[t] > device.high[t])
            device.high[t] = device.out[t];
        if (device.logged < LOG_MAX) {
            device.offsets[device.logged] = req->offset;
            device.tenants[device.logged++] = t;
        }
    }
    return (int)n;
}

/* ---- Set-up ---- */

struct rig {
    struct filelink l;
    uint64_t file;
    unsigned char *mem;
    struct snic_filelib_req *r;
    uint32_t finished;
    uint32_t order[LOG_MAX]; /* of completion: index of the request */
};

static struct rig rig;

static void rig_done(struct snic_filelib_req *q)
{
    assert_true(rig.finished < LOG_MAX);
    rig.order[rig.finished++] = q->user32;
}

/** A file of BLOCKS blocks, written before the device begins to grant. */
static void rig_open(uint32_t credit)
{
    memset(&rig, 0, sizeof(rig));
    memset(&device, 0, sizeof(device));
    rig.l.fx.disk_opts.delay_min_ns = 10000;
    rig.l.fx.disk_opts.delay_max_ns = 10000; /* in order, so that the order is the sender's */
    rig.l.fx.mount.depth = 256;
    rig.l.serve.tenant = BASE;
    rig.l.serve.tenants = TENANTS - 1;
    rig.l.open.tenants = TENANTS;
    rig.l.open.credit = credit;
    rig.l.open.payload_align = BLOCK;
    filelink_open(&rig.l);
    assert_int_equal(
        filelink_named(rig.l.group, SNIC_FILES_CREATE, SNIC_FILES_ROOT, "f", &rig.file), 0);
    rig.mem = calloc(BLOCKS, BLOCK);
    rig.r = calloc(BLOCKS, sizeof(*rig.r));
    for (uint32_t i = 0; i < BLOCKS; i++) {
        memset(rig.mem + (size_t)i * BLOCK, (int)i + 1, BLOCK);
        assert_int_equal(filelink_write(rig.l.group, rig.file, (uint64_t)i * BLOCK,
                                        rig.mem + (size_t)i * BLOCK, BLOCK, 0),
                         BLOCK);
    }
    memset(rig.mem, 0, BLOCKS * BLOCK);
    device.real = rig.l.fx.io->ops;
    device.ops = *device.real;
    device.ops.submit = device_submit;
    rig.l.fx.io->ops = &device.ops;
    memset(device.high, 0, sizeof(device.high));
    device.logged = 0;
}

static void rig_close(void)
{
    filelink_group_close(&rig.l);
    filelink_server_close(&rig.l);
    rig.l.fx.io->ops = device.real;
    filelink_close(&rig.l);
    free(rig.mem);
    free(rig.r);
}

static void submit(uint32_t i, uint32_t tenant, uint8_t priority)
{
    struct snic_filelib_req *q = &rig.r[i];
    memset(q, 0, sizeof(*q));
    q->done = rig_done;
    q->op = SNIC_FILES_READ;
    q->user32 = i;
    q->tenant = tenant;
    q->priority = priority;
    q->file = rig.file;
    q->offset = (uint64_t)i * BLOCK;
    q->length = BLOCK;
    q->buf.base = rig.mem + (size_t)i * BLOCK;
    q->buf.size = BLOCK;
    snic_filelib_submit(rig.l.group, &q, 1);
}

static void finish(uint32_t n)
{
    while (rig.finished < n)
        assert_int_equal(snic_world_step(rig.l.fx.world), 1);
}

static void check_read(uint32_t i)
{
    assert_int_equal(rig.r[i].result, BLOCK);
    for (uint32_t k = 0; k < BLOCK; k++)
        assert_int_equal(rig.mem[(size_t)i * BLOCK + k], i + 1);
}

static struct snic_filelib_stats stats(void)
{
    struct snic_filelib_stats s;
    snic_filelib_get_stats(rig.l.group, &s);
    return s;
}

/* ---- Tests ---- */

/* A service without a switch sends no grant, and then nothing waits. */
static void test_filelib_credit_none_granted_nothing_held(void **state)
{
    (void)state;
    rig_open(0);
    for (uint32_t i = 0; i < BLOCKS; i++)
        submit(i, 0, 0);
    finish(BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        check_read(i);
        assert_int_equal(rig.r[i].credit, 0);
    }
    assert_true(device.high[0] > 16);
    assert_int_equal(stats().held, 0);
    rig_close();
}

/* Never more on their way than granted, in the order of submission, and all of them arrive. */
static void test_filelib_credit_bounds_what_is_on_its_way(void **state)
{
    (void)state;
    for (uint32_t grant = 1; grant <= 5; grant++) {
        rig_open(2);
        for (uint32_t t = 0; t < TENANTS; t++)
            device.grant[t] = grant;
        for (uint32_t i = 0; i < BLOCKS; i++)
            submit(i, 1, 0);
        finish(BLOCKS);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            check_read(i);
            assert_int_equal(rig.r[i].credit, grant);
            assert_int_equal(rig.order[i], i);
        }
        assert_int_equal(device.high[1], grant > 2 ? grant : 2); /* 2 to begin with */
        assert_true(stats().held > 0);
        for (uint32_t i = 0; i < device.logged; i++)
            assert_int_equal(device.tenants[i], 1);
        rig_close();
    }
}

/* The one that is over its credit must not stand in the way of another tenant. */
static void test_filelib_credit_other_tenant_passes(void **state)
{
    (void)state;
    rig_open(1);
    device.grant[0] = 1;
    device.grant[2] = 16;
    for (uint32_t i = 0; i < 40; i++)
        submit(i, 0, 0);
    for (uint32_t i = 40; i < 44; i++)
        submit(i, 2, 0);
    finish(44);
    uint32_t before = 0;
    for (uint32_t i = 0; rig.order[i] != 43; i++)
        before += rig.order[i] < 40;
    assert_true(before < 10); /* of 40 */
    assert_int_equal(device.high[0], 1);
    for (uint32_t i = 0; i < 44; i++)
        check_read(i);
    rig_close();
}

/* What others wait for, as a log write, is not behind its tenant's backlog. */
static void test_filelib_credit_urgent_waits_in_front(void **state)
{
    (void)state;
    rig_open(1);
    device.grant[1] = 1;
    for (uint32_t i = 0; i < 30; i++)
        submit(i, 1, 0);
    submit(30, 1, 7);
    submit(31, 1, 1);
    finish(32);
    uint32_t at = 0;
    while (rig.order[at] != 30)
        at++;
    assert_true(at < 5);
    assert_int_equal(rig.order[at + 1], 31);
    for (uint32_t i = 1; i < 30 - at; i++)
        assert_true(rig.order[at + 1 + i] == rig.order[at + i] + 1 || i == 1);
    rig_close();
}

/* A host names only what it may: its library refuses, and so does the service. */
static void test_filelib_credit_tenant_out_of_range_refused(void **state)
{
    (void)state;
    rig_open(0);
    submit(0, TENANTS, 0);     /* not the library's */
    submit(1, TENANTS - 1, 0); /* the library's, but not the service's */
    submit(2, TENANTS - 2, 0);
    finish(3);
    assert_int_equal(rig.r[0].result, SNIC_EINVAL);
    assert_int_equal(rig.r[1].result, SNIC_EPERM);
    check_read(2);
    assert_int_equal(device.tenants[0], TENANTS - 2);
    rig_close();
    struct snic_filelib_opts bad = {.opts_size = sizeof(bad), .tenants = 4096};
    assert_true(snic_filelib_memsize(&bad) != 0);
    for (bad.tenants = 4097; bad.tenants <= 40960; bad.tenants += 40960 - 4097)
        assert_int_equal(snic_filelib_memsize(&bad), 0);
    struct snic_files_server_opts s = {
        .opts_size = sizeof(s), .tenant = UINT32_MAX - 1, .tenants = 3};
    assert_int_equal(snic_files_server_memsize(&s), 0);
    s.tenants = 2;
    assert_true(snic_files_server_memsize(&s) != 0);
}

/* A long request is several messages, each on credit; other operations need none. */
static void test_filelib_credit_long_and_control_requests(void **state)
{
    struct snic_filelib_req sync;
    (void)state;
    rig_open(1);
    device.grant[0] = 1;
    device.grant[1] = 1;
    for (uint32_t i = 1; i < 20; i++)
        submit(i, 1, 0);
    struct snic_filelib_req *q = &rig.r[0];
    q->done = rig_done;
    q->op = SNIC_FILES_READ;
    q->file = rig.file;
    q->length = BLOCKS * BLOCK;
    q->buf.base = malloc(BLOCKS * BLOCK);
    q->buf.size = BLOCKS * BLOCK;
    snic_filelib_submit(rig.l.group, &q, 1);
    memset(&sync, 0, sizeof(sync));
    sync.op = SNIC_FILES_FSYNC;
    sync.file = rig.file;
    assert_int_equal(snic_filelib_run(rig.l.group, &sync), 0);
    finish(20);
    assert_int_equal(rig.r[0].result, BLOCKS * BLOCK);
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(((unsigned char *)rig.r[0].buf.base)[(size_t)i * BLOCK], i + 1);
    free(rig.r[0].buf.base);
    for (uint32_t i = 1; i < 20; i++)
        check_read(i);
    rig_close();
}

/* Held requests are owned: they end with the group. */
static void test_filelib_credit_held_end_with_group(void **state)
{
    (void)state;
    rig_open(1);
    device.grant[0] = device.grant[1] = 1;
    for (uint32_t i = 0; i < 40; i++)
        submit(i, i % 2, 0);
    finish(2);
    filelink_group_close(&rig.l);
    assert_int_equal(rig.finished, 40);
    uint32_t cancelled = 0;
    for (uint32_t i = 0; i < 40; i++)
        cancelled += rig.r[i].result == SNIC_ECANCELED;
    assert_in_range(cancelled, 30, 38);
    rig_close();
}

/* A failing device grants nothing: the credit of what failed comes back all the same. */
static void test_filelib_credit_errors_do_not_eat_it(void **state)
{
    (void)state;
    rig_open(2);
    struct snic_fault f = {
        .kind = SNIC_FAULT_ERROR, .after = 1, .repeat = 2 * BLOCKS, .error = SNIC_EIO};
    assert_int_equal(snic_disk_fault(rig.l.fx.disk, &f), 0);
    for (uint32_t i = 0; i < BLOCKS; i++)
        submit(i, 1, 0);
    finish(BLOCKS);
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(rig.r[i].result, SNIC_EIO);
    assert_int_equal(device.high[1], 2);
    snic_disk_faults_clear(rig.l.fx.disk);
    rig.finished = 0;
    submit(0, 1, 0);
    finish(1);
    check_read(0);
    rig_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_credit_none_granted_nothing_held),
        cmocka_unit_test(test_filelib_credit_bounds_what_is_on_its_way),
        cmocka_unit_test(test_filelib_credit_other_tenant_passes),
        cmocka_unit_test(test_filelib_credit_urgent_waits_in_front),
        cmocka_unit_test(test_filelib_credit_tenant_out_of_range_refused),
        cmocka_unit_test(test_filelib_credit_long_and_control_requests),
        cmocka_unit_test(test_filelib_credit_held_end_with_group),
        cmocka_unit_test(test_filelib_credit_errors_do_not_eat_it),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
