/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The contract of fscache.h at its edges: options, memory, what is refused, and the log. */
#include "test_fscache_world.h"

static struct {
    unsigned reports[SNIC_FSCACHE_UNLOCKED + 1];
    int32_t error;
    int by_name;
    int dry; /* ops.get() has nothing */
} edge;

static void edge_report(void *ctx, const struct snic_fscache_report *r)
{
    (void)ctx;
    edge.reports[r->kind]++;
    edge.error = r->error;
}

static int edge_by_name(void *ctx, const struct snic_fsop *k)
{
    (void)ctx;
    return edge.by_name && k->kind == SNIC_FSOP_OPEN;
}

static struct snic_fscache_req *edge_get(void *ctx)
{
    return edge.dry ? NULL : world_get(ctx);
}

static void edge_open(int write_back)
{
    memset(&edge, 0, sizeof(edge));
    world_open(support_seed(), write_back, 0);
    w.fc->opts.ops.report = edge_report;
    w.fc->opts.ops.by_name = edge_by_name;
    w.fc->opts.ops.get = edge_get;
}

static void edge_on(void)
{
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_ON; n++)
        world_step();
    assert_int_equal(w.fc->state, FSCACHE_ON);
}

/* A cache made of options that are wrong would fail when it is in use. */
static void test_fscache_edges_options_refused_by_name(void **state)
{
    struct snic_fscache_opts o;

    (void)state;
    world_open(support_seed(), 1, 0);
    o = w.opts;
    o.flags = 1u << 5;
    assert_string_equal(snic_fscache_opts_wrong(&o), "flags: unknown bits");
    o = w.opts;
    o.inodes_max = (1u << 30) + 1;
    assert_string_equal(snic_fscache_opts_wrong(&o), "inodes_max: not 1..2^30");
    o = w.opts;
    o.reserved = 1;
    assert_string_equal(snic_fscache_opts_wrong(&o), "reserved: not 0");
    o = w.opts;
    o.ops.lost = NULL;
    assert_string_equal(snic_fscache_opts_wrong(&o), "ops: one that must be set is NULL");
    o = w.opts;
    o.pages_max++;
    assert_string_equal(snic_fscache_opts_wrong(&o),
                        "pages_max: not a number of pages that snic_hcache_opts takes");
    assert_int_equal(snic_fscache_memsize(&o), 0);
    o = w.opts;
    o.opts_size = 3;
    assert_string_equal(snic_fscache_opts_wrong(&o),
                        "opts_size: not the struct's, or an unknown option is set");
    world_close();
}

/* One byte less, or another alignment: nothing is written. */
static void test_fscache_edges_memory_short_is_untouched(void **state)
{
    struct snic_fscache *fc = NULL;
    unsigned char *mem;
    size_t size;

    (void)state;
    world_open(support_seed(), 1, 0);
    size = snic_fscache_memsize(&w.opts);
    mem = support_guard_alloc(size, SNIC_FSCACHE_ALIGN);
    memset(mem, 7, size);
    assert_int_equal(snic_fscache_init(&fc, mem, size - 1, w.g.loop[0], &w.opts), SNIC_ENOSPC);
    assert_int_equal(snic_fscache_init(&fc, mem + 8, size, w.g.loop[0], &w.opts), SNIC_EINVAL);
    assert_null(fc);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(mem[i], 7);
    support_guard_free(mem);
    world_close();
}

/* Files beyond inodes_max are refused, and no longer when others are closed; 16 are known here. */
static void test_fscache_edges_inodes_run_out(void **state)
{
    uint64_t handles[40];
    uint64_t inos[40];
    unsigned opened = 0;
    struct op *o;

    (void)state;
    edge_open(1);
    edge_on();
    for (unsigned i = 0; i < 40; i++) {
        char name[8] = {'x', (char)('a' + i / 26), (char)('a' + i % 26), 0};

        inos[i] = rig_file(&w.g, name);
    }
    for (unsigned i = 0; i < 40; i++) {
        int64_t result;

        o = op_new(SNIC_FSOP_OPEN, 0);
        o->call->r.op.ino = inos[i];
        o->call->r.op.handle = 0;
        o->call->r.op.flags |= SNIC_FSOP_OPEN_READ;
        op_go(o);
        ops_end();
        result = o->result;
        handles[i] = o->call->r.op.handle;
        ops_free();
        assert_int_equal(result, i < 16 - FILES ? 0 : SNIC_ENOMEM);
        opened += result == 0;
    }
    assert_int_equal(opened, 16 - FILES);
    assert_int_equal(snic_fscache_check(w.fc), 0);
    for (unsigned i = 0; i < opened; i++) {
        o = op_new(SNIC_FSOP_RELEASE, 0);
        o->call->r.op.ino = inos[i];
        o->call->r.op.handle = handles[i];
        assert_int_equal(op_alone(o), 0);
    }
    o = op_bytes(SNIC_FSOP_READ, 0, 0, 1);
    o->call->r.op.ino = inos[39];
    o->call->r.op.handle = 0;
    assert_true(op_alone(o) != SNIC_ENOMEM);
    world_close();
}

