/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The blocks of the object file, in segments of 16 MiB.
 *
 * Record 'F' segment, see FORMAT.md. Segments behind the last record were never used. Block 0 is
 * the file's head and always in use.
 *
 * `used` is the state of the active batch; `busy` adds blocks taken for data that is still being
 * written, and those freed by a batch that is not yet durable (S4).
 *
 * Space of the file is allocated (fallocate) before its blocks are taken, a segment at a time, or
 * 1 MiB where the disk is nearly full: so SNIC_ENOSPC is returned when blocks are taken, not when
 * they are written, and ALLOC's promise holds. A segment without a block in use returns its space:
 * its record states that nothing is prepared, and when that is durable the file gets a hole. Some
 * free segments keep their space for later writes (SNIC_LMDB__SPARE) until the store is closed.
 * While it is shared no space is returned.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    LMDB_MARKED = 1,
    LMDB_LOOK = 64 /* segments scanned before a fragment is taken */
};

int lmdb_runs_add(struct lmdb_runs *r, uint32_t block, uint32_t count)
{
    struct lmdb_run *last = r->count == 0 ? NULL : &r->at[r->count - 1];
    if (last != NULL && last->block + last->count == block) {
        last->count += count;
        return 0;
    }
    if (r->count == r->room) {
        uint32_t room = r->room == 0 ? 64 : r->room * 2;
        struct lmdb_run *at = realloc(r->at, room * sizeof(*at));
        if (at == NULL)
            return SNIC_ENOMEM;
        r->at = at;
        r->room = room;
    }
    r->at[r->count++] = (struct lmdb_run){.block = block, .count = count};
    return 0;
}

/* ---- Bits ---- */

static int lmdb_bit(const uint64_t *words, uint32_t i)
{
    return (int)(words[i / 64] >> (i % 64) & 1);
}

static void lmdb_bits_set(uint64_t *words, uint32_t at, uint32_t count)
{
    for (uint32_t i = at; i < at + count; i++)
        words[i / 64] |= 1ULL << i % 64;
}

static void lmdb_bits_clear(uint64_t *words, uint32_t at, uint32_t count)
{
    for (uint32_t i = at; i < at + count; i++)
        words[i / 64] &= ~(1ULL << i % 64);
}

/** Free blocks from @p at on, at most @p want, below @p end. */
static uint32_t lmdb_bits_run(const uint64_t *busy, uint32_t at, uint32_t want, uint32_t end)
{
    uint32_t n = 0;
    while (n < want && at + n < end && !lmdb_bit(busy, at + n))
        n++;
    return n;
}

/** The first run of @p want free blocks below @p end, or the longest one. */
static uint32_t lmdb_bits_find(const uint64_t *busy, uint32_t want, uint32_t end, uint32_t *at)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < end && best < want;) {
        if (i % 64 == 0 && busy[i / 64] == UINT64_MAX) {
            i += 64;
            continue;
        }
        uint32_t n = lmdb_bits_run(busy, i, want, end);
        if (n > best) {
            best = n;
            *at = i;
        }
        i += n + 1;
    }
    return best;
}

/* ---- Segments ---- */

static struct lmdb_segment *lmdb_segment_at(struct lmdb_kv *s, uint32_t n)
{
    if (n >= s->segment_count)
        return NULL;
    if (s->segments[n] == NULL) {
        s->segments[n] = calloc(1, sizeof(struct lmdb_segment));
        if (s->segments[n] != NULL && n == 0)
            s->segments[n]->busy[0] = s->segments[n]->used[0] = 1; /* the head */
    }
    return s->segments[n];
}

