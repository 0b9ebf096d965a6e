/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The director's inside; the description is in director.c.
 */
#ifndef SNIC_DIRECTOR_PRIV_H
#define SNIC_DIRECTOR_PRIV_H

#include "base/runs.h"
#include "director/wire.h"

#define SNIC_DIRECTOR__BLOCK 4096
#define SNIC_DIRECTOR__CHUNK 512u /* blocks that go back to the program together */
#define SNIC_DIRECTOR__IOV 48     /* pieces of one send; at least SNIC_OFFLOAD_IOV_MAX */
#define SNIC_DIRECTOR__SENDS 2    /* sends in flight of one connection */
/* A message that outgrows a block may have so much of the area, or a quarter of what is free. */
#define SNIC_DIRECTOR__AREA_OWN 65536
#define SNIC_DIRECTOR__RESERVE 8 /* blocks that only the host's replies may use */
#define SNIC_DIRECTOR__TEXT 512
/* Offloaded replies up to this are copied, and their jobs freed. */
#define SNIC_DIRECTOR__COPY 1024
#define SNIC_DIRECTOR__OFFLOADS 256 /* most offloaded messages of one connection at once */
#define SNIC_DIRECTOR__LISTENERS 16
#define SNIC_DIRECTOR__REFUSALS 16
#define SNIC_DIRECTOR__PROGRESS 65536 /* bytes a connection must move in stall_ms */
#define SNIC_DIRECTOR__MESSAGE_COST 64
/* backlog.c: limit of the host's backlog; messages under way that a connection may have beyond it;
   how long a message counts; how long the limit holds after a light client's message. */
#define SNIC_DIRECTOR__BACKLOG 128u
#define SNIC_DIRECTOR__BACKLOG_OWN 8u
#define SNIC_DIRECTOR__BACKLOG_NS 1000000u
#define SNIC_DIRECTOR__LIGHT_NS 10000000u
/* unread.c: a connection that holds more of replies takes turns with others like it. */
#define SNIC_DIRECTOR__UNREAD (1u << 20)
/* What one connection holds of the blocks, or the engine's pool: at most this part of the rest. */
#define SNIC_DIRECTOR__SHARE 4

/* ---- Bytes on their way out ---- */

enum director_piece_kind { DIRECTOR_PIECE_BLOCK, DIRECTOR_PIECE_JOB };

/* A member of an out queue: begins a block, or a slot whose job is sent as it is. */
struct director_piece {
    struct snic_node node;
    uint32_t kind;
    uint32_t begin;  /* first byte that is not sent */
    uint32_t flight; /* first byte that net has not got */
    uint32_t end;
};

struct director_block {
    struct director_piece piece;
    unsigned char data[SNIC_DIRECTOR__BLOCK - sizeof(struct director_piece)];
};

/* blocks.c */
struct director_chunk {
    struct snic_queue idle; /* of the first `made` blocks */
    struct snic_link link;
    uint32_t made; /* so many have been used; behind them memory is as it was found, or released */
    uint32_t used;
};

#define SNIC_DIRECTOR__DATA ((uint32_t)sizeof(((struct director_block *)0)->data))

/* ---- Messages under way ---- */

enum director_slot_state {
    DIRECTOR_SLOT_FREE = 0,
    DIRECTOR_SLOT_HOST,    /* with the host */
    DIRECTOR_SLOT_OFFLOAD, /* with the offload engine */
    DIRECTOR_SLOT_RETRY,   /* the engine refused; waits for room towards the host */
    DIRECTOR_SLOT_DONE,    /* answered; waits for its turn */
    DIRECTOR_SLOT_GONE,    /* to be answered with host_gone() in its turn */
    DIRECTOR_SLOT_CUT,     /* the client ends in its turn: the host has ended */
    DIRECTOR_SLOT_SENDING  /* its job is a piece of the out queue, not on the list any more */
};

#define SNIC_DIRECTOR__BARRIER 1u /* slot flags */
#define SNIC_DIRECTOR__CLOSE 2u
#define SNIC_DIRECTOR__STREAMED 4u /* some of the reply is in the out queue */
#define SNIC_DIRECTOR__STARTED 8u  /* on the list of started replies */
#define SNIC_DIRECTOR__NET 16u     /* HOST: on the list of the net host */
#define SNIC_DIRECTOR__SWITCH 32u  /* nothing is classified before its reply */

