/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The region: made when this session is the only one of the store, offered to the file system's
 * process by a link of its own, released when others come, taken along when that process dies.
 */
#include "snicstore/fscache.h"

#include "fscache/fscache_priv.h"

/* Pauses between tries to make a region. */
#define SNIC_FSCACHE__AGAIN_NS 250000000u
#define SNIC_FSCACHE__AGAIN_LONGEST_NS 60000000000ull
/* How long a successor may refuse the region, and a close may last. */
#define SNIC_FSCACHE__GIVE_UP_NS 30000000000ull
/* How often a close looks at the state. */
#define SNIC_FSCACHE__CLOSE_NS 10000000u

/* ---- The link's events ---- */

static void fscache_region_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct snic_fscache *fc = ctx;

    (void)d;
    if (fc->opts.ops.recv == NULL || !fc->opts.ops.recv(fc->opts.ctx, msg, size))
        snic_hcachelink_host_recv(fc->half, msg, size);
}

static void fscache_region_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    struct snic_fscache *fc = ctx;

    (void)d;
    snic_hcachelink_host_doorbell(fc->half, id);
}

static void fscache_region_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct snic_fscache *fc = ctx;

    (void)d;
    snic_hcachelink_host_death(fc->half, cause);
}

static void fscache_region_opened(void *ctx, struct snic_hcachelink_host *h)
{
    struct snic_fscache *fc = ctx;
    uint64_t epoch;
    size_t size;
    void *region = snic_hcachelink_host_region(h, &size, &epoch);

    if (fc->state == FSCACHE_DEAD) { /* dirty pages go to the store, then all starts over */
        fc->state = FSCACHE_LEAVING;
        fscache_review(fc);
    } else if (fc->state == FSCACHE_OPENING) {
        int rc = snic_hcache_host_attach(&fc->host, region, size, FSCACHE_OWNER, epoch);

        SNIC_ASSERT(rc == 0); /* hcachelink has made the region */
        fc->state = FSCACHE_ON;
        fc->wait_ns = 0;
        fscache_release(fc);
        fscache_pump(fc);
    }
}

static void fscache_region_closed(void *ctx, struct snic_hcachelink_host *h, int reason)
{
    struct snic_fscache *fc = ctx;

    (void)h;
    fscache_abandon_fetches(fc);
    fc->over = 1;
    fc->reason = reason;
    fscache_review(fc);
}

/* ---- Its beginning ---- */

/* A link to the file system's process, for the present half or a new one. */
static int fscache_region_connect(struct snic_fscache *fc)
{
    struct snic_hcachelink_host_opts o;
    struct snic_dma *old = fc->dma;
    struct snic_dma *dma = NULL;
    int rc = fc->opts.ops.connect(fc->opts.ctx, &dma);

    if (rc != 0)
        return rc;
    dma->events = (struct snic_dma_events){fscache_region_recv, fscache_region_bell,
                                           fscache_region_death, fc};
    if (fc->half == NULL) {
        fscache_half_opts(&o, &fc->opts);
        o.events.opened = fscache_region_opened;
        o.events.closed = fscache_region_closed;
        o.events.ctx = fc;
        rc = snic_hcachelink_host_init(&fc->half, fc->half_memory, fc->half_bytes, &o);
        SNIC_ASSERT(rc == 0);
    }
    rc = snic_hcachelink_host_attach(fc->half, dma);
    if (rc != 0) {
        snic_dma_close(dma);
        return rc;
    }
    fc->dma = dma;
    fc->over = 0;
    fc->ending = 0;
    fc->reason = 0;
    if (old != NULL)
        snic_dma_close(old);
    return 0;
}

static void fscache_region_free(struct snic_fscache *fc)
{
    if (fc->half != NULL)
        fc->stats.prefetched_use += snic_hcachelink_host_engine(fc->half)->stats.useful;
    fc->stats.prefetched_use += fc->host.stats.useful;
    memset(&fc->host, 0, sizeof(fc->host));
    if (fc->half != NULL)
        (void)snic_hcachelink_host_fini(fc->half);
    if (fc->dma != NULL)
        snic_dma_close(fc->dma);
    fc->half = NULL;
    fc->dma = NULL;
    fc->over = 0;
    fc->ending = 0;
    if (fc->opts.ops.closed != NULL)
        fc->opts.ops.closed(fc->opts.ctx);
}

