/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the files of this model share; member_world.h. */
#ifndef SNIC_MC_MEMBER_WORLD_PRIV_H
#define SNIC_MC_MEMBER_WORLD_PRIV_H

#include "member_world.h"

#define MW_MESSAGES 120
#define MW_EPOCHS 8
#define MW_VOTES 10

enum mw_action { MW_NODE = 0, MW_DOUBLE, MW_TIME, MW_LATE };
#define MW_ACTION(kind, node, event)                                                               \
    ((uint64_t)(kind) << 40 | (uint64_t)(node) << 32 | (uint32_t)(event))

enum mw_budget {
    MW_PROPOSALS,
    MW_RESENDS,
    MW_SILENCES,
    MW_EXPIRIES,
    MW_CRASHES,
    MW_BOOTS,
    MW_LOSSES,
    MW_DOUBLES,
    MW_WAITS,
    MW_BEATS,
    MW_SUSPECTS,
    MW_LATES,
    MW_CHANGES,
    MW_OLDS,
    MW_CONFIRMS,
    MW_BUDGETS = 16
};

/* A vote that is on disk. */
struct mw_vote {
    uint64_t ballot;
    uint32_t view;
    uint32_t who;
};

/* Of a grant: which heartbeat it answered. */
struct mw_grant {
    uint32_t incarnation; /* 0: none */
    uint32_t seq;
};

/* Everything but the messages; no padding. */
struct mw_head {
    struct mw_vote vote[MW_VOTES]; /* sorted; of the newest epoch with a choice, and later */
    struct mw_grant grant[MN_NODES][MN_NODES]; /* [who gave][to whom] */
    uint32_t node[MN_NODES];
    uint32_t chosen[MW_EPOCHS];           /* view + 1 */
    uint32_t over[MN_NODES];              /* leases requested up to this heartbeat have ended */
    uint32_t caught[MN_NODES];            /* incarnation that caught up */
    uint32_t sent_as[MN_NODES];           /* the last it sent messages under */
    uint32_t since[MN_NODES];             /* the first of its file and log */
    uint32_t suspect[MN_NODES];           /* the last whose log was not good */
    uint32_t before[MW_EPOCHS][MN_NODES]; /* its last request when that configuration was chosen */
    uint32_t wanted[MN_NODES]; /* newest epoch chosen when it wanted a confirmation, + 1 */
    uint32_t above[MN_NODES];  /* by a later request than this */
    uint8_t used[MW_BUDGETS];
    uint8_t bad;     /* what happened on the way, index of mw_bads */
    uint8_t culprit; /* MW_B_TEXT: who, and by which event */
    uint16_t messages;
    uint32_t event;
    uint32_t now; /* true time since the clock went, MN_UNITs */
    uint32_t pad;
};

struct mw_state {
    struct mw_head h;
    uint32_t msg[MW_MESSAGES]; /* sorted */
};

struct mw_world {
    struct mw_opts o;
    struct mn_space *space;
    struct mc_model model;
    struct mw_state first;
    uint32_t nodes;
    uint32_t founders;
    uint32_t begun; /* messages may be lost now */
};

enum {
    MW_B_CHOSEN = 1,
    MW_B_SKIPPED,
    MW_B_BALLOT,
    MW_B_FILE,
    MW_B_PROMISE,
    MW_B_FULL,
    MW_B_LOG,
    MW_B_LEARNER,
    MW_B_BACK,
    MW_B_TWICE,
    MW_B_CONFIRM,
    MW_B_CONFIG,
    MW_B_VOTER,
    MW_B_EVENT,
    MW_B_ROOM,
    MW_B_TEXT
};
static inline const struct mn_sum *mw_sum(const struct mw_world *w, const struct mw_state *s,
                                          uint32_t n)
{
    return mn_sum(w->space, s->h.node[n]);
}

/* Is a node, in an incarnation, one of those @members of a view? */
static inline int mw_is(uint32_t members, const struct snic_member_view *v, uint32_t n,
                        uint32_t inc)
{
    return (members >> n & 1) != 0 && v->incarnation[n] == inc;
}

/* ---- member_world.c ---- */

void mw_take(struct mw_state *s, uint32_t message);
/* 0: it had no effect. */
int mw_node_event(struct mw_world *w, struct mw_state *s, uint32_t n, uint32_t event);

/* ---- member_chosen.c ---- */

/* The node's STORE is on its disk. */
void mw_on_disk(struct mw_world *w, struct mw_state *s, uint32_t n);

/* ---- member_begin.c ---- */

/* The state to begin with; then w->begun, with the defect, and the clock goes. */
void mw_begin_state(struct mw_world *w);

/* ---- member_clock.c ---- */

/* When something is due next, in true time; 0: not before the end. */
uint32_t mw_clock_next(const struct mw_world *w, const struct mw_state *s);
/* Is there nothing that must happen first? */
int mw_clock_may(const struct mw_world *w, const struct mw_state *s);
/* It is so late now; keep: what is under way stays, else it is lost. */
void mw_clock_go(struct mw_world *w, struct mw_state *s, uint32_t at, uint32_t keep);

#endif /* SNIC_MC_MEMBER_WORLD_PRIV_H */
