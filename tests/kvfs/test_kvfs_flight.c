/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Many requests in flight at once, their store operations completing in random order, and a
 * store that fails: nothing is lost, doubled, stuck, or done halfway.
 */
#include "test_kvfs_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLIGHT_MANY = 400 };

static void flight_open(struct kvt *t, uint32_t requests)
{
    struct snic_kvfs_opts o;
    kvt_opts(&o);
    o.requests_max = requests;
    kvt_open(t, &o);
    t->random = 1;
}

struct flight_req {
    struct snic_fsop r;
    char name[32];
};

static struct flight_req *flight_reqs(uint32_t n)
{
    struct flight_req *r = calloc(n, sizeof(*r));
    assert_non_null(r);
    return r;
}

static void flight_name(struct flight_req *r, const char *prefix, uint32_t i)
{
    snprintf(r->name, sizeof(r->name), "%s%u", prefix, i);
    r->r.name = r->name;
    r->r.name_size = (uint32_t)strlen(r->name);
}

/* All are done, each once. */
static void flight_join(struct kvt *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct snic_fsop *r = kvt_wait(t);
        if (r == NULL) {
            kvt_check(t);
            print_error("%u of %u are stuck\n", n - i, n);
        }
        assert_non_null(r);
        assert_ptr_equal(r->ctx, r);
        r->ctx = NULL;
    }
}

static void flight_submit(struct kvt *t, struct flight_req *r)
{
    r->r.ctx = &r->r;
    kvt_submit(t, &r->r);
    kvt_check(t);
}

/* Creates of different names in one directory: all succeed, and it counts them. */
static void test_kvfs_one_directory_many_creates_all_there(void **state)
{
    struct kvt t;
    struct flight_req *r = flight_reqs(FLIGHT_MANY);
    struct snic_fsop_attr a;
    (void)state;
    flight_open(&t, FLIGHT_MANY);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
        kvt_req(&t, &r[i].r, i % 2 ? SNIC_FSOP_MKDIR : SNIC_FSOP_MKNOD, dir, NULL);
        flight_name(&r[i], "n", i);
        r[i].r.mode = i % 2 ? 0755 : 0100644;
        flight_submit(&t, &r[i]);
    }
    flight_join(&t, FLIGHT_MANY);
    for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
        assert_int_equal(r[i].r.result, 0);
        assert_int_equal(kvt_lookup(&t, dir, r[i].name), r[i].r.attr.ino);
    }
    assert_int_equal(kvt_getattr(&t, dir, &a), 0);
    assert_int_equal(a.entries, FLIGHT_MANY);
    assert_int_equal(a.nlink, 2 + FLIGHT_MANY / 2);
    kvt_close(&t);
    free(r);
}

/* Creates of one name: one wins, the others get an error. */
static void test_kvfs_one_name_many_creates_one_wins(void **state)
{
    struct kvt t;
    struct flight_req *r = flight_reqs(FLIGHT_MANY);
    uint32_t won = 0;
    (void)state;
    flight_open(&t, FLIGHT_MANY);
    for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
        kvt_req(&t, &r[i].r, SNIC_FSOP_MKNOD, SNIC_FSOP_ROOT, "name");
        r[i].r.mode = 0100644;
        flight_submit(&t, &r[i]);
    }
    flight_join(&t, FLIGHT_MANY);
    for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
        won += r[i].r.result == 0;
        assert_true(r[i].r.result == 0 || r[i].r.result == SNIC_EEXIST);
    }
    assert_int_equal(won, 1);
    kvt_close(&t);
    free(r);
}

