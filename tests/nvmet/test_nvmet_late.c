/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages between two loops that come late, one order each (test_nvmet_orders.c has all orders of
 * other ends): the first loop, which owns the subsystem and the device, or the connection's loop
 * stands still while the other runs.
 */
#include "nvmet/nvmet_priv.h"
#include "test_nvmet_util.h"

#include <string.h>

enum { REQUESTS = 8 };

static struct tx x;
static struct snic_io_ops fake;
static const struct snic_io_ops *real;
static struct snic_io_req *at[REQUESTS]; /* at the device */
static uint32_t at_count;
static struct nh_queue admin[2], old[2], other;
static struct nh_cmd write_old[2], write_new;
static unsigned char data[1 << 16];

static int hold_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    (void)io;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(at_count < REQUESTS);
        at[at_count++] = reqs[i];
    }
    return (int)n;
}

static void hold_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

static void complete(uint32_t i)
{
    struct snic_io_req *r = at[i];
    assert_true(at_count > i);
    at_count--;
    memmove(at + i, at + i + 1, (at_count - i) * sizeof(at[0]));
    r->result = (int64_t)r->length;
    r->done(r);
}

static void begin(uint32_t qos, int hold)
{
    tx_opts(&x);
    x.loops = 2;
    x.ns_loop = 0;
    x.qos = qos;
    tx_open(&x);
    at_count = 0;
    if (!hold)
        return;
    real = x.io->ops;
    fake = *real;
    fake.submit = hold_submit;
    fake.cancel = hold_cancel;
    x.io->ops = &fake;
}

/* Only these loops run, for a millisecond. */
static void run_only(int first, int second)
{
    snic_world_pause(x.world, tx_addr(0).node, !first);
    snic_world_pause(x.world, tx_addr(1).node, !second);
    tx_run(&x, TX_MS);
}

static void open_queue(struct nh_queue *q, int host, uint32_t loop, uint16_t qid)
{
    struct nh *h = &x.h[host];
    h->addr = tx_addr(loop);
    h->capsule = 8192;
    assert_int_equal(qid == 0 ? nh_admin(q, h) : nh_io_queue(q, &admin[host], qid), 0);
}

/* The target's connection of the host's I/O queue on this loop. */
static struct nvmet_conn *conn_of(uint32_t loop, int host)
{
    struct snic_nvmet *s = x.all[loop];
    for (uint32_t i = 0; i < s->o.conns_max; i++)
        if (s->conns[i].used && s->conns[i].kind == NVMET_CONN_IO &&
            s->conns[i].tenant == snic_nvmet_tenant(x.h[host].hostnqn))
            return &s->conns[i];
    fail();
    return NULL;
}

static uint32_t conns(uint32_t loop)
{
    struct snic_nvmet_stats s;
    snic_nvmet_get_stats(x.all[loop], &s);
    return s.conns;
}

/** A fence falls while the other loop's note of an earlier one is on its way back: what that loop
 * holds for it is retried by a second note. */
static void test_nvmet_late_second_unfence(void **state)
{
    (void)state;
    begin(0, 1);
    for (int i = 0; i < 2; i++) {
        open_queue(&admin[i], i, 0, 0);
        open_queue(&old[i], i, 0, 1);
    }
    open_queue(&other, 1, 1, 2);
    for (int i = 0; i < 2; i++) {
        nh_rw(&write_old[i], SNIC_NVME_IO_WRITE, 1, 7, 1, data, TX_BLOCK);
        assert_int_equal(nh_submit(&old[i], &write_old[i]), 0);
        run_only(1, 1);
        nvmet_conn_kill(conn_of(0, i), SNIC_ECONNRESET, 0);
    }
    run_only(1, 1);
    nh_rw(&write_new, SNIC_NVME_IO_WRITE, 1, 7, 1, data, TX_BLOCK);
    assert_int_equal(nh_submit(&other, &write_new), 0);
    run_only(1, 1);
    assert_int_equal(at_count, 2);
    assert_int_equal(tx_stats(&x).held, 1);
    complete(0);            /* host 0's */
    complete(at_count - 1); /* and the flush of its end: its fence falls */
    run_only(1, 0);
    run_only(0, 1); /* host 1's write is held again */
    assert_int_equal(tx_stats(&x).held, 2);
    complete(0);
    complete(at_count - 1); /* host 1's fence falls, the note is not back yet */
    run_only(1, 1);
    assert_int_equal(at_count, 1);
    complete(0);
    assert_int_equal(nh_wait(&other, &write_new), 0);
    x.io->ops = real;
    nh_close(&other);
    for (int i = 0; i < 2; i++) {
        nh_close(&old[i]);
        nh_close(&admin[i]);
    }
    tx_close(&x);
}

