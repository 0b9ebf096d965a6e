/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The follower: INV, VAL, and the acknowledgements that wait for something.
 *
 * Whatever an INV meets, it is acknowledged in the end. An acknowledgement means that the key holds
 * this write or a newer one (and has it durable). An INV that is not newer than the record never
 * locks (H3). An older one is acknowledged at once (FAST), or when the newer is complete (PAPER;
 * tau is the newer as of now, so later ones do not prolong the wait: H7). The paper has no replays;
 * replays never wait for a newer write, which may need the write that they occupy (I9).
 */
#include "ddp_priv.h"

/*
 * @p cas: it acknowledges a CAS, and repeats the CAS's floor (cas.c): an earlier acknowledgement
 * of the same timestamp does not promise the same.
 */
static void ddp_follow_send(struct snic_ddp *d, uint32_t type, uint8_t src,
                            const struct snic_ddp_key *key, uint64_t ts, int cas, uint64_t floor)
{
    struct snic_ddp_msg *m = ddp_send(d, type, ddp_bit(src), key, ts);
    m->flags = cas ? SNIC_DDP_MSG_CAS : 0;
    m->seen[0] = cas ? floor : 0;
}

/* The acknowledgement that means durable. */
static uint32_t ddp_follow_durable(int one)
{
    return one ? SNIC_DDP_ACK : SNIC_DDP_ACK_P;
}

/* All that there is to acknowledge, at once. */
static void ddp_follow_all(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    const struct ddp_rules *u = ddp_rules_msg(d, m);
    int cas = (m->flags & SNIC_DDP_MSG_CAS) != 0;
    if (u->acks != DDP_ONE)
        ddp_follow_send(d, SNIC_DDP_ACK_C, m->src, &m->key, m->ts, cas, m->seen[0]);
    if (u->acks != DDP_C_ONLY)
        ddp_follow_send(d, ddp_follow_durable(u->acks == DDP_ONE), m->src, &m->key, m->ts, cas,
                        m->seen[0]);
}

static struct ddp_wait *ddp_follow_waits(const struct snic_ddp *d, const struct ddp_rec *r,
                                         uint64_t ts, uint8_t src)
{
    for (uint32_t i = r->waits; i != SNIC_DDP__NIL; i = ddp_wait_at(d, i)->next) {
        struct ddp_wait *a = ddp_wait_at(d, i);
        if (a->ts == ts && a->src == src)
            return a;
    }
    return NULL;
}

/* What the acknowledgement carries besides: the last INV of it decides. */
static void ddp_follow_mark(struct ddp_wait *a, const struct snic_ddp_msg *m)
{
    if ((m->flags & SNIC_DDP_MSG_CAS) == 0)
        return;
    a->flags |= DDP_A_CAS;
    a->scope = m->seen[0];
}

static void ddp_follow_wait(struct snic_ddp *d, struct ddp_rec *r, const struct snic_ddp_msg *m,
                            uint64_t tau, uint8_t owes)
{
    SNIC_ASSERT(owes != 0 && (tau == 0 || tau > m->ts));
    uint32_t n = ddp_pool_take(&d->waits);
    struct ddp_wait *a = ddp_wait_at(d, n);
    a->ts = m->ts;
    a->tau = tau;
    a->rec = ddp_rec_number(d, r);
    a->flags = DDP_A_USED | owes;
    a->src = m->src;
    a->next = r->waits;
    r->waits = n;
    d->parked += tau != 0;
    ddp_follow_mark(a, m);
}

/*
 * Acknowledge that it is stored, and durable if dts >= ts; the rest waits. Where one message
 * acknowledges both, an INV that comes again is answered by ACK_C: it arrived, and the log is slow.
 */
static void ddp_follow_ack(struct snic_ddp *d, struct ddp_rec *r, const struct snic_ddp_msg *m)
{
    const struct ddp_rules *u = ddp_rules_msg(d, m);
    int cas = (m->flags & SNIC_DDP_MSG_CAS) != 0;
    const uint8_t one = u->acks == DDP_ONE ? DDP_A_ONE : 0;
    struct ddp_wait *a;
    if (r->dts >= m->ts || u->acks == DDP_C_ONLY) {
        ddp_follow_all(d, m);
        return;
    }
    a = ddp_follow_waits(d, r, m->ts, m->src);
    if (u->acks != DDP_ONE || a != NULL)
        ddp_follow_send(d, SNIC_DDP_ACK_C, m->src, &m->key, m->ts, cas, m->seen[0]);
    if (a == NULL) {
        ddp_follow_wait(d, r, m, 0, DDP_A_OWES_P | one);
    } else {
        a->flags = (uint8_t)((a->flags & ~DDP_A_ONE) | one);
        ddp_follow_mark(a, m);
    }
    if (!u->background && ddp_rules_at(d, r->flags)->background)
        ddp_urge(d, r);
}

/*
 * Does an INV older than the record wait until the newer write is complete? The INV of an
 * undecided CAS never does: it is refused (cas.c).
 */
