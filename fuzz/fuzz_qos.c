/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The switch over the simulated disk, driven by a string of operations, six bytes each: requests
 * valid and not, of many tenants and sizes, cancels, faults, power cuts, tenants that come and go.
 * Each accepted request completes exactly once and from the loop, it moved as many bytes as it
 * reports, and snic_qos_check() holds after every step.
 */
#include <stdlib.h>
#include <string.h>

#include "snicstore/qos.h"

#define SECTOR 512
#define BYTES (64u << 10)
#define PART 4096
#define CALLS 12
#define TENANTS 5

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    void *mem;
    struct snic_qos_opts opts;
    int in_call;
    int torn; /* the power went: what is on the disk is not judged */
};

struct call {
    struct snic_io_req req;
    struct rig *rig;
    int state; /* 0 free, 1 in flight */
    struct snic_iov iov[8];
    unsigned char mem[BYTES];
};

static void call_done(struct snic_io_req *req)
{
    struct call *c = SNIC_CONTAINER(req, struct call, req);
    REQUIRE(c->state == 1 && !c->rig->in_call);
    c->state = 0;
    REQUIRE(req->result <= (int64_t)req->length);
    REQUIRE(req->queued_ns <= req->device_ns && req->device_ns <= req->done_ns);
    if (req->result > 0)
        REQUIRE(req->credit >= 1 || req->op == SNIC_IO_FLUSH);
    /* The areas of calls do not overlap: what was moved is on the disk now. */
    if (req->result > 0 && !c->rig->torn && (req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE))
        REQUIRE(memcmp(c->mem, snic_disk_bytes(c->rig->disk) + req->offset, (size_t)req->result) ==
                0);
}

static void check(const struct rig *g)
{
    REQUIRE(snic_qos_check(g->io) == 0);
}

/* The request's memory in one piece or in several. */
static void pieces(struct call *c, uint8_t how)
{
    uint32_t n = how % 8u;
    size_t at = 0;
    if (n == 0 || c->req.length < n)
        return;
    for (uint32_t i = 0; i < n; i++) {
        size_t k = i + 1 < n ? (size_t)c->req.length / n : (size_t)c->req.length - at;
        c->iov[i] = (struct snic_iov){c->mem + at, k};
        at += k;
    }
    c->req.iov = c->iov;
    c->req.iov_count = n;
}

static void submit(struct rig *g, struct call *calls, const uint8_t *b)
{
    uint32_t i = b[2] % CALLS;
    struct call *c = &calls[i];
    struct snic_io_req *one = &c->req;
    uint64_t area = BYTES / CALLS / SECTOR * SECTOR;
    if (c->state != 0)
        return;
    snic_io_req_init(&c->req);
    c->rig = g;
    c->req.done = call_done;
    c->req.op = b[0] % 8; /* 0, 6 and 7 are none */
    c->req.flags = b[1] % 16 == 0 ? 2 : b[1] % 4 == 0;
    c->req.tenant = b[3] % (TENANTS + 2u);
    c->req.priority = b[3] / 16u;
    c->req.offset = i * area + (b[4] % 8u) * 64u;
    c->req.length = (uint64_t)b[5] * 40 % (area - (b[4] % 8u) * 64u);
    c->req.buf.base = b[1] == 255 ? NULL : c->mem;
    c->req.buf.size = b[1] == 254 ? 1 : c->req.length;
    c->req.region = b[1] == 253 ? 0 : SNIC_NO_REGION;
    memset(c->mem, b[4], sizeof(c->mem));
    pieces(c, b[1] / 16u);
    g->in_call = 1;
    int r = snic_io_submit(g->io, &one, 1);
    g->in_call = 0;
    REQUIRE(r == 1 || r == 0 || r == SNIC_EIO);
    c->state = r == 1;
}

static void tenant(struct rig *g, const uint8_t *b)
{
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t),
                                        .weight = b[3],
                                        .bytes_per_second = (uint64_t)b[4] << 20,
                                        .ios_per_second = (uint64_t)b[5] * 64};
    struct snic_qos_tenant_view v;
    uint32_t id = b[2] % (TENANTS + 2u);
    uint32_t cursor = 0;
    int r;
    if (b[1] / 4 % 4 == 1) { /* groups, and floors */
        t.group = b[5] % 4u;
        t.floor_ios_per_second = b[5] / 4u;
    } else if (b[1] / 4 % 4 == 2) {
        r = b[1] % 4 == 0   ? snic_qos_group_remove(g->io, id)
            : b[1] % 4 == 1 ? snic_qos_group_set(g->io, id, &t)
                            : snic_qos_group_add(g->io, id, &t);
        REQUIRE(r == 0 || r == SNIC_EINVAL || r == SNIC_ENOENT || r == SNIC_EEXIST ||
                r == SNIC_EBUSY);
        return;
    }
    switch (b[1] % 4) {
    case 0:
        r = snic_qos_tenant_add(g->io, id, &t);
        REQUIRE(r == 0 || r == SNIC_EEXIST || r == SNIC_ENOSPC || r == SNIC_EINVAL);
        break;
    case 1:
        r = snic_qos_tenant_remove(g->io, id);
        REQUIRE(r == 0 || r == SNIC_ENOENT);
        break;
    case 2:
        r = snic_qos_tenant_set(g->io, id, &t);
        REQUIRE(r == 0 || r == SNIC_ENOENT || r == SNIC_EINVAL);
        break;
    default:
        while (snic_qos_tenant_next(g->io, &cursor, &v) == 0)
            REQUIRE(v.errors <= v.completed);
        break;
    }
}

