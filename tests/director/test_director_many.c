/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director: several on one port, many connections, turns between them. */
#include <stdlib.h>
#include <string.h>

#include "dirseen.h"
#include "director/director_priv.h"

/* ---- Several directors on one port ---- */

enum { PARTS = 3, PART_CLIENTS = 24 };

/* A director of its own; the fixture's stands by. Its PING returns its number and the user word. */
struct part {
    struct snic_net *net;
    struct snic_director *d;
    void *mem;
    uint32_t number;
};

struct part_client {
    uint32_t part; /* whose answers it gets; PARTS: none yet */
    uint32_t pings;
};

static struct part parts[PARTS];
static struct part_client part_clients[PART_CLIENTS];

static int64_t part_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    return fix.user.frame(fix.user.ctx, data, size, state);
}

/* PING: the value is the number of the director, then how many the connection has sent. */
static void part_predicate(void *ctx, struct snic_offload *o, uint64_t *conn_user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    const struct part *p = ctx;
    fix.user.predicate(fix.user.ctx, o, conn_user, msg, size, out);
    if (out->route == SNIC_DIRECTOR_ANSWER)
        snic_put_le32((unsigned char *)out->reply + 12, p->number << 16 | (uint32_t)++ * conn_user);
}

static void part_open(struct part *p, uint32_t number, uint32_t flags, struct snic_net_addr *at)
{
    struct snic_net_uring_opts no = {
        .opts_size = sizeof(no), .conns_max = 256, .recv_buffers = 4, .pool_buffers = 256};
    struct snic_director_user u = fix.user;
    no.recv_size = 1000;
    u.ctx = p;
    u.frame = part_frame;
    u.predicate = part_predicate;
    p->number = number;
    assert_int_equal(snic_net_sim_open(&p->net, fix.fabric, fix.dpu, &no), 0);
    size_t n = snic_director_memsize(&fix.o.director);
    p->mem = support_guard_alloc(n, SNIC_DIRECTOR_ALIGN);
    assert_int_equal(snic_director_init(&p->d, p->mem, n, p->net, NULL, &u, &fix.o.director), 0);
    if (fix.o.net) {
        struct snic_net_addr host;
        assert_int_equal(snic_net_listen_addr(fix.server_listener, &host), 0);
        snic_director_upstream_net(p->d, &host);
    }
    assert_int_equal(snic_director_listen(p->d, at, flags, at), 0);
}

static void part_drained(void *ctx)
{
    *(int *)ctx = 1;
}

static void part_drain(struct part *p)
{
    int drained = 0;
    snic_director_drain(p->d, part_drained, &drained);
    snic_loop_wake(fix.dpu);
    while (!drained)
        assert_int_equal(dirfix_step(&fix), 1);
}

static void part_close(struct part *p)
{
    assert_int_equal(snic_director_check(p->d), 0);
    snic_director_fini(p->d);
    support_guard_free(p->mem);
    snic_net_shut(p->net);
}

static void part_reply(struct dirfix_client *c, const struct dirfix_msg *m,
                       const unsigned char *body)
{
    struct part_client *s = c->user;
    (void)body;
    assert_int_equal(m->op, DIRFIX_OK);
    if (m->arg != DIRFIX_BY_RULE)
        return;
    assert_int_equal(m->value & 0xffff, ++s->pings); /* no other's word */
    if (s->part == PARTS)
        s->part = m->value >> 16;
    assert_int_equal(m->value >> 16, s->part); /* and always there */
}

static void part_talk(uint32_t i, uint32_t rounds)
{
    for (uint32_t k = 0; k < rounds; k++) {
        dirfix_send(&fix.clients[i], DIRFIX_PING, 0, 0, 0, 0);
        dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, 0, 100 + i, 10);
    }
    dirfix_pump(&fix.clients[i]);
}

static void part_join(uint32_t i)
{
    dirfix_connect(&fix, i, part_reply)->user = &part_clients[i];
    part_clients[i] = (struct part_client){.part = PARTS};
}

/** Each director gets clients and keeps them, and what it knows of them is known to no other. One
 *  that is drained leaves the others' alone, which get all clients from then on. */
