/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_nvmehost_util.h"

#include <string.h>

void hx_opts(struct hx *x)
{
    memset(x, 0, sizeof(*x));
    x->paths = 1;
    x->t_opts.opts_size = sizeof(x->t_opts);
    x->t_opts.conns_max = 16;
    x->t_opts.host_conns_max = 16;
    x->t_opts.data_max = 64u << 10;
    x->t_opts.data_bytes = 256u << 10;
    x->d.opts_size = sizeof(x->d);
    x->d.size = HX_BYTES;
    x->d.seed = support_seed();
    x->d.delay_min_ns = 20000;
    x->d.delay_max_ns = 200000;
    x->sub.opts_size = sizeof(x->sub);
    x->sub.subnqn = HX_SUBNQN;
    x->sub.flags = SNIC_NVMESUB_ANY_HOST;
    x->ns.opts_size = sizeof(x->ns);
    x->ns.uuid[0] = 1;
    x->o.opts_size = sizeof(x->o);
    x->o.subnqn = HX_SUBNQN;
    x->o.hostnqn = HX_HOSTNQN;
    x->o.kato_ms = 1000;
    x->o.depth = 32;
    x->o.entries = 16;
}

static void hx_stubborn_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

void hx_start_target(struct hx *x)
{
    static struct snic_io_ops stubborn;
    assert_int_equal(snic_net_sim_open(&x->tnet, x->fabric, x->tloop, NULL), 0);
    assert_int_equal(snic_io_mem_open(&x->tio, x->tloop, x->disk), 0);
    stubborn = *x->tio->ops;
    stubborn.cancel = hx_stubborn_cancel;
    if (x->stubborn)
        x->tio->ops = &stubborn;
    if (x->wrap != NULL)
        x->tio = x->wrap(x->tio);
    size_t size = snic_nvmet_memsize(&x->t_opts);
    assert_int_not_equal(size, 0);
    x->tmem = support_guard_alloc(size, SNIC_NVMET_ALIGN);
    assert_int_equal(snic_nvmet_open(&x->t, x->tmem, size, x->tnet, &x->t_opts), 0);
    if (x->auth != NULL)
        assert_int_equal(snic_nvmet_auth(x->t, x->auth), 0);
    assert_int_equal(snic_nvmet_subsystem_add(x->t, &x->sub), 0);
    x->ns.io = x->tio;
    assert_int_equal(snic_nvmet_ns_add(x->t, 0, &x->ns), 1);
    for (uint32_t i = 0; i < x->paths; i++) {
        struct snic_net_addr a = {
            .family = SNIC_NET_SIM, .node = 1, .port = (uint16_t)(HX_PORT + i)};
        assert_int_equal(snic_nvmet_listen(x->t, &a, NULL), i);
        x->addrs[i] = a;
    }
}

void hx_kill_target(struct hx *x)
{
    snic_net_fabric_kill(x->fabric, 1);
    support_guard_free(snic_nvmet_close(x->t));
    snic_io_close(x->tio);
    snic_net_shut(x->tnet);
    x->t = NULL;
}

void hx_open_target(struct hx *x)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    assert_int_equal(snic_world_open(&x->world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&x->fabric, x->world, NULL), 0);
    assert_int_equal(snic_world_loop(x->world, 1, &x->tloop), 0);
    assert_int_equal(snic_world_loop(x->world, 2, &x->hloop), 0);
    assert_int_equal(snic_disk_open(&x->disk, &x->d), 0);
    assert_int_equal(snic_net_sim_open(&x->hnet, x->fabric, x->hloop, NULL), 0);
    hx_start_target(x);
}

void hx_open_host(struct hx *x)
{
    x->o.addrs = x->addrs;
    x->o.addr_count = x->paths;
    size_t size = snic_nvmehost_memsize(&x->o);
    assert_int_not_equal(size, 0);
    x->hmem = support_guard_alloc(size, SNIC_NVMEHOST_ALIGN);
    assert_int_equal(snic_nvmehost_open(&x->h, x->hmem, size, x->hnet, &x->o), 0);
}

void hx_open(struct hx *x)
{
    hx_open_target(x);
    hx_open_host(x);
    assert_int_equal(snic_nvmehost_wait(x->h, 10 * HX_S), 0);
    x->io = snic_nvmehost_io(x->h);
    assert_non_null(x->io);
}

void hx_close_host(struct hx *x)
{
    if (x->h == NULL)
        return;
    assert_int_equal(snic_nvmehost_check(x->h), 0);
    assert_ptr_equal(snic_nvmehost_close(x->h), x->hmem);
    support_guard_free(x->hmem);
    x->h = NULL;
}

void hx_close(struct hx *x)
{
    hx_close_host(x);
    if (x->t != NULL) {
        assert_int_equal(snic_nvmet_check(x->t), 0);
        assert_ptr_equal(snic_nvmet_close(x->t), x->tmem);
        support_guard_free(x->tmem);
        snic_io_close(x->tio);
        snic_net_shut(x->tnet);
    }
    snic_net_shut(x->hnet);
    snic_disk_close(x->disk);
    snic_loop_close(x->hloop);
    snic_loop_close(x->tloop);
    snic_net_fabric_close(x->fabric);
    snic_world_close(x->world);
}

static void hx_check(struct hx *x)
{
    if (x->h != NULL)
        assert_int_equal(snic_nvmehost_check(x->h), 0);
    if (x->t != NULL)
        assert_int_equal(snic_nvmet_check(x->t), 0);
}

void hx_run(struct hx *x, uint64_t ns)
{
    (void)snic_world_run(x->world, snic_world_now(x->world) + ns, UINT64_MAX);
    hx_check(x);
}

struct snic_nvmehost_stats hx_stats(const struct hx *x)
{
    struct snic_nvmehost_stats s;
    snic_nvmehost_get_stats(x->h, &s);
    return s;
}

static void hx_done(struct snic_io_req *req)
{
    SNIC_CONTAINER(req, struct hx_req, req)->done++;
}

void hx_start(struct hx *x, struct hx_req *r, enum snic_io_op op, uint64_t offset, void *mem,
              uint64_t length)
{
    struct snic_io_req *one = &r->req;
    snic_io_req_init(&r->req);
    r->done = 0;
    r->req.done = hx_done;
    r->req.op = (uint8_t)op;
    r->req.offset = offset;
    r->req.length = length;
    r->req.buf.base = mem;
    r->req.buf.size = mem != NULL ? (size_t)length : 0;
    assert_int_equal(snic_io_submit(x->io, &one, 1), 1);
}

int64_t hx_wait(struct hx *x, struct hx_req *r)
{
    while (r->done == 0) {
        assert_true(snic_world_step(x->world) > 0);
        hx_check(x);
    }
    assert_int_equal(r->done, 1);
    return r->req.result;
}

int64_t hx_do(struct hx *x, enum snic_io_op op, uint64_t offset, void *mem, uint64_t length)
{
    struct hx_req r;
    hx_start(x, &r, op, offset, mem, length);
    return hx_wait(x, &r);
}

void hx_fill(void *p, size_t size, uint64_t seed)
{
    struct snic_rng r;
    snic_rng_init(&r, seed);
    snic_rng_fill(&r, p, size);
}
