/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kernel's side. With --threads 0 the thread of the file system reads /dev/fuse itself, without
 * waiting, and sleeps on it and on its stores together: two switches of threads per request, or,
 * while it looks busily, one. With readers of their own, those decode and post, and answers still
 * are sent by the file system's thread.
 *
 * libfuse mounts, and decodes unless dev.c does; two things that its version may not know are
 * handled here, on the kernel's own structs: flags for whether setuid and setgid bits are cleared,
 * and the answer to FUSE_INIT, which declares that we clear them (so that the kernel does not read
 * security.capability before every write).
 */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    KM_ROUND = 64,              /* requests read before the loop runs, */
    KM_ROUND_BYTES = 128 << 10, /* and bytes: a store writes while the next are copied */
    KM_WAIT_PARTS = 8,          /* a wait's part in the average */
    KM_WAIT_MOST = 4            /* a wait counts as so many times --spin at most */
};

/* ---- What libfuse does not pass on ---- */

static void session_raw(struct km *m, struct km_call *c, size_t size)
{
    const struct fuse_in_header *h = (const void *)km_call_buffer(c);
    const void *body = h + 1;

    c->raw = 0;
    if (size < sizeof(*h) + sizeof(uint64_t))
        return;
    switch (h->opcode) {
    case FUSE_SETATTR:
        c->raw = ((const struct fuse_setattr_in *)body)->valid;
        break;
    case FUSE_WRITE:
        if (size >= sizeof(*h) + sizeof(struct fuse_write_in))
            c->raw = ((const struct fuse_write_in *)body)->write_flags;
        break;
    case FUSE_OPEN:
        c->raw = ((const struct fuse_open_in *)body)->open_flags;
        break;
    case FUSE_CREATE:
        if (size >= sizeof(*h) + sizeof(struct fuse_create_in))
            c->raw = ((const struct fuse_create_in *)body)->open_flags;
        break;
    case FUSE_INIT:
        m->init_unique = h->unique;
        km_notify_begin(m, ((const struct fuse_init_in *)body)->minor);
        if (size >= sizeof(*h) + 16)
            m->init_flags = ((const struct fuse_init_in *)body)->flags;
        break;
    default:
        break;
    }
}

static void session_amend_init(struct km *m, struct fuse_init_out *out)
{
    if ((m->init_flags & FUSE_HANDLE_KILLPRIV_V2) != 0) {
        out->flags &= ~(uint32_t)FUSE_HANDLE_KILLPRIV;
        out->flags |= FUSE_HANDLE_KILLPRIV_V2;
    }
}

static ssize_t session_writev(int fd, struct iovec *iov, int count, void *userdata)
{
    struct km *m = userdata;
    const struct fuse_out_header *h = iov[0].iov_base;

    if (m->init_unique != 0 && h->unique == m->init_unique && count > 1) {
        session_amend_init(m, iov[1].iov_base);
        m->init_unique = 0;
    }
    return writev(fd, iov, count);
}

static ssize_t session_read(int fd, void *buf, size_t size, void *userdata)
{
    (void)userdata;
    return read(fd, buf, size);
}

/* ---- Receiving requests ---- */

/* Read one into *c and decode it; *c is NULL when the block is in use. Bytes; 0 none; -1 over. */
static ssize_t session_receive(struct km *m, struct km_call **c)
{
    struct fuse_buf b = {.mem = km_call_buffer(*c)};
    ssize_t n = read(m->fd, b.mem, KM_RECEIVE);

    if (n <= 0) {
        if (n < 0 && (errno == EINTR || errno == ENOENT)) /* ENOENT: the caller has died */
            return atomic_load(&m->over) ? -1 : 1;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0 && errno != ENODEV)
            ex_log(EX_ERROR, "cannot read /dev/fuse: %s", strerror(errno));
        return -1;
    }
    session_raw(m, *c, (size_t)n);
    b.size = (size_t)n;
    km_call_decode(*c);
    fuse_session_process_buf(m->se, &b);
    *c = km_call_take();
    return n;
}

static void session_is_over(struct snic_loop_msg *msg)
{
    struct km *m = SNIC_CONTAINER(msg, struct km, over_msg);

    atomic_store(&m->over, 2);
    snic_loop_stop(m->loop);
}

void km_session_over(struct km *m)
{
    int none = 0;

    if (atomic_compare_exchange_strong(&m->over, &none, 1))
        snic_loop_post(m->loop, &m->over_msg);
}

static void *session_reader(void *arg)
{
    struct km *m = arg;
    struct km_call *c = NULL;

    while (!atomic_load(&m->over)) {
        const struct timespec pause = {0, 1000000};

        if (c == NULL)
            c = km_call_get(m);
        if (c == NULL)
            nanosleep(&pause, NULL); /* all are in flight */
        else if (session_receive(m, &c) < 0)
            break;
    }
    if (c != NULL)
        km_call_put(c);
    km_session_over(m);
    return NULL;
}

/* ---- --threads 0: read, carry out, answer in one thread ---- */

