/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/base.h
 * The ground floor: errors, version, assertions, byte order, CRC32C, SipHash,
 * seeded random numbers, intrusive lists, timer wheel, histogram, rates, arenas.
 *
 * Depends on  nothing of ours and no operating system.
 * Memory      Every object lives in caller memory; nothing here allocates.
 * Threads     No state of its own. Each object belongs to one thread at a time.
 * Progress    Everything is wait-free and bounded, unless documented otherwise.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       Names end in their unit: _ns, _bytes. Times are monotonic u64 ns.
 */
#ifndef SNIC_BASE_H
#define SNIC_BASE_H

/* Offsets and counts are 64 bits wide and products of them 128: a 32-bit target is refused here,
 * before its own headers are read. */
#if !defined(__SIZEOF_POINTER__) || __SIZEOF_POINTER__ < 8 || !defined(__SIZEOF_INT128__)
#error "libsnicstore needs a 64-bit target and GCC or Clang (64-bit pointers, __int128)"
#endif
#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "libsnicstore's headers need C99 or later (the implementation C11), or C++11 or later"
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- Version: the only source; CMake and the packages read it from here ---- */

#define SNIC_VERSION_MAJOR 0
#define SNIC_VERSION_MINOR 2
#define SNIC_VERSION_PATCH 0
/** The version compiled against, 0x00MMmmpp. */
#define SNIC_VERSION                                                                               \
    (((uint32_t)SNIC_VERSION_MAJOR << 16) | ((uint32_t)SNIC_VERSION_MINOR << 8) |                  \
     (uint32_t)SNIC_VERSION_PATCH)

/* ---- Compiler ---- */

/** Linkage of every public function. A single header that is vendored keeps them to the object it
 * is linked into (see its head for how to change that); the library exports them. */
#ifndef SNIC_API
#define SNIC_API __attribute__((visibility("default")))
#endif
#define SNIC_NODISCARD __attribute__((warn_unused_result))
#define SNIC_NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))
#define SNIC_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SNIC_LIKELY(c) __builtin_expect(!!(c), 1)
#define SNIC_UNLIKELY(c) __builtin_expect(!!(c), 0)
#define SNIC_COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
/** The struct of type @p type whose member @p member @p ptr points to. */
#define SNIC_CONTAINER(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))

/**
 * Fields written by different threads sit this far apart: 128 rather than 64,
 * because of adjacent-line prefetch on x86 and 128-byte lines on some Arm cores.
 */
#define SNIC_CACHELINE 128

#if defined(__cplusplus)
#define SNIC_STATIC_ASSERT(c, text) static_assert(c, text)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define SNIC_STATIC_ASSERT(c, text) _Static_assert(c, text)
#else /* C99: glibc makes _Static_assert a macro here, one that repeats a declaration */
#define SNIC_STATIC_ASSERT(c, text) SNIC_STATIC_ASSERT__AT(c, __COUNTER__)
#define SNIC_STATIC_ASSERT__AT(c, n) SNIC_STATIC_ASSERT__ENUM(c, n)
#define SNIC_STATIC_ASSERT__ENUM(c, n) enum { snic_static_assert_##n = 1 / !!(c) }
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Assertions: programmer errors only, never input ---- */

/** Print file, line and text on stderr and abort. [any] */
SNIC_API void snic_assert_fail(const char *file, int line, const char *text)
    __attribute__((noreturn, cold));

/** A DPU image may define its own handler; it must not return. */
#ifndef SNIC_ASSERT_FAIL
#define SNIC_ASSERT_FAIL(file, line, text) snic_assert_fail(file, line, text)
#endif

/** Checked in every build, unless SNIC_NO_ASSERT: contracts and state transitions. */
#if defined(SNIC_NO_ASSERT)
#define SNIC_ASSERT(c) ((void)sizeof(!(c)))
#else
#define SNIC_ASSERT(c) (SNIC_LIKELY(c) ? (void)0 : SNIC_ASSERT_FAIL(__FILE__, __LINE__, #c))
#endif

