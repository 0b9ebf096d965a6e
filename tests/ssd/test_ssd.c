/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The SSD model: contract, then its stages alone with times worked out by hand (jitter 0). The
 * writing ones are test_ssd_write.c's. */
#include "test_ssd_util.h"

#include "ssd/ssd_priv.h"

/* ---- Contract ---- */

/* A bad option that got through would divide by zero or index beyond a table later. */
static void test_ssd_bad_options_init_refused(void **state)
{
    (void)state;
    const struct snic_ssd_opts good = ssd_plain(SNIC_SSD_CLEAN);
    struct snic_ssd_opts o;
    struct snic_ssd *d = (struct snic_ssd *)(void *)&o;
    size_t size = snic_ssd_memsize(&good);
    unsigned char *mem = support_guard_alloc(size, SNIC_SSD_ALIGN);
#define BAD(field, value)                                                                          \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    support_names(snic_ssd_opts_wrong(&o), #field);                                                \
    assert_int_equal(snic_ssd_memsize(&o), 0);                                                     \
    assert_int_equal(snic_ssd_init(&d, mem, size, &o), SNIC_EINVAL)
    assert_null(snic_ssd_opts_wrong(&good));
    BAD(opts_size, 3);
    BAD(condition, 3);
    BAD(reserved, 1);
    BAD(queues, 0);
    BAD(queues, SNIC_SSD_QUEUES_MAX + 1);
    BAD(depth, 0);
    BAD(depth, SNIC_SSD_DEPTH_MAX + 1);
    BAD(length_max, 0);
    BAD(length_max, 65537);
    BAD(fetch_read_ns, UINT32_MAX);
    BAD(fetch_write_ns, UINT32_MAX);
    BAD(split_ns, UINT32_MAX);
    BAD(window, 0);
    BAD(window, UINT32_MAX);
    BAD(link_read, 0);
    BAD(link_write, 0);
    BAD(post_read_ns, UINT32_MAX);
    BAD(post_write_ns, UINT32_MAX);
    BAD(buffer_bytes, 0);
    BAD(buffer_bytes, UINT32_MAX);
    BAD(dies, 0);
    BAD(dies, SNIC_SSD_DIES_MAX + 1);
    BAD(read_ns, 0);
    BAD(read_part_ns, UINT32_MAX);
    BAD(read_unit, 0);
    BAD(read_unit, 4097);
    BAD(read_striped, 1025);
    BAD(program_ns, 0);
    BAD(program_unit, 0);
    BAD(program_unit, 6000);
    BAD(program_unit, 131072);
    BAD(program_queue, 0);
    BAD(program_queue, 9);
    BAD(write_share, 0);
    BAD(write_share, 1024);
    BAD(switch_ns, UINT32_MAX);
    BAD(jitter, 513);
    BAD(write_amplification, 99);
    BAD(write_amplification, 10001);
    BAD(gc_read_ns, UINT32_MAX);
    BAD(gc_debt_ns, UINT32_MAX);
    BAD(gc_chunk_ns, 0);
    BAD(stall_ns, UINT32_MAX);
    BAD(stall_odds, (1u << 20) + 1);
    BAD(stall_pool_bytes, UINT32_MAX);
    BAD(stall_pool_rate, UINT32_MAX);
#undef BAD
    assert_int_equal(snic_ssd_init(&d, mem + 8, size - 8, &good), SNIC_EINVAL);
    assert_int_equal(snic_ssd_init(&d, mem, size - 1, &good), SNIC_ENOSPC);
    assert_ptr_equal(d, &o);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(mem[i], 0xa5); /* a refused init has touched nothing */
    assert_int_equal(snic_ssd_init(&d, mem, size, &good), 0);
    assert_ptr_equal(snic_ssd_fini(d), mem);
    support_guard_free(mem);
}

/* An older caller's options end before the device's own parameters: it gets the DCT983. */
static void test_ssd_short_options_take_the_preset(void **state)
{
    (void)state;
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    size_t size = snic_ssd_memsize(&o);
    memset((unsigned char *)&o + offsetof(struct snic_ssd_opts, fetch_read_ns), 0,
           sizeof(o) - offsetof(struct snic_ssd_opts, fetch_read_ns));
    assert_int_equal(snic_ssd_memsize(&o), 0);
    o.opts_size = offsetof(struct snic_ssd_opts, fetch_read_ns);
    assert_int_equal(snic_ssd_memsize(&o), size);
}

