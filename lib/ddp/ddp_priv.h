/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine's inside: shared by the files of this module and its tests.
 *
 * One block of memory (core.h): struct snic_ddp, records, index, writes, waits, reads, scopes.
 *
 * How a step runs: the event's handler changes the state, emits a few actions and marks records
 * dirty; poll, whenever the ring is empty, does one piece of the work that is left (ddp_work),
 * until there is none. So the ring is small, whatever an event sets off, and the rules of the
 * models are applied in one place: ddp_eval, which looks at a dirty record, its writes, waits and
 * reads.
 *
 * Invariants (numbered, cited in the code; snic_ddp_check tests them):
 * I1  rd is 0 or vts. (MINOS-B: a write is applied in the step that makes its timestamp.)
 * I2  gv, gd <= vts; every timestamp of a record only grows (Rule M).
 * I3  vts > dts: an APPEND of vts is on its way to the log.
 * I4  The record owns the handle of vts, a write the handle of its own ts once vts has passed it
 *     (DDP_W_OWNS). A tombstone has none. Each handle is released once.
 * I5  A locked record, by Strict's rules one whose gd lags, and one that a read of what is durable
 *     waits for, has a live write of vts here or an armed timer (QUERY, then replay): nothing waits
 *     without one of the two to end that.
 * I6  Between steps nothing is dirty, no read is ready, the ring is empty.
 * I7  A write waits for acknowledgements of d->others only: the present epoch's.
 * I8  A record with vts 0 is there for a CAS in flight only.
 * I9  A replay waits for logs only, here and at the others, never for another write. So the write
 *     that is kept free for replays becomes free again, and each that I5 or a restart wants gets
 *     its turn. In PAPER, where older writes wait for newer ones, an older replay is acknowledged
 *     as in FAST: an acknowledgement means that this write or a newer one is stored (is durable)
 *     here, and that is all that gv, gd, an unlock, an answer or a CAS is concluded from, in any
 *     model. Nothing depends on the newer one being complete, which is what PAPER waits for. A
 *     CAS that is not decided does not wait either: an older one is refused (C1).
 * I10 A hint is a record that the node brought into its present part as a learner and that the
 *     donor has not confirmed. ddp_find() does not see it: to the protocol the key is absent. It
 *     has neither write, wait, read nor timer. Its dts is what the log has of it, its vts is what
 *     it would be if confirmed. A node that is FULL has none.
 */
#ifndef SNIC_DDP_PRIV_H
#define SNIC_DDP_PRIV_H

#include "ddp/core.h"

/* Actions held: the most that one handler or one piece of work emits, PULL's, is below half. */
#define SNIC_DDP__RING 32
#define SNIC_DDP__ROOM 12    /* of the ring, that must be free to begin another part of a piece */
#define SNIC_DDP__RUNS 16    /* of ranges, that a learner compares at a time */
#define SNIC_DDP__SPLIT 4    /* ranges of a run */
#define SNIC_DDP__OFFERS 14  /* records that a PULL is answered with */
#define SNIC_DDP__SWEEP 4096 /* records of a restart that a step looks at */
#define SNIC_DDP__RANGES 64  /* of keys, that a restart compares */
/* A value of more bytes is not sent again before a node has answered that it does not have it. */
#define SNIC_DDP__RESEND 4096

/* SNIC_DDP_MSG_TOMBSTONE is one, too. */
enum ddp_rec_flag {
    DDP_R_USED = 1 << 8,
    DDP_R_DIRTY = 1 << 9,
    DDP_R_CAS = 1 << 10,      /* vts is a CAS that is not known to be decided: replayed as one */
    DDP_R_PERMIT = 1 << 11,   /* its coordinator has declined to decide it */
    DDP_R_QUERIED = 1 << 12,  /* QUERY was sent: the next time-out replays */
    DDP_R_URGED = 1 << 13,    /* a background APPEND of vts was followed by a FLUSH */
    DDP_R_REPLACES = 1 << 14, /* the log has a higher timestamp that is void: see APPEND */
    DDP_R_ABOVE = 1 << 15     /* the log has a higher timestamp that the donor may have, too */
};

