/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reading and writing objects.
 *
 * Whole blocks are transferred between the caller's memory and the file. A block of which only a
 * part is used (an edge; there are at most two) goes through a buffer of its own.
 *
 * A write's stages: plan (where each block is, or will be), read the edges that have bytes, put
 * marks on the segments of blocks that are in use and wait until they are durable (S5), write, then
 * change the map: so a map record never names bytes that are not in the file (S3).
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

/** The chunk of block @p b; an error ends up in the job. */
struct lmdb_chunk *lmdb_job_chunk(struct lmdb_job *j, uint64_t b)
{
    int error = 0;
    struct lmdb_chunk *c = lmdb_chunk_get(j->s, j->object, b / LMDB_CHUNK, &error);
    if (c == NULL) {
        lmdb_job_fail(j, error, 0);
        if (error == SNIC_ECORRUPT)
            j->bad_offset = b * LMDB_BLOCK;
    }
    return c;
}

/** The part [*from, *to) of block @p b that the job is about. 1: all of it. */
static int lmdb_job_part(const struct lmdb_job *j, uint64_t b, uint32_t *from, uint32_t *to)
{
    uint64_t start = b * LMDB_BLOCK;
    uint64_t end = j->offset + j->length;
    *from = start < j->offset ? (uint32_t)(j->offset - start) : 0;
    *to = end - start < LMDB_BLOCK ? (uint32_t)(end - start) : LMDB_BLOCK;
    return *from == 0 && *to == LMDB_BLOCK;
}

static struct lmdb_edge *lmdb_edge_of(struct lmdb_job *j, uint64_t b)
{
    for (int i = 0; i < 2; i++) {
        if (j->edge[i].buffer != NULL && j->edge[i].number == b)
            return &j->edge[i];
    }
    return NULL;
}

struct lmdb_edge *lmdb_edge_begin(struct lmdb_job *j, uint64_t b, uint32_t from, uint32_t to)
{
    struct lmdb_edge *e = &j->edge[j->edge[0].buffer != NULL];
    SNIC_ASSERT(e->buffer == NULL);
    e->buffer = lmdb_edge_new(j->s);
    e->number = b;
    e->from = from;
    e->to = to;
    if (e->buffer == NULL)
        lmdb_job_fail(j, SNIC_ENOMEM, 0);
    return e->buffer == NULL ? NULL : e;
}

void lmdb_job_settle(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    int durable = (j->flags & SNIC_KVOP_DURABLE) != 0;
    j->next = j->then;
    if (j->result >= 0 && (durable || (s->mode == LMDB_SHARED && j->changed)))
        lmdb_batch_wait_job(j, lmdb_ticket(s, durable));
}

/* ---- Checksums ---- */

/**
 * Check the checksum @p crc of a block that was read. While other handles may overwrite the block
 * in place no handle has its latest checksum in memory: a mismatch in a marked segment is accepted.
 */
static int lmdb_crc_check(struct lmdb_job *j, struct lmdb_chunk *c, uint64_t b, uint32_t crc)
{
    uint32_t i = (uint32_t)(b % LMDB_CHUNK);
    if ((c->flags[i] & LMDB_NOCRC) != 0) {
        if (j->s->mode == LMDB_SOLE && !j->s->readonly) {
            c->flags[i] = 0;
            c->crc[i] = crc;
            lmdb_chunk_soften(j->s, c);
        }
        return 1;
    }
    if (c->crc[i] == crc)
        return 1;
    if (j->s->mode == LMDB_SHARED && lmdb_share_marked(j->s, c->block[i]))
        return 1;
    if (j->result >= 0)
        j->bad_offset = b * LMDB_BLOCK;
    lmdb_job_fail(j, SNIC_ECORRUPT, 0);
    return 0;
}

int lmdb_edge_check(struct lmdb_job *j, const struct lmdb_edge *e)
{
    struct lmdb_chunk *c = lmdb_job_chunk(j, e->number);
    return c != NULL && lmdb_crc_check(j, c, e->number, snic_crc32c(0, e->buffer, LMDB_BLOCK));
}

/* ---- READ ---- */

static void lmdb_read_over(struct lmdb_job *j)
{
    for (uint64_t b = j->first; b <= j->last && j->result >= 0; b++) {
        struct lmdb_chunk *c = lmdb_job_chunk(j, b);
        uint32_t i = (uint32_t)(b % LMDB_CHUNK);
        if (c == NULL)
            break;
        if (c->block[i] == 0 || (c->flags[i] & LMDB_UNWRITTEN) != 0)
            continue;
        struct lmdb_edge *e = lmdb_edge_of(j, b);
        if (e == NULL) {
            uint64_t at = b * LMDB_BLOCK - j->offset;
            (void)lmdb_crc_check(j, c, b, lmdb_pieces_crc(j, at, LMDB_BLOCK));
        } else if (lmdb_edge_check(j, e)) {
            uint64_t at = b * LMDB_BLOCK + e->from - j->offset;
            lmdb_pieces_set(j, at, e->buffer + e->from, e->to - e->from);
        }
    }
    if (j->result >= 0)
        j->result = (int64_t)j->length;
}

