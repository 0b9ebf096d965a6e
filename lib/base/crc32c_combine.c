/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The CRC32C of A followed by B from those of A and of B.
 *
 * With the register inverted before and after, crc(D) = L(D) ^ K(n), where L is linear over GF(2)
 * and K(n) depends on the length alone. Putting B behind A multiplies L(A) by x^(8 * size of B)
 * modulo the polynomial P, and the K cancel: crc(A || B) = crc(A) * x^(8 size) ^ crc(B).
 *
 * A product of two reflected 32-bit polynomials, given to the CRC instruction as 8 bytes of data,
 * comes out reduced and multiplied by x^33: 32 because data are, 1 because the reflected product is
 * one bit short of 64. So an operator is stored divided by x^33, and x^33 never shows:
 *
 * I1  base_product(a, b) = a b x^33 mod P; base_square[k] = x^(2^k - 33) mod P.
 * I2  x^(2^31 - 1) = 1 mod P, since P is (x + 1) times a primitive polynomial of degree 31. So
 *     an exponent counts modulo that, and 31 squares are all there are.
 * I3  Every way of computing the product gives the same; tests compare them.
 */
#include "snicstore/base.h"

#if !defined(SNIC_NO_SIMD) && defined(__x86_64__)
#include <immintrin.h>
#define SNIC_COMBINE__X86 1
#elif !defined(SNIC_NO_SIMD) && defined(__aarch64__) && !defined(__AARCH64EB__) &&                 \
    defined(__linux__)
#define SNIC_COMBINE__ARM 1
#endif

#define SNIC_COMBINE__ORDER UINT64_C(0x7fffffff) /* I2 */
#define SNIC_COMBINE__4096 0x82f89c77u           /* x^(32768 - 33) */

static const uint32_t base_square[31] = {
    /* I1 */
    0xd610d67eu, 0x6b086b3fu, 0xd94f3c0bu, 0xbf818109u, 0x780d5a4du, 0x05ec76f1u, 0x00000001u,
    0x493c7d27u, 0xba4fc28eu, 0x9e4addf8u, 0x0d3b6092u, 0xb9e02b86u, 0xdd7e3b0cu, 0x170076fau,
    0xa51b6135u, 0x82f89c77u, 0x54a86326u, 0x1dc403ccu, 0x5ae703abu, 0xc5013a36u, 0xac2ac6ddu,
    0x9b4615a9u, 0x688d1c61u, 0xf6af14e6u, 0xb6ffe386u, 0xb717425bu, 0x478b0d30u, 0x54cc62e5u,
    0x7b2102eeu, 0x8a99adefu, 0xa7568c8fu,
};

static uint32_t base_product_portable(uint32_t a, uint32_t b)
{
    unsigned char bytes[8];
    uint64_t product = 0;

    for (unsigned i = 0; i < 32; i++)
        product ^= ((uint64_t)b << i) & (0 - (uint64_t)(a >> i & 1));
    snic_put_le64(bytes, product);
    return ~snic_crc32c_portable(~0u, bytes, sizeof(bytes)); /* from a register that is 0 */
}

#if defined(SNIC_COMBINE__X86)

__attribute__((target("sse4.2,pclmul"))) static inline uint32_t base_product_fast(uint32_t a,
                                                                                  uint32_t b)
{
    __m128i p = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(p));
}
static inline int base_product_is_fast(void)
{
    return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.2") != 0;
}

#elif defined(SNIC_COMBINE__ARM)

/* As assembly: the intrinsics need compiler options for instructions not every core has. */
static inline uint32_t base_product_fast(uint32_t a, uint32_t b)
{
    uint64_t product;
    uint32_t crc = 0;
    __asm__(".arch_extension crypto\n\t.arch_extension crc\n\t"
            "fmov s0, %w2\n\tfmov s1, %w3\n\tpmull v0.1q, v0.1d, v1.1d\n\t"
            "fmov %x1, d0\n\tcrc32cx %w0, %w0, %x1"
            : "+r"(crc), "=&r"(product)
            : "r"(a), "r"(b)
            : "v0", "v1");
    return crc;
}
extern unsigned long getauxval(unsigned long type); /* libc's */
static inline int base_product_is_fast(void)
{
    unsigned long have = getauxval(16 /* AT_HWCAP */);
    return (have >> 4 & 1) != 0 && (have >> 7 & 1) != 0; /* HWCAP_PMULL, HWCAP_CRC32 */
}

#endif

static inline uint32_t base_product(uint32_t a, uint32_t b)
{
#if defined(SNIC_COMBINE__X86) || defined(SNIC_COMBINE__ARM)
    if (SNIC_LIKELY(base_product_is_fast()))
        return base_product_fast(a, b);
#endif
    return base_product_portable(a, b);
}

uint32_t snic_crc32c_power(uint64_t size)
{
    /* I2; below 2^34 before it is reduced again. */
    uint64_t e = size % SNIC_COMBINE__ORDER * 8 % SNIC_COMBINE__ORDER;
    uint32_t power = 0xa9cdda0du; /* x^-33: one */

    for (unsigned k = 0; e != 0; k++, e >>= 1) {
        if ((e & 1) != 0)
            power = base_product(power, base_square[k]);
    }
    return power;
}

uint32_t snic_crc32c_advance(uint32_t crc, uint32_t power)
{
    return base_product(crc, power);
}

uint32_t snic_crc32c_advance_portable(uint32_t crc, uint32_t power)
{
    return base_product_portable(crc, power);
}

uint32_t snic_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b)
{
    return base_product(crc_a, snic_crc32c_power(size_b)) ^ crc_b;
}

uint32_t snic_crc32c_combine_4096(uint32_t crc_a, uint32_t crc_b)
{
    return base_product(crc_a, SNIC_COMBINE__4096) ^ crc_b;
}
