/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What every call that takes a path does with paths that lead nowhere, too far or round. */
#include "kvfs_posix.h"

enum names_need { ABSENT, A_FILE, A_DIRECTORY, A_LINK };
enum { FOLLOWS = 1, WRITES_PARENT = 2, SOCKET_PATH = 4, TAKES_SLASH = 8 };

struct names_call {
    const char *name;
    int (*call)(const char *path);
    enum names_need need;
    int flags;
};

static int names_mkdir(const char *p)
{
    return mkdir(p, 0755);
}
static int names_mkfifo(const char *p)
{
    return mkfifo(p, 0644);
}
static int names_mknod(const char *p)
{
    return mknod(p, S_IFIFO | 0644, 0);
}
static int names_symlink(const char *p)
{
    return symlink("somewhere", p);
}
static int names_link_to(const char *p)
{
    return link("source", p);
}
static int names_create(const char *p)
{
    return open_close(p, O_CREAT | O_EXCL | O_RDWR, 0644);
}
static int names_creat(const char *p)
{
    return open_close(p, O_CREAT | O_RDWR, 0644);
}
static int names_rename_to(const char *p)
{
    return rename("source2", p);
}
static int names_link_from(const char *p)
{
    return linkat(AT_FDCWD, p, AT_FDCWD, "linked", 0);
}
static int names_open(const char *p)
{
    return open_close(p, O_RDONLY, 0);
}
static int names_open_write(const char *p)
{
    return open_close(p, O_WRONLY, 0);
}
static int names_truncate(const char *p)
{
    return truncate(p, 10);
}
static int names_chmod(const char *p)
{
    return chmod(p, 0666);
}
static int names_chown(const char *p)
{
    return chown(p, U1, G1);
}
static int names_lchown(const char *p)
{
    return lchown(p, U1, G1);
}
static int names_utimens(const char *p)
{
    return utimensat(AT_FDCWD, p, NULL, 0);
}
static int names_utimens_link(const char *p)
{
    return utimensat(AT_FDCWD, p, NULL, AT_SYMLINK_NOFOLLOW);
}
static int names_unlink(const char *p)
{
    return unlink(p);
}
static int names_rmdir(const char *p)
{
    return rmdir(p);
}
static int names_rename_from(const char *p)
{
    return rename(p, "renamed");
}
static int names_stat(const char *p)
{
    struct stat s;
    return stat(p, &s);
}
static int names_lstat(const char *p)
{
    struct stat s;
    return lstat(p, &s);
}
static int names_readlink(const char *p)
{
    char out[64];
    return (int)readlink(p, out, sizeof(out));
}
static int names_access(const char *p)
{
    return faccessat(AT_FDCWD, p, F_OK, AT_EACCESS);
}
static int names_statfs(const char *p)
{
    struct statvfs s;
    return statvfs(p, &s);
}
static int names_setxattr(const char *p)
{
    return setxattr(p, "user.names", "1", 1, 0);
}
static int names_listxattr(const char *p)
{
    char out[256];
    return (int)listxattr(p, out, sizeof(out));
}
static int names_opendir(const char *p)
{
    return open_close(p, O_RDONLY | O_DIRECTORY, 0);
}
static int names_chdir(const char *p)
{
    int here = open(".", O_PATH | O_CLOEXEC), rc = chdir(p), error = errno;
    if (rc == 0 && fchdir(here) == -1) {
        rc = -1;
    }
    close(here);
    errno = error;
    return rc;
}

static const struct names_call names_calls[] = {
    {"mkdir", names_mkdir, ABSENT, WRITES_PARENT | TAKES_SLASH},
    {"mkfifo", names_mkfifo, ABSENT, WRITES_PARENT},
    {"mknod", names_mknod, ABSENT, WRITES_PARENT},
    {"symlink", names_symlink, ABSENT, WRITES_PARENT},
    {"link to", names_link_to, ABSENT, WRITES_PARENT},
    {"open O_CREAT|O_EXCL", names_create, ABSENT, WRITES_PARENT},
    {"open O_CREAT", names_creat, ABSENT, WRITES_PARENT | FOLLOWS},
    {"bind", bind_at, ABSENT, WRITES_PARENT | SOCKET_PATH},
    {"rename to", names_rename_to, ABSENT, WRITES_PARENT},
    {"link from", names_link_from, A_FILE, 0},
    {"open O_RDONLY", names_open, A_FILE, FOLLOWS},
    {"open O_WRONLY", names_open_write, A_FILE, FOLLOWS},
    {"truncate", names_truncate, A_FILE, FOLLOWS},
    {"chmod", names_chmod, A_FILE, FOLLOWS},
    {"chown", names_chown, A_FILE, FOLLOWS},
    {"lchown", names_lchown, A_FILE, 0},
    {"utimensat", names_utimens, A_FILE, FOLLOWS},
    {"utimensat nofollow", names_utimens_link, A_FILE, 0},
    {"unlink", names_unlink, A_FILE, WRITES_PARENT},
    {"rmdir", names_rmdir, A_DIRECTORY, WRITES_PARENT | TAKES_SLASH},
    {"rename from", names_rename_from, A_FILE, WRITES_PARENT},
    {"stat", names_stat, A_FILE, FOLLOWS},
    {"lstat", names_lstat, A_FILE, 0},
    {"readlink", names_readlink, A_LINK, 0},
    {"access", names_access, A_FILE, FOLLOWS},
    {"statvfs", names_statfs, A_FILE, FOLLOWS},
    {"setxattr", names_setxattr, A_FILE, FOLLOWS},
    {"listxattr", names_listxattr, A_FILE, FOLLOWS},
    {"opendir", names_opendir, A_DIRECTORY, FOLLOWS | TAKES_SLASH},
    {"chdir", names_chdir, A_DIRECTORY, FOLLOWS | TAKES_SLASH},
};