static void test_director_several_on_a_port_share_nothing(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 60); s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, PART_CLIENTS);
        uint32_t steer = s % 2 ? SNIC_NET_STEER_CPU(PARTS) : 0;
        uint32_t count[PARTS] = {0};
        o.net = 1;
        o.no_offload = 1;
        dirfix_open(&fix, &o);
        struct snic_net_addr at = {.family = SNIC_NET_SIM, .node = DIRFIX_DPU, .port = 200};
        for (uint32_t i = 0; i < PARTS; i++)
            part_open(&parts[i], i, SNIC_NET_REUSEPORT | steer, &at);
        fix.addr = at;
        for (uint32_t i = 0; i < PART_CLIENTS; i++) {
            part_join(i);
            part_talk(i, 10);
        }
        dirfix_finish(&fix);
        for (uint32_t i = 0; i < PART_CLIENTS; i++) {
            assert_int_equal(part_clients[i].pings, 10);
            count[part_clients[i].part]++;
            if (steer)
                assert_int_equal(part_clients[i].part, fix.clients[i].node % PARTS);
        }
        for (uint32_t i = 0; i < PARTS; i++) {
            struct snic_director_stats st;
            snic_director_get_stats(parts[i].d, &st);
            assert_true(count[i] > 0 && st.accepted == count[i] && st.conns == count[i]);
            assert_int_equal(st.messages, 20 * (uint64_t)count[i]);
        }
        part_drain(&parts[1]);
        for (uint32_t i = 0; i < PART_CLIENTS; i++) {
            assert_int_equal(fix.clients[i].eof, part_clients[i].part == 1);
            if (!fix.clients[i].eof && i % 3 == 0) /* its place will be another's */
                dirfix_disconnect(&fix.clients[i], i % 2 == 0);
            if (fix.clients[i].eof || i % 3 == 0) {
                until_closed(&fix, &fix.clients[i]);
                part_join(i);
            }
            part_talk(i, 5);
        }
        dirfix_finish(&fix);
        for (uint32_t i = 0; i < PART_CLIENTS; i++)
            assert_true(part_clients[i].part != 1 && part_clients[i].pings % 10 == 5);
        for (uint32_t i = 0; i < PART_CLIENTS; i++)
            dirfix_disconnect(&fix.clients[i], 0);
        part_drain(&parts[0]);
        part_drain(&parts[2]);
        for (uint32_t i = 0; i < PARTS; i++)
            part_close(&parts[i]);
        dirfix_close(&fix);
    }
}

/* ---- Many connections ---- */

enum { CROWD = 10000, CROWD_MESSAGES = 3 };

struct crowd_client {
    struct snic_net *net;
    struct snic_net_conn *conn;
    struct snic_net_send_req send;
    struct snic_iov iov;
    unsigned char out[CROWD_MESSAGES * DIRFIX_HEAD];
    uint32_t got;
    int closed;
};

static struct crowd_client crowd[CROWD];

static void crowd_sent(struct snic_net_send_req *r)
{
    assert_int_equal(r->result, 0);
}

static void crowd_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct crowd_client *c = ctx;
    (void)n;
    c->got += b->size;
    snic_net_put(c->net, b);
}

static void crowd_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    (void)n;
    (void)reason;
    ((struct crowd_client *)ctx)->closed = 1;
}

static void crowd_join(struct crowd_client *c, struct snic_net *net, uint32_t number)
{
    static const struct snic_net_stream_events ev = {.recv = crowd_recv, .closed = crowd_closed};
    memset(c, 0, sizeof(*c));
    c->net = net;
    for (uint32_t i = 0; i < CROWD_MESSAGES; i++) {
        struct dirfix_msg m = {.size = DIRFIX_HEAD, .op = DIRFIX_PING, .id = number};
        if (i == 1) {
            m.op = DIRFIX_ECHO;
            m.value = 50;
        }
        dirfix_encode(c->out + (size_t)i * DIRFIX_HEAD, &m);
    }
    c->iov = (struct snic_iov){c->out, sizeof(c->out)};
    c->send = (struct snic_net_send_req){
        .done = crowd_sent, .iov = &c->iov, .iov_count = 1, .region = SNIC_NO_REGION};
    assert_int_equal(snic_net_connect(net, &fix.addr, &ev, c, &c->conn), 0);
    assert_int_equal(snic_net_send(c->conn, &c->send), 1);
}

