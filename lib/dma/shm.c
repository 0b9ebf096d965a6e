/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * dma between two processes: an open link.
 *
 * Operations run inside submit, on the peer's memory mapped here; completions are delivered
 * by the poller. A socket carries messages and memfds, a shared page the doorbell masks, an
 * eventfd wakes, a pidfd certifies death.
 *
 * Invariants
 *   S1 The peer is hostile. Its memfds are mapped only if they are plain tmpfs files sealed
 *      against shrinking and as large as announced, so that no access can fault; no more than
 *      size_max bytes of them. Its packets are checked; a malformed one tears the link.
 *   S2 A torn link (end of stream, malformed packet) is not a dead peer: its process may still
 *      write. Death is reported when the process has ended, or when the stream ended
 *      after the peer set `closed` in the page, which it does having unmapped our memory.
 *   S3 Bells: the side that turns the mask from zero writes the eventfd, the poller takes it
 *      whole. The owner's thread writes through the ring, which cannot block on a peer that
 *      changes the eventfd's flags or counter; one such write is in flight at a time, and a bell
 *      that finds one in flight has another follow.
 *   S4 The memory of a closed link is freed when the ring holds none of its operations.
 */
#include "dma/shm_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SNIC_DMA_SHM__PEERPIDFD 77 /* SO_PEERPIDFD, Linux 6.5 */
#define SNIC_DMA_SHM__TURN 64

/* ---- Operations, messages, doorbells ---- */

static int dma_shm_submit(struct snic_dma *d, struct snic_dma_batch **b, uint32_t n)
{
    struct dma_shm *s = dma_shm_self(d);
    if (dma_shm_gone(s))
        return SNIC_EPEERDEAD;
    for (uint32_t i = 0; i < n; i++) {
        dma_batch_run(d, b[i], dma_shm_resolve);
        snic_queue_push(&s->done, &b[i]->node);
    }
    d->stats.submitted += n;
    d->stats.queue_high =
        snic_max_u64(d->stats.queue_high, d->stats.submitted - d->stats.completed);
    return (int)n;
}

static int dma_shm_send(struct snic_dma *d, const void *msg, uint32_t size)
{
    struct dma_shm *s = dma_shm_self(d);
    if (size == 0 || size > SNIC_DMA_MSG_MAX)
        return SNIC_EMSGSIZE;
    if (dma_shm_gone(s))
        return SNIC_EPEERDEAD;
    if (s->out_tail - s->out_head >= SNIC_DMA_SHM__QUEUE_USER)
        return 0;
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_MSG);
    w.size = size;
    int r = dma_shm_packet(s, &w, msg, -1);
    if (r == 0)
        d->stats.messages_sent++;
    return r == 0 ? 1 : r == SNIC_EAGAIN ? 0 : SNIC_EPEERDEAD;
}

/** Write the peer's eventfd through the ring (S3). 0 when there is no entry to be had. */
static int dma_shm_bell_write(struct dma_shm *s)
{
    struct io_uring_sqe *sqe = loop_uring_sqe(s->dma.loop, &s->write.op);
    if (sqe == NULL)
        return 0;
    s->one = 1;
    io_uring_prep_write(sqe, s->peer_bell_fd, &s->one, sizeof(s->one), 0);
    loop_uring_sqe_op(sqe, &s->write.op);
    s->write.pending = 1;
    return 1;
}

static int dma_shm_ring(struct snic_dma *d, uint32_t id)
{
    struct dma_shm *s = dma_shm_self(d);
    if (id >= SNIC_DMA_DOORBELLS)
        return SNIC_EINVAL;
    if (atomic_load_explicit(&s->peer_gone, memory_order_relaxed))
        return SNIC_EPEERDEAD;
    (void)atomic_fetch_add_explicit(&s->rung, 1, memory_order_relaxed);
    /* Release pairs with the acquire of the peer's exchange. */
    if (atomic_fetch_or_explicit(&s->theirs->bells, UINT64_C(1) << id, memory_order_acq_rel) != 0)
        return 0;
    if (atomic_load_explicit(&s->owner, memory_order_relaxed) == (uint64_t)pthread_self()) {
        if (s->write.pending) {
            s->write_again = 1;
            return 0;
        }
        if (dma_shm_bell_write(s))
            return 0;
    }
    const uint64_t one = 1;
    ssize_t r;
    do {
        r = write(s->peer_bell_fd, &one, sizeof(one));
    } while (r < 0 && errno == EINTR);
    return 0;
}

