/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/loop.h
 * The event loop: one per thread, the only place that waits.
 *
 * It owns the io_uring, the clock, the timers and the wake-up. The doors (io,
 * dma, net, kv) attach to a loop and deliver their completions through it, so a
 * thread sleeps in one place, whatever it waits for. The same interface exists
 * inside a simulated world (snic_world), where many loops share one virtual clock
 * and one seed, and a run replays bit for bit.
 *
 * Depends on  snicstore/base.h.
 * Memory      Backends allocate at open and free at close; nothing in between.
 *             Timers, messages, tasks and pollers are caller-owned, intrusive.
 * Threads     One owner thread per loop. snic_loop_post() and snic_loop_wake()
 *             are the only calls for other threads.
 * Progress    snic_loop_once() is the only call of the library that blocks.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       ns on a monotonic clock whose zero is arbitrary, and which also counts the time that
 *             the machine is suspended (CLOCK_BOOTTIME). A sleeping loop's wait does not count it:
 *             after a suspension a timer may be late by what was left of that wait.
 *
 * One iteration: reap all completions and deliver their `done`s; run deferred
 * and posted messages; then fire due timers (after the reaping, so that a
 * stalled process sees the answer before the time-out); run ready tasks in
 * deficit turns; run what these have deferred, and what that has; run pollers;
 * submit everything queued in one system call; sleep until the next deadline or
 * completion if nothing is left to do.
 */
#ifndef SNIC_LOOP_H
#define SNIC_LOOP_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_loop;

/* ---- Messages ---- */

struct snic_loop_msg;
typedef void (*snic_loop_msg_fn)(struct snic_loop_msg *msg);

/** Intrusive message: set fn, then post or defer. Borrowed until fn is called. */
struct snic_loop_msg {
    struct snic_node node;
    snic_loop_msg_fn fn;
};

/**
 * Run @p msg on the loop's thread and wake it if it sleeps. What the poster
 * wrote before is visible to fn. Messages of one thread run in posting order.
 * Safe in a signal handler. Posting a message that is still queued is a
 * programmer error. [any]
 */
SNIC_API void snic_loop_post(struct snic_loop *l, struct snic_loop_msg *msg) SNIC_NONNULL(1, 2);
/**
 * Run @p msg soon, never from inside this call; doors deliver `done`s this way. Borrowed until fn
 * is called. [owner]
 */
SNIC_API void snic_loop_defer(struct snic_loop *l, struct snic_loop_msg *msg) SNIC_NONNULL(1, 2);
/** Make a sleeping loop go round once. Safe in a signal handler. [any] */
SNIC_API void snic_loop_wake(struct snic_loop *l) SNIC_NONNULL(1);

/* ---- Time ---- */

/** The time of this iteration, read once per iteration; it never goes back. [owner] */
SNIC_API uint64_t snic_loop_now(const struct snic_loop *l) SNIC_NONNULL(1);
/** The clock itself, for measurements; equals snic_loop_now() in a world. [owner] */
SNIC_API uint64_t snic_loop_clock(const struct snic_loop *l) SNIC_NONNULL(1);
/**
 * Call t->fn at or after @p deadline_ns, never early; re-arms an armed timer. Borrowed until then
 * or until cancelled. A timer that arms itself in its function runs in a later iteration. [owner]
 */
SNIC_API void snic_loop_arm(struct snic_loop *l, struct snic_timer *t, uint64_t deadline_ns)
    SNIC_NONNULL(1, 2);
/** Disarm; t->fn is not called any more. Harmless if not armed. [owner] */
SNIC_API void snic_loop_cancel(struct snic_loop *l, struct snic_timer *t) SNIC_NONNULL(1, 2);

/* ---- Tasks: work by deficit round robin ---- */

struct snic_loop_task;
/**
 * Do work worth at most about @p budget and return what it cost (units are the
 * users', the same for all tasks of a loop; bytes or messages). A task that
 * returns less than @p budget has nothing left and leaves the ready list; one
 * that overdraws pays in its next round.
 */
typedef uint32_t (*snic_loop_task_fn)(struct snic_loop_task *task, uint32_t budget);

/** Intrusive task: snic_loop_task_init(), then ready whenever there is work. */
struct snic_loop_task {
    struct snic_link link;
    snic_loop_task_fn fn;
    uint32_t quantum; /**< units added per round, >= 1: the task's weight */
    int32_t deficit;
};

