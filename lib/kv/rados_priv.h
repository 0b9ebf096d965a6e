/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Internals of the store on RADOS, shared by rados.c and rados_*.c.
 *
 * RADOS objects. "g.<group>" has the group's records as omap, key 'r' and the escaped key bytes
 * (0 becomes 1 1, 1 becomes 1 2, so that keys are C strings in the same order). Its data are the
 * first 4 MiB of the snicstore object of that number, stripe 0; stripe n is the data of
 * "o.<object>.<n>". A stripe that has blocks has two more omap keys: "!m", a bit for each block of
 * 8 KiB that is taken, and "!g", its generation, a number never used twice that changes when
 * blocks are freed. Object "g." lists the other stripes: keys "!i<n>".
 *
 * Invariants
 *   R1 A write is guarded by the generation, a write that takes blocks by the map, too, all in one
 *      operation; so a cached state of a stripe may be stale, but is harmless: the guard fails, and
 *      the stripe's state is read again.
 *   R2 A stripe is listed before it is created, and removed before it is unlisted.
 *   R3 Blocks that are not taken read as zeros.
 *   R4 One operation of a handle at a time changes a stripe's map; it is `busy` meanwhile.
 */
#ifndef SNIC_KV_RADOS_PRIV_H
#define SNIC_KV_RADOS_PRIV_H

#include "kv/kv_priv.h"

#if defined(SNIC_WITH_RADOS)

#include <pthread.h>
#include <rados/librados.h>

enum {
    KV_RADOS_STRIPE = 4 << 20,
    KV_RADOS_BLOCKS = 512, /* of a stripe */
    KV_RADOS_WORDS = 8,
    KV_RADOS_KEY = 112,       /* an encoded key with its end */
    KV_RADOS_NAME = 40,       /* a RADOS object's name */
    KV_RADOS_TABLE = 4096,    /* buckets for stripes in memory */
    KV_RADOS_STRIPES = 32768, /* stripes in memory */
    KV_RADOS_PAGE = 64,       /* listed stripes processed together */
    KV_RADOS_FENCE_SECONDS = 30 * 86400,
    KV_RADOS_GUARDS = SNIC_KVOP_GUARDS_MAX
};

struct kv_rados;
struct kv_rados_call;
struct kv_rados_sub;

/** A generation; all zero: none. */
struct kv_rados_generation {
    uint64_t client;
    uint64_t number;
};

/** Cached state of a stripe. */
struct kv_rados_stripe {
    struct snic_link recent; /* k->recent, when refs is 0 */
    struct kv_rados_stripe *chain;
    struct snic_link waiters; /* parts */
    uint64_t object;
    uint64_t number;
    uint32_t refs;
    uint8_t known; /* the fields below were read once */
    uint8_t busy;  /* R4 */
    uint8_t live;  /* it has a generation */
    struct kv_rados_generation generation;
    uint64_t map[KV_RADOS_WORDS];
};

enum kv_rados_part_kind {
    KV_RADOS_WRITE,
    KV_RADOS_ZERO,
    KV_RADOS_PUNCH,
    KV_RADOS_LOOK /* only its state */
};

/** The part of a request on one stripe. */
struct kv_rados_part {
    struct snic_link link; /* stripe's waiters */
    struct kv_rados_call *call;
    struct kv_rados_stripe *stripe;
    struct kv_rados_part *next; /* free list */
    enum kv_rados_part_kind kind;
    uint32_t from; /* bytes of the stripe */
    uint32_t to;
    const unsigned char *data;             /* WRITE */
    uint8_t guess;                         /* assume that an unknown stripe is new, once */
    uint8_t fresh;                         /* the state was read for this part */
    uint8_t listed;                        /* R2 */
    uint8_t commit;                        /* the request's records are in the same operation */
    uint8_t holds;                         /* it made the stripe busy */
    uint8_t gone;                          /* out: the stripe no longer exists */
    struct kv_rados_generation generation; /* after the operation in flight */
    uint64_t map[KV_RADOS_WORDS];
    struct kv_rados_generation seen; /* in the list, when it was listed */
};

/** A RADOS operation in flight. */
struct kv_rados_sub {
    struct snic_loop_msg msg;
    struct snic_link link; /* call->subs */
    struct kv_rados_sub *next;
    struct kv_rados *store;
    struct kv_rados_call *call; /* NULL: housekeeping */
    rados_completion_t completion;
    rados_write_op_t write;
    rados_read_op_t read;
    void (*then)(struct kv_rados_sub *sub, int result);
    struct kv_rados_part *part;
    int sent;    /* librados' result of the submission */
    int aborted; /* we have aborted it: a change may have happened or not */
    rados_omap_iter_t iter;
    int iter_result;
    unsigned char more;
    size_t got;
    int got_result;
    uint64_t group;
    unsigned char *scratch;    /* freed with it */
    const struct snic_iov *to; /* READ: destination of scratch */
    size_t skip;
    uint32_t bytes;
    int rvals[KV_RADOS_GUARDS];
};

