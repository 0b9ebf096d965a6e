/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "nvmetcp_meter.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    uint32_t server, client; /* processors */
    char groups[128];        /* where cgroups of version 2 are; empty: nowhere */
    int port;                /* the child's end of the pipe */
} m_;

static void pin(uint32_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    net_must(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

static void find_groups(void)
{
    char line[512], at[128], type[32];
    FILE *f = fopen("/proc/mounts", "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%*s %127s %31s", at, type) == 2 && strcmp(type, "cgroup2") == 0)
            (void)snprintf(m_.groups, sizeof(m_.groups), "%s", at);
    }
    if (f != NULL)
        fclose(f);
}

void meter_begin(void)
{
    cpu_set_t set;
    net_must(sched_getaffinity(0, sizeof(set), &set) == 0, "sched_getaffinity");
    m_.server = CPU_SETSIZE;
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &set))
            continue;
        m_.server = m_.server == CPU_SETSIZE ? i : m_.server;
        m_.client = i;
    }
    net_must(m_.server != m_.client, "two processors are needed");
    pin(m_.client);
    find_groups();
}

double meter_clock(clockid_t clock)
{
    struct timespec t;
    net_must(clock_gettime(clock, &t) == 0, "clock_gettime");
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void net_listens(uint16_t port)
{
    net_must(write(m_.port, &port, sizeof(port)) == (ssize_t)sizeof(port), "pipe");
    close(m_.port);
}

/* A cgroup for the server, if this user may make one. */
static void make_group(struct meter *m)
{
    m->group[0] = 0;
    if (m_.groups[0] == 0)
        return;
    (void)snprintf(m->group, sizeof(m->group), "%s/snicstore_bench.%ld", m_.groups, (long)getpid());
    if (mkdir(m->group, 0700) != 0)
        m->group[0] = 0;
}

/* @return 0 it is a member */
static int join_group(const struct meter *m, pid_t pid)
{
    char path[300];
    if (m->group[0] == 0)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", m->group);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return -1;
    int r = fprintf(f, "%ld\n", (long)pid);
    return fclose(f) == 0 && r > 0 ? 0 : -1;
}

void meter_start(struct meter *m, const struct net_who *who, const struct net_case *c)
{
    int to[2], from[2];
    unsigned char go = 0;
    fflush(stdout);
    net_must(pipe(to) == 0 && pipe(from) == 0, "pipe");
    make_group(m);
    pid_t parent = getpid();
    m->pid = fork();
    net_must(m->pid >= 0, "fork");
    if (m->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || read(to[0], &go, 1) != 1)
            _exit(1);
        pin(m_.server);
        m_.port = from[1];
        who->serve(c);
        _exit(1);
    }
    close(from[1]);
    close(to[0]);
    if (join_group(m, m->pid) != 0 && m->group[0] != 0) {
        (void)rmdir(m->group);
        m->group[0] = 0;
    }
    net_must(clock_getcpuclockid(m->pid, &m->clock) == 0, "clock_getcpuclockid");
    net_must(write(to[1], &go, 1) == 1 &&
                 read(from[0], &m->port, sizeof(m->port)) == (ssize_t)sizeof(m->port),
             "the server did not start");
    close(from[0]);
    close(to[1]);
}

void meter_stop(struct meter *m)
{
    kill(m->pid, SIGKILL);
    (void)waitpid(m->pid, NULL, 0);
    /* io_uring ends its requests some time after the process */
    for (int i = 0; m->group[0] != 0 && rmdir(m->group) != 0 && i < 100; i++)
        usleep(10000);
}

double meter_cpu(const struct meter *m)
{
    char path[300], line[128];
    unsigned long long us = 0;
    if (m->group[0] == 0)
        return meter_clock(m->clock);
    (void)snprintf(path, sizeof(path), "%s/cpu.stat", m->group);
    FILE *f = fopen(path, "r");
    net_must(f != NULL, "cpu.stat");
    while (fgets(line, sizeof(line), f) != NULL && sscanf(line, "usage_usec %llu", &us) != 1)
        continue;
    fclose(f);
    return 1e-6 * (double)us;
}

double meter_core(void)
{
    char line[512], name[32];
    unsigned long long v[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    double s = 0;
    (void)snprintf(name, sizeof(name), "cpu%u ", m_.server);
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        /* user nice system idle iowait irq softirq */
        if (sscanf(line + strlen(name), "%llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
                   &v[3], &v[4], &v[5], &v[6]) == 7)
            s = (double)(v[0] + v[1] + v[2] + v[5] + v[6]) / (double)sysconf(_SC_CLK_TCK);
    }
    if (f != NULL)
        fclose(f);
    return s;
}
