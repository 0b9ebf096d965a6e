/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random runs: a client, three servers, a network that loses, doubles, delays, damages, is cut and
 * mended, connections that break in the middle of a frame on either side or are no longer received
 * from, servers whose power fails, clients that crash and come again with the next lease. What was
 * acknowledged is there, nothing older comes back, and everything ends.
 *
 *     test_volume_sim --seed 17 one
 *     SNIC_SIM_FROM=1000 SNIC_SIM_COUNT=500 test_volume_sim many
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/solar_cipher.h"
#include "support.h"
#include "volfix.h"
#include "volume/volume_priv.h"

static struct volfix fix;
static uint64_t resets, cuts;
static uint64_t mend[VOLFIX_SERVERS];
static int sealed; /* SOLAR's packets are */
static int tokens; /* and servers want tokens, good for two seconds, under keys that change */
static uint32_t known;

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

/* What a datagram loses delays all that is behind it on a stream, for long: so less is lost there.
 */
static void weather(struct volfix *f)
{
    struct snic_net_link l;
    uint32_t loss = f->transport == SNIC_VOLUME_LUNA ? 2000 : 200000;
    for (uint32_t i = 0; i < f->servers; i++)
        for (int way = 0; way < 2; way++) {
            memset(&l, 0, sizeof(l));
            if (snic_rng_below(&f->rng, 2) != 0) {
                l.delay_min_ns = 5000;
                l.delay_max_ns = 5000 + snic_rng_below(&f->rng, 100000);
                l.loss_ppm = (uint32_t)snic_rng_below(&f->rng, loss);
                l.duplicate_ppm = (uint32_t)snic_rng_below(&f->rng, 100000);
                l.corrupt_ppm = (uint32_t)snic_rng_below(&f->rng, 20000);
                l.reorder_ppm = (uint32_t)snic_rng_below(&f->rng, 50000);
                l.reorder_ns = 300000;
            }
            assert_int_equal(snic_net_fabric_link(f->fabric, way ? 10 : i, way ? i : 10, &l), 0);
        }
}

/* A partition in one direction or both, until it is mended: connections stay half open. */
static void cut(struct volfix *f, uint32_t server, int is)
{
    uint32_t ways = 1 + (uint32_t)snic_rng_below(&f->rng, 3);
    if (!is || (ways & 1) != 0)
        snic_net_fabric_partition(f->fabric, 10, server, is);
    if (!is || (ways & 2) != 0)
        snic_net_fabric_partition(f->fabric, server, 10, is);
}

/* A connection of the client's, or of a server's: its end, or an owner that does not read. */
static void trouble(struct volfix *f, uint32_t server)
{
    struct snic_net_conn *c = NULL;
    uint32_t i = (uint32_t)snic_rng_next(&f->rng);
    if (f->transport != SNIC_VOLUME_LUNA)
        return;
    if ((i & 1) != 0)
        c = f->v->links[i % f->v->sockets_max].k.c;
    else if (f->server[server].s != NULL)
        c = f->server[server].s->luna.peers[i % f->server[server].s->o.streams_max].k.c;
    if (c == NULL)
        return;
    if (snic_rng_below(&f->rng, 3) != 0)
        snic_net_abort(c);
    else
        snic_net_pause(c, snic_rng_below(&f->rng, 2) != 0);
    resets++;
}

/* What may happen at a time; @down: when each server comes again. */
static void accident(struct volfix *f, uint64_t *down)
{
    uint32_t s = (uint32_t)snic_rng_below(&f->rng, f->servers);
    uint64_t now = snic_world_now(f->world);
    for (uint32_t i = 0; i < f->servers; i++)
        if (f->server[i].s == NULL && now >= down[i])
            assert_int_equal(volfix_server_start(f, i), 0);
    for (uint32_t i = 0; i < f->servers; i++)
        if (mend[i] != 0 && now >= mend[i]) {
            mend[i] = 0;
            cut(f, i, 0);
        }
    switch (snic_rng_below(&f->rng, 16)) {
    case 0:
        weather(f);
        break;
    case 1:
        if (f->server[s].s != NULL) {
            if (snic_rng_below(&f->rng, 4) == 0)
                volfix_server_stop(f, s);
            else
                volfix_server_kill(f, s, snic_rng_next(&f->rng));
            down[s] = now + snic_rng_below(&f->rng, 400 * VOLFIX_MS);
        }
        break;
    case 2:
        if (snic_rng_below(&f->rng, 4) == 0) {
            volfix_client_kill(f);
            volfix_client_start(f);
        }
        break;
    case 3:
        if (mend[s] == 0 && snic_rng_below(&f->rng, 3) == 0) {
            cuts++;
            cut(f, s, 1);
            mend[s] = now + 1 + snic_rng_below(&f->rng, 1500 * VOLFIX_MS);
        }
        break;
    case 4:
    case 5:
    case 6:
        trouble(f, s);
        break;
    default:
        break;
    }
}

static void *token_key(void *ctx, uint32_t key_id)
{
    static struct solar_toy_key keys[8];
    (void)ctx;
    if (key_id >= 8 || (known >> key_id & 1) == 0)
        return NULL;
    keys[key_id].bytes[0] = key_id;
    keys[key_id].bytes[1] = 77;
    return &keys[key_id];
}

