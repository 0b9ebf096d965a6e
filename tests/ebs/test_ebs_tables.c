/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The tables of a storage agent, beside models, and with bits of their memory flipped. */
#include "support.h"
#include "base/simd.h"
#include "ebs/ebs_priv.h"

__extension__ typedef __int128 wide;
#define UNIT ((wide)65536 * 1000000000) /* of the model: a token */

/* ---- Rates ---- */

static struct snic_ebs_qos *new_qos(uint32_t disks, uint32_t unit)
{
    struct snic_ebs_qos_opts o = {.opts_size = sizeof(o), .disks = disks, .io_unit_bytes = unit};
    struct snic_ebs_qos *q = NULL;
    size_t size = snic_ebs_qos_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_EBS_ALIGN);
    assert_int_equal(snic_ebs_qos_init(&q, mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_ebs_qos_init(&q, (char *)mem + 8, size, &o), SNIC_EINVAL);
    assert_null(q);
    assert_int_equal(snic_ebs_qos_init(&q, mem, size, &o), 0);
    return q;
}

static void test_ebs_qos_bad_arguments_are_refused(void **state)
{
    (void)state;
    struct snic_ebs_qos_opts o = {.opts_size = sizeof(o)};
    assert_int_equal(snic_ebs_qos_memsize(&o), 0);
    o.disks = 65537;
    assert_int_equal(snic_ebs_qos_memsize(&o), 0);
    o.disks = 2;
    o.flags = 1;
    assert_int_equal(snic_ebs_qos_memsize(&o), 0);

    struct snic_ebs_qos *q = new_qos(2, 0);
    struct snic_ebs_qos_limits l = {.bytes_per_second = 1000};
    struct snic_ebs_qos_state v;
    assert_int_equal(snic_ebs_qos_admit(q, 0, 1, 0), SNIC_ENOENT);
    assert_int_equal(snic_ebs_qos_view(q, 1, &v), SNIC_ENOENT);
    assert_true(snic_ebs_qos_ready_ns(q, 0) == SNIC_NEVER);
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 0), SNIC_EINVAL); /* no burst */
    l.burst_bytes = (UINT64_C(1) << 40) + 1;
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 0), SNIC_EINVAL);
    l.burst_bytes = 1;
    l.bytes_per_second = (UINT64_C(1) << 40) + 1;
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 0), SNIC_EINVAL);
    l.bytes_per_second = 1;
    assert_int_equal(snic_ebs_qos_set(q, 2, &l, 0), SNIC_EINVAL);
    assert_int_equal(snic_ebs_qos_admit(q, 2, 1, 0), SNIC_EINVAL);
    assert_int_equal(snic_ebs_qos_clear(q, 2), SNIC_EINVAL);
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 0), 0);
    assert_int_equal(snic_ebs_qos_admit(q, 0, 1, 0), 0);
    assert_int_equal(snic_ebs_qos_clear(q, 0), 0);
    assert_int_equal(snic_ebs_qos_admit(q, 0, 1, 0), SNIC_ENOENT);
    assert_int_equal(snic_ebs_qos_check(q), 0);
    support_guard_free(snic_ebs_qos_fini(q));
}

/* The definition, in whole numbers of 1e-9 * 2^-16 tokens. */
struct model_bucket {
    uint64_t rate;
    uint64_t burst;
    wide has;
};
static void model_earn(struct model_bucket *b, uint64_t span)
{
    b->has += (wide)span * b->rate * 65536;
    if (b->has > (wide)b->burst * UNIT)
        b->has = (wide)b->burst * UNIT;
}
static int model_open(const struct model_bucket *b)
{
    return b->rate == 0 || b->has >= UNIT / 65536;
}

/* Admission at ready_ns and not before; without charging for the question. */
static void ready_is_exact(struct snic_ebs_qos *q, uint32_t slot, uint64_t now)
{
    struct ebs_qos_entry keep = q->entry[slot];
    uint64_t ready = snic_ebs_qos_ready_ns(q, slot);
    assert_true(ready != SNIC_NEVER);
    if (ready > now) {
        assert_int_equal(snic_ebs_qos_admit(q, slot, 1, ready - 1), SNIC_EAGAIN);
        q->entry[slot] = keep;
    }
    assert_int_equal(snic_ebs_qos_admit(q, slot, 1, ready > now ? ready : now), 0);
    q->entry[slot] = keep;
}

