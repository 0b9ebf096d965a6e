/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CRC32C, polynomial 0x1edc6f41, reflected 0x82f63b78, register inverted before and
 * after (RFC 3720, appendix B.4).
 *
 * Portable: slicing by 8 (Kounavis and Berry, 2008). Hardware: the CRC32 instruction
 * of SSE4.2 or of the Arm CRC extension has a latency of 3 cycles and a throughput
 * of 1, so long inputs run as three streams of equal length, joined by advancing a
 * register over the length of a stream (Gopal et al., Intel, 2011, with tables
 * instead of a carry-less product).
 *
 * Where the processor multiplies four pairs of polynomials at once (VPCLMULQDQ on 512-bit
 * registers), 256 bytes fold into the next 256 by two products per 16 bytes, and the CRC
 * instruction finishes the last 64 (Gopal et al., Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ, Intel, 2009).
 *
 * Advancing a register over zero bytes is linear over GF(2). So a table is determined
 * by its values at the single bits, and the compiler computes the rest:
 *
 * I1  crc_slice[k][n] is the register n advanced over k + 1 zero bytes.
 * I2  crc_zeros_X[q][n] is the register n << 4q advanced over X zero bytes.
 * I3  All functions compute the same; a test compares them at every length to some
 *     thousands and at every alignment.
 * I4  For a fold over d bits the low and the high half of 16 bytes are multiplied with
 *     x^(d+32) and x^(d-32) modulo the polynomial, bit-reflected and shifted up by one.
 */
#include "snicstore/base.h"

#if !defined(SNIC_NO_SIMD) && defined(__x86_64__)
#define SNIC_CRC__X86 1
#if !defined(SNIC_NO_CRC_FOLD) /* a test's wish: the streams on every machine */
#define SNIC_CRC__FOLD 1
#include <immintrin.h>
#endif
#elif !defined(SNIC_NO_SIMD) && defined(__aarch64__) && defined(__linux__)
#define SNIC_CRC__ARM 1
#endif

/* Entry n, then runs of entries from n, of a table given by its values at 1, 2, 4, ... 128. */
#define SNIC_CRC__BIT(n, i, v) ((((n) >> (i)) & 1u) * (v))
#define SNIC_CRC__1(n, a, b, c, d, e, f, g, h)                                                     \
    (SNIC_CRC__BIT(n, 0, a) ^ SNIC_CRC__BIT(n, 1, b) ^ SNIC_CRC__BIT(n, 2, c) ^                    \
     SNIC_CRC__BIT(n, 3, d) ^ SNIC_CRC__BIT(n, 4, e) ^ SNIC_CRC__BIT(n, 5, f) ^                    \
     SNIC_CRC__BIT(n, 6, g) ^ SNIC_CRC__BIT(n, 7, h))
#define SNIC_CRC__4(n, ...)                                                                        \
    SNIC_CRC__1(n, __VA_ARGS__), SNIC_CRC__1((n) + 1u, __VA_ARGS__),                               \
        SNIC_CRC__1((n) + 2u, __VA_ARGS__), SNIC_CRC__1((n) + 3u, __VA_ARGS__)
#define SNIC_CRC__16(n, ...)                                                                       \
    SNIC_CRC__4(n, __VA_ARGS__), SNIC_CRC__4((n) + 4u, __VA_ARGS__),                               \
        SNIC_CRC__4((n) + 8u, __VA_ARGS__), SNIC_CRC__4((n) + 12u, __VA_ARGS__)
#define SNIC_CRC__64(n, ...)                                                                       \
    SNIC_CRC__16(n, __VA_ARGS__), SNIC_CRC__16((n) + 16u, __VA_ARGS__),                            \
        SNIC_CRC__16((n) + 32u, __VA_ARGS__), SNIC_CRC__16((n) + 48u, __VA_ARGS__)
#define SNIC_CRC__256(n, ...)                                                                      \
    SNIC_CRC__64(n, __VA_ARGS__), SNIC_CRC__64((n) + 64u, __VA_ARGS__),                            \
        SNIC_CRC__64((n) + 128u, __VA_ARGS__), SNIC_CRC__64((n) + 192u, __VA_ARGS__)