struct session_alone {
    struct snic_loop_watch watch;
    struct km *m;
    struct km_call *call; /* that reads next */
    uint64_t spin_ns;
    uint64_t wait_ns;  /* moving average of waits for what is in flight */
    uint64_t since_ns; /* when something was done last */
    int busy;          /* something was in flight then */
};

/* @return as session_receive(), or km_dev_take() */
static ssize_t session_take(struct session_alone *s)
{
    if (s->m->dev != NULL)
        return km_dev_take(s->m);
    if (s->call == NULL)
        s->call = km_call_get(s->m);
    return s->call != NULL ? session_receive(s->m, &s->call) : 0; /* all are in flight */
}

/* Take the pending requests, up to a round. @return how many */
static int session_take_all(struct session_alone *s)
{
    ssize_t bytes = 0;
    int n = 0;

    while (n < KM_ROUND && bytes < KM_ROUND_BYTES) {
        ssize_t rc = session_take(s);

        if (rc < 0)
            km_session_over(s->m);
        if (rc <= 0)
            break;
        bytes += rc;
        n++;
    }
    return n;
}

/*
 * A large answer is copied by the kernel for longer than a store needs to begin the next read: one
 * in each round, so that requests are taken and stores get theirs in between.
 */
static int session_answer(struct km *m)
{
    struct snic_node *node = snic_queue_pop(&m->large);

    if (node == NULL)
        return 0;
    km_call_answer(SNIC_CONTAINER(node, struct km_call, large));
    return 1;
}

/* The next round reads the requests. */
static void session_readable(struct snic_loop_watch *w, int result)
{
    (void)w;
    (void)result;
}

/* A wait has ended. Half of one that was slept through is taken to be the waking up. */
static void session_waited(struct session_alone *s, uint64_t now, int slept)
{
    uint64_t waited = snic_min_u64((now - s->since_ns) >> slept, s->spin_ns * KM_WAIT_MOST);

    if (s->busy)
        s->wait_ns = s->wait_ns - s->wait_ns / KM_WAIT_PARTS + waited / KM_WAIT_PARTS;
}

static void session_worked(struct session_alone *s)
{
    unsigned locks = atomic_load_explicit(&s->m->locks_waiting, memory_order_relaxed);

    s->since_ns = snic_loop_clock(s->m->loop);
    s->busy = atomic_load_explicit(&s->m->in_flight, memory_order_relaxed) > locks;
}

/*
 * The next request follows an answer soon, if any does: that is looked for busily, so that it costs
 * one read and one write and no call of the loop's. While a disk or another machine has to answer
 * first, it polls if recent waits were as short. Another process's answers take as long as its
 * wake-up, so with --spin it polls for them each time (by default the host's processor is spared).
 */
static int session_spins(const struct session_alone *s)
{
    if (s->busy && s->wait_ns >= s->spin_ns && s->m->remote == NULL)
        return 0;
    return snic_loop_clock(s->m->loop) - s->since_ns < s->spin_ns;
}

static int session_wake(struct session_alone *s)
{
    if (s->m->dev != NULL)
        return km_dev_wake(s->m);
    return s->watch.armed ? 0 : snic_loop_watch_start(s->m->loop, &s->watch);
}

static void session_sleep(struct session_alone *s)
{
    int rc = session_wake(s);

    if (rc != 0)
        ex_log(EX_WARNING, "cannot wait for requests on /dev/fuse: %s", snic_strerror(rc));
    (void)snic_loop_once(s->m->loop, SNIC_NEVER);
    session_waited(s, snic_loop_now(s->m->loop), 1);
    session_worked(s);
}

static void session_alone(struct km *m)
{
    struct session_alone s = {.watch = {.fn = session_readable, .fd = m->fd}, .m = m};
    int waits = 0;

    s.spin_ns = m->config->spin_us * 1000;
    m->defer_large = 1;
    while (atomic_load_explicit(&m->over, memory_order_relaxed) != 2) {
        int done = session_take_all(&s);

        done += snic_loop_once(m->loop, 0) > 0;
        done += session_answer(m);
        if (done > 0) {
            if (waits)
                session_waited(&s, snic_loop_now(m->loop), 0);
            session_worked(&s);
            waits = 0;
        } else {
            waits = session_spins(&s);
            m->spins += (uint64_t)waits;
            if (!waits)
                session_sleep(&s);
        }
    }
    m->defer_large = 0;
    while (session_answer(m))
        ;
    snic_loop_watch_stop(m->loop, &s.watch);
    while (s.watch.armed)
        (void)snic_loop_once(m->loop, SNIC_NEVER);
    if (s.call != NULL)
        km_call_put(s.call);
    if (m->dev != NULL)
        km_dev_end(m);
}

/* ---- Running ---- */

static void session_nothing(int number)
{
    (void)number;
}

