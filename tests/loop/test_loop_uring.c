/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What only the io_uring loop has: options, refusals, regions, files, polls, the shared ring. */
#include "support.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loop/uring.h"

static struct snic_loop *open_loop(const struct snic_loop_uring_opts *o)
{
    struct snic_loop *l = NULL;
    int r = snic_loop_uring_open(&l, o);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring here");
    assert_int_equal(r, 0);
    return l;
}

/* ---- Options and refusals ---- */

/* A bad option that got through would be the kernel's puzzle later. */
static void test_loop_uring_bad_options_open_refused(void **state)
{
    struct snic_loop *l = NULL;
    const struct snic_loop_uring_opts good = {.opts_size = sizeof(good)};
    struct snic_loop_uring_opts o;
    (void)state;
#define BAD(field, value)                                                                          \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    assert_int_equal(snic_loop_uring_open(&l, &o), SNIC_EINVAL);                                   \
    assert_null(l)
    BAD(opts_size, 0);
    BAD(opts_size, 3);
    BAD(entries, 4);
    BAD(entries, 100);
    BAD(entries, 65536);
    BAD(regions, 16385);
    BAD(reserved, 1);
    BAD(mask, 1u << 20);
#undef BAD
    l = open_loop(&good);
    assert_int_equal(loop_uring_is(l), 1);
    assert_null(snic_loop_world(l));
    snic_loop_close(l);
    snic_loop_close(NULL);
}

/* Each feature can be hidden, and the loop reports what it uses. */
static void test_loop_uring_masked_features_not_in_use(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 10; bit++) {
        struct snic_loop_stats s;
        struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .mask = 1u << bit};
        struct snic_loop *l = open_loop(&o);
        snic_loop_get_stats(l, &s);
        assert_int_equal(s.features & o.mask, 0);
        assert_int_equal(s.features, loop_uring_features(l));
        assert_true(snic_loop_once(l, 0) >= 0);
        snic_loop_close(l);
    }
}

/** Make io_uring_setup() fail with @p error in this process. */
static int deny_io_uring(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = SNIC_COUNTOF(code), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

struct denial {
    int error;
    int expect;
};

static void denied_body(void *ctx)
{
    const struct denial *d = ctx;
    struct snic_loop *l = NULL;
    int os_error = 0;
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .os_error = &os_error};
    if (!deny_io_uring(d->error))
        _exit(77);
    if (snic_loop_uring_open(&l, NULL) != d->expect || l != NULL)
        _exit(1);
    _exit(snic_loop_uring_open(&l, &o) == d->expect && os_error == d->error ? 0 : 2);
}

/* Start-up errors must name what is wrong: no io_uring, forbidden, no memory. */
static void test_loop_uring_kernel_refuses_open_reports_why(void **state)
{
    struct denial d[] = {{ENOSYS, SNIC_ENOTSUP}, {EPERM, SNIC_EACCES},  {ENOMEM, SNIC_ENOMEM},
                         {EMFILE, SNIC_ENFILE},  {ENFILE, SNIC_ENFILE}, {EAGAIN, SNIC_EAGAIN}};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(d); i++) {
        int status = support_fork(denied_body, &d[i]);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            support_skip("no seccomp filters here");
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* ---- Regions ---- */

/* The table must fill up, empty, and know its bounds to the byte. */
static void test_loop_uring_regions_add_remove_hold(void **state)
{
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .regions = 2};
    struct snic_loop *l = open_loop(&o);
    unsigned char *mem = aligned_alloc(4096, 3 * 4096);
    (void)state;
    assert_non_null(mem);
    assert_int_equal(snic_loop_region_add(l, mem, 0), SNIC_EINVAL);
    int a = snic_loop_region_add(l, mem, 4096);
    if (a == SNIC_ENOMEM || a == SNIC_ENOTSUP) {
        free(mem);
        snic_loop_close(l);
        support_skip("no registered buffers here");
    }
    int b = snic_loop_region_add(l, mem + 4096, 4096);
    assert_true(a >= 0 && b >= 0 && a != b);
    assert_int_equal(snic_loop_region_add(l, mem + 8192, 4096), SNIC_ENOMEM);
    assert_int_equal(snic_loop_region_holds(l, b, mem + 4096, 4096), 1);
    assert_int_equal(snic_loop_region_holds(l, b, mem + 4096, 4097), 0);
    assert_int_equal(snic_loop_region_holds(l, b, mem + 4095, 1), 0);
    assert_int_equal(snic_loop_region_holds(l, b, mem + 8191, 1), 1);
    assert_int_equal(snic_loop_region_holds(l, b, mem + 8191, SIZE_MAX), 0);
    assert_int_equal(snic_loop_region_holds(l, 2, mem, 1), 0);
    assert_int_equal(snic_loop_region_holds(l, -1, mem, 1), 0);
    snic_loop_region_remove(l, SNIC_NO_REGION);
    snic_loop_region_remove(l, a);
    assert_int_equal(snic_loop_region_holds(l, a, mem, 1), 0);
    assert_int_equal(snic_loop_region_add(l, mem + 8192, 4096), a);
    snic_loop_region_remove(l, a);
    snic_loop_region_remove(l, b);
    snic_loop_close(l);
    free(mem);
    o.mask = SNIC_LOOP_HAVE_FIXED_BUFFERS;
    l = open_loop(&o);
    assert_int_equal(snic_loop_region_add(l, &o, sizeof(o)), SNIC_ENOTSUP);
    snic_loop_close(l);
}

