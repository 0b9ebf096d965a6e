/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Conformance of the network door: datagrams and trains of them.
 */
#include "conformance_net.h"

#include <stdlib.h>

#define CONF_TRAINS 16

struct conf_sock {
    struct conf_env *env;
    struct snic_net_dgram *d;
    struct snic_net_addr addr;
    struct snic_net_addr from; /* the last sender's */
    uint32_t messages;
    uint64_t bytes;
    uint32_t by_size[3]; /* as expected[] */
    uint32_t expected[3];
    uint32_t ecn[4];
    uint32_t dones;
    uint32_t in_flight;
    uint32_t writables;
    uint32_t unreachable;
    int error;
    int32_t last_result;
    int closed;
};

struct conf_train {
    struct snic_net_train t;
    struct conf_sock *s;
    struct snic_iov iov[3];
    int busy;
};

static void conf_train_done(struct snic_net_train *t)
{
    struct conf_train *c = SNIC_CONTAINER(t, struct conf_train, t);
    if (c->s->env->inside != 0)
        c->s->env->bad = "a train was done inside a call";
    if (!c->busy)
        c->s->env->bad = "a train was done twice";
    c->busy = 0;
    c->s->in_flight--;
    c->s->dones++;
    c->s->last_result = t->result;
}

/* Each datagram counts its own bytes, from its size on. */
static void conf_dgram_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                            uint32_t count)
{
    struct conf_sock *s = ctx;
    if (s->env->inside != 0 || s->closed || d != s->d || count == 0)
        s->env->bad = "a datagram out of place";
    for (uint32_t i = 0; i < count; i++) {
        int known = 0;
        for (uint32_t k = 0; k < 3; k++) {
            known |= s->expected[k] == msgs[i].size;
            s->by_size[k] += s->expected[k] == msgs[i].size;
        }
        for (uint32_t k = 0; k < msgs[i].size; k++) {
            if (msgs[i].data[k] != (unsigned char)(k * 7))
                s->env->bad = "a damaged datagram";
        }
        if (!known)
            s->env->bad = "a datagram of a strange size";
        if (msgs[i].time_ns == 0 || msgs[i].ecn > 3)
            s->env->bad = "a datagram with strange news";
        s->ecn[msgs[i].ecn & 3]++;
        s->messages++;
        s->bytes += msgs[i].size;
        s->from = msgs[i].peer;
    }
}

static void conf_dgram_writable(void *ctx, struct snic_net_dgram *d)
{
    struct conf_sock *s = ctx;
    if (s->env->inside != 0 || d != s->d)
        s->env->bad = "writable out of place";
    s->writables++;
}

static void conf_dgram_unreachable(void *ctx, struct snic_net_dgram *d,
                                   const struct snic_net_addr *peer, int error)
{
    struct conf_sock *s = ctx;
    if (s->env->inside != 0 || d != s->d || s->closed || error >= 0)
        s->env->bad = "unreachable out of place";
    s->unreachable++;
    s->error = error;
    s->from = *peer;
}

static const struct snic_net_dgram_events conf_dgram_events = {.recv = conf_dgram_recv,
                                                               .writable = conf_dgram_writable,
                                                               .unreachable =
                                                                   conf_dgram_unreachable};

static void conf_sock_open(struct conf_sock *s, struct conf_env *e, struct snic_net *n,
                           uint32_t node)
{
    struct snic_net_addr a = e->listen_addr;
    int r = 0;
    memset(s, 0, sizeof(*s));
    s->env = e;
    a.node = a.family == SNIC_NET_SIM ? node : 0;
    CONF_CALL(e, r = snic_net_dgram_open(n, &a, &conf_dgram_events, s, &s->d));
    assert_int_equal(r, 0);
    assert_int_equal(snic_net_dgram_addr(s->d, &s->addr), 0);
    assert_int_not_equal(s->addr.port, 0);
}