static const uint32_t crc_slice[8][256] = {
    /* I1 */
    {SNIC_CRC__256(0u, 0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu,
                   0x417b1dbcu, 0x82f63b78u)},
    {SNIC_CRC__256(0u, 0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u,
                   0xff17c604u, 0xfbc3faf9u)},
    {SNIC_CRC__256(0u, 0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u,
                   0xc76580d9u, 0x8b277743u)},
    {SNIC_CRC__256(0u, 0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu,
                   0xaba65fe7u, 0x52a0c93fu)},
    {SNIC_CRC__256(0u, 0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u,
                   0x37516aaeu, 0x6ea2d55cu)},
    {SNIC_CRC__256(0u, 0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du,
                   0x0e045bebu, 0x1c08b7d6u)},
    {SNIC_CRC__256(0u, 0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu,
                   0x7ab7077au, 0xf56e0ef4u)},
    {SNIC_CRC__256(0u, 0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u,
                   0x1a00cb32u, 0x34019664u)},
};

uint32_t snic_crc32c_portable(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *p = (const unsigned char *)data;
    crc = ~crc;
    for (; size >= 8; p += 8, size -= 8) {
        uint32_t lo = snic_get_le32(p) ^ crc;
        uint32_t hi = snic_get_le32(p + 4);
        crc = crc_slice[7][lo & 0xff] ^ crc_slice[6][lo >> 8 & 0xff] ^
              crc_slice[5][lo >> 16 & 0xff] ^ crc_slice[4][lo >> 24] ^ crc_slice[3][hi & 0xff] ^
              crc_slice[2][hi >> 8 & 0xff] ^ crc_slice[1][hi >> 16 & 0xff] ^ crc_slice[0][hi >> 24];
    }
    for (; size > 0; p++, size--)
        crc = crc >> 8 ^ crc_slice[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(SNIC_CRC__X86) || defined(SNIC_CRC__ARM)

#if defined(SNIC_CRC__X86)
#define SNIC_CRC__TARGET __attribute__((target("sse4.2")))

SNIC_CRC__TARGET static inline uint64_t crc_step8(uint64_t crc, uint64_t v)
{
    return __builtin_ia32_crc32di(crc, v);
}
SNIC_CRC__TARGET static inline uint64_t crc_step1(uint64_t crc, unsigned char v)
{
    return __builtin_ia32_crc32qi((uint32_t)crc, v);
}
#if defined(SNIC_CRC__FOLD)
/* x^n modulo the polynomial, reflected and shifted (I4). */
#define SNIC_CRC__K2080 INT64_C(0x0dcb17aa4)
#define SNIC_CRC__K2016 INT64_C(0x0b9e02b86)
#define SNIC_CRC__K544 INT64_C(0x0740eef02)
#define SNIC_CRC__K480 INT64_C(0x09e4addf8)
/* Folding needs room to pay. */
#define SNIC_CRC__FOLD_MIN 512
#define SNIC_CRC__FOLD_TARGET __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

static inline int crc_has_fold(void)
{
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

/* `next` with the 64 bytes of `crc` folded over the distance of the constants `k` (I4). */
SNIC_CRC__FOLD_TARGET static inline __m512i crc_fold(__m512i crc, __m512i k, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(crc, k, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(crc, k, 0x11);

    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* xor of the three */
}

/* The register after the whole 64-byte blocks of at least SNIC_CRC__FOLD_MIN bytes. */
SNIC_CRC__FOLD_TARGET static uint64_t crc_fold_blocks(uint64_t crc, const unsigned char *p,
                                                      size_t size)
{
    const __m512i by_256 = _mm512_broadcast_i32x4(_mm_set_epi64x(SNIC_CRC__K2016, SNIC_CRC__K2080));
    const __m512i by_64 = _mm512_broadcast_i32x4(_mm_set_epi64x(SNIC_CRC__K480, SNIC_CRC__K544));
    unsigned char last[64];
    __m512i a[4];

    for (unsigned i = 0; i < 4; i++)
        a[i] = _mm512_loadu_si512(p + (size_t)i * 64);
    a[0] = _mm512_xor_si512(a[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)(uint32_t)crc)));
    for (p += 256, size -= 256; size >= 256; p += 256, size -= 256) {
        for (unsigned i = 0; i < 4; i++)
            a[i] = crc_fold(a[i], by_256, _mm512_loadu_si512(p + (size_t)i * 64));
    }
    for (unsigned i = 1; i < 4; i++)
        a[i] = crc_fold(a[i - 1], by_64, a[i]);
    for (; size >= 64; p += 64, size -= 64)
        a[3] = crc_fold(a[3], by_64, _mm512_loadu_si512(p));
    _mm512_storeu_si512(last, a[3]);
    crc = 0;
    for (unsigned i = 0; i < 64; i += 8)
        crc = crc_step8(crc, snic_get_le64(last + i));
    return crc;
}

/* Headers: four streams of equal length, joined by products, for the instruction's latency is
 * three times its throughput. crc_words[n] is x^(64 n - 33), see crc32c_combine.c. */
#define SNIC_CRC__FOUR_MIN 96
#define SNIC_CRC__FOUR_TARGET __attribute__((target("sse4.2,pclmul")))

static const uint32_t crc_words[46] = {
    0x00000000u, 0x00000001u, 0x493c7d27u, 0xf20c0dfeu, 0xba4fc28eu, 0x3da6d0cbu, 0xddc0152bu,
    0x1c291d04u, 0x9e4addf8u, 0x740eef02u, 0x39d3b296u, 0x083a6eecu, 0x0715ce53u, 0xc49f4f67u,
    0x47db8317u, 0x2ad91c30u, 0x0d3b6092u, 0x6992cea2u, 0xc96cfdc0u, 0x7e908048u, 0x878a92a7u,
    0x1b3d8f29u, 0xdaece73eu, 0xf1d0f55eu, 0xab7aff2au, 0xa87ab8a8u, 0x2162d385u, 0x8462d800u,
    0x83348832u, 0x71d111a8u, 0x299847d5u, 0xffd852c6u, 0xb9e02b86u, 0xdcb17aa4u, 0x18b33a4eu,
    0xf37c5aeeu, 0xb6dd949bu, 0x6051d5a2u, 0x78d9ccb7u, 0x18b0d4ffu, 0xbac2fd7bu, 0x21f3d99cu,
    0xa60ce07bu, 0x8f158014u, 0xce7f39f4u, 0xa00457f7u,
};

static inline int crc_has_product(void)
{
    return __builtin_cpu_supports("pclmul") != 0;
}

SNIC_CRC__FOUR_TARGET static inline __m128i crc_times(uint64_t crc, uint32_t power)
{
    return _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)(uint32_t)crc),
                                _mm_cvtsi32_si128((int)power), 0);
}

