/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The inside of member: shared by the files of this module and its tests.
 *
 *   member.c    boot, events, actions, time
 *   register.c  the Paxos register of the next epoch: promises, votes, the record on disk
 *   lease.c     heartbeats, grants, fences: when a vote for an exclusion is allowed
 *   policy.c    who is alive, what the next view should be
 *   proposer.c  who proposes it and when
 *   config.c    adding, removing, replacing nodes: requests, and what they make of a view
 *   view.c      majorities, views and records that make sense
 *   check.c     the invariants below
 *
 * Invariants of one node
 *   M1  decided.epoch never falls; the register worked on is decided.epoch + 1.
 *   M2  accepted <= promised; accepted != 0 iff proposal is a view of epoch decided.epoch + 1.
 *   M3  A promise or vote is answered only once stored >= the generation that holds it.
 *   M4  VIEW(decided) comes only once it is stored, and never out of the file read at BOOT.
 *   M5  A lease is held only as FULL of the installed view, which is the newest decided that this
 *       node knows, under its own stored incarnation, and not fenced in it.
 *   M6  A grant to a node lasts longer than any lease made of it; no vote excludes a holder before.
 *   M7  No grant goes to a node that the accepted or the parked view excludes.
 *   M8  Before quiet_ns (after a boot) this node neither grants nor votes for an exclusion.
 *   M9  A mute node neither promises, votes, grants nor proposes.
 *   M10 A ballot holds its proposer's number and stored incarnation: no two proposals share one.
 *   M11 Actions are only flags until they are polled: their fields are read from the state then.
 *   M12 A node that voted for a view of another configuration grants no more in the epoch before
 *       it; one that learns such a view votes for no exclusion before config_quiet_ns.
 *   M13 Only the file that the view names (voter) promises, votes and grants; before the first view
 *       only a node that was started as FIRST, and that view takes all of them.
 */
#ifndef SNIC_MEMBER_PRIV_H
#define SNIC_MEMBER_PRIV_H

#include "snicstore/member.h"

#include <string.h>

/* A test build plants defects by number; see tests/member/test_member_teeth.c. */
#ifndef SNIC_MEMBER__BUG
#define SNIC_MEMBER__BUG(n) 0
#endif

/* Heartbeats whose grants may still come. */
#define SNIC_MEMBER__LEASE_REQUESTS 8
/* A ballot: 28 bits of round, 32 of incarnation, 4 of node. */
#define SNIC_MEMBER__ROUND_MAX ((UINT64_C(1) << 28) - 1)

/* Of each other node; of the own one only the grant and left_ns. */
struct member_peer {
    uint64_t heard_ns;  /* its last heartbeat; valid if heard */
    uint64_t mutual_ns; /* its last heartbeat that acknowledges this process; valid if mutual */
    uint64_t seq;
    uint64_t grant_until_ns; /* M6; 0: none */
    uint64_t slow_ns;        /* since when it is reported slow; SNIC_NEVER */
    uint64_t left_ns;        /* when a view without it was learned; SNIC_NEVER */
    uint64_t silent_ns;      /* since when it is reported silent, with no slow log; SNIC_NEVER */
    uint64_t flush_ns;       /* of its last heartbeat: how long its oldest flush has run */
    uint32_t grant_incarnation;
    uint32_t incarnation; /* the highest heard of */
    uint32_t flags;       /* of its last heartbeat */
    uint32_t epoch;       /* likewise */
    uint16_t hears;       /* likewise */
    uint8_t heard;
    uint8_t mutual;
    uint8_t silent; /* the data path reports it so */
    uint8_t pad[3];
    uint32_t since; /* of its file */
    uint32_t pad2;
};

struct member_lease_request {
    uint64_t seq; /* 0: none */
    uint64_t sent_ns;
    uint64_t granted; /* mask */
};

enum member_phase { MEMBER_IDLE = 0, MEMBER_PREPARING, MEMBER_ACCEPTING };

/* What poll has still to give, in this order (M11). */
struct member_due {
    uint32_t fence; /* LEASE 0, before any message that depends on it */
    uint32_t store;
    uint32_t view;
    uint32_t lease;
    uint32_t confirmed;
    uint16_t send[SNIC_MEMBER_MSG_TYPES]; /* masks by type */
    uint16_t pad;
};

/* The operator's request, until a view has it. */
struct member_change {
    uint32_t kind; /* enum snic_member_change; 0: none */
    uint32_t node;
    uint32_t base; /* config_epoch at that time */
    uint32_t witness;
    uint32_t state; /* enum snic_member_change_state */
    uint8_t addr[SNIC_MEMBER_ADDR_MAX];
    uint32_t pad;
};

