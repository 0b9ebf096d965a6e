/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmetcp.h
 * One NVMe/TCP connection, which is one queue (NVM Express TCP Transport Specification 1.0): the
 * controller's half (target) and the host's half (host), and the codec of PDUs that both use.
 *
 * Depends on  snicstore/base.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards, whatever the peer
 *             sends. The target: 1.2 KiB, 464 bytes for each of depth_max, 192 for each of
 *             grants_max, and inline_max, rounded up to 4 KiB, for each of inline_buffers: 214 KiB
 *             with the defaults. The host: 1.2 KiB, and for each of entries 200 bytes and 256 for
 *             each of its r2ts_max R2Ts. Data buffers are the owner's.
 * Threads     [owner] one thread owns an object; memsize, decode and encode are [any].
 * Progress    No call blocks. O(bytes) to receive, O(1) per PDU and O(pieces) of its data.
 * Errors      0 or a count on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       bytes, nanoseconds.
 * Input       Received bytes are hostile: any bytes in any state lead to the termination or the
 *             status that the specification names. All other input is the owner's.
 *
 * How a target is driven. The owner has the socket, the clock and the buffers.
 *
 *     for received bytes:        snic_nvmetcp_target_recv(t, data, size, &used, now);
 *     while (snic_nvmetcp_target_poll(t, &e, now) == 1)
 *         COMMAND, CONNECT, FABRICS: execute it, at some time call
 *             snic_nvmetcp_target_complete(t, e.command, &completion, now);
 *         COMMAND with e.wanted: when a buffer is free and the write is admitted,
 *             snic_nvmetcp_target_grant(t, e.command, iov, count, size, now);
 *         DATA_IN: the data of a grant have arrived in its buffers
 *         SENT: a completion's data are no longer needed
 *         ENDED: close the socket
 *     while ((n = snic_nvmetcp_target_output(t, iov, max, &bytes)) > 0)
 *         write them; when written: snic_nvmetcp_target_sent(t, bytes, now);
 *     sleep until snic_nvmetcp_target_deadline_ns(t), or until bytes arrive
 *
 * Back pressure. recv consumes fewer bytes than are passed while the connection is paused: its
 * in-capsule buffers or its responses are all in use. Then the socket is not read any further until
 * snic_nvmetcp_target_paused() is 0 again, which complete and sent may cause. It never waits for
 * input: commands whose data are complete end without it.
 *
 * Zero copy. While the data of a PDU arrive, want returns where the next bytes of the stream
 * belong; an owner that reads them there calls filled instead of recv.
 *
 * Two steps for writes. A write whose data are in its capsule is delivered with them. Any other is
 * delivered when its capsule has arrived, with wanted bytes, and no R2T is sent before a grant. A
 * grant lends buffers for the next bytes of the command; each is one R2T, whose tag names the
 * grant, and there may be several for a command, up to what the host allows (MAXR2T). A grant
 * whose data have not arrived after data_ns ends the connection (SNIC_ETIMEDOUT).
 *
 * Queue. depth_max commands (after Connect its entries) have a slot each, from the capsule to the
 * queuing of the response; that a response waits for the socket holds no slot, so that a host that
 * sends as soon as it has a response never finds all taken. A command beyond is a violation of the
 * queue's size: the specification wants the controller fatal status (CSTS.CFS) set and the
 * connection terminated; the engine ends it with SNIC_EOVERFLOW and the owner sets CFS.
 *
 * What the engine answers by itself (DNR is set unless stated):
 *   Command Sequence Error (0Ch)       a command before Connect was accepted; a second Connect,
 *                                      also while the first is pending
 *   Invalid Field in Command (02h)     PSDT is not 01b (commands other than fabrics); in-capsule
 *                                      data that the command's SGL does not describe, or of a
 *                                      command that has no data to the controller; length beyond
 *                                      transfer_max
 *   SGL Descriptor Type Invalid (11h)  neither a transport data block nor an in-capsule data block
 *   SGL Offset Invalid (16h)           an in-capsule offset beyond the capsule's data
 *   Data SGL Length Invalid (0Fh)      an in-capsule length beyond the capsule's data
 *   Transient Transport Error (22h)    without DNR: the data digest of its data was wrong
 * A data digest error of granted data is DATA_IN with SNIC_ECORRUPT, and the completion's status is
 * replaced by 22h. Whether a host uses an identifier (CID) twice at a time is not checked: nothing
 * is found by it.
 *
 * Termination. A violation that the specification calls fatal is answered by a TermReq PDU with its
 * status (FES) and information (FEI), and the header of the PDU; the lowest wrong field is named:
 *   01h Invalid PDU Header Field   an unknown type, or one of the other direction (FEI 0); digest
 *                                  flags other than agreed, SUCCESS without LAST (1); HLEN (2); PDO
 *                                  not aligned, or outside (3); PLEN (4); HPDA, CPDA beyond 31
 *                                  (10); a digest not asked for (11); MAXH2CDATA (12); CCCID (8),
 *                                  TTAG (10), DATAL other than the PDU's data (16); CID (20)
 *   02h PDU Sequence Error         a PDU that the state does not permit; data not in order; LAST
 *                                  not exactly on the last PDU
 *   03h Header Digest Error        FEI is the digest received
 *   04h Data Transfer Out of Range data beyond the R2T or the command; an R2T likewise
 *   05h Data Transfer Limit Exceeded (by a host)  an H2CData beyond MAXH2CDATA, in-capsule data
 *                                  beyond the limit; R2T Limit Exceeded (by a controller)
 *   06h Unsupported Parameter      PFV (8)
 * The report is the event TERM; then input is dropped, queued output and the TermReq are sent, and
 * the connection is ENDED when the peer closes it, or after close_ns. A received TermReq ends it
 * at once, and a malformed one as well. Reserved bits and fields are ignored.
 *
 * With TERM all grants are void and commands not yet delivered are dropped; commands still have to
 * be completed, to no effect. With ENDED everything lent to the engine is the owner's again (what a
 * pending write of the socket still uses is known to the owner), and all handles are invalid.
 */
