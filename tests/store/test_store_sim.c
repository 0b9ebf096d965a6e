/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random runs of a cluster: clients append unique numbers to a few values, each in a session, and
 * send an operation that got no answer again, to any node, while earlier attempts are still on
 * their way; others put and delete; nodes crash, lose power, pause and are cut off, all at once,
 * too. A value is the number with which it began and the numbers appended since.
 *
 * What must hold, of all values that any node shows to its watch:
 * - no number is twice in a value, and none is in values that began with different numbers: each
 *   operation was executed once;
 * - at the end: a number that was acknowledged as durable, and that was ever seen in a value which
 *   began as the last one did, is in the last one;
 * - each watch saw the last version of each key, and a scan is what the reads are.
 */
#include "store_cluster.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 6, ATTEMPTS = 8, KEYS = 3, SEEN_MAX = 1 << 14, PART = 10 * STORE_MS };

/* One sending of a client's operation, which arrives at its node at some time. */
struct attempt {
    struct store_act act;
    uint64_t number;     /* the client's when it was sent */
    uint64_t arrives_ns; /* 0: it has */
    uint32_t node;
    int used;
    int answered;
};

struct sim;
struct client {
    struct sim *sim;
    struct attempt attempt[ATTEMPTS];
    uint64_t number; /* client, sequence */
    uint64_t began_ns;
    uint64_t next_ns;
    uint64_t seen;
    uint32_t key;
    uint32_t attempts; /* 0: no operation */
    uint32_t last;
    uint32_t durability;
    int plain;
};

/* A number, and the one that the values began with in which it was seen. */
struct seen {
    uint64_t number;
    uint64_t base;
    int acked;
};

struct sim {
    struct store_cluster *c;
    struct snic_rng rng;
    struct client client[CLIENTS];
    struct seen seen[SEEN_MAX];
    struct snic_store_watch watch[STORE_NODES];
    uint32_t watch_run[STORE_NODES];
    uint64_t watched[STORE_NODES][KEYS]; /* the last version that it saw */
    uint64_t up_ns[STORE_NODES];
    uint64_t calm_ns;
    uint64_t bases;
    uint32_t acked, repeated, unknown, abandoned, shown;
    int mixes; /* operations name their durability */
};

static const char *const sim_key[KEYS] = {"a", "bb", "ccc"};

static uint64_t sim_now(const struct sim *m)
{
    return snic_world_now(m->c->world);
}

static struct seen *sim_seen(struct sim *m, uint64_t number)
{
    uint32_t i = (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SEEN_MAX;
    while (m->seen[i].number != 0 && m->seen[i].number != number)
        i = (i + 1) % SEEN_MAX;
    m->seen[i].number = number;
    return &m->seen[i];
}

/* ---- What is seen ---- */

static void sim_value(struct sim *m, const unsigned char *p, uint32_t size)
{
    uint64_t base = size >= 8 ? snic_get_le64(p) : 0;
    m->shown++;
    if (size < 8 || size % 8 != 0) {
        store_cluster_fail(m->c, "a value that no client wrote");
        return;
    }
    for (uint32_t at = 8; at < size; at += 8) {
        uint64_t number = snic_get_le64(p + at);
        for (uint32_t other = 8; other < at; other += 8) {
            if (snic_get_le64(p + other) == number)
                store_cluster_fail(m->c, "executed twice: a number is twice in a value");
        }
        struct seen *x = sim_seen(m, number);
        if (x->base != 0 && x->base != base)
            store_cluster_fail(m->c, "executed twice: a number is in two values");
        x->base = base;
    }
}

static void sim_drain(struct sim *m, uint32_t node)
{
    struct store_cluster_node *n = &m->c->node[node];
    struct snic_store_watch *w = &m->watch[node];
    struct snic_store_event e;
    if (!n->up || n->paused)
        return;
    if (m->watch_run[node] != n->run) { /* a new process: from now on */
        memset(w, 0, sizeof(*w));
        w->prefix = 1;
        if (snic_store_watch_start(n->s, w) != 0)
            store_cluster_fail(m->c, "snic_store_watch_start");
        m->watch_run[node] = n->run;
        memset(m->watched[node], 0, sizeof(m->watched[node]));
    }
    for (;;) {
        int result = snic_store_watch_next(n->s, w, &e);
        if (result == SNIC_EOVERFLOW)
            memset(m->watched[node], 0, sizeof(m->watched[node]));
        if (result == SNIC_EAGAIN)
            return;
        if (result != 0)
            continue;
        uint32_t k = e.key_size - 1;
        if (k >= KEYS || e.version <= m->watched[node][k])
            store_cluster_fail(m->c, "a watch out of order");
        else
            m->watched[node][k] = e.version;
        if (e.kind == SNIC_STORE_EVENT_PUT)
            sim_value(m, e.data, e.size);
    }
}

/* ---- Clients ---- */

static int sim_append(void *ctx, struct snic_store_change *ch)
{
    const struct attempt *x = ctx;
    unsigned char *out = ch->out;
    uint32_t size = ch->old_size;
    if (size != 0)
        memcpy(out, ch->old, size);
    if (size == 0 || size + 8 > ch->out_max) { /* it begins with this operation */
        snic_put_le64(out, UINT64_C(1) << 62 | x->number);
        size = 8;
    }
    snic_put_le64(out + size, x->number);
    ch->out_size = size + 8;
    ch->keep_ttl = 1;
    ch->answer = x->number;
    return SNIC_STORE_CHANGE_PUT;
}

static struct attempt *sim_attempt(struct client *x)
{
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        struct attempt *a = &x->attempt[i];
        int dead = a->act.pending && a->act.run != x->sim->c->node[a->node].run;
        if (!a->used || (a->arrives_ns == 0 && (!a->act.pending || dead)))
            return a;
    }
    return NULL;
}

