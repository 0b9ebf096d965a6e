/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Bytes between requests and pages. Cached pages are copied: no message, no DMA operation. Missing
 * pages are read from the file system in runs, a request each, into pages that are locked meanwhile
 * (FC2). hcachelink waits for pages that another request fills or writes, and for free pages.
 */
#include "snicstore/fscache.h"

#include "fscache/fscache_priv.h"

SNIC_STATIC_ASSERT(FSCACHE_RUN *(FSCACHE_PAGE + sizeof(struct snic_hcache_page)) <=
                       SNIC_FSCACHE_BUFFER_BYTES,
                   "a run and its locks share a buffer");

/* The next piece of a READ: in one page. @return bytes */
static uint32_t fscache_data_piece(const struct snic_fscache_req *req, uint64_t length,
                                   uint64_t *lpn, uint32_t *from)
{
    uint64_t pos = req->k->offset + req->at;

    *lpn = pos >> FSCACHE_PAGE_SHIFT;
    *from = (uint32_t)(pos & (FSCACHE_PAGE - 1));
    return (uint32_t)snic_min_u64(FSCACHE_PAGE - *from, length - req->at);
}

static unsigned char *fscache_data_out(const struct snic_fscache_req *req)
{
    return (unsigned char *)req->k->iov[0].base + req->at;
}

/* What of a READ is in the file. */
static uint64_t fscache_data_length(const struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;
    uint64_t size = req->inode->size;

    return size > r->offset ? snic_min_u64(r->length, size - r->offset) : 0;
}

/* ---- Times of reads ---- */

static int fscache_data_newer(const struct snic_fsop_time *a, const struct snic_fsop_time *b)
{
    return a->sec > b->sec || (a->sec == b->sec && a->nsec > b->nsec);
}

/* What a READ that is forwarded does in the store. */
static void fscache_data_accessed(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;
    struct snic_fsop_time now;

    if ((req->k->flags & SNIC_FSOP_NOATIME) != 0 || !i->timed ||
        fscache_has(fc, SNIC_FSCACHE_READ_ONLY | SNIC_FSCACHE_NO_ATIME))
        return;
    if (!fscache_has(fc, SNIC_FSCACHE_STRICT_ATIME) && !req->fetched &&
        fscache_data_newer(&i->atime, &i->mtime) && fscache_data_newer(&i->atime, &i->ctime))
        return; /* as relatime, without its rule of a day */
    now = fscache_now(fc);
    i->atime = now;
    if (req->fetched && !i->dirty)
        return; /* the store sets it itself */
    i->touched++;
    fscache_inode_due(fc, i, i->due | SNIC_FSOP_SET_ATIME);
}

/* ---- Pages that are missing ---- */

static struct snic_hcache_page *fscache_data_locks(struct snic_fscache_req *own)
{
    return (struct snic_hcache_page *)(void *)((unsigned char *)own->buffer +
                                               FSCACHE_RUN * FSCACHE_PAGE);
}

static void fscache_data_unlock(struct snic_fscache *fc, struct snic_hcache_page *page,
                                enum snic_hcache_how how)
{
    const struct snic_fscache_report r = {
        .kind = SNIC_FSCACHE_UNLOCKED, .ino = page->ino, .lpn = page->lpn};

    if (snic_hcache_unlock(&fc->host, page, how) != 0)
        fscache_report(fc, &r);
}

static void fscache_data_give_back(struct snic_fscache *fc, struct snic_fscache_req *own)
{
    struct snic_hcache_page *locks = fscache_data_locks(own);

    for (uint32_t i = 0; i < own->held; i++)
        fscache_data_unlock(fc, &locks[i], SNIC_HCACHE_UNLOCK_DROP);
    if (own->held > 0)
        fc->busy--;
    own->held = 0;
}

void fscache_abandon_fetches(struct snic_fscache *fc)
{
    for (struct snic_link *l = fc->fetches.next; l != &fc->fetches; l = l->next)
        fscache_data_give_back(fc, SNIC_CONTAINER(l, struct snic_fscache_req, link));
}

