/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ZERO, PUNCH, ALLOC, TRUNCATE; SEEK and STAT.
 *
 * Whole blocks change in the map only: zeroed ones become unwritten, punched ones are freed,
 * missing ones are taken. Of blocks at the ends of a range the part is overwritten with zeros, in
 * place, after all that completed before is durable: a file's bytes must not be lost while the
 * record that makes it shorter may still be lost. A part that is zeros already is not written. An
 * operation on many chunks yields between them, so that a large truncation delays no other request;
 * after a crash in its middle a part of it has happened.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

enum { LMDB_CHANGE_TURN = 64, LMDB_LOOK_TURN = 1024 }; /* chunks in one go */

/** The whole blocks of the job: [*from, *to). */
static void lmdb_change_whole(const struct lmdb_job *j, uint64_t *from, uint64_t *to)
{
    *from = snic_align_up(j->offset, LMDB_BLOCK) / LMDB_BLOCK;
    *to = (j->offset + j->length) / LMDB_BLOCK;
}

/* ---- Whole blocks ---- */

/** Free blocks [from, to) of the chunk. 1: it changed. */
static int lmdb_change_chunk(struct lmdb_job *j, struct lmdb_chunk *c, uint32_t from, uint32_t to)
{
    struct lmdb_kv *s = j->s;
    struct lmdb_run gone = {0};
    int changed = 0;
    for (uint32_t i = from; i < to; i++) {
        if (c->block[i] == 0)
            continue;
        if (gone.count > 0 && gone.block + gone.count != c->block[i]) {
            lmdb_space_free(s, gone.block, gone.count);
            gone.count = 0;
        }
        gone.block = gone.count == 0 ? c->block[i] : gone.block;
        gone.count++;
        c->block[i] = 0;
        c->flags[i] = 0;
        c->crc[i] = 0;
        c->count--;
        changed = 1;
        j->allocated -= LMDB_BLOCK;
    }
    if (gone.count > 0)
        lmdb_space_free(s, gone.block, gone.count);
    return changed;
}

static void lmdb_change_range(struct lmdb_job *j)
{
    uint64_t from;
    uint64_t to;
    lmdb_change_whole(j, &from, &to);
    for (uint32_t n = 0; n < LMDB_CHANGE_TURN; n++) {
        struct lmdb_key k = lmdb_key_pair('M', j->object, snic_max_u64(j->at, from) / LMDB_CHUNK);
        struct lmdb_value v;
        int r = j->at >= to || from >= to ? SNIC_ENOENT : lmdb_seek(j->s, &k, &v);
        uint64_t number = r == 0 && k.size == 17 ? snic_get_be64(k.bytes + 9) : 0;
        if (r == SNIC_ENOENT ||
            (r == 0 && (k.bytes[0] != 'M' || k.size != 17 ||
                        snic_get_be64(k.bytes + 1) != j->object || number * LMDB_CHUNK >= to))) {
            lmdb_job_settle(j);
            return;
        }
        struct lmdb_chunk *c = r == 0 ? lmdb_job_chunk(j, number * LMDB_CHUNK) : NULL;
        if (c == NULL) {
            lmdb_job_fail(j, r, 0);
            return;
        }
        uint64_t base = number * LMDB_CHUNK;
        uint32_t a = base < from ? (uint32_t)(from - base) : 0;
        uint32_t z = (uint32_t)snic_min_u64(to - base, LMDB_CHUNK);
        if (lmdb_change_chunk(j, c, a, z)) {
            lmdb_chunk_put(j->s, c);
            j->changed = 1;
        }
        j->at = base + LMDB_CHUNK;
    }
    j->next = lmdb_change_range;
    lmdb_job_yield(j);
}

/* ---- ALLOC, and ZERO, which takes space, too ---- */

/** An existing block: ZERO makes it unwritten, if the range has all of it. 1: it changed. */
static int lmdb_alloc_zero(const struct lmdb_job *j, struct lmdb_chunk *c, uint32_t i)
{
    uint64_t start = (c->number * LMDB_CHUNK + i) * LMDB_BLOCK;
    if (j->kind != SNIC_KVOP_OBJECT_ZERO || (c->flags[i] & LMDB_UNWRITTEN) != 0 ||
        start < j->offset || start + LMDB_BLOCK > j->offset + j->length)
        return 0;
    c->flags[i] = LMDB_UNWRITTEN;
    c->crc[i] = 0;
    return 1;
}

