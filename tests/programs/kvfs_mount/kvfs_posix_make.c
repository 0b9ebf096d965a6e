/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What makes files: owners, modes, times and links of what is new. */
#include "kvfs_posix.h"

struct make_call {
    const char *name;
    enum posix_type type;
    int (*call)(const char *path, mode_t mode);
    int has_mode;
};

static int make_mkdir(const char *p, mode_t m)
{
    return mkdir(p, m);
}
static int make_mkfifo(const char *p, mode_t m)
{
    return mkfifo(p, m);
}
static int make_mknod_fifo(const char *p, mode_t m)
{
    return mknod(p, S_IFIFO | m, 0);
}
static int make_mknod_file(const char *p, mode_t m)
{
    return mknod(p, S_IFREG | m, 0);
}
static int make_mknod_socket(const char *p, mode_t m)
{
    return mknod(p, S_IFSOCK | m, 0);
}
static int make_symlink(const char *p, mode_t m)
{
    (void)m;
    return symlink("some/where", p);
}

static const struct make_call make_calls[] = {
    {"open", REGULAR, touch, 1},
    {"mkdir", DIRECTORY, make_mkdir, 1},
    {"mkfifo", FIFO, make_mkfifo, 1},
    {"mknod fifo", FIFO, make_mknod_fifo, 1},
    {"mknod regular", REGULAR, make_mknod_file, 1},
    {"mknod socket", SOCKET, make_mknod_socket, 1},
    {"symlink", SYMLINK, make_symlink, 0},
};
enum { MAKE_CALLS = sizeof(make_calls) / sizeof(make_calls[0]) };

static void make_modes(const struct make_call *c)
{
    static const mode_t modes[] = {0,    0100, 0151, 0345, 0400, 0501,
                                   0644, 0666, 0700, 0755, 0777, 01777};
    static const mode_t masks[] = {0, 022, 077, 0151, 0345, 0501, 0777};
    for (size_t i = 0; c->has_mode && i < sizeof(modes) / sizeof(modes[0]); i++) {
        for (size_t k = 0; k < sizeof(masks) / sizeof(masks[0]); k++) {
            posix_about("%s 0%o with umask 0%o", c->name, modes[i], masks[k]);
            umask(masks[k]);
            IS(0, c->call("x", modes[i]));
            umask(0);
            struct stat s = st_of("x");
            EQ(modes[i] & ~masks[k], s.st_mode & 07777);
            TRUE(is_type(c->type, "x"));
            destroy(c->type, "x");
        }
    }
    if (!c->has_mode) {
        umask(077);
        IS(0, c->call("x", 0));
        umask(0);
        EQ(S_IFLNK | 0777, st_of("x").st_mode);
        unlink("x");
    }
}

static void make_owners(const struct make_call *c)
{
    posix_about("%s: owner", c->name);
    mkdir("d", 0777);
    chown("d", U2, G2);
    user(U1, G1, 0, 0);
    IS(0, c->call("d/x", 0644));
    root();
    EQ(U1, st_of("d/x").st_uid);
    EQ(G1, st_of("d/x").st_gid);
    EQ(c->type == DIRECTORY ? 2 : 1, st_of("d/x").st_nlink);
    wipe("d/x");
    posix_about("%s: in a folder with setgid", c->name);
    chmod("d", 02777);
    user(U1, G1, 0, 0);
    IS(0, c->call("d/x", 0755));
    root();
    EQ(U1, st_of("d/x").st_uid);
    EQ(G2, st_of("d/x").st_gid);
    EQ(c->type == DIRECTORY ? 02000 : 0, st_of("d/x").st_mode & 06000);
    wipe("d/x");
    if (c->has_mode && c->type != DIRECTORY) {
        posix_about("%s: setgid by a user outside the group", c->name);
        user(U1, G1, 0, 0);
        IS(0, c->call("d/x", 02755));
        root();
        EQ(0755, st_of("d/x").st_mode & 07777);
        wipe("d/x");
        posix_about("%s: setgid by a member of the group", c->name);
        user(U1, G1, G2, 0);
        IS(0, c->call("d/x", 02755));
        root();
        EQ(02755, st_of("d/x").st_mode & 07777);
        EQ(G2, st_of("d/x").st_gid);
        wipe("d/x");
        IS(0, c->call("d/x", 06755));
        EQ(06755, st_of("d/x").st_mode & 07777);
        wipe("d/x");
    }
    posix_about("%s: by a supplementary group's right", c->name);
    chmod("d", 0770);
    user(U1, G1, G3, 0);
    IS(EACCES, c->call("d/x", 0644));
    user(U1, G1, G3, G2);
    IS(0, c->call("d/x", 0644));
    root();
    EQ(G1, st_of("d/x").st_gid);
    wipe("d");
}

