/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ddp_server: the command line, and the node's life. */
#include "cluster.h"
#include "ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define MAIN_FILES 64u /* descriptors of a shard beside those of clients */

static const char summary[] =
    "ddp_server: one node of a replicated key-value store that speaks the Redis protocol.\n"
    "Every node holds every key, reads are local and linearizable (MINOS).\n"
    "`ddp_server found` makes the files of a new cluster; `ddp_server ctl` is the operator's.";

/* ---- Options ---- */

static int main_setting(struct ds_config *c, const char *name, const char *text)
{
    int known;
    const char *wrong = resp_settings_set(&c->settings, name, text, &known);

    if (wrong != NULL)
        ex_usage("--%s: %s", name, wrong);
    return 0;
}

static int main_requirepass(void *target, const char *text)
{
    return main_setting(target, "requirepass", text);
}

static int main_protected(void *target, const char *text)
{
    return main_setting(target, "protected-mode", text);
}

static int main_out_limit(void *target, const char *text)
{
    return main_setting(target, "client-output-buffer-limit", text);
}

static int main_clients_memory(void *target, const char *text)
{
    return main_setting(target, "maxmemory-clients", text);
}

static int main_query_limit(void *target, const char *text)
{
    return main_setting(target, "client-query-buffer-limit", text);
}

static size_t main_limit_options(struct ds_config *c, struct ex_option *out)
{
    const struct ex_option options[] = {
        {"requirepass", EX_PARSE, c, "PASSWORD",
         "password that clients must give with AUTH or HELLO", 0, 0, main_requirepass},
        {"protected-mode", EX_PARSE, c, "yes|no",
         "without a password refuse to --listen on other than loopback; default yes", 0, 0,
         main_protected},
        {"client-output-buffer-limit", EX_PARSE, c, "'normal HARD SOFT SECONDS'",
         "a client with HARD bytes of unread replies is not read from, and closed when it takes "
         "nothing for 10 s; above SOFT: for SECONDS; default 'normal 256mb 64mb 60'",
         0, 0, main_out_limit},
        {"maxmemory-clients", EX_PARSE, c, "BYTES|PERCENT%",
         "unread replies and half-sent commands of all clients; above it the client with most is "
         "closed; default 25%, at most 1gb; 0: no limit",
         0, 0, main_clients_memory},
        {"client-query-buffer-limit", EX_PARSE, c, "BYTES",
         "end a client whose unfinished input is more; default 1gb", 0, 0, main_query_limit},
        {"message-max", EX_SIZE, &c->message_max, "BYTES",
         "a longer command is refused; default 256M, 9M to 1G", 9u << 20, 1u << 30, NULL},
        {"connections", EX_NUMBER, &c->server.conns_max, "N", "most clients; default 10000", 1,
         60000, NULL},
        {"timeout", EX_NUMBER, &c->server.timeout_s, "SECONDS",
         "close idle clients; default 0: never", 0, 4000000, NULL},
        {"request-timeout", EX_NUMBER, &c->timeout_s, "SECONDS",
         "answer a command with an error that was not carried out after so long; default 10", 1,
         3600, NULL},
        {"stats", EX_NUMBER, &c->server.stats, "SECONDS", "print a line of figures so often", 0,
         86400, NULL},
        {"metrics", EX_TEXT, &c->server.metrics, "ADDRESS:PORT",
         "figures for Prometheus, at /metrics", 0, 0, NULL},
        {"spin", EX_NUMBER, &c->server.spin_us, "US",
         "busy-poll so long before sleeping; default 0", 0, 1000000, NULL},
        {"log-level", EX_PARSE, &c->server.log_level, "error|warning|info|debug", "default info", 0,
         0, ex_log_parse},
    };

    memcpy(out, options, sizeof(options));
    return SNIC_COUNTOF(options);
}

