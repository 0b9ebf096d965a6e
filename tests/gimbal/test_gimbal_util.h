/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A switch with exact memory, I/Os, and a device in simulated time that completes in order. */
#ifndef SNIC_TESTS_GIMBAL_UTIL_H
#define SNIC_TESTS_GIMBAL_UTIL_H

#include "snicstore/gimbal.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#define KIB 1024u
#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

struct gx {
    struct snic_gimbal *g;
    uint64_t now;
};

/* @o NULL: defaults. Zeroed fields of @o are defaults, too; opts_size is set here. */
static inline void gx_open(struct gx *x, const struct snic_gimbal_opts *o)
{
    struct snic_gimbal_opts full = {0};
    if (o != NULL)
        full = *o;
    full.opts_size = sizeof(full);
    size_t size = snic_gimbal_memsize(&full);
    assert_true(size > 0);
    x->now = 1000;
    void *mem = support_guard_alloc(size, SNIC_GIMBAL_ALIGN);
    assert_int_equal(snic_gimbal_init(&x->g, mem, size, &full, x->now), 0);
    assert_int_equal(snic_gimbal_check(x->g), 0);
}

static inline void gx_close(struct gx *x)
{
    assert_int_equal(snic_gimbal_check(x->g), 0);
    support_guard_free(snic_gimbal_fini(x->g));
}

static inline void gx_tenants(struct gx *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(snic_gimbal_tenant_add(x->g, i, NULL), 0);
}

static inline void gx_fill(struct snic_gimbal_io *io, uint32_t tenant, uint8_t op, uint32_t size)
{
    memset(io, 0x5a, sizeof(*io)); /* whatever was there before */
    io->tenant = tenant;
    io->op = op;
    io->size = size;
    io->priority = 0;
}

static inline void gx_submit(struct gx *x, struct snic_gimbal_io *io, uint32_t tenant, uint8_t op,
                             uint32_t size)
{
    gx_fill(io, tenant, op, size);
    assert_int_equal(snic_gimbal_submit(x->g, io, x->now), 0);
}

/*
 * The next I/O; time advances to deadlines, but not until an I/O that is out counts as lost.
 * NULL: none without a completion.
 */
static inline struct snic_gimbal_io *gx_next(struct gx *x)
{
    for (;;) {
        struct snic_gimbal_io *io = snic_gimbal_poll(x->g, x->now);
        if (io != NULL)
            return io;
        uint64_t deadline = snic_gimbal_deadline_ns(x->g);
        assert_true(deadline > x->now);
        if (deadline == SNIC_NEVER)
            return NULL;
        struct snic_gimbal_view v;
        snic_gimbal_get_view(x->g, &v);
        if (v.inflight > 0 && deadline - x->now > SEC)
            return NULL;
        x->now = deadline;
    }
}

static inline struct snic_gimbal_view gx_view(struct gx *x)
{
    struct snic_gimbal_view v;
    snic_gimbal_get_view(x->g, &v);
    return v;
}

static inline struct snic_gimbal_tenant_view gx_tenant(struct gx *x, uint32_t tenant)
{
    struct snic_gimbal_tenant_view v;
    assert_int_equal(snic_gimbal_get_tenant_view(x->g, tenant, &v), 0);
    return v;
}

/* ---- A device: a fixed latency behind a pipe of some bytes/s; closed-loop clients ---- */

#define SIM_IOS 16384

struct sim_io {
    struct snic_gimbal_io io;
    uint64_t done_ns;
    uint64_t limit_ns; /* stop sending it again from then on */
};

struct sim {
    struct gx x;
    uint64_t bytes_per_second;
    uint64_t latency_ns;
    uint64_t poll_ns; /* nothing happens but at multiples of this */
    uint64_t free_ns; /* of the pipe */
    uint64_t stall_from_ns;
    uint64_t stall_to_ns;
    uint64_t wait_max_ns; /* of any I/O */
    uint32_t count;
    uint32_t head;
    uint32_t busy;
    uint32_t inflight_max;
    void (*sent)(struct sim *s, const struct snic_gimbal_io *io); /* may be NULL */
    void *ctx;
    struct sim_io *ios;
    struct sim_io **device;
};

