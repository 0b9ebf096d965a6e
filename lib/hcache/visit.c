/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Visits of buckets: what a dead side left, who is to go, what is dirty. */
#include "snicstore/hcache.h"

#include "hcache/control_priv.h"

#include <string.h>

enum { VISIT_READ, VISIT_MEND, VISIT_MARK };

static uint64_t visit_word(const struct hcache_job *j, uint32_t way, uint32_t field)
{
    return snic_get_le64(j->copy + SNIC_HCACHE_HEAD_BYTES + way * SNIC_HCACHE_ENTRY_BYTES + field);
}

static void visit_set_state(struct hcache_job *j, uint32_t way, uint64_t s)
{
    snic_put_le64(j->copy + SNIC_HCACHE_HEAD_BYTES + way * SNIC_HCACHE_ENTRY_BYTES, s);
}

static void visit_read(struct snic_hcache_control *c, struct hcache_job *j)
{
    j->op_count = 0;
    j->stale = 0;
    j->round = c->round; /* its findings do not hold for a round that begins later */
    hcache_job_op(j, SNIC_HCACHE_OP_READ, 0, hcache_bucket_offset(&c->g, j->bucket), j->copy,
                  c->g.bucket_bytes);
    if (c->unordered)
        hcache_job_op(j, SNIC_HCACHE_OP_READ, SNIC_HCACHE_OP_FENCE,
                      hcache_bucket_offset(&c->g, j->bucket), j->copy + c->g.bucket_bytes,
                      c->g.bucket_bytes);
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, VISIT_READ);
}

/*
 * A key, and the end, are read behind their entry's state, as everywhere: if a CAS of that state
 * succeeds later, the write lock was not held in between, and they are of that version.
 */
static void visit_keys(const struct snic_hcache_control *c, struct hcache_job *j)
{
    uint32_t way;

    for (way = 0; way < c->g.ways && c->unordered; way++) {
        unsigned char *at =
            j->copy + SNIC_HCACHE_HEAD_BYTES + way * SNIC_HCACHE_ENTRY_BYTES + SNIC_HCACHE__NEXT;

        memcpy(at, at + c->g.bucket_bytes, SNIC_HCACHE_ENTRY_BYTES - SNIC_HCACHE__NEXT);
    }
}

void hcache_visit_start(struct snic_hcache_control *c, struct hcache_job *j)
{
    c->stats.visits++;
    visit_read(c, j);
}

static void visit_end(struct snic_hcache_control *c, struct hcache_job *j)
{
    SNIC_ASSERT(hcache_bit(&c->visiting, j->bucket)); /* C3 */
    hcache_bit_clear(&c->visiting, j->bucket);
    hcache_job_end(c, j);
}

/*
 * C4: take away what a dead side left. 1: a batch is under way; 0: nothing is left; SNIC_EBUSY: a
 * page of the dead host is still on its way to the store.
 */
static int visit_mend(struct snic_hcache_control *c, struct hcache_job *j, int side)
{
    uint32_t who = side == 0 ? SNIC_HCACHE_HOST : SNIC_HCACHE_DPU;
    uint64_t guard = snic_get_le64(j->copy + SNIC_HCACHE__GUARD);
    uint64_t freed = 0;
    uint32_t way;

    j->op_count = 0;
    for (way = 0; way < c->g.ways; way++) {
        uint64_t s = visit_word(j, way, SNIC_HCACHE__STATE);
        uint64_t next = hcache_mended(s, who);

        if (next == s)
            continue;
        if (side == 0 && (s & SNIC_HCACHE__FLIGHT) != 0 && (next & SNIC_HCACHE__FLIGHT) == 0)
            return SNIC_EBUSY;
        hcache_job_cas(j, 0, hcache_entry_offset(&c->g, j->bucket, way), s, next);
        freed += hcache_status_of(next) == SNIC_HCACHE_FREE;
    }
    /* behind the entries, as in recover.c */
    if (hcache_guard_mended(guard, who) != guard)
        hcache_job_cas(j, SNIC_HCACHE_OP_FENCE,
                       hcache_bucket_offset(&c->g, j->bucket) + SNIC_HCACHE__GUARD, guard, 0);
    if (j->op_count == 0)
        return 0;
    if (freed != 0)
        hcache_job_add(j, 0, SNIC_HCACHE_OFF_FREE, freed);
    c->stats.recovered += j->op_count;
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, VISIT_MEND);
    return 1;
}

