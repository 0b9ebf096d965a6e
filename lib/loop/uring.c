/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The loop on an io_uring: one ring for disk, network and wake-ups, so that one
 * system call per iteration submits, reaps and sleeps.
 *
 * Invariants
 *   U1 A submission entry carries a snic_uring_op or, for fire-and-forget
 *      cancels, the address of `ignored`; every entry but those of U4 makes completions
 *      and the last of them lacks IORING_CQE_F_MORE. outstanding counts entries taken
 *      minus last completions, without the loop's own wake-up watch.
 *   U2 The ring starts disabled. It is enabled by the first system call that
 *      submits, and from then on SINGLE_ISSUER ties it to that thread: a loop may
 *      be opened (and doors attached) on one thread and then handed to another
 *      before its first iteration.
 *   U3 The wake-up eventfd is watched by one multishot poll and never read: each
 *      write to it makes a completion. (Its counter would need 2^64 wake-ups to
 *      fill up.)
 *   U4 is in uring_quiet.c.
 */
#include "loop/uring_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SNIC_URING__CLOSE_TRIES 100
#define SNIC_URING__CLOSE_NS UINT64_C(10000000)

/* ---- Clock and wake-up ---- */

static uint64_t loop_uring_clock(const struct snic_loop *l)
{
    struct timespec ts;
    (void)l;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts); /* suspended time counts: leases end in it */
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static void loop_uring_wake(struct snic_loop *l)
{
    const uint64_t one = 1;
    int saved = errno; /* we may be in a signal handler */
    while (write(loop_uring_self(l)->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    errno = saved;
}

static void loop_uring_woken(struct loop_uring_poll *p, int events)
{
    (void)p;
    (void)events;
}

/* ---- Submission ---- */

static int loop_uring_enable(struct loop_uring *u)
{
    u->enabled = 1;
    if ((u->ring.flags & IORING_SETUP_R_DISABLED) != 0) {
        int r = io_uring_register((unsigned)u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
        if (r < 0) {
            u->core.stats.os_error = -r;
            return SNIC_EIO;
        }
    }
    (void)io_uring_register_ring_fd(&u->ring); /* an optimisation; needs no success */
    return 0;
}

static int loop_uring_result(struct loop_uring *u, int r)
{
    switch (r < 0 ? -r : 0) {
    case 0:
    case ETIME:
    case EINTR:
    case EAGAIN: /* no memory now: what is queued stays queued */
    case EBUSY:  /* completions must be reaped first */
        return 0;
    default:
        u->core.stats.os_error = -r;
        return SNIC_EIO;
    }
}

/** A call that submits has returned @p r. Where it left entries, the quiet ones follow them. */
static int loop_uring_submitted(struct loop_uring *u, int r)
{
    loop_uring_quiet_left(u);
    return loop_uring_result(u, r);
}

int loop_uring_flush(struct snic_loop *l)
{
    struct loop_uring *u = loop_uring_self(l);
    if (io_uring_sq_ready(&u->ring) == 0)
        return 0;
    if (!u->enabled && loop_uring_enable(u) != 0)
        return SNIC_EIO;
    l->stats.enters++;
    return loop_uring_submitted(u, io_uring_submit(&u->ring));
}

/** Between two iterations: have the kernel post what is complete in the same call. */
static int loop_uring_submit(struct snic_loop *l)
{
    struct loop_uring *u = loop_uring_self(l);
    if (io_uring_sq_ready(&u->ring) == 0)
        return 0;
    if (!u->enabled && loop_uring_enable(u) != 0)
        return SNIC_EIO;
    l->stats.enters++;
    return loop_uring_submitted(u, io_uring_submit_and_get_events(&u->ring));
}

static struct io_uring_sqe *loop_uring_entry(struct loop_uring *u, struct snic_uring_op *op)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (SNIC_UNLIKELY(sqe == NULL)) {
        (void)loop_uring_flush(&u->core);
        sqe = io_uring_get_sqe(&u->ring);
        if (sqe == NULL)
            return NULL;
    }
    memset(sqe, 0, sizeof(*sqe));
    sqe->user_data = (uint64_t)(uintptr_t)op;
    return sqe;
}

struct io_uring_sqe *loop_uring_sqe(struct snic_loop *l, struct snic_uring_op *op)
{
    struct loop_uring *u = loop_uring_self(l);
    SNIC_DASSERT(op->complete != NULL);
    struct io_uring_sqe *sqe = loop_uring_entry(u, op);
    if (sqe != NULL)
        u->outstanding++;
    return sqe;
}

void loop_uring_leave(struct snic_loop *l, struct snic_loop_msg *msg)
{
    snic_queue_push(&l->leaving, &msg->node);
}

uint32_t loop_uring_sq_space(const struct snic_loop *l)
{
    return io_uring_sq_space_left(&loop_uring_self(l)->ring);
}

static void loop_uring_ignore(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    (void)op;
    (void)res;
    (void)flags;
}

int loop_uring_cancel(struct snic_loop *l, struct snic_uring_op *victim)
{
    struct io_uring_sqe *sqe = loop_uring_sqe(l, &loop_uring_self(l)->ignored);
    if (sqe == NULL)
        return SNIC_EAGAIN;
    io_uring_prep_cancel(sqe, victim, 0);
    return 0;
}

/* ---- Callers that sleep elsewhere ---- */

static int loop_uring_external_add(struct loop_uring *u, int fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLET};
    int r = epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, fd, &e);
    return r == 0 || errno == EEXIST ? 0 : -errno;
}

