/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Nodes: one connection to each, probed once per probe_ns, made again with a back-off when it
 * ended. A node that has not answered a probe for SNIC_STORECLIENT__PROBES_LOST times attempt_ns
 * hangs: its connection is aborted, and with it all attempts that it still owes an answer.
 */
#include "storeclient_priv.h"

static void storeclient_node_fire(struct snic_timer *t, uint64_t now_ns);

/* ---- Attempts ---- */

struct storeclient_attempt *storeclient_attempt_current(const struct snic_storeclient_op *op)
{
    for (struct snic_link *l = op->attempts_list.next; l != &op->attempts_list; l = l->next) {
        struct storeclient_attempt *a = SNIC_CONTAINER(l, struct storeclient_attempt, of_op);
        if (!a->late && !a->ended)
            return a;
    }
    return NULL;
}

/* Its operation needs it no longer. */
void storeclient_attempt_detach(struct storeclient_attempt *a)
{
    SNIC_ASSERT(a->sent); /* C2 */
    snic_link_remove(&a->of_op);
    a->op = NULL;
}

void storeclient_attempt_free(struct storeclient_attempt *a)
{
    SNIC_ASSERT(a->sent && a->op == NULL && a->kind == STORECLIENT_A_OP);
    snic_link_remove(&a->link);
    snic_link_append(&a->node->c->free, &a->link);
}

/* It is answered, or lost: storeclient_settle() looks at it when the door has returned its bytes.
 */
static void storeclient_attempt_end(struct storeclient_attempt *a, int lost)
{
    struct storeclient_node *n = a->node;
    if (a->late) {
        SNIC_ASSERT(n->late > 0);
        n->late--;
    }
    a->ended = 1;
    a->lost = (uint32_t)lost;
    snic_link_remove(&a->link);
    if (a->kind == STORECLIENT_A_OP)
        snic_link_append(&n->c->ended, &a->link);
}

static void storeclient_attempt_sent(struct snic_net_send_req *s)
{
    struct storeclient_attempt *a = SNIC_CONTAINER(s, struct storeclient_attempt, send);
    a->sent = 1;
    if (a->op != NULL)
        a->op->unsent--;
    storeclient_settle(a->node->c);
}

static int storeclient_attempt_send(struct storeclient_node *n, struct storeclient_attempt *a)
{
    a->node = n;
    a->begun_ns = snic_loop_now(n->c->o.loop);
    a->sent = a->late = a->lost = a->ended = 0;
    memset(&a->reply, 0, sizeof(a->reply));
    a->send.done = storeclient_attempt_sent;
    if (snic_net_send(n->conn, &a->send) != 1) {
        n->full = 1;
        a->sent = 1;
        return SNIC_EAGAIN;
    }
    snic_link_remove(&a->link);
    snic_link_append(&n->attempts, &a->link);
    return 0;
}

/* The operation's next attempt, at this node. 0; SNIC_EAGAIN no room there or here. */
int storeclient_node_send(struct storeclient_node *n, struct snic_storeclient_op *op)
{
    struct snic_storeclient *c = n->c;
    SNIC_ASSERT(n->state == STORECLIENT_N_READY &&
                storeclient_attempt_current(op) == NULL); /* C1 */
    if (snic_link_alone(&c->free))
        return SNIC_EAGAIN;
    struct storeclient_attempt *a = SNIC_CONTAINER(c->free.next, struct storeclient_attempt, link);
    a->op = op;
    a->kind = STORECLIENT_A_OP;
    storeclient_request_op(c, a, snic_loop_now(c->o.loop));
    if (storeclient_attempt_send(n, a) != 0) {
        a->op = NULL;
        return SNIC_EAGAIN;
    }
    snic_link_append(&op->attempts_list, &a->of_op);
    op->unsent++;
    n->count++;
    return 0;
}

/* ---- The connection ---- */