static void lmdb_segment_put(struct lmdb_kv *s, uint32_t n)
{
    const struct lmdb_segment *g = s->segments[n];
    unsigned char out[LMDB_SEGMENT_RECORD];
    struct lmdb_key k = lmdb_key_number('F', n);
    snic_put_le32(out, g->marked ? LMDB_MARKED : 0);
    snic_put_le32(out + 4, g->prepared);
    for (uint32_t i = 0; i < LMDB_WORDS; i++)
        snic_put_le64(out + 8 + 8 * i, g->used[i]);
    lmdb_put(s, &k, out, sizeof(out));
    if (n >= s->segment_end)
        s->segment_end = n + 1;
}

uint32_t lmdb_segment_extend(struct lmdb_kv *s, uint32_t n, uint32_t from)
{
    struct statvfs f;
    uint32_t more = LMDB_SEGMENT - from;
    off_t at = ((off_t)n * LMDB_SEGMENT + from) * LMDB_BLOCK;
    for (;; more = LMDB_PREPARE_STEP) {
        if (more > LMDB_SEGMENT - from)
            return from;
        if (fstatvfs(s->object_fd, &f) == 0 &&
            (uint64_t)f.f_bavail * f.f_frsize <
                (uint64_t)more * LMDB_BLOCK + SNIC_LMDB__KEPT_OBJECTS) {
            if (more <= LMDB_PREPARE_STEP)
                return from; /* the rest is reserved for records */
            continue;
        }
        int r = fallocate(s->object_fd, FALLOC_FL_KEEP_SIZE, at, (off_t)more * LMDB_BLOCK);
        if (r == 0 || errno == EOPNOTSUPP)
            return from + more;
        if (errno != ENOSPC || more <= LMDB_PREPARE_STEP)
            return from;
    }
}

/** Allocate more file space for the segment. 1: it has more. */
static int lmdb_segment_prepare(struct lmdb_kv *s, uint32_t n)
{
    struct lmdb_segment *g = lmdb_segment_at(s, n);
    if (g == NULL || g->prepared == LMDB_SEGMENT || g->trim)
        return 0;
    uint32_t from = g->prepared;
    g->prepared = lmdb_segment_extend(s, n, from);
    uint32_t free = g->prepared - from;
    if (free > 0 && n == 0 && from == 0)
        free--; /* the head */
    g->free += free;
    s->blocks_free += free;
    return g->prepared > from;
}

static uint32_t lmdb_segment_take(struct lmdb_kv *s, uint32_t n, uint32_t at, uint32_t count,
                                  uint32_t *block)
{
    struct lmdb_segment *g = s->segments[n];
    SNIC_ASSERT(g->free >= count);
    lmdb_bits_set(g->busy, at, count);
    g->free -= count;
    s->blocks_free -= count;
    *block = n * LMDB_SEGMENT + at;
    return count;
}

/** Take blocks at the hint. */
static uint32_t lmdb_space_hint(struct lmdb_kv *s, uint32_t want, uint32_t hint, uint32_t *block)
{
    uint32_t n = hint / LMDB_SEGMENT;
    struct lmdb_segment *g = hint == 0 ? NULL : lmdb_segment_at(s, n);
    if (g == NULL)
        return 0;
    if (hint % LMDB_SEGMENT == 0 && n == s->segment_end && lmdb_segment_prepare(s, n))
        s->segment_end++;
    uint32_t at = hint % LMDB_SEGMENT;
    uint32_t got = lmdb_bits_run(g->busy, at, want, g->prepared);
    return got == 0 ? 0 : lmdb_segment_take(s, n, at, got, block);
}

/** Take blocks of the shared mode's pool. */
static uint32_t lmdb_space_pool(struct lmdb_kv *s, uint32_t want, uint32_t *block)
{
    if (s->pool.count == 0)
        return 0;
    struct lmdb_run *r = &s->pool.at[s->pool.count - 1];
    uint32_t n = (uint32_t)snic_min_u64(want, r->count);
    *block = r->block;
    s->pool_blocks -= n;
    r->block += n;
    r->count -= n;
    if (r->count == 0)
        s->pool.count--;
    return n;
}

