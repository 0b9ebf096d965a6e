/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects in memory: chunks of 64 blocks in order. A block is taken or not, and has data or reads
 * as zeros. While changes can be undone (track), data is never written in place: the old block goes
 * to the undo log.
 */
#include <stdlib.h>

#include "kv/mem_priv.h"

static const uint64_t kv_mem_chunk_bytes = (uint64_t)KVMEM_CHUNK * SNIC_KVOP_BLOCK;

/* ---- Finding ---- */

struct kv_mem_object *kv_mem_object_find(const struct snic_kvmem *m, uint64_t name)
{
    struct snic_kvop_key key = {.group = name};
    struct kv_mem_record *r = kv_mem_find(m, &key);
    return r == NULL ? NULL : kv_mem_object_of(r);
}

/** The index of the first chunk with this number or above. */
static uint32_t kv_mem_chunk_lower(const struct kv_mem_object *o, uint64_t number)
{
    uint32_t low = 0;
    uint32_t high = o->count;
    if (high != 0 && o->chunks[high - 1]->number < number)
        return high; /* appending */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (o->chunks[mid]->number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct kv_mem_chunk *kv_mem_chunk_find(const struct kv_mem_object *o, uint64_t number)
{
    uint32_t at = o == NULL ? 0 : kv_mem_chunk_lower(o, number);
    return o != NULL && at < o->count && o->chunks[at]->number == number ? o->chunks[at] : NULL;
}

/** One after the other the chunks of a range, and which of their blocks are in it. */
struct kv_mem_walk {
    uint64_t next;   /* chunk number */
    uint64_t offset; /* the range */
    uint64_t end;
    uint64_t number;
    uint64_t blocks; /* bit: at least a part of the block is in the range */
};

static struct kv_mem_walk kv_mem_walk_begin(uint64_t offset, uint64_t length)
{
    return (struct kv_mem_walk){offset / kv_mem_chunk_bytes, offset, offset + length, 0, 0};
}

static int kv_mem_walk_next(struct kv_mem_walk *w)
{
    uint64_t base = w->next * kv_mem_chunk_bytes;
    if (base >= w->end)
        return 0;
    uint64_t from = w->offset > base ? (w->offset - base) / SNIC_KVOP_BLOCK : 0;
    uint64_t to =
        snic_min_u64((w->end - base + SNIC_KVOP_BLOCK - 1) / SNIC_KVOP_BLOCK, KVMEM_CHUNK);
    w->number = w->next++;
    w->blocks = UINT64_MAX << from;
    if (to < KVMEM_CHUNK)
        w->blocks &= (1ULL << to) - 1;
    return 1;
}

uint64_t kv_mem_missing(const struct snic_kvmem *m, uint64_t object, uint64_t offset,
                        uint64_t length)
{
    uint64_t first = offset / SNIC_KVOP_BLOCK;
    uint64_t count = (offset + length + SNIC_KVOP_BLOCK - 1) / SNIC_KVOP_BLOCK - first;
    const struct kv_mem_object *o = kv_mem_object_find(m, object);
    if (o == NULL)
        return count;
    struct kv_mem_walk w = kv_mem_walk_begin(offset, length);
    uint32_t at = kv_mem_chunk_lower(o, w.next);
    for (; at < o->count && o->chunks[at]->number * kv_mem_chunk_bytes < w.end; at++) {
        w.next = o->chunks[at]->number;
        if (kv_mem_walk_next(&w))
            count -= (uint64_t)__builtin_popcountll(o->chunks[at]->taken & w.blocks);
    }
    return count;
}

/* ---- Blocks ---- */

void kv_mem_block_put(struct snic_kvmem *m, unsigned char *data)
{
    if (data == NULL)
        return;
    memcpy(data, &m->blocks, sizeof(m->blocks));
    m->blocks = data;
    m->blocks_count++;
}

static unsigned char *kv_mem_block_get(struct snic_kvmem *m)
{
    unsigned char *data = m->blocks;
    SNIC_ASSERT(data != NULL); /* kv_mem_prepare() */
    memcpy(&m->blocks, data, sizeof(m->blocks));
    m->blocks_count--;
    return data;
}

static int kv_mem_blocks_reserve(struct snic_kvmem *m, uint64_t n)
{
    while (m->blocks_count < n) {
        unsigned char *data = malloc(SNIC_KVOP_BLOCK);
        if (data == NULL)
            return SNIC_ENOMEM;
        kv_mem_block_put(m, data);
    }
    return 0;
}

static uint32_t kv_mem_block_crc(const struct snic_kvmem *m, const unsigned char *data)
{
    if (data == NULL || (m->opts.caps & SNIC_KV_CAP_CHECKSUM) == 0)
        return 0;
    return snic_crc32c(0, data, SNIC_KVOP_BLOCK);
}

static int kv_mem_block_whole(const struct snic_kvmem *m, const struct kv_mem_chunk *c, uint32_t i)
{
    return kv_mem_block_crc(m, c->data[i]) == c->crc[i];
}

static void kv_mem_block_take(struct snic_kvmem *m, struct kv_mem_object *o, struct kv_mem_chunk *c,
                              uint32_t i, int taken)
{
    uint64_t bit = 1ULL << i;
    if (taken && (c->taken & bit) == 0) {
        o->blocks++;
        m->used += SNIC_KVOP_BLOCK;
    } else if (!taken && (c->taken & bit) != 0) {
        o->blocks--;
        m->used -= SNIC_KVOP_BLOCK;
    }
    c->taken = taken ? c->taken | bit : c->taken & ~bit;
}

/** Set a block to (taken, data); its old data goes to the undo log or is freed. */
static void kv_mem_block_change(struct snic_kvmem *m, struct kv_mem_object *o,
                                struct kv_mem_chunk *c, uint32_t i, int taken, unsigned char *data)
{
    unsigned char *old = c->data[i];
    if (m->opts.track) {
        SNIC_DASSERT(data == NULL || data != old);
        kv_mem_undo_block(m, o->record.key.group, c->number * KVMEM_CHUNK + i,
                          (c->taken >> i & 1) != 0, old, c->crc[i]);
    } else if (data != old) {
        kv_mem_block_put(m, old);
    }
    c->data[i] = data;
    c->crc[i] = kv_mem_block_crc(m, data);
    kv_mem_block_take(m, o, c, i, taken);
}

/** A copy to write into, or the block itself where changes are not undone. */
static unsigned char *kv_mem_block_open(struct snic_kvmem *m, const struct kv_mem_chunk *c,
                                        uint32_t i, int whole)
{
    const unsigned char *old = c->data[i];
    if (old != NULL && !m->opts.track)
        return c->data[i];
    unsigned char *data = kv_mem_block_get(m);
    if (!whole && old != NULL)
        memcpy(data, old, SNIC_KVOP_BLOCK);
    else if (!whole)
        memset(data, 0, SNIC_KVOP_BLOCK);
    return data;
}

int kv_mem_edges(const struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length,
                 uint64_t *bad)
{
    const struct kv_mem_object *o = kv_mem_object_find(m, object);
    uint64_t ends[2] = {offset, offset + length};
    for (int e = 0; e < 2 && o != NULL; e++) {
        uint64_t block = ends[e] / SNIC_KVOP_BLOCK;
        const struct kv_mem_chunk *c = kv_mem_chunk_find(o, block / KVMEM_CHUNK);
        if (ends[e] % SNIC_KVOP_BLOCK == 0 || c == NULL ||
            kv_mem_block_whole(m, c, block % KVMEM_CHUNK))
            continue;
        *bad = block * SNIC_KVOP_BLOCK;
        return SNIC_ECORRUPT;
    }
    return 0;
}

/* ---- Making and freeing ---- */

static struct kv_mem_object *kv_mem_object_make(struct snic_kvmem *m, uint64_t name)
{
    if (kv_mem_reserve(m, 1) != 0)
        return NULL;
    struct kv_mem_object *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return NULL;
    o->record.key.group = name;
    kv_mem_insert(m, &o->record);
    return o;
}

static struct kv_mem_chunk *kv_mem_chunk_make(struct kv_mem_object *o, uint64_t number)
{
    uint32_t at = kv_mem_chunk_lower(o, number);
    if (at < o->count && o->chunks[at]->number == number)
        return o->chunks[at];
    if (o->count == o->room) {
        uint32_t room = o->room == 0 ? 1 : o->room * 2;
        struct kv_mem_chunk **chunks = realloc(o->chunks, room * sizeof(chunks[0]));
        if (chunks == NULL)
            return NULL;
        o->chunks = chunks;
        o->room = room;
    }
    struct kv_mem_chunk *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->number = number;
    memmove(&o->chunks[at + 1], &o->chunks[at], (o->count - at) * sizeof(o->chunks[0]));
    o->chunks[at] = c;
    o->count++;
    return c;
}

/** Free chunks [from, to) without a taken block, and the object if it has no chunk left. */
static void kv_mem_object_trim(struct snic_kvmem *m, struct kv_mem_object *o, uint32_t from,
                               uint32_t to)
{
    uint32_t left = from;
    for (uint32_t i = from; i < o->count; i++) {
        if (i < to && o->chunks[i]->taken == 0)
            free(o->chunks[i]);
        else
            o->chunks[left++] = o->chunks[i];
    }
    o->count = left;
    if (left == 0) {
        kv_mem_remove(m, &o->record);
        kv_mem_object_free(m, o);
    }
}

void kv_mem_object_free(struct snic_kvmem *m, struct kv_mem_object *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        for (uint32_t b = 0; b < KVMEM_CHUNK; b++)
            kv_mem_block_put(m, o->chunks[i]->data[b]);
        free(o->chunks[i]);
    }
    free(o->chunks);
    free(o);
}

int kv_mem_prepare(struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length,
                   int data)
{
    uint64_t blocks = offset % SNIC_KVOP_BLOCK + length;
    blocks = (blocks + SNIC_KVOP_BLOCK - 1) / SNIC_KVOP_BLOCK;
    if (kv_mem_blocks_reserve(m, data ? blocks : 2) != 0 || kv_mem_undo_reserve(m, blocks) != 0)
        return SNIC_ENOMEM;
    struct kv_mem_object *o = kv_mem_object_find(m, object);
    if (o == NULL)
        o = kv_mem_object_make(m, object);
    if (o == NULL)
        return SNIC_ENOMEM;
    struct kv_mem_walk w = kv_mem_walk_begin(offset, length);
    while (kv_mem_walk_next(&w)) {
        if (kv_mem_chunk_make(o, w.number) == NULL) {
            kv_mem_object_trim(m, o, 0, o->count);
            return SNIC_ENOMEM;
        }
    }
    return 0;
}

/* ---- Changes ---- */

/** Source or destination of the bytes. */
struct kv_mem_cursor {
    const struct snic_iov *iov;
    size_t at;
};

/** Copy the next @p size bytes out of the pieces, or into them. */
static void kv_mem_cursor_copy(struct kv_mem_cursor *c, unsigned char *to,
                               const unsigned char *from, uint64_t size)
{
    while (size > 0) {
        size_t n = (size_t)snic_min_u64(size, c->iov->size - c->at);
        unsigned char *piece = (unsigned char *)c->iov->base + c->at;
        if (to != NULL) {
            memcpy(to, piece, n);
            to += n;
        } else if (from != NULL) {
            memcpy(piece, from, n);
            from += n;
        } else {
            memset(piece, 0, n);
        }
        size -= n;
        c->at += n;
        if (c->at == c->iov->size) {
            c->iov++;
            c->at = 0;
        }
    }
}

void kv_mem_write(struct snic_kvmem *m, uint64_t object, uint64_t offset,
                  const struct snic_iov *iov, uint64_t length, int inside)
{
    struct kv_mem_object *o = kv_mem_object_find(m, object);
    struct kv_mem_chunk *c = NULL;
    struct kv_mem_cursor cursor = {iov, 0};
    for (uint64_t at = offset, end = offset + length; at < end;) {
        uint64_t block = at / SNIC_KVOP_BLOCK;
        uint32_t i = (uint32_t)(block % KVMEM_CHUNK);
        uint64_t from = at % SNIC_KVOP_BLOCK;
        uint64_t size = snic_min_u64(SNIC_KVOP_BLOCK - from, end - at);
        if (c == NULL || c->number != block / KVMEM_CHUNK)
            c = kv_mem_chunk_find(o, block / KVMEM_CHUNK);
        SNIC_ASSERT(c != NULL); /* kv_mem_prepare() */
        if (!inside)
            kv_mem_change(m);
        unsigned char *data = kv_mem_block_open(m, c, i, size == SNIC_KVOP_BLOCK);
        kv_mem_cursor_copy(&cursor, data + from, NULL, size);
        kv_mem_block_change(m, o, c, i, 1, data);
        at += size;
    }
}

/** Zero the part of a block that the range covers. */
static void kv_mem_block_zero(struct snic_kvmem *m, struct kv_mem_object *o, struct kv_mem_chunk *c,
                              uint32_t i, uint64_t from, uint64_t to, int taken)
{
    int whole = to - from == SNIC_KVOP_BLOCK;
    if (whole || c->data[i] == NULL) {
        kv_mem_block_change(m, o, c, i, taken, NULL);
        return;
    }
    unsigned char *data = kv_mem_block_open(m, c, i, 0);
    memset(data + from, 0, to - from);
    kv_mem_block_change(m, o, c, i, 1, data);
}

/** Which bytes of a block are in the range. */
static void kv_mem_block_part(const struct kv_mem_walk *w, uint32_t i, uint64_t *from, uint64_t *to)
{
    uint64_t base = w->number * kv_mem_chunk_bytes + (uint64_t)i * SNIC_KVOP_BLOCK;
    *from = w->offset > base ? w->offset - base : 0;
    *to = snic_min_u64(w->end - base, SNIC_KVOP_BLOCK);
}

void kv_mem_take(struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length, int zero)
{
    struct kv_mem_object *o = kv_mem_object_find(m, object);
    struct kv_mem_walk w = kv_mem_walk_begin(offset, length);
    while (kv_mem_walk_next(&w)) {
        struct kv_mem_chunk *c = kv_mem_chunk_find(o, w.number);
        SNIC_ASSERT(c != NULL); /* kv_mem_prepare() */
        for (uint64_t bits = w.blocks; bits != 0; bits &= bits - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(bits);
            uint64_t from, to;
            kv_mem_block_part(&w, i, &from, &to);
            if (zero)
                kv_mem_block_zero(m, o, c, i, from, to, 1);
            else if ((c->taken >> i & 1) == 0)
                kv_mem_block_change(m, o, c, i, 1, NULL);
        }
    }
}

int kv_mem_punch(struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length)
{
    struct kv_mem_object *o = kv_mem_object_find(m, object);
    if (o == NULL)
        return 0;
    struct kv_mem_walk w = kv_mem_walk_begin(offset, length);
    uint32_t first = kv_mem_chunk_lower(o, w.next);
    if (kv_mem_blocks_reserve(m, 2) != 0 || kv_mem_undo_reserve(m, o->blocks) != 0)
        return SNIC_ENOMEM;
    uint32_t at = first;
    for (; at < o->count && o->chunks[at]->number * kv_mem_chunk_bytes < w.end; at++) {
        struct kv_mem_chunk *c = o->chunks[at];
        w.next = c->number;
        (void)kv_mem_walk_next(&w);
        for (uint64_t bits = w.blocks & c->taken; bits != 0; bits &= bits - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(bits);
            uint64_t from, to;
            kv_mem_block_part(&w, i, &from, &to);
            int whole = to - from == SNIC_KVOP_BLOCK;
            if (whole || c->data[i] != NULL)
                kv_mem_block_zero(m, o, c, i, from, to, !whole);
        }
    }
    kv_mem_object_trim(m, o, first, at);
    return 0;
}

int kv_mem_block_set(struct snic_kvmem *m, const struct kv_mem_undo *u)
{
    struct kv_mem_object *o = kv_mem_object_find(m, u->key.group);
    if (o == NULL)
        o = kv_mem_object_make(m, u->key.group);
    struct kv_mem_chunk *c = o == NULL ? NULL : kv_mem_chunk_make(o, u->block / KVMEM_CHUNK);
    if (c == NULL)
        return SNIC_ENOMEM;
    uint32_t i = (uint32_t)(u->block % KVMEM_CHUNK);
    kv_mem_block_put(m, c->data[i]);
    c->data[i] = u->data;
    c->crc[i] = u->crc;
    kv_mem_block_take(m, o, c, i, (int)u->taken);
    uint32_t at = kv_mem_chunk_lower(o, c->number);
    kv_mem_object_trim(m, o, at, at + 1);
    return 0;
}

/* ---- Reading ---- */

int kv_mem_read(const struct snic_kvmem *m, struct snic_kvop *op)
{
    const struct kv_mem_object *o = kv_mem_object_find(m, op->object);
    const struct kv_mem_chunk *c = NULL;
    uint64_t number = UINT64_MAX;
    struct kv_mem_cursor cursor = {op->iov, 0};
    for (uint64_t at = op->offset, end = op->offset + op->length; at < end;) {
        uint64_t block = at / SNIC_KVOP_BLOCK;
        uint32_t i = (uint32_t)(block % KVMEM_CHUNK);
        uint64_t from = at % SNIC_KVOP_BLOCK;
        uint64_t size = snic_min_u64(SNIC_KVOP_BLOCK - from, end - at);
        if (number != block / KVMEM_CHUNK) {
            number = block / KVMEM_CHUNK;
            c = kv_mem_chunk_find(o, number);
        }
        const unsigned char *data = c == NULL ? NULL : c->data[i];
        if (data != NULL && !kv_mem_block_whole(m, c, i)) {
            op->bad_offset = block * SNIC_KVOP_BLOCK;
            return SNIC_ECORRUPT;
        }
        kv_mem_cursor_copy(&cursor, NULL, data == NULL ? NULL : data + from, size);
        at += size;
    }
    return 0;
}

/** The first block at or behind @p block whose bit is set (taken) in its chunk; UINT64_MAX none. */
static uint64_t kv_mem_seek_data(const struct kv_mem_object *o, uint64_t block)
{
    uint32_t at = kv_mem_chunk_lower(o, block / KVMEM_CHUNK);
    for (; at < o->count; at++) {
        uint64_t bits = o->chunks[at]->taken;
        if (o->chunks[at]->number == block / KVMEM_CHUNK)
            bits &= UINT64_MAX << block % KVMEM_CHUNK;
        if (bits != 0)
            return o->chunks[at]->number * KVMEM_CHUNK + (uint64_t)__builtin_ctzll(bits);
    }
    return UINT64_MAX;
}

static uint64_t kv_mem_seek_hole(const struct kv_mem_object *o, uint64_t block)
{
    for (uint32_t at = kv_mem_chunk_lower(o, block / KVMEM_CHUNK);; at++) {
        const struct kv_mem_chunk *c = at < o->count ? o->chunks[at] : NULL;
        if (c == NULL || c->number != block / KVMEM_CHUNK)
            return block;
        uint64_t bits = ~c->taken & UINT64_MAX << block % KVMEM_CHUNK;
        if (bits != 0)
            return c->number * KVMEM_CHUNK + (uint64_t)__builtin_ctzll(bits);
        block = (c->number + 1) * KVMEM_CHUNK;
    }
}

int64_t kv_mem_seek(const struct snic_kvmem *m, uint64_t object, uint64_t offset, int hole)
{
    const struct kv_mem_object *o = kv_mem_object_find(m, object);
    uint64_t block = offset / SNIC_KVOP_BLOCK;
    uint64_t found = hole ? block : UINT64_MAX;
    if (o != NULL)
        found = hole ? kv_mem_seek_hole(o, block) : kv_mem_seek_data(o, block);
    if (found >= SNIC_KVOP_OBJECT_MAX / SNIC_KVOP_BLOCK)
        return SNIC_ENOENT;
    return (int64_t)snic_max_u64(offset, found * SNIC_KVOP_BLOCK);
}

int kv_mem_object_check(const struct snic_kvmem *m, const struct kv_mem_object *o)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        const struct kv_mem_chunk *c = o->chunks[i];
        if (c->taken == 0 || (i != 0 && o->chunks[i - 1]->number >= c->number))
            return SNIC_ECORRUPT;
        for (uint32_t b = 0; b < KVMEM_CHUNK; b++) {
            if (c->data[b] != NULL && (c->taken >> b & 1) == 0)
                return SNIC_ECORRUPT;
            if (!m->damaged && c->data[b] != NULL && !kv_mem_block_whole(m, c, b))
                return SNIC_ECORRUPT;
        }
        blocks += (uint64_t)__builtin_popcountll(c->taken);
    }
    return blocks == 0 || blocks != o->blocks ? SNIC_ECORRUPT : 0;
}
