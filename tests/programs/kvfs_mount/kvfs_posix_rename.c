/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rename, with NOREPLACE and EXCHANGE. */
#include "kvfs_posix.h"

static int rename_flags(const char *a, const char *b, unsigned flags)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, flags);
}

static int rename_there(const char *path)
{
    return lstat(path, &(struct stat){.st_size = 0}) == 0;
}

/* To a name that is free: in the same folder, in another, back. */
static void rename_free(enum posix_type t)
{
    posix_about("rename of a %s", posix_type_name[t]);
    mkdir("d", 0755);
    mkdir("e", 0755);
    make(t, "d/a");
    int moves = t == DIRECTORY;
    struct stat before = st_of("d/a");
    CHANGES(0, rename("d/a", "d/b"), {.path = "d", .change = "mc"},
            {.path = "d/a", .then = "d/b", .change = "c"});
    TRUE(!rename_there("d/a"));
    EQ(before.st_ino, st_of("d/b").st_ino);
    EQ(before.st_mode, st_of("d/b").st_mode);
    EQ(2 + moves, st_of("d").st_nlink);
    CHANGES(0, rename("d/b", "e/c"), {.path = "d", .change = "mc"}, {.path = "e", .change = "mc"},
            {.path = "d/b", .then = "e/c", .change = "c"});
    EQ(before.st_ino, st_of("e/c").st_ino);
    EQ(before.st_nlink, st_of("e/c").st_nlink);
    EQ(2, st_of("d").st_nlink);
    EQ(2 + moves, st_of("e").st_nlink);
    if (moves) {
        EQ(st_of("e").st_ino, st_of("e/c/..").st_ino);
        IS(0, touch("e/c/f", 0644));
        IS(0, rename("e/c/f", "e/f"));
    }
    IS(0, rename("e/c", "e/c"));
    TRUE(rename_there("e/c"));
    IS(ENOENT, rename("e/none", "e/c"));
    TRUE(rename_there("e/c"));
    posix_about("NOREPLACE of a %s", posix_type_name[t]);
    IS(0, rename_flags("e/c", "d/a", RENAME_NOREPLACE));
    EQ(before.st_ino, st_of("d/a").st_ino);
    IS(EEXIST, rename_flags("d/a", "d/a", RENAME_NOREPLACE));
    IS(ENOENT, rename_flags("d/a", "d/none", RENAME_EXCHANGE));
    IS(ENOENT, rename_flags("d/none", "d/a", RENAME_EXCHANGE));
    IS(EINVAL, rename_flags("d/a", "d/b", RENAME_EXCHANGE | RENAME_NOREPLACE));
    TRUE(rename_there("d/a"));
    wipe("d");
    wipe("e");
}

/* To a name that is taken. */
static void rename_over(enum posix_type t, enum posix_type over)
{
    int expected = t == DIRECTORY && over != DIRECTORY   ? ENOTDIR
                   : t != DIRECTORY && over == DIRECTORY ? EISDIR
                                                         : 0;
    posix_about("rename of a %s over a %s", posix_type_name[t], posix_type_name[over]);
    mkdir("d", 0755);
    make(t, "a");
    make(over, "d/b");
    if (over != DIRECTORY) {
        link("d/b", "other");
    }
    struct stat a = st_of("a"), b = st_of("d/b");
    CHANGES(EEXIST, rename_flags("a", "d/b", RENAME_NOREPLACE), {.path = "a", .change = ""},
            {.path = "d/b", .change = ""}, {.path = "d", .change = ""});
    if (expected) {
        CHANGES(expected, rename("a", "d/b"), {.path = "a", .change = ""},
                {.path = "d/b", .change = ""}, {.path = "d", .change = ""});
    } else if (over == DIRECTORY) {
        CHANGES(0, rename("a", "d/b"), {.path = "d", .change = "mc"});
    } else {
        CHANGES(0, rename("a", "d/b"), {.path = "d", .change = "mc"},
                {.path = "other", .change = "c"});
    }
    EQ(expected ? 1 : 0, rename_there("a"));
    EQ(expected ? b.st_ino : a.st_ino, st_of("d/b").st_ino);
    EQ(over == DIRECTORY || t == DIRECTORY ? 2 + (expected ? over == DIRECTORY : 1) : 2,
       st_of("d").st_nlink);
    if (over != DIRECTORY) {
        EQ(expected ? 2 : 1, st_of("other").st_nlink);
        unlink("other");
    }
    wipe("a");
    wipe("d");
    posix_about("exchange of a %s and a %s", posix_type_name[t], posix_type_name[over]);
    mkdir("d", 0755);
    mkdir("e", 0755);
    make(t, "e/a");
    make(over, "d/b");
    a = st_of("e/a");
    b = st_of("d/b");
    CHANGES(0, rename_flags("e/a", "d/b", RENAME_EXCHANGE), {.path = "d", .change = "mc"},
            {.path = "e", .change = "mc"}, {.path = "e/a", .then = "d/b", .change = "c"},
            {.path = "d/b", .then = "e/a", .change = "c"});
    EQ(b.st_ino, st_of("e/a").st_ino);
    EQ(a.st_ino, st_of("d/b").st_ino);
    EQ(2 + (over == DIRECTORY), st_of("e").st_nlink);
    EQ(2 + (t == DIRECTORY), st_of("d").st_nlink);
    if (t == DIRECTORY) {
        EQ(st_of("d").st_ino, st_of("d/b/..").st_ino);
    }
    wipe("d");
    wipe("e");
}

static void rename_types(void)
{
    for (int t = 0; t < TYPES; t++) {
        rename_free((enum posix_type)t);
        for (int o = 0; o < TYPES; o++) {
            rename_over((enum posix_type)t, (enum posix_type)o);
        }
    }
}

