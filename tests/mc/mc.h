/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An exhaustive explorer: visits every state that a model can reach, breadth first, so that the
 * first violation found is a shortest one.
 *
 * A model gives states as canonical bytes: equal bytes if and only if equal states. A state is
 * kept as a fingerprint of 64 or 128 bits of these (hash compaction), with the number of the state
 * it was reached from: 16 bytes a state, 24 with 128 bits, and 4 per slot of an index at most half
 * full. Two states with one fingerprint count as one: with n states the probability that this
 * happened at all is about n^2 / 2^65. The exact mode keeps the bytes and cannot err. The lean mode
 * keeps fingerprints of 64 bits and nothing else, 9 to 18 bytes a state: it reports what is wrong
 * and how many steps away, and not by which. The frontier's bytes beyond a limit go to a file.
 *
 * Safety: check() of every state. Deadlock: dead() of a state without actions. Livelock: from
 * sampled states, calm() chooses actions (no new work, no faults) until nothing is left to do; that
 * must be so within a number of steps, and settled() must then agree.
 *
 * A violation comes as a script: a line per action, shrunk by leaving lines out while the violation
 * stays. Lines are text that names an action in its state, so a script is good for another build.
 *
 * The model's functions are called by several threads at once. Counts do not depend on the threads.
 */
#ifndef SNIC_MC_H
#define SNIC_MC_H

#include <stddef.h>
#include <stdint.h>

#define MC_STATE_MAX 1024  /* bytes */
#define MC_ACTIONS_MAX 512 /* of one state */
#define MC_TEXT 192        /* of an action or a violation, terminated */

struct mc_model {
    const char *name;
    void *ctx;
    /* The state number i to begin with; its bytes, 0: there are no more. */
    size_t (*init)(void *ctx, uint32_t i, void *state);
    /* What may happen, in an order that depends on the state only; how many. */
    uint32_t (*actions)(void *ctx, const void *state, size_t len, uint64_t *out);
    /* The state after it; its bytes, 0: it had no effect and is no step. */
    size_t (*apply)(void *ctx, const void *state, size_t len, uint64_t action, void *out);
    /* What is wrong here, or NULL. */
    const char *(*check)(void *ctx, const void *state, size_t len);
    /* What is wrong with ending here, or NULL; itself NULL: nothing is. */
    const char *(*dead)(void *ctx, const void *state, size_t len);
    /* The next action when no work or faults are added (it need not be one of actions()); 0: there
     * is none. NULL: no check. */
    int (*calm)(void *ctx, const void *state, size_t len, uint64_t *action);
    const char *(*settled)(void *ctx, const void *state, size_t len);
    void (*print)(void *ctx, const void *state, size_t len, uint64_t action, char *text,
                  size_t size);
};

struct mc_opts {
    uint32_t threads;    /* 0: 2 */
    uint32_t wide;       /* fingerprints of 128 bits */
    uint32_t exact;      /* keep the bytes */
    uint32_t lean;       /* keep 64 bits and no more; neither wide nor exact */
    uint32_t live_every; /* one state of so many is sampled for livelock; 0: none, 1: all */
    uint32_t live_steps; /* 0: 10000 */
    uint32_t shrink;     /* 0: shrink, 1: do not */
    uint64_t memory_max; /* bytes of all tables, 0: 12 GiB */
    uint64_t front_max;  /* bytes of the frontier in memory, 0: 1 GiB */
    uint64_t states_max; /* 0: 2^31 */
    const char *dir;     /* for what does not fit; NULL: /tmp */
};

enum mc_result { MC_CLEAN = 0, MC_VIOLATED, MC_LIMIT };

struct mc_script {
    uint32_t init;
    uint32_t count;
    char (*line)[MC_TEXT]; /* mc_script_free() */
    char why[MC_TEXT];
    int live; /* the violation comes after the last line, when no work or faults are added */
};