struct director_slot {
    struct director_piece piece; /* first: JOB */
    struct snic_link link;       /* the connection's, in order of arrival */
    struct snic_node host;       /* net: waits for its reply; RETRY: the director's */
    struct snic_node started;    /* not IN_ORDER: has bytes, is not the current one */
    struct snic_queue pieces;    /* of the reply */
    struct snic_director_conn *conn;
    struct snic_offload_job *job;
    uint32_t gen;
    uint32_t bytes;  /* of the reply so far, at most UINT32_MAX */
    uint32_t sent;   /* bytes of the message that the host has received */
    uint64_t cost;   /* of `flight` of its connection and the director, until it is answered */
    uint64_t user;   /* the connection's word when the message was classified */
    uint64_t pushed; /* number among the messages sent to the host */
    uint8_t state;
    uint8_t flags;
    uint8_t unread; /* `cost` counts in unread_flight, too */
    uint8_t kept_size;
    unsigned char kept[SNIC_DIRECTOR_KEPT]; /* not IN_ORDER: the message begins so */
};

/* ---- Connections ---- */

struct director_end;

struct director_send {
    struct snic_net_send_req req;
    struct director_end *end;
    uint32_t bytes;
    uint8_t busy;
    struct snic_iov iov[SNIC_DIRECTOR__IOV];
};

/* One side of a connection: the client's, or the host's with a net upstream. */
struct director_end {
    struct snic_net_conn *net; /* NULL: none, or gone */
    struct snic_director_conn *conn;
    struct snic_queue in; /* lent buffers */
    struct snic_queue out;
    struct director_piece *cursor; /* first piece with bytes that net has not got */
    struct director_send sends[SNIC_DIRECTOR__SENDS];
    uint32_t in_count;
    uint8_t next; /* send to use */
    uint8_t busy; /* sends in flight */
    uint8_t eof;  /* it sends no more */
    uint8_t shut; /* we send no more */
    uint8_t closing;
    uint8_t paused;
    uint8_t open; /* the host's: connected */
    uint8_t dead; /* the host's: its closed event is still to come */
};

enum director_part_kind { DIRECTOR_PART_BLOCK, DIRECTOR_PART_RUN, DIRECTOR_PART_BUFFER };

/* Why a connection does not take its next message. */
#define SNIC_DIRECTOR__WINDOW 4u       /* messages under way of a new connection */
#define SNIC_DIRECTOR__WAIT_BOUND 1u   /* its own: window, conn_bytes */
#define SNIC_DIRECTOR__WAIT_OFFLOAD 2u /* a barrier, for offloaded messages before it */
#define SNIC_DIRECTOR__WAIT_SLOT 4u
#define SNIC_DIRECTOR__WAIT_BLOCK 8u
#define SNIC_DIRECTOR__WAIT_PART 16u
#define SNIC_DIRECTOR__WAIT_CHANNEL 32u
#define SNIC_DIRECTOR__WAIT_BARRIER 64u  /* an answer, or a message behind a SWITCH */
#define SNIC_DIRECTOR__WAIT_POOL 128u    /* it holds its share of the engine's pool */
#define SNIC_DIRECTOR__WAIT_BACKLOG 256u /* others' messages to the host: backlog.c */
#define SNIC_DIRECTOR__WAIT_UNREAD 512u  /* its turn among those that do not read: unread.c */
/* What ends with a reply of the connection's own, or when it is sent. */
#define SNIC_DIRECTOR__WAIT_OWN                                                                    \
    (SNIC_DIRECTOR__WAIT_BOUND | SNIC_DIRECTOR__WAIT_OFFLOAD | SNIC_DIRECTOR__WAIT_BARRIER |       \
     SNIC_DIRECTOR__WAIT_POOL)

