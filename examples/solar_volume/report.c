/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client's log: servers, and I/O that waits.
 *
 * A server that refuses all requests is reachable, and so is one whose store failed: neither is
 * suspect, and I/O waits, or fails, all the same. So each second it checks each server's reports,
 * and what the disk's oldest I/O waits for.
 */
#include "report.h"

#include "busy.h"
#include "link.h"
#include "wait.h"

#include <inttypes.h>
#include <stdio.h>

enum { REPORT_NAME = 192, REPORT_WHY = 512 };

/* Why I/O waits; the last is beside one of the others. */
enum {
    REPORT_SILENT,
    REPORT_FAILED,
    REPORT_DARK,
    REPORT_BUSY,
    REPORT_ELSEWHERE,
    REPORT_PLACE,
    REPORT_REFUSED,
    REPORT_NO_CATALOG = 16
};

static struct {
    struct report r;
    struct snic_timer second;
    struct busy busy[LINK_SERVERS];
    uint32_t dark[LINK_SERVERS]; /* server_who() of an unreachable one; 0: it is reachable */
    uint32_t who[LINK_SERVERS];  /* the same, of busy[]: a number may pass to another server */
    int narrow;                  /* a link that drops large packets is logged */
    struct wait wait;
    uint64_t forbidden; /* answers that were logged */
    uint64_t forbidden_ns;
    uint64_t abandoned; /* writes that were logged */
    uint64_t slow;      /* I/Os that are not logged yet; the last of them: */
    uint64_t slow_lba;
    uint32_t slow_blocks;
    uint64_t slow_ns; /* nothing is logged before */
} re;

/* Which server has the volume's number; never 0. */
static uint32_t server_who(uint32_t server)
{
    return re.r.control != NULL ? link_server(server) + 1 : 1;
}

/* Of the volume's server @p server; into @p text, of REPORT_NAME. */
static const char *server_name(uint32_t server, char *text)
{
    struct snic_net_addr a;
    char at[160] = "";
    if (re.r.control == NULL)
        return re.r.server;
    if (snic_volume_get_addr(re.r.v, server, &a) == 0)
        (void)snic_net_addr_format(&a, at, sizeof(at));
    snprintf(text, REPORT_NAME, "block server %" PRIu32 "%s%s", link_server(server),
             at[0] != 0 ? " at " : "", at);
    return text;
}

static void narrow(uint32_t server)
{
    char name[REPORT_NAME];
    ex_log(EX_WARNING,
           "no path to %s works: a link on the way drops packets of 4252 bytes: raise its MTU "
           "(4400), or use --transport luna",
           server_name(server, name));
    re.narrow = 1;
}

void report_suspect(void *ctx, uint32_t server, int is)
{
    struct snic_volume_stats s;
    char name[REPORT_NAME];
    (void)ctx;
    re.dark[server] = is ? server_who(server) : 0;
    snic_volume_get_stats(re.r.v, &s);
    uint32_t version = re.r.luna ? s.luna.peer_version : s.agent.peer_version;
    if (is && version != 0) {
        ex_log(EX_ERROR,
               "no path to %s works: a server answers in version %u of the packet format, this "
               "client uses version %u: use the same release at both ends",
               server_name(server, name), version, SNIC_EBS_VERSION);
        return;
    }
    if (is && !re.r.luna && s.too_large != 0) {
        narrow(server);
        return;
    }
    ex_log(
        EX_WARNING,
        !is         ? "%s is reachable again"
        : re.r.luna ? "%s is not reachable: no connection is open: it is down, or all its "
                      "connections are in use (its log has the reason)"
        : re.r.sealed
            ? "no path to %s works: it is down, its wire key is another one than this client's, or "
              "all its connections are in use (its log has the reason)"
            : "no path to %s works: it is down, needs a wire key (--wire-key), or all its "
              "connections are in use (its log has the reason)",
        server_name(server, name));
}

/* That a link is too narrow may become known after its server was logged as unreachable. */
static void look_narrow(void)
{
    struct snic_volume_stats s;
    snic_volume_get_stats(re.r.v, &s);
    if (re.r.luna || s.too_large == 0 || s.agent.peer_version != 0)
        return;
    for (uint32_t i = 0; i < LINK_SERVERS && !re.narrow; i++)
        if (re.dark[i] != 0 && re.dark[i] == server_who(i))
            narrow(i);
}

