/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What is not there yet: each of these yields to the function of the same name, and goes with it.
 */
#include "kvfs/core.h"

#define SNIC_KVFS__PENDING(name)                                                                   \
    __attribute__((weak)) int name(struct kvfs_op *op)                                             \
    {                                                                                              \
        (void)op;                                                                                  \
        return SNIC_ENOTSUP;                                                                       \
    }
SNIC_KVFS__PENDING(kvfs_run_unlink)
SNIC_KVFS__PENDING(kvfs_run_rmdir)
SNIC_KVFS__PENDING(kvfs_run_link)
SNIC_KVFS__PENDING(kvfs_run_rename)
SNIC_KVFS__PENDING(kvfs_run_readdir)
SNIC_KVFS__PENDING(kvfs_run_opendir)
SNIC_KVFS__PENDING(kvfs_run_getattr)
SNIC_KVFS__PENDING(kvfs_run_setattr)
SNIC_KVFS__PENDING(kvfs_run_access)
SNIC_KVFS__PENDING(kvfs_run_setxattr)
SNIC_KVFS__PENDING(kvfs_run_getxattr)
SNIC_KVFS__PENDING(kvfs_run_listxattr)
SNIC_KVFS__PENDING(kvfs_run_removexattr)
SNIC_KVFS__PENDING(kvfs_run_open)
SNIC_KVFS__PENDING(kvfs_run_release)
SNIC_KVFS__PENDING(kvfs_run_flush)
SNIC_KVFS__PENDING(kvfs_run_fsync)
SNIC_KVFS__PENDING(kvfs_run_read)
SNIC_KVFS__PENDING(kvfs_run_write)
SNIC_KVFS__PENDING(kvfs_run_fallocate)
SNIC_KVFS__PENDING(kvfs_run_seek)
SNIC_KVFS__PENDING(kvfs_run_copy)
SNIC_KVFS__PENDING(kvfs_run_statfs)
SNIC_KVFS__PENDING(kvfs_run_getlk)
SNIC_KVFS__PENDING(kvfs_run_setlk)
SNIC_KVFS__PENDING(kvfs_run_flock)
SNIC_KVFS__PENDING(kvfs_run_collect)
SNIC_KVFS__PENDING(kvfs_intent_commit)

__attribute__((weak)) int kvfs_intent_resolve(struct kvfs_op *op, const struct snic_kvop_key *key,
                                              const void *raw, uint32_t raw_size,
                                              const void **record, uint32_t *size)
{
    (void)op, (void)key, (void)raw, (void)raw_size, (void)record, (void)size;
    return SNIC_ENOTSUP;
}
__attribute__((weak)) size_t kvfs_locks_memsize(const struct snic_kvfs_opts *o)
{
    (void)o;
    return 64;
}
__attribute__((weak)) void kvfs_locks_init(struct kvfs_locks *locks, const struct snic_kvfs_opts *o)
{
    (void)locks, (void)o;
}
__attribute__((weak)) void kvfs_times_merge(const struct snic_kvfs *k, struct snic_kvfs_attr *a)
{
    (void)k, (void)a;
}
__attribute__((weak)) void kvfs_times_written(struct snic_kvfs *k, const struct snic_kvfs_attr *a)
{
    (void)k, (void)a;
}
__attribute__((weak)) void kvfs_cache_drop(struct snic_kvfs *k)
{
    (void)k;
}

__attribute__((weak)) void kvfs_session_init(struct snic_kvfs *k)
{
    (void)k;
}
__attribute__((weak)) int kvfs_session_gate(struct kvfs_op *op)
{
    return op->k->session.mounted ? 0 : SNIC_EIO;
}
__attribute__((weak)) void kvfs_session_advance(struct snic_kvfs *k)
{
    (void)k;
}
__attribute__((weak)) uint64_t kvfs_session_deadline(const struct snic_kvfs *k)
{
    (void)k;
    return SNIC_NEVER;
}
__attribute__((weak)) int kvfs_session_range(struct kvfs_op *op, uint64_t first, uint64_t count)
{
    (void)op, (void)first, (void)count;
    return 0;
}

