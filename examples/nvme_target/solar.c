/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Namespaces on virtual disks of a block server (volume.h, SOLAR, without a catalog). A disk has
 * one writer, the one with the highest lease: each opening takes one above that of the last, which
 * is durable in a file beside the configuration before the server is sent anything. A start takes
 * its leases when nothing else can fail any more: one that is repeated for ever must not use them
 * up. A loop sends nothing before it is turned.
 *   A client is closed by turning its loop, which a change that is carried out in an event of that
 * loop must not do: what such a change has removed stays, idle, until the loop ends, a few at most.
 */
#include "target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { SOLAR_EPOCH_MAX = 65535, SOLAR_EPOCHS_FEW = 5000, SOLAR_SOCKETS = 64, SOLAR_LEFT = 16 };

struct tg_solar {
    struct tg_solar *next;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_volume *v;
    uint64_t disk;
    uint32_t epoch;
    char server[160];
};

/* ---- The lease ---- */

static int solar_epoch_path(const struct tg_namespace *ns, char *out, size_t size)
{
    static const unsigned char key[16] = "nvme_target disk";
    return (size_t)snprintf(out, size, "%s.disk-%" PRIu64 "-%016" PRIx64 ".lease", tg.config,
                            ns->solar_disk, snic_siphash(key, ns->solar, strlen(ns->solar))) < size
               ? 0
               : -1;
}

/* Durable. 0; -1 */
static int solar_epoch_keep(const struct tg_namespace *ns, uint32_t epoch, struct tg_error *e)
{
    char path[4400], text[32];
    struct tg_file file = {.path = path, .data = text};
    if (tg.config == NULL)
        return 0;
    if (solar_epoch_path(ns, path, sizeof(path)) != 0)
        return tg_fail(e, "%s: too long a name for the files beside it", tg.config);
    if (SOLAR_EPOCH_MAX - epoch < SOLAR_EPOCHS_FEW)
        ex_log(EX_WARNING,
               "disk %" PRIu64 " of %s: %" PRIu32 " of its %d leases are left, and each start "
               "takes one: copy it to another disk",
               ns->solar_disk, ns->solar, SOLAR_EPOCH_MAX - epoch, SOLAR_EPOCH_MAX);
    file.size = (size_t)snprintf(text, sizeof(text), "%" PRIu32 "\n", epoch);
    return tg_file_now(&file) == 0 ? 0 : tg_fail(e, "cannot write %s: %s", path, strerror(errno));
}

int tg_solar_begin(struct tg_error *e)
{
    for (uint32_t i = 0; i < TG_NAMESPACES; i++)
        if (tg.ns[i].client != NULL && solar_epoch_keep(&tg.ns[i], tg.ns[i].client->epoch, e) != 0)
            return -1;
    return 0;
}

/* Above those of other namespaces on the disk, whose leases are not in the file yet. */
static uint32_t solar_epoch_above(const struct tg_namespace *ns, uint32_t epoch)
{
    for (uint32_t i = 0; i < TG_NAMESPACES; i++) {
        const struct tg_solar *s = tg.ns[i].client;
        if (s != NULL && s->disk == ns->solar_disk && strcmp(s->server, ns->solar) == 0 &&
            s->epoch >= epoch)
            epoch = s->epoch + 1;
    }
    return epoch;
}

/* The next lease; where @p live durable, else with tg_solar_begin(). 0; -1 */
static int solar_epoch(const struct tg_namespace *ns, int live, uint32_t *out, struct tg_error *e)
{
    char path[4400], text[32];
    unsigned long last = 0;
    *out = ns->solar_epoch;
    if (tg.config == NULL)
        return 0;
    if (solar_epoch_path(ns, path, sizeof(path)) != 0)
        return tg_fail(e, "%s: too long a name for the files beside it", tg.config);
    FILE *f = fopen(path, "re");
    if (f != NULL && (fgets(text, sizeof(text), f) == NULL || sscanf(text, "%lu", &last) != 1 ||
                      last > SOLAR_EPOCH_MAX)) {
        (void)fclose(f);
        return tg_fail(e,
                       "%s is damaged: it has not the last lease of a disk: remove it, and set "
                       "epoch= above that",
                       path);
    }
    if (f != NULL)
        (void)fclose(f);
    else if (errno != ENOENT)
        return tg_fail(e, "cannot read %s: %s", path, strerror(errno));
    if (last + 1 > *out)
        *out = (uint32_t)last + 1;
    if (!live)
        *out = solar_epoch_above(ns, *out);
    if (*out > SOLAR_EPOCH_MAX)
        return tg_fail(e, "disk %" PRIu64 " of %s: its leases are used up: copy it to another one",
                       ns->solar_disk, ns->solar);
    return live ? solar_epoch_keep(ns, *out, e) : 0;
}

/* ---- Events of the client ---- */

static void solar_map(void *ctx, uint32_t disk, uint64_t segment, uint32_t gen)
{
    struct tg_solar *s = ctx;
    uint32_t now = snic_volume_gen(s->epoch, 0);
    if (gen < now && snic_volume_map(s->v, disk, segment, s->disk << 32 | segment, 0, now) != 0)
        ex_log(EX_ERROR, "disk %" PRIu64 " of %s: segment %" PRIu64 " cannot be used", s->disk,
               s->server, segment);
}

