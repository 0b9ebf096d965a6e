/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * 10,000 connections on loopback: a child process connects them, sends three messages on each and
 * reads the answers, twice. Reports what the director's process holds for them.
 */
#include "director_bench.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CROWD = 10000, CROWD_MESSAGE = 40, CROWD_REPLY = 80, CROWD_EACH = 3 };

static int64_t crowd_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    (void)data;
    (void)state;
    return size >= CROWD_MESSAGE ? CROWD_MESSAGE : 0;
}

static void crowd_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                            const unsigned char *msg, uint32_t size,
                            struct snic_director_verdict *out)
{
    (void)ctx;
    (void)o;
    (void)user;
    (void)size;
    out->route = SNIC_DIRECTOR_ANSWER;
    out->reply_size = CROWD_REPLY;
    memset(out->reply, msg[0], CROWD_REPLY);
}

/* ---- The clients' process ---- */

static void crowd_round(const int *fds)
{
    static unsigned char m[CROWD_MESSAGE * CROWD_EACH];
    static unsigned char r[CROWD_REPLY * CROWD_EACH];
    memset(m, 'm', sizeof(m));
    for (int i = 0; i < CROWD; i++)
        if (send(fds[i], m, sizeof(m), MSG_NOSIGNAL) != (ssize_t)sizeof(m))
            _exit(3);
    for (int i = 0; i < CROWD; i++)
        if (recv(fds[i], r, sizeof(r), MSG_WAITALL) != (ssize_t)sizeof(r) ||
            r[sizeof(r) - 1] != 'm')
            _exit(4);
}

/* Reports each step on `to`, and waits for a byte on `from` before the next. */
static void crowd_child(const struct snic_net_addr *at, int to, int from)
{
    static int fds[CROWD];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(at->port)};
    char c = 'x';
    memcpy(&a.sin_addr, at->ip, 4);
    for (int i = 0; i < CROWD; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)&a, sizeof(a)) != 0)
            _exit(2);
    }
    for (int k = 0; k < 3; k++) {
        if (k > 0)
            crowd_round(fds);
        if (write(to, &c, 1) != 1 || read(from, &c, 1) != 1)
            _exit(5);
    }
    _exit(0);
}

/* ---- The director's ---- */

static double crowd_rss(void)
{
    unsigned long total = 0;
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    bench_check(f != NULL && fscanf(f, "%lu %lu", &total, &pages) == 2, "statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static int crowd_may(void)
{
    struct rlimit r;
    rlim_t want = CROWD + 200;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return 0;
    if (r.rlim_cur >= want)
        return 1;
    r.rlim_cur = want;
    r.rlim_max = r.rlim_max < want ? want : r.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &r) == 0;
}

static double crowd_step(int to, int from)
{
    char c = 'x';
    bench_check(read(from, &c, 1) == 1, "the clients failed");
    double rss = crowd_rss();
    bench_check(write(to, &c, 1) == 1, "pipe");
    return rss;
}

void bench_crowd(void)
{
    struct bench_part_opts o = {.user = {.frame = crowd_frame, .predicate = crowd_predicate},
                                .director = {.flags = SNIC_DIRECTOR_IN_ORDER, .conns_max = CROWD},
                                .net = {.conns_max = CROWD},
                                .cpu = -1};
    static struct bench_part p;
    struct snic_net_addr at;
    int up[2];
    int down[2];
    int status = 0;
    if (!crowd_may()) {
        fprintf(stderr, "skip: conns_10k needs %d file descriptors (ulimit -n)\n", CROWD + 200);
        return;
    }
    bench_check(snic_net_addr_parse(&at, "127.0.0.1:0") == 0 && pipe(up) == 0 && pipe(down) == 0,
                "pipe");
    bench_part_open(&p, &o, &at);
    usleep(50000);
    double before = crowd_rss();
    uint64_t t0 = bench_now(CLOCK_MONOTONIC);
    pid_t pid = fork();
    bench_check(pid >= 0, "fork");
    if (pid == 0)
        crowd_child(&at, up[1], down[0]);
    double connected = crowd_step(down[1], up[0]);
    double took = (double)(bench_now(CLOCK_MONOTONIC) - t0) / 1e9;
    double served = crowd_step(down[1], up[0]);
    double again = crowd_step(down[1], up[0]);
    bench_check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                "the clients failed");
    bench_part_close(&p);
    for (int i = 0; i < 2; i++) {
        (void)close(up[i]);
        (void)close(down[i]);
    }
    printf("row director conns_10k_accept ours 1 %.0f conn/s\n", CROWD / took);
    printf("row director conns_10k_rss_before ours 1 %.1f MB\n", before / 1e6);
    printf("row director conns_10k_rss ours 1 %.1f MB\n", again / 1e6);
    printf("row director conns_10k_connected ours 1 %.0f bytes/conn\n",
           (connected - before) / CROWD);
    printf("row director conns_10k_served ours 1 %.0f bytes/conn\n", (served - before) / CROWD);
    printf("row director conns_10k_served_again ours 1 %.0f bytes/conn\n",
           (again - before) / CROWD);
}
