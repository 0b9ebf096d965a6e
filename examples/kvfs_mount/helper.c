/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Helper processes, for system calls during which the kernel may send us requests: to unmount, and
 * to invalidate its caches.
 *
 * A process that waits for our answers must share nothing with us: if we are killed, the kernel
 * ends such waits when no process has /dev/fuse open any more, and a fork still has it with the
 * memory that it shares with the loop's io_uring. So no thread of ours waits but another program,
 * this one executed anew.
 */
#include "mount.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* @p input is its standard input. It ends with us: a signal to our whole group is for us. */
static void helper_exec(const char *what, const char *at, int input, pid_t parent)
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

pid_t km_helper_start(const struct km *m, const char *what, int input)
{
    pid_t self = getpid();
    pid_t pid = fork();

    if (pid == 0)
        helper_exec(what, m->config->mountpoint, input, self);
    return pid;
}

int km_helper_reap(pid_t pid)
{
    int status = -1;

    while (pid > 0 && waitpid(pid, &status, 0) != pid && errno == EINTR)
        ;
    return status == 0 ? 0 : -1;
}