/** Checked when SNIC_DEBUG is defined (debug, tests, fuzz, sanitizers): hot paths. */
#if defined(SNIC_DEBUG) && !defined(SNIC_NO_ASSERT)
#define SNIC_DASSERT(c) SNIC_ASSERT(c)
#else
#define SNIC_DASSERT(c) ((void)sizeof(!(c)))
#endif

/* ---- Errors: fixed for ever; Linux asm-generic numbers where Linux has the meaning ---- */

#define SNIC_OK 0
#define SNIC_EPERM (-1)          /**< not allowed                                     */
#define SNIC_ENOENT (-2)         /**< no such file, directory, key or id              */
#define SNIC_EINTR (-4)          /**< interrupted                                     */
#define SNIC_EIO (-5)            /**< device failed                                   */
#define SNIC_ENXIO (-6)          /**< nothing there: no data behind this offset       */
#define SNIC_E2BIG (-7)          /**< a list is too long                              */
#define SNIC_EBADF (-9)          /**< no such handle, or not open for this            */
#define SNIC_EAGAIN (-11)        /**< nothing changed, try again later                */
#define SNIC_ENOMEM (-12)        /**< a backend's allocation at open failed           */
#define SNIC_EACCES (-13)        /**< the operating system refused access             */
#define SNIC_EFAULT (-14)        /**< a region, key or range that is not registered   */
#define SNIC_EBUSY (-16)         /**< in use                                          */
#define SNIC_EEXIST (-17)        /**< exists already                                  */
#define SNIC_EXDEV (-18)         /**< across stores                                   */
#define SNIC_ENOTDIR (-20)       /**< not a directory                                 */
#define SNIC_EISDIR (-21)        /**< is a directory                                  */
#define SNIC_EINVAL (-22)        /**< bad argument, option or alignment               */
#define SNIC_ENFILE (-23)        /**< too many files are open                         */
#define SNIC_EFBIG (-27)         /**< beyond the largest file                         */
#define SNIC_ENOSPC (-28)        /**< no space: device, table or memory too small     */
#define SNIC_EROFS (-30)         /**< read-only                                       */
#define SNIC_EMLINK (-31)        /**< too many links                                  */
#define SNIC_EPIPE (-32)         /**< the other end stopped receiving                 */
#define SNIC_ERANGE (-34)        /**< a number outside its range                      */
#define SNIC_EDEADLK (-35)       /**< would wait for itself                           */
#define SNIC_ENAMETOOLONG (-36)  /**< name too long                                   */
#define SNIC_ENOLCK (-37)        /**< no room for a lock                              */
#define SNIC_ENOTEMPTY (-39)     /**< directory not empty                             */
#define SNIC_ELOOP (-40)         /**< too many symbolic links                         */
#define SNIC_ENODATA (-61)       /**< no such attribute                               */
#define SNIC_EPROTO (-71)        /**< the peer broke the protocol                     */
#define SNIC_EOVERFLOW (-75)     /**< does not fit                                    */
#define SNIC_EMSGSIZE (-90)      /**< record or message larger than the limit         */
#define SNIC_ENOTSUP (-95)       /**< capability not there; nothing happened          */
#define SNIC_EADDRINUSE (-98)    /**< address or port in use                          */
#define SNIC_ECONNABORTED (-103) /**< connection aborted by this side                 */
#define SNIC_ECONNRESET (-104)   /**< connection reset by the peer                    */
#define SNIC_ENOTCONN (-107)     /**< not connected                                   */
#define SNIC_ESHUTDOWN (-108)    /**< fenced: this client's operations are refused     */
#define SNIC_ETIMEDOUT (-110)    /**< time-out                                        */
#define SNIC_ECONNREFUSED (-111) /**< connection refused                              */
#define SNIC_EHOSTUNREACH (-113) /**< no route to the peer                            */
#define SNIC_ESTALE (-116)       /**< an older epoch, generation or version           */
#define SNIC_ECANCELED (-125)    /**< cancelled before it took effect                 */
#define SNIC_EPEERDEAD (-130)    /**< the peer is certified dead (Linux EOWNERDEAD)   */
#define SNIC_ECORRUPT (-1001)    /**< checksum or structure broken                    */
#define SNIC_EVERSION (-1002)    /**< format of another version                       */
#define SNIC_EUNKNOWN (-1003)    /**< outcome unknown: done or not done               */
#define SNIC_ENOQUORUM (-1004)   /**< fewer members than the operation requires       */