static int storeclient_node_words(struct storeclient_node *n, struct storeclient_attempt *a,
                                  const char *const *words, uint32_t count)
{
    storeclient_request_words(a, words, count);
    return storeclient_attempt_send(n, a);
}

static void storeclient_node_probe(struct storeclient_node *n)
{
    static const char *const words[] = {"STORE", "NODES"};
    uint64_t now = snic_loop_now(n->c->o.loop);
    if (!snic_link_alone(&n->probe.link) || !n->probe.sent) {
        uint64_t patience = SNIC_STORECLIENT__PROBES_LOST * n->c->o.attempt_ns;
        if (now - n->probe.begun_ns > patience)
            storeclient_node_abort(n);
        return;
    }
    (void)storeclient_node_words(n, &n->probe, words, 2);
}

void storeclient_node_abort(struct storeclient_node *n)
{
    if (n->conn == NULL || n->state == STORECLIENT_N_CLOSING)
        return;
    n->state = STORECLIENT_N_CLOSING;
    n->serves = 0;
    snic_net_abort(n->conn);
}

static void storeclient_node_malformed(struct storeclient_node *n)
{
    n->c->stats.malformed++;
    storeclient_node_abort(n);
}

static void storeclient_connected(void *ctx, struct snic_net_conn *conn, int error)
{
    struct storeclient_node *n = ctx;
    const char *words[2] = {"AUTH", n->c->password};
    (void)conn;
    if (error != 0)
        return; /* closed follows */
    n->state = STORECLIENT_N_GREETING;
    if (n->c->o.password != NULL)
        (void)storeclient_node_words(n, &n->auth, words, 2);
    storeclient_node_probe(n);
}

/* An address that a node returned. */
static void storeclient_node_found(struct snic_storeclient *c, const struct storeclient_reply *r)
{
    char text[SNIC_STORECLIENT__LINE];
    struct snic_net_addr addr;
    SNIC_ASSERT(r->text_size < sizeof(text));
    memcpy(text, r->text, r->text_size);
    text[r->text_size] = 0;
    memset(&addr, 0, sizeof(addr));
    if (snic_net_addr_parse(&addr, text) == 0 && addr.port != 0)
        storeclient_node_begin(c, &addr);
}

/* A refusal of AUTH or of the probe: the node is tried again after the longest back-off. */
static void storeclient_node_refused(struct storeclient_node *n, int error)
{
    n->c->refusal = error;
    n->backoff_ns = SNIC_STORECLIENT__BACKOFF_MAX;
    storeclient_node_abort(n);
}

static void storeclient_node_probed(struct storeclient_node *n, const struct storeclient_reply *r)
{
    uint64_t rtt = snic_loop_now(n->c->o.loop) - n->probe.begun_ns;
    if (r->error != 0 || r->count == 0) {
        storeclient_node_refused(n, r->error != 0 ? r->error : SNIC_EPROTO);
        return;
    }
    n->rtt_ns = n->rtt_ns == 0 ? rtt + 1 : n->rtt_ns - n->rtt_ns / 8 + rtt / 8 + 1;
    n->serves = r->field[0] == 1;
    n->backoff_ns = 0;
    if (n->state == STORECLIENT_N_GREETING)
        n->state = STORECLIENT_N_READY;
    n->c->refusal = 0;
}

/* The answer to the oldest request is complete. */
static void storeclient_node_answered(struct storeclient_node *n, struct storeclient_attempt *a)
{
    int error = a->reply.error;
    storeclient_attempt_end(a, 0);
    if (a->kind == STORECLIENT_A_PROBE) {
        storeclient_node_probed(n, &a->reply);
    } else if (a->kind == STORECLIENT_A_AUTH) {
        if (error != 0)
            storeclient_node_refused(n, error);
    } else if (error == SNIC_ESTALE || (error == 0 && a->reply.field[0] == SNIC_ESTALE)) {
        n->serves = 0;
    }
}

