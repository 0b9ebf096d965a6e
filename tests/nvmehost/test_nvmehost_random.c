/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long runs on two paths, one of them through a node that holds what it was sent: partitions in any
 * direction, targets that die and return, nodes that freeze, ANA states that change. The oracle:
 * each block holds numbers that only grow; it reads as its last acknowledged number, or as one of
 * the writes since then whose outcome is unknown. A write that is acknowledged settles the block
 * for ever: one of before that lands later is what this test is for.
 */
#include "test_nvmehost_util.h"
#include "wire.h"

#include <string.h>

enum { OPS = 24, BLOCKS = 8, UNKNOWN = 64, SPAN = 3 };

struct op {
    struct hx_req r;
    uint32_t block;
    uint32_t blocks;
    uint64_t number; /* written; 0: a read, or a flush */
    uint64_t epoch[SPAN];
    int busy;
    int settled;
    unsigned char data[SPAN * HX_BLOCK];
};

struct block {
    uint64_t acked;
    uint64_t maybe[UNKNOWN];
    uint32_t maybes;
    uint64_t epoch; /* writes that began or ended */
    int writing;
};

static struct hx x;
static struct wire wire;
static struct op op[OPS];
static struct block block[BLOCKS];
static struct snic_rng rng;
static uint64_t number;
static struct {
    uint64_t reads, writes, unknown, failed, proofs, fenced, resent, kills;
} sum;

static uint32_t any(uint32_t n)
{
    return (uint32_t)snic_rng_below(&rng, n);
}

static uint64_t value_of(const unsigned char *data)
{
    for (uint32_t i = 8; i < HX_BLOCK; i += 512)
        assert_int_equal(snic_get_le64(data + i), snic_get_le64(data));
    return snic_get_le64(data);
}

static void check_value(const struct block *b, uint64_t value)
{
    if (value == b->acked)
        return;
    for (uint32_t i = 0; i < b->maybes; i++)
        if (b->maybe[i] == value)
            return;
    fail_msg("a block reads as %llu, which is neither %llu nor one of %u unknown ones",
             (unsigned long long)value, (unsigned long long)b->acked, b->maybes);
}

static void settle_write(struct op *o, struct block *b)
{
    b->writing = 0;
    b->epoch++;
    if (o->r.req.result > 0) {
        b->acked = o->number;
        b->maybes = 0;
    } else if (o->r.req.result == SNIC_EUNKNOWN) {
        assert_true(b->maybes < UNKNOWN);
        b->maybe[b->maybes++] = o->number;
    } /* else it was never sent */
}

static void settle(struct op *o)
{
    int64_t result = o->r.req.result;
    o->busy = 0;
    if (o->r.req.op == SNIC_IO_FLUSH)
        return;
    assert_true(result == o->blocks * HX_BLOCK || result == SNIC_EIO || result == SNIC_EUNKNOWN ||
                result == SNIC_ECANCELED);
    assert_true(result != SNIC_EUNKNOWN || o->number != 0);
    sum.failed += result < 0;
    sum.unknown += result == SNIC_EUNKNOWN;
    for (uint32_t i = 0; i < o->blocks; i++) {
        struct block *b = &block[o->block + i];
        if (o->number != 0)
            settle_write(o, b);
        else if (result > 0 && o->epoch[i] == b->epoch && !b->writing)
            check_value(b, value_of(o->data + i * HX_BLOCK));
    }
    sum.reads += o->number == 0 && result > 0;
    sum.writes += o->number != 0 && result > 0;
}

static void collect(void)
{
    for (uint32_t i = 0; i < OPS; i++)
        if (op[i].busy && op[i].r.done)
            settle(&op[i]);
}

static void submit(void)
{
    struct op *o = &op[any(OPS)];
    int write = any(2) == 0;
    if (o->busy)
        return;
    o->blocks = 1 + any(SPAN);
    o->block = any(BLOCKS - o->blocks + 1);
    for (uint32_t i = 0; i < o->blocks && write; i++)
        if (block[o->block + i].writing || block[o->block + i].maybes == UNKNOWN)
            return;
    o->busy = 1;
    o->number = write ? ++number : 0;
    for (uint32_t i = 0; i < o->blocks; i++) {
        block[o->block + i].writing |= write;
        block[o->block + i].epoch += (uint32_t)write;
        o->epoch[i] = block[o->block + i].epoch;
    }
    for (uint32_t i = 0; i < sizeof(o->data); i += 8)
        snic_put_le64(o->data + i, o->number);
    if (any(30) == 0 && !write)
        hx_start(&x, &o->r, SNIC_IO_FLUSH, 0, NULL, 0);
    else
        hx_start(&x, &o->r, write ? SNIC_IO_WRITE : SNIC_IO_READ, o->block * HX_BLOCK, o->data,
                 o->blocks * HX_BLOCK);
    if (any(50) == 0)
        snic_io_cancel(x.io, &o->r.req);
}

