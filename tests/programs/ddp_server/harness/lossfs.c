/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * lossfs LOWER MOUNTPOINT CONTROL: a file system over the folder LOWER that loses, on command, what
 * was not flushed. It stays in the foreground. CONTROL is the path of a UNIX socket; a line is a
 * command, and its answer a line that begins with "ok" or "error":
 *
 *   stall KIND MS         operations of KIND wait until MS from now; 0 ends it
 *   slow KIND US          each operation of KIND takes US longer
 *   fail KIND EIO|ENOSPC|off [once]
 *   limit BYTES           files may not grow beyond this in total; 0: no limit
 *   lie on|off            a flush reports success and flushes nothing
 *   names journal|strict  a flush of any file makes earlier changes of names durable (as journals
 *                         do; the default), or only that of a folder does (as POSIX has it)
 *   lose SEED KEEP TORN   power loss: of the pages not flushed KEEP per cent reach the disk whole,
 *                         TORN per cent in part; everything fails with EIO until `power on`
 *   power on
 *   drop                  caches are dropped: pages whose flush failed vanish
 *   stats
 *
 * KIND: read, write, fsync, other, all. A flush that fails by `fail fsync` leaves its pages in the
 * page cache, marked clean, as Linux does. Not supported: shared writable mappings, hard links,
 * extended attributes. O_DIRECT wants offset and size in units of 512 bytes.
 */
#include "lossfs_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lossfs lossfs = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct lossfs_node *lossfs_node(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? &lossfs.root : (struct lossfs_node *)(uintptr_t)ino;
}

void lossfs_path(const struct lossfs_node *folder, const char *name, char *out)
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", folder->fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0)
        n = 0;
    (void)snprintf(out + n, (size_t)(PATH_MAX - n), "/%s", name);
}

/* The node of that inode, or a new one; it takes @p fd. */
static struct lossfs_node *lossfs_node_of(int fd, const struct stat *st)
{
    struct lossfs_node *n;
    for (n = lossfs.root.next; n != &lossfs.root; n = n->next) {
        if (n->ino == st->st_ino && n->dev == st->st_dev) {
            (void)close(fd);
            return n;
        }
    }
    n = calloc(1, sizeof(*n));
    if (n == NULL)
        abort();
    n->fd = fd;
    n->ino = st->st_ino;
    n->dev = st->st_dev;
    n->prev = lossfs.root.prev; /* in order of first use: a loss by a seed is the same again */
    n->next = &lossfs.root;
    n->prev->next = n->next->prev = n;
    return n;
}

/* Opens the lower file of a node. */
int lossfs_node_load(struct lossfs_node *n)
{
    char link[64];
    if (n->loaded)
        return 0;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", n->fd);
    int fd = open(link, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int r = lossfs_file_init(&n->file, fd);
    if (r != 0)
        (void)close(fd);
    n->loaded = r == 0;
    return r;
}

int lossfs_stat(struct lossfs_node *n, struct stat *st)
{
    if (fstatat(n->fd, "", st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (n->loaded)
        st->st_size = (off_t)n->file.size;
    return 0;
}

int lossfs_lookup(struct lossfs_node *folder, const char *name, struct fuse_entry_param *e)
{
    memset(e, 0, sizeof(*e));
    if (folder == &lossfs.root && strcmp(name, ".lossfs") == 0)
        return ENOENT;
    int fd = openat(folder->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (fstatat(fd, "", &e->attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) {
        int r = errno;
        (void)close(fd);
        return r;
    }
    struct lossfs_node *n = lossfs_node_of(fd, &e->attr);
    n->lookups++;
    e->ino = (fuse_ino_t)(uintptr_t)n;
    return lossfs_stat(n, &e->attr);
}

/* A node that the kernel has forgotten stays while it has pages in memory. */
void lossfs_forget(struct lossfs_node *n, uint64_t count)
{
    if (n == &lossfs.root)
        return;
    n->lookups -= count < n->lookups ? count : n->lookups;
    struct stat st;
    int removed = n->loaded && fstat(n->file.fd, &st) == 0 && st.st_nlink == 0;
    if (n->lookups != 0 ||
        (n->loaded && !removed && (n->file.used != 0 || (uint64_t)st.st_size != n->file.size)))
        return;
    if (n->loaded)
        lossfs_file_fini(&n->file);
    n->prev->next = n->next;
    n->next->prev = n->prev;
    (void)close(n->fd);
    free(n);
}

uint64_t lossfs_total(void)
{
    uint64_t sum = 0;
    struct lossfs_node *n;
    for (n = lossfs.root.next; n != &lossfs.root; n = n->next) {
        struct stat st;
        if (lossfs_stat(n, &st) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    return sum;
}

int main(int argc, char **argv)
{
    char options[PATH_MAX + 64] = "fsname=lossfs,default_permissions,allow_other";
    char *fuse_argv[] = {argv[0], "-o", options, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, fuse_argv);
    if (argc != 4) {
        (void)fprintf(stderr, "usage: lossfs LOWER MOUNTPOINT CONTROL\n");
        return 2;
    }
    (void)umask(0);
    lossfs.root.fd = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    lossfs.root.next = lossfs.root.prev = &lossfs.root;
    char *lower = realpath(argv[1], NULL);
    int r = lossfs.root.fd < 0 || lower == NULL ? errno : lossfs_names_init(lower);
    free(lower);
    if (r != 0) {
        (void)fprintf(stderr, "lossfs: %s: %s\n", argv[1], strerror(r));
        return 1;
    }
    lossfs_fault_init(&lossfs.faults, &lossfs.lock);
    struct fuse_session *s =
        fuse_session_new(&args, &lossfs_operations, sizeof(lossfs_operations), NULL);
    if (s == NULL || fuse_session_mount(s, argv[2]) != 0) {
        (void)fprintf(stderr, "lossfs: %s: cannot mount\n", argv[2]);
        return 1;
    }
    if (lossfs_control_start(argv[3]) != 0) {
        (void)fprintf(stderr, "lossfs: %s: %s\n", argv[3], strerror(errno));
        fuse_session_unmount(s);
        return 1;
    }
    (void)fuse_set_signal_handlers(s);
    struct fuse_loop_config *c = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(c, 64); /* operations wait in them while the disk stalls */
    fuse_loop_cfg_set_clone_fd(c, 0);
    r = fuse_session_loop_mt(s, c);
    fuse_loop_cfg_destroy(c);
    fuse_session_unmount(s);
    fuse_session_destroy(s);
    return r == 0 ? 0 : 1;
}