/* The target that the call needs, and what it uses besides. */
static void names_prepare(const struct names_call *c, const char *path)
{
    static const enum posix_type types[] = {
        [A_FILE] = REGULAR, [A_DIRECTORY] = DIRECTORY, [A_LINK] = SYMLINK};
    wipe("source");
    wipe("source2");
    wipe("linked");
    wipe("renamed");
    wipe(path);
    TRUE(touch("source", 0666) == 0 && touch("source2", 0666) == 0);
    if (c->need != ABSENT) {
        TRUE(make(types[c->need], path) == 0);
    }
}

static int names_ok(const struct names_call *c, const char *path)
{
    return c->call(path) == -1 ? -1 : 0;
}

static void names_not_a_directory(const struct names_call *c)
{
    static const enum posix_type types[] = {REGULAR, FIFO, BLOCK, CHAR, SOCKET};
    names_prepare(c, "spare");
    wipe("spare");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        posix_about("%s below a %s", c->name, posix_type_name[types[i]]);
        make(types[i], "middle");
        IS(ENOTDIR, c->call("middle/x"));
        IS(ENOTDIR, c->call("middle/x/y"));
        TRUE(is_type(types[i], "middle"));
        symlink("middle", "way");
        IS(ENOTDIR, c->call("way/x"));
        wipe("way");
        wipe("middle");
    }
}

static void names_too_long(const struct names_call *c)
{
    const char *most = long_name(posix_name_max);
    const char *over = long_name(posix_name_max + 1);
    char path[PATH_MAX];
    posix_about("%s of a long name", c->name);
    names_prepare(c, "spare");
    if (!(c->flags & SOCKET_PATH)) {
        wipe("spare");
        names_prepare(c, most);
        IS(0, names_ok(c, most));
        wipe(most);
        names_prepare(c, "spare");
        IS(ENAMETOOLONG, c->call(over));
        snprintf(path, sizeof(path), "%s/x", over);
        IS(ENAMETOOLONG, c->call(path));
        posix_about("%s of a long path", c->name);
        names_prepare(c, "last");
        IS(0, names_ok(c, long_path(PATH_MAX - 1, "last")));
        wipe("last");
        names_prepare(c, "last");
        IS(ENAMETOOLONG, c->call(long_path(PATH_MAX, "last")));
        IS(ENAMETOOLONG, c->call(long_path(PATH_MAX + 1, "last")));
    }
    wipe("last");
    wipe("spare");
    wipe("renamed");
    wipe("linked");
}

