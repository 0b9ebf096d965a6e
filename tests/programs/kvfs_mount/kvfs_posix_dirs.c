/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Listing: types, cookies, folders that change meanwhile; and what a name means right after. */
#include "kvfs_posix.h"
#include <signal.h>

enum { DIRS_FILES = 3000 };

static void dirs_types(void)
{
    char name[16];
    for (int t = 0; t < TYPES; t++) {
        snprintf(name, sizeof(name), "t%d", t);
        make((enum posix_type)t, name);
    }
    posix_about("types and numbers in a listing");
    DIR *d = opendir(".");
    int seen = 0, dots = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == 't') {
            int t = e->d_name[1] - '0';
            seen++;
            TRUE(e->d_type == DT_UNKNOWN || IFTODT(type_bits((enum posix_type)t)) == e->d_type);
            EQ(st_of(e->d_name).st_ino, e->d_ino);
        } else if (e->d_name[0] == '.') {
            dots++;
            TRUE(e->d_ino != 0);
            if (strcmp(e->d_name, ".") == 0) {
                EQ(st_of(".").st_ino, e->d_ino);
            }
        }
    }
    closedir(d);
    EQ(TYPES, seen);
    EQ(2, dots);
    IS(ENOTDIR, opendir("t0") ? 0 : -1);
    IS(ENOENT, opendir("none") ? 0 : -1);
    posix_about("an empty folder");
    d = opendir("t1");
    seen = 0;
    while (d && readdir(d)) {
        seen++;
    }
    closedir(d);
    EQ(2, seen);
}

static void dirs_make(void)
{
    char name[32];
    int made = 0;
    for (int i = 0; i < DIRS_FILES; i++) {
        snprintf(name, sizeof(name), "stable%d", i);
        made += touch(name, 0644) == 0;
    }
    EQ(DIRS_FILES, made);
}

static void dirs_remove(void)
{
    char name[32];
    int removed = 0;
    for (int i = 0; i < DIRS_FILES; i++) {
        snprintf(name, sizeof(name), "stable%d", i);
        removed += unlink(name) == 0;
    }
    EQ(DIRS_FILES, removed);
}

/* Makes and removes other names until it is killed. */
static pid_t dirs_disturb(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    for (unsigned i = 0;; i++) {
        char name[32], other[32];
        snprintf(name, sizeof(name), "moving%u", i % 500);
        snprintf(other, sizeof(other), "moved%u", i % 300);
        touch(name, 0644);
        if (i % 3 == 0) {
            rename(name, other);
        } else if (i % 3 == 1) {
            unlink(name);
        } else {
            unlink(other);
        }
    }
}

static int dirs_number(const char *name)
{
    return strncmp(name, "stable", 6) == 0 ? (int)strtol(name + 6, NULL, 10) : -1;
}

/* Every stable name once, whatever happens to the others. */
static void dirs_once(DIR *d)
{
    static unsigned char seen[DIRS_FILES];
    int once = 0, twice = 0;
    memset(seen, 0, sizeof(seen));
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        int i = dirs_number(e->d_name);
        if (i >= 0 && i < DIRS_FILES) {
            once += seen[i] == 0;
            twice += seen[i] == 1;
            seen[i] = 1;
        }
    }
    EQ(DIRS_FILES, once);
    EQ(0, twice);
}