/* Of a plain operation the bytes have to stay, too: they are in the attempt. */
static void sim_prepare(struct client *x, struct attempt *a)
{
    struct sim *m = x->sim;
    struct snic_store_op *op = &a->act.op;
    memset(op, 0, sizeof(*op));
    op->key = sim_key[x->key];
    op->key_size = x->key + 1;
    op->durability = x->durability;
    if (x->plain) {
        op->kind = x->plain == 1 ? SNIC_STORE_PUT : SNIC_STORE_DELETE;
        snic_put_le64(a->act.data, UINT64_C(1) << 63 | ++m->bases);
        op->data = x->plain == 1 ? a->act.data : NULL;
        op->size = x->plain == 1 ? 8 : 0;
        op->ttl_ns =
            x->plain == 1 && snic_rng_below(&m->rng, 4) == 0 ? 1000 * (uint64_t)STORE_MS : 0;
        op->condition = snic_rng_below(&m->rng, 3) == 0 ? SNIC_STORE_IF_PRESENT : 0;
        return;
    }
    op->kind = SNIC_STORE_MODIFY;
    op->modify = sim_append;
    op->ctx = a;
    op->client = x->number >> 32;
    op->sequence = x->number & UINT32_MAX;
    op->seen = x->seen;
    op->age_ns = sim_now(m) - x->began_ns;
}

static void sim_send(struct client *x)
{
    struct sim *m = x->sim;
    struct attempt *a = sim_attempt(x);
    if (a == NULL) {
        x->next_ns = sim_now(m) + 100 * STORE_MS;
        return;
    }
    sim_prepare(x, a);
    a->used = 1;
    a->number = x->number;
    a->answered = 0;
    a->node = (uint32_t)snic_rng_below(&m->rng, m->c->o.nodes);
    /* Some arrive long after the client has lost its patience. */
    a->arrives_ns =
        sim_now(m) + 1 +
        (snic_rng_below(&m->rng, 5) == 0 ? snic_rng_below(&m->rng, 3000 * (uint64_t)STORE_MS)
                                         : snic_rng_below(&m->rng, STORE_MS));
    x->last = (uint32_t)(a - x->attempt);
    x->attempts++;
    x->next_ns = sim_now(m) + 20 * STORE_MS + snic_rng_below(&m->rng, 800 * STORE_MS);
}

