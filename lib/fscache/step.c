/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The steps of a request: wait for requests before it, get the size, flush what is dirty, send
 * times to the file system, use pages or forward it, drop or fill the pages of its range, end.
 * fscache_run() resumes at req->step; the event that a request waits for makes it ready.
 */
#include "snicstore/fscache.h"

#include "fscache/fscache_priv.h"
#include "snicstore/kvfs.h"

/* ---- Size ---- */

/* FC3: is the answer to a request that was sent at @p changes still valid? */
static int fscache_size_valid(const struct snic_fscache *fc, const struct snic_fscache__inode *i,
                              uint64_t changes)
{
    return fc->state == FSCACHE_ON && !i->dirty && i->changes == changes && !fscache_changing(i);
}

static void fscache_size_home(struct snic_fscache_req *own)
{
    struct snic_fscache_req *req = own->owner;
    struct snic_fscache *fc = own->cache;

    if (own->k->result < 0) {
        req->k->result = own->k->result;
        req->step = FSCACHE_END;
    } else if (fscache_size_valid(fc, req->inode, own->changes)) {
        fscache_inode_learn(req->inode, &own->k->attr);
    }
    fscache_own_home(fc, own);
}

/* A READ for which no page is to be filled. */
static void fscache_read_forward(struct snic_fscache_req *req)
{
    req->forward = 1;
    req->wants = SNIC_FSCACHE__WANTS_FLUSH;
    req->step = FSCACHE_FLUSH;
}

/* @return 1: the step has ended; 0: later, at the same step */
static int fscache_size(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;
    struct snic_fscache_req *own;

    if ((req->wants & SNIC_FSCACHE__WANTS_SIZE) == 0 || i->sized || fc->state != FSCACHE_ON) {
        req->step = FSCACHE_FLUSH;
        return 1;
    }
    if (fscache_changing(i)) { /* the answer could be outdated on arrival */
        fscache_read_forward(req);
        return 1;
    }
    own = fscache_own(fc, req, SNIC_FSOP_GETATTR, i->ino);
    if (own == NULL) {
        req->k->result = SNIC_ENOMEM;
        req->step = FSCACHE_END;
        return 1;
    }
    own->changes = i->changes;
    fscache_forward(own, fscache_size_home);
    return 0;
}

/* ---- The end ---- */

/* An FSYNC reports each loss once; a FLUSH (close) reports it until an FSYNC has, since it may be
   that of a process that ends and ignores the result. */
static void fscache_report_loss(struct snic_fscache *fc, struct snic_fscache_req *req,
                                struct snic_fscache__inode *i)
{
    struct snic_fscache_handle *h = fc->opts.ops.handle(fc->opts.ctx, req->k->handle);
    int news = h == NULL ? !i->reported && i->losses != 0 : h->losses != i->losses;

    if (req->k->result == 0)
        req->k->result = req->error != 0 ? req->error : news ? i->error : 0;
    if (req->k->result >= 0)
        return;
    i->reported = 1;
    if (h != NULL && req->k->kind == SNIC_FSOP_FSYNC)
        h->losses = i->losses;
}

static void fscache_end(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;
    struct snic_fsop *r = req->k;

    SNIC_ASSERT(req->home == NULL);
    if ((req->wants & SNIC_FSCACHE__WANTS_ERROR) != 0 && i != NULL && r->kind != SNIC_FSOP_RELEASE)
        fscache_report_loss(fc, req, i);
    if (req->written != 0) /* a WRITE whose rest was forwarded, or failed there */
        r->result = (int64_t)req->written + (r->result > 0 ? r->result : 0);
    fscache_detach(fc, req);
    if (req->kind == FSCACHE_SWEEP) {
        fc->sweeps--;
        fscache_own_end(fc, req);
        fscache_review(fc);
        return;
    }
    req->done(req);
}

/* ---- By the file system ---- */

/* What the answer means for the size. */
static void fscache_changed(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;
    struct snic_fscache__inode *i = req->inode;
    uint64_t end = 0;

    i->timed = 0;
    switch (r->kind) {
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_SETATTR:
        if (r->result == 0 && fc->state == FSCACHE_ON)
            fscache_inode_learn(i, &r->attr);
        else
            i->sized = 0;
        return;
    case SNIC_FSOP_WRITE:
        end = ((r->flags & SNIC_FSOP_APPEND) != 0 ? i->size : r->offset) + r->length;
        break;
    case SNIC_FSOP_COPY:
        end = r->offset2 + (r->result > 0 ? (uint64_t)r->result : 0);
        break;
    default:
        end = (r->flags & SNIC_FSOP_FALLOC_KEEP_SIZE) != 0 ? 0 : r->offset + r->length;
        break;
    }
    if (r->result < 0 || (r->kind == SNIC_FSOP_WRITE && r->result != (int64_t)r->length))
        i->sized = i->dirty && i->sized; /* how much was done is unknown */
    else
        i->size = snic_max_u64(i->size, end);
    if (r->kind == SNIC_FSOP_WRITE && r->result > 0) { /* it has set them itself */
        fscache_inode_due(fc, i, i->due & SNIC_FSOP_SET_ATIME);
        i->touched++;
    }
}

