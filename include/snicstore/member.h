/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/member.h
 * Membership of a replicated table, agreed by a majority: epochs, leases, incarnations, eviction
 * of dead and slow nodes, return as a learner, restart of a whole cluster. The failure handling
 * that MINOS (Psistakis et al., HPCA 2024, section III-E) leaves out; ddp.h is what it serves.
 *
 * Depends on  snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. The state has no
 *             pointers: a copy of the memory, at the same alignment, is a node in the same state.
 *             About 6 KiB.
 * Threads     [owner] one thread owns an engine; memsize is [any].
 * Progress    No call blocks. O(nodes) per event.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed but the time, which
 *             may bring actions.
 * Units       nanoseconds; drift in millionths. Node sets are masks: bit n is node n.
 * Input       messages and files are hostile to this extent: every field is checked, and what makes
 *             no sense is refused. That `src` is true is the carrier's affair; nodes that lie with
 *             well-formed messages are not defended against.
 *
 * How it is driven.
 *
 *     r = snic_member_step(m, now, &event);                     // an event happened
 *     while (snic_member_poll(m, &action) != 0) carry_out(&action);   // all of them, in this order
 *     sleep_until(snic_member_deadline_ns(m));                  // then TICK, or the next event
 *
 * The first event is BOOT. `now` is read from a clock that also counts time suspended and is never
 * set (CLOCK_BOOTTIME), and after the message was received (amendment A3), so that a delayed
 * message is recognised as delayed.
 *
 * ---- What is promised ----
 * P1  Each epoch has one view, chosen by a majority of the voters of the view before; the first by
 *     all configured nodes. A node's file never goes back to an older one.
 * P2  A node that holds a lease is FULL in a view such that no later view without it (in this
 *     incarnation, as FULL) has been chosen. So two leases at the same time are never held under
 *     views that do not both contain both holders.
 * P3  A node enters a view as LEARNER, under an incarnation that no view had before, and becomes
 *     FULL after CAUGHT_UP; but for the first view and after a restart of all.
 * P4  A view with `restart` has as FULL a non-empty subset of the FULL of the view before, whose
 *     logs are good, and no one else; but where an operator overrides (ANY_LOG).
 * P5  A vote counts for the file that the view names for its node (`voter`); the file of a node
 *     that was removed or replaced never votes again, nor does a file that no view names.
 * P1 and P5 hold always. P2 rests on clocks: each runs at a rate within drift_ppm of true time.
 * Where a clock is worse, two leases may overlap: stale reads, nothing else; a confirmed read
 * (CONFIRM) is never stale.
 *
 * ---- How ----
 * Register. Epoch e+1 is a single-decree Paxos register among the voters of the view of e, entered
 * by those who know that view. A promise, a vote or a view is on disk (STORE, STORED) before
 * anything that depends on it is sent; a node that booted installs no view out of its own file.
 *
 * Leases. A FULL node asks all with its heartbeats; it holds a lease from a majority's grants until
 * lease_ns after the *sending* of what they grant. A granter counts lease_ns (1 + d) / (1 - d) +
 * margin_ns from its own clock's time, d being the drift (each of two clocks may be off by d; the
 * spec's (1 + d) takes d for the two together). It votes for a view that lacks a holder only after
 * that, or after the holder has confirmed that it holds no lease (FENCE), or has come back under
 * a new incarnation; and having voted, it grants that holder no more. A majority that voted and a
 * majority that granted share a node: P2. Grants are not on disk: after a boot a node grants
 * nothing and votes for no exclusion until lease_max_ns (1 + d) / (1 - d) + margin_ns have passed.
 *
 * Proposers. Any node with a vote that hears a majority; the first of those that see a reason,
 * the others after a back-off that grows with their number (no random numbers). Reasons: a member
 * is not heard in both directions for detect_ns, or has booted, or answers no data for silent_ns
 * while no flush of its log runs, or (by option) has a slow log for slow_ns; a fenced node may be
 * admitted; a learner has caught up; the data path needs an epoch; an operator's CHANGE is pending;
 * a vote was left over. Silence and slowness leave half of the FULL nodes: a node that reports more
 * is itself the one in doubt, and is not followed. Slowness leaves min_full of them. A node whose
 * heartbeats still acknowledge this node's previous process does not count as heard in both
 * directions: they may have been in flight since before that process ended.
 *
 * Full restart. When no FULL node of the newest view still runs, those of them that are back and
 * whose logs are good become the next view: all of them, or, after restart_wait_ns, those that are
 * there. Never a learner, never a node of an older view. In SYNCH and STRICT each one's log holds
 * every acknowledged write. In RENF, EVENT and SCOPE it does not (ddp.h): what is in the memory
 * only of a FULL node that still runs, and is not heard for restart_wait_ns by a majority that
 * restarted after a crash, is lost; so are, in STRICT, reads of what was not yet durable. So
 * restart_wait_ns is a part of what is promised: how long a cut of the network may last, after a
 * crash of the others, without loss.
 *
 * Two nodes need a witness (it votes and holds no data) for either to continue without the other.
 * Without, the survivor's lease ends and its state is NO_MAJORITY until the other is back or an
 * operator overrides.
 *
 * Configuration. Which nodes there are, which of them is the witness, where they are (`addr`), and
 * whose vote counts are a part of the view, so each register has one configuration, and the view
 * that changes it is chosen by the configuration before. CHANGE adds, removes or replaces one node;
 * the next is refused until that one has its vote. A node is added, or its successor comes, as
 * `vacant`: configured, without a vote. It gets the vote in the view that makes it FULL (a witness:
 * when it is heard), under the first incarnation of its file, `since`. Leases across such a view:
 * a node that votes for it grants no more in the epoch before, and a node that learns it votes for
 * no exclusion until every lease of the epochs before has ended: one grant's time from then on.
 *
 * Lost files. A node that lost its membership file has a new one, which no view names: it has no
 * vote, since it may have promised something; it can hold data again. REPLACE gives the vote back.
 * Views distinguish a node's files by their numbers, `since`: a later file has a higher one. They
 * come from no clock: a new file begins with a random number, and when it learns of a higher one of
 * its node, from a view or from what others have heard, it adds its own to that. Once it has
 * promised something or is named by a view its number stays.
 * A file that a view has passed over (removed, or replaced by a later one) is dead: such a node
 * waits in state REPLACED for an operator to give it a new, empty disk. The old one is needed until
 * a majority of the voters has the view on disk (VIEW there): its vote may be one of those that
 * chose the view.
 *
 * Founding. A cluster has a number of its own, `cluster`, which the operator's tool draws; messages
 * and files of another cluster are refused. The first view takes the votes of all configured nodes,
 * the witness too, each started with FIRST and without a file. So FIRST at a node that has lost its
 * disk does no harm: any other node that still has its file knows a view, or what it voted for.
 * If a disk is lost before all the others know the first view, it is founded anew: with empty disks
 * and another `cluster`.
 */
