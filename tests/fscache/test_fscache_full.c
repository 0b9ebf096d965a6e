/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The cache before a store that has no more space. */
#include "test_fscache_world.h"

static void pass(uint64_t ns)
{
    uint64_t until = snic_world_now(w.g.w) + ns;

    while (snic_world_now(w.g.w) < until)
        world_step();
}

/* A request that must not wait long. */
static int64_t op_soon(struct op *o)
{
    uint64_t since = snic_world_now(w.g.w);
    int64_t result = op_alone(o);

    assert_true(snic_world_now(w.g.w) - since < UINT64_C(1000000000));
    return result;
}

static struct op *write_new(uint32_t file, uint64_t offset, uint64_t length, uint32_t flags)
{
    struct op *o = op_bytes(SNIC_FSOP_WRITE, file, offset, length);

    o->call->r.op.flags |= flags;
    now_write(o);
    return o;
}

static void keep(uint32_t file)
{
    memcpy(w.model[file], w.now[file], FILE_MAX);
}

static void forget(uint32_t file)
{
    memset(w.model[file], 0, FILE_MAX);
    memset(w.now[file], 0, FILE_MAX);
    w.size[file] = 0;
}

static uint64_t failures(void)
{
    return rig_engine_stats(snic_hcachelink_dpu_engine(w.g.dpu)).flush_failures;
}

/* File 0 is in the store, 1 to 3 are in pages only, as many as there are, and the store is full.
   @return the inode whose bytes fill it */
static uint64_t full_begin(uint64_t seed)
{
    uint64_t filler;

    w.space = 6 << 20;
    world_open(seed, 1, 0);
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_ON; n++)
        world_step();
    rig_fill(w.model[0], FILE_MAX, support_seed());
    assert_int_equal(snic_fs_put(w.g.fs, "/a", w.model[0], FILE_MAX, 0644), 0);
    memcpy(w.now[0], w.model[0], FILE_MAX);
    w.size[0] = FILE_MAX;
    fscache_inode_find(w.fc, w.ino[0])->sized = 0; /* nothing of it is cached */
    for (uint32_t f = 1; f < FILES; f++)           /* their sizes are known */
        assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, f, 0, 1)), 0);
    filler = rig_file(&w.g, "filler");
    rig_exhaust(&w.g, filler);
    w.fc->pages_max = 64 * 128; /* as if much more could be dirty */
    for (uint32_t n = 0; n < 38; n += 2)
        for (uint32_t f = 1; f < FILES; f++) {
            struct op *o = write_new(f, n * FSCACHE_PAGE, 2 * FSCACHE_PAGE, 0);

            assert_int_equal(op_alone(o), 2 * FSCACHE_PAGE);
            keep(f);
        }
    assert_true(snic_hcache_dirty(&w.fc->host) == 114); /* of 128 */
    w.fc->pages_max = 128;
    return filler;
}

static void full_end(uint64_t filler)
{
    struct snic_fsop cut = {.kind = SNIC_FSOP_SETATTR,
                            .flags = SNIC_FSOP_CHECKED,
                            .set_mask = SNIC_FSOP_SET_SIZE,
                            .ino = filler};

    assert_int_equal(snic_fs_call(w.g.fs, &cut), 0);
    pass(UINT64_C(20000000000));
    assert_int_equal(fscache_full(w.fc), 0);
}

/* Pages that cannot be written out block no others: what needs no space is done, what needs
   some is refused, at once; sync and close report it, and to each other handle its next fsync,
   once. */