/*
 * The rules of a write: a number of snic_ddp.rules, which is an enum snic_ddp_model or DDP_HERE. In
 * the flags of records (of vts) and writes from this bit on, in a message's from
 * SNIC_DDP_MSG_RULES on.
 */
#define SNIC_DDP__RULE 20
#define SNIC_DDP__RULES 8 /* a power of two */
enum { DDP_HERE = SNIC_DDP_SCOPE + 1 };

/* 128 bytes; a local read needs the first half only. */
struct ddp_rec {
    struct snic_ddp_key key;
    uint64_t vts;   /* volatileTS: the timestamp of value */
    uint64_t rd;    /* RDLock_Owner: 0, or the write that reads wait for */
    uint64_t value; /* handle of vts (I4) */
    uint32_t length;
    uint32_t flags;
    uint64_t gv;            /* glb_volatileTS: known to be stored everywhere */
    uint64_t gd;            /* glb_durableTS: known to be durable everywhere */
    uint64_t dts;           /* the highest that the own log has durable */
    struct ddp_timer timer; /* of a lock that no write here will lift (I5) */
    uint32_t hash;
    uint32_t writes; /* coordinated or replayed here, list */
    uint32_t waits;  /* of acknowledgements due, list */
    struct ddp_list reads;
    uint32_t dirty;   /* the next dirty one; of a free record the next free one */
    uint32_t queries; /* of vts, at most SNIC_DDP__PATIENCE: sets the delay of the next one only */
    uint32_t part;    /* another than the engine's: a hint (I10) */
};
SNIC_STATIC_ASSERT(sizeof(struct ddp_rec) == 128, "two cache lines");
SNIC_STATIC_ASSERT(offsetof(struct ddp_rec, dts) == 64, "a read's half");

/* SNIC_DDP_MSG_CAS (undecided) and _TOMBSTONE are two, too. */
enum ddp_write_flag {
    DDP_W_USED = 1 << 8,
    DDP_W_CLIENT = 1 << 9,    /* an answer is due */
    DDP_W_REPLAY = 1 << 10,   /* of a write of any node */
    DDP_W_OWNS = 1 << 11,     /* value is this write's to release (I4) */
    DDP_W_VAL = 1 << 12,      /* sent, in this epoch */
    DDP_W_VAL_P = 1 << 13,    /* sent, in this epoch */
    DDP_W_SETTLE = 1 << 14,   /* first half of a CAS: does everybody hold what it is based on? */
    DDP_W_ABORTED = 1 << 15,  /* a CAS that lost: answered with what the key holds, once readable */
    DDP_W_RESTART = 1 << 16,  /* replay of a full restart */
    DDP_W_DEAD_KEY = 1 << 17, /* CAS that deletes: the tombstone flag of its second half */
    DDP_W_DURABLE = 1 << 18,  /* CAS: if it fails it is a read of what is durable at all */
    DDP_W_FOR_READ = 1 << 19  /* reads are pinned to its value (read.c) */
};

struct ddp_write {
    uint64_t ts;
    uint64_t token;
    uint64_t value; /* DDP_W_OWNS: of ts; of a SETTLE what it will write */
    uint64_t scope;
    uint64_t floor; /* SETTLE: all nodes have been sent it, and number above it */
    struct ddp_timer timer;
    uint32_t rec;
    uint32_t length;
    uint32_t next; /* on the record's list; of a free one the next free one */
    uint32_t flags;
    uint16_t ack_c; /* who has stored it, in the present incarnation */
    uint16_t ack_p; /* who has it durable */
    uint16_t tries;
    uint16_t late;      /* whom it holds to be slow (ddp_suspect) */
    uint16_t silent;    /* of them, those that do not respond at all */
    uint16_t heard;     /* who responded since the last retransmission */
    uint8_t copies_min; /* FULL members that the answer must stand for */
    uint8_t rule; /* SETTLE: of the CAS itself; until then w has those of what it is based on */
};