/* AddressSanitizer reads a path before the kernel does. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NAMES_ASAN 1
#endif
#endif
#if !defined(NAMES_ASAN) && defined(__SANITIZE_ADDRESS__)
#define NAMES_ASAN 1
#elif !defined(NAMES_ASAN)
#define NAMES_ASAN 0
#endif

static void names_nowhere(const struct names_call *c)
{
    posix_about("%s leads nowhere", c->name);
    names_prepare(c, "spare");
    IS(ENOENT, c->call("none/x"));
    IS(ENOENT, c->call("none/x/y"));
    if (c->need != ABSENT) {
        IS(ENOENT, c->call("none"));
    }
    if (!(c->flags & SOCKET_PATH)) {
        IS(ENOENT, c->call(""));
#if !NAMES_ASAN
        IS(EFAULT, c->call((const char *)8));
#endif
    }
    symlink("none", "dangling");
    IS(ENOENT, c->call("dangling/x"));
    if (c->need != ABSENT && c->flags & FOLLOWS) {
        IS(ENOENT, c->call("dangling"));
    }
    wipe("dangling");
    wipe("spare");
}

static void names_round(const struct names_call *c)
{
    posix_about("%s goes round", c->name);
    names_prepare(c, "spare");
    symlink("b", "a");
    symlink("a", "b");
    IS(ELOOP, c->call("a/x"));
    IS(ELOOP, c->call("b/x/y"));
    if (c->flags & FOLLOWS) {
        IS(ELOOP, c->call("a"));
        IS(ELOOP, c->call("b"));
    }
    wipe("a");
    wipe("b");
    char from[16], to[16];
    mkdir("end", 0755);
    for (int i = 0; i <= 41; i++) {
        snprintf(from, sizeof(from), "chain%d", i);
        snprintf(to, sizeof(to), "chain%d", i - 1);
        symlink(i ? to : "end", from);
    }
    names_prepare(c, "end/x");
    IS(0, names_ok(c, "chain39/x"));
    wipe("end/x");
    names_prepare(c, "end/x");
    IS(ELOOP, c->call("chain40/x"));
    wipe("end");
    for (int i = 0; i <= 41; i++) {
        snprintf(from, sizeof(from), "chain%d", i);
        wipe(from);
    }
    wipe("spare");
    wipe("linked");
    wipe("renamed");
}

static void names_access_denied(const struct names_call *c)
{
    posix_about("%s without search permission", c->name);
    mkdir("closed", 0755);
    names_prepare(c, "closed/x");
    chown("closed", U1, G1);
    chmod("closed", 0644);
    chown("closed/x", U1, G1);
    user(U1, G1, 0, 0);
    IS(EACCES, c->call("closed/x"));
    root();
    chmod("closed", 0755);
    TRUE((access("closed/x", F_OK) == 0 || c->need == A_LINK) == (c->need != ABSENT));
    if (c->flags & WRITES_PARENT) {
        posix_about("%s without write permission", c->name);
        chmod("closed", 0555);
        user(U1, G1, 0, 0);
        IS(EACCES, c->call("closed/x"));
        root();
        chmod("closed", 0777);
        chown("closed", 0, 0);
        chmod("closed", 0775);
        user(U2, G2, 0, 0);
        IS(EACCES, c->call("closed/x"));
        root();
        chown("source", U2, G2);
        chown("source2", U2, G2);
        chown("closed", 0, G2);
        user(U2, G1, G2, 0);
        IS(0, names_ok(c, "closed/x"));
        root();
    }
    wipe("closed");
    wipe("renamed");
    wipe("linked");
}

/* Names that a slash ends must be directories, or become one. */
static void names_slash(const struct names_call *c)
{
    posix_about("%s with a slash at the end", c->name);
    names_prepare(c, "x");
    if (c->flags & TAKES_SLASH) {
        IS(0, names_ok(c, "x/"));
    } else if (c->need == A_FILE) {
        IS(ENOTDIR, c->call("x/"));
        TRUE(is_type(REGULAR, "x"));
    } else if (c->need == A_LINK) {
        IS(ENOENT, c->call("x/"));
    } else {
        TRUE(c->call("x/") == -1);
        IS(ENOENT, access("x", F_OK));
    }
    wipe("x");
    wipe("source");
    wipe("source2");
}

static void names_all(void)
{
    for (size_t i = 0; i < sizeof(names_calls) / sizeof(names_calls[0]); i++) {
        const struct names_call *c = &names_calls[i];
        names_not_a_directory(c);
        names_too_long(c);
        names_nowhere(c);
        names_round(c);
        names_access_denied(c);
        names_slash(c);
    }
}

/* Any byte but a slash and a zero may be in a name. */
static void names_bytes(void)
{
    char name[8];
    for (int i = 1; i < 256; i++) {
        if (i == '/') {
            continue;
        }
        snprintf(name, sizeof(name), "x%cy", i);
        posix_about("a name with the byte %d", i);
        IS(0, touch(name, 0644));
        TRUE(is_type(REGULAR, name));
        IS(0, unlink(name));
    }
    for (size_t n = 1; n <= posix_name_max; n += n < 20 ? 1 : n / 7) {
        posix_about("a name of %zu bytes", n);
        IS(0, touch(long_name(n), 0644));
        IS(0, rename(long_name(n), "other"));
        IS(0, rename("other", long_name(n)));
        DIR *d = opendir(".");
        size_t found = 0;
        for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
            found += strlen(e->d_name) == n && e->d_name[0] == 'n';
        }
        closedir(d);
        EQ(1, found);
        IS(0, unlink(long_name(n)));
    }
}

const struct posix_family posix_names[] = {
    {"paths", names_all}, {"name_bytes", names_bytes}, {NULL, NULL}};
