/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_nvmet_util.h"

#include <stdlib.h>
#include <string.h>

static struct tx *tx_now; /* that tx_after() checks */

static void tx_after(void)
{
    for (uint32_t i = 0; tx_now->t != NULL && i < tx_now->loops; i++)
        assert_int_equal(snic_nvmet_check(tx_now->all[i]), 0);
}

static uint32_t tx_qos, tx_loops = 1;

int tx_with_switch(void **state)
{
    (void)state;
    tx_qos = 1;
    return 0;
}

int tx_without_switch(void **state)
{
    (void)state;
    tx_qos = 0;
    tx_loops = 1;
    return 0;
}

int tx_with_loops(void **state)
{
    (void)tx_without_switch(state);
    tx_loops = TX_LOOPS;
    return 0;
}

int tx_with_both(void **state)
{
    (void)tx_with_loops(state);
    return tx_with_switch(state);
}

void tx_opts(struct tx *x)
{
    memset(x, 0, sizeof(*x));
    x->qos = tx_qos;
    x->loops = tx_loops;
    x->ns_loop = tx_loops - 1;
    x->o.opts_size = sizeof(x->o);
    x->o.conns_max = 16;
    x->o.data_max = 64u << 10;
    x->o.data_bytes = 256u << 10;
    x->d.opts_size = sizeof(x->d);
    x->d.size = TX_BYTES;
    x->d.seed = support_seed();
    x->d.delay_min_ns = 20000;
    x->d.delay_max_ns = 200000;
    x->s.opts_size = sizeof(x->s);
    x->s.subnqn = TX_SUBNQN;
    x->s.flags = SNIC_NVMESUB_ANY_HOST;
    x->n.opts_size = sizeof(x->n);
    x->n.uuid[0] = 1;
}

/* A device that has a request carries it out. */
static void tx_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

static void tx_switch(struct tx *x)
{
    struct snic_qos_opts q = {.opts_size = sizeof(q), .flags = SNIC_QOS_AUTO};
    if (!x->qos)
        return;
    size_t size = snic_qos_memsize(x->io, &q);
    x->qos_mem = support_guard_alloc(size, SNIC_QOS_ALIGN);
    assert_int_equal(snic_qos_open(&x->io, x->qos_mem, size, x->io, &q), 0);
}

struct snic_net_addr tx_addr(uint32_t i)
{
    struct snic_net_addr a = {
        .family = SNIC_NET_SIM, .node = i == 0 ? 1 : 1 + TX_HOSTS + i, .port = 4420};
    return a;
}

static void tx_open_loops(struct tx *x)
{
    for (uint32_t i = 0; i < x->loops; i++) {
        assert_int_equal(snic_world_loop(x->world, tx_addr(i).node, &x->loop[i]), 0);
        assert_int_equal(snic_net_sim_open(&x->net[i], x->fabric, x->loop[i], NULL), 0);
    }
}

static void tx_open_device(struct tx *x)
{
    static struct snic_io_ops stubborn;
    assert_int_equal(snic_disk_open(&x->disk, &x->d), 0);
    assert_int_equal(snic_io_mem_open(&x->io, x->loop[x->ns_loop], x->disk), 0);
    stubborn = *x->io->ops;
    stubborn.cancel = tx_cancel;
    if (x->stubborn)
        x->io->ops = &stubborn;
    tx_switch(x);
}

static void tx_open_target(struct tx *x)
{
    x->o.loops_max = x->loops;
    for (uint32_t i = 0; i < x->loops; i++) {
        size_t size = i == 0 ? snic_nvmet_memsize(&x->o) : snic_nvmet_join_memsize(&x->o);
        assert_int_not_equal(size, 0);
        x->mem[i] = x->plain ? aligned_alloc(SNIC_NVMET_ALIGN, size)
                             : support_guard_alloc(size, SNIC_NVMET_ALIGN);
        if (i == 0)
            assert_int_equal(snic_nvmet_open(&x->all[0], x->mem[0], size, x->net[0], &x->o), 0);
        else
            assert_int_equal(snic_nvmet_join(&x->all[i], x->mem[i], size, x->net[i], x->all[0]), 0);
    }
    x->t = x->all[0];
}

