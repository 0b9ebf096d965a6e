/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Timers, all the NIC's: a list for each duration. All on a list wait equally long, so a new one
 * goes to the end and the first is the earliest: O(1), and no order but that of time.
 *
 * A number names a timer: writes first, then records.
 */
#include "ddpnic_priv.h"

uint32_t ddpnic_timer_of_write(const struct snic_ddpnic *d, const struct ddpnic_write *w)
{
    return ddpnic_write_number(d, w);
}
uint32_t ddpnic_timer_of_rec(const struct snic_ddpnic *d, const struct ddpnic_rec *r)
{
    return d->nic.writes.max + ddpnic_rec_number(d, r);
}

struct ddpnic_timer *ddpnic_timer_at(const struct snic_ddpnic *d, uint32_t number)
{
    if (number < d->nic.writes.max)
        return &ddpnic_write_at(d, number)->timer;
    return &ddpnic_rec_at(d, number - d->nic.writes.max)->timer;
}

void ddpnic_timer_stop(struct snic_ddpnic *d, uint32_t number)
{
    struct ddpnic_timer *t = ddpnic_timer_at(d, number);
    if (t->armed == 0)
        return;
    struct ddpnic_list *l = &d->nic.classes[t->armed - 1];
    if (t->prev != SNIC_DDPNIC__NIL)
        ddpnic_timer_at(d, t->prev)->next = t->next;
    else
        l->first = t->next;
    if (t->next != SNIC_DDPNIC__NIL)
        ddpnic_timer_at(d, t->next)->prev = t->prev;
    else
        l->last = t->prev;
    memset(t, 0, sizeof(*t));
}

void ddpnic_timer_arm(struct snic_ddpnic *d, uint32_t number, uint32_t class)
{
    struct ddpnic_timer *t = ddpnic_timer_at(d, number);
    struct ddpnic_list *l = &d->nic.classes[class];
    ddpnic_timer_stop(d, number);
    t->armed = (uint8_t)(class + 1);
    t->deadline_ns =
        d->nic.now_ns +
        (class < SNIC_DDPNIC__DOUBLINGS ? d->o.retransmit_ns << class : d->o.replay_ns);
    t->next = SNIC_DDPNIC__NIL;
    t->prev = l->last;
    if (l->last != SNIC_DDPNIC__NIL)
        ddpnic_timer_at(d, l->last)->next = number;
    else
        l->first = number;
    l->last = number;
}

/* Of a retransmission, of which there were @p tries. */
void ddpnic_timer_retry(struct snic_ddpnic *d, uint32_t number, uint32_t tries)
{
    const uint32_t last = SNIC_DDPNIC__DOUBLINGS - 1;
    ddpnic_timer_arm(d, number, tries < last ? tries : last);
}

uint64_t snic_ddpnic_deadline_ns(const struct snic_ddpnic *d)
{
    uint64_t first = SNIC_NEVER;
    for (uint32_t c = 0; c < DDPNIC_CLASSES; c++) {
        uint32_t n = d->nic.classes[c].first;
        if (n != SNIC_DDPNIC__NIL)
            first = snic_min_u64(first, ddpnic_timer_at(d, n)->deadline_ns);
    }
    return first;
}

/* Let it happen; 0, or SNIC_EINVAL if it is not armed. */
int ddpnic_timer_fire(struct snic_ddpnic *d, uint32_t number)
{
    if (number >= d->nic.writes.max + d->recs.high || ddpnic_timer_at(d, number)->armed == 0)
        return SNIC_EINVAL;
    ddpnic_timer_stop(d, number);
    if (number < d->nic.writes.max)
        ddpnic_write_retry(d, ddpnic_write_at(d, number));
    else
        ddpnic_watch_fire(d, ddpnic_rec_at(d, number - d->nic.writes.max));
    return 0;
}

/* Fire one that is due; 0: none. */
int ddpnic_timer_due(struct snic_ddpnic *d)
{
    for (uint32_t c = 0; c < DDPNIC_CLASSES; c++) {
        uint32_t n = d->nic.classes[c].first;
        if (n == SNIC_DDPNIC__NIL || ddpnic_timer_at(d, n)->deadline_ns > d->nic.now_ns)
            continue;
        int r = ddpnic_timer_fire(d, n);
        SNIC_ASSERT(r == 0);
        (void)r;
        return 1;
    }
    return 0;
}

static void ddpnic_timer_describe(const struct snic_ddpnic *d, uint32_t n,
                                  struct snic_ddp_timer *out)
{
    memset(out, 0, sizeof(*out));
    out->id = n;
    if (n < d->nic.writes.max) {
        const struct ddpnic_write *w = ddpnic_write_at(d, n);
        int scope = (w->flags & DDPNIC_W_PERSIST) != 0;
        out->kind = scope ? SNIC_DDP_TIMER_SCOPE : SNIC_DDP_TIMER_WRITE;
        out->ts = scope ? w->scope : w->ts;
        if (!scope)
            out->key = ddpnic_rec_at(d, w->rec)->key;
    } else {
        const struct ddpnic_rec *r = ddpnic_rec_at(d, n - d->nic.writes.max);
        out->kind = SNIC_DDP_TIMER_LOCK;
        out->key = r->key;
        out->ts = r->enq;
    }
}

uint32_t snic_ddpnic_timers(const struct snic_ddpnic *d, struct snic_ddp_timer *out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < DDPNIC_CLASSES; c++) {
        uint32_t n = d->nic.classes[c].first;
        for (; n != SNIC_DDPNIC__NIL; n = ddpnic_timer_at(d, n)->next) {
            if (count < max)
                ddpnic_timer_describe(d, n, &out[count]);
            count++;
        }
    }
    return count;
}