enum ddp_wait_flag {
    DDP_A_USED = 1,
    DDP_A_OWES_C = 2,
    DDP_A_OWES_P = 4,  /* with DDP_ONE: both at once */
    DDP_A_PERSIST = 8, /* FLUSH is under way for another node's [PERSIST]sc */
    DDP_A_DEAD = 16,   /* FLUSHED is still to come and will be ignored */
    DDP_A_CAS = 32,    /* the INV was a CAS's: so is its acknowledgement */
    DDP_A_ONE = 64,    /* DDP_ONE: ACK is due, not ACK_P */
    DDP_A_LOG = 128    /* PAPER: tau's rules never raise gd: due when dts >= ts */
};

/* An acknowledgement that is due. */
struct ddp_wait {
    uint64_t ts;
    uint64_t tau; /* not 0 (PAPER): due when the write tau is complete instead of when dts >= ts */
    uint64_t scope; /* of a [PERSIST]sc; with DDP_A_CAS the INV's floor */
    uint32_t rec;   /* none for a [PERSIST]sc */
    uint32_t next;
    uint8_t flags;
    uint8_t src; /* whom it is due to */
    uint8_t pad[2];
    uint32_t round; /* of a [PERSIST]sc */
};

enum ddp_scope_flag {
    DDP_S_USED = 1,
    DDP_S_SYNC = 2,    /* the client requested SYNC */
    DDP_S_SENT = 4,    /* [PERSIST]sc is out: all writes of it were answered */
    DDP_S_FLUSHED = 8, /* here */
    DDP_S_DEAD = 16    /* FLUSHED is still to come and will be ignored */
};

/* A scope whose writes this node coordinates. */
struct ddp_scope {
    uint64_t id;
    uint64_t token;
    struct ddp_timer timer;
    uint32_t writes; /* not yet answered */
    uint32_t flags;
    uint32_t next; /* of a free one the next free one */
    uint32_t tries;
    uint16_t ack;
    uint16_t late;       /* as a write's */
    uint32_t round;      /* SENT: which of this node's [PERSIST]sc it is */
    uint32_t copies_min; /* as a write's */
    uint16_t silent;     /* as a write's */
    uint16_t heard;      /* as a write's */
};

enum ddp_learn {
    DDP_LEARN_NOT = 0,
    DDP_LEARN_BEGINS, /* FLUSH: what the log has taken so far is durable */
    DDP_LEARN_PULLS,
    DDP_LEARN_FLUSHES,
    DDP_LEARN_DONE
};

/* What the donor has of a key. */
struct ddp_offer {
    struct snic_ddp_key key;
    uint64_t ts;
    uint32_t length;
    uint32_t requested; /* the value */
};

enum ddp_run_state {
    DDP_RUN_FREE = 0,
    DDP_RUN_NEW,     /* PULL is to be sent */
    DDP_RUN_QUERIES, /* no answer yet */
    DDP_RUN_LISTS,   /* the ranges that differ: offers or values are missing */
    DDP_RUN_APPLIES  /* all is here: hints become records or go */
};
enum ddp_run_list { DDP_LIST_NOT = 0, DDP_LIST_FIRST, DDP_LIST_NEXT };

/* Ranges of hashes being compared with the donor's: up to SNIC_DDP__SPLIT of 2^bits from lo on. */
struct ddp_run {
    uint64_t lo;
    uint64_t end;
    uint64_t query;            /* QUERIES, LISTS: of the PULL, which the PULLED repeats */
    uint64_t sum;              /* LISTS: what the keys offered add up to */
    struct snic_ddp_key after; /* DDP_LIST_NEXT: the keys up to here are done */
    uint8_t bits;
    uint8_t state;
    uint8_t ranges; /* in the PULL */
    uint8_t done;   /* of them in the PULLED */
    uint8_t same;   /* bits of those that are equal */
    uint8_t list;   /* one hash has more keys than an answer: one part after the other */
    uint8_t more;   /* DDP_LIST_*: parts follow */
    uint8_t offers;
    uint8_t budget;  /* APPLIES: entries for the log */
    uint8_t todo;    /* something came since it was looked at */
    uint8_t durable; /* bits of those of `same` that are durable at all members */
    uint8_t pad[5];
    struct ddp_offer offer[SNIC_DDP__OFFERS];
};
enum ddp_restart {
    DDP_RESTART_NOT = 0,
    DDP_RESTART_COMPARES,
    DDP_RESTART_REPLAYS,
    DDP_RESTART_WAITS
};

