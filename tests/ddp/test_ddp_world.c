/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_ddp_world.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>

enum { HANDLES = 1 << 16 };

struct snic_ddp_key world_key(uint32_t key)
{
    struct snic_ddp_key k = {{UINT64_C(0x1000) + key, key * 7}};
    return k;
}

static uint32_t world_key_of(const struct snic_ddp_key *k)
{
    return (uint32_t)(k->w[0] - 0x1000);
}

/* ---- Handles ---- */

static uint64_t world_handle(struct world *w, uint32_t node, uint64_t content)
{
    uint64_t h = w->handles++;
    assert_true(h < HANDLES);
    w->handle[h] = (uint8_t)(node + 1);
    w->handle_content[h] = content;
    w->handles_live++;
    return h;
}

static uint64_t world_content(const struct world *w, uint32_t node, uint64_t h)
{
    assert_true(h < w->handles);
    assert_int_equal(w->handle[h], node + 1); /* alive, and this node's */
    return w->handle_content[h];
}

static void world_unhandle(struct world *w, uint32_t node, uint64_t h)
{
    (void)world_content(w, node, h);
    w->handle[h] = 0;
    w->handles_live--;
}

/* ---- What was written ---- */

/* One timestamp has one value, everywhere and for ever (R3, R4). */
static struct world_written *world_wrote(struct world *w, uint32_t key, uint64_t ts,
                                         uint64_t content)
{
    for (uint32_t i = 0; i < w->written; i++) {
        struct world_written *x = &w->write[i];
        if (x->key == key && x->ts == ts) {
            assert_int_equal(x->content, content);
            return x;
        }
    }
    assert_true(w->written < WORLD_WRITTEN);
    struct world_written *x = &w->write[w->written++];
    x->key = key;
    x->ts = ts;
    x->content = content;
    x->seen = 0;
    return x;
}

static int world_is_tombstone(const struct world *w, uint32_t key, uint64_t ts)
{
    for (uint32_t i = 0; i < w->written; i++) {
        if (w->write[i].key == key && w->write[i].ts == ts)
            return w->write[i].content == 0;
    }
    return 0;
}

/* Was the key deleted at or after that timestamp? Perhaps by a client that was never answered. */
static int world_deleted(const struct world *w, uint32_t key, uint64_t ts)
{
    for (uint32_t i = 0; i < w->written; i++) {
        if (w->write[i].key == key && w->write[i].ts >= ts && w->write[i].content == 0)
            return 1;
    }
    return ts == 0;
}

static void world_saw(struct world *w, uint32_t key, uint64_t ts, uint64_t content)
{
    if (ts == 0)
        return;
    world_wrote(w, key, ts, content)->seen = 1;
    w->visible[key] = snic_max_u64(w->visible[key], ts);
}

/* ---- Actions ---- */

static void world_fold(struct world *w, uint64_t v)
{
    w->hash = (w->hash ^ v) * UINT64_C(0x100000001b3);
}

