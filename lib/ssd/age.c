/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The map of an AGEING device: pages in erase blocks, greedy garbage collection, trim.
 *
 * Writes of the host append to one open block, copies of collection to another. When the
 * host's is full and few blocks are free, the full block with the fewest valid pages is
 * copied and erased, until enough are free. The map knows no time: it only counts what the
 * copies owe, and program units take that to their dies.
 *
 * Why a victim always has an invalid page: blocks == D + RESERVE with D * block_pages > pages.
 * Collection runs while free_blocks <= RESERVE - 2, and two blocks are open, so that at least
 * D blocks are full; they have more pages than the host can have valid ones. Copying takes at
 * most one free block and gives the victim back, so that one is always free.
 *
 * Invariants
 *   A1 map[h] == f iff owner[f] == h.
 *   A2 A block's valid is the number of its pages with an owner; all are below used.
 *   A3 A block is free (used == 0), open, or full and in the bucket of its valid.
 *   A4 stats.valid is the sum of valid.
 */
#include "ssd/ssd_priv.h"

uint32_t ssd_age_blocks(const struct snic_ssd_opts *o)
{
    uint64_t pages = (uint64_t)o->age_pages * (1000 + o->age_spare);
    uint64_t block = (uint64_t)o->age_block_pages * 1000;
    uint64_t least = o->age_pages / o->age_block_pages + 1;
    return (uint32_t)snic_max_u64((pages + block - 1) / block, least) + SNIC_SSD__AGE_RESERVE;
}

/* ---- Lists of blocks ---- */

static void ssd_age_push(struct ssd_age *a, struct ssd_list *l, uint32_t b)
{
    a->block[b].next = SNIC_SSD__NONE;
    a->block[b].prev = l->last;
    if (l->last != SNIC_SSD__NONE)
        a->block[l->last].next = b;
    else
        l->first = b;
    l->last = b;
}

static void ssd_age_remove(struct ssd_age *a, struct ssd_list *l, uint32_t b)
{
    const struct ssd_block *x = &a->block[b];
    if (x->prev != SNIC_SSD__NONE)
        a->block[x->prev].next = x->next;
    else
        l->first = x->next;
    if (x->next != SNIC_SSD__NONE)
        a->block[x->next].prev = x->prev;
    else
        l->last = x->prev;
}

static uint32_t ssd_age_pop_free(struct ssd_age *a)
{
    uint32_t b = a->free.first;
    SNIC_ASSERT(b != SNIC_SSD__NONE);
    ssd_age_remove(a, &a->free, b);
    a->free_blocks--;
    return b;
}

/** Full, and not open any more. */
static int ssd_age_listed(const struct ssd_age *a, uint32_t b)
{
    return b != a->open[SSD_OPEN_HOST] && b != a->open[SSD_OPEN_COPIES];
}

/* ---- Pages ---- */

static void ssd_age_invalidate(struct ssd_age *a, uint32_t host)
{
    uint32_t f = a->map[host];
    if (f == SNIC_SSD__NONE)
        return;
    uint32_t b = f / a->block_pages;
    struct ssd_block *x = &a->block[b];
    a->map[host] = SNIC_SSD__NONE;
    a->owner[f] = SNIC_SSD__NONE; /* A1 */
    int listed = ssd_age_listed(a, b);
    if (listed)
        ssd_age_remove(a, &a->bucket[x->valid], b);
    x->valid--; /* A2 */
    if (listed)
        ssd_age_push(a, &a->bucket[x->valid], b); /* A3 */
    a->stats.valid--;
}

/** Append to an open block that has room. */
static void ssd_age_append(struct ssd_age *a, uint32_t which, uint32_t host)
{
    uint32_t b = a->open[which];
    struct ssd_block *x = &a->block[b];
    SNIC_DASSERT(x->used < a->block_pages);
    uint32_t f = b * a->block_pages + x->used++;
    a->map[host] = f;
    a->owner[f] = host;
    x->valid++;
    a->stats.valid++;
}

/** Replace an open block that is full. */
static void ssd_age_open(struct ssd_age *a, uint32_t which)
{
    uint32_t b = a->open[which];
    a->open[which] = ssd_age_pop_free(a);
    ssd_age_push(a, &a->bucket[a->block[b].valid], b); /* A3 */
}

