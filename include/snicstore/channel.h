/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/channel.h
 * The message pipe between a host role and a DPU role: a request ring `up` (host to DPU,
 * many threads send) and a response ring `down` (DPU to host), both in host memory, over one
 * dma link that any number of channels share.
 *
 * Depends on  snicstore/base.h, snicstore/loop.h, snicstore/dma.h, snicstore/ring.h.
 * Memory      The hub lives in caller memory. Everything of a channel (rings, mirrors,
 *             bookkeeping) comes from snic_dma_alloc() at open or accept; nothing after that.
 * Threads     One owner thread: that of the dma handle's loop. Only the snic_channel_up_*
 *             calls run elsewhere, each thread with a sender of its own: [producer].
 * Progress    No call blocks. Events come from the loop, never from inside a call.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       Hostile: the other side may write anything into the rings at any time. Lengths
 *             and cursors are checked, headers are copied once; payload is in place and may
 *             change while it is read. Nonsense ends the channel with SNIC_EPROTO.
 *
 * A message is a *header* (the service's own, <= SNIC_CHANNEL_HEADER_MAX bytes, delivered as a
 * private copy) and a *payload* (any size up to record_max, aligned to payload_align, in place:
 * disk I/O may run out of it or into it). The channel interprets neither.
 *
 * Host                                     DPU
 *   hub_init, channel_open  ── OPEN ──▶     accept event: channel_accept
 *   opened event            ◀─ ACCEPT ─     opened event
 *   up_reserve, up_commit   ── up ring ─▶   message event, in sending order per sender;
 *                                           release in any order, space is freed in order
 *   message event, release  ◀─ down ring ─  down_reserve (before the I/O), down_commit (after
 *                                           it, in any order)
 *
 * Delivery of `down`: by default each message is delivered when it is committed, overtaking
 * older ones that are not. With SNIC_CHANNEL_DOWN_ORDERED it is the paper's TailA, TailB, TailC:
 * in order of reservation, in batches of batch_bytes or when the DPU goes idle.
 *
 * The DPU end works in place where the dma link is MAPPED; else through a private mirror of
 * each ring, of equal size, over batches of DMA operations. Users see no difference: pointers
 * they get are valid until release or commit either way.
 *
 * Ends. When the peer closes, what it sent before is still delivered, then `closed` comes;
 * meanwhile sending answers SNIC_EPIPE, and a message that was refused is offered once more.
 * After `closed` nothing more arrives; tokens and slots still out may be released as usual, then
 * snic_channel_close(). Mapped memory stays readable until snic_channel_hub_fini().
 */
#ifndef SNIC_CHANNEL_H
#define SNIC_CHANNEL_H

#include "snicstore/base.h"
#include "snicstore/loop.h"
#include "snicstore/dma.h"
#include "snicstore/ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most bytes of a message's header. */
#define SNIC_CHANNEL_HEADER_MAX 256
/** Most channels of one hub. Channel n uses doorbell n; those above are the user's. */
#define SNIC_CHANNEL_MAX 56

struct snic_channel_hub;
struct snic_channel;

/* ---- Messages ---- */

/** Names a received message until it is released; plain data, copy it at will. */
struct snic_channel_token {
    uint64_t position;
    uint64_t next;
};

/** A message as received; the struct and the header are borrowed for the call. */
struct snic_channel_msg {
    struct snic_channel_token token;
    const void *header;     /**< private copy, 8-aligned                                   */
    void *payload;          /**< in place, until the token is released; NULL if none       */
    uint32_t header_bytes;  /**< 0..SNIC_CHANNEL_HEADER_MAX                                */
    uint32_t payload_bytes; /**< 0..record_max                                             */
    uint32_t type;          /**< the sender's, 0..65535                                    */
    int32_t region;         /**< loop region the payload lies in, or SNIC_NO_REGION        */
};

/** Room for a message that is being written. Plain data, copy it at will. */
struct snic_channel_slot {
    uint64_t position; /**< names the slot                                            */
    void *header;      /**< header_bytes, 8-aligned, NULL if 0: write it before commit */
    void *payload;     /**< payload_bytes, aligned to payload_align, NULL if 0        */
    uint32_t header_bytes;
    uint32_t payload_bytes;
    int32_t region; /**< loop region the payload lies in (DPU), or SNIC_NO_REGION  */
    uint32_t reserved;
};

