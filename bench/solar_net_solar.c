/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SOLAR's agent on sockets, driven as volume drives it, with nothing around it. */
#include "solar_net.h"

#include <stdlib.h>

enum { SOLAR_TRAINS = 64, SOLAR_PATHS = SNIC_SOLAR_PATHS_MAX };

struct solar_net_tx {
    struct snic_net_train t;
    struct snic_solar_train *train;
    struct solar_net_tx *next;
};

struct solar_net_path {
    struct snic_net_dgram *d;
    uint16_t path;
    uint16_t gen;
};

static struct {
    struct net_env *e;
    struct snic_net *net;
    struct snic_solar *c;
    struct snic_net_addr server;
    struct solar_net_path path[2 * SOLAR_PATHS];
    struct solar_net_tx tx[SOLAR_TRAINS];
    struct solar_net_tx *free;
    struct snic_ebs_io io[NET_SLOTS];
    struct snic_iov iov[NET_SLOTS];
    struct snic_loop_msg pump;
    struct snic_timer timer;
    uint32_t out;
    uint32_t inside;
    int pumping;
    uint16_t port;
} a;

static void agent_soon(void)
{
    if (!a.pumping) {
        a.pumping = 1;
        snic_loop_defer(a.e->loop, &a.pump);
    }
}

static struct solar_net_path *agent_path(uint32_t path, uint32_t gen)
{
    for (uint32_t i = 0; i < SNIC_COUNTOF(a.path); i++)
        if (a.path[i].d != NULL && a.path[i].path == path && a.path[i].gen == gen)
            return &a.path[i];
    return NULL;
}

static void agent_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *m,
                       uint32_t count)
{
    struct solar_net_path *p = ctx;
    uint64_t began = net_begin(a.e);
    (void)d;
    for (uint32_t i = 0; i < count; i++)
        (void)snic_solar_recv(a.c, 0, p->path, p->gen, m[i].data, m[i].size, 0, m[i].time_ns);
    net_end(a.e, NET_ENGINE, began);
    agent_soon();
}

static void agent_open(uint32_t path, uint32_t gen)
{
    static const struct snic_net_dgram_events ev = {.recv = agent_recv};
    struct snic_net_addr at = {.family = SNIC_NET_IPV4};
    struct solar_net_path *p = a.path;
    while (p->d != NULL)
        p++;
    p->path = (uint16_t)path;
    p->gen = (uint16_t)gen;
    for (;;) {
        at.port = a.port = (uint16_t)(a.port < 65000 ? a.port + 1 : 50000);
        if (snic_net_dgram_open(a.net, &at, &ev, p, &p->d) != 0)
            continue;
        int r = snic_solar_path_opened(a.c, 0, path, gen, at.port, snic_loop_now(a.e->loop));
        if (r == 0)
            return;
        snic_net_dgram_close(p->d);
        p->d = NULL;
        if (r != SNIC_EADDRINUSE)
            return;
    }
}

static void agent_sent(struct snic_net_train *t)
{
    struct solar_net_tx *x = SNIC_CONTAINER(t, struct solar_net_tx, t);
    snic_solar_sent(a.c, x->train, snic_loop_now(a.e->loop));
    x->next = a.free;
    a.free = x;
    a.out--;
    agent_soon();
}

static void agent_send(struct snic_solar_train *train)
{
    struct solar_net_path *p = agent_path(train->path, train->gen);
    if (p == NULL) {
        snic_solar_sent(a.c, train, snic_loop_now(a.e->loop));
        return;
    }
    struct solar_net_tx *x = a.free;
    a.free = x->next;
    a.out++;
    memset(&x->t, 0, sizeof(x->t));
    x->train = train;
    x->t.done = agent_sent;
    x->t.peer = a.server;
    x->t.iov = train->iov;
    x->t.iov_count = train->iov_count;
    x->t.segment = train->segment;
    net_must(snic_net_dgram_send(p->d, &x->t) == 1, "a path's socket takes no train");
}

static void agent_act(const struct snic_ebs_action *act)
{
    struct solar_net_path *p;
    switch (act->type) {
    case SNIC_EBS_ACT_SEND:
        agent_send(act->train);
        break;
    case SNIC_EBS_ACT_DONE:
        net_must(act->io->result == 0, "an I/O failed");
        a.inside--;
        a.e->done((uint32_t)(act->io - a.io));
        break;
    case SNIC_EBS_ACT_OPEN:
        agent_open(act->path, act->gen);
        break;
    case SNIC_EBS_ACT_CLOSE:
        p = agent_path(act->path, act->gen);
        if (p != NULL) {
            snic_net_dgram_close(p->d);
            p->d = NULL;
        }
        break;
    default:
        break;
    }
}

