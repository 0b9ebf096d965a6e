/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What CONFIG SET changes: texts and numbers. The texts of errors are Redis 7's. */
#include "settings.h"

#include "snicstore/base.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* maxmemory-clients by default: of the machine's memory, and at most */
#define SETTINGS_PERCENT_DEFAULT 25
#define SETTINGS_CLIENTS_DEFAULT ((uint64_t)1 << 30)
#define SETTINGS_QUERY_LEAST (1u << 20)
#define SETTINGS_SLOW_MAX 10000 /* commands that SLOWLOG keeps, of up to 6 KB each */

static const char *const settings_classes[] = {"normal", "slave", "pubsub"};
static const char *const settings_names[] = {"client-output-buffer-limit",
                                             "maxmemory-clients",
                                             "client-query-buffer-limit",
                                             "requirepass",
                                             "protected-mode",
                                             "slowlog-log-slower-than",
                                             "slowlog-max-len"};

void resp_settings_default(struct resp_settings *s)
{
    memset(s, 0, sizeof(*s));
    s->out[0] = (struct resp_out_limit){256u << 20, 64u << 20, 60};
    s->out[1] = (struct resp_out_limit){256u << 20, 64u << 20, 60};
    s->out[2] = (struct resp_out_limit){32u << 20, 8u << 20, 60};
    s->clients = -SETTINGS_PERCENT_DEFAULT;
    s->clients = (int64_t)snic_min_u64(resp_settings_clients(s), SETTINGS_CLIENTS_DEFAULT);
    s->query = 1u << 30;
    s->protected_mode = 1;
    s->slow_us = 10000;
    s->slow_max = 128;
}

uint64_t resp_settings_clients(const struct resp_settings *s)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);

    if (s->clients >= 0)
        return (uint64_t)s->clients;
    if (pages <= 0 || page <= 0)
        return (uint64_t)1 << 30;
    return (uint64_t)pages * (uint64_t)page / 100 * (uint64_t)-s->clients;
}

int resp_settings_bytes(const char *text, size_t size, uint64_t *out)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"", 1},        {"b", 1},         {"k", 1000},       {"kb", 1u << 10},
                 {"m", 1000000}, {"mb", 1u << 20}, {"g", 1000000000}, {"gb", 1u << 30}};
    uint64_t n = 0;
    size_t i = 0;

    for (; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        if (n > (UINT64_MAX - 9) / 10)
            return -1;
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    if (i == 0)
        return -1;
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++)
        if (strlen(units[u].unit) == size - i &&
            strncasecmp(text + i, units[u].unit, size - i) == 0) {
            if (n > (uint64_t)INT64_MAX / units[u].factor)
                return -1;
            *out = n * units[u].factor;
            return 0;
        }
    return -1;
}

/* One word of @p text from *at on. @return its size; 0: no more */
static size_t settings_word(const char *text, size_t *at)
{
    size_t n;

    *at += strspn(text + *at, " ");
    n = strcspn(text + *at, " ");
    return n;
}

/* Index of a class of clients, or -1. */
static int settings_class(const char *word, size_t size)
{
    if (size == 7 && strncasecmp(word, "replica", 7) == 0)
        return 1;
    for (int i = 0; i < RESP_OUT_CLASSES; i++)
        if (strlen(settings_classes[i]) == size &&
            strncasecmp(word, settings_classes[i], size) == 0)
            return i;
    return -1;
}

/* "normal HARD SOFT SECONDS", any number of times. */
static const char *settings_out(struct resp_settings *s, const char *value)
{
    struct resp_settings next = *s;
    size_t at = 0;
    size_t n = settings_word(value, &at);

    if (n == 0)
        return "Wrong number of arguments in buffer limit configuration.";
    for (; n > 0; n = settings_word(value, &at)) {
        int k = settings_class(value + at, n);
        uint64_t v[3];

        if (k < 0)
            return "Invalid client class specified in buffer limit configuration.";
        at += n;
        for (int i = 0; i < 3; i++) {
            n = settings_word(value, &at);
            if (n == 0)
                return "Wrong number of arguments in buffer limit configuration.";
            if (resp_settings_bytes(value + at, n, &v[i]) != 0)
                return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
            at += n;
        }
        next.out[k] = (struct resp_out_limit){v[0], v[1], v[2]};
    }
    *s = next;
    return NULL;
}