static int ddp_follow_parks(const struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    return (d->o.flags & SNIC_DDP_PAPER) != 0 && (m->flags & SNIC_DDP_MSG_REPLAY) == 0;
}

/*
 * Another wait may be needed for this message, and there is none. Those that wait for a newer write
 * (PAPER) get half of them: the newer one needs a wait of its own, which the log alone ends.
 */
static int ddp_follow_full(const struct snic_ddp *d, const struct ddp_rec *r,
                           const struct snic_ddp_msg *m)
{
    int parks = ddp_follow_parks(d, m) && r != NULL && m->ts < r->vts;
    if (!ddp_pool_full(&d->waits) && !(parks && d->parked >= d->waits.max / 2))
        return 0;
    return r == NULL || ddp_follow_waits(d, r, m->ts, m->src) == NULL;
}

/*
 * The acknowledgement of @p m waits until the newer write is complete (PAPER). If by that one's
 * rules no node learns that it is durable at all, being durable here is enough.
 */
static void ddp_follow_park(struct snic_ddp *d, struct ddp_rec *r, const struct snic_ddp_msg *m)
{
    const struct ddp_rules *u = ddp_rules_msg(d, m);
    uint8_t owes = u->acks == DDP_ONE     ? DDP_A_OWES_P | DDP_A_ONE
                   : u->acks == DDP_SPLIT ? DDP_A_OWES_C | DDP_A_OWES_P
                                          : DDP_A_OWES_C;
    if ((owes & DDP_A_OWES_P) != 0 && ddp_rules_at(d, r->flags)->gd == DDP_NEVER) {
        owes |= DDP_A_LOG;
        if (!u->background)
            ddp_urge(d, r);
    }
    ddp_follow_wait(d, r, m, r->vts, owes);
    ddp_dirty(d, r);
}

/* An INV that is not newer than the record. */
static int ddp_follow_old(struct snic_ddp *d, struct ddp_rec *r, const struct snic_ddp_msg *m)
{
    SNIC_ASSERT(m->ts <= r->vts); /* H3 */
    if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        ddp_release(d, m->value);
    if ((m->flags & SNIC_DDP_MSG_CAS) != 0)
        d->gen_floor = snic_max_u64(d->gen_floor, m->seen[0]);
    if (m->ts == r->vts) {
        d->counters.duplicate++;
        if ((m->flags & SNIC_DDP_MSG_REPLAY) == 0)
            ddp_watch_alive(d, r, m->src);
        ddp_follow_ack(d, r, m);
        return 0;
    }
    d->counters.obsolete++;
    if ((m->flags & SNIC_DDP_MSG_CAS) != 0) {
        ddp_cas_refuse(d, r, m);
    } else if (!ddp_follow_parks(d, m)) {
        ddp_follow_ack(d, r, m);
    } else if (ddp_follow_waits(d, r, m->ts, m->src) == NULL) {
        ddp_follow_park(d, r, m);
    }
    return 0;
}

/*
 * Of a key that is not here, at or below the floor: it was deleted everywhere since (A4). A CAS
 * that asks whether that deletion is the newest may have begun before its node heard that the key
 * is gone: it is the newest. A CAS that writes was decided long ago.
 */
static int ddp_follow_gone(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    const uint32_t settles = SNIC_DDP_MSG_CAS | SNIC_DDP_MSG_REPLAY | SNIC_DDP_MSG_TOMBSTONE;
    if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        ddp_release(d, m->value);
    d->counters.obsolete++;
    if ((m->flags & SNIC_DDP_MSG_CAS) != 0) {
        if ((m->flags & settles) != settles)
            return 0; /* no answer is due */
        d->gen_floor = snic_max_u64(d->gen_floor, m->seen[0]);
    }
    ddp_follow_all(d, m);
    return 0;
}

