/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names and attributes: FUSE's requests become the engine's. ops_data.c has files and locks. */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Names ---- */

static void km_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_LOOKUP, parent);

    km_name(c, name);
    km_go(c);
}

static void km_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
    km_known_drop(fuse_req_userdata(req), ino, nlookup);
    fuse_reply_none(req);
}

static void km_op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        km_known_drop(fuse_req_userdata(req), forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

static void km_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                        dev_t rdev)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_MKNOD, parent);

    km_name(c, name);
    c->r.op.mode = mode;
    c->r.op.rdev = rdev;
    km_go(c);
}

static void km_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_MKDIR, parent);

    km_name(c, name);
    c->r.op.mode = mode;
    km_go(c);
}

static void km_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_UNLINK, parent);

    km_name(c, name);
    c->r.op.flags |= SNIC_FSOP_HOLD;
    km_go(c);
}

static void km_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_RMDIR, parent);

    km_name(c, name);
    c->r.op.flags |= SNIC_FSOP_HOLD;
    km_go(c);
}

static void km_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_SYMLINK, parent);

    km_name(c, name);
    km_name2(c, target);
    km_go(c);
}

static void km_op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_READLINK, ino);

    km_room(c, SNIC_FSOP_SYMLINK_MAX);
    km_go(c);
}

static void km_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t parent2,
                         const char *name2, unsigned flags)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_RENAME, parent);

    if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) != 0) {
        km_answer_refuse(c, EINVAL);
        return;
    }
    km_name(c, name);
    c->r.op.ino2 = parent2;
    km_name2(c, name2);
    c->r.op.flags |= SNIC_FSOP_HOLD;
    c->r.op.flags |= (flags & RENAME_NOREPLACE) != 0 ? SNIC_FSOP_RENAME_NOREPLACE : 0;
    c->r.op.flags |= (flags & RENAME_EXCHANGE) != 0 ? SNIC_FSOP_RENAME_EXCHANGE : 0;
    c->r.op.flags |= (flags & RENAME_WHITEOUT) != 0 ? SNIC_FSOP_RENAME_WHITEOUT : 0;
    km_go(c);
}

static void km_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_LINK, ino);

    c->r.op.ino2 = parent;
    km_name2(c, name);
    km_go(c);
}

/* ---- Attributes ---- */

static void km_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_GETATTR, ino);

    km_use_file(c, fi);
    km_go(c);
}

/* What a SETATTR sets; the kernel's own ctime comes along with anything. */
#define OPS_FATTR_ANY                                                                              \
    ((uint32_t)(FATTR_MODE | FATTR_UID | FATTR_GID | FATTR_SIZE | FATTR_ATIME | FATTR_MTIME |      \
                FATTR_ATIME_NOW | FATTR_MTIME_NOW))

static struct snic_fsop_time km_time(const struct timespec *t)
{
    return (struct snic_fsop_time){.sec = t->tv_sec, .nsec = (uint32_t)t->tv_nsec};
}

static void km_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int set,
                          struct fuse_file_info *fi)
{
    static const struct {
        int fuse;
        uint32_t kvfs;
    } bits[] = {
        {FUSE_SET_ATTR_MODE, SNIC_FSOP_SET_MODE},
        {FUSE_SET_ATTR_UID, SNIC_FSOP_SET_UID},
        {FUSE_SET_ATTR_GID, SNIC_FSOP_SET_GID},
        {FUSE_SET_ATTR_SIZE, SNIC_FSOP_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, SNIC_FSOP_SET_ATIME},
        {FUSE_SET_ATTR_MTIME, SNIC_FSOP_SET_MTIME},
        {FUSE_SET_ATTR_ATIME_NOW, SNIC_FSOP_SET_ATIME_NOW},
        {FUSE_SET_ATTR_MTIME_NOW, SNIC_FSOP_SET_MTIME_NOW},
        {FUSE_SET_ATTR_CTIME, SNIC_FSOP_SET_CTIME},
    };
    struct km_call *c = km_begin(req, SNIC_FSOP_SETATTR, ino);

