/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SOLAR and LUNA on real sockets, without a store, beside plain sockets that carry the same bytes
 * (described in bench/solar_raw.c). All of an exchange runs in one thread, which needs no
 * wake-ups; the CPU time is that of the process, the kernel's threads for it included.
 *
 *   solar_net [--ns CLIENT SERVER] [--host IP] [--link NAME] [--seconds N] [--rounds N]
 *             [--who NAME] [--op write|read] [--depth N] [--no-stages]
 *
 *   solar        the engines, without checksums of data
 *   solar_crc    with them: what a storage agent does in software
 *   solar_volume the same as a disk of the io door, with a QoS that never holds: the whole path
 *   luna, luna_crc
 *   tcp, udp, gso_ackv   plain sockets
 *
 * One block of 4 KiB an I/O. All cases take turns in each round; rows are medians. Rows:
 *
 *   row solar write:LINK:dDEPTH WHO 1 ns_cpu/io            and read
 *   ratio solar write:LINK:dDEPTH WHO/PEER 1 X             above 1 WHO is better
 *   row solar write_rate:LINK:d28 WHO 1 io/core_s
 *   row solar crc_adds, agent_adds:LINK:dDEPTH ours 1 ns_cpu/io    solar_crc - solar, volume -
 * solar row solar rtt_adds:LINK ours 1 ns_cpu/io               depth 1, beside the ping-pong udp
 *   row solar stage_STAGE:LINK:dDEPTH WHO 1 ns_cpu/io      packet_io (all but the engines), crc,
 *                                                          sec, and what the engines do beside
 *   row solar write_count_WHAT:LINK:dDEPTH WHO 1 X /io     of a run of its own: enters (io_uring),
 *                                                          sends (calls), recvs (completions);
 *                                                          train is packets a call
 *   row solar under_load:LINK:bN_p50 WHO 1 ns              one write at a time with N others in
 *                                                          flight (the paper's Figure 15), and p99
 *   row solar noise - - X %                                of a fixed loop
 */
#include "solar_net.h"
#include "solar_peers.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 99, DEPTHS = 5, OPS = 2 };

struct contestant {
    const char *name;
    const struct net_who *who; /* NULL: a peer */
    enum peer peer;
    int crc, qos;
};
static const struct contestant all[] = {
    {"solar", &net_solar, PEERS, 0, 0},
    {"solar_crc", &net_solar, PEERS, 1, 0},
    {"solar_volume", &net_volume, PEERS, 1, 1},
    {"luna", &net_luna, PEERS, 0, 0},
    {"luna_crc", &net_luna, PEERS, 1, 0},
    {"tcp", NULL, PEER_TCP, 0, 0},
    {"udp", NULL, PEER_UDP, 0, 0},
    {"gso_ackv", NULL, PEER_GSO_ACKV, 0, 0},
};
enum { SOLAR, SOLAR_CRC, SOLAR_VOLUME, LUNA, LUNA_CRC, TCP, UDP, GSO_ACKV, WHO };
SNIC_STATIC_ASSERT(SNIC_COUNTOF(all) == WHO, "in that order");

static const unsigned depths[DEPTHS] = {1, 4, 8, 14, 28};

static struct {
    const char *ns[2];
    const char *host;
    const char *link;
    const char *who;
    const char *op;
    double seconds;
    unsigned rounds;
    unsigned depth;
    int no_stages;
} opt = {.host = "127.0.0.1", .link = "lo", .seconds = 0.2, .rounds = 5};

static struct net_env env;
static unsigned char data[NET_SLOTS][SNIC_EBS_BLOCK_BYTES];
static void *xts_key;
static double value[WHO][OPS][DEPTHS][ROUNDS_MAX];

/* ---- For the contestants ---- */

void net_must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "solar_net: %s\n", what);
        exit(1);
    }
}

void *net_memory(size_t size)
{
    void *p = size == 0 ? NULL : aligned_alloc(4096, snic_align_up(size, 4096));
    net_must(p != NULL, "no memory, or options that do not fit together");
    memset(p, 0, size);
    return p;
}

unsigned char *net_data(uint32_t i)
{
    return data[i];
}

uint64_t net_lba(uint32_t i)
{
    static uint64_t turn;
    return (turn++ * NET_SLOTS + i) % NET_BLOCKS;
}

uint32_t net_crc(void *ctx, const void *bytes, size_t size)
{
    struct net_env *e = ctx;
    if (!e->crc)
        return 1;
    uint64_t began = net_begin(e);
    uint32_t crc = snic_crc32c(0, bytes, size);
    net_end(e, NET_CRC, began);
    return crc;
}

