/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The front of a server: messages that its engine puts off. In simulated time. */
#include "../../../examples/server/front_out.h"
#include "../../../examples/server/front_priv.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 3, TEXT = 4096 };
#define MS UINT64_C(1000000)

struct client {
    struct snic_net *net;
    struct snic_net_conn *conn; /* NULL: gone */
    struct snic_net_send_req send;
    struct snic_iov iov;
    char got[TEXT];
    size_t size;
    size_t most; /* 0: TEXT, kept; else only counted */
};

/* A server of lines: each is answered by itself. One that begins with L is put off while `busy`. */
struct setup {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *loops[2];
    struct snic_net *nets[2];
    struct ex_server server;
    struct ex_front *front;
    struct client clients[CLIENTS];
    int busy;
    uint32_t passed; /* calls of message() */
    uint32_t order[CLIENTS];
    uint32_t taken; /* long lines */
    int drained;
};

static int64_t line_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    const unsigned char *end = memchr(data + *state, '\n', size - (size_t)*state);

    (void)ctx;
    *state = end != NULL ? 0 : size;
    return end != NULL ? end - data + 1 : 0;
}

static uint32_t line_error(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                           uint32_t max)
{
    (void)ctx, (void)error, (void)data, (void)size, (void)out, (void)max;
    return 0;
}

static uint32_t line_full(void *ctx, char *out, uint32_t max)
{
    (void)ctx, (void)out, (void)max;
    return 0;
}

static int line_message(void *ctx, uint64_t client, uint64_t seq, const unsigned char *msg,
                        size_t size)
{
    struct setup *u = ctx;
    struct snic_iov iov = {(void *)(uintptr_t)msg, size};

    u->passed++;
    if (msg[0] == 'W') /* it is answered by the test */
        return 0;
    if (msg[0] == 'L' && u->busy)
        return EX_FRONT_LATER;
    if (msg[0] == 'L')
        u->order[u->taken++] = (uint32_t)(client & 0xffff);
    ex_front_reply(u->front, client, seq, &iov, 1, 0);
    return 0;
}

static void front_drained(void *ctx)
{
    ((struct setup *)ctx)->drained = 1;
}

static void client_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct client *c = ctx;

    (void)conn;
    assert_true(c->size + buf->size <= snic_max_u64(TEXT, c->most));
    if (c->most == 0)
        memcpy(c->got + c->size, buf->data, buf->size);
    c->size += buf->size;
    snic_net_put(c->net, buf);
}

static void client_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    (void)conn, (void)reason;
    ((struct client *)ctx)->conn = NULL;
}

static void client_sent(struct snic_net_send_req *s)
{
    (void)s;
}

static void client_send(struct setup *u, uint32_t i, const char *text)
{
    struct client *c = &u->clients[i];

    c->iov = (struct snic_iov){(void *)(uintptr_t)text, strlen(text)};
    memset(&c->send, 0, sizeof(c->send));
    c->send.region = SNIC_NO_REGION;
    c->send.done = client_sent;
    c->send.iov = &c->iov;
    c->send.iov_count = 1;
    assert_int_equal(snic_net_send(c->conn, &c->send), 1);
}

static void pass(struct setup *u)
{
    (void)snic_world_run(u->world, snic_world_now(u->world) + 50 * MS, UINT64_MAX);
}

static void assert_got(const struct setup *u, uint32_t i, const char *text)
{
    assert_int_equal(u->clients[i].size, strlen(text));
    assert_memory_equal(u->clients[i].got, text, strlen(text));
}

static void front_setup(struct setup *u)
{
    static const struct snic_net_stream_events events = {.recv = client_recv,
                                                         .closed = client_closed};
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed(), .nodes_max = 2};
    struct snic_net_uring_opts net = {.opts_size = sizeof(net), .conns_max = 8};
    struct snic_net_addr to = {.family = SNIC_NET_SIM, .node = 0, .port = 80};
    struct ex_front_opts o = {.in_order = 1, .pending_max = 16, .message = line_message};
    struct snic_net_addr bound;

    memset(u, 0, sizeof(*u));
    assert_int_equal(snic_world_open(&u->world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&u->fabric, u->world, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(snic_world_loop(u->world, i, &u->loops[i]), 0);
        assert_int_equal(snic_net_sim_open(&u->nets[i], u->fabric, u->loops[i], &net), 0);
    }
    u->server.listen = "sim:0:80";
    u->server.conns_max = CLIENTS;
    o.server = &u->server;
    o.net = u->nets[0];
    o.user = (struct snic_director_user){
        .frame = line_frame, .protocol_error = line_error, .full = line_full};
    o.ctx = u;
    assert_int_equal(ex_front_open(&u->front, &o, &bound), 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        u->clients[i].net = u->nets[1];
        assert_int_equal(
            snic_net_connect(u->nets[1], &to, &events, &u->clients[i], &u->clients[i].conn), 0);
        pass(u);
    }
}