/** 10,000 clients at once: all are answered, nothing is taken beyond the memory given, and when
 *  they are quiet none of it is held. */
static void test_director_ten_thousand_clients_are_bounded(void **state)
{
    struct dirfix_opts o = options(support_seed(), 1);
    struct snic_net_uring_opts no = {
        .opts_size = sizeof(no), .conns_max = CROWD + 1, .recv_size = 512, .pool_buffers = 32768};
    struct snic_net *clients = NULL;
    (void)state;
    o.net_conns = CROWD + 1;
    o.director.conns_max = CROWD;
    o.director.pending_max = 4;
    o.director.pool_bytes = 200u << 20;
    dirfix_open(&fix, &o);
    uint64_t free_blocks = dirfix_stats(&fix).blocks_free;
    assert_int_equal(snic_net_sim_open(&clients, fix.fabric, fix.clients[0].loop, &no), 0);
    for (uint32_t i = 0; i < CROWD; i++)
        crowd_join(&crowd[i], clients, i);
    (void)snic_world_run(fix.w, snic_world_now(fix.w) + 1000000000, UINT64_MAX);
    for (uint32_t i = 0; i < CROWD; i++)
        assert_int_equal(crowd[i].got, CROWD_MESSAGES * DIRFIX_HEAD + 50);
    struct snic_director_stats st = dirfix_stats(&fix);
    assert_int_equal(st.conns, CROWD);
    assert_int_equal(st.messages, CROWD_MESSAGES * CROWD);
    assert_int_equal(st.refused + st.hog_resets, 0);
    assert_int_equal(st.blocks_free, free_blocks); /* a quiet client holds nothing */
    assert_int_equal(snic_director_check(fix.d), 0);
    struct dirfix_client *late = join(&fix, 0);
    until_closed(&fix, late);
    assert_int_equal(dirfix_stats(&fix).refused, 1);
    snic_net_shut(clients);
    (void)snic_world_run(fix.w, snic_world_now(fix.w) + 1000000000, UINT64_MAX);
    assert_int_equal(dirfix_stats(&fix).conns, 0);
    assert_int_equal(dirfix_stats(&fix).blocks_free, free_blocks);
    dirfix_close(&fix);
}

/* ---- Turns ---- */

enum { FLOODS = 3, FLOOD_MESSAGE = 100, FLOOD_ROUND = 1200, FLOOD_QUANTUM = 2048 };

/* What the predicate has seen. */
static struct {
    uint64_t floods; /* messages of the flooding clients */
    uint64_t heard;  /* floods when the director had got the quiet one's message, or NONE */
    uint64_t worst;  /* floods between that and its verdict */
} turns;

static void turns_predicate(void *ctx, struct snic_offload *o, uint64_t *conn_user,
                            const unsigned char *msg, uint32_t size,
                            struct snic_director_verdict *out)
{
    (void)ctx;
    struct dirfix_msg m;
    dirfix_decode(&m, msg);
    fix.user.predicate(fix.user.ctx, o, conn_user, msg, size, out);
    if (m.key == FLOODS) {
        turns.worst = snic_max_u64(turns.worst, turns.floods - turns.heard);
        return;
    }
    turns.floods++;
}

/* Has the director got something of client @i that it has not looked at? */
static int turns_waiting(uint32_t i)
{
    for (const struct snic_link *l = fix.d->all.next; l != &fix.d->all; l = l->next) {
        const struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->client.in_count > 0 && c->client.net->peer.node == fix.clients[i].node)
            return 1;
    }
    return 0;
}

