/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The command line of the example programs. */
#include "common.h"
#include "version.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EX_HELP_LEFT 30u /* columns before the text */
#define EX_HELP_MAX 100u

/* An option and its text, in lines of EX_HELP_MAX columns at most. */
static void ex_help_option(const char *left, const char *text)
{
    size_t at = (size_t)printf("  %-26s", left);

    if (at > EX_HELP_LEFT - 2) { /* it has a line of its own */
        printf("\n");
        at = 0;
    }
    while (*text != 0) {
        size_t n = strcspn(text, " ");

        if (at > EX_HELP_LEFT && at + 1 + n > EX_HELP_MAX) {
            printf("\n");
            at = 0;
        }
        at += (size_t)(at < EX_HELP_LEFT ? printf("%*s", (int)(EX_HELP_LEFT - at), "") : 0);
        at += (size_t)printf("%s%.*s", at > EX_HELP_LEFT ? " " : "", (int)n, text);
        text += n + strspn(text + n, " ");
    }
    printf("\n");
}

const char *ex_synopsis = "[OPTION]...";
int ex_exit_usage = 2;
int ex_exit_failure = 1;

static void ex_help(const char *program, const struct ex_option *o, size_t count,
                    const char *summary)
{
    printf("%s\n\nUsage: %s %s\n\n", summary, program, ex_synopsis);
    for (size_t i = 0; i < count; i++) {
        char left[64];

        if (o[i].kind == EX_RENAMED)
            continue;
        snprintf(left, sizeof(left), "%s%s%s%s", o[i].name[1] == 0 ? "-" : "--", o[i].name,
                 o[i].value != NULL ? " " : "", o[i].value != NULL ? o[i].value : "");
        ex_help_option(left, o[i].help);
    }
    ex_help_option("--help", "print this and exit");
    ex_help_option("--version", "print the version and exit");
    printf(
        "\nBYTES may have a unit: K, M, G or T (powers of 1024); SECONDS: s, m or h; US: us, ms or "
        "s.\n");
}

int ex_number(const char *text, int size, uint64_t *out)
{
    char *end = NULL;
    uint64_t v;
    unsigned shift = 0;

    if (text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    v = strtoull(text, &end, 10);
    if (errno != 0)
        v = UINT64_MAX;
    if (size && *end != 0) {
        static const char units[] = "KMGT";
        const char *u = strchr(units, *end & ~32);

        if (u == NULL || *u == 0)
            return -1;
        shift = 10 * (unsigned)(u - units + 1);
        end++;
        if (*end == 'i')
            end++;
        if (*end == 'B' || *end == 'b')
            end++;
    }
    if (*end != 0)
        return -1;
    *out = v << shift;
    return errno != 0 || v > UINT64_MAX >> shift ? -2 : 0;
}

/* The unit of a time in ns; 0: it is none. */
static uint64_t ex_unit(const struct ex_option *o)
{
    return o->kind != EX_NUMBER               ? 0
           : strcmp(o->value, "SECONDS") == 0 ? UINT64_C(1000000000)
           : strcmp(o->value, "US") == 0      ? 1000u
                                              : 0;
}

/* A whole number of @p unit, which may have a unit of its own. @return as ex_number() */
static int ex_time(const char *text, uint64_t unit, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"us", UINT64_C(1000)},
                 {"ms", UINT64_C(1000000)},
                 {"s", UINT64_C(1000000000)},
                 {"m", UINT64_C(60000000000)},
                 {"h", UINT64_C(3600000000000)}};
    size_t size = strspn(text, "0123456789");
    char digits[24];
    uint64_t v;
    int r;

    if (text[size] == 0)
        return ex_number(text, 0, out);
    for (size_t i = 0; i < SNIC_COUNTOF(units) && size < sizeof(digits); i++) {
        if (strcmp(text + size, units[i].name) != 0)
            continue;
        (void)snprintf(digits, sizeof(digits), "%.*s", (int)size, text);
        r = ex_number(digits, 0, &v);
        if (r != 0)
            return r;
        if (v > UINT64_MAX / units[i].ns)
            return -2;
        *out = v * units[i].ns / unit;
        return v * units[i].ns % unit == 0 ? 0 : -1;
    }
    return -1;
}

void ex_usage(const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, " (--help lists the options)\n");
    exit(ex_exit_usage);
}

void ex_address(const char *name, const char *text, struct snic_net_addr *out)
{
    if (snic_net_addr_parse(out, text) != 0)
        ex_usage("--%s: '%s' is not ADDRESS:PORT (IPv4, [IPv6] or localhost) or unix:PATH", name,
                 text);
}

