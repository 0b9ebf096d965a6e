/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Files on io_uring: opening and refusals, locks, sizes, what reaches the file, kernel errors. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snicstore/io.h"

#define MIB ((uint64_t)1 << 20)

static struct snic_loop *open_loop(uint32_t mask)
{
    struct snic_loop *l = NULL;
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .mask = mask, .stall_ns = SNIC_NEVER};
    int r = snic_loop_uring_open(&l, &o);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring here");
    assert_int_equal(r, 0);
    return l;
}

static int open_io(struct snic_io **io, struct snic_loop *l, const char *path, uint32_t flags,
                   uint64_t size, int *os)
{
    struct snic_io_uring_opts o = {
        .opts_size = sizeof(o), .path = path, .flags = flags, .size = size};
    return snic_io_uring_open(io, l, &o, os);
}

struct call {
    struct snic_io_req req;
    int done;
};

static void call_done(struct snic_io_req *req)
{
    SNIC_CONTAINER(req, struct call, req)->done++;
}

static struct call call_run(struct snic_io *io, enum snic_io_op op, uint64_t offset, void *mem,
                            uint64_t length)
{
    struct call c;
    struct snic_io_req *one = &c.req;
    memset(&c, 0, sizeof(c));
    c.req.done = call_done;
    c.req.op = (uint8_t)op;
    c.req.offset = offset;
    c.req.length = length;
    c.req.buf.base = mem;
    c.req.buf.size = length;
    c.req.region = SNIC_NO_REGION;
    if (snic_io_submit(io, &one, 1) != 1)
        abort();
    while (c.done == 0)
        (void)snic_loop_once(io->loop, SNIC_NEVER);
    return c;
}

/* ---- Refusals ---- */

/* Start-up errors must name what is wrong, with the kernel's own number beside. */
static void test_io_uring_open_refused_reports_why(void **state)
{
    struct snic_loop *l = open_loop(0), *sim = NULL;
    struct snic_world *w = NULL;
    struct snic_io *io = NULL;
    char path[256], none[256], fifo[256], text[300];
    int os = 77;
    struct snic_io_uring_opts o;
    (void)state;
    close(support_tmpfile(path, sizeof(path), "exists", MIB));
    support_tmpname(none, sizeof(none), "none");
    support_tmpname(fifo, sizeof(fifo), "fifo");
    const struct snic_io_uring_opts good = {.opts_size = sizeof(good), .path = path};
#define BAD(field, value)                                                                          \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    assert_int_equal(snic_io_uring_open(&io, l, &o, &os), SNIC_EINVAL);                            \
    assert_null(io)
    BAD(opts_size, 0);
    BAD(path, NULL);
    BAD(path, "");
    BAD(flags, 1u << 20);
    BAD(flags, SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_READONLY);
    BAD(size, 1); /* without CREATE */
    BAD(depth, 32769);
    BAD(reserved, 1);
    o = good;
    o.flags = SNIC_IO_OPEN_CREATE;
    o.size = UINT64_MAX;
    assert_int_equal(snic_io_uring_open(&io, l, &o, NULL), SNIC_EINVAL);
#undef BAD
    assert_int_equal(open_io(&io, l, none, 0, 0, &os), SNIC_ENOENT);
    assert_int_equal(os, ENOENT);
    assert_int_equal(open_io(&io, l, none, SNIC_IO_OPEN_CREATE, 0, &os), SNIC_ENOENT);
    (void)snprintf(text, sizeof(text), "%s/below", path);
    assert_int_equal(open_io(&io, l, text, 0, 0, &os), SNIC_ENOENT);
    assert_int_equal(open_io(&io, l, support_tmpdir(), SNIC_IO_OPEN_READONLY, 0, &os),
                     SNIC_ENOTSUP);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(open_io(&io, l, fifo, 0, 0, &os), SNIC_ENOTSUP);
    assert_int_equal(open_io(&io, l, "/dev/null", 0, 0, &os), SNIC_ENOTSUP);
    assert_int_equal(open_io(&io, l, none, SNIC_IO_OPEN_CREATE, (uint64_t)1 << 60, &os),
                     SNIC_ENOSPC);
    assert_int_equal(access(none, F_OK), -1); /* no half-made file stays */
    assert_int_equal(snic_world_open(&w, NULL), 0);
    assert_int_equal(snic_world_loop(w, 0, &sim), 0);
    assert_int_equal(open_io(&io, sim, path, 0, 0, &os), SNIC_ENOTSUP);
    assert_null(io);
    snic_loop_close(sim);
    snic_world_close(w);
    snic_loop_close(l);
}