static void world_send(struct world *w, uint32_t node, const struct snic_ddp_action *a)
{
    struct snic_ddp_msg m = a->msg;
    int carries =
        (m.type == SNIC_DDP_INV || m.type == SNIC_DDP_NACK || m.type == SNIC_DDP_RECORD) &&
        (m.flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    m.value = carries ? world_content(w, node, m.value) : 0;
    int probe = m.type == SNIC_DDP_INV && (m.flags & SNIC_DDP_MSG_LOCKED) != 0;
    if ((m.type == SNIC_DDP_INV || m.type == SNIC_DDP_RECORD) && m.ts != 0 && !probe)
        (void)world_wrote(w, world_key_of(&m.key), m.ts, m.value);
    for (uint32_t n = 0; n < w->nodes; n++) {
        if ((a->to >> n & 1) == 0)
            continue;
        assert_true(n != node);
        m.dst = (uint8_t)n;
        m.dst_incarnation = w->node[node].view.incarnation[n];
        uint32_t copies = 1;
        if (snic_rng_below(&w->rng, 1000) < w->lose)
            copies = 0;
        else if (snic_rng_below(&w->rng, 1000) < w->twice)
            copies = 2;
        for (; copies > 0 && w->messages < WORLD_MESSAGES; copies--)
            w->message[w->messages++].m = m;
    }
    assert_int_equal(a->to >> w->nodes, 0);
}

static void world_append(struct world *w, uint32_t node, const struct snic_ddp_action *a)
{
    struct world_node *n = &w->node[node];
    assert_true(n->logged < WORLD_LOG);
    struct world_record *r = &n->log[n->logged++];
    memset(r, 0, sizeof(*r));
    r->key = a->msg.key;
    r->ts = a->msg.ts;
    r->scope = a->msg.scope;
    r->length = a->msg.length;
    r->tombstone = (a->flags & SNIC_DDP_MSG_TOMBSTONE) != 0;
    r->void_flags = a->flags & (SNIC_DDP_REPLACES | SNIC_DDP_DROPS);
    r->content = r->tombstone ? 0 : world_content(w, node, a->msg.value);
    r->reported = (a->flags & SNIC_DDP_DROPS) != 0;
    if (!r->reported)
        (void)world_wrote(w, world_key_of(&r->key), r->ts, r->content);
}

/* A read's answer, or what a CAS that lost returns of the key. */
static void world_read_done(struct world *w, struct world_op *o, const struct snic_ddp_action *a)
{
    int gone =
        a->result == SNIC_ENOENT || (a->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 || a->msg.ts == 0;
    if (gone) {
        assert_true(a->msg.ts >= o->floor ||
                    (a->msg.ts == 0 && world_deleted(w, o->key, o->floor)));
        o->content = 0;
    } else {
        assert_true(a->msg.ts >= o->floor); /* not older than what was seen before it began */
        o->content = world_content(w, o->node, a->msg.value);
    }
    o->ts = a->msg.ts;
    world_saw(w, o->key, a->msg.ts, o->content);
    w->read[o->key] = snic_max_u64(w->read[o->key], a->msg.ts);
}

static void world_done(struct world *w, uint32_t node, const struct snic_ddp_action *a)
{
    assert_true(a->token < w->ops);
    struct world_op *o = &w->op[a->token];
    assert_int_equal(o->state, OP_OPEN); /* each is answered once */
    assert_int_equal(o->node, node);
    o->result = a->result;
    o->state = a->result == 0 ? OP_OK : a->result == SNIC_EUNKNOWN ? OP_UNKNOWN : OP_REFUSED;
    if (o->type == SNIC_DDP_SYNC || o->state == OP_UNKNOWN || a->result == SNIC_ESTALE)
        return;
    if (o->type == SNIC_DDP_READ || a->result == SNIC_ECANCELED) {
        world_read_done(w, o, a);
        return;
    }
    if (o->state != OP_OK)
        return;
    o->ts = a->msg.ts;
    assert_true(o->ts > o->floor); /* R2 */
    world_saw(w, o->key, o->ts, o->content);
    for (uint32_t i = 0; o->type == SNIC_DDP_CAS && i < w->written; i++) {
        if (w->write[i].key == o->key && w->write[i].ts == o->expect)
            w->write[i].seen = 1; /* the client had read it */
    }
    w->answered[o->key] = snic_max_u64(w->answered[o->key], o->ts);
}

static void world_forget(struct world *w, uint32_t node, const struct snic_ddp_action *a)
{
    struct world_node *n = &w->node[node];
    for (uint32_t i = 0; i < n->logged; i++) {
        struct world_record *r = &n->log[i];
        if (r->key.w[0] == a->msg.key.w[0] && r->ts <= a->msg.ts)
            r->forgotten = 1;
    }
}

static void world_carry_out(struct world *w, uint32_t node, const struct snic_ddp_action *a)
{
    struct world_node *n = &w->node[node];
    world_fold(w, (uint64_t)a->type << 32 | a->to);
    world_fold(w, a->msg.ts);
    world_fold(w, (uint64_t)a->msg.type << 32 | a->msg.flags);
    switch (a->type) {
    case SNIC_DDP_SEND:
        world_send(w, node, a);
        break;
    case SNIC_DDP_APPEND:
        world_append(w, node, a);
        break;
    case SNIC_DDP_FLUSH:
        assert_true(n->flushes < WORLD_FLUSHES);
        n->flush[n->flushes].id = a->id;
        n->flush[n->flushes++].upto = n->logged;
        break;
    case SNIC_DDP_DONE:
        world_done(w, node, a);
        break;
    case SNIC_DDP_RELEASE:
        world_unhandle(w, node, a->msg.value);
        break;
    case SNIC_DDP_CAUGHT_UP:
        n->caught_up = 1;
        break;
    case SNIC_DDP_FORGET:
        world_forget(w, node, a);
        break;
    case SNIC_DDP_SUSPECT:
        n->suspected++;
        break;
    case SNIC_DDP_READY:
    case SNIC_DDP_NEED_EPOCH:
    case SNIC_DDP_CHANGED:
        break;
    default:
        fail_msg("action %u", a->type);
    }
}

int world_step(struct world *w, uint32_t node, const struct snic_ddp_event *ev)
{
    struct world_node *n = &w->node[node];
    struct snic_ddp_action a;
    assert_true(n->up);
    w->steps++;
    int r = snic_ddp_step(n->d, w->now, ev);
    while (snic_ddp_poll(n->d, &a) != 0)
        world_carry_out(w, node, &a);
    assert_int_equal(snic_ddp_check(n->d), 0);
    return r;
}

/* ---- Nodes ---- */

struct world *world_new_room(uint64_t seed, uint32_t nodes, uint32_t model, uint32_t flags,
                             uint32_t writes_max)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->handle = calloc(HANDLES, 1);
    w->handle_content = calloc(HANDLES, sizeof(*w->handle_content));
    assert_true(w->handle != NULL && w->handle_content != NULL);
    snic_rng_init(&w->rng, seed);
    w->nodes = nodes;
    w->opts.opts_size = sizeof(w->opts);
    w->opts.model = model;
    w->opts.flags = flags;
    w->opts.keys_max = WORLD_KEYS;
    w->opts.writes_max = writes_max;
    w->opts.waits_max = 16;
    w->opts.reads_max = 4;
    w->opts.scopes_max = 4;
    for (uint32_t i = 0; i < nodes; i++)
        world_boot(w, i);
    return w;
}

struct world *world_new(uint64_t seed, uint32_t nodes, uint32_t model, uint32_t flags)
{
    return world_new_room(seed, nodes, model, flags, 8);
}

void world_free(struct world *w)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (w->node[i].up)
            support_guard_free(w->node[i].mem);
    }
    free(w->handle);
    free(w->handle_content);
    free(w);
}

