/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The map of an AGEING device: against a small model under random commands, and at its limits. */
#include "test_ssd_util.h"

enum { PAGES = 64 };

static struct snic_ssd_opts small(uint32_t spare)
{
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_AGEING);
    o.age_pages = PAGES;
    o.age_block_pages = 8;
    o.age_spare = spare;
    return o;
}

static struct snic_ssd_age_stats stats_of(const struct snic_ssd *d)
{
    struct snic_ssd_age_stats s;
    snic_ssd_get_age_stats(d, &s);
    return s;
}

/* ---- Against a model ---- */

struct model {
    uint8_t valid[PAGES];
    uint64_t written;
    uint64_t trimmed;
};

static void model_write(struct model *m, uint64_t offset, uint64_t length)
{
    for (uint64_t p = offset / 4096; p <= (offset + length - 1) / 4096; p++, m->written++)
        m->valid[p % PAGES] = 1;
}

static void model_trim(struct model *m, uint64_t offset, uint64_t length)
{
    for (uint64_t p = (offset + 4095) / 4096; p < (offset + length) / 4096; p++) {
        m->trimmed += m->valid[p % PAGES];
        m->valid[p % PAGES] = 0;
    }
}

static void model_equals(const struct model *m, const struct snic_ssd *d)
{
    uint64_t valid = 0;
    for (uint32_t p = 0; p < PAGES; p++)
        valid += m->valid[p];
    struct snic_ssd_age_stats s = stats_of(d);
    assert_int_equal(s.valid, valid);
    assert_int_equal(s.written, m->written);
    assert_int_equal(s.trimmed, m->trimmed);
}

static void random_step(struct snic_ssd *d, struct model *m, struct snic_rng *r, uint64_t *now)
{
    struct snic_ssd_cmd cmd;
    uint64_t offset = snic_rng_below(r, 3 * PAGES * 4096);
    uint32_t length = 1 + (uint32_t)snic_rng_below(r, 65536);
    uint32_t what = (uint32_t)snic_rng_below(r, 8);
    if (snic_rng_below(r, 2) == 0) {
        offset -= offset % 4096;
        length = 4096;
    }
    if (what == 0) {
        snic_ssd_trim(d, offset, length);
        model_trim(m, offset, length);
    } else {
        ssd_send(d, &cmd, what < 3 ? SNIC_SSD_READ : SNIC_SSD_WRITE, 0, offset, length, *now);
        assert_ptr_equal(ssd_wait(d), &cmd);
        *now = cmd.done_ns;
        if (what >= 3)
            model_write(m, offset, length);
    }
    assert_int_equal(snic_ssd_check(d), 0);
    model_equals(m, d);
}

static void test_ssd_map_random_commands_equal_the_model(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    uint64_t runs = support_scale(20, 1000);
    for (uint64_t run = 0; run < runs; run++) {
        struct model m = {0};
        uint64_t now = 0;
        struct snic_ssd_opts o = small(1 + (uint32_t)snic_rng_below(&r, 600));
        struct snic_ssd *d = ssd_open(&o);
        for (uint32_t step = 0; step < 200; step++)
            random_step(d, &m, &r, &now);
        for (uint32_t p = 0; p < PAGES; p++) { /* which pages, not only how many */
            snic_ssd_trim(d, (uint64_t)p * 4096, 4096);
            model_trim(&m, (uint64_t)p * 4096, 4096);
            model_equals(&m, d);
        }
        ssd_drop(d);
    }
}

/* Trims and writes while reads are being cut: their pieces were counted before. */
static void test_ssd_map_changes_under_reads_each_completes(void **state)
{
    (void)state;
    static struct snic_ssd_cmd cmd[64];
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    struct snic_ssd_opts o = small(131);
    o.split_ns = 20000;
    o.age_fill = 1000;
    for (uint32_t run = 0; run < 20; run++) {
        struct snic_ssd *d = ssd_open(&o);
        uint32_t left = 64;
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t now = i * UINT64_C(9000);
            ssd_send(d, &cmd[i], (uint8_t)(1 + snic_rng_below(&r, 2)), i % 4,
                     snic_rng_below(&r, PAGES) * 4096, 1 + (uint32_t)snic_rng_below(&r, 65536),
                     now);
            if (i % 4 == 0)
                snic_ssd_trim(d, snic_rng_below(&r, PAGES) * 4096, 65536);
            while (snic_ssd_poll(d, now) != NULL)
                left--;
            assert_int_equal(snic_ssd_check(d), 0);
        }
        while (ssd_wait(d) != NULL)
            left--;
        assert_int_equal(left, 0);
        ssd_close(d);
    }
}

