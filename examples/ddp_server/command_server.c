/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on the server. Error texts are Redis 7's. */
#include "commands.h"

#include "../resp/config.h"
#include "../resp/docs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ds_cmd_ping(struct ds_call *k)
{
    if (k->argc > 2) {
        ds_error(k->reply, "ERR wrong number of arguments for 'ping' command");
    } else if (k->client->watches_count > 0 && !k->reply->resp3) {
        resp_put_text(k->reply, "*2\r\n$4\r\npong\r\n"); /* as a subscriber of RESP2 */
        resp_put_bulk(k->reply, k->argc == 2 ? k->argv[1].data : NULL,
                      k->argc == 2 ? k->argv[1].size : 0);
    } else if (k->argc == 2) {
        resp_put_bulk(k->reply, k->argv[1].data, k->argv[1].size);
    } else {
        resp_put_text(k->reply, "+PONG\r\n");
    }
}

void ds_cmd_echo(struct ds_call *k)
{
    resp_put_bulk(k->reply, k->argv[1].data, k->argv[1].size);
}

void ds_cmd_time(struct ds_call *k)
{
    char text[32];
    int64_t ms = ds_wall_ms();

    resp_put_count(k->reply, '*', 2);
    (void)snprintf(text, sizeof(text), "%" PRId64, ms / 1000);
    ds_put_text(k->reply, text);
    (void)snprintf(text, sizeof(text), "%" PRId64, ms % 1000 * 1000);
    ds_put_text(k->reply, text);
}

void ds_cmd_shutdown(struct ds_call *k)
{
    ds_node_drain(k->shard->node);
    k->flags |= EX_FRONT_CLOSE | DS_CALL_SILENT;
}

void ds_cmd_role(struct ds_call *k)
{
    resp_put_count(k->reply, '*', 3);
    ds_put_text(k->reply, "master");
    resp_put_count(k->reply, ':', 0);
    resp_put_count(k->reply, '*', 0);
}

/* ---- Sums over the shards ---- */

static void info_add_all(struct ds_node *n, struct ds_snapshot *sum, uint32_t *serving)
{
    *serving = 0;
    memset(sum, 0, sizeof(*sum));
    for (uint32_t i = 0; i < n->count; i++) {
        struct ds_snapshot s;

        ds_state_get(&n->shards[i], &s);
        *serving += s.replica.serves;
        sum->front.conns += s.front.conns;
        sum->front.refused += s.front.refused;
        for (uint32_t l = 0; l < EX_FRONT_LIMITS; l++)
            sum->front.limited[l] += s.front.limited[l];
        sum->commands += s.commands;
        sum->errors += s.errors;
        sum->query_limit += s.query_limit;
        sum->auth_failures += s.auth_failures;
        sum->turn_most = snic_max_u64(sum->turn_most, s.turn_most);
        sum->store.keys += s.store.keys;
        sum->store.expiring += s.store.expiring;
        sum->store.expired += s.store.expired;
        sum->replica.values_bytes += s.replica.values_bytes;
        sum->replica.ddp.counters.retransmits += s.replica.ddp.counters.retransmits;
        for (uint32_t p = 0; p < DS_NODES_MAX; p++) { /* of nodes that were added, too */
            sum->peers[0].sent += s.peers[p].sent;
            sum->peers[0].repeats += s.peers[p].repeats;
            sum->peers[0].lost += s.peers[p].lost;
        }
    }
}

/* What CONFIG RESETSTAT sets to 0: the counters that INFO shows. */
static void info_counters(struct ds_snapshot *s, uint64_t *out[DS_INFO_COUNTERS])
{
    uint64_t *all[DS_INFO_COUNTERS] = {&s->commands,
                                       &s->errors,
                                       &s->query_limit,
                                       &s->auth_failures,
                                       &s->front.refused,
                                       &s->store.expired,
                                       &s->replica.ddp.counters.retransmits,
                                       &s->peers[0].sent,
                                       &s->peers[0].repeats,
                                       &s->peers[0].lost,
                                       &s->front.limited[EX_FRONT_CONN],
                                       &s->front.limited[EX_FRONT_TOTAL]};

    memcpy(out, all, sizeof(all));
}

