/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory for values, in units of 128 bytes: two-level segregated fit. A value is contiguous, so
 * that it is sent, logged and read without gathering. A handle is the index of the first unit plus
 * one; 0 is no value.
 *
 * Free blocks are in lists by size class, 8 classes in each doubling. A value takes the smallest
 * size that begins a class, so each block of its class or of a higher one is large enough, and one
 * that was freed is taken again without a search; a free neighbour is merged at once.
 *
 * V1  Each unit is the first of a free or used block, or inside one. No two free blocks touch. The
 *     last unit of a free block names the first.
 * V2  A used block has at least one reference and is freed with the last. The engine's reference is
 *     marked (REPLICA_U_ENGINE), so that those of an engine that has ended can be dropped.
 */
#include "replica_priv.h"

#define REPLICA_U_ENGINE 4 /* flag in `state` */

static int replica_unit_is(const struct replica_unit *u, enum replica_unit_state s)
{
    return (u->state & 3) == (uint32_t)s;
}

static uint32_t replica_units_of(uint64_t bytes)
{
    return (uint32_t)snic_min_u64(bytes / SNIC_REPLICA__UNIT, UINT32_C(1) << 30);
}

size_t replica_values_memsize(uint64_t bytes)
{
    uint64_t n = replica_units_of(bytes);
    return (size_t)(n * SNIC_REPLICA__UNIT +
                    snic_align_up(n * sizeof(struct replica_unit), SNIC_REPLICA_ALIGN));
}

/* The class of a block of @p n units: the largest that begins with at most n. */
static uint32_t replica_class_of(uint32_t n)
{
    SNIC_ASSERT(n > 0);
    if (n < 8)
        return n;
    uint32_t log = 31 - (uint32_t)__builtin_clz(n);
    return (log - 2) * 8 + (n >> (log - 3) & 7);
}

/* Units of a value: the smallest beginning of a class that holds @p size bytes. */
static uint32_t replica_units_for(uint32_t size)
{
    uint32_t n =
        (uint32_t)snic_max_u64(1, ((uint64_t)size + SNIC_REPLICA__UNIT - 1) / SNIC_REPLICA__UNIT);
    uint32_t step = n < 16 ? 1 : UINT32_C(1) << (28 - __builtin_clz(n));
    return (uint32_t)snic_align_up(n, step);
}

static void replica_unit_push(struct replica_values *v, uint32_t i, uint32_t n)
{
    struct replica_unit *u = &v->unit[i];
    uint32_t c = replica_class_of(n);
    u->state = REPLICA_U_FREE;
    u->units = n;
    u->prev = SNIC_REPLICA__NIL;
    u->next = v->free[c];
    if (u->next != SNIC_REPLICA__NIL)
        v->unit[u->next].prev = i;
    v->free[c] = i;
    v->classes[c / 64] |= UINT64_C(1) << c % 64;
    if (n > 1) {
        v->unit[i + n - 1].state = REPLICA_U_LAST;
        v->unit[i + n - 1].first = i;
    }
}

static void replica_unit_take(struct replica_values *v, uint32_t i)
{
    struct replica_unit *u = &v->unit[i];
    uint32_t c = replica_class_of(u->units);
    if (u->prev != SNIC_REPLICA__NIL)
        v->unit[u->prev].next = u->next;
    else
        v->free[c] = u->next;
    if (u->next != SNIC_REPLICA__NIL)
        v->unit[u->next].prev = u->prev;
    if (v->free[c] == SNIC_REPLICA__NIL)
        v->classes[c / 64] &= ~(UINT64_C(1) << c % 64);
    v->unit[i + u->units - 1].state = REPLICA_U_INSIDE;
    u->state = REPLICA_U_INSIDE;
}

void replica_values_init(struct replica_values *v, void *mem, uint64_t bytes)
{
    memset(v, 0, sizeof(*v));
    v->units = replica_units_of(bytes);
    v->base = mem;
    v->unit = (struct replica_unit *)(void *)(v->base + (size_t)v->units * SNIC_REPLICA__UNIT);
    memset(v->unit, 0, (size_t)v->units * sizeof(*v->unit));
    for (uint32_t c = 0; c < SNIC_REPLICA__CLASSES; c++)
        v->free[c] = SNIC_REPLICA__NIL;
    if (v->units > 0)
        replica_unit_push(v, 0, v->units);
}

static struct replica_unit *replica_unit_of(const struct replica_values *v, uint64_t h)
{
    SNIC_ASSERT(h != 0 && h <= v->units);
    struct replica_unit *u = &v->unit[h - 1];
    SNIC_ASSERT(replica_unit_is(u, REPLICA_U_USED) && u->refs > 0);
    return u;
}

/* The first block of class @p c or above; NIL: there is none. */
static uint32_t replica_unit_find(const struct replica_values *v, uint32_t c)
{
    uint64_t word = v->classes[c / 64] >> c % 64 << c % 64;
    uint32_t w = c / 64;
    while (word == 0 && ++w < SNIC_REPLICA__CLASSES / 64)
        word = v->classes[w];
    return word != 0 ? v->free[w * 64 + (uint32_t)__builtin_ctzll(word)] : SNIC_REPLICA__NIL;
}

