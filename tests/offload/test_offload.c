/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** offload: the engine on a simulated disk. */
#include "test_offload_util.h"

#include <stdlib.h>
#include <string.h>

static struct node node;

/** Reads of @p tenant that are taken now. */
static uint32_t node_flood(struct node *n, uint32_t tenant, uint32_t size)
{
    uint32_t taken = 0;
    n->tenant = tenant;
    while (node_request(n, NULL, 0, size, taken) == 0)
        taken++;
    return taken;
}

/** A tenant that asks for all there is leaves as much as it has; the next one half of that. */
static void test_offload_tenant_leaves_room_for_others(void **state)
{
    struct snic_offload_opts o = node_opts();
    (void)state;
    o.contexts = 16;
    o.pool_bytes = 1 << 20;
    node_open(&node, &o, 1);
    assert_int_equal(node_flood(&node, 1, 100), 16); /* without tenants: everything */
    node_run(&node);
    node_close(&node);
    o.tenants = 3;
    node_open(&node, &o, 1);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(node_flood(&node, 1, 100), 8);
        assert_int_equal(node_flood(&node, 2, 100), 4);
        assert_int_equal(node_flood(&node, 77, 100), 0); /* counts as the last one */
        assert_int_equal(node_flood(&node, 0, 100), 2);
        node_run(&node); /* and all of it comes back */
    }
    node.more = 2; /* parts count one by one, and a refused message gives all of them back */
    assert_int_equal(node_flood(&node, 1, 100), 2); /* of three parts each */
    node.more = 0;
    node_run(&node);
    assert_int_equal(snic_offload_active(node.o), 0);
    node_close(&node);
    o.pool_bytes = 32 << 10; /* the same for bytes: 4.5 KiB for a read of 4 KiB */
    node_open(&node, &o, 1);
    uint32_t most = node_flood(&node, 1, 4096);
    assert_int_equal(most, 4); /* the last began with half */
    assert_true(node_flood(&node, 0, 4096) >= 1);
    node_run(&node);
    node_close(&node);
}

/* ---- Contract ---- */

/** Options outside their ranges, memory too small: refused with nothing done. */
static void test_offload_bad_options_are_refused(void **state)
{
    struct snic_offload_opts o = node_opts();
    (void)state;
    size_t size = snic_offload_memsize(&o);
    assert_true(size > 0);
    o.key_size = 0;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.key_size = 65;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.item_size = SNIC_OFFLOAD_ITEM_MAX + 1;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.cache_capacity = 0;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.contexts = 7;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.flags = 2;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.read_align = 3;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.read_max = 1 << 20; /* one read does not fit the pool */
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.opts_size = 3;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.tenants = 65537;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    o.reserved = 1;
    assert_int_equal(snic_offload_memsize(&o), 0);
    o = node_opts();
    struct filefix fx;
    memset(&fx, 0, sizeof(fx));
    filefix_open(&fx);
    struct snic_offload *out = NULL;
    struct snic_offload_user u = {0};
    void *mem = support_guard_alloc(size - 1, SNIC_OFFLOAD_ALIGN);
    assert_int_equal(snic_offload_init(&out, mem, size - 1, fx.loop, NULL, &u, &o), SNIC_ENOSPC);
    assert_int_equal(snic_offload_init(&out, (char *)mem + 8, size, fx.loop, NULL, &u, &o),
                     SNIC_EINVAL);
    assert_null(out);
    support_guard_free(mem);
    filefix_close(&fx);
}

