/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * After a death of the file system's process: refresh what the kernel has cached of inodes, not of
 * names, by a helper process.
 */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KM_REFRESH_SECONDS = 10 }; /* at most: an unmount does not wait longer for it */

/* Make the kernel read the attributes again; it drops pages at an open that keeps none. */
static void refresh_inode(int root, uint64_t ino)
{
    enum { FH_BYTES = 12, FH_TYPE = 0x81 }; /* FUSE's: the number's halves, a generation */
    uint32_t words[5] = {FH_BYTES, FH_TYPE, (uint32_t)(ino >> 32), (uint32_t)ino, 0};
    struct file_handle *h = (void *)words;
    struct statx x;
    int fd = open_by_handle_at(root, h, O_PATH | O_CLOEXEC);

    if (fd < 0)
        return;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &x) == 0 &&
        S_ISREG(x.stx_mode)) {
        close(fd);
        fd = open_by_handle_at(root, h, O_RDONLY | O_CLOEXEC);
    }
    if (fd >= 0)
        close(fd);
}

/* By a copy of the mount, if it can be had, so that @p at itself is not in use meanwhile. */
static int refresh_root(const char *at)
{
    int tree = -1;

#ifdef OPEN_TREE_CLONE
    tree = open_tree(AT_FDCWD, at, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
#endif
    return tree < 0 ? open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                    : openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int km_refresh_helper(const char *at)
{
    uint64_t ino;
    int root;

    (void)alarm(KM_REFRESH_SECONDS);
    root = refresh_root(at);
    if (root < 0)
        return 1;
    while (read(0, &ino, sizeof(ino)) == (ssize_t)sizeof(ino))
        refresh_inode(root, ino);
    close(root);
    return 0;
}

pid_t km_refresh_end(struct km *m)
{
    pid_t pid;

    pthread_mutex_lock(&m->refresh_lock);
    pid = m->refresh_pid;
    m->refresh_ended |= pid > 0;
    if (pid > 0)
        (void)kill(pid, SIGKILL);
    pthread_mutex_unlock(&m->refresh_lock);
    return pid;
}

static void refresh_failed(int late)
{
    if (late)
        ex_log(EX_WARNING,
               "the kernel may keep stale attributes and data from before the death: refreshing "
               "them took more than %d s",
               KM_REFRESH_SECONDS);
    else
        ex_log(EX_WARNING, "the kernel may keep stale attributes and data from before the death");
}

static void *refresh_run(void *arg)
{
    struct km *m = arg;
    siginfo_t info = {.si_code = 0};
    pid_t pid = -1;
    int bad;
    int ended;

    pthread_mutex_lock(&m->refresh_lock);
    m->refresh_ended = atomic_load(&m->stopping);
    if (!m->refresh_ended)
        pid = km_helper_start(m, KM_REFRESH, m->refresh_fd);
    m->refresh_pid = pid > 0 ? pid : 0;
    pthread_mutex_unlock(&m->refresh_lock);
    while (pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&m->refresh_lock);
    bad = km_helper_reap(pid) != 0;
    ended = m->refresh_ended;
    m->refresh_pid = 0;
    pthread_mutex_unlock(&m->refresh_lock);
    if (!bad)
        ex_log(EX_INFO, "the kernel's attributes and data from before the death are refreshed");
    else if (!ended)
        refresh_failed(info.si_code == CLD_KILLED && info.si_status == SIGALRM);
    close(m->refresh_fd);
    atomic_store(&m->refreshing, KM_REFRESH_OVER);
    return NULL;
}

int km_refresh_start(struct km *m, int fd)
{
    if (atomic_load(&m->refreshing) == KM_REFRESH_RUNS)
        return -1;
    if (atomic_load(&m->refreshing) == KM_REFRESH_OVER)
        (void)pthread_join(m->refresher, NULL);
    m->refresh_fd = fd;
    atomic_store(&m->refreshing, KM_REFRESH_RUNS);
    if (pthread_create(&m->refresher, NULL, refresh_run, m) != 0) {
        refresh_failed(0);
        close(fd);
        atomic_store(&m->refreshing, KM_REFRESH_NONE);
    }
    return 0;
}
