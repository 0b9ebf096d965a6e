/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A learner's runs: the ranges of hashes that it compares with its donor, a few at a time. The
 * protocol is in learn.c and donor.c.
 *
 * Handlers only note answers; ddp_runs_work() sends and changes records, a piece at a time.
 *
 * U1  Runs that are not free are disjoint, and below learn_next. What is below learn_next and in no
 *     run has been compared: no hint is left there.
 * U2  An answer is about the digests that were sent. An INV may put a record in the place of a
 *     hint, an older one, too, and a hint may be shed: then they are not true any more, and the
 *     ranges are compared again.
 * U3  Of a run that LISTS, `offer` is a part of what the donor has in the ranges that differ, as of
 *     some time in this epoch. When the keys add up to the donor's sum it is all of it.
 */
#include "ddp_priv.h"

#define RUN_KEYS 10                   /* of a range, at most on average */
#define RUN_SPAN (UINT64_C(1) << 10)  /* of the index, for a range */
#define RUN_BYTES (UINT64_C(1) << 20) /* of values requested at a time */
#define RUN_BUDGET 32                 /* entries for the log, for one PULLED */
#define RUN_ALL (UINT64_C(1) << 32)

/* ---- Which ranges ---- */

/* How wide ranges are: about so many keys, here or at the donor. */
static uint32_t ddp_run_bits(const struct snic_ddp *d, uint64_t room)
{
    uint64_t keys = snic_max_u64(d->recs.used, d->learn_keys);
    uint32_t bits = 30;
    while (bits > 0 &&
           ((keys << bits) >> 32 > RUN_KEYS || (UINT64_C(1) << bits) >> d->index.shift > RUN_SPAN ||
            UINT64_C(1) << bits > room))
        bits--;
    return bits;
}

static void ddp_run_todo(struct snic_ddp *d, struct ddp_run *run)
{
    run->todo = 1;
    d->learn_work = 1;
}

/* The value of an offer is not waited for any more. */
static void ddp_offer_answered(struct snic_ddp *d, struct ddp_offer *o)
{
    if (!o->requested)
        return;
    SNIC_ASSERT(d->learn_requested >= o->length);
    o->requested = 0;
    d->learn_requested -= o->length;
    for (uint32_t i = 0; i < d->runs && d->learn_blocked; i++)
        ddp_run_todo(d, ddp_run_at(d, i));
    d->learn_blocked = 0;
}

static void ddp_run_clear(struct snic_ddp *d, struct ddp_run *run)
{
    for (uint32_t i = 0; i < run->offers; i++)
        ddp_offer_answered(d, &run->offer[i]);
    run->offers = 0;
    memset(run->offer, 0, sizeof(run->offer));
    run->sum = run->query = 0;
    run->done = run->same = run->durable = run->more = 0;
}

/* The next ranges; free if there are none. */
static void ddp_run_take(struct snic_ddp *d, struct ddp_run *run)
{
    uint64_t room = RUN_ALL - d->learn_next;
    memset(run, 0, sizeof(*run));
    if (room == 0)
        return;
    run->bits = (uint8_t)ddp_run_bits(d, room);
    run->lo = d->learn_next;
    run->end = run->lo + (snic_min_u64(SNIC_DDP__SPLIT, room >> run->bits) << run->bits);
    run->state = DDP_RUN_NEW;
    ddp_run_todo(d, run);
    d->learn_next = run->end;
    d->learning.done = d->learn_next;
}

/* A new epoch, or a new beginning: what was compared stays so, the rest begins again. */
void ddp_runs_restart(struct snic_ddp *d)
{
    for (uint32_t i = 0; i < d->runs; i++) {
        struct ddp_run *run = ddp_run_at(d, i);
        if (run->state == DDP_RUN_FREE) {
            ddp_run_take(d, run);
            continue;
        }
        ddp_run_clear(d, run);
        run->list = DDP_LIST_NOT;
        run->state = DDP_RUN_NEW;
        ddp_run_todo(d, run);
    }
}

void ddp_runs_end(struct snic_ddp *d)
{
    memset(ddp_run_at(d, 0), 0, d->runs * sizeof(struct ddp_run));
    d->learn_requested = 0;
    d->learn_work = d->learn_blocked = 0;
}

static uint64_t ddp_run_scope(const struct ddp_run *run)
{
    uint64_t scope = run->lo | (uint64_t)run->bits << 32 | (uint64_t)run->ranges << 40;
    return run->list != DDP_LIST_NOT ? scope | SNIC_DDP__PULL_LIST : scope;
}

