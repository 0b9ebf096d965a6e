/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What is known of a file: size and times, how much of it is dirty, and losses that its handles
 * report. An inode is known while it is open, has requests, or has something that the file system
 * does not have.
 */
#include "snicstore/fscache.h"

#include "fscache/fscache_priv.h"

static struct snic_fscache__inode **fscache_inode_slot(struct snic_fscache *fc, uint64_t ino)
{
    struct snic_fscache__inode **at = &fc->inodes[(ino * UINT64_C(0x9e3779b97f4a7c15)) >> 50];

    SNIC_STATIC_ASSERT(FSCACHE_HASH == 1 << 14, "the hash's bits");
    while (*at != NULL && (*at)->ino != ino)
        at = &(*at)->next;
    return at;
}

struct snic_fscache__inode *fscache_inode_find(const struct snic_fscache *fc, uint64_t ino)
{
    return *fscache_inode_slot((struct snic_fscache *)(uintptr_t)fc, ino);
}

struct snic_fscache__inode *fscache_inode_get(struct snic_fscache *fc, uint64_t ino)
{
    struct snic_fscache__inode **at = fscache_inode_slot(fc, ino);
    struct snic_fscache__inode *i = *at;

    if (i != NULL)
        return i;
    i = fc->free_inodes;
    if (i != NULL)
        fc->free_inodes = i->next;
    else if (fc->pool_used < fc->opts.inodes_max)
        i = &fc->pool[fc->pool_used++];
    else
        return NULL;
    memset(i, 0, sizeof(*i));
    i->ino = ino;
    snic_link_init(&i->reqs);
    *at = i;
    return i;
}

static void fscache_inode_put(struct snic_fscache *fc, struct snic_fscache__inode *i)
{
    if (i->refs != 0 || i->opens != 0 || i->dirty || i->due != 0)
        return;
    if (i->losses != 0 && !i->reported) /* by no handle: FSYNC of the file has to */
        fc->opts.ops.lost(fc->opts.ctx, i->ino);
    *fscache_inode_slot(fc, i->ino) = i->next;
    i->next = fc->free_inodes;
    fc->free_inodes = i;
}

void fscache_inode_ref(struct snic_fscache__inode *i)
{
    i->refs++;
}

void fscache_inode_unref(struct snic_fscache *fc, struct snic_fscache__inode *i)
{
    SNIC_ASSERT(i->refs > 0);
    i->refs--;
    fscache_inode_put(fc, i);
}

void fscache_inode_each(struct snic_fscache *fc,
                        void (*fn)(struct snic_fscache *fc, struct snic_fscache__inode *i))
{
    for (uint32_t s = 0; s < FSCACHE_HASH; s++) {
        struct snic_fscache__inode *i = fc->inodes[s];

        while (i != NULL) {
            struct snic_fscache__inode *next = i->next;

            fscache_inode_ref(i);
            fn(fc, i);
            fscache_inode_unref(fc, i);
            i = next;
        }
    }
}

/* ---- What the file system does not have ---- */

static int fscache_inode_marked(const struct snic_fscache__inode *i)
{
    return i->dirty || i->due != 0;
}

void fscache_inode_due(struct snic_fscache *fc, struct snic_fscache__inode *i, uint32_t due)
{
    int was = fscache_inode_marked(i);

    i->due = due;
    fc->marked += (uint64_t)fscache_inode_marked(i) - (uint64_t)was;
}

void fscache_inode_wrote(struct snic_fscache *fc, struct snic_fscache__inode *i, uint64_t bytes,
                         uint64_t pages)
{
    i->unflushed += bytes;
    fc->unflushed += bytes;
    i->unflushed_pages += pages;
    fc->unflushed_pages += pages;
}

