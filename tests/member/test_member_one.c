/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_member_one.h"

#include "support.h"

#include <string.h>

void one_init(struct one *t)
{
    memset(t, 0, sizeof(*t));
    t->o.opts_size = sizeof(t->o);
    t->o.configured = 7;
    t->now = 1000;
    assert_int_equal(snic_member_init(&t->m, t->mem, sizeof(t->mem), &t->o), 0);
}

int one_step(struct one *t, const struct snic_member_event *ev)
{
    struct snic_member_action a;
    int r = snic_member_step(t->m, t->now, ev);
    t->count = 0;
    while (snic_member_poll(t->m, &a)) {
        assert_true(t->count < 32);
        t->actions[t->count++] = a;
    }
    assert_int_equal(snic_member_check(t->m), 0);
    return r;
}

int one_tick(struct one *t, uint64_t after)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_TICK};
    t->now += after;
    return one_step(t, &ev);
}

const struct snic_member_action *one_action(const struct one *t, uint32_t type)
{
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->actions[i].type == type)
            return &t->actions[i];
    }
    return NULL;
}

const struct snic_member_msg *one_sent(const struct one *t, uint32_t type)
{
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->actions[i].type == SNIC_MEMBER_SEND && t->actions[i].msg.type == type)
            return &t->actions[i].msg;
    }
    return NULL;
}

void one_store(struct one *t)
{
    const struct snic_member_action *a = one_action(t, SNIC_MEMBER_STORE);
    assert_non_null(a);
    struct snic_member_event ev = {.type = SNIC_MEMBER_STORED, .id = a->id};
    assert_int_equal(one_step(t, &ev), 0);
}

struct snic_member_view one_view(uint32_t epoch, uint16_t full, uint16_t learners)
{
    struct snic_member_view v = {.epoch = epoch, .full = full, .learners = learners};
    v.donor = (uint32_t)__builtin_ctz(full);
    v.configured = 7;
    v.config_epoch = 1;
    for (uint32_t n = 0; n < 3; n++) {
        v.incarnation[n] = 5;
        v.voter[n] = 1;
    }
    return v;
}

struct snic_member_msg one_from(uint32_t src, uint32_t type, uint32_t epoch)
{
    struct snic_member_msg m = {.type = (uint8_t)type, .src = (uint8_t)src, .epoch = epoch};
    m.configured = 7;
    m.since = 1;
    m.src_incarnation = 5;
    return m;
}

int one_message(struct one *t, const struct snic_member_msg *msg)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_MESSAGE, .msg = msg};
    return one_step(t, &ev);
}

int one_heartbeat(struct one *t, uint32_t src, uint32_t epoch, uint32_t inc, uint32_t flags)
{
    struct snic_member_msg m = one_from(src, SNIC_MEMBER_HEARTBEAT, epoch);
    m.seq = ++t->seq[src];
    m.hears = 7;
    m.flags = flags;
    m.src_incarnation = inc;
    m.dst_incarnation = 5;
    m.lease_ns = 400 * (uint64_t)MS;
    return one_message(t, &m);
}

void one_boot(struct one *t, int again)
{
    struct snic_member_record r = {.incarnation = 4, .since = 1};
    struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT, .record = &r};
    r.decided = one_view(9, 7, 0);
    if (again)
        r.decided.incarnation[0] = 4;
    else
        r.decided.epoch = 8;
    one_init(t);
    assert_int_equal(one_step(t, &ev), 0);
    assert_null(one_action(t, SNIC_MEMBER_SEND));
    one_store(t);
    if (again)
        return;
    struct snic_member_msg m = one_from(1, SNIC_MEMBER_DECIDED, 9);
    m.view = one_view(9, 7, 0);
    assert_int_equal(one_message(t, &m), 0);
    assert_null(one_action(t, SNIC_MEMBER_VIEW)); /* M4 */
    one_store(t);
    assert_non_null(one_action(t, SNIC_MEMBER_VIEW));
}

uint64_t one_ballot(uint32_t node, uint64_t round)
{
    return round << 36 | 5 << 4 | node;
}

int one_accept(struct one *t, uint32_t src, uint64_t round, const struct snic_member_view *v)
{
    struct snic_member_msg m = one_from(src, SNIC_MEMBER_ACCEPT, v->epoch);
    m.ballot = one_ballot(src, round);
    m.view = *v;
    return one_message(t, &m);
}
