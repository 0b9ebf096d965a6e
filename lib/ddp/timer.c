/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Timers: a list for each duration. All on a list wait equally long, so a new one goes to the end
 * and the first is the earliest: O(1), and no order but that of time.
 *
 * A number names a timer: writes first, then scopes, the node's own, records.
 */
#include "ddp_priv.h"

uint32_t ddp_timer_of_write(const struct snic_ddp *d, const struct ddp_write *w)
{
    return ddp_write_number(d, w);
}
uint32_t ddp_timer_of_scope(const struct snic_ddp *d, const struct ddp_scope *s)
{
    return d->o.writes_max + (uint32_t)(s - ddp_scope_at(d, 0));
}
uint32_t ddp_timer_of_node(const struct snic_ddp *d, uint32_t which)
{
    return d->o.writes_max + d->o.scopes_max + which;
}
uint32_t ddp_timer_of_rec(const struct snic_ddp *d, const struct ddp_rec *r)
{
    return ddp_timer_of_node(d, DDP_T_NODE) + ddp_rec_number(d, r);
}

struct ddp_timer *ddp_timer_at(const struct snic_ddp *d, uint32_t number)
{
    if (number < d->o.writes_max)
        return &ddp_write_at(d, number)->timer;
    number -= d->o.writes_max;
    if (number < d->o.scopes_max)
        return &ddp_scope_at(d, number)->timer;
    number -= d->o.scopes_max;
    if (number < DDP_T_NODE)
        return (struct ddp_timer *)(uintptr_t)&d->timers[number];
    return &ddp_rec_at(d, number - DDP_T_NODE)->timer;
}

static uint64_t ddp_timer_ns(const struct snic_ddp *d, uint32_t class)
{
    if (class < SNIC_DDP__DOUBLINGS)
        return d->o.retransmit_ns << class;
    return class < DDP_PACE ? d->o.replay_ns << (class - DDP_REPLAY) : d->o.replay_ns;
}

void ddp_timer_stop(struct snic_ddp *d, uint32_t number)
{
    struct ddp_timer *t = ddp_timer_at(d, number);
    if (t->armed == 0)
        return;
    struct ddp_list *l = &d->classes[t->armed - 1];
    if (t->prev != SNIC_DDP__NIL)
        ddp_timer_at(d, t->prev)->next = t->next;
    else
        l->first = t->next;
    if (t->next != SNIC_DDP__NIL)
        ddp_timer_at(d, t->next)->prev = t->prev;
    else
        l->last = t->prev;
    t->armed = 0;
    t->next = t->prev = 0;
    t->deadline_ns = 0;
}

void ddp_timer_arm(struct snic_ddp *d, uint32_t number, uint32_t class)
{
    struct ddp_timer *t = ddp_timer_at(d, number);
    struct ddp_list *l = &d->classes[class];
    ddp_timer_stop(d, number);
    t->armed = (uint8_t)(class + 1);
    t->deadline_ns = d->now_ns + ddp_timer_ns(d, class);
    t->next = SNIC_DDP__NIL;
    t->prev = l->last;
    if (l->last != SNIC_DDP__NIL)
        ddp_timer_at(d, l->last)->next = number;
    else
        l->first = number;
    l->last = number;
}

/* Of a retransmission, of which there were @p tries. */
void ddp_timer_retry(struct snic_ddp *d, uint32_t number, uint32_t tries)
{
    ddp_timer_arm(d, number, tries < SNIC_DDP__DOUBLINGS ? tries : SNIC_DDP__DOUBLINGS - 1);
}

uint64_t snic_ddp_deadline_ns(const struct snic_ddp *d)
{
    uint64_t first = SNIC_NEVER;
    for (uint32_t c = 0; c < DDP_CLASSES; c++) {
        if (d->classes[c].first != SNIC_DDP__NIL)
            first = snic_min_u64(first, ddp_timer_at(d, d->classes[c].first)->deadline_ns);
    }
    return first;
}

/* Let it happen; 0, or SNIC_EINVAL if it is not armed. */
int ddp_timer_fire(struct snic_ddp *d, uint32_t number)
{
    uint32_t node = ddp_timer_of_node(d, 0);
    if (number >= node + DDP_T_NODE + d->recs.high || ddp_timer_at(d, number)->armed == 0)
        return SNIC_EINVAL;
    ddp_timer_stop(d, number);
    if (number < d->o.writes_max)
        ddp_write_retry(d, ddp_write_at(d, number));
    else if (number < node)
        ddp_scope_retry(d, ddp_scope_at(d, number - d->o.writes_max));
    else if (number == node + DDP_T_PULL)
        ddp_learn_retry(d);
    else if (number == node + DDP_T_RESTART)
        ddp_restart_retry(d);
    else if (number == node + DDP_T_PURGE)
        ddp_purge_fire(d);
    else
        ddp_watch_fire(d, ddp_rec_at(d, number - node - DDP_T_NODE));
    return 0;
}

/* Fire one that is due; 0: none. */
int ddp_timer_due(struct snic_ddp *d)
{
    for (uint32_t c = 0; c < DDP_CLASSES; c++) {
        uint32_t n = d->classes[c].first;
        if (n == SNIC_DDP__NIL || ddp_timer_at(d, n)->deadline_ns > d->now_ns)
            continue;
        int r = ddp_timer_fire(d, n);
        SNIC_ASSERT(r == 0);
        (void)r;
        return 1;
    }
    return 0;
}

static void ddp_timer_describe(const struct snic_ddp *d, uint32_t n, struct snic_ddp_timer *out)
{
    uint32_t node = ddp_timer_of_node(d, 0);
    memset(out, 0, sizeof(*out));
    out->id = n;
    if (n < d->o.writes_max) {
        const struct ddp_write *w = ddp_write_at(d, n);
        out->kind = SNIC_DDP_TIMER_WRITE;
        out->key = ddp_rec_at(d, w->rec)->key;
        out->ts = w->ts;
    } else if (n < node) {
        out->kind = SNIC_DDP_TIMER_SCOPE;
        out->ts = ddp_scope_at(d, n - d->o.writes_max)->id;
    } else if (n < node + DDP_T_NODE) {
        out->kind = SNIC_DDP_TIMER_PULL + (n - node);
    } else {
        const struct ddp_rec *r = ddp_rec_at(d, n - node - DDP_T_NODE);
        out->kind = SNIC_DDP_TIMER_LOCK;
        out->key = r->key;
        out->ts = r->vts;
    }
}

uint32_t snic_ddp_timers(const struct snic_ddp *d, struct snic_ddp_timer *out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < DDP_CLASSES; c++) {
        for (uint32_t n = d->classes[c].first; n != SNIC_DDP__NIL; n = ddp_timer_at(d, n)->next) {
            if (count < max)
                ddp_timer_describe(d, n, &out[count]);
            count++;
        }
    }
    return count;
}
