/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The job file's language, which is fio's as far as it describes tenants: lines of "[name]" and
 * "key = value", comments after '#' or ';' at the start of a line or after white space. [global]
 * sets the defaults of the sections after it. A mistake never ends the parsing: all of them are
 * reported, each with its line, and so are keys that are ignored because they have no meaning here.
 */
#include "job.h"

#include "job_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PARSE_LINE_MAX 512

/* ---- Keys ---- */

enum parse_kind { PARSE_NUMBER, PARSE_BYTES, PARSE_TIME, PARSE_RW, PARSE_SPLIT };

struct parse_key {
    const char *name;
    enum parse_kind kind;
    size_t at; /* of the field in struct job */
    int wide;  /* the field is a uint64_t */
    uint64_t min;
    uint64_t max;
};

#define PARSE_32(n, k, field, lo, hi)                                                              \
    {                                                                                              \
        n, k, offsetof(struct job, field), 0, lo, hi                                               \
    }
#define PARSE_64(n, k, field, lo, hi)                                                              \
    {                                                                                              \
        n, k, offsetof(struct job, field), 1, lo, hi                                               \
    }
#define PARSE_RATE_MAX (UINT64_C(1) << 40)

enum { KEY_RW, KEY_MIX, KEY_MIX_WRITE, KEY_BS, KEY_SPLIT, KEY_START, KEY_STOP, KEY_RUN };
static const struct parse_key parse_keys[] = {
    [KEY_RW] = PARSE_32("rw", PARSE_RW, kind, 0, 0),
    [KEY_MIX] = PARSE_32("rwmixread", PARSE_NUMBER, read_percent, 0, 100),
    [KEY_MIX_WRITE] = PARSE_32("rwmixwrite", PARSE_NUMBER, read_percent, 0, 100),
    [KEY_BS] = PARSE_32("bs", PARSE_BYTES, size[0].bytes, JOB_BLOCK_MIN, JOB_BLOCK_MAX),
    [KEY_SPLIT] = PARSE_32("bssplit", PARSE_SPLIT, size[0].bytes, JOB_BLOCK_MIN, JOB_BLOCK_MAX),
    [KEY_START] = PARSE_64("start", PARSE_TIME, start_ns, 0, JOB_TEXT_TIME_MAX),
    [KEY_STOP] = PARSE_64("stop", PARSE_TIME, stop_ns, 1, JOB_TEXT_TIME_MAX),
    [KEY_RUN] = PARSE_64("runtime", PARSE_TIME, run_ns, 1, JOB_TEXT_TIME_MAX),
    PARSE_64("start_step", PARSE_TIME, start_step_ns, 0, JOB_TEXT_TIME_MAX),
    PARSE_64("stop_step", PARSE_TIME, stop_step_ns, 0, JOB_TEXT_TIME_MAX),
    PARSE_32("iodepth", PARSE_NUMBER, depth, 1, JOB_DEPTH_MAX),
    PARSE_32("numjobs", PARSE_NUMBER, count, 1, JOB_TENANTS_MAX),
    PARSE_32("weight", PARSE_NUMBER, weight, 1, 256),
    PARSE_32("priority", PARSE_NUMBER, priority, 0, 7),
    PARSE_64("rate", PARSE_BYTES, rate_bytes, 1, PARSE_RATE_MAX),
    PARSE_64("rate_iops", PARSE_NUMBER, rate_ios, 1, PARSE_RATE_MAX),
    PARSE_64("cap_bytes", PARSE_BYTES, cap_bytes, 1, PARSE_RATE_MAX),
    PARSE_64("cap_iops", PARSE_NUMBER, cap_ios, 1, PARSE_RATE_MAX),
    PARSE_64("floor_bytes", PARSE_BYTES, floor_bytes, 1, PARSE_RATE_MAX),
    PARSE_64("floor_iops", PARSE_NUMBER, floor_ios, 1, PARSE_RATE_MAX),
    PARSE_32("group", PARSE_NUMBER, group, 1, JOB_GROUPS_MAX),
    PARSE_64("offset", PARSE_BYTES, offset, 0, UINT64_MAX >> 1),
    PARSE_64("size", PARSE_BYTES, range, 1, UINT64_MAX >> 1),
};
#define PARSE_KEYS (sizeof(parse_keys) / sizeof(parse_keys[0]))
/* What fio calls some of them. */
static const char *const parse_aliases[][2] = {
    {"startdelay", "start"}, {"blocksize", "bs"}, {"readwrite", "rw"}, {"timeout", "runtime"}};

