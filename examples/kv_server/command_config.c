/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CONFIG GET, SET, RESETSTAT. */
#include "engine_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CONFIG_VALUE_MAX 1024

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
                     : kv_settings_get(&e->settings, i - fixed, value, max);
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
        if (kv_glob((const unsigned char *)pattern, n, (const unsigned char *)name, strlen(name)))
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

/* Is @p name one that only an option sets? */
static int config_is_fixed(const struct kv_engine *e, const char *name)
{
    char value[CONFIG_VALUE_MAX];
    const char *at;

    for (size_t i = 0; (at = config_fixed(e, i, value, sizeof(value))) != NULL; i++)
        if (strcasecmp(at, name) == 0)
            return 1;
    return 0;
}

static void config_set(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_settings next = e->settings;

    if (c->argc % 2 != 0) {
        kv_put_error(e, "ERR wrong number of arguments for 'config|set' command");
        return;
    }
    for (uint32_t i = 2; i < c->argc; i += 2) {
        const struct resp_arg *n = &c->argv[i];
        const struct resp_arg *v = &c->argv[i + 1];
        char name[64];
        char value[CONFIG_VALUE_MAX];
        const char *wrong;
        int known = 0;

        snprintf(name, sizeof(name), "%.*s", n->size < 63 ? (int)n->size : 63,
                 (const char *)n->data);
        if (v->size >= sizeof(value) || memchr(v->data, 0, v->size) != NULL) {
            kv_put_error(e,
                         "ERR CONFIG SET failed (possibly related to argument '%s') - the "
                         "value is too long or has a zero byte",
                         name);
            return;
        }
        memcpy(value, v->data, v->size);
        value[v->size] = 0;
        wrong = kv_settings_set(&next, name, value, &known);
        if (!known && config_is_fixed(e, name))
            kv_put_error(e,
                         "ERR CONFIG SET failed (possibly related to argument '%s') - can't set "
                         "immutable config",
                         name);
        else if (!known)
            kv_put_error(e, "ERR Unknown option or number of arguments for CONFIG SET - '%s'",
                         name);
        else if (wrong != NULL)
            kv_put_error(e, "ERR CONFIG SET failed (possibly related to argument '%s') - %s", name,
                         wrong);
        if (!known || wrong != NULL)
            return;
    }
    if (e->opts.password_needed && next.password[0] == 0) {
        kv_put_error(e, "ERR CONFIG SET failed (possibly related to argument 'requirepass') - "
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
    int r;

    if ((r = kv_subcommand(c, "get", -3)) != 0) {
        if (r > 0)
            config_get(c);
    } else if ((r = kv_subcommand(c, "set", -4)) != 0) {
        if (r > 0)
            config_set(c);
    } else if ((r = kv_subcommand(c, "resetstat", 2)) != 0) {
        if (r > 0) {
            kv_engine_reset_stats(c->engine);
            kv_put_text(c->engine, "+OK\r\n");
        }
    } else if ((r = kv_subcommand(c, "rewrite", 2)) != 0) {
        if (r > 0)
            kv_put_error(c->engine, "ERR The server is running without a config file");
    } else {
        kv_put_wrong_subcommand(c);
    }
    return KV_DONE;
}
