/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A donor and a learner; test_ddp_pair.h describes the functions. */
#include "test_ddp_pair.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t pair_nodes[2] = {0, 2};

struct snic_ddp_key pair_key(uint64_t i)
{
    struct snic_ddp_key k = {{i, 0}};
    return k;
}

struct pair *pair_new(uint32_t model, uint32_t keys_max)
{
    struct pair *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    for (int who = 0; who < 2; who++) {
        struct snic_ddp_opts o = {.opts_size = sizeof(o), .model = model, .keys_max = keys_max};
        o.node = pair_nodes[who];
        o.writes_max = o.waits_max = 4;
        o.others_max = 2;
        size_t size = snic_ddp_memsize(&o);
        p->mem[who] = support_guard_alloc(size, SNIC_DDP_ALIGN);
        memset(p->mem[who], 0xee, size); /* nothing is taken for cleared */
        assert_int_equal(snic_ddp_init(&p->d[who], p->mem[who], size, &o), 0);
    }
    snic_rng_init(&p->rng, support_seed());
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &p->view};
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    p->view.epoch = 1;
    p->view.full = 1;
    assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
    assert_int_equal(pair_step(p, PAIR_DONOR, &lease), 0);
    return p;
}

void pair_free(struct pair *p)
{
    for (int who = 0; who < 2; who++)
        support_guard_free(p->mem[who]);
    free(p);
}

static int pair_carries(const struct snic_ddp_msg *m)
{
    return (m->type == SNIC_DDP_INV || m->type == SNIC_DDP_RECORD) &&
           (m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
}

static void pair_send(struct pair *p, int who, const struct snic_ddp_action *a)
{
    int to = !who;
    struct snic_ddp_msg m = a->msg;
    p->bytes += PAIR_FRAME + (pair_carries(&m) ? m.length : 0);
    p->sent++;
    if ((a->to >> pair_nodes[to] & 1) == 0 || snic_rng_below(&p->rng, 1000) < p->lose)
        return;
    m.dst = (uint8_t)pair_nodes[to];
    m.dst_incarnation = p->view.incarnation[m.dst];
    for (uint32_t n = 1 + (snic_rng_below(&p->rng, 1000) < p->twice); n > 0; n--) {
        assert_true(p->count < PAIR_QUEUE);
        p->queue[p->count++] = m;
    }
}

static void pair_act(struct pair *p, int who, const struct snic_ddp_action *a)
{
    switch (a->type) {
    case SNIC_DDP_SEND:
        pair_send(p, who, a);
        break;
    case SNIC_DDP_APPEND:
        p->appends += who == PAIR_LEARNER;
        p->replaces += (a->flags & SNIC_DDP_REPLACES) != 0;
        p->drops += (a->flags & SNIC_DDP_DROPS) != 0;
        break;
    case SNIC_DDP_FLUSH:
        p->flush = a->id;
        p->flushing = 1;
        break;
    case SNIC_DDP_RELEASE:
        p->handles[who]--;
        break;
    case SNIC_DDP_CAUGHT_UP:
        p->caught_up = 1;
        break;
    case SNIC_DDP_SUSPECT:
        p->suspects += a->to != 0;
        break;
    default:
        break;
    }
}

int pair_step(struct pair *p, int who, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    uint32_t actions = 0;
    uint64_t before = pair_stats(p).learning.confirmed;
    int result = snic_ddp_step(p->d[who], p->now, ev);
    p->steps++;
    struct snic_ddp_key keys[256];
    uint64_t ts[256];
    uint32_t appends = 0;
    while (snic_ddp_poll(p->d[who], &a) != 0) {
        pair_act(p, who, &a);
        if (a.type == SNIC_DDP_APPEND && (a.flags & SNIC_DDP_DROPS) == 0) {
            assert_true(appends < 256);
            keys[appends] = a.msg.key;
            ts[appends++] = a.msg.ts;
        }
        actions++;
    }
    p->most = actions > p->most ? actions : p->most;
    p->confirmed = snic_max_u64(p->confirmed, pair_stats(p).learning.confirmed - before);
    for (uint32_t i = 0; i < appends; i++) {
        struct snic_ddp_event done = {.type = SNIC_DDP_APPENDED, .key = keys[i], .ts = ts[i]};
        assert_int_equal(pair_step(p, who, &done), 0);
    }
    return result;
}

void pair_write(struct pair *p, uint64_t key, uint32_t length)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = pair_key(key), .value = key + 1};
    ev.length = length;
    p->handles[PAIR_DONOR]++;
    assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
}

