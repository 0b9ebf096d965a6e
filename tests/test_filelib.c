/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file library over a channel in simulated worlds: mapped, mapped but treated as unmapped,
 * and unmapped links; hooks, order, limits, deaths, and hostile ends.
 */
#include "filelink.h"
#include "support.h"

#include <stdio.h>

static const struct {
    int sim;
    uint32_t accept;
    uint32_t channel;
    uint32_t payload_align;
    uint32_t disk_align;
} links[] = {
    {0, 0, 0, 8, 1},
    {0, SNIC_CHANNEL_UNMAPPED, 0, 4096, 4096},
    {1, 0, 0, 512, 512},
    {2, 0, SNIC_CHANNEL_UP_QUIESCENT | SNIC_CHANNEL_DOWN_ORDERED, 8, 4096},
};

static void link_setup(struct filelink *l, unsigned kind)
{
    memset(l, 0, sizeof(*l));
    l->sim = links[kind].sim;
    l->serve.channel_flags = links[kind].accept;
    l->open.channel_flags = links[kind].channel;
    l->open.payload_align = links[kind].payload_align;
    l->open.up_bytes = 65536;
    l->open.down_bytes = 65536;
    l->fx.disk_opts.align = links[kind].disk_align;
    l->fx.disk_opts.delay_max_ns = 100000;
    l->fx.disk_opts.size = 4u << 20;
}

static void fill(unsigned char *p, size_t n, unsigned tag)
{
    size_t i;
    for (i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 7 + (i >> 8) + tag);
}

/* Every operation does over the channel what it does on the service. */
static void test_filelib_every_operation_carried_out(void **state)
{
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        struct filelink l;
        struct snic_filelib_req r;
        struct snic_files_entry e;
        unsigned char buf[5000];
        unsigned char back[6000];
        uint64_t dir;
        uint64_t a;
        uint64_t id;
        size_t pos = 0;
        link_setup(&l, kind);
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_MKDIR, 0, "d", &dir), 0);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, dir, "a", &a), 0);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, dir, "a", &id), SNIC_EEXIST);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_OPEN, dir, "a", &id), 0);
        assert_int_equal(id, a);
        fill(buf, sizeof(buf), kind);
        assert_int_equal(filelink_write(l.group, a, 300, buf, sizeof(buf), SNIC_FILES_SYNC), 5000);
        assert_int_equal(filelink_read(l.group, a, 0, back, sizeof(back)), 5300);
        assert_memory_equal(back + 300, buf, 5000);
        assert_int_equal(filelink_read(l.group, a, 5300, back, 10), 0);
        memset(&r, 0, sizeof(r));
        r.op = SNIC_FILES_STAT;
        r.file = a;
        assert_int_equal(snic_filelib_run(l.group, &r), 0);
        assert_int_equal(r.size, 5300);
        assert_int_equal(r.kind, SNIC_FILES_FILE);
        r.op = SNIC_FILES_TRUNCATE;
        r.length = 100;
        assert_int_equal(snic_filelib_run(l.group, &r), 0);
        r.op = SNIC_FILES_PREALLOC;
        r.length = 20000;
        assert_int_equal(snic_filelib_run(l.group, &r), 0);
        r.op = SNIC_FILES_FSYNC;
        r.length = 0;
        assert_int_equal(snic_filelib_run(l.group, &r), 0);
        memset(&r, 0, sizeof(r));
        r.op = SNIC_FILES_RENAME;
        r.dir = dir;
        r.name = "a";
        r.name_size = 1;
        r.name2 = "bb";
        r.name2_size = 2;
        assert_int_equal(snic_filelib_run(l.group, &r), 0);
        memset(&r, 0, sizeof(r));
        r.op = SNIC_FILES_LIST;
        r.buf.base = back;
        r.buf.size = sizeof(back);
        r.length = sizeof(back);
        assert_true(snic_filelib_run(l.group, &r) > 0);
        assert_int_equal(snic_files_entry_next(back, (size_t)r.result, &pos, &e), 1);
        assert_int_equal(e.kind, SNIC_FILES_DIR);
        assert_int_equal(snic_files_entry_next(back, (size_t)r.result, &pos, &e), 1);
        assert_int_equal(e.id, a);
        assert_int_equal(e.size, 20000);
        assert_memory_equal(e.name, "bb", 2);
        assert_int_equal(snic_files_entry_next(back, (size_t)r.result, &pos, &e), 0);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_DELETE, 0, "bb", NULL), 0);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_RMDIR, 0, "d", NULL), 0);
        assert_int_equal(filelink_read(l.group, a, 0, back, 1), SNIC_ENOENT);
        assert_int_equal(snic_files_check(l.fx.files), 0);
        filelink_close(&l);
    }
}