static void memlock_body(void *ctx)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    struct snic_loop *l = NULL;
    size_t size = 32u << 20;
    (void)ctx;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && setuid(65534) != 0) ||
        snic_loop_uring_open(&l, NULL) != 0)
        _exit(77);
    void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int r = mem == MAP_FAILED ? 1 : snic_loop_region_add(l, mem, size);
    if (r == SNIC_ENOTSUP)
        _exit(77);
    _exit(r == SNIC_ENOMEM && snic_loop_once(l, 0) >= 0 ? 0 : 1);
}

/* With 8 MiB of memlock registration fails; the caller must learn it and continue. */
static void test_loop_uring_memlock_too_small_region_refused(void **state)
{
    (void)state;
    int status = support_fork(memlock_body, NULL);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        support_skip("cannot limit memlock here");
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- The shared ring ---- */

struct nop {
    struct snic_uring_op op;
    int done;
    int32_t res;
};

static void nop_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct nop *n = SNIC_CONTAINER(op, struct nop, op);
    (void)flags;
    n->done++;
    n->res = res;
}

/* More entries than the queue holds: each must be submitted once and complete once. */
static void test_loop_uring_queue_full_flushed_each_completes_once(void **state)
{
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .entries = 8};
    enum { COUNT = 9000 }; /* more than the completion queue holds, too */
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        o.mask = round == 0 ? 0
                            : SNIC_LOOP_HAVE_SINGLE_ISSUER | SNIC_LOOP_HAVE_DEFER_TASKRUN |
                                  SNIC_LOOP_HAVE_COOP_TASKRUN;
        struct snic_loop *l = open_loop(&o);
        struct nop *nops = calloc(COUNT, sizeof(*nops));
        uint64_t sent = 0;
        assert_non_null(nops);
        while (sent < COUNT) {
            nops[sent].op.complete = nop_done;
            struct io_uring_sqe *sqe = loop_uring_sqe(l, &nops[sent].op);
            if (sqe == NULL) { /* the kernel asks us to reap first */
                assert_true(sent > 100);
                assert_true(snic_loop_once(l, 0) >= 0);
                continue;
            }
            io_uring_prep_nop(sqe);
            sent++;
        }
        while (loop_uring_outstanding(l) > 0)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(nops[i].done, 1);
        assert_int_equal(loop_uring_sq_space(l), 8);
        free(nops);
        snic_loop_close(l);
    }
}

