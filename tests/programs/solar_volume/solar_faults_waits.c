/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How long answers had to wait for a CPU, which is no fault of the transport: this process and
 * those whose numbers are in a file, with all their threads (the server, the kernel's threads that
 * receive packets). A server that is started anew has another number, so the file is read again and
 * again.
 *
 * What this process waited is what an iteration of its loop took beyond the sleep that it asked for
 * and its own time on the CPU; a virtual machine that stands still is in that. What others waited
 * is what the kernel counts (/proc/PID/task/TID/schedstat). Of those that may have waited at the
 * same time only the one that waited longest counts.
 */
#include "solar_faults.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAITS_LOOK_NS UINT64_C(20000000)
#define WAITS_LOST_NS UINT64_C(1000000) /* of an iteration: look, as long after the last time */

enum { WAITS_TASKS_MAX = 256 };

static struct {
    const char *file; /* NULL: none */
    uint64_t total_ns;
    uint64_t looked_ns;
    uint64_t own_ns; /* since then */
    struct {
        uint64_t began_ns;
        uint64_t sleep_ns;
        uint64_t cpu_ns;
        uint64_t counted_ns;
    } now; /* this iteration of the loop */
    struct {
        uint64_t tid;
        uint64_t waited_ns;
    } task[WAITS_TASKS_MAX];
    uint32_t tasks;
    uint64_t most_ns; /* of one of them, since the last look */
} waits;

static uint64_t waits_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void waits_task(const char *pid, const char *tid)
{
    char path[64];
    uint64_t number = strtoull(tid, NULL, 10), waited;
    uint32_t i = 0;
    (void)snprintf(path, sizeof(path), "/proc/%.12s/task/%.12s/schedstat", pid, tid);
    FILE *f = fopen(path, "re");
    int n = f == NULL ? 0 : fscanf(f, "%*u %" SCNu64, &waited);
    if (f != NULL)
        (void)fclose(f);
    if (n != 1)
        return; /* it has ended */
    while (i < waits.tasks && waits.task[i].tid != number)
        i++;
    if (i == WAITS_TASKS_MAX)
        return;
    if (i == waits.tasks) { /* what it has waited so far was before: it may be an old one */
        waits.tasks++;
        waits.task[i].tid = number;
    } else {
        waits.most_ns = snic_max_u64(waits.most_ns, waited - waits.task[i].waited_ns);
    }
    waits.task[i].waited_ns = waited;
}

static void waits_process(const char *pid)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%.12s/task", pid);
    DIR *d = opendir(path);
    if (d == NULL)
        return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            waits_task(pid, e->d_name);
    (void)closedir(d);
}

static void waits_look(uint64_t now)
{
    char pid[16];
    FILE *f = fopen(waits.file, "re");
    waits.most_ns = 0;
    while (f != NULL && fscanf(f, "%15s", pid) == 1)
        waits_process(pid);
    if (f != NULL)
        (void)fclose(f);
    waits.total_ns += snic_max_u64(waits.most_ns, waits.own_ns);
    waits.own_ns = 0;
    waits.looked_ns = now;
}

/* What it has waited in this iteration that is not counted yet. */
static uint64_t waits_lost(uint64_t now)
{
    uint64_t had = waits.now.sleep_ns + (waits_cpu() - waits.now.cpu_ns);
    uint64_t took = now - waits.now.began_ns;
    uint64_t lost = took > had ? took - had : 0;
    uint64_t more = lost > waits.now.counted_ns ? lost - waits.now.counted_ns : 0;
    waits.now.counted_ns += more;
    return more;
}

void fault_waits_open(const char *file)
{
    waits.file = file;
    if (file != NULL)
        waits_look(fault_now());
    waits.total_ns = 0;
}

void fault_waits_begin(uint64_t now, uint64_t sleep_ns)
{
    waits.now.began_ns = now;
    waits.now.sleep_ns = sleep_ns;
    waits.now.cpu_ns = waits_cpu();
    waits.now.counted_ns = 0;
}

void fault_waits_count(uint64_t now, int at_once)
{
    uint64_t lost = waits_lost(now);
    waits.own_ns += lost;
    int soon = at_once || lost >= WAITS_LOST_NS;
    if (waits.file != NULL && now - waits.looked_ns >= (soon ? WAITS_LOST_NS : WAITS_LOOK_NS))
        waits_look(now);
}

uint64_t fault_waits_ns(void)
{
    return waits.total_ns;
}
