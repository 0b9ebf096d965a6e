/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages between threads, every order. One host has two controllers, A and B, each with one I/O
 * queue on a thread of its own; the owner is a third thread. A has a write on its way to the device
 * when its connection is lost, its KATO runs out, it is reset or its namespace is removed; B has a
 * newer write, and a new Connect of the host arrives. Every interleaving of the threads' steps and
 * of the messages between them is run from the beginning. What must hold: nothing of A starts after
 * its end is known to its thread or to the owner; B's write starts and the Connect is served only
 * when nothing of A is at the device; the removal ends when nothing is.
 */
#include "test_nvmesub_util.h"

enum end { BY_LOSS, BY_KATO, BY_RESET, BY_REMOVAL, ENDS };
enum { STEPS = 40, MESSAGES = 16 };

static struct nx x;

enum message_kind { M_LOST, M_STOPPED, M_CONNECT, M_QUIESCED, M_END, M_QUIESCE };
struct message {
    enum message_kind kind;
    uint32_t conn;
    uint64_t sequence;
};
struct ring {
    struct message m[MESSAGES];
    int head, tail;
};

static struct ring to_owner[2], to_a; /* from A's thread, from B's; to A's thread              */
static struct nx_ctrl a, b;
static uint32_t qa, qb;
static struct snic_nvmesub_op op_a, op_b;
static int a_state; /* of its write: 0 not checked, 1 checked, 2 at the device, 3 ended         */
static int b_state;
static int a_lost, a_quiet, a_stopped, ended, connected, sent_connect, removed, admin_stopped;
static enum end how;
static struct nx_cmd *connect_cmd;
static uint64_t served, held_b;

static void put(struct ring *r, enum message_kind kind, uint32_t conn, uint64_t sequence)
{
    assert_true(r->tail < MESSAGES);
    r->m[r->tail++] = (struct message){kind, conn, sequence};
}

/* The owner's actions become messages; the admin queue of A and what is new are the owner's own. */
static void owner_poll(void)
{
    struct snic_nvmesub_action act;
    while (snic_nvmesub_poll(x.s, &act)) {
        if (act.kind == SNIC_NVMESUB_END && act.conn == qa) {
            put(&to_a, M_END, qa, 0);
        } else if (act.kind == SNIC_NVMESUB_END) {
            snic_nvmesub_stopped(x.s, act.conn, x.now);
            admin_stopped = 1;
        } else if (act.kind == SNIC_NVMESUB_QUIESCE) {
            put(&to_a, M_QUIESCE, 0, act.sequence);
        } else if (act.kind == SNIC_NVMESUB_COMPLETE && connect_cmd != NULL &&
                   act.cmd == &connect_cmd->c) {
            assert_int_equal(act.cmd->cqe.status, 0);
            if (ended && how != BY_REMOVAL)
                assert_int_not_equal(a_state, 2);
            connected = 1;
            served++;
        }
        assert_int_equal(snic_nvmesub_check(x.s), 0);
    }
}

static void begin(void)
{
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    a = nx_admin(&x, 1, 0, 1000);
    b = nx_admin(&x, 1, 0, 0);
    qa = nx_queue(&x, &a, 1);
    qb = nx_queue(&x, &b, 1);
    memset(to_owner, 0, sizeof(to_owner));
    memset(&to_a, 0, sizeof(to_a));
    a_state = b_state = a_lost = a_quiet = a_stopped = ended = connected = 0;
    sent_connect = removed = admin_stopped = 0;
    connect_cmd = NULL;
    assert_int_equal(nx_io(&x, qa, SNIC_NVME_IO_WRITE, 1, 5, &op_a), SNIC_NVMESUB_IO_RUN);
    a_state = 1;
    x.now += UINT64_C(1000000000);
    snic_nvmesub_tick(x.s, x.now); /* what was seen is forgotten */
}

/* ---- The steps that a thread may take: 1 it was possible ---- */

