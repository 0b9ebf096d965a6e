/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests that cross each other, each order made on purpose. */
#include "test_fscache_world.h"

static void order_open(int write_back)
{
    world_open(support_seed(), write_back, 0);
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_ON; n++)
        world_step();
    assert_int_equal(w.fc->state, FSCACHE_ON);
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), 0); /* the size */
}

static struct op *order_write(uint64_t offset, uint64_t length, uint32_t flags)
{
    struct op *o = op_bytes(SNIC_FSOP_WRITE, 0, offset, length);

    o->call->r.op.flags |= flags;
    now_write(o);
    memcpy(w.model[0] + offset, o->data, length);
    if ((flags & SNIC_FSOP_APPEND) != 0)
        o->call->r.op.offset = 0;
    return o;
}

/* Appends that wait for a page would take the same place, and the last one would win. */
static void test_fscache_order_appends_at_once_do_not_overlap(void **state)
{
    (void)state;
    order_open(1);
    assert_int_equal(op_alone(order_write(0, 100, SNIC_FSOP_DIRECT)), 100);
    for (unsigned i = 0; i < 3; i++)
        (void)order_write(w.size[0], 5000, SNIC_FSOP_APPEND);
    for (unsigned i = 0; i < w.count; i++)
        op_go(&w.ops[i]);
    ops_end();
    for (unsigned i = 0; i < w.count; i++)
        assert_int_equal(w.ops[i].result, 5000);
    ops_free();
    check_all(0);
    check_store(0);
    world_close();
}

/* After an append by the file system all pages are dropped: what is dirty has to be there first. */
static void test_fscache_order_dirty_then_forwarded_append_is_flushed(void **state)
{
    (void)state;
    order_open(1);
    assert_int_equal(op_alone(order_write(0, 30000, 0)), 30000);
    assert_int_equal(w.fc->stats.dirty_inodes, 1);
    assert_int_equal(op_alone(order_write(w.size[0], 5000, SNIC_FSOP_APPEND | SNIC_FSOP_DIRECT)),
                     5000);
    check_all(0);
    check_store(0);
    world_close();
}

/* A size that was read before a change, and arrives after it, would hide the bytes behind it. */
static void test_fscache_order_change_then_older_size_is_not_learned(void **state)
{
    struct op *o;

    (void)state;
    order_open(0);
    assert_int_equal(op_alone(order_write(0, 20000, SNIC_FSOP_DIRECT)), 20000);
    fscache_inode_find(w.fc, w.ino[0])->sized = 0;
    w.slow_kind = SNIC_FSOP_GETATTR;
    w.slow_ns = 5000000;
    op_go(op_bytes(SNIC_FSOP_READ, 0, 0, 100));
    while (!w.slow_now)
        world_step();
    op_go(order_write(10 * FSCACHE_PAGE, 5000, SNIC_FSOP_DIRECT));
    while (!w.ops[1].done)
        world_step();
    assert_false(w.ops[0].done);
    ops_end();
    assert_int_equal(w.ops[0].result, 100);
    ops_free();
    o = op_bytes(SNIC_FSOP_READ, 0, 10 * FSCACHE_PAGE, 5000);
    assert_int_equal(op_alone(o), 5000);
    check_all(0);
    world_close();
}

/* Attributes that were read before the region was flushed, and arrive after that, are older than
   those that were answered before. */
static void test_fscache_order_release_then_older_attributes_are_read_again(void **state)
{
    struct snic_fsop_attr a;
    struct op *o;

    (void)state;
    order_open(1);
    assert_int_equal(op_alone(order_write(0, 20000, 0)), 20000);
    assert_int_equal(w.fc->stats.dirty_inodes, 1);
    w.slow_kind = SNIC_FSOP_GETATTR;
    w.slow_ns = UINT64_C(1000000000);
    o = op_new(SNIC_FSOP_GETATTR, 0);
    op_go(o);
    while (!w.slow_now)
        world_step();
    w.alone = 0;
    while (w.fc->state != FSCACHE_OFF)
        world_step();
    assert_false(o->done);
    ops_end();
    assert_int_equal(o->result, 0);
    a = o->call->r.op.attr;
    snic_fscache_amend(w.fc, &a);
    assert_int_equal(a.size, 20000);
    ops_free();
    w.alone = 1;
    world_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fscache_order_appends_at_once_do_not_overlap),
        cmocka_unit_test(test_fscache_order_dirty_then_forwarded_append_is_flushed),
        cmocka_unit_test(test_fscache_order_change_then_older_size_is_not_learned),
        cmocka_unit_test(test_fscache_order_release_then_older_attributes_are_read_again),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
