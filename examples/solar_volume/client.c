/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A virtual disk as an NBD server. */
#include "keys.h"
#include "link.h"
#include "nbd.h"
#include "report.h"
#include "volume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *server;
    const char *socket;
    const char *local;
    const char *control;
    const char *name; /* of the disk; without a catalog its number */
    uint64_t disk;
    int take;
    struct snic_control_qos qos;
    uint64_t size;
    uint64_t epoch;
    uint64_t paths;
    uint64_t servers;
    uint64_t timeout;
    uint32_t transport; /* a set of one */
    int paper;
    const char *disk_key;
    const char *wire_key;
    uint64_t stats;
    const char *metrics;
    enum ex_level level;
} co = {.name = "1",
        .servers = LINK_SERVERS,
        .transport = SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR),
        .level = EX_INFO};

static struct {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_volume *v;
    struct snic_io *io;
    struct nbd *nbd;
    struct ex_stats *stats;
    struct key_wire wire;
    struct snic_control_auth auth;
    void *xts;
    uint64_t check[2]; /* of the disk's key */
} cl;

static int is_luna(void)
{
    return co.transport == SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA);
}

static void options_check(void)
{
    if (co.transport == SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR) && co.paths > 8)
        ex_usage("--paths: at most 8 with --transport solar");
    if ((co.transport & (co.transport - 1)) != 0)
        ex_usage("--transport: a client uses one transport: solar or luna");
    if (co.paper && (!is_luna() || co.paths > 1))
        ex_usage("--paper needs --transport luna, with one path (--paths)");
    if (co.wire_key != NULL && is_luna() && co.control == NULL)
        ex_usage("--wire-key: LUNA has no encryption on the wire: use --transport solar, or run it "
                 "over TLS or IPsec");
    if (co.socket == NULL)
        ex_usage("--socket PATH is needed");
    if (co.control != NULL) {
        if (!snic_control_name_ok(co.name))
            ex_usage("--disk: '%s' is not the name of a disk (letters, digits, '.', '_' and '-')",
                     co.name);
        if (co.server != NULL || co.size != 0 || co.epoch != 0)
            ex_usage("--server, --size and --epoch exclude --control: the catalog knows them");
        return;
    }
    co.server = co.server == NULL ? "127.0.0.1:7000" : co.server;
    char *rest;
    co.disk = strtoull(co.name, &rest, 10);
    if (co.name[0] < '0' || co.name[0] > '9' || *rest != 0 || co.disk == 0 || co.disk > UINT32_MAX)
        ex_usage("--disk: '%s' is not the number of a disk: names need a catalog (--control)",
                 co.name);
    if (co.size == 0)
        ex_usage("--size SIZE is needed");
    if (co.epoch == 0)
        ex_usage("--epoch N is needed without --control: a higher number at each start of a client "
                 "of this disk, since writes of an older epoch fail");
    if (co.size % BLOCK_BYTES != 0)
        ex_usage("--size: must be a multiple of %d bytes", BLOCK_BYTES);
}

