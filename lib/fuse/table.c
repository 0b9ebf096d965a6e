/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests in flight: places, an index from unique to place, and parked interrupts.
 *
 * The index is a hash table with linear probing, twice as large as there are places at least;
 * removal moves followers back, so it has no tombstones. A seed keeps a peer that chooses uniques
 * from making all of them collide.
 *
 * Invariants
 *   T1 A place is either free, in the list of free ones, with unique 0, or taken, and then exactly
 *      one slot of the index has it, reachable from the hash of its unique without a gap.
 *   T2 No two taken places have one unique; none has 0.
 *   T3 Parked interrupts are in the order of their arrival, and no taken place has the unique that
 *      one of them names. The first `stale` of them are to be answered.
 */
#include "fuse_priv.h"

#define SNIC_FUSE__END UINT32_MAX

struct table_place {
    uint64_t unique; /* 0: free */
    uint32_t next;   /* free: the next one */
    uint32_t interrupted;
};

struct table_parked {
    uint64_t unique;
    uint64_t target;
};

struct snic_fuse_table {
    uint64_t seed;
    uint32_t places_max;
    uint32_t parked_max;
    uint32_t mask; /* of the index */
    uint32_t count;
    uint32_t free;
    uint32_t parked;
    uint32_t stale;
    struct table_parked *park;
    struct table_place *places;
    uint32_t *index; /* place + 1; 0: empty */
};

static uint32_t table_slots(uint32_t places)
{
    return (uint32_t)snic_pow2_up((uint64_t)places * 2);
}

static int table_opts(struct snic_fuse_table_opts *o, const struct snic_fuse_table_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, (uint32_t)sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    if (o->parked_max == 0)
        o->parked_max = 16;
    if (o->places_max == 0 || o->places_max > SNIC_FUSE_PLACES_MAX ||
        o->parked_max > SNIC_FUSE_PARKED_MAX || o->reserved != 0)
        return SNIC_EINVAL;
    return 0;
}

static size_t table_bytes(const struct snic_fuse_table_opts *o)
{
    size_t n = sizeof(struct snic_fuse_table) + o->parked_max * sizeof(struct table_parked) +
               o->places_max * sizeof(struct table_place) +
               table_slots(o->places_max) * sizeof(uint32_t);
    return (size_t)snic_align_up(n, SNIC_FUSE_TABLE_ALIGN);
}

size_t snic_fuse_table_memsize(const struct snic_fuse_table_opts *o)
{
    struct snic_fuse_table_opts opts;
    return table_opts(&opts, o) == 0 ? table_bytes(&opts) : 0;
}

int snic_fuse_table_init(struct snic_fuse_table **out, void *mem, size_t mem_size,
                         const struct snic_fuse_table_opts *o)
{
    struct snic_fuse_table_opts opts;
    struct snic_fuse_table *t = mem;
    if (table_opts(&opts, o) != 0 || (uintptr_t)mem % SNIC_FUSE_TABLE_ALIGN != 0)
        return SNIC_EINVAL;
    if (mem_size < table_bytes(&opts))
        return SNIC_ENOSPC;
    memset(mem, 0, table_bytes(&opts));
    t->seed = opts.seed;
    t->places_max = opts.places_max;
    t->parked_max = opts.parked_max;
    t->mask = table_slots(opts.places_max) - 1;
    t->park = (struct table_parked *)(t + 1);
    t->places = (struct table_place *)(t->park + t->parked_max);
    t->index = (uint32_t *)(t->places + t->places_max);
    for (uint32_t i = 0; i < t->places_max; i++)
        t->places[i].next = i + 1 < t->places_max ? i + 1 : SNIC_FUSE__END;
    *out = t;
    return 0;
}

void *snic_fuse_table_fini(struct snic_fuse_table *t)
{
    return t;
}

static uint32_t table_hash(const struct snic_fuse_table *t, uint64_t unique)
{
    uint64_t h = unique ^ t->seed;
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(h ^ (h >> 31)) & t->mask;
}

/* The slot of the unique, or the empty one where it would be. */
static uint32_t table_slot(const struct snic_fuse_table *t, uint64_t unique)
{
    uint32_t s = table_hash(t, unique);
    while (t->index[s] != 0 && t->places[t->index[s] - 1].unique != unique)
        s = (s + 1) & t->mask;
    return s;
}

/* Take parked interrupt @p i out. */
static void table_unpark(struct snic_fuse_table *t, uint32_t i)
{
    t->parked--;
    if (i < t->stale)
        t->stale--;
    memmove(&t->park[i], &t->park[i + 1], (t->parked - i) * sizeof(t->park[0]));
}

