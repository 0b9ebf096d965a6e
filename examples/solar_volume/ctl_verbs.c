/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An operator's verbs: each is one or several requests to the catalog's process. */
#include "ctl.h"
#include "keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *control;
    const char *name;
    const char *segment;
    const char *disk_key;
    const char *wire_key;
    uint64_t size;
    uint64_t server;
    uint64_t iops;
    uint64_t bandwidth;
    enum ex_level level;
} vo = {.control = "127.0.0.1:7100",
        .iops = SNIC_CONTROL_KEEP, /* not named */
        .bandwidth = SNIC_CONTROL_KEEP,
        .level = EX_WARNING};

struct ctl_query vb;
static uint64_t segments; /* that show has shown */

/* ---- Asking ---- */

void ctl_end(void)
{
    vb.over = 1;
    snic_loop_stop(vb.loop);
}

void ctl_fail(void)
{
    vb.code = 1;
    ctl_end();
}

/* Statuses of the catalog's, and of the connection to it, are the same numbers. */
static int catalog_gone(void)
{
    const struct snic_control_msg any = {.type = SNIC_CONTROL_NODES};
    vb.over = 1; /* the answer is not waited for */
    return snic_control_operator_request(vb.call, &any) == SNIC_EPIPE;
}

/* The verb and what it is about: a disk, a server, or nothing. */
static const char *subject(void)
{
    static char text[SNIC_CONTROL_NAME + 64];
    int n = snprintf(text, sizeof(text), "%s", vb.verb);
    if (vo.name != NULL)
        snprintf(text + n, sizeof(text) - (size_t)n, ": disk %s", vo.name);
    else if (vo.server != 0)
        snprintf(text + n, sizeof(text) - (size_t)n, ": server %" PRIu64, vo.server);
    return text;
}

void ctl_report_gone(int status)
{
    if (status == SNIC_EVERSION)
        fprintf(stderr,
                "solar_volume: %s: the catalog at %s uses another version of the control protocol "
                "than this program (%u): use the same release for both\n",
                subject(), vo.control, SNIC_CONTROL_VERSION);
    else if (status == SNIC_ENFILE)
        fprintf(
            stderr,
            "solar_volume: %s: all connections of the catalog at %s are in use (--connections of "
            "ctl serve): nothing was changed, try again\n",
            subject(), vo.control);
    else if (status == SNIC_EACCES)
        fprintf(stderr, "solar_volume: %s: the catalog at %s %s\n", subject(), vo.control,
                vo.wire_key != NULL ? "does not accept the key of --wire-key"
                                    : "requires a key: --wire-key FILE is needed");
    else if (status == SNIC_ENOTSUP)
        fprintf(
            stderr,
            "solar_volume: %s: the catalog at %s was started without --wire-key and cannot prove "
            "that it is the right one\n",
            subject(), vo.control);
    else if (!vb.answered && status != SNIC_ECONNRESET && status != SNIC_EPIPE)
        fprintf(stderr, "solar_volume: %s: cannot connect to the catalog at %s (--control): %s\n",
                subject(), vo.control, snic_strerror(status));
    else
        fprintf(stderr, "solar_volume: %s: connection to the catalog at %s lost (%s)%s\n",
                subject(), vo.control, snic_strerror(status),
                vb.m.type >= SNIC_CONTROL_DISKS ? "" : ": the outcome is unknown");
}

void ctl_request(uint32_t type)
{
    vb.m.type = (uint8_t)type;
    int r = snic_control_operator_request(vb.call, &vb.m);
    if (r == 0)
        return;
    ctl_report_gone(r);
    exit(1);
}

