/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the engines of MINOS-B (ddp) and MINOS-O (ddpnic) have in common: pools, the index of
 * records, timers, reads that wait, nodes suspected to be slow, the models' rules. Private to both.
 *
 * A node's state is one block of memory without pointers, so that a copy of the block is a node in
 * the same state. A reference is a number in a pool, SNIC_DDP__NIL is none; pools, the index and
 * the timers find their objects by an offset from themselves.
 */
#ifndef SNIC_DDP_CORE_H
#define SNIC_DDP_CORE_H

#include "snicstore/ddp.h"

#define SNIC_DDP__NIL UINT32_MAX
#define SNIC_DDP__LATE 8 /* retransmissions after which a node that does not respond is slow */

/* ---- Options ---- */

#define SNIC_DDP__KEYS_MAX (UINT32_C(1) << 28)
#define SNIC_DDP__POOL_MAX (UINT32_C(1) << 20)
#define SNIC_DDP__SCOPES_MAX (UINT32_C(1) << 16)
#define SNIC_DDP__NS_MAX (UINT64_C(1) << 50)

/* The options that both engines have. */
struct ddp_sizes {
    uint32_t model;
    uint32_t node;
    uint32_t keys_max;
    uint32_t writes_max;
    uint32_t waits_max;
    uint32_t reads_max;
    uint32_t scopes_max;
    uint32_t others_max;
    uint64_t retransmit_ns;
    uint64_t replay_ns;
};

/* Of @p o, a pointer to the options of either engine. */
#define SNIC_DDP__SIZES(o)                                                                         \
    ((struct ddp_sizes){(o)->model, (o)->node, (o)->keys_max, (o)->writes_max, (o)->waits_max,     \
                        (o)->reads_max, (o)->scopes_max, (o)->others_max, (o)->retransmit_ns,      \
                        (o)->replay_ns})
/* The same for what is 0 and has a default. */
#define SNIC_DDP__DEFAULTS(o)                                                                      \
    ddp_sizes_default(&(o)->others_max, &(o)->retransmit_ns, &(o)->replay_ns)

void ddp_sizes_default(uint32_t *others_max, uint64_t *retransmit_ns, uint64_t *replay_ns);
const char *ddp_sizes_wrong(const struct ddp_sizes *s);

/*
 * Records: keys_max, and what the others may have admitted at the same time, each while it had room
 * itself. A follower without room for those would never acknowledge them.
 */
static inline uint32_t ddp_sizes_recs(const struct ddp_sizes *s)
{
    return s->keys_max + s->others_max * s->writes_max;
}

/* ---- Pools ---- */

/* Numbered objects of one size: freed ones are reused first, then the next never used. */
struct ddp_pool {
    uint64_t at;   /* from this struct to the first object */
    uint32_t size; /* of an object */
    uint32_t link; /* offset in a free object of the number of the next free one */
    uint32_t free; /* list */
    uint32_t high; /* those from here on were never used */
    uint32_t used;
    uint32_t max;
};

struct ddp_list {
    uint32_t first;
    uint32_t last;
};

static inline void *ddp_part(const void *from, uint64_t at)
{
    return (void *)((uintptr_t)from + (uintptr_t)at);
}
static inline void *ddp_pool_first(const struct ddp_pool *p)
{
    return ddp_part(p, p->at);
}
static inline int ddp_pool_full(const struct ddp_pool *p)
{
    return p->used == p->max;
}

/* Lays a pool out at *@p end of @p block and moves *@p end behind it. */
void ddp_pool_place(struct ddp_pool *p, const void *block, uint64_t *end, uint32_t max, size_t size,
                    size_t link);
uint32_t ddp_pool_take(struct ddp_pool *p);
void ddp_pool_give(struct ddp_pool *p, uint32_t n);

/* ---- The index of records ---- */

struct ddp_slot {
    uint32_t hash;
    uint32_t rec; /* + 1; 0: empty */
};

