/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random names: many requests at once, the store's answers in any order, against a tree in memory.
 *
 * Requests that touch the same directory wait for each other, and what does not touch the same
 * does not matter to each other; so the order in which they finish is one in which they
 * could have happened one after the other, and the model takes them in this order.
 */
#include "test_kvfs_audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREE_NAMES = 7, TREE_NODES = 4096, TREE_FLIGHT = 24, TREE_DIRS = 24 };

struct tree_node {
    uint64_t ino;
    int dir;
    int nlink; /* names; a directory: 1 or 0                                                  */
    int parent;
    int child[TREE_NAMES]; /* nodes, -1: none                                                 */
};

/* A request under way, and whom it is about. */
struct tree_call {
    struct snic_kvfs_req req;
    int used;
    int a, an, b, bn, flags;
};

struct tree {
    struct kvt t;
    struct snic_rng rng;
    struct tree_node node[TREE_NODES];
    int count;
    int dirs[TREE_NODES], dir_count; /* nodes that are directories, also removed ones         */
    struct tree_call call[TREE_FLIGHT];
    int flight;
    uint64_t done[16][2]; /* kind: successes, failures                                        */
};

static const char *const tree_name[TREE_NAMES] = {"a", "b", "c", "dd", "eee", "ffff", "a long one"};

static int tree_add(struct tree *w, uint64_t ino, int dir, int parent)
{
    struct tree_node *n = &w->node[w->count];
    assert_true(w->count < TREE_NODES);
    memset(n, 0, sizeof(*n));
    n->ino = ino;
    n->dir = dir;
    n->nlink = 1;
    n->parent = parent;
    for (int i = 0; i < TREE_NAMES; i++)
        n->child[i] = -1;
    if (dir)
        w->dirs[w->dir_count++] = w->count;
    return w->count++;
}

static int tree_empty(const struct tree_node *n)
{
    for (int i = 0; i < TREE_NAMES; i++)
        if (n->child[i] >= 0)
            return 0;
    return 1;
}

static int tree_below(const struct tree *w, int node, int top)
{
    for (; node != 0; node = w->node[node].parent)
        if (node == top)
            return 1;
    return top == 0;
}

static void tree_drop(struct tree *w, int node)
{
    w->node[node].nlink--;
}

/* ---- What should have come of a request. Changes the tree as it says. ---- */

static int64_t tree_make(struct tree *w, const struct tree_call *c, int64_t result)
{
    struct tree_node *d = &w->node[c->a];
    int dir = c->req.kind == SNIC_KVFS_MKDIR;
    if (d->nlink == 0)
        return SNIC_ENOENT;
    if (d->child[c->an] >= 0)
        return SNIC_EEXIST;
    if (result == 0)
        d->child[c->an] = tree_add(w, c->req.attr.ino, dir, c->a);
    return 0;
}

static int64_t tree_remove(struct tree *w, const struct tree_call *c)
{
    struct tree_node *d = &w->node[c->a];
    int at = d->nlink == 0 ? -1 : d->child[c->an];
    if (at < 0)
        return SNIC_ENOENT;
    if (c->req.kind == SNIC_KVFS_UNLINK && w->node[at].dir)
        return SNIC_EISDIR;
    if (c->req.kind == SNIC_KVFS_RMDIR && !w->node[at].dir)
        return SNIC_ENOTDIR;
    if (c->req.kind == SNIC_KVFS_RMDIR && !tree_empty(&w->node[at]))
        return SNIC_ENOTEMPTY;
    d->child[c->an] = -1;
    tree_drop(w, at);
    return 0;
}

/* b is the file, a the directory. */
static int64_t tree_link(struct tree *w, const struct tree_call *c, int64_t result)
{
    struct tree_node *d = &w->node[c->a], *f = &w->node[c->b];
    if (d->nlink == 0)
        return SNIC_ENOENT;
    if (f->nlink == 0) /* gone, or going */
        return result == SNIC_EEXIST && d->child[c->an] >= 0 ? SNIC_EEXIST : SNIC_ENOENT;
    if (d->child[c->an] >= 0)
        return SNIC_EEXIST;
    if (f->dir)
        return SNIC_EPERM;
    d->child[c->an] = c->b;
    f->nlink++;
    return 0;
}