/** Not on a ready list, with @p fn and @p quantum >= 1. Not while it is on one. [owner] */
static inline void snic_loop_task_init(struct snic_loop_task *t, snic_loop_task_fn fn,
                                       uint32_t quantum)
{
    snic_link_init(&t->link);
    t->fn = fn;
    t->quantum = quantum;
    t->deficit = 0;
}
/**
 * Queue @p task for the next round; harmless when queued already. Borrowed while on the ready
 * list. [owner]
 */
SNIC_API void snic_loop_ready(struct snic_loop *l, struct snic_loop_task *task) SNIC_NONNULL(1, 2);
/** Take @p task off the ready list; harmless when it is not on it. [owner] */
SNIC_API void snic_loop_unready(struct snic_loop *l, struct snic_loop_task *task)
    SNIC_NONNULL(1, 2);

/* ---- Pollers: shared memory that must be looked at ---- */

struct snic_loop_poller;
/**
 * Look for work and do a bounded amount of it; > 0 if there was some. With
 * @p sleeping the loop is about to sleep: publish the need-wake flag, look
 * once more, and return > 0 if there is work after all (the loop then does not
 * sleep). The next call with sleeping == 0 may clear the flag.
 */
typedef int (*snic_loop_poll_fn)(struct snic_loop_poller *p, int sleeping);

struct snic_loop_poller {
    struct snic_link link;
    snic_loop_poll_fn fn;
};

/** Not added, with @p fn. Not while it is added. [owner] */
static inline void snic_loop_poller_init(struct snic_loop_poller *p, snic_loop_poll_fn fn)
{
    snic_link_init(&p->link);
    p->fn = fn;
}
/** Call @p p in every iteration; borrowed until removed. [owner] */
SNIC_API void snic_loop_poller_add(struct snic_loop *l, struct snic_loop_poller *p)
    SNIC_NONNULL(1, 2);
/** Stop calling @p p; allowed from inside its fn. Harmless if not added. [owner] */
SNIC_API void snic_loop_poller_remove(struct snic_loop *l, struct snic_loop_poller *p)
    SNIC_NONNULL(1, 2);

/* ---- Running ---- */

/**
 * One iteration. Sleeps at most @p max_wait_ns (0: not at all; SNIC_NEVER: until
 * something happens) and only if nothing is ready. On a simulated loop: one
 * event of the whole world. [owner]
 * @return > 0 something was done; 0 nothing (time-out; in a world: nothing can
 *         ever happen again); SNIC_EIO the kernel refused (raw code in the stats)
 */
SNIC_API int snic_loop_once(struct snic_loop *l, uint64_t max_wait_ns) SNIC_NONNULL(1);
/**
 * Iterate until snic_loop_stop(). [owner]
 * @return 0 stopped; SNIC_EIO the kernel refused (raw code in the stats)
 */
SNIC_API int snic_loop_run(struct snic_loop *l) SNIC_NONNULL(1);
/** Make snic_loop_run() return after this iteration. Other threads post a message. [owner] */
SNIC_API void snic_loop_stop(struct snic_loop *l) SNIC_NONNULL(1);
/**
 * A file descriptor that polls readable when snic_loop_once(l, 0) has work, for
 * callers with an event loop of their own: iterate until snic_loop_once(l, 0)
 * returns 0, then sleep on the descriptor, at most until snic_loop_deadline().
 * Only poll it; the loop reads it. [owner]
 * @return the fd, the loop's; SNIC_ENOTSUP in a world; SNIC_ENOMEM, SNIC_EIO the kernel refused to
 *         make it (raw code in the stats)
 */
SNIC_API int snic_loop_fd(const struct snic_loop *l) SNIC_NONNULL(1);
/** When the next timer is due, or SNIC_NEVER; now if work is ready. [owner] */
SNIC_API uint64_t snic_loop_deadline(struct snic_loop *l) SNIC_NONNULL(1);

struct snic_loop_stats {
    uint64_t iterations;
    uint64_t sleeps;
    uint64_t enters; /**< io_uring_enter calls                                */
    uint64_t completions;
    uint64_t messages;
    uint64_t timers;
    uint64_t task_turns;
    uint64_t stalls;       /**< gaps of more than stall_ns between iterations */
    uint64_t stall_max_ns; /**< the longest of them                           */
    int32_t os_error;      /**< last raw error of the kernel, 0 if none       */
    uint32_t features;     /**< SNIC_LOOP_HAVE_* in use                       */
};
/** A copy of the counters. [owner] */
SNIC_API void snic_loop_get_stats(const struct snic_loop *l, struct snic_loop_stats *out)
    SNIC_NONNULL(1, 2);