#ifndef SNIC_MEMBER_H
#define SNIC_MEMBER_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory. Has no pointers: may be copied or moved as bytes. */
struct snic_member;

#define SNIC_MEMBER_ALIGN 64
#define SNIC_MEMBER_NODES_MAX 16
/** Numbers of empty files are drawn from 1 to this (BOOT). */
#define SNIC_MEMBER_FILE_NUMBERS (1u << 20)
/** The last epoch: what fits into the timestamps of ddp.h. */
#define SNIC_MEMBER_EPOCH_MAX ((1u << 22) - 1)
#define SNIC_MEMBER_NS_MAX ((uint64_t)1 << 40)
/** Bytes of a node's address in a view. */
#define SNIC_MEMBER_ADDR_MAX 24
#define SNIC_MEMBER_DRIFT_MAX 100000

/** Zero it, set opts_size, node, configured; a time or drift that is 0 takes its default. */
struct snic_member_opts {
    uint32_t opts_size;
    uint32_t flags; /**< 0                                                               */
    uint32_t node;  /**< own number, a bit of configured                                 */
    /** At the founding all nodes, the same at each. Later the view has the nodes; these are sent
     * heartbeats, too, while no majority is heard: of a node that is added, itself and some. */
    uint16_t configured;
    uint16_t witness;   /**< of them, at most one: votes, no data; one more must hold data   */
    uint32_t drift_ppm; /**< any clock against true time; default 500, 1..DRIFT_MAX          */
    /** FULL nodes that writes need; below, the data path refuses them (status, `writable`), and no
     * node is evicted for slowness. Default: a majority of the view's voters that hold data; 1 for
     * two nodes with a witness, where either is to continue alone. At most 16. */
    uint32_t min_full;
    uint64_t lease_ns;     /**< default 400 ms, at least 2 heartbeat_ns                         */
    uint64_t lease_max_ns; /**< any node's, ever; default lease_ns                         */
    uint64_t margin_ns;    /**< default 10 ms                                              */
    uint64_t heartbeat_ns; /**< default 50 ms                                              */
    uint64_t detect_ns;    /**< unheard: dead; default 250 ms, at least 2 heartbeat_ns     */
    uint64_t slow_ns;      /**< a log that is slow for so long: out; default 0: never          */
    uint64_t silent_ns;    /**< answers no data for so long, with no slow log: out; default 1 s */
    uint64_t retry_ns;     /**< a proposer's retransmission; default 30 ms                 */
    uint64_t backoff_ns;   /**< between two proposers; default 40 ms                       */
    uint64_t restart_wait_ns; /**< for the last of the FULL nodes; default 5 s. See above: loss */
    uint64_t rejoin_ns;       /**< from leaving to returning; default 500 ms                  */
    uint64_t cluster;         /**< its number: random, the same at all nodes                  */
    /** By node, for the first view: opaque, 0 at the end. */
    uint8_t addr[SNIC_MEMBER_NODES_MAX][SNIC_MEMBER_ADDR_MAX];
};