/** Forget what was signalled; before looking, so that nothing new is forgotten. */
static void loop_uring_external_clear(const struct loop_uring *u)
{
    struct epoll_event events[64];
    while (epoll_wait(u->epoll_fd, events, SNIC_COUNTOF(events), 0) < 0 && errno == EINTR)
        ;
}

/**
 * The ring's own descriptor does not do: with DEFER_TASKRUN it polls readable,
 * but its waiters are not woken when it becomes so. An eventfd registered with the ring is
 * signalled for new task work and completions; but not reliably when these stem
 * from a write to another eventfd (6.18: one deferred signal, ever). So the
 * descriptor is an epoll set, edge-triggered, of that eventfd and of everything
 * loop_uring_poll_start() watches.
 */
static int loop_uring_external_open(struct loop_uring *u)
{
    int r = 0;
    u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    u->ready_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* for completions already there */
    if (u->epoll_fd < 0 || u->ready_fd < 0)
        return -ENOMEM;
    r = loop_uring_external_add(u, u->ready_fd);
    for (struct snic_link *i = u->polls.next; i != &u->polls && r == 0; i = i->next)
        r = loop_uring_external_add(u, SNIC_CONTAINER(i, struct loop_uring_poll, link)->fd);
    return r != 0 ? r : io_uring_register_eventfd(&u->ring, u->ready_fd);
}

static void loop_uring_external_close(struct loop_uring *u)
{
    if (u->epoll_fd >= 0)
        (void)close(u->epoll_fd);
    if (u->ready_fd >= 0)
        (void)close(u->ready_fd);
    u->epoll_fd = -1;
    u->ready_fd = -1;
}

static int loop_uring_fd(struct snic_loop *l)
{
    struct loop_uring *u = loop_uring_self(l);
    if (u->epoll_fd >= 0)
        return u->epoll_fd;
    if (loop_uring_flush(l) != 0) /* the wake-up watch must be in place */
        return SNIC_EIO;
    int r = loop_uring_external_open(u);
    if (r == 0)
        return u->epoll_fd;
    loop_uring_external_close(u);
    l->stats.os_error = -r;
    return r == -ENOMEM ? SNIC_ENOMEM : SNIC_EIO;
}

/* ---- Completion ---- */

static int loop_uring_pending(const struct snic_loop *l)
{
    const struct loop_uring *u = loop_uring_self(l);
    /* Relaxed is enough for a hint; reap() reads the tail with acquire. */
    unsigned flags = __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED);
    return u->quiet_now || (flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0 ||
           io_uring_cq_ready(&u->ring) != 0;
}

