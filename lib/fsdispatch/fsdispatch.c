/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * nvme-fs requests to kvfs requests and back. Names, groups and data stay where the link's engine
 * has them, which is private memory, until the request is finished.
 */
#include "snicstore/fsdispatch.h"

#define SNIC_FSDISPATCH__MAX 131072U

/* The flags of both have the same bits. */
SNIC_STATIC_ASSERT(
    SNIC_NVMEFS_CHECKED == SNIC_FSOP_CHECKED && SNIC_NVMEFS_DIRECT == SNIC_FSOP_DIRECT &&
        SNIC_NVMEFS_APPEND == SNIC_FSOP_APPEND && SNIC_NVMEFS_SYNC == SNIC_FSOP_SYNC &&
        SNIC_NVMEFS_KILL_PRIV == SNIC_FSOP_KILL_PRIV &&
        SNIC_NVMEFS_READDIR_PLUS == SNIC_FSOP_READDIR_PLUS &&
        SNIC_NVMEFS_LOCK_WAIT == SNIC_FSOP_LOCK_WAIT && SNIC_NVMEFS_HOLD == SNIC_FSOP_HOLD &&
        SNIC_NVMEFS_EXCL == SNIC_FSOP_EXCL && SNIC_NVMEFS_TRUNC == SNIC_FSOP_TRUNC &&
        SNIC_NVMEFS_OPEN_READ == SNIC_FSOP_OPEN_READ &&
        SNIC_NVMEFS_OPEN_WRITE == SNIC_FSOP_OPEN_WRITE && SNIC_NVMEFS_NOATIME == SNIC_FSOP_NOATIME,
    "flags");
SNIC_STATIC_ASSERT(SNIC_NVMEFS_OWN_A == SNIC_FSOP_RENAME_NOREPLACE &&
                       SNIC_NVMEFS_OWN_B == SNIC_FSOP_RENAME_EXCHANGE &&
                       SNIC_NVMEFS_OWN_A == SNIC_FSOP_FALLOC_KEEP_SIZE &&
                       SNIC_NVMEFS_OWN_A == SNIC_FSOP_FSYNC_DATA &&
                       SNIC_NVMEFS_OWN_B == SNIC_FSOP_FALLOC_PUNCH &&
                       SNIC_NVMEFS_OWN_C == SNIC_FSOP_FALLOC_ZERO &&
                       SNIC_NVMEFS_OWN_C == SNIC_FSOP_RENAME_WHITEOUT &&
                       SNIC_NVMEFS_OWN_A == SNIC_FSOP_SEEK_DATA &&
                       SNIC_NVMEFS_OWN_B == SNIC_FSOP_SEEK_HOLE &&
                       SNIC_NVMEFS_OWN_A == SNIC_FSOP_XATTR_CREATE &&
                       SNIC_NVMEFS_OWN_B == SNIC_FSOP_XATTR_REPLACE,
                   "flags of one operation");
SNIC_STATIC_ASSERT(SNIC_NVMEFS_NAME_MAX == SNIC_FSOP_NAME_MAX &&
                       SNIC_NVMEFS_DATA_MAX == SNIC_FSOP_IO_MAX,
                   "limits");

