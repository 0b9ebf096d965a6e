/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A block server on files or devices. */
#include "clients.h"
#include "keys.h"
#include "store.h"
#include "tokens.h"
#include "volume.h"
#include "wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SV_STORES = SNIC_SEGMENTS_DISKS_MAX, SV_DISKS = 64 };

struct sv_disk {
    uint64_t vd;
    uint64_t bytes;
};

static struct {
    const char *listen;
    const char *control;
    const char *peer;
    const char *stores[SV_STORES];
    uint32_t store_count;
    uint64_t store_size;
    struct sv_disk disks[SV_DISKS];
    uint32_t disk_count;
    uint64_t stats;
    const char *metrics;
    enum ex_level level;
    int format;
    int salvage;
    uint32_t transports;
    const char *wire_key;
    const char *wire_key_before;
    const char *clients;
    uint64_t connections; /* 0: the defaults of the two transports */
    const char *token_key;
    int any_client;
} so = {.listen = "127.0.0.1:7000", .store_size = UINT64_C(1) << 30, .level = EX_INFO};

static struct {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_io *io[SV_STORES];
    struct snic_volume_server *server;
    struct ex_stats *stats;
    struct snic_control_agent *agent;
    struct snic_segments_req req;
    struct key_wire wire;
    unsigned char names[16]; /* the key of clients' numbers in the figures */
    struct snic_timer timer;
    uint64_t unauthentic; /* that were logged */
    uint64_t versions;    /* likewise */
    uint64_t logged_ns;   /* nothing of these is logged before */
    uint64_t refused_ns;  /* likewise, of the catalog's refusal */
    int refused;          /* why, last */
    uint64_t crowd;       /* clients' connections that were refused, as logged last */
    uint64_t lost;        /* blocks received damaged, since the last line about one */
    uint64_t lost_ns;
    uint32_t disk; /* whose segments are being made */
    uint64_t segment;
    int ready;
    int stopping; /* what is under way ends, and nothing follows it */
    int code;
} sv;

/* ---- Options ---- */

static int option_store(void *target, const char *text)
{
    (void)target;
    if (so.store_count == SV_STORES)
        ex_usage("--store %s: a store has at most %d devices", text, SV_STORES);
    if (text[0] == 0)
        return -1;
    so.stores[so.store_count++] = text;
    return 0;
}

/* NUMBER:SIZE */
static int option_disk(void *target, const char *text)
{
    const char *colon = strchr(text, ':');
    char number[24];
    struct sv_disk *d = &so.disks[so.disk_count];
    (void)target;
    if (so.disk_count == SV_DISKS)
        ex_usage("--disk %s: at most %d disks (a catalog, --control, has more)", text, SV_DISKS);
    if (colon == NULL || (size_t)(colon - text) >= sizeof(number))
        return -1;
    (void)snprintf(number, sizeof(number), "%.*s", (int)(colon - text), text);
    int r = ex_number(number, 0, &d->vd);
    int s = ex_number(colon + 1, 1, &d->bytes);
    if (r == -1 || s == -1)
        return -1;
    if (r != 0 || d->vd == 0 || d->vd > UINT32_MAX)
        ex_usage("--disk %s: %s is not between 1 and %u", text, number, UINT32_MAX);
    if (s != 0 || d->bytes == 0 || d->bytes > SNIC_VOLUME_DISK_BYTES_MAX)
        ex_usage("--disk %s: %s is not between 4K and %" PRIu64 "T", text, colon + 1,
                 SNIC_VOLUME_DISK_BYTES_MAX >> 40);
    for (uint32_t i = 0; i < so.disk_count; i++)
        if (so.disks[i].vd == d->vd)
            ex_usage("--disk %s: disk %" PRIu64 " is set twice", text, d->vd);
    if (d->bytes % SNIC_EBS_BLOCK_BYTES != 0)
        ex_usage("--disk %s: the size must be a multiple of %d bytes", text, SNIC_EBS_BLOCK_BYTES);
    so.disk_count++;
    return 0;
}

/* Of SOLAR's clients: a power of two. */
static uint32_t conns_max(void)
{
    return so.connections != 0 ? (uint32_t)snic_pow2_up(so.connections) : 256;
}

