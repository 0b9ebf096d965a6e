/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls before the cache: what each of them means for the inode that it is about, and which of them
 * wait for each other. An inode is known here while it is open, or has something that the store has
 * not.
 */
#include "cache_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- Inodes ---- */

static struct kc_inode **cache_slot(struct km_cache *k, uint64_t ino)
{
    struct kc_inode **at = &k->inodes[(ino * UINT64_C(0x9e3779b97f4a7c15)) >> 50];

    SNIC_STATIC_ASSERT(KC_HASH == 1 << 14, "the hash's bits");
    while (*at != NULL && (*at)->ino != ino)
        at = &(*at)->next;
    return at;
}

struct kc_inode *kc_inode_find(const struct km_cache *k, uint64_t ino)
{
    return *cache_slot((struct km_cache *)(uintptr_t)k, ino);
}

struct kc_inode *kc_inode_get(struct km_cache *k, uint64_t ino)
{
    struct kc_inode **at = cache_slot(k, ino);

    if (*at != NULL)
        return *at;
    *at = calloc(1, sizeof(**at));
    if (*at != NULL) {
        (*at)->ino = ino;
        snic_link_init(&(*at)->calls);
    }
    return *at;
}

void kc_inode_put(struct km_cache *k, struct kc_inode *i)
{
    struct kc_inode **at;

    if (i->refs != 0 || i->opens != 0 || i->dirty || i->due != 0)
        return;
    if (i->lost != 0 && !i->told)
        remote_lost_note(k->m->remote, i->ino);
    at = cache_slot(k, i->ino);
    *at = i->next;
    free(i);
}

void kc_inode_ref(struct kc_inode *i)
{
    i->refs++;
}

void kc_inode_unref(struct km_cache *k, struct kc_inode *i)
{
    i->refs--;
    kc_inode_put(k, i);
}

static int cache_marked(const struct kc_inode *i)
{
    return i->dirty || i->due != 0;
}

void kc_inode_due(struct km_cache *k, struct kc_inode *i, uint32_t due)
{
    int was = cache_marked(i);

    i->due = due;
    k->marked += (uint64_t)cache_marked(i) - (uint64_t)was;
}

void kc_inode_wrote(struct km_cache *k, struct kc_inode *i, uint64_t bytes, uint64_t pages)
{
    i->unflushed += bytes;
    k->unflushed += bytes;
    i->pages += pages;
    k->pages += pages;
}

void kc_inode_flushed(struct km_cache *k, struct kc_inode *i, uint64_t bytes, uint64_t pages)
{
    bytes = snic_min_u64(bytes, i->unflushed);
    pages = snic_min_u64(pages, i->pages);
    i->unflushed -= bytes;
    k->unflushed -= bytes;
    i->pages -= pages;
    k->pages -= pages;
    i->last_page = 0;
}

void kc_inode_dirty(struct km_cache *k, struct kc_inode *i, int dirty)
{
    int was = cache_marked(i);

    k->dirty += (uint64_t)dirty - i->dirty;
    i->dirty = (uint8_t)dirty;
    if (!dirty)
        kc_inode_flushed(k, i, i->unflushed, i->pages);
    k->marked += (uint64_t)cache_marked(i) - (uint64_t)was;
}

void kc_inode_lose(struct km_cache *k, struct kc_inode *i)
{
    if (!i->dirty)
        return;
    ex_log(EX_ERROR, "inode %llu: writes in the cache are lost", (unsigned long long)i->ino);
    kc_inode_dirty(k, i, 0);
    kc_inode_due(k, i, 0);
    i->sized = 0;
    remote_lost_note(k->m->remote, i->ino);
}

void kc_inode_fail(struct km_cache *k, struct kc_inode *i, int32_t error)
{
    i->lost++;
    i->error = error;
    i->told = 0;
    i->sized = 0;
    i->timed = 0;
    i->changes++; /* KC3: sizes that are on their way are from before */
    k->lost++;
    kc_inode_dirty(k, i, 0);
    kc_inode_due(k, i, 0);
}

