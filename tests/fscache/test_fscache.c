/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The cache without a kernel and a link: requests as kvfs_mount makes them, several at
 * once, go through it to a file system in simulated time, and every byte that is read is one that
 * may be there. Others come and go and change files meanwhile; the half at the other end dies.
 */
#include "test_fscache_world.h"

/* ---- Rounds ---- */

static void round_writes(uint32_t file)
{
    unsigned n = 1 + (unsigned)snic_rng_below(&w.rng, 3);

    for (unsigned i = 0; i < n; i++) { /* each in a part of its own */
        uint64_t part = FILE_MAX / n;
        uint64_t offset = i * part + snic_rng_below(&w.rng, part / 2);
        uint64_t length = 1 + snic_rng_below(&w.rng, snic_rng_below(&w.rng, 3) ? 9000 : part / 2);
        struct op *o;

        if (snic_rng_below(&w.rng, 3) == 0) {
            offset = snic_align_down(offset, 4096);
            length = snic_align_up(length, 4096);
        }
        length = snic_min_u64(length, (i + 1) * part - offset);
        o = op_bytes(SNIC_FSOP_WRITE, file, offset, length);
        if (snic_rng_below(&w.rng, 3) == 0)
            o->call->r.op.flags |= SNIC_FSOP_DIRECT;
        else if (snic_rng_below(&w.rng, 8) == 0)
            o->call->r.op.flags |= SNIC_FSOP_SYNC;
        now_write(o);
    }
}

static void round_append(uint32_t file)
{
    uint64_t room = FILE_MAX - w.size[file];
    struct op *o;

    if (room == 0)
        return;
    o = op_bytes(SNIC_FSOP_WRITE, file, w.size[file],
                 1 + snic_rng_below(&w.rng, snic_min_u64(room, 9000)));
    o->call->r.op.flags |= SNIC_FSOP_APPEND;
    o->call->r.op.offset = 0;
    now_write(o);
}

static void round_truncate(uint32_t file)
{
    struct op *o = op_new(SNIC_FSOP_SETATTR, file);
    uint64_t size = snic_rng_below(&w.rng, 4) == 0 ? 0 : snic_rng_below(&w.rng, FILE_MAX);

    o->call->r.op.set_mask = SNIC_FSOP_SET_SIZE;
    o->call->r.op.attr.size = size;
    memset(w.now[file] + size, 0, FILE_MAX - size);
    w.size[file] = size;
}

static void round_punch(uint32_t file)
{
    struct op *o = op_new(SNIC_FSOP_FALLOCATE, file);
    uint64_t offset = snic_rng_below(&w.rng, FILE_MAX);
    uint64_t length = 1 + snic_rng_below(&w.rng, FILE_MAX - offset);

    o->call->r.op.flags |= SNIC_FSOP_FALLOC_KEEP_SIZE | SNIC_FSOP_FALLOC_PUNCH;
    o->call->r.op.offset = offset;
    o->call->r.op.length = length;
    memset(w.now[file] + offset, 0, length);
}

static void round_copy(uint32_t file)
{
    uint32_t from = (file + 1) % FILES;
    uint64_t at = snic_rng_below(&w.rng, w.size[from] + 1);
    uint64_t to = snic_rng_below(&w.rng, FILE_MAX / 2);
    uint64_t length = snic_min_u64(w.size[from] - at, FILE_MAX - to);
    struct op *o;

    length = snic_min_u64(length, 50000); /* in one piece */
    if (length == 0)
        return;
    o = op_new(SNIC_FSOP_COPY, from);
    o->call->r.op.offset = at;
    o->call->r.op.ino2 = w.ino[file];
    o->call->r.op.offset2 = to;
    o->call->r.op.length = length;
    o->length = length;
    memcpy(w.now[file] + to, w.model[from] + at, length);
    w.size[file] = snic_max_u64(w.size[file], to + length);
}

/* The region is over, and not left yet: a request now finds it. */
static int cache_falls(void)
{
    return w.fc->over && w.fc->reviewing;
}