static void fscache_region_begin(struct snic_fscache *fc, uint64_t now)
{
    struct snic_fscache_report r = {.kind = SNIC_FSCACHE_UNUSABLE};

    SNIC_ASSERT(fc->half == NULL);
    SNIC_ASSERT(fc->busy == 0);
    fc->wait_ns = fc->wait_ns == 0 ? SNIC_FSCACHE__AGAIN_NS
                                   : snic_min_u64(fc->wait_ns * 2, SNIC_FSCACHE__AGAIN_LONGEST_NS);
    fc->again_ns = now + fc->wait_ns;
    r.error = fscache_region_connect(fc);
    if (r.error == 0) {
        fc->state = FSCACHE_OPENING;
        return;
    }
    fscache_region_free(fc);
    if (r.error != SNIC_ECONNREFUSED && r.error != SNIC_ETIMEDOUT) /* not ready, or just dead */
        fscache_report(fc, &r);
}

/* ---- Its release ---- */

static void fscache_region_unsize(struct snic_fscache *fc, struct snic_fscache__inode *i)
{
    (void)fc;
    i->sized = 0;
    i->timed = 0;
}

/* Nothing is cached any more. */
static void fscache_region_off(struct snic_fscache *fc)
{
    SNIC_ASSERT(fc->busy == 0);
    fscache_region_free(fc);
    fc->state = FSCACHE_OFF;
    fc->stats.regions++;
    fscache_inode_each(fc, fscache_inode_lose); /* what could not be flushed */
    fscache_inode_each(fc, fscache_region_unsize);
    fscache_release(fc);
    fscache_pump(fc);
}

static void fscache_region_sweep(struct snic_fscache *fc, struct snic_fscache__inode *i)
{
    struct snic_fscache_req *req;

    if (!i->dirty && i->due == 0)
        return;
    req = fscache_own(fc, NULL, SNIC_FSOP_FLUSH, i->ino);
    if (req == NULL)
        return; /* the half's end flushes it */
    req->kind = FSCACHE_SWEEP;
    req->wants = SNIC_FSCACHE__WANTS_FLUSH | SNIC_FSCACHE__WANTS_TIMES;
    req->step = FSCACHE_FLUSH;
    req->inode = i;
    fscache_inode_ref(i);
    fc->sweeps++;
    fscache_ready(fc, req);
}

/* Flush each inode once, then end the half. */
static void fscache_region_leave(struct snic_fscache *fc)
{
    SNIC_ASSERT(fc->state == FSCACHE_LEAVING);
    if (fc->busy != 0 || fc->sweeps != 0 || fc->over)
        return;
    if (!fc->ending) {
        fc->ending = 1;
        fscache_inode_each(fc, fscache_region_sweep);
        fscache_pump(fc);
        if (fc->sweeps != 0 || fc->busy != 0)
            return;
    }
    if (fc->ending == 1) {
        fc->ending = 2;
        snic_hcachelink_host_end(fc->half);
    }
}

/* ---- Death of the other process ---- */

static void fscache_region_died(struct snic_fscache *fc)
{
    const struct snic_fscache_report r = {.kind = SNIC_FSCACHE_BROKEN, .error = fc->reason};

    SNIC_ASSERT(fc->over);
    SNIC_ASSERT(fc->busy == 0);
    if (fc->reason != SNIC_EPEERDEAD || fc->stats.dirty_inodes == 0) {
        if (fc->reason != 0 && fc->reason != SNIC_EPEERDEAD)
            fscache_report(fc, &r);
        fscache_region_off(fc);
        return;
    }
    if (fc->state != FSCACHE_DEAD)
        fc->dead_ns = 0;
    fc->died = 1;
    fc->state = FSCACHE_DEAD;
}

