/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The donor's half of learning (learn.c). It keeps no state about learners: each PULL has all that
 * the answer needs, and a lost or doubled one does no harm.
 *
 * A PULL has the digests of up to SNIC_DDP__SPLIT ranges of hashes. A range is equal if the donor's
 * digest of it, as of now, is the same and all its records are complete; of the others every record
 * is offered. An answer has at most SNIC_DDP__OFFERS of these, so it is about as many of the
 * ranges, from the first on, as that many cover. If the first alone has more the learner asks for
 * narrower ones; if all are of one hash, for the keys one part after the other (PULL_LIST).
 */
#include "ddp_priv.h"

#define DONOR_SPAN (UINT64_C(1) << 14) /* of the index, for one answer */
#define DONOR_BYTES (1u << 16)         /* values sent unasked, of one answer, but for the first */

/* A PULL, decoded, and the answer. */
struct donor_answer {
    uint64_t lo;
    uint32_t bits;
    uint32_t ranges;
    uint32_t list;
    uint32_t done;
    uint32_t same;
    uint32_t durable; /* of the same ones: at all members */
    uint32_t more;
    uint32_t offers;
    uint64_t sum;
    uint32_t rec[SNIC_DDP__OFFERS];
};

/* One range's records, and what they add up to. */
struct donor_range {
    uint64_t sum;
    uint64_t keys;
    uint32_t count;
    uint32_t quiet;
    uint32_t durable;
    uint32_t rec[SNIC_DDP__OFFERS];
};

static int ddp_donor_complete(const struct snic_ddp *d, const struct ddp_rec *r)
{
    int never = ddp_rules_at(d, r->flags)->gd == DDP_NEVER;
    return r->rd == 0 && r->gv == r->vts && (never || r->gd == r->vts);
}

static void ddp_donor_range(const struct snic_ddp *d, uint64_t lo, uint32_t bits,
                            struct donor_range *out)
{
    struct ddp_walk w = {lo, lo + (UINT64_C(1) << bits), 0};
    memset(out, 0, sizeof(*out));
    out->quiet = out->durable = 1;
    for (uint32_t n; (n = ddp_index_walk(&d->index, &w)) != SNIC_DDP__NIL;) {
        const struct ddp_rec *r = ddp_rec_at(d, n);
        if (r->vts == 0)
            continue;
        out->sum += ddp_rec_sum(&r->key, r->vts, d->epoch);
        out->keys += ddp_rec_sum(&r->key, 0, d->epoch);
        out->quiet &= (uint32_t)ddp_donor_complete(d, r);
        out->durable &= r->gd == r->vts;
        if (out->count < SNIC_DDP__OFFERS)
            out->rec[out->count] = n;
        out->count++;
    }
}

static void ddp_donor_compare(const struct snic_ddp *d, const struct snic_ddp_msg *m,
                              struct donor_answer *a)
{
    const uint64_t digest[SNIC_DDP__SPLIT] = {m->key.w[0], m->key.w[1], m->seen[0], m->seen[1]};
    if ((uint64_t)a->ranges << a->bits >> d->index.shift > DONOR_SPAN)
        return;
    for (; a->done < a->ranges; a->done++) {
        struct donor_range x;
        ddp_donor_range(d, a->lo + ((uint64_t)a->done << a->bits), a->bits, &x);
        if (x.quiet && x.sum == digest[a->done]) {
            a->same |= 1u << a->done;
            a->durable |= x.durable << a->done;
            continue;
        }
        if (a->offers + x.count > SNIC_DDP__OFFERS)
            break;
        memcpy(&a->rec[a->offers], x.rec, x.count * sizeof(x.rec[0]));
        a->offers += x.count;
        a->sum += x.keys;
    }
}

