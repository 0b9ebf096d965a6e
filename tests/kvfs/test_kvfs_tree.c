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

/* A request under way, and the nodes it is about. */
struct tree_call {
    struct snic_fsop req;
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

/* ---- The expected result of a request. Changes the tree accordingly. ---- */

static int64_t tree_make(struct tree *w, const struct tree_call *c, int64_t result)
{
    struct tree_node *d = &w->node[c->a];
    int dir = c->req.kind == SNIC_FSOP_MKDIR;
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
    if (c->req.kind == SNIC_FSOP_UNLINK && w->node[at].dir)
        return SNIC_EISDIR;
    if (c->req.kind == SNIC_FSOP_RMDIR && !w->node[at].dir)
        return SNIC_ENOTDIR;
    if (c->req.kind == SNIC_FSOP_RMDIR && !tree_empty(&w->node[at]))
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
    int exchange = (c->flags & (int)SNIC_FSOP_RENAME_EXCHANGE) != 0;
    int from = a->nlink == 0 ? -1 : a->child[c->an];
    int to = b->nlink == 0 ? -1 : b->child[c->bn];
    if (from < 0)
        return SNIC_ENOENT;
    if (to >= 0 && (c->flags & (int)SNIC_FSOP_RENAME_NOREPLACE) != 0)
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
    case SNIC_FSOP_MKDIR:
    case SNIC_FSOP_MKNOD:
        return tree_make(w, c, result);
    case SNIC_FSOP_LINK:
        return tree_link(w, c, result);
    case SNIC_FSOP_RENAME:
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
    static const uint32_t kinds[] = {SNIC_FSOP_MKDIR,  SNIC_FSOP_MKDIR,  SNIC_FSOP_MKNOD,
                                     SNIC_FSOP_UNLINK, SNIC_FSOP_RMDIR,  SNIC_FSOP_LINK,
                                     SNIC_FSOP_LINK,   SNIC_FSOP_RENAME, SNIC_FSOP_RENAME,
                                     SNIC_FSOP_RENAME, SNIC_FSOP_RENAME, SNIC_FSOP_RENAME};
    return kinds[snic_rng_below(&w->rng, sizeof(kinds) / sizeof(kinds[0]))];
}

static void tree_submit(struct tree *w)
{
    static const uint32_t flags[] = {0, 0, SNIC_FSOP_RENAME_NOREPLACE, SNIC_FSOP_RENAME_EXCHANGE};
    struct tree_call *c = w->call;
    while (c->used)
        c++;
    c->used = 1;
    c->a = tree_dir(w);
    c->b = tree_dir(w);
    c->an = (int)snic_rng_below(&w->rng, TREE_NAMES);
    c->bn = (int)snic_rng_below(&w->rng, TREE_NAMES);
    c->flags = 0;
    kvt_req(&w->t, &c->req, (enum snic_fsop_kind)tree_kind(w), w->node[c->a].ino, tree_name[c->an]);
    c->req.mode = c->req.kind == SNIC_FSOP_MKNOD ? 0100644 : 0755;
    if (c->req.kind == SNIC_FSOP_RENAME) {
        c->flags = (int)flags[snic_rng_below(&w->rng, 4)];
        if (snic_rng_below(&w->rng, 3) == 0)
            c->b = c->a;
        c->req.flags |= (uint32_t)c->flags;
        c->req.ino2 = w->node[c->b].ino;
        c->req.name2 = tree_name[c->bn];
        c->req.name2_size = (uint32_t)strlen(tree_name[c->bn]);
    }
    if (c->req.kind == SNIC_FSOP_LINK) {
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
    struct snic_fsop *req = kvt_wait(&w->t);
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
        struct snic_fsop_attr a;
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
    (void)tree_add(w, SNIC_FSOP_ROOT, 1, 0);
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
    assert_true(w->done[SNIC_FSOP_RENAME][0] > calls / 50);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_tree_single_as_model),
        cmocka_unit_test(test_kvfs_tree_many_as_model),
        cmocka_unit_test(test_kvfs_tree_one_group_commits_as_model),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