/* Start flushing an entry, @p urgent for an fsync: 1, or 0 no job is free. */
static int visit_flush(struct snic_hcache_control *c, struct hcache_job *v, uint32_t way,
                       int urgent)
{
    struct hcache_job *j = hcache_job_start(c, SNIC_HCACHE__JOB_FLUSH, v->bucket);

    if (j == NULL)
        return 0;
    j->way = way;
    j->state = visit_word(v, way, SNIC_HCACHE__STATE);
    j->ino = visit_word(v, way, SNIC_HCACHE__INO);
    j->lpn = visit_word(v, way, SNIC_HCACHE__LPN);
    j->end = (uint32_t)(visit_word(v, way, SNIC_HCACHE__NEXT) >> 32);
    if (j->end == 0 || j->end > c->g.page_bytes) /* unknown, or out of range */
        j->end = c->g.page_bytes;
    j->since_ns = (uint64_t)c->since[v->bucket] * 1000000;
    if (!urgent && c->store_wait != 0) { /* C6 */
        j->probe = 1;
        c->probing = 1;
    }
    hcache_flush_start(c, j);
    return 1;
}

/* The policy looks at the bucket; batch the marks. Returns the entries it wants that are dirty. */
static uint32_t visit_choose(struct snic_hcache_control *c, struct hcache_job *j)
{
    struct snic_hcache_way ways[SNIC_HCACHE_WAYS_MAX];
    uint32_t ready = 0;
    uint32_t named;
    uint32_t way;

    memset(ways, 0, sizeof(ways));
    for (way = 0; way < c->g.ways; way++) {
        uint64_t s = visit_word(j, way, SNIC_HCACHE__STATE);
        uint32_t status = hcache_status_of(s);

        if (status == SNIC_HCACHE_FREE || hcache_lock_of(s) == SNIC_HCACHE_LOCK_INVALID) {
            ready += status == SNIC_HCACHE_FREE;
            continue;
        }
        (void)snic_hcache_place(c->g.seed, c->g.buckets, visit_word(j, way, SNIC_HCACHE__INO),
                                visit_word(j, way, SNIC_HCACHE__LPN), &ways[way].print);
        ways[way].hits = (uint8_t)((s & SNIC_HCACHE__HITS) >> SNIC_HCACHE__HITS_SHIFT);
        ways[way].flags = SNIC_HCACHE_WAY_USED;
        if (status == SNIC_HCACHE_CLEAN && hcache_lock_of(s) == SNIC_HCACHE_LOCK_NONE)
            ways[way].flags |= SNIC_HCACHE_WAY_IDLE;
        if ((s & SNIC_HCACHE__VICTIM) != 0) {
            ways[way].flags |= SNIC_HCACHE_WAY_VICTIM;
            ready++;
        }
    }
    named = c->policy->choose(c->policy_state + j->bucket * c->policy->state_bytes, ways, c->g.ways,
                              ready < c->reserve ? c->reserve - ready : 0);
    j->op_count = 0;
    for (way = 0; way < c->g.ways; way++) {
        uint64_t s = visit_word(j, way, SNIC_HCACHE__STATE);
        uint64_t next = (s & ~SNIC_HCACHE__HITS) | (uint64_t)(ways[way].hits & 3)
                                                       << SNIC_HCACHE__HITS_SHIFT;

        if ((ways[way].flags & SNIC_HCACHE_WAY_USED) == 0 || (s & 1) != 0)
            continue;
        if ((named >> way & 1) != 0 && (ways[way].flags & SNIC_HCACHE_WAY_IDLE) != 0) {
            next |= SNIC_HCACHE__VICTIM;
            named &= ~(1u << way);
        }
        if (next != s) {
            uint32_t victim = (next & ~s & SNIC_HCACHE__VICTIM) != 0;

            c->stats.victims += victim;
            if (victim && (s & SNIC_HCACHE__PREFETCHED) != 0)
                hcache_prefetch_account(c, 0, 1);
            hcache_job_cas(j, 0, hcache_entry_offset(&c->g, j->bucket, way), s, next);
        }
    }
    return named;
}

/*
 * The marks are made, or not: put the present states into the copy. 0; SNIC_EAGAIN: an entry has a
 * new version, so its key in the copy may be of another page.
 */
