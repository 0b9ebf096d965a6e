/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Is a history of reads and writes linearizable, key by key (linearizability is local)?
 *
 * An operation has a key, the time it was called and the time it returned. A write without a
 * known outcome (the client or the server died) may have taken effect at any time after its call,
 * or never: set its end to HISTORY_OPEN. A read without an answer shows nothing: leave it out.
 * Value 0 is "no such key": the initial state, and what a delete writes.
 *
 * Wing and Gong's search with memory of the states seen (Lowe), on each key by itself; cut into
 * windows where nothing is in progress and the state is known. If all written values differ, most
 * keys are settled without search, in O(n log n) (Gibbons and Korach: zones of values).
 */
#ifndef SNIC_TESTS_HISTORY_H
#define SNIC_TESTS_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#define HISTORY_OPEN UINT64_MAX
#define HISTORY_NONE SIZE_MAX

struct history_op {
    uint64_t call;
    uint64_t end;
    uint64_t key;
    uint64_t value; /* written, or read; 0: none */
    size_t after;   /* index of an operation on the same key that precedes in this client's
                       program, or HISTORY_NONE: for pipelined requests */
    uint8_t write;
};

struct history {
    struct history_op *ops;
    size_t count;
    size_t room;
};

/** All zero is an empty history. Returns the index. */
size_t history_add(struct history *h, const struct history_op *op);
void history_free(struct history *h);
enum history_verdict {
    HISTORY_GOOD = 0,
    HISTORY_BAD = 1,
    HISTORY_GAVE_UP = 2 /* more states than the limit */
};
/** Check all keys; @p key gets the first bad one (may be NULL). */
enum history_verdict history_check(const struct history *h, uint64_t *key);
/** The search alone, without the fast path: for comparing the two. */
enum history_verdict history_check_slow(const struct history *h, uint64_t *key);

#endif
