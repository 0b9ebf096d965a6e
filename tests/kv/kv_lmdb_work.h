/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A run of commits and object writes on the store on LMDB whose every state is known, and a check
 * that a store after a crash is one of them: it holds a prefix of the commits that contains all
 * acknowledged as durable, in every half block of an object something written there that is not
 * older than the last synced, new blocks no later than the commits that follow them, and reads
 * without a checksum error.
 */
#ifndef SNIC_TESTS_KV_LMDB_WORK_H
#define SNIC_TESTS_KV_LMDB_WORK_H

#include "kv_lmdb_util.h"

enum {
    WORK_KEYS = 24,
    WORK_OBJECTS = 9,
    WORK_LARGE = 3, /* of those, the others have one block at most: space changes hands */
    WORK_HALVES = 2 * 20,
    WORK_HALF = 4096,
    WORK_STEPS = 420,
    WORK_APPEND = 90
};

/** What the store holds after a step. */
struct work_state {
    uint16_t keys[WORK_KEYS];                   /* the step that wrote it, 0 none */
    uint16_t halves[WORK_OBJECTS][WORK_HALVES]; /* likewise; 0: zeros */
    uint16_t commits;                           /* steps that were commits, until now */
    uint16_t appended;                          /* blocks of the object that grows */
};

struct work {
    struct kvl k;
    struct snic_rng rng;
    struct snic_kv_lmdb_opts opts; /* path is set by work_open() */
    /** How far things are, as begun[] counts; NULL: in steps. */
    size_t (*length)(void);
    /** So many commits, and object bytes of all steps to @p step, are acknowledged as durable. */
    void (*note)(struct work *p, uint64_t commits, uint32_t step);
    char path[512];
    /* -- in memory that forked children share -- */
    _Atomic uint32_t *step;    /* the last whose state is there */
    struct work_state *states; /* by step */
    size_t *begun;             /* length() when the step was begun */
    uint16_t *of_commit;       /* the step of the n-th commit */
    _Atomic uint64_t *noted;   /* commits << 32 | step */
};

/** An empty store, closed. */
void work_open(struct work *p, uint64_t seed);
void work_close(struct work *p);
/** Open it and do everything. */
void work_run(struct work *p);
/**
 * Open the store at @p path and check it, after an end when begun steps were those whose begun[] is
 * below @p cut, and @p note was the last note.
 */
void work_check(struct work *p, const char *path, size_t cut, uint64_t note);
/** Remove a store's files. */
void work_remove(const char *path);

#endif /* SNIC_TESTS_KV_LMDB_WORK_H */