/** A membership. The content of ddp.h's snic_ddp_view. */
struct snic_member_view {
    uint32_t epoch;        /**< 0: none yet                                                       */
    uint16_t full;         /**< hold everything, serve under a lease                              */
    uint16_t learners;     /**< take every write, and what they miss from donor                   */
    uint32_t donor;        /**< a FULL node                                                       */
    uint32_t restart;      /**< 1: all begin from their logs                                      */
    uint16_t configured;   /**< all nodes                                                     */
    uint16_t witness;      /**< of them, at most one                                          */
    uint16_t vacant;       /**< of them: without a vote until they are FULL (a witness: heard) */
    uint16_t pad;          /**< 0                                                             */
    uint32_t config_epoch; /**< of the view that made these, or gave a vote                   */
    uint32_t reserved;     /**< 0                                                             */
    /** Of members theirs; of others the last they were members under, 0: never. */
    uint32_t incarnation[SNIC_MEMBER_NODES_MAX];
    /** `since` of the file that votes; of a vacant or removed node the last one whose vote is void:
     * only a later file may come. */
    uint32_t voter[SNIC_MEMBER_NODES_MAX];
    uint8_t addr[SNIC_MEMBER_NODES_MAX][SNIC_MEMBER_ADDR_MAX]; /**< opaque; 0: unknown        */
};

enum {
    SNIC_MEMBER_REC_FIRST = 1 << 1 /**< was started to found a cluster, of which it knows no view */
};

/** What a node's membership file holds: one of these, replaced whole and durably by STORE. */
struct snic_member_record {
    uint32_t flags;       /**< SNIC_MEMBER_REC_*                                              */
    uint32_t incarnation; /**< of the node that wrote it                                      */
    uint32_t since;       /**< the first incarnation of this file: its log began with it      */
    uint32_t pad;         /**< 0                                                              */
    uint64_t cluster;     /**< of the options                                                 */
    uint64_t promised;    /**< ballot, in the register of decided.epoch + 1; 0: none          */
    uint64_t accepted;    /**< likewise; at most promised                                     */
    struct snic_member_view decided;  /**< the newest known to be chosen                      */
    struct snic_member_view proposal; /**< what accepted is for; zero if that is 0            */
};

/* ---- Messages ---- */

enum snic_member_msg_type {
    SNIC_MEMBER_HEARTBEAT = 1, /**< epoch, seq, hears, flags, lease_ns                         */
    SNIC_MEMBER_GRANT,         /**< epoch, seq: of the heartbeat with the request              */
    SNIC_MEMBER_PREPARE,       /**< epoch: the register's; ballot                              */
    SNIC_MEMBER_PROMISE,       /**< ballot, accepted and its view                              */
    SNIC_MEMBER_ACCEPT,        /**< ballot, view                                               */
    SNIC_MEMBER_ACCEPTED,      /**< ballot                                                     */
    SNIC_MEMBER_REJECT,        /**< ballot: of a higher promise                                */
    SNIC_MEMBER_DECIDED,       /**< view                                                       */
    SNIC_MEMBER_FENCE,         /**< epoch: the newest view; hold no lease in it                */
    SNIC_MEMBER_FENCE_ACK,     /**< epoch: likewise; done                                      */
    SNIC_MEMBER_MSG_TYPES
};

