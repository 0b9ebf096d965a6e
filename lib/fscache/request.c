/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests: what each of them means for the inode that it is about, which of them exclude each
 * other, and where they wait. A request is in one place: ready, held, in its inode's list without
 * being active, or with what will make it ready: the file system, hcachelink, a request of the
 * cache's own.
 */
#include "snicstore/fscache.h"

#include "fscache/fscache_priv.h"

/* ---- Requests that run, or wait ---- */

void fscache_ready(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    if (req->queued)
        return;
    req->queued = 1;
    snic_queue_push(&fc->ready, &req->node);
}

void fscache_readmit(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    fscache_detach(fc, req);
    fscache_admit(fc, req);
}

/* What has been held begins again: the region may be gone. */
static void fscache_restart(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    if (req->step < FSCACHE_SENT)
        fscache_readmit(fc, req);
    else
        fscache_ready(fc, req);
}

void fscache_hold(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    SNIC_ASSERT(!req->queued);
    if (fc->state == FSCACHE_OFF) { /* the change that it would wait for has happened */
        fscache_restart(fc, req);
        return;
    }
    req->queued = 1;
    snic_queue_push(&fc->held, &req->node);
}

void fscache_release(struct snic_fscache *fc)
{
    struct snic_queue now = fc->held;
    struct snic_node *n;

    fc->held = (struct snic_queue){NULL, NULL};
    while ((n = snic_queue_pop(&now)) != NULL) {
        struct snic_fscache_req *req = fscache_req_of(n);

        req->queued = 0;
        if (fc->died && fc->opts.ops.by_name(fc->opts.ctx, req->k)) {
            req->k->result = SNIC_ESTALE;
            req->step = FSCACHE_END;
            fscache_ready(fc, req);
        } else {
            fscache_restart(fc, req);
        }
    }
    fc->died = 0;
}

void fscache_review(struct snic_fscache *fc)
{
    if (fc->reviewing)
        return;
    fc->reviewing = 1;
    snic_loop_defer(fc->loop, &fc->review);
}

/* ---- Ranges ---- */

static int fscache_ranged(const struct snic_fscache_req *req)
{
    return req->kind == FSCACHE_READ || req->kind == FSCACHE_WRITE || req->kind == FSCACHE_CHANGE;
}

static int fscache_conflict(const struct snic_fscache_req *a, const struct snic_fscache_req *b)
{
    if (a->kind == FSCACHE_WRITE && b->kind == FSCACHE_WRITE)
        return 1; /* one after the other: each knows where the file ends */
    return (a->kind == FSCACHE_CHANGE || b->kind == FSCACHE_CHANGE) && a->first <= b->last &&
           b->first <= a->last;
}

static struct snic_fscache_req *fscache_of(struct snic_link *l)
{
    return SNIC_CONTAINER(l, struct snic_fscache_req, link);
}

int fscache_may_begin(const struct snic_fscache_req *req)
{
    struct snic_link *head = &req->inode->reqs;
    int behind = 0; /* requests behind it may be active: fscache_divert() */

    for (struct snic_link *l = head->next; l != head; l = l->next) {
        if (l == &req->link)
            behind = 1;
        else if ((!behind || fscache_of(l)->active) && fscache_conflict(fscache_of(l), req))
            return 0;
    }
    return 1;
}

int fscache_changing(const struct snic_fscache__inode *i)
{
    for (struct snic_link *l = i->reqs.next; l != &i->reqs; l = l->next)
        if (fscache_of(l)->kind == FSCACHE_CHANGE)
            return 1;
    return 0;
}

static void fscache_attach(struct snic_fscache_req *req, struct snic_fscache__inode *i)
{
    SNIC_ASSERT(req->inode == NULL);
    req->inode = i;
    fscache_inode_ref(i);
    req->changes = i->changes;
    if (fscache_ranged(req))
        snic_link_append(&i->reqs, &req->link);
    else
        req->active = 1;
    if (req->kind == FSCACHE_CHANGE)
        i->changes++;
}

