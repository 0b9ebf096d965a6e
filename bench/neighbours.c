/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * neighbours: load for servers that speak RESP, NBD, the page server's protocol or a catalog's, and
 * for files; or a client that behaves badly. bench/neighbours.sh starts one of each beside the
 * other.
 */
#include "neighbours.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static const char help[] =
    "Usage: neighbours --protocol resp|page|nbd|catalog|file|udp --as ROLE --address ADDRESS "
    "[OPTION]...\n"
    "\n"
    "  --as closed       each client keeps --depth requests under way: saturation\n"
    "       fill         sets keys 0 to --keys - 1 once\n"
    "       open         Poisson arrivals, --rate per second; latency counts from the time due\n"
    "       slow         asks for --depth replies, reads four bytes per second\n"
    "       paused       asks for --depth replies, reads none\n"
    "       hostile      of --clients connections a third floods the server, a third sends what\n"
    "                    breaks the protocol, a third is idle; those that are closed come again\n"
    "       full         files: writes more and more, also when no space is left; a\n"
    "                    catalog: asks for segments that no server has room for\n"
    "  --address         HOST:PORT, the path of a socket, or a file or folder\n"
    "  --clients N       4\n"
    "  --depth N         16; of an open loop 16384\n"
    "  --keys N          keys, pages, or blocks, 1000\n"
    "  --bytes N         of a value or block, 64; segments of a catalog's lookup\n"
    "  --prefix TEXT     of keys, key:; of a catalog's disks\n"
    "  --writes PERCENT  0; of a catalog's requests, leases renewed or disks opened\n"
    "  --rate N          of all clients together, 1000\n"
    "  --requests N      100000\n"
    "  --seconds N       end at the latest after it, 600; what is unanswered then is an error\n"
    "  --delay MS        between connecting and the first request, 0\n"
    "  --seed N          1\n"
    "\n"
    "Prints operations=, rate=, p50_us=, p99_us=, errors=.\n";

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

int nb_stopped(void)
{
    return stop != 0;
}

void nb_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("neighbours: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

uint64_t nb_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t nb_gap(struct nb *n, struct snic_rng *rng, uint64_t rate)
{
    double u = ((double)(snic_rng_next(rng) >> 11) + 1) / 9007199254740993.0;

    (void)n;
    return (uint64_t)(-log(u) * 1e9 / (double)rate);
}

/* ---- Options ---- */

static unsigned one_of(const char *option, const char *value, const char *const *names)
{
    for (unsigned i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], value) == 0)
            return i;
    nb_die("%s does not take '%s' (--help)", option, value);
}

static void number(struct nb *n, const char *option, const char *value)
{
    const struct {
        const char *name;
        uint64_t *at;
        uint64_t least, most;
    } all[] = {
        {"--clients", &n->clients, 1, 4096},       {"--depth", &n->depth, 1, NB_WINDOW},
        {"--keys", &n->keys, 1, UINT32_MAX},       {"--bytes", &n->bytes, 1, 16u << 20},
        {"--writes", &n->writes, 0, 100},          {"--rate", &n->rate, 1, 100000000},
        {"--requests", &n->requests, 1, 1u << 31}, {"--seconds", &n->seconds, 1, 86400},
        {"--delay", &n->delay_ms, 0, 60000},       {"--seed", &n->seed, 0, UINT64_MAX},
    };
    char *end;
    uint64_t v = strtoull(value, &end, 10);

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].name, option) != 0)
            continue;
        if (value[0] < '0' || value[0] > '9' || *end != 0 || v < all[i].least || v > all[i].most)
            nb_die("%s takes %" PRIu64 " to %" PRIu64 ", not '%s'", option, all[i].least,
                   all[i].most, value);
        *all[i].at = v;
        return;
    }
    nb_die("unknown option '%s' (--help)", option);
}

static void options(struct nb *n, int argc, char **argv)
{
    static const char *const protocols[] = {"resp", "page", "nbd", "catalog", "file", "udp", NULL};
    static const char *const roles[] = {"closed", "fill",    "open", "slow",
                                        "paused", "hostile", "full", NULL};
    int depth = 0;

    for (int i = 1; i < argc; i += 2) {
        const char *value = argv[i + 1];

        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            exit(0);
        }
        if (i + 1 == argc)
            nb_die("%s needs a value (--help)", argv[i]);
        depth |= strcmp(argv[i], "--depth") == 0;
        if (strcmp(argv[i], "--protocol") == 0)
            n->protocol = (enum nb_protocol)one_of(argv[i], value, protocols);
        else if (strcmp(argv[i], "--as") == 0)
            n->role = (enum nb_role)one_of(argv[i], value, roles);
        else if (strcmp(argv[i], "--address") == 0)
            n->address = value;
        else if (strcmp(argv[i], "--prefix") == 0 && strlen(value) < 32)
            n->prefix = value;
        else
            number(n, argv[i], value);
    }
    if (n->address == NULL)
        nb_die("--address is missing (--help)");
    if (n->role == NB_OPEN && !depth)
        n->depth = NB_WINDOW;
    if (n->role == NB_FILL)
        n->requests = n->keys;
    else if (n->role != NB_OPEN)
        n->requests = UINT64_MAX;
    if (n->protocol == NB_PAGE)
        n->writes = 0;
}

int main(int argc, char **argv)
{
    static struct nb n = {.prefix = "key:",
                          .clients = 4,
                          .depth = 16,
                          .keys = 1000,
                          .bytes = 64,
                          .rate = 1000,
                          .requests = 100000,
                          .seconds = 600,
                          .seed = 1};
    struct sigaction a = {.sa_handler = on_signal};
    double seconds;

    options(&n, argc, argv);
    (void)sigaction(SIGTERM, &a, NULL);
    (void)sigaction(SIGINT, &a, NULL);
    (void)prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* wake when a request is due */
    snic_rng_init(&n.rng, n.seed);
    snic_hist_reset(&n.latency);
    if (n.protocol == NB_FILE)
        nb_run_files(&n);
    else if (n.protocol == NB_UDP)
        nb_run_datagrams(&n);
    else
        nb_run_streams(&n);
    seconds = n.end_ns > n.start_ns ? (double)(n.end_ns - n.start_ns) / 1e9 : 1;
    printf("operations=%" PRIu64 "\nrate=%.1f\np50_us=%.1f\np99_us=%.1f\nerrors=%" PRIu64 "\n",
           n.answered, (double)n.answered / seconds,
           (double)snic_hist_quantile(&n.latency, 500000) / 1e3,
           (double)snic_hist_quantile(&n.latency, 990000) / 1e3, n.errors);
    return 0;
}