/* Timer numbers: writes, scopes, these, records. */
enum ddp_node_timer { DDP_T_PULL = 0, DDP_T_RESTART, DDP_T_PURGE, DDP_T_SWEEP, DDP_T_NODE };

/* FLUSH's ids: a kind and a number. */
#define SNIC_DDP__ID_WAIT 0u
#define SNIC_DDP__ID_SCOPE (UINT32_C(1) << 30)
#define SNIC_DDP__ID_LEARN (UINT32_C(2) << 30)
#define SNIC_DDP__ID_URGE (UINT32_C(3) << 30) /* nothing waits for FLUSHED itself */
#define SNIC_DDP__ID_MASK ((UINT32_C(1) << 30) - 1)

struct snic_ddp {
    /* Fixed at init. */
    struct snic_ddp_opts o;
    struct ddp_rules rules[SNIC_DDP__RULES];
    uint32_t reads_durable; /* what a read of no named durability returns is */
    uint32_t pad1;

    /* The membership, as of the last EPOCH. */
    uint32_t epoch;
    uint32_t role;
    uint32_t donor;
    uint16_t full;
    uint16_t learners;
    uint16_t others;   /* full and learners but this node (I7) */
    uint8_t took_part; /* FULL or LEARNER at some time */
    uint8_t serves;    /* FULL, and in order after a restart */
    uint32_t incarnation[SNIC_DDP_NODES_MAX];

    /* The table. */
    struct ddp_index index;
    struct ddp_pool recs;
    struct ddp_pool writes;
    struct ddp_pool waits;
    struct ddp_pool reads;
    struct ddp_pool scopes;
    uint32_t loaded;       /* records came from the own log */
    uint32_t loaded_epoch; /* the highest of them */
    uint32_t tombstones;
    uint32_t parked; /* waits for newer writes (PAPER) */
    uint32_t round;  /* of the last [PERSIST]sc */

    /* Work left to do before the step ends (I6). */
    uint32_t dirty;        /* records, list */
    struct ddp_list ready; /* reads to answer */
    uint32_t sweep;        /* EPOCH: writes from here on, up to writes.high */
    uint32_t sweep_scope;  /* EPOCH: scopes from here on, up to scopes.high */
    uint16_t kept;         /* EPOCH: nodes of both epochs, same incarnation */
    uint8_t ticking;       /* TICK: fire what is due */
    uint8_t need_epoch;    /* NEED_EPOCH is to be emitted */
    uint32_t digest_next;  /* restart: digests to send, from here on */

    /* Purging (amendment A4); floors are of the present epoch or 0. */
    uint64_t gen_floor; /* new timestamps are above it */
    uint64_t floor;     /* absent keys have this one */
    uint64_t purge_ts;  /* of the PURGE_REQUEST in flight; 0: none */
    struct snic_ddp_key purge_key;
    uint32_t purge_next; /* records to look at, from here on */
    uint16_t purge_ack;
    uint16_t pad0;

    /* Learning. */
    uint32_t part;      /* as a learner: records of earlier ones are hints (I10) */
    uint32_t hints;     /* how many */
    uint32_t log_void;  /* the log has none of them (RETIRED) */
    uint32_t shed_next; /* SHED looks from here on */
    uint32_t learn;
    uint16_t learn_work;      /* a run has something to do */
    uint16_t learn_blocked;   /* a value is not requested because others are */
    uint64_t learn_next;      /* hashes from here on are in no run yet */
    uint64_t learn_keys;      /* that the donor has, as of its last answer */
    uint64_t learn_requested; /* bytes of values requested */
    uint64_t run_at;          /* from this struct to the first run */
    uint32_t runs;
    uint32_t learn_tries;
    uint16_t learn_late; /* as a write's */
    struct snic_ddp_learning learning;