#ifndef SNIC_NVMETCP_H
#define SNIC_NVMETCP_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The controller's half and the host's half of a connection, in caller memory, not to be moved. */
struct snic_nvmetcp_target;
struct snic_nvmetcp_host;

/** In-capsule data begin at multiples of it, so that they may be written with O_DIRECT. */
#define SNIC_NVMETCP_ALIGN 4096
#define SNIC_NVMETCP_SQE_BYTES 64
#define SNIC_NVMETCP_CQE_BYTES 16
/** Limits of options: entries of a queue, in-capsule data, R2Ts of a command, data of a command. */
#define SNIC_NVMETCP_DEPTH_MAX 4096u
#define SNIC_NVMETCP_INLINE_MAX (1u << 20)
#define SNIC_NVMETCP_R2TS_MAX 64u
#define SNIC_NVMETCP_TRANSFER_MAX (1u << 30)
/** Longest header with its digest; longest pad before data. */
#define SNIC_NVMETCP_HEADER_MAX 132u
/** Times of options are 1..2^60. */
#define SNIC_NVMETCP_NS_MAX ((uint64_t)1 << 60)

/* ---- The codec ---- */

enum snic_nvmetcp_type {
    SNIC_NVMETCP_ICREQ = 0,
    SNIC_NVMETCP_ICRESP = 1,
    SNIC_NVMETCP_H2C_TERM = 2,
    SNIC_NVMETCP_C2H_TERM = 3,
    SNIC_NVMETCP_CAPSULE_CMD = 4,
    SNIC_NVMETCP_CAPSULE_RESP = 5,
    SNIC_NVMETCP_H2C_DATA = 6,
    SNIC_NVMETCP_C2H_DATA = 7,
    SNIC_NVMETCP_R2T = 9
};

/** FLAGS of a PDU. */
#define SNIC_NVMETCP_HDGSTF (1u << 0)
#define SNIC_NVMETCP_DDGSTF (1u << 1)
#define SNIC_NVMETCP_LAST (1u << 2)
#define SNIC_NVMETCP_SUCCESS (1u << 3)