static uint32_t loop_uring_reap(struct snic_loop *l)
{
    struct loop_uring *u = loop_uring_self(l);
    struct io_uring *ring = &u->ring;
    if (u->epoll_fd >= 0)
        loop_uring_external_clear(u);
    unsigned flags = __atomic_load_n(ring->sq.kflags, __ATOMIC_ACQUIRE);
    if ((flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0 && u->enabled) {
        l->stats.enters++; /* what the last iteration queued leaves with the same call */
        (void)loop_uring_submitted(u, io_uring_submit_and_get_events(ring));
        flags = __atomic_load_n(ring->sq.kflags, __ATOMIC_ACQUIRE);
    }
    uint32_t ready = io_uring_cq_ready(ring);
    uint32_t over = (flags & IORING_SQ_CQ_OVERFLOW) == 0 ? loop_uring_quiet_deliver(u, ready) : 0;
    for (uint32_t i = 0; i < ready; i++) {
        unsigned head = *ring->cq.khead;
        const struct io_uring_cqe *cqe = &ring->cq.cqes[head & *ring->cq.kring_mask];
        struct snic_uring_op *op = (struct snic_uring_op *)(uintptr_t)cqe->user_data;
        int32_t res = cqe->res;
        uint32_t cqe_flags = cqe->flags;
        io_uring_cq_advance(ring, 1); /* before the call: it may submit */
        if ((cqe_flags & IORING_CQE_F_MORE) == 0 && op != &u->wake.op)
            u->outstanding--;
        op->complete(op, res, cqe_flags);
    }
    return ready + over;
}

static int loop_uring_wait(struct snic_loop *l, uint64_t wait_ns)
{
    struct loop_uring *u = loop_uring_self(l);
    struct io_uring_cqe *cqe = NULL;
    struct __kernel_timespec ts = {.tv_sec = (int64_t)(wait_ns / UINT64_C(1000000000)),
                                   .tv_nsec = (int64_t)(wait_ns % UINT64_C(1000000000))};
    if (!u->enabled && loop_uring_enable(u) != 0)
        return SNIC_EIO;
    l->stats.enters++;
    if (u->quiet_now)
        return loop_uring_submitted(u, io_uring_submit_and_get_events(&u->ring));
    return loop_uring_submitted(
        u, io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, wait_ns == SNIC_NEVER ? NULL : &ts,
                                            NULL));
}

/* ---- Registered memory and files ---- */

static int loop_uring_region_add(struct snic_loop *l, uint32_t slot, void *mem, size_t size)
{
    struct loop_uring *u = loop_uring_self(l);
    if (!u->regions_ready)
        return SNIC_ENOTSUP;
    struct iovec iov = {.iov_base = mem, .iov_len = size};
    const __u64 tag = 0;
    int r = io_uring_register_buffers_update_tag(&u->ring, slot, &iov, &tag, 1);
    if (r < 0)
        l->stats.os_error = -r;
    return r < 0 ? SNIC_ENOMEM : 0;
}

static void loop_uring_region_remove(struct snic_loop *l, uint32_t slot)
{
    struct iovec iov = {.iov_base = NULL, .iov_len = 0};
    const __u64 tag = 0;
    (void)io_uring_register_buffers_update_tag(&loop_uring_self(l)->ring, slot, &iov, &tag, 1);
}

/** The first clear bit at or after word @p from, wrapping; -1 if none. */
static int loop_uring_bit_take(uint64_t *words, uint32_t bits, uint32_t from)
{
    uint32_t count = bits / 64;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = (from + n) % count;
        if (words[i] != UINT64_MAX) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~words[i]);
            words[i] |= UINT64_C(1) << bit;
            return (int)(i * 64 + bit);
        }
    }
    return -1;
}