void ds_info_sum(struct ds_node *n, struct ds_snapshot *sum, uint32_t *serving)
{
    uint64_t *counters[DS_INFO_COUNTERS];

    info_add_all(n, sum, serving);
    info_counters(sum, counters);
    (void)pthread_mutex_lock(&n->lock);
    for (uint32_t i = 0; i < DS_INFO_COUNTERS; i++)
        *counters[i] -= snic_min_u64(*counters[i], n->counted[i]);
    (void)pthread_mutex_unlock(&n->lock);
}

/* CONFIG RESETSTAT: count from here on. Those of --metrics are never set back, and what others'
 * loops counted since their last publication still counts. */
static void info_reset(struct ds_shard *s)
{
    struct ds_node *n = s->node;
    struct ds_snapshot sum;
    uint64_t *counters[DS_INFO_COUNTERS];
    uint32_t serving;

    ds_state_publish(s);
    info_add_all(n, &sum, &serving);
    info_counters(&sum, counters);
    (void)pthread_mutex_lock(&n->lock);
    for (uint32_t i = 0; i < DS_INFO_COUNTERS; i++)
        n->counted[i] = *counters[i];
    (void)pthread_mutex_unlock(&n->lock);
}

/* ---- CONFIG ---- */

void ds_node_password(struct ds_node *n, char out[RESP_PASSWORD_MAX])
{
    (void)pthread_mutex_lock(&n->lock);
    memcpy(out, n->config->settings.password, RESP_PASSWORD_MAX);
    (void)pthread_mutex_unlock(&n->lock);
}

static const char *server_fixed(void *ctx, size_t i, char *value, size_t max)
{
    static const char *const names[] = {"save",
                                        "appendonly",
                                        "appendfsync",
                                        "databases",
                                        "maxclients",
                                        "maxmemory",
                                        "maxmemory-policy",
                                        "proto-max-bulk-len",
                                        "timeout",
                                        "latency-monitor-threshold",
                                        "latency-tracking"};
    const struct ds_config *c = ctx;

    if (i >= SNIC_COUNTOF(names))
        return NULL;
    value[0] = 0;
    if (i == 1 || i == 2)
        (void)snprintf(value, max, "%s", i == 1 ? "yes" : "always");
    else if (i == 3)
        (void)snprintf(value, max, "1");
    else if (i == 4)
        (void)snprintf(value, max, "%" PRIu64, c->server.conns_max);
    else if (i == 5)
        (void)snprintf(value, max, "0");
    else if (i == 6)
        (void)snprintf(value, max, "noeviction");
    else if (i == 7)
        (void)snprintf(value, max, "%" PRIu64, c->value_max);
    else if (i == 8)
        (void)snprintf(value, max, "%" PRIu64, c->server.timeout_s);
    else if (i > 8) /* neither is recorded: command_monitor.c */
        (void)snprintf(value, max, "%s", i == 9 ? "0" : "no");
    return names[i];
}

void ds_cmd_config(struct ds_call *k)
{
    struct ds_node *n = k->shard->node;
    struct resp_config g = {.reply = k->reply,
                            .argv = k->argv,
                            .argc = k->argc,
                            .settings = &n->config->settings,
                            .fixed = server_fixed,
                            .ctx = n->config,
                            .password_needed = n->config->exposed};
    int done;

    if ((resp_arg_is(&k->argv[1], "get") && k->argc < 3) ||
        (resp_arg_is(&k->argv[1], "set") && k->argc < 4)) {
        ds_error(k->reply, "ERR wrong number of arguments for 'config' command");
        return;
    }
    (void)pthread_mutex_lock(&n->lock);
    done = resp_config_run(&g);
    (void)pthread_mutex_unlock(&n->lock);
    for (uint32_t i = 0; g.changed && i < n->count; i++)
        ds_settings_changed(&n->shards[i]);
    if (done)
        return;
    if (k->argc == 2 && resp_arg_is(&k->argv[1], "resetstat")) {
        info_reset(k->shard);
        resp_put_text(k->reply, "+OK\r\n");
    } else
        ds_error(k->reply, "ERR unknown subcommand '%.*s'. Try CONFIG HELP.",
                 k->argv[1].size < 64 ? (int)k->argv[1].size : 64, (const char *)k->argv[1].data);
}

