/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two connections on two loops, every order. One host has two I/O queues, A and B; A has a write on
 * its way when its connection is lost, the controller is reset or loses its admin queue, or the
 * namespace is removed; B then has a newer write to the same block, and a new Connect of the host
 * arrives. A step runs one of the loops until it has nothing to do, or one event of it; or lets the
 * device complete its oldest request, or the end or B's write happen. By night all orders of steps
 * are run from the beginning, for each place of A, B, the device and the admin queue; by day a
 * sample, with up to three preemptions. What must hold:
 *  - nothing of A starts at the device after its end is known to its loop or marked in the view;
 *  - when A's end is known, to its loop or in the view, B's write starts (io_start) only after all
 *    of A that had started has come back from the device; so does the Connect when the owner knows;
 *  - the handle of a removed namespace is returned when nothing is at the device, and not used
 *    afterwards;
 *  - at the end all of it has ended, and B's write was answered.
 */
#include "nvmet/nvmet_priv.h"
#include "test_nvmet_util.h"

#include <string.h>

enum end { BY_LOSS, BY_ADMIN_LOSS, BY_RESET, BY_REMOVAL, ENDS };
enum { STEPS = 200, REQUESTS = 8, CHOICES = 5, LOOPS = 2 };

static struct tx x;
static struct snic_io_ops fake;
static struct snic_io_req *at[REQUESTS]; /* the device */
static uint32_t at_count;
static struct nh_queue admin, qa, qb, other;
static struct nh_cmd write_a, write_b, connect_other, set;
static unsigned char data_a[TX_BLOCK], data_b[TX_BLOCK];
static struct snic_nvme_connect_data connect_data;
static struct nvmet_conn *a, *b, *c_admin, *c_other;
static struct nvmet_sub *sub;
static enum end how;
static uint32_t place; /* bit 0 the loop of A, 1 of B, 2 of the device, 3 of the admin queue */
static int fine;       /* preemptions that are left */
static int fine_max;
static int ended, sent_b, removed, b_started, was_connected, was_over, was_fenced;
static uint64_t started, barred, held;
static uint32_t others[STEPS]; /* later choices of each step */
static int by_chance;
static struct snic_rng rng;

static int is_a(const struct snic_io_req *r)
{
    return SNIC_CONTAINER(r, struct nvmet_cmd, u.io)->c == a;
}

/* Commands that have started: at the device, or on the way there or back. */
static int inside(const struct nvmet_conn *c)
{
    int n = 0;
    for (uint32_t i = 0; i < c->s->cmds; i++)
        n += c->cmds[i].state == NVMET_CMD_DEVICE;
    return n;
}

/* A's end is known to its own loop, or to all. */
static int a_over(void)
{
    return a->stopping || snic_nvmesub_io_ended(sub->view, &a->mark);
}

static int hold_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    (void)io;
    for (uint32_t i = 0; i < n; i++) {
        assert_false(removed);
        assert_true(at_count < REQUESTS);
        if (is_a(reqs[i])) {
            assert_false(a_over());
            started++;
        }
        at[at_count++] = reqs[i];
    }
    return (int)n;
}

static void hold_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

static void ns_removed(void *ctx, struct snic_io *io)
{
    (void)ctx;
    (void)io;
    assert_int_equal(at_count, 0);
    removed = 1;
}

/* ---- The loops ---- */

static uint32_t loop_node(uint32_t i)
{
    return tx_addr(i).node;
}

static void pause_all(int paused)
{
    for (uint32_t i = 0; i < LOOPS; i++)
        snic_world_pause(x.world, loop_node(i), paused);
    for (uint32_t i = 0; i < TX_HOSTS; i++)
        snic_world_pause(x.world, 2 + i, paused);
}

static uint64_t run_loop(uint32_t i, uint64_t events)
{
    snic_world_pause(x.world, loop_node(i), 0);
    uint64_t n = snic_world_run(x.world, snic_world_now(x.world), events);
    snic_world_pause(x.world, loop_node(i), 1);
    return n;
}

static struct nvmet_conn *conn_of(uint32_t loop, int kind, const struct nvmet_conn * not )
{
    struct snic_nvmet *s = x.all[loop];
    for (uint32_t i = 0; i < s->o.conns_max; i++)
        if (s->conns[i].used && s->conns[i].kind == kind && &s->conns[i] != not )
            return &s->conns[i];
    return NULL;
}

static uint32_t loop_of(uint32_t bit)
{
    return place >> bit & 1;
}

static void open_queue(struct nh_queue *q, uint32_t loop, uint16_t qid)
{
    x.h[0].addr = tx_addr(loop);
    assert_int_equal(qid == 0 ? nh_admin(q, &x.h[0]) : nh_io_queue(q, &admin, qid), 0);
}

