/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/kvfs_tool/tool.h
 * What the commands of kvfs_tool share. A command returns the program's exit code: 0 all is well,
 * 1 something is wrong with the file system, 2 it could not be done.
 */
#ifndef KVFS_TOOL_H
#define KVFS_TOOL_H

#include "store.h"

struct kt {
    struct kvfs_store s;
    int argc; /* what follows the options */
    char **argv;
    int force;
    int repair;
    int data;      /* fsck: read all bytes, too */
    int quiet;     /* no progress */
    int one_group; /* --group is used */
    uint64_t group;
    uint64_t progress_ns; /* when the next line is due */
    int progress_shown;
};

/* Run one operation of the store. @return op->result */
int64_t kt_op(struct kt *t, struct snic_kvop *op);
/* Open the store and, if wanted, mount; 0 or exit code 2, with the error printed. */
int kt_open(struct kt *t, int mounted);
/* A line on stderr, at most twice a second; kt_progress_end() when the work is done. */
void kt_progress(struct kt *t, const char *format, ...) SNIC_PRINTF(2, 3);
void kt_progress_end(struct kt *t);

/* Every record of a group, or of all, and every object's name. Either may be NULL. */
struct kt_walk {
    /* Non-zero ends the walk. The key has its group. */
    int (*record)(void *ctx, const struct snic_kvop_key *key, const void *value, uint32_t size);
    /* A number that holds records or an object, before its records. */
    int (*group)(void *ctx, uint64_t group);
    void *ctx;
};
/* @return 0, what a callback returned, or SNIC_E* of the store */
int kt_walk(struct kt *t, const struct kt_walk *w);

/* Find a path, from the root. @return 0 or SNIC_E* */
int kt_resolve(struct kt *t, const char *path, struct snic_fsop_attr *out);

/* How many sessions have the file system mounted: heartbeats, once a second. It may take four s.
   @return 0; SNIC_E*: that could not be found out */
int kt_in_use(struct kt *t, uint64_t *mounts);

int kt_mkfs(struct kt *t);
int kt_fsck(struct kt *t); /* fsck.c; t->repair: mend it */
int kt_dump(struct kt *t);
int kt_load(struct kt *t);
int kt_stats(struct kt *t);
int kt_ls(struct kt *t);
int kt_cat(struct kt *t);
int kt_stat(struct kt *t);

#endif /* KVFS_TOOL_H */
