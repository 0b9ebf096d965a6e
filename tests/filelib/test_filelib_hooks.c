/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What hooks see of a host's requests, in which order.
 */
#include "filelinks.h"
#include "support.h"

#include <stdio.h>

struct seen {
    char log[512];
    size_t used;
    uint64_t flushes; /* device promises at the last `written` */
    struct filelink *l;
    uint64_t length;
    const void *payload;
    uint8_t tag0;
    int responses_before;
    int *responses;
};

static void seen_add(struct seen *s, const char *what)
{
    size_t n = strlen(what);
    if (s->used + n < sizeof(s->log)) {
        memcpy(s->log + s->used, what, n + 1);
        s->used += n;
    }
}

static void seen_written(void *ctx, const struct snic_files_hook_op *op)
{
    struct seen *s = ctx;
    struct snic_files_stats st;
    snic_files_get_stats(s->l->fx.files, &st);
    s->flushes = st.flushes + st.fua_writes;
    s->length = op->length;
    s->payload = op->payload;
    s->tag0 = op->tag[0];
    s->responses_before = *s->responses;
    assert_int_equal(op->op, SNIC_FILES_WRITE);
    seen_add(s, op->flags & SNIC_FILES_SYNC ? "W" : "w");
}

static void seen_read(void *ctx, const struct snic_files_hook_op *op)
{
    struct seen *s = ctx;
    struct snic_files_stats st;
    snic_files_get_stats(s->l->fx.files, &st);
    assert_int_equal(op->op, SNIC_FILES_READ);
    s->length = op->length;
    seen_add(s, "r");
}

static int seen_cache(void *ctx, const void *keys, uint32_t key_size, const void *items,
                      uint32_t item_size, uint32_t count, uint64_t version)
{
    char text[64];
    assert_int_equal(item_size, 2);
    (void)snprintf(text, sizeof(text), "c%u%.*s%.*s%u", count, (int)key_size, (const char *)keys, 2,
                   (const char *)items, (unsigned)version);
    seen_add(ctx, text);
    return version == 99 ? SNIC_ENOSPC : 0;
}

static int seen_invalidate(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                           uint64_t version)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "i%u%.*s%u", count, (int)key_size, (const char *)keys,
                   (unsigned)version);
    seen_add(ctx, text);
    return 0;
}

static int seen_all(void *ctx, uint64_t version)
{
    (void)version;
    seen_add(ctx, "A");
    return 0;
}

static int responses;

static void count_done(struct snic_filelib_req *r)
{
    (void)r;
    responses++;
}

/* WRITE: the promise, the hook, the response. */
static void hooks_written(struct filelink *l, struct seen *s, uint64_t a)
{
    static unsigned char buf[200000];
    struct snic_filelib_req r;
    struct snic_filelib_req *p = &r;
    struct snic_files_stats st;
    responses = 0;
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_WRITE;
    r.flags = SNIC_FILES_SYNC;
    r.file = a;
    r.length = 100;
    r.buf.base = buf;
    r.buf.size = 100;
    r.tag[0] = 42;
    r.done = count_done;
    snic_files_get_stats(l->fx.files, &st);
    snic_filelib_submit(l->group, &p, 1);
    while (responses == 0)
        (void)snic_loop_once(l->host_loop, SNIC_NEVER);
    assert_string_equal(s->log, "W");
    assert_true(s->flushes > st.flushes + st.fua_writes);
    assert_int_equal(s->responses_before, 0);
    assert_non_null(s->payload);
    assert_int_equal(s->tag0, 42);
    /* Long ones: once, without payload. */
    assert_int_equal(filelink_write(l->group, a, 0, buf, sizeof(buf), SNIC_FILES_SYNC),
                     sizeof(buf));
    assert_string_equal(s->log, "WW");
    assert_null(s->payload);
    assert_int_equal(s->length, sizeof(buf));
    assert_int_equal(filelink_write(l->group, a, 0, buf, sizeof(buf), 0), sizeof(buf));
    assert_string_equal(s->log, "WWw");
    assert_int_equal(filelink_read(l->group, a, 0, buf, sizeof(buf)), sizeof(buf));
    assert_string_equal(s->log, "WWwr");
    assert_int_equal(s->length, sizeof(buf));
    /* A failed write has not been written. */
    assert_int_equal(filelink_write(l->group, 5, 0, buf, 10, 0), SNIC_ENOENT);
    assert_string_equal(s->log, "WWwr");
}