struct snic_director_conn {
    struct snic_director *d;
    struct snic_link link; /* all connections, or idle ones */
    struct snic_link dirty;
    struct snic_link wait; /* of the one shared thing it waits for */
    struct snic_loop_task task;
    struct director_end client;
    struct director_end host;
    uint64_t id;
    uint64_t user;
    uint64_t frame_state;
    uint64_t reply_state;
    uint64_t mem;       /* bytes of blocks and jobs it holds */
    uint64_t job_bytes; /* of these, of the engine's pool */
    uint64_t flight;    /* bytes that host and engine work on: I3 in slot.c */
    uint64_t progress;  /* bytes received and sent */
    uint64_t mark;      /* progress at mark_ns: I3 in memory.c */
    uint64_t mark_ns;
    uint64_t active_ns;      /* last received or sent */
    uint64_t heavy_until_ns; /* it has had many messages under way: backlog.c */
    /* the message being assembled, when it spans buffers */
    unsigned char *part;
    uint32_t part_size;
    uint32_t part_cap;
    uint8_t part_kind; /* where it lies */
    /* the message that was classified and waits */
    uint8_t decided; /* 1: route, flags, msg below hold */
    uint8_t route;
    uint8_t tried; /* offload refused it */
    uint32_t msg_flags;
    const unsigned char *msg; /* NULL: none; not decided: it will be, again */
    uint32_t msg_size;
    struct director_slot *piece_of; /* of the message at hand, once part of it was sent */
    struct snic_link slots;
    struct director_slot *current; /* not IN_ORDER: its bytes may go out */
    struct snic_queue started;
    struct snic_queue hosted;     /* net: slots that wait for their replies, in order */
    struct director_block *carry; /* net: the beginning of a reply not yet framed */
    uint32_t pending;
    uint32_t window; /* pending may be so many: learnt from how replies are taken */
    uint32_t reply;  /* bytes of one, the larger the longer remembered: bounds the window */
    uint32_t offloading;
    uint32_t job_contexts; /* of the engine's, that hold its replies */
    uint32_t barriers;
    uint32_t switches; /* of these */
    uint32_t wait_for;
    uint8_t raw;     /* passed through */
    uint8_t closing; /* nothing more is answered; close when all is sent */
    uint8_t dead;    /* the client is gone */
    uint8_t known;   /* to the host */
    uint8_t notify;  /* the host must hear of the end */
    uint8_t ended;   /* the net host has closed; some of its bytes are still to be read */
    uint8_t evicted; /* reset for the memory it holds, which is still to come back */
    uint8_t kept;    /* others are reset before it */
    uint8_t used;
    uint8_t admitted; /* its turn began with room in the backlog */
    uint8_t woken;    /* it has waited for that */
    uint8_t resumed;  /* it is its turn among those that do not read: unread.c */
};

/* A client that is sent the reason of its refusal. */
struct director_refusal {
    struct snic_director *d;
    struct snic_net_conn *net; /* NULL: the place is free */
    struct snic_net_send_req req;
    struct snic_iov iov;
    char text[SNIC_DIRECTOR__TEXT];
};

/* ---- The director ---- */

/*
 * Messages that outgrow a block: runs of an area, as long as they are, and buffers for the longest,
 * which also are for those that find no run.
 */
struct director_long {
    unsigned char *area; /* blocks of SNIC_DIRECTOR__BLOCK */
    struct base_runs runs;
    struct snic_queue idle; /* buffers */
    struct snic_link waiters;
    uint32_t idle_count;
};