static void dma_shm_wrote(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct dma_shm_watch *w = SNIC_CONTAINER(op, struct dma_shm_watch, op);
    struct dma_shm *s = w->link;
    (void)res;
    (void)flags;
    w->pending = 0;
    if (s->closed) {
        dma_shm_discard(s);
    } else if (s->write_again) {
        s->write_again = 0;
        if (!dma_shm_bell_write(s))
            s->write_again = 1; /* the poller tries again */
    }
}

/* ---- Delivery ---- */

static int dma_shm_deliver_done(struct dma_shm *s)
{
    int did = 0;
    struct snic_queue now = s->done;
    s->done = (struct snic_queue){NULL, NULL};
    for (struct snic_node *n = snic_queue_pop(&now); n != NULL; n = snic_queue_pop(&now)) {
        dma_batch_deliver(&s->dma, dma_batch_of_node(n));
        did = 1;
    }
    return did;
}

/** Act on one packet. 0 or SNIC_EPROTO. */
static int dma_shm_packet_in(struct dma_shm *s, struct dma_shm_in *in)
{
    const struct dma_shm_wire *w = &in->wire;
    if (w->version != SNIC_DMA_SHM__VERSION || (w->size != 0 && w->type != DMA_SHM_MSG))
        return SNIC_EPROTO;
    switch (w->type) {
    case DMA_SHM_MSG:
        if (w->size == 0)
            return SNIC_EPROTO;
        s->dma.stats.messages_received++;
        if (s->dma.events.recv != NULL)
            s->dma.events.recv(s->dma.events.ctx, &s->dma, in->bytes, w->size);
        return 0;
    case DMA_SHM_BLOCK:
        return dma_shm_on_block(s, in);
    case DMA_SHM_REGION:
        return dma_shm_on_region(s, w);
    case DMA_SHM_UNREG:
        return dma_shm_on_unreg(s, w->a);
    case DMA_SHM_DROP:
        return dma_shm_on_drop(s, w->a);
    default:
        return SNIC_EPROTO;
    }
}

static void dma_shm_tear(struct dma_shm *s)
{
    s->torn = 1;
    s->readable = 0;
    atomic_store_explicit(&s->peer_gone, 1, memory_order_relaxed);
    (void)shutdown(s->fd, SHUT_RDWR);
    dma_shm_drop_queue(s);
    s->lazy = 0;
}

static int dma_shm_drain(struct dma_shm *s)
{
    struct dma_shm_in in;
    int did = 0;
    for (int i = 0; i < SNIC_DMA_SHM__TURN && s->readable && !s->closed; i++) {
        int r = dma_shm_receive(s->fd, &in);
        if (r == 0) {
            s->readable = 0;
            break;
        }
        did = 1;
        if (r == SNIC_EPIPE)
            s->ended = 1;
        if (r == 1) {
            r = dma_shm_packet_in(s, &in);
            dma_shm_close_fds(&in);
        }
        if (r < 0 && !s->closed)
            dma_shm_tear(s);
    }
    return did;
}

static int dma_shm_deliver_bells(struct dma_shm *s)
{
    if (atomic_load_explicit(&s->ours->bells, memory_order_relaxed) == 0)
        return 0;
    /* Acquire pairs with the release of the peer's ring. */
    uint64_t bells = atomic_exchange_explicit(&s->ours->bells, 0, memory_order_acquire);
    for (; bells != 0 && !s->closed; bells &= bells - 1) {
        s->dma.stats.doorbells_received++;
        if (s->dma.events.doorbell != NULL)
            s->dma.events.doorbell(s->dma.events.ctx, &s->dma, (uint32_t)__builtin_ctzll(bells));
    }
    return 1;
}

/** The cause when the peer is certified dead and all it sent was delivered, else 0 (S2). */
static int dma_shm_certificate(const struct dma_shm *s)
{
    if (s->dma.dead || s->closed || s->readable)
        return 0;
    if (s->ended && atomic_load_explicit(&s->theirs->closed, memory_order_acquire) != 0)
        return SNIC_DMA_DEATH_CLOSED;
    return s->exited ? SNIC_DMA_DEATH_EXIT : 0;
}

