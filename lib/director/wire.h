/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What travels on the director's channel: FORMAT.md. Small things are collected into BATCH records;
 * what is longer than a batch goes in PIECE records of its own.
 *
 * seq is the director's token: the index of its slot, with the slot's generation above it.
 */
#ifndef SNIC_DIRECTOR_WIRE_H
#define SNIC_DIRECTOR_WIRE_H

#include "snicstore/director.h"

#define SNIC_DIRECTOR__VERSION 2
#define SNIC_DIRECTOR__BATCH 1 /* types of channel messages */
#define SNIC_DIRECTOR__PIECE 2
#define SNIC_DIRECTOR__STAGE 16384 /* most bytes of a batch */
#define SNIC_DIRECTOR__HEAD 32
#define SNIC_DIRECTOR__LONG_HEAD 48

enum director_wire_kind {
    DIRECTOR_MESSAGE = 1,
    DIRECTOR_CLOSED = 2,
    DIRECTOR_HELLO = 3,
    DIRECTOR_REPLY = 4,
    DIRECTOR_INVALIDATE = 5,
    DIRECTOR_CACHE = 6,
    DIRECTOR_CLEAR = 7,
    DIRECTOR_REFUSED = 8
};

/* What host and director do not agree on. */
enum director_field {
    DIRECTOR_FIELD_NONE = 0,
    DIRECTOR_FIELD_VERSION = 1,
    DIRECTOR_FIELD_KEY = 2,
    DIRECTOR_FIELD_ITEM = 3
};

struct director_refused {
    uint32_t field;
    uint32_t host;
    uint32_t director;
};

static inline const char *director_field_name(uint32_t field)
{
    return field == DIRECTOR_FIELD_KEY    ? "key_size"
           : field == DIRECTOR_FIELD_ITEM ? "item_size"
                                          : "version";
}

struct director_wire {
    uint64_t conn;
    uint64_t seq;
    uint64_t word;
    uint32_t size; /* bytes that follow */
    uint16_t kind;
    uint16_t flags;
    uint64_t offset; /* PIECE only */
    uint64_t total;
};

static inline void director_wire_put(void *to, const struct director_wire *w)
{
    unsigned char *p = to;
    snic_put_le64(p, w->conn);
    snic_put_le64(p + 8, w->seq);
    snic_put_le64(p + 16, w->word);
    snic_put_le32(p + 24, w->size);
    snic_put_le16(p + 28, w->kind);
    snic_put_le16(p + 30, w->flags);
}

static inline void director_wire_put_long(void *to, const struct director_wire *w)
{
    director_wire_put(to, w);
    snic_put_le64((unsigned char *)to + 32, w->offset);
    snic_put_le64((unsigned char *)to + 40, w->total);
}

static inline void director_wire_get(struct director_wire *w, const void *from)
{
    const unsigned char *p = from;
    w->conn = snic_get_le64(p);
    w->seq = snic_get_le64(p + 8);
    w->word = snic_get_le64(p + 16);
    w->size = snic_get_le32(p + 24);
    w->kind = snic_get_le16(p + 28);
    w->flags = snic_get_le16(p + 30);
    w->offset = 0;
    w->total = w->size;
}

static inline void director_wire_get_long(struct director_wire *w, const void *from)
{
    director_wire_get(w, from);
    w->offset = snic_get_le64((const unsigned char *)from + 32);
    w->total = snic_get_le64((const unsigned char *)from + 40);
}

/* ---- Collecting entries into a batch ---- */

struct director_stage {
    uint32_t used;
    uint32_t reserved;
    unsigned char bytes[SNIC_DIRECTOR__STAGE];
};

static inline uint32_t director_stage_need(uint64_t size)
{
    return (uint32_t)snic_align_up(SNIC_DIRECTOR__HEAD + size, 8);
}

/* Append a head and give back where its bytes go; the caller made sure that there is room. */
static inline unsigned char *director_stage_put(struct director_stage *s,
                                                const struct director_wire *w)
{
    unsigned char *p = s->bytes + s->used;
    uint32_t need = director_stage_need(w->size);
    SNIC_DASSERT(need <= SNIC_DIRECTOR__STAGE - s->used);
    snic_put_le64(p + need - 8, 0); /* the padding; an empty entry's head is written after it */
    director_wire_put(p, w);
    s->used += need;
    return p + SNIC_DIRECTOR__HEAD;
}

/*
 * The next entry of a batch at @at, copied out of memory that the other side may change. 1 an
 * entry, 0 the end, SNIC_EPROTO nonsense.
 */
static inline int director_stage_next(const unsigned char *batch, uint32_t size, uint32_t at,
                                      struct director_wire *w, uint32_t *next)
{
    if (at == size)
        return 0;
    if (size - at < SNIC_DIRECTOR__HEAD)
        return SNIC_EPROTO;
    director_wire_get(w, batch + at);
    if (w->size > SNIC_DIRECTOR__STAGE || director_stage_need(w->size) > size - at)
        return SNIC_EPROTO;
    *next = at + director_stage_need(w->size);
    return 1;
}

#endif /* SNIC_DIRECTOR_WIRE_H */
