/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * All nodes were down, and begin from their logs.
 *
 * What a log holds may never have been answered, and others may not have it: before any read, the
 * largest timestamp of each key must be everywhere. The nodes compare digests of their keys in 64
 * ranges of the hash; where all agree, all is complete already. Of the other ranges each node
 * replays every key it has, under its old timestamp: the largest wins, on every node. A node that
 * has finished sends RESTARTED; when all have, reads are served.
 *
 * No log shows by which rules its records were written. The model's will do: what was promised to
 * be durable at all is in every log that a restart may begin from, and replays add to logs only.
 *
 * A value adds up through its timestamp alone: one timestamp has one value (R4).
 */
#include "ddp_priv.h"

static const struct snic_ddp_key restart_no_key = {{0, 0}};

static uint32_t ddp_restart_range(const struct ddp_rec *r)
{
    return r->hash / (UINT32_MAX / SNIC_DDP__RANGES + 1);
}

/* A record of the own log that a later one made void. */
static void ddp_loaded_forget(struct snic_ddp *d, struct ddp_rec *r)
{
    uint64_t value = r->value;
    int tombstone = (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0;
    ddp_remove(d, r);
    if (!tombstone)
        ddp_release(d, value);
}

/* No node responds to this restart but those not in @p silent. */
void ddp_restart_suspect(struct snic_ddp *d, uint16_t silent)
{
    uint16_t same = d->restart_late;
    ddp_suspect(&d->silent, &same, silent);
    ddp_suspect(&d->suspects, &d->restart_late, silent);
}

/* LOADED: a record of the own log; the newest of a key counts, or one that replaces it. */
int ddp_loaded(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    const uint32_t known = SNIC_DDP_MSG_TOMBSTONE | SNIC_DDP_REPLACES | SNIC_DDP_DROPS;
    if (d->epoch != 0 || ev->ts == 0 || (ev->flags & ~known) != 0)
        return SNIC_EINVAL;
    struct ddp_rec *r = ddp_find(d, &ev->key);
    if (r != NULL && ((ev->flags & SNIC_DDP_DROPS) != 0 ||
                      ((ev->flags & SNIC_DDP_REPLACES) != 0 && ev->ts < r->vts))) {
        ddp_loaded_forget(d, r);
        r = NULL;
    }
    if ((ev->flags & SNIC_DDP_DROPS) != 0)
        return 0;
    if (r == NULL && (r = ddp_add(d, &ev->key)) == NULL)
        return SNIC_ENOSPC;
    d->loaded = 1;
    d->loaded_epoch = (uint32_t)snic_max_u64(d->loaded_epoch, snic_ddp_ts_epoch(ev->ts));
    if (ev->ts <= r->vts) {
        if ((ev->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
            ddp_release(d, ev->value);
        return 0;
    }
    struct snic_ddp_msg m;
    memset(&m, 0, sizeof(m));
    m.flags = (uint8_t)(ev->flags & SNIC_DDP_MSG_TOMBSTONE); /* by the model's rules: see above */
    m.value = ev->value;
    m.length = ev->length;
    ddp_apply(d, r, ev->ts, &m);
    r->dts = ev->ts;
    return 0;
}

static uint16_t ddp_restart_peers(const struct snic_ddp *d)
{
    return (uint16_t)(d->full & ~ddp_bit(d->o.node));
}

static void ddp_restart_compared(struct snic_ddp *d)
{
    SNIC_ASSERT(d->restart == DDP_RESTART_COMPARES); /* all digests are here when it ends */
    for (uint32_t i = 0; i < SNIC_DDP__RANGES; i++) {
        if ((ddp_restart_peers(d) & ~d->got[i]) != 0)
            return;
    }
    d->restart = DDP_RESTART_REPLAYS;
    d->restart_sweep = 0;
}

/* What is left is for the next step. 1: none may be looked at in this one. */
static int ddp_restart_pauses(struct snic_ddp *d)
{
    if (d->restart_left != 0)
        return 0;
    ddp_timer_arm(d, ddp_timer_of_node(d, DDP_T_SWEEP), DDP_SOON);
    return 1;
}

/*
 * Digests of all records, some in each step. One that is written meanwhile counts with what it had
 * when it was looked at: where two nodes agree on that, both have it or a newer value, which its
 * coordinator sends to both.
 */
static void ddp_restart_add_up(struct snic_ddp *d)
{
    for (; d->restart_sum < d->recs.high; d->restart_sum++, d->restart_left--) {
        const struct ddp_rec *r = ddp_rec_at(d, d->restart_sum);
        if (ddp_restart_pauses(d))
            return;
        if (r->vts != 0)
            d->digest[ddp_restart_range(r)] += ddp_rec_sum(&r->key, r->vts, 0);
    }
    d->restart_sum = SNIC_DDP__NIL;
    d->digest_next = 0;
    ddp_restart_compared(d);
}

void ddp_restart_sweep(struct snic_ddp *d)
{
    if (d->restart == DDP_RESTART_COMPARES && d->restart_sum != SNIC_DDP__NIL)
        ddp_restart_add_up(d);
}

/* Also when the membership changes before all is in order: it begins over. */
void ddp_restart_begin(struct snic_ddp *d)
{
    SNIC_ASSERT(d->role == SNIC_DDP_FULL);
    d->restart = DDP_RESTART_COMPARES;
    d->restarted = 0;
    d->restart_tries = 0;
    d->restart_heard = 0;
    ddp_restart_suspect(d, 0);
    d->digest_next = SNIC_DDP__RANGES;
    d->differ = 0;
    memset(d->got, 0, sizeof(d->got));
    memset(d->digest, 0, sizeof(d->digest));
    d->restart_sum = 0;
    ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_RESTART), 0);
    ddp_restart_add_up(d);
}

static void ddp_restart_ready(struct snic_ddp *d)
{
    if (d->restart != DDP_RESTART_WAITS || (d->full & ~d->restarted) != 0)
        return;
    d->restart = DDP_RESTART_NOT;
    d->serves = 1;
    ddp_restart_suspect(d, 0);
    ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_RESTART));
    (void)ddp_act(d, SNIC_DDP_READY);
    ddp_purge_look(d);
}