static void session_readers_start(struct km *m)
{
    struct sigaction sa;
    sigset_t all;
    sigset_t saved;

    memset(&sa, 0, sizeof(sa)); /* ends a read() */
    sa.sa_handler = session_nothing;
    sigaction(SIGUSR2, &sa, NULL);
    m->readers = calloc(m->config->threads, sizeof(*m->readers));
    if (m->readers == NULL)
        ex_die("out of memory for the threads (--threads)");
    sigfillset(&all);
    sigdelset(&all, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    for (; m->reader_count < m->config->threads; m->reader_count++)
        if (pthread_create(&m->readers[m->reader_count], NULL, session_reader, m) != 0)
            ex_die("cannot start a thread (--threads): %s", strerror(errno));
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

static void session_readers_join(struct km *m)
{
    for (unsigned i = 0; i < m->reader_count; i++) {
        struct timespec until;

        do {
            (void)pthread_kill(m->readers[i], SIGUSR2);
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 10000000;
            if (until.tv_nsec >= 1000000000) {
                until.tv_nsec -= 1000000000;
                until.tv_sec++;
            }
        } while (pthread_timedjoin_np(m->readers[i], NULL, &until) != 0);
    }
    free(m->readers);
    m->readers = NULL;
}

/* Cancel locks that wait. */
static void session_unlock(struct km *m)
{
    for (uint32_t i = 0; i < m->arena_used; i++) {
        struct km_call *c = (struct km_call *)(void *)(m->arena + (size_t)KM_BLOCK * i);

        if (c->waits)
            (void)m->carrier->cancel(m, c);
    }
}

/*
 * No more requests: what is in flight ends. To cancel a lock may need another try: the ring is
 * full, or the file system's process has died and its successor gets the lock request again.
 */
static void session_drain(struct km *m)
{
    while (atomic_load(&m->in_flight) > 0) {
        session_unlock(m);
        (void)snic_loop_once(m->loop, 100000000u);
    }
    km_known_end(m);
    while (!snic_link_alone(&m->files)) /* the session's end closes them */
        km_file_free(m, SNIC_CONTAINER(m->files.next, struct km_file, link));
}

void km_session_run(struct km *m)
{
    m->owner = pthread_self();
    m->over_msg.fn = session_is_over;
    if (m->config->threads == 0) {
        session_alone(m);
    } else {
        session_readers_start(m);
        (void)snic_loop_run(m->loop);
        session_readers_join(m);
    }
    session_drain(m);
}

/* ---- Mounting ---- */

static int session_args(struct km *m, struct fuse_args *args)
{
    char name[512];
    char options[1024];
    char extra[4096];

    snprintf(name, sizeof(name), "%s", m->config->store);
    for (char *p = name; *p != 0; p++)
        if (*p == ',' || *p == '\\')
            *p = '_';
    snprintf(options, sizeof(options), "%sdefault_permissions,subtype=kvfs_mount,fsname=%s",
             geteuid() == 0 ? "dev,suid,allow_other," : "", name);
    if (fuse_opt_add_arg(args, "kvfs_mount") != 0 || fuse_opt_add_arg(args, "-o") != 0 ||
        fuse_opt_add_arg(args, options) != 0)
        return -1;
    km_options_libfuse(m->config, extra, sizeof(extra));
    if (extra[0] != 0 && (fuse_opt_add_arg(args, "-o") != 0 || fuse_opt_add_arg(args, extra) != 0))
        return -1;
    return 0;
}

int km_session_open(struct km *m)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);

    pthread_mutex_init(&m->refresh_lock, NULL);
    if (session_args(m, &args) == 0)
        m->se = fuse_session_new(&args, &km_ops, sizeof(km_ops), m);
    fuse_opt_free_args(&args);
    return m->se != NULL ? 0 : -1;
}

int km_session_mount(struct km *m)
{
    static const struct fuse_custom_io io = {.writev = session_writev, .read = session_read};
    int rc;

    if (fuse_session_mount(m->se, m->config->mountpoint) != 0)
        return -1;
    m->mounted_here = 1;
    m->fd = fuse_session_fd(m->se);
    rc = m->config->dev ? 0 : fuse_session_custom_io(m->se, &io, m->fd);
    if (rc != 0) {
        ex_log(EX_ERROR, "cannot set up libfuse: %s", strerror(-rc));
        return -1;
    }
    if (m->config->threads == 0 && fcntl(m->fd, F_SETFL, fcntl(m->fd, F_GETFL) | O_NONBLOCK) != 0) {
        ex_log(EX_ERROR, "cannot open /dev/fuse: %s", strerror(errno));
        return -1;
    }
    return m->config->dev ? km_dev_open(m) : 0;
}

void km_session_close(struct km *m)
{
    if (m->se == NULL)
        return;
    km_dev_close(m);
    if (m->mounted_here)
        fuse_session_unmount(m->se); /* closes /dev/fuse: processes that still wait for us wake */
    if (m->stopper_runs)
        (void)pthread_join(m->stopper, NULL);
    if (atomic_load(&m->refreshing) != KM_REFRESH_NONE)
        (void)pthread_join(m->refresher, NULL);
    fuse_session_destroy(m->se);
    m->se = NULL;
}
