/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The steps of a call: wait for calls before it, get the size, flush what is dirty, send times to
 * the store, use pages or the link, drop or fill the pages of its range, answer. kc_run() resumes
 * at c->cached.step; the event that a call waits for calls kc_ready().
 */
#include "cache_priv.h"

#include <time.h>

struct snic_fsop_time kc_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (struct snic_fsop_time){.sec = t.tv_sec, .nsec = (uint32_t)t.tv_nsec};
}

/* ---- Requests of hcachelink ---- */

static void step_asked(struct snic_hcachelink_req *req)
{
    struct km_call *c = SNIC_CONTAINER(req, struct km_call, cached.req);
    struct km_cache *k = c->m->cache;

    k->busy--;
    kc_ready(k, c);
    kc_pump(k);
}

int kc_ask(struct km_cache *k, struct km_call *c, uint32_t op, uint64_t ino, uint8_t then)
{
    struct snic_hcachelink_req *req = &c->cached.req;
    int rc = SNIC_EPIPE;

    req->op = op;
    req->ino = ino;
    req->done = step_asked;
    c->cached.step = then;
    if (k->half != NULL && !k->over)
        rc = snic_hcachelink_submit(k->half, req);
    if (rc < 0)
        req->result = rc;
    if (rc == 0)
        k->busy++;
    return rc != 0;
}

/* The region has gone meanwhile. */
static int step_gone(int64_t result)
{
    return result == SNIC_EPEERDEAD || result == SNIC_EPIPE;
}

/* ---- Size ---- */

static void step_learn(struct kc_inode *i, const struct snic_fsop_attr *a)
{
    i->size = a->size;
    i->sized = 1;
    if (i->due != 0)
        return;
    i->atime = a->atime;
    i->mtime = a->mtime;
    i->ctime = a->ctime;
    i->timed = 1;
}

static int step_changing(const struct kc_inode *i)
{
    for (const struct snic_link *l = i->calls.next; l != &i->calls; l = l->next)
        if (SNIC_CONTAINER(l, const struct km_cached, link)->kind == KC_CHANGE)
            return 1;
    return 0;
}

/* KC3: is the answer to a request that was sent at @p changes still valid? */
static int step_believes(const struct km_cache *k, const struct kc_inode *i, uint64_t changes)
{
    return k->state == KC_ON && !i->dirty && i->changes == changes && !step_changing(i);
}

static void step_sized(struct km_call *f)
{
    struct km_call *c = f->cached.owner;
    struct km_cache *k = f->m->cache;
    struct kc_inode *i = c->cached.inode;

    if (f->r.k.result < 0) {
        c->r.k.result = f->r.k.result;
        c->cached.step = KC_END;
    } else if (step_believes(k, i, f->cached.changes)) {
        step_learn(i, &f->r.k.attr);
    }
    kc_own_end(k, f);
    kc_ready(k, c);
    kc_pump(k);
}

/* A READ that no page is to be filled for. */
static void step_by_link(struct km_call *c)
{
    c->cached.by_link = 1;
    c->cached.wants = KC_WANTS_FLUSH;
    c->cached.step = KC_FLUSH;
}

/* @return 1: it is known, or of no use */
static int step_size(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;
    struct km_call *f;

    if ((c->cached.wants & KC_WANTS_SIZE) == 0 || i->sized || k->state != KC_ON)
        return 1;
    if (step_changing(i)) { /* the answer could be outdated on arrival */
        step_by_link(c);
        return 1;
    }
    f = kc_own(k, c, SNIC_FSOP_GETATTR, i->ino);
    if (f == NULL) {
        c->r.k.result = SNIC_ENOMEM;
        c->cached.step = KC_END;
        return 1;
    }
    f->cached.changes = i->changes;
    kc_lower(f, step_sized);
    return 0;
}

/* ---- What is dirty ---- */