static int64_t tree_rename(struct tree *w, const struct tree_call *c, int64_t result)
{
    struct tree_node *a = &w->node[c->a], *b = &w->node[c->b];
    int exchange = (c->flags & (int)SNIC_KVFS_RENAME_EXCHANGE) != 0;
    int from = a->nlink == 0 ? -1 : a->child[c->an];
    int to = b->nlink == 0 ? -1 : b->child[c->bn];
    if (from < 0)
        return SNIC_ENOENT;
    if (to >= 0 && (c->flags & (int)SNIC_KVFS_RENAME_NOREPLACE) != 0)
        return SNIC_EEXIST;
    if (to < 0 && exchange)
        return SNIC_ENOENT;
    if (b->nlink ==
        0) /* removed directories have parents still, while there is something of them */
        return result == SNIC_EINVAL && w->node[from].dir ? SNIC_EINVAL : SNIC_ENOENT;
    if (from == to)
        return 0;
    if (w->node[from].dir && tree_below(w, c->b, from))
        return SNIC_EINVAL;
    if (to >= 0 && w->node[to].dir && c->a != c->b && tree_below(w, c->a, to))
        return exchange ? SNIC_EINVAL : SNIC_ENOTEMPTY;
    if (to >= 0 && !exchange && w->node[from].dir != w->node[to].dir)
        return w->node[from].dir ? SNIC_ENOTDIR : SNIC_EISDIR;
    if (to >= 0 && !exchange && w->node[to].dir && !tree_empty(&w->node[to]))
        return SNIC_ENOTEMPTY;
    b->child[c->bn] = from;
    a->child[c->an] = exchange ? to : -1;
    if (w->node[from].dir)
        w->node[from].parent = c->b;
    if (exchange && w->node[to].dir)
        w->node[to].parent = c->a;
    if (to >= 0 && !exchange)
        tree_drop(w, to);
    return 0;
}

static int64_t tree_expected(struct tree *w, const struct tree_call *c)
{
    int64_t result = c->req.result;
    switch (c->req.kind) {
    case SNIC_KVFS_MKDIR:
    case SNIC_KVFS_MKNOD:
        return tree_make(w, c, result);
    case SNIC_KVFS_LINK:
        return tree_link(w, c, result);
    case SNIC_KVFS_RENAME:
        return tree_rename(w, c, result);
    default:
        return tree_remove(w, c);
    }
}

/* ---- Requests ---- */

static int tree_dir(struct tree *w)
{
    /* Mostly young ones and the root: old ones are mostly removed. */
    uint64_t n = snic_rng_below(&w->rng, TREE_DIRS);
    if (n == 0 || w->dir_count == 1)
        return 0;
    return w->dirs[w->dir_count - 1 - (int)(n % (uint64_t)w->dir_count)];
}

static uint32_t tree_kind(struct tree *w)
{
    static const uint32_t kinds[] = {SNIC_KVFS_MKDIR,  SNIC_KVFS_MKDIR,  SNIC_KVFS_MKNOD,
                                     SNIC_KVFS_UNLINK, SNIC_KVFS_RMDIR,  SNIC_KVFS_LINK,
                                     SNIC_KVFS_LINK,   SNIC_KVFS_RENAME, SNIC_KVFS_RENAME,
                                     SNIC_KVFS_RENAME, SNIC_KVFS_RENAME, SNIC_KVFS_RENAME};
    return kinds[snic_rng_below(&w->rng, sizeof(kinds) / sizeof(kinds[0]))];
}

static void tree_submit(struct tree *w)
{
    static const uint32_t flags[] = {0, 0, SNIC_KVFS_RENAME_NOREPLACE, SNIC_KVFS_RENAME_EXCHANGE};
    struct tree_call *c = w->call;
    while (c->used)
        c++;
    c->used = 1;
    c->a = tree_dir(w);
    c->b = tree_dir(w);
    c->an = (int)snic_rng_below(&w->rng, TREE_NAMES);
    c->bn = (int)snic_rng_below(&w->rng, TREE_NAMES);
    c->flags = 0;
    kvt_req(&w->t, &c->req, (enum snic_kvfs_kind)tree_kind(w), w->node[c->a].ino, tree_name[c->an]);
    c->req.mode = c->req.kind == SNIC_KVFS_MKNOD ? 0100644 : 0755;
    if (c->req.kind == SNIC_KVFS_RENAME) {
        c->flags = (int)flags[snic_rng_below(&w->rng, 4)];
        if (snic_rng_below(&w->rng, 3) == 0)
            c->b = c->a;
        c->req.flags |= (uint32_t)c->flags;
        c->req.ino2 = w->node[c->b].ino;
        c->req.name2 = tree_name[c->bn];
        c->req.name2_size = (uint32_t)strlen(tree_name[c->bn]);
    }
    if (c->req.kind == SNIC_KVFS_LINK) {
        int younger = w->count < 64 ? w->count : 64;
        c->b = w->count - 1 - (int)snic_rng_below(&w->rng, (uint64_t)younger);
        c->req.ino2 = c->req.ino;
        c->req.ino = w->node[c->b].ino;
        c->req.name2 = c->req.name;
        c->req.name2_size = c->req.name_size;
    }
    kvt_submit(&w->t, &c->req);
    w->flight++;
}

