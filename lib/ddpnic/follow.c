/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The NIC as follower: INV, VAL, and the acknowledgements that wait for something.
 *
 * Whatever an INV meets, it is acknowledged in the end: the key holds this write or a newer one in
 * its vFIFO or beyond (ACK_C), and has it durable (ACK_P; ACK means both). An INV that is not newer
 * than the last accepted never locks (H3). An older one is acknowledged as if it were the newer one
 * (FAST), or when the newer is complete (PAPER; tau is the newer as of now: H7). The paper has no
 * replays; replays never wait for a newer write, which may need the write that they occupy (N9):
 * their acknowledgement means what FAST's does.
 */
#include "ddpnic_priv.h"

static void ddpnic_follow_send(struct snic_ddpnic *d, uint32_t type, const struct ddpnic_rec *r,
                               const struct ddpnic_wait *a)
{
    (void)ddpnic_send(d, type, ddp_bit(a->src), &r->key, a->ts);
}

static struct ddpnic_wait *ddpnic_follow_waits(const struct snic_ddpnic *d,
                                               const struct ddpnic_rec *r, uint64_t ts, uint8_t src)
{
    for (uint32_t i = r->waits; i != SNIC_DDP__NIL; i = ddpnic_wait_at(d, i)->next) {
        struct ddpnic_wait *a = ddpnic_wait_at(d, i);
        if (a->ts == ts && a->src == src)
            return a;
    }
    return NULL;
}

/* There is room: the caller looked. */
struct ddpnic_wait *ddpnic_wait_new(struct snic_ddpnic *d, uint8_t src, uint8_t flags)
{
    struct ddpnic_wait *a = ddpnic_wait_at(d, ddp_pool_take(&d->nic.waits));
    a->rec = a->next = SNIC_DDP__NIL;
    a->flags = (uint8_t)(DDPNIC_A_USED | flags);
    a->src = src;
    return a;
}

/* It is on no list any more. */
void ddpnic_wait_free(struct snic_ddpnic *d, uint32_t i)
{
    SNIC_ASSERT((ddpnic_wait_at(d, i)->flags & DDPNIC_A_USED) != 0);
    d->nic.parked -= ddpnic_wait_at(d, i)->tau != 0;
    ddp_pool_give(&d->nic.waits, i);
}

/* Acknowledge when that is due; again if it was acknowledged before. */
static void ddpnic_follow_owe(struct snic_ddpnic *d, struct ddpnic_rec *r,
                              const struct snic_ddp_msg *m, uint64_t tau)
{
    struct ddpnic_wait *a = ddpnic_follow_waits(d, r, m->ts, m->src);
    uint8_t owes = d->rules.acks == DDP_ONE     ? DDPNIC_A_OWES_P
                   : d->rules.acks == DDP_SPLIT ? DDPNIC_A_OWES_C | DDPNIC_A_OWES_P
                                                : DDPNIC_A_OWES_C;
    if (a == NULL) {
        a = ddpnic_wait_new(d, m->src, owes);
        a->ts = m->ts;
        a->tau = tau;
        a->rec = ddpnic_rec_number(d, r);
        a->next = r->waits;
        r->waits = (uint32_t)(a - ddpnic_wait_at(d, 0));
        d->nic.parked += tau != 0;
    }
    a->flags |= owes;
    ddpnic_dirty(d, r);
}

/* Is an INV older than what was accepted to wait until that is complete? */
static int ddpnic_follow_parks(const struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    return (d->o.flags & SNIC_DDP_PAPER) != 0 && (m->flags & SNIC_DDP_MSG_REPLAY) == 0;
}

/*
 * Another wait may be needed for this message, and there is none. Those that wait for a newer write
 * (PAPER) get half of them: the newer one needs a wait of its own, which the FIFOs alone end.
 */
static int ddpnic_follow_full(const struct snic_ddpnic *d, const struct ddpnic_rec *r,
                              const struct snic_ddp_msg *m)
{
    const struct ddpnic_nic *n = &d->nic;
    int parks = ddpnic_follow_parks(d, m) && r != NULL && m->ts < r->enq;
    if (!ddp_pool_full(&n->waits) && !(parks && n->parked >= n->waits.max / 2))
        return 0;
    return r == NULL || ddpnic_follow_waits(d, r, m->ts, m->src) == NULL;
}

