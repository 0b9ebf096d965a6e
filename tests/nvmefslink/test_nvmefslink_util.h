/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** A host and a DPU joined by nvmefslink, with a file system that knows what every byte is. */
#ifndef SNIC_TEST_NVMEFSLINK_UTIL_H
#define SNIC_TEST_NVMEFSLINK_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snicstore/nvmefslink.h"
#include "support.h"

/* ---- The DPU ---- */

struct pat_dpu {
    struct snic_dma *d;
    struct snic_nvmefslink_dpu *link;
    void *mem;
    struct snic_nvmefs_cmd *waits[64]; /* locks                                               */
    uint32_t waiting;
    uint64_t served;
    uint32_t deaths;
    uint32_t others;
};

static inline unsigned char pat_byte(uint64_t ino, uint64_t at)
{
    return (unsigned char)(at * 7 + (at >> 8) * 13 + ino);
}

static inline void pat_request(void *ctx, struct snic_nvmefslink_dpu *link,
                               struct snic_nvmefs_cmd *c)
{
    struct pat_dpu *u = ctx;
    struct snic_nvmefs_req *r = &c->req;
    int64_t result = 0;
    uint64_t at = r->op.offset;
    u->served++;
    if (r->distributed) {
        snic_nvmefslink_finish(link, c, SNIC_NVMEFS_STATUS_NO_SERVICE, 0);
        return;
    }
    if (r->op.kind == SNIC_FSOP_READ || r->op.kind == SNIC_FSOP_WRITE) {
        result = c->data_size;
        for (uint32_t i = 0; i < c->req.op.iov_count; i++) {
            unsigned char *p = c->req.op.iov[i].base;
            for (size_t k = 0; k < c->req.op.iov[i].size; k++, at++) {
                if (r->op.kind == SNIC_FSOP_READ)
                    p[k] = pat_byte(r->op.ino, at);
                else if (p[k] != pat_byte(r->op.ino, at))
                    result = SNIC_EIO;
            }
        }
    } else if (r->op.kind == SNIC_FSOP_GETATTR) {
        r->op.attr = (struct snic_fsop_attr){.ino = r->op.ino, .size = r->op.ino * 3};
    } else if (r->op.kind == SNIC_FSOP_SETLK && u->waiting < 64) {
        u->waits[u->waiting++] = c;
        return;
    }
    snic_nvmefslink_finish(link, c, SNIC_NVMEFS_STATUS_OK, result);
}

static inline void pat_cancel(void *ctx, struct snic_nvmefslink_dpu *link,
                              struct snic_nvmefs_cmd *c)
{
    struct pat_dpu *u = ctx;
    for (uint32_t i = 0; i < u->waiting; i++) {
        if (u->waits[i] != c)
            continue;
        u->waits[i] = u->waits[--u->waiting];
        snic_nvmefslink_finish(link, c, SNIC_NVMEFS_STATUS_OK, SNIC_EINTR);
        return;
    }
}

static inline void pat_death(void *ctx, enum snic_dma_death cause)
{
    struct pat_dpu *u = ctx;
    (void)cause;
    u->deaths++;
}

static inline void pat_recv(void *ctx, const void *msg, uint32_t size)
{
    struct pat_dpu *u = ctx;
    (void)msg;
    (void)size;
    u->others++;
}

static inline void pat_bell(void *ctx, uint32_t id)
{
    struct pat_dpu *u = ctx;
    u->others += id;
}

static inline void pat_open(struct pat_dpu *u, struct snic_dma *d, uint32_t queues, uint32_t flags)
{
    struct snic_nvmefslink_dpu_opts o = {
        .opts_size = sizeof(o),
        .flags = flags,
        .engine = {.opts_size = sizeof(o.engine), .queues_max = queues, .depth_max = 64},
        .request = pat_request,
        .cancel = pat_cancel,
        .ctx = u,
        .others = {pat_recv, pat_bell, pat_death, u}};
    size_t size = snic_nvmefslink_dpu_memsize(&o);
    memset(u, 0, sizeof(*u));
    u->d = d;
    u->mem = support_guard_alloc(size, SNIC_NVMEFS_ALIGN);
    if (snic_nvmefslink_dpu_init(&u->link, u->mem, size - 1, d, &o) != SNIC_ENOSPC ||
        snic_nvmefslink_dpu_init(&u->link, u->mem, size, d, &o) != 0)
        abort();
}

/* ---- The host ---- */

enum { PAT_REQS = 24, PAT_BYTES = 65536 };

struct pat_host;

struct pat_req {
    struct snic_nvmefs_req r;
    struct snic_nvmefs_extent e[2];
    struct pat_queue *q;
    int out;
};

struct pat_queue {
    struct pat_host *host;
    struct snic_nvmefslink_queue *q;
    struct pat_req reqs[PAT_REQS];
    uint32_t out;
    uint32_t opened;
    uint32_t closed;
    int reason;
    uint64_t done;
    uint64_t unknown; /* ended by a reset or a death                                           */
    uint64_t wrong;
    int keep_open; /* do not close in the closed event                                         */
};

struct pat_host {
    struct snic_dma *d;
    struct snic_nvmefslink_host *link;
    void *mem;
    unsigned char *buffer; /* of all queues' requests                                         */
    uint64_t key;
    uint32_t window;
    struct snic_rng rng;
    uint32_t deaths;
    uint32_t others;
};

static inline void pat_opened(void *ctx, struct snic_nvmefslink_queue *q)
{
    struct pat_queue *p = ctx;
    (void)q;
    p->opened++;
}

