/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The ring's own sources under the explorer (explore_ring.h): every interleaving of a few
 * threads with store buffers and reordered loads. Each scenario must pass as the code stands, and
 * fail when one of the orderings it rests on is left out: an ordering whose loss nobody notices
 * is either not needed or not tested.
 */
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
#define SNIC_RING__FENCES
#include "ring/ring.c"
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

static void stage_ring(uint32_t kind, uint32_t discipline, uint32_t owners, uint64_t m)
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
    stage.size = sizeof(stage.memory);
    assert_int_equal(snic_ring_init(stage.memory, stage.size, &o), 0);
    assert_int_equal(snic_ring_geometry(stage.memory, stage.size, &stage.info), 0);
    stage.s.memory = stage.memory;
    stage.s.memory_bytes = sizeof(stage.memory);
    stage.looks = 2;
    for (i = 0; i < 3 && kind == SNIC_RING_REQUEST; i++)
        if (owners == 0 || i < owners)
            assert_int_equal(snic_ring_producer_attach(&stage.producer[i], stage.memory, stage.size,
                                                       owners ? i + 1 : 0),
                             0);
    if (kind == SNIC_RING_REQUEST)
        assert_int_equal(
            snic_ring_consumer_attach(&stage.consumer, stage.memory, stage.size, NULL, 0), 0);
}

static void stage_thread(uint64_t (*body)(void *), void *start, size_t bytes)
{
    unsigned i = stage.s.threads++;

    stage.s.body[i] = body;
    stage.s.private_start[i] = start;
    stage.s.private_bytes[i] = bytes;
}

static void stage_producer(unsigned i, uint64_t (*body)(void *))
{
    stage_thread(body, &stage.producer[i], sizeof(stage.producer[i]));
}

static void must_pass(const char *name)
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

static void must_fail(const char *name, struct explore_mutation m)
{
    struct explore_result r = explore_run(&stage.s, &m);

    if (r.failure == NULL)
        fail_msg("%s without the order in %s: nobody notices", name, m.func != NULL ? m.func : "?");
    print_message("%s without %s/%d: %s after %llu states\n", name, m.func, m.kind, r.failure,
                  (unsigned long long)r.states);
}

static struct explore_mutation weak(const char *func, enum explore_kind kind, int nth)
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

/* One record whose payload names its position; 1 when pushed. */
static uint64_t push_body(void *copy)
{
    struct snic_ring_producer *p = copy;
    struct snic_ring_rec rec;

    if (snic_ring_reserve(p, 1, 8, 0, &rec) != 0)
        return 0;
    explore_store(rec.data, PAYLOAD + rec.position, memory_order_relaxed, __func__);
    snic_ring_commit(p);
    return 1;
}

static uint64_t push_two_body(void *copy)
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
static uint64_t take_body(void *copy)
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
            if (explore_late_value(late[i]) != PAYLOAD + rec[i].position)
                explore_fail("payload read is not what the producer wrote");
        taken += (uint64_t)n;
    }
    if (snic_ring_space_notify(c) != 0) /* publishes what was released */
        explore_fail("nobody waits for space");
    return taken;
}

/* What is still in the ring must be the rest, whole. */
static uint64_t drain(void)
{
    struct snic_ring_consumer c;
    struct snic_ring_rec rec[64];
    uint64_t left = 0;
    int n, i;

    if (snic_ring_consumer_attach(&c, stage.memory, stage.size, NULL, 0) != 0)
        explore_fail("attach after the end");
    while ((n = snic_ring_peek(&c, rec, 64)) > 0) {
        for (i = 0; i < n; i++, left++)
            if (snic_get_le64(rec[i].data) != PAYLOAD + rec[i].position)
                explore_fail("left in the ring: not what the producer wrote");
        if (snic_ring_release(&c, rec[n - 1].next) != 0)
            explore_fail("release after the end");
    }
    if (n < 0)
        explore_fail("the ring is broken at the end");
    return left;
}

/* The consumer is the last thread; pushed = taken + left. */
static void all_there(const uint64_t *outcome)
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

static void stage_two_producers(uint32_t discipline, uint64_t (*first)(void *))
{
    stage_ring(SNIC_RING_REQUEST, discipline, 0, 512);
    stage_producer(0, first);
    stage_producer(1, push_body);
    stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
}

