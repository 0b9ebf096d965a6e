/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The world's agent: its owner's loop, a client that keeps some I/Os in flight, and the oracle. */
#include "solar_world_priv.h"

#include <stdio.h>
#include <stdlib.h>

#define NONE UINT32_MAX

void world_agent_soon(struct world *w, uint64_t at_ns)
{
    at_ns = snic_max_u64(at_ns, w->asleep_ns);
    if (!w->agent_up || at_ns >= w->wake_ns)
        return;
    w->wake_ns = at_ns;
    world_at(w, at_ns, EV_AGENT, w->incarnation, 0, 0);
}

void world_agent_deliver(struct world *w, uint32_t datagram)
{
    struct datagram *d = &w->datagrams[datagram];
    if (!w->agent_up || d->incarnation != w->incarnation) {
        world_release(w, datagram);
        return;
    }
    d->next = NONE;
    if (w->inbox == NONE)
        w->inbox = datagram;
    else
        w->datagrams[w->inbox_last].next = datagram;
    w->inbox_last = datagram;
    world_agent_soon(w, w->now_ns + 2 * WORLD_US);
}

/* ---- Oracle ---- */

static struct oracle *oracle_of(struct world *w, const struct snic_ebs_io *io, uint32_t i)
{
    return &w->oracle[io->disk][io->lba + i];
}

/* A version's place among all, whatever its epoch: 0 is none. */
static uint64_t oracle_order(const struct world *w, uint64_t wver)
{
    return wver == 0 ? 0 : (uint64_t)w->incarnation << 48 | snic_ebs_id_counter(wver);
}

static uint64_t oracle_version(struct world *w, uint64_t stamp)
{
    if (stamp == 0 || stamp > w->stamps)
        return 0;
    for (uint32_t i = 0; i < w->o.depth; i++)
        if (w->clients[i].busy && w->clients[i].stamp == stamp)
            return oracle_order(w, w->clients[i].io.wver);
    return w->versions[stamp];
}

/* The highest version that wrote, or may have written, zeros there. */
static uint64_t oracle_zeros(struct world *w, const struct snic_ebs_io *read, uint32_t i)
{
    uint64_t highest = oracle_of(w, read, i)->zeros, lba = read->lba + i;
    for (uint32_t k = 0; k < w->o.depth; k++) {
        const struct snic_ebs_io *io = &w->clients[k].io;
        if (w->clients[k].busy && io->disk == read->disk && io->lba <= lba &&
            lba < io->lba + io->blocks &&
            (io->op == SNIC_EBS_IO_ZERO || io->op == SNIC_EBS_IO_TRIM))
            highest = snic_max_u64(highest, oracle_order(w, io->wver));
    }
    return highest;
}

static void oracle_read(struct world *w, struct client *g)
{
    for (uint32_t i = 0; i < g->io.blocks; i++) {
        const unsigned char *p = g->data + (size_t)i * SNIC_EBS_BLOCK_BYTES;
        struct oracle *b = oracle_of(w, &g->io, i);
        uint64_t stamp = snic_get_le64(p);
        if (stamp == 0) {
            if (g->floor[i] > 0 && oracle_zeros(w, &g->io, i) < g->floor[i])
                world_fail(w, "zeros are read where data were acknowledged");
            continue;
        }
        uint64_t version = oracle_version(w, stamp);
        if (snic_get_le64(p + 8) != g->io.lba + i ||
            snic_get_le64(p + SNIC_EBS_BLOCK_BYTES - 8) != stamp || version == 0)
            world_fail(w, "what is read was never written there");
        if (version < g->floor[i])
            world_fail(w, "an acknowledged write is gone, or an older one replaced it");
        if (version == b->forbidden)
            world_fail(w, "a write that had failed appears later");
        if (g->io.submitted_ns > b->failed_at_ns && version < b->failed)
            b->forbidden = b->failed;
        b->floor = snic_max_u64(b->floor, version);
    }
}

static void oracle_write(struct world *w, struct client *g, int ok)
{
    uint64_t version = oracle_order(w, g->io.wver);
    if (g->stamp != 0)
        w->versions[g->stamp] = version;
    for (uint32_t i = 0; i < g->io.blocks; i++) {
        struct oracle *b = oracle_of(w, &g->io, i);
        if (g->stamp == 0)
            b->zeros = snic_max_u64(b->zeros, version);
        if (ok)
            b->floor = snic_max_u64(b->floor, version);
        else if (version > b->failed) {
            b->failed = version;
            b->failed_at_ns = w->now_ns;
        }
    }
}

/* ---- The client ---- */

