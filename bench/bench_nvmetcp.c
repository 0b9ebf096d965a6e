/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CPU time of a command through both halves of NVMe/TCP, 32 in flight, without sockets: what one
 * side puts out is copied once, as a socket would, and received by the other. Beside it `copy`: the
 * same bytes in as many pieces, copied as often, with as many digests, and nothing else.
 *
 *   bench_nvmetcp [--seconds N]
 *
 * flush: no data. read, write: 4 KiB; write_inline: in the capsule; _place: received in place,
 * which saves the second copy; _digest: header and data digests. ns/op is for both halves together.
 */
#include "snicstore/nvmetcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS = 7, DEPTH = 32, BLOCK = 4096, PIPE = 1 << 20 };
enum kind { FLUSH, READ, WRITE, WRITE_INLINE };

struct bench_case {
    const char *name;
    const char *who;
    enum kind kind;
    uint32_t digests;
    int in_place;
    uint64_t units;
    double ns[REPEATS]; /* per unit */
};

static struct bench_case cases[] = {
    {"flush", "ours", FLUSH, 0, 0, 0, {0}},
    {"read", "ours", READ, 0, 0, 0, {0}},
    {"read", "copy", READ, 0, 0, 0, {0}},
    {"read_place", "ours", READ, 0, 1, 0, {0}},
    {"read_digest", "ours", READ, 3, 0, 0, {0}},
    {"read_digest", "copy", READ, 3, 0, 0, {0}},
    {"write", "ours", WRITE, 0, 0, 0, {0}},
    {"write", "copy", WRITE, 0, 0, 0, {0}},
    {"write_place", "ours", WRITE, 0, 1, 0, {0}},
    {"write_digest", "ours", WRITE, 3, 0, 0, {0}},
    {"write_digest", "copy", WRITE, 3, 0, 0, {0}},
    {"write_inline", "ours", WRITE_INLINE, 0, 0, 0, {0}},
    {"write_inline", "copy", WRITE_INLINE, 0, 0, 0, {0}},
};

struct pipe {
    size_t head, tail;
    unsigned char *bytes;
};

struct pair {
    struct snic_nvmetcp_target *t;
    struct snic_nvmetcp_host *h;
    void *tmem, *hmem;
    struct pipe up, down;
    struct snic_nvmetcp_command c[DEPTH];
    struct snic_iov civ[DEPTH];
    struct snic_iov tiv[4 * DEPTH];
    unsigned char *data; /* DEPTH blocks of the host, DEPTH of the target */
    uint64_t done, to_do;
};

static struct pair pair;
static volatile uint64_t sink;

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench_nvmetcp: %s\n", what);
    exit(1);
}

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void *memory(size_t size)
{
    void *m = aligned_alloc(SNIC_NVMETCP_ALIGN, (size_t)snic_align_up(size, SNIC_NVMETCP_ALIGN));
    must(m != NULL, "memory");
    memset(m, 1, size);
    return m;
}

/* ---- Ours ---- */

static void put(struct pipe *p, const struct snic_iov *iov, uint32_t n)
{
    if (p->head == p->tail)
        p->head = p->tail = 0;
    for (uint32_t i = 0; i < n; i++) {
        must(p->tail + iov[i].size <= PIPE, "pipe");
        memcpy(p->bytes + p->tail, iov[i].base, iov[i].size);
        p->tail += iov[i].size;
    }
}

static void move_up(struct pair *p, int in_place)
{
    struct snic_iov iov[64];
    size_t bytes, used;
    uint32_t n;
    while ((n = snic_nvmetcp_host_output(p->h, iov, 64, &bytes)) > 0) {
        put(&p->up, iov, n);
        snic_nvmetcp_host_sent(p->h, bytes, 0);
    }
    while (p->up.head < p->up.tail) {
        size_t left = p->up.tail - p->up.head;
        if (in_place && snic_nvmetcp_target_want(p->t, iov, 1) == 1 && iov[0].size <= left) {
            /* received there at once: the copy into the pipe stands for it */
            snic_nvmetcp_target_filled(p->t, iov[0].size, 0);
            p->up.head += iov[0].size;
            continue;
        }
        (void)snic_nvmetcp_target_recv(p->t, p->up.bytes + p->up.head,
                                       in_place && left > 24 ? 24 : left, &used, 0);
        must(used > 0, "paused");
        p->up.head += used;
    }
}

