/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Inside a channel: control messages, the hub's slots, and the channel itself.
 *
 * hub.c      control messages, doorbells and death, shared out among channels
 * channel.c  what both ends have in common: events, receiving, facts
 * host.c     opening; senders; the collector
 * dpu.c      accepting; consumer and responder on mapped memory
 * remote.c   the same over batches of DMA operations
 */
#ifndef SNIC_CHANNEL_PRIV_H
#define SNIC_CHANNEL_PRIV_H

#include <stdatomic.h>

#include "snicstore/channel.h"

#define SNIC_CHANNEL__VERSION 1
#define SNIC_CHANNEL__STASH 32
#define SNIC_CHANNEL__OPS 24
/** Of each ring, fetched by an unmapped DPU when it accepts: header and cursors, to H. */
#define SNIC_CHANNEL__FETCH (SNIC_RING_OFF_HEAD + 8)
SNIC_STATIC_ASSERT(SNIC_RING_HEADER_BYTES <= SNIC_RING_OFF_TAIL &&
                       SNIC_RING_OFF_TAIL < SNIC_RING_OFF_HEAD,
                   "what ends with H holds the header and T");

enum channel_role { CHANNEL_HOST = 1, CHANNEL_DPU = 2 };

/* ---- Control messages ---- */

enum channel_ctl_type {
    CHANNEL_CTL_OPEN = 1,   /* host: rings and their keys                          */
    CHANNEL_CTL_ACCEPT = 2, /* DPU: opened                                         */
    CHANNEL_CTL_CLOSE = 3   /* both, once each: this end is done; reason           */
};

/** Little-endian, fixed. */
struct channel_ctl {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t slot;
    uint32_t generation;
    int32_t reason;
    uint32_t kind;
    uint32_t flags;
    uint32_t record_max;
    uint32_t payload_align;
    uint32_t reserved;
    uint64_t id;
    uint64_t up_key;
    uint64_t up_size; /* bytes of the whole ring memory                            */
    uint64_t up_bytes;
    uint64_t down_key;
    uint64_t down_size;
    uint64_t down_bytes;
};
#define SNIC_CHANNEL__CTL_HEAD 16 /* magic to generation: of every version */
SNIC_STATIC_ASSERT(sizeof(struct channel_ctl) == 96, "wire format");
SNIC_STATIC_ASSERT(offsetof(struct channel_ctl, reason) == SNIC_CHANNEL__CTL_HEAD, "wire format");
SNIC_STATIC_ASSERT(sizeof(struct channel_ctl) <= SNIC_DMA_MSG_MAX, "one message");

/* ---- Hub ---- */

#define SNIC_CHANNEL__SEND_OPEN 1u
#define SNIC_CHANNEL__SEND_ACCEPT 2u
#define SNIC_CHANNEL__SEND_CLOSE 4u

/**
 * A place for a channel. It is free again when both ends have sent CLOSE (or the peer is
 * dead), this end's user has closed, and no batch is in flight.
 */
struct channel_slot {
    struct snic_channel *channel; /* until its memory is freed                     */
    uint32_t generation;
    uint8_t used;
    uint8_t send;       /* SNIC_CHANNEL__SEND_*: control messages that wait              */
    uint8_t sent_close; /* our CLOSE was sent or can not be                        */
    uint8_t got_close;  /* the peer's was received                                 */
    int32_t close_reason;
    struct channel_ctl open; /* host: to be sent                                   */
    void *up_mem;            /* host: freed when the peer has sent CLOSE           */
    void *down_mem;
    uint64_t up_key;
    uint64_t down_key;
};

struct snic_channel_hub {
    struct snic_dma *dma;
    struct snic_channel_hub_opts opts;
    struct snic_timer retry;
    uint32_t generation;
    uint32_t waiting; /* slots with something to send                              */
    uint8_t sim;      /* the loop is simulated: calls from outside must wake it    */
    uint8_t dead;
    uint8_t closing; /* fini: memory is not freed slot by slot                     */
    const struct channel_ctl *offered; /* inside the accept event                  */
    struct snic_channel *accepted;     /* by snic_channel_accept() inside it       */
    struct channel_slot slots[];
};

/* ---- Channel ---- */

/** One direction's DMA: at most one batch in flight. */
struct channel_engine {
    struct snic_dma_batch batch;
    struct snic_dma_op ops[SNIC_CHANNEL__OPS];
    struct snic_channel *channel;
    uint8_t busy;      /* handed over, or waiting to be                            */
    uint8_t waiting;   /* the door was full: hand it over again                    */
    uint8_t completed; /* its result waits to be looked at                         */
};