static const uint8_t fsdispatch_kinds[SNIC_NVMEFS_OPS] = {
    [SNIC_NVMEFS_LOOKUP] = SNIC_FSOP_LOOKUP,
    [SNIC_NVMEFS_GETATTR] = SNIC_FSOP_GETATTR,
    [SNIC_NVMEFS_SETATTR] = SNIC_FSOP_SETATTR,
    [SNIC_NVMEFS_READLINK] = SNIC_FSOP_READLINK,
    [SNIC_NVMEFS_MKNOD] = SNIC_FSOP_MKNOD,
    [SNIC_NVMEFS_CREATE] = SNIC_FSOP_CREATE,
    [SNIC_NVMEFS_MKDIR] = SNIC_FSOP_MKDIR,
    [SNIC_NVMEFS_SYMLINK] = SNIC_FSOP_SYMLINK,
    [SNIC_NVMEFS_UNLINK] = SNIC_FSOP_UNLINK,
    [SNIC_NVMEFS_RMDIR] = SNIC_FSOP_RMDIR,
    [SNIC_NVMEFS_RENAME] = SNIC_FSOP_RENAME,
    [SNIC_NVMEFS_LINK] = SNIC_FSOP_LINK,
    [SNIC_NVMEFS_OPEN] = SNIC_FSOP_OPEN,
    [SNIC_NVMEFS_RELEASE] = SNIC_FSOP_RELEASE,
    [SNIC_NVMEFS_FLUSH] = SNIC_FSOP_FLUSH,
    [SNIC_NVMEFS_FSYNC] = SNIC_FSOP_FSYNC,
    [SNIC_NVMEFS_READ] = SNIC_FSOP_READ,
    [SNIC_NVMEFS_WRITE] = SNIC_FSOP_WRITE,
    [SNIC_NVMEFS_FALLOCATE] = SNIC_FSOP_FALLOCATE,
    [SNIC_NVMEFS_SEEK] = SNIC_FSOP_SEEK,
    [SNIC_NVMEFS_COPY] = SNIC_FSOP_COPY,
    [SNIC_NVMEFS_OPENDIR] = SNIC_FSOP_OPENDIR,
    [SNIC_NVMEFS_READDIR] = SNIC_FSOP_READDIR,
    [SNIC_NVMEFS_RELEASEDIR] = SNIC_FSOP_RELEASEDIR,
    [SNIC_NVMEFS_STATFS] = SNIC_FSOP_STATFS,
    [SNIC_NVMEFS_SETXATTR] = SNIC_FSOP_SETXATTR,
    [SNIC_NVMEFS_GETXATTR] = SNIC_FSOP_GETXATTR,
    [SNIC_NVMEFS_LISTXATTR] = SNIC_FSOP_LISTXATTR,
    [SNIC_NVMEFS_REMOVEXATTR] = SNIC_FSOP_REMOVEXATTR,
    [SNIC_NVMEFS_ACCESS] = SNIC_FSOP_ACCESS,
    [SNIC_NVMEFS_GETLK] = SNIC_FSOP_GETLK,
    [SNIC_NVMEFS_SETLK] = SNIC_FSOP_SETLK,
    [SNIC_NVMEFS_FLOCK] = SNIC_FSOP_FLOCK,
    [SNIC_NVMEFS_SYNCFS] = SNIC_FSOP_SYNCFS,
    [SNIC_NVMEFS_RESOLVE] = SNIC_FSOP_RESOLVE,
};

struct fsdispatch_call {
    struct snic_fs_req r;
    struct snic_fsdispatch *s;
    struct snic_nvmefslink_dpu *link;
    struct snic_nvmefs_cmd *cmd; /* NULL: free */
    struct snic_iov iov[SNIC_NVMEFS_PIECES_MAX];
};

struct snic_fsdispatch {
    struct snic_fs *fs;
    struct fsdispatch_call *calls;
    uint32_t count;
    uint32_t in_flight;
};

/* ---- There and back ---- */

static struct snic_fsop_time fsdispatch_time(int64_t sec, uint32_t nsec)
{
    return (struct snic_fsop_time){.sec = sec, .nsec = nsec};
}

