/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The protocol of ddp by example: three nodes, every event and every action, compared with
 * tests/golden/ddp_*.txt. Messages and completions of the logs happen in the order in which they
 * were sent, one after the other.
 */
#include "golden.h"
#include "snicstore/ddp.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

#define TRACE_NODES 3
#define TRACE_QUEUE 128
#define TRACE_SCOPE 7

struct trace_event {
    uint32_t node; /* where it happens */
    struct snic_ddp_event ev;
    struct snic_ddp_msg msg;
};

struct trace {
    struct golden *g;
    struct snic_ddp *node[TRACE_NODES];
    void *mem[TRACE_NODES];
    uint32_t down; /* mask of nodes that have failed */
    struct snic_ddp_view view;
    uint64_t now;
    uint64_t token;
    uint64_t scope;                        /* of all writes, model Scope only */
    struct trace_event queue[TRACE_QUEUE]; /* messages and completions, oldest first */
    uint32_t queued;
};

/* ---- As text ---- */

static const char *const trace_messages[] = {
    "?",     "INV",     "ACK",         "ACK_C",       "ACK_P", "VAL", "VAL_C",
    "VAL_P", "PERSIST", "PERSIST_ACK", "PERSIST_VAL", "QUERY", "NACK"};

static const char *trace_nodes(uint32_t mask, char out[32])
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < TRACE_NODES; i++) {
        if ((mask >> i & 1) != 0)
            n += (size_t)snprintf(out + n, 32 - n, "%s%u", n == 0 ? "" : ",", i);
    }
    return out;
}

/* A timestamp: epoch, version, node. */
static const char *trace_ts(uint64_t ts, char out[48])
{
    (void)snprintf(out, 48, "%u.%u.%u", snic_ddp_ts_epoch(ts), (unsigned)snic_ddp_ts_version(ts),
                   snic_ddp_ts_node(ts));
    return out;
}

/* A key, and what it gets at which timestamp. */
static const char *trace_value(const struct snic_ddp_msg *m, int value, char out[96])
{
    char ts[48];
    int n = snprintf(out, 96, "key %c %s", (char)('a' + m->key.w[0]), trace_ts(m->ts, ts));
    if (value && (m->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        (void)snprintf(out + n, 96 - (size_t)n, " deleted");
    else if (value)
        (void)snprintf(out + n, 96 - (size_t)n, " = %u", (unsigned)m->value);
    return out;
}

static const char *trace_message(const struct snic_ddp_msg *m, char out[160])
{
    char value[96];
    if (m->scope != 0 && m->type >= SNIC_DDP_PERSIST && m->type <= SNIC_DDP_PERSIST_VAL)
        (void)snprintf(out, 160, "%s scope %u", trace_messages[m->type], (unsigned)m->scope);
    else
        (void)snprintf(out, 160, "%s %s%s%s", trace_messages[m->type],
                       trace_value(m, m->type == SNIC_DDP_INV, value),
                       (m->flags & SNIC_DDP_MSG_REPLAY) != 0 ? ", replay" : "",
                       m->type == SNIC_DDP_QUERY && (m->flags & SNIC_DDP_MSG_LOCKED) != 0
                           ? ", still under way"
                           : "");
    return out;
}

/* ---- Actions ---- */

static void trace_queue(struct trace *t, uint32_t node, const struct snic_ddp_event *ev,
                        const struct snic_ddp_msg *m)
{
    assert_true(t->queued < TRACE_QUEUE);
    struct trace_event *e = &t->queue[t->queued++];
    memset(e, 0, sizeof(*e));
    e->node = node;
    e->ev = *ev;
    if (m != NULL)
        e->msg = *m;
}

static void trace_send(struct trace *t, uint32_t node, const struct snic_ddp_action *a)
{
    char to[32];
    char message[160];
    golden_line(t->g, "    node %u -> node%s %s: %s", node, (a->to & (a->to - 1)) != 0 ? "s" : "",
                trace_nodes(a->to, to), trace_message(&a->msg, message));
    for (uint32_t n = 0; n < TRACE_NODES; n++) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE};
        struct snic_ddp_msg m = a->msg;
        m.dst = (uint8_t)n;
        m.dst_incarnation = t->view.incarnation[n];
        if ((a->to >> n & 1) != 0)
            trace_queue(t, n, &ev, &m);
    }
}

