/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_stress [--seed N] [--processes N] [--steps N] DIRECTORY
 *
 * Several processes in the same folders. Each has names of its own, of which it knows at all times
 * what they are (a model: type, size, links, mode, attribute), and all have names in common, where
 * anything may happen. At the end everybody's names are what they should be, a walk over the tree
 * finds link counts, listings and bytes right, and everything can be removed.
 *
 * The bytes of a file follow from its inode number and the offset, or are zero: so a byte of
 * another file, of a former one, or at another place is found by whoever reads it.
 *
 * The choices of a process follow from the seed; what the others do meanwhile does not.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { DIRS = 8, NAMES = 16, KEYS = DIRS * NAMES, OBJECTS = KEYS, BLOCK = 512, BLOCKS = 400 };
enum { CHAOS_NAMES = 12 };

struct st_object {
    mode_t type;
    mode_t mode;
    uint64_t ino;
    size_t blocks; /* size */
    unsigned links;
    int attribute; /* value, 0: none */
};

struct st {
    uint64_t seed, random;
    long steps, step;
    int id;
    int processes;
    const char *doing;
    struct st_object objects[OBJECTS];
    int key[KEYS]; /* object or -1 */
    char buffer[BLOCKS * BLOCK];
};

static void st_fail(const struct st *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
static void st_fail(const struct st *s, const char *format, ...)
{
    int error = errno;
    va_list a;
    printf("FAILED seed %llu, process %d, step %ld, %s: ", (unsigned long long)s->seed, s->id,
           s->step, s->doing);
    va_start(a, format);
    vprintf(format, a);
    va_end(a);
    printf(" (errno %d, %s)\n", error, strerror(error));
    fflush(stdout);
    _exit(1);
}

static uint64_t st_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

static unsigned st_below(struct st *s, unsigned n)
{
    return (unsigned)(st_mix(s->random += 0x9E3779B97F4A7C15U) % n);
}

/* ---- Bytes ---- */

static uint64_t st_word(uint64_t ino, uint64_t offset)
{
    return st_mix(ino * 0x9E3779B97F4A7C15U + offset) | 1;
}

static void st_fill(struct st *s, uint64_t ino, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = st_word(ino, at + i);
        memcpy(s->buffer + i, &w, 8);
    }
}

/* Each word is right or zero; in a file that nobody writes to, each block is wholly one of them. */
static void st_compare(const struct st *s, uint64_t ino, size_t at, size_t n, int quiet,
                       const char *path)
{
    size_t zeros = 0;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t w;
        memcpy(&w, s->buffer + i, 8);
        if (w != 0 && w != st_word(ino, at + i)) {
            st_fail(s, "%s, inode %llu: foreign bytes at %zu", path, (unsigned long long)ino,
                    at + i);
        }
        zeros = i % BLOCK ? zeros + !w : !w;
        if (quiet && i % BLOCK == BLOCK - 8 && zeros != 0 && zeros != BLOCK / 8) {
            st_fail(s, "%s, inode %llu: half a block at %zu", path, (unsigned long long)ino,
                    at + i);
        }
    }
}

static void st_read(struct st *s, int fd, uint64_t ino, int quiet, const char *path)
{
    ssize_t n = pread(fd, s->buffer, sizeof(s->buffer), 0);
    if (n == -1) {
        st_fail(s, "%s: read", path);
    }
    st_compare(s, ino, 0, (size_t)n, quiet, path);
}

/* Write, through the descriptor or a mapping, or take bytes away. */
static void st_change(struct st *s, int fd, uint64_t ino, size_t at, size_t n, const char *path)
{
    off_t from = (off_t)(at * BLOCK);
    size_t bytes = n * BLOCK;
    unsigned how = st_below(s, 8);
    if (how == 0) {
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, (off_t)bytes) == -1) {
            st_fail(s, "%s: punch", path);
        }
        return;
    }
    st_fill(s, ino, at * BLOCK, bytes);
    if (pwrite(fd, s->buffer, bytes, from) != (ssize_t)bytes) {
        st_fail(s, "%s: write", path);
    }
    if (how == 1 && fsync(fd) == -1) {
        st_fail(s, "%s: fsync", path);
    }
}

/* ---- Names of one's own ---- */

struct st_name {
    char text[64];
};

static struct st_name st_name(const struct st *s, int key)
{
    struct st_name n;
    snprintf(n.text, sizeof(n.text), "d%d/own.%d.%d", key / NAMES, s->id, key % NAMES);
    return n;
}

