/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ddp.h
 * Leaderless replication of a key-value table with a choice of what survives which crash: the
 * protocols of MINOS (Psistakis et al., HPCA 2024, section III: MINOS-B), repaired where they do
 * not hold, with the failure handling that the paper leaves out.
 *
 * Every node holds every key. Any node takes a write: it becomes the write's coordinator, sends the
 * value with an invalidation (INV) to all others, which lock the key against reads, store the value
 * and acknowledge; then it validates (VAL), and they unlock. Reads are local. What is acknowledged
 * when, and so what a client's answer means, is the model's choice.
 *
 * Depends on  snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. The state has no
 *             pointers: a copy of the memory, at the same alignment, is a node in the same state.
 *             About 150 bytes per record, of which there are keys_max and others_max * writes_max
 *             more; 100 per write, 50 per wait, 24 per read.
 * Threads     [owner] one thread owns an engine; memsize is [any].
 * Progress    No call blocks. O(1) per event, but: EPOCH is O(writes, waits and scopes), init
 *             clears 8 to 24 bytes per record; a restart looks at 4096 records in a step, a learner
 *             and its donor at some ranges of some keys. TICK is O(timers due), an unlock or an
 *             acknowledgement O(what is in flight of that key), in a scope a write, its answer and
 *             SYNC O(scopes), PERSIST O(waits_max). While there are tombstones, some TICK look for
 *             one to purge: up to 256 records, for each tombstone at all writes and locked keys.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       nanoseconds; bytes.
 * Input       messages are hostile: every field is checked, and a bad one is counted and dropped.
 *
 * How it is driven.
 *
 *     r = snic_ddp_step(d, now, &event);                    // an event happened
 *     while (snic_ddp_poll(d, &action) != 0) carry_out(&action);   // all of them, in this order
 *     sleep_until(snic_ddp_deadline_ns(d));                 // or the next event
 *
 * After a step everything is polled before the next step (asserted): polling is part of it. Actions
 * are started in the order they come; they complete in any order, except that what FLUSH covers are
 * the APPENDs polled before it.
 *
 * Values are handles: numbers that the caller gives bytes to. A handle that comes in by WRITE, CAS,
 * LOADED or with an INV, NACK or RECORD is the engine's until a RELEASE gives it back, once; what
 * is SNIC_DDP_MSG_TOMBSTONE has none. Handles in actions are borrowed: the caller that sends or
 * appends copies the bytes, or counts a reference, before it steps the engine again; RELEASE comes
 * after the last action with the handle.
 *
 * ---- What a model promises ----
 *
 * The same in all five. One key is linearizable: operations on it behave as if each happened at one
 * instant between its call and its answer, on whatever node, as long as not all nodes crash at
 * once. A write is answered when every member has stored it, so a crash of all members but one
 * loses nothing that was answered, in any model, as long as that one stays a member; the survivors
 * finish or repeat what the crashed nodes had begun. It does not stay a member where the crashed
 * nodes restart, do not hear it for member.h's restart_wait_ns, and begin without it from their
 * logs: then all that only its memory held is lost, as if it had crashed with them. A write whose
 * node failed before the answer (SNIC_EUNKNOWN) may happen, later too, or not. A node that is slow
 * or gone stalls all writes until the membership leaves it out. Keys are independent: there are no
 * transactions.
 *
 * What differs is what is left when members begin from their logs (restart), since all crashed
 * together, or all that a majority of the nodes hears of; and for how long a read waits behind a
 * write. It is the worst case that is promised: that only one member's log is left. `Read` below
 * means a read that was answered.
 *
 * SYNCH    An answered write survives. A value that was read survives. Writes wait for all logs,
 *          and so do reads of a key that is being written.
 * STRICT   An answered write survives. A read waits only until all members have stored the write in
 *          memory, so a value can be read before it is durable: if all crash then, it un-happens.
 *          A client read it, its writer was never answered, and after the restart the key has the
 *          older value again. In this STRICT is weaker than SYNCH; it lets reads in earlier.
 * RENF     A value that was read survives: reads wait until it is durable everywhere. An answered
 *          write that no client has read may be lost: the writer is answered when all have it in
 *          memory. Its own read right after the answer may wait for the logs.
 * EVENT    Nothing is waited for: what was answered and what was read may be lost, whatever the
 *          logs had not yet made durable, which is the caller's BACKGROUND window, and different
 *          keys lose different amounts. What comes back was written once, a key's newest in the
 *          logs.
 * SCOPE    As EVENT, but when SYNC of a scope was answered with 0, every write of that scope that
 *          was, too, or a newer one of the same key, survives. A scope is not atomic: of one that
 *          was not synced any part may survive. It belongs to the node that coordinated its writes;
 *          if that node is lost, so is the scope (SNIC_ESTALE elsewhere), and the client decides.
 *          Scopes do not carry over to another engine: one initialised anew, at the same node too,
 *          is used with other numbers, or SYNC would succeed for writes lost with its predecessor.
 *
 * A deletion is a write. A read of a deleted key may show the timestamp of an earlier deletion than
 * the last, where that one was purged and a restart found the earlier one in a log. A CAS that
 * succeeded was next after what it compared with; one that failed (SNIC_ECANCELED) is a read of
 * what it found, and does not happen later. But it may have been in a log: where a restart loses
 * what beat it (STRICT, EVENT, SCOPE), it may be what comes back, as if nothing had. It takes two
 * rounds of messages.
 *
 * ---- Durability of each operation ----
 *
 * A write names what its answer means, a read what it may return (enum snic_ddp_durability). What
 * DEFAULT means is the model's, which is the same at all nodes:
 *
 *     model    write                                              read
 *     SYNCH    ALL                                                ALL
 *     STRICT   ALL                                                MEMORY
 *     RENF     MEMORY, but all reads wait until it is durable     ALL
 *     EVENT    MEMORY                                             MEMORY
 *     SCOPE    SCOPE                                              MEMORY
 *
 * All of them mix, on one cluster and on one key:
 *
 *  - A key's operations have one order, whatever they name: mixes are linearizable as the models.
 *  - An answered write of ALL survives a restart, or a newer write of the key does.
 *  - An answered write of HERE survives if the restart begins from the log of the node that took
 *    it, among others.
 *  - An answered write of MEMORY survives as in EVENT, one of SCOPE as in SCOPE.
 *  - What a read of ALL returned survives, or a newer write of the key does. Of a value that is in
 *    memory only it makes all members flush their logs, once, and waits. If the key is overwritten
 *    meanwhile it may return the value that was the newest at some time since it began.
 *  - What a read of MEMORY returned may be lost, even if the write of that value named ALL: it may
 *    have been read before it was durable. In SYNCH and RENF a read of MEMORY waits behind a write
 *    of ALL until that is durable; in the others only until all members have it in memory.
 *  - A CAS that fails is a read of ALL if it named ALL, or names nothing in SYNCH and RENF; else of
 *    MEMORY. What beat it may be lost in a restart, and the CAS come back, unless that was durable.
 *  - No operation waits for another's logs, but: a write of ALL that a newer write of the key has
 *    overtaken waits until that one is in the logs, which makes it urgent there.
 *
 * "All" are the members of the epoch in which the answer is made, learners included. DONE has their
 * number without the learners, whose copy does not count until they are FULL: it may be incomplete.
 *
 * What it needs from outside. A view that leaves a node out reaches the others only after that
 * node's LEASE has ended or it was fenced; lease times are the membership's affair. The log does
 * not lie about what is durable. Nodes that fail stop; messages may be lost, doubled, late and in
 * any order, and hostile ones do no damage to memory, but a message with a member's `src` is
 * believed.
 */
