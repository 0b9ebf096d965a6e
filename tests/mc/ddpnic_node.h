/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Single nodes of MINOS-O for the explorer: the real halves, the PCIe between them, what is on its
 * way into and out of the FIFOs, the host's log.
 *
 * As in ddp_node.h each node state is kept once and has a number, as each message and each
 * membership has, and what an event does to a node is worked out once and looked up from then on.
 *
 * Stores, DMA, log writes and markers complete in any order; what is folded (enum xn_fold) does so
 * within the step that began it. A crash loses all but the log and what the dFIFO held durable.
 */
#ifndef SNIC_MC_DDPNIC_NODE_H
#define SNIC_MC_DDPNIC_NODE_H

#include "snicstore/ddpnic.h"

#define XN_NODES 4
#define XN_KEYS 2
#define XN_PENDING 24
#define XN_QUEUE 8
#define XN_OUT 32
#define XN_DONE 8
#define XN_TIMERS 16
#define XN_NONE UINT32_MAX

/* What takes no time of its own. */
enum xn_fold {
    XN_FOLD_VSTORE = 1,
    XN_FOLD_DSTORE = 2,
    XN_FOLD_DMA = 4,
    XN_FOLD_LOG = 8,
    XN_FOLD_MARK = 16,
    XN_FOLD_DOWN = 32, /* PCIe, host to NIC */
    XN_FOLD_BACK = 64
};

struct xn_space;

struct xn_opts {
    uint32_t model;
    uint32_t flags;
    uint32_t nodes;
    uint32_t keys;
    uint32_t writes; /* at a time */
    uint32_t scopes;
    uint32_t fifo; /* slots of each; 0: enough */
    uint32_t fold;
};

/* What a node looks like from outside. */
struct xn_key {
    uint64_t vts, rd, gv, gd, top, accepted, stored;
    uint64_t value;          /* readable, of vts */
    uint64_t log, log_value; /* the highest in the log or durable in the dFIFO */
};
struct xn_sum {
    uint8_t alive;
    uint8_t id;
    uint8_t role;
    uint8_t reads; /* are served */
    uint8_t lease;
    uint8_t pending;
    uint8_t down, back;
    uint8_t timers;
    uint8_t busy;
    uint32_t epoch;
    uint32_t view; /* the last installed, XN_NONE */
    const char *bad;
    struct xn_key key[XN_KEYS];
};

enum xn_event {
    XN_MESSAGE = 1, /* arg: message */
    XN_WRITE,       /* arg: key | value << 4 | scope << 12; the token is the value */
    XN_DELETE,      /* the same */
    XN_SYNC,        /* arg: scope; the token is 64 + scope */
    XN_DOWN,        /* the oldest of the PCIe to the NIC */
    XN_BACK,        /* to the host */
    XN_COMPLETE,    /* arg: which of the pending */
    XN_FIRE,        /* arg: which of the timers */
    XN_INSTALL,     /* arg: view */
    XN_LEASE_END,
    XN_CRASH
};
#define XN_EVENT(kind, arg) ((uint32_t)(kind) << 27 | (uint32_t)(arg))
#define XN_ARG(event) ((event) & ((1u << 27) - 1))

struct xn_done {
    uint64_t token;
    uint64_t ts;
    int32_t result;
    uint32_t pad;
};
struct xn_result {
    uint64_t event; /* node state << 32 | event */
    uint32_t node;  /* state afterwards */
    int32_t status;
    uint32_t outs, dones;
    uint64_t made_ts; /* the host made this timestamp */
    const char *bad;
    char *owned;
    uint32_t *out; /* messages */
    struct xn_done *done;
};

struct xn_space *xn_space_new(const struct xn_opts *o);
void xn_space_free(struct xn_space *s);
uint32_t xn_begin(struct xn_space *s, uint32_t id);
const struct xn_result *xn_step(struct xn_space *s, uint32_t node, uint32_t event);
const struct xn_sum *xn_sum(const struct xn_space *s, uint32_t node);
const struct snic_ddp_msg *xn_message(const struct xn_space *s, uint32_t message);
uint32_t xn_view(struct xn_space *s, const struct snic_ddp_view *v);
const struct snic_ddp_view *xn_view_at(const struct xn_space *s, uint32_t view);
struct snic_ddp_timer xn_timer(const struct xn_space *s, uint32_t node, uint32_t i);
/* Number i of what a node has under way. */
struct xn_under_way {
    uint64_t ts;
    uint32_t type; /* the action's, less VSTORE */
    uint32_t key;
    uint32_t id;
    uint32_t pad;
};
struct xn_under_way xn_under_way(const struct xn_space *s, uint32_t node, uint32_t i);
/* ddpnic_print.c */
void xn_event_print(const struct xn_space *s, uint32_t node, uint32_t event, char *text,
                    size_t size);

/* SNIC_ASSERT_FAIL of the engine's sources as compiled for the explorer. */
_Noreturn void xn_assert_fail(const char *file, int line, const char *text);

#endif /* SNIC_MC_DDPNIC_NODE_H */
