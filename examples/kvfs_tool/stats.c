/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts of what is in the store; and looking at single files by path. */
#include "tool.h"

#include "../common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static unsigned long long number(uint64_t n)
{
    return n;
}

/* ---- stats ---- */

struct stats {
    struct kt *t;
    uint64_t records[256]; /* by kind */
    uint64_t bytes[256];
    uint64_t total;
    uint64_t damaged;
    uint64_t inodes[16]; /* by type: bits 12 to 15 of the mode */
    uint64_t file_bytes;
    uint64_t file_space;
    uint64_t big;
};

static int stats_record(void *ctx, const struct snic_kvop_key *key, const void *value,
                        uint32_t size)
{
    struct stats *s = ctx;
    int flags = snic_kvfs_verify(key, value, size);
    struct snic_fsop_attr a;

    s->records[key->bytes[0]]++;
    s->bytes[key->bytes[0]] += size;
    s->total++;
    if (flags < 0) {
        s->damaged++;
    } else if (key->bytes[0] == SNIC_KVFS_REC_ATTR && (flags & (int)SNIC_KVFS_RESERVED) == 0 &&
               snic_kvfs_attr_decode(&a, value, size) == 0) {
        s->inodes[a.mode >> 12 & 15]++;
        s->file_bytes += S_ISREG(a.mode) ? a.size : 0;
        s->file_space += S_ISREG(a.mode) ? a.space : 0;
        s->big += (a.flags & SNIC_KVFS_ATTR_BIG) != 0;
    }
    kt_progress(s->t, "%llu records", number(s->total));
    return 0;
}

static int stats_group(void *ctx, uint64_t group)
{
    struct stats *s = ctx;
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_STAT, .object = group};

    s->damaged += group <= SNIC_KVFS_INO_MAX && kt_op(s->t, &op) == SNIC_ECORRUPT;
    return 0;
}

static void stats_print(const struct stats *s)
{
    static const struct {
        unsigned kind;
        const char *name;
    } kinds[] = {
        {SNIC_KVFS_REC_ATTR, "attributes"},  {SNIC_KVFS_REC_ENTRY, "entries"},
        {SNIC_KVFS_REC_DATA, "small files"}, {SNIC_KVFS_REC_TARGET, "symlink targets"},
        {SNIC_KVFS_REC_XATTR, "xattrs"},     {SNIC_KVFS_REC_PARENT, "further names"},
        {SNIC_KVFS_REC_LOCKS, "locks"},      {SNIC_KVFS_REC_SESSION, "sessions"},
        {SNIC_KVFS_REC_ORPHAN, "orphans"},   {SNIC_KVFS_REC_INTENT, "unfinished commits"},
    };
    static const struct {
        unsigned type;
        const char *name;
    } types[] = {
        {S_IFREG >> 12, "files"},         {S_IFDIR >> 12, "directories"},
        {S_IFLNK >> 12, "symlinks"},      {S_IFIFO >> 12, "fifos"},
        {S_IFSOCK >> 12, "sockets"},      {S_IFCHR >> 12, "char devices"},
        {S_IFBLK >> 12, "block devices"},
    };

    for (size_t i = 0; i < SNIC_COUNTOF(types); i++)
        (void)printf("%-20s %12llu\n", types[i].name, number(s->inodes[types[i].type]));
    (void)printf("%-20s %12llu\n", "of files, big", number(s->big));
    (void)printf("%-20s %12llu\n", "bytes of files", number(s->file_bytes));
    (void)printf("%-20s %12llu\n", "bytes taken", number(s->file_space));
    for (size_t i = 0; i < SNIC_COUNTOF(kinds); i++)
        (void)printf("records: %-18s %10llu %14llu bytes\n", kinds[i].name,
                     number(s->records[kinds[i].kind]), number(s->bytes[kinds[i].kind]));
    (void)printf("%-20s %12llu\n", "records in all", number(s->total));
    (void)printf("%-20s %12llu\n", "damaged", number(s->damaged));
}

int kt_stats(struct kt *t)
{
    struct stats s = {.t = t};
    struct kt_walk w = {.record = stats_record, .group = stats_group, .ctx = &s};
    struct snic_kvop op = {.kind = SNIC_KVOP_SPACE};
    int status;
    int rc;

    t->s.read_only = 1;
    t->s.verify = 1;
    status = kt_open(t, 0);
    if (status != 0)
        return status;
    rc = kt_walk(t, &w);
    kt_progress_end(t);
    if (rc != 0) {
        ex_log(EX_ERROR, "%s: %s", t->s.spec, snic_strerror(rc));
        return 1;
    }
    stats_print(&s);
    if (kt_op(t, &op) >= 0)
        (void)printf("%-20s %12llu\n%-20s %12llu\n", "store bytes", number(op.space), "free",
                     number(op.space_free));
    return s.damaged > 0 ? 1 : 0;
}

/* ---- By path ---- */

/* Mount, and look up the path; errors are printed. @return 0 or exit code */
static int path_open(struct kt *t, const char *path, struct snic_fsop_attr *a)
{
    int status;
    int rc;

    t->s.read_only = 1;
    t->s.verify = 1;
    status = kt_open(t, 1);
    if (status != 0)
        return status;
    rc = kt_resolve(t, path, a);
    if (rc != 0)
        ex_log(EX_ERROR, "%s: %s", path, snic_strerror(rc));
    return rc != 0 ? 1 : 0;
}

static int path_close(struct kt *t, const char *path, int64_t rc)
{
    int ended = snic_fs_unmount(t->s.fs);

    if (rc >= 0)
        rc = ended;
    if (rc < 0)
        ex_log(EX_ERROR, "%s: %s", path, snic_strerror((int)rc));
    return rc < 0 ? 1 : 0;
}