static void options(int argc, char **argv)
{
    static const struct ex_option table[] = {
        {"server", EX_TEXT, &co.server, "ADDRESS:PORT", "the block server", 0, 0, NULL},
        {"control", EX_TEXT, &co.control, "ADDRESS:PORT",
         "the catalog, which knows size, lease and servers of the disk", 0, 0, NULL},
        {"disk", EX_TEXT, &co.name, "NAME", "the disk; without a catalog its number", 0, 0, NULL},
        {"take", EX_FLAG, &co.take, NULL, "though another client has it, which is fenced", 0, 0,
         NULL},
        {"size", EX_SIZE, &co.size, "BYTES", "its size, where no catalog knows it", 4096,
         SNIC_VOLUME_DISK_BYTES_MAX, NULL},
        {"epoch", EX_NUMBER, &co.epoch, "N",
         "lease of the disk, where no catalog grants it: higher at each start of a client of this "
         "disk; writes of an epoch that was used before fail",
         1, 65535, NULL},
        {"socket", EX_TEXT, &co.socket, "PATH", "UNIX socket of the NBD server", 0, 0, NULL},
        {"local", EX_TEXT, &co.local, "ADDRESS",
         "bind the paths' sockets here (as the server's family)", 0, 0, NULL},
        {"transport", EX_PARSE, &co.transport, "solar|luna",
         "datagrams over several paths, or TCP (solar)", 0, 0, sv_transport},
        {"paths", EX_NUMBER, &co.paths, "N",
         "paths (solar, 4) or connections (luna, 2) to a server", 1, 16, NULL},
        {"servers", EX_NUMBER, &co.servers, "N",
         "with a catalog: connections to servers at a time, with 0.2 MiB of memory for each "
         "(solar); for one more, that of the server used least recently is closed, and opened "
         "again when it is needed (default: 256, all that a catalog can have)",
         2, LINK_SERVERS, NULL},
        {"io-timeout", EX_NUMBER, &co.timeout, "SECONDS",
         "answer I/O with an error (EIO) that no server has answered for so long; a write and all "
         "I/O of its segment (2 MiB) then fail until the server or the catalog confirms that no "
         "late copy is written (default: reads 60, and writes wait until then)",
         1, 86000, NULL},
        {"paper", EX_FLAG, &co.paper, NULL,
         "luna as published: one connection, no bound on how long it may hang", 0, 0, NULL},
        {"disk-key", EX_TEXT, &co.disk_key, "FILE",
         "the disk is encrypted with this key (`ctl key disk FILE` makes one)", 0, 0, NULL},
        {"wire-key", EX_TEXT, &co.wire_key, "FILE",
         "seal all packets with this key: one that the servers have, too, or the client's own, "
         "made of that (`ctl key client`) (solar); prove it to the catalog (--control)",
         0, 0, NULL},
        {"stats", EX_NUMBER, &co.stats, "SECONDS", "print a line of statistics", 0, 86400, NULL},
        {"metrics", EX_TEXT, &co.metrics, "ADDRESS:PORT", "serve them for Prometheus", 0, 0, NULL},
        {"log-level", EX_PARSE, &co.level, "error|warning|info|debug", "default info", 0, 0,
         ex_log_parse},
        {.name = "log", .kind = EX_RENAMED, .value = "log-level"},
    };
    ex_synopsis = "client [OPTION]...";
    ex_options(argc, argv, table, SNIC_COUNTOF(table), "Virtual disk for NBD clients.");
    ex_log_set(co.level, "client");
    options_check();
}

static void metric(struct ex_metric *m, size_t *count, const char *name, uint64_t value,
                   int counter)
{
    m[(*count)++] = (struct ex_metric){name, value, counter};
}

static void metrics_solar(struct ex_metric *m, size_t *count, const struct snic_solar_stats *s)
{
    metric(m, count, "inside", s->inside, 0);
    metric(m, count, "blocks_written", s->blocks_written, 1);
    metric(m, count, "blocks_read", s->blocks_read, 1);
    metric(m, count, "retransmits", s->retransmits, 1);
    metric(m, count, "hedges", s->hedges, 1);
    metric(m, count, "rerolls", s->rerolls, 1);
    metric(m, count, "resets", s->resets, 1);
    metric(m, count, "hellos", s->hellos, 1);
    metric(m, count, "slow", s->slow, 1);
    metric(m, count, "abandoned", s->abandoned, 1);
    metric(m, count, "busy", s->busy, 1);
    metric(m, count, "stale", s->stale_gens, 1);
    metric(m, count, "data_crc", s->data_crc, 1);
    metric(m, count, "unauthentic", s->unauthentic, 1);
    metric(m, count, "replayed", s->replayed, 1);
    metric(m, count, "other_version", s->versions, 1);
    metric(m, count, "forbidden", s->forbidden, 1);
    metric(m, count, "no_token", s->no_token, 1);
    metric(m, count, "tokens", s->tokens, 1);
}

