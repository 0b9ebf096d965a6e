/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both halves against each other at random, and against a model: the bytes that each region of the
 * disk should have. A region has one command at a time, so its bytes are always known.
 */
#include "test_nvmetcp_util.h"

#include <stdlib.h>

enum { REGIONS = 16, REGION = DUO_DISK / REGIONS, PIECES = 5 };

struct region {
    struct snic_nvmetcp_command c;
    struct snic_iov iov[PIECES];
    uint32_t at, size;
    int busy;
    unsigned char data[REGION];
    unsigned char model[REGION];
};

static struct duo duo;
static struct region regions[REGIONS];
static struct snic_rng rng;

static uint32_t below(uint32_t n)
{
    return (uint32_t)snic_rng_below(&rng, n);
}

static void world_open(struct duo *d)
{
    static const uint32_t pdas[] = {0, 0, 1, 7, 31, 12};
    duo_opts(d);
    d->rng = &rng;
    d->ho.digests = below(4);
    d->to.digests = below(4) == 0 ? below(4) : 0;
    d->ho.hpda = pdas[below(6)];
    d->to.cpda = pdas[below(6)];
    d->ho.r2ts_max = 1 + below(4);
    d->to.r2ts_max = 1 + below(4);
    d->ho.flags = below(2) == 0 ? SNIC_NVMETCP_NO_SQ_FLOW : 0;
    d->queue.flags = d->ho.flags | (below(3) == 0 ? SNIC_NVMETCP_CREDIT : 0);
    d->ho.entries = 2 + below(15);
    d->queue.entries = d->ho.entries;
    d->to.grants_max = 1 + below(8);
    d->to.inline_buffers = 1 + below(4);
    d->to.h2c_max = 4096 + 4 * below(2048);
    d->host_inline = below(2) == 0 ? 0 : 1 + below(8192);
    d->grant_bytes = below(3) == 0 ? 0 : 500 + below(6000);
    duo_open(d);
    duo_connect(d);
    for (uint32_t i = 0; i < REGIONS; i++)
        memcpy(regions[i].model, d->disk + i * REGION, REGION);
}

static void region_submit(struct duo *d, struct region *r)
{
    uint8_t op = (uint8_t)(below(8) == 0 ? 0 : 1 + below(2));
    r->size = op == 0 ? 0 : 1 + below(below(3) == 0 ? REGION : 3000);
    r->at = op == 0 ? 0 : below(REGION - r->size + 1);
    uint32_t pieces = op == 0 ? 0 : 1 + below(PIECES), used = 0;
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t n = i + 1 == pieces ? r->size - used : below(r->size - used + 1);
        r->iov[i].base = r->data + used;
        r->iov[i].size = n;
        used += n;
    }
    if (op == 1)
        snic_rng_fill(&rng, r->data, r->size);
    else
        memset(r->data, 0, r->size);
    uint32_t region = (uint32_t)(r - regions);
    duo_command(&r->c, op, region * REGION + r->at, r->iov, pieces);
    int e = snic_nvmetcp_host_submit(d->h, &r->c, d->now);
    if (e == SNIC_EAGAIN)
        return;
    assert_int_equal(e, 0);
    r->busy = 1;
}

static void region_done(struct duo *d, struct region *r)
{
    uint32_t region = (uint32_t)(r - regions);
    unsigned char *disk = d->disk + region * REGION;
    r->busy = 0;
    assert_int_equal(r->c.error, 0);
    assert_int_equal(r->c.status, 0);
    if (r->c.sqe[0] == 1)
        memcpy(r->model + r->at, r->data, r->size);
    if (r->c.sqe[0] == 2)
        assert_memory_equal(r->data, r->model + r->at, r->size);
    assert_memory_equal(disk, r->model, REGION); /* nothing beside it was written */
}

static uint32_t world_step(struct duo *d)
{
    uint32_t busy = 0;
    (void)duo_round(d);
    if (d->t_term + d->h_term + d->t_ended + d->h_ended > 0)
        fail_msg("ended: target %d fes %u fei %u, host %d fes %u fei %u", d->t_last.reason,
                 d->t_last.fes, d->t_last.fei, d->h_last.reason, d->h_last.fes, d->h_last.fei);
    for (uint32_t i = 0; i < REGIONS; i++) {
        if (regions[i].busy && regions[i].c.state == 1)
            region_done(d, &regions[i]);
        busy += regions[i].busy != 0;
    }
    return busy;
}

