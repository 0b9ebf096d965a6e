/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * dma between two processes: how a link comes about.
 *
 *   connector                          listener
 *   connect, HELLO(version,  ───────▶  knows its process (pidfd), makes the shared page and
 *   tag)                               two eventfds, asks the user
 *                            ◀───────  WELCOME(page, eventfds), then what the user sent
 *
 * The connector receives descriptors and sends none, so a listener never writes to a descriptor
 * made by an untrusted process. A connection that sends nothing is dropped after WAIT_NS, the
 * oldest one first when there are WAITING of them.
 */
#include "dma/shm_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SNIC_DMA_SHM__WAITING 64
#define SNIC_DMA_SHM__WAIT_NS UINT64_C(5000000000)
#define SNIC_DMA_SHM__RETRY_ACCEPT_NS 100000000
#define SNIC_DMA_SHM__SNDBUF 65536

struct snic_dma_listener {
    struct snic_loop *loop;
    struct snic_uring_op op; /* watches fd */
    struct snic_timer timer; /* the oldest deadline, or the next try after EMFILE */
    struct snic_link waiting;
    uint32_t waiting_count;
    uint64_t size_max;
    uint64_t tag;
    snic_dma_accept_fn accept;
    void *ctx;
    int fd;
    uint8_t pending;
    uint8_t closed;
    uint8_t inside;
    dev_t dev; /* of the socket file, so that unlisten removes only its own */
    ino_t ino;
    struct sockaddr_un address;
};

static int dma_shm_address(struct sockaddr_un *a, const struct snic_dma_shm_opts *o)
{
    size_t size = o->path != NULL ? strlen(o->path) : 0;
    if (size == 0 || size >= sizeof(a->sun_path))
        return SNIC_EINVAL;
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    memcpy(a->sun_path, o->path, size);
    return 0;
}

static int dma_shm_opts(struct snic_dma_shm_opts *o, const struct snic_dma_shm_opts *opts)
{
    *o = (struct snic_dma_shm_opts){.opts_size = sizeof(*o)};
    int r = snic_opts_copy(o, sizeof(*o), opts);
    if (r != 0)
        return r;
    o->timeout_ms = o->timeout_ms == 0 ? 5000 : o->timeout_ms;
    o->size_max = o->size_max == 0 ? UINT64_C(1) << 32 : o->size_max;
    return o->timeout_ms > 86400000 ? SNIC_EINVAL : 0;
}

static int dma_shm_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int size = SNIC_DMA_SHM__SNDBUF;
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return fd;
}

/* ---- Listener: from a connection to a link ---- */

/** Throw a waiting link away. */
static void dma_shm_turn_away(struct dma_shm *s)
{
    struct snic_dma_listener *n = s->listener;
    snic_link_remove(&s->waiting);
    n->waiting_count--;
    s->listener = NULL;
    snic_dma_close(&s->dma);
}

static void dma_shm_refuse(struct dma_shm *s, int error)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_REFUSE);
    w.a = (uint64_t)(int64_t)error;
    (void)dma_shm_transmit(s->fd, &w, NULL, NULL, 0);
    dma_shm_turn_away(s);
}

/** Page and eventfds for a new link; fds[] go out with WELCOME and are then closed. */
static int dma_shm_equip(struct dma_shm *s, int fds[SNIC_DMA_SHM__FDS])
{
    void *page = NULL;
    int r = dma_shm_memfd(SNIC_DMA_SHM__PAGE, &fds[0], &page);
    if (r != 0)
        return r;
    (void)munmap(page, SNIC_DMA_SHM__PAGE);
    fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fds[2] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int ours[SNIC_DMA_SHM__FDS];
    for (int i = 0; i < SNIC_DMA_SHM__FDS; i++)
        ours[i] = fds[i] >= 0 ? fcntl(fds[i], F_DUPFD_CLOEXEC, 0) : -1;
    if (ours[0] < 0 || ours[1] < 0 || ours[2] < 0) {
        for (int i = 0; i < SNIC_DMA_SHM__FDS; i++)
            if (ours[i] >= 0)
                (void)close(ours[i]);
        return SNIC_ENOMEM;
    }
    return dma_shm_attach(s, ours[0], ours[2], ours[1], 0);
}

