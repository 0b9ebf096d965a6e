/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table of requests beside a list: every short sequence of calls, then long random ones. */
#include "snicstore/fuse.h"
#include "support.h"

#include <stdio.h>

enum { MODEL_MAX = 64 };

struct model {
    uint32_t places, parked_max;
    uint32_t n;
    struct {
        uint64_t unique;
        uint32_t place;
        int interrupted;
    } in[MODEL_MAX];
    uint32_t parked, stale;
    uint64_t park[MODEL_MAX][2];
};

static struct snic_fuse_table *table_of(uint32_t places, uint32_t parked, uint64_t seed, void **mem)
{
    struct snic_fuse_table_opts o = {sizeof(o), places, parked, 0, seed};
    size_t size = snic_fuse_table_memsize(&o);
    struct snic_fuse_table *t = NULL;

    *mem = support_guard_alloc(size, SNIC_FUSE_TABLE_ALIGN);
    assert_int_equal(snic_fuse_table_init(&t, *mem, size, &o), 0);
    return t;
}

static int model_at(const struct model *m, uint64_t unique)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->in[i].unique == unique)
            return (int)i;
    return -1;
}

static void model_unpark(struct model *m, uint32_t i)
{
    m->parked--;
    m->stale -= i < m->stale;
    for (; i < m->parked; i++) {
        m->park[i][0] = m->park[i + 1][0];
        m->park[i][1] = m->park[i + 1][1];
    }
}

static void both_add(struct model *m, struct snic_fuse_table *t, uint64_t unique)
{
    uint32_t place = 12345;
    int rc = snic_fuse_table_add(t, unique, &place);
    int hit = 0;

    if (model_at(m, unique) >= 0) {
        assert_int_equal(rc, SNIC_EEXIST);
        return;
    }
    if (m->n == m->places) {
        assert_int_equal(rc, SNIC_EAGAIN);
        return;
    }
    for (uint32_t i = 0; i < m->parked;) {
        if (m->park[i][1] == unique) {
            model_unpark(m, i);
            hit = 1;
        } else {
            i++;
        }
    }
    m->stale = m->parked;
    assert_int_equal(rc, hit);
    assert_true(place < m->places);
    for (uint32_t i = 0; i < m->n; i++)
        assert_true(m->in[i].place != place);
    m->in[m->n].unique = unique;
    m->in[m->n].place = place;
    m->in[m->n++].interrupted = hit;
}

static void both_remove(struct model *m, struct snic_fuse_table *t, uint32_t i)
{
    if (i >= m->n)
        return;
    snic_fuse_table_remove(t, m->in[i].place);
    m->in[i] = m->in[--m->n];
}

static void both_interrupt(struct model *m, struct snic_fuse_table *t, uint64_t target)
{
    uint32_t place = 12345;
    int at = model_at(m, target);
    int rc = snic_fuse_table_interrupt(t, target | UINT64_C(1) << 40, target, &place);

    if (at >= 0) {
        assert_int_equal(rc, 1);
        assert_int_equal(place, m->in[at].place);
        m->in[at].interrupted = 1;
    } else if (m->parked == m->parked_max) {
        assert_int_equal(rc, SNIC_EAGAIN);
    } else {
        assert_int_equal(rc, 0);
        m->park[m->parked][0] = target | UINT64_C(1) << 40;
        m->park[m->parked++][1] = target;
    }
}

static void both_stale(struct model *m, struct snic_fuse_table *t)
{
    uint64_t want = m->stale > 0 ? m->park[0][0] : 0;

    assert_true(snic_fuse_table_stale(t) == want);
    if (want != 0)
        model_unpark(m, 0);
}

static void both_same(const struct model *m, const struct snic_fuse_table *t)
{
    uint32_t place;

    assert_int_equal(snic_fuse_table_check(t), 0);
    assert_int_equal(snic_fuse_table_count(t), m->n);
    assert_int_equal(snic_fuse_table_parked(t), m->parked);
    for (uint32_t i = 0; i < m->n; i++) {
        assert_int_equal(snic_fuse_table_find(t, m->in[i].unique, &place), 0);
        assert_int_equal(place, m->in[i].place);
        assert_true(snic_fuse_table_unique(t, place) == m->in[i].unique);
        assert_int_equal(snic_fuse_table_interrupted(t, place), m->in[i].interrupted);
    }
}

/* Three uniques, two places, one or two parked: all sequences of ten calls' kinds. */
static void test_fuse_table_every_sequence(void **state)
{
    uint32_t length = (uint32_t)support_scale(SUPPORT_SANITIZED ? 4 : 5, 6);
    uint64_t all = 1;

    (void)state;
    for (uint32_t i = 0; i < length; i++)
        all *= 10;
    for (uint64_t s = 0; s < all; s++) {
        struct snic_fuse_table_opts o = {sizeof(o), 2, 1 + (uint32_t)(s & 1), 0, 3};
        unsigned char mem[1024] __attribute__((aligned(SNIC_FUSE_TABLE_ALIGN)));
        struct model m = {.places = 2, .parked_max = o.parked_max};
        struct snic_fuse_table *t = NULL;
        uint64_t rest = s;

        assert_int_equal(snic_fuse_table_init(&t, mem, sizeof(mem), &o), 0);
        for (uint32_t i = 0; i < length; i++, rest /= 10) {
            uint32_t op = (uint32_t)(rest % 10);

            if (op < 3)
                both_add(&m, t, op + 1);
            else if (op < 5)
                both_remove(&m, t, op - 3);
            else if (op < 8)
                both_interrupt(&m, t, op - 4);
            else if (op < 9)
                both_stale(&m, t);
            both_same(&m, t);
        }
    }
}

