/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Single nodes of a replication cluster, for the explorer: the real engine and its log.
 *
 * The engine is a function of its state and an event, and a cluster's states are made of few
 * different states of nodes. So each node state is kept once and has a number, as each message and
 * each membership has, and what an event does to a node is worked out once, by the engine, and
 * looked up from then on. Node states are equal if their engines, by snic_ddp_canon(), and their
 * logs are equal (by 128-bit fingerprints); a FLUSH under way is known by what it is for.
 *
 * A node that was left out comes back with what its log or its memory has, or with a new disk.
 *
 * Handles are the numbers of writes. After every event the engine must hold as many references to
 * each as before, and those received, but for those it released (dn_handles).
 *
 * The log: records are durable in any order (APPENDED), or all those before a FLUSH at once, of
 * which the engine learns one by one. A crash loses what is not durable.
 */
#ifndef SNIC_MC_DDP_NODE_H
#define SNIC_MC_DDP_NODE_H

#include "snicstore/ddp.h"

#define DN_NODES 4
#define DN_KEYS 2
#define DN_PENDING 12
#define DN_FLUSHES 6
#define DN_OUT 64
#define DN_DONE 8
#define DN_TIMERS 16

struct dn_space;

struct dn_opts {
    uint32_t model;
    uint32_t flags;
    uint32_t nodes;
    uint32_t keys;
    uint32_t writes; /* at a time */
    uint32_t scopes;
    uint32_t waits;  /* acknowledgements due, 0: enough */
    uint32_t room;   /* writes and replays at a time, 0: enough */
    uint32_t large;  /* not 0: values are too large to be sent again unasked */
    uint32_t copies; /* copies_min of all writes */
    uint32_t twins;  /* not 0: try whether states that count as equal are (ddp_twins.c) */
};

/* What a node looks like from outside. */
struct dn_key {
    uint64_t vts, rd, gv, gd, dts; /* the engine's */
    uint64_t value;
    uint64_t log, log_value; /* the highest in its log */
};
struct dn_sum {
    uint8_t alive;
    uint8_t id;
    uint8_t role;
    uint8_t reads; /* are served: FULL, in order, with a lease */
    uint8_t lease;
    uint8_t pending;
    uint8_t flushes;
    uint8_t timers;
    uint8_t busy; /* writes, waits, reads or scopes are there */
    uint8_t learned;
    uint32_t epoch;
    uint32_t view; /* the last installed, DN_NONE */
    uint32_t incarnation;
    const char *bad; /* its own check failed */
    struct dn_key key[DN_KEYS];
};
#define DN_NONE UINT32_MAX

enum dn_event {
    DN_MESSAGE = 1, /* arg: message */
    DN_WRITE,       /* arg: key | value << 4 | scope << 12 | durability << 20; the token is the
                       value */
    DN_DELETE,      /* the same */
    DN_CAS,         /* the same; on what it holds */
    DN_SYNC,        /* arg: scope; the token is 64 + scope */
    DN_APPENDED,    /* arg: which of the pending */
    DN_FLUSHED,     /* arg: which of the flushes */
    DN_FIRE,        /* arg: which of the timers */
    DN_INSTALL,     /* arg: view */
    DN_LEASE_END,
    DN_CRASH,  /* arg: so many of the pending become durable before */
    DN_REBOOT, /* arg: 1: what the log has is loaded */
    DN_READ,   /* arg: key | number << 4 | durability << 20; the token is DN_READ_TOKEN | arg */
    DN_RETURN  /* one that was left out gets a new incarnation */
};
#define DN_READ_TOKEN 256
#define DN_DURABILITY(arg) ((arg) >> 20 & 7)
#define DN_EVENT(kind, arg) ((uint32_t)(kind) << 27 | (uint32_t)(arg))

struct dn_done {
    uint64_t token;
    uint64_t ts;
    int32_t result;
    uint32_t pad;
};
struct dn_result {
    uint64_t event; /* node state << 32 | event */
    uint32_t node;  /* state afterwards */
    int32_t status; /* snic_ddp_step()'s */
    uint32_t outs, dones;
    uint8_t caught_up, ready, need_epoch;
    const char *bad; /* an assertion failed, an action made no sense */
    char *owned;     /* bad, if it is not a constant */
    uint32_t *out;   /* messages */
    struct dn_done *done;
};

struct dn_space *dn_space_new(const struct dn_opts *o);
void dn_space_free(struct dn_space *s);
/* A node that has not begun. */
uint32_t dn_begin(struct dn_space *s, uint32_t id, uint32_t incarnation);
const struct dn_result *dn_step(struct dn_space *s, uint32_t node, uint32_t event);
const struct dn_sum *dn_sum(const struct dn_space *s, uint32_t node);
const struct snic_ddp_msg *dn_message(const struct dn_space *s, uint32_t message);
uint32_t dn_view(struct dn_space *s, const struct snic_ddp_view *v);
const struct snic_ddp_view *dn_view_at(const struct dn_space *s, uint32_t view);
/* Timer number i of a node's state. */
struct snic_ddp_timer dn_timer(const struct dn_space *s, uint32_t node, uint32_t i);
/* opts.twins: how many events showed states that count as equal to be different, and the first. */
uint32_t dn_twins_differ(const struct dn_space *s, const char **first);
/* ddp_print.c */
void dn_event_print(const struct dn_space *s, uint32_t node, uint32_t event, char *text,
                    size_t size);
/* How many node states, messages and steps of the engine there were. */
void dn_counts(const struct dn_space *s, uint64_t *nodes, uint64_t *messages, uint64_t *steps);

/* ddp_engine.c: references to each handle that the engine holds. */
#define DN_HANDLES 16
struct snic_ddp;
void dn_handles(const struct snic_ddp *d, int held[DN_HANDLES]);
/* ddp_engine.c: of an image, what decides nothing. */
void dn_forget_past(struct snic_ddp *d);
/* SNIC_ASSERT_FAIL of the engine's sources as compiled for the explorer. */
_Noreturn void dn_assert_fail(const char *file, int line, const char *text);

#endif /* SNIC_MC_DDP_NODE_H */
