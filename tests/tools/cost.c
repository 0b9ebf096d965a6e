/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * cost.c: runs a command and appends one line to a file: user and system milliseconds of CPU time,
 * and a name.
 *
 *   cost FILE NAME COMMAND [ARGUMENT...]
 *
 * Processes that the command leaves in the background (servers, mounts) count as well when they
 * end before it does: they become children of this process, which reaps them. Exit code and signal
 * are the command's; 127: the command cannot be started.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long milliseconds(struct timeval t)
{
    return t.tv_sec * 1000 + t.tv_usec / 1000;
}

static void record(const char *file, const char *name)
{
    struct rusage r;
    char line[512];
    if (getrusage(RUSAGE_CHILDREN, &r) != 0) {
        return;
    }
    int n = snprintf(line, sizeof(line), "%ld %ld %.400s\n", milliseconds(r.ru_utime),
                     milliseconds(r.ru_stime), name);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, (size_t)n) != n) {
        (void)fprintf(stderr, "cost: cannot write to %s: %s\n", file, strerror(errno));
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: cost FILE NAME COMMAND [ARGUMENT...]\n");
        return 2;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)execvp(argv[3], argv + 3);
        (void)fprintf(stderr, "cost: cannot run %s: %s\n", argv[3], strerror(errno));
        _exit(127);
    }
    if (pid < 0) {
        (void)fprintf(stderr, "cost: fork failed: %s\n", strerror(errno));
        return 127;
    }
    int status = 0;
    int other = 0;
    for (;;) {
        pid_t ended = wait(&other);
        if (ended == pid) {
            status = other;
            break;
        }
        if (ended < 0 && errno != EINTR) {
            return 127;
        }
    }
    while (waitpid(-1, &other, WNOHANG) > 0) {
    }
    record(argv[1], argv[2]);
    if (WIFSIGNALED(status)) { /* the same end for the caller, without a second core file */
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)raise(WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
    return WEXITSTATUS(status);
}
