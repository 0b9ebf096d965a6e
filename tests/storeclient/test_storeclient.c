/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a client of a store makes of its nodes' answers, silence, refusals and ends. */
#include "storeclient_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call {
    struct snic_storeclient_op op;
    int answers;
    uint64_t ended_ns;
    char key[16];
    char out[64];
    struct peers *p;
};

static void answered(struct snic_storeclient_op *op)
{
    struct call *c = SNIC_CONTAINER(op, struct call, op);
    c->answers++;
    c->ended_ns = snic_world_now(c->p->world);
}

static struct call *call(struct peers *p, struct call *c, uint32_t kind, const char *key,
                         const char *data)
{
    memset(c, 0, sizeof(*c));
    c->p = p;
    (void)snprintf(c->key, sizeof(c->key), "%s", key);
    c->op.done = answered;
    c->op.kind = kind;
    c->op.key = c->key;
    c->op.key_size = (uint32_t)strlen(key);
    c->op.data = data;
    c->op.size = data != NULL ? (uint32_t)strlen(data) : 0;
    c->op.out = c->out;
    c->op.out_max = sizeof(c->out);
    return c;
}

static int ended(struct peers *p, struct call *c, uint64_t ns)
{
    uint64_t until = snic_world_now(p->world) + ns;
    while (c->answers == 0 && snic_world_now(p->world) < until)
        peers_run(p, PEERS_MS);
    assert_int_equal(c->answers, 1);
    return c->op.result;
}

static int do_call(struct peers *p, struct call *c)
{
    assert_int_equal(snic_storeclient_submit(p->c, &c->op), 0);
    return ended(p, c, UINT64_C(20000) * PEERS_MS);
}

static struct peers *fresh(void)
{
    struct snic_storeclient_opts o;
    struct peers *p = peers_new();
    memset(&o, 0, sizeof(o));
    peers_client(p, &o);
    return p;
}

/* ---- Contract ---- */

