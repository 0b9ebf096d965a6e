/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Every invariant that can be seen between two calls.
 */
#include "wal/wal_priv.h"

/** The batches follow each other in place and position. */
static int wal_check_batches(const struct snic_wal *w)
{
    struct wal_place at = w->next;
    for (uint32_t k = w->batch_count; k-- > 0;) {
        const struct wal_batch *b = &w->batch[(w->batch_head + k) % w->opts.batches];
        uint32_t bytes = b->blocks * w->geo.block;
        if (b->blocks == 0 || bytes > w->buffer_bytes || b->blocks > w->geo.batch_blocks ||
            b->first + b->blocks > w->geo.segment_blocks || b->at < SNIC_WAL__BLOCK_HEAD ||
            b->at > w->geo.block)
            return SNIC_ECORRUPT;
        if (!b->closed && (k != w->batch_count - 1 || (k == 0 && w->flushing)))
            return SNIC_ECORRUPT;
        if (!b->closed && (b->gen != w->next.gen || b->first != w->next.block))
            return SNIC_ECORRUPT;
        if (b->closed) {
            int same = b->gen == at.gen && b->first + b->blocks == at.block;
            int before = b->gen + 1 == at.gen && at.block == 0;
            if ((!same && !before) || b->last < b->base)
                return SNIC_ECORRUPT;
        }
        at.gen = b->gen;
        at.block = b->first;
        if (k == 0 && b->base != w->durable_seq) /* W4 */
            return SNIC_ECORRUPT;
    }
    if (w->batch_count == 0 && w->durable_seq != w->last_seq)
        return SNIC_ECORRUPT;
    return 0;
}

static int wal_check_segments(const struct snic_wal *w)
{
    if (w->announced > w->announcing || w->announcing > w->oldest || w->oldest > w->next.gen ||
        w->next.gen - w->announced >= w->geo.segments || w->durable_gen > w->next.gen ||
        w->next.block > w->geo.segment_blocks) /* W2 */
        return SNIC_ECORRUPT;
    if (w->compact.state == WAL_COMPACT_IDLE || !w->writable)
        return 0;
    if (w->oldest >= w->durable_gen || w->compact.mark > w->last_seq) /* W3 */
        return SNIC_ECORRUPT;
    if (w->compact.state != WAL_COMPACT_READ && w->read.state != WAL_OP_IDLE)
        return SNIC_ECORRUPT;
    return 0;
}

int snic_wal_check(const struct snic_wal *w)
{
    if (w->phase != WAL_OPEN || w->closing)
        return w->phase > WAL_DEAD ? SNIC_ECORRUPT : 0;
    if (w->durable_seq > w->last_seq || w->flush_seq > w->last_seq ||
        w->batch_count > w->opts.batches || w->batch_head >= w->opts.batches ||
        (w->flushing && w->batch_count == 0))
        return SNIC_ECORRUPT;
    if (w->write.state != WAL_OP_IDLE && !w->flushing) /* W1 */
        return SNIC_ECORRUPT;
    if (w->erase != WAL_JOB_NONE && w->writable)
        return SNIC_ECORRUPT;
    if (w->erase == WAL_JOB_RUNS && w->meta.put == WAL_JOB_RUNS)
        return SNIC_ECORRUPT;
    int r = wal_check_segments(w);
    return r != 0 ? r : wal_check_batches(w);
}
