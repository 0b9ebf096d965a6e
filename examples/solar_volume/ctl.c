/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The catalog's process, and the operator's verbs. */
#include "clients.h"
#include "ctl.h"
#include "keys.h"
#include "tokens.h"

#include "../output.h"
#include "../version.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *listen;
    const char *catalog;
    uint64_t size;
    uint64_t disks;
    uint64_t segments;
    uint64_t sessions;
    uint64_t lease;
    uint64_t stats;
    const char *metrics;
    enum ex_level level;
    int format;
    const char *wire_key;
    const char *wire_key_before;
    const char *clients;
    const char *token_key;
    uint64_t token_time;
    int any_client;
} to = {.listen = "127.0.0.1:7100",
        .size = UINT64_C(64) << 20,
        .disks = 1024,
        .sessions = 128,
        .lease = 10,
        .token_time = 600,
        .level = EX_INFO};

static struct {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_io *io;
    struct snic_control *ctl;
    struct ex_stats *stats;
    uint64_t no_place[2]; /* 0: servers without space; 1: the catalog has all its segments */
    uint64_t no_place_ns[2];
    uint64_t crowded_ns;
    uint64_t refused; /* servers, since the last line about one */
    uint64_t refused_ns;
    uint64_t not_moved; /* segments, likewise */
    uint64_t not_moved_ns;
    struct snic_timer second;
    struct snic_control_auth auth;
    uint64_t unauthenticated; /* that were logged */
    uint64_t unauthenticated_ns;
    int ready;
    int code;
} ct;

static void options_keys(void)
{
    if (to.wire_key == NULL &&
        (to.clients != NULL || to.token_key != NULL || to.wire_key_before != NULL))
        ex_usage("--clients, --token-key and --wire-key-before need --wire-key FILE, with which "
                 "servers and operators prove who they are, and from which clients' keys are "
                 "derived");
    if (to.token_key != NULL && to.clients == NULL)
        ex_usage("--token-key needs --clients FILE, the list of clients and their rights");
    if (to.clients != NULL && to.any_client)
        ex_usage("--any-client contradicts --clients, the list of clients and their rights");
    if (to.clients == NULL && !to.any_client &&
        (to.wire_key != NULL || !sv_loopback("listen", to.listen)))
        ex_usage("%s every client could have every disk: use --wire-key FILE with --clients FILE, "
                 "or --any-client to permit it",
                 to.wire_key != NULL ? "with only --wire-key, a key that all clients share,"
                                     : "--listen is not a loopback address:");
    if (to.wire_key != NULL)
        clients_begin(to.clients, to.wire_key, to.wire_key_before);
    if (to.token_key != NULL)
        tokens_begin(to.token_key);
}

