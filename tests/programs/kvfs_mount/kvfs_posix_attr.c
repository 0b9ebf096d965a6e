/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* chmod, chown, utimensat, truncate and ftruncate; what they do to setuid and setgid. */
#include "kvfs_posix.h"
#include <sys/time.h>
#include <time.h>

static void attr_chmod_type(enum posix_type t)
{
    static const mode_t modes[] = {0,    0111, 0151,  0345,  0444,  0501,  0644, 0700,
                                   0755, 0777, 01777, 02755, 04755, 06777, 07777};
    IS(0, make_as(t, "x", U1, G1, 0644));
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        posix_about("chmod 0%o of a %s by root", modes[i], posix_type_name[t]);
        CHANGES(0, chmod("x", modes[i]), {.path = "x", .change = "c"});
        EQ(modes[i], st_of("x").st_mode & 07777);
        TRUE(is_type(t, "x"));
        posix_about("chmod 0%o of a %s by its owner", modes[i], posix_type_name[t]);
        chmod("x", 0);
        user(U1, G1, 0, 0);
        IS(0, chmod("x", modes[i]));
        root();
        EQ(modes[i], st_of("x").st_mode & 07777);
        posix_about("chmod 0%o of a %s by others", modes[i], posix_type_name[t]);
        chmod("x", 0642);
        user(U2, G1, 0, 0);
        CHANGES(EPERM, chmod("x", modes[i]), {.path = "x", .change = ""});
        root();
        EQ(0642, st_of("x").st_mode & 07777);
    }
    posix_about("chmod through a symlink to a %s", posix_type_name[t]);
    symlink("x", "s");
    CHANGES(0, chmod("s", 0751), {.path = "x", .change = "c"}, {.path = "s", .change = ""});
    EQ(0751, st_of("x").st_mode & 07777);
    unlink("s");
    posix_about("setgid of a %s by a user outside its group", posix_type_name[t]);
    lchown("x", U1, G2);
    user(U1, G1, 0, 0);
    IS(0, chmod("x", 02755));
    root();
    EQ(0755, st_of("x").st_mode & 07777);
    user(U1, G1, G2, 0);
    IS(0, chmod("x", 02755));
    root();
    EQ(02755, st_of("x").st_mode & 07777);
    destroy(t, "x");
}

static void attr_chmod(void)
{
    for (int t = 0; t < SYMLINK; t++) {
        attr_chmod_type((enum posix_type)t);
    }
    posix_about("fchmod");
    touch("x", 0644);
    int fd = open("x", O_RDONLY | O_CLOEXEC);
    CHANGES(0, fchmod(fd, 0600), {.path = "x", .change = "c"});
    EQ(0600, fst_of(fd).st_mode & 07777);
    unlink("x");
    IS(0, fchmod(fd, 0640)); /* of a file without a name */
    EQ(0640, fst_of(fd).st_mode & 07777);
    IS(0, fchown(fd, U1, G1));
    EQ(U1, fst_of(fd).st_uid);
    struct timespec t[2] = {{.tv_sec = 5}, {.tv_sec = 6}};
    IS(0, futimens(fd, t));
    EQ(6, fst_of(fd).st_mtim.tv_sec);
    close(fd);
}

static void attr_chown_type(enum posix_type t)
{
    posix_about("chown of a %s by root", posix_type_name[t]);
    IS(0, make_as(t, "x", 0, 0, 0644));
    CHANGES(0, lchown("x", U1, G1), {.path = "x", .change = "c"});
    EQ(U1, st_of("x").st_uid);
    EQ(G1, st_of("x").st_gid);
    CHANGES(0, lchown("x", U2, (gid_t)-1), {.path = "x", .change = "c"});
    EQ(U2, st_of("x").st_uid);
    EQ(G1, st_of("x").st_gid);
    CHANGES(0, lchown("x", (uid_t)-1, G2), {.path = "x", .change = "c"});
    EQ(U2, st_of("x").st_uid);
    EQ(G2, st_of("x").st_gid);
    IS(0, lchown("x", 4000000000U, 3000000000U));
    EQ(4000000000U, st_of("x").st_uid);
    EQ(3000000000U, st_of("x").st_gid);
    posix_about("chown of a %s by its owner", posix_type_name[t]);
    lchown("x", U1, G1);
    user(U1, G1, G2, 0);
    CHANGES(0, lchown("x", (uid_t)-1, G2), {.path = "x", .change = "c"});
    EQ(G2, st_of("x").st_gid);
    IS(0, lchown("x", U1, G1));
    CHANGES(EPERM, lchown("x", U2, (gid_t)-1), {.path = "x", .change = ""});
    CHANGES(EPERM, lchown("x", U1, G3), {.path = "x", .change = ""});
    CHANGES(EPERM, lchown("x", U2, G1), {.path = "x", .change = ""});
    IS(EPERM, lchown("x", 0, 0));
    posix_about("chown of a %s by others", posix_type_name[t]);
    user(U2, G1, G2, 0);
    IS(EPERM, lchown("x", U2, G1));
    IS(EPERM, lchown("x", (uid_t)-1, G2));
    IS(EPERM, lchown("x", U1, G1));
    root();
    EQ(U1, st_of("x").st_uid);
    EQ(G1, st_of("x").st_gid);
    destroy(t, "x");
}

