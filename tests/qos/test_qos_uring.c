/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The io door's conformance suite through a switch, in front of files on io_uring. */
#include "conformance_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test_qos_util.h"

static void open_file(struct conformance_io *c, const struct conformance_io_backend *b,
                      uint32_t depth)
{
    static unsigned number;
    char path[256], name[32];
    struct snic_loop_uring_opts l = {.opts_size = sizeof(l), .stall_ns = SNIC_NEVER};
    struct snic_io *file = NULL;
    int r = snic_loop_uring_open(&c->loop, &l);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring here");
    assert_int_equal(r, 0);
    (void)snprintf(name, sizeof(name), "qos_%u", number++);
    support_tmpname(path, sizeof(path), name);
    struct snic_io_uring_opts o = {.opts_size = sizeof(o),
                                   .flags = b->flags | SNIC_IO_OPEN_CREATE,
                                   .path = path,
                                   .size = CONFORMANCE_IO_BYTES,
                                   .depth = depth};
    r = snic_io_uring_open(&file, c->loop, &o, NULL);
    if (r == SNIC_ENOTSUP && (b->flags & SNIC_IO_OPEN_DIRECT) != 0) {
        snic_loop_close(c->loop);
        support_skip("no O_DIRECT on this file system");
    }
    assert_int_equal(r, 0);
    (void)unlink(path); /* the handle keeps it */
    struct snic_qos_opts q = {
        .opts_size = sizeof(q), .flags = SNIC_QOS_AUTO, .depth = depth, .part_bytes = b->align};
    q.tenant_depth = depth; /* the door's contract: one user may fill it */
    assert_int_equal(qx_open(&c->io, file, &q), 0);
}

static const struct conformance_io_backend backends[] = {
    {.name = "qos_buffered", .open = open_file, .align = 4096},
    {.name = "qos_direct", .open = open_file, .align = 8192, .flags = SNIC_IO_OPEN_DIRECT},
    {.name = "qos_whole", .open = open_file, .align = 128u << 10},
};

int main(int argc, char **argv)
{
    struct CMUnitTest tests[96];
    size_t n = conformance_io_tests(tests, SNIC_COUNTOF(tests), backends, SNIC_COUNTOF(backends));
    int r = support_main(argc, argv, tests, n);
    qx_free();
    return r;
}
