/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Many requests in flight: each completes once, whatever happens. */
#include "conformance_kv_util.h"

struct swarm {
    struct kvcall call;
    struct snic_kvop_get get;
    struct snic_kvop_change change;
    char value[24];
};

static void swarm_put(struct swarm *s, uint32_t i)
{
    (void)snprintf(s->value, sizeof(s->value), "value %u", i);
    s->change = (struct snic_kvop_change){.key = kv_key(i % 7, "key"),
                                          .kind = SNIC_KVOP_PUT,
                                          .value = s->value,
                                          .size = (uint32_t)strlen(s->value)};
    s->change.key.bytes[3] = (uint8_t)(i >> 8);
    s->change.key.bytes[4] = (uint8_t)i;
    s->change.key.size = 5;
    s->call.op =
        (struct snic_kvop){.kind = SNIC_KVOP_COMMIT, .changes = &s->change, .change_count = 1};
}

/** That many puts of records of their own, not yet submitted; the caller frees. */
static struct swarm *swarm_new(uint32_t count)
{
    struct swarm *all = calloc(count, sizeof(*all));
    assert_non_null(all);
    for (uint32_t i = 0; i < count; i++)
        swarm_put(&all[i], i);
    return all;
}

static void swarm_expect_stored(struct snic_kv *kv, const struct swarm *s)
{
    char out[24];
    assert_int_equal(kv_get_key(kv, &s->change.key, out, 24), strlen(s->value));
    assert_memory_equal(out, s->value, strlen(s->value));
}

/* Beyond the depth a handle takes none, and takes more after completions. */
static void kv_full_handle_takes_no_more(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    uint32_t n = c.kv->depth_max + 8;
    struct swarm *all = swarm_new(n);
    uint32_t taken = 0;
    while (taken < n && kvcall_submit(c.kv, &all[taken].call) == 1)
        taken++;
    assert_int_equal(taken, c.kv->depth_max);
    assert_int_equal(c.kv->stats.queue_high, c.kv->depth_max);
    for (uint32_t i = 0; i < n; i++) {
        if (i >= taken)
            assert_int_equal(kvcall_submit(c.kv, &all[i].call), 1);
        kvcall_wait(c.kv, &all[i].call);
        assert_int_equal(all[i].call.op.result, 0);
    }
    assert_int_equal(c.kv->stats.completed, n);
    for (uint32_t i = 0; i < n; i += 97)
        swarm_expect_stored(c.kv, &all[i]);
    free(all);
    kv_close(&c, b);
}

/* A request that is cancelled completes once: with its result, or without having happened. */
static void kv_cancelled_request_completes_once(void **state)
{
    enum { COUNT = 32 };
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct swarm *all = swarm_new(COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(kvcall_submit(c.kv, &all[i].call), 1);
        if (i % 2 == 0)
            snic_kv_cancel(c.kv, &all[i].call.req);
        assert_int_equal(all[i].call.done, 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        char out[24];
        kvcall_wait(c.kv, &all[i].call);
        int64_t r = all[i].call.op.result;
        assert_true(r == 0 || (i % 2 == 0 && (r == SNIC_ECANCELED || r == SNIC_EUNKNOWN)));
        if (r == SNIC_EUNKNOWN)
            continue;
        int64_t got = kv_get_key(c.kv, &all[i].change.key, out, 24);
        assert_int_equal(got, r == 0 ? (int64_t)strlen(all[i].value) : SNIC_ENOENT);
        snic_kv_cancel(c.kv, &all[i].call.req); /* too late, and harmless */
    }
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(all[i].call.done, 1);
    free(all);
    kv_close(&c, b);
}

/* Closing waits for what is in flight, and all of it has happened. */
static void kv_closed_with_requests_in_flight(void **state)
{
    enum { COUNT = 50 };
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct swarm *all = swarm_new(COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(kvcall_submit(c.kv, &all[i].call), 1);
    }
    snic_kv_close(c.kv);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(all[i].call.done, 1);
        assert_int_equal(all[i].call.op.result, 0);
    }
    c.kv = NULL;
    if (b->again != NULL) {
        assert_int_equal(b->again(&c, &c.kv), 0);
        for (uint32_t i = 0; i < COUNT; i++)
            swarm_expect_stored(c.kv, &all[i]);
    }
    free(all);
    kv_close(&c, b);
}

struct chain {
    struct kvcall call;
    struct snic_kv *kv;
    struct snic_kvop_get get;
    uint32_t left;
};