/** One line of text for @p error; unknown codes give a text too, never NULL. [any] */
SNIC_API const char *snic_strerror(int error);
/** The symbol ("SNIC_EINVAL") of @p error, or "SNIC_E?". [any] */
SNIC_API const char *snic_errname(int error);
/** The version of the linked library, laid out as SNIC_VERSION. [any] */
SNIC_API uint32_t snic_version(void);
/**
 * Translate a Linux errno value (positive or negative). Backends call it once, at the edge. [any]
 * @return the SNIC_E* of that meaning; SNIC_EIO there is none
 */
SNIC_API int snic_error_from_os(int os_error);

/* ---- Options structs: they begin with their size (ABI) ---- */

/** No options struct is larger; a size beyond it is a size never set. */
#define SNIC_OPTS_BYTES_MAX 4096

/**
 * Copy a caller's options into @p dst (@p dst_size bytes, pre-filled with
 * defaults). The first 4 bytes of @p src are its size. Both are borrowed. A smaller size is an
 * older caller; a larger one is accepted only if the extra bytes are zero. On
 * success @p dst begins with @p dst_size; on failure it is untouched. [any]
 * @return 0; SNIC_EINVAL size < 4, size > SNIC_OPTS_BYTES_MAX or non-zero bytes
 *         of a newer version
 */
SNIC_API SNIC_NODISCARD int snic_opts_copy(void *dst, uint32_t dst_size, const void *src)
    SNIC_NONNULL(1, 3);

/* ---- Integers and byte order ---- */

/** 1 if exactly one bit of @p v is set, else 0. [any] */
static inline int snic_is_pow2(uint64_t v)
{
    return v != 0 && (v & (v - 1)) == 0;
}

/** Round up to a power-of-two @p align. The caller rules out overflow. [any] */
static inline uint64_t snic_align_up(uint64_t v, uint64_t align)
{
    return (v + align - 1) & ~(align - 1);
}
/** Round down to a power-of-two @p align. [any] */
static inline uint64_t snic_align_down(uint64_t v, uint64_t align)
{
    return v & ~(align - 1);
}
/** The smaller one. [any] */
static inline uint64_t snic_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
/** The larger one. [any] */
static inline uint64_t snic_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
/** The smallest power of two >= @p v, for 1 <= v <= 2^63; 1 for 0. [any] */
static inline uint64_t snic_pow2_up(uint64_t v)
{
    return v <= 1 ? 1 : (uint64_t)1 << (64 - __builtin_clzll(v - 1));
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SNIC__LE(bits, v) __builtin_bswap##bits(v)
#define SNIC__BE(bits, v) (v)
#else
#define SNIC__LE(bits, v) (v)
#define SNIC__BE(bits, v) __builtin_bswap##bits(v)
#endif

/* snic_get_le16(p) ... snic_put_be64(p, v): unaligned loads and stores of 16, 32 and 64 bits in a
 * fixed byte order. The memory is borrowed for the call. [any] */
#define SNIC__CODEC(bits)                                                                          \
    static inline uint##bits##_t snic_get_le##bits(const void *p)                                  \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
        memcpy(&v, p, sizeof(v));                                                                  \
        return SNIC__LE(bits, v);                                                                  \
    }                                                                                              \
    static inline void snic_put_le##bits(void *p, uint##bits##_t v)                                \
    {                                                                                              \
        v = SNIC__LE(bits, v);                                                                     \
        memcpy(p, &v, sizeof(v));                                                                  \
    }                                                                                              \
    static inline uint##bits##_t snic_get_be##bits(const void *p)                                  \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
        memcpy(&v, p, sizeof(v));                                                                  \
        return SNIC__BE(bits, v);                                                                  \
    }                                                                                              \
    static inline void snic_put_be##bits(void *p, uint##bits##_t v)                                \
    {                                                                                              \
        v = SNIC__BE(bits, v);                                                                     \
        memcpy(p, &v, sizeof(v));                                                                  \
    }
SNIC__CODEC(16)
SNIC__CODEC(32)
SNIC__CODEC(64)