/* Once a second at most. */
static void step_complain(struct km_cache *k, const struct kc_inode *i, int32_t error)
{
    uint64_t now = snic_loop_now(k->m->loop);

    k->flush_errors++;
    if (k->said_ns != 0 && now - k->said_ns < 1000000000u)
        return;
    ex_log(EX_ERROR,
           "inode %llu: the store refuses cached writes: %s; the next fsync or close reports the "
           "error, and then they are dropped (refusals since the last such line: %llu)",
           (unsigned long long)i->ino, snic_strerror(error),
           (unsigned long long)(k->flush_errors - k->flush_errors_said));
    k->flush_errors_said = k->flush_errors;
    k->said_ns = now;
}

/* KC6 */
static void step_refused(struct km_cache *k, struct kc_inode *i, int32_t error)
{
    uint64_t now = snic_loop_now(k->m->loop);

    step_complain(k, i, error);
    i->refused = error;
    i->refused_ns = now + KC_REFUSED_NS;
    if (error != SNIC_ENOSPC || now < k->full_ns)
        return;
    k->full_wait = k->full_wait == 0 ? KC_FULL_NS : snic_min_u64(2 * k->full_wait, KC_FULL_MOST_NS);
    k->full_ns = now + k->full_wait;
}

static void step_accepted(struct km_cache *k, const struct km_call *c, struct kc_inode *i)
{
    kc_inode_flushed(k, i, c->cached.unflushed, c->cached.pages);
    i->refused_ns = 0;
    if (snic_loop_now(k->m->loop) >= k->full_ns)
        k->full_wait = 0;
    if (i->written == c->cached.written) /* KC4 */
        kc_inode_dirty(k, i, 0);
}

/* It makes room: a full store is no reason to refuse it. */
static int step_shrinks(const struct km_call *c, const struct kc_inode *i)
{
    const struct snic_fsop *r = &c->r.k;

    if (c->cached.kind != KC_CHANGE)
        return 0;
    if (r->kind == SNIC_FSOP_FALLOCATE)
        return (r->flags & SNIC_FSOP_FALLOC_PUNCH) != 0;
    return r->kind == SNIC_FSOP_SETATTR && i->sized && r->attr.size < i->size;
}

/* It was tried just now, for another request that could do without as little. */
static int step_hopeless(const struct km_cache *k, const struct km_call *c,
                         const struct kc_inode *i)
{
    return (c->cached.wants & (KC_WANTS_ERROR | KC_WANTS_ZERO)) == 0 &&
           c->cached.kind != KC_SWEEP && !step_shrinks(c, i) &&
           snic_loop_now(k->m->loop) < i->refused_ns;
}

/* @return 1: continue; 0: it waits */
static int step_flush(struct km_cache *k, struct km_call *c, struct kc_inode *i, uint8_t then)
{
    if ((c->cached.wants & KC_WANTS_FLUSH) == 0 || i == NULL || !i->dirty) {
        c->cached.step = (uint8_t)(then + 1);
        return 1;
    }
    if (k->state != KC_ON && c->cached.kind != KC_SWEEP) {
        kc_hold(k, c);
        return 0;
    }
    if (step_hopeless(k, c, i)) {
        c->cached.error = i->refused;
        c->cached.step = (uint8_t)(then + 1);
        return 1;
    }
    c->cached.written = i->written;
    c->cached.unflushed = i->unflushed;
    c->cached.pages = i->pages;
    return kc_ask(k, c, SNIC_HCACHELINK_FLUSH, i->ino, then);
}

static int step_flushed(struct km_cache *k, struct km_call *c, struct kc_inode *i)
{
    int64_t result = c->cached.req.result;

    if (step_gone(result)) {
        if (c->cached.kind == KC_SWEEP)
            c->cached.step = KC_END;
        else
            kc_hold(k, c);
        return c->cached.kind == KC_SWEEP;
    }
    c->cached.step++;
    if (result < 0) {
        c->cached.error = (int32_t)result;
        step_refused(k, i, (int32_t)result);
    } else if (i->dirty) {
        step_accepted(k, c, i);
    }
    return 1;
}

/* The flush failed. The pages are dropped if the call discards the bytes anyway, reports the error,
   is the sweep of a cache that is left, or frees space in a full store; else they are kept. */
