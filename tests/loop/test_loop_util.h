/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** What the tests of the loop on io_uring share: a loop per mask, a trace, letters. */
#ifndef SNIC_TESTS_LOOP_UTIL_H
#define SNIC_TESTS_LOOP_UTIL_H

#include "support.h"

#include <string.h>
#include <time.h>

#include "snicstore/loop.h"

static const uint32_t masks[] = {
    0,
    SNIC_LOOP_HAVE_DEFER_TASKRUN,
    SNIC_LOOP_HAVE_DEFER_TASKRUN | SNIC_LOOP_HAVE_COOP_TASKRUN,
    SNIC_LOOP_HAVE_DEFER_TASKRUN | SNIC_LOOP_HAVE_SINGLE_ISSUER,
    SNIC_LOOP_HAVE_DEFER_TASKRUN | SNIC_LOOP_HAVE_SINGLE_ISSUER | SNIC_LOOP_HAVE_COOP_TASKRUN,
};
#define FOR_EACH_MASK(l)                                                                           \
    for (size_t i_ = 0; i_ < SNIC_COUNTOF(masks) && ((l) = open_loop(masks[i_], 0)) != NULL;       \
         i_++, snic_loop_close(l))

static inline struct snic_loop *open_loop(uint32_t mask, uint32_t spin_us)
{
    struct snic_loop *l = NULL;
    struct snic_loop_uring_opts o = {
        .opts_size = sizeof(o), .mask = mask, .spin_us = spin_us, .stall_ns = SNIC_NEVER};
    int r = snic_loop_uring_open(&l, &o);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring here");
    assert_int_equal(r, 0);
    return l;
}

static inline struct snic_loop_stats stats_of(const struct snic_loop *l)
{
    struct snic_loop_stats s;
    snic_loop_get_stats(l, &s);
    return s;
}

static inline uint64_t real_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A trace of what ran, in order. */
static char trace[256];
static size_t trace_size;

static inline void trace_reset(void)
{
    memset(trace, 0, sizeof(trace));
    trace_size = 0;
}

static inline void trace_add(char c)
{
    assert_true(trace_size < sizeof(trace) - 1);
    trace[trace_size++] = c;
}

/* ---- Messages ---- */

struct letter {
    struct snic_loop_msg msg;
    struct snic_loop *loop;
    char name;
    int again; /* defer itself so many times more */
};

static inline void letter_run(struct snic_loop_msg *msg)
{
    struct letter *m = SNIC_CONTAINER(msg, struct letter, msg);
    trace_add(m->name);
    if (m->again > 0) {
        m->again--;
        snic_loop_defer(m->loop, &m->msg);
    }
}

static inline struct letter letter(struct snic_loop *l, char name, int again)
{
    return (struct letter){.msg = {.fn = letter_run}, .loop = l, .name = name, .again = again};
}

#endif /* SNIC_TESTS_LOOP_UTIL_H */
