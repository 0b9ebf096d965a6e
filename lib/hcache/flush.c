/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The flush of one page, and fsync rounds.
 *
 *   PULL     CAS: read lock of the DPU and FLIGHT; behind it the page comes. The CAS names the
 *            version that the visit saw together with the key, so the page is the key's.
 *   RELEASE  CAS: the read lock goes, FLIGHT stays: the host may write while the store does.
 *   STORE    The store writes the sealed copy.
 *   FINISH   CAS: FLIGHT goes. Written again meanwhile (AGAIN), or the store failed: stays dirty.
 *            Otherwise clean, also under a write lock: its holder's unlock makes it dirty again.
 */
#include "snicstore/hcache.h"

#include "hcache/control_priv.h"

#include <string.h>

enum { FLUSH_PULL, FLUSH_RELEASE, FLUSH_STORE, FLUSH_FINISH };

static uint64_t flush_entry(const struct snic_hcache_control *c, const struct hcache_job *j)
{
    return hcache_entry_offset(&c->g, j->bucket, j->way);
}

/* One more CAS of the entry from j->state to @p next. */
static void flush_cas(struct snic_hcache_control *c, struct hcache_job *j, uint64_t next,
                      uint32_t step)
{
    j->op_count = 0;
    hcache_job_cas(j, 0, flush_entry(c, j), j->state, next);
    if (step == FLUSH_PULL)
        hcache_job_op(j, SNIC_HCACHE_OP_READ, SNIC_HCACHE_OP_FENCE,
                      hcache_data_offset(&c->g, j->bucket * c->g.ways + j->way), j->page,
                      c->g.page_bytes);
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, step);
}

static uint64_t flush_pulling(uint64_t s)
{
    return hcache_with(s, SNIC_HCACHE_LOCK_READ, SNIC_HCACHE_DIRTY) | SNIC_HCACHE__DPU_READS |
           SNIC_HCACHE__FLIGHT;
}

static uint64_t flush_released(uint64_t s)
{
    s &= ~SNIC_HCACHE__DPU_READS;
    return (s & SNIC_HCACHE__READERS) != 0 ? s : s & ~SNIC_HCACHE__LOCK;
}

static uint64_t flush_finished(uint64_t s, int32_t result)
{
    int clean = result == 0 && (s & SNIC_HCACHE__AGAIN) == 0;

    /* the map's bit or not: its bucket is looked at again */
    s &= ~(SNIC_HCACHE__FLIGHT | SNIC_HCACHE__AGAIN | SNIC_HCACHE__UNMARKED);
    return clean ? hcache_with(s, hcache_lock_of(s), SNIC_HCACHE_CLEAN) : s;
}

/* Done, one way or the other: the bucket is looked at again. */
static void flush_end(struct snic_hcache_control *c, struct hcache_job *j, int soon)
{
    if (soon)
        hcache_bit_set(&c->fresh, j->bucket);
    else
        hcache_later(c, j->bucket);
    if (j->probe) {
        SNIC_ASSERT(c->probing); /* C6: one at a time */
        c->probing = 0;
    }
    hcache_progress(c);
    hcache_job_end(c, j);
}

/* C6: the first failure, or one more of the flush that was to find out. */
static void flush_failed(struct snic_hcache_control *c, const struct hcache_job *j)
{
    uint64_t least = 10 * c->look_ns;

    c->stats.flush_failures++;
    if (c->store_wait != 0 && !j->probe)
        return;
    c->store_wait =
        c->store_wait == 0
            ? least
            : snic_min_u64(2 * c->store_wait, snic_max_u64(least, SNIC_HCACHE__STORE_WAIT_NS));
    c->store_ns = c->now_ns + c->store_wait;
}

void hcache_flush_start(struct snic_hcache_control *c, struct hcache_job *j)
{
    j->round = c->round;
    flush_cas(c, j, flush_pulling(j->state), FLUSH_PULL);
}

