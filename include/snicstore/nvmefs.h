/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmefs.h
 * nvme-fs: file requests over NVMe queue pairs (DPC, section 3.2), as two pure engines: the host's
 * half of a queue pair, and the DPU's half of all queue pairs of a link.
 *
 * Depends on  snicstore/base.h, snicstore/fsop.h, snicstore/nvme.h, snicstore/nvmefs_ops.h.
 * Memory      memsize() bytes of the caller's for each half, then nothing is allocated; a queue
 *             pair's own memory lies in a region that the DPU can reach. Requests are the caller's,
 *             borrowed from submit until reap returns them, with all they name.
 * Threads     One owner for each host half, one for the DPU half. The two halves meet in the
 *             queue's memory only.
 * Progress    No call blocks, loops over more than a queue, or reads a clock.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       Each half treats the other as hostile. What is read from shared memory is copied
 *             once, checked, then used. A malformed command gets a status, or its queue fails; a
 *             malformed completion breaks the host's half (SNIC_EPROTO) until reset, which returns
 *             all requests.
 *
 * nvmefslink.h joins both halves to dma.h and a loop, fsdispatch.h the DPU's to a file system; that
 * is what most users want.
 *
 * Submission queue entry, 64 bytes, 16 little-endian dwords
 *     Dword0   7:0   opcode: 0xA3 = bidirectional 11b, function 01000b, vendor 1b; or 0x08, Abort
 *              9:8   0
 *              10    request type: 0 standalone (KVFS), 1 distributed (DFS client)
 *              11    lap (ours, reserved in NVMe): 1 in the first round of the queue, then 0, 1, ..
 *              13:12 0
 *              14    write structures: 0 PRP, 1 SGL
 *              15    read structures: 0 PRP, 1 SGL
 *              31:16 command id, less than the queue's depth, unlike that of any unfinished command
 *     Dword1   0
 *     Dword2-5 PRP Write: PRP1 (Dword2-3), PRP2 (4-5); or one SGL descriptor
 *     Dword6-9 PRP Read
 *     Dword10  Write_len; Abort: 15:0 queue, 31:16 the id of the command to be aborted
 *     Dword11  Read_len
 *     Dword12  0
 *     Dword13  15:0 RH_len, 31:16 WH_len: the headers' part of Read_len and Write_len
 *     Dword14  0
 *     Dword15  0
 *
 * Completion queue entry, 16 bytes
 *     Dword0-1 result: a count, an offset, 0 or a negative SNIC_E*; Abort: 0 found, 1 not found
 *     Dword2   15:0 submission entries taken so far, modulo 2^16; 31:16 queue
 *     Dword3   15:0 command id; 16 phase: 1 in the first round, then 0, 1, ...; 31:17 status
 *     The host leaves INT64_MIN in Dword0-1 of each entry that is free, and no result has this
 *     value: so an entry is complete only when both of its words are there, in any order.
 *
 * An address is 63:48 a window, 47:0 an offset in it. A window is a memory region that the host has
 * registered with dma.h and announced. PRP entries are addresses of pages of 4,096 bytes: the first
 * may begin inside a page, the others at its start. With two pages PRP2 is the second, with more it
 * is the address of the list of all but the first: 8-aligned, and in one page (no chains: the list
 * ends with the page, 512 entries). An SGL descriptor is address (8), length (4), zeros (3), type
 * (1): 0x00 data block, 0x30 last segment, whose data blocks lie at address.
 *
 * How a command moves. Each line is one operation of the DPU's DMA; an 8 KiB write has four of
 * them:
 *     1 SQE       one read of as many entries as there may be
 *     2 pointers  PRP and SGL lists and the header; what is adjacent in memory (the host half lays
 *                 it out so: read list, write list, header) is one read
 *     3 data      one read per run of adjacent pages; after it the file system executes the
 *                 request. Data out is written likewise
 *     4 CQE       behind the data (FENCE); completions that are ready together are one write
 *
 * Doorbells cost a system call and are left out where they can be. The DPU writes to the queue's
 * sq_event whether the host has to ring for new entries (SNIC_NVMEFS_RING_ALWAYS, so it begins) or
 * not, because it looks by itself. There is one bell per queue and direction. The host's means
 * "look, and ring at the next completion"; the DPU's means "there is one". So a host that polls is
 * not rung, and the DPU need not read a flag to know.
 */
