/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kv_server: the command line. */
#include "roles.h"

#include "../server/supervisor.h"
#include "../thresholds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define KV_SIZE_DEFAULT ((uint64_t)4 << 30)

static const char summary[] =
    "kv_server: a key-value store that speaks the Redis protocol and answers reads of\n"
    "records on the device by the DPU role alone (DDS).\n\n"
    "Without a role option a supervisor starts the DPU role and the host role as two\n"
    "processes on shared memory and restarts one that dies.";

static int kv_sync_parse(void *target, const char *text)
{
    struct kv_config *c = target;
    int r;

    if (strcmp(text, "always") == 0) {
        c->sync = KV_SYNC_ALWAYS;
    } else if (strcmp(text, "none") == 0) {
        c->sync = KV_SYNC_NONE;
    } else if (strncmp(text, "interval=", 9) == 0) {
        c->sync = KV_SYNC_INTERVAL;
        r = ex_number(text + 9, 0, &c->sync_ms);
        if (r == 0 && c->sync_ms >= 1 && c->sync_ms <= 3600000)
            return 0;
        if (r != -1)
            ex_usage("--sync: interval: %s ms is not between 1 and 3600000", text + 9);
        return -1;
    } else {
        return -1;
    }
    return 0;
}

static int kv_offload_parse(void *target, const char *text)
{
    struct kv_config *c = target;

    if (strcmp(text, "on") == 0)
        c->offload = KV_OFFLOAD_DEVICE;
    else if (strcmp(text, "all") == 0)
        c->offload = KV_OFFLOAD_ALL;
    else if (strcmp(text, "off") == 0)
        c->offload = KV_OFFLOAD_OFF;
    else
        return -1;
    return 0;
}

static int kv_qos_parse(void *target, const char *text)
{
    struct kv_config *c = target;

    if (strcmp(text, "gimbal") != 0 && strcmp(text, "off") != 0)
        return -1;
    c->tenants.on = text[0] == 'g';
    return 0;
}

static int kv_by_parse(void *target, const char *text)
{
    struct kv_config *c = target;

    if (strcmp(text, "database") != 0 && strcmp(text, "client") != 0)
        return -1;
    c->tenants.by = text[0] == 'd' ? KV_TENANT_DATABASE : KV_TENANT_CLIENT;
    c->tenants_set = 1;
    return 0;
}

static int kv_setting(struct kv_config *c, const char *name, const char *text)
{
    int known;
    const char *wrong = resp_settings_set(&c->settings, name, text, &known);

    if (wrong != NULL)
        ex_usage("--%s: %s", name, wrong);
    return 0;
}

static int kv_requirepass_parse(void *target, const char *text)
{
    return kv_setting(target, "requirepass", text);
}

static int kv_protected_parse(void *target, const char *text)
{
    return kv_setting(target, "protected-mode", text);
}

static int kv_out_limit_parse(void *target, const char *text)
{
    return kv_setting(target, "client-output-buffer-limit", text);
}

static int kv_clients_memory_parse(void *target, const char *text)
{
    return kv_setting(target, "maxmemory-clients", text);
}

static int kv_query_limit_parse(void *target, const char *text)
{
    return kv_setting(target, "client-query-buffer-limit", text);
}

static int kv_tenant_option(void *target, const char *text)
{
    struct kv_config *c = target;

    c->tenants_set = 1;
    if (kv_tenant_parse(&c->tenants, text) != 0)
        ex_usage("--tenant: %s", c->tenants.error);
    return 0;
}

static void kv_tenants_options(struct kv_config *c)
{
    struct kv_tenants *t = &c->tenants;

    t->databases = (uint32_t)c->databases;
    if (!t->on && c->tenants_set)
        ex_usage("--tenant and --tenant-by need --qos gimbal");
    if (!t->on && c->devices != NULL)
        ex_usage("--devices needs --qos gimbal");
    if (!t->on && (c->thresh_min_us != 0 || c->thresh_max_us != 0 || c->write_cost != 0))
        ex_usage("--thresh-min, --thresh-max and --write-cost need --qos gimbal");
    ex_thresholds_check(c->thresh_min_us, c->thresh_max_us);
    if (t->on && c->server.monolith)
        ex_usage("--qos gimbal and --monolith exclude each other: the switch shares an image, and "
                 "--monolith uses plain files");
    if (kv_tenants_check(t) != 0)
        ex_usage("--tenant: %s", t->error);
    if (t->on && kv_tenants_count(t) >= SNIC_GIMBAL_TENANTS_MAX)
        ex_usage("--databases: with --qos gimbal at most %d", SNIC_GIMBAL_TENANTS_MAX - 2);
}

