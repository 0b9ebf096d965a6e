/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Timers by number (ddp's core.h), all the NIC's: writes first, then records. */
#include "ddpnic_priv.h"

uint32_t ddpnic_timer_of_write(const struct snic_ddpnic *d, const struct ddpnic_write *w)
{
    return ddpnic_write_number(d, w);
}
uint32_t ddpnic_timer_of_rec(const struct snic_ddpnic *d, const struct ddpnic_rec *r)
{
    return d->nic.writes.max + ddpnic_rec_number(d, r);
}

void ddpnic_timer_stop(struct snic_ddpnic *d, uint32_t number)
{
    ddp_timers_stop(&d->nic.timers, number);
}
void ddpnic_timer_arm(struct snic_ddpnic *d, uint32_t number, uint32_t class)
{
    ddp_timers_arm(&d->nic.timers, number, class, d->nic.now_ns);
}
void ddpnic_timer_retry(struct snic_ddpnic *d, uint32_t number, uint32_t tries)
{
    ddp_timers_retry(&d->nic.timers, number, tries, d->nic.now_ns);
}

uint64_t snic_ddpnic_deadline_ns(const struct snic_ddpnic *d)
{
    return ddp_timers_deadline(&d->nic.timers);
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
    const struct ddp_timers *ts = &d->nic.timers;
    uint32_t count = 0;
    uint32_t n = ddp_timers_next(ts, SNIC_DDP__NIL);
    for (; n != SNIC_DDP__NIL; n = ddp_timers_next(ts, n)) {
        if (count < max)
            ddpnic_timer_describe(d, n, &out[count]);
        count++;
    }
    return count;
}
