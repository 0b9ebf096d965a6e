/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The stage of the cache's explorations (explore_ring.h): the host's sources compiled a second time
 * with each atomic operation a step, a region of two pages in one bucket, and a store of two words
 * per page. The control plane is the engine itself; its DMA is carried out word by word.
 */
#ifndef SNIC_TEST_HCACHE_STAGE_H
#define SNIC_TEST_HCACHE_STAGE_H

#include "ring/explore_ring.h"

#include <stdatomic.h>

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_fetch_add_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
/* 1: every access is seq_cst, so that scopes with many threads are of interleavings only. */
static int stage_sc;
#define STAGE_ORDER(order) (stage_sc ? memory_order_seq_cst : (order))
#define atomic_load_explicit(at, order) explore_load(at, STAGE_ORDER(order), __func__)
#define atomic_store_explicit(at, v, order) explore_store(at, v, STAGE_ORDER(order), __func__)
#define atomic_fetch_add_explicit(at, v, order) explore_add(at, v, STAGE_ORDER(order), __func__)
#define atomic_compare_exchange_strong_explicit(at, e, v, order, failure)                          \
    explore_cas(at, e, v, STAGE_ORDER(order), STAGE_ORDER(failure), __func__)
#define atomic_compare_exchange_weak_explicit(at, e, v, order, failure)                            \
    explore_cas(at, e, v, STAGE_ORDER(order), STAGE_ORDER(failure), __func__)

/* A second copy of the host's side in this program. */
#define hcache_attach second_hcache_attach_
#define hcache_geo_from second_hcache_geo_from
#define hcache_mended second_hcache_mended
#define hcache_guard_mended second_hcache_guard_mended
#define snic_hcache_memsize second_hcache_memsize
#define snic_hcache_init second_hcache_init
#define snic_hcache_opts_wrong second_hcache_opts_wrong
#define snic_hcache_geometry second_hcache_geometry
#define snic_hcache_place second_hcache_place
#define snic_hcache_host_attach second_hcache_host_attach
#define snic_hcache_get second_hcache_get
#define snic_hcache_put second_hcache_put
#define snic_hcache_lock second_hcache_lock
#define snic_hcache_unlock second_hcache_unlock
#define snic_hcache_dirty second_hcache_dirty
#define snic_hcache_drop second_hcache_drop
#define snic_hcache_wait_arm second_hcache_wait_arm
#define snic_hcache_recover second_hcache_recover
#define snic_hcache_check second_hcache_check
#include "hcache/check.c"
#include "hcache/host.c"
#include "hcache/layout.c"
#include "hcache/recover.c"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_REGION 6144u
enum { STAGE_PAGES = 4, STAGE_WORDS = 2 };

static struct {
    _Alignas(4096) unsigned char memory[STAGE_REGION + STAGE_PAGES * STAGE_WORDS * 8 + 64];
    size_t size;
    struct snic_hcache_info info;
    struct snic_hcache_host host[3];
    struct explore_scenario s;
    int no_map;      /* nor at the map */
    int no_interest; /* keys and tags stand still: reading them is no step */
    int fetches;
} stage;

/* The store: STAGE_WORDS words for each page of inode 1. */
static inline uint64_t *stage_store(uint64_t lpn)
{
    return (uint64_t *)(void *)(stage.memory + STAGE_REGION) + lpn * STAGE_WORDS;
}

/* Where a host thread requests an fsync of the DPU. */
static inline uint64_t *stage_request(void)
{
    return stage_store(STAGE_PAGES);
}

