/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Bytes between calls and pages. Cached pages are copied: no message, no DMA operation. Missing
 * pages come by the link in runs, a request each, into pages that are locked meanwhile (KC2).
 * hcachelink waits for pages that another request fills or writes, and for free pages.
 */
#include "cache_priv.h"

#include <string.h>

SNIC_STATIC_ASSERT(KC_RUN *KC_PAGE <= KM_DATA / 2 &&
                       KC_RUN * sizeof(struct snic_hcache_page) <= KM_DATA / 2,
                   "a run and its locks share a block");

/* The next piece of a READ: in one page. @return bytes */
static uint32_t data_piece(const struct km_call *c, uint64_t length, uint64_t *lpn, uint32_t *from)
{
    uint64_t pos = c->r.k.offset + c->cached.at;

    *lpn = pos >> KC_PAGE_SHIFT;
    *from = (uint32_t)(pos & (KC_PAGE - 1));
    return (uint32_t)snic_min_u64(KC_PAGE - *from, length - c->cached.at);
}

static unsigned char *data_out(const struct km_call *c)
{
    return (unsigned char *)c->r.k.iov[0].base + c->cached.at;
}

/* What of a READ is in the file. */
static uint64_t data_length(const struct km_call *c)
{
    const struct snic_fsop *r = &c->r.k;
    uint64_t size = c->cached.inode->size;

    return size > r->offset ? snic_min_u64(r->length, size - r->offset) : 0;
}

/* ---- Times of reads ---- */

static int data_newer(const struct snic_fsop_time *a, const struct snic_fsop_time *b)
{
    return a->sec > b->sec || (a->sec == b->sec && a->nsec > b->nsec);
}

/* As relatime: what a READ by the link does in the store. */
static void data_accessed(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;
    struct snic_fsop_time now;

    if ((c->r.k.flags & SNIC_FSOP_NOATIME) != 0 || !i->timed || k->m->config->read_only ||
        k->m->config->atime == SNIC_KVFS_NO_ATIME)
        return;
    if (k->m->config->atime != SNIC_KVFS_STRICT_ATIME && !c->cached.fetched &&
        data_newer(&i->atime, &i->mtime) && data_newer(&i->atime, &i->ctime))
        return; /* as relatime, without its rule of a day */
    now = kc_now();
    i->atime = now;
    if (c->cached.fetched && !i->dirty)
        return; /* the store sets it itself */
    i->touched++;
    kc_inode_due(k, i, i->due | SNIC_FSOP_SET_ATIME);
}

/* ---- Pages that are missing ---- */

static struct snic_hcache_page *data_locks(struct km_call *f)
{
    return (struct snic_hcache_page *)(void *)(km_call_data(f) + KM_DATA / 2);
}

static void data_unlock(struct km_cache *k, struct snic_hcache_page *page, enum snic_hcache_how how)
{
    if (snic_hcache_unlock(&k->hand, page, how) != 0)
        ex_log(EX_ERROR, "inode %llu, page %llu: its lock is held by another owner",
               (unsigned long long)page->ino, (unsigned long long)page->lpn);
}

static void data_give_back(struct km_cache *k, struct km_call *f)
{
    struct snic_hcache_page *locks = data_locks(f);

    for (uint32_t i = 0; i < f->cached.held; i++)
        data_unlock(k, &locks[i], SNIC_HCACHE_UNLOCK_DROP);
    if (f->cached.held > 0)
        k->busy--;
    f->cached.held = 0;
}

void kc_unfetch(struct km_cache *k)
{
    for (struct snic_link *l = k->fetches.next; l != &k->fetches; l = l->next)
        data_give_back(k, SNIC_CONTAINER(l, struct km_call, cached.link));
}

