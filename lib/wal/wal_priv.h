/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The log's inside: what is on the device, and the state that its files share.
 *
 * FORMAT.md has the device: superblocks, the membership file twice, segments that form a circle.
 * A segment's use is its generation: 1, 2, 3, ...; generation g is in segment g % segments. A block
 * begins with a head that names its place and use, and has a checksum of its own. Records lie in
 * the blocks' payloads one after the other, across blocks, not across batches. A batch is what one
 * write carries: blocks of one segment, never written again before the segment is.
 *
 * Invariants
 * W1  One batch is under way at a time, and it is durable before the next one begins: a batch that
 *     is there proves all before it.
 * W2  Generations oldest ... next.gen are in use. A segment is used again only when the head of a
 *     durable batch declares it no longer needed (`announced`).
 * W3  A compacted segment is freed when all that had been appended at the end of its reading is
 *     durable: its copies, and what made the other records needless.
 * W4  Positions have no holes: last_seq is the last one given; each batch names the last one before
 *     it (`base`).
 * W5  What the owner appends leaves SNIC_WAL__RESERVE segments (TOMBSTONE) or `reserve` (others),
 *     so that the copies of one segment and the blocks that announce always find room.
 * W6  Callbacks come from wal_message(), wal_timer() and wal_op_done() only.
 */
#ifndef SNIC_WAL_PRIV_H
#define SNIC_WAL_PRIV_H

#include "snicstore/wal.h"

#define SNIC_WAL__VERSION 1u
#define SNIC_WAL__BLOCK_HEAD 48u
#define SNIC_WAL__RECORD_HEAD 72u
#define SNIC_WAL__SUPER_BYTES 4096u
#define SNIC_WAL__META_HEAD 64u
#define SNIC_WAL__UNITS 8u       /* in front of the segments */
#define SNIC_WAL__UNIT_SUPER_B 5 /* of the second superblock */
#define SNIC_WAL__SEGMENTS_MIN 8u
#define SNIC_WAL__RECORDS_MIN 3u /* of the longest, that a segment has room for */
#define SNIC_WAL__RESERVE 2u     /* segments that are compaction's alone */
#define SNIC_WAL__BATCH_BLOCKS_MIN 16u
#define SNIC_WAL__BATCHES_MAX 64u
#define SNIC_WAL__GENERATION_MAX ((uint64_t)1 << 60)
#define SNIC_WAL__BLANK_BYTES (128u << 10) /* what is looked at to call a device blank */
#define SNIC_WAL__PACE 4u                  /* bytes compacted for each byte appended */
#define SNIC_WAL__PIECE (256u << 10)       /* bytes read and looked through in one step */
#define SNIC_WAL__FLAGS (SNIC_WAL_CREATE | SNIC_WAL_FORMAT | SNIC_WAL_NO_FUA | SNIC_WAL_REPEAT)
#define SNIC_WAL__RETRY_NS 200000000u /* a write that found no space is repeated */

/* ---- What is on the device ---- */

/** A log's sizes: the superblock. */
struct wal_geo {
    uint32_t block;
    uint32_t segment;
    uint32_t segments;
    uint32_t record_max;
    uint32_t batch_blocks; /* of the largest batch */
    /* what follows from them */
    uint32_t seed; /* of every checksum: from the uuid */
    uint32_t unit;
    uint32_t segment_blocks;
    uint32_t payload;     /* of a block */
    uint32_t copy_blocks; /* that copies of a full segment may take */
    uint64_t uuid[2];
};

/** A block's head. */
struct wal_block {
    uint32_t used; /* bytes of payload */
    uint32_t index;
    uint32_t batch_first; /* blocks [batch_first, batch_end) are one batch */
    uint32_t batch_end;
    uint32_t first; /* where in the block the first record begins, 0: none does */
    uint64_t generation;
    uint64_t oldest; /* generation that is still needed */
    uint64_t base;   /* the last position before the batch */
};

enum wal_block_kind { WAL_BLOCK_LIVE, WAL_BLOCK_ZERO, WAL_BLOCK_STALE, WAL_BLOCK_BAD };