static void lmdb_alloc_chunk(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    uint64_t number = j->at / LMDB_CHUNK;
    struct lmdb_chunk *c = lmdb_job_chunk(j, j->at);
    uint32_t end = (uint32_t)snic_min_u64(j->last + 1 - number * LMDB_CHUNK, LMDB_CHUNK);
    uint32_t hint = j->hint;
    int put = 0;
    for (uint32_t i = (uint32_t)(j->at % LMDB_CHUNK); c != NULL && i < end;) {
        uint32_t want = 0;
        while (i + want < end && c->block[i + want] == 0)
            want++;
        if (want == 0) {
            put |= lmdb_alloc_zero(j, c, i);
            hint = c->block[i++] + 1;
            continue;
        }
        uint32_t block = 0;
        uint32_t got = lmdb_space_take(s, want, hint, &block);
        if (got == 0) {
            lmdb_job_fail(j, SNIC_ENOSPC, 0);
            break;
        }
        for (uint32_t n = 0; n < got; n++, i++) {
            c->block[i] = block + n;
            c->flags[i] = LMDB_UNWRITTEN;
        }
        c->count += got;
        lmdb_space_use(s, block, got);
        j->allocated += (int64_t)got * LMDB_BLOCK;
        hint = block + got;
        put = 1;
    }
    if (put) {
        lmdb_chunk_put(s, c);
        j->changed = 1;
    }
    j->hint = hint;
    j->at = (number + 1) * LMDB_CHUNK;
}

static void lmdb_alloc_range(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    for (uint32_t n = 0; n < LMDB_CHANGE_TURN && j->at <= j->last && j->result >= 0; n++) {
        lmdb_alloc_chunk(j);
        if (s->mode == LMDB_SHARED)
            break; /* the next chunk needs a reservation of its own */
    }
    if (j->at > j->last || j->result < 0) {
        lmdb_job_settle(j);
        return;
    }
    j->next = lmdb_alloc_range;
    lmdb_job_yield(j);
    if (s->mode == LMDB_SHARED)
        lmdb_share_reserve(j, LMDB_CHUNK);
}

/** Refuse a range that does not fit before any block is taken. */
static void lmdb_alloc_start(struct lmdb_job *j)
{
    uint64_t all;
    struct lmdb_kv *s = j->s;
    lmdb_space_bytes(s, &all, NULL);
    if (j->length > all) {
        lmdb_job_fail(j, SNIC_ENOSPC, 0);
        return;
    }
    j->at = j->first;
    j->next = lmdb_alloc_range;
    if (s->mode == LMDB_SHARED)
        lmdb_share_reserve(j, LMDB_CHUNK);
}

/* ---- Ends of a range ---- */

static void lmdb_ends_map(struct lmdb_job *j)
{
    j->s->overwrites -= j->overwrites;
    for (int i = 0; i < 2; i++) {
        struct lmdb_edge *e = &j->edge[i];
        struct lmdb_chunk *c = e->buffer == NULL || !j->sent ? NULL : lmdb_job_chunk(j, e->number);
        if (c == NULL)
            continue;
        uint32_t n = (uint32_t)(e->number % LMDB_CHUNK);
        c->crc[n] = j->result < 0 ? c->crc[n] : snic_crc32c(0, e->buffer, LMDB_BLOCK);
        c->flags[n] = j->result < 0 ? LMDB_NOCRC : 0;
        lmdb_chunk_soften(j->s, c);
    }
    j->at = 0;
    if (j->result >= 0)
        j->next = j->kind == SNIC_KVOP_OBJECT_ZERO ? lmdb_alloc_start : lmdb_change_range;
}

static void lmdb_ends_write(struct lmdb_job *j)
{
    j->next = lmdb_ends_map;
    j->sent = j->result >= 0;
    for (int i = 0; i < 2 && j->result >= 0; i++) {
        struct lmdb_edge *e = &j->edge[i];
        if (e->buffer != NULL)
            lmdb_io_block(j, 1, j->plan[i].block, e->buffer);
    }
}

/** 1: the part is zeros already: the usual end of a file's last block. */
static int lmdb_ends_zero(const struct lmdb_edge *e)
{
    const unsigned char *p = e->buffer + e->from;
    return p[0] == 0 && memcmp(p, p + 1, e->to - e->from - 1) == 0;
}

static void lmdb_ends_mark(struct lmdb_job *j)
{
    uint64_t ticket = 0;
    j->next = lmdb_ends_write;
    for (int i = 0; i < 2 && j->result >= 0; i++) {
        struct lmdb_edge *e = &j->edge[i];
        if (e->buffer == NULL || !lmdb_edge_check(j, e))
            continue;
        if (lmdb_ends_zero(e)) {
            lmdb_edge_free(j->s, e->buffer);
            e->buffer = NULL;
            continue;
        }
        memset(e->buffer + e->from, 0, e->to - e->from);
        ticket = snic_max_u64(ticket, lmdb_overwrite(j, j->plan[i].block));
        if (j->s->mode == LMDB_SOLE) /* shared: all that completed is durable */
            ticket = snic_max_u64(ticket, lmdb_ticket(j->s, 0));
    }
    if (j->result >= 0 && ticket > j->s->durable_seq)
        lmdb_batch_wait_job(j, ticket);
}