/* Two pages: two entries of one bucket, or two buckets of one, with pages 0 and 2 in the first. */
static inline void stage_region(uint32_t ways)
{
    struct snic_hcache_opts o = {sizeof(o), 512, ways, SNIC_HCACHE_MODE_WRITE, 2, 0};
    uint32_t print;
    unsigned i;

    memset(&stage, 0, sizeof(stage));
    while (snic_hcache_place(o.seed, 2 / ways, 1, 0, &print) != 0 ||
           snic_hcache_place(o.seed, 2 / ways, 1, 2, &print) != 0)
        o.seed++;
    stage.size = snic_hcache_memsize(&o);
    assert_true(stage.size != 0 && stage.size <= STAGE_REGION);
    assert_int_equal(snic_hcache_init(stage.memory, stage.size, &o), 0);
    assert_int_equal(snic_hcache_geometry(stage.memory, stage.size, &stage.info), 0);
    stage.s.memory = stage.memory;
    stage.s.memory_bytes = sizeof(stage.memory);
    for (i = 0; i < 3; i++)
        assert_int_equal(
            snic_hcache_host_attach(&stage.host[i], stage.memory, stage.size, i + 1, 1), 0);
}

static inline void stage_thread(uint64_t (*body)(void *), unsigned host)
{
    unsigned i = stage.s.threads++;

    stage.s.body[i] = body;
    stage.s.private_start[i] = &stage.host[host % 3];
    stage.s.private_bytes[i] = sizeof(stage.host[0]);
}

static inline void must_pass(const char *name)
{
    struct explore_result r = explore_run(&stage.s, NULL);

    print_message("%s: %llu states, %llu ends\n", name, (unsigned long long)r.states,
                  (unsigned long long)r.ends);
    if (r.failure != NULL) {
        explore_print_trace();
        fail_msg("%s: %s", name, r.failure);
    }
    assert_true(r.ends > 1);
}

static inline void must_fail(const char *name, const char *func, enum explore_kind kind, int nth)
{
    struct explore_mutation m;
    struct explore_result r;

    memset(&m, 0, sizeof(m));
    m.func = func;
    m.kind = kind;
    m.nth = nth;
    r = explore_run(&stage.s, &m);
    if (r.failure == NULL)
        fail_msg("%s without the order in %s: not detected", name, func);
    print_message("%s without %s/%d: %s after %llu states\n", name, func, (int)kind, r.failure,
                  (unsigned long long)r.states);
}

/* ---- Pages: both words are the version ---- */

static inline void stage_write(const struct snic_hcache_page *page, uint64_t version)
{
    unsigned i;

    for (i = 0; i < STAGE_WORDS; i++)
        explore_store((uint64_t *)page->data + i, version, STAGE_ORDER(memory_order_relaxed),
                      __func__);
}

/* Reads both words as late as the lock allows, then gives the lock back. */
static inline uint64_t stage_read_and_put(struct snic_hcache_host *h, struct snic_hcache_page *page)
{
    uint64_t late[STAGE_WORDS] = {0}, v[STAGE_WORDS] = {0};
    unsigned i;

    for (i = 0; i < STAGE_WORDS && stage_sc; i++)
        v[i] = explore_load((uint64_t *)page->data + i, memory_order_seq_cst, __func__);
    for (i = 0; i < STAGE_WORDS && !stage_sc; i++)
        late[i] = explore_late((uint64_t *)page->data + i);
    if (snic_hcache_put(h, page) != 0)
        explore_fail("put refused");
    for (i = 0; i < STAGE_WORDS && !stage_sc; i++)
        v[i] = explore_late_value(late[i]);
    if (v[0] != v[1])
        explore_fail("a reader saw a torn page");
    return v[0];
}

/* Set-up, outside the exploration: page @p lpn of inode 1 has @p version, dirty or clean. */
static inline void stage_put_page(uint64_t lpn, uint64_t version, int dirty)
{
    struct snic_hcache_page page;
    unsigned i;

    assert_int_equal(snic_hcache_lock(&stage.host[0], 1, lpn, 0, &page), 0);
    for (i = 0; i < STAGE_WORDS; i++) {
        ((uint64_t *)page.data)[i] = version;
        if (!dirty)
            stage_store(lpn)[i] = version;
    }
    assert_int_equal(
        snic_hcache_unlock(&stage.host[0], &page,
                           dirty ? SNIC_HCACHE_UNLOCK_DIRTY : SNIC_HCACHE_UNLOCK_FILLED),
        0);
}

