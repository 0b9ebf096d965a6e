/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A learner copies the table from a donor while writes continue.
 *
 * From its first epoch on it is sent every INV and acknowledges, so of each key it has the newest
 * that began since; what it lacks are older ones. It pulls them in pieces: a cursor is the number
 * of a record at the donor, where records do not move, and no key is purged while there is a
 * learner. A RECORD's place in its piece is by that number, too, so it counts whenever it comes. Of
 * a piece with gaps the missing are asked for again and sent again: the donor's network may have
 * room for a few values at a time, and then each asking brings some. Of each key the newer of the
 * two stays. It begins empty, so nothing here is from another epoch.
 *
 * At the end one FLUSH covers all that was appended; then it is as durable here as elsewhere.
 */
#include "ddp_priv.h"

#define LEARN_SCAN 4096 /* records looked at for a piece: bounds a step where most are free */

static const struct snic_ddp_key learn_no_key = {{0, 0}};

/* The donor sends nothing new, if it is in @p late. */
static void ddp_learn_suspect(struct snic_ddp *d, uint16_t late)
{
    uint16_t same = d->pull_late;
    ddp_suspect(&d->silent, &same, late);
    ddp_suspect(&d->suspects, &d->pull_late, late);
}

static void ddp_learn_pull(struct snic_ddp *d)
{
    SNIC_ASSERT(d->role == SNIC_DDP_LEARNER && d->learn == DDP_LEARN_PULLS);
    struct snic_ddp_msg *m = ddp_send(d, SNIC_DDP_PULL, ddp_bit(d->donor), &learn_no_key, 0);
    m->scope = d->pull_cursor;
    m->seen[0] = d->pull_got;
    ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_PULL), d->pull_tries);
}

static void ddp_learn_begin(struct snic_ddp *d, uint64_t cursor)
{
    d->pull_cursor = cursor;
    d->pull_next = d->pull_has = d->pull_got = 0;
    d->pull_tries = 0;
    ddp_learn_pull(d);
}

/* Something came that was not here: the donor is not slow, and the rest may be on its way. */
static void ddp_learn_progress(struct snic_ddp *d)
{
    d->pull_tries = 0;
    ddp_learn_suspect(d, 0);
    ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_PULL), 0);
}

/* A new epoch. With another donor, or a new life of the same, the cursor means nothing. */
void ddp_learn_epoch(struct snic_ddp *d, uint32_t old_donor)
{
    ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_PULL));
    ddp_learn_suspect(d, 0);
    if (d->role != SNIC_DDP_LEARNER) {
        d->learn = DDP_LEARN_NOT;
        return;
    }
    int same =
        d->learn == DDP_LEARN_PULLS && d->donor == old_donor && (d->kept & ddp_bit(d->donor)) != 0;
    if (d->learn == DDP_LEARN_NOT)
        d->learn = DDP_LEARN_PULLS;
    if (d->learn == DDP_LEARN_PULLS)
        ddp_learn_begin(d, same ? d->pull_cursor : 0);
    else if (d->learn == DDP_LEARN_DONE)
        (void)ddp_act(d, SNIC_DDP_CAUGHT_UP);
}

void ddp_learn_retry(struct snic_ddp *d)
{
    SNIC_ASSERT(d->learn == DDP_LEARN_PULLS);
    d->pull_tries++;
    d->counters.retransmits++;
    if (d->pull_tries >= SNIC_DDP__LATE)
        ddp_learn_suspect(d, ddp_bit(d->donor));
    ddp_learn_pull(d);
}

void ddp_learn_flushed(struct snic_ddp *d)
{
    if (d->learn != DDP_LEARN_FLUSHES)
        return;
    d->learn = DDP_LEARN_DONE;
    (void)ddp_act(d, SNIC_DDP_CAUGHT_UP);
}

