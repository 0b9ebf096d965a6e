/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Fingerprints and the set of states.
 *
 * The entries stand in the order in which threads reserved them and never move, so a state's number
 * is good for ever. The index (linear probing, number + 1, 0 is empty) is what grows. An insert is
 * decided by one compare-and-swap of an index slot; the entry is written before. Lean, there are no
 * entries: a slot holds the fingerprint itself, and up to 7 of 8 are taken.
 */
#include "mc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TABLE_GRAIN 64u               /* entries a thread reserves at a time */
#define TABLE_BYTES ((size_t)1 << 16) /* exact: bytes a thread reserves at a time */
#define TABLE_FIRST 16                /* log2 of the slots to begin with */

struct mc_table {
    _Atomic uint32_t *slot;
    _Atomic uint64_t *lean; /* instead of slot; 0: empty */
    uint64_t mask;
    struct mc_entry *entry;
    uint64_t *hi;          /* wide */
    unsigned char **bytes; /* exact: length, bytes */
    unsigned char *arena;
    _Atomic uint64_t arena_used;
    _Atomic uint64_t reserved; /* entries */
    uint64_t max;
    size_t arena_max;
};

__extension__ typedef unsigned __int128 mc_u128;

static uint64_t mc_fold(uint64_t a, uint64_t b)
{
    mc_u128 p = (mc_u128)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* Two lanes that take every word with different constants, so that an accident in one (a factor
 * of zero) is none in the other. */
struct mc_print128 mc_fingerprint(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint64_t a = UINT64_C(0x9e3779b97f4a7c15) ^ len, b = UINT64_C(0xd1b54a32d192ed03) + len;
    struct mc_print128 f;

    while (len > 0) {
        uint64_t w[2] = {0, 0};
        size_t n = len < 16 ? len : 16;

        if (n == 16)
            memcpy(w, p, 16);
        else
            memcpy(w, p, n);
        a = mc_fold(a ^ w[0] ^ UINT64_C(0xa0761d6478bd642f), w[1] ^ UINT64_C(0xe7037ed1a0b428db)) +
            (w[0] << 7 | w[0] >> 57);
        b = mc_fold(b ^ w[1] ^ UINT64_C(0x8ebc6af09c88c6e3), w[0] ^ UINT64_C(0x589965cc75374cc3)) +
            (w[1] << 29 | w[1] >> 35);
        p += n;
        len -= n;
    }
    f.lo = mc_fold(a ^ UINT64_C(0x1d8e4e27c47d124f), b ^ UINT64_C(0xeb44accab455d165));
    f.hi = mc_fold(a + UINT64_C(0x6c62272e07bb0142),
                   (b << 32 | b >> 32) ^ UINT64_C(0x62b821756295c58d));
    return f;
}

static void *mc_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    if (p == MAP_FAILED) {
        perror("mc: mmap");
        abort();
    }
    return p;
}

struct mc_table *mc_table_new(uint64_t states_max, const struct mc_opts *o)
{
    struct mc_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        abort();
    t->max = states_max + 4096; /* a thread's reservation may be left over */
    t->mask = ((uint64_t)1 << TABLE_FIRST) - 1;
    if (o->lean) {
        t->lean = mc_map((t->mask + 1) * sizeof(*t->lean));
        return t;
    }
    t->slot = mc_map((t->mask + 1) * sizeof(*t->slot));
    t->entry = mc_map(t->max * sizeof(*t->entry));
    if (o->wide)
        t->hi = mc_map(t->max * sizeof(*t->hi));
    if (o->exact) {
        t->bytes = mc_map(t->max * sizeof(*t->bytes));
        t->arena_max = t->max * 128 + ((size_t)1 << 28);
        t->arena = mc_map(t->arena_max);
    }
    return t;
}

void mc_table_free(struct mc_table *t)
{
    if (t->lean != NULL) {
        (void)munmap((void *)t->lean, (t->mask + 1) * sizeof(*t->lean));
        free(t);
        return;
    }
    (void)munmap((void *)t->slot, (t->mask + 1) * sizeof(*t->slot));
    (void)munmap(t->entry, t->max * sizeof(*t->entry));
    if (t->hi != NULL)
        (void)munmap(t->hi, t->max * sizeof(*t->hi));
    if (t->bytes != NULL) {
        (void)munmap((void *)t->bytes, t->max * sizeof(*t->bytes));
        (void)munmap(t->arena, t->arena_max);
    }
    free(t);
}

void mc_table_hand(struct mc_table *t, struct mc_hand *h)
{
    memset(h, 0, sizeof(*h));
    h->t = t;
}

static uint32_t mc_take_entry(struct mc_hand *h)
{
    if (h->next == h->end) {
        h->next = (uint32_t)atomic_fetch_add(&h->t->reserved, TABLE_GRAIN);
        h->end = h->next + TABLE_GRAIN;
        if (h->end > h->t->max) {
            (void)fprintf(stderr, "mc: more states than were reserved\n");
            abort();
        }
    }
    return h->next;
}

static void mc_keep_bytes(struct mc_hand *h, uint32_t number, const void *state, size_t len)
{
    uint32_t n = (uint32_t)len;

    if (h->bytes == NULL || (size_t)(h->bytes_end - h->bytes) < len + 4) {
        uint64_t at = atomic_fetch_add(&h->t->arena_used, TABLE_BYTES);

        if (at + TABLE_BYTES > h->t->arena_max)
            abort();
        h->bytes = h->t->arena + at;
        h->bytes_end = h->bytes + TABLE_BYTES;
    }
    memcpy(h->bytes, &n, 4);
    memcpy(h->bytes + 4, state, len);
    h->t->bytes[number] = h->bytes;
}

