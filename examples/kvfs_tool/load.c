/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A folder of this host into the file system, without a mount: files with holes, links, devices,
 * owners, modes, times, extended attributes. Directories get their times when all is in them.
 */
#include "tool.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Each folder takes two bytes of a path at least. */
enum { LOAD_LINKS_FIRST = 1024, LOAD_PATH_MAX = PATH_MAX - 1, LOAD_DEPTH = PATH_MAX / 2 };
/* The log's lines have 1023 bytes: of a longer path the end is printed. */
enum { LOAD_SHOWN = 300 };

/* A file with several names that has been met. */
struct load_link {
    uint64_t dev;
    uint64_t ino; /* on the host */
    uint64_t as;  /* in the file system */
};

struct load {
    struct kt *t;
    unsigned char *data; /* SNIC_FSOP_IO_MAX */
    struct load_link *links;
    size_t links_used;
    size_t links_room; /* a power of two */
    uint64_t dirs[LOAD_DEPTH];
    uint64_t files;
    uint64_t bytes;
    uint64_t skipped;
};

/* ---- Hard links: an open-addressed table ---- */

static size_t load_slot(const struct load *l, uint64_t dev, uint64_t ino)
{
    size_t i = (size_t)((dev * 0x9e3779b97f4a7c15u ^ ino) * 0x9e3779b97f4a7c15u >> 20);

    while (l->links[i & (l->links_room - 1)].as != 0 &&
           (l->links[i & (l->links_room - 1)].dev != dev ||
            l->links[i & (l->links_room - 1)].ino != ino))
        i++;
    return i & (l->links_room - 1);
}

static int load_grow(struct load *l)
{
    struct load_link *old = l->links;
    size_t room = l->links_room;

    l->links_room = room == 0 ? LOAD_LINKS_FIRST : room * 2;
    l->links = calloc(l->links_room, sizeof(*l->links));
    if (l->links == NULL) {
        l->links = old;
        l->links_room = room;
        return SNIC_ENOMEM;
    }
    for (size_t i = 0; i < room; i++)
        if (old[i].as != 0)
            l->links[load_slot(l, old[i].dev, old[i].ino)] = old[i];
    free(old);
    return 0;
}

static int load_remember(struct load *l, const struct stat *st, uint64_t as)
{
    size_t i;

    if (l->links_used * 2 >= l->links_room && load_grow(l) != 0)
        return SNIC_ENOMEM;
    i = load_slot(l, st->st_dev, st->st_ino);
    l->links_used += l->links[i].as == 0;
    l->links[i] = (struct load_link){st->st_dev, st->st_ino, as};
    return 0;
}

/* ---- One file ---- */

static struct snic_fsop_time load_time(const struct timespec *t)
{
    return (struct snic_fsop_time){.sec = t->tv_sec, .nsec = (uint32_t)t->tv_nsec};
}

static int load_attr(struct load *l, uint64_t ino, const struct stat *st)
{
    struct snic_fsop q = {.kind = SNIC_FSOP_SETATTR, .flags = SNIC_FSOP_CHECKED, .ino = ino};
    int rc;

    q.set_mask = SNIC_FSOP_SET_UID | SNIC_FSOP_SET_GID;
    q.attr.uid = st->st_uid;
    q.attr.gid = st->st_gid;
    rc = (int)snic_fs_call(l->t->s.fs, &q);
    if (rc != 0)
        return rc;
    /* The mode behind the owner: a change of owner takes setuid and setgid. */
    q = (struct snic_fsop){.kind = SNIC_FSOP_SETATTR, .flags = SNIC_FSOP_CHECKED, .ino = ino};
    q.set_mask = SNIC_FSOP_SET_ATIME | SNIC_FSOP_SET_MTIME;
    if (!S_ISLNK(st->st_mode))
        q.set_mask |= SNIC_FSOP_SET_MODE;
    q.attr.mode = st->st_mode;
    q.attr.atime = load_time(&st->st_atim);
    q.attr.mtime = load_time(&st->st_mtim);
    return (int)snic_fs_call(l->t->s.fs, &q);
}