/** Digests, as in the byte DGST of ICReq and ICResp. */
#define SNIC_NVMETCP_HDGST (1u << 0)
#define SNIC_NVMETCP_DDGST (1u << 1)

/** Fatal error status; 05h is "R2T Limit Exceeded" when a host sends it. */
enum snic_nvmetcp_fes {
    SNIC_NVMETCP_FES_HEADER = 1,
    SNIC_NVMETCP_FES_SEQUENCE = 2,
    SNIC_NVMETCP_FES_DIGEST = 3,
    SNIC_NVMETCP_FES_RANGE = 4,
    SNIC_NVMETCP_FES_LIMIT = 5,
    SNIC_NVMETCP_FES_PARAMETER = 6
};

/** What the two sides agreed on, for one direction; all zero before ICResp. */
struct snic_nvmetcp_params {
    uint8_t digests; /**< SNIC_NVMETCP_HDGST, _DDGST                                          */
    uint8_t pda;     /**< of the receiver (CPDA, HPDA): data begin at a multiple of 4 (pda + 1) */
    uint8_t to_host; /**< 1: PDUs of the controller, 0: of the host                            */
    uint8_t pad;     /**< 0                                                                    */
};

/** A PDU's header. Fields that its type does not have are 0. */
struct snic_nvmetcp_pdu {
    uint8_t type;       /**< enum snic_nvmetcp_type                                            */
    uint8_t flags;      /**< decode: as received; encode: LAST and SUCCESS, the rest is made    */
    uint8_t hlen;       /**< out                                                               */
    uint8_t pdo;        /**< out; 0 without data                                                */
    uint32_t plen;      /**< out                                                               */
    uint32_t head_size; /**< out: of the header with its digest; on SNIC_EAGAIN what is needed  */
    uint32_t pad_size;  /**< out: before the data                                              */
    uint32_t data_size; /**< in-capsule data or data; of a TermReq the header that it shows     */
    uint16_t pfv;       /**< ICReq, ICResp                                                     */
    uint8_t pda;        /**< HPDA, CPDA                                                        */
    uint8_t digests;    /**< SNIC_NVMETCP_HDGST, _DDGST                                        */
    uint32_t limit;     /**< MAXR2T (0: one), MAXH2CDATA                                       */
    uint16_t cccid;     /**< data, R2T                                                         */
    uint16_t ttag;      /**< H2CData, R2T                                                      */
    uint32_t offset;    /**< DATAO, R2TO                                                       */
    uint32_t length;    /**< DATAL, R2TL                                                       */
    uint16_t fes;       /**< TermReq; with SNIC_EPROTO what a TermReq in response has to name   */
    uint16_t pad;       /**< 0                                                                 */
    uint32_t fei;       /**< likewise                                                          */
    const unsigned char *capsule; /**< the 64 bytes of an SQE, or 16 of a CQE; decode: within the
                                       input                                                   */
};

/**
 * Decode the header at @p data, of which @p size bytes are there. Digests of headers are checked.
 * [any]
 * @return 0; SNIC_EAGAIN fewer than out->head_size bytes; SNIC_EPROTO a violation, out->fes and
 *         out->fei name it; SNIC_ECONNRESET a malformed TermReq, to be answered by closing
 */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_decode(struct snic_nvmetcp_pdu *out,
                                                const struct snic_nvmetcp_params *p,
                                                const void *data, size_t size)
    SNIC_NONNULL(1, 2, 3);
/**
 * Encode the header of @p pdu with its digest at @p out, of at least SNIC_NVMETCP_HEADER_MAX bytes;
 * then follow pad_size zeros, data_size bytes of data and, if agreed, the digest of those. Sets the
 * fields marked out. [any]
 * @return bytes of the header and its digest; SNIC_EINVAL no such type, the other direction, or
 *         data of a type that has none
 */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_encode(void *out, struct snic_nvmetcp_pdu *pdu,
                                                const struct snic_nvmetcp_params *p)
    SNIC_NONNULL(1, 2, 3);

/* ---- The target ---- */