/* Longer than a message: carried out in parts, gathered and scattered, short at the end. */
static void test_filelib_long_request_in_parts_whole(void **state)
{
    static unsigned char buf[300000];
    static unsigned char back[310000];
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        struct filelink l;
        struct snic_filelib_file file;
        struct snic_filelib_req r;
        struct snic_filelib_req *got;
        struct snic_iov v[3];
        uint64_t a;
        link_setup(&l, kind);
        filelink_open(&l);
        assert_true(snic_filelib_max(l.group) < sizeof(buf));
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        snic_filelib_add(l.group, &file, a);
        fill(buf, sizeof(buf), kind);
        v[0].base = buf;
        v[0].size = 77777;
        v[1].base = buf + 77777;
        v[1].size = 0;
        v[2].base = buf + 77777;
        v[2].size = sizeof(buf) - 77777;
        memset(&r, 0, sizeof(r));
        r.flags = SNIC_FILES_SYNC;
        snic_filelib_vector(&file, &r, SNIC_FILES_WRITE, 1000, v, 3);
        assert_int_equal(snic_filelib_wait(l.group, &got, 1, SNIC_NEVER), 1);
        assert_ptr_equal(got, &r);
        assert_int_equal(r.result, sizeof(buf));
        v[0].base = back;
        v[0].size = 5;
        v[1].base = back + 5;
        v[1].size = 200000;
        v[2].base = back + 200005;
        v[2].size = sizeof(back) - 200005;
        memset(&r, 0, sizeof(r));
        snic_filelib_vector(&file, &r, SNIC_FILES_READ, 1000, v, 3);
        assert_int_equal(snic_filelib_wait(l.group, &got, 1, SNIC_NEVER), 1);
        assert_int_equal(r.result, sizeof(buf));
        assert_memory_equal(back, buf, sizeof(buf));
        filelink_close(&l);
    }
}

/* One buffer through a file's handle: the completion comes to the handle's group, what the request
 * held before does not matter, and both sides count alike. */
static void test_filelib_file_read_and_written_by_handle(void **state)
{
    static unsigned char buf[3000];
    static unsigned char back[4000];
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        struct filelink l;
        struct snic_filelib_file file;
        struct snic_filelib_req r;
        struct snic_filelib_req *got;
        struct snic_files_server_stats before;
        struct snic_files_server_stats st;
        struct snic_iov stale = {back, 7};
        uint64_t a;
        link_setup(&l, kind);
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        snic_filelib_add(l.group, &file, a);
        snic_files_server_get_stats(l.server, &before);
        assert_int_equal(before.requests, 1);
        fill(buf, sizeof(buf), kind);
        memset(&r, 0, sizeof(r));
        r.flags = SNIC_FILES_SYNC;
        snic_filelib_write(&file, &r, 500, buf, sizeof(buf));
        assert_int_equal(snic_filelib_wait(l.group, &got, 1, SNIC_NEVER), 1);
        assert_ptr_equal(got, &r);
        assert_int_equal(r.result, sizeof(buf));
        memset(&r, 0, sizeof(r));
        r.iov = &stale;
        r.iov_count = 1;
        snic_filelib_read(&file, &r, 1000, back, sizeof(back));
        assert_int_equal(snic_filelib_wait(l.group, &got, 1, SNIC_NEVER), 1);
        assert_ptr_equal(got, &r);
        assert_int_equal(r.result, 2500); /* short: the end of the file */
        assert_memory_equal(back, buf + 500, 2500);
        snic_filelib_read(&file, &r, 3500, back, sizeof(back));
        assert_int_equal(snic_filelib_wait(l.group, &got, 1, SNIC_NEVER), 1);
        assert_int_equal(r.result, 0);
        file.id = a + 1;
        snic_filelib_write(&file, &r, 0, buf, 1);
        assert_int_equal(snic_filelib_wait(l.group, &got, 1, SNIC_NEVER), 1);
        assert_int_equal(r.result, SNIC_ENOENT);
        snic_files_server_get_stats(l.server, &st);
        assert_int_equal(st.requests - before.requests, 4);
        assert_int_equal(st.responses, st.requests);
        assert_int_equal(st.in_progress, 0);
        assert_int_equal(st.refused, 0);
        assert_int_equal(st.write_bytes, 3000);
        assert_int_equal(st.read_bytes, 2500);
        filelink_close(&l);
    }
}

