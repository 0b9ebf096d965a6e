/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two sessions on one store, with random names: directories are moved into each other's from both
 * sides, and there is never a circle.
 */
#include "test_kvfs_audit.h"

#include <stdlib.h>
#include <string.h>

enum { PAIR_NAMES = 7, PAIR_DIRS = 14, PAIR_FLIGHT = 10 };

static const char *const pair_name[PAIR_NAMES] = {"a", "b", "c", "dd", "eee", "ffff", "a long one"};

struct pair_call {
    struct snic_fsop req;
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
    static const uint32_t kinds[] = {SNIC_FSOP_MKDIR, SNIC_FSOP_RMDIR, SNIC_FSOP_MKNOD,
                                     SNIC_FSOP_LINK, SNIC_FSOP_UNLINK};
    struct pair_call *c = p->call[side];
    uint64_t kind = snic_rng_below(&p->rng, 20);
    while (c->used)
        c++;
    c->used = 1;
    kvt_req(&p->t[side], &c->req, kind < 5 ? (enum snic_fsop_kind)kinds[kind] : SNIC_FSOP_RENAME,
            p->dirs[snic_rng_below(&p->rng, PAIR_DIRS)],
            pair_name[snic_rng_below(&p->rng, PAIR_NAMES)]);
    c->req.mode = c->req.kind == SNIC_FSOP_MKNOD ? 0100644 : 0755;
    c->req.ino2 = p->dirs[snic_rng_below(&p->rng, PAIR_DIRS)];
    c->req.name2 = pair_name[snic_rng_below(&p->rng, PAIR_NAMES)];
    c->req.name2_size = (uint32_t)strlen(c->req.name2);
    if (c->req.kind == SNIC_FSOP_RENAME && snic_rng_below(&p->rng, 3) == 0)
        c->req.flags |= SNIC_FSOP_RENAME_EXCHANGE;
    kvt_submit(&p->t[side], &c->req);
    p->flight[side]++;
}

static int pair_reap(struct pair *p, int side)
{
    struct snic_fsop *req = snic_kvfs_poll_done(p->t[side].k);
    if (req == NULL)
        return 0;
    p->moved += req->kind == SNIC_FSOP_RENAME && req->result == 0;
    p->refused += req->kind == SNIC_FSOP_RENAME && req->result == SNIC_EINVAL;
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

static int64_t pair_call(struct pair *p, int side, struct snic_fsop *req)
{
    struct snic_fsop *done;
    kvt_submit(&p->t[side], req);
    while ((done = snic_kvfs_poll_done(p->t[side].k)) == NULL)
        (void)pair_step(p);
    assert_ptr_equal(done, req);
    return req->result;
}

static int64_t pair_mount(struct pair *p, int side)
{
    struct snic_fsop req;
    kvt_req(&p->t[side], &req, SNIC_FSOP_MOUNT, 0, NULL);
    p->t[side].mounted = 1;
    return pair_call(p, side, &req);
}

static uint64_t pair_mkdir(struct pair *p, uint64_t dir, const char *name)
{
    struct snic_fsop req;
    kvt_req(&p->t[0], &req, SNIC_FSOP_MKDIR, dir, name);
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
            i == 0 ? SNIC_FSOP_ROOT : pair_mkdir(p, p->dirs[i / 2], pair_name[i % PAIR_NAMES]);
    pair_drive(p, calls);
    assert_true(p->moved > calls / 100);
    assert_true(p->refused > 0);
    for (int side = 0; side < 2; side++) {
        assert_int_equal(p->t[side].damages, 0);
    }
    for (int side = 0; side < 2; side++) {
        struct snic_fsop req;
        kvt_req(&p->t[side], &req, SNIC_FSOP_UNMOUNT, 0, NULL);
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
static void test_kvfs_tree_one_group_commits_no_circle(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    for (uint64_t i = 0; i < support_scale(3, 40); i++)
        pair_run(o.caps & ~SNIC_KV_CAP_ATOMIC_MULTI, support_seed() + i * 100, 3000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_tree_two_sessions_no_circle),
        cmocka_unit_test(test_kvfs_tree_one_group_commits_no_circle),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