/** Of a heartbeat. */
enum {
    SNIC_MEMBER_MSG_LEASE_REQUEST = 1 << 0, /**< for a lease */
    SNIC_MEMBER_MSG_JOIN = 1 << 1,      /**< may be admitted as a learner                      */
    SNIC_MEMBER_MSG_CAUGHT_UP = 1 << 2, /**< a learner: may be FULL                            */
    SNIC_MEMBER_MSG_LOG_GOOD = 1 << 3,  /**< may be of a restart                               */
    SNIC_MEMBER_MSG_FIRST = 1 << 4,     /**< may be of the first view                          */
    SNIC_MEMBER_MSG_MUTE = 1 << 5       /**< has no vote                                       */
};

/** A message as plain data; bytes on a wire are the carrier's affair. */
struct snic_member_msg {
    uint8_t type;
    uint8_t src;
    uint16_t hears;      /**< heard within detect_ns; the receiver as dst_incarnation          */
    uint16_t configured; /**< the sender's; before the first view it must be the receiver's    */
    uint16_t witness;    /**< likewise                                                         */
    uint32_t flags;
    uint32_t epoch;
    uint32_t src_incarnation; /**< 0: of a node that has none                                  */
    uint32_t dst_incarnation; /**< HEARTBEAT: the newest heard of; GRANT, FENCE                */
    uint64_t seq;
    uint64_t ballot;
    uint64_t accepted;
    uint64_t lease_ns;
    uint64_t cluster;  /**< the sender's                                                       */
    uint64_t flush_ns; /**< HEARTBEAT: for how long the oldest flush of its log has run        */
    uint32_t since;    /**< HEARTBEAT: of the sender's file                                    */
    uint32_t pad;      /**< 0                                                                  */
    struct snic_member_view view;
};

/* ---- Events ---- */

enum snic_member_event_type {
    /**
     * The first event. With `record`: what the file holds; `incarnation` is not used. Without: the
     * file is EMPTY or broken, and `incarnation` is a random number, 1 to
     * SNIC_MEMBER_FILE_NUMBERS, whatever this node had before (Lost files), or 0: then it only
     * looks on, state LOST. In flags FIRST: this is a new cluster, no node of which has run before;
     * and LOG_GOOD. The process that had this number before must have ended (a lock on the file
     * proves it).
     */
    SNIC_MEMBER_BOOT = 1,
    SNIC_MEMBER_STORED,   /**< id: that STORE is durable. A STORE that fails: end the process     */
    SNIC_MEMBER_MESSAGE,  /**< msg                                                                */
    SNIC_MEMBER_TICK,     /**< nothing but the time                                               */
    SNIC_MEMBER_REPORT,   /**< from the data path; value in `kind`                                */
    SNIC_MEMBER_OVERRIDE, /**< from the operator, see there                                      */
    /** From the operator: kind (enum snic_member_change), node, addr, flags; epoch: the
     * config_epoch that it is meant for, or 0. At a FULL node, about another one. It is carried out
     * by a later view; status shows how far it is. */
    SNIC_MEMBER_CHANGE,
    /** A confirmation is wanted: CONFIRMED with an id above the `request` that status had before
     * this step. */
    SNIC_MEMBER_CONFIRM
};

enum snic_member_change {
    SNIC_MEMBER_ADD = 1, /**< a number that is not configured; flag WITNESS: as the witness     */
    SNIC_MEMBER_REMOVE,  /**< it votes no more, and holds no data; its file is dead             */
    SNIC_MEMBER_REPLACE  /**< the same number with a new file, at addr if that is not 0         */
};

/** Flags of BOOT, OVERRIDE and CHANGE. */
enum {
    SNIC_MEMBER_FIRST = 1 << 0,
    SNIC_MEMBER_LOG_GOOD = 1 << 1,
    /** OVERRIDE: a restart may begin now, from any logs of FULL nodes that are there. If the mask
     * has all FULL nodes: from the logs of nodes that were FULL earlier, which have been restarted.
     * They have what was written until they were left out, and some of what was written later. */
    SNIC_MEMBER_ANY_LOG = 1 << 2,
    SNIC_MEMBER_WITNESS = 1 << 3 /**< CHANGE, ADD */
};

