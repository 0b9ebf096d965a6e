/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commits over several groups: one engine stops after each of its operations at the store,
 * another does something in the way, then the first one continues. What happens is what happens in
 * one of the two orders; of an engine that was declared dead meanwhile, all of it or nothing.
 */
#include "kvfs/txn_priv.h"
#include "test_kvfs_many.h"

#include <stdlib.h>
#include <string.h>

/* In the world that intent_world() makes: /a, /b, /b/d are directories (inodes 2, 3, 4). */
struct intent_op {
    enum snic_fsop_kind kind;
    uint64_t ino, ino2;
    const char *name, *name2;
    uint32_t flags;
};

static const struct intent_op intent_ops[] = {
    {SNIC_FSOP_MKNOD, 2, 0, "n", NULL, 0},
    {SNIC_FSOP_MKDIR, 2, 0, "n", NULL, 0},
    {SNIC_FSOP_UNLINK, 2, 0, "x", NULL, 0},
    {SNIC_FSOP_RMDIR, 3, 0, "d", NULL, 0},
    {SNIC_FSOP_RENAME, 2, 3, "x", "y", 0},
    {SNIC_FSOP_RENAME, 2, 3, "x", "n", 0},
    {SNIC_FSOP_RENAME, 3, 2, "y", "x", SNIC_FSOP_RENAME_EXCHANGE},
    {SNIC_FSOP_RENAME, 1, 4, "a", "a", 0},
    {SNIC_FSOP_RENAME, 3, 2, "d", "d", 0},
    {SNIC_FSOP_LINK, 5, 3, NULL, "n", 0},
    {SNIC_FSOP_MKNOD, 4, 0, "n", NULL, 0},
};

static void intent_fill(struct batch_op *b, uint32_t which, uint32_t engine)
{
    const struct intent_op *o = &intent_ops[which];
    memset(b, 0, sizeof(*b));
    b->kind = o->kind;
    b->engine = engine;
    b->ino = o->ino;
    b->ino2 = o->ino2;
    b->flags = o->flags;
    if (o->name != NULL)
        memcpy(b->name, o->name, strlen(o->name) + 1);
    if (o->name2 != NULL)
        memcpy(b->name2, o->name2, strlen(o->name2) + 1);
}

static uint64_t intent_make(struct many *y, enum snic_fsop_kind kind, uint64_t dir,
                            const char *name)
{
    struct snic_fsop req;
    kvt_req(&y->t[0], &req, kind, dir, name);
    req.mode = kind == SNIC_FSOP_MKDIR ? 0755 : 0100644;
    assert_int_equal(many_call(y, 0, &req), 0);
    return req.attr.ino;
}

static void intent_world(struct many *y)
{
    assert_int_equal(intent_make(y, SNIC_FSOP_MKDIR, 1, "a"), 2);
    assert_int_equal(intent_make(y, SNIC_FSOP_MKDIR, 1, "b"), 3);
    assert_int_equal(intent_make(y, SNIC_FSOP_MKDIR, 3, "d"), 4);
    assert_int_equal(intent_make(y, SNIC_FSOP_MKNOD, 2, "x"), 5);
    assert_int_equal(intent_make(y, SNIC_FSOP_MKNOD, 3, "y"), 6);
}

/* Engine 0 carries out `steps` operations at the store. 1: its request is done before that. */
static int intent_steps(struct many *y, uint64_t steps)
{
    for (; steps > 0; steps--) {
        y->t[0].now = y->now;
        int did = kvt_step(&y->t[0]);
        y->now = y->t[0].now;
        if (!did)
            return 1;
    }
    return 0;
}

struct intent_run {
    char *state, *room;
    uint64_t runs;
};

/* The state is that of an order of the requests that were done, or of all. */
static int intent_some_order(struct many *y, const struct snic_kvmem *before,
                             const struct batch_op *ops, const char *state, char *room)
{
    static const uint32_t orders[][2] = {{0, 1}, {1, 0}};
    for (uint32_t i = 0; i < 2; i++)
        if (batch_order(y, before, ops, 2, orders[i], state, room))
            return 1;
    return 0;
}

