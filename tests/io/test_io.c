/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The conformance suite on every backend and loop that needs io_uring. */
#include "conformance_io.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

static void open_at(struct conformance_io *c, const struct conformance_io_backend *b,
                    uint32_t depth, const char *path)
{
    int os = 0;
    struct snic_io_uring_opts o = {.opts_size = sizeof(o),
                                   .flags = b->flags | SNIC_IO_OPEN_CREATE,
                                   .path = path,
                                   .size = CONFORMANCE_IO_BYTES,
                                   .depth = depth};
    c->loop = open_loop(b->mask);
    int r = snic_io_uring_open(&c->io, c->loop, &o, &os);
    if (r == SNIC_ENOTSUP && (b->flags & SNIC_IO_OPEN_DIRECT) != 0) {
        snic_loop_close(c->loop);
        support_skip("no O_DIRECT on this file system");
    }
    assert_int_equal(r, 0);
    (void)unlink(path); /* the handle keeps it */
    if ((b->flags & SNIC_IO_OPEN_DIRECT) != 0)
        assert_true((c->io->caps & SNIC_IO_CAP_DIRECT) != 0);
}

static void open_file(struct conformance_io *c, const struct conformance_io_backend *b,
                      uint32_t depth)
{
    static unsigned number;
    char path[256], name[32];
    (void)snprintf(name, sizeof(name), "io_%u", number++);
    support_tmpname(path, sizeof(path), name);
    open_at(c, b, depth, path);
}

static void open_tmpfs(struct conformance_io *c, const struct conformance_io_backend *b,
                       uint32_t depth)
{
    static unsigned number;
    char path[64];
    if (access("/dev/shm", W_OK) != 0)
        support_skip("no /dev/shm");
    (void)snprintf(path, sizeof(path), "/dev/shm/snic_io_%ld_%u", (long)getpid(), number++);
    open_at(c, b, depth, path);
}

/** A loop device over a file; NULL with the reason when there is none. */
static const char *loop_device(char *path, size_t size, char *file, size_t file_size, int *keep)
{
    static unsigned number;
    char name[32];
    (void)snprintf(name, sizeof(name), "loop_%u", number++);
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return "no /dev/loop-control";
    int backing = support_tmpfile(file, file_size, name, CONFORMANCE_IO_BYTES);
    for (int attempt = 0; attempt < 20; attempt++) { /* others may take the free one first */
        int index = ioctl(control, LOOP_CTL_GET_FREE);
        (void)snprintf(path, size, "/dev/loop%d", index);
        int fd = index < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
        struct loop_config config = {.fd = (unsigned)backing,
                                     .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
        if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            close(control);
            close(backing);
            *keep = fd;
            return NULL;
        }
        if (fd >= 0)
            close(fd);
    }
    close(control);
    close(backing);
    return "no loop device to be had";
}

static void open_blockdev(struct conformance_io *c, const struct conformance_io_backend *b,
                          uint32_t depth)
{
    char path[64], file[256];
    int keep = -1;
    c->loop = open_loop(b->mask);
    const char *reason = loop_device(path, sizeof(path), file, sizeof(file), &keep);
    if (reason != NULL) {
        snic_loop_close(c->loop);
        support_skip(reason);
    }
    struct snic_io_uring_opts o = {
        .opts_size = sizeof(o), .flags = b->flags, .path = path, .depth = depth};
    assert_int_equal(snic_io_uring_open(&c->io, c->loop, &o, NULL), 0);
    close(keep); /* the device goes away with the handle */
    assert_true((c->io->caps & SNIC_IO_CAP_BLOCKDEV) != 0);
    assert_true((c->io->caps & SNIC_IO_CAP_ZERO) != 0);
}

static void open_mem(struct conformance_io *c, const struct conformance_io_backend *b,
                     uint32_t depth)
{
    struct snic_disk_opts d = {.opts_size = sizeof(d),
                               .size = CONFORMANCE_IO_BYTES,
                               .seed = support_seed(),
                               .delay_max_ns = b->delay_ns,
                               .depth = depth,
                               .align = b->align,
                               .caps = b->caps};
    c->loop = open_loop(b->mask);
    assert_int_equal(snic_disk_open(&c->disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&c->io, c->loop, c->disk), 0);
}

static void open_ssd(struct conformance_io *c, const struct conformance_io_backend *b,
                     uint32_t depth)
{
    struct snic_disk_opts d = {
        .opts_size = sizeof(d), .size = CONFORMANCE_IO_BYTES, .depth = depth, .align = b->align};
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.seed = support_seed();
    o.condition = SNIC_SSD_FRAGMENTED;
    c->loop = open_loop(b->mask);
    assert_int_equal(snic_disk_open(&c->disk, &d), 0);
    assert_int_equal(snic_io_ssd_open(&c->io, c->loop, c->disk, &o), 0);
}