static void metrics_luna(struct ex_metric *m, size_t *count, const struct snic_luna_stats *s)
{
    metric(m, count, "inside", s->inside, 0);
    metric(m, count, "blocks_written", s->blocks_written, 1);
    metric(m, count, "blocks_read", s->blocks_read, 1);
    metric(m, count, "replays", s->replays, 1);
    metric(m, count, "connects", s->connects, 1);
    metric(m, count, "resets", s->resets, 1);
    metric(m, count, "silences", s->silences, 1);
    metric(m, count, "violations", s->violations, 1);
    metric(m, count, "probes", s->probes, 1);
    metric(m, count, "slow", s->slow, 1);
    metric(m, count, "abandoned", s->abandoned, 1);
    metric(m, count, "busy", s->busy, 1);
    metric(m, count, "stale", s->stale_gens, 1);
    metric(m, count, "data_crc", s->data_crc, 1);
}

enum { LANE_METRICS = 6, LANES = SNIC_LUNA_CONNS_MAX };
SNIC_STATIC_ASSERT(LANES >= SNIC_SOLAR_PATHS_MAX, "both kinds of lanes");

/*
 * Of each path or connection to server @p server: pathN_up, ...; with a catalog, in which there are
 * several servers, serverID_pathN_up. Of those that fit.
 */
static void metrics_lane(struct ex_metric *m, size_t *count, uint32_t server, uint32_t lane,
                         const char *kind, const char *const *names, const uint64_t *values,
                         uint32_t counters)
{
    static char text[LINK_SERVERS][LANES][LANE_METRICS][40];
    char of[24] = "";
    if (*count + LANE_METRICS > EX_METRICS_MAX)
        return;
    if (co.control != NULL)
        snprintf(of, sizeof(of), "server%" PRIu32 "_", link_server(server));
    for (uint32_t k = 0; k < LANE_METRICS; k++) {
        char *name = text[server][lane][k];
        snprintf(name, sizeof(text[0][0][0]), "%s%s%" PRIu32 "_%s", of, kind, lane, names[k]);
        metric(m, count, name, values[k], (counters >> k & 1) != 0);
    }
}

static void metrics_conns(struct ex_metric *m, size_t *count, uint32_t server)
{
    static const char *const names[LANE_METRICS] = {"up",        "srtt_us",  "closes",
                                                    "bytes_out", "bytes_in", "outside"};
    struct snic_luna_conn_stats c;
    for (uint32_t i = 0; i < SNIC_LUNA_CONNS_MAX; i++) {
        if (snic_volume_get_conn(cl.v, server, i, &c) != 0)
            return;
        const uint64_t values[LANE_METRICS] = {c.state == SNIC_LUNA_UP,
                                               c.srtt_ns / 1000,
                                               c.closes,
                                               c.bytes_out,
                                               c.bytes_in,
                                               c.outside};
        metrics_lane(m, count, server, i, "conn", names, values, 0x1c);
    }
}

/* Windows are in blocks, the narrower one counts. */
static void metrics_paths(struct ex_metric *m, size_t *count, uint32_t server)
{
    static const char *const names[LANE_METRICS] = {"up",   "srtt_us", "window",
                                                    "sent", "lost",    "rerolls"};
    struct snic_solar_path_stats p;
    for (uint32_t i = 0; i < SNIC_SOLAR_PATHS_MAX && snic_volume_get_path(cl.v, server, i, &p) == 0;
         i++) {
        if (p.state == SNIC_SOLAR_CLOSED)
            continue;
        const uint64_t values[LANE_METRICS] = {p.state == SNIC_SOLAR_ALIVE,
                                               p.srtt_ns / 1000,
                                               snic_min_u64(p.window[0], p.window[1]) / 1024,
                                               p.sent,
                                               p.lost,
                                               p.rerolls};
        metrics_lane(m, count, server, i, "path", names, values, 0x38);
    }
}

/* Of each server that has refused: busyN, by the catalog's number. */
static void metrics_busy(struct ex_metric *m, size_t *count)
{
    static char text[LINK_SERVERS][16];
    for (uint32_t i = 0; i < LINK_SERVERS && *count < EX_METRICS_MAX; i++) {
        struct snic_ebs_busy is;
        if (snic_volume_get_busy(cl.v, i, &is) != 0 || is.count == 0)
            continue;
        snprintf(text[i], sizeof(text[i]), "busy%" PRIu32, co.control != NULL ? link_server(i) : 0);
        metric(m, count, text[i], is.count, 1);
    }
}