static void stage_three_producers(void)
{
    stage_producer(0, push_body);
    stage_producer(1, push_two_body);
    stage_producer(2, push_body);
    stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
}

/* Per-record commit: a record is taken only when all of it is written, and its place is not
 * written again before it was read. */
static void test_ring_explore_commit_two_producers(void **state)
{
    (void)state;
    stage_two_producers(SNIC_RING_COMMIT, push_body);
    must_pass("commit");
    must_fail("commit", weak("ring_publish", EXPLORE_STORE, -1));
    must_fail("commit", weak("ring_take_plain", EXPLORE_LOAD, -1));
    stage_two_producers(SNIC_RING_COMMIT, push_two_body);
    must_pass("commit batch");
    must_fail("commit batch", weak("ring_publish", EXPLORE_STORE, -1));
    stage_ring(SNIC_RING_REQUEST, SNIC_RING_COMMIT, 0, 512);
    stage_three_producers();
    must_pass("commit, three producers");
}

/* The paper's P == T: with P read before T and acquired, equal means no hole. */
static void test_ring_explore_quiescent_two_producers(void **state)
{
    struct explore_mutation swap = weak("ring_look_quiescent", EXPLORE_JOIN, -1);

    (void)state;
    stage_two_producers(SNIC_RING_QUIESCENT, push_body);
    must_pass("quiescent");
    must_fail("quiescent", weak("ring_publish", EXPLORE_ADD, -1));
    must_fail("quiescent", weak("ring_look_quiescent", EXPLORE_LOAD, -1));
    swap.swap_first = (char *)stage.memory + SNIC_RING_OFF_PROGRESS;
    swap.swap_second = (char *)stage.memory + SNIC_RING_OFF_TAIL;
    must_fail("quiescent, T before P", swap);
    stage_ring(SNIC_RING_REQUEST, SNIC_RING_QUIESCENT, 0, 512);
    stage_three_producers();
    must_pass("quiescent, three producers");
}

/* The ring is full; the producer's record goes where the consumer still reads. */
static void test_ring_explore_full_ring_place_is_reused_after_reads(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        unsigned char block[248] = {0};
        struct snic_ring_producer filler;

        stage_ring(SNIC_RING_REQUEST, d, 0, 1024);
        assert_int_equal(snic_ring_producer_attach(&filler, stage.memory, stage.size, 0), 0);
        for (i = 0; i < 4; i++) {
            snic_put_le64(block, PAYLOAD + i * 256);
            assert_int_equal(snic_ring_push(&filler, 1, block, sizeof(block)), 0);
        }
        stage.looks = 1;
        stage_producer(0, push_body);
        stage_producer(1, push_body);
        stage_thread(take_body, &stage.consumer, sizeof(stage.consumer));
        must_pass(d ? "reuse quiescent" : "reuse commit");
        must_fail("reuse", weak("ring_publish_head", EXPLORE_STORE, -1));
    }
}

/* ---- Wake-ups ---- */

static uint64_t push_notify_body(void *copy)
{
    uint64_t pushed = push_body(copy);

    return pushed | (uint64_t)snic_ring_notify(copy) << 8;
}

/* 1 << 16: went to sleep with nothing taken. */
static uint64_t sleeper_body(void *copy)
{
    struct snic_ring_op op;
    uint64_t taken;

    stage.looks = 1;
    taken = take_body(copy);
    if (taken != 0)
        return taken;
    if (snic_ring_sleep_arm(copy, &op) != 0)
        explore_fail("arm");
    taken = take_body(copy);
    return taken != 0 ? taken : (uint64_t)1 << 16;
}

static void nobody_sleeps_on(const uint64_t *outcome)
{
    uint64_t consumer = outcome[stage.s.threads - 1];
    uint64_t bells = 0;
    unsigned i;

    for (i = 0; i + 1 < stage.s.threads; i++)
        bells += outcome[i] >> 8;
    if (consumer >> 16 != 0 && drain() != 0 && bells == 0)
        explore_fail("the consumer sleeps on a record");
    if (bells > 1)
        explore_fail("two bells for one arming");
}

