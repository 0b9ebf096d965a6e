/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What a file service must hold, in arrays: directories, files, bytes; and random operations
 * that are applied to both.
 */
#ifndef SNIC_TESTS_FILEMODEL_H
#define SNIC_TESTS_FILEMODEL_H

#include "snicstore/files.h"

#define MODEL_DIRS 3u  /* beside the root, "d1".. */
#define MODEL_NAMES 5u /* in each directory, "n0".. */
#define MODEL_BYTES 65536u

struct model_file {
    int used;
    uint64_t id;
    uint32_t size;
    unsigned char bytes[MODEL_BYTES];
};

struct model {
    int dir_used[MODEL_DIRS + 1];
    uint64_t dir_id[MODEL_DIRS + 1];
    struct model_file file[MODEL_DIRS + 1][MODEL_NAMES];
    uint32_t bytes_max; /* of a file, <= MODEL_BYTES */
};

enum model_kind {
    MODEL_CREATE,
    MODEL_DELETE,
    MODEL_RENAME,
    MODEL_MKDIR,
    MODEL_RMDIR,
    MODEL_WRITE, /* not synced */
    MODEL_WRITE_SYNC,
    MODEL_WRITE_FSYNC, /* a WRITE, then FSYNC */
    MODEL_TRUNCATE,
    MODEL_PREALLOC,
    MODEL_KINDS
};

struct model_op {
    int kind;
    uint32_t dir;
    uint32_t name;
    uint32_t dir2;
    uint32_t name2;
    uint32_t replace;
    uint32_t at;
    uint32_t n;
    uint32_t tag;
};

void model_init(struct model *m, uint32_t bytes_max);
/** A random operation that has a fair chance to succeed. @p sync: nothing un-synced. */
void model_pick(const struct model *m, struct snic_rng *rng, struct model_op *op, int sync);
/** What the operation must answer; applies it to the model when that is no error. */
int64_t model_apply(struct model *m, const struct model_op *op);
/** Carry it out for real. Ids are learnt into @p m (which holds the state before it). */
int64_t model_run(struct model *m, struct snic_files *f, const struct model_op *op);
/**
 * NULL when @p f holds exactly @p m, else what differs. With @p op, which was under way on top
 * of @p m, its bytes may be there in part, but never others': a size that is new shows new bytes.
 */
const char *model_differs(const struct model *m, const struct model_op *op, struct snic_files *f);
const char *model_text(const struct model_op *op);

#endif /* SNIC_TESTS_FILEMODEL_H */
