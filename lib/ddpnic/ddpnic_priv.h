/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The inside of a node of MINOS-O: shared by the files of this module and its tests.
 *
 * One block of memory (ddp's core.h): struct snic_ddpnic, records, index, items, the host's writes
 * and reads and scopes, the NIC's writes and waits.
 *
 * Ownership: host.c the host's part (struct ddpnic_host, the host's fields of a record); coord.c,
 * follow.c, fifo.c, scope.c, epoch.c the NIC's. Both: the coherent line of a record, and the
 * membership that the NIC installed (struct ddpnic_line, struct ddpnic_common). The table's index
 * is common, too: the half that needs a key first adds it.
 *
 * How a step of the NIC runs: the event's handler changes the state, emits a few actions and marks
 * records dirty; poll, whenever the ring is empty, does one piece of the work that is left, until
 * there is none. The rules of the models are applied in one place: ddpnic_eval.
 *
 * An item is an update (key, timestamp, value) as this node has it: in the vFIFO, in the dFIFO, in
 * the host's cache, in the hands of a write that may have to send it again. What refers to it is
 * counted.
 *
 * Invariants (numbered, cited in the code; snic_ddpnic_check tests them):
 * N1  vts <= out <= vin <= enq <= top, gv and gd and dts and rel <= enq; each only grows (Rule M).
 *     top is the word without its lock.
 * N2  Not locked: top = vts (spec R5: rd is not below vTS; unlocked nodes have what they show).
 * N3  enq > dts: a DSTORE of enq is under way. The items in a key's vFIFO rise to enq, all above
 *     out; it is empty if and only if out = enq.
 * N4  An item's count is its number of references, and its handle is released with the last.
 * N5  A gv, in Strict a gd, behind what was accepted last has a live write of it here or an armed
 *     timer that replays it: no lock stays without one of the two to lift it.
 * N6  Between steps nothing is dirty, no read is ready, the rings are empty, and whatever is stored
 *     at the head of a key's vFIFO is on its way out.
 * N7  A write waits for acknowledgements of the present members only.
 * N8  vfifo and dfifo count the slots that items have; they are at most as many as there are.
 * N9  A replay waits for FIFOs only, here and at the others, never for another write: a write of
 * the NIC that is kept free for replays becomes free again, and each that N5 wants gets its turn.
 */
#ifndef SNIC_DDPNIC_PRIV_H
#define SNIC_DDPNIC_PRIV_H

#include "ddp/core.h"
#include "snicstore/ddpnic.h"

/* The lowest bit of a version: plain writes have even ones (ddp.h), so in a word it is the lock. */
#define SNIC_DDPNIC__LOCK (UINT64_C(1) << 4)
#define SNIC_DDPNIC__RING 12
#define SNIC_DDPNIC__ROOM 6 /* of the ring, that must be free to begin another part of a piece */
#define SNIC_DDPNIC__HOST_RING 4

/* What is coherent between the halves, of a key. */
struct ddpnic_line {
    uint64_t word;  /* top, and the lock */
    uint64_t vts;   /* volatileTS: what is in the host's cache. NIC's */
    uint64_t gv;    /* glb_volatileTS. NIC's */
    uint64_t gd;    /* glb_durableTS. NIC's */
    uint32_t waits; /* reads of the host wait for the lock: wake it. Host's */
    uint32_t cache; /* item of vts in the host's cache. The DMA's */
};

enum ddpnic_rec_flag { DDPNIC_R_USED = 1, DDPNIC_R_DIRTY = 2 };

struct ddpnic_rec {
    struct snic_ddp_key key;
    struct ddpnic_line line;
    uint32_t hash;
    uint32_t flags;

    /* The host's. */
    struct ddp_list reads;
    uint32_t host_writes; /* not yet answered, list */
    uint32_t pad;