static int load_xattr(struct load *l, const char *path, uint64_t ino, const char *name)
{
    struct snic_fsop q = {.kind = SNIC_FSOP_SETXATTR, .flags = SNIC_FSOP_CHECKED, .ino = ino};
    ssize_t n = lgetxattr(path, name, l->data, SNIC_FSOP_XATTR_VALUE_MAX);
    struct snic_iov iov = {l->data, n > 0 ? (size_t)n : 0};

    if (n < 0)
        return errno == ENODATA || errno == EPERM ? 0 : snic_error_from_os(errno);
    q.name = name;
    q.name_size = (uint32_t)strlen(name);
    q.iov = &iov;
    q.iov_count = 1;
    q.length = iov.size;
    return (int)snic_fs_call(l->t->s.fs, &q);
}

static int load_xattrs(struct load *l, const char *path, uint64_t ino)
{
    static char names[SNIC_FSOP_XATTR_LIST_MAX];
    ssize_t n = llistxattr(path, names, sizeof(names));

    if (n < 0 && errno != ENOTSUP) /* such a file has none */
        return snic_error_from_os(errno);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        int rc = load_xattr(l, path, ino, names + at);

        if (rc != 0 && rc != SNIC_ENOTSUP && rc != SNIC_EPERM)
            return rc;
        if (rc != 0) {
            l->skipped++;
            ex_log(EX_WARNING, "%s: attribute %s was not copied: %s", path, names + at,
                   snic_strerror(rc));
        }
    }
    return 0;
}

/* The bytes of [at, end), which the host's file system reports as data. */
static int load_range(struct load *l, int fd, struct snic_fsop *w, uint64_t at, uint64_t end)
{
    while (at < end) {
        struct snic_iov iov = {l->data, SNIC_FSOP_IO_MAX};
        ssize_t n = pread(fd, l->data, (size_t)snic_min_u64(end - at, SNIC_FSOP_IO_MAX), (off_t)at);
        int64_t rc;

        if (n < 0)
            return snic_error_from_os(errno);
        if (n == 0) /* it has become shorter meanwhile */
            break;
        iov.size = (size_t)n;
        w->iov = &iov;
        w->iov_count = 1;
        w->length = iov.size;
        w->offset = at;
        rc = snic_fs_call(l->t->s.fs, w);
        if (rc < 0)
            return (int)rc;
        at += (uint64_t)rc;
        l->bytes += (uint64_t)rc;
        kt_progress(l->t, "%llu files, %llu MiB", (unsigned long long)l->files,
                    (unsigned long long)l->bytes >> 20);
    }
    return 0;
}

static int load_data(struct load *l, int fd, uint64_t ino, uint64_t handle, uint64_t size)
{
    struct snic_fsop w = {
        .kind = SNIC_FSOP_WRITE, .flags = SNIC_FSOP_CHECKED, .ino = ino, .handle = handle};
    struct snic_fsop q = {.kind = SNIC_FSOP_SETATTR, .flags = SNIC_FSOP_CHECKED, .ino = ino};
    uint64_t at = 0;
    int rc = 0;

    while (rc == 0 && at < size) {
        off_t from = lseek(fd, (off_t)at, SEEK_DATA);
        off_t to = from < 0 ? -1 : lseek(fd, from, SEEK_HOLE);

        if (from < 0 && errno == ENXIO)
            break; /* a hole to the end */
        at = to < 0 ? size : (uint64_t)to;
        rc = load_range(l, fd, &w, from < 0 || to < 0 ? 0 : (uint64_t)from, at);
    }
    q.handle = handle;
    q.set_mask = SNIC_FSOP_SET_SIZE;
    q.attr.size = size;
    return rc != 0 ? rc : (int)snic_fs_call(l->t->s.fs, &q);
}