static int visit_marked(struct snic_hcache_control *c, struct hcache_job *j)
{
    int r = 0;
    uint32_t i;

    for (i = 0; i < j->op_count; i++) {
        const struct snic_hcache_op *op = &j->ops[i];
        uint64_t from = op->offset - hcache_entry_offset(&c->g, j->bucket, 0);
        uint32_t way = (uint32_t)(from / SNIC_HCACHE_ENTRY_BYTES);

        SNIC_ASSERT(way < c->g.ways); /* the batch of visit_choose() */
        if (op->value != op->compare) {
            c->stats.lost_races++;
            if (((op->value ^ op->compare) & SNIC_HCACHE__VERSIONS) != 0)
                r = SNIC_EAGAIN;
        }
        visit_set_state(j, way, op->value == op->compare ? op->operand : op->value);
    }
    hcache_progress(c);
    return r;
}

/* C6 */
static int visit_may_flush(const struct snic_hcache_control *c)
{
    return c->store_wait == 0 || (c->now_ns >= c->store_ns && !c->probing);
}

/*
 * Flush what is to be flushed, and keep the bits true (C2, C5). @p wanted: entries that the policy
 * wants to be clean.
 */
static void visit_finish(struct snic_hcache_control *c, struct hcache_job *j, uint32_t wanted)
{
    uint64_t bucket = j->bucket;
    uint32_t now = hcache_ms(c->now_ns);
    int due = hcache_bit(&c->due, bucket) && j->round == c->round;
    int known = hcache_bit(&c->dirty, bucket);
    int still_due = 0;
    int dirty = 0;
    uint32_t way;

    if (!known)
        c->since[bucket] = now;
    for (way = 0; way < c->g.ways; way++) {
        uint64_t s = visit_word(j, way, SNIC_HCACHE__STATE);
        int urgent, go;

        if (hcache_status_of(s) != SNIC_HCACHE_DIRTY ||
            hcache_lock_of(s) == SNIC_HCACHE_LOCK_INVALID)
            continue;
        dirty = 1;
        urgent = due && (c->synced[bucket] >> way & 1) == 0 &&
                 hcache_fsync_wants(c, visit_word(j, way, SNIC_HCACHE__INO));
        still_due |= urgent;
        go = urgent || (visit_may_flush(c) && ((wanted >> way & 1) != 0 ||
                                               now - c->since[bucket] >= hcache_ms(c->flush_ns)));
        if (!go || (s & SNIC_HCACHE__FLIGHT) != 0)
            continue; /* C3; the flush that is under way has the bucket visited again */
        if (hcache_lock_of(s) == SNIC_HCACHE_LOCK_WRITE)
            hcache_later(c, bucket);
        else if (!visit_flush(c, j, way, urgent))
            hcache_bit_set(&c->fresh, bucket);
    }
    if (dirty)
        hcache_bit_set(&c->dirty, bucket);
    else
        hcache_bit_clear(&c->dirty, bucket);
    if (due && !still_due)
        hcache_bit_clear(&c->due, bucket);
    visit_end(c, j);
}

/* The bucket is here and mended. */
static void visit_seen(struct snic_hcache_control *c, struct hcache_job *j)
{
    uint32_t wanted = visit_choose(c, j);

    j->way = wanted;
    if (j->op_count != 0)
        hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, VISIT_MARK);
    else
        visit_finish(c, j, wanted);
}

void hcache_visit_step(struct snic_hcache_control *c, struct hcache_job *j)
{
    int side, r;

    if (j->step == VISIT_MARK) {
        if (visit_marked(c, j) == 0) {
            visit_finish(c, j, j->way);
        } else { /* the bits stay as they are (C2) */
            hcache_later(c, j->bucket);
            visit_end(c, j);
        }
        return;
    }
    if (j->step == VISIT_MEND) { /* mended or not: look again */
        if (++j->tries < SNIC_HCACHE__TRIES) {
            visit_read(c, j);
            return;
        }
        hcache_later(c, j->bucket);
        visit_end(c, j);
        return;
    }
    if (j->stale) {
        visit_read(c, j);
        return;
    }
    visit_keys(c, j);
    for (side = 1; side >= 0; side--) {
        if (!hcache_bit(&c->mend[side], j->bucket))
            continue;
        r = visit_mend(c, j, side);
        if (r == 1)
            return;
        if (r < 0) {
            hcache_later(c, j->bucket);
            visit_end(c, j);
            return;
        }
        hcache_bit_clear(&c->mend[side], j->bucket);
    }
    visit_seen(c, j);
}
