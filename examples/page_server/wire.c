/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "wire.h"

#include "page.h"

#include <string.h>

#define REQUEST_MAGIC 0x51475053u /* "SPGQ" */
#define REPLY_MAGIC 0x52475053u   /* "SPGR" */
#define SECTOR 512u               /* of remote-file requests */

/* Of all bytes but those of the checksum itself. */
static uint32_t wire_crc(const unsigned char *msg, size_t size)
{
    return snic_crc32c(snic_crc32c(0, msg, 16), msg + 20, size - 20);
}

static int wire_has_data(uint8_t op)
{
    return op == WIRE_LOG || op == WIRE_WRITE;
}

size_t wire_request_put(unsigned char *out, const struct wire_request *q)
{
    uint32_t data = wire_has_data(q->op) ? q->length : 0;

    memset(out, 0, WIRE_REQUEST);
    snic_put_le32(out, REQUEST_MAGIC);
    snic_put_le32(out + 4, WIRE_REQUEST + data);
    snic_put_le64(out + 8, q->id);
    out[20] = q->op;
    out[21] = q->flags;
    snic_put_le64(out + 24, q->page);
    snic_put_le64(out + 32, q->lsn);
    snic_put_le64(out + 40, q->previous);
    snic_put_le32(out + 48, q->offset);
    snic_put_le32(out + 52, q->length);
    snic_put_le32(out + 16, wire_crc(out, WIRE_REQUEST + data));
    return WIRE_REQUEST;
}

int64_t wire_request_frame(const unsigned char *data, size_t size)
{
    uint32_t n;

    if (size < 8)
        return 0;
    n = snic_get_le32(data + 4);
    if (snic_get_le32(data) != REQUEST_MAGIC || n < WIRE_REQUEST)
        return SNIC_EPROTO;
    if (n > WIRE_REQUEST + WIRE_DATA_MAX)
        return SNIC_EMSGSIZE;
    return size < n ? 0 : (int64_t)n;
}

/* Is it inside of what there is? */
static enum wire_status wire_request_judge(const struct wire_request *q,
                                           const struct wire_limits *l)
{
    uint64_t bytes = l->pages * l->page_bytes;

    switch (q->op) {
    case WIRE_STAT:
        return WIRE_OK;
    case WIRE_GET:
        if (l->remote)
            return WIRE_BAD;
        return q->page < l->pages ? WIRE_OK : WIRE_RANGE;
    case WIRE_LOG:
        if (l->remote || q->lsn <= q->previous || q->lsn > SNIC_OFFLOAD_VERSION_MAX)
            return WIRE_BAD;
        if (q->page >= l->pages || q->length == 0 || q->offset > l->page_bytes - PAGE_HEADER ||
            q->length > l->page_bytes - PAGE_HEADER - q->offset)
            return WIRE_RANGE;
        return WIRE_OK;
    case WIRE_READ:
    case WIRE_WRITE:
        if (!l->remote)
            return WIRE_BAD;
        if (q->length == 0 || q->length > l->page_bytes || q->page > bytes ||
            q->length > bytes - q->page || (q->page | q->length) % SECTOR != 0)
            return WIRE_RANGE;
        return WIRE_OK;
    default:
        return WIRE_BAD;
    }
}

enum wire_status wire_request_get(struct wire_request *q, const unsigned char *msg, size_t size,
                                  const struct wire_limits *limits)
{
    memset(q, 0, sizeof(*q));
    if (size < WIRE_REQUEST)
        return WIRE_BAD;
    q->id = snic_get_le64(msg + 8);
    q->op = msg[20];
    q->flags = msg[21];
    q->page = snic_get_le64(msg + 24);
    q->lsn = snic_get_le64(msg + 32);
    q->previous = snic_get_le64(msg + 40);
    q->offset = snic_get_le32(msg + 48);
    q->length = snic_get_le32(msg + 52);
    q->data = msg + WIRE_REQUEST;
    if (snic_get_le32(msg + 16) != wire_crc(msg, size) ||
        size - WIRE_REQUEST != (wire_has_data(q->op) ? q->length : 0) || msg[22] != 0 ||
        msg[23] != 0)
        return WIRE_BAD;
    return wire_request_judge(q, limits);
}

size_t wire_reply_put(unsigned char *out, const struct wire_reply *r)
{
    memset(out, 0, WIRE_REPLY);
    snic_put_le32(out, REPLY_MAGIC);
    snic_put_le32(out + 4, WIRE_REPLY + r->length);
    snic_put_le64(out + 8, r->id);
    snic_put_le16(out + 20, r->status);
    snic_put_le16(out + 22, r->flags);
    snic_put_le64(out + 24, r->page);
    snic_put_le64(out + 32, r->lsn);
    snic_put_le32(out + 40, r->length);
    snic_put_le32(out + 16, wire_crc(out, WIRE_REPLY));
    return WIRE_REPLY;
}

int64_t wire_reply_get(struct wire_reply *r, const unsigned char *data, size_t size)
{
    if (size < WIRE_REPLY)
        return 0;
    r->id = snic_get_le64(data + 8);
    r->status = snic_get_le16(data + 20);
    r->flags = snic_get_le16(data + 22);
    r->page = snic_get_le64(data + 24);
    r->lsn = snic_get_le64(data + 32);
    r->length = snic_get_le32(data + 40);
    if (snic_get_le32(data) != REPLY_MAGIC || r->length > WIRE_DATA_MAX ||
        snic_get_le32(data + 4) != WIRE_REPLY + r->length ||
        snic_get_le32(data + 16) != wire_crc(data, WIRE_REPLY))
        return SNIC_EPROTO;
    return size < WIRE_REPLY + r->length ? 0 : (int64_t)WIRE_REPLY + r->length;
}

const char *wire_status_text(uint16_t status)
{
    static const char *const texts[] = {"done",
                                        "malformed request",
                                        "page or byte out of range",
                                        "LSN not reached yet",
                                        "gap in the log",
                                        "busy",
                                        "the host role is not connected",
                                        "the host role died: outcome unknown",
                                        "corrupt page",
                                        "device error"};

    return status < SNIC_COUNTOF(texts) ? texts[status] : "unknown status";
}
