/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Waking a loop on io_uring: from threads, from a caller's own poll(), from signal handlers.
 * Every test runs with the ring's flags as they are and with each of them masked away.
 */
#include "test_loop_util.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>

/* ---- Messages from threads ---- */

#define POSTERS 4

struct numbered {
    struct snic_loop_msg msg;
    struct crowd *crowd;
    unsigned poster;
    uint64_t number;
    uint64_t payload;
};

struct crowd {
    struct snic_loop *loop;
    uint64_t each;
    uint64_t next[POSTERS];
    uint64_t seen;
    int wrong;
    struct numbered *messages;
};

static void numbered_run(struct snic_loop_msg *msg)
{
    struct numbered *m = SNIC_CONTAINER(msg, struct numbered, msg);
    struct crowd *c = m->crowd;
    if (m->number != c->next[m->poster]++ || m->payload != (m->number ^ 0x5aa5u))
        c->wrong = 1;
    if (++c->seen == c->each * POSTERS)
        snic_loop_stop(c->loop);
}

static void crowd_member(void *ctx, unsigned index)
{
    struct crowd *c = ctx;
    if (index == POSTERS) { /* the owner */
        if (snic_loop_run(c->loop) != 0)
            c->wrong = 1;
        return;
    }
    for (uint64_t i = 0; i < c->each; i++) {
        struct numbered *m = &c->messages[index * c->each + i];
        m->msg.fn = numbered_run;
        m->crowd = c;
        m->poster = index;
        m->number = i;
        m->payload = i ^ 0x5aa5u; /* must be visible to the owner: TSan watches */
        snic_loop_post(c->loop, &m->msg);
    }
}

/* Threads lose each other's messages, or see them out of order, if the list is wrong. */
static void test_loop_running_threads_post_each_once_in_order(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        struct crowd c = {.loop = l, .each = support_scale(4000, 200000)};
        c.messages = calloc(c.each * POSTERS, sizeof(*c.messages));
        assert_non_null(c.messages);
        support_threads(POSTERS + 1, crowd_member, &c);
        assert_int_equal(c.wrong, 0);
        assert_int_equal(c.seen, c.each * POSTERS);
        free(c.messages);
    }
}

struct pingpong {
    struct snic_loop_msg msg;
    struct snic_loop *loop;
    sem_t back;
    uint64_t rounds;
    uint64_t done;
    int by_wake;
    int external;
    atomic_int flag;
};

static void pong(struct snic_loop_msg *msg)
{
    struct pingpong *p = SNIC_CONTAINER(msg, struct pingpong, msg);
    p->done++;
    sem_post(&p->back);
}

static void ping_member(void *ctx, unsigned index)
{
    struct pingpong *p = ctx;
    if (index == 1) {
        struct snic_rng rng;
        snic_rng_init(&rng, support_seed());
        for (uint64_t i = 0; i < p->rounds; i++) {
            /* Hit every stage of the way to sleep. */
            for (uint64_t n = snic_rng_below(&rng, 2000); n > 0; n--)
                atomic_signal_fence(memory_order_seq_cst);
            if (p->by_wake) {
                atomic_store_explicit(&p->flag, 1, memory_order_relaxed);
                snic_loop_wake(p->loop);
            } else {
                snic_loop_post(p->loop, &p->msg);
            }
            while (sem_wait(&p->back) != 0)
                ;
        }
        return;
    }
    struct pollfd fd = {.events = POLLIN};
    if (p->external)
        fd.fd = snic_loop_fd(p->loop);
    while (p->done < p->rounds) {
        if (p->external) {
            while (snic_loop_once(p->loop, 0) > 0)
                ;
            if (p->done < p->rounds && snic_loop_deadline(p->loop) == SNIC_NEVER)
                (void)poll(&fd, 1, -1);
        } else {
            (void)snic_loop_once(p->loop, SNIC_NEVER);
        }
        if (p->by_wake && atomic_exchange_explicit(&p->flag, 0, memory_order_relaxed) != 0) {
            p->done++;
            sem_post(&p->back);
        }
    }
}

static void pingpong_run(uint32_t mask, uint32_t spin_us, int by_wake, int external)
{
    struct pingpong p = {.msg = {.fn = pong}, .by_wake = by_wake, .external = external};
    p.loop = open_loop(mask, spin_us);
    p.rounds = support_scale(2000, 200000);
    sem_init(&p.back, 0, 0);
    support_threads(2, ping_member, &p);
    assert_int_equal(p.done, p.rounds);
    sem_destroy(&p.back);
    snic_loop_close(p.loop);
}