static void chain_done(struct snic_kv_req *req)
{
    struct chain *s = SNIC_CONTAINER(req, struct chain, call.req);
    s->call.done++;
    if (s->left == 0)
        return;
    s->left--;
    if (snic_kv_submit(s->kv, &req, 1) != 1)
        s->left = UINT32_MAX;
}

/* An engine submits its next request from inside done. */
static void kv_done_submits_again(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    kv_put(c.kv, 1, "a", "x");
    struct chain s = {.kv = c.kv, .left = 100};
    char out[4];
    s.get = (struct snic_kvop_get){.key = kv_key(1, "a"), .value = out, .room = 4};
    s.call.op = (struct snic_kvop){.kind = SNIC_KVOP_GET, .gets = &s.get, .get_count = 1};
    s.call.req.done = chain_done;
    s.call.req.op = &s.call.op;
    struct snic_kv_req *one = &s.call.req;
    assert_int_equal(snic_kv_submit(c.kv, &one, 1), 1);
    while (s.call.done < 101)
        assert_true(snic_loop_once(c.loop, SNIC_NEVER) >= 0);
    assert_int_equal(s.left, 0);
    assert_int_equal(s.call.op.result, 0);
    kv_close(&c, b);
}

/* Of several that append at the place that one record names, one does; its bytes stay. */
static void kv_guarded_appends(struct conformance_kv *c, uint64_t end)
{
    enum { WRITERS = 8, ROUNDS = 10, SIZE = 64, GROUP = 5 };
    struct swarm *all = calloc(WRITERS, sizeof(*all));
    struct snic_kvop_change changes[WRITERS][2];
    unsigned char bytes[WRITERS][SIZE], got[SIZE];
    struct snic_kvop_key k = kv_key(GROUP, "end");
    assert_non_null(all);
    assert_int_equal(kv_put_key(c->kv, &k, &end, 8), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t next = end + SIZE;
        uint32_t wins = 0, winner = 0;
        struct snic_kvop_guard guard = {.key = k, .value = &end, .size = 8};
        for (uint32_t i = 0; i < WRITERS; i++) {
            memset(bytes[i], (int)(round * WRITERS + i + 1), SIZE);
            changes[i][0] = (struct snic_kvop_change){
                .key = k, .kind = SNIC_KVOP_PUT, .value = &next, .size = 8};
            changes[i][1] = (struct snic_kvop_change){.kind = SNIC_KVOP_CHANGE_WRITE,
                                                      .object = GROUP,
                                                      .offset = end,
                                                      .value = bytes[i],
                                                      .size = SIZE};
            all[i].call.op = (struct snic_kvop){.kind = SNIC_KVOP_COMMIT,
                                                .guards = &guard,
                                                .guard_count = 1,
                                                .changes = changes[i],
                                                .change_count = 2};
            assert_int_equal(kvcall_submit(c->kv, &all[i].call), 1);
        }
        for (uint32_t i = 0; i < WRITERS; i++) {
            kvcall_wait(c->kv, &all[i].call);
            assert_true(all[i].call.op.result == 0 || all[i].call.op.result == SNIC_ECANCELED);
            wins += all[i].call.op.result == 0;
            winner = all[i].call.op.result == 0 ? i : winner;
        }
        assert_int_equal(wins, 1);
        assert_int_equal(kv_object(c->kv, SNIC_KVOP_OBJECT_READ, GROUP, end, SIZE, got, NULL),
                         SIZE);
        assert_memory_equal(got, bytes[winner], SIZE);
        end = next;
    }
    free(all);
}

/* From the object's start; and, where that is promised, anywhere. */
static void kv_guarded_appends_lose_nothing(void **state)
{
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    kv_guarded_appends(&c, 0);
    if (kv_has(&c, SNIC_KV_CAP_ATOMIC_OBJECT)) {
        kv_guarded_appends(&c, c.kv->stripe_bytes - 160);
        kv_guarded_appends(&c, 1000ULL * c.kv->stripe_bytes);
    }
    kv_close(&c, b);
}