static void no_access_body(void *ctx)
{
    struct snic_loop *l = NULL;
    struct snic_io *io = NULL;
    int os = 0;
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(77);
    if (snic_loop_uring_open(&l, NULL) != 0)
        _exit(77);
    _exit(open_io(&io, l, ctx, 0, 0, &os) == SNIC_EACCES && os == EACCES ? 0 : 1);
}

/* "Access refused" must not read as "no such file". */
static void test_io_uring_file_of_another_user_access_refused(void **state)
{
    char path[256];
    (void)state;
    close(support_tmpfile(path, sizeof(path), "private", MIB));
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(support_tmpdir(), 0755), 0);
    int status = support_fork(no_access_body, path);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        support_skip("cannot become another user");
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Two nodes on one image would destroy it; a lock that outlives close would block a restart. */
static void test_io_uring_locked_second_open_busy_until_close(void **state)
{
    char path[256];
    (void)state;
    close(support_tmpfile(path, sizeof(path), "locked", MIB));
    for (int i = 0; i < 20; i++) {
        struct snic_loop *l = open_loop(i % 2 ? SNIC_LOOP_HAVE_FIXED_FILES : 0);
        struct snic_io *a = NULL, *b = NULL;
        int os = 0;
        assert_int_equal(open_io(&a, l, path, SNIC_IO_OPEN_LOCK, 0, NULL), 0);
        assert_int_equal(open_io(&b, l, path, SNIC_IO_OPEN_LOCK, 0, &os), SNIC_EBUSY);
        assert_null(b);
        assert_int_equal(open_io(&b, l, path, 0, 0, &os), 0); /* without the flag it may */
        snic_io_close(b);
        snic_io_close(a);
        assert_int_equal(open_io(&b, l, path, SNIC_IO_OPEN_LOCK, 0, NULL), 0);
        snic_io_close(b);
        snic_loop_close(l);
    }
}

/* ---- Sizes ---- */

/* A file is created at its size, kept if larger, grown if smaller, and never shrunk. */
static void test_io_uring_create_brings_file_to_size(void **state)
{
    struct snic_loop *l = open_loop(0);
    struct snic_io *io = NULL;
    struct stat st;
    char path[256];
    (void)state;
    support_tmpname(path, sizeof(path), "sized");
    assert_int_equal(open_io(&io, l, path, SNIC_IO_OPEN_CREATE, 2 * MIB, NULL), 0);
    assert_int_equal(io->geometry.size, 2 * MIB);
    assert_int_equal(io->depth_max, 1024);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 2 * MIB);
    assert_int_equal(st.st_mode & 077, 0); /* no access for others */
    snic_io_close(io);
    assert_int_equal(open_io(&io, l, path, SNIC_IO_OPEN_CREATE, MIB, NULL), 0);
    assert_int_equal(io->geometry.size, 2 * MIB);
    snic_io_close(io);
    assert_int_equal(open_io(&io, l, path, SNIC_IO_OPEN_CREATE, 3 * MIB, NULL), 0);
    assert_int_equal(io->geometry.size, 3 * MIB);
    snic_io_close(io);
    assert_int_equal(open_io(&io, l, path, 0, 0, NULL), 0);
    assert_int_equal(io->geometry.size, 3 * MIB);
    snic_io_close(io);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3 * MIB); /* probing has not changed it */
    assert_int_equal(truncate(path, 3 * (off_t)MIB - 100), 0);
    int r = open_io(&io, l, path, SNIC_IO_OPEN_DIRECT, 0, NULL);
    if (r == 0) { /* whole blocks only */
        assert_int_equal(io->geometry.size % io->geometry.length_align, 0);
        assert_true(io->geometry.size <= 3 * MIB - 100);
        assert_true(io->geometry.size > 3 * MIB - 100 - io->geometry.length_align);
        snic_io_close(io);
    } else {
        assert_int_equal(r, SNIC_ENOTSUP);
    }
    assert_int_equal(open_io(&io, l, path, SNIC_IO_OPEN_TRY_DIRECT, 0, NULL), 0);
    assert_int_equal((io->caps & SNIC_IO_CAP_DIRECT) != 0, r == 0);
    snic_io_close(io);
    snic_loop_close(l);
}