static void agent_run(void)
{
    struct snic_ebs_action act;
    for (;;) {
        uint64_t now = snic_loop_now(a.e->loop), began = net_begin(a.e);
        uint32_t n = snic_solar_poll(a.c, &act, 1, now);
        net_end(a.e, NET_ENGINE, began);
        if (n == 0)
            break;
        agent_act(&act);
    }
    uint64_t deadline = snic_solar_deadline_ns(a.c);
    if (deadline == SNIC_NEVER)
        snic_loop_cancel(a.e->loop, &a.timer);
    else
        snic_loop_arm(a.e->loop, &a.timer, deadline);
}

static void agent_pump(struct snic_loop_msg *m)
{
    (void)m;
    a.pumping = 0;
    agent_run();
}

static void agent_timer(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
    agent_run();
}

static void solar_net_disk(void)
{
    struct snic_ebs_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 1, .blocks = NET_BLOCKS};
    uint64_t now = snic_loop_now(a.e->loop);
    d.xts_key = net_key(a.e);
    if (a.e->qos) { /* far above what can be reached: it is looked at, and permits */
        d.ios_per_second = 1000000000;
        d.bytes_per_second = UINT64_C(1) << 40;
    }
    int r = snic_solar_server_add(a.c, 0, now);
    if (r == 0)
        r = snic_solar_attach(a.c, 0, &d, now);
    for (uint32_t i = 0; i < NET_SEGMENTS && r == 0; i++)
        r = snic_solar_map(a.c, 0, i, i + 1, 0, 1, now);
    net_must(r == 0, "no disk");
}

static void solar_net_open(struct net_env *e)
{
    struct snic_solar_opts o = {.opts_size = sizeof(o), .client_epoch = 1, .servers_max = 1};
    struct snic_net_uring_opts n = {.opts_size = sizeof(n),
                                    .send_queue = SOLAR_TRAINS,
                                    .dgram_flags = SNIC_NET_DGRAM_DF | SNIC_NET_DGRAM_TIME,
                                    .dgram_recv_bytes = 8u << 20,
                                    .dgram_send_bytes = 8u << 20};
    uint16_t port = a.port;
    memset(&a, 0, sizeof(a));
    a.port = port < 50000 ? 50000 : port;
    a.e = e;
    net_target_open(e, &a.server);
    a.pump.fn = agent_pump;
    snic_timer_init(&a.timer, agent_timer);
    o.seed = 1;
    o.trains_max = SOLAR_TRAINS;
    o.disk_blocks_max = NET_BLOCKS;
    o.chunks_max = 1;
    o.flags = e->sec ? SNIC_SOLAR_CRYPTO : 0;
    o.sec = net_sec(e);
    o.crc = net_crc;
    o.crc_ctx = e;
    for (uint32_t i = 0; i < SOLAR_TRAINS; i++) {
        a.tx[i].next = a.free;
        a.free = &a.tx[i];
    }
    for (uint32_t i = 0; i < NET_SLOTS; i++)
        a.iov[i] = (struct snic_iov){net_data(i), SNIC_EBS_BLOCK_BYTES};
    net_must(snic_net_uring_open(&a.net, e->loop, &n) == 0, "no network");
    size_t size = snic_solar_memsize(&o);
    net_must(snic_solar_init(&a.c, net_memory(size), size, &o, snic_loop_now(e->loop)) == 0,
             "no agent");
    solar_net_disk();
    agent_soon();
}

static void solar_net_submit(uint32_t slot, int read)
{
    struct snic_ebs_io *io = &a.io[slot];
    uint64_t began = net_begin(a.e);
    memset(io, 0, sizeof(*io));
    io->op = read ? SNIC_EBS_IO_READ : SNIC_EBS_IO_WRITE;
    io->lba = net_lba(slot);
    io->blocks = 1;
    io->iov = &a.iov[slot];
    io->iov_count = 1;
    a.inside++;
    net_must(snic_solar_submit(a.c, io, snic_loop_now(a.e->loop)) == 0, "submit");
    net_end(a.e, NET_ENGINE, began);
    agent_soon();
}