static void test_storeclient_wrong_options_are_named(void **state)
{
    struct peers *p = peers_new();
    char big[SNIC_STORECLIENT_PASSWORD_MAX + 2];
    struct snic_storeclient_opts good = {.opts_size = sizeof(good),
                                         .loop = p->loop,
                                         .net = p->net,
                                         .addrs = &p->node[0].addr,
                                         .addr_count = 1,
                                         .client = 1};
    struct snic_storeclient_opts o;
    struct snic_storeclient *c;
    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    assert_null(snic_storeclient_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    assert_memory_equal(snic_storeclient_opts_wrong(&o), name, strlen(name));                      \
    assert_int_equal(snic_storeclient_memsize(&o), 0);                                             \
    assert_int_equal(snic_storeclient_init(&c, big, sizeof(big), &o), SNIC_EINVAL)
    WRONG(opts_size, 3, "opts_size:");
    WRONG(flags, 1, "flags:");
    WRONG(loop, NULL, "loop:");
    WRONG(net, NULL, "net:");
    WRONG(net, p->node[0].net, "net:");
    WRONG(addrs, NULL, "addrs:");
    WRONG(addr_count, 0, "addrs:");
    WRONG(addr_count, SNIC_STORECLIENT_NODES_MAX + 1, "addrs:");
    WRONG(ops_max, 65537, "ops_max:");
    WRONG(client, 0, "client:");
    WRONG(password, big, "password:");
    WRONG(retry_ns, (UINT64_C(1) << 40) + 1, "timeout_ns");
#undef WRONG
    size_t size = snic_storeclient_memsize(&good);
    char *mem = support_guard_alloc(size, SNIC_STORECLIENT_ALIGN);
    assert_int_equal(snic_storeclient_init(&c, mem, size - 1, &good), SNIC_ENOSPC);
    assert_int_equal(snic_storeclient_init(&c, mem + 1, size, &good), SNIC_EINVAL);
    support_guard_free(mem);
    peers_free(p);
}

static void test_storeclient_wrong_operations_are_refused(void **state)
{
    struct peers *p = fresh();
    struct call c;
    (void)state;
#define REFUSED(what, error)                                                                       \
    (void)call(p, &c, SNIC_STORE_PUT, "k", "v");                                                   \
    what;                                                                                          \
    assert_int_equal(snic_storeclient_submit(p->c, &c.op), error)
    REFUSED(c.op.kind = 0, SNIC_EINVAL);
    REFUSED(c.op.kind = SNIC_STORE_SYNC, SNIC_EINVAL);
    REFUSED(c.op.flags = SNIC_STORE_CONFIRM, SNIC_EINVAL);
    REFUSED(c.op.condition = 4, SNIC_EINVAL);
    REFUSED(c.op.durability = SNIC_DDP_DURABILITY_SCOPE, SNIC_EINVAL);
    REFUSED(c.op.ttl_ns = 1, SNIC_EINVAL);
    REFUSED(c.op.key = NULL, SNIC_EINVAL);
    REFUSED(c.op.data = NULL, SNIC_EINVAL);
    REFUSED(c.op.out = NULL, SNIC_EINVAL);
    REFUSED(c.op.kind = SNIC_STORE_GET, SNIC_EINVAL);
    REFUSED(c.op.key_size = SNIC_STORE_KEY_MAX + 1, SNIC_EMSGSIZE);
    REFUSED(c.op.size = SNIC_STORE_VALUE_MAX + 1, SNIC_EMSGSIZE);
#undef REFUSED
    (void)call(p, &c, SNIC_STORE_GET, "k", NULL);
    c.op.copies_min = 1;
    assert_int_equal(snic_storeclient_submit(p->c, &c.op), SNIC_EINVAL);
    (void)call(p, &c, SNIC_STORE_DELETE, "k", NULL);
    c.op.ttl_ns = PEERS_MS;
    assert_int_equal(snic_storeclient_submit(p->c, &c.op), SNIC_EINVAL);
    snic_storeclient_stop(p->c);
    (void)call(p, &c, SNIC_STORE_PUT, "k", "v");
    assert_int_equal(snic_storeclient_submit(p->c, &c.op), SNIC_ESTALE);
    peers_free(p);
}

static void test_storeclient_operations_return_what_nodes_answer(void **state)
{
    struct peers *p = fresh();
    struct call c;
    (void)state;
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_GET, "a", NULL)), SNIC_ENOENT);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "a", "one")), 0);
    assert_int_equal(c.op.version, 1);
    assert_int_equal(c.op.copies, 3);
    (void)call(p, &c, SNIC_STORE_PUT, "a", "two");
    c.op.condition = SNIC_STORE_IF_ABSENT;
    c.op.durability = SNIC_DDP_DURABILITY_ALL;
    c.op.copies_min = 2;
    assert_int_equal(do_call(p, &c), SNIC_ECANCELED);
    assert_int_equal(c.op.out_size, 3);
    assert_memory_equal(c.out, "one", 3);
    (void)call(p, &c, SNIC_STORE_PUT, "a", "two");
    c.op.condition = SNIC_STORE_IF_VERSION;
    c.op.version = 1;
    c.op.ttl_ns = UINT64_C(5000) * PEERS_MS;
    assert_int_equal(do_call(p, &c), 0);
    (void)call(p, &c, SNIC_STORE_GET, "a", NULL);
    c.op.flags = SNIC_STORE_CONFIRM;
    c.op.durability = SNIC_DDP_DURABILITY_ALL;
    assert_int_equal(do_call(p, &c), 0);
    assert_memory_equal(c.out, "two", 3);
    assert_int_equal(c.op.ttl_ns, UINT64_C(5000) * PEERS_MS);
    (void)call(p, &c, SNIC_STORE_EXPIRE, "a", NULL);
    assert_int_equal(do_call(p, &c), 0);
    (void)call(p, &c, SNIC_STORE_GET, "a", NULL);
    c.op.out_max = 2;
    c.out[2] = 'x';
    assert_int_equal(do_call(p, &c), SNIC_EMSGSIZE);
    assert_int_equal(c.op.out_size, 3);
    assert_memory_equal(c.out, "twx", 3);
    (void)call(p, &c, SNIC_STORE_DELETE, "a", NULL);
    c.op.condition = SNIC_STORE_IF_PRESENT;
    assert_int_equal(do_call(p, &c), 0);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "", "")), 0);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_GET, "", NULL)), 0);
    assert_int_equal(c.op.out_size, 0);
    peers_free(p);
}