/* ---- Hooks ---- */

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
 * INVALIDATE take effect in the order of submission; without a hook the host is told. */
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

/* ---- Limits ---- */

static void refused(struct snic_filelib *g, struct snic_filelib_req *r, int error)
{
    assert_int_equal(snic_filelib_run(g, r), error);
}

/* Bad requests end with their error, from the loop, and the group lives on. */
static void test_filelib_request_invalid_refused(void **state)
{
    struct filelink l;
    struct snic_filelib_req r;
    static unsigned char buf[70000];
    char name[300];
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    memset(name, 'n', sizeof(name));
    memset(&r, 0, sizeof(r));
    r.op = 99;
    refused(l.group, &r, SNIC_EINVAL);
    r.op = SNIC_FILES_CREATE;
    r.name = name;
    r.name_size = 256;
    refused(l.group, &r, SNIC_ENAMETOOLONG);
    r.name = NULL;
    r.name_size = 1;
    refused(l.group, &r, SNIC_EINVAL);
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_WRITE;
    r.length = 10;
    refused(l.group, &r, SNIC_EINVAL);
    r.buf.base = buf;
    r.buf.size = 10;
    r.flags = 1u << 12;
    refused(l.group, &r, SNIC_EINVAL);
    r.flags = SNIC_FILELIB_LEND;
    refused(l.group, &r, SNIC_EINVAL);
    r.op = SNIC_FILES_READ;
    r.length = sizeof(buf);
    r.flags = SNIC_FILELIB_LEND;
    refused(l.group, &r, SNIC_EMSGSIZE);
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILELIB_INVALIDATE;
    r.keys = buf;
    refused(l.group, &r, SNIC_EINVAL);
    r.key_size = 4096;
    r.count = 17;
    refused(l.group, &r, SNIC_EMSGSIZE);
    r.op = SNIC_FILES_READ;
    r.flags = 0;
    r.buf.base = buf;
    r.buf.size = 1;
    r.length = 1;
    refused(l.group, &r, SNIC_EISDIR);
    assert_int_equal(snic_filelib_state(l.group), 0);
    filelink_close(&l);
}

/* Group and server take exactly the memory they asked for. */
static void test_filelib_memory_exact(void **state)
{
    struct filelink l;
    struct snic_filelib_opts o;
    struct snic_filelib *g;
    size_t size;
    unsigned char *mem;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    memset(&o, 0, sizeof(o));
    assert_int_equal(snic_filelib_memsize(&o), 0);
    o.opts_size = sizeof(o);
    o.depth = 65537;
    assert_int_equal(snic_filelib_memsize(&o), 0);
    o.depth = 0;
    o.reserved = 1;
    assert_int_equal(snic_filelib_memsize(&o), 0);
    o.reserved = 0;
    size = snic_filelib_memsize(&o);
    mem = support_guard_alloc(size, SNIC_FILELIB_ALIGN);
    assert_int_equal(snic_filelib_open(&g, mem, size - 1, l.host_hub, &o), SNIC_ENOSPC);
    assert_int_equal(snic_filelib_open(&g, mem + 8, size - 8, l.host_hub, &o), SNIC_EINVAL);
    support_guard_free(mem);
    filelink_close(&l);
}

/* A read that is lent lies in the ring while `done` runs. */
static uint64_t lent_sum;

static void lent_done(struct snic_filelib_req *r)
{
    const unsigned char *p = r->data;
    int64_t i;
    for (i = 0; i < r->result; i++)
        lent_sum += p[i];
    responses++;
}

static void test_filelib_read_lent_not_copied(void **state)
{
    struct filelink l;
    struct snic_filelib_req r;
    struct snic_filelib_req *p = &r;
    struct snic_filelib_stats st;
    unsigned char buf[3000];
    uint64_t sum = 0;
    uint64_t a;
    unsigned i;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
    fill(buf, sizeof(buf), 3);
    for (i = 0; i < sizeof(buf); i++)
        sum += buf[i];
    assert_int_equal(filelink_write(l.group, a, 0, buf, sizeof(buf), 0), sizeof(buf));
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_READ;
    r.flags = SNIC_FILELIB_LEND;
    r.file = a;
    r.length = 4000;
    r.done = lent_done;
    responses = 0;
    lent_sum = 0;
    snic_filelib_submit(l.group, &p, 1);
    while (responses == 0)
        (void)snic_loop_once(l.host_loop, SNIC_NEVER);
    assert_int_equal(r.result, sizeof(buf));
    assert_int_equal(lent_sum, sum);
    snic_filelib_get_stats(l.group, &st);
    assert_int_equal(st.copied_bytes, 0);
    filelink_close(&l);
}

