/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Locations of the segments of a disk: a word for each 512 segments, and chunks of 512 entries.
 *
 * I1  first[i] is 0 or the number of a chunk plus one; owner[c] is the i of the chunk c. Chunks are
 *     taken in order and never freed.
 * I2  An entry's check value covers it and its segment, so a damaged word in first, which leads to
 *     another segment's entry, is found, too.
 * I3  An entry is known when its generation is the map's and it is KNOWN; it may be used when it is
 *     VALID, too.
 */
#include "ebs/ebs_priv.h"

#define SNIC_EBS__SEGMENTS_MAX (SNIC_EBS_LBA_END >> SNIC_EBS_SEGMENT_LOG2)

static uint16_t map_check_of(const struct ebs_map_entry *e, uint64_t segment)
{
    uint64_t rest = (uint64_t)e->generation << 32 | e->flags;
    uint32_t crc = ebs_entry_crc(e, offsetof(struct ebs_map_entry, flags), segment);

    crc = snic_crc32c(crc, &rest, sizeof(rest));
    return (uint16_t)(crc >> 16 ^ crc);
}

static uint64_t map_firsts(const struct snic_ebs_map_opts *o)
{
    return (o->segments + SNIC_EBS__CHUNK - 1) / SNIC_EBS__CHUNK;
}

static int map_opts(struct snic_ebs_map_opts *o, const struct snic_ebs_map_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0 || o->segments == 0 ||
        o->segments > SNIC_EBS__SEGMENTS_MAX || o->chunks == 0 || o->chunks > map_firsts(o) ||
        o->flags != 0 || o->pad != 0)
        return SNIC_EINVAL;
    return 0;
}

/* Offsets of first, owner and entry, and the end. At most 2^32 + 2^30 * (8 + 12288) bytes. */
static uint64_t map_layout(const struct snic_ebs_map_opts *o, uint64_t at[3])
{
    at[0] = snic_align_up(sizeof(struct snic_ebs_map), SNIC_EBS_ALIGN);
    at[1] = snic_align_up(at[0] + map_firsts(o) * sizeof(uint32_t), SNIC_EBS_ALIGN);
    at[2] = snic_align_up(at[1] + o->chunks * sizeof(uint64_t), SNIC_EBS_ALIGN);
    return at[2] + (uint64_t)o->chunks * SNIC_EBS__CHUNK * sizeof(struct ebs_map_entry);
}

size_t snic_ebs_map_memsize(const struct snic_ebs_map_opts *opts)
{
    struct snic_ebs_map_opts o;
    uint64_t at[3];

    if (map_opts(&o, opts) != 0)
        return 0;
    uint64_t size = map_layout(&o, at);
    return size > SIZE_MAX / 2 ? 0 : (size_t)size;
}

int snic_ebs_map_init(struct snic_ebs_map **out, void *mem, size_t size,
                      const struct snic_ebs_map_opts *opts)
{
    struct snic_ebs_map_opts o;
    unsigned char *p = (unsigned char *)mem;
    uint64_t at[3];

    if (map_opts(&o, opts) != 0 || (uintptr_t)mem % SNIC_EBS_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < map_layout(&o, at))
        return SNIC_ENOSPC;
    memset(p, 0, at[2]); /* chunks are cleared when they are taken */
    struct snic_ebs_map *m = (struct snic_ebs_map *)mem;
    m->segments = o.segments;
    m->chunks_max = o.chunks;
    m->generation = 1;
    m->first = (uint32_t *)(void *)(p + at[0]);
    m->owner = (uint64_t *)(void *)(p + at[1]);
    m->entry = (struct ebs_map_entry *)(void *)(p + at[2]);
    *out = m;
    return 0;
}

void *snic_ebs_map_fini(struct snic_ebs_map *m)
{
    return m;
}

