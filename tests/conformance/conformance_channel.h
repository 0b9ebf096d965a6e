/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * An echo service over a channel, for every backend: the host asks with random sizes, the DPU
 * answers each request once, holding tokens and slots for random times and giving them back in
 * random order. Nothing polls: a waiter is woken by an event or not at all, so that a lost
 * wake-up shows as a run that stands still.
 *
 * Callbacks count what is wrong in `bad`; the test looks at it afterwards, in its own thread.
 */
#ifndef SNIC_TESTS_CONFORMANCE_CHANNEL_H
#define SNIC_TESTS_CONFORMANCE_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "snicstore/channel.h"

/** Of the modes of a test: all, or under ThreadSanitizer every so manieth. */
#if defined(__SANITIZE_THREAD__)
#define CHAN_STRIDE 7
#else
#define CHAN_STRIDE 1
#endif

#define CHAN_KIND 7
#define CHAN_HELD 64
#define CHAN_SENDERS 16

struct chan_opts {
    uint64_t seed;
    uint32_t requests; /* per sender                                               */
    uint32_t threads;  /* 0: the host's loop sends                                 */
    uint32_t payload_max;
    uint32_t payload_align;
    uint64_t ring_bytes;
    uint32_t flags;        /* of open                                              */
    uint32_t accept_flags; /* of accept                                            */
    uint32_t batch_bytes;
    uint64_t gap_ns;  /* longest pause between bursts                              */
    uint64_t hold_ns; /* longest time a token or slot is held                      */
    uint32_t quiet;   /* the DPU refuses nothing of its own                        */
    uint32_t mute;    /* the DPU answers nothing: no bell but the one for space        */
    uint32_t window;  /* the host's loop has at most so many open; 0: no bound     */
    uint64_t look_ns; /* the host looks so often by itself; 0: only when it is rung */
};

/** Something to be returned at a time. */
struct chan_held {
    uint64_t due_ns;
    int kind; /* 0 free, 1 token, 2 slot to commit, 3 slot to cancel, 4 resume     */
    struct snic_channel_token token;
    struct snic_channel_slot slot;
    uint32_t bytes;
};

struct chan_side {
    struct chan_opts o;
    struct snic_rng rng;
    struct snic_loop *loop;
    struct snic_dma *d;
    struct snic_channel_hub *hub;
    void *hub_mem;
    struct snic_channel *c;
    struct snic_timer give;
    struct chan_held held[CHAN_HELD];
    uint32_t holding;
    uint32_t bad;
    const char *why; /* the first thing that was wrong                             */
    uint32_t opened;
    uint32_t closed;
    uint32_t deaths;
    int reason;
    uint32_t stalled;
};

struct chan_dpu_side {
    struct chan_side s;
    uint32_t next[CHAN_SENDERS]; /* expected sequence number per sender            */
    uint32_t order;
    uint32_t requests;
};

struct chan_thread {
    struct chan_host_side *h;
    uint32_t index;
    pthread_t thread;
};

struct chan_host_side {
    struct chan_side s;
    struct snic_channel_sender sender;
    struct snic_timer push;
    struct snic_timer look;
    uint32_t pushed;
    uint32_t blocked;
    uint32_t writable;
    uint32_t replies;
    uint32_t last_order;
    unsigned char *seen; /* one byte per request                                   */
    struct chan_thread threads[CHAN_SENDERS];
    pthread_mutex_t lock;
    pthread_cond_t space;
    uint64_t space_count;
    uint32_t senders_done;
    _Atomic(uint32_t) finished; /* threads that have sent all                      */
};

/** Attach a hub to s->d (already opened, on s->loop). */
void chan_host_begin(struct chan_host_side *h, const struct chan_opts *o);
void chan_dpu_begin(struct chan_dpu_side *u, const struct chan_opts *o);
/** Open the channel and start sending. */
void chan_host_open(struct chan_host_side *h);
uint32_t chan_total(const struct chan_opts *o);
/** 1 when every request was answered. */
int chan_host_done(const struct chan_host_side *h);
/** Give everything held back, now. */
void chan_give_all(struct chan_side *s);
/** Close channel and hub, and with it the dma handle; frees the hub. */
void chan_end(struct chan_side *s);
void chan_threads_start(struct chan_host_side *h);
void chan_threads_join(struct chan_host_side *h);
void chan_host_free(struct chan_host_side *h);

#endif /* SNIC_TESTS_CONFORMANCE_CHANNEL_H */