static int conf_train_send(struct conf_train *c, struct conf_sock *s,
                           const struct snic_net_addr *to, const unsigned char *bytes,
                           uint32_t size, uint32_t segment, uint32_t ecn)
{
    int r = 0;
    memset(c, 0x5a, sizeof(*c));
    c->s = s;
    c->iov[0].base = (void *)(uintptr_t)bytes;
    c->iov[0].size = size / 3;
    c->iov[1].base = NULL;
    c->iov[1].size = 0;
    c->iov[2].base = (void *)(uintptr_t)(bytes + size / 3);
    c->iov[2].size = size - size / 3;
    c->t.done = conf_train_done;
    c->t.peer = *to;
    c->t.iov = c->iov;
    c->t.iov_count = 3;
    c->t.segment = segment;
    c->t.ecn = ecn;
    c->busy = 1;
    CONF_CALL(s->env, r = snic_net_dgram_send(s->d, &c->t));
    c->busy = r == 1;
    s->in_flight += r == 1;
    return r;
}

/* @count segments; each counts from 0 on, so that any cut shows. */
static unsigned char *conf_train_bytes(uint32_t size, uint32_t segment)
{
    unsigned char *bytes = malloc(size);
    assert_non_null(bytes);
    for (uint32_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i % segment * 7);
    return bytes;
}

struct conf_socks {
    struct conf_env e;
    struct conf_sock a;
    struct conf_sock b;
    struct conf_train trains[CONF_TRAINS];
    uint32_t want;
};

static struct conf_socks *conf_socks_open(void **state)
{
    struct conf_socks *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    conf_env_open(&s->e, state, NULL, NULL);
    conf_sock_open(&s->a, &s->e, s->e.server, 1);
    conf_sock_open(&s->b, &s->e, s->e.client, 2);
    return s;
}

static int conf_b_has_all(void *ctx)
{
    struct conf_socks *s = ctx;
    return s->b.messages >= s->want && s->a.in_flight == 0;
}

static int conf_a_idle(void *ctx)
{
    struct conf_socks *s = ctx;
    return s->a.in_flight == 0;
}

/* Single datagrams would be cut, merged or come from a wrong address. */
void conf_test_dgram_single_sizes_arrive(void **state)
{
    static const uint32_t sizes[] = {1, 1400, 9000};
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(9000, 9000);
    for (uint32_t i = 0; i < 3; i++) {
        s->b.expected[i] = sizes[i];
        s->want = i + 1;
        assert_int_equal(
            conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, sizes[i], 9000, 0), 1);
        conf_until(&s->e, conf_b_has_all, s);
        assert_int_equal(s->a.last_result, 1);
        assert_memory_equal(&s->b.from, &s->a.addr, sizeof(s->a.addr));
    }
    assert_int_equal(s->b.messages, 3);
    assert_int_equal(s->b.bytes, 1 + 1400 + 9000);
    assert_int_equal(s->e.server->stats.dgrams_out, 3);
    assert_int_equal(s->e.client->stats.dgrams_in, 3);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* A train would not be split back into what was sent. */
void conf_test_dgram_train_split_again(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(64 * 1200, 1200);
    s->b.expected[0] = 1200;
    s->b.expected[1] = 300;
    s->want = 11;
    assert_int_equal(conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, 12300, 1200, 0), 1);
    conf_until(&s->e, conf_b_has_all, s);
    assert_int_equal(s->a.last_result, 11);
    assert_int_equal(s->b.by_size[0], 10);
    assert_int_equal(s->b.by_size[1], 1);
    s->want += 64; /* more bytes than one IP datagram has */
    assert_int_equal(conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, 64 * 1200, 1200, 0),
                     1);
    conf_until(&s->e, conf_b_has_all, s);
    assert_int_equal(s->a.last_result, 64);
    assert_int_equal(s->b.by_size[0], 74);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* Trains that are sent in a row would get mixed up: their sizes, marks, peers or results. A door
   may send those that are alike together. */
