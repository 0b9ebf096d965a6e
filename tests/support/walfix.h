/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A log on a simulated disk, and a model of what it must hold. A record's contents are a function
 * of its key and ts, so anything that was not appended is noticed.
 *
 * In one run: `entry` is what was appended, in order. At the end of it: what durable() announced
 * has to be found, of the rest only what precedes some position. The newest record found of each
 * key is what the next run begins with.
 */
#ifndef SNIC_TESTS_WALFIX_H
#define SNIC_TESTS_WALFIX_H

#include "snicstore/wal.h"

enum { WALFIX_KEYS = 2000, WALFIX_SOME = 48, WALFIX_ENTRIES = 20000 };

struct walfix_entry {
    uint64_t ts;
    uint64_t position;
    uint32_t key;
    uint32_t tombstone;
};

struct walfix_model {
    uint64_t ts; /* used last */
    uint64_t newest[WALFIX_KEYS];
    uint32_t tombstone[WALFIX_KEYS]; /* of the newest                                           */
    uint64_t forgotten[WALFIX_KEYS]; /* up to this ts: not needed                               */
    uint64_t durable;
    uint64_t meta_floor; /* version that was stored */
    uint64_t meta_top;   /* that was put            */
    uint32_t length_max;
    uint64_t long_from; /* records from this ts on are that long, but tombstones; 0: none */
    uint32_t count;
    struct walfix_entry entry[WALFIX_ENTRIES];
};

struct walfix {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_wal *wal;
    void *mem;
    struct snic_disk_opts disk_opts;
    struct snic_wal_opts opts;
    struct walfix_model m;
    /* what was read back */
    int opened;
    int result;
    int failed; /* error */
    int accepted;
    uint64_t rooms;
    uint64_t stored;
    struct snic_wal_report report;
    uint64_t got[WALFIX_KEYS];
    uint32_t got_tombstone[WALFIX_KEYS];
    uint64_t found;
    uint64_t found_first;
    uint64_t found_last; /* position */
    unsigned char *seen; /* NULL, or by position below seen_max: it was found */
    uint64_t seen_max;
    int in_call;
    char why[200]; /* the first thing that was wrong, or "" */
};

/** Copies what is in use. */
void walfix_model_copy(struct walfix_model *to, const struct walfix_model *from);
/** The world, a loop, a disk, a handle; nothing is opened. */
void walfix_start(struct walfix *f, uint64_t seed);
void walfix_end(struct walfix *f);
/** A handle on f->disk. */
void walfix_plug(struct walfix *f);
void walfix_unplug(struct walfix *f);
/** Open and run until opened() came; its result. After an error the log is closed. */
int walfix_open(struct walfix *f, uint32_t flags);
void walfix_close(struct walfix *f);
/** Append a new record of @p key; what append returned. */
int walfix_append(struct walfix *f, uint32_t key, uint32_t flags);
/** Run until all is durable or the log is dead. */
void walfix_settle(struct walfix *f);
/** Put the next version of the membership file. */
int walfix_meta(struct walfix *f);
/** Run until @p seconds of simulated time have passed without an end. */
void walfix_run(struct walfix *f, uint64_t ns);
/**
 * The next run on f->io: open, judge, accept a SUSPECT tail; with @p probe append one more record
 * of key 0 and see that it lasts. Fails the test when it does not open.
 */
void walfix_next_run(struct walfix *f, int probe);
/** Take back the tail's doubt: the log is writable. */
void walfix_accept(struct walfix *f);
/** The check. */
void walfix_check(struct walfix *f);
/**
 * After opening: is what was found what must have been? f->why has what not. The model continues
 * with what was found.
 */
void walfix_judge(struct walfix *f);

#endif /* SNIC_TESTS_WALFIX_H */