/*
 * Open addressing of (hash, number), at most two thirds full. Removal shifts back what follows, so
 * there are no marks to skip. Records begin with their key. A record's place follows from the upper
 * bits of its hash, so the records of a range of hashes are together, whatever the table's size.
 */
struct ddp_index {
    uint64_t at; /* from this struct to the first slot */
    uint32_t mask;
    uint32_t shift; /* of a hash, to get its first slot */
};

static inline struct ddp_slot *ddp_index_slots(const struct ddp_index *x)
{
    return ddp_part(x, x->at);
}

static inline uint32_t ddp_hash(const struct snic_ddp_key *key)
{
    uint64_t h = key->w[0] * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
    h = (h ^ key->w[1]) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
    h *= UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(h >> 32);
}

static inline int ddp_same_key(const struct snic_ddp_key *a, const struct snic_ddp_key *b)
{
    return a->w[0] == b->w[0] && a->w[1] == b->w[1];
}

/* The number of the key's record, of those of @p size bytes from @p recs on, or SNIC_DDP__NIL. */
static inline uint32_t ddp_index_find(const struct ddp_index *x, const void *recs, size_t size,
                                      const struct snic_ddp_key *key)
{
    const struct ddp_slot *slots = ddp_index_slots(x);
    uint32_t hash = ddp_hash(key);
    for (uint32_t i = hash >> x->shift; slots[i].rec != 0; i = (i + 1) & x->mask) {
        uint32_t n = slots[i].rec - 1;
        if (slots[i].hash == hash && ddp_same_key(ddp_part(recs, (uint64_t)n * size), key))
            return n;
    }
    return SNIC_DDP__NIL;
}

/* The first record of the key's hash, which is not looked at, or SNIC_DDP__NIL. */
static inline uint32_t ddp_index_guess(const struct ddp_index *x, const struct snic_ddp_key *key)
{
    const struct ddp_slot *slots = ddp_index_slots(x);
    uint32_t hash = ddp_hash(key);
    uint32_t i = hash >> x->shift;
    while (slots[i].rec != 0 && slots[i].hash != hash)
        i = (i + 1) & x->mask;
    return slots[i].rec - 1; /* of an empty one NIL */
}

void ddp_index_place(struct ddp_index *x, const void *block, uint64_t *end, uint32_t recs);
void ddp_index_clear(struct ddp_index *x);
void ddp_index_add(struct ddp_index *x, uint32_t hash, uint32_t n);
void ddp_index_remove(struct ddp_index *x, uint32_t hash, uint32_t n);
/* How many slots are taken. */
uint32_t ddp_index_count(const struct ddp_index *x);

/* The records with hashes from lo on, below hi (at most 2^32). O(their slots). */
struct ddp_walk {
    uint64_t lo;
    uint64_t hi;
    uint64_t slots; /* seen */
};
/* The number of the next one, or SNIC_DDP__NIL. The index must not change on the way. */
uint32_t ddp_index_walk(const struct ddp_index *x, struct ddp_walk *w);

/* ---- Timers ---- */

/*
 * A list for each duration. All timers of a list wait equally long, so a new one goes to its end
 * and the first is the earliest: O(1), and no order but that of time. Where durations were made
 * shorter a new timer waits until the last one of its list is due.
 */
#define SNIC_DDP__DOUBLINGS 7                   /* retransmission: retransmit_ns << 0 ... 6 */
#define SNIC_DDP__PATIENCE 3                    /* questions: replay_ns << 0 ... 3 */
#define SNIC_DDP__RETRY_NS UINT64_C(2000000000) /* longer doubled ones are cut to it */
enum ddp_class {
    DDP_REPLAY = SNIC_DDP__DOUBLINGS,
    DDP_PACE = DDP_REPLAY + SNIC_DDP__PATIENCE + 1, /* replay_ns */
    DDP_SOON, /* in the next step: the rest of a long piece of work */
    DDP_CLASSES
};
#define SNIC_DDP__SPANS 4

