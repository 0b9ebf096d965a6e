/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A file system of one file, mounted by this system's kernel: a child process uses it, this one
 * serves it. Root and /dev/fuse, or the program is skipped.
 */
#include "snicstore/fusedev.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = (1 << 20) + 3, NODE = 2, HELD = 64 };

struct served {
    struct snic_loop *loop;
    struct snic_fusedev *dev;
    void *mem;
    char dir[512];
    int fd;
    int closed, result;
    unsigned char *bytes;
    uint64_t size;
    struct snic_fusedev_call *waits[HELD]; /* locks */
    uint32_t waits_count, waits_most;
    struct snic_fusedev_call *held[HELD];
    uint32_t held_count;
    int hold;
    uint32_t most;
    uint32_t interrupts;
    uint64_t looked_up, forgotten;
    int to_parent[2], to_child[2];
};

static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)(i * 7 + (i >> 8));
}

/* ---- The file system ---- */

static void attr_of(const struct served *s, uint64_t node, struct snic_fuse_attr *a)
{
    a->ino = node;
    a->mode = node == SNIC_FUSE_ROOT ? S_IFDIR | 0755 : S_IFREG | 0666;
    a->nlink = 1;
    a->size = node == SNIC_FUSE_ROOT ? 0 : s->size;
    a->blksize = 4096;
}

static void serve_lookup(struct served *s, struct snic_fusedev_call *c, struct snic_fuse_answer *a)
{
    const struct snic_fuse_request *r = &c->request;

    if (r->head.nodeid != SNIC_FUSE_ROOT || r->name_size != 4 || memcmp(r->name, "data", 4) != 0) {
        (void)snic_fusedev_reply_error(c, SNIC_ENOENT);
        return;
    }
    a->out.entry.nodeid = NODE;
    a->out.entry.entry_valid = 1000;
    a->out.entry.attr_valid = 1000;
    attr_of(s, NODE, &a->out.entry.attr);
    s->looked_up++;
    (void)snic_fusedev_reply(c, a);
}

static void serve_readdir(struct served *s, struct snic_fusedev_call *c)
{
    const struct snic_fuse_request *r = &c->request;
    struct snic_fuse_dirent d = {NODE, 1, 4, S_IFREG >> 12};
    struct snic_fuse_entry_out plus;
    unsigned char space[512];
    struct snic_iov iov = {space, 0};
    int n = 0;

    memset(&plus, 0, sizeof(plus));
    plus.nodeid = NODE;
    attr_of(s, NODE, &plus.attr);
    if (r->in.read.offset == 0)
        n = snic_fuse_dirent_put(space, sizeof(space), &d, "data",
                                 r->head.opcode == SNIC_FUSE_READDIRPLUS ? &plus : NULL);
    s->looked_up += n > 0 && r->head.opcode == SNIC_FUSE_READDIRPLUS;
    iov.size = n > 0 ? (size_t)n : 0;
    (void)snic_fusedev_reply_data(c, &iov, 1);
}

static void serve_read(struct served *s, struct snic_fusedev_call *c)
{
    const struct snic_fuse_read_in *in = &c->request.in.read;
    uint64_t at = snic_min_u64(in->offset, s->size);
    uint64_t n = snic_min_u64(in->size, s->size - at);
    struct snic_iov iov[2] = {{s->bytes + at, (size_t)n / 2},
                              {s->bytes + at + n / 2, (size_t)(n - n / 2)}};

    (void)snic_fusedev_reply_data(c, iov, 2);
}

static void serve_write(struct served *s, struct snic_fusedev_call *c, struct snic_fuse_answer *a)
{
    const struct snic_fuse_request *r = &c->request;

    if (r->in.write.offset > SIZE || r->data_size > SIZE - r->in.write.offset) {
        (void)snic_fusedev_reply_error(c, SNIC_EFBIG);
        return;
    }
    if ((uintptr_t)r->data % 4096 != 0)
        s->result = -1; /* promised */
    memcpy(s->bytes + r->in.write.offset, r->data, r->data_size);
    a->out.write.size = r->data_size;
    (void)snic_fusedev_reply(c, a);
}

static void serve_wait(struct served *s, struct snic_fusedev_call *c)
{
    s->waits[s->waits_count++] = c;
    s->waits_most = (uint32_t)snic_max_u64(s->waits_most, s->waits_count);
}