/* The entry of a segment of the disk; SNIC_ENOENT it has no chunk; SNIC_ECORRUPT. */
static int map_find(const struct snic_ebs_map *m, uint64_t segment, struct ebs_map_entry **e)
{
    uint32_t chunk = m->first[segment / SNIC_EBS__CHUNK];

    if (chunk == 0)
        return SNIC_ENOENT;
    if (chunk > m->chunks)
        return SNIC_ECORRUPT;
    *e = &m->entry[(size_t)(chunk - 1) * SNIC_EBS__CHUNK + segment % SNIC_EBS__CHUNK];
    return (*e)->check == map_check_of(*e, segment) ? 0 : SNIC_ECORRUPT; /* I2 */
}

static int map_known(const struct snic_ebs_map *m, const struct ebs_map_entry *e)
{
    return e->generation == m->generation && (e->flags & SNIC_EBS__KNOWN) != 0; /* I3 */
}

int snic_ebs_map_get(const struct snic_ebs_map *m, uint64_t segment, struct snic_ebs_where *w)
{
    struct ebs_map_entry *e;

    if (segment >= m->segments)
        return SNIC_ERANGE;
    int r = map_find(m, segment, &e);
    if (r != 0)
        return r;
    if (!map_known(m, e))
        return SNIC_ENOENT;
    w->seg_id = e->seg_id;
    w->server = e->server;
    w->seg_gen = e->seg_gen;
    w->flags = e->flags & (SNIC_EBS__KNOWN - 1u);
    w->pad = 0;
    return (e->flags & SNIC_EBS__VALID) != 0 ? 0 : SNIC_ESTALE;
}

/* Make all entries of a chunk unknown. */
static void map_clear(struct snic_ebs_map *m, uint32_t chunk)
{
    uint64_t segment = m->owner[chunk] * SNIC_EBS__CHUNK;
    struct ebs_map_entry *e = &m->entry[(size_t)chunk * SNIC_EBS__CHUNK];

    memset(e, 0, SNIC_EBS__CHUNK * sizeof(*e));
    for (uint32_t i = 0; i < SNIC_EBS__CHUNK; i++)
        e[i].check = map_check_of(&e[i], segment + i);
}

static int map_take_chunk(struct snic_ebs_map *m, uint64_t first)
{
    if (m->chunks == m->chunks_max)
        return SNIC_ENOSPC;
    m->owner[m->chunks] = first;
    map_clear(m, m->chunks);
    m->chunks++;
    m->first[first] = m->chunks; /* I1 */
    return 0;
}

/* Repair a damaged word in first by the owners of the chunks. */
static int map_heal_first(struct snic_ebs_map *m, uint64_t first)
{
    uint32_t chunk = m->first[first];

    if (chunk != 0 && chunk <= m->chunks && m->owner[chunk - 1] == first)
        return 0;
    for (uint32_t i = 0; i < m->chunks; i++) {
        if (m->owner[i] == first) {
            m->first[first] = i + 1;
            return 0;
        }
    }
    return map_take_chunk(m, first);
}

int snic_ebs_map_set(struct snic_ebs_map *m, uint64_t segment, const struct snic_ebs_where *w)
{
    uint64_t first = segment / SNIC_EBS__CHUNK;
    struct ebs_map_entry *e;

    if (segment >= m->segments)
        return SNIC_ERANGE;
    if (w->flags >= SNIC_EBS__KNOWN || w->pad != 0)
        return SNIC_EINVAL;
    int r = map_find(m, segment, &e);
    if (r == 0 && map_known(m, e) && e->seg_gen > w->seg_gen)
        return SNIC_ESTALE;
    if (r != 0) {
        r = map_heal_first(m, first);
        if (r != 0)
            return r;
        e = &m->entry[(size_t)(m->first[first] - 1) * SNIC_EBS__CHUNK + segment % SNIC_EBS__CHUNK];
    }
    e->seg_id = w->seg_id;
    e->server = w->server;
    e->seg_gen = w->seg_gen;
    e->flags = (uint16_t)(w->flags | SNIC_EBS__KNOWN | SNIC_EBS__VALID);
    e->generation = m->generation;
    e->check = map_check_of(e, segment);
    return 0;
}

