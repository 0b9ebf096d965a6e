/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Starts the two roles as processes, restarts one that dies, passes SIGTERM on,
 * and ends when they have ended orderly.
 */
#include "roles.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_DPU, CHILD_HOST, CHILDREN };

static const char *const child_names[CHILDREN] = {"dpu", "host"};
static volatile sig_atomic_t super_stop;

static void super_signal(int number)
{
    (void)number;
    super_stop = 1;
}

/* This program again, with the role and the common seed. */
static pid_t super_start(const struct kv_config *c, int argc, char **argv, int child)
{
    char **args = calloc((size_t)argc + 8, sizeof(*args));
    pid_t parent = getpid();
    pid_t pid;
    int n = 0;

    if (args == NULL)
        ex_die("out of memory");
    for (int i = 0; i < argc; i++)
        args[n++] = argv[i];
    args[n++] = (char *)(uintptr_t) "--role";
    args[n++] = (char *)(uintptr_t)child_names[child];
    args[n++] = (char *)(uintptr_t) "--seed";
    args[n++] = (char *)(uintptr_t)c->seed;
    pid = fork();
    if (pid == 0) {
        /* A role does not outlive its supervisor. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        execv("/proc/self/exe", args);
        ex_die("cannot start the %s role: %s", child_names[child], strerror(errno));
    }
    free(args);
    if (pid < 0)
        ex_die("cannot start the %s role: %s", child_names[child], strerror(errno));
    ex_log(EX_INFO, "started the %s role, process %d", child_names[child], (int)pid);
    return pid;
}

static uint64_t super_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A role ended. @return 1: restart it; 0: it is part of an orderly end; -1: it cannot start */
static int super_ended(int child, int status, uint64_t lived_ms, int stopping)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (stopping)
        return -1;
    if (WIFEXITED(status) && lived_ms < 2000) {
        ex_log(EX_ERROR, "the %s role cannot run (exit status %d)", child_names[child],
               WEXITSTATUS(status));
        return -1;
    }
    ex_log(EX_WARNING, "the %s role died (%s %d); starting it again", child_names[child],
           WIFSIGNALED(status) ? "signal" : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 1;
}

static void super_handlers(void)
{
    struct sigaction sa;

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = super_signal; /* no SA_RESTART: waitpid must return */
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
}

int kv_run_supervisor(const struct kv_config *c, int argc, char **argv)
{
    pid_t pids[CHILDREN] = {0};
    uint64_t since[CHILDREN];
    int failed = 0;
    int stopping = 0;

    super_handlers();
    for (int i = 0; i < CHILDREN; i++) {
        since[i] = super_now_ms();
        pids[i] = super_start(c, argc, argv, i);
    }
    while (pids[CHILD_DPU] != 0 || pids[CHILD_HOST] != 0) {
        int status;
        pid_t pid;
        int child;

        if ((super_stop || failed) && !stopping) {
            stopping = 1;
            for (int i = 0; i < CHILDREN; i++)
                if (pids[i] != 0)
                    kill(pids[i], SIGTERM);
        }
        pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            break;
        child = pid == pids[CHILD_HOST] ? CHILD_HOST : CHILD_DPU;
        if (pid != pids[child])
            continue;
        switch (super_ended(child, status, super_now_ms() - since[child], stopping || super_stop)) {
        case 1:
            since[child] = super_now_ms();
            pids[child] = super_start(c, argc, argv, child);
            break;
        case 0:
            pids[child] = 0;
            super_stop = 1; /* a SHUTDOWN: the other one ends too */
            break;
        default:
            pids[child] = 0;
            failed = 1;
            break;
        }
    }
    ex_log(EX_INFO, "ended");
    return failed;
}