/* A limit as a user writes it: bytes in the largest unit that divides them. */
static const char *ex_limit(enum ex_kind kind, uint64_t v, char *out, size_t size)
{
    static const char units[] = "\0KMGT";
    unsigned u = 0;

    while (kind == EX_SIZE && u < 4 && v != 0 && v % 1024 == 0) {
        v /= 1024;
        u++;
    }
    (void)snprintf(out, size, u != 0 ? "%" PRIu64 "%c" : "%" PRIu64, v, units[u]);
    return out;
}

static void ex_number_refused(const struct ex_option *o, const char *value, int parsed)
{
    char min[32], max[32], range[80];

    ex_limit(o->kind, o->min, min, sizeof(min));
    ex_limit(o->kind, o->max, max, sizeof(max));
    if (o->max >= INT64_MAX)
        (void)snprintf(range, sizeof(range), "at least %s", min);
    else
        (void)snprintf(range, sizeof(range), "between %s and %s", min, max);
    if (parsed)
        ex_usage("--%s: %s is not %s", o->name, value, range);
    ex_usage("--%s: '%s' is not a %s %s", o->name, value,
             o->kind == EX_SIZE    ? "size (N, NK, NM, NG or NT)"
             : ex_unit(o) == 0     ? "number"
             : ex_unit(o) == 1000u ? "time (N, Nus, Nms or Ns)"
                                   : "time (N, Ns, Nm or Nh)",
             range);
}

/* Edits (insertions, deletions, replacements) from one name to another, of 31 bytes at most. */
static size_t ex_distance(const char *a, size_t n, const char *b)
{
    size_t row[33], m = strlen(b);

    if (n > 31 || m > 31)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

            diagonal = row[j];
            row[j] = change < least ? change : least;
        }
    }
    return row[m];
}

static void ex_unknown(const char *text, size_t size, const struct ex_option *o, size_t count)
{
    const char *nearest = NULL;
    size_t best = size > 6 ? 3 : 2; /* without its dashes: a third of it at most */

    for (size_t i = 0; i < count; i++) {
        size_t d = ex_distance(text + 2, size - 2, o[i].name);

        if (d < best && o[i].kind != EX_RENAMED) {
            best = d;
            nearest = o[i].name;
        }
    }
    if (nearest != NULL)
        ex_usage("unknown option '%.*s': did you mean --%s?", (int)size, text, nearest);
    ex_usage("unknown option '%.*s'", (int)size, text);
}

static void ex_set(const struct ex_option *o, const char *value)
{
    uint64_t n;
    int r;

    switch (o->kind) {
    case EX_FLAG:
        *(int *)o->target = 1;
        break;
    case EX_TEXT:
        *(const char **)o->target = value;
        break;
    case EX_NUMBER:
    case EX_SIZE:
        r = ex_unit(o) != 0 ? ex_time(value, ex_unit(o), &n)
                            : ex_number(value, o->kind == EX_SIZE, &n);
        if (r != 0)
            ex_number_refused(o, value, r == -2);
        if (n < o->min || n > o->max)
            ex_number_refused(o, value, 1);
        *(uint64_t *)o->target = n;
        break;
    case EX_PARSE:
        if (o->parse(o->target, value) != 0)
            ex_usage("--%s: '%s' is not %s%s", o->name, value,
                     strchr(o->value, '|') != NULL ? "one of " : "", o->value);
        break;
    case EX_RENAMED: /* refused before */
        break;
    }
}

void ex_options(int argc, char **argv, const struct ex_option *o, size_t count, const char *summary)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *equals = strchr(name, '=');
        size_t size = equals != NULL ? (size_t)(equals - name) : strlen(name);
        const char *value = equals != NULL ? equals + 1 : NULL;
        size_t k = 0;

        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
            ex_help(program_invocation_short_name, o, count, summary);
            exit(0);
        }
        if (strcmp(name, "--version") == 0) {
            ex_version(program_invocation_short_name);
            exit(0);
        }
        if (size < 3 || strncmp(name, "--", 2) != 0)
            ex_usage("unexpected argument '%s': options begin with --", name);
        while (k < count &&
               (strlen(o[k].name) != size - 2 || memcmp(o[k].name, name + 2, size - 2) != 0))
            k++;
        if (k == count)
            ex_unknown(name, size, o, count);
        if (o[k].kind == EX_RENAMED)
            ex_usage("--%s was renamed: use --%s", o[k].name, o[k].value);
        if (o[k].kind == EX_FLAG && value != NULL)
            ex_usage("--%s takes no value", o[k].name);
        if (o[k].kind != EX_FLAG && value == NULL) {
            if (++i == argc)
                ex_usage("--%s needs a value", o[k].name);
            value = argv[i];
        }
        ex_set(&o[k], value);
    }
}
