/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_ddpnic_world.h"

#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void world_trace(struct nw_world *w, const char *text)
{
    size_t at = strlen(w->trace);
    size_t size = strlen(text) + 1;
    if (w->traced && at + size <= NW_TRACE)
        memcpy(w->trace + at, text, size);
}

struct snic_ddp_key nw_key(uint32_t key)
{
    struct snic_ddp_key k = {{key, 77}};
    return k;
}

/* ---- Handles ---- */

static uint64_t handle_new(struct nw_world *w, uint32_t node, uint64_t content)
{
    if (w->handles == w->handles_max) {
        w->handles_max = w->handles_max * 2 + 1024;
        w->handle = realloc(w->handle, w->handles_max);
        w->handle_content = realloc(w->handle_content, w->handles_max * sizeof(uint64_t));
        assert_non_null(w->handle);
        assert_non_null(w->handle_content);
    }
    w->handle[w->handles] = (uint8_t)(node + 1);
    w->handle_content[w->handles] = content;
    w->handles_live++;
    return w->handles++;
}

static uint64_t handle_content(const struct nw_world *w, uint32_t node, uint64_t h)
{
    assert_true(h < w->handles);
    assert_int_equal(w->handle[h], node + 1);
    return w->handle_content[h];
}

static void handle_free(struct nw_world *w, uint32_t node, uint64_t h)
{
    (void)handle_content(w, node, h);
    w->handle[h] = 0;
    w->handles_live--;
}

/* ---- What was promised ---- */

static void world_wrote(struct nw_world *w, uint32_t key, uint64_t ts, uint64_t content)
{
    for (uint32_t i = 0; i < w->written; i++)
        assert_false(w->write[i].key == key && w->write[i].ts == ts); /* R3 */
    assert_true(w->written < NW_WRITTEN);
    assert_true(ts > w->answered[key] && ts > w->read[key]); /* R2 */
    w->write[w->written].key = key;
    w->write[w->written].ts = ts;
    w->write[w->written++].content = content;
}

static void world_is(const struct nw_world *w, uint32_t key, uint64_t ts, uint64_t content)
{
    if (ts == 0)
        return;
    for (uint32_t i = 0; i < w->written; i++) {
        if (w->write[i].key == key && w->write[i].ts == ts) {
            assert_int_equal(w->write[i].content, content); /* R4 */
            return;
        }
    }
    fail_msg("a timestamp that no write has");
}

/* The highest of the key in that node's log and dFIFO. */
static uint64_t world_durable(const struct nw_world *w, uint32_t node, uint32_t key)
{
    const struct nw_node *n = &w->node[node];
    uint64_t most = n->log[key];
    uint64_t cursor = 0;
    struct snic_ddp_entry e;
    if (!n->up)
        return most; /* nw_crash has put its dFIFO there */
    while (snic_ddpnic_dfifo(n->d, &cursor, &e) == 0) {
        if (e.key.w[0] == key && e.ts > most)
            most = e.ts;
    }
    return most;
}

void nw_promised(struct nw_world *w)
{
    uint32_t model = w->opts.model;
    for (uint32_t n = 0; n < w->nodes; n++) {
        if ((w->view.full >> n & 1) == 0)
            continue;
        for (uint32_t k = 0; k < NW_KEYS; k++) {
            uint64_t has = world_durable(w, n, k);
            if (model == SNIC_DDP_SYNCH || model == SNIC_DDP_STRICT)
                assert_true(has >= w->answered[k]);
            if (model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF)
                assert_true(has >= w->read[k]);
        }
        for (uint32_t s = 0; s < w->ops && model == SNIC_DDP_SCOPE; s++) {
            if (w->op[s].type != SNIC_DDP_SYNC || w->op[s].state != NW_OK)
                continue;
            for (uint32_t i = 0; i < s; i++) {
                if (w->op[i].type != SNIC_DDP_SYNC && w->op[i].scope == w->op[s].scope &&
                    w->op[i].state == NW_OK)
                    assert_true(world_durable(w, n, w->op[i].key) >= w->op[i].ts);
            }
        }
    }
}