struct channel_lent {
    struct snic_channel_sender sender; /* first: give_back() finds us by it        */
    _Atomic(uint32_t) busy;
};

/** The host's part. */
struct channel_host {
    struct snic_ring_collector collector;
    struct channel_lent *lent;
    uint32_t lent_max;
    _Atomic(uint32_t) gone;    /* senders: answer SNIC_EPIPE                       */
    _Atomic(uint32_t) blocked; /* a sender waits for space                         */
    _Atomic(uint32_t) broken;  /* a sender found nonsense in the ring              */
};

/** The DPU's part. */
struct channel_dpu {
    struct snic_ring_consumer consumer;
    struct snic_ring_responder responder;
    struct channel_engine up;
    struct channel_engine down;
    struct snic_channel_offer offer;
    uint64_t offered[2]; /* bytes of the whole memory of up and of down, as claimed */
    uint64_t up_key;
    uint64_t down_key;
    void *up_aux; /* aux and mirrors: unmapped, allocated when the geometry is known */
    void *down_aux;
    void *up_mirror;
    void *down_mirror;
    int up_region;
    int down_region;
    uint32_t batch_bytes;
    uint32_t budget;
    uint64_t unflushed; /* committed bytes that no flush has taken               */
    uint8_t blocked;    /* down: 0, 1 full: arm and try, 2 armed: wait for a bell */
    uint8_t quiet;      /* no commit since the last round                         */
    uint8_t want_flush; /* unmapped: until the flush returns 0                    */
    uint8_t want_sync;  /* unmapped: refresh head and sleepers                    */
    uint8_t arming;     /* unmapped: the batch in flight arms for space           */
    uint8_t belled;     /* a bell came while it was in flight                     */
    uint8_t look_arms;  /* unmapped: and arms the doorbell first                  */
    uint8_t look_heads; /* unmapped: and writes the head first */
    uint8_t asleep;     /* unmapped: no look before a bell                        */
    uint8_t arm_next;   /* unmapped: the next look arms                           */
    uint8_t drain;      /* unmapped, the peer closed: 1 look again, 2 looking     */
    uint8_t cut;        /* unmapped: the link is gone, death will be reported     */
    uint8_t fetch[2][SNIC_CHANNEL__FETCH];
};

struct snic_channel {
    struct snic_channel_hub *hub;
    struct snic_loop *loop;
    struct snic_channel_events events;
    struct snic_loop_poller poller;
    enum channel_role role;
    uint32_t slot;
    uint32_t kind;
    uint32_t flags;
    uint32_t peer_align; /* DPU: to be sent with ACCEPT; host: as received */
    uint64_t id;
    struct snic_ring_info up;
    struct snic_ring_info down;
    unsigned char *up_mem; /* mapped, or the host's own; else NULL                 */
    unsigned char *down_mem;
    uint8_t mapped;
    uint8_t opened;
    uint8_t opened_due;
    uint8_t ending;      /* reason is set; the closed event is due                 */
    uint8_t closed;      /* the closed event was delivered                         */
    uint8_t peer_closed; /* in order: drain, then end with reason 0                */
    uint8_t lingering;   /* the user closed; what is committed is still delivered  */
    uint8_t inside;      /* an event that forbids close is running                 */
    uint8_t stalled;     /* message answered SNIC_EAGAIN                           */
    uint8_t armed;       /* the doorbell was asked for and has not rung            */
    uint8_t belled;      /* the doorbell rang                                      */
    uint8_t released;    /* unmapped: the head may have to be written              */
    uint8_t writable_due;
    int reason;
    uint64_t head_seen; /* mapped: the head at the last channel_head_moved()       */
    uint32_t stash_at;  /* records taken from the ring and not yet delivered        */
    uint32_t stash_end;
    struct snic_ring_rec stash[SNIC_CHANNEL__STASH];
    uint64_t tokens; /* messages delivered and not released                        */
    uint64_t slots;  /* reserved down messages not committed                       */
    struct snic_channel_stats stats;
    union {
        unsigned char bytes[SNIC_CHANNEL_HEADER_MAX];
        uint64_t align;
    } header;
    union {
        struct channel_host host;
        struct channel_dpu dpu;
    };
};

/* ---- slot.c ---- */