/* The donor: the piece from the cursor on. */
static int ddp_learn_give(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    uint16_t to = ddp_bit(m->src);
    uint64_t has = 0;
    uint64_t n = 0;
    if ((d->learners & to) == 0)
        return SNIC_EPROTO;
    if (!d->serves)
        return 0; /* not yet: it asks again */
    uint64_t left = m->scope < d->recs.high ? d->recs.high - m->scope : 0;
    for (uint32_t count = 0; n < left && n < SNIC_DDP__WINDOW && count < SNIC_DDP__PIECE; n++) {
        uint64_t used = ddp_rec_at(d, (uint32_t)(m->scope + n))->vts != 0;
        has |= used << n;
        count += (uint32_t)used;
    }
    while (has == 0 && n < left && n < LEARN_SCAN &&
           ddp_rec_at(d, (uint32_t)(m->scope + n))->vts == 0)
        n++;
    /* First, so that what is missing is known however few of the records arrive. */
    struct snic_ddp_msg *end = ddp_send(d, SNIC_DDP_PULLED, to, &learn_no_key, 0);
    end->scope = m->scope;
    end->seen[0] = n < left ? m->scope + n : UINT64_MAX;
    end->seen[1] = has;
    for (uint32_t i = 0; i < SNIC_DDP__WINDOW; i++) {
        if ((has & ~m->seen[0]) >> i == 0)
            break;
        if (((has & ~m->seen[0]) >> i & 1) == 0)
            continue;
        const struct ddp_rec *r = ddp_rec_at(d, (uint32_t)(m->scope + i));
        struct snic_ddp_msg *a = ddp_send(d, SNIC_DDP_RECORD, to, &r->key, r->vts);
        a->flags = (uint8_t)((r->flags & SNIC_DDP_MSG_TOMBSTONE) | ddp_rule_msg(d, r->flags));
        a->flags |= r->rd != 0 ? SNIC_DDP_MSG_LOCKED : 0;
        a->flags |= (r->flags & DDP_R_CAS) != 0 ? SNIC_DDP_MSG_CAS : 0;
        a->scope = m->scope;
        a->index = i;
        a->value = r->value;
        a->length = r->length;
        a->seen[0] = r->gv;
        a->seen[1] = r->gd;
    }
    return 0;
}

/* Is the piece whole? Then the next one, or the end. */
static void ddp_learn_piece(struct snic_ddp *d)
{
    if (d->pull_next == 0 || (d->pull_has & ~d->pull_got) != 0)
        return;
    if (d->pull_next != UINT64_MAX) {
        ddp_learn_begin(d, d->pull_next);
        return;
    }
    ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_PULL));
    d->learn = DDP_LEARN_FLUSHES;
    ddp_flush(d, SNIC_DDP__ID_LEARN);
}

static int ddp_learn_record(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    struct ddp_rec *r = ddp_find(d, &m->key);
    if (m->ts == 0 || m->seen[0] > m->ts || m->seen[1] > m->ts || m->index >= SNIC_DDP__WINDOW)
        return SNIC_EPROTO;
    /* Locked though complete: REnf only, where a lock outlasts gV. */
    if ((m->flags & SNIC_DDP_MSG_LOCKED) != 0 && m->seen[0] == m->ts &&
        ddp_msg_rule(d, m) != SNIC_DDP_RENF)
        return SNIC_EPROTO;
    /* A CAS that is not decided is locked, and complete nowhere (cas.c, C1). */
    if ((m->flags & SNIC_DDP_MSG_CAS) != 0 &&
        ((m->flags & SNIC_DDP_MSG_LOCKED) == 0 || m->seen[0] == m->ts))
        return SNIC_EPROTO;
    if (r == NULL && (r = ddp_add(d, &m->key)) == NULL)
        return SNIC_EAGAIN;
    if (m->ts > r->vts) {
        ddp_apply(d, r, m->ts, m);
        ddp_append(d, r, 0, 1);
    } else {
        if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
            ddp_release(d, m->value);
        if ((m->flags & SNIC_DDP_MSG_LOCKED) == 0)
            ddp_unlock(d, r, m->ts);
    }
    r->gv = snic_max_u64(r->gv, m->seen[0]);
    r->gd = snic_max_u64(r->gd, m->seen[1]);
    if (r->rd == 0 || r->gv >= r->vts)
        ddp_follow_decided(d, r);
    if (r->waits != SNIC_DDP__NIL)
        ddp_dirty(d, r);
    ddp_watch(d, r, 0);
    if ((d->pull_got >> m->index & 1) == 0)
        ddp_learn_progress(d);
    d->pull_got |= (uint64_t)1 << m->index;
    return 0;
}

int ddp_learn_message(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    if (m->type == SNIC_DDP_PULL)
        return ddp_learn_give(d, m);
    if (d->role != SNIC_DDP_LEARNER || m->src != d->donor)
        return SNIC_EPROTO;
    int value = m->type == SNIC_DDP_RECORD && (m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    if (d->learn != DDP_LEARN_PULLS || m->scope != d->pull_cursor) {
        if (value)
            ddp_release(d, m->value); /* of a piece that is here */
        return 0;
    }
    if (m->type == SNIC_DDP_RECORD) {
        int result = ddp_learn_record(d, m);
        if (result != 0)
            return result;
    } else {
        if (m->seen[0] <= m->scope)
            return SNIC_EPROTO;
        /* A key that is new inside the piece makes it end earlier: the rest is the next one's. */
        if (d->pull_next == 0 || m->seen[0] < d->pull_next) {
            ddp_learn_progress(d);
            d->pull_next = m->seen[0];
            d->pull_has = m->seen[1];
        }
    }
    ddp_learn_piece(d);
    return 0;
}

#undef LEARN_SCAN