#ifndef SNIC_NVMEFS_H
#define SNIC_NVMEFS_H

#include "snicstore/base.h"
#include "snicstore/fsop.h"
#include "snicstore/nvme.h"
#include "snicstore/nvmefs_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_NVMEFS_ALIGN SNIC_CACHELINE
#define SNIC_NVMEFS_VERSION 1U
#define SNIC_NVMEFS_SQE_BYTES SNIC_NVME_SQE_BYTES
#define SNIC_NVMEFS_CQE_BYTES SNIC_NVME_CQE_BYTES
#define SNIC_NVMEFS_PAGE 4096U
#define SNIC_NVMEFS_OPCODE 0xA3U
#define SNIC_NVMEFS_OPCODE_ABORT SNIC_NVME_ADMIN_ABORT
#define SNIC_NVMEFS_QUEUES_MAX 32U
#define SNIC_NVMEFS_DEPTH_MAX 4096U
#define SNIC_NVMEFS_WINDOWS_MAX 64U
#define SNIC_NVMEFS_DATA_MAX (1U << 20) /**< bytes of data in or out of one command           */
#define SNIC_NVMEFS_PIECES_MAX 16U      /**< chunks of the DPU's that one command may take    */
#define SNIC_NVMEFS_STEP_OPS 24U
#define SNIC_NVMEFS_LIST_MAX 257U /**< PRP entries of 1 MiB at any offset                     */

/** Address of @p offset (< 2^48) in window @p window. */
#define SNIC_NVMEFS_ADDRESS(window, offset) (((uint64_t)(window) << 48) | (uint64_t)(offset))

/* Status: type << 8 | code, as NVMe has them. OPCODE: or an unknown operation; CID: in use;
 * TRANSFER: DMA refused, memory is not registered, and the operation may have taken place; ABORTED:
 * before it began; DELETED: with its queue, done or not done. */
#define SNIC_NVMEFS_STATUS_OK SNIC_NVME_SC_SUCCESS
#define SNIC_NVMEFS_STATUS_OPCODE SNIC_NVME_SC_INVALID_OPCODE
#define SNIC_NVMEFS_STATUS_FIELD SNIC_NVME_SC_INVALID_FIELD
#define SNIC_NVMEFS_STATUS_CID SNIC_NVME_SC_CID_CONFLICT
#define SNIC_NVMEFS_STATUS_TRANSFER SNIC_NVME_SC_DATA_TRANSFER
#define SNIC_NVMEFS_STATUS_ABORTED SNIC_NVME_SC_ABORT_REQUESTED
#define SNIC_NVMEFS_STATUS_DELETED SNIC_NVME_SC_SQ_DELETED
#define SNIC_NVMEFS_STATUS_SGL_COUNT SNIC_NVME_SC_SGL_COUNT
#define SNIC_NVMEFS_STATUS_SGL_LENGTH SNIC_NVME_SC_SGL_LENGTH
#define SNIC_NVMEFS_STATUS_SGL_TYPE SNIC_NVME_SC_SGL_TYPE
#define SNIC_NVMEFS_STATUS_PRP SNIC_NVME_SC_PRP_OFFSET
#define SNIC_NVMEFS_STATUS_NO_SERVICE 0x701U /**< this request type is not served          */
#define SNIC_NVMEFS_STATUS_HEADER 0x702U     /**< the request header is malformed         */
#define SNIC_NVMEFS_STATUS_VERSION 0x703U    /**< it is of another version                 */
#define SNIC_NVMEFS_STATUS_ADDRESS 0x704U    /**< an address outside its window            */

/** A status as an error. @return 0 for OK, SNIC_E* for all others [any] */
SNIC_API int snic_nvmefs_status_error(uint32_t status);

/* ---- Requests ---- */

/** A piece of registered memory: an address as above. */
struct snic_nvmefs_extent {
    uint64_t address;
    uint32_t size;
    uint32_t reserved; /**< must be 0                                                         */
};

/**
 * A request, at both ends. Zero it, set the operation's fields (fsop.h). The host's data are either
 * op.iov, private memory that the engine copies to or from the queue's, or extents, registered
 * memory that stays where it is until the request is done (zero copy). The target of SYMLINK is
 * data, not name2.
 */