/* What chown does to setuid and setgid: lost by files, kept by folders. */
static void attr_chown_bits(void)
{
    static const mode_t modes[] = {04755, 02755, 06755, 06777, 04644, 06711};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        for (int by_root = 0; by_root < 2; by_root++) {
            posix_about("chown of a file 0%o by %s", modes[i], by_root ? "root" : "its owner");
            IS(0, make_as(REGULAR, "x", U1, G1, modes[i]));
            if (!by_root) {
                user(U1, G1, G2, 0);
            }
            IS(0, chown("x", (uid_t)-1, G2));
            root();
            EQ(modes[i] & (modes[i] & 010 ? 01777 : 03777), st_of("x").st_mode & 07777);
            unlink("x");
        }
        posix_about("chown of a folder 0%o", modes[i]);
        IS(0, make_as(DIRECTORY, "x", U1, G1, modes[i]));
        IS(0, chown("x", U2, G2));
        EQ(modes[i], st_of("x").st_mode & 07777);
        rmdir("x");
    }
    posix_about("a symlink's owner");
    touch("x", 0644);
    symlink("x", "s");
    CHANGES(0, lchown("s", U1, G1), {.path = "s", .change = "c"}, {.path = "x", .change = ""});
    EQ(0, st_of("x").st_uid);
    CHANGES(0, chown("s", U2, G2), {.path = "x", .change = "c"}, {.path = "s", .change = ""});
    EQ(U2, st_of("x").st_uid);
    EQ(U1, st_of("s").st_uid);
    unlink("s");
    unlink("x");
}

static void attr_chown(void)
{
    for (int t = 0; t < TYPES; t++) {
        attr_chown_type((enum posix_type)t);
    }
    attr_chown_bits();
}

/* ---- Times ---- */

static void attr_times_set(enum posix_type t)
{
    static const struct timespec values[] = {
        {0, 0},          {0, 1},          {1, 999999999},  {1000000000, 123456789},
        {1900000000, 7}, {2147483647, 5}, {2147483648, 6}, {4294967295, 7},
        {4294967296, 8}, {-1, 999999999}, {-86400, 1},     {10000000000, 3}};
    IS(0, make(t, "x"));
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct timespec v[2] = {values[i], values[sizeof(values) / sizeof(values[0]) - 1 - i]};
        posix_about("times %lld.%09ld of a %s", (long long)v[0].tv_sec, v[0].tv_nsec,
                    posix_type_name[t]);
        IS(0, utimensat(AT_FDCWD, "x", v, AT_SYMLINK_NOFOLLOW));
        struct stat s = st_of("x");
        EQ(v[0].tv_sec, s.st_atim.tv_sec);
        EQ(v[0].tv_nsec, s.st_atim.tv_nsec);
        EQ(v[1].tv_sec, s.st_mtim.tv_sec);
        EQ(v[1].tv_nsec, s.st_mtim.tv_nsec);
    }
    posix_about("times of a %s", posix_type_name[t]);
    struct timespec past[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    IS(0, utimensat(AT_FDCWD, "x", past, AT_SYMLINK_NOFOLLOW));
    CHANGES(0, utimensat(AT_FDCWD, "x", NULL, AT_SYMLINK_NOFOLLOW), {.path = "x", .change = "amc"});
    IS(0, utimensat(AT_FDCWD, "x", past, AT_SYMLINK_NOFOLLOW));
    struct timespec one[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 3000, .tv_nsec = 4}};
    CHANGES(0, utimensat(AT_FDCWD, "x", one, AT_SYMLINK_NOFOLLOW), {.path = "x", .change = "mc"});
    EQ(1000, st_of("x").st_atim.tv_sec);
    EQ(3000, st_of("x").st_mtim.tv_sec);
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    CHANGES(0, utimensat(AT_FDCWD, "x", now, AT_SYMLINK_NOFOLLOW), {.path = "x", .change = "ac"});
    EQ(3000, st_of("x").st_mtim.tv_sec);
    struct timespec omit[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
    CHANGES(0, utimensat(AT_FDCWD, "x", omit, AT_SYMLINK_NOFOLLOW), {.path = "x", .change = ""});
    struct timespec bad[2] = {{.tv_nsec = 1000000000}, {.tv_nsec = 0}};
    CHANGES(EINVAL, utimensat(AT_FDCWD, "x", bad, AT_SYMLINK_NOFOLLOW),
            {.path = "x", .change = ""});
    destroy(t, "x");
}