void world_boot(struct world *w, uint32_t node)
{
    struct world_node *n = &w->node[node];
    assert_false(n->up);
    w->opts.node = node;
    n->size = snic_ddp_memsize(&w->opts);
    n->mem = support_guard_alloc(n->size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&n->d, n->mem, n->size, &w->opts), 0);
    n->up = 1;
    n->caught_up = 0;
    n->flushes = 0;
    n->incarnation++;
    memset(&n->view, 0, sizeof(n->view));
}

static void world_load_flagged(struct world *w, uint32_t node, const struct snic_ddp_key *key,
                               uint64_t ts, uint64_t content, uint32_t length, uint32_t flags)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_LOADED, .key = *key, .ts = ts, .length = length};
    ev.flags = flags;
    if (content != 0)
        ev.value = world_handle(w, node, content);
    else
        ev.flags |= SNIC_DDP_MSG_TOMBSTONE;
    assert_int_equal(world_step(w, node, &ev), 0);
}

void world_load(struct world *w, uint32_t node, const struct snic_ddp_key *key, uint64_t ts,
                uint64_t content, uint32_t length)
{
    world_load_flagged(w, node, key, ts, content, length, 0);
}

void world_load_log(struct world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->node[node].logged; i++) {
        const struct world_record *r = &w->node[node].log[i];
        world_load_flagged(w, node, &r->key, r->ts, r->content, r->length, r->void_flags);
    }
}

void world_crash(struct world *w, uint32_t node)
{
    struct world_node *n = &w->node[node];
    uint32_t kept = 0;
    assert_true(n->up);
    support_guard_free(n->mem);
    n->up = 0;
    for (uint32_t i = 0; i < n->logged; i++) {
        n->log[i].reported = 1;
        if (n->log[i].forgotten)
            continue;
        if (n->log[i].durable || snic_rng_below(&w->rng, 2) == 0) {
            n->log[kept] = n->log[i];
            n->log[kept++].durable = 1;
        }
    }
    n->logged = kept;
    for (uint64_t h = 0; h < w->handles; h++) {
        if (w->handle[h] == node + 1) {
            w->handle[h] = 0;
            w->handles_live--;
        }
    }
    for (uint32_t i = 0; i < w->ops; i++) {
        if (w->op[i].state == OP_OPEN && w->op[i].node == node)
            w->op[i].state = OP_UNKNOWN;
    }
}

void world_view(struct world *w, uint16_t full, uint16_t learners, uint32_t donor, int restart)
{
    w->view.epoch++;
    w->view.full = full;
    w->view.learners = learners;
    w->view.donor = donor;
    w->view.restart = (uint32_t)restart;
    for (uint32_t i = 0; i < w->nodes; i++)
        w->view.incarnation[i] = w->node[i].incarnation;
}