/* ---- CRC32C (Castagnoli, reflected 0x82f63b78) ---- */

/**
 * CRC32C of @p size bytes, continuing from @p crc (0 to start). Uses the CPU's
 * instruction where there is one. snic_crc32c(0, "123456789", 9) == 0xe3069283. [any]
 */
SNIC_API uint32_t snic_crc32c(uint32_t crc, const void *data, size_t size);
/** The same function in portable C; identical results. [any] */
SNIC_API uint32_t snic_crc32c_portable(uint32_t crc, const void *data, size_t size);
/** 1 if snic_crc32c() uses the CPU's instruction, else 0. [any] */
SNIC_API int snic_crc32c_is_hardware(void);

/**
 * The CRC32C of A || B from that of A, that of B and the size of B, which takes the same time for
 * any size (at most 31 products). [any]
 */
SNIC_API uint32_t snic_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);
/** The same where B has 4096 bytes: one carry-less product and one CRC instruction. [any] */
SNIC_API uint32_t snic_crc32c_combine_4096(uint32_t crc_a, uint32_t crc_b);
/**
 * What a size means to snic_crc32c_advance(), to be computed once for many uses:
 * snic_crc32c_combine(a, b, n) == (snic_crc32c_advance(a, snic_crc32c_power(n)) ^ b). [any]
 */
SNIC_API uint32_t snic_crc32c_power(uint64_t size);
/** @p crc as what precedes so many bytes adds it to the CRC of all; linear in @p crc. [any] */
SNIC_API uint32_t snic_crc32c_advance(uint32_t crc, uint32_t power);
/** The same function in portable C; identical results. [any] */
SNIC_API uint32_t snic_crc32c_advance_portable(uint32_t crc, uint32_t power);

/* ---- SipHash-2-4 ---- */

/**
 * Hash of @p size bytes under a key: who sees hashes and has not the key can neither choose what
 * collides nor learn what was hashed. The same at every byte order. [any]
 */
SNIC_API uint64_t snic_siphash(const unsigned char key[16], const void *data, size_t size)
    SNIC_NONNULL(1);
/** The same with 128 bits, for hashes that must not collide by chance either. [any] */
SNIC_API void snic_siphash128(const unsigned char key[16], const void *data, size_t size,
                              uint64_t out[2]) SNIC_NONNULL(1, 4);

/* ---- Seeded random numbers (xoshiro256**, seeded by splitmix64) ---- */

struct snic_rng {
    uint64_t s[4];
};

/** Start the sequence that @p seed names; every seed, 0 included, is fine. [owner] */
SNIC_API void snic_rng_init(struct snic_rng *r, uint64_t seed) SNIC_NONNULL(1);
/** The next 64 bits. [owner] */
SNIC_API uint64_t snic_rng_next(struct snic_rng *r) SNIC_NONNULL(1);
/** Uniform in [0, bound), without modulo bias; @p bound > 0. [owner] */
SNIC_API uint64_t snic_rng_below(struct snic_rng *r, uint64_t bound) SNIC_NONNULL(1);
/** Fill @p size bytes; the bytes do not depend on byte order. [owner] */
SNIC_API void snic_rng_fill(struct snic_rng *r, void *out, size_t size) SNIC_NONNULL(1, 2);

/* ---- Memory pieces ---- */

/** One piece of a gather or scatter list; the layout of POSIX struct iovec. */
struct snic_iov {
    void *base;
    size_t size;
};

/* ---- Intrusive lists ---- */

/** A member of a singly linked FIFO. */
struct snic_node {
    struct snic_node *next;
};
/** FIFO of nodes; all zero is a valid empty queue. */
struct snic_queue {
    struct snic_node *first;
    struct snic_node *last;
};

/** 1 if no node is queued, else 0. [owner] */
static inline int snic_queue_empty(const struct snic_queue *q)
{
    return q->first == NULL;
}
/** Append @p n, borrowed until popped; on no other queue. [owner] */
static inline void snic_queue_push(struct snic_queue *q, struct snic_node *n)
{
    n->next = NULL;
    if (q->first == NULL)
        q->first = n;
    else
        q->last->next = n;
    q->last = n;
}
/** Take out the oldest node; NULL when empty. [owner] */
static inline struct snic_node *snic_queue_pop(struct snic_queue *q)
{
    struct snic_node *n = q->first;
    if (n != NULL) {
        q->first = n->next;
        if (q->first == NULL)
            q->last = NULL;
        n->next = NULL;
    }
    return n;
}