/* 1: engine 0 was done before it was stopped. */
static int intent_pair(struct intent_run *r, uint32_t first, uint32_t second, uint64_t steps,
                       int dies)
{
    struct batch_op ops[2];
    struct snic_fsop req[2];
    struct snic_iov iov[2];
    struct snic_kvmem *before;
    struct many y;
    many_open(&y, 2, MANY_CAPS, 1 + r->runs++);
    many_mount(&y);
    intent_world(&y);
    many_pass(&y, 3000000000);
    y.t[0].random = 0;
    assert_int_equal(snic_kvmem_clone(y.m, &before), 0);
    for (uint32_t i = 0; i < 2; i++) {
        intent_fill(&ops[i], i == 0 ? first : second, i);
        batch_req(&y.t[i], &ops[i], &req[i], &iov[i]);
    }
    y.t[0].now = y.now;
    kvt_submit(&y.t[0], &req[0]);
    int done = intent_steps(&y, steps);
    y.paused = 1;
    if (dies)
        many_pass(&y, 15000000000);
    y.t[1].now = y.now;
    kvt_submit(&y.t[1], &req[1]);
    if (done)
        y.paused = 0;
    /* The other gets on by itself. */
    for (int i = 0; i < 40; i++)
        many_pass(&y, 50000000);
    struct snic_fsop *got = snic_kvfs_poll_done(y.t[1].k);
    assert_ptr_equal(got, &req[1]);
    y.paused = 0;
    many_finish(&y, 1);
    many_pass(&y, 3000000000);
    ops[0].result = req[0].result;
    ops[1].result = req[1].result;
    batch_state(&y, r->state);
    int same = 0;
    if (dies && ops[0].result == SNIC_EIO) {
        same = batch_order(&y, before, &ops[1], 1, &(uint32_t){0}, r->state, r->room);
        ops[0].result = 0;
    }
    same = same || intent_some_order(&y, before, ops, r->state, r->room);
    if (!same) {
        print_error("steps %llu, dies %d\n", (unsigned long long)steps, dies);
        batch_print(ops, 2, r->state);
    }
    assert_true(same);
    if (dies && !done) { /* it is notified, and may come back */
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_GETATTR, 1, NULL), SNIC_EIO);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
        assert_int_equal(many_simple(&y, 0, SNIC_FSOP_GETATTR, 1, NULL), 0);
    } else if (dies) {
        (void)many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL);
    }
    many_close(&y);
    snic_kvmem_close(before);
    return done;
}

static void intent_pairs(int dies, uint64_t stride)
{
    struct intent_run r = {.state = malloc(SNAP_MAX), .room = malloc(SNAP_MAX)};
    uint64_t pick = stride - support_turn(stride);
    assert_true(r.state != NULL && r.room != NULL);
    for (uint32_t a = 0; a < SNIC_COUNTOF(intent_ops); a++)
        for (uint32_t b = 0; b < SNIC_COUNTOF(intent_ops); b++) {
            if (pick++ % stride != 0)
                continue;
            for (uint64_t steps = 0; !intent_pair(&r, a, b, steps, dies) && steps < 64; steps++)
                continue;
        }
    print_message("%llu runs\n", (unsigned long long)r.runs);
    free(r.state);
    free(r.room);
}

static void test_kvfs_intent_owner_stops_other_continues(void **state)
{
    (void)state;
    intent_pairs(0, support_stride(23, 59));
}

/* A holder that is declared dead and wakes up late changes nothing. */
static void test_kvfs_intent_owner_dies_no_late_change(void **state)
{
    (void)state;
    intent_pairs(1, support_stride(17, 43));
}

/* ---- Records that are only read ---- */

enum { SKEW_GROUP = 1000 };

