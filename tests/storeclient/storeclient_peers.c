/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "storeclient_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS_ARGS = 24 };

struct peers_request {
    struct peers_request *next;
    uint64_t at_ns;
    uint32_t argc;
    char *arg[PEERS_ARGS];
    uint32_t size[PEERS_ARGS];
};

struct peers_conn {
    struct peers_conn *next;
    struct peers_node *node;
    struct snic_net_conn *conn; /* NULL: closed */
    char *in;
    size_t in_size;
    struct peers_request *first, *last;
    struct snic_timer timer;
    int authenticated;
    int silent; /* has left out an answer: there are none any more */
};

struct peers_reply {
    struct snic_net_send_req send;
    struct snic_iov iov;
    char bytes[];
};

/* ---- Answers ---- */

static void peers_sent(struct snic_net_send_req *s)
{
    free(SNIC_CONTAINER(s, struct peers_reply, send));
}

static void peers_send(struct peers_conn *c, const void *data, size_t size)
{
    struct peers_reply *r = malloc(sizeof(*r) + size);
    assert_non_null(r);
    memset(r, 0, sizeof(*r));
    memcpy(r->bytes, data, size);
    r->iov.base = r->bytes;
    r->iov.size = size;
    r->send.region = SNIC_NO_REGION;
    r->send.iov = &r->iov;
    r->send.iov_count = 1;
    r->send.done = peers_sent;
    if (c->silent || c->conn == NULL || snic_net_send(c->conn, &r->send) != 1)
        free(r);
}

struct peers_answer {
    int result;
    uint32_t out;
    uint64_t version, seen, ttl_ms;
    const struct peers_key *value; /* NULL: none */
};

static void peers_answer(struct peers_conn *c, const struct peers_answer *a)
{
    char *text = malloc(512 + (size_t)(a->value != NULL ? a->value->size : 0));
    int n;
    assert_non_null(text);
    n = snprintf(text, 512, "*8\r\n:%d\r\n:%u\r\n:%lld\r\n:%lld\r\n:%lld\r\n:3\r\n:0\r\n",
                 a->result, a->out, (long long)a->version, (long long)a->seen,
                 (long long)a->ttl_ms);
    if (a->value == NULL) {
        n += snprintf(text + n, 16, "$-1\r\n");
    } else {
        n += snprintf(text + n, 32, "$%u\r\n", a->value->size);
        if (a->value->size > 0)
            memcpy(text + n, a->value->value, a->value->size);
        n += (int)a->value->size;
        memcpy(text + n, "\r\n", 2);
        n += 2;
    }
    peers_send(c, text, (size_t)n);
    free(text);
}

/* ---- The table ---- */

struct peers_key *peers_key(struct peers *p, const void *key, uint32_t size)
{
    for (uint32_t i = 0; i < PEERS_KEYS; i++) {
        struct peers_key *k = &p->keys[i];
        if (k->version == 0 && k->key_size == 0) {
            memcpy(k->key, key, size);
            k->key_size = size;
            return k;
        }
        if (k->key_size == size && memcmp(k->key, key, size) == 0)
            return k;
    }
    fail_msg("more keys than there are places");
    return NULL;
}

struct peers_options {
    uint64_t ttl_ms, version, client, sequence, seen, age_ms;
    int keep, absent, present, by_version;
};

static void peers_parse(const struct peers_request *r, uint32_t i, struct peers_options *o)
{
    memset(o, 0, sizeof(*o));
    while (i < r->argc) {
        const char *w = r->arg[i++];
        if (strcmp(w, "TTL") == 0) {
            o->ttl_ms = strtoull(r->arg[i++], NULL, 10);
        } else if (strcmp(w, "KEEPTTL") == 0) {
            o->keep = 1;
        } else if (strcmp(w, "IF") == 0) {
            o->absent = strcmp(r->arg[i], "absent") == 0;
            o->present = strcmp(r->arg[i++], "present") == 0;
        } else if (strcmp(w, "IFVERSION") == 0) {
            o->by_version = 1;
            o->version = strtoull(r->arg[i++], NULL, 10);
        } else if (strcmp(w, "DURABILITY") == 0 || strcmp(w, "COPIES") == 0) {
            i++;
        } else if (strcmp(w, "SESSION") == 0) {
            o->client = strtoull(r->arg[i], NULL, 10);
            o->sequence = strtoull(r->arg[i + 1], NULL, 10);
            o->seen = strtoull(r->arg[i + 2], NULL, 10);
            o->age_ms = strtoull(r->arg[i + 3], NULL, 10);
            i += 4;
        } else {
            assert_string_equal(w, "CONFIRM");
        }
    }
}