static void sim_begin(struct client *x)
{
    struct sim *m = x->sim;
    uint64_t dice = snic_rng_below(&m->rng, 100);
    uint64_t seen = 0;
    if (dice < 60) { /* what a read gives; without one the list has to decide alone */
        uint32_t node = (uint32_t)snic_rng_below(&m->rng, m->c->o.nodes);
        x->key = (uint32_t)snic_rng_below(&m->rng, KEYS);
        struct snic_store_entry e;
        if (m->c->node[node].up && !m->c->node[node].paused &&
            snic_store_look(m->c->node[node].s, sim_key[x->key], x->key + 1, &e) == 0)
            seen = e.version;
    } else {
        x->key = (uint32_t)snic_rng_below(&m->rng, KEYS);
    }
    x->plain = dice >= 92 ? 1 : dice >= 90 ? 2 : 0;
    x->number++;
    x->seen = seen;
    x->began_ns = sim_now(m);
    x->attempts = 0;
    x->durability = m->mixes ? (uint32_t)snic_rng_below(&m->rng, SNIC_DDP_DURABILITY_SCOPE) : 0;
    sim_send(x);
}

static void sim_over(struct client *x)
{
    x->attempts = 0;
    x->next_ns = sim_now(x->sim) + snic_rng_below(&x->sim->rng, 60 * STORE_MS);
}

/* What is answered survives the restart of all. */
static int sim_lasts(const struct sim *m, uint32_t durability)
{
    if (durability == SNIC_DDP_DURABILITY_DEFAULT)
        return m->c->o.model == SNIC_DDP_SYNCH || m->c->o.model == SNIC_DDP_STRICT;
    return durability == SNIC_DDP_DURABILITY_ALL;
}

/* The answer to the last attempt counts. */
static void sim_answer(struct client *x, const struct snic_store_op *op)
{
    struct sim *m = x->sim;
    if (op->result == 0 && !x->plain) {
        if (op->answer != x->number)
            store_cluster_fail(m->c, "another operation's answer");
        sim_seen(m, x->number)->acked |= sim_lasts(m, x->durability);
        m->acked++;
        m->repeated += (op->out & SNIC_STORE_REPEATED) != 0;
    }
    if (op->result == SNIC_EUNKNOWN && (op->out & SNIC_STORE_NOT_TRIED) != 0)
        m->unknown++;
    int over = op->result == 0 || op->result == SNIC_ECANCELED || op->result == SNIC_ENOENT ||
               (op->out & SNIC_STORE_NOT_TRIED) != 0;
    if (over || x->plain || x->attempts > 30) {
        m->abandoned += !over;
        sim_over(x);
        return;
    }
    x->next_ns = sim_now(m) + snic_rng_below(&m->rng, 50 * STORE_MS); /* again */
}

static void sim_client(struct client *x)
{
    struct sim *m = x->sim;
    uint64_t now = sim_now(m);
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        struct attempt *a = &x->attempt[i];
        if (!a->used || a->arrives_ns == 0 || a->arrives_ns > now)
            continue;
        a->arrives_ns = 0;
        int result = store_begin(m->c, a->node, &a->act);
        if (result != 0)
            a->answered = 1; /* refused: the client tries again when it has no answer */
    }
    struct attempt *last = &x->attempt[x->last];
    if (x->attempts != 0 && last->arrives_ns == 0 && !last->answered && !last->act.pending &&
        !last->act.lost) {
        last->answered = 1;
        sim_answer(x, &last->act.op);
    } else if (now >= x->next_ns && x->attempts == 0) {
        sim_begin(x);
    } else if (now >= x->next_ns && x->plain) {
        sim_over(x);
    } else if (now >= x->next_ns) {
        sim_send(x);
    }
}

/* ---- Blows ---- */

static void sim_all(struct sim *m)
{
    enum store_death how = snic_rng_below(&m->rng, 2) ? STORE_POWER : STORE_CRASH;
    store_cluster_down_all(m->c, how);
    for (uint32_t n = 0; n < m->c->o.nodes; n++)
        m->up_ns[n] = sim_now(m) + 1 + snic_rng_below(&m->rng, 1000 * (uint64_t)STORE_MS);
    /* Of the rest what was seen may not have happened. */
    for (uint32_t i = 0; i < SEEN_MAX; i++)
        m->seen[i].base = m->seen[i].acked ? m->seen[i].base : 0;
}

/* Datagrams are lost, doubled and late; connections are slow. */
static void sim_links(struct sim *m, uint32_t ppm)
{
    struct snic_net_link l = {.loss_ppm = ppm, .duplicate_ppm = ppm, .reorder_ppm = ppm};
    l.reorder_ns = ppm != 0 ? 3 * STORE_MS : 0;
    l.delay_max_ns = ppm != 0 ? 2 * STORE_MS : 0;
    for (uint32_t a = 0; a < m->c->o.nodes; a++) {
        for (uint32_t b = 0; b < m->c->o.nodes; b++) {
            if (a != b && snic_net_fabric_link(m->c->fabric, a, b, &l) != 0)
                store_cluster_fail(m->c, "a link's numbers");
        }
    }
}