int snic_fsdispatch_convert(struct snic_fsop *k, const struct snic_nvmefs_req *r)
{
    if (r->op >= SNIC_NVMEFS_OPS || fsdispatch_kinds[r->op] == 0)
        return SNIC_ENOTSUP;
    memset(k, 0, sizeof(*k));
    k->kind = fsdispatch_kinds[r->op];
    k->flags = r->flags;
    k->cred.uid = r->uid;
    k->cred.gid = r->gid;
    k->cred.pid = r->pid;
    k->cred.umask = r->umask;
    k->cred.groups = r->groups;
    k->cred.group_count = r->group_count;
    k->tenant = r->tenant;
    k->ino = r->ino;
    k->ino2 = r->ino2;
    k->name = r->name;
    k->name2 = r->name2;
    k->name_size = r->name_size;
    k->name2_size = r->name2_size;
    k->handle = r->handle;
    k->offset = r->offset;
    k->offset2 = r->offset2;
    k->length = r->length;
    k->mode = r->mode;
    k->rdev = r->rdev;
    k->set_mask = r->set_mask;
    k->lock.owner = r->lock.owner;
    k->lock.start = r->lock.start;
    k->lock.end = r->lock.end;
    k->lock.type = r->lock.type;
    k->lock.pid = r->lock.pid;
    k->attr.size = r->attr.size;
    k->attr.mode = r->attr.mode;
    k->attr.uid = r->attr.uid;
    k->attr.gid = r->attr.gid;
    k->attr.atime = fsdispatch_time(r->attr.atime_sec, r->attr.atime_nsec);
    k->attr.mtime = fsdispatch_time(r->attr.mtime_sec, r->attr.mtime_nsec);
    k->attr.ctime = fsdispatch_time(r->attr.ctime_sec, r->attr.ctime_nsec);
    return 0;
}

static void fsdispatch_answer(struct snic_nvmefs_req *r, const struct snic_fsop *k)
{
    const struct snic_fsop_attr *a = &k->attr;
    r->handle = k->handle;
    r->lock = (struct snic_nvmefs_wire_lock){k->lock.owner, k->lock.start, k->lock.end,
                                             k->lock.type, k->lock.pid};
    r->statfs = (struct snic_nvmefs_wire_statfs){k->statfs.bytes, k->statfs.bytes_free,
                                                 k->statfs.files, k->statfs.files_free};
    r->attr = (struct snic_nvmefs_attr){.ino = a->ino,
                                        .size = a->size,
                                        .space = a->space,
                                        .rdev = a->rdev,
                                        .version = a->version,
                                        .entries = a->entries,
                                        .atime_sec = a->atime.sec,
                                        .mtime_sec = a->mtime.sec,
                                        .ctime_sec = a->ctime.sec,
                                        .btime_sec = a->btime.sec,
                                        .atime_nsec = a->atime.nsec,
                                        .mtime_nsec = a->mtime.nsec,
                                        .ctime_nsec = a->ctime.nsec,
                                        .btime_nsec = a->btime.nsec,
                                        .mode = a->mode,
                                        .nlink = a->nlink,
                                        .uid = a->uid,
                                        .gid = a->gid,
                                        .flags = a->flags};
}

/** The command's data where the operation wants it. 0; SNIC_E2BIG. */
static int fsdispatch_data(struct fsdispatch_call *call, const struct snic_nvmefs_cmd *c)
{
    struct snic_fsop *k = &call->r.k;
    if (c->iov_count == 0)
        return 0;
    memcpy(call->iov, c->iov, c->iov_count * sizeof(call->iov[0]));
    switch (k->kind) {
    case SNIC_FSOP_SYMLINK:
        if (c->data_size > SNIC_FSOP_SYMLINK_MAX)
            return SNIC_ENAMETOOLONG; /* so the target is in the first chunk */
        k->name2 = call->iov[0].base;
        k->name2_size = c->data_size;
        return 0;
    case SNIC_FSOP_READDIR: /* these take one piece; less room than asked for is no error */
    case SNIC_FSOP_READLINK:
        k->iov_count = 1;
        break;
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
    case SNIC_FSOP_SETXATTR:
        if (c->iov_count > 1)
            return SNIC_E2BIG;
        k->iov_count = 1;
        break;
    default:
        k->iov_count = c->iov_count;
        break;
    }
    k->iov = call->iov;
    return 0;
}

/* ---- Requests ---- */