static void test_storeclient_large_values_go_both_ways(void **state)
{
    struct peers *p = fresh();
    char *data = malloc(PEERS_VALUE_MAX), *out = malloc(PEERS_VALUE_MAX);
    struct call c;
    (void)state;
    assert_non_null(data);
    assert_non_null(out);
    for (uint32_t i = 0; i < PEERS_VALUE_MAX; i++)
        data[i] = (char)(i * 31 + i / 251);
    (void)call(p, &c, SNIC_STORE_PUT, "big", NULL);
    c.op.data = data;
    c.op.size = PEERS_VALUE_MAX;
    assert_int_equal(do_call(p, &c), 0);
    (void)call(p, &c, SNIC_STORE_GET, "big", NULL);
    c.op.out = out;
    c.op.out_max = PEERS_VALUE_MAX;
    assert_int_equal(do_call(p, &c), 0);
    assert_int_equal(c.op.out_size, PEERS_VALUE_MAX);
    assert_memory_equal(out, data, PEERS_VALUE_MAX);
    free(data);
    free(out);
    peers_free(p);
}

/* ---- Nodes ---- */

static void test_storeclient_nodes_are_found_and_the_nearest_is_used(void **state)
{
    struct peers *p = fresh();
    struct snic_net_link near = {.delay_min_ns = 10000, .delay_max_ns = 20000};
    struct snic_net_link far = {.delay_min_ns = 5000000, .delay_max_ns = 6000000};
    struct snic_storeclient_stats s;
    struct call c;
    (void)state;
    for (uint32_t i = 0; i < PEERS_NODES; i++) {
        assert_int_equal(snic_net_fabric_link(p->fabric, 0, i + 1, i == 1 ? &near : &far), 0);
        assert_int_equal(snic_net_fabric_link(p->fabric, i + 1, 0, i == 1 ? &near : &far), 0);
    }
    peers_run(p, UINT64_C(3000) * PEERS_MS);
    snic_storeclient_get_stats(p->c, &s);
    assert_int_equal(s.nodes, 3);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    assert_int_equal(p->node[1].requests, 20);
    /* One that does not serve is used only when no other is left. */
    p->node[1].serves = 0;
    p->node[1].refuse = "-CLUSTERDOWN no\r\n";
    peers_run(p, UINT64_C(3000) * PEERS_MS);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    assert_int_equal(p->node[1].requests, 20);
    peers_free(p);
}

/** Nodes that are gone give their places to those that the others name. */
static void test_storeclient_dead_addresses_do_not_keep_their_places(void **state)
{
    struct peers *p = peers_new();
    struct snic_net_addr addrs[SNIC_STORECLIENT_NODES_MAX];
    struct snic_storeclient_opts o;
    struct snic_storeclient_stats s;
    struct call c;
    (void)state;
    memset(&o, 0, sizeof(o));
    for (uint16_t i = 0; i < SNIC_STORECLIENT_NODES_MAX; i++) {
        addrs[i] = p->node[0].addr;
        addrs[i].port = (uint16_t)(addrs[i].port + i); /* only behind the first one is a node */
    }
    o.addrs = addrs;
    o.addr_count = SNIC_STORECLIENT_NODES_MAX;
    peers_client(p, &o);
    peers_run(p, UINT64_C(10000) * PEERS_MS);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    p->node[0].serves = 0;
    p->node[0].refuse = "-CLUSTERDOWN no\r\n";
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    snic_storeclient_get_stats(p->c, &s);
    assert_int_equal(s.nodes, SNIC_STORECLIENT_NODES_MAX);
    assert_true(p->node[1].requests + p->node[2].requests >= 20);
    peers_free(p);
}

static void test_storeclient_password(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        struct peers *p = peers_new();
        struct snic_storeclient_opts o;
        struct call c;
        memset(&o, 0, sizeof(o));
        p->password = "secret";
        o.password = right ? "secret" : "guess";
        peers_client(p, &o);
        (void)call(p, &c, SNIC_STORE_PUT, "k", "v");
        int result = do_call(p, &c);
        assert_int_equal(result, right ? 0 : SNIC_EACCES);
        peers_free(p);
    }
}