#ifndef SNIC_DDP_H
#define SNIC_DDP_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory. Has no pointers: may be copied or moved as bytes. */
struct snic_ddp;

#define SNIC_DDP_ALIGN 64
#define SNIC_DDP_NODES_MAX 16

/* ---- Timestamps ---- */

/**
 * A timestamp orders the writes of a key: epoch of issue, version, node, compared in this order,
 * packed so that the order is that of the numbers; 0 is before all. Packed into 64 bits because
 * MINOS-O's halves exchange it by one compare-and-swap (amendments A1; the paper has no epoch, and
 * version first loses acknowledged writes after a rejoin).
 * 22 bits of epoch, 38 of version, 4 of node. A key whose versions are used up in an epoch refuses
 * writes with SNIC_EAGAIN and the engine asks for a new epoch (SNIC_DDP_NEED_EPOCH).
 */
#define SNIC_DDP_EPOCH_MAX ((1u << 22) - 1)
#define SNIC_DDP_VERSION_MAX (((uint64_t)1 << 38) - 1)

/** The timestamp of @p epoch, @p version and @p node, each within its bits. [any] */
static inline uint64_t snic_ddp_ts(uint32_t epoch, uint64_t version, uint32_t node)
{
    return (uint64_t)epoch << 42 | version << 4 | node;
}
/** Its epoch. [any] */
static inline uint32_t snic_ddp_ts_epoch(uint64_t ts)
{
    return (uint32_t)(ts >> 42);
}
/** Its version. [any] */
static inline uint64_t snic_ddp_ts_version(uint64_t ts)
{
    return ts >> 4 & SNIC_DDP_VERSION_MAX;
}
/** Its node. [any] */
static inline uint32_t snic_ddp_ts_node(uint64_t ts)
{
    return (uint32_t)(ts & 15);
}

