/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_nvmet_play.h"

#include <string.h>

enum { QUEUES = 2, OPS = 12, UNKNOWN = 64 };

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
    struct block block[PLAY_BLOCKS];
    int up;
};

static struct play *p; /* that is played */
static struct host host[PLAY_HOSTS];
static uint64_t number;

static uint32_t any(uint32_t n)
{
    return (uint32_t)snic_rng_below(&p->rng, n);
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
            p->reads++;
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
    uint32_t q = any(QUEUES), i = any(OPS), block = any(PLAY_BLOCKS);
    struct op *o = &h->op[q][i];
    struct block *b = &h->block[block];
    int write = any(2) == 0;
    if (o->busy || !h->q[q].open || (write && (b->writing || b->maybes == UNKNOWN)))
        return;
    o->block = block;
    o->number = write ? ++number : 0;
    fill(o->data, o->number);
    nh_rw(&o->cmd, write ? SNIC_NVME_IO_WRITE : SNIC_NVME_IO_READ, 1, index * PLAY_BLOCKS + block,
          1, o->data, TX_BLOCK);
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
    p->kills++;
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

static void raise(struct host *h, uint32_t index)
{
    p->h[index].addr = p->addr();
    assert_int_equal(nh_admin(&h->admin, &p->h[index]), 0);
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
    p->resets++;
}

/* On another loop the Connect may be sooner than the loss of the queue's last connection. */
static void open_queue(struct host *h, uint32_t index, uint32_t q)
{
    p->h[index].addr = p->addr();
    uint32_t status = nh_io_queue(&h->q[q], &h->admin, (uint16_t)(q + 1));
    if (status == 0)
        return;
    assert_int_equal(status, SNIC_NVME_SC_SEQUENCE | SNIC_NVME_DNR);
    nh_close(&h->q[q]);
}

static void step(uint32_t index)
{
    struct host *h = &host[index];
    uint32_t what = any(100), q = any(QUEUES);
    collect(h);
    if (!h->up)
        raise(h, index);
    else if (!p->present() && any(8) == 0)
        p->change();
    else if (!h->q[q].open) {
        open_queue(h, index, q);
    } else if (what < 70)
        submit(h, index);
    else if (what < 95)
        p->pass();
    else if (what < 97)
        kill_queue(h, q);
    else if (what < 98)
        kill_host(h);
    else if (what < 99)
        (any(2) == 0 ? reset : kill_host)(h);
    else if (any(2) == 0)
        p->change();
    else if (p->present())
        assert_int_equal(nh_io(&h->q[q], SNIC_NVME_IO_FLUSH, 1, 0, 0, NULL, 0), 0);
}

void play_begin(struct play *play)
{
    p = play;
    memset(host, 0, sizeof(host));
}

void play_step(struct play *play)
{
    p = play;
    step(any(PLAY_HOSTS));
}

void play_end(struct play *play)
{
    p = play;
    for (uint32_t i = 0; i < PLAY_HOSTS; i++)
        if (host[i].up)
            kill_host(&host[i]);
}

void play_check_disk(const struct play *play, const unsigned char *disk)
{
    (void)play;
    for (uint32_t i = 0; i < PLAY_HOSTS; i++)
        for (uint32_t b = 0; b < PLAY_BLOCKS; b++)
            check_value(&host[i].block[b],
                        value_of(disk + (size_t)(i * PLAY_BLOCKS + b) * TX_BLOCK));
}

uint32_t play_any(struct play *play, uint32_t n)
{
    return (uint32_t)snic_rng_below(&play->rng, n);
}
