/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The region: sizes, formatting, what a header must look like.
 *
 * FORMAT.md has the header. `free` changes, so it has a line of its own behind the header.
 */
#include "snicstore/hcache.h"

#include "hcache/hcache_priv.h"

#include <string.h>

#define SNIC_HCACHE__SUMMED 72u
#define SNIC_HCACHE__PAGES_MAX (UINT64_C(1) << 31)

SNIC_STATIC_ASSERT(SNIC_HCACHE_OFF_FREE >= SNIC_HCACHE_HEADER_BYTES &&
                       SNIC_HCACHE_OFF_WAIT >= SNIC_HCACHE_OFF_FREE + SNIC_CACHELINE &&
                       SNIC_HCACHE_OFF_MAP >= SNIC_HCACHE_OFF_WAIT + SNIC_CACHELINE,
                   "words that different sides write lie on lines of their own");
SNIC_STATIC_ASSERT(SNIC_HCACHE__TAGS + SNIC_HCACHE_WAYS_MAX * 2 == SNIC_HCACHE_HEAD_BYTES,
                   "guard and tags fill one line");

/* Everything from page_bytes, ways, mode, pages and seed, which are in range. */
static void hcache_derive(struct snic_hcache_info *i)
{
    i->bucket_bytes = (uint32_t)snic_align_up(
        SNIC_HCACHE_HEAD_BYTES + i->ways * SNIC_HCACHE_ENTRY_BYTES, SNIC_HCACHE_HEAD_BYTES);
    i->buckets = i->pages / i->ways;
    i->map_bytes = snic_align_up(i->buckets, 64) / 8;
    i->meta_offset = snic_align_up(SNIC_HCACHE_OFF_MAP + i->map_bytes, SNIC_CACHELINE);
    i->data_offset = snic_align_up(i->meta_offset + i->buckets * i->bucket_bytes,
                                   snic_max_u64(i->page_bytes, SNIC_HCACHE_ALIGN));
    i->memory_bytes = i->data_offset + i->pages * i->page_bytes;
}

static const char *hcache_wrong(const struct snic_hcache_info *i)
{
    if (!snic_is_pow2(i->page_bytes) || i->page_bytes < 512 || i->page_bytes > 65536)
        return "page_bytes: not a power of two 512..65536";
    if (i->ways < 1 || i->ways > SNIC_HCACHE_WAYS_MAX)
        return "ways: 0, or above SNIC_HCACHE_WAYS_MAX";
    if (i->mode > SNIC_HCACHE_MODE_WRITE)
        return "mode: unknown";
    if (i->pages < i->ways || i->pages > SNIC_HCACHE__PAGES_MAX || i->pages % i->ways != 0)
        return "pages: not a multiple of ways up to 2^31";
    return NULL;
}

static int hcache_in_range(const struct snic_hcache_info *i)
{
    return hcache_wrong(i) == NULL;
}

/* The geometry of the options, defaults filled in. */
static int hcache_info_fill(struct snic_hcache_info *i, const struct snic_hcache_opts *in)
{
    struct snic_hcache_opts o;

    memset(&o, 0, sizeof(o));
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return SNIC_EINVAL;
    memset(i, 0, sizeof(*i));
    i->page_bytes = o.page_bytes != 0 ? o.page_bytes : 4096;
    i->ways = o.ways != 0 ? o.ways : SNIC_HCACHE_WAYS_MAX;
    i->mode = o.mode;
    i->pages = o.pages;
    i->seed = o.seed;
    return 0;
}

static int hcache_info_from(struct snic_hcache_info *i, const struct snic_hcache_opts *in)
{
    if (hcache_info_fill(i, in) != 0 || !hcache_in_range(i))
        return SNIC_EINVAL;
    hcache_derive(i);
    return i->memory_bytes > SIZE_MAX ? SNIC_EINVAL : 0;
}

