/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client's log: servers, and I/O that waits.
 *
 * A server that refuses all requests is reachable, and so is one whose store failed: neither is
 * suspect, and I/O waits, or fails, all the same. So each second it checks each server's reports,
 * and what the disk's oldest I/O waits for.
 */
#include "tell.h"

#include "busy.h"
#include "link.h"
#include "wait.h"

#include <inttypes.h>
#include <stdio.h>

enum { TELL_NAME = 192, TELL_WHY = 512 };

/* Why I/O waits; the last is beside one of the others. */
enum {
    TELL_SILENT,
    TELL_FAILED,
    TELL_DARK,
    TELL_BUSY,
    TELL_ELSEWHERE,
    TELL_PLACE,
    TELL_REFUSED,
    TELL_NO_CATALOG = 16
};

static struct {
    struct tell t;
    struct snic_timer second;
    struct busy busy[LINK_SERVERS];
    uint32_t dark[LINK_SERVERS]; /* server_who() of an unreachable one; 0: it is reachable */
    uint32_t who[LINK_SERVERS];  /* the same, of busy[]: a number may pass to another server */
    struct wait wait;
    uint64_t forbidden; /* answers that were logged */
    uint64_t forbidden_ns;
    uint64_t abandoned; /* writes that were logged */
    uint64_t slow;      /* I/Os that are not logged yet; the last of them: */
    uint64_t slow_lba;
    uint32_t slow_blocks;
    uint64_t slow_ns; /* nothing is logged before */
} te;

/* Which server has the volume's number; never 0. */
static uint32_t server_who(uint32_t server)
{
    return te.t.control != NULL ? link_server(server) + 1 : 1;
}

/* Of the volume's server @p server; into @p text, of TELL_NAME. */
static const char *server_name(uint32_t server, char *text)
{
    struct snic_net_addr a;
    char at[160] = "";
    if (te.t.control == NULL)
        return te.t.server;
    if (snic_volume_get_addr(te.t.v, server, &a) == 0)
        (void)snic_net_addr_format(&a, at, sizeof(at));
    snprintf(text, TELL_NAME, "block server %" PRIu32 "%s%s", link_server(server),
             at[0] != 0 ? " at " : "", at);
    return text;
}

void tell_suspect(void *ctx, uint32_t server, int is)
{
    struct snic_volume_stats s;
    char name[TELL_NAME];
    (void)ctx;
    te.dark[server] = is ? server_who(server) : 0;
    snic_volume_get_stats(te.t.v, &s);
    uint32_t version = te.t.luna ? s.luna.peer_version : s.agent.peer_version;
    if (is && version != 0) {
        ex_log(EX_ERROR,
               "no path to %s works: a server answers in version %u of the packet format, this "
               "client uses version %u: use the same release at both ends",
               server_name(server, name), version, SNIC_EBS_VERSION);
        return;
    }
    ex_log(
        EX_WARNING,
        !is                ? "%s is reachable again"
        : te.t.luna        ? "%s is not reachable: no connection is open: it is down, or all its "
                             "connections are in use (its log says so)"
        : s.too_large != 0 ? "no path to %s works: a link on the way drops packets of 4252 bytes: "
                             "raise its MTU (4400), or use --transport luna"
        : te.t.sealed
            ? "no path to %s works: it is down, its wire key is another one than this client's, or "
              "all its connections are in use (its log says so)"
            : "no path to %s works: it is down, needs a wire key (--wire-key), or all its "
              "connections are in use (its log says so)",
        server_name(server, name));
}

/* A server's reports: that it is busy, or that its store failed. */
static void look_server(uint32_t server, uint64_t now)
{
    struct snic_ebs_busy is;
    char name[TELL_NAME];
    int none = snic_volume_get_busy(te.t.v, server, &is) != 0;
    if (none || te.who[server] != server_who(server))
        te.busy[server] = (struct busy){.count = 0};
    if (busy_anew(&te.busy[server], none ? NULL : &is))
        te.dark[server] = 0;
    te.who[server] = none ? 0 : server_who(server);
    if (none)
        return;
    uint64_t seconds = busy_look(&te.busy[server], &is, now);
    if (seconds != 0)
        ex_log(EX_WARNING,
               "%s reports that it is busy, for %" PRIu64
               " s so far: its store hangs or has no room",
               server_name(server, name), seconds);
    int failed = busy_failed_look(&te.busy[server], &is, now);
    if (failed > 0)
        ex_log(EX_ERROR, "%s reports that its store failed: I/O that needs it fails, or waits",
               server_name(server, name));
    else if (failed < 0)
        ex_log(EX_INFO, "the store of %s works again", server_name(server, name));
}

static uint32_t wait_why(const struct snic_ebs_wait *w)
{
    struct snic_ebs_busy is = {.count = 0};
    uint32_t no_catalog = te.t.control != NULL && !link_up() ? TELL_NO_CATALOG : 0;
    if (w->server == UINT32_MAX)
        return no_catalog | (link_refused(w->segment) != 0 ? TELL_REFUSED : TELL_PLACE);
    if (snic_volume_get_busy(te.t.v, w->server, &is) == 0 && is.failed_since_ns != 0)
        return no_catalog | TELL_FAILED;
    if (te.dark[w->server] == server_who(w->server))
        return no_catalog | TELL_DARK;
    if (is.since_ns != 0)
        return no_catalog | TELL_BUSY;
    if (link_refused(w->segment) != 0)
        return no_catalog | TELL_REFUSED;
    return no_catalog | (w->place ? TELL_ELSEWHERE : TELL_SILENT);
}