static const char *settings_clients(struct resp_settings *s, const char *value)
{
    size_t n = strlen(value);
    uint64_t v;
    int percent = n > 0 && value[n - 1] == '%';

    if (resp_settings_bytes(value, n - (size_t)percent, &v) != 0)
        return "argument must be a memory or percent value";
    if (percent && v > 100)
        return "argument must be a memory or percent value";
    s->clients = percent ? -(int64_t)v : (int64_t)v;
    return NULL;
}

/* A whole number: from -1 on, or 0 to SETTINGS_SLOW_MAX. */
static const char *settings_number(const char *value, int64_t least, int64_t *out)
{
    const char *digits = value + (value[0] == '-');
    char *end;
    long long v;

    errno = 0;
    v = strtoll(value, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end != 0 || errno != 0 ||
        (digits[0] == '0' && value[1] != 0))
        return "argument couldn't be parsed into an integer";
    if (v < least)
        return least < 0 ? "argument must be between -1 and 9223372036854775807 inclusive"
                         : "argument must be between 0 and 9223372036854775807 inclusive";
    if (least == 0 && v > SETTINGS_SLOW_MAX)
        return "this server keeps at most 10000";
    *out = v;
    return NULL;
}

const char *resp_settings_set(struct resp_settings *s, const char *name, const char *value,
                              int *known)
{
    uint64_t v;
    size_t i = 0;

    while (i < sizeof(settings_names) / sizeof(settings_names[0]) &&
           strcasecmp(name, settings_names[i]) != 0)
        i++;
    *known = 1;
    switch (i) {
    case 0:
        return settings_out(s, value);
    case 1:
        return settings_clients(s, value);
    case 2:
        if (resp_settings_bytes(value, strlen(value), &v) != 0)
            return "argument must be a memory value";
        if (v < SETTINGS_QUERY_LEAST)
            return "argument must be between 1048576 and 9223372036854775807 inclusive";
        s->query = v;
        return NULL;
    case 3:
        if (strlen(value) >= sizeof(s->password))
            return "Password must be shorter than 512 bytes";
        snprintf(s->password, sizeof(s->password), "%s", value);
        return NULL;
    case 4:
        if (strcasecmp(value, "yes") != 0 && strcasecmp(value, "no") != 0)
            return "argument must be 'yes' or 'no'";
        s->protected_mode = strcasecmp(value, "yes") == 0;
        return NULL;
    case 5:
        return settings_number(value, -1, &s->slow_us);
    case 6:
        return settings_number(value, 0, &s->slow_max);
    default:
        *known = 0;
        return NULL;
    }
}

const char *resp_settings_get(const struct resp_settings *s, size_t i, char *value, size_t max)
{
    size_t at = 0;

    if (i >= sizeof(settings_names) / sizeof(settings_names[0]))
        return NULL;
    switch (i) {
    case 0:
        for (size_t k = 0; k < RESP_OUT_CLASSES && at < max; k++)
            at += (size_t)snprintf(value + at, max - at, "%s%s %" PRIu64 " %" PRIu64 " %" PRIu64,
                                   k > 0 ? " " : "", settings_classes[k], s->out[k].hard,
                                   s->out[k].soft, s->out[k].soft_s);
        break;
    case 1:
        if (s->clients < 0)
            snprintf(value, max, "%" PRId64 "%%", -s->clients);
        else
            snprintf(value, max, "%" PRId64, s->clients);
        break;
    case 2:
        snprintf(value, max, "%" PRIu64, s->query);
        break;
    case 3:
        snprintf(value, max, "%s", s->password);
        break;
    case 4:
        snprintf(value, max, "%s", s->protected_mode ? "yes" : "no");
        break;
    default:
        snprintf(value, max, "%" PRId64, i == 5 ? s->slow_us : s->slow_max);
        break;
    }
    return settings_names[i];
}
