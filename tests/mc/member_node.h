/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Single nodes of a membership, for the explorer: the real engine and its file.
 *
 * No time passes (amendment A13): after each event all that the engine knows of times is put back
 * to "now", "armed" or "over", and what time brings comes as events: a heartbeat, a proposal, a
 * peer that fell silent, the end of the own lease, of a grant, of the quiet after a boot. The
 * sender of these events applies the rule of leases (member_world.h). Counters that decide nothing
 * are put back, too, so that equal nodes have equal bytes.
 */
#ifndef SNIC_MC_MEMBER_NODE_H
#define SNIC_MC_MEMBER_NODE_H

#include "mc_intern.h"
#include "snicstore/member.h"

#define MN_NODES 3
#define MN_UNIT 10000 /* ns */
#define MN_OUT 24

enum mn_event {
    MN_MESSAGE = 1, /* arg: message */
    MN_STORED,
    MN_BEAT,
    MN_PROPOSE,
    MN_RESEND,
    MN_SILENT,    /* arg: peer */
    MN_EXPIRE,    /* the own lease, and all requested so far */
    MN_GRANT_END, /* arg: to whom */
    MN_QUIET_END,
    MN_WAITED, /* long enough for the rest of the FULL, for a restart */
    MN_CAUGHT_UP,
    MN_CRASH,      /* arg: 1: what was being stored is durable */
    MN_BOOT,       /* arg: enum mn_boot_flag */
    MN_WIND,       /* time begins to pass */
    MN_CLOCK,      /* arg: true time since, MN_UNITs */
    MN_CHANGE,     /* arg: MN_CHANGE_OF() */
    MN_CONFIG_END, /* the quiet after a view of another configuration */
    MN_CONFIRM
};
enum mn_boot_flag {
    MN_LOST = 1,    /* the file, and the log with it */
    MN_SUSPECT = 2, /* the log is not good (A8) */
    MN_FOUND = 4,   /* with FIRST, where there is a cluster already */
    MN_OLD = 8      /* with the file that was lost */
};
/* An operator's request: enum snic_member_change, and the node. */
#define MN_CHANGE_OF(kind, node) ((uint32_t)(kind) << 2 | (uint32_t)(node))
#define MN_EVENT(kind, arg) ((uint32_t)(kind) << 27 | (uint32_t)(arg))

/* What a node looks like from outside. */
struct mn_sum {
    uint8_t alive;
    uint8_t id;
    uint8_t has_disk;
    uint8_t storing;
    uint8_t role;
    uint8_t leased;
    uint8_t requested; /* grants that come now could make a lease */
    uint8_t armed;     /* it has a reason to propose */
    uint8_t phase;     /* of its proposal, 0: none */
    uint8_t quiet;     /* after a boot */
    uint8_t stuck;     /* no FULL node runs, as far as it hears */
    uint8_t caught;    /* up */
    uint8_t has_old;   /* a file that was lost */
    uint8_t config;    /* quiet after another configuration */
    uint8_t wants;     /* for a confirmation */
    uint8_t pad[3];
    uint32_t config_epoch;
    uint32_t since;
    uint16_t granted; /* to whom, bits */
    uint16_t hears;
    uint32_t seq;
    uint32_t incarnation;
    uint32_t installed;
    uint32_t view; /* decided: number, of epoch: */
    uint32_t epoch;
    uint64_t wake_ns; /* where time passes: its deadline */
    const char *bad;  /* its own check failed */
};

struct mn_message {
    struct snic_member_msg msg;
    uint32_t dst;
    uint32_t pad;
};

struct mn_result {
    uint64_t event; /* node state << 32 | event */
    uint32_t node;
    int32_t status;
    uint32_t confirmed; /* by which request; 0: none */
    uint32_t outs;
    uint32_t out[MN_OUT];
    const char *bad;
    char *owned;
};

struct mn_space;
struct mn_space_opts {
    uint32_t blind; /* without the engine's own check */
    uint32_t nodes;
    uint32_t timed;
    uint32_t founders; /* 0: all; bits */
    uint32_t witness;
    uint32_t add_witness; /* what is added is one */
    uint32_t below;       /* numbers of new files: below those of the first, each once */
    int32_t ppm[MN_NODES];
};
struct mn_space *mn_space_new(const struct mn_space_opts *o);
/* When its clock shows that, MN_UNITs of true time. */
uint32_t mn_true(const struct mn_space *s, uint32_t node, uint64_t local_ns);
void mn_space_free(struct mn_space *s);
uint32_t mn_begin(struct mn_space *s, uint32_t id); /* never ran */
const struct mn_result *mn_step(struct mn_space *s, uint32_t node, uint32_t event);
const struct mn_sum *mn_sum(const struct mn_space *s, uint32_t node);
const struct mn_message *mn_message(const struct mn_space *s, uint32_t message);
const struct snic_member_view *mn_view(const struct mn_space *s, uint32_t view);
uint32_t mn_view_number(struct mn_space *s, const struct snic_member_view *v);
/* Its file, and what is being stored. */
const struct snic_member_record *mn_disk(const struct mn_space *s, uint32_t node);
const struct snic_member_record *mn_store(const struct mn_space *s, uint32_t node);

/* ---- member_engine.c: what needs the engine's layout ---- */

/* The only time there is. */
#define MN_NOW ((uint64_t)1 << 44)

/* The defect that is switched on, 0: none (test_member_teeth.c lists them). */
extern unsigned mn_bug;
_Noreturn void mn_assert_fail(const char *file, int line, const char *text);
/* Put times and counters back. */
void mn_still(struct snic_member *m);
/* Let them go from here. */
void mn_wind(struct snic_member *m);
uint64_t mn_now(const struct snic_member *m);
/* What is no event of the engine's but what time brings, from MN_BEAT to MN_WAITED; TICK follows.
 */
void mn_time(struct snic_member *m, uint32_t kind, uint32_t arg);
/* Fills in of sum what there is while a node is alive, but for view and bad. */
void mn_look(const struct snic_member *m, struct mn_sum *sum, struct snic_member_view *decided);
uint32_t mn_incarnation(const struct snic_member *m);
uint64_t mn_storing(const struct snic_member *m); /* STORE's id */

#endif /* SNIC_MC_MEMBER_NODE_H */
