/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated network: the conformance suite, then what only a simulation can do.
 */
#include "conformance_net.h"

static const struct conf_backend backends[] = {{"sim", CONF_SIM, 0, 0}};

void conf_backend_open(struct conf_env *e, const struct snic_net_uring_opts *server,
                       const struct snic_net_uring_opts *client)
{
    struct snic_world_opts w;
    memset(&w, 0, sizeof(w));
    w.opts_size = sizeof(w);
    w.seed = support_seed();
    assert_int_equal(snic_world_open(&e->world, &w), 0);
    assert_int_equal(snic_world_loop(e->world, 1, &e->loops[0]), 0);
    assert_int_equal(snic_world_loop(e->world, 2, &e->loops[1]), 0);
    assert_int_equal(snic_net_fabric_open(&e->fabric, e->world, NULL), 0);
    assert_int_equal(snic_net_sim_open(&e->server, e->fabric, e->loops[0], server), 0);
    assert_int_equal(snic_net_sim_open(&e->client, e->fabric, e->loops[1], client), 0);
    assert_int_equal(snic_net_addr_parse(&e->listen_addr, "sim:1:0"), 0);
}

void conf_backend_close(struct conf_env *e)
{
    snic_net_shut(e->client);
    snic_net_shut(e->server);
    snic_net_fabric_close(e->fabric);
    snic_loop_close(e->loops[0]);
    snic_loop_close(e->loops[1]);
    snic_world_close(e->world);
    memset(&e->server, 0, 2 * sizeof(e->server));
}

int conf_backend_step(struct conf_env *e)
{
    return snic_world_step(e->world);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[128];
    size_t n = conformance_net(tests, SNIC_COUNTOF(tests), backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n, NULL, NULL);
}