static void tree_finish(struct tree *w)
{
    struct snic_kvfs_req *req = kvt_wait(&w->t);
    struct tree_call *c;
    int64_t expected;
    assert_non_null(req);
    c = SNIC_CONTAINER(req, struct tree_call, req);
    expected = tree_expected(w, c);
    if (expected != req->result)
        print_error("kind %u, dirs %d %d, names %d %d, flags %x\n", req->kind, c->a, c->b, c->an,
                    c->bn, (unsigned)c->flags);
    assert_int_equal(req->result, expected);
    w->done[req->kind][req->result != 0]++;
    c->used = 0;
    w->flight--;
}

/* ---- The whole tree, as the engine lists it ---- */

static void tree_compare(struct tree *w)
{
    for (int i = 0; i < w->count; i++) {
        struct tree_node *n = &w->node[i];
        struct snic_kvfs_attr a;
        int64_t rc = kvt_getattr(&w->t, n->ino, &a);
        uint64_t subdirs = 0, names = 0;
        if (n->nlink == 0) {
            assert_int_equal(rc, SNIC_ENOENT);
            continue;
        }
        assert_int_equal(rc, 0);
        if (!n->dir) {
            assert_int_equal(a.nlink, n->nlink);
            continue;
        }
        for (int c = 0; c < TREE_NAMES; c++) {
            int at = n->child[c];
            rc = kvt_try_lookup(&w->t, n->ino, tree_name[c]);
            assert_int_equal(rc, at < 0 ? SNIC_ENOENT : (int64_t)w->node[at].ino);
            names += at >= 0;
            subdirs += at >= 0 && w->node[at].dir;
        }
        assert_int_equal(a.nlink, 2 + subdirs);
        assert_int_equal(a.entries, names);
        assert_int_equal(kvt_try_resolve(&w->t, n->ino, ".."), w->node[n->parent].ino);
    }
}

static void tree_run(const struct snic_kvfs_opts *o, uint64_t seed, uint32_t calls, int most)
{
    struct tree *w = calloc(1, sizeof(*w));
    struct audit_counts counts;
    struct snic_kvfs_stats stats;
    assert_non_null(w);
    kvt_open(&w->t, o);
    w->t.random = 1;
    snic_rng_init(&w->rng, seed);
    snic_rng_init(&w->t.rng, seed + 1);
    (void)tree_add(w, SNIC_KVFS_ROOT, 1, 0);
    for (uint32_t i = 0; i < calls && w->count < TREE_NODES - most; i++) {
        while (w->flight < most)
            tree_submit(w);
        tree_finish(w);
    }
    while (w->flight > 0)
        tree_finish(w);
    kvt_settle(&w->t);
    kvt_advance(&w->t, 300000000); /* replaced files linger */
    kvt_settle(&w->t);
    tree_compare(w);
    assert_int_equal(kvt_unmount(&w->t), 0);
    audit_store(w->t.m, 1, &counts);
    assert_int_equal(counts.orphans, 0);
    assert_int_equal(w->t.damages, 0);
    snic_kvfs_get_stats(w->t.k, &stats);
    assert_int_equal(stats.intents != 0, (w->t.o.caps & SNIC_KV_CAP_ATOMIC_MULTI) == 0);
    assert_true(w->done[SNIC_KVFS_RENAME][0] > calls / 50);
    kvt_close(&w->t);
    free(w);
}

/* One at a time: the rules. */
static void test_kvfs_tree_single_as_model(void **state)
{
    (void)state;
    tree_run(NULL, support_seed(), 8000, 1);
}

/* Many at once: the locks. */
static void test_kvfs_tree_many_as_model(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(4, 60); i++)
        tree_run(NULL, support_seed() + i * 1000, 8000, TREE_FLIGHT);
}

/* ---- Two sessions ---- */

enum { PAIR_DIRS = 14, PAIR_FLIGHT = 10 };

