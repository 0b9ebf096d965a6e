/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The request ring with a peer that writes what it likes into the shared memory. */
#include "test_ring_util.h"

#include <stdio.h>
#include <stdlib.h>

/* A record that claims more than there is below the limit, in each of its forms, is found out
 * before a byte of it is delivered. */
static void test_ring_record_longer_than_its_place_refused(void **state)
{
    uint32_t form, d;

    (void)state;
    for (form = 0; form < 6; form++)
        for (d = 0; d < 2; d++) {
            struct fixture f;
            struct snic_ring_producer p;
            struct snic_ring_consumer c;
            struct snic_ring_rec rec[2];
            unsigned char *m;
            uint64_t word;

            fixture_open(&f, request_opts(d, 1024));
            m = (unsigned char *)f.mem + f.info.data_offset;
            assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
            assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
            assert_int_equal(snic_ring_reserve(&p, 1, 8, form < 3 ? 0 : 8, rec), 0);
            snic_ring_commit(&p);
            word = snic_get_le64(m);
            if (form == 0)
                snic_put_le64(m, word + 200); /* data beyond record_max or T */
            else if (form == 1)
                snic_put_le64(m, (word & ~UINT64_C(0xfffffff)) | UINT64_C(0xfffffff));
            else if (form == 2) /* a pad over the end of the data area */
                snic_put_le64(m, (word & ~UINT64_C(0xfffffff)) | UINT64_C(1) << 28 | 65);
            else if (form == 3) /* a body longer than its span */
                snic_put_le64(m + 8, snic_get_le64(m + 8) + 64);
            else if (form == 4) /* a span over the end of the data area */
                snic_put_le64(m + 8, snic_get_le64(m + 8) + (UINT64_C(65) << 32));
            else /* no span */
                snic_put_le64(m + 8, snic_get_le64(m + 8) & UINT32_MAX);
            if (form == 0 && d == SNIC_RING_COMMIT)
                snic_put_le64(m, word + 1000);
            assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
            assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
            fixture_close(&f);
        }
    /* QUIESCENT: within the data area and beyond T */
    for (form = 0; form < 3; form++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[2];
        unsigned char *m;

        fixture_open(&f, request_opts(SNIC_RING_QUIESCENT, 1024));
        m = (unsigned char *)f.mem + f.info.data_offset;
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        assert_int_equal(snic_ring_reserve(&p, 1, 8, form == 1 ? 8 : 0, rec), 0);
        snic_ring_commit(&p);
        if (form == 0)
            snic_put_le64(m, snic_get_le64(m) + 16);
        else if (form == 1)
            snic_put_le64(m + 8, snic_get_le64(m + 8) + (UINT64_C(2) << 32));
        else
            snic_put_le64(m, (snic_get_le64(m) & ~UINT64_C(0xfffffff)) | UINT64_C(1) << 28 | 3);
        assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* The same at the end of the data area, where one byte more is not the ring's. */
static void test_ring_record_over_the_end_refused(void **state)
{
    uint32_t form, i;

    (void)state;
    for (form = 0; form < 3; form++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[2];
        unsigned char *m;

        fixture_open(&f, request_opts(SNIC_RING_COMMIT, 1024));
        m = (unsigned char *)f.mem + f.info.data_offset + 960;
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        for (i = 0; i < 60; i++) {
            assert_int_equal(snic_ring_push(&p, 1, "", 0), 0);
            assert_int_equal(snic_ring_peek(&c, rec, 1), 1);
            assert_int_equal(snic_ring_release(&c, rec[0].next), 0);
        }
        assert_int_equal(snic_ring_reserve(&p, 1, 8, form == 1 ? 8 : 0, rec), 0);
        snic_ring_commit(&p);
        if (form == 0)
            snic_put_le64(m, snic_get_le64(m) + 100);
        else if (form == 1)
            snic_put_le64(m + 8, snic_get_le64(m + 8) + 100 + (UINT64_C(6) << 32));
        else
            snic_put_le64(m, (snic_get_le64(m) & ~UINT64_C(0xfffffff)) | UINT64_C(1) << 28 | 8);
        assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* An H that goes back, or beyond T, would let producers write over what is out. */
static void test_ring_head_moved_by_peer_refused(void **state)
{
    static const uint64_t bad[] = {0, 8, 496, 2048, UINT64_MAX - 15};
    uint32_t form, i;

    (void)state;
    for (form = 0; form < SNIC_COUNTOF(bad); form++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec;
        int r = 0;

        fixture_open(&f, request_opts(SNIC_RING_COMMIT, 1024));
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        for (i = 0; i < 64; i++) { /* the producer has seen an H of 512 at least */
            assert_int_equal(snic_ring_push(&p, 1, "", 0), 0);
            assert_int_equal(snic_ring_peek(&c, &rec, 1), 1);
            assert_int_equal(snic_ring_release(&c, rec.next), 0);
        }
        assert_true(p.head >= 496);
        snic_put_le64((char *)f.mem + SNIC_RING_OFF_HEAD,
                      bad[form] == 496 ? p.head - 16 : bad[form]);
        for (i = 0; i < 64 && r == 0; i++)
            r = snic_ring_push(&p, 1, "", 0);
        assert_int_equal(r, SNIC_ECORRUPT);
        assert_int_equal(snic_ring_push(&p, 1, "", 0), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* A T and an H that no ring ever had, found at attaching: the window of short pushes that follows
 * from them ends with the data area all the same, and what is out is never in it. */
static void test_ring_positions_nonsense_at_attach_push_stays_inside(void **state)
{
    static const struct {
        uint64_t head, tail;
    } cases[] = {{0, UINT64_MAX - 1024 - 15},
                 {0, UINT64_MAX - 1024 - 31},
                 {0, UINT64_MAX - 15},
                 {16, UINT64_MAX - 2048 - 15},
                 {UINT64_MAX - 1023, UINT64_MAX - 15},
                 {2048, 1008},
                 {0, 4096 - 16}};
    uint32_t d, i, k;

    (void)state;
    for (d = 0; d < 2; d++)
        for (i = 0; i < SNIC_COUNTOF(cases); i++) {
            static const unsigned char data[256] = {1};
            struct fixture f;
            struct snic_ring_producer p;

            fixture_open(&f, request_opts(d, 1024));
            snic_put_le64((char *)f.mem + SNIC_RING_OFF_HEAD, cases[i].head);
            snic_put_le64((char *)f.mem + SNIC_RING_OFF_TAIL, cases[i].tail);
            assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
            assert_true(p.window.width <= 1024 - (p.window.from & 1023));
            if (p.window.width != 0)
                assert_true(p.window.from + p.window.width - p.head <= f.info.progress_max);
            for (k = 0; k < 8; k++) {
                ignore(
                    snic_ring_push(&p, 1, data, f.info.record_max < 256 ? f.info.record_max : 256));
                ignore(snic_ring_push_n(&p, 1, data, 24, 3));
            }
            fixture_close(&f);
        }
}

/* Whatever stands in the shared part, no call leaves its memory, hangs or crashes, and a handle
 * that found nonsense stays broken. */
static void test_ring_hostile_memory_is_survived(void **state)
{
    uint64_t rounds = support_scale(3000, 300000);
    struct snic_rng rng;
    uint64_t i, broken = 0;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        struct snic_ring_opts o = request_opts(i & 1, 1024);
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[8];
        unsigned char *m;
        int step, n = 0;

        o.owners_max = 2 - (i >> 2 & 1);
        o.flags = i & 4 ? SNIC_RING_ONE_PRODUCER : 0;
        o.body_align = i & 2 ? 64 : 8;
        fixture_open(&f, o);
        m = f.mem;
        assert_int_equal(snic_ring_producer_attach(&p, m, f.size, 11), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, m, f.size, f.aux, (size_t)f.info.aux_bytes),
                         0);
        for (step = 0; step < 60; step++) {
            uint64_t x = snic_rng_next(&rng);
            size_t at = SNIC_RING_HEADER_BYTES +
                        (size_t)snic_rng_below(&rng, (f.size - SNIC_RING_HEADER_BYTES) / 8) * 8;

            if (x % 5 == 0)
                at = SNIC_RING_OFF_PROGRESS + (x >> 8) % 6 * 128;
            if (x % 3 == 0)
                snic_put_le64(m + at, snic_get_le64(m + at) + ((x >> 16) % 9 - 4) * 16);
            else if (x % 3 == 1)
                snic_put_le64(m + at, x >> ((x >> 3) & 63));
            if (snic_ring_reserve(&p, 1, (uint32_t)(x >> 32) % 200, (uint32_t)(x >> 40) % 200,
                                  rec) == 0) {
                memset(rec->data, 1, rec->data_bytes);
                if (rec->body != NULL)
                    memset(rec->body, 1, rec->body_bytes);
                snic_ring_commit(&p);
            }
            ignore(snic_ring_push(&p, 1, rec, (uint32_t)(x >> 50) % 40));
            n = x & 1 ? peek_by_run(&c, rec, 8) : snic_ring_peek(&c, rec, 8);
            while (n > 0) {
                volatile unsigned char sum = 0;
                const unsigned char *d = rec[--n].data;
                uint32_t b;

                for (b = 0; b < rec[n].data_bytes; b++)
                    sum = (unsigned char)(sum + d[b]);
                for (b = 0; b < rec[n].body_bytes; b++)
                    sum = (unsigned char)(sum + ((unsigned char *)rec[n].body)[b]);
                ignore(snic_ring_finish(&c, rec[n].position));
            }
            if (n < 0)
                assert_int_equal(snic_ring_peek(&c, rec, 8), SNIC_ECORRUPT);
            ignore(snic_ring_notify(&p));
            ignore(snic_ring_space_notify(&c));
            ignore(snic_ring_check(m, f.size));
            if (x % 61 == 0)
                ignore(snic_ring_abandon(m, f.size, 11));
        }
        broken += n < 0;
        fixture_close(&f);
    }
    print_message("%llu of %llu found out\n", (unsigned long long)broken,
                  (unsigned long long)rounds);
    assert_true(broken > rounds / 50);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_record_longer_than_its_place_refused),
        cmocka_unit_test(test_ring_record_over_the_end_refused),
        cmocka_unit_test(test_ring_head_moved_by_peer_refused),
        cmocka_unit_test(test_ring_positions_nonsense_at_attach_push_stays_inside),
        cmocka_unit_test(test_ring_hostile_memory_is_survived),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