/* Uniques that share slots of the index: removals must not hide one behind a gap. */
static void test_fuse_table_random_against_list(void **state)
{
    uint64_t rounds = support_rounds(40, 2000);
    struct snic_rng rng;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint64_t r = 0; r < rounds; r++) {
        struct model m = {.places = 1 + (uint32_t)snic_rng_below(&rng, MODEL_MAX - 1)};
        uint64_t range = 1 + snic_rng_below(&rng, 2 * m.places);
        struct snic_fuse_table *t;
        void *mem;

        m.parked_max = 1 + (uint32_t)snic_rng_below(&rng, 8);
        t = table_of(m.places, m.parked_max, snic_rng_next(&rng), &mem);
        for (int i = 0; i < 2000; i++) {
            uint64_t unique = 1 + snic_rng_below(&rng, range);

            switch (snic_rng_below(&rng, 8)) {
            case 0:
            case 1:
            case 2:
                both_add(&m, t, unique);
                break;
            case 3:
            case 4:
                both_remove(&m, t, (uint32_t)snic_rng_below(&rng, m.places));
                break;
            case 5:
                both_interrupt(&m, t, unique);
                break;
            default:
                both_stale(&m, t);
                break;
            }
            both_same(&m, t);
        }
        support_guard_free(snic_fuse_table_fini(t));
    }
}

static void remove_none(void *ctx)
{
    snic_fuse_table_remove(ctx, 0);
}

static void remove_beyond(void *ctx)
{
    snic_fuse_table_remove(ctx, 5);
}

static void test_fuse_table_bad_calls_refused(void **state)
{
    struct snic_fuse_table_opts o = {sizeof(o), 5, 0, 0, 0};
    struct snic_fuse_table_opts bad;
    size_t size = snic_fuse_table_memsize(&o);
    struct snic_fuse_table *t = NULL;
    unsigned char *mem = support_guard_alloc(size + 64, 64);
    uint32_t place = 77;

    (void)state;
    assert_true(size > 0 && size % SNIC_FUSE_TABLE_ALIGN == 0);
    assert_int_equal(snic_fuse_table_init(&t, mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_fuse_table_init(&t, mem + 8, size, &o), SNIC_EINVAL);
    assert_null(t);
    bad = o;
    bad.places_max = 0;
    assert_int_equal(snic_fuse_table_memsize(&bad), 0);
    bad.places_max = SNIC_FUSE_PLACES_MAX;
    assert_true(snic_fuse_table_memsize(&bad) > 0);
    bad.places_max = SNIC_FUSE_PLACES_MAX + 1;
    assert_int_equal(snic_fuse_table_memsize(&bad), 0);
    assert_int_equal(snic_fuse_table_init(&t, mem, size, &bad), SNIC_EINVAL);
    bad = o;
    bad.parked_max = SNIC_FUSE_PARKED_MAX;
    assert_true(snic_fuse_table_memsize(&bad) > 0);
    bad.parked_max = SNIC_FUSE_PARKED_MAX + 1;
    assert_int_equal(snic_fuse_table_memsize(&bad), 0);
    bad = o;
    bad.reserved = 1;
    assert_int_equal(snic_fuse_table_memsize(&bad), 0);
    bad = o;
    bad.opts_size = 1;
    assert_int_equal(snic_fuse_table_memsize(&bad), 0);
    assert_int_equal(snic_fuse_table_init(&t, mem, size, &o), 0);
    assert_int_equal(snic_fuse_table_add(t, 0, &place), SNIC_EINVAL);
    assert_int_equal(snic_fuse_table_find(t, 0, &place), SNIC_ENOENT);
    assert_int_equal(snic_fuse_table_find(t, 9, &place), SNIC_ENOENT);
    assert_int_equal(snic_fuse_table_interrupt(t, 1, 0, &place), SNIC_EINVAL);
    assert_int_equal(place, 77);
    assert_int_equal(snic_fuse_table_unique(t, 5), 0);
    assert_int_equal(snic_fuse_table_interrupted(t, 5), 0);
    SUPPORT_EXPECT_ABORT(remove_none, t);
    SUPPORT_EXPECT_ABORT(remove_beyond, t);
    assert_int_equal(snic_fuse_table_check(t), 0);
    for (int i = 0; i < 16; i++)
        assert_int_equal(snic_fuse_table_interrupt(t, 100, 50, &place), 0); /* the default */
    assert_int_equal(snic_fuse_table_interrupt(t, 100, 50, &place), SNIC_EAGAIN);
    assert_ptr_equal(snic_fuse_table_fini(t), mem);
    support_guard_free(mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuse_table_bad_calls_refused),
        cmocka_unit_test(test_fuse_table_every_sequence),
        cmocka_unit_test(test_fuse_table_random_against_list),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