/* ---- Collection ---- */

static void ssd_age_collect(struct ssd_age *a)
{
    uint32_t valid = 0;
    while (a->bucket[valid].first == SNIC_SSD__NONE)
        valid++;
    SNIC_ASSERT(valid < a->block_pages); /* see above */
    uint32_t b = a->bucket[valid].first;
    struct ssd_block *x = &a->block[b];
    ssd_age_remove(a, &a->bucket[valid], b);
    for (uint32_t f = b * a->block_pages; x->valid > 0; f++) {
        uint32_t host = a->owner[f];
        if (host == SNIC_SSD__NONE)
            continue;
        if (a->block[a->open[SSD_OPEN_COPIES]].used == a->block_pages)
            ssd_age_open(a, SSD_OPEN_COPIES);
        a->owner[f] = SNIC_SSD__NONE;
        x->valid--;
        a->stats.valid--;
        ssd_age_append(a, SSD_OPEN_COPIES, host);
    }
    a->stats.copied += valid;
    a->owed_ns += valid * a->page_ns;
    x->used = 0;
    ssd_age_push(a, &a->free, b);
    a->free_blocks++;
    a->stats.erased++;
}

static void ssd_age_write_page(struct ssd_age *a, uint32_t host)
{
    if (a->block[a->open[SSD_OPEN_HOST]].used == a->block_pages) {
        while (a->free_blocks <= SNIC_SSD__AGE_RESERVE - 2)
            ssd_age_collect(a);
        ssd_age_open(a, SSD_OPEN_HOST);
    }
    ssd_age_invalidate(a, host);
    ssd_age_append(a, SSD_OPEN_HOST, host);
    a->stats.written++;
}

/* ---- What the model asks ---- */

void ssd_age_init(struct ssd_age *a, const struct snic_ssd_opts *o)
{
    uint32_t parts = o->program_unit / SNIC_SSD_PART;
    const struct ssd_list empty = {SNIC_SSD__NONE, SNIC_SSD__NONE};
    a->pages = o->age_pages;
    a->block_pages = o->age_block_pages;
    a->blocks = ssd_age_blocks(o);
    a->page_ns = (o->program_ns + (uint64_t)parts * o->gc_read_ns) / parts;
    memset(a->map, 0xff, (size_t)a->pages * sizeof(a->map[0]));
    memset(a->owner, 0xff, (size_t)a->blocks * a->block_pages * sizeof(a->owner[0]));
    a->free = empty;
    for (uint32_t v = 0; v <= a->block_pages; v++)
        a->bucket[v] = empty;
    for (uint32_t b = 0; b < a->blocks; b++)
        ssd_age_push(a, &a->free, b);
    a->free_blocks = a->blocks;
    a->open[SSD_OPEN_HOST] = ssd_age_pop_free(a);
    a->open[SSD_OPEN_COPIES] = ssd_age_pop_free(a);
    snic_rng_init(&a->rng, o->seed);
}

void ssd_age_write(struct ssd_age *a, uint64_t offset, uint64_t length)
{
    uint64_t end = (offset + length - 1) / SNIC_SSD_PART;
    for (uint64_t p = offset / SNIC_SSD_PART; p <= end; p++)
        ssd_age_write_page(a, (uint32_t)(p % a->pages));
}

int ssd_age_whole(const struct ssd_age *a, uint64_t page, uint32_t count)
{
    uint32_t h = (uint32_t)(page % a->pages);
    uint32_t f = a->map[h];
    for (uint32_t i = 1; i < count; i++) {
        h = h + 1 < a->pages ? h + 1 : 0;
        f += f != SNIC_SSD__NONE;
        if (a->map[h] != f)
            return 0;
    }
    return 1;
}

uint64_t ssd_age_take(struct ssd_age *a)
{
    uint64_t ns = a->owed_ns < a->page_ns ? a->owed_ns : (a->owed_ns + 63) / 64;
    a->owed_ns -= ns;
    return ns;
}

