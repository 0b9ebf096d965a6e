/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the tests of the cache table share: a table in guarded memory, keys and items by number. */
#ifndef SNIC_TEST_CUCKOO_UTIL_H
#define SNIC_TEST_CUCKOO_UTIL_H

#include "support.h"

#include "snicstore/cuckoo.h"

#include <string.h>

/* Instrumented builds do a part of the work. */
#if defined(__SANITIZE_THREAD__)
#define UTIL_SHARE 5
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UTIL_SHARE 5
#endif
#endif
#ifndef UTIL_SHARE
#define UTIL_SHARE 1
#endif

/* Instrumented for addresses, or emulated. */
#if defined(__SANITIZE_ADDRESS__) || !defined(__x86_64__) || UTIL_SHARE > 1
#define UTIL_SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UTIL_SLOW 1
#endif
#endif
#ifndef UTIL_SLOW
#define UTIL_SLOW 0
#endif

struct util_table {
    struct snic_cuckoo *t;
    struct snic_cuckoo_opts o;
    void *mem;
    size_t size;
};

static inline void util_open(struct util_table *u, uint32_t key_size, uint32_t item_size,
                             uint64_t slots, uint64_t seed)
{
    memset(u, 0, sizeof(*u));
    u->o.opts_size = sizeof(u->o);
    u->o.key_size = key_size;
    u->o.item_size = item_size;
    u->o.capacity_slots = slots;
    u->o.seed = seed;
    u->size = snic_cuckoo_memsize(&u->o);
    assert_int_not_equal(u->size, 0);
    u->mem = support_guard_alloc(u->size, SNIC_CUCKOO_ALIGN);
    assert_int_equal(snic_cuckoo_init(&u->t, u->mem, u->size, &u->o), 0);
}

static inline void util_close(struct util_table *u)
{
    assert_ptr_equal(snic_cuckoo_fini(u->t), u->mem);
    support_guard_free(u->mem);
}

/* Key number n: distinct for distinct n (of as many bits as fit), of any size. */
static inline void util_key(unsigned char *key, uint32_t size, uint64_t n)
{
    for (uint32_t i = 0; i < size; i++)
        key[i] = (unsigned char)(i < 8 ? n >> (8 * i) : n * 31 + i);
}

/* The item of key n at a version: every byte depends on both, the first 8 are the version. */
static inline void util_item(unsigned char *item, uint32_t size, uint64_t n, uint64_t version)
{
    for (uint32_t i = 0; i < size; i++) {
        if (i < 8)
            item[i] = (unsigned char)(version >> (8 * i));
        else
            item[i] = (unsigned char)(n * 7 + (version + i) * 131 + (version >> 8));
    }
}

#endif /* SNIC_TEST_CUCKOO_UTIL_H */
