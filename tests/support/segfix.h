/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A store of segments over simulated disks, and a model of it: what each block may hold, what every
 * request must be answered. What a block holds follows from segment, run, block and version, so a
 * read shows which version it is, and whether it is whole. The first thing that is wrong is in
 * `why`.
 */
#ifndef SNIC_TESTS_SEGFIX_H
#define SNIC_TESTS_SEGFIX_H

#include "snicstore/io.h"
#include "snicstore/loop.h"
#include "snicstore/segments.h"

#define SEGFIX_SEGS 4    /* ids 1 ... 4                            */
#define SEGFIX_BLOCKS 20 /* of each are used: segfix_block_number() */
#define SEGFIX_VERSIONS 4000
#define SEGFIX_REQS 48
#define SEGFIX_DISKS 3

struct segfix_block {
    uint64_t current; /* accepted         */
    uint64_t acked;   /* must survive     */
    uint64_t issued[SEGFIX_VERSIONS / 64];
};

/** What was accepted, and what was answered. */
struct segfix_seg {
    uint32_t exists;
    uint32_t acked_exists;
    uint32_t creations; /* counts creations */
    uint32_t gen;
    uint32_t acked_gen;
    uint64_t fence;
    uint64_t acked_fence;
    uint32_t control; /* one of those requests is under way */
    struct segfix_block block[SEGFIX_BLOCKS];
};

struct segfix_model {
    struct segfix_seg seg[SEGFIX_SEGS];
};

struct segfix;
struct segfix_req {
    struct snic_segments_req q;
    struct snic_segments_block block[SNIC_SEGMENTS_LIST_MAX];
    uint8_t expect[SNIC_SEGMENTS_LIST_MAX]; /* write */
    uint64_t low[SNIC_SEGMENTS_LIST_MAX];   /* read: version at least */
    uint32_t which[SNIC_SEGMENTS_LIST_MAX];
    struct segfix *f;
    uint32_t seg;
    uint32_t creations;
    uint32_t busy;
    unsigned char *data;
};

struct segfix {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk_opts disk_opts;
    struct snic_segments_opts opts;
    uint32_t disks;
    struct snic_disk *disk[SEGFIX_DISKS];
    struct snic_io *io[SEGFIX_DISKS];
    struct snic_segments *store;
    void *mem;
    struct snic_segments_report report;
    uint32_t opened;
    int32_t result;
    uint32_t failed;
    uint32_t rooms;
    uint32_t damages;
    uint64_t misreads; /* reported */
    uint64_t misread_seg;
    uint32_t misread_block;
    int misread_error;
    uint32_t busy;
    uint32_t forgiving; /* damage is expected: blocks may be DAMAGED */
    uint32_t skew;      /* of the caller's memory */
    struct segfix_model m;
    struct segfix_req req[SEGFIX_REQS];
    struct segfix_req *last; /* submitted */
    unsigned char *data;
    uint64_t answered;
    uint64_t eagain;
    uint64_t read_damaged;
    char why[256];
};

/** A world and blank disks of `disk_opts`, which get defaults where they are 0. */
void segfix_start(struct segfix *f, uint64_t seed);
void segfix_end(struct segfix *f);
void segfix_plug(struct segfix *f);
void segfix_unplug(struct segfix *f);
/** Begin to open; @return what open returned. */
int segfix_open_begin(struct segfix *f, uint32_t flags);
/** Open and wait for opened(); @return its result, or what open returned. */
int segfix_open(struct segfix *f, uint32_t flags);
void segfix_close(struct segfix *f);
/** Let the world run for so long, checking the store after each event. */
void segfix_run(struct segfix *f, uint64_t ns);
/** Until nothing is under way. */
void segfix_settle(struct segfix *f);
/** After a crash and open: all is as it may be, and the model knows the contents. */
void segfix_judge(struct segfix *f);
/** Submit; 1 when accepted. Segments count from 0 here, blocks are numbers in the model. */
int segfix_write(struct segfix *f, uint32_t seg, const uint32_t *which, const uint64_t *wver,
                 uint32_t count);
int segfix_read(struct segfix *f, uint32_t seg, const uint32_t *which, uint32_t count);
int segfix_control(struct segfix *f, uint32_t seg, uint32_t op, uint64_t value);
/** A random step of many clients. */
void segfix_step(struct segfix *f, struct snic_rng *rng);
uint32_t segfix_block_number(uint32_t which);
/** What that version of the block is; @return its kind. */
uint32_t segfix_content(unsigned char *out, uint32_t seg, uint32_t creations, uint32_t which,
                        uint64_t wver);
void segfix_wrong(struct segfix *f, const char *format, ...) SNIC_PRINTF(2, 3);

#endif /* SNIC_TESTS_SEGFIX_H */