static void done_once(struct snic_io_req *req)
{
    SNIC_ASSERT(req->result >= 0);
    req->tenant++;
}

static void run(struct snic_io *io, struct snic_io_req *req)
{
    req->done = done_once;
    req->region = SNIC_NO_REGION;
    req->tenant = 0;
    assert_int_equal(snic_io_submit(io, &req, 1), 1);
    while (req->tenant == 0)
        assert_true(snic_loop_once(io->loop, SNIC_NEVER) >= 0);
}

/*
 * FLUSH and FUA must push the bytes down: what a buffered loop device has not flushed is not yet in
 * the file behind it.
 */
static void test_io_blockdev_flush_and_fua_reach_what_is_behind(void **state)
{
    char path[64], file[256];
    unsigned char mem[4096], seen[4096];
    struct conformance_io c = {0};
    int keep = -1;
    (void)state;
    c.loop = open_loop(0);
    const char *reason = loop_device(path, sizeof(path), file, sizeof(file), &keep);
    if (reason != NULL) {
        snic_loop_close(c.loop);
        support_skip(reason);
    }
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = path, .depth = 4};
    assert_int_equal(snic_io_uring_open(&c.io, c.loop, &o, NULL), 0);
    close(keep);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    for (int fua = 0; fua < 2; fua++) {
        struct snic_io_req w = {.op = SNIC_IO_WRITE,
                                .flags = fua ? SNIC_IO_FUA : 0,
                                .offset = 8192,
                                .length = sizeof(mem),
                                .buf = {mem, sizeof(mem)}};
        struct snic_io_req f = {.op = SNIC_IO_FLUSH};
        memset(mem, 'f' + fua, sizeof(mem));
        run(c.io, &w);
        if (!fua)
            run(c.io, &f);
        assert_int_equal(pread(fd, seen, sizeof(seen), 8192), sizeof(seen));
        assert_memory_equal(seen, mem, sizeof(seen));
    }
    close(fd);
    conformance_io_close(&c);
}

#define NO_FIXED (SNIC_LOOP_HAVE_FIXED_BUFFERS | SNIC_LOOP_HAVE_FIXED_FILES)
#define NO_FLAGS                                                                                   \
    (SNIC_LOOP_HAVE_SINGLE_ISSUER | SNIC_LOOP_HAVE_DEFER_TASKRUN | SNIC_LOOP_HAVE_COOP_TASKRUN)

static const struct conformance_io_backend backends[] = {
    {.name = "buffered", .open = open_file},
    {.name = "direct", .open = open_file, .flags = SNIC_IO_OPEN_DIRECT},
    {.name = "locked_try_direct",
     .open = open_file,
     .flags = SNIC_IO_OPEN_TRY_DIRECT | SNIC_IO_OPEN_LOCK},
    {.name = "unfixed", .open = open_file, .mask = NO_FIXED},
    {.name = "coop", .open = open_file, .mask = SNIC_LOOP_HAVE_DEFER_TASKRUN},
    {.name = "plain_ring", .open = open_file, .mask = NO_FLAGS},
    {.name = "direct_bare_ring",
     .open = open_file,
     .mask = NO_FLAGS | NO_FIXED,
     .flags = SNIC_IO_OPEN_DIRECT},
    {.name = "tmpfs", .open = open_tmpfs},
    {.name = "tmpfs_try_direct", .open = open_tmpfs, .flags = SNIC_IO_OPEN_TRY_DIRECT},
    {.name = "blockdev", .open = open_blockdev},
    {.name = "blockdev_direct", .open = open_blockdev, .flags = SNIC_IO_OPEN_DIRECT},
    {.name = "ssd", .open = open_ssd},
    {.name = "mem", .open = open_mem},
    {.name = "mem_slow_aligned",
     .open = open_mem,
     .align = 512,
     .delay_ns = 20000,
     .caps = SNIC_IO_CAP_REGISTERED | SNIC_IO_CAP_ZERO},
};

int main(int argc, char **argv)
{
    struct CMUnitTest tests[320];
    size_t n =
        conformance_io_tests(tests, SNIC_COUNTOF(tests) - 1, backends, SNIC_COUNTOF(backends));
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(test_io_blockdev_flush_and_fua_reach_what_is_behind);
    return support_main(argc, argv, tests, n);
}