static void fsdispatch_done(struct snic_fs_req *r)
{
    struct fsdispatch_call *call = SNIC_CONTAINER(r, struct fsdispatch_call, r);
    struct snic_nvmefs_cmd *c = call->cmd;
    call->cmd = NULL;
    call->s->in_flight--;
    if (r->k.result >= 0)
        fsdispatch_answer(&c->req, &r->k);
    snic_nvmefslink_finish(call->link, c, SNIC_NVMEFS_STATUS_OK, r->k.result);
}

void snic_fsdispatch_request(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c)
{
    struct snic_fsdispatch *s = ctx;
    SNIC_ASSERT(c->index < s->count && s->calls[c->index].cmd == NULL);
    struct fsdispatch_call *call = &s->calls[c->index];
    if (c->req.distributed) {
        snic_nvmefslink_finish(d, c, SNIC_NVMEFS_STATUS_NO_SERVICE, 0);
        return;
    }
    if (c->req.op == SNIC_NVMEFS_FORGET) { /* kvfs counts no lookups: inodes are found by number */
        snic_nvmefslink_finish(d, c, SNIC_NVMEFS_STATUS_OK, 0);
        return;
    }
    memset(&call->r, 0, sizeof(call->r));
    int r = snic_fsdispatch_convert(&call->r.k, &c->req);
    if (r == 0)
        r = fsdispatch_data(call, c);
    if (r != 0) {
        snic_nvmefslink_finish(d, c, SNIC_NVMEFS_STATUS_OK, r);
        return;
    }
    if (call->r.k.kind == SNIC_FSOP_WRITE)
        call->r.k.length = c->data_size;
    call->cmd = c;
    call->link = d;
    call->s = s;
    call->r.done = fsdispatch_done;
    s->in_flight++;
    snic_fs_submit(s->fs, &call->r);
}

void snic_fsdispatch_cancel(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c)
{
    struct snic_fsdispatch *s = ctx;
    (void)d;
    SNIC_ASSERT(c->index < s->count);
    if (s->calls[c->index].cmd == c)
        snic_fs_cancel(s->fs, &s->calls[c->index].r);
}

/* ---- Memory ---- */

static int fsdispatch_opts(struct snic_fsdispatch_opts *o, const struct snic_fsdispatch_opts *in)
{
    *o = (struct snic_fsdispatch_opts){.opts_size = sizeof(*o)};
    int r = snic_opts_copy(o, sizeof(*o), in);
    if (r != 0)
        return r;
    return o->commands == 0 || o->commands > SNIC_FSDISPATCH__MAX ? SNIC_EINVAL : 0;
}

size_t snic_fsdispatch_memsize(const struct snic_fsdispatch_opts *o)
{
    struct snic_fsdispatch_opts copy;
    if (fsdispatch_opts(&copy, o) != 0)
        return 0;
    return sizeof(struct snic_fsdispatch) + copy.commands * sizeof(struct fsdispatch_call);
}

int snic_fsdispatch_init(struct snic_fsdispatch **out, void *mem, size_t size, struct snic_fs *fs,
                         const struct snic_fsdispatch_opts *o)
{
    struct snic_fsdispatch_opts copy;
    int r = fsdispatch_opts(&copy, o);
    if (r != 0)
        return r;
    if ((uintptr_t)mem % 16 != 0)
        return SNIC_EINVAL;
    if (size < snic_fsdispatch_memsize(&copy))
        return SNIC_ENOSPC;
    struct snic_fsdispatch *s = mem;
    memset(mem, 0, snic_fsdispatch_memsize(&copy));
    s->fs = fs;
    s->calls = (struct fsdispatch_call *)(void *)(s + 1);
    s->count = copy.commands;
    *out = s;
    return 0;
}

void *snic_fsdispatch_fini(struct snic_fsdispatch *s)
{
    SNIC_ASSERT(s->in_flight == 0);
    return s;
}

uint32_t snic_fsdispatch_in_flight(const struct snic_fsdispatch *s)
{
    return s->in_flight;
}