struct snic_director {
    struct snic_director_opts opts;
    struct snic_director_user user;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_offload *offload;
    struct snic_director_conn *conns;
    struct director_slot *slots;
    struct director_block *blocks;
    struct snic_queue slots_idle; /* last in, first out */
    uint32_t conns_made; /* so many have been used; behind them memory is as it was found */
    uint32_t slots_made;
    uint32_t slots_count;
    uint32_t slots_free;
    uint32_t slots_own; /* of each connection before it takes from what all share */
    uint32_t slots_common;
    uint32_t blocks_count;
    uint32_t blocks_free;
    struct director_chunk *chunks;
    struct snic_link chunks_open; /* blocks.c: I1 */
    struct snic_link chunks_fresh;
    uint32_t chunk_shift;   /* blocks of the first chunk that are missing */
    uint32_t chunks_empty;  /* on `open`, with no block used */
    uint32_t chunks_spare;  /* blocks.c: I3 */
    uint64_t flight;        /* of all connections */
    uint64_t unread_flight; /* of these, messages that unread.c counts */
    uint64_t held;          /* bytes of replies: `mem` of all connections that are not kept */
    uint64_t total_bytes;   /* that they may hold; 0: what there is */
    struct director_long parts;
    struct snic_link all;
    struct snic_link idle;
    struct snic_link dirty;
    struct snic_link wait_slot;
    struct snic_link wait_block;
    struct snic_link wait_channel;
    struct snic_link wait_backlog;
    struct snic_link wait_unread;
    struct snic_timer backlog_timer;
    uint64_t pushed; /* backlog.c */
    uint64_t taken;
    uint64_t light_until_ns;
    uint64_t backlog_mark; /* `pushed` when the timer was armed */
    struct snic_loop_poller poller;
    struct snic_timer stall;
    uint64_t stall_since_ns; /* memory has run out since then, again and again */
    uint64_t stall_last_ns;
    struct snic_timer drain;
    struct snic_timer idle_timer;
    struct director_refusal refusals[SNIC_DIRECTOR__REFUSALS];
    uint32_t refusals_used;
    void (*drained)(void *ctx);
    void *drained_ctx;
    struct snic_loop_msg drained_msg;
    struct snic_net_listener *listeners[SNIC_DIRECTOR__LISTENERS];
    struct snic_net_addr host_addr;
    uint64_t serial; /* of connections */
    uint8_t host_net;
    uint8_t draining;
    uint8_t drain_over; /* drain_ms are over: nothing is waited for any more */
    /* the channel upstream */
    struct snic_channel *channel;
    struct snic_loop_msg channel_close;
    struct snic_queue retry;       /* slots */
    struct director_slot *piecing; /* its long message has begun */
    uint64_t closed_wait;          /* connections whose end the host has not heard of */
    uint32_t up_at;                /* progress in the record that was not taken */
    uint32_t record_max;
    uint32_t message_max; /* of both: opts.message_max, or less if the host's is smaller */
    struct director_refused refused; /* the last host */
    uint8_t attached;
    uint8_t broken;  /* the host violated the protocol */
    uint8_t stalled; /* up is not heard for want of blocks */
    uint8_t channel_close_queued;
    struct snic_director_stats stats;
    struct director_stage stage;
};

/* blocks.c */
uint32_t director_chunks_count(uint32_t blocks);
void director_blocks_start(struct snic_director *d);
struct director_block *director_block_take(struct snic_director_conn *c, uint32_t reserve);
void director_block_give(struct snic_director_conn *c, struct director_block *b);
uint64_t director_blocks_check(const struct snic_director *d);

/* memory.c */
void director_ready(struct snic_director_conn *c);
void director_conn_abort(struct snic_director_conn *c);
void director_wait(struct snic_director_conn *c, struct snic_link *list, uint32_t why);
void director_wake(struct snic_director *d, struct snic_link *list, uint32_t why);
uint64_t director_share(const struct snic_director_conn *c);
void director_hold(struct snic_director_conn *c, uint64_t bytes);
void director_moved(struct snic_director_conn *c, uint64_t bytes);
void director_stall_check(struct snic_director *d);
void director_total_check(struct snic_director *d);
void director_stall_fire(struct snic_timer *t, uint64_t now_ns);

/* slot.c */
struct director_slot *director_slot_take(struct snic_director_conn *c);
void director_slot_give(struct director_slot *s);
int director_slot_room(const struct snic_director_conn *c);
void director_flight_end(struct director_slot *s);
int director_flight_full(const struct snic_director_conn *c);
void director_job_release(struct director_slot *s);

/* part.c */
int director_part_grow(struct snic_director_conn *c, uint32_t want);
void director_part_give(struct snic_director_conn *c);
void director_conn_consume(struct snic_director_conn *c);

static inline int director_out_empty(const struct director_end *e)
{
    return e->cursor == NULL && e->busy == 0;
}