/** A request in flight. */
struct kv_rados_call {
    struct snic_timer timer;
    struct snic_link subs;
    struct kv_rados *store;
    struct snic_kv_req *req;
    struct kv_rados_call *next_free;
    void (*next)(struct kv_rados_call *call); /* called when pending is 0 */
    void (*then)(struct kv_rados_call *call); /* after a punch */
    uint32_t pending;
    uint32_t step;
    int error; /* SNIC_E*, the first */
    int os_error;
    int thread_result;
    uint8_t active;
    uint8_t started;
    uint8_t sent_change;
    uint8_t cancelled;
    uint8_t late;
    uint8_t whole; /* the whole object is to be removed */
    uint8_t tidy;  /* records were deleted: check whether the group is empty */
    uint64_t object;
    uint64_t from; /* of the rest of the range */
    uint64_t end;
    int64_t allocated;
    unsigned char *data; /* freed with it */
    char after[KV_RADOS_KEY];
    struct kv_rados_part *parts[KV_RADOS_PAGE]; /* of the page */
    uint32_t part_count;
    uint8_t more;      /* stripes behind this page */
    uint64_t *numbers; /* GROUPS */
    uint64_t number_count;
    struct snic_loop_msg msg; /* the thread's */
    struct snic_node node;    /* the thread's queue, k->tidy_waiters */
};

struct kv_rados {
    struct snic_kv kv;
    rados_t cluster;
    rados_ioctx_t io;
    uint64_t client;
    uint64_t generations;
    struct kv_rados_call *calls; /* all of them */
    struct kv_rados_call *calls_free;
    struct kv_rados_sub *subs_free;
    struct kv_rados_part *parts_free;
    uint32_t in_flight;
    uint8_t closing;
    uint8_t posted;
    struct snic_queue queue; /* accepted, to be started */
    struct snic_loop_msg msg;
    struct kv_rados_stripe *table[KV_RADOS_TABLE];
    struct snic_link recent; /* unused stripes, oldest first */
    uint32_t stripes;
    uint32_t tidying; /* housekeeping operations in flight */
    struct snic_queue tidy_waiters;
    uint64_t *numbers; /* GROUPS, between its pages */
    uint64_t number_count;
    /* the thread for calls that block */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct snic_queue jobs;
    int threaded;
    int stop;
};

static inline int kv_rados_dead(const struct kv_rados_call *c)
{
    return c->late || c->cancelled || c->error != 0;
}

/* ---- rados_name.c ---- */

void kv_rados_group_name(char *name, uint64_t group);
void kv_rados_stripe_name(char *name, uint64_t object, uint64_t number);
void kv_rados_stripe_list_key(char *key, uint64_t number);
size_t kv_rados_key(char *out, const struct snic_kvop_key *key);
/** Put guards of the request, then its records, into an operation. */
void kv_rados_commit_guards(struct kv_rados_sub *s);
void kv_rados_commit_changes(struct kv_rados_sub *s);
/** After -ECANCELED. 1: a guard of the request failed, and the result is set. */
int kv_rados_commit_failed(struct kv_rados_sub *s);

/* ---- rados_table.c ---- */

int kv_rados_map_bit(const uint64_t *map, uint32_t block);
void kv_rados_map_set(uint64_t *map, uint32_t from, uint32_t to, int taken);
int64_t kv_rados_map_count(const uint64_t *map);
struct kv_rados_part *kv_rados_part(struct kv_rados_call *c, enum kv_rados_part_kind kind,
                                    uint64_t object, uint64_t number, uint32_t from, uint32_t to);
/** Free all parts of the request. */
void kv_rados_parts_free(struct kv_rados_call *c);
void kv_rados_stripes_close(struct kv_rados *k);

/* ---- rados_call.c ---- */

int kv_rados_error(int os_error);
struct kv_rados_sub *kv_rados_sub(struct kv_rados *k, struct kv_rados_call *c);
void kv_rados_send(struct kv_rados_sub *s, const char *name,
                   void (*then)(struct kv_rados_sub *s, int result));
/** The first error stays. */
void kv_rados_fail(struct kv_rados_call *c, int os_error);
/** Decrement pending. */
void kv_rados_put(struct kv_rados_call *c);
void kv_rados_finish(struct kv_rados_call *c);

/* ---- rados_record.c ---- */

void kv_rados_get(struct kv_rados_call *c);
void kv_rados_scan(struct kv_rados_call *c);
void kv_rados_commit(struct kv_rados_call *c);
/* ---- rados_stripe.c ---- */

void kv_rados_part_run(struct kv_rados_part *p);
/** The part waits in a queue and its request is dead: let it end. */
void kv_rados_part_abort(struct kv_rados_part *p);

/* ---- rados_tidy.c ---- */

/** Remove the group's RADOS object if nothing is left in it, in the background. */
void kv_rados_tidy(struct kv_rados *k, uint64_t group);

/* ---- rados_object.c ---- */

void kv_rados_object(struct kv_rados_call *c);
/** WRITE of contiguous bytes, in parts for its stripes; then c->next. */
void kv_rados_write_parts(struct kv_rados_call *c, uint64_t object, uint64_t offset, uint64_t size,
                          const unsigned char *data, int commit);
/** Range [from, end) of c->object is punched; then c->next. */
void kv_rados_punch(struct kv_rados_call *c, uint64_t object, uint64_t from, uint64_t end,
                    void (*next)(struct kv_rados_call *c));

/* ---- rados_thread.c ---- */

void kv_rados_thread_call(struct kv_rados_call *c);
void kv_rados_groups(struct kv_rados_call *c);
void kv_rados_thread_close(struct kv_rados *k);

#endif /* SNIC_WITH_RADOS */
#endif /* SNIC_KV_RADOS_PRIV_H */