    /* The NIC's. */
    uint32_t vfirst; /* its vFIFO entries, oldest first */
    uint32_t vlast;
    uint32_t dfirst;        /* its dFIFO entries, in no order */
    uint32_t writes;        /* coordinated or replayed here, list */
    uint32_t waits;         /* acknowledgements due, list */
    uint32_t dirty;         /* the next dirty one */
    uint64_t enq;           /* accepted: the highest that the vFIFO took */
    uint64_t vin;           /* the highest stored in the vFIFO */
    uint64_t out;           /* the highest that left it, drained or dropped */
    uint64_t dts;           /* the highest stored in the dFIFO: durable */
    uint64_t rel;           /* reads of this one may be let in, once it is out */
    struct ddp_timer timer; /* of a lock that no write here will lift (N5) */
};

/* SNIC_DDP_MSG_TOMBSTONE (2) is one, too. */
enum ddpnic_item_flag {
    DDPNIC_I_USED = 1 << 8,
    DDPNIC_I_VSLOT = 1 << 9, /* in the vFIFO, or on its way into it */
    DDPNIC_I_VIN = 1 << 10,
    DDPNIC_I_DMA = 1 << 11,
    DDPNIC_I_DSLOT = 1 << 12, /* in the dFIFO, or on its way into it */
    DDPNIC_I_DIN = 1 << 13
};

struct ddpnic_item {
    uint64_t ts;
    uint64_t value;
    uint64_t seq; /* of its DSTORE: what a scope's marker comes after */
    uint32_t rec;
    uint32_t length;
    uint32_t flags;
    uint32_t refs;
    uint32_t vnext;
    uint32_t dnext; /* of a free one the next free one */
};

enum ddpnic_write_flag {
    DDPNIC_W_USED = 1,
    DDPNIC_W_CLIENT = 2, /* the host waits for an ACK */
    DDPNIC_W_REPLAY = 4, /* of a write of any node */
    DDPNIC_W_SHORT = 8,  /* overtaken: waits for the newer, tau, and sends nothing */
    DDPNIC_W_VAL = 16,   /* sent, in this epoch */
    DDPNIC_W_VAL_P = 32,
    DDPNIC_W_PERSIST = 64, /* a scope's [PERSIST]sc; rec, item: none */
    DDPNIC_W_MARKED = 128  /* of a PERSIST: here */
};

/* What the NIC coordinates or replays. */
struct ddpnic_write {
    uint64_t ts;
    uint64_t tau;
    uint64_t scope;
    struct ddp_timer timer;
    uint32_t rec;
    uint32_t item;
    uint32_t next; /* on the record's list or that of PERSISTs; of a free one the next free one */
    uint32_t flags;
    uint16_t tries;
    uint16_t late; /* whom it holds to be slow (ddpnic_suspect) */
    uint16_t ack_c;
    uint16_t ack_p;
    uint16_t sent;  /* whom it was sent to */
    uint16_t acked; /* unbatched: nodes whose acknowledgements were passed to the host */
    uint32_t round; /* of a PERSIST: which of this node's it is */
};

enum ddpnic_wait_flag {
    DDPNIC_A_USED = 1,
    DDPNIC_A_OWES_C = 2,
    DDPNIC_A_OWES_P = 4,  /* with DDP_ONE: both at once */
    DDPNIC_A_PERSIST = 8, /* a marker; ts: of the DSTOREs it comes after the last */
    DDPNIC_A_MARK = 16,   /* MARK is under way */
    DDPNIC_A_DEAD = 32,   /* MARKED is still to come and will be ignored */
    DDPNIC_A_AGAIN = 64   /* MARK under way is of a round before: another one has to follow */
};

/* An acknowledgement that is due. */
struct ddpnic_wait {
    uint64_t ts;
    uint64_t tau; /* not 0 (PAPER): due when the write tau is complete */
    uint64_t scope;
    uint32_t rec;
    uint32_t next;
    uint8_t flags;
    uint8_t src; /* whom it is due to; of a PERSIST perhaps this node itself */
    uint8_t pad[2];
    uint32_t round; /* of a PERSIST */
};

