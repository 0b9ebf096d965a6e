/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ctlclient.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

#define BLOCK 4096u

static void wrong(struct ctlfix *f, const char *format, ...) SNIC_PRINTF(2, 3);
static void wrong(struct ctlfix *f, const char *format, ...)
{
    va_list ap;
    if (f->why[0] != 0)
        return;
    va_start(ap, format);
    (void)vsnprintf(f->why, sizeof(f->why), format, ap);
    va_end(ap);
}

/* ---- The oracle ---- */

static void doubt(struct ctlfix *f, struct ctlfix_block *b, uint64_t stamp)
{
    if (b->doubts == CTLFIX_MAYBE)
        wrong(f, "the oracle has no room for another doubt");
    else
        b->maybe[b->doubts++] = stamp;
}

static int holds(const struct ctlfix_handle *g)
{
    return g->f->holder[g->disk] == g;
}

/* Its writes have no effect, or an unknown one. */
static void leave(struct ctlfix_handle *g)
{
    struct ctlfix *f = g->f;
    if (!holds(g))
        return;
    for (uint32_t i = 0; i < CTLFIX_BLOCKS; i++) {
        struct ctlfix_block *b = &f->block[g->disk][i];
        if (b->flying != 0)
            doubt(f, b, b->coming);
        b->flying = 0;
        b->writes++;
    }
    f->holder[g->disk] = NULL;
}

static void judge(struct ctlfix_io *x, uint32_t i)
{
    struct ctlfix_handle *g = x->g;
    struct ctlfix *f = g->f;
    struct ctlfix_block *b = &f->block[g->disk][x->lba + i];
    const unsigned char *p = x->data + (size_t)i * BLOCK;
    uint64_t stamp = snic_get_le64(p);
    int known = stamp == b->value;
    if (stamp != 0 && (stamp > f->stamps || snic_get_le64(p + 8) != x->lba + i ||
                       snic_get_le64(p + 16) != g->disk || snic_get_le64(p + BLOCK - 8) != stamp))
        wrong(f, "disk %u block %" PRIu64 ": what is read was never written there", g->disk,
              x->lba + i);
    if (stamp == 0 && p[BLOCK / 2] != 0)
        wrong(f, "disk %u block %" PRIu64 ": neither zeros nor data", g->disk, x->lba + i);
    if (!x->settled[i] || b->flying != 0)
        return; /* it was written while it was read */
    for (uint32_t k = 0; k < b->doubts; k++)
        known |= stamp == b->maybe[k];
    if (!known)
        wrong(f, "disk %u block %" PRIu64 ": %" PRIu64 " is read, %" PRIu64 " was there", g->disk,
              x->lba + i, stamp, b->value);
    b->value = stamp;
    b->doubts = 0;
}

/* ---- The client session ---- */

static void fill(struct ctlfix_io *x)
{
    for (uint32_t i = 0; i < x->blocks; i++) {
        unsigned char *p = x->data + (size_t)i * BLOCK;
        memset(p, (int)(x->stamp & 0xff), BLOCK);
        snic_put_le64(p, x->stamp);
        snic_put_le64(p + 8, x->lba + i);
        snic_put_le64(p + 16, x->g->disk);
        snic_put_le64(p + BLOCK - 8, x->stamp);
    }
}

static int taken(const struct ctlfix_handle *g, uint64_t lba, uint32_t blocks)
{
    for (uint32_t i = 0; i < CTLFIX_DEPTH; i++) {
        const struct ctlfix_io *x = &g->ios[i];
        if (x->busy && x->req.op != SNIC_IO_READ && x->lba < lba + blocks &&
            lba < x->lba + x->blocks)
            return 1;
    }
    return 0;
}

static void handle_next(struct ctlfix_handle *g);

static void handle_wrote(struct ctlfix_io *x)
{
    struct ctlfix *f = x->g->f;
    for (uint32_t i = 0; i < x->blocks; i++) {
        struct ctlfix_block *b = &f->block[x->g->disk][x->lba + i];
        if (b->flying != x->stamp)
            continue;
        b->value = b->coming;
        b->flying = 0;
        b->doubts = 0;
    }
}

/* Unknown outcome: it may have been executed, or be executed later in the same lease. */
static void handle_doubts(struct ctlfix_io *x)
{
    struct ctlfix *f = x->g->f;
    for (uint32_t i = 0; i < x->blocks; i++) {
        struct ctlfix_block *b = &f->block[x->g->disk][x->lba + i];
        if (b->flying != x->stamp)
            continue;
        doubt(f, b, b->coming);
        b->flying = 0;
        b->writes++;
    }
}

