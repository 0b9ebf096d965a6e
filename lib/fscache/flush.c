/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the file system does not have, to the file system: dirty pages by hcachelink's flush, times
 * by a SETATTR. What becomes of pages that the store refuses (FC6).
 */
#include "snicstore/fscache.h"

#include "fscache/fscache_priv.h"

/* ---- Dirty pages ---- */

static void fscache_flush_report(struct snic_fscache *fc, const struct snic_fscache__inode *i,
                                 int32_t error)
{
    uint64_t now = snic_loop_now(fc->loop);
    struct snic_fscache_report r = {.kind = SNIC_FSCACHE_REFUSED, .error = error, .ino = i->ino};

    fc->stats.flush_errors++;
    if (fc->reported_ns != 0 && now - fc->reported_ns < SNIC_FSCACHE__REPORT_NS)
        return;
    r.count = fc->stats.flush_errors - fc->reported_errors;
    fscache_report(fc, &r);
    fc->reported_errors = fc->stats.flush_errors;
    fc->reported_ns = now;
}

/* FC6 */
static void fscache_flush_refused(struct snic_fscache *fc, struct snic_fscache__inode *i,
                                  int32_t error)
{
    uint64_t now = snic_loop_now(fc->loop);

    fscache_flush_report(fc, i, error);
    i->refused = error;
    i->refused_ns = now + SNIC_FSCACHE__REFUSED_NS;
    if (error != SNIC_ENOSPC || now < fc->full_ns)
        return;
    fc->full_wait = fc->full_wait == 0
                        ? SNIC_FSCACHE__FULL_NS
                        : snic_min_u64(2 * fc->full_wait, SNIC_FSCACHE__FULL_LONGEST_NS);
    fc->full_ns = now + fc->full_wait;
}

static void fscache_flush_accepted(struct snic_fscache *fc, const struct snic_fscache_req *req,
                                   struct snic_fscache__inode *i)
{
    SNIC_ASSERT(i->dirty);
    fscache_inode_flushed(fc, i, req->unflushed, req->unflushed_pages);
    i->refused_ns = 0;
    if (snic_loop_now(fc->loop) >= fc->full_ns)
        fc->full_wait = 0;
    if (i->writes == req->writes) /* FC4 */
        fscache_inode_dirty(fc, i, 0);
}

/* It frees space: a full store is no reason to refuse it. */
static int fscache_shrinks(const struct snic_fscache_req *req, const struct snic_fscache__inode *i)
{
    const struct snic_fsop *r = req->k;

    if (req->kind != FSCACHE_CHANGE)
        return 0;
    if (r->kind == SNIC_FSOP_FALLOCATE)
        return (r->flags & SNIC_FSOP_FALLOC_PUNCH) != 0;
    return r->kind == SNIC_FSOP_SETATTR && i->sized && r->attr.size < i->size;
}

/* A flush failed a moment ago, and this request needs it no more than that one did. */
static int fscache_flush_hopeless(const struct snic_fscache *fc, const struct snic_fscache_req *req,
                                  const struct snic_fscache__inode *i)
{
    return (req->wants & (SNIC_FSCACHE__WANTS_ERROR | SNIC_FSCACHE__WANTS_ZERO)) == 0 &&
           req->kind != FSCACHE_SWEEP && !fscache_shrinks(req, i) &&
           snic_loop_now(fc->loop) < i->refused_ns;
}

int fscache_flush(struct snic_fscache *fc, struct snic_fscache_req *req,
                  struct snic_fscache__inode *i, enum fscache_step flushing, enum fscache_step next)
{
    if ((req->wants & SNIC_FSCACHE__WANTS_FLUSH) == 0 || i == NULL || !i->dirty) {
        req->step = (uint8_t)next;
        return 1;
    }
    if (fc->state != FSCACHE_ON && req->kind != FSCACHE_SWEEP) {
        fscache_hold(fc, req);
        return 0;
    }
    if (fscache_flush_hopeless(fc, req, i)) {
        req->error = i->refused;
        req->step = (uint8_t)next;
        return 1;
    }
    req->writes = i->writes;
    req->unflushed = i->unflushed;
    req->unflushed_pages = i->unflushed_pages;
    return fscache_pages_submit(fc, req, SNIC_HCACHELINK_FLUSH, i->ino, flushing);
}