static void turns_tick(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

/* Let a millisecond pass while the DPU is frozen: what was sent is there when it thaws. */
static void turns_pass(void)
{
    struct snic_timer t;
    uint64_t until = snic_world_now(fix.w) + 1000000;
    snic_timer_init(&t, turns_tick);
    snic_loop_arm(fix.clients[0].loop, &t, until);
    (void)snic_world_run(fix.w, until, UINT64_MAX);
}

/* The DPU is busy elsewhere while three clients flood it and then a fourth asks for one thing:
 * how much of the flood goes first? */
static uint64_t turns_round(uint32_t quantum, uint64_t seed)
{
    struct dirfix_opts o = options(seed, FLOODS + 1);
    o.net_recv_size = 16000;
    o.director.quantum = quantum;
    dirfix_open(&fix, &o);
    memset(&turns, 0, sizeof(turns));
    fix.d->user.predicate = turns_predicate;
    for (uint32_t i = 0; i <= FLOODS; i++)
        join(&fix, i)->max_piece = 100000;
    dirfix_run(&fix, 1000000);
    for (uint32_t round = 0; round < 10; round++) {
        snic_world_pause(fix.w, DIRFIX_DPU, 1);
        for (uint16_t i = 0; i < FLOODS; i++) {
            for (uint32_t k = 0; k < FLOOD_ROUND; k++)
                dirfix_send(&fix.clients[i], DIRFIX_PING, 0, i, 0, FLOOD_MESSAGE - DIRFIX_HEAD);
            dirfix_pump(&fix.clients[i]);
        }
        turns_pass();
        dirfix_send(&fix.clients[FLOODS], DIRFIX_PING, 0, FLOODS, 0, 0);
        dirfix_pump(&fix.clients[FLOODS]);
        turns_pass();
        snic_world_pause(fix.w, DIRFIX_DPU, 0);
        uint32_t ok = seen[FLOODS].ok;
        turns.heard = UINT64_MAX;
        while (seen[FLOODS].ok == ok) {
            if (turns.heard == UINT64_MAX && turns_waiting(FLOODS))
                turns.heard = turns.floods;
            assert_int_equal(dirfix_step(&fix), 1);
        }
        dirfix_finish(&fix);
    }
    for (uint32_t i = 0; i <= FLOODS; i++)
        assert_int_equal(seen[i].ok, i == FLOODS ? 10 : 10 * FLOOD_ROUND);
    dirfix_close(&fix);
    return turns.worst;
}

/** A quiet client waits for one service slot of each other client, however much they send; with
 *  unbounded slots it is all that they have sent. */
static void test_director_flood_delays_others_by_turns_only(void **state)
{
    (void)state;
    uint32_t cost = FLOOD_MESSAGE + SNIC_DIRECTOR__MESSAGE_COST;
    uint64_t turn = FLOOD_QUANTUM / cost + 1; /* the last may overdraw */
    for (uint64_t s = 0; s < support_scale(3, 50); s++) {
        uint64_t with = turns_round(FLOOD_QUANTUM, support_seed() * 100 + s);
        assert_in_range(with, 1, FLOODS * turn);
        uint64_t without = turns_round(1u << 24, support_seed() * 100 + s);
        assert_true(without > 10 * FLOODS * turn);
    }
}

/* ---- What host and engine work on ---- */

enum { FLIGHT_FLOODS = 6, FLIGHT_DEPTH = 300, FLIGHT_BYTES = 65536, FLIGHT_QUANTUM = 4096 };
enum { FLIGHT_WAY_HOST, FLIGHT_WAY_NET, FLIGHT_WAY_ENGINE, FLIGHT_WAYS };

/* Messages that the host or the engine has. */
static uint32_t flight_count(void)
{
    uint32_t n = 0;
    for (const struct snic_link *l = fix.d->all.next; l != &fix.d->all; l = l->next) {
        const struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        for (const struct snic_link *k = c->slots.next; k != &c->slots; k = k->next) {
            const struct director_slot *s = SNIC_CONTAINER(k, struct director_slot, link);
            n += s->state == DIRECTOR_SLOT_HOST || s->state == DIRECTOR_SLOT_OFFLOAD;
        }
    }
    return n;
}

static uint64_t flight_answered(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < FLIGHT_FLOODS; i++)
        n += seen[i].ok;
    return n;
}

static void flight_request(uint32_t i, int way)
{
    if (way == FLIGHT_WAY_ENGINE)
        dirfix_send(&fix.clients[i], DIRFIX_GET, 0, 1, 0, 0);
    else
        dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, 0, 2501, 0);
}

/* Clients with deep pipelines of large requests beside one that sends one after the other:
 * @return how many messages the host and the engine had at once. */
