/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Three membership engines as a model for the explorer.
 *
 * It begins in epoch 1: all are FULL, hold a lease and have granted one to each other. From there
 * messages come in any order or not at all; files are written at any time; a node sends heartbeats,
 * proposes when it wants to, stops hearing another, crashes with or without what it was storing,
 * boots, catches up, each within a budget. No time passes (member_node.h), but leases end: a node's
 * own at any time, with all it requested until then; a grant, and the quiet after a boot, when
 * the leases made of what this node granted have ended (A13). That they are counted so is what the
 * simulation checks (test_member_sim.c), with clocks that drift, and small scopes in which time
 * does pass (`ends`): all then happens at the engine's own deadlines, and what the budgets
 * count is messages that are late.
 *
 * Checked at each state; chosen is what a majority of files voted for in one ballot:
 * S1  a lease holder is FULL in every later view that was chosen (P2)
 * S2  an epoch has one chosen view; what any node knows as decided was chosen (P1)
 * S3  a file never goes back (P1)
 * S4  each chosen view follows from the one before (P3, P4); in a restart good logs only
 * S5  no two processes of a node speak under one incarnation
 * S6  a confirmation comes only to one who was FULL in all views chosen when it was wanted
 * S7  a configuration changes in a view whose config_epoch is its own, by one node, and only a FULL
 *     node or a witness gets a vote, for a file later than those that had it (P5)
 * snic_member_check(), assertions.
 */
#ifndef SNIC_MC_MEMBER_WORLD_H
#define SNIC_MC_MEMBER_WORLD_H

#include "member_node.h"

enum mw_begin {
    MW_ALL = 0, /* epoch 1, as above */
    MW_OUT,     /* epoch 2: the last node was voted out and wants to come back */
    MW_LEARNER, /* epoch 3: it is a learner */
    MW_BOOTED,  /* epoch 1; the middle node forgot the grant that the last one's lease rests on */
    MW_FREE,    /* epoch 1; no lease and no grant */
    MW_STOPPED, /* epoch 2, likewise: the last node was voted out, the others have crashed */
    MW_NEW,     /* before the first view: all have been heard */
    MW_VACANT,  /* epoch 2, no lease and no grant: the last node was added or replaced, and runs */
    MW_ADDED,   /* epoch 3, likewise: it is a learner */
    MW_RENEWED  /* epoch 4: the middle node was replaced, and the first one's lease rests on a grant
                   of the one before */
};

/* A pair of nodes in such bits. */
#define MW_PAIR(a, b) (1u << ((a)*MN_NODES + (b)))
#define MW_BOTH(a, b) (MW_PAIR(a, b) | MW_PAIR(b, a))

struct mw_opts {
    uint32_t begin; /* enum mw_begin */
    uint32_t beats; /* heartbeats */
    uint32_t proposals;
    uint32_t resends;
    uint32_t silences;
    uint32_t expiries;
    uint32_t crashes;
    uint32_t boots;
    uint32_t losses;   /* of files */
    uint32_t suspects; /* boots with a log that is not good */
    uint32_t doubles;
    uint32_t waits;    /* for a restart */
    uint32_t bug;      /* see mn_bug */
    uint32_t blind;    /* without snic_member_check() */
    uint32_t founders; /* 0: all; bits: the others are added */
    uint32_t witness;
    uint32_t changes;
    uint32_t change[3];   /* which: nodes by enum snic_member_change - 1 */
    uint32_t add_witness; /* what is added is one */
    uint32_t below;       /* numbers of new files: below those of the first, each once */
    uint32_t misuse;      /* who lost its file is started with FIRST */
    uint32_t olds;        /* boots with a file that was lost */
    uint32_t confirms;
    uint32_t clockless; /* clocks mean nothing: grants end at any time; all but S1 holds */
    uint32_t nodes;     /* 0: MN_NODES */
    /* Where the rest is too much: only what these bits select happens; 0: all. */
    uint32_t who[MN_CONFIRM + 1]; /* by event: nodes; MN_SILENT: pairs, who hears not whom */
    uint32_t losers; /* of boots: nodes, which lose their files, and no one else; 0: any may */
    uint32_t links;  /* messages arrive: pairs, from whom to whom */
    uint32_t types;  /* and of these types */
    /* Where time passes (member_clock.c): */
    uint32_t ends;         /* after so many MN_UNITs of true time; 0: no time passes */
    int32_t ppm[MN_NODES]; /* how much faster the clocks go */
    uint32_t sure;         /* links that lose nothing: pairs */
    uint32_t lates;        /* how often what is under way stays so while time passes */
};

struct mw_world;
struct mw_world *mw_new(const struct mw_opts *o);
void mw_free(struct mw_world *w);
const struct mc_model *mw_model(struct mw_world *w);

#endif /* SNIC_MC_MEMBER_WORLD_H */
