/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Bytes on a device of whole blocks: what is not aligned is read, changed and written back.
 * Meanwhile no other request writes those blocks: a write of other bytes of them would be lost.
 */
#ifndef SOLAR_VOLUME_BLOCK_H
#define SOLAR_VOLUME_BLOCK_H

#include "snicstore.h"

enum { BLOCK_BYTES = 4096 };

/** An op beside those of the io door: what each block of the segment at offset is, into edge. */
enum { BLOCK_STATES = 128, BLOCK_SEGMENT = SNIC_VOLUME_SEGMENT_BYTES };

struct block_req;
typedef void (*block_done_fn)(struct block_req *r, int result);

/** Zero it, fill the first part. Borrowed until done, which may come from inside submit. */
struct block_req {
    block_done_fn done;
    unsigned char *data; /**< READ: room for length + 2 * BLOCK_BYTES; WRITE: length */
    uint64_t offset;
    uint64_t length;
    uint8_t op; /**< enum snic_io_op, or BLOCK_STATES */
    uint8_t fua;
    /* -- results -- */
    unsigned char *bytes; /**< READ: where the bytes are, in data */
    /* -- block.c's -- */
    struct block_dev *dev;
    struct snic_link link;
    struct snic_node node;
    struct snic_io_req io;
    uint64_t first; /* blocks that are touched */
    uint64_t end;
    int partial;
    int step;
    unsigned char edge[BLOCK_BYTES]; /**< STATES: of each block enum snic_ebs_state */
};

struct block_dev {
    struct snic_io *io;
    struct snic_link writes;  /* under way */
    struct snic_link waiting; /* for one of them */
    struct snic_queue full;   /* for the device */
    uint32_t inside;
    int unaligned; /* how many were */
};

void block_init(struct block_dev *d, struct snic_io *io);
/** The range is within the device. */
void block_submit(struct block_dev *d, struct block_req *r);

#endif