/* ---- Contract and limits ---- */

static void test_ssd_map_bad_options_init_refused(void **state)
{
    (void)state;
    struct snic_ssd_opts good = small(131), o;
    struct snic_ssd *d = NULL;
    size_t size = snic_ssd_memsize(&good);
    unsigned char *mem = support_guard_alloc(size, SNIC_SSD_ALIGN);
#define BAD(field, value)                                                                          \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    support_names(snic_ssd_opts_wrong(&o), #field);                                                \
    assert_int_equal(snic_ssd_memsize(&o), 0);                                                     \
    assert_int_equal(snic_ssd_init(&d, mem, size, &o), SNIC_EINVAL)
    BAD(age_pages, 0);
    BAD(age_pages, 300); /* no multiple of 8 */
    BAD(age_pages, SNIC_SSD_AGE_PAGES_MAX + 8);
    BAD(age_block_pages, 7);
    BAD(age_block_pages, 65537);
    BAD(age_spare, 0);
    BAD(age_spare, 4001);
    BAD(age_fill, 1001);
    BAD(age_overwrites, 10001);
    BAD(age_reserved, 1);
#undef BAD
    assert_null(d);
    assert_int_equal(snic_ssd_init(&d, mem, size - 1, &good), SNIC_ENOSPC);
    support_guard_free(mem);
}

static void test_ssd_map_absent_calls_do_nothing(void **state)
{
    (void)state;
    for (uint32_t c = SNIC_SSD_CLEAN; c <= SNIC_SSD_FRAGMENTED; c++) {
        struct snic_ssd_opts o = ssd_plain(c);
        struct snic_ssd *d = ssd_open(&o);
        struct snic_ssd_age_stats zero = {0}, s;
        snic_ssd_trim(d, 0, UINT64_MAX);
        assert_int_equal(snic_ssd_precondition(d, 0, 0), SNIC_EINVAL);
        s = stats_of(d);
        assert_memory_equal(&s, &zero, sizeof(s));
        ssd_close(d);
    }
}

static void test_ssd_map_bad_precondition_refused(void **state)
{
    (void)state;
    struct snic_ssd_opts o = small(131);
    struct snic_ssd *d = ssd_open(&o);
    assert_int_equal(snic_ssd_precondition(d, 1001, 0), SNIC_EINVAL);
    assert_int_equal(snic_ssd_precondition(d, 0, 10001), SNIC_EINVAL);
    assert_int_equal(stats_of(d).written, 0);
    assert_int_equal(snic_ssd_precondition(d, 0, 10000), 0); /* of no pages */
    assert_int_equal(stats_of(d).written, 0);
    ssd_close(d);
}

/* The least over-provisioning there is, everything valid: collection still finds room. */
static void test_ssd_map_full_with_least_spare_collects(void **state)
{
    (void)state;
    struct snic_ssd_opts o = small(1);
    o.age_fill = 1000;
    struct snic_ssd *d = ssd_open(&o);
    assert_int_equal(stats_of(d).valid, PAGES);
    assert_int_equal(snic_ssd_precondition(d, 1000, 10000), 0);
    struct snic_ssd_age_stats s = stats_of(d);
    assert_int_equal(s.valid, PAGES);
    assert_int_equal(s.written, PAGES * 101);
    assert_true(s.copied > s.written); /* one spare block of nine */
    assert_int_equal(s.owed_ns, 0);
    ssd_close(d);
    o.age_pages = 8; /* one block */
    d = ssd_open(&o);
    assert_int_equal(snic_ssd_precondition(d, 1000, 10000), 0);
    assert_int_equal(stats_of(d).valid, 8);
    ssd_close(d);
}