static int step_a_start(void)
{
    struct snic_nvme_cqe cqe;
    if (a_state != 1)
        return 0;
    int r = snic_nvmesub_io_start(x.v, &x.conn[qa].q, &op_a, &cqe);
    int gone = a_lost || ended;
    int refused = how == BY_REMOVAL ? SNIC_NVMESUB_IO_STATUS : SNIC_NVMESUB_IO_DROP;
    assert_int_equal(r, gone ? refused : SNIC_NVMESUB_IO_RUN);
    a_state = r == SNIC_NVMESUB_IO_RUN ? 2 : 3;
    return 1;
}

static int step_a_done(void)
{
    struct snic_nvme_cqe cqe;
    if (a_state != 2)
        return 0;
    a_state = 3;
    snic_nvmesub_io_done(x.v, &x.conn[qa].q, op_a.cid, 0, 0, &cqe);
    return 1;
}

static int step_a_loses(void)
{
    if (how != BY_LOSS || a_lost)
        return 0;
    a_lost = 1;
    snic_nvmesub_io_lost(x.v, &x.conn[qa].q);
    put(&to_owner[0], M_LOST, qa, 0);
    return 1;
}

static int step_a_receives(void)
{
    if (to_a.head == to_a.tail)
        return 0;
    struct message *m = &to_a.m[to_a.head++];
    if (m->kind == M_END && !a_lost) {
        a_lost = 1;
        snic_nvmesub_io_lost(x.v, &x.conn[qa].q);
    } else if (m->kind == M_QUIESCE) {
        a_quiet = (int)m->sequence;
    }
    return 1;
}

static int step_a_answers(void)
{
    if (a_lost && !a_stopped && a_state != 2) {
        a_stopped = 1;
        a_state = 3; /* what was queued is dropped */
        put(&to_owner[0], M_STOPPED, qa, 0);
        return 1;
    }
    if (a_quiet != 0 && a_state != 2) {
        put(&to_owner[0], M_QUIESCED, 0, (uint64_t)a_quiet);
        a_quiet = 0;
        return 1;
    }
    return 0;
}

static int step_b(void)
{
    struct snic_nvme_cqe cqe;
    if (b_state == 0) {
        uint32_t r = nx_io(&x, qb, SNIC_NVME_IO_WRITE, 1, 5, &op_b);
        held_b += r == SNIC_NVMESUB_IO_HOLD;
        b_state = r == SNIC_NVMESUB_IO_RUN ? 1 : r == SNIC_NVMESUB_IO_HOLD ? 0 : 3;
        return r != SNIC_NVMESUB_IO_HOLD;
    }
    if (b_state != 1)
        return 0;
    int r = snic_nvmesub_io_start(x.v, &x.conn[qb].q, &op_b, &cqe);
    if (r == SNIC_NVMESUB_IO_HOLD)
        return 0;
    if (r == SNIC_NVMESUB_IO_RUN) {
        if ((a_lost || ended) && how != BY_REMOVAL)
            assert_int_not_equal(a_state, 2); /* it would land on the newer one */
        snic_nvmesub_io_done(x.v, &x.conn[qb].q, op_b.cid, 0, 0, &cqe);
    }
    b_state = 3;
    return 1;
}

static int step_connects(void)
{
    if (sent_connect)
        return 0;
    sent_connect = 1;
    put(&to_owner[1], M_CONNECT, 0, 0);
    return 1;
}

static int step_owner_ends(void)
{
    if (how == BY_LOSS || ended)
        return 0;
    ended = 1;
    if (how == BY_KATO) {
        x.now = snic_nvmesub_deadline_ns(x.s);
        snic_nvmesub_tick(x.s, x.now);
    } else if (how == BY_REMOVAL) {
        assert_int_equal(snic_nvmesub_ns_remove(x.s, 1), 0);
    } else {
        struct snic_nvme_sqe e;
        nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_PROPERTY_SET, 0);
        e.cdw11 = SNIC_NVME_PROP_CC;
        assert_non_null(nx_send(&x, a.conn, &e, NULL));
    }
    owner_poll();
    return 1;
}