static size_t metrics(void *ctx, struct ex_metric *m)
{
    struct snic_volume_stats s;
    struct nbd_stats n;
    size_t count = 0;
    (void)ctx;
    snic_volume_get_stats(cl.v, &s);
    nbd_stats(cl.nbd, &n);
    metric(m, &count, "nbd_clients", n.clients, 0);
    metric(m, &count, "nbd_requests", n.requests, 1);
    metric(m, &count, "nbd_errors", n.errors, 1);
    metric(m, &count, "nbd_turned_away", n.turned_away, 1);
    if (is_luna())
        metrics_luna(m, &count, &s.luna);
    else
        metrics_solar(m, &count, &s.agent);
    metric(m, &count, "unsent", s.unsent, 1);
    if (!is_luna())
        metric(m, &count, "too_large", s.too_large, 1);
    if (co.control != NULL) {
        uint64_t released, crowded;
        link_crowd(&released, &crowded);
        metric(m, &count, "servers_released", released, 1);
        metric(m, &count, "servers_crowded", crowded, 1);
    }
    metrics_busy(m, &count);
    for (uint32_t i = 0; i < LINK_SERVERS; i++) {
        if (is_luna())
            metrics_conns(m, &count, i);
        else
            metrics_paths(m, &count, i);
    }
    return count;
}

/* Without a catalog: all segments are at the one server. */
static void map(void *ctx, uint32_t disk, uint64_t segment, uint32_t gen)
{
    uint32_t now = snic_volume_gen((uint32_t)co.epoch, 0);
    (void)ctx;
    if (co.control != NULL) {
        link_map(segment, gen);
        return;
    }
    if (gen >= now)
        return; /* there is no other place: it waits, which is logged (report.h) */
    int r = snic_volume_map(cl.v, disk, segment, co.disk << 32 | segment, 0, now);
    if (r != 0)
        ex_log(EX_ERROR, "disk segment %" PRIu64 " cannot be used: %s", segment, snic_strerror(r));
}

static void lease(void *ctx, uint32_t disk)
{
    (void)ctx;
    (void)disk;
    if (co.control != NULL)
        link_lease(); /* logs it */
    else
        ex_log(
            EX_ERROR,
            "--epoch %" PRIu64
            " was used before, or another client has a later one: writes fail from now on, and "
            "servers that know the later epoch refuse reads; start this client with a higher one",
            co.epoch);
}

static void token(void *ctx, uint32_t disk)
{
    (void)ctx;
    (void)disk;
    if (co.control != NULL)
        link_token();
}

static void drained(void *ctx)
{
    (void)ctx;
    snic_loop_stop(cl.loop);
}

static int signals;

static void stop(void *ctx)
{
    struct snic_volume_stats s;
    (void)ctx;
    if (signals++ != 0 || cl.nbd == NULL) {
        snic_loop_stop(cl.loop); /* again: at once */
        return;
    }
    snic_volume_get_stats(cl.v, &s);
    if (s.agent.inside + s.luna.inside != 0)
        ex_log(EX_INFO,
               "%" PRIu32 " I/Os are in flight: exiting when they complete, or at a second signal",
               s.agent.inside + s.luna.inside);
    nbd_drain(cl.nbd, drained, NULL);
}

static void report(void)
{
    struct report t = {.loop = cl.loop, .v = cl.v, .server = co.server, .control = co.control};
    t.disk = co.name;
    t.luna = (uint32_t)is_luna();
    t.sealed = co.wire_key != NULL && !is_luna();
    report_begin(&t);
}

/* A write fails when its time is over; within this time its server must confirm the fence. */
#define FENCE_NS UINT64_C(1000000000)

