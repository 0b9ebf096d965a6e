/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The io door's conformance suite on a remote namespace, over TCP on the loopback interface. */
#include "conformance_io.h"
#include "snicstore/nvmehost.h"
#include "snicstore/nvmet.h"

#define SUBNQN "nqn.2026-11.example:one"

enum { DIGESTS = 1 };

static struct {
    struct snic_net *net;
    struct snic_io *disk_io;
    struct snic_nvmet *t;
    struct snic_nvmehost *h;
    void *tmem, *hmem;
    struct snic_io_ops ops;
} at;

/* Closing the handle ends the target, too: what the suite does not know of. */
static void close_all(struct snic_io *io)
{
    (void)io;
    assert_int_equal(snic_nvmehost_check(at.h), 0);
    support_guard_free(snic_nvmehost_close(at.h));
    support_guard_free(snic_nvmet_close(at.t));
    snic_io_close(at.disk_io);
    snic_net_shut(at.net);
}

static void open_target(struct conformance_io *c, const struct snic_net_addr *any)
{
    struct snic_nvmet_opts o = {.opts_size = sizeof(o), .conns_max = 8, .data_max = 64u << 10};
    struct snic_nvmet_subsystem_opts s = {
        .opts_size = sizeof(s), .subnqn = SUBNQN, .flags = SNIC_NVMESUB_ANY_HOST};
    struct snic_nvmet_ns_opts n = {.opts_size = sizeof(n), .uuid = {1}};
    size_t size = snic_nvmet_memsize(&o);
    assert_int_equal(snic_io_mem_open(&at.disk_io, c->loop, c->disk), 0);
    at.tmem = support_guard_alloc(size, SNIC_NVMET_ALIGN);
    assert_int_equal(snic_nvmet_open(&at.t, at.tmem, size, at.net, &o), 0);
    assert_int_equal(snic_nvmet_subsystem_add(at.t, &s), 0);
    n.io = at.disk_io;
    assert_int_equal(snic_nvmet_ns_add(at.t, 0, &n), 1);
    assert_int_equal(snic_nvmet_listen(at.t, any, NULL), 0);
}

static void open_tcp(struct conformance_io *c, const struct conformance_io_backend *b,
                     uint32_t depth)
{
    struct snic_loop_uring_opts l = {.opts_size = sizeof(l), .stall_ns = SNIC_NEVER};
    struct snic_net_uring_opts n = {.opts_size = sizeof(n), .conns_max = 32, .pool_buffers = 128};
    struct snic_disk_opts d = {
        .opts_size = sizeof(d), .size = CONFORMANCE_IO_BYTES, .seed = support_seed()};
    struct snic_nvmehost_opts o = {.opts_size = sizeof(o),
                                   .addr_count = 1,
                                   .subnqn = SUBNQN,
                                   .hostnqn = "nqn.2026-11.example:host",
                                   .queues = 2,
                                   .depth = depth};
    struct snic_net_addr a;
    int r = snic_loop_uring_open(&c->loop, &l);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring here");
    assert_int_equal(r, 0);
    assert_int_equal(snic_disk_open(&c->disk, &d), 0);
    assert_int_equal(snic_net_uring_open(&at.net, c->loop, &n), 0);
    assert_int_equal(snic_net_addr_parse(&a, "127.0.0.1:0"), 0);
    open_target(c, &a);
    assert_int_equal(snic_nvmet_listen_addr(at.t, 0, &a), 0);
    o.addrs = &a;
    o.digests = (b->flags & DIGESTS) != 0 ? 3 : 0;
    size_t size = snic_nvmehost_memsize(&o);
    at.hmem = support_guard_alloc(size, SNIC_NVMEHOST_ALIGN);
    assert_int_equal(snic_nvmehost_open(&at.h, at.hmem, size, at.net, &o), 0);
    assert_int_equal(snic_nvmehost_wait(at.h, UINT64_C(300000000000)), 0);
    c->io = snic_nvmehost_io(at.h);
    at.ops = *c->io->ops;
    at.ops.close = close_all;
    c->io->ops = &at.ops;
}

static const struct conformance_io_backend backends[] = {
    {.name = "nvmehost_tcp", .open = open_tcp},
    {.name = "nvmehost_tcp_digests", .open = open_tcp, .flags = DIGESTS},
};

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[64];
    size_t n = conformance_io_tests(tests, SNIC_COUNTOF(tests), backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n);
}