static void sim_disk(struct sim *m, uint32_t node)
{
    struct snic_fault f = {.kind = SNIC_FAULT_DELAY, .after = 1};
    f.repeat = snic_rng_below(&m->rng, 100);
    f.delay_ns = snic_rng_below(&m->rng, 100 * STORE_MS);
    int result = snic_disk_fault(m->c->node[node].disk, &f);
    if (result != 0 && result != SNIC_ENOSPC)
        store_cluster_fail(m->c, "a fault's numbers");
}

static void sim_calm(struct sim *m)
{
    sim_links(m, 0);
    for (uint32_t a = 0; a < m->c->o.nodes; a++) {
        for (uint32_t b = 0; b < m->c->o.nodes; b++)
            snic_net_fabric_partition(m->c->fabric, a, b, 0);
        store_cluster_pause(m->c, a, 0);
    }
}

static void sim_blow(struct sim *m)
{
    uint32_t node = (uint32_t)snic_rng_below(&m->rng, m->c->o.nodes);
    uint32_t other = (uint32_t)snic_rng_below(&m->rng, m->c->o.nodes);
    switch (snic_rng_below(&m->rng, 12)) {
    case 0:
    case 1:
    case 2:
        store_cluster_down(m->c, node, snic_rng_below(&m->rng, 2) ? STORE_POWER : STORE_CRASH);
        m->up_ns[node] = sim_now(m) + 1 + snic_rng_below(&m->rng, 3000 * (uint64_t)STORE_MS);
        break;
    case 3:
        sim_all(m);
        break;
    case 4:
    case 5:
        store_cluster_pause(m->c, node, 1);
        break;
    case 6:
    case 7:
        snic_net_fabric_partition(m->c->fabric, node, other, 1);
        break;
    case 8:
        sim_links(m, (uint32_t)snic_rng_below(&m->rng, 200000));
        break;
    case 9:
        sim_disk(m, node);
        break;
    default:
        break;
    }
    m->calm_ns = sim_now(m) + 100 * STORE_MS + snic_rng_below(&m->rng, 2500 * (uint64_t)STORE_MS);
}

static void sim_nodes(struct sim *m)
{
    if (sim_now(m) >= m->calm_ns) {
        sim_calm(m);
        sim_blow(m);
    }
    for (uint32_t n = 0; n < m->c->o.nodes; n++) {
        if (!m->c->node[n].up && m->up_ns[n] != 0 && sim_now(m) >= m->up_ns[n])
            store_cluster_up(m->c, n, 0);
    }
}

/* ---- The end ---- */

static void sim_last_value(struct sim *m, uint32_t k)
{
    struct store_act *a = &m->c->got;
    uint64_t base;
    for (uint32_t n = 0; n < m->c->o.nodes; n++) {
        int result = store_get(m->c, n, sim_key[k], k + 1);
        if (result != 0 && result != SNIC_ENOENT)
            store_cluster_fail(m->c, "a read after all is calm");
        sim_drain(m, n);
        uint64_t last = m->watched[n][k];
        if (result == 0 && last != 0 && last != a->op.version)
            store_cluster_fail(m->c, "a watch that missed the last change");
    }
    if (a->op.result != 0)
        return;
    sim_value(m, a->data, a->size);
    base = snic_get_le64(a->data);
    for (uint32_t i = 0; i < SEEN_MAX; i++) {
        int found = !m->seen[i].acked || m->seen[i].base != base;
        for (uint32_t at = 8; !found && at < a->size; at += 8)
            found = snic_get_le64(a->data + at) == m->seen[i].number;
        if (!found)
            store_cluster_fail(m->c, "an acknowledged operation is lost");
    }
}

static void sim_scan(struct sim *m, uint32_t node)
{
    static struct snic_store_cursor cursor;
    struct snic_store_entry e;
    uint32_t have = 0, want = 0;
    int result;
    memset(&cursor, 0, sizeof(cursor));
    for (uint32_t k = 0; k < KEYS; k++)
        want |= (store_get(m->c, node, sim_key[k], k + 1) == 0 ? 1u : 0) << k;
    while ((result = snic_store_next(m->c->node[node].s, &cursor, &e)) != SNIC_ENOENT) {
        if (result == 0)
            have |= 1u << (e.key_size - 1);
        else if (result != SNIC_EAGAIN)
            break;
    }
    if (have != want)
        store_cluster_fail(m->c, "a scan that differs from the reads");
}

