/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects while other handles have the store open.
 *
 * An object's map is read and changed only under its lock: byte LMDB_LOCKS_AT + hash of
 * session.lock, shared for jobs that read, exclusive for jobs that change. The jobs of a handle
 * share its hold. A handle that cannot get it sets a flag (the byte of that lock in the mapped part
 * of the file) and retries every millisecond; the holder then starts nothing new under it, releases
 * it when its jobs have ended, and does not take it for two milliseconds.
 *
 * Under the lock chunks are cached in memory; they are dropped with it. Checksums of blocks that
 * are overwritten in place are not put: mismatches in marked segments are accepted until a handle
 * is sole again and processes all marks (lmdb_recover()).
 *
 * LMDB makes a transaction visible to readers after it is on the medium. A handle that dies in
 * between leaves readers with the state before it until the next write transaction; the next holder
 * of its lock would take the blocks that it committed for free, or overwrite them. So under a newly
 * taken lock, if the medium has a transaction that readers do not see, a handle first commits one
 * of its own (S6).
 *
 * Blocks are reserved in the data base before they are written (used, though no map names them), so
 * that no two handles take the same. Blocks that a dead handle had reserved are freed when a handle
 * is sole again and counts.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define SNIC_LMDB__POLL_NS 1000000ULL
#define SNIC_LMDB__AWAY_NS 2000000ULL
#define SNIC_LMDB__LOCKS_AT (1ULL << 20)

enum { LMDB_RESERVE_MIN = 512 }; /* blocks reserved at once */

/* ---- Locks ---- */

static struct lmdb_lock *lmdb_lock_of(struct lmdb_kv *s, uint64_t object)
{
    return &s->locks[lmdb_lock_number(object)];
}

static uint32_t lmdb_lock_index(const struct lmdb_kv *s, const struct lmdb_lock *l)
{
    return (uint32_t)(l - s->locks);
}

/** The flag that another handle waits for the lock. */
static _Atomic uint8_t *lmdb_lock_wish(struct lmdb_kv *s, const struct lmdb_lock *l)
{
    return s->session.wishes + lmdb_lock_index(s, l);
}

static void lmdb_lock_release(struct lmdb_kv *s, struct lmdb_lock *l)
{
    if (l->held == 0)
        return;
    _Atomic uint8_t *wish = lmdb_lock_wish(s, l);
    if (atomic_load_explicit(wish, memory_order_relaxed) != 0) {
        atomic_store_explicit(wish, 0, memory_order_relaxed);
        l->away_ns = snic_loop_now(s->kv.loop) + SNIC_LMDB__AWAY_NS;
    }
    lmdb_chunks_drop(s, lmdb_lock_index(s, l));
    (void)lmdb_session_lock(&s->session, F_UNLCK, SNIC_LMDB__LOCKS_AT + lmdb_lock_index(s, l), 1);
    l->held = 0;
}

/** 1: one more job may hold it, and does. */
static int lmdb_lock_try(struct lmdb_kv *s, struct lmdb_lock *l, int exclusive)
{
    uint8_t need = exclusive ? 2 : 1;
    int wished = atomic_load_explicit(lmdb_lock_wish(s, l), memory_order_relaxed) != 0;
    if (l->users > 0 && wished)
        return 0; /* let it drain */
    if (l->held < need) {
        if (l->held == 0 && snic_loop_now(s->kv.loop) < l->away_ns)
            return 0;
        int r = lmdb_session_lock(&s->session, exclusive ? F_WRLCK : F_RDLCK,
                                  SNIC_LMDB__LOCKS_AT + lmdb_lock_index(s, l), 1);
        if (r != 0) {
            atomic_store_explicit(lmdb_lock_wish(s, l), 1, memory_order_relaxed);
            if (l->users == 0)
                lmdb_lock_release(s, l);
            return 0;
        }
        if (l->held == 0) {
            lmdb_snapshot_drop(s); /* earlier reads are stale */
            l->caught_up = lmdb_snapshot_behind(s) ? s->active->seq : 0;
        }
        l->held = need;
    }
    l->users++;
    return 1;
}

static void lmdb_lock_poll(struct lmdb_kv *s)
{
    if (!s->share_timer.armed)
        snic_loop_arm(s->kv.loop, &s->share_timer, snic_loop_now(s->kv.loop) + SNIC_LMDB__POLL_NS);
}