/* A client's write that the host has not answered. */
struct ddpnic_host_write {
    uint64_t ts;
    uint64_t token;
    uint64_t scope;
    uint32_t rec; /* NIL: free */
    uint32_t next;
};

enum ddpnic_scope_flag { DDPNIC_S_USED = 1, DDPNIC_S_SYNC = 2, DDPNIC_S_SENT = 4 };

struct ddpnic_scope {
    uint64_t id;
    uint64_t token;
    uint32_t writes; /* not yet answered */
    uint32_t flags;
    uint32_t next; /* of a free one the next free one */
    uint32_t pad;
};

/* Coherent, too: the membership, installed by the NIC. */
struct ddpnic_common {
    uint32_t epoch;
    uint32_t role;
    uint16_t others; /* members but this node (N7) */
    uint16_t full;
    uint32_t took_part;
};

struct ddpnic_host {
    struct ddp_pool writes;
    struct ddp_pool reads;
    struct ddp_pool scopes;
    struct ddp_list ready; /* reads to answer */
    uint32_t ending;       /* fenced: writes from here on are to be answered; NIL */
    uint32_t ending_scope;
    uint32_t need_epoch;
    uint32_t pad;
    uint64_t now_ns;
    uint64_t lease_ns;
    struct ddp_ring ring;
};

struct ddpnic_nic {
    struct ddp_pool items;
    struct ddp_pool writes;
    struct ddp_pool waits;
    uint32_t vfifo; /* slots taken (N8) */
    uint32_t dfifo;
    uint32_t parked;   /* waits for newer writes (PAPER) */
    uint32_t marks;    /* waits for a marker that is not yet under way */
    uint32_t round;    /* of the last [PERSIST]sc */
    uint32_t persists; /* writes, list */
    uint32_t dirty;    /* records, list */
    uint32_t persist_dirty;
    uint32_t mark_dirty;
    uint32_t sweep; /* EPOCH: writes from here on, up to writes.high */
    uint32_t ticking;
    uint64_t seq; /* of the last DSTORE */
    uint32_t incarnation[SNIC_DDP_NODES_MAX];
    struct ddp_suspects suspects;
    struct ddp_timers timers;
    uint64_t now_ns;
    struct ddp_ring ring;
};

struct snic_ddpnic {
    /* Fixed at init. */
    struct snic_ddpnic_opts o;
    struct ddp_rules rules;

    struct ddp_index index;
    struct ddp_pool recs;
    struct ddpnic_common common;
    struct ddpnic_host host;
    struct ddpnic_nic nic;
    struct snic_ddpnic_counters counters;
    struct snic_ddp_action host_actions[SNIC_DDPNIC__HOST_RING];
    struct snic_ddp_action nic_actions[SNIC_DDPNIC__RING];
};

/* ---- Where things are ---- */