static void storeclient_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct storeclient_node *n = ctx;
    struct snic_storeclient *c = n->c;
    const char *data = (const char *)buf->data;
    size_t size = buf->size;
    (void)conn;
    while (size > 0 && n->state != STORECLIENT_N_CLOSING) {
        int complete = 0;
        if (snic_link_alone(&n->attempts)) {
            storeclient_node_malformed(n); /* an answer that nothing asked for */
            break;
        }
        struct storeclient_attempt *a =
            SNIC_CONTAINER(n->attempts.next, struct storeclient_attempt, link);
        int64_t used = storeclient_reply_take(&n->parser, a, data, size, &complete);
        if (used < 0) {
            storeclient_node_malformed(n);
            break;
        }
        data += used;
        size -= (size_t)used;
        if (a->kind == STORECLIENT_A_PROBE && a->reply.text_size > 0 && n->parser.bulk == 0) {
            storeclient_node_found(c, &a->reply);
            a->reply.text_size = 0;
        }
        if (complete == STORECLIENT_REPLY_DONE)
            storeclient_node_answered(n, a);
    }
    snic_net_put(c->o.net, buf);
    storeclient_settle(c);
}

static void storeclient_writable(void *ctx, struct snic_net_conn *conn)
{
    struct storeclient_node *n = ctx;
    (void)conn;
    n->full = 0;
    storeclient_settle(n->c);
}

static void storeclient_eof(void *ctx, struct snic_net_conn *conn)
{
    (void)conn;
    storeclient_node_abort(ctx);
}

static void storeclient_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    struct storeclient_node *n = ctx;
    struct snic_storeclient *c = n->c;
    (void)conn;
    (void)reason;
    while (!snic_link_alone(&n->attempts))
        storeclient_attempt_end(SNIC_CONTAINER(n->attempts.next, struct storeclient_attempt, link),
                                1);
    SNIC_ASSERT(n->late == 0);
    c->stats.broken++;
    n->conn = NULL;
    n->state = STORECLIENT_N_IDLE;
    n->serves = 0;
    n->full = 0;
    n->backoff_ns =
        snic_min_u64(SNIC_STORECLIENT__BACKOFF_MAX, snic_max_u64(c->o.retry_ns, 2 * n->backoff_ns));
    if (!c->stopped)
        snic_loop_arm(c->o.loop, &n->timer, snic_loop_now(c->o.loop) + n->backoff_ns);
    storeclient_settle(c);
}

static void storeclient_node_connect(struct storeclient_node *n)
{
    static const struct snic_net_stream_events events = {.connected = storeclient_connected,
                                                         .recv = storeclient_recv,
                                                         .eof = storeclient_eof,
                                                         .writable = storeclient_writable,
                                                         .closed = storeclient_closed};
    memset(&n->parser, 0, sizeof(n->parser));
    n->state = STORECLIENT_N_CONNECTING;
    if (snic_net_connect(n->c->o.net, &n->addr, &events, n, &n->conn) != 0) {
        n->conn = NULL;
        n->state = STORECLIENT_N_IDLE;
        n->c->stats.broken++;
    }
}

static void storeclient_node_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct storeclient_node *n = SNIC_CONTAINER(t, struct storeclient_node, timer);
    struct snic_storeclient *c = n->c;
    uint64_t next = c->o.probe_ns;
    switch (n->state) {
    case STORECLIENT_N_IDLE:
        storeclient_node_connect(n);
        n->probe.begun_ns = now_ns; /* of the attempt to connect */
        break;
    case STORECLIENT_N_CONNECTING:
        if (now_ns - n->probe.begun_ns > SNIC_STORECLIENT__PROBES_LOST * c->o.attempt_ns)
            storeclient_node_abort(n);
        break;
    case STORECLIENT_N_GREETING:
    case STORECLIENT_N_READY:
        storeclient_node_probe(n);
        break;
    default:
        break;
    }
    if (n->state == STORECLIENT_N_IDLE)
        next = SNIC_STORECLIENT__BACKOFF_MAX;
    if (!t->armed)
        snic_loop_arm(c->o.loop, t, now_ns + next);
    storeclient_settle(c);
}

