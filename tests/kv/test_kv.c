/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kv door: the conformance suite on the store in memory, with everything it offers, with
 * as little as it may, with delays, and with what crashes need.
 */
#include "conformance_kv.h"

#include <string.h>

static void mem_open(struct conformance_kv *c, const struct conformance_kv_backend *b)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_kvmem_opts o = {.opts_size = sizeof(o),
                                .caps = b->caps,
                                .seed = support_seed(),
                                .delay_max_ns = b->delay_max_ns,
                                .track = strcmp(b->name, "mem_track") == 0};
    assert_int_equal(snic_world_open(&c->world, &w), 0);
    assert_int_equal(snic_world_loop(c->world, 0, &c->loop), 0);
    assert_int_equal(snic_kvmem_open(&c->medium, &o), 0);
    assert_int_equal(snic_kv_mem_open(&c->kv, c->loop, c->medium), 0);
}

static int mem_again(struct conformance_kv *c, struct snic_kv **out)
{
    return snic_kv_mem_open(out, c->loop, c->medium);
}

static void mem_damage(struct conformance_kv *c, const struct snic_kvop_key *key)
{
    assert_int_equal(snic_kvmem_damage_record(c->medium, key), 0);
}

static void mem_close(struct conformance_kv *c)
{
    snic_loop_close(c->loop);
    snic_world_close(c->world);
    snic_kvmem_close(c->medium);
}

static const struct conformance_kv_backend backends[] = {
    {.name = "mem", .open = mem_open, .again = mem_again, .damage = mem_damage, .close = mem_close},
    {.name = "mem_track",
     .open = mem_open,
     .again = mem_again,
     .damage = mem_damage,
     .close = mem_close},
    {.name = "mem_least",
     .open = mem_open,
     .again = mem_again,
     .damage = mem_damage,
     .close = mem_close,
     .caps = SNIC_KV_CAP_SHARED},
    {.name = "mem_delays",
     .open = mem_open,
     .again = mem_again,
     .damage = mem_damage,
     .close = mem_close,
     .delay_max_ns = 100000},
};

int main(int argc, char **argv)
{
    struct CMUnitTest tests[256];
    size_t n = conformance_kv_tests(tests, SNIC_COUNTOF(tests), backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n);
}