static void sim_end(struct sim *m)
{
    sim_calm(m);
    for (uint32_t n = 0; n < m->c->o.nodes; n++)
        store_cluster_up(m->c, n, 0);
    if (!store_cluster_settle(m->c))
        store_cluster_fail(m->c, "the nodes do not serve again");
    for (uint32_t i = 0; i < 800 && m->c->failure == NULL; i++) { /* what is on its way arrives */
        store_cluster_run(m->c, PART);
        for (uint32_t x = 0; x < CLIENTS; x++) {
            if (m->client[x].attempts != 0)
                sim_client(&m->client[x]);
        }
        for (uint32_t n = 0; n < m->c->o.nodes; n++)
            sim_drain(m, n);
    }
    for (uint32_t k = 0; k < KEYS && m->c->failure == NULL; k++)
        sim_last_value(m, k);
    for (uint32_t n = 0; n < m->c->o.nodes && m->c->failure == NULL; n++)
        sim_scan(m, n);
    for (uint32_t n = 0; n < m->c->o.nodes && m->c->failure == NULL; n++) {
        if (snic_store_check(m->c->node[n].s) != 0)
            store_cluster_fail(m->c, "snic_store_check");
    }
}

static struct sim *sim_run(uint64_t seed, uint64_t ns)
{
    static const uint32_t models[] = {SNIC_DDP_SYNCH, SNIC_DDP_SYNCH, SNIC_DDP_STRICT,
                                      SNIC_DDP_EVENT};
    struct sim *m = calloc(1, sizeof(*m));
    struct store_cluster_opts o = {.seed = seed};
    snic_rng_init(&m->rng, seed);
    o.model = models[snic_rng_below(&m->rng, 4)];
    o.nodes = snic_rng_below(&m->rng, 4) == 0 ? 5 : 3;
    o.sessions_max = 1 + (uint32_t)snic_rng_below(&m->rng, CLIENTS);
    o.session_window_ns = 60000 * (uint64_t)STORE_MS;
    o.changes_max = snic_rng_below(&m->rng, 4) == 0 ? 8 : 1024;
    o.value_max = 1 + 8 * (8 + (uint32_t)snic_rng_below(&m->rng, 400));
    m->c = store_cluster_new(&o);
    m->mixes = snic_rng_below(&m->rng, 3) == 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        m->client[i].sim = m;
        m->client[i].number = (uint64_t)(i + 1) << 32;
    }
    for (uint32_t n = 0; n < o.nodes; n++)
        store_cluster_up(m->c, n, 1);
    if (!store_cluster_settle(m->c))
        store_cluster_fail(m->c, "the cluster was not founded");
    m->calm_ns = sim_now(m) + 500 * STORE_MS;
    for (uint64_t end = sim_now(m) + ns; sim_now(m) < end && m->c->failure == NULL;) {
        store_cluster_run(m->c, PART / 4);
        sim_nodes(m);
        for (uint32_t i = 0; i < CLIENTS; i++)
            sim_client(&m->client[i]);
        for (uint32_t n = 0; n < o.nodes; n++)
            sim_drain(m, n);
    }
    if (m->c->failure == NULL)
        sim_end(m);
    return m;
}

static void test_store_sim_each_operation_executes_once(void **state)
{
    uint64_t runs = support_rounds(12, 1500);
    const char *one = getenv("SNIC_SIM_SEED");
    uint32_t acked = 0, repeated = 0, unknown = 0, shown = 0;
    (void)state;
    for (uint64_t i = 0; i < (one != NULL ? 1 : runs); i++) {
        uint64_t seed = one != NULL ? strtoull(one, NULL, 0) : support_seed() * 100000 + i;
        struct sim *m = sim_run(seed, 15000 * (uint64_t)STORE_MS);
        if (m->c->failure != NULL)
            print_error("SNIC_SIM_SEED=%llu: %s\n", (unsigned long long)seed, m->c->failure);
        assert_null(m->c->failure);
        acked += m->acked;
        repeated += m->repeated;
        unknown += m->unknown;
        shown += m->shown;
        store_cluster_free(m->c);
        free(m);
    }
    print_message("%u acknowledged, %u of them repeated, %u beyond the bound, %u values seen\n",
                  acked, repeated, unknown, shown);
    assert_true(one != NULL || (acked > 100 && repeated > 0 && unknown > 0));
}

