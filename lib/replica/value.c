/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory for values: a buddy allocator of units of 128 bytes. A value is contiguous, so that it is
 * sent, logged and read without gathering, and takes a power of two of units. A handle is the index
 * of the first unit plus one; 0 is no value.
 *
 * V1  Each unit is the first of a free or used block, or inside one. Blocks are aligned to their
 *     size; free buddies are merged.
 * V2  A used block has at least one reference and is freed with the last. The engine's reference is
 *     marked (REPLICA_U_ENGINE), so that those of an engine that has ended can be dropped.
 */
#include "replica_priv.h"

#define REPLICA_U_ENGINE 4 /* flag in `state` */

static int replica_unit_is(const struct replica_unit *u, enum replica_unit_state s)
{
    return (u->state & 3) == (int)s;
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

static void replica_unit_push(struct replica_values *v, uint32_t i, uint32_t order)
{
    struct replica_unit *u = &v->unit[i];
    u->state = REPLICA_U_FREE;
    u->order = (uint8_t)order;
    u->size = 0;
    u->prev = SNIC_REPLICA__NIL;
    u->next = v->free[order];
    if (u->next != SNIC_REPLICA__NIL)
        v->unit[u->next].prev = i;
    v->free[order] = i;
}

static void replica_unit_take(struct replica_values *v, uint32_t i)
{
    struct replica_unit *u = &v->unit[i];
    if (u->prev != SNIC_REPLICA__NIL)
        v->unit[u->prev].next = u->next;
    else
        v->free[u->order] = u->next;
    if (u->next != SNIC_REPLICA__NIL)
        v->unit[u->next].prev = u->prev;
    u->state = REPLICA_U_INSIDE;
}

void replica_values_init(struct replica_values *v, void *mem, uint64_t bytes)
{
    memset(v, 0, sizeof(*v));
    v->units = replica_units_of(bytes);
    v->base = mem;
    v->unit = (struct replica_unit *)(void *)(v->base + (size_t)v->units * SNIC_REPLICA__UNIT);
    memset(v->unit, 0, (size_t)v->units * sizeof(*v->unit));
    for (uint32_t o = 0; o < SNIC_REPLICA__ORDERS; o++)
        v->free[o] = SNIC_REPLICA__NIL;
    for (uint32_t i = 0; i < v->units;) {
        uint32_t order = i == 0 ? 30 : (uint32_t)__builtin_ctz(i);
        while (i + (UINT64_C(1) << order) > v->units)
            order--;
        replica_unit_push(v, i, order);
        i += UINT32_C(1) << order;
    }
}

static struct replica_unit *replica_unit_of(const struct replica_values *v, uint64_t h)
{
    SNIC_ASSERT(h != 0 && h <= v->units);
    struct replica_unit *u = &v->unit[h - 1];
    SNIC_ASSERT(replica_unit_is(u, REPLICA_U_USED) && u->refs > 0);
    return u;
}

/* A handle with one reference, the caller's; 0: out of space. */
uint64_t replica_value_new(struct replica_values *v, uint32_t size)
{
    uint64_t units =
        snic_max_u64(1, ((uint64_t)size + SNIC_REPLICA__UNIT - 1) / SNIC_REPLICA__UNIT);
    uint32_t order = (uint32_t)__builtin_ctzll(snic_pow2_up(units));
    uint32_t o = order;
    while (o < SNIC_REPLICA__ORDERS && v->free[o] == SNIC_REPLICA__NIL)
        o++;
    if (o >= SNIC_REPLICA__ORDERS)
        return 0;
    uint32_t i = v->free[o];
    replica_unit_take(v, i);
    while (o > order) {
        o--;
        replica_unit_push(v, i + (UINT32_C(1) << o), o);
    }
    struct replica_unit *u = &v->unit[i];
    u->state = REPLICA_U_USED;
    u->order = (uint8_t)order;
    u->refs = 1;
    u->size = size;
    v->live++;
    v->used_bytes += (uint64_t)SNIC_REPLICA__UNIT << order;
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
    SNIC_ASSERT(v->live > 0 && v->used_bytes >= (uint64_t)SNIC_REPLICA__UNIT << u->order);
    uint32_t i = (uint32_t)(h - 1);
    uint32_t order = u->order;
    SNIC_ASSERT((u->state & REPLICA_U_ENGINE) == 0);
    v->live--;
    v->used_bytes -= (uint64_t)SNIC_REPLICA__UNIT << order;
    u->state = REPLICA_U_INSIDE;
    for (; order + 1 < SNIC_REPLICA__ORDERS; order++) {
        uint32_t buddy = i ^ (UINT32_C(1) << order);
        if (buddy >= v->units || !replica_unit_is(&v->unit[buddy], REPLICA_U_FREE) ||
            v->unit[buddy].order != order)
            break;
        replica_unit_take(v, buddy);
        i &= ~(UINT32_C(1) << order);
    }
    replica_unit_push(v, i, order);
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
    u->state &= (uint8_t)~REPLICA_U_ENGINE;
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

int replica_values_check(const struct replica_values *v)
{
    uint32_t live = 0, frees = 0, listed = 0;
    for (uint32_t i = 0; i < v->units;) {
        const struct replica_unit *u = &v->unit[i];
        uint64_t size = UINT64_C(1) << u->order;
        if (replica_unit_is(u, REPLICA_U_INSIDE) || i % size != 0 || i + size > v->units)
            return SNIC_ECORRUPT; /* V1 */
        int used = replica_unit_is(u, REPLICA_U_USED);
        live += used != 0;
        frees += used == 0;
        if (used && u->refs == 0) /* V2 */
            return SNIC_ECORRUPT;
        i += (uint32_t)size;
    }
    for (uint32_t o = 0; o < SNIC_REPLICA__ORDERS; o++) {
        for (uint32_t i = v->free[o]; i != SNIC_REPLICA__NIL; i = v->unit[i].next) {
            if (!replica_unit_is(&v->unit[i], REPLICA_U_FREE) || v->unit[i].order != o ||
                ++listed > frees)
                return SNIC_ECORRUPT;
        }
    }
    return live == v->live && listed == frees ? 0 : SNIC_ECORRUPT;
}

#undef REPLICA_U_ENGINE