/**
 * 128 bits that name a record: a number, a short name, or a hash of a long one (which the caller
 * then keeps beside the value).
 */
struct snic_ddp_key {
    uint64_t w[2];
};

enum snic_ddp_model {
    SNIC_DDP_SYNCH = 1,
    SNIC_DDP_STRICT,
    SNIC_DDP_RENF,
    SNIC_DDP_EVENT,
    SNIC_DDP_SCOPE
};

/**
 * What the answer to a write means, or what a read may return. The models are defaults: a node's
 * model decides what DEFAULT means there.
 */
enum snic_ddp_durability {
    SNIC_DDP_DURABILITY_DEFAULT = 0, /**< that of the model of the node that takes the operation */
    SNIC_DDP_DURABILITY_MEMORY, /**< write: all members have it in memory. Read: the newest value */
    SNIC_DDP_DURABILITY_HERE,   /**< write: MEMORY, and durable at the node that takes it */
    SNIC_DDP_DURABILITY_ALL,  /**< write: durable at all members. Read: a value that is, or a newer
                                 one, durable at all members */
    SNIC_DDP_DURABILITY_SCOPE /**< write: MEMORY, and durable at all after SYNC of its scope */
};

/* ---- Options ---- */

enum {
    /** The paper's rule for an INV that is older than what the key holds: wait until the newer
     * write is known to be complete, then acknowledge. Without it (ours, "fast"), and of a write
     * that another node than its coordinator does over: acknowledge at once, what is durable when
     * it is. See the spec's "Why FAST is sound". */
    SNIC_DDP_PAPER = 1 << 0,
    /** Figure 3 in program order: VAL_C of Strict waits for the coordinator's own persist (H11). */
    SNIC_DDP_VALC_AFTER_PERSIST = 1 << 1,
    /** CHANGED is emitted. */
    SNIC_DDP_CHANGES = 1 << 2
};

struct snic_ddp_opts {
    uint32_t opts_size;
    uint32_t model; /**< enum snic_ddp_model, the same at all nodes */
    uint32_t flags;
    uint32_t node;          /**< own number, below SNIC_DDP_NODES_MAX */
    uint32_t keys_max;      /**< records, tombstones included, below which a client's new key is
                              taken; the same at all nodes                  1 ... 2^28.
                              There is room for more: for the new keys of others, each of
                              which looked at its own table only */
    uint32_t writes_max;    /**< coordinated or replayed at a time, one of them for a replay
                              only and, from 3 on, one for a deletion: the way out when all
                              others wait for logs that are full    2 ... 2^20 */
    uint32_t waits_max;     /**< invalidations not yet acknowledged for good  2 ... 2^20 */
    uint32_t reads_max;     /**< reads that wait for an unlock                0 ... 2^20 */
    uint32_t scopes_max;    /**< open here: from its first write until SYNC was answered, so
                              one that is never synced stays. Of several the last does not
                              wait for SYNC (SNIC_EAGAIN): all others may wait for logs that
                              are full, and a deletion needs one        0 ... 2^16 */
    uint32_t others_max;    /**< the other nodes of any view, at most         default 15 */
    uint64_t retransmit_ns; /**< first; doubles up to 64 times, or to 2 s; default 1 ms
                                 A node that answered that it has a write is probed 64 times as
                                 seldom. See also SNIC_DDP_TIMES */
    uint64_t replay_ns;     /**< after a key was locked by another node's write for so long: QUERY;
                                 after as long again without an answer: replay; while the write is
                                 still under way: QUERY after twice as long, up to 8 times as long.
                                 default 10 ms */
};

/* ---- Messages ---- */

