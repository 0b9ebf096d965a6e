/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the files of lossfs share. Everything but the fields of main() needs the lock. */
#ifndef SNIC_TESTS_LOSSFS_PRIV_H
#define SNIC_TESTS_LOSSFS_PRIV_H

#define FUSE_USE_VERSION 312
#include "lossfs_fault.h"
#include "lossfs_file.h"
#include "lossfs_names.h"

#include <fuse_lowlevel.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

struct lossfs_node {
    struct lossfs_node *next;
    struct lossfs_node *prev;
    int fd; /* O_PATH */
    dev_t dev;
    ino_t ino;
    uint64_t lookups;
    int loaded; /* file is in use */
    struct lossfs_file file;
};

struct lossfs {
    pthread_mutex_t lock;
    struct lossfs_faults faults;
    struct lossfs_node root;
    int strict_names;
};
extern struct lossfs lossfs;
extern const struct fuse_lowlevel_ops lossfs_operations;

struct lossfs_node *lossfs_node(fuse_ino_t ino);
/** The lower path of a name; @p out has PATH_MAX bytes. */
void lossfs_path(const struct lossfs_node *folder, const char *name, char *out);
/* Each 0 or an errno. */
int lossfs_node_load(struct lossfs_node *n);
int lossfs_stat(struct lossfs_node *n, struct stat *st);
int lossfs_lookup(struct lossfs_node *folder, const char *name, struct fuse_entry_param *e);
void lossfs_forget(struct lossfs_node *n, uint64_t count);
/** Bytes of the files that were used since the mount. */
uint64_t lossfs_total(void);
/** 0; -1: see errno. */
int lossfs_control_start(const char *path);

#endif
