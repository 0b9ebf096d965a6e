/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kvfs_stress: link counts, listings and bytes of the whole tree, when all processes are done. */
#include "kvfs_stress.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

void st_after(struct st *s)
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