/** Names are the paper's (figures 2 and 3); those below QUERY are ours. */
enum snic_ddp_msg_type {
    SNIC_DDP_INV = 1,
    SNIC_DDP_ACK,         /**< Synch: stored and durable */
    SNIC_DDP_ACK_C,       /**< stored. Synch: to an INV that comes again, stored and not durable */
    SNIC_DDP_ACK_P,       /**< durable */
    SNIC_DDP_VAL,         /**< Synch, REnf: complete, durable everywhere */
    SNIC_DDP_VAL_C,       /**< Strict, Event, Scope: stored everywhere */
    SNIC_DDP_VAL_P,       /**< Strict: durable everywhere */
    SNIC_DDP_PERSIST,     /**< [PERSIST]sc; `scope`; `index`: the sender's how-manieth it is */
    SNIC_DDP_PERSIST_ACK, /**< [ACK_P]sc; `scope` and `index` are its */
    SNIC_DDP_PERSIST_VAL, /**< [VAL_P]sc */
    SNIC_DDP_QUERY,       /**< what became of the write that locks this key? Answered by VAL, by
                               INV, or by a QUERY with LOCKED: it is still under way */
    SNIC_DDP_NACK,        /**< `ts`, a CAS, met a newer write: seen[0], whose value comes with it */
    SNIC_DDP_PULL,        /**< learner: compare these ranges of hashes (lib/replica/FORMAT.md has
                               `scope`; the digests are in `key` and seen). With `ts`: the value
                               of `key`, of that timestamp or a newer one */
    SNIC_DDP_RECORD,      /**< for a learner: a record with its value */
    SNIC_DDP_PULLED,      /**< which ranges of `scope` are equal: seen[1]; the keys offered of the
                               others add up to seen[0] */
    SNIC_DDP_DIGEST,      /**< restart: what the keys of range `index` add up to: `scope`; LOCKED:
                               the sender is still adding up */
    SNIC_DDP_RESTARTED,   /**< restart: mine is in order */
    SNIC_DDP_PURGE_REQUEST, /**< may this tombstone go? */
    SNIC_DDP_PURGE_ACK,
    SNIC_DDP_PURGE,
    SNIC_DDP_OFFER /**< for a learner: RECORD without the value, which PULL with `ts` requests */
};

enum {
    SNIC_DDP_MSG_CAS = 1 << 0,       /**< an INV that may be refused (A11) */
    SNIC_DDP_MSG_TOMBSTONE = 1 << 1, /**< the value is none: deleted */
    SNIC_DDP_MSG_LOCKED = 1 << 2,    /**< RECORD: the donor has it locked. QUERY: see there. INV:
                                          without its value: did it arrive? PERSIST_ACK: not yet */
    SNIC_DDP_MSG_REPLAY = 1 << 3,    /**< an INV by another than the write's coordinator; a QUERY
                                          as the answer: I will not decide this CAS, do it */
    /** Not a flag: INV, NACK and RECORD have from this bit on how their write is acknowledged: 0 as
     * by the model, else an enum snic_ddp_model or, for SNIC_DDP_DURABILITY_HERE, 6. */
    SNIC_DDP_MSG_RULES = 4
};

/**
 * A message as plain data; bytes on a wire are the carrier's affair, and so is that `src` is true.
 * A receiver takes it only in the same epoch and incarnations (Rule E, H19).
 */
struct snic_ddp_msg {
    uint8_t type;
    uint8_t flags;
    uint8_t src;
    uint8_t dst; /**< of a received message; in a SEND action `to` is the mask of receivers */
    uint32_t epoch;
    uint32_t src_incarnation;
    uint32_t dst_incarnation;
    struct snic_ddp_key key;
    uint64_t ts;
    uint64_t scope;  /**< or a record's number, the digest: see the types */
    uint64_t value;  /**< handle */
    uint32_t length; /**< bytes */
    uint32_t index;
    uint64_t seen[2]; /**< RECORD: gV, gD; INV of a CAS: what to number above; see the types */
};

/* ---- Events ---- */

