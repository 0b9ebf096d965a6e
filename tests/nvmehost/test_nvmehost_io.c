/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The io door's conformance suite on a remote namespace, in a world.
 */
#include "conformance_io.h"
#include "test_nvmehost_util.h"

static struct hx hx;
static struct snic_io_ops ops;

/* Closing the handle ends the target, too: what the suite does not know of. */
static void close_all(struct snic_io *io)
{
    (void)io;
    hx.world = NULL;
    hx_close_host(&hx);
    assert_int_equal(snic_nvmet_check(hx.t), 0);
    support_guard_free(snic_nvmet_close(hx.t));
    snic_io_close(hx.tio);
    snic_net_shut(hx.tnet);
    snic_net_shut(hx.hnet);
    snic_loop_close(hx.tloop);
    snic_net_fabric_close(hx.fabric);
}

enum { SPLIT = 1, DIGESTS = 2, NO_CAPSULES = 4, BLOCKS_OF_512 = 8, QUEUES = 16 };

static void open_sim(struct conformance_io *c, const struct conformance_io_backend *b,
                     uint32_t depth)
{
    hx_opts(&hx);
    hx.d.size = CONFORMANCE_IO_BYTES;
    hx.d.delay_min_ns = b->delay_ns / 2;
    hx.d.delay_max_ns = b->delay_ns;
    hx.o.depth = depth;
    hx.o.entries = (b->flags & QUEUES) != 0 ? 4 : 64;
    hx.o.queues = (b->flags & QUEUES) != 0 ? 4 : 1;
    hx.paths = (b->flags & QUEUES) != 0 ? 2 : 1;
    hx.o.command_max = (b->flags & SPLIT) != 0 ? 8192 : 0;
    hx.o.digests = (b->flags & DIGESTS) != 0 ? 3 : 0;
    hx.t_opts.capsule_bytes = (b->flags & NO_CAPSULES) != 0 ? 16 : 0;
    hx.ns.shift = (b->flags & BLOCKS_OF_512) != 0 ? 9 : 0;
    hx_open(&hx);
    ops = *hx.io->ops;
    ops.close = close_all;
    hx.io->ops = &ops;
    c->io = hx.io;
    c->loop = hx.hloop;
    c->world = hx.world;
    c->disk = hx.disk;
}

static const struct conformance_io_backend backends[] = {
    {.name = "nvmehost", .open = open_sim, .delay_ns = 100000},
    {.name = "nvmehost_split", .open = open_sim, .flags = SPLIT | NO_CAPSULES},
    {.name = "nvmehost_digests",
     .open = open_sim,
     .flags = DIGESTS | BLOCKS_OF_512,
     .delay_ns = 100000},
    {.name = "nvmehost_queues", .open = open_sim, .flags = QUEUES | SPLIT, .delay_ns = 1000000},
};

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[128];
    size_t n = conformance_io_tests(tests, SNIC_COUNTOF(tests), backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n);
}