static void trace_done(struct trace *t, uint32_t node, const struct snic_ddp_action *a)
{
    char value[96];
    if (a->result != 0)
        golden_line(t->g, "    node %u -> client: request %u: %s", node, (unsigned)a->token,
                    snic_strerror(a->result));
    else if (a->msg.ts == 0)
        golden_line(t->g, "    node %u -> client: request %u done", node, (unsigned)a->token);
    else
        golden_line(t->g, "    node %u -> client: request %u done: %s", node, (unsigned)a->token,
                    trace_value(&a->msg, a->msg.value != 0, value));
}

static void trace_action(struct trace *t, uint32_t node, const struct snic_ddp_action *a)
{
    char value[96];
    char nodes[32];
    struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED, .key = a->msg.key, .ts = a->msg.ts};
    switch (a->type) {
    case SNIC_DDP_SEND:
        trace_send(t, node, a);
        break;
    case SNIC_DDP_APPEND:
        golden_line(t->g, "    node %u: append to the log: %s%s", node,
                    trace_value(&a->msg, 1, value),
                    (a->flags & SNIC_DDP_BACKGROUND) != 0 ? ", no client waits for it" : "");
        trace_queue(t, node, &ev, NULL);
        break;
    case SNIC_DDP_FLUSH:
        golden_line(t->g, "    node %u: flush the log", node);
        ev.type = SNIC_DDP_FLUSHED;
        ev.id = a->id;
        trace_queue(t, node, &ev, NULL);
        break;
    case SNIC_DDP_DONE:
        trace_done(t, node, a);
        break;
    case SNIC_DDP_RELEASE:
        golden_line(t->g, "    node %u: value %u is no longer needed", node,
                    (unsigned)a->msg.value);
        break;
    case SNIC_DDP_SUSPECT:
        golden_line(t->g, "    node %u: slow nodes: %s", node, trace_nodes(a->to, nodes));
        break;
    default:
        fail_msg("action %u", a->type);
    }
}

static void trace_step(struct trace *t, uint32_t node, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    assert_int_equal(snic_ddp_step(t->node[node], t->now, ev), 0);
    while (snic_ddp_poll(t->node[node], &a) != 0)
        trace_action(t, node, &a);
    assert_int_equal(snic_ddp_check(t->node[node]), 0);
}

/* ---- Events ---- */

/* Runs the oldest message or completion. */
static void trace_next(struct trace *t)
{
    struct trace_event e = t->queue[0];
    char message[160];
    char ts[48];
    memmove(t->queue, t->queue + 1, --t->queued * sizeof(t->queue[0]));
    if (e.ev.type == SNIC_DDP_MESSAGE) {
        e.ev.msg = &e.msg;
        if (e.msg.epoch != t->view.epoch)
            return; /* of an epoch that is over: dropped */
        golden_line(t->g, "node %u <- node %u: %s", e.node, e.msg.src,
                    trace_message(&e.msg, message));
    } else if (e.ev.type == SNIC_DDP_APPENDED) {
        golden_line(t->g, "node %u: durable: key %c %s", e.node, (char)('a' + e.ev.key.w[0]),
                    trace_ts(e.ev.ts, ts));
    } else {
        golden_line(t->g, "node %u: the log is flushed", e.node);
    }
    trace_step(t, e.node, &e.ev);
}

static void trace_run(struct trace *t)
{
    while (t->queued > 0)
        trace_next(t);
}

/* Messages and completions of nodes in @p mask are lost. */
static void trace_lose(struct trace *t, uint32_t mask)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->queued; i++) {
        if ((mask >> t->queue[i].node & 1) == 0)
            t->queue[kept++] = t->queue[i];
    }
    t->queued = kept;
}

static void trace_client(struct trace *t, uint32_t node, uint32_t type, uint32_t key,
                         uint64_t value)
{
    struct snic_ddp_event ev = {
        .type = type, .key = {{key, 0}}, .token = ++t->token, .value = value, .length = 4};
    if (type != SNIC_DDP_READ)
        ev.scope = t->scope;
    if (type == SNIC_DDP_WRITE)
        golden_line(t->g, "node %u <- client: request %u: write key %c = %u", node,
                    (unsigned)t->token, (char)('a' + key), (unsigned)value);
    else if (type == SNIC_DDP_READ)
        golden_line(t->g, "node %u <- client: request %u: read key %c", node, (unsigned)t->token,
                    (char)('a' + key));
    else
        golden_line(t->g, "node %u <- client: request %u: make scope %u durable", node,
                    (unsigned)t->token, (unsigned)ev.scope);
    trace_step(t, node, &ev);
}

