/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Several engines on one store. */
#include "test_kvfs_many.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Engines ---- */

/* A client that was fenced changes nothing, and reads nothing. */
static void many_apply(struct kvt *t, struct snic_kvop *op)
{
    if (snic_kvmem_fenced(t->m, t->o.identity, t->o.identity_size))
        op->result = SNIC_ESHUTDOWN;
    else
        snic_kvmem_apply(t->m, op);
}

void many_join(struct many *y, uint32_t i)
{
    struct snic_kvfs_opts o;
    kvt_opts(&o);
    o.caps = y->caps;
    o.session_id = ++y->session * 1000;
    if ((y->caps & SNIC_KV_CAP_FENCE) != 0) {
        o.identity_size = 8;
        snic_put_le64((unsigned char *)o.identity, y->session);
    }
    o.heartbeat_ns = 1000000000;
    o.lease_ns = 10000000000;
    o.times_ns = y->times_ns;
    kvt_open_on(&y->t[i], y->m, &o);
    if (o.identity_size != 0)
        y->t[i].apply = many_apply;
    snic_kvfs_set_sole(y->t[i].k, 0);
    y->t[i].random = 1;
    y->t[i].rng = y->rng;
    (void)snic_rng_next(&y->rng);
}

/* One engine does one thing; 0: none has anything to do. */
int many_step(struct many *y)
{
    uint32_t first = (uint32_t)snic_rng_below(&y->rng, y->count);
    for (uint32_t n = 0; n < y->count; n++) {
        struct kvt *t = &y->t[(first + n) % y->count];
        if ((y->paused >> ((first + n) % y->count) & 1) != 0)
            continue;
        t->now = y->now;
        int did = kvt_step(t);
        y->now = t->now;
        if (did)
            return 1;
    }
    return 0;
}

static uint64_t many_deadline(struct many *y)
{
    uint64_t next = SNIC_NEVER;
    for (uint32_t i = 0; i < y->count; i++)
        if ((y->paused >> i & 1) == 0)
            next = snic_min_u64(next, snic_kvfs_deadline_ns(y->t[i].k));
    return next;
}

void many_time(struct many *y, uint64_t ns)
{
    y->now.mono_ns += ns;
    y->now.wall_ns += (int64_t)ns;
    for (uint32_t i = 0; i < y->count; i++) {
        if ((y->paused >> i & 1) != 0)
            continue;
        y->t[i].now = y->now;
        snic_kvfs_advance(y->t[i].k, y->now);
    }
}

/* Time passes in steps of what the engines wait for; all that they do is done. */
void many_pass(struct many *y, uint64_t ns)
{
    uint64_t end = y->now.mono_ns + ns;
    while (y->now.mono_ns < end) {
        while (many_step(y))
            continue;
        uint64_t next = snic_min_u64(many_deadline(y), end);
        many_time(y, next > y->now.mono_ns ? next - y->now.mono_ns : 0);
    }
    while (many_step(y))
        continue;
}

/* Until `left` requests are done. */
void many_finish(struct many *y, uint32_t left)
{
    for (uint32_t idle = 0; left > 0;) {
        for (uint32_t i = 0; i < y->count; i++)
            while (snic_kvfs_poll_done(y->t[i].k) != NULL)
                left--;
        if (left == 0)
            break;
        if (many_step(y)) {
            idle = 0;
            continue;
        }
        uint64_t next = many_deadline(y);
        assert_true(next != SNIC_NEVER && idle++ < 100000);
        many_time(y, next > y->now.mono_ns ? next - y->now.mono_ns : 0);
    }
}

int64_t many_call(struct many *y, uint32_t i, struct snic_fsop *req)
{
    y->t[i].now = y->now;
    kvt_submit(&y->t[i], req);
    many_finish(y, 1);
    return req->result;
}

int64_t many_simple(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                    const char *name)
{
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, kind, ino, name);
    req.mode = 0644;
    return many_call(y, i, &req);
}

void many_start(struct many *y, uint32_t i, struct snic_fsop *req)
{
    y->t[i].now = y->now;
    kvt_submit(&y->t[i], req);
}

uint64_t many_file(struct many *y, uint32_t i, const char *name)
{
    struct snic_fsop req;
    kvt_req(&y->t[i], &req, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, name);
    req.mode = 0100644;
    assert_int_equal(many_call(y, i, &req), 0);
    return req.attr.ino;
}