/* The fence on each side of the consumer's doorbell: without it both look away. */
static void test_ring_explore_consumer_sleep_no_lost_wake_up(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct explore_mutation m = weak("ring_load_flag", EXPLORE_FENCE, -1);

        stage_ring(SNIC_RING_REQUEST, d, 0, 512);
        stage_producer(0, push_notify_body);
        stage_producer(1, push_notify_body);
        stage_thread(sleeper_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.final = nobody_sleeps_on;
        must_pass("sleep");
        m.only = 3;
        must_fail("sleep, consumer", m);
        stage_ring(SNIC_RING_REQUEST, d, 0, 512);
        stage_producer(0, push_notify_body);
        stage_thread(sleeper_body, &stage.consumer, sizeof(stage.consumer));
        stage.s.final = nobody_sleeps_on;
        m.only = 1;
        must_fail("sleep, producer", m);
    }
}

/* Full ring: 1 pushed, 1 << 16 asleep. */
static uint64_t waiter_body(void *copy)
{
    uint64_t pushed = push_body(copy);

    if (pushed != 0)
        return pushed;
    snic_ring_wait_arm(copy);
    pushed = push_body(copy);
    return pushed != 0 ? pushed : (uint64_t)1 << 16;
}

static uint64_t take_notify_body(void *copy)
{
    struct snic_ring_consumer *c = copy;
    struct snic_ring_rec rec[4];
    int n = snic_ring_peek(c, rec, 4);

    if (n > 0 && snic_ring_release(c, rec[n - 1].next) != 0)
        explore_fail("release refused");
    return (uint64_t)snic_ring_space_notify(c);
}

static void no_producer_sleeps_on(const uint64_t *outcome)
{
    if ((outcome[0] | outcome[1]) >> 16 != 0 && outcome[2] == 0)
        explore_fail("a producer sleeps although there is space");
}

/* The same for producers that wait for space. */
static void test_ring_explore_producer_wait_no_lost_wake_up(void **state)
{
    struct explore_mutation m = weak("ring_load_flag", EXPLORE_FENCE, -1);
    unsigned char block[248] = {0};
    uint32_t i;

    (void)state;
    stage_ring(SNIC_RING_REQUEST, SNIC_RING_COMMIT, 0, 1024);
    for (i = 0; i < 4; i++)
        assert_int_equal(snic_ring_push(&stage.producer[2], 1, block, sizeof(block)), 0);
    stage_producer(0, waiter_body);
    stage_producer(1, waiter_body);
    stage_thread(take_notify_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = no_producer_sleeps_on;
    must_pass("wait");
    must_fail("wait, stale head", weak("ring_reserve_shape", EXPLORE_LOAD, -1));
    m.only = 3;
    must_fail("wait, consumer", m);
}

/* ---- The consumer over DMA ---- */

/* Words that no thread writes need no step. */
static int interesting(uint64_t offset)
{
    return offset == SNIC_RING_OFF_PROGRESS || offset == SNIC_RING_OFF_TAIL ||
           (offset >= stage.info.commit_offset && offset < stage.info.commit_offset + 4 * 8) ||
           (offset >= stage.info.data_offset && offset < stage.info.data_offset + 4 * 16);
}

/* Reads of a group in any order: relaxed. The completion that a fence waits for, and that the
 * caller of fetch waits for, is an acquire. */
static void carry_out(const struct snic_ring_op *ops, int n)
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

static uint64_t fetch_body(void *copy)
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
            if (snic_get_le64(rec[i].data) != PAYLOAD + rec[i].position)
                explore_fail("an uncommitted byte came over DMA");
        if (n > 0 && snic_ring_release(c, rec[n - 1].next) != 0)
            explore_fail("release refused");
        if (snic_ring_head_op(c, ops) != 0)
            explore_store((char *)stage.memory + ops[0].offset, snic_get_le64(ops[0].local),
                          memory_order_release, __func__);
    }
    return taken;
}

static void stage_remote(uint32_t discipline, uint32_t flags)
{
    stage_ring(SNIC_RING_REQUEST, discipline, 0, 512);
    assert_int_equal(snic_ring_consumer_attach_remote(&stage.consumer, stage.memory, stage.size,
                                                      (char *)stage.memory + SNIC_RING_OFF_HEAD,
                                                      mirror, sizeof(mirror), stage.aux,
                                                      sizeof(stage.aux), flags),
                     0);
    stage_producer(0, push_body);
    stage_producer(1, push_body);
    stage_thread(fetch_body, &stage.consumer, sizeof(stage.consumer));
    stage.s.final = all_there;
}

