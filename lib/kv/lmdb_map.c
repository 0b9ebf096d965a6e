/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The map of objects: where their blocks are, in chunks of 128.
 *
 * Record 'M' object chunk, see FORMAT.md: at most 1538 bytes, so LMDB keeps it inside a page. A
 * chunk without blocks has no record.
 *
 * In memory a chunk is equal to its record, except for checksums of blocks overwritten in place
 * (soft): those are put when the chunk leaves memory, and before marks are removed (S5).
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <stdlib.h>

enum { LMDB_MAP_ROOM = 2 + LMDB_CHUNK * 8 + LMDB_CHUNK * 4 };

static struct lmdb_chunk **lmdb_chunk_bucket(struct lmdb_kv *s, uint64_t object, uint64_t number)
{
    uint64_t h = (object * 0x9e3779b97f4a7c15ULL ^ number) * 0xff51afd7ed558ccdULL;
    return &s->chunks[h >> 40 & (LMDB_CHUNK_BUCKETS - 1)];
}

uint32_t lmdb_chunk_encode(const struct lmdb_chunk *c, unsigned char *out)
{
    uint32_t runs = 0;
    unsigned char *at = out + 2;
    for (uint32_t i = 0; i < LMDB_CHUNK;) {
        uint32_t n = 1;
        if (c->block[i] == 0) {
            i++;
            continue;
        }
        while (i + n < LMDB_CHUNK && c->block[i + n] == c->block[i] + n &&
               c->flags[i + n] == c->flags[i])
            n++;
        at[0] = (unsigned char)i;
        at[1] = (unsigned char)(n - 1);
        at[2] = c->flags[i];
        at[3] = 0;
        snic_put_le32(at + 4, c->block[i]);
        at += 8;
        runs++;
        i += n;
    }
    for (uint32_t i = 0; i < LMDB_CHUNK; i++) {
        if (c->block[i] != 0 && (c->flags[i] & LMDB_UNWRITTEN) == 0) {
            snic_put_le32(at, c->crc[i]);
            at += 4;
        }
    }
    snic_put_le16(out, (uint16_t)runs);
    return (uint32_t)(at - out);
}

int lmdb_chunk_decode(struct lmdb_chunk *c, const struct lmdb_value *v, uint64_t blocks)
{
    uint32_t runs = v->size < 2 ? UINT32_MAX : snic_get_le16(v->data);
    if (runs > LMDB_CHUNK || v->size < 2 + runs * 8)
        return SNIC_ECORRUPT;
    const unsigned char *at = v->data + 2;
    uint32_t next = 0;
    uint32_t written = 0;
    for (uint32_t r = 0; r < runs; r++, at += 8) {
        uint32_t first = at[0];
        uint32_t n = at[1] + 1U;
        uint32_t block = snic_get_le32(at + 4);
        if (first < next || first + n > LMDB_CHUNK || block == 0 || (uint64_t)block + n > blocks ||
            (at[2] & ~(LMDB_UNWRITTEN | LMDB_NOCRC)) != 0 || at[3] != 0)
            return SNIC_ECORRUPT;
        for (uint32_t i = 0; i < n; i++) {
            c->block[first + i] = block + i;
            c->flags[first + i] = at[2];
        }
        c->count += n;
        written += (at[2] & LMDB_UNWRITTEN) != 0 ? 0 : n;
        next = first + n;
    }
    if (v->size != 2 + runs * 8 + written * 4)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < LMDB_CHUNK; i++) {
        if (c->block[i] != 0 && (c->flags[i] & LMDB_UNWRITTEN) == 0) {
            c->crc[i] = snic_get_le32(at);
            at += 4;
        }
    }
    return 0;
}

static void lmdb_chunk_unlink(struct lmdb_kv *s, struct lmdb_chunk *c)
{
    struct lmdb_chunk **at = lmdb_chunk_bucket(s, c->object, c->number);
    while (*at != c)
        at = &(*at)->chain;
    *at = c->chain;
    snic_link_remove(&c->age);
    s->chunk_count--;
    free(c);
}

void lmdb_chunk_put(struct lmdb_kv *s, struct lmdb_chunk *c)
{
    unsigned char out[LMDB_MAP_ROOM];
    struct lmdb_key k = lmdb_key_pair('M', c->object, c->number);
    if (c->soft) {
        c->soft = 0;
        s->chunk_soft--;
    }
    s->active->names = 1;
    if (c->count == 0)
        lmdb_put(s, &k, NULL, 0);
    else
        lmdb_put(s, &k, out, lmdb_chunk_encode(c, out));
}

void lmdb_chunk_soften(struct lmdb_kv *s, struct lmdb_chunk *c)
{
    if (!c->soft && s->mode == LMDB_SOLE) {
        c->soft = 1;
        s->chunk_soft++;
    }
}

void lmdb_chunks_harden(struct lmdb_kv *s)
{
    for (struct snic_link *l = s->chunk_ages.next; l != &s->chunk_ages; l = l->next) {
        struct lmdb_chunk *c = SNIC_CONTAINER(l, struct lmdb_chunk, age);
        if (c->soft)
            lmdb_chunk_put(s, c);
    }
}

void lmdb_chunks_drop(struct lmdb_kv *s, uint32_t lock)
{
    struct snic_link *next;
    for (struct snic_link *l = s->chunk_ages.next; l != &s->chunk_ages; l = next) {
        struct lmdb_chunk *c = SNIC_CONTAINER(l, struct lmdb_chunk, age);
        next = l->next;
        if (lock == LMDB_LOCKS || lmdb_lock_number(c->object) == lock) {
            s->chunk_soft -= c->soft;
            lmdb_chunk_unlink(s, c);
        }
    }
}

/* Called between operations only: no job holds a chunk then. */
void lmdb_chunks_trim(struct lmdb_kv *s)
{
    while (s->chunk_count > LMDB_CHUNKS_MAX) {
        struct lmdb_chunk *c = SNIC_CONTAINER(s->chunk_ages.next, struct lmdb_chunk, age);
        if (c->soft)
            lmdb_chunk_put(s, c);
        lmdb_chunk_unlink(s, c);
    }
}

struct lmdb_chunk *lmdb_chunk_get(struct lmdb_kv *s, uint64_t object, uint64_t number, int *error)
{
    struct lmdb_chunk **bucket = lmdb_chunk_bucket(s, object, number);
    struct lmdb_chunk *c = *bucket;
    while (c != NULL && (c->object != object || c->number != number))
        c = c->chain;
    if (c != NULL) {
        if (s->chunk_ages.prev != &c->age) {
            snic_link_remove(&c->age);
            snic_link_append(&s->chunk_ages, &c->age);
        }
        return c;
    }
    struct lmdb_key k = lmdb_key_pair('M', object, number);
    struct lmdb_value v = {0};
    int r = lmdb_get(s, &k, &v);
    if (r != 0 && r != SNIC_ENOENT) {
        *error = r;
        return NULL;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        *error = SNIC_ENOMEM;
        return NULL;
    }
    if (r == 0 && lmdb_chunk_decode(c, &v, (uint64_t)s->segment_count * LMDB_SEGMENT) != 0) {
        free(c);
        *error = SNIC_ECORRUPT;
        return NULL;
    }
    c->object = object;
    c->number = number;
    c->chain = *bucket;
    *bucket = c;
    snic_link_append(&s->chunk_ages, &c->age);
    s->chunk_count++;
    if (s->chunk_count > LMDB_CHUNKS_MAX)
        lmdb_turn_soon(s); /* trims */
    return c;
}

#endif /* SNIC_WITH_LMDB */