static void submit_other(void)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_CONNECT};
    memset(&connect_data, 0, sizeof(connect_data));
    memcpy(connect_data.hostid, x.h[0].hostid, 16);
    snic_put_le16(&connect_data.cntlid, SNIC_NVME_CNTLID_DYNAMIC);
    memcpy(connect_data.subnqn, TX_SUBNQN, strlen(TX_SUBNQN));
    memcpy(connect_data.hostnqn, x.h[0].hostnqn, strlen(x.h[0].hostnqn));
    e.cdw11 = 31;
    snic_nvmetcp_host_inline(other.e, 8192);
    nh_prepare(&connect_other, &e, &connect_data, sizeof(connect_data));
    assert_int_equal(nh_submit(&other, &connect_other), 0);
}

static void begin(void)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS,
                              .nsid = SNIC_NVME_FABRICS_PROPERTY_SET,
                              .cdw11 = SNIC_NVME_PROP_CC,
                              .cdw12 = 0x460000};
    tx_opts(&x);
    x.loops = LOOPS;
    x.ns_loop = loop_of(2);
    x.o.conns_max = 6;
    x.o.host_conns_max = 12;
    x.o.depth_max = 32;
    x.o.data_max = 4096;
    x.o.data_bytes = 8192;
    x.o.capsule_bytes = 8192;
    x.d.size = 1 << 20;
    x.plain = 1;
    x.o.subsystems_max = 1;
    x.o.namespaces_max = 2;
    tx_open(&x);
    fake = *x.io->ops;
    fake.submit = hold_submit;
    fake.cancel = hold_cancel;
    x.io->ops = &fake;
    at_count = 0;
    ended = sent_b = removed = b_started = was_connected = was_over = was_fenced = 0;
    fine = fine_max;
    for (uint32_t i = 0; i < TX_HOSTS; i++) {
        x.h[i].after = NULL;
        x.h[i].capsule = 8192;
    }
    open_queue(&admin, loop_of(3), 0);
    c_admin = conn_of(loop_of(3), NVMET_CONN_ADMIN, NULL);
    open_queue(&qa, loop_of(0), 1);
    a = conn_of(loop_of(0), NVMET_CONN_IO, NULL);
    open_queue(&qb, loop_of(1), 2);
    b = conn_of(loop_of(1), NVMET_CONN_IO, a);
    x.h[0].addr = tx_addr(loop_of(1));
    assert_int_equal(nh_open(&other, &x.h[0]), 0);
    c_other = conn_of(loop_of(1), NVMET_CONN_NEW, NULL);
    sub = a->sub;
    tx_run(&x, TX_MS);
    snic_net_pause(b->net, 1);
    snic_net_pause(c_admin->net, 1);
    for (uint32_t i = 0; i < LOOPS; i++)
        snic_world_pause(x.world, loop_node(i), 1);
    nh_rw(&write_a, SNIC_NVME_IO_WRITE, 1, 7, 1, data_a, TX_BLOCK);
    nh_rw(&write_b, SNIC_NVME_IO_WRITE, 1, 7, 1, data_b, TX_BLOCK);
    nh_prepare(&set, &e, NULL, 0);
    assert_int_equal(nh_submit(&qa, &write_a), 0);
    assert_int_equal(nh_submit(&qb, &write_b), 0);
    assert_int_equal(nh_submit(&admin, &set), 0);
    submit_other();
    (void)snic_world_run(x.world, snic_world_now(x.world) + 10 * TX_MS, UINT64_MAX);
    pause_all(1);
}

/* ---- Steps ---- */

static void look(void)
{
    assert_int_equal(snic_nvmet_check(x.all[0]), 0);
    assert_int_equal(snic_nvmet_check(x.all[1]), 0);
    int connects = c_other->seat.kind == NVMET_CONN_ADMIN && !was_connected;
    int starts = inside(b) > 0 && !b_started;
    struct snic_nvmesub_stats s;
    if ((starts && was_over) || (connects && was_fenced)) /* before this event, so it was known */
        assert_int_equal(inside(a), 0);
    was_connected |= connects;
    b_started |= starts;
    was_over = a_over();
    snic_nvmesub_get_stats(sub->engine, &s);
    was_fenced = s.fences > 0;
}

static void step_loop(uint32_t i)
{
    while (run_loop(i, 1) > 0)
        look();
}

static void step_device(void)
{
    struct snic_io_req *r = at[0];
    memmove(at, at + 1, --at_count * sizeof(at[0]));
    r->result = (int64_t)r->length;
    r->done(r);
}

static void step_end(void)
{
    ended = 1;
    if (how == BY_LOSS)
        nvmet_conn_kill(a, SNIC_ECONNRESET, 0);
    else if (how == BY_ADMIN_LOSS)
        nvmet_conn_kill(c_admin, SNIC_ECONNRESET, 0);
    else if (how == BY_RESET)
        snic_net_pause(c_admin->net, 0);
    else
        assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 1, ns_removed, NULL), 0);
}