/* ---- Descriptors of the caller's (io_uring loops) ---- */

struct snic_loop_watch;
/** @p result: 0 readable, or hung up or in error; SNIC_ECANCELED; SNIC_E* the kernel refused. */
typedef void (*snic_loop_watch_fn)(struct snic_loop_watch *w, int result);

/** For a pipe, a socket, a device that no door serves. Zero it, set fd and fn. */
struct snic_loop_watch {
    snic_loop_watch_fn fn;
    int fd;
    uint32_t armed;      /**< out: 1 from snic_loop_watch_start() until fn                    */
    uint64_t backend[4]; /**< the loop's while armed                                    */
};
/**
 * Call w->fn once, when a read would not wait; at once if that is so now. Borrowed until then.
 * It costs no system call of its own. fn may watch again. [owner]
 * @return 0; SNIC_ENOTSUP in a world; SNIC_EAGAIN the submission queue is full: try again later
 */
SNIC_API SNIC_NODISCARD int snic_loop_watch_start(struct snic_loop *l, struct snic_loop_watch *w)
    SNIC_NONNULL(1, 2);
/** End it early; fn is called all the same. Harmless when not armed. [owner] */
SNIC_API void snic_loop_watch_stop(struct snic_loop *l, struct snic_loop_watch *w)
    SNIC_NONNULL(1, 2);

/* ---- Memory registered with the kernel ---- */

/** A request's region field when its memory is not registered. */
#define SNIC_NO_REGION (-1)
/**
 * Register @p mem for fixed-buffer I/O by every door on this loop; stays the
 * caller's, and mapped, until unregistered. Requests then name the region id
 * beside their pointers. [owner]
 * @return region id >= 0; SNIC_ENOMEM memlock limit too small or table full (use the
 *         memory unregistered); SNIC_ENOTSUP kernel without it; SNIC_EINVAL empty
 */
SNIC_API SNIC_NODISCARD int snic_loop_region_add(struct snic_loop *l, void *mem, size_t size)
    SNIC_NONNULL(1, 2);
/** Undo; no request may be using the region. SNIC_NO_REGION is ignored. [owner] */
SNIC_API void snic_loop_region_remove(struct snic_loop *l, int region) SNIC_NONNULL(1);
/** 1 if @p region is registered and holds all of [mem, mem + size), else 0. [owner] */
SNIC_API int snic_loop_region_holds(const struct snic_loop *l, int region, const void *mem,
                                    size_t size) SNIC_NONNULL(1);

/* ---- The io_uring loop ---- */

#define SNIC_LOOP_HAVE_SINGLE_ISSUER (1u << 0)
#define SNIC_LOOP_HAVE_DEFER_TASKRUN (1u << 1)
#define SNIC_LOOP_HAVE_COOP_TASKRUN (1u << 2)
#define SNIC_LOOP_HAVE_FIXED_BUFFERS (1u << 3)
#define SNIC_LOOP_HAVE_FIXED_FILES (1u << 4)
#define SNIC_LOOP_HAVE_BUF_RING (1u << 5)
#define SNIC_LOOP_HAVE_MULTISHOT_ACCEPT (1u << 6)
#define SNIC_LOOP_HAVE_MULTISHOT_RECV (1u << 7)
#define SNIC_LOOP_HAVE_SEND_ZC (1u << 8)
#define SNIC_LOOP_HAVE_MSG_RING (1u << 9)

/** A field that is 0 takes its default. */
struct snic_loop_uring_opts {
    uint32_t opts_size;
    uint32_t entries;  /**< submission queue, power of two, 8..32768; default 1024      */
    uint32_t spin_us;  /**< busy-poll this long before sleeping; default 0              */
    uint32_t mask;     /**< SNIC_LOOP_HAVE_* to pretend absent, for tests of fall-backs */
    uint32_t regions;  /**< size of the registered-buffer table, 1..16384; default 64   */
    uint32_t reserved; /**< must be 0                                                   */
    uint64_t stall_ns; /**< a gap to report; default 1000000                            */
    void (*on_stall)(void *ctx, uint64_t gap_ns); /**< may be NULL                        */
    void *ctx;
    int *os_error; /**< gets the errno of an open that failed, else 0; may be NULL      */
};