/* tmpfs before 6.6 has no O_DIRECT: refused when demanded, done without when tried. */
static void test_io_uring_file_system_without_direct_falls_back(void **state)
{
    struct snic_loop *l = open_loop(0);
    struct snic_io *io = NULL;
    char path[64];
    unsigned char byte = 7;
    (void)state;
    (void)snprintf(path, sizeof(path), "/dev/shm/snic_io_%ld", (long)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0) {
        snic_loop_close(l);
        support_skip("no /dev/shm");
    }
    int r = open_io(&io, l, path, SNIC_IO_OPEN_DIRECT, 0, NULL);
    if (r == 0)
        snic_io_close(io);
    int t = open_io(&io, l, path, SNIC_IO_OPEN_TRY_DIRECT, 0, NULL);
    (void)unlink(path);
    close(fd);
    assert_int_equal(t, 0);
    if (r != 0) {
        assert_int_equal(r, SNIC_ENOTSUP);
        assert_int_equal(io->caps & SNIC_IO_CAP_DIRECT, 0);
        assert_int_equal(call_run(io, SNIC_IO_WRITE, 1, &byte, 1).req.result, 1);
    }
    snic_io_close(io);
    snic_loop_close(l);
}

/* ---- Data ---- */

/* What was written is in the file itself, and zeroed and discarded ranges read as zeros there. */
static void test_io_uring_written_bytes_are_in_the_file(void **state)
{
    struct snic_loop *l = open_loop(0);
    struct snic_io *io = NULL;
    char path[256];
    unsigned char mem[5000], seen[5000];
    (void)state;
    int fd = support_tmpfile(path, sizeof(path), "bytes", MIB);
    memset(mem, 'q', sizeof(mem));
    assert_int_equal(open_io(&io, l, path, 0, 0, NULL), 0);
    assert_int_equal(call_run(io, SNIC_IO_WRITE, 3, mem, 5000).req.result, 5000);
    assert_int_equal(call_run(io, SNIC_IO_FLUSH, 0, NULL, 0).req.result, 0);
    assert_int_equal(pread(fd, seen, 5000, 3), 5000);
    assert_memory_equal(mem, seen, 5000);
    static const enum snic_io_op ops[] = {SNIC_IO_ZERO, SNIC_IO_DISCARD};
    static const uint32_t caps[] = {SNIC_IO_CAP_ZERO, SNIC_IO_CAP_DISCARD};
    for (size_t i = 0; i < 2; i++) {
        if ((io->caps & caps[i]) == 0)
            continue;
        assert_int_equal(call_run(io, ops[i], 100 + 1000 * i, NULL, 500).req.result, 500);
        assert_int_equal(pread(fd, seen, 500, 100 + 1000 * (off_t)i), 500);
        for (int k = 0; k < 500; k++)
            assert_int_equal(seen[k], 0);
        assert_int_equal(pread(fd, seen, 1, 600 + 1000 * (off_t)i), 1);
        assert_int_equal(seen[0], 'q');
    }
    snic_io_close(io);
    close(fd);
    snic_loop_close(l);
}