enum snic_member_report {
    SNIC_MEMBER_SLOW = 1,   /**< mask: all whose logs keep writes waiting; replaces the last mask */
    SNIC_MEMBER_CAUGHT_UP,  /**< epoch: this learner has all, since the view of that epoch      */
    SNIC_MEMBER_LOG,        /**< flags LOG_GOOD or 0: suspect (A8)                              */
    SNIC_MEMBER_NEED_EPOCH, /**< epoch: one above it is needed                                 */
    /** mask: all that do not answer the data path at all; replaces the last mask. */
    SNIC_MEMBER_SILENT,
    SNIC_MEMBER_FLUSH /**< ns: for how long the oldest flush of the own log has run; 0: none    */
};

/**
 * OVERRIDE's mask: these nodes have ended and will not run again with the files they have. They
 * count as voting and granting whatever this node asks for, until it is heard of them or it ends.
 * If it is not true, P1 and P2 do not hold.
 */
struct snic_member_event {
    uint32_t type;
    uint32_t flags;
    uint32_t kind; /**< enum snic_member_report */
    uint32_t incarnation;
    uint32_t epoch;
    uint16_t mask;
    uint16_t pad;
    uint64_t id;
    uint64_t ns; /**< REPORT FLUSH                                                             */
    uint32_t node;
    uint8_t addr[SNIC_MEMBER_ADDR_MAX];
    uint32_t reserved;
    const struct snic_member_msg *msg;       /**< borrowed for the call */
    const struct snic_member_record *record; /**< borrowed for the call */
};

/* ---- Actions ---- */

enum snic_member_action_type {
    SNIC_MEMBER_LEASE = 1, /**< until_ns: serve before it, exclusive; 0: fenced, stop now */
    SNIC_MEMBER_STORE, /**< record to the file, durably; STORED with id. One at a time         */
    SNIC_MEMBER_VIEW,  /**< view: installed; role: ours in it                                  */
    SNIC_MEMBER_SEND,  /**< msg to each node of `to`                                           */
    /** id: of the newest lease request that a majority has granted in this epoch: no view without
     * this node had been chosen when it was sent. Comes when it rises, if CONFIRM asked for it. */
    SNIC_MEMBER_CONFIRMED
};

enum snic_member_role {
    SNIC_MEMBER_ROLE_FENCED = 0,
    SNIC_MEMBER_ROLE_LEARNER,
    SNIC_MEMBER_ROLE_FULL
};

struct snic_member_action {
    uint32_t type;
    uint32_t role;
    uint16_t to;
    uint16_t pad[3];
    uint64_t id;
    uint64_t until_ns;
    struct snic_member_msg msg;       /**< SEND                                                   */
    struct snic_member_view view;     /**< VIEW                                                   */
    struct snic_member_record record; /**< STORE                                                  */
};

/* ---- Calls ---- */

/** What keeps a node from more, for operators; a later one is nearer to service. */
enum snic_member_state {
    SNIC_MEMBER_BOOTING = 0, /**< no BOOT, or its own record is not stored yet                    */
    SNIC_MEMBER_LOST,        /**< has no file and no incarnation: looks on                        */
    SNIC_MEMBER_NO_MAJORITY, /**< does not hear a majority: nothing can change                    */
    SNIC_MEMBER_RESTARTING,  /**< no FULL node runs; waits for `missing`                          */
    SNIC_MEMBER_REPLACED,    /**< its file is dead: removed, or replaced by a later one           */
    SNIC_MEMBER_OUTSIDE,     /**< not in the view, waits to be admitted (a witness: always)       */
    SNIC_MEMBER_LEARNING,
    SNIC_MEMBER_NO_LEASE, /**< FULL, but without a lease                                          */
    SNIC_MEMBER_SERVING
};

enum snic_member_change_state {
    SNIC_MEMBER_CHANGE_NONE = 0,
    SNIC_MEMBER_CHANGE_PENDING, /**< no view has it yet                                          */
    SNIC_MEMBER_CHANGE_DECIDED, /**< a view has it; complete when that has nothing vacant        */
    SNIC_MEMBER_CHANGE_LOST     /**< another change came first, or this node is not FULL now     */
};