/* Sessions: 1 if that decides it. */
static int peers_session(const struct peers *p, struct peers_key *k, const struct peers_options *o,
                         struct peers_answer *a)
{
    if (p->window_ms != 0 && o->age_ms > p->window_ms) {
        a->result = SNIC_EUNKNOWN;
        a->out = SNIC_STORE_NOT_TRIED;
        a->seen = o->seen;
        return 1;
    }
    for (uint32_t i = 0; i < PEERS_LIST; i++) {
        if (k->list[i].client == o->client && k->list[i].sequence == o->sequence) {
            a->out = SNIC_STORE_REPEATED;
            a->version = k->list[i].version;
            return 1;
        }
        if (k->list[i].client == o->client && k->list[i].sequence < o->sequence)
            return 0;
        if (k->list[i].client == o->client)
            break; /* a late attempt of an operation that has ended */
        if (i + 1 == PEERS_LIST && k->removed <= o->seen)
            return 0;
    }
    a->result = SNIC_EUNKNOWN;
    a->out = SNIC_STORE_NOT_TRIED;
    a->seen = k->version;
    return 1;
}

static void peers_remember(struct peers_key *k, const struct peers_options *o, uint64_t version)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < PEERS_LIST; i++) {
        if (k->list[i].client == o->client) {
            at = i;
            break;
        }
        if (k->list[i].version < k->list[at].version)
            at = i;
    }
    if (k->list[at].client != 0 && k->list[at].client != o->client &&
        k->list[at].version > k->removed)
        k->removed = k->list[at].version;
    k->list[at].client = o->client;
    k->list[at].sequence = o->sequence;
    k->list[at].version = version;
}

static void peers_write(struct peers *p, const struct peers_request *r, struct peers_key *k,
                        struct peers_answer *a)
{
    struct peers_options o;
    int put = strcmp(r->arg[1], "PUT") == 0, del = strcmp(r->arg[1], "DEL") == 0;
    peers_parse(r, put ? 4 : 3, &o);
    p->arrived[o.sequence % PEERS_SEQUENCES]++;
    if (o.client != 0 && peers_session(p, k, &o, a))
        return;
    if ((o.absent && k->present) || (o.present && !k->present) ||
        (o.by_version && o.version != (k->present ? k->version : 0))) {
        a->result = SNIC_ECANCELED;
        a->version = k->present ? k->version : 0;
        a->value = k->present ? k : NULL;
        return;
    }
    if (!put && !k->present) {
        a->result = SNIC_ENOENT;
        return;
    }
    p->executed[o.sequence % PEERS_SEQUENCES]++;
    k->version = a->version = ++p->version;
    if (o.client != 0)
        peers_remember(k, &o, k->version);
    if (del) {
        k->present = 0;
        return;
    }
    if (!o.keep)
        k->ttl_ms = o.ttl_ms;
    if (put) {
        k->present = 1;
        k->size = r->size[3];
        k->value = realloc(k->value, k->size + 1);
        assert_non_null(k->value);
        memcpy(k->value, r->arg[3], k->size);
    }
}

static void peers_execute(struct peers_conn *c, const struct peers_request *r)
{
    struct peers_node *n = c->node;
    struct peers_answer a = {0};
    struct peers_key *k = peers_key(n->p, r->arg[2], r->size[2]);
    n->requests++;
    if (n->refuse != NULL) {
        peers_send(c, n->refuse, strlen(n->refuse));
        return;
    }
    if (strcmp(r->arg[1], "GET") == 0) {
        a.result = k->present ? 0 : SNIC_ENOENT;
        a.version = k->present ? k->version : 0;
        a.ttl_ms = k->ttl_ms;
        a.value = k->present ? k : NULL;
    } else {
        peers_write(n->p, r, k, &a);
    }
    if (n->mute) {
        c->silent = 1;
        return;
    }
    if (n->die > 0) {
        c->silent = 1;
        if (--n->die == 0 && c->conn != NULL)
            snic_net_abort(c->conn);
        return;
    }
    if (n->nonsense != NULL)
        peers_send(c, n->nonsense, strlen(n->nonsense));
    else
        peers_answer(c, &a);
}