static int step_forget(struct km_cache *k, struct km_call *c)
{
    int goes = (c->cached.wants & (KC_WANTS_ZERO | KC_WANTS_ERROR)) != 0 ||
               c->cached.kind == KC_SWEEP ||
               (c->cached.error == SNIC_ENOSPC && step_shrinks(c, c->cached.inode));

    if (c->cached.error == 0 || !goes) {
        c->cached.step = KC_TIMES;
        return 1;
    }
    c->cached.req.offset = 0;
    c->cached.req.length = 0;
    return kc_ask(k, c, SNIC_HCACHELINK_DROP, c->cached.inode->ino, KC_FORGETTING);
}

static int step_forgot(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;

    if (step_gone(c->cached.req.result) && c->cached.kind != KC_SWEEP) {
        kc_hold(k, c);
        return 0;
    }
    c->cached.step = KC_TIMES;
    if (c->cached.req.result == 0 && (c->cached.wants & KC_WANTS_ZERO) == 0) {
        kc_inode_fail(k, i, c->cached.error);
        if (c->r.k.kind != SNIC_FSOP_RELEASE && c->cached.kind != KC_SWEEP)
            km_session_doubt(k->m, i->ino);
    } else if (c->cached.req.result == 0)
        kc_inode_dirty(k, i, 0);
    if ((c->cached.wants & KC_WANTS_ERROR) == 0)
        c->cached.error = 0;
    return 1;
}

/* ---- Times ---- */

static void step_timed(struct km_call *f)
{
    struct km_call *c = f->cached.owner;
    struct km_cache *k = f->m->cache;
    struct kc_inode *i = c->cached.inode;

    if (i->touched == f->cached.changes)
        kc_inode_due(k, i, 0);
    kc_own_end(k, f);
    kc_ready(k, c);
    kc_pump(k);
}

static int step_times(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;
    struct km_call *f;

    c->cached.step = c->cached.kind == KC_SWEEP ? KC_END : KC_GO;
    if ((c->cached.wants & KC_WANTS_TIMES) == 0 || i->due == 0)
        return 1;
    f = kc_own(k, c, SNIC_FSOP_SETATTR, i->ino);
    if (f == NULL)
        return 1; /* the next call sends them */
    f->r.k.set_mask = i->due | SNIC_FSOP_SET_CTIME;
    f->r.k.attr.atime = i->atime;
    f->r.k.attr.mtime = i->mtime;
    f->r.k.attr.ctime = i->ctime;
    f->cached.changes = i->touched;
    kc_lower(f, step_timed);
    return 0;
}

/* ---- By the link ---- */

/* What the answer means for the size. */
static void step_changed(struct km_cache *k, struct km_call *c)
{
    const struct snic_fsop *r = &c->r.k;
    struct kc_inode *i = c->cached.inode;
    uint64_t end = 0;

    i->timed = 0;
    switch (r->kind) {
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_SETATTR:
        if (r->result == 0 && k->state == KC_ON)
            step_learn(i, &r->attr);
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
        kc_inode_due(k, i, i->due & SNIC_FSOP_SET_ATIME);
        i->touched++;
    }
}

static void step_opened(struct km_cache *k, struct km_call *c)
{
    const struct snic_fsop *r = &c->r.k;
    struct kc_inode *i = c->cached.inode;
    uint32_t *told = remote_told(k->m->remote, c);

    if (r->result != 0)
        return;
    if (r->kind == SNIC_FSOP_CREATE) {
        i = kc_inode_get(k, r->attr.ino);
        if (i == NULL)
            return;
        if (i->opens != 0 || i->refs != 0) { /* it was there */
            i->changes++;
            i->sized = i->sized && i->dirty;
        } else if (k->state == KC_ON && !i->dirty) {
            step_learn(i, &r->attr);
        }
    } else if (c->cached.kind != KC_CHANGE && step_believes(k, i, c->cached.changes)) {
        step_learn(i, &r->attr);
    }
    i->opens++;
    if (told != NULL) /* a loss that was not reported yet counts, too */
        *told = i->lost - (i->lost != 0 && !i->told);
}

static void step_home(struct km_call *c);

/* Attributes that were read before the last sizes came from a region that is gone since: they are
   read again, since the cache has no newer sizes for them any more. */