/* Options that open all disks to any sender need --any-client. @p each: clients have keys. */
static void options_open(int each)
{
    if (each || so.any_client || (so.wire_key == NULL && sv_loopback("listen", so.listen)))
        return;
    ex_usage("%s every client could use every disk: use --clients FILE, --token-key FILE (with "
             "--control), or --any-client to permit it",
             so.wire_key != NULL ? "with only --wire-key, a key that all clients share,"
                                 : "--listen is not a loopback address:");
}

static void options_keys(void)
{
    int each = so.clients != NULL || so.token_key != NULL; /* client has a key of its own */
    if (so.wire_key == NULL && (each || so.wire_key_before != NULL))
        ex_usage("--clients, --token-key and --wire-key-before need --wire-key FILE, from which "
                 "clients' keys are derived");
    if (!each && so.wire_key_before != NULL)
        ex_usage("--wire-key-before needs --clients or --token-key: without them exchange the key "
                 "at both ends together");
    if (so.token_key != NULL && so.control == NULL)
        ex_usage("--token-key needs --control: the catalog there signs tokens with the same keys");
    if (so.clients != NULL && (so.token_key != NULL || so.any_client))
        ex_usage("use one of --clients (a list of clients and their rights), --token-key (the "
                 "catalog has "
                 "that list) and --any-client (every client may use every disk)");
    if (so.token_key != NULL && so.any_client)
        ex_usage("--any-client contradicts --token-key: a client without a token may do nothing");
    if (so.wire_key == NULL) {
        options_open(each);
        return;
    }
    if ((so.transports & SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA)) != 0 && so.token_key == NULL)
        ex_usage("--wire-key: LUNA has no encryption on the wire, and would bypass the key: use "
                 "--transport solar, --token-key, or serve LUNA from another process, over TLS or "
                 "IPsec");
    if (so.control != NULL && so.peer == NULL)
        ex_usage(
            "--wire-key with --control needs --peer ADDRESS:PORT, in a network that only servers "
            "reach: segments are copied there without encryption");
    options_open(each);
    key_wire_open(so.wire_key, &sv.wire);
    if (sv.wire.account != 0)
        ex_die("key file %s is the key of a client: the server needs the wire key that it was "
               "derived from",
               so.wire_key);
    if (so.clients != NULL)
        clients_begin(so.clients, so.wire_key, so.wire_key_before);
    if (so.token_key != NULL) {
        accounts_begin(so.wire_key, so.wire_key_before, conns_max());
        tokens_begin(so.token_key);
    }
}