/* ---- All offsets of a few operations ---- */

static void offsets_begin(struct sim *m, struct attempt *a, uint32_t node, uint64_t client,
                          uint64_t number, uint64_t seen)
{
    struct snic_store_op *op = &a->act.op;
    memset(op, 0, sizeof(*op));
    op->key = "a";
    op->key_size = 1;
    op->kind = SNIC_STORE_MODIFY;
    op->modify = sim_append;
    op->ctx = a;
    op->client = client;
    op->sequence = number & UINT32_MAX;
    op->seen = seen;
    a->number = client << 32 | (number & UINT32_MAX);
    int result = store_begin(m->c, node, &a->act);
    assert_int_equal(result, 0);
}

/* The third operation: it replaces, deletes, pushes the client out of the list, changes the TTL. */
static void offsets_third(struct sim *m, struct attempt *a, uint32_t kind, uint64_t number)
{
    struct snic_store_op *op = &a->act.op;
    if (kind == 2) {
        offsets_begin(m, a, 2, 9, number, UINT64_MAX);
        return;
    }
    memset(op, 0, sizeof(*op));
    op->key = "a";
    op->key_size = 1;
    op->kind = kind == 0 ? SNIC_STORE_PUT : kind == 1 ? SNIC_STORE_DELETE : SNIC_STORE_EXPIRE;
    snic_put_le64(a->act.data, UINT64_C(1) << 63 | ++m->bases);
    op->data = kind == 0 ? a->act.data : NULL;
    op->size = kind == 0 ? 8 : 0;
    assert_int_equal(store_begin(m->c, 2, &a->act), 0);
}

static void offsets_run(struct sim *m, uint64_t ns)
{
    store_cluster_run(m->c, ns + 1);
    for (uint32_t n = 0; n < 3; n++)
        sim_drain(m, n);
}

/* One of the two has executed it, or it is beyond the bound; both with one result. */
static void offsets_answers(struct sim *m, const struct attempt *a)
{
    uint32_t executed = 0, repeated = 0, unknown = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const struct snic_store_op *op = &a[i].act.op;
        assert_false(a[i].act.pending);
        if (op->result == 0) {
            assert_true(op->answer == a[i].number);
            repeated += (op->out & SNIC_STORE_REPEATED) != 0;
            executed += (op->out & SNIC_STORE_REPEATED) == 0;
        } else {
            assert_int_equal(op->result, SNIC_EUNKNOWN);
            assert_int_equal(op->out, SNIC_STORE_NOT_TRIED);
            unknown++;
        }
    }
    assert_true(executed <= 1);
    assert_int_equal(executed + repeated + unknown, 2);
    assert_null(m->c->failure);
}

/*
 * An operation, its retry at another node, and a third operation at a third one, begun at all
 * offsets of a grid, in two models: it is executed once, and each answer is that of the execution.
 */
static void test_store_sim_all_offsets_execute_once(void **state)
{
    static const uint32_t models[] = {SNIC_DDP_SYNCH, SNIC_DDP_EVENT};
    uint32_t grid = (uint32_t)support_scale(12, 40);
    uint64_t step = 320000 / grid;
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct sim *m = test_calloc(1, sizeof(*m));
        struct attempt *a = test_calloc(3, sizeof(*a));
        struct store_cluster_opts o = {.seed = support_seed(), .model = models[i]};
        uint64_t number = 0;
        o.sessions_max = 1;
        o.flush_ns_max = 20000;
        o.value_max = 8 * 64;
        m->c = store_cluster_new(&o);
        for (uint32_t n = 0; n < 3; n++)
            store_cluster_up(m->c, n, 1);
        assert_true(store_cluster_settle(m->c));
        for (uint32_t at = 0; at < 4 * grid * grid; at++) {
            uint64_t retry = step * (at % grid), third = step * (at / grid % grid);
            (void)store_get(m->c, 0, "a", 1);
            uint64_t seen = m->c->got.op.seen;
            offsets_begin(m, &a[0], 0, 7, ++number, seen);
            offsets_run(m, snic_min_u64(retry, third));
            if (retry <= third)
                offsets_begin(m, &a[1], 1, 7, number, seen);
            else
                offsets_third(m, &a[2], at / grid / grid, number);
            offsets_run(m, retry < third ? third - retry : retry - third);
            if (retry > third)
                offsets_begin(m, &a[1], 1, 7, number, seen);
            else
                offsets_third(m, &a[2], at / grid / grid, number);
            offsets_run(m, 20 * STORE_MS);
            offsets_answers(m, a);
        }
        store_cluster_free(m->c);
        test_free(a);
        test_free(m);
    }
}