/* The pages get the @p bytes that were read; zeros behind that. */
static void fscache_data_fill(struct snic_fscache *fc, struct snic_fscache_req *own, uint64_t bytes)
{
    struct snic_hcache_page *locks = fscache_data_locks(own);

    for (uint32_t i = 0; i < own->held; i++) {
        uint64_t at = (locks[i].lpn << FSCACHE_PAGE_SHIFT) - own->k->offset;
        uint64_t n = bytes > at ? snic_min_u64(bytes - at, FSCACHE_PAGE) : 0;

        memcpy(locks[i].data, (const unsigned char *)own->data + at, (size_t)n);
        memset((unsigned char *)locks[i].data + n, 0, (size_t)(FSCACHE_PAGE - n));
        fscache_data_unlock(fc, &locks[i], SNIC_HCACHE_UNLOCK_FILLED);
    }
    if (own->held > 0)
        fc->busy--;
    own->held = 0;
}

/* So does the READ, as far as they go. */
static void fscache_data_give(struct snic_fscache_req *own, struct snic_fscache_req *req,
                              uint64_t bytes)
{
    uint64_t length = fscache_data_length(req);
    uint64_t skip = req->k->offset + req->at - own->k->offset;
    uint64_t n = snic_min_u64(length - snic_min_u64(length, req->at),
                              own->iov.size - snic_min_u64(skip, own->iov.size));
    uint64_t some = bytes > skip ? snic_min_u64(n, bytes - skip) : 0;

    if (n == 0)
        return;
    memcpy(fscache_data_out(req), (const unsigned char *)own->data + skip, (size_t)some);
    memset(fscache_data_out(req) + some, 0, (size_t)(n - some));
    req->at += n;
}

static void fscache_data_fetched(struct snic_fscache_req *own)
{
    struct snic_fscache_req *req = own->owner;
    struct snic_fscache *fc = own->cache;

    snic_link_remove(&own->link);
    if (own->k->result < 0) {
        fscache_data_give_back(fc, own);
        req->k->result = own->k->result;
        req->step = FSCACHE_END;
    } else {
        SNIC_ASSERT((uint64_t)own->k->result <= own->iov.size);
        fscache_data_fill(fc, own, (uint64_t)own->k->result);
        fscache_data_give(own, req, (uint64_t)own->k->result);
        req->fetched = 1;
        req->step = FSCACHE_GO;
    }
    fscache_own_home(fc, own);
}

/* Lock the pages from @p lpn to @p last that are missing, as far as they follow each other. FC6:
   those that have no place are read all the same, and not kept. */
static int fscache_data_lock(struct snic_fscache *fc, struct snic_fscache_req *own, uint64_t ino,
                             uint64_t lpn, uint64_t last)
{
    struct snic_hcache_page *locks = fscache_data_locks(own);
    int rc = 0;
    int refused = snic_hcachelink_refused(fc->half);

    while (own->cover < FSCACHE_RUN && lpn + own->cover <= last) {
        rc =
            snic_hcache_lock(&fc->host, ino, lpn + own->cover, SNIC_HCACHE_FILL, &locks[own->held]);
        if (rc != 0 && (rc != SNIC_EAGAIN || refused == 0))
            break;
        own->held += rc == 0;
        own->cover++;
    }
    return own->cover > 0 ? 0 : rc;
}

/* @return 0: they are requested; SNIC_E*: the first one cannot be had */
static int fscache_data_fetch(struct snic_fscache *fc, struct snic_fscache_req *req, uint64_t lpn,
                              uint64_t last)
{
    uint64_t ino = req->inode->ino;
    struct snic_fscache_req *own = fscache_own(fc, req, SNIC_FSOP_READ, ino);
    int rc;

    if (own == NULL)
        return SNIC_ENOMEM;
    SNIC_ASSERT(own->buffer != NULL);
    rc = fscache_data_lock(fc, own, ino, lpn, last);
    if (rc != 0) {
        fscache_own_end(fc, own);
        return rc;
    }
    if (own->held > 0)
        fc->busy++;
    fc->stats.page_misses += own->cover;
    fc->stats.uncached += own->cover - own->held;
    snic_link_append(&fc->fetches, &own->link);
    own->iov.base = own->buffer;
    own->iov.size = (size_t)own->cover * FSCACHE_PAGE;
    own->k->iov = &own->iov;
    own->k->iov_count = 1;
    own->k->length = own->iov.size;
    own->k->offset = lpn << FSCACHE_PAGE_SHIFT;
    own->k->handle = req->k->handle;
    own->k->cred = req->k->cred;
    req->step = FSCACHE_SENT;
    if (fscache_has(fc, SNIC_FSCACHE_PREFETCH))
        snic_hcachelink_hint(fc->half, ino, lpn, own->cover);
    fscache_forward(own, fscache_data_fetched);
    return 0;
}

