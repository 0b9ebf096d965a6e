/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The inside of ddp_world: a state, and what its files share.
 *
 *   ddp_world.c  what an action does to a state
 *   ddp_env.c    what may happen in a state: messages, logs, clients, memberships, faults, timers
 *   ddp_check.c  what must be true of a state
 */
#ifndef SNIC_MC_DDP_WORLD_PRIV_H
#define SNIC_MC_DDP_WORLD_PRIV_H

#include "ddp_world.h"

#include <string.h>

#define DW_MESSAGES 160

enum dw_action {
    DW_NODE = 0,
    DW_DOUBLE,
    DW_LOSE,
    DW_DECIDE_OUT,
    DW_DECIDE_IN,
    DW_DECIDE_FULL,
    DW_DECIDE_RESTART,
    DW_CRASH_ALL,
    DW_OVERRIDE
};
#define DW_ACTION(kind, node, arg) ((uint64_t)(kind) << 40 | (uint64_t)(node) << 32 | (arg))

enum dw_fate { DW_OPEN = 0, DW_ANSWERED, DW_REFUSED, DW_UNKNOWN };

/* Everything but the messages; no padding. */
struct dw_head {
    uint64_t ts[DW_WRITES];
    uint64_t base[DW_WRITES]; /* of a swap: what it was of */
    uint64_t seen[DN_KEYS];
    uint64_t all[DN_KEYS]; /* the highest that a read of what is durable could return (mixes) */
    uint64_t from[2];      /* mixes: what a read that waits must not be older than */
    uint32_t node[DN_NODES];
    uint32_t view;
    uint8_t key[DW_WRITES];
    uint8_t scope[DW_WRITES];
    uint8_t owner[DW_WRITES];
    uint8_t fate[DW_WRITES]; /* enum dw_fate */
    uint8_t kind[DW_WRITES]; /* enum dn_event */
    uint8_t dur[DW_WRITES];  /* enum snic_ddp_durability */
    uint8_t pad[2];
    uint8_t read;      /* writes that could be read somewhere, bits */
    uint8_t requested; /* scopes, bits: node * 2 + scope - 1 */
    uint8_t synced;    /* answered */
    uint8_t count;     /* writes of all kinds */
    uint8_t used[10];  /* budgets */
    uint8_t caught;    /* learners that have caught up, bits */
    uint8_t begun;     /* nodes whose lease was ended, bits */
    uint8_t turn;      /* of timers, in a quiet time */
    uint8_t bad;       /* what happened on the way, DW_B_ */
    uint8_t locks;     /* budgets, too: of timers LOCK */
    uint8_t reads;     /* of reads that wait */
    uint16_t messages;
    uint8_t kept[DN_NODES][DN_KEYS]; /* of nodes that were FULL: writes + 1, 0 none, DW_LOST */
    uint8_t overrides;               /* budget */
    uint8_t pad2[7];
};
#define DW_LOST 255
enum dw_budget {
    DW_PLAIN,
    DW_DELETES,
    DW_SWAPS,
    DW_CRASHES,
    DW_EVICTIONS,
    DW_REJOINS,
    DW_RESTARTS,
    DW_DOUBLES,
    DW_LOSSES,
    DW_RESENDS
};

struct dw_state {
    struct dw_head h;
    uint32_t msg[DW_MESSAGES]; /* sorted */
};

struct dw_world {
    struct dw_opts o;
    struct dn_space *space;
    struct mc_model model;
    struct dw_state first;
};

/* What happened on the way; dw_bad_text() prints it. */
enum {
    DW_B_R2 = 1,
    DW_B_R3,
    DW_B_EVENT,
    DW_B_ANSWER,
    DW_B_RESULT,
    DW_B_ROOM,
    DW_B_TS,
    DW_B_STALE,
    DW_B_READ,
    DW_B_KEPT,
    DW_B_TEXT /* an action's own: dn_step() has it */
};

static inline void dw_load(struct dw_state *s, const void *state, size_t len)
{
    memcpy(s, state, len);
}

static inline const struct dn_sum *dw_sum(const struct dw_world *w, const struct dw_state *s,
                                          uint32_t n)
{
    return dn_sum(w->space, s->h.node[n]);
}

static inline const struct snic_ddp_view *dw_view(const struct dw_world *w,
                                                  const struct dw_state *s)
{
    return dn_view_at(w->space, s->h.view);
}

static inline int dw_mixed(const struct dw_world *w)
{
    return (w->o.mix | w->o.read_mix) != 0;
}

/* Must what such a read, or a CAS that fails, returns be durable at all? */
static inline int dw_reads_all(const struct dw_world *w, uint32_t durability)
{
    return durability == SNIC_DDP_DURABILITY_ALL ||
           (dw_mixed(w) && durability == SNIC_DDP_DURABILITY_DEFAULT &&
            (w->o.node.model == SNIC_DDP_SYNCH || w->o.node.model == SNIC_DDP_RENF));
}

static inline int dw_full(const struct dw_world *w, const struct dw_state *s, uint32_t n)
{
    return dw_view(w, s)->full >> n & 1;
}

/* ddp_world.c */
/* 1: may be taken now, 0: later perhaps, -1: never. */
int dw_fits(const struct dw_world *w, const struct dw_state *s, uint32_t message);
/* The highest timestamp of a key that was answered. */
uint64_t dw_done(const struct dw_state *s, uint32_t key);

/* ddp_env.c: of the model, and the nodes that may be left out */
uint32_t dw_actions(void *ctx, const void *state, size_t len, uint64_t *out);
int dw_calm(void *ctx, const void *state, size_t len, uint64_t *action);

/* The nodes that an operator could begin from; 0: he must not. */
uint32_t dw_override_set(const struct dw_world *w, const struct dw_state *s);

/* ddp_check.c */
/* Does a node that has this hold all up to ts? What is absent is deleted. */
int dw_holds(const struct dw_state *s, uint32_t key, uint64_t has, uint64_t ts);
const char *dw_check(void *ctx, const void *state, size_t len);
const char *dw_settled(void *ctx, const void *state, size_t len);

#endif /* SNIC_MC_DDP_WORLD_PRIV_H */