/** Zero it, set opts_size; another field that is 0 takes its default. */
struct snic_nvmetcp_target_opts {
    uint32_t opts_size;
    uint32_t flags;          /**< 0                                                            */
    uint32_t digests;        /**< that it refuses (SNIC_NVMETCP_HDGST, _DDGST); default none    */
    uint32_t cpda;           /**< alignment of data from the host, 0..31; default 0: 4 bytes    */
    uint32_t depth_max;      /**< commands, 2..SNIC_NVMETCP_DEPTH_MAX; default 128              */
    uint32_t inline_max;     /**< in-capsule data, multiple of 16, 1024..SNIC_NVMETCP_INLINE_MAX;
                                  default 8192, which an admin queue has to offer               */
    uint32_t inline_buffers; /**< commands with in-capsule data at a time, 1..depth_max; default
                                  16 or depth_max                                               */
    uint32_t grants_max;     /**< grants at a time, 1..SNIC_NVMETCP_DEPTH_MAX; default depth_max */
    uint32_t r2ts_max;       /**< grants of a command at a time, 1..SNIC_NVMETCP_R2TS_MAX; the
                                  host's MAXR2T limits it as well; default 4                    */
    uint32_t h2c_max;        /**< MAXH2CDATA, multiple of 4, 4096..SNIC_NVMETCP_TRANSFER_MAX;
                                  default 128 KiB                                               */
    uint32_t transfer_max;   /**< data of a command (MDTS), 4096..SNIC_NVMETCP_TRANSFER_MAX;
                                  default 1 MiB                                                 */
    uint32_t pad;            /**< 0                                                            */
    uint64_t greet_ns;       /**< until Connect is accepted; default 10 s                       */
    uint64_t data_ns;        /**< from a grant to its data; default 10 s                        */
    uint64_t close_ns;       /**< from a TermReq to the end; default 30 s, as the specification
                                  has it                                                        */
};

enum snic_nvmetcp_event_type {
    SNIC_NVMETCP_CONNECT = 1, /**< fabrics command Connect                                      */
    SNIC_NVMETCP_FABRICS,     /**< another fabrics command (opcode 7Fh)                         */
    SNIC_NVMETCP_COMMAND,     /**< any other command                                            */
    SNIC_NVMETCP_DATA_IN,     /**< a grant's data have arrived, or were damaged                 */
    SNIC_NVMETCP_SENT,        /**< a completion's data were sent                                */
    SNIC_NVMETCP_DONE,        /**< host: a command is complete                                  */
    SNIC_NVMETCP_READY,       /**< host: ICResp was received                                    */
    SNIC_NVMETCP_TERM,        /**< a fatal error was found; only ENDED and SENT follow          */
    SNIC_NVMETCP_ENDED        /**< close the socket; nothing follows                            */
};

