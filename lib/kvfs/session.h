/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * State of this session and of the others (session.c). Part of struct snic_kvfs.
 */
#ifndef SNIC_KVFS_SESSION_H
#define SNIC_KVFS_SESSION_H

#include "snicstore/kvfs_format.h"

struct snic_kvfs;
struct kvfs_op;

enum { KVFS_SESSIONS_MAX = 64, KVFS_SESSION_ASKED = 8 };

/* Another session of the table, as last seen. */
struct kvfs_other {
    uint64_t id;
    uint64_t counter;
    uint64_t moved_ns; /* when its counter was first seen with this value, on our clock */
    uint32_t flags;    /* SNIC_KVFS_SESSION_* */
    uint32_t round;    /* of the scan that saw it last */
};

/* A session that was looked up and that no scan had shown by then. */
struct kvfs_asked {
    uint64_t id;
    uint64_t scans; /* begun by then: a later one decides */
};

/* A pending intent of another session that blocks an operation here. */
struct kvfs_met {
    uint64_t session;
    uint64_t number;
    uint64_t since_ns;
};

struct kvfs_session {
    uint8_t mounted;
    uint8_t dead;  /* lost its lease: everything ends with SNIC_EIO until a new mount */
    uint8_t alone; /* our record has CACHES: no other session uses the store */
    uint8_t busy;  /* a heartbeat is in progress */
    uint8_t yielding;
    uint8_t recovering;
    uint8_t sweeping; /* the orphans are being scanned */
    uint8_t swept;    /* they have been, since the mount */
    uint8_t sweep;    /* they should be */
    uint8_t was_sole;
    uint8_t timing;      /* times kept back are being written */
    uint8_t unsure;      /* the store failed in the course of an intent (intent.c, J10) */
    uint16_t collecting; /* operations of kvfs_collect() */
    uint32_t other_count;
    uint32_t round; /* scans done */
    uint64_t scans_begun;
    uint64_t beats;       /* heartbeats that proved the session */
    uint64_t failures;    /* heartbeats that failed */
    int32_t failure;      /* error of the latest of them */
    uint64_t round_begun; /* the number of the latest one that has ended */
    int32_t error;        /* of a recovery: a mount ends with it */
    struct snic_kvfs_super super;
    uint64_t next_ns; /* next heartbeat; SNIC_NEVER: none */
    uint64_t id;      /* of this mount; 0: none */
    uint64_t mounts;  /* sessions begun by this engine: each has an id of its own */
    uint64_t times_retry_ns;
    uint64_t proven_ns;             /* our record certainly existed at this time */
    uint64_t intents;               /* numbers of intents assigned, never reused */
    struct snic_kvop_key fence_key; /* size 0: none (S7) */
    unsigned char fence[SNIC_KVFS_NUMBER_BYTES];
    /* Raised when `alone` ends (operations begun before must end first), and when it begins. */
    uint64_t era;
    struct snic_link waiters; /* until kvfs_session_ended(): of a heartbeat or another operation */
    struct kvfs_asked asked[KVFS_SESSION_ASKED];
    uint32_t asked_next;
    uint32_t met_next;
    struct kvfs_met met[KVFS_SESSION_ASKED];
    struct kvfs_other others[KVFS_SESSIONS_MAX]; /* alive ones, without us */
};

void kvfs_session_init(struct snic_kvfs *k);
/*
 * For kvfs.c. Before each run of an operation of a request (all kinds but MKFS, MOUNT,
 * UNMOUNT): 0;
 * SNIC_EIO the session is dead, or there is none; KVFS_PENDING the lease may be over: a heartbeat
 * that proves it has been started, and the operation is run again after it; the heartbeat's error
 * when one has failed while the operation waited.
 */
int kvfs_session_gate(struct kvfs_op *op);
/* The same for any operation, from inside of its function; also before the mount has ended. */
int kvfs_session_proven(struct kvfs_op *op);
/* Called by each call of the engine: starts the heartbeat, and removals that are due. */
void kvfs_session_advance(struct snic_kvfs *k);
uint64_t kvfs_session_deadline(const struct snic_kvfs *k);
/* For commits: the guard that makes them fail once the session is dead. 1; 0 there is none. */
int kvfs_session_fence(const struct snic_kvfs *k, struct snic_kvop_guard *g);
/* A guard failed. 1: it was a fence; the session it belongs to has been declared dead. */
int kvfs_session_fenced(struct snic_kvfs *k, const struct snic_kvop *commit);
/* kvfs_new_ino(): note in this operation's changes that [first, first + count) are ours. */
int kvfs_session_range(struct kvfs_op *op, uint64_t first, uint64_t count);

/*
 * For orphan.c: the table of sessions as of now, read after all that the operation has read so
 * far; place `n` of kvfs_io(). 0 (others[] is up to date); KVFS_PENDING; SNIC_E*.
 */
int kvfs_session_look(struct kvfs_op *op, uint32_t n);
/* Wake session.c's waiters: an operation that they may wait for has ended. */
void kvfs_session_ended(struct snic_kvfs *k);

#endif /* SNIC_KVFS_SESSION_H */
