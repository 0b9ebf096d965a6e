/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The response ring in one thread: contracts, delivery in and out of order, random runs. */
#include "test_ring_util.h"

#include <stdlib.h>

static struct snic_ring_opts response_opts(uint32_t discipline, uint64_t capacity)
{
    struct snic_ring_opts o = request_opts(discipline, capacity);

    o.kind = SNIC_RING_RESPONSE;
    return o;
}

static void open_both(struct fixture *f, struct snic_ring_opts o, struct snic_ring_responder *r,
                      struct snic_ring_collector *k)
{
    fixture_open(f, o);
    assert_int_equal(
        snic_ring_responder_attach(r, f->mem, f->size, f->aux, (size_t)f->info.aux_bytes), 0);
    assert_int_equal(snic_ring_collector_attach(k, f->mem, f->size, 0), 0);
}

static uint64_t reserve(struct snic_ring_responder *r, uint64_t number, uint32_t bytes,
                        uint32_t body)
{
    struct snic_ring_rec rec;

    if (snic_ring_resp_reserve(r, 6, bytes, body, &rec) != 0)
        return UINT64_MAX;
    pattern_fill(rec.data, number, 0, bytes);
    if (body != 0)
        pattern_fill(rec.body, number, bytes, body);
    return rec.position;
}

static void flush(struct snic_ring_responder *r)
{
    struct snic_ring_op ops[4];

    assert_int_equal(snic_ring_resp_flush(r, ops, 4), 0);
}