static uint32_t flight_round(uint64_t seed, int way, uint32_t bytes)
{
    struct dirfix_opts o = options(seed, FLIGHT_FLOODS + 1);
    uint32_t most = 0;
    o.net = way == FLIGHT_WAY_NET;
    o.contexts = 1024;
    o.net_recv_size = 16000;
    o.ring_bytes = 1u << 20;
    o.director.flight_bytes = bytes;
    o.director.quantum = FLIGHT_QUANTUM;
    o.director.pool_bytes = 64u << 20;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i <= FLIGHT_FLOODS; i++)
        join(&fix, i)->max_piece = 100000;
    dirfix_run(&fix, 1000000);
    if (way == FLIGHT_WAY_ENGINE)
        put_keys(&fix, &fix.clients[0], 2);
    uint64_t from = flight_answered();
    for (uint32_t i = 0; i < FLIGHT_FLOODS; i++) {
        for (uint32_t k = 0; k < FLIGHT_DEPTH; k++)
            flight_request(i, way);
        dirfix_pump(&fix.clients[i]);
    }
    while (flight_answered() < from + 10 * FLIGHT_FLOODS) /* their replies are known */
        assert_int_equal(dirfix_step(&fix), 1);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t ok = seen[FLIGHT_FLOODS].ok;
        flight_request(FLIGHT_FLOODS, way);
        dirfix_pump(&fix.clients[FLIGHT_FLOODS]);
        while (seen[FLIGHT_FLOODS].ok == ok) {
            most = (uint32_t)snic_max_u64(most, flight_count());
            assert_int_equal(dirfix_step(&fix), 1);
        }
    }
    dirfix_finish(&fix);
    dirfix_close(&fix);
    return most;
}

/** However many large requests some clients have sent, the host and the offload engine work on no
 *  more than flight_bytes of them at once: what another asks for is not behind all of them. */
static void test_director_large_requests_share_what_is_worked_on(void **state)
{
    uint32_t cost = DIRFIX_HEAD + SNIC_DIRECTOR__MESSAGE_COST + DIRFIX_HEAD + 2501;
    uint32_t bound = FLIGHT_BYTES / cost + FLIGHT_FLOODS + 1; /* each may overdraw by one */
    (void)state;
    for (int way = 0; way < FLIGHT_WAYS; way++) {
        uint32_t with = flight_round(support_seed(), way, FLIGHT_BYTES);
        uint32_t without = flight_round(support_seed(), way, 1u << 30);
        assert_in_range(with, FLIGHT_FLOODS, bound);
        assert_true(without > 3 * bound);
    }
}

/* ---- What the host has not taken ---- */

enum { PIPES = 20, PIPE_DEPTH = 64, PIPE_ROUNDS = 10 };

static void pipes_send(void)
{
    for (uint16_t i = 0; i < PIPES; i++) {
        for (uint32_t k = 0; k < PIPE_DEPTH; k++)
            dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, i, 10, 0);
        dirfix_pump(&fix.clients[i]);
    }
}

static void quiet_sends(void)
{
    dirfix_send(&fix.clients[PIPES], DIRFIX_ECHO, 0, PIPES, 10, 0);
    dirfix_pump(&fix.clients[PIPES]);
}

/* Runs the world for @ns. */
static void pipes_pass(uint64_t ns)
{
    struct snic_timer t;
    uint64_t until = snic_world_now(fix.w) + ns;
    snic_timer_init(&t, turns_tick);
    snic_loop_arm(fix.clients[0].loop, &t, until);
    (void)snic_world_run(fix.w, until, UINT64_MAX);
}

/* The number of the quiet client's message, which was the last to connect, among those sent to the
   host. */
static uint64_t pipes_number(void)
{
    for (const struct snic_link *l = fix.d->all.next; l != &fix.d->all; l = l->next) {
        const struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->id != fix.d->serial)
            continue;
        assert_int_equal(c->pending, 1);
        return SNIC_CONTAINER(c->slots.next, struct director_slot, link)->pushed;
    }
    fail_msg("it is not connected");
    return 0;
}