/* A handle with one reference, the caller's; 0: out of space. */
uint64_t replica_value_new(struct replica_values *v, uint32_t size)
{
    uint32_t n = replica_units_for(size);
    uint32_t i = replica_unit_find(v, replica_class_of(n));
    if (i == SNIC_REPLICA__NIL)
        return 0;
    struct replica_unit *u = &v->unit[i];
    uint32_t rest = u->units - n;
    SNIC_ASSERT(u->units >= n);
    replica_unit_take(v, i);
    if (rest > 0)
        replica_unit_push(v, i + n, rest);
    u->state = REPLICA_U_USED;
    u->refs = 1;
    u->size = size;
    v->live++;
    v->used_bytes += (uint64_t)SNIC_REPLICA__UNIT * n;
    return (uint64_t)i + 1;
}

void replica_value_hold(struct replica_values *v, uint64_t h)
{
    struct replica_unit *u = replica_unit_of(v, h);
    SNIC_ASSERT(u->refs < UINT32_MAX);
    u->refs++;
}

void replica_value_drop(struct replica_values *v, uint64_t h)
{
    struct replica_unit *u = replica_unit_of(v, h);
    if (--u->refs != 0)
        return;
    uint32_t i = (uint32_t)(h - 1);
    uint32_t n = replica_units_for(u->size);
    SNIC_ASSERT(v->live > 0 && v->used_bytes >= (uint64_t)SNIC_REPLICA__UNIT * n);
    SNIC_ASSERT((u->state & REPLICA_U_ENGINE) == 0);
    v->live--;
    v->used_bytes -= (uint64_t)SNIC_REPLICA__UNIT * n;
    u->state = REPLICA_U_INSIDE;
    if (i + n < v->units && replica_unit_is(&v->unit[i + n], REPLICA_U_FREE)) {
        uint32_t after = i + n;
        n += v->unit[after].units;
        replica_unit_take(v, after);
    }
    if (i > 0 && (replica_unit_is(&v->unit[i - 1], REPLICA_U_LAST) ||
                  replica_unit_is(&v->unit[i - 1], REPLICA_U_FREE))) {
        uint32_t before =
            replica_unit_is(&v->unit[i - 1], REPLICA_U_LAST) ? v->unit[i - 1].first : i - 1;
        n += v->unit[before].units;
        replica_unit_take(v, before);
        i = before;
    }
    replica_unit_push(v, i, n);
}

/* The caller's reference becomes the engine's. */
void replica_value_give(struct replica_values *v, uint64_t h)
{
    struct replica_unit *u = replica_unit_of(v, h);
    SNIC_ASSERT((u->state & REPLICA_U_ENGINE) == 0);
    u->state |= REPLICA_U_ENGINE;
}

/* Drop the engine's reference. */
void replica_value_release(struct replica_values *v, uint64_t h)
{
    struct replica_unit *u = replica_unit_of(v, h);
    SNIC_ASSERT((u->state & REPLICA_U_ENGINE) != 0);
    u->state &= ~(uint32_t)REPLICA_U_ENGINE;
    replica_value_drop(v, h);
}

/* Drop all references of an engine that has ended. */
void replica_values_reclaim(struct replica_values *v)
{
    for (uint32_t i = 0; i < v->units; i++) {
        if ((v->unit[i].state & REPLICA_U_ENGINE) != 0)
            replica_value_release(v, (uint64_t)i + 1);
    }
}

unsigned char *replica_value_at(const struct replica_values *v, uint64_t h, uint32_t *size)
{
    const struct replica_unit *u = replica_unit_of(v, h);
    *size = u->size;
    return v->base + (h - 1) * SNIC_REPLICA__UNIT;
}

/* V1 of a free block behind one that was free or not. */
static int replica_unit_is_right(const struct replica_values *v, uint32_t i, uint32_t n)
{
    const struct replica_unit *last = &v->unit[i + n - 1];
    return n == 1 || (replica_unit_is(last, REPLICA_U_LAST) && last->first == i);
}

int replica_values_check(const struct replica_values *v)
{
    uint32_t live = 0, frees = 0, listed = 0;
    int before = 0;
    for (uint32_t i = 0; i < v->units;) {
        const struct replica_unit *u = &v->unit[i];
        int used = replica_unit_is(u, REPLICA_U_USED);
        if (!used && !replica_unit_is(u, REPLICA_U_FREE))
            return SNIC_ECORRUPT; /* V1 */
        uint64_t n = used ? replica_units_for(u->size) : u->units;
        if (n == 0 || i + n > v->units || (used && u->refs == 0)) /* V2 */
            return SNIC_ECORRUPT;
        if (!used && (before || !replica_unit_is_right(v, i, (uint32_t)n)))
            return SNIC_ECORRUPT; /* V1 */
        live += used != 0;
        frees += used == 0;
        before = !used;
        i += (uint32_t)n;
    }
    for (uint32_t c = 0; c < SNIC_REPLICA__CLASSES; c++) {
        if ((v->classes[c / 64] >> c % 64 & 1) != (v->free[c] != SNIC_REPLICA__NIL))
            return SNIC_ECORRUPT;
        for (uint32_t i = v->free[c]; i != SNIC_REPLICA__NIL; i = v->unit[i].next) {
            if (!replica_unit_is(&v->unit[i], REPLICA_U_FREE) ||
                replica_class_of(v->unit[i].units) != c || ++listed > frees)
                return SNIC_ECORRUPT;
        }
    }
    return live == v->live && listed == frees ? 0 : SNIC_ECORRUPT;
}

#undef REPLICA_U_ENGINE