static inline struct ddpnic_rec *ddpnic_rec_at(const struct snic_ddpnic *d, uint32_t i)
{
    return (struct ddpnic_rec *)ddp_pool_first(&d->recs) + i;
}
static inline struct ddpnic_item *ddpnic_item_at(const struct snic_ddpnic *d, uint32_t i)
{
    return (struct ddpnic_item *)ddp_pool_first(&d->nic.items) + i;
}
static inline struct ddpnic_host_write *ddpnic_host_write_at(const struct snic_ddpnic *d,
                                                             uint32_t i)
{
    return (struct ddpnic_host_write *)ddp_pool_first(&d->host.writes) + i;
}
static inline struct ddp_read *ddpnic_read_at(const struct snic_ddpnic *d, uint32_t i)
{
    return (struct ddp_read *)ddp_pool_first(&d->host.reads) + i;
}
static inline struct ddpnic_scope *ddpnic_scope_at(const struct snic_ddpnic *d, uint32_t i)
{
    return (struct ddpnic_scope *)ddp_pool_first(&d->host.scopes) + i;
}
static inline struct ddpnic_write *ddpnic_write_at(const struct snic_ddpnic *d, uint32_t i)
{
    return (struct ddpnic_write *)ddp_pool_first(&d->nic.writes) + i;
}
static inline struct ddpnic_wait *ddpnic_wait_at(const struct snic_ddpnic *d, uint32_t i)
{
    return (struct ddpnic_wait *)ddp_pool_first(&d->nic.waits) + i;
}
static inline uint32_t ddpnic_rec_number(const struct snic_ddpnic *d, const struct ddpnic_rec *r)
{
    return (uint32_t)(r - ddpnic_rec_at(d, 0));
}
static inline uint32_t ddpnic_item_number(const struct snic_ddpnic *d, const struct ddpnic_item *t)
{
    return (uint32_t)(t - ddpnic_item_at(d, 0));
}
static inline uint32_t ddpnic_write_number(const struct snic_ddpnic *d,
                                           const struct ddpnic_write *w)
{
    return (uint32_t)(w - ddpnic_write_at(d, 0));
}
static inline int ddpnic_room(const struct snic_ddpnic *d)
{
    return d->nic.ring.count + SNIC_DDPNIC__ROOM <= SNIC_DDPNIC__RING;
}

/* ---- The coherent word ---- */

static inline uint64_t ddpnic_top(const struct ddpnic_line *l)
{
    return l->word & ~SNIC_DDPNIC__LOCK;
}
static inline int ddpnic_locked(const struct ddpnic_line *l)
{
    return (l->word & SNIC_DDPNIC__LOCK) != 0;
}
/* What a new timestamp is to be above (H1): volatileTS, RDLock_Owner and the last issued at once.
 */
static inline uint64_t ddpnic_base(const struct ddpnic_line *l)
{
    return ddpnic_top(l);
}

/* model.c */
void ddpnic_rules_of(uint32_t model, struct ddp_rules *out);

/* table.c */
struct ddpnic_rec *ddpnic_find(const struct snic_ddpnic *d, const struct snic_ddp_key *key);
struct ddpnic_rec *ddpnic_add(struct snic_ddpnic *d, const struct snic_ddp_key *key);
int ddpnic_snatch(struct ddpnic_line *l, uint64_t seen, uint64_t ts);

/* emit.c */
struct snic_ddp_action *ddpnic_host_act(struct snic_ddpnic *d, uint32_t type);
struct snic_ddp_action *ddpnic_act(struct snic_ddpnic *d, uint32_t type);
struct snic_ddp_msg *ddpnic_send(struct snic_ddpnic *d, uint32_t type, uint16_t to,
                                 const struct snic_ddp_key *key, uint64_t ts);
void ddpnic_release(struct snic_ddpnic *d, uint64_t value);
void ddpnic_pop(struct snic_ddp_action *actions, uint32_t size, struct ddp_ring *at, uint32_t flags,
                struct snic_ddp_action *out);

/* check.c */
int ddpnic_at_rest(const struct snic_ddpnic *d);

/* host.c */
int ddpnic_host_event(struct snic_ddpnic *d, const struct snic_ddp_event *ev);
int ddpnic_host_work(struct snic_ddpnic *d);

/* timer.c */
uint32_t ddpnic_timer_of_write(const struct snic_ddpnic *d, const struct ddpnic_write *w);
uint32_t ddpnic_timer_of_rec(const struct snic_ddpnic *d, const struct ddpnic_rec *r);
void ddpnic_timer_stop(struct snic_ddpnic *d, uint32_t number);
void ddpnic_timer_arm(struct snic_ddpnic *d, uint32_t number, uint32_t class);
void ddpnic_timer_retry(struct snic_ddpnic *d, uint32_t number, uint32_t tries);