/* Each refusal must leave the responder as it was. */
static void test_ring_responder_refusals(void **state)
{
    struct fixture f;
    struct snic_ring_responder r, before;
    struct snic_ring_collector k;
    struct snic_ring_rec rec;
    struct snic_ring_op ops[4];
    uint64_t at;

    (void)state;
    open_both(&f, response_opts(SNIC_RING_QUIESCENT, 1024), &r, &k);
    before = r;
    assert_int_equal(snic_ring_resp_reserve(&r, 65536, 8, 0, &rec), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_reserve(&r, 0, f.info.record_max, 1, &rec), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_resp_finish(&r, 0, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_cancel(&r, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_flush(&r, ops, 3), SNIC_EINVAL);
    assert_memory_equal(&r, &before, sizeof(r));
    at = reserve(&r, 1, 8, 100);
    assert_int_equal(at, 0);
    assert_int_equal(snic_ring_resp_finish(&r, 0, 101), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_finish(&r, 8, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_finish(&r, 16, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_finish(&r, 1024, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_cancel(&r, 1024), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_finish(&r, 0, 99), 0);
    assert_int_equal(snic_ring_resp_finish(&r, 0, 99), SNIC_EINVAL);
    assert_int_equal(snic_ring_resp_cancel(&r, 0), SNIC_EINVAL);
    while (reserve(&r, 1, 8, 100) != UINT64_MAX)
        ;
    assert_int_equal(snic_ring_resp_reserve(&r, 0, 8, 100, &rec), SNIC_EAGAIN);
    fixture_close(&f);
}

/* QUIESCENT: collectors see nothing before every older record is finished and flushed. */
static void test_ring_response_ordered_oldest_open_holds_back(void **state)
{
    struct fixture f;
    struct snic_ring_responder r;
    struct snic_ring_collector k;
    struct snic_ring_rec rec;
    uint64_t a, b, ta, tb, tc;

    (void)state;
    open_both(&f, response_opts(SNIC_RING_QUIESCENT, 4096), &r, &k);
    a = reserve(&r, 1, 8, 0);
    b = reserve(&r, 2, 8, 0);
    assert_int_equal(snic_ring_resp_finish(&r, b, 0), 0);
    assert_int_equal(snic_ring_resp_ready(&r), 0);
    flush(&r);
    assert_int_equal(snic_ring_claim(&k, &rec), 0);
    assert_int_equal(snic_ring_resp_finish(&r, a, 0), 0);
    assert_int_equal(snic_ring_resp_ready(&r), 32);
    snic_ring_resp_tails(&r, &ta, &tb, &tc);
    assert_true(ta == 32 && tb == 32 && tc == 0);
    assert_int_equal(snic_ring_claim(&k, &rec), 0);
    flush(&r);
    assert_int_equal(snic_ring_claim(&k, &rec), 1);
    assert_true(rec.position == a && pattern_ok(rec.data, 1, 0, 8));
    assert_int_equal(snic_ring_claim_release(&k, &rec), 0);
    assert_int_equal(snic_ring_claim(&k, &rec), 1);
    assert_true(rec.position == b);
    assert_int_equal(snic_ring_claim_release(&k, &rec), 0);
    assert_int_equal(snic_ring_claim(&k, &rec), 0);
    assert_int_equal(snic_ring_check(f.mem, f.size), 0);
    fixture_close(&f);
}

/* COMMIT: a finished record is delivered although older ones are open, and its space follows
 * when they are done. */
static void test_ring_response_commit_open_record_is_overtaken(void **state)
{
    struct fixture f;
    struct snic_ring_responder r;
    struct snic_ring_collector k, other;
    struct snic_ring_rec rec, held;
    uint64_t a, b;

    (void)state;
    open_both(&f, response_opts(SNIC_RING_COMMIT, 1024), &r, &k);
    assert_int_equal(snic_ring_collector_attach(&other, f.mem, f.size, 0), 0);
    a = reserve(&r, 1, 8, 64);
    b = reserve(&r, 2, 8, 64);
    assert_int_equal(snic_ring_claim(&k, &rec), 0);
    assert_int_equal(snic_ring_resp_finish(&r, b, 10), 0);
    assert_int_equal(snic_ring_claim(&k, &held), 1);
    assert_true(held.position == b && held.body_bytes == 10 && pattern_ok(held.body, 2, 8, 10));
    assert_int_equal(snic_ring_resp_finish(&r, a, SNIC_RING_WHOLE_BODY), 0);
    assert_int_equal(snic_ring_claim(&other, &rec), 1);
    assert_true(rec.position == a && rec.body_bytes == 64);
    assert_int_equal(snic_ring_claim_release(&other, &rec), 0);
    assert_int_equal(snic_ring_claim_release(&k, &held), 0);
    assert_int_equal(snic_get_le64((char *)f.mem + SNIC_RING_OFF_HEAD), held.next);
    fixture_close(&f);
}

/* A collector that holds a record stops no other until the ring is full, and then lets go. */
static void test_ring_response_slow_collector_others_go_on(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct fixture f;
        struct snic_ring_responder r;
        struct snic_ring_collector slow, k;
        struct snic_ring_rec held, rec;
        uint64_t n = 0, seen = 1;

        open_both(&f, response_opts(d, 4096), &r, &k);
        assert_int_equal(snic_ring_collector_attach(&slow, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_resp_finish(&r, reserve(&r, n++, 8, 0), 0), 0);
        flush(&r);
        assert_int_equal(snic_ring_claim(&slow, &held), 1);
        for (;;) {
            uint64_t at = reserve(&r, n, 8, 0);

            if (at == UINT64_MAX)
                break;
            n++;
            assert_int_equal(snic_ring_resp_finish(&r, at, 0), 0);
            flush(&r);
            assert_int_equal(snic_ring_claim(&k, &rec), 1);
            assert_true(pattern_ok(rec.data, seen++, 0, 8));
            assert_int_equal(snic_ring_claim_release(&k, &rec), 0);
        }
        assert_true(seen == 128);
        assert_int_equal(snic_ring_claim_release(&slow, &held), 0);
        assert_true(reserve(&r, n, 8, 0) != UINT64_MAX);
        fixture_close(&f);
    }
}

/* collect copies data and body; too small a buffer loses the record and returns an error. */
static void test_ring_collect_copies_or_refuses(void **state)
{
    struct fixture f;
    struct snic_ring_responder r;
    struct snic_ring_collector k;
    unsigned char out[200];
    uint32_t type = 0;
    struct snic_ring_op op;

    (void)state;
    open_both(&f, response_opts(SNIC_RING_COMMIT, 4096), &r, &k);
    assert_int_equal(snic_ring_collect(&k, out, sizeof(out), &type), SNIC_EAGAIN);
    assert_int_equal(snic_ring_resp_finish(&r, reserve(&r, 1, 33, 100), 90), 0);
    assert_int_equal(snic_ring_collect(&k, out, sizeof(out), &type), 123);
    assert_true(type == 6 && pattern_ok(out, 1, 0, 123));
    assert_int_equal(snic_ring_resp_finish(&r, reserve(&r, 1, 33, 100), 90), 0);
    assert_int_equal(snic_ring_resp_wait_arm(&r, &op), 0);
    assert_int_equal(snic_ring_collect(&k, out, 122, NULL), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_collect_notify(&k), 1);
    assert_int_equal(snic_ring_collect_notify(&k), 0);
    assert_int_equal(snic_ring_collect(&k, out, sizeof(out), &type), SNIC_EAGAIN);
    assert_int_equal(snic_ring_resp_notify(&r), 0);
    snic_ring_collect_arm(&k);
    assert_int_equal(snic_ring_resp_notify(&r), 1);
    assert_int_equal(snic_ring_resp_notify(&r), 0);
    fixture_close(&f);
}

/* Cancelled records and pads must neither be delivered nor hold space. */
static void test_ring_response_cancelled_only_frees_itself(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct fixture f;
        struct snic_ring_responder r;
        struct snic_ring_collector k;
        struct snic_ring_rec rec;

        open_both(&f, response_opts(d, 1024), &r, &k);
        for (i = 0; i < 1000; i++) {
            uint64_t at = reserve(&r, i, i % 200, i % 3 != 0 ? 0 : 1 + i % 7);

            assert_true(at != UINT64_MAX);
            assert_int_equal(snic_ring_resp_cancel(&r, at), 0);
            flush(&r);
            assert_int_equal(snic_ring_claim(&k, &rec), 0);
        }
        fixture_close(&f);
    }
}

/* ---- Random against a list of what is out ---- */

struct pending {
    uint64_t position, number;
    uint32_t bytes, body;
    int finished, delivered;
};

/* The record is one of the finished ones, and whole. Takes it off the list; its number. */
static uint64_t pending_arrived(struct pending *out, uint32_t *n, const struct snic_ring_rec *rec)
{
    uint32_t i = 0;
    struct pending p;

    while (i < *n && out[i].position != rec->position)
        i++;
    assert_true(i < *n && out[i].finished);
    p = out[i];
    assert_int_equal(rec->data_bytes, p.bytes);
    assert_int_equal(rec->body_bytes, p.body);
    assert_true(pattern_ok(rec->data, p.number, 0, p.bytes));
    assert_true(p.body == 0 || pattern_ok(rec->body, p.number, p.bytes, p.body));
    out[i] = out[--*n];
    return p.number;
}

/* Whatever the order of finishing, each record arrives once and whole; QUIESCENT in order. */
static void test_ring_response_random_each_record_once(void **state)
{
    uint64_t steps = support_scale(300000, 10000000);
    struct snic_rng rng;
    uint32_t variant;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (variant = 0; variant < 4; variant++) {
        struct snic_ring_opts o = response_opts(variant & 1, 4096);
        struct fixture f;
        struct snic_ring_responder r;
        struct snic_ring_collector k[3];
        struct snic_ring_rec held[3];
        struct pending out[512];
        uint32_t n = 0, holds[3] = {0, 0, 0};
        uint64_t number = 1, step, got = 0, last = 0;

        o.body_align = variant & 2 ? 64 : 8;
        open_both(&f, o, &r, &k[0]);
        assert_int_equal(snic_ring_collector_attach(&k[1], f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_collector_attach(&k[2], f.mem, f.size, 0), 0);
        for (step = 0; step < steps; step++) {
            uint64_t x = snic_rng_next(&rng);
            uint32_t w = (uint32_t)(x >> 8) % 3;

            if ((x >> 10 & 3) == 0)
                flush(&r);
            if ((x & 7) < 2 && n < 512) {
                struct pending *p = &out[n];

                p->bytes = (uint32_t)(x >> 16) % 100;
                p->body = x & 64 ? (uint32_t)(x >> 32) % 400 : 0;
                p->number = number;
                p->position = reserve(&r, number, p->bytes, p->body);
                p->finished = 0;
                n += p->position != UINT64_MAX;
                number += p->position != UINT64_MAX;
            } else if ((x & 7) < 5 && n > 0) {
                struct pending *p = &out[(uint32_t)(x >> 16) % n];

                if (p->finished)
                    continue;
                p->finished = 1;
                if (x & 128)
                    p->body /= 2;
                if (x % 17 == 0) {
                    assert_int_equal(snic_ring_resp_cancel(&r, p->position), 0);
                    *p = out[--n];
                } else {
                    assert_int_equal(snic_ring_resp_finish(&r, p->position, p->body), 0);
                }
            } else if (holds[w]) {
                assert_int_equal(snic_ring_claim_release(&k[w], &held[w]), 0);
                holds[w] = 0;
            } else if (snic_ring_claim(&k[w], &held[w]) == 1) {
                holds[w] = 1;
                uint64_t arrived = pending_arrived(out, &n, &held[w]);

                assert_true(o.discipline == SNIC_RING_COMMIT || arrived > last);
                last = arrived;
                got++;
            }
        }
        assert_true(got > steps / 20);
        assert_true(r.stats.pads > 100);
        fixture_close(&f);
    }
}

/* An H beyond what was delivered would give away the space of open records. */
static void test_ring_response_head_beyond_delivered_refused(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct fixture f;
        struct snic_ring_responder r;
        struct snic_ring_collector k;
        struct snic_ring_rec rec;
        int e, i;

        open_both(&f, response_opts(d, 1024), &r, &k);
        assert_true(reserve(&r, 1, 100, 0) == 0);
        snic_put_le64((char *)f.mem + SNIC_RING_OFF_HEAD, 112);
        for (e = 0, i = 0; e == 0 && i < 100; i++)
            e = snic_ring_resp_reserve(&r, 1, 100, 0, &rec);
        assert_int_equal(e, SNIC_ECORRUPT);
        assert_int_equal(snic_ring_resp_finish(&r, 0, 0), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* Whatever stands in the shared part, neither side leaves its memory, hangs or crashes. */
static void test_ring_response_hostile_memory_is_survived(void **state)
{
    uint64_t rounds = support_scale(3000, 300000);
    struct snic_rng rng;
    uint64_t i, broken = 0;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        struct snic_ring_opts o = response_opts(i & 1, 1024);
        struct fixture f;
        struct snic_ring_responder r;
        struct snic_ring_collector k[2];
        struct snic_ring_rec rec;
        unsigned char *m;
        uint64_t open[8] = {0};
        int step;

        o.owners_max = 2;
        o.body_align = i & 2 ? 64 : 8;
        fixture_open(&f, o);
        m = f.mem;
        assert_int_equal(snic_ring_responder_attach(&r, m, f.size, f.aux, (size_t)f.info.aux_bytes),
                         0);
        assert_int_equal(snic_ring_collector_attach(&k[0], m, f.size, 1), 0);
        assert_int_equal(snic_ring_collector_attach(&k[1], m, f.size, 2), 0);
        assert_int_equal(snic_ring_collector_attach(&k[1], m, f.size, 2), SNIC_EEXIST);
        assert_int_equal(snic_ring_collector_attach(&k[1], m, f.size, 3), SNIC_ENOSPC);
        for (step = 0; step < 60; step++) {
            uint64_t x = snic_rng_next(&rng);
            size_t at = SNIC_RING_HEADER_BYTES +
                        (size_t)snic_rng_below(&rng, (f.size - SNIC_RING_HEADER_BYTES) / 8) * 8;
            struct snic_ring_op ops[4];

            if (x % 5 == 0)
                at = SNIC_RING_OFF_PROGRESS + (x >> 8) % 6 * 128;
            if (x % 3 == 0)
                snic_put_le64(m + at, snic_get_le64(m + at) + ((x >> 16) % 9 - 4) * 16);
            else if (x % 3 == 1)
                snic_put_le64(m + at, x >> ((x >> 3) & 63));
            if (snic_ring_resp_reserve(&r, 1, (uint32_t)(x >> 32) % 100, (uint32_t)(x >> 40) % 200,
                                       &rec) == 0) {
                memset(rec.data, 1, rec.data_bytes);
                if (rec.body != NULL)
                    memset(rec.body, 1, rec.body_bytes);
                open[x >> 61] = rec.position;
            }
            ignore(snic_ring_resp_finish(&r, open[(x >> 58) & 7], (uint32_t)(x >> 24) & 63));
            ignore(snic_ring_resp_flush(&r, ops, 4));
            if (snic_ring_claim(&k[x & 1], &rec) == 1) {
                volatile unsigned char sum = 0;
                uint32_t b;

                for (b = 0; b < rec.data_bytes; b++)
                    sum = (unsigned char)(sum + ((unsigned char *)rec.data)[b]);
                for (b = 0; b < rec.body_bytes; b++)
                    sum = (unsigned char)(sum + ((unsigned char *)rec.body)[b]);
                ignore(snic_ring_claim_release(&k[x & 1], &rec));
            }
            ignore(snic_ring_resp_notify(&r));
            ignore(snic_ring_check(m, f.size));
            if (x % 61 == 0)
                ignore(snic_ring_abandon(m, f.size, 1 + (x >> 20) % 2));
        }
        broken += r.g.broken != 0 || k[0].g.broken != 0;
        fixture_close(&f);
    }
    print_message("%llu of %llu found out\n", (unsigned long long)broken,
                  (unsigned long long)rounds);
    assert_true(broken > rounds / 50);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_responder_refusals),
        cmocka_unit_test(test_ring_response_ordered_oldest_open_holds_back),
        cmocka_unit_test(test_ring_response_commit_open_record_is_overtaken),
        cmocka_unit_test(test_ring_response_slow_collector_others_go_on),
        cmocka_unit_test(test_ring_collect_copies_or_refuses),
        cmocka_unit_test(test_ring_response_cancelled_only_frees_itself),
        cmocka_unit_test(test_ring_response_random_each_record_once),
        cmocka_unit_test(test_ring_response_head_beyond_delivered_refused),
        cmocka_unit_test(test_ring_response_hostile_memory_is_survived),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
