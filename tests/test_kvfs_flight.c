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
    struct snic_kvfs_req r;
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
        struct snic_kvfs_req *r = kvt_wait(t);
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
    struct snic_kvfs_attr a;
    (void)state;
    flight_open(&t, FLIGHT_MANY);
    uint64_t dir = kvt_mkdir(&t, SNIC_KVFS_ROOT, "dir", 0755);
    for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
        kvt_req(&t, &r[i].r, i % 2 ? SNIC_KVFS_MKDIR : SNIC_KVFS_MKNOD, dir, NULL);
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

/* Creates of one name: one wins, the others are told. */
static void test_kvfs_one_name_many_creates_one_wins(void **state)
{
    struct kvt t;
    struct flight_req *r = flight_reqs(FLIGHT_MANY);
    uint32_t won = 0;
    (void)state;
    flight_open(&t, FLIGHT_MANY);
    for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
        kvt_req(&t, &r[i].r, SNIC_KVFS_MKNOD, SNIC_KVFS_ROOT, "name");
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
        dirs[i] = kvt_mkdir(&t, i < 3 ? SNIC_KVFS_ROOT : dirs[i - 3], name, 0755);
        for (uint32_t f = 0; f < 4; f++) {
            snprintf(name, sizeof(name), "f%u", f);
            kvt_file(&t, dirs[i], name, 0644);
        }
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < FLIGHT_MANY; i++) {
            kvt_req(&t, &r[i].r, SNIC_KVFS_RENAME, dirs[snic_rng_below(&t.rng, DIRS)], NULL);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_one_directory_many_creates_all_there),
        cmocka_unit_test(test_kvfs_one_name_many_creates_one_wins),
        cmocka_unit_test(test_kvfs_crossing_renames_many_none_stuck),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