struct parse {
    struct job_list *out;
    const struct job_source *source;
    unsigned line;
    unsigned errors;
    struct job defaults;
    struct job *job;                    /* of the section, or &defaults, or NULL: none yet */
    struct job spare;                   /* where a section goes that cannot be kept */
    uint32_t seen;                      /* keys of this section */
    unsigned seen_line[PARSE_KEYS + 1]; /* where */
};

static void parse_fail_at(struct parse *p, unsigned line, const char *format, va_list ap)
{
    char text[256];

    p->errors++;
    if (vsnprintf(text, sizeof(text), format, ap) > 0)
        p->source->mistake(p->source->ctx, line, text);
}

__attribute__((format(printf, 3, 4))) static void parse_ignored(struct parse *p, unsigned line,
                                                                const char *format, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, format);
    if (p->source->ignored != NULL && vsnprintf(text, sizeof(text), format, ap) > 0)
        p->source->ignored(p->source->ctx, line, text);
    va_end(ap);
}

__attribute__((format(printf, 2, 3))) static int parse_fail(struct parse *p, const char *format,
                                                            ...)
{
    va_list ap;

    va_start(ap, format);
    parse_fail_at(p, p->line, format, ap);
    va_end(ap);
    return -1;
}

__attribute__((format(printf, 3, 4))) static void parse_fail_line(struct parse *p, unsigned line,
                                                                  const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    parse_fail_at(p, line, format, ap);
    va_end(ap);
}

/* ---- Values ---- */

static int parse_rw(struct parse *p, const char *text)
{
    static const char *const names[] = {"read", "write", "rw", "readwrite"};
    size_t n = strcspn(text, ":");
    const char *kind = strncmp(text, "rand", 4) == 0 ? text + 4 : text;

    for (uint32_t i = 0; i < 4; i++)
        if (strlen(names[i]) == n - (size_t)(kind - text) &&
            strncmp(kind, names[i], strlen(names[i])) == 0 && (i < 3 || kind == text)) {
            p->job->random = kind != text;
            p->job->kind = i < 3 ? i : JOB_MIXED;
            if (text[n] != 0)
                parse_ignored(p, p->line, "rw: '%s' is ignored: offsets are random", text + n);
            return 0;
        }
    return parse_fail(p, "rw: '%s' is not one of read, write, rw, randread, randwrite, randrw",
                      text);
}

static int parse_block(struct parse *p, const char *key, uint64_t n)
{
    if (n < JOB_BLOCK_MIN || n > JOB_BLOCK_MAX || n % JOB_BLOCK_MIN != 0)
        return parse_fail(p, "%s: %llu is not a multiple of %u between %u and %u bytes", key,
                          (unsigned long long)n, JOB_BLOCK_MIN, JOB_BLOCK_MIN, JOB_BLOCK_MAX);
    return 0;
}

/* SIZE, or READS,WRITES[,TRIMS], of which one may be missing: the default, as in fio. */
static int parse_bs(struct parse *p, const char *text)
{
    uint64_t bs[3] = {4096, 4096, 4096};
    const char *at = text;
    int n = 0;

    for (; n < 3; n++, at++) {
        const char *end = *at == ',' || *at == 0 ? at : job_text_bytes(at, &bs[n]);

        if (end == NULL || (*end != ',' && *end != 0) || *text == 0)
            return parse_fail(p, "bs: '%s' is not a size (N, NK, NM), or READS,WRITES,TRIMS", text);
        if (end != at && parse_block(p, "bs", bs[n]) != 0)
            return -1;
        at = end;
        if (*at == 0)
            break;
    }
    if (*at != 0)
        return parse_fail(p, "bs: '%s' has more than three sizes", text);
    p->job->bs[0] = (uint32_t)bs[0];
    p->job->bs[1] = (uint32_t)(n == 0 ? bs[0] : bs[1]);
    p->job->sizes = 1;
    p->job->size[0].percent = 100;
    p->job->size[0].bytes = p->job->bs[0];
    return 0;
}

