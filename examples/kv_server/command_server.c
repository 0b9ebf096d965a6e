/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands about the connection and the server. */
#include "engine_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What clients that check a version are told: whose semantics these are. */
#define KV_REDIS_VERSION "7.0.15"

enum kv_outcome kv_cmd_ping(struct kv_command *c)
{
    if (c->argc > 2)
        kv_put_error(c->engine, "ERR wrong number of arguments for 'ping' command");
    else if (c->argc == 2)
        kv_put_bulk(c->engine, c->argv[1].data, c->argv[1].size);
    else
        kv_put_text(c->engine, "+PONG\r\n");
    return KV_DONE;
}

enum kv_outcome kv_cmd_echo(struct kv_command *c)
{
    kv_put_bulk(c->engine, c->argv[1].data, c->argv[1].size);
    return KV_DONE;
}

enum kv_outcome kv_cmd_select(struct kv_command *c)
{
    int64_t n;

    if (resp_number(c->argv[1].data, c->argv[1].size, &n) != 0) {
        kv_put_error(c->engine, "ERR value is not an integer or out of range");
    } else if (n < 0 || n >= (int64_t)c->engine->opts.databases) {
        kv_put_error(c->engine, "ERR DB index is out of range");
    } else {
        c->client->user = (c->client->user & ~(uint64_t)0xffff) | (uint64_t)n;
        c->flags |= KV_REPLY_USER;
        kv_put_text(c->engine, "+OK\r\n");
    }
    return KV_DONE;
}

/* The DPU role learns of the connection's word with the reply. */
static void server_set_tenant(struct kv_command *c)
{
    uint64_t user = kv_tenant_named(c->engine->opts.tenants, c->client->user, c->client->name);

    if (user != c->client->user)
        c->flags |= KV_REPLY_USER;
    c->client->user = user;
}

/* A name may hold printable characters without blanks. 0, or the error is written. */
static int server_set_name(struct kv_command *c, const struct resp_arg *a)
{
    for (uint32_t i = 0; i < a->size; i++)
        if (a->data[i] < '!' || a->data[i] > '~') {
            kv_put_error(c->engine, "ERR Client names cannot contain spaces, newlines or special "
                                    "characters.");
            return -1;
        }
    if (a->size >= sizeof(c->client->name)) {
        kv_put_error(c->engine, "ERR Client names are limited to %zu bytes",
                     sizeof(c->client->name) - 1);
        return -1;
    }
    memcpy(c->client->name, a->data, a->size);
    c->client->name[a->size] = 0;
    server_set_tenant(c);
    return 0;
}

static int64_t server_client_id(const struct kv_command *c)
{
    return (int64_t)(c->client->id & INT64_MAX);
}

enum kv_outcome kv_cmd_hello(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    const struct resp_arg *name = NULL;
    int64_t version = 2;

    if (c->argc > 1 && resp_number(c->argv[1].data, c->argv[1].size, &version) != 0) {
        kv_put_error(e, "ERR Protocol version is not an integer or out of range");
        return KV_DONE;
    }
    if (version != 2) {
        kv_put_error(e, "NOPROTO unsupported protocol version");
        return KV_DONE;
    }
    for (uint32_t i = 2; i < c->argc; i++) {
        if (kv_arg_is(&c->argv[i], "setname") && i + 1 < c->argc) {
            name = &c->argv[++i];
        } else if (kv_arg_is(&c->argv[i], "auth") && i + 2 < c->argc) {
            kv_put_error(e, "ERR AUTH is not supported: there are no passwords");
            return KV_DONE;
        } else {
            kv_put_error(e, "ERR Syntax error in HELLO option '%.*s'",
                         c->argv[i].size < 128 ? (int)c->argv[i].size : 128,
                         (const char *)c->argv[i].data);
            return KV_DONE;
        }
    }
    if (name != NULL && server_set_name(c, name) != 0)
        return KV_DONE;
    kv_put_count(e, '*', 14);
    kv_put_bulk_text(e, "server");
    kv_put_bulk_text(e, "redis");
    kv_put_bulk_text(e, "version");
    kv_put_bulk_text(e, KV_REDIS_VERSION);
    kv_put_bulk_text(e, "proto");
    kv_put_integer(e, 2);
    kv_put_bulk_text(e, "id");
    kv_put_integer(e, server_client_id(c));
    kv_put_bulk_text(e, "mode");
    kv_put_bulk_text(e, "standalone");
    kv_put_bulk_text(e, "role");
    kv_put_bulk_text(e, "master");
    kv_put_bulk_text(e, "modules");
    kv_put_count(e, '*', 0);
    return KV_DONE;
}

/* ---- INFO ---- */

struct server_text {
    char data[65536];
    size_t size;
};