void fscache_detach(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;

    if (req->other != NULL)
        fscache_inode_unref(fc, req->other);
    req->other = NULL;
    if (i == NULL)
        return;
    if (req->kind == FSCACHE_CHANGE)
        i->changes++;
    if (fscache_ranged(req)) {
        snic_link_remove(&req->link);
        for (struct snic_link *l = i->reqs.next; l != &i->reqs; l = l->next) {
            struct snic_fscache_req *next = fscache_of(l);

            if (!next->active && fscache_may_begin(next))
                fscache_ready(fc, next);
        }
    }
    req->inode = NULL;
    req->active = 0;
    fscache_inode_unref(fc, i);
}

/* ---- How full the region is ---- */

int fscache_full(const struct snic_fscache *fc)
{
    return snic_loop_now(fc->loop) < fc->full_ns ||
           (fc->half != NULL && snic_hcachelink_refused(fc->half) == SNIC_ENOSPC);
}

/* Half of the pages are dirty. The estimate counts pages that the DPU has flushed since, so a
   high one is replaced by a count. */
static int fscache_half_dirty(struct snic_fscache *fc)
{
    uint64_t half = fc->pages_max >> 1;
    uint64_t now = snic_loop_now(fc->loop);

    if (fc->unflushed_pages < half)
        return 0;
    if (fc->counted_ns == 0 || now - fc->counted_ns >= SNIC_FSCACHE__COUNT_NS) {
        fc->counted = snic_hcache_dirty(&fc->host);
        fc->counted_ns = now;
    }
    return fc->counted >= half;
}

/* Much is dirty: the writer waits until it is flushed, and fails if it cannot be. */
static int fscache_crowded(const struct snic_fscache *fc, const struct snic_fscache__inode *i)
{
    return i->unflushed_pages >= fc->pages_max / 4 ||
           (fc->unflushed_pages >= fc->pages_max / 2 && i->dirty);
}

/* ---- What a request is ---- */

static void fscache_is(struct snic_fscache_req *req, enum fscache_kind kind, uint32_t wants,
                       uint64_t from, uint64_t bytes)
{
    uint64_t to = bytes == 0 || from + bytes < from ? UINT64_MAX : from + bytes - 1;

    req->kind = (uint8_t)kind;
    req->wants = (uint8_t)wants;
    req->first = from >> FSCACHE_PAGE_SHIFT;
    req->last = to >> FSCACHE_PAGE_SHIFT;
}

static int fscache_to_pages(struct snic_fscache *fc, const struct snic_fsop *r,
                            const struct snic_fscache__inode *i)
{
    uint32_t not_pages = SNIC_FSOP_DIRECT | SNIC_FSOP_SYNC | SNIC_FSOP_KILL_PRIV;

    return fscache_has(fc, SNIC_FSCACHE_WRITE_BACK) && fc->state == FSCACHE_ON &&
           (r->flags & not_pages) == 0 && !fscache_full(fc) &&
           (i->dirty || !fscache_half_dirty(fc)) && r->length > 0 &&
           r->offset <= SNIC_FSCACHE__END_MAX - r->length && i->sized &&
           ((r->flags & SNIC_FSOP_APPEND) == 0 || i->size <= SNIC_FSCACHE__END_MAX - r->length);
}

static void fscache_is_write(struct snic_fscache *fc, struct snic_fscache_req *req,
                             const struct snic_fscache__inode *i)
{
    const struct snic_fsop *r = req->k;
    int append = (r->flags & SNIC_FSOP_APPEND) != 0; /* anywhere */
    int pages = fscache_to_pages(fc, r, i);

    fscache_is(req, pages ? FSCACHE_WRITE : FSCACHE_CHANGE,
               !pages || fscache_crowded(fc, i) ? SNIC_FSCACHE__WANTS_FLUSH : 0,
               append ? 0 : r->offset, append ? 0 : r->length);
}

static void fscache_is_read(const struct snic_fscache *fc, struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;

    if (fc->state != FSCACHE_OFF && fc->state != FSCACHE_OPENING && r->length > 0 &&
        r->offset <= SNIC_FSCACHE__END_MAX)
        fscache_is(req, FSCACHE_READ, SNIC_FSCACHE__WANTS_SIZE, r->offset, r->length);
    else
        fscache_is(req, FSCACHE_AFTER, SNIC_FSCACHE__WANTS_FLUSH, 0, 0);
}