static void attr_times_rights(void)
{
    struct timespec t[2] = {{.tv_sec = 10}, {.tv_sec = 20}};
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    struct timespec half[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    struct timespec omit[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
    IS(0, make_as(REGULAR, "x", U1, G1, 0444));
    posix_about("times by the owner, who may not write");
    user(U1, G1, 0, 0);
    IS(0, utimensat(AT_FDCWD, "x", t, 0));
    IS(0, utimensat(AT_FDCWD, "x", now, 0));
    IS(0, utimensat(AT_FDCWD, "x", NULL, 0));
    IS(0, utimensat(AT_FDCWD, "x", half, 0));
    posix_about("times by others, who may not write");
    user(U2, G2, 0, 0);
    IS(EPERM, utimensat(AT_FDCWD, "x", t, 0));
    IS(EACCES, utimensat(AT_FDCWD, "x", now, 0));
    IS(EACCES, utimensat(AT_FDCWD, "x", NULL, 0));
    IS(EPERM, utimensat(AT_FDCWD, "x", half, 0));
    IS(0, utimensat(AT_FDCWD, "x", omit, 0));
    root();
    chmod("x", 0646);
    posix_about("times by others, who may write");
    user(U2, G2, 0, 0);
    IS(EPERM, utimensat(AT_FDCWD, "x", t, 0));
    CHANGES(0, utimensat(AT_FDCWD, "x", now, 0), {.path = "x", .change = "amc"});
    CHANGES(0, utimensat(AT_FDCWD, "x", NULL, 0), {.path = "x", .change = "amc"});
    IS(EPERM, utimensat(AT_FDCWD, "x", half, 0));
    root();
    unlink("x");
}

static void attr_times(void)
{
    for (int t = 0; t < TYPES; t++) {
        attr_times_set((enum posix_type)t);
    }
    attr_times_rights();
}

/* atime by relatime's rule: reading advances it when it is not later than mtime or ctime. */
static void attr_relatime(void)
{
    char c;
    fill("x", "bytes");
    struct timespec past[2] = {{.tv_sec = 1000}, {.tv_nsec = UTIME_OMIT}};
    IS(0, utimensat(AT_FDCWD, "x", past, 0));
    posix_about("atime advances by read");
    int fd = open("x", O_RDONLY | O_CLOEXEC);
    EQ(1, read(fd, &c, 1));
    close(fd);
    TRUE(st_of("x").st_atim.tv_sec > 1000);
    posix_about("O_NOATIME is the owner's");
    user(U1, G1, 0, 0);
    IS(EPERM, open("x", O_RDONLY | O_NOATIME | O_CLOEXEC));
    root();
    IS(0, utimensat(AT_FDCWD, "x", past, 0));
    fd = open("x", O_RDONLY | O_NOATIME | O_CLOEXEC);
    TRUE(fd != -1);
    close(fd);
    unlink("x");
}

/* ---- Sizes ---- */

typedef int (*attr_resize_fn)(const char *path, off_t size);

static int attr_truncate(const char *path, off_t size)
{
    return truncate(path, size);
}
static int attr_ftruncate(const char *path, off_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), rc = fd == -1 ? -1 : ftruncate(fd, size);
    int error = errno;
    if (fd != -1) {
        close(fd);
    }
    errno = error;
    return rc;
}

static void attr_resize_bytes(attr_resize_fn resize, off_t from, off_t to)
{
    static char a[1 << 20], b[1 << 20];
    memset(a, 'a', (size_t)from);
    int fd = open("x", O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0644);
    EQ(from, write(fd, a, (size_t)from));
    IS(0, resize("x", to));
    EQ(to, fst_of(fd).st_size);
    IS(0, resize("x", (off_t)sizeof(b)));
    EQ(sizeof(b), pread(fd, b, sizeof(b), 0));
    off_t keep = from < to ? from : to;
    memset(a + keep, 0, sizeof(a) - (size_t)keep);
    TRUE(memcmp(a, b, sizeof(a)) == 0);
    close(fd);
    unlink("x");
}

static void attr_resize(const char *name, attr_resize_fn resize)
{
    static const off_t sizes[] = {0,    1,    511,   4095,  4096,   4097,   8191,  8192,
                                  8193, 9000, 16384, 65536, 131071, 131072, 500000};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t k = 0; k < SIZES; k++) {
            posix_about("%s from %lld to %lld", name, (long long)sizes[i], (long long)sizes[k]);
            attr_resize_bytes(resize, sizes[i], sizes[k]);
        }
    }
    posix_about("%s: times", name);
    touch("x", 0644);
    CHANGES(0, resize("x", 123), {.path = "x", .change = "mc"});
    CHANGES(0, resize("x", 20000), {.path = "x", .change = "mc"});
    CHANGES(0, resize("x", 0), {.path = "x", .change = "mc"});
    posix_about("%s: sizes refused", name);
    CHANGES(EINVAL, resize("x", -1), {.path = "x", .change = ""});
    IS(EINVAL, resize("x", INT64_MIN));
    TRUE(resize("x", INT64_MAX) == -1 && (errno == EFBIG || errno == EINVAL));
    EQ(0, st_of("x").st_size);
    posix_about("%s: rights", name);
    chown("x", U1, G1);
    chmod("x", 0464);
    user(U1, G1, 0, 0);
    IS(EACCES, resize("x", 1));
    user(U2, G1, 0, 0);
    IS(0, resize("x", 5));
    user(U2, G2, 0, 0);
    IS(EACCES, resize("x", 1));
    root();
    posix_about("%s: setuid and setgid", name);
    for (mode_t m = 04755; m <= 06777; m += 01011) {
        chmod("x", m | 0022);
        user(U2, G2, 0, 0);
        IS(0, resize("x", (off_t)(m & 511)));
        root();
        EQ((m | 0022) & (m & 010 ? 01777 : 03777), st_of("x").st_mode & 07777);
        chmod("x", m);
        IS(0, resize("x", 3));
        EQ(m, st_of("x").st_mode & 07777);
    }
    unlink("x");
}

