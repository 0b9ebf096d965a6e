/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An exhaustive explorer of small concurrent programs over weak memory, for the ring.
 *
 * The ring's own sources are compiled against it (test_ring_explore.c): each atomic operation
 * becomes a step, so that the steps explored are the code's, not a copy of them. A thread's body
 * is a function; to go one step further it is run again from the start with the results of its
 * earlier steps (a log), and left at its next one. All states that any schedule and any choice
 * of values can reach are visited once (a hash set cuts what was seen).
 *
 * Memory: each 8-byte word has a list of messages, its modification order. Each thread has a
 * view: for each word, the oldest message that it may still read. A load takes any message its
 * view allows, so an old one may be read although newer ones exist: that is another thread's
 * store buffer, or this thread's load done early. A release store puts the thread's view into
 * the message and an acquire load takes it over; read-modify-writes read the newest message and
 * hand on what it carries (release sequence). seq_cst accesses see at least the last seq_cst
 * store to their word; a seq_cst fence exchanges views with a global one. A *late* load takes its
 * value at any time between its place and the thread's next release operation or its end:
 * that is a load delayed beyond younger stores.
 * Not modelled: stores to one word becoming visible out of their order of execution, and
 * stores before the load on which they depend (no machine does that).
 */
#ifndef SNIC_EXPLORE_RING_H
#define SNIC_EXPLORE_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_THREADS 4

enum explore_kind {
    EXPLORE_LOAD,
    EXPLORE_STORE,
    EXPLORE_ADD,
    EXPLORE_CAS,
    EXPLORE_FENCE,
    EXPLORE_LATE,
    EXPLORE_LATE_VALUE,
    EXPLORE_JOIN
};

/* ---- What the compiled sources call ---- */

uint64_t explore_load(const volatile void *at, int order, const char *func);
void explore_store(volatile void *at, uint64_t value, int order, const char *func);
uint64_t explore_add(volatile void *at, uint64_t value, int order, const char *func);
int explore_cas(volatile void *at, uint64_t *expected, uint64_t value, int order, int failure,
                const char *func);
void explore_fence(int order, const char *func);

/* ---- What bodies call besides ---- */

/* Begin a late load; the number names it. */
uint64_t explore_late(const volatile void *at);
/* Its value; the thread waits until it has one. */
uint64_t explore_late_value(uint64_t number);
/* Wait until that thread was killed, and learn all that it did (certified death). */
void explore_join_dead(unsigned thread);
/* The property is violated in this state. */
void explore_fail(const char *text);

/* ---- Scenarios ---- */

/* One ordering to leave out: operations of this kind in this function become relaxed, a fence
 * nothing. */
struct explore_mutation {
    const char *func; /* NULL: none */
    enum explore_kind kind;
    int nth;       /* of that kind in one call of a body's run, or -1 for all */
    unsigned only; /* thread + 1, or 0 for all */
    /* Instead: func loads the second of these words before the first. */
    const volatile void *swap_first, *swap_second;
};

struct explore_scenario {
    const char *name;
    unsigned threads;
    /* Run (again) from the start in the private copy that was set up; its result is its outcome. */
    uint64_t (*body[EXPLORE_THREADS])(void *private_copy);
    void *private_start[EXPLORE_THREADS]; /* what each body's private copy begins as */
    size_t private_bytes[EXPLORE_THREADS];
    unsigned killable; /* bit mask: threads that may die before any step */
    /* All bodies ended; memory holds the newest values. Calls explore_fail() if wrong. */
    void (*final)(const uint64_t *outcome);
    void *memory; /* the shared memory, restored for each state */
    size_t memory_bytes;
    /* Every access is seq_cst: of a word only the newest value counts, of a thread that has ended
     * only its outcome. */
    int sc;
};

#define EXPLORE_DEAD UINT64_MAX

struct explore_result {
    uint64_t states;
    uint64_t ends;
    const char *failure; /* NULL: none */
};

/* Explore; stops at the first failure. */
struct explore_result explore_run(const struct explore_scenario *s,
                                  const struct explore_mutation *m);
/* Print the steps that led to the last failure. */
void explore_print_trace(void);

#endif /* SNIC_EXPLORE_RING_H */
