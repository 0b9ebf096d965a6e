/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A learner gets what it lacks from a donor while writes continue.
 *
 * From its first epoch on it is sent every INV and acknowledges, so of each key it has the newest
 * that began since; what it lacks are older ones. Most of these it has had before: records that
 * its log has, or its memory from before it was left out. They are hints (I10): the protocol does
 * not see them before the donor has confirmed that it has the key with the same timestamp, which
 * has one value everywhere. An INV takes the place of a hint as if nothing had been there (A2).
 *
 * The learner compares ranges of hashes with the donor (run.c, donor.c): PULL has digests of a few
 * ranges, PULLED names those that are equal, then all hints in them are confirmed; of the others
 * the donor offers each record: OFFER, RECORD. A hint with the offered timestamp is confirmed, the
 * value of another is requested; a hint of a key that the donor does not have is dropped. What the
 * donor answers is true at the time of its answer, and all that happens after it the learner hears
 * of: no key is purged while there is a learner. So answers may come late, doubled, in any order,
 * and what has been compared stays so when another node becomes the donor: that one has the same or
 * newer, and of a newer write that is complete anywhere the learner has acknowledged the INV.
 *
 * The log keeps the old records while the node learns: if all FULL nodes are lost meanwhile an
 * operator can begin from it, with what the node had when it was FULL or newer, key by key. A
 * record in the place of a hint with a higher timestamp is marked SNIC_DDP_REPLACES; a dropped hint
 * is made void by SNIC_DDP_DROPS. At the end one FLUSH covers all of these.
 */
#include "ddp_priv.h"

/* The donor sends nothing new, if it is in @p late. */
static void ddp_learn_suspect(struct snic_ddp *d, uint16_t late)
{
    uint16_t same = d->learn_late;
    ddp_suspect(&d->silent, &same, late);
    ddp_suspect(&d->suspects, &d->learn_late, late);
}

/* Something came that was not here: the donor is not slow, and the rest may be on its way. */
static void ddp_learn_progress(struct snic_ddp *d)
{
    d->learn_tries = 0;
    ddp_learn_suspect(d, 0);
    ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_PULL), 0);
}

/* Nothing is left of what this node did before it was left out; its records become hints. */
static void ddp_learn_begin(struct snic_ddp *d, uint32_t flags)
{
    for (uint32_t c = DDP_REPLAY; c < DDP_PACE; c++) {
        while (d->timers.classes[c].first != SNIC_DDP__NIL)
            ddp_timer_stop(d, d->timers.classes[c].first);
    }
    for (uint32_t i = 0; i < d->waits.high; i++) { /* their FLUSHED will not come */
        if ((ddp_wait_at(d, i)->flags & DDP_A_USED) != 0)
            ddp_pool_give(&d->waits, i);
    }
    ddp_scopes_drop(d);
    memset(&d->learning, 0, sizeof(d->learning));
    d->part++;
    d->hints = d->recs.used;
    d->log_void = (flags & SNIC_DDP_RETIRED) != 0;
    d->shed_next = 0;
    d->learn_next = d->learn_keys = 0;
    d->learn = DDP_LEARN_PULLS;
    ddp_runs_end(d);
    if (d->hints != 0 && !d->log_void) {
        d->learn = DDP_LEARN_BEGINS;
        ddp_flush(d, SNIC_DDP__ID_LEARN);
    }
}

static void ddp_learn_pulls(struct snic_ddp *d)
{
    d->learn_tries = 0;
    ddp_runs_restart(d);
    ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_PULL), 0);
}

/* A new epoch. The donor may be another one. */
void ddp_learn_epoch(struct snic_ddp *d, uint32_t flags)
{
    ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_PULL));
    ddp_learn_suspect(d, 0);
    if (d->role != SNIC_DDP_LEARNER) {
        if (d->learn != DDP_LEARN_NOT)
            ddp_runs_end(d);
        d->learn = DDP_LEARN_NOT;
        return;
    }
    if (d->learn == DDP_LEARN_NOT)
        ddp_learn_begin(d, flags);
    if (d->learn == DDP_LEARN_PULLS)
        ddp_learn_pulls(d);
    else if (d->learn == DDP_LEARN_DONE)
        (void)ddp_act(d, SNIC_DDP_CAUGHT_UP);
}

void ddp_learn_retry(struct snic_ddp *d)
{
    SNIC_ASSERT(d->learn == DDP_LEARN_PULLS);
    d->learn_tries++;
    d->counters.retransmits++;
    if (d->learn_tries >= SNIC_DDP__LATE)
        ddp_learn_suspect(d, ddp_bit(d->donor));
    ddp_runs_retry(d);
    ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_PULL), d->learn_tries);
}

