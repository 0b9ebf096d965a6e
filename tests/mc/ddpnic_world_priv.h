/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The inside of ddpnic_world: a state, and what its files share.
 *
 *   ddpnic_world.c  what an action does to a state
 *   ddpnic_env.c    what may happen in a state: messages, stores, clients, memberships, faults
 *   ddpnic_check.c  what must be true of a state
 */
#ifndef SNIC_MC_DDPNIC_WORLD_PRIV_H
#define SNIC_MC_DDPNIC_WORLD_PRIV_H

#include "ddpnic_world.h"

#include <string.h>

#define XW_MESSAGES 96

enum xw_action { XW_NODE = 0, XW_DOUBLE, XW_LOSE, XW_DECIDE_OUT };
#define XW_ACTION(kind, node, arg) ((uint64_t)(kind) << 40 | (uint64_t)(node) << 32 | (arg))

enum xw_fate { XW_OPEN = 0, XW_ANSWERED, XW_UNKNOWN };

enum xw_budget {
    XW_PLAIN = 0,
    XW_DELETES,
    XW_CRASHES,
    XW_EVICTIONS,
    XW_DOUBLES,
    XW_LOSSES,
    XW_RESENDS,
    XW_LOCKS,
    XW_BUDGETS
};

/* Everything but the messages; no padding. */
struct xw_head {
    uint64_t ts[XW_WRITES];
    uint64_t seen[XN_KEYS];
    uint32_t node[XN_NODES];
    uint32_t view;
    uint8_t key[XW_WRITES];
    uint8_t scope[XW_WRITES];
    uint8_t owner[XW_WRITES];
    uint8_t fate[XW_WRITES]; /* enum xw_fate */
    uint8_t gone[XW_WRITES]; /* it is a deletion */
    uint8_t used[XW_BUDGETS];
    uint8_t requested; /* scopes, bits: node * 2 + scope - 1 */
    uint8_t synced;    /* answered */
    uint8_t count;     /* writes of all kinds */
    uint8_t begun;     /* nodes whose lease was ended, bits */
    uint8_t turn;      /* of timers, in a quiet time */
    uint8_t bad;       /* what happened on the way, index of xw_bads */
    uint16_t messages;
};

struct xw_state {
    struct xw_head h;
    uint32_t msg[XW_MESSAGES]; /* sorted */
};

struct xw_world {
    struct xw_opts o;
    struct xn_space *space;
    struct mc_model model;
    struct xw_state first;
};

/* What happened on the way; ddpnic_check.c prints it. */
enum { XW_B_R2 = 1, XW_B_R3, XW_B_EVENT, XW_B_ANSWER, XW_B_RESULT, XW_B_ROOM, XW_B_TS, XW_B_TEXT };

static inline void xw_load(struct xw_state *s, const void *state, size_t len)
{
    memcpy(s, state, len);
}

static inline const struct xn_sum *xw_sum(const struct xw_world *w, const struct xw_state *s,
                                          uint32_t n)
{
    return xn_sum(w->space, s->h.node[n]);
}

static inline const struct snic_ddp_view *xw_view(const struct xw_world *w,
                                                  const struct xw_state *s)
{
    return xn_view_at(w->space, s->h.view);
}

static inline int xw_full(const struct xw_world *w, const struct xw_state *s, uint32_t n)
{
    return xw_view(w, s)->full >> n & 1;
}

/* ddpnic_world.c */
/* 1: may be taken now, 0: later perhaps, -1: never. */
int xw_fits(const struct xw_world *w, const struct xw_state *s, uint32_t message);
/* The highest timestamp of a key that was answered. */
uint64_t xw_done(const struct xw_state *s, uint32_t key);

/* ddpnic_env.c */
/* All members that live have the membership decided last. */
int xw_installed(const struct xw_world *w, const struct xw_state *s);
uint32_t xw_actions(void *ctx, const void *state, size_t len, uint64_t *out);
int xw_calm(void *ctx, const void *state, size_t len, uint64_t *action);

/* ddpnic_check.c */
const char *xw_check(void *ctx, const void *state, size_t len);
const char *xw_settled(void *ctx, const void *state, size_t len);

#endif /* SNIC_MC_DDPNIC_WORLD_PRIV_H */