/* A file in memory must not cost a worker's wake-up per transfer: the ring has nothing of it. */
static void test_io_uring_file_in_memory_not_on_the_ring(void **state)
{
    enum { SMALL = 65536, LARGE = 2 * SMALL };
    static unsigned char mem[LARGE], seen[LARGE];
    struct snic_loop *l = open_loop(0);
    struct snic_io *io = NULL;
    struct snic_loop_stats before, after;
    char path[64];
    (void)state;
    (void)snprintf(path, sizeof(path), "/dev/shm/snic_io_%ld", (long)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, LARGE) != 0) {
        snic_loop_close(l);
        support_skip("no /dev/shm");
    }
    int r = open_io(&io, l, path, 0, 0, NULL);
    (void)unlink(path);
    assert_int_equal(r, 0);
    memset(mem, 'm', sizeof(mem));
    while (snic_loop_once(l, 0) > 0)
        ;
    snic_loop_get_stats(l, &before);
    assert_int_equal(call_run(io, SNIC_IO_WRITE, 0, mem, SMALL).req.result, SMALL);
    assert_int_equal(call_run(io, SNIC_IO_FLUSH, 0, NULL, 0).req.result, 0);
    assert_int_equal(call_run(io, SNIC_IO_READ, 0, seen, SMALL).req.result, SMALL);
    snic_loop_get_stats(l, &after);
    assert_int_equal(after.completions, before.completions);
    assert_memory_equal(mem, seen, SMALL);
    assert_int_equal(call_run(io, SNIC_IO_WRITE, 0, mem, LARGE).req.result, LARGE);
    snic_loop_get_stats(l, &after);
    assert_int_equal(after.completions, before.completions + 1); /* others are served meanwhile */
    assert_int_equal(pread(fd, seen, LARGE, 0), LARGE);
    assert_memory_equal(mem, seen, LARGE);
    snic_io_close(io);
    close(fd);
    snic_loop_close(l);
}

/* A read-only handle must not change a byte, whatever the request. */
static void test_io_uring_readonly_changes_refused(void **state)
{
    struct snic_loop *l = open_loop(0);
    struct snic_io *io = NULL;
    char path[256];
    unsigned char byte = 1;
    (void)state;
    close(support_tmpfile(path, sizeof(path), "readonly", MIB));
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(open_io(&io, l, path, SNIC_IO_OPEN_READONLY | SNIC_IO_OPEN_LOCK, 0, NULL), 0);
    assert_true((io->caps & SNIC_IO_CAP_READONLY) != 0);
    assert_int_equal(call_run(io, SNIC_IO_READ, 0, &byte, 1).req.result, 1);
    assert_int_equal(byte, 0);
    assert_int_equal(call_run(io, SNIC_IO_WRITE, 0, &byte, 1).req.result, SNIC_EPERM);
    assert_int_equal(call_run(io, SNIC_IO_ZERO, 0, NULL, 1).req.result, SNIC_ENOTSUP);
    assert_int_equal(call_run(io, SNIC_IO_DISCARD, 0, NULL, 1).req.result, SNIC_ENOTSUP);
    assert_int_equal(call_run(io, SNIC_IO_FLUSH, 0, NULL, 0).req.result, 0);
    snic_io_close(io);
    snic_loop_close(l);
}

/* A transfer that the kernel cut short must be seen as such. */
static void test_io_uring_file_shrunk_behind_us_read_is_short(void **state)
{
    struct snic_loop *l = open_loop(0);
    struct snic_io *io = NULL;
    char path[256];
    unsigned char mem[200];
    struct snic_iov iov[2] = {{mem, 100}, {mem + 100, 100}};
    (void)state;
    close(support_tmpfile(path, sizeof(path), "shrunk", MIB));
    assert_int_equal(open_io(&io, l, path, 0, 0, NULL), 0);
    assert_int_equal(truncate(path, 150), 0);
    assert_int_equal(call_run(io, SNIC_IO_READ, 100, mem, 100).req.result, 50);
    assert_int_equal(call_run(io, SNIC_IO_READ, 1000, mem, 100).req.result, 0);
    struct call c;
    struct snic_io_req *one = &c.req;
    memset(&c, 0, sizeof(c));
    c.req = (struct snic_io_req){.done = call_done,
                                 .op = SNIC_IO_READ,
                                 .length = 200,
                                 .iov = iov,
                                 .iov_count = 2,
                                 .region = SNIC_NO_REGION};
    assert_int_equal(snic_io_submit(io, &one, 1), 1);
    while (c.done == 0)
        (void)snic_loop_once(l, SNIC_NEVER);
    assert_int_equal(c.req.result, 150);
    assert_int_equal(io->stats.read_bytes, 200);
    snic_io_close(io);
    snic_loop_close(l);
}

