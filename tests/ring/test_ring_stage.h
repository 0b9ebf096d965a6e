/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The stage of the ring's explorations (explore_ring.h): the module's own sources, compiled a
 * second time with each atomic operation a step, a small ring, its handles, and the bodies of its
 * request side.
 */
#ifndef SNIC_TEST_RING_STAGE_H
#define SNIC_TEST_RING_STAGE_H

#include "explore_ring.h"

#include <stdatomic.h>

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_fetch_add_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
#define atomic_load_explicit(at, order) explore_load(at, order, __func__)
#define atomic_store_explicit(at, v, order) explore_store(at, v, order, __func__)
#define atomic_fetch_add_explicit(at, v, order) explore_add(at, v, order, __func__)
#define atomic_compare_exchange_strong_explicit(at, e, v, order, failure)                          \
    explore_cas(at, e, v, order, failure, __func__)
#define atomic_compare_exchange_weak_explicit(at, e, v, order, failure)                            \
    explore_cas(at, e, v, order, failure, __func__)
#define atomic_thread_fence(order) explore_fence(order, __func__)

/* A second copy of the module in this program. */
#define snic_ring_memsize second_ring_memsize
#define snic_ring_init second_ring_init
#define snic_ring_geometry second_ring_geometry
#define snic_ring_producer_attach second_ring_producer_attach
#define snic_ring_producer_detach second_ring_producer_detach
#define snic_ring_reserve second_ring_reserve
#define snic_ring_reserve_n second_ring_reserve_n
#define snic_ring_commit second_ring_commit
#define snic_ring_cancel second_ring_cancel
#define snic_ring_push second_ring_push
#define snic_ring_push_iov second_ring_push_iov
#define snic_ring_push_n second_ring_push_n
#define snic_ring_notify second_ring_notify
#define snic_ring_wait_arm second_ring_wait_arm
#define snic_ring_consumer_attach second_ring_consumer_attach
#define snic_ring_consumer_attach_remote second_ring_consumer_attach_remote
#define snic_ring_fetch second_ring_fetch
#define snic_ring_fetch_reset second_ring_fetch_reset
#define snic_ring_peek second_ring_peek
#define snic_ring_peek_run second_ring_peek_run
#define snic_ring_release second_ring_release
#define snic_ring_finish second_ring_finish
#define snic_ring_head_op second_ring_head_op
#define snic_ring_space_notify second_ring_space_notify
#define snic_ring_sleep_arm second_ring_sleep_arm
#define snic_ring_sleep_disarm second_ring_sleep_disarm
#define snic_ring_backlog second_ring_backlog
#define snic_ring_responder_attach second_ring_responder_attach
#define snic_ring_responder_attach_remote second_ring_responder_attach_remote
#define snic_ring_resp_reserve second_ring_resp_reserve
#define snic_ring_resp_finish second_ring_resp_finish
#define snic_ring_resp_cancel second_ring_resp_cancel
#define snic_ring_resp_ready second_ring_resp_ready
#define snic_ring_resp_tails second_ring_resp_tails
#define snic_ring_resp_flush second_ring_resp_flush
#define snic_ring_resp_sync second_ring_resp_sync
#define snic_ring_resp_synced second_ring_resp_synced
#define snic_ring_resp_notify second_ring_resp_notify
#define snic_ring_resp_wait_arm second_ring_resp_wait_arm
#define snic_ring_collector_attach second_ring_collector_attach
#define snic_ring_collector_detach second_ring_collector_detach
#define snic_ring_claim second_ring_claim
#define snic_ring_claim_release second_ring_claim_release
#define snic_ring_collect second_ring_collect
#define snic_ring_collect_notify second_ring_collect_notify
#define snic_ring_collect_arm second_ring_collect_arm
#define snic_ring_abandon second_ring_abandon
#define snic_ring_check second_ring_check
#define ring_attach second_ring_attach_geo
#define ring_attach_remote second_ring_attach_remote_geo
#define SNIC_RING__FENCES
#include "ring/ring.c"