static void options(int argc, char **argv)
{
    static const struct ex_option table[] = {
        {"listen", EX_TEXT, &so.listen, "ADDRESS:PORT", "receive blocks here (UDP, TCP)", 0, 0,
         NULL},
        {"transport", EX_PARSE, &so.transports, "solar|luna|both",
         "serve SOLAR's clients (UDP), LUNA's (TCP), or both (default)", 0, 0, sv_transport},
        {"store", EX_PARSE, NULL, "FILE",
         "file or device of the store; several times: several devices", 0, 0, option_store},
        {"store-size", EX_SIZE, &so.store_size, "BYTES", "of a new file (1G)", UINT64_C(16) << 20,
         UINT64_C(1) << 46, NULL},
        {"format", EX_FLAG, &so.format, NULL, "begin anew: all that is in the store is gone", 0, 0,
         NULL},
        {"salvage", EX_FLAG, &so.salvage, NULL,
         "open a store whose log is damaged, without what that had: acknowledged writes are lost "
         "(at each start, until the log has gone round)",
         0, 0, NULL},
        {"disk", EX_PARSE, NULL, "N:BYTES",
         "have all segments of disk N here, where no catalog has the locations", 0, 0, option_disk},
        {"control", EX_TEXT, &so.control, "ADDRESS:PORT",
         "the catalog, which places segments on this server; clients are given the address of "
         "--listen",
         0, 0, NULL},
        {"peer", EX_TEXT, &so.peer, "ADDRESS:PORT",
         "for servers that copy segments from here (TCP, not encrypted; with --wire-key only those "
         "that prove the key are served; the address of --listen, any port)",
         0, 0, NULL},
        {"wire-key", EX_TEXT, &so.wire_key, "FILE",
         "take only packets that are sealed with this key (`ctl key wire FILE` makes one); "
         "SOLAR's; with --control it is proven to the catalog, and --peer is needed, too",
         0, 0, NULL},
        {"clients", EX_TEXT, &so.clients, "FILE",
         "with --wire-key: the rights of clients, lines of `NUMBER DISK r|w|rw`; each client has a "
         "key of its own (`ctl key client`), and others are refused. Read again when it changes",
         0, 0, NULL},
        {"wire-key-before", EX_TEXT, &so.wire_key_before, "FILE",
         "with --clients or --token-key: keys that were made of this wire key are good still", 0, 0,
         NULL},
        {"token-key", EX_TEXT, &so.token_key, "FILE",
         "with --control and --wire-key: open a disk only to a client that shows a token of the "
         "catalog for it; these keys verify tokens (`ctl key token`). Read again when it changes",
         0, 0, NULL},
        {"any-client", EX_FLAG, &so.any_client, NULL,
         "every client may use every disk; needed with --wire-key, or on an address that is not "
         "loopback, where there is neither --clients nor --token-key",
         0, 0, NULL},
        {"connections", EX_NUMBER, &so.connections, "N",
         "most connections of clients: over SOLAR one of each client (256, of 6.3 KiB each), over "
         "LUNA two (64, of 0.3 MiB each); one more is turned away",
         1, 4096, NULL},
        {"stats", EX_NUMBER, &so.stats, "SECONDS", "print a line of statistics", 0, 86400, NULL},
        {"metrics", EX_TEXT, &so.metrics, "ADDRESS:PORT", "serve them for Prometheus", 0, 0, NULL},
        {"log-level", EX_PARSE, &so.level, "error|warning|info|debug", "default info", 0, 0,
         ex_log_parse},
        {.name = "log", .kind = EX_RENAMED, .value = "log-level"},
    };
    ex_synopsis = "server [OPTION]...";
    ex_options(argc, argv, table, SNIC_COUNTOF(table), "Block server of virtual disks.");
    ex_log_set(so.level, "server");
    if (so.store_count == 0)
        ex_usage("--store FILE is needed");
    if (so.format && so.salvage)
        ex_usage("--format and --salvage exclude each other: one erases what the other saves");
    if (so.control != NULL && so.disk_count != 0)
        ex_usage("--disk and --control exclude each other: with a catalog, make disks with "
                 "solar_volume ctl create");
    options_keys();
}

/* ---- Statistics ---- */

enum { CLIENTS_SHOWN = 8, CLIENT_METRICS = 9 };

/* Any peer that knows a client's id could end its connections, so another number stands for it, for
 * the lifetime of this process. */
static uint64_t client_name(uint64_t client_id)
{
    unsigned char id[8];
    snic_put_le64(id, client_id);
    return snic_siphash(sv.names, id, sizeof(id));
}

/* Of each of the first clients that were active recently: clientN_id, ...; the rest are counted. */
static size_t metrics_clients(struct ex_metric *m)
{
    static const char *const names[CLIENT_METRICS] = {
        "id",      "luna",    "silent_ms", "blocks_written", "blocks_read",
        "refused", "missing", "rerolls",   "inside"};
    static char text[CLIENTS_SHOWN][CLIENT_METRICS][32];
    struct snic_volume_server_client c;
    uint32_t cursor = 0, shown = 0, more = 0;
    uint64_t now = snic_loop_now(sv.loop);
    size_t n = 1;
    while (snic_volume_server_next_client(sv.server, &cursor, &c) == 1) {
        if (now - c.heard_ns > UINT64_C(10000000000) || c.client_id == 0)
            continue;
        if (shown == CLIENTS_SHOWN) {
            more++;
            continue;
        }
        const uint64_t values[CLIENT_METRICS] = {client_name(c.client_id),
                                                 c.transport == SNIC_VOLUME_LUNA,
                                                 (now - c.heard_ns) / 1000000,
                                                 c.blocks_written,
                                                 c.blocks_read,
                                                 c.refused,
                                                 c.missing,
                                                 c.rerolls,
                                                 c.inside};
        for (uint32_t k = 0; k < CLIENT_METRICS; k++) {
            snprintf(text[shown][k], sizeof(text[shown][k]), "client%" PRIu32 "_%s", shown,
                     names[k]);
            m[n++] = (struct ex_metric){text[shown][k], values[k], 0};
        }
        shown++;
    }
    m[0] = (struct ex_metric){"clients_not_shown", more, 0};
    return n;
}