static void make_times(const struct make_call *c)
{
    posix_about("%s: times", c->name);
    mkdir("d", 0755);
    touch("clock", 0644);
    struct stat before = st_of("clock");
    CHANGES(0, c->call("d/x", 0644), {.path = "d", .change = "mc"});
    struct stat s = st_of("d/x");
    TRUE(s.st_ctim.tv_sec > before.st_ctim.tv_sec || s.st_ctim.tv_nsec > before.st_ctim.tv_nsec);
    TRUE(s.st_ctim.tv_sec == s.st_mtim.tv_sec && s.st_ctim.tv_nsec == s.st_mtim.tv_nsec);
    TRUE(s.st_ctim.tv_sec == s.st_atim.tv_sec && s.st_ctim.tv_nsec == s.st_atim.tv_nsec);
    EQ(c->type == DIRECTORY ? 3 : 2, st_of("d").st_nlink);
    if (c->call != touch) {
        CHANGES(EEXIST, c->call("d/x", 0644), {.path = "d", .change = ""},
                {.path = "d/x", .change = ""});
    }
    wipe("d");
    unlink("clock");
}

static void make_exists(const struct make_call *c)
{
    for (int t = 0; t < TYPES && c->call != touch; t++) {
        posix_about("%s where a %s is", c->name, posix_type_name[t]);
        make((enum posix_type)t, "x");
        struct stat a = st_of("x");
        IS(EEXIST, c->call("x", 0644));
        struct stat b = st_of("x");
        EQ(a.st_ino, b.st_ino);
        EQ(a.st_mode, b.st_mode);
        destroy((enum posix_type)t, "x");
    }
    IS(EEXIST, c->call == touch ? mkdir(".", 0) : c->call(".", 0644));
    IS(EEXIST, c->call == touch ? mkdir("..", 0) : c->call("..", 0644));
}

static void make_all(void)
{
    for (size_t i = 0; i < MAKE_CALLS; i++) {
        make_modes(&make_calls[i]);
        make_owners(&make_calls[i]);
        make_times(&make_calls[i]);
        make_exists(&make_calls[i]);
    }
}

static void make_devices(void)
{
    static const enum posix_type types[] = {BLOCK, CHAR};
    static const unsigned numbers[][2] = {{0, 0},      {1, 2},      {0xAB, 0xCD}, {255, 0},
                                          {4095, 255}, {300, 1000}, {17, 0xFFFFF}};
    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            posix_about("%s %u:%u", posix_type_name[types[t]], numbers[i][0], numbers[i][1]);
            dev_t dev = makedev(numbers[i][0], numbers[i][1]);
            IS(0, mknod("x", type_bits(types[t]) | 0644, dev));
            TRUE(is_type(types[t], "x"));
            EQ(numbers[i][0], major(st_of("x").st_rdev));
            EQ(numbers[i][1], minor(st_of("x").st_rdev));
            unlink("x");
        }
        posix_about("%s by a user", posix_type_name[types[t]]);
        user(U1, G1, 0, 0);
        IS(EPERM, mknod("x", type_bits(types[t]) | 0644, makedev(1, 3)));
        root();
        IS(ENOENT, access("x", F_OK));
    }
    posix_about("wrong types");
    IS(EINVAL, mknod("x", S_IFLNK | 0644, 0));
    IS(EPERM, mknod("x", S_IFDIR | 0644, 0));
    posix_about("the null device");
    char c = 1;
    IS(0, mknod("null", S_IFCHR | 0666, makedev(1, 3)));
    int fd = open("null", O_RDWR | O_CLOEXEC);
    TRUE(fd != -1);
    EQ(1, write(fd, &c, 1));
    EQ(0, read(fd, &c, 1));
    close(fd);
    chmod("null", 0600);
    user(U1, G1, 0, 0);
    IS(EACCES, open("null", O_RDONLY | O_CLOEXEC));
    root();
    unlink("null");
}

static int make_fifo_writer(void *ctx)
{
    (void)ctx;
    int fd = open("fifo", O_WRONLY | O_CLOEXEC);
    return fd == -1 || write(fd, "through", 7) != 7;
}