static void volume_open(void)
{
    static const struct snic_volume_events ev = {
        .map = map, .lease = lease, .suspect = report_suspect, .slow = report_slow, .token = token};
    struct snic_volume_opts o = {.opts_size = sizeof(o), .loop = cl.loop, .net = cl.net};
    struct snic_net_addr server;
    ex_address(co.control != NULL ? "control" : "server",
               co.control != NULL ? co.control : co.server, &server); /* of the same family */
    if (co.local != NULL)
        ex_address("local", co.local, &o.local);
    else
        o.local.family = server.family;
    o.depth = 2 * NBD_SMALL_MOST; /* the rest: large ones, block status */
    o.seed = sv_seed();
    o.client_epoch = (uint32_t)co.epoch;
    o.transport = is_luna() ? SNIC_VOLUME_LUNA : SNIC_VOLUME_SOLAR;
    o.flags = co.paper ? SNIC_VOLUME_PAPER : 0;
    o.sec = cl.wire.sec != NULL || cl.xts != NULL ? snic_ebs_openssl() : NULL;
    o.secret = is_luna() ? NULL : cl.wire.secret; /* LUNA shows tokens only */
    o.key_id = cl.wire.id;
    o.account = cl.wire.account;
    memcpy(o.wire_keys, cl.wire.keys, sizeof(o.wire_keys));
    o.paths = (uint32_t)co.paths;
    o.deadline_ns = co.timeout * UINT64_C(1000000000);
    o.error_ns = co.timeout != 0 ? o.deadline_ns + FENCE_NS : 0;
    o.servers_max = co.control != NULL ? (uint32_t)co.servers : 1;
    o.disks_max = 1;
    if (co.size > SNIC_VOLUME_DISK_BYTES_MAX)
        ex_die("disk %s has %" PRIu64 " bytes, and the largest that can be opened has %" PRIu64,
               co.name, co.size, SNIC_VOLUME_DISK_BYTES_MAX);
    o.chunks_max = (uint32_t)((co.size + (1u << 30) - 1) >> 30);
    o.disk_blocks_max = snic_max_u64(co.size / BLOCK_BYTES, SNIC_SEGMENTS_BLOCKS);
    size_t size = snic_volume_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the client: %s", snic_volume_opts_wrong(&o));
    int r = snic_volume_open(&cl.v, sv_memory(size), size, &o, &ev, NULL);
    if (r == 0 && co.control != NULL)
        link_volume(cl.v);
    else if (r == 0)
        r = snic_volume_server_add(cl.v, 0, &server);
    if (r == 0)
        report();
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = (uint32_t)co.epoch};
    d.vd_id = co.disk;
    d.bytes = co.size;
    d.bytes_per_second = co.qos.bytes_per_second;
    d.burst_bytes = co.qos.burst_bytes;
    d.ios_per_second = co.qos.ios_per_second;
    d.burst_ios = co.qos.burst_ios;
    d.xts_key = cl.xts;
    if (r == 0)
        r = snic_volume_disk_open(cl.v, 0, &d, &cl.io);
    if (r != 0)
        ex_die("cannot open the disk: %s", snic_strerror(r));
    if (co.control != NULL)
        link_show();
}

/* 1: the disk's lease is ours. */
static int catalog(void)
{
    struct snic_control_grant g;
    key_auth(&cl.wire, &cl.auth, sv_seed());
    if (!link_open(cl.loop, cl.net, co.control, co.wire_key != NULL ? &cl.auth : NULL, co.name,
                   co.take, co.disk_key, cl.check, (uint32_t)co.servers, &g))
        return 0;
    co.disk = g.vd;
    co.epoch = g.lease;
    co.size = g.bytes;
    co.qos = g.qos;
    return 1;
}

/* ---- Is it the disk's key? ---- */

enum { PROBED = 64 };

static int probe_over;

static void probed(struct snic_io_req *r)
{
    (void)r;
    probe_over = 1;
}