static void client_fill(struct world *w, struct client *g)
{
    g->stamp = ++w->stamps;
    w->versions[g->stamp] = 0;
    for (uint32_t i = 0; i < g->io.blocks; i++) {
        unsigned char *p = g->data + (size_t)i * SNIC_EBS_BLOCK_BYTES;
        memset(p + 16, 0, 16);
        snic_put_le64(p, g->stamp);
        snic_put_le64(p + 8, g->io.lba + i);
        snic_put_le64(p + SNIC_EBS_BLOCK_BYTES - 8, g->stamp);
    }
}

static void client_choose(struct world *w, struct client *g)
{
    struct snic_ebs_io *io = &g->io;
    uint64_t draw = snic_rng_next(&w->rng);
    memset(io, 0, sizeof(*io));
    io->disk = (uint32_t)(draw % w->o.disks);
    io->op = draw >> 8 & 63 ? SNIC_EBS_IO_WRITE : (uint8_t)(SNIC_EBS_IO_ZERO + (draw >> 16) % 3);
    if ((draw >> 32) % 100 < w->o.reads)
        io->op = SNIC_EBS_IO_READ;
    uint32_t most = w->o.blocks < w->o.span ? w->o.blocks : w->o.span;
    io->blocks = 1 + (uint32_t)snic_rng_below(&w->rng, most);
    io->lba = snic_rng_below(&w->rng, w->o.span - io->blocks + 1);
}

static void client_submit(struct world *w, struct client *g)
{
    struct snic_ebs_io *io = &g->io;
    g->stamp = 0;
    if (io->op == SNIC_EBS_IO_WRITE)
        client_fill(w, g);
    if (io->op == SNIC_EBS_IO_FLUSH)
        io->blocks = 0;
    if (io->op <= SNIC_EBS_IO_WRITE) {
        size_t size = (size_t)io->blocks * SNIC_EBS_BLOCK_BYTES, half = io->blocks / 3;
        g->iov[0].base = g->data;
        g->iov[0].size = half * SNIC_EBS_BLOCK_BYTES;
        g->iov[1].base = g->data + g->iov[0].size;
        g->iov[1].size = size - g->iov[0].size;
        io->iov = half == 0 ? &g->iov[1] : g->iov;
        io->iov_count = half == 0 ? 1 : 2;
    }
    for (uint32_t i = 0; i < io->blocks; i++)
        g->floor[i] = oracle_of(w, io, i)->floor;
    g->busy = 1;
    w->inflight++;
    w->started++;
    if (w->o.agent_ios != 0 && w->started % w->o.agent_ios == 0) /* with some under way */
        world_at(w, w->now_ns + snic_rng_below(&w->rng, 50 * WORLD_US), EV_AGENT_DOWN,
                 w->incarnation, 0, 0);
    if (snic_solar_submit(w->c, io, w->now_ns) != 0)
        world_fail(w, "submit");
}

static void client_done(struct world *w, struct client *g)
{
    struct snic_ebs_io *io = &g->io;
    uint64_t age = io->done_ns - io->submitted_ns;
    if (!g->busy)
        world_fail(w, "an I/O is done twice");
    uint64_t calm =
        w->calm ? io->done_ns - snic_max_u64(io->submitted_ns, w->calm_ns) : UINT64_C(0);
    w->r.max_ns = snic_max_u64(w->r.max_ns, age);
    w->r.slow += age > (w->o.slow_ns != 0 ? w->o.slow_ns : WORLD_S) && !w->calm;
    w->r.max_calm_ns = snic_max_u64(w->r.max_calm_ns, calm);
    if (age > w->o.hang_ns + w->o.faulty_ns || calm > w->o.hang_ns)
        world_fail(w, "an I/O hung");
    /* Nothing is damaged here for good: what ends badly was abandoned, and not before its time. */
    if (io->result != 0 && (w->o.deadline_ns == 0 || io->result != SNIC_EIO))
        world_fail(w, snic_errname(io->result));
    if (io->result != 0 && age < w->o.deadline_ns)
        world_fail(w, "an I/O was abandoned before its time");
    w->r.failed += io->result != 0;
    w->r.bytes += io->result == 0 ? (uint64_t)io->blocks * SNIC_EBS_BLOCK_BYTES : 0;
    if (io->result != 0)
        w->r.failed_by[io->op == SNIC_EBS_IO_READ ? 0 : io->wver == 0 ? 1 : 2]++;
    if (io->op == SNIC_EBS_IO_READ && io->result == 0)
        oracle_read(w, g);
    else if (io->op != SNIC_EBS_IO_READ && io->op != SNIC_EBS_IO_FLUSH)
        oracle_write(w, g, io->result == 0);
    w->r.hash = (w->r.hash ^ io->done_ns ^ io->lba << 40 ^ (uint32_t)io->result) * WORLD_PRIME;
    g->busy = 0;
    w->inflight--;
    w->done++;
}

