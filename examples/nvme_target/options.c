/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The command line. Options of a subsystem follow its --subsystem. */
#include "../thresholds.h"
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct tg_options tg = {.size = UINT64_C(1) << 30,
                        .connections = 64,
                        .subsystems = 16,
                        .namespaces = 64,
                        .queues = 8,
                        .depth = 128,
                        .memory = 1u << 20,
                        .transfer = 128u << 10,
                        .connect_seconds = 10,
                        .loops = 1,
                        .level = EX_INFO};

static struct tg_subsystem *last; /* --subsystem */
static const char *here;          /* an option for what --config has instead */

static void belongs(const char *option, const char *text)
{
    here = option;
    if (last == NULL)
        ex_usage("--%s %s: belongs to a subsystem: --subsystem NQN must come first", option, text);
}

static int option_listen(void *target, const char *text)
{
    (void)target;
    if (tg.listens == TG_LISTENS)
        ex_usage("--listen %s: at most %d addresses", text, TG_LISTENS);
    if (strlen(text) >= sizeof(tg.listen[0].at))
        ex_usage("--listen '%s': too long", text);
    (void)snprintf(tg.listen[tg.listens++].at, sizeof(tg.listen[0].at), "%s", text);
    return 0;
}

static int option_subsystem(void *target, const char *text)
{
    struct tg_error e;
    (void)target;
    here = "subsystem";
    last = tg_subsystem_new(text, NULL, &e);
    if (last == NULL)
        ex_usage("--%s", e.text);
    return 0;
}

static int option_host(void *target, const char *text)
{
    struct tg_host h = {.from_count = 0};
    struct tg_error e;
    (void)target;
    belongs("host", text);
    if (strcmp(text, "any") == 0) {
        last->any = 1;
        return 0;
    }
    if (tg_nqn_fits("host", text, &e) != 0)
        ex_usage("--%s", e.text);
    (void)snprintf(h.nqn, sizeof(h.nqn), "%s", text);
    if (tg_host_set(last, &h, &e) != 0)
        ex_usage("--%s", e.text);
    return 0;
}

static void add_namespace(const char *option, const char *text, struct tg_namespace *like)
{
    struct tg_error e;
    belongs(option, text);
    if (text[0] == 0)
        ex_usage("--%s: a path is missing", option);
    like->subsystem = (uint32_t)(last - tg.subs);
    if (tg_namespace_new(like, &e) == NULL)
        ex_usage("--%s %s: %s", option, text, e.text);
}

static int option_namespace(void *target, const char *text)
{
    struct tg_namespace like = {.path = (char *)(uintptr_t)text};
    (void)target;
    add_namespace("namespace", text, &like);
    return 0;
}

static int option_read_only(void *target, const char *text)
{
    struct tg_namespace like = {.path = (char *)(uintptr_t)text, .read_only = 1};
    (void)target;
    add_namespace("read-only", text, &like);
    return 0;
}

static int option_memory(void *target, const char *text)
{
    struct tg_namespace like = {.path = NULL};
    (void)target;
    belongs("memory", text);
    if (ex_number(text, 1, &like.size) != 0 || like.size < 4096 || like.size % 4096 != 0 ||
        like.size > UINT64_C(1) << 40)
        ex_usage("--memory '%s': not a size, a multiple of 4K up to 1T", text);
    add_namespace("memory", text, &like);
    return 0;
}

/* PROFILE:BYTES */
static int option_ssd(void *target, const char *text)
{
    const char *colon = strchr(text, ':');
    struct tg_namespace like = {.path = NULL};
    struct tg_error e;
    char name[64];
    (void)target;
    belongs("ssd", text);
    if (colon == NULL || (size_t)(colon - text) >= sizeof(name) ||
        ex_number(colon + 1, 1, &like.size) != 0 || like.size < 4096 || like.size % 4096 != 0 ||
        like.size > UINT64_C(1) << 40)
        ex_usage("--ssd '%s': not PROFILE:BYTES with a multiple of 4K up to 1T", text);
    (void)snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
    if (tg_ssd_find(name, &like.ssd, &e) != 0)
        ex_usage("--%s", e.text);
    add_namespace("ssd", text, &like);
    return 0;
}

