/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_posix [--list] [--verbose] DIRECTORY [FAMILY...]
 *
 * What POSIX and Linux promise of a file system, tried in DIRECTORY by system calls: several
 * thousand cases in families. As root; other users' rights are tried with seteuid. Nothing here
 * knows the file system; where limits differ statfs() is used. Everything passes on ext4.
 * Prints what failed and the counts; exit code 1 when something did, 77 without root.
 */
#include "kvfs_posix.h"
#include <ftw.h>
#include <grp.h>
#include <stdarg.h>
#include <time.h>

const char *const posix_type_name[TYPES] = {"regular", "directory", "fifo",   "block",
                                            "char",    "socket",    "symlink"};
size_t posix_name_max;
int posix_is_kvfs;

static long posix_passed, posix_failed;
static char posix_context[512];
static const char *posix_family_name;
static int posix_verbose;

void posix_about(const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vsnprintf(posix_context, sizeof(posix_context), format, a);
    va_end(a);
}

int posix_check(const char *file, int line, const char *text, int ok, const char *format, ...)
{
    if (ok) {
        posix_passed++;
    } else {
        posix_failed++;
    }
    if (!ok || posix_verbose) {
        const char *base = strrchr(file, '/');
        va_list a;
        va_start(a, format);
        printf("%s %s %s:%d: %s%s%s: ", ok ? "ok" : "not ok", posix_family_name,
               base ? base + 1 : file, line, posix_context, posix_context[0] ? ": " : "", text);
        vprintf(format, a);
        printf("\n");
        fflush(stdout);
        va_end(a);
    }
    return ok;
}

int posix_error(const char *file, int line, const char *text, int expected, long result)
{
    int found = result == -1 ? errno : 0;
    int ok =
        posix_check(file, line, text, found == expected, "%s, expected %s",
                    found ? strerror(found) : "success", expected ? strerror(expected) : "success");
    errno = found;
    return ok;
}

int posix_equal(const char *file, int line, const char *text, long long expected, long long found)
{
    return posix_check(file, line, text, found == expected, "%lld (0%llo), expected %lld (0%llo)",
                       found, (unsigned long long)found, expected, (unsigned long long)expected);
}

/* ---- Times ---- */

void posix_tick(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

void posix_before(struct posix_watch *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        w[i].st = st_of(w[i].path);
    }
    posix_tick();
}

static int posix_later(struct timespec a, struct timespec b)
{
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

void posix_after(const char *file, int line, const char *text, struct posix_watch *w, size_t n)
{
    static const char which[] = "amc";
    for (size_t i = 0; i < n; i++) {
        struct stat now = st_of(w[i].then ? w[i].then : w[i].path);
        struct timespec was[] = {w[i].st.st_atim, w[i].st.st_mtim, w[i].st.st_ctim};
        struct timespec is[] = {now.st_atim, now.st_mtim, now.st_ctim};
        for (int k = 0; k < 3; k++) {
            if (strchr(w[i].change, which[k])) {
                posix_check(file, line, text, posix_later(is[k], was[k]),
                            "%ctime of %s did not advance", which[k], w[i].path);
            } else if (which[k] != 'a') {
                posix_check(file, line, text,
                            is[k].tv_sec == was[k].tv_sec && is[k].tv_nsec == was[k].tv_nsec,
                            "%ctime of %s changed", which[k], w[i].path);
            }
        }
    }
}

/* ---- Users ---- */

void user(uid_t uid, gid_t gid, gid_t more, gid_t even_more)
{
    gid_t groups[3] = {gid, more, even_more};
    size_t n = even_more ? 3 : more ? 2 : 1;
    if (seteuid(0) == -1 || setegid(0) == -1 || setgroups(n, groups) == -1 || setegid(gid) == -1 ||
        seteuid(uid) == -1) {
        perror("cannot change the user");
        exit(2);
    }
}

void root(void)
{
    user(0, 0, 0, 0);
}

/* ---- Files of all types ---- */

mode_t type_bits(enum posix_type type)
{
    static const mode_t bits[TYPES] = {S_IFREG, S_IFDIR,  S_IFIFO, S_IFBLK,
                                       S_IFCHR, S_IFSOCK, S_IFLNK};
    return bits[type];
}

int bind_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    int rc = bind(fd, (struct sockaddr *)&a, sizeof(a));
    int error = errno;
    close(fd);
    errno = error;
    return rc;
}

int touch(const char *path, mode_t mode)
{
    return open_close(path, O_CREAT | O_WRONLY, mode);
}

int open_close(const char *path, int flags, mode_t mode)
{
    int fd = open(path, flags | O_CLOEXEC, mode);
    return fd == -1 ? -1 : close(fd);
}