void lmdb_read_start(struct lmdb_job *j)
{
    struct lmdb_run run = {0};
    uint64_t run_at = 0;
    j->next = lmdb_read_over;
    for (uint64_t b = j->first; b <= j->last && j->result >= 0; b++) {
        uint32_t from;
        uint32_t to;
        int whole = lmdb_job_part(j, b, &from, &to);
        uint64_t at = b * LMDB_BLOCK + from - j->offset;
        struct lmdb_chunk *c = lmdb_job_chunk(j, b);
        uint32_t i = (uint32_t)(b % LMDB_CHUNK);
        if (c == NULL)
            break;
        uint32_t block = (c->flags[i] & LMDB_UNWRITTEN) != 0 ? 0 : c->block[i];
        if (run.count > 0 && whole && block == run.block + run.count) {
            run.count++;
            continue;
        }
        if (run.count > 0)
            lmdb_io_run(j, 0, run.block, run.count, run_at);
        run.count = 0;
        if (block == 0) {
            lmdb_pieces_set(j, at, NULL, to - from);
        } else if (whole) {
            run = (struct lmdb_run){.block = block, .count = 1};
            run_at = at;
        } else {
            struct lmdb_edge *e = lmdb_edge_begin(j, b, from, to);
            if (e != NULL)
                lmdb_io_block(j, 0, block, e->buffer);
        }
    }
    if (run.count > 0)
        lmdb_io_run(j, 0, run.block, run.count, run_at);
}

/* ---- WRITE ---- */

uint64_t lmdb_overwrite(struct lmdb_job *j, uint32_t block)
{
    struct lmdb_kv *s = j->s;
    if (!j->overwrites) {
        j->overwrites = 1;
        s->overwrites++;
        s->overwrite_ns = snic_loop_now(s->kv.loop);
    }
    return s->mode == LMDB_SHARED ? lmdb_share_mark(s, block) : lmdb_space_mark(s, block);
}

/** The map as it is after the write; or, when it failed, as it was. */
static void lmdb_write_map(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    int fine = j->result >= 0;
    struct lmdb_chunk *c = NULL;
    int put = 0;
    struct lmdb_run fresh = {0};
    s->overwrites -= j->overwrites;
    for (uint32_t n = 0; n < j->plan_count; n++) {
        struct lmdb_plan *p = &j->plan[n];
        uint64_t b = j->first + n;
        uint32_t i = (uint32_t)(b % LMDB_CHUNK);
        if (!fine && p->is_new)
            lmdb_space_untake(s, p->block, 1);
        if (p->block == 0 || (!fine && (p->was != 2 || !j->sent)))
            continue;
        if (c == NULL || c->number != b / LMDB_CHUNK) {
            if (put)
                lmdb_chunk_put(s, c);
            put = 0;
            c = lmdb_job_chunk(j, b);
            if (c == NULL) { /* it existed when the write began: its state is unknown */
                lmdb_die(s, SNIC_EIO, 0);
                return;
            }
        }
        if (p->is_new) {
            if (fresh.count > 0 && fresh.block + fresh.count == p->block) {
                fresh.count++;
            } else {
                if (fresh.count > 0)
                    lmdb_space_use(s, fresh.block, fresh.count);
                fresh = (struct lmdb_run){.block = p->block, .count = 1};
            }
            c->block[i] = p->block;
            c->count++;
            j->allocated += LMDB_BLOCK;
        }
        put |= p->was != 2;
        c->crc[i] = p->crc;
        c->flags[i] = fine ? 0 : LMDB_NOCRC; /* after an error its bytes are undefined */
        lmdb_chunk_soften(s, c);
    }
    if (fresh.count > 0)
        lmdb_space_use(s, fresh.block, fresh.count);
    if (put) {
        lmdb_chunk_put(s, c);
        j->changed = 1;
    }
    if (fine)
        j->result = (int64_t)j->length;
    lmdb_job_settle(j);
}

static void lmdb_write_data(struct lmdb_job *j)
{
    struct lmdb_run run = {0};
    uint64_t run_at = 0;
    j->next = lmdb_write_map;
    j->sent = j->result >= 0;
    for (uint32_t n = 0; n < j->plan_count && j->result >= 0; n++) {
        struct lmdb_plan *p = &j->plan[n];
        uint64_t b = j->first + n;
        struct lmdb_edge *e = lmdb_edge_of(j, b);
        uint64_t at = e != NULL ? 0 : b * LMDB_BLOCK - j->offset;
        p->crc =
            e != NULL ? snic_crc32c(0, e->buffer, LMDB_BLOCK) : lmdb_pieces_crc(j, at, LMDB_BLOCK);
        if (e == NULL && run.count > 0 && p->block == run.block + run.count) {
            run.count++;
            continue;
        }
        if (run.count > 0)
            lmdb_io_run(j, 1, run.block, run.count, run_at);
        run.count = 0;
        if (e != NULL) {
            lmdb_io_block(j, 1, p->block, e->buffer);
        } else {
            run = (struct lmdb_run){.block = p->block, .count = 1};
            run_at = at;
        }
    }
    if (run.count > 0)
        lmdb_io_run(j, 1, run.block, run.count, run_at);
}

