/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random runs: three disks on three servers, two clients that want them all, and take them from
 * each other; segments that move under load; the catalog's process, servers and clients that die at
 * any time and come again. What was acknowledged is there, what was read stays until the holder
 * writes, and everything ends.
 *
 *     test_control_sim --seed 17 one
 *     SNIC_SIM_FROM=1000 SNIC_SIM_COUNT=500 test_control_sim many
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctlfix.h"
#include "support.h"

static struct ctlfix fix;

struct tally {
    uint64_t moves, moves_failed, grants, ctl_deaths, server_deaths, client_deaths, takes;
};

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static void weather(struct ctlfix *f)
{
    struct snic_net_link l;
    memset(&l, 0, sizeof(l));
    if (snic_rng_below(&f->rng, 2) != 0) {
        l.delay_min_ns = 5000;
        l.delay_max_ns = 5000 + snic_rng_below(&f->rng, 100000);
        l.loss_ppm = (uint32_t)snic_rng_below(&f->rng, 100000);
        l.duplicate_ppm = (uint32_t)snic_rng_below(&f->rng, 100000);
        l.reorder_ppm = (uint32_t)snic_rng_below(&f->rng, 100000);
        l.reorder_ns = snic_rng_below(&f->rng, 20) * CTLFIX_MS; /* late ones */
    }
    for (uint32_t s = 0; s < f->servers; s++)
        for (uint32_t c = 0; c < CTLFIX_CLIENTS; c++) {
            assert_int_equal(snic_net_fabric_link(f->fabric, s, CTLFIX_CLIENT + c, &l), 0);
            assert_int_equal(snic_net_fabric_link(f->fabric, CTLFIX_CLIENT + c, s, &l), 0);
        }
}

/* Attach unused disks; sometimes take a disk from its holder. */
static void want(struct ctlfix *f, struct tally *t)
{
    for (uint32_t i = 0; i < CTLFIX_CLIENTS * CTLFIX_DISKS; i++) {
        struct ctlfix_client *c = &f->client[i / CTLFIX_DISKS];
        struct ctlfix_handle *g = &c->handle[i % CTLFIX_DISKS];
        if (c->v == NULL || g->io != NULL || g->attach)
            continue;
        int take = snic_rng_below(&f->rng, 40) == 0;
        t->takes += (uint64_t)take;
        if (take || f->holder[g->disk] == NULL)
            ctlfix_attach_begin(f, c->index, g->disk, take ? SNIC_CONTROL_TAKE : 0);
    }
}

static void move(struct ctlfix *f)
{
    struct snic_control_msg m;
    if (f->call != NULL && !f->call_done)
        return;
    uint32_t disk = (uint32_t)snic_rng_below(&f->rng, CTLFIX_DISKS);
    uint64_t segment = snic_rng_below(&f->rng, CTLFIX_SEGMENTS);
    ctlfix_move_msg(&m, disk, segment, 1 + (uint32_t)snic_rng_below(&f->rng, f->servers));
    ctlfix_request_begin(f, &m);
}

/* The catalog cannot be reached by a server, or by a client, in one direction or both. */
static void cut(struct ctlfix *f, int mend)
{
    for (uint32_t i = 0; i < CTLFIX_SERVERS + CTLFIX_CLIENTS; i++) {
        uint32_t node = i < CTLFIX_SERVERS ? i : CTLFIX_CLIENT + i - CTLFIX_SERVERS;
        int some = !mend && snic_rng_below(&f->rng, 3) == 0;
        snic_net_fabric_partition(f->fabric, node, CTLFIX_CTL,
                                  some && snic_rng_below(&f->rng, 4) != 0);
        snic_net_fabric_partition(f->fabric, CTLFIX_CTL, node,
                                  some && snic_rng_below(&f->rng, 4) != 0);
    }
}

struct down {
    uint64_t server[CTLFIX_SERVERS];
    uint64_t client[CTLFIX_CLIENTS];
    uint64_t ctl;
    uint64_t cut; /* until then; 0: nothing is */
};

static void revive(struct ctlfix *f, const struct down *d, uint64_t now)
{
    for (uint32_t i = 0; i < f->servers; i++)
        if (f->server[i].s == NULL && now >= d->server[i]) {
            f->server[i].port = 16 * (uint32_t)snic_rng_below(&f->rng, 2); /* it has moved */
            ctlfix_server_start(f, i);
        }
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
        if (f->client[i].v == NULL && now >= d->client[i])
            ctlfix_client_start(f, i);
    if (f->ctl == NULL && now >= d->ctl)
        assert_int_equal(ctlfix_ctl_start(f), 0);
}

static void accident(struct ctlfix *f, struct down *d, struct tally *t)
{
    uint32_t s = (uint32_t)snic_rng_below(&f->rng, f->servers);
    uint32_t c = (uint32_t)snic_rng_below(&f->rng, CTLFIX_CLIENTS);
    uint64_t now = snic_world_now(f->world);
    revive(f, d, now);
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++) { /* clients that lost a disk begin anew */
        int lost = 0;
        for (uint32_t k = 0; k < CTLFIX_DISKS; k++)
            lost |= f->client[i].v != NULL && f->client[i].handle[k].lost != 0;
        if (lost && snic_rng_below(&f->rng, 8) == 0) {
            ctlfix_client_kill(f, i);
            d->client[i] = now;
        }
    }
    uint64_t what = snic_rng_below(&f->rng, 250);
    if (d->cut != 0 && now >= d->cut) {
        cut(f, 1);
        d->cut = 0;
    } else if (what == 0) {
        weather(f);
    } else if (what == 5 && d->cut == 0) {
        cut(f, 0);
        d->cut = now + snic_rng_below(&f->rng, 3000 * CTLFIX_MS);
    } else if (what == 1 && f->server[s].s != NULL) {
        ctlfix_server_kill(f, s, snic_rng_next(&f->rng));
        d->server[s] = now + snic_rng_below(&f->rng, 300 * CTLFIX_MS);
        t->server_deaths++;
    } else if (what <= 3 && f->ctl != NULL) {
        ctlfix_ctl_kill(f, snic_rng_next(&f->rng));
        d->ctl = now + snic_rng_below(&f->rng, 300 * CTLFIX_MS);
        t->ctl_deaths++;
    } else if (what == 4 && f->client[c].v != NULL && snic_rng_below(&f->rng, 2) == 0) {
        ctlfix_client_kill(f, c);
        d->client[c] = now + snic_rng_below(&f->rng, 100 * CTLFIX_MS);
        t->client_deaths++;
    } else if (what < 150) {
        move(f);
    }
}

