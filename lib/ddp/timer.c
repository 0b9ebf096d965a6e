/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Timers by number (core.h): writes first, then scopes, the node's own, records. */
#include "ddp_priv.h"

uint32_t ddp_timer_of_write(const struct snic_ddp *d, const struct ddp_write *w)
{
    return ddp_write_number(d, w);
}
uint32_t ddp_timer_of_scope(const struct snic_ddp *d, const struct ddp_scope *s)
{
    return d->o.writes_max + ddp_scope_number(d, s);
}
uint32_t ddp_timer_of_node(const struct snic_ddp *d, uint32_t which)
{
    return d->o.writes_max + d->o.scopes_max + which;
}
uint32_t ddp_timer_of_rec(const struct snic_ddp *d, const struct ddp_rec *r)
{
    return ddp_timer_of_node(d, DDP_T_NODE) + ddp_rec_number(d, r);
}

void ddp_timer_arm(struct snic_ddp *d, uint32_t number, uint32_t class)
{
    ddp_timers_arm(&d->timers, number, class, d->now_ns);
}
void ddp_timer_retry(struct snic_ddp *d, uint32_t number, uint32_t tries)
{
    ddp_timers_retry(&d->timers, number, tries, d->now_ns);
}
void ddp_timer_stop(struct snic_ddp *d, uint32_t number)
{
    ddp_timers_stop(&d->timers, number);
}

uint64_t snic_ddp_deadline_ns(const struct snic_ddp *d)
{
    return ddp_timers_deadline(&d->timers);
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
    uint32_t n = ddp_timers_next(&d->timers, SNIC_DDP__NIL);
    for (; n != SNIC_DDP__NIL; n = ddp_timers_next(&d->timers, n)) {
        if (count < max)
            ddp_timer_describe(d, n, &out[count]);
        count++;
    }
    return count;
}