    /* Restart. */
    uint32_t restart;
    uint32_t restart_sum;  /* records from here on are in no digest yet */
    uint32_t restart_left; /* records that this step may still look at */
    uint32_t restart_sweep;
    uint32_t restart_writes; /* replays under way */
    uint32_t restart_tries;
    uint16_t restarted;     /* who is done */
    uint16_t restart_heard; /* who sent anything in these tries */
    uint16_t restart_late;  /* as a write's */

    /* Slow nodes. */
    struct ddp_suspects suspects;
    struct ddp_suspects silent; /* of them, those that do not respond */
    uint64_t differ;            /* ranges, one bit each */
    uint64_t digest[SNIC_DDP__RANGES];
    uint16_t got[SNIC_DDP__RANGES];

    struct ddp_timer node_timers[DDP_T_NODE];
    struct ddp_timers timers;

    /* Time and counters: no part of the state (A13). */
    uint64_t now_ns;
    uint64_t lease_ns;
    struct snic_ddp_counters counters;

    struct ddp_ring ring;
    struct snic_ddp_action actions[SNIC_DDP__RING];
};

/* ---- Where things are ---- */

static inline struct ddp_rec *ddp_rec_at(const struct snic_ddp *d, uint32_t i)
{
    return (struct ddp_rec *)ddp_pool_first(&d->recs) + i;
}
static inline struct ddp_write *ddp_write_at(const struct snic_ddp *d, uint32_t i)
{
    return (struct ddp_write *)ddp_pool_first(&d->writes) + i;
}
static inline struct ddp_wait *ddp_wait_at(const struct snic_ddp *d, uint32_t i)
{
    return (struct ddp_wait *)ddp_pool_first(&d->waits) + i;
}
static inline struct ddp_read *ddp_read_at(const struct snic_ddp *d, uint32_t i)
{
    return (struct ddp_read *)ddp_pool_first(&d->reads) + i;
}
static inline struct ddp_scope *ddp_scope_at(const struct snic_ddp *d, uint32_t i)
{
    return (struct ddp_scope *)ddp_pool_first(&d->scopes) + i;
}
static inline uint32_t ddp_rec_number(const struct snic_ddp *d, const struct ddp_rec *r)
{
    return (uint32_t)(r - ddp_rec_at(d, 0));
}
static inline uint32_t ddp_write_number(const struct snic_ddp *d, const struct ddp_write *w)
{
    return (uint32_t)(w - ddp_write_at(d, 0));
}
static inline uint32_t ddp_scope_number(const struct snic_ddp *d, const struct ddp_scope *s)
{
    return (uint32_t)(s - ddp_scope_at(d, 0));
}
/* The rules of a record or write with these flags. */
static inline uint32_t ddp_rule(uint32_t flags)
{
    return flags >> SNIC_DDP__RULE & (SNIC_DDP__RULES - 1);
}
static inline uint32_t ddp_rule_flag(uint32_t rule)
{
    return rule << SNIC_DDP__RULE;
}
static inline const struct ddp_rules *ddp_rules_at(const struct snic_ddp *d, uint32_t flags)
{
    return &d->rules[ddp_rule(flags)];
}
/* The rules of a message's write; ddp_message() checked the number. */
static inline uint32_t ddp_msg_rule(const struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    uint32_t rule = m->flags >> SNIC_DDP_MSG_RULES & (SNIC_DDP__RULES - 1);
    return rule != 0 ? rule : d->o.model;
}
static inline const struct ddp_rules *ddp_rules_msg(const struct snic_ddp *d,
                                                    const struct snic_ddp_msg *m)
{
    return &d->rules[ddp_msg_rule(d, m)];
}
/* As a message has the rules of @p flags: 0 for the cluster's own. */
static inline uint8_t ddp_rule_msg(const struct snic_ddp *d, uint32_t flags)
{
    uint32_t rule = ddp_rule(flags);
    return (uint8_t)(rule != d->o.model ? rule << SNIC_DDP_MSG_RULES : 0);
}
/* May a read return what the key holds? @p durable: only if that is durable at all members. */
static inline int ddp_rec_readable(const struct ddp_rec *r, int durable)
{
    return r->rd == 0 && (!durable || r->gd >= r->vts);
}
static inline int ddp_lease(const struct snic_ddp *d, uint64_t now)
{
    return d->serves && now < d->lease_ns;
}
/* How many nodes hold what all hold: a learner's copy does not count until it is FULL. */
static inline uint32_t ddp_copies(const struct snic_ddp *d)
{
    uint32_t count = 0;
    for (uint32_t full = d->full; full != 0; full &= full - 1)
        count++;
    return count;
}
static inline int ddp_room(const struct snic_ddp *d)
{
    return d->ring.count + SNIC_DDP__ROOM <= SNIC_DDP__RING;
}

