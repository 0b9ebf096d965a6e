/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The job file of examples/tenants on hostile bytes: nothing is read beyond the end, every mistake
 * has a line that is there, and what is accepted keeps what job.h promises.
 */
#include <stdlib.h>
#include <string.h>

#include "job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct mistakes {
    unsigned count;
    unsigned lines; /* of the file */
};

static void need(int ok)
{
    if (!ok)
        abort();
}

static void mistake(void *ctx, unsigned line, const char *text)
{
    struct mistakes *t = ctx;

    need(line <= t->lines && strlen(text) > 0 && memchr(text, '\n', strlen(text)) == NULL);
    t->count++;
}

static void ignored(void *ctx, unsigned line, const char *text)
{
    const struct mistakes *t = ctx;

    need(line <= t->lines && strlen(text) > 0 && memchr(text, '\n', strlen(text)) == NULL);
}

/* A name gives itself, so that lines also become longer than they were. */
static const char *variable(void *ctx, const char *name)
{
    (void)ctx;
    return strlen(name) > 2 ? "0123456789abcdef0123456789abcdef" : name;
}

static void look(const struct job *j)
{
    uint32_t percent = 0;

    need(strlen(j->name) > 0 && strlen(j->name) < JOB_NAME_MAX);
    need(j->kind <= JOB_MIXED && j->random <= 1 && j->read_percent <= 100);
    need(j->sizes >= 1 && j->sizes <= JOB_SIZES_MAX);
    for (uint32_t i = 0; i < j->sizes; i++)
        percent += j->size[i].percent;
    need(percent == 100);
    need(job_block_min(j) >= JOB_BLOCK_MIN && job_block_max(j) <= JOB_BLOCK_MAX);
    need(job_block_min(j) % JOB_BLOCK_MIN == 0 && job_block_min(j) <= job_block_max(j));
    need(j->depth >= 1 && j->depth <= JOB_DEPTH_MAX);
    need(j->count >= 1 && j->count <= JOB_TENANTS_MAX);
    need(j->weight >= 1 && j->weight <= 256 && j->priority <= 7);
    need(j->range == 0 || j->range >= job_block_max(j));
    need(j->range_percent <= 100 && j->offset_percent < 100);
    need(j->offset + j->range >= j->offset);
    need(job_start_ns(j, 0) < job_stop_ns(j, 0));
    need(job_start_ns(j, j->count - 1) < job_stop_ns(j, j->count - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct job_list list;
    struct mistakes seen = {0, 1};
    char *copy = malloc(size + 1); /* one byte more, so that an empty file has an address */
    unsigned r;
    unsigned tenants = 0;

    if (size > 20000 || copy == NULL) {
        free(copy);
        return 0;
    }
    memcpy(copy, data, size);
    copy = realloc(copy, size > 0 ? size : 1);
    for (size_t i = 0; i < size; i++)
        seen.lines += data[i] == '\n';
    const struct job_source source = {mistake, ignored, variable, &seen};
    r = job_parse(&list, copy, size, &source);
    need(r == seen.count);
    if (r == 0) {
        need(list.count >= 1 && list.count <= JOB_SECTIONS_MAX);
        for (unsigned i = 0; i < list.count; i++) {
            look(&list.jobs[i]);
            tenants += list.jobs[i].count;
        }
        need(tenants == list.tenants && tenants <= JOB_TENANTS_MAX);
        job_place(&list, (size + 1) << 16, 4096);
        for (unsigned i = 0; i < list.count; i++)
            look(&list.jobs[i]);
    }
    free(copy);
    return 0;
}