void pair_delete(struct pair *p, uint64_t key)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_DELETE, .key = pair_key(key)};
    assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
}

void pair_load_key(struct pair *p, const struct snic_ddp_key *key, uint64_t ts, uint32_t length,
                   uint32_t flags)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_LOADED, .key = *key, .ts = ts, .length = length};
    ev.flags = flags;
    ev.value = 7;
    p->handles[PAIR_LEARNER] += (flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    assert_int_equal(pair_step(p, PAIR_LEARNER, &ev), 0);
}

void pair_load(struct pair *p, uint64_t key, int newer)
{
    struct snic_ddp_key k = pair_key(key);
    struct snic_ddp_entry e = {.ts = snic_ddp_ts(1, 2, 0)};
    if (snic_ddp_find(p->d[PAIR_DONOR], &k, &e) != 0)
        e.flags = 0;
    pair_load_key(p, &k, newer ? e.ts + 3 : e.ts, e.length, e.flags & SNIC_DDP_MSG_TOMBSTONE);
}

void pair_join(struct pair *p, uint32_t flags)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &p->view};
    p->view.epoch++;
    p->view.learners = 4;
    p->count = 0;
    p->bytes = p->sent = p->steps = 0;
    p->most = 0;
    assert_int_equal(pair_step(p, PAIR_DONOR, &ev), 0);
    ev.flags = flags;
    assert_int_equal(pair_step(p, PAIR_LEARNER, &ev), 0);
}

static void pair_deliver(struct pair *p)
{
    uint32_t i = (uint32_t)snic_rng_below(&p->rng, p->count);
    struct snic_ddp_msg m = p->queue[i];
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    int who = m.dst != pair_nodes[PAIR_DONOR];
    p->queue[i] = p->queue[--p->count];
    m.value = 9;
    p->handles[who] += pair_carries(&m);
    int result = pair_step(p, who, &ev);
    assert_true(result == 0 || result == SNIC_EAGAIN || result == SNIC_ESTALE);
    if (result != 0)
        p->handles[who] -= pair_carries(&m);
}

void pair_turn(struct pair *p)
{
    if (p->flushing && !p->hold) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_FLUSHED, .id = p->flush};
        p->flushing = 0;
        assert_int_equal(pair_step(p, PAIR_LEARNER, &ev), 0);
    } else if (p->count > 0) {
        pair_deliver(p);
    } else {
        struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
        uint64_t at = snic_min_u64(snic_ddp_deadline_ns(p->d[0]), snic_ddp_deadline_ns(p->d[1]));
        assert_true(at != SNIC_NEVER);
        p->now = snic_max_u64(p->now, at);
        for (int who = 0; who < 2; who++)
            assert_int_equal(pair_step(p, who, &ev), 0);
    }
}

void pair_run(struct pair *p)
{
    for (uint64_t i = 0; !p->caught_up; i++) {
        assert_true(i < 10000000);
        pair_turn(p);
    }
}

void pair_same(struct pair *p)
{
    struct snic_ddp_stats info[2];
    struct snic_ddp_entry a, b;
    uint64_t cursor = 0;
    for (int who = 0; who < 2; who++) {
        assert_int_equal(snic_ddp_check(p->d[who]), 0);
        snic_ddp_get_stats(p->d[who], &info[who]);
        assert_int_equal(p->handles[who], info[who].records - info[who].tombstones);
    }
    assert_int_equal(info[0].records, info[1].records);
    assert_int_equal(info[1].learning.hints, 0);
    while (snic_ddp_next(p->d[PAIR_DONOR], &cursor, &a) == 0) {
        assert_int_equal(snic_ddp_find(p->d[PAIR_LEARNER], &a.key, &b), 0);
        assert_true(a.ts == b.ts && a.length == b.length && a.locked == b.locked);
        assert_true(b.durable == b.ts);
        assert_int_equal(a.flags & SNIC_DDP_MSG_TOMBSTONE, b.flags & SNIC_DDP_MSG_TOMBSTONE);
    }
}

struct snic_ddp_stats pair_stats(const struct pair *p)
{
    struct snic_ddp_stats info;
    snic_ddp_get_stats(p->d[PAIR_LEARNER], &info);
    return info;
}
