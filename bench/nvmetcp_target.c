/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The target as examples/nvme_target sets it up, on the null device; and the initiator's service.
 */
#include "nvmetcp_net.h"

#include <stdio.h>
#include <stdlib.h>

static const char subnqn[] = "nqn.2026-11.example:null";

/* ---- The target ---- */

static struct snic_io *put_switch(struct snic_io *inner, const struct net_case *c)
{
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_AUTO};
    struct snic_io *io = NULL;
    if (!c->fair)
        return inner;
    o.tenants_max = 256;
    size_t size = snic_qos_memsize(inner, &o);
    net_must(size > 0, "options of the switch");
    net_must(snic_qos_open(&io, net_memory(size), size, inner, &o) == 0, "no switch");
    return io;
}

static void target_serve(const struct net_case *c)
{
    struct snic_loop *loop = net_loop();
    struct snic_net *net = net_sockets(loop, 128);
    struct snic_nvmet_opts o = {.opts_size = sizeof(o)};
    struct snic_nvmet_subsystem_opts s = {.opts_size = sizeof(s), .subnqn = subnqn};
    struct snic_nvmet_ns_opts n = {.opts_size = sizeof(n), .uuid = {1}};
    struct snic_nvmet *t = NULL;
    struct snic_net_addr at;
    o.depth_max = 2 * NET_DEPTH;
    o.capsule_bytes = c->op == NET_WRITE_R2T ? 16 : 0;
    s.flags = SNIC_NVMESUB_ANY_HOST;
    size_t size = snic_nvmet_memsize(&o);
    net_must(size > 0, "options of the target");
    net_must(snic_nvmet_open(&t, net_memory(size), size, net, &o) == 0, "no target");
    net_must(snic_nvmet_subsystem_add(t, &s) == 0, "no subsystem");
    n.io = put_switch(net_null_open(loop), c);
    n.reserve = c->fair ? snic_qos_reserve : NULL;
    n.commit = c->fair ? snic_qos_commit : NULL;
    net_must(snic_nvmet_ns_add(t, 0, &n) == 1, "no namespace");
    net_must(snic_net_addr_parse(&at, "127.0.0.1:0") == 0, "address");
    net_must(snic_nvmet_listen(t, &at, NULL) == 0 && snic_nvmet_listen_addr(t, 0, &at) == 0,
             "the target cannot listen");
    net_listens(at.port);
    (void)snic_loop_run(loop);
}

/* ---- Its hosts ---- */

struct slot {
    struct snic_io_req req;
    struct snic_io *io;
    uint64_t block;
};

static struct {
    struct snic_net *net;
    uint32_t hosts;
    struct snic_nvmehost *host[NET_HOSTS];
    struct slot slots[NET_DEPTH];
    unsigned char *data;
    enum net_op op;
} h;

static void host_done(struct snic_io_req *req)
{
    struct slot *s = SNIC_CONTAINER(req, struct slot, req);
    net_must(req->result == NET_BLOCK, "an I/O failed");
    net_done((uint32_t)(s - h.slots));
}

static void host_submit(uint32_t i)
{
    struct slot *s = &h.slots[i];
    struct snic_io_req *r = &s->req;
    snic_io_req_init(r);
    r->done = host_done;
    r->op = h.op == NET_READ ? SNIC_IO_READ : SNIC_IO_WRITE;
    r->offset = (s->block++ * NET_DEPTH + i) % (1u << 20) * NET_BLOCK;
    r->length = NET_BLOCK;
    r->buf.base = h.data + i * (size_t)NET_BLOCK;
    r->buf.size = NET_BLOCK;
    net_must(snic_io_submit(s->io, &r, 1) == 1, "the initiator is full");
}

static void host_open(const struct net_case *c, const struct snic_net_addr *at,
                      struct snic_loop *loop)
{
    memset(&h, 0, sizeof(h));
    h.net = net_sockets(loop, 128);
    h.hosts = c->hosts;
    h.op = c->op;
    h.data = net_memory(NET_DEPTH * (size_t)NET_BLOCK);
    for (uint32_t i = 0; i < c->hosts; i++) {
        struct snic_nvmehost_opts o = {.opts_size = sizeof(o), .flags = SNIC_NVMEHOST_VOLATILE};
        char nqn[64];
        (void)snprintf(nqn, sizeof(nqn), "nqn.2026-11.example:host%u", i);
        o.addrs = at;
        o.addr_count = 1;
        o.subnqn = subnqn;
        o.hostnqn = nqn;
        o.entries = 2 * NET_DEPTH;
        o.depth = NET_DEPTH;
        o.digests = c->digests ? SNIC_NVMETCP_HDGST | SNIC_NVMETCP_DDGST : 0;
        size_t size = snic_nvmehost_memsize(&o);
        net_must(size > 0, "options of the initiator");
        net_must(snic_nvmehost_open(&h.host[i], net_memory(size), size, h.net, &o) == 0 &&
                     snic_nvmehost_wait(h.host[i], UINT64_C(10000000000)) == 0,
                 "the initiator cannot connect");
    }
    for (uint32_t i = 0; i < NET_DEPTH; i++)
        h.slots[i].io = snic_nvmehost_io(h.host[i % c->hosts]);
}

static void host_count(struct net_bytes *b)
{
    b->sent = h.net->stats.sent_bytes;
    b->received = h.net->stats.recv_bytes;
}

static void host_close(void)
{
    for (uint32_t i = 0; i < h.hosts; i++)
        free(snic_nvmehost_close(h.host[i]));
    snic_net_shut(h.net);
    free(h.data);
}

const struct net_who net_target = {"ours",      target_serve, host_open,
                                   host_submit, host_count,   host_close};