/* The file of --config counts for what the command line does not set. */
static void main_config(struct ds_config *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            ds_cluster_read(c, argv[i + 1]);
        else if (strncmp(argv[i], "--config=", 9) == 0)
            ds_cluster_read(c, argv[i] + 9);
    }
}

static void main_options(struct ds_config *c, int argc, char **argv)
{
    struct ex_option all[64];
    const char *config = NULL;
    const struct ex_option options[] = {
        {"listen", EX_TEXT, &c->server.listen, "ADDRESS:PORT", "clients; default 127.0.0.1:6379", 0,
         0, NULL},
        {"node", EX_NUMBER, &c->node, "N", "number of this node, from 0", 0, DS_NODES_MAX - 1,
         NULL},
        {"peers", EX_TEXT, &c->peers, "ADDRESS:PORT,...",
         "of all nodes, by number, this one too; shard S uses the port plus S", 0, 0, NULL},
        {"config", EX_TEXT, &config, "FILE",
         "of `ddp_server found`: the cluster's number, --peers, --clients, --shards, --value-max, "
         "--witness, --min-full, and FILE.key beside it",
         0, 0, NULL},
        {"cluster-key", EX_TEXT, &c->key_file, "FILE",
         "the cluster's key: everything between nodes is encrypted, and `ddp_server ctl` has to "
         "have it; default: none, or that of --config",
         0, 0, NULL},
        {"cluster", EX_NUMBER, &c->cluster, "N",
         "number of the cluster, which no other on this network has; default 1", 1, UINT64_MAX / 2,
         NULL},
        {"found", EX_FLAG, &c->found, NULL, "the cluster begins now: no node of it has run before",
         0, 0, NULL},
        {"witness", EX_NUMBER, &c->witness, "N", "this node votes and holds no data", 0,
         DS_NODES_MAX - 1, NULL},
        {"dir", EX_TEXT, &c->server.directory, "PATH", "of the node's logs; default ddp.dir", 0, 0,
         NULL},
        {"buffered", EX_FLAG, &c->server.buffered, NULL, "use the page cache, not direct I/O", 0, 0,
         NULL},
        {"shards", EX_NUMBER, &c->shards, "N",
         "parts of the keys, a loop (thread) each, the same at all nodes and for ever; default 1",
         1, DS_SHARDS_MAX, NULL},
        {"log-size", EX_SIZE, &c->log_bytes, "BYTES",
         "of a shard's log when it is made, 64M to 1T; default 256M, or 512M with --value-max "
         "above 5M. A log keeps its size",
         DS_LOG_LEAST, (uint64_t)1 << 40, NULL},
        {"keys", EX_NUMBER, &c->keys_max, "N", "most keys; default 1000000", 1024, 4000000000u,
         NULL},
        {"memory", EX_SIZE, &c->memory, "BYTES", "for values; default 1G", 64u << 20,
         (uint64_t)1 << 40, NULL},
        {"min-full", EX_NUMBER, &c->min_full, "N",
         "nodes that must have all keys, or writes are refused; default: a majority of those that "
         "hold data",
         1, DS_NODES_MAX, NULL},
        {"clients", EX_TEXT, &c->clients_text, "ADDRESS:PORT,...",
         "of all nodes, by number, as clients reach them: STORE NODES names them", 0, 0, NULL},
        {"value-max", EX_SIZE, &c->value_max, "BYTES",
         "of a value; the same at all nodes; default 64K", DS_VALUE_LEAST, DS_VALUE_MOST, NULL},
    };
    size_t count = SNIC_COUNTOF(options);

    memcpy(all, options, sizeof(options));
    count += main_limit_options(c, all + count);
    main_config(c, argc, argv);
    ex_options(argc, argv, all, count, summary);
    if (c->key_file != NULL)
        ds_cluster_key_read(c->key_file, c->key);
}