static int st_key(struct st *s, int taken)
{
    int k = (int)st_below(s, KEYS);
    for (int i = 0; i < KEYS; i++, k = (k + 1) % KEYS) {
        if ((s->key[k] != -1) == taken) {
            return k;
        }
    }
    return -1;
}

static void st_verify(struct st *s, int key)
{
    struct st_name n = st_name(s, key);
    struct stat st;
    int there = lstat(n.text, &st) == 0;
    if (!there && errno != ENOENT) {
        st_fail(s, "%s: lstat", n.text);
    }
    if (there != (s->key[key] != -1)) {
        st_fail(s, "%s is %s", n.text, there ? "there, and should not be" : "missing");
    }
    if (!there) {
        return;
    }
    const struct st_object *o = &s->objects[s->key[key]];
    if ((st.st_mode & S_IFMT) != o->type || st.st_ino != o->ino || st.st_nlink != o->links ||
        (o->type != S_IFLNK && (st.st_mode & 07777) != o->mode)) {
        st_fail(s, "%s: mode 0%o, inode %llu, links %lu; expected 0%o, %llu, %u", n.text,
                st.st_mode, (unsigned long long)st.st_ino, (unsigned long)st.st_nlink,
                o->type | o->mode, (unsigned long long)o->ino, o->links);
    }
    int value = 0;
    if (o->type == S_IFREG || o->type == S_IFDIR) {
        ssize_t got = getxattr(n.text, "user.stress", &value, sizeof(value));
        if (got == -1 ? errno != ENODATA || o->attribute : value != o->attribute) {
            st_fail(s, "%s: attribute %zd, %d; expected %d", n.text, got, value, o->attribute);
        }
    }
    if (o->type == S_IFREG) {
        if (st.st_size != (off_t)(o->blocks * BLOCK)) {
            st_fail(s, "%s: size %lld, expected %zu", n.text, (long long)st.st_size,
                    o->blocks * BLOCK);
        }
        int fd = open(n.text, O_RDONLY | O_CLOEXEC);
        if (fd == -1) {
            st_fail(s, "%s: open", n.text);
        }
        st_read(s, fd, o->ino, 1, n.text);
        close(fd);
    }
}

static int st_object(const struct st *s)
{
    int o = 0;
    while (s->objects[o].links) {
        o++;
    }
    return o;
}

static int st_make(struct st *s, const char *name, unsigned kind)
{
    if (kind == 0) {
        return mkdir(name, 0755);
    }
    if (kind == 1) {
        return symlink("nowhere", name);
    }
    if (kind == 2) {
        return mkfifo(name, 0644);
    }
    int fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    struct stat st;
    if (fd == -1 || fstat(fd, &st) == -1) {
        return -1;
    }
    size_t n = st_below(s, 40);
    st_fill(s, st.st_ino, 0, n * BLOCK);
    int rc = write(fd, s->buffer, n * BLOCK) == (ssize_t)(n * BLOCK) ? 0 : -1;
    close(fd);
    return rc;
}

static void st_create(struct st *s)
{
    int k = st_key(s, 0);
    if (k == -1) {
        return;
    }
    struct st_name n = st_name(s, k);
    unsigned kind = st_below(s, 8);
    struct stat st;
    if (st_make(s, n.text, kind) == -1 || lstat(n.text, &st) == -1) {
        st_fail(s, "%s: make %u", n.text, kind);
    }
    int o = s->key[k] = st_object(s);
    s->objects[o] = (struct st_object){.type = st.st_mode & S_IFMT,
                                       .mode = kind == 0   ? 0755
                                               : kind == 1 ? 0777
                                                           : 0644,
                                       .ino = st.st_ino,
                                       .blocks = (size_t)st.st_size / BLOCK,
                                       .links = kind == 0 ? 2 : 1};
}

static void st_drop(struct st *s, int k)
{
    struct st_object *o = &s->objects[s->key[k]];
    o->links = o->type == S_IFDIR ? 0 : o->links - 1;
    s->key[k] = -1;
}

static void st_remove(struct st *s)
{
    int k = st_key(s, 1);
    if (k == -1) {
        return;
    }
    struct st_name n = st_name(s, k);
    int dir = s->objects[s->key[k]].type == S_IFDIR;
    if ((dir ? unlink(n.text) : rmdir(n.text)) != -1) {
        st_fail(s, "%s: removed as what it is not", n.text);
    }
    if ((dir ? rmdir(n.text) : unlink(n.text)) == -1) {
        st_fail(s, "%s: remove", n.text);
    }
    st_drop(s, k);
}