/* @p from is alive, however long its part of the restart takes. */
void ddp_restart_heard(struct snic_ddp *d, uint16_t from)
{
    d->restart_heard |= from;
    ddp_restart_suspect(d, (uint16_t)(d->restart_late & ~from));
}

int ddp_restart_message(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    uint16_t from = ddp_bit(m->src);
    if (d->role != SNIC_DDP_FULL || (d->full & from) == 0 || m->index >= SNIC_DDP__RANGES)
        return SNIC_EPROTO;
    if (m->type == SNIC_DDP_RESTARTED) {
        d->restarted |= from;
        ddp_restart_ready(d);
        return 0;
    }
    if (d->restart == DDP_RESTART_NOT) {
        /* It has not heard that this node is done. */
        if (m->index == 0)
            (void)ddp_send(d, SNIC_DDP_RESTARTED, from, &restart_no_key, 0);
        return 0;
    }
    if (d->restart_sum != SNIC_DDP__NIL || (m->flags & SNIC_DDP_MSG_LOCKED) != 0 ||
        (d->got[m->index] & from) != 0)
        return 0; /* it comes again */
    d->got[m->index] |= from;
    if (m->scope != d->digest[m->index])
        d->differ |= (uint64_t)1 << m->index;
    ddp_restart_compared(d);
    return 0;
}

/*
 * A node that has finished sends no digests. If it finished in an earlier epoch, it had received
 * RESTARTED of this one, which began again before it had received all: no digests will come from
 * it. Whatever they would have been, replaying everything covers all cases.
 */
static void ddp_restart_assume(struct snic_ddp *d)
{
    for (uint32_t i = 0; i < SNIC_DDP__RANGES; i++) {
        uint16_t mute = (uint16_t)(ddp_restart_peers(d) & d->restarted & ~d->got[i]);
        d->got[i] |= mute;
        if (mute != 0)
            d->differ |= (uint64_t)1 << i;
    }
    ddp_restart_compared(d);
}

