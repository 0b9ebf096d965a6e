/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The log is blocks of whole sectors, each with a checksum and a sequence number one above that
 * of the block before.
 *   L1 One block is on its way to the device at a time, so the blocks of a crash are a prefix of
 *      those that were written.
 *   L2 A half is begun anew only when unapplied[] of it is 0: what is lost with it is in its page,
 *      or of a page that is durably marked as damaged.
 *      So where the older half does not reach to the newer one at recovery, it was being begun
 *      anew, and each record left in it is in its page; else blocks in its middle are damaged. The
 *      first block of a half, of LOG_BLOCK_MAX at most, is all that beginning it anew can tear.
 *   L3 A half's blocks have numbers without a gap; a block with another number is an old one.
 */
#include "log.h"

#include "../common.h"

#include <stdlib.h>
#include <string.h>

/*
 * Block:  magic 4, crc 4 (of all behind it), sequence 8, bytes 4, count 4, zeros 8; records.
 * Record: page 8, lsn 8, previous 8, offset 4, length 4, data.
 */
#define LOG_MAGIC 0x474f4c50u /* "PLOG" */
#define LOG_HEADER 32u
#define LOG_RECORD 32u
#define LOG_BLOCK_MAX (256u << 10)

struct log_record *log_record_new(uint32_t length)
{
    struct log_record *r = malloc(sizeof(*r) + length);

    if (r == NULL)
        ex_die("out of memory for a log record");
    memset(r, 0, sizeof(*r));
    r->length = length;
    return r;
}

/* ---- Writing ---- */

static void log_flush(struct log *l);

static void log_end(struct log *l, struct snic_queue *q, int64_t result)
{
    struct snic_node *n;

    while ((n = snic_queue_pop(q)) != NULL)
        l->durable(l->ctx, SNIC_CONTAINER(n, struct log_record, node), result);
}

static void log_written(struct store_req *q)
{
    struct log *l = SNIC_CONTAINER(q, struct log, req);

    l->busy = 0;
    if (q->result != (int64_t)q->size && l->broken == 0) {
        l->broken = q->result < 0 ? q->result : SNIC_EIO;
        ex_log(EX_ERROR,
               "cannot write the log: %s; updates are refused until the server is restarted",
               snic_strerror((int)l->broken));
    }
    log_end(l, &l->writing, l->broken);
    log_flush(l);
}

/* @return 0: not yet, the other half still holds what is in no page (L2) */
static int log_place(struct log *l, uint32_t bytes)
{
    if (l->at + bytes <= l->half_bytes)
        return 1;
    if (l->unapplied[l->half ^ 1] != 0)
        return 0;
    l->half ^= 1;
    l->at = 0;
    return 1;
}

static void log_flush(struct log *l)
{
    unsigned char *b = l->buffers[l->filling];
    uint32_t bytes = (uint32_t)snic_align_up(l->fill, STORE_ALIGN);

    if (l->busy || l->waiting.first == NULL) /* L1 */
        return;
    if (l->broken != 0 || l->count == 0) {
        log_end(l, &l->waiting, l->broken);
        l->fill = LOG_HEADER;
        l->count = 0;
        return;
    }
    if (!log_place(l, bytes)) {
        l->blocked(l->ctx); /* the last thing done here: it may come back to this function */
        return;
    }
    memset(b + l->fill, 0, bytes - l->fill);
    memset(b, 0, LOG_HEADER);
    snic_put_le32(b, LOG_MAGIC);
    snic_put_le64(b + 8, l->sequence++);
    snic_put_le32(b + 16, bytes);
    snic_put_le32(b + 20, l->count);
    snic_put_le32(b + 4, snic_crc32c(0, b + 8, bytes - 8));
    for (struct snic_node *n = l->waiting.first; n != NULL; n = n->next)
        SNIC_CONTAINER(n, struct log_record, node)->half = l->half;
    l->unapplied[l->half] += l->count;
    l->writing = l->waiting;
    memset(&l->waiting, 0, sizeof(l->waiting));
    memset(&l->req, 0, sizeof(l->req));
    l->req.write = 1;
    l->req.sync = 1;
    l->req.file = STORE_LOG;
    l->req.offset = l->half * l->half_bytes + l->at;
    l->req.size = bytes;
    l->req.data = b;
    l->req.done = log_written;
    l->at += bytes;
    l->writes++;
    l->bytes += bytes;
    l->busy = 1;
    l->filling ^= 1;
    l->fill = LOG_HEADER;
    l->count = 0;
    l->store->submit(l->store, &l->req);
}

static void log_kicked(struct snic_loop_msg *m)
{
    struct log *l = SNIC_CONTAINER(m, struct log, kick);

    l->kicked = 0;
    log_flush(l);
}

int log_append(struct log *l, struct log_record *r)
{
    unsigned char *p = l->buffers[l->filling] + l->fill;

    if (r->length > 0) {
        if (l->fill + LOG_RECORD + r->length > LOG_BLOCK_MAX)
            return SNIC_EAGAIN;
        snic_put_le64(p, r->page);
        snic_put_le64(p + 8, r->lsn);
        snic_put_le64(p + 16, r->previous);
        snic_put_le32(p + 24, r->offset);
        snic_put_le32(p + 28, r->length);
        memcpy(p + LOG_RECORD, r->data, r->length);
        l->fill += LOG_RECORD + r->length;
        l->count++;
    }
    snic_queue_push(&l->waiting, &r->node);
    if (!l->kicked) { /* what else comes in this iteration shares the write */
        l->kicked = 1;
        snic_loop_defer(l->store->loop, &l->kick);
    }
    return 0;
}