/* Renames back and forth among few directories want several locks each, in every order. */
static void test_kvfs_crossing_renames_many_none_stuck(void **state)
{
    struct kvt t;
    enum { DIRS = 6, ROUNDS = 20 };
    struct flight_req *r = flight_reqs(FLIGHT_MANY);
    char(*to)[32] = calloc(FLIGHT_MANY, sizeof(*to));
    uint64_t dirs[DIRS];
    (void)state;
    flight_open(&t, FLIGHT_MANY);
    for (uint32_t i = 0; i < DIRS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "d%u", i);
        dirs[i] = kvt_mkdir(&t, i < 3 ? SNIC_FSOP_ROOT : dirs[i - 3], name, 0755);
        for (uint32_t f = 0; f < 4; f++) {
            snprintf(name, sizeof(name), "f%u", f);
            kvt_file(&t, dirs[i], name, 0644);
        }
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
            kvt_req(&t, &r[i].r, SNIC_FSOP_RENAME, dirs[snic_rng_below(&t.rng, DIRS)], NULL);
            flight_name(&r[i], "f", (uint32_t)snic_rng_below(&t.rng, 6));
            r[i].r.ino2 = dirs[snic_rng_below(&t.rng, DIRS)];
            snprintf(to[i], sizeof(to[i]), "f%u", (uint32_t)snic_rng_below(&t.rng, 6));
            r[i].r.name2 = to[i];
            r[i].r.name2_size = (uint32_t)strlen(to[i]);
            flight_submit(&t, &r[i]);
        }
        flight_join(&t, FLIGHT_MANY);
        for (uint32_t i = 0; i < FLIGHT_MANY; i++)
            assert_true(r[i].r.result == 0 || r[i].r.result == SNIC_ENOENT);
    }
    kvt_close(&t);
    free(r);
    free(to);
}

/* ---- A store that fails ---- */

enum flight_fault {
    FLIGHT_REFUSED = 1,  /* a guard is reported as failed                                     */
    FLIGHT_UNKNOWN_DONE, /* done, outcome unknown                                             */
    FLIGHT_UNKNOWN_NOT,  /* not done, outcome unknown                                         */
    FLIGHT_UNKNOWN_BOTH, /* one of the two                                                    */
    FLIGHT_ERROR         /* not done                                                          */
};

struct flight_faults {
    enum flight_fault fault;
    int64_t error; /* of FLIGHT_ERROR; also of reads                                          */
    uint32_t percent;
    uint64_t injected;
};

/* Only what belongs to files: the session has tests of its own. So has a commit's first guard, the
   fence: of the others the last one is reported as failed. */
static int flight_is_files(const struct snic_kvop *op)
{
    if (op->kind == SNIC_KVOP_COMMIT)
        return op->change_count > 0 && op->guard_count > 1 &&
               op->changes[0].key.group < SNIC_KVFS_INO_MAX;
    return op->kind == SNIC_KVOP_GET && op->gets[0].key.group < SNIC_KVFS_INO_MAX;
}

static void flight_fail(struct kvt *t, struct snic_kvop *op, int64_t error)
{
    (void)t;
    op->result = error;
    op->failed_guard = error == SNIC_ECANCELED ? op->guard_count - 1 : UINT32_MAX;
    for (uint32_t i = 0; op->kind == SNIC_KVOP_GET && i < op->get_count; i++)
        op->gets[i].result = (int32_t)error;
}

static void flight_apply(struct kvt *t, struct snic_kvop *op)
{
    struct flight_faults *f = t->ctx;
    enum flight_fault fault = f->fault;
    if (fault == FLIGHT_UNKNOWN_BOTH)
        fault = snic_rng_below(&t->rng, 2) ? FLIGHT_UNKNOWN_DONE : FLIGHT_UNKNOWN_NOT;
    if (!flight_is_files(op) || snic_rng_below(&t->rng, 100) >= f->percent ||
        (op->kind == SNIC_KVOP_GET && fault != FLIGHT_ERROR)) {
        snic_kvmem_apply(t->m, op);
        return;
    }
    f->injected++;
    if (fault == FLIGHT_UNKNOWN_DONE)
        snic_kvmem_apply(t->m, op);
    if (fault == FLIGHT_REFUSED)
        flight_fail(t, op, SNIC_ECANCELED);
    else if (fault == FLIGHT_ERROR)
        flight_fail(t, op, f->error);
    else if (fault == FLIGHT_UNKNOWN_NOT || op->result >= 0)
        flight_fail(t, op, SNIC_EUNKNOWN);
}

/* A request of the mix: makes, finds or removes a name of its own. */
static void flight_mix(struct kvt *t, struct flight_req *r, uint64_t dir, uint32_t i, int round)
{
    static const enum snic_fsop_kind make[] = {SNIC_FSOP_MKNOD, SNIC_FSOP_MKDIR, SNIC_FSOP_SYMLINK};
    static const enum snic_fsop_kind drop[] = {SNIC_FSOP_UNLINK, SNIC_FSOP_RMDIR, SNIC_FSOP_UNLINK};
    enum snic_fsop_kind kind = round == 0   ? make[i % 3]
                               : round == 1 ? SNIC_FSOP_LOOKUP
                                            : drop[i % 3];
    kvt_req(t, &r->r, kind, dir, NULL);
    flight_name(r, "n", i);
    r->r.mode = kind == SNIC_FSOP_MKNOD ? 0100644 : 0755;
    r->r.name2 = "target";
    r->r.name2_size = 6;
}