static void why(int status)
{
    const char *text = snic_strerror(status);
    if (status == SNIC_EOVERFLOW)
        text = "its leases are used up (reissue gives it new ones)";
    if (status == SNIC_EHOSTUNREACH)
        text = "a server that takes part is not connected (list shows which)";
    if (status == SNIC_EBUSY)
        text = "it is in use";
    if (status == SNIC_EBUSY && vb.m.type == SNIC_CONTROL_FORGET)
        text = "it is connected: stop it first";
    if (status == SNIC_EBUSY && vb.m.type == SNIC_CONTROL_REISSUE)
        text = "it is in use (revoke ends its client's lease)";
    if (status == SNIC_ENOTEMPTY)
        text = "it has segments: move them away, or delete their disks";
    if (status == SNIC_EEXIST && vb.m.type == SNIC_CONTROL_REISSUE)
        text = "the disk of that name with .reissue exists, and is not empty";
    if (status == SNIC_EEXIST && vb.m.type == SNIC_CONTROL_CREATE)
        text = "a disk of that name exists";
    if (status == SNIC_ENOENT)
        text = vb.m.type == SNIC_CONTROL_FORGET ? "no server of that number in the catalog"
                                                : "no disk of that name in the catalog";
    if (status == SNIC_EINVAL && vb.m.type == SNIC_CONTROL_CREATE)
        text = vb.m.bytes % 4096 != 0 || vb.m.bytes == 0
                   ? "the size must be a multiple of 4096 bytes"
                   : "names that end in .reissue are reserved";
    if (status == SNIC_ENOSPC && vb.m.type == SNIC_CONTROL_CREATE)
        text = "the catalog has as many disks as it may have: raise --disks of ctl serve";
    fprintf(stderr, "solar_volume: %s: %s\n", subject(), text);
}

static void qos_line(const struct snic_control_qos *q)
{
    printf(" iops=%" PRIu64 " bandwidth=%" PRIu64, q->ios_per_second, q->bytes_per_second);
}

static void item(void *ctx, const struct snic_control_msg *m)
{
    char a[160] = "";
    (void)ctx;
    if (vb.over)
        return;
    vb.answered = 1;
    if (vb.begin == ctl_move) {
        ctl_move_item(m);
    } else if (m->type == SNIC_CONTROL_DISK) {
        printf("disk %s number=%" PRIu32 " size=%" PRIu64 " segments=%" PRIu64 " lease=%" PRIu32
               " held=%d",
               m->name, m->vd, m->bytes, m->value, m->lease, m->flags);
        qos_line(&m->qos);
        if ((m->key[0] | m->key[1]) != 0)
            printf(" key=%016" PRIx64 "\n", m->key[0]);
        else
            printf(" key=none\n");
    } else if (m->type == SNIC_CONTROL_NODE) {
        (void)snic_net_addr_format(&m->addr, a, sizeof(a));
        printf("server %" PRIu32 " %s at=%s segments=%" PRIu64 " free=%" PRIu64 " places=%" PRIu64
               "\n",
               m->server, m->flags ? "up" : "down", a, m->segment, m->bytes, m->value);
    } else if (m->type == SNIC_CONTROL_SEGMENT) {
        segments += m->count;
        for (uint32_t i = 0; i < m->count; i++)
            printf("segment %" PRIu64 " server=%" PRIu32 " generation=%" PRIu32 ".%" PRIu32 "%s\n",
                   m->item[i].segment, m->item[i].server, m->item[i].gen >> 16,
                   m->item[i].gen & 0xffff, m->item[i].status ? " moves" : "");
    }
}

static void done(void *ctx, int status, uint64_t value)
{
    int pages = vb.m.type >= SNIC_CONTROL_DISKS && vb.m.type <= SNIC_CONTROL_SEGMENTS;
    (void)ctx;
    if (vb.m.type == SNIC_CONTROL_MOVE) {
        ctl_move_done(status);
        return;
    }
    if (status != 0) {
        if (catalog_gone())
            ctl_report_gone(status);
        else
            why(status);
        ctl_fail();
        return;
    }
    vb.answered = 1;
    if (pages && value != 0) {
        vb.m.value = value;
        ctl_request(vb.m.type);
    } else {
        vb.m.value = 0;
        vb.next();
    }
}

/* ---- Verbs ---- */

static void create(void)
{
    vb.m.bytes = vo.size;
    vb.m.qos.ios_per_second = vo.iops == SNIC_CONTROL_KEEP ? 0 : vo.iops;
    vb.m.qos.bytes_per_second = vo.bandwidth == SNIC_CONTROL_KEEP ? 0 : vo.bandwidth;
    key_disk_check(vo.disk_key, vb.m.key);
    ctl_request(SNIC_CONTROL_CREATE);
}