/** The best run among the segments that have been used: its length, at most @p wish. */
static uint32_t lmdb_space_find(struct lmdb_kv *s, uint32_t wish, uint32_t *segment, uint32_t *at)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < s->segment_end && (i < LMDB_LOOK || best == 0); i++) {
        uint32_t n = (s->rotor + i) % s->segment_end;
        struct lmdb_segment *g = lmdb_segment_at(s, n);
        uint32_t found = 0;
        if (g == NULL || g->free <= best)
            continue;
        uint32_t run = lmdb_bits_find(g->busy, wish, g->prepared, &found);
        if (run > best) {
            best = run;
            *segment = n;
            *at = found;
        }
        if (best >= wish)
            break;
    }
    return best;
}

/** Allocate file space for more blocks. 1: there are more. */
static int lmdb_space_grow(struct lmdb_kv *s)
{
    for (uint32_t n = 0; n < s->segment_end; n++) {
        const struct lmdb_segment *g = s->segments[n];
        if (g == NULL || g->prepared == LMDB_SEGMENT || g->trim)
            continue;
        if (!lmdb_segment_prepare(s, n))
            break; /* the disk is full, or the next segment needs a smaller step */
        s->rotor = n;
        return 1;
    }
    if (!lmdb_segment_prepare(s, s->segment_end))
        return 0;
    s->rotor = s->segment_end++;
    return 1;
}

uint32_t lmdb_space_take(struct lmdb_kv *s, uint32_t want, uint32_t hint, uint32_t *block)
{
    if (s->mode == LMDB_SHARED)
        return lmdb_space_pool(s, want, block);
    uint32_t got = lmdb_space_hint(s, want, hint, block);
    if (got > 0)
        return got;
    /* A stream that has to move gets a run with space to continue. */
    uint32_t wish = hint == 0 ? want : (uint32_t)snic_max_u64(want, LMDB_CHUNK);
    uint32_t n = 0;
    uint32_t at = 0;
    uint32_t best = lmdb_space_find(s, wish, &n, &at);
    if (best < wish && lmdb_space_grow(s))
        best = lmdb_space_find(s, wish, &n, &at);
    if (best == 0)
        return 0;
    s->rotor = n;
    return lmdb_segment_take(s, n, at, (uint32_t)snic_min_u64(best, want), block);
}

/** Loop over the segments of the run: @p part blocks from @p at on of segment @p n. */
#define SNIC_LMDB__EACH(s, block, count, n, at, part)                                              \
    for (uint32_t left_ = (count), n = (block) / LMDB_SEGMENT, at = (block) % LMDB_SEGMENT, part;  \
         left_ > 0 && (part = left_ < LMDB_SEGMENT - at ? left_ : LMDB_SEGMENT - at) > 0;          \
         left_ -= part, n++, at = 0)

void lmdb_space_untake(struct lmdb_kv *s, uint32_t block, uint32_t count)
{
    if (s->mode == LMDB_SHARED) {
        if (lmdb_runs_add(&s->pool, block, count) == 0)
            s->pool_blocks += count;
        return;
    }
    SNIC_LMDB__EACH(s, block, count, n, at, part)
    {
        struct lmdb_segment *g = s->segments[n];
        lmdb_bits_clear(g->busy, at, part);
        g->free += part;
        s->blocks_free += part;
    }
}

void lmdb_space_use(struct lmdb_kv *s, uint32_t block, uint32_t count)
{
    if (s->mode == LMDB_SHARED)
        return; /* the reservation has set the bits */
    SNIC_LMDB__EACH(s, block, count, n, at, part)
    {
        lmdb_bits_set(s->segments[n]->used, at, part);
        lmdb_segment_put(s, n);
    }
}