static void loop_uring_bit_drop(uint64_t *words, int bit)
{
    SNIC_ASSERT((words[bit / 64] >> (bit % 64) & 1) != 0);
    words[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
}

int loop_uring_file_add(struct snic_loop *l, int fd)
{
    struct loop_uring *u = loop_uring_self(l);
    if ((u->features & SNIC_LOOP_HAVE_FIXED_FILES) == 0)
        return SNIC_ENOTSUP;
    int slot = loop_uring_bit_take(u->files, u->files_max, u->files_hint);
    if (slot < 0)
        return SNIC_ENOSPC;
    u->files_hint = (uint32_t)slot / 64;
    int r = io_uring_register_files_update(&u->ring, (unsigned)slot, &fd, 1);
    if (r == 1)
        return slot;
    loop_uring_bit_drop(u->files, slot);
    l->stats.os_error = -r;
    return r == -ENOMEM ? SNIC_ENOMEM : SNIC_EIO;
}

void loop_uring_file_remove(struct snic_loop *l, int slot)
{
    struct loop_uring *u = loop_uring_self(l);
    const int none = -1;
    if (slot < 0)
        return;
    (void)io_uring_register_files_update(&u->ring, (unsigned)slot, &none, 1);
    loop_uring_bit_drop(u->files, slot);
}

int loop_uring_group_get(struct snic_loop *l)
{
    int id = loop_uring_bit_take(loop_uring_self(l)->groups, SNIC_URING__GROUPS, 0);
    return id < 0 ? SNIC_ENOSPC : id;
}

void loop_uring_group_put(struct snic_loop *l, int group)
{
    loop_uring_bit_drop(loop_uring_self(l)->groups, group);
}

/* ---- Polls ---- */

static int loop_uring_poll_arm(struct loop_uring_poll *p)
{
    struct loop_uring *u = loop_uring_self(p->loop);
    struct io_uring_sqe *sqe = loop_uring_entry(u, &p->op);
    if (sqe == NULL)
        return SNIC_EAGAIN;
    if (p != &u->wake)
        u->outstanding++;
    io_uring_prep_poll_multishot(sqe, p->fd, POLLIN | POLLERR | POLLHUP);
    p->pending = 1;
    return 0;
}

/** The watch ends; its descriptor leaves the epoll set if no other watch has it. */
static void loop_uring_poll_end(struct loop_uring_poll *p)
{
    struct loop_uring *u = loop_uring_self(p->loop);
    if (!p->active)
        return;
    p->active = 0;
    snic_link_remove(&p->link);
    for (struct snic_link *i = u->polls.next; i != &u->polls; i = i->next) {
        if (SNIC_CONTAINER(i, struct loop_uring_poll, link)->fd == p->fd)
            return;
    }
    if (u->epoll_fd >= 0)
        (void)epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, p->fd, NULL);
}

static void loop_uring_poll_complete(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct loop_uring_poll *p = SNIC_CONTAINER(op, struct loop_uring_poll, op);
    int event = res < 0 ? snic_error_from_os(res) : res;
    if ((flags & IORING_CQE_F_MORE) == 0) {
        p->pending = 0;
        if (p->active && res >= 0 && loop_uring_poll_arm(p) != 0)
            event = SNIC_EAGAIN;
    }
    if (!p->active)
        return;
    if (event < 0)
        loop_uring_poll_end(p);
    p->fn(p, event);
}

int loop_uring_poll_start(struct loop_uring_poll *p, struct snic_loop *l, int fd,
                          loop_uring_poll_fn fn)
{
    SNIC_ASSERT(!p->pending && !p->active);
    p->op.complete = loop_uring_poll_complete;
    p->loop = l;
    p->fn = fn;
    p->fd = fd;
    int r = loop_uring_poll_arm(p);
    if (r != 0)
        return r;
    p->active = 1;
    snic_link_append(&loop_uring_self(l)->polls, &p->link);
    if (loop_uring_self(l)->epoll_fd >= 0)
        (void)loop_uring_external_add(loop_uring_self(l), fd); /* the ring reports a bad fd */
    return 0;
}

void loop_uring_poll_stop(struct loop_uring_poll *p)
{
    loop_uring_poll_end(p);
    if (p->pending)
        (void)loop_uring_cancel(p->loop, &p->op);
}

/* ---- What others ask ---- */

uint64_t loop_uring_outstanding(const struct snic_loop *l)
{
    return loop_uring_self(l)->outstanding;
}

struct io_uring *loop_uring_ring(struct snic_loop *l)
{
    return &loop_uring_self(l)->ring;
}

uint32_t loop_uring_features(const struct snic_loop *l)
{
    return loop_uring_self(l)->features;
}

/* ---- Open and close ---- */

