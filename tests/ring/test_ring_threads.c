/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads: per-producer order, nothing lost or doubled, no lost wake-up, progress under
 * producers that never pause. Where a fetch races with writers by design, payload is relaxed
 * atomic words, so that ThreadSanitizer needs no suppressions.
 */
#include "test_ring_util.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PRODUCERS 4U
#define COLLECTORS 3U

#define THREAD_RECORDS (RING_TEST_SMALL ? 20000U : 60000U)

struct shared {
    struct fixture f;
    uint32_t producers;
    uint64_t records; /* per producer */
    int sleeping;     /* sides sleep instead of spinning */
    int remote;
    _Atomic int stop;
    sem_t consumer_bell;
    sem_t producer_bell[PRODUCERS];
    _Atomic uint32_t bad;
    _Atomic uint64_t pushed;
    uint64_t taken;
    unsigned char *seen; /* responses */
};

static void shared_open(struct shared *s, struct snic_ring_opts o, uint64_t records)
{
    uint32_t i;

    memset(s, 0, sizeof(*s));
    fixture_open(&s->f, o);
    s->records = records;
    sem_init(&s->consumer_bell, 0, 0);
    for (i = 0; i < PRODUCERS; i++)
        sem_init(&s->producer_bell[i], 0, 0);
}

static void shared_close(struct shared *s)
{
    uint32_t i;

    fixture_close(&s->f);
    sem_destroy(&s->consumer_bell);
    for (i = 0; i < PRODUCERS; i++)
        sem_destroy(&s->producer_bell[i]);
}

static void ring_all(struct shared *s)
{
    uint32_t i;

    for (i = 0; i < PRODUCERS; i++)
        sem_post(&s->producer_bell[i]);
}

/* Words of a payload, written and read as relaxed atomics. */
static void words_put(void *at, uint64_t from, uint64_t sequence, uint32_t words)
{
    _Atomic uint64_t *w = at;
    uint32_t i;

    for (i = 0; i < words; i++)
        atomic_store_explicit(&w[i], from << 56 | (sequence + i), memory_order_relaxed);
}

static int words_ok(const void *at, uint64_t from, uint64_t sequence, uint32_t words)
{
    const uint64_t *w = at;
    uint32_t i;

    for (i = 0; i < words; i++)
        if (w[i] != (from << 56 | (sequence + i)))
            return 0;
    return 1;
}

/* ---- Producers ---- */

static int push_once(struct snic_ring_producer *p, uint32_t from, uint64_t sequence, int remote,
                     uint32_t *n)
{
    uint64_t words[3];
    struct snic_ring_rec recs[4];
    uint32_t sizes[4] = {8, 24, 8, 16};
    uint32_t i;
    int r;

    *n = 1;
    if (sequence % 7 < 2 && !remote) { /* a plain copy: DMA reads along */
        words_put(words, from, sequence, 3);
        return snic_ring_push(p, from, words, 8 + (uint32_t)(sequence % 3) * 8);
    }
    if (sequence % 7 == 3) {
        *n = 4;
        r = snic_ring_reserve_n(p, from, sizes, 4, recs);
        if (r != 0)
            return r;
        for (i = 0; i < 4; i++)
            words_put(recs[i].data, from, sequence + i, sizes[i] / 8);
        snic_ring_commit(p);
        return 0;
    }
    r = snic_ring_reserve(p, from, 8 + (uint32_t)(sequence % 5) * 8, sequence % 3 ? 0 : 64, recs);
    if (r != 0)
        return r;
    words_put(recs[0].data, from, sequence, recs[0].data_bytes / 8);
    if (recs[0].body_bytes != 0)
        words_put(recs[0].body, from, sequence, 8);
    snic_ring_commit(p);
    return 0;
}

static void produce(struct shared *s, uint32_t from)
{
    struct snic_ring_backoff wait = {0, 2, 2};
    struct snic_ring_producer p;
    uint64_t sequence = 0;

    if (snic_ring_producer_attach(&p, s->f.mem, s->f.size, s->f.opts.owners_max ? from + 1 : 0)) {
        s->bad++;
        return;
    }
    while (s->bad == 0 && (s->records != 0 ? sequence < s->records : !s->stop)) {
        uint32_t n;
        int r = push_once(&p, from, sequence, s->remote, &n);

        if (r == SNIC_EAGAIN && s->sleeping && snic_ring_backoff_next(&wait) == SNIC_RING_SLEEP) {
            snic_ring_wait_arm(&p);
            r = push_once(&p, from, sequence, s->remote, &n);
            if (r == SNIC_EAGAIN)
                while (sem_wait(&s->producer_bell[from]) != 0)
                    ;
        }
        if (r == 0) {
            wait.misses = 0;
            sequence += n;
            s->pushed += n;
            if (s->sleeping && snic_ring_notify(&p))
                sem_post(&s->consumer_bell);
        } else if (r != SNIC_EAGAIN) {
            s->bad++;
            break;
        } else {
            sched_yield();
        }
    }
    snic_ring_producer_detach(&p);
}

