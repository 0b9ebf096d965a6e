/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Several engines on one store, their operations at the store interleaved by a seed.
 *
 * What is atomic is checked with the engine itself as the sequential model: a batch of requests is
 * run by several engines at once, and on copies of the store, as it was before, one after the other
 * in each order. Results and final state must be those of one of the orders.
 */
#include "test_kvfs_audit.h"
#include "test_kvfs_snap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY_MAX = 3, MANY_BATCH = 4, MANY_DIRS = 8, MANY_FILES = 24 };

struct many {
    struct snic_kvmem *m;
    struct kvt t[MANY_MAX];
    uint32_t count;
    uint32_t paused; /* bit set of engines that do nothing */
    struct snic_kvfs_now now;
    struct snic_rng rng;
    uint32_t caps;
    uint64_t session;
};

/* ---- Engines ---- */

static void many_join(struct many *y, uint32_t i)
{
    struct snic_kvfs_opts o;
    kvt_opts(&o);
    o.caps = y->caps;
    o.session_id = ++y->session * 1000;
    o.heartbeat_ns = 1000000000;
    o.lease_ns = 10000000000;
    kvt_open_on(&y->t[i], y->m, &o);
    snic_kvfs_set_sole(y->t[i].k, 0);
    y->t[i].random = 1;
    y->t[i].rng = y->rng;
    (void)snic_rng_next(&y->rng);
}

/* One engine does one thing; 0: none has anything to do. */
static int many_step(struct many *y)
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

static void many_time(struct many *y, uint64_t ns)
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
static void many_pass(struct many *y, uint64_t ns)
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
static void many_finish(struct many *y, uint32_t left)
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

static int64_t many_call(struct many *y, uint32_t i, struct snic_kvfs_req *req)
{
    y->t[i].now = y->now;
    kvt_submit(&y->t[i], req);
    many_finish(y, 1);
    return req->result;
}

static int64_t many_simple(struct many *y, uint32_t i, enum snic_kvfs_kind kind, uint64_t ino,
                           const char *name)
{
    struct snic_kvfs_req req;
    kvt_req(&y->t[i], &req, kind, ino, name);
    req.mode = 0644;
    return many_call(y, i, &req);
}

static void many_open(struct many *y, uint32_t count, uint32_t caps, uint64_t seed)
{
    struct snic_kvmem_opts o = {.opts_size = sizeof(o), .caps = caps, .seed = seed};
    memset(y, 0, sizeof(*y));
    y->caps = caps;
    y->now.mono_ns = 1000000000;
    y->now.wall_ns = 1700000000000000000;
    snic_rng_init(&y->rng, seed);
    assert_int_equal(snic_kvmem_open(&y->m, &o), 0);
    y->count = count;
    for (uint32_t i = 0; i < count; i++)
        many_join(y, i);
    assert_int_equal(many_simple(y, 0, SNIC_KVFS_MKFS, 0, NULL), 0);
}