static void move_down(struct pair *p, int in_place)
{
    struct snic_iov iov[64];
    size_t bytes, used;
    uint32_t n;
    while ((n = snic_nvmetcp_target_output(p->t, iov, 64, &bytes)) > 0) {
        put(&p->down, iov, n);
        snic_nvmetcp_target_sent(p->t, bytes, 0);
    }
    while (p->down.head < p->down.tail) {
        size_t left = p->down.tail - p->down.head;
        if (in_place && snic_nvmetcp_host_want(p->h, iov, 1) == 1 && iov[0].size <= left) {
            snic_nvmetcp_host_filled(p->h, iov[0].size, 0);
            p->down.head += iov[0].size;
            continue;
        }
        (void)snic_nvmetcp_host_recv(p->h, p->down.bytes + p->down.head,
                                     in_place && left > 24 ? 24 : left, &used, 0);
        p->down.head += used;
    }
}

static void target_complete(struct pair *p, uint32_t command, uint32_t to_host)
{
    struct snic_nvmetcp_completion c = {.size = to_host};
    struct snic_iov *v = &p->tiv[command & 31];
    v->base = p->data + (DEPTH + (command & 31)) * (size_t)BLOCK;
    v->size = to_host;
    c.iov = v;
    c.iov_count = 1;
    must(snic_nvmetcp_target_complete(p->t, command, &c, 0) == 0, "complete");
}

static void target_events(struct pair *p)
{
    struct snic_nvmetcp_event e;
    while (snic_nvmetcp_target_poll(p->t, &e, 0) == 1) {
        struct snic_iov *v = &p->tiv[DEPTH + (e.command & 31)];
        switch (e.type) {
        case SNIC_NVMETCP_CONNECT: {
            struct snic_nvmetcp_queue q = {.opts_size = sizeof(q), .entries = DEPTH + 2};
            q.inline_max = 8192;
            must(snic_nvmetcp_target_connected(p->t, &q) == 0, "connected");
            target_complete(p, e.command, 0);
            break;
        }
        case SNIC_NVMETCP_COMMAND:
            if (e.wanted == 0) {
                target_complete(p, e.command, e.to_host);
                break;
            }
            v->base = p->data + (DEPTH + (e.command & 31)) * (size_t)BLOCK;
            v->size = e.wanted;
            must(snic_nvmetcp_target_grant(p->t, e.command, v, 1, e.wanted, 0) == 0, "grant");
            break;
        case SNIC_NVMETCP_DATA_IN:
            target_complete(p, e.command, 0);
            break;
        default:
            must(e.type == SNIC_NVMETCP_SENT, "ended");
            break;
        }
    }
}

static void submit(struct pair *p, struct snic_nvmetcp_command *c, enum kind kind)
{
    static const uint8_t ops[] = {[FLUSH] = 0, [READ] = 2, [WRITE] = 1, [WRITE_INLINE] = 1};
    uint32_t i = (uint32_t)(c - p->c);
    memset(c->sqe, 0, sizeof(c->sqe));
    c->sqe[0] = ops[kind];
    p->civ[i].base = p->data + i * (size_t)BLOCK;
    p->civ[i].size = kind == FLUSH ? 0 : BLOCK;
    c->iov = &p->civ[i];
    c->iov_count = 1;
    c->size = kind == FLUSH ? 0 : BLOCK;
    must(snic_nvmetcp_host_submit(p->h, c, 0) == 0, "submit");
    p->to_do--;
}

static void host_events(struct pair *p, enum kind kind)
{
    struct snic_nvmetcp_event e;
    while (snic_nvmetcp_host_poll(p->h, &e, 0) == 1) {
        if (e.type != SNIC_NVMETCP_DONE)
            continue;
        must(e.req->error == 0 && e.req->status == 0, "command failed");
        p->done++;
        if (p->to_do > 0)
            submit(p, e.req, kind);
    }
}

static void pair_open(struct pair *p, const struct bench_case *c)
{
    static unsigned char connect[1024];
    static struct snic_iov iov = {connect, sizeof(connect)};
    struct snic_nvmetcp_target_opts to = {.opts_size = sizeof(to), .depth_max = DEPTH + 2};
    struct snic_nvmetcp_host_opts ho = {.opts_size = sizeof(ho), .entries = DEPTH + 2};
    to.inline_buffers = DEPTH;
    ho.digests = c->digests;
    size_t size = snic_nvmetcp_target_memsize(&to);
    p->tmem = memory(size);
    must(snic_nvmetcp_target_init(&p->t, p->tmem, size, &to, 0) == 0, "target");
    size = snic_nvmetcp_host_memsize(&ho);
    p->hmem = memory(size);
    must(snic_nvmetcp_host_init(&p->h, p->hmem, size, &ho, 0) == 0, "host");
    p->up.head = p->up.tail = p->down.head = p->down.tail = 0;
    for (int i = 0; i < 3; i++) {
        move_up(p, 0);
        target_events(p);
        move_down(p, 0);
        host_events(p, FLUSH);
        if (i > 0)
            continue;
        snic_nvmetcp_host_inline(p->h, 8192);
        p->c[0].sqe[0] = 0x7f;
        p->c[0].sqe[4] = 1;
        p->c[0].iov = &iov;
        p->c[0].iov_count = 1;
        p->c[0].size = sizeof(connect);
        must(snic_nvmetcp_host_submit(p->h, &p->c[0], 0) == 0, "connect");
    }
    must(p->done > 0, "not connected");
    snic_nvmetcp_host_inline(p->h, c->kind == WRITE_INLINE ? 8192 : 0);
}