/* Offer the region to the next process. */
static void fscache_region_again(struct snic_fscache *fc, uint64_t now)
{
    struct snic_fscache_report r = {.kind = SNIC_FSCACHE_NOT_TAKEN};

    if ((fc->flags & SNIC_FSCACHE_UP) == 0) {
        fc->dead_ns = 0;
        return;
    }
    if (fc->dead_ns == 0)
        fc->dead_ns = now;
    if (!fc->over)
        return;
    r.error = fscache_region_connect(fc);
    if (r.error == 0 || now - fc->dead_ns <= SNIC_FSCACHE__GIVE_UP_NS)
        return;
    fscache_report(fc, &r);
    fscache_region_off(fc);
}

void fscache_region_abandon(struct snic_fscache *fc)
{
    if (fc->state == FSCACHE_DEAD && fc->over)
        fscache_region_off(fc);
}

/* ---- The state ---- */

void fscache_region_review(struct snic_loop_msg *msg)
{
    struct snic_fscache *fc = SNIC_CONTAINER(msg, struct snic_fscache, review);

    fc->reviewing = 0;
    if (fc->half == NULL)
        return;
    if (fc->over && (fc->state != FSCACHE_DEAD || fc->reason != SNIC_EPEERDEAD)) {
        if (fc->busy == 0 && fc->sweeps == 0)
            fscache_region_died(fc);
        return;
    }
    if (fc->state == FSCACHE_ON && fc->reason != 0) /* pages that may be old: fscache_dropped() */
        fc->state = FSCACHE_LEAVING;
    if (fc->state == FSCACHE_LEAVING)
        fscache_region_leave(fc);
}

void fscache_region_update(struct snic_fscache *fc)
{
    uint64_t now = snic_loop_now(fc->loop);
    uint32_t usable = SNIC_FSCACHE_ALONE | SNIC_FSCACHE_UP;
    int leave = (fc->flags & SNIC_FSCACHE_ALONE) == 0 || fc->closing;

    switch (fc->state) {
    case FSCACHE_OFF:
        if (!leave && (fc->flags & usable) == usable && now >= fc->again_ns)
            fscache_region_begin(fc, now);
        break;
    case FSCACHE_OPENING:
    case FSCACHE_ON:
        if (leave) {
            fc->state = FSCACHE_LEAVING;
            fscache_review(fc);
        }
        break;
    case FSCACHE_DEAD:
        fscache_region_again(fc, now);
        break;
    case FSCACHE_LEAVING:
    default:
        break;
    }
    fscache_pump(fc);
}

static void fscache_region_forsake(struct snic_fscache *fc, struct snic_fscache__inode *i)
{
    i->opens = 0;
    fscache_inode_lose(fc, i);
    fscache_inode_due(fc, i, 0);
    i->reported = 1;
}

void fscache_region_close(struct snic_fscache *fc)
{
    uint64_t now = snic_loop_now(fc->loop);
    uint64_t until = now + SNIC_FSCACHE__GIVE_UP_NS;
    uint64_t update = now;

    fc->closing = 1;
    for (; (fc->state != FSCACHE_OFF || fc->own != 0) && now < until;
         now = snic_loop_now(fc->loop)) {
        if (now >= update) { /* each makes a message: more of them would keep others from running */
            fscache_region_update(fc);
            update = now + SNIC_FSCACHE__CLOSE_NS;
        }
        (void)snic_loop_once(fc->loop, SNIC_FSCACHE__CLOSE_NS);
    }
    if (fc->half != NULL && !fc->over)
        snic_hcachelink_host_death(fc->half, SNIC_DMA_DEATH_CLOSED); /* no request waits for it */
    while (fc->half != NULL && !fc->over)
        (void)snic_loop_once(fc->loop, 1000000u);
    fscache_inode_each(fc, fscache_region_forsake);
    if (fc->half != NULL)
        fscache_region_free(fc);
    while (fc->reviewing)
        (void)snic_loop_once(fc->loop, 1000000u);
    fc->state = FSCACHE_OFF;
}