/** The job has the lock: it waits for the batch that makes all commits visible, if any (S6). */
static void lmdb_share_catch_up(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    struct lmdb_lock *l = lmdb_lock_of(s, j->object);
    if (l->caught_up <= s->durable_seq)
        return;
    if (s->flight == NULL || l->caught_up != s->flight->seq) { /* not sent yet, or it has failed */
        s->active->catch_up = 1;
        l->caught_up = s->active->seq;
    }
    j->catching_up = 1;
    lmdb_batch_wait_job(j, l->caught_up);
}

void lmdb_job_go(struct lmdb_job *j)
{
    j->pending = 1;
    if (j->s->dead != 0) {
        lmdb_job_fail(j, j->s->dead, j->s->dead_os);
        j->next = NULL;
    } else if (j->s->mode == LMDB_SHARED) {
        lmdb_share_catch_up(j);
    }
    lmdb_job_step(j);
}

/** Start the jobs that wait for the lock, in their order, as far as they get it. */
static void lmdb_lock_serve(struct lmdb_kv *s, struct lmdb_lock *l)
{
    while (l->waiting.first != NULL) {
        struct lmdb_job *j = SNIC_CONTAINER(l->waiting.first, struct lmdb_job, node);
        if (s->dead == 0 && !lmdb_lock_try(s, l, j->exclusive)) {
            lmdb_lock_poll(s);
            return;
        }
        l->users += s->dead != 0;
        (void)snic_queue_pop(&l->waiting);
        s->lock_waiters--;
        lmdb_job_go(j);
    }
}

void lmdb_share_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct lmdb_kv *s = SNIC_CONTAINER(t, struct lmdb_kv, share_timer);
    (void)now_ns;
    for (uint32_t i = 0; i < LMDB_LOCKS && s->lock_waiters > 0; i++) {
        if (s->locks[i].waiting.first != NULL)
            lmdb_lock_serve(s, &s->locks[i]);
    }
}

int lmdb_share_enter(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    struct lmdb_lock *l = lmdb_lock_of(s, j->object);
    if (l->waiting.first == NULL && lmdb_lock_try(s, l, j->exclusive))
        return 1;
    snic_queue_push(&l->waiting, &j->node);
    s->lock_waiters++;
    lmdb_lock_poll(s);
    return 0;
}

void lmdb_share_leave(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    struct lmdb_lock *l = lmdb_lock_of(s, j->object);
    SNIC_ASSERT(l->users > 0);
    s->promised -= j->promised;
    if (j->result < 0) /* its changes may not have been committed */
        lmdb_chunks_drop(s, lmdb_lock_index(s, l));
    if (--l->users == 0)
        lmdb_lock_release(s, l);
    if (l->waiting.first != NULL)
        lmdb_lock_poll(s);
}

int lmdb_share_open(struct lmdb_kv *s)
{
    if (s->locks == NULL)
        s->locks = calloc(LMDB_LOCKS, sizeof(struct lmdb_lock));
    return s->locks == NULL ? SNIC_ENOMEM : 0;
}

/* ---- Marks and reservations: the owner's side ---- */

int lmdb_share_marked(struct lmdb_kv *s, uint32_t block)
{
    struct lmdb_key k = lmdb_key_number('F', block / LMDB_SEGMENT);
    struct lmdb_value v = {0};
    return lmdb_get(s, &k, &v) == 0 && v.size >= 4 && (snic_get_le32(v.data) & 1) != 0;
}

uint64_t lmdb_share_mark(struct lmdb_kv *s, uint32_t block)
{
    if (lmdb_share_marked(s, block))
        return 0;
    if (lmdb_runs_add(&s->active->marks, block / LMDB_SEGMENT, 1) != 0)
        lmdb_die(s, SNIC_EIO, ENOMEM);
    return s->active->seq;
}

void lmdb_share_reserve(struct lmdb_job *j, uint32_t blocks)
{
    struct lmdb_kv *s = j->s;
    s->promised += blocks;
    j->promised += blocks;
    if (s->pool_blocks >= s->promised)
        return;
    s->active->want += (uint32_t)snic_max_u64(s->promised - s->pool_blocks, LMDB_RESERVE_MIN);
    lmdb_batch_wait_job(j, s->active->seq);
}

#endif /* SNIC_WITH_LMDB */
