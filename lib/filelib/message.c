/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests into messages, responses into results. A long READ or WRITE is a sequence of parts:
 * private_[POS] bytes are done, one message is under way.
 */
#include "filelib/filelib_priv.h"

SNIC_STATIC_ASSERT((int)SNIC_FILELIB_CACHE == SNIC_FILES__CACHE, "wire format");
SNIC_STATIC_ASSERT((int)SNIC_FILELIB_INVALIDATE == SNIC_FILES__INVALIDATE, "wire format");
SNIC_STATIC_ASSERT((int)SNIC_FILELIB_INVALIDATE_ALL == SNIC_FILES__INVALIDATE_ALL, "wire format");

/* ---- The caller's memory ---- */

/* Copy `n` bytes at `pos` of the request's pieces to `out`, or from `in` into them. */
static void message_copy(const struct snic_filelib_req *r, uint64_t pos, unsigned char *out,
                         const unsigned char *in, size_t n)
{
    const struct snic_iov *v = r->iov != NULL ? r->iov : &r->buf;
    SNIC_ASSERT(pos <= r->length && n <= r->length - pos); /* message_pieces_check() */
    while (n > 0) {
        size_t k;
        if (pos >= v->size) {
            pos -= v->size;
            v++;
            continue;
        }
        k = v->size - (size_t)pos < n ? v->size - (size_t)pos : n;
        if (out != NULL) {
            memcpy(out, (unsigned char *)v->base + pos, k);
            out += k;
        } else {
            memcpy((unsigned char *)v->base + pos, in, k);
            in += k;
        }
        pos += k;
        n -= k;
    }
}

static int message_pieces_check(const struct snic_filelib_req *r)
{
    uint64_t sum = 0;
    uint32_t i;
    if (r->iov == NULL)
        return r->iov_count == 0 && r->buf.size >= r->length &&
                       (r->buf.base != NULL || r->length == 0)
                   ? 0
                   : SNIC_EINVAL;
    if (r->iov_count == 0 || r->iov_count > 65535)
        return SNIC_EINVAL;
    for (i = 0; i < r->iov_count; i++) {
        if (r->iov[i].size > r->length - sum || (r->iov[i].base == NULL && r->iov[i].size != 0))
            return SNIC_EINVAL;
        sum += r->iov[i].size;
    }
    return sum == r->length ? 0 : SNIC_EINVAL;
}

/* ---- Requests ---- */

static int message_keys_check(const struct snic_filelib *g, const struct snic_filelib_req *r)
{
    uint64_t each = (uint64_t)r->key_size + (r->op == SNIC_FILELIB_CACHE ? r->item_size : 0);
    if (r->key_size == 0 || r->key_size > SNIC_FILES__KEY_MAX ||
        r->item_size > SNIC_FILES__ITEM_MAX || (r->keys == NULL && r->count != 0))
        return SNIC_EINVAL;
    if (r->op == SNIC_FILELIB_CACHE && r->item_size != 0 && r->items == NULL && r->count != 0)
        return SNIC_EINVAL;
    return each * r->count > g->names_max ? SNIC_EMSGSIZE : 0;
}

