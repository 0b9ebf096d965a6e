/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands about the connection and the server. */
#include "engine_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    uint32_t n;

    if (kv_database_number(c, &c->argv[1], &n) == 0) {
        c->client->user = (c->client->user & ~KV_WORD_DATABASE) | n;
        c->flags |= KV_REPLY_USER;
        kv_put_text(c->engine, "+OK\r\n");
    }
    return KV_DONE;
}

/* ---- INFO ---- */

#define SERVER_TEXT (64u << 10)  /* what does not grow with databases and tenants */
#define SERVER_DATABASE_TEXT 96u /* a line of one ...                             */
#define SERVER_TENANT_TEXT 1024u /* ... and of the other                          */

struct server_text {
    char *data;
    size_t size;
    size_t room;
};

static void server_line(struct server_text *t, const char *format, ...) SNIC_PRINTF(2, 3);
static void server_line(struct server_text *t, const char *format, ...)
{
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(t->data + t->size, t->room - t->size, format, ap);
    va_end(ap);
    if (n > 0)
        t->size = snic_min_u64(t->size + (size_t)n, t->room - 1);
}

/* Is @p section asked for? All of them are when none is named. */
static int server_wants(const struct kv_command *c, const char *section)
{
    if (c->argc == 1)
        return 1;
    for (uint32_t i = 1; i < c->argc; i++)
        if (resp_arg_is(&c->argv[i], section) || resp_arg_is(&c->argv[i], "all") ||
            resp_arg_is(&c->argv[i], "default") || resp_arg_is(&c->argv[i], "everything"))
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
                    RESP_REDIS_VERSION, SNIC_VERSION_MAJOR, SNIC_VERSION_MINOR, SNIC_VERSION_PATCH,
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

/* There are no replicas: Redis' fields of a lone master. */
static void server_info_replication(const struct kv_command *c, struct server_text *t)
{
    unsigned char id[32];

    if (!server_wants(c, "replication"))
        return;
    kv_key_hash(id, c->engine->opts.hash_seed, 0, "replication", 11);
    kv_key_hash(id + 16, c->engine->opts.hash_seed, 1, "replication", 11);
    server_line(t, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
                   "master_failover_state:no-failover\r\nmaster_replid:");
    for (uint32_t i = 0; i < 20; i++)
        server_line(t, "%02x", id[i]);
    server_line(t,
                "\r\nmaster_replid2:%040d\r\nmaster_repl_offset:0\r\n"
                "second_repl_offset:-1\r\nrepl_backlog_active:0\r\nrepl_backlog_size:1048576"
                "\r\nrepl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n\r\n",
                0);
}

enum kv_outcome kv_cmd_role(struct kv_command *c)
{
    kv_put_text(c->engine, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    return KV_DONE;
}

/* A section that is there only with a storage switch. */
static void server_info_section(const struct kv_command *c, const char *section, const char *title,
                                struct server_text *t)
{
    const struct kv_engine_opts *o = &c->engine->opts;

    if (!server_wants(c, section) || o->section == NULL || o->tenants == NULL || !o->tenants->on)
        return;
    server_line(t, "%s", title);
    t->size += o->section(o->ctx, section, t->data + t->size, t->room - t->size - 1);
    server_line(t, "\r\n");
}

enum kv_outcome kv_cmd_info(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_engine_stats s;
    struct server_text t = {.room = SERVER_TEXT + e->opts.databases * SERVER_DATABASE_TEXT};

    if (e->opts.tenants != NULL && e->opts.tenants->on)
        t.room += (size_t)kv_tenants_count(e->opts.tenants) * SERVER_TENANT_TEXT;
    t.data = malloc(t.room);
    if (t.data == NULL) {
        kv_put_store_error(e, SNIC_ENOMEM);
        return KV_DONE;
    }
    kv_engine_get_stats(e, &s);
    server_info_state(c, &s, &t);
    server_info_replication(c, &t);
    if (server_wants(c, "snicstore") && e->opts.info != NULL) {
        server_line(&t, "# Snicstore\r\n");
        t.size += e->opts.info(e->opts.ctx, t.data + t.size, t.room - t.size - 1);
        server_line(&t, "\r\n");
    }
    server_info_section(c, "tenants", "# Tenants\r\n", &t);
    server_info_section(c, "device", "# Device\r\n", &t);
    if (server_wants(c, "keyspace")) {
        kv_depends(c, kv_store_tail(e->store)); /* R9 */
        server_line(&t, "# Keyspace\r\n");
        for (uint32_t d = 0; d < e->opts.databases; d++)
            if (kv_store_count(e->store, d) > 0)
                server_line(&t, "db%u:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n", d,
                            kv_store_count(e->store, d), kv_store_expires(e->store, d));
    }
    kv_put_verbatim(e, t.data, t.size);
    free(t.data);
    return KV_DONE;
}

enum kv_outcome kv_cmd_shutdown(struct kv_command *c)
{
    int nosave = 0;

    for (uint32_t i = 1; i < c->argc; i++) {
        if (resp_arg_is(&c->argv[i], "nosave")) {
            nosave = 1;
        } else if (!resp_arg_is(&c->argv[i], "save") && !resp_arg_is(&c->argv[i], "now") &&
                   !resp_arg_is(&c->argv[i], "force")) {
            kv_put_error(c->engine, "ERR syntax error");
            return KV_DONE;
        }
    }
    c->flags |= KV_REPLY_CLOSE; /* the end of the connection is the answer */
    if (c->engine->opts.shutdown != NULL)
        c->engine->opts.shutdown(c->engine->opts.ctx, nosave);
    return KV_DONE;
}