/* ---- PULL ---- */

/*
 * The digest of a range: of records and hints. A record that is not complete here must not be taken
 * for equal, since the donor knows more of it: then the digest is another one.
 */
static uint64_t ddp_run_digest(const struct snic_ddp *d, uint64_t lo, uint32_t bits, int *any)
{
    struct ddp_walk w = {lo, lo + (UINT64_C(1) << bits), 0};
    uint64_t sum = 0, other = 0;
    for (uint32_t n; (n = ddp_index_walk(&d->index, &w)) != SNIC_DDP__NIL;) {
        const struct ddp_rec *r = ddp_rec_at(d, n);
        sum += ddp_rec_sum(&r->key, r->vts, d->epoch);
        other |= !ddp_is_hint(d, r) && r->rd != 0;
        *any = 1;
    }
    return sum + other;
}

static void ddp_run_query(struct snic_ddp *d, struct ddp_run *run)
{
    static const struct snic_ddp_key none = {{0, 0}};
    uint64_t digest[SNIC_DDP__SPLIT] = {0};
    int any = 0;
    ddp_run_clear(d, run);
    run->ranges = (uint8_t)snic_min_u64(SNIC_DDP__SPLIT, (run->end - run->lo) >> run->bits);
    if (run->list != DDP_LIST_NOT || run->bits < ddp_run_bits(d, run->end - run->lo))
        run->ranges = 1; /* so that the next ones can be wider */
    for (uint32_t i = 0; i < run->ranges; i++)
        digest[i] = ddp_run_digest(d, run->lo + ((uint64_t)i << run->bits), run->bits, &any);
    struct snic_ddp_msg *m = ddp_send(d, SNIC_DDP_PULL, ddp_bit(d->donor), &none, 0);
    m->scope = ddp_run_scope(run) | (any ? 0 : SNIC_DDP__PULL_EMPTY);
    if (run->list != DDP_LIST_NOT) {
        m->key = run->after;
        m->seen[0] = run->list == DDP_LIST_NEXT;
    } else {
        m->key.w[0] = digest[0];
        m->key.w[1] = digest[1];
        m->seen[0] = digest[2];
        m->seen[1] = digest[3];
    }
    run->query = ddp_pull_name(m);
    run->state = DDP_RUN_QUERIES;
}

/* ---- What comes ---- */

/* Fewer keys at a time: narrower ranges, or the keys of one hash in parts. */
static void ddp_run_narrow(struct snic_ddp *d, struct ddp_run *run)
{
    if (run->bits > 0)
        run->bits = (uint8_t)snic_min_u64(run->bits - 1u, ddp_run_bits(d, RUN_ALL));
    else
        run->list = DDP_LIST_FIRST;
    run->state = DDP_RUN_NEW;
}

int ddp_runs_pulled(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    uint32_t done = m->seen[1] & 255;
    uint32_t same = m->seen[1] >> 8 & 255;
    uint32_t more = m->seen[1] >> 16 & 1;
    uint32_t durable = m->seen[1] >> 24 & 255;
    if (done > SNIC_DDP__SPLIT || same >> done != 0 || (durable & ~same) != 0)
        return SNIC_EPROTO;
    d->learn_keys = snic_min_u64(m->key.w[0], RUN_ALL);
    for (uint32_t i = 0; i < d->runs; i++) {
        struct ddp_run *run = ddp_run_at(d, i);
        if ((run->state != DDP_RUN_QUERIES && run->state != DDP_RUN_LISTS) ||
            ddp_run_scope(run) != (m->scope & ~SNIC_DDP__PULL_EMPTY) || run->query != m->key.w[1])
            continue;
        if (done > run->ranges || (more && run->list == DDP_LIST_NOT))
            return SNIC_EPROTO;
        ddp_run_todo(d, run);
        if (done == 0) {
            ddp_run_narrow(d, run);
            return 1;
        }
        run->state = DDP_RUN_LISTS;
        run->sum = m->seen[0];
        run->done = (uint8_t)done;
        run->same = (uint8_t)same;
        run->durable = (uint8_t)durable;
        run->more = (uint8_t)more;
        return 1;
    }
    return 0;
}