static void fault(struct rig *g, const uint8_t *b)
{
    struct snic_fault f = {.kind = 1 + b[1] % 3u, /* no power cuts here */
                           .ops = b[2] % 64u,
                           .after = 1 + b[3] % 4u,
                           .repeat = b[3] / 64u,
                           .error = -1 - (int32_t)(b[5] % 4),
                           .bytes = (uint64_t)b[5] * 11,
                           .delay_ns = (uint64_t)b[5] * 50000};
    int r = snic_disk_fault(g->disk, &f);
    REQUIRE(r == 0 || r == SNIC_EINVAL || r == SNIC_ENOSPC);
}

static void drain(struct rig *g, const struct call *calls)
{
    while (snic_world_step(g->world) != 0)
        ;
    for (int i = 0; i < CALLS; i++)
        REQUIRE(calls[i].state == 0);
}

static void open_switch(struct rig *g)
{
    struct snic_io *inner = NULL;
    REQUIRE(snic_io_mem_open(&inner, g->loop, g->disk) == 0);
    size_t bytes = snic_qos_memsize(inner, &g->opts);
    REQUIRE(bytes != 0);
    g->mem = aligned_alloc(SNIC_QOS_ALIGN, bytes);
    REQUIRE(g->mem != NULL);
    REQUIRE(snic_qos_open(&g->io, g->mem, bytes, inner, &g->opts) == 0);
}

static void close_switch(struct rig *g)
{
    snic_io_close(g->io);
    free(g->mem);
}

static void step(struct rig *g, struct call *calls, const uint8_t *b)
{
    switch (b[0] / 8 % 16) {
    case 0:
        drain(g, calls);
        break;
    case 1:
        fault(g, b);
        break;
    case 2:
        tenant(g, b);
        break;
    case 3:
        g->in_call = 1;
        snic_io_cancel(g->io, &calls[b[1] % CALLS].req);
        g->in_call = 0;
        break;
    case 4:
        snic_disk_faults_clear(g->disk);
        break;
    case 5:
        for (uint32_t i = 0; i < 1u + b[1] % 16u; i++)
            (void)snic_world_step(g->world);
        break;
    default:
        submit(g, calls, b);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct call calls[CALLS];
    struct snic_gimbal_opts e = {.opts_size = sizeof(e), .slot_bytes = 16384, .groups_max = 3};
    struct rig g = {.io = NULL};
    struct snic_disk_opts o = {.opts_size = sizeof(o),
                               .sector = SECTOR,
                               .size = BYTES,
                               .delay_max_ns = size % 3 * 100000,
                               .depth = 1 + (uint32_t)(size % 4)};
    memset(calls, 0, sizeof(calls));
    g.opts = (struct snic_qos_opts){.opts_size = sizeof(g.opts),
                                    .flags = (uint32_t)(size % 2 ? SNIC_QOS_AUTO : SNIC_QOS_WAITS),
                                    .tenants_max = TENANTS - 1,
                                    .depth = CALLS - 2,
                                    .tenant_depth = CALLS / 2,
                                    .parts = 1 + (uint32_t)(size % 7),
                                    .part_bytes = PART,
                                    .idle_ns = 1000,
                                    .gimbal = &e};
    REQUIRE(snic_world_open(&g.world, NULL) == 0 && snic_world_loop(g.world, 0, &g.loop) == 0);
    REQUIRE(snic_disk_open(&g.disk, &o) == 0);
    open_switch(&g);
    for (; size >= 6; data += 6, size -= 6) {
        step(&g, calls, data);
        check(&g);
        if (data[0] / 8 % 16 == 7 && data[1] == 77) { /* the device goes, and comes back */
            g.torn = 1;
            snic_disk_power_cut(g.disk, data[5]);
            check(&g);
            drain(&g, calls);
            check(&g);
            g.torn = 0;
            close_switch(&g);
            open_switch(&g);
        }
    }
    drain(&g, calls);
    check(&g);
    close_switch(&g);
    snic_loop_close(g.loop);
    snic_disk_close(g.disk);
    snic_world_close(g.world);
    return 0;
}