static void fscache_opened(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;
    struct snic_fscache__inode *i = req->inode;
    struct snic_fscache_handle *h;

    if (r->result != 0)
        return;
    if (r->kind == SNIC_FSOP_CREATE) {
        i = fscache_inode_get(fc, r->attr.ino);
        if (i == NULL)
            return;
        if (i->opens != 0 || i->refs != 0) { /* the file existed */
            i->changes++;
            i->sized = i->sized && i->dirty;
        } else if (fc->state == FSCACHE_ON && !i->dirty) {
            fscache_inode_learn(i, &r->attr);
        }
    } else if (req->kind != FSCACHE_CHANGE && fscache_size_valid(fc, i, req->changes)) {
        fscache_inode_learn(i, &r->attr);
    }
    i->opens++;
    h = fc->opts.ops.handle(fc->opts.ctx, r->handle);
    if (h != NULL) /* a loss that was not reported yet counts, too */
        h->losses = i->losses - (i->losses != 0 && !i->reported);
}

static void fscache_home(struct snic_fscache_req *req);

/* Attributes that were read before the last sizes came from a region that is gone since: they are
   read again, since the cache has no newer sizes for them any more. */
static int fscache_overtaken(const struct snic_fscache *fc, struct snic_fscache_req *req)
{
    uint32_t kind = req->k->kind;

    if (req->regions == fc->stats.regions ||
        (kind != SNIC_FSOP_GETATTR && kind != SNIC_FSOP_LOOKUP && kind != SNIC_FSOP_READDIR))
        return 0;
    req->regions = fc->stats.regions;
    fscache_forward(req, fscache_home);
    return 1;
}

/* The file system's answer. Its data has to be used before this returns. */
static void fscache_home(struct snic_fscache_req *req)
{
    struct snic_fscache *fc = req->cache;
    const struct snic_fsop *r = req->k;

    if (fscache_overtaken(fc, req))
        return;
    if (req->kind == FSCACHE_CHANGE)
        fscache_changed(fc, req);
    if (r->kind == SNIC_FSOP_OPEN || r->kind == SNIC_FSOP_CREATE)
        fscache_opened(fc, req);
    if (r->kind == SNIC_FSOP_SETATTR && r->result == 0 && req->inode != NULL)
        fscache_inode_due(fc, req->inode, req->inode->due & ~r->set_mask);
    if (r->kind == SNIC_FSOP_RELEASE && req->inode != NULL && req->inode->opens > 0)
        req->inode->opens--;
    if (req->kind == FSCACHE_CHANGE && fc->state == FSCACHE_ON) {
        req->step = FSCACHE_DROP;
        fscache_ready(fc, req);
    } else {
        fscache_end(fc, req);
    }
}

/* What is dirty could not be flushed. Can the request do without? A reader finds it in pages. */
static int fscache_bears(struct snic_fscache_req *req)
{
    if (req->kind != FSCACHE_AFTER && req->kind != FSCACHE_READ)
        return 0;
    if (req->kind == FSCACHE_READ) {
        req->forward = !req->inode->sized;
        if (req->forward)
            return 0;
    }
    if ((req->wants & SNIC_FSCACHE__WANTS_ERROR) == 0)
        req->error = 0;
    return 1;
}

/* A READ or WRITE of pages. @return 1: it has ended, or another step is next; 0: later */
static int fscache_go_pages(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    int writing = req->kind == FSCACHE_WRITE && req->paging;

    req->step = FSCACHE_GO;
    if (fc->state != FSCACHE_ON && !writing) {
        fscache_hold(fc, req);
        return 0;
    }
    if (req->kind == FSCACHE_READ && !req->inode->sized) {
        req->step = FSCACHE_SIZE;
        return 1;
    }
    if (req->kind == FSCACHE_WRITE && !req->inode->sized && !writing) {
        fscache_readmit(fc, req); /* what it waited for has made the size unknown */
        return 0;
    }
    return req->kind == FSCACHE_READ ? fscache_read(fc, req) : fscache_write(fc, req);
}

static int fscache_go(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    req->step = FSCACHE_SENT;
    if (req->error != 0 && !fscache_bears(req)) {
        req->k->result = req->error;
        req->step = FSCACHE_END;
        return 1;
    }
    if ((req->kind == FSCACHE_READ && !req->forward) || req->kind == FSCACHE_WRITE)
        return fscache_go_pages(fc, req);
    if (req->kind == FSCACHE_CHANGE || req->k->kind == SNIC_FSOP_READ)
        fc->stats.forwarded++;
    fscache_forward(req, fscache_home);
    return 0;
}