/* Armed or not is state; the deadline is time, which a checker leaves out (amendment A13). */
struct ddp_timer {
    uint64_t deadline_ns;
    uint32_t next;
    uint32_t prev;
    uint8_t armed; /* class + 1, 0: not */
    uint8_t pad[7];
};

/* Timers are parts of other objects. A number names one: those of the first span come first. */
struct ddp_span {
    uint64_t at; /* from struct ddp_timers to the first timer */
    uint32_t size;
    uint32_t count;
};

struct ddp_timers {
    struct ddp_span spans[SNIC_DDP__SPANS];
    struct ddp_list classes[DDP_CLASSES];
    uint64_t retransmit_ns;
    uint64_t replay_ns;
    uint64_t flush_ns; /* the last class of retransmissions takes at least as long */
};

void ddp_timers_init(struct ddp_timers *ts, uint64_t retransmit_ns, uint64_t replay_ns);
/* Other durations from now on. 0; SNIC_EINVAL 0 or more than 2^50. */
int ddp_timers_set(struct ddp_timers *ts, uint64_t retransmit_ns, uint64_t replay_ns,
                   uint64_t flush_ns);
/* Armed retransmissions are due after the first duration at the latest. */
void ddp_timers_sooner(struct ddp_timers *ts, uint64_t now_ns);
/* The next span: @p count timers, the first of which is @p first, each @p size after the last. */
void ddp_timers_span(struct ddp_timers *ts, const void *first, size_t size, uint32_t count);
struct ddp_timer *ddp_timers_at(const struct ddp_timers *ts, uint32_t number);
void ddp_timers_arm(struct ddp_timers *ts, uint32_t number, uint32_t class, uint64_t now_ns);
/* Arms the timer of a retransmission of which there were @p tries. */
void ddp_timers_retry(struct ddp_timers *ts, uint32_t number, uint32_t tries, uint64_t now_ns);
void ddp_timers_stop(struct ddp_timers *ts, uint32_t number);
uint64_t ddp_timers_deadline(const struct ddp_timers *ts);
/* One that is due, or SNIC_DDP__NIL. */
uint32_t ddp_timers_due(const struct ddp_timers *ts, uint64_t now_ns);
/* The armed timer after @p number, SNIC_DDP__NIL: the first; SNIC_DDP__NIL: no more. */
uint32_t ddp_timers_next(const struct ddp_timers *ts, uint32_t number);
/* Is it linked correctly? 0 or SNIC_ECORRUPT. */
int ddp_timers_check(const struct ddp_timers *ts, uint32_t number);

/* ---- Reads that wait for an unlock ---- */

struct ddp_read {
    uint64_t token;
    uint64_t ts;  /* of ddp: see there */
    uint32_t rec; /* SNIC_DDP__NIL: free */
    uint32_t next;
};

/* Adds a read to those of a record, where there is room. */
struct ddp_read *ddp_reads_wait(struct ddp_pool *reads, struct ddp_list *of, uint64_t token,
                                uint32_t rec);
/* Moves all reads of a record to the end of @p ready. */
void ddp_reads_ready(struct ddp_pool *reads, struct ddp_list *of, struct ddp_list *ready);
/* Removes and frees the first of @p ready. */
struct ddp_read ddp_reads_pop(struct ddp_pool *reads, struct ddp_list *ready);

/* ---- Slow nodes ---- */

struct ddp_suspects {
    uint32_t late[SNIC_DDP_NODES_MAX]; /* how many things wait for it too long */
    uint16_t reported;                 /* mask of the last SUSPECT */
    uint8_t changed;                   /* late did: does the mask? */
    uint8_t pad;
};

/*
 * Something has waited SNIC_DDP__LATE tries for the nodes @p now; @p late is its previous mask.
 * Counted per node: a node is suspected while at least one thing waits for it too long.
 */
