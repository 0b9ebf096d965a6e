/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A client's link to the catalog: the lease of its disk, and where its segments are. */
#include "link.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Segments that the catalog cannot place: of each 64th the lowest, until it was not refused for a
 * while. The oldest I/O, which is logged, rarely has others before it. */
enum { REFUSED = 64 };

struct refused {
    uint64_t segment;
    uint64_t until_ns;
    int error;
};

static struct {
    struct snic_loop *loop;
    struct snic_control_client *c;
    struct snic_control_grant grant;
    struct snic_timer patience;
    const char *control;
    const char *name;
    int granted; /* 1: an answer came */
    int result;
    int up;
    int turned; /* the catalog had no connection for us, or refuses */
    struct refused refused[REFUSED];
} li;

static void granted(void *ctx, uint32_t disk, int result, const struct snic_control_grant *g)
{
    (void)ctx;
    (void)disk;
    li.granted = 1;
    li.result = result;
    li.grant = *g;
    snic_loop_stop(li.loop);
}

static void lost(void *ctx, uint32_t disk, int reason)
{
    (void)ctx;
    (void)disk;
    ex_log(EX_ERROR,
           reason == SNIC_ENOENT
               ? "disk %s has been deleted"
               : "another client has the lease of disk %s, or it was revoked, or a right was taken "
                 "from this client: writes fail from now on, and servers that know of it refuse "
                 "reads",
           li.name);
}

static void qos(void *ctx, uint32_t disk, const struct snic_control_qos *q)
{
    (void)ctx;
    (void)disk;
    ex_log(EX_INFO,
           "disk %s: at most %" PRIu64 " I/Os and %" PRIu64 " bytes a second (0: no limit)",
           li.name, q->ios_per_second, q->bytes_per_second);
}

/* A refusal is valid for so long without another answer: lookups are repeated much sooner. */
#define REFUSED_NS UINT64_C(5000000000)

/* Writes there have ended with ENOSPC: one line in five seconds, for they may be many. */
static void no_room(uint64_t segment, uint64_t now)
{
    static uint64_t next_ns;
    if (now < next_ns)
        return;
    next_ns = now + REFUSED_NS;
    ex_log(EX_ERROR,
           "disk %s: no space left (ENOSPC) for writes to segment %" PRIu64
           ": no block server has room for it, or the catalog has as many segments as it may have "
           "(its --segments); add a server or delete a disk",
           li.name, segment);
}

static void wanting(void *ctx, uint32_t disk, uint64_t segment, int error)
{
    struct refused *r = &li.refused[segment % REFUSED];
    uint64_t now = snic_loop_now(li.loop);
    (void)ctx;
    (void)disk;
    if (error == SNIC_ENOSPC) {
        no_room(segment, now);
        return; /* nothing waits for it any more */
    }
    if (now < r->until_ns && r->segment < segment)
        return;
    r->segment = segment;
    r->error = error;
    r->until_ns = now + REFUSED_NS;
}

int link_refused(uint64_t segment)
{
    const struct refused *r = &li.refused[segment % REFUSED];
    if (li.loop == NULL || r->segment != segment || snic_loop_now(li.loop) >= r->until_ns)
        return 0;
    return r->error;
}

int link_up(void)
{
    return li.up;
}

static void up(void *ctx, int is)
{
    (void)ctx;
    if (li.up != is)
        ex_log(is ? EX_INFO : EX_WARNING,
               is ? "connected to the catalog at %s"
                  : "connection to the catalog at %s lost: retrying",
               li.control);
    li.up = is;
}

/* It asks again every second: one line in five. */
static void refused(void *ctx, int error)
{
    static uint64_t next_ns;
    uint64_t now = snic_loop_now(li.loop);
    const char *why = snic_strerror(error);
    (void)ctx;
    if (!li.granted && error != SNIC_ENFILE)
        return; /* the answer to the first attach has the reason */
    li.turned = error == SNIC_ENFILE;
    if (now < next_ns)
        return;
    if (error == SNIC_EACCES)
        why = "it does not accept the key of --wire-key any more";
    if (error == SNIC_ENOTSUP)
        why = "it was started without --wire-key, and may be another one";
    next_ns = now + REFUSED_NS;
    if (error == SNIC_ENFILE)
        ex_log(
            EX_WARNING,
            "disk %s waits: all connections of the catalog at %s are in use (--connections of ctl "
            "serve): retrying",
            li.name, li.control);
    else
        ex_log(EX_WARNING, "disk %s waits: the catalog at %s refuses: %s", li.name, li.control,
               why);
}

static void patience(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now;
    if (li.turned)
        return; /* logged already */
    ex_log(EX_WARNING,
           li.up ? "disk %s waits: the catalog at %s has not granted its lease yet"
                 : "disk %s waits for its lease: the catalog at %s does not respond yet",
           li.name, li.control);
}