int make(enum posix_type type, const char *path)
{
    switch (type) {
    case REGULAR:
        return touch(path, 0644);
    case DIRECTORY:
        return mkdir(path, 0755);
    case FIFO:
        return mkfifo(path, 0644);
    case BLOCK:
        return mknod(path, S_IFBLK | 0644, makedev(1, 2));
    case CHAR:
        return mknod(path, S_IFCHR | 0644, makedev(1, 2));
    case SOCKET:
        return mknod(path, S_IFSOCK | 0644, 0);
    case SYMLINK:
        return symlink("target", path);
    case TYPES:
        break;
    }
    return -1;
}

int make_as(enum posix_type type, const char *path, uid_t uid, gid_t gid, mode_t mode)
{
    if (make(type, path) == -1 || lchown(path, uid, gid) == -1) {
        return -1;
    }
    return type == SYMLINK ? 0 : chmod(path, mode);
}

int destroy(enum posix_type type, const char *path)
{
    return type == DIRECTORY ? rmdir(path) : unlink(path);
}

static int posix_wipe_one(const char *path, const struct stat *st, int kind, struct FTW *f)
{
    (void)st;
    (void)kind;
    (void)f;
    return remove(path);
}

void wipe(const char *path)
{
    nftw(path, posix_wipe_one, 16, FTW_DEPTH | FTW_PHYS);
}

void fill(const char *path, const char *text)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
    size_t n = strlen(text);
    TRUE(fd != -1 && write(fd, text, n) == (ssize_t)n);
    close(fd);
}

struct stat st_of(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == -1) {
        memset(&st, 0, sizeof(st));
    }
    return st;
}

struct stat fst_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == -1) {
        memset(&st, 0, sizeof(st));
    }
    return st;
}

int is_type(enum posix_type type, const char *path)
{
    return (st_of(path).st_mode & S_IFMT) == type_bits(type);
}

const char *long_name(size_t n)
{
    static char text[2][PATH_MAX + 16];
    static int turn;
    char *s = text[turn ^= 1];
    memset(s, 'n', n);
    s[n] = 0;
    return s;
}

const char *long_path(size_t n, const char *last)
{
    static char text[2][2 * PATH_MAX];
    static int turn;
    char *s = text[turn ^= 1];
    size_t tail = strlen(last);
    for (size_t i = 0; i + tail < n; i++) {
        s[i] = i & 1 ? '/' : '.'; /* ././././ and the last, with slashes to fill up */
    }
    if (n > tail) {
        s[n - tail - 1] = '/';
    }
    memcpy(s + n - tail, last, tail + 1);
    return s;
}

int in_child(int (*run)(void *ctx), void *ctx)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(run(ctx));
    }
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* ---- Families ---- */

static int posix_wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return argc == 0;
}

static void posix_run(const struct posix_family *f)
{
    long passed = posix_passed, failed = posix_failed;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    posix_family_name = f->name;
    posix_context[0] = 0;
    if (mkdir(f->name, 0777) == -1 || chmod(f->name, 0777) == -1 || chdir(f->name) == -1) {
        perror(f->name);
        exit(2);
    }
    f->run();
    root();
    umask(0);
    if (chdir("..") == -1) {
        perror("..");
        exit(2);
    }
    wipe(f->name);
    posix_about("the folder is empty and goes");
    IS(ENOENT, access(f->name, F_OK));
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%-16s ok %ld, not ok %ld, %.1f s\n", f->name, posix_passed - passed,
           posix_failed - failed,
           (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct posix_family *const files[] = {
        posix_names, posix_make, posix_attr,  posix_remove, posix_rename,
        posix_open,  posix_data, posix_xattr, posix_locks,  posix_dirs};
    int list = argc > 1 && strcmp(argv[1], "--list") == 0;
    posix_verbose = argc > 1 && strcmp(argv[1], "--verbose") == 0;
    argv += 1 + list + posix_verbose;
    argc -= 1 + list + posix_verbose;
    if (!list && argc < 1) {
        fprintf(stderr, "kvfs_posix [--list] [--verbose] DIRECTORY [FAMILY...]\n");
        return 2;
    }
    if (!list && geteuid() != 0) {
        printf("skip: needs root\n");
        return 77;
    }
    struct statvfs s;
    if (!list && (chdir(argv[0]) == -1 || statvfs(".", &s) == -1)) {
        perror(argv[0]);
        return 2;
    }
    umask(0);
    if (!list) {
        posix_name_max = s.f_namemax;
        posix_is_kvfs = s.f_namemax == 1024;
        root();
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        for (const struct posix_family *f = files[i]; f->name; f++) {
            if (list) {
                printf("%s\n", f->name);
            } else if (posix_wanted(f->name, argc - 1, argv + 1)) {
                posix_run(f);
            }
        }
    }
    if (!list) {
        printf("total: ok %ld, not ok %ld\n", posix_passed, posix_failed);
    }
    return posix_failed ? 1 : 0;
}
