/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_pass [OPTION...] DIRECTORY MOUNTPOINT
 *
 * A FUSE file system that passes all requests through to DIRECTORY: the baseline for KVFS. It uses
 * libfuse's low-level interface, several threads, splice, 1 MiB writes and the time-outs of
 * kvfs_mount; it copies data only into the bounce buffer that O_DIRECT needs.
 *
 * 1. Each inode that the kernel references has an O_PATH descriptor and is found by (dev, ino). An
 *    open descriptor keeps the file system below from reusing the inode number. When three quarters
 *    of the descriptor limit are used, an inode has a file handle instead (name_to_handle_at).
 * 2. The kernel checks permissions (default_permissions), so requests run as root. Only those that
 *    create a file run with the caller's uid and gid (setfsuid, setfsgid). They keep
 *    CAP_DAC_OVERRIDE and CAP_FSETID, because the caller's supplementary groups are not set here.
 * 3. The kernel keeps the locks, for this mount only.
 */
#include "kvfs_pass.h"

struct pass_mount pass;

static __thread int pass_own_umask; /* this thread has a umask of its own */

struct pass_path {
    char text[40];
};

static struct pass_path pass_path(int fd)
{
    struct pass_path p;
    snprintf(p.text, sizeof(p.text), "/proc/self/fd/%d", fd);
    return p;
}

/* Open the file of an O_PATH descriptor with @flags. */
int pass_reopen(int fd, int flags)
{
    char name[16];
    snprintf(name, sizeof(name), "%d", fd);
    return openat(pass.proc, name, (flags & ~O_NOFOLLOW) | O_CLOEXEC);
}

void pass_reply_rc(fuse_req_t req, int rc)
{
    fuse_reply_err(req, rc == -1 ? errno : 0);
}

/* ---- Inodes ---- */

static struct pass_shard *pass_shard(uint64_t ino, uint64_t dev)
{
    return &pass.shards[((ino ^ dev) * 0x9E3779B97F4A7C15U >> 40) % PASS_SHARDS];
}