static void options(int argc, char **argv)
{
    static const struct ex_option table[] = {
        {"listen", EX_TEXT, &to.listen, "ADDRESS:PORT", "for servers, clients, operators (TCP)", 0,
         0, NULL},
        {"catalog", EX_TEXT, &to.catalog, "FILE", "file or device of the catalog", 0, 0, NULL},
        {"catalog-size", EX_SIZE, &to.size, "BYTES", "of a new file (64M)", UINT64_C(4) << 20,
         UINT64_C(1) << 40, NULL},
        {"format", EX_FLAG, &to.format, NULL,
         "begin anew: all disks are gone, and servers of the old catalog refuse this one", 0, 0,
         NULL},
        {"disks", EX_NUMBER, &to.disks, "N", "most disks (1024)", 1, 65536, NULL},
        {"segments", EX_NUMBER, &to.segments, "N",
         "most segments that are placed (262144, or what the catalog has room for)", 1, 1u << 28,
         NULL},
        {"connections", EX_NUMBER, &to.sessions, "N", "most connections (128)", 4, 4096, NULL},
        {.name = "sessions", .kind = EX_RENAMED, .value = "connections"},
        {"lease", EX_NUMBER, &to.lease, "SECONDS",
         "a client that is silent so long may be replaced (10)", 4, 3600, NULL},
        {"wire-key", EX_TEXT, &to.wire_key, "FILE",
         "answer only who proves a key: servers and operators this one, clients their own, made of "
         "it (`ctl key client`)",
         0, 0, NULL},
        {"wire-key-before", EX_TEXT, &to.wire_key_before, "FILE",
         "this wire key, and keys that were made of it, are good still", 0, 0, NULL},
        {"clients", EX_TEXT, &to.clients, "FILE",
         "with --wire-key: the rights of clients, lines of `NUMBER DISK r|w|rw` (a disk's number: "
         "`ctl list`). Read again when it changes; a right that is taken away ends the lease",
         0, 0, NULL},
        {"token-key", EX_TEXT, &to.token_key, "FILE",
         "with --clients: grant tokens, by which servers that have these keys (`ctl key token`), "
         "too, know the rights of each. Read again when it changes",
         0, 0, NULL},
        {"token-time", EX_NUMBER, &to.token_time, "SECONDS",
         "a token is good for so long, by the servers' clocks (600); clients get another one when "
         "a "
         "third of it is over",
         3, 86400, NULL},
        {"any-client", EX_FLAG, &to.any_client, NULL,
         "every client may have every disk; needed with --wire-key, or on an address that is not "
         "loopback, without --clients",
         0, 0, NULL},
        {"stats", EX_NUMBER, &to.stats, "SECONDS", "print a line of statistics", 0, 86400, NULL},
        {"metrics", EX_TEXT, &to.metrics, "ADDRESS:PORT", "serve them for Prometheus", 0, 0, NULL},
        {"log-level", EX_PARSE, &to.level, "error|warning|info|debug", "default info", 0, 0,
         ex_log_parse},
        {.name = "log", .kind = EX_RENAMED, .value = "log-level"},
    };
    ex_synopsis = "ctl serve [OPTION]...";
    ex_options(argc, argv, table, SNIC_COUNTOF(table), "Catalog of virtual disks.");
    ex_log_set(to.level, "ctl");
    if (to.catalog == NULL)
        ex_usage("--catalog FILE is needed");
    options_keys();
}

static size_t metrics(void *ctx, struct ex_metric *m)
{
    struct snic_control_stats s;
    size_t n = 0;
    (void)ctx;
    snic_control_get_stats(ct.ctl, &s);
    const struct ex_metric all[] = {
        {"incarnation", s.incarnation, 0},
        {"disks", s.disks, 0},
        {"segments", s.segments, 0},
        {"servers", s.servers, 0},
        {"servers_up", s.servers_up, 0},
        {"sessions", s.sessions, 0},
        {"under_way", s.ops, 0},
        {"grants", s.grants, 1},
        {"lookups", s.lookups, 1},
        {"placed", s.placed, 1},
        {"moved", s.moved, 1},
        {"moves_failed", s.moves_failed, 1},
        {"refused", s.refused, 1},
        {"malformed", s.malformed, 1},
        {"deleted", s.deleted, 1},
        {"records", s.records, 1},
        {"overrun", s.overrun, 1},
        {"turned_away", s.rejected, 1},
        {"tokens", s.tokens, 1},
        {"forbidden", s.forbidden, 1},
        {"unauthentic", s.unauthenticated, 1},
    };
    for (; n < SNIC_COUNTOF(all); n++)
        m[n] = all[n];
    return n;
}