/* Time passes until the next timer of a node that is up. */
static void trace_timer(struct trace *t)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
    uint64_t next = SNIC_NEVER;
    for (uint32_t n = 0; n < TRACE_NODES; n++) {
        if ((t->down >> n & 1) == 0)
            next = snic_min_u64(next, snic_ddp_deadline_ns(t->node[n]));
    }
    assert_true(next > t->now && next != SNIC_NEVER);
    golden_line(t->g, "after %u.%u ms:", (unsigned)((next - t->now) / 1000000),
                (unsigned)((next - t->now) / 100000 % 10));
    t->now = next;
    for (uint32_t n = 0; n < TRACE_NODES; n++) {
        if ((t->down >> n & 1) == 0 && snic_ddp_deadline_ns(t->node[n]) <= t->now)
            trace_step(t, n, &ev);
    }
}

/* The next membership: the nodes of @p full. */
static void trace_view(struct trace *t, uint16_t full)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &t->view};
    char nodes[32];
    t->view.epoch++;
    t->view.full = full;
    golden_line(t->g, "membership: epoch %u, nodes %s", t->view.epoch, trace_nodes(full, nodes));
    for (uint32_t n = 0; n < TRACE_NODES; n++) {
        struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = UINT64_C(60000000000)};
        if ((full >> n & 1) == 0)
            continue;
        trace_step(t, n, &ev);
        trace_step(t, n, &lease);
    }
}

/* Three nodes of @p model; the trace continues in @p g. */
static void trace_nodes_begin(struct trace *t, struct golden *g, uint32_t model)
{
    memset(t, 0, sizeof(*t));
    t->g = g;
    t->scope = model == SNIC_DDP_SCOPE ? TRACE_SCOPE : 0;
    for (uint32_t n = 0; n < TRACE_NODES; n++) {
        struct snic_ddp_opts o = {.opts_size = sizeof(o),
                                  .model = model,
                                  .node = n,
                                  .keys_max = 4,
                                  .writes_max = 4,
                                  .waits_max = 4,
                                  .reads_max = 4,
                                  .scopes_max = 1};
        size_t size = snic_ddp_memsize(&o);
        t->mem[n] = support_guard_alloc(size, SNIC_DDP_ALIGN);
        assert_int_equal(snic_ddp_init(&t->node[n], t->mem[n], size, &o), 0);
        t->view.incarnation[n] = 1;
    }
    trace_view(t, 7);
}

static void trace_nodes_end(struct trace *t)
{
    assert_int_equal(t->queued, 0);
    for (uint32_t n = 0; n < TRACE_NODES; n++)
        support_guard_free(t->mem[n]);
}

/* ---- The traces ---- */

/* What all traces have in common. */
static struct golden *trace_begin(const char *name, const char *title)
{
    struct golden *g = golden_begin(name);
    golden_note(g, title);
    golden_note(g,
                "Three nodes hold every key; any of them takes reads and writes, and coordinates "
                "what it takes. An unindented line is an event at a node, the indented ones are "
                "its actions. A timestamp is epoch.version.node; of two writes the one with the "
                "higher timestamp wins. Written by tests/ddp/test_ddp_golden.c, see "
                "include/snicstore/ddp.h.");
    return g;
}

static void test_ddp_golden_write(void **state)
{
    struct trace t;
    (void)state;
    struct golden *g = trace_begin("ddp_write", "A write and reads, model Synch.");
    trace_nodes_begin(&t, g, SNIC_DDP_SYNCH);
    golden_note(g, "Node 0 applies the write at once, locks the key for reads, and invalidates it "
                   "on the other nodes. All three append it to their logs.");
    trace_client(&t, 0, SNIC_DDP_WRITE, 0, 10);
    golden_note(g, "INV locks the key at the follower, too.");
    trace_next(&t);
    golden_note(g, "A read of a locked key waits: the value may still be lost.");
    trace_client(&t, 1, SNIC_DDP_READ, 0, 0);
    golden_note(g, "In Synch an ACK means stored and durable, so a follower sends it when its log "
                   "has the write. With both ACKs and its own log node 0 knows the write to be "
                   "complete: it unlocks the key, answers the client and validates the followers, "
                   "which unlock it and answer reads that wait.");
    trace_run(&t);
    golden_note(g, "Reads are local: no message.");
    trace_client(&t, 2, SNIC_DDP_READ, 0, 0);
    trace_nodes_end(&t);
    golden_end(g);
}