static void exchange(struct volfix *f)
{
    uint32_t next = f->token_key_id % 7 + 1;
    if (!tokens || snic_rng_below(&f->rng, 100) != 0)
        return;
    if ((known >> next & 1) == 0) {
        known |= 1u << next;
        return;
    }
    f->token_key_id = next;
    known = 1u << next | (snic_rng_below(&f->rng, 2) != 0 ? known : 0);
    for (uint32_t i = 0; i < f->servers; i++)
        if (f->server[i].s != NULL)
            (void)snic_volume_server_tokens(f->server[i].s);
}

/* All begin anew, and share a secret. */
static void seal(struct volfix *f)
{
    static struct solar_toy_key secret = {{3, 4}}, wire[VOLFIX_SERVERS + 1][2];
    volfix_client_kill(f);
    f->sec = &solar_toy_ops;
    if (f->transport == SNIC_VOLUME_SOLAR)
        f->server_secret = f->client_secret = &secret;
    if (tokens) {
        known = 2;
        f->token_key = token_key;
        f->token_key_id = 1;
        f->token_rights = SNIC_EBS_MAY_ALL;
        f->token_seconds = 2;
        f->tokens_max = 8;
    }
    for (uint32_t k = 0; k < 2; k++)
        f->client_wire[k] = &wire[VOLFIX_SERVERS][k];
    for (uint32_t i = 0; i < f->servers; i++) {
        for (uint32_t k = 0; k < 2; k++)
            f->server_wire[i][k] = &wire[i][k];
        volfix_server_stop(f, i);
        assert_int_equal(volfix_server_start(f, i), 0);
    }
    volfix_client_start(f);
}

static void run(uint32_t transport, uint64_t seed, uint64_t ios, int traced)
{
    struct volfix *f = &fix;
    uint64_t down[VOLFIX_SERVERS] = {0};
    memset(mend, 0, sizeof(mend));
    volfix_start(f, transport, seed, 1 + (uint32_t)(seed % VOLFIX_SERVERS));
    if (sealed)
        seal(f);
    weather(f);
    volfix_load(f, ios);
    while ((f->begun < f->wanted || f->inflight != 0) && f->why[0] == 0) {
        volfix_run(f, snic_rng_below(&f->rng, 8 * VOLFIX_MS) + 1);
        accident(f, down);
        exchange(f);
        volfix_load(f, f->wanted - f->begun);
        volfix_check(f);
        if (snic_world_now(f->world) > 600000 * VOLFIX_MS)
            snprintf(f->why, sizeof(f->why), "it does not end");
    }
    for (uint32_t i = 0; i < f->servers; i++) {
        cut(f, i, 0);
        if (f->server[i].s == NULL)
            assert_int_equal(volfix_server_start(f, i), 0);
    }
    volfix_audit(f);
    if (traced || f->why[0] != 0)
        printf(
            "seed %llu %s: %llu I/Os, %llu unknown, epoch %u, sent again %llu, %llu resets, %llu "
            "cuts, at %llu ms: %s\n",
            (unsigned long long)seed, transport == SNIC_VOLUME_LUNA ? "luna" : "solar",
            (unsigned long long)f->done, (unsigned long long)f->failed, f->epoch,
            (unsigned long long)volfix_again(f), (unsigned long long)resets,
            (unsigned long long)cuts, (unsigned long long)(snic_world_now(f->world) / VOLFIX_MS),
            f->why);
    volfix_check(f);
    volfix_end(f);
}

static void one(uint32_t transport)
{
    run(transport, support_seed(), support_scale(1500, 10000), 1);
}

static void many(uint32_t transport)
{
    uint64_t from = number("SNIC_SIM_FROM", 100 + support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(12, 300));
    for (uint64_t i = 0; i < count; i++)
        run(transport, from + i, 600, number("SNIC_SIM_TRACE", 0) != 0);
}

static void test_volume_sim_one_solar(void **state)
{
    (void)state;
    one(SNIC_VOLUME_SOLAR);
}

static void test_volume_sim_one_luna(void **state)
{
    (void)state;
    one(SNIC_VOLUME_LUNA);
}

static void test_volume_sim_many_solar(void **state)
{
    (void)state;
    many(SNIC_VOLUME_SOLAR);
}

static void test_volume_sim_many_sealed(void **state)
{
    (void)state;
    sealed = 1;
    many(SNIC_VOLUME_SOLAR);
    sealed = 0;
}

static void test_volume_sim_many_tokens(void **state)
{
    (void)state;
    sealed = tokens = 1;
    many(SNIC_VOLUME_SOLAR);
    sealed = tokens = 0;
}

static void test_volume_sim_many_luna_tokens(void **state)
{
    (void)state;
    sealed = tokens = 1;
    many(SNIC_VOLUME_LUNA);
    sealed = tokens = 0;
}

static void test_volume_sim_many_luna(void **state)
{
    (void)state;
    many(SNIC_VOLUME_LUNA);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_volume_sim_one_solar),
                                       cmocka_unit_test(test_volume_sim_one_luna),
                                       cmocka_unit_test(test_volume_sim_many_solar),
                                       cmocka_unit_test(test_volume_sim_many_sealed),
                                       cmocka_unit_test(test_volume_sim_many_tokens),
                                       cmocka_unit_test(test_volume_sim_many_luna_tokens),
                                       cmocka_unit_test(test_volume_sim_many_luna)};
    return SUPPORT_MAIN(argc, argv, tests);
}