static int dma_shm_work(const struct dma_shm *s)
{
    if (!snic_queue_empty(&s->done))
        return 1;
    if (s->dma.dead || s->closed)
        return 0;
    return s->readable || atomic_load_explicit(&s->ours->bells, memory_order_relaxed) != 0 ||
           dma_shm_certificate(s) != 0;
}

static int dma_shm_poll(struct snic_loop_poller *p, int sleeping)
{
    struct dma_shm *s = SNIC_CONTAINER(p, struct dma_shm, poller);
    atomic_store_explicit(&s->owner, (uint64_t)pthread_self(), memory_order_relaxed);
    if (s->write_again && !s->write.pending && dma_shm_bell_write(s))
        s->write_again = 0;
    if (sleeping || !dma_shm_work(s))
        return dma_shm_work(s);
    s->inside = 1;
    int did = dma_shm_deliver_done(s);
    if (!s->dma.dead && !s->closed)
        did |= dma_shm_drain(s);
    if (!s->dma.dead && !s->closed)
        did |= dma_shm_deliver_bells(s);
    int cause = dma_shm_certificate(s);
    if (cause != 0) {
        while (dma_shm_deliver_done(s)) {
        }
        if (!s->torn)
            dma_shm_tear(s);
        s->dma.dead = 1;
        if (s->dma.events.death != NULL && !s->closed)
            s->dma.events.death(s->dma.events.ctx, &s->dma, (enum snic_dma_death)cause);
        did = 1;
    }
    s->inside = 0;
    s->dma.stats.doorbells_sent = atomic_load_explicit(&s->rung, memory_order_relaxed);
    if (s->closed)
        dma_shm_discard(s);
    return did;
}

/* ---- Watches ---- */

static int dma_shm_watch_arm(struct dma_shm *s, struct dma_shm_watch *w)
{
    struct io_uring_sqe *sqe = loop_uring_sqe(s->dma.loop, &w->op);
    if (sqe == NULL)
        return SNIC_ENOMEM;
    io_uring_prep_poll_multishot(sqe, w->fd, POLLIN | POLLERR | POLLHUP);
    loop_uring_sqe_op(sqe, &w->op);
    w->pending = 1;
    return 0;
}

static void dma_shm_fired(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct dma_shm_watch *w = SNIC_CONTAINER(op, struct dma_shm_watch, op);
    struct dma_shm *s = w->link;
    if ((flags & IORING_CQE_F_MORE) == 0)
        w->pending = 0;
    if (s->closed) {
        dma_shm_discard(s);
        return;
    }
    if (w == &s->pid && res > 0)
        s->exited = 1;
    if ((w == &s->sock || w == &s->pid) && !s->torn)
        s->readable = 1;
    int over = w == &s->sock ? s->torn : w == &s->pid && s->exited;
    if (!w->pending && !over)
        (void)dma_shm_watch_arm(s, w);
    if (s->listener != NULL)
        s->greet(s);
}

int dma_shm_watch_start(struct dma_shm *s, struct dma_shm_watch *w, int fd)
{
    w->op.complete = dma_shm_fired;
    w->link = s;
    w->fd = fd;
    return dma_shm_watch_arm(s, w);
}

/* ---- Open and close ---- */

int dma_shm_certify(struct dma_shm *s)
{
    struct ucred cred;
    socklen_t size = sizeof(cred);
    if (getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0 || cred.pid <= 0)
        return SNIC_ENOTSUP;
    s->peer_pid = (uint32_t)cred.pid;
    size = sizeof(s->pid_fd);
    if (getsockopt(s->fd, SOL_SOCKET, SNIC_DMA_SHM__PEERPIDFD, &s->pid_fd, &size) == 0 &&
        s->pid_fd >= 0) {
        (void)fcntl(s->pid_fd, F_SETFD, FD_CLOEXEC);
        return 0;
    }
    s->pid_fd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
    if (s->pid_fd < 0)
        return errno == ESRCH ? SNIC_ECONNRESET : SNIC_ENOTSUP;
    /* Still connected after pidfd_open: the number had not passed to another process by then. */
    char byte;
    ssize_t n = recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ? SNIC_ECONNRESET : 0;
}

