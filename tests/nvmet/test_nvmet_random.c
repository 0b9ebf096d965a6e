/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long runs of hosts that write, read, die, reset and return, on one to three loops, with a
 * namespace that is removed and comes back, against an oracle: each block has an owner,
 * who writes numbers that only grow, and at any time a block may read as its last acknowledged
 * number, or as one of the writes since then whose outcome is unknown. A write that is acknowledged
 * settles the block for ever: one of before that lands later is what fences must prevent.
 */
#include "test_nvmet_util.h"

#include <string.h>

enum { HOSTS = 3, QUEUES = 2, OPS = 12, BLOCKS = 12, UNKNOWN = 64 };

struct op {
    struct nh_cmd cmd;
    uint32_t block;
    uint64_t number; /* written; 0: a read */
    uint32_t epoch;  /* of the block, when a read began */
    int busy;
    unsigned char data[TX_BLOCK];
};

struct block {
    uint64_t acked;
    uint64_t maybe[UNKNOWN]; /* writes since then, of connections that ended */
    uint32_t maybes;
    uint32_t epoch; /* writes that began or ended: reads beside one are not checked */
    int writing;    /* by an op that is busy */
};

struct host {
    struct nh_queue admin;
    struct nh_queue q[QUEUES];
    struct op op[QUEUES][OPS];
    struct block block[BLOCKS];
    int up;
};

static struct tx x;
static struct host host[HOSTS];
static struct snic_rng rng;
static uint64_t number;
static uint32_t kills, reads_checked, removals, resets;
static enum { PRESENT, REMOVING, GONE } namespace_is;

static uint32_t any(uint32_t n)
{
    return (uint32_t)snic_rng_below(&rng, n);
}

static void fill(unsigned char *data, uint64_t value)
{
    for (uint32_t i = 0; i < TX_BLOCK; i += 8)
        snic_put_le64(data + i, value);
}