static void handle_done(struct snic_io_req *r)
{
    struct ctlfix_io *x = SNIC_CONTAINER(r, struct ctlfix_io, req);
    struct ctlfix_handle *g = x->g;
    struct ctlfix *f = g->f;
    int ok = r->result == (int64_t)r->length;
    x->busy = 0;
    g->inflight--;
    g->done++;
    g->failed += !ok;
    if (!ok && holds(g) && g->lost == 0 && r->result != SNIC_EUNKNOWN &&
        r->result != SNIC_ECANCELED && r->result != SNIC_ESTALE &&
        r->result != SNIC_EROFS) /* it hears of that soon */
        wrong(f, "an I/O of disk %u ends with %s", g->disk, snic_errname((int)r->result));
    if (holds(g) && r->op == SNIC_IO_READ && ok)
        for (uint32_t i = 0; i < x->blocks; i++)
            judge(x, i);
    else if (holds(g) && r->op != SNIC_IO_READ && ok)
        handle_wrote(x);
    else if (holds(g) && r->op != SNIC_IO_READ)
        handle_doubts(x);
    handle_next(g);
}

static void handle_note(struct ctlfix_io *x)
{
    struct ctlfix_handle *g = x->g;
    struct ctlfix *f = g->f;
    for (uint32_t i = 0; i < x->blocks; i++) {
        struct ctlfix_block *b = &f->block[g->disk][x->lba + i];
        if (x->req.op == SNIC_IO_READ) {
            x->settled[i] = b->flying == 0;
            continue;
        }
        uint64_t value = x->req.op == SNIC_IO_WRITE ? x->stamp : 0;
        if (holds(g)) {
            b->flying = x->stamp;
            b->coming = value;
        } else if (!f->strict) {
            doubt(f, b, value);
        }
        for (uint32_t k = 0; holds(g) && k < CTLFIX_DEPTH; k++) {
            struct ctlfix_io *y = &g->ios[k];
            if (y->busy && y->req.op == SNIC_IO_READ && y->lba <= x->lba + i &&
                x->lba + i < y->lba + y->blocks)
                y->settled[x->lba + i - y->lba] = 0;
        }
    }
}

static void handle_begin(struct ctlfix_handle *g, struct ctlfix_io *x)
{
    struct ctlfix *f = g->f;
    struct snic_io_req *r = &x->req;
    uint32_t kind = (uint32_t)snic_rng_below(&f->rng, 10);
    uint8_t op = kind < 3 ? SNIC_IO_READ : kind < 9 ? SNIC_IO_WRITE : SNIC_IO_ZERO;
    x->blocks = 1 + (uint32_t)snic_rng_below(&f->rng, CTLFIX_IO_BLOCKS);
    x->lba = snic_rng_below(&f->rng, CTLFIX_BLOCKS - x->blocks + 1);
    if (op != SNIC_IO_READ && taken(g, x->lba, x->blocks))
        op = SNIC_IO_READ;
    snic_io_req_init(r);
    r->done = handle_done;
    r->op = op;
    r->offset = x->lba * BLOCK;
    r->length = (uint64_t)x->blocks * BLOCK;
    r->buf.base = x->data;
    r->buf.size = (size_t)x->blocks * BLOCK;
    x->stamp = ++f->stamps;
    if (op == SNIC_IO_WRITE)
        fill(x);
    else
        memset(x->data, 0xee, (size_t)x->blocks * BLOCK);
    handle_note(x);
    x->busy = 1;
    g->inflight++;
    g->begun++;
    int n = snic_io_submit(g->io, &r, 1);
    if (n != 1)
        wrong(f, "submit returned %d", n);
}

static void handle_next(struct ctlfix_handle *g)
{
    for (uint32_t i = 0; i < CTLFIX_DEPTH && g->io != NULL && g->begun < g->wanted; i++)
        if (!g->ios[i].busy && (g->inflight == 0 || snic_rng_below(&g->f->rng, 4) != 0))
            handle_begin(g, &g->ios[i]);
}

void ctlfix_load(struct ctlfix *f, uint32_t client, uint32_t disk, uint64_t ios)
{
    struct ctlfix_handle *g = &f->client[client].handle[disk];
    g->wanted = g->begun + ios;
    handle_next(g);
}

int ctlfix_settle(struct ctlfix *f, uint64_t ns)
{
    uint64_t end = snic_world_now(f->world) + ns;
    for (;;) {
        uint32_t busy = 0;
        for (uint32_t i = 0; i < CTLFIX_CLIENTS * CTLFIX_DISKS; i++) {
            const struct ctlfix_handle *g = &f->client[i / CTLFIX_DISKS].handle[i % CTLFIX_DISKS];
            busy += g->inflight;
        }
        if (busy == 0 || f->why[0] != 0)
            return 0;
        if (snic_world_now(f->world) >= end || snic_world_step(f->world) == 0)
            return -1;
    }
}