void ddp_restart_retry(struct snic_ddp *d)
{
    SNIC_ASSERT(d->restart != DDP_RESTART_NOT);
    if (d->restart_sum != SNIC_DDP__NIL) {
        uint16_t to = (uint16_t)(ddp_restart_peers(d) & ~d->restarted);
        if (to != 0) /* this node is at work: it is not silent */
            ddp_send(d, SNIC_DDP_DIGEST, to, &restart_no_key, 0)->flags = SNIC_DDP_MSG_LOCKED;
        ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_RESTART), d->restart_tries);
        return;
    }
    if (d->restart == DDP_RESTART_COMPARES)
        ddp_restart_assume(d);
    uint16_t missing = (uint16_t)(ddp_restart_peers(d) & ~d->restarted);
    d->restart_tries++;
    d->counters.retransmits++;
    if (d->restart_tries % SNIC_DDP__LATE == 0) {
        ddp_restart_suspect(d, (uint16_t)(missing & ~d->restart_heard));
        d->restart_heard = 0;
    }
    if (d->restart == DDP_RESTART_WAITS)
        (void)ddp_send(d, SNIC_DDP_RESTARTED, missing, &restart_no_key, 0);
    /* A node that has finished gets no other digests, and would hear nothing of this one. */
    uint16_t done = (uint16_t)(ddp_restart_peers(d) & d->restarted);
    if (d->restart != DDP_RESTART_WAITS && done != 0)
        ddp_send(d, SNIC_DDP_DIGEST, done, &restart_no_key, 0)->scope = d->digest[0];
    d->digest_next = 0;
    ddp_timer_retry(d, ddp_timer_of_node(d, DDP_T_RESTART), d->restart_tries);
}

static void ddp_restart_record(struct snic_ddp *d, struct ddp_rec *r)
{
    if (r->vts == 0 || r->gv >= r->vts)
        return;
    /* Locked: another node replays it, and its time-out would follow here. */
    if (r->rd != 0 || ddp_write_find(d, r, r->vts) != NULL)
        return;
    /* A value from a replay of an earlier attempt may be equal everywhere and durable nowhere. */
    if ((d->differ >> ddp_restart_range(r) & 1) == 0 && r->dts >= r->vts) {
        r->gv = r->vts;
        if (d->rules[d->o.model].gd != DDP_NEVER)
            r->gd = r->vts; /* as after a replay, which another node may do of this key */
        ddp_watch(d, r, 0);
        return;
    }
    uint32_t flags = DDP_W_REPLAY | DDP_W_RESTART | ddp_rule_flag(d->o.model);
    struct ddp_write *w = ddp_write_new(d, r, r->vts, flags);
    d->restart_writes++;
    d->counters.replays++;
    ddp_watch(d, r, 0);
    ddp_write_invalidate(d, w, d->others);
    ddp_dirty(d, r);
}

/* A piece; 0: nothing to do before something comes in. */
int ddp_restart_work(struct snic_ddp *d)
{
    SNIC_ASSERT(d->restart != DDP_RESTART_NOT);
    uint16_t to = (uint16_t)(ddp_restart_peers(d) & ~d->restarted);
    if (to == 0)
        d->digest_next = SNIC_DDP__RANGES;
    if (d->digest_next < SNIC_DDP__RANGES) {
        struct snic_ddp_msg *m = ddp_send(d, SNIC_DDP_DIGEST, to, &restart_no_key, 0);
        m->index = d->digest_next;
        m->scope = d->digest[d->digest_next++];
        return 1;
    }
    if (d->restart != DDP_RESTART_REPLAYS)
        return 0;
    if (d->restart_sweep < d->recs.high) {
        if (ddp_pool_full(&d->writes))
            return 0;
        for (; d->restart_sweep < d->recs.high; d->restart_left--) {
            if (!ddp_room(d) || ddp_pool_full(&d->writes))
                return 1;
            if (ddp_restart_pauses(d))
                return d->ring.count != 0;
            ddp_restart_record(d, ddp_rec_at(d, d->restart_sweep++));
        }
        return 1;
    }
    if (d->restart_writes != 0)
        return 0;
    SNIC_ASSERT(d->restart == DDP_RESTART_REPLAYS);
    d->restart = DDP_RESTART_WAITS;
    d->restarted |= ddp_bit(d->o.node);
    if (ddp_restart_peers(d) != 0)
        (void)ddp_send(d, SNIC_DDP_RESTARTED, ddp_restart_peers(d), &restart_no_key, 0);
    ddp_restart_ready(d);
    return 1;
}
