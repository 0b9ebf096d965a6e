/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One node among hostile others: options, a record and then events made of the input, most of them
 * messages whose fields are near to what would make sense. After each the engine's invariants hold,
 * its file never goes back, and no message states what its file does not hold.
 */
#include "snicstore/member.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_member *m;
    uint64_t now;
    uint64_t storing; /* id; 0: none */
    struct snic_member_record disk;
    struct snic_member_record pending;
    struct snic_member_opts o;
    struct snic_member_action last; /* the last message, to play back */
};

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static struct snic_member_view fuzz_view(struct fuzz *f)
{
    struct snic_member_view v = f->disk.decided;
    uint8_t b = take(f);
    if (v.configured == 0) {
        v.configured = f->o.configured;
        v.witness = f->o.witness;
        v.config_epoch = 1;
        for (uint32_t n = 0; n < 5; n++)
            v.voter[n] = (v.configured >> n & 1);
    }
    v.epoch += b & 3;
    v.full = (uint16_t)(take(f) & 31);
    v.learners = (uint16_t)(take(f) & 31 & ~v.full);
    v.restart = b >> 2 & 1;
    if (v.restart)
        v.learners = 0;
    v.donor = v.full != 0 ? (uint32_t)__builtin_ctz(v.full) : 0;
    for (uint32_t n = 0; n < 4; n++)
        v.incarnation[n] += b >> (3 + n) & 1;
    if (b & 128)
        v.incarnation[take(f) % 16] = take(f);
    if ((b & 0x60) == 0x60) {
        uint8_t c = take(f);
        v.configured ^= (uint16_t)(1u << (c & 7));
        v.vacant ^= (uint16_t)(1u << (c >> 3 & 3));
        v.voter[c & 7] += c >> 5 & 3;
        v.config_epoch = v.epoch;
    }
    return v;
}

static void fuzz_sent(struct fuzz *f, const struct snic_member_action *a)
{
    const struct snic_member_msg *m = &a->msg;
    must(a->to != 0 && (a->to >> f->o.node & 1) == 0);
    must(m->src == f->o.node);
    if (m->type == SNIC_MEMBER_PROMISE)
        must(m->ballot <= f->disk.promised && m->epoch == f->disk.decided.epoch + 1);
    if (m->type == SNIC_MEMBER_ACCEPTED)
        must(m->ballot == f->disk.accepted && m->epoch == f->disk.decided.epoch + 1);
    if (m->type == SNIC_MEMBER_HEARTBEAT && m->src_incarnation != 0)
        must(m->src_incarnation == f->disk.incarnation);
    f->last = *a;
}

static void fuzz_poll(struct fuzz *f)
{
    struct snic_member_action a;
    while (snic_member_poll(f->m, &a)) {
        switch (a.type) {
        case SNIC_MEMBER_STORE:
            must(f->storing == 0 && a.id != 0);
            must(a.record.decided.epoch >= f->disk.decided.epoch);
            must(a.record.incarnation >= f->disk.incarnation);
            f->storing = a.id;
            f->pending = a.record;
            break;
        case SNIC_MEMBER_VIEW:
            must(a.view.epoch == f->disk.decided.epoch);
            break;
        case SNIC_MEMBER_CONFIRMED:
            must(a.id != 0 && a.until_ns <= f->now);
            break;
        case SNIC_MEMBER_LEASE:
            must(a.until_ns == 0 || a.until_ns > f->now);
            break;
        default:
            must(a.type == SNIC_MEMBER_SEND);
            fuzz_sent(f, &a);
            break;
        }
    }
    must(snic_member_check(f->m) == 0);
    must(snic_member_deadline_ns(f->m) > 0);
}

static void fuzz_step(struct fuzz *f, const struct snic_member_event *ev)
{
    int r = snic_member_step(f->m, f->now, ev);
    must(r == 0 || r == SNIC_EINVAL || r == SNIC_EPROTO || r == SNIC_ESTALE || r == SNIC_ECORRUPT ||
         r == SNIC_EOVERFLOW || r == SNIC_EXDEV || r == SNIC_EBUSY || r == SNIC_EEXIST ||
         r == SNIC_ENOENT || r == SNIC_ENOQUORUM);
    fuzz_poll(f);
}