/* Without a request of its own a READ gets its pages one by one, but not a size. */
static void test_fscache_edges_no_own_request(void **state)
{
    struct op *o;

    (void)state;
    edge_open(1);
    edge_on();
    o = op_bytes(SNIC_FSOP_WRITE, 0, 0, 20000);
    o->call->r.op.flags |= SNIC_FSOP_DIRECT;
    now_write(o);
    assert_int_equal(op_alone(o), 20000);
    memcpy(w.model[0], w.now[0], 20000);
    edge.dry = 1;
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 100)), 100); /* by hcachelink */
    fscache_inode_find(w.fc, w.ino[0])->sized = 0;
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), SNIC_ENOMEM);
    edge.dry = 0;
    check_all(0);
    check_store(0);
    world_close();
}

/*
 * After a death a request by an inode number that may be another file's is stale; dirty pages that
 * no process takes are lost at abandon, and that is reported.
 */
static void test_fscache_edges_abandoned_after_death(void **state)
{
    struct snic_fscache_stats s;
    struct op *o, *open;

    (void)state;
    edge_open(1);
    w.deaths = 1;
    edge_on();
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), 0); /* the size */
    o = op_bytes(SNIC_FSOP_WRITE, 0, 0, 20000);
    assert_int_equal(op_alone(o), 20000);
    snic_fscache_get_stats(w.fc, &s);
    assert_int_equal(s.on, 1);
    assert_int_equal(s.writes, 1);
    assert_int_equal(s.dirty_inodes, 1);
    assert_int_equal(s.dirty_bytes, 20000);
    snic_fscache_abandon(w.fc); /* not after a death: nothing */
    assert_int_equal(w.fc->state, FSCACHE_ON);
    w.refuses = 1;
    world_kill();
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_DEAD; n++)
        world_step();
    edge.by_name = 1;
    open = op_new(SNIC_FSOP_OPEN, 0);
    open->call->r.op.flags |= SNIC_FSOP_TRUNC | SNIC_FSOP_OPEN_WRITE; /* it waits for a flush */
    op_go(open);
    for (int n = 0; n < 50; n++)
        world_step();
    assert_false(open->done);
    assert_int_equal(w.lost, 0);
    snic_fscache_abandon(w.fc);
    ops_end();
    assert_int_equal(open->result, SNIC_ESTALE);
    ops_free();
    assert_int_equal(w.fc->state, FSCACHE_OFF);
    assert_int_equal(w.lost, 1);
    assert_int_equal(edge.reports[SNIC_FSCACHE_LOST], 1);
    w.refuses = 0;
    w.size[0] = 0;
    check_all(0);
    world_close();
}

/* Reads that the store refuses end with its error, for the size and for pages, and leave no lock.
 */
static void test_fscache_edges_store_fails_then_reads_fail(void **state)
{
    struct op *o;

    (void)state;
    edge_open(0);
    edge_on();
    o = op_bytes(SNIC_FSOP_WRITE, 0, 0, 20000);
    o->call->r.op.flags |= SNIC_FSOP_DIRECT;
    now_write(o);
    assert_int_equal(op_alone(o), 20000);
    memcpy(w.model[0], w.now[0], 20000);
    assert_int_equal(op_alone(op_new(SNIC_FSOP_FSYNC, 0)), 0);
    w.fails = SNIC_FSOP_READ;
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 20000)), SNIC_EIO);
    w.fails = SNIC_FSOP_GETATTR;
    fscache_inode_find(w.fc, w.ino[0])->sized = 0;
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 20000)), SNIC_EIO);
    w.fails = 0;
    assert_int_equal(w.fc->busy, 0);
    check_all(0);
    world_close();
}

/* A close flushes what is dirty, as the unmount of a mount in use does. */
static void test_fscache_edges_close_flushes(void **state)
{
    static unsigned char all[FILE_MAX];
    struct op *o;

    (void)state;
    edge_open(1);
    edge_on();
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), 0); /* the size */
    o = op_bytes(SNIC_FSOP_WRITE, 0, 0, 20000);
    now_write(o);
    assert_int_equal(op_alone(o), 20000);
    assert_int_equal(w.fc->stats.dirty_inodes, 1);
    snic_fscache_close(w.fc);
    assert_int_equal(w.fc->state, FSCACHE_OFF);
    assert_int_equal(w.lost, 0);
    assert_int_equal(edge.reports[SNIC_FSCACHE_LOST], 0);
    assert_int_equal(snic_fs_get(w.g.fs, "/a", all, sizeof(all)), 20000);
    assert_memory_equal(all, w.now[0], 20000);
    world_end();
}

/* The file system's process is dead, and none follows: a close ends, and what is lost is reported.
 */
static void test_fscache_edges_close_after_death_reports_losses(void **state)
{
    (void)state;
    edge_open(1);
    edge_on();
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), 0); /* the size */
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_WRITE, 0, 0, 20000)), 20000);
    w.refuses = 1;
    world_kill();
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_DEAD; n++)
        world_step();
    snic_fscache_close(w.fc);
    assert_null(w.fc->half);
    assert_int_equal(w.lost, 1);
    assert_int_equal(edge.reports[SNIC_FSCACHE_LOST], 1);
    world_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fscache_edges_options_refused_by_name),
        cmocka_unit_test(test_fscache_edges_memory_short_is_untouched),
        cmocka_unit_test(test_fscache_edges_inodes_run_out),
        cmocka_unit_test(test_fscache_edges_no_own_request),
        cmocka_unit_test(test_fscache_edges_abandoned_after_death),
        cmocka_unit_test(test_fscache_edges_store_fails_then_reads_fail),
        cmocka_unit_test(test_fscache_edges_close_flushes),
        cmocka_unit_test(test_fscache_edges_close_after_death_reports_losses),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