/* The same operation once more, until it is answered: executed once, now or before. */
static void offsets_again(struct sim *m, struct attempt *a, uint32_t node, uint64_t number)
{
    for (uint32_t i = 0;; i++) {
        assert_true(i < 1000);
        struct snic_store_op *op = &a->act.op;
        memset(op, 0, sizeof(*op));
        op->key = "a";
        op->key_size = 1;
        op->kind = SNIC_STORE_MODIFY;
        op->modify = sim_append;
        op->ctx = a;
        op->client = 7;
        op->sequence = number;
        a->number = UINT64_C(7) << 32 | number;
        int result = store_act(m->c, node, &a->act);
        if (result == 0 && !a->act.lost)
            break;
        store_cluster_run(m->c, 50 * STORE_MS);
    }
    assert_true(a->act.op.answer == a->number);
    assert_null(m->c->failure);
}

static uint32_t offsets_count(struct sim *m, uint32_t node, uint64_t number)
{
    uint32_t n = 0;
    assert_int_equal(store_get(m->c, node, "a", 1), 0);
    for (uint32_t at = 8; at < m->c->got.size; at += 8)
        n += snic_get_le64(m->c->got.data + at) == (UINT64_C(7) << 32 | number);
    return n;
}

/*
 * The node of an operation crashes at every moment of it, or all nodes do; the client tries again
 * at another node while the others finish what the node had begun, then at the node itself when it
 * has returned, then after a restart of all: the number is in the value once, each time.
 */
static void test_store_sim_crash_at_each_moment_executes_once(void **state)
{
    uint64_t moments = support_scale(14, 100);
    (void)state;
    for (uint64_t at = 0; at < 2 * moments; at++) {
        struct sim *m = test_calloc(1, sizeof(*m));
        struct attempt *a = test_calloc(2, sizeof(*a));
        struct store_cluster_opts o = {.seed = support_seed() + at};
        int all = at % 2 != 0;
        o.flush_ns_max = 100000;
        m->c = store_cluster_new(&o);
        for (uint32_t n = 0; n < 3; n++)
            store_cluster_up(m->c, n, 1);
        assert_true(store_cluster_settle(m->c));
        offsets_again(m, &a[0], 1, 1); /* so that there is a value */
        offsets_begin(m, &a[0], 0, 7, 2, 0);
        store_cluster_run(m->c, at / 2 * (700000 / moments));
        if (all)
            store_cluster_down_all(m->c, STORE_POWER);
        else
            store_cluster_down(m->c, 0, STORE_POWER);
        for (uint32_t n = 0; all && n < 3; n++)
            store_cluster_up(m->c, n, 0);
        offsets_again(m, &a[1], 1, 2);
        store_cluster_up(m->c, 0, 0);
        assert_true(store_cluster_settle(m->c));
        assert_int_equal(offsets_count(m, 2, 2), 1);
        offsets_again(m, &a[1], 0, 2);
        assert_int_equal(a[1].act.op.out, SNIC_STORE_REPEATED);
        store_cluster_down_all(m->c, STORE_POWER);
        for (uint32_t n = 0; n < 3; n++)
            store_cluster_up(m->c, n, 0);
        assert_true(store_cluster_settle(m->c));
        offsets_again(m, &a[1], 2, 2);
        assert_int_equal(a[1].act.op.out, SNIC_STORE_REPEATED);
        assert_int_equal(offsets_count(m, 0, 2), 1);
        store_cluster_free(m->c);
        test_free(a);
        test_free(m);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_sim_each_operation_executes_once),
        cmocka_unit_test(test_store_sim_all_offsets_execute_once),
        cmocka_unit_test(test_store_sim_crash_at_each_moment_executes_once),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