/* SIZE/PERCENT:SIZE/PERCENT... */
static int parse_split(struct parse *p, const char *text)
{
    struct job_size size[JOB_SIZES_MAX];
    const char *at = text;
    uint64_t sum = 0;
    uint32_t n = 0;

    for (;;) {
        uint64_t bytes;
        uint64_t percent;

        if (n == JOB_SIZES_MAX)
            return parse_fail(p, "bssplit: more than %d sizes", JOB_SIZES_MAX);
        at = job_text_bytes(at, &bytes);
        if (at == NULL || *at != '/' || (at = job_text_digits(at + 1, &percent)) == NULL ||
            (*at != ':' && *at != 0))
            return parse_fail(p, "bssplit: '%s' is not SIZE/PERCENT:SIZE/PERCENT...", text);
        if (parse_block(p, "bssplit", bytes) != 0)
            return -1;
        if (percent < 1 || percent > 100)
            return parse_fail(p, "bssplit: %llu percent is not between 1 and 100",
                              (unsigned long long)percent);
        size[n].bytes = (uint32_t)bytes;
        size[n++].percent = (uint32_t)percent;
        sum += percent;
        if (*at++ == 0)
            break;
    }
    if (sum != 100)
        return parse_fail(p, "bssplit: the percentages add up to %llu, not 100",
                          (unsigned long long)sum);
    memcpy(p->job->size, size, n * sizeof(size[0]));
    p->job->sizes = n;
    p->job->bs[0] = p->job->bs[1] = 0;
    return 0;
}

static void parse_put(struct job *j, const struct parse_key *k, uint64_t v)
{
    uint32_t narrow = (uint32_t)v;

    if (k->wide)
        memcpy((unsigned char *)j + k->at, &v, sizeof(v));
    else
        memcpy((unsigned char *)j + k->at, &narrow, sizeof(narrow));
}

/* N% of size and offset. @return 1 it was that */
static int parse_percent(struct parse *p, const struct parse_key *k, const char *text)
{
    uint64_t v;
    const char *end = job_text_digits(text, &v);

    if (end == NULL || strcmp(end, "%") != 0)
        return 0;
    if (k->at == offsetof(struct job, range) && v >= 1 && v <= 100)
        p->job->range_percent = (uint32_t)v;
    else if (k->at == offsetof(struct job, offset) && v <= 99)
        p->job->offset_percent = (uint32_t)v;
    else
        return 0;
    return 1;
}

/* @return 0 when the value was taken */
static int parse_value(struct parse *p, const struct parse_key *k, const char *text)
{
    static const char *const what[] = {"a number", "a size (N, NK, NM, NG, NT)",
                                       "a time (N, Nus, Nms, Ns, Nm, Nh)"};
    const char *end;
    uint64_t v = 0;

    if (*text == 0)
        return parse_fail(p, "%s: value is missing", k->name);
    if (k->kind == PARSE_RW)
        return parse_rw(p, text);
    if (k->kind == PARSE_SPLIT)
        return parse_split(p, text);
    if (k == &parse_keys[KEY_BS])
        return parse_bs(p, text);
    if (parse_percent(p, k, text))
        return 0;
    end = k->kind == PARSE_NUMBER  ? job_text_digits(text, &v)
          : k->kind == PARSE_BYTES ? job_text_bytes(text, &v)
                                   : job_text_time(text, &v);
    if (end == NULL || *end != 0)
        return parse_fail(p, "%s: '%s' is not %s", k->name, text, what[k->kind]);
    if (v < k->min || v > k->max) {
        return k->kind == PARSE_TIME
                   ? parse_fail(p, "%s: '%s' is not %s24 hours", k->name, text,
                                k->min == 0 ? "at most " : "more than 0, at most ")
                   : parse_fail(p, "%s: '%s' is not between %llu and %llu", k->name, text,
                                (unsigned long long)k->min, (unsigned long long)k->max);
    }
    parse_put(p->job, k, k == &parse_keys[KEY_MIX_WRITE] ? 100 - v : v);
    if (k->at == offsetof(struct job, range))
        p->job->range_percent = 0;
    else if (k->at == offsetof(struct job, offset))
        p->job->offset_percent = 0;
    return 0;
}

/* ---- Sections ---- */

static void parse_defaults(struct job *j)
{
    memset(j, 0, sizeof(*j));
    j->sizes = 1;
    j->size[0].bytes = 4096;
    j->size[0].percent = 100;
    j->read_percent = 50;
    j->depth = 1;
    j->count = 1;
    j->weight = 1;
    j->stop_ns = UINT64_MAX;
}

/* Does this section itself have the key? */
static int parse_mentions(const struct parse *p, unsigned key)
{
    return (p->seen >> key & 1) != 0;
}

