/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_nvmet_share_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SX_SUBNQN "nqn.2026-11.example:share"
#define SX_BYTES (UINT64_C(32) << 20)

void sx_opts(struct sx *x)
{
    memset(x, 0, sizeof(*x));
    x->condition = SNIC_SSD_CLEAN;
    x->link.delay_min_ns = x->link.delay_max_ns = 10000;
    x->group.opts_size = sizeof(x->group);
    for (uint32_t i = 0; i < SX_HOSTS; i++)
        x->host[i].tenant.opts_size = sizeof(x->host[i].tenant);
}

static void sx_name(char *out, size_t size, uint32_t i)
{
    (void)snprintf(out, size, "nqn.2026-11.example:host%u", i);
}

static void sx_switch(struct sx *x)
{
    struct snic_gimbal_opts g = {
        .opts_size = sizeof(g), .groups_max = 1, .flags = SNIC_GIMBAL_LEARN};
    struct snic_qos_opts q = {.opts_size = sizeof(q), .flags = SNIC_QOS_AUTO, .gimbal = &g};
    size_t size = snic_qos_memsize(x->io, &q);
    x->qos_mem = aligned_alloc(SNIC_QOS_ALIGN, size);
    assert_int_equal(snic_qos_open(&x->io, x->qos_mem, size, x->io, &q), 0);
    if (x->grouped)
        assert_int_equal(snic_qos_group_add(x->io, 1, &x->group), 0);
    for (uint32_t i = 0; i < x->hosts; i++) {
        char nqn[64];
        sx_name(nqn, sizeof(nqn), i);
        x->host[i].tenant.group = x->grouped;
        assert_int_equal(snic_qos_tenant_add(x->io, snic_nvmet_tenant(nqn), &x->host[i].tenant), 0);
    }
}

static void sx_device(struct sx *x)
{
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = SX_BYTES, .depth = 4096};
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.seed = support_seed();
    o.condition = x->condition;
    assert_int_equal(snic_disk_open(&x->disk, &d), 0);
    assert_int_equal(snic_io_ssd_open(&x->io, x->loop, x->disk, &o), 0);
    if (!x->fifo)
        sx_switch(x);
}

static void sx_target(struct sx *x)
{
    struct snic_nvmet_opts o = {
        .opts_size = sizeof(o), .conns_max = 32, .depth_max = 256, .data_bytes = 4U << 20};
    struct snic_nvmet_subsystem_opts s = {
        .opts_size = sizeof(s), .subnqn = SX_SUBNQN, .flags = SNIC_NVMESUB_ANY_HOST};
    struct snic_nvmet_ns_opts n = {.opts_size = sizeof(n), .uuid = {1}};
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1, .port = 4420};
    size_t size = snic_nvmet_memsize(&o);
    x->mem = aligned_alloc(SNIC_NVMET_ALIGN, size);
    assert_int_equal(snic_nvmet_open(&x->t, x->mem, size, x->net, &o), 0);
    assert_int_equal(snic_nvmet_subsystem_add(x->t, &s), 0);
    n.io = x->io;
    n.reserve = x->fifo ? NULL : snic_qos_reserve;
    n.commit = x->fifo ? NULL : snic_qos_commit;
    assert_int_equal(snic_nvmet_ns_add(x->t, 0, &n), 1);
    assert_int_equal(snic_nvmet_listen(x->t, &a, NULL), 0);
}

static void sx_start(struct sx_req *r);

static void sx_done(struct snic_io_req *req)
{
    struct sx_req *r = SNIC_CONTAINER(req, struct sx_req, req);
    struct sx_host *h = r->h;
    assert_int_equal(req->result, h->size);
    h->ios++;
    h->bytes += h->size;
    snic_hist_record(&h->latency, req->done_ns - req->queued_ns);
    if (!h->x->stopped)
        sx_start(r);
}