/* Check options against each other, and derive settings. */
static void kv_options_together(struct kv_config *c)
{
    c->size_set = c->size != 0;
    if (!c->size_set)
        c->size = KV_SIZE_DEFAULT;
    if (!snic_is_pow2(c->segment))
        ex_usage("--segment: must be a power of two, such as 64M");
    kv_tenants_options(c);
}

/* Small ones, and what CONFIG SET changes, too. @return how many */
static size_t kv_limit_options(struct kv_config *c, struct ex_option *out)
{
    const struct ex_option options[] = {
        {"spin", EX_NUMBER, &c->server.spin_us, "US",
         "busy-poll so long before sleeping; default 0", 0, 1000000, NULL},
        {"requirepass", EX_PARSE, c, "PASSWORD",
         "password that clients must give with AUTH or HELLO", 0, 0, kv_requirepass_parse},
        {"protected-mode", EX_PARSE, c, "yes|no",
         "without a password refuse to --listen on other than loopback; default yes", 0, 0,
         kv_protected_parse},
        {"client-output-buffer-limit", EX_PARSE, c, "'normal HARD SOFT SECONDS'",
         "a client with HARD bytes of unread replies is not read from, and closed when it takes "
         "less than 64 KiB of them in 10 s; above SOFT: closed when it does so for SECONDS; "
         "default 'normal 256mb 64mb 60'; 0: no limit, but HARD with a DPU role 1 GiB",
         0, 0, kv_out_limit_parse},
        {"maxmemory-clients", EX_PARSE, c, "BYTES|PERCENT%",
         "unread replies and half-sent commands of all clients; above it the client with most is "
         "closed; default 25%, at most 1gb; 0: no limit",
         0, 0, kv_clients_memory_parse},
        {"message-max", EX_SIZE, &c->message_max, "BYTES",
         "a longer command is refused; default 256M, 9M to 1G", KV_MESSAGE_LEAST, KV_MESSAGE_MOST,
         NULL},
        {"client-query-buffer-limit", EX_PARSE, c, "BYTES",
         "end a client whose unfinished input is more; default 1gb", 0, 0, kv_query_limit_parse},
        {.name = "conns", .kind = EX_RENAMED, .value = "connections"},
        {.name = "seed", .kind = EX_RENAMED, .value = "hash-seed"},
    };

    memcpy(out, options, sizeof(options));
    return SNIC_COUNTOF(options);
}

