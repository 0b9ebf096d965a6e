/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CONFIG GET, SET. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CONFIG_VALUE_MAX 1024
#define CONFIG_NAME_MAX 64 /* of what an error repeats; names of settings are shorter */

/* Setting number @p i of all. */
static const char *config_at(const struct resp_config *g, size_t i, char *value, size_t max)
{
    size_t fixed = 0;

    while (g->fixed(g->ctx, fixed, value, max) != NULL)
        fixed++;
    return i < fixed ? g->fixed(g->ctx, i, value, max)
                     : resp_settings_get(g->settings, i - fixed, value, max);
}

/* Does an argument mean this setting? Names are compared without case. */
static int config_wanted(const struct resp_config *g, const char *name)
{
    char pattern[128];

    for (uint32_t i = 2; i < g->argc; i++) {
        uint32_t n = g->argv[i].size;

        if (n >= sizeof(pattern))
            continue;
        for (uint32_t k = 0; k < n; k++)
            pattern[k] = (char)(g->argv[i].data[k] >= 'A' && g->argv[i].data[k] <= 'Z'
                                    ? g->argv[i].data[k] + 32
                                    : g->argv[i].data[k]);
        if (resp_glob((const unsigned char *)pattern, n, (const unsigned char *)name, strlen(name)))
            return 1;
    }
    return 0;
}

static void config_get(struct resp_config *g)
{
    char value[CONFIG_VALUE_MAX];
    const char *name;
    int64_t count = 0;

    for (size_t i = 0; (name = config_at(g, i, value, sizeof(value))) != NULL; i++)
        count += config_wanted(g, name);
    resp_put_map(g->reply, count);
    for (size_t i = 0; (name = config_at(g, i, value, sizeof(value))) != NULL; i++)
        if (config_wanted(g, name)) {
            resp_put_bulk(g->reply, name, strlen(name));
            resp_put_bulk(g->reply, value, strlen(value));
        }
}

/* The name of argument @p i, which may be too long for any setting. */
static void config_name(const struct resp_config *g, uint32_t i, char *name, size_t max)
{
    const struct resp_arg *a = &g->argv[i];

    snprintf(name, max, "%.*s", a->size < max ? (int)a->size : (int)max - 1, (const char *)a->data);
}

/* Which setting is @p name? -1: none. *fixed: only an option sets it. */
static int config_find(const struct resp_config *g, const char *name, int *fixed)
{
    char value[CONFIG_VALUE_MAX];
    size_t count = 0;
    const char *at;

    while (g->fixed(g->ctx, count, value, sizeof(value)) != NULL)
        count++;
    for (size_t i = 0; (at = config_at(g, i, value, sizeof(value))) != NULL; i++)
        if (strcasecmp(at, name) == 0) {
            *fixed = i < count;
            return (int)i;
        }
    return -1;
}

static void config_put_failed(struct resp_config *g, const char *name, const char *reason)
{
    resp_put_error(g->reply, "ERR CONFIG SET failed (possibly related to argument '%s') - %s", name,
                   reason);
}

/* All names, before any value: 0, or the error is written. */
static int config_check_names(struct resp_config *g)
{
    char name[CONFIG_NAME_MAX];
    char other[CONFIG_NAME_MAX];
    int fixed;

    for (uint32_t i = 2; i < g->argc; i += 2) {
        config_name(g, i, name, sizeof(name));
        if (config_find(g, name, &fixed) < 0) {
            resp_put_error(g->reply,
                           "ERR Unknown option or number of arguments for CONFIG SET - '%s'", name);
            return -1;
        }
        if (fixed) {
            config_put_failed(g, name, "can't set immutable config");
            return -1;
        }
        for (uint32_t k = 2; k < i; k += 2) {
            config_name(g, k, other, sizeof(other));
            if (strcasecmp(name, other) == 0) {
                config_put_failed(g, name, "duplicate parameter");
                return -1;
            }
        }
    }
    return 0;
}

static void config_set(struct resp_config *g)
{
    struct resp_settings next = *g->settings;

    if (g->argc % 2 != 0) {
        resp_put_error(g->reply, "ERR syntax error");
        return;
    }
    if (config_check_names(g) != 0)
        return;
    for (uint32_t i = 2; i < g->argc; i += 2) {
        const struct resp_arg *v = &g->argv[i + 1];
        char name[CONFIG_NAME_MAX];
        char value[CONFIG_VALUE_MAX];
        const char *wrong = "the value is too long or has a zero byte";
        int known;

        config_name(g, i, name, sizeof(name));
        if (v->size < sizeof(value) && memchr(v->data, 0, v->size) == NULL) {
            memcpy(value, v->data, v->size);
            value[v->size] = 0;
            wrong = resp_settings_set(&next, name, value, &known);
        }
        if (wrong != NULL) {
            config_put_failed(g, name, wrong);
            return;
        }
    }
    if (g->password_needed && next.password[0] == 0) {
        config_put_failed(g, "requirepass",
                          "other machines can reach the server, and it was not started with "
                          "--protected-mode no: without a password everybody could read and write");
        return;
    }
    *g->settings = next; /* all or none */
    g->changed = 1;
    resp_put_text(g->reply, "+OK\r\n");
}

int resp_config_run(struct resp_config *g)
{
    static const char *const help[] = {
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Settings whose names match, and their values.",
        "SET <name> <value> [<name> <value> ...]",
        "    Change settings while the server runs: all of these, or none.",
        "RESETSTAT",
        "    Set the counters of INFO to zero.",
        "REWRITE",
        "    An error: there is no configuration file.",
        "HELP",
        "    Print this help."};

    if (resp_arg_is(&g->argv[1], "get")) {
        config_get(g);
    } else if (resp_arg_is(&g->argv[1], "set")) {
        config_set(g);
    } else if (resp_arg_is(&g->argv[1], "rewrite")) {
        resp_put_error(g->reply, "ERR The server is running without a config file");
    } else if (resp_arg_is(&g->argv[1], "help")) {
        resp_put_help(g->reply, help, SNIC_COUNTOF(help));
    } else {
        return 0;
    }
    return 1;
}
