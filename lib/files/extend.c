/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Writes in flight: which of them exclude each other (I7), and how they carry the init mark of
 * a segment (I3).
 *
 * E1  A growing write claims [from, to) when it is issued, `from` being what was claimed so
 *     far. init takes these steps in order; a write whose step cannot be taken yet is complete
 *     on the device and waits, so that what was acknowledged can be read.
 * E2  When a growing write fails, every write of the segment that reaches beyond its `from`
 *     fails too, and the claim falls back to `from`. New writes of the segment wait until the
 *     last of them has ended, since these may still be changing what they failed to write.
 * E3  A segment lists the extenders that have not ended in the order in which they entered. While
 *     none has failed, those in front of the first growing one are complete or below init: a write
 *     that ends looks at those that it unblocks, not at all that are in flight.
 */
#include "files/files_priv.h"

/* ---- A piece ends ---- */

/* The device counts its own requests; ours may be several of them. */
static void extend_credit(const struct files_piece *p)
{
    struct snic_files_req *r = p->req;
    if (p->io.credit != 0)
        r->credit = (uint32_t)snic_max_u64(1, p->io.credit / r->private_.pieces);
}

void files_piece_retire(struct snic_files *f, struct files_piece *p)
{
    struct snic_files_req *r = p->req;
    if (p->bounce != NULL)
        f->bounce_free[f->bounce_free_count++] = p->bounce;
    if (p->kind >= FILES_PIECE_WRITE) {
        files_busy_remove(f, p);
        f->poisoned -= p->error != 0 && p->extender != FILES_EXTEND_NOT;
    }
    snic_link_remove(&p->link);
    snic_link_append(&f->pieces_free, &p->link);
    f->pieces_free_count++;
    SNIC_ASSERT(f->pieces_free_count <= f->pieces_count);
    if (p->error != 0 && r->private_.error == 0) {
        r->private_.error = p->error;
        r->os_error = p->io.os_error;
    }
    extend_credit(p);
    SNIC_ASSERT(r->private_.inflight > 0);
    r->private_.inflight--;
    if (r->private_.inflight == 0 && r->private_.state == FILES_RQ_ISSUED)
        snic_queue_push(&f->moved, &r->node);
}

/* ---- The extenders of a segment, in the order in which they entered: E3 ---- */

static void extend_list(struct snic_files *f, struct files_piece *p)
{
    struct files_seg *s = &f->segs[p->seg];
    uint32_t i = (uint32_t)(p - f->pieces);
    p->seg_prev = s->busy_last;
    p->seg_next = SNIC_FILES__NONE;
    if (s->busy_last == SNIC_FILES__NONE)
        s->busy_first = i;
    else
        f->pieces[s->busy_last].seg_next = i;
    s->busy_last = i;
}

static void extend_unlist(struct snic_files *f, struct files_piece *p)
{
    struct files_seg *s = &f->segs[p->seg];
    if (p->seg_prev == SNIC_FILES__NONE)
        s->busy_first = p->seg_next;
    else
        f->pieces[p->seg_prev].seg_next = p->seg_next;
    if (p->seg_next == SNIC_FILES__NONE)
        s->busy_last = p->seg_prev;
    else
        f->pieces[p->seg_next].seg_prev = p->seg_prev;
}

/* A new write of its segment's bytes up to p->to: let it claim what it extends. E1 */
void files_extend_enter(struct snic_files *f, struct files_piece *p)
{
    struct files_seg *s = &f->segs[p->seg];
    p->from = s->claimed;
    if (p->to > s->claimed) {
        p->extender = FILES_EXTEND_GROW;
        s->claimed = p->to;
    } else if (p->to > s->init) {
        p->extender = FILES_EXTEND_WAIT;
    }
    if (p->extender != FILES_EXTEND_NOT)
        extend_list(f, p);
}

/* Must a write of this segment wait until failed ones are gone? E2 */
int files_extend_poisoned(const struct snic_files *f, uint32_t seg)
{
    if (f->poisoned == 0)
        return 0;
    for (uint32_t i = f->segs[seg].busy_first; i != SNIC_FILES__NONE; i = f->pieces[i].seg_next)
        if (f->pieces[i].error != 0)
            return 1;
    return 0;
}

static void extend_poison(struct snic_files *f, const struct files_piece *bad)
{
    for (uint32_t i = f->segs[bad->seg].busy_first; i != SNIC_FILES__NONE;
         i = f->pieces[i].seg_next) {
        struct files_piece *p = &f->pieces[i];
        if (p->error == 0 && p->to > bad->from) {
            p->error = bad->error;
            f->poisoned++;
        }
    }
}

static void extend_end(struct snic_files *f, struct files_piece *p)
{
    struct files_seg *s = &f->segs[p->seg];
    if (p->error == 0 && p->extender == FILES_EXTEND_GROW) {
        s->init = p->to;
        if (s->node != SNIC_FILES__NONE)
            files_dirty_seg(f, p->seg);
    }
    extend_unlist(f, p);
    files_piece_retire(f, p);
}

static int extend_may_end(const struct snic_files *f, const struct files_piece *p)
{
    uint32_t init = f->segs[p->seg].init;
    if (!p->complete)
        return 0;
    return p->error != 0 || (p->extender == FILES_EXTEND_GROW ? p->from == init : p->to <= init);
}

/* The next write of the segment that may end, or NULL, where some have failed. */
static struct files_piece *extend_next(struct snic_files *f, uint32_t seg)
{
    for (uint32_t i = f->segs[seg].busy_first; i != SNIC_FILES__NONE; i = f->pieces[i].seg_next)
        if (extend_may_end(f, &f->pieces[i]))
            return &f->pieces[i];
    return NULL;
}

/* End what may end at the head of the list: E3. */
static void extend_run(struct snic_files *f, uint32_t seg)
{
    uint32_t i;
    while ((i = f->segs[seg].busy_first) != SNIC_FILES__NONE) {
        struct files_piece *p = &f->pieces[i];
        f->stats.write_looks++;
        if (extend_may_end(f, p)) {
            extend_end(f, p);
        } else if (p->extender == FILES_EXTEND_WAIT && p->to <= f->segs[seg].init) {
            extend_unlist(f, p); /* below init by now, as any write there */
            p->extender = FILES_EXTEND_NOT;
        } else {
            return;
        }
    }
}

/* A write piece is complete (its error set): end it, and those that waited for it. */
void files_extend_settle(struct snic_files *f, struct files_piece *p)
{
    uint32_t seg = p->seg;
    p->complete = 1;
    if (p->extender == FILES_EXTEND_NOT) {
        files_piece_retire(f, p);
        return;
    }
    if (p->error != 0 && p->extender == FILES_EXTEND_GROW) {
        extend_poison(f, p);
        if (f->segs[seg].claimed > p->from)
            f->segs[seg].claimed = p->from;
    }
    if (f->poisoned == 0) {
        if (extend_may_end(f, p))
            extend_end(f, p);
        extend_run(f, seg);
        return;
    }
    while ((p = extend_next(f, seg)) != NULL)
        extend_end(f, p);
    extend_run(f, seg);
}