static void loop_uring_close(struct snic_loop *l)
{
    struct loop_uring *u = loop_uring_self(l);
    /*
     * Doors that closed have cancelled what they had in the kernel, and free what it
     * held when it lets go: wait for that, but not for ever.
     */
    for (int i = 0; u->outstanding > 0 && i < SNIC_URING__CLOSE_TRIES; i++) {
        if (loop_uring_wait(l, SNIC_URING__CLOSE_NS) < 0)
            break;
        (void)loop_uring_reap(l);
    }
    io_uring_queue_exit(&u->ring);
    (void)close(u->event_fd);
    loop_uring_external_close(u);
    free(l->regions);
    free(u);
}

static const struct loop_ops loop_uring_ops = {
    .clock = loop_uring_clock,
    .wake = loop_uring_wake,
    .reap = loop_uring_reap,
    .pending = loop_uring_pending,
    .submit = loop_uring_submit,
    .wait = loop_uring_wait,
    .fd = loop_uring_fd,
    .region_add = loop_uring_region_add,
    .region_remove = loop_uring_region_remove,
    .close = loop_uring_close,
};

int loop_uring_is(const struct snic_loop *l)
{
    return l->ops == &loop_uring_ops;
}

/** Set up the ring with the best flags the kernel takes and the mask allows. 0 or -errno. */
static int loop_uring_setup(struct loop_uring *u, const struct snic_loop_uring_opts *o)
{
    static const struct {
        uint32_t have;
        uint32_t flags;
    } tries[] = {
        {SNIC_LOOP_HAVE_SINGLE_ISSUER | SNIC_LOOP_HAVE_DEFER_TASKRUN,
         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
             IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL},
        {SNIC_LOOP_HAVE_SINGLE_ISSUER | SNIC_LOOP_HAVE_COOP_TASKRUN,
         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
             IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL},
        {SNIC_LOOP_HAVE_SINGLE_ISSUER,
         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL},
        {SNIC_LOOP_HAVE_COOP_TASKRUN,
         IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL},
        {0, IORING_SETUP_SUBMIT_ALL},
        {0, 0},
    };
    int r = -EINVAL;
    for (size_t i = 0; i < SNIC_COUNTOF(tries) && r == -EINVAL; i++) {
        if ((tries[i].have & o->mask) != 0)
            continue;
        struct io_uring_params p = {.flags = tries[i].flags | IORING_SETUP_CQSIZE,
                                    .cq_entries = (uint32_t)snic_max_u64(4096, 4 * o->entries)};
        r = io_uring_queue_init_params(o->entries, &u->ring, &p);
        if (r == 0) {
            u->features = tries[i].have;
            if ((p.features & IORING_FEAT_EXT_ARG) == 0 || (p.features & IORING_FEAT_NODROP) == 0) {
                io_uring_queue_exit(&u->ring);
                return -ENOSYS; /* older than 5.11 */
            }
        }
    }
    return r;
}

static int loop_uring_open_error(int os_error)
{
    switch (os_error) {
    case 0:
        return 0;
    case EPERM:
    case EACCES:
        return SNIC_EACCES;
    case ENOMEM:
        return SNIC_ENOMEM;
    case EMFILE:
    case ENFILE:
        return SNIC_ENFILE;
    case EAGAIN:
        return SNIC_EAGAIN;
    default:
        return SNIC_ENOTSUP;
    }
}

/** Features without a probe of their own are detected by an opcode of the same kernel release. */
static void loop_uring_probe(struct loop_uring *u, const struct snic_loop_uring_opts *o)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(&u->ring);
    if (probe == NULL)
        return;
    uint32_t have = 0;
    if (io_uring_opcode_supported(probe, IORING_OP_MSG_RING)) /* 5.18 */
        have |= SNIC_LOOP_HAVE_MSG_RING;
    if (io_uring_opcode_supported(probe, IORING_OP_SOCKET)) /* 5.19 */
        have |= SNIC_LOOP_HAVE_BUF_RING | SNIC_LOOP_HAVE_MULTISHOT_ACCEPT |
                SNIC_LOOP_HAVE_FIXED_BUFFERS | SNIC_LOOP_HAVE_FIXED_FILES;
    if (io_uring_opcode_supported(probe, IORING_OP_SEND_ZC)) /* 6.0 */
        have |= SNIC_LOOP_HAVE_SEND_ZC | SNIC_LOOP_HAVE_MULTISHOT_RECV;
    /* 6.1: a send that fails in part reports that part. */
    u->quiet_able = (u->ring.features & IORING_FEAT_CQE_SKIP) != 0 &&
                    io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC) &&
                    (o->mask & SNIC_LOOP_HAVE_SEND_ZC) == 0;
    io_uring_free_probe(probe);
    u->features |= have & ~o->mask;
}