/* A refused command must leave no trace: the caller frees or reuses it. */
static void test_ssd_bad_command_submit_refused(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.depth = 2;
    struct snic_ssd *d = ssd_open(&o);
    size_t size = snic_ssd_memsize(&o);
    unsigned char *copy = support_guard_alloc(size, SNIC_SSD_ALIGN);
    memcpy(copy, d, size);
    const struct snic_ssd_cmd good = {.op = SNIC_SSD_READ, .length = 4096};
    struct snic_ssd_cmd c[3];
#define BAD(field, value)                                                                          \
    c[0] = good;                                                                                   \
    c[0].field = value;                                                                            \
    assert_int_equal(snic_ssd_submit(d, &c[0], 5), SNIC_EINVAL);                                   \
    assert_memory_equal(copy, d, size)
    BAD(op, 0);
    BAD(op, 3);
    BAD(queue, 4);
    BAD(length, 0);
    BAD(length, 65537);
    BAD(offset, UINT64_MAX - 4095);
#undef BAD
    for (uint32_t i = 0; i < 2; i++)
        ssd_send(d, &c[i], SNIC_SSD_READ, 0, UINT64_MAX - 8192, 4096, 5);
    memcpy(copy, d, size);
    c[2] = good;
    assert_int_equal(snic_ssd_submit(d, &c[2], 5), SNIC_EAGAIN);
    assert_memory_equal(copy, d, size);
    (void)ssd_wait(d);
    assert_int_equal(snic_ssd_submit(d, &c[2], c[0].done_ns), 0);
    while (ssd_wait(d) != NULL)
        ;
    assert_int_equal(snic_ssd_deadline_ns(d), SNIC_NEVER);
    support_guard_free(copy);
    ssd_close(d);
}

static void fini_with_a_command(void *ctx)
{
    (void)snic_ssd_fini(ctx);
}

static void poll_in_the_past(void *ctx)
{
    (void)snic_ssd_poll(ctx, 9);
}

/* Freed memory under a borrowed command, or time running backwards, must not pass silently. */
static void test_ssd_broken_contract_aborts(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c;
    ssd_send(d, &c, SNIC_SSD_READ, 0, 0, 4096, 10);
    SUPPORT_EXPECT_ABORT(fini_with_a_command, d);
    SUPPORT_EXPECT_ABORT(poll_in_the_past, d);
    (void)ssd_wait(d);
    ssd_close(d);
}

/* poll before the time gives nothing, at the time the command; the deadline is never late. */
static void test_ssd_completion_waits_for_its_time(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c;
    const uint64_t done = 1000 + 51000 + 1000 + 10;
    ssd_send(d, &c, SNIC_SSD_READ, 0, 0, 4096, 0);
    assert_null(snic_ssd_poll(d, done - 1));
    assert_int_equal(snic_ssd_deadline_ns(d), done);
    assert_ptr_equal(snic_ssd_poll(d, done + 500), &c);
    assert_int_equal(c.done_ns, done);
    assert_null(snic_ssd_poll(d, done + 500));
    ssd_close(d);
}

/* ---- The controller ---- */

/* The hand-computed total of the DCT983: 2 + 3 x 24 (splitter) + 120 (die) + 10.24 + 3 us. */
static void test_ssd_dct983_large_read_alone_takes_207_us(void **state)
{
    (void)state;
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.jitter = 0;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c;
    ssd_send(d, &c, SNIC_SSD_READ, 0, 0, 131072, 0);
    SSD_EXPECT(d, &c, 2000 + 72000 + 120000 + 10240 + 3000);
    ssd_send(d, &c, SNIC_SSD_WRITE, 0, 0, 4096, 1000000);
    SSD_EXPECT(d, &c, 1000000 + 3800 + 1280 + 65000);
    ssd_close(d);
}

/* A queue full of commands must not hold up another queue's first by more than one fetch. */
static void test_ssd_queues_fetched_round_robin(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.dies = 16;
    o.link_read = 1000000;
    o.post_read_ns = 0;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[7];
    static const uint32_t queue[7] = {0, 0, 0, 0, 2, 2, 1};
    static const uint32_t order[7] = {0, 1, 4, 6, 2, 5, 3};
    /* The first is in the fetcher, and queue 0 in the ring again, when the others come. */
    for (uint32_t i = 0; i < 7; i++)
        ssd_send(d, &c[i], SNIC_SSD_READ, queue[i], i * 16384, 4096, 0);
    for (uint32_t i = 0; i < 7; i++)
        SSD_EXPECT(d, &c[order[i]], (i + 1) * 1000u + 51000 + 4);
    ssd_close(d);
}