/* ---- Many requests ---- */

#define MANY 600u

/* More requests than entries, contexts, and ring space: none is lost, each completes once. */
static void test_filelib_rings_full_all_completed(void **state)
{
    static struct snic_filelib_req r[MANY];
    static unsigned char buf[MANY][4096];
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        struct filelink l;
        struct snic_filelib_req *p[MANY];
        struct snic_filelib_stats st;
        uint64_t a;
        unsigned got = 0;
        unsigned i;
        link_setup(&l, kind);
        l.open.depth = 37;
        l.serve.depth = 5;
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        memset(r, 0, sizeof(r));
        for (i = 0; i < MANY; i++) {
            fill(buf[i], sizeof(buf[i]), i);
            r[i].op = SNIC_FILES_WRITE;
            r[i].file = a;
            r[i].offset = i * 4096u;
            r[i].length = 4096;
            r[i].buf.base = buf[i];
            r[i].buf.size = 4096;
            r[i].user = i;
            p[i] = &r[i];
        }
        snic_filelib_submit(l.group, p, MANY);
        while (got < MANY) {
            int n = snic_filelib_wait(l.group, p, 64, SNIC_NEVER);
            assert_true(n > 0);
            for (i = 0; i < (unsigned)n; i++)
                assert_int_equal(p[i]->result, 4096);
            got += (unsigned)n;
        }
        assert_int_equal(snic_filelib_wait(l.group, p, 64, SNIC_NEVER), 0);
        assert_int_equal(snic_filelib_wait(l.group, p, 64, 1000), 0);
        for (i = 0; i < MANY; i++) {
            unsigned char back[4096];
            if (i % 13 != 0)
                continue;
            assert_int_equal(filelink_read(l.group, a, i * 4096u, back, 4096), 4096);
            assert_memory_equal(back, buf[i], 4096);
        }
        snic_filelib_get_stats(l.group, &st);
        assert_int_equal(st.outstanding, 0);
        assert_true(st.waits > 0);
        filelink_close(&l);
    }
}

/* ---- Deaths ---- */

/* The DPU dies at any moment: each request completes once, by its result or EPEERDEAD; on a new
 * link the work is done again and all of it is there. */
static void test_filelib_dpu_dies_requests_end_and_reissued(void **state)
{
    static struct snic_filelib_req r[40];
    static unsigned char buf[40][3000];
    unsigned moment;
    unsigned died = 0;
    (void)state;
    for (moment = 0; moment < 60; moment++) {
        struct filelink l;
        struct snic_filelib_req *p[40];
        uint64_t a;
        unsigned i;
        unsigned lost = 0;
        link_setup(&l, 2);
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        memset(r, 0, sizeof(r));
        responses = 0;
        for (i = 0; i < 40; i++) {
            fill(buf[i], sizeof(buf[i]), i);
            r[i].op = SNIC_FILES_WRITE;
            r[i].flags = SNIC_FILES_SYNC;
            r[i].file = a;
            r[i].offset = i * 3000u;
            r[i].length = 3000;
            r[i].buf.base = buf[i];
            r[i].buf.size = 3000;
            r[i].done = count_done;
            p[i] = &r[i];
        }
        snic_filelib_submit(l.group, p, 40);
        for (i = 0; i < moment * 12; i++)
            (void)snic_world_step(l.fx.world);
        snic_dma_sim_kill(l.dpu_dma);
        while (responses < 40)
            assert_int_equal(snic_world_step(l.fx.world), 1);
        for (i = 0; i < 40; i++) {
            assert_true(r[i].result == 3000 || r[i].result == SNIC_EPEERDEAD);
            lost += r[i].result < 0;
        }
        died += lost > 0;
        if (lost > 0)
            assert_int_equal(snic_filelib_state(l.group), SNIC_EPEERDEAD);
        /* The DPU starts anew on what the disk holds. */
        assert_int_equal(filelink_read(l.group, a, 0, buf[0], 1), SNIC_EPEERDEAD);
        filelink_group_close(&l);
        filelink_server_close(&l);
        filelink_disconnect(&l);
        (void)filefix_unmount(&l.fx);
        filefix_reopen(&l.fx);
        filefix_mount(&l.fx);
        filelink_connect(&l);
        filelink_group_open(&l);
        responses = 0;
        fill(buf[0], sizeof(buf[0]), 0);
        for (i = 0; i < 40; i++)
            p[i] = &r[i];
        snic_filelib_submit(l.group, p, 40);
        while (responses < 40)
            assert_int_equal(snic_world_step(l.fx.world), 1);
        for (i = 0; i < 40; i++) {
            unsigned char back[3000];
            assert_int_equal(r[i].result, 3000);
            assert_int_equal(filelink_read(l.group, a, i * 3000u, back, 3000), 3000);
            assert_memory_equal(back, buf[i], 3000);
        }
        filelink_close(&l);
    }
    assert_true(died > 10);
}