static uint64_t flight_entries(struct kvt *t, uint64_t dir)
{
    struct snic_fsop_attr a;
    assert_int_equal(kvt_getattr(t, dir, &a), 0);
    return a.entries;
}

/* Whatever a request answers is true: what was made is there, what failed is not. */
static void flight_faults(struct flight_faults *f, uint64_t cache_bytes)
{
    enum { MANY = 150 };
    struct flight_req *r = flight_reqs(MANY);
    struct snic_kvfs_opts o;
    int8_t there[MANY] = {0};
    struct kvt t;
    uint64_t dir, count = 0;
    kvt_opts(&o);
    o.requests_max = MANY;
    o.cache_bytes = cache_bytes;
    kvt_open(&t, &o);
    dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    t.random = 1;
    t.apply = flight_apply;
    t.ctx = f;
    for (int turn = 0; turn < 6; turn++) {
        int round = turn % 3;
        for (uint32_t i = 0; i < MANY; i++) {
            flight_mix(&t, &r[i], dir, i, round);
            flight_submit(&t, &r[i]);
        }
        flight_join(&t, MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            int64_t rc = r[i].r.result, want = round == 0 ? (there[i] ? SNIC_EEXIST : 0)
                                               : there[i] ? 0
                                                          : SNIC_ENOENT;
            if (f->fault == FLIGHT_ERROR && rc == f->error)
                continue; /* and nothing has changed */
            assert_int_equal(rc, want);
            if (rc == 0 && round != 1) {
                there[i] = round == 0;
                count += round == 0 ? 1 : (uint64_t)-1;
            }
        }
        t.apply = NULL;
        assert_int_equal(flight_entries(&t, dir), count);
        t.apply = flight_apply;
    }
    t.apply = NULL;
    assert_true(f->injected > 50);
    kvt_close(&t);
    free(r);
}

static void flight_both_caches(enum flight_fault fault, int64_t error, uint32_t percent)
{
    struct flight_faults f = {.fault = fault, .error = error, .percent = percent};
    flight_faults(&f, 1U << 20);
    flight_faults(&f, 1);
}

/* Guards that fail start requests over; none is lost and none done twice. */
static void test_kvfs_guards_fail_requests_start_over(void **state)
{
    (void)state;
    flight_both_caches(FLIGHT_REFUSED, 0, 40);
}

/* Commits of unknown outcome are looked up: the answer is what is in the store. */
static void test_kvfs_commit_unknown_applied_succeeds(void **state)
{
    (void)state;
    flight_both_caches(FLIGHT_UNKNOWN_DONE, 0, 40);
}

/* A removal of unknown outcome, and then another session gives the name to another file. */
struct flight_successor {
    uint64_t ino; /* the other file; 0: it has happened */
    const char *name;
};

static void flight_succeed(struct kvt *t, struct snic_kvop *op)
{
    struct flight_successor *s = t->ctx;
    unsigned char record[SNIC_KVFS_HEAD + 64];
    struct snic_kvop_change c = {.kind = SNIC_KVOP_PUT, .value = record};
    struct snic_kvop put = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    struct snic_kvfs_entry e = {
        .ino = s->ino, .type = 0100000, .name_size = (uint32_t)strlen(s->name), .name = s->name};
    snic_kvmem_apply(t->m, op);
    if (s->ino == 0 || op->kind != SNIC_KVOP_COMMIT || op->result < 0 ||
        op->changes[0].kind != SNIC_KVOP_DELETE ||
        op->changes[0].key.bytes[0] != SNIC_KVFS_REC_ENTRY)
        return;
    c.key = op->changes[0].key;
    assert_int_equal(snic_kvfs_entry_append(record, &c.size, sizeof(record), &e), 0);
    snic_kvfs_seal(&c.key, record, c.size, 0);
    snic_kvmem_apply(t->m, &put);
    assert_int_equal(put.result, 0);
    s->ino = 0;
    flight_fail(t, op, SNIC_EUNKNOWN);
}