void log_again(struct log *l)
{
    log_flush(l);
}

void log_break(struct log *l, int error)
{
    if (l->broken == 0)
        l->broken = error;
    log_flush(l);
}

void log_applied(struct log *l, struct log_record *r)
{
    if (--l->unapplied[r->half] == 0)
        log_flush(l);
    free(r);
}

/* ---- Recovery ---- */

/* Read the block at @p at of @p half into the first buffer. @return 1: a whole one; 0; SNIC_E* */
static int log_read(struct log *l, unsigned half, uint64_t at, uint64_t *sequence)
{
    unsigned char *b = l->buffers[0];
    struct store_req q;
    uint32_t bytes;
    int64_t r;

    memset(&q, 0, sizeof(q));
    q.file = STORE_LOG;
    q.offset = half * l->half_bytes + at;
    q.size = STORE_ALIGN;
    q.data = b;
    if (at + STORE_ALIGN > l->half_bytes)
        return 0;
    r = store_run(l->store, &q);
    if (r < 0)
        return (int)r;
    bytes = snic_get_le32(b + 16);
    if (r != STORE_ALIGN || snic_get_le32(b) != LOG_MAGIC || bytes < STORE_ALIGN ||
        bytes > LOG_BLOCK_MAX || bytes % STORE_ALIGN != 0 || bytes > l->half_bytes - at)
        return 0;
    *sequence = snic_get_le64(b + 8);
    q.size = bytes;
    r = store_run(l->store, &q);
    if (r < 0)
        return (int)r;
    return r == bytes && snic_get_le32(b + 4) == snic_crc32c(0, b + 8, bytes - 8);
}

/* The records of the block in the first buffer. The checksum held: only versions could differ. */
static int log_take(struct log *l, unsigned half, const struct log_events *ev)
{
    const unsigned char *b = l->buffers[0];
    uint32_t bytes = snic_get_le32(b + 16);
    uint32_t count = snic_get_le32(b + 20);
    uint32_t at = LOG_HEADER;

    for (uint32_t i = 0; i < count; i++) {
        struct log_record *r;
        uint32_t length;

        if (bytes - at < LOG_RECORD)
            return SNIC_ECORRUPT;
        length = snic_get_le32(b + at + 28);
        if (length > bytes - at - LOG_RECORD)
            return SNIC_ECORRUPT;
        r = log_record_new(length);
        r->page = snic_get_le64(b + at);
        r->lsn = snic_get_le64(b + at + 8);
        r->previous = snic_get_le64(b + at + 16);
        r->offset = snic_get_le32(b + at + 24);
        r->half = half;
        memcpy(r->data, b + at + LOG_RECORD, length);
        at += LOG_RECORD + length;
        l->unapplied[half]++;
        ev->found(ev->ctx, r);
    }
    return 0;
}

/* All blocks of one half (L3). */
static int log_scan(struct log *l, unsigned half, uint64_t first, const struct log_events *ev)
{
    uint64_t sequence;
    int r;

    l->half = half;
    l->at = 0;
    l->sequence = first;
    while ((r = log_read(l, half, l->at, &sequence)) == 1 && sequence == l->sequence) {
        r = log_take(l, half, ev);
        if (r != 0)
            break;
        l->at += snic_get_le32(l->buffers[0] + 16);
        l->sequence++;
    }
    return r < 0 ? r : 0;
}

/* L2 */
static void log_gap(struct log *l, unsigned older)
{
    l->gap = 1;
    if (l->unapplied[older] != 0 || l->at >= LOG_BLOCK_MAX)
        ex_die(
            "the log is corrupt: block %llu of it has a wrong checksum, and acknowledged updates "
            "in it or behind it may be lost; the pages are not served, restore them from a copy",
            (unsigned long long)l->sequence);
}

int log_open(struct log *l, struct store *store, uint64_t bytes, const struct log_events *ev)
{
    uint64_t first[2] = {0, 0};
    unsigned older;
    int r = 0;

    memset(l, 0, sizeof(*l));
    l->store = store;
    l->durable = ev->durable;
    l->blocked = ev->blocked;
    l->ctx = ev->ctx;
    l->half_bytes = snic_align_down(bytes / 2, STORE_ALIGN);
    l->kick.fn = log_kicked;
    l->sequence = 1;
    l->fill = LOG_HEADER;
    for (int i = 0; i < 2; i++)
        if (posix_memalign((void **)&l->buffers[i], STORE_ALIGN, LOG_BLOCK_MAX) != 0)
            ex_die("out of memory for the log's buffers");
    for (unsigned i = 0; i < 2 && r >= 0; i++) {
        r = log_read(l, i, 0, &first[i]);
        if (r != 1)
            first[i] = 0;
    }
    older = first[1] != 0 && (first[0] == 0 || first[1] < first[0]);
    for (unsigned i = 0; i < 2 && r >= 0; i++) {
        if (first[older ^ i] == 0)
            continue;
        if (i == 1 && l->sequence != first[older ^ 1])
            log_gap(l, older);
        r = log_scan(l, older ^ i, first[older ^ i], ev);
    }
    return r < 0 ? r : 0;
}

void log_close(struct log *l)
{
    struct snic_queue *queues[] = {&l->waiting, &l->writing};
    struct snic_node *n;

    for (int i = 0; i < 2; i++) {
        while ((n = snic_queue_pop(queues[i])) != NULL)
            free(SNIC_CONTAINER(n, struct log_record, node));
        free(l->buffers[i]);
    }
}