/* The log is opened before anything else; the address comes last. */
static void not_opened(int result, const struct snic_wal_report *report)
{
    char text[160];
    const char *why = ex_listen_error(to.listen, result);
    switch (result) {
    case SNIC_EADDRINUSE:
    case SNIC_EACCES:
    case SNIC_EINVAL:
    case SNIC_ENXIO:
    case SNIC_EHOSTUNREACH:
        ex_log(EX_ERROR, "cannot listen on %s (--listen): %s", to.listen, why);
        return;
    case SNIC_ENOSPC:
        ex_log(EX_ERROR,
               "catalog %s has more than %" PRIu64 " disks (--disks) or %" PRIu64
               " segments (--segments), or is too small, with %" PRIu64
               " bytes, to record so many (100 bytes a segment, 264 a disk, twice)",
               to.catalog, to.disks, to.segments, ct.io->geometry.size);
        return;
    case SNIC_EEXIST:
        why = "not a catalog, and not empty (--format overwrites it)";
        break;
    case SNIC_EVERSION:
        why = "a catalog of a version that this program does not support: run the release that "
              "wrote it";
        break;
    case SNIC_ECORRUPT:
        why = "corrupt: restore it from a copy";
        if (report->verdict == SNIC_WAL_CORRUPT) {
            snprintf(text, sizeof(text), "corrupt: its log has a gap, from %" PRIu64 " to %" PRIu64,
                     report->first_missing, report->last_missing);
            why = text;
        }
        break;
    default:
        break;
    }
    ex_log(EX_ERROR, "cannot serve (--catalog %s, --listen %s): %s", to.catalog, to.listen, why);
}

static void opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct snic_control_stats s;
    struct snic_net_addr a;
    char text[160] = "";
    (void)ctx;
    if (result != 0)
        not_opened(result, report);
    if (result != 0) {
        ct.code = 1;
        snic_loop_stop(ct.loop);
        return;
    }
    ct.ready = 1;
    snic_control_get_stats(ct.ctl, &s);
    if (s.incarnation == 1)
        ex_log(EX_INFO, "catalog %s is new%s", to.catalog, to.format ? "" : ": it was blank");
    ex_log(EX_INFO, "%" PRIu32 " disks, %" PRIu32 " segments on %" PRIu32 " servers", s.disks,
           s.segments, s.servers);
    if (ex_stats_start(&ct.stats, ct.loop, ct.net, "solar_ctl", to.stats, to.metrics, metrics,
                       NULL) != 0)
        exit(1);
    if (snic_control_addr(ct.ctl, &a) == 0)
        (void)snic_net_addr_format(&a, text, sizeof(text));
    printf("ready %s incarnation %" PRIu64 "\n", text, s.incarnation);
    fflush(stdout);
}

static void failed(void *ctx, int error)
{
    (void)ctx;
    ex_log(
        EX_ERROR,
        "the catalog's device %s failed: %s; no changes are made until this process is restarted",
        to.catalog, snic_strerror(error));
    ct.code = 1;
    snic_loop_stop(ct.loop);
}

/* Borrowed until the next call, of either. */
static const char *disk_of(const struct snic_control_event *e)
{
    static char text[SNIC_CONTROL_NAME + 24];
    if (e->name != NULL)
        snprintf(text, sizeof(text), "disk %s", e->name);
    else
        snprintf(text, sizeof(text), "disk number %" PRIu32, e->vd);
    return text;
}

static const char *server_of(const struct snic_control_event *e)
{
    static char text[192];
    int n = e->server != 0 ? snprintf(text, sizeof(text), "server %" PRIu32, e->server)
                           : snprintf(text, sizeof(text), "a new server");
    if (e->addr != NULL) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, " at ");
        (void)snic_net_addr_format(e->addr, text + n, sizeof(text) - (size_t)n);
    }
    return text;
}

/* Each is refused again every two seconds: one line in a second, of whichever comes then. */
static void refused(const struct snic_control_event *e)
{
    const char *text = snic_strerror(e->error);
    char more[64] = "";
    uint64_t now = snic_loop_now(ct.loop);
    ct.refused++;
    if (now < ct.refused_ns)
        return;
    if (ct.refused > 1)
        snprintf(more, sizeof(more), "; %" PRIu64 " refusals since the last such line", ct.refused);
    ct.refused = 0;
    ct.refused_ns = now + UINT64_C(1000000000);
    if (e->error == SNIC_EPERM)
        text = "it belongs to another catalog";
    if (e->error == SNIC_ESTALE)
        text = "this catalog does not know it: is it an older copy?";
    if (e->error == SNIC_EBUSY)
        text = "it is connected already, from another address: one of the stores is a copy";
    if (e->error == SNIC_ENOSPC)
        text = "all numbers of servers are in use (ctl forget gives back that of one that is gone "
               "for good)";
    ex_log(EX_ERROR, "%s is refused: %s%s", server_of(e), text, more);
}