int pass_open_handle(struct pass_inode *i)
{
    /* The last PASS_TURNS descriptors + 1, 0: none. The caller does not close its descriptor. */
    static __thread int recent[PASS_TURNS], at;
    struct pass_shard *s = pass_shard(i->ino, i->dev);
    struct pass_handle h = {.file = {.handle_bytes = 0}};
    pthread_mutex_lock(&s->mutex);
    if (i->handle) {
        h = *i->handle;
    }
    pthread_mutex_unlock(&s->mutex);
    at = (at + 1) % PASS_TURNS;
    if (recent[at]) {
        close(recent[at] - 1);
    }
    int fd = open_by_handle_at(pass.below, &h.file, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    recent[at] = fd + 1;
    return fd;
}

/* Store the descriptor in the inode, or a file handle when fds_max is reached. Consumes fd. */
static void pass_adopt(struct pass_inode *i, int fd)
{
    int id;
    if (__atomic_add_fetch(&pass.fds, 1, __ATOMIC_RELAXED) <= pass.fds_max) {
        __atomic_store_n(&i->fd, fd, __ATOMIC_RELEASE);
        return;
    }
    __atomic_sub_fetch(&pass.fds, 1, __ATOMIC_RELAXED);
    if (!i->handle) {
        i->handle = calloc(1, sizeof(*i->handle));
    }
    if (i->handle) {
        i->handle->file.handle_bytes = MAX_HANDLE_SZ;
        if (name_to_handle_at(fd, "", &i->handle->file, &id, AT_EMPTY_PATH) == -1) {
            i->handle->file.handle_bytes = 0; /* opening it will fail */
        }
    }
    close(fd);
}

/* The inode of *st, with one lookup more. Consumes fd unless it is -1. NULL: out of memory, or with
 * fd -1 no such inode, or one without a descriptor, whose number another file may have by now. */
static struct pass_inode *pass_get(const struct stat *st, int fd)
{
    struct pass_shard *s = pass_shard(st->st_ino, st->st_dev);
    pthread_mutex_lock(&s->mutex);
    struct pass_inode *i = s->first;
    while (i && (i->ino != st->st_ino || i->dev != st->st_dev)) {
        i = i->next;
    }
    if (i && i->fd == -1 && fd == -1) {
        i = NULL;
    } else if (i) {
        i->lookups++;
        if (i->fd == -1) {
            pass_adopt(i, fd);
            fd = -1;
        }
    } else if (fd != -1 && (i = calloc(1, sizeof(*i))) != NULL) {
        *i = (struct pass_inode){.next = s->first,
                                 .lookups = 1,
                                 .ino = st->st_ino,
                                 .dev = st->st_dev,
                                 .fd = -1,
                                 .mode = st->st_mode};
        s->first = i;
        pass_adopt(i, fd);
        fd = -1;
    }
    pthread_mutex_unlock(&s->mutex);
    if (fd != -1) {
        close(fd);
    }
    return i;
}

void pass_put(fuse_ino_t ino, uint64_t lookups)
{
    struct pass_inode *i = pass_of(ino);
    if (i == &pass.root) {
        return;
    }
    struct pass_shard *s = pass_shard(i->ino, i->dev);
    pthread_mutex_lock(&s->mutex);
    i->lookups -= lookups;
    int gone = i->lookups == 0;
    if (gone) {
        struct pass_inode **at = &s->first;
        while (*at != i) {
            at = &(*at)->next;
        }
        *at = i->next;
    }
    pthread_mutex_unlock(&s->mutex);
    if (gone) {
        if (i->fd != -1) {
            close(i->fd);
            __atomic_sub_fetch(&pass.fds, 1, __ATOMIC_RELAXED);
        }
        free(i->handle);
        free(i);
    }
}

/* @return 0 or an errno */
int pass_find(int dir, const char *name, struct fuse_entry_param *e)
{
    memset(e, 0, sizeof(*e));
    e->attr_timeout = e->entry_timeout = pass.timeout;
    if (fstatat(dir, name, &e->attr, AT_SYMLINK_NOFOLLOW) == -1) {
        return errno;
    }
    struct pass_inode *i = pass_get(&e->attr, -1);
    if (!i) {
        int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd == -1) {
            return errno;
        }
        if (fstatat(fd, "", &e->attr, AT_EMPTY_PATH) == -1) {
            int rc = errno;
            close(fd);
            return rc;
        }
        i = pass_get(&e->attr, fd);
        if (!i) {
            return ENOMEM;
        }
    }
    e->ino = (uintptr_t)i;
    return 0;
}

static void pass_reply_entry(fuse_req_t req, int dir, const char *name)
{
    struct fuse_entry_param e;
    int rc = pass_find(dir, name, &e);
    if (rc) {
        fuse_reply_err(req, rc);
    } else {
        fuse_reply_entry(req, &e);
    }
}

static void pass_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param e;
    int rc = pass_find(pass_fd(parent), name, &e);
    if (rc == ENOENT && pass.timeout > 0) { /* a negative entry, which the kernel caches */
        memset(&e, 0, sizeof(e));
        e.entry_timeout = pass.timeout;
        rc = 0;
    }
    if (rc) {
        fuse_reply_err(req, rc);
    } else {
        fuse_reply_entry(req, &e);
    }
}

static void pass_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    pass_put(ino, lookups);
    fuse_reply_none(req);
}

static void pass_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++) {
        pass_put(forgets[i].ino, forgets[i].nlookup);
    }
    fuse_reply_none(req);
}

/* ---- The caller's identity ---- */

static void pass_capabilities(void)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];
    if (syscall(SYS_capget, &h, d) == 0) {
        d[0].effective |= d[0].permitted & (1U << CAP_DAC_OVERRIDE | 1U << CAP_FSETID |
                                            1U << CAP_DAC_READ_SEARCH | 1U << CAP_MKNOD);
        syscall(SYS_capset, &h, d);
    }
}

