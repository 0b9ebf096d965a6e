/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unlink and rmdir, and the sticky bit. */
#include "kvfs_posix.h"

static void remove_unlink_type(enum posix_type t)
{
    posix_about("unlink of a %s", posix_type_name[t]);
    mkdir("d", 0755);
    IS(0, make(t, "d/x"));
    link("d/x", "keep");
    CHANGES(0, unlink("d/x"), {.path = "d", .change = "mc"}, {.path = "keep", .change = "c"});
    IS(ENOENT, lstat("d/x", &(struct stat){.st_size = 0}));
    EQ(1, st_of("keep").st_nlink);
    EQ(2, st_of("d").st_nlink);
    CHANGES(ENOENT, unlink("d/x"), {.path = "d", .change = ""});
    IS(ENOTDIR, rmdir("keep"));
    IS(0, unlink("keep"));
    rmdir("d");
}

/* What a sticky folder lets be removed: by the owner of the file or of the folder, or root. */
static void remove_sticky(enum posix_type t, int (*leave)(const char *), const char *what)
{
    static const uid_t owners[] = {0, U1, U2};
    for (int i = 0; i < 27; i++) {
        uid_t folder = owners[i % 3], file = owners[i / 3 % 3], who = owners[i / 9];
        posix_about("%s of a %s of %u in a sticky folder of %u by %u", what, posix_type_name[t],
                    file, folder, who);
        mkdir("d", 0777);
        chown("d", folder, G1);
        chmod("d", 01777);
        make_as(t, "d/x", file, G1, 0777);
        user(who, who ? G2 : 0, 0, 0);
        int may = who == 0 || who == folder || who == file;
        if (may) {
            IS(0, leave("d/x"));
        } else {
            CHANGES(EPERM, leave("d/x"), {.path = "d", .change = ""},
                    {.path = "d/x", .change = ""});
        }
        root();
        EQ(may ? -1 : 0, lstat("d/x", &(struct stat){.st_size = 0}));
        wipe("gone");
        wipe("d");
    }
}

static int remove_rename(const char *path)
{
    return rename(path, "gone");
}

static void remove_unlink(void)
{
    for (int t = 0; t < TYPES; t++) {
        if (t == DIRECTORY) {
            continue;
        }
        remove_unlink_type((enum posix_type)t);
    }
    posix_about("unlink of a folder");
    mkdir("d", 0755);
    CHANGES(EISDIR, unlink("d"), {.path = ".", .change = ""}, {.path = "d", .change = ""});
    user(U1, G1, 0, 0);
    TRUE(unlink("d") == -1 && (errno == EISDIR || errno == EACCES));
    root();
    TRUE(unlink(".") == -1);
    TRUE(unlink("..") == -1);
    rmdir("d");
    remove_sticky(REGULAR, unlink, "unlink");
    remove_sticky(SYMLINK, unlink, "unlink");
    remove_sticky(FIFO, unlink, "unlink");
    remove_sticky(DIRECTORY, rmdir, "rmdir");
    chmod(".", 0777);
    remove_sticky(REGULAR, remove_rename, "rename");
    remove_sticky(DIRECTORY, remove_rename, "rename");
}

static void remove_open(void)
{
    char text[64] = "";
    posix_about("a file without a name, open");
    int fd = open("x", O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    EQ(5, write(fd, "bytes", 5));
    IS(0, unlink("x"));
    EQ(0, fst_of(fd).st_nlink);
    EQ(5, fst_of(fd).st_size);
    EQ(5, pread(fd, text, sizeof(text), 0));
    TRUE(memcmp(text, "bytes", 5) == 0);
    EQ(6, pwrite(fd, "others", 6, 20000));
    EQ(20006, fst_of(fd).st_size);
    EQ(6, pread(fd, text, 6, 20000));
    TRUE(memcmp(text, "others", 6) == 0);
    IS(0, fsync(fd));
    posix_about("another of its name beside it");
    int other = open("x", O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    TRUE(other != -1 && fst_of(other).st_ino != fst_of(fd).st_ino);
    EQ(0, read(other, text, 1));
    close(other);
    unlink("x");
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    posix_about("a file without a name, opened again");
    other = open(path, O_RDONLY | O_CLOEXEC);
    TRUE(other != -1);
    EQ(5, pread(other, text, 5, 0));
    close(other);
    IS(0, fsetxattr(fd, "user.late", "1", 1, 0));
    EQ(1, fgetxattr(fd, "user.late", text, sizeof(text)));
    close(fd);
    posix_about("many files without a name");
    int fds[100];
    for (int i = 0; i < 100; i++) {
        fds[i] = open("x", O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
        TRUE(fds[i] != -1 && write(fds[i], &i, sizeof(i)) == sizeof(i) && unlink("x") == 0);
    }
    for (int i = 0, k = -1; i < 100; i++) {
        TRUE(pread(fds[i], &k, sizeof(k), 0) == sizeof(k) && k == i);
        close(fds[i]);
    }
    posix_about("a folder that is gone, open");
    mkdir("d", 0755);
    int d = open("d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    IS(0, rmdir("d"));
    EQ(0, fst_of(d).st_nlink);
    IS(ENOENT, openat(d, "x", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    IS(ENOENT, mkdirat(d, "x", 0755));
    DIR *s = fdopendir(d);
    TRUE(s != NULL);
    if (s) {
        rewinddir(s);
        errno = 0;
        while (readdir(s)) {
        }
        TRUE(errno == 0 || errno == ENOENT);
        closedir(s);
    }
}

static void remove_rmdir(void)
{
    struct stat s;
    mkdir("d", 0755);
    posix_about("rmdir");
    IS(0, mkdir("d/e", 0755));
    EQ(3, st_of("d").st_nlink);
    CHANGES(0, rmdir("d/e"), {.path = "d", .change = "mc"});
    EQ(2, st_of("d").st_nlink);
    IS(ENOENT, rmdir("d/e"));
    for (int t = 0; t < TYPES; t++) {
        posix_about("rmdir of a folder with a %s", posix_type_name[t]);
        make((enum posix_type)t, "d/x");
        CHANGES(ENOTEMPTY, rmdir("d"), {.path = ".", .change = ""}, {.path = "d", .change = ""});
        IS(0, lstat("d/x", &s));
        destroy((enum posix_type)t, "d/x");
        if (t != DIRECTORY) {
            posix_about("rmdir of a %s", posix_type_name[t]);
            make((enum posix_type)t, "x");
            CHANGES(ENOTDIR, rmdir("x"), {.path = ".", .change = ""});
            unlink("x");
        }
    }
    posix_about("rmdir of . and ..");
    mkdir("d/e", 0755);
    IS(EINVAL, rmdir("d/."));
    IS(EINVAL, rmdir("d/e/."));
    TRUE(rmdir("d/e/..") == -1 && (errno == ENOTEMPTY || errno == EEXIST));
    symlink("d/e", "s");
    IS(ENOTDIR, rmdir("s"));
    IS(ENOTDIR, rmdir("s/"));
    unlink("s");
    wipe("d");
    posix_about("links of a folder");
    mkdir("d", 0755);
    char name[16];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "d/%d", i);
        mkdir(name, 0755);
        EQ(3 + i, st_of("d").st_nlink);
    }
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "d/%d", i);
        rmdir(name);
    }
    EQ(2, st_of("d").st_nlink);
    IS(0, rmdir("d"));
}

const struct posix_family posix_remove[] = {{"unlink", remove_unlink},
                                            {"unlinked_open", remove_open},
                                            {"rmdir", remove_rmdir},
                                            {NULL, NULL}};