/* The page is here: make of it what is stored. */
static void flush_seal(struct snic_hcache_control *c, struct hcache_job *j)
{
    const struct snic_hcache_seal *seal = c->seal;

    j->sum =
        seal->sum != NULL ? seal->sum(c->seal_ctx, j->ino, j->lpn, j->page, c->g.page_bytes) : 0;
    j->bytes = c->g.page_bytes;
    j->packed = 0;
    if (seal->pack != NULL) {
        uint32_t n = seal->pack(c->seal_ctx, j->page, c->g.page_bytes, j->other);

        SNIC_ASSERT(n <= c->g.page_bytes); /* the size of j->other */
        if (n != 0 && n < c->g.page_bytes) {
            j->bytes = n;
            j->packed = 1;
        }
    }
}

static void flush_pulled(struct snic_hcache_control *c, struct hcache_job *j)
{
    uint64_t was = j->ops[0].value;

    if (was == j->ops[0].compare) {
        j->state = j->ops[0].operand;
        j->tries = 0;
        flush_cas(c, j, flush_released(j->state), FLUSH_RELEASE);
        return;
    }
    c->stats.lost_races++;
    /* Readers come and go; anything else and the visit's key may be wrong. */
    if ((hcache_lock_of(was) == SNIC_HCACHE_LOCK_NONE ||
         hcache_lock_of(was) == SNIC_HCACHE_LOCK_READ) &&
        hcache_status_of(was) == SNIC_HCACHE_DIRTY && (was & SNIC_HCACHE__FLIGHT) == 0 &&
        ((was ^ j->state) & SNIC_HCACHE__VERSIONS) == 0 && ++j->tries < SNIC_HCACHE__TRIES) {
        j->state = was;
        flush_cas(c, j, flush_pulling(was), FLUSH_PULL);
        return;
    }
    flush_end(c, j, 0);
}

/* RELEASE and FINISH: again with the present state, unless the host has broken the rules. */
static int flush_lost(struct snic_hcache_control *c, struct hcache_job *j)
{
    uint64_t was = j->ops[0].value;

    if (was == j->ops[0].compare) {
        j->state = j->ops[0].operand;
        return 0;
    }
    c->stats.lost_races++;
    j->state = was;
    if ((was & SNIC_HCACHE__FLIGHT) == 0 || ++j->tries >= SNIC_HCACHE__TRIES) {
        flush_end(c, j, 0);
        return 1;
    }
    flush_cas(c, j, j->step == FLUSH_RELEASE ? flush_released(was) : flush_finished(was, j->result),
              j->step);
    return 1;
}

/* C5: the page is flushed for this round's members, or their fsync fails with @p result. */
static void flush_end_for_round(struct snic_hcache_control *c, const struct hcache_job *j,
                                int32_t result)
{
    uint32_t i;

    if (!c->round_running || j->round != c->round)
        return;
    SNIC_ASSERT(j->way < c->g.ways);
    c->synced[j->bucket] |= (uint16_t)(1u << j->way);
    for (i = 0; i < SNIC_HCACHE_FSYNCS && result != 0; i++)
        if (c->fsync[i].state == SNIC_HCACHE__FSYNC_RUNNING && c->fsync[i].ino == j->ino &&
            c->fsync[i].result == 0)
            c->fsync[i].result = result;
}

static void flush_stored(struct snic_hcache_control *c, struct hcache_job *j)
{
    uint64_t age = c->now_ns - snic_min_u64(j->since_ns, c->now_ns);

    if (j->result < 0) {
        flush_failed(c, j);
    } else {
        j->result = 0;
        c->store_wait = 0;
        c->stats.flushes++;
        c->stats.dirty_age_max_ns = snic_max_u64(c->stats.dirty_age_max_ns, age);
    }
    j->tries = 0;
    /* kept in scratch: completions of DMA overwrite result */
    j->scratch = (uint64_t)(uint32_t)j->result;
    flush_cas(c, j, flush_finished(j->state, j->result), FLUSH_FINISH);
}

