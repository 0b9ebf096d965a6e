/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The clients of bench/neighbours on a file system: each a thread with a file of its own in the
 * folder of --address. And datagrams without sense, for servers on UDP.
 */
#include "neighbours.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define BIG (1u << 20)
#define ALIGNMENT 4096u

struct thread {
    pthread_t id;
    struct nb *n;
    uint64_t number;
    struct snic_rng rng;
    unsigned char *buffer;
    char path[512];
    int fd;
    uint64_t answered;
    uint64_t errors;
    struct snic_hist latency;
};

static void sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int ended(const struct nb *n)
{
    return nb_stopped() || nb_now() >= n->start_ns + n->seconds * SECOND;
}

/* ---- What a thread does ---- */

static void one(struct thread *t, uint64_t due)
{
    struct nb *n = t->n;
    off_t at = (off_t)(snic_rng_below(&t->rng, n->keys) * n->bytes);
    ssize_t r = snic_rng_below(&t->rng, 100) < n->writes ? pwrite(t->fd, t->buffer, n->bytes, at)
                                                         : pread(t->fd, t->buffer, n->bytes, at);
    uint64_t now = nb_now();

    t->answered++;
    t->errors += r != (ssize_t)n->bytes;
    snic_hist_record(&t->latency, now > due ? now - due : 0);
}

static void load(struct thread *t)
{
    struct nb *n = t->n;
    uint64_t most = n->requests / n->clients, due = n->start_ns;
    uint64_t rate = snic_max_u64(1, n->rate / n->clients);

    for (uint64_t i = 0; i < most && !ended(n); i++) {
        due = n->role == NB_OPEN ? due + nb_gap(n, &t->rng, rate) : nb_now();
        if (due > nb_now())
            sleep_until(due);
        one(t, due);
    }
    if (n->role == NB_OPEN) /* not answered in time */
        t->errors += most - t->answered;
}

static void fill(struct thread *t)
{
    for (uint64_t at = 0; at < t->n->keys * t->n->bytes; at += t->n->bytes)
        if (pwrite(t->fd, t->buffer, t->n->bytes, (off_t)at) != (ssize_t)t->n->bytes)
            nb_die("cannot fill %s", t->path);
    if (fsync(t->fd) != 0)
        nb_die("cannot sync %s", t->path);
}

/* Large reads; then a byte at a time, or the whole process is stopped from outside. */
static void slow(struct thread *t)
{
    for (uint64_t i = 0; !ended(t->n); i++) {
        ssize_t r = pread(t->fd, t->buffer, BIG, (off_t)(i % 8 * BIG));

        for (int k = 0; r >= 0 && k < 4 && t->n->role == NB_SLOW && !ended(t->n); k++) {
            sleep_until(nb_now() + SECOND / 4);
            r = pread(t->fd, t->buffer, ALIGNMENT, (off_t)(i % 8 * BIG));
        }
    }
}

/* Floods; every third thread makes and removes names, every third syncs. Full disks included. */
static void flood(struct thread *t)
{
    char name[600];

    for (uint64_t i = 0; !ended(t->n); i++) {
        uint64_t at = t->n->role == NB_HOSTILE ? snic_rng_below(&t->rng, 8) : i;

        if (t->n->role == NB_HOSTILE && t->number % 3 == 1) {
            int fd;

            (void)snprintf(name, sizeof(name), "%s.%llu", t->path, (unsigned long long)(i % 64));
            fd = open(name, O_CREAT | O_WRONLY, 0600);
            if (fd >= 0)
                close(fd);
            (void)unlink(name);
            continue;
        }
        t->answered++;
        if (pwrite(t->fd, t->buffer, BIG, (off_t)(at * BIG)) != (ssize_t)BIG) {
            t->errors++;
            sleep_until(nb_now() + SECOND / 1000); /* full: tries again */
        }
        if (t->number % 3 == 2)
            (void)fdatasync(t->fd);
    }
}

static void *thread_main(void *arg)
{
    struct thread *t = arg;

    if (t->n->delay_ms > 0)
        sleep_until(t->n->start_ns);
    switch (t->n->role) {
    case NB_CLOSED:
    case NB_OPEN:
        load(t);
        break;
    case NB_FILL:
        fill(t);
        break;
    case NB_SLOW:
    case NB_PAUSED:
        slow(t);
        break;
    case NB_HOSTILE:
    case NB_FULL:
        flood(t);
        break;
    }
    return NULL;
}

/* ---- Run ---- */

static void start(struct nb *n, struct thread *t)
{
    int bad = n->role == NB_HOSTILE || n->role == NB_FULL;

    (void)snprintf(t->path, sizeof(t->path), "%s/%s%llu", n->address, n->prefix,
                   (unsigned long long)t->number);
    t->fd = open(t->path, O_RDWR | (bad || n->role == NB_FILL ? O_CREAT : 0) | O_DIRECT, 0600);
    if (t->fd < 0)
        nb_die("cannot open %s", t->path);
    if (posix_memalign((void **)&t->buffer, ALIGNMENT, snic_max_u64(BIG, n->bytes)) != 0)
        nb_die("out of memory");
    memset(t->buffer, 'v', snic_max_u64(BIG, n->bytes));
    snic_rng_init(&t->rng, n->seed * 1000 + t->number);
    snic_hist_reset(&t->latency);
    if (pthread_create(&t->id, NULL, thread_main, t) != 0)
        nb_die("cannot make a thread");
}

void nb_run_files(struct nb *n)
{
    struct thread *threads = calloc(n->clients, sizeof(*threads));

    if (threads == NULL)
        nb_die("out of memory");
    n->start_ns = nb_now() + n->delay_ms * 1000000;
    for (uint64_t i = 0; i < n->clients; i++) {
        threads[i].n = n;
        threads[i].number = i;
        start(n, &threads[i]);
    }
    for (uint64_t i = 0; i < n->clients; i++) {
        struct thread *t = &threads[i];

        (void)pthread_join(t->id, NULL);
        n->answered += t->answered;
        n->errors += t->errors;
        snic_hist_merge(&n->latency, &t->latency);
        close(t->fd);
        free(t->buffer);
    }
    n->end_ns = nb_now();
    free(threads);
}

void nb_run_datagrams(struct nb *n)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strrchr(n->address, ':');
    unsigned char noise[1024];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0 || colon == NULL)
        nb_die("--address takes HOST:PORT, not %s", n->address);
    to.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    n->start_ns = nb_now();
    while (!ended(n)) {
        size_t size = 1 + snic_rng_below(&n->rng, sizeof(noise));

        snic_rng_fill(&n->rng, noise, size);
        (void)sendto(fd, noise, size, 0, (struct sockaddr *)&to, sizeof(to));
        n->issued++;
        if (n->issued % 32 == 0)
            sleep_until(nb_now() + SECOND / 1000); /* up to 32,000 per second */
    }
    n->end_ns = nb_now();
    close(fd);
}