static void must_fail_stage(const char *name)
{
    struct explore_result r = explore_run(&stage.s, NULL);

    if (r.failure == NULL)
        fail_msg("%s: nobody notices", name);
    print_message("%s: %s\n", name, r.failure);
}

/* DMA that reorders words within a read, and reads among themselves, yields no uncommitted
 * byte; what the header demands of it (P before T) is needed. */
static void test_ring_explore_remote_unordered_dma(void **state)
{
    (void)state;
    stage_remote(SNIC_RING_QUIESCENT, 0);
    must_pass("remote quiescent, two reads");
    must_fail("remote quiescent", weak("ring_publish", EXPLORE_ADD, -1));
    stage.no_fence = 1;
    must_fail_stage("remote quiescent, P and T unordered");
    stage_remote(SNIC_RING_QUIESCENT, SNIC_RING_ORDERED_READ);
    stage.ordered_read = 1;
    must_pass("remote quiescent, one ordered read");
    stage.ordered_read = 0;
    must_fail_stage("remote quiescent, one read that is not ordered");
    stage_remote(SNIC_RING_COMMIT, 0);
    stage.looks = 1;
    must_pass("remote commit");
    must_fail("remote commit", weak("ring_publish", EXPLORE_STORE, -1));
}

/* ---- Responses ---- */

/* Finishes its two reserved records, the younger first; QUIESCENT publishes both at the end. */
static uint64_t respond_body(void *copy)
{
    struct snic_ring_responder *r = copy;
    struct snic_ring_op ops[4];
    struct snic_ring_rec rec[2];
    int i;

    memset(stage.aux, 0, sizeof(stage.aux));
    for (i = 0; i < 2; i++)
        if (snic_ring_resp_reserve(r, 1, 8, 0, &rec[i]) != 0)
            explore_fail("no room");
    for (i = 1; i >= 0; i--) {
        explore_store(rec[i].data, PAYLOAD + rec[i].position, memory_order_relaxed, __func__);
        if (snic_ring_resp_finish(r, rec[i].position, 0) != 0)
            explore_fail("finish refused");
    }
    if (snic_ring_resp_flush(r, ops, 4) != 0)
        explore_fail("flush");
    return 0;
}

/* One try; bit of the position claimed. */
static uint64_t collect_body(void *copy)
{
    struct snic_ring_collector *k = copy;
    struct snic_ring_rec rec;
    uint64_t mask = 0;
    int i, n;

    for (i = 0; i < stage.looks; i++) {
        uint64_t late;

        n = snic_ring_claim(k, &rec);
        if (n < 0)
            explore_fail("the collector calls an honest ring corrupt");
        if (n == 0)
            continue;
        late = explore_late(rec.data);
        mask |= (uint64_t)1 << rec.position / 16;
        if (snic_ring_claim_release(k, &rec) != 0)
            explore_fail("release");
        if (explore_late_value(late) != PAYLOAD + rec.position)
            explore_fail("a response read is not what was written");
    }
    return mask;
}

static void each_once(const uint64_t *outcome)
{
    struct snic_ring_collector k;
    struct snic_ring_rec rec;
    uint64_t mask = outcome[1] | outcome[2];

    if ((outcome[1] & outcome[2]) != 0)
        explore_fail("a response was claimed twice");
    if (snic_ring_collector_attach(&k, stage.memory, stage.size, 0) != 0)
        explore_fail("attach after the end");
    while (snic_ring_claim(&k, &rec) == 1) {
        if ((mask >> rec.position / 16 & 1) != 0 || snic_ring_claim_release(&k, &rec) != 0)
            explore_fail("a claimed response is still there");
        mask |= (uint64_t)1 << rec.position / 16;
    }
    if (mask != 3)
        explore_fail("a response is lost");
    if (snic_get_le64((char *)stage.memory + SNIC_RING_OFF_HEAD) != 32)
        explore_fail("released space was not given back");
}