int nw_look(struct nw_world *w, uint32_t node, uint32_t key, struct snic_ddpnic_entry *out)
{
    uint64_t cursor = 0;
    while (snic_ddpnic_next(w->node[node].d, &cursor, out) == 0) {
        if (out->host.key.w[0] == key)
            return 1;
    }
    memset(out, 0, sizeof(*out));
    return 0;
}

static int world_member(const struct nw_world *w, uint32_t node)
{
    return w->node[node].up && (w->view.full >> node & 1) != 0;
}

/* After a step: what every node shows, and what nodes report of each other. */
static void world_check(struct nw_world *w, uint32_t stepped)
{
    struct snic_ddpnic_entry a;
    struct snic_ddpnic_entry b;
    w->steps++;
    assert_int_equal(snic_ddpnic_check(w->node[stepped].d), 0);
    if (!world_member(w, stepped) || w->node[stepped].epoch != w->view.epoch)
        return;
    for (uint32_t k = 0; k < NW_KEYS; k++) {
        int known = nw_look(w, stepped, k, &a);
        if (!known || a.host.locked == 0) {
            assert_true(a.host.ts >= w->visible[k]); /* R1 */
            if (a.host.ts > w->read[k])
                w->read[k] = a.host.ts;
            if (a.host.ts > w->visible[k])
                w->visible[k] = a.host.ts;
        }
        if (known && (a.host.flags & SNIC_DDP_MSG_TOMBSTONE) == 0 && a.host.ts != 0)
            world_is(w, k, a.host.ts, handle_content(w, stepped, a.host.value));
        for (uint32_t n = 0; n < w->nodes; n++) {
            if (n == stepped || !world_member(w, n) || w->node[n].epoch != w->view.epoch)
                continue;
            (void)nw_look(w, n, k, &b);
            if (a.host.locked == 0 && b.host.locked == 0)
                assert_true(a.host.ts == b.host.ts); /* 2a */
            assert_true(b.stored >= a.host.seen[0]); /* 2c' */
            if (w->opts.model <= SNIC_DDP_RENF)
                assert_true(world_durable(w, n, k) >= a.host.seen[1]); /* 3b' */
        }
    }
}

/* ---- Actions ---- */

static void op_done(struct nw_world *w, uint32_t node, const struct snic_ddp_action *a)
{
    struct nw_op *o = &w->op[a->token];
    assert_true(a->token < w->ops);
    assert_int_equal(o->state, NW_OPEN);
    assert_int_equal(o->node, node);
    o->ts = a->msg.ts;
    if (a->result == SNIC_EUNKNOWN || (a->result == SNIC_ESTALE && o->type != SNIC_DDP_SYNC)) {
        o->state = NW_UNKNOWN;
        return;
    }
    if (a->result == SNIC_ESTALE) {
        o->state = NW_NONE;
        return;
    }
    o->state = NW_OK;
    if (o->type == SNIC_DDP_READ) {
        assert_true(a->result == 0 || a->result == SNIC_ENOENT);
        assert_true(a->msg.ts >= o->floor);
        if (a->result == 0)
            world_is(w, o->key, a->msg.ts, handle_content(w, node, a->msg.value));
        else
            world_is(w, o->key, a->msg.ts, 0);
        if (a->msg.ts > w->read[o->key])
            w->read[o->key] = a->msg.ts;
        if (a->msg.ts > w->visible[o->key])
            w->visible[o->key] = a->msg.ts;
    } else if (o->type != SNIC_DDP_SYNC) {
        assert_int_equal(a->result, 0);
        if (a->msg.ts > w->answered[o->key])
            w->answered[o->key] = a->msg.ts;
        if (a->msg.ts > w->visible[o->key])
            w->visible[o->key] = a->msg.ts;
    }
}