/* ---- Consumers ---- */

/* The DMA of a mapped machine: words, in ascending order, each read once. */
static void carry_out(struct shared *s, const struct snic_ring_op *ops, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        _Atomic uint64_t *shared = (void *)((char *)s->f.mem + ops[i].offset);
        uint64_t *local = ops[i].local;
        uint64_t w;

        /* Complete before the next: acquire on reads, release on writes. */
        for (w = 0; w < ops[i].bytes / 8; w++)
            if (ops[i].kind == SNIC_RING_OP_READ)
                local[w] = atomic_load_explicit(&shared[w], memory_order_acquire);
            else
                atomic_store_explicit(&shared[w], local[w], memory_order_release);
    }
}

static int look(struct shared *s, struct snic_ring_consumer *c, struct snic_ring_rec *recs,
                uint32_t max)
{
    struct snic_ring_op ops[2];
    int n;

    if (s->remote) {
        while ((n = snic_ring_fetch(c, ops)) > 0)
            carry_out(s, ops, n);
        if (n != 0)
            return n == SNIC_EAGAIN ? 0 : n;
    }
    return c->stats.batches % 2 ? peek_by_run(c, recs, max) : snic_ring_peek(c, recs, max);
}

static void consume(struct shared *s, uint64_t want)
{
    struct snic_ring_backoff wait = {0, 2, 2};
    struct snic_ring_consumer c;
    uint64_t next[PRODUCERS] = {0};
    struct snic_ring_rec recs[32];
    struct snic_ring_op op;
    int r, i;

    r = s->remote ? snic_ring_consumer_attach_remote(
                        &c, s->f.mem, s->f.size, (char *)s->f.mem + SNIC_RING_OFF_HEAD, s->f.mirror,
                        (size_t)s->f.info.mirror_bytes, s->f.aux, (size_t)s->f.info.aux_bytes, 0)
                  : snic_ring_consumer_attach(&c, s->f.mem, s->f.size, NULL, 0);
    while (r == 0 && s->taken < want && s->bad == 0) {
        int n = look(s, &c, recs, 32);

        if (n == 0 && s->sleeping && snic_ring_backoff_next(&wait) == SNIC_RING_SLEEP) {
            if (snic_ring_sleep_arm(&c, &op))
                carry_out(s, &op, 1);
            n = look(s, &c, recs, 32);
            if (snic_ring_space_notify(&c))
                ring_all(s);
            if (n == 0)
                while (sem_wait(&s->consumer_bell) != 0)
                    ;
        } else if (n == 0) {
            sched_yield();
        }
        if (n < 0)
            r = n;
        for (i = 0; i < n; i++) {
            uint32_t from = recs[i].type;

            if (from >= PRODUCERS ||
                !words_ok(recs[i].data, from, next[from], recs[i].data_bytes / 8) ||
                (recs[i].body_bytes != 0 && !words_ok(recs[i].body, from, next[from], 8)))
                r = -1;
            else
                next[from]++;
            s->taken++;
        }
        if (n > 0) {
            wait.misses = 0;
            if (snic_ring_release(&c, recs[n - 1].next) != 0)
                r = -2;
            if (snic_ring_head_op(&c, &op))
                carry_out(s, &op, 1);
            if (s->sleeping && !s->remote && snic_ring_space_notify(&c))
                ring_all(s);
        }
    }
    s->bad += r != 0;
    s->stop = 1;
    ring_all(s);
}

static void request_thread(void *ctx, unsigned index)
{
    struct shared *s = ctx;

    if (index < s->producers)
        produce(s, index);
    else
        consume(s, s->records != 0 ? s->records * s->producers : THREAD_RECORDS);
}

