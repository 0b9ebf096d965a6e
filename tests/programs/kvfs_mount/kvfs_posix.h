/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the families of kvfs_posix share: checks that count, users, file types, times.
 * A family runs in a folder of its own and leaves nothing behind; paths are relative to it.
 */
#ifndef KVFS_POSIX_H
#define KVFS_POSIX_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <signal.h>
#include <unistd.h>

enum posix_type { REGULAR, DIRECTORY, FIFO, BLOCK, CHAR, SOCKET, SYMLINK, TYPES };
enum { U1 = 60001, U2 = 60002, G1 = 60011, G2 = 60012, G3 = 60013 };

struct posix_family {
    const char *name;
    void (*run)(void);
};
extern const struct posix_family posix_names[], posix_make[], posix_attr[], posix_remove[],
    posix_rename[], posix_open[], posix_data[], posix_xattr[], posix_locks[], posix_dirs[];

extern const char *const posix_type_name[TYPES];
extern size_t posix_name_max; /* from statfs() */
extern int posix_is_kvfs;     /* its limits, where they are larger than ext4's */

/* What is being tried, for the line of a failure. */
void posix_about(const char *format, ...) __attribute__((format(printf, 1, 2)));
int posix_check(const char *file, int line, const char *text, int ok, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
int posix_error(const char *file, int line, const char *text, int expected, long result);
int posix_equal(const char *file, int line, const char *text, long long expected, long long found);

/* IS(0, call): it succeeds; IS(EPERM, call): it returns -1 with that. */
#define IS(expected, call)                                                                         \
    posix_error(__FILE__, __LINE__, #call, expected, (errno = 0, (long)(call)))
#define TRUE(condition) posix_check(__FILE__, __LINE__, #condition, (condition) ? 1 : 0, "is false")
#define EQ(expected, value)                                                                        \
    posix_equal(__FILE__, __LINE__, #value, (long long)(expected), (long long)(value))

/* Times of `path` ("amc": these advance, the others of m and c stay); afterwards it is `then`. */
struct posix_watch {
    const char *path;
    const char *change;
    const char *then;
    struct stat st;
};
void posix_before(struct posix_watch *w, size_t n);
void posix_after(const char *file, int line, const char *text, struct posix_watch *w, size_t n);
#define CHANGES(expected, call, ...)                                                               \
    do {                                                                                           \
        struct posix_watch watch_[] = {__VA_ARGS__};                                               \
        posix_before(watch_, sizeof(watch_) / sizeof(watch_[0]));                                  \
        IS(expected, call);                                                                        \
        posix_after(__FILE__, __LINE__, #call, watch_, sizeof(watch_) / sizeof(watch_[0]));        \
    } while (0)

void posix_tick(void); /* so that time stamps differ */

/* Become a user with a group and up to two more (0: none); root again by user(0, 0, 0, 0). */
void user(uid_t uid, gid_t gid, gid_t more, gid_t even_more);
void root(void);

int make(enum posix_type type, const char *path); /* 0755 or 0644, as the effective user */
int make_as(enum posix_type type, const char *path, uid_t uid, gid_t gid, mode_t mode);
int destroy(enum posix_type type, const char *path);
void wipe(const char *path);                   /* with all that is in it; no error when absent */
void fill(const char *path, const char *text); /* a file with this text */
struct stat st_of(const char *path);           /* lstat; zeros when absent */
struct stat fst_of(int fd);
int is_type(enum posix_type type, const char *path);
mode_t type_bits(enum posix_type type);
int touch(const char *path, mode_t mode); /* 0 or -1 */
int open_close(const char *path, int flags, mode_t mode);
int bind_at(const char *path);
/* A name of n letters, a path of n letters in which every name is short; never freed. */
const char *long_name(size_t n);
const char *long_path(size_t n, const char *last);
/* Run in a child; its exit code, or 256 + the signal. */
int in_child(int (*run)(void *ctx), void *ctx);

#endif