/* What push copies into the ring is steps, too. */
static inline void stage_copy(void *to, const void *from, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes; i += 8)
        explore_store((char *)to + i, snic_get_le64((const char *)from + i), memory_order_relaxed,
                      __func__);
}
#define memcpy stage_copy
#include "ring/ring_producer.c"
#undef memcpy
#include "ring/ring_consumer.c"
#include "ring/ring_remote.c"
#include "ring/ring_response.c"
#include "ring/ring_collector.c"
#include "ring/ring_repair.c"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- The stage: one ring, its handles, a scenario ---- */

static struct {
    uint64_t memory[1024]; /* first: aligned as the whole */
    struct snic_ring_info info;
    uint64_t aux[512];
    uint64_t aux_start[512];
    uint32_t reuse_data, reuse_body;
    size_t size;
    struct snic_ring_producer producer[3];
    struct snic_ring_consumer consumer;
    struct snic_ring_responder responder;
    struct snic_ring_collector collector[2];
    struct explore_scenario s;
    int looks;
    int sleeps;
    int ordered_read;
    int no_fence;
    int batch;
    unsigned committed; /* for the final checks: bit per producer */
} stage __attribute__((aligned(128)));

static unsigned char mirror[1024] __attribute__((aligned(128)));

static inline void stage_ring_flags(uint32_t kind, uint32_t discipline, uint32_t owners, uint64_t m,
                                    uint32_t flags)
{
    struct snic_ring_opts o;
    uint32_t i;

    memset(&stage, 0, sizeof(stage));
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.kind = kind;
    o.discipline = discipline;
    o.capacity_bytes = 1024;
    o.progress_max = m;
    o.owners_max = owners;
    o.flags = flags;
    stage.size = sizeof(stage.memory);
    assert_int_equal(snic_ring_init(stage.memory, stage.size, &o), 0);
    assert_int_equal(snic_ring_geometry(stage.memory, stage.size, &stage.info), 0);
    stage.s.memory = stage.memory;
    stage.s.memory_bytes = sizeof(stage.memory);
    stage.looks = 2;
    for (i = 0; i < 3 && kind == SNIC_RING_REQUEST; i++)
        if (owners == 0 ? flags == 0 || i == 0 : i < owners)
            assert_int_equal(snic_ring_producer_attach(&stage.producer[i], stage.memory, stage.size,
                                                       stage.info.owners_max ? i + 1 : 0),
                             0);
    if (kind == SNIC_RING_REQUEST)
        assert_int_equal(
            snic_ring_consumer_attach(&stage.consumer, stage.memory, stage.size, NULL, 0), 0);
}

static inline void stage_ring(uint32_t kind, uint32_t discipline, uint32_t owners, uint64_t m)
{
    stage_ring_flags(kind, discipline, owners, m, 0);
}

static inline void stage_thread(uint64_t (*body)(void *), void *start, size_t bytes)
{
    unsigned i = stage.s.threads++;

    stage.s.body[i] = body;
    stage.s.private_start[i] = start;
    stage.s.private_bytes[i] = bytes;
}