void lmdb_space_free(struct lmdb_kv *s, uint32_t block, uint32_t count)
{
    if (lmdb_runs_add(&s->active->frees, block, count) != 0)
        lmdb_die(s, SNIC_EIO, ENOMEM);
    if (s->mode == LMDB_SHARED)
        return; /* the transaction clears the bits */
    SNIC_LMDB__EACH(s, block, count, n, at, part)
    {
        struct lmdb_segment *g = lmdb_segment_at(s, n);
        if (g == NULL)
            continue;
        lmdb_bits_clear(g->used, at, part);
        lmdb_segment_put(s, n);
    }
}

void lmdb_space_freed(struct lmdb_kv *s, struct lmdb_runs *runs)
{
    for (uint32_t i = 0; i < runs->count && s->mode == LMDB_SOLE; i++)
        lmdb_space_untake(s, runs->at[i].block, runs->at[i].count);
    runs->count = 0;
}

void lmdb_space_trim(struct lmdb_kv *s, uint64_t keep, uint32_t most)
{
    for (uint32_t n = s->segment_end; n-- > 0 && most > 0 && s->blocks_free > keep;) {
        struct lmdb_segment *g = s->segments[n];
        uint32_t first = n == 0; /* the head stays */
        if (g == NULL || g->trim || g->marked || g->prepared <= first ||
            g->free != g->prepared - first || s->blocks_free - g->free < keep)
            continue;
        if (lmdb_runs_add(&s->active->trims, n * LMDB_SEGMENT + first, g->free) != 0)
            return; /* retried later */
        s->blocks_free -= g->free;
        g->free = 0;
        g->prepared = first;
        g->trim = 1;
        lmdb_segment_put(s, n);
        most--;
    }
}

void lmdb_space_trimmed(struct lmdb_kv *s, struct lmdb_runs *runs)
{
    for (uint32_t i = 0; i < runs->count; i++)
        SNIC_LMDB__EACH(s, runs->at[i].block, runs->at[i].count, n, at, part)
        {
            off_t from = ((off_t)n * LMDB_SEGMENT + at) * LMDB_BLOCK;
            /* A file system without holes keeps the space. */
            (void)fallocate(s->object_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
                            (off_t)part * LMDB_BLOCK);
            s->segments[n]->trim = 0;
        }
    runs->count = 0;
}

void lmdb_runs_join(struct lmdb_kv *s, struct lmdb_runs *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (lmdb_runs_add(&s->pool, r->at[i].block, r->at[i].count) == 0)
            s->pool_blocks += r->at[i].count;
    }
    r->count = 0;
}

/* ---- Marks ---- */

uint64_t lmdb_space_mark(struct lmdb_kv *s, uint32_t block)
{
    uint32_t n = block / LMDB_SEGMENT;
    struct lmdb_segment *g = lmdb_segment_at(s, n);
    if (!g->marked) {
        g->marked = 1;
        s->marked++;
        g->mark_seq = s->active->seq;
        lmdb_segment_put(s, n);
    }
    return g->mark_seq <= s->durable_seq ? 0 : g->mark_seq;
}

int lmdb_space_marked(struct lmdb_kv *s, uint32_t block)
{
    struct lmdb_segment *g = lmdb_segment_at(s, block / LMDB_SEGMENT);
    return g != NULL && g->marked;
}

void lmdb_space_unmark(struct lmdb_kv *s)
{
    for (uint32_t n = 0; n < s->segment_end && s->marked > 0; n++) {
        struct lmdb_segment *g = s->segments[n];
        if (g == NULL || !g->marked)
            continue;
        g->marked = 0;
        s->marked--;
        s->active->names = 1; /* bytes first (S5) */
        lmdb_segment_put(s, n);
    }
}

/* ---- Open and close ---- */

