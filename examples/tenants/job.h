/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/tenants/job.h
 * The job file: the tenants and what they do. Pure: text in, jobs or errors out.
 */
#ifndef TENANTS_JOB_H
#define TENANTS_JOB_H

#include <stddef.h>
#include <stdint.h>

#define JOB_NAME_MAX 48 /* bytes of a section's name, its end included */
#define JOB_SECTIONS_MAX 64
#define JOB_TENANTS_MAX 1024
#define JOB_SIZES_MAX 8 /* of a bssplit */
#define JOB_DEPTH_MAX 1024
#define JOB_GROUPS_MAX 64
#define JOB_BLOCK_MIN 512u
#define JOB_BLOCK_MAX (8u << 20)

enum job_kind { JOB_READ, JOB_WRITE, JOB_MIXED };

struct job_size {
    uint32_t bytes;
    uint32_t percent;
};

/** One section: `count` tenants that do the same. */
struct job {
    char name[JOB_NAME_MAX];
    unsigned line; /* of [name] */
    uint32_t kind; /* enum job_kind */
    uint32_t random;
    uint32_t read_percent; /* of I/Os, when mixed */
    uint32_t sizes;        /* used of size[]; their percents make 100 */
    struct job_size size[JOB_SIZES_MAX];
    uint32_t depth;
    uint32_t count;
    uint32_t weight;
    uint32_t priority;
    uint32_t group;      /* of the switch; 0: none */
    uint64_t rate_bytes; /* what the tenant asks for at most, per second; 0: all it can get */
    uint64_t rate_ios;
    uint64_t cap_bytes; /* what the switch gives at most, per second; 0: no cap */
    uint64_t cap_ios;
    uint64_t floor_bytes; /* what the switch gives at least, per second; 0: no floor */
    uint64_t floor_ios;
    uint32_t bs[2];          /* reads, writes; 0: size[] was set itself  */
    uint32_t offset_percent; /* of the device, instead of offset; 0: none */
    uint32_t range_percent;  /* likewise, instead of range */
    uint64_t offset;
    uint64_t range;         /* bytes from offset; 0: to the end */
    uint64_t start_ns;      /* of the first tenant of the section, from the beginning */
    uint64_t stop_ns;       /* likewise; UINT64_MAX: the end */
    uint64_t run_ns;        /* after the start; 0: see stop_ns */
    uint64_t start_step_ns; /* each further tenant starts so much later */
    uint64_t stop_step_ns;
};

struct job_list {
    unsigned count;
    unsigned tenants;
    struct job jobs[JOB_SECTIONS_MAX];
};

/** Where a job file's reader reports, and has its variables from. Lines count from 1. */
struct job_source {
    void (*mistake)(void *ctx, unsigned line, const char *text);
    /** Something of fio that has no meaning here and is left out; may be NULL. */
    void (*ignored)(void *ctx, unsigned line, const char *text);
    /** The value of ${NAME}, or NULL: empty; may be NULL. */
    const char *(*variable)(void *ctx, const char *name);
    void *ctx;
};

/** @return 0, or the number of mistakes: then @p out is of no use */
unsigned job_parse(struct job_list *out, const char *text, size_t size,
                   const struct job_source *source);
/** Percents become bytes of a device of @p size bytes, in multiples of @p align. */
void job_place(struct job_list *jobs, uint64_t size, uint64_t align);

/** Is it an option of fio without a meaning for a tenant? */
int job_fio_key(const char *key);
/** @p in with its ${NAME} replaced. @return 0; -1 it does not fit */
int job_fio_expand(const struct job_source *s, const char *in, char *out, size_t size);

/** The largest and the smallest I/O of a job. */
uint32_t job_block_max(const struct job *j);
uint32_t job_block_min(const struct job *j);
/** When tenant @p i of the section starts and stops. */
uint64_t job_start_ns(const struct job *j, unsigned i);
uint64_t job_stop_ns(const struct job *j, unsigned i);

#endif
