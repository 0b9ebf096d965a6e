/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_replica_alone.h"

#include "support.h"

#include <string.h>

struct alone fix;

void doors(uint16_t configured)
{
    doors_of(configured, 128);
}

void doors_of(uint16_t configured, uint32_t send_queue)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {.opts_size = sizeof(d), .sector = 512, .size = 4 << 20};
    d.delay_min_ns = d.delay_max_ns = 1000;
    struct snic_net_uring_opts net = {.opts_size = sizeof(net), .conns_max = 16};
    net.recv_buffers = 4;
    net.pool_buffers = 32;
    net.send_queue = send_queue;
    memset(&fix, 0, sizeof(fix));
    assert_int_equal(snic_world_open(&fix.world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&fix.fabric, fix.world, NULL), 0);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(snic_world_loop(fix.world, n, &fix.loop[n]), 0);
        assert_int_equal(snic_net_sim_open(&fix.net[n], fix.fabric, fix.loop[n], &net), 0);
        fix.addrs[n].family = SNIC_NET_SIM;
        fix.addrs[n].node = n;
        fix.addrs[n].port = PORT;
    }
    assert_int_equal(snic_disk_open(&fix.disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&fix.io, fix.loop[0], fix.disk), 0);
    struct snic_replica_opts *o = &fix.o;
    o->opts_size = sizeof(*o);
    o->flags = SNIC_REPLICA_FOUND;
    o->loop = fix.loop[0];
    o->net = fix.net[0];
    o->log = fix.io;
    o->addrs = fix.addrs;
    o->cluster = 0xc1;
    o->incarnation = 1000;
    o->configured = configured;
    o->model = SNIC_DDP_SYNCH;
    o->keys_max = 64;
    o->value_max = 4000;
    o->values_bytes = 1 << 18;
    o->wal.opts_size = sizeof(o->wal);
    o->wal.flags = SNIC_WAL_CREATE;
    o->wal.segment_bytes = 128 << 10;
    o->wal.block_bytes = 512;
}

void start(void)
{
    fix.size = snic_replica_memsize(&fix.o);
    assert_true(fix.size > 0);
    fix.mem = support_guard_alloc(fix.size, SNIC_REPLICA_ALIGN);
    assert_int_equal(snic_replica_init(&fix.r, fix.mem, fix.size, &fix.o), 0);
}

void run(uint64_t ns)
{
    uint64_t until = snic_world_now(fix.world) + ns;
    while (snic_world_run(fix.world, until, 1) > 0)
        assert_int_equal(snic_replica_check(fix.r), 0);
}

struct snic_replica_stats info(void)
{
    struct snic_replica_stats i;
    snic_replica_get_stats(fix.r, &i);
    return i;
}

void stop(void)
{
    snic_replica_stop(fix.r);
    run(MS);
    assert_ptr_equal(snic_replica_fini(fix.r), fix.mem);
    support_guard_free(fix.mem);
    fix.r = NULL;
}

void finish(void)
{
    for (uint32_t n = 0; n < NODES; n++)
        snic_net_shut(fix.net[n]);
    snic_io_close(fix.io);
    snic_disk_close(fix.disk);
    for (uint32_t n = 0; n < NODES; n++)
        snic_loop_close(fix.loop[n]);
    snic_net_fabric_close(fix.fabric);
    snic_world_close(fix.world);
}

/* ---- Operations ---- */

static void op_done(struct snic_replica_op *op)
{
    struct op *o = SNIC_CONTAINER(op, struct op, op);
    o->done++;
    o->any = op->data != NULL;
    o->size = op->size;
    if (op->size > 0)
        memcpy(o->data, op->data, op->size);
}

int begin(struct op *o, uint32_t kind, uint64_t key, const void *data, uint32_t size)
{
    uint64_t ts = o->op.ts;
    memset(o, 0, sizeof(*o));
    o->op.done = op_done;
    o->op.kind = kind;
    o->op.key.w[0] = key;
    o->op.data = data;
    o->op.size = size;
    o->op.ts = ts;
    return snic_replica_submit(fix.r, &o->op);
}

int act(struct op *o, uint32_t kind, uint64_t key, const void *data, uint32_t size)
{
    int e = begin(o, kind, key, data, size);
    if (e != 0)
        return e;
    for (uint32_t i = 0; !o->done; i++) {
        assert_true(i < 1000);
        run(MS);
    }
    return o->op.result;
}
