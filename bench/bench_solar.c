/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SOLAR's two engines on one core, without a network or a store: trains go from one to the other in
 * memory, by pointer where they are whole. CPU time of both sides together, per block of 4 KiB.
 *
 *   bench_solar [--seconds N] [--case NAME]
 *
 * write_N, read_N: N I/Os of one block in flight, checksums of data left out (crc: with them, and
 * a copy of the block). A
 * read copies its block into the guest's memory. No thresholds.
 */
#include "snicstore/solar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 256, REPEATS = 5, WAITING = 512 };

struct bench {
    struct snic_solar *c;
    struct snic_solar_target *t;
    uint64_t now;
    struct snic_ebs_io ios[DEPTH];
    struct snic_iov iov[DEPTH];
    uint32_t requests;
    struct snic_ebs_request request[WAITING];
    uint64_t done;
    uint64_t lba;
    int crc;
    unsigned char flat[SNIC_EBS_PACKET_BYTES];
    unsigned char data[DEPTH][SNIC_EBS_BLOCK_BYTES];
};

static struct bench bench;

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_solar: %s\n", what);
        exit(1);
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t no_crc(void *ctx, const void *data, size_t size)
{
    (void)ctx, (void)data, (void)size;
    return 1;
}

static void bench_answer(struct bench *b)
{
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    for (uint32_t i = 0; i < b->requests; i++) {
        const struct snic_ebs_request *q = &b->request[i];
        if (q->op == SNIC_EBS_DO_READ) {
            memset(blocks, 0, sizeof(blocks));
            for (uint32_t k = 0; k < SNIC_EBS_READ_BLOCKS; k++) {
                blocks[k].data = b->data[0];
                blocks[k].wver = 1;
                blocks[k].data_crc = 1; /* no_crc() */
            }
            must(snic_solar_target_read_done(b->t, q, blocks, 1, b->now) > 0, "read_done");
        } else {
            snic_solar_target_answer(b->t, q, SNIC_EBS_OK, q->data_crc, 0, b->now);
        }
    }
    b->requests = 0;
}

/* The network: a datagram's two pieces are put together where the receiver looks at them; the copy
   of the block is a network's work and not counted here, so the target sees what lies flat. */
static void bench_to_target(struct bench *b, const struct snic_solar_train *t)
{
    struct snic_ebs_peer peer = {{t->path, t->gen, 0}};
    uint32_t piece = 0;
    for (uint32_t i = 0; i < t->packets; i++) {
        size_t head = t->iov[piece].size;
        memcpy(b->flat, t->iov[piece].base, head);
        piece++;
        if (head < t->segment && piece < t->iov_count) {
            if (b->crc) /* for the target's checksum */
                memcpy(b->flat + head, t->iov[piece].base, t->iov[piece].size);
            head += t->iov[piece++].size;
        }
        if (b->requests < WAITING)
            b->requests += snic_solar_target_recv(b->t, &peer, b->flat, head, 0,
                                                  &b->request[b->requests], b->now) == 1;
    }
}

static void bench_to_agent(struct bench *b, const struct snic_solar_train *t)
{
    uint32_t piece = 0;
    for (uint32_t i = 0; i < t->packets; i++) {
        size_t head = t->iov[piece].size;
        memcpy(b->flat, t->iov[piece].base, head);
        piece++;
        if (head < t->segment && piece < t->iov_count)
            head += t->iov[piece++].size;
        (void)snic_solar_recv(b->c, 0, (uint32_t)t->peer.word[0], (uint32_t)t->peer.word[1],
                              b->flat, head, 0, b->now);
    }
}

static void bench_submit(struct bench *b, struct snic_ebs_io *io, uint8_t op)
{
    uint32_t i = (uint32_t)(io - b->ios);
    b->iov[i].base = b->data[i];
    b->iov[i].size = SNIC_EBS_BLOCK_BYTES;
    io->op = op;
    io->lba = b->lba++ % 4096;
    io->blocks = 1;
    io->iov = &b->iov[i];
    io->iov_count = 1;
    must(snic_solar_submit(b->c, io, b->now) == 0, "submit");
}

static void bench_act(struct bench *b, struct snic_ebs_action *a, int again)
{
    if (a->type == SNIC_EBS_ACT_SEND) {
        bench_to_target(b, a->train);
        snic_solar_sent(b->c, a->train, b->now);
    } else if (a->type == SNIC_EBS_ACT_DONE) {
        must(a->io->result == 0, "an I/O failed");
        b->done++;
        if (again)
            bench_submit(b, a->io, a->io->op);
    } else if (a->type == SNIC_EBS_ACT_OPEN) {
        uint16_t port = (uint16_t)(50000 + a->path);
        must(snic_solar_path_opened(b->c, 0, a->path, a->gen, port, b->now) == 0, "path_opened");
    }
}

