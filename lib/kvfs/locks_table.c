/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table of advisory locks: files, with their held and waiting items (locks_priv.h). */
#include "kvfs/locks_priv.h"

/* ---- Memory ---- */

static struct kvfs_locks *kvfs_locks_place(struct snic_arena *a, const struct snic_kvfs_opts *o,
                                           struct kvfs_locks *measured)
{
    struct kvfs_locks *l = snic_arena_take(a, 1, sizeof(*l), 64);
    if (l == NULL)
        l = measured;
    l->max = o->locks_max;
    l->slack = 2 * (o->requests_max + KVFS_OWN_MAX);
    l->mask = snic_pow2_up(o->locks_max) - 1;
    l->buckets = snic_arena_take(a, l->mask + 1, sizeof(*l->buckets), 64);
    l->files_pool = snic_arena_take(a, l->max + l->slack, sizeof(*l->files_pool), 64);
    l->items_pool = snic_arena_take(a, l->max + l->slack, sizeof(*l->items_pool), 64);
    return l;
}

size_t kvfs_locks_memsize(const struct snic_kvfs_opts *o)
{
    struct kvfs_locks measured;
    struct snic_arena a = {.base = NULL};
    (void)kvfs_locks_place(&a, o, &measured);
    return a.used == SIZE_MAX ? SIZE_MAX : (size_t)snic_align_up(a.used, 64);
}

static void kvfs_locks_empty(struct kvfs_locks *l)
{
    memset(l->buckets, 0, (size_t)(l->mask + 1) * sizeof(*l->buckets));
    snic_link_init(&l->items_free);
    snic_link_init(&l->files);
    snic_link_init(&l->waiting);
    l->files_free = NULL;
    l->count = 0;
    for (uint32_t i = 0; i < l->max + l->slack; i++) {
        snic_link_append(&l->items_free, &l->items_pool[i].link);
        snic_link_init(&l->items_pool[i].all);
        l->files_pool[i].next = l->files_free;
        l->files_free = &l->files_pool[i];
    }
    l->publishing = 0;
    l->publish_error = 0;
    l->shared = 0;
}

void kvfs_locks_init(struct kvfs_locks *locks, const struct snic_kvfs_opts *o)
{
    struct snic_arena a = {.base = (unsigned char *)locks, .size = kvfs_locks_memsize(o)};
    struct kvfs_locks *l = kvfs_locks_place(&a, o, locks);
    SNIC_ASSERT(l == locks && a.used != SIZE_MAX);
    snic_link_init(&l->publishers);
    l->session = 0;
    l->search = 0;
    kvfs_locks_empty(l);
}

struct kvfs_locks *kvfs_locks_table(struct snic_kvfs *k)
{
    struct kvfs_locks *l = k->locks;
    if (l->session != k->session.id) {
        while (!snic_link_alone(&l->files)) {
            struct kvfs_lock_file *f = SNIC_CONTAINER(l->files.next, struct kvfs_lock_file, all);
            kvfs_wake_all(&f->sleepers);
            snic_link_remove(&f->all);
        }
        kvfs_wake_all(&l->publishers);
        kvfs_locks_empty(l);
        l->session = k->session.id;
    }
    if (!kvfs_alone(k) && (k->o.flags & SNIC_KVFS_READ_ONLY) == 0)
        l->shared = 1;
    return l;
}

/* ---- Files and items ---- */

static struct kvfs_lock_file **kvfs_locks_bucket(const struct kvfs_locks *l, uint64_t ino)
{
    return &l->buckets[((ino * 0x9e3779b97f4a7c15ULL) >> 32) & l->mask];
}

struct kvfs_lock_file *kvfs_locks_find(const struct kvfs_locks *l, uint64_t ino)
{
    struct kvfs_lock_file *f = *kvfs_locks_bucket(l, ino);
    while (f != NULL && f->ino != ino)
        f = f->next;
    return f;
}