/* emit.c: actions and messages */
struct snic_ddp_action *ddp_act(struct snic_ddp *d, uint32_t type);
struct snic_ddp_msg *ddp_send(struct snic_ddp *d, uint32_t type, uint16_t to,
                              const struct snic_ddp_key *key, uint64_t ts);
void ddp_release(struct snic_ddp *d, uint64_t value);
void ddp_done(struct snic_ddp *d, uint64_t token, int result, const struct ddp_rec *r);
struct snic_ddp_action *ddp_done_all(struct snic_ddp *d, uint64_t token, uint32_t copies_min);
void ddp_flush(struct snic_ddp *d, uint32_t id);
void ddp_changed(struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts, uint64_t value,
                 uint32_t length, uint32_t flags);

/* model.c */
void ddp_rules_fill(uint32_t flags, struct ddp_rules *out);
uint32_t ddp_rule_of(uint32_t model, uint32_t durability);
int ddp_reads_durable(uint32_t model, uint32_t durability);

static inline struct ddp_run *ddp_run_at(const struct snic_ddp *d, uint32_t i)
{
    return (struct ddp_run *)ddp_part(d, d->run_at) + i;
}
static inline int ddp_is_hint(const struct snic_ddp *d, const struct ddp_rec *r)
{
    return d->hints != 0 && r->part != d->part;
}

/* A key and a timestamp as a number that is added up with others. */
static inline uint64_t ddp_rec_sum(const struct snic_ddp_key *key, uint64_t ts, uint32_t salt)
{
    uint64_t h = (key->w[0] ^ (uint64_t)salt << 32) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 31 ^ key->w[1]) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 29 ^ ts) * UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 32;
}

/* record.c */
struct ddp_rec *ddp_find(const struct snic_ddp *d, const struct snic_ddp_key *key);
struct ddp_rec *ddp_find_any(const struct snic_ddp *d, const struct snic_ddp_key *key);
void ddp_hint_confirm(struct snic_ddp *d, struct ddp_rec *r, uint32_t flags, uint32_t rule);
void ddp_hint_empty(struct snic_ddp *d, struct ddp_rec *r, uint32_t above);
void ddp_hint_drop(struct snic_ddp *d, struct ddp_rec *r);
int ddp_hint_shed(struct snic_ddp *d);
struct ddp_rec *ddp_add(struct snic_ddp *d, const struct snic_ddp_key *key);
void ddp_remove(struct snic_ddp *d, struct ddp_rec *r);
void ddp_append(struct snic_ddp *d, struct ddp_rec *r, uint64_t scope, uint32_t background);
void ddp_urge(struct snic_ddp *d, struct ddp_rec *r);
void ddp_dirty(struct snic_ddp *d, struct ddp_rec *r);
void ddp_unlock(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts);
void ddp_purge_look(struct snic_ddp *d);

