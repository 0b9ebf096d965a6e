/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Starts the two roles as processes, restarts one that dies, passes SIGTERM, SIGINT, SIGHUP and
 * SIGQUIT on as SIGTERM, and ends when they have ended orderly.
 */
#include "supervisor.h"

#include "../common.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUPER_START_MS 10000u /* an error exit before this is a start that failed */
#define SUPER_QUICK_MS 1000u  /* a role that dies sooner repeatedly is started after pauses */
#define SUPER_PAUSE_MS 50u    /* the first pause; doubled each time */
#define SUPER_PAUSE_MAX_MS 5000u

enum { CHILD_DPU, CHILD_HOST, CHILDREN };

static const char *const child_names[CHILDREN] = {"dpu", "host"};
static int super_stop;
static sigset_t super_set;   /* the signals that the supervisor waits for */
static sigset_t super_saved; /* the mask that its roles get               */

/* This program again, with the role and the common seed. */
static pid_t super_start(const char *seed, int argc, char **argv, int child)
{
    char **args = calloc((size_t)argc + 8, sizeof(*args));
    pid_t parent = getpid();
    pid_t pid;
    int n = 0;

    if (args == NULL)
        ex_die("out of memory for the arguments of a role");
    for (int i = 0; i < argc; i++)
        args[n++] = argv[i];
    args[n++] = (char *)(uintptr_t) "--role";
    args[n++] = (char *)(uintptr_t)child_names[child];
    if (seed != NULL) {
        args[n++] = (char *)(uintptr_t) "--hash-seed";
        args[n++] = (char *)(uintptr_t)seed;
    }
    pid = fork();
    if (pid == 0) {
        /* A role does not outlive its supervisor. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        signal(SIGQUIT, SIG_IGN); /* a terminal sends it to all */
        sigprocmask(SIG_SETMASK, &super_saved, NULL);
        if (getppid() != parent)
            _exit(1);
        execv("/proc/self/exe", args);
        ex_die("cannot start the %s role: execv /proc/self/exe: %s", child_names[child],
               strerror(errno));
    }
    free(args);
    if (pid < 0)
        ex_die("cannot start the %s role: fork: %s", child_names[child], strerror(errno));
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
    if (stopping && WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGHUP))
        return 0; /* it was stopped before it had anything to drain */
    if (stopping)
        return -1;
    if (WIFEXITED(status) && lived_ms < SUPER_START_MS) {
        ex_log(EX_ERROR, "the %s role failed at its start (exit status %d): its message is above",
               child_names[child], WEXITSTATUS(status));
        return -1;
    }
    ex_log(EX_WARNING, "the %s role died (%s %d): restarting it", child_names[child],
           WIFSIGNALED(status) ? "signal" : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 1;
}

/* Blocked and waited for: none is lost between a look and a sleep, nor in a fork. */
static void super_signals(void)
{
    sigemptyset(&super_set);
    sigaddset(&super_set, SIGTERM);
    sigaddset(&super_set, SIGINT);
    if (!ex_signal_ignored(SIGHUP)) /* nohup */
        sigaddset(&super_set, SIGHUP);
    if (!ex_signal_ignored(SIGQUIT))
        sigaddset(&super_set, SIGQUIT);
    sigaddset(&super_set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &super_set, &super_saved);
}

struct super {
    const char *seed;
    int argc;
    char **argv;
    pid_t pids[CHILDREN];
    uint64_t since[CHILDREN];
    uint64_t due[CHILDREN];   /* of the next start, 0: none */
    unsigned quick[CHILDREN]; /* deaths in a row soon after the start */
    int failed;
    int stopping;
};

static void super_begin(struct super *s, int child)
{
    s->since[child] = super_now_ms();
    s->due[child] = 0;
    s->pids[child] = super_start(s->seed, s->argc, s->argv, child);
}

/* It died: the first time it is started at once. */
static void super_again(struct super *s, int child)
{
    uint64_t now = super_now_ms();
    uint64_t pause = SUPER_PAUSE_MS;

    s->quick[child] = now - s->since[child] < SUPER_QUICK_MS ? s->quick[child] + 1 : 0;
    for (unsigned i = 2; i < s->quick[child] && pause < SUPER_PAUSE_MAX_MS; i++)
        pause *= 2;
    s->due[child] = now + (s->quick[child] < 2 ? 0 : snic_min_u64(pause, SUPER_PAUSE_MAX_MS));
}

/* Start what is due. @return ms until the next start, 0 if none is to come */
static uint64_t super_starts(struct super *s)
{
    uint64_t now = super_now_ms();
    uint64_t next = 0;

    for (int i = 0; i < CHILDREN; i++) {
        if (s->due[i] == 0)
            continue;
        if (s->stopping)
            s->due[i] = 0;
        else if (s->due[i] <= now)
            super_begin(s, i);
        else
            next = snic_min_u64(next - 1, s->due[i] - now - 1) + 1;
    }
    return next;
}

/* Take note of all children that have ended. */
static void super_reap(struct super *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int child = pid == s->pids[CHILD_HOST] ? CHILD_HOST : CHILD_DPU;

        if (pid != s->pids[child])
            continue;
        s->pids[child] = 0;
        switch (super_ended(child, status, super_now_ms() - s->since[child],
                            s->stopping || super_stop)) {
        case 1:
            super_again(s, child);
            break;
        case 0:
            super_stop = 1; /* a SHUTDOWN: the other one ends too */
            break;
        default:
            s->failed = 1;
            break;
        }
    }
}

int ex_supervise(const char *seed, int argc, char **argv)
{
    struct super s = {.seed = seed, .argc = argc, .argv = argv};

    super_signals();
    for (int i = 0; i < CHILDREN; i++)
        super_begin(&s, i);
    for (;;) {
        struct timespec wait;
        uint64_t next;

        if ((super_stop || s.failed) && !s.stopping) {
            s.stopping = 1;
            for (int i = 0; i < CHILDREN; i++)
                if (s.pids[i] != 0)
                    kill(s.pids[i], SIGTERM);
        }
        next = super_starts(&s);
        if (next == 0 && s.pids[CHILD_DPU] == 0 && s.pids[CHILD_HOST] == 0)
            break;
        wait.tv_sec = (time_t)(next / 1000);
        wait.tv_nsec = (long)(next % 1000) * 1000000;
        switch (next != 0 ? sigtimedwait(&super_set, NULL, &wait) : sigwaitinfo(&super_set, NULL)) {
        case SIGTERM:
        case SIGINT:
        case SIGHUP:
        case SIGQUIT:
            super_stop = 1;
            break;
        default:
            break;
        }
        super_reap(&s);
    }
    ex_log(EX_INFO, "ended");
    return s.failed;
}