struct snic_member {
    struct snic_member_opts opts;
    uint64_t now_ns;
    uint64_t grant_ns;        /* of lease_max_ns, by the granter's clock */
    uint64_t quiet_ns;        /* M8: until then; 0: not */
    uint64_t config_quiet_ns; /* M12: likewise */
    uint64_t base_ns;         /* silence of a peer counts from here at the earliest */
    uint64_t heartbeat_at_ns;
    uint64_t seq;

    struct snic_member_record rec;
    uint64_t generation; /* of rec, counts its changes */
    uint64_t stored;     /* durable is at least this */
    uint64_t storing;    /* 0: no STORE is out */
    uint64_t incarnation_generation;
    uint64_t promise_generation; /* 0: no PROMISE is owed */
    uint64_t accept_generation;  /* 0: no ACCEPTED is owed */
    uint64_t view_generation;    /* 0: no VIEW is owed */
    uint32_t installed;          /* epoch of the last VIEW */
    uint32_t role;
    uint32_t booted;
    uint32_t fenced; /* no lease in views up to this epoch; 0 */

    uint64_t lease_until_ns;
    uint64_t confirmed;     /* the newest request that a majority granted in this epoch */
    uint64_t confirmed_ns;  /* when it was sent */
    uint64_t request;       /* the newest one sent in this epoch */
    uint64_t confirm_above; /* a confirmation above this request is wanted; SNIC_NEVER: none */
    uint64_t confirm_at_ns; /* when the request for it is sent again */
    struct member_lease_request lease_requests[SNIC_MEMBER__LEASE_REQUESTS];

    /* Acceptor: a vote that waits for leases to end. */
    uint64_t parked; /* ballot; 0: none */
    uint64_t parked_until_ns;
    struct snic_member_view parked_view;
    uint64_t busy_ns; /* the last sign of another's proposal in this register */
    uint16_t gone;    /* of decided.full: fenced in it, or ended */
    uint16_t dead;    /* the operator's word */
    uint32_t busy;

    /* Proposer. */
    uint32_t phase;
    uint16_t promises;
    uint16_t votes;
    uint64_t ballot;
    uint64_t round;                /* above all seen in this register */
    uint64_t best;                 /* the highest accepted among the promises */
    uint64_t want_at_ns;           /* SNIC_NEVER: no reason to propose */
    uint64_t retry_at_ns;          /* while not idle */
    uint64_t give_up_ns;           /* likewise */
    uint64_t tries;                /* without success, in this register */
    struct snic_member_view value; /* of best; in ACCEPTING what is proposed */

    /* Policy. */
    uint64_t stuck_ns; /* since when no FULL node runs; SNIC_NEVER */
    uint32_t log_good;
    uint32_t any_log; /* the operator's word */
    uint32_t caught_up;
    uint32_t learner_since; /* epoch; 0: is none */
    uint32_t need_epoch;
    uint32_t born; /* the incarnation it booted under */

    uint64_t flush_ns; /* of the own log */
    struct member_change change;

    uint64_t refused;
    uint64_t foreign;
    uint64_t proposals;
    struct member_due due;
    struct member_peer peers[SNIC_MEMBER_NODES_MAX];
};

static inline uint16_t member_bit(uint32_t node)
{
    return (uint16_t)(1u << node);
}

static inline int member_has(uint32_t mask, uint32_t node)
{
    return (int)(mask >> node & 1);
}

static inline uint32_t member_ballot_node(uint64_t ballot)
{
    return (uint32_t)(ballot & 15);
}

static inline uint16_t member_configured(const struct snic_member *m)
{
    return m->rec.decided.epoch != 0 ? m->rec.decided.configured : m->opts.configured;
}

static inline uint16_t member_witness(const struct snic_member *m)
{
    return m->rec.decided.epoch != 0 ? m->rec.decided.witness : m->opts.witness;
}

/* Configured nodes that may hold data. */
static inline uint16_t member_data(const struct snic_member *m)
{
    return (uint16_t)(member_configured(m) & ~member_witness(m));
}

static inline uint16_t member_view_voters(const struct snic_member_view *v)
{
    return (uint16_t)(v->configured & ~v->vacant);
}

/* Those of whom the next register needs a majority; before the first view all. */
static inline uint16_t member_electorate(const struct snic_member *m)
{
    if (SNIC_MEMBER__BUG(28))
        return m->opts.configured;
    if (SNIC_MEMBER__BUG(30) && m->rec.decided.epoch != 0)
        return m->rec.decided.configured;
    if (SNIC_MEMBER__BUG(35) && m->rec.accepted != 0)
        return member_view_voters(&m->rec.proposal);
    return m->rec.decided.epoch != 0 ? member_view_voters(&m->rec.decided) : m->opts.configured;
}

/* The floor of FULL nodes: writes need as many, and a slow log evicts no node below it. */
static inline uint32_t member_min_full(const struct snic_member *m)
{
    if (m->opts.min_full != 0)
        return m->opts.min_full;
    return (uint32_t)__builtin_popcount(member_data(m) & member_electorate(m)) / 2 + 1;
}