/** A record as it was read. */
struct wal_record {
    struct snic_wal_record r;
    uint32_t crc;
    uint32_t prev;   /* crc of the record before */
    uint64_t origin; /* position that compaction copied it from, 0: the owner's */
};

struct wal_place {
    uint64_t gen;
    uint32_t block;
};

/** Takes records out of the blocks of one generation, in order. */
struct wal_reader {
    unsigned char *memory; /* a record's head and bytes */
    const unsigned char *block;
    uint64_t gen;
    uint32_t at; /* in the block */
    uint32_t end;
    uint32_t have;  /* bytes of the record under way */
    uint32_t batch; /* that it is in */
};

/* ---- State ---- */

struct snic_wal;
typedef void (*wal_then_fn)(struct snic_wal *w);

enum wal_op_state { WAL_OP_IDLE, WAL_OP_READY, WAL_OP_OUT };

/** One request at a time, repeated until all of it is transferred. */
struct wal_op {
    struct snic_io_req req;
    struct snic_wal *w;
    wal_then_fn then; /* when all is transferred */
    unsigned char *bytes;
    uint64_t offset;
    uint64_t length;
    uint64_t done;
    uint32_t state;
    uint32_t flags;
    uint32_t starved; /* it found no space, and has not been repeated with success */
};

/** @invariant blocks >= 1; the last block is being filled and `at` is where. */
struct wal_batch {
    unsigned char *bytes;
    uint64_t gen;
    uint64_t base;
    uint64_t last;   /* position */
    uint64_t oldest; /* in its heads, once closed */
    uint32_t first;  /* block */
    uint32_t blocks;
    uint32_t at;
    uint32_t closed;
    uint32_t urgent;
    uint32_t owned; /* there are records of the owner's in it */
};

/** A write found no space beneath the device: it waits for its time, then it is repeated. */
enum wal_starved { WAL_STARVED_NOT = 0, WAL_STARVED_REPEATS, WAL_STARVED_WAITS };

enum wal_phase { WAL_OPENING, WAL_OPEN, WAL_DEAD };

enum wal_class { WAL_CLASS_COPY, WAL_CLASS_TOMBSTONE, WAL_CLASS_NORMAL };

enum wal_compact_state {
    WAL_COMPACT_IDLE,
    WAL_COMPACT_READ,  /* blocks of the segment, or the first of the next one, are on the way */
    WAL_COMPACT_PARSE, /* they are here */
    WAL_COMPACT_WAIT   /* W3 */
};

struct wal_compact {
    uint32_t state;
    uint32_t block;   /* of the segment: the next one to read, or the chunk's first */
    uint32_t chunk;   /* blocks in the read buffer */
    uint32_t in;      /* of these: the one under way */
    uint32_t begun;   /* that one was passed to the reader */
    uint32_t pending; /* `rec` is complete, and not yet copied */
    uint32_t next;    /* what is read is the next segment's first block */
    uint32_t known;   /* `last` is */
    uint64_t bytes;   /* of records read */
    uint64_t last;    /* position read last */
    uint64_t mark;    /* W3 */
    uint64_t copied;  /* positions up to here were copied before the log was opened */
    /* a cycle: all that was there when it began is looked at once */
    uint32_t cycling;
    uint32_t full;
    uint32_t hope; /* something changed since `full` */
    uint64_t paid; /* bytes that appends have paid for */
    uint64_t cycle_end;
    uint64_t cycle_space;
    uint64_t cycle_appended;
    struct wal_record rec;
};

/** Recovery's state, in order: superblocks, membership file, tail, records. */
struct wal_recover {
    struct wal_geo want; /* format: what the options ask for */
    uint64_t at;         /* byte or segment */
    uint64_t end;
    uint32_t probe;
    uint32_t blank;
    uint32_t probe_bad[2]; /* superblocks to be written again */
    int32_t super_error;   /* of those that were read and are not good */
    int32_t super_found;
    unsigned char super[SNIC_WAL__SUPER_BYTES];
    /* the tail: what a look through one segment finds */
    uint64_t gen_max;
    uint64_t gen;
    uint32_t block;
    uint32_t chunk;
    uint32_t live;
    uint32_t bad_at; /* the first bad one after the last live one */
    uint32_t scans;
    struct wal_block last;
    /* what was found */
    uint64_t tail_gen; /* 0: nothing */
    uint64_t oldest;
    uint32_t tail_bad;      /* the first bad block behind the last live one, or UINT32_MAX */
    uint32_t tail_bad_next; /* the first of the segment behind */
    struct wal_block tail;  /* the last live one */
    /* records */
    uint32_t started;
    uint32_t beheaded; /* the first segment's beginning is missing, and no record was found yet */
    uint32_t crc_known;
    uint32_t torn; /* the last batch is there in part, up to `place` */
    uint32_t batch;
    struct wal_place place;
    uint64_t batch_gen;
    uint64_t copied;
};