/* The addresses of a list; each is passed to @p take. */
static void main_addresses(const char *option, const char *list, struct ds_config *c,
                           void (*take)(struct ds_config *c, const char *text,
                                        const struct snic_net_addr *a))
{
    char text[1024];
    char *save = NULL;

    if ((size_t)snprintf(text, sizeof(text), "%s", list) >= sizeof(text))
        ex_usage("--%s: at most %zu bytes", option, sizeof(text) - 1);
    for (char *p = strtok_r(text, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save)) {
        struct snic_net_addr a;

        if (c->nodes == DS_NODES_MAX || c->clients_count == DS_NODES_MAX)
            ex_usage("--%s: at most %d nodes", option, DS_NODES_MAX);
        ex_address(option, p, &a);
        take(c, p, &a);
    }
}

static void main_take_peer(struct ds_config *c, const char *text, const struct snic_net_addr *a)
{
    if (a->family != SNIC_NET_UNIX && (a->port == 0 || a->port + c->shards > 65536))
        ex_usage("--peers: '%s': shard S uses the port plus S, which has to be 1 to 65535", text);
    c->addrs[c->nodes++] = *a;
}

static void main_take_client(struct ds_config *c, const char *text, const struct snic_net_addr *a)
{
    (void)a;
    (void)snprintf(c->clients[c->clients_count++], sizeof(c->clients[0]), "%s", text);
}

static void main_peers(struct ds_config *c)
{
    if (c->peers == NULL)
        ex_usage("--peers is missing: the addresses of all nodes");
    if (c->clients_text != NULL)
        main_addresses("clients", c->clients_text, c, main_take_client);
    main_addresses("peers", c->peers, c, main_take_peer);
    if (c->node >= c->nodes)
        ex_usage("--node: %llu is none of the %u node%s of --peers or --config: start an added "
                 "node with --peers of all nodes",
                 (unsigned long long)c->node, c->nodes, c->nodes == 1 ? "" : "s");
}

static void main_check(struct ds_config *c)
{
    struct snic_net_addr a;
    const char *l = c->server.listen;
    int local = strncmp(l, "127.", 4) == 0 || strncmp(l, "[::1]", 5) == 0 ||
                strncmp(l, "localhost:", 10) == 0 || strncmp(l, "unix:", 5) == 0;

    ex_address("listen", l, &a);
    if (c->server.metrics != NULL)
        ex_address("metrics", c->server.metrics, &a);
    if (c->settings.protected_mode && c->settings.password[0] == 0 && !local)
        ex_usage("--listen: '%s' can be reached from other machines: set --requirepass PASSWORD, "
                 "or --protected-mode no to let everybody read and write",
                 l);
    c->exposed = c->settings.protected_mode && !local;
    main_peers(c);
    if (mkdir(c->server.directory, 0700) != 0 && errno != EEXIST)
        ex_die("cannot make the directory '%s' (--dir): %s", c->server.directory, strerror(errno));
    ds_identity_check(c);
}

/* Each client is a descriptor. The kernel shares clients out among the shards' loops by a hash, so
 * a loop takes up to twice its share. */
static void main_descriptors(struct ds_config *c)
{
    uint64_t more = MAIN_FILES * c->shards;
    struct rlimit r;

    if (c->shards > 1)
        c->server.conns_max =
            snic_min_u64(c->server.conns_max, 2 * c->server.conns_max / c->shards + 16);
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return;
    r.rlim_cur =
        snic_max_u64(r.rlim_cur, snic_min_u64(r.rlim_max, c->server.conns_max * c->shards + more));
    if (setrlimit(RLIMIT_NOFILE, &r) != 0 && getrlimit(RLIMIT_NOFILE, &r) != 0)
        return;
    if (r.rlim_cur < c->shards + more)
        ex_die("the limit of open files is %llu, and at least %llu are needed: raise it with "
               "'ulimit -n'",
               (unsigned long long)r.rlim_cur, (unsigned long long)(c->shards + more));
    if (r.rlim_cur >= c->server.conns_max * c->shards + more)
        return;
    c->server.conns_max = (r.rlim_cur - more) / c->shards;
    ex_log(
        EX_WARNING,
        "the limit of open files ('ulimit -n') allows %llu clients of a shard's loop only, fewer "
        "than --connections",
        (unsigned long long)c->server.conns_max);
}

