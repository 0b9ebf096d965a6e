/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the roles share: options and figures of the engine. */
#include "roles.h"

#include <string.h>

int kv_local(const struct kv_config *c)
{
    return strncmp(c->server.listen, "127.", 4) == 0 ||
           strncmp(c->server.listen, "[::1]", 5) == 0 ||
           strncmp(c->server.listen, "localhost:", 10) == 0 ||
           strncmp(c->server.listen, "unix:", 5) == 0;
}

/* The engine's log lines. */
static void kv_log_line(void *ctx, int level, const char *text)
{
    (void)ctx;
    ex_log((enum ex_level)level, "%s", text);
}

void kv_engine_options(struct kv_engine_opts *o, const struct kv_config *c)
{
    memset(o, 0, sizeof(*o));
    o->sync = c->sync;
    o->sync_interval_ms = (uint32_t)c->sync_ms;
    o->memory_bytes = c->memory;
    o->segment_bytes = c->segment;
    o->name = c->server.role == EX_ROLE_MONOLITH ? c->server.directory : c->server.file;
    o->databases = (uint32_t)c->databases;
    o->hash_seed[0] = c->hash_seed[0];
    o->hash_seed[1] = c->hash_seed[1];
    o->value_max = KV_VALUE_MAX;
    o->key_max = KV_KEY_MAX;
    o->log = kv_log_line;
    o->tenants = &c->tenants;
    o->settings = c->settings;
    o->conns_max = (uint32_t)c->server.conns_max;
    o->password_needed = c->settings.protected_mode && !kv_local(c);
}

size_t kv_engine_metrics(const struct kv_engine_stats *s, struct ex_metric *out)
{
    const struct ex_metric all[] = {
        {"keys", s->keys, 0},
        {"commands", s->commands, 1},
        {"gets", s->gets, 1},
        {"hits", s->hits, 1},
        {"misses", s->misses, 1},
        {"sets", s->sets, 1},
        {"device_reads", s->device_reads, 1},
        {"log_bytes", s->log_bytes, 0},
        {"log_live_bytes", s->live_bytes, 0},
        {"log_segments", s->segments, 0},
        {"log_writes", s->flushes, 1},
        {"log_write_bytes", s->flush_bytes, 1},
        {"compactions", s->compactions, 1},
        {"memory_bytes", s->memory_used, 0},
        {"expired", s->expired, 1},
        {"errors", s->errors, 1},
        {"read_only", s->read_only, 0},
        {"no_space", s->no_space, 0},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}