/* Check the keys of the finished section together, and derive the job from them. */
static void parse_close(struct parse *p)
{
    struct job *j = p->job;

    if (j == NULL)
        return;
    if (parse_mentions(p, KEY_BS) && parse_mentions(p, KEY_SPLIT))
        parse_fail_line(p, p->seen_line[KEY_SPLIT], "bssplit and bs exclude each other");
    if (parse_mentions(p, KEY_RUN) && parse_mentions(p, KEY_STOP))
        parse_fail_line(p, p->seen_line[KEY_STOP], "stop and runtime exclude each other");
    else if (parse_mentions(p, KEY_STOP))
        j->run_ns = 0; /* stronger than [global]'s */
    else if (parse_mentions(p, KEY_RUN))
        j->stop_ns = UINT64_MAX;
    if (j == &p->defaults)
        return;
    for (unsigned k = KEY_MIX; k <= KEY_MIX_WRITE; k++)
        if (parse_mentions(p, k) && j->kind != JOB_MIXED)
            parse_ignored(p, p->seen_line[k], "%s is ignored: rw is neither rw nor randrw",
                          parse_keys[k].name);
    if (j->bs[0] != 0 && j->kind == JOB_WRITE)
        j->size[0].bytes = j->bs[1];
    if (j->kind == JOB_MIXED && j->bs[0] != j->bs[1])
        parse_fail_line(p, parse_mentions(p, KEY_BS) ? p->seen_line[KEY_BS] : j->line,
                        "bs: reads of %u and writes of %u bytes: a tenant that does both has one "
                        "size; make two sections of it, or use bssplit",
                        j->bs[0], j->bs[1]);
    if (j->run_ns == 0 && j->stop_ns <= j->start_ns)
        parse_fail_line(p, parse_mentions(p, KEY_STOP) ? p->seen_line[KEY_STOP] : j->line,
                        "[%s] stops before it starts", j->name);
    else if (job_stop_ns(j, j->count - 1) <= job_start_ns(j, j->count - 1))
        parse_fail_line(p, j->line, "[%s]: its last tenant stops before it starts", j->name);
    if (j->range != 0 && j->range < job_block_max(j))
        parse_fail_line(p, j->line, "[%s]: size is smaller than one I/O", j->name);
    if (j != &p->spare) {
        p->out->tenants += j->count;
        if (p->out->tenants > JOB_TENANTS_MAX && p->out->tenants - j->count <= JOB_TENANTS_MAX)
            parse_fail_line(p, j->line, "[%s]: more than %d tenants", j->name, JOB_TENANTS_MAX);
    }
}

/* What is printed in tables and metrics: letters, digits, '_' and '-'; the rest becomes '_'. */
static void parse_name(char *s)
{
    for (; *s != 0; s++)
        if (!((*s >= '0' && *s <= '9') ||
              (job_text_lower(*s) >= 'a' && job_text_lower(*s) <= 'z') || *s == '_' || *s == '-'))
            *s = '_';
}

static int parse_name_taken(const struct parse *p, const char *name)
{
    for (unsigned i = 0; i < p->out->count; i++)
        if (strcmp(p->out->jobs[i].name, name) == 0)
            return 1;
    return 0;
}

static void parse_global(struct parse *p)
{
    p->job = &p->defaults; /* of the sections that follow */
}

static void parse_section(struct parse *p, char *text)
{
    size_t n = strlen(text);

    parse_close(p);
    p->seen = 0;
    if (n >= 2 && text[n - 1] == ']') {
        text[n - 1] = 0;
        if (strcmp(text + 1, "global") == 0) {
            parse_global(p);
            return;
        }
    }
    p->job = &p->spare;
    *p->job = p->defaults;
    p->job->line = p->line;
    if (text[n - 1] != 0) {
        parse_fail(p, "'%s' is not [name]", text);
        return;
    }
    text++;
    n -= 2;
    if (n == 0 || n >= JOB_NAME_MAX) {
        parse_fail(p, "[%s]: a name must have 1 to %d bytes", text, JOB_NAME_MAX - 1);
        return;
    }
    parse_name(text);
    memcpy(p->job->name, text, n + 1);
    for (unsigned i = 2; parse_name_taken(p, p->job->name); i++) /* fio has several of a name */
        (void)snprintf(p->job->name, JOB_NAME_MAX, "%.*s-%u", JOB_NAME_MAX - 6, text, i);
    if (p->out->count == JOB_SECTIONS_MAX) {
        parse_fail(p, "[%s]: more than %d sections", text, JOB_SECTIONS_MAX);
        return;
    }
    p->out->jobs[p->out->count] = p->spare;
    p->job = &p->out->jobs[p->out->count++];
}

/* ---- Lines ---- */

