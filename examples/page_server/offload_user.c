/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "offload_user.h"

#include <string.h>

/* A read's notes for its reply, in snic_offload_read.context. */
struct ps_note {
    uint64_t id;
    uint64_t page;
    uint64_t lsn;
};

/* Of a message that the predicate has judged. */
#define MESSAGE_ID 8
#define MESSAGE_OP 20
#define MESSAGE_PAGE 24
#define MESSAGE_LSN 32
#define MESSAGE_LENGTH 52

/* ---- Messages ---- */

static int64_t ps_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    (void)state;
    return wire_request_frame(data, size);
}

static uint32_t ps_error_reply(const struct ps_offload *p, char *out, uint64_t id,
                               enum wire_status status)
{
    struct wire_reply r = {.id = id, .status = (uint16_t)status, .flags = p->flags};

    return (uint32_t)wire_reply_put((unsigned char *)out, &r);
}

static uint32_t ps_protocol_error(void *ctx, int error, const unsigned char *data, size_t size,
                                  char *out, uint32_t max)
{
    const struct ps_offload *p = ctx;

    (void)error;
    (void)data;
    (void)size;
    return max < WIRE_REPLY ? 0 : ps_error_reply(p, out, 0, WIRE_BAD);
}

/* The host had a message of which only the first bytes are kept: its outcome is unknown. */
static uint32_t ps_host_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                             uint32_t max)
{
    const struct ps_offload *p = ctx;

    if (max < WIRE_REPLY || msg == NULL || size < MESSAGE_ID + 8)
        return 0;
    return ps_error_reply(p, out, snic_get_le64(msg + MESSAGE_ID),
                          size < WIRE_REQUEST ? WIRE_LOST : WIRE_GONE);
}

/* The reply names no request: none was read. */
static uint32_t ps_full(void *ctx, char *out, uint32_t max)
{
    const struct ps_offload *p = ctx;

    return max < WIRE_REPLY ? 0 : ps_error_reply(p, out, 0, WIRE_BUSY);
}

/* ---- Predicate ---- */

static void ps_answer_stat(const struct ps_offload *p, uint64_t id,
                           struct snic_director_verdict *out)
{
    struct wire_reply r = {.id = id, .length = p->stat_size, .flags = p->flags};

    out->route = SNIC_DIRECTOR_ANSWER;
    out->reply_size = (uint32_t)wire_reply_put((unsigned char *)out->reply, &r);
    memcpy(out->reply + out->reply_size, p->stat, p->stat_size);
    out->reply_size += p->stat_size;
}

/* The key of a page's entry; a remote file has one entry, which identifies the file. */
static void ps_key(unsigned char key[8], uint8_t op, uint64_t page)
{
    snic_put_le64(key, op == WIRE_READ ? 0 : page);
}

static void ps_predicate(void *ctx, struct snic_offload *o, uint64_t *conn_user,
                         const unsigned char *msg, uint32_t size, struct snic_director_verdict *out)
{
    struct ps_offload *p = ctx;
    struct wire_request q;
    enum wire_status status = wire_request_get(&q, msg, size, &p->limits);
    unsigned char key[8];
    uint64_t lsn;

    (void)conn_user;
    if (status != WIRE_OK) {
        out->route = SNIC_DIRECTOR_ANSWER;
        out->reply_size = ps_error_reply(p, out->reply, q.id, status);
    } else if (q.op == WIRE_STAT && (q.flags & WIRE_OF_DPU) != 0) {
        ps_answer_stat(p, q.id, out);
    } else if (o != NULL && (q.op == WIRE_GET || q.op == WIRE_READ)) {
        ps_key(key, q.op, q.page);
        if (snic_offload_get(o, key, NULL, &lsn) == 0 && (q.op == WIRE_READ || lsn >= q.lsn))
            out->route = SNIC_DIRECTOR_DPU;
    }
}

/* ---- Offload function and reply ---- */

static int ps_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                   struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    const struct ps_offload *p = ctx;
    struct page_item item;
    struct ps_note note;
    unsigned char key[8];
    uint8_t op = msg->data[MESSAGE_OP];

    (void)reply;
    note.id = snic_get_le64(msg->data + MESSAGE_ID);
    note.page = snic_get_le64(msg->data + MESSAGE_PAGE);
    ps_key(key, op, note.page);
    if (snic_offload_get(o, key, &item, &note.lsn) != 0)
        return SNIC_ENOENT;
    out->file = item.file;
    if (op == WIRE_READ) {
        out->offset = note.page;
        out->size = snic_get_le32(msg->data + MESSAGE_LENGTH);
    } else if (note.lsn >= snic_get_le64(msg->data + MESSAGE_LSN)) {
        out->offset = item.offset;
        out->size = p->limits.page_bytes;
    } else {
        return SNIC_ENOENT;
    }
    memcpy(out->context, &note, sizeof(note));
    return 0;
}

static enum snic_offload_verdict ps_reply(void *ctx, const struct snic_offload_msg *msg,
                                          const struct snic_offload_read *op,
                                          const unsigned char *data, int64_t result,
                                          uint64_t now_ns, struct snic_offload_reply *out)
{
    const struct ps_offload *p = ctx;
    struct wire_reply r = {.status = WIRE_OK, .flags = p->flags};
    struct ps_note note;
    uint64_t lsn = 0;

    (void)msg;
    (void)now_ns;
    memcpy(&note, op->context, sizeof(note));
    if (result != op->size)
        return SNIC_OFFLOAD_HOST;
    /* Not a newer one either: its update may not have reached the cache yet, and then the next
       reader would get an older page than this one. */
    if (!p->limits.remote &&
        (page_check(data, p->limits.page_bytes, note.page, &lsn) != 0 || lsn != note.lsn))
        return SNIC_OFFLOAD_HOST;
    r.id = note.id;
    r.page = note.page;
    r.lsn = lsn;
    r.length = op->size;
    out->header_size = (uint32_t)wire_reply_put(out->header, &r);
    out->skip = 0;
    out->take = op->size;
    return SNIC_OFFLOAD_SEND;
}

/* ---- Cache-on-write ---- */

/* A page's new version is on the device; the tag has the page and LSN. */
static void ps_cache(void *ctx, struct snic_offload *o, const struct snic_files_hook_op *op)
{
    const struct ps_offload *p = ctx;
    uint64_t page = snic_get_le64(op->tag) - 1;
    struct page_item item = {op->file, op->offset};
    unsigned char key[8];

    if (page >= p->limits.pages || op->length != p->limits.page_bytes ||
        op->offset / p->limits.page_bytes / 2 != page || (op->flags & SNIC_FILES_SYNC) == 0)
        return;
    snic_put_le64(key, page);
    (void)snic_offload_put(o, key, &item, snic_get_le64(op->tag + 8)); /* refused: not offloaded */
}

struct snic_offload_user ps_offload_user(struct ps_offload *p)
{
    struct snic_offload_user u = {ps_func, ps_reply, ps_cache, NULL, p};

    return u;
}

struct snic_director_user ps_director_user(struct ps_offload *p)
{
    struct snic_director_user u = {
        .frame = ps_frame,
        .predicate = ps_predicate,
        .protocol_error = ps_protocol_error,
        .host_gone = ps_host_gone,
        .full = ps_full,
        .ctx = p,
    };

    return u;
}
