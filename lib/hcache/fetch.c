/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The fetch of a page. It holds its entry write-locked and invalid while the store is read, like
 * any fill, so that a write, a truncation or a direct write of the page waits for it.
 *
 *   GUARD   CAS of the bucket's guard; behind it the bucket is read
 *   TAKE    CAS of a free entry or victim
 *   NAME    key, tag; behind them the guard is released
 *   STORE   the store reads the page
 *   FILL    the page; behind it CAS: clean
 */
#include "snicstore/hcache.h"

#include "hcache/control_priv.h"

#include <string.h>

/* How often a guard is asked for before the page is left to the reader. */
#define SNIC_HCACHE__GUARD_TRIES 64u

enum { FETCH_GUARD, FETCH_TAKE, FETCH_NAME, FETCH_GIVE_UP, FETCH_STORE, FETCH_FILL };

static void fetch_start(struct snic_hcache_control *c, struct hcache_job *j)
{
    j->op_count = 0;
    hcache_job_cas(j, 0, hcache_bucket_offset(&c->g, j->bucket), 0, c->holder);
    hcache_job_op(j, SNIC_HCACHE_OP_READ, SNIC_HCACHE_OP_FENCE,
                  hcache_bucket_offset(&c->g, j->bucket), j->copy, c->g.bucket_bytes);
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, FETCH_GUARD);
}

static void fetch_end(struct snic_hcache_control *c, struct hcache_job *j)
{
    SNIC_ASSERT(c->fetching > 0);
    c->fetching--;
    hcache_job_end(c, j);
}

static uint64_t fetch_entry(const struct snic_hcache_control *c, const struct hcache_job *j)
{
    return hcache_entry_offset(&c->g, j->bucket, j->way);
}

static void fetch_give_up(struct snic_hcache_control *c, struct hcache_job *j)
{
    c->stats.prefetch_dropped++;
    j->op_count = 0;
    hcache_job_cas(j, 0, hcache_bucket_offset(&c->g, j->bucket), c->holder, 0);
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, FETCH_GIVE_UP);
}

/* The guard is ours and the bucket is here: choose an entry. */
static void fetch_take(struct snic_hcache_control *c, struct hcache_job *j)
{
    uint32_t free_way = UINT32_MAX;
    uint32_t victim = UINT32_MAX;
    uint32_t way;

    for (way = 0; way < c->g.ways; way++) {
        const unsigned char *e = j->copy + SNIC_HCACHE_HEAD_BYTES + way * SNIC_HCACHE_ENTRY_BYTES;
        uint64_t s = snic_get_le64(e);
        uint32_t status = hcache_status_of(s);

        if (status != SNIC_HCACHE_FREE && snic_get_le64(e + SNIC_HCACHE__INO) == j->ino &&
            snic_get_le64(e + SNIC_HCACHE__LPN) == j->lpn) {
            fetch_give_up(c, j); /* it is there already */
            return;
        }
        if (!hcache_takeable(s))
            continue;
        if (status == SNIC_HCACHE_FREE)
            free_way = way;
        else
            victim = way;
    }
    j->way = free_way != UINT32_MAX ? free_way : victim;
    if (j->way == UINT32_MAX) {
        hcache_bit_set(&c->fresh, j->bucket); /* a reserve is missing */
        fetch_give_up(c, j);
        return;
    }
    j->state = snic_get_le64(j->copy + SNIC_HCACHE_HEAD_BYTES + j->way * SNIC_HCACHE_ENTRY_BYTES);
    j->op_count = 0;
    hcache_job_cas(j, 0, fetch_entry(c, j), j->state,
                   hcache_locked(j->state & SNIC_HCACHE__VERSIONS, c->holder, SNIC_HCACHE_INVALID));
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, FETCH_TAKE);
}

static void fetch_name(struct snic_hcache_control *c, struct hcache_job *j)
{
    uint64_t tags = SNIC_HCACHE__TAGS + j->way / 4 * 8;
    unsigned shift = j->way % 4 * 16;
    int was_free = hcache_status_of(j->ops[0].compare) == SNIC_HCACHE_FREE;

    SNIC_ASSERT(j->way < c->g.ways);
    j->state = j->ops[0].operand;
    j->key[0] = hcache_next(&c->g, j->bucket, j->way);
    j->key[1] = j->lpn;
    j->key[2] = j->ino;
    /* only the guard's holder writes tags, so the copy's are those of the region */
    j->scratch = snic_get_le64(j->copy + tags);
    j->scratch = (j->scratch & ~(UINT64_C(0xffff) << shift)) | (uint64_t)(uint16_t)j->tag << shift;
    j->op_count = 0;
    hcache_job_op(j, SNIC_HCACHE_OP_WRITE, 0, fetch_entry(c, j) + SNIC_HCACHE__NEXT, j->key, 24);
    hcache_job_op(j, SNIC_HCACHE_OP_WRITE, 0, hcache_bucket_offset(&c->g, j->bucket) + tags,
                  &j->scratch, 8);
    if (was_free)
        hcache_job_add(j, 0, SNIC_HCACHE_OFF_FREE, UINT64_MAX);
    hcache_job_cas(j, SNIC_HCACHE_OP_FENCE, hcache_bucket_offset(&c->g, j->bucket), c->holder, 0);
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, FETCH_NAME);
}