/* ---- COMMAND ---- */

static void server_describe(struct ds_call *k, const struct ds_command *m)
{
    struct resp_reply *r = k->reply;
    const char *p = m->flags;
    int64_t flags = p[0] != 0;
    int keys = m->kind == DS_KEY || m->kind == DS_EACH;

    for (const char *q = p; *q != 0; q++)
        flags += *q == ' ';
    resp_put_count(r, '*', 10);
    ds_put_text(r, m->name);
    resp_put_count(r, ':', m->arity);
    resp_put_set(r, flags);
    while (*p != 0) {
        size_t n = strcspn(p, " ");

        ds_format(r, "+%.*s\r\n", (int)n, p);
        p += n + (p[n] == ' ');
    }
    resp_put_count(r, ':', keys ? (int64_t)(m->key > 0 ? m->key : 1) : 0);
    resp_put_count(r, ':', m->kind == DS_EACH ? -1 : keys ? (int64_t)(m->key > 0 ? m->key : 1) : 0);
    resp_put_count(r, ':', keys);
    resp_put_set(r, 0); /* categories, tips, key specifications, subcommands: not described */
    resp_put_count(r, '*', 0);
    resp_put_count(r, '*', 0);
    resp_put_count(r, '*', 0);
}

/* Is it documented, and does it not refuse? */
static int server_has(void *ctx, const char *name, size_t size)
{
    struct resp_arg a = {(const unsigned char *)name, (uint32_t)size};
    const struct ds_command *m = ds_command_find(ctx, &a);

    return m != NULL && m->kind != DS_REFUSED;
}

void ds_cmd_command(struct ds_call *k)
{
    const struct ds_node *n = k->shard->node;
    const struct ds_command *all = n->commands;
    uint32_t count = n->commands_count;

    if (k->argc == 1 || (k->argc == 2 && resp_arg_is(&k->argv[1], "info"))) {
        resp_put_count(k->reply, '*', count);
        for (uint32_t i = 0; i < count; i++)
            server_describe(k, &all[i]);
    } else if (resp_arg_is(&k->argv[1], "info")) {
        resp_put_count(k->reply, '*', k->argc - 2);
        for (uint32_t i = 2; i < k->argc; i++) {
            const struct ds_command *m = ds_command_find(n, &k->argv[i]);

            if (m != NULL)
                server_describe(k, m);
            else
                resp_put_null_array(k->reply);
        }
    } else if (resp_arg_is(&k->argv[1], "count")) {
        resp_put_count(k->reply, ':', count);
    } else if (resp_arg_is(&k->argv[1], "list")) {
        resp_put_count(k->reply, '*', count);
        for (uint32_t i = 0; i < count; i++)
            ds_put_text(k->reply, all[i].name);
    } else if (resp_arg_is(&k->argv[1], "docs")) {
        struct resp_docs w = {k->argv, k->argc, server_has, k->shard->node};

        resp_docs_put(k->reply, &w);
    } else {
        ds_error(k->reply, "ERR unknown subcommand '%.*s'. Try COMMAND HELP.",
                 k->argv[1].size < 64 ? (int)k->argv[1].size : 64, (const char *)k->argv[1].data);
    }
}

/* ---- INFO ---- */

/* Between the nodes; repeats are the retransmissions that were not sent again, since the same
 * message was under way. */