/* The host dies at any moment: the service ends what it took, forgets the host, stays whole, and
 * serves the next host. */
static void test_filelib_host_dies_service_goes_on(void **state)
{
    static struct snic_filelib_req r[20];
    static unsigned char buf[20][3000];
    unsigned moment;
    (void)state;
    for (moment = 0; moment < 60; moment++) {
        struct filelink l;
        struct snic_filelib_req *p[20];
        uint64_t a;
        uint64_t b;
        unsigned i;
        link_setup(&l, 1 + moment % 2);
        l.sim = 1;
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        memset(r, 0, sizeof(r));
        responses = 0;
        for (i = 0; i < 20; i++) {
            fill(buf[i], sizeof(buf[i]), i);
            r[i].op = i % 3 == 0 ? SNIC_FILES_READ : SNIC_FILES_WRITE;
            r[i].file = a;
            r[i].offset = i * 3000u;
            r[i].length = 3000;
            r[i].buf.base = buf[i];
            r[i].buf.size = 3000;
            r[i].done = count_done;
            p[i] = &r[i];
        }
        snic_filelib_submit(l.group, p, 20);
        for (i = 0; i < moment * 12; i++)
            (void)snic_world_step(l.fx.world);
        snic_dma_sim_kill(l.host_dma);
        while (l.gone == 1)
            assert_int_equal(snic_world_step(l.fx.world), 1);
        assert_int_equal(l.gone, SNIC_EPEERDEAD);
        filelink_server_close(&l);
        assert_int_equal(snic_files_check(l.fx.files), 0);
        filelink_group_close(&l); /* the dead host's memory */
        filelink_disconnect(&l);
        filelink_connect(&l);
        filelink_group_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "b", &b), 0);
        assert_int_equal(filelink_write(l.group, b, 0, buf[1], 3000, 0), 3000);
        filelink_close(&l);
    }
}

/* ---- Hostile ends ---- */

struct raw {
    struct snic_channel *channel;
    struct snic_channel_sender sender;
    unsigned replies;
    unsigned closed;
    int64_t result; /* of the last reply */
};

static int raw_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct raw *raw = ctx;
    (void)c;
    raw->replies++;
    if (m->header_bytes == 64)
        raw->result = (int64_t)snic_get_le64((const unsigned char *)m->header + 16);
    return 1;
}

static void raw_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)c;
    (void)reason;
    ((struct raw *)ctx)->closed++;
}

/* Replace the library's group by a channel that takes any bytes. */
static void raw_open(struct filelink *l, struct raw *raw)
{
    struct snic_channel_opts co;
    struct snic_channel_events e;
    filelink_group_close(l);
    while (l->gone == 1)
        assert_int_equal(snic_world_step(l->fx.world), 1);
    filelink_server_close(l);
    memset(&co, 0, sizeof(co));
    co.opts_size = sizeof(co);
    co.kind = SNIC_FILES_CHANNEL_KIND;
    co.up_bytes = 65536;
    co.down_bytes = 65536;
    memset(&e, 0, sizeof(e));
    memset(raw, 0, sizeof(*raw));
    e.message = raw_message;
    e.closed = raw_closed;
    e.ctx = raw;
    assert_int_equal(snic_channel_open(&raw->channel, l->host_hub, &co, &e), 0);
    assert_int_equal(snic_channel_sender_init(&raw->sender, raw->channel), 0);
}

static void raw_close(struct filelink *l, struct raw *raw)
{
    snic_channel_close(raw->channel);
    (void)snic_world_run(l->fx.world, snic_world_now(l->fx.world) + 1000000000, UINT64_MAX);
    filelink_server_close(l);
}