static int message_names_check(const struct snic_filelib *g, const struct snic_filelib_req *r)
{
    if ((r->name == NULL && r->name_size != 0) || (r->name2 == NULL && r->name2_size != 0))
        return SNIC_EINVAL;
    if (r->name_size > SNIC_FILES_NAME_MAX || r->name2_size > SNIC_FILES_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    return r->name_size + r->name2_size > g->names_max ? SNIC_EMSGSIZE : 0;
}

/* What would be wrong with every message of this request. */
int filelib_request_check(const struct snic_filelib *g, const struct snic_filelib_req *r)
{
    int rc;
    if (r->tenant >= g->opts.tenants)
        return SNIC_EINVAL;
    if ((r->flags & ~(unsigned)(SNIC_FILES_SYNC | SNIC_FILES_REPLACE | SNIC_FILELIB_LEND)) != 0)
        return SNIC_EINVAL;
    if ((r->flags & SNIC_FILELIB_LEND) != 0) {
        if (r->op != SNIC_FILES_READ || r->done == NULL)
            return SNIC_EINVAL;
        return r->length > g->part_max ? SNIC_EMSGSIZE : 0;
    }
    switch (r->op) {
    case SNIC_FILES_READ:
    case SNIC_FILES_WRITE:
        rc = message_pieces_check(r);
        return rc == 0 && r->length > UINT64_MAX - r->offset ? SNIC_EINVAL : rc;
    case SNIC_FILES_LIST:
        return r->iov != NULL || r->buf.size < r->length || r->buf.base == NULL ? SNIC_EINVAL : 0;
    case SNIC_FILELIB_CACHE:
    case SNIC_FILELIB_INVALIDATE:
        return message_keys_check(g, r);
    default:
        return message_names_check(g, r);
    }
}

static void message_request(const struct snic_filelib *g, struct snic_filelib_req *r, uint64_t id,
                            struct files_wire_request *w)
{
    uint64_t pos = r->private_[FILELIB_POS];
    memset(w, 0, sizeof(*w));
    w->op = r->op;
    w->priority = r->priority;
    w->flags = r->flags & (uint16_t)(SNIC_FILES_SYNC | SNIC_FILES_REPLACE);
    w->id = id;
    w->file = r->file;
    w->dir = r->dir;
    w->dir2 = r->dir2;
    w->offset = r->offset;
    w->length = r->length;
    w->version = r->version;
    w->tenant = r->tenant;
    memcpy(w->tag, r->tag, sizeof(w->tag));
    if (r->op == SNIC_FILES_LIST)
        w->length = snic_min_u64(r->length, g->part_max);
    if (r->op != SNIC_FILES_READ && r->op != SNIC_FILES_WRITE)
        return;
    w->whole_offset = r->offset;
    w->whole_length = r->length;
    if (r->private_[FILELIB_PHASE] == FILELIB_PHASE_FSYNC) {
        w->op = SNIC_FILES_FSYNC;
        w->flags = 0;
        w->offset = 0;
        w->length = 0;
        return;
    }
    SNIC_ASSERT(pos <= r->length);
    w->offset += pos;
    w->length = snic_min_u64(r->length - pos, g->part_max);
    r->private_[FILELIB_PART] = w->length;
    if (pos != 0)
        w->flags |= SNIC_FILES__CONT;
    if (r->length > g->part_max && (w->flags & SNIC_FILES_SYNC) != 0) {
        /* The promise of a long SYNC write is the FSYNC behind its parts. */
        w->flags &= (uint16_t)~SNIC_FILES_SYNC;
        w->flags |= SNIC_FILES__MORE;
    }
    if (pos + w->length < r->length)
        w->flags |= SNIC_FILES__MORE;
}

static uint32_t message_payload(const struct snic_filelib_req *r, struct files_wire_request *w)
{
    switch (w->op) {
    case SNIC_FILES_WRITE:
        return (uint32_t)w->length;
    case SNIC_FILELIB_CACHE:
    case SNIC_FILELIB_INVALIDATE:
        w->key_size = r->key_size;
        w->item_size = w->op == SNIC_FILELIB_CACHE ? r->item_size : 0;
        w->count = r->count;
        return (w->key_size + w->item_size) * w->count;
    case SNIC_FILES_READ:
    case SNIC_FILES_LIST:
    case SNIC_FILES_FSYNC:
        return 0;
    default:
        w->name_size = r->name_size;
        w->name2_size = r->name2_size;
        return r->name_size + r->name2_size;
    }
}

static void message_put(unsigned char **p, const void *from, size_t n)
{
    if (n == 0)
        return; /* perhaps without payload: *p may be NULL */
    memcpy(*p, from, n);
    *p += n;
}

/* Reserve and write the request's next message; the caller commits. @return as up_reserve */
int filelib_request_write(struct snic_filelib *g, struct snic_channel_sender *s,
                          struct snic_filelib_req *r, uint64_t id)
{
    struct files_wire_request w;
    struct snic_channel_slot slot;
    unsigned char *p;
    uint32_t payload;
    int rc;
    message_request(g, r, id, &w);
    payload = message_payload(r, &w);
    rc = snic_channel_up_reserve(s, SNIC_FILES__TYPE_REQUEST, SNIC_FILES__REQUEST_BYTES, payload,
                                 &slot);
    if (rc != 0)
        return rc;
    files_wire_put_request(slot.header, &w);
    p = slot.payload;
    if (w.op == SNIC_FILES_WRITE) {
        message_copy(r, r->private_[FILELIB_POS], p, NULL, payload);
    } else if (w.op == SNIC_FILELIB_CACHE || w.op == SNIC_FILELIB_INVALIDATE) {
        message_put(&p, r->keys, (size_t)w.key_size * w.count);
        message_put(&p, r->items, (size_t)w.item_size * w.count);
    } else if (payload != 0) {
        message_put(&p, r->name, w.name_size);
        message_put(&p, r->name2, w.name2_size);
    }
    if (w.op != SNIC_FILES_WRITE && payload != 0)
        SNIC_ASSERT(p == (unsigned char *)slot.payload + payload);
    return 0;
}

/* ---- Responses ---- */

/* Does the response answer the message that is under way? */
static int message_answers(const struct snic_filelib *g, const struct snic_filelib_req *r,
                           const struct files_wire_response *w, uint32_t payload)
{
    uint64_t room = 0;
    int fsync = r->private_[FILELIB_PHASE] == FILELIB_PHASE_FSYNC;
    if (w->op != (fsync ? SNIC_FILES_FSYNC : r->op))
        return 0;
    if (w->result < 0)
        return payload == 0 && w->result >= -4096;
    if (w->op == SNIC_FILES_READ)
        room = r->private_[FILELIB_PART];
    else if (w->op == SNIC_FILES_LIST)
        room = snic_min_u64(r->length, g->part_max);
    else if (w->op == SNIC_FILES_WRITE)
        return payload == 0 && (uint64_t)w->result == r->private_[FILELIB_PART];
    else
        return payload == 0 && w->result == 0;
    return (uint64_t)w->result <= room && payload == (uint64_t)w->result;
}

/*
 * Take a response in. @return 1 the request has its result; 0 another part must be sent;
 * SNIC_EPROTO nonsense.
 */
int filelib_response_take(struct snic_filelib *g, struct snic_filelib_req *r,
                          const struct files_wire_response *w, const struct snic_channel_msg *m)
{
    uint64_t pos = r->private_[FILELIB_POS];
    if (!message_answers(g, r, w, m->payload_bytes))
        return SNIC_EPROTO;
    r->result = w->result;
    if (w->result < 0)
        return 1;
    r->id = w->file;
    r->size = w->size;
    r->allocated = w->allocated;
    r->cursor = w->cursor;
    r->kind = w->kind;
    if (r->op == SNIC_FILES_LIST)
        SNIC_ASSERT(m->payload_bytes <= r->buf.size); /* message_answers() */
    if (r->op == SNIC_FILES_LIST && m->payload_bytes != 0)
        memcpy(r->buf.base, m->payload, m->payload_bytes);
    if (r->op != SNIC_FILES_READ && r->op != SNIC_FILES_WRITE)
        return 1;
    if (r->private_[FILELIB_PHASE] == FILELIB_PHASE_FSYNC) {
        r->result = (int64_t)r->length;
        return 1;
    }
    if ((r->flags & SNIC_FILELIB_LEND) != 0) {
        r->data = m->payload;
    } else if (r->op == SNIC_FILES_READ) {
        message_copy(r, pos, NULL, m->payload, m->payload_bytes);
        g->stats.copied_bytes += m->payload_bytes;
    }
    pos += (uint64_t)w->result;
    r->private_[FILELIB_POS] = pos;
    r->result = (int64_t)pos;
    if ((uint64_t)w->result < r->private_[FILELIB_PART])
        return 1; /* the end of the file */
    if (pos < r->length)
        return 0;
    if (r->op == SNIC_FILES_WRITE && r->length > g->part_max && (r->flags & SNIC_FILES_SYNC) != 0) {
        r->private_[FILELIB_PHASE] = FILELIB_PHASE_FSYNC;
        return 0;
    }
    return 1;
}
