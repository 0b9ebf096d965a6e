/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests: page after page through the host's handle, to the DPU for what is not there.
 *
 * A truncation
 *   locks the page that the new end cuts, when nothing of it is on its way to the store, so that no
 *     flush of it begins and no request fills it from the store;
 *   drops the pages behind, lets the DPU truncate the store, drops again what was filled between;
 *   and only then cuts the content of the page and gives it back.
 * Where no entry can be had for the page (L7), it is not locked before: a request that fills it
 * meanwhile may do so with content from before, so it is looked for after the truncation.
 */
#include "snicstore/hcachelink.h"

#include "hcachelink/host_priv.h"

int hcachelink_req_check(const struct snic_hcachelink_host *h,
                         const struct snic_hcachelink_req *req)
{
    if ((req->flags & ~(req->op == SNIC_HCACHELINK_WRITE ? SNIC_HCACHELINK_BEYOND : 0u)) != 0)
        return SNIC_EINVAL;
    switch (req->op) {
    case SNIC_HCACHELINK_WRITE:
        if (h->opts.cache.mode == SNIC_HCACHE_MODE_READ)
            return SNIC_EINVAL;
        /* fall through */
    case SNIC_HCACHELINK_READ:
        return req->length > SNIC_HCACHELINK__LENGTH_MAX ||
                       req->offset > SNIC_KVFS_SIZE_MAX - req->length ||
                       (req->data == NULL && req->length != 0)
                   ? SNIC_EINVAL
                   : 0;
    case SNIC_HCACHELINK_TRUNCATE:
        return req->length > SNIC_KVFS_SIZE_MAX ? SNIC_EINVAL : 0;
    case SNIC_HCACHELINK_DROP:
        return req->offset > SNIC_KVFS_SIZE_MAX || req->length > SNIC_KVFS_SIZE_MAX ? SNIC_EINVAL
                                                                                    : 0;
    case SNIC_HCACHELINK_FSYNC:
    case SNIC_HCACHELINK_FLUSH:
        return 0;
    default:
        return SNIC_EINVAL;
    }
}

/** Finished. */
static int hcachelink_end(struct snic_hcachelink_req *req, int64_t result)
{
    req->result = result;
    return 1;
}

static int hcachelink_request(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                              uint32_t type)
{
    req->step = type;
    req->since_ns = snic_loop_now(h->dma->loop);
    snic_queue_push(type == HCACHELINK_FSYNC ? &h->syncing : &h->sending, &req->node);
    return 0;
}

/** It got something: a new wait begins from zero. */
static void hcachelink_moved(struct snic_hcachelink_req *req)
{
    req->since_ns = 0;
    req->slot = SNIC_HCACHELINK__NO_SLOT;
}

/** No entry is free, and none will be before the file system takes pages again (L7). */
static int hcachelink_full(const struct snic_hcachelink_host *h, int why)
{
    return why == SNIC_EAGAIN && h->refused != 0;
}

/** A page or entry that it needs is locked. 1: retry at once; 0: it waits. */
static int hcachelink_busy(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req, int why)
{
    if (req->slot != SNIC_HCACHELINK__ARMED) {
        req->slot = SNIC_HCACHELINK__ARMED;
        snic_hcache_wait_arm(&h->host);
        if (why == SNIC_EAGAIN) /* no entry is free */
            (void)snic_dma_ring(h->dma, h->opts.bell);
        return 1;
    }
    req->slot = SNIC_HCACHELINK__NO_SLOT;
    if (req->since_ns == 0)
        req->since_ns = snic_loop_now(h->dma->loop);
    h->stats.waits++;
    snic_queue_push(&h->waiting, &req->node);
    return 0;
}

static int hcachelink_is_busy(int r)
{
    return r == SNIC_EBUSY || r == SNIC_EAGAIN || r == SNIC_EEXIST;
}

/** The piece of the page that comes next. */
static uint32_t hcachelink_piece(const struct snic_hcachelink_host *h,
                                 const struct snic_hcachelink_req *req, uint64_t *lpn,
                                 uint32_t *from)
{
    uint64_t pos = req->offset + req->at;
    uint64_t page = UINT64_C(1) << h->page_shift;
    SNIC_ASSERT(req->at < req->length);
    *lpn = pos >> h->page_shift;
    *from = (uint32_t)(pos & (page - 1));
    return (uint32_t)snic_min_u64(page - *from, req->length - req->at);
}