/* Steady load must cost one system call per iteration, or the disks starve the network. */
static void test_loop_uring_steady_load_one_enter_per_iteration(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct nop n = {.op = {.complete = nop_done}};
    struct snic_loop_stats a, b;
    (void)state;
    while (snic_loop_once(l, 0) > 0)
        ;
    snic_loop_get_stats(l, &a);
    for (int i = 0; i < 100; i++) {
        io_uring_prep_nop(loop_uring_sqe(l, &n.op));
        while (n.done == i)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    }
    snic_loop_get_stats(l, &b);
    assert_int_equal(b.enters - a.enters, 100);
    snic_loop_close(l);
}

struct quiet {
    struct loop_uring_quiet q;
    int fd[2];
    int done;
    int32_t res;
    char bytes[1 << 20];
};

static void quiet_done(struct snic_uring_op *op, int32_t res, uint32_t flags)
{
    struct quiet *t =
        SNIC_CONTAINER(SNIC_CONTAINER(op, struct loop_uring_quiet, op), struct quiet, q);
    assert_int_equal(flags & IORING_CQE_F_MORE, 0);
    t->done++;
    t->res = res;
}

static void quiet_never(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
    fail_msg("no completion in 240 s");
}

static void quiet_send(struct snic_loop *l, struct quiet *t, size_t size)
{
    struct io_uring_sqe *sqe = loop_uring_sqe(l, &t->q.op);
    assert_non_null(sqe);
    io_uring_prep_send(sqe, t->fd[0], t->bytes, size, MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL);
    loop_uring_quiet(l, sqe, &t->q, (int32_t)size);
}

/* A send that nothing waits for costs no system call of its own and wakes nothing; one that is
 * short does, or the rest of a reply would stay behind until something else happens. */
static void test_loop_uring_quiet_send_success_silent_failure_wakes(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct quiet *t = calloc(1, sizeof(*t));
    struct snic_loop_stats a, b;
    struct snic_timer limit;
    (void)state;
    assert_non_null(t);
    if (!loop_uring_quiet_able(l))
        support_skip("completions cannot be left out here");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, t->fd), 0);
    loop_uring_quiet_init(&t->q, quiet_done);
    while (snic_loop_once(l, 0) > 0)
        ;
    snic_loop_get_stats(l, &a);
    quiet_send(l, t, 100);
    assert_int_equal(snic_loop_once(l, 1000000), 1); /* in the same call: sent, and slept */
    snic_loop_get_stats(l, &b);
    assert_int_equal(b.enters - a.enters, 1);
    assert_int_equal(t->done, 1);
    assert_int_equal(t->res, 100);
    assert_int_equal(loop_uring_outstanding(l), 0);
    snic_timer_init(&limit, quiet_never);
    snic_loop_arm(l, &limit, snic_loop_now(l) + UINT64_C(240000000000));
    quiet_send(l, t, 100);
    loop_uring_quiet_now(l);
    while (t->done == 1) /* it does not sleep */
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    assert_int_equal(t->res, 100);
    quiet_send(l, t, sizeof(t->bytes));
    while (t->done == 2)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    assert_true(t->res > 0 && t->res < (int32_t)sizeof(t->bytes));
    quiet_send(l, t, sizeof(t->bytes));
    while (t->done == 3)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    snic_loop_cancel(l, &limit);
    assert_int_equal(t->res, -EAGAIN);
    assert_int_equal(loop_uring_outstanding(l), 0);
    (void)close(t->fd[0]);
    (void)close(t->fd[1]);
    free(t);
    snic_loop_close(l);
}

/* A loop that looks before it sleeps does not look for what it has. */
static void test_loop_uring_quiet_send_awaited_no_spin(void **state)
{
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .spin_us = 3600000000u};
    struct snic_loop *l = open_loop(&o);
    struct quiet *t = calloc(1, sizeof(*t));
    (void)state;
    assert_non_null(t);
    if (!loop_uring_quiet_able(l))
        support_skip("completions cannot be left out here");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, t->fd), 0);
    loop_uring_quiet_init(&t->q, quiet_done);
    while (snic_loop_once(l, 0) > 0)
        ;
    quiet_send(l, t, 100);
    loop_uring_quiet_now(l);
    while (t->done == 0) /* it does not spin for an hour */
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    struct snic_loop_stats a, b;
    quiet_send(l, t, 100);
    loop_uring_quiet_now(l);
    assert_int_equal(loop_uring_flush(l), 0);
    while (t->done == 1) /* collected without a sleep, so the next one is one */
        assert_true(snic_loop_once(l, 0) >= 0);
    snic_loop_get_stats(l, &a);
    assert_true(snic_loop_once(l, 1000000) >= 0);
    snic_loop_get_stats(l, &b);
    assert_int_equal(b.enters - a.enters, 1);
    assert_int_equal(loop_uring_outstanding(l), 0);
    (void)close(t->fd[0]);
    (void)close(t->fd[1]);
    free(t);
    snic_loop_close(l);
}