/** A member or the head of a circular doubly linked list. */
struct snic_link {
    struct snic_link *next;
    struct snic_link *prev;
};

/** Make @p l a head without members, or a member that is on no list. [owner] */
static inline void snic_link_init(struct snic_link *l)
{
    l->next = l;
    l->prev = l;
}
/** 1 for a head without members or a member that is on no list, else 0. [owner] */
static inline int snic_link_alone(const struct snic_link *l)
{
    return l->next == l;
}
/** Make @p l the last member; borrowed until removed, on no other list. [owner] */
static inline void snic_link_append(struct snic_link *head, struct snic_link *l)
{
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}
/** Take @p l off its list and leave it alone; harmless if it was alone. [owner] */
static inline void snic_link_remove(struct snic_link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    snic_link_init(l);
}

/* ---- Timer wheel ---- */

/** No deadline. */
#define SNIC_NEVER UINT64_MAX

struct snic_timer;
typedef void (*snic_timer_fn)(struct snic_timer *t, uint64_t now_ns);

/** Intrusive timer. Set fn once with snic_timer_init(); the rest is the wheel's. */
struct snic_timer {
    struct snic_link link;
    uint64_t deadline_ns;
    uint64_t sequence; /**< arming order: breaks ties between equal deadlines */
    snic_timer_fn fn;
    uint16_t slot; /**< level * 64 + index */
    uint16_t armed;
};

#define SNIC_WHEEL_LEVELS 9
#define SNIC_WHEEL_SLOTS 64
/** Level 0 resolves 2^10 ns; each level above is 64 times coarser. */
#define SNIC_WHEEL_TICK_SHIFT 10

/** Hierarchical timing wheel: arm and cancel O(1); covers every u64 deadline. */
struct snic_wheel {
    uint64_t now_tick;
    uint64_t sequence;
    uint64_t armed;
    uint64_t next_ns; /**< exact earliest deadline, if next_known */
    uint64_t next_known;
    uint64_t occupied[SNIC_WHEEL_LEVELS]; /**< one bit per non-empty slot */
    uint64_t sorted[SNIC_WHEEL_LEVELS];   /**< one bit per slot in popping order */
    struct snic_link slots[SNIC_WHEEL_LEVELS][SNIC_WHEEL_SLOTS];
};

/** Disarmed, with @p fn for good. Not while it is armed. [owner] */
static inline void snic_timer_init(struct snic_timer *t, snic_timer_fn fn)
{
    snic_link_init(&t->link);
    t->deadline_ns = SNIC_NEVER;
    t->sequence = 0;
    t->fn = fn;
    t->slot = 0;
    t->armed = 0;
}
/**
 * Empty wheel whose time starts at @p now_ns. It is linked to itself: do not move or
 * copy it. [owner]
 */