static void parse_assign(struct parse *p, char *key, const char *value)
{
    size_t k = 0;

    for (size_t i = 0; i < sizeof(parse_aliases) / sizeof(parse_aliases[0]); i++)
        if (strcmp(key, parse_aliases[i][0]) == 0)
            memcpy(key, parse_aliases[i][1], strlen(parse_aliases[i][1]) + 1);
    while (k < PARSE_KEYS && strcmp(parse_keys[k].name, key) != 0)
        k++;
    if (k == PARSE_KEYS) {
        if (job_fio_key(key))
            parse_ignored(p, p->line, "%s is ignored: it has no effect here", key);
        else
            parse_fail(p, "unknown key '%s'", key);
        return;
    }
    if (p->job == NULL) {
        parse_fail(p, "%s: before the first [section]", key);
        return;
    }
    if (p->seen >> k & 1)
        parse_ignored(p, p->seen_line[k], "%s is ignored: line %u overrides it", key, p->line);
    p->seen |= UINT32_C(1) << k;
    p->seen_line[k] = p->line;
    (void)parse_value(p, &parse_keys[k], value);
}

static void parse_line(struct parse *p, const char *at, size_t n)
{
    char raw[PARSE_LINE_MAX];
    char copy[PARSE_LINE_MAX];
    char *text;
    char *equals;

    if (n >= sizeof(copy)) {
        parse_fail(p, "line is longer than %d bytes", PARSE_LINE_MAX - 1);
        return;
    }
    memcpy(raw, at, n);
    raw[n] = 0;
    if (memchr(raw, 0, n) == NULL && job_fio_expand(p->source, raw, copy, sizeof(copy)) != 0) {
        parse_fail(p, "line is longer than %d bytes after expansion of its variables",
                   PARSE_LINE_MAX - 1);
        return;
    }
    if (memchr(raw, 0, n) != NULL)
        memcpy(copy, raw, n + 1);
    else
        n = strlen(copy);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)copy[i] < 32 && copy[i] != '\t' && copy[i] != '\r') {
            parse_fail(p, "not a text file: the line has a zero byte");
            return;
        }
    text = job_text_trim(copy, copy + n);
    if (*text == 0 || *text == '#' || *text == ';')
        return;
    for (char *c = text + 1; *c != 0; c++)
        if ((*c == '#' || *c == ';') && (c[-1] == ' ' || c[-1] == '\t')) {
            text = job_text_trim(text, c);
            break;
        }
    if (*text == '[') {
        parse_section(p, text);
        return;
    }
    equals = strchr(text, '=');
    if (equals == NULL && job_fio_key(text)) { /* a flag */
        parse_ignored(p, p->line, "%s is ignored: it has no effect here", text);
        return;
    }
    if (strncmp(text, "include ", 8) == 0) {
        parse_fail(p, "include is not supported: copy the lines of that file into this one");
        return;
    }
    if (equals == NULL) {
        parse_fail(p, "'%s' is neither [name] nor key=value", text);
        return;
    }
    {
        char *value = job_text_trim(equals + 1, text + strlen(text));

        parse_assign(p, job_text_trim(text, equals), value);
    }
}

unsigned job_parse(struct job_list *out, const char *text, size_t size,
                   const struct job_source *source)
{
    struct parse p;
    size_t at = 0;

    memset(out, 0, sizeof(*out));
    memset(&p, 0, sizeof(p));
    p.out = out;
    p.source = source;
    parse_defaults(&p.defaults);
    while (at < size) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end != NULL ? (size_t)(end - text) - at : size - at;

        p.line++;
        parse_line(&p, text + at, n);
        at += n + 1;
    }
    parse_close(&p);
    if (out->count == 0 && p.errors == 0)
        parse_fail_line(&p, p.line, "no tenants: the file has no [section]");
    return p.errors;
}

/* ---- Of a job ---- */

void job_place(struct job_list *jobs, uint64_t size, uint64_t align)
{
    for (unsigned i = 0; i < jobs->count; i++) {
        struct job *j = &jobs->jobs[i];

        if (j->offset_percent != 0)
            j->offset = size / 100 * j->offset_percent / align * align;
        if (j->range_percent == 0)
            continue;
        j->range = size / 100 * j->range_percent / align * align;
        j->range = j->range < job_block_max(j) ? job_block_max(j) : j->range;
        if (j->range_percent == 100)
            j->range = 0; /* all that there is */
    }
}

uint32_t job_block_max(const struct job *j)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < j->sizes; i++)
        most = j->size[i].bytes > most ? j->size[i].bytes : most;
    return most;
}

uint32_t job_block_min(const struct job *j)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < j->sizes; i++)
        least = j->size[i].bytes < least ? j->size[i].bytes : least;
    return least;
}

uint64_t job_start_ns(const struct job *j, unsigned i)
{
    return j->start_ns + i * j->start_step_ns;
}

uint64_t job_stop_ns(const struct job *j, unsigned i)
{
    if (j->run_ns != 0)
        return job_start_ns(j, i) + j->run_ns;
    return j->stop_ns == UINT64_MAX ? UINT64_MAX : j->stop_ns + i * j->stop_step_ns;
}