enum snic_ddp_event_type {
    SNIC_DDP_READ = 1, /**< key, token, durability. Answered by DONE, at once or after an unlock */
    SNIC_DDP_WRITE,    /**< key, token, value, length, durability, copies_min, scope (only and
                            always if the durability is SCOPE) */
    SNIC_DDP_DELETE,   /**< key, token, durability, copies_min, scope */
    SNIC_DDP_CAS,      /**< as WRITE, and `ts`: what a read gave; 0: only if absent.
                            SNIC_DDP_MSG_TOMBSTONE in flags: delete. One that fails may find
                            nothing even if it asked for that: a write beat it and was deleted.
                            The key may be absent then; try again */
    SNIC_DDP_SYNC,     /**< token, scope, copies_min: the client's [PERSIST]sc */
    SNIC_DDP_MESSAGE,  /**< msg */
    SNIC_DDP_APPENDED, /**< key, ts: that record is durable */
    SNIC_DDP_FLUSHED,  /**< id of FLUSH: all appended before it is durable */
    SNIC_DDP_EPOCH,    /**< view: a new membership. SNIC_DDP_RETIRED in flags: of a learner that
                            begins, the log drops all that it has so far */
    SNIC_DDP_LEASE,    /**< ts: served until this time (exclusive); 0: no longer. ns */
    SNIC_DDP_LOADED,   /**< key, ts, value, length: a record of the own log, before the first EPOCH,
                            in the log's order. In flags, as they were in its APPEND,
                            SNIC_DDP_REPLACES and SNIC_DDP_DROPS */
    SNIC_DDP_TICK,     /**< nothing but the time */
    SNIC_DDP_FIRE,     /**< a timer, named by its number (snic_ddp_timers), before its time: for
                            checkers */
    SNIC_DDP_TIMES, /**< ts, scope: retransmit_ns and replay_ns from now on, as measured: from one
                         round trip, and of replay_ns one flush, upwards. value: how long a flush
                         takes, 0: unknown; a node that has a write is not probed more often for
                         its durability. Timers that are armed keep their time, and none ends
                         before one armed earlier for as long. AGAIN in flags: retransmissions are
                         due after retransmit_ns at the latest, as messages were lost with a
                         connection */
    SNIC_DDP_SHED   /**< a learner: there is no memory or log for what comes in. Drops a record
                         that the donor has not confirmed */
};

enum snic_ddp_role { SNIC_DDP_FENCED = 0, SNIC_DDP_LEARNER, SNIC_DDP_FULL };

/**
 * A membership, decided elsewhere (member.h). A node that was left out, or has a new incarnation,
 * comes back as a LEARNER: after a view without it, or in a new engine with what its log has
 * loaded. What it holds then are hints: no INV, ACK, read or CAS sees them before the donor has
 * confirmed the key's timestamp (A2); they save sending the value. A node that begins as FULL has
 * nothing loaded, as have all others, or begins with `restart`. Before an EPOCH that makes a node a
 * LEARNER again, APPENDED reports what the log has taken, durable or not; afterwards nothing is
 * reported for what was polled before it.
 */
struct snic_ddp_view {
    uint32_t epoch;    /**< above the last one given and all loaded; at most SNIC_DDP_EPOCH_MAX */
    uint16_t full;     /**< bit n: node n */
    uint16_t learners; /**< no bit of full; FULL only after CAUGHT_UP */
    uint32_t donor;    /**< a learner's source; any other node's is without meaning */
    uint32_t restart;  /**< not 0: all of full begin from their logs. Lasts until READY, whatever
                            later views have here */
    uint32_t incarnation[SNIC_DDP_NODES_MAX];
};

struct snic_ddp_event {
    uint32_t type;
    uint32_t flags;
    struct snic_ddp_key key;
    uint64_t token;
    uint64_t ts;
    uint64_t value;
    uint32_t length;
    uint32_t id;
    uint64_t scope;
    const struct snic_ddp_msg *msg;   /**< borrowed for the call */
    const struct snic_ddp_view *view; /**< borrowed for the call */
    uint32_t durability;              /**< WRITE, DELETE, CAS, READ: enum snic_ddp_durability */
    /** WRITE, DELETE, CAS, SYNC: the fewest FULL members, this node included, that the answer may
     * stand for. Fewer when it is taken: SNIC_ENOQUORUM, nothing is sent; fewer when it is
     * answered: SNIC_EUNKNOWN. 0: any number. */
    uint32_t copies_min;
};

/* ---- Actions ---- */

