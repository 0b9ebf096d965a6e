/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What SOLAR and LUNA are measured beside: the same exchange, 4 KiB and a header one way and a
 * small answer the other, over plain sockets and with nothing else in it.
 *
 *   solar_raw [--ns CLIENT SERVER] [--host IP] [--link NAME] [--seconds N] [--rounds N]
 *             [--op write|read] [--who NAME] [--depth N] [--threads 1|2] [--values]
 *
 *   tcp         one connection, TCP_NODELAY, up to 64 KiB a call, all that has come in one call
 *   udp         a datagram each way per RPC, sendmmsg and recvmmsg
 *   gso         requests (reads: answers) in trains of 14 by UDP_SEGMENT and UDP_GRO, a datagram
 *               per answer
 *   gso_gso     answers in trains, too
 *   gso_ackv    one datagram answers all requests received together (writes only)
 *
 * One thread runs both ends to completion in turn (the default), which needs no wake-ups and is
 * what the machine's load disturbs least; or two, which sleep when they have nothing to do. Rows
 * are the CPU time of both ends per RPC, medians of rounds in which all cases take turns.
 * --ns: the ends lie in these network namespaces (ip netns), and --host is the server's address.
 * --values: "value OP WHO DEPTH ns_cpu ns_wall" for each round, for scripts that take turns with
 * other programs.
 */
#include "solar_peers.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 99

static const char *const who_name[] = {"tcp", "udp", "gso", "gso_gso", "gso_ackv"};

static struct options {
    const char *ns[2];
    const char *host;
    const char *link;
    const char *who;
    const char *op;
    double seconds;
    unsigned rounds;
    unsigned depth;
    unsigned threads;
    int values;
} opt = {{NULL, NULL}, "127.0.0.1", "lo", NULL, NULL, 0.2, 5, 0, 1, 0};

static void pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

/* ---- Rounds ---- */

static const unsigned depths[] = {1, 4, 8, 14, 28};
#define DEPTHS (sizeof(depths) / sizeof(depths[0]))

static int wanted(int read, enum peer who, unsigned depth)
{
    return (opt.op == NULL || strcmp(opt.op, read ? "read" : "write") == 0) &&
           (opt.who == NULL || strcmp(opt.who, who_name[who]) == 0) &&
           (opt.depth == 0 || opt.depth == depth) && !(read && who == PEER_GSO_ACKV) &&
           !(opt.threads == 2 && opt.who == NULL && who != PEER_TCP && who != PEER_UDP &&
             who != PEER_GSO_ACKV);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *v)
{
    qsort(v, opt.rounds, sizeof(*v), by_size);
    return v[opt.rounds / 2];
}

static void measure(void)
{
    static double cpu[2][PEERS][DEPTHS][ROUNDS_MAX], wall[2][PEERS][DEPTHS][ROUNDS_MAX];
    const struct peer_where w = {{opt.ns[0], opt.ns[1]}, opt.host, opt.threads};
    for (unsigned r = 0; r < opt.rounds; r++) {
        for (unsigned i = 0; i < 2 * PEERS * DEPTHS; i++) {
            unsigned read = i % 2, who = i / 2 % PEERS, d = i / 2 / PEERS;
            if (!wanted((int)read, (enum peer)who, depths[d]))
                continue;
            struct peer_value v = peer_run(&w, (enum peer)who, (int)read, depths[d], opt.seconds);
            cpu[read][who][d][r] = v.cpu_ns;
            wall[read][who][d][r] = v.wall_ns;
            if (opt.values)
                printf("value %s %s %u %.0f %.0f\n", read ? "read" : "write", who_name[who],
                       depths[d], v.cpu_ns, v.wall_ns);
        }
    }
    for (unsigned i = 0; i < 2 * PEERS * DEPTHS && !opt.values; i++) {
        unsigned d = i % DEPTHS, who = i / DEPTHS % PEERS, read = i / DEPTHS / PEERS;
        if (!wanted((int)read, (enum peer)who, depths[d]))
            continue;
        const char *op = read ? "read" : "write";
        printf("row solar raw_%s:%s:d%u %s %u %.0f ns_cpu/rpc\n", op, opt.link, depths[d],
               who_name[who], opt.threads, middle(cpu[read][who][d]));
        printf("row solar raw_%s_rate:%s:d%u %s %u %.0f rpc/s\n", op, opt.link, depths[d],
               who_name[who], opt.threads, 1e9 / middle(wall[read][who][d]));
    }
}

static const char *next(int argc, char **argv, int *i)
{
    if (++*i >= argc) {
        fprintf(stderr, "solar_raw: %s what?\n", argv[*i - 1]);
        exit(2);
    }
    return argv[*i];
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--values") == 0) {
            opt.values = 1;
        } else if (strcmp(name, "--ns") == 0) {
            opt.ns[0] = next(argc, argv, &i);
            opt.ns[1] = next(argc, argv, &i);
        } else if (strcmp(name, "--host") == 0) {
            opt.host = next(argc, argv, &i);
        } else if (strcmp(name, "--link") == 0) {
            opt.link = next(argc, argv, &i);
        } else if (strcmp(name, "--who") == 0) {
            opt.who = next(argc, argv, &i);
        } else if (strcmp(name, "--op") == 0) {
            opt.op = next(argc, argv, &i);
        } else if (strcmp(name, "--seconds") == 0) {
            opt.seconds = strtod(next(argc, argv, &i), NULL);
        } else if (strcmp(name, "--rounds") == 0) {
            opt.rounds = (unsigned)strtoul(next(argc, argv, &i), NULL, 10);
        } else if (strcmp(name, "--depth") == 0) {
            opt.depth = (unsigned)strtoul(next(argc, argv, &i), NULL, 10);
        } else if (strcmp(name, "--threads") == 0) {
            opt.threads = (unsigned)strtoul(next(argc, argv, &i), NULL, 10);
        } else {
            fprintf(stderr, "solar_raw: %s? The head of solar_raw.c lists the arguments\n", name);
            return 2;
        }
    }
    if (opt.rounds < 1 || opt.rounds > ROUNDS_MAX || opt.threads < 1 || opt.threads > 2 ||
        !(opt.seconds > 0 && opt.seconds < 3600)) {
        fprintf(stderr, "solar_raw: a number out of its range\n");
        return 2;
    }
    pin(1);
    measure();
    return 0;
}
