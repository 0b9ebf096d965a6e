/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The file service behind its public header. One thread owns all of it.
 *
 * Invariants
 *  I1  raw_nodes and raw_segs are the durable state: they change only by applying journal
 *      entries that are durable. Checkpoints are written from them.
 *  I2  nodes and segs are the present state; what differs from the durable one is in the
 *      control buffer, in the entry being written, or on the dirty queue.
 *  I3  Bytes [0, init) of a segment are on the device; bytes from init on read as zeros.
 *      [init, claimed) is being written. init grows in order, as the writes (extenders) that
 *      claimed it complete.
 *  I4  A serialised size or init covers only bytes whose writes completed before the flush
 *      that precedes the journal write.
 *  I5  A segment is free, owned, or in limbo. Limbo ends when the freeing is durable and all
 *      data requests begun before it have ended.
 *  I6  One commit at a time: serialise, flush if needed, write the entry, make it durable,
 *      apply it. One checkpoint at a time, independent of commits.
 *  I7  Of two writes that touch a device block, of which one writes only a part of it or
 *      fills a gap with zeros, the second is issued after the first is complete.
 */
#ifndef SNIC_FILES_PRIV_H
#define SNIC_FILES_PRIV_H

#include "snicstore/files.h"
#include "files/layout.h"

#define SNIC_FILES__NONE UINT32_MAX
#define SNIC_FILES__NOT_QUEUED UINT32_MAX
#define SNIC_FILES__QUEUE_END (UINT32_MAX - 1)
#define SNIC_FILES__ENTRY_MAX 65536u
#define SNIC_FILES__PIECE_IOV 16u
#define SNIC_FILES__ZERO_BYTES 65536u
#define SNIC_FILES__IO_BATCH 32u
/* A truncation that frees more segments than this writes one TRUNC record. */
#define SNIC_FILES__TRUNC_RECORDS 64u

enum files_rq_state {
    FILES_RQ_ISSUING = 0, /* waits for its turn, or has pieces still to issue */
    FILES_RQ_ISSUED = 1,  /* all pieces are on the device                     */
    FILES_RQ_WAITING = 2, /* for durability                                   */
    FILES_RQ_DONE = 3
};

/* A file or directory. */
struct files_node {
    uint64_t id; /* 0: free */
    uint64_t size;
    uint64_t parent;
    uint64_t dirty_ticket; /* of the youngest change of size or segments */
    uint32_t chain;        /* name index, or list of free nodes          */
    uint32_t first;        /* segment list                               */
    uint32_t segs;
    uint32_t children; /* of a directory                             */
    uint32_t dirty_next;
    uint32_t writers; /* WRITE and PREALLOC requests in progress    */
    uint32_t stalled; /* number of the pump round a write stalled in */
    uint8_t kind;
    uint8_t barrier; /* a truncation is not durable yet            */
    uint8_t name_size;
    uint8_t unused;
    struct snic_queue ordered; /* WRITEs and TRUNCATEs that wait their turn  */
    char name[256];
};

struct files_seg {
    uint32_t node; /* owner, or NONE: free or limbo */
    uint32_t logical;
    uint32_t init;
    uint32_t claimed;
    uint32_t next; /* of the owner's list, or of a limbo list */
    uint32_t prev;
    uint32_t chain; /* (node, logical) index */
    uint32_t dirty_next;
    uint32_t busy_first; /* extenders in flight, through seg_next */
    uint32_t busy_last;
};