/* Of the keys of one hash those that follow the PULL's, in their order. */
static void ddp_donor_list(const struct snic_ddp *d, const struct snic_ddp_msg *m,
                           struct donor_answer *a)
{
    struct ddp_walk w = {a->lo, a->lo + 1, 0};
    int first = m->seen[0] == 0;
    for (uint32_t n; (n = ddp_index_walk(&d->index, &w)) != SNIC_DDP__NIL;) {
        const struct ddp_rec *r = ddp_rec_at(d, n);
        uint32_t i = a->offers;
        if (r->vts == 0 || (!first && !ddp_canon_key_before(&m->key, &r->key)))
            continue;
        while (i > 0 && ddp_canon_key_before(&r->key, &ddp_rec_at(d, a->rec[i - 1])->key))
            i--;
        a->more |= a->offers == SNIC_DDP__OFFERS;
        if (i == SNIC_DDP__OFFERS)
            continue;
        a->offers += a->offers < SNIC_DDP__OFFERS;
        memmove(&a->rec[i + 1], &a->rec[i], (a->offers - 1 - i) * sizeof(a->rec[0]));
        a->rec[i] = n;
    }
    for (uint32_t i = 0; i < a->offers; i++)
        a->sum += ddp_rec_sum(&ddp_rec_at(d, a->rec[i])->key, 0, d->epoch);
    a->done = 1;
}

static void ddp_donor_send(struct snic_ddp *d, const struct ddp_rec *r, uint16_t to, int value)
{
    uint32_t tombstone = r->flags & SNIC_DDP_MSG_TOMBSTONE;
    uint32_t type = value || tombstone != 0 ? SNIC_DDP_RECORD : SNIC_DDP_OFFER;
    struct snic_ddp_msg *a = ddp_send(d, type, to, &r->key, r->vts);
    a->flags = (uint8_t)(tombstone | ddp_rule_msg(d, r->flags));
    a->flags |= r->rd != 0 ? SNIC_DDP_MSG_LOCKED : 0;
    a->flags |= (r->flags & DDP_R_CAS) != 0 ? SNIC_DDP_MSG_CAS : 0;
    a->length = r->length;
    a->seen[0] = r->gv;
    a->seen[1] = r->gd;
    if (type == SNIC_DDP_RECORD)
        a->value = r->value;
}

static void ddp_donor_answer(struct snic_ddp *d, const struct snic_ddp_msg *m,
                             const struct donor_answer *a)
{
    static const struct snic_ddp_key none = {{0, 0}};
    uint16_t to = ddp_bit(m->src);
    /* First, so that what is missing is known however few of the records arrive. */
    struct snic_ddp_msg *end = ddp_send(d, SNIC_DDP_PULLED, to, &none, 0);
    end->scope = m->scope;
    end->key.w[0] = d->recs.used;
    end->key.w[1] = ddp_pull_name(m);
    end->seen[0] = a->sum;
    end->seen[1] = a->done | a->same << 8 | a->more << 16 | a->durable << 24;
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < a->offers; i++) {
        const struct ddp_rec *r = ddp_rec_at(d, a->rec[i]);
        int value = (m->scope & SNIC_DDP__PULL_EMPTY) != 0 &&
                    (bytes == 0 || bytes + r->length <= DONOR_BYTES);
        bytes += value ? r->length : 0;
        ddp_donor_send(d, r, to, value);
    }
}

int ddp_donor_pull(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    const uint64_t known = (UINT64_C(1) << 44) - 1 + SNIC_DDP__PULL_LIST + SNIC_DDP__PULL_EMPTY;
    struct donor_answer a;
    if ((d->learners & ddp_bit(m->src)) == 0)
        return SNIC_EPROTO;
    if (!d->serves)
        return 0; /* not yet: it asks again */
    if (m->ts != 0) {
        const struct ddp_rec *r = ddp_find(d, &m->key);
        if (r != NULL && r->vts >= m->ts)
            ddp_donor_send(d, r, ddp_bit(m->src), 1);
        return 0;
    }
    memset(&a, 0, sizeof(a));
    a.lo = m->scope & UINT32_MAX;
    a.bits = m->scope >> 32 & 255;
    a.ranges = m->scope >> 40 & 15;
    a.list = (m->scope & SNIC_DDP__PULL_LIST) != 0;
    if ((m->scope & ~known) != 0 || a.bits > 30 || a.ranges == 0 || a.ranges > SNIC_DDP__SPLIT ||
        a.lo + ((uint64_t)a.ranges << a.bits) > UINT64_C(1) << 32 ||
        (a.list && (a.bits != 0 || a.ranges != 1)))
        return SNIC_EPROTO;
    if (a.list)
        ddp_donor_list(d, m, &a);
    else
        ddp_donor_compare(d, m, &a);
    ddp_donor_answer(d, m, &a);
    return 0;
}

#undef DONOR_SPAN
#undef DONOR_BYTES
