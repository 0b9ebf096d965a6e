/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Both halves of nvme-fs joined by hand: regions of memory, and steps that are carried out in any
 * order, operation by operation.
 */
#ifndef SNIC_TEST_NVMEFS_UTIL_H
#define SNIC_TEST_NVMEFS_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmefs/nvmefs_priv.h"
#include "support.h"

enum { DUO_QUEUES = 4, DUO_STEPS = 64 };

/** A region of the host's. */
struct duo_region {
    unsigned char *base;
    size_t size;
};

/** A step that is out, and how far it is. */
struct duo_step {
    struct snic_nvmefs_step *s;
    uint32_t done; /* bit per operation                                                       */
    int result;
};

struct duo {
    struct snic_rng rng;
    struct snic_nvmefs_dpu *d;
    void *dpu_mem;
    struct snic_nvmefs_host *h[DUO_QUEUES];
    void *host_mem[DUO_QUEUES];
    struct duo_region regions[8]; /* by key - 100                                             */
    uint32_t region_count;
    struct duo_step out[DUO_STEPS];
    uint32_t out_count;
    uint32_t created;
    uint32_t deleted;
    uint32_t failed;
    int created_error;
    uint64_t ops; /* DMA operations carried out                                                */
    uint64_t bells_up;
    uint64_t bells_down;
    int reorder;
    void (*observe)(void *ctx,
                    const struct snic_nvmefs_op *op); /* each that is carried out; NULL */
    void *observe_ctx;
};

static inline uint64_t duo_region_add(struct duo *x, size_t size, uint16_t window)
{
    struct snic_nvmefs_ctl m = {
        .type = SNIC_NVMEFS_CTL_WINDOW, .window = window, .key = 100 + x->region_count};
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    struct duo_region *r = &x->regions[x->region_count++];
    assert_true(x->region_count <= SNIC_COUNTOF(x->regions));
    r->base = support_guard_alloc(size, 4096);
    memset(r->base, 0, size);
    r->size = size;
    m.size = size;
    snic_nvmefs_ctl_encode(msg, &m);
    assert_int_equal(snic_nvmefs_dpu_control(x->d, msg, sizeof(msg)), 0);
    return m.key;
}

static inline void duo_open(struct duo *x, const struct snic_nvmefs_dpu_opts *o)
{
    size_t size = snic_nvmefs_dpu_memsize(o);
    memset(x, 0, sizeof(*x));
    snic_rng_init(&x->rng, support_seed());
    assert_true(size > 0);
    x->dpu_mem = support_guard_alloc(size, SNIC_NVMEFS_ALIGN);
    assert_int_equal(snic_nvmefs_dpu_init(&x->d, x->dpu_mem, size - 1, o), SNIC_ENOSPC);
    assert_int_equal(snic_nvmefs_dpu_init(&x->d, x->dpu_mem, size, o), 0);
}

/** Queue @p q in a region of its own, which is window q. */
static inline void duo_queue(struct duo *x, uint16_t q, uint32_t depth, uint32_t data_bytes)
{
    struct snic_nvmefs_host_opts o = {.opts_size = sizeof(o),
                                      .queue = q,
                                      .depth = depth,
                                      .data_bytes = data_bytes,
                                      .address = SNIC_NVMEFS_ADDRESS(q, 0)};
    size_t size = snic_nvmefs_host_memsize(&o);
    uint64_t key = duo_region_add(x, snic_nvmefs_queue_bytes(&o), q);
    x->host_mem[q] = support_guard_alloc(size, SNIC_NVMEFS_ALIGN);
    assert_int_equal(
        snic_nvmefs_host_init(&x->h[q], x->host_mem[q], size - 1, x->regions[key - 100].base, &o),
        SNIC_ENOSPC);
    assert_int_equal(
        snic_nvmefs_host_init(&x->h[q], x->host_mem[q], size, x->regions[key - 100].base, &o), 0);
}

static inline void duo_send(struct duo *x, const struct snic_nvmefs_ctl *m)
{
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    snic_nvmefs_ctl_encode(msg, m);
    (void)snic_nvmefs_dpu_control(x->d, msg, sizeof(msg));
}

static inline void duo_create(struct duo *x, uint16_t q)
{
    struct snic_nvmefs_ctl m;
    snic_nvmefs_host_create(x->h[q], &m);
    duo_send(x, &m);
}

static inline void duo_delete(struct duo *x, uint16_t q)
{
    struct snic_nvmefs_ctl m;
    snic_nvmefs_host_create(x->h[q], &m);
    m.type = SNIC_NVMEFS_CTL_DELETE;
    duo_send(x, &m);
}

/** Carry out operation @p i. 0 or SNIC_EFAULT. */
static inline int duo_op(struct duo *x, const struct snic_nvmefs_op *op)
{
    uint64_t r = op->key - 100;
    x->ops++;
    if (r >= x->region_count || op->offset > x->regions[r].size ||
        op->length > x->regions[r].size - op->offset || x->regions[r].base == NULL)
        return SNIC_EFAULT;
    unsigned char *at = x->regions[r].base + op->offset;
    if (op->kind == 1)
        memcpy(op->local, at, op->length);
    else
        memcpy(at, op->local, op->length);
    if (x->observe != NULL)
        x->observe(x->observe_ctx, op);
    return 0;
}