/** What the side request is wanted for; one of them at a time. */
enum wal_job_state { WAL_JOB_NONE, WAL_JOB_WAITS, WAL_JOB_RUNS };

struct wal_meta {
    unsigned char *slot; /* two units: a place as it is written and read */
    unsigned char *file; /* what meta_get gives */
    uint32_t length;
    uint32_t state; /* as in the report */
    uint64_t version;
    uint32_t put; /* enum wal_job_state */
    uint32_t place;
    uint32_t good[2]; /* places that hold `version` */
    uint32_t bad[2];  /* places that hold neither a file nor nothing */
    uint32_t put_length;
    wal_then_fn then;
};

struct snic_wal {
    struct snic_io *io;
    struct snic_loop *loop;
    struct snic_wal_opts opts;
    struct snic_wal_events events;
    void *ctx;
    void *mem;
    struct wal_geo geo;
    uint32_t phase;
    uint32_t closing;
    uint32_t writable;
    uint32_t erase; /* enum wal_job_state: the tail is being cut off */
    uint32_t message_on;
    uint32_t fua;
    uint32_t starved;  /* enum wal_starved */
    const char *doing; /* while opening: what an I/O error means */
    struct snic_timer retry;
    struct snic_loop_msg message;
    struct snic_timer timer;
    uint64_t tolerant;          /* gaps were accepted up to this generation */
    struct snic_io_waiter room; /* on the device, for an operation that is READY */
    uint64_t window_ns;         /* when what is BACKGROUND has to go */
    struct wal_op write;
    struct wal_op read;
    struct wal_op side; /* membership file, format, truncation */
    /* appends */
    struct wal_batch batch[SNIC_WAL__BATCHES_MAX];
    uint32_t batch_head;
    uint32_t batch_count; /* the last one may be open */
    uint32_t flushing;    /* of the first batch: it is written */
    uint32_t buffer_bytes;
    struct wal_place next; /* of the batch after the last */
    uint64_t last_seq;
    uint64_t durable_seq;
    uint64_t durable_gen;
    uint64_t flush_seq; /* what has to go without waiting */
    uint32_t last_crc;
    uint32_t refusal; /* SNIC_EAGAIN or SNIC_ENOSPC, negated, of the last append; 0: none pending */
    uint32_t refused_length;
    uint32_t refused_class;
    uint64_t tail_bytes; /* of records in the segment that is being written */
    uint64_t growth;     /* blocks, of the others: W5 */
    uint64_t oldest;
    uint64_t announcing; /* `oldest` of the last closed batch */
    uint64_t announced;
    unsigned char *chunk; /* read buffer */
    uint32_t chunk_bytes;
    struct wal_reader reader;
    struct wal_compact compact;
    struct wal_recover recover;
    struct wal_meta meta;
    struct snic_wal_report report;
    struct snic_wal_info info;
};