/* Space as it will be: what was written behind the store's end, or, into holes, at least that. */
static void cache_space(const struct kc_inode *i, struct snic_fsop_attr *a)
{
    uint64_t more = snic_align_up(i->unflushed, KC_PAGE);
    uint64_t grown = i->size > a->size ? snic_align_up(i->size - a->size, KC_PAGE) : 0;

    a->space = snic_max_u64(a->space + snic_min_u64(grown, more), more);
}

void km_cache_amend(const struct km *m, struct snic_fsop_attr *a)
{
    const struct kc_inode *i;

    if (m->cache == NULL || (m->cache->marked == 0 && m->cache->state == KC_OFF))
        return;
    i = kc_inode_find(m->cache, a->ino);
    if (i == NULL)
        return;
    if (i->dirty) {
        cache_space(i, a);
        a->size = snic_max_u64(a->size, i->size);
    }
    if (i->sized) /* KC3; the answer may have been overtaken */
        a->size = i->size;
    if ((i->due & SNIC_FSOP_SET_ATIME) != 0)
        a->atime = i->atime;
    if ((i->due & SNIC_FSOP_SET_MTIME) != 0)
        a->mtime = i->mtime;
    if ((i->due & SNIC_FSOP_SET_CTIME) != 0)
        a->ctime = i->ctime;
}

/* ---- Calls that run, or wait ---- */

void kc_ready(struct km_cache *k, struct km_call *c)
{
    if (c->cached.queued)
        return;
    c->cached.queued = 1;
    snic_queue_push(&k->ready, &c->cached.node);
}

void kc_again(struct km_cache *k, struct km_call *c)
{
    kc_detach(k, c);
    kc_admit(k, c);
}

/* What has been held begins again: the cache may be there no more. */
static void cache_restart(struct km_cache *k, struct km_call *c)
{
    if (c->cached.step <= KC_PAGES && c->cached.step != KC_SENT) {
        kc_again(k, c);
    } else {
        kc_ready(k, c);
    }
}

void kc_hold(struct km_cache *k, struct km_call *c)
{
    if (k->state == KC_OFF) { /* what it would wait for has come by now; ON, it will */
        cache_restart(k, c);
        return;
    }
    c->cached.queued = 1;
    snic_queue_push(&k->held, &c->cached.node);
    k->held_count++;
}

void kc_release(struct km_cache *k)
{
    struct snic_queue now = k->held;
    struct snic_node *n;

    k->held = (struct snic_queue){NULL, NULL};
    k->held_count = 0;
    while ((n = snic_queue_pop(&now)) != NULL) {
        struct km_call *c = kc_call_of(n);

        c->cached.queued = 0;
        if (k->died && remote_by_name(&c->r.k)) {
            c->r.k.result = SNIC_ESTALE;
            c->cached.step = KC_END;
            kc_ready(k, c);
        } else {
            cache_restart(k, c);
        }
    }
    k->died = 0;
    kc_pump(k);
}

void kc_pump(struct km_cache *k)
{
    struct snic_node *n;

    if (k->pumping)
        return;
    k->pumping = 1;
    while ((n = snic_queue_pop(&k->ready)) != NULL) {
        kc_call_of(n)->cached.queued = 0;
        kc_run(k, kc_call_of(n));
    }
    k->pumping = 0;
    /* A fetch may have begun between the region's end and the look at it, too (KC5). */
    if (k->busy == 0 && (k->state == KC_LEAVING || (k->over && k->state != KC_DEAD)))
        kc_tidy(k);
}

/* ---- Ranges ---- */

static int cache_conflict(const struct km_cached *a, const struct km_cached *b)
{
    if (a->kind == KC_WRITE && b->kind == KC_WRITE)
        return 1; /* one after the other: each knows where the file ends */
    return (a->kind == KC_CHANGE || b->kind == KC_CHANGE) && a->first <= b->last &&
           b->first <= a->last;
}

static struct km_cached *cache_of(struct snic_link *l)
{
    return SNIC_CONTAINER(l, struct km_cached, link);
}