static int step_overtaken(struct km_cache *k, struct km_call *c)
{
    uint32_t kind = c->r.k.kind;

    if (c->cached.regions == k->regions ||
        (kind != SNIC_FSOP_GETATTR && kind != SNIC_FSOP_LOOKUP && kind != SNIC_FSOP_READDIR))
        return 0;
    c->cached.regions = k->regions;
    kc_lower(c, step_home);
    return 1;
}

/* The link's answer has arrived. Its data has to be used now. */
static void step_home(struct km_call *c)
{
    struct km_cache *k = c->m->cache;
    struct snic_fsop *r = &c->r.k;

    if (step_overtaken(k, c))
        return;
    c->cached.home = NULL;
    if (c->cached.kind == KC_CHANGE)
        step_changed(k, c);
    if (r->kind == SNIC_FSOP_OPEN || r->kind == SNIC_FSOP_CREATE)
        step_opened(k, c);
    if (r->kind == SNIC_FSOP_SETATTR && r->result == 0 && c->cached.inode != NULL)
        kc_inode_due(k, c->cached.inode, c->cached.inode->due & ~r->set_mask);
    if (r->kind == SNIC_FSOP_RELEASE && c->cached.inode != NULL && c->cached.inode->opens > 0)
        c->cached.inode->opens--;
    if (c->cached.kind == KC_CHANGE && k->state == KC_ON) {
        c->cached.step = KC_DROP;
        kc_ready(k, c);
    } else {
        kc_end(k, c);
    }
    kc_pump(k);
}

/* What is dirty could not be written out. Can the call do without? A reader reads it here. */
static int step_bears(struct km_call *c)
{
    struct km_cached *d = &c->cached;

    if (d->kind != KC_AFTER && d->kind != KC_READ)
        return 0;
    if (d->kind == KC_READ) {
        d->by_link = !d->inode->sized;
        if (d->by_link)
            return 0;
    }
    if ((d->wants & KC_WANTS_ERROR) == 0)
        d->error = 0;
    return 1;
}

/* @return 1: it is done; 0: later */
static int step_go(struct km_cache *k, struct km_call *c)
{
    c->cached.step = KC_SENT;
    if (c->cached.error != 0 && !step_bears(c)) {
        c->r.k.result = c->cached.error;
        c->cached.step = KC_END;
        return 1;
    }
    if ((c->cached.kind == KC_READ && !c->cached.by_link) || c->cached.kind == KC_WRITE) {
        c->cached.step = KC_GO;
        if (k->state != KC_ON && !(c->cached.kind == KC_WRITE && c->cached.paging)) {
            kc_hold(k, c);
            return 0;
        }
        if (c->cached.kind == KC_READ && !c->cached.inode->sized) {
            c->cached.step = KC_SIZE;
            return 1;
        }
        if (c->cached.kind == KC_WRITE && !c->cached.inode->sized && !c->cached.paging) {
            kc_again(k, c); /* what it waited for has made the size unknown */
            return 0;
        }
        return c->cached.kind == KC_READ ? kc_read(k, c) : kc_write(k, c);
    }
    if (c->cached.kind == KC_CHANGE || c->r.k.kind == SNIC_FSOP_READ)
        k->around++;
    kc_lower(c, step_home);
    return 0;
}

/* ---- Pages of what was changed ---- */

static int step_drop(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;
    uint64_t first = c->cached.first;

    c->cached.step = KC_END;
    if (k->state != KC_ON)
        return 1;
    if (c->r.k.kind == SNIC_FSOP_WRITE && !kc_patch(k, c))
        return 1;
    if (c->r.k.kind == SNIC_FSOP_SETATTR && c->r.k.result == 0)
        first = c->r.k.attr.size >> KC_PAGE_SHIFT;
    if (first > SNIC_KVFS_SIZE_MAX >> KC_PAGE_SHIFT)
        return 1; /* nothing is there */
    c->cached.req.offset = first << KC_PAGE_SHIFT;
    c->cached.req.length = c->cached.last >= SNIC_KVFS_SIZE_MAX >> KC_PAGE_SHIFT
                               ? 0
                               : (c->cached.last - first + 1) << KC_PAGE_SHIFT;
    return kc_ask(k, c, SNIC_HCACHELINK_DROP, i->ino, KC_DROPPING);
}