void world_notify(struct world *w, uint32_t node)
{
    struct world_node *n = &w->node[node];
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &w->view};
    int member = ((w->view.full | w->view.learners) >> node & 1) != 0;
    if (!n->up || n->view.epoch == w->view.epoch)
        return;
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = member ? SNIC_NEVER : 0};
    n->view = w->view;
    assert_int_equal(world_step(w, node, &ev), 0);
    assert_int_equal(world_step(w, node, &lease), 0);
}

void world_notify_all(struct world *w)
{
    for (uint32_t i = 0; i < w->nodes; i++)
        world_notify(w, i);
}

void world_start(struct world *w)
{
    world_view(w, (uint16_t)((1u << w->nodes) - 1), 0, 0, 0);
    world_notify_all(w);
}

int world_op(struct world *w, uint32_t type, uint32_t node, uint32_t key, uint64_t expect,
             uint64_t scope, int *result)
{
    struct snic_ddp_event ev = {.type = type, .token = w->ops, .ts = expect, .scope = scope};
    assert_true(w->ops < WORLD_OPS);
    struct world_op *o = &w->op[w->ops++];
    memset(o, 0, sizeof(*o));
    o->type = type;
    o->state = OP_OPEN;
    o->node = node;
    o->key = key;
    o->floor = w->visible[key];
    o->expect = expect;
    o->scope = scope;
    ev.key = world_key(key);
    int value = type == SNIC_DDP_WRITE || type == SNIC_DDP_CAS;
    if (value) {
        o->content = ++w->contents;
        ev.value = world_handle(w, node, o->content);
        ev.length = (uint32_t)(o->content % 1000);
    }
    int r = world_step(w, node, &ev);
    if (result != NULL)
        *result = r;
    if (r == 0)
        return (int)(o - w->op);
    assert_int_equal(o->state, OP_OPEN);
    o->state = OP_REFUSED;
    o->result = r;
    if (value)
        world_unhandle(w, node, ev.value);
    return -1;
}

void world_drop(struct world *w, uint32_t i)
{
    w->message[i] = w->message[--w->messages];
}

int world_deliver(struct world *w, uint32_t i, int keep)
{
    struct snic_ddp_msg m = w->message[i].m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    uint32_t to = m.dst;
    if (!keep)
        world_drop(w, i);
    if (!w->node[to].up)
        return SNIC_ESTALE;
    int carries =
        (m.type == SNIC_DDP_INV || m.type == SNIC_DDP_NACK || m.type == SNIC_DDP_RECORD) &&
        (m.flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    if (carries)
        m.value = world_handle(w, to, m.value);
    int r = world_step(w, to, &ev);
    if (r != 0 && carries)
        world_unhandle(w, to, m.value);
    assert_true(r == 0 || r == SNIC_ESTALE || r == SNIC_EAGAIN);
    return r;
}

/* A record becomes durable, and the engine hears of it. */
void world_complete(struct world *w, uint32_t node, uint32_t entry)
{
    struct world_record *r = &w->node[node].log[entry];
    struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED, .key = r->key, .ts = r->ts};
    r->durable = 1;
    r->reported = 1;
    assert_int_equal(world_step(w, node, &ev), 0);
}

static int world_random_log(struct world *w, uint32_t node)
{
    struct world_node *n = &w->node[node];
    if (!n->up)
        return 0;
    if (n->flushes > 0 && snic_rng_below(&w->rng, 2) == 0) {
        uint32_t i = (uint32_t)snic_rng_below(&w->rng, n->flushes);
        struct snic_ddp_event ev = {.type = SNIC_DDP_FLUSHED, .id = n->flush[i].id};
        for (uint32_t k = 0; k < n->flush[i].upto && k < n->logged; k++)
            n->log[k].durable = 1;
        n->flush[i] = n->flush[--n->flushes];
        assert_int_equal(world_step(w, node, &ev), 0);
        return 1;
    }
    uint32_t open = 0;
    for (uint32_t i = 0; i < n->logged; i++)
        open += !n->log[i].reported;
    if (open == 0)
        return n->flushes > 0;
    uint64_t pick = snic_rng_below(&w->rng, open);
    for (uint32_t i = 0; i < n->logged; i++) {
        if (!n->log[i].reported && pick-- == 0) {
            world_complete(w, node, i);
            return 1;
        }
    }
    return 1;
}

int world_random(struct world *w)
{
    uint32_t node = (uint32_t)snic_rng_below(&w->rng, w->nodes);
    if (w->messages > 0 && snic_rng_below(&w->rng, 4) != 0) {
        (void)world_deliver(w, (uint32_t)snic_rng_below(&w->rng, w->messages), 0);
        return 1;
    }
    if (world_random_log(w, node))
        return 1;
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (world_random_log(w, i))
            return 1;
    }
    return w->messages > 0;
}