/* Pages and reader get what has come, @p bytes of it; zeros behind that. */
static void data_fill(struct km_cache *k, struct km_call *f, uint64_t bytes)
{
    struct snic_hcache_page *locks = data_locks(f);

    for (uint32_t i = 0; i < f->cached.held; i++) {
        uint64_t at = (locks[i].lpn << KC_PAGE_SHIFT) - f->r.k.offset;
        uint64_t n = bytes > at ? snic_min_u64(bytes - at, KC_PAGE) : 0;

        memcpy(locks[i].data, (const unsigned char *)f->data + at, (size_t)n);
        memset((unsigned char *)locks[i].data + n, 0, (size_t)(KC_PAGE - n));
        data_unlock(k, &locks[i], SNIC_HCACHE_UNLOCK_FILLED);
    }
    if (f->cached.held > 0)
        k->busy--;
    f->cached.held = 0;
}

static void data_give(struct km_call *f, struct km_call *c, uint64_t bytes)
{
    uint64_t length = data_length(c);
    uint64_t skip = c->r.k.offset + c->cached.at - f->r.k.offset;
    uint64_t n = snic_min_u64(length - snic_min_u64(length, c->cached.at),
                              f->iov.size - snic_min_u64(skip, f->iov.size));
    uint64_t there = bytes > skip ? snic_min_u64(n, bytes - skip) : 0;

    if (n == 0)
        return;
    memcpy(data_out(c), (const unsigned char *)f->data + skip, (size_t)there);
    memset(data_out(c) + there, 0, (size_t)(n - there));
    c->cached.at += n;
}

static void data_fetched(struct km_call *f)
{
    struct km_call *c = f->cached.owner;
    struct km_cache *k = f->m->cache;

    snic_link_remove(&f->cached.link);
    if (f->r.k.result < 0) {
        data_give_back(k, f);
        c->r.k.result = f->r.k.result;
        c->cached.step = KC_END;
    } else {
        data_fill(k, f, (uint64_t)f->r.k.result);
        data_give(f, c, (uint64_t)f->r.k.result);
        c->cached.fetched = 1;
        c->cached.step = KC_GO;
    }
    kc_own_end(k, f);
    kc_ready(k, c);
    kc_pump(k);
}

/* Lock the pages from @p lpn to @p last that are missing, as far as they follow each other. KC6:
   those that have no place are read all the same, and not kept. */
static int data_lock(struct km_cache *k, struct km_call *f, uint64_t ino, uint64_t lpn,
                     uint64_t last)
{
    struct snic_hcache_page *locks = data_locks(f);
    int rc = 0;

    int refused = snic_hcachelink_refused(k->half);

    while (f->cached.cover < KC_RUN && lpn + f->cached.cover <= last) {
        rc = snic_hcache_lock(&k->hand, ino, lpn + f->cached.cover, SNIC_HCACHE_FILL,
                              &locks[f->cached.held]);
        if (rc != 0 && (rc != SNIC_EAGAIN || refused == 0))
            break;
        f->cached.held += rc == 0;
        f->cached.cover++;
    }
    return f->cached.cover > 0 ? 0 : rc;
}

/* @return 0: they are requested; SNIC_E*: the first one cannot be had */
static int data_fetch(struct km_cache *k, struct km_call *c, uint64_t lpn, uint64_t last)
{
    uint64_t ino = c->cached.inode->ino;
    struct km_call *f = kc_own(k, c, SNIC_FSOP_READ, ino);
    int rc;

    if (f == NULL)
        return SNIC_ENOMEM;
    rc = data_lock(k, f, ino, lpn, last);
    if (rc != 0) {
        kc_own_end(k, f);
        return rc;
    }
    if (f->cached.held > 0)
        k->busy++;
    k->miss_pages += f->cached.cover;
    k->bypassed += f->cached.cover - f->cached.held;
    snic_link_append(&k->fetches, &f->cached.link);
    f->iov.base = km_call_data(f);
    f->iov.size = (size_t)f->cached.cover * KC_PAGE;
    f->r.k.iov = &f->iov;
    f->r.k.iov_count = 1;
    f->r.k.length = f->iov.size;
    f->r.k.offset = lpn << KC_PAGE_SHIFT;
    f->r.k.handle = c->r.k.handle;
    f->r.k.cred = c->r.k.cred;
    c->cached.step = KC_SENT;
    if (k->m->config->prefetch)
        snic_hcachelink_hint(k->half, ino, lpn, f->cached.cover);
    kc_lower(f, data_fetched);
    return 0;
}