static void delete (void)
{
    ctl_request(SNIC_CONTROL_DELETE);
}

static void forget(void)
{
    vb.m.server = (uint32_t)vo.server;
    ctl_request(SNIC_CONTROL_FORGET);
}

static void revoke(void)
{
    ctl_request(SNIC_CONTROL_REVOKE);
}

static void reissue(void)
{
    ctl_request(SNIC_CONTROL_REISSUE);
}

/* Bursts have no options; a program may have set them. */
static void qos(void)
{
    vb.m.qos.ios_per_second = vo.iops;
    vb.m.qos.bytes_per_second = vo.bandwidth;
    vb.m.qos.burst_ios = vb.m.qos.burst_bytes = SNIC_CONTROL_KEEP;
    ctl_request(SNIC_CONTROL_SET_QOS);
}

static void list_nodes(void)
{
    vb.next = ctl_end;
    ctl_request(SNIC_CONTROL_NODES);
}

static void list(void)
{
    vb.next = list_nodes;
    ctl_request(SNIC_CONTROL_DISKS);
}

static void shown(void)
{
    if (segments == 0)
        printf("disk %s: no segment is placed yet\n", vo.name);
    ctl_end();
}

static void show(void)
{
    vb.next = shown;
    ctl_request(SNIC_CONTROL_SEGMENTS);
}

/* ---- The table ---- */

struct verb {
    const char *name;
    const char *arguments[4]; /* of these options, without their names */
    const char *usage;
    const char *help;
    void (*begin)(void);
};

static const struct verb verbs[] = {
    {"create",
     {"name", "size"},
     "NAME SIZE",
     "a new disk (--iops, --bandwidth, --disk-key)",
     create},
    {"delete", {"name"}, "NAME", "its blocks are gone", delete},
    {"list", {NULL}, "", "disks and servers", list},
    {"show", {"name"}, "NAME", "where its segments are", show},
    {"qos",
     {"name"},
     "NAME",
     "change what is named of its limits (--iops, --bandwidth; 0: none)",
     qos},
    {"move", {"name", "segment", "server"}, "NAME N|all SERVER", "while I/O continues", ctl_move},
    {"reissue", {"name"}, "NAME", "new leases for a disk whose leases are used up", reissue},
    {"forget", {"server"}, "SERVER", "one that never comes again, and has no segments", forget},
    {"revoke", {"name"}, "NAME", "its client is refused from now on", revoke},
};

void ctl_verbs_help(FILE *to)
{
    for (size_t i = 0; i < SNIC_COUNTOF(verbs); i++)
        fprintf(to, "  %-8s %-20s  %s\n", verbs[i].name, verbs[i].usage, verbs[i].help);
}