static void sx_start(struct sx_req *r)
{
    struct snic_io_req *req = &r->req;
    struct sx_host *h = r->h;
    snic_io_req_init(req);
    req->done = sx_done;
    req->op = snic_rng_below(&h->rng, 100) < h->write ? SNIC_IO_WRITE : SNIC_IO_READ;
    req->offset = snic_rng_below(&h->rng, SX_BYTES / h->size) * h->size;
    req->length = req->buf.size = h->size;
    req->buf.base = h->data;
    assert_int_equal(snic_io_submit(h->io, &req, 1), 1);
}

static void sx_host(struct sx *x, uint32_t i)
{
    struct sx_host *h = &x->host[i];
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1, .port = 4420};
    char nqn[64];
    struct snic_nvmehost_opts o = {.opts_size = sizeof(o),
                                   .addrs = &a,
                                   .addr_count = 1,
                                   .subnqn = SX_SUBNQN,
                                   .hostnqn = nqn,
                                   .entries = 256,
                                   .depth = SX_DEPTH};
    sx_name(nqn, sizeof(nqn), i);
    assert_int_equal(snic_world_loop(x->world, 2 + i, &h->loop), 0);
    assert_int_equal(snic_net_sim_open(&h->net, x->fabric, h->loop, NULL), 0);
    size_t size = snic_nvmehost_memsize(&o);
    h->mem = aligned_alloc(SNIC_NVMEHOST_ALIGN, size);
    assert_int_equal(snic_nvmehost_open(&h->h, h->mem, size, h->net, &o), 0);
    assert_int_equal(snic_nvmehost_wait(h->h, 10000 * SX_MS), 0);
    h->io = snic_nvmehost_io(h->h);
    h->x = x;
    h->data = calloc(1, 128U << 10);
    snic_rng_init(&h->rng, support_seed() + i);
}

void sx_open(struct sx *x)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_net_fabric_opts f = {
        .opts_size = sizeof(f), .recv_size = 64U << 10, .link = x->link};
    x->stopped = 0;
    assert_int_equal(snic_world_open(&x->world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&x->fabric, x->world, &f), 0);
    assert_int_equal(snic_world_loop(x->world, 1, &x->loop), 0);
    assert_int_equal(snic_net_sim_open(&x->net, x->fabric, x->loop, NULL), 0);
    sx_device(x);
    sx_target(x);
    for (uint32_t i = 0; i < x->hosts; i++)
        sx_host(x, i);
    for (uint32_t i = 0; i < x->hosts; i++)
        for (uint32_t k = 0; k < x->host[i].depth; k++)
            x->host[i].req[k].h = &x->host[i], sx_start(&x->host[i].req[k]);
    sx_reset(x);
}

void sx_run(struct sx *x, uint64_t ns)
{
    (void)snic_world_run(x->world, snic_world_now(x->world) + ns, UINT64_MAX);
    assert_int_equal(snic_nvmet_check(x->t), 0);
    if (!x->fifo)
        assert_int_equal(snic_qos_check(x->io), 0);
}

void sx_reset(struct sx *x)
{
    for (uint32_t i = 0; i < x->hosts; i++) {
        x->host[i].ios = x->host[i].bytes = 0;
        snic_hist_reset(&x->host[i].latency);
    }
}

void sx_close(struct sx *x)
{
    x->stopped = 1;
    for (uint32_t i = 0; i < x->hosts; i++) {
        struct sx_host *h = &x->host[i];
        free(snic_nvmehost_close(h->h));
        snic_net_shut(h->net);
        snic_loop_close(h->loop);
        free(h->data);
    }
    free(snic_nvmet_close(x->t));
    snic_io_close(x->io);
    free(x->qos_mem);
    snic_disk_close(x->disk);
    snic_net_shut(x->net);
    snic_loop_close(x->loop);
    snic_net_fabric_close(x->fabric);
    snic_world_close(x->world);
}