static void dirs_concurrent(void)
{
    dirs_make();
    pid_t pid = dirs_disturb();
    for (int i = 0; i < 12; i++) {
        posix_about("a listing while others come and go, %d", i);
        DIR *d = opendir(".");
        dirs_once(d);
        rewinddir(d);
        dirs_once(d);
        closedir(d);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    dirs_remove();
}

static void dirs_cookies(void)
{
    static long at[DIRS_FILES + 8];
    static char next[DIRS_FILES + 8][24];
    int n = 0;
    dirs_make();
    DIR *d = opendir(".");
    posix_about("telldir and seekdir");
    for (struct dirent *e; (at[n] = telldir(d), e = readdir(d)) != NULL && n < DIRS_FILES + 4;) {
        snprintf(next[n++], sizeof(next[0]), "%.23s", e->d_name);
    }
    EQ(DIRS_FILES + 2, n);
    int wrong = 0;
    for (int i = 0; i < 2000; i++) {
        int k = (int)((unsigned)i * 7919U % (unsigned)n);
        seekdir(d, at[k]);
        struct dirent *e = readdir(d);
        wrong += !e || strcmp(e->d_name, next[k]) != 0;
    }
    EQ(0, wrong);
    posix_about("seekdir after names before and behind are gone");
    for (int i = 0; i < DIRS_FILES; i += 3) {
        char name[32];
        snprintf(name, sizeof(name), "stable%d", i);
        unlink(name);
    }
    for (int k = 10; k < n - 10; k += 37) {
        int i = dirs_number(next[k]);
        if (i < 0 || i % 3 == 0) {
            continue;
        }
        seekdir(d, at[k]);
        struct dirent *e = readdir(d);
        TRUE(e && strcmp(e->d_name, next[k]) == 0);
    }
    closedir(d);
    d = opendir(".");
    posix_about("seekdir in another open folder");
    seekdir(d, at[n / 2]);
    int rest = 0;
    while (readdir(d)) {
        rest++;
    }
    TRUE(rest > n / 4 && rest < n * 3 / 4);
    posix_about("a folder is emptied as it is listed");
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == 's') {
            IS(0, unlink(e->d_name));
        }
    }
    rewinddir(d);
    rest = 0;
    while (readdir(d)) {
        rest++;
    }
    EQ(2, rest);
    closedir(d);
}

/* What was not there is there as soon as it is made, and the other way round. */
static void dirs_fresh(void)
{
    struct stat s;
    for (int i = 0; i < 30; i++) {
        posix_about("right after, %d", i);
        IS(ENOENT, stat("x", &s));
        IS(0, touch("x", 0644));
        IS(0, stat("x", &s));
        IS(0, rename("x", "y"));
        IS(ENOENT, stat("x", &s));
        IS(0, stat("y", &s));
        IS(0, mkdir("x", 0755));
        IS(0, stat("x", &s));
        TRUE(S_ISDIR(s.st_mode));
        IS(0, rmdir("x"));
        IS(0, symlink("y", "x"));
        IS(0, stat("x", &s));
        TRUE(S_ISREG(s.st_mode));
        IS(0, unlink("y"));
        IS(ENOENT, stat("x", &s));
        IS(0, unlink("x"));
    }
    posix_about("a deep tree");
    char path[1024] = "";
    for (size_t i = 0; i < 100; i++) {
        size_t n = strlen(path);
        snprintf(path + n, sizeof(path) - n, "%sd%zu", i ? "/" : "", i);
        IS(0, mkdir(path, 0755));
    }
    IS(0, access(path, F_OK));
    IS(0, rename("d0", "e0"));
    path[0] = 'e';
    IS(0, access(path, F_OK));
    posix_about("getcwd");
    char cwd[2048], expected[2056];
    TRUE(getcwd(cwd, sizeof(cwd)) != NULL);
    snprintf(expected, sizeof(expected), "%s/e0/d1", cwd);
    IS(0, chdir("e0/d1"));
    TRUE(getcwd(cwd, sizeof(cwd)) != NULL && strcmp(cwd, expected) == 0);
    IS(0, chdir("../.."));
}

/* A save as editors do it: write beside, sync, rename over; readers see one or the other, whole. */
static void dirs_save(void)
{
    static char text[20000], back[20001];
    fflush(stdout);
    memset(text, 'a', sizeof(text));
    int fd = open("doc", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    EQ(sizeof(text), write(fd, text, sizeof(text)));
    close(fd);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 150; i++) {
            memset(text, 'a' + i % 26, sizeof(text));
            fd = open("doc.new", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
            if (fd == -1 || write(fd, text, sizeof(text)) != (ssize_t)sizeof(text) ||
                fsync(fd) == -1 || fchmod(fd, 0644) == -1 || close(fd) == -1 ||
                rename("doc.new", "doc") == -1) {
                _exit(1);
            }
        }
        _exit(0);
    }
    int status = 1, broken = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        fd = open("doc", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd == -1 ? -1 : read(fd, back, sizeof(back));
        broken += n != (ssize_t)sizeof(text) || memcmp(back, back + 1, sizeof(text) - 1) != 0;
        close(fd);
    }
    posix_about("saving over a file");
    EQ(0, status);
    EQ(0, broken);
    EQ(1, st_of("doc").st_nlink);
}

const struct posix_family posix_dirs[] = {
    {"listing", dirs_types},   {"concurrent", dirs_concurrent},
    {"cookies", dirs_cookies}, {"fresh", dirs_fresh},
    {"save", dirs_save},       {NULL, NULL}};