/* A wake-up lost on the way to sleep hangs this test. */
static void test_loop_falling_asleep_post_wakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(masks); i++)
        pingpong_run(masks[i], 0, 0, 0);
    pingpong_run(0, 20, 0, 0);
}

/* The same for a bare wake-up, which must not get lost behind an earlier one. */
static void test_loop_falling_asleep_wake_goes_round(void **state)
{
    (void)state;
    pingpong_run(0, 0, 1, 0);
    pingpong_run(masks[4], 0, 1, 0);
}

/* And for a caller who sleeps in poll() on the loop's descriptor. */
static void test_loop_external_sleeper_post_makes_fd_readable(void **state)
{
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(masks); i++)
        pingpong_run(masks[i], 0, 0, 1);
}

static struct snic_loop *signal_loop;
static struct letter signal_letter;
static volatile sig_atomic_t signal_posted;

static void on_alarm(int sig)
{
    (void)sig;
    if (!signal_posted) {
        signal_posted = 1;
        snic_loop_post(signal_loop, &signal_letter.msg);
    }
}

/* After all is done the descriptor must be quiet, or the caller's loop spins. */
static void test_loop_external_sleeper_idle_fd_quiet(void **state)
{
    struct snic_loop *l;
    (void)state;
    FOR_EACH_MASK(l)
    {
        struct letter a = letter(l, 'a', 2);
        struct pollfd fd = {.fd = snic_loop_fd(l), .events = POLLIN};
        int quiet = 0;
        assert_int_equal(snic_loop_fd(l), fd.fd);
        trace_reset();
        snic_loop_post(l, &a.msg);
        assert_int_equal(poll(&fd, 1, -1), 1);
        for (int i = 0; i < 1000 && !quiet; i++) { /* a late signal or two may trickle in */
            while (snic_loop_once(l, 0) > 0)
                ;
            quiet = poll(&fd, 1, 1) == 0;
        }
        assert_int_equal(quiet, 1);
        assert_string_equal(trace, "aaa");
        snic_loop_wake(l);
        assert_int_equal(poll(&fd, 1, -1), 1);
    }
}

static volatile sig_atomic_t signal_count;

static void on_bare_alarm(int sig)
{
    (void)sig;
    signal_count = signal_count + 1;
}

/* A signal that means nothing to the loop must not look like a broken kernel. */
static void test_loop_sleeping_interrupted_goes_on(void **state)
{
    struct snic_loop *l;
    struct sigaction sa = {.sa_handler = on_bare_alarm}, old;
    (void)state;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGALRM, &sa, &old);
    FOR_EACH_MASK(l)
    {
        struct itimerval it = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
        struct itimerval off = {.it_value = {.tv_usec = 0}};
        signal_count = 0;
        setitimer(ITIMER_REAL, &it, NULL);
        while (signal_count < 5)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        setitimer(ITIMER_REAL, &off, NULL);
        assert_int_equal(stats_of(l).os_error, 0);
    }
    sigaction(SIGALRM, &old, NULL);
}

/* Posting from a signal handler is how a server learns of SIGTERM. */
static void test_loop_sleeping_signal_handler_posts_wakes(void **state)
{
    struct snic_loop *l;
    struct sigaction sa = {.sa_handler = on_alarm}, old;
    (void)state;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGALRM, &sa, &old);
    FOR_EACH_MASK(l)
    {
        /* Again and again: a sanitizer may put a handler off to the next library call. */
        struct itimerval it = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}};
        struct itimerval off = {.it_value = {.tv_usec = 0}};
        signal_loop = l;
        signal_letter = letter(l, 's', 0);
        signal_posted = 0;
        trace_reset();
        setitimer(ITIMER_REAL, &it, NULL);
        while (trace_size == 0)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        setitimer(ITIMER_REAL, &off, NULL);
        assert_string_equal(trace, "s");
    }
    sigaction(SIGALRM, &old, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_running_threads_post_each_once_in_order),
        cmocka_unit_test(test_loop_falling_asleep_post_wakes),
        cmocka_unit_test(test_loop_falling_asleep_wake_goes_round),
        cmocka_unit_test(test_loop_external_sleeper_post_makes_fd_readable),
        cmocka_unit_test(test_loop_external_sleeper_idle_fd_quiet),
        cmocka_unit_test(test_loop_sleeping_interrupted_goes_on),
        cmocka_unit_test(test_loop_sleeping_signal_handler_posts_wakes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