static void test_storeclient_malformed_replies_end_the_connection(void **state)
{
    static const char *const nonsense[] = {
        "*9\r\n",
        "*7\r\n:0\r\n",
        ":0\r\n",
        "+OK\r\n",
        "*8\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
        "*8\r\n$1\r\nx\r\n",
        "*8\r\n:99999999999999999999\r\n",
        "*8\r\n:-\r\n",
        "*8\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n$99999999999\r\n",
        "*8\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n$-2\r\n",
        "*8\r\n*8\r\n",
        "*-1\r\n",
        "\r\n",
        "x\n",
        "-ERR two\r\n-ERR answers\r\n-ERR at once\r\n",
    };
    struct snic_storeclient_stats s;
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(nonsense); i++) {
        struct peers *p = fresh();
        struct call c;
        peers_run(p, UINT64_C(1500) * PEERS_MS);
        for (uint32_t n = 0; n < PEERS_NODES; n++)
            p->node[n].nonsense = nonsense[i];
        (void)call(p, &c, SNIC_STORE_PUT, "k", "v");
        assert_int_equal(snic_storeclient_submit(p->c, &c.op), 0);
        peers_run(p, UINT64_C(500) * PEERS_MS);
        snic_storeclient_get_stats(p->c, &s);
        assert_true(s.malformed > 0);
        for (uint32_t n = 0; n < PEERS_NODES; n++)
            p->node[n].nonsense = NULL;
        int result = ended(p, &c, UINT64_C(20000) * PEERS_MS);
        assert_int_equal(result, i + 1 < SNIC_COUNTOF(nonsense) ? 0 : SNIC_EPROTO);
        peers_free(p);
    }
}

/* ---- Sessions and outcomes ---- */

static void test_storeclient_node_dies_after_executing_executed_once(void **state)
{
    struct peers *p = fresh();
    struct snic_storeclient_stats s;
    struct call c;
    (void)state;
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].die = 1;
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    assert_true(c.op.attempts > 1);
    assert_int_equal(p->executed[1], 1);
    snic_storeclient_get_stats(p->c, &s);
    assert_int_equal(s.repeated, 1);
    peers_free(p);
}

static void test_storeclient_silence_ends_unknown_for_writes_and_timed_out_for_reads(void **state)
{
    struct peers *p = fresh();
    struct call w, r;
    (void)state;
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].mute = 1;
    (void)call(p, &w, SNIC_STORE_PUT, "k", "v");
    (void)call(p, &r, SNIC_STORE_GET, "k", NULL);
    r.op.timeout_ns = UINT64_C(2500) * PEERS_MS;
    assert_int_equal(snic_storeclient_submit(p->c, &w.op), 0);
    assert_int_equal(snic_storeclient_submit(p->c, &r.op), 0);
    assert_int_equal(ended(p, &r, UINT64_C(3000) * PEERS_MS), SNIC_ETIMEDOUT);
    assert_int_equal(ended(p, &w, UINT64_C(20000) * PEERS_MS), SNIC_EUNKNOWN);
    assert_int_equal(p->executed[1], 1);
    peers_free(p);
}