static inline void stage_producer(unsigned i, uint64_t (*body)(void *))
{
    stage_thread(body, &stage.producer[i], sizeof(stage.producer[i]));
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

static inline void must_fail(const char *name, struct explore_mutation m)
{
    struct explore_result r = explore_run(&stage.s, &m);

    if (r.failure == NULL)
        fail_msg("%s without the order in %s: nobody notices", name, m.func != NULL ? m.func : "?");
    print_message("%s without %s/%d: %s after %llu states\n", name, m.func, m.kind, r.failure,
                  (unsigned long long)r.states);
}

static inline struct explore_mutation weak(const char *func, enum explore_kind kind, int nth)
{
    struct explore_mutation m;

    memset(&m, 0, sizeof(m));
    m.func = func;
    m.kind = kind;
    m.nth = nth;
    return m;
}

/* ---- Bodies of the request ring ---- */

#define PAYLOAD UINT64_C(0x1000)

/* Records of type 1 name their position, others their type. */
static inline uint64_t expected(const struct snic_ring_rec *rec)
{
    return rec->type == 1 ? PAYLOAD + rec->position : PAYLOAD * rec->type;
}

/* One record in one call. */
static inline uint64_t push_typed(struct snic_ring_producer *p, uint32_t type)
{
    uint64_t value = PAYLOAD * type;
    int r = snic_ring_push(p, type, &value, 8);

    if (r != 0 && r != SNIC_EAGAIN)
        explore_fail("the producer calls an honest ring corrupt");
    return r == 0;
}

static inline uint64_t push_short_body(void *copy)
{
    return push_typed(copy, 2);
}

/* One record whose payload names its position; 1 when pushed. */
static inline uint64_t push_body(void *copy)
{
    struct snic_ring_producer *p = copy;
    struct snic_ring_rec rec;

    if (snic_ring_reserve(p, 1, 8, 0, &rec) != 0)
        return 0;
    explore_store(rec.data, PAYLOAD + rec.position, memory_order_relaxed, __func__);
    snic_ring_commit(p);
    return 1;
}

static inline uint64_t push_two_body(void *copy)
{
    uint32_t sizes[2] = {8, 8};
    struct snic_ring_producer *p = copy;
    struct snic_ring_rec rec[2];
    int i;

    if (snic_ring_reserve_n(p, 1, sizes, 2, rec) != 0)
        return 0;
    for (i = 0; i < 2; i++)
        explore_store(rec[i].data, PAYLOAD + rec[i].position, memory_order_relaxed, __func__);
    snic_ring_commit(p);
    return 2;
}

/* Looks a few times; what it takes must be written. Late loads: until the head is published they
 * may take their value at any time. Returns the number taken. */
static inline uint64_t take_body(void *copy)
{
    struct snic_ring_consumer *c = copy;
    struct snic_ring_rec rec[4];
    uint64_t late[4], taken = 0;
    int look, n, i;

    for (look = 0; look < stage.looks; look++) {
        n = snic_ring_peek(c, rec, 4);
        if (n < 0)
            explore_fail("the consumer calls an honest ring corrupt");
        for (i = 0; i < n; i++)
            late[i] = explore_late(rec[i].data);
        if (n > 0 && snic_ring_release(c, rec[n - 1].next) != 0)
            explore_fail("release refused");
        for (i = 0; i < n; i++)
            if (explore_late_value(late[i]) != expected(&rec[i]))
                explore_fail("payload read is not what the producer wrote");
        taken += (uint64_t)n;
    }
    if (snic_ring_space_notify(c) != 0) /* publishes what was released */
        explore_fail("nobody waits for space");
    return taken;
}

/* What is still in the ring must be the rest, whole. */
static inline uint64_t drain(void)
{
    struct snic_ring_consumer c;
    struct snic_ring_rec rec[64];
    uint64_t left = 0;
    int n, i;

    if (snic_ring_consumer_attach(&c, stage.memory, stage.size, NULL, 0) != 0)
        explore_fail("attach after the end");
    while ((n = snic_ring_peek(&c, rec, 64)) > 0) {
        for (i = 0; i < n; i++, left++)
            if (snic_get_le64(rec[i].data) != expected(&rec[i]))
                explore_fail("left in the ring: not what the producer wrote");
        if (snic_ring_release(&c, rec[n - 1].next) != 0)
            explore_fail("release after the end");
    }
    if (n < 0)
        explore_fail("the ring is broken at the end");
    return left;
}

/* The consumer is the last thread; pushed = taken + left. */
static inline void all_there(const uint64_t *outcome)
{
    uint64_t pushed = 0;
    unsigned i;

    for (i = 0; i + 1 < stage.s.threads; i++)
        pushed += outcome[i];
    if (pushed != outcome[i] + drain())
        explore_fail("a record is lost or doubled");
    if (snic_ring_check(stage.memory, stage.size) != 0)
        explore_fail("check");
}

static inline void stage_two_producers(uint32_t discipline, uint64_t (*first)(void *))
{
    stage_ring(SNIC_RING_REQUEST, discipline, 0, 512);
    stage_producer(0, first);
    stage_producer(1, push_body);
    stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
}

static inline void stage_three_producers(void)
{
    stage_producer(0, push_body);
    stage_producer(1, push_two_body);
    stage_producer(2, push_body);
    stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
}

/* ---- The consumer over DMA ---- */

/* Words that no thread writes need no step. */
static inline int interesting(uint64_t offset)
{
    return offset == SNIC_RING_OFF_PROGRESS || offset == SNIC_RING_OFF_TAIL ||
           (offset >= stage.info.commit_offset && offset < stage.info.commit_offset + 4 * 8) ||
           (offset >= stage.info.data_offset && offset < stage.info.data_offset + 4 * 16);
}

/* Reads of a group in any order: relaxed. The completion that a fence waits for, and that the
 * caller of fetch waits for, is an acquire. */
static inline void carry_out(const struct snic_ring_op *ops, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        uint64_t w;

        if (i > 0 && (ops[i].flags & SNIC_RING_OP_FENCE) != 0 && !stage.no_fence)
            explore_fence(memory_order_acquire, __func__);
        for (w = 0; w < ops[i].bytes; w += 8) {
            uint64_t offset = ops[i].offset + w;
            const char *from = (char *)stage.memory + offset;
            uint64_t value = snic_get_le64(from);

            if (interesting(offset))
                value = explore_load(
                    from, stage.ordered_read ? memory_order_acquire : memory_order_relaxed,
                    __func__);
            snic_put_le64((char *)ops[i].local + w, value);
        }
    }
    explore_fence(memory_order_acquire, __func__);
}

