/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store's inside: shared by the files of this module and its tests.
 *
 * envelope.c bytes of a record; index.c records in the order of their keys; access.c what all
 * operations share: names, keys compared, answers; change.c read-modify-write; expire.c TTLs;
 * watch.c the ring of changes; changed.c what the replica reports of its records; plain.c reads and
 * writes of one step; scan.c; store.c options, memory.
 *
 * Invariants (numbered, cited in the code):
 * S1  An operation is answered once, from the loop, never inside submit.
 * S2  Of the read-modify-writes of this store on a name one is active; the others are in its queue.
 * S3  An envelope is built from one record: of a compare-and-swap the one it compares with, of a
 *     plain write the local one in the step that numbers it. So the list of sessions that a value
 *     has is that of the value it replaced, and what was added.
 * S4  What is written to a record whose list is not empty, or was ever cut, keeps both: a deletion
 *     too.
 */
#ifndef SNIC_STORE_PRIV_H
#define SNIC_STORE_PRIV_H

#include "snicstore/store.h"

/* ---- envelope.c ---- */

#define SNIC_STORE__VERSION 1
#define SNIC_STORE__HEAD 32
#define SNIC_STORE__SESSION 40
#define SNIC_STORE__DELETED 1 /* flags */
#define SNIC_STORE__EXPIRED 2
/* The largest head, key and list. */
#define SNIC_STORE__FRONT                                                                          \
    (SNIC_STORE__HEAD + SNIC_STORE_KEY_MAX + SNIC_STORE_SESSIONS_MAX * SNIC_STORE__SESSION)
SNIC_STATIC_ASSERT(SNIC_STORE__FRONT <= SNIC_STORE_OVERHEAD, "what the header promises");
SNIC_STATIC_ASSERT(SNIC_STORE_VALUE_MAX <= SNIC_REPLICA_VALUE_MAX - SNIC_STORE_OVERHEAD, "fits");

/* A record, decoded: pointers into its bytes. */
struct store_envelope {
    const unsigned char *key;
    const unsigned char *list;
    const unsigned char *data;
    uint32_t key_size;
    uint32_t size;
    uint32_t sessions;
    uint32_t flags;
    uint64_t ttl_ns;
    uint64_t origin;  /* timestamp of the write whose TTL this value continues; 0: its own */
    uint64_t removed; /* the highest timestamp that was removed from the list; 0: none was */
};

struct store_session {
    uint64_t client;
    uint64_t sequence;
    uint64_t ts; /* 0 in the record that first has it: the record's own */
    int32_t result;
    uint64_t answer;
};

int store_envelope_get(const void *bytes, size_t size, struct store_envelope *out);
void store_session_get(const struct store_envelope *e, uint32_t i, struct store_session *out);
void store_session_put(unsigned char *list, uint32_t i, const struct store_session *in);
uint32_t store_envelope_front(const struct store_envelope *e);
void store_envelope_put(unsigned char *bytes, const struct store_envelope *e);

/* ---- The store ---- */

enum store_op_state {
    STORE_OP_FREE = 0,
    STORE_OP_PLAIN,   /* at the replica */
    STORE_OP_WAITING, /* in the queue of another one (S2) */
    STORE_OP_READING, /* read-modify-write: at the replica */
    STORE_OP_WRITING,
    STORE_OP_PAUSED, /* until the timer reads again */
    STORE_OP_READY   /* answered, to be delivered */
};

/* ---- Records: index, TTLs, changes ---- */

#define SNIC_STORE__NIL UINT32_MAX
#define SNIC_STORE__ENDED_NS UINT64_C(1000000000) /* how much earlier another clock may be */

enum store_node_flag {
    STORE_N_IN = 1,      /* in the index */
    STORE_N_LIVE = 2,    /* the last readable value is one, no deletion that keeps a list */
    STORE_N_LOCKED = 4,  /* a newer one is not readable yet */
    STORE_N_HELD = 8,    /* the value is held: it is deleted, not yet readably (I3) */
    STORE_N_SWAPPED = 16 /* deleted by compare-and-swap: TTLs are */
};

/* Of the record with its number. */
struct store_node {
    uint64_t prefix; /* the key's first bytes */
    uint64_t value;
    uint64_t ts;
    uint64_t origin;     /* of the TTL: the write that it began with; 0: none */
    uint64_t expires_ns; /* by this node's clock */
    uint64_t due_ns;     /* the heap's order */
    uint32_t left;
    uint32_t right;
    uint32_t parent;
    uint32_t heap; /* its place in the heap + 1; 0: not in it */
    uint32_t generation;
    uint32_t flags;
    uint32_t held_next;
    uint32_t held_prev;
};

/* A change in the ring. */
struct store_slot {
    uint64_t ts;
    uint64_t value; /* held: the new one; of a deletion the one before */
    uint32_t bytes;
    uint32_t kind;
};

/* A deletion of what expired. */
struct store_expiry {
    struct snic_store_op op;
    struct store_expiry *next; /* free */
    unsigned char key[SNIC_STORE_KEY_MAX];
};