/* ---- The node ---- */

static void main_signal(void *ctx)
{
    ds_node_drain(ctx);
}

/* A shard's loop, until all have drained; what a loop opened is closed by its thread. */
static void *main_run(void *arg)
{
    struct ds_shard *s = arg;
    int r;

    (void)pthread_barrier_wait(&s->node->opening);
    r = snic_loop_run(s->loop);
    if (r != 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    (void)pthread_barrier_wait(&s->node->closing);
    if (s->index == 0)
        ex_stats_stop(s->node->stats);
    ds_shard_close(s);
    return NULL;
}

static int main_serve(struct ds_config *c)
{
    static struct ds_node n;

    n.config = c;
    n.count = (uint32_t)c->shards;
    n.undrained = n.count;
    n.commands = ds_command_table(&n.commands_count);
    (void)pthread_mutex_init(&n.lock, NULL);
    ds_slow_init(&n);
    memset(n.hash_key, 0x5b, sizeof(n.hash_key));
    memcpy(n.hash_key, &c->cluster, sizeof(c->cluster));
    n.shards = calloc(n.count, sizeof(*n.shards));
    if (n.shards == NULL || pthread_barrier_init(&n.opening, NULL, n.count) != 0 ||
        pthread_barrier_init(&n.closing, NULL, n.count) != 0)
        ex_die("out of memory for %u shards (--shards)", n.count);
    for (uint32_t i = 0; i < n.count; i++) {
        n.shards[i].node = &n;
        n.shards[i].index = i;
        ds_shard_open(&n.shards[i]);
    }
    n.started_ns = snic_loop_now(n.shards[0].loop);
    if (ex_stats_start(&n.stats, n.shards[0].loop, n.shards[0].net, "ddp", c->server.stats,
                       c->server.metrics, ds_metrics, &n) != 0)
        exit(1);
    ex_signals(n.shards[0].loop, main_signal, &n);
    for (uint32_t i = 1; i < n.count; i++)
        if (pthread_create(&n.shards[i].thread, NULL, main_run, &n.shards[i]) != 0)
            ex_die("cannot start a thread: --shards: fewer");
    ds_node_listen(&n);
    (void)main_run(&n.shards[0]);
    for (uint32_t i = 1; i < n.count; i++)
        (void)pthread_join(n.shards[i].thread, NULL);
    ex_signals_off();
    for (uint32_t i = 0; i < n.count; i++)
        snic_loop_close(n.shards[i].loop);
    (void)pthread_barrier_destroy(&n.opening);
    (void)pthread_barrier_destroy(&n.closing);
    ds_slow_free(&n);
    free(n.shards);
    return 0;
}

int main(int argc, char **argv)
{
    static struct ds_config c = {
        .server = {.name = "ddp",
                   .listen = "127.0.0.1:6379",
                   .directory = "ddp.dir",
                   .conns_max = 10000,
                   .log_level = EX_INFO},
        .node = UINT64_MAX,
        .shards = 1,
        .cluster = 1,
        .witness = UINT64_MAX,
        .keys_max = 1000000,
        .memory = 1u << 30,
        .value_max = 65536,
        .message_max = 256u << 20,
        .timeout_s = 10,
    };

    if (argc > 1 && strcmp(argv[1], "found") == 0)
        return ds_found(&c, argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "ctl") == 0)
        return ds_ctl(argc - 1, argv + 1);
    ex_synopsis = "[found|ctl] [OPTION]...";
    resp_settings_default(&c.settings);
    main_options(&c, argc, argv);
    ex_log_set(c.server.log_level, "ddp");
    main_check(&c);
    main_descriptors(&c);
    return main_serve(&c);
}
