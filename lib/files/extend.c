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
 */
#include "files/files_priv.h"

static struct files_piece *extend_piece(struct snic_link *l)
{
    return SNIC_CONTAINER(l, struct files_piece, link);
}

/* Would a write of these device blocks have to wait? I7 */
int files_extend_conflict(const struct snic_files *f, uint64_t first, uint64_t end, int exclusive)
{
    struct snic_link *l;
    if (!exclusive && f->writes_exclusive == 0)
        return 0;
    for (l = f->writes.next; l != &f->writes; l = l->next) {
        const struct files_piece *p = extend_piece(l);
        if ((exclusive || p->exclusive) && p->block_first < end && first < p->block_end)
            return 1;
    }
    return 0;
}

/* Must a write of this segment wait until failed ones are gone? E2 */
int files_extend_poisoned(const struct snic_files *f, uint32_t seg)
{
    struct snic_link *l;
    if (f->poisoned == 0)
        return 0;
    for (l = f->writes.next; l != &f->writes; l = l->next)
        if (extend_piece(l)->seg == seg && extend_piece(l)->error != 0)
            return 1;
    return 0;
}

static void extend_poison(struct snic_files *f, const struct files_piece *bad)
{
    struct snic_link *l;
    for (l = f->writes.next; l != &f->writes; l = l->next) {
        struct files_piece *p = extend_piece(l);
        if (p->seg == bad->seg && p->extender != FILES_EXTEND_NOT && p->error == 0 &&
            p->to > bad->from) {
            p->error = bad->error;
            f->poisoned++;
        }
    }
}

/* The next write of the segment that may end, or NULL. */
static struct files_piece *extend_next(struct snic_files *f, uint32_t seg)
{
    struct snic_link *l;
    for (l = f->writes.next; l != &f->writes; l = l->next) {
        struct files_piece *p = extend_piece(l);
        if (p->seg != seg || p->extender == FILES_EXTEND_NOT || !p->complete)
            continue;
        if (p->error != 0 || (p->extender == FILES_EXTEND_GROW && p->from == f->segs[seg].init) ||
            (p->extender == FILES_EXTEND_WAIT && f->segs[seg].init >= p->to))
            return p;
    }
    return NULL;
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
    while ((p = extend_next(f, seg)) != NULL) {
        struct files_seg *s = &f->segs[seg];
        if (p->error == 0 && p->extender == FILES_EXTEND_GROW) {
            s->init = p->to;
            if (s->node != SNIC_FILES__NONE)
                files_dirty_seg(f, seg);
        }
        files_piece_retire(f, p);
    }
}