/* A server's reports: that it is busy, or that its store failed. */
static void look_server(uint32_t server, uint64_t now)
{
    struct snic_ebs_busy is;
    char name[REPORT_NAME];
    int none = snic_volume_get_busy(re.r.v, server, &is) != 0;
    if (none || re.who[server] != server_who(server))
        re.busy[server] = (struct busy){.count = 0};
    if (busy_anew(&re.busy[server], none ? NULL : &is))
        re.dark[server] = 0;
    re.who[server] = none ? 0 : server_who(server);
    if (none)
        return;
    uint64_t seconds = busy_look(&re.busy[server], &is, now);
    if (seconds != 0)
        ex_log(EX_WARNING,
               "%s reports that it is busy, for %" PRIu64
               " s so far: its store hangs or has no room",
               server_name(server, name), seconds);
    int failed = busy_failed_look(&re.busy[server], &is, now);
    if (failed > 0)
        ex_log(EX_ERROR, "%s reports that its store failed: I/O that needs it fails, or waits",
               server_name(server, name));
    else if (failed < 0)
        ex_log(EX_INFO, "the store of %s works again", server_name(server, name));
}

static uint32_t wait_why(const struct snic_ebs_wait *w)
{
    struct snic_ebs_busy is = {.count = 0};
    uint32_t no_catalog = re.r.control != NULL && !link_up() ? REPORT_NO_CATALOG : 0;
    if (w->server == UINT32_MAX)
        return no_catalog | (link_refused(w->segment) != 0 ? REPORT_REFUSED : REPORT_PLACE);
    if (snic_volume_get_busy(re.r.v, w->server, &is) == 0 && is.failed_since_ns != 0)
        return no_catalog | REPORT_FAILED;
    if (re.dark[w->server] == server_who(w->server))
        return no_catalog | REPORT_DARK;
    if (is.since_ns != 0)
        return no_catalog | REPORT_BUSY;
    if (link_refused(w->segment) != 0)
        return no_catalog | REPORT_REFUSED;
    return no_catalog | (w->place ? REPORT_ELSEWHERE : REPORT_SILENT);
}

static void why_text(const struct snic_ebs_wait *w, uint32_t why, char text[REPORT_WHY])
{
    static const char *const reasons[] = {
        [REPORT_SILENT] = "%s has not responded yet",
        [REPORT_FAILED] = "the store of %s failed",
        [REPORT_DARK] = "%s is not reachable",
        [REPORT_BUSY] = "%s is busy",
        [REPORT_ELSEWHERE] =
            ("%s does not have it as this client knows it (no such disk, or a smaller one?)"),
    };
    char name[REPORT_NAME] = "";
    int error = link_refused(w->segment);
    uint32_t kind = why & (REPORT_NO_CATALOG - 1);
    size_t n = 0;
    if (kind == REPORT_REFUSED && error == SNIC_EHOSTUNREACH)
        n = (size_t)snprintf(
            text, REPORT_WHY,
            "the catalog at %s reports no room on servers that are up, and others are down",
            re.r.control);
    else if (kind == REPORT_REFUSED && error == SNIC_EBUSY)
        n = (size_t)snprintf(
            text, REPORT_WHY,
            "it needs one more server than this client connects to at a time (raise --servers)");
    else if (kind == REPORT_REFUSED)
        n = (size_t)snprintf(text, REPORT_WHY, "the catalog at %s reports: %s", re.r.control,
                             snic_strerror(error));
    else if (kind == REPORT_PLACE && re.r.control == NULL)
        n = (size_t)snprintf(text, REPORT_WHY, "its location is unknown");
    else if (kind == REPORT_PLACE && (why & REPORT_NO_CATALOG) == 0)
        n = (size_t)snprintf(text, REPORT_WHY, "the catalog at %s has not reported its location",
                             re.r.control);
    else if (kind != REPORT_PLACE)
        n = (size_t)snprintf(text, REPORT_WHY, reasons[kind], server_name(w->server, name));
    n = snic_min_u64(n, REPORT_WHY - 1);
    if ((why & REPORT_NO_CATALOG) != 0)
        snprintf(text + n, REPORT_WHY - n, "%sthe catalog at %s does not respond",
                 n != 0 ? "; and " : "", re.r.control);
}

