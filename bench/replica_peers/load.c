/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Options, draws and the report of the load programs; see load.h. */
#include "load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static void load_usage(void)
{
    fputs("--servers HOST:PORT[,HOST:PORT...] [--clients N] [--pipeline N] [--get-percent N]\n"
          "[--keys N] [--value-bytes N] [--seconds S] [--zipf] [--fill] [--first N]\n"
          "[--seed N] RESP: [--wait N] [--setup WORDS] [--set-tail WORDS] [--get-tail WORDS]\n"
          "etcd: [--serializable]\n",
          stderr);
    exit(2);
}

static void load_servers(struct load_opts *o, const char *list)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        if (o->servers_count == LOAD_SERVERS || n == 0 || n >= sizeof(o->servers[0]))
            load_usage();
        memcpy(o->servers[o->servers_count], list, n);
        o->servers[o->servers_count++][n] = '\0';
        list += n + (list[n] == ',');
    }
}

static void load_text(char *to, const char *from)
{
    if (strlen(from) >= LOAD_TEXT)
        load_usage();
    memcpy(to, from, strlen(from) + 1);
}

static int load_flag(struct load_opts *o, const char *name)
{
    if (strcmp(name, "--zipf") == 0)
        o->zipf = 1;
    else if (strcmp(name, "--fill") == 0)
        o->fill = 1;
    else if (strcmp(name, "--serializable") == 0)
        o->serializable = 1;
    else
        return 0;
    return 1;
}

static void load_option(struct load_opts *o, const char *name, const char *value)
{
    uint32_t n = (uint32_t)strtoul(value, NULL, 10);
    if (strcmp(name, "--servers") == 0)
        load_servers(o, value);
    else if (strcmp(name, "--clients") == 0)
        o->clients = n;
    else if (strcmp(name, "--pipeline") == 0)
        o->pipeline = n;
    else if (strcmp(name, "--get-percent") == 0)
        o->get_percent = n;
    else if (strcmp(name, "--keys") == 0)
        o->keys = n;
    else if (strcmp(name, "--value-bytes") == 0)
        o->value_bytes = n;
    else if (strcmp(name, "--seconds") == 0)
        o->seconds = strtod(value, NULL);
    else if (strcmp(name, "--first") == 0)
        o->first = n;
    else if (strcmp(name, "--seed") == 0)
        o->seed = n;
    else if (strcmp(name, "--wait") == 0)
        o->wait = n;
    else if (strcmp(name, "--setup") == 0)
        load_text(o->setup, value);
    else if (strcmp(name, "--set-tail") == 0)
        load_text(o->set_tail, value);
    else if (strcmp(name, "--get-tail") == 0)
        load_text(o->get_tail, value);
    else
        load_usage();
}

void load_options(struct load_opts *o, int argc, char **argv)
{
    memset(o, 0, sizeof(*o));
    o->clients = 1;
    o->pipeline = 1;
    o->get_percent = 100;
    o->keys = 10000;
    o->value_bytes = 1024;
    o->seconds = 1;
    o->seed = 1;
    for (int i = 1; i < argc; i++) {
        if (load_flag(o, argv[i]))
            continue;
        if (i + 1 == argc)
            load_usage();
        load_option(o, argv[i], argv[i + 1]);
        i++;
    }
    if (o->servers_count == 0 || o->clients == 0 || o->clients > 4096 || o->pipeline == 0 ||
        o->pipeline > 1024 || o->keys == 0 || o->value_bytes < 8 || o->value_bytes > 1u << 20 ||
        o->seconds <= 0)
        load_usage();
}

/* ---- Draws ---- */

/* Gray et al., "Quickly generating billion-record synthetic databases", as YCSB has it. */
void load_draw_init(struct load_draw *d, const struct load_opts *o)
{
    memset(d, 0, sizeof(*d));
    snic_rng_init(&d->rng, o->seed);
    d->keys = o->keys;
    d->zipf = o->zipf;
    if (!o->zipf)
        return;
    d->theta = 0.99;
    for (uint64_t i = 1; i <= d->keys; i++)
        d->zetan += pow((double)i, -d->theta);
    d->alpha = 1 / (1 - d->theta);
    double zeta2 = 1 + pow(0.5, d->theta);
    d->eta = (1 - pow(2.0 / (double)d->keys, 1 - d->theta)) / (1 - zeta2 / d->zetan);
}

uint64_t load_draw_key(struct load_draw *d)
{
    if (!d->zipf)
        return snic_rng_below(&d->rng, d->keys);
    double u = (double)(snic_rng_next(&d->rng) >> 11) / 9007199254740992.0;
    double uz = u * d->zetan;
    uint64_t rank = 0;
    if (uz >= 1)
        rank = uz < 1 + pow(0.5, d->theta)
                   ? 1
                   : (uint64_t)((double)d->keys * pow(d->eta * u - d->eta + 1, d->alpha));
    /* Popular keys lie anywhere, as in YCSB. */
    uint64_t h = (rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ (h >> 29)) % d->keys;
}

int load_draw_is_get(struct load_draw *d, const struct load_opts *o)
{
    return o->get_percent == 100 || snic_rng_below(&d->rng, 100) < o->get_percent;
}

void load_key(uint64_t key, char *out)
{
    (void)snprintf(out, LOAD_KEY_BYTES + 1, "key:%012llu", (unsigned long long)key);
}

void load_value(uint64_t key, uint32_t bytes, unsigned char *out)
{
    uint64_t x = key * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (uint32_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        out[i] = (unsigned char)('!' + (x >> (i % 8 * 8) & 63));
    }
}

/* ---- Report ---- */

uint64_t load_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void load_error(struct load_stats *s, const char *what)
{
    if (s->errors++ == 0)
        (void)snprintf(s->first_error, sizeof(s->first_error), "%s", what);
}

static void load_times(const char *name, const struct snic_hist *h)
{
    static const struct {
        const char *name;
        uint32_t ppm;
    } q[] = {{"p50", 500000}, {"p99", 990000}, {"p999", 999000}};
    for (size_t i = 0; i < SNIC_COUNTOF(q); i++)
        printf("%s%s_us=%.1f\n", name, q[i].name, (double)snic_hist_quantile(h, q[i].ppm) * 1e-3);
}

int load_report(const struct load_opts *o, const struct load_stats *s)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
                 (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    double seconds = (double)(s->end_ns - s->start_ns) * 1e-9;
    uint64_t n = s->gets + s->sets;
    printf("operations=%llu\nseconds=%.3f\nrate=%.0f\n", (unsigned long long)n, seconds,
           seconds > 0 ? (double)n / seconds : 0);
    printf("gets=%llu\nsets=%llu\n", (unsigned long long)s->gets, (unsigned long long)s->sets);
    struct snic_hist all = s->latency[0];
    snic_hist_merge(&all, &s->latency[1]);
    load_times("", &all);
    load_times("set_", &s->latency[0]);
    load_times("get_", &s->latency[1]);
    printf("client_cpu_us=%.3f\n", n > 0 ? cpu / (double)n : 0);
    printf("sent_bytes=%llu\nreceived_bytes=%llu\n", (unsigned long long)s->sent,
           (unsigned long long)s->received);
    printf("missing=%llu\nerrors=%llu\n", (unsigned long long)s->missing,
           (unsigned long long)s->errors);
    if (s->errors > 0)
        printf("first_error=%s\n", s->first_error);
    (void)o;
    return n == 0 || s->errors > n / 100 ? 1 : 0;
}