/** Move one operation of @p s; 1 when all are over. */
static inline int duo_step_one(struct duo *x, struct duo_step *s)
{
    uint32_t can[SNIC_NVMEFS_STEP_OPS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->s->count; i++) {
        uint32_t before = (1U << i) - 1;
        if ((s->done >> i & 1) != 0)
            continue;
        if ((s->s->ops[i].flags & 2) != 0 && (s->done & before) != before)
            continue;
        can[n++] = i;
    }
    if (n > 0) {
        uint32_t i = can[x->reorder ? snic_rng_below(&x->rng, n) : 0];
        if ((s->s->ops[i].flags & 2) == 0 || s->result == 0) {
            int r = duo_op(x, &s->s->ops[i]);
            s->result = s->result == 0 ? r : s->result;
        }
        s->done |= 1U << i;
    }
    return s->done == (1U << s->s->count) - 1;
}

static inline void duo_control(struct duo *x)
{
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    while (snic_nvmefs_dpu_poll_control(x->d, msg)) {
        struct snic_nvmefs_ctl m;
        assert_int_equal(snic_nvmefs_ctl_decode(&m, msg, sizeof(msg)), 0);
        if (m.type == SNIC_NVMEFS_CTL_CREATED)
            x->created_error = m.error;
        x->created += m.type == SNIC_NVMEFS_CTL_CREATED;
        x->deleted += m.type == SNIC_NVMEFS_CTL_DELETED;
        x->failed += m.type == SNIC_NVMEFS_CTL_FAILED;
    }
}

static inline void duo_bells(struct duo *x)
{
    uint32_t bells = snic_nvmefs_dpu_poll_bells(x->d);
    for (uint32_t q = 0; q < DUO_QUEUES; q++) {
        if ((bells >> q & 1) == 0 || x->h[q] == NULL)
            continue;
        x->bells_down++;
        snic_nvmefs_host_belled(x->h[q]);
    }
}

/** One thing of the DPU's side. 0: there is none. */
static inline int duo_turn(struct duo *x)
{
    struct snic_nvmefs_step *s = NULL;
    duo_control(x);
    if (x->out_count < DUO_STEPS && (x->out_count == 0 || snic_rng_below(&x->rng, 2) == 0))
        s = snic_nvmefs_dpu_poll_step(x->d);
    if (s != NULL)
        x->out[x->out_count++] = (struct duo_step){s, 0, 0};
    if (x->out_count == 0)
        return 0;
    uint32_t i = x->reorder ? (uint32_t)snic_rng_below(&x->rng, x->out_count) : 0;
    if (duo_step_one(x, &x->out[i])) {
        struct duo_step done = x->out[i];
        x->out_count--;
        memmove(&x->out[i], &x->out[i + 1], (x->out_count - i) * sizeof(done));
        snic_nvmefs_dpu_complete(x->d, done.s, done.result);
    }
    duo_bells(x);
    return 1;
}

static inline void duo_settle(struct duo *x)
{
    for (uint32_t n = 0; duo_turn(x); n++)
        if (n > 1000000)
            fail_msg("it does not come to rest");
    duo_control(x);
}

static inline void duo_kick(struct duo *x, uint16_t q)
{
    if (!snic_nvmefs_host_kick(x->h[q]))
        return;
    x->bells_up++;
    snic_nvmefs_dpu_bell(x->d, q);
}

static inline void duo_check(struct duo *x)
{
    assert_int_equal(snic_nvmefs_dpu_check(x->d), 0);
    for (int i = 0; i < DUO_QUEUES; i++)
        if (x->h[i] != NULL)
            assert_int_equal(snic_nvmefs_host_check(x->h[i]), 0);
}

static inline void duo_close(struct duo *x)
{
    for (int i = 0; i < DUO_QUEUES; i++) {
        if (x->h[i] == NULL)
            continue;
        assert_ptr_equal(snic_nvmefs_host_fini(x->h[i]), x->host_mem[i]);
        support_guard_free(x->host_mem[i]);
    }
    assert_ptr_equal(snic_nvmefs_dpu_fini(x->d), x->dpu_mem);
    support_guard_free(x->dpu_mem);
    for (uint32_t i = 0; i < x->region_count; i++)
        if (x->regions[i].base != NULL)
            support_guard_free(x->regions[i].base);
}

/** The file system of the tests: answers @p c at once. */
static inline void duo_serve(struct duo *x, struct snic_nvmefs_cmd *c)
{
    struct snic_nvmefs_req *r = &c->req;
    int64_t result = 0;
    if (r->op.kind == SNIC_FSOP_READ) { /* every byte encodes its place */
        uint64_t at = r->op.offset;
        for (uint32_t i = 0; i < c->req.op.iov_count; i++)
            for (size_t k = 0; k < c->req.op.iov[i].size; k++, at++)
                ((unsigned char *)c->req.op.iov[i].base)[k] = (unsigned char)(at * 7 + r->op.ino);
        result = c->data_size;
    } else if (r->op.kind == SNIC_FSOP_WRITE) {
        uint64_t at = r->op.offset;
        result = c->data_size;
        for (uint32_t i = 0; i < c->req.op.iov_count; i++)
            for (size_t k = 0; k < c->req.op.iov[i].size; k++, at++)
                if (((unsigned char *)c->req.op.iov[i].base)[k] !=
                    (unsigned char)(at * 7 + r->op.ino))
                    result = SNIC_EIO;
    } else if (r->op.kind == SNIC_FSOP_GETATTR) {
        r->op.attr =
            (struct snic_fsop_attr){.ino = r->op.ino, .size = r->op.ino * 3, .mode = 0100644};
    } else if (r->op.kind == SNIC_FSOP_SETLK) {
        return; /* waits */
    }
    snic_nvmefs_dpu_finish(x->d, c, SNIC_NVMEFS_STATUS_OK, result);
}

#endif /* SNIC_TEST_NVMEFS_UTIL_H */