/* OFFER or RECORD, which the records have been compared with. 1: it is a new one. */
int ddp_runs_offered(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    uint32_t hash = ddp_hash(&m->key);
    for (uint32_t i = 0; i < d->runs; i++) {
        struct ddp_run *run = ddp_run_at(d, i);
        uint32_t k = 0;
        int fresh;
        if ((run->state != DDP_RUN_QUERIES && run->state != DDP_RUN_LISTS) || hash < run->lo ||
            hash >= run->lo + ((uint64_t)run->ranges << run->bits))
            continue;
        while (k < run->offers && !ddp_same_key(&run->offer[k].key, &m->key))
            k++;
        if (k == SNIC_DDP__OFFERS)
            return 0; /* of answers from different times: a retry clears them */
        struct ddp_offer *o = &run->offer[k];
        fresh = k == run->offers || (o->requested && m->type == SNIC_DDP_RECORD);
        run->offers = (uint8_t)snic_max_u64(run->offers, k + 1u);
        if (m->type == SNIC_DDP_RECORD)
            ddp_offer_answered(d, o);
        o->key = m->key;
        o->ts = snic_max_u64(o->ts, m->ts);
        if (!o->requested)
            o->length = m->length;
        ddp_run_todo(d, run);
        return fresh;
    }
    return 0;
}

/* Is the value here, or a newer one? */
static int ddp_run_has(const struct snic_ddp *d, const struct ddp_offer *o)
{
    const struct ddp_rec *r = ddp_find(d, &o->key);
    return r != NULL && r->vts >= o->ts;
}

/* No answer for a while. */
void ddp_runs_retry(struct snic_ddp *d)
{
    for (uint32_t i = 0; i < d->runs; i++) {
        struct ddp_run *run = ddp_run_at(d, i);
        uint64_t sum = run->sum;
        for (uint32_t k = 0; k < run->offers; k++) {
            struct ddp_offer *o = &run->offer[k];
            sum -= ddp_rec_sum(&o->key, 0, d->epoch);
            ddp_offer_answered(d, o);
        }
        if (run->state == DDP_RUN_QUERIES || (run->state == DDP_RUN_LISTS && sum != 0))
            run->state = DDP_RUN_NEW;
        ddp_run_todo(d, run);
    }
}

/* ---- Work ---- */

/* What of the ranges that differ is not here: request values; 1: all is here. */
static int ddp_run_want(struct snic_ddp *d, struct ddp_run *run)
{
    uint64_t sum = run->sum;
    int all = 1;
    for (uint32_t k = 0; k < run->offers; k++) {
        struct ddp_offer *o = &run->offer[k];
        sum -= ddp_rec_sum(&o->key, 0, d->epoch);
        if (ddp_run_has(d, o)) {
            ddp_offer_answered(d, o);
            continue;
        }
        all = 0;
        if (o->requested || !ddp_room(d))
            continue;
        if (d->learn_requested != 0 && d->learn_requested + o->length > RUN_BYTES) {
            d->learn_blocked = 1;
            continue;
        }
        (void)ddp_send(d, SNIC_DDP_PULL, ddp_bit(d->donor), &o->key, o->ts);
        o->requested = 1;
        d->learn_requested += o->length;
    }
    return all && sum == 0 && run->state == DDP_RUN_LISTS; /* U3 */
}

/* In PULL_LIST only some keys of the hash are dealt with at a time. */
static int ddp_run_skips(const struct ddp_run *run, const struct ddp_rec *r)
{
    if (run->list == DDP_LIST_NEXT && !ddp_canon_key_before(&run->after, &r->key))
        return 1;
    if (!run->more)
        return 0;
    for (uint32_t k = 0; k < run->offers; k++) {
        if (!ddp_canon_key_before(&run->offer[k].key, &r->key))
            return 0;
    }
    return 1;
}

/* The first record of the range that is to be dealt with; NULL: none. */
static struct ddp_rec *ddp_run_first(const struct snic_ddp *d, const struct ddp_run *run,
                                     uint32_t i)
{
    uint64_t lo = run->lo + ((uint64_t)i << run->bits);
    struct ddp_walk w = {lo, lo + (UINT64_C(1) << run->bits), 0};
    for (uint32_t n; (n = ddp_index_walk(&d->index, &w)) != SNIC_DDP__NIL;) {
        struct ddp_rec *r = ddp_rec_at(d, n);
        if (!ddp_is_hint(d, r) && (r->flags & DDP_R_ABOVE) == 0)
            continue;
        if (run->list == DDP_LIST_NOT || !ddp_run_skips(run, r))
            return r;
    }
    return NULL;
}