static inline void pat_closed(void *ctx, struct snic_nvmefslink_queue *q, int reason)
{
    struct pat_queue *p = ctx;
    p->closed++;
    p->reason = reason;
    if (p->out != 0)
        p->wrong++;
    if (!p->keep_open) {
        snic_nvmefslink_close(q);
        p->q = NULL;
    }
}

static inline unsigned char *pat_at(struct pat_host *h, uint64_t address)
{
    return h->buffer + (address & 0xffffffffffff);
}

static inline void pat_done(void *ctx, struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
{
    struct pat_queue *p = ctx;
    struct pat_req *r = SNIC_CONTAINER(req, struct pat_req, r);
    (void)q;
    p->wrong += !r->out;
    r->out = 0;
    p->out--;
    p->done++;
    if (req->op.result == SNIC_EUNKNOWN) {
        p->unknown++;
        return;
    }
    if (req->op.kind == SNIC_FSOP_GETATTR) {
        p->wrong += req->op.result != 0 || req->op.attr.size != req->op.ino * 3;
    } else if (req->op.kind == SNIC_FSOP_SETLK) {
        p->wrong += req->op.result != SNIC_EINTR && req->op.result != SNIC_ECANCELED;
    } else {
        uint32_t sum = r->e[0].size + (req->extent_count > 1 ? r->e[1].size : 0);
        uint64_t at = req->op.offset;
        p->wrong += req->op.result != sum;
        for (uint32_t i = 0; i < req->extent_count && req->op.kind == SNIC_FSOP_READ; i++)
            for (uint32_t k = 0; k < r->e[i].size; k++, at++)
                p->wrong += pat_at(p->host, r->e[i].address)[k] != pat_byte(req->op.ino, at);
    }
}

static inline void pat_host_open(struct pat_host *h, struct snic_dma *d, uint32_t queues)
{
    struct snic_nvmefslink_host_opts o = {.opts_size = sizeof(o),
                                          .queues_max = queues,
                                          .others = {pat_recv, pat_bell, pat_death, NULL}};
    size_t size = snic_nvmefslink_host_memsize(&o);
    void *buffer = NULL;
    memset(h, 0, sizeof(*h));
    snic_rng_init(&h->rng, support_seed());
    static struct pat_dpu sink;
    memset(&sink, 0, sizeof(sink));
    o.others.ctx = &sink;
    h->d = d;
    h->mem = support_guard_alloc(size, 16);
    assert_int_equal(snic_nvmefslink_host_init(&h->link, h->mem, size - 1, d, &o), SNIC_ENOSPC);
    assert_int_equal(snic_nvmefslink_host_init(&h->link, h->mem, size, d, &o), 0);
    size_t bytes = (size_t)queues * PAT_REQS * PAT_BYTES;
    assert_int_equal(snic_dma_alloc(d, bytes, &buffer), 0);
    h->buffer = buffer;
    int w = snic_nvmefslink_window_add(h->link, buffer, bytes, &h->key);
    assert_true(w >= 0);
    h->window = (uint32_t)w;
}

static inline void pat_queue_open(struct pat_queue *p, struct pat_host *h, uint32_t depth)
{
    struct snic_nvmefslink_queue_opts o = {.opts_size = sizeof(o), .depth = depth};
    struct snic_nvmefslink_events e = {pat_opened, pat_done, NULL, pat_closed, p};
    memset(p, 0, sizeof(*p));
    p->host = h;
    assert_int_equal(snic_nvmefslink_open(&p->q, h->link, &o, &e), 0);
}

/** Request @p i of queue number @p n; 0 submitted. */
static inline int pat_submit(struct pat_queue *p, uint32_t n, uint32_t i, uint8_t op)
{
    struct pat_host *h = p->host;
    struct pat_req *r = &p->reqs[i];
    if (r->out)
        return SNIC_EBUSY;
    uint64_t base = ((uint64_t)n * PAT_REQS + i) * PAT_BYTES;
    memset(r, 0, sizeof(*r));
    r->r.op.kind = op;
    r->r.op.ino = snic_rng_below(&h->rng, 1000);
    r->r.op.offset = snic_rng_below(&h->rng, 100000);
    if (op == SNIC_FSOP_READ || op == SNIC_FSOP_WRITE) {
        r->e[0] = (struct snic_nvmefs_extent){
            SNIC_NVMEFS_ADDRESS(h->window, base),
            snic_rng_below(&h->rng, 2) ? 8192 : 1 + (uint32_t)snic_rng_below(&h->rng, 30000), 0};
        r->e[1] =
            (struct snic_nvmefs_extent){SNIC_NVMEFS_ADDRESS(h->window, base + 32768), 4096, 0};
        r->r.extents = r->e;
        r->r.extent_count = 1 + (uint32_t)snic_rng_below(&h->rng, 2);
        uint64_t at = r->r.op.offset;
        for (uint32_t k = 0; k < r->r.extent_count && op == SNIC_FSOP_WRITE; k++)
            for (uint32_t b = 0; b < r->e[k].size; b++, at++)
                pat_at(h, r->e[k].address)[b] = pat_byte(r->r.op.ino, at);
    }
    int e = snic_nvmefslink_submit(p->q, &r->r);
    if (e == 0) {
        r->out = 1;
        p->out++;
    }
    return e;
}

static inline void pat_host_close(struct pat_host *h)
{
    assert_ptr_equal(snic_nvmefslink_host_fini(h->link), h->mem);
    support_guard_free(h->mem);
    snic_dma_unregister(h->d, h->key);
    snic_dma_release(h->d, h->buffer);
    snic_dma_close(h->d);
}

#endif /* SNIC_TEST_NVMEFSLINK_UTIL_H */