struct pair_call {
    struct snic_kvfs_req req;
    int used;
};

struct pair {
    struct kvt t[2];
    struct snic_rng rng;
    uint64_t dirs[PAIR_DIRS];
    struct pair_call call[2][PAIR_FLIGHT];
    int flight[2];
    uint64_t moved, refused;
};

static void pair_submit(struct pair *p, int side)
{
    static const uint32_t kinds[] = {SNIC_KVFS_MKDIR, SNIC_KVFS_RMDIR, SNIC_KVFS_MKNOD,
                                     SNIC_KVFS_LINK, SNIC_KVFS_UNLINK};
    struct pair_call *c = p->call[side];
    uint64_t kind = snic_rng_below(&p->rng, 20);
    while (c->used)
        c++;
    c->used = 1;
    kvt_req(&p->t[side], &c->req, kind < 5 ? (enum snic_kvfs_kind)kinds[kind] : SNIC_KVFS_RENAME,
            p->dirs[snic_rng_below(&p->rng, PAIR_DIRS)],
            tree_name[snic_rng_below(&p->rng, TREE_NAMES)]);
    c->req.mode = c->req.kind == SNIC_KVFS_MKNOD ? 0100644 : 0755;
    c->req.ino2 = p->dirs[snic_rng_below(&p->rng, PAIR_DIRS)];
    c->req.name2 = tree_name[snic_rng_below(&p->rng, TREE_NAMES)];
    c->req.name2_size = (uint32_t)strlen(c->req.name2);
    if (c->req.kind == SNIC_KVFS_RENAME && snic_rng_below(&p->rng, 3) == 0)
        c->req.flags |= SNIC_KVFS_RENAME_EXCHANGE;
    kvt_submit(&p->t[side], &c->req);
    p->flight[side]++;
}

static int pair_reap(struct pair *p, int side)
{
    struct snic_kvfs_req *req = snic_kvfs_poll_done(p->t[side].k);
    if (req == NULL)
        return 0;
    p->moved += req->kind == SNIC_KVFS_RENAME && req->result == 0;
    p->refused += req->kind == SNIC_KVFS_RENAME && req->result == SNIC_EINVAL;
    assert_true(req->result != SNIC_ECORRUPT && req->result != SNIC_EIO &&
                req->result != SNIC_ETIMEDOUT && req->result != SNIC_ENOMEM);
    SNIC_CONTAINER(req, struct pair_call, req)->used = 0;
    p->flight[side]--;
    return 1;
}

/* One step of either. Time passes for both. */
static int pair_step(struct pair *p)
{
    int side = (int)snic_rng_below(&p->rng, 2);
    if (!kvt_step(&p->t[side]))
        kvt_advance(&p->t[side], 100000);
    if (p->t[side].now.mono_ns < p->t[!side].now.mono_ns)
        kvt_advance(&p->t[side], p->t[!side].now.mono_ns - p->t[side].now.mono_ns);
    return side;
}

static int64_t pair_call(struct pair *p, int side, struct snic_kvfs_req *req)
{
    struct snic_kvfs_req *done;
    kvt_submit(&p->t[side], req);
    while ((done = snic_kvfs_poll_done(p->t[side].k)) == NULL)
        (void)pair_step(p);
    assert_ptr_equal(done, req);
    return req->result;
}

static int64_t pair_mount(struct pair *p, int side)
{
    struct snic_kvfs_req req;
    kvt_req(&p->t[side], &req, SNIC_KVFS_MOUNT, 0, NULL);
    p->t[side].mounted = 1;
    return pair_call(p, side, &req);
}

static uint64_t pair_mkdir(struct pair *p, uint64_t dir, const char *name)
{
    struct snic_kvfs_req req;
    kvt_req(&p->t[0], &req, SNIC_KVFS_MKDIR, dir, name);
    req.mode = 0755;
    assert_int_equal(pair_call(p, 0, &req), 0);
    return req.attr.ino;
}

static void pair_drive(struct pair *p, uint64_t calls)
{
    while (calls > 0 || p->flight[0] + p->flight[1] > 0) {
        int side = pair_step(p);
        while (calls > 0 && p->flight[side] < PAIR_FLIGHT) {
            pair_submit(p, side);
            calls--;
        }
        while (pair_reap(p, side))
            continue;
    }
}

