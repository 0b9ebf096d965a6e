/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/wire.h
 * The protocol: fixed little-endian headers, then bytes. A request has an id, which its reply
 * repeats; replies come in any order.
 *
 * Request                               Reply
 *    0  magic   4                          0  magic   4
 *    4  size    4  of all                  4  size    4  of all
 *    8  id      8                          8  id      8
 *   16  crc     4  of all but this        16  crc     4  of the header but this
 *   20  op 1, flags 1, zeros 2            20  status 2, flags 2
 *   24  page    8  or byte position       24  page    8
 *   32  lsn     8                         32  lsn     8
 *   40  previous 8                        40  length  4  of what follows
 *   48  offset 4, length 4                44  zeros   4
 *   56  data                              48  data
 *
 * A page bears a checksum of its own (page.h), so a reply's covers its header only.
 */
#ifndef PS_WIRE_H
#define PS_WIRE_H

#include "snicstore.h"

#define WIRE_REQUEST 56u
#define WIRE_REPLY 48u
/** Most bytes behind a header, and so the largest page. */
#define WIRE_DATA_MAX (64u << 10)

enum wire_op {
    WIRE_STAT = 1, /**< -> name=value lines of the host, or of the DPU with WIRE_OF_DPU          */
    WIRE_GET = 2,  /**< page, lsn -> the page at that LSN or a later one                         */
    WIRE_LOG = 3,  /**< page, lsn, previous, offset, length, data: an update, acknowledged when
                        durable; one of a page at a time                                         */
    WIRE_READ = 4, /**< page (byte position), length -> bytes; in remote-file mode only           */
    WIRE_WRITE = 5 /**< page (byte position), length, data; in remote-file mode only              */
};

/** Flag of a STAT request. */
#define WIRE_OF_DPU 1u
/** Flag of a reply: the DPU role answered alone. */
#define WIRE_BY_DPU 1u

enum wire_status {
    WIRE_OK = 0,
    WIRE_BAD = 1,     /**< malformed, wrong checksum, or not an operation of this mode          */
    WIRE_RANGE = 2,   /**< no such page, or bytes outside of it                                 */
    WIRE_AHEAD = 3,   /**< GET: no update of the page with such an LSN has arrived              */
    WIRE_GAP = 4,     /**< LOG: `previous` is not the newest LSN of the page                    */
    WIRE_BUSY = 5,    /**< no room: try again                                                   */
    WIRE_GONE = 6,    /**< the host role is not there: try again                                */
    WIRE_LOST = 7,    /**< the host role died meanwhile: done or not done                       */
    WIRE_DAMAGED = 8, /**< GET, LOG: the newest version of the page cannot be read. A LOG of all
                           its bytes, with a larger LSN than the page had and any `previous`,
                           mends it; a restart may                                            */
    WIRE_FAILED = 9   /**< the device failed                                                    */
};

struct wire_request {
    uint64_t id;
    uint64_t page;
    uint64_t lsn;
    uint64_t previous;
    uint32_t offset;
    uint32_t length;
    uint8_t op;
    uint8_t flags;
    const unsigned char *data; /**< of LOG and WRITE, length bytes                            */
};

struct wire_reply {
    uint64_t id;
    uint64_t page;
    uint64_t lsn;
    uint32_t length; /**< bytes that follow the header                                        */
    uint16_t status; /**< enum wire_status                                                    */
    uint16_t flags;
};

/** What a server takes. */
struct wire_limits {
    uint64_t pages;
    uint32_t page_bytes;
    int remote; /**< READ and WRITE instead of GET and LOG                                     */
};

/** Write the header, over @p data as well. @return bytes of header: WIRE_REQUEST */
size_t wire_request_put(unsigned char *out, const struct wire_request *q);
/** Whole size of the message that begins here; 0: more bytes are needed; SNIC_EPROTO, SNIC_EMSGSIZE
 */
int64_t wire_request_frame(const unsigned char *data, size_t size);
/**
 * Take one framed message apart and judge it. Nothing in it is trusted.
 * @return a wire_status; id and page are set where there are bytes for them
 */
enum wire_status wire_request_get(struct wire_request *q, const unsigned char *msg, size_t size,
                                  const struct wire_limits *limits);

/** @return WIRE_REPLY */
size_t wire_reply_put(unsigned char *out, const struct wire_reply *r);
/** @return whole size; 0: more bytes are needed; SNIC_EPROTO */
int64_t wire_reply_get(struct wire_reply *r, const unsigned char *data, size_t size);

const char *wire_status_text(uint16_t status);

#endif
