/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the benchmarks of files share: an image of the service on a file of the machine with one
 * file that is written, requests in flight to it, clocks, medians and rows.
 */
#ifndef SNIC_BENCH_FILES_IMAGE_H
#define SNIC_BENCH_FILES_IMAGE_H

#include "snicstore/files.h"

#define BENCH_REPEATS 5
#define BENCH_BLOCK 4096u
#define BENCH_FILE_BYTES ((uint64_t)64 << 20)
#define BENCH_DEPTH_MAX 64u
#define BENCH_IO_MAX (512u << 10)

double bench_now(void);
/** CPU seconds of the process, of the calling thread. */
double bench_cpu(void);
double bench_cpu_thread(void);
/** The value, or the end of the program with what failed. */
int64_t bench_must(const char *what, int64_t rc);
void *bench_memory(size_t size, size_t align);
/** Sorts. */
double bench_median(double *v, int n);

struct bench {
    const char *path;
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_files *files;
    void *mem;
    uint64_t file;
    uint64_t base; /**< where the file begins on the device                */
    double seconds;
    unsigned char *buf; /**< BENCH_DEPTH_MAX buffers of BENCH_IO_MAX       */
    int region;         /**< in which they are registered                  */
    struct snic_rng rng;
    uint64_t names; /**< used so far                                       */
};

/** Loop and device; @p create makes the file of the machine. */
void bench_device(struct bench *b, uint64_t bytes, int create);
void bench_mount(struct bench *b);
/** All of it: device, format, mount, and the file `data`, written and durable. */
void bench_open(struct bench *b);
/** The image that bench_open() left. */
void bench_reopen(struct bench *b);
void bench_close(struct bench *b);
int64_t bench_op(struct bench *b, int op, const char *name, uint64_t file, uint64_t at, uint64_t n,
                 uint64_t *id);

/* ---- Requests in flight, at the service or at the io door under it ---- */

enum bench_kind {
    BENCH_READ,
    BENCH_WRITE,
    BENCH_APPEND, /**< SYNC, one after the other in the file */
    BENCH_CREATE
};

struct bench_load {
    struct bench *b;
    int door; /**< at the io door                        */
    enum bench_kind kind;
    uint32_t bytes; /**< of one request                        */
    int linear;     /**< one after the other, else at random   */
    uint64_t file;
    uint64_t next;
    uint64_t done;
    uint64_t limit; /**< of appends                            */
    int stop;
    uint32_t open;
};

/** Requests per second with @p depth of them in flight; CPU microseconds per request in *cpu. */
double bench_load_run(struct bench *b, struct bench_load *l, uint32_t depth, double seconds,
                      double *cpu);

/* ---- Rows, of BENCH_REPEATS values ---- */

void bench_row(const char *module, const char *name, const char *who, int threads, double *rate,
               double *cpu);
void bench_ratio(const char *module, const char *name, const char *peer, int threads, double *ours,
                 double *theirs);

#endif /* SNIC_BENCH_FILES_IMAGE_H */