/* The outcome is found by what records hold, not by how long they are: the new file stays. */
static void test_kvfs_commit_unknown_successor_of_equal_size_stays(void **state)
{
    struct flight_successor s = {.name = "name"};
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    uint64_t other = kvt_file(&t, SNIC_FSOP_ROOT, "other", 0644);
    (void)kvt_file(&t, dir, s.name, 0644);
    s.ino = other;
    t.apply = flight_succeed;
    t.ctx = &s;
    assert_int_equal(kvt_unlink(&t, dir, s.name), 0);
    assert_int_equal(s.ino, 0);
    t.apply = NULL;
    assert_int_equal(kvt_unmount(&t), 0); /* what is kept in memory knows nothing of the other */
    assert_int_equal(kvt_mount(&t), 0);
    assert_int_equal(kvt_try_lookup(&t, dir, s.name), other);
    kvt_close(&t);
}

static void test_kvfs_commit_unknown_not_applied_retried(void **state)
{
    (void)state;
    flight_both_caches(FLIGHT_UNKNOWN_NOT, 0, 40);
}

static void test_kvfs_commit_unknown_outcome_queried(void **state)
{
    (void)state;
    flight_both_caches(FLIGHT_UNKNOWN_BOTH, 0, 60);
}

/* Errors of the store reach the caller, and leave everything as it was. */
static void test_kvfs_store_fails_errors_surface_nothing_changed(void **state)
{
    static const int64_t errors[] = {SNIC_EIO, SNIC_ETIMEDOUT, SNIC_ENOSPC};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(errors); i++)
        flight_both_caches(FLIGHT_ERROR, errors[i], 25);
}

/* ---- The cache ---- */

/*
 * Reads that took effect before a commit and complete after it bring old news: what is kept after
 * all that is what is in the store.
 */
static void test_kvfs_reads_complete_late_cache_true(void **state)
{
    enum { MANY = 48, NAMES = 8, ROUNDS = 400 };
    struct flight_req *r = flight_reqs(MANY);
    struct snic_kvfs_opts o;
    int64_t found[2][NAMES];
    struct kvt t;
    uint64_t dir;
    (void)state;
    kvt_opts(&o);
    kvt_open(&t, &o); /* each round begins with a new mount, and so with an empty cache */
    dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    t.random = 1;
    t.early = 1;
    for (int round = 0; round < ROUNDS; round++) {
        struct snic_kvfs_stats s;
        snic_kvfs_get_stats(t.k, &s);
        assert_int_equal(s.alone, 1);
        for (uint32_t i = 0; i < MANY; i++) {
            uint64_t what = snic_rng_below(&t.rng, 16); /* few changes, overtaken by reads */
            enum snic_fsop_kind kind = what == 0   ? SNIC_FSOP_MKNOD
                                       : what == 1 ? SNIC_FSOP_UNLINK
                                                   : SNIC_FSOP_LOOKUP;
            kvt_req(&t, &r[i].r, kind, dir, NULL);
            flight_name(&r[i], "n", (uint32_t)snic_rng_below(&t.rng, NAMES));
            r[i].r.mode = 0100644;
            flight_submit(&t, &r[i]);
        }
        flight_join(&t, MANY);
        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t n = 0; n < NAMES; n++) {
                flight_name(&r[0], "n", n);
                found[pass][n] = kvt_try_lookup(&t, dir, r[0].name);
            }
            assert_int_equal(kvt_unmount(&t), 0);
            assert_int_equal(kvt_mount(&t), 0);
        }
        assert_memory_equal(found[0], found[1], sizeof(found[0]));
    }
    kvt_close(&t);
    free(r);
}

struct flight_overtaken {
    uint64_t dir;
    uint64_t left;
};

/* Before a commit of MKDIR another handle changes what it was read with. */
static void flight_change_guarded(struct kvt *t, struct snic_kvop *op)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_get get = {.value = record, .room = sizeof(record)};
    struct snic_kvop read = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
    struct snic_kvop_change c = {.kind = SNIC_KVOP_PUT, .value = record, .size = sizeof(record)};
    struct snic_kvop write = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    struct snic_fsop_attr a;
    struct flight_overtaken *f = t->ctx;
    if (op->kind != SNIC_KVOP_COMMIT || op->guard_count == 0 || f->left == 0)
        return;
    f->left--;
    snic_kvfs_key(&get.key, f->dir, SNIC_KVFS_REC_ATTR);
    snic_kvmem_apply(t->m, &read);
    assert_int_equal(snic_kvfs_attr_decode(&a, record, get.size), 0);
    a.version++;
    snic_kvfs_attr_encode(record, &a);
    snic_kvfs_seal(&get.key, record, sizeof(record), 0);
    c.key = get.key;
    snic_kvmem_apply(t->m, &write);
}

