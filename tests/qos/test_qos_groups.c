/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Groups and floors through the handle: changed, viewed, and a close that waits for no cap. */
#include "test_qos_util.h"

#include <string.h>

enum { BYTES = 1 << 20, READS = 64 };

struct read {
    struct snic_io_req req;
    unsigned char data[4096];
    int again, done;
};

static struct snic_world *world;
static struct snic_loop *loop;
static struct snic_disk *disk;
static struct snic_io *io;
static struct read reads[READS];

static void setup(uint32_t groups)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {
        .opts_size = sizeof(d), .size = BYTES, .delay_min_ns = 50000, .delay_max_ns = 90000};
    struct snic_gimbal_opts g = {.opts_size = sizeof(g), .groups_max = groups};
    struct snic_qos_opts o = {.opts_size = sizeof(o), .depth = READS, .gimbal = &g};
    assert_int_equal(snic_world_open(&world, &w), 0);
    assert_int_equal(snic_world_loop(world, 1, &loop), 0);
    assert_int_equal(snic_disk_open(&disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&io, loop, disk), 0);
    assert_int_equal(qx_open(&io, io, &o), 0);
    memset(reads, 0, sizeof(reads));
}

static void teardown(void)
{
    snic_io_close(io);
    qx_free();
    snic_disk_close(disk);
    snic_loop_close(loop);
    snic_world_close(world);
}

static void pass(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now;
}

static void run(uint64_t ns)
{
    struct snic_timer t;
    snic_timer_init(&t, pass);
    snic_loop_arm(loop, &t, snic_world_now(world) + ns);
    (void)snic_world_run(world, snic_world_now(world) + ns, UINT64_MAX);
    snic_loop_cancel(loop, &t);
    assert_int_equal(snic_qos_check(io), 0);
}

static void read_submit(struct read *a)
{
    struct snic_io_req *req = &a->req;
    assert_int_equal(snic_io_submit(io, &req, 1), 1);
}

static void read_done(struct snic_io_req *req)
{
    struct read *a = SNIC_CONTAINER(req, struct read, req);
    assert_int_equal(req->result, 4096);
    a->done++;
    if (a->again)
        read_submit(a);
}

static void read_start(uint32_t i, uint32_t tenant)
{
    struct read *a = &reads[i];
    snic_io_req_init(&a->req);
    a->req.op = SNIC_IO_READ;
    a->req.offset = i * 4096;
    a->req.length = sizeof(a->data);
    a->req.buf.base = a->data;
    a->req.buf.size = sizeof(a->data);
    a->req.region = SNIC_NO_REGION;
    a->req.tenant = tenant;
    a->req.done = read_done;
    a->again = 1;
    read_submit(a);
}

/* Tenants 1 and 2 under a group's cap; one moves out of it; a floor is shown. */
static void test_qos_groups_share_a_cap(void **state)
{
    struct snic_gimbal_tenant_opts group = {.opts_size = sizeof(group), .ios_per_second = 1000};
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .group = 1};
    struct snic_qos_tenant_view q;
    struct snic_gimbal_tenant_view v;
    struct snic_qos_view all;
    (void)state;
    setup(2);
    assert_int_equal(snic_qos_tenant_add(io, 1, &t), SNIC_EINVAL); /* no such group */
    assert_int_equal(snic_qos_group_add(io, 3, &group), SNIC_EINVAL);
    assert_int_equal(snic_qos_group_add(io, 1, &group), 0);
    assert_int_equal(snic_qos_group_add(io, 1, &group), SNIC_EEXIST);
    assert_int_equal(snic_qos_group_set(io, 2, &group), SNIC_ENOENT);
    assert_int_equal(snic_qos_group_remove(io, 2), SNIC_ENOENT);
    assert_int_equal(snic_qos_get_group_view(io, 2, &v), SNIC_ENOENT);
    assert_int_equal(snic_qos_tenant_add(io, 1, &t), 0);
    assert_int_equal(snic_qos_tenant_add(io, 2, &t), 0);
    for (uint32_t i = 0; i < 32; i++)
        read_start(i, 1 + i % 2);
    run(2000000000);
    assert_int_equal(snic_qos_get_group_view(io, 1, &v), 0);
    assert_in_range(v.ios[0], 1980, 2020);
    assert_int_equal(v.members, 2);
    assert_int_equal(snic_qos_group_remove(io, 1), SNIC_EBUSY);
    t.group = 0;
    t.floor_ios_per_second = 500;
    assert_int_equal(snic_qos_tenant_set(io, 2, &t), 0);
    run(1000000000);
    assert_int_equal(snic_qos_get_tenant_view(io, 2, &q), 0);
    assert_true(q.engine.group == 0 && q.engine.floor_ios_per_second == 500);
    assert_true(q.engine.ios[0] > 5000); /* no cap any more */
    snic_qos_get_view(io, &all);
    assert_true(all.device.floors == 1 && all.device.groups == 1);
    group.ios_per_second = 1;
    assert_int_equal(snic_qos_group_set(io, 1, &group), 0);
    for (uint32_t i = 0; i < 32; i++)
        reads[i].again = 0;
    assert_int_equal(snic_qos_tenant_remove(io, 1), 0);
    uint64_t before = snic_world_now(world);
    snic_io_close(io); /* of a removed tenant, too */
    assert_true(snic_world_now(world) - before < 1000000000);
    qx_free();
    snic_disk_close(disk);
    snic_loop_close(loop);
    snic_world_close(world);
}

/* The default tenant cannot begin in a group: there is none yet. */
static void test_qos_groups_default_tenant_has_none(void **state)
{
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .group = 1};
    struct snic_qos_opts o = {.opts_size = sizeof(o), .tenant = &t};
    (void)state;
    setup(0);
    const char *wrong = snic_qos_opts_wrong(io, &o);
    assert_non_null(wrong);
    assert_memory_equal(wrong, "group:", 6);
    assert_int_equal(snic_qos_group_add(io, 1, NULL), SNIC_EINVAL);
    teardown();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qos_groups_share_a_cap),
        cmocka_unit_test(test_qos_groups_default_tenant_has_none),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
