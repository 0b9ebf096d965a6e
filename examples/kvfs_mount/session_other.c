/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * System calls during which the kernel may send us requests: to unmount, and to forget its caches.
 *
 * A process that waits for our answers must share nothing with us: if we are killed, the kernel
 * ends such waits when no process has /dev/fuse open any more, and a fork still has it with the
 * memory that it shares with the loop's io_uring. So no thread of ours waits but another program,
 * this one executed anew.
 */
#include "mount.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KM_REFRESH_SECONDS = 10 }; /* at most: an unmount does not wait longer for it */

/* ---- Unmounting ---- */

int km_session_unmount(const char *at)
{
    int fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)syncfs(fd);
        close(fd);
    }
    if (umount2(at, 0) == 0)
        return 0;
    if (errno == EPERM)
        execlp("fusermount3", "fusermount3", "-u", "--", at, (char *)NULL);
    return 1;
}

/* @p input is its standard input. It ends with us: a signal to our whole group is for us. */
static void session_exec(const char *what, const char *at, int input, pid_t parent)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

    for (size_t i = 0; i < SNIC_COUNTOF(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)dup2(input, 0);
    (void)close_range(3, ~0u, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* of the thread's end */
    if (getppid() == parent)
        execl("/proc/self/exe", "kvfs_mount", what, at, (char *)NULL);
    _exit(1);
}

/* On a thread for that, which stays. */
static pid_t session_other(const struct km *m, const char *what, int input)
{
    pid_t self = getpid();
    pid_t pid = fork();

    if (pid == 0)
        session_exec(what, m->config->mountpoint, input, self);
    return pid;
}

/* @return 0: it did what it should */
static int session_reap(pid_t pid)
{
    int status = -1;

    while (pid > 0 && waitpid(pid, &status, 0) != pid && errno == EINTR)
        ;
    return status == 0 ? 0 : -1;
}

/* Our own process must not be the one that has files open there. */
static void *session_stopper(void *arg)
{
    struct km *m = arg;

    (void)km_session_refresh_end(m);
    if (atomic_load(&m->refreshing) != KM_REFRESH_NONE)
        (void)pthread_join(m->refresher, NULL);
    atomic_store(&m->refreshing, KM_REFRESH_NONE);
    if (session_reap(session_other(m, KM_UNMOUNT, 0)) == 0)
        return NULL;
    ex_log(EX_WARNING, "%s is in use: files open there fail from now on", m->config->mountpoint);
    km_session_over(m); /* libfuse unmounts what is in use */
    return NULL;
}

void km_session_stop(struct km *m)
{
    if (atomic_exchange(&m->stopping, 1))
        return;
    m->stopper_runs = pthread_create(&m->stopper, NULL, session_stopper, m) == 0;
    if (!m->stopper_runs)
        km_session_over(m);
}

/* ---- What the kernel keeps by number, not by name ---- */

/* Make the kernel read the attributes again; it drops pages at an open that keeps none. */
static void session_refresh(int root, uint64_t ino)
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
static int session_root(const char *at)
{
    int tree = -1;

#ifdef OPEN_TREE_CLONE
    tree = open_tree(AT_FDCWD, at, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
#endif
    return tree < 0 ? open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                    : openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int km_session_refresh(const char *at)
{
    uint64_t ino;
    int root;

    (void)alarm(KM_REFRESH_SECONDS);
    root = session_root(at);
    if (root < 0)
        return 1;
    while (read(0, &ino, sizeof(ino)) == (ssize_t)sizeof(ino))
        session_refresh(root, ino);
    close(root);
    return 0;
}

pid_t km_session_refresh_end(struct km *m)
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

static void session_refresh_failed(void)
{
    ex_log(EX_WARNING, "the kernel may keep stale attributes and data from before the death");
}

static void *session_refresher(void *arg)
{
    struct km *m = arg;
    siginfo_t info;
    pid_t pid = -1;
    int bad;

    pthread_mutex_lock(&m->refresh_lock);
    m->refresh_ended = atomic_load(&m->stopping);
    if (!m->refresh_ended)
        pid = session_other(m, KM_REFRESH, m->refresh_fd);
    m->refresh_pid = pid > 0 ? pid : 0;
    pthread_mutex_unlock(&m->refresh_lock);
    while (pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&m->refresh_lock);
    bad = session_reap(pid) != 0 && !m->refresh_ended;
    m->refresh_pid = 0;
    pthread_mutex_unlock(&m->refresh_lock);
    if (bad)
        session_refresh_failed();
    close(m->refresh_fd);
    atomic_store(&m->refreshing, KM_REFRESH_OVER);
    return NULL;
}

int km_session_refresh_start(struct km *m, int fd)
{
    if (atomic_load(&m->refreshing) == KM_REFRESH_RUNS)
        return -1;
    if (atomic_load(&m->refreshing) == KM_REFRESH_OVER)
        (void)pthread_join(m->refresher, NULL);
    m->refresh_fd = fd;
    atomic_store(&m->refreshing, KM_REFRESH_RUNS);
    if (pthread_create(&m->refresher, NULL, session_refresher, m) != 0) {
        session_refresh_failed();
        close(fd);
        atomic_store(&m->refreshing, KM_REFRESH_NONE);
    }
    return 0;
}
