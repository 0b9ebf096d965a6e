/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The messages between the two halves: FORMAT.md.
 */
#ifndef SNIC_HCACHELINK_PRIV_H
#define SNIC_HCACHELINK_PRIV_H

#include "snicstore/hcachelink.h"

#include <string.h>

#define SNIC_HCACHELINK__MAGIC UINT32_C(0x31414348) /* "HCA1" */
#define SNIC_HCACHELINK__VERSION 3u
#define SNIC_HCACHELINK__BYTES 64u
#define SNIC_HCACHELINK__TASKS_MAX 64u
#define SNIC_HCACHELINK__TIME_MAX (UINT64_C(1) << 61) /* what is longer is for ever, too */
#define SNIC_HCACHELINK__LENGTH_MAX (UINT64_C(1) << 30)

SNIC_STATIC_ASSERT(SNIC_HCACHELINK__BYTES <= SNIC_DMA_MSG_MAX, "a message fits");
SNIC_STATIC_ASSERT(SNIC_HCACHELINK__TASKS_MAX <= SNIC_HCACHE_FSYNCS, "each task may be an fsync");

enum hcachelink_type {
    HCACHELINK_REGION = 1,
    HCACHELINK_READ = 2,
    HCACHELINK_FSYNC = 3,
    HCACHELINK_TRUNCATE = 4,
    HCACHELINK_END = 5,
    HCACHELINK_AHEAD = 6,
    HCACHELINK_DONE = 7,
    HCACHELINK_FAILED = 8,
    HCACHELINK_ALIVE = 9,
    HCACHELINK_MISSED = 10,
    HCACHELINK_REFUSED = 11
};

struct hcachelink_message {
    uint16_t type;
    int32_t result;
    uint64_t id;
    uint64_t ino;
    uint64_t a;
    uint64_t b;
    uint64_t c;
};

void hcachelink_encode(unsigned char out[SNIC_HCACHELINK__BYTES],
                       const struct hcachelink_message *m);
/* 0; SNIC_ENOENT not ours; SNIC_EVERSION; SNIC_EPROTO. */
int hcachelink_decode(struct hcachelink_message *m, const void *in, uint32_t size);

#endif /* SNIC_HCACHELINK_PRIV_H */