static void stage_responses(uint32_t discipline)
{
    stage_ring(SNIC_RING_RESPONSE, discipline, 0, 512);
    assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                stage.aux, sizeof(stage.aux)),
                     0);
    assert_int_equal(snic_ring_collector_attach(&stage.collector[0], stage.memory, stage.size, 0),
                     0);
    stage.collector[1] = stage.collector[0];
    stage_thread(respond_body, &stage.responder, sizeof(stage.responder));
    stage_thread(collect_body, &stage.collector[0], sizeof(stage.collector[0]));
    stage_thread(collect_body, &stage.collector[1], sizeof(stage.collector[1]));
    stage.s.final = each_once;
    stage.looks = 1;
}

/* Each response is claimed once, whole, in and out of order, and its space comes back. */
static void test_ring_explore_responses(void **state)
{
    (void)state;
    stage_responses(SNIC_RING_QUIESCENT);
    must_pass("responses in order");
    must_fail("responses in order", weak("ring_rsp_flush_ordered", EXPLORE_STORE, -1));
    must_fail("responses in order", weak("ring_claim_range", EXPLORE_LOAD, -1));
    stage_responses(SNIC_RING_COMMIT);
    must_pass("responses out of order");
    must_fail("responses out of order", weak("ring_rsp_word", EXPLORE_STORE, -1));
    must_fail("responses out of order", weak("second_ring_resp_reserve", EXPLORE_STORE, -1));
}

/* Reserves once more, where the released record was. */
static uint64_t respond_again_body(void *copy)
{
    struct snic_ring_responder *r = copy;
    struct snic_ring_rec rec;
    int e;

    memcpy(stage.aux, stage.aux_start, sizeof(stage.aux));
    e = snic_ring_resp_reserve(r, 1, stage.reuse_data, stage.reuse_body, &rec);
    if (e != 0 && e != SNIC_EAGAIN)
        explore_fail("the responder calls an honest ring corrupt");
    return 0;
}

static uint64_t claim_once_body(void *copy)
{
    struct snic_ring_rec rec;

    if (snic_ring_claim(copy, &rec) < 0)
        explore_fail("the collector calls an honest ring corrupt");
    return 0;
}

/* The holder of a record gives it back. */
static uint64_t give_back_body(void *copy)
{
    struct snic_ring_collector *k = copy;
    struct snic_ring_rec rec;

    memset(&rec, 0, sizeof(rec));
    rec.position = k->scan - 16;
    if (snic_ring_claim_release(k, &rec) != 0)
        explore_fail("release");
    return 0;
}

static void head_is_there(const uint64_t *outcome)
{
    (void)outcome;
    if (snic_get_le64((char *)stage.memory + SNIC_RING_OFF_HEAD) != 32)
        explore_fail("two neighbours were released and the head stands");
}

/* Two collectors release neighbours at once: one of them must see both. */
static void test_ring_explore_neighbours_released_head_moves(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct snic_ring_rec rec;
        struct snic_ring_op ops[4];

        stage_ring(SNIC_RING_RESPONSE, d, 0, 512);
        assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                    stage.aux, sizeof(stage.aux)),
                         0);
        for (i = 0; i < 2; i++) {
            assert_int_equal(snic_ring_resp_reserve(&stage.responder, 1, 8, 0, &rec), 0);
            assert_int_equal(snic_ring_resp_finish(&stage.responder, rec.position, 0), 0);
        }
        assert_int_equal(snic_ring_resp_flush(&stage.responder, ops, 4), 0);
        for (i = 0; i < 2; i++) {
            assert_int_equal(
                snic_ring_collector_attach(&stage.collector[i], stage.memory, stage.size, 0), 0);
            assert_int_equal(snic_ring_claim(&stage.collector[i], &rec), 1);
            stage_thread(give_back_body, &stage.collector[i], sizeof(stage.collector[i]));
        }
        stage.s.final = head_is_there;
        must_pass("neighbours");
        must_fail("neighbours", weak("second_ring_claim_release", EXPLORE_STORE, -1));
        must_fail("neighbours", weak("ring_advance_head", EXPLORE_LOAD, -1));
    }
}

/* A collector on its walk is overtaken by H, and the responder writes where it reads: that is no
 * corruption. */