int kc_may_begin(const struct km_call *c)
{
    struct snic_link *head = &c->cached.inode->calls;
    int behind = 0; /* calls behind it that are active: kc_around() */

    for (struct snic_link *l = head->next; l != head; l = l->next) {
        if (l == &c->cached.link)
            behind = 1;
        else if ((!behind || cache_of(l)->active) && cache_conflict(cache_of(l), &c->cached))
            return 0;
    }
    return 1;
}

static void cache_attach(struct km_call *c, struct kc_inode *i)
{
    c->cached.inode = i;
    kc_inode_ref(i);
    c->cached.changes = i->changes;
    if (c->cached.kind == KC_READ || c->cached.kind == KC_WRITE || c->cached.kind == KC_CHANGE)
        snic_link_append(&i->calls, &c->cached.link);
    else
        c->cached.active = 1;
    if (c->cached.kind == KC_CHANGE)
        i->changes++;
}

void kc_detach(struct km_cache *k, struct km_call *c)
{
    struct kc_inode *i = c->cached.inode;

    if (c->cached.other != NULL)
        kc_inode_unref(k, c->cached.other);
    c->cached.other = NULL;
    if (i == NULL)
        return;
    if (c->cached.kind == KC_CHANGE)
        i->changes++;
    if (c->cached.kind == KC_READ || c->cached.kind == KC_WRITE || c->cached.kind == KC_CHANGE) {
        snic_link_remove(&c->cached.link);
        for (struct snic_link *l = i->calls.next; l != &i->calls; l = l->next) {
            struct km_call *next = SNIC_CONTAINER(cache_of(l), struct km_call, cached);

            if (!next->cached.active && kc_may_begin(next))
                kc_ready(k, next);
        }
    }
    c->cached.inode = NULL;
    c->cached.active = 0;
    kc_inode_unref(k, i);
}

/* ---- What a call is ---- */

static void cache_is(struct km_call *c, enum kc_kind kind, uint32_t wants, uint64_t from,
                     uint64_t bytes)
{
    uint64_t to = bytes == 0 || from + bytes < from ? UINT64_MAX : from + bytes - 1;

    c->cached.kind = (uint8_t)kind;
    c->cached.wants = (uint8_t)wants;
    c->cached.first = from >> KC_PAGE_SHIFT;
    c->cached.last = to >> KC_PAGE_SHIFT;
}

int kc_full(const struct km_cache *k)
{
    return snic_loop_now(k->m->loop) < k->full_ns ||
           (k->half != NULL && snic_hcachelink_refused(k->half) == SNIC_ENOSPC);
}

/* Half of the pages are dirty: by what was written and, for much of that has been flushed since
   without a word, by a look. */
static int cache_half(struct km_cache *k)
{
    uint64_t half = kc_pages_max(k) >> 1;
    uint64_t now = snic_loop_now(k->m->loop);

    if (k->pages < half)
        return 0;
    if (k->counted_ns == 0 || now - k->counted_ns >= KC_COUNT_NS) {
        k->counted = snic_hcache_dirty(&k->hand);
        k->counted_ns = now;
    }
    return k->counted >= half;
}

/* Much is dirty: the writer waits until it is written out, and fails if it cannot be. */
static int cache_crowded(const struct km_cache *k, const struct kc_inode *i)
{
    uint64_t pages = kc_pages_max(k);

    return i->pages >= pages / 4 || (k->pages >= pages / 2 && i->dirty);
}

static void cache_is_write(struct km_cache *k, struct km_call *c, const struct kc_inode *i)
{
    const struct snic_fsop *r = &c->r.k;
    uint32_t not_pages = SNIC_FSOP_DIRECT | SNIC_FSOP_SYNC | SNIC_FSOP_KILL_PRIV;
    int append = (r->flags & SNIC_FSOP_APPEND) != 0;

    if (k->m->config->write_back && k->state == KC_ON && (r->flags & not_pages) == 0 &&
        !kc_full(k) && (i->dirty || !cache_half(k)) && r->length > 0 &&
        r->offset <= KC_END_MAX - r->length && i->sized &&
        (!append || i->size <= KC_END_MAX - r->length))
        cache_is(c, KC_WRITE, cache_crowded(k, i) ? KC_WANTS_FLUSH : 0, append ? 0 : r->offset,
                 append ? 0 : r->length);
    else
        cache_is(c, KC_CHANGE, KC_WANTS_FLUSH, append ? 0 : r->offset, append ? 0 : r->length);
}