static void pipes_open(uint64_t seed)
{
    struct dirfix_opts o = options(seed, PIPES + 1);
    o.net_recv_size = 16000;
    o.no_offload = 1;
    o.director.pending_max = 1024;
    o.director.conn_bytes = 1u << 20;
    o.director.pool_bytes = 64u << 20;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i < PIPES; i++)
        join(&fix, i)->max_piece = 100000;
    for (uint32_t round = 0; round < 5; round++) { /* windows grow */
        pipes_send();
        dirfix_finish(&fix);
    }
    uint64_t waits = dirfix_stats(&fix).backlog_waits; /* before it was known which sends much */
    uint64_t end = snic_world_now(fix.w) + 2 * SNIC_DIRECTOR__LIGHT_NS;
    while (snic_world_now(fix.w) < end) {
        pipes_send();
        dirfix_finish(&fix);
    }
    assert_int_equal(dirfix_stats(&fix).backlog_waits, waits); /* none sends little */
    (void)join(&fix, PIPES);
    dirfix_run(&fix, 1000000);
}

/** While the host is stopped, many clients send long pipelines, then a light client one message: a
 *  bounded number of messages is queued before it, not all that the others have sent. */
static void test_director_busy_host_many_pipelines_delay_others_boundedly(void **state)
{
    uint64_t most = SNIC_DIRECTOR__BACKLOG + PIPE_DEPTH + PIPES * SNIC_DIRECTOR__BACKLOG_OWN;
    (void)state;
    for (uint64_t s = 0; s < support_scale(3, 30); s++) {
        pipes_open(support_seed() * 100 + s);
        for (uint32_t round = 0; round < PIPE_ROUNDS; round++) {
            uint32_t ok = seen[PIPES].ok;
            quiet_sends();
            dirfix_finish(&fix);
            uint64_t before = fix.d->pushed;
            snic_world_pause(fix.w, DIRFIX_HOST, 1);
            pipes_send();
            pipes_pass(SNIC_DIRECTOR__BACKLOG_NS / 2);
            quiet_sends();
            pipes_pass(SNIC_DIRECTOR__BACKLOG_NS / 4);
            assert_in_range(pipes_number() - before, SNIC_DIRECTOR__BACKLOG, most + 1);
            snic_world_pause(fix.w, DIRFIX_HOST, 0);
            dirfix_finish(&fix);
            assert_int_equal(seen[PIPES].ok, ok + 2);
        }
        assert_true(dirfix_stats(&fix).backlog_waits > 0);
        dirfix_close(&fix);
    }
}

/** A host that takes all messages and answers late is sent more with time. */
static void test_director_host_answers_late_is_sent_more(void **state)
{
    uint64_t before;
    (void)state;
    pipes_open(support_seed());
    quiet_sends();
    dirfix_finish(&fix);
    before = fix.d->pushed;
    for (uint16_t i = 0; i < PIPES; i++) {
        for (uint32_t k = 0; k < PIPE_DEPTH; k++)
            dirfix_send(&fix.clients[i], DIRFIX_HOLD, 0, i, 1000000, 0);
        dirfix_pump(&fix.clients[i]);
    }
    pipes_pass(SNIC_DIRECTOR__BACKLOG_NS / 2);
    assert_in_range(fix.d->pushed - before, SNIC_DIRECTOR__BACKLOG, PIPES * PIPE_DEPTH / 3);
    pipes_pass(UINT64_C(4) * SNIC_DIRECTOR__BACKLOG_NS);
    assert_true(fix.d->pushed - before >= 4 * SNIC_DIRECTOR__BACKLOG);
    pipes_pass(SNIC_DIRECTOR__LIGHT_NS);
    assert_int_equal(fix.d->pushed - before, PIPES * PIPE_DEPTH);
    dirfix_finish(&fix);
    dirfix_close(&fix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_several_on_a_port_share_nothing),
        cmocka_unit_test(test_director_ten_thousand_clients_are_bounded),
        cmocka_unit_test(test_director_flood_delays_others_by_turns_only),
        cmocka_unit_test(test_director_large_requests_share_what_is_worked_on),
        cmocka_unit_test(test_director_busy_host_many_pipelines_delay_others_boundedly),
        cmocka_unit_test(test_director_host_answers_late_is_sent_more),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