/* Pieces of the caller's memory. */
struct store_parts {
    void *replica;
    unsigned char *buffer; /* a record's front, and the new value of MODIFY at SNIC_STORE__FRONT */
    unsigned char *list;   /* of its sessions */
    struct snic_store_op **active; /* read-modify-writes by name, chained */
    uint32_t active_mask;
    uint32_t records;
    struct store_node *nodes; /* by record */
    uint32_t *heap;           /* of records */
    struct store_slot *ring;
    struct store_expiry *expiries;
    uint32_t expiries_max;
};

struct snic_store {
    struct store_parts p;
    struct snic_store_opts o; /* with all defaults; replica is NULL */
    struct snic_loop *loop;
    struct snic_replica *replica;
    uint32_t node;
    uint32_t stopped;
    uint32_t model;
    uint32_t boot; /* the replica's option `incarnation` */
    uint64_t (*clock)(void *ctx);
    void *ctx;
    uint32_t changing;
    struct snic_link ready;
    struct snic_link paused;
    struct snic_timer deliver;
    struct snic_timer resume;

    uint32_t root;
    uint32_t held;       /* list of nodes whose value is held */
    uint32_t generation; /* I4 */
    uint32_t heap_count;
    uint64_t expire_from; /* no deletion before: one was refused */
    struct snic_timer expiry;
    struct store_expiry *expiry_free;
    uint32_t expiries;     /* deletions under way */
    uint32_t expiries_now; /* that may be now: X2 */
    uint32_t expiries_full;

    struct snic_link watches;
    struct snic_timer wake;
    uint32_t waiting;   /* watches that want to be called */
    uint32_t wake_left; /* W2 */
    uint32_t looked;    /* changes and watches, in this iteration */
    uint32_t ring_used;
    uint32_t resets;
    uint64_t ring_first; /* W1 */
    uint64_t ring_next;
    uint64_t ring_bytes;
    uint64_t incarnation; /* of positions */

    struct snic_store_stats stats;
    struct snic_hist latency[SNIC_STORE_CLASSES][SNIC_STORE_DURABILITIES];
};

/* index.c */
int store_node_in(const struct snic_store *s, uint32_t n);
const unsigned char *store_node_key(const struct snic_store *s, uint32_t n, uint32_t *size);
uint64_t store_key_prefix(const unsigned char *key, uint32_t size);
int store_key_compare(const unsigned char *a, uint32_t a_size, const unsigned char *b,
                      uint32_t b_size);
void store_index_add(struct snic_store *s, uint32_t n);
void store_index_remove(struct snic_store *s, uint32_t n);
uint32_t store_index_lower(const struct snic_store *s, const unsigned char *key, uint32_t size,
                           int above);
uint32_t store_index_next(const struct snic_store *s, uint32_t n);
int store_index_check(const struct snic_store *s, uint32_t *count);

/* access.c */
uint64_t store_ttl_left(const struct snic_store *s, uint32_t n);
uint64_t store_now(const struct snic_store *s);
void store_name(const struct snic_store *s, const void *key, uint32_t size,
                struct snic_ddp_key *out);
int store_open(struct snic_store *s, const void *key, uint32_t key_size, const void *bytes,
               uint32_t size, struct store_envelope *out);
void store_finish(struct snic_store_op *op, int result);
void store_finish_later(struct snic_store_op *op, int result);
void store_deliver_fire(struct snic_timer *t, uint64_t now_ns);
void store_show(struct snic_store_op *op, int present, const struct store_envelope *e,
                uint64_t version, uint64_t value);
void store_build(struct snic_store_op *op, const struct store_envelope *e);
uint32_t store_list_copy(struct snic_store *s, const struct store_envelope *old, uint64_t version,
                         const struct store_session *own, uint64_t *removed);
void store_replica_op(struct snic_store_op *op, uint32_t kind, snic_replica_done_fn done);

/* change.c */
int store_change_begin(struct snic_store_op *op);
void store_resume_fire(struct snic_timer *t, uint64_t now_ns);

/* expire.c */
void store_expire_clear(struct snic_store *s, uint32_t n);
void store_expire_value(struct snic_store *s, uint32_t n, uint64_t ts,
                        const struct store_envelope *e);
void store_expire_fire(struct snic_timer *t, uint64_t now_ns);
void store_expire_init(struct snic_store *s);
uint32_t store_expiries(const struct snic_store_opts *o, const struct snic_replica_opts *r);
int store_expire_check(const struct snic_store *s);

/* watch.c */
void store_watch_reset(struct snic_store *s);
void store_watch_push(struct snic_store *s, uint32_t kind, uint64_t ts, uint64_t value);
void store_wake_fire(struct snic_timer *t, uint64_t now_ns);
int store_watch_check(const struct snic_store *s);

/* changed.c */
void store_changed(void *ctx, const struct snic_replica_change *c);

/* plain.c */
int store_plain_begin(struct snic_store_op *op);

#endif /* SNIC_STORE_PRIV_H */