static size_t metrics_tokens(struct ex_metric *m, const struct snic_volume_server_stats *s)
{
    m[0] = (struct ex_metric){"no_token", s->no_token, 1};
    m[1] = (struct ex_metric){"tokens", s->tokens, 1};
    m[2] = (struct ex_metric){"tokens_refused", s->tokens_refused, 1};
    m[3] = (struct ex_metric){"tokens_expired", s->tokens_expired, 1};
    m[4] = (struct ex_metric){"tokens_no_key", s->tokens_no_key, 1};
    m[5] = (struct ex_metric){"tokens_evicted", s->tokens_evicted, 1};
    return 6;
}

static size_t metrics(void *ctx, struct ex_metric *m)
{
    struct snic_volume_server_stats s;
    struct snic_segments_info info;
    (void)ctx;
    snic_volume_server_get_stats(sv.server, &s);
    snic_segments_inspect(snic_volume_server_store(sv.server), &info);
    struct snic_control_agent_stats a = {.server = 0};
    if (sv.agent != NULL)
        snic_control_agent_get_stats(sv.agent, &a);
    const struct ex_metric all[] = {
        {"epoch", s.srv_epoch, 0},
        {"clients", (uint64_t)s.target.conns + s.luna.conns, 0},
        {"inside", s.inside, 0},
        {"blocks_written", s.writes, 1},
        {"blocks_read", s.reads, 1},
        {"store_writes", s.groups, 1},
        {"fences", s.target.fences + s.luna.fences, 1},
        {"packets_in", s.target.packets_in, 1},
        {"packets_out", s.target.packets, 1},
        {"ack_packets", s.target.ack_packets, 1},
        {"busy", s.busy, 1},
        {"no_segment", s.no_segment, 1},
        {"stale", s.stale, 1},
        {"no_lease", s.no_lease, 1},
        {"ahead", s.ahead, 1},
        {"invalid", s.invalid, 1},
        {"forbidden", s.forbidden, 1},
        {"failed", s.failed, 1},
        {"damaged", s.damaged, 1},
        {"misread", info.misread, 1},
        {"resets", s.target.resets, 1},
        {"refused", s.target.refused, 1},
        {"malformed", s.target.malformed, 1},
        {"data_crc", s.target.data_crc + s.luna.data_crc, 1},
        {"turned_away", s.target.turned_away, 1},
        {"unauthentic", s.target.unauthentic, 1},
        {"replayed", s.target.replayed, 1},
        {"unproven", s.target.unproven, 1},
        {"other_version", s.target.versions + s.luna.versions, 1},
        {"luna_conns", s.luna.conns, 0},
        {"luna_opened", s.luna.opened, 1},
        {"luna_turned_away", s.turned_away, 1},
        {"luna_violations", s.luna.violations, 1},
        {"luna_evicted", s.luna.evicted, 1},
        {"luna_replaced", s.luna.replaced, 1},
        {"luna_deaf", s.luna.deaf, 1},
        {"luna_pauses", s.luna.pauses, 1},
        {"luna_frames_in", s.luna.frames_in, 1},
        {"luna_frames_out", s.luna.frames, 1},
        {"luna_bytes_in", s.luna.bytes_in, 1},
        {"luna_bytes_out", s.luna.bytes, 1},
        {"unsent", s.unsent, 1},
        {"segments", info.segments, 0},
        {"places", info.places, 0},
        {"dup", info.dup, 1},
        {"superseded", info.superseded, 1},
        {"catalog_number", a.server, 0},
        {"catalog_ready", a.ready, 0},
        {"catalog_commands", a.commands, 1},
        {"copied", a.copied_in, 1},
        {"copied_from_here", a.copied_out, 1},
        {"copied_damaged", a.lost, 1},
    };
    SNIC_STATIC_ASSERT(SNIC_COUNTOF(all) + 7 + CLIENTS_SHOWN * CLIENT_METRICS <= EX_METRICS_MAX,
                       "there is room");
    memcpy(m, all, sizeof(all));
    size_t n = SNIC_COUNTOF(all) + metrics_tokens(m + SNIC_COUNTOF(all), &s);
    return n + metrics_clients(m + n);
}

/* ---- The catalog ---- */

static void registered(void *ctx, int is, uint32_t server)
{
    (void)ctx;
    ex_log(is ? EX_INFO : EX_WARNING,
           is ? "registered with the catalog at %s as server %u"
              : "connection to the catalog at %s lost: retrying; this is server %u",
           so.control, server);
}