static void limit_body(void *ctx)
{
    struct snic_loop *l = NULL;
    struct snic_io *io = NULL;
    struct rlimit limit = {1000, 1000};
    unsigned char mem[100] = {0};
    if (snic_loop_uring_open(&l, NULL) != 0 || open_io(&io, l, ctx, 0, 0, NULL) != 0)
        _exit(77);
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        _exit(77);
    struct call c = call_run(io, SNIC_IO_WRITE, 2000, mem, 100);
    struct call d = call_run(io, SNIC_IO_WRITE, 950, mem, 100);
    _exit(c.req.result == SNIC_EFBIG && c.req.os_error == EFBIG && d.req.result == 50 &&
                  d.req.os_error == 0 && io->stats.errors == 1
              ? 0
              : 1);
}

/* The kernel's error must arrive translated, with its own number beside it. */
static void test_io_uring_kernel_error_translated(void **state)
{
    char path[256];
    (void)state;
    close(support_tmpfile(path, sizeof(path), "limited", MIB));
    int status = support_fork(limit_body, path);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        support_skip("cannot limit the file size");
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Depth beyond the ring ---- */

static uint32_t burst_done;

static void burst_seen(struct snic_io_req *req)
{
    burst_done += req->result == 512;
}

/* A handle deeper than the ring's queues must lose nothing when all of it is used at once. */
static void test_io_uring_deeper_than_the_ring_all_complete(void **state)
{
    enum { DEPTH = 20000 };
    static const uint32_t masks[] = {0, SNIC_LOOP_HAVE_SINGLE_ISSUER |
                                            SNIC_LOOP_HAVE_DEFER_TASKRUN |
                                            SNIC_LOOP_HAVE_COOP_TASKRUN};
    char path[256];
    (void)state;
    close(support_tmpfile(path, sizeof(path), "deep", MIB));
    struct snic_io_req *reqs = calloc(DEPTH, sizeof(*reqs));
    struct snic_io_req **list = calloc(DEPTH, sizeof(*list));
    unsigned char *mem = calloc(DEPTH, 512);
    assert_true(reqs != NULL && list != NULL && mem != NULL);
    for (size_t i = 0; i < SNIC_COUNTOF(masks); i++) {
        struct snic_loop *l = NULL;
        struct snic_io *io = NULL;
        struct snic_loop_uring_opts lo = {
            .opts_size = sizeof(lo), .entries = 8, .mask = masks[i], .stall_ns = SNIC_NEVER};
        struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = path, .depth = DEPTH};
        snic_loop_close(open_loop(0));
        assert_int_equal(snic_loop_uring_open(&l, &lo), 0);
        assert_int_equal(snic_io_uring_open(&io, l, &o, NULL), 0);
        burst_done = 0;
        for (uint32_t k = 0; k < DEPTH; k++) {
            reqs[k] = (struct snic_io_req){.done = burst_seen,
                                           .op = SNIC_IO_READ,
                                           .offset = (uint64_t)k % 2048 * 512,
                                           .length = 512,
                                           .buf = {mem + 512 * (size_t)k, 512},
                                           .region = SNIC_NO_REGION};
            list[k] = &reqs[k];
        }
        assert_int_equal(snic_io_submit(io, list, DEPTH), DEPTH);
        assert_int_equal(burst_done, 0);
        while (burst_done < DEPTH)
            assert_true(snic_loop_once(l, SNIC_NEVER) >= 0);
        assert_int_equal(io->stats.queue_high, DEPTH);
        snic_io_close(io);
        snic_loop_close(l);
    }
    free(reqs);
    free(list);
    free(mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io_uring_open_refused_reports_why),
        cmocka_unit_test(test_io_uring_file_of_another_user_access_refused),
        cmocka_unit_test(test_io_uring_locked_second_open_busy_until_close),
        cmocka_unit_test(test_io_uring_create_brings_file_to_size),
        cmocka_unit_test(test_io_uring_file_system_without_direct_falls_back),
        cmocka_unit_test(test_io_uring_written_bytes_are_in_the_file),
        cmocka_unit_test(test_io_uring_file_in_memory_not_on_the_ring),
        cmocka_unit_test(test_io_uring_readonly_changes_refused),
        cmocka_unit_test(test_io_uring_file_shrunk_behind_us_read_is_short),
        cmocka_unit_test(test_io_uring_kernel_error_translated),
        cmocka_unit_test(test_io_uring_deeper_than_the_ring_all_complete),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