/* All at once: newcomers meet each other and one that is becoming alone. */
static void many_mount(struct many *y)
{
    struct snic_kvfs_req req[MANY_MAX];
    for (uint32_t i = 0; i < y->count; i++) {
        kvt_req(&y->t[i], &req[i], SNIC_KVFS_MOUNT, 0, NULL);
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

static void many_close(struct many *y)
{
    for (uint32_t i = 0; i < y->count; i++)
        assert_int_equal(many_simple(y, i, SNIC_KVFS_UNMOUNT, 0, NULL), 0);
    many_pass(y, 1000000000);
    for (uint32_t i = 0; i < y->count; i++)
        kvt_close(&y->t[i]);
    audit_store(y->m, 0, NULL);
    snic_kvmem_close(y->m);
}

/* ---- Batches ---- */

struct batch_op {
    enum snic_kvfs_kind kind;
    uint32_t engine;
    uint64_t ino, ino2;
    char name[4], name2[4];
    uint32_t flags;
    uint32_t size;
    char bytes[64];
    int64_t result;
};

static void batch_req(struct kvt *t, const struct batch_op *b, struct snic_kvfs_req *req,
                      struct snic_iov *iov)
{
    kvt_req(t, req, b->kind, b->ino, b->name[0] != 0 ? b->name : NULL);
    req->ino2 = b->ino2;
    req->name2 = b->name2;
    req->name2_size = (uint32_t)strlen(b->name2);
    req->flags |= b->flags;
    req->mode = b->kind == SNIC_KVFS_MKDIR ? 0755 : 0100644;
    if (b->kind == SNIC_KVFS_SETATTR) {
        req->set_mask = b->size != 0 ? SNIC_KVFS_SET_SIZE : SNIC_KVFS_SET_MODE;
        req->attr.size = b->size;
        req->attr.mode = 0600 + b->size % 8;
    }
    iov->base = (void *)(uintptr_t)b->bytes;
    iov->size = b->size;
    if (b->kind == SNIC_KVFS_WRITE) {
        req->iov = iov;
        req->iov_count = 1;
        req->length = b->size;
    }
}

/* What there is, for the next batch to meddle with: directories and files. */
struct batch_world {
    uint64_t dirs[MANY_DIRS];
    uint32_t dir_count;
    uint64_t files[MANY_FILES];
    uint32_t file_count;
};

static const char *const batch_names[] = {"x", "y", "z"};

static void batch_look(struct many *y, struct batch_world *w)
{
    memset(w, 0, sizeof(*w));
    w->dirs[w->dir_count++] = SNIC_KVFS_ROOT;
    for (uint32_t d = 0; d < w->dir_count; d++) {
        for (uint32_t n = 0; n < SNIC_COUNTOF(batch_names); n++) {
            struct snic_kvfs_req req;
            kvt_req(&y->t[0], &req, SNIC_KVFS_LOOKUP, w->dirs[d], batch_names[n]);
            if (many_call(y, 0, &req) < 0)
                continue;
            if ((req.attr.mode & 0170000) == 0040000) {
                if (w->dir_count < MANY_DIRS)
                    w->dirs[w->dir_count++] = req.attr.ino;
            } else if (w->file_count < MANY_FILES) {
                w->files[w->file_count++] = req.attr.ino;
            }
        }
    }
}

static void batch_draw(struct many *y, const struct batch_world *w, struct batch_op *b)
{
    static const enum snic_kvfs_kind kinds[] = {
        SNIC_KVFS_MKNOD,  SNIC_KVFS_MKNOD, SNIC_KVFS_MKDIR,  SNIC_KVFS_MKDIR,
        SNIC_KVFS_UNLINK, SNIC_KVFS_RMDIR, SNIC_KVFS_RENAME, SNIC_KVFS_RENAME,
        SNIC_KVFS_RENAME, SNIC_KVFS_LINK,  SNIC_KVFS_WRITE,  SNIC_KVFS_SETATTR};
    uint32_t hot = (uint32_t)snic_rng_below(&y->rng, 2);
    memset(b, 0, sizeof(*b));
    b->kind = kinds[snic_rng_below(&y->rng, SNIC_COUNTOF(kinds))];
    b->engine = (uint32_t)snic_rng_below(&y->rng, y->count);
    b->ino = w->dirs[snic_rng_below(&y->rng, hot ? snic_min_u64(2, w->dir_count) : w->dir_count)];
    b->ino2 = w->dirs[snic_rng_below(&y->rng, w->dir_count)];
    strcpy(b->name, batch_names[snic_rng_below(&y->rng, SNIC_COUNTOF(batch_names))]);
    strcpy(b->name2, batch_names[snic_rng_below(&y->rng, SNIC_COUNTOF(batch_names))]);
    if (b->kind == SNIC_KVFS_RENAME) {
        static const uint32_t flags[] = {0, 0, SNIC_KVFS_RENAME_NOREPLACE,
                                         SNIC_KVFS_RENAME_EXCHANGE};
        b->flags = flags[snic_rng_below(&y->rng, 4)];
    }
    if (b->kind != SNIC_KVFS_LINK && b->kind != SNIC_KVFS_WRITE && b->kind != SNIC_KVFS_SETATTR)
        return;
    if (w->file_count == 0) {
        b->kind = SNIC_KVFS_MKNOD;
        return;
    }
    b->ino = w->files[snic_rng_below(&y->rng, w->file_count)];
    b->name[0] = 0;
    b->size = (uint32_t)snic_rng_below(&y->rng, 50);
    if (b->kind == SNIC_KVFS_WRITE) {
        b->flags = snic_rng_below(&y->rng, 2) != 0 ? SNIC_KVFS_APPEND : 0;
        b->size++;
        snic_rng_fill(&y->rng, b->bytes, sizeof(b->bytes));
    }
}

/* One order on a copy. 1: results and state are the same. */
static int batch_order(struct many *y, const struct snic_kvmem *before, const struct batch_op *ops,
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
        struct snic_kvfs_req req;
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

static int batch_next_order(uint32_t *order, uint32_t n)
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

static void batch_print(const struct batch_op *ops, uint32_t n, const char *state)
{
    for (uint32_t i = 0; i < n; i++)
        print_error("engine %u kind %d ino %llu '%s' ino2 %llu '%s' flags %x size %u: %s\n",
                    ops[i].engine, (int)ops[i].kind, (unsigned long long)ops[i].ino, ops[i].name,
                    (unsigned long long)ops[i].ino2, ops[i].name2, ops[i].flags, ops[i].size,
                    ops[i].result >= 0 ? "done" : snic_errname((int)ops[i].result));
    print_error("%s", state);
}

/* The state as a fresh engine on a copy sees it. */
static void batch_state(struct many *y, char *out)
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

static void batch_run(struct many *y, char *state, char *room)
{
    struct batch_world w;
    struct batch_op ops[MANY_BATCH];
    struct snic_kvfs_req req[MANY_BATCH];
    struct snic_iov iov[MANY_BATCH];
    struct snic_kvmem *before;
    uint32_t order[MANY_BATCH], n = 2 + (uint32_t)snic_rng_below(&y->rng, MANY_BATCH - 1);
    batch_look(y, &w);
    many_pass(y, snic_rng_below(&y->rng, 2000000000));
    assert_int_equal(snic_kvmem_clone(y->m, &before), 0);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
        batch_draw(y, &w, &ops[i]);
        struct kvt *t = &y->t[ops[i].engine];
        batch_req(t, &ops[i], &req[i], &iov[i]);
        t->now = y->now;
        kvt_submit(t, &req[i]);
    }
    many_finish(y, n);
    for (uint32_t i = 0; i < n; i++)
        ops[i].result = req[i].result;
    many_pass(y, 3000000000); /* times kept back, orphans */
    batch_state(y, state);
    int same;
    do {
        same = batch_order(y, before, ops, n, order, state, room);
    } while (!same && batch_next_order(order, n));
    if (!same)
        batch_print(ops, n, state);
    assert_true(same);
    snic_kvmem_close(before);
}

static void batches(uint32_t engines, uint32_t caps, uint64_t seed, uint64_t count)
{
    char *state = malloc(SNAP_MAX), *room = malloc(SNAP_MAX);
    struct many y;
    assert_true(state != NULL && room != NULL);
    many_open(&y, engines, caps, seed);
    many_mount(&y);
    for (uint64_t i = 0; i < count; i++)
        batch_run(&y, state, room);
    for (uint32_t i = 0; i < engines; i++)
        assert_int_equal(y.t[i].damages, 0);
    many_close(&y);
    free(state);
    free(room);
}

enum {
    MANY_CAPS =
        SNIC_KV_CAP_ATOMIC_BLOCK | SNIC_KV_CAP_ALLOC | SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED
};

static void test_kvfs_mounts_batches_some_order(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 100); s++) {
        batches(2, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed() * 1000 + s, 20);
        batches(3, MANY_CAPS | SNIC_KV_CAP_ATOMIC_MULTI, support_seed() * 1000 + s, 20);
    }
}

static void test_kvfs_mounts_batches_by_group_some_order(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 100); s++) {
        batches(2, MANY_CAPS, support_seed() * 1000 + s, 20);
        batches(3, MANY_CAPS, support_seed() * 1000 + s, 20);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_mounts_batches_some_order),
        cmocka_unit_test(test_kvfs_mounts_batches_by_group_some_order),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