struct hog {
    struct snic_loop_task task;
    struct snic_loop *loop;
    struct nop *nop;
};

static uint32_t hog_run(struct snic_loop_task *t, uint32_t budget)
{
    struct hog *h = SNIC_CONTAINER(t, struct hog, task);
    if (h->nop->done == 0)
        return budget; /* always something left to do */
    snic_loop_stop(h->loop);
    return 0;
}

/* Tasks that never rest must not keep I/O from being submitted and reaped. */
static void test_loop_uring_busy_tasks_io_goes_on(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct nop n = {.op = {.complete = nop_done}};
    struct hog h = {.loop = l, .nop = &n};
    (void)state;
    snic_loop_task_init(&h.task, hog_run, 1);
    snic_loop_ready(l, &h.task);
    io_uring_prep_nop(loop_uring_sqe(l, &n.op));
    assert_int_equal(snic_loop_run(l), 0);
    assert_int_equal(n.done, 1);
    snic_loop_close(l);
}

/* Cancel reaches an operation that would never end by itself. */
static void test_loop_uring_pending_op_cancel_completes(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct nop n = {.op = {.complete = nop_done}};
    int fds[2];
    char byte;
    (void)state;
    assert_int_equal(pipe(fds), 0);
    io_uring_prep_read(loop_uring_sqe(l, &n.op), fds[0], &byte, 1, 0);
    assert_true(snic_loop_once(l, 0) >= 0);
    assert_int_equal(loop_uring_cancel(l, &n.op), 0);
    while (loop_uring_outstanding(l) > 0)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    assert_int_equal(n.done, 1);
    assert_int_equal(n.res, -ECANCELED);
    close(fds[0]);
    close(fds[1]);
    snic_loop_close(l);
}

/* Slots and groups must come back after use, and differ while in use. */
static void test_loop_uring_file_slots_and_groups_recycle(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct snic_loop_uring_opts none = {.opts_size = sizeof(none),
                                        .mask = SNIC_LOOP_HAVE_FIXED_FILES};
    (void)state;
    int fd = eventfd(0, 0);
    assert_true(fd >= 0);
    if ((loop_uring_features(l) & SNIC_LOOP_HAVE_FIXED_FILES) != 0) {
        for (int round = 0; round < 20; round++) { /* more than there are slots */
            int slots[300];
            for (int i = 0; i < 300; i++) {
                slots[i] = loop_uring_file_add(l, fd);
                if (slots[i] == SNIC_ENOSPC) { /* a small descriptor limit */
                    slots[i] = -1;
                    continue;
                }
                assert_true(slots[i] >= 0);
                for (int j = 0; j < i; j++)
                    assert_int_not_equal(slots[i], slots[j]);
            }
            for (int i = 0; i < 300; i++)
                loop_uring_file_remove(l, slots[i]);
        }
        assert_int_equal(loop_uring_file_add(l, 1000000), SNIC_EIO); /* no such descriptor */
    }
    int a = loop_uring_group_get(l), b = loop_uring_group_get(l);
    assert_true(a >= 0 && b >= 0 && a != b);
    loop_uring_group_put(l, a);
    assert_int_equal(loop_uring_group_get(l), a);
    snic_loop_close(l);
    l = open_loop(&none);
    assert_int_equal(loop_uring_file_add(l, fd), SNIC_ENOTSUP);
    loop_uring_file_remove(l, SNIC_ENOTSUP);
    snic_loop_close(l);
    close(fd);
}

/* ---- Polls ---- */

