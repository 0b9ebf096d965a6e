/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/kvfs_tool/fsck.h
 * Checks and mends the file system in a store. It reads every record and shares no code with the
 * engine but the layouts of kvfs_format.h. The store is reached by a function, so that a test can
 * give one in memory.
 */
#ifndef KVFS_FSCK_H
#define KVFS_FSCK_H

#include "snicstore/kv.h"
#include "snicstore/kvfs_format.h"

/* Exit codes, those of fsck(8). */
enum fsck_code { FSCK_CLEAN = 0, FSCK_MENDED = 1, FSCK_LEFT = 4, FSCK_ERROR = 8, FSCK_USAGE = 16 };

struct fsck_opts {
    int64_t (*op)(void *ctx, struct snic_kvop *op); /* carry out; its result               */
    void (*print)(void *ctx, const char *line);     /* a finding, or a note; may be NULL    */
    void (*progress)(void *ctx, uint64_t records);  /* may be NULL                          */
    void *ctx;
    int repair;
    int data; /* read all object bytes                                                      */
};

struct fsck_report {
    uint64_t records;
    uint64_t inodes;
    uint64_t directories;
    uint64_t orphans;  /* without a name, and listed: the next mount removes them              */
    uint64_t intents;  /* commits that the next mount finishes                                 */
    uint64_t sessions; /* that have not ended                                                  */
    uint64_t findings; /* in the last pass                                                     */
    uint64_t mended;
    int error; /* SNIC_E* with FSCK_ERROR                                                      */
};

/** The file system must not be in use. */
enum fsck_code fsck_run(const struct fsck_opts *o, struct fsck_report *r);

/* ---- Between fsck_scan.c, fsck_judge.c and fsck_bytes.c ---- */

struct fsck_inode {
    struct snic_fsop_attr a;
    uint64_t names;   /* that lead to it                                                     */
    uint64_t entries; /* names in it                                                         */
    uint64_t subdirs;
    uint64_t further;  /* 'P'                                                                 */
    uint64_t named_in; /* a directory that names it                                          */
    struct snic_fsop_hash named_as;
    uint64_t records; /* besides the attributes                                              */
    uint32_t target;  /* bytes                                                                */
    uint32_t small;   /* bytes of 'D'                                                         */
    uint8_t has_attr, listed, first, xattr, acl, default_acl, data, reached;
    uint8_t hurt; /* a record of it cannot be read                                            */
};

struct fsck {
    const struct fsck_opts *o;
    struct fsck_report *r;
    struct fsck_inode *inodes;
    uint64_t count, room, mask;
    uint64_t *index;
    struct snic_kvfs_super super;
    uint64_t next_ino, most;
    uint64_t session, session_beats; /* the one whose records are being read; 0: none         */
    int has_super, has_table;
    int damaged; /* records that cannot be read: nothing is deleted for being unknown        */
    int error;
    unsigned char *scan, *value;
};

enum {
    FSCK_ROOM = 1 << 20,
    FSCK_SESSIONS = 64 /* so many make a mount impossible */,
    FSCK_LOCK = 40 /* bytes of a lock in 'K' */
};

struct fsck_inode *fsck_inode(struct fsck *f, uint64_t ino); /* made if need be; NULL: memory */
struct fsck_inode *fsck_find(struct fsck *f, uint64_t ino);
/* A finding; 1: it may be mended now. */
int fsck_finding(struct fsck *f, const struct snic_kvop_key *key, int mendable, const char *what);
void fsck_note(struct fsck *f, const struct snic_kvop_key *key, const char *what);
/* A record (its head is filled); size 0: it goes. */
void fsck_put(struct fsck *f, const struct snic_kvop_key *key, void *record, uint32_t size);
/* Into f->value. Bytes; 0 there is none, or an error (f->error). What the store itself calls
 * damaged is a byte that no record can be. */
uint32_t fsck_get(struct fsck *f, const struct snic_kvop_key *key);
/* All records of a group, raw. */
typedef void (*fsck_record_fn)(struct fsck *f, const struct snic_kvop_key *key,
                               const unsigned char *record, uint32_t size);
void fsck_group(struct fsck *f, uint64_t group, fsck_record_fn fn);
void fsck_groups(struct fsck *f, void (*fn)(struct fsck *f, uint64_t group));
int fsck_load(struct fsck *f);
/* fsck_bytes.c */
void fsck_put_attr(struct fsck *f, struct fsck_inode *i);
/* A file's bytes are where its flags place them, and all there. */
void fsck_file(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key);
/* Print the path of the inode that the damaged records belong to. */
void fsck_note_path(struct fsck *f, const struct fsck_inode *i, const struct snic_kvop_key *key);
void fsck_judge(struct fsck *f);

#endif /* KVFS_FSCK_H */