void fscache_inode_flushed(struct snic_fscache *fc, struct snic_fscache__inode *i, uint64_t bytes,
                           uint64_t pages)
{
    bytes = snic_min_u64(bytes, i->unflushed);
    pages = snic_min_u64(pages, i->unflushed_pages);
    i->unflushed -= bytes;
    fc->unflushed -= bytes;
    i->unflushed_pages -= pages;
    fc->unflushed_pages -= pages;
    i->last_page = 0;
}

void fscache_inode_dirty(struct snic_fscache *fc, struct snic_fscache__inode *i, int dirty)
{
    int was = fscache_inode_marked(i);

    fc->stats.dirty_inodes += (uint64_t)dirty - i->dirty;
    i->dirty = (uint8_t)dirty;
    if (!dirty)
        fscache_inode_flushed(fc, i, i->unflushed, i->unflushed_pages);
    fc->marked += (uint64_t)fscache_inode_marked(i) - (uint64_t)was;
}

/* ---- Losses ---- */

void fscache_report(const struct snic_fscache *fc, const struct snic_fscache_report *r)
{
    if (fc->opts.ops.report != NULL)
        fc->opts.ops.report(fc->opts.ctx, r);
}

void fscache_inode_lose(struct snic_fscache *fc, struct snic_fscache__inode *i)
{
    const struct snic_fscache_report r = {.kind = SNIC_FSCACHE_LOST, .ino = i->ino};

    if (!i->dirty)
        return;
    fscache_report(fc, &r);
    fscache_inode_dirty(fc, i, 0);
    fscache_inode_due(fc, i, 0);
    i->sized = 0;
    fc->opts.ops.lost(fc->opts.ctx, i->ino);
}

void fscache_inode_fail(struct snic_fscache *fc, struct snic_fscache__inode *i, int32_t error)
{
    SNIC_ASSERT(error < 0);
    i->losses++;
    i->error = error;
    i->reported = 0;
    i->sized = 0;
    i->timed = 0;
    i->changes++; /* FC3: answers with a size that are on their way are from before */
    fc->stats.lost_inodes++;
    fscache_inode_dirty(fc, i, 0);
    fscache_inode_due(fc, i, 0);
}

/* ---- Attributes ---- */

struct snic_fsop_time fscache_now(const struct snic_fscache *fc)
{
    int64_t ns = fc->opts.ops.wall(fc->opts.ctx);
    int64_t part = ns % 1000000000;

    part += part < 0 ? 1000000000 : 0; /* before 1970 */
    return (struct snic_fsop_time){.sec = (ns - part) / 1000000000, .nsec = (uint32_t)part};
}

void fscache_inode_learn(struct snic_fscache__inode *i, const struct snic_fsop_attr *a)
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

/* Space as it will be: what was written behind the store's end, or, into holes, at least that. */
static void fscache_inode_space(const struct snic_fscache__inode *i, struct snic_fsop_attr *a)
{
    uint64_t more = snic_align_up(i->unflushed, FSCACHE_PAGE);
    uint64_t grown = i->size > a->size ? snic_align_up(i->size - a->size, FSCACHE_PAGE) : 0;

    a->space = snic_max_u64(a->space + snic_min_u64(grown, more), more);
}

void snic_fscache_amend(const struct snic_fscache *fc, struct snic_fsop_attr *a)
{
    const struct snic_fscache__inode *i;

    if (fc->marked == 0 && fc->state == FSCACHE_OFF)
        return;
    i = fscache_inode_find(fc, a->ino);
    if (i == NULL)
        return;
    if (i->dirty) {
        fscache_inode_space(i, a);
        a->size = snic_max_u64(a->size, i->size);
    }
    if (i->sized) /* FC3; the answer may have been overtaken */
        a->size = i->size;
    if ((i->due & SNIC_FSOP_SET_ATIME) != 0)
        a->atime = i->atime;
    if ((i->due & SNIC_FSOP_SET_MTIME) != 0)
        a->mtime = i->mtime;
    if ((i->due & SNIC_FSOP_SET_CTIME) != 0)
        a->ctime = i->ctime;
}
