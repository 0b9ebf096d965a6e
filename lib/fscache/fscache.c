/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Options, memory, and the public functions. */
#include "snicstore/fscache.h"

#include "fscache/fscache_priv.h"

/* ---- Options and memory ---- */

static int fscache_opts_fill(struct snic_fscache_opts *o, const struct snic_fscache_opts *in)
{
    int rc;

    memset(o, 0, sizeof(*o));
    o->opts_size = sizeof(*o);
    rc = snic_opts_copy(o, sizeof(*o), in);
    if (o->inodes_max == 0)
        o->inodes_max = 65536;
    return rc;
}

static const char *fscache_opts_wrong(const struct snic_fscache_opts *o)
{
    const struct snic_fscache_ops *ops = &o->ops;
    struct snic_hcachelink_host_opts half;

    if ((o->flags & ~(SNIC_FSCACHE_WRITE_BACK | SNIC_FSCACHE_PREFETCH | SNIC_FSCACHE_READ_ONLY |
                      SNIC_FSCACHE_NO_ATIME | SNIC_FSCACHE_STRICT_ATIME)) != 0)
        return "flags: unknown bits";
    if (o->inodes_max > SNIC_FSCACHE__INODES_MAX)
        return "inodes_max: not 1..2^30";
    if (o->reserved != 0)
        return "reserved: not 0";
    if (ops->submit == NULL || ops->get == NULL || ops->put == NULL || ops->handle == NULL ||
        ops->by_name == NULL || ops->connect == NULL || ops->lost == NULL || ops->invalid == NULL ||
        ops->wall == NULL)
        return "ops: one that must be set is NULL";
    fscache_half_opts(&half, o);
    if (snic_hcachelink_host_memsize(&half) == 0)
        return "pages_max: not a number of pages that snic_hcache_opts takes";
    return NULL;
}