static void path_line(const struct snic_fsop_attr *a, const char *name)
{
    static const char types[] = "?pc?d?b?-?l?s???";
    static const char rwx[] = "rwxrwxrwx";
    time_t sec = (time_t)a->mtime.sec;
    char mode[11];
    char when[32] = "";
    struct tm tm;

    mode[0] = types[a->mode >> 12 & 15];
    for (int i = 0; i < 9; i++)
        mode[i + 1] = (char)((a->mode & (0400u >> i)) != 0 ? rwx[i] : '-');
    mode[10] = 0;
    if ((a->mode & S_ISUID) != 0)
        mode[3] = (char)(mode[3] == 'x' ? 's' : 'S');
    if ((a->mode & S_ISGID) != 0)
        mode[6] = (char)(mode[6] == 'x' ? 's' : 'S');
    if ((a->mode & S_ISVTX) != 0)
        mode[9] = (char)(mode[9] == 'x' ? 't' : 'T');
    if (localtime_r(&sec, &tm) != NULL)
        (void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    (void)printf("%s %4u %5u %5u %12llu %s %8llu %s\n", mode, a->nlink, a->uid, a->gid,
                 number(a->size), when, number(a->ino), name);
}

/* One round of READDIR. @return bytes of entries, SNIC_E* */
static int64_t path_list(struct kt *t, uint64_t ino, uint64_t handle, uint64_t *cookie, void *mem,
                         size_t room)
{
    struct snic_iov iov = {mem, room};
    struct snic_fsop q = {.kind = SNIC_FSOP_READDIR,
                          .flags = SNIC_FSOP_READDIR_PLUS,
                          .ino = ino,
                          .handle = handle,
                          .offset = *cookie};
    const unsigned char *at = mem;
    int64_t n;

    q.iov = &iov;
    q.iov_count = 1;
    q.length = room;
    n = snic_fs_call(t->s.fs, &q);
    while (n > 0 && at < (const unsigned char *)mem + n) {
        const struct snic_fsop_dirent *d = (const void *)at;
        struct snic_fsop_attr a = d->attr;

        if (!d->has_attr) {
            memset(&a, 0, sizeof(a));
            a.ino = d->ino;
            a.mode = d->type;
        }
        if (d->cookie > 2) /* "." and ".." are known */
            path_line(&a, (const char *)(d + 1));
        *cookie = d->cookie;
        at += d->bytes;
    }
    return n;
}

int kt_ls(struct kt *t)
{
    const char *path = t->argc > 0 ? t->argv[0] : "/";
    struct snic_fsop q = {.kind = SNIC_FSOP_OPENDIR};
    const size_t room = 256u << 10;
    struct snic_fsop_attr a;
    uint64_t cookie = 0;
    int64_t n = SNIC_ENOMEM;
    void *mem = malloc(room);
    int status = path_open(t, path, &a);

    if (status != 0 || !S_ISDIR(a.mode)) {
        free(mem);
        if (status == 0)
            path_line(&a, path);
        return status != 0 ? status : path_close(t, path, 0);
    }
    q.ino = a.ino;
    if (mem != NULL && (n = snic_fs_call(t->s.fs, &q)) == 0) {
        while ((n = path_list(t, a.ino, q.handle, &cookie, mem, room)) > 0)
            ;
        q.kind = SNIC_FSOP_RELEASEDIR;
        (void)snic_fs_call(t->s.fs, &q);
    }
    free(mem);
    return path_close(t, path, n);
}

int kt_cat(struct kt *t)
{
    struct snic_fsop q = {.kind = SNIC_FSOP_OPEN, .flags = SNIC_FSOP_OPEN_READ};
    struct snic_iov iov = {malloc(SNIC_FSOP_IO_MAX), SNIC_FSOP_IO_MAX};
    struct snic_fsop_attr a;
    int status = path_open(t, t->argv[0], &a);
    int64_t n = iov.base != NULL ? 0 : SNIC_ENOMEM;

    if (status == 0 && n == 0) {
        q.ino = a.ino;
        n = S_ISDIR(a.mode) ? SNIC_EISDIR : snic_fs_call(t->s.fs, &q);
    }
    if (status == 0 && n == 0) {
        struct snic_fsop r = {.kind = SNIC_FSOP_READ, .ino = a.ino, .handle = q.handle};

        do {
            r.iov = &iov;
            r.iov_count = 1;
            r.length = iov.size;
            n = snic_fs_call(t->s.fs, &r);
            if (n > 0 && fwrite(iov.base, 1, (size_t)n, stdout) != (size_t)n)
                break;
            r.offset += n > 0 ? (uint64_t)n : 0;
        } while (n > 0);
        q.kind = SNIC_FSOP_RELEASE;
        (void)snic_fs_call(t->s.fs, &q);
    }
    free(iov.base);
    return status != 0 ? status : path_close(t, t->argv[0], n);
}

int kt_stat(struct kt *t)
{
    struct snic_fsop_attr a;
    int status = path_open(t, t->argv[0], &a);

    if (status != 0)
        return status;
    path_line(&a, t->argv[0]);
    (void)printf("space %llu, flags %x, version %llu, entries %llu, rdev %llx\n", number(a.space),
                 a.flags, number(a.version), number(a.entries), number(a.rdev));
    (void)printf("atime %lld.%09u mtime %lld.%09u ctime %lld.%09u btime %lld.%09u\n",
                 (long long)a.atime.sec, a.atime.nsec, (long long)a.mtime.sec, a.mtime.nsec,
                 (long long)a.ctime.sec, a.ctime.nsec, (long long)a.btime.sec, a.btime.nsec);
    return path_close(t, t->argv[0], 0);
}