/* timer.c */
uint32_t ddp_timer_of_write(const struct snic_ddp *d, const struct ddp_write *w);
uint32_t ddp_timer_of_scope(const struct snic_ddp *d, const struct ddp_scope *s);
uint32_t ddp_timer_of_node(const struct snic_ddp *d, uint32_t which);
uint32_t ddp_timer_of_rec(const struct snic_ddp *d, const struct ddp_rec *r);
void ddp_timer_arm(struct snic_ddp *d, uint32_t number, uint32_t class);
void ddp_timer_retry(struct snic_ddp *d, uint32_t number, uint32_t tries);
void ddp_timer_stop(struct snic_ddp *d, uint32_t number);

/* flight.c: writes in flight, and a record's value */
struct ddp_write *ddp_write_new(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts, uint32_t flags);
struct ddp_write *ddp_write_find(const struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts);
void ddp_write_calm(struct snic_ddp *d, struct ddp_write *w);
void ddp_write_free(struct snic_ddp *d, struct ddp_write *w);
uint16_t ddp_write_missing(const struct snic_ddp *d, const struct ddp_write *w);
int ddp_rec_awaited(const struct snic_ddp *d, const struct ddp_rec *r);
int ddp_rec_watched(const struct snic_ddp *d, const struct ddp_rec *r);
void ddp_watch(struct snic_ddp *d, struct ddp_rec *r, int fresh);
void ddp_cas_abort(struct snic_ddp *d, struct ddp_write *w);
void ddp_apply(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts, const struct snic_ddp_msg *m);

/* write.c: the coordinator */
uint64_t ddp_next_ts(const struct snic_ddp *d, const struct ddp_rec *r, uint64_t step);
enum ddp_place { DDP_PLACE_CLIENT = 0, DDP_PLACE_DELETE, DDP_PLACE_REPLAY };
int ddp_write_room(const struct snic_ddp *d, enum ddp_place of);
void ddp_write_invalidate(struct snic_ddp *d, struct ddp_write *w, uint16_t to);
void ddp_write_value(const struct snic_ddp *d, const struct ddp_write *w, struct snic_ddp_msg *m);
void ddp_write_send_inv(struct snic_ddp *d, const struct ddp_write *w, uint16_t to);
void ddp_write_probe(struct snic_ddp *d, struct ddp_write *w, uint16_t to);
int ddp_write_eval(struct snic_ddp *d, struct ddp_write *w);
void ddp_write_eval_aborted(struct snic_ddp *d, struct ddp_write *w);
int ddp_write_admit(struct snic_ddp *d, const struct snic_ddp_event *ev, const struct ddp_rec *r);
uint32_t ddp_write_lazy(const struct snic_ddp *d, uint32_t flags);
int ddp_write_client(struct snic_ddp *d, const struct snic_ddp_event *ev);
int ddp_write_ack(struct snic_ddp *d, const struct snic_ddp_msg *m);

/* read.c */
int ddp_read_client(struct snic_ddp *d, const struct snic_ddp_event *ev);
void ddp_read_ready(struct snic_ddp *d);
int ddp_read_answer(struct snic_ddp *d, struct ddp_rec *r, const struct ddp_write *w);
int ddp_read_eval(struct snic_ddp *d, struct ddp_rec *r);
int ddp_read_fire(struct snic_ddp *d, struct ddp_rec *r);

/* follow.c: the follower */
int ddp_follow_inv(struct snic_ddp *d, const struct snic_ddp_msg *m);
int ddp_follow_val(struct snic_ddp *d, const struct snic_ddp_msg *m);
void ddp_follow_decided(struct snic_ddp *d, struct ddp_rec *r);
void ddp_follow_appended(struct snic_ddp *d, const struct snic_ddp_event *ev);
int ddp_follow_eval(struct snic_ddp *d, struct ddp_rec *r);
void ddp_validate(struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts, uint16_t to);

/* replay.c */
void ddp_watch_fire(struct snic_ddp *d, struct ddp_rec *r);
void ddp_watch_alive(struct snic_ddp *d, struct ddp_rec *r, uint32_t src);
void ddp_write_retry(struct snic_ddp *d, struct ddp_write *w);
int ddp_query(struct snic_ddp *d, const struct snic_ddp_msg *m);

