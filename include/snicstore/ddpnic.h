/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ddpnic.h
 * Leaderless replication of a key-value table with most of the work done by a SmartNIC: MINOS-O
 * (Psistakis et al., HPCA 2024, section V), repaired where it does not hold. A node is two halves.
 * The host half takes reads and writes; the SmartNIC half (NIC) talks to the other nodes' NICs,
 * keeps two queues of updates, the vFIFO and the dFIFO, and works for followers without the host.
 * The two halves share a line of memory per key that is coherent between them, and exchange
 * messages over PCIe. The promises of the models are those in ddp.h.
 *
 * Depends on  snicstore/ddp.h (its messages, timestamps, models, views, events, actions),
 *             snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. The state has no
 *             pointers: a copy of the memory, at the same alignment, is a node in the same state.
 *             About 250 bytes per key (keys_max, and others_max * writes_max more), 200 per write,
 *             50 per wait and FIFO slot, 24 per read.
 * Threads     [owner] one thread owns a node, both halves; memsize is [any].
 * Progress    No call blocks. O(1) per event, but: EPOCH is O(writes and waits in flight), TICK
 *             O(timers due), an unlock O(what waits for that key), a marker of a scope O(dFIFO).
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing but a counter changed.
 * Units       nanoseconds; bytes; FIFO sizes in entries.
 * Input       messages of other nodes are hostile: every field is checked, and a bad one is counted
 *             and dropped. The PCIe is trusted.
 *
 * How it is driven. Each half has a step and a poll of its own, to be used like those of ddp.h:
 *
 *     r = snic_ddpnic_step_nic(d, now, &event);                       // an event happened there
 *     while (snic_ddpnic_poll_nic(d, &action) != 0) carry_out(&action);   // all, in this order
 *     sleep_until(snic_ddpnic_deadline_ns(d));                        // timers are the NIC's
 *
 * After a step of a half its actions are polled before the next step of either (asserted). A step
 * of one half uses nothing of the other's but the coherent lines, so both may be at different
 * times: the caller determines how long messages between them take. `now_ns` never goes back in
 * one half.
 *
 * ---- A write, as it goes ----
 *
 *     host   WRITE: takes a timestamp and the key's read lock by one compare-and-swap on the key's
 *            coherent word; action PCIE, an INV for all followers
 *     NIC    PCIE: if the key has accepted a newer write meanwhile (the PCIe takes its time) then
 *            it sends nothing, and waits for that one; otherwise SEND of INV, VSTORE and DSTORE
 *            into the FIFOs
 *     others MESSAGE INV: lock, VSTORE, DSTORE; VSTORED, DSTORED: SEND of the acknowledgements
 *     NIC    MESSAGE ACK from all: action PCIE, one ACK, with which the host answers DONE;
 *            once the own vFIFO entry is drained: unlock, SEND of VAL
 *
 * vFIFO: an entry takes a slot when VSTORE is polled. When it is stored, and those of its key
 * before it are out, DMA is polled: value to the host's cache; DRAINED frees the slot and makes the
 * value the key's. Different keys drain in parallel. An entry with a newer one of its key stored
 * behind it is dropped without DMA, which counts as drained.
 *
 * dFIFO: an entry takes a slot when DSTORE is polled and is durable at DSTORED. LOG follows, to the
 * host's log in any order; LOGGED frees the slot. The reader that applies the log skips entries
 * older than what it has of the key.
 *
 * Stores may complete in any order. Storing the two in parallel or one after the other, and what
 * each costs, is the caller's.
 *
 * Full FIFOs. A step_nic with an INV for which there is no room returns SNIC_EAGAIN. From another
 * node: drop it, that counts as lost (the paper's rejection, NACK); or offer it again later. From
 * the host: the PCIe stalls, offer it again after DRAINED, LOGGED or any other event of the NIC.
 * Draining waits for nothing but DMA and log, so neither order nor choice can deadlock.
 *
 * Timestamps are those of ddp.h. A version here is even (ddp.h's compare-and-swap, amendments A11,
 * is what makes odd ones), so its lowest bit is free to be the read lock: the coherent word of a
 * key is the highest timestamp that was ever snatched, with that bit for as long as it is locked.
 * A write's timestamp is above that word, so above volatileTS, RDLock_Owner and the last one issued
 * (H1, H2: the paper reads volatileTS only, which lags until the vFIFO has drained).
 *
 * Where this differs from the paper and from a store that is one moment: stores take time here, so
 * whatever lets a value be read or reports that all have it waits for the coordinator's own FIFOs.
 * Synch and REnf unlock, and send VAL, when the own dFIFO has the write, and gV waits for the own
 * vFIFO. (Otherwise a value can be read that a crash of all loses.)
 *
 * ---- Variants, for measuring (the paper's figure 12) ----
 *
 * SNIC_DDPNIC_UNBATCHED  the host sends an INV for each follower over PCIe, and gets an ACK for
 *                        each, of which the last one answers the client
 * SNIC_DDPNIC_UNICAST    no broadcast: a SEND for each destination instead of one with a mask. An
 *                        unbatched INV is then sent on as it comes; with broadcast the NIC waits
 *                        for the last of them
 *
 * ---- Failures ----
 *
 * Messages between nodes may be lost, doubled, late and in any order: INV and PERSIST are sent
 * again (retransmit_ns), a doubled INV never locks, a lock whose VAL does not come is lifted by a
 * replay (replay_ns): a node that does not know the newest write that it accepted to be complete
 * repeats it with the write's timestamp, with the value from wherever it is, the vFIFO included
 * (A12).
 * A new view leaves nodes out; acknowledgements of nodes that are not in both views in the same
 * incarnation do not count on. The PCIe loses nothing and keeps the order, each way; a node's
 * halves fail together. When a node crashes its vFIFO is lost. Its dFIFO is not: what
 * snic_ddpnic_dfifo returns from the dead node's memory is appended to its log before that is read.
 *
 * Left to ddp: nodes that join (views only lose nodes here), restart of all from their logs (which
 * a ddp does, on log and dFIFO), compare-and-swap, purging of tombstones, QUERY (a follower replays
 * without asking).
 */
#ifndef SNIC_DDPNIC_H
#define SNIC_DDPNIC_H

#include "snicstore/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A node: both halves. Lives in caller memory. Has no pointers: may be copied as bytes. */
struct snic_ddpnic;

#define SNIC_DDPNIC_ALIGN 64

enum {
    /* SNIC_DDP_PAPER: an INV older than what was accepted waits until that is complete (but for a
     * replay's). */
    SNIC_DDPNIC_UNBATCHED = 1 << 8,
    SNIC_DDPNIC_UNICAST = 1 << 9
};

struct snic_ddpnic_opts {
    uint32_t opts_size;
    uint32_t model; /**< enum snic_ddp_model */
    uint32_t flags;
    uint32_t node;          /**< own number, below SNIC_DDP_NODES_MAX */
    uint32_t keys_max;      /**< records, tombstones included, below which a client's new key is
                              taken; the same at all nodes                  1 ... 2^28.
                              There is room for more: for the new keys of others, each of
                              which looked at its own table only */
    uint32_t writes_max;    /**< at a time in each half, one of the NIC's
                              for replays only; open scopes count at the NIC  2 ... 2^20 */
    uint32_t waits_max;     /**< invalidations not yet acknowledged for good  2 ... 2^20 */
    uint32_t reads_max;     /**< reads that wait for an unlock                0 ... 2^20 */
    uint32_t scopes_max;    /**< open here                                    0 ... 2^16 */
    uint32_t vfifo_max;     /**< slots                                        1 ... 2^20 */
    uint32_t dfifo_max;     /**< slots                                        1 ... 2^20 */
    uint32_t others_max;    /**< the other nodes of any view, at most         default 15 */
    uint64_t retransmit_ns; /**< first; doubles up to 64 times             default 1 ms */
    uint64_t replay_ns;     /**< a key locked by another's write for so long
                              is replayed                                  default 10 ms */
};

/* ---- Events and actions: ddp.h's structs, types, and these ---- */

/**
 * Host half: SNIC_DDP_READ, WRITE, DELETE, SYNC, LEASE, and
 *   PCIE   msg: from the NIC
 *   WAKE   key: is unlocked; with flags SNIC_DDPNIC_ALL: this node is no member any more
 * NIC half: SNIC_DDP_MESSAGE, EPOCH, TICK, FIRE, and
 *   PCIE     msg: from the host
 *   VSTORED  key, ts: the entry is in the vFIFO
 *   DSTORED  key, ts: the entry is in the dFIFO, durable
 *   DRAINED  key, ts: DMA is done
 *   LOGGED   key, ts: the host's log has it
 *   MARKED   id, scope (as MARK had them): it is durable
 */
enum snic_ddpnic_event_type {
    SNIC_DDPNIC_PCIE = 32, /**< also the action: msg to the other half */
    SNIC_DDPNIC_WAKE,      /**< also the action of the NIC: the coherent line has changed */
    SNIC_DDPNIC_VSTORED,
    SNIC_DDPNIC_DSTORED,
    SNIC_DDPNIC_DRAINED,
    SNIC_DDPNIC_LOGGED,
    SNIC_DDPNIC_MARKED
};

/**
 * Host half: SNIC_DDP_DONE, NEED_EPOCH, PCIE.
 * NIC half: SNIC_DDP_SEND, RELEASE, SUSPECT, PCIE, WAKE (msg.key, flags), and these; msg has key,
 * ts, value, length, flags (TOMBSTONE), scope. LOG, and DSTORE in REnf, Event and Scope, is
 * SNIC_DDP_BACKGROUND: no answer waits for it.
 */
enum snic_ddpnic_action_type {
    SNIC_DDPNIC_VSTORE = 48, /**< into the vFIFO, then VSTORED */
    SNIC_DDPNIC_DSTORE,      /**< into the dFIFO, then DSTORED */
    SNIC_DDPNIC_DMA,         /**< from the vFIFO to the host's cache, then DRAINED */
    SNIC_DDPNIC_LOG,         /**< from the dFIFO to the host's log, then LOGGED */
    SNIC_DDPNIC_MARK         /**< a scope's marker into NVM (no slot), then MARKED: id, msg.scope */
};

enum { SNIC_DDPNIC_ALL = 1 << 9 /**< of WAKE */ };

/*
 * Messages over PCIe are struct snic_ddp_msg:
 *   host to NIC  INV: key, ts, value, length, flags, scope; PERSIST: scope.
 *                index: mask of the nodes that it goes to; seen[0]: of unbatched ones how many
 *                follow this one
 *   NIC to host  ACK: key, ts; PERSIST_ACK: scope.
 *                index: mask of the nodes whose acknowledgement it stands for; seen[0]: 1: this is
 *                the last, the client may be answered
 * epoch, incarnations, dst are without meaning.
 *
 * Values: a handle comes in with WRITE to the host or with an INV to the NIC, and goes back once,
 * with a RELEASE of the NIC. Over PCIe it travels with the (first) INV. Handles in actions are
 * borrowed until either half is stepped again.
 *
 * Results of DONE: 0 (value and ts of a read; ts of a write), SNIC_ENOENT (a read found nothing),
 * SNIC_EUNKNOWN (this node left the membership meanwhile: the write may or may not happen),
 * SNIC_ESTALE (a read: it left; SYNC of a scope this node knows nothing of).
 */

/* ---- Calls ---- */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_ddpnic_opts_wrong(const struct snic_ddpnic_opts *opts) SNIC_NONNULL(1);
/** Bytes of memory; 0 when an option is wrong (snic_ddpnic_opts_wrong). [any] */
SNIC_API size_t snic_ddpnic_memsize(const struct snic_ddpnic_opts *opts);
/**
 * Makes a node that is FENCED, with an empty table, in @p mem, which is the node's until the caller
 * uses it for something else; @p opts is copied. [owner]
 * @return 0; SNIC_EINVAL an option is wrong, or @p mem is not aligned to SNIC_DDPNIC_ALIGN;
 *         SNIC_ENOSPC @p mem is NULL or smaller than snic_ddpnic_memsize()
 */
SNIC_API SNIC_NODISCARD int snic_ddpnic_init(struct snic_ddpnic **d, void *mem, size_t mem_size,
                                             const struct snic_ddpnic_opts *opts);
/**
 * Handles an event of the host. @p now_ns never goes back; all actions of both halves were polled
 * (asserted). After an error nothing has changed but a counter, and a handle stays the caller's.
 * [owner]
 * @return 0
 *   SNIC_EAGAIN  READ: reads_max reads wait. WRITE, DELETE: no write or no scope is free, SYNC of
 *                their scope is under way, or the key has no version left (NEED_EPOCH is polled).
 *                SYNC: it is under way
 *   SNIC_ESTALE  READ, WRITE, DELETE, SYNC: no member, or no lease
 *   SNIC_ENOSPC  WRITE, DELETE: a new key, and keys_max or more exist
 *   SNIC_EINVAL  a type that is none of the host's. WRITE, DELETE: a scope without the model Scope,
 *                or none with it. SYNC: another model, or scope 0. PCIE: NULL, or a message type
 *                that the NIC does not send. WAKE with SNIC_DDPNIC_ALL: this node is a member
 */
SNIC_API SNIC_NODISCARD int snic_ddpnic_step_host(struct snic_ddpnic *d, uint64_t now_ns,
                                                  const struct snic_ddp_event *ev);
/**
 * Handles an event of the NIC. @p now_ns never goes back; all actions of both halves were polled
 * (asserted). After an error nothing has changed but a counter, and a handle stays the caller's.
 * [owner]
 * @return 0
 *   SNIC_EAGAIN  PCIE: no FIFO slot, write or wait is free: offer it again. MESSAGE: no FIFO slot,
 *                wait or record is free: it counts as lost
 *   SNIC_ESTALE  MESSAGE: of another epoch or incarnation, of no member, or for another node
 *   SNIC_EPROTO  MESSAGE: a field is out of range, or its type is none of this model
 *   SNIC_EINVAL  a type that is none of the NIC's. PCIE: a message that the host does not send.
 *                EPOCH: NULL, or a view that is not the last one without some nodes. VSTORED,
 *                DSTORED, DRAINED, LOGGED, MARKED: of nothing that is under way. FIRE: a timer that
 *                is not armed
 */
SNIC_API SNIC_NODISCARD int snic_ddpnic_step_nic(struct snic_ddpnic *d, uint64_t now_ns,
                                                 const struct snic_ddp_event *ev);
/** The next action of the host. [owner] @return 1 and @p out; 0: none is left */
SNIC_API int snic_ddpnic_poll_host(struct snic_ddpnic *d, struct snic_ddp_action *out);
/** The next action of the NIC. [owner] @return 1 and @p out; 0: none is left */
SNIC_API int snic_ddpnic_poll_nic(struct snic_ddpnic *d, struct snic_ddp_action *out);
/** When to step the NIC with TICK if nothing else happens; SNIC_NEVER: no timer is armed. [owner]
 */
SNIC_API uint64_t snic_ddpnic_deadline_ns(const struct snic_ddpnic *d);

/** A record. */
struct snic_ddpnic_entry {
    /** The host's: what a read gives; ts is volatileTS, locked RDLock_Owner (0: readable), seen gV
     * and gD, durable the highest in the dFIFO or the log. */
    struct snic_ddp_entry host;
    uint64_t top;      /**< the highest that was ever locked */
    uint64_t accepted; /**< the highest that the vFIFO took */
    uint64_t stored;   /**< the highest that was stored in the vFIFO */
    uint64_t value;    /**< handle of what was accepted, 0: deleted */
};
/**
 * A read without an event. The value is borrowed until either half is stepped. [owner]
 * @return 0 and @p out (of `host` key, ts, value, length); SNIC_EAGAIN the key is locked: READ
 * waits for it; SNIC_ENOENT no such key, or it is deleted; SNIC_ESTALE no member, or no lease at
 *         @p now_ns
 */
SNIC_API SNIC_NODISCARD int snic_ddpnic_get(const struct snic_ddpnic *d, uint64_t now_ns,
                                            const struct snic_ddp_key *key,
                                            struct snic_ddpnic_entry *out);
/**
 * The next record, in no order, also one whose first write has not drained yet. *@p cursor begins
 * as 0. [owner]
 * @return 0 and @p out; SNIC_ENOENT there are no more
 */
SNIC_API SNIC_NODISCARD int snic_ddpnic_next(const struct snic_ddpnic *d, uint64_t *cursor,
                                             struct snic_ddpnic_entry *out);
/**
 * The next durable entry of the dFIFO without a LOGGED, in no order: after a crash, those of the
 * memory as it was then are to be appended to the node's log. *@p cursor begins as 0. [owner]
 * @return 0 and key, ts, value, length, flags of @p out; SNIC_ENOENT there are no more
 */
SNIC_API SNIC_NODISCARD int snic_ddpnic_dfifo(const struct snic_ddpnic *d, uint64_t *cursor,
                                              struct snic_ddp_entry *out);

struct snic_ddpnic_counters {
    uint64_t invalid;     /**< messages refused with SNIC_EPROTO */
    uint64_t foreign;     /**< of another epoch or incarnation */
    uint64_t no_room;     /**< SNIC_EAGAIN of the host */
    uint64_t stalled;     /**< SNIC_EAGAIN of the NIC */
    uint64_t retransmits; /**< INV, PERSIST sent again */
    uint64_t replays;     /**< begun */
    uint64_t obsolete;    /**< INVs of others older than what was accepted */
    uint64_t overtaken;   /**< writes of the own host that were obsolete at the NIC */
    uint64_t duplicate;   /**< INVs of what was accepted last */
    uint64_t dropped;     /**< vFIFO entries that were obsolete when their turn came */
};
struct snic_ddpnic_stats {
    uint32_t epoch;
    uint32_t role;    /**< enum snic_ddp_role: FENCED or FULL */
    uint32_t records; /**< tombstones included */
    uint32_t host_writes;
    uint32_t nic_writes; /**< coordinated or replayed now, open scopes included */
    uint32_t waits;
    uint32_t reads;
    uint32_t scopes;
    uint32_t vfifo; /**< slots taken */
    uint32_t dfifo;
    struct snic_ddpnic_counters counters;
};
/** Counters and occupancy as of the last step. [owner] */
SNIC_API void snic_ddpnic_get_stats(const struct snic_ddpnic *d, struct snic_ddpnic_stats *out);

/* ---- For checkers: as in ddp.h. SNIC_DDP_TIMER_WRITE, _SCOPE, _LOCK ---- */

/** The armed timers, at most @p max of them; returns how many there are. [owner] */
SNIC_API uint32_t snic_ddpnic_timers(const struct snic_ddpnic *d, struct snic_ddp_timer *out,
                                     uint32_t max);
/** Bytes that are equal for equal states, as snic_ddp_canon's. [owner] */
SNIC_API size_t snic_ddpnic_canon(const struct snic_ddpnic *d, void *out, size_t size);
/**
 * Checks every structural invariant, between steps. O(n). [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_ddpnic_check(const struct snic_ddpnic *d);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_DDPNIC_H */