/** Each way in which a message is sent to the host instead, and what is counted. */
static void test_offload_refusals_return_host(void **state)
{
    struct snic_offload_opts o = node_opts();
    struct snic_offload_stats st;
    (void)state;
    o.contexts = 2;
    o.message_max = sizeof(struct query);
    node_open(&node, &o, 1);
    node.no = 1;
    assert_int_equal(node_request(&node, NULL, 0, 100, 1), SNIC_ENOENT);
    node.no = 0;
    assert_int_equal(node_request(&node, NULL, 0, 4097, 1), SNIC_EMSGSIZE);
    assert_int_equal(node_request(&node, NULL, 0, 40960, 1), SNIC_EMSGSIZE);
    assert_int_equal(node_request(&node, NULL, 0, 0, 1), SNIC_EMSGSIZE);
    assert_int_equal(node_request(&node, NULL, UINT64_MAX - 50, 100, 1), SNIC_EMSGSIZE);
    unsigned char big[sizeof(struct query) + 1] = {0};
    struct snic_offload_msg m = {big, sizeof(big), 0, 0};
    assert_int_equal(snic_offload_submit(node.o, NULL, &m, 0, node_done, &node), SNIC_EMSGSIZE);
    assert_int_equal(node_request(&node, NULL, 0, 4096, 1), 0);
    assert_int_equal(node_request(&node, NULL, 0, 100, 2), 0);
    assert_int_equal(node_request(&node, NULL, 0, 100, 3), SNIC_EAGAIN);
    node_run(&node);
    node.verdict = 1;
    assert_int_equal(node_request(&node, NULL, 0, 100, 4), 0);
    node_run(&node);
    snic_offload_get_stats(node.o, &st);
    assert_int_equal(st.refused_func, 1);
    assert_int_equal(st.refused_size, 5);
    assert_int_equal(st.refused_busy, 1);
    assert_int_equal(st.submitted, 3);
    assert_int_equal(st.completed, 3);
    assert_int_equal(st.sent, 2);
    assert_int_equal(st.to_host, 1);
    assert_int_equal(st.active_high, 2);
    assert_int_equal(node.to_host, 1);
    node_close(&node);
}

/** Reads past the end are short, of files that are gone fail: reply() decides, as set. */
static void test_offload_short_and_failed_reads_are_judged(void **state)
{
    struct snic_offload_opts o = node_opts();
    (void)state;
    for (uint32_t align = 1; align <= 512; align *= 512) {
        o.read_align = align;
        node_open(&node, &o, align);
        assert_int_equal(node_request(&node, NULL, 99950, 100, 1), 0);
        node_run(&node);
        assert_int_equal(node.result, 50);
        assert_int_equal(node_request(&node, NULL, 100000, 100, 1), 0);
        node_run(&node);
        assert_int_equal(node.result, 0);
        assert_int_equal(node_request(&node, NULL, 300001, 100, 1), 0);
        node_run(&node);
        assert_int_equal(node.result, 0);
        node.file += 1000;
        assert_int_equal(node_request(&node, NULL, 0, 100, 1), 0);
        node_run(&node);
        assert_int_equal(node.result, SNIC_ENOENT);
        assert_int_equal(node.to_host, 1);
        node_close(&node);
    }
}

/** func()'s own answer comes from the loop like any other, and in its stream's order. */
static void test_offload_answer_without_read_comes_later(void **state)
{
    struct snic_offload_opts o = node_opts();
    struct snic_offload_stream s = {0};
    (void)state;
    node_open(&node, &o, 1);
    node.answer = 1;
    assert_int_equal(node_request(&node, &s, 0, 100, 1), 0);
    assert_int_equal(node_request(&node, NULL, 0, 100, 2), 0);
    node_run(&node);
    assert_int_equal(node.delivered, 2);
    node_close(&node);
}

/** Completions of one stream come in submission order, those of another do not wait. */
static void test_offload_streams_deliver_in_order(void **state)
{
    struct snic_offload_opts o = node_opts();
    (void)state;
    o.contexts = 64;
    node_open(&node, &o, 1);
    uint32_t overtook = 0;
    for (int round = 0; round < 50; round++) {
        struct snic_offload_stream s[3];
        uint64_t last[3] = {0, 0, 0};
        memset(s, 0, sizeof(s));
        node.delivered = 0;
        for (uint64_t i = 1; i <= 15; i++)
            assert_int_equal(node_request(&node, &s[i % 3], i * 300, 200, i), 0);
        node_run(&node);
        assert_int_equal(node.delivered, 15);
        for (uint32_t i = 0; i < 15; i++) {
            uint64_t c = node.order[i];
            assert_true(c > last[c % 3]);
            last[c % 3] = c;
            overtook += i > 0 && node.order[i - 1] > c;
        }
        for (int i = 0; i < 3; i++)
            assert_true(s[i].next == 5 && s[i].delivered == 5);
    }
    assert_true(overtook > 0);
    node_close(&node);
}

/** The paper's mode: over all streams in submission order. */
static void test_offload_strict_delivers_all_in_order(void **state)
{
    struct snic_offload_opts o = node_opts();
    (void)state;
    o.contexts = 64;
    o.flags = SNIC_OFFLOAD_STRICT;
    node_open(&node, &o, 1);
    struct snic_offload_stream s = {0};
    for (uint64_t i = 0; i < 30; i++) {
        node.answer = i % 7 == 3;
        assert_int_equal(node_request(&node, i % 2 ? &s : NULL, i * 300, 200, i), 0);
    }
    node_run(&node);
    for (uint64_t i = 0; i < 30; i++)
        assert_int_equal(node.order[i], i);
    node_close(&node);
}