static void test_fscache_full_store_blocks_no_other(void **state)
{
    uint64_t filler = full_begin(support_seed());
    uint64_t before;
    struct op *o;

    (void)state;
    for (int round = 0; round < 3; round++) {
        check_all(0);
        o = op_bytes(SNIC_FSOP_READ, 0, snic_rng_below(&w.rng, FILE_MAX / 2), 100000);
        o->call->r.op.flags |= round == 1 ? SNIC_FSOP_DIRECT : 0;
        assert_int_equal(op_soon(o), 100000);
        assert_int_equal(op_soon(write_new(0, 3 * FSCACHE_PAGE + 100, 50000, 0)), 50000);
        keep(0);
        assert_int_equal(op_soon(op_new(SNIC_FSOP_FSYNC, 0)), 0);
        check_all(0);
        for (uint32_t f = 1; f < FILES; f++) /* they are there until the error is reported */
            check_all(f);
        pass(UINT64_C(300000000));
        assert_int_equal(op_soon(op_bytes(SNIC_FSOP_WRITE, 2, FILE_MAX - 10, 10)), SNIC_ENOSPC);
    }
    assert_true(w.fc->stats.uncached > 0);
    before = failures();
    pass(UINT64_C(10000000000));
    assert_in_range(failures(), before + 2, before + 20);
    /* reported: by fsync, by close, and the other handle, once each */
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FSYNC, 1)), SNIC_ENOSPC);
    forget(1);
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FSYNC, 1)), 0);
    check_all(1);
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FLUSH, 2)), SNIC_ENOSPC);
    forget(2);
    o = op_new(SNIC_FSOP_FSYNC, 2);
    o->call->r.op.handle = w.handle[2] + 40; /* another client's, open all the time */
    assert_int_equal(op_soon(o), SNIC_ENOSPC);
    o = op_new(SNIC_FSOP_FSYNC, 2);
    o->call->r.op.handle = w.handle[2] + 40;
    assert_int_equal(op_soon(o), 0);
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FLUSH, 2)), SNIC_ENOSPC);
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FSYNC, 2)), SNIC_ENOSPC);
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FLUSH, 2)), 0);
    check_all(2);
    assert_int_equal(w.fc->stats.lost_inodes, 2);
    assert_int_equal(w.invalid, 2);
    check_all(3); /* not reported yet: written out when there is space */
    full_end(filler);
    check_store(3);
    for (uint32_t f = 0; f < FILES; f++) {
        assert_int_equal(op_soon(write_new(f, FILE_MAX / 2, 3 * FSCACHE_PAGE, 0)),
                         3 * FSCACHE_PAGE);
        keep(f);
        check_store(f);
    }
    world_close();
}

/* Requests that wait for a page already when the store turns out to have no space. */
static void test_fscache_full_store_ends_waits(void **state)
{
    uint64_t filler = full_begin(support_seed());
    struct op *append;
    struct op *o;

    (void)state;
    w.fc->pages_max = 64 * 128;      /* the budget denies them no pages: there are none */
    for (uint64_t i = 0; i < 2; i++) /* overwrites: the second one waits behind the first */
        (void)write_new(0, (5 + i) * FSCACHE_PAGE + 7, 12 * FSCACHE_PAGE, 0);
    append = op_bytes(SNIC_FSOP_WRITE, 3, 0, 2 * FSCACHE_PAGE);
    append->call->r.op.flags |= SNIC_FSOP_APPEND;
    o = op_bytes(SNIC_FSOP_READ, 0, 20 * FSCACHE_PAGE, 20 * FSCACHE_PAGE);
    for (unsigned i = 0; i < w.count; i++)
        op_go(&w.ops[i]);
    ops_end();
    assert_int_equal(w.ops[0].result, 12 * FSCACHE_PAGE);
    assert_int_equal(w.ops[1].result, 12 * FSCACHE_PAGE);
    assert_true(append->result == SNIC_ENOSPC ||
                (append->result > 0 && append->result <= 2 * FSCACHE_PAGE));
    assert_int_equal(o->result, 20 * FSCACHE_PAGE);
    for (uint64_t i = 0; i < 20 * FSCACHE_PAGE; i++)
        assert_int_equal(o->data[i], w.model[0][20 * FSCACHE_PAGE + i]);
    if (append->result > 0) { /* short: what could be kept */
        memcpy(w.now[3] + w.size[3], append->data, (size_t)append->result);
        w.size[3] += (uint64_t)append->result;
    }
    ops_free();
    keep(0);
    keep(3);
    for (uint32_t f = 0; f < FILES; f++)
        check_all(f);
    o = op_new(SNIC_FSOP_SETATTR,
               2); /* makes room; what could not be written out goes, and is reported */
    o->call->r.op.set_mask = SNIC_FSOP_SET_SIZE;
    o->call->r.op.attr.size = 3 * FSCACHE_PAGE + 5;
    assert_int_equal(op_soon(o), 0);
    forget(2);
    w.size[2] = 3 * FSCACHE_PAGE + 5;
    check_all(2);
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FSYNC, 2)), SNIC_ENOSPC);
    assert_int_equal(op_soon(op_new(SNIC_FSOP_FSYNC, 2)), 0);
    w.fc->pages_max = 128;
    full_end(filler);
    for (uint32_t f = 0; f < FILES; f++)
        check_store(f);
    world_close();
}

/* @return how many of some overwrites found pages for their beginning only */
static unsigned full_splits(uint64_t seed)
{
    uint64_t filler = full_begin(seed);
    unsigned split = 0;

    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), 1); /* the size */
    w.fc->pages_max = 64 * 128; /* the budget denies them no pages: there are none */
    for (uint64_t i = 0; i < OPS; i++)
        (void)write_new(0, 6 * i * FSCACHE_PAGE + 7, 5 * FSCACHE_PAGE, 0);
    for (unsigned i = 0; i < w.count; i++)
        op_go(&w.ops[i]);
    ops_end();
    for (unsigned i = 0; i < w.count; i++) {
        const struct op *o = &w.ops[i];

        assert_int_equal(o->result, 5 * FSCACHE_PAGE);
        split += o->call->r.op.offset > o->offset && o->call->r.op.length > 0;
    }
    ops_free();
    keep(0);
    check_all(0);
    w.fc->pages_max = 128;
    full_end(filler);
    for (uint32_t f = 0; f < FILES; f++)
        check_store(f);
    world_close();
    return split;
}