static int fscache_may_write(const struct snic_fscache *fc, const struct snic_fsop *r)
{
    const struct snic_fscache_handle *h = fc->opts.ops.handle(fc->opts.ctx, r->handle);

    return h == NULL || !h->read_only;
}

/* What a request does to the bytes of an inode, if anything. @return it; 0: none */
static uint64_t fscache_about(const struct snic_fscache *fc, struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;
    uint32_t all = SNIC_FSCACHE__WANTS_FLUSH | SNIC_FSCACHE__WANTS_TIMES;

    switch (r->kind) {
    case SNIC_FSOP_OPEN:
        if ((r->flags & SNIC_FSOP_TRUNC) != 0)
            fscache_is(req, FSCACHE_CHANGE, all | SNIC_FSCACHE__WANTS_ZERO, 0, 0);
        else
            fscache_is(req, FSCACHE_AFTER, 0, 0, 0);
        return r->ino;
    case SNIC_FSOP_SETATTR:
        if ((r->set_mask & SNIC_FSOP_SET_SIZE) != 0)
            fscache_is(req, FSCACHE_CHANGE,
                       all | (r->attr.size == 0 ? SNIC_FSCACHE__WANTS_ZERO : 0), 0, 0);
        else
            fscache_is(req, FSCACHE_AFTER, all, 0, 0);
        return r->ino;
    case SNIC_FSOP_SETXATTR:
    case SNIC_FSOP_REMOVEXATTR:
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
    case SNIC_FSOP_LINK:
        fscache_is(req, FSCACHE_AFTER, all, 0, 0);
        return r->ino;
    case SNIC_FSOP_FLUSH: /* a read-only handle does not wait for others' bytes */
        all = fscache_may_write(fc, r) ? all | SNIC_FSCACHE__WANTS_ERROR : 0;
        fscache_is(req, FSCACHE_AFTER, all, 0, 0);
        return r->ino;
    case SNIC_FSOP_RELEASE:
        all |= fscache_may_write(fc, r) ? SNIC_FSCACHE__WANTS_ERROR : 0;
        fscache_is(req, FSCACHE_AFTER, all, 0, 0);
        return r->ino;
    case SNIC_FSOP_FSYNC:
        fscache_is(req, FSCACHE_AFTER, all | SNIC_FSCACHE__WANTS_ERROR, 0, 0);
        return r->ino;
    case SNIC_FSOP_SEEK:
        fscache_is(req, FSCACHE_AFTER, SNIC_FSCACHE__WANTS_FLUSH, 0, 0);
        return r->ino;
    case SNIC_FSOP_FALLOCATE:
        fscache_is(req, FSCACHE_CHANGE, all, r->offset, r->length);
        return r->ino;
    case SNIC_FSOP_COPY:
        fscache_is(req, FSCACHE_CHANGE, all, r->offset2, r->length);
        return r->ino2;
    case SNIC_FSOP_READ:
        fscache_is_read(fc, req);
        return r->ino;
    case SNIC_FSOP_WRITE:
        return r->ino; /* it depends on the inode */
    default:
        return 0;
    }
}

/* Has the inode to be known, since pages or sizes of it will be? */
static int fscache_makes(const struct snic_fscache_req *req)
{
    return req->kind == FSCACHE_CHANGE || req->k->kind == SNIC_FSOP_OPEN ||
           req->k->kind == SNIC_FSOP_READ || req->k->kind == SNIC_FSOP_WRITE;
}

