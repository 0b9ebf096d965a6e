/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The host's half: its memory, its region, and what its user calls. */
#include "snicstore/hcachelink.h"

#include "hcachelink/host_priv.h"

/** All options, defaults filled in. Which one is wrong, and how; NULL: none. */
static const char *hcachelink_host_opts_fill(struct snic_hcachelink_host_opts *o,
                                             const struct snic_hcachelink_host_opts *in)
{
    *o = (struct snic_hcachelink_host_opts){.opts_size = sizeof(*o)};
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->cache.page_bytes == 0)
        o->cache.page_bytes = 4096;
    o->requests_max = o->requests_max != 0 ? o->requests_max : SNIC_HCACHELINK__TASKS_MAX;
    o->timeout_ns = o->timeout_ns != 0 ? o->timeout_ns : UINT64_C(30000000000);
    o->retry_ns = o->retry_ns != 0 ? o->retry_ns : 500000;
    o->timeout_ns = snic_min_u64(o->timeout_ns, SNIC_HCACHELINK__TIME_MAX);
    o->retry_ns = snic_min_u64(o->retry_ns, SNIC_HCACHELINK__TIME_MAX);
    if ((o->flags & ~SNIC_HCACHELINK_SHARED) != 0)
        return "flags: unknown bits";
    if (o->bell >= SNIC_DMA_DOORBELLS)
        return "bell: not below SNIC_DMA_DOORBELLS";
    if (o->requests_max < 2 || o->requests_max > SNIC_HCACHELINK__TASKS_MAX)
        return "requests_max: not 2..64";
    return snic_hcache_opts_wrong(&o->cache);
}

const char *snic_hcachelink_host_opts_wrong(const struct snic_hcachelink_host_opts *o)
{
    struct snic_hcachelink_host_opts full;
    return hcachelink_host_opts_fill(&full, o);
}

size_t snic_hcachelink_host_memsize(const struct snic_hcachelink_host_opts *o)
{
    return snic_hcachelink_host_opts_wrong(o) != NULL ? 0 : sizeof(struct snic_hcachelink_host);
}

int snic_hcachelink_host_init(struct snic_hcachelink_host **out, void *mem, size_t size,
                              const struct snic_hcachelink_host_opts *o)
{
    struct snic_hcachelink_host_opts copy;
    struct snic_hcachelink_host *h = mem;
    if (hcachelink_host_opts_fill(&copy, o) != NULL || (uintptr_t)mem % 16 != 0)
        return SNIC_EINVAL;
    if (size < sizeof(*h))
        return SNIC_ENOSPC;
    memset(h, 0, sizeof(*h));
    h->opts = copy;
    h->page_shift = (uint32_t)__builtin_ctz(copy.cache.page_bytes);
    snic_timer_init(&h->retry, hcachelink_host_retry);
    snic_timer_init(&h->tick, hcachelink_host_tick);
    snic_loop_poller_init(&h->poller, hcachelink_host_poll);
    *out = h;
    return 0;
}

/* ---- The region ---- */

static void hcachelink_region_drop(struct snic_hcachelink_host *h)
{
    if (h->region != NULL)
        snic_dma_release(h->dma, h->block);
    h->region = NULL;
}

/** Content for the new region @p mem: the dead link's, or none. */
static int hcachelink_region_fill(struct snic_hcachelink_host *h, void *mem, size_t size)
{
    int r;
    if (h->region == NULL || (h->reason != SNIC_EPEERDEAD && !h->keep)) {
        r = snic_hcache_init(mem, size, &h->opts.cache);
        if (r == 0)
            memcpy(h->header, mem, sizeof(h->header));
        return r;
    }
    memcpy(mem, h->region, size);
    memcpy(mem, h->header, sizeof(h->header)); /* the dead DPU may have written there */
    r = snic_hcache_recover(mem, size, SNIC_HCACHE_DPU);
    if (r >= 0) /* no page is held: what looks like it was written by the DPU */
        r = snic_hcache_recover(mem, size, SNIC_HCACHE_HOST);
    if (r >= 0)
        h->stats.moved++;
    return r < 0 ? snic_hcache_init(mem, size, &h->opts.cache) : 0;
}

static void hcachelink_host_on_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    (void)d;
    snic_hcachelink_host_recv(ctx, msg, size);
}

static void hcachelink_host_on_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    (void)d;
    snic_hcachelink_host_doorbell(ctx, id);
}

static void hcachelink_host_on_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    (void)d;
    snic_hcachelink_host_death(ctx, cause);
}

/** The new link is ours. */
static void hcachelink_host_take(struct snic_hcachelink_host *h)
{
    if ((h->opts.flags & SNIC_HCACHELINK_SHARED) == 0)
        h->dma->events = (struct snic_dma_events){hcachelink_host_on_recv, hcachelink_host_on_bell,
                                                  hcachelink_host_on_death, h};
    snic_loop_poller_add(h->dma->loop, &h->poller);
    hcachelink_host_send_all(h);
    hcachelink_host_kick(h);
}