void conf_test_dgram_trains_in_a_row_each_its_own(void **state)
{
    static const struct {
        uint32_t size, segment, ecn, to_c;
    } row[CONF_TRAINS] = {
        {1000, 1000, 1, 0},  {1000, 1000, 1, 0},  {4000, 1000, 1, 0}, {1000, 1000, 1, 0},
        {1000, 1000, 1, 1},  {1000, 1000, 1, 1},  {300, 1000, 1, 0},  {2000, 1000, 1, 0},
        {1000, 1000, 1, 0},  {1000, 1000, 2, 0},  {500, 500, 2, 0},   {500, 500, 2, 0},
        {40000, 1000, 2, 0}, {30000, 1000, 2, 0}, {300, 500, 2, 0},   {1000, 1000, 2, 0}};
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes[2] = {conf_train_bytes(40000, 1000), conf_train_bytes(1000, 500)};
    struct conf_sock c;
    conf_sock_open(&c, &s->e, s->e.client, 2);
    s->b.expected[0] = c.expected[0] = 1000;
    s->b.expected[1] = 300;
    s->b.expected[2] = 500;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < CONF_TRAINS; i++) {
            const struct snic_net_addr *to = row[i].to_c ? &c.addr : &s->b.addr;
            const unsigned char *from = bytes[row[i].segment == 500];
            while (conf_train_send(&s->trains[i], &s->a, to, from, row[i].size, row[i].segment,
                                   row[i].ecn) != 1)
                conf_until(&s->e, conf_a_idle, s); /* as many as are taken at a time */
        }
        s->want += 86;
        conf_until(&s->e, conf_b_has_all, s);
        for (uint32_t i = 0; i < CONF_TRAINS; i++)
            assert_int_equal(s->trains[i].t.result,
                             (row[i].size + row[i].segment - 1) / row[i].segment);
    }
    conf_settle(&s->e);
    assert_int_equal(s->b.by_size[0], 3 * 82);
    assert_int_equal(s->b.by_size[1], 3 * 2);
    assert_int_equal(s->b.by_size[2], 3 * 2);
    assert_int_equal(s->b.ecn[1], 3 * 11);
    assert_int_equal(s->b.messages, 3 * 86);
    assert_int_equal(c.messages, 3 * 2);
    assert_int_equal(s->e.server->stats.dgrams_out, 3 * 88);
    free(bytes[0]);
    free(bytes[1]);
    conf_env_close(&s->e);
    free(s);
}

/* Congestion marks would be lost on the way. */
void conf_test_dgram_ecn_kept(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(800, 100);
    s->b.expected[0] = 100;
    for (uint32_t ecn = 0; ecn < 4; ecn++) {
        s->want += 8;
        assert_int_equal(conf_train_send(&s->trains[0], &s->a, &s->b.addr, bytes, 800, 100, ecn),
                         1);
        conf_until(&s->e, conf_b_has_all, s);
        assert_int_equal(s->b.ecn[ecn], 8);
    }
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* What cannot be sent would be queued, or change the request. */
void conf_test_dgram_bad_arguments_refused(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    struct snic_net_addr a = s->b.addr;
    struct snic_net_dgram *d = NULL;
    unsigned char *bytes = conf_train_bytes(70000, 70000);
    struct conf_train *t = &s->trains[0];
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 70000, 70000, 0), SNIC_EMSGSIZE);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 65, 1, 0), SNIC_EMSGSIZE);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 0, 100, 0), SNIC_EINVAL);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 0, 0), SNIC_EINVAL);
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 10, 4), SNIC_EINVAL);
    a.port = 0;
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 10, 0), SNIC_EINVAL);
    a.port = 9;
    a.family = SNIC_NET_UNIX;
    assert_int_equal(conf_train_send(t, &s->a, &a, bytes, 10, 10, 0), SNIC_EINVAL);
    assert_int_equal(snic_net_dgram_open(s->e.server, &a, &conf_dgram_events, s, &d), SNIC_ENOTSUP);
    assert_int_equal(snic_net_dgram_open(s->e.server, &s->a.addr, &conf_dgram_events, s, &d),
                     SNIC_EADDRINUSE);
    assert_int_equal(snic_net_dgram_open(s->e.server, &s->a.addr, NULL, s, &d), SNIC_EINVAL);
    assert_null(d);
    assert_int_equal(s->a.dones, 0);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* The queue would grow without bound, or never open again. */
