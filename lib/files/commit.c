/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Group commit: one journal entry at a time takes all control records and as much of the dirty
 * queue as it holds.
 *
 *     serialise - flush the device - write the entry - make it durable (FUA or flush) - apply
 *
 * C1  The flush is submitted after serialising, so it covers every write that the serialised
 *     sizes and init marks cover: no metadata without its data (I4). Without dirty items
 *     there is nothing to cover and no flush: control records only lower init marks, and a
 *     segment whose mark is not durable yet is dirty.
 * C2  A waiter is satisfied when the control records and dirty items up to its tickets are
 *     durable and, if it needs one, a flush that started after its arrival has ended.
 * C3  When the entry does not fit into its half, the next generation begins in the other one
 *     and a checkpoint starts; while one is still running, entries wait and flushes do not.
 */
#include "files/files_priv.h"

static void commit_entry_reset(struct files_entry *e)
{
    e->used = SNIC_FILES__JE_HEAD;
    e->records = 0;
}

void files_commit_init(struct snic_files *f)
{
    f->commit_io.region = SNIC_NO_REGION;
    commit_entry_reset(&f->pending);
    commit_entry_reset(&f->writing);
}

/* ---- Waiting: C2 ---- */

static int commit_satisfied(const struct snic_files *f, const struct snic_files_req *r)
{
    const struct snic_files_private *p = &r->private_;
    return p->control_ticket <= f->control_durable && p->dirty_ticket <= f->dirty_durable &&
           p->flush_ticket <= f->flush_done;
}

/* The request is durable, or never will be: files_advance() continues it. */
static void commit_durable(struct snic_files *f, struct snic_files_req *r, int error)
{
    r->private_.error = error;
    snic_queue_push(&f->durable, &r->node);
}

/* Its tickets for control and dirty items are set. Ends in files_data_durable(). */
void files_wait_durable(struct snic_files *f, struct snic_files_req *r, int flush)
{
    struct snic_files_private *p = &r->private_;
    p->state = FILES_RQ_WAITING;
    p->flush_ticket = flush ? f->flush_started + 1 : 0;
    if (f->broken != 0 || commit_satisfied(f, r)) {
        commit_durable(f, r, f->broken != 0 ? SNIC_EIO : 0);
        return;
    }
    f->want_dirty = snic_max_u64(f->want_dirty, p->dirty_ticket);
    f->want_flush = snic_max_u64(f->want_flush, p->flush_ticket);
    snic_queue_push(&f->waiters, &r->node);
}

static void commit_wake(struct snic_files *f)
{
    struct snic_queue all = f->waiters;
    struct snic_node *node;
    memset(&f->waiters, 0, sizeof(f->waiters));
    while ((node = snic_queue_pop(&all)) != NULL) {
        struct snic_files_req *r = SNIC_CONTAINER(node, struct snic_files_req, node);
        if (commit_satisfied(f, r))
            commit_durable(f, r, 0);
        else
            snic_queue_push(&f->waiters, node);
    }
}

/* ---- The steps ---- */

static void commit_flush(struct snic_files *f, uint32_t state)
{
    struct snic_io_req *io = &f->commit_io;
    f->commit_state = state;
    f->flush_started++;
    f->stats.flushes++;
    io->op = SNIC_IO_FLUSH;
    io->flags = 0;
    io->offset = 0;
    io->length = 0;
    io->buf.base = NULL;
    io->buf.size = 0;
    files_io_push(f, io);
}

static void commit_write(struct snic_files *f)
{
    struct snic_io_req *io = &f->commit_io;
    struct files_entry *e = &f->writing;
    uint32_t padded = (uint32_t)snic_align_up(e->used, f->info.block_bytes);
    uint64_t place = files_half_offset(&f->info, f->generation) + f->position;
    SNIC_ASSERT(padded <= f->info.journal_bytes / 2 - f->position); /* commit_place() */
    SNIC_ASSERT(e->records > 0 && e->used >= SNIC_FILES__JE_HEAD);
    memset(e->bytes, 0, SNIC_FILES__JE_HEAD);
    memset(e->bytes + e->used, 0, padded - e->used);
    snic_put_le64(e->bytes + SNIC_FILES__JE_GENERATION, f->generation);
    snic_put_le64(e->bytes + SNIC_FILES__JE_SEQ, f->seq);
    snic_put_le64(e->bytes + SNIC_FILES__JE_NEXT_ID, f->next_id);
    snic_put_le32(e->bytes + SNIC_FILES__JE_BYTES, e->used);
    snic_put_le32(e->bytes + SNIC_FILES__JE_RECORDS, e->records);
    files_seal(e->bytes, e->used, SNIC_FILES__JOURNAL_MAGIC, f->info.image_id, place);
    f->commit_state = FILES_COMMIT_WRITE;
    io->op = SNIC_IO_WRITE;
    io->flags = f->fua ? SNIC_IO_FUA : 0;
    io->offset = place;
    io->length = padded;
    io->buf.base = e->bytes;
    io->buf.size = padded;
    files_io_push(f, io);
}