    for (size_t i = 0; i < SNIC_COUNTOF(bits); i++)
        if ((set & bits[i].fuse) != 0)
            c->r.op.set_mask |= bits[i].kvfs;
    if ((set & FUSE_SET_ATTR_ATIME_NOW) != 0)
        c->r.op.set_mask &= ~SNIC_FSOP_SET_ATIME;
    if ((set & FUSE_SET_ATTR_MTIME_NOW) != 0)
        c->r.op.set_mask &= ~SNIC_FSOP_SET_MTIME;
    km_use_file(c, fi);
    c->r.op.attr.mode = st->st_mode;
    c->r.op.attr.uid = st->st_uid;
    c->r.op.attr.gid = st->st_gid;
    c->r.op.attr.size = (uint64_t)st->st_size;
    c->r.op.attr.atime = km_time(&st->st_atim);
    c->r.op.attr.mtime = km_time(&st->st_mtim);
    c->r.op.attr.ctime = km_time(&st->st_ctim);
    /* A change of owner clears setuid and setgid for any caller, as the kernel leaves it to us; so
       does chown(-1, -1), which comes as a request that sets nothing, and of which the kernel has
       not checked who may do it. */
    if ((c->raw & FATTR_KILL_SUIDGID) != 0 ||
        (set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0 || (c->raw & OPS_FATTR_ANY) == 0)
        km_kill(c);
    if ((c->raw & OPS_FATTR_ANY) == 0) {
        c->r.op.set_mask = 0;
        if (!km_writers_open(c->m, ino)) /* else it may be a write by one that has it open */
            c->r.op.flags &= ~SNIC_FSOP_CHECKED;
    }
    km_go(c);
}

static void km_op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    km_go(km_begin(req, SNIC_FSOP_STATFS, ino));
}

/* ---- Directories ---- */

static void km_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    km_go_open(km_begin(req, SNIC_FSOP_OPENDIR, ino));
}

/*
 * The engine's entries are larger than the kernel's: ask for as many bytes as fill the kernel's
 * buffer when names are short; those that do not fit are read again.
 */
static void km_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi, uint32_t flags)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_READDIR, ino);
    size_t factor = flags != 0 ? 2 : 6;

    c->size = (uint32_t)snic_min_u64(size, KM_DATA / 4);
    km_room(c, (size_t)snic_min_u64(c->size * factor + 2 * KM_PAGE, KM_DATA / 2));
    c->r.op.flags |= flags;
    c->r.op.offset = (uint64_t)off;
    km_use_file(c, fi);
    km_go(c);
}

static void km_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                          struct fuse_file_info *fi)
{
    km_readdir(req, ino, size, off, fi, 0);
}

static void km_op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                              struct fuse_file_info *fi)
{
    km_readdir(req, ino, size, off, fi, SNIC_FSOP_READDIR_PLUS);
}

static void km_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_RELEASEDIR, ino);

    km_use_file(c, fi);
    km_go(c);
}

static void km_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    (void)fi;
    km_go(km_begin(req, SNIC_FSOP_FSYNC, ino));
}

/* ---- Extended attributes ---- */

static void km_op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                           size_t size, int flags)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_SETXATTR, ino);

    km_name(c, name);
    if (c->r.op.cred.uid != 0 && strcmp(name, "system.posix_acl_access") == 0)
        km_kill(c); /* it clears setgid if the file's group is not one of the caller's */
    c->iov.base = (void *)(uintptr_t)value;
    c->iov.size = size;
    c->r.op.iov = &c->iov;
    c->r.op.iov_count = 1;
    c->r.op.length = size;
    c->r.op.flags |= (flags & 1) != 0 ? SNIC_FSOP_XATTR_CREATE : 0;
    c->r.op.flags |= (flags & 2) != 0 ? SNIC_FSOP_XATTR_REPLACE : 0;
    km_go(c);
}

/* The name is where the value will be: keep it behind the value's buffer. */
static void km_op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_GETXATTR, ino);
    char *kept = (char *)km_call_data(c) + KM_DATA - KM_PAGE;
    size_t n = strnlen(name, KM_PAGE - 1);

    memmove(kept, name, n);
    kept[n] = 0;
    km_name(c, kept);
    c->size = (uint32_t)snic_min_u64(size, SNIC_FSOP_XATTR_VALUE_MAX);
    if (c->size != 0)
        km_room(c, c->size);
    km_go(c);
}

static void km_op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_LISTXATTR, ino);

    c->size = (uint32_t)snic_min_u64(size, SNIC_FSOP_XATTR_LIST_MAX);
    if (c->size != 0)
        km_room(c, c->size);
    km_go(c);
}

/*
 * Before a SETATTR that takes privileges the kernel takes the file's capabilities itself, and has
 * not checked yet who may do that; the engine takes them with the SETATTR. It is the kernel that
 * asks if the caller may not: only CAP_SETFCAP may remove them. Of a file that is open for writing
 * it may be a write, before which they have to go.
 */