void ctlfix_audit(struct ctlfix *f, uint32_t disk)
{
    struct ctlfix_handle *g = f->holder[disk];
    assert_non_null(g);
    assert_string_equal(f->why, "");
    assert_int_equal(g->inflight, 0);
    struct ctlfix_io *x = &g->ios[0];
    for (x->lba = 0; x->lba < CTLFIX_BLOCKS; x->lba += x->blocks) {
        x->blocks = 16;
        memset(x->settled, 1, sizeof(x->settled));
        int64_t r = ctlfix_io(f, g->c->index, disk, SNIC_IO_READ, x->lba * BLOCK, x->blocks * BLOCK,
                              x->data);
        if (r != x->blocks * BLOCK)
            wrong(f, "the last reading of disk %u ends with %" PRId64, disk, r);
        else
            for (uint32_t i = 0; i < x->blocks; i++)
                judge(x, i);
    }
}

static void one_done(struct snic_io_req *r)
{
    r->backend[0] = 1;
}

int64_t ctlfix_io(struct ctlfix *f, uint32_t client, uint32_t disk, uint32_t op, uint64_t offset,
                  uint64_t length, void *data)
{
    struct snic_io_req r, *p = &r;
    snic_io_req_init(&r);
    r.done = one_done;
    r.op = (uint8_t)op;
    r.offset = offset;
    r.length = length;
    r.buf.base = data;
    r.buf.size = length;
    int n = snic_io_submit(f->client[client].handle[disk].io, &p, 1);
    if (n != 1)
        return n == 0 ? SNIC_EAGAIN : n;
    r.backend[0] = 0;
    while (r.backend[0] == 0)
        assert_int_equal(snic_world_step(f->world), 1);
    return r.result;
}

/* ---- Clients ---- */

static void vol_map(void *ctx, uint32_t disk, uint64_t segment, uint32_t gen)
{
    snic_control_client_map(((struct ctlfix_client *)ctx)->cc, disk, segment, gen);
}

static void vol_lease(void *ctx, uint32_t disk)
{
    snic_control_client_lease(((struct ctlfix_client *)ctx)->cc, disk);
}

static void cc_granted(void *ctx, uint32_t disk, int result, const struct snic_control_grant *r)
{
    struct ctlfix_client *c = ctx;
    struct ctlfix_handle *g = &c->handle[disk];
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d)};
    g->attach = 0;
    g->result = result;
    memcpy(g->key, r->key, sizeof(g->key));
    if (result != 0)
        return;
    if (c->f->holder[disk] != NULL)
        leave(c->f->holder[disk]);
    c->f->holder[disk] = g;
    g->lost = 0;
    g->vd = r->vd;
    g->lease = r->lease;
    d.sa_epoch = r->lease;
    d.vd_id = r->vd;
    d.bytes = r->bytes;
    d.bytes_per_second = r->qos.bytes_per_second;
    d.burst_bytes = r->qos.burst_bytes;
    d.ios_per_second = r->qos.ios_per_second;
    d.burst_ios = r->qos.burst_ios;
    assert_int_equal(r->bytes, CTLFIX_BLOCKS * BLOCK);
    assert_int_equal(snic_volume_disk_open(c->v, disk, &d, &g->io), 0);
    snic_control_client_opened(c->cc, disk);
}

static void cc_lost(void *ctx, uint32_t disk, int reason)
{
    struct ctlfix_client *c = ctx;
    c->handle[disk].lost = reason;
    leave(&c->handle[disk]);
}

static void cc_qos(void *ctx, uint32_t disk, const struct snic_control_qos *q)
{
    struct ctlfix_client *c = ctx;
    c->handle[disk].qos++;
    c->handle[disk].rate = q->bytes_per_second;
}

static void cc_refused(void *ctx, int error)
{
    struct ctlfix_client *c = ctx;
    c->refused = error;
}

static void cc_lookup_failed(void *ctx, uint32_t disk, uint64_t segment, int error)
{
    struct ctlfix_client *c = ctx;
    (void)disk;
    (void)segment;
    assert_true(error == SNIC_ENOSPC || error == SNIC_EBUSY || error == SNIC_EHOSTUNREACH);
    c->lookups_failed++;
}

static void cc_link(void *ctx, int up)
{
    ((struct ctlfix_client *)ctx)->links += up != 0;
}

static void vol_token(void *ctx, uint32_t disk)
{
    struct ctlfix_client *c = ctx;
    c->f->token_requests++;
    snic_control_client_token(c->cc, disk);
}

