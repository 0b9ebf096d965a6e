/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * More writes at once than links and logs take, with the default options and links of a real
 * bandwidth, and no fault: nothing is sent twice, no node is left out, and the cluster does as much
 * as with fewer at once.
 */
#include "cluster.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)
enum { BURST_MOST = 256 };

/* Writes of one size, so many at once, each followed by the next. */
struct burst {
    struct cluster *c;
    uint32_t depth;
    uint32_t size;
    uint32_t nodes; /* that clients use */
    uint64_t count;
    uint64_t begun;
    uint64_t answered;
    uint64_t failed;
    uint64_t keys;
    struct burst_op {
        struct snic_replica_op op;
        struct burst *b;
        uint32_t node;
        uint32_t open;
    } op[BURST_MOST];
};

static unsigned char burst_bytes[65536];

static void burst_next(struct burst *b, struct burst_op *o);

static void burst_done(struct snic_replica_op *op)
{
    struct burst_op *o = SNIC_CONTAINER(op, struct burst_op, op);
    o->open = 0;
    o->b->answered++;
    o->b->failed += op->result != 0;
    burst_next(o->b, o);
}

static void burst_next(struct burst *b, struct burst_op *o)
{
    if (b->begun == b->count)
        return;
    memset(&o->op, 0, sizeof(o->op));
    o->op.done = burst_done;
    o->op.kind = SNIC_REPLICA_PUT;
    o->op.key.w[0] = (b->begun * 7919) % b->keys;
    o->op.key.w[1] = 1;
    o->op.data = burst_bytes;
    o->op.size = b->size;
    int r = snic_replica_submit(b->c->node[o->node].r, &o->op);
    o->open = r == 0;
    b->begun += r == 0;
    if (r != 0 && r != SNIC_EAGAIN)
        fail_msg("submit: %s", snic_errname(r));
}

/* Until all are answered: the simulated time it took. */
static uint64_t burst_run(struct burst *b)
{
    uint64_t start = snic_world_now(b->c->world);
    for (uint32_t i = 0; i < b->depth; i++) {
        b->op[i].b = b;
        b->op[i].node = i % b->nodes;
        burst_next(b, &b->op[i]);
    }
    while (b->answered < b->count) {
        if (snic_world_now(b->c->world) - start > 600 * SECOND)
            fail_msg("%llu of %llu answered", (unsigned long long)b->answered,
                     (unsigned long long)b->count);
        cluster_run(b->c, CLUSTER_MS);
        for (uint32_t i = 0; i < b->depth; i++) { /* those that were SNIC_EAGAIN */
            if (!b->op[i].open)
                burst_next(b, &b->op[i]);
        }
    }
    return snic_world_now(b->c->world) - start;
}

/* Three nodes on links of @p bytes_per_s that serve. */
static struct cluster *burst_begin(uint32_t value_max, uint64_t bytes_per_s, uint64_t flush_ns_max)
{
    struct cluster_opts o = {.seed = support_seed(), .burst = 1, .keys_max = 4096};
    struct snic_net_link l = {.delay_min_ns = 20000, .delay_max_ns = 60000};
    o.value_max = value_max;
    o.segment_bytes = value_max > 4096 ? 4 << 20 : 1 << 20;
    o.segments = value_max > 4096 ? 24 : 40;
    o.values_bytes = 192 << 20;
    o.flush_ns_max = flush_ns_max;
    struct cluster *c = cluster_new(&o);
    l.bytes_per_s = bytes_per_s;
    for (uint32_t a = 0; a < 3; a++) {
        for (uint32_t b = 0; b < 3; b++)
            assert_int_equal(a == b ? 0 : snic_net_fabric_link(c->fabric, a, b, &l), 0);
    }
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    assert_true(cluster_settle(c, 10 * SECOND));
    return c;
}