static void st_rename(struct st *s)
{
    static const unsigned how[] = {0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
    int a = st_key(s, 1), b = (int)st_below(s, KEYS);
    unsigned flags = how[st_below(s, 4)];
    if (a == -1) {
        return;
    }
    struct st_name from = st_name(s, a), to = st_name(s, b);
    int oa = s->key[a], ob = s->key[b];
    int da = s->objects[oa].type == S_IFDIR, db = ob != -1 && s->objects[ob].type == S_IFDIR;
    int expected = flags == RENAME_NOREPLACE  ? (ob != -1 ? EEXIST : 0)
                   : flags == RENAME_EXCHANGE ? (ob == -1 ? ENOENT : 0)
                   : ob == -1 || oa == ob     ? 0
                   : da && !db                ? ENOTDIR
                   : !da && db                ? EISDIR
                                              : 0;
    errno = 0;
    int rc = renameat2(AT_FDCWD, from.text, AT_FDCWD, to.text, flags);
    if ((rc == -1 ? errno : 0) != expected) {
        st_fail(s, "%s to %s, flags %u: %d, expected %s", from.text, to.text, flags, rc,
                strerror(expected));
    }
    if (rc == -1 || oa == ob) {
        return;
    }
    if (flags == RENAME_EXCHANGE) {
        s->key[a] = ob;
        s->key[b] = oa;
        return;
    }
    if (ob != -1) {
        st_drop(s, b);
    }
    s->key[b] = oa;
    s->key[a] = -1;
}

static void st_link(struct st *s)
{
    int a = st_key(s, 1), b = st_key(s, 0);
    if (a == -1 || b == -1) {
        return;
    }
    struct st_name from = st_name(s, a), to = st_name(s, b);
    int dir = s->objects[s->key[a]].type == S_IFDIR;
    if ((link(from.text, to.text) == -1) != dir) {
        st_fail(s, "link %s to %s", from.text, to.text);
    }
    if (!dir) {
        s->key[b] = s->key[a];
        s->objects[s->key[a]].links++;
    }
}

static void st_attributes(struct st *s)
{
    int k = st_key(s, 1);
    struct st_object *o = k == -1 ? NULL : &s->objects[s->key[k]];
    if (!o || (o->type != S_IFREG && o->type != S_IFDIR)) {
        return;
    }
    struct st_name n = st_name(s, k);
    o->mode = o->type == S_IFDIR ? 0700 | st_below(s, 0100) : 0600 | st_below(s, 0100);
    int value = (int)st_below(s, 1000);
    int rc = chmod(n.text, o->mode);
    if (value) {
        rc |= setxattr(n.text, "user.stress", &value, sizeof(value), 0);
    } else if (o->attribute) {
        rc |= removexattr(n.text, "user.stress");
    }
    if (rc == -1) {
        st_fail(s, "%s: chmod or attribute", n.text);
    }
    o->attribute = value;
}

static void st_data(struct st *s)
{
    int k = st_key(s, 1);
    struct st_object *o = k == -1 ? NULL : &s->objects[s->key[k]];
    if (!o || o->type != S_IFREG) {
        return;
    }
    struct st_name n = st_name(s, k);
    int fd = open(n.text, O_RDWR | O_CLOEXEC);
    if (fd == -1) {
        st_fail(s, "%s: open", n.text);
    }
    size_t at = st_below(s, BLOCKS), count = 1 + st_below(s, (unsigned)(BLOCKS - at));
    if (st_below(s, 4) == 0) {
        if (ftruncate(fd, (off_t)(at * BLOCK)) == -1) {
            st_fail(s, "%s: truncate", n.text);
        }
        o->blocks = at;
    } else {
        struct stat st;
        st_change(s, fd, o->ino, at, count, n.text);
        if (fstat(fd, &st) == -1 || (st.st_size != (off_t)((at + count) * BLOCK) &&
                                     st.st_size != (off_t)(o->blocks * BLOCK))) {
            st_fail(s, "%s: size %lld after a change", n.text, (long long)st.st_size);
        }
        o->blocks = (size_t)st.st_size / BLOCK;
    }
    if (close(fd) == -1) {
        st_fail(s, "%s: close", n.text);
    }
}

/* Each of one's names is listed once. */
static void st_list(struct st *s)
{
    char path[16], prefix[32];
    int d = (int)st_below(s, DIRS), seen[NAMES] = {0};
    snprintf(path, sizeof(path), "d%d", d);
    int n = snprintf(prefix, sizeof(prefix), "own.%d.", s->id);
    DIR *dir = opendir(path);
    if (!dir) {
        st_fail(s, "%s: opendir", path);
    }
    errno = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, prefix, (size_t)n) == 0) {
            seen[strtol(e->d_name + n, NULL, 10) % NAMES]++;
        }
    }
    if (errno) {
        st_fail(s, "%s: readdir", path);
    }
    closedir(dir);
    for (int i = 0; i < NAMES; i++) {
        if (seen[i] != (s->key[d * NAMES + i] != -1)) {
            st_fail(s, "%s lists %s%d %d times", path, prefix, i, seen[i]);
        }
    }
}

