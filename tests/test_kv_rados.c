/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on RADOS: the conformance suite, what operations cost, a cluster that is not there.
 * Wants a cluster with the pool "kvfs" named by CEPH_CONF (kv_rados.sh starts one).
 */
#include "conformance_kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK SNIC_KVOP_BLOCK

/* ---- The suite ---- */

struct own {
    char space[64]; /* a RADOS namespace of the test's own */
};

static int rados_again(struct conformance_kv *c, struct snic_kv **out)
{
    const struct own *own = c->own;
    char text[256] = "";
    int error = 0;
    struct snic_kv_rados_opts o = {
        .opts_size = sizeof(o), .pool = "kvfs", .space = own->space, .depth = 256};
    int r = snic_kv_rados_open(out, c->loop, &o, &error, text);
    if (r != 0)
        print_message("open: %d (%d) %s\n", r, error, text);
    return r;
}

static void rados_open(struct conformance_kv *c, const struct conformance_kv_backend *b)
{
    static uint32_t number;
    struct own *own = calloc(1, sizeof(*own));
    struct snic_rng rng;
    (void)b;
    snic_rng_init(&rng, (uint64_t)(uintptr_t)own ^ support_seed());
    (void)snprintf(own->space, sizeof(own->space), "test.%s.%u", getenv("SNIC_RADOS_RUN"),
                   number++);
    c->own = own;
    int r = snic_loop_uring_open(&c->loop, NULL);
    if (r != 0)
        support_skip("no io_uring");
    r = rados_again(c, &c->kv);
    if (r == SNIC_ENOTSUP)
        support_skip("built without librados");
    assert_int_equal(r, 0);
}

static void rados_close(struct conformance_kv *c)
{
    snic_loop_close(c->loop);
    free(c->own);
}

/* ---- What operations cost ---- */

struct call {
    struct snic_kv_req req;
    int done;
};

static void call_done(struct snic_kv_req *req)
{
    SNIC_CONTAINER(req, struct call, req)->done = 1;
}

/** Carry out; how many RADOS operations it took. */
static uint64_t cost(struct conformance_kv *c, struct snic_kvop *op, int64_t want)
{
    struct call call = {.req = {.done = call_done, .op = op}};
    struct snic_kv_req *one = &call.req;
    uint64_t before = c->kv->stats.store_ops;
    assert_int_equal(snic_kv_submit(c->kv, &one, 1), 1);
    while (!call.done)
        assert_true(snic_loop_once(c->loop, SNIC_NEVER) >= 0);
    if (op->result != want)
        print_message("result %lld, os error %d\n", (long long)op->result, op->os_error);
    assert_int_equal(op->result, want);
    return c->kv->stats.store_ops - before;
}

static uint64_t cost_object(struct conformance_kv *c, uint32_t kind, uint64_t object,
                            uint64_t offset, uint64_t length)
{
    static unsigned char bytes[1 << 20];
    struct snic_iov piece = {bytes, (size_t)length};
    struct snic_kvop op = {.kind = kind,
                           .object = object,
                           .offset = offset,
                           .length = length,
                           .iov = &piece,
                           .iov_count = 1};
    int transfer = kind == SNIC_KVOP_OBJECT_READ || kind == SNIC_KVOP_OBJECT_WRITE;
    return cost(c, &op, transfer ? (int64_t)length : 0);
}