static void loop_uring_tables(struct loop_uring *u, const struct snic_loop_uring_opts *o)
{
    if (o->regions == 0 || (u->features & SNIC_LOOP_HAVE_FIXED_BUFFERS) == 0 ||
        io_uring_register_buffers_sparse(&u->ring, o->regions) != 0)
        u->features &= ~(uint32_t)SNIC_LOOP_HAVE_FIXED_BUFFERS;
    else
        u->regions_ready = 1;
    u->files_max = SNIC_URING__FILES;
    if ((u->features & SNIC_LOOP_HAVE_FIXED_FILES) == 0)
        return;
    int r = io_uring_register_files_sparse(&u->ring, u->files_max);
    if (r == -EMFILE) { /* more than RLIMIT_NOFILE */
        u->files_max = 256;
        r = io_uring_register_files_sparse(&u->ring, u->files_max);
    }
    if (r != 0)
        u->features &= ~(uint32_t)SNIC_LOOP_HAVE_FIXED_FILES;
}

static int loop_uring_opts_check(const struct snic_loop_uring_opts *o)
{
    const uint32_t known = (SNIC_LOOP_HAVE_MSG_RING << 1) - 1;
    if (!snic_is_pow2(o->entries) || o->entries < 8 || o->entries > 32768 || o->regions > 16384 ||
        o->reserved != 0 || (o->mask & ~known) != 0)
        return SNIC_EINVAL;
    return 0;
}

int snic_loop_uring_open(struct snic_loop **out, const struct snic_loop_uring_opts *opts)
{
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o)};
    int r = opts != NULL ? snic_opts_copy(&o, sizeof(o), opts) : 0;
    o.entries = o.entries == 0 ? 1024 : o.entries;
    o.regions = o.regions == 0 ? 64 : o.regions;
    o.stall_ns = o.stall_ns == 0 ? 1000000 : o.stall_ns;
    if (r == 0)
        r = loop_uring_opts_check(&o);
    if (r != 0)
        return r;
    struct loop_uring *u = aligned_alloc(SNIC_CACHELINE, snic_align_up(sizeof(*u), SNIC_CACHELINE));
    struct loop_region *regions = calloc(o.regions + 1, sizeof(*regions));
    if (u == NULL || regions == NULL) {
        free(u);
        free(regions);
        return SNIC_ENOMEM;
    }
    memset(u, 0, sizeof(*u));
    loop_core_init(&u->core, &loop_uring_ops, loop_uring_clock(NULL));
    u->core.regions = regions;
    u->core.regions_max = o.regions;
    u->core.spin_ns = (uint64_t)o.spin_us * 1000;
    u->core.stall_ns = o.stall_ns;
    u->core.on_stall = o.on_stall;
    u->core.ctx = o.ctx;
    u->ignored.complete = loop_uring_ignore;
    u->epoll_fd = -1;
    u->ready_fd = -1;
    snic_link_init(&u->polls);
    snic_link_init(&u->quiet);
    snic_link_init(&u->quiet_submitted);
    u->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = u->event_fd < 0 ? errno : -loop_uring_setup(u, &o);
    if (o.os_error != NULL)
        *o.os_error = failed;
    if (failed != 0) {
        if (u->event_fd >= 0)
            (void)close(u->event_fd);
        free(regions);
        free(u);
        return loop_uring_open_error(failed);
    }
    loop_uring_probe(u, &o);
    loop_uring_tables(u, &o);
    u->core.stats.features = u->features;
    r = loop_uring_poll_start(&u->wake, &u->core, u->event_fd, loop_uring_woken);
    SNIC_ASSERT(r == 0); /* the queue is empty: there is room */
    *out = &u->core;
    return 0;
}