/* 1: block @p i has data, and this key reads them; 0: it has none, or a signal came; SNIC_E* */
static int probe(uint64_t i)
{
    static unsigned char block[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
    static struct snic_io_req r;
    struct snic_io_req *p = &r;
    snic_io_req_init(&r);
    r.done = probed;
    r.op = SNIC_IO_READ;
    r.offset = i * BLOCK_BYTES;
    r.length = r.buf.size = BLOCK_BYTES;
    r.buf.base = block;
    probe_over = 0;
    if (snic_io_submit(cl.io, &p, 1) != 1)
        return SNIC_EIO;
    while (!probe_over && signals == 0)
        (void)snic_loop_once(cl.loop, SNIC_NEVER);
    if (!probe_over || r.result < 0)
        return probe_over ? (int)r.result : 0;
    return block[0] != 0 || memcmp(block, block + 1, BLOCK_BYTES - 1) != 0;
}

/* No catalog knows the key's check value, so it is tested on the disk's first blocks: writes with
 * another key than before would leave a disk that no single key can read. */
static void key_probe(void)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < PROBED && i < co.size / BLOCK_BYTES && signals == 0; i++) {
        int r = probe(i);
        if (r == 1)
            return;
        wrong += r == SNIC_ECORRUPT;
    }
    if (wrong != 0)
        ex_die("disk %s was not written with the key in %s: use the key that it was created with",
               co.name, co.disk_key);
}

static void end(void)
{
    report_end();
    if (cl.v != NULL)
        free(snic_volume_close(cl.v));
    if (co.control != NULL)
        link_close(signals < 2); /* the lease is released in a message that has a MAC */
    key_wire_close(&cl.wire);
    snic_ebs_openssl_close(cl.xts);
    if (cl.nbd != NULL)
        nbd_close(cl.nbd);
    snic_net_shut(cl.net);
    ex_signals_off();
    snic_loop_close(cl.loop);
}

/* The catalog's connection, scrapers', and those that are closed and still end; other files. */
enum { STREAMS_BESIDE = 64, FILES_BESIDE = 192 };

/* Sockets for all servers: those of a path or connection that ends are there beside the new one. */
static void network(void)
{
    uint32_t servers = co.control != NULL ? (uint32_t)co.servers : 1;
    uint32_t lanes = (uint32_t)co.paths;
    if (lanes == 0)
        lanes = is_luna() ? 2 : 4;
    uint32_t datagrams = is_luna() ? 1 : (uint32_t)snic_max_u64(2 * servers * lanes, 64);
    uint32_t streams = (is_luna() ? 2 * servers * lanes : 0) + STREAMS_BESIDE;
    uint64_t files = sv_files((uint64_t)datagrams + streams + FILES_BESIDE);
    if (files < (uint64_t)servers * lanes + FILES_BESIDE)
        ex_log(EX_WARNING,
               "the limit of open files is %" PRIu64 ", and %" PRIu32 " servers need %" PRIu64
               ": raise it (ulimit -n, LimitNOFILE=) or lower --servers",
               files, servers, (uint64_t)servers * lanes + FILES_BESIDE);
    cl.net = sv_net(cl.loop, datagrams, streams, SV_POOL, 0);
}

int sv_client(int argc, char **argv)
{
    struct snic_net_addr at = {.family = SNIC_NET_UNIX};
    options(argc, argv);
    if (strlen(co.socket) >= sizeof(at.path))
        ex_usage("--socket: '%s' is too long for the path of a socket", co.socket);
    memcpy(at.path, co.socket, strlen(co.socket) + 1);
    if (co.wire_key != NULL)
        key_wire_open(co.wire_key, &cl.wire);
    if (co.disk_key != NULL)
        key_disk_open(co.disk_key, &cl.xts, cl.check);
    cl.loop = ex_loop_open(0);
    network();
    ex_signals(cl.loop, stop, NULL);
    if (co.control != NULL && !catalog()) {
        end();
        return 0;
    }
    volume_open();
    if (co.control == NULL && co.disk_key != NULL)
        key_probe();
    if (signals != 0) {
        end();
        return 0;
    }
    cl.nbd = nbd_open(cl.loop, &at);
    if (nbd_export(cl.nbd, co.name, cl.io) != 0)
        ex_die("too many disks in one process");
    if (ex_stats_start(&cl.stats, cl.loop, cl.net, "solar_client", co.stats, co.metrics, metrics,
                       NULL) != 0)
        return 1;
    printf("ready %s\n", co.socket);
    fflush(stdout);
    (void)snic_loop_run(cl.loop);
    ex_stats_stop(cl.stats);
    end();
    return 0;
}