static void test_ebs_qos_random_equals_model(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (unsigned round = 0; round < 60; round++) {
        uint32_t unit = round % 2 ? 16384 : 0;
        struct snic_ebs_qos *q = new_qos(3, unit);
        struct model_bucket b[2] = {{0, 0, 0}, {0, 0, 0}};
        uint64_t now = snic_rng_next(&r) >> 20;
        for (unsigned i = 0; i < 800; i++) {
            if (i % 200 == 0) {
                struct snic_ebs_qos_limits l = {.bytes_per_second = snic_rng_next(&r)};
                l.bytes_per_second >>= 24 + snic_rng_below(&r, 38);
                l.ios_per_second = snic_rng_next(&r);
                l.ios_per_second >>= 24 + snic_rng_below(&r, 40);
                l.burst_bytes = 1 + (snic_rng_next(&r) >> (25 + round % 38));
                l.burst_ios = 1 + (snic_rng_next(&r) >> (25 + round % 38));
                for (unsigned k = 0; k < 2; k++) {
                    uint64_t rate = k ? l.ios_per_second : l.bytes_per_second;
                    uint64_t burst = k ? l.burst_ios : l.burst_bytes;
                    if (b[k].rate == 0)
                        b[k].has = (wide)burst * UNIT;
                    b[k].rate = rate;
                    b[k].burst = burst;
                    model_earn(&b[k], 0);
                }
                assert_int_equal(snic_ebs_qos_set(q, 1, &l, now), 0);
            }
            uint32_t bytes = (uint32_t)(snic_rng_next(&r) >> 32);
            bytes >>= snic_rng_below(&r, 20);
            uint64_t ios = unit && bytes > unit ? ((uint64_t)bytes + unit - 1) / unit : 1;
            int open = model_open(&b[0]) && model_open(&b[1]);
            assert_int_equal(snic_ebs_qos_admit(q, 1, bytes, now), open ? 0 : SNIC_EAGAIN);
            if (open) {
                b[0].has -= b[0].rate ? (wide)bytes * UNIT : 0;
                b[1].has -= b[1].rate ? (wide)ios * UNIT : 0;
                for (unsigned k = 0; k < 2; k++) { /* to the last billionth */
                    const struct ebs_bucket *e = &q->entry[1].bucket[k];
                    assert_true(!b[k].rate || (wide)e->tokens * 1000000000 + e->rest == b[k].has);
                }
            }
            ready_is_exact(q, 1, now);
            assert_int_equal(snic_ebs_qos_check(q), 0);
            uint64_t span = snic_rng_next(&r);
            span >>= 20 + snic_rng_below(&r, 44);
            if (now + span < now || now + span > UINT64_MAX / 2)
                span = 0;
            now += span;
            model_earn(&b[0], span);
            model_earn(&b[1], span);
        }
        support_guard_free(snic_ebs_qos_fini(q));
    }
}

/* A rate that loses what is less than a token would be lower for a caller that polls often. */
static void test_ebs_qos_polling_often_earns_the_same(void **state)
{
    (void)state;
    struct snic_ebs_qos *q = new_qos(2, 0);
    struct snic_ebs_qos_limits l = {.ios_per_second = 7, .burst_ios = 1};
    unsigned admitted[2] = {0, 0};
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 0), 0);
    assert_int_equal(snic_ebs_qos_set(q, 1, &l, 0), 0);
    for (uint64_t now = 0; now < UINT64_C(10000000000); now += 99991) {
        admitted[0] += snic_ebs_qos_admit(q, 0, 4096, now) == 0;
        if (now >= snic_ebs_qos_ready_ns(q, 1))
            admitted[1] += snic_ebs_qos_admit(q, 1, 4096, now) == 0;
    }
    assert_int_equal(admitted[0], admitted[1]);
    assert_in_range(admitted[0], 70, 71);
    support_guard_free(snic_ebs_qos_fini(q));
}