enum snic_ddp_action_type {
    SNIC_DDP_SEND = 1,  /**< msg to each node of mask `to`: dst and dst_incarnation are filled in by
                             the carrier from the last view */
    SNIC_DDP_APPEND,    /**< key, ts, value, length, scope, flags to the log; APPENDED when durable.
                             SNIC_DDP_BACKGROUND: whenever convenient, but within the loss window
                             that the user was promised (Event, Scope, REnf; records pulled by a
                             learner) */
    SNIC_DDP_FLUSH,     /**< make all appended durable, then FLUSHED with id */
    SNIC_DDP_DONE,      /**< the answer to token: result, ts, value, length */
    SNIC_DDP_RELEASE,   /**< value: is no longer needed */
    SNIC_DDP_CAUGHT_UP, /**< a learner: all is here and durable; ask for FULL */
    SNIC_DDP_READY,     /**< after a restart: reads are served */
    SNIC_DDP_NEED_EPOCH, /**< versions of a key are used up */
    SNIC_DDP_SUSPECT,    /**< to: all nodes for which something here (a write, a replay, SYNC, a
                              learner's PULL, a restart) has waited for 8 retransmissions and still
                              waits. slow: those of them that have answered each last one that they
                              have the write: their logs are slow. Emitted when either changes; 0:
                              no node any more. A donor is suspected when it sends nothing new, a
                              peer of a restart when it sends nothing at all */
    SNIC_DDP_FORGET,     /**< key, ts: a deleted key is gone on all nodes; the log may drop all it
                              has of the key up to ts, the tombstone last */
    SNIC_DDP_CHANGED /**< with SNIC_DDP_CHANGES: key, ts, value, length; id: the record's number,
                          which it keeps until it is removed. Emitted when the record has a new
                          value, before the old one's RELEASE, and again when that becomes
                          readable, if it is locked at first. flags: LOCKED it is not readable
                          yet; TOMBSTONE; CAS with LOCKED: one that is not decided; see
                          SNIC_DDP_REMOVED and SNIC_DDP_IDLE. The order of a key's changes is
                          that of their timestamps; but a learner's record that its donor does not
                          have is REMOVED, or before another comes in its place */
};

/** Flags of APPEND, LOADED, CHANGED, EPOCH, TIMES and snic_ddp_next(). */
enum {
    SNIC_DDP_BACKGROUND = 1 << 8, /**< APPEND */
    SNIC_DDP_REMOVED = 1 << 9,    /**< CHANGED: there is no record any more */
    SNIC_DDP_IDLE = 1 << 10,      /**< CHANGED: at a node that serves no reads (FULL, and READY if
                                       it was a restart), where nothing is readable */
    /** APPEND, LOADED: this record counts, whatever timestamp the log has of the key before it. */
    SNIC_DDP_REPLACES = 1 << 11,
    /** APPEND, LOADED: no record: what the log has of the key before it is void. There is no
     * APPENDED for it; a FLUSH covers it. TOMBSTONE is set, too. */
    SNIC_DDP_DROPS = 1 << 12,
    SNIC_DDP_RETIRED = 1 << 13, /**< EPOCH */
    SNIC_DDP_HINT = 1 << 14,    /**< next: the donor has not confirmed it */
    SNIC_DDP_AGAIN = 1 << 15    /**< TIMES */
};

/**
 * Results of DONE: 0 (value and ts of a read; ts of a write), SNIC_ENOENT (a read found nothing),
 * SNIC_ECANCELED (CAS: the key holds something else, whose ts and value come with it; ts 0: it
 * holds nothing now),
 * SNIC_EUNKNOWN (this node left the epoch meanwhile: the write may or may not happen; a CAS that
 * lost, and no lease any more to show to what), SNIC_ESTALE (SYNC of a scope this node knows
 * nothing of, H13; a READ that waited, or a CAS that did not happen, and no lease any more),
 * SNIC_EAGAIN (a CAS that did not happen: no version, NEED_EPOCH is polled).
 */
struct snic_ddp_action {
    uint32_t type;
    uint32_t flags;
    int32_t result;
    uint32_t id;
    uint16_t to;
    uint16_t slow;   /**< SUSPECT: those of `to` that respond: only their logs are slow */
    uint16_t copies; /**< DONE of a write or SYNC: the FULL members that it is answered for */
    uint16_t pad;
    uint64_t token;
    struct snic_ddp_msg msg; /**< SEND whole; of others key, ts, value, length, scope, flags */
};

/* ---- Calls ---- */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_ddp_opts_wrong(const struct snic_ddp_opts *opts) SNIC_NONNULL(1);
/** Records that there is room for: their numbers are below; 0 when an option is wrong. [any] */
SNIC_API uint32_t snic_ddp_records(const struct snic_ddp_opts *opts);
/** Bytes of memory; 0 when an option is wrong (snic_ddp_opts_wrong). [any] */
SNIC_API size_t snic_ddp_memsize(const struct snic_ddp_opts *opts);
/**
 * Makes a node that is FENCED, with an empty table, in @p mem, which is the node's until the caller
 * uses it for something else; @p opts is copied. [owner]
 * @return 0; SNIC_EINVAL an option is wrong, or @p mem is not aligned to SNIC_DDP_ALIGN;
 *         SNIC_ENOSPC @p mem is NULL or smaller than snic_ddp_memsize()
 */
SNIC_API SNIC_NODISCARD int snic_ddp_init(struct snic_ddp **d, void *mem, size_t mem_size,
                                          const struct snic_ddp_opts *opts);
