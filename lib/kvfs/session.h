/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the engine keeps of its session and of the others' (session.c). Part of struct snic_kvfs.
 */
#ifndef SNIC_KVFS_SESSION_H
#define SNIC_KVFS_SESSION_H

#include "snicstore/kvfs_format.h"

struct snic_kvfs;
struct kvfs_op;

enum { KVFS_SESSIONS_MAX = 64 };

/* Another session of the table, as last seen. */
struct kvfs_other {
    uint64_t id;
    uint64_t counter;
    uint64_t moved_ns; /* when its counter was first seen to be this, on our clock */
    uint32_t flags;    /* SNIC_KVFS_SESSION_* */
    uint32_t seen;     /* in the scan under way */
};

struct kvfs_session {
    uint8_t mounted;
    uint8_t dead;  /* lost its lease: everything ends with SNIC_EIO until a new mount */
    uint8_t alone; /* our record says that we cache: no other session uses the store */
    uint8_t busy;  /* a heartbeat is under way */
    uint32_t other_count;
    struct snic_kvfs_super super;
    uint64_t next_ns;   /* next heartbeat; SNIC_NEVER: none */
    uint64_t id;        /* of this mount; 0: none */
    uint64_t mounts;    /* sessions begun by this engine: each has an id of its own */
    uint64_t counter;   /* of the last heartbeat written */
    uint64_t proven_ns; /* our record was certainly there at this time */
    uint64_t intents;   /* numbers of intents given out, never reused */
    uint64_t era;       /* raised when `alone` ends: operations of an older era must end first */
    struct kvfs_other others[KVFS_SESSIONS_MAX]; /* alive ones, without us */
};

/*
 * For kvfs.c. Before each run of an operation of a request (all kinds but MKFS, MOUNT): 0;
 * SNIC_EIO the session is dead; KVFS_PENDING the lease may be over: a heartbeat that proves it
 * has been started, and the operation is run again after it.
 */
int kvfs_session_gate(struct kvfs_op *op);
/* From advance and set_sole: starts the heartbeat, and removals that are due. */
void kvfs_session_advance(struct snic_kvfs *k);
uint64_t kvfs_session_deadline(const struct snic_kvfs *k);
/* kvfs_new_ino(): note in this operation's changes that [first, first + count) are ours. */
int kvfs_session_range(struct kvfs_op *op, uint64_t first, uint64_t count);

#endif /* SNIC_KVFS_SESSION_H */