/* Entry @p way becomes a victim. */
static inline void stage_victim(uint32_t way)
{
    unsigned char *e = stage.memory + stage.info.meta_offset + SNIC_HCACHE_HEAD_BYTES +
                       way * SNIC_HCACHE_ENTRY_BYTES;

    snic_put_le64(e, snic_get_le64(e) | SNIC_HCACHE__VICTIM);
}

/* ---- The DPU ---- */

static struct {
    _Alignas(128) unsigned char memory[32768];
    struct snic_hcache_control *c;
    uint64_t now;
    int exploring; /* 0: on the final memory */
    uint64_t synced;
    int syncs;
} dpu;

static inline int stage_interesting(uint64_t offset)
{
    uint64_t in_bucket = offset - stage.info.meta_offset;

    if (offset == SNIC_HCACHE_OFF_MAP)
        return !stage.no_map;
    if (offset >= stage.info.data_offset)
        return (offset - stage.info.data_offset) % 512 < STAGE_WORDS * 8;
    if (offset < stage.info.meta_offset || in_bucket >= 128)
        return 0;
    if (in_bucket == SNIC_HCACHE__GUARD || in_bucket == 64 || in_bucket == 96)
        return 1;
    return !stage.no_interest &&
           (in_bucket == SNIC_HCACHE__TAGS || (in_bucket >= 64 && in_bucket % 32 >= 16));
}

static inline void dpu_op(struct snic_hcache_op *op, int first)
{
    unsigned char *there = stage.memory + op->offset;
    uint64_t w;

    if (!first && !stage_sc && (op->flags & SNIC_HCACHE_OP_FENCE) != 0)
        explore_fence(memory_order_seq_cst, __func__);
    if (op->offset == SNIC_HCACHE_OFF_FREE || (op->offset == SNIC_HCACHE_OFF_MAP && stage.no_map)) {
        op->value = 0; /* a count not relied on, a map not looked at */
    } else if (op->kind == SNIC_HCACHE_OP_ADD) {
        op->value = explore_add((uint64_t *)(void *)there, op->operand,
                                STAGE_ORDER(memory_order_acq_rel), __func__);
    } else if (op->kind == SNIC_HCACHE_OP_CAS) {
        op->value = op->compare;
        (void)explore_cas((uint64_t *)(void *)there, &op->value, op->operand,
                          STAGE_ORDER(memory_order_acq_rel), STAGE_ORDER(memory_order_acquire),
                          __func__);
    } else {
        for (w = 0; w < op->bytes; w += 8) {
            unsigned char *local = (unsigned char *)op->local + w;

            if (!stage_interesting(op->offset + w)) {
                if (op->kind == SNIC_HCACHE_OP_READ)
                    memcpy(local, there + w, 8);
            } else if (op->kind == SNIC_HCACHE_OP_READ) {
                snic_put_le64(local, explore_load((uint64_t *)(void *)(there + w),
                                                  STAGE_ORDER(memory_order_relaxed), __func__));
            } else {
                explore_store((uint64_t *)(void *)(there + w), snic_get_le64(local),
                              STAGE_ORDER(memory_order_relaxed), __func__);
            }
        }
    }
}

static inline void dpu_store(const struct snic_hcache_action *a)
{
    uint64_t w;

    for (w = 0; w < STAGE_WORDS; w++)
        explore_store(stage_store(a->lpn) + w, snic_get_le64((unsigned char *)a->data + w * 8),
                      memory_order_seq_cst, __func__);
    if (snic_get_le64(a->data) != snic_get_le64((unsigned char *)a->data + 8))
        explore_fail("a torn page was flushed");
}