/* All that was ever written, read once more when everything is mended. */
static int client_audit(struct world *w, struct client *g)
{
    uint64_t all = (uint64_t)w->o.disks * w->o.span, at = w->auditing;
    if (at >= all)
        return 0;
    memset(&g->io, 0, sizeof(g->io));
    g->io.op = SNIC_EBS_IO_READ;
    g->io.disk = (uint32_t)(at / w->o.span);
    g->io.lba = at % w->o.span;
    g->io.blocks = (uint32_t)snic_min_u64(64, w->o.span - g->io.lba);
    w->auditing += g->io.blocks;
    return 1;
}

int world_over(const struct world *w)
{
    return w->calm && w->inflight == 0 && w->agent_up &&
           w->auditing >= (uint64_t)w->o.disks * w->o.span;
}

static void client_run(struct world *w)
{
    for (uint32_t i = 0; i < w->o.depth; i++) {
        struct client *g = &w->clients[i];
        if (g->busy)
            continue;
        if (w->started < w->o.ios)
            client_choose(w, g);
        else if (!w->calm || w->started < w->o.ios || !client_audit(w, g))
            return;
        client_submit(w, g);
    }
}

/* ---- The owner's loop ---- */

static void agent_map(struct world *w, uint32_t disk, uint64_t segment)
{
    const struct segment *g = &w->segments[disk][segment];
    if (snic_solar_map(w->c, disk, segment, g->seg_id, g->server, g->gen, w->now_ns) != 0)
        world_fail(w, "map");
}

static void agent_open(struct world *w, const struct snic_ebs_action *a)
{
    uint16_t port;
    int r;
    uint32_t tries = 0;
    do {
        port = (uint16_t)(49152 + snic_rng_below(&w->rng, 16384));
        r = snic_solar_path_opened(w->c, a->server, a->path, a->gen, port, w->now_ns);
    } while (r == SNIC_EADDRINUSE && tries++ < 20);
    if (r != 0)
        world_fail(w, "path_opened");
    w->ports[a->server][a->path] = port;
    w->gens[a->server][a->path] = a->gen;
}

static void agent_transmit(struct world *w, struct snic_solar_train *t)
{
    uint32_t place = (uint32_t)(((unsigned char *)t - (unsigned char *)w->mem) / 8);
    if (w->o.lend_ns != 0) { /* it is sent, and comes back when the network likes */
        world_transmit(w, t, 1, t->server);
        world_at(w, w->now_ns + snic_rng_below(&w->rng, w->o.lend_ns), EV_TRAIN, w->incarnation,
                 place, 1);
    } else if (w->o.jitter_ns != 0) { /* the network takes its time */
        world_at(w, w->now_ns + snic_rng_below(&w->rng, 5 * WORLD_US), EV_TRAIN, w->incarnation,
                 place, 0);
    } else {
        world_transmit(w, t, 1, t->server);
        snic_solar_sent(w->c, t, w->now_ns);
    }
}

static void agent_action(struct world *w, struct snic_ebs_action *a)
{
    switch (a->type) {
    case SNIC_EBS_ACT_SEND:
        agent_transmit(w, a->train);
        break;
    case SNIC_EBS_ACT_DONE:
        client_done(w, SNIC_CONTAINER(a->io, struct client, io));
        break;
    case SNIC_EBS_ACT_OPEN:
        agent_open(w, a);
        break;
    case SNIC_EBS_ACT_MAP:
        agent_map(w, a->disk, a->segment);
        break;
    case SNIC_EBS_ACT_LEASE:
        world_fail(w, "the lease was lost");
        break;
    default:
        if (w->o.print)
            printf("%.3f ms: action %u, server %u path %u gen %u\n", (double)w->now_ns / 1e6,
                   a->type, a->server, a->path, a->gen);
        break;
    }
}