static void attr_truncates(void)
{
    attr_resize("truncate", attr_truncate);
    attr_resize("ftruncate", attr_ftruncate);
    posix_about("truncate of what is no file");
    mkdir("d", 0755);
    IS(EISDIR, truncate("d", 0));
    mkfifo("f", 0644);
    IS(EINVAL, truncate("f", 0));
    symlink("f", "s");
    IS(EINVAL, truncate("s", 0));
    posix_about("ftruncate of what is not open for writing");
    touch("x", 0644);
    int fd = open("x", O_RDONLY | O_CLOEXEC);
    IS(EINVAL, ftruncate(fd, 0));
    close(fd);
    IS(EBADF, ftruncate(fd, 0));
    posix_about("ftruncate needs no right once it is open");
    chown("x", U1, G1);
    user(U1, G1, 0, 0);
    fd = open("x", O_RDWR | O_CLOEXEC);
    IS(0, fchmod(fd, 0));
    IS(0, ftruncate(fd, 77));
    root();
    IS(0, unlink("x"));
    IS(0, ftruncate(fd, 10000));
    EQ(10000, fst_of(fd).st_size);
    close(fd);
    posix_about("truncate with O_CREAT in a folder that is closed");
    user(U1, G1, 0, 0);
    fd = open("made", O_CREAT | O_RDWR | O_CLOEXEC, 0);
    TRUE(fd != -1);
    IS(0, ftruncate(fd, 3));
    IS(EACCES, truncate("made", 0));
    close(fd);
    root();
}

/* Writing by a user other than root takes setuid and setgid away. */
static void attr_write_bits(void)
{
    for (mode_t m = 04777; m <= 06777; m += 01000) {
        for (int by_root = 0; by_root < 2; by_root++) {
            posix_about("write to a file 0%o by %s", m, by_root ? "root" : "a user");
            make_as(REGULAR, "x", U1, G1, m);
            user(by_root ? 0 : U2, by_root ? 0 : G2, 0, 0);
            int fd = open("x", O_WRONLY | O_CLOEXEC);
            EQ(1, write(fd, "x", 1));
            root();
            EQ(by_root ? m : m & 01777, fst_of(fd).st_mode & 07777);
            EQ(by_root ? m : m & 01777, st_of("x").st_mode & 07777);
            close(fd);
            unlink("x");
        }
    }
    posix_about("setgid without x stays when a member writes");
    make_as(REGULAR, "x", U1, G1, 02767);
    user(U2, G1, 0, 0);
    int fd = open("x", O_WRONLY | O_CLOEXEC);
    EQ(1, write(fd, "x", 1));
    root();
    EQ(02767, st_of("x").st_mode & 07777);
    close(fd);
    unlink("x");
}

const struct posix_family posix_attr[] = {{"chmod", attr_chmod},
                                          {"chown", attr_chown},
                                          {"utimensat", attr_times},
                                          {"relatime", attr_relatime},
                                          {"truncate", attr_truncates},
                                          {"write_bits", attr_write_bits},
                                          {NULL, NULL}};