/** Called on the loop's thread. opened and writable may be NULL. */
struct snic_channel_events {
    /**
     * A message. Any call on the channel but close is allowed inside.
     * @return 0 taken, the user releases the token later; 1 taken and finished, the channel
     *         releases it; SNIC_EAGAIN not taken: the same message comes again after
     *         snic_channel_resume(), and nothing else meanwhile
     */
    int (*message)(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m);
    /** Both ends are up. The host may send before. */
    void (*opened)(void *ctx, struct snic_channel *c);
    /** A reserve answered SNIC_EAGAIN before, and there may be space now. */
    void (*writable)(void *ctx, struct snic_channel *c);
    /**
     * The last event. Reason: 0 the peer closed (all it sent before was delivered);
     * SNIC_EPEERDEAD certified death of the peer or the link; SNIC_EPROTO the peer wrote
     * nonsense; SNIC_ECONNREFUSED no service of this kind; what the acceptor answered;
     * SNIC_EIO a DMA operation failed while the peer lives. Call snic_channel_close(), here or
     * later.
     */
    void (*closed)(void *ctx, struct snic_channel *c, int reason);
    void *ctx;
};

/* ---- Hub: one per dma handle; shares it among channels ---- */

/** What a host offers; borrowed for the call of accept. */
struct snic_channel_offer {
    uint32_t kind;
    uint32_t flags; /**< SNIC_CHANNEL_UP_QUIESCENT, SNIC_CHANNEL_DOWN_ORDERED              */
    uint64_t id;
    uint64_t up_bytes;
    uint64_t down_bytes;
    uint32_t record_max;    /**< claimed by the host; checked against the rings            */
    uint32_t payload_align; /**< claimed by the host; checked against the rings            */
};

struct snic_channel_hub_opts {
    uint32_t opts_size;
    uint32_t channels_max; /**< 1..SNIC_CHANNEL_MAX; default 8. Doorbells below it are taken */
    /**
     * DPU: a host opened a channel. Call snic_channel_accept() inside and return 0, or return
     * the negative SNIC_E* that the host shall see. NULL: everything is refused.
     */
    int (*accept)(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer);
    /** Control messages that are not the hub's: as snic_dma_events.recv. May be NULL. */
    void (*recv)(void *ctx, struct snic_channel_hub *h, const void *msg, uint32_t size);
    /** Doorbells >= channels_max. May be NULL. */
    void (*doorbell)(void *ctx, struct snic_channel_hub *h, uint32_t id);
    /** The peer is certified dead; every channel got its closed event before. May be NULL. */
    void (*death)(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause);
    void *ctx;
    uint64_t ring_bytes_max; /**< DPU: larger rings are refused; default 1 GiB              */
};

/** Control messages of the hub start with these 4 bytes; the user's must not. */
#define SNIC_CHANNEL_MAGIC 0x48434e53U /* "SNCH", little-endian */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_channel_hub_opts_wrong(const struct snic_channel_hub_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_channel_hub_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_channel_hub_memsize(const struct snic_channel_hub_opts *o) SNIC_NONNULL(1);
/**
 * Take over the dma handle @p d (owned until fini, which closes it): sets d->events. Call it before
 * the loop runs again after @p d was opened (shm: inside the accept callback), so that no event is
 * lost. Both ends need one. [owner]
 * @param mem  at least memsize bytes aligned to 16, owned until fini
 * @param o    copied
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_channel_hub_init(struct snic_channel_hub **out, void *mem,
                                                  size_t mem_size, struct snic_dma *d,
                                                  const struct snic_channel_hub_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * Close the dma handle and forget all channels, without further events. Every channel must be
 * closed before; not from inside an event, but the hub's death. An orderly end iterates the loop
 * until snic_channel_hub_count() is 0 first: then the peer has taken all that was sent, otherwise
 * an unmapped peer may lose the last messages. Returns the caller's memory. [owner]
 */