/** A reset ends the controller's I/O queues on the other loop, too, at once. */
static void test_nvmet_late_reset_ends_both_loops(void **state)
{
    (void)state;
    begin(0, 0);
    open_queue(&admin[0], 0, 0, 0);
    open_queue(&old[0], 0, 0, 1);
    open_queue(&other, 0, 1, 2);
    assert_int_equal(conns(0), 2);
    assert_int_equal(nh_property_set(&admin[0], SNIC_NVME_PROP_CC, 0x460000), 0);
    for (int i = 0; i < 20; i++)
        run_only(1, 1);
    nh_pump(&old[0]);
    nh_pump(&other);
    assert_true(old[0].ended && other.ended);
    nh_close(&other);
    nh_close(&old[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

/** The place of a connection that ended is not free before the owner has answered STOPPED: what the
 * owner still sends would reach the next one there. */
static void test_nvmet_late_answer_keeps_place(void **state)
{
    (void)state;
    begin(0, 0);
    open_queue(&admin[0], 0, 0, 0);
    open_queue(&old[0], 0, 1, 1);
    assert_int_equal(conns(1), 1);
    nh_close(&old[0]);
    for (int i = 0; i < 20; i++)
        run_only(0, 1);
    assert_true(conn_of(1, 0)->over && conn_of(1, 0)->net == NULL);
    assert_int_equal(conns(1), 1);
    for (int i = 0; i < 20; i++)
        run_only(1, 1);
    assert_int_equal(conns(1), 0);
    open_queue(&old[0], 0, 1, 1);
    nh_close(&old[0]);
    nh_close(&admin[0]);
    tx_close(&x);
}

static int granted(const struct nvmet_conn *c)
{
    int n = 0;
    for (uint32_t i = 0; i < c->s->cmds; i++)
        n += c->cmds[i].state == NVMET_CMD_RESERVED && c->cmds[i].where == NVMET_AT_GRANTED;
    return n;
}

/** The switch's grant for a write is on its way when the connection ends: the switch has it back,
 * and the connection is free. */
static void test_nvmet_late_grant_returned(void **state)
{
    (void)state;
    begin(1, 0);
    open_queue(&admin[0], 0, 0, 0);
    open_queue(&old[0], 0, 1, 1);
    nh_rw(&write_old[0], SNIC_NVME_IO_WRITE, 1, 0, 16, data, sizeof(data));
    assert_int_equal(nh_submit(&old[0], &write_old[0]), 0);
    run_only(0, 1); /* asks for the reservation */
    struct nvmet_conn *c = conn_of(1, 0);
    assert_int_equal(c->active, 1);
    for (int i = 0; i < 100 && !granted(c); i++)
        run_only(1, 0);
    assert_true(granted(c));
    nvmet_conn_kill(c, SNIC_ECONNRESET, 0);
    for (int i = 0; i < 20; i++)
        run_only(1, 1);
    assert_int_equal(c->active, 0);
    nh_close(&old[0]);
    for (int i = 0; i < 20; i++)
        run_only(1, 1);
    assert_int_equal(conns(1), 0);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 1, NULL, NULL), 0);
    run_only(1, 1);
    assert_null(x.t->subs[0].devs[0].io);
    nh_close(&admin[0]);
    tx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmet_late_second_unfence),
        cmocka_unit_test(test_nvmet_late_reset_ends_both_loops),
        cmocka_unit_test(test_nvmet_late_answer_keeps_place),
        cmocka_unit_test(test_nvmet_late_grant_returned),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
