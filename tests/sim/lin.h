/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Is the history of a replicated key right? Two judges that know nothing of each other.
 *
 * lin_check_ts: every write has a timestamp and every read reports which one it returned, so the
 * order is known and only real time has to be checked: O(n log n) (Gibbons and Korach's case of a
 * known write order). It knows of restarts, after which a model may have lost what its spec allows.
 *
 * lin_check_search: looks at values only (Wing and Gong's search with Lowe's memory of states, as
 * in Porcupine), for a register with compare-and-swap.
 */
#ifndef SNIC_TESTS_SIM_LIN_H
#define SNIC_TESTS_SIM_LIN_H

#include <stddef.h>
#include <stdint.h>

#define LIN_OPEN UINT64_MAX
/* The verdict on a read that real time forbids. */
#define LIN_STALE "a read of something older than what it had to show"
#define LIN_STALE_ABSENT "a read finds nothing, though the key had a value and no client deleted it"

enum lin_kind {
    LIN_READ = 1, /* also a CAS that was refused: it returns what it found */
    LIN_WRITE,    /* also a deletion: value 0 */
    LIN_CAS       /* that succeeded, or may have */
};

/** One operation. Those that were refused, and reads without an answer, are left out. */
struct lin_op {
    uint64_t call;
    uint64_t end; /* LIN_OPEN: no answer, or that it is not known: a write */
    uint64_t key;
    uint64_t value;  /* written or read, unlike any other; 0: nothing there */
    uint64_t ts;     /* of what was written or read; 0: read: nothing; write: never seen */
    uint64_t expect; /* CAS: the value it compared with */
    uint64_t expect_ts;
    uint64_t synced; /* when SYNC of its scope was answered, or LIN_OPEN */
    uint32_t kind;
    uint32_t confirmed; /* 1: a read that a majority confirmed: never stale, whatever the clocks */
    uint32_t lasts;     /* 1: once it is answered no restart loses what it wrote or returned */
};

/** What a model keeps over a restart of all. */
enum lin_keeps {
    LIN_KEEPS_WRITTEN = 1, /* what was answered */
    LIN_KEEPS_READ = 2,    /* what was read */
    LIN_KEEPS_SYNCED = 4
};

/**
 * NULL, or what is wrong; *which is then the index of the operation (may be NULL). @p restarts are
 * the times of restarts, ascending. Sorts nothing in @p ops.
 */
const char *lin_check_ts(const struct lin_op *ops, size_t count, const uint64_t *restarts,
                         size_t restart_count, uint32_t keeps, size_t *which);

enum lin_verdict { LIN_GOOD = 0, LIN_BAD = 1, LIN_GAVE_UP = 2 };
/** Most operations of a key that are searched; of more only the first. */
#define LIN_WINDOW 200
/**
 * All keys. What was written before @p from is not looked at: the keys then hold something, which
 * the first look at each shows; from 0 they hold nothing. Only operations that ended, or were seen,
 * before @p to.
 */
enum lin_verdict lin_check_search(const struct lin_op *ops, size_t count, uint64_t from,
                                  uint64_t to, uint64_t *key);

#endif