static void serve(struct served *s, struct snic_fusedev_call *c)
{
    const struct snic_fuse_request *r = &c->request;
    struct snic_fuse_answer a;

    snic_fuse_answer_begin(&a, r);
    switch (r->head.opcode) {
    case SNIC_FUSE_LOOKUP:
        serve_lookup(s, c, &a);
        break;
    case SNIC_FUSE_GETATTR:
        a.out.attr.attr_valid = 1000;
        attr_of(s, r->head.nodeid, &a.out.attr.attr);
        (void)snic_fusedev_reply(c, &a);
        break;
    case SNIC_FUSE_READDIR:
    case SNIC_FUSE_READDIRPLUS:
        serve_readdir(s, c);
        break;
    case SNIC_FUSE_READ:
        serve_read(s, c);
        break;
    case SNIC_FUSE_WRITE:
        serve_write(s, c, &a);
        break;
    case SNIC_FUSE_STATFS:
        a.out.statfs.bsize = 4096;
        a.out.statfs.namelen = SNIC_FUSE_NAME_MAX;
        (void)snic_fusedev_reply(c, &a);
        break;
    case SNIC_FUSE_SETLKW:
        if (r->in.lk.lk.type != SNIC_FUSE_UNLCK && !c->interrupted)
            serve_wait(s, c);
        else
            (void)snic_fusedev_reply_error(c, c->interrupted ? SNIC_EINTR : 0);
        break;
    case SNIC_FUSE_IOCTL:
    case SNIC_FUSE_STATX: /* the kernel does without */
    case SNIC_FUSE_GETXATTR:
        a.head.len = sizeof(a.head);
        a.head.error = snic_fuse_refusal(SNIC_ENOTSUP, r->head.opcode);
        (void)snic_fusedev_reply(c, &a);
        break;
    default:
        (void)snic_fusedev_reply(c, &a);
        break;
    }
}

static void on_request(void *ctx, struct snic_fusedev_call *c)
{
    struct served *s = ctx;

    s->most = (uint32_t)snic_max_u64(s->most, snic_fusedev_calls(s->dev));
    if (s->hold && s->held_count < HELD)
        s->held[s->held_count++] = c;
    else
        serve(s, c);
}

static void on_forget(void *ctx, uint64_t nodeid, uint64_t nlookup)
{
    struct served *s = ctx;

    if (nodeid == NODE)
        s->forgotten += nlookup;
}

static void on_interrupt(void *ctx, struct snic_fusedev_call *c)
{
    struct served *s = ctx;

    s->interrupts++;
    for (uint32_t i = 0; i < s->waits_count; i++)
        if (c == s->waits[i]) {
            s->waits[i] = s->waits[--s->waits_count];
            (void)snic_fusedev_reply_error(c, SNIC_EINTR);
            return;
        }
}

static void on_closed(void *ctx, int result)
{
    struct served *s = ctx;

    s->closed++;
    s->result = s->result != 0 ? s->result : result;
}

/* ---- Serving ---- */