static int step_dropped(struct km_cache *k, struct km_call *c)
{
    int64_t result = c->cached.req.result;

    c->cached.step = KC_END;
    if (result < 0 &&
        !step_gone(result)) { /* a page is held for ever: begin with an empty region */
        ex_log(EX_ERROR, "inode %llu: cannot drop its pages from the cache: %s",
               (unsigned long long)c->cached.inode->ino, snic_strerror((int)result));
        k->reason = (int)result;
        kc_tidy(k);
    }
    return 1;
}

/* ---- The end ---- */

/* An fsync() reports each loss once; a close() reports it until an fsync() has, since it may be
   that of a process that ends and ignores the result. */
static void step_tell(struct km_cache *k, struct km_call *c, struct kc_inode *i)
{
    uint32_t *told = remote_told(k->m->remote, c);
    int news = told == NULL ? !i->told && i->lost != 0 : *told != i->lost;

    if (c->r.k.result == 0)
        c->r.k.result = c->cached.error != 0 ? c->cached.error : news ? i->error : 0;
    if (c->r.k.result >= 0)
        return;
    i->told = 1;
    if (told != NULL && c->r.k.kind == SNIC_FSOP_FSYNC)
        *told = i->lost;
}

void kc_end(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;
    struct snic_fsop *r = &c->r.k;

    if ((c->cached.wants & KC_WANTS_ERROR) != 0 && i != NULL && r->kind != SNIC_FSOP_RELEASE)
        step_tell(k, c, i);
    if (c->cached.done != 0) /* a WRITE whose rest went by the link, or failed there */
        r->result = (int64_t)c->cached.done + (r->result > 0 ? r->result : 0);
    kc_detach(k, c);
    if (c->cached.kind == KC_SWEEP) {
        k->sweeps--;
        kc_own_end(k, c);
        kc_tidy(k);
        return;
    }
    km_call_done(c);
}

static int step_begin(struct km_cache *k, struct km_call *c)
{
    struct km_cached *d = &c->cached;

    if (!d->active && !kc_may_begin(c))
        return 0;
    d->active = 1;
    if (c->r.k.kind == SNIC_FSOP_READ && d->kind == KC_READ && k->state == KC_ON &&
        (c->r.k.flags & (SNIC_FSOP_DIRECT | SNIC_FSOP_NOATIME)) != 0) {
        if (d->inode->sized && kc_try(k, c)) {
            d->step = KC_END;
            return 1;
        }
        step_by_link(c);
        return 1;
    }
    d->step = KC_SIZE;
    return 1;
}

void kc_run(struct km_cache *k, struct km_call *c)
{
    int on = 1;

    while (on) {
        switch (c->cached.step) {
        case KC_BEGIN:
            on = step_begin(k, c);
            break;
        case KC_SIZE:
            on = step_size(k, c);
            if (on && c->cached.step == KC_SIZE)
                c->cached.step = KC_FLUSH;
            break;
        case KC_FLUSH:
            on = step_flush(k, c, c->cached.inode, KC_FLUSHING);
            break;
        case KC_FLUSHING:
            on = step_flushed(k, c, c->cached.inode);
            break;
        case KC_FLUSH_OTHER:
            on = step_flush(k, c, c->cached.other, KC_FLUSHING_OTHER);
            break;
        case KC_FLUSHING_OTHER:
            on = step_flushed(k, c, c->cached.other);
            break;
        case KC_FORGET:
            on = step_forget(k, c);
            break;
        case KC_FORGETTING:
            on = step_forgot(k, c);
            break;
        case KC_TIMES:
            on = step_times(k, c);
            break;
        case KC_GO:
        case KC_PAGES:
            on = step_go(k, c);
            break;
        case KC_DROP:
            on = step_drop(k, c);
            break;
        case KC_DROPPING:
            on = step_dropped(k, c);
            break;
        case KC_END:
            kc_end(k, c);
            return;
        default: /* KC_SENT: the link has it */
            return;
        }
    }
}
