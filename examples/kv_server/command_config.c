/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CONFIG GET, SET, RESETSTAT. */
#include "engine_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CONFIG_VALUE_MAX 1024
#define CONFIG_NAME_MAX 64 /* of what an error repeats; names of settings are shorter */

/* Settings that options fix when the server starts. @return the name, NULL past the end */
static const char *config_fixed(const struct kv_engine *e, size_t i, char *value, size_t max)
{
    static const char *const names[] = {
        "save",      "appendonly",       "appendfsync",        "databases", "maxclients",
        "maxmemory", "maxmemory-policy", "proto-max-bulk-len", "timeout"};

    if (i >= SNIC_COUNTOF(names))
        return NULL;
    switch (i) {
    case 1:
        snprintf(value, max, "%s", e->opts.sync == KV_SYNC_NONE ? "no" : "yes");
        break;
    case 2:
        snprintf(value, max, "%s", e->opts.sync == KV_SYNC_ALWAYS ? "always" : "everysec");
        break;
    case 3:
        snprintf(value, max, "%u", e->opts.databases);
        break;
    case 4:
        snprintf(value, max, "%u", e->opts.conns_max);
        break;
    case 5: /* the data's bound is the device's size, not this */
    case 8:
        snprintf(value, max, "0");
        break;
    case 6:
        snprintf(value, max, "noeviction");
        break;
    case 7:
        snprintf(value, max, "%u", e->opts.value_max);
        break;
    default:
        value[0] = 0;
        break;
    }
    return names[i];
}

/* Setting number @p i of all. */
static const char *config_at(const struct kv_engine *e, size_t i, char *value, size_t max)
{
    size_t fixed = 0;

    while (config_fixed(e, fixed, value, max) != NULL)
        fixed++;
    return i < fixed ? config_fixed(e, i, value, max)
                     : resp_settings_get(&e->settings, i - fixed, value, max);
}

/* Does an argument mean this setting? Names are compared without case. */
static int config_wanted(const struct kv_command *c, const char *name)
{
    char pattern[128];

    for (uint32_t i = 2; i < c->argc; i++) {
        uint32_t n = c->argv[i].size;

        if (n >= sizeof(pattern))
            continue;
        for (uint32_t k = 0; k < n; k++)
            pattern[k] = (char)(c->argv[i].data[k] >= 'A' && c->argv[i].data[k] <= 'Z'
                                    ? c->argv[i].data[k] + 32
                                    : c->argv[i].data[k]);
        if (resp_glob((const unsigned char *)pattern, n, (const unsigned char *)name, strlen(name)))
            return 1;
    }
    return 0;
}

static void config_get(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    char value[CONFIG_VALUE_MAX];
    const char *name;
    int64_t count = 0;

    for (size_t i = 0; (name = config_at(e, i, value, sizeof(value))) != NULL; i++)
        count += config_wanted(c, name);
    kv_put_map(c, count);
    for (size_t i = 0; (name = config_at(e, i, value, sizeof(value))) != NULL; i++)
        if (config_wanted(c, name)) {
            kv_put_bulk_text(e, name);
            kv_put_bulk_text(e, value);
        }
}

/* The name of argument @p i, which may be too long for any setting. */
static void config_name(const struct kv_command *c, uint32_t i, char *name, size_t max)
{
    const struct resp_arg *a = &c->argv[i];

    snprintf(name, max, "%.*s", a->size < max ? (int)a->size : (int)max - 1, (const char *)a->data);
}

/* Which setting is @p name? -1: none. *fixed: only an option sets it. */
static int config_find(const struct kv_engine *e, const char *name, int *fixed)
{
    char value[CONFIG_VALUE_MAX];
    size_t count = 0;
    const char *at;

    while (config_fixed(e, count, value, sizeof(value)) != NULL)
        count++;
    for (size_t i = 0; (at = config_at(e, i, value, sizeof(value))) != NULL; i++)
        if (strcasecmp(at, name) == 0) {
            *fixed = i < count;
            return (int)i;
        }
    return -1;
}

static void config_put_failed(struct kv_command *c, const char *name, const char *reason)
{
    kv_put_error(c->engine, "ERR CONFIG SET failed (possibly related to argument '%s') - %s", name,
                 reason);
}

/* All names, before any value: 0, or the error is written. */
static int config_check_names(struct kv_command *c)
{
    char name[CONFIG_NAME_MAX];
    char other[CONFIG_NAME_MAX];
    int fixed;

    for (uint32_t i = 2; i < c->argc; i += 2) {
        config_name(c, i, name, sizeof(name));
        if (config_find(c->engine, name, &fixed) < 0) {
            kv_put_error(c->engine,
                         "ERR Unknown option or number of arguments for CONFIG SET - '%s'", name);
            return -1;
        }
        if (fixed) {
            config_put_failed(c, name, "can't set immutable config");
            return -1;
        }
        for (uint32_t k = 2; k < i; k += 2) {
            config_name(c, k, other, sizeof(other));
            if (strcasecmp(name, other) == 0) {
                config_put_failed(c, name, "duplicate parameter");
                return -1;
            }
        }
    }
    return 0;
}

static void config_set(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct resp_settings next = e->settings;

    if (c->argc % 2 != 0) {
        kv_put_error(e, "ERR syntax error");
        return;
    }
    if (config_check_names(c) != 0)
        return;
    for (uint32_t i = 2; i < c->argc; i += 2) {
        const struct resp_arg *v = &c->argv[i + 1];
        char name[CONFIG_NAME_MAX];
        char value[CONFIG_VALUE_MAX];
        const char *wrong = "the value is too long or has a zero byte";
        int known;

        config_name(c, i, name, sizeof(name));
        if (v->size < sizeof(value) && memchr(v->data, 0, v->size) == NULL) {
            memcpy(value, v->data, v->size);
            value[v->size] = 0;
            wrong = resp_settings_set(&next, name, value, &known);
        }
        if (wrong != NULL) {
            config_put_failed(c, name, wrong);
            return;
        }
    }
    if (e->opts.password_needed && next.password[0] == 0) {
        config_put_failed(c, "requirepass",
                          "other machines can reach the server, and it was not started with "
                          "--protected-mode no: without a password everybody could read and write");
        return;
    }
    e->settings = next; /* all or none */
    if (e->opts.changed != NULL)
        e->opts.changed(e->opts.ctx, &e->settings);
    kv_put_text(e, "+OK\r\n");
}

enum kv_outcome kv_cmd_config(struct kv_command *c)
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

    if (kv_subcommand(c, "get")) {
        config_get(c);
    } else if (kv_subcommand(c, "set")) {
        config_set(c);
    } else if (kv_subcommand(c, "resetstat")) {
        kv_engine_reset_stats(c->engine);
        kv_put_text(c->engine, "+OK\r\n");
    } else if (kv_subcommand(c, "rewrite")) {
        kv_put_error(c->engine, "ERR The server is running without a config file");
    } else if (kv_subcommand(c, "help")) {
        kv_put_help(c->engine, help, SNIC_COUNTOF(help));
    }
    return KV_DONE;
}