static int hcachelink_unlock(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                             enum snic_hcache_how how)
{
    int r = snic_hcache_unlock(&h->host, &req->page, how);
    h->retry_due = 1;
    return r;
}

static int hcachelink_read(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req)
{
    while (req->at < req->length) {
        uint64_t lpn;
        uint32_t from;
        uint32_t n = hcachelink_piece(h, req, &lpn, &from);
        unsigned char *out = (unsigned char *)req->data + req->at;
        int r;
        if (req->step == HCACHELINK_FILLED) {
            SNIC_ASSERT(req->page.held != 0 && req->page.lpn == lpn);
            memcpy(out, (unsigned char *)req->page.data + from, n);
            req->step = HCACHELINK_GO;
            if (hcachelink_unlock(h, req, SNIC_HCACHE_UNLOCK_FILLED) != 0)
                return hcachelink_end(req, SNIC_EIO);
            req->at += n;
            continue;
        }
        r = snic_hcache_read(&h->host, req->ino, lpn, from, n, out);
        if (r >= 0) {
            hcachelink_moved(req);
            h->stats.hits++;
            req->at += n;
            if (r == SNIC_HCACHE_AHEAD)
                hcachelink_host_ahead(h, req->ino, lpn);
            continue;
        }
        if (r == SNIC_ENOENT)
            r = snic_hcache_lock(&h->host, req->ino, lpn, SNIC_HCACHE_FILL, &req->page);
        if (r == 0) {
            hcachelink_moved(req);
            return hcachelink_request(h, req, HCACHELINK_READ);
        }
        if (!hcachelink_is_busy(r) || hcachelink_full(h, r))
            return hcachelink_end(req, r);
        if (!hcachelink_busy(h, req, r))
            return 0;
    }
    return hcachelink_end(req, (int64_t)req->length);
}

/** Has a page that is not cached to be read before @p n bytes of it are written? */
static int hcachelink_wants(const struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                            uint64_t lpn, uint32_t n)
{
    size_t page = (size_t)1 << h->page_shift;
    if ((req->page.flags & SNIC_HCACHE_NEW) == 0 || n == page)
        return 0;
    if ((req->flags & SNIC_HCACHELINK_BEYOND) == 0 || lpn << h->page_shift < req->offset)
        return 1;
    memset(req->page.data, 0, page);
    return 0;
}

static int hcachelink_write(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req)
{
    while (req->at < req->length) {
        uint64_t lpn;
        uint32_t from;
        uint32_t n = hcachelink_piece(h, req, &lpn, &from);
        int r;
        if (req->step == HCACHELINK_GO) {
            r = snic_hcache_lock(&h->host, req->ino, lpn, 0, &req->page);
            if (hcachelink_is_busy(r) && !hcachelink_full(h, r)) {
                if (!hcachelink_busy(h, req, r))
                    return 0;
                continue;
            }
            if (r != 0)
                return hcachelink_end(req, r);
            hcachelink_moved(req);
            if (hcachelink_wants(h, req, lpn, n))
                return hcachelink_request(h, req, HCACHELINK_READ);
        }
        req->step = HCACHELINK_GO;
        SNIC_ASSERT(req->page.held != 0 && req->page.lpn == lpn);
        memcpy((unsigned char *)req->page.data + from, (unsigned char *)req->data + req->at, n);
        req->page.end = (uint32_t)snic_max_u64(req->page.end, from + n);
        if (hcachelink_unlock(h, req, SNIC_HCACHE_UNLOCK_DIRTY) != 0)
            return hcachelink_end(req, SNIC_EIO);
        req->at += n;
    }
    return hcachelink_end(req, (int64_t)req->length);
}

/** Pages from at to @p last are to go. 1 they are gone; 0 it waits. */
static int hcachelink_drop(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                           uint64_t last)
{
    while (snic_hcache_drop(&h->host, req->ino, &req->at, last) != 0)
        if (!hcachelink_busy(h, req, SNIC_EBUSY))
            return 0;
    hcachelink_moved(req);
    h->retry_due = 1;
    return 1;
}

static uint64_t hcachelink_behind(const struct snic_hcachelink_host *h, uint64_t size)
{
    uint64_t page = UINT64_C(1) << h->page_shift;
    return (size + page - 1) >> h->page_shift;
}