/** A message of several reads: every part or none, one piece each, one verdict. */
static void test_offload_parts_all_or_nothing(void **state)
{
    struct snic_offload_opts o = node_opts();
    struct snic_offload_stats st;
    (void)state;
    o.contexts = 16;
    node_open(&node, &o, 1);
    node.more = 4;
    assert_int_equal(node_request(&node, NULL, 10, 1000, 1), 0);
    assert_int_equal(snic_offload_active(node.o), 5);
    node.hold = 1;
    node_run(&node);
    assert_int_equal(node.delivered, 1);
    assert_int_equal(node.held[0]->iov_count, 5);
    assert_int_equal(node.held[0]->bytes, 5 * (1000 - 1 + 4));
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(((unsigned char *)node.held[0]->iov[i].base)[2],
                         node_byte_at(11 + (uint64_t)i * 5000));
    node.more = 14; /* 15 contexts, and 11 are left */
    assert_int_equal(node_request(&node, NULL, 10, 10, 2), SNIC_EAGAIN);
    assert_int_equal(snic_offload_active(node.o), 5);
    node.more = 100;
    o.contexts = 32;
    node_close(&node);
    node_open(&node, &o, 1);
    node.more = 100;
    assert_int_equal(node_request(&node, NULL, 10, 10, 3), SNIC_EMSGSIZE);
    assert_int_equal(snic_offload_active(node.o), 0);
    node.more = 3;
    node.verdict = 1;
    assert_int_equal(node_request(&node, NULL, 10, 10, 4), 0);
    node_run(&node);
    assert_int_equal(node.to_host, 1);
    snic_offload_get_stats(node.o, &st);
    assert_int_equal(st.to_host, 1);
    node_close(&node);
}

/** Buffers of any size come and go; the pool is whole again, and EAGAIN is its only failure. */
static void test_offload_pool_runs_out_and_recovers(void **state)
{
    struct snic_offload_opts o = node_opts();
    struct snic_rng rng;
    (void)state;
    snic_rng_init(&rng, support_seed());
    o.contexts = 512;
    o.read_align = 512;
    node_open(&node, &o, 512);
    node.hold = 1;
    uint32_t refused = 0;
    struct snic_offload_stats st;
    snic_offload_get_stats(node.o, &st);
    uint64_t all = st.pool_free;
    for (int i = 0; i < 2000; i++) {
        if (snic_rng_below(&rng, 3) > 0) {
            uint64_t at = snic_rng_below(&rng, 90000);
            int r = node_request(&node, NULL, at, 1 + (uint32_t)snic_rng_below(&rng, 4096), 1);
            assert_true(r == 0 || r == SNIC_EAGAIN);
            refused += r != 0;
        }
        node_run(&node);
        while (node.held_count > 0 && snic_rng_below(&rng, 3) == 0) {
            uint32_t k = (uint32_t)snic_rng_below(&rng, node.held_count);
            snic_offload_release(node.o, node.held[k]);
            node.held[k] = node.held[--node.held_count];
            assert_int_equal(snic_offload_check(node.o), 0);
        }
    }
    assert_true(refused > 10);
    while (node.held_count > 0)
        snic_offload_release(node.o, node.held[--node.held_count]);
    snic_offload_get_stats(node.o, &st);
    assert_int_equal(st.pool_free, all);
    node_close(&node);
}

