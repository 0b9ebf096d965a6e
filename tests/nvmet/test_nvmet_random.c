/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long runs of hosts (test_nvmet_play.h) in a world, on one to three loops, with a namespace that
 * is removed and comes back.
 */
#include "test_nvmet_play.h"

#include <string.h>

static struct tx x;
static struct play play;
static uint32_t removals;
static enum { PRESENT, REMOVING, GONE } namespace_is;

static uint32_t any(uint32_t n)
{
    return play_any(&play, n);
}

static struct snic_net_addr addr(void)
{
    return tx_addr(any(x.loops));
}

static void pass(void)
{
    tx_run(&x, any(3) == 0 ? any(20000000) : any(200000));
}

static int present(void)
{
    return namespace_is == PRESENT;
}

static void removed(void *ctx, struct snic_io *io)
{
    (void)ctx;
    assert_ptr_equal(io, x.io);
    namespace_is = GONE;
}

static void change(void)
{
    if (namespace_is == PRESENT) {
        namespace_is = REMOVING;
        assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 1, removed, NULL), 0);
        removals++;
    } else if (namespace_is == GONE) {
        x.n.nsid = 1;
        int r = snic_nvmet_ns_add(x.t, 0, &x.n);
        assert_true(r == 1 || r == SNIC_EEXIST); /* the owner does not know yet */
        namespace_is = r == 1 ? PRESENT : GONE;
    }
}

static void run(uint32_t steps)
{
    tx_opts(&x);
    x.stubborn = any(2);
    x.d.delay_max_ns = any(2) == 0 ? 200000 : 20 * TX_MS;
    x.d.depth = any(2) == 0 ? 1024 : 4;
    x.d.seed = snic_rng_next(&play.rng);
    x.o.data_bytes = any(2) == 0 ? 128u << 10 : 256u << 10;
    x.qos = any(3) == 0;
    x.loops = 1 + any(TX_LOOPS);
    x.ns_loop = any(x.loops);
    namespace_is = PRESENT;
    tx_open(&x);
    for (uint32_t i = 0; i < PLAY_HOSTS; i++) {
        x.h[i].capsule = any(2) == 0 ? 8192 : 0;
        x.h[i].no_sq_flow = any(2);
        x.h[i].digests = any(4);
    }
    play_begin(&play);
    for (uint32_t i = 0; i < steps; i++)
        play_step(&play);
    play_end(&play);
    tx_run(&x, 1000 * TX_MS);
    assert_int_equal(tx_stats(&x).conns, 0);
    assert_int_equal(tx_stats(&x).at_device, 0);
    assert_int_equal(tx_stats(&x).violations, 0);
    play_check_disk(&play, snic_disk_bytes(x.disk));
    tx_close(&x);
}

static void test_nvmet_random_hosts_die_and_return(void **state)
{
    uint64_t rounds = support_rounds(24, 4000);
    (void)state;
    memset(&play, 0, sizeof(play));
    snic_rng_init(&play.rng, support_seed());
    play.h = x.h;
    play.addr = addr;
    play.pass = pass;
    play.change = change;
    play.present = present;
    removals = 0;
    for (uint64_t i = 0; i < rounds; i++)
        run(400);
    assert_true(play.kills > rounds && play.reads > rounds && removals > rounds / 4 &&
                play.resets > rounds / 4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmet_random_hosts_die_and_return),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