/* ---- READ ---- */

/* Pages that are there. @return 0; SNIC_E* of the next one that is not */
static int data_hits(struct km_cache *k, struct km_call *c, uint64_t length)
{
    while (c->cached.at < length) {
        uint64_t lpn;
        uint32_t from;
        uint32_t n = data_piece(c, length, &lpn, &from);
        int rc = snic_hcache_read(&k->hand, c->cached.inode->ino, lpn, from, n, data_out(c));

        if (rc < 0)
            return rc;
        if (rc == SNIC_HCACHE_AHEAD && k->m->config->prefetch)
            snic_hcachelink_hint(k->half, c->cached.inode->ino, lpn, 0);
        k->hit_pages++;
        c->cached.at += n;
    }
    return 0;
}

static int data_read_done(struct km_cache *k, struct km_call *c)
{
    c->r.k.result = (int64_t)c->cached.at;
    c->data = c->r.k.iov[0].base;
    k->reads++;
    k->hit_reads += !c->cached.missed;
    data_accessed(k, c);
    c->cached.step = KC_END;
    return 1;
}

/* A page that hcachelink was asked for. @return 1; 0: the call waits, or has ended */
static int data_paged(struct km_cache *k, struct km_call *c)
{
    int64_t result = c->cached.req.result;

    c->cached.step = KC_GO;
    if (result == SNIC_EAGAIN) /* it is fetched without one */
        result = 0;
    if (result == SNIC_EPEERDEAD || result == SNIC_EPIPE) {
        kc_hold(k, c);
        return 0;
    }
    if (result < 0) {
        c->r.k.result = result;
        c->cached.step = KC_END;
        kc_ready(k, c);
        return 0;
    }
    if (result > 0 && c->cached.missed)
        k->miss_pages++;
    else if (result > 0)
        k->hit_pages++;
    c->cached.at += (uint64_t)result;
    c->cached.paging = 0;
    return 1;
}

int kc_read(struct km_cache *k, struct km_call *c)
{
    uint64_t length = data_length(c);
    int rc;

    if (c->cached.paging && !data_paged(k, c))
        return 0;
    while ((rc = data_hits(k, c, length)) != 0) {
        uint64_t lpn;
        uint32_t from;
        uint32_t n = data_piece(c, length, &lpn, &from);

        if (rc == SNIC_ENOENT) {
            c->cached.missed = 1;
            rc = data_fetch(k, c, lpn, (c->r.k.offset + length - 1) >> KC_PAGE_SHIFT);
        }
        if (rc == 0)
            return 0;
        if (rc == SNIC_ENOMEM && snic_hcachelink_refused(k->half) != 0) {
            c->r.k.result = rc; /* no page may come, either */
            c->cached.step = KC_END;
            return 1;
        }
        c->cached.req.offset = c->r.k.offset + c->cached.at;
        c->cached.req.length = n;
        c->cached.req.data = data_out(c);
        c->cached.req.flags = 0;
        c->cached.paging = 1;
        if (!kc_ask(k, c, SNIC_HCACHELINK_READ, c->cached.inode->ino, KC_PAGES) ||
            !data_paged(k, c))
            return 0;
    }
    return data_read_done(k, c);
}

int kc_try(struct km_cache *k, struct km_call *c)
{
    uint64_t length = data_length(c);

    if (data_hits(k, c, length) == 0)
        return data_read_done(k, c);
    c->cached.at = 0;
    return 0;
}

/* ---- WRITE ---- */