__attribute__((weak)) int kvfs_run_mkfs(struct kvfs_op *op)
{
    struct snic_kvfs_super s = {.version = SNIC_KVFS_VERSION, .seed = 1};
    struct snic_kvfs_attr root = {.mode = KVFS_IFDIR | 0755, .nlink = 2};
    unsigned char record[SNIC_KVFS_SUPER_BYTES], next[8];
    struct snic_kvop_key key;
    int rc;
    snic_kvfs_super_encode(record, &s);
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    rc = kvfs_put(op, &key, record + SNIC_KVFS_HEAD, sizeof(record) - SNIC_KVFS_HEAD);
    snic_put_le64(next, 2);
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    rc |= kvfs_put(op, &key, next, sizeof(next));
    rc |= kvfs_put_attr(op, &root);
    return rc != 0 ? SNIC_ENOMEM : kvfs_commit(op, 1);
}

__attribute__((weak)) int kvfs_run_mount(struct kvfs_op *op)
{
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    int rc;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    rc = kvfs_peek(op, &key, &body, &size);
    if (rc == 0)
        rc = snic_kvfs_super_decode(&op->k->session.super,
                                    (const unsigned char *)body - SNIC_KVFS_HEAD,
                                    size + SNIC_KVFS_HEAD);
    if (rc == 0) {
        op->k->session.mounted = 1;
        op->k->session.alone = 1;
    }
    return rc;
}

__attribute__((weak)) int kvfs_run_unmount(struct kvfs_op *op)
{
    op->k->session.mounted = 0;
    op->k->session.alone = 0;
    return 0;
}

__attribute__((weak)) struct snic_kvfs_time kvfs_time(const struct kvfs_op *op)
{
    return (struct snic_kvfs_time){.sec = op->now.wall_ns / 1000000000,
                                   .nsec = (uint32_t)(op->now.wall_ns % 1000000000)};
}
__attribute__((weak)) int kvfs_may(struct kvfs_op *op, const struct snic_kvfs_attr *a,
                                   uint32_t want)
{
    (void)op, (void)a, (void)want;
    return 0;
}
__attribute__((weak)) int kvfs_make_attr(struct kvfs_op *op, const struct snic_kvfs_attr *dir,
                                         uint64_t ino, uint32_t mode, struct snic_kvfs_attr *out)
{
    (void)dir;
    memset(out, 0, sizeof(*out));
    out->ino = ino;
    out->mode = mode;
    out->nlink = (mode & KVFS_IFMT) == KVFS_IFDIR ? 2 : 1;
    out->uid = op->req->cred.uid;
    out->gid = op->req->cred.gid;
    out->atime = out->mtime = out->ctime = out->btime = kvfs_time(op);
    return 0;
}

__attribute__((weak)) int kvfs_truncate(struct kvfs_op *op, struct snic_kvfs_attr *a, uint64_t size,
                                        uint32_t phase)
{
    int rc;
    (void)phase;
    a->size = size;
    rc = kvfs_put_attr(op, a);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}
__attribute__((weak)) int kvfs_orphan(struct kvfs_op *op, const struct snic_kvfs_attr *a)
{
    struct snic_kvop_key key;
    snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_ATTR);
    return kvfs_delete(op, &key);
}
__attribute__((weak)) int kvfs_keep_times(struct kvfs_op *op, const struct snic_kvfs_attr *a)
{
    (void)op, (void)a;
    return 0;
}
__attribute__((weak)) void kvfs_times_forget(struct snic_kvfs *k, uint64_t ino)
{
    (void)k, (void)ino;
}

__attribute__((weak)) int kvfs_locks_publish(struct kvfs_op *op)
{
    (void)op;
    return 0;
}
int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session);
__attribute__((weak)) int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session)
{
    (void)op, (void)session;
    return 0;
}

#undef SNIC_KVFS__PENDING
__attribute__((weak)) int kvfs_locks_drop(struct kvfs_op *op, uint64_t ino, uint64_t owner,
                                          uint32_t kinds)
{
    (void)op, (void)ino, (void)owner, (void)kinds;
    return 0;
}
