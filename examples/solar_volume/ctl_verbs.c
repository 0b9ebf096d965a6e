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
    uint64_t size;
    uint64_t server;
    uint64_t iops;
    uint64_t bandwidth;
    enum ex_level level;
} vo = {.control = "127.0.0.1:7100",
        .iops = SNIC_CONTROL_KEEP, /* not named */
        .bandwidth = SNIC_CONTROL_KEEP,
        .level = EX_WARNING};

struct moving {
    uint64_t segment;
    uint32_t server;
};

static struct {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_control_call *call;
    struct snic_control_msg m; /* what is asked */
    const char *verb;
    void (*next)(void); /* when it has ended well, and there is no next page */
    struct moving *moving;
    size_t count, room, at;
    uint64_t failed;
    struct snic_timer timer;
    uint32_t tries;
    int code;
} vb;

/* ---- Asking ---- */

static void ask(uint32_t type)
{
    vb.m.type = (uint8_t)type;
    int r = snic_control_call_ask(vb.call, &vb.m);
    if (r != 0)
        ex_die("%s: %s", vb.verb, snic_strerror(r));
}

static void end(void)
{
    snic_loop_stop(vb.loop);
}

static void why(const char *what, int status)
{
    const char *text = snic_strerror(status);
    if (status == SNIC_EOVERFLOW)
        text = "its leases, or the moves of one lease, are used up";
    if (status == SNIC_EHOSTUNREACH)
        text = "a server that takes part is not here";
    if (status == SNIC_EBUSY)
        text = "it is in use";
    if (status == SNIC_EBUSY && vb.m.type == SNIC_CONTROL_FORGET)
        text = "it is here";
    if (status == SNIC_EBUSY && vb.m.type == SNIC_CONTROL_REISSUE)
        text = "it is in use (revoke ends its client's lease)";
    if (status == SNIC_ENOTEMPTY)
        text = "segments are there: move them away, or delete their disks";
    if (status == SNIC_EEXIST && vb.m.type == SNIC_CONTROL_REISSUE)
        text = "the disk of that name and .reissue is in the way, and not empty";
    if (status == SNIC_EINVAL && vb.m.type == SNIC_CONTROL_CREATE)
        text = "a disk is of whole blocks of 4096 bytes, and its name does not end in .reissue";
    if (status == SNIC_ECONNRESET)
        text = "the catalog went away: it is not known whether it was done";
    fprintf(stderr, "solar_volume: %s: %s\n", what, text);
}

static void qos_line(const struct snic_control_qos *q)
{
    printf(" iops=%" PRIu64 " bandwidth=%" PRIu64, q->ios_per_second, q->bytes_per_second);
}

static void moving_add(const struct snic_control_item *it)
{
    if (vb.count == vb.room) {
        vb.room = vb.room * 2 + 64;
        vb.moving = realloc(vb.moving, vb.room * sizeof(*vb.moving));
        if (vb.moving == NULL)
            ex_die("no memory");
    }
    vb.moving[vb.count].segment = it->segment;
    vb.moving[vb.count++].server = it->server;
}

static void item(void *ctx, const struct snic_control_msg *m)
{
    char a[160] = "";
    (void)ctx;
    if (m->type == SNIC_CONTROL_DISK) {
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
        for (uint32_t i = 0; i < m->count; i++) {
            if (strcmp(vb.verb, "move") == 0)
                moving_add(&m->item[i]);
            else
                printf("segment %" PRIu64 " server=%" PRIu32 " generation=%" PRIu32 ".%" PRIu32
                       "%s\n",
                       m->item[i].segment, m->item[i].server, m->item[i].gen >> 16,
                       m->item[i].gen & 0xffff, m->item[i].status ? " moves" : "");
        }
    }
}

