/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file base/simd.h
 * Library-internal shims: tag matching, bit scans, prefetch, spin hints and a
 * 128-bit integer. Not installed.
 *
 * Depends on  snicstore/base.h and the compiler's own intrinsics headers.
 * Memory      None.
 * Threads     Pure functions. The _w forms take words that the caller has loaded
 *             (atomically, where others write); the others read memory plainly.
 * Progress    Wait-free.
 * Errors      None.
 * Units       Lane numbers count from the lowest address or the lowest bits.
 *
 * SSE2 on x86-64, NEON on AArch64, plain C elsewhere and with -DSNIC_NO_SIMD. The
 * plain forms exist everywhere as *_scalar, so that tests can compare.
 */
#ifndef SNIC_BASE_SIMD_H
#define SNIC_BASE_SIMD_H

#include "snicstore/base.h"

#if !defined(SNIC_NO_SIMD) && defined(__x86_64__)
#define SNIC_SIMD__SSE2 1
#include <emmintrin.h>
#elif !defined(SNIC_NO_SIMD) && defined(__aarch64__) && !defined(__AARCH64EB__)
#define SNIC_SIMD__NEON 1
#include <arm_neon.h>
#endif

__extension__ typedef unsigned __int128 base_u128;

/* ---- Plain C ---- */

/* Bit i: the i-th 16-bit lane, four in lo from its low end and four in hi, equals tag. */
static inline uint32_t simd_match_u16x8_w_scalar(uint64_t lo, uint64_t hi, uint16_t tag)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < 4; i++) {
        mask |= (uint32_t)((uint16_t)(lo >> (16 * i)) == tag) << i;
        mask |= (uint32_t)((uint16_t)(hi >> (16 * i)) == tag) << (i + 4);
    }
    return mask;
}

/* Bit i: the i-th byte, eight in lo from its low end and eight in hi, equals tag. */
static inline uint32_t simd_match_u8x16_w_scalar(uint64_t lo, uint64_t hi, uint8_t tag)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < 8; i++) {
        mask |= (uint32_t)((uint8_t)(lo >> (8 * i)) == tag) << i;
        mask |= (uint32_t)((uint8_t)(hi >> (8 * i)) == tag) << (i + 8);
    }
    return mask;
}

/* Bit i: the i-th of 8 native 16-bit integers at p (any alignment) equals tag. */
static inline uint32_t simd_match_u16x8_scalar(const void *p, uint16_t tag)
{
    uint16_t lanes[8];
    uint32_t mask = 0;
    memcpy(lanes, p, sizeof(lanes));
    for (unsigned i = 0; i < 8; i++)
        mask |= (uint32_t)(lanes[i] == tag) << i;
    return mask;
}

/* Bit i: the i-th of 16 bytes at p equals tag. */
static inline uint32_t simd_match_u8x16_scalar(const void *p, uint8_t tag)
{
    uint8_t lanes[16];
    uint32_t mask = 0;
    memcpy(lanes, p, sizeof(lanes));
    for (unsigned i = 0; i < 16; i++)
        mask |= (uint32_t)(lanes[i] == tag) << i;
    return mask;
}

/* ---- SSE2 ---- */

#if defined(SNIC_SIMD__SSE2)

static inline uint32_t simd_sse2_u16(__m128i lanes, uint16_t tag)
{
    __m128i same = _mm_cmpeq_epi16(lanes, _mm_set1_epi16((short)tag));
    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128()));
}
static inline uint32_t simd_sse2_u8(__m128i lanes, uint8_t tag)
{
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(lanes, _mm_set1_epi8((char)tag)));
}
static inline uint32_t simd_match_u16x8_w(uint64_t lo, uint64_t hi, uint16_t tag)
{
    return simd_sse2_u16(_mm_set_epi64x((long long)hi, (long long)lo), tag);
}
static inline uint32_t simd_match_u8x16_w(uint64_t lo, uint64_t hi, uint8_t tag)
{
    return simd_sse2_u8(_mm_set_epi64x((long long)hi, (long long)lo), tag);
}
static inline uint32_t simd_match_u16x8(const void *p, uint16_t tag)
{
    return simd_sse2_u16(_mm_loadu_si128((const __m128i *)p), tag);
}
static inline uint32_t simd_match_u8x16(const void *p, uint8_t tag)
{
    return simd_sse2_u8(_mm_loadu_si128((const __m128i *)p), tag);
}

/* ---- NEON ---- */

#elif defined(SNIC_SIMD__NEON)

static inline uint32_t simd_neon_u16(uint16x8_t lanes, uint16_t tag)
{
    static const uint16_t weights[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    uint16x8_t same = vceqq_u16(lanes, vdupq_n_u16(tag));
    return vaddvq_u16(vandq_u16(same, vld1q_u16(weights)));
}
static inline uint32_t simd_neon_u8(uint8x16_t lanes, uint8_t tag)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bits = vandq_u8(vceqq_u8(lanes, vdupq_n_u8(tag)), vld1q_u8(weights));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}
static inline uint32_t simd_match_u16x8_w(uint64_t lo, uint64_t hi, uint16_t tag)
{
    uint64x2_t both = vcombine_u64(vcreate_u64(lo), vcreate_u64(hi));
    return simd_neon_u16(vreinterpretq_u16_u64(both), tag);
}
static inline uint32_t simd_match_u8x16_w(uint64_t lo, uint64_t hi, uint8_t tag)
{
    uint64x2_t both = vcombine_u64(vcreate_u64(lo), vcreate_u64(hi));
    return simd_neon_u8(vreinterpretq_u8_u64(both), tag);
}
static inline uint32_t simd_match_u16x8(const void *p, uint16_t tag)
{
    return simd_neon_u16(vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)p)), tag);
}
static inline uint32_t simd_match_u8x16(const void *p, uint8_t tag)
{
    return simd_neon_u8(vld1q_u8((const uint8_t *)p), tag);
}

#else

static inline uint32_t simd_match_u16x8_w(uint64_t lo, uint64_t hi, uint16_t tag)
{
    return simd_match_u16x8_w_scalar(lo, hi, tag);
}
static inline uint32_t simd_match_u8x16_w(uint64_t lo, uint64_t hi, uint8_t tag)
{
    return simd_match_u8x16_w_scalar(lo, hi, tag);
}
static inline uint32_t simd_match_u16x8(const void *p, uint16_t tag)
{
    return simd_match_u16x8_scalar(p, tag);
}
static inline uint32_t simd_match_u8x16(const void *p, uint8_t tag)
{
    return simd_match_u8x16_scalar(p, tag);
}

#endif

/* ---- Bits, caches, spinning ---- */

/* Number of the lowest set bit of a non-zero mask. */
static inline unsigned simd_lowest(uint32_t mask)
{
    return (unsigned)__builtin_ctz(mask);
}
static inline unsigned simd_lowest64(uint64_t mask)
{
    return (unsigned)__builtin_ctzll(mask);
}

/* Hint: the line of p is read, or written, soon. Any address is fine. */
static inline void simd_prefetch_read(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}
static inline void simd_prefetch_write(const void *p)
{
#if defined(__x86_64__)
    /* By hand: without -mprfchw the builtin asks for reading, and the line comes shared. */
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1, 3);
#endif
}

/* Between two looks at a word that another core is about to change. */
static inline void simd_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    /* isb waits for the pipeline, about as long as x86 pause; yield is a no-op on most cores. */
    __asm__ __volatile__("isb" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

#endif /* SNIC_BASE_SIMD_H */