static void rename_folders(void)
{
    posix_about("a folder over one that is not empty");
    mkdir("a", 0755);
    mkdir("b", 0755);
    for (int t = 0; t < TYPES; t++) {
        make((enum posix_type)t, "b/x");
        TRUE(rename("a", "b") == -1 && (errno == ENOTEMPTY || errno == EEXIST));
        TRUE(rename_there("a") && rename_there("b/x"));
        destroy((enum posix_type)t, "b/x");
    }
    posix_about("a folder into itself");
    mkdir("a/c", 0755);
    mkdir("a/c/d", 0755);
    CHANGES(EINVAL, rename("a", "a/x"), {.path = "a", .change = ""});
    IS(EINVAL, rename("a", "a/c/x"));
    IS(EINVAL, rename("a", "a/c/d"));
    IS(ENOTEMPTY, rename("a/c/d", "a"));
    IS(ENOTEMPTY, rename("a/c", "a"));
    IS(EINVAL, rename_flags("a", "a/c/d", RENAME_EXCHANGE));
    IS(EINVAL, rename_flags("a/c/d", "a", RENAME_EXCHANGE));
    IS(EINVAL, rename_flags("a", "a/c/x", RENAME_NOREPLACE));
    posix_about(". and ..");
    TRUE(rename("a/.", "b/x") == -1 && (errno == EINVAL || errno == EBUSY));
    TRUE(rename("a/c/..", "b/x") == -1 && (errno == EINVAL || errno == EBUSY));
    TRUE(rename("b", "a/.") == -1 && (errno == EINVAL || errno == EBUSY));
    TRUE(rename("b", "a/..") == -1 && (errno == EINVAL || errno == EBUSY));
    posix_about("a deep folder moves");
    IS(0, touch("a/c/d/f", 0644));
    int d = open("a/c/d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    IS(0, rename("a", "b/a"));
    IS(0, access("b/a/c/d/f", F_OK));
    IS(0, faccessat(d, "../../../a/c", F_OK, 0));
    EQ(3, st_of("b").st_nlink);
    close(d);
    IS(0, rename("b/a/c/d", "d"));
    EQ(2, st_of("b/a/c").st_nlink);
    posix_about("the same file by two names");
    touch("l", 0644);
    link("l", "m");
    CHANGES(0, rename("l", "m"), {.path = "l", .change = ""});
    TRUE(rename_there("l") && rename_there("m"));
    EQ(2, st_of("l").st_nlink);
    posix_about("an open file is renamed over");
    fill("old", "old");
    fill("new", "new");
    int fd = open("old", O_RDWR | O_CLOEXEC);
    IS(0, rename("new", "old"));
    char text[4] = "";
    EQ(3, pread(fd, text, 3, 0));
    TRUE(strcmp(text, "old") == 0);
    EQ(0, fst_of(fd).st_nlink);
    close(fd);
    fd = open("old", O_RDWR | O_CLOEXEC);
    EQ(3, pread(fd, text, 3, 0));
    TRUE(strcmp(text, "new") == 0);
    close(fd);
    IS(EXDEV, rename("old", "/proc/old"));
}

/* A folder that changes its parent is written to: it must be its mover's to write. */
static void rename_rights(void)
{
    mkdir("d", 0777);
    mkdir("e", 0777);
    mkdir("d/mine", 0755);
    mkdir("d/theirs", 0755);
    chown("d/mine", U1, G1);
    chown("d/theirs", U2, G2);
    user(U1, G1, 0, 0);
    posix_about("a folder to another parent");
    IS(0, rename("d/mine", "e/mine"));
    IS(EACCES, rename("d/theirs", "e/theirs"));
    IS(0, rename("d/theirs", "d/other"));
    posix_about("between folders without rights");
    root();
    chmod("e", 0555);
    touch("d/f", 0644);
    user(U1, G1, 0, 0);
    CHANGES(EACCES, rename("d/f", "e/f"), {.path = "d/f", .change = ""});
    IS(EACCES, rename("e/mine", "d/mine"));
    root();
    chmod("e", 0666);
    user(U1, G1, 0, 0);
    IS(EACCES, rename("d/f", "e/f"));
    IS(EACCES, rename("e/mine", "d/mine"));
    root();
    chmod("e", 0777);
}

/* Over a file in a sticky folder: as if it were removed. */
static void rename_sticky(void)
{
    static const uid_t owners[] = {0, U1, U2};
    for (int i = 0; i < 27; i++) {
        uid_t folder = owners[i % 3], file = owners[i / 3 % 3], who = owners[i / 9];
        for (int exchange = 0; exchange < 2; exchange++) {
            posix_about("%s over a file of %u in a sticky folder of %u by %u",
                        exchange ? "exchange" : "rename", file, folder, who);
            mkdir("d", 0777);
            chown("d", folder, G1);
            chmod("d", 01777);
            make_as(REGULAR, "d/x", file, G1, 0666);
            make_as(REGULAR, "mine", who, G1, 0666);
            user(who, who ? G2 : 0, 0, 0);
            int may = who == 0 || who == folder || who == file;
            IS(may ? 0 : EPERM, rename_flags("mine", "d/x", exchange ? RENAME_EXCHANGE : 0));
            root();
            EQ(!may || exchange, rename_there("mine"));
            wipe("mine");
            wipe("d");
        }
    }
}

const struct posix_family posix_rename[] = {{"rename", rename_types},
                                            {"rename_folders", rename_folders},
                                            {"rename_rights", rename_rights},
                                            {"rename_sticky", rename_sticky},
                                            {NULL, NULL}};