/**
 * Handles an event. @p now_ns never goes back; all actions of the last step were polled (asserted).
 * After an error nothing has changed but a counter, and a handle stays the caller's. [owner]
 * @return 0
 *   SNIC_EAGAIN  READ: reads_max reads wait. WRITE, DELETE, CAS: no write or no scope is free,
 *                SYNC of their scope is under way, or the key has no version left (NEED_EPOCH is
 *                polled). CAS: another CAS or write of the key's timestamp is in progress here.
 *                SYNC: it is under way, or this is the last scope of several (scopes_max).
 *                MESSAGE: no wait or record is free: it counts as lost, and is sent again
 *   SNIC_ESTALE  READ, WRITE, DELETE, CAS, SYNC: not FULL, not READY, or no lease.
 *                MESSAGE: of another epoch or incarnation, of no member, or for another node
 *   SNIC_ENOQUORUM  WRITE, DELETE, CAS, SYNC: fewer FULL members than copies_min
 *   SNIC_ENOSPC  WRITE, DELETE, CAS: a new key, and keys_max keys exist.
 *                LOADED: no record is free
 *   SNIC_EINVAL  an unknown type or durability, more than 16 copies; READ: HERE or SCOPE.
 *                WRITE, DELETE, CAS: a scope without the durability SCOPE, or none with it.
 *                CAS: an unknown flag. SYNC: scope 0. Any of them: a scope, and scopes_max is 0.
 *                MESSAGE, EPOCH: NULL. TIMES: 0, or more than 2^50.
 *                EPOCH: a view that this node cannot enter from its last one (snic_ddp_view).
 *                LOADED: after the first EPOCH, ts 0, an unknown flag.
 *                FLUSHED: an id without a FLUSH. FIRE: a timer that is not armed
 *   SNIC_EPROTO  MESSAGE: a field is out of range, or its type is none of this role
 */
SNIC_API SNIC_NODISCARD int snic_ddp_step(struct snic_ddp *d, uint64_t now_ns,
                                          const struct snic_ddp_event *ev);
/** The next action. [owner] @return 1 and @p out; 0: none is left, the step is complete */
SNIC_API int snic_ddp_poll(struct snic_ddp *d, struct snic_ddp_action *out);
/** When to step with TICK if nothing else happens before; SNIC_NEVER: no timer is armed. [owner] */
SNIC_API uint64_t snic_ddp_deadline_ns(const struct snic_ddp *d);

/** A record, as get and next give it. */
struct snic_ddp_entry {
    struct snic_ddp_key key;
    uint64_t ts; /**< volatileTS */
    uint64_t value;
    uint32_t length;
    uint32_t flags;
    uint64_t locked;  /**< RDLock_Owner; the rest is not filled in by get */
    uint64_t seen[2]; /**< gV, gD: glb_volatileTS, glb_durableTS */
    uint64_t durable; /**< the highest timestamp that the own log holds durable */
    uint32_t number;  /**< of the record: CHANGED's id */
    uint32_t pad;
};
/**
 * A read without an event, of the durability that is the model's. The value is borrowed until the
 * next step. [owner]
 * @return 0 and @p out; SNIC_EAGAIN the key is locked, or its value not durable: READ waits for it;
 *         SNIC_ENOENT no such key,
 *         or it is deleted; SNIC_ESTALE not FULL, not READY, or no lease at @p now_ns
 */
SNIC_API SNIC_NODISCARD int snic_ddp_get(const struct snic_ddp *d, uint64_t now_ns,
                                         const struct snic_ddp_key *key,
                                         struct snic_ddp_entry *out);
/**
 * Several keys are about to be read: begin to fetch their records from memory, all at once. A hint:
 * nothing changes. [owner]
 */
SNIC_API void snic_ddp_prefetch(const struct snic_ddp *d, const struct snic_ddp_key *keys,
                                uint32_t n);
/**
 * The next record, in no order, tombstones, locked ones and hints too (marked by their flags: of
 * MSG_TOMBSTONE, MSG_LOCKED, MSG_CAS and HINT). *@p cursor
 * begins as 0. Records that are present all the time are returned once. [owner]
 * @return 0 and @p out; SNIC_ENOENT there are no more
 */
SNIC_API SNIC_NODISCARD int snic_ddp_next(const struct snic_ddp *d, uint64_t *cursor,
                                          struct snic_ddp_entry *out);

/**
 * The record of that key in whatever state, as snic_ddp_next() returns it. [owner]
 * @return 0 and @p out; SNIC_ENOENT no such record
 */