static void test_storeclient_refusals_are_certain(void **state)
{
    static const struct {
        const char *line;
        int result;
        const char *text; /* part of its meaning */
    } refusals[] = {{"-CLUSTERDOWN x\r\n", SNIC_ESTALE, "no node serves"},
                    {"-LOADING x\r\n", SNIC_ESTALE, "learn the keys"},
                    {"-TRYAGAIN x\r\n", SNIC_EAGAIN, "no room"},
                    {"-NOREPLICAS x\r\n", SNIC_ENOQUORUM, "fewer nodes"},
                    {"-OOM no space left: x\r\n", SNIC_ENOSPC, "no space"},
                    {"-OOM out of memory\r\n", SNIC_EAGAIN, "no room"},
                    {"-ERR value is longer than 9 bytes\r\n", SNIC_EMSGSIZE, "than the nodes take"},
                    {"-ERR the command is longer than 9 bytes\r\n", SNIC_EMSGSIZE, "a value"},
                    {"-ERR unknown command\r\n", SNIC_EPROTO, "STORE"},
                    {"-UNKNOWN x\r\n", SNIC_EUNKNOWN, "outcome unknown"}};
    /* So near that no attempt is open when the time ends: its outcome would not be known. */
    const struct snic_net_link link = {.delay_min_ns = 1, .delay_max_ns = 1};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(refusals); i++) {
        struct peers *p = fresh();
        struct call c;
        for (uint32_t n = 0; n < PEERS_NODES; n++) {
            p->node[n].refuse = refusals[i].line;
            assert_int_equal(snic_net_fabric_link(p->fabric, 0, n + 1, &link), 0);
            assert_int_equal(snic_net_fabric_link(p->fabric, n + 1, 0, &link), 0);
        }
        assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), refusals[i].result);
        assert_non_null(strstr(snic_storeclient_result_text(c.op.result), refusals[i].text));
        peers_free(p);
    }
    /* No node at all. */
    struct peers *p = peers_new();
    struct snic_storeclient_opts o;
    struct call c;
    memset(&o, 0, sizeof(o));
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        snic_net_unlisten(p->node[n].listener);
    peers_client(p, &o);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), SNIC_ETIMEDOUT);
    assert_int_equal(c.op.attempts, 0);
    peers_free(p);
    /* Only what is a result has words of its own. */
    static const int results[] = {SNIC_ENOENT,    SNIC_ECANCELED, SNIC_EEXIST,
                                  SNIC_ETIMEDOUT, SNIC_EMSGSIZE,  SNIC_EACCES};
    for (uint32_t i = 0; i < SNIC_COUNTOF(results); i++)
        assert_string_not_equal(snic_storeclient_result_text(results[i]),
                                snic_strerror(results[i]));
    assert_string_equal(snic_storeclient_result_text(SNIC_EIO), snic_strerror(SNIC_EIO));
    assert_string_equal(snic_storeclient_result_text(0), snic_strerror(0));
}

/* The node that has had an operation. */
static uint32_t used(const struct peers *p)
{
    uint32_t n = 0;
    while (n < PEERS_NODES - 1 && p->node[n].requests == 0)
        n++;
    return n;
}

/* A retry that finds its condition not fulfilled is no answer while an earlier attempt may still
 * be executed. */
static void test_storeclient_declined_retry_of_an_open_attempt_is_unknown(void **state)
{
    struct peers *p = fresh();
    struct call c;
    (void)state;
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    uint32_t first = used(p);
    p->node[first].delay_ns = UINT64_C(2000) * PEERS_MS;
    (void)call(p, &c, SNIC_STORE_PUT, "k", "w");
    c.op.condition = SNIC_STORE_IF_ABSENT;
    assert_int_equal(do_call(p, &c), SNIC_EUNKNOWN);
    assert_int_equal(c.op.attempts, 2);
    peers_free(p);
}

/* The same at the bound of the list: it may have been executed, and removed. */
static void test_storeclient_bound_with_an_open_attempt_is_unknown(void **state)
{
    struct peers *p = fresh();
    struct peers_key *k = peers_key(p, "k", 1);
    struct call c;
    (void)state;
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "x", "v")), 0);
    uint32_t first = used(p);
    p->node[first].delay_ns = UINT64_C(2000) * PEERS_MS;
    k->removed = k->version = p->version = 9;
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), SNIC_EUNKNOWN);
    assert_int_equal(c.op.attempts, 2);
    assert_int_equal(p->executed[2], 0);
    peers_free(p);
}

/* Another attempt has the buffer when the first one's value arrives. */
static void test_storeclient_late_value_of_a_read_is_not_used(void **state)
{
    struct peers *p = fresh();
    struct call c;
    (void)state;
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "value")), 0);
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].delay_ns = UINT64_C(1500) * PEERS_MS;
    (void)call(p, &c, SNIC_STORE_GET, "k", NULL);
    c.op.timeout_ns = UINT64_C(9000) * PEERS_MS;
    assert_int_equal(snic_storeclient_submit(p->c, &c.op), 0);
    peers_run(p, UINT64_C(1200) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].delay_ns = 0;
    assert_int_equal(ended(p, &c, UINT64_C(9000) * PEERS_MS), 0);
    assert_memory_equal(c.out, "value", 5);
    assert_true(c.op.attempts > 2);
    peers_free(p);
}

static void test_storeclient_refused_by_one_sent_to_another(void **state)
{
    struct peers *p = fresh();
    struct call c;
    (void)state;
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    for (uint32_t n = 0; n < PEERS_NODES; n++) {
        if (p->node[n].requests != 0)
            p->node[n].refuse = "-TRYAGAIN x\r\n";
    }
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    assert_int_equal(c.op.attempts, 2);
    peers_free(p);
}