/* What the store gave, or did not. 1: the page is good. */
static int fetch_open(struct snic_hcache_control *c, struct hcache_job *j)
{
    const struct snic_hcache_seal *seal = c->seal;

    if (j->result < 0)
        return 0;
    if (j->bytes < c->g.page_bytes && j->bytes != 0) {
        memcpy(j->other, j->page, j->bytes);
        if (seal->unpack == NULL ||
            seal->unpack(c->seal_ctx, j->other, j->bytes, j->page, c->g.page_bytes) != 0) {
            c->stats.bad_sums++;
            return 0;
        }
    }
    if (j->packed != 0 && seal->sum != NULL &&
        seal->sum(c->seal_ctx, j->ino, j->lpn, j->page, c->g.page_bytes) != j->sum) {
        c->stats.bad_sums++;
        return 0;
    }
    return 1;
}

static void fetch_fill(struct snic_hcache_control *c, struct hcache_job *j)
{
    uint64_t next;

    j->op_count = 0;
    if (fetch_open(c, j)) {
        c->stats.prefetched++;
        hcache_prefetch_account(c, 1, 0);
        next = hcache_with(j->state & SNIC_HCACHE__VERSIONS, SNIC_HCACHE_LOCK_NONE,
                           SNIC_HCACHE_CLEAN) |
               SNIC_HCACHE__PREFETCHED | (j->ahead ? SNIC_HCACHE__AHEAD : 0);
        hcache_job_op(j, SNIC_HCACHE_OP_WRITE, 0,
                      hcache_data_offset(&c->g, j->bucket * c->g.ways + j->way), j->page,
                      c->g.page_bytes);
    } else {
        c->stats.prefetch_dropped++;
        hcache_prefetch_forget(c, j->ino, j->lpn);
        next = hcache_freed(j->state);
        hcache_job_add(j, 0, SNIC_HCACHE_OFF_FREE, 1);
    }
    hcache_job_cas(j, SNIC_HCACHE_OP_FENCE, fetch_entry(c, j), j->state, next);
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, FETCH_FILL);
}

void hcache_fetch_step(struct snic_hcache_control *c, struct hcache_job *j)
{
    switch (j->step) {
    case FETCH_GUARD:
        if (j->ops[0].value == 0) {
            fetch_take(c, j);
            return;
        }
        if (++j->tries < SNIC_HCACHE__GUARD_TRIES) {
            fetch_start(c, j);
            return;
        }
        c->stats.prefetch_dropped++;
        fetch_end(c, j);
        return;
    case FETCH_TAKE:
        if (j->ops[0].value == j->ops[0].compare) {
            fetch_name(c, j);
            return;
        }
        c->stats.lost_races++;
        fetch_give_up(c, j);
        return;
    case FETCH_NAME:
        hcache_job_emit(c, j, SNIC_HCACHE_ACT_FETCH, FETCH_STORE);
        return;
    case FETCH_STORE:
        fetch_fill(c, j);
        return;
    case FETCH_FILL:
        hcache_bit_set(&c->fresh, j->bucket);
        hcache_progress(c);
        fetch_end(c, j);
        return;
    default: /* FETCH_GIVE_UP */
        hcache_progress(c);
        fetch_end(c, j);
        return;
    }
}

/* Does the fetch hold or want its bucket's guard? */
static int fetch_guards(const struct hcache_job *j)
{
    return j->step < FETCH_STORE;
}

/* Does a fetch of ours hold or want this bucket's guard? */
static int fetch_guarding(const struct snic_hcache_control *c, uint64_t bucket)
{
    uint32_t i;

    for (i = 0; i < c->jobs_max && c->fetching != 0; i++)
        if (c->jobs[i].kind == SNIC_HCACHE__JOB_FETCH && c->jobs[i].bucket == bucket &&
            fetch_guards(&c->jobs[i]))
            return 1;
    return 0;
}

int hcache_fetch_next(struct snic_hcache_control *c)
{
    while (c->streams_open != 0 && c->fetching < (c->jobs_max + 1) / 2) {
        uint32_t i = (uint32_t)__builtin_ctzll(c->streams_open);
        struct hcache_stream *s = &c->stream[i];
        struct hcache_place p = hcache_place(c->g.seed, c->g.buckets, s->ino, s->from);
        struct hcache_job *j;

        if (fetch_guarding(c, p.bucket))
            return 0; /* its next step asks again */
        j = hcache_job_start(c, SNIC_HCACHE__JOB_FETCH, p.bucket);
        if (j == NULL)
            return 0;
        j->ino = s->ino;
        j->lpn = s->from++;
        j->tag = p.tag;
        j->ahead = s->mark;
        s->mark = 0;
        if (s->from >= s->to)
            c->streams_open &= ~(UINT64_C(1) << i);
        if (hcache_bit(&c->mend[0], p.bucket) || hcache_bit(&c->mend[1], p.bucket)) {
            c->stats.prefetch_dropped++; /* C4 */
            hcache_job_end(c, j);
            continue;
        }
        c->fetching++;
        fetch_start(c, j);
        return 1;
    }
    return 0;
}