/* Arguments become options of their names. */
static void options(const struct verb *v, int argc, char **argv)
{
    static const struct ex_option table[] = {
        {"control", EX_TEXT, &vo.control, "ADDRESS:PORT", "the catalog's process (127.0.0.1:7100)",
         0, 0, NULL},
        {"name", EX_TEXT, &vo.name, "NAME", "a disk", 0, 0, NULL},
        {"size", EX_SIZE, &vo.size, "BYTES", "of a new disk", 4096, SNIC_VOLUME_DISK_BYTES_MAX,
         NULL},
        {"segment", EX_TEXT, &vo.segment, "N|all", "to move", 0, 0, NULL},
        {"disk-key", EX_TEXT, &vo.disk_key, "FILE",
         "a new disk is encrypted with this key, which stays with the clients", 0, 0, NULL},
        {"wire-key", EX_TEXT, &vo.wire_key, "FILE",
         "prove this key, which the catalog has, and be proven it", 0, 0, NULL},
        {"server", EX_NUMBER, &vo.server, "N", "to move to, or to forget", 1,
         SNIC_CONTROL_SERVERS_MAX, NULL},
        {"iops", EX_NUMBER, &vo.iops, "N", "most I/Os a second; 0: no limit", 0, UINT32_MAX, NULL},
        {"bandwidth", EX_SIZE, &vo.bandwidth, "BYTES", "most bytes a second; 0: no limit", 0,
         UINT64_C(1) << 40, NULL},
        {"log-level", EX_PARSE, &vo.level, "error|warning|info|debug", "default warning", 0, 0,
         ex_log_parse},
        {.name = "log", .kind = EX_RENAMED, .value = "log-level"},
    };
    char *args[64];
    static char text[4][256];
    static char synopsis[64];
    int n = 0, i = 1;
    args[n++] = argv[0];
    for (int k = 0; k < 4 && v->arguments[k] != NULL && i < argc && argv[i][0] != '-'; k++, i++) {
        snprintf(text[k], sizeof(text[k]), "--%s=%s", v->arguments[k], argv[i]);
        args[n++] = text[k];
    }
    for (; i < argc && n < 64; i++)
        args[n++] = argv[i];
    snprintf(synopsis, sizeof(synopsis), "ctl %s%s%s [OPTION]...", v->name,
             v->usage[0] != 0 ? " " : "", v->usage);
    ex_synopsis = synopsis;
    ex_options(n, args, table, SNIC_COUNTOF(table), v->help);
    ex_log_set(vo.level, NULL);
    if (v->begin == qos && vo.iops == SNIC_CONTROL_KEEP && vo.bandwidth == SNIC_CONTROL_KEEP)
        ex_usage("qos: --iops N, --bandwidth SIZE, or both are needed (0: no limit)");
    if (vo.disk_key != NULL && v->begin != create)
        ex_usage("--disk-key is for create: a disk has one key from its creation on");
    if ((v->arguments[0] != NULL && v->begin != forget && vo.name == NULL) ||
        (v->begin == forget && vo.server == 0) || (v->begin == create && vo.size == 0) ||
        (v->begin == ctl_move && (vo.segment == NULL || vo.server == 0)))
        ex_usage("%s: arguments are missing: solar_volume ctl %s %s", v->name, v->name, v->usage);
    if (vo.name != NULL && !snic_control_name_ok(vo.name))
        ex_usage("'%s' is not the name of a disk: at most %u letters, digits, '.', '_' and '-'",
                 vo.name, SNIC_CONTROL_NAME - 1);
}

int ctl_verb(const char *verb, int argc, char **argv, int *code)
{
    static const struct snic_control_operator_events ev = {.item = item, .done = done};
    const struct verb *v = NULL;
    struct snic_net_addr a;
    for (size_t i = 0; i < SNIC_COUNTOF(verbs) && v == NULL; i++)
        if (strcmp(verbs[i].name, verb) == 0)
            v = &verbs[i];
    if (v == NULL)
        return 0;
    options(v, argc, argv);
    ex_address("control", vo.control, &a);
    vb.loop = ex_loop_open(0);
    vb.net = sv_net(vb.loop, 1, 8, SV_POOL, 0);
    vb.verb = v->name;
    vb.begin = v->begin;
    vb.control = vo.control;
    vb.name = vo.name;
    vb.segment = vo.segment;
    vb.server = vo.server;
    vb.next = ctl_end;
    if (vo.name != NULL)
        memcpy(vb.m.name, vo.name, strlen(vo.name));
    struct key_wire wire = {.sec = NULL};
    struct snic_control_auth auth = {.sec = NULL};
    if (vo.wire_key != NULL) {
        key_wire_open(vo.wire_key, &wire);
        key_auth(&wire, &auth, sv_seed());
    }
    const struct snic_control_operator_opts o = {.opts_size = sizeof(o),
                                                 .loop = vb.loop,
                                                 .net = vb.net,
                                                 .control = a,
                                                 .auth = vo.wire_key != NULL ? &auth : NULL};
    size_t size = snic_control_operator_memsize(&o);
    int r = snic_control_operator_open(&vb.call, sv_memory(size), size, &o, &ev, NULL);
    if (r != 0)
        ex_die("cannot connect to the catalog at %s (--control): %s", vo.control, snic_strerror(r));
    v->begin();
    (void)snic_loop_run(vb.loop);
    free(snic_control_operator_close(vb.call));
    key_wire_close(&wire);
    ctl_move_free();
    snic_net_shut(vb.net);
    snic_loop_close(vb.loop);
    *code = vb.code;
    return 1;
}