/* A list of segments through `next`. */
struct files_limbo {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

enum files_piece_kind {
    FILES_PIECE_READ = 1,        /* into the caller's memory                */
    FILES_PIECE_READ_BOUNCE = 2, /* whole blocks, then copied               */
    FILES_PIECE_WRITE = 3,       /* out of the caller's memory              */
    FILES_PIECE_WRITE_BOUNCE = 4,
    FILES_PIECE_ZERO = 5 /* a gap                                   */
};

/* Steps of a bounce write: what is in flight. */
enum files_piece_step {
    FILES_STEP_HEAD = 0, /* reading the head block */
    FILES_STEP_TAIL = 1, /* reading the tail block */
    FILES_STEP_MOVE = 2  /* the transfer itself    */
};

/* What a write has to do with the init mark of its segment: I3. */
enum files_extend {
    FILES_EXTEND_NOT = 0,  /* it lies below init                             */
    FILES_EXTEND_GROW = 1, /* it carries init from `from` to `to`            */
    FILES_EXTEND_WAIT = 2  /* others carry init beyond `to`; it waits for it */
};

/* One device transfer for a request. */
struct files_piece {
    struct snic_io_req io;
    struct snic_link link; /* active writes, or free pieces             */
    struct snic_files *files;
    struct snic_files_req *req;
    unsigned char *bounce;
    uint64_t block_first; /* device range in whole blocks              */
    uint64_t block_end;
    uint64_t user_pos; /* of the bytes within the request           */
    uint32_t user_bytes;
    uint32_t user_at; /* their place in the bounce buffer          */
    uint32_t keep;    /* head block: bytes of it that are valid   */
    uint32_t tail_at; /* tail block to be read: offset in the bounce, or NONE */
    uint32_t span;    /* bytes of the bounce buffer in use        */
    uint32_t seg;
    uint32_t from; /* extender: claimed before, claimed after   */
    uint32_t to;
    uint32_t seg_next; /* extenders of the segment                 */
    uint32_t seg_prev;
    uint32_t child[2]; /* busy.c                                   */
    uint32_t rank;
    uint64_t max_end[2];
    int32_t error;
    uint8_t kind;
    uint8_t step;     /* enum files_piece_step                     */
    uint8_t extender; /* enum files_extend                         */
    uint8_t complete;
    uint8_t exclusive; /* writes a part of a block, or a gap       */
    uint8_t fua;
    uint8_t unused[2];
    struct snic_iov iov[SNIC_FILES__PIECE_IOV];
};

/* An entry under construction. */
struct files_entry {
    unsigned char *bytes; /* SNIC_FILES__ENTRY_MAX */
    uint32_t used;
    uint32_t records;
};

enum files_commit_state {
    FILES_COMMIT_IDLE = 0,
    FILES_COMMIT_FLUSH_DATA = 1,
    FILES_COMMIT_WRITE = 2,
    FILES_COMMIT_FLUSH_ENTRY = 3
};

enum files_ckpt_state {
    FILES_CKPT_IDLE = 0,
    FILES_CKPT_CHUNKS = 1,
    FILES_CKPT_FLUSH = 2,
    FILES_CKPT_HEADER = 3,
    FILES_CKPT_FLUSH_HEADER = 4
};

struct snic_files {
    struct snic_io *io;
    struct snic_loop *loop;
    struct snic_files_info info;
    struct snic_files_hooks hooks;
    struct snic_files_stats stats;
    int32_t broken;
    uint32_t align;     /* device blocks for data, power of two >= 1         */
    uint32_t mem_align; /* of pieces, power of two                           */
    uint32_t transfer;  /* largest device transfer                           */
    uint32_t segs_count;
    uint32_t nodes_count; /* files_max + dirs_max + 1                          */
    uint32_t bounce_bytes;
    uint32_t seg_shift;
    uint32_t fua;
    uint32_t zero;
    uint64_t sync_delay_ns;
    uint64_t next_id; /* generation of the next node                       */

    /* tables */
    unsigned char *raw_nodes; /* I1 */
    unsigned char *raw_segs;
    struct files_node *nodes;
    struct files_seg *segs;
    uint32_t *name_index;
    uint32_t name_mask;
    uint32_t *seg_index;
    uint32_t seg_mask;
    uint64_t *bitmap; /* 1: not free */
    uint32_t hint;
    uint32_t free_segs;
    uint32_t free_node; /* list through chain */
    uint32_t files;
    uint32_t dirs;

    /* limbo and epochs: I5 */
    struct files_limbo limbo_pending; /* freed by records in the control buffer */
    struct files_limbo limbo_writing; /* in the entry being written             */
    struct files_limbo limbo_durable;
    struct files_limbo limbo_readers; /* wait for the readers of `draining`     */
    uint64_t epoch_active[2];
    uint32_t epoch;    /* parity of requests that begin now */
    uint32_t draining; /* limbo_readers is waiting          */

    /* data */
    struct files_piece *pieces;
    uint32_t pieces_count;
    uint32_t pieces_free_count;
    struct snic_link pieces_free;
    struct snic_link writes; /* active write pieces */
    uint32_t busy_root;      /* the same, by their blocks */
    uint64_t busy_rank;
    uint32_t writes_exclusive; /* of them, those that write parts of blocks */
    uint32_t poisoned;         /* active extenders that must fail           */
    unsigned char **bounce_free;
    uint32_t bounce_free_count;
    unsigned char *zeros;
    struct snic_queue ready; /* requests with pieces still to issue  */
    struct snic_queue space; /* WRITEs that wait for limbo           */
    uint32_t ready_writes;   /* WRITEs and PREALLOCs among them       */
    uint32_t pump_round;
    uint32_t pumping;

    /* device */
    struct snic_queue io_queue;
    uint32_t io_active;
    uint32_t closing;
    struct snic_io_waiter io_room; /* waits while io_queue is not empty */
    struct snic_queue finished;
    struct snic_loop_msg finish_msg;
    uint32_t finish_armed;
    uint32_t active; /* requests */
    struct snic_queue io_failed;
    struct snic_queue lists; /* LIST requests that have not looked at all nodes */
    struct snic_loop_msg list_msg;
    uint32_t list_armed;