void ctlfix_client_start(struct ctlfix *f, uint32_t client)
{
    static const struct snic_volume_events ev = {
        .map = vol_map, .lease = vol_lease, .token = vol_token};
    static const struct snic_control_client_events cev = {.granted = cc_granted,
                                                          .lost = cc_lost,
                                                          .qos = cc_qos,
                                                          .lookup_failed = cc_lookup_failed,
                                                          .link = cc_link,
                                                          .refused = cc_refused};
    struct snic_volume_opts o = {.opts_size = sizeof(o), .rpcs_max = 64, .trains_max = 16};
    struct snic_control_client_opts k = {.opts_size = sizeof(k)};
    struct ctlfix_client *c = &f->client[client];
    assert_null(c->v);
    assert_int_equal(snic_world_loop(f->world, CTLFIX_CLIENT + client, &c->loop), 0);
    assert_int_equal(snic_net_sim_open(&c->net, f->fabric, c->loop, &ctlfix_net), 0);
    o.loop = c->loop;
    o.net = c->net;
    o.local = (struct snic_net_addr){.family = SNIC_NET_SIM, .node = CTLFIX_CLIENT + client};
    o.seed = snic_rng_next(&f->rng);
    o.client_epoch = ++f->epochs;
    o.depth = CTLFIX_DEPTH + 1;
    o.disks_max = CTLFIX_DISKS;
    o.servers_max = f->servers_max;
    o.transport = f->transport;
    ctlfix_volume_keys(f, &o, client);
    size_t size = snic_volume_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_VOLUME_ALIGN);
    assert_int_equal(snic_volume_open(&c->v, mem, size, &o, &ev, c), 0);
    k.loop = c->loop;
    k.net = c->net;
    k.control = (struct snic_net_addr){.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    k.disks_max = CTLFIX_DISKS;
    k.servers_max = f->servers_max;
    k.lookups_max = f->lookups_max;
    k.ping_ns = 400 * CTLFIX_MS;
    k.auth = f->keys ? &f->auth_client[client] : NULL;
    size = snic_control_client_memsize(&k);
    c->cc_mem = support_guard_alloc(size, SNIC_CONTROL_ALIGN);
    assert_int_equal(snic_control_client_open(&c->cc, c->cc_mem, size, &k, &cev, c), 0);
    snic_control_client_volume(c->cc, c->v);
}

void ctlfix_client_kill(struct ctlfix *f, uint32_t client)
{
    struct ctlfix_client *c = &f->client[client];
    for (uint32_t i = 0; i < CTLFIX_DISKS; i++) {
        c->handle[i].wanted = 0;
        leave(&c->handle[i]);
    }
    snic_net_fabric_kill(f->fabric, CTLFIX_CLIENT + client);
    support_guard_free(snic_volume_close(c->v));
    c->v = NULL;
    snic_control_client_volume(c->cc, NULL);
    support_guard_free(snic_control_client_close(c->cc));
    c->cc = NULL;
    snic_net_shut(c->net);
    snic_loop_close(c->loop);
    for (uint32_t i = 0; i < CTLFIX_DISKS; i++) {
        assert_int_equal(c->handle[i].inflight, 0);
        c->handle[i].io = NULL;
        c->handle[i].attach = 0;
        c->handle[i].lost = 0;
    }
}

void ctlfix_attach_begin(struct ctlfix *f, uint32_t client, uint32_t disk, uint32_t flags)
{
    struct ctlfix_handle *g = &f->client[client].handle[disk];
    g->attach = 1;
    assert_int_equal(
        snic_control_client_attach(f->client[client].cc, disk, ctlfix_name(disk), flags, f->key),
        0);
}

int ctlfix_attach(struct ctlfix *f, uint32_t client, uint32_t disk, uint32_t flags)
{
    struct ctlfix_handle *g = &f->client[client].handle[disk];
    ctlfix_attach_begin(f, client, disk, flags);
    while (g->attach)
        assert_int_equal(snic_world_step(f->world), 1);
    return g->result;
}

void ctlclient_init(struct ctlfix *f, uint32_t client)
{
    struct ctlfix_client *c = &f->client[client];
    c->f = f;
    c->index = client;
    for (uint32_t i = 0; i < CTLFIX_DISKS; i++) {
        c->handle[i].f = f;
        c->handle[i].c = c;
        c->handle[i].disk = i;
        for (uint32_t k = 0; k < CTLFIX_DEPTH; k++) {
            c->handle[i].ios[k].g = &c->handle[i];
            c->handle[i].ios[k].data = aligned_alloc(BLOCK, (size_t)CTLFIX_IO_BLOCKS * BLOCK);
            assert_non_null(c->handle[i].ios[k].data);
        }
    }
}

void ctlclient_fini(struct ctlfix *f, uint32_t client)
{
    for (uint32_t i = 0; i < CTLFIX_DISKS; i++)
        for (uint32_t k = 0; k < CTLFIX_DEPTH; k++)
            free(f->client[client].handle[i].ios[k].data);
}