/* Without the window, small reads would pile up at the dies and large ones get no share. */
static void test_ssd_window_full_fetch_waits(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.window = 2;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[4];
    for (uint32_t i = 0; i < 3; i++)
        ssd_send(d, &c[i], SNIC_SSD_READ, 0, i * 16384, 4096, 0);
    ssd_send(d, &c[3], SNIC_SSD_WRITE, 1, 0, 4096, 0); /* second in the ring */
    /* Two reads are in; then nothing, not even the write, until the first has left its die. */
    SSD_EXPECT(d, &c[0], 1000 + 51000 + 1000 + 10);
    SSD_EXPECT(d, &c[1], 2000 + 51000 + 1000 + 10);
    SSD_EXPECT(d, &c[3], 52000 + 2000 + 1000 + 20);
    SSD_EXPECT(d, &c[2], 54000 + 1000 + 51000 + 1000 + 10);
    ssd_close(d);
}

/* A command cut at the wrong place would use the wrong dies; one too close, saturate too early. */
static void test_ssd_read_is_cut_at_units_and_spaced(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.link_read = 1000000;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c;
    struct snic_ssd_stats s;
    /* 3 parts, 4 parts, 2 parts (the last of 100 bytes): at 0, 3, 7 half microseconds.
       The second piece takes 54000 and is on the link just before the third. */
    ssd_send(d, &c, SNIC_SSD_READ, 0, 4096, 12288 + 16384 + 4096 + 100, 0);
    SSD_EXPECT(d, &c, 1000 + 7 * 500 + 52000 + 16 + 4 + 10);
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.pieces, 3);
    /* Fragmented: every part is a piece of its own. */
    ssd_close(d);
    o.condition = SNIC_SSD_FRAGMENTED;
    d = ssd_open(&o);
    ssd_send(d, &c, SNIC_SSD_READ, 0, 0, 16384, 0);
    SSD_EXPECT(d, &c, 1000 + 3 * 500 + 51000 + 4 + 10);
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.pieces, 4);
    ssd_close(d);
}

/* Two commands are split side by side: that is what several outstanding reads gain. */
static void test_ssd_commands_are_split_in_parallel(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_FRAGMENTED);
    o.dies = 64;
    o.link_read = 1000000;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[2];
    for (uint32_t i = 0; i < 2; i++)
        ssd_send(d, &c[i], SNIC_SSD_READ, 0, i * 65536, 65536, 0);
    SSD_EXPECT(d, &c[0], 1000 + 15 * 500 + 51000 + 4 + 10);
    SSD_EXPECT(d, &c[1], 2000 + 15 * 500 + 51000 + 4 + 10);
    ssd_close(d);
}

/* The link gives its bytes in order: what leaves two dies at once arrives one by one. */
static void test_ssd_link_carries_one_piece_at_a_time(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.fetch_read_ns = 0;
    o.link_read = 8;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[3];
    for (uint32_t i = 0; i < 3; i++)
        ssd_send(d, &c[i], SNIC_SSD_READ, 0, i * 16384, 4096, 0);
    for (uint32_t i = 0; i < 3; i++)
        SSD_EXPECT(d, &c[i], 51000 + (i + 1) * 512000 + 10);
    for (uint32_t i = 0; i < 2; i++) /* from the host: the same, with its own rate */
        ssd_send(d, &c[i], SNIC_SSD_WRITE, 0, 0, 8192, 2000000);
    SSD_EXPECT(d, &c[0], 2000000 + 2000 + 2000 + 20);
    SSD_EXPECT(d, &c[1], 2000000 + 4000 + 2000 + 20);
    ssd_close(d);
}

/* ---- Dies ---- */

/* One die serves in order, others beside it. */
static void test_ssd_die_serves_in_order(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[4];
    static const uint64_t unit[4] = {1, 5, 9, 2}; /* dies 1, 1, 1, 2 */
    for (uint32_t i = 0; i < 4; i++)
        ssd_send(d, &c[i], SNIC_SSD_READ, 0, unit[i] * 16384, 4096, 0);
    SSD_EXPECT(d, &c[0], 1000 + 51000 + 1010);
    SSD_EXPECT(d, &c[3], 4000 + 51000 + 1010);
    SSD_EXPECT(d, &c[1], 1000 + 2 * 51000 + 1010);
    SSD_EXPECT(d, &c[2], 1000 + 3 * 51000 + 1010);
    ssd_close(d);
}

