/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A disk in a world, one handle on it, and requests one at a time. */
#ifndef SNIC_TESTS_TEST_IO_MEM_UTIL_H
#define SNIC_TESTS_TEST_IO_MEM_UTIL_H

#include "conformance_io.h"

#include <string.h>

#define SECTOR 512
#define SECTORS 64

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
};

struct call {
    struct snic_io_req req;
    int done;
};

static inline void call_done(struct snic_io_req *req)
{
    SNIC_CONTAINER(req, struct call, req)->done++;
}

static inline struct rig rig_open_with(const struct snic_disk_opts *o)
{
    struct rig g = {0};
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 5};
    assert_int_equal(snic_world_open(&g.world, &w), 0);
    assert_int_equal(snic_world_loop(g.world, 0, &g.loop), 0);
    assert_int_equal(snic_disk_open(&g.disk, o), 0);
    assert_int_equal(snic_io_mem_open(&g.io, g.loop, g.disk), 0);
    return g;
}

static inline struct rig rig_open(void)
{
    struct snic_disk_opts o = {
        .opts_size = sizeof(o), .sector = SECTOR, .size = SECTORS * SECTOR, .seed = 9};
    return rig_open_with(&o);
}

static inline void rig_close(struct rig *g)
{
    snic_io_close(g->io);
    snic_loop_close(g->loop);
    snic_disk_close(g->disk);
    snic_world_close(g->world);
}

/** After a power cut: a new handle on what survived. */
static inline void rig_reopen(struct rig *g)
{
    snic_io_close(g->io);
    assert_int_equal(snic_io_mem_open(&g->io, g->loop, g->disk), 0);
}

static inline int call_start(struct rig *g, struct call *c, enum snic_io_op op, uint64_t offset,
                             void *mem, uint64_t length, uint16_t flags)
{
    struct snic_io_req *one = &c->req;
    memset(c, 0, sizeof(*c));
    c->req.done = call_done;
    c->req.op = (uint8_t)op;
    c->req.flags = flags;
    c->req.offset = offset;
    c->req.length = length;
    c->req.buf.base = mem;
    c->req.buf.size = length;
    c->req.region = SNIC_NO_REGION;
    return snic_io_submit(g->io, &one, 1);
}

static inline int64_t call_run(struct rig *g, enum snic_io_op op, uint64_t offset, void *mem,
                               uint64_t length, uint16_t flags)
{
    struct call c;
    assert_int_equal(call_start(g, &c, op, offset, mem, length, flags), 1);
    while (c.done == 0)
        assert_int_equal(snic_loop_once(g->loop, SNIC_NEVER), 1);
    return c.req.result;
}

/** Write @p count sectors from @p first, filled with @p byte. */
static inline void put(struct rig *g, uint64_t first, uint64_t count, int byte, uint16_t flags)
{
    unsigned char mem[SECTORS * SECTOR];
    memset(mem, byte, count * SECTOR);
    assert_int_equal(call_run(g, SNIC_IO_WRITE, first * SECTOR, mem, count * SECTOR, flags),
                     count * SECTOR);
}

/** The byte that fills sector @p s, -1 if it is torn inside. */
static inline int sector_is(struct rig *g, uint64_t s)
{
    const unsigned char *p = snic_disk_bytes(g->disk) + s * SECTOR;
    for (size_t i = 1; i < SECTOR; i++) {
        if (p[i] != p[0])
            return -1;
    }
    return p[0];
}

static inline void flush(struct rig *g)
{
    assert_int_equal(call_run(g, SNIC_IO_FLUSH, 0, NULL, 0, 0), 0);
}

#endif /* SNIC_TESTS_TEST_IO_MEM_UTIL_H */