/* It asks again every two seconds: one line in ten, or when the reason is another. */
static void refused(void *ctx, int error)
{
    const char *text = snic_strerror(error);
    uint64_t now = snic_loop_now(sv.loop);
    (void)ctx;
    if (error == SNIC_EPERM)
        text = "the store belongs to another catalog";
    if (error == SNIC_ESTALE)
        text = "the catalog is older than the store's last registration, or has forgotten this "
               "server (then --format erases the store)";
    if (error == SNIC_EBUSY)
        text = "a server of this number is connected from another address: is the store a copy?";
    if (error == SNIC_ENOSPC)
        text = "it has as many servers as it may have (ctl forget frees the number of one that is "
               "gone for good)";
    if (error == SNIC_ENFILE)
        text = "all its connections are in use (--connections of ctl serve): retrying";
    if (error == SNIC_EEXIST)
        text = "the store has segments that no catalog has placed there";
    if (error == SNIC_EVERSION)
        text = "it uses another version of the control protocol: use the same release for the "
               "catalog, its servers and clients";
    if (error == SNIC_EACCES)
        text = so.wire_key != NULL ? "it has another wire key than --wire-key"
                                   : "it requires a key: --wire-key FILE is needed";
    if (error == SNIC_ENOTSUP)
        text = "it was started without --wire-key and cannot prove that it is the right one";
    if (now < sv.refused_ns && error == sv.refused)
        return;
    sv.refused_ns = now + UINT64_C(10000000000);
    sv.refused = error;
    ex_log(EX_ERROR, "the store on %s%s is not registered with the catalog at %s: %s", so.stores[0],
           so.store_count > 1 ? " and others" : "", so.control, text);
}

/* There may be many, one after the other: one line in a second; metric copied_damaged counts. */
static void lost(void *ctx, uint64_t segment, uint32_t block)
{
    uint64_t now = snic_loop_now(sv.loop);
    char more[64] = "";
    (void)ctx;
    sv.lost++;
    if (now < sv.lost_ns)
        return;
    sv.lost_ns = now + UINT64_C(1000000000);
    if (sv.lost > 1)
        snprintf(more, sizeof(more), "; %" PRIu64 " such blocks since the last such line", sv.lost);
    sv.lost = 0;
    ex_log(EX_ERROR,
           "block %" PRIu64 " of disk %" PRIu64
           " was corrupt at the server that it was moved from: it "
           "cannot be read until it is written%s",
           (segment & UINT32_MAX) * SNIC_SEGMENTS_BLOCKS + block, segment >> 32, more);
}

static void agent_open(const struct snic_net_addr *at)
{
    static const struct snic_control_agent_events ev = {
        .ready = registered, .refused = refused, .lost = lost};
    static const unsigned char any[16];
    struct snic_control_agent_opts o = {.opts_size = sizeof(o), .loop = sv.loop, .net = sv.net};
    ex_address("control", so.control, &o.control);
    if (so.wire_key != NULL)
        o.auth = wire_begin(so.wire_key, so.wire_key_before, sv_seed());
    o.store = snic_volume_server_store(sv.server);
    o.addr = o.listen = *at;
    o.listen.port = 0;
    if (so.peer != NULL)
        ex_address("peer", so.peer, &o.listen);
    if (memcmp(o.addr.ip, any, sizeof(any)) == 0 || memcmp(o.listen.ip, any, sizeof(any)) == 0)
        ex_usage("--control: the addresses of --listen (%s), for clients, and --peer (%s), for "
                 "servers, must be this machine's, not 0.0.0.0 or [::]",
                 so.listen, so.peer != NULL ? so.peer : "the same host, any port");
    size_t size = snic_control_agent_memsize(&o);
    int r = snic_control_agent_open(&sv.agent, sv_memory(size), size, &o, &ev, NULL);
    if (r != 0)
        ex_die("cannot listen on %s (--%s) for other servers: %s",
               so.peer != NULL ? so.peer : so.listen, so.peer != NULL ? "peer" : "listen",
               ex_listen_error(so.peer != NULL ? so.peer : so.listen, r));
}

/* ---- Beginning ---- */