static void test_ring_explore_walk_overtaken_is_no_corruption(void **state)
{
    uint32_t d, i, body;

    (void)state;
    for (d = 0; d < 2; d++)
        for (body = 0; body < 2; body++) {
            struct snic_ring_rec rec;
            struct snic_ring_op ops[4];

            stage_ring(SNIC_RING_RESPONSE, d, 0, 1024);
            stage.reuse_data = body ? 8 : 248;
            stage.reuse_body = body ? 232 : 0;
            assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                        stage.aux, sizeof(stage.aux)),
                             0);
            for (i = 0; i < 4; i++) {
                assert_int_equal(snic_ring_resp_reserve(&stage.responder, 1, stage.reuse_data,
                                                        stage.reuse_body, &rec),
                                 0);
                assert_int_equal(
                    snic_ring_resp_finish(&stage.responder, rec.position, SNIC_RING_WHOLE_BODY), 0);
            }
            assert_int_equal(snic_ring_resp_flush(&stage.responder, ops, 4), 0);
            memcpy(stage.aux_start, stage.aux, sizeof(stage.aux));
            for (i = 0; i < 2; i++)
                assert_int_equal(
                    snic_ring_collector_attach(&stage.collector[i], stage.memory, stage.size, 0),
                    0);
            assert_int_equal(snic_ring_claim(&stage.collector[0], &rec), 1);
            stage.collector[0].scan = 16; /* give_back_body: the record at 0 */
            stage_thread(give_back_body, &stage.collector[0], sizeof(stage.collector[0]));
            stage_thread(respond_again_body, &stage.responder, sizeof(stage.responder));
            stage_thread(claim_once_body, &stage.collector[1], sizeof(stage.collector[1]));
            must_pass("overtaken");
            must_fail("overtaken", weak("ring_put_word", EXPLORE_STORE, -1));
        }
}

/* Reserves, fills and delivers one response where a released one was. */
static uint64_t respond_next_lap_body(void *copy)
{
    struct snic_ring_responder *r = copy;
    struct snic_ring_op ops[4];
    struct snic_ring_rec rec;
    int e;

    memcpy(stage.aux, stage.aux_start, sizeof(stage.aux));
    e = snic_ring_resp_reserve(r, 1, stage.reuse_data, 0, &rec);
    if (e == 0)
        e = snic_ring_resp_finish(r, rec.position, 0);
    if (e == 0)
        e = snic_ring_resp_flush(r, ops, 4);
    if (e != 0 && e != SNIC_EAGAIN)
        explore_fail("the responder calls an honest ring corrupt");
    return 0;
}

/* Gives the record at 0 back and claims what comes; its position + 1. */
static uint64_t give_back_and_claim_body(void *copy)
{
    struct snic_ring_collector *k = copy;
    struct snic_ring_rec rec;
    int n;

    give_back_body(copy);
    k->scan = 1024; /* the others are this collector's own */
    n = snic_ring_claim(k, &rec);
    if (n < 0)
        explore_fail("the collector calls an honest ring corrupt");
    return n == 1 ? rec.position + 1 : 0;
}

static uint64_t claim_position_body(void *copy)
{
    struct snic_ring_rec rec;
    int n = snic_ring_claim(copy, &rec);

    if (n < 0)
        explore_fail("the collector calls an honest ring corrupt");
    return n == 1 ? rec.position + 1 : 0;
}

static void claimed_by_one(const uint64_t *outcome)
{
    if (outcome[0] != 0 && outcome[0] == outcome[2])
        explore_fail("a response was claimed twice");
    if ((outcome[0] != 0 && outcome[0] != 1025) || (outcome[2] != 0 && outcome[2] != 1025))
        explore_fail("a released response was claimed");
}

/* A collector reads a header and is overtaken by a whole lap before it reads the record's word:
 * another's claim in the next lap is not its own to take. */
