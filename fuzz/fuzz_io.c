/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated disk driven by a string of operations, six bytes each: requests valid and not,
 * cancels, faults, power cuts, clones, users that wait for room. Each accepted request completes
 * exactly once, each wait is reported once, and the medium agrees with the results; after a cut
 * each un-synced sector has its old or its new contents.
 */
#include <stdlib.h>
#include <string.h>

#include "snicstore/io.h"

#define SECTOR 512
#define SECTORS 16
#define DEPTH 8
#define USERS 3

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct user {
    struct snic_io_waiter waiter;
    int waits;
};

struct rig {
    struct user users[USERS];
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    unsigned char model[SECTOR * SECTORS];
};

struct call {
    struct snic_io_req req;
    struct rig *rig;
    int state; /* 0 free, 1 in flight */
    unsigned char mem[SECTOR * SECTORS];
};

static void call_done(struct snic_io_req *req)
{
    struct call *c = SNIC_CONTAINER(req, struct call, req);
    REQUIRE(c->state == 1);
    c->state = 0;
    if (req->result <= 0)
        return;
    size_t n = (size_t)req->result;
    REQUIRE(n <= req->length && req->offset + n <= sizeof(c->rig->model));
    unsigned char *at = c->rig->model + req->offset;
    switch (req->op) {
    case SNIC_IO_READ:
        REQUIRE(memcmp(c->mem, at, n) == 0);
        break;
    case SNIC_IO_WRITE:
        memcpy(at, c->mem, n);
        break;
    case SNIC_IO_ZERO:
        memset(at, 0, n);
        break;
    default: /* DISCARD: look what it made of it */
        memcpy(at, snic_disk_bytes(c->rig->disk) + req->offset, n);
        break;
    }
}

static void user_writable(struct snic_io_waiter *w)
{
    struct user *u = SNIC_CONTAINER(w, struct user, waiter);
    REQUIRE(u->waits && !snic_io_waits(w));
    u->waits = 0;
}

static void submit(struct rig *g, struct call *calls, const uint8_t *b)
{
    for (int i = 0; i < DEPTH; i++) {
        struct call *c = &calls[i];
        struct snic_io_req *one = &c->req;
        if (c->state != 0)
            continue;
        memset(&c->req, 0, sizeof(c->req));
        c->rig = g;
        c->req.done = call_done;
        c->req.op = b[0] % 8; /* 0, 6 and 7 are none */
        c->req.flags = b[1] % 16 == 0 ? 2 : b[1] % 4 == 0;
        c->req.offset = (uint64_t)b[2] * 37;
        c->req.length = (uint64_t)b[3] * 41 % (sizeof(c->mem) + 1);
        c->req.buf.base = b[1] == 255 ? NULL : c->mem;
        c->req.buf.size = b[1] == 254 ? 1 : c->req.length;
        c->req.region = b[1] == 253 ? 0 : SNIC_NO_REGION;
        memset(c->mem, b[4], sizeof(c->mem));
        int r = snic_io_submit(g->io, &one, 1);
        REQUIRE(r == 1 || r == 0 || r == SNIC_EIO);
        c->state = r == 1;
        return;
    }
}

static void drain(struct rig *g, const struct call *calls)
{
    while (snic_world_step(g->world) != 0)
        ;
    for (int i = 0; i < DEPTH; i++)
        REQUIRE(calls[i].state == 0);
    for (int i = 0; i < USERS; i++)
        REQUIRE(!g->users[i].waits); /* there is room */
}

static void fault(struct rig *g, const uint8_t *b)
{
    struct snic_fault f = {.kind = b[1] % 8u,
                           .ops = b[2] % 64u,
                           .after = b[3] % 4u,
                           .repeat = b[3] / 64u,
                           .offset = b[4],
                           .length = b[4] * 10u,
                           .error = -(int32_t)(b[5] % 4),
                           .bytes = (uint64_t)b[5] * 11,
                           .delay_ns = b[5],
                           .seed = b[5] == 255 ? SNIC_FAULT_KEEP_ALL : b[5]};
    int r = snic_disk_fault(g->disk, &f);
    REQUIRE(r == 0 || r == SNIC_EINVAL || r == SNIC_ENOSPC);
}