static void server_line(struct server_text *t, const char *format, ...) SNIC_PRINTF(2, 3);
static void server_line(struct server_text *t, const char *format, ...)
{
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(t->data + t->size, sizeof(t->data) - t->size, format, ap);
    va_end(ap);
    if (n > 0)
        t->size = snic_min_u64(t->size + (size_t)n, sizeof(t->data) - 1);
}

/* Is @p section asked for? All of them are when none is named. */
static int server_wants(const struct kv_command *c, const char *section)
{
    if (c->argc == 1)
        return 1;
    for (uint32_t i = 1; i < c->argc; i++)
        if (kv_arg_is(&c->argv[i], section) || kv_arg_is(&c->argv[i], "all") ||
            kv_arg_is(&c->argv[i], "default") || kv_arg_is(&c->argv[i], "everything"))
            return 1;
    return 0;
}

static void server_info_state(const struct kv_command *c, const struct kv_engine_stats *s,
                              struct server_text *t)
{
    static const char *const sync[] = {"none", "interval", "always"};
    uint64_t up = (snic_loop_now(c->engine->opts.loop) - c->engine->started_ns) / 1000000000u;

    if (server_wants(c, "server"))
        server_line(t,
                    "# Server\r\nredis_version:%s\r\nsnicstore_version:%d.%d.%d\r\n"
                    "redis_mode:standalone\r\nprocess_id:%d\r\nuptime_in_seconds:%" PRIu64
                    "\r\n\r\n",
                    KV_REDIS_VERSION, SNIC_VERSION_MAJOR, SNIC_VERSION_MINOR, SNIC_VERSION_PATCH,
                    (int)getpid(), up);
    if (server_wants(c, "clients"))
        server_line(t, "# Clients\r\nconnected_clients:%" PRIu64 "\r\n\r\n", s->clients);
    if (server_wants(c, "memory"))
        server_line(t, "# Memory\r\nused_memory:%" PRIu64 "\r\n\r\n", s->memory_used);
    if (server_wants(c, "persistence"))
        server_line(t,
                    "# Persistence\r\nloading:0\r\nsync:%s\r\nlog_segments:%" PRIu64
                    "\r\nlog_bytes:%" PRIu64 "\r\nlog_live_bytes:%" PRIu64 "\r\nlog_writes:%" PRIu64
                    "\r\nlog_write_bytes:%" PRIu64 "\r\nlog_compactions:%" PRIu64
                    "\r\nlog_compacted_bytes:%" PRIu64 "\r\nlog_write_status:%s\r\n\r\n",
                    sync[c->engine->opts.sync], s->segments, s->log_bytes, s->live_bytes,
                    s->flushes, s->flush_bytes, s->compactions, s->compacted_bytes,
                    s->read_only  ? "err"
                    : s->no_space ? "full"
                                  : "ok");
    if (server_wants(c, "stats"))
        server_line(t,
                    "# Stats\r\ntotal_connections_received:%" PRIu64
                    "\r\ntotal_commands_processed:%" PRIu64 "\r\nexpired_keys:%" PRIu64
                    "\r\nkeyspace_hits:%" PRIu64 "\r\nkeyspace_misses:%" PRIu64
                    "\r\ndevice_reads:%" PRIu64 "\r\ntotal_error_replies:%" PRIu64 "\r\n\r\n",
                    c->engine->connections, s->commands, s->expired, s->hits, s->misses,
                    s->device_reads, s->errors);
}

/* A section that is there only with a storage switch. */
static void server_info_section(const struct kv_command *c, const char *section, const char *title,
                                struct server_text *t)
{
    const struct kv_engine_opts *o = &c->engine->opts;

    if (!server_wants(c, section) || o->section == NULL || o->tenants == NULL || !o->tenants->on)
        return;
    server_line(t, "%s", title);
    t->size += o->section(o->ctx, section, t->data + t->size, sizeof(t->data) - t->size - 1);
    server_line(t, "\r\n");
}

enum kv_outcome kv_cmd_info(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_engine_stats s;
    struct server_text t;

    t.size = 0;
    kv_engine_get_stats(e, &s);
    server_info_state(c, &s, &t);
    if (server_wants(c, "snicstore") && e->opts.info != NULL) {
        server_line(&t, "# Snicstore\r\n");
        t.size += e->opts.info(e->opts.ctx, t.data + t.size, sizeof(t.data) - t.size - 1);
        server_line(&t, "\r\n");
    }
    server_info_section(c, "tenants", "# Tenants\r\n", &t);
    server_info_section(c, "device", "# Device\r\n", &t);
    if (server_wants(c, "keyspace")) {
        server_line(&t, "# Keyspace\r\n");
        for (uint32_t d = 0; d < e->opts.databases; d++)
            if (kv_store_count(e->store, d) > 0)
                server_line(&t, "db%u:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n", d,
                            kv_store_count(e->store, d), kv_store_expires(e->store, d));
    }
    kv_put_bulk(e, t.data, t.size);
    return KV_DONE;
}