static void st_look(struct st *s)
{
    st_verify(s, (int)st_below(s, KEYS));
}

/* ---- Names of all ---- */

static struct st_name st_common(struct st *s)
{
    struct st_name n;
    unsigned a = st_below(s, CHAOS_NAMES), b = st_below(s, CHAOS_NAMES), deep = st_below(s, 3);
    if (deep == 0) {
        snprintf(n.text, sizeof(n.text), "common/c%u", a);
    } else if (deep == 1) {
        snprintf(n.text, sizeof(n.text), "common/c%u/c%u", a, b);
    } else {
        snprintf(n.text, sizeof(n.text), "common/c%u/c%u/c%u", a, b, st_below(s, CHAOS_NAMES));
    }
    return n;
}

/* What may come of a race; all else is a defect. */
static void st_maybe(const struct st *s, int rc, const char *what, const char *a, const char *b)
{
    static const int fine[] = {ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY,
                               EINVAL, ENXIO,  EPERM,   ELOOP};
    for (size_t i = 0; rc == -1 && i < sizeof(fine) / sizeof(fine[0]); i++) {
        if (errno == fine[i]) {
            return;
        }
    }
    if (rc == -1) {
        st_fail(s, "%s %s %s", what, a, b);
    }
}

static void st_common_file(struct st *s, const char *path)
{
    int fd = open(
        path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | (st_below(s, 2) ? O_CREAT : 0), 0644);
    struct stat st;
    st_maybe(s, fd, "open", path, "");
    if (fd == -1) {
        return;
    }
    if (fstat(fd, &st) == -1) {
        st_fail(s, "%s: fstat", path);
    }
    if (S_ISREG(st.st_mode)) {
        size_t at = st_below(s, BLOCKS), n = 1 + st_below(s, 32);
        n = n < BLOCKS - at ? n : BLOCKS - at;
        unsigned how = st_below(s, 4);
        if (how == 0 && ftruncate(fd, (off_t)(at * BLOCK)) == -1) {
            st_fail(s, "%s: truncate", path);
        } else if (how == 1) {
            st_change(s, fd, st.st_ino, at, n, path);
        } else {
            st_read(s, fd, st.st_ino, 0, path);
        }
    }
    if (close(fd) == -1) {
        st_fail(s, "%s: close", path);
    }
}

static void st_chaos(struct st *s)
{
    static const unsigned how[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
    struct st_name a = st_common(s), b = st_common(s);
    struct stat st;
    switch (st_below(s, 9)) {
    case 0:
        st_maybe(s, mkdir(a.text, 0755), "mkdir", a.text, "");
        break;
    case 1:
        st_maybe(s, rmdir(a.text), "rmdir", a.text, "");
        break;
    case 2:
        st_maybe(s, unlink(a.text), "unlink", a.text, "");
        break;
    case 3:
    case 4:
        st_maybe(s, renameat2(AT_FDCWD, a.text, AT_FDCWD, b.text, how[st_below(s, 5)]), "rename",
                 a.text, b.text);
        break;
    case 5:
        st_maybe(s, link(a.text, b.text), "link", a.text, b.text);
        break;
    case 6:
        st_maybe(s, lstat(a.text, &st), "lstat", a.text, "");
        break;
    default:
        st_common_file(s, a.text);
    }
}

static int st_run(struct st *s)
{
    static const struct {
        const char *name;
        void (*run)(struct st *);
        unsigned weight;
    } ops[] = {{"create", st_create, 12},
               {"remove", st_remove, 7},
               {"rename", st_rename, 12},
               {"link", st_link, 4},
               {"attributes", st_attributes, 4},
               {"data", st_data, 14},
               {"list", st_list, 3},
               {"look", st_look, 12},
               {"chaos", st_chaos, 32}};
    memset(s->key, -1, sizeof(s->key));
    for (s->step = 0; s->step < s->steps; s->step++) {
        unsigned pick = st_below(s, 100);
        for (size_t i = 0;; i++) {
            if (pick < ops[i].weight) {
                s->doing = ops[i].name;
                ops[i].run(s);
                break;
            }
            pick -= ops[i].weight;
        }
    }
    s->doing = "last look";
    for (int k = 0; k < KEYS; k++) {
        st_verify(s, k);
    }
    return 0;
}

/* ---- The walk ---- */

static struct st *st_walker;
static struct st_seen {
    uint64_t ino;
    unsigned long links, found;
} st_seen[1 << 16];

static struct st_seen *st_see(uint64_t ino)
{
    size_t i = (size_t)(st_mix(ino) & 0xFFFF);
    while (st_seen[i].ino && st_seen[i].ino != ino) {
        i = (i + 1) & 0xFFFF;
    }
    st_seen[i].ino = ino;
    return &st_seen[i];
}

static int st_walk(const char *path, const struct stat *st, int kind, struct FTW *f)
{
    struct st *s = st_walker;
    (void)f;
    if (kind == FTW_NS || kind == FTW_DNR) {
        st_fail(s, "%s: cannot be read", path);
    }
    struct st_seen *seen = st_see(st->st_ino);
    seen->found++;
    if (S_ISDIR(st->st_mode)) {
        unsigned long folders = 2;
        DIR *d = opendir(path);
        for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
            folders +=
                e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
        }
        closedir(d);
        if (folders != st->st_nlink || seen->found != 1) {
            st_fail(s, "%s: %lu links, %lu by its folders; seen %lu times", path,
                    (unsigned long)st->st_nlink, folders, seen->found);
        }
        seen->links = 1;
        return 0;
    }
    seen->links = st->st_nlink;
    if (S_ISREG(st->st_mode)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd == -1 || st->st_size % BLOCK) {
            st_fail(s, "%s: size %lld", path, (long long)st->st_size);
        }
        st_read(s, fd, st->st_ino, 1, path);
        close(fd);
    }
    return 0;
}