/* More clients write the key than its list has places: an attempt that is the first begins anew. */
static void test_storeclient_bound_of_the_list_first_attempt_begins_anew(void **state)
{
    struct peers *p = fresh();
    struct peers_key *k = peers_key(p, "k", 1);
    struct call c;
    (void)state;
    k->present = 1;
    k->version = p->version = 9;
    k->removed = 9;
    assert_int_equal(do_call(p, call(p, &c, SNIC_STORE_PUT, "k", "v")), 0);
    assert_int_equal(c.op.attempts, 2);
    assert_int_equal(p->executed[1], 0);
    assert_int_equal(p->executed[2], 1);
    peers_free(p);
}

/* Nothing of a write is open that was refused for longer than the sessions' window. */
static void test_storeclient_refused_for_longer_than_the_window_is_executed(void **state)
{
    struct peers *p = fresh();
    struct call c;
    (void)state;
    p->window_ms = 1000;
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].refuse = "-CLUSTERDOWN x\r\n";
    (void)call(p, &c, SNIC_STORE_PUT, "k", "v");
    assert_int_equal(snic_storeclient_submit(p->c, &c.op), 0);
    peers_run(p, UINT64_C(3000) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].refuse = NULL;
    assert_int_equal(ended(p, &c, UINT64_C(20000) * PEERS_MS), 0);
    assert_int_equal(p->version, 1);
    peers_free(p);
}

/* One that is open has its age, and does not begin anew. */
static void test_storeclient_open_for_longer_than_the_window_is_unknown(void **state)
{
    struct peers *p = fresh();
    struct call c;
    (void)state;
    p->window_ms = 500;
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].mute = 1;
    (void)call(p, &c, SNIC_STORE_PUT, "k", "v");
    assert_int_equal(snic_storeclient_submit(p->c, &c.op), 0);
    peers_run(p, UINT64_C(900) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].mute = 0;
    assert_int_equal(ended(p, &c, UINT64_C(20000) * PEERS_MS), SNIC_EUNKNOWN);
    assert_int_equal(p->version, 1);
    peers_free(p);
}

/* A refusal with nothing new in it: the next attempt waits. */
static void test_storeclient_bound_that_stays_is_met_with_pauses(void **state)
{
    struct peers *p = fresh();
    char line[128];
    struct call c;
    (void)state;
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    (void)snprintf(line, sizeof(line), "*8\r\n:%d\r\n:%d\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n$-1\r\n",
                   SNIC_EUNKNOWN, SNIC_STORE_NOT_TRIED);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].refuse = line;
    (void)call(p, &c, SNIC_STORE_PUT, "k", "v");
    c.op.timeout_ns = UINT64_C(100) * PEERS_MS; /* retry_ns is 10 ms */
    assert_int_not_equal(do_call(p, &c), 0);
    assert_in_range(c.op.attempts, 5, 10);
    peers_free(p);
}

static void test_storeclient_writes_of_one_key_go_one_after_the_other(void **state)
{
    struct peers *p = fresh();
    struct call c[20];
    (void)state;
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].delay_ns = UINT64_C(10) * PEERS_MS;
    for (uint32_t i = 0; i < SNIC_COUNTOF(c); i++) {
        (void)call(p, &c[i], SNIC_STORE_PUT, i % 2 != 0 ? "a" : "b", "v");
        assert_int_equal(snic_storeclient_submit(p->c, &c[i].op), 0);
    }
    c[6].op.timeout_ns = 0; /* without meaning: submitted */
    for (uint32_t i = 0; i < SNIC_COUNTOF(c); i++)
        assert_int_equal(ended(p, &c[i], UINT64_C(5000) * PEERS_MS), 0);
    for (uint32_t i = 2; i < SNIC_COUNTOF(c); i++) {
        assert_true(c[i].op.version > c[i - 2].op.version);
        assert_true(c[i].ended_ns - c[i - 2].ended_ns >= UINT64_C(10) * PEERS_MS);
    }
    peers_free(p);
}