static void pair_close(struct pair *p)
{
    (void)snic_nvmetcp_target_fini(p->t);
    (void)snic_nvmetcp_host_fini(p->h);
    free(p->tmem);
    free(p->hmem);
}

static uint64_t run_ours(const struct bench_case *c, uint64_t n)
{
    struct pair *p = &pair;
    p->done = 0;
    p->to_do = 0;
    pair_open(p, c);
    p->done = 0;
    p->to_do = n;
    uint64_t start = clock_ns();
    for (uint32_t i = 0; i < DEPTH && p->to_do > 0; i++)
        submit(p, &p->c[i], c->kind);
    while (p->done < n) {
        move_up(p, c->in_place);
        target_events(p);
        move_down(p, c->in_place);
        host_events(p, c->kind);
    }
    uint64_t spent = clock_ns() - start;
    pair_close(p);
    return spent;
}

/* ---- The same bytes and digests ---- */

static uint64_t run_copy(const struct bench_case *c, uint64_t n)
{
    struct pair *p = &pair;
    uint64_t start = clock_ns();
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++) {
        unsigned char *host = p->data + i % DEPTH * BLOCK, *target = host + DEPTH * (size_t)BLOCK;
        unsigned char *up = p->up.bytes + i % DEPTH * 8192,
                      *down = p->down.bytes + i % DEPTH * 8192;
        unsigned char *mid = c->kind == READ ? down : up;
        memcpy(up, host, 72);
        memcpy(target, up, 72);
        memcpy(mid, c->kind == READ ? target : host, BLOCK);
        memcpy(c->kind == READ ? host : target, mid, BLOCK);
        memcpy(down, target, 24);
        memcpy(host, down, 24);
        if (c->kind == WRITE) { /* R2T, and a header of its own */
            memcpy(down + 24, target, 48);
            memcpy(host, down + 24, 48);
        }
        if (c->digests != 0) {
            crc += snic_crc32c(0, host, BLOCK) + snic_crc32c(0, target, BLOCK);
            crc += snic_crc32c(0, up, 72) + snic_crc32c(0, host, 72);
            crc += snic_crc32c(0, down, 24) + snic_crc32c(0, target, 24);
        }
    }
    sink = crc;
    return clock_ns() - start;
}

static uint64_t run(const struct bench_case *c, uint64_t n)
{
    return strcmp(c->who, "ours") == 0 ? run_ours(c, n) : run_copy(c, n);
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double seconds = 3;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
    }
    if (!(seconds > 0) || seconds > 3600)
        seconds = 3;
    uint64_t target = (uint64_t)(seconds * 1e9 / (double)(REPEATS * SNIC_COUNTOF(cases))) + 1000;
    pair.data = memory(2 * DEPTH * (size_t)BLOCK);
    pair.up.bytes = memory(PIPE);
    pair.down.bytes = memory(PIPE);
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        uint64_t spent = run(&cases[i], 2000);
        cases[i].units = 1 + (uint64_t)(2000.0 * (double)target / (double)(spent + 1));
    }
    for (int repeat = 0; repeat < REPEATS; repeat++)
        for (size_t i = 0; i < SNIC_COUNTOF(cases); i++)
            cases[i].ns[repeat] = (double)run(&cases[i], cases[i].units) / (double)cases[i].units;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        qsort(cases[i].ns, REPEATS, sizeof(cases[i].ns[0]), by_double);
        printf("row nvmetcp %s %s 1 %.1f ns/op\n", cases[i].name, cases[i].who,
               cases[i].ns[REPEATS / 2]);
    }
    for (size_t i = 0; i + 1 < SNIC_COUNTOF(cases); i++)
        if (strcmp(cases[i].name, cases[i + 1].name) == 0)
            printf("ratio nvmetcp %s ours/copy 1 %.2f\n", cases[i].name,
                   cases[i + 1].ns[REPEATS / 2] / cases[i].ns[REPEATS / 2]);
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++)
        if (strcmp(cases[i].name, "read") == 0 && strcmp(cases[i].who, "copy") == 0)
            printf("row nvmetcp noise - - %.2f %%\n",
                   100 * (cases[i].ns[REPEATS - 1] - cases[i].ns[0]) / cases[i].ns[REPEATS / 2]);
    return 0;
}