struct kvfs_lock_file *kvfs_locks_file(struct kvfs_locks *l, uint64_t ino)
{
    struct kvfs_lock_file **bucket = kvfs_locks_bucket(l, ino), *f = kvfs_locks_find(l, ino);
    if (f != NULL || l->files_free == NULL)
        return f;
    f = l->files_free;
    l->files_free = f->next;
    f->ino = ino;
    f->stored = 0;
    f->stale = 0;
    f->next = *bucket;
    *bucket = f;
    snic_link_init(&f->held);
    snic_link_init(&f->waiting);
    snic_link_init(&f->sleepers);
    snic_link_append(&l->files, &f->all);
    return f;
}

void kvfs_locks_file_put(struct kvfs_locks *l, struct kvfs_lock_file *f)
{
    struct kvfs_lock_file **at = kvfs_locks_bucket(l, f->ino);
    if (!snic_link_alone(&f->held) || !snic_link_alone(&f->waiting) ||
        !snic_link_alone(&f->sleepers) || f->stale)
        return;
    while (*at != f) {
        SNIC_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = f->next;
    snic_link_remove(&f->all);
    f->next = l->files_free;
    l->files_free = f;
}

struct kvfs_lock_item *kvfs_locks_item(struct kvfs_locks *l, struct kvfs_lock_file *f,
                                       const struct kvfs_lock_range *r, struct snic_link *list)
{
    struct kvfs_lock_item *i;
    if (snic_link_alone(&l->items_free))
        return NULL;
    i = SNIC_CONTAINER(l->items_free.next, struct kvfs_lock_item, link);
    snic_link_remove(&i->link);
    i->file = f;
    i->r = *r;
    i->op = NULL;
    i->req = NULL;
    i->todo = NULL;
    i->seen = 0;
    i->polls = 0;
    snic_link_append(list, &i->link);
    l->count++;
    return i;
}

void kvfs_locks_item_free(struct kvfs_locks *l, struct kvfs_lock_item *i)
{
    snic_link_remove(&i->link);
    snic_link_remove(&i->all);
    SNIC_ASSERT(l->count > 0);
    snic_link_append(&l->items_free, &i->link);
    l->count--;
}

/* ---- Ranges ---- */

static int kvfs_locks_overlap(const struct kvfs_lock_range *a, const struct kvfs_lock_range *b)
{
    return a->start <= b->end && b->start <= a->end;
}

static int kvfs_locks_touch(const struct kvfs_lock_range *a, const struct kvfs_lock_range *b)
{
    return kvfs_locks_overlap(a, b) || (a->end != UINT64_MAX && a->end + 1 == b->start) ||
           (b->end != UINT64_MAX && b->end + 1 == a->start);
}

int kvfs_locks_conflict(const struct kvfs_lock_range *a, const struct kvfs_lock_range *b)
{
    return a->kind == b->kind && a->owner != b->owner && kvfs_locks_overlap(a, b) &&
           (a->type == SNIC_FSOP_WRLCK || b->type == SNIC_FSOP_WRLCK);
}

struct kvfs_lock_item *kvfs_locks_conflicting(struct kvfs_lock_file *f,
                                              const struct kvfs_lock_range *r)
{
    for (struct snic_link *p = f->held.next; p != &f->held; p = p->next) {
        if (kvfs_locks_conflict(&kvfs_lock_at(p)->r, r))
            return kvfs_lock_at(p);
    }
    return NULL;
}

int kvfs_locks_pieces(const struct kvfs_lock_range *held, const struct kvfs_lock_range *want,
                      struct kvfs_lock_range *sum, struct kvfs_lock_range pieces[2])
{
    int n = 0;
    SNIC_ASSERT(want->start <= want->end && held->start <= held->end);
    pieces[0] = *held;
    if (held->owner != want->owner || held->kind != want->kind || !kvfs_locks_touch(held, want))
        return 1;
    if (held->type == want->type) {
        sum->start = snic_min_u64(sum->start, held->start);
        sum->end = snic_max_u64(sum->end, held->end);
        return 0;
    }
    if (!kvfs_locks_overlap(held, want))
        return 1;
    if (held->start < want->start) {
        pieces[n] = *held;
        pieces[n++].end = want->start - 1;
    }
    if (held->end > want->end) {
        pieces[n] = *held;
        pieces[n++].start = want->end + 1;
    }
    return n;
}

int kvfs_locks_fits(const struct kvfs_locks *l, struct kvfs_lock_file *f,
                    const struct kvfs_lock_range *want)
{
    struct kvfs_lock_range sum = *want, pieces[2];
    int64_t count = (int64_t)l->count + (want->type != SNIC_FSOP_UNLCK);
    if (f == NULL)
        return count <= l->max;
    for (struct snic_link *p = f->held.next; p != &f->held; p = p->next)
        count += kvfs_locks_pieces(&kvfs_lock_at(p)->r, want, &sum, pieces) - 1;
    return count <= l->max || count <= l->count;
}

void kvfs_locks_apply(struct kvfs_locks *l, struct kvfs_lock_file *f,
                      const struct kvfs_lock_range *want)
{
    struct kvfs_lock_range sum = *want, pieces[2];
    struct snic_link *p = f->held.next, *next;
    for (; p != &f->held; p = next) {
        struct kvfs_lock_item *i = kvfs_lock_at(p);
        int n = kvfs_locks_pieces(&i->r, want, &sum, pieces);
        next = p->next;
        if (n == 0) {
            kvfs_locks_item_free(l, i);
            continue;
        }
        i->r = pieces[0];
        if (n == 2) {
            i = kvfs_locks_item(l, f, &pieces[1], &f->held);
            SNIC_ASSERT(i != NULL);
            break; /* nothing else can overlap (1) */
        }
    }
    if (want->type != SNIC_FSOP_UNLCK) {
        struct kvfs_lock_item *i = kvfs_locks_item(l, f, &sum, &f->held);
        SNIC_ASSERT(i != NULL);
    }
    kvfs_wake_all(&f->sleepers);
}

void kvfs_locks_apply_drop(struct kvfs_locks *l, struct kvfs_lock_file *f, uint64_t owner,
                           uint32_t kinds)
{
    struct snic_link *p = f->held.next, *next;
    int any = 0;
    for (; p != &f->held; p = next) {
        struct kvfs_lock_item *i = kvfs_lock_at(p);
        next = p->next;
        if (i->r.owner == owner && (i->r.kind & kinds) != 0) {
            kvfs_locks_item_free(l, i);
            any = 1;
        }
    }
    if (any)
        kvfs_wake_all(&f->sleepers);
}

int kvfs_locks_holds(struct kvfs_lock_file *f, uint64_t owner, uint32_t kinds)
{
    for (struct snic_link *p = f->held.next; p != &f->held; p = p->next) {
        if (kvfs_lock_at(p)->r.owner == owner && (kvfs_lock_at(p)->r.kind & kinds) != 0)
            return 1;
    }
    return 0;
}

/* ---- For tests ---- */

/* Two held in one file: they neither conflict, nor should be merged (1, 2). */
static int kvfs_locks_table_pair(const struct kvfs_lock_range *a, const struct kvfs_lock_range *b)
{
    if (a->kind != b->kind)
        return 0;
    if (a->owner != b->owner)
        return kvfs_locks_conflict(a, b);
    return a->type == b->type ? kvfs_locks_touch(a, b) : kvfs_locks_overlap(a, b);
}

static uint32_t kvfs_locks_table_length(const struct snic_link *list)
{
    uint32_t n = 0;
    for (const struct snic_link *p = list->next; p != list; p = p->next)
        n++;
    return n;
}

int kvfs_locks_check(const struct snic_kvfs *k)
{
    const struct kvfs_locks *l = k->locks;
    uint32_t count = 0;
    for (struct snic_link *p = l->files.next; p != &l->files; p = p->next) {
        struct kvfs_lock_file *f = SNIC_CONTAINER(p, struct kvfs_lock_file, all);
        count += kvfs_locks_table_length(&f->held) + kvfs_locks_table_length(&f->waiting);
        if (kvfs_locks_find(l, f->ino) != f)
            return SNIC_ECORRUPT;
        for (struct snic_link *a = f->held.next; a != &f->held; a = a->next) {
            for (struct snic_link *b = a->next; b != &f->held; b = b->next) {
                if (kvfs_locks_table_pair(&kvfs_lock_at(a)->r, &kvfs_lock_at(b)->r))
                    return SNIC_ECORRUPT;
            }
        }
    }
    return count == l->count && kvfs_locks_table_length(&l->items_free) + count == l->max + l->slack
               ? 0
               : SNIC_ECORRUPT;
}