/* Exits if the catalog does not grant the disk to this client. */
static void not_permitted(int keyed)
{
    if (li.result == SNIC_EPERM)
        ex_die("disk %s: the catalog at %s has no such disk, or does not permit this client to use "
               "it (--clients of ctl serve)",
               li.name, li.control);
    if (li.result == SNIC_ENOTCONN && keyed)
        ex_die("disk %s: the catalog at %s does not accept the key of --wire-key: it was derived "
               "from another wire key, or its number is not in --clients of ctl serve",
               li.name, li.control);
    if (li.result == SNIC_ENOTCONN)
        ex_die("disk %s: the catalog at %s requires a key: --wire-key FILE is needed", li.name,
               li.control);
    if (li.result == SNIC_ENOTSUP)
        ex_die("disk %s: the catalog at %s was started without --wire-key and cannot prove that it "
               "is the right one",
               li.name, li.control);
}

int link_open(struct snic_loop *loop, struct snic_net *net, const char *control,
              const struct snic_control_auth *auth, const char *name, int take,
              const char *key_file, const uint64_t key[2], uint32_t servers,
              struct snic_control_grant *out)
{
    static const struct snic_control_client_events ev = {.granted = granted,
                                                         .lost = lost,
                                                         .qos = qos,
                                                         .lookup_failed = wanting,
                                                         .link = up,
                                                         .refused = refused};
    struct snic_control_client_opts o = {.opts_size = sizeof(o), .loop = loop, .net = net};
    ex_address("control", control, &o.control);
    o.auth = auth;
    o.disks_max = 1;
    o.servers_max = servers;
    li.loop = loop;
    li.control = control;
    li.name = name;
    size_t size = snic_control_client_memsize(&o);
    int r = snic_control_client_open(&li.c, sv_memory(size), size, &o, &ev, NULL);
    if (r == 0)
        r = snic_control_client_attach(li.c, 0, name, take ? SNIC_CONTROL_TAKE : 0, key);
    if (r != 0)
        ex_die("disk '%s': %s", name, snic_strerror(r));
    snic_timer_init(&li.patience, patience);
    snic_loop_arm(loop, &li.patience, snic_loop_now(loop) + UINT64_C(2000000000));
    (void)snic_loop_run(loop); /* or a signal */
    snic_loop_cancel(loop, &li.patience);
    *out = li.grant;
    if (!li.granted)
        return 0;
    if (li.result == SNIC_EBUSY)
        ex_die("disk %s is in use by another client (--take fences it)", name);
    if (li.result == SNIC_EACCES && key_file == NULL)
        ex_die("disk %s is encrypted: --disk-key FILE is needed", name);
    if (li.result == SNIC_EACCES && (li.grant.key[0] | li.grant.key[1]) == 0)
        ex_die("disk %s is not encrypted: it was created without --disk-key", name);
    if (li.result == SNIC_EACCES)
        ex_die("disk %s is encrypted with another key than that in %s", name, key_file);
    if (li.result == SNIC_EOVERFLOW)
        ex_die("disk %s: its %u leases are used up (solar_volume ctl reissue gives it new ones)",
               name, SNIC_CONTROL_LEASE_MAX);
    not_permitted(auth != NULL);
    if (li.result == SNIC_EVERSION)
        ex_die("the catalog uses another version of the control protocol than this client (%u): "
               "use the same release for the catalog, its servers and clients",
               SNIC_CONTROL_VERSION);
    if (li.result == SNIC_ENOENT)
        ex_die("disk %s: no disk of that name in the catalog (solar_volume ctl list shows them)",
               name);
    if (li.result != 0)
        ex_die("disk %s: %s", name, snic_strerror(li.result));
    return 1;
}

void link_volume(struct snic_volume *v)
{
    snic_control_client_volume(li.c, v);
}

void link_show(void)
{
    snic_control_client_opened(li.c, 0);
}

void link_token(void)
{
    static uint64_t next_ns;
    uint64_t now = snic_loop_now(li.loop);
    snic_control_client_token(li.c, 0);
    if (now < next_ns)
        return;
    next_ns = now + REFUSED_NS;
    ex_log(EX_WARNING,
           li.grant.token_seconds == 0
               ? "disk %s: a server requires a token, and the catalog at %s grants none "
                 "(--token-key of ctl serve)"
           : li.up
               ? "disk %s: a server refuses its token (expired by the server's clock, or signed "
                 "with a "
                 "key that the server does not have; its log names it): I/O waits for a new one "
                 "from the catalog at %s"
               : "disk %s: its token has expired: I/O waits until the catalog at %s is back",
           li.name, li.control);
}

void link_map(uint64_t segment, uint32_t gen)
{
    snic_control_client_map(li.c, 0, segment, gen);
}

void link_crowd(uint64_t *released, uint64_t *crowded)
{
    struct snic_control_client_stats s;
    snic_control_client_get_stats(li.c, &s);
    *released = s.numbers_reused;
    *crowded = s.numbers_exhausted;
}

uint32_t link_server(uint32_t number)
{
    return snic_control_client_server(li.c, number);
}

void link_lease(void)
{
    snic_control_client_lease(li.c, 0);
}

void link_close(int orderly)
{
    if (orderly)
        snic_control_client_detach(li.c, 0);
    snic_control_client_volume(li.c, NULL);
    free(snic_control_client_close(li.c));
}