/* One that waits behind another may end before it, and those behind it follow. */
static void test_storeclient_time_is_over_behind_another(void **state)
{
    struct peers *p = fresh();
    struct call c[3];
    (void)state;
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].delay_ns = UINT64_C(500) * PEERS_MS;
    for (uint32_t i = 0; i < 3; i++) {
        (void)call(p, &c[i], SNIC_STORE_PUT, "k", "v");
        c[i].op.timeout_ns = i == 1 ? UINT64_C(100) * PEERS_MS : 0;
        assert_int_equal(snic_storeclient_submit(p->c, &c[i].op), 0);
    }
    assert_int_equal(ended(p, &c[1], UINT64_C(300) * PEERS_MS), SNIC_ETIMEDOUT);
    assert_int_equal(c[0].answers, 0);
    assert_int_equal(ended(p, &c[0], UINT64_C(3000) * PEERS_MS), 0);
    assert_int_equal(ended(p, &c[2], UINT64_C(3000) * PEERS_MS), 0);
    peers_free(p);
}

static void test_storeclient_full_and_stopped(void **state)
{
    struct peers *p = peers_new();
    struct snic_storeclient_opts o;
    struct call c[5];
    (void)state;
    memset(&o, 0, sizeof(o));
    o.ops_max = 4;
    peers_client(p, &o);
    peers_run(p, UINT64_C(1500) * PEERS_MS);
    for (uint32_t n = 0; n < PEERS_NODES; n++)
        p->node[n].mute = 1;
    for (uint32_t i = 0; i < 5; i++) {
        (void)call(p, &c[i], i == 0 ? SNIC_STORE_GET : SNIC_STORE_PUT, i > 2 ? "x" : "y",
                   i == 0 ? NULL : "v");
        assert_int_equal(snic_storeclient_submit(p->c, &c[i].op), i < 4 ? 0 : SNIC_EAGAIN);
    }
    peers_run(p, UINT64_C(100) * PEERS_MS);
    snic_storeclient_stop(p->c);
    assert_int_equal(c[0].answers, 0); /* from the loop only */
    peers_run(p, UINT64_C(100) * PEERS_MS);
    assert_int_equal(c[0].op.result, SNIC_ECANCELED);
    assert_int_equal(c[1].op.result, SNIC_EUNKNOWN);
    assert_int_equal(c[2].op.result, SNIC_ECANCELED); /* it was behind the other */
    assert_int_equal(c[3].op.result, SNIC_EUNKNOWN);
    peers_free(p);
}

/* ---- Long and random ---- */

enum { RANDOM_CALLS = 24, RANDOM_ROUNDS = 400 };

static void random_faults(struct peers *p, struct snic_rng *g)
{
    static const char *const lines[] = {"-CLUSTERDOWN x\r\n", "-TRYAGAIN x\r\n", "-UNKNOWN x\r\n"};
    struct peers_node *n = &p->node[snic_rng_below(g, PEERS_NODES)];
    switch (snic_rng_below(g, 8)) {
    case 0:
        n->delay_ns = snic_rng_below(g, UINT64_C(2500) * PEERS_MS);
        break;
    case 1:
        n->refuse = lines[snic_rng_below(g, 3)];
        break;
    case 2:
        n->mute = 1;
        break;
    case 3:
        n->die = 1 + (int)snic_rng_below(g, 3);
        break;
    case 4:
        n->nonsense = "*8\r\n:0\r\n:what\r\n";
        break;
    case 5:
        snic_net_fabric_partition(p->fabric, n->number + 1, 0, (int)snic_rng_below(g, 2));
        break;
    default:
        n->delay_ns = 0;
        n->refuse = n->nonsense = NULL;
        n->mute = 0;
        snic_net_fabric_partition(p->fabric, n->number + 1, 0, 0);
        break;
    }
}

static void random_submit(struct peers *p, struct call *c, struct snic_rng *g)
{
    char key[8];
    (void)snprintf(key, sizeof(key), "k%u", (unsigned)snic_rng_below(g, 5));
    uint32_t kind = (uint32_t)(1 + snic_rng_below(g, 3));
    (void)call(p, c, kind == SNIC_STORE_PUT ? SNIC_STORE_PUT : kind, key,
               kind == SNIC_STORE_PUT ? "value" : NULL);
    c->op.timeout_ns = (1 + snic_rng_below(g, 6000)) * PEERS_MS;
    if (kind != SNIC_STORE_GET && snic_rng_below(g, 3) == 0)
        c->op.condition = (uint32_t)snic_rng_below(g, 3);
    assert_int_equal(snic_storeclient_submit(p->c, &c->op), 0);
}