static void data_written(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;
    struct km_cached *d = &c->cached;

    k->writes++;
    i->size = snic_max_u64(i->size, d->req.offset + (uint64_t)d->req.result);
    i->mtime = kc_now();
    i->ctime = i->mtime;
    i->touched++;
    kc_inode_due(k, i, i->due | SNIC_FSOP_SET_MTIME | SNIC_FSOP_SET_CTIME);
    c->r.k.result = d->req.result;
    remote_wrote(k->m->remote, c);
}

/* KC4 */
static void data_dirty(struct km_cache *k, struct kc_inode *i)
{
    i->written++;
    kc_inode_dirty(k, i, 1);
}

/* @p bytes of them, at most in so many pages; small writes one after the other share one. */
static void data_will(struct km_cache *k, struct kc_inode *i, uint64_t offset, uint64_t bytes)
{
    uint64_t first = offset >> KC_PAGE_SHIFT;
    uint64_t last = (offset + bytes - 1) >> KC_PAGE_SHIFT;

    kc_inode_wrote(k, i, bytes, last - first + (first + 1 != i->last_page));
    i->last_page = last + 1;
}

int kc_write(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;
    struct snic_hcachelink_req *req = &c->cached.req;

    if (!c->cached.paging) {
        if ((c->r.k.flags & SNIC_FSOP_APPEND) != 0) /* there, also when retried */
            c->r.k.offset = i->size;
        c->r.k.flags &= ~SNIC_FSOP_APPEND;
        req->offset = c->r.k.offset;
        req->length = c->r.k.length;
        req->data = c->r.k.iov[0].base;
        req->flags = req->offset >= i->size ? SNIC_HCACHELINK_BEYOND : 0;
        c->cached.paging = 1;
        data_dirty(k, i);
        data_will(k, i, req->offset, req->length);
        if (!kc_ask(k, c, SNIC_HCACHELINK_WRITE, i->ino, KC_PAGES))
            return 0;
    }
    data_dirty(k, i); /* a flush that began meanwhile had not all of it */
    c->cached.paging = 0;
    c->cached.step = KC_END;
    if (req->result == SNIC_EPEERDEAD || req->result == SNIC_EPIPE) {
        c->cached.step = KC_GO;
        kc_hold(k, c);
        return 0;
    }
    if (req->result == SNIC_EAGAIN) { /* KC6 */
        req->result = (int64_t)req->at;
        if (req->at != 0)
            data_written(k, c);
        kc_around(k, c, req->at);
        return 0;
    }
    if (req->result < 0)
        c->r.k.result = req->result;
    else
        data_written(k, c);
    return 1;
}

/* ---- What the link has written ---- */

int kc_patch(struct km_cache *k, struct km_call *c)
{
    const struct snic_fsop *r = &c->r.k;
    uint64_t at = 0;
    int left = 0;

    if (r->result != (int64_t)r->length || (r->flags & SNIC_FSOP_APPEND) != 0)
        return 1;
    while (at < r->length) {
        uint64_t lpn = (r->offset + at) >> KC_PAGE_SHIFT;
        uint32_t from = (uint32_t)((r->offset + at) & (KC_PAGE - 1));
        uint32_t n = (uint32_t)snic_min_u64(KC_PAGE - from, r->length - at);
        struct snic_hcache_page page;
        int rc = snic_hcache_lock(&k->hand, r->ino, lpn, 0, &page);

        if (rc == 0) {
            int whole = n == KC_PAGE;

            memcpy((unsigned char *)page.data + from, (unsigned char *)r->iov[0].base + at, n);
            data_unlock(k, &page,
                        (page.flags & SNIC_HCACHE_NEW) != 0 && whole ? SNIC_HCACHE_UNLOCK_FILLED
                                                                     : SNIC_HCACHE_UNLOCK_KEEP);
        } else if (rc != SNIC_EAGAIN) {
            left = 1;
        }
        at += n;
    }
    return left;
}