static void skew_key(struct snic_kvop_key *key, uint64_t which)
{
    struct snic_fsop_hash h = {which, which};
    snic_kvfs_key_hash(key, SKEW_GROUP + which, SNIC_KVFS_REC_XATTR, h);
}

/* s[0] is 0 or 1: if the other's record is not there, put one's own, and one in a third group. */
static int skew_run(struct kvfs_op *op)
{
    struct snic_kvop_key own, other, third;
    const void *body;
    uint32_t size;
    skew_key(&own, op->s[0]);
    skew_key(&other, 1 - op->s[0]);
    skew_key(&third, 2 + op->s[0]);
    int rc = kvfs_get(op, &other, &body, &size);
    if (rc != SNIC_ENOENT)
        return rc;
    rc = kvfs_put(op, &own, "own", 3);
    if (rc == 0)
        rc = kvfs_put(op, &third, "third", 5);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

static int skew_there(struct many *y, uint64_t which)
{
    unsigned char room[512];
    struct snic_kvop_get g = {.value = room, .room = sizeof(room)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    skew_key(&g.key, which);
    snic_kvmem_apply(y->m, &op);
    if (g.result == 0)
        assert_int_equal(snic_kvfs_verify(&g.key, room, g.size), 0); /* nothing is reserved */
    return g.result == 0;
}

/* Each of two reads what the other writes: not both, whatever the order of their steps. */
static void test_kvfs_intent_reads_hold_at_commit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= support_rounds(150, 5000); seed++) {
        struct many y;
        many_open(&y, 2, MANY_CAPS, seed);
        many_mount(&y);
        assert_non_null(kvfs_spawn_run(y.t[0].k, skew_run, 0));
        assert_non_null(kvfs_spawn_run(y.t[1].k, skew_run, 1));
        many_time(&y, 0);
        many_pass(&y, 3000000000);
        assert_int_equal(skew_there(&y, 0) + skew_there(&y, 1), 1);
        assert_int_equal(skew_there(&y, 2), skew_there(&y, 0));
        assert_int_equal(skew_there(&y, 3), skew_there(&y, 1));
        for (uint64_t i = 0; i < 4; i++) { /* no inode has these */
            struct snic_kvop_change c = {.kind = SNIC_KVOP_DELETE};
            struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
            skew_key(&c.key, i);
            snic_kvmem_apply(y.m, &op);
        }
        many_close(&y);
    }
}

/* ---- Records that are changed unread ---- */