static int owner_receives(struct ring *r)
{
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    if (r->head == r->tail)
        return 0;
    struct message *m = &r->m[r->head++];
    if (m->kind == M_LOST) {
        ended = 1;
        snic_nvmesub_lost(x.s, m->conn, x.now);
    } else if (m->kind == M_STOPPED) {
        snic_nvmesub_stopped(x.s, m->conn, x.now);
    } else if (m->kind == M_QUIESCED) {
        assert_int_not_equal(a_state, 2);
        snic_nvmesub_quiesced(x.s, 1, m->sequence);
        removed = 1;
    } else {
        nx_connect_data(&d, 1, SNIC_NVME_CNTLID_DYNAMIC);
        nx_connect_sqe(&e, 0, 32, 0);
        connect_cmd = nx_send(&x, nx_conn(&x, 0), &e, &d);
    }
    owner_poll();
    return 1;
}

static int step_owner_from_a(void)
{
    return owner_receives(&to_owner[0]);
}

static int step_owner_from_b(void)
{
    return owner_receives(&to_owner[1]);
}

static int (*const steps[])(void) = {
    step_a_start, step_a_done,   step_a_loses,    step_a_receives,   step_a_answers,
    step_b,       step_connects, step_owner_ends, step_owner_from_a, step_owner_from_b,
};

/* Runs the choices in @p path, then the first possible step each time; the number of steps. Of each
   step the place of the choice is noted: the next path is the one after it in order. */
static int run(uint8_t path[STEPS], int fixed)
{
    int n = 0;
    begin();
    for (;; n++) {
        uint32_t first = n < fixed ? path[n] : 0, i = first;
        assert_true(n < STEPS);
        for (; i < SNIC_COUNTOF(steps); i++)
            if (steps[i]())
                break;
        if (i == SNIC_COUNTOF(steps)) {
            if (n < fixed)
                return -1 - n; /* no further choice there */
            break;
        }
        path[n] = (uint8_t)i;
    }
    return n;
}

static void finish(void)
{
    assert_int_equal(b_state, 3);
    assert_int_equal(a_state, 3);
    assert_true(connected);
    assert_int_equal(removed, how == BY_REMOVAL);
    assert_int_equal(a_stopped, how != BY_REMOVAL);
    assert_int_equal(admin_stopped, how == BY_KATO);
}

static void leave(void)
{
    for (int i = 0; i < NX_CMDS; i++)
        x.cmd[i].busy = 0;
    support_guard_free(x.mem);
}

static void explore(enum end end)
{
    uint8_t path[STEPS] = {0};
    uint64_t orders = 0;
    int fixed = 0;
    how = end;
    served = held_b = 0;
    for (;;) {
        int n = run(path, fixed);
        if (n >= 0) {
            finish();
            orders++;
            fixed = n;
        } else {
            fixed = -1 - n; /* this place has no later choice: the one before it */
        }
        leave();
        if (fixed == 0)
            break;
        path[fixed - 1]++;
    }
    print_message("end %d: %lu orders, %lu writes held\n", (int)end, (unsigned long)orders,
                  (unsigned long)held_b);
    assert_true(orders > 1000 && served >= orders);
    assert_int_equal(held_b > 0, end != BY_REMOVAL);
}

static void test_nvmesub_orders_loss(void **state)
{
    (void)state;
    explore(BY_LOSS);
}

static void test_nvmesub_orders_kato(void **state)
{
    (void)state;
    explore(BY_KATO);
}

static void test_nvmesub_orders_reset(void **state)
{
    (void)state;
    explore(BY_RESET);
}

static void test_nvmesub_orders_removal(void **state)
{
    (void)state;
    explore(BY_REMOVAL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmesub_orders_loss),
        cmocka_unit_test(test_nvmesub_orders_kato),
        cmocka_unit_test(test_nvmesub_orders_reset),
        cmocka_unit_test(test_nvmesub_orders_removal),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