static void cache_is_read(const struct km_cache *k, struct km_call *c)
{
    const struct snic_fsop *r = &c->r.k;
    int by_pages =
        k->state != KC_OFF && k->state != KC_OPENING && r->length > 0 && r->offset <= KC_END_MAX;

    if (by_pages)
        cache_is(c, KC_READ, KC_WANTS_SIZE, r->offset, r->length);
    else
        cache_is(c, KC_AFTER, KC_WANTS_FLUSH, 0, 0);
}

/* What a call does to the bytes of an inode, if anything. @return it; 0: none */
static uint64_t cache_about(const struct km_cache *k, struct km_call *c)
{
    const struct snic_fsop *r = &c->r.k;
    uint32_t all = KC_WANTS_FLUSH | KC_WANTS_TIMES;

    switch (r->kind) {
    case SNIC_FSOP_OPEN:
        if ((r->flags & SNIC_FSOP_TRUNC) != 0)
            cache_is(c, KC_CHANGE, all | KC_WANTS_ZERO, 0, 0);
        else
            cache_is(c, KC_AFTER, 0, 0, 0);
        return r->ino;
    case SNIC_FSOP_SETATTR:
        if ((r->set_mask & SNIC_FSOP_SET_SIZE) != 0)
            cache_is(c, KC_CHANGE, all | (r->attr.size == 0 ? KC_WANTS_ZERO : 0), 0, 0);
        else
            cache_is(c, KC_AFTER, all, 0, 0);
        return r->ino;
    case SNIC_FSOP_SETXATTR:
    case SNIC_FSOP_REMOVEXATTR:
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
    case SNIC_FSOP_LINK:
        cache_is(c, KC_AFTER, all, 0, 0);
        return r->ino;
    case SNIC_FSOP_FLUSH: /* a read-only handle does not wait for others' bytes */
        cache_is(c, KC_AFTER, remote_writes(k->m->remote, c) ? all | KC_WANTS_ERROR : 0, 0, 0);
        return r->ino;
    case SNIC_FSOP_RELEASE:
        cache_is(c, KC_AFTER, all | (remote_writes(k->m->remote, c) ? KC_WANTS_ERROR : 0), 0, 0);
        return r->ino;
    case SNIC_FSOP_FSYNC:
        cache_is(c, KC_AFTER, all | KC_WANTS_ERROR, 0, 0);
        return r->ino;
    case SNIC_FSOP_SEEK:
        cache_is(c, KC_AFTER, KC_WANTS_FLUSH, 0, 0);
        return r->ino;
    case SNIC_FSOP_FALLOCATE:
        cache_is(c, KC_CHANGE, all, r->offset, r->length);
        return r->ino;
    case SNIC_FSOP_COPY:
        cache_is(c, KC_CHANGE, all, r->offset2, r->length);
        return r->ino2;
    case SNIC_FSOP_READ:
        cache_is_read(k, c);
        return r->ino;
    case SNIC_FSOP_WRITE:
        return r->ino; /* it depends on the inode */
    default:
        return 0;
    }
}

/* Is the inode one that pages, or sizes, have to be known of? */
static int cache_makes(const struct km_call *c)
{
    return c->cached.kind == KC_CHANGE || c->r.k.kind == SNIC_FSOP_OPEN ||
           c->r.k.kind == SNIC_FSOP_READ || c->r.k.kind == SNIC_FSOP_WRITE;
}