/* ---- READ ---- */

/* Copy cached pages. @return 0; SNIC_E* of the next one, that is not */
static int fscache_data_hits(struct snic_fscache *fc, struct snic_fscache_req *req, uint64_t length)
{
    while (req->at < length) {
        uint64_t lpn;
        uint32_t from;
        uint32_t n = fscache_data_piece(req, length, &lpn, &from);
        int rc = snic_hcache_read(&fc->host, req->inode->ino, lpn, from, n, fscache_data_out(req));

        if (rc < 0)
            return rc;
        if (rc == SNIC_HCACHE_AHEAD && fscache_has(fc, SNIC_FSCACHE_PREFETCH))
            snic_hcachelink_hint(fc->half, req->inode->ino, lpn, 0);
        fc->stats.page_hits++;
        req->at += n;
    }
    return 0;
}

static int fscache_data_read_done(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    req->k->result = (int64_t)req->at;
    req->data = req->k->iov[0].base;
    fc->stats.reads++;
    fc->stats.read_hits += !req->missed;
    fscache_data_accessed(fc, req);
    req->step = FSCACHE_END;
    return 1;
}

/* hcachelink's request for a page has ended. @return 1; 0: the READ waits, or has ended */
static int fscache_data_paged(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    int64_t result = req->pages.result;

    req->step = FSCACHE_GO;
    if (result == SNIC_EAGAIN) /* it is fetched without one */
        result = 0;
    if (fscache_gone(result)) {
        fscache_hold(fc, req);
        return 0;
    }
    if (result < 0) {
        req->k->result = result;
        req->step = FSCACHE_END;
        fscache_ready(fc, req);
        return 0;
    }
    if (result > 0 && req->missed)
        fc->stats.page_misses++;
    else if (result > 0)
        fc->stats.page_hits++;
    req->at += (uint64_t)result;
    req->paging = 0;
    return 1;
}

int fscache_read(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    uint64_t length = fscache_data_length(req);
    int rc;

    SNIC_DASSERT(req->active);
    SNIC_DASSERT(req->inode->sized);
    if (req->paging && !fscache_data_paged(fc, req))
        return 0;
    while ((rc = fscache_data_hits(fc, req, length)) != 0) {
        uint64_t lpn;
        uint32_t from;
        uint32_t n = fscache_data_piece(req, length, &lpn, &from);

        if (rc == SNIC_ENOENT) {
            req->missed = 1;
            rc = fscache_data_fetch(fc, req, lpn,
                                    (req->k->offset + length - 1) >> FSCACHE_PAGE_SHIFT);
        }
        if (rc == 0)
            return 0;
        if (rc == SNIC_ENOMEM && snic_hcachelink_refused(fc->half) != 0) {
            req->k->result = rc; /* a page may not become free, either */
            req->step = FSCACHE_END;
            return 1;
        }
        req->pages.offset = req->k->offset + req->at;
        req->pages.length = n;
        req->pages.data = fscache_data_out(req);
        req->pages.flags = 0;
        req->paging = 1;
        if (!fscache_pages_submit(fc, req, SNIC_HCACHELINK_READ, req->inode->ino, FSCACHE_PAGES) ||
            !fscache_data_paged(fc, req))
            return 0;
    }
    return fscache_data_read_done(fc, req);
}

int fscache_read_cached(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    uint64_t length = fscache_data_length(req);

    if (fscache_data_hits(fc, req, length) == 0)
        return fscache_data_read_done(fc, req);
    req->at = 0;
    return 0;
}

/* ---- WRITE ---- */