static void requests_of(uint32_t discipline, int remote, int sleeping, int endless, uint32_t owners,
                        uint32_t flags)
{
    struct snic_ring_opts o = request_opts(discipline, 4096);
    struct shared *s = malloc(sizeof(*s));
    uint64_t records = (uint64_t)THREAD_RECORDS / 4 * support_scale(1, 50);

    assert_non_null(s);
    o.body_align = 64;
    o.owners_max = owners;
    o.flags = flags;
    /* a multiple of 7 with 4 records from each seventh: ends on a whole batch */
    shared_open(s, o, endless ? 0 : records / 7 * 7);
    s->remote = remote;
    s->sleeping = sleeping;
    s->producers = flags != 0 ? 1 : PRODUCERS;
    support_threads(s->producers + 1, request_thread, s);
    assert_int_equal(s->bad, 0);
    if (!endless) {
        assert_int_equal(s->taken, s->records * s->producers);
        assert_int_equal(snic_ring_check(s->f.mem, s->f.size), 0);
    }
    shared_close(s);
    free(s);
}

static void requests(uint32_t discipline, int remote, int sleeping, int endless, uint32_t owners)
{
    requests_of(discipline, remote, sleeping, endless, owners, 0);
}

/* The orderings of each discipline under real threads: any record lost, doubled, torn or out of
 * its producer's order fails. */
static void test_ring_threads_commit_each_record_once_in_order(void **state)
{
    (void)state;
    requests(SNIC_RING_COMMIT, 0, 0, 0, 0);
    requests(SNIC_RING_COMMIT, 0, 0, 0, PRODUCERS);
}
static void test_ring_threads_quiescent_each_record_once_in_order(void **state)
{
    (void)state;
    requests(SNIC_RING_QUIESCENT, 0, 0, 0, 0);
    requests(SNIC_RING_QUIESCENT, 0, 0, 0, PRODUCERS);
}
static void test_ring_threads_remote_each_record_once_in_order(void **state)
{
    (void)state;
    requests(SNIC_RING_COMMIT, 1, 0, 0, 0);
    requests(SNIC_RING_QUIESCENT, 1, 0, 0, 0);
}

/* One producer, no locked operation: mapped and remote, spinning, sleeping and endless. */
static void test_ring_threads_one_producer_each_record_once_in_order(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        requests_of(d, 0, 0, 0, 1, SNIC_RING_ONE_PRODUCER);
        requests_of(d, 1, 0, 0, 1, SNIC_RING_ONE_PRODUCER);
        requests_of(d, 0, 1, 0, 1, SNIC_RING_ONE_PRODUCER);
        requests_of(d, 0, 0, 1, 1, SNIC_RING_ONE_PRODUCER);
    }
}

/* Both sides sleep whenever they can: a lost wake-up hangs here. */
static void test_ring_threads_sleepers_no_lost_wake_up(void **state)
{
    (void)state;
    requests(SNIC_RING_COMMIT, 0, 1, 0, 0);
    requests(SNIC_RING_QUIESCENT, 0, 1, 0, 0);
}

/* Producers that never pause: P == T is rare, but M makes it come. */
static void test_ring_threads_endless_producers_consumer_progresses(void **state)
{
    (void)state;
    requests(SNIC_RING_QUIESCENT, 0, 0, 1, 0);
    requests(SNIC_RING_QUIESCENT, 1, 0, 1, 0);
    requests(SNIC_RING_COMMIT, 0, 0, 1, 0);
}

/* ---- Responses ---- */

static void respond(struct shared *s)
{
    struct snic_ring_responder r;
    struct snic_ring_op ops[6];
    struct snic_ring_rec open[8];
    uint64_t number = 0;
    uint32_t n = 0;
    int e = s->remote
                ? snic_ring_responder_attach_remote(
                      &r, s->f.mem, s->f.size, (char *)s->f.mem + SNIC_RING_OFF_TAIL, s->f.mirror,
                      (size_t)s->f.info.mirror_bytes, s->f.aux, (size_t)s->f.info.aux_bytes)
                : snic_ring_responder_attach(&r, s->f.mem, s->f.size, s->f.aux,
                                             (size_t)s->f.info.aux_bytes);

    while (e == 0 && s->bad == 0 && (number < s->records || n > 0)) {
        struct snic_ring_rec *rec = &open[n];
        int full = n == 8 || number == s->records;
        int k;

        if (!full) {
            e = snic_ring_resp_reserve(&r, 1, 8 + (uint32_t)(number % 4) * 8, number % 3 ? 0 : 64,
                                       rec);
            if (e == 0) {
                words_put(rec->data, 1, number, rec->data_bytes / 8);
                if (rec->body != NULL)
                    words_put(rec->body, 1, number, 8);
                number++;
                n++;
                continue;
            }
            if (e == SNIC_EAGAIN)
                e = 0;
            full = 1;
        }
        if (n > 0) { /* finish one out of order */
            uint32_t pick = (uint32_t)(number * 7 + n) % n;

            if (snic_ring_resp_finish(&r, open[pick].position, SNIC_RING_WHOLE_BODY) != 0)
                e = -1;
            open[pick] = open[--n];
        } else {
            sched_yield();
        }
        while ((k = snic_ring_resp_flush(&r, ops, 6)) > 0)
            carry_out(s, ops, k);
        if (s->remote) {
            snic_ring_resp_sync(&r, ops);
            carry_out(s, ops, 1);
            if (snic_ring_resp_synced(&r) != 0)
                e = -2;
        }
        if (s->sleeping && snic_ring_resp_notify(&r))
            ring_all(s);
    }
    s->bad += e != 0;
}