    /* commit: I6 */
    struct snic_queue moved;   /* requests whose last piece has ended */
    struct snic_queue durable; /* those that waited for it; private_.error: the result */
    struct snic_queue control; /* control requests that wait for room */
    struct snic_queue waiters; /* requests that wait for durability   */
    struct files_entry pending;
    struct files_entry writing;
    uint64_t control_appended; /* records in entries, ever            */
    uint64_t control_taken;
    uint64_t control_durable;
    uint64_t dirty_added;
    uint64_t dirty_taken;
    uint64_t dirty_durable;
    uint32_t dirty_first;
    uint32_t dirty_last;
    uint32_t commit_wanted;
    uint32_t commit_state;
    uint64_t flush_started;
    uint64_t flush_done;
    uint64_t want_dirty; /* largest tickets of waiters          */
    uint64_t want_flush;
    uint64_t seq;        /* of the next entry                   */
    uint64_t generation; /* of entries                          */
    uint64_t position;   /* in the half                         */
    struct snic_io_req commit_io;
    struct snic_timer commit_timer;

    /* checkpoint */
    uint32_t ckpt_state;
    uint64_t ckpt_index;
    uint64_t ckpt_chunks;
    uint64_t ckpt_seq; /* first entry of the one being written */
    unsigned char *ckpt_buf;
    struct snic_io_req ckpt_io;
};

/* layout.c */
void files_seal(void *unit, size_t size, uint32_t magic, uint64_t image_id, uint64_t place);
int files_sealed(const void *unit, size_t size, uint32_t magic, uint64_t image_id, uint64_t place);
int files_geometry(struct snic_files_info *info);
uint64_t files_slot_offset(const struct snic_files_info *info, uint64_t generation);
uint64_t files_half_offset(const struct snic_files_info *info, uint64_t generation);
uint64_t files_chunk_count(const struct snic_files_info *info);
uint64_t files_node_chunks(const struct snic_files_info *info);
uint32_t files_node_count(const struct snic_files_info *info);
void files_super_encode(unsigned char *b, const struct snic_files_info *info);
int files_super_decode(const unsigned char *b, uint64_t place, struct snic_files_info *info);
int files_name_valid(const void *name, uint32_t size);

/* record.c */
void files_record_node(struct files_entry *e, uint32_t block, uint32_t index,
                       const struct files_node *n);
void files_record_seg(struct files_entry *e, uint32_t block, uint32_t index, uint64_t id,
                      uint32_t logical, uint32_t init);
void files_record_size(struct files_entry *e, uint32_t block, uint32_t index, uint64_t id,
                       uint64_t size);
void files_record_trunc(struct files_entry *e, uint32_t block, uint32_t index, uint64_t id,
                        uint32_t first);
/* The tables as raw records. */
struct files_raw {
    unsigned char *nodes;
    unsigned char *segs;
    uint32_t nodes_count;
    uint32_t segs_count;
    uint32_t block;
};
uint32_t files_record_bytes(const unsigned char *entry, uint32_t bytes, uint32_t at,
                            uint32_t block);
int files_entry_apply(const struct files_raw *raw, const unsigned char *entry, uint32_t bytes,
                      uint32_t records, uint32_t *at);
void files_chunk_pack(const struct snic_files_info *info, const struct files_raw *raw,
                      uint64_t index, uint64_t generation, unsigned char *chunk);
int files_chunk_unpack(const struct snic_files_info *info, struct files_raw *raw, uint64_t index,
                       uint64_t generation, const unsigned char *chunk);

/* format.c: blocking steps for format, probe, mount; copy 0 or 1 of the superblock */
int files_super_read(struct snic_io *io, uint32_t copy, struct snic_files_info *out);
int files_io_wait(struct snic_io *io, uint8_t op, uint64_t offset, void *mem, size_t size);

/* load.c */
struct files_loaded {
    uint64_t generation; /* of the checkpoint                           */
    uint64_t last;       /* generation of the last entries, or the same */
    uint64_t seq;
    uint64_t position;
    uint64_t next_id;
    uint64_t base_seq; /* first entry of generation `last`            */
    snic_files_finding_fn finding;
    void *ctx;
};
int files_blank(const unsigned char *buf, uint32_t size);
const char *files_header_wrong(const struct snic_files_info *info, const unsigned char *buf,
                               uint64_t parity);
uint32_t files_entry_head(const struct snic_files_info *info, const unsigned char *p, uint64_t room,
                          uint64_t generation);
int files_entry_read(struct snic_io *io, const struct snic_files_info *info, unsigned char *buf,
                     uint64_t generation, uint64_t at, uint32_t *bytes);
int files_load(struct snic_io *io, const struct snic_files_info *info, struct files_raw *raw,
               unsigned char *buf, struct files_loaded *out);

/* build.c */
int files_table_build(struct snic_files *f, const struct files_loaded *l);

/* mount.c */
int files_prepare(struct snic_files **out, void *mem, size_t mem_size, struct snic_io *io,
                  const struct snic_files_mount_opts *in);
int files_read_image(struct snic_files *f, struct files_loaded *l);

/* table.c */
uint32_t files_find_name(const struct snic_files *f, uint64_t dir, const void *name, uint32_t size);
uint32_t files_find_id(const struct snic_files *f, uint64_t id);
void files_name_insert(struct snic_files *f, uint32_t index);
void files_name_remove(struct snic_files *f, uint32_t index);
uint32_t files_seg_find(const struct snic_files *f, uint32_t node, uint32_t logical);
uint32_t files_seg_take(struct snic_files *f, uint32_t hint);
void files_seg_attach(struct snic_files *f, uint32_t seg, uint32_t node, uint32_t logical);
void files_seg_detach(struct snic_files *f, uint32_t seg);
void files_limbo_push(struct snic_files *f, struct files_limbo *l, uint32_t seg);
void files_limbo_splice(struct snic_files *f, struct files_limbo *into, struct files_limbo *from);
void files_epoch_leave(struct snic_files *f, uint32_t parity);
void files_epoch_turn(struct snic_files *f);
void files_dirty_node(struct snic_files *f, uint32_t node);
void files_dirty_seg(struct snic_files *f, uint32_t seg);
uint32_t files_dirty_take(struct snic_files *f);

/* files.c */
void files_frame_init(struct snic_files *f);
void files_commit_all(struct snic_files *f);

/* device.c */
void files_io_push(struct snic_files *f, struct snic_io_req *io);
void files_io_ended(struct snic_files *f);
void files_io_submit(struct snic_files *f);
void files_finish(struct snic_files *f, struct snic_files_req *r, int64_t result);
void files_io_writable(struct snic_io_waiter *w);

/* data.c */
void files_data_start(struct snic_files *f, struct snic_files_req *r);
void files_data_moved(struct snic_files *f, struct snic_files_req *r);
void files_data_durable(struct snic_files *f, struct snic_files_req *r, int error);
void files_ordered_run(struct snic_files *f, uint32_t node);
void files_space_run(struct snic_files *f);
void files_pump(struct snic_files *f);

/* piece.c: 0 progress, 1 stalled, 2 stalled for want of pieces */
int files_piece_read(struct snic_files *f, struct snic_files_req *r);
int files_piece_write(struct snic_files *f, struct snic_files_req *r);
int files_piece_fill(struct snic_files *f, struct snic_files_req *r);
void files_piece_ended(struct snic_files *f, struct files_piece *p);

/* busy.c */
void files_busy_add(struct snic_files *f, struct files_piece *p);
void files_busy_remove(struct snic_files *f, const struct files_piece *p);
int files_busy_conflict(struct snic_files *f, uint64_t first, uint64_t end, int exclusive);
int files_busy_check(const struct snic_files *f, uint32_t active);

/* extend.c */
void files_extend_enter(struct snic_files *f, struct files_piece *p);
int files_extend_poisoned(const struct snic_files *f, uint32_t seg);
void files_extend_settle(struct snic_files *f, struct files_piece *p);
void files_piece_retire(struct snic_files *f, struct files_piece *p);

/* meta.c */
void files_control_start(struct snic_files *f, struct snic_files_req *r);
void files_control_run(struct snic_files *f);
void files_list_run(struct snic_loop_msg *msg);
void files_look(struct snic_files *f, struct snic_files_req *r);

/* commit.c */
void files_commit_init(struct snic_files *f);
void files_wait_durable(struct snic_files *f, struct snic_files_req *r, int flush);
void files_commit_kick(struct snic_files *f);
int files_commit_ended(struct snic_files *f);

/* checkpoint.c */
void files_checkpoint_start(struct snic_files *f);
int files_checkpoint_ended(struct snic_files *f);

static inline struct files_raw files_raw_of(const struct snic_files *f)
{
    struct files_raw raw;
    raw.nodes = f->raw_nodes;
    raw.segs = f->raw_segs;
    raw.nodes_count = f->nodes_count;
    raw.segs_count = f->segs_count;
    raw.block = f->info.block_bytes;
    return raw;
}
static inline uint64_t files_seg_place(const struct snic_files *f, uint32_t seg)
{
    return f->info.data_offset + ((uint64_t)seg << f->seg_shift);
}

#endif /* SNIC_FILES_PRIV_H */