static void why_text(const struct snic_ebs_wait *w, uint32_t why, char text[TELL_WHY])
{
    static const char *const said[] = {
        [TELL_SILENT] = "%s has not responded yet",
        [TELL_FAILED] = "the store of %s failed",
        [TELL_DARK] = "%s is not reachable",
        [TELL_BUSY] = "%s is busy",
        [TELL_ELSEWHERE] =
            ("%s does not have it as this client knows it (no such disk, or a smaller one?)"),
    };
    char name[TELL_NAME] = "";
    int error = link_refused(w->segment);
    uint32_t kind = why & (TELL_NO_CATALOG - 1);
    size_t n = 0;
    if (kind == TELL_REFUSED && error == SNIC_EHOSTUNREACH)
        n = (size_t)snprintf(
            text, TELL_WHY,
            "the catalog at %s reports no room on servers that are up, and others are down",
            te.t.control);
    else if (kind == TELL_REFUSED && error == SNIC_EBUSY)
        n = (size_t)snprintf(
            text, TELL_WHY,
            "it needs one more server than this client connects to at a time (raise --servers)");
    else if (kind == TELL_REFUSED)
        n = (size_t)snprintf(text, TELL_WHY, "the catalog at %s reports: %s", te.t.control,
                             snic_strerror(error));
    else if (kind == TELL_PLACE && te.t.control == NULL)
        n = (size_t)snprintf(text, TELL_WHY, "its location is unknown");
    else if (kind == TELL_PLACE && (why & TELL_NO_CATALOG) == 0)
        n = (size_t)snprintf(text, TELL_WHY, "the catalog at %s has not reported its location",
                             te.t.control);
    else if (kind != TELL_PLACE)
        n = (size_t)snprintf(text, TELL_WHY, said[kind], server_name(w->server, name));
    n = snic_min_u64(n, TELL_WHY - 1);
    if ((why & TELL_NO_CATALOG) != 0)
        snprintf(text + n, TELL_WHY - n, "%sthe catalog at %s does not respond",
                 n != 0 ? "; and " : "", te.t.control);
}

static void look_wait(const struct snic_ebs_wait *is, uint64_t now)
{
    char text[TELL_WHY];
    uint32_t why = is != NULL ? wait_why(is) : 0;
    enum wait_say say = wait_look(&te.wait, is, why, now);
    if (say == WAIT_NOTHING)
        return;
    const struct snic_ebs_wait *w = &te.wait.is;
    uint64_t seconds = (now - w->since_ns) / UINT64_C(1000000000);
    if (say == WAIT_OVER) {
        ex_log(EX_WARNING, "disk %s: segment %" PRIu64 " waits no more, after %" PRIu64 " s",
               te.t.disk, w->segment, seconds);
        return;
    }
    why_text(w, why, text);
    ex_log(EX_WARNING, "disk %s: segment %" PRIu64 " waits, for %" PRIu64 " s: %s", te.t.disk,
           w->segment, seconds, text);
}

/* Of slow I/Os one line in five seconds, whatever the number; none while a wait is logged, or soon
 * may be: @p is, or NULL. */
static void look_slow(const struct snic_ebs_wait *is, uint64_t now)
{
    if (te.wait.told)
        te.slow = 0;
    if (te.slow == 0 || now < te.slow_ns ||
        (is != NULL && now >= is->since_ns + WAIT_PATIENCE_NS / 4))
        return;
    ex_log(EX_WARNING,
           "disk %s: %" PRIu64 " I/Os have taken longer than a second, one at block %" PRIu64
           ", of %" PRIu32 "; they are retried",
           te.t.disk, te.slow, te.slow_lba, te.slow_blocks);
    te.slow = 0;
    te.slow_ns = now + UINT64_C(5000000000);
}

void tell_slow(void *ctx, uint32_t disk, uint64_t lba, uint32_t blocks)
{
    (void)ctx;
    (void)disk;
    te.slow++;
    te.slow_lba = lba;
    te.slow_blocks = blocks;
}

/* One line in five seconds. */
static void look_forbidden(uint64_t now)
{
    struct snic_volume_stats s;
    snic_volume_get_stats(te.t.v, &s);
    if (s.agent.forbidden == te.forbidden || now < te.forbidden_ns)
        return;
    ex_log(EX_ERROR,
           "disk %s: a server refused an I/O: this client's key does not permit it (--clients of "
           "the server)",
           te.t.disk);
    te.forbidden = s.agent.forbidden;
    te.forbidden_ns = now + UINT64_C(5000000000);
}

static void look_abandoned(void)
{
    struct snic_volume_stats s;
    snic_volume_get_stats(te.t.v, &s);
    uint64_t all = s.agent.abandoned + s.luna.abandoned;
    if (all != te.abandoned)
        ex_log(EX_ERROR,
               "disk %s: writes failed (EIO): their server has not responded within --io-timeout "
               "(%" PRIu64 " requests); I/O to their segments fails until the server or the "
               "catalog confirms that no late copy of them is written",
               te.t.disk, all - te.abandoned);
    te.abandoned = all;
}

static void second(struct snic_timer *t, uint64_t now)
{
    struct snic_ebs_wait is;
    int waits = snic_volume_get_wait(te.t.v, 0, &is) == 1;
    for (uint32_t i = 0; i < LINK_SERVERS; i++)
        look_server(i, now);
    look_forbidden(now);
    look_abandoned();
    look_wait(waits ? &is : NULL, now);
    look_slow(waits ? &is : NULL, now);
    snic_loop_arm(te.t.loop, t, now + UINT64_C(1000000000));
}

void tell_begin(const struct tell *t)
{
    te.t = *t;
    snic_timer_init(&te.second, second);
    snic_loop_arm(t->loop, &te.second, snic_loop_now(t->loop) + UINT64_C(1000000000));
}

void tell_end(void)
{
    if (te.t.loop != NULL)
        snic_loop_cancel(te.t.loop, &te.second);
}
