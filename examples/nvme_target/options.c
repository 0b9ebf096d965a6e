/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The command line. Options of a subsystem follow its --subsystem. */
#include "target.h"

#include <inttypes.h>
#include <string.h>

struct tg_options tg = {.size = UINT64_C(1) << 30,
                        .connections = 64,
                        .queues = 8,
                        .depth = 128,
                        .memory = 1u << 20,
                        .transfer = 128u << 10,
                        .connect_seconds = 10,
                        .level = EX_INFO};

static struct tg_subsystem *last_subsystem(const char *option, const char *text)
{
    if (tg.sub_count == 0)
        ex_usage("--%s %s: belongs to a subsystem: --subsystem NQN must come first", option, text);
    return &tg.subs[tg.sub_count - 1];
}

static void name_fits(const char *option, const char *text)
{
    if (strlen(text) == 0 || strlen(text) > SNIC_NVME_NQN_LENGTH)
        ex_usage("--%s '%s': an NQN has 1 to %u characters", option, text, SNIC_NVME_NQN_LENGTH);
}

static int option_listen(void *target, const char *text)
{
    (void)target;
    if (tg.listens == TG_LISTENS)
        ex_usage("--listen %s: at most %d addresses", text, TG_LISTENS);
    tg.listen[tg.listens++] = text;
    return 0;
}

static int option_subsystem(void *target, const char *text)
{
    (void)target;
    name_fits("subsystem", text);
    if (tg.sub_count == TG_SUBSYSTEMS)
        ex_usage("--subsystem %s: at most %d", text, TG_SUBSYSTEMS);
    if (strcmp(text, SNIC_NVME_DISCOVERY_NQN) == 0)
        ex_usage("--subsystem %s: that is the name of the discovery subsystem, which is always "
                 "there",
                 text);
    for (uint32_t i = 0; i < tg.sub_count; i++)
        if (strcmp(tg.subs[i].nqn, text) == 0)
            ex_usage("--subsystem %s: named twice", text);
    tg.subs[tg.sub_count++].nqn = text;
    return 0;
}

static int option_host(void *target, const char *text)
{
    struct tg_subsystem *s = last_subsystem("host", text);
    (void)target;
    if (strcmp(text, "any") == 0) {
        s->any = 1;
        return 0;
    }
    name_fits("host", text);
    if (s->host_count == TG_HOSTS)
        ex_usage("--host %s: at most %d of a subsystem", text, TG_HOSTS);
    s->hosts[s->host_count++] = text;
    return 0;
}

static struct tg_namespace *add_namespace(const char *option, const char *text)
{
    struct tg_subsystem *s = last_subsystem(option, text);
    if (text[0] == 0)
        ex_usage("--%s: a path is missing", option);
    if (tg.ns_count == TG_NAMESPACES)
        ex_usage("--%s %s: at most %d namespaces", option, text, TG_NAMESPACES);
    struct tg_namespace *ns = &tg.ns[tg.ns_count++];
    ns->path = text;
    ns->subsystem = tg.sub_count - 1;
    ns->number = ++s->namespaces;
    return ns;
}

static int option_namespace(void *target, const char *text)
{
    (void)target;
    (void)add_namespace("namespace", text);
    return 0;
}

static int option_read_only(void *target, const char *text)
{
    (void)target;
    add_namespace("read-only", text)->read_only = 1;
    return 0;
}

static int option_memory(void *target, const char *text)
{
    struct tg_namespace *ns = add_namespace("memory", text);
    (void)target;
    ns->path = NULL;
    if (ex_number(text, 1, &ns->bytes) != 0 || ns->bytes < 4096 || ns->bytes % 4096 != 0 ||
        ns->bytes > UINT64_C(1) << 40)
        ex_usage("--memory '%s': not a size, a multiple of 4K up to 1T", text);
    return 0;
}

/* NQN=WEIGHT */
static int option_weight(void *target, const char *text)
{
    const char *equals = strrchr(text, '=');
    static char names[TG_WEIGHTS][SNIC_NVME_NQN_LENGTH + 1];
    uint64_t weight;
    (void)target;
    if (tg.weight_count == TG_WEIGHTS)
        ex_usage("--weight %s: at most %d", text, TG_WEIGHTS);
    if (equals == NULL || equals == text || (size_t)(equals - text) > SNIC_NVME_NQN_LENGTH ||
        ex_number(equals + 1, 0, &weight) != 0 || weight < 1 || weight > 256)
        ex_usage("--weight '%s': not HOSTNQN=N with N between 1 and 256", text);
    char *name = names[tg.weight_count];
    memcpy(name, text, (size_t)(equals - text));
    tg.weights[tg.weight_count++] = (struct tg_weight){name, (uint32_t)weight};
    return 0;
}