static int mc_same(struct mc_hand *h, uint32_t number, struct mc_print128 f, const void *state,
                   size_t len)
{
    const struct mc_table *t = h->t;
    uint32_t n;

    if (t->entry[number].fp != f.lo || (t->hi != NULL && t->hi[number] != f.hi))
        return 0;
    if (t->bytes == NULL)
        return 1;
    memcpy(&n, t->bytes[number], 4);
    if (n == len && memcmp(t->bytes[number] + 4, state, len) == 0)
        return 1;
    h->collided++;
    return 0;
}

static void mc_full(void)
{
    (void)fprintf(stderr, "mc: the index is full\n");
    abort();
}

static uint32_t mc_lean_insert(struct mc_table *t, uint64_t fp)
{
    uint64_t pos, probes = 0;

    fp += fp == 0;
    for (pos = fp & t->mask;; pos = (pos + 1) & t->mask) {
        uint64_t v = atomic_load_explicit(&t->lean[pos], memory_order_relaxed);

        if (v == 0 && atomic_compare_exchange_strong_explicit(
                          &t->lean[pos], &v, fp, memory_order_relaxed, memory_order_relaxed)) {
            (void)atomic_fetch_add_explicit(&t->reserved, 1, memory_order_relaxed);
            return 0;
        }
        if (v == fp)
            return MC_NONE;
        if (++probes > t->mask)
            mc_full();
    }
}

uint32_t mc_table_insert(struct mc_hand *h, struct mc_print128 f, const struct mc_entry *e,
                         const void *state, size_t len)
{
    struct mc_table *t = h->t;
    uint64_t pos = f.lo & t->mask, probes = 0;
    uint32_t number = MC_NONE;

    if (t->lean != NULL)
        return mc_lean_insert(t, f.lo);
    for (;;) {
        uint32_t v = atomic_load_explicit(&t->slot[pos], memory_order_acquire);

        if (v == 0) {
            if (number == MC_NONE) {
                number = mc_take_entry(h);
                t->entry[number] = *e;
                if (t->hi != NULL)
                    t->hi[number] = f.hi;
                if (t->bytes != NULL)
                    mc_keep_bytes(h, number, state, len);
            }
            if (atomic_compare_exchange_strong_explicit(
                    &t->slot[pos], &v, number + 1, memory_order_acq_rel, memory_order_acquire)) {
                h->next++;
                if (t->bytes != NULL)
                    h->bytes += len + 4;
                return number;
            }
        }
        if (mc_same(h, v - 1, f, state, len))
            return MC_NONE;
        pos = (pos + 1) & t->mask;
        if (++probes > t->mask)
            mc_full();
    }
}

void mc_table_prefetch(const struct mc_table *t, uint64_t fp)
{
    if (t->lean != NULL)
        __builtin_prefetch((const void *)&t->lean[fp & t->mask]);
    else
        __builtin_prefetch((const void *)&t->slot[fp & t->mask]);
}

static int mc_lean_reserve(struct mc_table *t, uint64_t more)
{
    uint64_t need = (atomic_load(&t->reserved) + more) / 7 * 8 + 8, size = t->mask + 1, i, pos;
    uint64_t old_size = size;
    _Atomic uint64_t *old = t->lean;

    if (atomic_load(&t->reserved) + more > t->max)
        return -1;
    if (need <= size)
        return 0;
    while (size < need)
        size *= 2;
    t->lean = mc_map(size * sizeof(*t->lean));
    t->mask = size - 1;
    for (i = 0; i < old_size; i++) {
        uint64_t v = atomic_load_explicit(&old[i], memory_order_relaxed);

        for (pos = v & t->mask;
             v != 0 && atomic_load_explicit(&t->lean[pos], memory_order_relaxed) != 0;)
            pos = (pos + 1) & t->mask;
        if (v != 0)
            atomic_store_explicit(&t->lean[pos], v, memory_order_relaxed);
    }
    (void)munmap((void *)old, old_size * sizeof(*old));
    return 0;
}

int mc_table_reserve(struct mc_table *t, uint64_t more)
{
    uint64_t need = (atomic_load(&t->reserved) + more) * 2, size = t->mask + 1, i;
    _Atomic uint32_t *old = t->slot;
    uint64_t old_size = size;

    if (t->lean != NULL)
        return mc_lean_reserve(t, more);
    if (need / 2 > t->max)
        return -1;
    if (need <= size)
        return 0;
    while (size < need)
        size *= 2;
    t->slot = mc_map(size * sizeof(*t->slot));
    t->mask = size - 1;
    for (i = 0; i < old_size; i++) {
        uint32_t v = atomic_load_explicit(&old[i], memory_order_relaxed);
        uint64_t pos;

        if (v == 0)
            continue;
        pos = t->entry[v - 1].fp & t->mask;
        while (atomic_load_explicit(&t->slot[pos], memory_order_relaxed) != 0)
            pos = (pos + 1) & t->mask;
        atomic_store_explicit(&t->slot[pos], v, memory_order_relaxed);
    }
    (void)munmap((void *)old, old_size * sizeof(*old));
    return 0;
}

const struct mc_entry *mc_table_at(const struct mc_table *t, uint32_t number)
{
    return &t->entry[number];
}

uint64_t mc_table_bytes(const struct mc_table *t)
{
    uint64_t n = t->reserved;

    if (t->lean != NULL)
        return (t->mask + 1) * sizeof(*t->lean);
    return n * sizeof(struct mc_entry) + (t->mask + 1) * 4 + (t->hi != NULL ? n * 8 : 0) +
           (t->bytes != NULL ? n * 8 + t->arena_used : 0);
}