static inline uint64_t fetch_body(void *copy)
{
    struct snic_ring_consumer *c = copy;
    struct snic_ring_op ops[2];
    struct snic_ring_rec rec[4];
    uint64_t taken = 0;
    int look, n, i;

    /* a thread's own memory begins anew whenever the body does */
    memset(mirror, 0, sizeof(mirror));
    memset(stage.aux, 0, sizeof(stage.aux));
    for (look = 0; look < stage.looks; look++) {
        while ((n = snic_ring_fetch(c, ops)) > 0)
            carry_out(ops, n);
        if (n == 0)
            n = snic_ring_peek(c, rec, 4);
        if (n < 0 && n != SNIC_EAGAIN)
            explore_fail("the consumer calls an honest ring corrupt");
        for (i = 0; i < n; i++, taken++)
            if (snic_get_le64(rec[i].data) != expected(&rec[i]))
                explore_fail("an uncommitted byte came over DMA");
        if (n > 0 && snic_ring_release(c, rec[n - 1].next) != 0)
            explore_fail("release refused");
        if (snic_ring_head_op(c, ops) != 0)
            explore_store((char *)stage.memory + ops[0].offset, snic_get_le64(ops[0].local),
                          memory_order_release, __func__);
    }
    return taken;
}

static inline void stage_remote_consumer(uint32_t flags)
{
    assert_int_equal(snic_ring_consumer_attach_remote(&stage.consumer, stage.memory, stage.size,
                                                      (char *)stage.memory + SNIC_RING_OFF_HEAD,
                                                      mirror, sizeof(mirror), stage.aux,
                                                      sizeof(stage.aux), flags),
                     0);
}

static inline void stage_remote(uint32_t discipline, uint32_t flags)
{
    stage_ring(SNIC_RING_REQUEST, discipline, 0, 512);
    stage_remote_consumer(flags);
    stage_producer(0, push_body);
    stage_producer(1, push_body);
    stage_thread(fetch_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
}

#endif /* SNIC_TEST_RING_STAGE_H */