struct snic_nvmefs_req {
    struct snic_fsop op;
    const struct snic_nvmefs_extent *extents;
    uint32_t extent_count;
    uint8_t distributed; /**< Dword0 bit 10: 0 the standalone file system, 1 the DFS client     */
    uint8_t reserved;
    uint16_t cid;       /**< the engine's                                                     */
    uint32_t status;    /**< out: SNIC_NVMEFS_STATUS_*, of the transport                         */
    uint32_t data_size; /**< out: bytes of data out received                                  */
};

/* ---- Entries ---- */

/** A submission queue entry. */
struct snic_nvmefs_sqe {
    uint8_t opcode;
    uint8_t distributed;
    uint8_t lap;
    uint8_t write_sgl;
    uint8_t read_sgl;
    uint8_t reserved;
    uint16_t cid;
    uint64_t write[2]; /**< PRP1, PRP2, or the descriptor                                     */
    uint64_t read[2];
    uint32_t write_len; /**< Abort: 15:0 queue, 31:16 command id                              */
    uint32_t read_len;
    uint16_t rh_len;
    uint16_t wh_len;
};

/** A completion queue entry. */
struct snic_nvmefs_cqe {
    int64_t result;
    uint16_t sq_head;
    uint16_t queue;
    uint16_t cid;
    uint16_t status;
    uint8_t phase;
};

/** To 64 bytes. [any] */
SNIC_API void snic_nvmefs_sqe_encode(void *out, const struct snic_nvmefs_sqe *s) SNIC_NONNULL(1, 2);
/** From 64 bytes. @return SNIC_NVMEFS_STATUS_OK, OPCODE or FIELD; cid and lap are set in any case
 *  [any] */
SNIC_API SNIC_NODISCARD uint32_t snic_nvmefs_sqe_decode(struct snic_nvmefs_sqe *s, const void *in)
    SNIC_NONNULL(1, 2);
/** To 16 bytes. [any] */
SNIC_API void snic_nvmefs_cqe_encode(void *out, const struct snic_nvmefs_cqe *c) SNIC_NONNULL(1, 2);
/** From 16 bytes. [any] */
SNIC_API void snic_nvmefs_cqe_decode(struct snic_nvmefs_cqe *c, const void *in) SNIC_NONNULL(1, 2);
/** An SGL descriptor to two words: data block, or (@p segment) last segment. [any] */
SNIC_API void snic_nvmefs_sgl_encode(uint64_t out[2], uint64_t address, uint32_t length,
                                     int segment) SNIC_NONNULL(1);
/**
 * PRP entries of @p n pieces, in their order: all but the first begin, all but the last end at
 * a page.
 * @return entries; SNIC_EINVAL not representable by PRPs; SNIC_E2BIG more than @p max [any]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_prp_encode(const struct snic_nvmefs_extent *pieces,
                                                   uint32_t n, uint64_t *out, uint32_t max)
    SNIC_NONNULL(3);

/* ---- Control messages between the two ends, by dma.h's send ---- */

enum snic_nvmefs_ctl_type {
    SNIC_NVMEFS_CTL_WINDOW = 1,  /**< host: window, key, size; size 0: it is removed          */
    SNIC_NVMEFS_CTL_CREATE = 2,  /**< host: the queue pair's header: queue, generation, depth,
                                      addresses                                                */
    SNIC_NVMEFS_CTL_CREATED = 3, /**< DPU: error 0, data_max; or SNIC_E*: it is not            */
    SNIC_NVMEFS_CTL_DELETE = 4,  /**< host: take nothing more, cancel, write nothing more      */
    SNIC_NVMEFS_CTL_DELETED = 5, /**< DPU: the queue's memory is not touched any more          */
    SNIC_NVMEFS_CTL_FAILED = 6   /**< DPU: the queue's memory can not be reached: delete it    */
};

#define SNIC_NVMEFS_CTL_BYTES 80U
#define SNIC_NVMEFS_CTL_MAGIC 0x4653564eU /* "NVSF", little-endian */