/* NQN=WEIGHT */
static int option_weight(void *target, const char *text)
{
    const char *equals = strrchr(text, '=');
    struct tg_tenant t = {.weight = 1};
    struct tg_error e;
    uint64_t weight;
    (void)target;
    here = "weight";
    if (equals == NULL || equals == text || (size_t)(equals - text) > SNIC_NVME_NQN_LENGTH ||
        ex_number(equals + 1, 0, &weight) != 0 || weight < 1 || weight > SNIC_GIMBAL_WEIGHT_MAX)
        ex_usage("--weight '%s': not HOSTNQN=N with N between 1 and %u", text,
                 SNIC_GIMBAL_WEIGHT_MAX);
    (void)snprintf(t.nqn, sizeof(t.nqn), "%.*s", (int)(equals - text), text);
    t.weight = (uint32_t)weight;
    if (tg_tenant_find(t.nqn) != NULL)
        ex_usage("--weight %s: named twice", t.nqn);
    if (tg_tenant_set(&t, &e) != 0)
        ex_usage("--weight %s", e.text);
    return 0;
}

static void check_subsystem(const struct tg_subsystem *s)
{
    if (!tg_subsystem_full(s))
        ex_usage("--subsystem %s has no namespace: --namespace FILE, --read-only FILE, "
                 "--memory BYTES or --ssd PROFILE:BYTES after it",
                 s->nqn);
    if (!s->any && s->host_count == 0)
        ex_usage("--subsystem %s: no host may connect: --host NQN for each that may, or --host any",
                 s->nqn);
}

static void check(void)
{
    if (tg.config != NULL && here != NULL)
        ex_usage("--config has subsystems, hosts, namespaces and weights: --%s contradicts it",
                 here);
    if (tg.config == NULL && last == NULL)
        ex_usage("--subsystem NQN is needed, and --namespace FILE after it; or --config FILE");
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++)
        if (tg.subs[i].nqn[0] != 0)
            check_subsystem(&tg.subs[i]);
    if (tg.tenant_count > 0 && !tg.fair)
        ex_usage("--weight has no effect without --fair");
    if (tg.steer_cpu && tg.loops == 1)
        ex_usage("--steer-cpu has no effect without --loops");
    if (tg.devices != NULL && !tg.fair)
        ex_usage("--devices has no effect without --fair");
    if ((tg.thresh_min_us != 0 || tg.thresh_max_us != 0) && !tg.fair)
        ex_usage("--thresh-min and --thresh-max have no effect without --fair");
    ex_thresholds_check(tg.thresh_min_us, tg.thresh_max_us);
    if (tg.auth_groups != 0 && tg.auth_keys == NULL)
        ex_usage("--auth-groups has no effect without --auth-keys");
    if (!snic_is_pow2(tg.transfer))
        ex_usage("--transfer %" PRIu64 ": not a power of two", tg.transfer);
    if (tg.memory < 2 * tg.transfer || tg.memory % 4096 != 0)
        ex_usage("--memory-per-connection %" PRIu64 ": not a multiple of 4K, at least twice "
                 "--transfer",
                 tg.memory);
    if (tg.connections * tg.loops > SNIC_NVMET_CONNS_MAX)
        ex_usage("--connections %" PRIu64 ": more than %u of all --loops", tg.connections,
                 SNIC_NVMET_CONNS_MAX);
    if (tg.host_connections > tg.connections * tg.loops)
        ex_usage("--host-connections %" PRIu64 " is above --connections", tg.host_connections);
}

