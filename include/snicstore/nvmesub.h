/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmesub.h
 * One NVM subsystem over fabrics, or one discovery subsystem, without a transport: controllers,
 * admin commands, events, namespaces, ANA, reservations; I/O commands checked and decoded.
 *
 * Depends on  snicstore/base.h, snicstore/nvme.h, snicstore/nvme_wire.h.
 * Memory      memsize() bytes of the caller's, bounded by the options; then nothing is allocated.
 *             Commands are the caller's, borrowed from submit until poll returns them.
 * Threads     [owner] one thread owns a subsystem. [io] the thread of one I/O queue: it reads the
 *             view, which any number of threads may do at any time.
 * Progress    No call blocks or waits. A command is O(1), apart from log pages and lists, which are
 *             O(their size), and Connect and changes of the configuration, which are O(the tables).
 *             A reader of the view never waits for the owner.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise; then nothing changed.
 *             What a host sends wrong becomes a status, never an error.
 * Units       bytes, blocks of the namespace, nanoseconds; milliseconds where NVMe has them.
 * Input       Commands and their data are hostile; calls of the owner are trusted.
 *
 * How it is driven. The transport reports each new connection with open and passes what arrives on
 * it to submit, until the completion of a Connect has made it an admin queue or an I/O queue.
 * Commands of an admin queue go to submit; those of an I/O queue to io_check on the queue's own
 * thread, which returns what to do. After every call poll is called until it returns 0, and each
 * action is carried out in the order returned; deadline is the time of the next tick.
 *
 *     conn = snic_nvmesub_open(s, &peer, now);
 *     cmd.data, cmd.data_in or cmd.room: its data (snic_nvme_direction()), whole
 *     snic_nvmesub_submit(s, conn, &cmd, now);
 *     while (snic_nvmesub_poll(s, &action))     COMPLETE: send cmd.cqe and data_out bytes of data
 *
 *     r = snic_nvmesub_io_check(view, &queue, sqe, &op, &cqe);
 *       RUN      wait for the device, then io_start, then carry out op, then io_done
 *       STATUS   send cqe
 *       FORWARD  get its data, pass it to submit on the owner's thread; then io_finish
 *       HOLD     call io_check again after an UNFENCE of the queue's host
 *       DROP     the controller has ended: forget it, no completion
 *
 * The data of an admin or fabrics command is transferred before submit; its size is sgl_length of
 * the entry. If that is more than the transport's buffer, submit it without data (room and data_in
 * 0): it gets its status. io_check comes before the data of an I/O command moves.
 *
 * Connections and threads. The thread that owns a connection exchanges these messages with the
 * owner; they are calls and actions of this header, carried by the service, in order:
 *
 *     thread to owner: open, submit (Connect, FORWARD), lost, stopped, quiesced
 *     owner to thread: COMPLETE, DROP, END, ABORT, AUTH, QUIESCE (to all threads), UNFENCE
 *
 * - O1: a connection ends by END (the owner's decision: reset, shutdown, KATO, a lost admin queue,
 *   a deleted queue, a host that is no longer allowed) or by lost (the transport's). Both may
 *   happen. Then the thread sends no new command to the device (io_start refuses), drops what it
 *   has queued, waits until what is at the device has ended and every submitted command has been
 *   returned, and calls stopped: the last message of the connection.
 * - O2: before END is emitted the view marks a controller that ends or is reset: so no queue starts
 *   a command of it any more, whatever messages are in flight.
 * - O3: the loss of the admin queue ends the controller and all its queues. The loss of an I/O
 *   queue, as Disconnect, ends that queue alone: hosts close them first when they disconnect.
 * - O4: a host that has connections of ended controllers, or ended I/O queues, that have not
 *   stopped is fenced: its Connects are held, and its writes on other queues get HOLD. The thread
 *   that loses a connection with commands at the device raises the fence at once (io_lost), before
 *   the owner knows. The last stopped lifts it, with UNFENCE. So an old write never lands on a
 *   newer one, and a new controller begins when the commands of the old one have ended. Reads are
 *   served.
 * - O5: namespace removal: the view loses it, then QUIESCE: each thread drops its queued commands
 *   of the namespace (status INVALID_NS), waits for those at the device, then answers; one quiesced
 *   after all of them. Until then the namespace id is not used again.
 * - O6: preempt and abort: the same with the namespace there and a set of hosts; what is queued
 *   gets PREEMPT_ABORT. The command completes after quiesced.
 * - O7: PERSIST: the owner reads the record with record, stores it, answers persisted. Completions
 *   that depend on it wait. A restart gives the record back by restore.
 *
 * A reset by the host (CC.EN 0) ends the I/O queues; the admin queue stays, CSTS.RDY becomes 0 when
 * they have stopped. A shutdown does the same and sets CSTS.SHST to complete; before stopped, the
 * owner makes its volatile data durable. An admin queue without an enabled controller is ended
 * after two minutes.
 *
 * Credit. A host asks for credit by Set Features of SNIC_NVME_FEAT_CREDIT (vendor specific, C0h,
 * Dword11 bit 0). Then Dword1 of its I/O completions holds what io_done was passed; for all others
 * it is 0, as reserved.
 *
 * Hosts. An identity is a host id together with a host NQN: without authentication both are claims.
 * A queue that has to authenticate and has not is one: it makes room for another Connect to its id.
 * Host id 0 is an identity of its own for each controller, and may not reserve.
 */
#ifndef SNIC_NVMESUB_H
#define SNIC_NVMESUB_H

#include "snicstore/base.h"
#include "snicstore/nvme.h"
#include "snicstore/nvme_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The subsystem, on its owner's thread. In caller memory; must not be moved or copied. */
struct snic_nvmesub;
/** What I/O queues on other threads read. Part of the subsystem's memory. */
struct snic_nvmesub_view;

#define SNIC_NVMESUB_ALIGN SNIC_CACHELINE
#define SNIC_NVMESUB_CONTROLLERS_MAX 4096U
#define SNIC_NVMESUB_CONNS_MAX 16384U
#define SNIC_NVMESUB_NAMESPACES_MAX 4096U
#define SNIC_NVMESUB_HOSTS_MAX 1024U
#define SNIC_NVMESUB_ALLOWED_MAX 4096U
#define SNIC_NVMESUB_GROUPS_MAX 128U
#define SNIC_NVMESUB_ENTRIES_MAX 4096U
#define SNIC_NVMESUB_IO_QUEUES_MAX 1024U
#define SNIC_NVMESUB_DEPTH_MAX 4096U
#define SNIC_NVMESUB_DATA_MAX (32U << 20)
#define SNIC_NVMESUB_PORTS_MAX 16U
#define SNIC_NVMESUB_RANGES_MAX 8U  /**< address ranges of a host                             */
#define SNIC_NVMESUB_AERS_MAX 4U    /**< event requests of a controller                       */
#define SNIC_NVMESUB_ABORTS_MAX 4U  /**< aborts of a controller                               */
#define SNIC_NVMESUB_NOTICES_MAX 8U /**< reservation notifications kept for a controller      */
#define SNIC_NVMESUB_ERRORS_MAX 8U  /**< error log entries of a controller                    */
#define SNIC_NVMESUB_KATO_MS_MAX 86400000U
#define SNIC_NVMESUB_ADMIN_DEPTH 32U

#define SNIC_NVMESUB_DISCOVERY (1U << 0) /**< a discovery subsystem                            */
#define SNIC_NVMESUB_ANY_HOST (1U << 1)  /**< hosts that are not in the list are allowed, too  */
#define SNIC_NVMESUB_NO_VWC (1U << 2)    /**< the devices have no volatile write cache         */

/** Zero it, set opts_size and subnqn; a field that is 0 takes its default. */
struct snic_nvmesub_opts {
    uint32_t opts_size;
    uint32_t flags;           /**< SNIC_NVMESUB_*; unknown bits give SNIC_EINVAL             */
    uint32_t controllers_max; /**< default 64                                                */
    uint32_t conns_max;       /**< connections of all kinds; default 1024                    */
    uint32_t namespaces_max;  /**< ids are 1..this; default 256                              */
    uint32_t hosts_max;       /**< identities (NQN and host id) connected or registered at a
                                   time; of one NQN a quarter registered; default 64         */
    uint32_t allowed_max;     /**< host NQNs with a rule; default 64                         */
    uint32_t groups_max;      /**< ANA groups, ids are 1..this; default 16                   */
    uint32_t entries_max;     /**< discovery log entries; default 64                         */
    uint32_t queues_max;      /**< I/O queues of a controller; default 16                    */
    uint32_t depth_max;       /**< entries of an I/O queue, 2..; default 128                 */
    uint32_t data_max;        /**< of one command, 4096 times a power of two; default 1 MiB  */
    uint32_t capsule_bytes;   /**< in-capsule data, a multiple of 16 up to 1 MiB; default 8192 */
    uint32_t kato_ms_max;     /**< a longer one is refused; default a day                    */
    const char *subnqn;       /**< copied, as the others; ignored with DISCOVERY             */
    const char *serial;       /**< at most 20 characters; default "0"                        */
    const char *model;        /**< at most 40; default "snicstore"                           */
    const char *firmware;     /**< at most 8; default the library's version                  */
};

/** Address of a peer, or a range of addresses. */
struct snic_nvmesub_range {
    uint8_t family;      /**< SNIC_NVME_ADRFAM_IPV4 or _IPV6                                  */
    uint8_t bits;        /**< of a range: prefix length                                       */
    uint8_t address[16]; /**< the first 4 or all 16 bytes, network order                      */
};

/** A new connection. */
struct snic_nvmesub_peer {
    uint32_t port; /**< 0..SNIC_NVMESUB_PORTS_MAX - 1: its ANA states are this port's          */
    struct snic_nvmesub_range address; /**< bits is ignored                                   */
};

/** What may be done on a namespace; zero it, set what differs. */
struct snic_nvmesub_ns_opts {
    uint32_t opts_size;
    uint32_t nsid;   /**< 1..namespaces_max; 0: the lowest that is free                       */
    uint32_t group;  /**< ANA group; default 1                                                */
    uint32_t shift;  /**< log2 of the block size, 9 or 12                                     */
    uint64_t blocks; /**< at least 1                                                          */
    uint32_t read_only;
    uint32_t optimal_blocks; /**< preferred write granularity; 0 none                         */
    uint8_t nguid[16];       /**< 0: none. At least one of the three must be there            */
    uint8_t uuid[16];
    uint8_t eui64[8];
};

/** A command of an admin queue, or one that an I/O queue forwards. */
struct snic_nvmesub_cmd {
    struct snic_link link;  /**< the engine's, as all but what is marked                      */
    struct snic_link owner; /**< likewise: its connection's commands                          */
    void *data;             /**< in, aligned to 8: data out (data_in bytes), or space for data in
                                 (room)                                                       */
    uint32_t data_in;       /**< in                                                           */
    uint32_t room;          /**< in                                                           */
    unsigned char sqe[SNIC_NVME_SQE_BYTES]; /**< in                                           */
    struct snic_nvme_cqe cqe;               /**< out, with COMPLETE                           */
    uint32_t data_out;                      /**< out: bytes of data to send before it         */
    uint32_t conn;                          /**< out                                          */
    uint64_t wait[2];
    uint16_t status;
    uint8_t state;
    uint8_t waits;
};

/** An I/O queue, on its own thread. Filled by a Connect's completion; use the functions only. */
struct snic_nvmesub_queue {
    uint32_t conn;
    uint32_t epoch; /**< of the controller                                                    */
    uint16_t ctrl;
    uint16_t cntlid;
    uint16_t host;
    uint16_t qid;
    uint16_t depth;
    uint16_t head;
    uint16_t port;
    uint8_t no_sq_flow;
    uint8_t auth;       /**< 1: not yet authenticated                                        */
    uint8_t lost;       /**< io_lost was called                                              */
    uint8_t fencing;    /**< this queue holds the fence up                                   */
    uint32_t at_device; /**< commands between io_start and io_done                           */
};

enum snic_nvmesub_op_kind {
    SNIC_NVMESUB_READ = 1,
    SNIC_NVMESUB_WRITE,
    SNIC_NVMESUB_FLUSH,
    SNIC_NVMESUB_ZEROES,
    SNIC_NVMESUB_DISCARD, /**< count ranges; io_range checks each                             */
    SNIC_NVMESUB_COMPARE, /**< bytes arrive and are compared with the blocks                  */
    SNIC_NVMESUB_VERIFY   /**< blocks are read, no bytes move to the host                     */
};

/** An I/O command to carry out. */
struct snic_nvmesub_op {
    uint8_t kind;       /**< enum snic_nvmesub_op_kind                                       */
    uint8_t fua;        /**< durable (writes) or from the medium (reads)                     */
    uint8_t limited;    /**< LR: no retries                                                  */
    uint8_t deallocate; /**< ZEROES: may deallocate                                          */
    uint16_t cid;
    uint16_t count; /**< DISCARD: ranges, 1..256                                         */
    uint32_t nsid;
    uint32_t blocks;
    uint64_t lba;
    uint64_t offset;     /**< lba in bytes                                                    */
    uint64_t length;     /**< blocks in bytes                                                 */
    uint32_t bytes;      /**< of data that move between host and target                       */
    uint32_t generation; /**< of the namespace                                                */
    uint64_t sequence;   /**< of what the check has seen; 0: unknown                          */
};

/** Results of io_check and io_start. */
enum snic_nvmesub_io {
    SNIC_NVMESUB_IO_RUN = 0,
    SNIC_NVMESUB_IO_STATUS = 1,
    SNIC_NVMESUB_IO_FORWARD = 2,
    SNIC_NVMESUB_IO_HOLD = 3,
    SNIC_NVMESUB_IO_DROP = 4
};

enum snic_nvmesub_action_kind {
    SNIC_NVMESUB_COMPLETE =
        1,                /**< cmd: send its completion; attached: queue is now its I/O queue */
    SNIC_NVMESUB_DROP,    /**< cmd: returned without a completion                        */
    SNIC_NVMESUB_END,     /**< conn, reason: end this connection (O1)                    */
    SNIC_NVMESUB_ABORT,   /**< cmd, conn, cid: try to abort; answer abort_done           */
    SNIC_NVMESUB_AUTH,    /**< cmd: an authentication command; answer auth_done          */
    SNIC_NVMESUB_PERSIST, /**< nsid, sequence: answer persisted (O7)                     */
    SNIC_NVMESUB_QUIESCE, /**< nsid, sequence, removal or hosts: answer quiesced (O5, O6) */
    SNIC_NVMESUB_UNFENCE  /**< host: held commands may run (O4)                          */
};

enum snic_nvmesub_reason {
    SNIC_NVMESUB_BY_HOST = 1, /**< Disconnect                                                 */
    SNIC_NVMESUB_BY_RESET,
    SNIC_NVMESUB_BY_SHUTDOWN, /**< make volatile data durable before stopped                  */
    SNIC_NVMESUB_BY_KATO,
    SNIC_NVMESUB_BY_LOSS, /**< another connection of the controller was lost              */
    SNIC_NVMESUB_BY_IDLE, /**< two minutes without an enabled controller                  */
    SNIC_NVMESUB_BY_OWNER /**< the host is no longer allowed                              */
};

struct snic_nvmesub_action {
    uint8_t kind; /**< enum snic_nvmesub_action_kind                                          */
    uint8_t reason;
    uint8_t attached;
    uint8_t removal;
    uint16_t cid;
    uint16_t host;
    uint32_t conn;
    uint32_t nsid;
    uint64_t sequence;
    struct snic_nvmesub_cmd *cmd;
    struct snic_nvmesub_queue queue;
    uint64_t hosts[SNIC_NVMESUB_HOSTS_MAX / 64]; /**< QUIESCE: bit per host                   */
};

/* ---- The subsystem ---- */

/** The first option that is out of range, with its range; NULL if none is. [any] */
SNIC_API const char *snic_nvmesub_opts_wrong(const struct snic_nvmesub_opts *o) SNIC_NONNULL(1);
/** Bytes that init needs, a multiple of SNIC_NVMESUB_ALIGN; 0 when @p o is invalid. [any] */
SNIC_API size_t snic_nvmesub_memsize(const struct snic_nvmesub_opts *o) SNIC_NONNULL(1);
/**
 * A subsystem without namespaces and hosts; all ANA groups are optimized. [owner]
 * @return 0; SNIC_EINVAL an option or the alignment; SNIC_ENOSPC @p size is too small
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_init(struct snic_nvmesub **out, void *mem, size_t size,
                                              const struct snic_nvmesub_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 4);
/** Return the memory. Asserts that no connection is open. [owner] */
SNIC_API void *snic_nvmesub_fini(struct snic_nvmesub *s) SNIC_NONNULL(1);
/** Every structural invariant. O(everything). [owner] @return 0; SNIC_ECORRUPT */
SNIC_API int snic_nvmesub_check(const struct snic_nvmesub *s) SNIC_NONNULL(1);
/** What I/O queues read; valid until fini. [owner] */
SNIC_API struct snic_nvmesub_view *snic_nvmesub_get_view(struct snic_nvmesub *s) SNIC_NONNULL(1);
/** The next action, in order. [owner] @return 1 @p out is filled; 0 none */
SNIC_API SNIC_NODISCARD int snic_nvmesub_poll(struct snic_nvmesub *s,
                                              struct snic_nvmesub_action *out) SNIC_NONNULL(1, 2);
/** Time passes: KATO and idle controllers. A @p now_ns that goes back is ignored. [owner] */
SNIC_API void snic_nvmesub_tick(struct snic_nvmesub *s, uint64_t now_ns) SNIC_NONNULL(1);
/** When tick has something to do; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_nvmesub_deadline_ns(struct snic_nvmesub *s) SNIC_NONNULL(1);

/* ---- Connections ---- */

/**
 * A new connection. [owner]
 * @return its number, below conns_max; SNIC_EINVAL port or family; SNIC_EAGAIN conns_max are open
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_open(struct snic_nvmesub *s,
                                              const struct snic_nvmesub_peer *peer)
    SNIC_NONNULL(1, 2);
/**
 * A command with its data. The connection must be open and not stopped (asserted). Commands of an
 * I/O queue only if io_check returned FORWARD (others get INVALID_OPCODE). [owner]
 */
SNIC_API void snic_nvmesub_submit(struct snic_nvmesub *s, uint32_t conn,
                                  struct snic_nvmesub_cmd *cmd, uint64_t now_ns) SNIC_NONNULL(1, 3);
/** The transport lost or ended the connection (O1). Its commands are returned by DROP. [owner] */
SNIC_API void snic_nvmesub_lost(struct snic_nvmesub *s, uint32_t conn, uint64_t now_ns)
    SNIC_NONNULL(1);
/**
 * The last message of a connection that has had END or lost (asserted): nothing of it is at the
 * device, all its commands have been returned (asserted). [owner]
 */
SNIC_API void snic_nvmesub_stopped(struct snic_nvmesub *s, uint32_t conn, uint64_t now_ns)
    SNIC_NONNULL(1);
/** The result of an ABORT action: 1 the command was aborted, 0 it was not. [owner] */
SNIC_API void snic_nvmesub_abort_done(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd,
                                      int aborted) SNIC_NONNULL(1, 2);
/** The result of an AUTH action: status, and cmd->data_out. [owner] */
SNIC_API void snic_nvmesub_auth_done(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd,
                                     uint32_t status) SNIC_NONNULL(1, 2);
/** The connection's host has proved its identity; before, all its commands but authentication get
 * AUTH_REQUIRED, if its rule requires it. Of an I/O queue: io_authenticated, too. [owner] */
SNIC_API void snic_nvmesub_authenticated(struct snic_nvmesub *s, uint32_t conn) SNIC_NONNULL(1);
/** The answer to PERSIST: stored, or @p error: then completions that wait for it report INTERNAL.
 * [owner] */
SNIC_API void snic_nvmesub_persisted(struct snic_nvmesub *s, uint32_t nsid, uint64_t sequence,
                                     int error) SNIC_NONNULL(1);
/** The answer to QUIESCE. [owner] */
SNIC_API void snic_nvmesub_quiesced(struct snic_nvmesub *s, uint32_t nsid, uint64_t sequence)
    SNIC_NONNULL(1);

/* ---- Hosts ---- */

#define SNIC_NVMESUB_HOST_AUTH (1U << 0) /**< must authenticate                                */

/**
 * Allow a host, or replace its rule; both borrowed for the call. Its controllers from elsewhere
 * than the new rule has it end, and all if it must authenticate and had not to before. [owner]
 * @param ranges  where it may come from; none: anywhere
 * @return 0; SNIC_EINVAL an NQN, flag, range or count; SNIC_ENOSPC allowed_max rules
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_allow(struct snic_nvmesub *s, const char *hostnqn,
                                               uint32_t flags,
                                               const struct snic_nvmesub_range *ranges,
                                               uint32_t count) SNIC_NONNULL(1, 2);
/**
 * Remove a host's rule; without ANY_HOST its controllers end. [owner]
 * @return 0; SNIC_ENOENT there is none
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_deny(struct snic_nvmesub *s, const char *hostnqn)
    SNIC_NONNULL(1, 2);

/** Set or clear ANY_HOST; when it is cleared, controllers of hosts without a rule end. [owner] */
SNIC_API void snic_nvmesub_any_host(struct snic_nvmesub *s, int on) SNIC_NONNULL(1);
/** All controllers end, and Connects are refused from now on as of an unknown subsystem: it is to
 * be removed. [owner] */
SNIC_API void snic_nvmesub_end_all(struct snic_nvmesub *s) SNIC_NONNULL(1);

/* ---- Namespaces and ANA ---- */

/**
 * Add a namespace; hosts are notified. [owner]
 * @return its id; SNIC_EINVAL an option; SNIC_EEXIST the id is in use, or its removal not yet
 *         quiesced; SNIC_ENOSPC no free id
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_ns_add(struct snic_nvmesub *s,
                                                const struct snic_nvmesub_ns_opts *o)
    SNIC_NONNULL(1, 2);
/** Remove it (O5), with its reservation. [owner] @return 0; SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_nvmesub_ns_remove(struct snic_nvmesub *s, uint32_t nsid)
    SNIC_NONNULL(1);
/** Change its size. Commands that were checked before may exceed it. [owner]
 * @return 0; SNIC_ENOENT; SNIC_EINVAL 0 or too many blocks */
SNIC_API SNIC_NODISCARD int snic_nvmesub_ns_resize(struct snic_nvmesub *s, uint32_t nsid,
                                                   uint64_t blocks) SNIC_NONNULL(1);
/** Make it read-only, or writable. [owner] @return 0; SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_nvmesub_ns_read_only(struct snic_nvmesub *s, uint32_t nsid, int on)
    SNIC_NONNULL(1);
/** Move it to another ANA group. [owner] @return 0; SNIC_ENOENT; SNIC_EINVAL group */
SNIC_API SNIC_NODISCARD int snic_nvmesub_ns_group(struct snic_nvmesub *s, uint32_t nsid,
                                                  uint32_t group) SNIC_NONNULL(1);
/** Set the state (SNIC_NVME_ANA_*) of a group on a port. [owner] @return 0; SNIC_EINVAL */
SNIC_API SNIC_NODISCARD int snic_nvmesub_ana_set(struct snic_nvmesub *s, uint32_t group,
                                                 uint32_t port, uint32_t state) SNIC_NONNULL(1);
/** The health log; a critical warning bit that appears notifies hosts that want it. [owner] */
SNIC_API void snic_nvmesub_health(struct snic_nvmesub *s, const struct snic_nvme_smart *log)
    SNIC_NONNULL(1, 2);

/* ---- Reservations that persist ---- */

/**
 * The record of a namespace's registrants and reservation as it is to be stored: without them if
 * PTPL is off. Copy. [owner]
 * @return its bytes; SNIC_ENOENT; SNIC_ENOSPC @p room is too small (snic_nvmesub_record_max())
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_record(const struct snic_nvmesub *s, uint32_t nsid,
                                                void *out, size_t room) SNIC_NONNULL(1, 3);
/** Bytes of the largest record. [any] */
SNIC_API size_t snic_nvmesub_record_max(const struct snic_nvmesub *s) SNIC_NONNULL(1);
/**
 * Give a namespace that has no registrants a record back. Copy. [owner]
 * @return 0; SNIC_ENOENT; SNIC_EBUSY it has registrants; SNIC_ECORRUPT; SNIC_EVERSION; SNIC_ESTALE
 *         the record is another namespace's (its identifiers); SNIC_ENOSPC hosts_max
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_restore(struct snic_nvmesub *s, uint32_t nsid,
                                                 const void *record, size_t size)
    SNIC_NONNULL(1, 3);

/* ---- Discovery ---- */

/**
 * Set entry @p index of the discovery log, borrowed for the call; NULL removes it. Hosts are
 * notified. [owner]
 * @param hosts  who sees it: host NQNs, NULL for all; copied as rules' numbers: each must be
 * allowed
 * @return 0; SNIC_EINVAL index, or not a discovery subsystem; SNIC_ENOENT a host without a rule
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_entry(struct snic_nvmesub *s, uint32_t index,
                                               const struct snic_nvme_discovery_entry *entry,
                                               const char *const *hosts, uint32_t count)
    SNIC_NONNULL(1);

/* ---- Status ---- */

struct snic_nvmesub_stats {
    uint64_t commands; /**< submitted                                                        */
    uint64_t errors;   /**< completed with a status                                          */
    uint64_t connects; /**< admin queues connected                                           */
    uint64_t refused;  /**< Connects with a status                                           */
    uint64_t expired;  /**< controllers ended by KATO                                        */
    uint64_t fences;   /**< controllers that ended with queues to wait for                   */
    uint64_t held;     /**< Connects held by a fence                                         */
    uint64_t events;   /**< event requests completed                                         */
    uint32_t controllers;
    uint32_t conns;
    uint32_t namespaces;
    uint32_t hosts;
};
struct snic_nvmesub_ctrl_status {
    uint16_t cntlid;
    uint16_t port;
    uint32_t host;
    uint32_t queues; /**< I/O queues                                                          */
    uint32_t cc;
    uint32_t csts;
    uint32_t kato_ms;
    uint32_t ending;
    uint8_t hostid[16];
    char hostnqn[SNIC_NVME_NQN_BYTES];
};
struct snic_nvmesub_ns_status {
    uint64_t blocks;
    uint32_t nsid;
    uint32_t shift;
    uint32_t group;
    uint32_t read_only;
    uint32_t removing;
    uint32_t rtype;  /**< 0: no reservation                                              */
    uint32_t holder; /**< host, if rtype is one with a single holder                     */
    uint32_t registrants;
    uint32_t generation; /**< of the reservation                                             */
    uint32_t ptpl;
};
/** Totals. [owner] */
SNIC_API void snic_nvmesub_get_stats(const struct snic_nvmesub *s, struct snic_nvmesub_stats *out)
    SNIC_NONNULL(1, 2);
/** Controller in slot @p index below controllers_max. [owner] @return 0; SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_nvmesub_get_ctrl(const struct snic_nvmesub *s, uint32_t index,
                                                  struct snic_nvmesub_ctrl_status *out)
    SNIC_NONNULL(1, 3);
/** A namespace. [owner] @return 0; SNIC_ENOENT */
SNIC_API SNIC_NODISCARD int snic_nvmesub_get_ns(const struct snic_nvmesub *s, uint32_t nsid,
                                                struct snic_nvmesub_ns_status *out)
    SNIC_NONNULL(1, 3);

/* ---- I/O queues, each on its own thread ---- */

/**
 * Check one entry of the queue, before its data move. [io]
 * @param op   filled for RUN
 * @param cqe  filled for STATUS
 * @return enum snic_nvmesub_io
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_io_check(struct snic_nvmesub_view *v,
                                                  struct snic_nvmesub_queue *q, const void *sqe,
                                                  struct snic_nvmesub_op *op,
                                                  struct snic_nvme_cqe *cqe)
    SNIC_NONNULL(1, 2, 3, 4, 5);
/**
 * Range @p i of a DISCARD's data (at least op->count * 16 bytes), checked, as an op of its own
 * without bytes. [io]
 * @return 0; a status: the whole command gets it
 */
SNIC_API SNIC_NODISCARD uint32_t snic_nvmesub_io_range(struct snic_nvmesub_view *v,
                                                       const struct snic_nvmesub_op *op,
                                                       const void *data, uint32_t i,
                                                       struct snic_nvmesub_op *out)
    SNIC_NONNULL(1, 2, 3, 5);
/**
 * The command is about to start at the device: what may have changed since io_check (namespace,
 * ANA, reservation, fence) is checked again. [io]
 * @return RUN: start it, io_done follows; STATUS: send @p cqe; HOLD and DROP as io_check
 */
SNIC_API SNIC_NODISCARD int snic_nvmesub_io_start(struct snic_nvmesub_view *v,
                                                  struct snic_nvmesub_queue *q,
                                                  const struct snic_nvmesub_op *op,
                                                  struct snic_nvme_cqe *cqe)
    SNIC_NONNULL(1, 2, 3, 4);
/** The device has ended a started command: its completion, to be sent unless the queue has ended;
 * @p credit is sent to a host that wants it. [io] */
SNIC_API void snic_nvmesub_io_done(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q,
                                   uint16_t cid, uint32_t status, uint32_t credit,
                                   struct snic_nvme_cqe *cqe) SNIC_NONNULL(1, 2, 6);
/** The completion of a command that was not started: a status of the owner's. [io] */
SNIC_API void snic_nvmesub_io_status(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q,
                                     uint16_t cid, uint32_t status, uint32_t credit,
                                     struct snic_nvme_cqe *cqe) SNIC_NONNULL(1, 2, 6);
/** Finish the completion of a command that was forwarded. [io] */
SNIC_API void snic_nvmesub_io_finish(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q,
                                     uint32_t credit, struct snic_nvme_cqe *cqe)
    SNIC_NONNULL(1, 2, 4);
/** The connection is lost or ends: raises the host's fence while commands are at the device (O4).
 * Call it first, before any message. Idempotent. [io] */
SNIC_API void snic_nvmesub_io_lost(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q)
    SNIC_NONNULL(1, 2);
/** 1 if the controller of the queue has ended or the queue was lost. [io] */
SNIC_API int snic_nvmesub_io_ended(struct snic_nvmesub_view *v, const struct snic_nvmesub_queue *q)
    SNIC_NONNULL(1, 2);
/** The queue's host has proved its identity. [io] */
SNIC_API void snic_nvmesub_io_authenticated(struct snic_nvmesub_queue *q) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMESUB_H */