static void fuzz_message(struct fuzz *f, uint8_t op)
{
    struct snic_member_msg m = {.type = (uint8_t)(op % (SNIC_MEMBER_MSG_TYPES + 1))};
    struct snic_member_event ev = {.type = SNIC_MEMBER_MESSAGE, .msg = &m};
    uint8_t b = take(f);
    uint8_t c = take(f);
    m.src = b & 7;
    m.hears = take(f);
    m.since = b & 128 ? 2 : 1;
    m.flush_ns = (uint64_t)(c & 8) << 27;
    m.configured = f->o.configured;
    m.witness = f->o.witness;
    m.flags = c & 63;
    m.epoch = f->disk.decided.epoch + (b >> 3 & 3) - (c >> 7);
    m.src_incarnation = b >> 5;
    m.dst_incarnation = f->disk.incarnation - (c >> 6 & 1);
    m.seq = take(f);
    m.ballot = (uint64_t)(take(f) & 7) << 36 | (uint64_t)m.src_incarnation << 4 | m.src;
    if (c & 1)
        m.ballot = f->last.msg.ballot;
    if (c & 2)
        m.seq = f->last.msg.seq;
    m.accepted = (uint64_t)(c >> 4 & 3) << 36 | 1;
    m.lease_ns = f->o.lease_ns;
    m.view = fuzz_view(f);
    if (c & 4)
        m.view.epoch = m.epoch;
    fuzz_step(f, &ev);
}

static void fuzz_boot(struct fuzz *f)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT};
    static _Alignas(SNIC_MEMBER_ALIGN) unsigned char mem[8192];
    uint8_t b = take(f);
    must(snic_member_init(&f->m, mem, sizeof(mem), &f->o) == 0);
    f->storing = 0;
    ev.flags = b & 3;
    ev.incarnation = b >> 2 & 3;
    ev.record = f->disk.incarnation != 0 ? &f->disk : NULL;
    fuzz_step(f, &ev);
}

static void fuzz_op(struct fuzz *f)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_TICK};
    uint8_t op = take(f);
    switch (op & 7) {
    case 0:
    case 1:
    case 2:
        fuzz_message(f, op >> 3);
        return;
    case 3:
        if (f->storing == 0)
            return;
        f->disk = f->pending;
        ev.type = SNIC_MEMBER_STORED;
        ev.id = f->storing;
        f->storing = 0;
        break;
    case 4:
        f->now = snic_max_u64(f->now, snic_min_u64(snic_member_deadline_ns(f->m), f->now << 1));
        break;
    case 5:
        f->now += (uint64_t)take(f) << (op >> 3);
        break;
    case 6:
        ev.type = op >> 7 ? SNIC_MEMBER_OVERRIDE : SNIC_MEMBER_REPORT;
        ev.kind = op >> 3 & 7;
        ev.mask = take(f) & 31;
        ev.flags = take(f);
        if (ev.flags & 32)
            ev.type = SNIC_MEMBER_CHANGE;
        else if (ev.flags & 64)
            ev.type = SNIC_MEMBER_CONFIRM;
        ev.node = ev.flags >> 7 | (ev.mask & 7u) << 1;
        ev.flags &= ev.type == SNIC_MEMBER_CHANGE ? 15 : 7;
        ev.epoch = ev.type == SNIC_MEMBER_CHANGE ? 0 : f->disk.decided.epoch;
        ev.ns = (uint64_t)ev.mask << 25;
        break;
    default:
        if (op >> 3 > 3)
            return;
        fuzz_boot(f); /* it crashed, with what was not stored */
        return;
    }
    fuzz_step(f, &ev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz;
    struct fuzz *f = &fuzz;
    memset(f, 0, sizeof(*f));
    f->in = data;
    f->left = size < 4096 ? size : 4096;
    f->now = 1000000;
    f->o.opts_size = sizeof(f->o);
    uint8_t b = take(f);
    f->o.configured = (uint16_t)((1u << (1 + b % 5)) - 1);
    f->o.witness = (uint16_t)(b & 128 && b % 5 > 0 ? 1u << (b % 5) : 0);
    f->o.node = b / 5U % (1U + b % 5U);
    if (b & 64) {
        f->disk.incarnation = 3;
        f->disk.since = 1;
        f->disk.decided = fuzz_view(f);
    }
    fuzz_boot(f);
    while (f->left > 0)
        fuzz_op(f);
    return 0;
}
