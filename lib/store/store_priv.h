/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store's inside: shared by the files of this module and its tests.
 *
 * envelope.c bytes of a record; access.c what all operations share: names, keys compared, answers;
 * change.c read-modify-write; plain.c reads and writes of one step; store.c options, memory.
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
#define SNIC_STORE__DELETED 1 /* flag */
/* The largest head, key and list. */
#define SNIC_STORE__FRONT                                                                          \
    (SNIC_STORE__HEAD + SNIC_STORE_KEY_MAX + SNIC_STORE_SESSIONS_MAX * SNIC_STORE__SESSION)
SNIC_STATIC_ASSERT(SNIC_STORE__FRONT <= SNIC_STORE_OVERHEAD, "what the header promises");

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

/* Pieces of the caller's memory. */
struct store_parts {
    void *replica;
    unsigned char *buffer; /* of the record that is built: the value is at SNIC_STORE__FRONT */
    unsigned char *list;   /* of its sessions */
    struct snic_store_op **active; /* read-modify-writes by name, chained */
    uint32_t active_mask;
};

struct snic_store {
    struct store_parts p;
    struct snic_store_opts o; /* with all defaults; replica is NULL */
    struct snic_loop *loop;
    struct snic_replica *replica;
    uint32_t node;
    uint32_t stopped;
    uint32_t model;
    uint32_t pad;
    uint64_t (*clock)(void *ctx);
    void *ctx;
    uint32_t changing;
    struct snic_link ready;
    struct snic_link paused;
    struct snic_timer deliver;
    struct snic_timer resume;
    struct snic_store_stats stats;
    struct snic_hist latency[SNIC_STORE_CLASSES][SNIC_STORE_DURABILITIES];
};

/* access.c */
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
const unsigned char *store_build(struct snic_store *s, const struct snic_store_op *op,
                                 const struct store_envelope *e, uint32_t *size);
uint32_t store_list_copy(struct snic_store *s, const struct store_envelope *old, uint64_t version,
                         const struct store_session *own, uint64_t *removed);
void store_replica_op(struct snic_store_op *op, uint32_t kind, snic_replica_done_fn done);

/* change.c */
int store_change_begin(struct snic_store_op *op);
void store_resume_fire(struct snic_timer *t, uint64_t now_ns);

/* plain.c */
int store_plain_begin(struct snic_store_op *op);

#endif /* SNIC_STORE_PRIV_H */