/* All processes run, and every disk has a holder, whose reads are checked. */
static void finish(struct ctlfix *f)
{
    struct down none;
    struct tally t;
    memset(&none, 0, sizeof(none));
    memset(&t, 0, sizeof(t));
    cut(f, 1);
    revive(f, &none, SNIC_NEVER);
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
        ctlfix_client_kill(f, i);
    ctlfix_client_start(f, 0);
    for (uint32_t i = 0; i < CTLFIX_DISKS; i++) {
        int r = SNIC_EAGAIN;
        for (uint32_t k = 0; r == SNIC_EAGAIN && k < 100; k++)
            r = ctlfix_attach(f, 0, i, SNIC_CONTROL_TAKE);
        assert_int_equal(r, 0);
        ctlfix_audit(f, i);
    }
}

/* With keys: they are rotated, and the previous ones sometimes removed. */
static void exchange(struct ctlfix *f)
{
    uint32_t next = f->sign % 7 + 1;
    if (!f->keys || snic_rng_below(&f->rng, 60) != 0)
        return;
    if ((f->known >> next & 1) == 0) {
        f->known |= 1u << next;
        return;
    }
    f->sign = next;
    f->known = 1u << next | (snic_rng_below(&f->rng, 2) != 0 ? f->known : 0);
    for (uint32_t i = 0; i < f->servers; i++)
        if (f->server[i].s != NULL)
            (void)snic_volume_server_tokens(f->server[i].s);
}

static void run_one(uint64_t seed, uint64_t ms, int verbose, int keys)
{
    struct ctlfix *f = &fix;
    struct down down;
    struct tally t;
    memset(&down, 0, sizeof(down));
    memset(&t, 0, sizeof(t));
    if (keys)
        ctlfix_start_keys(f, seed, 2 + (uint32_t)(seed % 2));
    else
        ctlfix_start(f, seed, 2 + (uint32_t)(seed % 2));
    f->seconds = 1 + seed % 3;
    f->strict = 0; /* a server that was away takes old leases until it registers */
    for (uint32_t i = 0; i < CTLFIX_DISKS; i++)
        assert_int_equal(ctlfix_create(f, i), 0);
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
        ctlfix_client_start(f, i);
    uint64_t end = snic_world_now(f->world) + ms * CTLFIX_MS;
    while (snic_world_now(f->world) < end && f->why[0] == 0) {
        ctlfix_run(f, snic_rng_below(&f->rng, 6 * CTLFIX_MS) + 1);
        accident(f, &down, &t);
        exchange(f);
        want(f, &t);
        for (uint32_t i = 0; i < CTLFIX_CLIENTS * CTLFIX_DISKS; i++)
            if (f->client[i / CTLFIX_DISKS].handle[i % CTLFIX_DISKS].io != NULL)
                ctlfix_load(f, i / CTLFIX_DISKS, i % CTLFIX_DISKS, 8);
        ctlfix_check(f);
    }
    uint64_t ios = 0;
    for (uint32_t i = 0; i < CTLFIX_CLIENTS * CTLFIX_DISKS; i++)
        ios += f->client[i / CTLFIX_DISKS].handle[i % CTLFIX_DISKS].done;
    if (f->why[0] == 0)
        finish(f);
    if (verbose || f->why[0] != 0)
        printf("seed %llu: %llu I/Os, %u moves (%u ended early), %u grants, deaths: catalog %llu, "
               "servers %llu, clients %llu: %s\n",
               (unsigned long long)seed, (unsigned long long)ios, f->events[SNIC_CONTROL_MOVED],
               f->events[SNIC_CONTROL_MOVE_FAILED], f->events[SNIC_CONTROL_GRANTED],
               (unsigned long long)t.ctl_deaths, (unsigned long long)t.server_deaths,
               (unsigned long long)t.client_deaths, f->why);
    ctlfix_check(f);
    ctlfix_end(f);
}

static void test_control_sim_one(void **state)
{
    (void)state;
    run_one(support_seed(), support_scale(3000, 20000), 1, 0);
}

static void test_control_sim_many(void **state)
{
    uint64_t from = number("SNIC_SIM_FROM", 100 + support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(12, 200));
    (void)state;
    for (uint64_t i = 0; i < count; i++)
        run_one(from + i, 1500, number("SNIC_SIM_TELL", 0) != 0, 0);
}

static void test_control_sim_keys(void **state)
{
    uint64_t from = number("SNIC_SIM_FROM", 100 + support_seed());
    uint64_t count = number("SNIC_SIM_COUNT", support_rounds(6, 100));
    (void)state;
    for (uint64_t i = 0; i < count; i++)
        run_one(from + i, 2500, number("SNIC_SIM_TELL", 0) != 0, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_control_sim_one),
                                       cmocka_unit_test(test_control_sim_many),
                                       cmocka_unit_test(test_control_sim_keys)};
    return SUPPORT_MAIN(argc, argv, tests);
}