/* ---- CONFIG, CLIENT ---- */

static void server_unknown_sub(struct kv_command *c)
{
    char upper[32];
    size_t n = strlen(c->spec->name);

    for (size_t i = 0; i <= n; i++) {
        char ch = c->spec->name[i];

        upper[i] = ch >= 'a' && ch <= 'z' ? (char)(ch - 32) : ch;
    }
    kv_put_error(c->engine, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                 c->argv[1].size < 128 ? (int)c->argv[1].size : 128, (const char *)c->argv[1].data,
                 upper);
}

static void server_wrong_sub_args(struct kv_command *c)
{
    char name[64];
    int n =
        snprintf(name, sizeof(name), "%s|%.*s", c->spec->name,
                 c->argv[1].size < 32 ? (int)c->argv[1].size : 32, (const char *)c->argv[1].data);

    for (int i = 0; i < n; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] + 32);
    kv_put_error(c->engine, "ERR wrong number of arguments for '%s' command", name);
}

enum kv_outcome kv_cmd_config(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    char databases[16];
    char memory[24];
    char bulk[16];
    const char *const pairs[][2] = {
        {"save", ""},
        {"appendonly", e->opts.sync == KV_SYNC_NONE ? "no" : "yes"},
        {"appendfsync", e->opts.sync == KV_SYNC_ALWAYS ? "always" : "everysec"},
        {"databases", databases},
        {"maxmemory", memory},
        {"maxmemory-policy", "noeviction"},
        {"proto-max-bulk-len", bulk},
        {"timeout", "0"},
    };
    int chosen[SNIC_COUNTOF(pairs)] = {0};
    int64_t count = 0;

    if (!kv_arg_is(&c->argv[1], "get")) {
        server_unknown_sub(c);
        return KV_DONE;
    }
    if (c->argc < 3) {
        server_wrong_sub_args(c);
        return KV_DONE;
    }
    snprintf(databases, sizeof(databases), "%u", e->opts.databases);
    snprintf(memory, sizeof(memory), "%" PRIu64, e->opts.memory_bytes);
    snprintf(bulk, sizeof(bulk), "%u", e->opts.value_max);
    for (uint32_t i = 2; i < c->argc; i++)
        for (size_t p = 0; p < SNIC_COUNTOF(pairs); p++)
            chosen[p] |= kv_glob(c->argv[i].data, c->argv[i].size,
                                 (const unsigned char *)pairs[p][0], strlen(pairs[p][0]));
    for (size_t p = 0; p < SNIC_COUNTOF(pairs); p++)
        count += chosen[p];
    kv_put_count(e, '*', count * 2);
    for (size_t p = 0; p < SNIC_COUNTOF(pairs); p++)
        if (chosen[p]) {
            kv_put_bulk_text(e, pairs[p][0]);
            kv_put_bulk_text(e, pairs[p][1]);
        }
    return KV_DONE;
}

enum kv_outcome kv_cmd_client(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    const struct resp_arg *sub = &c->argv[1];

    if (kv_arg_is(sub, "id")) {
        if (c->argc == 2)
            kv_put_integer(e, server_client_id(c));
        else
            server_wrong_sub_args(c);
    } else if (kv_arg_is(sub, "getname")) {
        if (c->argc != 2)
            server_wrong_sub_args(c);
        else if (c->client->name[0] == 0)
            kv_put_null(e);
        else
            kv_put_bulk_text(e, c->client->name);
    } else if (kv_arg_is(sub, "setname")) {
        if (c->argc != 3)
            server_wrong_sub_args(c);
        else if (server_set_name(c, &c->argv[2]) == 0)
            kv_put_text(e, "+OK\r\n");
    } else if (kv_arg_is(sub, "setinfo") && c->argc == 4) {
        kv_put_text(e, "+OK\r\n");
    } else {
        server_unknown_sub(c);
    }
    return KV_DONE;
}

enum kv_outcome kv_cmd_shutdown(struct kv_command *c)
{
    int nosave = 0;

    for (uint32_t i = 1; i < c->argc; i++) {
        if (kv_arg_is(&c->argv[i], "nosave")) {
            nosave = 1;
        } else if (!kv_arg_is(&c->argv[i], "save") && !kv_arg_is(&c->argv[i], "now") &&
                   !kv_arg_is(&c->argv[i], "force")) {
            kv_put_error(c->engine, "ERR syntax error");
            return KV_DONE;
        }
    }
    c->flags |= KV_REPLY_CLOSE; /* the end of the connection is the answer */
    if (c->engine->opts.shutdown != NULL)
        c->engine->opts.shutdown(c->engine->opts.ctx, nosave);
    return KV_DONE;
}

enum kv_outcome kv_cmd_quit(struct kv_command *c)
{
    c->flags |= KV_REPLY_CLOSE;
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}