static void solar_lease(void *ctx, uint32_t disk)
{
    const struct tg_solar *s = ctx;
    (void)disk;
    ex_log(EX_ERROR,
           "disk %" PRIu64 " of %s: another client has a later lease than %" PRIu32
           ": writes fail from now on",
           s->disk, s->server, s->epoch);
}

static void solar_suspect(void *ctx, uint32_t server, int suspect)
{
    const struct tg_solar *s = ctx;
    (void)server;
    ex_log(EX_WARNING, "disk %" PRIu64 ": its server %s %s", s->disk, s->server,
           suspect ? "does not respond: I/O waits" : "responds again");
}

static void solar_token(void *ctx, uint32_t disk)
{
    const struct tg_solar *s = ctx;
    (void)disk;
    ex_log(EX_ERROR,
           "disk %" PRIu64 ": its server %s requires a token of a catalog, and this "
           "target has none",
           s->disk, s->server);
}

/* ---- Open, close ---- */

static void solar_free(struct tg_solar *s)
{
    if (s->v != NULL)
        free(snic_volume_close(s->v));
    if (s->net != NULL)
        snic_net_shut(s->net);
    free(s);
}

static int solar_volume(struct tg_solar *s, const struct tg_namespace *ns)
{
    static const struct snic_volume_events events = {
        .map = solar_map, .lease = solar_lease, .suspect = solar_suspect, .token = solar_token};
    struct snic_volume_opts o = {.opts_size = sizeof(o), .loop = s->loop, .net = s->net};
    struct snic_net_addr server;
    int r = snic_net_addr_parse(&server, s->server);
    if (r != 0 || getrandom(&o.seed, sizeof(o.seed), 0) != sizeof(o.seed))
        return r != 0 ? r : SNIC_EIO;
    o.local.family = server.family;
    o.depth = 1024;
    o.client_epoch = s->epoch;
    o.transport = SNIC_VOLUME_SOLAR;
    o.servers_max = o.disks_max = 1;
    o.chunks_max = (uint32_t)((ns->size + (1u << 30) - 1) >> 30);
    o.disk_blocks_max = snic_max_u64(ns->size / 4096, SNIC_SEGMENTS_BLOCKS);
    size_t size = snic_volume_memsize(&o);
    size = snic_align_up(size, SNIC_VOLUME_ALIGN); /* aligned_alloc() requires it */
    void *mem = size != 0 ? aligned_alloc(SNIC_VOLUME_ALIGN, size) : NULL;
    if (mem == NULL)
        return size != 0 ? SNIC_ENOMEM : SNIC_EINVAL;
    r = snic_volume_open(&s->v, mem, size, &o, &events, s);
    if (r != 0)
        free(mem);
    return r != 0 ? r : snic_volume_server_add(s->v, 0, &server);
}

/* By loop, each its thread's. */
static struct {
    struct tg_solar *first;
    uint32_t count;
} left[SNIC_NVMET_LOOPS_MAX];

int tg_solar_open(struct snic_loop *loop, struct tg_namespace *ns, int live, struct tg_error *e)
{
    struct snic_net_uring_opts n = {.opts_size = sizeof(n),
                                    .conns_max = 16,
                                    .recv_size = 65536,
                                    .recv_buffers = 16,
                                    .pool_buffers = 64,
                                    .send_queue = 192,
                                    .dgrams_max = SOLAR_SOCKETS,
                                    .dgram_flags = SNIC_NET_DGRAM_DF | SNIC_NET_DGRAM_TIME,
                                    .dgram_recv_bytes = 4u << 20,
                                    .dgram_send_bytes = 4u << 20};
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d), .vd_id = ns->solar_disk};
    if (left[tg_loops_part(ns)].count >= SOLAR_LEFT)
        return tg_fail(e, "too many virtual disks were removed: restart the target");
    struct tg_solar *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return tg_fail(e, "out of memory");
    (void)snprintf(s->server, sizeof(s->server), "%s", ns->solar);
    s->loop = loop;
    s->disk = ns->solar_disk;
    int r = solar_epoch(ns, live, &s->epoch, e);
    if (r != 0) {
        free(s);
        return r;
    }
    d.sa_epoch = s->epoch;
    d.bytes = ns->size;
    r = snic_net_uring_open(&s->net, loop, &n);
    if (r == 0)
        r = solar_volume(s, ns);
    if (r == 0)
        r = snic_volume_disk_open(s->v, 0, &d, &ns->device);
    ns->client = s;
    ns->room = ns->size;
    return r == 0 ? 0
                  : tg_fail(e, "disk %" PRIu64 " of %s: %s", ns->solar_disk, ns->solar,
                            snic_strerror(r));
}

void tg_solar_close(struct tg_namespace *ns)
{
    uint32_t part = tg_loops_part(ns);
    struct tg_solar *s = ns->client;
    ns->client = NULL;
    if (s == NULL)
        return;
    s->next = left[part].first;
    left[part].first = s;
    left[part].count++;
}

void tg_solar_end(uint32_t part)
{
    while (left[part].first != NULL) {
        struct tg_solar *s = left[part].first;
        left[part].first = s->next;
        solar_free(s);
    }
}