static int hcachelink_truncate(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req)
{
    uint64_t cut = req->length & ((UINT64_C(1) << h->page_shift) - 1);
    while (req->step == HCACHELINK_GO) {
        int r = cut == 0 ? 0
                         : snic_hcache_lock(&h->host, req->ino, req->length >> h->page_shift,
                                            SNIC_HCACHE_DIRECT, &req->page);
        if (r == 0 || hcachelink_full(h, r)) {
            hcachelink_moved(req);
            req->at = hcachelink_behind(h, req->length);
            req->step = HCACHELINK_BEHIND;
        } else if (!hcachelink_is_busy(r)) {
            return hcachelink_end(req, r);
        } else if (!hcachelink_busy(h, req, r)) {
            return 0;
        }
    }
    if (req->step != HCACHELINK_CUT && !hcachelink_drop(h, req, UINT64_MAX))
        return 0;
    if (req->step == HCACHELINK_BEHIND)
        return hcachelink_request(h, req, HCACHELINK_TRUNCATE);
    req->step = HCACHELINK_CUT;
    while (cut != 0 && req->page.held == 0) { /* there was no entry for it */
        int r = snic_hcache_lock(&h->host, req->ino, req->length >> h->page_shift,
                                 SNIC_HCACHE_PRESENT, &req->page);
        if (r == SNIC_ENOENT)
            return hcachelink_end(req, 0);
        if (r != 0 && !hcachelink_is_busy(r))
            return hcachelink_end(req, r);
        if (r != 0 && !hcachelink_busy(h, req, r))
            return 0;
    }
    if (cut != 0)
        SNIC_ASSERT(req->page.held != 0);
    if (cut != 0 && (req->page.flags & SNIC_HCACHE_NEW) == 0) {
        memset((unsigned char *)req->page.data + cut, 0, (UINT64_C(1) << h->page_shift) - cut);
        req->page.end = (uint32_t)snic_min_u64(req->page.end, cut);
    }
    /* What was dirty stays so, and what was not there is forgotten. */
    if (cut != 0 && hcachelink_unlock(h, req, SNIC_HCACHE_UNLOCK_KEEP) != 0)
        return hcachelink_end(req, SNIC_EIO);
    return hcachelink_end(req, 0);
}

static int hcachelink_forget(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req)
{
    uint64_t last =
        req->length == 0 ? UINT64_MAX : (req->offset + req->length - 1) >> h->page_shift;
    if (req->step == HCACHELINK_GO) {
        req->at = req->offset >> h->page_shift;
        req->step = HCACHELINK_BEHIND;
    }
    return hcachelink_drop(h, req, last) ? hcachelink_end(req, 0) : 0;
}

int hcachelink_req_run(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req)
{
    switch (req->op) {
    case SNIC_HCACHELINK_READ:
        return hcachelink_read(h, req);
    case SNIC_HCACHELINK_WRITE:
        return hcachelink_write(h, req);
    case SNIC_HCACHELINK_TRUNCATE:
        return hcachelink_truncate(h, req);
    case SNIC_HCACHELINK_DROP:
        return hcachelink_forget(h, req);
    default:
        return hcachelink_request(h, req, HCACHELINK_FSYNC);
    }
}

int hcachelink_req_answered(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                            int32_t result)
{
    hcachelink_moved(req);
    if (result < 0) {
        hcachelink_req_abort(h, req, result);
        return 1;
    }
    if (req->step == HCACHELINK_READ) {
        req->step = HCACHELINK_FILLED;
        return hcachelink_req_run(h, req);
    }
    if (req->step == HCACHELINK_TRUNCATE) {
        req->step = HCACHELINK_BEHIND_AGAIN;
        req->at = hcachelink_behind(h, req->length);
        return hcachelink_req_run(h, req);
    }
    return hcachelink_end(req, 0);
}

void hcachelink_req_message(const struct snic_hcachelink_req *req, struct hcachelink_message *m)
{
    *m = (struct hcachelink_message){.type = (uint16_t)req->step, .ino = req->ino};
    if (req->step == HCACHELINK_READ) {
        m->a = req->page.lpn;
        m->b = req->page.index;
        m->c = req->op == SNIC_HCACHELINK_READ;
    } else if (req->step == HCACHELINK_TRUNCATE) {
        m->a = req->length;
    } else if (req->op == SNIC_HCACHELINK_FLUSH) {
        m->a = 1;
    }
}

void hcachelink_req_abort(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req,
                          int result)
{
    if (req->page.held != 0) /* what was not there is forgotten, else it is as it was */
        (void)hcachelink_unlock(h, req, SNIC_HCACHE_UNLOCK_KEEP);
    req->result = result;
}