struct mc_report {
    int result; /* enum mc_result */
    uint64_t states;
    uint64_t edges;
    uint64_t ends;     /* states without actions */
    uint64_t sampled;  /* for livelock */
    uint64_t collided; /* exact mode: fingerprints that two states share */
    uint64_t memory_peak;
    uint64_t spilled; /* bytes of the frontier that went to files */
    uint32_t depth;   /* of the last level that had a new state */
    uint32_t fan_max;
    double seconds, cpu_seconds;
    uint32_t found; /* length of the shortest script, before shrinking */
    struct mc_script script;
};

/* ---- mc.c ---- */

void mc_run(const struct mc_model *m, const struct mc_opts *o, struct mc_report *r);
/* One line about a run. */
void mc_report_print(const char *name, const struct mc_opts *o, const struct mc_report *r);

/* ---- mc_script.c ---- */

/* Follow the script: 1 if its violation is met (why is filled in), 0 if none is, -1 if a line
 * cannot happen. verbose: print the lines with their numbers. */
int mc_script_run(const struct mc_model *m, const struct mc_script *s, uint32_t live_steps,
                  int verbose, char *why);
void mc_script_shrink(const struct mc_model *m, struct mc_script *s, uint32_t live_steps);
void mc_script_print(const struct mc_model *m, const struct mc_script *s);
/* 0 or -1. */
int mc_script_save(const struct mc_model *m, const struct mc_script *s, const char *path);
int mc_script_load(struct mc_script *s, const char *path);
void mc_script_free(struct mc_script *s);
/* Run calm() to the end: what was wrong, or NULL. */
const char *mc_calm(const struct mc_model *m, const void *state, size_t len, uint32_t steps);

/* ---- mc_table.c ---- */

struct mc_print128 {
    uint64_t lo, hi;
};
struct mc_print128 mc_fingerprint(const void *bytes, size_t len);

#define MC_NONE UINT32_MAX

struct mc_entry {
    uint64_t fp;
    uint32_t pred; /* the state it was reached from, MC_NONE: an initial one */
    uint16_t act;  /* which of pred's actions; of an initial one, which */
    uint16_t depth;
};

struct mc_table;
/* What a thread needs for itself. */
struct mc_hand {
    struct mc_table *t;
    uint32_t next, end;               /* entries reserved */
    unsigned char *bytes, *bytes_end; /* exact: room reserved */
    uint64_t collided;
};
struct mc_table *mc_table_new(uint64_t states_max, const struct mc_opts *o);
void mc_table_free(struct mc_table *t);
void mc_table_hand(struct mc_table *t, struct mc_hand *h);
/* The new state's number (lean: 0); MC_NONE: it was there. */
uint32_t mc_table_insert(struct mc_hand *h, struct mc_print128 f, const struct mc_entry *e,
                         const void *state, size_t len);
void mc_table_prefetch(const struct mc_table *t, uint64_t fp);
/* Room for so many more; no other thread may use the table meanwhile. 0, -1: states_max. */
int mc_table_reserve(struct mc_table *t, uint64_t more);
const struct mc_entry *mc_table_at(const struct mc_table *t, uint32_t number);
uint64_t mc_table_bytes(const struct mc_table *t);

/* ---- mc_front.c ---- */

#define MC_BLOCK 32768

struct mc_block {
    unsigned char *data; /* NULL: in the file */
    uint64_t at;
    uint32_t used;
    uint32_t count;
    uint32_t owner;
};
/* A thread's part of a level. */
struct mc_front {
    struct mc_block *block;
    uint32_t count, room;
    uint64_t file_end;
    int fd;
};
struct mc_record {
    uint32_t number;
    uint32_t len;
};
void mc_front_init(struct mc_front *f, const char *dir);
void mc_front_fini(struct mc_front *f);
void mc_front_clear(struct mc_front *f);
/* spill: full blocks go to the file. Returns the bytes of memory it took, negative: gave back. */
int64_t mc_front_put(struct mc_front *f, uint32_t number, const void *state, size_t len, int spill);
/* The block's bytes; room has MC_BLOCK. */
const unsigned char *mc_front_read(const struct mc_front *f, const struct mc_block *b,
                                   unsigned char *room);

#endif /* SNIC_MC_H */