/* ---- Pages of what was changed ---- */

static int fscache_drop(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;
    uint64_t first = req->first;
    uint64_t end = SNIC_KVFS_SIZE_MAX >> FSCACHE_PAGE_SHIFT;

    req->step = FSCACHE_END;
    if (fc->state != FSCACHE_ON)
        return 1;
    if (r->kind == SNIC_FSOP_WRITE && !fscache_patch(fc, req))
        return 1;
    if (r->kind == SNIC_FSOP_SETATTR && r->result == 0)
        first = r->attr.size >> FSCACHE_PAGE_SHIFT;
    if (first > end)
        return 1; /* no page is that far */
    req->pages.offset = first << FSCACHE_PAGE_SHIFT;
    req->pages.length = req->last >= end ? 0 : (req->last - first + 1) << FSCACHE_PAGE_SHIFT;
    return fscache_pages_submit(fc, req, SNIC_HCACHELINK_DROP, req->inode->ino, FSCACHE_DROPPING);
}

static int fscache_dropped(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    int64_t result = req->pages.result;
    const struct snic_fscache_report r = {
        .kind = SNIC_FSCACHE_UNDROPPED, .error = (int32_t)result, .ino = req->inode->ino};

    req->step = FSCACHE_END;
    if (result < 0 && !fscache_gone(result)) { /* a page stays locked: begin with an empty region */
        fscache_report(fc, &r);
        fc->reason = (int)result;
        fscache_review(fc);
    }
    return 1;
}

/* ---- All steps ---- */

static int fscache_begin(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    uint32_t own_pages = SNIC_FSOP_DIRECT | SNIC_FSOP_NOATIME;

    if (!req->active && !fscache_may_begin(req))
        return 0;
    req->active = 1;
    req->step = FSCACHE_SIZE;
    if (req->kind == FSCACHE_READ && fc->state == FSCACHE_ON && (req->k->flags & own_pages) != 0) {
        if (req->inode->sized && fscache_read_cached(fc, req))
            req->step = FSCACHE_END;
        else
            fscache_read_forward(req);
    }
    return 1;
}

/* @return 1: there is another step; 0: the request waits, or has ended */
static int fscache_step(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    switch (req->step) {
    case FSCACHE_BEGIN:
        return fscache_begin(fc, req);
    case FSCACHE_SIZE:
        return fscache_size(fc, req);
    case FSCACHE_FLUSH:
        return fscache_flush(fc, req, req->inode, FSCACHE_FLUSHING, FSCACHE_FLUSH_OTHER);
    case FSCACHE_FLUSHING:
        return fscache_flushed(fc, req, req->inode, FSCACHE_FLUSH_OTHER);
    case FSCACHE_FLUSH_OTHER:
        return fscache_flush(fc, req, req->other, FSCACHE_FLUSHING_OTHER, FSCACHE_FORGET);
    case FSCACHE_FLUSHING_OTHER:
        return fscache_flushed(fc, req, req->other, FSCACHE_FORGET);
    case FSCACHE_FORGET:
        return fscache_forget(fc, req);
    case FSCACHE_FORGETTING:
        return fscache_forgot(fc, req);
    case FSCACHE_TIMES:
        return fscache_times(fc, req);
    case FSCACHE_GO:
    case FSCACHE_PAGES:
        return fscache_go(fc, req);
    case FSCACHE_DROP:
        return fscache_drop(fc, req);
    case FSCACHE_DROPPING:
        return fscache_dropped(fc, req);
    case FSCACHE_END:
        fscache_end(fc, req);
        return 0;
    default: /* FSCACHE_SENT: fscache_home() continues */
        return 0;
    }
}

void fscache_pump(struct snic_fscache *fc)
{
    struct snic_node *n;

    if (fc->pumping)
        return;
    fc->pumping = 1;
    while ((n = snic_queue_pop(&fc->ready)) != NULL) {
        struct snic_fscache_req *req = fscache_req_of(n);

        req->queued = 0;
        while (fscache_step(fc, req)) {
        }
    }
    fc->pumping = 0;
    /* A fetch may have begun between the region's end and its review, too (FC5). */
    if (fc->busy == 0 && (fc->state == FSCACHE_LEAVING || (fc->over && fc->state != FSCACHE_DEAD)))
        fscache_review(fc);
}

void fscache_paged(struct snic_hcachelink_req *pages)
{
    struct snic_fscache_req *req = SNIC_CONTAINER(pages, struct snic_fscache_req, pages);
    struct snic_fscache *fc = req->cache;

    SNIC_ASSERT(fc->busy > 0);
    fc->busy--;
    fscache_ready(fc, req);
    fscache_pump(fc);
}