/* Placement of an aged device: as many parts as asked for lie striped, the rest evenly. */
static void test_ssd_fragmented_parts_lie_scattered(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_FRAGMENTED);
    o.read_striped = 512;
    o.dies = 16;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c;
    uint32_t away = 0, per_die[16] = {0};
    uint64_t now = 0;
    for (uint64_t i = 0; i < 4096; i++) {
        ssd_send(d, &c, SNIC_SSD_READ, 0, i * 4096, 4096, now);
        now += 2000; /* past the fetch, before the die is done */
        assert_null(snic_ssd_poll(d, now));
        for (uint32_t n = 0; n < 16; n++) {
            per_die[n] += d->dies[n].work == SSD_READ;
            away += d->dies[n].work == SSD_READ && n != i % 16;
        }
        now = (i + 1) * 100000;
        assert_ptr_equal(snic_ssd_poll(d, now), &c);
    }
    assert_in_range(away, 1920 - 150, 1920 + 150); /* half of them, less the sixteenth */
    for (uint32_t n = 0; n < 16; n++)
        assert_in_range(per_die[n], 256 - 60, 256 + 60);
    ssd_close(d);
}

/* Jitter stays within its bounds and uses them. */
static void test_ssd_jitter_spreads_within_bounds(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.jitter = 102; /* 10 % */
    o.seed = support_seed();
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c;
    uint64_t now = 0, least = UINT64_MAX, most = 0, sum = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        ssd_send(d, &c, SNIC_SSD_READ, 0, 0, 4096, now);
        assert_ptr_equal(ssd_wait(d), &c);
        uint64_t took = c.done_ns - now - 2010;
        now = c.done_ns;
        least = snic_min_u64(least, took);
        most = snic_max_u64(most, took);
        sum += took;
    }
    assert_in_range(least, 45920, 46000);
    assert_in_range(most, 56000, 56080);
    assert_in_range(sum / 10000, 50800, 51200);
    ssd_close(d);
}

/* ---- Check ---- */

/* A check that sees nothing would make every test above weaker than it looks. */
static void test_ssd_damage_is_seen_by_check(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_FRAGMENTED);
    o.write_amplification = 300;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[8], w[8];
    for (uint32_t i = 0; i < 8; i++) {
        ssd_send(d, &c[i], SNIC_SSD_READ, i % 4, i * 4096, 16384, 0);
        ssd_send(d, &w[i], SNIC_SSD_WRITE, i % 4, 0, 32768, 0);
    }
    assert_null(snic_ssd_poll(d, 7000));
    assert_true(d->reading > 0 && d->fetching != NULL && d->events > 3);
#define DAMAGE(field, change)                                                                      \
    do {                                                                                           \
        __typeof__(d->field) kept = d->field;                                                      \
        d->field change;                                                                           \
        assert_int_equal(snic_ssd_check(d), SNIC_ECORRUPT);                                        \
        d->field = kept;                                                                           \
        assert_int_equal(snic_ssd_check(d), 0);                                                    \
    } while (0)
    DAMAGE(reading, += 1);
    DAMAGE(reading, -= 1);
    DAMAGE(inside, = 1);
    DAMAGE(inside, += 100);
    DAMAGE(buffered, += 1);
    DAMAGE(ready, += 16384);
    DAMAGE(hole, = 1);
    DAMAGE(levels, = 0);
    DAMAGE(level[0].first, = SNIC_SSD__NONE);
    DAMAGE(dies[0].work, = SSD_IDLE);
    DAMAGE(dies[0].collects, = 1);
    DAMAGE(dies[0].programs, += 1);
    DAMAGE(heap[0].at, = 0);
    DAMAGE(heap[0].at, = UINT64_MAX);
    DAMAGE(events, -= 1);
    DAMAGE(fetching, = NULL);
    DAMAGE(queues[d->ring.first].cmds.first, = NULL);
#undef DAMAGE
    while (ssd_wait(d) != NULL)
        ;
    ssd_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ssd_bad_options_init_refused),
        cmocka_unit_test(test_ssd_short_options_take_the_preset),
        cmocka_unit_test(test_ssd_bad_command_submit_refused),
        cmocka_unit_test(test_ssd_broken_contract_aborts),
        cmocka_unit_test(test_ssd_completion_waits_for_its_time),
        cmocka_unit_test(test_ssd_dct983_large_read_alone_takes_207_us),
        cmocka_unit_test(test_ssd_queues_fetched_round_robin),
        cmocka_unit_test(test_ssd_window_full_fetch_waits),
        cmocka_unit_test(test_ssd_read_is_cut_at_units_and_spaced),
        cmocka_unit_test(test_ssd_commands_are_split_in_parallel),
        cmocka_unit_test(test_ssd_link_carries_one_piece_at_a_time),
        cmocka_unit_test(test_ssd_die_serves_in_order),
        cmocka_unit_test(test_ssd_fragmented_parts_lie_scattered),
        cmocka_unit_test(test_ssd_jitter_spreads_within_bounds),
        cmocka_unit_test(test_ssd_damage_is_seen_by_check),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