static void info_messages(struct resp_reply *text, const struct ds_snapshot *s)
{
    ds_format(text,
              "node_messages_sent:%" PRIu64 "\r\nnode_messages_retransmitted:%" PRIu64
              "\r\nnode_messages_repeats:%" PRIu64 "\r\nnode_messages_lost:%" PRIu64 "\r\n",
              s->peers[0].sent, s->replica.ddp.counters.retransmits, s->peers[0].repeats,
              s->peers[0].lost);
}

static void info_server(struct ds_call *k)
{
    const struct ds_config *c = k->shard->node->config;
    uint64_t up = (snic_loop_now(k->shard->loop) - k->shard->node->started_ns) / 1000000000u;

    ds_format(k->reply,
              "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nprocess_id:%ld\r\n"
              "tcp_port:%s\r\nuptime_in_seconds:%" PRIu64 "\r\nsnicstore_node:%" PRIu64
              "\r\nsnicstore_shards:%u\r\n",
              RESP_REDIS_VERSION, (long)getpid(),
              strrchr(c->server.listen, ':') != NULL ? strrchr(c->server.listen, ':') + 1 : "0", up,
              c->node, k->shard->node->count);
}

static void info_cluster(struct ds_call *k)
{
    struct ds_node *n = k->shard->node;

    ds_format(k->reply, "# Cluster\r\ncluster_enabled:0\r\n");
    for (uint32_t i = 0; i < n->count; i++) {
        struct ds_snapshot s;

        ds_state_get(&n->shards[i], &s);
        ds_format(k->reply,
                  "shard%u:state=%s,epoch=%u,full=0x%x,learners=0x%x,min_full=%u,writable=%u,"
                  "log_segments=%u,log_free=%u,keys=%u\r\n",
                  i, ds_state_name(&s.replica, s.peers, n->config->node),
                  s.replica.member.view.epoch, s.replica.member.view.full,
                  s.replica.member.view.learners, s.replica.min_full, s.replica.writable,
                  s.replica.wal.segments, s.replica.wal.segments_free, s.store.keys);
    }
}

static int info_wants(const struct ds_call *k, const char *section)
{
    for (uint32_t i = 1; i < k->argc; i++)
        if (resp_arg_is(&k->argv[i], section) || resp_arg_is(&k->argv[i], "all") ||
            resp_arg_is(&k->argv[i], "everything") || resp_arg_is(&k->argv[i], "default"))
            return 1;
    return k->argc == 1;
}