void world_settle(struct world *w)
{
    uint32_t quiet = 0;
    for (uint64_t i = 0; quiet < 4; i++) {
        assert_true(i < 400000); /* livelock */
        if (world_random(w))
            continue;
        uint64_t next = SNIC_NEVER;
        for (uint32_t n = 0; n < w->nodes; n++) {
            if (w->node[n].up)
                next = snic_min_u64(next, snic_ddp_deadline_ns(w->node[n].d));
        }
        if (next == SNIC_NEVER) {
            quiet++;
            continue;
        }
        w->now = snic_max_u64(w->now, next);
        struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
        for (uint32_t n = 0; n < w->nodes; n++) {
            if (w->node[n].up && snic_ddp_deadline_ns(w->node[n].d) <= w->now)
                assert_int_equal(world_step(w, n, &tick), 0);
        }
    }
}

int world_look(struct world *w, uint32_t node, uint32_t key, struct snic_ddp_entry *out)
{
    uint64_t cursor = 0;
    struct snic_ddp_key k = world_key(key);
    while (snic_ddp_next(w->node[node].d, &cursor, out) == 0) {
        if (out->key.w[0] == k.w[0] && out->key.w[1] == k.w[1])
            return 1;
    }
    memset(out, 0, sizeof(*out));
    return 0;
}

void world_same(struct world *w)
{
    uint64_t values = 0;
    for (uint32_t i = 0; i < w->ops; i++) {
        if (w->op[i].state == OP_OPEN)
            fail_msg("op %u type %u node %u key %u was never answered", i, w->op[i].type,
                     w->op[i].node, w->op[i].key);
    }
    for (uint32_t n = 0; n < w->nodes; n++) {
        struct snic_ddp_stats info;
        if (!w->node[n].up)
            continue;
        snic_ddp_get_stats(w->node[n].d, &info);
        assert_int_equal(info.writes, 0);
        assert_int_equal(info.waits, 0);
        assert_int_equal(info.reads, 0);
        assert_int_equal(info.counters.invalid, 0);
        for (uint32_t k = 0; k < WORLD_KEYS; k++) {
            struct snic_ddp_entry e;
            struct snic_ddp_entry f;
            int here = world_look(w, n, k, &e);
            values += here && (e.flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
            if ((w->view.full >> n & 1) == 0)
                continue;
            assert_int_equal(e.locked, 0);
            assert_true(e.ts >= w->visible[k] || (!here && world_deleted(w, k, w->visible[k])));
            for (uint32_t m = 0; m < n; m++) {
                if (!w->node[m].up || (w->view.full >> m & 1) == 0)
                    continue;
                assert_int_equal(world_look(w, m, k, &f), here);
                assert_int_equal(e.ts, f.ts);
                assert_int_equal(e.seen[0], f.seen[0]);
                assert_int_equal(e.seen[1], f.seen[1]);
                if (here && (e.flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
                    assert_int_equal(world_content(w, n, e.value), world_content(w, m, f.value));
            }
        }
    }
    assert_int_equal(w->handles_live, values);
}

uint64_t world_durable(struct world *w, uint32_t node, uint32_t key)
{
    uint64_t best = 0;
    for (uint32_t i = 0; i < w->node[node].logged; i++) {
        const struct world_record *r = &w->node[node].log[i];
        if (!r->durable || r->forgotten || world_key_of(&r->key) != key)
            continue;
        best = r->void_flags != 0 ? r->ts : snic_max_u64(best, r->ts);
        best = (r->void_flags & SNIC_DDP_DROPS) != 0 ? 0 : best;
    }
    return best;
}

void world_check_cas(struct world *w)
{
    for (uint32_t i = 0; i < w->ops; i++) {
        const struct world_op *o = &w->op[i];
        if (o->type != SNIC_DDP_CAS || o->state != OP_OK)
            continue;
        uint64_t before = 0;
        for (uint32_t k = 0; k < w->written; k++) {
            const struct world_written *x = &w->write[k];
            /* A deletion that was reported to no client is one nevertheless. */
            int counts = x->seen || (o->expect == 0 && x->content == 0);
            if (x->key == o->key && counts && x->ts < o->ts)
                before = snic_max_u64(before, x->ts);
        }
        if (o->expect != 0)
            assert_int_equal(before, o->expect);
        else
            assert_true(before == 0 || world_is_tombstone(w, o->key, before));
    }
}