/* A large I/O with a small burst passes, and is paid for; a new rate does not forgive. */
static void test_ebs_qos_debt_is_paid_and_kept(void **state)
{
    (void)state;
    struct snic_ebs_qos *q = new_qos(1, 0);
    struct snic_ebs_qos_limits l = {.bytes_per_second = 1000000, .burst_bytes = 4096};
    struct snic_ebs_qos_state v;
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 0), 0);
    assert_int_equal(snic_ebs_qos_admit(q, 0, 262144, 0), 0);
    assert_int_equal(snic_ebs_qos_view(q, 0, &v), 0);
    assert_int_equal(v.bytes, 4096 - 262144);
    assert_true(snic_ebs_qos_ready_ns(q, 0) == UINT64_C(258048000) + 1);
    l.bytes_per_second = 10000000;
    l.burst_bytes = 1000;
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 1000000), 0);
    assert_int_equal(snic_ebs_qos_view(q, 0, &v), 0);
    assert_int_equal(v.bytes, 4096 - 262144 + 1000);
    assert_int_equal(snic_ebs_qos_admit(q, 0, 1, 1000000), SNIC_EAGAIN);
    assert_true(snic_ebs_qos_ready_ns(q, 0) == UINT64_C(1000000) + 25704800 + 1);
    assert_int_equal(snic_ebs_qos_admit(q, 0, 0, 500), SNIC_EAGAIN); /* time went back */
    l.bytes_per_second = 0; /* no limit any more: no debt either */
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 1000001), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(snic_ebs_qos_admit(q, 0, UINT32_MAX, 1000001), 0);
    support_guard_free(snic_ebs_qos_fini(q));
}