void pass_become(fuse_req_t req)
{
    const struct fuse_ctx *c = fuse_req_ctx(req);
    if (!pass_own_umask) {
        pass_own_umask = unshare(CLONE_FS) == 0;
    }
    umask(c->umask);
    if (c->gid) {
        setfsgid(c->gid);
    }
    if (c->uid) {
        setfsuid(c->uid);
        pass_capabilities();
    }
}

void pass_return(fuse_req_t req)
{
    const struct fuse_ctx *c = fuse_req_ctx(req);
    int rc = errno;
    if (c->uid) {
        setfsuid(0);
    }
    if (c->gid) {
        setfsgid(0);
    }
    umask(0);
    errno = rc;
}

static void pass_reply_new(fuse_req_t req, int rc, int dir, const char *name)
{
    pass_return(req);
    if (rc == -1) {
        fuse_reply_err(req, errno);
    } else {
        pass_reply_entry(req, dir, name);
    }
}

static void pass_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
    pass_become(req);
    pass_reply_new(req, mknodat(pass_fd(parent), name, mode, dev), pass_fd(parent), name);
}

static void pass_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    pass_become(req);
    pass_reply_new(req, mkdirat(pass_fd(parent), name, mode), pass_fd(parent), name);
}

static void pass_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    pass_become(req);
    pass_reply_new(req, symlinkat(target, pass_fd(parent), name), pass_fd(parent), name);
}

static void pass_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    if (linkat(pass_fd(ino), "", pass_fd(parent), name, AT_EMPTY_PATH) == -1) {
        fuse_reply_err(req, errno);
    } else {
        pass_reply_entry(req, pass_fd(parent), name);
    }
}

static void pass_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    pass_reply_rc(req, unlinkat(pass_fd(parent), name, 0));
}

static void pass_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    pass_reply_rc(req, unlinkat(pass_fd(parent), name, AT_REMOVEDIR));
}

static void pass_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to,
                        const char *to_name, unsigned flags)
{
    pass_reply_rc(req, renameat2(pass_fd(parent), name, pass_fd(to), to_name, flags));
}

static void pass_readlink(fuse_req_t req, fuse_ino_t ino)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(pass_fd(ino), "", target, sizeof(target) - 1);
    if (n == -1) {
        fuse_reply_err(req, errno);
        return;
    }
    target[n] = 0;
    fuse_reply_readlink(req, target);
}

/* ---- Attributes ---- */

static void pass_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;
    (void)fi;
    if (fstatat(pass_fd(ino), "", &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1) {
        fuse_reply_err(req, errno);
    } else {
        fuse_reply_attr(req, &st, pass.timeout);
    }
}

static struct timespec pass_time(int set, int valid, int now, struct timespec value)
{
    if (set & now) {
        return (struct timespec){.tv_nsec = UTIME_NOW};
    }
    return set & valid ? value : (struct timespec){.tv_nsec = UTIME_OMIT};
}

/* @return 0 or -1 */
static int pass_set(int fd, const struct stat *attr, int set, const struct fuse_file_info *fi)
{
    struct pass_path p = pass_path(fd);
    if (set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
        uid_t uid = set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
        gid_t gid = set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;
        if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1) {
            return -1;
        }
    }
    if (set & FUSE_SET_ATTR_SIZE) {
        int rc = fi ? ftruncate(pass_file(fi), attr->st_size) : truncate(p.text, attr->st_size);
        if (rc == -1) {
            return -1;
        }
    }
    /* After chown, which clears set-id bits. */
    if (set & FUSE_SET_ATTR_MODE && chmod(p.text, attr->st_mode) == -1) {
        return -1;
    }
    if (set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
        struct timespec t[2] = {
            pass_time(set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
            pass_time(set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim)};
        return utimensat(fd, "", t, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
    }
    return 0;
}

static void pass_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int set,
                         struct fuse_file_info *fi)
{
    if (pass_set(pass_fd(ino), attr, set, fi) == -1) {
        fuse_reply_err(req, errno);
    } else {
        pass_getattr(req, ino, fi);
    }
}