static void peers_nodes(struct peers_conn *c)
{
    char text[512], addr[64];
    int n = snprintf(text, sizeof(text), "*%d\r\n:%d\r\n", PEERS_NODES + 1, c->node->serves);
    for (uint32_t i = 0; i < PEERS_NODES; i++) {
        (void)snic_net_addr_format(&c->node->p->node[i].addr, addr, sizeof(addr));
        n += snprintf(text + n, sizeof(text) - (size_t)n, "$%zu\r\n%s\r\n", strlen(addr), addr);
    }
    peers_send(c, text, (size_t)n);
}

static void peers_run_request(struct peers_conn *c, const struct peers_request *r)
{
    const char *password = c->node->p->password;
    if (strcmp(r->arg[0], "AUTH") == 0) {
        int right = password != NULL && strcmp(r->arg[1], password) == 0;
        c->authenticated = right;
        peers_send(c, right ? "+OK\r\n" : "-WRONGPASS no\r\n", right ? 5 : 15);
        return;
    }
    assert_string_equal(r->arg[0], "STORE");
    if (password != NULL && !c->authenticated)
        peers_send(c, "-NOAUTH no\r\n", 12);
    else if (strcmp(r->arg[1], "NODES") == 0)
        peers_nodes(c);
    else
        peers_execute(c, r);
}

/* ---- Connections ---- */

static void peers_request_free(struct peers_request *r)
{
    for (uint32_t i = 0; i < r->argc; i++)
        free(r->arg[i]);
    free(r);
}

static void peers_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct peers_conn *c = SNIC_CONTAINER(t, struct peers_conn, timer);
    while (c->first != NULL && c->first->at_ns <= now_ns) {
        struct peers_request *r = c->first;
        c->first = r->next;
        if (c->first == NULL)
            c->last = NULL;
        peers_run_request(c, r);
        peers_request_free(r);
    }
    if (c->first != NULL)
        snic_loop_arm(c->node->loop, &c->timer, c->first->at_ns);
}

/* A whole request at the front of the input; its bytes, 0: not yet. */
static size_t peers_frame(const char *in, size_t size, struct peers_request *r)
{
    size_t at = 0;
    char *end;
    const char *line = memchr(in, '\n', size);
    if (line == NULL)
        return 0;
    assert_int_equal(in[0], '*');
    uint32_t argc = (uint32_t)strtoul(in + 1, &end, 10);
    assert_in_range(argc, 1, PEERS_ARGS);
    at = (size_t)(line - in) + 1;
    for (uint32_t i = 0; i < argc; i++) {
        line = at < size ? memchr(in + at, '\n', size - at) : NULL;
        if (line == NULL)
            return 0;
        assert_int_equal(in[at], '$');
        size_t n = strtoul(in + at + 1, &end, 10);
        at = (size_t)(line - in) + 1;
        if (at + n + 2 > size)
            return 0;
        assert_memory_equal(in + at + n, "\r\n", 2);
        r->arg[i] = malloc(n + 1);
        assert_non_null(r->arg[i]);
        memcpy(r->arg[i], in + at, n);
        r->arg[i][n] = 0;
        r->size[i] = (uint32_t)n;
        r->argc = i + 1;
        at += n + 2;
    }
    return at;
}

static void peers_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct peers_conn *c = ctx;
    uint64_t at = snic_loop_now(c->node->loop) + c->node->delay_ns;
    (void)conn;
    c->in = realloc(c->in, c->in_size + buf->size);
    assert_non_null(c->in);
    memcpy(c->in + c->in_size, buf->data, buf->size);
    c->in_size += buf->size;
    snic_net_put(c->node->net, buf);
    for (;;) {
        struct peers_request *r = calloc(1, sizeof(*r));
        assert_non_null(r);
        size_t used = c->in_size > 0 ? peers_frame(c->in, c->in_size, r) : 0;
        if (used == 0) {
            peers_request_free(r);
            break;
        }
        c->in_size -= used;
        memmove(c->in, c->in + used, c->in_size);
        r->at_ns = c->last != NULL && c->last->at_ns > at ? c->last->at_ns : at;
        if (c->last != NULL)
            c->last->next = r;
        else
            c->first = r;
        c->last = r;
    }
    if (c->first != NULL && !c->timer.armed)
        snic_loop_arm(c->node->loop, &c->timer, c->first->at_ns);
}