int snic_ebs_map_invalidate(struct snic_ebs_map *m, uint64_t segment, uint32_t seg_gen)
{
    struct ebs_map_entry *e;

    if (segment >= m->segments)
        return SNIC_ERANGE;
    int r = map_find(m, segment, &e);
    if (r != 0)
        return r == SNIC_ENOENT ? 0 : r;
    if (!map_known(m, e) || (e->flags & SNIC_EBS__VALID) == 0 || e->seg_gen > seg_gen)
        return 0;
    e->flags = (uint16_t)(e->flags & ~SNIC_EBS__VALID);
    e->check = map_check_of(e, segment);
    return 1;
}

/* The entries of a chunk, taken for those of first[@p first], that are at @p server. */
static uint64_t map_of_server(struct snic_ebs_map *m, uint32_t chunk, uint64_t first,
                              uint32_t server, int forget)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < SNIC_EBS__CHUNK; i++) {
        struct ebs_map_entry *e = &m->entry[(size_t)chunk * SNIC_EBS__CHUNK + i];
        uint64_t segment = first * SNIC_EBS__CHUNK + i;
        if (e->server != server || !map_known(m, e) || (e->flags & SNIC_EBS__VALID) == 0 ||
            e->check != map_check_of(e, segment))
            continue;
        count++;
        if (!forget)
            continue;
        e->flags = (uint16_t)(e->flags & ~SNIC_EBS__VALID);
        e->check = map_check_of(e, segment);
    }
    return count;
}

/* Where first and owner disagree, one of them is damaged; the other may repair it later (I1). An
   entry is valid for one of the two segments at most (I2). */
uint64_t snic_ebs_map_server(struct snic_ebs_map *m, uint32_t server, int forget)
{
    uint64_t firsts = (m->segments + SNIC_EBS__CHUNK - 1) / SNIC_EBS__CHUNK, count = 0;
    for (uint32_t i = 0; i < m->chunks; i++)
        count += map_of_server(m, i, m->owner[i], server, forget);
    for (uint64_t i = 0; i < firsts; i++)
        if (m->first[i] != 0 && m->first[i] <= m->chunks && m->owner[m->first[i] - 1] != i)
            count += map_of_server(m, m->first[i] - 1, i, server, forget);
    return count;
}

uint32_t snic_ebs_map_next(struct snic_ebs_map *m)
{
    m->generation++;
    if (m->generation == 0) { /* entries of 2^32 generations ago would be known again */
        for (uint32_t i = 0; i < m->chunks; i++)
            map_clear(m, i);
        m->generation = 1;
    }
    return m->generation;
}

uint32_t snic_ebs_map_chunks(const struct snic_ebs_map *m)
{
    return m->chunks;
}

int snic_ebs_map_check(const struct snic_ebs_map *m)
{
    uint64_t firsts = (m->segments + SNIC_EBS__CHUNK - 1) / SNIC_EBS__CHUNK;
    uint32_t used = 0;

    if (m->chunks > m->chunks_max || m->generation == 0)
        return SNIC_ECORRUPT;
    for (uint64_t i = 0; i < firsts; i++) {
        uint32_t chunk = m->first[i];
        if (chunk == 0)
            continue;
        used++;
        if (chunk > m->chunks || m->owner[chunk - 1] != i)
            return SNIC_ECORRUPT; /* I1 */
        for (uint32_t k = 0; k < SNIC_EBS__CHUNK; k++) {
            const struct ebs_map_entry *e = &m->entry[(size_t)(chunk - 1) * SNIC_EBS__CHUNK + k];
            if (e->check != map_check_of(e, i * SNIC_EBS__CHUNK + k) ||
                (e->generation > m->generation))
                return SNIC_ECORRUPT; /* I2 */
        }
    }
    return used == m->chunks ? 0 : SNIC_ECORRUPT;
}