/** A free place, or NULL. */
struct channel_slot *channel_slot_take(struct snic_channel_hub *h);
/** Queue control messages of @p s and try to send them. */
void channel_slot_send(struct snic_channel_hub *h, struct channel_slot *s, uint8_t what);
/** Make the place free if nothing holds it any more. */
void channel_slot_settle(struct snic_channel_hub *h, struct channel_slot *s);
struct channel_slot *channel_slot_of(const struct snic_channel *c);
/** Send one control message. 1 sent or impossible; 0 later. */
int channel_ctl_send(struct snic_channel_hub *h, const struct channel_ctl *m);
/** The link had no room for one: try again. */
void channel_hub_retry(struct snic_timer *t, uint64_t now_ns);
/** Calls that may come from outside of an iteration make a simulated loop go round. */
void channel_kick(const struct snic_channel *c);

/* ---- common.c ---- */

/** A zeroed channel in memory of its own, with its poller added. NULL: no memory. */
struct snic_channel *channel_new(struct snic_channel_hub *h, enum channel_role role,
                                 const struct snic_channel_events *e, size_t extra,
                                 int (*poll)(struct snic_loop_poller *p, int sleeping));
/** It is over: @p reason will be reported by the next round. Only the first counts. */
void channel_fail(struct snic_channel *c, int reason);
/** Of a round of the poller: the first event, if it is due. 1: it was. */
int channel_report_opened(struct snic_channel *c);
/** The last part of a round, which did something or not: `writable` and `closed`. Its result. */
int channel_round_end(struct snic_channel *c, int sleeping, int did);
/** Deliver the closed event now. */
void channel_finish(struct snic_channel *c);
/** Deliver what is stashed. Messages delivered; stops when the user stalls or it fails. */
uint32_t channel_deliver(struct snic_channel *c);
/** The data of @p slot from @p rec. */
void channel_slot_fill(struct snic_channel_slot *slot, const struct snic_ring_rec *rec, int region);
/** Copy header and payload into a reserved slot. */
void channel_slot_copy(const struct snic_channel_slot *slot, const void *header,
                       const struct snic_iov *payload, uint32_t n);
/** Sum of the pieces; UINT32_MAX if it does not fit a record. */
uint32_t channel_iov_bytes(const struct snic_iov *payload, uint32_t n);
void channel_bell(struct snic_channel *c);
/** The head of the mapped ring @p mem moved since the last call that returned 1. */
int channel_head_moved(struct snic_channel *c, unsigned char *mem);

/* ---- host.c ---- */

int channel_host_poll(struct snic_channel *c, int sleeping);
/** The channel's memory, as its owner closes it; the rings stay until the peer is done. */
void channel_host_drop(struct snic_channel *c);

/* ---- dpu_rings.c ---- */

/** Check the geometry of one ring against the offer. 0 or SNIC_E*. */
int channel_dpu_geometry(struct snic_channel *c, const void *header, int down,
                         struct snic_ring_info *out);
/** aux, regions and all that needs the geometry is there: report `opened` to both ends. */
void channel_dpu_opened(struct snic_channel *c);
int channel_dpu_aux(struct snic_channel *c);
/** Ring the peer's doorbell, as PRODWAIT or CONSLEEP requires. */
void channel_ring_bell(struct snic_channel *c);
/** Is it time to deliver? */
static inline int channel_flush_due(const struct snic_channel *c, int idle)
{
    const struct channel_dpu *u = &c->dpu;
    uint64_t ready = u->unflushed;
    if (ready == 0)
        return 0;
    if ((c->flags & SNIC_CHANNEL_DOWN_ORDERED) != 0 &&
        (ready = snic_ring_resp_ready(&u->responder)) == 0)
        return 0; /* the oldest is still pending */
    return u->batch_bytes == 0 || ready >= u->batch_bytes || idle || u->quiet;
}

/* ---- remote.c ---- */

/** Fetch the headers; opening continues when they are there. 0 or SNIC_E*. */
int channel_remote_begin(struct snic_channel *c);
/** Carry on with both directions. > 0 if something was done. */
int channel_remote_poll(struct snic_channel *c, int sleeping);
/** 1 while what was committed is not delivered. */
int channel_remote_lingers(const struct snic_channel *c);

/* ---- dpu.c ---- */

int channel_dpu_poll(struct snic_channel *c, int sleeping);
void channel_dpu_drop(struct snic_channel *c);

/* ---- channel.c ---- */

/** The link is gone: deliver what an orderly peer left behind, where it is mapped. */
void channel_drain(struct snic_channel *c);

#endif /* SNIC_CHANNEL_PRIV_H */
