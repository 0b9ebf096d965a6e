/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Runs that are kept, and rows. */
#include "figures.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROWS_RUNS 512

static struct {
    const struct minos_param *p;
    uint32_t requests;
    uint32_t missed; /* what was printed last was */
    uint64_t seed;
    uint32_t count;
    struct minos_spec specs[ROWS_RUNS];
    struct minos_result results[ROWS_RUNS];
    char last[128];
} rows;

void fig_begin(const struct minos_param *p, uint32_t requests, uint64_t seed)
{
    rows.p = p;
    rows.requests = requests;
    rows.seed = seed;
    rows.count = 0;
}

uint32_t fig_requests(void)
{
    return rows.requests;
}

struct minos_spec fig_spec(uint32_t design)
{
    struct minos_spec s;
    memset(&s, 0, sizeof(s));
    s.design = design;
    s.model = SNIC_DDP_SYNCH;
    s.nodes = 5;
    s.writes = 50;
    s.requests = rows.requests;
    s.seed = rows.seed;
    return s;
}

struct minos_result fig_run(const struct minos_spec *s)
{
    uint32_t i = 0;
    while (i < rows.count && memcmp(&rows.specs[i], s, sizeof(*s)) != 0)
        i++;
    if (i == ROWS_RUNS)
        minos_die("too many scenarios");
    if (i == rows.count) {
        rows.count++;
        rows.specs[i] = *s;
        minos_run(rows.p, s, &rows.results[i]);
    }
    return rows.results[i];
}

static void rows_name(const char *format, va_list args)
{
    char name[96];
    vsnprintf(name, sizeof(name), format, args);
    snprintf(rows.last, sizeof(rows.last), "%s#%08x", name, rows.p->hash);
    rows.missed = 0;
}

void fig_row(double v, const char *unit, const char *name, ...)
{
    va_list args;
    va_start(args, name);
    rows_name(name, args);
    va_end(args);
    printf("row minos %s ours - %.4g %s\n", rows.last, v, unit);
}

void fig_paper(double ours, double paper, double low, double high, const char *unit,
               const char *name, ...)
{
    va_list args;
    va_start(args, name);
    rows_name(name, args);
    va_end(args);
    printf("row minos %s ours - %.4g %s\n", rows.last, ours, unit);
    printf("row minos %s paper - %.4g %s\n", rows.last, paper, unit);
    if (!(low < high))
        return;
    printf("row minos goal:%s low - %.4g %s\n", rows.last, low, unit);
    printf("row minos goal:%s high - %.4g %s\n", rows.last, high, unit);
    rows.missed = ours < low || ours > high;
    if (!rows.missed)
        printf("row minos goal:%s met - 1 yes\n", rows.last);
    else
        printf("row minos goal:%s missed_by - %.4g %s\n", rows.last,
               ours < low ? low - ours : ours - high, unit);
}

void fig_claim(int holds, const char *name, ...)
{
    va_list args;
    va_start(args, name);
    rows_name(name, args);
    va_end(args);
    rows.missed = !holds;
    printf("row minos %s ours - %d yes\n", rows.last, holds);
    printf("row minos %s paper - 1 yes\n", rows.last);
}

void fig_because(const char *reason)
{
    if (rows.missed)
        printf("miss minos %s: %s\n", rows.last, reason);
}

void fig_cell(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out, size, format, args);
    va_end(args);
}

void fig_add(struct fig_mean *m, double b, double o)
{
    m->ratios += b / o;
    m->b += b;
    m->o += o;
    m->count++;
}
