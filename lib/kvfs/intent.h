/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared by intent.c (the steps of a commit) and intent_resolve.c (reservations of others, and of
 * dead sessions).
 */
#ifndef SNIC_KVFS_INTENT_H
#define SNIC_KVFS_INTENT_H

#include "kvfs/txn_priv.h"

enum { KVFS_INTENT_GROUPS = 12 };

/* In this order; UNDO and DELETE end both success and failure. */
enum kvfs_intent_step {
    KVFS_INTENT_PRIVATE = 1, /* the private group, and the intent's record                     */
    KVFS_INTENT_RESERVE,
    KVFS_INTENT_CHECK,
    KVFS_INTENT_FLIP,
    KVFS_INTENT_QUERY,  /* read the intent back: the outcome of the flip is unknown            */
    KVFS_INTENT_DECIDE, /* J1: the last group                                                  */
    KVFS_INTENT_APPLY,
    KVFS_INTENT_RESTORE,
    KVFS_INTENT_SETTLE, /* record by record, where APPLY or RESTORE met another session        */
    KVFS_INTENT_UNDO,   /* the private group, if the commit has failed                         */
    KVFS_INTENT_DELETE,
    KVFS_INTENT_DONE,
    KVFS_INTENT_FAILED
};

struct kvfs_intent_group {
    uint64_t group;
    uint32_t changes;
    uint32_t guards; /* on records that do not change */
    uint32_t held;   /* its reservations may exist */
};

struct kvfs_intent_item {
    struct kvfs_change *change;
    const struct kvfs_read *read; /* as it was; NULL: objects, private records */
    unsigned char *reserved;
    uint32_t reserved_size;
};

/* op->intent while a commit is in progress. */
struct kvfs_intent {
    struct snic_kvop_key key; /* of the intent, or of the record being resolved */
    uint32_t step;            /* enum kvfs_intent_step */
    uint8_t durable;
    uint8_t begun;
    uint8_t aborting; /* QUERY: the intent was read, and is being aborted */
    int32_t error;
    uint64_t session;
    uint64_t number;
    unsigned char *pending; /* the intent's record; NULL: none (J1) */
    unsigned char *committed;
    uint32_t record_size;
    uint32_t group_count;
    uint32_t open_count; /* groups that are not private */
    uint32_t item_count;
    uint32_t read_count;
    uint32_t object_count;
    uint32_t guard_at;
    uint32_t change_at;
    uint32_t at; /* SETTLE: the item */
    struct snic_kvop_guard *guards;
    struct snic_kvop_change *changes;
    struct kvfs_place *places; /* one for each group, and one for the intent's record */
    unsigned char *room;       /* SETTLE, ASK: a record of the store */
    uint32_t room_size;
    void *single; /* intent_resolve.c: SETTLE, ASK */
    struct kvfs_intent_group groups[KVFS_INTENT_GROUPS];
    struct kvfs_intent_item items[SNIC_KVOP_CHANGES_MAX];
    struct kvfs_read *reads[SNIC_KVOP_GUARDS_MAX];
    uint64_t objects[SNIC_KVFS_INTENT_OBJECTS_MAX];
};

static inline void kvfs_intent_begin(struct kvfs_intent *n, uint32_t step)
{
    SNIC_ASSERT(step >= KVFS_INTENT_PRIVATE && step <= KVFS_INTENT_FAILED);
    SNIC_ASSERT(n->step != KVFS_INTENT_DONE && n->step != KVFS_INTENT_FAILED);
    n->step = step;
    n->begun = 0;
    n->guard_at = 0;
    n->change_at = 0;
    for (uint32_t i = 0; i <= n->group_count; i++)
        n->places[i].state = KVFS_PLACE_FREE;
}
/* Memory for them, cleared; NULL. */
void *kvfs_intent_single(struct kvfs_op *op);
/* The steps ASK and SETTLE. KVFS_PENDING, or the step has changed. */
int kvfs_intent_slow(struct kvfs_op *op, struct kvfs_intent *n);

#endif /* SNIC_KVFS_INTENT_H */