static void test_ssd_map_trim_all_costs_no_copies(void **state)
{
    (void)state;
    struct snic_ssd_opts o = small(131);
    o.age_fill = 1000;
    o.age_overwrites = 300;
    struct snic_ssd *d = ssd_open(&o);
    uint64_t copied = stats_of(d).copied;
    assert_true(copied > 0);
    for (uint32_t i = 0; i < 20; i++) {
        snic_ssd_trim(d, 1, UINT64_MAX); /* folded: every page */
        assert_int_equal(stats_of(d).valid, 0);
        assert_int_equal(snic_ssd_precondition(d, 1000, 0), 0);
        assert_int_equal(snic_ssd_check(d), 0);
    }
    assert_int_equal(stats_of(d).copied, copied);
    ssd_close(d);
}

static void test_ssd_map_trim_of_part_of_a_page_does_nothing(void **state)
{
    (void)state;
    struct snic_ssd_opts o = small(131);
    o.age_fill = 1000;
    struct snic_ssd *d = ssd_open(&o);
    snic_ssd_trim(d, 1, 8190);
    snic_ssd_trim(d, 4096, 4095);
    snic_ssd_trim(d, 4097, 4095);
    snic_ssd_trim(d, 4096, 0);
    snic_ssd_trim(d, UINT64_MAX, UINT64_MAX);
    assert_int_equal(stats_of(d).valid, PAGES);
    snic_ssd_trim(d, 4095, 4097);
    assert_int_equal(stats_of(d).valid, PAGES - 1);
    ssd_close(d);
}

/* ---- The clean end ---- */

/* Of commands of this size; a hash of their completions. */
static uint64_t clean_hash(uint32_t condition, int p3600, uint32_t length, uint32_t commands)
{
    static struct snic_ssd_cmd cmd[64];
    struct snic_ssd_opts o;
    struct snic_rng r;
    if (p3600)
        snic_ssd_opts_p3600(&o);
    else
        snic_ssd_opts_dct983(&o);
    o.condition = condition;
    o.age_fill = 1000;
    o.seed = 3;
    struct snic_ssd *d = ssd_open(&o);
    snic_rng_init(&r, 7);
    uint64_t hash = 0, at = 0;
    for (uint32_t i = 0; i < commands; i++) {
        struct snic_ssd_cmd *c = &cmd[i % 64];
        if (i >= 64) {
            uint64_t now;
            do
                now = snic_ssd_deadline_ns(d);
            while ((c = snic_ssd_poll(d, now)) == NULL);
            hash = (hash ^ (c->done_ns * 64 + (uint64_t)(c - cmd))) * UINT64_C(0x100000001b3);
        }
        int write = snic_rng_below(&r, 3) == 0;
        *c = (struct snic_ssd_cmd){.op = write ? SNIC_SSD_WRITE : SNIC_SSD_READ, .length = length};
        c->offset = write ? (at += length) : snic_rng_below(&r, 1u << 30);
        assert_int_equal(snic_ssd_submit(d, c, i < 64 ? 0 : snic_ssd_deadline_ns(d)), 0);
    }
    ssd_drop(d);
    return hash;
}

/* Filled in order, and written on in order: not similar to CLEAN but equal. */
static void test_ssd_map_in_order_equals_clean(void **state)
{
    (void)state;
    static const struct {
        int p3600;
        uint32_t length, commands;
    } cases[] = {
        {0, 128u << 10, 4000}, /* 33 read units */
        {1, 512u << 10, 600},  /* 65: a bit stands for two */
        {1, 1u << 20, 300},    /* 129 */
    };
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++)
        assert_int_equal(
            clean_hash(SNIC_SSD_AGEING, cases[i].p3600, cases[i].length, cases[i].commands),
            clean_hash(SNIC_SSD_CLEAN, cases[i].p3600, cases[i].length, cases[i].commands));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ssd_map_random_commands_equal_the_model),
        cmocka_unit_test(test_ssd_map_changes_under_reads_each_completes),
        cmocka_unit_test(test_ssd_map_bad_options_init_refused),
        cmocka_unit_test(test_ssd_map_absent_calls_do_nothing),
        cmocka_unit_test(test_ssd_map_bad_precondition_refused),
        cmocka_unit_test(test_ssd_map_full_with_least_spare_collects),
        cmocka_unit_test(test_ssd_map_trim_all_costs_no_copies),
        cmocka_unit_test(test_ssd_map_trim_of_part_of_a_page_does_nothing),
        cmocka_unit_test(test_ssd_map_in_order_equals_clean),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
