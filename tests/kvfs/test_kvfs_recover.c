/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two engines recover the same dead session, which has two committed intents. One stops after each
 * of its operations at the store, and continues after each of those of the other one: both intents
 * are carried out as a whole, and no inode that has a name is treated as one without.
 */
#include "kvfs/txn_priv.h"
#include "test_kvfs_many.h"

#include <string.h>

enum {
    RECOVER_DEAD = 0,
    RECOVER_FIRST = 1,
    RECOVER_SECOND = 2,
    RECOVER_RENAMES = 2,
    RECOVER_STEPS_MAX = 1000,
    RECOVER_AFTER = 16, /* operations to stop at after the intents: the rest checks free numbers */
    RECOVER_LEASE_MS = 12000
};

struct recover_rename {
    const char *from, *to; /* directories of the root */
    uint64_t from_ino, to_ino, ino;
};

static uint64_t recover_make(struct many *y, enum snic_fsop_kind kind, uint64_t dir,
                             const char *name)
{
    struct snic_fsop req;
    kvt_req(&y->t[RECOVER_DEAD], &req, kind, dir, name);
    req.mode = kind == SNIC_FSOP_MKDIR ? 0755 : 0100644;
    assert_int_equal(many_call(y, RECOVER_DEAD, &req), 0);
    return req.attr.ino;
}

/* The number of the dead session's intents in the store. 1: all of them are committed. */
static int recover_committed(struct many *y, uint32_t *count)
{
    static unsigned char room[8 * SNIC_KVFS_INTENT_BYTES];
    struct snic_kvop scan = {
        .kind = SNIC_KVOP_SCAN, .scan_max = 8, .out = room, .out_room = sizeof(room)};
    int all = 1;
    snic_kvfs_key_intent(&scan.key, y->t[RECOVER_DEAD].k->session.id, 0);
    scan.key.size = 9; /* 'N' and the session */
    memset(scan.key.bytes + 9, 0, sizeof(scan.key.bytes) - 9);
    snic_kvmem_apply(y->m, &scan);
    assert_int_equal(scan.result, 0);
    *count = 0;
    for (const struct snic_kvop_record *r = snic_kvop_first(&scan); r != NULL;
         r = snic_kvop_next(&scan, r)) {
        struct snic_kvfs_intent n;
        assert_int_equal(snic_kvfs_intent_decode(&n, snic_kvop_record_value(r), r->value_size), 0);
        all &= n.state == SNIC_KVFS_INTENT_COMMITTED;
        ++*count;
    }
    return all;
}

/* One operation at the store of one engine; time passes for it alone. 0: it has recovered. */
static int recover_step(struct many *y, uint32_t i)
{
    struct kvt *t = &y->t[i];
    for (uint32_t idle = 0; t->k->session.recovering; idle++) {
        t->now = y->now;
        int did = kvt_step(t);
        y->now = t->now;
        if (did)
            return 1;
        uint64_t next = snic_kvfs_deadline_ns(t->k);
        assert_true(next != SNIC_NEVER && idle < RECOVER_STEPS_MAX);
        if (next > y->now.mono_ns) {
            y->now.wall_ns += (int64_t)(next - y->now.mono_ns);
            y->now.mono_ns = next;
        }
        t->now = y->now;
        snic_kvfs_advance(t->k, t->now);
    }
    return 0;
}

/* So many. 1: it has not recovered, and there are more to stop at. */
static int recover_steps(struct many *y, uint32_t i, uint64_t steps)
{
    uint32_t count, after = 0;
    for (; steps > 0 && recover_step(y, i); steps--) {
        (void)recover_committed(y, &count);
        after += count == 0;
    }
    return y->t[i].k->session.recovering && after < RECOVER_AFTER;
}

/* Two renames at once, by the dead one, which stops when both are committed. */
static void recover_begin(struct many *y, struct recover_rename *r, struct snic_fsop *req)
{
    uint32_t count = 0;
    (void)recover_make(y, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "f"); /* the first of the range */
    for (uint32_t i = 0; i < RECOVER_RENAMES; i++) {
        r[i].from_ino = recover_make(y, SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, r[i].from);
        r[i].to_ino = recover_make(y, SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, r[i].to);
        r[i].ino = recover_make(y, SNIC_FSOP_MKNOD, r[i].from_ino, "x");
    }
    many_pass(y, 3000000000);
    for (uint32_t i = 0; i < y->count; i++)
        y->t[i].random = 0;
    for (uint32_t i = 0; i < RECOVER_RENAMES; i++) {
        kvt_req(&y->t[RECOVER_DEAD], &req[i], SNIC_FSOP_RENAME, r[i].from_ino, "x");
        req[i].ino2 = r[i].to_ino;
        req[i].name2 = "n";
        req[i].name2_size = 1;
        many_start(y, RECOVER_DEAD, &req[i]);
    }
    while (!recover_committed(y, &count) || count != RECOVER_RENAMES) {
        y->t[RECOVER_DEAD].now = y->now;
        assert_true(kvt_step(&y->t[RECOVER_DEAD]));
        y->now = y->t[RECOVER_DEAD].now;
    }
    y->paused = 1U << RECOVER_DEAD;
}