/* end.c */
int director_offload_unfair(const struct snic_director_conn *c);
void director_conn_check(struct snic_director_conn *c);
void director_conn_release(struct snic_director_conn *c);
void director_drain_check(struct snic_director *d);

/* out.c */
uint32_t director_queue_append(struct snic_director_conn *c, struct snic_queue *q, const void *data,
                               uint32_t size, uint32_t reserve);
void director_out_more(struct director_end *e);
uint32_t director_out_append(struct director_end *e, const void *data, uint32_t size,
                             uint32_t reserve);
void director_out_splice(struct director_end *e, struct snic_queue *q);
void director_out_job(struct director_end *e, struct director_slot *s);
void director_out_drop(struct director_end *e);
void director_out_init(struct director_end *e, struct snic_director_conn *c);
int director_out_flush(struct director_end *e);
void director_in_push(struct director_end *e, struct snic_net_buf *b);
struct snic_net_buf *director_in_head(struct director_end *e);
void director_in_take(struct director_end *e, uint32_t bytes);
void director_in_drop(struct director_end *e);

/* reply.c */
int director_reply_text(struct director_slot *s, const void *text, uint32_t size);
uint32_t director_reply_bytes(struct director_slot *s, const void *data, uint32_t size);
void director_reply_done(struct director_slot *s);
void director_reply_gone(struct director_slot *s);
void director_reply_unblock(struct director_slot *s);
void director_reply_gone_all(struct snic_director_conn *c, uint32_t net);
void director_reply_cut(struct snic_director_conn *c);
int director_reply_current(struct director_slot *s);
void director_reply_advance(struct snic_director_conn *c);
void director_reply_drop(struct snic_director_conn *c);
uint64_t director_reply_token(const struct director_slot *s);
struct director_slot *director_reply_slot(struct snic_director *d, uint64_t conn, uint64_t seq);

/* offloaded.c */
int director_offload(struct snic_director_conn *c);

/* accept.c */
void director_refusals_drop(struct snic_director *d);
void director_idle_fire(struct snic_timer *t, uint64_t now_ns);
void director_accept(void *ctx, struct snic_net_conn *n, const struct snic_net_addr *peer);

/* conn.c */
void director_conn_bind(struct snic_director_conn *c, struct snic_net_conn *n);
uint32_t director_turn(struct snic_loop_task *t, uint32_t budget);

/* backlog.c */
void director_backlog_turn_begins(struct snic_director_conn *c);
void director_backlog_turn_ends(struct snic_director_conn *c);
void director_backlog_sent(struct director_slot *s);
void director_backlog_answered(const struct director_slot *s);
int director_backlog_wait(struct snic_director_conn *c);
void director_backlog_resume(struct snic_director *d);
void director_backlog_fire(struct snic_timer *t, uint64_t now_ns);

/* unread.c */
int director_unread(const struct snic_director_conn *c);
uint32_t director_unread_window(const struct snic_director *d);
int director_unread_wait(struct snic_director_conn *c);
void director_unread_moved(struct snic_director_conn *c);
void director_unread_resume(struct snic_director *d);

/* upstream.c and upstream_net.c */
int director_to_host(struct snic_director_conn *c, struct director_slot **slot,
                     const unsigned char *msg, uint32_t size, uint32_t flags);
int director_retry_one(struct director_slot *s);
void director_retry_all(struct snic_director *d);
int director_net_send(struct snic_director_conn *c, struct director_slot *s,
                      const unsigned char *msg, uint32_t size);
void director_net_pump(struct snic_director_conn *c);
void director_net_over(struct snic_director_conn *c);
int director_net_connect(struct snic_director_conn *c);

/* upstream_send.c and upstream_channel.c */
int director_channel_push(struct snic_director *d);
int director_channel_stage(struct snic_director *d, const struct director_wire *w,
                           const void *bytes);
int director_channel_send(struct snic_director_conn *c, struct director_slot *s,
                          const unsigned char *msg, uint32_t size);
void director_channel_closed_conn(struct snic_director_conn *c);
int director_channel_flush(struct snic_director *d);

#endif /* SNIC_DIRECTOR_PRIV_H */
