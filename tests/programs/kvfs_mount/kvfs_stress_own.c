/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_stress: names of one process alone: each call has one right answer, which
 * the model (struct st_object, and which name is which) gives.
 */
#include "kvfs_stress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

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

void st_verify(struct st *s, int key)
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

void st_create(struct st *s)
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

void st_remove(struct st *s)
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

void st_rename(struct st *s)
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

/*
 * Linux's FUSE counts a removed name twice if another process has it asked for the inode between
 * the removal and its answer's arrival; then it takes the file for one without names, and refuses a
 * link to it by itself, until it asks again. So it is made to ask once, and then has to do it.
 */
static int st_link_names(const char *from, const char *to)
{
    struct statx now;
    int rc = link(from, to);
    if (rc == -1 && errno == ENOENT &&
        statx(AT_FDCWD, from, AT_STATX_FORCE_SYNC | AT_SYMLINK_NOFOLLOW, STATX_NLINK, &now) == 0) {
        rc = link(from, to);
    }
    return rc;
}

void st_link(struct st *s)
{
    int a = st_key(s, 1), b = st_key(s, 0);
    if (a == -1 || b == -1) {
        return;
    }
    struct st_name from = st_name(s, a), to = st_name(s, b);
    int dir = s->objects[s->key[a]].type == S_IFDIR;
    if ((st_link_names(from.text, to.text) == -1) != dir) {
        st_fail(s, "link %s to %s", from.text, to.text);
    }
    if (!dir) {
        s->key[b] = s->key[a];
        s->objects[s->key[a]].links++;
    }
}

void st_attributes(struct st *s)
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

void st_data(struct st *s)
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
void st_list(struct st *s)
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

void st_look(struct st *s)
{
    st_verify(s, (int)st_below(s, KEYS));
}