void world_agent_run(struct world *w)
{
    struct snic_ebs_action a;
    uint64_t due;
    if (w->now_ns < w->asleep_ns) {
        w->wake_ns = SNIC_NEVER;
        world_agent_soon(w, w->asleep_ns);
        return;
    }
    w->wake_ns = SNIC_NEVER;
    while (w->inbox != NONE) {
        struct datagram *d = &w->datagrams[w->inbox];
        uint32_t n = w->inbox;
        w->inbox = d->next;
        if (w->gens[d->server][d->path] == d->gen)
            (void)snic_solar_recv(w->c, d->server, d->path, d->gen, d->bytes, d->size, 0,
                                  w->now_ns);
        world_release(w, n);
    }
    uint32_t actions = 0;
    do {
        client_run(w);
        while (snic_solar_poll(w->c, &a, 1, w->now_ns) == 1) {
            agent_action(w, &a);
            if (++actions > 100000) {
                world_fail(w, "poll has no end");
                return;
            }
        }
        due = snic_solar_deadline_ns(w->c);
    } while (due <= w->now_ns && ++actions < 100000);
    if (w->o.check != 0 && ++w->wakes % w->o.check == 0 && snic_solar_check(w->c) != 0)
        world_fail(w, "snic_solar_check");
    if (actions >= 100000)
        world_fail(w, "a deadline that never passes");
    int idle = 0;
    for (uint32_t i = 0; i < w->o.depth; i++)
        idle |= !w->clients[i].busy;
    if (idle && (w->started < w->o.ios || !world_over(w)))
        due = snic_min_u64(due, w->now_ns + 5 * WORLD_US);
    world_agent_soon(w, due);
}

/* ---- Birth and death ---- */

void world_agent_start(struct world *w)
{
    struct snic_solar_opts o = {.opts_size = sizeof(o), .rpcs_max = 128, .trains_max = 32};
    w->incarnation++;
    o.flags = w->o.flags;
    o.seed = w->o.seed + w->incarnation;
    o.client_epoch = w->incarnation;
    o.disks_max = DISKS;
    o.servers_max = SERVERS;
    o.paths = w->o.paths;
    o.deadline_ns = w->o.deadline_ns;
    o.chunks_max = 1;
    o.disk_blocks_max = SPAN;
    o.crc = w->o.corrupt_ppm == 0 ? world_crc : NULL;
    if (w->o.auth) {
        o.flags |= SNIC_SOLAR_AUTH;
        o.sec = &solar_toy_ops;
        o.wire_keys[0] = &w->keys[0][0];
        o.wire_keys[1] = &w->keys[0][1];
    }
    size_t size = snic_solar_memsize(&o);
    if (w->mem == NULL) /* its incarnations are all of one size */
        w->mem = aligned_alloc(SNIC_SOLAR_ALIGN, size);
    if (w->mem == NULL || snic_solar_init(&w->c, w->mem, size, &o, w->now_ns) != 0)
        abort();
    w->agent_up = 1;
    w->wake_ns = SNIC_NEVER;
    w->inbox = NONE;
    memset(w->ports, 0, sizeof(w->ports));
    for (uint32_t s = 0; s < w->o.servers; s++)
        if (snic_solar_server_add(w->c, s, w->now_ns) != 0 ||
            (w->o.auth && snic_solar_server_auth(w->c, s, &world_secret, 3, 0) != 0))
            world_fail(w, "server_add");
    for (uint32_t d = 0; d < w->o.disks; d++) {
        struct snic_ebs_disk_opts k = {.opts_size = sizeof(k), .sa_epoch = w->epoch[d]++};
        k.vd_id = 7 + d;
        k.blocks = SPAN;
        k.ios_per_second = w->o.qos;
        k.bytes_per_second = w->o.qos_bytes;
        int r = snic_solar_attach(w->c, d, &k, w->now_ns);
        if (r == SNIC_EOVERFLOW) {
            world_reissue(w, d);
            k.sa_epoch = w->epoch[d]++;
            r = snic_solar_attach(w->c, d, &k, w->now_ns);
        }
        if (r != 0)
            world_fail(w, "attach");
    }
    for (uint32_t i = 0; i < DEPTH; i++)
        w->clients[i].data = w->client_data[i];
    world_agent_soon(w, w->now_ns);
}

/* What was under way may have happened or not, or not yet: until the control plane has raised the
   generations, which it does before the next one attaches. */
void world_agent_die(struct world *w)
{
    if (!w->agent_up || w->incarnation >= 60000)
        return;
    w->agent_up = 0;
    while (w->inbox != NONE) {
        uint32_t n = w->inbox;
        w->inbox = w->datagrams[n].next;
        world_release(w, n);
    }
    for (uint32_t d = 0; d < w->o.disks; d++)
        for (uint32_t i = 0; i < SEGMENTS; i++)
            w->segments[d][i].gen++;
    for (uint32_t i = 0; i < w->o.depth; i++) {
        struct client *g = &w->clients[i];
        if (!g->busy)
            continue;
        if (g->io.op >= SNIC_EBS_IO_WRITE && g->io.op <= SNIC_EBS_IO_TRIM)
            oracle_write(w, g, 0);
        g->busy = 0;
        w->inflight--;
        w->done++;
    }
    world_at(w, w->now_ns + snic_rng_below(&w->rng, 20 * WORLD_MS) + 1, EV_AGENT_UP, 0, 0, 0);
}