static void test_ebs_qos_any_flipped_bit_is_found(void **state)
{
    (void)state;
    struct snic_ebs_qos *q = new_qos(2, 0);
    struct snic_ebs_qos_limits l = {1000000, 1000, 4096, 8};
    struct snic_ebs_qos_state v;
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 5), 0);
    assert_int_equal(snic_ebs_qos_admit(q, 0, 100000, 5), 0);
    for (unsigned slot = 0; slot < 2; slot++) { /* one used, one not */
        for (unsigned bit = 0; bit < sizeof(struct ebs_qos_entry) * 8; bit++) {
            unsigned char *p = (unsigned char *)&q->entry[slot];
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_int_equal(snic_ebs_qos_admit(q, slot, 1, 1000000000), SNIC_ECORRUPT);
            assert_int_equal(snic_ebs_qos_view(q, slot, &v), SNIC_ECORRUPT);
            assert_true(snic_ebs_qos_ready_ns(q, slot) == SNIC_NEVER);
            assert_int_equal(snic_ebs_qos_check(q), SNIC_ECORRUPT);
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
    struct ebs_qos_entry keep = q->entry[0];
    q->entry[0] = q->entry[1]; /* whole, but another's */
    assert_int_equal(snic_ebs_qos_admit(q, 0, 1, 5), SNIC_ECORRUPT);
    q->entry[0] = keep;
    q->entry[0].bucket[0].tokens = 5;
    assert_int_equal(snic_ebs_qos_set(q, 0, &l, 7), 0); /* heals: full */
    assert_int_equal(snic_ebs_qos_view(q, 0, &v), 0);
    assert_int_equal(v.bytes, 4096);
    assert_int_equal(snic_ebs_qos_check(q), 0);
    support_guard_free(snic_ebs_qos_fini(q));
}

/* ---- Map ---- */

static struct snic_ebs_map *new_map(uint64_t segments, uint32_t chunks)
{
    struct snic_ebs_map_opts o = {.opts_size = sizeof(o), .chunks = chunks, .segments = segments};
    struct snic_ebs_map *m = NULL;
    size_t size = snic_ebs_map_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_EBS_ALIGN);
    assert_int_equal(snic_ebs_map_init(&m, mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_ebs_map_init(&m, (char *)mem + 64, size, &o), SNIC_EINVAL);
    assert_null(m);
    assert_int_equal(snic_ebs_map_init(&m, mem, size, &o), 0);
    return m;
}

static void test_ebs_map_bad_arguments_are_refused(void **state)
{
    (void)state;
    struct snic_ebs_map_opts o = {.opts_size = sizeof(o), .chunks = 1024, .segments = 524288};
    assert_in_range(snic_ebs_map_memsize(&o), 12582912, 12582912 + 16384); /* of 1 TiB */
    o.chunks = 1025;
    assert_int_equal(snic_ebs_map_memsize(&o), 0);
    o.chunks = 0;
    assert_int_equal(snic_ebs_map_memsize(&o), 0);
    o.chunks = 1;
    o.segments = (UINT64_C(1) << 39) + 1;
    assert_int_equal(snic_ebs_map_memsize(&o), 0);
    o.segments--;
    assert_int_not_equal(snic_ebs_map_memsize(&o), 0);
    o.segments = 0;
    assert_int_equal(snic_ebs_map_memsize(&o), 0);

    struct snic_ebs_map *m = new_map(600, 1);
    struct snic_ebs_where w = {.seg_id = 1};
    assert_int_equal(snic_ebs_map_get(m, 600, &w), SNIC_ERANGE);
    assert_int_equal(snic_ebs_map_set(m, 600, &w), SNIC_ERANGE);
    assert_int_equal(snic_ebs_map_invalidate(m, UINT64_MAX, 1), SNIC_ERANGE);
    w.flags = 1u << 14;
    assert_int_equal(snic_ebs_map_set(m, 0, &w), SNIC_EINVAL);
    w.flags = (1u << 14) - 1;
    assert_int_equal(snic_ebs_map_set(m, 599, &w), 0);
    assert_int_equal(snic_ebs_map_set(m, 0, &w), SNIC_ENOSPC); /* the bound */
    assert_int_equal(snic_ebs_map_get(m, 599, &w), 0);
    assert_int_equal(w.flags, (1u << 14) - 1);
    assert_int_equal(snic_ebs_map_chunks(m), 1);
    support_guard_free(snic_ebs_map_fini(m));
}

#define SEGMENTS 2600
static void test_ebs_map_random_equals_model(void **state)
{
    (void)state;
    static struct {
        struct snic_ebs_where w;
        int known;
    } model[SEGMENTS];
    struct snic_rng r;
    struct snic_ebs_map *m = new_map(SEGMENTS, 6);
    snic_rng_init(&r, support_seed());
    for (uint64_t i = 0; i < support_rounds(60000, 2000000); i++) {
        uint64_t s = snic_rng_below(&r, SEGMENTS);
        uint64_t first = snic_rng_next(&r);
        struct snic_ebs_where w = {first, (uint32_t)i, (uint32_t)snic_rng_below(&r, 8),
                                   (uint32_t)i % 16384, 0};
        struct snic_ebs_where got;
        unsigned op = (unsigned)snic_rng_below(&r, 100);
        int older = model[s].known && model[s].w.seg_gen > w.seg_gen;
        if (op < 40) {
            assert_int_equal(snic_ebs_map_set(m, s, &w), older ? SNIC_ESTALE : 0);
            if (!older) {
                model[s].w = w;
                model[s].known = 2;
            }
        } else if (op < 60) {
            int hit = model[s].known == 2 && model[s].w.seg_gen <= w.seg_gen;
            assert_int_equal(snic_ebs_map_invalidate(m, s, w.seg_gen), hit);
            if (hit)
                model[s].known = 1;
        } else if (op == 60 && i % 50 == 0) {
            if (i % 100 == 0)
                m->generation =
                    UINT32_MAX; /* as if 2^32 had gone by: all known ones of now are not */
            (void)snic_ebs_map_next(m);
            for (unsigned k = 0; k < SEGMENTS; k++)
                model[k].known = 0;
        }
        int want = model[s].known == 2 ? 0 : model[s].known == 1 ? SNIC_ESTALE : SNIC_ENOENT;
        assert_int_equal(snic_ebs_map_get(m, s, &got), want);
        if (want != SNIC_ENOENT)
            assert_memory_equal(&got, &model[s].w, sizeof(got));
        if (i % 5000 == 0)
            assert_int_equal(snic_ebs_map_check(m), 0);
    }
    assert_int_equal(snic_ebs_map_check(m), 0);
    assert_int_equal(snic_ebs_map_chunks(m), 6);
    support_guard_free(snic_ebs_map_fini(m));
}

/* A write must not go to the server that a damaged entry names. */
static void test_ebs_map_any_flipped_bit_is_found(void **state)
{
    (void)state;
    struct snic_ebs_map *m = new_map(4096, 8);
    struct snic_ebs_where w = {.seg_gen = 3};
    struct snic_ebs_where got;
    for (uint64_t s = 0; s < 2048; s++) {
        w.seg_id = s * 77;
        w.server = (uint32_t)s % 9;
        assert_int_equal(snic_ebs_map_set(m, s, &w), 0);
    }
    for (uint64_t s = 0; s < 2048; s += 97) {
        unsigned char *p = (unsigned char *)&m->entry[s];
        for (unsigned bit = 0; bit < sizeof(m->entry[0]) * 8; bit++) {
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_int_equal(snic_ebs_map_get(m, s, &got), SNIC_ECORRUPT);
            assert_int_equal(snic_ebs_map_invalidate(m, s, 9), SNIC_ECORRUPT);
            assert_int_equal(snic_ebs_map_check(m), SNIC_ECORRUPT);
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
    for (uint64_t s = 0; s < 4096; s += 101) { /* the first level */
        uint32_t keep = m->first[s / 512];
        for (unsigned bit = 0; bit < 32; bit++) {
            m->first[s / 512] = keep ^ 1u << bit;
            int r = snic_ebs_map_get(m, s, &got);
            assert_true(r == SNIC_ECORRUPT || r == SNIC_ENOENT);
            assert_int_equal(snic_ebs_map_check(m), SNIC_ECORRUPT);
        }
        m->first[s / 512] = keep;
    }
    m->first[2] = 1; /* heals: the chunk that was its own is found again */
    m->entry[512].server ^= 1;
    assert_int_equal(snic_ebs_map_set(m, 1024, &w), 0);
    assert_int_equal(snic_ebs_map_set(m, 512, &w), 0);
    assert_int_equal(snic_ebs_map_get(m, 1025, &got), 0);
    assert_int_equal(got.seg_id, 1025 * 77);
    assert_int_equal(snic_ebs_map_chunks(m), 4);
    assert_int_equal(snic_ebs_map_check(m), 0);
    support_guard_free(snic_ebs_map_fini(m));
}

/* ---- Split ---- */

/* A forgotten server's places are looked up, whatever is damaged; the generation is remembered. */
static void test_ebs_map_server_is_counted_and_forgotten(void **state)
{
    (void)state;
    struct snic_ebs_map *m = new_map(4096, 8);
    struct snic_ebs_where w = {.seg_gen = 3}, got;
    assert_int_equal(snic_ebs_map_server(m, 0, 1), 0); /* nothing is known */
    for (uint64_t s = 0; s < 2048; s++) {
        w.seg_id = s;
        w.server = (uint32_t)s % 4;
        assert_int_equal(snic_ebs_map_set(m, s, &w), 0);
    }
    assert_int_equal(snic_ebs_map_invalidate(m, 1, 3), 1);
    assert_int_equal(snic_ebs_map_server(m, 1, 0), 511);
    assert_int_equal(snic_ebs_map_server(m, 4, 1), 0);
    m->entry[5].seg_id ^= 1;          /* damaged: not believed anyway */
    m->owner[1] ^= UINT64_C(1) << 40; /* first[1] is followed all the same */
    uint32_t keep = m->first[2];
    m->first[2] ^= 8;                                    /* and may be healed by its owner */
    assert_int_equal(snic_ebs_map_server(m, 1, 1), 510); /* all that are whole */
    assert_int_equal(snic_ebs_map_server(m, 1, 0), 0);
    m->owner[1] ^= UINT64_C(1) << 40;
    m->first[2] = keep;
    m->entry[5].seg_id ^= 1;
    for (uint64_t s = 0; s < 2048; s++) {
        int r = s == 5 || s % 4 != 1 ? 0 : SNIC_ESTALE;
        assert_int_equal(snic_ebs_map_get(m, s, &got), r);
        assert_int_equal(got.seg_gen, 3);
    }
    assert_int_equal(snic_ebs_map_check(m), 0);
    w.server = 1;
    w.seg_gen = 2;
    assert_int_equal(snic_ebs_map_set(m, 9, &w), SNIC_ESTALE);
    (void)snic_ebs_map_next(m);
    assert_int_equal(snic_ebs_map_server(m, 0, 0), 0); /* of an older generation of the map */
    support_guard_free(snic_ebs_map_fini(m));
}

/* ---- Addr ---- */

static struct snic_ebs_addr *new_addr(uint32_t slots)
{
    struct snic_ebs_addr_opts o = {.opts_size = sizeof(o), .slots = slots};
    struct snic_ebs_addr *a = NULL;
    size_t size = snic_ebs_addr_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_EBS_ALIGN);
    assert_int_equal(snic_ebs_addr_init(&a, mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_ebs_addr_init(&a, (char *)mem + 64, size, &o), SNIC_EINVAL);
    assert_null(a);
    assert_int_equal(snic_ebs_addr_init(&a, mem, size, &o), 0);
    return a;
}

static void answer(struct snic_ebs_header *h, const struct snic_ebs_expect *e, uint16_t slot,
                   uint16_t gen)
{
    memset(h, 0, sizeof(*h));
    h->type = SNIC_EBS_READ_RESP;
    h->rpc_id = e->rpc_id;
    h->pkt_id = e->pkt_id;
    h->u.block.lba = e->lba;
    h->u.block.seg_id = e->seg_id;
    h->u.block.addr_slot = slot;
    h->u.block.addr_gen = gen;
}

/* Each field of an answer has to be right, or the block goes to another request's memory. */
static void test_ebs_addr_every_field_has_to_match(void **state)
{
    (void)state;
    struct snic_ebs_addr_opts o = {.opts_size = sizeof(o), .slots = 3};
    assert_int_equal(snic_ebs_addr_memsize(&o), 0);
    o.slots = 131072;
    assert_int_equal(snic_ebs_addr_memsize(&o), 0);
    struct snic_ebs_addr *a = new_addr(4);
    struct snic_ebs_expect e = {5, 6, 7, 8, 9, 0, 4096};
    struct snic_ebs_expect got;
    struct snic_ebs_header h;
    uint16_t slot;
    uint16_t gen;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(snic_ebs_addr_put(a, &e, &slot, &gen), 0);
    assert_int_equal(snic_ebs_addr_put(a, &e, &slot, &gen), SNIC_EAGAIN);
    assert_int_equal(slot, 3);
    for (unsigned i = 0; i < 8; i++) {
        answer(&h, &e, slot, gen);
        h.rpc_id += i == 1;
        h.pkt_id = (uint16_t)(h.pkt_id + (i == 2));
        h.u.block.lba += i == 3;
        h.u.block.seg_id += i == 4;
        h.u.block.addr_gen = (uint16_t)(gen + (i == 5));
        h.u.block.addr_slot = i == 6 ? 4 : slot;
        h.type = i == 7 ? SNIC_EBS_WACK : SNIC_EBS_READ_RESP;
        assert_int_equal(snic_ebs_addr_match(a, &h, &got), i == 0 ? 0 : SNIC_ENOENT);
    }
    assert_memory_equal(&got, &e, sizeof(e));
    assert_int_equal(snic_ebs_addr_clear(a, slot, (uint16_t)(gen + 1)), SNIC_ENOENT);
    assert_int_equal(snic_ebs_addr_clear(a, 4, gen), SNIC_EINVAL);
    assert_int_equal(snic_ebs_addr_clear(a, slot, gen), 0);
    assert_int_equal(snic_ebs_addr_clear(a, slot, gen), SNIC_ENOENT);
    answer(&h, &e, slot, gen);
    assert_int_equal(snic_ebs_addr_match(a, &h, &got), SNIC_ENOENT); /* the second answer */
    assert_int_equal(snic_ebs_addr_put(a, &e, &slot, &gen), 0);
    assert_int_equal(snic_ebs_addr_match(a, &h, &got), SNIC_ENOENT); /* to an earlier use */
    assert_int_equal(snic_ebs_addr_check(a), 0);
    support_guard_free(snic_ebs_addr_fini(a));
}

#define SLOTS 32
static void test_ebs_addr_random_equals_model(void **state)
{
    (void)state;
    static struct {
        struct snic_ebs_expect e;
        uint16_t gen;
        int taken;
    } model[SLOTS];
    struct snic_rng r;
    struct snic_ebs_addr *a = new_addr(SLOTS);
    uint32_t taken = 0;
    snic_rng_init(&r, support_seed());
    for (uint64_t i = 0; i < support_rounds(300000, 3000000); i++) {
        uint16_t s = (uint16_t)snic_rng_below(&r, SLOTS);
        uint16_t gen;
        struct snic_ebs_expect got;
        struct snic_ebs_header h;
        if (snic_rng_below(&r, 2) == 0) {
            struct snic_ebs_expect e = {i, i * 3, i * 5, i * 7, (uint16_t)(i % 64), 0, 4096};
            int full = snic_ebs_addr_put(a, &e, &s, &gen);
            assert_int_equal(full, taken == SLOTS ? SNIC_EAGAIN : 0);
            if (full == 0) {
                assert_false(model[s].taken);
                assert_int_equal(gen, model[s].gen);
                model[s].e = e;
                model[s].taken = 1;
                taken++;
            }
        } else {
            assert_int_equal(snic_ebs_addr_clear(a, s, model[s].gen),
                             model[s].taken ? 0 : SNIC_ENOENT);
            taken -= (uint32_t)model[s].taken;
            model[s].gen = (uint16_t)(model[s].gen + model[s].taken);
            model[s].taken = 0;
        }
        s = (uint16_t)snic_rng_below(&r, SLOTS);
        answer(&h, &model[s].e, s, model[s].gen);
        assert_int_equal(snic_ebs_addr_match(a, &h, &got), model[s].taken ? 0 : SNIC_ENOENT);
        if (model[s].taken)
            assert_memory_equal(&got, &model[s].e, sizeof(got));
        assert_int_equal(snic_ebs_addr_free(a), SLOTS - taken);
        if (i % 1000 == 0)
            assert_int_equal(snic_ebs_addr_check(a), 0);
    }
    support_guard_free(snic_ebs_addr_fini(a));
}

static void test_ebs_addr_any_flipped_bit_is_found(void **state)
{
    (void)state;
    struct snic_ebs_addr *a = new_addr(4);
    struct snic_ebs_expect e = {5, 6, 7, 8, 9, 0, 4096};
    struct snic_ebs_expect got;
    struct snic_ebs_header h;
    uint16_t slot;
    uint16_t gen;
    assert_int_equal(snic_ebs_addr_put(a, &e, &slot, &gen), 0);
    for (unsigned bit = 0; bit < sizeof(struct ebs_addr_entry) * 8; bit++) {
        for (unsigned s = 0; s < 2; s++) { /* one taken, one free */
            unsigned char *p = (unsigned char *)&a->entry[s];
            answer(&h, &e, (uint16_t)s, gen);
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_int_equal(snic_ebs_addr_match(a, &h, &got), SNIC_ECORRUPT);
            assert_int_equal(snic_ebs_addr_check(a), SNIC_ECORRUPT);
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        a->entry[slot].dest ^= (uint64_t)1 << (bit % 64); /* its owner gives it up: whole again */
        assert_int_equal(snic_ebs_addr_clear(a, slot, gen), SNIC_ECORRUPT);
        assert_int_equal(snic_ebs_addr_check(a), 0);
        assert_int_equal(snic_ebs_addr_clear(a, slot, gen), SNIC_ENOENT);
        for (unsigned i = 0; i < 3; i++) { /* round to slot 0 */
            assert_int_equal(snic_ebs_addr_put(a, &e, &slot, &gen), 0);
            assert_int_equal(snic_ebs_addr_clear(a, slot, gen), 0);
        }
        assert_int_equal(snic_ebs_addr_put(a, &e, &slot, &gen), 0);
        assert_int_equal(slot, 0);
    }
    uint16_t keep = a->ring[2]; /* a ring that leads astray is seen by check, and stays inside */
    a->ring[2] = 0xffff;
    assert_int_equal(snic_ebs_addr_check(a), SNIC_ECORRUPT);
    a->ring[2] = a->ring[3];
    assert_int_equal(snic_ebs_addr_check(a), SNIC_ECORRUPT);
    a->ring[2] = keep;
    a->taken[0] ^= 2;
    assert_int_equal(snic_ebs_addr_check(a), SNIC_ECORRUPT);
    a->taken[0] ^= 2;
    assert_int_equal(snic_ebs_addr_check(a), 0);
    support_guard_free(snic_ebs_addr_fini(a));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ebs_qos_bad_arguments_are_refused),
        cmocka_unit_test(test_ebs_qos_random_equals_model),
        cmocka_unit_test(test_ebs_qos_polling_often_earns_the_same),
        cmocka_unit_test(test_ebs_qos_debt_is_paid_and_kept),
        cmocka_unit_test(test_ebs_qos_any_flipped_bit_is_found),
        cmocka_unit_test(test_ebs_map_bad_arguments_are_refused),
        cmocka_unit_test(test_ebs_map_random_equals_model),
        cmocka_unit_test(test_ebs_map_any_flipped_bit_is_found),
        cmocka_unit_test(test_ebs_map_server_is_counted_and_forgotten),
        cmocka_unit_test(test_ebs_addr_every_field_has_to_match),
        cmocka_unit_test(test_ebs_addr_random_equals_model),
        cmocka_unit_test(test_ebs_addr_any_flipped_bit_is_found),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