static void begin(struct served *s, uint32_t calls_max)
{
    static const struct snic_fusedev_ops ops = {sizeof(ops),  0,        on_request, on_forget,
                                                on_interrupt, on_closed};
    struct snic_fusedev_opts o = {.opts_size = sizeof(o), .calls_max = calls_max, .ops = &ops};
    size_t size;
    int rc;

    memset(s, 0, sizeof(*s));
    s->size = SIZE;
    s->bytes = malloc(SIZE);
    assert_non_null(s->bytes);
    for (uint64_t i = 0; i < SIZE; i++)
        s->bytes[i] = byte_at(i);
    if (snic_loop_uring_open(&s->loop, NULL) != 0)
        support_skip("no io_uring");
    snprintf(s->dir, sizeof(s->dir), "%s/mnt", support_tmpdir());
    (void)mkdir(s->dir, 0700);
    rc = snic_fusedev_mount(s->dir, "snic_test", NULL, &s->fd);
    if (rc == SNIC_EPERM || rc == SNIC_EACCES || rc == SNIC_ENOENT || rc == SNIC_ENXIO) {
        snic_loop_close(s->loop);
        free(s->bytes);
        support_skip("no permission to mount /dev/fuse");
    }
    assert_int_equal(rc, 0);
    o.loop = s->loop;
    o.ctx = s;
    o.fd = s->fd;
    o.offer.offer_size = sizeof(o.offer);
    o.offer.max_write = 256 << 10;
    o.offer.flags = SNIC_FUSE_POSIX_LOCKS | SNIC_FUSE_ASYNC_READ | SNIC_FUSE_DO_READDIRPLUS |
                    SNIC_FUSE_PARALLEL_DIROPS | SNIC_FUSE_HAS_EXPIRE_ONLY;
    size = snic_fusedev_memsize(&o);
    assert_true(size > 0);
    s->mem = support_guard_alloc(size, SNIC_FUSEDEV_ALIGN);
    assert_int_equal(snic_fusedev_init(&s->dev, s->mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_fusedev_init(&s->dev, s->mem, size, &o), 0);
    assert_int_equal(pipe(s->to_parent), 0);
    assert_int_equal(pipe(s->to_child), 0);
    assert_int_equal(fcntl(s->to_parent[0], F_SETFL, O_NONBLOCK), 0);
}

typedef int (*body_fn)(struct served *s);

/* The child runs @p body, this process serves it, and answers a byte of it by changing the file. */
static void run(struct served *s, body_fn body)
{
    pid_t pid = fork();
    int status = 0;
    char byte;

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(s->fd);
        _exit(body(s));
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        (void)snic_loop_once(s->loop, 2000000);
        while (s->held_count > 0)
            serve(s, s->held[--s->held_count]);
        if (read(s->to_parent[0], &byte, 1) == 1) {
            struct snic_fuse_answer a;

            s->size = 777;
            snic_fuse_notify_inode(&a, NODE, 0, 0);
            assert_int_equal(snic_fusedev_notify(s->dev, &a, NULL, 0), 0);
            assert_int_equal(write(s->to_child[1], &byte, 1), 1);
        }
    }
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        printf("the child failed at check %d\n", WEXITSTATUS(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int body_unmount(struct served *s)
{
    return snic_fusedev_unmount(s->dir) == 0 ? 0 : 1;
}

static void end(struct served *s)
{
    run(s, body_unmount);
    for (int i = 0; i < 1000 && !s->closed; i++)
        (void)snic_loop_once(s->loop, 10000000);
    assert_int_equal(s->closed, 1);
    assert_int_equal(s->result, 0);
    assert_int_equal(snic_fusedev_calls(s->dev), 0);
    assert_ptr_equal(snic_fusedev_fini(s->dev), s->mem);
    support_guard_free(s->mem);
    (void)close(s->fd);
    for (int i = 0; i < 2; i++) {
        (void)close(s->to_parent[i]);
        (void)close(s->to_child[i]);
    }
    snic_loop_close(s->loop);
    free(s->bytes);
}

/* ---- What the child does: 0, or the number of the check that failed ---- */

#define CHECK(n, c)                                                                                \
    do                                                                                             \
        if (!(c))                                                                                  \
            return (n);                                                                            \
    while (0)

static void path_of(const struct served *s, char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", s->dir, name);
}

static int body_names(struct served *s)
{
    char path[4096], name[1100];
    struct stat st;
    struct statvfs v;
    struct dirent *e;
    int found = 0;
    DIR *d;

    path_of(s, path, sizeof(path), "data");
    CHECK(1, stat(path, &st) == 0 && st.st_size == SIZE && S_ISREG(st.st_mode));
    path_of(s, path, sizeof(path), "none");
    CHECK(2, stat(path, &st) != 0 && errno == ENOENT);
    CHECK(3, statvfs(s->dir, &v) == 0 && v.f_namemax == SNIC_FUSE_NAME_MAX);
    d = opendir(s->dir);
    CHECK(4, d != NULL);
    while ((e = readdir(d)) != NULL) {
        CHECK(5, strcmp(e->d_name, "data") == 0);
        found++;
    }
    CHECK(6, found == 1 && closedir(d) == 0);
    memset(name, 'n', sizeof(name));
    name[1024] = 0;
    path_of(s, path, sizeof(path), name);
    CHECK(7, stat(path, &st) != 0 && errno == ENOENT);
    name[1024] = 'n';
    name[1025] = 0;
    path_of(s, path, sizeof(path), name);
    CHECK(8, stat(path, &st) != 0 && errno == ENAMETOOLONG);
    return 0;
}

static int body_bytes(struct served *s)
{
    static unsigned char buffer[SIZE];
    char path[4096];
    int fd;

    path_of(s, path, sizeof(path), "data");
    fd = open(path, O_RDWR);
    CHECK(1, fd >= 0);
    CHECK(2, pread(fd, buffer, SIZE, 0) == SIZE);
    for (uint64_t i = 0; i < SIZE; i++)
        CHECK(3, buffer[i] == byte_at(i));
    for (uint64_t i = 0; i < 300000; i++)
        buffer[i] = (unsigned char)(255 - byte_at(i));
    CHECK(4, pwrite(fd, buffer, 300000, 4101) == 300000);
    CHECK(5, ioctl(fd, 0x5a5a, 0) != 0 && errno == ENOTTY);
    CHECK(6, close(fd) == 0);
    fd = open(path, O_RDONLY);
    CHECK(7, fd >= 0 && pread(fd, buffer, SIZE, 0) == SIZE);
    for (uint64_t i = 0; i < SIZE; i++)
        CHECK(8, buffer[i] == (i >= 4101 && i < 304101 ? (unsigned char)(255 - byte_at(i - 4101))
                                                       : byte_at(i)));
    CHECK(9, pread(fd, buffer, 10, SIZE) == 0);
    return 0;
}

static void on_alarm(int number)
{
    (void)number;
}

/* A lock that waits for ever, but for a signal. */
static int body_lock(struct served *s)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    struct itimerval t = {{0, 50000}, {0, 50000}};
    struct sigaction sa;
    char path[4096];
    int fd;

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = on_alarm;
    path_of(s, path, sizeof(path), "data");
    fd = open(path, O_RDWR);
    CHECK(1, fd >= 0);
    CHECK(2, fcntl(fd, F_SETLK, &l) == 0);
    CHECK(3, sigaction(SIGALRM, &sa, NULL) == 0 && setitimer(ITIMER_REAL, &t, NULL) == 0);
    CHECK(4, fcntl(fd, F_SETLKW, &l) != 0 && errno == EINTR);
    return 0;
}

/* More locks wait than there is memory for requests: the others are refused, all else is served,
 * and those that wait can be killed. */
static int body_locks(struct served *s)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    pid_t pids[8];
    char path[4096];
    struct stat st;
    int refused = 0;
    int status;
    int fd;

    path_of(s, path, sizeof(path), "data");
    fd = open(path, O_RDWR);
    CHECK(1, fd >= 0 && fcntl(fd, F_SETLK, &l) == 0);
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        CHECK(2, pids[i] >= 0);
        if (pids[i] == 0)
            _exit(fcntl(fd, F_SETLKW, &l) != 0 && errno == ENOLCK ? 77 : 1);
    }
    for (; refused < 6; refused++) /* calls_max is 4 */
        CHECK(3, wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 77);
    for (int i = 0; i < 20; i++)
        CHECK(4, stat(path, &st) == 0);
    l.l_type = F_UNLCK;
    CHECK(5, fcntl(fd, F_SETLK, &l) == 0);
    for (int i = 0; i < 8; i++)
        (void)kill(pids[i], SIGKILL);
    for (int i = 0; i < 2; i++)
        CHECK(6, wait(&status) > 0 && WIFSIGNALED(status));
    return 0;
}