static int ops_kernel_takes(const struct km_call *c, uint64_t ino, const char *name)
{
    char path[32], line[128];
    unsigned long long caps = ~0ull;
    FILE *f;

    if (strcmp(name, "security.capability") != 0 || c->r.op.cred.uid == 0 ||
        km_writers_open(c->m, ino))
        return 0;
    snprintf(path, sizeof(path), "/proc/%u/status", c->r.op.cred.pid);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "CapEff: %llx", &caps) == 1)
            break;
    (void)fclose(f);
    return (caps >> CAP_SETFCAP & 1) == 0;
}

static void km_op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct km_call *c = km_begin(req, SNIC_FSOP_REMOVEXATTR, ino);

    if (ops_kernel_takes(c, ino, name)) {
        km_answer_refuse(c, 0);
        return;
    }
    km_name(c, name);
    km_go(c);
}

/* ---- What the kernel may do ---- */

/* max_read of -o, 0 none: libfuse requires the same number again in init. */
static unsigned ops_max_read(const char *options)
{
    static const char name[] = "max_read=";

    for (const char *o = options; o != NULL; o = strchr(o, ',')) {
        o += *o == ',';
        if (strncmp(o, name, sizeof(name) - 1) == 0)
            return (unsigned)strtoul(o + sizeof(name) - 1, NULL, 10);
    }
    return 0;
}

void km_init(void *userdata, struct fuse_conn_info *conn)
{
    static const unsigned want[] = {
        FUSE_CAP_ASYNC_READ,     FUSE_CAP_ASYNC_DIO,        FUSE_CAP_ATOMIC_O_TRUNC,
        FUSE_CAP_DONT_MASK,      FUSE_CAP_POSIX_ACL,        FUSE_CAP_PARALLEL_DIROPS,
        FUSE_CAP_POSIX_LOCKS,    FUSE_CAP_FLOCK_LOCKS,      FUSE_CAP_READDIRPLUS,
        FUSE_CAP_EXPORT_SUPPORT, FUSE_CAP_READDIRPLUS_AUTO, FUSE_CAP_HANDLE_KILLPRIV,
        FUSE_CAP_CACHE_SYMLINKS, FUSE_CAP_AUTO_INVAL_DATA,
    };
    struct km *m = userdata;

    conn->want = 0;
    for (size_t i = 0; i < SNIC_COUNTOF(want); i++)
        conn->want |= conn->capable & want[i];
    if (!m->config->exclusive)
        conn->want &= ~(unsigned)FUSE_CAP_CACHE_SYMLINKS;
    if (m->config->writeback)
        conn->want |= conn->capable & FUSE_CAP_WRITEBACK_CACHE;
    atomic_store(&m->writeback, (conn->want & FUSE_CAP_WRITEBACK_CACHE) != 0);
    conn->max_write = KM_DATA;
    conn->max_read = ops_max_read(m->config->options);
    conn->max_readahead = KM_DATA;
    conn->max_background = 64;
    conn->congestion_threshold = 48;
    conn->time_gran = 1;
}

const struct fuse_lowlevel_ops km_ops = {
    .init = km_init,
    .lookup = km_op_lookup,
    .forget = km_op_forget,
    .forget_multi = km_op_forget_multi,
    .getattr = km_op_getattr,
    .setattr = km_op_setattr,
    .readlink = km_op_readlink,
    .mknod = km_op_mknod,
    .mkdir = km_op_mkdir,
    .unlink = km_op_unlink,
    .rmdir = km_op_rmdir,
    .symlink = km_op_symlink,
    .rename = km_op_rename,
    .link = km_op_link,
    .open = km_op_open,
    .create = km_op_create,
    .read = km_op_read,
    .write = km_op_write,
    .flush = km_op_flush,
    .release = km_op_release,
    .fsync = km_op_fsync,
    .opendir = km_op_opendir,
    .readdir = km_op_readdir,
    .readdirplus = km_op_readdirplus,
    .releasedir = km_op_releasedir,
    .fsyncdir = km_op_fsyncdir,
    .statfs = km_op_statfs,
    .setxattr = km_op_setxattr,
    .getxattr = km_op_getxattr,
    .listxattr = km_op_listxattr,
    .removexattr = km_op_removexattr,
    .getlk = km_op_getlk,
    .setlk = km_op_setlk,
    .flock = km_op_flock,
    .fallocate = km_op_fallocate,
    .lseek = km_op_lseek,
    .copy_file_range = km_op_copy,
};