/* One message of `op` with these fields; the answer. */
static int64_t raw_ask(struct filelink *l, struct raw *raw, uint8_t op, uint64_t file,
                       uint64_t length, uint32_t name_size, uint32_t key_size, uint32_t count,
                       uint32_t payload)
{
    static unsigned char bytes[16384];
    unsigned char h[128];
    struct snic_iov v = {bytes, payload};
    unsigned before = raw->replies;
    memset(h, 0, sizeof(h));
    h[0] = 1;
    h[1] = op;
    snic_put_le64(h + 16, file);
    snic_put_le64(h + 48, length);
    snic_put_le32(h + 64, name_size);
    snic_put_le32(h + 72, key_size);
    snic_put_le32(h + 80, count);
    assert_int_equal(snic_channel_up_push(&raw->sender, 1, h, sizeof(h), &v, 1), 0);
    while (raw->replies == before)
        assert_int_equal(snic_world_step(l->fx.world), 1);
    return raw->result;
}

static unsigned raw_hooks;

static int raw_invalidate(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                          uint64_t version)
{
    (void)ctx;
    (void)keys;
    (void)key_size;
    (void)version;
    raw_hooks += count;
    return 0;
}

/* Sizes that do not fit the message are refused before anything is read by them. */
static void test_filelib_host_sizes_wrong_refused(void **state)
{
    struct filelink l;
    struct snic_files_hooks h;
    struct snic_files_server_stats before;
    struct snic_files_server_stats st;
    struct raw raw;
    uint64_t a;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
    memset(&h, 0, sizeof(h));
    h.invalidate = raw_invalidate;
    snic_files_set_hooks(l.fx.files, &h);
    raw_hooks = 0;
    raw_open(&l, &raw);
    assert_int_equal(raw_ask(&l, &raw, 41, 0, 0, 0, 8, 1000, 8), SNIC_EINVAL);
    assert_int_equal(raw_ask(&l, &raw, 41, 0, 0, 0, 8, 0x20000001, 8), SNIC_EINVAL);
    assert_int_equal(raw_ask(&l, &raw, 41, 0, 0, 0, 5000, 1, 5000), SNIC_EINVAL);
    assert_int_equal(raw_ask(&l, &raw, 41, 0, 0, 0, 0, 5, 0), SNIC_EINVAL);
    assert_int_equal(raw_hooks, 0);
    assert_int_equal(raw_ask(&l, &raw, 41, 0, 0, 0, 8, 1500, 12000), 0);
    assert_int_equal(raw_hooks, 1500);
    snic_files_server_get_stats(l.server, &before);
    assert_int_equal(raw_ask(&l, &raw, 2, a, 100, 0, 0, 0, 50), SNIC_EPROTO);
    assert_int_equal(raw_ask(&l, &raw, 2, a, 50, 0, 0, 0, 100), SNIC_EPROTO);
    assert_int_equal(raw_ask(&l, &raw, 2, a, 50, 0, 0, 0, 50), 50);
    assert_int_equal(raw_ask(&l, &raw, 1, a, 50, 0, 0, 0, 50), SNIC_EPROTO);
    assert_int_equal(raw_ask(&l, &raw, 1, a, UINT64_MAX, 0, 0, 0, 0), SNIC_EMSGSIZE);
    assert_int_equal(raw_ask(&l, &raw, 10, 0, 0, 9, 0, 0, 5), SNIC_EPROTO);
    assert_int_equal(raw_ask(&l, &raw, 10, 0, 0, 256, 0, 0, 256), SNIC_ENAMETOOLONG);
    snic_files_server_get_stats(l.server, &st);
    assert_int_equal(st.requests - before.requests, 7);
    assert_int_equal(st.responses - before.responses, 7);
    assert_int_equal(st.refused - before.refused, 6);
    assert_int_equal(st.write_bytes - before.write_bytes, 50);
    assert_int_equal(st.read_bytes - before.read_bytes, 0);
    raw_close(&l, &raw);
    filelink_close(&l);
}