void ds_cmd_info(struct ds_call *k)
{
    struct resp_reply text = {0};
    struct resp_reply *out = k->reply;
    struct ds_snapshot s;
    uint32_t serving;

    ds_info_sum(k->shard->node, &s, &serving);
    k->reply = &text;
    if (info_wants(k, "server"))
        info_server(k);
    if (info_wants(k, "clients"))
        ds_format(&text, "# Clients\r\nconnected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu64 "\r\n",
                  s.front.conns, k->shard->node->config->server.conns_max);
    if (info_wants(k, "memory"))
        ds_format(&text, "# Memory\r\nused_memory:%" PRIu64 "\r\nmaxmemory:0\r\n",
                  s.replica.values_bytes);
    if (info_wants(k, "persistence"))
        ds_format(&text, "# Persistence\r\nloading:%d\r\naof_enabled:1\r\n",
                  serving < k->shard->node->count);
    if (info_wants(k, "stats")) {
        ds_format(&text,
                  "# Stats\r\ntotal_commands_processed:%" PRIu64 "\r\nexpired_keys:%" PRIu64
                  "\r\nrejected_connections:%" PRIu64 "\r\ntotal_error_replies:%" PRIu64
                  "\r\nacl_access_denied_auth:%" PRIu64 "\r\noutput_limit_resets:%" PRIu64
                  "\r\nclients_memory_resets:%" PRIu64 "\r\nquery_limit_resets:%" PRIu64
                  "\r\nloop_bytes_max:%" PRIu64 "\r\n",
                  s.commands, s.store.expired, s.front.refused, s.errors, s.auth_failures,
                  s.front.limited[EX_FRONT_CONN], s.front.limited[EX_FRONT_TOTAL], s.query_limit,
                  s.turn_most);
        info_messages(&text, &s);
    }
    if (info_wants(k, "replication"))
        ds_format(&text, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
    if (info_wants(k, "cluster"))
        info_cluster(k);
    if (info_wants(k, "keyspace") && s.store.keys > 0)
        ds_format(&text, "# Keyspace\r\ndb0:keys=%u,expires=%u,avg_ttl=0\r\n", s.store.keys,
                  s.store.expiring);
    k->reply = out;
    resp_put_verbatim(out, text.data, text.size);
    out->failed |= text.failed;
    resp_reply_free(&text);
}

/* ---- CLUSTER STATE ---- */

static void cluster_pair(struct resp_reply *r, const char *name, uint64_t n)
{
    ds_put_text(r, name);
    resp_put_count(r, ':', (int64_t)n);
}

static void cluster_set(struct resp_reply *r, const char *name, uint32_t mask)
{
    int64_t count = 0;

    for (uint32_t i = 0; i < DS_NODES_MAX; i++)
        count += (mask >> i & 1) != 0;
    ds_put_text(r, name);
    resp_put_count(r, '*', count);
    for (uint32_t i = 0; i < DS_NODES_MAX; i++)
        if ((mask >> i & 1) != 0)
            resp_put_count(r, ':', i);
}

static void cluster_peer(struct resp_reply *r, uint32_t node,
                         const struct snic_replica_peer_stats *p)
{
    static const char *const states[] = {"down", "connecting", "up"};

    resp_put_map(r, 7);
    cluster_pair(r, "node", node);
    ds_put_text(r, "link");
    ds_put_text(r, p->state < SNIC_COUNTOF(states) ? states[p->state] : "?");
    cluster_pair(r, "rtt_us", p->rtt_ns / 1000);
    cluster_pair(r, "flush_us", p->flush_ns / 1000);
    cluster_pair(r, "lag_messages", (uint64_t)p->queued + p->unacknowledged);
    cluster_pair(r, "lag_bytes", p->queued_bytes);
    ds_put_text(r, "refusal");
    ds_put_text(r, p->refusal != NULL ? p->refusal : "");
}

/* Reading the log, and learning: what was learned stays until the shard learns again. */
static void cluster_progress(struct resp_reply *r, const struct snic_replica_stats *i)
{
    const struct snic_ddp_learning *l = &i->ddp.learning;

    ds_put_text(r, "progress");
    resp_put_map(r, 10);
    cluster_pair(r, "reading", i->state == SNIC_REPLICA_READING);
    cluster_pair(r, "read_bytes", i->wal.opening_bytes);
    cluster_pair(r, "read_total", i->wal.opening_total);
    cluster_pair(r, "learning",
                 i->state == SNIC_REPLICA_RUNNING && i->member.state == SNIC_MEMBER_LEARNING);
    cluster_pair(r, "learned_percent", ds_learned_percent(i));
    cluster_pair(r, "unconfirmed", l->hints);
    cluster_pair(r, "confirmed", l->confirmed);
    cluster_pair(r, "dropped", l->dropped);
    cluster_pair(r, "pulled", l->pulled);
    cluster_pair(r, "pulled_bytes", l->bytes);
}

static void cluster_shard(struct ds_call *k, uint32_t i)
{
    const struct ds_config *c = k->shard->node->config;
    struct resp_reply *r = k->reply;
    static const char *const changes[] = {"none", "pending", "decided", "lost"};
    char waits[DS_WAITS_MAX];
    struct ds_snapshot s;
    uint32_t configured;
    int64_t others = 0;

    if (i == k->shard->index)
        ds_state_publish(k->shard);
    ds_state_get(&k->shard->node->shards[i], &s);
    configured = s.replica.member.view.configured;
    resp_put_map(r, 23);
    cluster_pair(r, "shard", i);
    ds_put_text(r, "state");
    ds_put_text(r, ds_state_name(&s.replica, s.peers, c->node));
    ds_state_waits(&s, c->node, waits, sizeof(waits));
    ds_put_text(r, "waits");
    ds_put_text(r, waits);
    cluster_pair(r, "serves", s.replica.serves);
    cluster_pair(r, "writable", s.replica.writable);
    cluster_pair(r, "epoch", s.replica.member.view.epoch);
    cluster_set(r, "full", s.replica.member.view.full);
    cluster_set(r, "learners", s.replica.member.view.learners);
    cluster_set(r, "hears", s.replica.member.hears);
    cluster_pair(r, "vote", s.replica.member.vote);
    cluster_pair(r, "min_full", s.replica.min_full);
    cluster_pair(r, "min_full_option", c->min_full);
    cluster_pair(r, "keys", s.store.keys);
    cluster_pair(r, "values_bytes", s.replica.values_bytes);
    cluster_pair(r, "log_segments", s.replica.wal.segments);
    cluster_pair(r, "log_segments_free", s.replica.wal.segments_free);
    cluster_pair(r, "log_good", s.replica.log_good);
    cluster_set(r, "configured", configured);
    cluster_set(r, "vacant", s.replica.member.view.vacant);
    cluster_set(r, "witness", s.replica.member.view.witness);
    ds_put_text(r, "change");
    ds_put_text(r, s.replica.member.change < SNIC_COUNTOF(changes)
                       ? changes[s.replica.member.change]
                       : "?");
    cluster_progress(r, &s.replica);
    ds_put_text(r, "peers");
    for (uint32_t n = 0; n < DS_NODES_MAX; n++)
        others += n != c->node && (configured >> n & 1) != 0;
    resp_put_count(r, '*', others);
    for (uint32_t n = 0; n < DS_NODES_MAX; n++)
        if (n != c->node && (configured >> n & 1) != 0)
            cluster_peer(r, n, &s.peers[n]);
}

void ds_cmd_cluster(struct ds_call *k)
{
    const struct ds_node *n = k->shard->node;
    struct ds_snapshot s;
    uint32_t configured;

    if (k->argc == 2 && resp_arg_is(&k->argv[1], "state")) {
        ds_state_get(&n->shards[0], &s);
        configured = s.replica.member.view.configured;
        resp_put_map(k->reply, 3);
        cluster_pair(k->reply, "node", n->config->node);
        cluster_pair(k->reply, "nodes",
                     configured != 0 ? (uint64_t)__builtin_popcount(configured) : n->config->nodes);
        ds_put_text(k->reply, "shards");
        resp_put_count(k->reply, '*', n->count);
        for (uint32_t i = 0; i < n->count; i++)
            cluster_shard(k, i);
    } else {
        ds_error(k->reply, "ERR This instance has cluster support disabled: every node has every "
                           "key; try CLUSTER STATE");
    }
}

/* STORE NODES: for snicstore/storeclient.h and `ctl`. */
void ds_cmd_nodes(struct ds_call *k)
{
    struct ds_node *n = k->shard->node;
    const char *address[DS_NODES_MAX];
    char text[DS_NODES_MAX][64];
    int64_t count = 0;
    uint32_t serving;
    struct ds_snapshot s;

    if (!resp_arg_is(&k->argv[1], "nodes")) {
        ds_error(k->reply, "ERR wrong number of arguments for 'store' command");
        return;
    }
    ds_info_sum(n, &s, &serving);
    ds_state_get(&n->shards[0], &s);
    for (uint32_t i = 0; i < DS_NODES_MAX; i++) {
        address[i] = ds_state_client(n->config, &s.replica.member.view, i, text[i]);
        count += address[i] != NULL;
    }
    resp_put_count(k->reply, '*', 1 + count);
    resp_put_count(k->reply, ':', serving == n->count && !n->draining);
    for (uint32_t i = 0; i < DS_NODES_MAX; i++)
        if (address[i] != NULL)
            ds_put_text(k->reply, address[i]);
}