/* layout.c: bytes and structs */
void wal_geo_derive(struct wal_geo *g);
/** By how many blocks copies of a segment with so many bytes of records may exceed a segment. */
uint32_t wal_growth(const struct wal_geo *g, uint64_t bytes);
int wal_geo_fits(const struct wal_geo *g, const struct snic_io_geometry *io);
void wal_super_encode(const struct wal_geo *g, unsigned char *bytes);
/** 0; SNIC_ENOENT not one of ours; SNIC_EVERSION; SNIC_ECORRUPT */
int wal_super_decode(struct wal_geo *g, const unsigned char *bytes);
/** Blocks of one step of reading, at most @p most. */
uint32_t wal_piece_blocks(const struct snic_wal *w, uint32_t most);
int wal_is_zero(const unsigned char *bytes, size_t size);
uint64_t wal_offset(const struct wal_geo *g, uint64_t gen, uint32_t block);
uint64_t wal_unit_offset(const struct wal_geo *g, uint32_t unit);
void wal_block_encode(const struct wal_geo *g, const struct wal_block *b, unsigned char *bytes);
enum wal_block_kind wal_block_decode(const struct wal_geo *g, struct wal_block *b, uint64_t gen,
                                     uint32_t index, const unsigned char *bytes);
/** Bytes that a record takes in the payloads. */
uint32_t wal_record_size(uint32_t length);
/** Writes the head; returns the record's crc. */
uint32_t wal_record_encode(const struct wal_geo *g, uint64_t gen, const struct wal_record *rec,
                           unsigned char *head);
void wal_reader_start(struct wal_reader *rd, uint64_t gen);
void wal_reader_block(struct wal_reader *rd, const struct wal_block *b, const unsigned char *bytes);
/** 1: a record, its bytes in the reader's memory; 0: the block is at its end; -1: it is damaged. */
int wal_reader_next(struct wal_reader *rd, const struct wal_geo *g, struct wal_record *rec);

/* op.c: requests, the loop, the result of opening and the end */
void wal_op_begin(struct snic_wal *w, struct wal_op *op, uint8_t code, uint64_t offset,
                  unsigned char *bytes, uint64_t length, wal_then_fn then);
void wal_die(struct snic_wal *w, int error);
/** Have wal_pump() run from the loop. */
void wal_kick(struct snic_wal *w);
void wal_arm(struct snic_wal *w);
void wal_opened(struct snic_wal *w, int result);
/** 1: a read returns what the device has; 0: it may return what a failed flush left in a cache. */
static inline int wal_trusts_reads(const struct snic_wal *w)
{
    return (w->io->caps & SNIC_IO_CAP_DIRECT) != 0;
}

/* batch.c */
/** 0, SNIC_EAGAIN, SNIC_ENOSPC: what an append of this length would get. */
int wal_admit(const struct snic_wal *w, uint32_t length, uint32_t class_);
/** Admitted before. */
void wal_place_record(struct snic_wal *w, struct wal_record *rec, uint32_t class_);
/** Blocks that may be written before a segment has to become free. */
uint64_t wal_space(const struct snic_wal *w);
/** The same without those that compaction may need to copy the present records: W5. */
uint64_t wal_room(const struct snic_wal *w);
uint64_t wal_free_segments(const struct snic_wal *w);
void wal_batch_pump(struct snic_wal *w);
/** The batch being filled, or NULL. */
struct wal_batch *wal_batch_open(struct snic_wal *w);
/** Make `oldest` known to the device. */
void wal_announce(struct snic_wal *w);

/** An append waits for segments to become free. */
int wal_waits_for_space(const struct snic_wal *w);
/** A whole compaction cycle gained nothing, and nothing has changed since. */
int wal_compact_hopeless(const struct snic_wal *w);
/** The first batch behind a tail that was cut off is durable. */
void wal_erase_done(struct snic_wal *w);

/* compact.c */
void wal_compact_pump(struct snic_wal *w);

/* meta.c */
void wal_meta_read(struct snic_wal *w, wal_then_fn then);
void wal_meta_pump(struct snic_wal *w);

/* format.c: superblocks read and written; the whole device made */
/** Sizes of a new log from options and device: 0 or SNIC_E*. */
int wal_format_geo(struct wal_geo *g, const struct snic_io *io, const struct snic_wal_opts *o);
void wal_open_begin(struct snic_wal *w);

/* tail.c: where the log ends, and cutting that off */
void wal_tail_begin(struct snic_wal *w);
void wal_erase_pump(struct snic_wal *w);

/* confirm.c: what was read is made durable, then the log is open */
void wal_confirm_begin(struct snic_wal *w);

/* recover.c: the records */
void wal_recover_begin(struct snic_wal *w);

#endif /* SNIC_WAL_PRIV_H */