struct watch {
    struct loop_uring_poll poll;
    int calls;
    int last;
    int order;
};

static int order_next;

static void watch_seen(struct loop_uring_poll *p, int events)
{
    struct watch *w = SNIC_CONTAINER(p, struct watch, poll);
    w->calls++;
    w->last = events;
    w->order = ++order_next;
}

struct late {
    struct snic_timer timer;
    int order;
};

static void late_fires(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    SNIC_CONTAINER(t, struct late, timer)->order = ++order_next;
}

/* Doorbells: every write is an event, without reading the eventfd; a stop is silent. */
static void test_loop_uring_poll_eventfd_each_write_seen(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct watch w = {.calls = 0};
    (void)state;
    int fd = eventfd(0, EFD_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(loop_uring_poll_start(&w.poll, l, fd, watch_seen), 0);
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(eventfd_write(fd, 1), 0);
        while (w.calls < i)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        assert_true((w.last & POLLIN) != 0);
    }
    loop_uring_poll_stop(&w.poll);
    int calls = w.calls;
    while (w.poll.pending)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    assert_int_equal(eventfd_write(fd, 1), 0);
    (void)snic_loop_once(l, 1000000);
    assert_int_equal(w.calls, calls);
    assert_int_equal(loop_uring_poll_start(&w.poll, l, fd, watch_seen), 0); /* usable again */
    while (w.calls == calls)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    loop_uring_poll_stop(&w.poll);
    while (w.poll.pending || loop_uring_outstanding(l) > 0)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    close(fd);
    snic_loop_close(l);
}

/* A watch that fails must report it once, not spin. */
static void test_loop_uring_poll_bad_descriptor_ends_with_error(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct watch w = {.calls = 0};
    (void)state;
    assert_int_equal(loop_uring_poll_start(&w.poll, l, 1000000, watch_seen), 0);
    while (w.calls == 0)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    assert_true(w.last < 0);
    assert_int_equal(w.poll.pending, 0);
    assert_int_equal(w.poll.active, 0);
    (void)snic_loop_once(l, 1000000);
    assert_int_equal(w.calls, 1);
    snic_loop_close(l);
}

/* The kernel may end a multishot poll after any event; the watch must continue. */
static void test_loop_uring_poll_ended_by_kernel_rearmed(void **state)
{
    struct snic_loop *l = open_loop(NULL);
    struct watch w = {.calls = 0};
    (void)state;
    int fd = eventfd(0, EFD_NONBLOCK);
    assert_int_equal(loop_uring_poll_start(&w.poll, l, fd, watch_seen), 0);
    loop_uring_poll_stop(&w.poll);
    while (w.poll.pending)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    w.poll.active = 1; /* as if it had run on, and this were its last completion */
    w.poll.pending = 1;
    w.poll.op.complete(&w.poll.op, POLLIN, 0);
    assert_int_equal(w.calls, 1);
    assert_int_equal(w.poll.pending, 1);
    assert_int_equal(eventfd_write(fd, 1), 0);
    while (w.calls < 2)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    loop_uring_poll_stop(&w.poll);
    while (w.poll.pending)
        assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
    close(fd);
    snic_loop_close(l);
}

/* After a stall the answer that is there must be seen before the time-out that is due. */
static void test_loop_uring_stalled_process_sees_completion_before_timer(void **state)
{
    static const uint32_t masks[] = {0, SNIC_LOOP_HAVE_DEFER_TASKRUN,
                                     SNIC_LOOP_HAVE_DEFER_TASKRUN | SNIC_LOOP_HAVE_SINGLE_ISSUER |
                                         SNIC_LOOP_HAVE_COOP_TASKRUN};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(masks); i++) {
        struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .mask = masks[i]};
        struct snic_loop *l = open_loop(&o);
        struct watch w = {.calls = 0};
        struct late t = {.order = 0};
        struct timespec nap = {.tv_nsec = 5000000};
        int fd = eventfd(0, EFD_NONBLOCK);
        order_next = 0;
        snic_timer_init(&t.timer, late_fires);
        assert_int_equal(loop_uring_poll_start(&w.poll, l, fd, watch_seen), 0);
        while (snic_loop_once(l, 0) > 0)
            ;
        snic_loop_arm(l, &t.timer, snic_loop_now(l) + 1000000);
        assert_int_equal(eventfd_write(fd, 1), 0); /* the answer */
        nanosleep(&nap, NULL);                     /* the stall */
        while (w.calls == 0 || t.order == 0)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        assert_int_equal(w.order, 1);
        assert_int_equal(t.order, 2);
        loop_uring_poll_stop(&w.poll);
        while (w.poll.pending)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        close(fd);
        snic_loop_close(l);
    }
}