void ddp_learn_flushed(struct snic_ddp *d)
{
    if (d->learn == DDP_LEARN_BEGINS) {
        d->learn = DDP_LEARN_PULLS;
        ddp_learn_pulls(d);
    } else if (d->learn == DDP_LEARN_FLUSHES) {
        d->learn = DDP_LEARN_DONE;
        (void)ddp_act(d, SNIC_DDP_CAUGHT_UP);
    }
}

/* All ranges are compared, when no run is left. */
static int ddp_learn_compared(const struct snic_ddp *d)
{
    for (uint32_t i = 0; i < d->runs; i++) {
        if (ddp_run_at(d, i)->state != DDP_RUN_FREE)
            return 0;
    }
    return 1;
}

/* A piece of work; 0: nothing before something comes in. */
int ddp_learn_work(struct snic_ddp *d)
{
    if (d->learn != DDP_LEARN_PULLS)
        return 0;
    if (d->learn_work && ddp_runs_work(d))
        return 1;
    if (!ddp_learn_compared(d))
        return 0;
    SNIC_ASSERT(d->hints == 0); /* U1, I10 */
    ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_PULL));
    d->learn = DDP_LEARN_FLUSHES;
    ddp_flush(d, SNIC_DDP__ID_LEARN);
    return 1;
}

/* ---- OFFER, RECORD ---- */

static int ddp_learn_valid(const struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    int locked = (m->flags & SNIC_DDP_MSG_LOCKED) != 0;
    if (m->ts == 0 || m->seen[0] > m->ts || m->seen[1] > m->ts)
        return 0;
    if (m->type == SNIC_DDP_OFFER && (m->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        return 0;
    /* Locked though complete: REnf only, where a lock outlasts gV. */
    if (locked && m->seen[0] == m->ts && ddp_msg_rule(d, m) != SNIC_DDP_RENF)
        return 0;
    /* A CAS that is not decided is locked, and complete nowhere (cas.c, C1). */
    return (m->flags & SNIC_DDP_MSG_CAS) == 0 || (locked && m->seen[0] != m->ts);
}

/* What the donor knows of the record's timestamp. */
static void ddp_learn_seen(struct snic_ddp *d, struct ddp_rec *r, const struct snic_ddp_msg *m)
{
    r->gv = snic_max_u64(r->gv, m->seen[0]);
    r->gd = snic_max_u64(r->gd, m->seen[1]);
    if (r->rd == 0 || r->gv >= r->vts)
        ddp_follow_decided(d, r);
    if (r->waits != SNIC_DDP__NIL)
        ddp_dirty(d, r);
    ddp_watch(d, r, 0);
}

static int ddp_learn_record(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    int value = m->type == SNIC_DDP_RECORD && (m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    struct ddp_rec *r = ddp_find_any(d, &m->key);
    if (!ddp_learn_valid(d, m))
        return SNIC_EPROTO;
    if (r != NULL && ddp_is_hint(d, r) && r->vts == m->ts) {
        ddp_hint_confirm(d, r, m->flags & (SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_CAS),
                         ddp_msg_rule(d, m));
    } else if (r != NULL && !ddp_is_hint(d, r) && r->vts >= m->ts) {
        if ((m->flags & SNIC_DDP_MSG_LOCKED) == 0)
            ddp_unlock(d, r, m->ts);
    } else if (m->type == SNIC_DDP_OFFER) {
        return 0; /* its value is requested: run.c */
    } else {
        if (r != NULL && ddp_is_hint(d, r))
            ddp_hint_empty(d, r, DDP_R_REPLACES);
        else if (r == NULL && (r = ddp_add(d, &m->key)) == NULL)
            return SNIC_EAGAIN;
        ddp_apply(d, r, m->ts, m);
        ddp_append(d, r, 0, 1);
        d->learning.pulled += (uint64_t)value;
        d->learning.bytes += value ? m->length : 0;
        value = 0;
    }
    if (value)
        ddp_release(d, m->value); /* the record has it */
    ddp_learn_seen(d, r, m);
    return 0;
}

int ddp_learn_message(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    int value = m->type == SNIC_DDP_RECORD && (m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    if (m->type == SNIC_DDP_PULL)
        return ddp_donor_pull(d, m);
    if (d->role != SNIC_DDP_LEARNER || m->src != d->donor)
        return SNIC_EPROTO;
    if (d->learn != DDP_LEARN_PULLS) {
        if (value)
            ddp_release(d, m->value);
        return 0;
    }
    if (m->type == SNIC_DDP_PULLED) {
        int result = ddp_runs_pulled(d, m);
        if (result > 0)
            ddp_learn_progress(d);
        return result < 0 ? result : 0;
    }
    int result = ddp_learn_record(d, m);
    if (result == 0 && ddp_runs_offered(d, m))
        ddp_learn_progress(d);
    return result;
}

int ddp_learn_shed(struct snic_ddp *d)
{
    if (d->role != SNIC_DDP_LEARNER || !ddp_hint_shed(d))
        return SNIC_ENOENT;
    return 0;
}