static int st_clear(const char *path, const struct stat *st, int kind, struct FTW *f)
{
    (void)st;
    (void)kind;
    if (f->level > 0 && remove(path) == -1) {
        st_fail(st_walker, "%s: remove", path);
    }
    return 0;
}

static void st_after(struct st *s)
{
    char name[16];
    s->doing = "the walk";
    st_walker = s;
    if (nftw(".", st_walk, 32, FTW_PHYS) != 0) {
        st_fail(s, "the walk ended early");
    }
    for (size_t i = 0; i < sizeof(st_seen) / sizeof(st_seen[0]); i++) {
        if (st_seen[i].found != st_seen[i].links) {
            st_fail(s, "inode %llu: %lu links, %lu names", (unsigned long long)st_seen[i].ino,
                    st_seen[i].links, st_seen[i].found);
        }
    }
    s->doing = "removal";
    if (nftw(".", st_clear, 32, FTW_PHYS | FTW_DEPTH) != 0 || chdir("..") == -1) {
        st_fail(s, "removal ended early");
    }
    snprintf(name, sizeof(name), "stress");
    if (rmdir(name) == -1) {
        st_fail(s, "the folder is not empty");
    }
}

static void st_prepare(const char *directory)
{
    char name[16];
    if (chdir(directory) == -1 || mkdir("stress", 0755) == -1 || chdir("stress") == -1 ||
        mkdir("common", 0755) == -1) {
        perror(directory);
        exit(2);
    }
    for (int i = 0; i < DIRS; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        if (mkdir(name, 0755) == -1) {
            perror(name);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    static struct st s = {.steps = 2500, .processes = 4, .id = -1, .doing = "start"};
    int i = 1, failed = 0;
    s.seed = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        unsigned long long n = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--seed") == 0) {
            s.seed = n;
        } else if (strcmp(argv[i], "--steps") == 0) {
            s.steps = (long)n;
        } else if (strcmp(argv[i], "--processes") == 0) {
            s.processes = (int)n;
        } else {
            i = argc;
        }
    }
    if (i != argc - 1) {
        fprintf(stderr, "kvfs_stress [--seed N] [--processes N] [--steps N] DIRECTORY\n");
        return 2;
    }
    printf("seed %llu, %d processes, %ld steps\n", (unsigned long long)s.seed, s.processes,
           s.steps);
    fflush(stdout);
    umask(0);
    st_prepare(argv[i]);
    for (int p = 0; p < s.processes; p++) {
        if (fork() == 0) {
            s.id = p;
            s.random = st_mix(s.seed + (uint64_t)p);
            _exit(st_run(&s));
        }
    }
    for (int status; wait(&status) != -1;) {
        failed |= status != 0;
    }
    if (!failed) {
        st_after(&s);
    }
    printf(failed ? "failed\n" : "ok\n");
    return failed;
}