static void pass_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct statvfs s;
    if (fstatvfs(pass_fd(ino), &s) == -1) {
        fuse_reply_err(req, errno);
    } else {
        fuse_reply_statfs(req, &s);
    }
}

static void pass_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                          size_t size, int flags)
{
    pass_reply_rc(req, setxattr(pass_path(pass_fd(ino)).text, name, value, size, flags));
}

static void pass_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    pass_reply_rc(req, removexattr(pass_path(pass_fd(ino)).text, name));
}

static void pass_reply_value(fuse_req_t req, const char *value, ssize_t n, size_t size)
{
    if (n == -1) {
        fuse_reply_err(req, errno);
    } else if (!size) {
        fuse_reply_xattr(req, (size_t)n);
    } else if ((size_t)n > size) {
        fuse_reply_err(req, ERANGE);
    } else {
        fuse_reply_buf(req, value, (size_t)n);
    }
}

static void pass_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    char *value = size ? malloc(size) : NULL;
    ssize_t n = getxattr(pass_path(pass_fd(ino)).text, name, value, size);
    pass_reply_value(req, value, n, size);
    free(value);
}

static void pass_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    char *list = malloc(XATTR_LIST_MAX);
    ssize_t n = listxattr(pass_path(pass_fd(ino)).text, list, XATTR_LIST_MAX), kept = 0;
    for (ssize_t i = 0, next; i < n; i = next) {
        next = i + (ssize_t)strlen(list + i) + 1;
        if (fuse_req_ctx(req)->uid == 0 || strncmp(list + i, "trusted.", 8) != 0) {
            memmove(list + kept, list + i, (size_t)(next - i));
            kept += next - i;
        }
    }
    pass_reply_value(req, list, n == -1 ? -1 : kept, size);
    free(list);
}

/* ---- Mount ---- */

static void pass_init(void *ctx, struct fuse_conn_info *c)
{
    unsigned want = FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK | FUSE_CAP_PARALLEL_DIROPS |
                    FUSE_CAP_CACHE_SYMLINKS;
    (void)ctx;
    if (pass.splice) {
        want |= FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE;
    } else {
        c->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
    }
    if (pass.writeback) {
        want |= FUSE_CAP_WRITEBACK_CACHE;
    }
    c->want |= c->capable & want;
    c->max_write = PASS_MAX_WRITE;
    c->max_background = 256;
    c->congestion_threshold = 192;
    c->time_gran = 1;
}

static struct fuse_lowlevel_ops pass_ops = {
    .init = pass_init,
    .lookup = pass_lookup,
    .forget = pass_forget,
    .forget_multi = pass_forget_multi,
    .getattr = pass_getattr,
    .setattr = pass_setattr,
    .readlink = pass_readlink,
    .mknod = pass_mknod,
    .mkdir = pass_mkdir,
    .unlink = pass_unlink,
    .rmdir = pass_rmdir,
    .symlink = pass_symlink,
    .rename = pass_rename,
    .link = pass_link,
    .statfs = pass_statfs,
    .setxattr = pass_setxattr,
    .getxattr = pass_getxattr,
    .listxattr = pass_listxattr,
    .removexattr = pass_removexattr,
};

struct pass_opts {
    char *source;
    char *mountpoint;
    int foreground;
    unsigned threads;
    int clone_fd;
    double timeout;
    int no_splice;
    int writeback;
    int help;
};

#define PASS_OPT(text, field)                                                                      \
    {                                                                                              \
        text, offsetof(struct pass_opts, field), 1                                                 \
    }