void fscache_admit(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = NULL;
    uint64_t ino;

    req->regions = fc->stats.regions;
    req->kind = FSCACHE_PASS;
    req->step = FSCACHE_BEGIN;
    req->at = 0;
    req->error = 0;
    req->fetched = 0;
    req->missed = 0;
    req->forward = 0;
    req->paging = 0;
    ino = fscache_about(fc, req);
    if (ino != 0)
        i = fscache_makes(req) ? fscache_inode_get(fc, ino) : fscache_inode_find(fc, ino);
    if (i == NULL && ino != 0 && fscache_makes(req)) {
        req->k->result = SNIC_ENOMEM;
        req->kind = FSCACHE_PASS;
        req->step = FSCACHE_END;
    } else if (i == NULL) { /* nothing of it is cached */
        req->kind = FSCACHE_PASS;
        req->step = FSCACHE_GO;
    } else {
        if (req->k->kind == SNIC_FSOP_WRITE)
            fscache_is_write(fc, req, i);
        fscache_attach(req, i);
        if (req->k->kind == SNIC_FSOP_COPY && req->k->ino != ino) {
            req->other = fscache_inode_find(fc, req->k->ino);
            if (req->other != NULL)
                fscache_inode_ref(req->other);
        }
    }
    fscache_ready(fc, req);
}

/* Keeps its place: later requests wait for it still, and it waits for those that are active. */
void fscache_divert(struct snic_fscache *fc, struct snic_fscache_req *req, uint64_t written)
{
    struct snic_fscache__inode *i = req->inode;
    struct snic_link *at;
    struct snic_fsop *r = req->k;

    SNIC_ASSERT(written < r->length);
    req->written += written;
    r->iov[0].base = (unsigned char *)r->iov[0].base + written;
    r->iov[0].size -= (size_t)written;
    r->offset += written;
    r->length -= written;
    snic_link_remove(&req->link);
    for (at = i->reqs.next; at != &i->reqs && fscache_of(at)->active; at = at->next) {
    }
    snic_link_append(at, &req->link);
    fscache_is(req, FSCACHE_CHANGE, SNIC_FSCACHE__WANTS_FLUSH, r->offset, r->length);
    i->changes++;
    req->active = 0;
    req->paging = 0;
    req->error = 0;
    req->step = FSCACHE_BEGIN;
    fscache_ready(fc, req);
}

/* ---- Below: the file system, and hcachelink ---- */

void fscache_forward(struct snic_fscache_req *req, void (*home)(struct snic_fscache_req *req))
{
    const struct snic_fscache *fc = req->cache;

    SNIC_ASSERT(req->home == NULL);
    req->home = home;
    fc->opts.ops.submit(fc->opts.ctx, req);
}

struct snic_fscache_req *fscache_own(struct snic_fscache *fc, struct snic_fscache_req *owner,
                                     uint32_t kind, uint64_t ino)
{
    struct snic_fscache_req *own = fc->opts.ops.get(fc->opts.ctx);

    if (own == NULL)
        return NULL;
    *own = (struct snic_fscache_req){.k = own->k,
                                     .data = own->data,
                                     .buffer = own->buffer,
                                     .ctx = own->ctx,
                                     .cache = fc,
                                     .owner = owner};
    memset(own->k, 0, sizeof(*own->k));
    own->k->kind = kind;
    own->k->flags = SNIC_FSOP_CHECKED;
    own->k->ino = ino;
    fc->own++;
    return own;
}

void fscache_own_end(struct snic_fscache *fc, struct snic_fscache_req *own)
{
    SNIC_ASSERT(fc->own > 0);
    fc->own--;
    fc->opts.ops.put(fc->opts.ctx, own);
}

void fscache_own_home(struct snic_fscache *fc, struct snic_fscache_req *own)
{
    struct snic_fscache_req *owner = own->owner;

    fscache_own_end(fc, own);
    fscache_ready(fc, owner);
}

int fscache_pages_submit(struct snic_fscache *fc, struct snic_fscache_req *req, uint32_t op,
                         uint64_t ino, enum fscache_step then)
{
    struct snic_hcachelink_req *p = &req->pages;
    int rc = SNIC_EPIPE;

    p->op = op;
    p->ino = ino;
    p->done = fc->paged;
    req->step = (uint8_t)then;
    if (fc->half != NULL && !fc->over)
        rc = snic_hcachelink_submit(fc->half, p);
    if (rc < 0)
        p->result = rc;
    if (rc == 0)
        fc->busy++;
    return rc != 0;
}

int fscache_gone(int64_t result)
{
    return result == SNIC_EPEERDEAD || result == SNIC_EPIPE;
}
