/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host's half.
 *
 *   NONE ── attach ──▶ OPENING ── DONE ──▶ OPEN ── end ──▶ ENDING ── DONE ──▶ OVER ── attach ...
 *                         (from everywhere) ── death, protocol error, silence ──▶ OVER
 *
 * A request is in one place: sending or syncing (its message waits), a slot (its message was sent),
 * waiting (a page is locked by another), finished (done is owed).
 *
 * Invariants
 *   L1  A request holds at most one page, and while it waits for another one none, but for
 *       TRUNCATE, which keeps the page that the new end cuts and waits for pages behind it only.
 *   L2  A page that is being filled is unlocked when the DPU has answered, or when the region is
 *       abandoned: before, the DPU may write into it at any time.
 *   L3  A truncation that holds a dirty page is never behind an fsync that waits for this page;
 *       fsyncs have a queue of their own, and one slot of the DPU's is never theirs.
 *   L4  In OVER no slot is taken and nothing waits or is to be sent.
 *   L5  The link times out for silence only: nothing received for timeout_ns while a request is
 *       out. The DPU answers keep-alives, so a slow store does not count as silence.
 *   L6  What is dirty is forgotten with the link only if the DPU may have written it to the store,
 *       or may do so yet; not by an end before the beginning, nor for a DPU that has detached from
 * it. L7  While the file system takes no pages no request waits for an entry of a set that is full:
 *       only a flush would free one.
 *
 * An end in OPENING waits for the DPU's DONE.
 */
#ifndef SNIC_HCACHELINK_HOST_PRIV_H
#define SNIC_HCACHELINK_HOST_PRIV_H

#include "hcachelink/hcachelink_priv.h"

enum { HCACHELINK_NONE, HCACHELINK_OPENING, HCACHELINK_OPEN, HCACHELINK_ENDING, HCACHELINK_OVER };

/* req.step besides the types of messages: where an answer or a wake-up continues. */
enum {
    HCACHELINK_GO = 0,
    HCACHELINK_FILLED = 32,
    HCACHELINK_BEHIND = 33,
    HCACHELINK_BEHIND_AGAIN = 34,
    HCACHELINK_CUT = 35
};

/* req.slot when it has none. */
#define SNIC_HCACHELINK__NO_SLOT UINT32_MAX
#define SNIC_HCACHELINK__ARMED (UINT32_MAX - 1) /* the DPU has been notified that it waits */

struct hcachelink_slot {
    struct snic_hcachelink_req *req; /* NULL: free */
    uint32_t generation;
};

struct snic_hcachelink_host {
    struct snic_hcachelink_host_opts opts;
    struct snic_hcachelink_host_stats stats;
    struct snic_hcache_host host;
    struct snic_dma *dma;
    void *region; /* NULL: none */
    void *block;  /* it lies in there, aligned */
    size_t region_bytes;
    unsigned char header[SNIC_HCACHE_HEADER_BYTES]; /* of the region, as it was made */
    uint64_t key;
    uint64_t epoch;       /* of the DPU: counts attaches */
    uint64_t since_ns;    /* of OPENING and ENDING */
    uint64_t received_ns; /* the last message of the DPU */
    uint32_t page_shift;  /* of cache.page_bytes */
    uint32_t taken;       /* slots */
    uint32_t fsyncs;      /* of them */
    uint32_t credit;      /* that may be */
    int reason;
    int32_t refused; /* the file system takes no pages; 0: it does */
    uint8_t state;
    uint8_t msg_due; /* REGION or END, to be sent */
    uint8_t ending;  /* in OPENING: END follows */
    uint8_t keep;    /* the DPU has nothing of the region, and what is dirty is there */
    uint8_t opened_due;
    uint8_t closed_due;
    uint8_t retry_due; /* waiting requests may try again */
    uint8_t sim;
    struct snic_queue sending, syncing, waiting, finished;
    struct hcachelink_slot slots[SNIC_HCACHELINK__TASKS_MAX];
    struct snic_timer retry, tick;
    struct snic_loop_poller poller;
};

/* ---- host_send.c ---- */

void hcachelink_host_kick(const struct snic_hcachelink_host *h);
/* 1, or 0 no room. To the dead: as good as sent. */
int hcachelink_host_send(struct snic_hcachelink_host *h, const struct hcachelink_message *m);
/* The reader has reached a marked page. Best effort. */
void hcachelink_host_ahead(struct snic_hcachelink_host *h, uint64_t ino, uint64_t lpn);

/* ---- host_link.c ---- */

/* Send what is to be sent, as far as there is room. */
void hcachelink_host_send_all(struct snic_hcachelink_host *h);
/* It is over; all requests end with @p reason. */
void hcachelink_host_over(struct snic_hcachelink_host *h, int reason);
int hcachelink_host_poll(struct snic_loop_poller *p, int sleeping);
void hcachelink_host_retry(struct snic_timer *t, uint64_t now_ns);
void hcachelink_host_tick(struct snic_timer *t, uint64_t now_ns);

/* ---- host_req.c ---- */

/* 0, or SNIC_EINVAL. */
int hcachelink_req_check(const struct snic_hcachelink_host *h,
                         const struct snic_hcachelink_req *req);
/* Continue: 1 finished, result is set; 0 it is in one of the queues. */
int hcachelink_req_run(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req);
/* The DPU has answered; as run. */
int hcachelink_req_answered(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                            int32_t result);
/* Its message to the DPU. */
void hcachelink_req_message(const struct snic_hcachelink_req *req, struct hcachelink_message *m);
/* Give back what it holds; its result is @p result. */
void hcachelink_req_abort(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                          int result);

/* No request is at the DPU, or to be sent to it. */
static inline int hcachelink_host_quiet(const struct snic_hcachelink_host *h)
{
    return h->taken == 0 && snic_queue_empty(&h->sending) && snic_queue_empty(&h->syncing);
}

static inline struct snic_hcachelink_req *hcachelink_req_of(struct snic_node *n)
{
    return SNIC_CONTAINER(n, struct snic_hcachelink_req, node);
}

#endif /* SNIC_HCACHELINK_HOST_PRIV_H */