SNIC_API void *snic_channel_hub_fini(struct snic_channel_hub *h) SNIC_NONNULL(1);
/** The dma handle, for the user's own messages and doorbells. [owner] */
SNIC_API struct snic_dma *snic_channel_hub_dma(const struct snic_channel_hub *h) SNIC_NONNULL(1);
/** opts.ctx. [any] */
SNIC_API void *snic_channel_hub_ctx(const struct snic_channel_hub *h) SNIC_NONNULL(1);
/** Channels that exist, those that await the peer's goodbye included. [owner] */
SNIC_API uint32_t snic_channel_hub_count(const struct snic_channel_hub *h) SNIC_NONNULL(1);

/* ---- Opening ---- */

#define SNIC_CHANNEL_UP_QUIESCENT (1u << 0) /**< up: the paper's progress counter (ring.h)  */
#define SNIC_CHANNEL_DOWN_ORDERED (1u << 1) /**< down: the paper's in-order delivery        */
#define SNIC_CHANNEL_UNMAPPED (1u << 2)     /**< DPU: use the mirror although MAPPED        */
#define SNIC_CHANNEL_REGIONS (1u << 3)      /**< DPU: register ring memory for fixed I/O    */

/** The host's options. Zero the struct, then set opts_size and kind. */
struct snic_channel_opts {
    uint32_t opts_size;
    uint32_t kind;          /**< which service; agreed between the two services             */
    uint64_t id;            /**< the service's own, such as a notification group            */
    uint64_t up_bytes;      /**< data area: power of two, 4 KiB..2 GiB; default 1 MiB       */
    uint64_t down_bytes;    /**< as up_bytes                                                */
    uint64_t up_progress;   /**< M of up; default up_bytes / 2                              */
    uint64_t down_progress; /**< M of down; default down_bytes / 2                          */
    uint32_t record_max;    /**< header + payload; default: the largest both rings take     */
    uint32_t payload_align; /**< power of two 8..4096; default 8                            */
    uint32_t granule_bytes; /**< ring granule, power of two 16..4096; default 64            */
    uint32_t senders_max;   /**< senders lent by snic_channel_borrow(), 0..1024; default 16 */
    uint32_t flags;         /**< SNIC_CHANNEL_UP_QUIESCENT, SNIC_CHANNEL_DOWN_ORDERED       */
    uint32_t reserved;      /**< must be 0                                                  */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_channel_opts_wrong(const struct snic_channel_opts *o) SNIC_NONNULL(1);
/**
 * Host: allocate and format the rings and offer them to the peer. Sending may start at once;
 * the opened or the closed event reports whether the peer accepted. [owner]
 * @param e  copied
 * @return 0; SNIC_EINVAL options; SNIC_EPEERDEAD the link is dead; SNIC_EAGAIN channels_max are in
 *         use; SNIC_ENOMEM memory or a key for the rings; SNIC_EPROTO the peer wrote into the rings
 *         before they were offered
 */
SNIC_API SNIC_NODISCARD int snic_channel_open(struct snic_channel **out, struct snic_channel_hub *h,
                                              const struct snic_channel_opts *o,
                                              const struct snic_channel_events *e)
    SNIC_NONNULL(1, 2, 3, 4);

/** The DPU's options. */
struct snic_channel_accept_opts {
    uint32_t opts_size;
    uint32_t flags;         /**< SNIC_CHANNEL_UNMAPPED, SNIC_CHANNEL_REGIONS                  */
    uint32_t batch_bytes;   /**< down: deliver when so much is finished, or when idle; 0: in
                                 the same loop iteration                                      */
    uint32_t budget;        /**< most messages per loop iteration; default 256                */
    uint32_t payload_align; /**< what the service would like, 0: any; the host's peer_align  */
    uint32_t reserved;      /**< must be 0                                                   */
};

/**
 * DPU: take the channel offered; only inside the hub's accept event. Messages come after the
 * opened event; until then nothing can be sent (SNIC_EAGAIN). [owner]
 * @param o  may be NULL: defaults
 * @param e  copied
 * @return 0; SNIC_EINVAL options; SNIC_ENOMEM; SNIC_EPEERDEAD the link has ended (unmapped). The
 *         host's offer does not hold (return it from accept): SNIC_EPROTO its flags, the rings'
 *         sizes or what lies there; SNIC_EFAULT its keys, their ranges or rights; SNIC_EVERSION
 *         rings of another version
 */
SNIC_API SNIC_NODISCARD int snic_channel_accept(struct snic_channel **out,
                                                struct snic_channel_hub *h,
                                                const struct snic_channel_offer *offer,
                                                const struct snic_channel_accept_opts *o,
                                                const struct snic_channel_events *e)
    SNIC_NONNULL(1, 2, 3, 5);
/**
 * Close either end; afterwards the handle is gone and no event comes. What was committed before
 * is still delivered to a living peer. All tokens and slots must have been released, and senders
 * dropped. Allowed inside the closed event, not inside the others. [owner]
 */
SNIC_API void snic_channel_close(struct snic_channel *c);

/* ---- Receiving, both ends ---- */

/**
 * The payload is not needed any more. Any order; the space is free when all older messages are
 * released too (DPU: the head is published once per loop iteration). [owner]
 */
SNIC_API void snic_channel_release(struct snic_channel *c, const struct snic_channel_token *t)
    SNIC_NONNULL(1, 2);
/** After a message event answered SNIC_EAGAIN: offer it again. Harmless otherwise. [owner] */
SNIC_API void snic_channel_resume(struct snic_channel *c) SNIC_NONNULL(1);

/* ---- Sending, host: any number of threads, each with a sender ---- */

/** One thread's way to send; all fields private. Must not outlive the channel. */
struct snic_channel_sender {
    struct snic_channel *channel;
    struct snic_ring_producer ring;
};

/**
 * Make a sender for one thread. No counterpart is needed. [any]
 * @return 0; SNIC_EPIPE the channel is closed, or the peer damaged the ring
 */
SNIC_API SNIC_NODISCARD int snic_channel_sender_init(struct snic_channel_sender *s,
                                                     struct snic_channel *c) SNIC_NONNULL(1, 2);
/**
 * For threads that come and go: take one of the channel's own senders, exclusively, until
 * snic_channel_give_back(). Never with a reservation left open. Lock-free. [any]
 * @return the sender; NULL all senders_max are lent
 */
SNIC_API struct snic_channel_sender *snic_channel_borrow(struct snic_channel *c) SNIC_NONNULL(1);
/** Return a borrowed sender; its reservation is committed or cancelled. [any] */
SNIC_API void snic_channel_give_back(struct snic_channel_sender *s) SNIC_NONNULL(1);

/**
 * Reserve room for one message, to be written in place and committed or cancelled soon (the
 * DPU waits for it). One reservation per sender. [producer]
 * @param[out] slot  region is SNIC_NO_REGION
 * @return 0; SNIC_EAGAIN full: the writable event comes when there may be space; SNIC_EMSGSIZE
 *         @p header_bytes above SNIC_CHANNEL_HEADER_MAX, or both together above record_max;
 *         SNIC_EINVAL type > 65535; SNIC_EBUSY a reservation is open; SNIC_EPIPE closed, or the DPU
 *         damaged the ring (the closed event follows)
 */
SNIC_API SNIC_NODISCARD int snic_channel_up_reserve(struct snic_channel_sender *s, uint32_t type,
                                                    uint32_t header_bytes, uint32_t payload_bytes,
                                                    struct snic_channel_slot *slot)
    SNIC_NONNULL(1, 5);
/**
 * Publish the reservation; rings the doorbell if the DPU sleeps. With @p more != 0 the doorbell is
 * left to a later call of this sender (commit or snic_channel_up_flush()). [producer]
 */
SNIC_API void snic_channel_up_commit(struct snic_channel_sender *s, int more) SNIC_NONNULL(1);
/** Drop the reservation: the DPU skips it. Rings the doorbell if the DPU sleeps. [producer] */
SNIC_API void snic_channel_up_cancel(struct snic_channel_sender *s) SNIC_NONNULL(1);
/** Ring the doorbell if the DPU sleeps. [producer] */
SNIC_API void snic_channel_up_flush(struct snic_channel_sender *s) SNIC_NONNULL(1);
/**
 * Reserve, copy, commit. Copy. @p payload gathers @p n pieces. [producer]
 * @return results as snic_channel_up_reserve()
 */
SNIC_API SNIC_NODISCARD int snic_channel_up_push(struct snic_channel_sender *s, uint32_t type,
                                                 const void *header, uint32_t header_bytes,
                                                 const struct snic_iov *payload, uint32_t n)
    SNIC_NONNULL(1);

/* ---- Sending, DPU: the owner ---- */

/**
 * Reserve room for a message before its bytes are there; I/O may run straight into the payload. Any
 * number may be open, for as long as it takes. [owner]
 * @return 0; SNIC_EAGAIN full (the writable event comes), or not opened yet; SNIC_EMSGSIZE
 *         @p header_bytes above SNIC_CHANNEL_HEADER_MAX, or both together above record_max;
 *         SNIC_EINVAL type > 65535; SNIC_EPIPE closed, or the host damaged the ring (the closed
 *         event follows)
 */
SNIC_API SNIC_NODISCARD int snic_channel_down_reserve(struct snic_channel *c, uint32_t type,
                                                      uint32_t header_bytes, uint32_t payload_bytes,
                                                      struct snic_channel_slot *slot)
    SNIC_NONNULL(1, 5);
/**
 * The message is complete; any order. @p payload_bytes may be less than reserved. On a closed
 * channel it only gives the slot back. [owner]
 */
SNIC_API void snic_channel_down_commit(struct snic_channel *c, const struct snic_channel_slot *slot,
                                       uint32_t payload_bytes) SNIC_NONNULL(1, 2);
/** Give the slot back unsent; the host sees nothing of it. [owner] */
SNIC_API void snic_channel_down_cancel(struct snic_channel *c, const struct snic_channel_slot *slot)
    SNIC_NONNULL(1, 2);
/**
 * Reserve, copy, commit. Copy. @p payload gathers @p n pieces. [owner]
 * @return results as snic_channel_down_reserve()
 */
SNIC_API SNIC_NODISCARD int snic_channel_down_push(struct snic_channel *c, uint32_t type,
                                                   const void *header, uint32_t header_bytes,
                                                   const struct snic_iov *payload, uint32_t n)
    SNIC_NONNULL(1);
/** Deliver what is committed without waiting for batch_bytes or idleness. [owner] */
SNIC_API void snic_channel_down_flush(struct snic_channel *c) SNIC_NONNULL(1);

/* ---- Facts ---- */

struct snic_channel_info {
    uint32_t kind;
    uint32_t flags;
    uint64_t id;
    uint64_t up_bytes;
    uint64_t down_bytes;
    uint32_t record_max; /**< most header + payload bytes of a message                   */
    uint32_t payload_align;
    int32_t mapped;      /**< 1: this end works on the ring memory itself                */
    int32_t closed;      /**< 1 after the closed event                                   */
    uint32_t peer_align; /**< host, opened: payload_align that the service would like, or 0 */
    uint32_t reserved;
};
/** What was agreed; sizes are 0 before the opened event of an unmapped DPU. [owner] */
SNIC_API void snic_channel_get_info(const struct snic_channel *c, struct snic_channel_info *out)
    SNIC_NONNULL(1, 2);

struct snic_channel_stats {
    uint64_t received;       /**< messages delivered to the message event                  */
    uint64_t received_bytes; /**< header + payload                                         */
    uint64_t released;
    uint64_t sent; /**< DPU: committed. Host senders do not count                */
    uint64_t sent_bytes;
    uint64_t looks; /**< looks at the other side's cursors                        */
    uint64_t looks_empty;
    uint64_t sleeps;           /**< times the doorbell was asked for                         */
    uint64_t doorbells;        /**< rung by the owner                                        */
    uint64_t full;             /**< SNIC_EAGAIN of down_reserve                              */
    uint64_t flushes;          /**< deliveries of one or more messages (DPU)                 */
    uint64_t dma_cursor_reads; /**< unmapped DPU: operations by purpose                    */
    uint64_t dma_data_reads;
    uint64_t dma_head_writes;
    uint64_t dma_data_writes;
    uint64_t dma_tail_writes;
    uint64_t dma_flag_writes;
    uint64_t copied_bytes;   /**< payload bytes copied by push or into and out of mirrors  */
    uint64_t dma_sync_reads; /**< of head and sleep flag of down                         */
};
/** Counters since open or accept. [owner] */
SNIC_API void snic_channel_get_stats(const struct snic_channel *c, struct snic_channel_stats *out)
    SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_CHANNEL_H */