static void kv_options(struct kv_config *c, int argc, char **argv)
{
    struct ex_option all[64];
    size_t count;
    const struct ex_option options[] = {
        {"size", EX_SIZE, &c->size, "BYTES", "of a new image; default 4G, least 4 segments and 16M",
         64u << 20, UINT64_MAX / 2, NULL},
        {"sync", EX_PARSE, c, "always|interval=MS|none", "when a write is durable; default always",
         0, 0, kv_sync_parse},
        {"memory", EX_SIZE, &c->memory, "BYTES", "newest records kept in memory; default 256M",
         32u << 20, (uint64_t)1 << 40, NULL},
        {"segment", EX_SIZE, &c->segment, "BYTES", "of a log file, power of two; default 64M",
         16u << 20, 1u << 30, NULL},
        {"cache-entries", EX_NUMBER, &c->cache_entries, "N",
         "keys the DPU can answer for; default 4194304", 1024, UINT64_C(8000000000), NULL},
        {"offload", EX_PARSE, c, "on|all|off",
         "the DPU answers GETs of what only the device has (default), of all the device has, or "
         "none",
         0, 0, kv_offload_parse},
        {"qos", EX_PARSE, c, "off|gimbal",
         "share the device among tenants by a storage switch; default off: first come, first "
         "served",
         0, 0, kv_qos_parse},
        {"tenant-by", EX_PARSE, c, "database|client",
         "a tenant is a database (SELECT; default) or a client's name (CLIENT SETNAME)", 0, 0,
         kv_by_parse},
        {"tenant", EX_PARSE, c, "NAME[:weight=N][:bytes=N][:ios=N]",
         "weight (1 to 256), caps per second of a database (its number) or client ('default': all "
         "others); may be repeated",
         0, 0, kv_tenant_option},
        {"thresh-min", EX_NUMBER, &c->thresh_min_us, "US",
         "with --qos: the device's latency that means no congestion, a little above the highest of "
         "one request at a time; default: learned; from 1500 on set --thresh-max, too",
         1, 10000000, NULL},
        {"thresh-max", EX_NUMBER, &c->thresh_max_us, "US",
         "with --qos: the latency that means overload, above the lowest at full load; default: "
         "learned; up to 250 set --thresh-min, too",
         2, 10000000, NULL},
        {"write-cost", EX_NUMBER, &c->write_cost, "1..32",
         "with --qos: what a write costs at worst, in reads of its size; default: 9, or what was "
         "learned if it is more",
         1, 32, NULL},
        {"devices", EX_TEXT, &c->devices, "FILE",
         "with --qos: keep here what the switch learns of the device", 0, 0, NULL},
        {"device-depth", EX_NUMBER, &c->device_depth, "N", "most requests on it; default 1024", 1,
         32768, NULL},
        {"single-process", EX_FLAG, &c->server.single_process, NULL, "both roles as threads", 0, 0,
         NULL},
        {"hash-seed", EX_TEXT, &c->seed, "HEX", "of key hashes, 32 digits, the same for both roles",
         0, 0, NULL},
        {"databases", EX_NUMBER, &c->databases, "N", "for SELECT; default 16", 1, 4096, NULL},
    };

    count = ex_server_options(&c->server, all);
    memcpy(all + count, options, sizeof(options));
    count += SNIC_COUNTOF(options);
    count += kv_limit_options(c, all + count);
    ex_options(argc, argv, all, count, summary);
    kv_options_together(c);
}

/* Does the server listen where others reach it, and everybody may use it? */
static void kv_protect(const struct kv_config *c)
{
    if (c->settings.protected_mode && c->settings.password[0] == 0 && !kv_local(c))
        ex_usage("--listen: '%s' can be reached from other machines: set --requirepass PASSWORD, "
                 "or --protected-mode no to let everybody read and write",
                 c->server.listen);
}

/* The seed of key hashes: random, unless the supervisor or the user gave one. */
static void kv_seed(struct kv_config *c)
{
    unsigned long long low;
    unsigned long long high;
    static char text[33];

    if (c->seed == NULL) {
        if (getrandom(c->hash_seed, sizeof(c->hash_seed), 0) != (ssize_t)sizeof(c->hash_seed))
            ex_die("cannot get random numbers: getrandom: %s", strerror(errno));
        snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)c->hash_seed[0],
                 (unsigned long long)c->hash_seed[1]);
        c->seed = text;
        return;
    }
    if (strlen(c->seed) != 32 || strspn(c->seed, "0123456789abcdefABCDEF") != 32 ||
        sscanf(c->seed, "%16llx%16llx", &low, &high) != 2)
        ex_usage("--hash-seed: '%s' is not 32 hexadecimal digits", c->seed);
    c->hash_seed[0] = low;
    c->hash_seed[1] = high;
}

int main(int argc, char **argv)
{
    struct kv_config c = {
        .server = {.name = "kv",
                   .listen = "127.0.0.1:6379",
                   .file = "kv.img",
                   .directory = "kv.dir",
                   .conns_max = 1024,
                   .log_level = EX_INFO},
        .sync = KV_SYNC_ALWAYS,
        .sync_ms = 1000,
        .memory = 256u << 20,
        .segment = 64u << 20,
        .cache_entries = 4u << 20,
        .message_max = KV_MESSAGE_DEFAULT,
        .databases = 16,
    };

    resp_settings_default(&c.settings);
    kv_options(&c, argc, argv);
    ex_server_begin(&c.server);
    kv_seed(&c);
    kv_protect(&c);
    switch (c.server.role) {
    case EX_ROLE_MONOLITH:
        return kv_run_monolith(&c);
    case EX_ROLE_SINGLE:
        return kv_run_single(&c);
    case EX_ROLE_DPU:
        return kv_run_dpu(&c);
    case EX_ROLE_HOST:
        return kv_run_host(&c);
    case EX_ROLE_SUPERVISOR:
        break;
    }
    return ex_supervise(c.seed, argc, argv);
}