/* Some requests at once; those that read may see the file before and after. */
static void round_run(uint32_t file)
{
    uint64_t old = w.size[file];
    uint64_t what = snic_rng_below(&w.rng, 12);
    struct snic_fscache__inode *known = fscache_inode_find(w.fc, w.ino[file]);

    if (known != NULL && !known->dirty && snic_rng_below(&w.rng, 6) == 0)
        known->sized = 0; /* as after a change that failed */
    memcpy(w.now[file], w.model[file], FILE_MAX);
    if (what < 6)
        round_writes(file);
    else if (what == 6)
        round_append(file);
    else if (what == 7)
        round_truncate(file);
    else if (what == 8)
        round_punch(file);
    else if (what == 9)
        round_copy(file);
    while (w.count < OPS - 1 && snic_rng_below(&w.rng, 4) != 0) {
        uint64_t at = snic_rng_below(&w.rng, FILE_MAX);
        struct op *o =
            op_bytes(SNIC_FSOP_READ, file, at, 1 + snic_rng_below(&w.rng, FILE_MAX - at));
        if (snic_rng_below(&w.rng, 4) == 0)
            o->call->r.op.flags |= SNIC_FSOP_DIRECT;
    }
    if (snic_rng_below(&w.rng, 6) == 0)
        (void)op_new(snic_rng_below(&w.rng, 2) ? SNIC_FSOP_FSYNC : SNIC_FSOP_FLUSH, file);
    for (unsigned i = 0; i < w.count; i++) {
        op_go(&w.ops[(i + what) % w.count]);
        for (uint64_t n = snic_rng_below(&w.rng, 40); n > 0 && !cache_falls(); n--)
            world_step();
        if (w.deaths && snic_rng_below(&w.rng, 150) == 0)
            world_kill();
        if (snic_rng_below(&w.rng, 150) == 0)
            w.alone = 0;
    }
    ops_end();
    for (unsigned i = 0; i < w.count; i++) {
        const struct op *o = &w.ops[i];

        if (o->call->r.op.kind == SNIC_FSOP_READ)
            check_read(o, old, w.size[file]);
        else
            assert_int_equal(o->result, o->length);
    }
    ops_free();
    memcpy(w.model[file], w.now[file], FILE_MAX);
}

/*
 * Pages of a mapping are written beside a direct write or a truncation of the same bytes: what
 * comes of it is one of the two, but the same for all that look.
 */
static void round_overlap(uint32_t file)
{
    static unsigned char all[FILE_MAX];
    uint64_t at = snic_rng_below(&w.rng, FILE_MAX / 2);
    char name[3] = {'/', (char)('a' + file), 0};
    struct op *o;
    int64_t size;

    for (uint64_t i = 2 + snic_rng_below(&w.rng, 3); i > 0; i--) {
        if (snic_rng_below(&w.rng, 5) == 0) {
            o = op_new(SNIC_FSOP_SETATTR, file);
            o->call->r.op.set_mask = SNIC_FSOP_SET_SIZE;
            o->call->r.op.attr.size = at + snic_rng_below(&w.rng, 9000);
        } else {
            uint64_t from = at + snic_rng_below(&w.rng, 9000);
            o = op_bytes(SNIC_FSOP_WRITE, file, from, 1 + snic_rng_below(&w.rng, 20000));
            o->call->r.op.flags |= snic_rng_below(&w.rng, 2) ? SNIC_FSOP_DIRECT : 0;
        }
    }
    for (unsigned i = 0; i < w.count; i++) {
        op_go(&w.ops[i]);
        for (uint64_t n = snic_rng_below(&w.rng, 20); n > 0; n--)
            world_step();
    }
    ops_end();
    ops_free();
    assert_int_equal(op_alone(op_new(SNIC_FSOP_FLUSH, file)), 0);
    size = snic_fs_get(w.g.fs, name, all, sizeof(all));
    assert_true(size >= (int64_t)at);
    assert_memory_equal(all, w.model[file], (size_t)snic_min_u64(at, w.size[file]));
    w.size[file] = (uint64_t)size;
    memset(w.model[file], 0, FILE_MAX);
    memcpy(w.model[file], all, (size_t)size);
    memcpy(w.now[file], w.model[file], FILE_MAX);
    check_all(file);
}

/* Others have the store, and change it. */
static void round_others(void)
{
    if (w.alone || snic_rng_below(&w.rng, 4) != 0)
        return;
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_OFF; n++)
        world_step();
    assert_int_equal(w.fc->state, FSCACHE_OFF);
    for (uint32_t f = 0; f < FILES; f++) {
        char name[3] = {'/', (char)('a' + f), 0};

        w.size[f] = snic_rng_below(&w.rng, FILE_MAX);
        for (uint64_t i = 0; i < w.size[f]; i++)
            w.model[f][i] = (unsigned char)snic_rng_below(&w.rng, 256);
        memset(w.model[f] + w.size[f], 0, FILE_MAX - w.size[f]);
        assert_int_equal(snic_fs_put(w.g.fs, name, w.model[f], w.size[f], 0644), 0);
        check_all(f);
    }
    w.alone = 1;
}

static void runs(int write_back, int deaths)
{
    uint64_t rounds = support_nightly() ? 40 : 2;
    uint64_t hits = 0, off = 0;

    for (uint64_t r = 0; r < rounds; r++) {
        world_open(support_seed() * 1000 + r, write_back, deaths);
        for (int n = 0; n < 150; n++) {
            uint32_t file = (uint32_t)snic_rng_below(&w.rng, FILES);

            round_run(file);
            if (snic_rng_below(&w.rng, 3) == 0)
                check_all(file);
            if (snic_rng_below(&w.rng, 8) == 0)
                check_store(file);
            if (snic_rng_below(&w.rng, 4) == 0)
                round_overlap(file);
            off += w.fc->state != FSCACHE_ON;
            round_others();
        }
        hits += w.fc->stats.read_hits;
        assert_int_equal(w.lost, 0);
        world_close();
    }
    print_message("%llu reads were hits, %llu rounds without a cache\n", (unsigned long long)hits,
                  (unsigned long long)off);
    assert_true(hits > rounds * 20);
}