static void pair_run(uint32_t caps, uint64_t seed, uint64_t calls)
{
    struct pair *p = calloc(1, sizeof(*p));
    struct snic_kvfs_opts o;
    struct snic_kvmem *m;
    assert_non_null(p);
    kvt_opts(&o);
    o.caps = caps;
    kvt_medium(&m, caps);
    snic_rng_init(&p->rng, seed);
    for (int side = 0; side < 2; side++) {
        o.session_id = 100 + (uint64_t)side;
        kvt_open_on(&p->t[side], m, &o);
        snic_kvfs_set_sole(p->t[side].k, 0);
        p->t[side].random = 1;
        snic_rng_init(&p->t[side].rng, seed + 1 + (uint64_t)side);
    }
    assert_int_equal(kvt_mkfs(&p->t[0]), 0);
    for (int side = 0; side < 2; side++)
        assert_int_equal(pair_mount(p, side), 0);
    for (int i = 0; i < PAIR_DIRS; i++)
        p->dirs[i] =
            i == 0 ? SNIC_KVFS_ROOT : pair_mkdir(p, p->dirs[i / 2], tree_name[i % TREE_NAMES]);
    pair_drive(p, calls);
    assert_true(p->moved > calls / 100);
    assert_true(p->refused > 0);
    for (int side = 0; side < 2; side++) {
        assert_int_equal(p->t[side].damages, 0);
    }
    for (int side = 0; side < 2; side++) {
        struct snic_kvfs_req req;
        kvt_req(&p->t[side], &req, SNIC_KVFS_UNMOUNT, 0, NULL);
        assert_int_equal(pair_call(p, side, &req), 0);
        p->t[side].mounted = 0;
    }
    audit_store(m, (caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0, NULL);
    kvt_close(&p->t[0]);
    kvt_close(&p->t[1]);
    assert_int_equal(snic_kvmem_check(m), 0);
    snic_kvmem_close(m);
    free(p);
}

/* Two sessions move directories into each other's: counts stay right, and there is no circle. */
static void test_kvfs_tree_two_sessions_no_circle(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    for (uint64_t i = 0; i < support_scale(3, 40); i++)
        pair_run(o.caps, support_seed() + i * 100, 4000);
}

/* The same where a commit stops at the group. */
static void test_kvfs_tree_one_group_commits_as_model(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    o.caps &= ~SNIC_KV_CAP_ATOMIC_MULTI;
    tree_run(&o, support_seed(), 3000, 1);
    for (uint64_t i = 0; i < support_scale(2, 40); i++)
        tree_run(&o, support_seed() + i * 1000, 4000, TREE_FLIGHT);
}

static void test_kvfs_tree_one_group_commits_no_circle(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    for (uint64_t i = 0; i < support_scale(3, 40); i++)
        pair_run(o.caps & ~SNIC_KV_CAP_ATOMIC_MULTI, support_seed() + i * 100, 3000);
}

/* ---- A store that fails ---- */

static uint64_t tree_fail_at, tree_fail_count;

/* The n-th operation fails, and does nothing. */
static void tree_fail(struct kvt *t, struct snic_kvop *op)
{
    if (++tree_fail_count != tree_fail_at) {
        snic_kvmem_apply(t->m, op);
        return;
    }
    op->result = SNIC_EIO;
    op->failed_guard = UINT32_MAX;
}

static int64_t tree_fault_xattr(struct kvt *t, enum snic_kvfs_kind kind, uint64_t ino,
                                const char *name, const void *value, size_t size)
{
    struct snic_kvfs_req req;
    struct snic_iov iov = {(void *)(uintptr_t)value, size};
    kvt_req(t, &req, kind, ino, name);
    req.iov = &iov;
    req.iov_count = value == NULL ? 0 : 1;
    return kvt_call(t, &req);
}

enum { TREE_FAULTS = 15 };

/* One operation of each kind, on what tree_fault_fill() has made. */
static int64_t tree_fault_call(struct kvt *t, int which, const uint64_t *ino)
{
    static const unsigned char list[] = {2,   0,   0,   0,   1,   0,   7,  0,   255, 255, 255,
                                         255, 2,   0,   6,   0,   9,   0,  0,   0,   4,   0,
                                         5,   0,   255, 255, 255, 255, 16, 0,   7,   0,   255,
                                         255, 255, 255, 32,  0,   0,   0,  255, 255, 255, 255};
    struct snic_kvfs_attr a = {.mode = 0600, .uid = 7, .gid = 8};
    switch (which) {
    case 0:
        return kvt_unlink(t, ino[0], "f");
    case 1:
        return kvt_unlink(t, ino[0], "g"); /* one of two names */
    case 2:
        return kvt_rmdir(t, ino[0], "s");
    case 3:
        return kvt_link(t, ino[2], ino[1], "new");
    case 4:
        return kvt_rename(t, ino[0], "f", ino[0], "new", 0);
    case 5:
        return kvt_rename(t, ino[0], "f", ino[1], "new", 0);
    case 6:
        return kvt_rename(t, ino[0], "s", ino[1], "new", 0);
    case 7:
        return kvt_rename(t, ino[0], "f", ino[1], "over", 0);
    case 8:
        return kvt_rename(t, ino[0], "s", ino[1], "over", SNIC_KVFS_RENAME_EXCHANGE);
    case 9:
        return kvt_rename(t, ino[0], "g", ino[1], "over", 0);
    case 10:
        return kvt_setattr(t, ino[2], SNIC_KVFS_SET_MODE | SNIC_KVFS_SET_UID, &a);
    case 11:
        return tree_fault_xattr(t, SNIC_KVFS_SETXATTR, ino[2], "user.new", "value", 5);
    case 12:
        return tree_fault_xattr(t, SNIC_KVFS_REMOVEXATTR, ino[2], "user.old", NULL, 0);
    case 13:
        return tree_fault_xattr(t, SNIC_KVFS_SETXATTR, ino[2], "system.posix_acl_access", list,
                                sizeof(list));
    default:
        return kvt_rename(t, ino[0], "s", ino[1], "empty", 0);
    }
}

static void tree_fault_fill(struct kvt *t, uint64_t *ino)
{
    ino[0] = kvt_mkdir(t, SNIC_KVFS_ROOT, "a", 0755);
    ino[1] = kvt_mkdir(t, SNIC_KVFS_ROOT, "b", 0755);
    ino[2] = kvt_file(t, ino[0], "f", 0644);
    ino[3] = kvt_mkdir(t, ino[0], "s", 0755);
    (void)kvt_mkdir(t, ino[1], "empty", 0755);
    (void)kvt_file(t, ino[1], "over", 0644);
    uint64_t g = kvt_file(t, ino[0], "g", 0644);
    assert_int_equal(kvt_link(t, g, ino[1], "g2"), 0);
    assert_int_equal(tree_fault_xattr(t, SNIC_KVFS_SETXATTR, ino[2], "user.old", "x", 1), 0);
    assert_int_equal(kvt_unmount(t), 0);
    assert_int_equal(kvt_mount(t), 0); /* nothing is in memory */
    kvt_settle(t);
}

/* Whichever operation of the store fails: the request fails, nothing has changed, and it can be
 * done again. */
static void tree_faults(uint32_t caps)
{
    struct snic_kvfs_opts o;
    kvt_opts(&o);
    o.caps = caps;
    for (int which = 0; which < TREE_FAULTS; which++) {
        int64_t rc = SNIC_EIO;
        for (uint64_t at = 1; rc != 0; at++) {
            struct kvt t;
            uint64_t ino[4], before, moves;
            kvt_open(&t, &o);
            tree_fault_fill(&t, ino);
            before = snic_kvmem_digest(t.m);
            moves = snic_kvmem_changes(t.m);
            tree_fail_at = at;
            tree_fail_count = 0;
            t.apply = tree_fail;
            rc = tree_fault_call(&t, which, ino);
            t.apply = NULL;
            kvt_settle(&t);
            if (rc != 0) {
                assert_int_equal(rc, SNIC_EIO);
                if ((caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0) {
                    assert_true(before == snic_kvmem_digest(t.m));
                    assert_int_equal(moves, snic_kvmem_changes(t.m));
                }
                assert_int_equal(tree_fault_call(&t, which, ino), 0);
            }
            assert_true(at < 100);
            assert_int_equal(kvt_unmount(&t), 0);
            audit_store(t.m, 1, NULL);
            kvt_close(&t);
        }
    }
}

static void test_kvfs_tree_store_fails_nothing_changed(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    tree_faults(o.caps);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_tree_single_as_model),
        cmocka_unit_test(test_kvfs_tree_many_as_model),
        cmocka_unit_test(test_kvfs_tree_two_sessions_no_circle),
        cmocka_unit_test(test_kvfs_tree_store_fails_nothing_changed),
        cmocka_unit_test(test_kvfs_tree_one_group_commits_as_model),
        cmocka_unit_test(test_kvfs_tree_one_group_commits_no_circle),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