int fscache_flushed(struct snic_fscache *fc, struct snic_fscache_req *req,
                    struct snic_fscache__inode *i, enum fscache_step next)
{
    int64_t result = req->pages.result;

    if (fscache_gone(result)) {
        if (req->kind != FSCACHE_SWEEP) {
            fscache_hold(fc, req);
            return 0;
        }
        req->step = FSCACHE_END;
        return 1;
    }
    req->step = (uint8_t)next;
    if (result < 0) {
        req->error = (int32_t)result;
        fscache_flush_refused(fc, i, (int32_t)result);
    } else if (i->dirty) {
        fscache_flush_accepted(fc, req, i);
    }
    return 1;
}

/* ---- Pages that could not be flushed ---- */

/* They are dropped if the request discards the bytes anyway, reports the error, is the sweep of a
   region that is released, or frees space in a full store; else they are kept. */
int fscache_forget(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    int goes = (req->wants & (SNIC_FSCACHE__WANTS_ZERO | SNIC_FSCACHE__WANTS_ERROR)) != 0 ||
               req->kind == FSCACHE_SWEEP ||
               (req->error == SNIC_ENOSPC && fscache_shrinks(req, req->inode));

    if (req->error == 0 || !goes) {
        req->step = FSCACHE_TIMES;
        return 1;
    }
    req->pages.offset = 0;
    req->pages.length = 0;
    return fscache_pages_submit(fc, req, SNIC_HCACHELINK_DROP, req->inode->ino, FSCACHE_FORGETTING);
}

int fscache_forgot(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;

    if (fscache_gone(req->pages.result) && req->kind != FSCACHE_SWEEP) {
        fscache_hold(fc, req);
        return 0;
    }
    req->step = FSCACHE_TIMES;
    if (req->pages.result == 0 && (req->wants & SNIC_FSCACHE__WANTS_ZERO) == 0) {
        fscache_inode_fail(fc, i, req->error);
        if (req->k->kind != SNIC_FSOP_RELEASE && req->kind != FSCACHE_SWEEP)
            fc->opts.ops.invalid(fc->opts.ctx, i->ino);
    } else if (req->pages.result == 0) {
        fscache_inode_dirty(fc, i, 0);
    }
    if ((req->wants & SNIC_FSCACHE__WANTS_ERROR) == 0)
        req->error = 0;
    return 1;
}

/* ---- Times ---- */

static void fscache_times_home(struct snic_fscache_req *own)
{
    struct snic_fscache *fc = own->cache;
    struct snic_fscache__inode *i = own->owner->inode;

    if (i->touched == own->changes)
        fscache_inode_due(fc, i, 0);
    fscache_own_home(fc, own);
}

int fscache_times(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;
    struct snic_fscache_req *own;

    req->step = req->kind == FSCACHE_SWEEP ? FSCACHE_END : FSCACHE_GO;
    if ((req->wants & SNIC_FSCACHE__WANTS_TIMES) == 0 || i->due == 0)
        return 1;
    own = fscache_own(fc, req, SNIC_FSOP_SETATTR, i->ino);
    if (own == NULL)
        return 1; /* the next request sends them */
    own->k->set_mask = i->due | SNIC_FSOP_SET_CTIME;
    own->k->attr.atime = i->atime;
    own->k->attr.mtime = i->mtime;
    own->k->attr.ctime = i->ctime;
    own->changes = i->touched;
    fscache_forward(own, fscache_times_home);
    return 0;
}