static void act_send(struct nw_world *w, uint32_t node, const struct snic_ddp_action *a)
{
    struct snic_ddp_msg m = a->msg;
    if (m.type == SNIC_DDP_INV && (m.flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        m.value = handle_content(w, node, m.value);
    if ((w->opts.flags & SNIC_DDPNIC_UNICAST) != 0)
        assert_int_equal(a->to & (a->to - 1), 0);
    for (uint32_t n = 0; n < w->nodes; n++) {
        if ((a->to >> n & 1) == 0)
            continue;
        assert_true(w->messages < NW_MESSAGES);
        m.dst = (uint8_t)n;
        m.dst_incarnation = w->view.incarnation[n];
        w->message[w->messages++] = m;
    }
}

static void act_begin(struct nw_world *w, uint32_t node, const struct snic_ddp_action *a)
{
    struct nw_node *n = &w->node[node];
    struct nw_pending *p = &n->pend[n->pending++];
    assert_true(n->pending < NW_PENDING);
    p->type = a->type;
    p->id = a->id;
    p->m = a->msg;
    if (a->type != SNIC_DDPNIC_MARK && (a->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
        p->m.value = handle_content(w, node, a->msg.value);
    else
        p->m.value = 0;
}

static const char *message_name(uint32_t type)
{
    static const char *const names[] = {"?",       "INV",         "ACK",        "ACK_C",
                                        "ACK_P",   "VAL",         "VAL_C",      "VAL_P",
                                        "PERSIST", "PERSIST_ACK", "PERSIST_VAL"};
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

static void act_trace(struct nw_world *w, uint32_t node, char half, const struct snic_ddp_action *a)
{
    static const char *const begun[] = {"VSTORE", "DSTORE", "DMA", "LOG", "MARK"};
    char text[64];
    if (a->type == SNIC_DDP_SEND)
        (void)snprintf(text, sizeof(text), "%u%c>%x %s; ", node, half, a->to,
                       message_name(a->msg.type));
    else if (a->type == SNIC_DDPNIC_PCIE)
        (void)snprintf(text, sizeof(text), "%u%c:%s %x%s; ", node, half, message_name(a->msg.type),
                       a->msg.index, half == 's' && a->msg.seen[0] != 0 ? " last" : "");
    else if (a->type == SNIC_DDP_DONE)
        (void)snprintf(text, sizeof(text), "%u%c done %d; ", node, half, a->result);
    else if (a->type == SNIC_DDPNIC_WAKE)
        (void)snprintf(text, sizeof(text), "%u%c wake; ", node, half);
    else if (a->type >= SNIC_DDPNIC_VSTORE && a->type <= SNIC_DDPNIC_MARK)
        (void)snprintf(text, sizeof(text), "%u%c %s; ", node, half,
                       begun[a->type - SNIC_DDPNIC_VSTORE]);
    else
        (void)snprintf(text, sizeof(text), "%u%c release; ", node, half);
    world_trace(w, text);
}

static void act(struct nw_world *w, uint32_t node, char half, const struct snic_ddp_action *a)
{
    struct nw_node *n = &w->node[node];
    w->hash = (w->hash ^ a->type ^ a->msg.ts ^ a->to ^ a->token << 8 ^ a->msg.index) *
              UINT64_C(0x100000001b3);
    if (w->traced)
        act_trace(w, node, half, a);
    switch (a->type) {
    case SNIC_DDP_SEND:
        act_send(w, node, a);
        break;
    case SNIC_DDP_DONE:
        op_done(w, node, a);
        break;
    case SNIC_DDP_RELEASE:
        handle_free(w, node, a->msg.value);
        break;
    case SNIC_DDPNIC_PCIE:
    case SNIC_DDPNIC_WAKE:
        if (half == 'h') {
            n->pcie_down[n->down++] = *a;
            assert_true(n->down < NW_PCIE);
        } else {
            n->pcie_back[n->back++] = *a;
            assert_true(n->back < NW_PCIE);
        }
        break;
    case SNIC_DDPNIC_VSTORE:
    case SNIC_DDPNIC_DSTORE:
    case SNIC_DDPNIC_DMA:
    case SNIC_DDPNIC_LOG:
    case SNIC_DDPNIC_MARK:
        act_begin(w, node, a);
        break;
    case SNIC_DDP_SUSPECT:
        n->suspects++;
        n->suspect = a->to;
        break;
    default:
        assert_int_equal(a->type, SNIC_DDP_NEED_EPOCH);
    }
}

int nw_step_nic(struct nw_world *w, uint32_t node, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_nic(w->node[node].d, w->now, ev);
    while (snic_ddpnic_poll_nic(w->node[node].d, &a) != 0)
        act(w, node, 's', &a);
    world_check(w, node);
    return r;
}

int nw_step_host(struct nw_world *w, uint32_t node, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_host(w->node[node].d, w->now, ev);
    while (snic_ddpnic_poll_host(w->node[node].d, &a) != 0) {
        if (a.type == SNIC_DDPNIC_PCIE && a.msg.type == SNIC_DDP_INV && a.msg.seen[1] == 0)
            world_wrote(w, (uint32_t)a.msg.key.w[0], a.msg.ts,
                        (a.msg.flags & SNIC_DDP_MSG_TOMBSTONE) != 0
                            ? 0
                            : handle_content(w, node, a.msg.value));
        act(w, node, 'h', &a);
    }
    world_check(w, node);
    return r;
}

/* ---- What can happen ---- */

int nw_op(struct nw_world *w, uint32_t type, uint32_t node, uint32_t key, uint64_t scope,
          int *result)
{
    struct snic_ddp_event ev;
    struct nw_op *o = &w->op[w->ops];
    assert_true(w->ops < NW_OPS);
    memset(&ev, 0, sizeof(ev));
    ev.type = type;
    ev.key = nw_key(key);
    ev.token = w->ops;
    ev.scope = scope;
    memset(o, 0, sizeof(*o));
    o->type = type;
    o->state = NW_OPEN;
    o->node = node;
    o->key = key;
    o->scope = scope;
    o->floor = w->visible[key];
    if (type == SNIC_DDP_WRITE) {
        ev.value = handle_new(w, node, w->ops + 1);
        ev.length = 8;
    }
    w->ops++;
    int r = nw_step_host(w, node, &ev);
    if (result != NULL)
        *result = r;
    if (r == 0)
        return (int)w->ops - 1;
    if (type == SNIC_DDP_WRITE)
        handle_free(w, node, ev.value);
    w->ops--;
    return -1;
}

int nw_deliver(struct nw_world *w, uint32_t i, int keep)
{
    struct snic_ddp_msg m = w->message[i];
    struct snic_ddp_event ev;
    int value = m.type == SNIC_DDP_INV && (m.flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDP_MESSAGE;
    ev.msg = &m;
    if (!keep) {
        w->messages--;
        memmove(&w->message[i], &w->message[i + 1], (w->messages - i) * sizeof(m));
    }
    if (!w->node[m.dst].up)
        return SNIC_ESTALE;
    if (value)
        m.value = handle_new(w, m.dst, m.value);
    int r = nw_step_nic(w, m.dst, &ev);
    if (r != 0 && value)
        handle_free(w, m.dst, m.value);
    assert_true(r == 0 || r == SNIC_EAGAIN || r == SNIC_ESTALE);
    w->stalls += r == SNIC_EAGAIN;
    return r;
}

int nw_pcie_down(struct nw_world *w, uint32_t node)
{
    struct nw_node *n = &w->node[node];
    struct snic_ddp_msg m = n->pcie_down[0].msg;
    struct snic_ddp_event ev;
    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDPNIC_PCIE;
    ev.msg = &m;
    int r = nw_step_nic(w, node, &ev);
    assert_true(r == 0 || r == SNIC_EAGAIN);
    w->stalls += r == SNIC_EAGAIN;
    if (r == 0) {
        n->down--;
        memmove(n->pcie_down, n->pcie_down + 1, n->down * sizeof(n->pcie_down[0]));
    }
    return r;
}

int nw_pcie_back(struct nw_world *w, uint32_t node)
{
    struct nw_node *n = &w->node[node];
    struct snic_ddp_action a = n->pcie_back[0];
    struct snic_ddp_event ev;
    memset(&ev, 0, sizeof(ev));
    ev.type = a.type;
    ev.key = a.msg.key;
    ev.flags = a.flags;
    ev.msg = &a.msg;
    n->back--;
    memmove(n->pcie_back, n->pcie_back + 1, n->back * sizeof(n->pcie_back[0]));
    int r = nw_step_host(w, node, &ev);
    assert_int_equal(r, 0);
    return r;
}

void nw_complete(struct nw_world *w, uint32_t node, uint32_t i)
{
    struct nw_node *n = &w->node[node];
    struct nw_pending p = n->pend[i];
    struct snic_ddp_event ev;
    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDPNIC_VSTORED + (p.type - SNIC_DDPNIC_VSTORE);
    ev.key = p.m.key;
    ev.ts = p.m.ts;
    ev.id = p.id;
    ev.scope = p.m.scope;
    n->pending--;
    memmove(&n->pend[i], &n->pend[i + 1], (n->pending - i) * sizeof(p));
    if (p.type == SNIC_DDPNIC_LOG && p.m.ts > n->log[p.m.key.w[0]]) {
        n->log[p.m.key.w[0]] = p.m.ts;
        n->log_content[p.m.key.w[0]] = p.m.value;
    }
    assert_int_equal(nw_step_nic(w, node, &ev), 0);
}

/* The i-th of what could happen: 1 if there was one; count is how many there are. */
static int world_one(struct nw_world *w, uint32_t i)
{
    if (i < w->messages) {
        if (snic_rng_below(&w->rng, 1000) < w->lose) {
            w->messages--;
            memmove(&w->message[i], &w->message[i + 1], (w->messages - i) * sizeof(w->message[0]));
            return 1;
        }
        (void)nw_deliver(w, i, snic_rng_below(&w->rng, 1000) < w->twice);
        return 1;
    }
    i -= w->messages;
    for (uint32_t n = 0; n < w->nodes; n++) {
        const struct nw_node *x = &w->node[n];
        if (!x->up)
            continue;
        if (x->down != 0 && i-- == 0) {
            (void)nw_pcie_down(w, n);
            return 1;
        }
        if (x->back != 0 && i-- == 0)
            return nw_pcie_back(w, n), 1;
        if (i < x->pending)
            return nw_complete(w, n, i), 1;
        i -= x->pending;
    }
    return 0;
}

static uint32_t world_count(const struct nw_world *w)
{
    uint32_t count = w->messages;
    for (uint32_t n = 0; n < w->nodes; n++) {
        const struct nw_node *x = &w->node[n];
        if (x->up)
            count += x->pending + (x->down != 0) + (x->back != 0);
    }
    return count;
}

int nw_random(struct nw_world *w)
{
    uint32_t count = world_count(w);
    return count != 0 && world_one(w, (uint32_t)snic_rng_below(&w->rng, count));
}

void nw_calm(struct nw_world *w)
{
    for (int any = 1; any;) {
        any = 0;
        if (w->messages != 0) {
            (void)nw_deliver(w, 0, 0);
            any = 1;
            continue;
        }
        for (uint32_t n = 0; n < w->nodes && !any; n++) {
            struct nw_node *x = &w->node[n];
            if (!x->up)
                continue;
            any = 1;
            if (x->down != 0 && nw_pcie_down(w, n) == 0)
                continue;
            if (x->back != 0)
                (void)nw_pcie_back(w, n);
            else if (x->pending != 0)
                nw_complete(w, n, 0);
            else
                any = 0;
        }
    }
}

void nw_settle(struct nw_world *w)
{
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    w->lose = w->twice = 0;
    for (uint32_t round = 0; round < 200; round++) {
        uint64_t next = SNIC_NEVER;
        /* A PCIe that is stalled may wait for a time-out: after many refusals in a row, time. */
        for (uint32_t i = 0, refused = 0; refused < 100; i++) {
            uint32_t before = w->stalls;
            if (nw_random(w) == 0)
                break;
            refused = w->stalls != before ? refused + 1 : 0;
            assert_true(i < 2000000);
        }
        for (uint32_t n = 0; n < w->nodes; n++) {
            if (w->node[n].up && snic_ddpnic_deadline_ns(w->node[n].d) < next)
                next = snic_ddpnic_deadline_ns(w->node[n].d);
        }
        if (next == SNIC_NEVER && world_count(w) == 0)
            return;
        if (next == SNIC_NEVER)
            continue;
        w->now = next > w->now ? next : w->now;
        for (uint32_t n = 0; n < w->nodes; n++) {
            if (w->node[n].up)
                assert_int_equal(nw_step_nic(w, n, &tick), 0);
        }
    }
    fail_msg("timers never end");
}

void nw_same(struct nw_world *w)
{
    for (uint32_t i = 0; i < w->ops; i++)
        assert_true(w->op[i].state != NW_OPEN || !w->node[w->op[i].node].up);
    for (uint32_t k = 0; k < NW_KEYS; k++) {
        uint64_t ts = 0;
        int first = 1;
        for (uint32_t n = 0; n < w->nodes; n++) {
            struct snic_ddpnic_entry e;
            if (!world_member(w, n))
                continue;
            (void)nw_look(w, n, k, &e);
            assert_true(e.host.locked == 0);
            assert_true(first || e.host.ts == ts);
            assert_true(w->node[n].log[k] == e.host.ts); /* the dFIFO is empty */
            if (e.host.ts != 0)
                world_is(w, k, e.host.ts, w->node[n].log_content[k]);
            ts = e.host.ts;
            first = 0;
        }
    }
    for (uint32_t n = 0; n < w->nodes; n++) {
        struct snic_ddpnic_stats i;
        if (!world_member(w, n))
            continue;
        snic_ddpnic_get_stats(w->node[n].d, &i);
        assert_int_equal(i.host_writes + i.nic_writes + i.waits + i.reads + i.vfifo + i.dfifo, 0);
    }
}

/* ---- Membership ---- */

void nw_notify(struct nw_world *w, uint32_t node)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &w->view};
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE};
    struct nw_node *n = &w->node[node];
    if (!n->up || n->epoch == w->view.epoch)
        return;
    n->epoch = w->view.epoch;
    lease.ts = (w->view.full >> node & 1) != 0 ? SNIC_NEVER : 0;
    assert_int_equal(nw_step_nic(w, node, &ev), 0);
    assert_int_equal(nw_step_host(w, node, &lease), 0);
}

void nw_notify_all(struct nw_world *w)
{
    for (uint32_t n = 0; n < w->nodes; n++)
        nw_notify(w, n);
}

/* A node that is left out serves no more before the others continue: its lease has ended. */
void nw_leave(struct nw_world *w, uint16_t gone)
{
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE};
    for (uint32_t n = 0; n < w->nodes; n++) {
        if ((gone >> n & 1) != 0 && w->node[n].up)
            assert_int_equal(nw_step_host(w, n, &lease), 0);
    }
    w->view.epoch++;
    w->view.full &= (uint16_t)~gone;
}

void nw_crash(struct nw_world *w, uint32_t node)
{
    struct nw_node *n = &w->node[node];
    uint64_t cursor = 0;
    struct snic_ddp_entry e;
    assert_true(n->up);
    while (snic_ddpnic_dfifo(n->d, &cursor, &e) == 0) {
        uint64_t k = e.key.w[0];
        if (e.ts > n->log[k]) {
            n->log[k] = e.ts;
            n->log_content[k] =
                (e.flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? 0 : handle_content(w, node, e.value);
        }
    }
    n->up = 0;
    n->down = n->back = n->pending = 0;
    for (uint32_t h = 0; h < w->handles; h++) {
        if (w->handle[h] == node + 1)
            handle_free(w, node, h);
    }
    for (uint32_t i = 0; i < w->ops; i++) {
        if (w->op[i].node == node && w->op[i].state == NW_OPEN)
            w->op[i].state = NW_UNKNOWN;
    }
}

void nw_start(struct nw_world *w)
{
    w->view.epoch = 1;
    w->view.full = (uint16_t)((1u << w->nodes) - 1);
    for (uint32_t n = 0; n < w->nodes; n++)
        w->view.incarnation[n] = 1;
    nw_notify_all(w);
}

struct nw_world *nw_new(uint64_t seed, uint32_t nodes, const struct snic_ddpnic_opts *opts)
{
    struct nw_world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    snic_rng_init(&w->rng, seed);
    w->nodes = nodes;
    w->opts = *opts;
    for (uint32_t n = 0; n < nodes; n++) {
        struct nw_node *x = &w->node[n];
        struct snic_ddpnic_opts o = *opts;
        o.node = n;
        x->size = snic_ddpnic_memsize(&o);
        assert_true(x->size != 0);
        x->mem = support_guard_alloc(x->size, SNIC_DDPNIC_ALIGN);
        assert_int_equal(snic_ddpnic_init(&x->d, x->mem, x->size, &o), 0);
        x->up = 1;
        x->incarnation = 1;
    }
    return w;
}

void nw_free(struct nw_world *w)
{
    for (uint32_t n = 0; n < w->nodes; n++)
        support_guard_free(w->node[n].mem);
    free(w->handle);
    free(w->handle_content);
    free(w);
}