static inline int dpu_act(const struct snic_hcache_action *a)
{
    static const uint32_t event[] = {0, SNIC_HCACHE_EV_DMA, SNIC_HCACHE_EV_FLUSHED,
                                     SNIC_HCACHE_EV_FETCHED};
    struct snic_hcache_event ev;
    uint32_t i;

    if (a->kind == SNIC_HCACHE_ACT_SYNC) {
        dpu.syncs++;
        dpu.synced = explore_load(stage_store(0), memory_order_seq_cst, __func__);
    }
    if (a->kind > SNIC_HCACHE_ACT_FETCH)
        return 0;
    for (i = 0; a->kind == SNIC_HCACHE_ACT_DMA && i < a->count; i++)
        dpu_op(&a->ops[i], i == 0);
    if (a->kind == SNIC_HCACHE_ACT_DMA && !stage_sc)
        explore_fence(memory_order_seq_cst, __func__);
    if (a->kind == SNIC_HCACHE_ACT_FLUSH)
        dpu_store(a);
    memset(&ev, 0, sizeof(ev));
    ev.kind = event[a->kind];
    ev.id = a->id;
    if (a->kind == SNIC_HCACHE_ACT_FETCH) {
        stage.fetches++;
        for (i = 0; i < STAGE_WORDS; i++)
            snic_put_le64((unsigned char *)a->data + i * 8,
                          explore_load(stage_store(a->lpn) + i, memory_order_seq_cst, __func__));
        ev.bytes = a->bytes;
    }
    if (snic_hcache_control_step(dpu.c, &ev, dpu.now) != 0)
        explore_fail("the engine refused a completion");
    return 1;
}

/* Work until nothing is under way; or, if @p flushes is not 0, until the visit that follows so many
 * flushes: then the engine holds nothing. */
static inline void dpu_run(uint64_t flushes)
{
    struct snic_hcache_control_stats s;
    struct snic_hcache_action a;

    while (snic_hcache_control_poll(dpu.c, &a, 1) != 0) {
        snic_hcache_control_get_stats(dpu.c, &s);
        if (flushes != 0 && s.flushes >= flushes && a.kind == SNIC_HCACHE_ACT_DMA &&
            a.ops[0].kind == SNIC_HCACHE_OP_READ)
            return;
        (void)dpu_act(&a);
    }
    if (snic_hcache_control_check(dpu.c) != 0)
        explore_fail("the engine's own check");
}

static inline void dpu_open(uint32_t prefetch, uint64_t flush_ns)
{
    struct snic_hcache_control_opts o = {.opts_size = sizeof(o),
                                         .jobs = 2,
                                         .reserve = 1,
                                         .prefetch_max = prefetch,
                                         .look_ns = 1000000,
                                         .flush_ns = flush_ns,
                                         .retry_ns = 1000000};
    size_t need = snic_hcache_control_memsize(&stage.info, &o);

    if (need == 0 || need > sizeof(dpu.memory))
        explore_fail("engine memory");
    dpu.now = 1000000;
    dpu.syncs = 0;
    if (snic_hcache_control_init(&dpu.c, dpu.memory, need, &stage.info, &o, dpu.now) != 0)
        explore_fail("engine");
}

static inline void dpu_event(uint32_t kind, uint64_t lpn)
{
    struct snic_hcache_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.kind = kind;
    ev.id = 9;
    ev.ino = 1;
    ev.lpn = lpn;
    ev.count = 1;
    if (snic_hcache_control_step(dpu.c, &ev, dpu.now) != 0)
        explore_fail("the engine refused an event");
}

/* At the end, with no other thread: flush all, then the contents must be right. */
static inline void dpu_drain(void)
{
    struct snic_hcache_counts c;
    unsigned rounds;

    if (snic_hcache_check(stage.memory, stage.size, NULL) != 0)
        explore_fail("check at the end");
    dpu_open(SNIC_HCACHE_NO_PREFETCH, 1);
    for (rounds = 0; rounds < 20; rounds++) {
        dpu_event(SNIC_HCACHE_EV_NONE, 0);
        dpu_run(0);
        dpu.now += 100000000;
    }
    if (!snic_hcache_control_idle(dpu.c))
        explore_fail("the engine does not come to rest");
    if (snic_hcache_check(stage.memory, stage.size, &c) != 0)
        explore_fail("check after the drain");
    if (c.dirty + c.invalid + c.write_locked + c.read_locked + c.flights + c.guards != 0)
        explore_fail("something stays locked or dirty");
}

#endif /* SNIC_TEST_HCACHE_STAGE_H */