static inline void sim_open(struct sim *s, const struct snic_gimbal_opts *o)
{
    memset(s, 0, sizeof(*s));
    s->ios = calloc(SIM_IOS, sizeof(*s->ios));
    s->device = calloc(SIM_IOS, sizeof(struct sim_io *));
    assert_true(s->ios != NULL && s->device != NULL);
    s->bytes_per_second = SEC;
    s->latency_ns = 80000;
    s->poll_ns = 1;
    gx_open(&s->x, o);
}

static inline void sim_client(struct sim *s, uint32_t tenant, uint8_t op, uint32_t size,
                              uint32_t depth, uint64_t to_ns)
{
    for (uint32_t i = 0; i < depth; i++) {
        assert_true(s->count < SIM_IOS);
        struct sim_io *item = &s->ios[s->count++];
        item->limit_ns = to_ns;
        gx_submit(&s->x, &item->io, tenant, op, size);
    }
}

static inline void sim_start(struct sim *s, struct snic_gimbal_io *io)
{
    struct sim_io *item = SNIC_CONTAINER(io, struct sim_io, io);
    uint64_t now = s->x.now;
    s->free_ns = snic_max_u64(s->free_ns, now);
    if (s->free_ns >= s->stall_from_ns && s->free_ns < s->stall_to_ns)
        s->free_ns = s->stall_to_ns;
    s->free_ns += io->size * SEC / s->bytes_per_second;
    item->done_ns = s->free_ns + s->latency_ns;
    s->wait_max_ns = snic_max_u64(s->wait_max_ns, now - io->queued_ns);
    s->device[(s->head + s->busy++) % SIM_IOS] = item;
    if (s->busy > s->inflight_max)
        s->inflight_max = s->busy;
    if (s->sent != NULL)
        s->sent(s, io);
}

/* Until @to_ns, or until nothing is inside. */
static inline void sim_run(struct sim *s, uint64_t to_ns)
{
    for (;;) {
        struct snic_gimbal_io *io;
        while ((io = snic_gimbal_poll(s->x.g, s->x.now)) != NULL)
            sim_start(s, io);
        uint64_t next = snic_gimbal_deadline_ns(s->x.g);
        assert_true(next > s->x.now);
        struct sim_io *first = s->busy > 0 ? s->device[s->head] : NULL;
        if (first != NULL)
            next = snic_min_u64(next, first->done_ns);
        if (next == SNIC_NEVER || next > to_ns)
            break;
        next = (next + s->poll_ns - 1) / s->poll_ns * s->poll_ns;
        s->x.now = snic_max_u64(s->x.now, next);
        while (s->busy > 0 && s->device[s->head]->done_ns <= s->x.now) {
            struct sim_io *item = s->device[s->head];
            s->head = (s->head + 1) % SIM_IOS;
            s->busy--;
            snic_gimbal_complete(s->x.g, &item->io, 1, s->x.now);
            if (s->x.now < item->limit_ns)
                assert_int_equal(snic_gimbal_submit(s->x.g, &item->io, s->x.now), 0);
        }
    }
    if (to_ns != SNIC_NEVER)
        s->x.now = snic_max_u64(s->x.now, to_ns);
}

static inline void sim_close(struct sim *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        s->ios[i].limit_ns = 0;
    sim_run(s, SNIC_NEVER);
    gx_close(&s->x);
    free(s->ios);
    free(s->device);
}

static inline uint64_t sim_bytes(struct sim *s, uint32_t tenant)
{
    struct snic_gimbal_tenant_view v = gx_tenant(&s->x, tenant);
    return v.bytes[0] + v.bytes[1];
}

#endif
