/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the files of kvfs_pass share. */
#ifndef KVFS_PASS_H
#define KVFS_PASS_H

#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <fuse3/fuse_lowlevel.h>

enum {
    PASS_SHARDS = 1024,
    PASS_BOUNCE = (1 << 20) + 4096,
    PASS_MAX_WRITE = 1 << 20,
    PASS_TURNS = 8
};

struct pass_inode {
    struct pass_inode *next;
    uint64_t lookups;
    uint64_t ino;
    uint64_t dev;
    int fd; /* -1: there were too many */
    uint32_t mode;
    struct pass_handle *handle; /* then: of the file below */
};

struct pass_handle {
    struct file_handle file;
    unsigned char bytes[MAX_HANDLE_SZ];
};

struct pass_shard {
    pthread_mutex_t mutex;
    struct pass_inode *first;
} __attribute__((aligned(128)));

struct pass_mount {
    struct pass_shard shards[PASS_SHARDS];
    struct pass_inode root;
    long fds_max; /* descriptors of inodes */
    long fds;
    int below; /* the directory, for open_by_handle_at */
    double timeout;
    int proc; /* /proc/self/fd */
    int writeback;
    int splice;
};
extern struct pass_mount pass;

static inline struct pass_inode *pass_of(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? &pass.root : (struct pass_inode *)(uintptr_t)ino;
}

/* Its descriptor; one made for the request is good for the PASS_TURNS - 1 next. */
int pass_open_handle(struct pass_inode *i);
static inline int pass_fd(fuse_ino_t ino)
{
    struct pass_inode *i = pass_of(ino);
    int fd = __atomic_load_n(&i->fd, __ATOMIC_ACQUIRE);
    return fd != -1 ? fd : pass_open_handle(i);
}

/* A file handle is the descriptor; bit 31 is set for O_DIRECT. */
static inline int pass_file(const struct fuse_file_info *fi)
{
    return (int)(fi->fh & 0x7FFFFFFF);
}

int pass_reopen(int fd, int flags);
void pass_put(fuse_ino_t ino, uint64_t lookups);
int pass_find(int dir, const char *name, struct fuse_entry_param *e);
void pass_become(fuse_req_t req);
void pass_return(fuse_req_t req);
void pass_reply_rc(fuse_req_t req, int rc);
void pass_data_ops(struct fuse_lowlevel_ops *ops);

#endif
