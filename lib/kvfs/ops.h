/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Between the files of operations, and for kvfs.c. */
#ifndef SNIC_KVFS_OPS_H
#define SNIC_KVFS_OPS_H

#include "kvfs/session.h"

/* ---- entry.c: names in directories ---- */

struct kvfs_found {
    uint64_t ino;
    uint32_t type;
    struct snic_fsop_hash hash;
};
/* SNIC_ENOENT; SNIC_ENAMETOOLONG; the caller checks for SNIC_ENOTDIR. */
int kvfs_entry_get(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size,
                   struct kvfs_found *out);
void kvfs_entry_prefetch(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size);
void kvfs_entry_key(const struct snic_kvfs *k, uint64_t dir, const char *name, uint32_t size,
                    struct snic_kvop_key *key, struct snic_fsop_hash *hash);
/* The same with a key of kvfs_entry_key(). */
int kvfs_entry_get_at(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                      uint32_t size, struct kvfs_found *out);
int kvfs_entry_peek_cached(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                           uint32_t size, struct kvfs_found *out);
int kvfs_entry_put_at(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                      uint32_t size, uint64_t ino, uint32_t type);
/* Adds a name, or replaces (ino, type) of an existing one. */
int kvfs_entry_put(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size, uint64_t ino,
                   uint32_t type);
int kvfs_entry_delete(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size);
/* 1: ".", 2: "..", else 0. */
static inline int kvfs_name_dots(const char *name, uint32_t size)
{
    if (size == 0 || size > 2 || name[0] != '.' || name[size - 1] != '.')
        return 0;
    return (int)size;
}
/* The hash of a name in this file system. */
struct snic_fsop_hash kvfs_name_hash(const struct kvfs_op *op, const char *name, uint32_t size);
/* A name to be made: 0; SNIC_ENOENT empty; SNIC_ENAMETOOLONG; SNIC_EINVAL '/' or 0 in it. */
int kvfs_name_check(const char *name, uint32_t size);
/* The attributes of an inode that an entry names: SNIC_ENOENT is kvfs_retry_torn(). */
int kvfs_get_named(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);

/* ---- cred.c, perm.c: permissions ---- */

/* 1: no check of permissions: a CHECKED request, or the engine's own. */
static inline int kvfs_is_privileged(const struct kvfs_op *op)
{
    return op->req == NULL || (op->req->flags & SNIC_FSOP_CHECKED) != 0;
}
enum { KVFS_MAY_EXEC = 1, KVFS_MAY_WRITE = 2, KVFS_MAY_READ = 4 };
/* Mode bits and ACL; 0 at once for requests that were CHECKED. 0; KVFS_PENDING; SNIC_EACCES. */
int kvfs_may(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want);
/* Permission to remove an entry of `dir` for `victim`: write, search, sticky. */
int kvfs_may_delete(struct kvfs_op *op, const struct snic_fsop_attr *dir,
                    const struct snic_fsop_attr *victim);
int kvfs_is_owner(const struct kvfs_op *op, const struct snic_fsop_attr *a); /* or uid 0 */
int kvfs_in_group(const struct kvfs_op *op, uint32_t gid);
/*
 * Owner, group (setgid directories), mode (umask or the directory's default ACL), times of a new
 * inode below `dir`, and the ACL records it inherits (noted as changes).
 */
int kvfs_make_attr(struct kvfs_op *op, const struct snic_fsop_attr *dir, uint64_t ino,
                   uint32_t mode, struct snic_fsop_attr *out);
/*
 * The mode after a write, truncation or chown, which clears setuid and setgid. Where the group may
 * not execute, setgid stays if the caller is in it or `capable` (Linux's
 * setattr_should_drop_sgid()). Directories keep theirs.
 */
uint32_t kvfs_mode_killed(const struct kvfs_op *op, const struct snic_fsop_attr *a, int capable);

/* ---- name_remove.c: the names an inode knows of itself ---- */

/* Changes of *a (nlink, first name) and of 'P' records; the caller puts *a. 0; KVFS_PENDING... */
int kvfs_name_add(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t dir,
                  struct snic_fsop_hash h);
int kvfs_name_drop(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t dir,
                   struct snic_fsop_hash h);

/* ---- xattr_store.c, acl.c ---- */

void kvfs_xattr_key(const struct kvfs_op *op, struct snic_kvop_key *key, uint64_t ino,
                    const char *name, uint32_t name_size);
