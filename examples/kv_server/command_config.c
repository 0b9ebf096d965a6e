/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CONFIG GET, SET, RESETSTAT. */
#include "../resp/config.h"
#include "engine_priv.h"

#include <stdio.h>

/* Settings that options fix when the server starts. @return the name, NULL past the end */
static const char *config_fixed(void *ctx, size_t i, char *value, size_t max)
{
    const struct kv_engine *e = ctx;
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

enum kv_outcome kv_cmd_config(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct resp_config g = {.reply = &e->reply,
                            .argv = c->argv,
                            .argc = c->argc,
                            .settings = &e->settings,
                            .fixed = config_fixed,
                            .ctx = e,
                            .password_needed = e->opts.password_needed};

    if (resp_config_run(&g)) {
        if (g.changed && e->opts.changed != NULL)
            e->opts.changed(e->opts.ctx, &e->settings);
    } else if (kv_subcommand(c, "resetstat")) {
        kv_engine_reset_stats(e);
        kv_put_text(e, "+OK\r\n");
    }
    return KV_DONE;
}
