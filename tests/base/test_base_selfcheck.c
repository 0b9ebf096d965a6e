/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What depends on the processor, checked without any test library, so that a cross
 * build can run it under an emulator:
 *
 *   aarch64-linux-gnu-gcc -static -Iinclude -Ilib tests/base/test_base_selfcheck.c \
 *       lib/base/[a-z]*.c
 */
#include "snicstore/base.h"
#include "base/simd.h"

#include <stdio.h>

static int failures;

#define EXPECT(c)                                                                                  \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #c);                                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static unsigned char block[16384];

/* The instruction and its portable twin must agree on every length and alignment. */
static void selfcheck_crc(struct snic_rng *r)
{
    EXPECT(snic_crc32c(0, "123456789", 9) == UINT32_C(0xe3069283));
    EXPECT(snic_crc32c_portable(0, "123456789", 9) == UINT32_C(0xe3069283));
    snic_rng_fill(r, block, sizeof(block));
    for (size_t size = 0; size < sizeof(block) - 16; size += 1 + size / 64) {
        const unsigned char *p = block + size % 16;
        EXPECT(snic_crc32c(7, p, size) == snic_crc32c_portable(7, p, size));
    }
}

/* The vector forms and their scalar twins must agree on every lane. */
static void selfcheck_simd(struct snic_rng *r)
{
    for (int i = 0; i < 20000; i++) {
        uint64_t lo = snic_rng_next(r) & UINT64_C(0x0101ff0100ff0101);
        uint64_t hi = snic_rng_next(r) & UINT64_C(0x0001ff0080010101);
        uint16_t tag = (uint16_t)(snic_rng_next(r) & 0x0101);
        unsigned char p[16];
        snic_put_le64(p, lo);
        snic_put_le64(p + 8, hi);
        EXPECT(simd_match_u16x8_w(lo, hi, tag) == simd_match_u16x8_w_scalar(lo, hi, tag));
        EXPECT(simd_match_u8x16_w(lo, hi, (uint8_t)tag) ==
               simd_match_u8x16_w_scalar(lo, hi, (uint8_t)tag));
        EXPECT(simd_match_u16x8(p, tag) == simd_match_u16x8_scalar(p, tag));
        EXPECT(simd_match_u8x16(p, (uint8_t)tag) == simd_match_u8x16_scalar(p, (uint8_t)tag));
        EXPECT(simd_match_u8x16(p, (uint8_t)tag) == simd_match_u8x16_w(lo, hi, (uint8_t)tag));
    }
    simd_cpu_relax();
}

/* 128-bit arithmetic of the rates, and the wheel's bit scans. */
static void selfcheck_time(struct snic_rng *r)
{
    static struct snic_wheel w;
    static struct snic_timer timers[64];
    struct snic_rate rate;
    uint64_t last = 0;

    EXPECT(snic_rate_init(&rate, (uint64_t)1 << 40, (uint64_t)1 << 40, 0) == 0);
    EXPECT(snic_rate_take(&rate, (uint64_t)1 << 40, 0) == 0);
    EXPECT(snic_rate_take(&rate, (uint64_t)1 << 40, UINT64_C(999999999)) == SNIC_EAGAIN);
    EXPECT(snic_rate_take(&rate, (uint64_t)1 << 40, UINT64_C(1000000000)) == 0);
    EXPECT(rate.fraction == 0);
    snic_wheel_init(&w, 0);
    for (size_t i = 0; i < 64; i++) {
        snic_timer_init(&timers[i], NULL);
        snic_wheel_arm(&w, &timers[i], snic_rng_next(r) >> i);
    }
    EXPECT(snic_wheel_check(&w) == 0);
    for (int i = 0; i < 64; i++) {
        uint64_t next = snic_wheel_deadline_ns(&w);
        EXPECT(next >= last);
        last = next;
        EXPECT(next == 0 || snic_wheel_pop(&w, next - 1) == NULL);
        EXPECT(snic_wheel_pop(&w, next) != NULL);
        EXPECT(snic_wheel_check(&w) == 0);
    }
    EXPECT(snic_wheel_deadline_ns(&w) == SNIC_NEVER);
}

int main(void)
{
    struct snic_rng r;
    snic_rng_init(&r, 1);
    selfcheck_crc(&r);
    selfcheck_simd(&r);
    selfcheck_time(&r);
    printf("base selfcheck: crc %s, %d failures\n",
           snic_crc32c_is_hardware() ? "hardware" : "portable", failures);
    return failures != 0;
}