static int load_file(struct load *l, const FTSENT *e, struct snic_fsop *q)
{
    int fd = open(e->fts_accpath, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct snic_fsop r = {.kind = SNIC_FSOP_RELEASE};
    int rc;

    if (fd < 0)
        return snic_error_from_os(errno);
    q->kind = SNIC_FSOP_CREATE;
    q->flags |= SNIC_FSOP_EXCL | SNIC_FSOP_OPEN_WRITE;
    q->mode = S_IFREG | 0600;
    rc = (int)snic_fs_call(l->t->s.fs, q);
    if (rc == 0) {
        rc = load_data(l, fd, q->attr.ino, q->handle, (uint64_t)e->fts_statp->st_size);
        r.ino = q->attr.ino;
        r.handle = q->handle;
        (void)snic_fs_call(l->t->s.fs, &r);
    }
    close(fd);
    return rc;
}

static int load_other(struct load *l, const FTSENT *e, struct snic_fsop *q)
{
    const struct stat *st = e->fts_statp;
    ssize_t n;

    if (S_ISLNK(st->st_mode)) {
        n = readlink(e->fts_accpath, (char *)l->data, SNIC_FSOP_SYMLINK_MAX);
        if (n < 0)
            return snic_error_from_os(errno);
        q->kind = SNIC_FSOP_SYMLINK;
        q->name2 = (const char *)l->data;
        q->name2_size = (uint32_t)n;
    } else if (S_ISDIR(st->st_mode)) {
        q->kind = SNIC_FSOP_MKDIR;
        q->mode = 0700;
    } else {
        q->kind = SNIC_FSOP_MKNOD;
        q->mode = st->st_mode;
        q->rdev = st->st_rdev;
    }
    return (int)snic_fs_call(l->t->s.fs, q);
}

/* A name in the directory above. */
static int load_one(struct load *l, const FTSENT *e)
{
    struct snic_fsop q = {
        .flags = SNIC_FSOP_CHECKED, .name = e->fts_name, .name_size = e->fts_namelen};
    const struct stat *st = e->fts_statp;
    int several = st->st_nlink > 1 && !S_ISDIR(st->st_mode);
    int rc;

    q.ino = l->dirs[e->fts_level - 1];
    if (several && l->links_used > 0) {
        const struct load_link *k = &l->links[load_slot(l, st->st_dev, st->st_ino)];

        if (k->as != 0) {
            q.kind = SNIC_FSOP_LINK;
            q.name2 = q.name;
            q.name2_size = q.name_size;
            q.ino2 = q.ino;
            q.ino = k->as;
            return (int)snic_fs_call(l->t->s.fs, &q);
        }
    }
    rc = S_ISREG(st->st_mode) ? load_file(l, e, &q) : load_other(l, e, &q);
    if (rc == SNIC_EEXIST && S_ISDIR(st->st_mode)) { /* into a directory that is there */
        q.kind = SNIC_FSOP_LOOKUP;
        rc = (int)snic_fs_call(l->t->s.fs, &q);
        if (rc == 0 && !S_ISDIR(q.attr.mode))
            rc = SNIC_ENOTDIR;
    }
    if (rc == 0 && several)
        rc = load_remember(l, st, q.attr.ino);
    if (rc == 0 && S_ISDIR(st->st_mode))
        l->dirs[e->fts_level] = q.attr.ino;
    if (rc == 0)
        rc = load_xattrs(l, e->fts_accpath, q.attr.ino);
    if (rc == 0 && !S_ISDIR(st->st_mode))
        rc = load_attr(l, q.attr.ino, st);
    return rc;
}

/* ---- The tree ---- */

static int load_entry(struct load *l, const FTSENT *e)
{
    switch (e->fts_info) {
    case FTS_D:
        SNIC_ASSERT(e->fts_level < LOAD_DEPTH);
        if (e->fts_level == 0) /* the folder itself is PATH */
            return 0;
        l->files++;
        return load_one(l, e);
    case FTS_DP:
        return load_attr(l, l->dirs[e->fts_level], e->fts_statp);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return snic_error_from_os(e->fts_errno);
    default:
        l->files++;
        return load_one(l, e);
    }
}

static void load_failed(const struct load *l, const FTSENT *e, size_t from, int rc)
{
    const char *to = l->t->argc > 1 ? l->t->argv[1] : "/";
    const char *below = e->fts_level == 0 ? "" : e->fts_path + from;
    const char *path = e->fts_path;
    size_t size = strlen(path);
    int n = (int)strlen(to);

    below += strspn(below, "/");
    while (n > 0 && to[n - 1] == '/')
        n--;
    kt_progress_end(l->t);
    path += size > LOAD_SHOWN ? size - LOAD_SHOWN : 0;
    below += strlen(below) > LOAD_SHOWN ? strlen(below) - LOAD_SHOWN : 0;
    if (rc == SNIC_ENAMETOOLONG && size > LOAD_PATH_MAX)
        ex_log(EX_ERROR,
               "...%s: the path has %zu bytes, the maximum is %d: load a folder further down by "
               "itself",
               path, size, LOAD_PATH_MAX);
    else if (rc == SNIC_EEXIST)
        ex_log(EX_ERROR, "%.*s/%s: exists already in the store: not overwritten", n, to, below);
    else
        ex_log(EX_ERROR, "cannot copy %s to %.*s/%s in the store: %s", path, n, to, below,
               snic_strerror(rc));
}

static int load_tree(struct load *l, char *from)
{
    char *const paths[] = {from, NULL};
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *e;
    int rc = 0;

    if (fts == NULL)
        return snic_error_from_os(errno);
    while (rc == 0 && (errno = 0, e = fts_read(fts)) != NULL) {
        rc = load_entry(l, e);
        if (rc != 0)
            load_failed(l, e, strlen(from), rc);
        kt_progress(l->t, "%llu files, %llu MiB", (unsigned long long)l->files,
                    (unsigned long long)l->bytes >> 20);
    }
    if (rc == 0 && errno != 0)
        rc = snic_error_from_os(errno);
    (void)fts_close(fts);
    return rc;
}

static int load_run(struct kt *t, struct load *l)
{
    const char *to = t->argc > 1 ? t->argv[1] : "/";
    struct snic_fsop_attr a;
    int status = kt_open(t, 1);
    int ended;
    int rc;

    if (status != 0)
        return status;
    l->t = t;
    rc = kt_resolve(t, to, &a);
    if (rc == 0 && !S_ISDIR(a.mode))
        rc = SNIC_ENOTDIR;
    if (rc != 0) {
        ex_log(EX_ERROR, "%s in the store: %s", to, snic_strerror(rc));
    } else {
        l->dirs[0] = a.ino;
        rc = load_tree(l, t->argv[0]);
    }
    kt_progress_end(t);
    ended = snic_fs_unmount(t->s.fs);
    if (ended != 0)
        ex_log(EX_ERROR, "%s: %s", t->s.spec, snic_strerror(ended));
    if (rc == 0 && ended == 0)
        (void)printf("%llu files, %llu bytes\n", (unsigned long long)l->files,
                     (unsigned long long)l->bytes);
    if (l->skipped != 0)
        ex_log(EX_WARNING, "%llu attributes were not copied", (unsigned long long)l->skipped);
    return rc != 0 || ended != 0 ? 1 : 0;
}

int kt_load(struct kt *t)
{
    struct load *l = calloc(1, sizeof(*l));
    struct stat st;
    int status = 1;

    if (stat(t->argv[0], &st) != 0)
        ex_log(EX_ERROR, "cannot load %s: %s", t->argv[0], strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        ex_log(EX_ERROR, "cannot load %s: not a directory", t->argv[0]);
    else if (l == NULL || (l->data = malloc(SNIC_FSOP_IO_MAX)) == NULL || load_grow(l) != 0)
        ex_log(EX_ERROR, "out of memory for the copy");
    else
        status = load_run(t, l);
    if (l != NULL) {
        free(l->links);
        free(l->data);
    }
    free(l);
    return status;
}