void tx_open_subsystem(struct tx *x)
{
    struct snic_net_addr a = tx_addr(0);
    assert_int_equal(snic_nvmet_listen(x->t, &a, NULL), 0);
    for (uint32_t i = 1; i < x->loops; i++) {
        a = tx_addr(i);
        assert_int_equal(snic_nvmet_share(x->all[i], 0, &a), 0);
    }
    assert_int_equal(snic_nvmet_subsystem_add(x->t, &x->s), 0);
    x->n.io = x->io;
    x->n.reserve = x->qos ? snic_qos_reserve : NULL;
    x->n.commit = x->qos ? snic_qos_commit : NULL;
    assert_int_equal(snic_nvmet_ns_add(x->t, 0, &x->n), 1);
}

void tx_open(struct tx *x)
{
    static const char *const nqns[TX_HOSTS] = {"nqn.2026-11.example:h0", "nqn.2026-11.example:h1",
                                               "nqn.2026-11.example:h2", "nqn.2026-11.example:h3"};
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    assert_int_equal(snic_world_open(&x->world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&x->fabric, x->world, NULL), 0);
    tx_open_loops(x);
    tx_open_device(x);
    tx_open_target(x);
    tx_now = x;
    if (!x->idle)
        tx_open_subsystem(x);
    for (uint32_t i = 0; i < TX_HOSTS; i++) {
        struct nh *h = &x->h[i];
        assert_int_equal(snic_world_loop(x->world, 2 + i, &x->hloop[i]), 0);
        h->loop = x->hloop[i];
        assert_int_equal(snic_net_sim_open(&h->net, x->fabric, h->loop, NULL), 0);
        h->addr = tx_addr((i + 1) % x->loops);
        h->subnqn = TX_SUBNQN;
        h->hostnqn = nqns[i];
        h->hostid[0] = (uint8_t)(i + 1);
        h->after = tx_after;
    }
}

void tx_close_target(struct tx *x)
{
    if (x->t == NULL)
        return;
    tx_after();
    for (uint32_t i = 0; i < x->loops; i++)
        snic_nvmet_stop(x->all[i]);
    x->t = NULL;
    for (uint32_t i = 0; i < x->loops; i++)
        assert_ptr_equal(snic_nvmet_close(x->all[i]), x->mem[i]);
    for (uint32_t i = 0; i < x->loops; i++) {
        if (x->plain)
            free(x->mem[i]);
        else
            support_guard_free(x->mem[i]);
    }
}

void tx_close(struct tx *x)
{
    tx_close_target(x);
    for (uint32_t i = 0; i < TX_HOSTS; i++) {
        snic_net_shut(x->h[i].net);
        snic_loop_close(x->hloop[i]);
    }
    snic_io_close(x->io);
    if (x->qos)
        support_guard_free(x->qos_mem);
    snic_disk_close(x->disk);
    for (uint32_t i = 0; i < x->loops; i++) {
        snic_net_shut(x->net[i]);
        snic_loop_close(x->loop[i]);
    }
    snic_net_fabric_close(x->fabric);
    snic_world_close(x->world);
}

void tx_host(struct tx *x, int i, struct nh_queue *admin, struct nh_queue *io)
{
    assert_int_equal(nh_admin(admin, &x->h[i]), 0);
    assert_int_equal(nh_io_queue(io, admin, 1), 0);
}

void tx_run(struct tx *x, uint64_t ns)
{
    (void)snic_world_run(x->world, snic_world_now(x->world) + ns, UINT64_MAX);
    tx_after();
}

void tx_fill(void *p, size_t size, uint64_t seed)
{
    struct snic_rng r;
    snic_rng_init(&r, seed);
    snic_rng_fill(&r, p, size);
}

struct snic_nvmet_stats tx_stats(const struct tx *x)
{
    struct snic_nvmet_stats sum, s;
    uint64_t *to = (uint64_t *)(void *)&sum;
    memset(&sum, 0, sizeof(sum));
    for (uint32_t i = 0; i < x->loops; i++) {
        snic_nvmet_get_stats(x->all[i], &s);
        for (size_t k = 0; k < offsetof(struct snic_nvmet_stats, conns) / 8; k++)
            to[k] += ((const uint64_t *)(const void *)&s)[k];
        sum.conns += s.conns;
        sum.queues += s.queues;
        sum.at_device += s.at_device;
    }
    return sum;
}