#ifdef SNIC_BENCH_CRYPTO
static int sec_encrypt(void *key, uint64_t unit, void *out, const void *in, size_t size)
{
    uint64_t began = net_begin(&env);
    int r = snic_ebs_openssl()->xts_encrypt(key, unit, out, in, size);
    net_end(&env, NET_SEC, began);
    return r;
}

const struct snic_ebs_sec_ops *net_sec(const struct net_env *e)
{
    static struct snic_ebs_sec_ops ops;
    static const unsigned char bytes[64] = {1, 2, 3};
    if (!e->sec || snic_ebs_openssl() == NULL)
        return NULL;
    ops = *snic_ebs_openssl();
    ops.xts_encrypt = sec_encrypt;
    if (xts_key == NULL)
        net_must(snic_ebs_openssl_xts_open(&xts_key, bytes, sizeof(bytes)) == 0, "no key");
    return &ops;
}
#else
const struct snic_ebs_sec_ops *net_sec(const struct net_env *e)
{
    (void)e;
    return NULL;
}
#endif

void *net_key(const struct net_env *e)
{
    return net_sec(e) != NULL ? xts_key : NULL;
}

/* ---- A run of one of ours ---- */

static struct {
    const struct net_who *who;
    uint64_t done;
    uint64_t began_ns; /* of slot 0, when it is the one whose time is taken */
    struct snic_hist *latency;
    struct net_counts counts;
    uint64_t enters;
    uint64_t ios; /* of the run that is over */
    unsigned inside;
    int read;
    int ending;
} now;

static uint64_t clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void ours_done(uint32_t slot)
{
    now.done++;
    if (slot == 0 && now.latency != NULL)
        snic_hist_record(now.latency, clock_of(CLOCK_MONOTONIC) - now.began_ns);
    if (now.ending) {
        now.inside--;
        return;
    }
    if (slot == 0)
        now.began_ns = now.latency != NULL ? clock_of(CLOCK_MONOTONIC) : 0;
    now.who->submit(slot, now.read);
}

void net_count(const struct snic_net *n, struct net_counts *k)
{
    k->sends += n->stats.dgram_sends + n->stats.send_requests;
    k->recvs += n->stats.dgram_recvs + n->stats.recv_events;
    k->packets += n->stats.dgrams_out;
}

static void ours_until(uint64_t done)
{
    uint64_t limit = clock_of(CLOCK_MONOTONIC) + UINT64_C(20000000000);
    for (unsigned i = 0; now.done < done; i++) {
        net_must(snic_loop_once(env.loop, 1000000000) >= 0, "the loop ends");
        net_must((i & 1023) != 0 || clock_of(CLOCK_MONOTONIC) < limit, "no answers");
    }
}

/* The difference to what was counted before; at first that is nothing. */
static void ours_count(void)
{
    struct snic_loop_stats s;
    struct net_counts k = {0, 0, 0};
    snic_loop_get_stats(env.loop, &s);
    now.who->count(&k);
    now.counts.sends = k.sends - now.counts.sends;
    now.counts.recvs = k.recvs - now.counts.recvs;
    now.counts.packets = k.packets - now.counts.packets;
    now.enters = s.enters - now.enters;
}

/* @return CPU time per I/O; @p latency NULL or of the first */
static double ours_run(const struct contestant *k, int read, unsigned depth, double seconds,
                       struct snic_hist *latency)
{
    memset(&now, 0, sizeof(now));
    now.who = k->who;
    now.read = read;
    env.crc = k->crc;
    env.qos = k->qos;
    env.done = ours_done;
    k->who->open(&env);
    now.began_ns = clock_of(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < depth; i++)
        k->who->submit(i, read);
    ours_until(200 * (uint64_t)depth);
    memset(env.cycles, 0, sizeof(env.cycles));
    if (latency != NULL)
        snic_hist_reset(latency);
    now.latency = latency;
    ours_count();
    now.began_ns = clock_of(CLOCK_MONOTONIC);
    uint64_t before = now.done, cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t start = clock_of(CLOCK_MONOTONIC);
    do
        ours_until(now.done + 16 * (uint64_t)depth);
    while (clock_of(CLOCK_MONOTONIC) - start < (uint64_t)(seconds * 1e9));
    cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    double each = (double)cpu / (double)(now.done - before);
    ours_count();
    now.ios = now.done - before;
    now.latency = NULL;
    now.ending = 1;
    now.inside = depth;
    while (now.inside > 0)
        ours_until(now.done + 1);
    k->who->close();
    return each;
}

/* ---- Rounds ---- */