/* The register after 32 * words bytes, less than SNIC_CRC__FOLD_MIN. */
SNIC_CRC__FOUR_TARGET static uint64_t crc_four(uint64_t a, const unsigned char *p, size_t words)
{
    size_t stride = 8 * words;
    uint64_t b = 0;
    uint64_t c = 0;
    uint64_t d = 0;

    for (const unsigned char *end = p + stride; p < end; p += 8) {
        a = crc_step8(a, snic_get_le64(p));
        b = crc_step8(b, snic_get_le64(p + stride));
        c = crc_step8(c, snic_get_le64(p + 2 * stride));
        d = crc_step8(d, snic_get_le64(p + 3 * stride));
    }
    __m128i sum = _mm_xor_si128(
        crc_times(a, crc_words[3 * words]),
        _mm_xor_si128(crc_times(b, crc_words[2 * words]), crc_times(c, crc_words[words])));
    return crc_step8(0, (uint64_t)_mm_cvtsi128_si64(sum)) ^ d;
}
#endif

static inline int crc_has_instruction(void)
{
#if defined(__SSE4_2__)
    return 1;
#else
    return __builtin_cpu_supports("sse4.2") != 0;
#endif
}

#else
#define SNIC_CRC__TARGET

/* As assembly: the intrinsics need a compiler option for instructions not every core has. */
static inline uint64_t crc_step8(uint64_t crc, uint64_t v)
{
    uint32_t c = (uint32_t)crc;
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(c) : "r"(v));
    return c;
}
static inline uint64_t crc_step1(uint64_t crc, unsigned char v)
{
    uint32_t c = (uint32_t)crc;
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(c) : "r"((uint32_t)v));
    return c;
}
#if !defined(__ARM_FEATURE_CRC32)
/* libc's, declared here so that no operating-system header is needed. */
extern unsigned long getauxval(unsigned long type);
#endif
static inline int crc_has_instruction(void)
{
#if defined(__ARM_FEATURE_CRC32)
    return 1;
#else
    return (getauxval(16 /* AT_HWCAP */) >> 7 & 1) != 0; /* HWCAP_CRC32 */
#endif
}
#endif

/* Stream lengths: three long ones make a 4 KiB page but 16 bytes, three short ones 1 KiB. */
#define SNIC_CRC__LONG 1360
#define SNIC_CRC__SHORT 336