const char *snic_hcache_opts_wrong(const struct snic_hcache_opts *o)
{
    struct snic_hcache_info i;

    if (hcache_info_fill(&i, o) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (hcache_wrong(&i) != NULL)
        return hcache_wrong(&i);
    return hcache_info_from(&i, o) != 0 ? "pages: more than memory can be" : NULL;
}

size_t snic_hcache_memsize(const struct snic_hcache_opts *o)
{
    struct snic_hcache_info i;

    return hcache_info_from(&i, o) == 0 ? (size_t)i.memory_bytes : 0;
}

static void hcache_put_header(unsigned char *at, const struct snic_hcache_info *i)
{
    memset(at, 0, SNIC_HCACHE_HEADER_BYTES);
    snic_put_le64(at, SNIC_HCACHE__MAGIC);
    snic_put_le32(at + 8, SNIC_HCACHE__VERSION);
    snic_put_le32(at + 12, i->page_bytes);
    snic_put_le32(at + 16, i->mode);
    snic_put_le32(at + 20, i->ways);
    snic_put_le64(at + 24, i->pages);
    snic_put_le64(at + 32, i->buckets);
    snic_put_le64(at + 40, i->seed);
    snic_put_le64(at + 48, i->meta_offset);
    snic_put_le64(at + 56, i->data_offset);
    snic_put_le64(at + 64, i->memory_bytes);
    snic_put_le32(at + SNIC_HCACHE__SUMMED, snic_crc32c(0, at, SNIC_HCACHE__SUMMED));
}

int snic_hcache_init(void *mem, size_t mem_size, const struct snic_hcache_opts *o)
{
    struct snic_hcache_info i;
    unsigned char *base = mem;
    uint64_t e;

    if (hcache_info_from(&i, o) != 0 ||
        ((uintptr_t)mem & (snic_max_u64(i.page_bytes, SNIC_HCACHE_ALIGN) - 1)) != 0)
        return SNIC_EINVAL;
    if (mem_size < i.memory_bytes)
        return SNIC_ENOSPC;
    memset(base, 0, (size_t)i.data_offset);
    hcache_put_header(base, &i);
    snic_put_le64(base + SNIC_HCACHE_OFF_FREE, i.pages);
    for (e = 0; e < i.pages; e++) {
        uint64_t at = i.meta_offset + e / i.ways * i.bucket_bytes + SNIC_HCACHE_HEAD_BYTES +
                      e % i.ways * SNIC_HCACHE_ENTRY_BYTES;

        snic_put_le32(base + at + SNIC_HCACHE__NEXT,
                      (e + 1) % i.ways != 0 ? (uint32_t)e + 1 : SNIC_HCACHE__NIL);
    }
    return 0;
}

int snic_hcache_geometry(const void *header, uint64_t mem_size, struct snic_hcache_info *out)
{
    unsigned char h[SNIC_HCACHE_HEADER_BYTES];
    unsigned char want[SNIC_HCACHE_HEADER_BYTES];
    struct snic_hcache_info i;

    memcpy(h, header, sizeof(h));
    if (snic_get_le64(h) != SNIC_HCACHE__MAGIC || snic_get_le32(h + 8) != SNIC_HCACHE__VERSION)
        return SNIC_EVERSION;
    memset(&i, 0, sizeof(i));
    i.page_bytes = snic_get_le32(h + 12);
    i.mode = snic_get_le32(h + 16);
    i.ways = snic_get_le32(h + 20);
    i.pages = snic_get_le64(h + 24);
    i.seed = snic_get_le64(h + 40);
    if (!hcache_in_range(&i))
        return SNIC_ECORRUPT;
    hcache_derive(&i);
    hcache_put_header(want, &i); /* the header must be the one that follows from these five */
    if (memcmp(want, h, sizeof(h)) != 0)
        return SNIC_ECORRUPT;
    if (mem_size < i.memory_bytes)
        return SNIC_ENOSPC;
    *out = i;
    return 0;
}

void hcache_geo_from(struct snic_hcache__geo *g, const struct snic_hcache_info *i)
{
    memset(g, 0, sizeof(*g));
    g->pages = i->pages;
    g->buckets = i->buckets;
    g->seed = i->seed;
    g->meta_offset = i->meta_offset;
    g->data_offset = i->data_offset;
    g->page_bytes = i->page_bytes;
    g->page_shift = (uint32_t)__builtin_ctz(i->page_bytes);
    g->ways = i->ways;
    g->bucket_bytes = i->bucket_bytes;
    g->mode = i->mode;
}

int hcache_attach(struct snic_hcache__geo *g, void *mem, size_t mem_size)
{
    struct snic_hcache_info i;
    int r;

    if (((uintptr_t)mem & (SNIC_HCACHE_ALIGN - 1)) != 0)
        return SNIC_EINVAL;
    if (mem_size < SNIC_HCACHE_HEADER_BYTES)
        return SNIC_ENOSPC;
    r = snic_hcache_geometry(mem, mem_size, &i);
    if (r != 0)
        return r;
    if (((uintptr_t)mem & (i.page_bytes - 1)) != 0)
        return SNIC_EINVAL;
    hcache_geo_from(g, &i);
    g->base = mem;
    return 0;
}

uint64_t snic_hcache_place(uint64_t seed, uint64_t buckets, uint64_t ino, uint64_t lpn,
                           uint32_t *print)
{
    struct hcache_place p = hcache_place(seed, buckets, ino, lpn);

    *print = p.tag;
    return p.bucket;
}
