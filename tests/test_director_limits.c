/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director: messages and clients at the limits that the options set, and beyond. */
#include <stdlib.h>
#include <string.h>

#include "dirseen.h"

/* Make the engine find an item for keys 0..n-1 whose record is not the key's: reply() says HOST. */
static void mislead(struct dirfix *f, uint16_t n)
{
    uint64_t nonsense[3] = {f->file, 0, 100};
    for (uint16_t k = 0; k < n; k++) {
        uint64_t hash = dirfix_hash(f, k);
        assert_int_equal(snic_offload_cache(f->offload, &hash, nonsense, f->version), 1);
    }
}

/* A client's reads of every length, all of which the engine hands back. */
static void send_long_reads(struct dirfix_client *c, uint32_t count, struct snic_rng *rng)
{
    /* Lengths of messages: around a batch's end, several pieces, and the largest. */
    static const uint32_t sizes[] = {16, 16351, 16352, 16353, 16384, 40000, 131072, 199999, 200000};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = sizes[snic_rng_below(rng, SNIC_COUNTOF(sizes))];
        dirfix_send(c, DIRFIX_GET, 0, (uint16_t)snic_rng_below(rng, 8), 0, size - DIRFIX_HEAD);
    }
    dirfix_pump(c);
}

/**
 * A message of any accepted length may be handed back by the engine: it reaches the host, in
 * pieces where it is longer than a batch, between other connections' messages of any length.
 */
static void test_director_long_messages_come_back_from_engine(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(12, 200); s++) {
        struct dirfix_opts o = options(support_seed() * 1000 + s, 6);
        struct snic_rng rng;
        snic_rng_init(&rng, support_seed() * 1000 + s);
        o.net = s % 4 == 3;
        o.local = s % 2 == 0;
        o.ring_bytes = 262144;
        o.offload_message_max = 200000;
        o.host_delay_ns = 100000;
        dirfix_open(&fix, &o);
        put_keys(&fix, join(&fix, 5), 8);
        mislead(&fix, 8);
        for (uint32_t i = 0; i < 5; i++)
            send_long_reads(join(&fix, i), 20, &rng);
        for (uint32_t i = 0; i < 20; i++)
            dirfix_send(&fix.clients[5], DIRFIX_ECHO, 0, 0, 100,
                        (uint32_t)snic_rng_below(&rng, 60000));
        dirfix_pump(&fix.clients[5]);
        dirfix_finish(&fix);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(seen[i].ok, 20);
        assert_int_equal(seen[5].ok, 8 + 20);
        if (!o.net)
            assert_int_equal(dirfix_stats(&fix).offload_to_host, 100);
        dirfix_close(&fix);
    }
}

/** The same while clients leave, and hosts die, in the middle of such messages. */
static void test_director_long_messages_survive_ends(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(20, 300); s++) {
        struct dirfix_opts o = options(support_seed() * 1000 + s, 6);
        struct snic_rng rng;
        snic_rng_init(&rng, support_seed() * 1000 + s);
        o.local = s % 2 == 0;
        o.net = s % 5 == 4;
        o.ring_bytes = 262144;
        o.offload_message_max = 200000;
        dirfix_open(&fix, &o);
        put_keys(&fix, join(&fix, 5), 8);
        for (int round = 0; round < 3; round++) {
            mislead(&fix, 8);
            for (uint32_t i = 0; i < 5; i++)
                send_long_reads(join(&fix, i), 20, &rng);
            dirfix_run(&fix, snic_rng_below(&rng, 3000000));
            for (uint32_t i = 0; i < 5; i++)
                if (snic_rng_below(&rng, 2) == 0)
                    dirfix_disconnect(&fix.clients[i], snic_rng_below(&rng, 2) == 0);
            if (!o.net && round == 1) {
                dirfix_host_kill(&fix);
                dirfix_run(&fix, snic_rng_below(&rng, 2000000));
                dirfix_host_attach(&fix);
                dirfix_run(&fix, 2000000);
            }
            dirfix_finish(&fix);
            for (uint32_t i = 0; i < 5; i++)
                if (!fix.clients[i].closed)
                    dirfix_disconnect(&fix.clients[i], 1);
            dirfix_run(&fix, 10000000);
        }
        dirfix_send(&fix.clients[5], DIRFIX_ECHO, 0, 0, 100, 150000);
        dirfix_pump(&fix.clients[5]);
        dirfix_finish(&fix);
        assert_true(seen[5].ok >= 9);
        dirfix_close(&fix);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_long_messages_come_back_from_engine),
        cmocka_unit_test(test_director_long_messages_survive_ends),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