static void peers_eof(void *ctx, struct snic_net_conn *conn)
{
    (void)ctx;
    snic_net_close(conn);
}

/* What was received is still executed, as by a process that has read it. */
static void peers_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    struct peers_conn *c = ctx;
    (void)conn;
    (void)reason;
    c->conn = NULL;
}

static void peers_accept(void *ctx, struct snic_net_conn *conn, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = peers_recv, .eof = peers_eof, .closed = peers_closed};
    struct peers_node *n = ctx;
    struct peers_conn *c = calloc(1, sizeof(*c));
    (void)peer;
    assert_non_null(c);
    c->node = n;
    c->conn = conn;
    c->next = n->conns;
    n->conns = c;
    snic_timer_init(&c->timer, peers_fire);
    snic_net_bind(conn, &events, c);
}

/* ---- Around ---- */

struct peers *peers_new(void)
{
    struct peers *p = calloc(1, sizeof(*p));
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    char text[32];
    assert_non_null(p);
    assert_int_equal(snic_world_open(&p->world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&p->fabric, p->world, NULL), 0);
    assert_int_equal(snic_world_loop(p->world, 0, &p->loop), 0);
    assert_int_equal(snic_net_sim_open(&p->net, p->fabric, p->loop, NULL), 0);
    for (uint32_t i = 0; i < PEERS_NODES; i++) {
        struct peers_node *n = &p->node[i];
        n->p = p;
        n->number = i;
        n->serves = 1;
        (void)snprintf(text, sizeof(text), "sim:%u:80", i + 1);
        assert_int_equal(snic_net_addr_parse(&n->addr, text), 0);
        assert_int_equal(snic_world_loop(p->world, i + 1, &n->loop), 0);
        assert_int_equal(snic_net_sim_open(&n->net, p->fabric, n->loop, NULL), 0);
        assert_int_equal(snic_net_listen(n->net, &n->addr, 0, peers_accept, n, &n->listener), 0);
    }
    return p;
}

void peers_client(struct peers *p, struct snic_storeclient_opts *o)
{
    o->opts_size = sizeof(*o);
    o->loop = p->loop;
    o->net = p->net;
    if (o->addrs == NULL) {
        o->addrs = &p->node[0].addr;
        o->addr_count = 1;
    }
    if (o->client == 0)
        o->client = 77;
    size_t size = snic_storeclient_memsize(o);
    assert_true(size > 0);
    p->mem = support_guard_alloc(size, SNIC_STORECLIENT_ALIGN);
    assert_int_equal(snic_storeclient_init(&p->c, p->mem, size, o), 0);
}

void peers_run(struct peers *p, uint64_t ns)
{
    (void)snic_world_run(p->world, snic_world_now(p->world) + ns, UINT64_MAX);
    if (p->c != NULL)
        assert_int_equal(snic_storeclient_check(p->c), 0);
}

static void peers_node_free(struct peers_node *n)
{
    snic_net_shut(n->net);
    while (n->conns != NULL) {
        struct peers_conn *c = n->conns;
        n->conns = c->next;
        snic_loop_cancel(n->loop, &c->timer);
        while (c->first != NULL) {
            struct peers_request *r = c->first;
            c->first = r->next;
            peers_request_free(r);
        }
        free(c->in);
        free(c);
    }
    snic_loop_close(n->loop);
}

void peers_free(struct peers *p)
{
    if (p->c != NULL) {
        snic_storeclient_stop(p->c);
        snic_storeclient_stop(p->c);
        peers_run(p, UINT64_C(60000) * PEERS_MS);
        assert_int_equal(snic_storeclient_idle(p->c), 1);
        assert_ptr_equal(snic_storeclient_fini(p->c), p->mem);
        support_guard_free(p->mem);
    }
    snic_net_shut(p->net);
    for (uint32_t i = 0; i < PEERS_NODES; i++)
        peers_node_free(&p->node[i]);
    for (uint32_t i = 0; i < PEERS_KEYS; i++)
        free(p->keys[i].value);
    snic_net_fabric_close(p->fabric);
    snic_loop_close(p->loop);
    snic_world_close(p->world);
    free(p);
}