/* CACHE and INVALIDATE, many at once. */
static void hooks_ordered(struct filelink *l, struct seen *s)
{
    struct snic_filelib_req r[6];
    struct snic_filelib_req *p[6];
    unsigned i;
    s->used = 0;
    s->log[0] = 0;
    responses = 0;
    memset(r, 0, sizeof(r));
    for (i = 0; i < 6; i++) {
        p[i] = &r[i];
        r[i].op = i % 2 ? SNIC_FILELIB_INVALIDATE : SNIC_FILELIB_CACHE;
        if (i == 3)
            r[i].op = SNIC_FILELIB_INVALIDATE_ALL;
        r[i].keys = "k1k2";
        r[i].key_size = 2;
        r[i].items = "v1v2";
        r[i].item_size = 2;
        r[i].count = i == 2 ? 2 : 1;
        r[i].version = i == 4 ? 99 : i;
        r[i].done = count_done;
    }
    snic_filelib_submit(l->group, p, 6);
    while (responses < 6)
        (void)snic_loop_once(l->host_loop, SNIC_NEVER);
    assert_string_equal(s->log, "c1k1v10i1k11c2k1v12Ac1k1v199i1k15");
    for (i = 0; i < 6; i++)
        assert_int_equal(r[i].result, i == 4 ? SNIC_ENOSPC : 0);
}

/* `written` comes after the promise and before the response, `read` before the read; CACHE and
 * INVALIDATE take effect in the order of submission; without a hook the host gets an error. */
static void test_filelib_hooks_called_in_order(void **state)
{
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        struct filelink l;
        struct seen s;
        struct snic_files_hooks h;
        struct snic_filelib_req r;
        uint64_t a;
        link_setup(&l, kind);
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        memset(&r, 0, sizeof(r));
        r.op = SNIC_FILELIB_INVALIDATE_ALL;
        assert_int_equal(snic_filelib_run(l.group, &r), SNIC_ENOTSUP);
        memset(&s, 0, sizeof(s));
        s.l = &l;
        s.responses = &responses;
        memset(&h, 0, sizeof(h));
        h.written = seen_written;
        h.read = seen_read;
        h.cache = seen_cache;
        h.invalidate = seen_invalidate;
        h.invalidate_all = seen_all;
        h.ctx = &s;
        snic_files_set_hooks(l.fx.files, &h);
        hooks_written(&l, &s, a);
        hooks_ordered(&l, &s);
        filelink_close(&l);
    }
}

/* ---- Order ---- */

static uint64_t last_version;
static unsigned disorder;

static int order_invalidate(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                            uint64_t version)
{
    (void)ctx;
    (void)keys;
    (void)key_size;
    (void)count;
    disorder += version < last_version;
    last_version = version;
    return 0;
}

/* A small message does not overtake a large one for which the ring had no room. */
static void test_filelib_ring_full_small_does_not_overtake(void **state)
{
    static unsigned char keys[3 * 4096];
    struct filelink l;
    struct snic_files_hooks h;
    struct snic_filelib_req r[20];
    struct snic_filelib_req *p[20];
    struct snic_filelib_stats st;
    unsigned i;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    memset(&h, 0, sizeof(h));
    h.invalidate = order_invalidate;
    snic_files_set_hooks(l.fx.files, &h);
    memset(r, 0, sizeof(r));
    responses = 0;
    last_version = 0;
    disorder = 0;
    for (i = 0; i < 20; i++) {
        p[i] = &r[i];
        r[i].op = SNIC_FILELIB_INVALIDATE;
        r[i].keys = keys;
        r[i].key_size = i % 2 == 0 ? 4096 : 8;
        r[i].count = i % 2 == 0 ? 3 : 1;
        r[i].version = i;
        r[i].done = count_done;
    }
    snic_filelib_submit(l.group, p, 20);
    while (responses < 20)
        assert_int_equal(snic_world_step(l.fx.world), 1);
    for (i = 0; i < 20; i++)
        assert_int_equal(r[i].result, 0);
    snic_filelib_get_stats(l.group, &st);
    assert_true(st.waits > 0);
    assert_int_equal(last_version, 19);
    assert_int_equal(disorder, 0);
    filelink_close(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_hooks_called_in_order),
        cmocka_unit_test(test_filelib_ring_full_small_does_not_overtake),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