/* An INV that is not newer than what was accepted. */
static void ddpnic_follow_old(struct snic_ddpnic *d, struct ddpnic_rec *r,
                              const struct snic_ddp_msg *m)
{
    uint64_t tau = 0;
    SNIC_ASSERT(m->ts <= r->enq); /* H3 */
    if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        ddpnic_release(d, m->value);
    if (m->ts == r->enq) {
        d->counters.duplicate++;
    } else {
        d->counters.obsolete++;
        if (ddpnic_follow_parks(d, m))
            tau = r->enq;
    }
    ddpnic_follow_owe(d, r, m, tau);
}

int ddpnic_follow_inv(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    struct ddpnic_rec *r = ddpnic_find(d, &m->key);
    int replay = (m->flags & SNIC_DDP_MSG_REPLAY) != 0;
    if (m->ts == 0 || (m->ts & SNIC_DDPNIC__LOCK) != 0 ||
        (!replay && snic_ddp_ts_node(m->ts) != m->src))
        return SNIC_EPROTO;
    if (ddpnic_follow_full(d, r, m))
        return SNIC_EAGAIN;
    if (r != NULL && m->ts <= r->enq) {
        ddpnic_follow_old(d, r, m);
        return 0;
    }
    if (!ddpnic_fifo_room(d) || (r == NULL && (r = ddpnic_add(d, &m->key)) == NULL))
        return SNIC_EAGAIN;
    ddpnic_accept(d, r, m);
    ddpnic_store(d, r, m->scope);
    ddpnic_watch(d, r, 1);
    ddpnic_follow_owe(d, r, m, 0);
    return 0;
}

int ddpnic_follow_val(struct snic_ddpnic *d, const struct snic_ddp_msg *m)
{
    struct ddpnic_rec *r = ddpnic_find(d, &m->key);
    if (r == NULL || m->ts == 0 || m->ts > r->enq)
        return SNIC_EPROTO; /* H21: a VAL follows our acknowledgement */
    int durable = m->type == SNIC_DDP_VAL_P || d->rules.val_durable;
    if (m->type != SNIC_DDP_VAL_P) {
        r->line.gv = snic_max_u64(r->line.gv, m->ts); /* never an assignment (H6) */
        r->rel = snic_max_u64(r->rel, m->ts);
    }
    if (durable)
        r->line.gd = snic_max_u64(r->line.gd, m->ts);
    ddpnic_dirty(d, r);
    return 0;
}

/* What has become due on this record; 1: the ring is full, there may be more. */
int ddpnic_follow_eval(struct snic_ddpnic *d, struct ddpnic_rec *r)
{
    for (uint32_t *link = &r->waits; *link != SNIC_DDP__NIL;) {
        struct ddpnic_wait *a = ddpnic_wait_at(d, *link);
        if (!ddpnic_room(d))
            return 1;
        int c = a->tau == 0 ? r->vin >= a->ts : r->line.gv >= a->tau;
        int p = a->tau == 0 ? r->dts >= a->ts : r->line.gd >= a->tau;
        if ((a->flags & DDPNIC_A_OWES_C) != 0 && c) {
            ddpnic_follow_send(d, SNIC_DDP_ACK_C, r, a);
            a->flags &= (uint8_t)~DDPNIC_A_OWES_C;
        }
        if ((a->flags & DDPNIC_A_OWES_P) != 0 && p && (c || d->rules.acks != DDP_ONE)) {
            uint32_t type = d->rules.acks == DDP_ONE ? SNIC_DDP_ACK : SNIC_DDP_ACK_P;
            ddpnic_follow_send(d, type, r, a);
            a->flags &= (uint8_t)~DDPNIC_A_OWES_P;
        }
        if ((a->flags & (DDPNIC_A_OWES_C | DDPNIC_A_OWES_P)) != 0) {
            link = &a->next;
            continue;
        }
        uint32_t n = *link;
        *link = a->next;
        ddpnic_wait_free(d, n);
    }
    return 0;
}
