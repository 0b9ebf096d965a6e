/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both sides of a ring wait as the header specifies: pause, yield, sleep, here on the loop, and
 * between processes on eventfds. The ring is small and the work uneven, so that each side
 * sleeps often; a lost wake-up hangs, and the test's time-out shows it.
 */
#include "test_ring_util.h"

#include "snicstore/loop.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRODUCERS 3U

/* How a side sleeps and is woken: on its loop, or on an eventfd. */
struct bell {
    struct snic_loop *loop;
    int fd;
};

static void bell_wait(const struct bell *b)
{
    uint64_t rung;

    if (b->loop != NULL) {
        if (snic_loop_once(b->loop, SNIC_NEVER) < 0)
            abort();
    } else if (read(b->fd, &rung, sizeof(rung)) != (ssize_t)sizeof(rung)) {
        abort();
    }
}

static void bell_ring(const struct bell *b)
{
    uint64_t one = 1;

    if (b->loop != NULL)
        snic_loop_wake(b->loop);
    else if (write(b->fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        abort();
}

struct world {
    void *mem;
    size_t size;
    uint64_t records; /* per producer */
    uint32_t producers;
    struct bell consumer, producer[PRODUCERS];
    _Atomic uint32_t *asleep; /* shared: the consumer slept, or is about to */
    _Atomic uint32_t bad;
};

#define WORLD_BYTES 65536U

static void world_open(struct world *w, void *mem, uint32_t discipline, uint32_t flags)
{
    struct snic_ring_opts o = request_opts(discipline, 1024);

    memset(w, 0, sizeof(*w));
    o.flags = flags;
    w->mem = mem;
    w->size = snic_ring_memsize(&o);
    w->producers = flags != 0 ? 1 : PRODUCERS;
    w->records = (RING_TEST_SMALL ? 2000 : 20000) * support_scale(1, 100);
    assert_int_equal(snic_ring_init(mem, w->size, &o), 0);
    assert_true(w->size <= WORLD_BYTES - sizeof(*w->asleep));
    w->asleep = (void *)((unsigned char *)mem + WORLD_BYTES - sizeof(*w->asleep));
    atomic_store(w->asleep, 0);
}

static void produce(struct world *w, uint32_t index)
{
    struct snic_ring_backoff wait = {0, 4, 2};
    struct snic_ring_producer p;
    struct snic_ring_info info;
    struct snic_rng rng;
    uint64_t value = 0;

    snic_rng_init(&rng, support_seed() + index);
    if (snic_ring_geometry(w->mem, w->size, &info) != 0 ||
        snic_ring_producer_attach(&p, w->mem, w->size, info.owners_max) != 0)
        abort();
    while (atomic_load(w->asleep) == 0) /* so one sleep at least is sure */
        sched_yield();
    while (value < w->records) {
        int r = snic_ring_push(&p, index, &value, 8);

        if (r == SNIC_EAGAIN) {
            int how = snic_ring_backoff_next(&wait);

            if (how == SNIC_RING_YIELD)
                sched_yield();
            if (how == SNIC_RING_SLEEP) {
                snic_ring_wait_arm(&p);
                r = snic_ring_push(&p, index, &value, 8);
                if (r == SNIC_EAGAIN)
                    bell_wait(&w->producer[index]);
            }
        }
        if (r != 0 && r != SNIC_EAGAIN)
            abort();
        if (r != 0)
            continue;
        wait.misses = 0;
        value++;
        if (snic_ring_notify(&p) == 1)
            bell_ring(&w->consumer);
        if (snic_rng_below(&rng, 100) == 0) /* let the other side run dry */
            usleep((useconds_t)snic_rng_below(&rng, 100));
    }
    snic_ring_producer_detach(&p);
}

static void ring_the_producers(struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->producers; i++)
        bell_ring(&w->producer[i]);
}

static void consume(struct world *w)
{
    struct snic_ring_backoff wait = {0, 4, 2};
    struct snic_ring_consumer c;
    struct snic_ring_rec recs[16];
    struct snic_ring_op op;
    uint64_t next[PRODUCERS] = {0}, got = 0;

    if (snic_ring_consumer_attach(&c, w->mem, w->size, NULL, 0) != 0)
        abort();
    while (got < w->records * w->producers && w->bad == 0) {
        int n = snic_ring_peek(&c, recs, 16), i;
        int how = n == 0 ? snic_ring_backoff_next(&wait) : SNIC_RING_LOOK;

        if (how == SNIC_RING_YIELD)
            sched_yield();
        if (how == SNIC_RING_SLEEP) {
            (void)!snic_ring_sleep_arm(&c, &op);
            n = snic_ring_peek(&c, recs, 16);
            if (snic_ring_space_notify(&c) == 1)
                ring_the_producers(w);
            if (n == 0) {
                atomic_store(w->asleep, 1);
                bell_wait(&w->consumer);
            }
        }
        if (n < 0)
            abort();
        for (i = 0; i < n; i++)
            w->bad +=
                recs[i].type >= w->producers || snic_get_le64(recs[i].data) != next[recs[i].type]++;
        if (n > 0 && snic_ring_release(&c, recs[n - 1].next) != 0)
            abort();
        if (n > 0)
            wait.misses = 0;
        got += (uint64_t)n;
    }
}

/* ---- Threads, each with a loop ---- */

static void loop_thread(void *ctx, unsigned index)
{
    struct world *w = ctx;

    if (index < w->producers)
        produce(w, index);
    else
        consume(w);
}

static void test_ring_loops_both_sides_sleep_no_lost_wake_up(void **state)
{
    void *mem = support_guard_alloc(WORLD_BYTES, 4096);
    struct world w;
    uint32_t variant, i;

    (void)state;
    for (variant = 0; variant < 4; variant++) {
        world_open(&w, mem, variant & 1, variant & 2 ? SNIC_RING_ONE_PRODUCER : 0);
        for (i = 0; i <= w.producers; i++) {
            struct bell *b = i < w.producers ? &w.producer[i] : &w.consumer;
            int r = snic_loop_uring_open(&b->loop, NULL);

            if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
                support_skip_program("no io_uring");
            assert_int_equal(r, 0);
        }
        support_threads(w.producers + 1, loop_thread, &w);
        assert_int_equal(w.bad, 0);
        assert_int_equal(snic_ring_check(mem, w.size), 0);
        assert_int_equal(atomic_load(w.asleep), 1);
        for (i = 0; i <= w.producers; i++)
            snic_loop_close(i < w.producers ? w.producer[i].loop : w.consumer.loop);
    }
    support_guard_free(mem);
}

/* ---- Processes, each with an eventfd ---- */

static void test_ring_processes_both_sides_sleep_no_lost_wake_up(void **state)
{
    void *mem = mmap(NULL, WORLD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct world w;
    uint32_t variant, i;

    (void)state;
    assert_true(mem != MAP_FAILED);
    for (variant = 0; variant < 4; variant++) {
        pid_t child[PRODUCERS];
        int status;

        world_open(&w, mem, variant & 1, variant & 2 ? SNIC_RING_ONE_PRODUCER : 0);
        w.consumer.fd = eventfd(0, 0);
        for (i = 0; i < w.producers; i++)
            w.producer[i].fd = eventfd(0, 0);
        for (i = 0; i < w.producers; i++) {
            child[i] = fork();
            if (child[i] == 0) {
                produce(&w, i);
                _exit(0);
            }
        }
        consume(&w);
        for (i = 0; i < w.producers; i++) {
            assert_int_equal(waitpid(child[i], &status, 0), child[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            close(w.producer[i].fd);
        }
        close(w.consumer.fd);
        assert_int_equal(w.bad, 0);
        assert_int_equal(snic_ring_check(mem, w.size), 0);
        assert_int_equal(atomic_load(w.asleep), 1);
    }
    munmap(mem, WORLD_BYTES);
}

/* ---- Threads push, another process takes ---- */

struct apart {
    struct world w;
    _Atomic uint32_t turn; /* relaxed: it orders nothing, as the other process's H alone does */
};

static void apart_turn(struct apart *a, uint32_t turn)
{
    while (atomic_load_explicit(&a->turn, memory_order_relaxed) < turn)
        sched_yield();
}

static void apart_push(void *ctx, unsigned index)
{
    struct apart *a = ctx;
    struct snic_ring_producer p;
    uint64_t value = 0;

    if (snic_ring_producer_attach(&p, a->w.mem, a->w.size, 0) != 0)
        abort();
    apart_turn(a, index);
    while (value < (index == 0 ? 1 : a->w.records)) {
        int r = snic_ring_push(&p, index, &value, 8);

        if (r != 0 && r != SNIC_EAGAIN)
            abort();
        if (r == 0)
            value++;
        else
            sched_yield();
    }
    atomic_store_explicit(&a->turn, index + 1, memory_order_relaxed);
    apart_turn(a, 2);
    snic_ring_producer_detach(&p);
}

static void apart_take(const struct world *w, uint64_t records)
{
    struct snic_ring_consumer c;
    struct snic_ring_rec recs[16];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not for ever when the producers fail */
    if (snic_ring_consumer_attach(&c, w->mem, w->size, NULL, 0) != 0)
        _exit(1);
    while (records > 0) {
        int n = snic_ring_peek(&c, recs, 16);

        if (n < 0 || (n > 0 && snic_ring_release(&c, recs[n - 1].next) != 0))
            _exit(2);
        records -= (uint64_t)n;
        if (n == 0)
            sched_yield();
    }
    _exit(0);
}

/* A thread pushes a record and then nothing more; another one uses the same space laps later. That
 * there is an order ThreadSanitizer cannot see: the consumer that makes it is another process. */
static void test_ring_process_takes_what_threads_push(void **state)
{
    void *mem = mmap(NULL, WORLD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t discipline;

    (void)state;
    assert_true(mem != MAP_FAILED);
    for (discipline = 0; discipline < 2; discipline++) {
        struct apart a = {.turn = 0};
        int status;

        world_open(&a.w, mem, discipline, 0);
        a.w.records = 2000;
        pid_t child = fork();
        if (child == 0)
            apart_take(&a.w, 1 + a.w.records);
        support_threads(2, apart_push, &a);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(snic_ring_check(mem, a.w.size), 0);
    }
    munmap(mem, WORLD_BYTES);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_processes_both_sides_sleep_no_lost_wake_up),
        cmocka_unit_test(test_ring_process_takes_what_threads_push),
        cmocka_unit_test(test_ring_loops_both_sides_sleep_no_lost_wake_up),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