/* After any fault, start over on the disk's present contents. */
static void reopen(struct rig *g, const struct call *calls)
{
    drain(g, calls);
    snic_io_close(g->io);
    REQUIRE(snic_io_mem_open(&g->io, g->loop, g->disk) == 0);
    memcpy(g->model, snic_disk_bytes(g->disk), sizeof(g->model));
}

static void cut(struct rig *g, const struct call *calls, uint64_t seed)
{
    uint64_t list[SECTORS], n = snic_disk_unsynced(g->disk, list, SECTORS);
    struct snic_disk *other = NULL;
    unsigned char before[SECTOR * SECTORS];
    REQUIRE(n <= SECTORS);
    drain(g, calls);
    memcpy(before, snic_disk_bytes(g->disk), sizeof(before));
    n = snic_disk_unsynced(g->disk, list, SECTORS);
    REQUIRE(snic_disk_clone(g->disk, &other) == 0);
    snic_disk_power_cut_keep(other, NULL, 0);
    snic_disk_power_cut(g->disk, seed);
    REQUIRE(snic_disk_unsynced(g->disk, NULL, 0) == 0);
    for (uint64_t s = 0, k = 0; s < SECTORS; s++) {
        const unsigned char *now = snic_disk_bytes(g->disk) + s * SECTOR;
        int dirty = k < n && list[k] == s;
        k += (uint64_t)dirty;
        REQUIRE(memcmp(now, before + s * SECTOR, SECTOR) == 0 ||
                (dirty && memcmp(now, snic_disk_bytes(other) + s * SECTOR, SECTOR) == 0));
    }
    snic_disk_close(other);
    reopen(g, calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct call calls[DEPTH];
    struct rig g = {.io = NULL};
    struct snic_disk_opts o = {.opts_size = sizeof(o),
                               .sector = SECTOR,
                               .size = SECTOR * SECTORS,
                               .delay_max_ns = size % 3 * 1000,
                               .depth = size % 4 == 0 ? 2 : DEPTH,
                               .align = size % 5 == 0 ? 256 : 1};
    memset(calls, 0, sizeof(calls));
    REQUIRE(snic_world_open(&g.world, NULL) == 0 && snic_world_loop(g.world, 0, &g.loop) == 0);
    REQUIRE(snic_disk_open(&g.disk, &o) == 0 && snic_io_mem_open(&g.io, g.loop, g.disk) == 0);
    for (int i = 0; i < USERS; i++)
        snic_io_waiter_init(&g.users[i].waiter, user_writable);
    for (; size >= 6; data += 6, size -= 6) {
        struct user *u = &g.users[data[1] % USERS];
        switch (data[0] / 8 % 16) {
        case 0:
            drain(&g, calls);
            break;
        case 1:
            fault(&g, data);
            break;
        case 2:
            cut(&g, calls, data[5]);
            break;
        case 3:
            snic_io_cancel(g.io, &calls[data[1] % DEPTH].req);
            break;
        case 4:
            snic_disk_faults_clear(g.disk);
            break;
        case 5:
            (void)snic_world_step(g.world);
            break;
        case 7:
            u->waits = 1;
            snic_io_wait(g.io, &u->waiter);
            break;
        case 8:
            u->waits = 0;
            snic_io_unwait(&u->waiter);
            break;
        case 6: /* with requests in flight: they die, some land in part */
            snic_disk_power_cut(g.disk, data[5]);
            reopen(&g, calls);
            break;
        default:
            submit(&g, calls, data);
            break;
        }
        struct snic_io_req *none = NULL; /* a planned power cut killed the handle */
        if (snic_io_submit(g.io, &none, 0) < 0)
            reopen(&g, calls);
    }
    drain(&g, calls);
    snic_io_close(g.io);
    snic_loop_close(g.loop);
    snic_disk_close(g.disk);
    snic_world_close(g.world);
    return 0;
}