static void done(void *ctx, int status, uint64_t value)
{
    int pages = vb.m.type >= SNIC_CONTROL_DISKS && vb.m.type <= SNIC_CONTROL_SEGMENTS;
    (void)ctx;
    if (status != 0 && vb.m.type == SNIC_CONTROL_MOVE && vb.next != end) {
        vb.next(); /* the others go on */
        return;
    }
    if (status != 0) {
        why(vb.verb, status);
        vb.code = 1;
        end();
    } else if (pages && value != 0) {
        vb.m.value = value;
        ask(vb.m.type);
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
    ask(SNIC_CONTROL_CREATE);
}

static void delete (void)
{
    ask(SNIC_CONTROL_DELETE);
}

static void forget(void)
{
    vb.m.server = (uint32_t)vo.server;
    ask(SNIC_CONTROL_FORGET);
}

static void revoke(void)
{
    ask(SNIC_CONTROL_REVOKE);
}

static void reissue(void)
{
    ask(SNIC_CONTROL_REISSUE);
}

/* Bursts have no options; a program may have set them. */
static void qos(void)
{
    vb.m.qos.ios_per_second = vo.iops;
    vb.m.qos.bytes_per_second = vo.bandwidth;
    vb.m.qos.burst_ios = vb.m.qos.burst_bytes = SNIC_CONTROL_KEEP;
    ask(SNIC_CONTROL_SET_QOS);
}

static void list_nodes(void)
{
    vb.next = end;
    ask(SNIC_CONTROL_NODES);
}

static void list(void)
{
    vb.next = list_nodes;
    ask(SNIC_CONTROL_DISKS);
}

static void show(void)
{
    ask(SNIC_CONTROL_SEGMENTS);
}

/* Those of a disk that are elsewhere, one after the other; one that is busy is tried again. */
static void move_next(void);

static void move_again(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now;
    vb.m.segment = vb.moving[vb.at].segment;
    vb.m.server = (uint32_t)vo.server;
    vb.next = move_next;
    ask(SNIC_CONTROL_MOVE);
}

static void move_all_done(void *ctx, int status, uint64_t value)
{
    if (vb.m.type != SNIC_CONTROL_MOVE) {
        done(ctx, status, value);
        return;
    }
    if (status != 0 && status != SNIC_ENOENT && status != SNIC_ECONNRESET && ++vb.tries < 100) {
        snic_loop_arm(vb.loop, &vb.timer, snic_loop_now(vb.loop) + UINT64_C(50000000));
        return;
    }
    if (status != 0) {
        char what[64];
        snprintf(what, sizeof(what), "segment %" PRIu64, vb.moving[vb.at].segment);
        why(what, status);
        vb.code = 1;
        if (status == SNIC_ECONNRESET) {
            end();
            return;
        }
    }
    vb.at++;
    vb.tries = 0;
    move_next();
}

static void move_next(void)
{
    while (vb.at < vb.count && vb.moving[vb.at].server == vo.server)
        vb.at++;
    if (vb.at == vb.count)
        end();
    else
        move_again(NULL, 0);
}

static void move(void)
{
    char *rest;
    if (strcmp(vo.segment, "all") == 0) {
        vb.next = move_next;
        ask(SNIC_CONTROL_SEGMENTS);
        return;
    }
    vb.m.segment = strtoull(vo.segment, &rest, 10);
    if (vo.segment[0] < '0' || vo.segment[0] > '9' || *rest != 0)
        ex_die("'%s' is neither a segment's number nor all", vo.segment);
    vb.m.server = (uint32_t)vo.server;
    ask(SNIC_CONTROL_MOVE);
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
    {"move", {"name", "segment", "server"}, "NAME N|all SERVER", "while I/O goes on", move},
    {"reissue", {"name"}, "NAME", "new leases for a disk whose leases are used up", reissue},
    {"forget", {"server"}, "SERVER", "one that never comes again, and has no segments", forget},
    {"revoke", {"name"}, "NAME", "its client may not write any more", revoke},
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
        {"control", EX_TEXT, &vo.control, "ADDR:PORT", "the catalog's process (127.0.0.1:7100)", 0,
         0, NULL},
        {"name", EX_TEXT, &vo.name, "NAME", "a disk", 0, 0, NULL},
        {"size", EX_SIZE, &vo.size, "SIZE", "of a new disk", 4096, SNIC_VOLUME_DISK_BYTES_MAX,
         NULL},
        {"segment", EX_TEXT, &vo.segment, "N|all", "to move", 0, 0, NULL},
        {"disk-key", EX_TEXT, &vo.disk_key, "FILE",
         "a new disk is encrypted with this key, which stays with the clients", 0, 0, NULL},
        {"server", EX_NUMBER, &vo.server, "N", "to move to, or to forget", 1,
         SNIC_CONTROL_SERVERS_MAX, NULL},
        {"iops", EX_NUMBER, &vo.iops, "N", "most I/Os a second; 0: no limit", 0, UINT32_MAX, NULL},
        {"bandwidth", EX_SIZE, &vo.bandwidth, "SIZE", "most bytes a second; 0: no limit", 0,
         UINT64_C(1) << 40, NULL},
        {"log", EX_PARSE, &vo.level, "error|warning|info|debug", "what to log", 0, 0, ex_log_parse},
    };
    char *args[64];
    static char text[4][256];
    int n = 0, i = 1;
    args[n++] = argv[0];
    for (int k = 0; k < 4 && v->arguments[k] != NULL && i < argc && argv[i][0] != '-'; k++, i++) {
        snprintf(text[k], sizeof(text[k]), "--%s=%s", v->arguments[k], argv[i]);
        args[n++] = text[k];
    }
    for (; i < argc && n < 64; i++)
        args[n++] = argv[i];
    ex_options(n, args, table, SNIC_COUNTOF(table), v->help);
    ex_log_set(vo.level, "ctl");
    if (v->begin == qos && vo.iops == SNIC_CONTROL_KEEP && vo.bandwidth == SNIC_CONTROL_KEEP)
        ex_die("qos: nothing is named: --iops N, --bandwidth SIZE, or both (0: no limit)");
    if (vo.disk_key != NULL && v->begin != create)
        ex_die("--disk-key: a disk has its key from its creation on");
    if ((v->arguments[0] != NULL && v->begin != forget && vo.name == NULL) ||
        (v->begin == forget && vo.server == 0) || (v->begin == create && vo.size == 0) ||
        (v->begin == move && (vo.segment == NULL || vo.server == 0)))
        ex_die("usage: solar_volume ctl %s %s", v->name, v->usage);
    if (vo.name != NULL && !snic_control_name_ok(vo.name))
        ex_die("'%s': a name is of letters, digits, '.', '_', '-', at most %u of them", vo.name,
               SNIC_CONTROL_NAME - 1);
}

int ctl_verb(const char *verb, int argc, char **argv, int *code)
{
    static const struct snic_control_call_events ev = {.item = item, .done = move_all_done};
    static const struct snic_control_call_events single = {.item = item, .done = done};
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
    vb.net = sv_net(vb.loop, 1, 8, 0);
    vb.verb = v->name;
    vb.next = end;
    if (vo.name != NULL)
        memcpy(vb.m.name, vo.name, strlen(vo.name));
    snic_timer_init(&vb.timer, move_again);
    int all = v->begin == move && strcmp(vo.segment, "all") == 0;
    size_t size = snic_control_call_memsize();
    int r = snic_control_call_open(&vb.call, sv_memory(size), size, vb.net, &a, all ? &ev : &single,
                                   NULL);
    if (r != 0)
        ex_die("%s: %s", vo.control, snic_strerror(r));
    v->begin();
    (void)snic_loop_run(vb.loop);
    free(snic_control_call_close(vb.call));
    free(vb.moving);
    snic_net_shut(vb.net);
    snic_loop_close(vb.loop);
    *code = vb.code;
    return 1;
}
