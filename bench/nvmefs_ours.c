/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nvme-fs as a lane: one queue pair or several, data where it is (no copies at the host). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmefs_lane.h"

struct ours_host {
    struct snic_dma *d;
    struct lane_user *u;
    struct snic_nvmefslink_host *link;
    struct snic_nvmefslink_queue *q[SNIC_NVMEFS_QUEUES_MAX];
    void *mem;
    uint32_t closed;
    uint32_t window;
    struct snic_nvmefs_req reqs[256];
    struct snic_nvmefs_extent e[256];
};

static void ours_done(void *ctx, struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
{
    struct ours_host *h = ctx;
    (void)q;
    if (req->op.result != h->u->k.bytes) {
        fprintf(stderr, "bench_nvmefs: result %lld, status %x\n", (long long)req->op.result,
                req->status);
        exit(1);
    }
    h->u->done(h->u, (uint32_t)(req - h->reqs));
}

static void ours_closed(void *ctx, struct snic_nvmefslink_queue *q, int reason)
{
    struct ours_host *h = ctx;
    (void)reason;
    snic_nvmefslink_close(q);
    h->closed++;
}

static void *ours_host_open(struct snic_dma *d, struct lane_user *u)
{
    struct ours_host *h = calloc(1, sizeof(*h));
    struct snic_nvmefslink_host_opts o = {.opts_size = sizeof(o), .queues_max = u->k.queues};
    struct snic_nvmefslink_queue_opts qo = {.opts_size = sizeof(qo)};
    struct snic_nvmefslink_events e = {NULL, ours_done, NULL, ours_closed, h};
    size_t size = snic_nvmefslink_host_memsize(&o);
    void *data = NULL;
    uint64_t key;
    h->d = d;
    h->u = u;
    h->mem = aligned_alloc(SNIC_NVMEFS_ALIGN, snic_align_up(size, SNIC_NVMEFS_ALIGN));
    if (snic_nvmefslink_host_init(&h->link, h->mem, size, d, &o) != 0 ||
        snic_dma_alloc(d, (size_t)u->k.in_flight * u->k.bytes, &data) != 0)
        abort();
    int w = snic_nvmefslink_window_add(h->link, data, (size_t)u->k.in_flight * u->k.bytes, &key);
    if (w < 0)
        abort();
    h->window = (uint32_t)w;
    qo.depth = (uint32_t)snic_pow2_up((u->k.in_flight + u->k.queues - 1) / u->k.queues + 1);
    for (uint32_t i = 0; i < u->k.queues; i++)
        if (snic_nvmefslink_open(&h->q[i], h->link, &qo, &e) != 0)
            abort();
    return h;
}

static void ours_submit(void *host, uint32_t i)
{
    struct ours_host *h = host;
    struct snic_nvmefs_req *r = &h->reqs[i];
    h->e[i] = (struct snic_nvmefs_extent){
        SNIC_NVMEFS_ADDRESS(h->window, (uint64_t)i * h->u->k.bytes), h->u->k.bytes, 0};
    r->op.kind = h->u->k.write ? SNIC_FSOP_WRITE : SNIC_FSOP_READ;
    r->op.ino = 1;
    r->extents = &h->e[i];
    r->extent_count = 1;
    if (snic_nvmefslink_submit(h->q[i % h->u->k.queues], r) != 0)
        abort();
}

static void ours_host_end(void *host)
{
    struct ours_host *h = host;
    for (uint32_t i = 0; i < h->u->k.queues; i++)
        snic_nvmefslink_end(h->q[i]);
}

static int ours_host_over(void *host)
{
    struct ours_host *h = host;
    return h->closed == h->u->k.queues;
}

static void ours_host_close(void *host)
{
    struct ours_host *h = host;
    (void)snic_nvmefslink_host_fini(h->link);
    free(h->mem);
    free(h);
}

/* ---- DPU ---- */

struct ours_dpu {
    struct snic_nvmefslink_dpu *link;
    void *mem;
    int dead;
};

static void ours_request(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c)
{
    (void)ctx;
    snic_nvmefslink_finish(d, c, SNIC_NVMEFS_STATUS_OK, c->data_size);
}

static void ours_death(void *ctx, enum snic_dma_death cause)
{
    (void)cause;
    ((struct ours_dpu *)ctx)->dead = 1;
}

static void *ours_dpu_open(struct snic_dma *d, const struct lane_case *k, int unmapped)
{
    struct ours_dpu *u = calloc(1, sizeof(*u));
    uint32_t depth = (uint32_t)snic_pow2_up((k->in_flight + k->queues - 1) / k->queues + 1);
    uint32_t chunk = (uint32_t)snic_align_up(k->bytes < 65536 ? k->bytes : 65536, 4096);
    uint32_t per = (k->bytes + chunk - 1) / chunk;
    struct snic_nvmefslink_dpu_opts o = {
        .opts_size = sizeof(o),
        .flags = unmapped ? SNIC_NVMEFSLINK_UNMAPPED : 0,
        .engine = {.opts_size = sizeof(o.engine),
                   .queues_max = k->queues,
                   .depth_max = depth < 2 ? 2 : depth,
                   .chunk_bytes = chunk,
                   .chunks = per * k->in_flight < 16 ? 16 : per * k->in_flight,
                   .steps = 512,
                   .look_max = 16},
        .request = ours_request,
        .ctx = u,
        .others = {.death = ours_death, .ctx = u}};
    size_t size = snic_nvmefslink_dpu_memsize(&o);
    u->mem = aligned_alloc(SNIC_NVMEFS_ALIGN, snic_align_up(size, SNIC_NVMEFS_ALIGN));
    if (size == 0 || snic_nvmefslink_dpu_init(&u->link, u->mem, size, d, &o) != 0)
        abort();
    return u;
}

static int ours_dpu_over(void *dpu)
{
    struct ours_dpu *u = dpu;
    return u->dead && snic_nvmefslink_dpu_idle(u->link);
}

static void ours_dpu_close(void *dpu)
{
    struct ours_dpu *u = dpu;
    (void)snic_nvmefslink_dpu_fini(u->link);
    free(u->mem);
    free(u);
}

const struct lane lane_nvmefs = {.name = "ours",
                                 .host_open = ours_host_open,
                                 .submit = ours_submit,
                                 .host_end = ours_host_end,
                                 .host_over = ours_host_over,
                                 .host_close = ours_host_close,
                                 .dpu_open = ours_dpu_open,
                                 .dpu_over = ours_dpu_over,
                                 .dpu_close = ours_dpu_close};