static const uint32_t crc_zeros_1360[8][16] = {
    /* I2 */
    {SNIC_CRC__16(0u, 0x79113270u, 0xf22264e0u, 0xe1a8bf31u, 0xc6bd0893u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0x889667d7u, 0x14c0b95fu, 0x298172beu, 0x5302e57cu, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0xa605caf8u, 0x49e7e301u, 0x93cfc602u, 0x2273faf5u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0x44e7f5eau, 0x89cfebd4u, 0x1673a159u, 0x2ce742b2u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0x59ce8564u, 0xb39d0ac8u, 0x62d66361u, 0xc5acc6c2u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0x8eb5fb75u, 0x1887801bu, 0x310f0036u, 0x621e006cu, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0xc43c00d8u, 0x8d947741u, 0x1ec49873u, 0x3d8930e6u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0x7b1261ccu, 0xf624c398u, 0xe9a5f1c1u, 0xd6a79573u, 0u, 0u, 0u, 0u)},
};
static const uint32_t crc_zeros_336[8][16] = {
    /* I2 */
    {SNIC_CRC__16(0u, 0x8f158014u, 0x1bc776d9u, 0x378eedb2u, 0x6f1ddb64u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0xde3bb6c8u, 0xb99b1b61u, 0x76da4033u, 0xedb48066u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0xde85763du, 0xb8e69a8bu, 0x742143e7u, 0xe84287ceu, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0xd569796du, 0xaf3e842bu, 0x5b917ea7u, 0xb722fd4eu, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0x6ba98c6du, 0xd75318dau, 0xab4a4745u, 0x5378f87bu, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0xa6f1f0f6u, 0x480f971du, 0x901f2e3au, 0x25d22a85u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0x4ba4550au, 0x9748aa14u, 0x2b7d22d9u, 0x56fa45b2u, 0u, 0u, 0u, 0u)},
    {SNIC_CRC__16(0u, 0xadf48b64u, 0x5e056039u, 0xbc0ac072u, 0x7df9f615u, 0u, 0u, 0u, 0u)},
};

static inline uint64_t crc_advance(const uint32_t zeros[8][16], uint64_t crc)
{
    uint32_t r = 0;
    for (unsigned q = 0; q < 8; q++)
        r ^= zeros[q][crc >> (4 * q) & 15];
    return r;
}

/* The register after three streams of stride bytes, a multiple of 8. */
SNIC_CRC__TARGET static inline uint64_t crc_three(uint64_t crc, const unsigned char *p,
                                                  size_t stride, const uint32_t zeros[8][16])
{
    uint64_t second = 0;
    uint64_t third = 0;
    for (const unsigned char *end = p + stride; p < end; p += 8) {
        crc = crc_step8(crc, snic_get_le64(p));
        second = crc_step8(second, snic_get_le64(p + stride));
        third = crc_step8(third, snic_get_le64(p + 2 * stride));
    }
    return crc_advance(zeros, crc_advance(zeros, crc) ^ second) ^ third;
}

SNIC_CRC__TARGET static uint32_t crc_hardware(uint32_t start, const unsigned char *p, size_t size)
{
    uint64_t crc = (uint32_t)~start;
    size_t bulk = 3 * (size_t)SNIC_CRC__LONG;

#if defined(SNIC_CRC__FOLD)
    if (size >= SNIC_CRC__FOLD_MIN && crc_has_fold()) {
        crc = crc_fold_blocks(crc, p, size);
        p += size / 64 * 64;
        size %= 64;
    } else if (size >= SNIC_CRC__FOUR_MIN && size < SNIC_CRC__FOLD_MIN && crc_has_product()) {
        crc = crc_four(crc, p, size / 32);
        p += size / 32 * 32;
        size %= 32;
    }
#endif
    for (; size >= bulk; p += bulk, size -= bulk)
        crc = crc_three(crc, p, SNIC_CRC__LONG, crc_zeros_1360);
    bulk = 3 * (size_t)SNIC_CRC__SHORT;
    for (; size >= bulk; p += bulk, size -= bulk)
        crc = crc_three(crc, p, SNIC_CRC__SHORT, crc_zeros_336);
    for (; size >= 8; p += 8, size -= 8)
        crc = crc_step8(crc, snic_get_le64(p));
    for (; size > 0; p++, size--)
        crc = crc_step1(crc, *p);
    return ~(uint32_t)crc;
}

uint32_t snic_crc32c(uint32_t crc, const void *data, size_t size)
{
    if (SNIC_LIKELY(crc_has_instruction()))
        return crc_hardware(crc, (const unsigned char *)data, size);
    return snic_crc32c_portable(crc, data, size);
}

int snic_crc32c_is_hardware(void)
{
    return crc_has_instruction();
}

#else

uint32_t snic_crc32c(uint32_t crc, const void *data, size_t size)
{
    return snic_crc32c_portable(crc, data, size);
}

int snic_crc32c_is_hardware(void)
{
    return 0;
}

#endif
