/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small world around replication engines, for this module's tests: nodes, a network that delays,
 * loses, doubles and reorders, logs that lose what is not durable, a membership that the test
 * decides, clients. After every step the engine is checked, and every answer against what must be
 * visible by then; handles are counted.
 */
#ifndef SNIC_TESTS_TEST_DDP_WORLD_H
#define SNIC_TESTS_TEST_DDP_WORLD_H

#include "snicstore/ddp.h"

enum {
    WORLD_NODES = 5,
    WORLD_KEYS = 4,
    WORLD_MESSAGES = 8192,
    WORLD_LOG = 8192,
    WORLD_OPS = 4096,
    WORLD_WRITTEN = 8192,
    WORLD_FLUSHES = 64
};

struct world_message {
    struct snic_ddp_msg m; /* value: content */
};

struct world_record {
    struct snic_ddp_key key;
    uint64_t ts;
    uint64_t content;
    uint64_t scope;
    uint32_t length;
    uint8_t tombstone;
    uint8_t durable;
    uint8_t reported; /* APPENDED */
    uint8_t forgotten;
    uint32_t void_flags; /* SNIC_DDP_REPLACES, SNIC_DDP_DROPS */
};

struct world_flush {
    uint32_t id;
    uint32_t upto; /* log entries it covers */
};

struct world_node {
    struct snic_ddp *d;
    void *mem;
    size_t size;
    int up;
    int caught_up;
    int suspected;
    uint32_t incarnation;
    uint32_t logged;
    uint32_t flushes;
    struct snic_ddp_view view;
    struct world_flush flush[WORLD_FLUSHES];
    struct world_record log[WORLD_LOG];
};

enum world_state { OP_FREE = 0, OP_OPEN, OP_OK, OP_REFUSED, OP_UNKNOWN };

struct world_op {
    uint32_t type;
    uint32_t state;
    uint32_t node;
    uint32_t key;
    int result;
    uint64_t floor; /* what the key had to show when it began */
    uint64_t expect;
    uint64_t content; /* of a write; of a read what it got */
    uint64_t scope;
    uint64_t ts;
};

/* A timestamp that exists: its value, and whether any client saw it or was answered. */
struct world_written {
    uint32_t key;
    uint32_t seen;
    uint64_t ts;
    uint64_t content; /* 0: a tombstone */
};

struct world {
    struct snic_rng rng;
    struct snic_ddp_opts opts;
    uint32_t nodes;
    uint64_t now;
    uint32_t lose; /* of 1000 messages */
    uint32_t twice;
    uint32_t messages;
    uint32_t ops;
    uint32_t written;
    uint64_t contents;
    uint64_t hash;                /* of all actions */
    uint64_t visible[WORLD_KEYS]; /* a read that begins now shows this or newer */
    uint64_t answered[WORLD_KEYS];
    uint64_t read[WORLD_KEYS];
    uint64_t handles_live;
    uint64_t handles;
    uint64_t steps;
    struct snic_ddp_view view; /* the last decided */
    uint8_t *handle;           /* by number: its node + 1; 0: none */
    uint64_t *handle_content;
    struct world_node node[WORLD_NODES];
    struct world_message message[WORLD_MESSAGES];
    struct world_op op[WORLD_OPS];
    struct world_written write[WORLD_WRITTEN];
};

struct world *world_new(uint64_t seed, uint32_t nodes, uint32_t model, uint32_t flags);
/* The same, with room for so many writes at a time at each node. */
struct world *world_new_room(uint64_t seed, uint32_t nodes, uint32_t model, uint32_t flags,
                             uint32_t writes_max);
void world_free(struct world *w);
/* A fresh engine on that node, down before. */
void world_boot(struct world *w, uint32_t node);
/* LOADED: all of its log, in order. */
void world_load_log(struct world *w, uint32_t node);
/* LOADED: a record of its log; content 0 is a tombstone. */
void world_load(struct world *w, uint32_t node, const struct snic_ddp_key *key, uint64_t ts,
                uint64_t content, uint32_t length);
/* It loses its memory; of its log what is not durable may go. */
void world_crash(struct world *w, uint32_t node);
/* Decide a view; nodes get it separately. */
void world_view(struct world *w, uint16_t full, uint16_t learners, uint32_t donor, int restart);
void world_notify(struct world *w, uint32_t node);
void world_notify_all(struct world *w);
/* The first epoch, all FULL. */
void world_start(struct world *w);
/* Begin an operation; its number, or -1 with *result if it was refused. */
int world_op(struct world *w, uint32_t type, uint32_t node, uint32_t key, uint64_t expect,
             uint64_t scope, int *result);
/* Step the engine, carry out the actions. */
int world_step(struct world *w, uint32_t node, const struct snic_ddp_event *ev);
/* Give message i to its node, which takes it from the network unless keep. */
int world_deliver(struct world *w, uint32_t i, int keep);
void world_drop(struct world *w, uint32_t i);
/* One thing that can happen does: 0 if nothing is left but time. */
int world_random(struct world *w);
/* Everything that is under way comes to its end, the time-outs too. */
void world_settle(struct world *w);
/* All nodes that are up have the same, nothing is locked, in flight or unanswered. */
void world_same(struct world *w);
/* A CAS that succeeded had nothing between what it compared with and itself. */
void world_check_cas(struct world *w);
struct snic_ddp_key world_key(uint32_t key);
/* The record of that key, or 0. */
int world_look(struct world *w, uint32_t node, uint32_t key, struct snic_ddp_entry *out);
/* What of that node's log is durable: the largest timestamp of the key. */
uint64_t world_durable(struct world *w, uint32_t node, uint32_t key);
void world_complete(struct world *w, uint32_t node, uint32_t entry);

#endif /* SNIC_TESTS_TEST_DDP_WORLD_H */
