/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Clients with virtual disks, each with a library instance and paths of its own, as on a machine of
 * its own. One loop and one network for all.
 */
#include "solar_faults.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct client_volume {
    struct snic_volume *v;
    struct snic_io *io;
};

static struct {
    struct snic_loop *loop;
    struct snic_net *net;
    const struct fault_options *o;
    struct client_volume client[FAULT_CLIENTS_MAX];
    uint64_t suspects;
    uint64_t slow;
} vol;

static void volume_map(void *ctx, uint32_t disk, uint64_t segment, uint32_t gen)
{
    const struct fault_client *c = ctx;
    uint32_t now = snic_volume_gen((uint32_t)vol.o->epoch, 0);
    uint64_t id = ((uint64_t)c->index + 1) << 32 | segment;
    (void)gen; /* what has no answer is asked for again, and is where it was */
    int r = snic_volume_map(vol.client[c->index].v, disk, segment, id, 0, now);
    if (r != 0)
        ex_die("segment %" PRIu64 " of client %" PRIu32 ": %s", segment, c->index,
               snic_strerror(r));
}

static void volume_suspect(void *ctx, uint32_t server, int is)
{
    (void)ctx;
    (void)server;
    vol.suspects += is != 0;
}

static void volume_slow(void *ctx, uint32_t disk, uint64_t lba, uint32_t blocks)
{
    (void)ctx;
    (void)disk;
    (void)lba;
    (void)blocks;
    vol.slow++;
}

static uint64_t volume_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        ex_die("no random numbers");
    return seed;
}

static void volume_client_open(struct fault_client *c, const struct snic_net_addr *server)
{
    static const struct snic_volume_events ev = {
        .map = volume_map, .suspect = volume_suspect, .slow = volume_slow};
    struct client_volume *k = &vol.client[c->index];
    struct snic_volume_opts o = {.opts_size = sizeof(o), .loop = vol.loop, .net = vol.net};
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d)};
    o.local.family = server->family;
    o.seed = volume_seed();
    o.client_epoch = d.sa_epoch = (uint32_t)vol.o->epoch;
    o.servers_max = 1;
    o.disks_max = 1;
    o.depth = FAULT_DEPTH_MAX;
    o.disk_blocks_max = vol.o->blocks;
    d.vd_id = (uint64_t)c->index + 1;
    d.bytes = vol.o->blocks * FAULT_BLOCK;
    size_t size = snic_volume_memsize(&o);
    void *mem = size == 0 ? NULL : aligned_alloc(4096, snic_align_up(size, 4096));
    int r = mem == NULL ? SNIC_ENOMEM : snic_volume_open(&k->v, mem, size, &o, &ev, c);
    if (r == 0)
        r = snic_volume_server_add(k->v, 0, server);
    if (r == 0)
        r = snic_volume_disk_open(k->v, 0, &d, &k->io);
    if (r != 0)
        ex_die("cannot open a disk: %s", snic_strerror(r));
}

static void volume_open(struct fault_client *clients, const struct fault_options *o)
{
    struct snic_net_uring_opts n = {.opts_size = sizeof(n),
                                    .conns_max = 16,
                                    .dgrams_max = 32 * FAULT_CLIENTS_MAX,
                                    .dgram_flags = SNIC_NET_DGRAM_DF | SNIC_NET_DGRAM_TIME,
                                    .dgram_recv_bytes = 4u << 20,
                                    .dgram_send_bytes = 4u << 20};
    struct snic_net_addr server;
    ex_address("server", o->server, &server);
    vol.o = o;
    vol.loop = ex_loop_open(0);
    int r = snic_net_uring_open(&vol.net, vol.loop, &n);
    if (r != 0)
        ex_die("no network: %s", snic_strerror(r));
    for (uint32_t i = 0; i < o->clients; i++)
        volume_client_open(&clients[i], &server);
}

static void volume_done(struct snic_io_req *req)
{
    fault_done(SNIC_CONTAINER(req, struct fault_io, req), req->result);
}