static void look_wait(const struct snic_ebs_wait *is, uint64_t now)
{
    char text[REPORT_WHY];
    uint32_t why = is != NULL ? wait_why(is) : 0;
    enum wait_event event = wait_look(&re.wait, is, why, now);
    if (event == WAIT_NOTHING)
        return;
    const struct snic_ebs_wait *w = &re.wait.is;
    uint64_t seconds = (now - w->since_ns) / UINT64_C(1000000000);
    if (event == WAIT_OVER) {
        ex_log(EX_WARNING, "disk %s: segment %" PRIu64 " waits no more, after %" PRIu64 " s",
               re.r.disk, w->segment, seconds);
        return;
    }
    why_text(w, why, text);
    ex_log(EX_WARNING, "disk %s: segment %" PRIu64 " waits, for %" PRIu64 " s: %s", re.r.disk,
           w->segment, seconds, text);
}

/* Of slow I/Os one line in five seconds, whatever the number; none while a wait is logged, or soon
 * may be: @p is, or NULL. */
static void look_slow(const struct snic_ebs_wait *is, uint64_t now)
{
    if (re.wait.logged)
        re.slow = 0;
    if (re.slow == 0 || now < re.slow_ns ||
        (is != NULL && now >= is->since_ns + WAIT_PATIENCE_NS / 4))
        return;
    ex_log(EX_WARNING,
           "disk %s: %" PRIu64 " I/Os have taken longer than a second, one at block %" PRIu64
           ", of %" PRIu32 "; they are retried",
           re.r.disk, re.slow, re.slow_lba, re.slow_blocks);
    re.slow = 0;
    re.slow_ns = now + UINT64_C(5000000000);
}

void report_slow(void *ctx, uint32_t disk, uint64_t lba, uint32_t blocks)
{
    (void)ctx;
    (void)disk;
    re.slow++;
    re.slow_lba = lba;
    re.slow_blocks = blocks;
}

/* One line in five seconds. */
static void look_forbidden(uint64_t now)
{
    struct snic_volume_stats s;
    snic_volume_get_stats(re.r.v, &s);
    if (s.agent.forbidden == re.forbidden || now < re.forbidden_ns)
        return;
    ex_log(EX_ERROR,
           "disk %s: a server refused an I/O: this client's key does not permit it (--clients of "
           "the server)",
           re.r.disk);
    re.forbidden = s.agent.forbidden;
    re.forbidden_ns = now + UINT64_C(5000000000);
}

static void look_abandoned(void)
{
    struct snic_volume_stats s;
    snic_volume_get_stats(re.r.v, &s);
    uint64_t all = s.agent.abandoned + s.luna.abandoned;
    if (all != re.abandoned)
        ex_log(EX_ERROR,
               "disk %s: writes failed (EIO): their server has not responded within --io-timeout "
               "(%" PRIu64 " requests); I/O to their segments fails until the server or the "
               "catalog confirms that no late copy of them is written",
               re.r.disk, all - re.abandoned);
    re.abandoned = all;
}

static void second(struct snic_timer *t, uint64_t now)
{
    struct snic_ebs_wait is;
    int waits = snic_volume_get_wait(re.r.v, 0, &is) == 1;
    for (uint32_t i = 0; i < LINK_SERVERS; i++)
        look_server(i, now);
    look_narrow();
    look_forbidden(now);
    look_abandoned();
    look_wait(waits ? &is : NULL, now);
    look_slow(waits ? &is : NULL, now);
    snic_loop_arm(re.r.loop, t, now + UINT64_C(1000000000));
}

void report_begin(const struct report *t)
{
    re.r = *t;
    snic_timer_init(&re.second, second);
    snic_loop_arm(t->loop, &re.second, snic_loop_now(t->loop) + UINT64_C(1000000000));
}

void report_end(void)
{
    if (re.r.loop != NULL)
        snic_loop_cancel(re.r.loop, &re.second);
}