SNIC_API void snic_wheel_init(struct snic_wheel *w, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Arm or re-arm @p t (borrowed until popped or cancelled). A past deadline is due
 * at once; SNIC_NEVER never is, short of the end of time. [owner]
 */
SNIC_API void snic_wheel_arm(struct snic_wheel *w, struct snic_timer *t, uint64_t deadline_ns)
    SNIC_NONNULL(1, 2);
/** Disarm @p t; harmless when it is not armed. [owner] */
SNIC_API void snic_wheel_cancel(struct snic_wheel *w, struct snic_timer *t) SNIC_NONNULL(1, 2);
/**
 * Take out the earliest timer with deadline <= @p now_ns, ties in arming order, or
 * NULL. The caller runs its fn. A @p now_ns that goes back fires nothing early. [owner]
 */
SNIC_API struct snic_timer *snic_wheel_pop(struct snic_wheel *w, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The exact earliest deadline, or SNIC_NEVER. O(1), unless the earliest timer is
 * gone and those of its slot were armed out of order: then they are sorted once. [owner]
 */
SNIC_API uint64_t snic_wheel_deadline_ns(struct snic_wheel *w) SNIC_NONNULL(1);
/**
 * Check that every timer is in its slot and the bits are true. For tests. [owner]
 * @return 0; SNIC_ECORRUPT one is not
 */
SNIC_API int snic_wheel_check(const struct snic_wheel *w) SNIC_NONNULL(1);

/* ---- Histogram: log-linear, 1/32 relative error, any u64 ---- */

#define SNIC_HIST_SUB 32
#define SNIC_HIST_BUCKETS ((64 - 5 + 1) * SNIC_HIST_SUB)

struct snic_hist {
    uint64_t count;
    uint64_t sum;
    uint64_t min;
    uint64_t max;
    uint64_t buckets[SNIC_HIST_BUCKETS];
};

/** Empty it: all zero, min and max included. [owner] */
SNIC_API void snic_hist_reset(struct snic_hist *h) SNIC_NONNULL(1);
/** Count @p value; sum stays at UINT64_MAX instead of wrapping. [owner] */
SNIC_API void snic_hist_record(struct snic_hist *h, uint64_t value) SNIC_NONNULL(1);
/** Add what @p from has recorded to @p into. [owner of both] */
SNIC_API void snic_hist_merge(struct snic_hist *into, const struct snic_hist *from)
    SNIC_NONNULL(1, 2);
/**
 * An upper bound, at most 1/32 above the truth and never above max, of the
 * value below which a share of @p per_million lies (500000: median; more than
 * a million counts as one). 0 if empty. [owner]
 */
SNIC_API uint64_t snic_hist_quantile(const struct snic_hist *h, uint32_t per_million)
    SNIC_NONNULL(1);

/* ---- Rates: token bucket in fixed point, exact over any span ---- */

struct snic_rate {
    uint64_t per_second; /**< tokens per second, 0: none is ever earned       */
    uint64_t burst;      /**< most tokens that pile up, >= 1                  */
    uint64_t tokens;     /**< whole tokens now                                */
    uint64_t fraction;   /**< part of the next token, in 1e-9 tokens          */
    uint64_t last_ns;
};

/**
 * Full bucket at @p now_ns: even at speed 0 the burst can be taken once. [owner]
 * @return 0; SNIC_EINVAL burst 0 or a number > 2^40
 */
SNIC_API SNIC_NODISCARD int snic_rate_init(struct snic_rate *r, uint64_t per_second, uint64_t burst,
                                           uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Change the speed; tokens earned so far stay. [owner]
 * @return 0; SNIC_EINVAL per_second > 2^40
 */
SNIC_API SNIC_NODISCARD int snic_rate_set(struct snic_rate *r, uint64_t per_second, uint64_t now_ns)
    SNIC_NONNULL(1);
/**
 * Take @p tokens. A @p now_ns that goes back earns nothing. [owner]
 * @return 0 when taken; SNIC_EAGAIN too few and nothing taken; SNIC_EINVAL tokens > burst
 */
SNIC_API SNIC_NODISCARD int snic_rate_take(struct snic_rate *r, uint64_t tokens, uint64_t now_ns)
    SNIC_NONNULL(1);
/**
 * The earliest time, not before that of the last call, at which snic_rate_take() of @p tokens
 * succeeds; SNIC_NEVER if none. [owner]
 */
SNIC_API uint64_t snic_rate_ready_ns(const struct snic_rate *r, uint64_t tokens) SNIC_NONNULL(1);

/* ---- Arena: carve one caller block into aligned pieces ---- */

/** Run once with base NULL to measure and once with memory to place. */
struct snic_arena {
    unsigned char *base; /**< NULL: measuring                            */
    size_t size;
    size_t used; /**< SIZE_MAX after an overflow or a lack of space      */
};

/**
 * Take @p count * @p size bytes aligned to the power of two @p align (offsets
 * are aligned; base must be). NULL while measuring or when it does not fit;
 * then used is SIZE_MAX if it does not fit. [owner]
 */
SNIC_API void *snic_arena_take(struct snic_arena *a, size_t count, size_t size, size_t align)
    SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_BASE_H */