/** The connector closed it: what the user does for such a link would delay those who wait. */
static int dma_shm_deserted(const struct dma_shm *s)
{
    char byte;
    return recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/** HELLO came and fits: make the link and ask the user. */
static void dma_shm_admit(struct dma_shm *s)
{
    struct snic_dma_listener *n = s->listener;
    int fds[SNIC_DMA_SHM__FDS] = {-1, -1, -1};
    int r = dma_shm_deserted(s) ? SNIC_ECONNRESET : dma_shm_certify(s);
    if (r == 0)
        r = dma_shm_equip(s, fds);
    if (r != 0) {
        dma_shm_refuse(s, r);
    } else {
        snic_link_remove(&s->waiting);
        n->waiting_count--;
        s->listener = NULL;
        s->hold = 1;
        s->inside = 1;
        n->accept(n->ctx, &s->dma, s->peer_pid);
        s->inside = 0;
        if (s->closed) {
            dma_shm_discard(s);
        } else {
            struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_WELCOME);
            if (dma_shm_transmit(s->fd, &w, NULL, fds, SNIC_DMA_SHM__FDS) != 1)
                /* Gone already, and it never had our memory: as good as an orderly close. */
                atomic_store_explicit(&s->theirs->closed, 1, memory_order_relaxed);
            s->hold = 0;
            dma_shm_flush(s);
        }
    }
    for (int i = 0; i < SNIC_DMA_SHM__FDS; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

static void dma_shm_listener_free(struct snic_dma_listener *n)
{
    if (n->closed && !n->pending && !n->inside)
        free(n);
}

/** The socket of a link that awaits its HELLO is readable. */
static void dma_shm_greet(struct dma_shm *s)
{
    struct snic_dma_listener *n = s->listener;
    struct dma_shm_in in;
    int r = dma_shm_receive(s->fd, &in);
    if (r == 0)
        return;
    n->inside++;
    if (r == 1)
        dma_shm_close_fds(&in);
    if (r != 1 || in.wire.type != DMA_SHM_HELLO)
        dma_shm_turn_away(s);
    else if (in.wire.version != SNIC_DMA_SHM__VERSION)
        dma_shm_refuse(s, SNIC_EVERSION);
    else if (n->tag != 0 && in.wire.a != 0 && in.wire.a != n->tag)
        dma_shm_refuse(s, SNIC_EPERM);
    else
        dma_shm_admit(s);
    n->inside--;
    dma_shm_listener_free(n);
}

/** Take what waits in the backlog. 0 when the system is out of descriptors. */
static int dma_shm_accept_all(struct snic_dma_listener *n)
{
    for (;;) {
        int fd = accept4(n->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return errno == EAGAIN;
        int size = SNIC_DMA_SHM__SNDBUF;
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        if (n->waiting_count == SNIC_DMA_SHM__WAITING)
            dma_shm_turn_away(SNIC_CONTAINER(n->waiting.next, struct dma_shm, waiting));
        struct dma_shm *s = dma_shm_new(n->loop, fd, n->size_max);
        if (s == NULL) {
            (void)close(fd);
            continue;
        }
        s->listener = n;
        s->greet = dma_shm_greet;
        s->deadline_ns = snic_loop_now(n->loop) + SNIC_DMA_SHM__WAIT_NS;
        snic_link_append(&n->waiting, &s->waiting);
        n->waiting_count++;
        if (dma_shm_watch_start(s, &s->sock, fd) != 0)
            dma_shm_turn_away(s);
    }
}

static void dma_shm_listener_tend(struct snic_dma_listener *n)
{
    uint64_t now = snic_loop_now(n->loop);
    uint64_t next = SNIC_NEVER;
    if (!dma_shm_accept_all(n))
        next = now + SNIC_DMA_SHM__RETRY_ACCEPT_NS;
    while (!snic_link_alone(&n->waiting)) {
        struct dma_shm *s = SNIC_CONTAINER(n->waiting.next, struct dma_shm, waiting);
        if (s->deadline_ns > now) {
            next = snic_min_u64(next, s->deadline_ns);
            break;
        }
        dma_shm_turn_away(s);
    }
    if (next != SNIC_NEVER)
        snic_loop_arm(n->loop, &n->timer, next);
}

static void dma_shm_listener_timer(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    dma_shm_listener_tend(SNIC_CONTAINER(t, struct snic_dma_listener, timer));
}

static int dma_shm_listener_watch(struct snic_dma_listener *n)
{
    struct io_uring_sqe *sqe = loop_uring_sqe(n->loop, &n->op);
    if (sqe == NULL)
        return SNIC_ENOMEM;
    io_uring_prep_poll_multishot(sqe, n->fd, POLLIN);
    loop_uring_sqe_op(sqe, &n->op);
    n->pending = 1;
    return 0;
}

static void dma_shm_listener_fired(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct snic_dma_listener *n = SNIC_CONTAINER(op, struct snic_dma_listener, op);
    (void)res;
    if ((flags & IORING_CQE_F_MORE) == 0)
        n->pending = 0;
    if (n->closed) {
        dma_shm_listener_free(n);
        return;
    }
    if (!n->pending)
        (void)dma_shm_listener_watch(n);
    dma_shm_listener_tend(n);
}

/* ---- Listen ---- */

/**
 * Is the socket file stale, without a listener? The kernel closes what a killed process had open in
 * an io_uring some time after its end, so a socket may still accept although its process has ended.
 * Its pid shows this, unless another process has it by now; then the socket counts as in use.
 */
static int dma_shm_stale(const struct sockaddr_un *a)
{
    struct stat st;
    struct ucred cred;
    socklen_t size = sizeof(cred);
    int stale = 0;
    int probe = dma_shm_socket();
    if (probe < 0)
        return 0;
    if (lstat(a->sun_path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        if (connect(probe, (const struct sockaddr *)a, sizeof(*a)) != 0)
            stale = errno == ECONNREFUSED;
        else if (getsockopt(probe, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 && cred.pid > 0)
            stale = kill(cred.pid, 0) != 0 && errno == ESRCH;
    }
    (void)close(probe);
    return stale;
}

/** Bind, replacing a stale socket file. 0 or SNIC_E*. */
static int dma_shm_bind(int fd, const struct sockaddr_un *a)
{
    for (int again = 0; again < 2; again++) {
        if (bind(fd, (const struct sockaddr *)a, sizeof(*a)) == 0)
            return listen(fd, SNIC_DMA_SHM__WAITING) == 0 ? 0 : SNIC_ENOMEM;
        if (errno == EACCES || errno == EPERM || errno == EROFS)
            return SNIC_EACCES;
        if (errno != EADDRINUSE)
            return errno == ENOMEM ? SNIC_ENOMEM : SNIC_EINVAL;
        if (!dma_shm_stale(a))
            return SNIC_EADDRINUSE;
        (void)unlink(a->sun_path);
    }
    return SNIC_EADDRINUSE;
}

int snic_dma_shm_listen(struct snic_dma_listener **out, struct snic_loop *l,
                        const struct snic_dma_shm_opts *opts, snic_dma_accept_fn accept, void *ctx)
{
    struct snic_dma_shm_opts o;
    struct sockaddr_un address;
    struct stat st;
    int r = dma_shm_opts(&o, opts);
    if (r == 0)
        r = dma_shm_address(&address, &o);
    if (r == 0 && !loop_uring_is(l))
        r = SNIC_ENOTSUP;
    if (r != 0)
        return r;
    struct snic_dma_listener *n = calloc(1, sizeof(*n));
    int fd = dma_shm_socket();
    if (n == NULL || fd < 0) {
        free(n);
        if (fd >= 0)
            (void)close(fd);
        return SNIC_ENOMEM;
    }
    n->loop = l;
    n->fd = fd;
    n->address = address;
    n->size_max = o.size_max;
    n->tag = o.tag;
    n->accept = accept;
    n->ctx = ctx;
    n->op.complete = dma_shm_listener_fired;
    snic_link_init(&n->waiting);
    snic_timer_init(&n->timer, dma_shm_listener_timer);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    r = dma_shm_bind(fd, &address);
    if (r == 0 && stat(address.sun_path, &st) == 0) {
        n->dev = st.st_dev;
        n->ino = st.st_ino;
    }
    if (r == 0)
        r = dma_shm_listener_watch(n);
    if (r != 0) {
        (void)close(fd);
        free(n);
        return r;
    }
    *out = n;
    return 0;
}

void snic_dma_shm_unlisten(struct snic_dma_listener *n)
{
    struct stat st;
    if (n == NULL)
        return;
    SNIC_ASSERT(!n->closed);
    while (!snic_link_alone(&n->waiting))
        dma_shm_turn_away(SNIC_CONTAINER(n->waiting.next, struct dma_shm, waiting));
    snic_loop_cancel(n->loop, &n->timer);
    if (stat(n->address.sun_path, &st) == 0 && st.st_dev == n->dev && st.st_ino == n->ino)
        (void)unlink(n->address.sun_path);
    n->closed = 1;
    if (n->pending) {
        (void)loop_uring_cancel(n->loop, &n->op);
        (void)loop_uring_flush(n->loop);
    }
    (void)close(n->fd);
    dma_shm_listener_free(n);
}

/* ---- Connect ---- */

static uint64_t dma_shm_clock_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/** An eventfd, by its /proc name: a write to anything else could raise SIGPIPE. */
static int dma_shm_is_eventfd(int fd)
{
    char path[64];
    char name[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, name, sizeof(name) - 1);
    if (n < 0)
        return 1; /* no /proc */
    name[n] = 0;
    return strcmp(name, "anon_inode:[eventfd]") == 0;
}

/** Wait for the listener's answer. 0 and *in, or SNIC_E*. */
static int dma_shm_answer(int fd, uint64_t until_ms, struct dma_shm_in *in)
{
    for (;;) {
        int r = dma_shm_receive(fd, in);
        if (r == SNIC_EPIPE)
            return SNIC_ECONNREFUSED; /* the user at the other end closed it */
        if (r < 0)
            return r;
        if (r == 1)
            break;
        uint64_t now = dma_shm_clock_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now >= until_ms)
            return SNIC_ETIMEDOUT;
        (void)poll(&p, 1, (int)(until_ms - now));
    }
    int r = SNIC_EPROTO;
    if (in->wire.type == DMA_SHM_REFUSE)
        r = in->wire.a == (uint64_t)(int64_t)SNIC_EVERSION ? SNIC_EVERSION
            : in->wire.a == (uint64_t)(int64_t)SNIC_EPERM  ? SNIC_EPERM
                                                           : SNIC_ECONNREFUSED;
    else if (in->wire.version != SNIC_DMA_SHM__VERSION)
        r = SNIC_EVERSION;
    else if (in->wire.type == DMA_SHM_WELCOME && in->fd_count == SNIC_DMA_SHM__FDS &&
             dma_shm_is_eventfd(in->fds[1]) && dma_shm_is_eventfd(in->fds[2]))
        return 0;
    dma_shm_close_fds(in);
    return r;
}

static int dma_shm_dial(int fd, const struct sockaddr_un *a, uint32_t timeout_ms)
{
    struct timeval tv = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    for (;;) {
        if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EISCONN)
            return 0;
        switch (errno) {
        case EINTR:
            continue;
        case ENOENT:
        case ECONNREFUSED:
            return SNIC_ECONNREFUSED;
        case EAGAIN:
        case ETIMEDOUT:
            return SNIC_ETIMEDOUT;
        case EACCES:
        case EPERM:
            return SNIC_EACCES;
        case EPROTOTYPE: /* a socket of another kind listens there */
            return SNIC_EPROTO;
        default:
            return SNIC_EINVAL;
        }
    }
}

/** Shake hands on a connected socket. 0 and *in, or SNIC_E*. */
static int dma_shm_hello(int fd, const struct sockaddr_un *a, const struct snic_dma_shm_opts *o,
                         struct dma_shm_in *in)
{
    uint64_t until_ms = dma_shm_clock_ms() + o->timeout_ms;
    int r = dma_shm_dial(fd, a, o->timeout_ms);
    if (r != 0)
        return r;
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_HELLO);
    w.a = o->tag;
    r = dma_shm_transmit(fd, &w, NULL, NULL, 0);
    if (r != 1)
        return SNIC_ECONNREFUSED;
    return dma_shm_answer(fd, until_ms, in);
}

int snic_dma_shm_connect(struct snic_dma **out, struct snic_loop *l,
                         const struct snic_dma_shm_opts *opts, const struct snic_dma_events *events)
{
    struct snic_dma_shm_opts o;
    struct sockaddr_un address;
    struct dma_shm_in in;
    int r = dma_shm_opts(&o, opts);
    if (r == 0)
        r = dma_shm_address(&address, &o);
    if (r == 0 && !loop_uring_is(l))
        r = SNIC_ENOTSUP;
    if (r != 0)
        return r;
    int fd = dma_shm_socket();
    if (fd < 0)
        return SNIC_ENOMEM;
    r = dma_shm_hello(fd, &address, &o, &in);
    if (r != 0) {
        (void)close(fd);
        return r;
    }
    struct dma_shm *s = dma_shm_new(l, fd, o.size_max);
    if (s == NULL) {
        dma_shm_close_fds(&in);
        (void)close(fd);
        return SNIC_ENOMEM;
    }
    s->dma.events = *events;
    r = dma_shm_certify(s);
    if (r == 0)
        r = dma_shm_watch_start(s, &s->sock, fd);
    if (r != 0)
        dma_shm_close_fds(&in);
    else
        r = dma_shm_attach(s, in.fds[0], in.fds[1], in.fds[2], 1);
    if (r != 0) {
        snic_dma_close(&s->dma);
        return r == SNIC_ECONNRESET ? SNIC_ECONNREFUSED : r;
    }
    *out = &s->dma;
    return 0;
}