int snic_hcachelink_host_attach(struct snic_hcachelink_host *h, struct snic_dma *d)
{
    size_t size = snic_hcache_memsize(&h->opts.cache);
    size_t align = snic_max_u64(h->opts.cache.page_bytes, SNIC_HCACHE_ALIGN);
    struct snic_hcache_host host;
    void *block = NULL;
    void *mem;
    uint64_t key = 0;
    int r;
    if ((h->state != HCACHELINK_NONE && h->state != HCACHELINK_OVER) || h->closed_due)
        return SNIC_EBUSY;
    if (d->dead)
        return SNIC_EPEERDEAD;
    r = snic_dma_alloc(d, size + align, &block);
    if (r != 0)
        return r;
    mem = (unsigned char *)block + (align - (uintptr_t)block % align) % align;
    r = hcachelink_region_fill(h, mem, size);
    if (r == 0)
        r = snic_hcache_host_attach(&host, mem, size, 1, 1);
    if (r == 0)
        r = snic_dma_register(
            d, mem, size, SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE | SNIC_DMA_RIGHT_ATOMIC, &key);
    if (r != 0) {
        snic_dma_release(d, block);
        return r;
    }
    SNIC_ASSERT(hcachelink_host_quiet(h) && snic_queue_empty(&h->waiting)); /* L4 */
    hcachelink_region_drop(h);
    if (h->dma != NULL) {
        snic_loop_poller_remove(h->dma->loop, &h->poller);
        if ((h->opts.flags & SNIC_HCACHELINK_SHARED) == 0)
            h->dma->events = (struct snic_dma_events){NULL, NULL, NULL, NULL};
    }
    host.stats = h->host.stats;
    h->host = host;
    h->dma = d;
    h->block = block;
    h->region = mem;
    h->region_bytes = size;
    h->key = key;
    h->epoch++;
    h->credit = 0;
    h->reason = 0;
    h->refused = 0;
    h->keep = 0;
    h->opened_due = 0;
    h->state = HCACHELINK_OPENING;
    h->since_ns = snic_loop_now(d->loop);
    h->sim = snic_loop_world(d->loop) != NULL;
    h->msg_due = HCACHELINK_REGION;
    hcachelink_host_take(h);
    return 0;
}

void *snic_hcachelink_host_fini(struct snic_hcachelink_host *h)
{
    SNIC_ASSERT((h->state == HCACHELINK_NONE || h->state == HCACHELINK_OVER) && !h->closed_due &&
                snic_queue_empty(&h->finished));
    if (h->dma != NULL) {
        snic_loop_poller_remove(h->dma->loop, &h->poller);
        hcachelink_region_drop(h);
        if ((h->opts.flags & SNIC_HCACHELINK_SHARED) == 0)
            h->dma->events = (struct snic_dma_events){NULL, NULL, NULL, NULL};
    }
    return h;
}

/* ---- Requests ---- */

int snic_hcachelink_submit(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req)
{
    SNIC_ASSERT(req->done != NULL);
    int r = hcachelink_req_check(h, req);
    if (r != 0)
        return r;
    if ((h->state != HCACHELINK_OPENING && h->state != HCACHELINK_OPEN) || h->ending)
        return SNIC_EPIPE;
    memset(&req->page, 0, sizeof(req->page));
    req->at = 0;
    req->since_ns = 0;
    req->step = HCACHELINK_GO;
    req->slot = SNIC_HCACHELINK__NO_SLOT;
    r = hcachelink_req_run(h, req);
    if (r == 0 || !snic_queue_empty(&h->waiting)) {
        hcachelink_host_send_all(h);
        hcachelink_host_kick(h);
    }
    return r;
}

static void hcachelink_host_posted(struct snic_loop_msg *msg)
{
    struct snic_hcachelink_req *req = SNIC_CONTAINER(msg, struct snic_hcachelink_req, msg);
    int r = snic_hcachelink_submit(req->host, req);
    if (r < 0)
        req->result = r;
    if (r != 0)
        req->done(req);
}

void snic_hcachelink_post(struct snic_hcachelink_host *h, struct snic_loop *l,
                          struct snic_hcachelink_req *req)
{
    SNIC_ASSERT(req->done != NULL);
    req->host = h;
    req->msg.fn = hcachelink_host_posted;
    snic_loop_post(l, &req->msg);
}

void *snic_hcachelink_host_region(struct snic_hcachelink_host *h, size_t *size, uint64_t *epoch)
{
    *size = h->region_bytes;
    *epoch = 1;
    return h->region;
}

const struct snic_hcache_host *snic_hcachelink_host_engine(const struct snic_hcachelink_host *h)
{
    return &h->host;
}

int snic_hcachelink_refused(const struct snic_hcachelink_host *h)
{
    return h->refused;
}

void snic_hcachelink_host_get_stats(const struct snic_hcachelink_host *h,
                                    struct snic_hcachelink_host_stats *out)
{
    *out = h->stats;
}

int snic_hcachelink_host_check(const struct snic_hcachelink_host *h)
{
    uint32_t taken = 0;
    uint32_t fsyncs = 0;
    for (uint32_t i = 0; i < SNIC_HCACHELINK__TASKS_MAX; i++) {
        const struct snic_hcachelink_req *req = h->slots[i].req;
        if (req == NULL)
            continue;
        taken++;
        fsyncs += req->step == HCACHELINK_FSYNC;
        if (req->slot != i || (req->step == HCACHELINK_READ && req->page.held == 0))
            return SNIC_ECORRUPT; /* L2 */
    }
    if (taken != h->taken || fsyncs != h->fsyncs || (fsyncs != 0 && fsyncs + 1 > h->credit))
        return SNIC_ECORRUPT;
    for (const struct snic_node *n = h->waiting.first; n != NULL; n = n->next) {
        const struct snic_hcachelink_req *req =
            SNIC_CONTAINER(n, const struct snic_hcachelink_req, node);
        if (req->page.held != 0 && req->op != SNIC_HCACHELINK_TRUNCATE)
            return SNIC_ECORRUPT; /* L1 */
    }
    if (h->state == HCACHELINK_OVER && !(hcachelink_host_quiet(h) && snic_queue_empty(&h->waiting)))
        return SNIC_ECORRUPT; /* L4 */
    return 0;
}