/* A host that sends anything at all is answered or ignored; the service and its files live. */
static void test_filelib_hostile_host_service_lives(void **state)
{
    uint64_t rounds = support_scale(20000, 1000000);
    struct filelink l;
    struct snic_rng rng;
    struct raw raw;
    static unsigned char payload[9000];
    uint64_t a;
    uint64_t i;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
    raw_open(&l, &raw);
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        unsigned char h[256];
        struct snic_iov v;
        uint32_t size = snic_rng_below(&rng, 20) == 0 ? (uint32_t)snic_rng_below(&rng, 257) : 128;
        static const unsigned char ops[] = {1,  2,  3,  8,  9,  10, 11, 12,
                                            13, 14, 20, 21, 22, 40, 41, 42};
        uint32_t k;
        memset(h, 0, sizeof(h));
        h[0] = 1;
        h[1] = ops[snic_rng_below(&rng, sizeof(ops))];
        snic_put_le64(h + 8, i);
        snic_put_le64(h + 16, snic_rng_below(&rng, 3) ? a : snic_rng_next(&rng));
        snic_put_le64(h + 40, snic_rng_below(&rng, 100000));
        snic_put_le64(h + 48, snic_rng_below(&rng, 10000));
        v.base = payload;
        v.size = snic_rng_below(&rng, 4) ? snic_rng_below(&rng, 20) : snic_rng_below(&rng, 8192);
        snic_rng_fill(&rng, payload, 32);
        if (snic_rng_below(&rng, 2)) {
            snic_put_le64(h + 48, v.size);
            snic_put_le32(h + 64, (uint32_t)v.size);
        }
        for (k = (uint32_t)snic_rng_below(&rng, 4); k > 0; k--)
            snic_put_le64(h + snic_rng_below(&rng, 15) * 8,
                          snic_rng_next(&rng) >> snic_rng_below(&rng, 64));
        while (snic_channel_up_push(&raw.sender, 1, h, size, &v, 1) == SNIC_EAGAIN)
            assert_int_equal(snic_world_step(l.fx.world), 1);
        if (i % 64 == 0)
            assert_int_equal(snic_files_check(l.fx.files), 0);
    }
    (void)snic_world_run(l.fx.world, snic_world_now(l.fx.world) + 3000000000u, UINT64_MAX);
    assert_int_equal(snic_files_check(l.fx.files), 0);
    assert_true(raw.replies > rounds / 2);
    raw_close(&l, &raw);
    filelink_close(&l);
}

struct fake {
    struct snic_channel *channel;
    struct snic_rng rng;
    unsigned closed;
    unsigned kind;
    unsigned answered;
    unsigned char first[8]; /* the first request's id */
};

/* A DPU that answers with nonsense of one kind. */
static int fake_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct fake *f = ctx;
    const unsigned char *q = m->header;
    static unsigned char payload[20000];
    unsigned char h[64];
    struct snic_iov v;
    uint32_t size = sizeof(h);
    memset(h, 0, sizeof(h));
    h[0] = 1;
    h[1] = q[1];
    memcpy(h + 8, q + 8, 8);
    if (f->answered++ == 0)
        memcpy(f->first, h + 8, 8);
    v.base = payload;
    v.size = q[1] == SNIC_FILES_READ ? 100 : 0;
    snic_put_le64(h + 16, q[1] == SNIC_FILES_FSYNC ? 0 : 100);
    switch (f->kind) {
    case 0: /* right, so far */
        break;
    case 1:
        snic_put_le64(h + 8, snic_rng_next(&f->rng));
        break;
    case 2:
        h[1] ^= 1;
        break;
    case 3:
        v.size = 5000; /* more than asked */
        snic_put_le64(h + 16, v.size);
        break;
    case 4:
        snic_put_le64(h + 16, snic_rng_next(&f->rng));
        break;
    case 5:
        size = (uint32_t)snic_rng_below(&f->rng, 64);
        break;
    case 6: /* twice */
        (void)!snic_channel_down_push(c, 2, h, size, &v, 1);
        break;
    case 7:
        h[0] = 9;
        break;
    case 8:
        if (q[1] == SNIC_FILES_WRITE)
            snic_put_le64(h + 16, 99);
        break;
    case 9:
        memcpy(h + 8, f->first, 8);
        break;
    default:
        snic_rng_fill(&f->rng, h + snic_rng_below(&f->rng, 56), 8);
        v.size = snic_rng_below(&f->rng, 300);
        break;
    }
    (void)!snic_channel_down_push(c, 2, h, size, &v, 1);
    return 1;
}

static void fake_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)c;
    (void)reason;
    ((struct fake *)ctx)->closed++;
}

static struct fake fake;

static int fake_accept(void *ctx, struct snic_channel_hub *h,
                       const struct snic_channel_offer *offer)
{
    struct snic_channel_events e;
    (void)ctx;
    memset(&e, 0, sizeof(e));
    e.message = fake_message;
    e.closed = fake_closed;
    e.ctx = &fake;
    return snic_channel_accept(&fake.channel, h, offer, NULL, &e);
}