struct snic_nvmefs_ctl {
    uint16_t type; /**< enum snic_nvmefs_ctl_type                                              */
    uint16_t queue;
    uint32_t generation; /**< of the queue: answers carry it back                              */
    int32_t error;
    uint32_t depth;
    uint32_t data_max; /**< CREATED: bytes of data that a command may have                     */
    uint16_t window;
    uint16_t reserved; /**< 0                                                                  */
    uint64_t key;
    uint64_t size;
    uint64_t sq; /**< CREATE: addresses; 64-aligned, inside one window                         */
    uint64_t cq;
    uint64_t bells;
};
/** To SNIC_NVMEFS_CTL_BYTES. [any] */
SNIC_API void snic_nvmefs_ctl_encode(void *out, const struct snic_nvmefs_ctl *c) SNIC_NONNULL(1, 2);
/**
 * From such bytes. [any]
 * @return 0; SNIC_ENOENT not a message of nvme-fs (bad magic); SNIC_EVERSION another version;
 *         SNIC_EPROTO malformed
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_ctl_decode(struct snic_nvmefs_ctl *c, const void *in,
                                                   size_t size) SNIC_NONNULL(1, 2);

/* ---- A queue pair's memory ----
 *
 *     0         bells: sq_tail (4 bytes at 0, the host's: entries so far), sq_event (4 at 128, the
 *               DPU's)
 *     4096      SQ, (depth + 1) * 64: entry 0 is written behind the last one, too, so that a read
 *               of two entries at any place sees the next two
 *     at a page CQ, depth * 16
 *     pages     a page per command: answer at 0, lists and the header at the end
 *     data      data_bytes per command, at a page: copies of op.iov
 */
#define SNIC_NVMEFS_OFF_SQ_TAIL 0U
#define SNIC_NVMEFS_OFF_SQ_EVENT 128U
#define SNIC_NVMEFS_RING_ALWAYS 0U
#define SNIC_NVMEFS_RING_NEVER 1U

/* ---- The host's half of one queue pair ---- */

struct snic_nvmefs_host;

