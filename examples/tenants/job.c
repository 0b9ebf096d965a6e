/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The job file's language: lines of "[name]" and "key = value", comments after '#' or ';' at the
 * start of a line. [global], which comes first, gives what the sections after it begin with. A
 * mistake never ends the parsing: all of them are told, each with its line.
 */
#include "job.h"

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
#define PARSE_TIME_MAX (UINT64_C(86400) * 1000000000)

enum { KEY_RW, KEY_MIX, KEY_BS, KEY_SPLIT, KEY_START, KEY_STOP, KEY_RUN };
static const struct parse_key parse_keys[] = {
    [KEY_RW] = PARSE_32("rw", PARSE_RW, kind, 0, 0),
    [KEY_MIX] = PARSE_32("rwmixread", PARSE_NUMBER, read_percent, 0, 100),
    [KEY_BS] = PARSE_32("bs", PARSE_BYTES, size[0].bytes, JOB_BLOCK_MIN, JOB_BLOCK_MAX),
    [KEY_SPLIT] = PARSE_32("bssplit", PARSE_SPLIT, size[0].bytes, JOB_BLOCK_MIN, JOB_BLOCK_MAX),
    [KEY_START] = PARSE_64("start", PARSE_TIME, start_ns, 0, PARSE_TIME_MAX),
    [KEY_STOP] = PARSE_64("stop", PARSE_TIME, stop_ns, 1, PARSE_TIME_MAX),
    [KEY_RUN] = PARSE_64("runtime", PARSE_TIME, run_ns, 1, PARSE_TIME_MAX),
    PARSE_64("start_step", PARSE_TIME, start_step_ns, 0, PARSE_TIME_MAX),
    PARSE_64("stop_step", PARSE_TIME, stop_step_ns, 0, PARSE_TIME_MAX),
    PARSE_32("iodepth", PARSE_NUMBER, depth, 1, JOB_DEPTH_MAX),
    PARSE_32("numjobs", PARSE_NUMBER, count, 1, JOB_TENANTS_MAX),
    PARSE_32("weight", PARSE_NUMBER, weight, 1, 256),
    PARSE_32("priority", PARSE_NUMBER, priority, 0, 7),
    PARSE_64("rate", PARSE_BYTES, rate_bytes, 1, PARSE_RATE_MAX),
    PARSE_64("rate_iops", PARSE_NUMBER, rate_ios, 1, PARSE_RATE_MAX),
    PARSE_64("cap_bytes", PARSE_BYTES, cap_bytes, 1, PARSE_RATE_MAX),
    PARSE_64("cap_iops", PARSE_NUMBER, cap_ios, 1, PARSE_RATE_MAX),
    PARSE_64("offset", PARSE_BYTES, offset, 0, UINT64_MAX >> 1),
    PARSE_64("size", PARSE_BYTES, range, 1, UINT64_MAX >> 1),
};
#define PARSE_KEYS (sizeof(parse_keys) / sizeof(parse_keys[0]))
/* What fio calls some of them. */
static const char *const parse_aliases[][2] = {
    {"startdelay", "start"}, {"blocksize", "bs"}, {"readwrite", "rw"}};

struct parse {
    struct job_list *out;
    job_error_fn fn;
    void *ctx;
    unsigned line;
    unsigned errors;
    struct job defaults;
    struct job *job;  /* of the section, or &defaults, or NULL: none yet */
    struct job spare; /* where a section goes that cannot be kept */
    int global_seen;
    uint32_t seen;                      /* keys of this section */
    unsigned seen_line[PARSE_KEYS + 1]; /* where */
};

static void parse_fail_at(struct parse *p, unsigned line, const char *format, va_list ap)
{
    char text[256];

    p->errors++;
    if (vsnprintf(text, sizeof(text), format, ap) > 0)
        p->fn(p->ctx, line, text);
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

/* Digits at @p text. @return behind them, or NULL: none, or too many */
static const char *parse_digits(const char *text, uint64_t *out)
{
    uint64_t v = 0;

    if (*text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        unsigned d = (unsigned)(*text - '0');

        if (v > (UINT64_MAX - d) / 10)
            return NULL;
        v = v * 10 + d;
    }
    *out = v;
    return text;
}

static char parse_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
}

/* N, or N with K, M, G, T (powers of 1024), perhaps followed by B or iB. @return behind it */
static const char *parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "kmgt";
    const char *end = parse_digits(text, out);
    const char *u;

    if (end == NULL || *end == 0)
        return end;
    u = strchr(units, parse_lower(*end));
    if (u == NULL)
        return end;
    if (*out > UINT64_MAX >> (10 * (u - units + 1)))
        return NULL;
    *out <<= 10 * (u - units + 1);
    end++;
    if (end[0] == 'i' && parse_lower(end[1]) == 'b')
        end++;
    return parse_lower(*end) == 'b' ? end + 1 : end;
}