int snic_fuse_table_add(struct snic_fuse_table *t, uint64_t unique, uint32_t *place)
{
    uint32_t s = table_slot(t, unique);
    uint32_t at = t->free;
    struct table_place *p;
    if (unique == 0)
        return SNIC_EINVAL;
    if (t->index[s] != 0)
        return SNIC_EEXIST;
    if (at == SNIC_FUSE__END)
        return SNIC_EAGAIN;
    p = &t->places[at];
    t->free = p->next;
    t->index[s] = at + 1;
    t->count++;
    p->unique = unique;
    p->interrupted = 0;
    for (uint32_t i = t->parked; i-- > 0;) {
        if (t->park[i].target == unique) {
            table_unpark(t, i);
            p->interrupted = 1;
        }
    }
    t->stale = t->parked; /* those that are left: another request has arrived */
    *place = at;
    return (int)p->interrupted;
}

int snic_fuse_table_find(const struct snic_fuse_table *t, uint64_t unique, uint32_t *place)
{
    uint32_t s = table_slot(t, unique);
    if (unique == 0 || t->index[s] == 0)
        return SNIC_ENOENT;
    *place = t->index[s] - 1;
    return 0;
}

void snic_fuse_table_remove(struct snic_fuse_table *t, uint32_t place)
{
    struct table_place *p = &t->places[place];
    uint32_t hole;
    SNIC_ASSERT(place < t->places_max);
    SNIC_ASSERT(p->unique != 0);
    hole = table_slot(t, p->unique);
    SNIC_DASSERT(t->index[hole] == place + 1); /* T1 */
    for (uint32_t s = (hole + 1) & t->mask; t->index[s] != 0; s = (s + 1) & t->mask) {
        uint32_t home = table_hash(t, t->places[t->index[s] - 1].unique);
        if (((s - home) & t->mask) >= ((s - hole) & t->mask)) { /* the hole is on its way */
            t->index[hole] = t->index[s];
            hole = s;
        }
    }
    t->index[hole] = 0;
    p->unique = 0;
    p->interrupted = 0;
    p->next = t->free;
    t->free = place;
    t->count--;
}

uint64_t snic_fuse_table_unique(const struct snic_fuse_table *t, uint32_t place)
{
    return place < t->places_max ? t->places[place].unique : 0;
}

int snic_fuse_table_interrupted(const struct snic_fuse_table *t, uint32_t place)
{
    return place < t->places_max && t->places[place].interrupted != 0;
}

int snic_fuse_table_interrupt(struct snic_fuse_table *t, uint64_t unique, uint64_t target,
                              uint32_t *place)
{
    uint32_t at;
    if (target == 0 || unique == 0)
        return SNIC_EINVAL;
    if (snic_fuse_table_find(t, target, &at) == 0) {
        t->places[at].interrupted = 1;
        *place = at;
        return 1;
    }
    if (t->parked == t->parked_max)
        return SNIC_EAGAIN;
    t->park[t->parked].unique = unique;
    t->park[t->parked++].target = target;
    return 0;
}

uint64_t snic_fuse_table_stale(struct snic_fuse_table *t)
{
    uint64_t unique;
    if (t->stale == 0)
        return 0;
    unique = t->park[0].unique;
    table_unpark(t, 0);
    return unique;
}

uint32_t snic_fuse_table_count(const struct snic_fuse_table *t)
{
    return t->count;
}

uint32_t snic_fuse_table_parked(const struct snic_fuse_table *t)
{
    return t->parked;
}

/* T1, of taken places */
static uint32_t table_check_index(const struct snic_fuse_table *t)
{
    uint32_t found = 0;
    for (uint32_t s = 0; s <= t->mask; s++) {
        uint64_t unique;
        if (t->index[s] == 0)
            continue;
        if (t->index[s] > t->places_max)
            return SNIC_FUSE__END;
        unique = t->places[t->index[s] - 1].unique;
        if (unique == 0 || table_slot(t, unique) != s) /* T2: another has it, or a gap hides it */
            return SNIC_FUSE__END;
        found++;
    }
    return found;
}

int snic_fuse_table_check(const struct snic_fuse_table *t)
{
    uint32_t n = 0;
    uint32_t place;
    if (t->count > t->places_max || t->parked > t->parked_max || t->stale > t->parked)
        return SNIC_ECORRUPT;
    if (table_check_index(t) != t->count)
        return SNIC_ECORRUPT;
    for (uint32_t i = t->free; i != SNIC_FUSE__END; i = t->places[i].next) {
        if (i >= t->places_max || t->places[i].unique != 0 || t->places[i].interrupted != 0 ||
            ++n > t->places_max)
            return SNIC_ECORRUPT;
    }
    if (n + t->count != t->places_max)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < t->parked; i++) { /* T3 */
        if (t->park[i].unique == 0 || snic_fuse_table_find(t, t->park[i].target, &place) == 0)
            return SNIC_ECORRUPT;
    }
    return 0;
}
