/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The loop on an io_uring: what uring.c and uring_quiet.c share. Invariants are there. */
#ifndef SNIC_LOOP_URING_PRIV_H
#define SNIC_LOOP_URING_PRIV_H

#include "loop/loop_priv.h"
#include "loop/uring.h"

#define SNIC_URING__FILES 4096
#define SNIC_URING__GROUPS 1024

struct loop_uring {
    struct snic_loop core;
    struct io_uring ring;
    struct loop_uring_poll wake;
    struct snic_link polls;           /* watched descriptors, the wake-up's included */
    struct snic_uring_op ignored;     /* U1 */
    struct snic_link quiet;           /* U4: not submitted yet */
    struct snic_link quiet_submitted; /* submitted */
    uint8_t quiet_able;
    uint8_t quiet_now; /* do not sleep before these are delivered */
    uint64_t outstanding;
    uint32_t features;
    uint32_t files_max;
    uint32_t files_hint;
    int event_fd;
    int epoll_fd;    /* for callers that sleep elsewhere, or -1 */
    int ready_fd;    /* registered with the ring, in the epoll set, or -1 */
    uint8_t enabled; /* U2 */
    uint8_t regions_ready;
    uint64_t groups[SNIC_URING__GROUPS / 64];
    uint64_t files[SNIC_URING__FILES / 64]; /* one bit per slot in use */
};

static inline struct loop_uring *loop_uring_self(const struct snic_loop *l)
{
    return (struct loop_uring *)(uintptr_t)l;
}

/** After a call that submits: where it left no entry, the quiet ones are submitted. */
void loop_uring_quiet_left(struct loop_uring *u);
/** Deliver the successes, of which there is none among the first @p ready completions; U4. */
uint32_t loop_uring_quiet_deliver(struct loop_uring *u, uint32_t ready);

#endif /* SNIC_LOOP_URING_PRIV_H */