/*
 * The donor has it, complete. By which rules it was written does not matter any more, but that what
 * is not known to be durable at all is not waited for.
 */
static void ddp_run_confirm(struct snic_ddp *d, struct ddp_rec *r, uint32_t durable)
{
    int never = d->rules[d->o.model].gd == DDP_NEVER;
    ddp_hint_confirm(d, r, 0, durable || never ? d->o.model : (uint32_t)SNIC_DDP_EVENT);
    r->gv = r->vts;
    r->gd = durable ? r->vts : 0;
}

/* An INV older than the hint came first; the donor has nothing newer than this record. */
static void ddp_run_void_above(struct snic_ddp *d, struct ddp_rec *r)
{
    r->flags ^= DDP_R_ABOVE | DDP_R_REPLACES;
    ddp_append(d, r, 0, 1);
}

/* After narrow ranges wider ones again, each as wide as its place allows. */
static void ddp_run_widen(const struct snic_ddp *d, struct ddp_run *run)
{
    uint64_t left = run->end - run->lo;
    uint32_t most = ddp_run_bits(d, left);
    while (UINT64_C(1) << run->bits > left)
        run->bits--;
    while (run->bits < most && run->lo % (UINT64_C(2) << run->bits) == 0)
        run->bits++;
}

/* The ranges behind those that were compared. */
static void ddp_run_advance(struct snic_ddp *d, struct ddp_run *run)
{
    if (run->more) {
        struct snic_ddp_key last = run->offer[0].key;
        for (uint32_t k = 1; k < run->offers; k++) {
            if (ddp_canon_key_before(&last, &run->offer[k].key))
                last = run->offer[k].key;
        }
        run->after = last;
        run->list = DDP_LIST_NEXT;
        run->state = DDP_RUN_NEW;
        return;
    }
    run->lo += (uint64_t)run->done << run->bits;
    run->list = DDP_LIST_NOT;
    run->state = DDP_RUN_NEW;
    ddp_run_clear(d, run);
    if (run->lo == run->end)
        ddp_run_take(d, run);
    else
        ddp_run_widen(d, run);
}

/*
 * All is here. Hints of ranges that are equal are what the donor has; those of the others were
 * confirmed as they were offered, and the donor has no more keys there. 1: there is more to do.
 */
static int ddp_run_apply(struct snic_ddp *d, struct ddp_run *run)
{
    for (uint32_t i = 0; i < run->done; i++) {
        for (struct ddp_rec *r; (r = ddp_run_first(d, run, i)) != NULL;) {
            if (!ddp_room(d))
                return 1;
            if (run->budget == 0) {
                run->state = DDP_RUN_NEW; /* the rest with another answer */
                return 1;
            }
            uint32_t before = d->ring.count;
            if (!ddp_is_hint(d, r))
                ddp_run_void_above(d, r);
            else if ((run->same >> i & 1) != 0)
                ddp_run_confirm(d, r, run->durable >> i & 1);
            else
                ddp_hint_drop(d, r);
            run->budget = (uint8_t)(run->budget - (d->ring.count != before));
        }
    }
    ddp_run_advance(d, run);
    return 1;
}

/* A piece of what a run has to do; 0: nothing now. */
static int ddp_run_work(struct snic_ddp *d, struct ddp_run *run)
{
    uint32_t before = d->ring.count;
    switch (run->state) {
    case DDP_RUN_NEW:
        ddp_run_query(d, run);
        return 1;
    case DDP_RUN_QUERIES:
    case DDP_RUN_LISTS:
        if (!ddp_run_want(d, run))
            return d->ring.count != before;
        run->state = DDP_RUN_APPLIES;
        run->budget = RUN_BUDGET;
        return 1;
    case DDP_RUN_APPLIES:
        return ddp_run_apply(d, run);
    default:
        return 0;
    }
}

/* A piece of work; 0: nothing is left to do before something comes in. */
int ddp_runs_work(struct snic_ddp *d)
{
    for (uint32_t i = 0; i < d->runs; i++) {
        struct ddp_run *run = ddp_run_at(d, i);
        if (!run->todo)
            continue;
        if (ddp_run_work(d, run))
            return 1;
        run->todo = 0;
    }
    d->learn_work = 0;
    return 0;
}

#undef RUN_KEYS
#undef RUN_SPAN
#undef RUN_BYTES
#undef RUN_BUDGET
#undef RUN_ALL