static void test_fscache_writes_go_to_both(void **state)
{
    (void)state;
    runs(0, 0);
}

static void test_fscache_writes_wait(void **state)
{
    (void)state;
    runs(1, 0);
}

static void test_fscache_other_end_dies(void **state)
{
    (void)state;
    runs(1, 1);
    runs(0, 1);
}

/* Pages are locked for a fetch when the region's end has been reported, and not been handled. */
static void test_fscache_read_at_the_end(void **state)
{
    struct op *read;
    struct op *write;

    (void)state;
    world_open(support_seed(), 1, 1);
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_ON; n++)
        world_step();
    write = op_bytes(SNIC_FSOP_WRITE, 0, 0, 20000);
    write->call->r.op.flags |= SNIC_FSOP_DIRECT; /* no page has it */
    now_write(write);
    assert_int_equal(op_alone(write), 20000);
    memcpy(w.model[0], w.now[0], 20000);
    assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), 1); /* the size, a page */
    world_kill();
    for (int n = 0; n < 20000000 && !cache_falls(); n++)
        world_step();
    assert_true(cache_falls());
    read = op_bytes(SNIC_FSOP_READ, 0, 0, 20000);
    op_go(read);
    assert_int_not_equal(w.fc->busy, 0);
    write = op_bytes(SNIC_FSOP_WRITE, 0, 5000, 8000);
    op_go(write);
    ops_end();
    assert_int_equal(read->result, 20000);
    assert_int_equal(write->result, 8000);
    now_write(write);
    ops_free();
    memcpy(w.model[0], w.now[0], 20000);
    check_all(0);
    check_store(0);
    world_close();
}

static void cache_tick(struct snic_timer *t, uint64_t now)
{
    snic_loop_arm(w.g.loop[0], t, now + 50000000);
}

/* Until this time, which a timer makes pass. */
static void cache_until(uint64_t until)
{
    while (snic_loop_now(w.g.loop[0]) < until) {
        assert_true(snic_world_step(w.g.w));
        world_update();
        world_reap();
    }
}

/*
 * The next process does not take the cache with the pages that the last one left: it is tried for
 * 30 s, then they are lost, the file's next fsync reports it, and calls go by the link.
 */
static void test_fscache_region_not_taken_is_lost(void **state)
{
    static const uint64_t waits[] = {29, 31, 300}; /* s */

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(waits); i++) {
        struct snic_timer tick;
        struct op *o;
        uint64_t dead;
        int late = waits[i] > 30;

        world_open(support_seed(), 1, 1);
        for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_ON; n++)
            world_step();
        assert_int_equal(op_alone(op_bytes(SNIC_FSOP_READ, 0, 0, 1)), 0); /* the size */
        o = op_bytes(SNIC_FSOP_WRITE, 0, 0, 20000);
        now_write(o);
        assert_int_equal(op_alone(o), 20000);
        memcpy(w.model[0], w.now[0], 20000);
        assert_int_not_equal(w.fc->stats.dirty_inodes, 0);
        w.refuses = 1;
        world_kill();
        for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_DEAD; n++)
            world_step();
        assert_int_equal(w.fc->state, FSCACHE_DEAD);
        dead = snic_loop_now(w.g.loop[0]);
        snic_timer_init(&tick, cache_tick);
        snic_loop_arm(w.g.loop[0], &tick, dead + 1);
        o = op_bytes(SNIC_FSOP_READ, 0, 0, 20000); /* it may have to wait, but not for ever */
        op_go(o);
        cache_until(dead + waits[i] * 1000000000u);
        assert_int_equal(w.fc->state, late ? FSCACHE_OFF : FSCACHE_DEAD);
        assert_int_equal(w.lost, late);
        w.refuses = 0;
        ops_end();
        assert_int_equal(o->result, late ? 0 : 20000);
        ops_free();
        cache_until(snic_loop_now(w.g.loop[0]) + 61000000000u); /* the pause between tries */
        assert_int_equal(w.fc->state, FSCACHE_ON);
        snic_loop_cancel(w.g.loop[0], &tick);
        if (late)
            w.size[0] = 0;
        else
            check_store(0);
        check_all(0);
        world_close();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fscache_writes_go_to_both),
        cmocka_unit_test(test_fscache_writes_wait),
        cmocka_unit_test(test_fscache_other_end_dies),
        cmocka_unit_test(test_fscache_read_at_the_end),
        cmocka_unit_test(test_fscache_region_not_taken_is_lost),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