static void bench_turn(struct bench *b, int again)
{
    struct snic_ebs_action a[16];
    struct snic_solar_train *t[16];
    uint32_t n;
    b->now += 10000;
    while ((n = snic_solar_poll(b->c, a, 16, b->now)) > 0)
        for (uint32_t i = 0; i < n; i++)
            bench_act(b, &a[i], again);
    b->now += 10000;
    bench_answer(b);
    while ((n = snic_solar_target_poll(b->t, t, 16, b->now)) > 0)
        for (uint32_t i = 0; i < n; i++) {
            bench_to_agent(b, t[i]);
            snic_solar_target_sent(b->t, t[i]);
        }
}

static void bench_open(struct bench *b, int crc)
{
    struct snic_solar_opts o = {.opts_size = sizeof(o), .client_epoch = 1, .servers_max = 1};
    struct snic_solar_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1};
    struct snic_ebs_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 1, .blocks = 4096};
    memset(b, 0, offsetof(struct bench, data));
    o.crc = crc ? NULL : no_crc;
    k.crc = o.crc;
    b->now = 1;
    b->crc = crc;
    size_t size = snic_solar_memsize(&o), ksize = snic_solar_target_memsize(&k);
    void *mem = aligned_alloc(SNIC_SOLAR_ALIGN, size);
    void *kmem = aligned_alloc(SNIC_SOLAR_ALIGN, ksize);
    must(mem != NULL && kmem != NULL && snic_solar_init(&b->c, mem, size, &o, b->now) == 0 &&
             snic_solar_target_init(&b->t, kmem, ksize, &k, b->now) == 0 &&
             snic_solar_server_add(b->c, 0, b->now) == 0 &&
             snic_solar_attach(b->c, 0, &d, b->now) == 0,
         "init");
    for (uint32_t i = 0; i < 8; i++)
        must(snic_solar_map(b->c, 0, i, i + 1, 0, 1, b->now) == 0, "map");
    for (uint32_t i = 0; i < 10; i++)
        bench_turn(b, 0);
}

static void bench_close(struct bench *b)
{
    for (uint32_t i = 0; i < 1000; i++)
        bench_turn(b, 0);
    free(snic_solar_fini(b->c));
    free(snic_solar_target_fini(b->t));
}

static double bench_run(uint8_t op, uint32_t depth, int crc, double seconds)
{
    struct bench *b = &bench;
    bench_open(b, crc);
    for (uint32_t i = 0; i < depth; i++)
        bench_submit(b, &b->ios[i], op);
    for (uint32_t i = 0; i < 1000; i++)
        bench_turn(b, 1);
    uint64_t done = b->done, began = cpu_ns(), now;
    do
        for (uint32_t i = 0; i < 100; i++)
            bench_turn(b, 1);
    while ((now = cpu_ns()) - began < (uint64_t)(seconds * 1e9));
    double ns = (double)(now - began) / (double)(b->done - done);
    bench_close(b);
    return ns;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint8_t op;
        uint32_t depth;
        int crc;
    } rows[] = {
        {"write_1", SNIC_EBS_IO_WRITE, 1, 0},       {"write_8", SNIC_EBS_IO_WRITE, 8, 0},
        {"write_28", SNIC_EBS_IO_WRITE, 28, 0},     {"write_128", SNIC_EBS_IO_WRITE, 128, 0},
        {"write_28_crc", SNIC_EBS_IO_WRITE, 28, 1}, {"read_1", SNIC_EBS_IO_READ, 1, 0},
        {"read_28", SNIC_EBS_IO_READ, 28, 0},
    };
    double seconds = 1;
    const char *only = NULL;
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--case") == 0)
            only = argv[i + 1];
    printf("%-16s %10s\n", "case", "ns/block");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double ns[REPEATS];
        if (only != NULL && strcmp(only, rows[i].name) != 0)
            continue;
        for (int k = 0; k < REPEATS; k++)
            ns[k] = bench_run(rows[i].op, rows[i].depth, rows[i].crc, seconds / REPEATS);
        qsort(ns, REPEATS, sizeof(ns[0]), compare);
        printf("%-16s %10.0f\n", rows[i].name, ns[REPEATS / 2]);
        fflush(stdout);
    }
    return 0;
}