/**
 * Open a loop on an io_uring. Doors may be attached here and the loop then be
 * handed to another thread; the thread of the first snic_loop_once() (or of a
 * door's call that fills the submission queue) is the owner for good: the doors
 * are closed there, too. The loop must outlive every snic_loop_post(). [owner]
 * @param o  borrowed for the call; may be NULL: defaults. o->ctx is passed to o->on_stall
 * @return 0; SNIC_EINVAL options; SNIC_ENOTSUP no io_uring in this kernel (errno
 *         ENOSYS, also from a seccomp filter), or one older than 5.11;
 *         SNIC_EACCES io_uring is refused: by the sysctl kernel.io_uring_disabled
 *         or by a seccomp filter, as container engines install; SNIC_ENFILE
 *         RLIMIT_NOFILE of the process or fs.file-max of the system; SNIC_ENOMEM
 *         memory, or RLIMIT_MEMLOCK (kernels before 5.12 count rings);
 *         SNIC_EAGAIN the kernel could not start a thread, try again
 */
SNIC_API SNIC_NODISCARD int snic_loop_uring_open(struct snic_loop **out,
                                                 const struct snic_loop_uring_opts *o)
    SNIC_NONNULL(1);
/** Close any loop and free it. Every door attached to it must be closed before. [owner] */
SNIC_API void snic_loop_close(struct snic_loop *l);

/* ---- The simulated world ---- */

struct snic_world;

/** A field that is 0 takes its default. */
struct snic_world_opts {
    uint32_t opts_size;
    uint32_t nodes_max; /**< most loops, 1..65535; default 64         */
    uint64_t seed;
    uint64_t start_ns; /**< default 1000000000                       */
    /** Called for every event: for golden traces and replay hashes. May be NULL. */
    void (*trace)(void *ctx, uint64_t now_ns, uint32_t node, uint32_t class_id, uint64_t sequence);
    void *ctx;
};

/**
 * Make a world without loops. @p o is copied; NULL: defaults. [owner]
 * @return 0; SNIC_EINVAL an option; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_world_open(struct snic_world **out,
                                            const struct snic_world_opts *o) SNIC_NONNULL(1);
/** All loops must be closed before. NULL is ignored. [owner] */
SNIC_API void snic_world_close(struct snic_world *w);
/**
 * A loop that is node @p node of the world, until snic_loop_close(); after that
 * the number may be used again. [owner]
 * @return 0; SNIC_EEXIST there is a loop of that node; SNIC_ENOSPC nodes_max are open; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_world_loop(struct snic_world *w, uint32_t node,
                                            struct snic_loop **out) SNIC_NONNULL(1, 3);
/** The world's random numbers, the world's own; simulated doors draw from here. [owner] */
SNIC_API struct snic_rng *snic_world_rng(struct snic_world *w) SNIC_NONNULL(1);
/** The world's clock; snic_loop_now() of each of its loops. [owner] */
SNIC_API uint64_t snic_world_now(const struct snic_world *w) SNIC_NONNULL(1);
/** The world of a simulated loop, NULL for others. [owner] */
SNIC_API struct snic_world *snic_loop_world(const struct snic_loop *l) SNIC_NONNULL(1);
/** The node that a simulated loop is, UINT32_MAX for others. [owner] */
SNIC_API uint32_t snic_loop_node(const struct snic_loop *l) SNIC_NONNULL(1);
/**
 * Run one event: the earliest by (time, class, node, sequence), where a class
 * is message (0) before timer (1) before task (2) before poller (3), and the
 * sequence counts the events of that class at that node. Messages, task turns and
 * poller rounds happen now; a timer at its deadline, or now if that has passed.
 *
 * A poller event calls every poller of a node that is awake: after each other
 * event of the node, after a poller was added, after a thaw. When none finds work
 * they are called with sleeping = 1, and if again none does the node sleeps until
 * its next event: so a peer that writes shared memory must ring, as on a real
 * machine, and a lost wake-up shows as quiescence.
 *
 * A world and all its loops belong to one thread; so does snic_loop_post() to
 * them, which is an event at the receiving node, now. [owner]
 * @return 1 one event ran; 0 quiescent (no event can ever happen)
 */
SNIC_API int snic_world_step(struct snic_world *w) SNIC_NONNULL(1);
/**
 * Step until quiescence, until the next event lies after @p until_ns (the clock
 * then stands at until_ns) or @p max_events are done. [owner]
 * @return events done
 */
SNIC_API uint64_t snic_world_run(struct snic_world *w, uint64_t until_ns, uint64_t max_events)
    SNIC_NONNULL(1);
/**
 * Freeze a node (a paused process) or let it resume; frozen nodes have no
 * events, and their timers fire late when they thaw. [owner]
 */
SNIC_API void snic_world_pause(struct snic_world *w, uint32_t node, int paused) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_LOOP_H */