static void collect(struct shared *s, uint32_t index)
{
    struct snic_ring_collector k;
    struct snic_ring_rec rec;
    int r = snic_ring_collector_attach(&k, s->f.mem, s->f.size,
                                       s->f.opts.owners_max != 0 ? index + 1 : 0);

    while (r >= 0 && s->pushed < s->records && s->bad == 0) {
        r = snic_ring_claim(&k, &rec);
        if (r == 0 && s->sleeping) {
            snic_ring_collect_arm(&k);
            r = snic_ring_claim(&k, &rec);
            if (r == 0 && s->pushed < s->records)
                while (sem_wait(&s->producer_bell[index]) != 0)
                    ;
        } else if (r == 0) {
            sched_yield();
        }
        if (r == 1) {
            _Atomic uint64_t *w = rec.data;
            uint64_t number = atomic_load_explicit(w, memory_order_relaxed) & (UINT64_MAX >> 8);

            if (number >= s->records || s->seen[number]++ != 0 ||
                !words_ok(rec.data, 1, number, rec.data_bytes / 8) ||
                (rec.body != NULL && !words_ok(rec.body, 1, number, 8)))
                s->bad++;
            if (number % 64 == index)
                sched_yield(); /* hold it for a while */
            r = snic_ring_claim_release(&k, &rec);
            if (++s->pushed == s->records)
                ring_all(s);
        }
    }
    s->bad += r < 0;
    ring_all(s);
    snic_ring_collector_detach(&k);
}

static void response_thread(void *ctx, unsigned index)
{
    if (index < COLLECTORS)
        collect(ctx, index);
    else
        respond(ctx);
}

static void responses(uint32_t discipline, int remote, int sleeping, uint32_t owners)
{
    struct snic_ring_opts o = request_opts(discipline, 4096);
    struct shared *s = malloc(sizeof(*s));

    assert_non_null(s);
    o.kind = SNIC_RING_RESPONSE;
    o.owners_max = owners;
    o.body_align = 64;
    shared_open(s, o, (uint64_t)THREAD_RECORDS / 2 * support_scale(1, 50));
    s->seen = calloc(1, s->records);
    s->remote = remote;
    s->sleeping = sleeping;
    support_threads(COLLECTORS + 1, response_thread, s);
    assert_int_equal(s->bad, 0);
    assert_int_equal(s->pushed, s->records);
    free(s->seen);
    shared_close(s);
    free(s);
}

/* Every response is collected once and whole, in both disciplines, mapped and remote. */
static void test_ring_threads_responses_each_once(void **state)
{
    (void)state;
    responses(SNIC_RING_COMMIT, 0, 0, COLLECTORS);
    responses(SNIC_RING_QUIESCENT, 0, 0, 0);
    responses(SNIC_RING_COMMIT, 1, 0, 0);
    responses(SNIC_RING_QUIESCENT, 1, 0, COLLECTORS);
}

/* Collectors that sleep are woken for every response. */
static void test_ring_threads_sleeping_collectors_no_lost_wake_up(void **state)
{
    (void)state;
    responses(SNIC_RING_COMMIT, 0, 1, 0);
    responses(SNIC_RING_QUIESCENT, 0, 1, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_threads_commit_each_record_once_in_order),
        cmocka_unit_test(test_ring_threads_quiescent_each_record_once_in_order),
        cmocka_unit_test(test_ring_threads_remote_each_record_once_in_order),
        cmocka_unit_test(test_ring_threads_one_producer_each_record_once_in_order),
        cmocka_unit_test(test_ring_threads_sleepers_no_lost_wake_up),
        cmocka_unit_test(test_ring_threads_endless_producers_consumer_progresses),
        cmocka_unit_test(test_ring_threads_responses_each_once),
        cmocka_unit_test(test_ring_threads_sleeping_collectors_no_lost_wake_up),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