static void clients_again(void)
{
    uint32_t gone = 0;
    if (sv.agent != NULL && (so.token_key != NULL || so.clients != NULL))
        wire_look();
    if (so.token_key != NULL && accounts_look(&gone))
        ex_log(EX_INFO, "%s: the wire key was read again; %" PRIu32 " connections ended",
               so.wire_key, gone);
    if (so.token_key != NULL && tokens_look())
        ex_log(EX_INFO, "%s: the keys of tokens were read again; %" PRIu32 " tokens are forgotten",
               so.token_key, snic_volume_server_tokens(sv.server));
    if (so.clients == NULL || !clients_look())
        return;
    uint32_t ended = snic_volume_server_secrets(sv.server);
    clients_old();
    ex_log(EX_INFO, "%s: read again; %" PRIu32 " connections were closed", so.clients, ended);
}

/* One line of each in five seconds. */
static void log_unauthenticated(struct snic_timer *t, uint64_t now)
{
    struct snic_volume_server_stats s;
    clients_again();
    snic_loop_arm(sv.loop, t, now + UINT64_C(1000000000));
    if (now < sv.logged_ns)
        return;
    sv.logged_ns = now + UINT64_C(5000000000);
    snic_volume_server_get_stats(sv.server, &s);
    uint64_t versions = s.target.versions + s.luna.versions;
    if (s.target.unauthentic != sv.unauthentic)
        ex_log(EX_WARNING,
               "%" PRIu64 " packets were dropped: they are not sealed with the key in %s; a client "
               "has another one, or none",
               s.target.unauthentic - sv.unauthentic, so.wire_key);
    if (versions != sv.versions)
        ex_log(EX_WARNING,
               "a client was refused: it uses version %u of the packet format, this server version "
               "%u: use the same release at both ends",
               s.target.versions != 0 ? s.target.peer_version : s.luna.peer_version,
               SNIC_EBS_VERSION);
    uint64_t crowd = s.target.turned_away + s.turned_away;
    if (crowd != sv.crowd)
        ex_log(EX_WARNING,
               "all connections for clients are in use: %" PRIu64
               " were refused since the last such line; raise --connections",
               crowd - sv.crowd);
    if (so.token_key != NULL)
        tokens_refused(&s);
    sv.crowd = crowd;
    sv.unauthentic = s.target.unauthentic;
    sv.versions = versions;
}

static void ready(void)
{
    struct snic_net_addr a;
    struct snic_volume_server_stats s;
    char text[160] = "";
    sv.ready = 1;
    if (snic_volume_server_addr(sv.server, &a) == 0)
        (void)snic_net_addr_format(&a, text, sizeof(text));
    snic_volume_server_get_stats(sv.server, &s);
    snic_timer_init(&sv.timer, log_unauthenticated);
    snic_loop_arm(sv.loop, &sv.timer, snic_loop_now(sv.loop) + UINT64_C(1000000000));
    if (so.control != NULL)
        agent_open(&a);
    if (ex_stats_start(&sv.stats, sv.loop, sv.net, "solar_server", so.stats, so.metrics, metrics,
                       NULL) != 0)
        exit(1);
    printf("ready %s epoch %" PRIu32 "\n", text, s.srv_epoch);
    fflush(stdout);
}

static void create_next(void);

static void not_created(int error)
{
    struct snic_segments_info info;
    const struct sv_disk *d = &so.disks[sv.disk];
    snic_segments_inspect(snic_volume_server_store(sv.server), &info);
    ex_die("--disk %" PRIu64 ":%" PRIu64 ": segment %" PRIu64 " of %" PRIu64
           " cannot be made: %s (the store has places for %" PRIu64 ", of which %" PRIu64
           " are used, and disks named before it need theirs)",
           d->vd, d->bytes, sv.segment,
           (d->bytes + SNIC_VOLUME_SEGMENT_BYTES - 1) / SNIC_VOLUME_SEGMENT_BYTES,
           error == SNIC_ENOSPC ? "no room is left" : snic_strerror(error), info.places,
           info.segments);
}

/* On to the next segment of a disk that is wholly here, and is not there yet. @return 0 none */
static int create_missing(void)
{
    struct snic_segments_stat stat;
    for (; sv.disk < so.disk_count; sv.disk++, sv.segment = 0) {
        const struct sv_disk *d = &so.disks[sv.disk];
        for (; sv.segment * SNIC_VOLUME_SEGMENT_BYTES < d->bytes; sv.segment++)
            if (snic_segments_find(snic_volume_server_store(sv.server), d->vd << 32 | sv.segment,
                                   &stat) != 0)
                return 1;
    }
    return 0;
}