/* Two records of two groups, unread, become that of s[0]. */
static int unread_run(struct kvfs_op *op)
{
    struct snic_kvop_key key;
    int rc = 0;
    for (uint64_t i = 0; i < 2 && rc == 0; i++) {
        skew_key(&key, i);
        rc = kvfs_put(op, &key, &op->s[0], sizeof(op->s[0]));
    }
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

static uint64_t unread_value(struct many *y, uint64_t which)
{
    unsigned char room[64];
    uint64_t v = 0;
    struct snic_kvop_get g = {.value = room, .room = sizeof(room)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    skew_key(&g.key, which);
    snic_kvmem_apply(y->m, &op);
    if (g.result == SNIC_ENOENT)
        return 0;
    assert_int_equal(g.result, 0);
    assert_int_equal(g.size, SNIC_KVFS_HEAD + sizeof(v));
    assert_int_equal(snic_kvfs_verify(&g.key, room, g.size), 0); /* nothing is reserved */
    memcpy(&v, room + SNIC_KVFS_HEAD, sizeof(v));
    return v;
}

static int unread_look(struct kvfs_op *op)
{
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    int rc = 0;
    for (uint64_t i = 0; i < 2 && (rc == 0 || rc == SNIC_ENOENT); i++) {
        skew_key(&key, i);
        rc = kvfs_get(op, &key, &body, &size);
    }
    return rc;
}

/*
 * Some change the same records, none has read them: those of one stay. A reservation is never
 * taken for the old value of the next: a reader meanwhile would meet one in the other.
 */
static void test_kvfs_intent_unread_records_change_together(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= support_rounds(300, 5000); seed++) {
        struct many y;
        many_open(&y, 3, MANY_CAPS, seed);
        many_mount(&y);
        for (uint64_t i = 0; i < 3; i++)
            assert_non_null(kvfs_spawn_run(y.t[i].k, unread_run, 7 + i));
        for (uint32_t i = 0; i < 20; i++)
            assert_non_null(kvfs_spawn_run(y.t[i % 3].k, unread_look, 0));
        many_time(&y, 0);
        many_pass(&y, 3000000000);
        uint64_t last = unread_value(&y, 0);
        assert_in_range(last, 7, 9);
        assert_int_equal(unread_value(&y, 1), last);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(y.t[i].damages, 0);
        for (uint64_t i = 0; i < 2; i++) { /* no inode has these */
            struct snic_kvop_change c = {.kind = SNIC_KVOP_DELETE};
            struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
            skew_key(&c.key, i);
            snic_kvmem_apply(y.m, &op);
        }
        many_close(&y);
    }
}

/* ---- A store that does not answer ---- */

struct unknown {
    uint64_t seen;  /* commits and object operations so far */
    uint64_t first; /* from this one on their outcome is unknown, */
    uint64_t count; /* of so many */
    uint64_t done;  /* bit n: the n-th of those happens */
};

static void unknown_apply(struct kvt *t, struct snic_kvop *op)
{
    struct unknown *u = t->ctx;
    uint64_t n = op->kind == SNIC_KVOP_COMMIT ? u->seen++ - u->first : UINT64_MAX;
    if (n >= u->count || (u->done >> (n & 63) & 1) != 0)
        snic_kvmem_apply(t->m, op);
    if (n < u->count)
        op->result = SNIC_EUNKNOWN;
}

/* Some commits of a request end unknown; the session continues, and ends in order. What it leaves
 * is cleared away by the next one, which finds nothing wrong. 1: the request was over before. */
static int unknown_run(uint32_t which, struct unknown u, uint64_t seed)
{
    struct snic_fsop req;
    struct snic_iov iov;
    struct batch_op b;
    struct many y;
    many_open(&y, 2, MANY_CAPS, seed);
    y.paused = 2;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_MOUNT, 0, NULL), 0);
    intent_world(&y);
    intent_fill(&b, which, 0);
    batch_req(&y.t[0], &b, &req, &iov);
    y.t[0].ctx = &u;
    y.t[0].apply = unknown_apply;
    (void)many_call(&y, 0, &req);
    int over = u.seen <= u.first;
    y.t[0].apply = NULL;
    assert_int_equal(many_simple(&y, 0, SNIC_FSOP_UNMOUNT, 0, NULL), 0);
    y.paused = 0;
    assert_int_equal(many_simple(&y, 1, SNIC_FSOP_MOUNT, 0, NULL), 0);
    many_pass(&y, 3000000000);
    assert_int_equal(y.t[1].damages, 0);
    many_close(&y);
    return over;
}

static void test_kvfs_intent_unknown_outcomes_leave_nothing(void **state)
{
    uint64_t seed = support_seed();
    (void)state;
    for (uint32_t which = 0; which < SNIC_COUNTOF(intent_ops); which++) {
        for (uint64_t first = 0, over = 0; !over; first++) {
            for (uint64_t count = 1; count <= 4; count++)
                for (uint64_t done = 0; done < 1ULL << count; done++)
                    over |= (uint64_t)unknown_run(
                        which, (struct unknown){.first = first, .count = count, .done = done},
                        seed++);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_intent_owner_stops_other_continues),
        cmocka_unit_test(test_kvfs_intent_owner_dies_no_late_change),
        cmocka_unit_test(test_kvfs_intent_reads_hold_at_commit),
        cmocka_unit_test(test_kvfs_intent_unread_records_change_together),
        cmocka_unit_test(test_kvfs_intent_unknown_outcomes_leave_nothing),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
