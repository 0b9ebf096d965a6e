/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A file system of one file, mounted by this system's kernel: a child process uses it, this one
 * serves it. Root and /dev/fuse, or the program is skipped.
 */
#include "test_fusedev_served.h"

#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- What the child does ---- */

static int body_names(struct served *s)
{
    char path[4096], name[1100];
    struct stat st;
    struct statvfs v;
    struct dirent *e;
    int found = 0;
    DIR *d;

    served_path(s, path, sizeof(path), "data");
    CHECK(1, stat(path, &st) == 0 && st.st_size == SIZE && S_ISREG(st.st_mode));
    served_path(s, path, sizeof(path), "none");
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
    served_path(s, path, sizeof(path), name);
    CHECK(7, stat(path, &st) != 0 && errno == ENOENT);
    name[1024] = 'n';
    name[1025] = 0;
    served_path(s, path, sizeof(path), name);
    CHECK(8, stat(path, &st) != 0 && errno == ENAMETOOLONG);
    return 0;
}

static int body_bytes(struct served *s)
{
    static unsigned char buffer[SIZE];
    char path[4096];
    int fd;

    served_path(s, path, sizeof(path), "data");
    fd = open(path, O_RDWR);
    CHECK(1, fd >= 0);
    CHECK(2, pread(fd, buffer, SIZE, 0) == SIZE);
    for (uint64_t i = 0; i < SIZE; i++)
        CHECK(3, buffer[i] == served_byte(i));
    for (uint64_t i = 0; i < 300000; i++)
        buffer[i] = (unsigned char)(255 - served_byte(i));
    CHECK(4, pwrite(fd, buffer, 300000, 4101) == 300000);
    CHECK(5, ioctl(fd, 0x5a5a, 0) != 0 && errno == ENOTTY);
    CHECK(6, close(fd) == 0);
    fd = open(path, O_RDONLY);
    CHECK(7, fd >= 0 && pread(fd, buffer, SIZE, 0) == SIZE);
    for (uint64_t i = 0; i < SIZE; i++)
        CHECK(8,
              buffer[i] == (i >= 4101 && i < 304101 ? (unsigned char)(255 - served_byte(i - 4101))
                                                    : served_byte(i)));
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
    served_path(s, path, sizeof(path), "data");
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

    served_path(s, path, sizeof(path), "data");
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

    served_path(s, path, sizeof(path), "data");
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
            served_path(s, path, sizeof(path), name);
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

static int body_odd(struct served *s)
{
    char path[4096];
    struct stat st;

    served_path(s, path, sizeof(path), "odd");
    CHECK(1, stat(path, &st) != 0 && errno == EIO);
    return 0;
}

/* A lock that waits until it is granted. */
static int body_locked(struct served *s)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    char path[4096];
    int fd;

    served_path(s, path, sizeof(path), "data");
    fd = open(path, O_RDWR);
    CHECK(1, fd >= 0 && fcntl(fd, F_SETLKW, &l) == 0);
    return 0; /* the close that follows is not served */
}

/* A request that is not read. */
static int body_late(struct served *s)
{
    char path[4096], byte;
    struct stat st;

    CHECK(1, read(s->to_child[0], &byte, 1) == 1);
    served_path(s, path, sizeof(path), "none");
    CHECK(2, stat(path, &st) != 0 && (errno == ENOTCONN || errno == ECONNABORTED));
    return 0;
}

/* ---- Tests ---- */

static void test_fusedev_kernel_uses_names_and_bytes(void **state)
{
    struct served s;

    (void)state;
    served_begin(&s, 0, 0);
    served_run(&s, body_names);
    served_run(&s, body_bytes);
    assert_true(snic_fusedev_conn(s.dev)->minor >= SNIC_FUSE_MINOR_MIN);
    assert_int_equal(snic_fusedev_conn(s.dev)->max_write, 256 << 10);
    served_end(&s);
    assert_true(s.forgotten <= s.looked_up && s.looked_up > 0);
}