static void solar_net_close(void)
{
    snic_solar_halt(a.c, snic_loop_now(a.e->loop));
    agent_soon();
    for (uint32_t i = 0; i < SNIC_COUNTOF(a.path); i++)
        if (a.path[i].d != NULL)
            snic_net_dgram_close(a.path[i].d);
    while (a.pumping || a.out != 0)
        (void)snic_loop_once(a.e->loop, 1000000);
    snic_loop_cancel(a.e->loop, &a.timer);
    snic_net_shut(a.net);
    free(snic_solar_fini(a.c));
    net_target_close();
}

static void solar_net_count(struct net_counts *k)
{
    net_count(a.net, k);
    net_target_count(k);
}

const struct net_who net_solar = {"solar", solar_net_open, solar_net_submit, solar_net_close,
                                  solar_net_count};

/* ---- The same as a disk of the io door ---- */

static struct {
    struct net_env *e;
    struct snic_net *net;
    struct snic_volume *v;
    struct snic_io *io;
    struct snic_io_req req[NET_SLOTS];
} v;

static void volume_net_map(void *ctx, uint32_t disk, uint64_t segment, uint32_t gen)
{
    (void)ctx;
    (void)gen;
    net_must(snic_volume_map(v.v, disk, segment, segment + 1, 0, snic_volume_gen(1, 0)) == 0,
             "no place for a segment");
}

static void volume_net_open(struct net_env *e)
{
    static const struct snic_volume_events ev = {.map = volume_net_map};
    struct snic_volume_opts o = {.opts_size = sizeof(o), .loop = e->loop};
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 1, .vd_id = 1};
    struct snic_net_uring_opts n = {.opts_size = sizeof(n),
                                    .send_queue = SOLAR_TRAINS,
                                    .dgram_flags = SNIC_NET_DGRAM_DF | SNIC_NET_DGRAM_TIME,
                                    .dgram_recv_bytes = 8u << 20,
                                    .dgram_send_bytes = 8u << 20};
    struct snic_net_addr server;
    memset(&v, 0, sizeof(v));
    v.e = e;
    net_target_open(e, &server);
    net_must(snic_net_uring_open(&v.net, e->loop, &n) == 0, "no network");
    o.net = v.net;
    o.local.family = SNIC_NET_IPV4;
    o.seed = 3;
    o.client_epoch = 1;
    o.servers_max = o.disks_max = o.chunks_max = 1;
    o.depth = NET_SLOTS;
    o.disk_blocks_max = NET_BLOCKS;
    o.sec = net_sec(e);
    d.bytes = (uint64_t)NET_BLOCKS * SNIC_EBS_BLOCK_BYTES;
    d.xts_key = net_key(e);
    if (e->qos) {
        d.ios_per_second = 1000000000;
        d.bytes_per_second = UINT64_C(1) << 40;
    }
    size_t size = snic_volume_memsize(&o);
    net_must(snic_volume_open(&v.v, net_memory(size), size, &o, &ev, NULL) == 0 &&
                 snic_volume_server_add(v.v, 0, &server) == 0 &&
                 snic_volume_disk_open(v.v, 0, &d, &v.io) == 0,
             "no disk");
}

static void volume_net_done(struct snic_io_req *req)
{
    net_must(req->result == SNIC_EBS_BLOCK_BYTES, "an I/O failed");
    v.e->done((uint32_t)(req - v.req));
}

static void volume_net_submit(uint32_t slot, int read)
{
    struct snic_io_req *req = &v.req[slot];
    snic_io_req_init(req);
    req->done = volume_net_done;
    req->op = read ? SNIC_IO_READ : SNIC_IO_WRITE;
    req->offset = net_lba(slot) * SNIC_EBS_BLOCK_BYTES;
    req->length = SNIC_EBS_BLOCK_BYTES;
    req->buf = (struct snic_iov){net_data(slot), SNIC_EBS_BLOCK_BYTES};
    net_must(snic_io_submit(v.io, &req, 1) == 1, "a disk takes no I/O");
}

static void volume_net_close(void)
{
    free(snic_volume_close(v.v));
    snic_net_shut(v.net);
    net_target_close();
}

static void volume_net_count(struct net_counts *k)
{
    net_count(v.net, k);
    net_target_count(k);
}

const struct net_who net_volume = {"volume", volume_net_open, volume_net_submit, volume_net_close,
                                   volume_net_count};