/* The entry is durable: it becomes part of the durable state (I1). */
static void commit_apply(struct snic_files *f)
{
    struct files_raw raw = files_raw_of(f);
    struct files_entry *e = &f->writing;
    uint32_t padded = (uint32_t)snic_align_up(e->used, f->info.block_bytes);
    uint32_t at;
    int rc = files_entry_apply(&raw, e->bytes, e->used, e->records, &at);
    SNIC_ASSERT(rc == 0);
    f->stats.commits++;
    f->stats.records += e->records;
    f->stats.journal_bytes += padded;
    f->seq++;
    f->position += padded;
    f->control_durable = f->control_taken;
    f->dirty_durable = f->dirty_taken;
    commit_entry_reset(e);
    files_limbo_splice(f, &f->limbo_durable, &f->limbo_writing);
    files_epoch_turn(f);
}

/* The device has ended the step: 1 an entry is applied; 0; or the error. */
int files_commit_ended(struct snic_files *f)
{
    const struct snic_io_req *io = &f->commit_io;
    uint32_t state = f->commit_state;
    int applied = 0;
    files_io_ended(f);
    f->commit_state = FILES_COMMIT_IDLE;
    if (io->result < 0 || (uint64_t)io->result != io->length)
        return io->result < 0 ? (int)io->result : SNIC_EIO;
    if (state == FILES_COMMIT_FLUSH_DATA || state == FILES_COMMIT_FLUSH_ENTRY)
        f->flush_done = f->flush_started;
    if (f->broken != 0)
        return 0;
    if (state == FILES_COMMIT_FLUSH_DATA && f->writing.records > 0) {
        commit_write(f);
    } else if (state == FILES_COMMIT_WRITE && !f->fua) {
        commit_flush(f, FILES_COMMIT_FLUSH_ENTRY);
    } else if (state != FILES_COMMIT_FLUSH_DATA) {
        commit_apply(f);
        applied = 1;
    }
    commit_wake(f);
    return applied;
}

/* ---- Starting ---- */

/* Can an entry that holds the control buffer be placed? Changes halves when it must: C3. */
static int commit_place(struct snic_files *f)
{
    uint64_t half = f->info.journal_bytes / 2;
    if (half - f->position >= snic_align_up(f->pending.used, f->info.block_bytes))
        return 1;
    if (f->ckpt_state != FILES_CKPT_IDLE)
        return 0;
    f->generation++;
    f->position = 0;
    f->ckpt_seq = f->seq;
    files_checkpoint_start(f);
    return 1;
}

static void commit_serialise_item(struct snic_files *f, uint32_t item)
{
    uint32_t block = f->info.block_bytes;
    if (item < f->nodes_count) {
        const struct files_node *n = &f->nodes[item];
        if (n->id != 0)
            files_record_size(&f->writing, block, item, n->id, n->size);
        return;
    }
    item -= f->nodes_count;
    if (f->segs[item].node != SNIC_FILES__NONE)
        files_record_seg(&f->writing, block, item, f->nodes[f->segs[item].node].id,
                         f->segs[item].logical, f->segs[item].init);
}

/* Move everything that waits into the entry; 1 if sizes or init marks are among it. */
static int commit_serialise(struct snic_files *f)
{
    struct files_entry e = f->writing;
    uint64_t room = f->info.journal_bytes / 2 - f->position;
    uint32_t limit = (uint32_t)snic_min_u64(room, SNIC_FILES__ENTRY_MAX);
    int data = 0;
    SNIC_ASSERT(e.records == 0);
    f->writing = f->pending;
    f->pending = e;
    f->control_taken = f->control_appended;
    files_limbo_splice(f, &f->limbo_writing, &f->limbo_pending);
    /* A record is at most 32 bytes, and padding less than that. */
    while (f->dirty_first != SNIC_FILES__QUEUE_END && f->writing.used + 64 <= limit) {
        commit_serialise_item(f, files_dirty_take(f));
        data = 1;
    }
    if (f->dirty_first == SNIC_FILES__QUEUE_END)
        f->commit_wanted = 0;
    return data;
}

static int commit_entry_wanted(const struct snic_files *f)
{
    if (f->pending.records > 0)
        return 1;
    return f->dirty_first != SNIC_FILES__QUEUE_END &&
           (f->commit_wanted || f->want_dirty > f->dirty_durable);
}

static void commit_arm(struct snic_files *f)
{
    if (f->dirty_first == SNIC_FILES__QUEUE_END || f->sync_delay_ns == SNIC_NEVER ||
        f->commit_timer.armed)
        return;
    snic_loop_arm(f->loop, &f->commit_timer, snic_loop_now(f->loop) + f->sync_delay_ns);
}

/* Begin a commit or a flush if one is needed and none is under way. */
void files_commit_kick(struct snic_files *f)
{
    int flush;
    if (f->commit_state != FILES_COMMIT_IDLE || f->broken != 0)
        return;
    flush = f->want_flush > f->flush_done;
    if (commit_entry_wanted(f) && commit_place(f)) {
        flush |= commit_serialise(f); /* C1 */
        if (f->writing.records > 0 && !flush) {
            commit_write(f);
            return;
        }
        /* Every item may have lost its owner: then nothing is left to write. */
        if (f->writing.records == 0) {
            f->dirty_durable = f->dirty_taken;
            commit_wake(f);
            if (f->want_flush <= f->flush_done)
                return;
        }
    }
    if (flush)
        commit_flush(f, FILES_COMMIT_FLUSH_DATA);
    else
        commit_arm(f);
}