/* A request that others overtake each time is tried 1000 times, then SNIC_ETIMEDOUT. */
static void test_kvfs_overtaken_each_time_ends(void **state)
{
    enum { RETRIES = 1000 };
    static const uint64_t times[] = {RETRIES, RETRIES + 1, 10ull * RETRIES};
    struct snic_kvfs_opts o;
    struct snic_fsop req;
    (void)state;
    kvt_opts(&o);
    o.lease_ns = 1ull << 60; /* the backing off takes seconds, in which no heartbeat gets through */
    o.heartbeat_ns = o.lease_ns / 4;
    for (size_t i = 0; i < SNIC_COUNTOF(times); i++) {
        struct kvt t;
        struct snic_kvfs_stats s;
        struct flight_overtaken f = {.left = times[i]};
        kvt_open(&t, &o);
        f.dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
        t.ctx = &f;
        t.before = flight_change_guarded;
        kvt_req(&t, &req, SNIC_FSOP_MKDIR, f.dir, "d");
        req.mode = 0755;
        assert_int_equal(kvt_call(&t, &req), times[i] > RETRIES ? SNIC_ETIMEDOUT : 0);
        t.before = NULL;
        snic_kvfs_get_stats(t.k, &s);
        assert_int_equal(s.retries, snic_min_u64(times[i], RETRIES + 1));
        assert_int_equal(kvt_try_lookup(&t, f.dir, "d"),
                         times[i] > RETRIES ? SNIC_ENOENT : (int)req.attr.ino);
        if (times[i] > RETRIES)
            kvt_mkdir(&t, f.dir, "d", 0755);
        kvt_close(&t);
    }
}

/* What is kept may turn out wrong, by a guard: it is read again, not tried for ever. */
static void test_kvfs_cache_wrong_read_again(void **state)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_get get = {.value = record, .room = sizeof(record)};
    struct snic_kvop read = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
    struct snic_kvop_change c = {.kind = SNIC_KVOP_PUT, .value = record, .size = sizeof(record)};
    struct snic_kvop write = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    struct snic_fsop_attr a;
    struct snic_kvfs_stats s;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    snic_kvfs_key(&get.key, dir, SNIC_KVFS_REC_ATTR);
    snic_kvmem_apply(t.m, &read);
    assert_int_equal(get.result, 0);
    assert_int_equal(snic_kvfs_attr_decode(&a, record, get.size), 0);
    a.uid = 77;
    a.version++;
    snic_kvfs_attr_encode(record, &a);
    snic_kvfs_seal(&get.key, record, sizeof(record), 0);
    c.key = get.key;
    snic_kvmem_apply(t.m, &write);
    kvt_mkdir(&t, dir, "sub", 0755);
    snic_kvfs_get_stats(t.k, &s);
    assert_int_equal(s.retries, 1);
    assert_int_equal(kvt_getattr(&t, dir, &a), 0);
    assert_int_equal(a.uid, 77);
    assert_int_equal(a.entries, 1);
    kvt_close(&t);
}

/* ---- Memory ---- */

/* More large requests than there are blocks: they wait for each other and all end. */
static void test_kvfs_blocks_are_few_large_requests_all_end(void **state)
{
    enum { MANY = 200, BYTES = 60000 };
    struct flight_req *r = flight_reqs(MANY);
    struct snic_iov *iov = calloc(MANY, sizeof(*iov));
    unsigned char *bytes = malloc(BYTES);
    struct kvt t;
    uint64_t ino[MANY];
    (void)state;
    memset(bytes, 7, BYTES);
    flight_open(&t, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        flight_name(&r[i], "f", i);
        ino[i] = kvt_file(&t, SNIC_FSOP_ROOT, r[i].name, 0644);
    }
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            kvt_req(&t, &r[i].r, SNIC_FSOP_SETXATTR, ino[i], NULL);
            flight_name(&r[i], "user.", i % 20);
            iov[i] = (struct snic_iov){.base = bytes, .size = BYTES - i};
            r[i].r.iov = &iov[i];
            r[i].r.iov_count = 1;
            flight_submit(&t, &r[i]);
        }
        flight_join(&t, MANY);
        for (uint32_t i = 0; i < MANY; i++)
            assert_int_equal(r[i].r.result, 0);
    }
    kvt_close(&t);
    free(bytes);
    free(iov);
    free(r);
}

