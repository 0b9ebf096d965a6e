/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "lossfs_names.h"
#include "lossfs_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct lossfs_change {
    char *made; /* a name that did not exist before, or refers to another inode; NULL: none */
    char *from; /* where its inode was before; NULL: it was created */
    char *gone; /* a name that was removed or replaced; NULL: none */
    char *kept; /* where its inode is now */
    int is_folder;
};

static struct {
    char folder[PATH_MAX];
    struct lossfs_change *list;
    size_t count;
    size_t room;
    uint64_t number;
} lossfs_names;

int lossfs_names_init(const char *lower)
{
    struct dirent *e;
    (void)snprintf(lossfs_names.folder, sizeof(lossfs_names.folder), "%s/.lossfs", lower);
    if (mkdir(lossfs_names.folder, 0700) != 0 && errno != EEXIST)
        return errno;
    DIR *d = opendir(lossfs_names.folder);
    if (d == NULL)
        return errno;
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.' && unlinkat(dirfd(d), e->d_name, 0) != 0)
            (void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    }
    (void)closedir(d);
    return 0;
}

static char *lossfs_names_copy(const char *path)
{
    char *s = path == NULL ? NULL : strdup(path);
    if (path != NULL && s == NULL)
        abort();
    return s;
}

static void lossfs_names_add(struct lossfs_change c)
{
    if (lossfs_names.count == lossfs_names.room) {
        lossfs_names.room = lossfs_names.room == 0 ? 64 : lossfs_names.room * 2;
        lossfs_names.list =
            realloc(lossfs_names.list, lossfs_names.room * sizeof(*lossfs_names.list));
        if (lossfs_names.list == NULL)
            abort();
    }
    lossfs_names.list[lossfs_names.count++] = c;
}

/* Moves what @p path refers to out of sight; NULL with errno set: it could not. */
static char *lossfs_names_hide(const char *path)
{
    char kept[PATH_MAX + 32];
    (void)snprintf(kept, sizeof(kept), "%s/%llu", lossfs_names.folder,
                   (unsigned long long)lossfs_names.number++);
    if (rename(path, kept) != 0)
        return NULL;
    return lossfs_names_copy(kept);
}

void lossfs_names_created(const char *path, int is_folder)
{
    lossfs_names_add(
        (struct lossfs_change){.made = lossfs_names_copy(path), .is_folder = is_folder});
}

int lossfs_names_unlink(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    char *kept = lossfs_names_hide(path);
    if (kept == NULL)
        return errno;
    lossfs_names_add((struct lossfs_change){.gone = lossfs_names_copy(path), .kept = kept});
    return 0;
}

static int lossfs_names_empty(const char *path)
{
    struct dirent *e;
    DIR *d = opendir(path);
    int n = 0;
    if (d == NULL)
        return errno;
    while ((e = readdir(d)) != NULL)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void)closedir(d);
    return n == 0 ? 0 : ENOTEMPTY;
}

int lossfs_names_rmdir(const char *path)
{
    int r = lossfs_names_empty(path);
    char *kept = r == 0 ? lossfs_names_hide(path) : NULL;
    if (kept == NULL)
        return r != 0 ? r : errno;
    lossfs_names_add(
        (struct lossfs_change){.gone = lossfs_names_copy(path), .kept = kept, .is_folder = 1});
    return 0;
}

int lossfs_names_rename(const char *from, const char *to)
{
    struct stat a, b;
    char *kept = NULL;
    if (lstat(from, &a) != 0)
        return errno;
    if (lstat(to, &b) == 0) {
        if (a.st_ino == b.st_ino)
            return 0;
        if (S_ISDIR(a.st_mode) != S_ISDIR(b.st_mode))
            return S_ISDIR(b.st_mode) ? EISDIR : ENOTDIR;
        int r = S_ISDIR(b.st_mode) ? lossfs_names_empty(to) : 0;
        if (r != 0)
            return r;
        kept = lossfs_names_hide(to);
        if (kept == NULL)
            return errno;
    }
    if (rename(from, to) != 0) {
        int r = errno;
        if (kept != NULL)
            (void)rename(kept, to);
        free(kept);
        return r;
    }
    lossfs_names_add((struct lossfs_change){.made = lossfs_names_copy(to),
                                            .from = lossfs_names_copy(from),
                                            .gone = lossfs_names_copy(kept ? to : NULL),
                                            .kept = kept});
    return 0;
}

static void lossfs_names_free(struct lossfs_change *c)
{
    free(c->made);
    free(c->from);
    free(c->gone);
    free(c->kept);
}

void lossfs_names_commit(void)
{
    for (size_t i = 0; i < lossfs_names.count; i++) {
        struct lossfs_change *c = &lossfs_names.list[i];
        if (c->kept != NULL && unlink(c->kept) != 0)
            (void)rmdir(c->kept);
        lossfs_names_free(c);
    }
    lossfs_names.count = 0;
}

static void lossfs_names_undo(const struct lossfs_change *c)
{
    if (c->made != NULL && c->from != NULL)
        (void)rename(c->made, c->from);
    else if (c->made != NULL)
        (void)(c->is_folder ? rmdir(c->made) : unlink(c->made));
    if (c->gone != NULL)
        (void)rename(c->kept, c->gone);
}

size_t lossfs_names_lose(struct lossfs_random *r)
{
    size_t stay = lossfs_random_below(r, (uint32_t)lossfs_names.count + 1);
    size_t undone = lossfs_names.count - stay;
    for (size_t i = lossfs_names.count; i-- > stay;) {
        lossfs_names_undo(&lossfs_names.list[i]);
        lossfs_names_free(&lossfs_names.list[i]);
    }
    lossfs_names.count = stay;
    lossfs_names_commit();
    return undone;
}

size_t lossfs_names_pending(void)
{
    return lossfs_names.count;
}