/* scope.c */
struct ddp_scope *ddp_scope_find(const struct snic_ddp *d, uint64_t id);
/* A write belongs to scope @p id, which is opened by its first; 0: to none. */
void ddp_scope_join(struct snic_ddp *d, struct ddp_write *w, uint64_t id);
void ddp_scope_answered(struct snic_ddp *d, uint64_t id);
int ddp_scope_sync(struct snic_ddp *d, const struct snic_ddp_event *ev);
int ddp_scope_message(struct snic_ddp *d, const struct snic_ddp_msg *m);
int ddp_scope_flushed(struct snic_ddp *d, uint32_t id);
void ddp_scope_retry(struct snic_ddp *d, struct ddp_scope *s);
void ddp_scope_epoch(struct snic_ddp *d, struct ddp_scope *s);
void ddp_scopes_drop(struct snic_ddp *d);

/* cas.c */
int ddp_cas_client(struct snic_ddp *d, const struct snic_ddp_event *ev);
int ddp_cas_settled(struct snic_ddp *d, struct ddp_write *w);
void ddp_cas_refuse(struct snic_ddp *d, const struct ddp_rec *r, const struct snic_ddp_msg *m);
int ddp_cas_nack(struct snic_ddp *d, const struct snic_ddp_msg *m);

/* epoch.c */
int ddp_epoch(struct snic_ddp *d, const struct snic_ddp_view *v, uint32_t flags);
int ddp_epoch_work(struct snic_ddp *d);

/* donor.c */
#define SNIC_DDP__PULL_LIST (UINT64_C(1) << 44)  /* of a PULL's scope */
#define SNIC_DDP__PULL_EMPTY (UINT64_C(1) << 45) /* the learner has nothing: send values */
/* Names a PULL: the digests of another state are others. */
static inline uint64_t ddp_pull_name(const struct snic_ddp_msg *m)
{
    struct snic_ddp_key rest = {{m->seen[0], m->seen[1]}};
    return ddp_rec_sum(&m->key, 0, 1) + ddp_rec_sum(&rest, 0, 2);
}
int ddp_donor_pull(struct snic_ddp *d, const struct snic_ddp_msg *m);

/* run.c */
void ddp_runs_restart(struct snic_ddp *d);
int ddp_runs_pulled(struct snic_ddp *d, const struct snic_ddp_msg *m);
int ddp_runs_offered(struct snic_ddp *d, const struct snic_ddp_msg *m);
void ddp_runs_retry(struct snic_ddp *d);
int ddp_runs_work(struct snic_ddp *d);
void ddp_runs_end(struct snic_ddp *d);

/* learn.c */
void ddp_learn_epoch(struct snic_ddp *d, uint32_t flags);
int ddp_learn_message(struct snic_ddp *d, const struct snic_ddp_msg *m);
void ddp_learn_flushed(struct snic_ddp *d);
void ddp_learn_retry(struct snic_ddp *d);
int ddp_learn_work(struct snic_ddp *d);
int ddp_learn_shed(struct snic_ddp *d);

/* restart.c */
int ddp_loaded(struct snic_ddp *d, const struct snic_ddp_event *ev);
void ddp_restart_begin(struct snic_ddp *d);
void ddp_restart_sweep(struct snic_ddp *d);
int ddp_restart_message(struct snic_ddp *d, const struct snic_ddp_msg *m);
int ddp_restart_work(struct snic_ddp *d);
void ddp_restart_suspect(struct snic_ddp *d, uint16_t silent);
void ddp_restart_retry(struct snic_ddp *d);
void ddp_restart_heard(struct snic_ddp *d, uint16_t from);

/* purge.c */
int ddp_purge_message(struct snic_ddp *d, const struct snic_ddp_msg *m);
void ddp_purge_fire(struct snic_ddp *d);

#endif /* SNIC_DDP_PRIV_H */