/* A file system on a network is as fast as its operations are few. */
static void test_kv_rados_operations_cost_what_is_said(void **state)
{
    static const struct conformance_kv_backend none;
    struct conformance_kv c = {.kv = NULL};
    struct snic_kvop_get gets[3];
    unsigned char value[64] = "value";
    const uint64_t stripe = 4 << 20;
    (void)state;
    rados_open(&c, &none);
    /* in the first stripe: new space or not, one */
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, i * BLOCK, BLOCK), 1);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, i * 100 * 7, BLOCK), 1);
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_READ, 1, 3 * BLOCK, BLOCK), 1);
    /* behind it: two for the first of a stripe, which is listed, then one */
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, 5 * stripe, BLOCK), 2);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, 5 * stripe + i * BLOCK, BLOCK),
                         1);
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_READ, 1, 5 * stripe, BLOCK), 1);
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_READ, 1, 6 * stripe - BLOCK, 2 * BLOCK), 2);
    /* a commit is one, with object bytes of its stripe, too; gets of a group are one */
    struct snic_kvop_guard g = {.value = NULL};
    struct snic_kvop_change ch[3] = {
        {.kind = SNIC_KVOP_PUT, .value = value, .size = 5},
        {.kind = SNIC_KVOP_CHANGE_WRITE, .object = 2, .value = value, .size = 64},
        {.kind = SNIC_KVOP_PUT, .value = value, .size = 64}};
    snic_kvop_key_set(&ch[0].key, 2, "a", 1);
    snic_kvop_key_set(&ch[2].key, 2, "b", 1);
    g.key = ch[0].key;
    struct snic_kvop commit = {
        .kind = SNIC_KVOP_COMMIT, .guards = &g, .guard_count = 1, .changes = ch, .change_count = 3};
    assert_int_equal(cost(&c, &commit, 0), 1);
    assert_int_equal(cost(&c, &commit, SNIC_ECANCELED), 1);
    assert_int_equal(commit.failed_guard, 0);
    memset(gets, 0, sizeof(gets));
    gets[0].key = ch[0].key;
    gets[1].key = ch[2].key;
    snic_kvop_key_set(&gets[2].key, 3, "c", 1);
    struct snic_kvop get = {.kind = SNIC_KVOP_GET, .gets = gets, .get_count = 2};
    assert_int_equal(cost(&c, &get, 0), 1);
    get.get_count = 3;
    assert_int_equal(cost(&c, &get, 0), 2);
    struct snic_kvop sync = {.kind = SNIC_KVOP_SYNC};
    assert_int_equal(cost(&c, &sync, 0), 0);
    snic_kv_close(c.kv);
    rados_close(&c);
}

/* What another handle gave back must not be written into as if it were still there. */
static void test_kv_rados_old_knowledge_does_no_harm(void **state)
{
    static const struct conformance_kv_backend none;
    struct conformance_kv c = {.kv = NULL};
    struct snic_kv *first, *second = NULL;
    const uint64_t stripe = 4 << 20;
    (void)state;
    rados_open(&c, &none);
    first = c.kv;
    assert_int_equal(rados_again(&c, &second), 0);
    for (uint64_t n = 0; n < 3; n++) {
        struct snic_kvop stat = {.kind = SNIC_KVOP_OBJECT_STAT, .object = n};
        uint64_t at = n * stripe;
        assert_true(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, n, at, 10 * BLOCK) <= 2);
        c.kv = second;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_PUNCH, n, at + 2 * BLOCK, 3 * BLOCK);
        c.kv = first;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_WRITE, n, at + 3 * BLOCK, BLOCK);
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, 8 * BLOCK);
        c.kv = second;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_TRUNCATE, n, 0, 0);
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, 0);
        c.kv = first;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_WRITE, n, at + 5 * BLOCK, BLOCK);
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, BLOCK);
        c.kv = second;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_TRUNCATE, n, 0, 0);
        c.kv = first;
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, 0);
    }
    snic_kv_close(second);
    snic_kv_close(c.kv);
    rados_close(&c);
}

/* ---- No cluster ---- */

static void test_kv_rados_bad_options_refused(void **state)
{
    struct snic_loop *l = NULL;
    struct snic_kv *kv = NULL;
    struct snic_kv_rados_opts o = {.opts_size = sizeof(o), .pool = "nothing-of-this-name"};
    char text[256] = "";
    int error = 0;
    (void)state;
    if (snic_loop_uring_open(&l, NULL) != 0)
        support_skip("no io_uring");
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, &error, text), SNIC_ENOENT);
    assert_non_null(strstr(text, "nothing-of-this-name"));
    assert_int_equal(error, -2);
    o.conf = "/nonexistent/ceph.conf";
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, &error, text), SNIC_ENOENT);
    assert_non_null(strstr(text, "/nonexistent/ceph.conf"));
    o.flags = 1U << 30;
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, NULL, NULL), SNIC_EINVAL);
    assert_null(kv);
    snic_loop_close(l);
}

static const struct conformance_kv_backend backends[] = {
    {.name = "rados", .open = rados_open, .again = rados_again, .close = rados_close, .slow = 1}};

int main(int argc, char **argv)
{
    struct CMUnitTest tests[128] = {
        cmocka_unit_test(test_kv_rados_operations_cost_what_is_said),
        cmocka_unit_test(test_kv_rados_old_knowledge_does_no_harm),
        cmocka_unit_test(test_kv_rados_bad_options_refused),
    };
    if (getenv("CEPH_CONF") == NULL || getenv("SNIC_RADOS_RUN") == NULL)
        support_skip_program("no cluster: kv_rados.sh starts one");
    size_t n = 3;
    n += conformance_kv_tests(tests + n, SNIC_COUNTOF(tests) - n, backends, 1);
    return support_main(argc, argv, tests, n);
}