void kc_admit(struct km_cache *k, struct km_call *c)
{
    uint64_t ino;
    struct kc_inode *i;

    c->cached.regions = k->regions;
    c->cached.kind = KC_PASS;
    c->cached.step = KC_BEGIN;
    c->cached.at = 0;
    c->cached.error = 0;
    c->cached.fetched = 0;
    c->cached.missed = 0;
    c->cached.by_link = 0;
    c->cached.paging = 0;
    ino = cache_about(k, c);
    if (ino == 0) {
        c->cached.step = KC_GO;
        kc_ready(k, c);
        return;
    }
    i = cache_makes(c) ? kc_inode_get(k, ino) : kc_inode_find(k, ino);
    if (i == NULL && cache_makes(c)) {
        c->r.k.result = SNIC_ENOMEM;
        c->cached.kind = KC_PASS;
        c->cached.step = KC_END;
    } else if (i == NULL) { /* nothing of it is here */
        c->cached.kind = KC_PASS;
        c->cached.step = KC_GO;
    } else {
        if (c->r.k.kind == SNIC_FSOP_WRITE)
            cache_is_write(k, c, i);
        cache_attach(c, i);
        if (c->r.k.kind == SNIC_FSOP_COPY && c->r.k.ino != ino) {
            c->cached.other = kc_inode_find(k, c->r.k.ino);
            if (c->cached.other != NULL)
                kc_inode_ref(c->cached.other);
        }
    }
    kc_ready(k, c);
}

/* Keeps its place: later calls wait for it still, and it waits for those that are active. */
void kc_around(struct km_cache *k, struct km_call *c, uint64_t done)
{
    struct kc_inode *i = c->cached.inode;
    struct snic_link *at = i->calls.next;

    c->cached.done += done;
    c->iov.base = (unsigned char *)c->iov.base + done;
    c->iov.size -= (size_t)done;
    c->r.k.offset += done;
    c->r.k.length -= done;
    snic_link_remove(&c->cached.link);
    while (at != &i->calls && cache_of(at)->active)
        at = at->next;
    snic_link_append(at, &c->cached.link);
    cache_is(c, KC_CHANGE, KC_WANTS_FLUSH, c->r.k.offset, c->r.k.length);
    i->changes++;
    c->cached.active = 0;
    c->cached.paging = 0;
    c->cached.error = 0;
    c->cached.step = KC_BEGIN;
    kc_ready(k, c);
}

/* ---- The carrier ---- */

void kc_lower(struct km_call *c, void (*home)(struct km_call *c))
{
    c->cached.home = home;
    remote_carrier.submit(c->m, c);
}

static void cache_submit(struct km *m, struct km_call *c)
{
    memset(&c->cached, 0, sizeof(c->cached));
    kc_admit(m->cache, c);
    kc_pump(m->cache);
}

static int cache_cancel(struct km *m, struct km_call *c)
{
    return remote_carrier.cancel(m, c); /* locks: they pass */
}

static const struct km_carrier cache_carrier = {.submit = cache_submit, .cancel = cache_cancel};

int km_cache_open(struct km *m)
{
    struct km_cache *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return SNIC_ENOMEM;
    k->m = m;
    snic_link_init(&k->fetches);
    m->cache = k;
    m->carrier = &cache_carrier;
    return 0;
}

int km_cache_waits(const struct km *m)
{
    return m->cache != NULL && (m->cache->busy != 0 || m->cache->owned != 0);
}

/* ---- Calls of our own ---- */

struct km_call *kc_own(struct km_cache *k, struct km_call *owner, uint32_t kind, uint64_t ino)
{
    struct km_call *f = km_call_get(k->m);

    if (f == NULL)
        return NULL;
    memset(&f->r, 0, sizeof(f->r));
    memset(&f->cached, 0, sizeof(f->cached));
    f->fuse = NULL;
    f->file = NULL;
    f->waits = 0;
    f->size = 0;
    f->data = km_call_data(f);
    f->r.k.kind = kind;
    f->r.k.flags = SNIC_FSOP_CHECKED;
    f->r.k.ino = ino;
    f->cached.owner = owner;
    k->owned++;
    return f;
}

void kc_own_end(struct km_cache *k, struct km_call *f)
{
    k->owned--;
    km_call_put(f);
}