/* Before anything is made: it could not be taken back. */
static void create_fits(void)
{
    struct snic_segments_info info;
    snic_segments_inspect(snic_volume_server_store(sv.server), &info);
    for (uint64_t room = info.places - info.segments; create_missing(); sv.segment++)
        if (room-- == 0)
            not_created(SNIC_ENOSPC);
    sv.disk = 0;
    sv.segment = 0;
}

static void created(struct snic_segments_req *req)
{
    if (sv.stopping)
        return; /* the next start makes the rest */
    if (req->result != 0 && req->result != SNIC_EEXIST)
        not_created(req->result);
    sv.segment++;
    create_next();
}

static void create_next(void)
{
    if (!create_missing()) {
        ready();
        return;
    }
    const struct sv_disk *d = &so.disks[sv.disk];
    memset(&sv.req, 0, sizeof(sv.req));
    sv.req.done = created;
    sv.req.op = SNIC_SEGMENTS_CREATE;
    sv.req.seg_id = d->vd << 32 | sv.segment;
    sv.req.vd_id = d->vd;
    sv.req.base_lba = sv.segment * SNIC_SEGMENTS_BLOCKS;
    sv.req.gen = 1;
    sv.req.disk = SNIC_SEGMENTS_ANY_DISK;
    int r = snic_segments_submit(snic_volume_server_store(sv.server), &sv.req);
    if (r != 0)
        not_created(r);
}

/* The store is opened first, then the server's own segment in it, then the address. */
static void not_opened(int result, const struct snic_segments_report *report)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(sv.server, &s);
    if (s.meta_errors != 0)
        ex_log(EX_ERROR, "the server's own segment, in the store on %s%s, cannot be used: %s",
               so.stores[0], so.store_count > 1 ? " and others" : "",
               result == SNIC_EOVERFLOW  ? "its counter of starts is used up"
               : result == SNIC_ECORRUPT ? "its version is lost (--salvage makes it anew)"
                                         : snic_strerror(result));
    else if (s.srv_epoch != 0)
        ex_log(EX_ERROR, "cannot listen on %s (--listen): %s", so.listen,
               ex_listen_error(so.listen, result));
    else
        store_refused(result, report);
}

static void opened(void *ctx, int result, const struct snic_segments_report *report)
{
    (void)ctx;
    if (sv.stopping)
        return;
    if (result != 0) {
        not_opened(result, report);
        sv.code = 1;
        snic_loop_stop(sv.loop);
        return;
    }
    if (report->formatted != 0)
        ex_log(EX_INFO, "blank devices formatted: %u", report->formatted);
    if (report->tails != 0)
        ex_log(
            EX_INFO,
            "the last write of the log is incomplete, as after a crash: it was not acknowledged");
    if (report->gaps != 0)
        ex_log(EX_WARNING,
               "the log is corrupt (gaps: %" PRIu64
               ") and was opened without the lost records (--salvage): "
               "blocks written then are older than acknowledged, or zero, and cannot be "
               "identified: check the file systems, or restore them",
               report->gaps);
    if (report->repaired != 0)
        ex_log(EX_INFO,
               "%" PRIu64 " tables or superblocks had one corrupt copy, as after a crash: repaired",
               report->repaired);
    if (report->damaged != 0)
        ex_log(EX_WARNING, "%" PRIu64 " tables are corrupt: their blocks are refused",
               report->damaged);
    ex_log(EX_INFO, "%" PRIu32 " segments, %" PRIu64 " blocks from the log", report->segments,
           report->replayed);
    struct snic_segments_stat stat;
    if (so.control == NULL &&
        snic_segments_find(snic_volume_server_store(sv.server), SNIC_CONTROL_META, &stat) == 0)
        ex_die("store %s belongs to a catalog: --control ADDRESS:PORT is needed", so.stores[0]);
    create_fits();
    create_next();
}

static void stop(void *ctx)
{
    (void)ctx;
    sv.stopping = 1;
    snic_loop_stop(sv.loop);
}

/* No LUNA client waits for another's buffers. Streams are those of the catalog, of servers that
 * copy and of scrapers, too, and those that are turned away. */