const char *snic_fscache_opts_wrong(const struct snic_fscache_opts *in)
{
    struct snic_fscache_opts o;

    if (fscache_opts_fill(&o, in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return fscache_opts_wrong(&o);
}

/* The parts of the memory: the cache, its half, inodes. @return bytes */
static size_t fscache_parts(const struct snic_fscache_opts *o, size_t *half, size_t *inodes)
{
    struct snic_hcachelink_host_opts ho;

    fscache_half_opts(&ho, o);
    *half = snic_align_up(sizeof(struct snic_fscache), SNIC_FSCACHE_ALIGN);
    *inodes = *half + snic_align_up(snic_hcachelink_host_memsize(&ho), SNIC_FSCACHE_ALIGN);
    return *inodes + (size_t)o->inodes_max * sizeof(struct snic_fscache__inode);
}

size_t snic_fscache_memsize(const struct snic_fscache_opts *in)
{
    struct snic_fscache_opts o;
    size_t half;
    size_t inodes;

    if (fscache_opts_fill(&o, in) != 0 || fscache_opts_wrong(&o) != NULL)
        return 0;
    return fscache_parts(&o, &half, &inodes);
}

int snic_fscache_init(struct snic_fscache **out, void *mem, size_t size, struct snic_loop *l,
                      const struct snic_fscache_opts *in)
{
    struct snic_fscache *fc = mem;
    struct snic_fscache_opts o;
    size_t half;
    size_t inodes;

    if (fscache_opts_fill(&o, in) != 0 || fscache_opts_wrong(&o) != NULL ||
        (uintptr_t)mem % SNIC_FSCACHE_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < fscache_parts(&o, &half, &inodes))
        return SNIC_ENOSPC;
    memset(fc, 0, sizeof(*fc));
    fc->opts = o;
    fc->loop = l;
    fc->pages_max = o.pages_max;
    fc->half_memory = (unsigned char *)mem + half;
    fc->half_bytes = inodes - half;
    fc->pool = (struct snic_fscache__inode *)(void *)((unsigned char *)mem + inodes);
    fc->review.fn = fscache_region_review;
    fc->paged = fscache_paged;
    snic_link_init(&fc->fetches);
    *out = fc;
    return 0;
}

void *snic_fscache_fini(struct snic_fscache *fc)
{
    SNIC_ASSERT(fc->closing);
    SNIC_ASSERT(fc->half == NULL);
    SNIC_ASSERT(!fc->reviewing);
    return fc;
}

/* ---- Requests ---- */

void snic_fscache_submit(struct snic_fscache *fc, struct snic_fscache_req *req)
{
    const struct snic_fsop *r = req->k;

    SNIC_ASSERT(req->done != NULL);
    if (r->kind == SNIC_FSOP_READ || r->kind == SNIC_FSOP_WRITE) {
        SNIC_ASSERT(r->iov_count == 1);
        SNIC_ASSERT(r->iov[0].size >= r->length);
        SNIC_ASSERT(r->length <= SNIC_FSCACHE__LENGTH_MAX);
    }
    *req = (struct snic_fscache_req){.k = req->k,
                                     .data = req->data,
                                     .buffer = req->buffer,
                                     .done = req->done,
                                     .ctx = req->ctx,
                                     .cache = fc};
    fscache_admit(fc, req);
    fscache_pump(fc);
}

void snic_fscache_answer(struct snic_fscache *fc, struct snic_fscache_req *req, void *data)
{
    void (*home)(struct snic_fscache_req *) = req->home;

    SNIC_ASSERT(req->cache == fc);
    SNIC_ASSERT(home != NULL);
    req->home = NULL;
    req->data = data;
    home(req);
    fscache_pump(fc);
}

/* ---- State ---- */

void snic_fscache_update(struct snic_fscache *fc, uint32_t flags)
{
    SNIC_ASSERT((flags & ~(SNIC_FSCACHE_ALONE | SNIC_FSCACHE_UP)) == 0);
    fc->flags = flags;
    fscache_region_update(fc);
}

int snic_fscache_busy(const struct snic_fscache *fc)
{
    return fc->busy != 0 || fc->own != 0;
}

void snic_fscache_abandon(struct snic_fscache *fc)
{
    fscache_region_abandon(fc);
}

void snic_fscache_close(struct snic_fscache *fc)
{
    fscache_region_close(fc);
}

void snic_fscache_get_stats(const struct snic_fscache *fc, struct snic_fscache_stats *out)
{
    *out = fc->stats;
    out->dirty_bytes = fc->unflushed;
    out->prefetched_use += fc->host.stats.useful;
    if (fc->half != NULL)
        out->prefetched_use += snic_hcachelink_host_engine(fc->half)->stats.useful;
    out->on = fc->state == FSCACHE_ON;
    out->full = fc->state == FSCACHE_ON && fscache_full(fc);
}

/* ---- Check ---- */

struct fscache_sums {
    uint64_t inodes, dirty, marked, unflushed, pages;
};

static int fscache_check_inode(const struct snic_fscache *fc, const struct snic_fscache__inode *i,
                               struct fscache_sums *sums)
{
    const struct snic_link *l;
    uint32_t ranged = 0;

    for (l = i->reqs.next; l != &i->reqs; l = l->next) {
        const struct snic_fscache_req *req = SNIC_CONTAINER(l, const struct snic_fscache_req, link);

        if (req->inode != i || req->cache != fc || ranged++ == i->refs)
            return SNIC_ECORRUPT;
    }
    if (i->refs == 0 && i->opens == 0 && !i->dirty && i->due == 0)
        return SNIC_ECORRUPT; /* nothing keeps it */
    if (i->sized && fc->state == FSCACHE_OFF)
        return SNIC_ECORRUPT; /* FC3 */
    sums->inodes++;
    sums->dirty += i->dirty;
    sums->marked += i->dirty || i->due != 0;
    sums->unflushed += i->unflushed;
    sums->pages += i->unflushed_pages;
    return sums->inodes > fc->pool_used ? SNIC_ECORRUPT : 0;
}

int snic_fscache_check(const struct snic_fscache *fc)
{
    struct fscache_sums sums = {0, 0, 0, 0, 0};
    uint64_t unused = 0;
    uint64_t held = 0;

    for (uint32_t s = 0; s < FSCACHE_HASH; s++)
        for (const struct snic_fscache__inode *i = fc->inodes[s]; i != NULL; i = i->next)
            if (fscache_check_inode(fc, i, &sums) != 0)
                return SNIC_ECORRUPT;
    for (const struct snic_fscache__inode *i = fc->free_inodes; i != NULL; i = i->next)
        if (unused++ == fc->pool_used)
            return SNIC_ECORRUPT;
    for (const struct snic_link *l = fc->fetches.next; l != &fc->fetches; l = l->next)
        held += SNIC_CONTAINER(l, const struct snic_fscache_req, link)->held > 0;
    if (sums.inodes + unused != fc->pool_used || sums.dirty != fc->stats.dirty_inodes ||
        sums.marked != fc->marked || sums.unflushed != fc->unflushed ||
        sums.pages != fc->unflushed_pages)
        return SNIC_ECORRUPT;
    if (held > fc->busy || fc->sweeps > fc->own) /* FC5 */
        return SNIC_ECORRUPT;
    if (fc->state == FSCACHE_OFF && (fc->half != NULL || !snic_queue_empty(&fc->held)))
        return SNIC_ECORRUPT;
    return 0;
}