/* An INV without its value: was it here? If not, the answer asks for it. */
static int ddp_follow_probe(struct snic_ddp *d, struct ddp_rec *r, const struct snic_ddp_msg *m)
{
    if (m->ts == 0 || (m->flags & SNIC_DDP_MSG_CAS) != 0 ||
        (m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        return SNIC_EPROTO;
    if (r != NULL && m->ts <= r->vts)
        return ddp_follow_old(d, r, m);
    if ((r == NULL || r->vts == 0) && m->ts <= d->floor)
        return ddp_follow_gone(d, m);
    (void)ddp_send(d, SNIC_DDP_QUERY, ddp_bit(m->src), &m->key, m->ts);
    return 0;
}

/* The key is absent here: the SETTLE of a CAS that creates it is acknowledged. */
static int ddp_follow_nothing(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    d->gen_floor = snic_max_u64(d->gen_floor, m->seen[0]);
    ddp_follow_all(d, m);
    return 0;
}

int ddp_follow_inv(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    struct ddp_rec *r = ddp_find(d, &m->key);
    const uint32_t settles = SNIC_DDP_MSG_CAS | SNIC_DDP_MSG_REPLAY | SNIC_DDP_MSG_TOMBSTONE;
    int replay = (m->flags & SNIC_DDP_MSG_REPLAY) != 0;
    if (m->ts == 0 && (m->flags & settles) != settles)
        return SNIC_EPROTO;
    if (m->ts != 0 && !replay && snic_ddp_ts_node(m->ts) != m->src)
        return SNIC_EPROTO;
    if (snic_ddp_ts_epoch(m->seen[0]) > d->epoch)
        return SNIC_EPROTO;
    if (m->ts == 0 && (r == NULL || r->vts == 0))
        return ddp_follow_nothing(d, m);
    if (ddp_follow_full(d, r, m))
        return SNIC_EAGAIN;
    if ((m->flags & SNIC_DDP_MSG_LOCKED) != 0)
        return ddp_follow_probe(d, r, m);
    if (r != NULL && m->ts <= r->vts)
        return ddp_follow_old(d, r, m);
    if ((r == NULL || r->vts == 0) && m->ts <= d->floor)
        return ddp_follow_gone(d, m);
    if (r == NULL && (r = ddp_add(d, &m->key)) == NULL)
        return SNIC_EAGAIN;
    struct snic_ddp_msg value = *m;
    value.flags &= (uint8_t)~SNIC_DDP_MSG_REPLAY;
    value.flags |= SNIC_DDP_MSG_LOCKED;
    if ((m->flags & SNIC_DDP_MSG_CAS) != 0)
        d->gen_floor = snic_max_u64(d->gen_floor, m->seen[0]);
    ddp_apply(d, r, m->ts, &value);
    ddp_watch(d, r, 1);
    ddp_append(d, r, m->scope, ddp_rules_msg(d, m)->background);
    ddp_follow_ack(d, r, m);
    return 0;
}

/* The CAS in the record has happened: another node that replays it found this out first. */
void ddp_follow_decided(struct snic_ddp *d, struct ddp_rec *r)
{
    struct ddp_write *w;
    r->flags &= ~(uint32_t)DDP_R_CAS;
    w = r->writes != SNIC_DDP__NIL ? ddp_write_find(d, r, r->vts) : NULL;
    if (w != NULL && (w->flags & DDP_W_SETTLE) == 0)
        w->flags &= ~(uint32_t)SNIC_DDP_MSG_CAS;
}

int ddp_follow_val(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    struct ddp_rec *r = ddp_find(d, &m->key);
    if (r == NULL || r->vts == 0)
        return 0; /* of a key that was purged */
    if (m->ts > r->vts)
        return SNIC_EPROTO; /* H21: a VAL follows our acknowledgement */
    int durable = m->type != SNIC_DDP_VAL_C;
    r->gv = snic_max_u64(r->gv, m->ts); /* never an assignment: VALs overtake each other (H6) */
    if (durable)
        r->gd = snic_max_u64(r->gd, m->ts);
    if (m->ts == r->vts)
        ddp_follow_decided(d, r);
    ddp_unlock(d, r, m->ts);
    ddp_watch(d, r, 0);
    if (r->waits != SNIC_DDP__NIL || (durable && ddp_rec_awaited(d, r)))
        ddp_dirty(d, r);
    return 0;
}

/* APPENDED. Of a key that was purged since: nothing. */
void ddp_follow_appended(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    struct ddp_rec *r = ddp_find(d, &ev->key);
    if (r == NULL || ev->ts <= r->dts || ev->ts > r->vts)
        return;
    r->dts = ev->ts;
    if (r->writes != SNIC_DDP__NIL || r->waits != SNIC_DDP__NIL)
        ddp_dirty(d, r);
}

/* What has become due on this record; 1: the ring is full, there may be more. */
int ddp_follow_eval(struct snic_ddp *d, struct ddp_rec *r)
{
    for (uint32_t *link = &r->waits; *link != SNIC_DDP__NIL;) {
        struct ddp_wait *a = ddp_wait_at(d, *link);
        if (!ddp_room(d))
            return 1;
        int cas = (a->flags & DDP_A_CAS) != 0;
        int c = a->tau == 0 || r->gv >= a->tau;
        int log = a->tau == 0 || (a->flags & DDP_A_LOG) != 0;
        int p = log ? r->dts >= a->ts : r->gd >= a->tau;
        if ((a->flags & DDP_A_OWES_C) != 0 && c) {
            ddp_follow_send(d, SNIC_DDP_ACK_C, a->src, &r->key, a->ts, cas, a->scope);
            a->flags &= (uint8_t)~DDP_A_OWES_C;
        }
        if ((a->flags & DDP_A_OWES_P) != 0 && c && p) {
            ddp_follow_send(d, ddp_follow_durable((a->flags & DDP_A_ONE) != 0), a->src, &r->key,
                            a->ts, cas, a->scope);
            a->flags &= (uint8_t)~DDP_A_OWES_P;
        }
        if ((a->flags & (DDP_A_OWES_C | DDP_A_OWES_P)) != 0) {
            link = &a->next;
            continue;
        }
        uint32_t n = *link;
        *link = a->next;
        d->parked -= a->tau != 0;
        ddp_pool_give(&d->waits, n);
    }
    return 0;
}