/* `ctl move` tries again twenty times a second: one line in a second. */
static void not_moved(const struct snic_control_event *e)
{
    uint64_t now = snic_loop_now(ct.loop);
    char more[64] = "";
    ct.not_moved++;
    if (now < ct.not_moved_ns)
        return;
    if (ct.not_moved > 1)
        snprintf(more, sizeof(more), "; %" PRIu64 " such moves since the last such line",
                 ct.not_moved);
    ct.not_moved = 0;
    ct.not_moved_ns = now + UINT64_C(1000000000);
    ex_log(EX_WARNING, "%s: segment %" PRIu64 " was not moved to server %u: %s%s", disk_of(e),
           e->value, e->server, snic_strerror(e->error), more);
}

/* Clients ask again and again, for each segment: one line in five seconds. */
static void no_place(const struct snic_control_event *e)
{
    uint64_t now = snic_loop_now(ct.loop);
    int kind = e->error == SNIC_E2BIG;
    ct.no_place[kind]++;
    if (now < ct.no_place_ns[kind])
        return;
    if (kind == 1)
        ex_log(EX_WARNING,
               "%s: no place for segment %" PRIu64 ": the catalog has all %" PRIu64
               " segments that it may have; raise --segments (%" PRIu64
               " such answers since the last such line)",
               disk_of(e), e->value, to.segments, ct.no_place[kind]);
    else
        ex_log(EX_WARNING,
               "%s: no server has room for segment %" PRIu64
               " (%s); add a server or delete a disk (%" PRIu64
               " such answers since the last such line)",
               disk_of(e), e->value, snic_strerror(e->error), ct.no_place[kind]);
    ct.no_place[kind] = 0;
    ct.no_place_ns[kind] = now + UINT64_C(5000000000);
}

/* One line in five seconds, too. */
static void crowded(const struct snic_control_event *e)
{
    uint64_t now = snic_loop_now(ct.loop);
    if (now < ct.crowded_ns)
        return;
    ex_log(EX_WARNING,
           "all %" PRIu64
           " connections are in use, or reserved for servers that are not connected: %" PRIu64
           " were refused so far; raise --connections",
           to.sessions, e->value);
    ct.crowded_ns = now + UINT64_C(5000000000);
}

/* Lines of which a client may cause as many as it likes: 256 at once, then four in a second.
 * @return 0: this one is left out; else what follows it */
enum { OFTEN_LINES = 256 };
#define OFTEN_NS UINT64_C(250000000)

static const char *often(void)
{
    static char more[80];
    static uint64_t full_ns, left_out; /* when all may be written again */
    uint64_t now = snic_loop_now(ct.loop);
    full_ns = snic_max_u64(full_ns, now);
    if (full_ns - now > (OFTEN_LINES - 1) * OFTEN_NS) {
        left_out++;
        return NULL;
    }
    full_ns += OFTEN_NS;
    more[0] = 0;
    if (left_out != 0)
        snprintf(more, sizeof(more), "; %" PRIu64 " lines about leases were left out before this",
                 left_out);
    left_out = 0;
    return more;
}

static void granted(const struct snic_control_event *e)
{
    const char *more = often();
    if (more != NULL)
        ex_log(EX_INFO, "%s: lease %" PRIu64 " is granted%s", disk_of(e), e->value, more);
}

static void ended(const struct snic_control_event *e)
{
    const char *more = often(), *why = snic_strerror(e->error);
    if (e->error == SNIC_ESTALE)
        why = "another one has taken the lease, or it was revoked";
    if (more != NULL)
        ex_log(EX_INFO, "%s: its client is gone%s%s%s", disk_of(e), e->error != 0 ? ": " : "",
               e->error != 0 ? why : "", more);
}