void many_lock_req(struct many *y, uint32_t i, struct snic_fsop *req, enum snic_fsop_kind kind,
                   uint64_t ino, uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
    kvt_req(&y->t[i], req, kind, ino, NULL);
    req->lock = (struct snic_fsop_lock){
        .owner = owner, .start = start, .end = end, .type = type, .pid = (uint32_t)owner + 100};
}

int64_t many_lock(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                  uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
    struct snic_fsop req;
    many_lock_req(y, i, &req, kind, ino, owner, type, start, end);
    return many_call(y, i, &req);
}

static int many_is_of(const struct snic_kvop *op, uint64_t group)
{
    if (group == MANY_ANY)
        return 1;
    if (op->kind == SNIC_KVOP_GET)
        return op->gets[0].key.group == group;
    const struct snic_kvop_change *c = op->kind == SNIC_KVOP_COMMIT ? &op->changes[0] : NULL;
    uint64_t g = c == NULL ? op->object : c->key.size != 0 ? c->key.group : c->object;
    return group == MANY_NOT_SUPER ? g != SNIC_KVFS_GROUP_SUPER : g == group;
}

static int many_is_kind(const struct snic_kvop *op, uint32_t kind)
{
    return op->kind == kind || (kind == MANY_CHANGE && (op->kind == SNIC_KVOP_COMMIT ||
                                                        op->kind == SNIC_KVOP_OBJECT_WRITE));
}

/* An engine does one thing, or others do, or time passes. */
static void many_on(struct many *y, struct kvt *t)
{
    if (kvt_step(t))
        return;
    y->now = t->now;
    if (!many_step(y)) {
        uint64_t next = many_deadline(y);
        assert_true(next != SNIC_NEVER);
        many_time(y, next > y->now.mono_ns ? next - y->now.mono_ns : 0);
    }
    t->now = y->now;
}

struct snic_kvfs_io *many_hold(struct many *y, uint32_t i, uint32_t kind, uint64_t group)
{
    struct kvt *t = &y->t[i];
    struct snic_kvfs_io *held = NULL;
    t->now = y->now;
    while (held == NULL) {
        struct snic_kvfs_io *io = snic_kvfs_poll_io(t->k);
        if (io == NULL)
            many_on(y, t);
        else if (many_is_kind(&io->op, kind) && many_is_of(&io->op, group))
            held = io;
        else
            t->flight[t->in_flight++] = io;
    }
    y->now = t->now;
    return held;
}

void many_give_back(struct many *y, uint32_t i, struct snic_kvfs_io *held)
{
    y->t[i].flight[y->t[i].in_flight++] = held;
}

void many_open_with(struct many *y, uint32_t count, uint32_t caps, uint64_t seed, uint64_t times_ns)
{
    struct snic_kvmem_opts o = {.opts_size = sizeof(o), .caps = caps, .seed = seed};
    memset(y, 0, sizeof(*y));
    y->caps = caps;
    y->times_ns = times_ns;
    y->now.mono_ns = 1000000000;
    y->now.wall_ns = 1700000000000000000;
    snic_rng_init(&y->rng, seed);
    assert_int_equal(snic_kvmem_open(&y->m, &o), 0);
    y->count = count;
    for (uint32_t i = 0; i < count; i++)
        many_join(y, i);
    assert_int_equal(many_simple(y, 0, SNIC_FSOP_MKFS, 0, NULL), 0);
}

void many_open(struct many *y, uint32_t count, uint32_t caps, uint64_t seed)
{
    many_open_with(y, count, caps, seed, 1000000000);
}

/* All at once: newcomers meet each other and one that is becoming alone. */
void many_mount(struct many *y)
{
    struct snic_fsop req[MANY_MAX];
    for (uint32_t i = 0; i < y->count; i++) {
        kvt_req(&y->t[i], &req[i], SNIC_FSOP_MOUNT, 0, NULL);
        y->t[i].now = y->now;
        kvt_submit(&y->t[i], &req[i]);
        for (uint64_t n = snic_rng_below(&y->rng, 30); n > 0; n--)
            many_step(y);
    }
    many_finish(y, y->count);
    uint32_t alone = 0;
    for (uint32_t i = 0; i < y->count; i++) {
        struct snic_kvfs_stats s;
        assert_int_equal(req[i].result, 0);
        snic_kvfs_get_stats(y->t[i].k, &s);
        alone += (uint32_t)s.alone;
    }
    assert_true(alone == (y->count == 1));
}