/* ---- The end of a session ---- */

/* As a session does that takes this one for dead. */
static int64_t flight_kill_session(struct kvt *t)
{
    static unsigned char out[65536];
    struct snic_kvop scan = {.kind = SNIC_KVOP_SCAN, .scan_max = 64, .out = out};
    struct snic_kvop_change change[64];
    struct snic_kvop commit = {.kind = SNIC_KVOP_COMMIT, .changes = change};
    scan.out_room = sizeof(out);
    snic_kvop_key_set(&scan.key, SNIC_KVFS_GROUP_SUPER, "s", 1);
    snic_kvmem_apply(t->m, &scan);
    assert_true(scan.result >= 0 && scan.out_count > 0);
    memset(change, 0, sizeof(change));
    for (const struct snic_kvop_record *n = snic_kvop_first(&scan); n != NULL;
         n = snic_kvop_next(&scan, n)) {
        struct snic_kvop_change *c = &change[commit.change_count];
        if (snic_get_be64(snic_kvop_record_key(n) + 1) == 0)
            continue; /* the table's own record */
        commit.change_count++;
        c->kind = SNIC_KVOP_DELETE;
        snic_kvop_key_set(&c->key, SNIC_KVFS_GROUP_SUPER, snic_kvop_record_key(n), n->key_size);
    }
    snic_kvmem_apply(t->m, &commit);
    return commit.result;
}

/* Requests in flight, and those that wait for them, end with SNIC_EIO when the session dies. */
static void test_kvfs_session_dies_requests_end_with_eio(void **state)
{
    enum { MANY = 60 };
    struct flight_req *r = flight_reqs(MANY);
    struct kvt t;
    uint64_t dir, dead = 0;
    (void)state;
    flight_open(&t, MANY);
    dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    snic_kvfs_set_sole(t.k, 0); /* a lease counts only where others may be */
    kvt_settle(&t);
    assert_int_equal(flight_kill_session(&t), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        kvt_req(&t, &r[i].r, SNIC_FSOP_SETLK, dir, NULL);
        r[i].r.flags |= SNIC_FSOP_LOCK_WAIT;
        r[i].r.lock = (struct snic_fsop_lock){
            .owner = i + 1, .end = UINT64_MAX, .type = SNIC_FSOP_WRLCK, .pid = i + 1};
        flight_submit(&t, &r[i]);
    }
    /* One has the lock, the others would wait for ever. */
    flight_join(&t, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(r[i].r.result == SNIC_EIO || r[i].r.result == 0);
        dead += r[i].r.result == SNIC_EIO;
    }
    assert_true(dead >= MANY - 1);
    assert_int_equal(kvt_try_lookup(&t, dir, "x"), SNIC_EIO);
    kvt_check(&t);
    t.quiet = 1;
    kvt_close(&t);
    free(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_one_directory_many_creates_all_there),
        cmocka_unit_test(test_kvfs_one_name_many_creates_one_wins),
        cmocka_unit_test(test_kvfs_crossing_renames_many_none_stuck),
        cmocka_unit_test(test_kvfs_guards_fail_requests_start_over),
        cmocka_unit_test(test_kvfs_commit_unknown_applied_succeeds),
        cmocka_unit_test(test_kvfs_commit_unknown_successor_of_equal_size_stays),
        cmocka_unit_test(test_kvfs_commit_unknown_not_applied_retried),
        cmocka_unit_test(test_kvfs_commit_unknown_outcome_queried),
        cmocka_unit_test(test_kvfs_store_fails_errors_surface_nothing_changed),
        cmocka_unit_test(test_kvfs_reads_complete_late_cache_true),
        cmocka_unit_test(test_kvfs_overtaken_each_time_ends),
        cmocka_unit_test(test_kvfs_cache_wrong_read_again),
        cmocka_unit_test(test_kvfs_blocks_are_few_large_requests_all_end),
        cmocka_unit_test(test_kvfs_session_dies_requests_end_with_eio),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