static void test_fusedev_lock_that_waits_is_interrupted(void **state)
{
    struct served s;

    (void)state;
    served_begin(&s, 4, 0);
    served_run(&s, body_lock);
    assert_true(s.interrupts > 0);
    assert_int_equal(s.waits_count, 0);
    served_end(&s);
}

static void test_fusedev_locks_that_wait_leave_memory(void **state)
{
    struct served s;

    (void)state;
    served_begin(&s, 4, 0);
    served_run(&s, body_locks);
    assert_int_equal(s.waits_most, 2);
    served_end(&s);
    assert_int_equal(s.waits_count, 0);
}

static void test_fusedev_notified_kernel_refreshes_attributes(void **state)
{
    struct served s;

    (void)state;
    served_begin(&s, 4, 0);
    served_run(&s, body_notify);
    served_end(&s);
}

/* More requests than there is memory for wait in the kernel, and none is lost. */
static void test_fusedev_no_memory_for_more_requests(void **state)
{
    struct served s;

    (void)state;
    served_begin(&s, 2, 0);
    s.hold = 1;
    served_run(&s, body_crowd);
    assert_int_equal(s.most, 2);
    served_end(&s);
}

/* Its thread reads the device; the loop only wakes it. */
static void test_fusedev_polled_device_is_read_by_its_thread(void **state)
{
    struct served s;

    (void)state;
    served_begin(&s, 2, SNIC_FUSEDEV_POLLED);
    served_run(&s, body_names);
    served_run(&s, body_bytes);
    served_run(&s, body_lock);
    assert_true(s.interrupts > 0);
    s.hold = 1;
    served_run(&s, body_crowd);
    assert_int_equal(s.most, 2);
    served_end(&s);
}

/* It is still mounted, and one request waits: that gets its reply, others fail with the device. */
static void test_fusedev_stopped_device_is_read_no_more(void **state)
{
    for (uint32_t flags = 0; flags <= SNIC_FUSEDEV_POLLED; flags++) {
        struct served s;
        int status = -1;
        pid_t pids[2];

        (void)state;
        served_begin(&s, 4, flags);
        for (int i = 0; i < 2; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                (void)close(s.fd);
                _exit(i == 0 ? body_locked(&s) : body_late(&s));
            }
            while (i == 0 && s.waits_count == 0)
                served_turn(&s);
            snic_fusedev_stop(s.dev);
        }
        for (int i = 0; i < 1000 && !s.closed; i++)
            (void)snic_loop_once(s.loop, 10000000);
        assert_int_equal(s.closed, 1);
        assert_int_equal(s.result, 0);
        assert_int_equal(snic_fusedev_reply_error(s.waits[0], 0), 0);
        assert_int_equal(write(s.to_child[1], "", 1), 1);
        (void)snic_loop_once(s.loop, 10000000);
        assert_int_equal(s.closed, 1);
        served_release(&s); /* closes the device */
        for (int i = 0; i < 2; i++) {
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
        }
        assert_int_equal(snic_fusedev_unmount(s.dir), 0);
    }
}

/* Its caller gets an error, and does not wait for ever. */
static void test_fusedev_reply_that_is_refused_ends_the_request(void **state)
{
    struct served s;

    (void)state;
    served_begin(&s, 4, 0);
    served_run(&s, body_odd);
    served_end(&s);
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
    o.flags = SNIC_FUSEDEV_POLLED << 1;
    assert_int_equal(snic_fusedev_memsize(&o), 0);
    o.flags = SNIC_FUSEDEV_POLLED;
    assert_true(snic_fusedev_memsize(&o) > 0);
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
        cmocka_unit_test(test_fusedev_polled_device_is_read_by_its_thread),
        cmocka_unit_test(test_fusedev_stopped_device_is_read_no_more),
        cmocka_unit_test(test_fusedev_reply_that_is_refused_ends_the_request),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