int dma_shm_attach(struct dma_shm *s, int page_fd, int bell_fd, int peer_bell_fd, int connector)
{
    s->bell_fd = bell_fd;
    s->peer_bell_fd = peer_bell_fd;
    void *page = dma_shm_map_fd(page_fd, SNIC_DMA_SHM__PAGE);
    (void)close(page_fd);
    if (page == NULL)
        return SNIC_EPROTO;
    s->page = page;
    s->ours = &s->page->lanes[connector ? 0 : 1];
    s->theirs = &s->page->lanes[connector ? 1 : 0];
    int r = dma_shm_watch_start(s, &s->bell, bell_fd);
    if (r == 0)
        r = dma_shm_watch_start(s, &s->pid, s->pid_fd);
    s->readable = 1; /* packets that arrived with or before this are not announced again */
    snic_loop_poller_add(s->dma.loop, &s->poller);
    return r;
}

static void dma_shm_cancel(struct dma_shm *s, struct dma_shm_watch *w)
{
    if (w->pending)
        (void)loop_uring_cancel(s->dma.loop, &w->op);
}

void dma_shm_discard(struct dma_shm *s)
{
    SNIC_ASSERT(s->closed);
    if (s->inside || s->sock.pending || s->bell.pending || s->pid.pending || s->write.pending)
        return; /* S4 */
    free(s);
}

static void dma_shm_close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

static void dma_shm_close(struct snic_dma *d)
{
    struct dma_shm *s = dma_shm_self(d);
    SNIC_ASSERT(!s->closed);
    dma_shm_flush(s);
    s->closed = 1;
    while (dma_shm_deliver_done(s)) {
    }
    snic_loop_poller_remove(d->loop, &s->poller);
    snic_loop_cancel(d->loop, &s->retry);
    for (uint32_t i = 0; i < SNIC_DMA_SHM__BLOCKS; i++) {
        if (s->maps[i].mem != NULL)
            dma_shm_unmap_block(s, &s->maps[i]);
        if (s->blocks[i].mem != NULL)
            dma_shm_block_free(&s->blocks[i]);
    }
    if (s->page != NULL) {
        /* Release pairs with the acquire of the peer's certificate (S2). */
        atomic_store_explicit(&s->ours->closed, 1, memory_order_release);
        (void)munmap(s->page, SNIC_DMA_SHM__PAGE);
        s->page = NULL;
    }
    dma_shm_drop_queue(s);
    (void)shutdown(s->fd, SHUT_RDWR); /* the watch holds the socket longer than its fd */
    dma_shm_cancel(s, &s->sock);
    dma_shm_cancel(s, &s->bell);
    dma_shm_cancel(s, &s->pid);
    dma_shm_cancel(s, &s->write);
    (void)loop_uring_flush(d->loop);
    dma_shm_close_fd(s->fd);
    dma_shm_close_fd(s->bell_fd);
    dma_shm_close_fd(s->peer_bell_fd);
    dma_shm_close_fd(s->pid_fd);
    dma_shm_discard(s);
}

static const struct snic_dma_ops dma_shm_ops = {
    .ops_size = sizeof(struct snic_dma_ops),
    .name = "shm",
    .alloc = dma_shm_alloc,
    .release = dma_shm_release,
    .register_ = dma_shm_register,
    .unregister = dma_shm_unregister,
    .map = dma_shm_map,
    .submit = dma_shm_submit,
    .send = dma_shm_send,
    .ring = dma_shm_ring,
    .close = dma_shm_close,
    .unmap = dma_shm_unmap,
};

struct dma_shm *dma_shm_new(struct snic_loop *l, int fd, uint64_t size_max)
{
    struct dma_shm *s =
        aligned_alloc(SNIC_CACHELINE, (size_t)snic_align_up(sizeof(*s), SNIC_CACHELINE));
    if (s == NULL)
        return NULL;
    memset(s, 0, sizeof(*s));
    s->dma.ops = &dma_shm_ops;
    s->dma.loop = l;
    s->dma.caps = SNIC_DMA_CAP_MAPPED | SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC;
    s->dma.max_inline = SNIC_DMA_MSG_MAX;
    s->fd = fd;
    s->bell_fd = s->peer_bell_fd = s->pid_fd = -1;
    s->size_max = size_max;
    s->write.op.complete = dma_shm_wrote;
    s->write.link = s;
    snic_loop_poller_init(&s->poller, dma_shm_poll);
    snic_timer_init(&s->retry, dma_shm_retry);
    snic_link_init(&s->waiting);
    return s;
}