/* N or N.N with us, ms, s (the default), m, h. @return behind it */
static const char *parse_time(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"us", 1000},
                 {"ms", 1000000},
                 {"s", 1000000000},
                 {"m", UINT64_C(60000000000)},
                 {"h", UINT64_C(3600000000000)}};
    uint64_t unit = 1000000000;
    uint64_t whole;
    uint64_t part = 0;
    uint64_t scale = 1;
    const char *end = parse_digits(text, &whole);

    if (end == NULL)
        return NULL;
    if (*end == '.') {
        const char *from = end + 1;

        end = parse_digits(from, &part);
        if (end == NULL || end - from > 6)
            return NULL;
        for (; from < end; from++)
            scale *= 10;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].name) == 0) {
            unit = units[i].ns;
            end += strlen(end);
        }
    if (whole > PARSE_TIME_MAX)
        whole = PARSE_TIME_MAX; /* an hour of it would overflow; it is out of range all the same */
    if (whole > UINT64_MAX / unit - 1)
        return NULL;
    *out = whole * unit + part * unit / scale; /* part < 10^6, unit < 2^42 */
    return end;
}

static int parse_rw(struct parse *p, const char *text)
{
    static const char *const names[] = {"read", "write", "rw"};

    p->job->random = strncmp(text, "rand", 4) == 0;
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(text + (p->job->random ? 4 : 0), names[i]) == 0) {
            p->job->kind = i;
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
        at = parse_bytes(at, &bytes);
        if (at == NULL || *at != '/' || (at = parse_digits(at + 1, &percent)) == NULL ||
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
        return parse_fail(p, "bssplit: the percents make %llu, not 100", (unsigned long long)sum);
    memcpy(p->job->size, size, n * sizeof(size[0]));
    p->job->sizes = n;
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

/* @return 0 when the value was taken */
static int parse_value(struct parse *p, const struct parse_key *k, const char *text)
{
    static const char *const what[] = {"a number", "a size (N, NK, NM, NG, NT)",
                                       "a time (N, Nus, Nms, Ns, Nm, Nh)"};
    const char *end;
    uint64_t v = 0;

    if (*text == 0)
        return parse_fail(p, "%s: no value", k->name);
    if (k->kind == PARSE_RW)
        return parse_rw(p, text);
    if (k->kind == PARSE_SPLIT)
        return parse_split(p, text);
    end = k->kind == PARSE_NUMBER  ? parse_digits(text, &v)
          : k->kind == PARSE_BYTES ? parse_bytes(text, &v)
                                   : parse_time(text, &v);
    if (end == NULL || *end != 0)
        return parse_fail(p, "%s: '%s' is not %s", k->name, text, what[k->kind]);
    if (k == &parse_keys[KEY_BS]) {
        if (parse_block(p, k->name, v) != 0)
            return -1;
        p->job->sizes = 1;
        p->job->size[0].percent = 100;
    } else if (v < k->min || v > k->max) {
        return k->kind == PARSE_TIME
                   ? parse_fail(p, "%s: '%s' is not %s24 hours", k->name, text,
                                k->min == 0 ? "at most " : "more than 0, at most ")
                   : parse_fail(p, "%s: '%s' is not between %llu and %llu", k->name, text,
                                (unsigned long long)k->min, (unsigned long long)k->max);
    }
    parse_put(p->job, k, v);
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

/* Did this section itself say so? */
static int parse_says(const struct parse *p, unsigned key)
{
    return (p->seen >> key & 1) != 0;
}

/* What the keys of the finished section say together. */
static void parse_close(struct parse *p)
{
    struct job *j = p->job;

    if (j == NULL)
        return;
    if (parse_says(p, KEY_BS) && parse_says(p, KEY_SPLIT))
        parse_fail_line(p, p->seen_line[KEY_SPLIT], "bssplit and bs exclude each other");
    if (parse_says(p, KEY_RUN) && parse_says(p, KEY_STOP))
        parse_fail_line(p, p->seen_line[KEY_STOP], "stop and runtime exclude each other");
    else if (parse_says(p, KEY_STOP))
        j->run_ns = 0; /* stronger than [global]'s */
    else if (parse_says(p, KEY_RUN))
        j->stop_ns = UINT64_MAX;
    if (j == &p->defaults)
        return;
    if (parse_says(p, KEY_MIX) && j->kind != JOB_MIXED)
        parse_fail_line(p, p->seen_line[KEY_MIX], "rwmixread needs rw=rw or rw=randrw");
    if (j->run_ns == 0 && j->stop_ns <= j->start_ns)
        parse_fail_line(p, parse_says(p, KEY_STOP) ? p->seen_line[KEY_STOP] : j->line,
                        "[%s] stops before it starts", j->name);
    else if (job_stop_ns(j, j->count - 1) <= job_start_ns(j, j->count - 1))
        parse_fail_line(p, j->line, "[%s]: its last tenant stops before it starts", j->name);
    if (j->range != 0 && j->range < job_block_max(j))
        parse_fail_line(p, j->line, "[%s]: size is smaller than an I/O", j->name);
    if (j != &p->spare) {
        p->out->tenants += j->count;
        if (p->out->tenants > JOB_TENANTS_MAX && p->out->tenants - j->count <= JOB_TENANTS_MAX)
            parse_fail_line(p, j->line, "[%s]: more than %d tenants", j->name, JOB_TENANTS_MAX);
    }
}

static int parse_name_ok(const char *s)
{
    for (; *s != 0; s++)
        if (!((*s >= '0' && *s <= '9') || (parse_lower(*s) >= 'a' && parse_lower(*s) <= 'z') ||
              *s == '_' || *s == '-'))
            return 0;
    return 1;
}

static void parse_global(struct parse *p)
{
    if (p->global_seen)
        parse_fail(p, "[global] is there already");
    else if (p->out->count > 0 || p->job == &p->spare)
        parse_fail(p, "[global] comes before the tenants");
    p->job = p->global_seen || p->out->count > 0 ? &p->spare : &p->defaults;
    if (p->job == &p->spare)
        *p->job = p->defaults; /* its keys are looked at, and forgotten */
    p->global_seen = 1;
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
    if (n == 0 || n >= JOB_NAME_MAX || !parse_name_ok(text)) {
        parse_fail(p, "[%s]: a name is 1 to %d letters, digits, '_' and '-'", text,
                   JOB_NAME_MAX - 1);
        return;
    }
    memcpy(p->job->name, text, n + 1);
    for (unsigned i = 0; i < p->out->count; i++)
        if (strcmp(p->out->jobs[i].name, text) == 0) {
            parse_fail(p, "[%s] is there already, in line %u", text, p->out->jobs[i].line);
            return;
        }
    if (p->out->count == JOB_SECTIONS_MAX) {
        parse_fail(p, "[%s]: more than %d sections", text, JOB_SECTIONS_MAX);
        return;
    }
    p->out->jobs[p->out->count] = p->spare;
    p->job = &p->out->jobs[p->out->count++];
}

/* ---- Lines ---- */

/* Cut white space at both ends of [text, end). */
static char *parse_trim(char *text, char *end)
{
    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *end = 0;
    return text;
}

static void parse_assign(struct parse *p, char *key, const char *value)
{
    size_t k = 0;

    for (size_t i = 0; i < sizeof(parse_aliases) / sizeof(parse_aliases[0]); i++)
        if (strcmp(key, parse_aliases[i][0]) == 0)
            memcpy(key, parse_aliases[i][1], strlen(parse_aliases[i][1]) + 1);
    while (k < PARSE_KEYS && strcmp(parse_keys[k].name, key) != 0)
        k++;
    if (k == PARSE_KEYS) {
        parse_fail(p, "unknown key '%s'", key);
        return;
    }
    if (p->job == NULL) {
        parse_fail(p, "%s: before the first [section]", key);
        return;
    }
    if (p->seen >> k & 1) {
        parse_fail(p, "%s: given already, in line %u", key, p->seen_line[k]);
        return;
    }
    p->seen |= UINT32_C(1) << k;
    p->seen_line[k] = p->line;
    (void)parse_value(p, &parse_keys[k], value);
}

static void parse_line(struct parse *p, const char *at, size_t n)
{
    char copy[PARSE_LINE_MAX];
    char *text;
    char *equals;

    if (n >= sizeof(copy)) {
        parse_fail(p, "longer than %d bytes", PARSE_LINE_MAX - 1);
        return;
    }
    memcpy(copy, at, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)copy[i] < 32 && copy[i] != '\t' && copy[i] != '\r') {
            parse_fail(p, "not a line of text");
            return;
        }
    text = parse_trim(copy, copy + n);
    if (*text == 0 || *text == '#' || *text == ';')
        return;
    if (*text == '[') {
        parse_section(p, text);
        return;
    }
    equals = strchr(text, '=');
    if (equals == NULL) {
        parse_fail(p, "'%s' is neither [name] nor key=value", text);
        return;
    }
    {
        char *value = parse_trim(equals + 1, text + strlen(text));

        parse_assign(p, parse_trim(text, equals), value);
    }
}

unsigned job_parse(struct job_list *out, const char *text, size_t size, job_error_fn fn, void *ctx)
{
    struct parse p;
    size_t at = 0;

    memset(out, 0, sizeof(*out));
    memset(&p, 0, sizeof(p));
    p.out = out;
    p.fn = fn;
    p.ctx = ctx;
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
        parse_fail_line(&p, p.line, "no tenants: there is no [section]");
    return p.errors;
}

/* ---- Of a job ---- */

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