void many_close(struct many *y)
{
    for (uint32_t i = 0; i < y->count; i++)
        assert_int_equal(many_simple(y, i, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    many_pass(y, 1000000000);
    for (uint32_t i = 0; i < y->count; i++)
        kvt_close(&y->t[i]);
    audit_store(y->m, 0, NULL);
    snic_kvmem_close(y->m);
}

/* ---- Batches ---- */

void batch_req(struct kvt *t, const struct batch_op *b, struct snic_fsop *req, struct snic_iov *iov)
{
    kvt_req(t, req, b->kind, b->ino, b->name[0] != 0 ? b->name : NULL);
    req->ino2 = b->ino2;
    req->name2 = b->name2;
    req->name2_size = (uint32_t)strlen(b->name2);
    req->flags |= b->flags;
    req->mode = b->kind == SNIC_FSOP_MKDIR ? 0755 : 0100644;
    if (b->kind == SNIC_FSOP_SETATTR) {
        req->set_mask = b->size != 0 ? SNIC_FSOP_SET_SIZE : SNIC_FSOP_SET_MODE;
        req->attr.size = b->size;
        req->attr.mode = 0600 + b->size % 8;
    }
    iov->base = (void *)(uintptr_t)b->bytes;
    iov->size = b->size;
    if (b->kind == SNIC_FSOP_WRITE) {
        req->iov = iov;
        req->iov_count = 1;
        req->length = b->size;
    }
}

/* One order on a copy. 1: results and state are the same. */
int batch_order(struct many *y, const struct snic_kvmem *before, const struct batch_op *ops,
                uint32_t n, const uint32_t *order, const char *state, char *room)
{
    struct snic_kvfs_opts o;
    struct snic_kvmem *m;
    struct kvt t;
    int same = 1;
    kvt_opts(&o);
    o.caps = y->caps;
    o.session_id = 77;
    assert_int_equal(snic_kvmem_clone(before, &m), 0);
    kvt_open_on(&t, m, &o);
    assert_int_equal(kvt_mount(&t), 0);
    for (uint32_t i = 0; i < n && same; i++) {
        struct snic_fsop req;
        struct snic_iov iov;
        batch_req(&t, &ops[order[i]], &req, &iov);
        int64_t rc = kvt_call(&t, &req);
        same = rc == ops[order[i]].result;
    }
    if (same) {
        snap_tree(&t, room);
        same = strcmp(room, state) == 0;
    }
    kvt_close(&t);
    snic_kvmem_close(m);
    return same;
}

int batch_next_order(uint32_t *order, uint32_t n)
{
    uint32_t i = n - 1, j = n - 1;
    while (i > 0 && order[i - 1] > order[i])
        i--;
    if (i == 0)
        return 0;
    while (order[j] < order[i - 1])
        j--;
    uint32_t swap = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swap;
    for (uint32_t a = i, b = n - 1; a < b; a++, b--) {
        swap = order[a];
        order[a] = order[b];
        order[b] = swap;
    }
    return 1;
}

void batch_print(const struct batch_op *ops, uint32_t n, const char *state)
{
    for (uint32_t i = 0; i < n; i++)
        print_error("engine %u kind %d ino %llu '%s' ino2 %llu '%s' flags %x size %u: %s\n",
                    ops[i].engine, (int)ops[i].kind, (unsigned long long)ops[i].ino, ops[i].name,
                    (unsigned long long)ops[i].ino2, ops[i].name2, ops[i].flags, ops[i].size,
                    ops[i].result >= 0 ? "done" : snic_errname((int)ops[i].result));
    print_error("%s", state);
}

/* The state as a fresh engine on a copy sees it. */
void batch_state(struct many *y, char *out)
{
    struct snic_kvfs_opts o;
    struct snic_kvmem *m;
    struct kvt t;
    kvt_opts(&o);
    o.caps = y->caps;
    o.session_id = 78;
    assert_int_equal(snic_kvmem_clone(y->m, &m), 0);
    kvt_open_on(&t, m, &o);
    assert_int_equal(kvt_mount(&t), 0);
    snap_tree(&t, out);
    kvt_close(&t);
    audit_store(m, 0, NULL);
    snic_kvmem_close(m);
}