/* Choices that are possible now, a bit each. */
static uint32_t possible(void)
{
    uint32_t p = 0;
    for (uint32_t i = 0; i < LOOPS; i++)
        if (snic_loop_deadline(x.loop[i]) <= snic_world_now(x.world))
            p |= 1U << i | (fine > 0 ? 1U << (CHOICES + i) : 0);
    return p | (at_count > 0 ? 1U << 2 : 0) | (ended ? 0 : 1U << 3) | (sent_b ? 0 : 1U << 4);
}

static void step(uint32_t choice)
{
    switch (choice) {
    case 0:
    case 1:
        step_loop(choice);
        break;
    case 2:
        step_device();
        break;
    case 3:
        step_end();
        break;
    case 4:
        sent_b = 1;
        snic_net_pause(b->net, 0);
        break;
    default: /* one event, and then any step: a preemption */
        fine--;
        (void)run_loop(choice - CHOICES, 1);
        break;
    }
    look();
}

/* By day any of them, by night the first: explore() has the others later. */
static uint8_t choose(uint32_t p)
{
    uint32_t skip = by_chance ? (uint32_t)snic_rng_below(&rng, (uint32_t)__builtin_popcount(p)) : 0;
    while (skip-- > 0)
        p &= p - 1;
    return (uint8_t)__builtin_ctz(p);
}

/* Runs the choices in @p path, then choose() at each step. @return steps */
static int run(uint8_t path[STEPS], int fixed)
{
    int n = 0;
    begin();
    for (uint32_t p; (p = possible()) != 0; n++) {
        assert_true(n < STEPS - 1);
        if (n >= fixed)
            path[n] = choose(p);
        assert_true((p >> path[n] & 1) != 0);
        others[n] = p & ~((2U << path[n]) - 1);
        step(path[n]);
    }
    return n;
}

static void drain(void)
{
    tx_run(&x, 10 * TX_MS);
    while (at_count > 0)
        step_device();
}

/* Time passes, and everything ends. */
static void leave(void)
{
    pause_all(0);
    for (uint32_t i = 0; i < 3 || at_count > 0; i++)
        drain();
    assert_int_equal(tx_stats(&x).at_device, 0);
    held += tx_stats(&x).held;
    barred += write_a.c.error != 0 || write_a.c.status != 0;
    assert_int_equal(removed, how == BY_REMOVAL);
    assert_true(connect_other.done && connect_other.c.status == 0 && write_b.done);
    assert_true(how != BY_LOSS || (write_b.c.status == 0 && b_started));
    assert_int_equal(how == BY_REMOVAL || how == BY_LOSS, qb.net != NULL);
    nh_close(&other);
    nh_close(&qb);
    nh_close(&qa);
    nh_close(&admin);
    while (tx_stats(&x).conns > 0)
        drain();
    tx_close(&x);
}

static uint64_t explore(void)
{
    uint8_t path[STEPS] = {0};
    uint64_t orders = 0;
    for (int fixed = 0;;) {
        int n = run(path, fixed);
        leave();
        orders++;
        while (n > 0 && others[n - 1] == 0)
            n--;
        if (n == 0)
            return orders;
        path[n - 1] = (uint8_t)__builtin_ctz(others[n - 1]);
        fixed = n;
    }
}

static uint64_t sample(void)
{
    uint8_t path[STEPS] = {0};
    uint64_t rounds = support_rounds(500, 0);
    for (uint64_t i = 0; i < rounds; i++) {
        place = (uint32_t)snic_rng_below(&rng, 16);
        fine_max = (int)snic_rng_below(&rng, 4);
        (void)run(path, 0);
        leave();
    }
    return rounds;
}

static uint64_t every_order(void)
{
    uint64_t orders = 0;
    for (place = 0; place < 16; place++) {
        fine_max = place % 8 == support_turn(8); /* a night has some of them */
        uint64_t n = explore();
        print_message("places %u, %d preemptions: %lu orders\n", place, fine_max, (unsigned long)n);
        orders += n;
    }
    return orders;
}

static void explore_all(enum end end)
{
    how = end;
    started = barred = held = 0;
    by_chance = !support_nightly();
    snic_rng_init(&rng, support_seed() + end);
    uint64_t orders = by_chance ? sample() : every_order();
    print_message("%lu orders, %lu old writes started, %lu not answered, %lu writes held\n",
                  (unsigned long)orders, (unsigned long)started, (unsigned long)barred,
                  (unsigned long)held);
    assert_true(started > 0 && barred > 0);
}

static void test_nvmet_orders_loss(void **state)
{
    (void)state;
    explore_all(BY_LOSS);
}

static void test_nvmet_orders_admin_loss(void **state)
{
    (void)state;
    explore_all(BY_ADMIN_LOSS);
}

static void test_nvmet_orders_reset(void **state)
{
    (void)state;
    explore_all(BY_RESET);
}

static void test_nvmet_orders_removal(void **state)
{
    (void)state;
    explore_all(BY_REMOVAL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmet_orders_loss),
        cmocka_unit_test(test_nvmet_orders_admin_loss),
        cmocka_unit_test(test_nvmet_orders_reset),
        cmocka_unit_test(test_nvmet_orders_removal),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