void conf_test_dgram_queue_full_writable_follows(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(100, 100);
    int taken = 0;
    s->b.expected[0] = 100;
    for (uint32_t i = 0; i < CONF_TRAINS; i++)
        taken += conf_train_send(&s->trains[i], &s->a, &s->b.addr, bytes, 100, 100, 0);
    assert_int_equal(taken, 8);
    s->want = 8;
    conf_until(&s->e, conf_b_has_all, s);
    conf_settle(&s->e);
    assert_int_equal(s->a.dones, 8);
    assert_int_equal(s->a.writables, 1);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

/* A closed socket would forget trains, or keep receiving. */
void conf_test_dgram_closed_trains_done_port_free(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(6000, 1000);
    struct snic_net_addr a = s->a.addr;
    s->b.expected[0] = 1000;
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(conf_train_send(&s->trains[i], &s->a, &s->b.addr, bytes, 6000, 1000, 0),
                         1);
    CONF_CALL(&s->e, snic_net_dgram_close(s->a.d));
    s->a.closed = 1;
    conf_until(&s->e, conf_a_idle, s);
    assert_int_equal(s->a.dones, 8);
    conf_settle(&s->e);
    CONF_CALL(&s->e, snic_net_dgram_close(s->b.d));
    s->b.closed = 1;
    conf_settle(&s->e);
    struct snic_net_dgram *d = NULL;
    assert_int_equal(snic_net_dgram_open(s->e.server, &a, &conf_dgram_events, &s->a, &d), 0);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}

static int conf_a_told(void *ctx)
{
    struct conf_socks *s = ctx;
    return s->a.unreachable > 0 && s->a.in_flight == 0;
}

/* The news of an absent socket would be lost, or come as a failure of what is sent elsewhere. */
void conf_test_dgram_no_socket_told_others_go_on(void **state)
{
    struct conf_socks *s = conf_socks_open(state);
    unsigned char *bytes = conf_train_bytes(4000, 1000);
    struct snic_net_addr gone;
    struct conf_sock c;
    conf_sock_open(&c, &s->e, s->e.client, 2);
    gone = c.addr;
    CONF_CALL(&s->e, snic_net_dgram_close(c.d));
    c.closed = 1;
    conf_settle(&s->e);
    assert_int_equal(conf_train_send(&s->trains[0], &s->a, &gone, bytes, 1000, 1000, 0), 1);
    conf_until(&s->e, conf_a_told, s);
    assert_int_equal(s->a.error, SNIC_ECONNREFUSED);
    assert_memory_equal(&s->a.from, &gone, sizeof(gone));
    assert_true(s->e.server->stats.unreachable >= 1);
    assert_int_equal(s->a.last_result, 1); /* it was sent */
    s->b.expected[0] = 1000;
    for (uint32_t i = 0; i < 8; i++) { /* each to no socket, and to one */
        s->want += 4;
        assert_int_equal(conf_train_send(&s->trains[0], &s->a, &gone, bytes, 1000, 1000, 0), 1);
        assert_int_equal(conf_train_send(&s->trains[1], &s->a, &s->b.addr, bytes, 4000, 1000, 0),
                         1);
        conf_until(&s->e, conf_b_has_all, s);
        assert_int_equal(s->trains[0].t.result, 1);
        assert_int_equal(s->trains[1].t.result, 4);
    }
    conf_settle(&s->e);
    assert_int_equal(s->b.messages, 32);
    assert_true(s->a.unreachable >= 2);
    free(bytes);
    conf_env_close(&s->e);
    free(s);
}