static void test_nvmetcp_random_bytes_as_in_the_model(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_stats st;
    uint64_t worlds = support_rounds(60, 3000), commands = 0, successes = 0, pauses = 0;
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint64_t w = 0; w < worlds; w++) {
        world_open(d);
        for (uint32_t step = 0; step < 600; step++) {
            struct region *r = &regions[below(REGIONS)];
            if (!r->busy && below(3) > 0)
                region_submit(d, r);
            d->hold = below(4) == 0;
            d->now += below(1000);
            (void)world_step(d);
        }
        d->hold = 0;
        uint32_t left = 100000;
        while (world_step(d) > 0)
            assert_true(left-- > 0);
        while (!duo_idle(d))
            (void)world_step(d);
        duo_events(d);
        assert_int_equal(d->t_term + d->h_term + d->t_ended + d->h_ended, 0);
        snic_nvmetcp_target_stats(d->t, &st);
        assert_true(st.active == 0 && st.grants == 0 && st.inlines == 0 && st.queued == 0);
        assert_true(st.active_max <= d->ho.entries);
        commands += st.commands;
        successes += st.successes;
        pauses += st.pauses;
        duo_close(d);
    }
    assert_true(commands > worlds * 30 && successes > worlds && pauses > 0);
    print_message("%llu commands, %llu successes, %llu pauses\n", (unsigned long long)commands,
                  (unsigned long long)successes, (unsigned long long)pauses);
}

/* A bit of either stream is flipped at some time: with all digests wrong data are never seen, and
   each command ends, by a response, an error or the end of the connection. */
static void test_nvmetcp_random_damage_never_seen(void **state)
{
    struct duo *d = &duo;
    uint64_t worlds = support_rounds(200, 10000), ends = 0, errors = 0;
    (void)state;
    snic_rng_init(&rng, support_seed() + 1);
    for (uint64_t w = 0; w < worlds; w++) {
        world_open(d);
        duo_close(d);
        d->to.digests = 0;
        d->ho.digests = 3;
        struct snic_nvmetcp_target_opts to = d->to;
        struct snic_nvmetcp_host_opts ho = d->ho;
        uint32_t inline_bytes = d->host_inline;
        duo_opts(d);
        d->to = to;
        d->ho = ho;
        d->queue.entries = ho.entries;
        d->host_inline = inline_bytes;
        d->rng = &rng;
        duo_open(d);
        duo_connect(d);
        uint32_t when = below(60), busy = 0;
        memset(regions, 0, sizeof(regions));
        for (uint32_t step = 0; step < 4000; step++) {
            struct region *r = &regions[below(REGIONS)];
            if (!r->busy && step < 100 && d->h_ended + d->h_term == 0)
                region_submit(d, r);
            (void)duo_round(d);
            struct pipe *p = below(2) == 0 ? &d->up : &d->down;
            if (step >= when && p->tail > p->head && when != UINT32_MAX) {
                p->bytes[p->head + below((uint32_t)(p->tail - p->head))] ^=
                    (unsigned char)(1u << below(8));
                when = UINT32_MAX;
            }
            if (d->t_ended > 0 && d->h_ended == 0)
                snic_nvmetcp_host_closed(d->h, d->now);
            if (d->h_ended > 0 && d->t_ended == 0)
                snic_nvmetcp_target_closed(d->t, d->now);
            /* A length may be damaged so that each side waits for the other. */
            if (step == 3990)
                snic_nvmetcp_host_closed(d->h, d->now);
            busy = 0;
            for (uint32_t i = 0; i < REGIONS; i++) {
                r = &regions[i];
                if (!r->busy || r->c.state == 0) {
                    busy += r->busy != 0;
                    continue;
                }
                r->busy = 0;
                errors += r->c.error != 0 || r->c.status != 0;
                if (r->c.error == 0 && r->c.status == 0 && r->c.sqe[0] == 2)
                    assert_memory_equal(r->data, d->disk + i * REGION + r->at, r->size);
                if (r->c.error == 0 && r->c.status == 0 && r->c.sqe[0] == 1)
                    assert_memory_equal(r->data, d->disk + i * REGION + r->at, r->size);
            }
            if (step > 100 && busy == 0)
                break;
        }
        assert_int_equal(busy, 0);
        ends += d->h_ended > 0;
        duo_close(d);
    }
    assert_true(ends > worlds / 10 && errors > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmetcp_random_bytes_as_in_the_model),
        cmocka_unit_test(test_nvmetcp_random_damage_never_seen),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