static void event(void *ctx, const struct snic_control_event *e)
{
    (void)ctx;
    switch ((enum snic_control_event_type)e->type) {
    case SNIC_CONTROL_SERVER_UP:
        ex_log(EX_INFO, "%s is connected, with %" PRIu64 " segments", server_of(e), e->value);
        break;
    case SNIC_CONTROL_SERVER_DOWN:
        ex_log(EX_WARNING, "%s is disconnected", server_of(e));
        break;
    case SNIC_CONTROL_SERVER_REFUSED:
        refused(e);
        break;
    case SNIC_CONTROL_SEGMENTS_MISSING:
        ex_log(EX_ERROR, "%s lacks %" PRIu64 " segments that the catalog has placed there",
               server_of(e), e->value);
        break;
    case SNIC_CONTROL_GRANTED:
        granted(e);
        break;
    case SNIC_CONTROL_ENDED:
        ended(e);
        break;
    case SNIC_CONTROL_MOVED:
        ex_log(EX_DEBUG, "%s: segment %" PRIu64 " is at server %" PRIu32, disk_of(e), e->value,
               e->server);
        break;
    case SNIC_CONTROL_MOVE_FAILED:
        not_moved(e);
        break;
    case SNIC_CONTROL_NO_PLACE:
        no_place(e);
        break;
    case SNIC_CONTROL_SESSIONS_FULL:
        crowded(e);
        break;
    }
}

/* ---- Authorization ---- */

static int sign(void *ctx, struct snic_ebs_token *t, unsigned char out[SNIC_EBS_TOKEN_BYTES])
{
    static uint64_t next_ns;
    uint64_t now = snic_loop_now(ct.loop);
    (void)ctx;
    int r = tokens_sign(t, to.token_time, out);
    if (r != 0 && now >= next_ns) { /* clients ask again and again: one line in a second */
        ex_log(EX_ERROR,
               "no token can be signed with the first key of %s (--token-key): %s; clients that "
               "attach wait",
               to.token_key, snic_strerror(r));
        next_ns = now + UINT64_C(1000000000);
    }
    return r == 0 ? (int)to.token_time : r;
}

static uint32_t rights(void *ctx, uint32_t account, uint32_t vd)
{
    uint32_t may = clients_rights(ctx, account, vd);
    return may | ((may & SNIC_EBS_MAY_WRITE) != 0 ? SNIC_EBS_MAY_FENCE : 0);
}

/* Read changed keys and lists; log connections without a valid key, one line in five seconds. */
static void second(struct snic_timer *t, uint64_t now)
{
    struct snic_control_stats s;
    snic_loop_arm(ct.loop, t, now + UINT64_C(1000000000));
    if (clients_look()) {
        snic_control_accounts_changed(ct.ctl);
        clients_old();
        ex_log(EX_INFO, "%s: the list of clients was read again",
               to.clients != NULL ? to.clients : to.wire_key);
    }
    if (to.token_key != NULL && tokens_look())
        ex_log(EX_INFO, "%s: the keys of tokens were read again", to.token_key);
    snic_control_get_stats(ct.ctl, &s);
    if (now < ct.unauthenticated_ns || s.unauthenticated == ct.unauthenticated)
        return;
    ex_log(EX_WARNING,
           "%" PRIu64 " connections were refused: they proved no key that this catalog accepts",
           s.unauthenticated - ct.unauthenticated);
    ct.unauthenticated = s.unauthenticated;
    ct.unauthenticated_ns = now + UINT64_C(5000000000);
}

static void stop(void *ctx)
{
    (void)ctx;
    snic_loop_stop(ct.loop);
}

/* As control.h says how much is recorded of them; the log needs some room of its own. */
static void segments_default(void)
{
    uint64_t disks = (to.disks + 1024) * 264, half = ct.io->geometry.size / 2;
    uint64_t room = half > disks ? (half - disks) / 112 : 0;
    if (to.segments == 0)
        to.segments = snic_max_u64(snic_min_u64(room, 262144), 1);
}

/* Connections that are turned away, scrapers' of --metrics, and those that end. */
enum { BESIDE = 24, FILES_BESIDE = 40 };