/* Each write was executed once if it was answered so, never if it was refused, else at most once:
 * judged at the end, when nothing is under way any more. */
static void random_judge(const struct peers *p, const uint64_t *sequences, const int *results,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t executed = p->executed[sequences[i] % PEERS_SEQUENCES];
        if (results[i] == 0)
            assert_int_equal(executed, 1);
        else if (results[i] == SNIC_EUNKNOWN)
            assert_true(executed <= 1);
        else
            assert_int_equal(executed, 0);
    }
}

static void random_run(uint64_t seed)
{
    struct peers *p = fresh();
    struct call *calls = calloc(RANDOM_CALLS, sizeof(*calls));
    uint64_t *sequences = calloc(RANDOM_ROUNDS * RANDOM_CALLS, sizeof(*sequences));
    int *results = calloc(RANDOM_ROUNDS * RANDOM_CALLS, sizeof(*results));
    uint32_t count = 0, right = 0;
    struct snic_rng g;
    snic_rng_init(&g, seed);
    for (uint32_t round = 0; round < RANDOM_ROUNDS; round++) {
        for (uint32_t i = 0; i < RANDOM_CALLS; i++) {
            struct call *c = &calls[i];
            if (c->answers == 0 && c->p != NULL)
                continue;
            assert_true(c->p == NULL || c->answers == 1);
            if (c->p != NULL && c->op.kind != SNIC_STORE_GET) {
                sequences[count] = c->op.sequence;
                results[count++] = c->op.result;
            }
            right += c->p != NULL && c->op.result == 0;
            random_submit(p, c, &g);
        }
        if (snic_rng_below(&g, 4) == 0)
            random_faults(p, &g);
        peers_run(p, snic_rng_below(&g, UINT64_C(300) * PEERS_MS));
    }
    peers_run(p, UINT64_C(60000) * PEERS_MS);
    random_judge(p, sequences, results, count);
    assert_true(count > 100 && right > 100);
    free(calls);
    free(sequences);
    free(results);
    peers_free(p);
}

static void test_storeclient_random_faults_each_write_once(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        random_run(support_seed() + i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storeclient_wrong_options_are_named),
        cmocka_unit_test(test_storeclient_wrong_operations_are_refused),
        cmocka_unit_test(test_storeclient_operations_return_what_nodes_answer),
        cmocka_unit_test(test_storeclient_large_values_go_both_ways),
        cmocka_unit_test(test_storeclient_nodes_are_found_and_the_nearest_is_used),
        cmocka_unit_test(test_storeclient_dead_addresses_do_not_keep_their_places),
        cmocka_unit_test(test_storeclient_password),
        cmocka_unit_test(test_storeclient_malformed_replies_end_the_connection),
        cmocka_unit_test(test_storeclient_node_dies_after_executing_executed_once),
        cmocka_unit_test(test_storeclient_silence_ends_unknown_for_writes_and_timed_out_for_reads),
        cmocka_unit_test(test_storeclient_refusals_are_certain),
        cmocka_unit_test(test_storeclient_declined_retry_of_an_open_attempt_is_unknown),
        cmocka_unit_test(test_storeclient_bound_of_the_list_first_attempt_begins_anew),
        cmocka_unit_test(test_storeclient_bound_with_an_open_attempt_is_unknown),
        cmocka_unit_test(test_storeclient_late_value_of_a_read_is_not_used),
        cmocka_unit_test(test_storeclient_refused_by_one_sent_to_another),
        cmocka_unit_test(test_storeclient_refused_for_longer_than_the_window_is_executed),
        cmocka_unit_test(test_storeclient_open_for_longer_than_the_window_is_unknown),
        cmocka_unit_test(test_storeclient_bound_that_stays_is_met_with_pauses),
        cmocka_unit_test(test_storeclient_writes_of_one_key_go_one_after_the_other),
        cmocka_unit_test(test_storeclient_time_is_over_behind_another),
        cmocka_unit_test(test_storeclient_full_and_stopped),
        cmocka_unit_test(test_storeclient_random_faults_each_write_once),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
