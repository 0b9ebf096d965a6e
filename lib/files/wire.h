/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The messages of host and DPU over a channel, version 2: FORMAT.md.
 *
 * Nothing is trusted on either side; the decoders check what does not depend on state.
 */
#ifndef SNIC_FILES_WIRE_H
#define SNIC_FILES_WIRE_H

#include "snicstore/files.h"

#define SNIC_FILES__WIRE_VERSION 2 /* 2: tenants, credit */
#define SNIC_FILES__REQUEST_BYTES 128u
#define SNIC_FILES__RESPONSE_BYTES 64u
#define SNIC_FILES__TYPE_REQUEST 1u
#define SNIC_FILES__TYPE_RESPONSE 2u
#define SNIC_FILES__KEY_MAX 4096u
#define SNIC_FILES__ITEM_MAX 4096u

/* Operations beyond those of files.h; enum snic_filelib_op. */
#define SNIC_FILES__CACHE 40
#define SNIC_FILES__INVALIDATE 41
#define SNIC_FILES__INVALIDATE_ALL 42

/* Flags above those of files.h: a long request comes in parts. */
#define SNIC_FILES__MORE (1u << 14) /* others follow: `written` is not called yet     */
#define SNIC_FILES__CONT (1u << 15) /* not the first: `read` was called               */
#define SNIC_FILES__WIRE_FLAGS                                                                     \
    (SNIC_FILES_SYNC | SNIC_FILES_REPLACE | SNIC_FILES__MORE | SNIC_FILES__CONT)

struct files_wire_request {
    uint8_t op;
    uint8_t priority;
    uint16_t flags;
    uint64_t id;
    uint64_t file;
    uint64_t dir;
    uint64_t dir2;
    uint64_t offset;
    uint64_t length;
    uint64_t version;
    uint32_t name_size;
    uint32_t name2_size;
    uint32_t key_size;
    uint32_t item_size;
    uint32_t count;
    uint32_t tenant;       /* of those that the host may name */
    uint64_t whole_offset; /* of the request that this is a part of */
    uint64_t whole_length;
    uint8_t tag[SNIC_FILES_TAG_BYTES];
};

struct files_wire_response {
    uint8_t op;
    uint32_t kind;
    uint32_t credit; /* granted with this response; 0: no grant */
    uint64_t id;
    int64_t result;
    uint64_t file;
    uint64_t size;
    uint64_t allocated;
    uint64_t cursor;
};

static inline void files_wire_put_request(unsigned char *p, const struct files_wire_request *w)
{
    memset(p, 0, SNIC_FILES__REQUEST_BYTES);
    p[0] = SNIC_FILES__WIRE_VERSION;
    p[1] = w->op;
    p[2] = w->priority;
    snic_put_le16(p + 4, w->flags);
    snic_put_le64(p + 8, w->id);
    snic_put_le64(p + 16, w->file);
    snic_put_le64(p + 24, w->dir);
    snic_put_le64(p + 32, w->dir2);
    snic_put_le64(p + 40, w->offset);
    snic_put_le64(p + 48, w->length);
    snic_put_le64(p + 56, w->version);
    snic_put_le32(p + 64, w->name_size);
    snic_put_le32(p + 68, w->name2_size);
    snic_put_le32(p + 72, w->key_size);
    snic_put_le32(p + 76, w->item_size);
    snic_put_le32(p + 80, w->count);
    snic_put_le32(p + 84, w->tenant);
    snic_put_le64(p + 88, w->whole_offset);
    snic_put_le64(p + 96, w->whole_length);
    memcpy(p + 104, w->tag, SNIC_FILES_TAG_BYTES);
}

/* @return 0; SNIC_EPROTO another size or version, or unknown bits */
static inline int files_wire_get_request(struct files_wire_request *w, const unsigned char *p,
                                         uint32_t size)
{
    if (size != SNIC_FILES__REQUEST_BYTES || p[0] != SNIC_FILES__WIRE_VERSION)
        return SNIC_EPROTO;
    w->op = p[1];
    w->priority = p[2];
    w->flags = snic_get_le16(p + 4);
    w->id = snic_get_le64(p + 8);
    w->file = snic_get_le64(p + 16);
    w->dir = snic_get_le64(p + 24);
    w->dir2 = snic_get_le64(p + 32);
    w->offset = snic_get_le64(p + 40);
    w->length = snic_get_le64(p + 48);
    w->version = snic_get_le64(p + 56);
    w->name_size = snic_get_le32(p + 64);
    w->name2_size = snic_get_le32(p + 68);
    w->key_size = snic_get_le32(p + 72);
    w->item_size = snic_get_le32(p + 76);
    w->count = snic_get_le32(p + 80);
    w->tenant = snic_get_le32(p + 84);
    w->whole_offset = snic_get_le64(p + 88);
    w->whole_length = snic_get_le64(p + 96);
    memcpy(w->tag, p + 104, SNIC_FILES_TAG_BYTES);
    return (w->flags & ~SNIC_FILES__WIRE_FLAGS) == 0 ? 0 : SNIC_EPROTO;
}

static inline void files_wire_put_response(unsigned char *p, const struct files_wire_response *w)
{
    memset(p, 0, SNIC_FILES__RESPONSE_BYTES);
    p[0] = SNIC_FILES__WIRE_VERSION;
    p[1] = w->op;
    snic_put_le32(p + 4, w->kind);
    snic_put_le64(p + 8, w->id);
    snic_put_le64(p + 16, (uint64_t)w->result);
    snic_put_le64(p + 24, w->file);
    snic_put_le64(p + 32, w->size);
    snic_put_le64(p + 40, w->allocated);
    snic_put_le64(p + 48, w->cursor);
    snic_put_le32(p + 56, w->credit);
}

/* @return 0; SNIC_EPROTO another size or version */
static inline int files_wire_get_response(struct files_wire_response *w, const unsigned char *p,
                                          uint32_t size)
{
    if (size != SNIC_FILES__RESPONSE_BYTES || p[0] != SNIC_FILES__WIRE_VERSION)
        return SNIC_EPROTO;
    w->op = p[1];
    w->kind = snic_get_le32(p + 4);
    w->id = snic_get_le64(p + 8);
    w->result = (int64_t)snic_get_le64(p + 16);
    w->file = snic_get_le64(p + 24);
    w->size = snic_get_le64(p + 32);
    w->allocated = snic_get_le64(p + 40);
    w->cursor = snic_get_le64(p + 48);
    w->credit = snic_get_le32(p + 56);
    return 0;
}

#endif /* SNIC_FILES_WIRE_H */