static void make_fifos(void)
{
    char text[8] = "";
    posix_about("bytes through a fifo");
    IS(0, mkfifo("fifo", 0644));
    IS(ENXIO, open("fifo", O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    int fd = open("fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    TRUE(fd != -1);
    EQ(0, in_child(make_fifo_writer, NULL));
    EQ(7, read(fd, text, 7));
    TRUE(strcmp(text, "through") == 0);
    close(fd);
    unlink("fifo");
    posix_about("a connection through a socket");
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    IS(0, bind(s, (struct sockaddr *)&a, sizeof(a)));
    TRUE(is_type(SOCKET, "sock"));
    IS(ECONNREFUSED, connect(c, (struct sockaddr *)&a, sizeof(a)));
    IS(0, listen(s, 1));
    IS(0, connect(c, (struct sockaddr *)&a, sizeof(a)));
    close(c);
    c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    IS(EADDRINUSE, bind(c, (struct sockaddr *)&a, sizeof(a)));
    close(c);
    close(s);
    IS(ENXIO, open("sock", O_RDONLY | O_CLOEXEC));
    unlink("sock");
}

static void make_symlinks(void)
{
    char text[PATH_MAX + 8];
    for (size_t n = 1; n < PATH_MAX; n += n < 16 ? 1 : n / 5) {
        posix_about("a symlink of %zu bytes", n);
        IS(0, symlink(long_path(n, "t"), "x"));
        EQ(n, st_of("x").st_size);
        EQ(n, readlink("x", text, sizeof(text)));
        TRUE(memcmp(text, long_path(n, "t"), n) == 0);
        EQ(n > 3 ? 3 : n, readlink("x", text, 3));
        unlink("x");
    }
    posix_about("a symlink of PATH_MAX");
    IS(0, symlink(long_path(PATH_MAX - 1, "t"), "x"));
    unlink("x");
    IS(ENAMETOOLONG, symlink(long_path(PATH_MAX, "t"), "x"));
    IS(ENOENT, symlink("", "x"));
    posix_about("symlinks are followed");
    mkdir("d", 0755);
    symlink("d", "s");
    symlink("../d/f", "d/up");
    IS(0, touch("s/f", 0644));
    IS(0, access("d/up", F_OK));
    IS(EINVAL, readlink("d", text, 8));
    IS(EINVAL, readlink("d/f", text, 8));
    IS(ELOOP, open("d/up", O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    IS(ENOTDIR, open("s", O_RDONLY | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
    IS(0, touch("dangling-target", 0644));
    unlink("dangling-target");
    symlink("dangling-target", "dangling");
    IS(0, touch("dangling", 0644)); /* makes the target */
    TRUE(is_type(REGULAR, "dangling-target"));
    unlink("dangling-target");
    IS(EEXIST, open("dangling", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
    IS(ENOENT, access("dangling-target", F_OK));
    posix_about("atime of a symlink");
    TRUE(readlink("dangling", text, sizeof(text)) == 15);
    unlink("dangling");
    unlink("s");
    wipe("d");
}

/* ---- Hard links ---- */

static void make_link_type(enum posix_type t)
{
    posix_about("links of a %s", posix_type_name[t]);
    mkdir("d", 0755);
    make(t, "a");
    CHANGES(0, link("a", "d/b"), {.path = "a", .change = "c"}, {.path = "d", .change = "mc"},
            {.path = ".", .change = ""});
    struct stat a = st_of("a"), b = st_of("d/b");
    EQ(a.st_ino, b.st_ino);
    EQ(a.st_mode, b.st_mode);
    EQ(2, a.st_nlink);
    IS(0, link("d/b", "c"));
    EQ(3, st_of("a").st_nlink);
    if (t != SYMLINK) {
        IS(0, chmod("c", 0640));
        IS(0, chown("d/b", U1, G1));
        EQ(0640, st_of("a").st_mode & 07777);
        EQ(U1, st_of("a").st_uid);
    }
    CHANGES(0, unlink("a"), {.path = "c", .change = "c"}, {.path = ".", .change = "mc"});
    EQ(2, st_of("c").st_nlink);
    IS(0, unlink("d/b"));
    EQ(1, st_of("c").st_nlink);
    for (int e = 0; e < TYPES; e++) {
        posix_about("link of a %s over a %s", posix_type_name[t], posix_type_name[e]);
        make((enum posix_type)e, "there");
        CHANGES(EEXIST, link("c", "there"), {.path = "c", .change = ""},
                {.path = "there", .change = ""});
        EQ(1, st_of("c").st_nlink);
        destroy((enum posix_type)e, "there");
    }
    IS(0, unlink("c"));
    wipe("d");
}

static void make_links(void)
{
    for (int t = 0; t < TYPES; t++) {
        if (t != DIRECTORY) {
            make_link_type((enum posix_type)t);
        }
    }
    posix_about("links that are refused");
    mkdir("d", 0755);
    IS(EPERM, link("d", "e"));
    user(U1, G1, 0, 0);
    IS(EPERM, link("d", "e"));
    root();
    wipe("d");
    touch("a", 0644);
    IS(EEXIST, link("a", "a"));
    IS(EXDEV, link("/proc/version", "b"));
    posix_about("many links");
    char name[16];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "l%d", i);
        link("a", name);
    }
    EQ(301, st_of("a").st_nlink);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "l%d", i);
        unlink(name);
    }
    EQ(1, st_of("a").st_nlink);
    posix_about("linkat follows with AT_SYMLINK_FOLLOW");
    symlink("a", "s");
    IS(0, linkat(AT_FDCWD, "s", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
    TRUE(is_type(REGULAR, "followed"));
    int fd = open("a", O_RDONLY | O_CLOEXEC);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    IS(0, linkat(AT_FDCWD, path, AT_FDCWD, "by-fd", AT_SYMLINK_FOLLOW));
    EQ(3, fst_of(fd).st_nlink);
    unlink("a");
    unlink("followed");
    unlink("by-fd");
    EQ(0, fst_of(fd).st_nlink);
    IS(ENOENT, linkat(AT_FDCWD, path, AT_FDCWD, "again", AT_SYMLINK_FOLLOW));
    close(fd);
    unlink("s");
}

const struct posix_family posix_make[] = {{"make", make_all},          {"mknod", make_devices},
                                          {"fifo_socket", make_fifos}, {"symlink", make_symlinks},
                                          {"link", make_links},        {NULL, NULL}};
