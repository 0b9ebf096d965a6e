/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The io_uring of a loop, for the library's other io_uring backends (io, net,
 * dma/shm). Everything here is called on the loop's owner thread.
 *
 * A backend embeds a struct snic_uring_op in whatever waits for the kernel,
 * takes a submission entry with loop_uring_sqe(), prepares it with liburing's
 * io_uring_prep_*(), and has `complete` called by the loop for each completion.
 * The entry is submitted by the loop with everything else of the iteration:
 * only the loop calls io_uring_submit() or touches the completion queue.
 */
#ifndef SNIC_LOOP_URING_H
#define SNIC_LOOP_URING_H

#include <liburing.h>

#include "snicstore/loop.h"

struct snic_uring_op;
/**
 * @p res and @p flags are the completion's. With IORING_CQE_F_MORE in flags the
 * operation continues and completes again; else this is its last completion and
 * the op may be reused or freed from inside the call.
 */
typedef void (*snic_uring_complete_fn)(struct snic_uring_op *op, int32_t res, uint32_t flags);

/** Address goes into user_data. It stays where it is until its last completion. */
struct snic_uring_op {
    snic_uring_complete_fn complete;
};

/** 1 if @p l is an io_uring loop. The others may be called only if so. */
int loop_uring_is(const struct snic_loop *l);
/**
 * A fresh submission entry whose user_data will be @p op: call io_uring_prep_*()
 * on it, and do NOT set user_data again (prep leaves it alone in liburing 2.3
 * and newer; loop_uring_sqe() sets it after clearing). When the queue is full
 * it is flushed to the kernel first. IOSQE_CQE_SKIP_SUCCESS: only by loop_uring_quiet().
 * @return NULL only when the kernel refuses to take entries (out of memory):
 *         keep the request, try again from a deferred message
 */
struct io_uring_sqe *loop_uring_sqe(struct snic_loop *l, struct snic_uring_op *op);
/**
 * Set @p op on an entry after the prep call; needed only for prep functions that
 * clear user_data (none in liburing 2.3), harmless otherwise.
 */
static inline void loop_uring_sqe_op(struct io_uring_sqe *sqe, struct snic_uring_op *op)
{
    sqe->user_data = (uint64_t)(uintptr_t)op;
}
/** Entries free before the queue must be flushed: for links, which must not be split. */
uint32_t loop_uring_sq_space(const struct snic_loop *l);
/**
 * Run @p msg at the end of the iteration, before what is queued is submitted: by then all that
 * happened has led to what it leads to. As snic_loop_defer() otherwise.
 */
void loop_uring_leave(struct snic_loop *l, struct snic_loop_msg *msg);

/* ---- Entries that complete while they are submitted ---- */

/** As snic_uring_op, of an entry whose success needs no completion. Zero it, then init. */
struct loop_uring_quiet {
    struct snic_uring_op op; /**< for loop_uring_sqe()                                        */
    struct snic_link link;   /**< the loop's                                                  */
    snic_uring_complete_fn complete;
    int32_t result;
};
/** @p complete gets the address of q->op. */
void loop_uring_quiet_init(struct loop_uring_quiet *q, snic_uring_complete_fn complete);
/** 1 if the kernel can leave out completions of sends as loop_uring_quiet() needs it. */
int loop_uring_quiet_able(const struct snic_loop *l);
/**
 * Of @p sqe, just prepared for @p q: a success makes no completion. The operation must end while it
 * is submitted, and anything but @p result must be a failure to the kernel, as of a send with
 * MSG_DONTWAIT and MSG_WAITALL. A failure completes as ever, and wakes the loop; a success when the
 * loop next collects completions, for which it does not wake.
 */
void loop_uring_quiet(struct snic_loop *l, struct io_uring_sqe *sqe, struct loop_uring_quiet *q,
                      int32_t result);
/** Something waits for a success after all: the loop does not sleep before it has collected it. */
void loop_uring_quiet_now(struct snic_loop *l);

/** Push what is queued to the kernel now; for links and for close. 0 or SNIC_EIO. */
int loop_uring_flush(struct snic_loop *l);
/**
 * Ask the kernel to end @p victim early, which then completes with -ECANCELED or
 * its result. Fire and forget; 0, or SNIC_EAGAIN no entry to be had.
 */
int loop_uring_cancel(struct snic_loop *l, struct snic_uring_op *victim);
/** Operations without their last completion, the loop's own not counted. */
uint64_t loop_uring_outstanding(const struct snic_loop *l);
/** The ring itself, for registering buffer rings and the like. */
struct io_uring *loop_uring_ring(struct snic_loop *l);
/** SNIC_LOOP_HAVE_* in use: the kernel has it and opts.mask does not hide it. */
uint32_t loop_uring_features(const struct snic_loop *l);
/** A buffer-group id not in use on this loop, or SNIC_ENOSPC. Give it back with _put. */
int loop_uring_group_get(struct snic_loop *l);
void loop_uring_group_put(struct snic_loop *l, int group);

/* ---- Registered files ---- */

/**
 * Put @p fd into the ring's file table; entries then use the slot with
 * IOSQE_FIXED_FILE. @p fd stays the caller's and may even be closed.
 * @return slot >= 0; SNIC_ENOTSUP without the feature; SNIC_ENOSPC table full;
 *         SNIC_ENOMEM, SNIC_EIO. On any error use the plain descriptor.
 */
int loop_uring_file_add(struct snic_loop *l, int fd);
/** Undo; operations in flight keep their file. A negative slot is ignored. */
void loop_uring_file_remove(struct snic_loop *l, int slot);

/* ---- A descriptor watched for readability (eventfd, pidfd, ...) ---- */

struct loop_uring_poll;
/** @p events are poll(2) bits, or a negative SNIC_E* after which the watch has ended. */
typedef void (*loop_uring_poll_fn)(struct loop_uring_poll *p, int events);

/** Zero it and start. Multishot: one call per wake-up, wake-ups may be coalesced. */
struct loop_uring_poll {
    struct snic_uring_op op;
    struct snic_loop *loop;
    struct snic_link link; /**< the loop's                                               */
    loop_uring_poll_fn fn;
    int fd;
    uint8_t active;  /**< not stopped                                                   */
    uint8_t pending; /**< the kernel still holds op: do not free                        */
};
/**
 * Watch @p fd for POLLIN and errors. An eventfd needs no read(): each write makes
 * one more event; do read it if it must also be polled elsewhere.
 * @return 0; SNIC_EAGAIN no entry to be had
 */
int loop_uring_poll_start(struct loop_uring_poll *p, struct snic_loop *l, int fd,
                          loop_uring_poll_fn fn);
/**
 * No more calls of fn after this. Iterate the loop until !p->pending before
 * freeing it or closing the loop.
 */
void loop_uring_poll_stop(struct loop_uring_poll *p);

#endif /* SNIC_LOOP_URING_H */