enum { STREAMS_BESIDE = 192, FILES_BESIDE = 64, LUNA_CONNECTIONS = 64 };

static void network(void)
{
    int luna = (so.transports & SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA)) != 0;
    uint32_t streams = LUNA_CONNECTIONS;
    if (so.connections != 0 && luna)
        streams = (uint32_t)so.connections;
    uint64_t want = streams + STREAMS_BESIDE + FILES_BESIDE;
    uint64_t files = sv_files(want);
    if (files < want)
        ex_log(EX_WARNING,
               "the limit of open files is %" PRIu64 ", and %" PRIu32 " connections need %" PRIu64
               ": raise it (ulimit -n, LimitNOFILE=) or lower --connections",
               files, streams, want);
    sv.net = sv_net(sv.loop, 8, streams + STREAMS_BESIDE,
                    (uint32_t)snic_max_u64((uint64_t)streams * SV_BUFFERS, SV_POOL),
                    SNIC_NET_DGRAM_WAIT);
}

int sv_server(int argc, char **argv)
{
    static const struct snic_volume_server_events ev = {.opened = opened,
                                                        .failed = store_failed,
                                                        .damaged = store_damaged,
                                                        .misread = store_misread,
                                                        .rights = clients_rights};
    options(argc, argv);
    snic_put_le64(sv.names, sv_seed());
    snic_put_le64(sv.names + 8, sv_seed());
    sv.loop = ex_loop_open(0);
    network();
    store_begin(sv.loop, so.stores, so.store_count);
    for (uint32_t i = 0; i < so.store_count; i++)
        sv.io[i] = sv_file(sv.loop, "store", so.stores[i], so.store_size);
    struct snic_volume_server_opts o = {.opts_size = sizeof(o), .loop = sv.loop, .net = sv.net};
    ex_address("listen", so.listen, &o.addr);
    o.io = sv.io;
    o.disks = so.store_count;
    o.transports = so.transports;
    o.flags = so.control != NULL ? SNIC_VOLUME_GOVERNED : 0;
    o.seed = sv_seed();
    o.sec = sv.wire.sec;
    o.secret = so.clients == NULL && so.token_key == NULL ? sv.wire.secret : NULL;
    o.secret_of = so.clients != NULL     ? clients_secret
                  : so.token_key != NULL ? accounts_secret
                                         : NULL;
    o.token_key = so.token_key != NULL ? tokens_key : NULL;
    o.unix_time = tokens_time;
    o.key_id = sv.wire.id;
    o.streams_max = (uint32_t)so.connections;
    o.conns_max = conns_max();
    memcpy(o.wire_keys, sv.wire.keys, sizeof(o.wire_keys));
    o.store.flags = so.format ? SNIC_SEGMENTS_FORMAT : SNIC_SEGMENTS_BLANK;
    o.store.flags |= so.salvage ? SNIC_SEGMENTS_SALVAGE : 0;
    o.store.uuid[0] = sv_seed();
    o.store.uuid[1] = sv_seed();
    o.store.opts_size = sizeof(o.store);
    store_fits(sv.io, &o.store);
    size_t size = snic_volume_server_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the server: %s", snic_volume_server_opts_wrong(&o));
    int r = snic_volume_server_open(&sv.server, sv_memory(size), size, &o, &ev, NULL);
    if (r != 0)
        ex_die("cannot open the store on %s%s: %s", so.stores[0],
               so.store_count > 1 ? " and others" : "", snic_strerror(r));
    accounts_serve(sv.server);
    ex_signals(sv.loop, stop, NULL);
    (void)snic_loop_run(sv.loop);
    if (sv.ready)
        ex_stats_stop(sv.stats);
    snic_loop_cancel(sv.loop, &sv.timer);
    if (sv.agent != NULL)
        free(snic_control_agent_close(sv.agent));
    free(snic_volume_server_close(sv.server));
    store_end();
    if (so.clients != NULL)
        clients_end();
    if (so.token_key != NULL) {
        accounts_end();
        tokens_end();
    }
    key_wire_close(&sv.wire);
    wire_end();
    for (uint32_t i = 0; i < so.store_count; i++)
        snic_io_close(sv.io[i]);
    snic_net_shut(sv.net);
    ex_signals_off();
    snic_loop_close(sv.loop);
    return sv.code;
}