static void test_ddp_golden_conflict(void **state)
{
    struct trace t;
    (void)state;
    struct golden *g = trace_begin("ddp_conflict", "Two nodes write a key at the same time, model "
                                                   "Synch.");
    trace_nodes_begin(&t, g, SNIC_DDP_SYNCH);
    golden_note(g,
                "Neither coordinator knows of the other's write. Both make version 2; the number "
                "of the node decides: 1.2.1 is higher than 1.2.0.");
    trace_client(&t, 0, SNIC_DDP_WRITE, 0, 10);
    trace_client(&t, 1, SNIC_DDP_WRITE, 0, 20);
    golden_note(g,
                "Node 1 has a newer write than 1.2.0, so it only acknowledges: an ACK means that "
                "the key has this write or a newer one, durable. Node 0 is overtaken: it takes "
                "the value of 1.2.1, keeps its own write in flight, and still answers its client "
                "when all have acknowledged.");
    trace_run(&t);
    golden_note(g, "All nodes agree.");
    for (uint32_t n = 0; n < TRACE_NODES; n++)
        trace_client(&t, n, SNIC_DDP_READ, 0, 0);
    trace_nodes_end(&t);
    golden_end(g);
}

static void test_ddp_golden_failed_node(void **state)
{
    struct trace t;
    (void)state;
    struct golden *g =
        trace_begin("ddp_failed_node", "A coordinator fails in the middle of a write, "
                                       "model Synch.");
    trace_nodes_begin(&t, g, SNIC_DDP_SYNCH);
    trace_client(&t, 0, SNIC_DDP_WRITE, 0, 10);
    golden_note(g, "Node 0 fails. Its INV reached node 1 and was lost on the way to node 2.");
    t.down = 1;
    trace_lose(&t, 1 << 0 | 1 << 2);
    trace_next(&t);
    trace_client(&t, 1, SNIC_DDP_READ, 0, 0);
    trace_next(&t);
    trace_lose(&t, t.down);
    golden_note(g, "No VAL comes. Node 1 asks the coordinator what became of the write.");
    trace_timer(&t);
    trace_lose(&t, t.down);
    golden_note(g, "The membership service excludes node 0 (snicstore/member.h). Messages of epoch "
                   "1 do not count any more.");
    trace_view(&t, 6);
    golden_note(g, "Node 1 repeats the write with its timestamp, under its own name: a replay. Any "
                   "node that has the write may do so, any number of times.");
    trace_timer(&t);
    trace_run(&t);
    golden_note(g, "The write is complete on all members, so it can be read. Node 0's client never "
                   "got an answer: whether its write happened was open until now.");
    trace_client(&t, 2, SNIC_DDP_READ, 0, 0);
    trace_nodes_end(&t);
    golden_end(g);
}

static void test_ddp_golden_models(void **state)
{
    static const char *const note[] = {
        [SNIC_DDP_SYNCH] = "Synch: answered and readable when durable on all nodes. One "
                           "acknowledgement, one validation.",
        [SNIC_DDP_STRICT] = "Strict: readable when stored on all nodes (ACK_C, VAL_C), answered "
                            "when durable on all (ACK_P, VAL_P).",
        [SNIC_DDP_RENF] = "REnf (read-enforced): answered when stored on all nodes, readable when "
                          "durable on all. What was read survives the failure of all nodes.",
        [SNIC_DDP_EVENT] =
            "Event: answered and readable when stored on all nodes; logs follow when "
            "it is convenient. Durability is not acknowledged.",
        [SNIC_DDP_SCOPE] = "Scope: as Event, but a client groups its writes in scopes and makes a "
                           "scope durable on all nodes with one request.",
    };
    struct trace t;
    (void)state;
    struct golden *g = trace_begin("ddp_models", "The same write in each of the five models.");
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        golden_note(g, note[model]);
        trace_nodes_begin(&t, g, model);
        trace_client(&t, 0, SNIC_DDP_WRITE, 0, 10);
        trace_run(&t);
        if (model == SNIC_DDP_SCOPE) {
            golden_note(g, "Every node flushes its log to the end as of now: no list of keys is "
                           "needed.");
            trace_client(&t, 0, SNIC_DDP_SYNC, 0, 0);
            trace_run(&t);
        }
        trace_nodes_end(&t);
    }
    golden_end(g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_golden_write),
        cmocka_unit_test(test_ddp_golden_conflict),
        cmocka_unit_test(test_ddp_golden_failed_node),
        cmocka_unit_test(test_ddp_golden_models),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