/* A place for one more node: a free one, or that of a node which has no connection and has not been
 * named for the longest time, as one that was removed or moved elsewhere. NULL: none. */
static struct storeclient_node *storeclient_node_place(struct snic_storeclient *c)
{
    uint64_t now = snic_loop_now(c->o.loop);
    struct storeclient_node *best = NULL;
    if (c->nodes < SNIC_STORECLIENT_NODES_MAX)
        return &c->node[c->nodes++];
    for (uint32_t i = 0; i < c->nodes; i++) {
        struct storeclient_node *n = &c->node[i];
        if (n->state == STORECLIENT_N_IDLE && n->auth.sent && n->probe.sent &&
            now - n->named_ns > SNIC_STORECLIENT__UNNAMED * c->o.probe_ns &&
            (best == NULL || n->named_ns < best->named_ns))
            best = n;
    }
    if (best != NULL)
        snic_loop_cancel(c->o.loop, &best->timer);
    return best;
}

/* A node that the options or another node name: it is known, or begins, or has no place. */
void storeclient_node_begin(struct snic_storeclient *c, const struct snic_net_addr *addr)
{
    char text[SNIC_STORECLIENT__LINE], other[SNIC_STORECLIENT__LINE];
    if (c->stopped)
        return;
    (void)snic_net_addr_format(addr, text, sizeof(text));
    for (uint32_t i = 0; i < c->nodes; i++) {
        (void)snic_net_addr_format(&c->node[i].addr, other, sizeof(other));
        if (strcmp(text, other) == 0) {
            c->node[i].named_ns = snic_loop_now(c->o.loop);
            return;
        }
    }
    struct storeclient_node *n = storeclient_node_place(c);
    if (n == NULL)
        return;
    memset(n, 0, sizeof(*n));
    n->c = c;
    n->named_ns = snic_loop_now(c->o.loop);
    n->addr = *addr;
    n->state = STORECLIENT_N_IDLE;
    snic_link_init(&n->attempts);
    n->auth.kind = STORECLIENT_A_AUTH;
    n->probe.kind = STORECLIENT_A_PROBE;
    n->auth.sent = n->probe.sent = 1;
    n->auth.node = n->probe.node = n;
    snic_link_init(&n->auth.link);
    snic_link_init(&n->probe.link);
    snic_timer_init(&n->timer, storeclient_node_fire);
    snic_loop_arm(c->o.loop, &n->timer, 0);
}

/* The node for an attempt: of those that serve the nearest that is not late, one that was not tried
 * if there is one. Its number; -1: none now. */
int storeclient_node_choose(struct snic_storeclient *c, uint32_t tried)
{
    uint64_t best_cost = UINT64_MAX;
    int best = -1;
    for (uint32_t i = 0; i < c->nodes; i++) {
        const struct storeclient_node *n = &c->node[i];
        if (n->state != STORECLIENT_N_READY || n->full)
            continue;
        uint64_t cost = n->rtt_ns;
        cost += n->late != 0 ? c->o.attempt_ns : 0;
        cost += n->serves ? 0 : 4 * c->o.attempt_ns;
        cost += (tried >> i & 1) != 0 ? 16 * c->o.attempt_ns : 0;
        if (cost < best_cost) {
            best_cost = cost;
            best = (int)i;
        }
    }
    return best;
}

void storeclient_nodes_stop(struct snic_storeclient *c)
{
    for (uint32_t i = 0; i < c->nodes; i++) {
        snic_loop_cancel(c->o.loop, &c->node[i].timer);
        storeclient_node_abort(&c->node[i]);
    }
}