/** A read holds little more of the pool than the device needs for it, and gives that back. */
static void test_offload_pool_pieces_fit_the_reads(void **state)
{
    static const uint32_t sizes[] = {1, 100, 512, 1000, 4096, 33 << 10, 65000, 65536};
    (void)state;
    for (uint32_t align = 1; align <= 4096; align = align == 1 ? 512 : align * 2) {
        struct snic_offload_opts o = node_opts();
        o.contexts = 1024;
        o.read_align = align;
        o.read_max = 65536;
        o.pool_bytes = 1 << 20;
        node_open(&node, &o, align);
        node.hold = 1;
        for (uint32_t k = 0; k < SNIC_COUNTOF(sizes); k++) {
            for (uint64_t at = 0; at < 3 * 777; at += 777) {
                uint64_t all = snic_offload_pool_free(node.o);
                uint64_t need = snic_align_up(at + sizes[k], align) - snic_align_down(at, align);
                assert_int_equal(node_request(&node, NULL, at, sizes[k], 0), 0);
                uint64_t held = all - snic_offload_pool_free(node.o);
                need += align <= 512 ? 2 * SNIC_OFFLOAD_HEADER_MAX : 0; /* else they are apart */
                assert_true(held <= need + (need >= 2048 ? need / 4 : 512));
                node_run(&node);
                assert_int_equal(node.result, sizes[k]);
                assert_int_equal(node.held[0]->pool_bytes, held);
                snic_offload_release(node.o, node.held[--node.held_count]);
                assert_int_equal(snic_offload_pool_free(node.o), all);
            }
        }
        uint32_t taken = node_flood(&node, 0, 4096); /* and so many fit as there is room for */
        assert_int_equal(taken, align > 512 ? 256 : align == 512 ? 204 : 227);
        node_run(&node);
        node_close(&node);
    }
}

/** Aligned widening keeps a device that wants alignment free of bounce buffers. */
static void test_offload_widened_reads_need_no_bounce(void **state)
{
    struct snic_offload_opts o = node_opts();
    struct snic_files_stats before, after;
    (void)state;
    for (uint32_t align = 512; align <= 4096; align *= 8) {
        o.read_align = align;
        o.pool_bytes = 256 << 10;
        node_open(&node, &o, align);
        snic_files_get_stats(node.fx.files, &before);
        for (uint64_t i = 0; i < 200; i++) {
            assert_int_equal(node_request(&node, NULL, i * 397 + 1, (uint32_t)(1 + i * 7), i), 0);
            node_run(&node);
            assert_int_equal(node.result, 1 + i * 7);
        }
        snic_files_get_stats(node.fx.files, &after);
        assert_int_equal(after.bounced, before.bounced);
        node_close(&node);
    }
}

/** R5: a record that is being read is not overwritten by another file that gets its space. */
static void test_offload_reads_in_flight_keep_their_space(void **state)
{
    struct snic_offload_opts o = node_opts();
    unsigned char other[16384];
    (void)state;
    memset(other, 0xee, sizeof(other));
    o.contexts = 64;
    o.pool_bytes = 1 << 20;
    for (int round = 0; round < 20; round++) {
        node_open(&node, &o, 1);
        for (uint64_t i = 0; i < 20; i++)
            assert_int_equal(node_request(&node, NULL, i * 4000, 3000, i), 0);
        assert_int_equal(filefix_delete(node.fx.files, 0, "f"), 0);
        uint64_t id = 0;
        assert_int_equal(filefix_create(node.fx.files, 0, "g", &id), 0);
        for (uint64_t at = 0; at < 1600000; at += sizeof(other)) /* all the space there is */
            if (filefix_write(node.fx.files, id, at, other, sizeof(other), 0) < 0)
                break;
        node_run(&node); /* reply() has compared every byte */
        assert_int_equal(node.delivered, 20);
        node_close(&node);
    }
}

/* ---- Hooks ---- */

static void hook_cache(void *ctx, struct snic_offload *o, const struct snic_files_hook_op *op)
{
    uint64_t k, item = op->offset;
    (void)ctx;
    memcpy(&k, op->tag, 8);
    (void)snic_offload_put(o, &k, &item, 10);
}

static void hook_invalidate(void *ctx, struct snic_offload *o, const struct snic_files_hook_op *op)
{
    uint64_t k;
    (void)ctx;
    memcpy(&k, op->tag, 8);
    snic_offload_invalidate(o, &k, 11);
}