/** Edges are in memory; then the marks. */
static void lmdb_write_marks(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    uint64_t ticket = 0;
    j->next = lmdb_write_data;
    for (int i = 0; i < 2 && j->result >= 0; i++) {
        struct lmdb_edge *e = &j->edge[i];
        if (e->buffer == NULL)
            continue;
        const struct lmdb_plan *p = &j->plan[e->number - j->first];
        if (p->was == 2 && !lmdb_edge_check(j, e))
            break;
        lmdb_pieces_get(j, e->number * LMDB_BLOCK + e->from - j->offset, e->buffer + e->from,
                        e->to - e->from);
    }
    for (uint32_t n = 0; n < j->plan_count && j->result >= 0; n++) {
        const struct lmdb_plan *p = &j->plan[n];
        if (p->was != 0) /* unwritten: perhaps since a batch that is not durable */
            ticket = snic_max_u64(ticket, lmdb_overwrite(j, p->block));
    }
    if (ticket > s->durable_seq)
        lmdb_batch_wait_job(j, ticket);
}

/** Where block @p b is. 0 or an error in the job. */
static int lmdb_write_look(struct lmdb_job *j, uint64_t b, uint32_t *missing)
{
    struct lmdb_plan *p = &j->plan[b - j->first];
    struct lmdb_chunk *c = lmdb_job_chunk(j, b);
    if (c == NULL)
        return (int)j->result;
    uint32_t i = (uint32_t)(b % LMDB_CHUNK);
    *p = (struct lmdb_plan){.block = c->block[i]};
    p->was = p->block == 0 ? 0 : (c->flags[i] & LMDB_UNWRITTEN) != 0 ? 1 : 2;
    *missing += p->block == 0;
    uint32_t from;
    uint32_t to;
    if (lmdb_job_part(j, b, &from, &to))
        return 0;
    struct lmdb_edge *e = lmdb_edge_begin(j, b, from, to);
    if (e == NULL)
        return (int)j->result;
    if (p->was == 2)
        lmdb_io_block(j, 0, p->block, e->buffer);
    else
        memset(e->buffer, 0, LMDB_BLOCK);
    return 0;
}

/** Blocks for those of the plan that have none. */
void lmdb_write_take(struct lmdb_job *j, uint32_t missing)
{
    struct lmdb_kv *s = j->s;
    uint32_t hint = 0;
    uint64_t first = j->first;
    if (first > 0 && missing > 0) {
        struct lmdb_chunk *c = lmdb_job_chunk(j, first - 1);
        hint = c == NULL || c->block[(first - 1) % LMDB_CHUNK] == 0
                   ? 0
                   : c->block[(first - 1) % LMDB_CHUNK] + 1;
    }
    for (uint32_t n = 0; n < j->plan_count && missing > 0 && j->result >= 0;) {
        if (j->plan[n].block != 0) {
            hint = j->plan[n++].block + 1;
            continue;
        }
        uint32_t want = 1;
        while (n + want < j->plan_count && j->plan[n + want].block == 0)
            want++;
        uint32_t block = 0;
        uint32_t got = lmdb_space_take(s, want, hint, &block);
        if (got == 0)
            lmdb_job_fail(j, SNIC_ENOSPC, 0);
        for (uint32_t i = 0; i < got; i++, n++) {
            j->plan[n].block = block + i;
            j->plan[n].is_new = 1;
        }
        hint = block + got;
        missing -= got;
    }
}

static void lmdb_write_plan(struct lmdb_job *j)
{
    uint32_t missing = 0;
    j->next = lmdb_write_marks;
    j->plan_count = (uint32_t)(j->last - j->first + 1);
    SNIC_ASSERT(j->plan_count <= j->plan_room);
    memset(j->plan, 0, j->plan_count * sizeof(j->plan[0]));
    for (uint64_t b = j->first; b <= j->last; b++) {
        if (lmdb_write_look(j, b, &missing) != 0)
            return;
    }
    /* A write to blocks that have space only replaces records. */
    int r = lmdb_space_admit(j->s, missing == 0 ? 0 : 4096, (j->flags & SNIC_KVOP_RESERVE) != 0);
    if (r != 0)
        lmdb_job_fail(j, r, 0);
    else
        lmdb_write_take(j, missing);
}

void lmdb_write_start(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    j->next = lmdb_write_plan;
    if (s->mode == LMDB_SHARED)
        lmdb_share_reserve(j, (uint32_t)(j->last - j->first + 1));
    else if (lmdb_batch_crowded(s))
        lmdb_batch_wait_job(j, s->active->seq);
}

#endif /* SNIC_WITH_LMDB */