static void link_cut(int on)
{
    static const uint32_t ends[][2] = {{1, 2}, {2, 1}, {2, 3}, {3, 2}, {1, 3}, {3, 1}};
    uint32_t from = any(3) == 0 ? 0 : 2; /* mostly beside a path that works */
    for (uint32_t i = on ? from : 0; i < SNIC_COUNTOF(ends); i++)
        if (!on || any(3) == 0)
            snic_net_fabric_partition(x.fabric, ends[i][0], ends[i][1], on);
}

static uint64_t some_time(void)
{
    static const uint32_t ms[] = {1, 20, 300, 2000, 5000, 9000};
    return (1 + any(ms[any(SNIC_COUNTOF(ms))])) * HX_MS;
}

static void trouble(void)
{
    uint32_t node = 1 + any(3);
    switch (any(6)) {
    case 0:
        sum.kills++;
        hx_kill_target(&x);
        hx_run(&x, some_time());
        hx_start_target(&x);
        break;
    case 1:
    case 2:
        link_cut(1);
        if (any(2) == 0)
            break; /* beside requests */
        hx_run(&x, some_time());
        link_cut(0);
        break;
    case 3:
        snic_world_pause(x.world, node, 1);
        hx_run(&x, some_time());
        snic_world_pause(x.world, node, 0);
        break;
    case 4:
        link_cut(0);
        break;
    default:
        assert_int_equal(snic_nvmesub_ana_set(snic_nvmet_engine(x.t, 0), 1, any(2), 1 + any(3)), 0);
        snic_nvmet_run(x.t);
        break;
    }
}

static void step(void)
{
    uint32_t what = any(100);
    collect();
    if (what < 65)
        submit();
    else if (what < 97)
        hx_run(&x, any(20) == 0 ? any(500000000) : any(3) == 0 ? any(50000000) : any(300000));
    else
        trouble();
}

static void finish(void)
{
    link_cut(0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_nvmesub_ana_set(snic_nvmet_engine(x.t, 0), 1, i, 1), 0);
    snic_nvmet_run(x.t);
    for (uint32_t i = 0; i < OPS; i++) {
        if (op[i].busy)
            (void)hx_wait(&x, &op[i].r);
        collect();
    }
    sum.proofs += hx_stats(&x).proofs;
    sum.fenced += hx_stats(&x).fenced;
    sum.resent += hx_stats(&x).resent;
    hx_close_host(&x);
    hx_run(&x, 10 * HX_S); /* whatever is still under way lands now */
    for (uint32_t b = 0; b < BLOCKS; b++)
        check_value(&block[b], value_of(snic_disk_bytes(x.disk) + (size_t)b * HX_BLOCK));
}

static void run(uint32_t steps)
{
    memset(op, 0, sizeof(op));
    memset(block, 0, sizeof(block));
    hx_opts(&x);
    x.paths = 2;
    x.stubborn = any(2);
    x.d.delay_max_ns = any(3) == 0 ? 200000 : any(2) == 0 ? 20 * HX_MS : 2000 * HX_MS;
    x.d.seed = snic_rng_next(&rng);
    x.o.depth = OPS;
    x.o.entries = any(2) == 0 ? 4 : 16;
    x.o.queues = 1 + any(3);
    x.o.kato_ms = 300 + any(2000);
    x.o.command_max = any(2) == 0 ? 4096 : 65536;
    x.o.loss_ns = any(2) == 0 ? 4 * HX_S : SNIC_NEVER;
    x.o.digests = any(4) == 0 ? 3 : 0;
    x.o.io_ns = any(2) == 0 ? (30 + any(300)) * HX_MS : 0;
    if (any(2) == 0)
        x.o.kato_ms = 8000; /* the host gives a path up long before its target does */
    hx_open_target(&x);
    struct snic_net_addr to = x.addrs[1];
    wire_open(&wire, x.world, x.fabric, 3, 4421, &to);
    x.addrs[1].node = 3;
    hx_open_host(&x);
    assert_int_equal(snic_nvmehost_wait(x.h, 10 * HX_S), 0);
    x.io = snic_nvmehost_io(x.h);
    for (uint32_t i = 0; i < steps; i++)
        step();
    finish();
    wire_close(&wire);
    hx_close(&x);
}

static void test_nvmehost_random_no_old_write_lands(void **state)
{
    uint64_t rounds = support_rounds(8, 2000);
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < rounds; i++)
        run(600);
    print_message("%llu reads, %llu writes, %llu failed, %llu unknown, %llu proofs, %llu fenced, "
                  "%llu resent, %llu kills\n",
                  (unsigned long long)sum.reads, (unsigned long long)sum.writes,
                  (unsigned long long)sum.failed, (unsigned long long)sum.unknown,
                  (unsigned long long)sum.proofs, (unsigned long long)sum.fenced,
                  (unsigned long long)sum.resent, (unsigned long long)sum.kills);
    assert_true(sum.reads > rounds && sum.writes > rounds && sum.proofs > 0 && sum.resent > 0);
    if (rounds >= 100)
        assert_true(sum.fenced > 0 && sum.unknown > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmehost_random_no_old_write_lands),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