/** A part [from, to) of block @p b becomes zeros, if it has bytes. */
static void lmdb_ends_look(struct lmdb_job *j, uint64_t b, uint32_t from, uint32_t to)
{
    struct lmdb_chunk *c = lmdb_job_chunk(j, b);
    uint32_t i = (uint32_t)(b % LMDB_CHUNK);
    if (c == NULL || from >= to || c->block[i] == 0 || (c->flags[i] & LMDB_UNWRITTEN) != 0)
        return;
    struct lmdb_edge *e = lmdb_edge_begin(j, b, from, to);
    if (e == NULL)
        return;
    j->plan[e - j->edge].block = c->block[i];
    lmdb_io_block(j, 0, c->block[i], e->buffer);
}

void lmdb_change_start(struct lmdb_job *j)
{
    if (j->kind == SNIC_KVOP_OBJECT_ALLOC || j->kind == SNIC_KVOP_OBJECT_ZERO) {
        int r = lmdb_space_admit(j->s, 4096, (j->flags & SNIC_KVOP_RESERVE) != 0);
        if (r != 0) {
            lmdb_job_fail(j, r, 0);
            return;
        }
    }
    if (j->kind == SNIC_KVOP_OBJECT_ALLOC) {
        lmdb_alloc_start(j);
        return;
    }
    uint64_t end = j->offset + j->length;
    uint32_t head = (uint32_t)(j->offset % LMDB_BLOCK);
    uint32_t tail = (uint32_t)(end % LMDB_BLOCK);
    j->next = lmdb_ends_mark;
    if (head != 0)
        lmdb_ends_look(j, j->first, head, j->first == j->last && tail != 0 ? tail : LMDB_BLOCK);
    if (tail != 0 && (j->first != j->last || head == 0))
        lmdb_ends_look(j, j->last, 0, tail);
}

/* ---- SEEK, STAT ---- */

/** The next chunk record of the object from @p number on. 1, 0 none, or an error. */
static int lmdb_look_next(struct lmdb_job *j, uint64_t number, struct lmdb_chunk *c)
{
    struct lmdb_key k = lmdb_key_pair('M', j->object, number);
    struct lmdb_value v = {0};
    int r = lmdb_seek(j->s, &k, &v);
    if (r == SNIC_ENOENT ||
        (r == 0 && (k.bytes[0] != 'M' || k.size != 17 || snic_get_be64(k.bytes + 1) != j->object)))
        return 0;
    memset(c, 0, sizeof(*c));
    if (r == 0)
        r = lmdb_chunk_decode(c, &v, (uint64_t)j->s->segment_count * LMDB_SEGMENT);
    c->number = snic_get_be64(k.bytes + 9);
    return r == 0 ? 1 : r;
}

static int lmdb_look_data(const struct lmdb_chunk *c, uint64_t b)
{
    uint32_t i = (uint32_t)(b % LMDB_CHUNK);
    return c->block[i] != 0;
}

/** A match (space that was taken counts as data) in the chunk, or in the gap before it: 1 and the
 * job's result is set. */
static int lmdb_look_chunk(struct lmdb_job *j, const struct lmdb_chunk *c)
{
    int hole = (j->flags & SNIC_KVOP_SEEK_HOLE) != 0;
    uint64_t base = c->number * LMDB_CHUNK;
    if (base > j->at) {
        if (hole)
            return 1;
        j->at = base;
    }
    for (; j->at < base + LMDB_CHUNK; j->at++) {
        if (lmdb_look_data(c, j->at) != hole)
            return 1;
    }
    return 0;
}

static void lmdb_look_turn(struct lmdb_job *j)
{
    int stat = j->kind == SNIC_KVOP_OBJECT_STAT;
    struct lmdb_chunk c;
    for (uint32_t n = 0; n < LMDB_LOOK_TURN; n++) {
        int r = lmdb_look_next(j, j->at / LMDB_CHUNK, &c);
        if (r < 0) {
            lmdb_job_fail(j, r, 0);
            return;
        }
        if (stat && r == 1) {
            j->allocated += (int64_t)c.count * LMDB_BLOCK;
            j->at = (c.number + 1) * LMDB_CHUNK;
            continue;
        }
        if (stat)
            return;
        int found = r == 1 ? lmdb_look_chunk(j, &c) : (j->flags & SNIC_KVOP_SEEK_HOLE) != 0;
        if (found && j->at < SNIC_KVOP_OBJECT_MAX / LMDB_BLOCK)
            j->result = (int64_t)snic_max_u64(j->offset, j->at * LMDB_BLOCK);
        else if (found || r == 0)
            j->result = SNIC_ENOENT;
        if (found || r == 0)
            return;
    }
    j->next = lmdb_look_turn;
    lmdb_job_yield(j);
}

void lmdb_look_start(struct lmdb_job *j)
{
    j->at = j->kind == SNIC_KVOP_OBJECT_STAT ? 0 : j->first;
    j->next = lmdb_look_turn;
}

#endif /* SNIC_WITH_LMDB */