static void fscache_data_written(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;
    struct snic_fscache_handle *h;

    fc->stats.writes++;
    i->size = snic_max_u64(i->size, req->pages.offset + (uint64_t)req->pages.result);
    i->mtime = fscache_now(fc);
    i->ctime = i->mtime;
    i->touched++;
    fscache_inode_due(fc, i, i->due | SNIC_FSOP_SET_MTIME | SNIC_FSOP_SET_CTIME);
    req->k->result = req->pages.result;
    h = fc->opts.ops.handle(fc->opts.ctx, req->k->handle);
    if (h != NULL)
        h->writes++;
}

/* Before pages take bytes, and again after that (FC4). */
static void fscache_data_dirty(struct snic_fscache *fc, struct snic_fscache__inode *i)
{
    i->writes++;
    fscache_inode_dirty(fc, i, 1);
}

/* Count bytes that will be flushed, and in how many pages at most: small writes one after the other
   share one. */
static void fscache_data_will(struct snic_fscache *fc, struct snic_fscache__inode *i,
                              uint64_t offset, uint64_t bytes)
{
    uint64_t first = offset >> FSCACHE_PAGE_SHIFT;
    uint64_t last = (offset + bytes - 1) >> FSCACHE_PAGE_SHIFT;

    fscache_inode_wrote(fc, i, bytes, last - first + (first + 1 != i->last_page));
    i->last_page = last + 1;
}

int fscache_write(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    struct snic_fscache__inode *i = req->inode;
    struct snic_hcachelink_req *p = &req->pages;

    SNIC_DASSERT(req->active);
    if (!req->paging) {
        SNIC_DASSERT(i->sized);
        if ((req->k->flags & SNIC_FSOP_APPEND) != 0) /* there, also when retried */
            req->k->offset = i->size;
        req->k->flags &= ~SNIC_FSOP_APPEND;
        p->offset = req->k->offset;
        p->length = req->k->length;
        p->data = req->k->iov[0].base;
        p->flags = p->offset >= i->size ? SNIC_HCACHELINK_BEYOND : 0;
        req->paging = 1;
        fscache_data_dirty(fc, i);
        fscache_data_will(fc, i, p->offset, p->length);
        if (!fscache_pages_submit(fc, req, SNIC_HCACHELINK_WRITE, i->ino, FSCACHE_PAGES))
            return 0;
    }
    fscache_data_dirty(fc, i); /* a flush that began meanwhile had not all of it */
    req->paging = 0;
    req->step = FSCACHE_END;
    if (fscache_gone(p->result)) {
        req->step = FSCACHE_GO;
        fscache_hold(fc, req);
        return 0;
    }
    if (p->result == SNIC_EAGAIN) { /* FC6 */
        p->result = (int64_t)p->at;
        if (p->at != 0)
            fscache_data_written(fc, req);
        fscache_divert(fc, req, p->at);
        return 0;
    }
    if (p->result < 0)
        req->k->result = p->result;
    else
        fscache_data_written(fc, req);
    return 1;
}

/* ---- What the file system has written ---- */

int fscache_patch(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;
    uint64_t at = 0;
    int left = 0;

    if (r->result != (int64_t)r->length || (r->flags & SNIC_FSOP_APPEND) != 0)
        return 1;
    while (at < r->length) {
        uint64_t lpn = (r->offset + at) >> FSCACHE_PAGE_SHIFT;
        uint32_t from = (uint32_t)((r->offset + at) & (FSCACHE_PAGE - 1));
        uint32_t n = (uint32_t)snic_min_u64(FSCACHE_PAGE - from, r->length - at);
        struct snic_hcache_page page;
        int rc = snic_hcache_lock(&fc->host, r->ino, lpn, 0, &page);

        if (rc == 0) {
            int whole = n == FSCACHE_PAGE;

            memcpy((unsigned char *)page.data + from, (unsigned char *)r->iov[0].base + at, n);
            fscache_data_unlock(fc, &page,
                                (page.flags & SNIC_HCACHE_NEW) != 0 && whole
                                    ? SNIC_HCACHE_UNLOCK_FILLED
                                    : SNIC_HCACHE_UNLOCK_KEEP);
        } else if (rc != SNIC_EAGAIN) {
            left = 1;
        }
        at += n;
    }
    return left;
}
