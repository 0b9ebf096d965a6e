/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The store's inside: what is on a device, and the state that its files share.
 *
 * FORMAT.md has the device: superblocks, marks, the log, the places' tables twice, their data.
 * A place is used again and again, each time under the next number, its incarnation. A stamp counts
 * the records of a device's log; copies that the log makes of a record keep it. The mark is the
 * stamp up to which everything is home.
 *
 * A block's state is in two places. Its entry is that of the version at home (or there when this
 * round's mark is written); its slot, if it has one, holds a newer version: the cache.
 *
 * Invariants
 * S1  A table holds only what is in the log, durable and not marked, or home: so a slot goes home,
 *     and into its entry, when its record is durable.
 * S2  The mark is raised to a stamp when the blocks of all records up to it, and both copies of
 *     their tables, have been flushed, and when what superseded any of them is durable in the log.
 * S3  Of a table's two copies one is not written before the other is durable; the one that a crash
 *     left damaged or behind is written first. So at any time one is whole, and if it is not the
 *     newest, the log still has all that changed since.
 * S4  One write at a time is under way to a block's home, and none to a place whose number changes:
 *     a slot that is superseded meanwhile stays until its write is done.
 * S5  A slot is free only when the mark that covers its record is durable, or a newer slot or a
 *     deletion is in the log: so at recovery no more slots are needed than there were.
 * S6  `done` and the events come from segments_message(), timers and completions only.
 * S7  A place's pages are written for the first time all in one round, which its next use is not
 *     part of, and when it is durable in the log that the place is in use. So if one of them is of
 *     a round that has ended (the mark's, or earlier), all of them are there.
 * S8  What is answered was judged by attributes that are durable: a read or write waits for the
 *     record of its place's attributes, and SNIC_SEGMENTS_RAISE appends that record first.
 */
#ifndef SNIC_SEGMENTS_PRIV_H
#define SNIC_SEGMENTS_PRIV_H

#include "snicstore/segments.h"

/* No stamp or round comes so far. */
#define SNIC_SEGMENTS__LATEST (UINT64_C(1) << 63)
#define SNIC_SEGMENTS__PAGE 4096u
#define SNIC_SEGMENTS__PAGES 5u /* of a place, once */
#define SNIC_SEGMENTS__TABLE 128u
#define SNIC_SEGMENTS__ENTRY 24u
#define SNIC_SEGMENTS__LOG_AT 65536u
#define SNIC_SEGMENTS__LOG_HEAD 32768u
#define SNIC_SEGMENTS__WAL_BLOCK 4096u
#define SNIC_SEGMENTS__ITEM 24u   /* of a record's list */
#define SNIC_SEGMENTS__ATTR 48u   /* bytes of a record of attributes */
#define SNIC_SEGMENTS__OPS 32u    /* of a round, at a time */
#define SNIC_SEGMENTS__GATHER 16u /* blocks of one home write */
#define SNIC_SEGMENTS__CHUNK 15u  /* pages read at a time, of each copy: three places */
#define SNIC_SEGMENTS__PLACES_MAX ((1u << 24) - 1)
/* Of a device: more than 32 bits hold from 2^23 places on, which is 16 TiB. */
#define SNIC_SEGMENTS__ENTRIES(places) ((size_t)(places)*SNIC_SEGMENTS_BLOCKS)
#define SNIC_SEGMENTS__NONE UINT32_MAX
#define SNIC_SEGMENTS__FREE_STEP 1024u

/* ---- What is on a device ---- */

/** A device's sizes: the superblock. */
struct segments_geo {
    uint64_t log_bytes;
    uint32_t wal_segment;
    uint32_t places;
    uint32_t cache_blocks;
    uint32_t disk;
    uint32_t disks;
    uint32_t version; /* that it has, though another one is understood here */
    uint64_t uuid[2];
    /* what follows from them */
    uint32_t seed; /* of every checksum */
    uint32_t list_max;
    uint32_t record_max;
    uint32_t batch_bytes;
    uint64_t table_at; /* of the first copy */
    uint64_t data_at;
};

enum segments_page_kind { SEGMENTS_PAGE_GOOD, SEGMENTS_PAGE_BLANK, SEGMENTS_PAGE_BAD };

struct segments_page {
    uint64_t round;
    uint64_t seg_id;
    uint32_t inc;
    uint32_t whole; /* written under S7, which earlier versions did not keep */
};

/** What a segment is; a record of the log, and a place's first page. */
struct segments_attr {
    uint64_t seg_id;
    uint64_t vd_id;
    uint64_t base_lba;
    uint64_t min_wver;
    uint64_t stamp;
    uint32_t gen;
    uint32_t inc;
    uint32_t used;
    uint32_t pad;
};

struct segments_mark {
    uint64_t round;
    uint64_t stamp;
};

enum segments_record_kind { SEGMENTS_RECORD_ONE = 1, SEGMENTS_RECORD_LIST, SEGMENTS_RECORD_ATTR };

/** A record's head, as the log's fields hold it. */
struct segments_record {
    uint64_t stamp;
    uint64_t wver; /* ONE */
    uint32_t kind;
    uint32_t place;
    uint32_t inc;
    uint32_t count; /* LIST: of blocks; ONE: the block */
    uint32_t op;    /* ONE: enum snic_segments_kind */
    uint32_t data_crc;
    uint32_t block_tag;
};

/** A block's version and all that goes with it. */
struct segments_version {
    uint64_t wver;
    uint32_t data_crc;
    uint32_t block_tag;
    uint32_t kind; /* enum snic_segments_kind */
};

/* ---- State ---- */

/** @invariant slot is NONE or the number of a slot with this place and block. */
struct segments_entry {
    uint64_t wver;
    uint32_t data_crc;
    uint32_t block_tag;
    uint32_t slot;
    uint32_t kind;
};

enum segments_slot_state {
    SEGMENTS_SLOT_FREE,
    SEGMENTS_SLOT_LIVE,
    SEGMENTS_SLOT_WRITING,
    SEGMENTS_SLOT_HOME
};

struct segments_slot {
    struct segments_version v;
    uint64_t stamp;
    uint64_t position; /* in the log, 0: found there */
    uint32_t place;
    uint32_t next; /* in the order of stamps, or of free ones */
    uint32_t prev;
    uint16_t block;
    uint8_t state;
    uint8_t orphan; /* WRITING, and no entry's: freed when written */
};

struct segments_place {
    struct segments_attr attr;
    uint64_t position;                        /* of the record that made attr */
    uint64_t bits[SNIC_SEGMENTS_BLOCKS / 64]; /* blocks with a slot */
    uint32_t slots;
    uint32_t writing; /* home writes under way */
    uint32_t next;    /* of the chain */
    uint8_t chained;
    uint8_t dirty;  /* pages to be written by the next round */
    uint8_t round;  /* by this one */
    uint8_t second; /* pages of which a crash left the second copy behind: it is written first */
    uint8_t lost;   /* pages that both copies are damaged of; bit 0: not used any more */
};

struct segments_disk;

/** A request to the device, queued until it takes it, repeated until all is transferred. */
struct segments_io {
    struct snic_io_req req;
    struct snic_node node;
    struct segments_disk *disk;
    void (*then)(struct segments_io *io);
};

/** Of a round: a home write, or a page of a table. */
struct segments_op {
    struct segments_io io;
    struct snic_iov iov[SNIC_SEGMENTS__GATHER];
    uint32_t slot[SNIC_SEGMENTS__GATHER];
    uint32_t count;
    uint32_t place;
    uint32_t inc;
    uint32_t busy;
    unsigned char *page;
};

enum segments_phase {
    SEGMENTS_IDLE,
    SEGMENTS_LOG,   /* until what goes home is durable in the log: S1 */
    SEGMENTS_HOME,  /* blocks */
    SEGMENTS_TAKEN, /* until the uses of places whose pages will be written are: S7 */
    SEGMENTS_FIRST,
    SEGMENTS_FIRST_FLUSH,
    SEGMENTS_SECOND,
    SEGMENTS_SECOND_FLUSH,
    SEGMENTS_AFTER, /* until what superseded any of it is: S2 */
    SEGMENTS_MARK,
    SEGMENTS_FREE
};

struct segments_round {
    uint32_t phase;
    uint32_t wanted;
    uint32_t out;   /* ops under way */
    uint32_t place; /* the sweep's */
    uint32_t block;
    uint32_t in_pump;
    uint64_t number;
    uint64_t stamp;    /* up to which it goes */
    uint64_t position; /* that has to be durable */
    uint64_t page_max; /* highest round seen in a page */
    struct segments_op *op;
    struct segments_io side; /* flush, mark */
};

enum segments_disk_state { SEGMENTS_OPENING, SEGMENTS_OPEN, SEGMENTS_DEAD };

/** May the second superblock be written? When all devices have the first. */
enum segments_second { SEGMENTS_SECOND_WAITS = 0, SEGMENTS_SECOND_MAY, SEGMENTS_SECOND_NEVER };

/** How far opening a device has come. */
struct segments_load {
    uint32_t place;
    uint32_t places; /* read at a time */
    uint32_t copy;
    uint32_t format;
    uint32_t repair[2]; /* superblocks to be written again */
    uint32_t probe;
    uint64_t at; /* zeros are looked for, then written, up to here */
    uint64_t end;
    /* a read: page by page where it fails as a whole */
    uint64_t offset;
    unsigned char *bytes;
    uint32_t pages;
    uint32_t single; /* 0, or the number of the page under way plus 1 */
    void (*then)(struct segments_disk *d);
    uint32_t overflow; /* the cache is too small */
    uint32_t rotten;   /* records that make no sense */
    uint64_t first_missing;
    uint64_t last_missing;
    uint32_t unread; /* pages of the last read that could not be */
    uint32_t judged; /* it is known what is on the device: */
    int32_t judgement;
    struct segments_geo found;
    uint32_t half;   /* a format got as far as the first superblock */
    uint32_t first;  /* that one is there, or the second, durably */
    uint32_t mixed;  /* it is of another store than the first that could be opened */
    uint32_t second; /* enum segments_second */
    uint32_t waits;  /* for that to be known */
    struct segments_io io;
};

/** The log's part of the device, as a handle of its own. */
struct segments_window {
    struct snic_io io;
    struct snic_io *device;
};

struct segments_disk {
    struct snic_segments *store;
    struct snic_io *io;
    struct segments_window window;
    struct segments_geo geo;
    struct snic_wal *wal;
    void *wal_mem;
    size_t wal_size;
    uint32_t number;
    uint32_t state;
    int32_t result; /* of opening */
    uint32_t loaded;
    uint32_t out; /* at the device, the log's not counted */
    uint32_t used_places;
    uint32_t hint;     /* where a free place is looked for */
    uint64_t stamp;    /* the last one given */
    uint64_t position; /* of it */
    struct segments_mark mark;
    uint64_t unmarked_bytes; /* of records since the last round began */
    struct segments_place *place;
    struct segments_entry *entry; /* 512 of each place */
    struct segments_slot *slot;
    unsigned char *bytes; /* of the slots, a block each */
    uint32_t slot_free;   /* the first of them */
    uint32_t slots_free;
    uint32_t oldest; /* slot, in the order of stamps */
    uint32_t newest;
    unsigned char *staging; /* a record */
    unsigned char *bounce;
    uint32_t *bounce_free;
    uint32_t bounces_free;
    struct snic_link bouncing;  /* reads that wait for one */
    struct snic_link waiting;   /* requests in the order of the positions they wait for */
    struct snic_queue queue;    /* of segments_io, for the device */
    struct snic_io_waiter room; /* for the first of them */
    struct segments_round round;
    struct segments_load load;
    struct snic_segments_info info;
};

struct snic_segments {
    struct snic_segments_opts opts;
    struct snic_segments_events events;
    void *ctx;
    void *mem;
    struct snic_loop *loop;
    struct snic_loop_msg message;
    /** Something has become known of a device: the next step of opening, for all of them. */
    void (*open_step)(struct snic_segments *s);
    uint32_t message_on;
    uint32_t opened;   /* opened() was called with 0 */
    uint32_t reported; /* opened() was called */
    uint32_t judged;   /* all devices have been looked at */
    uint32_t closing;
    uint32_t refused; /* room() is owed */
    uint32_t in_flight;
    uint32_t disks;
    uint32_t list_max;
    uint32_t zero_crc;
    uint32_t chains; /* power of two */
    uint32_t *chain;
    struct snic_link finished; /* done is due */
    struct snic_segments_report report;
    uint64_t refusals;
    struct segments_disk disk[SNIC_SEGMENTS_DISKS_MAX];
};

/* layout.c: bytes and structs */
/** Sizes from options and device: 0, SNIC_EINVAL, SNIC_ENOSPC. */
int segments_geo_make(struct segments_geo *g, const struct snic_io *io,
                      const struct snic_segments_opts *o);
void segments_geo_derive(struct segments_geo *g);
uint64_t segments_page_offset(const struct segments_geo *g, uint32_t place, uint32_t page,
                              uint32_t copy);
uint64_t segments_block_offset(const struct segments_geo *g, uint32_t place, uint32_t block);
void segments_super_encode(const struct segments_geo *g, unsigned char *b);
/** 0; SNIC_ENOENT zeros; SNIC_EEXIST not one of ours; SNIC_EVERSION; SNIC_ECORRUPT */
int segments_super_decode(struct segments_geo *g, const unsigned char *b);
void segments_mark_encode(const struct segments_geo *g, const struct segments_mark *m,
                          unsigned char *b);
/** 1 if it is one. */
int segments_mark_decode(const struct segments_geo *g, struct segments_mark *m,
                         const unsigned char *b);
void segments_page_encode(const struct segments_disk *d, uint32_t place, uint32_t page,
                          uint64_t round, unsigned char *b);
enum segments_page_kind segments_page_decode(const struct segments_geo *g, uint32_t place,
                                             uint32_t page, struct segments_page *p,
                                             const unsigned char *b);
void segments_attr_read(struct segments_attr *a, const struct segments_page *p,
                        const unsigned char *b);
/** 0 if an entry makes no sense; @p out has 128. */
int segments_table_read(struct segments_entry *out, const unsigned char *b);
void segments_record_encode(const struct segments_record *h, struct snic_wal_record *r);
/** 0 if it makes no sense. */
int segments_record_decode(const struct segments_geo *g, struct segments_record *h,
                           const struct snic_wal_record *r);
void segments_item_encode(const struct segments_version *v, uint32_t block, unsigned char *b);
void segments_item_decode(struct segments_version *v, uint32_t *block, const unsigned char *b);
void segments_attr_encode(const struct segments_attr *a, unsigned char *b);
void segments_attr_decode(struct segments_attr *a, const unsigned char *b);
int segments_is_zero(const unsigned char *b, size_t size);

/* cache.c: slots, places, chains */
struct segments_entry *segments_entry(const struct segments_disk *d, uint32_t place,
                                      uint32_t block);
void segments_version_of(const struct segments_disk *d, const struct segments_entry *e,
                         struct segments_version *v);
unsigned char *segments_slot_bytes(const struct segments_disk *d, uint32_t slot);
void segments_slots_init(struct segments_disk *d);
/** A slot for this block, superseding the one it has; NONE if there is none. */
uint32_t segments_slot_take(struct segments_disk *d, uint32_t place, uint32_t block, uint64_t stamp,
                            uint64_t position);
/** Superseded or deleted: free it, now or when its write is done. */
void segments_slot_drop(struct segments_disk *d, uint32_t slot);
void segments_slot_free(struct segments_disk *d, uint32_t slot);
/** No blocks, no slots, nothing lost. */
void segments_place_clear(struct segments_disk *d, uint32_t place);
/** The segment, or NULL. */
struct segments_place *segments_lookup(const struct snic_segments *s, uint64_t seg_id,
                                       uint32_t *disk, uint32_t *place);
void segments_chain(struct segments_disk *d, uint32_t place);
void segments_unchain(struct segments_disk *d, uint32_t place);
int segments_block_lost(const struct segments_place *p, uint32_t block);

/* device.c: requests to the device, ends of the caller's */
void segments_io_queue(struct segments_disk *d, struct segments_io *io);
void segments_io_fill(struct segments_io *io, uint8_t op, uint64_t offset, void *bytes,
                      uint64_t length);
void segments_io_pump(struct segments_disk *d);
void segments_kick(struct snic_segments *s);
void segments_finish(struct snic_segments_req *q, int result);
/** Finish when this position is durable. */
void segments_await(struct segments_disk *d, struct snic_segments_req *q, uint64_t position);
void segments_deliver(struct snic_segments *s);
void segments_die(struct segments_disk *d, int error);
/** Opening this device has ended; continue with the store's. */
void segments_loaded(struct segments_disk *d, int result);
/** The same, for a caller that continues with the others itself. */
void segments_load_end(struct segments_disk *d, int result);
void segments_report_room(struct snic_segments *s);
/* the log's events */
void segments_wal_durable(void *ctx, uint64_t up_to);
void segments_wal_room(void *ctx);
void segments_wal_failed(void *ctx, int error);

/* window.c: the log's part of the device */
struct snic_wal_opts segments_wal_opts(const struct segments_geo *g, uint32_t flags);
void segments_window_make(struct segments_window *w, struct snic_io *device,
                          const struct segments_geo *g);

/* request.c: what a caller asks, and the log's records */
int segments_write(struct snic_segments *s, struct snic_segments_req *q, uint32_t disk,
                   uint32_t place);
int segments_control(struct snic_segments *s, struct snic_segments_req *q);
/** The log asks whether it has to keep a record. */
int segments_record_needed(const struct segments_disk *d, const struct snic_wal_record *r);

/* read.c */
void segments_read(struct segments_disk *d, struct snic_segments_req *q, uint32_t place);

/* round.c */
void segments_round_pump(struct segments_disk *d);

/* format.c: opening a device, up to its log */
void segments_load_begin(struct segments_disk *d);
/** If all devices have been looked at (or cannot even be read), begin to open or to format them. */
void segments_look(struct snic_segments *s);
/** If all have their first superblock, those that wait for it write the second. */
void segments_super_seconds(struct snic_segments *s);

/* recover.c: reading the tables and the log */
/** Two copies of a place's pages. */
void segments_load_place(struct segments_disk *d, uint32_t place, const unsigned char *first,
                         const unsigned char *second);
/** @p then follows when the log is open and its records are in the tables. */
void segments_load_log(struct segments_disk *d, void (*then)(struct segments_disk *d));

#endif /* SNIC_SEGMENTS_PRIV_H */
