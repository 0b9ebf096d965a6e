/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The first byte selects the target: the timer wheel against a linear search, CRC32C against its
 * portable implementation, snic_opts_copy() with any size, or the rate limiter against 128-bit
 * arithmetic.
 */
#include "snicstore/base.h"
#include "base/simd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(c) ((c) ? (void)0 : snic_assert_fail(__FILE__, __LINE__, #c))
#define TIMERS 8

struct input {
    const uint8_t *at;
    size_t left;
};

/* The next bytes as a little-endian number; zeros past the end. */
static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes && in->left > 0; i++, in->left--)
        v |= (uint64_t)*in->at++ << (8 * i);
    return v;
}

/* A span of any magnitude from two bytes: mantissa and exponent. */
static uint64_t take_span(struct input *in)
{
    uint64_t exponent = take(in, 1) % 64;
    return (take(in, 1) << exponent) + exponent / 3;
}

/* ---- Wheel ---- */

static struct snic_wheel wheel;
static struct snic_timer timers[TIMERS];
static int armed[TIMERS];

static struct snic_timer *model_first(void)
{
    struct snic_timer *first = NULL;
    for (size_t i = 0; i < TIMERS; i++) {
        struct snic_timer *t = &timers[i];
        if (armed[i] && (first == NULL || t->deadline_ns < first->deadline_ns ||
                         (t->deadline_ns == first->deadline_ns && t->sequence < first->sequence)))
            first = t;
    }
    return first;
}

static void expect_pop(uint64_t now)
{
    struct snic_timer *want = model_first();
    struct snic_timer *got = snic_wheel_pop(&wheel, now);
    if (want != NULL && want->deadline_ns > now)
        want = NULL;
    EXPECT(got == want);
    if (got != NULL)
        armed[got - timers] = 0;
}

static void expect_deadline(void)
{
    struct snic_timer *want = model_first();
    EXPECT(snic_wheel_deadline_ns(&wheel) == (want != NULL ? want->deadline_ns : SNIC_NEVER));
}

static void fuzz_wheel(struct input *in)
{
    uint64_t now = take_span(in);
    snic_wheel_init(&wheel, now);
    for (size_t i = 0; i < TIMERS; i++) {
        snic_timer_init(&timers[i], NULL);
        armed[i] = 0;
    }
    for (unsigned steps = 0; in->left > 0 && steps < 2000; steps++) {
        uint64_t op = take(in, 1);
        size_t i = (size_t)(op >> 3) % TIMERS;
        uint64_t span;
        switch (op & 7) {
        case 0:
            snic_wheel_cancel(&wheel, &timers[i]);
            armed[i] = 0;
            break;
        case 1:
            expect_deadline();
            break;
        case 2:
            expect_pop(now);
            break;
        case 3:
            span = take_span(in);
            now = span > UINT64_MAX - now ? UINT64_MAX : now + span;
            expect_pop(now);
            break;
        case 4: /* in the past */
            span = take_span(in);
            snic_wheel_arm(&wheel, &timers[i], span < now ? now - span : 0);
            armed[i] = 1;
            break;
        default:
            span = take_span(in);
            snic_wheel_arm(&wheel, &timers[i], span > UINT64_MAX - now ? UINT64_MAX : now + span);
            armed[i] = 1;
            break;
        }
        EXPECT(snic_wheel_check(&wheel) == 0);
    }
    while (model_first() != NULL) {
        expect_deadline();
        expect_pop(model_first()->deadline_ns);
    }
    EXPECT(snic_wheel_check(&wheel) == 0);
}

/* ---- Checksums, options, rates ---- */

static void fuzz_crc(struct input *in)
{
    uint32_t start = (uint32_t)take(in, 4);
    size_t cut = (size_t)take(in, 2);
    if (cut > in->left)
        cut = in->left;
    uint32_t whole = snic_crc32c(start, in->at, in->left);
    EXPECT(whole == snic_crc32c_portable(start, in->at, in->left));
    uint32_t part = snic_crc32c(start, in->at, cut);
    EXPECT(whole == snic_crc32c(part, in->at + cut, in->left - cut));
}

static void fuzz_opts(struct input *in)
{
    static unsigned char src[SNIC_OPTS_BYTES_MAX];
    unsigned char dst[32];
    unsigned char before[32];
    uint32_t dst_size = 4 + (uint32_t)take(in, 1) % 29;
    uint32_t src_size;

    memset(src, 0, sizeof(src));
    memcpy(src, in->at, in->left < sizeof(src) ? in->left : sizeof(src));
    memcpy(&src_size, src, sizeof(src_size));
    memset(dst, 0xa5, sizeof(dst));
    memset(before, 0xa5, sizeof(before));
    if (snic_opts_copy(dst, dst_size, src) != 0) {
        EXPECT(memcmp(dst, before, sizeof(dst)) == 0);
        EXPECT(src_size < 4 || src_size > dst_size);
        return;
    }
    EXPECT(memcmp(dst, &dst_size, 4) == 0);
    for (uint32_t i = 4; i < sizeof(dst); i++)
        EXPECT(dst[i] == (i < dst_size && i < src_size ? src[i] : 0xa5));
    for (uint32_t i = dst_size; i < src_size; i++)
        EXPECT(src[i] == 0);
}

static void fuzz_rate(struct input *in)
{
    struct snic_rate r;
    uint64_t now = take_span(in);
    uint64_t speed = take_span(in);
    uint64_t burst = take_span(in);
    if (snic_rate_init(&r, speed, burst, now) != 0) {
        EXPECT(burst == 0 || burst > (uint64_t)1 << 40 || speed > (uint64_t)1 << 40);
        return;
    }
    base_u128 full = (base_u128)burst * 1000000000u;
    base_u128 units = full;
    while (in->left > 0) {
        uint64_t span = take_span(in);
        uint64_t want = take_span(in);
        span = snic_min_u64(span, UINT64_MAX - now);
        now += span;
        units += (base_u128)span * speed;
        units = units > full ? full : units;
        int rc = snic_rate_take(&r, want, now);
        if (rc == SNIC_EINVAL) {
            EXPECT(want > burst);
            EXPECT(snic_rate_take(&r, 0, now) == 0);
        } else {
            int fits = (base_u128)want * 1000000000u <= units;
            EXPECT(rc == (fits ? 0 : SNIC_EAGAIN));
            units -= fits ? (base_u128)want * 1000000000u : 0;
        }
        EXPECT((base_u128)r.tokens * 1000000000u + r.fraction == units);
        EXPECT(snic_rate_ready_ns(&r, r.tokens) == now);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const targets[])(struct input *) = {fuzz_wheel, fuzz_crc, fuzz_opts, fuzz_rate};
    struct input in = {data, size};
    targets[take(&in, 1) % SNIC_COUNTOF(targets)](&in);
    return 0;
}
