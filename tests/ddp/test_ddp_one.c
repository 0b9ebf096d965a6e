/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Drives one DDP engine by hand; test_ddp_one.h describes the functions. */
#include "test_ddp_one.h"

#include "support.h"

struct snic_ddp_opts one_opts(uint32_t model, uint32_t flags)
{
    struct snic_ddp_opts o = {.opts_size = sizeof(o), .model = model, .flags = flags};
    o.keys_max = 3;
    o.writes_max = 4;
    o.waits_max = 4;
    o.reads_max = 1;
    o.scopes_max = 1;
    return o;
}

int one_step(struct one *x, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    memset(x->sent, 0, sizeof(x->sent));
    memset(x->did, 0, sizeof(x->did));
    x->order = 0;
    int r = snic_ddp_step(x->d, x->now, ev);
    while (snic_ddp_poll(x->d, &a) != 0) {
        x->did[a.type]++;
        if (a.type == SNIC_DDP_SEND) {
            x->sent[a.msg.type]++;
            x->last[a.msg.type] = a.msg;
            x->to[a.msg.type] = a.to;
            x->order = (x->order == 0 ? a.msg.type : x->order & 0xff) | (uint32_t)a.msg.type << 8;
        } else if (a.type == SNIC_DDP_DONE) {
            x->done = a;
        } else if (a.type == SNIC_DDP_FLUSH) {
            x->flush = a.id;
        } else if (a.type == SNIC_DDP_SUSPECT) {
            x->suspect = a.to;
            x->slow = a.slow;
            x->suspects++;
        }
    }
    assert_int_equal(snic_ddp_check(x->d), 0);
    return r;
}

struct one one_new(uint32_t model, uint32_t flags)
{
    struct one x;
    struct snic_ddp_opts o = one_opts(model, flags);
    memset(&x, 0, sizeof(x));
    x.size = snic_ddp_memsize(&o);
    x.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&x.d, x.mem, x.size, &o), 0);
    x.view.epoch = 1;
    x.view.full = 7;
    struct snic_ddp_event epoch = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = 1000000000};
    assert_int_equal(one_step(&x, &epoch), 0);
    assert_int_equal(one_step(&x, &lease), 0);
    return x;
}

int one_message(struct one *x, uint32_t type, uint32_t src, uint64_t ts, uint32_t flags)
{
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = (uint8_t)type;
    m.src = (uint8_t)src;
    m.flags = (uint8_t)flags;
    m.epoch = x->view.epoch;
    m.key = world_key(1);
    m.ts = ts;
    m.value = ts;
    m.length = 5;
    return one_step(x, &ev);
}

int one_client(struct one *x, uint32_t type, uint64_t expect)
{
    struct snic_ddp_event ev = {.type = type, .key = world_key(1), .ts = expect, .token = 77};
    ev.value = 1000;
    return one_step(x, &ev);
}

int one_appended(struct one *x, uint64_t ts)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED, .key = world_key(1), .ts = ts};
    return one_step(x, &ev);
}

int one_tick(struct one *x, uint64_t ns)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
    x->now += ns;
    return one_step(x, &ev);
}

uint32_t one_time(struct one *x, uint64_t ns, uint32_t type)
{
    uint64_t end = x->now + ns;
    uint32_t sent = 0;
    for (uint64_t at; (at = snic_ddp_deadline_ns(x->d)) <= end;) {
        assert_int_equal(one_tick(x, at > x->now ? at - x->now : 0), 0);
        sent += x->sent[type];
    }
    x->now = end;
    return sent;
}

struct one one_fresh(uint32_t model, uint32_t node, uint32_t keys)
{
    struct one x;
    struct snic_ddp_opts o = one_opts(model, 0);
    memset(&x, 0, sizeof(x));
    o.node = node;
    o.keys_max = keys;
    x.size = snic_ddp_memsize(&o);
    x.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&x.d, x.mem, x.size, &o), 0);
    return x;
}

int one_view(struct one *x, uint16_t full, uint16_t learners, uint32_t donor, uint32_t restart)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x->view};
    x->view.epoch++;
    x->view.full = full;
    x->view.learners = learners;
    x->view.donor = donor;
    x->view.restart = restart;
    return one_step(x, &ev);
}

int one_get(struct one *x)
{
    struct snic_ddp_entry e;
    struct snic_ddp_key k = world_key(1);
    return snic_ddp_get(x->d, x->now, &k, &e);
}