struct snic_nvmetcp_event {
    uint32_t type;            /**< enum snic_nvmetcp_event_type                                 */
    uint32_t command;         /**< target: handle of the command                                */
    const unsigned char *sqe; /**< commands: 64 bytes, valid until complete                     */
    void *data;               /**< commands: the in-capsule data, valid until complete, or NULL */
    uint32_t data_size;       /**< bytes at data; DATA_IN: bytes of the grant                   */
    uint32_t wanted;          /**< commands: bytes that have to be granted                      */
    uint32_t to_host;         /**< commands: bytes that the host expects                        */
    uint32_t offset;          /**< DATA_IN: of the grant, within the command's data             */
    uint32_t all;             /**< DATA_IN: 1, the command's data are complete                  */
    int32_t reason;           /**< DATA_IN: 0 or SNIC_ECORRUPT. TERM, ENDED: SNIC_EPROTO a
                                   violation; SNIC_EOVERFLOW of the queue's size;
                                   SNIC_ECONNRESET the peer ended it; SNIC_ETIMEDOUT; or what the
                                   owner gave                                                   */
    uint16_t fes;             /**< TERM, ENDED: of the TermReq, sent or received; 0: none       */
    uint16_t from_peer;       /**< TERM, ENDED: 1, it was received                              */
    uint32_t fei;
    uint64_t cookie;                  /**< SENT: the completion's                               */
    struct snic_nvmetcp_command *req; /**< DONE                                                 */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmetcp_target_opts_wrong(const struct snic_nvmetcp_target_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_nvmetcp_target_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_nvmetcp_target_memsize(const struct snic_nvmetcp_target_opts *o)
    SNIC_NONNULL(1);
/**
 * A connection was accepted: build its engine in @p mem, which stays the caller's, aligned to
 * SNIC_NVMETCP_ALIGN. @p out is untouched on failure; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_target_init(struct snic_nvmetcp_target **out, void *mem,
                                                     size_t size,
                                                     const struct snic_nvmetcp_target_opts *o,
                                                     uint64_t now_ns) SNIC_NONNULL(1, 2, 4);
/** The memory given to init, in any state. [owner] */
SNIC_API void *snic_nvmetcp_target_fini(struct snic_nvmetcp_target *t) SNIC_NONNULL(1);

/**
 * The next bytes of the stream, cut anywhere; @p used of them are consumed, all unless the
 * connection is paused. No reference to @p data is kept. After TERM they are dropped. [owner]
 * @return 0; SNIC_ENOTCONN it has ended
 */
SNIC_API int snic_nvmetcp_target_recv(struct snic_nvmetcp_target *t, const void *data, size_t size,
                                      size_t *used, uint64_t now_ns) SNIC_NONNULL(1, 4);
/**
 * Where the next bytes of the stream belong: up to @p max pieces, borrowed until the next call.
 * [owner]
 * @return pieces; 0: a header is next, or the bytes are dropped: call recv
 */
SNIC_API SNIC_NODISCARD uint32_t snic_nvmetcp_target_want(const struct snic_nvmetcp_target *t,
                                                          struct snic_iov *iov, uint32_t max)
    SNIC_NONNULL(1, 2);
/** The first @p size bytes of what want returned have been received there. [owner] */
SNIC_API void snic_nvmetcp_target_filled(struct snic_nvmetcp_target *t, size_t size,
                                         uint64_t now_ns) SNIC_NONNULL(1);
/** 1: the socket is not to be read any further, for now; else 0. [owner] */
SNIC_API int snic_nvmetcp_target_paused(const struct snic_nvmetcp_target *t) SNIC_NONNULL(1);

/**
 * The next bytes to be written: up to @p max pieces, @p bytes in all, valid until they are reported
 * as sent. The next call returns those that follow. [owner]
 * @return pieces; 0: none
 */
SNIC_API SNIC_NODISCARD uint32_t snic_nvmetcp_target_output(struct snic_nvmetcp_target *t,
                                                            struct snic_iov *iov, uint32_t max,
                                                            size_t *bytes) SNIC_NONNULL(1, 2, 4);
/** @p bytes of what output returned, in its order, were written. [owner] */
SNIC_API void snic_nvmetcp_target_sent(struct snic_nvmetcp_target *t, size_t bytes, uint64_t now_ns)
    SNIC_NONNULL(1);
/** The next output begins behind what was reported as sent: the socket took no more. [owner] */
SNIC_API void snic_nvmetcp_target_rewind(struct snic_nvmetcp_target *t) SNIC_NONNULL(1);

/** The next event, in the order in which they arose, but TERM and ENDED first. [owner]
 * @return 1 @p out; 0 none */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_target_poll(struct snic_nvmetcp_target *t,
                                                     struct snic_nvmetcp_event *out,
                                                     uint64_t now_ns) SNIC_NONNULL(1, 2);
/** When to poll if nothing else happens; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_nvmetcp_target_deadline_ns(const struct snic_nvmetcp_target *t)
    SNIC_NONNULL(1);

/** Of snic_nvmetcp_queue. */
#define SNIC_NVMETCP_NO_SQ_FLOW (1u << 0) /**< as the host's Connect requests */
#define SNIC_NVMETCP_CREDIT (1u << 1)     /**< the host asked for credit in its completions       */

/** Zero it, set opts_size. */
struct snic_nvmetcp_queue {
    uint32_t opts_size;
    uint32_t flags;      /**< SNIC_NVMETCP_NO_SQ_FLOW, _CREDIT                                  */
    uint32_t entries;    /**< SQSIZE + 1, 2..depth_max                                          */
    uint32_t inline_max; /**< in-capsule data from now on, 0..inline_max of the options         */
};
/**
 * The owner accepts Connect: call it before its completion, with success. Again, later: to change
 * SNIC_NVMETCP_CREDIT and nothing else. [owner]
 * @return 0; SNIC_EINVAL @p q; SNIC_ENOTCONN it is terminating
 */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_target_connected(struct snic_nvmetcp_target *t,
                                                          const struct snic_nvmetcp_queue *q)
    SNIC_NONNULL(1, 2);
/**
 * Lend buffers for the next @p size bytes of a write, and request them (R2T). The pieces and their
 * list are borrowed until DATA_IN, TERM or ENDED. [owner]
 * @return 0; SNIC_ENOENT no such command; SNIC_EINVAL @p size is 0, more than is still wanted or
 *         other than the pieces'; SNIC_EAGAIN as many grants as are permitted, of this command or
 * in all: after the next DATA_IN; SNIC_ENOTCONN it is terminating
 */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_target_grant(struct snic_nvmetcp_target *t,
                                                      uint32_t command, const struct snic_iov *iov,
                                                      uint32_t iov_count, uint32_t size,
                                                      uint64_t now_ns) SNIC_NONNULL(1, 3);

/** How a command ended. Zero it. */
struct snic_nvmetcp_completion {
    uint64_t result; /**< dwords 0 and 1 of the completion                                      */
    uint32_t credit; /**< with SNIC_NVMETCP_CREDIT, but not for fabrics: dword 1                */
    uint16_t status; /**< status field without the phase: SC, SCT << 8, DNR 0x4000             */
    uint16_t pad;    /**< 0                                                                     */
    const struct snic_iov *iov; /**< data to the host; borrowed until SENT, TERM or ENDED       */
    uint32_t iov_count;
    uint32_t size;   /**< bytes of data, at most what the host expects                          */
    uint64_t cookie; /**< of SENT                                                               */
};
/**
 * Queue the response, and data before it (its SQHD counts the queue's responses, or is FFFFh if SQ
 * flow control is disabled); the handle is invalid from now on. SENT follows if there
 * are data. The completion is left out (SUCCESS) where it would hold nothing but success: SQ flow
 * control is disabled, no credit is sent and the result is 0. [owner]
 * @return 0; SNIC_ENOENT no such command; SNIC_EINVAL @p c has more data than the host expects, or
 *         other than the pieces'; SNIC_EBUSY grants are open: after their DATA_IN; SNIC_ENOTCONN it
 *         is terminating: the command is forgotten, nothing is sent or borrowed
 */
SNIC_API int snic_nvmetcp_target_complete(struct snic_nvmetcp_target *t, uint32_t command,
                                          const struct snic_nvmetcp_completion *c, uint64_t now_ns)
    SNIC_NONNULL(1, 3);

/**
 * End the connection by the owner's wish: at once, or, with @p drain, when what is queued was sent.
 * ENDED follows with @p reason. No effect after ENDED. [owner]
 */
SNIC_API void snic_nvmetcp_target_end(struct snic_nvmetcp_target *t, int reason, int drain,
                                      uint64_t now_ns) SNIC_NONNULL(1);
/** The peer or the network has ended it: ENDED follows. [owner] */
SNIC_API void snic_nvmetcp_target_closed(struct snic_nvmetcp_target *t, uint64_t now_ns)
    SNIC_NONNULL(1);

/** What both halves count. */
struct snic_nvmetcp_stats {
    uint64_t bytes_in;
    uint64_t bytes_out; /**< reported as sent                                                  */
    uint64_t pdus_in;   /**< complete                                                          */
    uint64_t pdus_out;  /**< sent; a response behind data is not counted apart                 */
    uint64_t commands;
    uint64_t responses; /**< queued or received                                                */
    uint64_t refused;   /**< target: commands answered by the engine                           */
    uint64_t r2ts;
    uint64_t bad_data;  /**< data digest errors                                                */
    uint64_t successes; /**< SUCCESS instead of a response                                     */
    uint64_t pauses;
    uint32_t active;     /**< commands that have a slot                                         */
    uint32_t active_max; /**< the most so far                                                   */
    uint32_t grants;     /**< open                                                              */
    uint32_t inlines;    /**< in-capsule buffers in use                                         */
    uint32_t queued;     /**< PDUs to be sent                                                   */
    uint16_t digests;    /**< agreed                                                            */
    uint16_t pad;
};
/** Copy the counters. [owner] */
SNIC_API void snic_nvmetcp_target_stats(const struct snic_nvmetcp_target *t,
                                        struct snic_nvmetcp_stats *out) SNIC_NONNULL(1, 2);
/** Every structural invariant. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_nvmetcp_target_check(const struct snic_nvmetcp_target *t) SNIC_NONNULL(1);

/* ---- The host ---- */

/**
 * Driven as the target is. ICReq is the first output; when READY was reported commands may be
 * submitted, Connect first. A command is DONE when its response has arrived and its bytes are no
 * longer needed by output.
 */

/** Zero it, set opts_size; another field that is 0 takes its default. */
struct snic_nvmetcp_host_opts {
    uint32_t opts_size;
    uint32_t flags;        /**< SNIC_NVMETCP_NO_SQ_FLOW: as Connect asks for it                  */
    uint32_t digests;      /**< that it asks for; default none                                   */
    uint32_t hpda;         /**< alignment of data from the controller, 0..31; default 0           */
    uint32_t entries;      /**< of the queue: one command less at a time; 2..SNIC_NVMETCP_DEPTH_MAX;
                                default 128                                                      */
    uint32_t r2ts_max;     /**< of a command at a time (MAXR2T), 1..SNIC_NVMETCP_R2TS_MAX;
                                default 1                                                        */
    uint32_t transfer_max; /**< data of a command, 4096..SNIC_NVMETCP_TRANSFER_MAX; default 1 MiB */
    uint32_t pad;          /**< 0                                                                */
    uint64_t greet_ns;     /**< until ICResp; default 10 s                                       */
    uint64_t close_ns;     /**< from a TermReq to the end; default 30 s                          */
};

/** A command; borrowed from submit until DONE or ENDED. */
struct snic_nvmetcp_command {
    struct snic_node node; /**< the engine's                                                    */
    unsigned char
        sqe[SNIC_NVMETCP_SQE_BYTES]; /**< in: CID, PSDT and SGL1 are filled in by submit */
    const struct snic_iov *iov; /**< data, in the direction of the opcode                        */
    uint32_t iov_count;
    uint32_t size;     /**< bytes of data                                                        */
    uint32_t received; /**< out: bytes of data from the controller                               */
    uint16_t status;   /**< out: status field without the phase                                  */
    uint16_t cid;      /**< out, with submit                                                     */
    int32_t error;   /**< out: 0 the controller responded (see status); SNIC_ECORRUPT a data digest
                          was wrong (status is Transient Transport Error); SNIC_EPROTO success
                          without all data; SNIC_ECANCELED the connection ended, before the command
                          was answered or its bytes were reported as sent: outcome unknown, and
                          the socket may use the pieces until it is closed */
    uint32_t state;  /**< the engine's                                                         */
    uint64_t result; /**< out: dwords 0 and 1; dword 1 has the credit of a target that grants it */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmetcp_host_opts_wrong(const struct snic_nvmetcp_host_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_nvmetcp_host_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_nvmetcp_host_memsize(const struct snic_nvmetcp_host_opts *o) SNIC_NONNULL(1);
/**
 * A connection was established: build its engine in @p mem, which stays the caller's, aligned to
 * SNIC_NVMETCP_ALIGN. @p out is untouched on failure; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_host_init(struct snic_nvmetcp_host **out, void *mem,
                                                   size_t size,
                                                   const struct snic_nvmetcp_host_opts *o,
                                                   uint64_t now_ns) SNIC_NONNULL(1, 2, 4);
/** The memory given to init; asserts that no command is inside. [owner] */
SNIC_API void *snic_nvmetcp_host_fini(struct snic_nvmetcp_host *h) SNIC_NONNULL(1);
/**
 * Data of up to @p bytes go to the controller within the capsule from now on; 0 at first. Admin
 * queues: 8192; I/O queues: 16 IOCCSZ - 64. [owner]
 */
SNIC_API void snic_nvmetcp_host_inline(struct snic_nvmetcp_host *h, uint32_t bytes) SNIC_NONNULL(1);
/**
 * Send a command. [owner]
 * @return 0; SNIC_EINVAL data without direction (opcode, of fabrics the command type), size other
 *         than the pieces' or beyond transfer_max; SNIC_EAGAIN the queue is full, or READY was not
 *         reported yet; SNIC_ENOTCONN it is terminating or has ended
 */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_host_submit(struct snic_nvmetcp_host *h,
                                                     struct snic_nvmetcp_command *c,
                                                     uint64_t now_ns) SNIC_NONNULL(1, 2);
/**
 * As snic_nvmetcp_target_recv(): fewer bytes are consumed while the connection is paused, because
 * the controller requests data faster than the socket reports what was sent. [owner]
 * @return 0; SNIC_ENOTCONN it has ended
 */
SNIC_API int snic_nvmetcp_host_recv(struct snic_nvmetcp_host *h, const void *data, size_t size,
                                    size_t *used, uint64_t now_ns) SNIC_NONNULL(1, 4);
/** 1: the socket is not to be read any further, until sent has been called; else 0. [owner] */
SNIC_API int snic_nvmetcp_host_paused(const struct snic_nvmetcp_host *h) SNIC_NONNULL(1);
/** As snic_nvmetcp_target_want(). [owner] @return pieces; 0: call recv */
SNIC_API SNIC_NODISCARD uint32_t snic_nvmetcp_host_want(const struct snic_nvmetcp_host *h,
                                                        struct snic_iov *iov, uint32_t max)
    SNIC_NONNULL(1, 2);
/** The first @p size bytes of what want returned have been received there. [owner] */
SNIC_API void snic_nvmetcp_host_filled(struct snic_nvmetcp_host *h, size_t size, uint64_t now_ns)
    SNIC_NONNULL(1);
/** As snic_nvmetcp_target_output(). [owner] @return pieces; 0: none */
SNIC_API SNIC_NODISCARD uint32_t snic_nvmetcp_host_output(struct snic_nvmetcp_host *h,
                                                          struct snic_iov *iov, uint32_t max,
                                                          size_t *bytes) SNIC_NONNULL(1, 2, 4);
/** @p bytes of what output returned, in its order, were written. [owner] */
SNIC_API void snic_nvmetcp_host_sent(struct snic_nvmetcp_host *h, size_t bytes, uint64_t now_ns)
    SNIC_NONNULL(1);
/** The next output begins behind what was reported as sent: the socket took no more. [owner] */
SNIC_API void snic_nvmetcp_host_rewind(struct snic_nvmetcp_host *h) SNIC_NONNULL(1);
/** The next event: READY, DONE, TERM, ENDED. ENDED is last, after DONE of all commands.
 * [owner] @return 1 @p out; 0 none */
SNIC_API SNIC_NODISCARD int snic_nvmetcp_host_poll(struct snic_nvmetcp_host *h,
                                                   struct snic_nvmetcp_event *out, uint64_t now_ns)
    SNIC_NONNULL(1, 2);
/** When to poll if nothing else happens; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_nvmetcp_host_deadline_ns(const struct snic_nvmetcp_host *h) SNIC_NONNULL(1);
/** End the connection by the owner's wish, at once; ENDED follows with @p reason. [owner] */
SNIC_API void snic_nvmetcp_host_end(struct snic_nvmetcp_host *h, int reason, uint64_t now_ns)
    SNIC_NONNULL(1);
/** The peer or the network has ended it: ENDED follows. [owner] */
SNIC_API void snic_nvmetcp_host_closed(struct snic_nvmetcp_host *h, uint64_t now_ns)
    SNIC_NONNULL(1);
/** Copy the counters. [owner] */
SNIC_API void snic_nvmetcp_host_stats(const struct snic_nvmetcp_host *h,
                                      struct snic_nvmetcp_stats *out) SNIC_NONNULL(1, 2);
/** Every structural invariant. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_nvmetcp_host_check(const struct snic_nvmetcp_host *h) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMETCP_H */