void ssd_age_precondition(struct ssd_age *a, uint32_t fill, uint32_t overwrites)
{
    uint32_t pages = (uint32_t)((uint64_t)a->pages * fill / 1000);
    for (uint32_t h = 0; h < pages; h++) {
        if (a->map[h] == SNIC_SSD__NONE)
            ssd_age_write_page(a, h);
    }
    for (uint64_t n = (uint64_t)pages * overwrites / 100; n > 0; n--)
        ssd_age_write_page(a, (uint32_t)snic_rng_below(&a->rng, pages));
    a->owed_ns = 0;
}

/* ---- Public ---- */

void snic_ssd_trim(struct snic_ssd *d, uint64_t offset, uint64_t length)
{
    struct ssd_age *a = &d->age;
    if (a->pages == 0)
        return;
    uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
    uint64_t first = offset / SNIC_SSD_PART + (offset % SNIC_SSD_PART != 0);
    uint64_t last = end / SNIC_SSD_PART;
    uint64_t count = last > first ? snic_min_u64(last - first, a->pages) : 0;
    uint64_t before = a->stats.valid;
    for (uint64_t i = 0; i < count; i++)
        ssd_age_invalidate(a, (uint32_t)((first + i) % a->pages));
    a->stats.trimmed += before - a->stats.valid;
}

int snic_ssd_precondition(struct snic_ssd *d, uint32_t fill, uint32_t overwrites)
{
    if (d->age.pages == 0 || fill > 1000 || overwrites > 10000)
        return SNIC_EINVAL;
    ssd_age_precondition(&d->age, fill, overwrites);
    return 0;
}

void snic_ssd_get_age_stats(const struct snic_ssd *d, struct snic_ssd_age_stats *out)
{
    *out = d->age.stats;
    out->owed_ns = d->age.owed_ns;
}

/* ---- Check ---- */

static int ssd_age_check_block(const struct ssd_age *a, uint32_t b)
{
    const struct ssd_block *x = &a->block[b];
    uint32_t valid = 0;
    for (uint32_t i = 0; i < a->block_pages; i++) {
        uint32_t f = b * a->block_pages + i;
        uint32_t host = a->owner[f];
        if (host == SNIC_SSD__NONE)
            continue;
        if (i >= x->used || host >= a->pages || a->map[host] != f)
            return 0; /* A1, A2 */
        valid++;
    }
    return valid == x->valid;
}

/** Members of a list, all with this state; SNIC_SSD__NONE: not so. */
static uint32_t ssd_age_check_list(const struct ssd_age *a, const struct ssd_list *l, uint32_t used,
                                   uint32_t valid)
{
    uint32_t n = 0, prev = SNIC_SSD__NONE;
    for (uint32_t b = l->first; b != SNIC_SSD__NONE; b = a->block[b].next) {
        if (b >= a->blocks || ++n > a->blocks || a->block[b].prev != prev || !ssd_age_listed(a, b))
            return SNIC_SSD__NONE;
        if (a->block[b].used != used || a->block[b].valid != valid)
            return SNIC_SSD__NONE; /* A3 */
        prev = b;
    }
    return l->last == prev ? n : SNIC_SSD__NONE;
}

int ssd_age_check(const struct ssd_age *a)
{
    if (a->pages == 0)
        return 1;
    uint64_t valid = 0, mapped = 0;
    for (uint32_t b = 0; b < a->blocks; b++) {
        if (!ssd_age_check_block(a, b))
            return 0;
        valid += a->block[b].valid;
    }
    for (uint32_t h = 0; h < a->pages; h++)
        mapped += a->map[h] != SNIC_SSD__NONE;
    if (valid != mapped || valid != a->stats.valid) /* A1, A4 */
        return 0;
    uint32_t n = ssd_age_check_list(a, &a->free, 0, 0);
    if (n != a->free_blocks || n == 0 || a->open[0] == a->open[1])
        return 0;
    for (uint32_t v = 0; v <= a->block_pages; v++) {
        uint32_t k = ssd_age_check_list(a, &a->bucket[v], a->block_pages, v);
        if (k == SNIC_SSD__NONE)
            return 0;
        n += k;
    }
    return n + 2 == a->blocks; /* A3 */
}