static const struct ex_option table[] = {
    {"listen", EX_PARSE, NULL, "ADDRESS:PORT",
     "serve hosts here (127.0.0.1:4420); several times: several ports", 0, 0, option_listen},
    {"advertise", EX_TEXT, &tg.advertise, "ADDRESS:PORT",
     "the address in the discovery log, where --listen has one that hosts cannot use (0.0.0.0)", 0,
     0, NULL},
    {"subsystem", EX_PARSE, NULL, "NQN",
     "begin a subsystem; --host and namespaces after it are its own", 0, 0, option_subsystem},
    {"host", EX_PARSE, NULL, "NQN",
     "this host may connect to the subsystem; any: all may. Without --auth-keys a name is a claim",
     0, 0, option_host},
    {"namespace", EX_PARSE, NULL, "FILE",
     "a file or block device is the subsystem's next namespace; made if missing", 0, 0,
     option_namespace},
    {"read-only", EX_PARSE, NULL, "FILE", "the same, which hosts cannot change", 0, 0,
     option_read_only},
    {"memory", EX_PARSE, NULL, "BYTES", "the same in memory, lost when the program ends", 0, 0,
     option_memory},
    {"ssd", EX_PARSE, NULL, "PROFILE:BYTES",
     "for experiments: memory with the times of a model, dct983 or p3600, -fragmented or -ageing",
     0, 0, option_ssd},
    {"config", EX_TEXT, &tg.config, "FILE",
     "subsystems, hosts, namespaces, weights, caps and addresses; `nvme_target ctl` changes it", 0,
     0, NULL},
    {"socket", EX_TEXT, &tg.socket, "PATH",
     "serve `nvme_target ctl` here; with --config, its name and .sock unless given", 0, 0, NULL},
    {"subsystems", EX_NUMBER, &tg.subsystems, "N", "with --socket: most subsystems (16)", 1,
     TG_SUBSYSTEMS, NULL},
    {"namespaces", EX_NUMBER, &tg.namespaces, "N",
     "most namespaces of a subsystem, and the highest id (64)", 1, TG_NAMESPACES, NULL},
    {"size", EX_SIZE, &tg.size, "BYTES", "of new files (1G)", 4096, UINT64_C(1) << 46, NULL},
    {"cached", EX_FLAG, &tg.cached, NULL, "use the page cache (default: O_DIRECT where possible)",
     0, 0, NULL},
    {"fair", EX_FLAG, &tg.fair, NULL,
     "share each device among the hosts by their weights, with Gimbal's switch", 0, 0, NULL},
    {"devices", EX_TEXT, &tg.devices, "FILE",
     "with --fair: keep here what the switches learn of the devices", 0, 0, NULL},
    {"thresh-min", EX_NUMBER, &tg.thresh_min_us, "US",
     "with --fair: a device's latency that means no congestion, a little above the highest of one "
     "request at a time; default: learned; from 1500 on set --thresh-max, too",
     1, 10000000, NULL},
    {"thresh-max", EX_NUMBER, &tg.thresh_max_us, "US",
     "with --fair: the latency that means overload, above the lowest at full load; default: "
     "learned; up to 250 set --thresh-min, too",
     2, 10000000, NULL},
    {"weight", EX_PARSE, NULL, "HOSTNQN=N", "with --fair: the weight of a host (1)", 0, 0,
     option_weight},
    {"connections", EX_NUMBER, &tg.connections, "N",
     "most of a loop; a host has one and one for each of its I/O queues (64)", 2, 16384, NULL},
    {"host-connections", EX_NUMBER, &tg.host_connections, "N",
     "most connections of one host (half of --connections)", 1, 16384, NULL},
    {"queues", EX_NUMBER, &tg.queues, "N", "most I/O queues of a controller (8)", 1, 64, NULL},
    {"depth", EX_NUMBER, &tg.depth, "N", "most entries of a queue (128)", 32, 1024, NULL},
    {"transfer", EX_SIZE, &tg.transfer, "BYTES", "most data of one command (128K)", 4096, 1u << 20,
     NULL},
    {"memory-per-connection", EX_SIZE, &tg.memory, "BYTES", "for data of its commands (1M)", 8192,
     SNIC_NVMET_DATA_BYTES_MAX, NULL},
    {"connect-seconds", EX_NUMBER, &tg.connect_seconds, "SECONDS",
     "end a connection that has sent no Connect by then (10)", 1, 3600, NULL},
    {"auth-keys", EX_TEXT, &tg.auth_keys, "FILE",
     "hosts have to authenticate (DH-HMAC-CHAP): lines HOSTNQN SECRET [CTRLSECRET]", 0, 0, NULL},
    {"auth-groups", EX_PARSE, NULL, "null|ffdhe2048|...,...",
     "permitted DH groups (null to ffdhe4096; of those that a host has: ffdhe2048 first, null "
     "last)",
     0, 0, tg_keys_groups},
    {"loops", EX_NUMBER, &tg.loops, "N",
     "threads: each has connections, and every N-th namespace (1)", 1, 16, NULL},
    {"steer-cpu", EX_FLAG, &tg.steer_cpu, NULL,
     "with --loops: loop I runs on the CPUs I + K x N, and accepts what comes in on them", 0, 0,
     NULL},
    {"stats", EX_NUMBER, &tg.stats, "SECONDS", "print a line of statistics", 0, 86400, NULL},
    {"metrics", EX_TEXT, &tg.metrics, "ADDRESS:PORT", "serve them for Prometheus", 0, 0, NULL},
    {"log-level", EX_PARSE, &tg.level, "error|warning|info|debug", "default info", 0, 0,
     ex_log_parse},
};

void tg_options(int argc, char **argv)
{
    static char socket_path[4200];
    ex_synopsis = "[ctl COMMAND] [OPTION]...";
    ex_options(argc, argv, table, SNIC_COUNTOF(table),
               "NVMe/TCP target: files and block devices as namespaces that Linux mounts.");
    ex_log_set(tg.level, "target");
    check();
    if (tg.config != NULL)
        tg_config_read(tg.config);
    if (tg.config != NULL && tg.socket == NULL) {
        (void)snprintf(socket_path, sizeof(socket_path), "%s.sock", tg.config);
        tg.socket = socket_path;
    }
    if (tg.listens == 0)
        (void)snprintf(tg.listen[tg.listens++].at, sizeof(tg.listen[0].at), "127.0.0.1:4420");
}
