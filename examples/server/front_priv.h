/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/front_priv.h
 * A monolith's connections.
 *   F1 messages are numbered per connection; where replies are kept in order, slot
 *      seq & (pending_max - 1) holds one that is ready before those of earlier messages.
 *      A long one is copied once, when it comes: its turn may come with many others in one
 *      iteration, of which F6 knows nothing.
 *   F2 at most one send is in flight per connection, of the first `flight` bytes of `out`; what is
 *      answered meanwhile leaves with the next one, once per loop iteration.
 *   F3 input is `in` (the bytes of an unfinished message) followed by the lent buffers.
 *   F4 while a message waits in the engine no other is taken from its client: what waits there, and
 *      the replies of what is being read from the device, would be outside of every limit.
 *   F5 a client's id is its slot and a generation: a reply to one that is gone is dropped.
 *   F6 messages and replies of one iteration of the loop are bounded, of all clients together;
 *      what is behind continues in the next one, with timers and other connections in between.
 *   F7 a message that the engine puts off stays in the input, with its client on `put_off`, until
 *      the engine has room again: it counts as input for the limits, and in F6 each time that it
 *      is passed. Its client is not idle.
 */
#ifndef EX_SERVER_FRONT_PRIV_H
#define EX_SERVER_FRONT_PRIV_H

#include "front.h"
#include "front_out.h"

/** Connections beyond conns_max that get full()'s text at a time; more are reset. */
#define FRONT_REFUSALS 16u

struct front_in {
    unsigned char *data;
    size_t size;
    size_t memory;
};

struct front_slot {
    struct front_out_block *first; /* NULL: not answered yet */
    size_t size;
    int close_after;
};

struct front_conn {
    struct ex_front *front;
    struct snic_net_conn *net; /* NULL: gone, slot free */
    uint64_t id;
    struct front_in in;
    struct snic_queue lent;
    uint64_t frame_state;
    uint64_t next_seq;
    uint64_t next_out; /* messages that are answered, in order; or, without one, how many */
    uint64_t waits;    /* the messages before this one end before another begins (F4) */
    struct front_slot *slots;
    struct front_out out;
    struct snic_net_send_req send;
    struct snic_iov iov[FRONT_OUT_IOV];
    size_t flight;     /* bytes of the send in flight; 0: none */
    uint64_t begun_ns; /* when that was begun */
    int lazy;          /* its end may come with the next event only */
    char peer[48];
    int paused;
    int eof;         /* input is over: broken, idle, or worked off after a half-close */
    int half_closed; /* the peer sends no more */
    int closing;
    struct snic_link dirty; /* has output to send at the end of the iteration */
    struct snic_link later; /* has input for the next one (F6), or is put off (F7) */
    int is_put_off;
    size_t slot_bytes;      /* of answers before their turn */
    uint64_t active_ns;     /* last received or sent */
    uint64_t soft_since_ns; /* above the soft limit since then, taking nothing; 0: it is not */
    uint64_t hard_since_ns; /* the hard limit, likewise */
    int no_evict;
    int evicted;
    size_t counted; /* what it holds, in front->held */
    uint32_t next_free;
};

/* A connection for which there is no place, until its end. */
struct front_refusal {
    struct ex_front *front;
    struct snic_net_conn *net; /* NULL: free */
    struct snic_net_send_req send;
    struct snic_iov iov;
    char text[512];
};

struct ex_front {
    struct ex_front_opts opts;
    struct snic_loop *loop;
    struct snic_net_listener *listener;
    struct front_conn *conns;
    uint32_t free_first; /* index + 1 */
    uint64_t generation;
    struct snic_link dirty;
    struct snic_loop_msg flush;
    int flush_queued;
    struct snic_link later;   /* F6 */
    struct snic_link put_off; /* F7, in the order in which they are passed again */
    struct snic_timer turn_timer;
    uint64_t turn_ns;
    uint64_t turn_bytes; /* of messages and replies in the iteration of turn_ns */
    int draining;
    uint64_t drain_ns; /* draining since then */
    void (*done)(void *ctx);
    void *done_ctx;
    uint64_t held, held_most; /* unread replies of all; at most, since memory was returned */
    uint64_t logged_ns[EX_FRONT_LIMITS];
    char own[48]; /* the address that it listens on */
    struct front_refusal refusals[FRONT_REFUSALS];
    uint32_t refusals_used;
    struct ex_refused reported;
    struct snic_timer watch;
    struct ex_front_stats stats;
};

/* front_limit.c: what clients may hold. */

/** Replies that the client has not taken. */
size_t front_unsent(const struct front_conn *c);
/** What @p c holds has changed. */
void front_account(struct front_conn *c);
/** Time has passed: close @p c if it is above a limit for too long. */
void front_limit(struct front_conn *c);

/* front_conn.c: input and output of a connection. */

/** @return NULL: it has gone */
struct front_conn *front_find(struct ex_front *f, uint64_t id);
void front_recv(void *ctx, struct snic_net_conn *net, struct snic_net_buf *buf);
void front_half_closed(void *ctx, struct snic_net_conn *net);
void front_flush(struct snic_loop_msg *m);
/** The next iteration: continue with those that were stopped (F6). */
void front_turn(struct snic_timer *t, uint64_t now_ns);
/** Send, or close, at the end of the iteration. */
void front_mark(struct front_conn *c);
/** Free what a connection holds that is gone. */
void front_free(struct front_conn *c);

#endif