/* Its value, in the operation's memory. 0; SNIC_ENODATA; KVFS_PENDING; SNIC_E*. */
int kvfs_xattr_find(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                    int guard, const void **value, uint32_t *size);
int kvfs_xattr_put(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                   const void *value, uint32_t size);
/* Name and value of a body. 0; SNIC_ECORRUPT. */
int kvfs_xattr_decode(const void *body, uint32_t body_size, const char **name, uint32_t *name_size,
                      const void **value, uint32_t *size);
/* 0; SNIC_ENODATA no record; SNIC_EEXIST another name has this hash; KVFS_PENDING; SNIC_E*. */
int kvfs_xattr_lookup(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                      int guard, const void **value, uint32_t *size);
enum { KVFS_ACL_ACCESS = 1, KVFS_ACL_DEFAULT = 2 };
int kvfs_acl_name(const char *name, uint32_t size); /* which; 0: another attribute */
int kvfs_acl_may(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want);
int kvfs_acl_inherit(struct kvfs_op *op, const struct snic_fsop_attr *dir,
                     struct snic_fsop_attr *out);
/* Changes *a and the record; the caller puts *a. Size 0, or no entries: removes it. */
int kvfs_acl_set(struct kvfs_op *op, struct snic_fsop_attr *a, int which, const void *value,
                 uint32_t size);
int kvfs_acl_get(struct kvfs_op *op, const struct snic_fsop_attr *a, int which, const void **value,
                 uint32_t *size);

/* ---- The operations, by file; each is a kvfs_run_fn ---- */

/* name.c: lookup, mknod, create, mkdir, symlink, readlink, resolve. name_remove.c: unlink, rmdir,
 * link. name_rename.c. readdir.c. */
int kvfs_run_lookup(struct kvfs_op *op);
int kvfs_run_resolve(struct kvfs_op *op);
int kvfs_run_make(struct kvfs_op *op); /* mknod, create, mkdir, symlink */
int kvfs_run_readlink(struct kvfs_op *op);
int kvfs_run_unlink(struct kvfs_op *op);
int kvfs_run_rmdir(struct kvfs_op *op);
int kvfs_run_link(struct kvfs_op *op);
int kvfs_run_rename(struct kvfs_op *op);
int kvfs_run_readdir(struct kvfs_op *op);
int kvfs_run_opendir(struct kvfs_op *op);
/* attr.c */
int kvfs_run_getattr(struct kvfs_op *op);
int kvfs_run_setattr(struct kvfs_op *op); /* size: kvfs_truncate() of data.c */
int kvfs_run_access(struct kvfs_op *op);
/* xattr.c, acl.c */
int kvfs_run_setxattr(struct kvfs_op *op);
int kvfs_run_getxattr(struct kvfs_op *op);
int kvfs_run_listxattr(struct kvfs_op *op);
int kvfs_run_removexattr(struct kvfs_op *op);
/* open.c: open, release, flush, fsync. data_read.c, data_write.c, data_space.c */
int kvfs_run_open(struct kvfs_op *op);
int kvfs_run_release(struct kvfs_op *op);
int kvfs_run_flush(struct kvfs_op *op);
int kvfs_run_fsync(struct kvfs_op *op); /* and syncfs */
int kvfs_run_read(struct kvfs_op *op);
int kvfs_run_write(struct kvfs_op *op);
int kvfs_run_fallocate(struct kvfs_op *op);
int kvfs_run_seek(struct kvfs_op *op);
int kvfs_run_copy(struct kvfs_op *op);
int kvfs_run_statfs(struct kvfs_op *op);
/*
 * Change the size as part of another operation, which has the exclusive lock and *a from
 * kvfs_get_attr(), with its times and mode as they are to be; puts *a and commits, as a step of its
 * own (data_priv.h). Once 0, it stays 0, with the new *a. File capabilities are removed.
 */
int kvfs_truncate(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t size, uint32_t step);
/* locks.c */
int kvfs_run_getlk(struct kvfs_op *op);
int kvfs_run_setlk(struct kvfs_op *op);
int kvfs_run_flock(struct kvfs_op *op);
/* A request ends without its function: it stops waiting for a lock. */
void kvfs_locks_stop_waiting(struct kvfs_op *op);

#endif /* SNIC_KVFS_OPS_H */