static void late_close_body(void *ctx)
{
    struct snic_loop *l = NULL;
    (void)ctx;
    if (snic_loop_uring_open(&l, NULL) != 0)
        return;
    snic_loop_region_remove(l, 7); /* never registered */
}

/* Removing what is not registered is a bug of the caller, caught at once. */
static void test_loop_uring_unknown_region_remove_aborts(void **state)
{
    (void)state;
    snic_loop_close(open_loop(NULL));
    SUPPORT_EXPECT_ABORT(late_close_body, NULL);
}

/* In a time namespace whose machine was suspended for a day: CLOCK_BOOTTIME shows it, and
 * CLOCK_MONOTONIC does not. 0: the loop's clock shows it; 77: no such namespace here. */
static int suspended_child(void)
{
    if (unshare(CLONE_NEWTIME) != 0)
        return 77;
    FILE *f = fopen("/proc/self/timens_offsets", "we");
    if (f == NULL || fputs("boottime 86400 0\n", f) < 0 || fclose(f) != 0)
        return 77;
    pid_t pid = fork(); /* children are in it */
    if (pid == 0) {
        struct snic_loop *l = NULL;
        struct timespec a, b;
        if (snic_loop_uring_open(&l, NULL) != 0)
            _exit(77);
        (void)clock_gettime(CLOCK_BOOTTIME, &a);
        uint64_t now = snic_loop_clock(l);
        (void)clock_gettime(CLOCK_BOOTTIME, &b);
        uint64_t from = (uint64_t)a.tv_sec * 1000000000 + (uint64_t)a.tv_nsec;
        uint64_t to = (uint64_t)b.tv_sec * 1000000000 + (uint64_t)b.tv_nsec;
        _exit(from <= now && now <= to ? 0 : 1);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Leases end while a machine sleeps; a clock that stopped with it would serve stale reads. */
static void test_loop_uring_clock_counts_suspended_time(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(suspended_child());
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        support_skip("no time namespace here");
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_uring_bad_options_open_refused),
        cmocka_unit_test(test_loop_uring_clock_counts_suspended_time),
        cmocka_unit_test(test_loop_uring_masked_features_not_in_use),
        cmocka_unit_test(test_loop_uring_kernel_refuses_open_reports_why),
        cmocka_unit_test(test_loop_uring_regions_add_remove_hold),
        cmocka_unit_test(test_loop_uring_memlock_too_small_region_refused),
        cmocka_unit_test(test_loop_uring_queue_full_flushed_each_completes_once),
        cmocka_unit_test(test_loop_uring_steady_load_one_enter_per_iteration),
        cmocka_unit_test(test_loop_uring_quiet_send_success_silent_failure_wakes),
        cmocka_unit_test(test_loop_uring_quiet_send_awaited_no_spin),
        cmocka_unit_test(test_loop_uring_busy_tasks_io_goes_on),
        cmocka_unit_test(test_loop_uring_pending_op_cancel_completes),
        cmocka_unit_test(test_loop_uring_file_slots_and_groups_recycle),
        cmocka_unit_test(test_loop_uring_poll_eventfd_each_write_seen),
        cmocka_unit_test(test_loop_uring_poll_bad_descriptor_ends_with_error),
        cmocka_unit_test(test_loop_uring_poll_ended_by_kernel_rearmed),
        cmocka_unit_test(test_loop_uring_stalled_process_sees_completion_before_timer),
        cmocka_unit_test(test_loop_uring_unknown_region_remove_aborts),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