static void check(void)
{
    if (tg.sub_count == 0)
        ex_usage("--subsystem NQN is needed, and --namespace FILE after it");
    for (uint32_t i = 0; i < tg.sub_count; i++) {
        if (tg.subs[i].namespaces == 0)
            ex_usage("--subsystem %s has no namespace: --namespace FILE, --read-only FILE or "
                     "--memory BYTES after it",
                     tg.subs[i].nqn);
        if (!tg.subs[i].any && tg.subs[i].host_count == 0)
            ex_usage("--subsystem %s: no host may connect: --host NQN for each that may, or "
                     "--host any",
                     tg.subs[i].nqn);
    }
    if (tg.weight_count > 0 && !tg.fair)
        ex_usage("--weight has no effect without --fair");
    if (!snic_is_pow2(tg.transfer))
        ex_usage("--transfer %" PRIu64 ": not a power of two", tg.transfer);
    if (tg.memory < 2 * tg.transfer || tg.memory % 4096 != 0)
        ex_usage("--memory-per-connection %" PRIu64 ": not a multiple of 4K, at least twice "
                 "--transfer",
                 tg.memory);
    if (tg.host_connections > tg.connections)
        ex_usage("--host-connections %" PRIu64 " is above --connections", tg.host_connections);
    if (tg.listens == 0)
        tg.listen[tg.listens++] = "127.0.0.1:4420";
}

void tg_options(int argc, char **argv)
{
    static const struct ex_option table[] = {
        {"listen", EX_PARSE, NULL, "ADDRESS:PORT",
         "serve hosts here (127.0.0.1:4420); several times: several ports", 0, 0, option_listen},
        {"advertise", EX_TEXT, &tg.advertise, "ADDRESS:PORT",
         "the address in the discovery log, where --listen has one that hosts cannot use (0.0.0.0)",
         0, 0, NULL},
        {"subsystem", EX_PARSE, NULL, "NQN",
         "begin a subsystem; --host and namespaces after it are its own", 0, 0, option_subsystem},
        {"host", EX_PARSE, NULL, "NQN",
         "this host may connect to the subsystem; any: all may. A name is a claim, not a proof", 0,
         0, option_host},
        {"namespace", EX_PARSE, NULL, "FILE",
         "a file or block device is the subsystem's next namespace; made if missing", 0, 0,
         option_namespace},
        {"read-only", EX_PARSE, NULL, "FILE", "the same, which hosts cannot change", 0, 0,
         option_read_only},
        {"memory", EX_PARSE, NULL, "BYTES", "the same in memory, lost when the program ends", 0, 0,
         option_memory},
        {"size", EX_SIZE, &tg.size, "BYTES", "of new files (1G)", 4096, UINT64_C(1) << 46, NULL},
        {"cached", EX_FLAG, &tg.cached, NULL,
         "use the page cache (default: O_DIRECT where possible)", 0, 0, NULL},
        {"fair", EX_FLAG, &tg.fair, NULL,
         "share each device among the hosts by their weights, with Gimbal's switch", 0, 0, NULL},
        {"weight", EX_PARSE, NULL, "HOSTNQN=N", "with --fair: the weight of a host (1)", 0, 0,
         option_weight},
        {"connections", EX_NUMBER, &tg.connections, "N",
         "most connections; a host has one and one for each of its I/O queues (64)", 2, 16384,
         NULL},
        {"host-connections", EX_NUMBER, &tg.host_connections, "N",
         "most connections of one host (half of --connections)", 1, 16384, NULL},
        {"queues", EX_NUMBER, &tg.queues, "N", "most I/O queues of a controller (8)", 1, 64, NULL},
        {"depth", EX_NUMBER, &tg.depth, "N", "most entries of a queue (128)", 32,
         SNIC_NVMET_DEPTH_MAX, NULL},
        {"transfer", EX_SIZE, &tg.transfer, "BYTES", "most data of one command (128K)", 4096,
         1u << 20, NULL},
        {"memory-per-connection", EX_SIZE, &tg.memory, "BYTES",
         "for the data of a connection's commands (1M)", 8192, SNIC_NVMET_DATA_BYTES_MAX, NULL},
        {"connect-seconds", EX_NUMBER, &tg.connect_seconds, "SECONDS",
         "end a connection that has sent no Connect by then (10)", 1, 3600, NULL},
        {"stats", EX_NUMBER, &tg.stats, "SECONDS", "print a line of statistics", 0, 86400, NULL},
        {"metrics", EX_TEXT, &tg.metrics, "ADDRESS:PORT", "serve them for Prometheus", 0, 0, NULL},
        {"log-level", EX_PARSE, &tg.level, "error|warning|info|debug", "default info", 0, 0,
         ex_log_parse},
    };
    ex_options(argc, argv, table, SNIC_COUNTOF(table),
               "NVMe/TCP target: files and block devices as namespaces that Linux mounts.");
    ex_log_set(tg.level, "target");
    check();
}