/* Writers of one record, guarded by what they read: no update is lost. */
static void kv_guarded_counters_lose_nothing(void **state)
{
    enum { WRITERS = 8, ROUNDS = 20 };
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct swarm *all = calloc(WRITERS, sizeof(*all));
    struct snic_kvop_guard guards[WRITERS];
    uint64_t seen[WRITERS], next[WRITERS];
    uint64_t value = 0, wins = 0;
    struct snic_kvop_key k = kv_key(1, "counter");
    assert_int_equal(kv_put_key(c.kv, &k, &value, 8), 0);
    while (wins < ROUNDS * WRITERS / 4) {
        for (uint32_t i = 0; i < WRITERS; i++) {
            assert_int_equal(kv_get_key(c.kv, &k, &seen[i], 8), 8);
            next[i] = seen[i] + 1;
            guards[i] = (struct snic_kvop_guard){.key = k, .value = &seen[i], .size = 8};
            all[i].change = (struct snic_kvop_change){
                .key = k, .kind = SNIC_KVOP_PUT, .value = &next[i], .size = 8};
            all[i].call.op = (struct snic_kvop){.kind = SNIC_KVOP_COMMIT,
                                                .guards = &guards[i],
                                                .guard_count = 1,
                                                .changes = &all[i].change,
                                                .change_count = 1};
        }
        for (uint32_t i = 0; i < WRITERS; i++)
            assert_int_equal(kvcall_submit(c.kv, &all[i].call), 1);
        for (uint32_t i = 0; i < WRITERS; i++) {
            kvcall_wait(c.kv, &all[i].call);
            wins += all[i].call.op.result == 0;
            assert_true(all[i].call.op.result == 0 || all[i].call.op.result == SNIC_ECANCELED);
        }
    }
    assert_int_equal(kv_get_key(c.kv, &k, &value, 8), 8);
    assert_int_equal(value, wins);
    free(all);
    kv_close(&c, b);
}

/* Neighbours of one block, written at the same time: none erases the other; space is counted once.
 */
static void kv_writers_of_one_block_keep_each_other(void **state)
{
    enum { WRITERS = 16, PART = 512 };
    struct conformance_kv c;
    const struct conformance_kv_backend *b = kv_open(&c, state);
    struct swarm *all = calloc(WRITERS, sizeof(*all));
    unsigned char bytes[WRITERS][PART];
    struct snic_iov iov[WRITERS];
    const uint64_t places[] = {0, c.kv->stripe_bytes, 5ULL * c.kv->stripe_bytes - 4096};
    for (size_t p = 0; p < SNIC_COUNTOF(places); p++) {
        int64_t allocated = 0;
        for (uint32_t i = 0; i < WRITERS; i++) {
            memset(bytes[i], (int)(i + 1), PART);
            iov[i] = (struct snic_iov){bytes[i], PART};
            all[i].call.op = (struct snic_kvop){.kind = SNIC_KVOP_OBJECT_WRITE,
                                                .object = 77,
                                                .offset = places[p] + i * PART,
                                                .length = PART,
                                                .iov = &iov[i],
                                                .iov_count = 1};
            assert_int_equal(kvcall_submit(c.kv, &all[i].call), 1);
        }
        for (uint32_t i = 0; i < WRITERS; i++) {
            kvcall_wait(c.kv, &all[i].call);
            assert_int_equal(all[i].call.op.result, PART);
            allocated += all[i].call.op.allocated;
        }
        assert_int_equal(allocated, places[p] % BLOCK == 0 ? BLOCK : 2 * BLOCK);
        unsigned char got[WRITERS * PART];
        assert_int_equal(
            kv_object(c.kv, SNIC_KVOP_OBJECT_READ, 77, places[p], sizeof(got), got, NULL),
            sizeof(got));
        for (uint32_t i = 0; i < WRITERS; i++)
            assert_memory_equal(got + i * PART, bytes[i], PART);
    }
    assert_int_equal(kv_stat(c.kv, 77), 4 * BLOCK);
    free(all);
    kv_close(&c, b);
}

const struct conformance_kv_check conformance_kv_flights[] = {
    {"full_handle_takes_no_more", kv_full_handle_takes_no_more},
    {"guarded_appends_lose_nothing", kv_guarded_appends_lose_nothing},
    {"cancelled_request_completes_once", kv_cancelled_request_completes_once},
    {"closed_with_requests_in_flight", kv_closed_with_requests_in_flight},
    {"done_submits_again", kv_done_submits_again},
    {"guarded_counters_lose_nothing", kv_guarded_counters_lose_nothing},
    {"writers_of_one_block_keep_each_other", kv_writers_of_one_block_keep_each_other},
};
const size_t conformance_kv_flights_count = SNIC_COUNTOF(conformance_kv_flights);