static int lmdb_segment_load(struct lmdb_kv *s, uint64_t n, const struct lmdb_value *v)
{
    struct lmdb_segment *g = n < s->segment_count ? lmdb_segment_at(s, (uint32_t)n) : NULL;
    if (g == NULL || v->size != LMDB_SEGMENT_RECORD)
        return n < s->segment_count && g == NULL ? SNIC_ENOMEM : SNIC_ECORRUPT;
    g->marked = snic_get_le32(v->data) == LMDB_MARKED;
    g->prepared = snic_get_le32(v->data + 4);
    if (snic_get_le32(v->data) > LMDB_MARKED || g->prepared > LMDB_SEGMENT)
        return SNIC_ECORRUPT;
    uint32_t free = g->prepared;
    for (uint32_t i = 0; i < LMDB_WORDS; i++) {
        g->used[i] = snic_get_le64(v->data + 8 + 8 * i);
        g->busy[i] = g->used[i];
        uint32_t used = (uint32_t)__builtin_popcountll(g->used[i]);
        if (used > free)
            return SNIC_ECORRUPT;
        free -= used;
    }
    g->free = free;
    s->blocks_free += free;
    s->marked += g->marked;
    s->segment_end = (uint32_t)n + 1;
    return 0;
}

int lmdb_space_load(struct lmdb_kv *s)
{
    struct lmdb_key k = lmdb_key_number('F', 0);
    for (;;) {
        struct lmdb_value v = {0};
        int r = lmdb_seek(s, &k, &v);
        if (r == SNIC_ENOENT || (r == 0 && k.bytes[0] != 'F'))
            return 0;
        if (r == 0 && k.size != 9)
            r = SNIC_ECORRUPT;
        uint64_t n = snic_get_be64(k.bytes + 1);
        if (r == 0)
            r = lmdb_segment_load(s, n, &v);
        if (r != 0)
            return r;
        k = lmdb_key_number('F', n + 1);
    }
}

void lmdb_space_reset(struct lmdb_kv *s)
{
    for (uint32_t i = 0; s->segments != NULL && i < s->segment_count; i++) {
        free(s->segments[i]);
        s->segments[i] = NULL;
    }
    s->segment_end = 0;
    s->blocks_free = 0;
    s->marked = 0;
    s->pool.count = 0;
    s->pool_blocks = 0;
}

void lmdb_space_count_begin(struct lmdb_kv *s)
{
    for (uint32_t n = 0; n < s->segment_end; n++) {
        if (s->segments[n] != NULL)
            memset(s->segments[n]->used, 0, sizeof(s->segments[n]->used));
    }
    if (s->segment_end > 0 && s->segments[0] != NULL)
        s->segments[0]->used[0] = 1;
}

int lmdb_space_count(struct lmdb_kv *s, uint32_t block)
{
    uint32_t n = block / LMDB_SEGMENT;
    struct lmdb_segment *g = n < s->segment_end ? s->segments[n] : NULL;
    if (g == NULL || block % LMDB_SEGMENT >= g->prepared || lmdb_bit(g->used, block % LMDB_SEGMENT))
        return SNIC_ECORRUPT;
    lmdb_bits_set(g->used, block % LMDB_SEGMENT, 1);
    return 0;
}

void lmdb_space_count_end(struct lmdb_kv *s)
{
    s->blocks_free = 0;
    for (uint32_t n = 0; n < s->segment_end; n++) {
        struct lmdb_segment *g = s->segments[n];
        if (g == NULL)
            continue;
        g->free = g->prepared;
        for (uint32_t i = 0; i < LMDB_WORDS; i++) {
            g->busy[i] = g->used[i];
            g->free -= (uint32_t)__builtin_popcountll(g->used[i]);
        }
        s->blocks_free += g->free;
        lmdb_segment_put(s, n);
    }
}

void lmdb_space_close(struct lmdb_kv *s)
{
    for (uint32_t i = 0; s->segments != NULL && i < s->segment_count; i++)
        free(s->segments[i]);
    free(s->segments);
    s->segments = NULL;
    free(s->pool.at);
    s->pool = (struct lmdb_runs){0};
}

#endif /* SNIC_WITH_LMDB */