static void test_ring_explore_claim_overtaken_by_a_lap(void **state)
{
    uint32_t d, i;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct snic_ring_rec rec;
        struct snic_ring_op ops[4];

        stage_ring(SNIC_RING_RESPONSE, d, 0, 1024);
        stage.reuse_data = 248;
        assert_int_equal(snic_ring_responder_attach(&stage.responder, stage.memory, stage.size,
                                                    stage.aux, sizeof(stage.aux)),
                         0);
        for (i = 0; i < 4; i++) {
            assert_int_equal(snic_ring_resp_reserve(&stage.responder, 1, stage.reuse_data, 0, &rec),
                             0);
            assert_int_equal(snic_ring_resp_finish(&stage.responder, rec.position, 0), 0);
        }
        assert_int_equal(snic_ring_resp_flush(&stage.responder, ops, 4), 0);
        memcpy(stage.aux_start, stage.aux, sizeof(stage.aux));
        for (i = 0; i < 2; i++)
            assert_int_equal(
                snic_ring_collector_attach(&stage.collector[i], stage.memory, stage.size, 0), 0);
        for (i = 0; i < 4; i++)
            assert_int_equal(snic_ring_claim(&stage.collector[0], &rec), 1);
        stage.collector[0].scan = 16; /* give_back_body: the record at 0 */
        stage_thread(give_back_and_claim_body, &stage.collector[0], sizeof(stage.collector[0]));
        stage_thread(respond_next_lap_body, &stage.responder, sizeof(stage.responder));
        stage_thread(claim_position_body, &stage.collector[1], sizeof(stage.collector[1]));
        stage.s.final = claimed_by_one;
        must_pass("overtaken by a lap");
    }
}

/* ---- Repair ---- */

static uint64_t supervise_body(void *copy)
{
    int tries, r = SNIC_EAGAIN;

    (void)copy;
    explore_join_dead(0);
    for (tries = 0; r == SNIC_EAGAIN && tries < 2; tries++)
        r = snic_ring_abandon(stage.memory, stage.size, 1);
    if (r != 0 && r != SNIC_EAGAIN)
        explore_fail("abandon");
    return r == 0;
}

/* With the living done, one more call must repair; then all that was committed is there. */
static void repaired(const uint64_t *outcome)
{
    uint64_t left;

    if (outcome[2] == 0 && snic_ring_abandon(stage.memory, stage.size, 1) != 0)
        explore_fail("not repaired although everyone else is done");
    left = drain();
    if (left < outcome[1] || left > outcome[1] + 1)
        explore_fail("a living producer's record is lost, or padding delivered");
    if (snic_ring_check(stage.memory, stage.size) != 0)
        explore_fail("the ring stalls behind the dead");
}

static uint64_t push_twice_body(void *copy)
{
    uint64_t pushed = push_body(copy);

    return pushed + push_body(copy);
}

/* A death after the last step counts as one. */
static uint64_t dying_body(void *copy)
{
    (void)push_body(copy);
    return EXPLORE_DEAD;
}

/* A producer dies before any step; another is alive. Nothing living is abandoned, and the ring
 * goes on. */
static void test_ring_explore_dead_producer_is_repaired(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        stage_ring(SNIC_RING_REQUEST, d, 2, 512);
        stage_producer(0, dying_body);
        stage_producer(1, push_twice_body);
        stage_thread(supervise_body, &stage.looks, sizeof(stage.looks));
        stage.s.killable = 1;
        stage.s.final = repaired;
        must_pass(d ? "repair quiescent" : "repair commit");
        must_fail("repair", weak("ring_intend", EXPLORE_STORE, -1));
        must_fail("repair", weak("ring_reserve_shape", EXPLORE_CAS, -1));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_explore_commit_two_producers),
        cmocka_unit_test(test_ring_explore_quiescent_two_producers),
        cmocka_unit_test(test_ring_explore_full_ring_place_is_reused_after_reads),
        cmocka_unit_test(test_ring_explore_consumer_sleep_no_lost_wake_up),
        cmocka_unit_test(test_ring_explore_producer_wait_no_lost_wake_up),
        cmocka_unit_test(test_ring_explore_remote_unordered_dma),
        cmocka_unit_test(test_ring_explore_responses),
        cmocka_unit_test(test_ring_explore_neighbours_released_head_moves),
        cmocka_unit_test(test_ring_explore_walk_overtaken_is_no_corruption),
        cmocka_unit_test(test_ring_explore_claim_overtaken_by_a_lap),
        cmocka_unit_test(test_ring_explore_dead_producer_is_repaired),
    };

#if defined(__SANITIZE_THREAD__)
    support_skip_program("the explorer runs in one thread");
#endif
    return SUPPORT_MAIN(argc, argv, tests);
}