/* All of a block is of one write. */
static uint64_t value_of(const unsigned char *data)
{
    for (uint32_t i = 8; i < TX_BLOCK; i += 512)
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

static void settle(struct host *h, struct op *o, int ended)
{
    struct block *b = &h->block[o->block];
    o->busy = 0;
    if (o->number == 0) {
        if (!ended && o->cmd.c.status == 0 && o->epoch == b->epoch && !b->writing) {
            check_value(b, value_of(o->data));
            reads_checked++;
        }
        return;
    }
    b->writing = 0;
    b->epoch++;
    if (!ended && o->cmd.c.status == 0) {
        b->acked = o->number;
        b->maybes = 0;
    } else {
        assert_true(b->maybes < UNKNOWN);
        b->maybe[b->maybes++] = o->number;
    }
}

/* What is done. */
static void collect(struct host *h)
{
    for (uint32_t q = 0; q < QUEUES; q++)
        for (uint32_t i = 0; i < OPS; i++)
            if (h->op[q][i].busy && h->op[q][i].cmd.done)
                settle(h, &h->op[q][i], h->op[q][i].cmd.c.error == SNIC_ECANCELED);
}

static void submit(struct host *h, uint32_t index)
{
    uint32_t q = any(QUEUES), i = any(OPS), block = any(BLOCKS);
    struct op *o = &h->op[q][i];
    struct block *b = &h->block[block];
    int write = any(2) == 0;
    if (o->busy || !h->q[q].open || (write && (b->writing || b->maybes == UNKNOWN)))
        return;
    o->block = block;
    o->number = write ? ++number : 0;
    fill(o->data, o->number);
    nh_rw(&o->cmd, write ? SNIC_NVME_IO_WRITE : SNIC_NVME_IO_READ, 1, index * BLOCKS + block, 1,
          o->data, TX_BLOCK);
    if (nh_submit(&h->q[q], &o->cmd) != 0)
        return;
    o->busy = 1;
    b->writing |= write;
    b->epoch += (uint32_t)write;
    o->epoch = b->epoch;
}

static void kill_queue(struct host *h, uint32_t q)
{
    nh_close(&h->q[q]);
    collect(h);
    kills++;
}

static void kill_host(struct host *h)
{
    int first = any(2) == 0; /* the admin queue goes before or after the others */
    if (first)
        nh_close(&h->admin);
    for (uint32_t q = 0; q < QUEUES; q++)
        kill_queue(h, q);
    nh_close(&h->admin);
    h->up = 0;
}

/* Each connection on a loop of its own. */
static void any_loop(uint32_t index)
{
    x.h[index].addr = tx_addr(any(x.loops));
}

static void raise(struct host *h, uint32_t index)
{
    any_loop(index);
    assert_int_equal(nh_admin(&h->admin, &x.h[index]), 0);
    h->up = 1;
}

static void reset(struct host *h)
{
    uint64_t csts = SNIC_NVME_CSTS_RDY;
    assert_int_equal(nh_property_set(&h->admin, SNIC_NVME_PROP_CC, 0x460000), 0);
    for (uint32_t q = 0; q < QUEUES; q++)
        kill_queue(h, q);
    while ((csts & SNIC_NVME_CSTS_RDY) != 0)
        assert_int_equal(nh_property_get(&h->admin, SNIC_NVME_PROP_CSTS, &csts), 0);
    assert_int_equal(nh_property_set(&h->admin, SNIC_NVME_PROP_CC, SNIC_NVME_CC_EN | 0x460000), 0);
    resets++;
}

static void removed(void *ctx, struct snic_io *io)
{
    (void)ctx;
    assert_ptr_equal(io, x.io);
    namespace_is = GONE;
}

static void remove_or_add(void)
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

static void step(uint32_t index)
{
    struct host *h = &host[index];
    uint32_t what = any(100), q = any(QUEUES);
    collect(h);
    if (!h->up)
        raise(h, index);
    else if (namespace_is != PRESENT && any(8) == 0)
        remove_or_add();
    else if (!h->q[q].open) {
        any_loop(index);
        assert_int_equal(nh_io_queue(&h->q[q], &h->admin, (uint16_t)(q + 1)), 0);
    } else if (what < 70)
        submit(h, index);
    else if (what < 95)
        tx_run(&x, any(3) == 0 ? any(20000000) : any(200000));
    else if (what < 97)
        kill_queue(h, q);
    else if (what < 98)
        kill_host(h);
    else if (what < 99)
        (any(2) == 0 ? reset : kill_host)(h);
    else if (any(2) == 0)
        remove_or_add();
    else if (namespace_is == PRESENT)
        assert_int_equal(nh_io(&h->q[q], SNIC_NVME_IO_FLUSH, 1, 0, 0, NULL, 0), 0);
}

static void check_disk(void)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        for (uint32_t b = 0; b < BLOCKS; b++)
            check_value(&host[i].block[b],
                        value_of(snic_disk_bytes(x.disk) + (size_t)(i * BLOCKS + b) * TX_BLOCK));
}

static void run(uint32_t steps)
{
    memset(host, 0, sizeof(host));
    tx_opts(&x);
    x.stubborn = any(2);
    x.d.delay_max_ns = any(2) == 0 ? 200000 : 20 * TX_MS;
    x.d.depth = any(2) == 0 ? 1024 : 4;
    x.d.seed = snic_rng_next(&rng);
    x.o.data_bytes = any(2) == 0 ? 128u << 10 : 256u << 10;
    x.qos = any(3) == 0;
    x.loops = 1 + any(TX_LOOPS);
    x.ns_loop = any(x.loops);
    namespace_is = PRESENT;
    tx_open(&x);
    for (uint32_t i = 0; i < HOSTS; i++) {
        x.h[i].capsule = any(2) == 0 ? 8192 : 0;
        x.h[i].no_sq_flow = any(2);
        x.h[i].digests = any(4);
    }
    for (uint32_t i = 0; i < steps; i++)
        step(any(HOSTS));
    for (uint32_t i = 0; i < HOSTS; i++)
        if (host[i].up)
            kill_host(&host[i]);
    tx_run(&x, 1000 * TX_MS);
    assert_int_equal(tx_stats(&x).conns, 0);
    assert_int_equal(tx_stats(&x).at_device, 0);
    assert_int_equal(tx_stats(&x).violations, 0);
    check_disk();
    tx_close(&x);
}

static void test_nvmet_random_hosts_die_and_return(void **state)
{
    uint64_t rounds = support_rounds(24, 4000);
    (void)state;
    snic_rng_init(&rng, support_seed());
    kills = reads_checked = removals = resets = 0;
    for (uint64_t i = 0; i < rounds; i++)
        run(400);
    assert_true(kills > rounds && reads_checked > rounds && removals > rounds / 4 &&
                resets > rounds / 4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmet_random_hosts_die_and_return),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