/* The rest of such a WRITE goes to the store, to its place, also if no other request is before it.
 */
static void test_fscache_full_store_takes_the_rest_of_a_write(void **state)
{
    unsigned split = 0;

    (void)state;
    for (uint64_t n = 0; n < 16 && split == 0; n++)
        split = full_splits(support_seed() + n);
    assert_true(split > 0);
}

/* A reader's close of the last handle does not report the error: dirty pages stay, and are flushed
   when there is space. */
static void test_fscache_full_store_reader_closes_bytes_stay(void **state)
{
    uint64_t filler = full_begin(support_seed());
    struct op *o;

    (void)state;
    pass(UINT64_C(300000000));
    w.handles[w.handle[3] % SNIC_COUNTOF(w.handles)].read_only = 1;
    assert_int_equal(op_soon(op_new(SNIC_FSOP_RELEASE, 3)), 0);
    assert_non_null(fscache_inode_find(w.fc, w.ino[3]));
    assert_int_equal(w.lost, 0);
    full_end(filler);
    assert_int_equal(snic_fs_get(w.g.fs, "/d", w.now[3], FILE_MAX), w.size[3]);
    assert_memory_equal(w.now[3], w.model[3], (size_t)w.size[3]);
    o = op_new(SNIC_FSOP_OPEN, 3); /* the world closes it */
    o->call->r.op.handle = 0;
    o->call->r.op.flags |= SNIC_FSOP_OPEN_READ;
    op_go(o);
    ops_end();
    assert_int_equal(o->result, 0);
    w.handle[3] = o->call->r.op.handle;
    ops_free();
    world_close();
}

/* Other sessions come while the store is full: the region cannot keep what is dirty. A loss that no
   handle has reported is the file's, and its next FSYNC's, when the last handle is closed. */
static void test_fscache_full_store_others_come_losses_reported(void **state)
{
    uint64_t filler = full_begin(support_seed());

    (void)state;
    w.alone = 0;
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_OFF; n++)
        world_step();
    assert_int_equal(w.fc->stats.lost_inodes, 3);
    assert_int_equal(w.lost, 0);
    assert_int_equal(op_alone(op_new(SNIC_FSOP_FSYNC, 1)), SNIC_ENOSPC);
    assert_int_equal(op_alone(op_new(SNIC_FSOP_FSYNC, 1)), 0);
    for (uint32_t f = 1; f < FILES; f++)
        forget(f);
    for (uint32_t f = 0; f < FILES; f++)
        check_all(f);
    w.alone = 1;
    full_end(filler);
    world_close();
    assert_int_equal(w.lost, 2); /* of files 2 and 3 */
}

/* Any other refusal may pass: a truncation is refused likewise, and drops nothing. */
static void test_fscache_full_truncation_drops_only_for_space(void **state)
{
    const struct snic_kv_fault f = {
        .kind = SNIC_KV_FAULT_ERROR, .error = SNIC_EIO, .after = 1, .repeat = UINT64_MAX};
    struct op *o;

    (void)state;
    world_open(support_seed(), 1, 0);
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_ON; n++)
        world_step();
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 1, 0, 1)), 0);
    assert_int_equal(op_alone(write_new(1, 0, 10 * FSCACHE_PAGE, 0)), 10 * FSCACHE_PAGE);
    keep(1);
    assert_int_equal(snic_kvmem_fault(w.g.medium, &f), 0);
    o = op_new(SNIC_FSOP_SETATTR, 1);
    o->call->r.op.set_mask = SNIC_FSOP_SET_SIZE;
    o->call->r.op.attr.size = 9 * FSCACHE_PAGE;
    assert_true(op_alone(o) < 0);
    snic_kvmem_faults_clear(w.g.medium);
    pass(UINT64_C(2000000000));
    check_all(1);
    assert_int_equal(op_alone(op_new(SNIC_FSOP_FSYNC, 1)), 0);
    check_store(1);
    world_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fscache_full_store_blocks_no_other),
        cmocka_unit_test(test_fscache_full_store_ends_waits),
        cmocka_unit_test(test_fscache_full_store_takes_the_rest_of_a_write),
        cmocka_unit_test(test_fscache_full_store_reader_closes_bytes_stay),
        cmocka_unit_test(test_fscache_full_store_others_come_losses_reported),
        cmocka_unit_test(test_fscache_full_truncation_drops_only_for_space),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