SNIC_API SNIC_NODISCARD int snic_ddp_find(const struct snic_ddp *d, const struct snic_ddp_key *key,
                                          struct snic_ddp_entry *out);

/**
 * What the log has to keep of a key: as snic_ddp_find(), and of a learner what the donor has not
 * confirmed yet, too. SNIC_DDP_REPLACES in flags: and records of the key with a higher timestamp.
 * [owner]
 * @return 0 and @p out; SNIC_ENOENT nothing
 */
SNIC_API SNIC_NODISCARD int snic_ddp_kept(const struct snic_ddp *d, const struct snic_ddp_key *key,
                                          struct snic_ddp_entry *out);

/** A learner's progress; of one that has learned, its end. */
struct snic_ddp_learning {
    uint64_t done;      /**< of 2^32: the hashes that are compared, or are being so         */
    uint64_t hints;     /**< own records that the donor has not confirmed yet               */
    uint64_t confirmed; /**< own records that it has                                        */
    uint64_t dropped;   /**< own records that it does not have                              */
    uint64_t pulled;    /**< values received                                                */
    uint64_t bytes;     /**< theirs                                                         */
};

/** Event counts so far, and the present occupancy. */
struct snic_ddp_counters {
    uint64_t invalid;     /**< messages refused with SNIC_EPROTO */
    uint64_t foreign;     /**< of another epoch or incarnation */
    uint64_t no_room;     /**< SNIC_EAGAIN */
    uint64_t retransmits; /**< INV, PERSIST, PULL, DIGEST sent again, counted per receiver */
    uint64_t queries;     /**< sent */
    uint64_t replays;     /**< begun */
    uint64_t obsolete;    /**< INVs older than the record's value */
    uint64_t duplicate;   /**< INVs of the record's value */
    uint64_t refused;     /**< NACKs sent */
    uint64_t purged;
};
struct snic_ddp_stats {
    uint32_t epoch;
    uint32_t role;    /**< enum snic_ddp_role */
    uint32_t serves;  /**< 1: FULL, and READY if it was a restart */
    uint32_t records; /**< tombstones included; may be above keys_max */
    uint32_t tombstones;
    uint32_t writes; /**< coordinated or replayed now */
    uint32_t waits;
    uint32_t reads; /**< waiting now */
    uint32_t scopes;
    uint32_t learned; /**< 1: CAUGHT_UP was emitted */
    struct snic_ddp_counters counters;
    struct snic_ddp_learning learning;
};
/** Counters and occupancy as of the last step. [owner] */
SNIC_API void snic_ddp_get_stats(const struct snic_ddp *d, struct snic_ddp_stats *out);

/* ---- For checkers ---- */

enum snic_ddp_timer_kind {
    SNIC_DDP_TIMER_WRITE = 1, /**< key, ts: INV again */
    SNIC_DDP_TIMER_SCOPE,     /**< ts: the scope: PERSIST again */
    SNIC_DDP_TIMER_LOCK,      /**< key, ts: QUERY, then replay */
    SNIC_DDP_TIMER_PULL,      /**< ranges again */
    SNIC_DDP_TIMER_RESTART,
    SNIC_DDP_TIMER_PURGE,
    SNIC_DDP_TIMER_SWEEP /**< the next records of a restart */
};
struct snic_ddp_timer {
    uint32_t id; /**< for SNIC_DDP_FIRE; the rest does not depend on what was allocated when */
    uint32_t kind;
    struct snic_ddp_key key;
    uint64_t ts;
};
/** The armed timers, at most @p max of them; returns how many there are. [owner] */
SNIC_API uint32_t snic_ddp_timers(const struct snic_ddp *d, struct snic_ddp_timer *out,
                                  uint32_t max);
/**
 * The state as bytes that are equal for equal states: sorted, free of what was allocated when, of
 * times and of counters; what is a handle stays one. Between steps. O(n^2) in the size of the
 * state: for small ones. [owner]
 * @param flush  ids of the FLUSHes whose FLUSHED has not come, @p flushes of them, in the order
 *               they were emitted; may be NULL if there are none. These ids depend on what was
 *               allocated when, so the bytes have instead what each FLUSH is for: a caller whose
 *               state has the FLUSHes under way needs of them no more than how many there are.
 * @return the bytes needed, which were written if at most @p size
 */
SNIC_API size_t snic_ddp_canon(const struct snic_ddp *d, const uint32_t *flush, uint32_t flushes,
                               void *out, size_t size);
/**
 * Checks every structural invariant, between steps. O(n). [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_ddp_check(const struct snic_ddp *d);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_DDP_H */