static void front_teardown(struct setup *u)
{
    ex_front_drain(u->front, front_drained, u);
    pass(u);
    assert_true(u->drained);
    for (uint32_t i = 0; i < CLIENTS; i++)
        if (u->clients[i].conn != NULL)
            snic_net_abort(u->clients[i].conn);
    pass(u);
    ex_front_close(u->front);
    for (uint32_t i = 0; i < 2; i++) {
        snic_net_shut(u->nets[i]);
        snic_loop_close(u->loops[i]);
    }
    snic_net_fabric_close(u->fabric);
    snic_world_close(u->world);
}

/** It is passed again after resume, once, in its place; the oldest of several clients first. */
static void test_ddp_front_message_put_off_comes_again(void **state)
{
    struct setup u;

    (void)state;
    front_setup(&u);
    u.busy = 1;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_send(&u, CLIENTS - 1 - i, "a\nLong\nb\n");
        pass(&u);
        assert_got(&u, CLIENTS - 1 - i, "a\n");
        assert_int_equal(u.passed, 2 * (i + 1));
    }
    ex_front_resume(u.front); /* there is no room yet */
    pass(&u);
    assert_int_equal(u.passed, 3 * CLIENTS);
    u.busy = 0;
    pass(&u);
    assert_int_equal(u.passed, 3 * CLIENTS); /* nothing is polled */
    ex_front_resume(u.front);
    ex_front_resume(u.front);
    pass(&u);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_got(&u, i, "a\nLong\nb\n");
        assert_int_equal(u.order[i], CLIENTS - 1 - i);
    }
    assert_int_equal(u.passed, 5 * CLIENTS);
    front_teardown(&u);
}

/** While one waits others are served; clients that leave, or are drained, leave nothing. */
static void test_ddp_front_put_off_beside_others(void **state)
{
    struct setup u;

    (void)state;
    front_setup(&u);
    u.busy = 1;
    client_send(&u, 0, "Long\nx\n");
    client_send(&u, 1, "Lost\n");
    pass(&u);
    client_send(&u, 2, "c\n");
    pass(&u);
    assert_got(&u, 2, "c\n");
    snic_net_abort(u.clients[1].conn);
    pass(&u);
    u.busy = 0;
    ex_front_resume(u.front);
    pass(&u);
    assert_got(&u, 0, "Long\nx\n");
    assert_int_equal(u.taken, 1);
    u.busy = 1;
    client_send(&u, 0, "Late\n");
    pass(&u);
    front_teardown(&u);
    assert_got(&u, 0, "Long\nx\n"); /* it was not begun */
}

/** Each time that a message is put off counts in its iteration: it was framed for nothing. */
static void test_ddp_front_put_off_counts_in_iteration(void **state)
{
    struct setup u;

    (void)state;
    front_setup(&u);
    u.busy = 1;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_send(&u, i, "Long\nb\n");
        pass(&u);
        assert_int_equal(u.front->turn_bytes, strlen("Long\n"));
    }
    for (uint32_t i = 0; i < 2; i++) {
        ex_front_resume(u.front);
        pass(&u);
        assert_int_equal(u.front->turn_bytes, CLIENTS * strlen("Long\n"));
    }
    assert_int_equal(u.passed, 3 * CLIENTS);
    u.busy = 0;
    ex_front_resume(u.front);
    pass(&u);
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_got(&u, i, "Long\nb\n");
    front_teardown(&u);
}

/** One whose message is put off is not idle, however long that takes; then it may be. */
static void test_ddp_front_put_off_is_not_idle(void **state)
{
    struct ex_front_stats stats;
    struct setup u;

    (void)state;
    front_setup(&u);
    u.server.timeout_s = 2;
    u.busy = 1;
    for (uint32_t i = 0; i < CLIENTS; i++)
        client_send(&u, i, i == 0 ? "Long\n" : "a\n");
    for (uint32_t i = 0; i < 100; i++)
        pass(&u);
    ex_front_get_stats(u.front, &stats);
    assert_int_equal(stats.idle_closed, CLIENTS - 1);
    u.busy = 0;
    ex_front_resume(u.front);
    pass(&u);
    assert_got(&u, 0, "Long\n");
    for (uint32_t i = 0; i < 100; i++)
        pass(&u);
    ex_front_get_stats(u.front, &stats);
    assert_int_equal(stats.idle_closed, CLIENTS);
    front_teardown(&u);
}