static const struct fuse_opt pass_spec[] = {
    {"--threads %u", offsetof(struct pass_opts, threads), 0},
    {"--attr-timeout %lf", offsetof(struct pass_opts, timeout), 0},
    PASS_OPT("--clone-fd", clone_fd),
    PASS_OPT("--no-splice", no_splice),
    PASS_OPT("--writeback", writeback),
    PASS_OPT("--foreground", foreground),
    PASS_OPT("-f", foreground),
    PASS_OPT("--help", help),
    FUSE_OPT_END};
#undef PASS_OPT

static int pass_argument(void *ctx, const char *arg, int key, struct fuse_args *out)
{
    struct pass_opts *o = ctx;
    (void)out;
    if (key != FUSE_OPT_KEY_NONOPT) {
        return 1;
    }
    char **to = !o->source ? &o->source : !o->mountpoint ? &o->mountpoint : NULL;
    if (!to) {
        return -1;
    }
    *to = realpath(arg, NULL);
    if (!*to) {
        perror(arg);
    }
    return *to ? 0 : -1;
}

static int pass_prepare(const struct pass_opts *o)
{
    struct rlimit most = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20}, now;
    if (setrlimit(RLIMIT_NOFILE, &most) == -1 && getrlimit(RLIMIT_NOFILE, &now) == 0) {
        now.rlim_cur = now.rlim_max;
        setrlimit(RLIMIT_NOFILE, &now);
    }
    umask(0);
    pass.timeout = o->timeout;
    pass.writeback = o->writeback;
    pass.splice = !o->no_splice;
    for (int i = 0; i < PASS_SHARDS; i++) {
        pthread_mutex_init(&pass.shards[i].mutex, NULL);
    }
    pass.root.fd = open(o->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    pass.root.lookups = 2;
    pass.below = open(o->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pass.fds_max = getrlimit(RLIMIT_NOFILE, &now) == 0 ? (long)now.rlim_cur * 3 / 4 : 512;
    return pass.root.fd == -1 || pass.below == -1 ? -1 : 0;
}

static int pass_serve(struct fuse_session *se, const struct pass_opts *o)
{
    int rc = -1;
    if (fuse_set_signal_handlers(se) == -1 || fuse_session_mount(se, o->mountpoint) == -1) {
        return -1;
    }
    if (fuse_daemonize(o->foreground) == 0 && /* forks: /proc/self is opened by the child */
        (pass.proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC)) != -1) {
        struct fuse_loop_config *c = fuse_loop_cfg_create();
        fuse_loop_cfg_set_clone_fd(c, (unsigned)o->clone_fd);
        fuse_loop_cfg_set_max_threads(c, o->threads);
        fuse_loop_cfg_set_idle_threads(c, o->threads);
        rc = fuse_session_loop_mt(se, c);
        fuse_loop_cfg_destroy(c);
    }
    fuse_session_unmount(se);
    return rc < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
    struct pass_opts o = {.threads = 8, .timeout = 1.0};
    if (fuse_opt_parse(&args, &o, pass_spec, pass_argument) == -1 || o.help || !o.mountpoint) {
        fprintf(stderr, "kvfs_pass [--threads N] [--attr-timeout S] [--clone-fd] [--no-splice] "
                        "[--writeback] [-f] [-o OPTION,...] DIRECTORY MOUNTPOINT\n");
        return 2;
    }
    fuse_opt_add_arg(&args, "-o");
    fuse_opt_add_arg(&args,
                     "default_permissions,allow_other,dev,suid,fsname=kvfs_pass,subtype=pass");
    if (pass_prepare(&o) == -1) {
        perror(o.source);
        return 1;
    }
    pass_data_ops(&pass_ops);
    struct fuse_session *se = fuse_session_new(&args, &pass_ops, sizeof(pass_ops), NULL);
    if (!se) {
        return 1;
    }
    int rc = pass_serve(se, &o);
    fuse_remove_signal_handlers(se);
    fuse_session_destroy(se);
    fuse_opt_free_args(&args);
    free(o.source);
    free(o.mountpoint);
    return rc ? 1 : 0;
}