/* The size that the kernel has cached is the old one until it is notified. */
static int body_notify(struct served *s)
{
    char path[4096], byte = 1;
    struct stat st;

    path_of(s, path, sizeof(path), "data");
    CHECK(1, stat(path, &st) == 0 && st.st_size == SIZE);
    CHECK(2, write(s->to_parent[1], &byte, 1) == 1 && read(s->to_child[0], &byte, 1) == 1);
    CHECK(3, stat(path, &st) == 0 && st.st_size == 777);
    return 0;
}

static int body_crowd(struct served *s)
{
    char path[4096], name[32];
    struct stat st;
    int status;

    for (int child = 0; child < 6; child++) {
        pid_t pid = fork();

        CHECK(1, pid >= 0);
        for (int i = 0; pid == 0 && i < 20; i++) {
            snprintf(name, sizeof(name), "none%d.%d", child, i);
            path_of(s, path, sizeof(path), name);
            if (stat(path, &st) == 0 || errno != ENOENT)
                _exit(1);
        }
        if (pid == 0)
            _exit(0);
    }
    for (int child = 0; child < 6; child++)
        CHECK(2, wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

/* ---- Tests ---- */

static void test_fusedev_kernel_uses_names_and_bytes(void **state)
{
    struct served s;

    (void)state;
    begin(&s, 0);
    run(&s, body_names);
    run(&s, body_bytes);
    assert_true(snic_fusedev_conn(s.dev)->minor >= SNIC_FUSE_MINOR_MIN);
    assert_int_equal(snic_fusedev_conn(s.dev)->max_write, 256 << 10);
    end(&s);
    assert_true(s.forgotten <= s.looked_up && s.looked_up > 0);
}

static void test_fusedev_lock_that_waits_is_interrupted(void **state)
{
    struct served s;

    (void)state;
    begin(&s, 4);
    run(&s, body_lock);
    assert_true(s.interrupts > 0);
    assert_int_equal(s.waits_count, 0);
    end(&s);
}

static void test_fusedev_locks_that_wait_leave_memory(void **state)
{
    struct served s;

    (void)state;
    begin(&s, 4);
    run(&s, body_locks);
    assert_int_equal(s.waits_most, 2);
    end(&s);
    assert_int_equal(s.waits_count, 0);
}

static void test_fusedev_notified_kernel_refreshes_attributes(void **state)
{
    struct served s;

    (void)state;
    begin(&s, 4);
    run(&s, body_notify);
    end(&s);
}

/* More requests than there is memory for wait in the kernel, and none is lost. */
static void test_fusedev_no_memory_for_more_requests(void **state)
{
    struct served s;

    (void)state;
    begin(&s, 2);
    s.hold = 1;
    run(&s, body_crowd);
    assert_int_equal(s.most, 2);
    end(&s);
}

static void no_request(void *ctx, struct snic_fusedev_call *c)
{
    (void)ctx;
    (void)c;
}

static void no_close(void *ctx, int result)
{
    (void)ctx;
    (void)result;
}

static void test_fusedev_bad_options_refused(void **state)
{
    char long_name[100];
    struct snic_fusedev_ops ops = {
        .ops_size = sizeof(ops), .request = no_request, .closed = no_close};
    struct snic_fusedev_opts o = {
        .opts_size = sizeof(o), .ops = &ops, .fd = 0, .offer = {.offer_size = sizeof(o.offer)}};
    struct snic_loop *loop = NULL;
    int fd = -7;

    (void)state;
    memset(long_name, 0, sizeof(long_name));
    memset(long_name, 110, 99);
    assert_int_equal(snic_fusedev_memsize(&o), 0); /* no loop */
    if (snic_loop_uring_open(&loop, NULL) != 0)
        support_skip("no io_uring");
    o.loop = loop;
    assert_true(snic_fusedev_memsize(&o) > 64 * (128 << 10));
    o.calls_max = SNIC_FUSEDEV_CALLS_MAX;
    assert_true(snic_fusedev_memsize(&o) > 0);
    o.calls_max = SNIC_FUSEDEV_CALLS_MAX + 1;
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    o.calls_max = 1;
    o.offer.max_write = 4095;
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    o.offer.max_write = SNIC_FUSE_WRITE_MAX + 1;
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    o.offer.max_write = 4096;
    assert_true(snic_fusedev_memsize(&o) > 0);
    o.offer.flags = SNIC_FUSE_OVER_IO_URING; /* the kernel would wait for rings */
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    o.offer.flags = SNIC_FUSE_PASSTHROUGH; /* the codec does not have it */
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    o.offer.flags = 0;
    o.offer.page_bytes = 5000;
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    o.offer.page_bytes = 0;
    ops.closed = NULL;
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    snic_loop_close(loop);
    assert_int_equal(snic_fusedev_mount("/nowhere", "a,b", NULL, &fd), SNIC_EINVAL);
    assert_int_equal(snic_fusedev_mount("/nowhere", "", NULL, &fd), SNIC_EINVAL);
    assert_int_equal(snic_fusedev_mount("/nowhere", long_name, NULL, &fd), SNIC_EINVAL);
    assert_true(snic_fusedev_mount("/nowhere/at/all", "snic_test", NULL, &fd) < 0);
    assert_true(snic_fusedev_unmount("/nowhere/at/all") < 0);
    assert_int_equal(fd, -7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fusedev_bad_options_refused),
        cmocka_unit_test(test_fusedev_kernel_uses_names_and_bytes),
        cmocka_unit_test(test_fusedev_lock_that_waits_is_interrupted),
        cmocka_unit_test(test_fusedev_locks_that_wait_leave_memory),
        cmocka_unit_test(test_fusedev_notified_kernel_refreshes_attributes),
        cmocka_unit_test(test_fusedev_no_memory_for_more_requests),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