int ctl_serve(int argc, char **argv)
{
    struct snic_control_events ev = {.opened = opened, .failed = failed, .event = event};
    options(argc, argv);
    ev.rights = to.clients != NULL ? rights : NULL;
    ev.token = to.token_key != NULL ? sign : NULL;
    ct.loop = ex_loop_open(0);
    uint64_t want = to.sessions + BESIDE + FILES_BESIDE, files = sv_files(want);
    if (files < want)
        ex_log(EX_WARNING,
               "the limit of open files is %" PRIu64 ", and %" PRIu64 " connections need %" PRIu64
               ": raise it (ulimit -n, LimitNOFILE=) or lower --connections",
               files, to.sessions, want);
    ct.net = sv_net(ct.loop, 1, (uint32_t)to.sessions + BESIDE, SV_POOL, 0);
    ct.io = sv_file(ct.loop, "catalog", to.catalog, to.size);
    segments_default();
    struct snic_control_opts o = {.opts_size = sizeof(o), .loop = ct.loop, .net = ct.net};
    ex_address("listen", to.listen, &o.addr);
    o.flags = to.format ? SNIC_WAL_FORMAT : SNIC_WAL_CREATE;
    o.io = ct.io;
    o.disks_max = (uint32_t)to.disks;
    o.segments_max = (uint32_t)to.segments;
    o.sessions_max = (uint32_t)to.sessions;
    o.lease_ns = to.lease * UINT64_C(1000000000);
    o.uuid[0] = sv_seed();
    o.uuid[1] = sv_seed() | 1;
    ct.auth.sec = snic_ebs_openssl();
    ct.auth.seed = sv_seed();
    ct.auth.secret_of = clients_secret_of;
    o.auth = to.wire_key != NULL ? &ct.auth : NULL;
    size_t size = snic_control_memsize(&o);
    if (size == 0)
        ex_die("catalog %s is too small: %" PRIu64 " bytes", to.catalog, ct.io->geometry.size);
    int r = snic_control_open(&ct.ctl, sv_memory(size), size, &o, &ev, NULL);
    if (r != 0)
        ex_die("cannot open catalog %s: %s", to.catalog, snic_strerror(r));
    snic_timer_init(&ct.second, second);
    if (to.wire_key != NULL)
        snic_loop_arm(ct.loop, &ct.second, snic_loop_now(ct.loop) + UINT64_C(1000000000));
    ex_signals(ct.loop, stop, NULL);
    (void)snic_loop_run(ct.loop);
    if (ct.ready)
        ex_stats_stop(ct.stats);
    snic_loop_cancel(ct.loop, &ct.second);
    free(snic_control_close(ct.ctl));
    if (to.wire_key != NULL)
        clients_end();
    if (to.token_key != NULL)
        tokens_end();
    snic_io_close(ct.io);
    snic_net_shut(ct.net);
    ex_signals_off();
    snic_loop_close(ct.loop);
    return ct.code;
}

static void usage(FILE *out)
{
    fprintf(out, "Catalog of virtual disks and servers, and its operator.\n\n"
                 "Usage: solar_volume ctl VERB [ARGUMENT]... [OPTION]...\n\n"
                 "  serve                          the catalog's process\n"
                 "  key      disk|wire FILE        a new key, in a new file\n"
                 "  key      client FILE KEY N     client N's, made of a wire key\n"
                 "  key      token FILE [OLD]      a new one of tokens, beside those of OLD\n");
    ctl_verbs_help(out);
    fprintf(out, "\n  solar_volume ctl VERB --help lists a verb's options\n");
}

int sv_ctl(int argc, char **argv)
{
    int code = 0;
    if (argc >= 2 && strcmp(argv[1], "serve") == 0)
        return ctl_serve(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "key") == 0)
        return key_make(argc - 1, argv + 1);
    ex_output_must(1);
    if (argc >= 2 && ctl_verb(argv[1], argc - 1, argv + 1, &code))
        return code;
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        ex_version("solar_volume");
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "--help") != 0)
        fprintf(stderr, "solar_volume: ctl: unknown verb '%s'\n\n", argv[1]);
    usage(argc >= 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr);
    return argc >= 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}