/* No node was left out, nothing was lost or replayed: how many thousandths were sent twice. */
static uint64_t burst_judge(struct burst *b)
{
    uint64_t sent = 0, twice = 0, replays = 0, lost = 0, retransmits = 0;
    struct cluster *c = b->c;
    for (uint32_t i = 0; i < 3; i++) {
        struct snic_replica_stats s;
        struct snic_replica_peer_stats p;
        snic_replica_get_stats(c->node[i].r, &s);
        assert_int_equal(s.member.view.epoch, 1);
        assert_int_equal(s.member.view.full, 7);
        assert_int_equal(s.serves, 1);
        assert_int_equal(s.lost_sends, 0);
        assert_int_equal(s.no_room, 0);
        twice += s.ddp.counters.duplicate;
        replays += s.ddp.counters.replays;
        retransmits += s.ddp.counters.retransmits;
        for (uint32_t n = 0; n < 3; n++) {
            if (n == i)
                continue;
            assert_int_equal(snic_replica_get_peer(c->node[i].r, n, &p), 0);
            assert_int_equal(p.connects, 1);
            assert_int_equal(p.state, SNIC_REPLICA_PEER_UP);
            sent += p.sent;
            lost += p.lost;
        }
    }
    printf(
        "%llu writes, %u at once: %llu messages, %llu doubles of INV, %llu timers, %llu replays\n",
        (unsigned long long)b->count, b->depth, (unsigned long long)sent, (unsigned long long)twice,
        (unsigned long long)retransmits, (unsigned long long)replays);
    assert_int_equal(b->failed, 0);
    assert_int_equal(replays, 0);
    assert_true(lost <= 16); /* before the connections were there */
    return twice * 1000 / sent;
}

static void burst_end(struct cluster *c)
{
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(snic_replica_check(c->node[i].r), 0);
    assert_null(c->failure);
    cluster_free(c);
}

/* M1: 64 writes of 65 KB at once, on links of 1 Gbit/s. */
static void test_replica_burst_large_values(void **state)
{
    static struct burst b;
    (void)state;
    b = (struct burst){.depth = 64, .size = 65000, .nodes = 1, .keys = 64};
    b.count = support_rounds(400, 4000);
    b.c = burst_begin(65536, 125000000, 3 * CLUSTER_MS);
    uint64_t ns = burst_run(&b);
    printf("%.0f writes/s\n", (double)b.count * 1e9 / (double)ns);
    assert_true(burst_judge(&b) < 10);
    burst_end(b.c);
}

/* M3: many writes of 1 KB, from all nodes; by night as many as in the trial. */
static void test_replica_burst_many_writes(void **state)
{
    static struct burst b;
    (void)state;
    b = (struct burst){.depth = 192, .size = 1000, .nodes = 3, .keys = 2000};
    b.count = support_rounds(8000, 80000);
    b.c = burst_begin(1000, 125000000, 2 * CLUSTER_MS);
    uint64_t ns = burst_run(&b);
    printf("%.0f writes/s\n", (double)b.count * 1e9 / (double)ns);
    assert_true(burst_judge(&b) < 10);
    burst_end(b.c);
}

/* Four times as much at once as what a node needs to be busy does not make it slower. */
static void test_replica_burst_goodput_beyond_saturation(void **state)
{
    static const uint32_t depths[] = {16, 60, 240};
    double best = 0, last = 0;
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(depths); i++) {
        static struct burst b;
        b = (struct burst){.depth = depths[i], .size = 4000, .nodes = 1, .keys = 1000};
        b.count = support_rounds(1500, 20000);
        b.c = burst_begin(4096, 12500000, CLUSTER_MS);
        last = (double)b.count * 1e9 / (double)burst_run(&b);
        printf("%u at once: %.0f writes/s\n", depths[i], last);
        best = last > best ? last : best;
        assert_true(burst_judge(&b) < 10);
        burst_end(b.c);
    }
    assert_true(last >= 0.9 * best);
}

/* All logs take up to 5 s to flush: writes wait, and nothing is sent again for that. */
static void test_replica_burst_slow_flushes(void **state)
{
    static struct burst b;
    struct snic_fault f = {.kind = SNIC_FAULT_DELAY, .after = 1, .repeat = 1000000};
    (void)state;
    b = (struct burst){.depth = 64, .size = 1000, .nodes = 3, .keys = 1000};
    b.count = 300;
    b.c = burst_begin(1000, 125000000, CLUSTER_MS);
    f.delay_ns = 5 * SECOND;
    f.ops = 1u << SNIC_IO_FLUSH | 1u << SNIC_IO_WRITE;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(snic_disk_fault(b.c->node[i].disk, &f), 0);
    uint64_t ns = burst_run(&b);
    printf("%.1f s\n", (double)ns / 1e9);
    assert_true(burst_judge(&b) < 400); /* without values, and seldom */
    burst_end(b.c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_burst_large_values),
        cmocka_unit_test(test_replica_burst_many_writes),
        cmocka_unit_test(test_replica_burst_goodput_beyond_saturation),
        cmocka_unit_test(test_replica_burst_slow_flushes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