/** What is long is copied once at most: its turn may come with that of many others. */
static void test_ddp_front_long_answers_are_moved(void **state)
{
    enum { LONG = 40000, LINE = 5 };
    struct setup u;
    char *moved = malloc(LONG);
    char line[] = "line\n";
    struct snic_iov iov[3] = {{line, LINE}, {moved, LONG}, {line, LINE}};
    struct snic_iov none = {line, 0};

    (void)state;
    front_setup(&u);
    u.clients[0].most = LONG + 100;
    client_send(&u, 0, "a\n"); /* so there is an empty block */
    pass(&u);
    client_send(&u, 0, "W1\nW2\nW3\nW4\n");
    pass(&u);
    struct front_conn *c = &u.front->conns[0];
    memset(moved, 'g', LONG);
    ex_front_move(u.front, c->id, 2, iov, 3, 0);
    assert_null(iov[1].base);
    assert_true(iov[0].base == line && iov[2].base == line);
    ex_front_reply(u.front, c->id, 3, iov, 1, 0);
    ex_front_reply(u.front, c->id, 4, &none, 1, 0);
    pass(&u);
    assert_int_equal(u.clients[0].size, 2);
    assert_int_equal(c->slot_bytes, LONG + 3 * LINE);
    const void *first = front_out_data(c->slots[2].first);
    ex_front_reply(u.front, c->id, 1, &none, 1, 0);
    assert_int_equal(c->out.bytes, LONG + 3 * LINE);
    assert_int_equal(c->out.blocks, 5);
    assert_ptr_equal(front_out_data(front_out_next(c->out.first)), first); /* the answer itself */
    assert_int_equal(c->slot_bytes, 0);
    pass(&u);
    assert_int_equal(u.clients[0].size, 2 + LONG + 3 * LINE);
    assert_int_equal(c->next_out, 5);
    client_send(&u, 0, "a\n"); /* behind an empty one */
    pass(&u);
    assert_int_equal(u.clients[0].size, 4 + LONG + 3 * LINE);
    front_teardown(&u);
}

/** At the hard limit a client is read from again when a send has ended: that one is not lazy. */
static void test_ddp_front_at_hard_limit_no_lazy_send(void **state)
{
    const struct ex_front_limits limits = {.hard = 8};
    struct ex_front_stats stats;
    struct setup u;

    (void)state;
    front_setup(&u);
    ex_front_set_limits(u.front, &limits);
    const struct snic_net_send_req *s = &u.front->conns[0].send;
    client_send(&u, 0, "a\n");
    pass(&u);
    assert_int_equal(s->flags, SNIC_NET_SEND_LAZY);
    client_send(&u, 0, "1234567\n");
    pass(&u);
    assert_int_equal(s->flags, 0);
    client_send(&u, 0, "1234567\nb\n"); /* two sends, for the first fills it */
    pass(&u);
    assert_int_equal(s->flags, SNIC_NET_SEND_LAZY);
    assert_got(&u, 0, "a\n1234567\n1234567\nb\n");
    ex_front_get_stats(u.front, &stats);
    assert_in_range(stats.pauses, 1, 2);
    front_teardown(&u);
}

/** The blocks of short replies grow with each other, not with an answer that was moved. */
static void test_ddp_front_short_reply_behind_a_moved_one(void **state)
{
    enum { LONG = 128 << 10 };
    struct front_out o = {.bytes = 0};
    void *moved = malloc(LONG);

    (void)state;
    assert_int_equal(front_out_take(&o, moved, LONG), 0);
    assert_int_equal(front_out_append(&o, "answer\n", 7), 0);
    assert_int_equal(o.bytes, LONG + 7);
    assert_in_range(o.memory, LONG + 7, LONG + 8192);
    front_out_free(&o);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_front_message_put_off_comes_again),
        cmocka_unit_test(test_ddp_front_put_off_beside_others),
        cmocka_unit_test(test_ddp_front_put_off_counts_in_iteration),
        cmocka_unit_test(test_ddp_front_put_off_is_not_idle),
        cmocka_unit_test(test_ddp_front_long_answers_are_moved),
        cmocka_unit_test(test_ddp_front_at_hard_limit_no_lazy_send),
        cmocka_unit_test(test_ddp_front_short_reply_behind_a_moved_one),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