void hcache_flush_step(struct snic_hcache_control *c, struct hcache_job *j)
{
    switch (j->step) {
    case FLUSH_PULL:
        flush_pulled(c, j);
        break;
    case FLUSH_RELEASE:
        if (flush_lost(c, j))
            return;
        flush_seal(c, j);
        hcache_job_emit(c, j, SNIC_HCACHE_ACT_FLUSH, FLUSH_STORE);
        break;
    case FLUSH_STORE:
        flush_stored(c, j);
        break;
    default:
        j->result = (int32_t)(uint32_t)j->scratch;
        if (flush_lost(c, j))
            return;
        if ((j->ops[0].compare & SNIC_HCACHE__AGAIN) != 0)
            c->stats.flush_again++;
        flush_end_for_round(c, j, j->result);
        c->since[j->bucket] = hcache_ms(c->now_ns); /* pages still dirty were written recently */
        flush_end(c, j, j->result == 0);
        break;
    }
}

/* ---- fsync ---- */

int hcache_fsync_add(struct snic_hcache_control *c, uint64_t id, uint64_t ino)
{
    uint32_t i;

    for (i = 0; i < SNIC_HCACHE_FSYNCS; i++)
        if (c->fsync[i].state == SNIC_HCACHE__FSYNC_NONE) {
            c->fsync[i].id = id;
            c->fsync[i].ino = ino;
            c->fsync[i].looks = c->looks_started;
            c->fsync[i].result = 0;
            c->fsync[i].state = SNIC_HCACHE__FSYNC_QUEUED;
            c->look_wanted = 1;
            c->stats.fsyncs++;
            return 0;
        }
    return SNIC_EAGAIN;
}

int hcache_fsync_wants(const struct snic_hcache_control *c, uint64_t ino)
{
    uint32_t i;

    for (i = 0; i < SNIC_HCACHE_FSYNCS; i++)
        if (c->fsync[i].state == SNIC_HCACHE__FSYNC_RUNNING && c->fsync[i].ino == ino)
            return 1;
    return 0;
}

void hcache_fsync_looked(struct snic_hcache_control *c, uint64_t look)
{
    uint32_t members = 0;
    uint32_t i;
    uint64_t w;

    if (c->round_running)
        return;
    for (i = 0; i < SNIC_HCACHE_FSYNCS; i++)
        if (c->fsync[i].state == SNIC_HCACHE__FSYNC_QUEUED && c->fsync[i].looks < look) {
            c->fsync[i].state = SNIC_HCACHE__FSYNC_RUNNING;
            members++;
        }
    if (members == 0)
        return;
    c->round_running = 1;
    c->round++;
    memset(c->synced, 0, c->g.buckets * sizeof(c->synced[0]));
    c->due.set = 0;
    c->fresh.set = 0;
    for (w = 0; w < c->look_words; w++) { /* C5, by C2 */
        c->due.words[w] =
            c->fresh.words[w] | c->dirty.words[w] | c->later.words[w] | c->visiting.words[w];
        c->due.set += (uint64_t)__builtin_popcountll(c->due.words[w]);
        c->fresh.words[w] |= c->due.words[w];
        c->fresh.set += (uint64_t)__builtin_popcountll(c->fresh.words[w]);
    }
}

void hcache_fsync_judge(struct snic_hcache_control *c)
{
    uint32_t queued = 0;
    uint32_t i;

    if (!c->round_running || c->due.set != 0)
        return;
    c->round_running = 0;
    for (i = 0; i < SNIC_HCACHE_FSYNCS; i++) {
        if (c->fsync[i].state == SNIC_HCACHE__FSYNC_RUNNING) {
            c->fsync[i].state = SNIC_HCACHE__FSYNC_DONE;
            c->fsyncs_done++;
            SNIC_ASSERT(c->fsyncs_done <= SNIC_HCACHE_FSYNCS);
        }
        queued += c->fsync[i].state == SNIC_HCACHE__FSYNC_QUEUED;
    }
    if (queued != 0)
        c->look_wanted = 1;
}