/** Zero the struct, then set opts_size. */
struct snic_nvmefs_host_opts {
    uint32_t opts_size;
    uint16_t queue; /**< its number, less than SNIC_NVMEFS_QUEUES_MAX                    */
    uint16_t reserved;
    uint32_t depth;      /**< power of two, 2..4096; default 64; one entry is Abort's          */
    uint32_t data_bytes; /**< for op.iov, per command, multiple of a page; 0: none           */
    uint64_t address;    /**< of the queue's memory; at a page                                */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmefs_host_opts_wrong(const struct snic_nvmefs_host_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_nvmefs_host_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_nvmefs_host_memsize(const struct snic_nvmefs_host_opts *o) SNIC_NONNULL(1);
/** Bytes of the queue's memory, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_nvmefs_queue_bytes(const struct snic_nvmefs_host_opts *o) SNIC_NONNULL(1);
/**
 * Make the host's half of a queue and format its memory; announce it to the DPU with
 * snic_nvmefs_host_create().
 * @param mem        at least snic_nvmefs_host_memsize() bytes, aligned to SNIC_NVMEFS_ALIGN; owned
 *                   until fini
 * @param queue_mem  snic_nvmefs_queue_bytes() bytes, at a page, at opts.address for the DPU; owned
 *                   until fini
 * @param o          copied
 * @return 0; SNIC_EINVAL an option (snic_nvmefs_host_opts_wrong()) or an alignment; SNIC_ENOSPC
 *         @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_host_init(struct snic_nvmefs_host **out, void *mem,
                                                  size_t size, void *queue_mem,
                                                  const struct snic_nvmefs_host_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/** End; asserts that no request is outstanding. @return mem of init [owner] */
SNIC_API void *snic_nvmefs_host_fini(struct snic_nvmefs_host *h) SNIC_NONNULL(1);
/** The CREATE message of this queue. [owner] */
SNIC_API void snic_nvmefs_host_create(const struct snic_nvmefs_host *h, struct snic_nvmefs_ctl *out)
    SNIC_NONNULL(1, 2);
/**
 * Put a request into the queue. A polling DPU sees it at once; call snic_nvmefs_host_kick() after
 * one or several. The request is borrowed until reap returns it, or not at all on failure. [owner]
 * @return 0; SNIC_EAGAIN the queue is full; SNIC_EINVAL kind, or a flag, a name or data that the
 *         operation does not have, or both iov and extents, or `distributed` above 1;
 *         SNIC_ENAMETOOLONG a name; SNIC_E2BIG groups; SNIC_EMSGSIZE header or data too long, or
 *         too many pieces; SNIC_EPROTO the queue is broken until reset
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_host_submit(struct snic_nvmefs_host *h,
                                                    struct snic_nvmefs_req *req) SNIC_NONNULL(1, 2);
/** Publish what was submitted. @return 1: ring the DPU's bell of this queue now; 0: no need [owner]
 */
SNIC_API int snic_nvmefs_host_kick(struct snic_nvmefs_host *h) SNIC_NONNULL(1);
/**
 * The next finished request, its op.result, status and data_size set; NULL: none. Call kick
 * afterwards: an Abort that waited for room may have been submitted. [owner]
 */
SNIC_API struct snic_nvmefs_req *snic_nvmefs_host_reap(struct snic_nvmefs_host *h) SNIC_NONNULL(1);
/**
 * Abort an outstanding request. One that waits for a lock ends with SNIC_EINTR, one that has not
 * begun with status ABORTED, others as without it. Then kick.
 * @return 0; SNIC_ENOENT it is not outstanding [owner]
 */
SNIC_API int snic_nvmefs_host_abort(struct snic_nvmefs_host *h, struct snic_nvmefs_req *req)
    SNIC_NONNULL(1, 2);
/**
 * Before a sleep.
 * @return 1: ring the DPU's bell first (it rings back if it has completed anything since; reaping
 *         once more may save that wake-up); 0: sleep, the DPU will ring, or nothing is outstanding
 *         [owner]
 */
SNIC_API int snic_nvmefs_host_sleep(struct snic_nvmefs_host *h) SNIC_NONNULL(1);
/** The DPU rang the host's bell of this queue. [owner] */
SNIC_API void snic_nvmefs_host_belled(struct snic_nvmefs_host *h) SNIC_NONNULL(1);
/**
 * After the DPU's DELETED, or its death: format the queue anew. Reap returns all outstanding
 * requests with status DELETED and SNIC_EUNKNOWN: executed or not. Then CREATE again. [owner]
 */
SNIC_API void snic_nvmefs_host_reset(struct snic_nvmefs_host *h) SNIC_NONNULL(1);
/** @return 0; SNIC_EPROTO the DPU wrote a malformed completion: reap returns NULL until reset
 *  [owner] */
SNIC_API int snic_nvmefs_host_error(const struct snic_nvmefs_host *h) SNIC_NONNULL(1);
/** Requests submitted and not yet returned by reap. [owner] */
SNIC_API uint32_t snic_nvmefs_host_outstanding(const struct snic_nvmefs_host *h) SNIC_NONNULL(1);

struct snic_nvmefs_host_stats {
    uint64_t submitted;
    uint64_t reaped;
    uint64_t errors; /**< with a status, or a negative result                                */
    uint64_t aborts;
    uint64_t full;   /**< SNIC_EAGAIN                                                        */
    uint64_t kicks;  /**< calls of kick with something new                                   */
    uint64_t bells;  /**< of them, and of sleep, that rang                                   */
    uint64_t halves; /**< entries seen half written                                          */
    uint64_t sgl;    /**< commands with an SGL                                               */
    uint64_t copied; /**< bytes, of op.iov                                                 */
};
/** Counters since init. [owner] */
SNIC_API void snic_nvmefs_host_get_stats(const struct snic_nvmefs_host *h,
                                         struct snic_nvmefs_host_stats *out) SNIC_NONNULL(1, 2);
/** Structural check. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_nvmefs_host_check(const struct snic_nvmefs_host *h) SNIC_NONNULL(1);

/* ---- The DPU's half of all queue pairs of a link ---- */

struct snic_nvmefs_dpu;

/** One DMA operation; kinds and flags are dma.h's. */
struct snic_nvmefs_op {
    uint8_t kind;  /**< 1 read, 2 write                                                        */
    uint8_t flags; /**< 1 ORDERED, 2 FENCE                                                    */
    uint16_t reserved;
    uint32_t length;
    uint64_t key;
    uint64_t offset;
    void *local;
};

/** A batch of operations that is to be carried out as dma.h says. */
struct snic_nvmefs_step {
    struct snic_node node; /**< the engine's, and while lent the carrier's                    */
    uint32_t index;        /**< less than opts.steps: for what the carrier keeps              */
    uint32_t count;
    struct snic_nvmefs_op ops[SNIC_NVMEFS_STEP_OPS];
};

/** A request of a host, for the file system. */
struct snic_nvmefs_cmd {
    struct snic_nvmefs_req req; /**< in: checked, op.iov is the data, in to be read or out to be
                                     filled; out: answer, result                            */
    uint32_t data_size;         /**< bytes of op.iov                                           */
    uint32_t queue;
    uint32_t index; /**< less than queues_max * depth_max                                      */
};

/** Zero the struct, then set opts_size. */
struct snic_nvmefs_dpu_opts {
    uint32_t opts_size;
    uint32_t flags;       /**< SNIC_NVMEFS_DPU_*                                              */
    uint32_t queues_max;  /**< 1..32; default 8                                               */
    uint32_t depth_max;   /**< power of two, 2..4096; default 64; a larger queue is refused    */
    uint32_t chunk_bytes; /**< data buffers, multiple of a page; default 64 KiB. The most data of
                               a command are 16 of them, and 1 MiB                            */
    uint32_t chunks;      /**< default 256, at least 16                                       */
    uint32_t steps;       /**< in flight; default 256, 2..65536                               */
    uint32_t look_max;    /**< entries that one look may read, 1..32; default 8               */
};
#define SNIC_NVMEFS_DPU_ORDERED (1U << 0) /**< reads fetch in ascending order (dma.h's cap)    */
#define SNIC_NVMEFS_DPU_EAGER (1U << 1)   /**< the carrier peeks, and calls tick and sleep        */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_nvmefs_dpu_opts_wrong(const struct snic_nvmefs_dpu_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_nvmefs_dpu_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_nvmefs_dpu_memsize(const struct snic_nvmefs_dpu_opts *o) SNIC_NONNULL(1);
/**
 * @param mem  at least snic_nvmefs_dpu_memsize() bytes, aligned to SNIC_NVMEFS_ALIGN; owned until
 *             fini
 * @param o    copied
 * @return 0; SNIC_EINVAL an option (snic_nvmefs_dpu_opts_wrong()) or the alignment; SNIC_ENOSPC
 *         @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_nvmefs_dpu_init(struct snic_nvmefs_dpu **out, void *mem,
                                                 size_t size, const struct snic_nvmefs_dpu_opts *o)
    SNIC_NONNULL(1, 2, 4);
/** End; asserts that it is idle. @return mem of init [owner] */
SNIC_API void *snic_nvmefs_dpu_fini(struct snic_nvmefs_dpu *d) SNIC_NONNULL(1);
/**
 * A message of the host, borrowed for the call. [owner]
 * @return 0; ignored: SNIC_ENOENT it is not one of nvme-fs, SNIC_EVERSION of another version,
 *         SNIC_EPROTO malformed
 */
SNIC_API int snic_nvmefs_dpu_control(struct snic_nvmefs_dpu *d, const void *msg, size_t size)
    SNIC_NONNULL(1, 2);
/** The next message to the host, SNIC_NVMEFS_CTL_BYTES to @p out. @return 1; 0 none [owner] */
SNIC_API int snic_nvmefs_dpu_poll_control(struct snic_nvmefs_dpu *d, void *out) SNIC_NONNULL(1, 2);
/** The host rang the DPU's bell of queue @p queue. [owner] */
SNIC_API void snic_nvmefs_dpu_bell(struct snic_nvmefs_dpu *d, uint32_t queue) SNIC_NONNULL(1);
/** Where the next entry of a queue will be, for carriers that can see the host's memory. */
struct snic_nvmefs_peek {
    uint64_t key; /**< of the queue's SQ                                                      */
    uint64_t sq;  /**< its offset                                                             */
    uint32_t sq_bytes;
    uint32_t at;  /**< of the next entry's Dword0, from sq on                                  */
    uint32_t lap; /**< Dword0's bit 11 once the entry is written                              */
};
/**
 * Where to poll for the queue's next entry.
 * @return 1: the host does not ring: poll there, and call tick; 0: it rings; SNIC_ENOENT no such
 *         queue is open [owner]
 */
SNIC_API int snic_nvmefs_dpu_peek(const struct snic_nvmefs_dpu *d, uint32_t queue,
                                  struct snic_nvmefs_peek *out) SNIC_NONNULL(1, 3);
/** EAGER: the queue has, or may have, a new entry. [owner] */
SNIC_API void snic_nvmefs_dpu_tick(struct snic_nvmefs_dpu *d, uint32_t queue) SNIC_NONNULL(1);
/** Before a sleep: EAGER queues request a bell. @return 1: there are steps to start; 0: none
 * [owner]
 */
SNIC_API int snic_nvmefs_dpu_sleep(struct snic_nvmefs_dpu *d) SNIC_NONNULL(1);
/** The next step, or NULL. Start it; then snic_nvmefs_dpu_complete(), in any order. [owner] */
SNIC_API struct snic_nvmefs_step *snic_nvmefs_dpu_poll_step(struct snic_nvmefs_dpu *d)
    SNIC_NONNULL(1);
/** A step has ended. @p result: 0, or the first error, and then nothing fenced behind it took
 * effect. [owner] */
SNIC_API void snic_nvmefs_dpu_complete(struct snic_nvmefs_dpu *d, struct snic_nvmefs_step *s,
                                       int result) SNIC_NONNULL(1, 2);
/** The next request for the file system, or NULL. [owner] */
SNIC_API struct snic_nvmefs_cmd *snic_nvmefs_dpu_poll_request(struct snic_nvmefs_dpu *d)
    SNIC_NONNULL(1);
/** The next request that has been polled and was aborted since, or NULL; once each. It still has to
 *  be finished. [owner] */
SNIC_API struct snic_nvmefs_cmd *snic_nvmefs_dpu_poll_cancel(struct snic_nvmefs_dpu *d)
    SNIC_NONNULL(1);
/**
 * A polled request is done. With @p status OK and @p result 0 or more its answer and the first
 * @p result bytes of data out are sent; otherwise the status and @p result alone. [owner]
 */
SNIC_API void snic_nvmefs_dpu_finish(struct snic_nvmefs_dpu *d, struct snic_nvmefs_cmd *c,
                                     uint32_t status, int64_t result) SNIC_NONNULL(1, 2);
/** Bit n: ring the host's bell of queue n now. [owner] */
SNIC_API uint32_t snic_nvmefs_dpu_poll_bells(struct snic_nvmefs_dpu *d) SNIC_NONNULL(1);
/** The host is dead: poll returns no more steps; complete those that were polled. [owner] */
SNIC_API void snic_nvmefs_dpu_detach(struct snic_nvmefs_dpu *d) SNIC_NONNULL(1);
/** @return 1: no step and no request is out, no queue is being deleted; 0 [owner] */
SNIC_API int snic_nvmefs_dpu_idle(const struct snic_nvmefs_dpu *d) SNIC_NONNULL(1);

struct snic_nvmefs_dpu_stats {
    uint64_t commands;
    uint64_t statuses; /**< completions with a status                                       */
    uint64_t aborts;
    uint64_t looks; /**< reads of submission entries                                      */
    uint64_t looks_empty;
    uint64_t arms;          /**< sq_event written: ring                                          */
    uint64_t disarms;       /**< sq_event written: do not                                        */
    uint64_t reads_pointer; /**< DMA operations by purpose                                     */
    uint64_t reads_data;
    uint64_t writes_data;
    uint64_t writes_cqe;
    uint64_t bells;    /**< of the host's, rung                                             */
    uint64_t starved;  /**< commands that waited for chunks                                 */
    uint64_t failures; /**< steps that failed                                               */
};
/** Counters since init. [owner] */
SNIC_API void snic_nvmefs_dpu_get_stats(const struct snic_nvmefs_dpu *d,
                                        struct snic_nvmefs_dpu_stats *out) SNIC_NONNULL(1, 2);
/** Structural check. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_nvmefs_dpu_check(const struct snic_nvmefs_dpu *d) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMEFS_H */
