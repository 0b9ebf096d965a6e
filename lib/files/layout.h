/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The image's numbers; FORMAT.md explains them.
 */
#ifndef SNIC_FILES_LAYOUT_H
#define SNIC_FILES_LAYOUT_H

#include "snicstore/base.h"

#define SNIC_FILES__VERSION 1u
#define SNIC_FILES__SUPER_MAGIC 0x53464e53u   /* "SNFS" */
#define SNIC_FILES__SLOT_MAGIC 0x48464e53u    /* "SNFH" */
#define SNIC_FILES__CHUNK_MAGIC 0x43464e53u   /* "SNFC" */
#define SNIC_FILES__JOURNAL_MAGIC 0x4a464e53u /* "SNFJ" */

#define SNIC_FILES__SUPER_BYTES 4096u
#define SNIC_FILES__COPY_OFFSET 16384u
#define SNIC_FILES__SLOTS_OFFSET 32768u
#define SNIC_FILES__CHUNK 16384u
#define SNIC_FILES__CHUNK_HEAD 32u
#define SNIC_FILES__CHUNK_ROOM (SNIC_FILES__CHUNK - SNIC_FILES__CHUNK_HEAD)
#define SNIC_FILES__NODE_BYTES 288u
#define SNIC_FILES__SEG_BYTES 16u
#define SNIC_FILES__NODES_PER_CHUNK (SNIC_FILES__CHUNK_ROOM / SNIC_FILES__NODE_BYTES)
#define SNIC_FILES__SEGS_PER_CHUNK (SNIC_FILES__CHUNK_ROOM / SNIC_FILES__SEG_BYTES)
/* An id is a generation that never comes again and the index of the node. */
#define SNIC_FILES__SLOT_BITS 24
#define SNIC_FILES__SLOT_MASK (((uint64_t)1 << SNIC_FILES__SLOT_BITS) - 1)
#define SNIC_FILES__GENERATION_MAX (UINT64_MAX >> SNIC_FILES__SLOT_BITS)

/* Superblock fields. */
#define SNIC_FILES__SB_IMAGE_ID 16
#define SNIC_FILES__SB_SIZE 24
#define SNIC_FILES__SB_SEGMENT 32
#define SNIC_FILES__SB_BLOCK 36
#define SNIC_FILES__SB_FILES 40
#define SNIC_FILES__SB_DIRS 44
#define SNIC_FILES__SB_SEGMENTS 48
#define SNIC_FILES__SB_SLOT_BYTES 56
#define SNIC_FILES__SB_JOURNAL_BYTES 64
#define SNIC_FILES__SB_DATA 72

/* Checkpoint slot header fields; the header is one block. */
#define SNIC_FILES__SH_GENERATION 16
#define SNIC_FILES__SH_CHUNKS 24
#define SNIC_FILES__SH_NEXT_ID 32
#define SNIC_FILES__SH_SEQ 40

/* Chunk head fields. */
#define SNIC_FILES__CH_GENERATION 16
#define SNIC_FILES__CH_INDEX 24

/* Node record fields; an id of 0 means free. */
#define SNIC_FILES__NR_ID 0
#define SNIC_FILES__NR_SIZE 8
#define SNIC_FILES__NR_PARENT 16
#define SNIC_FILES__NR_KIND 24
#define SNIC_FILES__NR_NAME_SIZE 25
#define SNIC_FILES__NR_NAME 32

/* Segment record fields; an id of 0 means free. */
#define SNIC_FILES__SR_ID 0
#define SNIC_FILES__SR_LOGICAL 8
#define SNIC_FILES__SR_INIT 12

/* Journal entry head; the entry is padded with zeros to whole blocks. */
#define SNIC_FILES__JE_GENERATION 16
#define SNIC_FILES__JE_SEQ 24
#define SNIC_FILES__JE_NEXT_ID 32
#define SNIC_FILES__JE_BYTES 40
#define SNIC_FILES__JE_RECORDS 44
#define SNIC_FILES__JE_HEAD 64u

/* Journal record: kind u8, 0 u8, bytes u16 (multiple of 8, head included), index u32, body.
 * A record does not cross a block, and no block of an entry but the first starts with
 * anything but a record: names cannot counterfeit an entry. */
#define SNIC_FILES__RECORD_HEAD 8u
enum files_record_kind {
    FILES_RECORD_PAD = 1,  /* to the end of the block                      */
    FILES_RECORD_NODE = 2, /* a node record, the name cut to its length    */
    FILES_RECORD_SEG = 3,  /* a segment record                             */
    FILES_RECORD_SIZE = 4, /* id u64, size u64                             */
    FILES_RECORD_TRUNC = 5 /* id u64, u32: segments from this one are free, u32 0 */
};

SNIC_STATIC_ASSERT(SNIC_FILES__NR_NAME + 256 == SNIC_FILES__NODE_BYTES, "a name and its zero");
SNIC_STATIC_ASSERT(SNIC_FILES__CHUNK_ROOM % SNIC_FILES__SEG_BYTES == 0, "segments fill a chunk");

#endif /* SNIC_FILES_LAYOUT_H */