/* fifo.c */
int ddpnic_fifo_room(const struct snic_ddpnic *d);
void ddpnic_accept(struct snic_ddpnic *d, struct ddpnic_rec *r, const struct snic_ddp_msg *m);
void ddpnic_store(struct snic_ddpnic *d, const struct ddpnic_rec *r, uint64_t scope);
uint32_t ddpnic_newest(const struct ddpnic_rec *r);
void ddpnic_unref(struct snic_ddpnic *d, uint32_t item);
int ddpnic_fifo_event(struct snic_ddpnic *d, const struct snic_ddp_event *ev);
int ddpnic_fifo_eval(struct snic_ddpnic *d, struct ddpnic_rec *r);
void ddpnic_dirty(struct snic_ddpnic *d, struct ddpnic_rec *r);

/* coord.c */
struct ddpnic_write *ddpnic_write_new(struct snic_ddpnic *d, struct ddpnic_rec *r, uint64_t ts,
                                      uint32_t flags);
struct ddpnic_write *ddpnic_write_find(const struct snic_ddpnic *d, const struct ddpnic_rec *r,
                                       uint64_t ts);
void ddpnic_write_free(struct snic_ddpnic *d, struct ddpnic_write *w);
uint16_t ddpnic_write_missing(const struct snic_ddpnic *d, const struct ddpnic_write *w);
void ddpnic_write_invalidate(struct snic_ddpnic *d, struct ddpnic_write *w, uint16_t to);
void ddpnic_write_forward(struct snic_ddpnic *d, struct ddpnic_write *w,
                          const struct snic_ddp_msg *m);
void ddpnic_write_ack_host(struct snic_ddpnic *d, struct ddpnic_write *w, uint16_t acked);
void ddpnic_write_eval(struct snic_ddpnic *d, struct ddpnic_write *w);
void ddpnic_write_retry(struct snic_ddpnic *d, struct ddpnic_write *w);
void ddpnic_write_acked(struct snic_ddpnic *d, struct ddpnic_write *w);
int ddpnic_coord_inv(struct snic_ddpnic *d, const struct snic_ddp_msg *m);
int ddpnic_coord_ack(struct snic_ddpnic *d, const struct snic_ddp_msg *m);
void ddpnic_watch(struct snic_ddpnic *d, struct ddpnic_rec *r, int fresh);
int ddpnic_watch_needed(const struct snic_ddpnic *d, const struct ddpnic_rec *r);
void ddpnic_watch_fire(struct snic_ddpnic *d, struct ddpnic_rec *r);

/* follow.c */
int ddpnic_follow_inv(struct snic_ddpnic *d, const struct snic_ddp_msg *m);
int ddpnic_follow_val(struct snic_ddpnic *d, const struct snic_ddp_msg *m);
int ddpnic_follow_eval(struct snic_ddpnic *d, struct ddpnic_rec *r);
void ddpnic_wait_free(struct snic_ddpnic *d, uint32_t n);
struct ddpnic_wait *ddpnic_wait_new(struct snic_ddpnic *d, uint8_t src, uint8_t flags);

/* scope.c */
int ddpnic_scope_host(struct snic_ddpnic *d, const struct snic_ddp_msg *m);
int ddpnic_scope_message(struct snic_ddpnic *d, const struct snic_ddp_msg *m);
int ddpnic_scope_marked(struct snic_ddpnic *d, const struct snic_ddp_event *ev);
int ddpnic_scope_covers(const struct ddpnic_wait *a, const struct ddpnic_item *t);
void ddpnic_scope_marks(struct snic_ddpnic *d);
void ddpnic_scope_eval(struct snic_ddpnic *d);

/* epoch.c */
int ddpnic_epoch(struct snic_ddpnic *d, const struct snic_ddp_view *v);
int ddpnic_epoch_work(struct snic_ddpnic *d);

#endif /* SNIC_DDPNIC_PRIV_H */