/* Has everything that is due been polled? */
static inline int member_is_polled(const struct snic_member *m)
{
    static const struct member_due none;
    return memcmp(&m->due, &none, sizeof(none)) == 0;
}

/* Has it no vote? (M13) */
static inline int member_is_mute(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    if (SNIC_MEMBER__BUG(24))
        return 0;
    if (v->epoch == 0)
        return (m->rec.flags & SNIC_MEMBER_REC_FIRST) == 0;
    if (SNIC_MEMBER__BUG(30) || SNIC_MEMBER__BUG(28))
        return m->rec.since < v->voter[m->opts.node];
    if (SNIC_MEMBER__BUG(34))
        return v->voter[m->opts.node] > m->rec.since;
    if (SNIC_MEMBER__BUG(36))
        return !member_has(member_view_voters(v), m->opts.node);
    return !member_has(member_view_voters(v), m->opts.node) ||
           v->voter[m->opts.node] != m->rec.since;
}

/* Has a view passed over that file of a configured node, for a later one? */
static inline int member_is_dead_file(const struct snic_member_view *v, uint32_t n, uint32_t since)
{
    return member_has(v->configured, n) && !SNIC_MEMBER__BUG(29) &&
           (since < v->voter[n] || (since == v->voter[n] && member_has(v->vacant, n)));
}

/* A log is worth something for a view in which it was FULL under an incarnation of this file: one
 * that began later may look good because it is empty. */
static inline int member_log_is_good(const struct snic_member *m)
{
    if (SNIC_MEMBER__BUG(25))
        return (int)m->log_good;
    return m->log_good && m->rec.decided.incarnation[m->opts.node] >= m->rec.since;
}

/* Is the own incarnation on disk, so that it may be sent? */
static inline int member_is_named(const struct snic_member *m)
{
    return m->booted && m->rec.incarnation != 0 &&
           (m->stored >= m->incarnation_generation || SNIC_MEMBER__BUG(23));
}

/* Is a node, in an incarnation, FULL there? */
static inline int member_is_full(const struct snic_member_view *v, uint32_t node, uint32_t inc)
{
    return member_has(v->full, node) && v->incarnation[node] == inc;
}

/* view.c */
uint16_t member_alive(const struct snic_member *m);
uint32_t member_incarnation_of(const struct snic_member *m, uint32_t n);
uint32_t member_since_of(const struct snic_member *m, uint32_t n);
int member_is_majority(const struct snic_member *m, uint32_t mask);
int member_is_blank(const struct snic_member *m);
void member_renumber(struct snic_member *m, uint32_t above);
int member_view_is_sane(const struct snic_member_view *v);
int member_record_is_sane(const struct snic_member_record *r);
void member_changed(struct snic_member *m);

/* register.c */
void member_learn(struct snic_member *m, const struct snic_member_view *v);
void member_on_stored(struct snic_member *m);
int member_on_register(struct snic_member *m, const struct snic_member_msg *msg);
void member_try_vote(struct snic_member *m);
void member_propose(struct snic_member *m);
void member_resend(struct snic_member *m);

/* lease.c */
uint64_t member_grant_span(const struct snic_member *m, uint64_t lease_ns);
void member_heartbeat(struct snic_member *m);
uint16_t member_hears(const struct snic_member *m);
uint16_t member_peers(const struct snic_member *m);
int member_confirm(struct snic_member *m);
void member_confirm_go_on(struct snic_member *m);
int member_on_heartbeat(struct snic_member *m, const struct snic_member_msg *msg);
int member_on_grant(struct snic_member *m, const struct snic_member_msg *msg);
int member_on_fence(struct snic_member *m, const struct snic_member_msg *msg);
int member_on_fence_ack(struct snic_member *m, const struct snic_member_msg *msg);
void member_fence_self(struct snic_member *m, uint32_t epoch);
uint64_t member_vote_time(struct snic_member *m, const struct snic_member_view *v, uint16_t *whom);

/* config.c */
int member_on_change(struct snic_member *m, const struct snic_member_event *ev);
void member_change_learned(struct snic_member *m);
void member_change_apply(const struct snic_member *m, struct snic_member_view *v);
void member_change_name(const struct snic_member *m, struct snic_member_view *v);
int member_change_found(const struct snic_member *m, struct snic_member_view *v);

/* policy.c */
uint16_t member_slow(const struct snic_member *m);
uint16_t member_silent(const struct snic_member *m);
int member_next_view(const struct snic_member *m, struct snic_member_view *out);
uint16_t member_restart_missing(const struct snic_member *m);
uint16_t member_running(const struct snic_member *m);

/* proposer.c */
void member_consider(struct snic_member *m);

#endif /* SNIC_MEMBER_PRIV_H */