/** What hosts write, read, cache and invalidate reaches the table; wrong sizes do not. */
static void test_offload_hooks_act_on_the_table(void **state)
{
    struct snic_offload_opts o = node_opts();
    struct snic_offload_user u = {
        .func = node_func, .reply = node_reply, .cache = hook_cache, .invalidate = hook_invalidate};
    struct snic_offload *e = NULL;
    struct snic_files_hook_op op = {.op = SNIC_FILES_WRITE, .offset = 77};
    uint64_t k[2] = {5, 6}, items[2] = {50, 60}, item = 0;
    (void)state;
    node_open(&node, &o, 1);
    size_t size = snic_offload_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_OFFLOAD_ALIGN);
    assert_int_equal(snic_offload_init(&e, mem, size, node.fx.loop, node.fx.files, &u, &o), 0);
    struct snic_files_hooks h = snic_offload_hooks(e);
    memcpy(op.tag, &k[0], 8);
    h.written(h.ctx, &op);
    assert_int_equal(snic_offload_get(e, &k[0], &item, NULL), 0);
    assert_int_equal(item, 77);
    h.read(h.ctx, &op);
    assert_int_equal(snic_offload_get(e, &k[0], &item, NULL), SNIC_ENOENT);
    assert_int_equal(h.cache(h.ctx, k, 8, items, 8, 2, 12), 0);
    assert_int_equal(snic_offload_get(e, &k[1], &item, NULL), 0);
    assert_int_equal(item, 60);
    assert_int_equal(h.invalidate(h.ctx, k, 8, 2, 13), 0);
    assert_int_equal(snic_offload_get(e, &k[1], &item, NULL), SNIC_ENOENT);
    assert_int_equal(h.cache(h.ctx, k, 7, items, 8, 2, 20), SNIC_EINVAL);
    assert_int_equal(h.cache(h.ctx, k, 8, items, 9, 2, 20), SNIC_EINVAL);
    assert_int_equal(h.cache(h.ctx, k, 8, items, 8, 2, UINT64_MAX), SNIC_ERANGE);
    assert_int_equal(h.invalidate(h.ctx, k, 9, 2, 20), SNIC_EINVAL);
    assert_int_equal(h.invalidate_all(h.ctx, 30), 0);
    assert_int_equal(h.cache(h.ctx, k, 8, items, 8, 2, 29), 0);
    assert_int_equal(snic_offload_get(e, &k[1], &item, NULL), SNIC_ENOENT); /* the floor */
    assert_int_equal(snic_offload_key_size(e), 8);
    assert_int_equal(snic_offload_item_size(e), 8);
    snic_offload_fini(e);
    support_guard_free(mem);
    node_close(&node);
}

/* ---- Programmer errors ---- */

static void release_twice(void *ctx)
{
    (void)ctx;
    struct snic_offload_opts o = node_opts();
    node_open(&node, &o, 1);
    node.hold = 1;
    if (node_request(&node, NULL, 0, 100, 1) == 0)
        node_run(&node);
    snic_offload_release(node.o, node.held[0]);
    snic_offload_release(node.o, node.held[0]);
}

static int func_submits(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                        struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    struct node *n = ctx;
    (void)o;
    (void)out;
    (void)reply;
    return snic_offload_submit(n->o, NULL, msg, 0, node_done, n);
}

static void submit_inside(void *ctx)
{
    (void)ctx;
    struct snic_offload_opts o = node_opts();
    struct snic_offload_user u = {.func = func_submits, .reply = node_reply, .ctx = &node};
    node_open(&node, &o, 1);
    struct snic_offload *e = NULL;
    size_t size = snic_offload_memsize(&o);
    void *mem = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (snic_offload_init(&e, mem, size, node.fx.loop, node.fx.files, &u, &o) != 0)
        return;
    node.o = e;
    struct query a = {0, 0, 1, 0};
    struct snic_offload_msg m = {(const unsigned char *)&a, sizeof(a), 0, 0};
    if (snic_offload_submit(e, NULL, &m, 0, node_done, &node) == 0)
        node_run(&node);
}

/** A job is released once; user functions do not submit. */
static void test_offload_misuse_asserts(void **state)
{
    (void)state;
    SUPPORT_EXPECT_ABORT(release_twice, NULL);
    SUPPORT_EXPECT_DEBUG_ABORT(submit_inside, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offload_bad_options_are_refused),
        cmocka_unit_test(test_offload_refusals_return_host),
        cmocka_unit_test(test_offload_tenant_leaves_room_for_others),
        cmocka_unit_test(test_offload_short_and_failed_reads_are_judged),
        cmocka_unit_test(test_offload_answer_without_read_comes_later),
        cmocka_unit_test(test_offload_streams_deliver_in_order),
        cmocka_unit_test(test_offload_strict_delivers_all_in_order),
        cmocka_unit_test(test_offload_parts_all_or_nothing),
        cmocka_unit_test(test_offload_pool_runs_out_and_recovers),
        cmocka_unit_test(test_offload_pool_pieces_fit_the_reads),
        cmocka_unit_test(test_offload_widened_reads_need_no_bounce),
        cmocka_unit_test(test_offload_reads_in_flight_keep_their_space),
        cmocka_unit_test(test_offload_hooks_act_on_the_table),
        cmocka_unit_test(test_offload_misuse_asserts),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