static int wanted(unsigned who, unsigned read, unsigned depth)
{
    return (opt.who == NULL || strcmp(opt.who, all[who].name) == 0) &&
           (opt.op == NULL || strcmp(opt.op, read ? "read" : "write") == 0) &&
           (opt.depth == 0 || opt.depth == depth) && !(read && all[who].peer == PEER_GSO_ACKV);
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

/* A fixed loop: the spread of its time bounds the accuracy of the other rows. */
static double calibrate(void)
{
    uint64_t cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    uint32_t crc = 0;
    for (unsigned i = 0; i < 20000; i++)
        crc = snic_crc32c(crc, data[i % NET_SLOTS], SNIC_EBS_BLOCK_BYTES);
    __asm__ volatile("" : : "r"(crc));
    return (double)(clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

static void measure(void)
{
    static double fixed[ROUNDS_MAX];
    const struct peer_where where = {{opt.ns[0], opt.ns[1]}, opt.host, 1};
    for (unsigned r = 0; r < opt.rounds; r++) {
        fixed[r] = calibrate();
        for (unsigned i = 0; i < WHO * OPS * DEPTHS; i++) {
            unsigned who = i % WHO, read = i / WHO % OPS, d = i / WHO / OPS;
            if (!wanted(who, read, depths[d]))
                continue;
            value[who][read][d][r] =
                all[who].who != NULL
                    ? ours_run(&all[who], (int)read, depths[d], opt.seconds, NULL)
                    : peer_run(&where, all[who].peer, (int)read, depths[d], opt.seconds).cpu_ns;
        }
    }
    (void)middle(fixed);
    printf("row solar noise:%s - - %.1f %%\n", opt.link,
           100 * (fixed[opt.rounds - 1] - fixed[0]) / fixed[opt.rounds / 2]);
}

/* ---- Rows ---- */

static double of(unsigned who, unsigned read, unsigned d)
{
    return middle(value[who][read][d]);
}

static void ratio(unsigned read, unsigned d, unsigned ours, unsigned peer)
{
    if (wanted(ours, read, depths[d]) && wanted(peer, read, depths[d]))
        printf("ratio solar %s:%s:d%u %s/%s 1 %.2f\n", read ? "read" : "write", opt.link, depths[d],
               all[ours].name, all[peer].name, of(peer, read, d) / of(ours, read, d));
}

static void adds(const char *name, unsigned read, unsigned d, unsigned who, unsigned to)
{
    if (wanted(who, read, depths[d]) && wanted(to, read, depths[d]))
        printf("row solar %s_%s:%s:d%u ours 1 %.0f ns_cpu/io\n", read ? "read" : "write", name,
               opt.link, depths[d], of(who, read, d) - of(to, read, d));
}

static void rows(void)
{
    for (unsigned i = 0; i < WHO * OPS * DEPTHS; i++) {
        unsigned who = i % WHO, d = i / WHO % DEPTHS, read = i / WHO / DEPTHS;
        if (!wanted(who, read, depths[d]))
            continue;
        const char *op = read ? "read" : "write";
        printf("row solar %s:%s:d%u %s 1 %.0f ns_cpu/io\n", op, opt.link, depths[d], all[who].name,
               of(who, read, d));
        if (depths[d] == 28)
            printf("row solar %s_rate:%s:d%u %s 1 %.0f io/core_s\n", op, opt.link, depths[d],
                   all[who].name, 1e9 / of(who, read, d));
    }
    for (unsigned i = 0; i < OPS * DEPTHS; i++) {
        unsigned read = i / DEPTHS, d = i % DEPTHS;
        ratio(read, d, SOLAR, TCP);
        ratio(read, d, SOLAR, UDP);
        ratio(read, d, SOLAR, GSO_ACKV);
        ratio(read, d, SOLAR_CRC, LUNA_CRC);
        ratio(read, d, LUNA, TCP);
        adds("crc_adds", read, d, SOLAR_CRC, SOLAR);
        adds("agent_adds", read, d, SOLAR_VOLUME, SOLAR);
    }
    adds("rtt_adds", 0, 0, SOLAR, UDP);
}

/* Where the time goes, in runs of their own, for looking at the clock costs, too. */
static void stages(unsigned who, unsigned d, int sec, double ns_per_cycle)
{
    struct contestant k = all[who];
    env.stages = 1;
    env.sec = sec;
    uint64_t before;
    double total = ours_run(&k, 0, depths[d], opt.seconds, NULL);
    before = now.done;
    net_must(before > 0, "nothing was done");
    double ios = (double)(now.done - 200 * depths[d]);
    double part[NET_STAGES];
    for (int s = 0; s < NET_STAGES; s++)
        part[s] = (double)env.cycles[s] * ns_per_cycle / ios;
    env.stages = env.sec = 0;
    const char *as = sec ? "_sec" : "";
    const struct {
        const char *name;
        double ns;
    } out[] = {{"total", total},
               {"packet_io", total - part[NET_ENGINE]},
               {"engine", part[NET_ENGINE] - part[NET_CRC] - part[NET_SEC]},
               {"crc", part[NET_CRC]},
               {"sec", part[NET_SEC]}};
    for (size_t i = 0; i < SNIC_COUNTOF(out); i++)
        printf("row solar stage_%s:%s:d%u %s%s 1 %.0f ns_cpu/io\n", out[i].name, opt.link,
               depths[d], k.name, as, out[i].ns);
}

static double cycle_ns(void)
{
    uint64_t c = net_cycles(), t = clock_of(CLOCK_MONOTONIC);
    while (clock_of(CLOCK_MONOTONIC) - t < 50000000)
        ;
    return (double)(clock_of(CLOCK_MONOTONIC) - t) / (double)snic_max_u64(net_cycles() - c, 1);
}

static void all_stages(void)
{
    static const unsigned of_those[] = {SOLAR_CRC, LUNA_CRC};
    double ns = cycle_ns();
    for (size_t i = 0; i < 2 * SNIC_COUNTOF(of_those); i++) {
        unsigned who = of_those[i / 2];
        env.sec = i % 2 != 0;
        if (i % 2 != 0 && net_sec(&env) == NULL)
            continue;
        stages(who, 4, i % 2 != 0, ns);
    }
}

static void counts(void)
{
    static const unsigned of_those[] = {SOLAR, LUNA};
    for (unsigned i = 0; i < SNIC_COUNTOF(of_those) * OPS * DEPTHS; i++) {
        unsigned d = i % DEPTHS, read = i / DEPTHS % OPS, who = of_those[i / DEPTHS / OPS];
        if (!wanted(who, read, depths[d]))
            continue;
        (void)ours_run(&all[who], (int)read, depths[d], opt.seconds, NULL);
        const struct {
            const char *name;
            uint64_t part, whole;
        } out[] = {{"enters", now.enters, now.ios},
                   {"sends", now.counts.sends, now.ios},
                   {"recvs", now.counts.recvs, now.ios},
                   {"train", now.counts.packets, now.counts.sends}};
        for (size_t k = 0; k < SNIC_COUNTOF(out); k++)
            if (out[k].part > 0)
                printf("row solar %s_count_%s:%s:d%u %s 1 %.3f /io\n", read ? "read" : "write",
                       out[k].name, opt.link, depths[d], all[who].name,
                       (double)out[k].part / (double)out[k].whole);
    }
}

static void under_load(void)
{
    static const unsigned others[] = {0, 13, 27, 55};
    static const unsigned of_those[] = {SOLAR_CRC, LUNA_CRC};
    static struct snic_hist h;
    for (size_t i = 0; i < SNIC_COUNTOF(others) * SNIC_COUNTOF(of_those); i++) {
        unsigned who = of_those[i % 2], n = others[i / 2];
        (void)ours_run(&all[who], 0, 1 + n, 3 * opt.seconds, &h);
        printf("row solar under_load:%s:b%u_p50 %s 1 %llu ns\n", opt.link, n, all[who].name,
               (unsigned long long)snic_hist_quantile(&h, 500000));
        printf("row solar under_load:%s:b%u_p99 %s 1 %llu ns\n", opt.link, n, all[who].name,
               (unsigned long long)snic_hist_quantile(&h, 990000));
    }
}

/* ---- The program ---- */

static const char *next(int argc, char **argv, int *i)
{
    if (++*i >= argc) {
        fprintf(stderr, "solar_net: %s what?\n", argv[*i - 1]);
        exit(2);
    }
    return argv[*i];
}

static void options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--no-stages") == 0) {
            opt.no_stages = 1;
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
        } else {
            fprintf(stderr, "solar_net: %s? The head of solar_net.c lists the arguments\n", name);
            exit(2);
        }
    }
    if (opt.rounds < 1 || opt.rounds > ROUNDS_MAX || !(opt.seconds > 0 && opt.seconds < 3600)) {
        fprintf(stderr, "solar_net: a number out of its range\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    cpu_set_t set;
    options(argc, argv);
    memset(data, 0x5a, sizeof(data));
    CPU_ZERO(&set);
    CPU_SET((unsigned)sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
    env.ns[0] = opt.ns[0];
    env.ns[1] = opt.ns[1];
    env.host = opt.host;
    net_must(snic_loop_uring_open(&env.loop, NULL) == 0, "no io_uring");
    measure();
    rows();
    if (!opt.no_stages) {
        counts();
        all_stages();
        under_load();
    }
    snic_loop_close(env.loop);
    return 0;
}