/* A link whose DPU end is a fake. */
static void fake_open(struct filelink *l)
{
    struct snic_channel_hub_opts ho;
    struct snic_dma_events none;
    size_t size;
    filefix_open(&l->fx);
    assert_int_equal(snic_world_loop(l->fx.world, 1, &l->host_loop), 0);
    memset(&none, 0, sizeof(none));
    assert_int_equal(
        snic_dma_local_open(&l->host_dma, l->host_loop, &none, &l->dpu_dma, l->fx.loop, &none), 0);
    memset(&ho, 0, sizeof(ho));
    ho.opts_size = sizeof(ho);
    ho.accept = fake_accept;
    size = snic_channel_hub_memsize(&ho);
    l->dpu_hub_mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_channel_hub_init(&l->dpu_hub, l->dpu_hub_mem, size, l->dpu_dma, &ho), 0);
    ho.accept = NULL;
    l->host_hub_mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_channel_hub_init(&l->host_hub, l->host_hub_mem, size, l->host_dma, &ho),
                     0);
    filelink_group_open(l);
}

static void fake_judge(unsigned kind, const struct snic_filelib_req *r)
{
    unsigned i;
    for (i = 0; kind == 0 && i < 8; i++)
        assert_int_equal(r[i].result, i % 4 == 3 ? 0 : 100);
    if ((kind >= 1 && kind <= 5) || kind == 7)
        assert_int_equal(r[0].result, SNIC_EPROTO);
    if (kind == 8)
        assert_int_equal(r[2].result, SNIC_EPROTO);
    for (i = 0; kind == 9 && i < 8; i++)
        assert_int_equal(r[i].result, i == 0 ? 100 : SNIC_EPROTO);
}

/* Whatever the DPU answers, each request completes once and nothing is written beyond buffers;
 * an answer that is not the request's is never taken for one. */
static void test_filelib_hostile_dpu_requests_end(void **state)
{
    static const uint8_t ops[] = {SNIC_FILES_READ, SNIC_FILES_READ, SNIC_FILES_WRITE,
                                  SNIC_FILES_FSYNC};
    unsigned kind;
    (void)state;
    for (kind = 0; kind < 60; kind++) {
        struct filelink l;
        struct snic_filelib_req r[8];
        struct snic_filelib_req *p[8];
        unsigned char *buf = support_guard_alloc(800, 1);
        unsigned i;
        memset(&fake, 0, sizeof(fake));
        snic_rng_init(&fake.rng, support_seed() + kind);
        fake.kind = kind;
        link_setup(&l, 0);
        l.open.depth = kind == 9 ? 1 : 0; /* the entry is used again */
        fake_open(&l);
        memset(r, 0, sizeof(r));
        responses = 0;
        for (i = 0; i < 8; i++) {
            r[i].op = ops[i % 4];
            r[i].length = i % 4 == 3 ? 0 : 100;
            r[i].buf.base = buf + i * 100;
            r[i].buf.size = 100;
            r[i].done = count_done;
            p[i] = &r[i];
        }
        snic_filelib_submit(l.group, p, 8);
        (void)snic_world_run(l.fx.world, snic_world_now(l.fx.world) + 1000000000, UINT64_MAX);
        filelink_group_close(&l);
        assert_int_equal(responses, 8);
        fake_judge(kind, r);
        (void)snic_world_run(l.fx.world, snic_world_now(l.fx.world) + 1000000000, UINT64_MAX);
        snic_channel_close(fake.channel);
        filelink_disconnect(&l);
        snic_loop_close(l.host_loop);
        filefix_close(&l.fx);
        support_guard_free(buf);
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
        cmocka_unit_test(test_filelib_every_operation_carried_out),
        cmocka_unit_test(test_filelib_long_request_in_parts_whole),
        cmocka_unit_test(test_filelib_file_read_and_written_by_handle),
        cmocka_unit_test(test_filelib_hooks_called_in_order),
        cmocka_unit_test(test_filelib_request_invalid_refused),
        cmocka_unit_test(test_filelib_memory_exact),
        cmocka_unit_test(test_filelib_read_lent_not_copied),
        cmocka_unit_test(test_filelib_rings_full_all_completed),
        cmocka_unit_test(test_filelib_dpu_dies_requests_end_and_reissued),
        cmocka_unit_test(test_filelib_host_dies_service_goes_on),
        cmocka_unit_test(test_filelib_host_sizes_wrong_refused),
        cmocka_unit_test(test_filelib_hostile_host_service_lives),
        cmocka_unit_test(test_filelib_hostile_dpu_requests_end),
        cmocka_unit_test(test_filelib_ring_full_small_does_not_overtake),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