/* Until both begin to recover. */
static void recover_wait(struct many *y)
{
    for (uint32_t ms = 0; y->paused != (1U << y->count) - 1; ms++) {
        assert_true(ms < RECOVER_LEASE_MS);
        many_time(y, 1000000);
        do {
            for (uint32_t i = 0; i < y->count; i++)
                if (i != RECOVER_DEAD && y->t[i].k->session.recovering)
                    y->paused |= 1U << i;
        } while (many_step(y));
    }
}

static int64_t recover_lookup(struct many *y, uint64_t dir, const char *name, uint64_t *ino)
{
    struct snic_fsop req;
    kvt_req(&y->t[RECOVER_FIRST], &req, SNIC_FSOP_LOOKUP, dir, name);
    int64_t rc = many_call(y, RECOVER_FIRST, &req);
    *ino = req.attr.ino;
    return rc;
}

/* Both renames have happened, and nothing else has. */
static void recover_check(struct many *y, const struct recover_rename *r)
{
    struct audit_counts counts;
    uint64_t ino;
    for (uint32_t i = 0; i < RECOVER_RENAMES; i++) {
        assert_int_equal(recover_lookup(y, r[i].from_ino, "x", &ino), SNIC_ENOENT);
        assert_int_equal(recover_lookup(y, r[i].to_ino, "n", &ino), 0);
        assert_int_equal(ino, r[i].ino);
    }
    assert_int_equal(recover_lookup(y, SNIC_FSOP_ROOT, "f", &ino), 0);
    audit_store(y->m, 0, &counts);
    assert_int_equal(counts.orphans, 0);
    assert_int_equal(counts.inodes, 1 + 1 + 3 * RECOVER_RENAMES);
    for (uint32_t i = 0; i < y->count; i++)
        assert_int_equal(y->t[i].damages, 0);
}

/* The first one stops after `first` operations, the second one continues for `second`, then each
 * to its end. Bit 0, 1: that one has more operations to stop at. */
static uint32_t recover_run(uint64_t seed, uint64_t first, uint64_t second)
{
    struct recover_rename r[RECOVER_RENAMES] = {{.from = "a", .to = "b"}, {.from = "c", .to = "d"}};
    struct snic_fsop req[RECOVER_RENAMES];
    struct many y;
    uint32_t more;
    many_open(&y, 3, MANY_CAPS, seed);
    many_mount(&y);
    recover_begin(&y, r, req);
    recover_wait(&y);
    more = recover_steps(&y, RECOVER_FIRST, first) ? 1 : 0;
    more |= recover_steps(&y, RECOVER_SECOND, second) ? 2 : 0;
    while (recover_step(&y, RECOVER_FIRST))
        continue;
    while (recover_step(&y, RECOVER_SECOND))
        continue;
    y.paused = 1U << RECOVER_DEAD;
    many_pass(&y, 3000000000);
    recover_check(&y, r);
    y.paused = 0;
    many_finish(&y, RECOVER_RENAMES);
    many_pass(&y, 3000000000);
    assert_int_equal(many_simple(&y, RECOVER_DEAD, SNIC_FSOP_GETATTR, 1, NULL), SNIC_EIO);
    assert_int_equal(many_simple(&y, RECOVER_DEAD, SNIC_FSOP_MOUNT, 0, NULL), 0);
    many_close(&y);
    return more;
}

static void test_kvfs_recover_two_engines_interleaved_intents_whole(void **state)
{
    uint64_t seed = support_seed(), stride = support_stride(7, 29), runs = 0;
    uint64_t turn = support_turn(stride);
    uint64_t *at = *state;
    uint32_t more = 1;
    for (uint64_t first = 0; (more & 1) != 0; first++) {
        assert_true(first < RECOVER_STEPS_MAX);
        more = 2;
        for (uint64_t second = 1; (more & 2) != 0; second++) {
            assert_true(second < RECOVER_STEPS_MAX);
            if ((turn + first + second) % stride != 0)
                continue;
            at[0] = first;
            at[1] = second;
            more = recover_run(seed, first, second);
            runs++;
        }
    }
    print_message("%llu runs\n", (unsigned long long)runs);
    at[0] = UINT64_MAX;
}

static int recover_setup(void **state)
{
    static uint64_t at[2]; /* where each of them is stopped */
    *state = at;
    return 0;
}

static int recover_teardown(void **state)
{
    const uint64_t *at = *state;
    if (at[0] != UINT64_MAX)
        print_error("the first one was stopped after %llu operations, the second one after %llu\n",
                    (unsigned long long)at[0], (unsigned long long)at[1]);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kvfs_recover_two_engines_interleaved_intents_whole,
                                        recover_setup, recover_teardown),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