struct snic_member_status {
    uint32_t state; /**< enum snic_member_state                                                  */
    uint32_t role;
    uint32_t incarnation;
    uint32_t vote;           /**< 1: has one                                                      */
    uint16_t hears;          /**< in both directions, itself too                                  */
    uint16_t missing;        /**< RESTARTING: FULL nodes that are not back, or with a suspect log */
    uint32_t fenced;         /**< 1: gave up its lease until the next epoch                       */
    uint64_t lease_until_ns; /**< 0: none                                                         */
    uint64_t refused;        /**< messages that made no sense                                     */
    uint64_t proposals;      /**< begun                                                           */
    uint32_t min_full;       /**< FULL nodes that writes need                                     */
    uint32_t writable;       /**< 1: the view has as many                                         */
    uint32_t change;         /**< enum snic_member_change_state, of the last CHANGE here          */
    uint16_t slow;           /**< reported so, or by their own heartbeats                         */
    uint16_t silent;         /**< likewise: do not answer the data path                           */
    uint16_t voting;         /**< heard, and their file is the one that the view has as voting    */
    uint16_t pad[3];         /**< 0                                                               */
    uint64_t foreign;        /**< messages of another cluster                                     */
    uint64_t request;        /**< number of the newest lease request that was sent                */
    uint64_t confirmed;      /**< of the newest that a majority granted in this epoch; 0: none    */
    uint64_t confirmed_ns;   /**< when that one was sent                                          */
    struct snic_member_view view; /**< installed                                                  */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_member_opts_wrong(const struct snic_member_opts *opts) SNIC_NONNULL(1);
/** Bytes of memory; 0 when an option is wrong (snic_member_opts_wrong). [any] */
SNIC_API size_t snic_member_memsize(const struct snic_member_opts *opts) SNIC_NONNULL(1);
/**
 * Makes a node before its BOOT in @p mem, which is the node's until the caller uses it for
 * something else; @p opts is copied. [owner]
 * @return 0; SNIC_EINVAL an option is wrong, or @p mem is not aligned to SNIC_MEMBER_ALIGN;
 *         SNIC_ENOSPC @p mem_size is less than snic_member_memsize()
 */
SNIC_API SNIC_NODISCARD int snic_member_init(struct snic_member **m, void *mem, size_t mem_size,
                                             const struct snic_member_opts *opts)
    SNIC_NONNULL(1, 2, 4);
/**
 * Handles an event. @p now_ns never goes back; all actions of the last step were polled (asserted).
 * An event that is refused has no effect but on a counter; time passes all the same. [owner]
 * @return 0
 *         SNIC_EINVAL    an unknown event, kind or flag; any event before BOOT, a second BOOT;
 *                        STORED with another id than the last STORE's; MESSAGE without msg;
 *                        OVERRIDE of the own node or one that is not configured; CHANGE of the
 *                        own node, or of one out of range
 *         SNIC_ECORRUPT  BOOT: a record that no node wrote; BOOT again, without one
 *         SNIC_EXDEV     BOOT: the record of another cluster; BOOT again, with the right one.
 *                        MESSAGE: of another cluster; counted in `foreign`
 *         SNIC_EOVERFLOW BOOT: the incarnations are used up
 *         SNIC_ESTALE    REPORT: of another epoch than now; CHANGE: not FULL here, or `epoch` is
 *                        not the config_epoch any more; CONFIRM: not FULL here
 *         SNIC_EBUSY     CHANGE: another is not yet complete
 *         SNIC_EEXIST    CHANGE: ADD of what is configured, or of a second witness
 *         SNIC_ENOENT    CHANGE: REMOVE or REPLACE of what is not configured
 *         SNIC_ENOQUORUM CHANGE: no majority is heard, or none of the voters that it leaves; or it
 *                        leaves no FULL node
 *         SNIC_EPROTO    MESSAGE: a field is out of range; counted in `refused`
 */
SNIC_API SNIC_NODISCARD int snic_member_step(struct snic_member *m, uint64_t now_ns,
                                             const struct snic_member_event *ev) SNIC_NONNULL(1, 3);
/** The next action. [owner] @return 1 and @p out; 0: none, @p out is zeroed */
SNIC_API int snic_member_poll(struct snic_member *m, struct snic_member_action *out)
    SNIC_NONNULL(1, 2);
/** When to step with TICK if nothing else happens; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_member_deadline_ns(const struct snic_member *m) SNIC_NONNULL(1);
/** As of the last step. [owner] */
SNIC_API void snic_member_get_status(const struct snic_member *m, struct snic_member_status *out)
    SNIC_NONNULL(1, 2);
/**
 * Every invariant that one node can see. For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_member_check(const struct snic_member *m) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_MEMBER_H */
