/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A history of operations on a replicated store, as the README describes its text, and its rules:
 * each key is linearizable, and what was acknowledged as durable survives each loss.
 */
#ifndef SNIC_TESTS_JUDGE_H
#define SNIC_TESTS_JUDGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JUDGE_OPEN UINT64_MAX
#define JUDGE_NIL 0 /* the value of an absent key */
#define JUDGE_NODES 16

enum judge_kind {
    JUDGE_GET,
    JUDGE_SET,
    JUDGE_DEL,
    JUDGE_CAS,
    JUDGE_INCR,
    JUDGE_SYNC,
    JUDGE_EXPIRE, /* another TTL for `value`; judge_expiries makes a read of it */
    JUDGE_WATCH,
    JUDGE_SEE,
    JUDGE_EXPIRY /* a deletion of `value` from `call` on, when its write had ended at `expect` */
};
enum judge_result { JUDGE_OK, JUDGE_NO, JUDGE_FAIL, JUDGE_UNKNOWN };
enum judge_class { JUDGE_DEFAULT, JUDGE_MEMORY, JUDGE_HERE, JUDGE_ALL, JUDGE_SCOPE };

struct judge_op {
    uint64_t call;
    uint64_t end; /* JUDGE_OPEN: outcome unknown */
    uint64_t value;
    uint64_t expect;
    uint64_t scope;
    uint64_t expires; /* the TTL of what was written does not end before; JUDGE_OPEN: none */
    uint64_t kept;    /* from when on it must survive a loss; JUDGE_OPEN: never */
    uint32_t key;
    uint32_t client;
    uint32_t line;
    uint8_t kind;
    uint8_t result;
    uint8_t class;
    uint8_t node;   /* that took it; JUDGE_NODES: unknown */
    uint8_t copies; /* nodes that the answer stands for, at least */
};

/* From `down` on what is not durable may be lost; until `up` something older may return. */
struct judge_loss {
    uint64_t down;
    uint64_t up;
    uint32_t logs; /* nodes that began again from their own logs */
};

/* From that time on so many nodes have a process. */
struct judge_present {
    uint64_t at;
    uint32_t nodes;
};

/* What a watch shows, and of JUDGE_WATCH its beginning. */
struct judge_seen {
    uint64_t call;
    uint64_t end;
    uint64_t value;
    uint64_t version;
    uint32_t segment;
    uint32_t key;
    uint32_t line;
    uint8_t kind;
    uint8_t prefix; /* JUDGE_WATCH: of all keys that begin with key */
    uint8_t node;
    uint8_t shard;
};

struct judge_names;

struct judge_history {
    struct judge_op *ops; /* by key, then by call */
    size_t count;
    struct judge_seen *seen;
    size_t seen_count;
    struct judge_loss *losses; /* ascending */
    size_t loss_count;
    struct judge_present *present; /* ascending; none: unknown */
    size_t present_count;
    uint32_t keys; /* numbers of keys are below */
    struct judge_names *names;
    uint64_t results[4];
};

/** What operations of the default class keep over a loss. */
enum { JUDGE_KEEPS_WRITTEN = 1, JUDGE_KEEPS_READ = 2 };

/** 0; -1: a message is on stderr. */
int judge_read(struct judge_history *h, FILE *f, uint32_t keeps);
void judge_free(struct judge_history *h);
const char *judge_key(const struct judge_history *h, uint32_t key);
const char *judge_value(const struct judge_history *h, uint64_t value);

/** Room for element @p count of an array: doubled when that is a power of two. */
void *judge_grow(void *p, size_t count, size_t size);
int judge_time(const char *word, uint64_t *out);

/** The lines of faults, in the order of the file. */
struct judge_faults {
    struct judge_fault *list;
    size_t count;
};
/** NULL, or what is malformed in "! TIME WHAT NODE [log]". */
const char *judge_fault_read(struct judge_faults *f, char **word, uint32_t words);
/** Losses, and when nodes had processes. Frees the list. */
void judge_faults_apply(struct judge_history *h, struct judge_faults *f);
/** Must what the operation wrote, or read, survive that loss? */
int judge_survives(const struct judge_history *h, const struct judge_op *op, size_t loss);
/** Were there as many nodes at some moment of the operation as its answer stands for? */
int judge_copies(const struct judge_history *h, const struct judge_op *op);

/** A key's operations. */
struct judge_span {
    const struct judge_op *op;
    size_t count;
};

/** NULL, or what is wrong, and the lines that show it (0: none). */
const char *judge_register(const struct judge_history *h, struct judge_span s, uint32_t line[2]);
const char *judge_counter(const struct judge_history *h, struct judge_span s, uint32_t line[2]);
/** The write of a value, and when it is known to have taken effect. NULL: none. */
const struct judge_op *judge_write_of(struct judge_span s, uint64_t value, uint64_t *effect);
/** All watches: prints what is wrong. @return how many of them are */
uint32_t judge_watches(struct judge_history *h);
/** By search: 0 right, 1 wrong, 2 not all was searched. */
int judge_search(const struct judge_history *h, struct judge_span s);

#endif