static void volume_submit(struct fault_io *io)
{
    struct snic_io_req *req = &io->req;
    snic_io_req_init(req);
    req->done = volume_done;
    req->op = io->write ? SNIC_IO_WRITE : SNIC_IO_READ;
    req->offset = (uint64_t)io->lba * FAULT_BLOCK;
    req->length = (uint64_t)io->blocks * FAULT_BLOCK;
    req->buf = (struct snic_iov){io->data, (size_t)req->length};
    if (snic_io_submit(vol.client[io->client->index].io, &req, 1) != 1)
        ex_die("a disk takes no I/O");
}

static void volume_turn(uint64_t max_wait_ns)
{
    if (snic_loop_once(vol.loop, max_wait_ns) < 0)
        ex_die("the loop ends");
}

static void volume_explain(const struct fault_io *io)
{
    struct snic_volume *v = vol.client[io->client->index].v;
    struct snic_solar_path_stats p;
    struct snic_volume_stats s;
    snic_volume_get_stats(v, &s);
    fprintf(stderr,
            "HANGS: client %" PRIu32 ", block %" PRIu32 ", %" PRIu32 " of them, %s; retransmits "
            "%" PRIu64 " timeouts %" PRIu64 " rerolls %" PRIu64 " resets %" PRIu64
            " hellos %" PRIu64 " busy %" PRIu64 " naks %" PRIu64 " train_waits %" PRIu64
            " unsent %" PRIu64 "\n",
            io->client->index, io->lba, io->blocks, io->write ? "write" : "read",
            s.agent.retransmits, s.agent.timeouts, s.agent.rerolls, s.agent.resets, s.agent.hellos,
            s.agent.busy, s.agent.naks, s.agent.train_waits, s.unsent);
    for (uint32_t i = 0; snic_volume_get_path(v, 0, i, &p) == 0; i++)
        if (p.state != SNIC_SOLAR_CLOSED)
            fprintf(stderr,
                    "    path %" PRIu32 " state %" PRIu32 " gen %u port %u srtt %" PRIu64
                    " rto %" PRIu64 " us window %" PRIu32 " %" PRIu32 " inflight %" PRIu32
                    " sent %" PRIu64 " acked %" PRIu64 " lost %" PRIu64 " timeouts %" PRIu64 "\n",
                    i, p.state, p.gen, p.port, p.srtt_ns / 1000, p.rto_ns / 1000, p.window[0],
                    p.window[1], p.inflight, p.sent, p.acked, p.lost, p.timeouts);
}

static void volume_report(FILE *to)
{
    struct snic_volume_stats s, all;
    memset(&all, 0, sizeof(all));
    for (uint32_t i = 0; i < vol.o->clients; i++) {
        snic_volume_get_stats(vol.client[i].v, &s);
        all.agent.packets += s.agent.packets;
        all.agent.retransmits += s.agent.retransmits;
        all.agent.hedges += s.agent.hedges;
        all.agent.spurious += s.agent.spurious;
        all.agent.timeouts += s.agent.timeouts;
        all.agent.rerolls += s.agent.rerolls;
        all.agent.resets += s.agent.resets;
        all.agent.stalls += s.agent.stalls;
        all.agent.busy += s.agent.busy;
        all.agent.data_crc += s.agent.data_crc;
        all.unsent += s.unsent;
    }
    fprintf(to,
            " packets=%" PRIu64 " retransmits=%" PRIu64 " hedges=%" PRIu64 " spurious=%" PRIu64
            " timeouts=%" PRIu64 " rerolls=%" PRIu64 " resets=%" PRIu64 " stalls=%" PRIu64
            " busy=%" PRIu64 " data_crc=%" PRIu64 " unsent=%" PRIu64 " suspects=%" PRIu64
            " slow=%" PRIu64,
            all.agent.packets, all.agent.retransmits, all.agent.hedges, all.agent.spurious,
            all.agent.timeouts, all.agent.rerolls, all.agent.resets, all.agent.stalls,
            all.agent.busy, all.agent.data_crc, all.unsent, vol.suspects, vol.slow);
}

static void volume_close(void)
{
    for (uint32_t i = 0; i < vol.o->clients; i++)
        free(snic_volume_close(vol.client[i].v));
    snic_net_shut(vol.net);
    snic_loop_close(vol.loop);
}

const struct fault_transport fault_solar = {.name = "solar",
                                            .lasting = 1,
                                            .open = volume_open,
                                            .submit = volume_submit,
                                            .turn = volume_turn,
                                            .explain = volume_explain,
                                            .report = volume_report,
                                            .close = volume_close};