void ddp_suspect(struct ddp_suspects *s, uint16_t *late, uint16_t now);
/* 1: the mask to report differs from the last one. */
int ddp_suspects_report(struct ddp_suspects *s, uint16_t *mask);

/* ---- Actions that wait to be polled ---- */

struct ddp_ring {
    uint32_t first;
    uint32_t count;
};

static inline struct snic_ddp_action *ddp_ring_push(struct ddp_ring *r,
                                                    struct snic_ddp_action *actions, uint32_t size,
                                                    uint32_t type)
{
    SNIC_ASSERT(r->count < size);
    struct snic_ddp_action *a = &actions[(r->first + r->count++) % size];
    memset(a, 0, sizeof(*a));
    a->type = type;
    return a;
}

/* ---- Models ---- */

/* What a condition is made of; the tables in model.c are masks of these. */
enum ddp_cond {
    DDP_C = 1,  /* all others have stored it */
    DDP_P = 2,  /* all others have it durable */
    DDP_L = 4,  /* it is durable here: in the log, of ddpnic in the dFIFO */
    DDP_V = 8,  /* ddpnic: it is in the own vFIFO */
    DDP_D = 16, /* ddpnic: it has left the own vFIFO */
    DDP_NEVER = 128
};

/* How a follower acknowledges. */
enum ddp_acks { DDP_ONE = 0, DDP_SPLIT, DDP_C_ONLY };

/* A model, as data. */
struct ddp_rules {
    uint8_t release; /* when the coordinator unlocks */
    uint8_t gv;      /* when it raises them */
    uint8_t gd;
    uint8_t val; /* when it sends the message val_type */
    uint8_t val_type;
    uint8_t val_p; /* when it sends VAL_P; DDP_NEVER */
    uint8_t answer;
    uint8_t all; /* when it frees the write: all of the above that are not never */
    uint8_t acks;
    uint8_t val_durable; /* val_type means durable, too: a follower raises gd */
    uint8_t watch_gd;    /* a follower that misses VAL_P makes up for it (H5) */
    uint8_t short_gd;    /* ddpnic: an overtaken write waits for gd of the newer, too */
    uint8_t background;  /* no write is answered later for the log */
    uint8_t first;       /* ddp: what all of the above that are not never wait for */
    uint8_t pad[2];
};
SNIC_STATIC_ASSERT(sizeof(struct ddp_rules) == 16, "an index is a shift");

/* Does the model have this acknowledgement or validation? 1 for all other messages. */
int ddp_rules_have(const struct ddp_rules *u, uint32_t type);
/* The nodes of @p others that have not acknowledged all that the model requires. */
static inline uint16_t ddp_rules_missing(const struct ddp_rules *u, uint16_t others, uint16_t ack_c,
                                         uint16_t ack_p)
{
    return (uint16_t)(others & ~(u->acks == DDP_C_ONLY ? ack_c : ack_c & ack_p));
}

/* ---- Messages ---- */

static inline uint16_t ddp_bit(uint32_t node)
{
    return (uint16_t)(1u << node);
}

/* Rule E: 1 when @p m is of another epoch or incarnation, of no member or for another node. */
int ddp_msg_foreign(const struct snic_ddp_msg *m, uint32_t node, uint32_t epoch, uint16_t others,
                    const uint32_t *incarnation);

/* ---- Canonical bytes ---- */

struct ddp_canon {
    unsigned char *at;
    size_t size;
    size_t used; /* may be beyond size: what there would be */
};

void ddp_canon_u64(struct ddp_canon *o, uint64_t v);
static inline int ddp_canon_key_before(const struct snic_ddp_key *a, const struct snic_ddp_key *b)
{
    return a->w[0] != b->w[0] ? a->w[0] < b->w[0] : a->w[1] < b->w[1];
}

#endif /* SNIC_DDP_CORE_H */
