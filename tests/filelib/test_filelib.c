/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file library over a channel in simulated worlds: every operation, limits, many requests,
 * and the end of either side.
 */
#include "filelib/filelib_priv.h"
#include "filelinks.h"
#include "support.h"

#include <stdio.h>

static int responses;

static void count_done(struct snic_filelib_req *r)
{
    (void)r;
    responses++;
}

/* Every operation does over the channel what it does on the service. */
/** A service whose files and hub are of two loops cannot be: two threads would run it. */
static void test_filelib_service_of_other_loop_refused(void **state)
{
    struct snic_channel_offer offer = {.kind = SNIC_FILES_CHANNEL_KIND, .record_max = 65536};
    struct snic_files_server_opts o = {.opts_size = sizeof(o)};
    struct snic_files_server *s = NULL;
    struct filelink l;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    size_t size = snic_files_server_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_files_serve(&s, mem, size, l.fx.files, l.host_hub, &offer, &o),
                     SNIC_EINVAL);
    assert_null(s);
    support_guard_free(mem);
    filelink_close(&l);
}

/** The host hears which alignment the service's device wants, whatever its own is. */
static void test_filelib_device_alignment_reported(void **state)
{
    unsigned char buf[8192];
    (void)state;
    memset(buf, 3, sizeof(buf));
    for (unsigned kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        for (uint32_t align = 8; align <= 4096; align *= 512) {
            struct snic_filelib_stats st;
            struct snic_files_stats fs;
            struct filelink l;
            uint64_t a;
            link_setup(&l, kind);
            l.fx.disk_opts.align = 512;
            l.open.payload_align = align;
            filelink_open(&l);
            assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
            snic_filelib_get_stats(l.group, &st);
            assert_int_equal(st.device_align, 512);
            assert_int_equal(st.payload_align, align);
            assert_int_equal(filelink_write(l.group, a, 0, buf, sizeof(buf), 0), sizeof(buf));
            snic_files_get_stats(l.fx.files, &fs);
            assert_int_equal(fs.bounced > 0, align < st.device_align);
            filelink_close(&l);
        }
    }
}

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
    r.count = 1;
    refused(l.group, &r, SNIC_ENOTSUP); /* it fits; the service has no hook */
    r.key_size = 4097;
    refused(l.group, &r, SNIC_EINVAL);
    r.key_size = 40960;
    refused(l.group, &r, SNIC_EINVAL);
    r.op = SNIC_FILELIB_CACHE;
    r.key_size = 8;
    r.items = buf;
    r.item_size = 4096;
    refused(l.group, &r, SNIC_ENOTSUP);
    r.item_size = 4097;
    refused(l.group, &r, SNIC_EINVAL);
    r.item_size = 40960;
    refused(l.group, &r, SNIC_EINVAL);
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
    o.depth = 65536;
    assert_true(snic_filelib_memsize(&o) != 0);
    o.depth = 65537;
    assert_int_equal(snic_filelib_memsize(&o), 0);
    o.depth = 655360;
    assert_int_equal(snic_filelib_memsize(&o), 0);
    struct snic_files_server_opts so = {.opts_size = sizeof(so), .depth = 65536};
    assert_true(snic_files_server_memsize(&so) != 0);
    so.depth = 65537;
    assert_int_equal(snic_files_server_memsize(&so), 0);
    so.depth = 655360;
    assert_int_equal(snic_files_server_memsize(&so), 0);
    o.depth = 0;
    o.threads = 1025;
    assert_int_equal(snic_filelib_memsize(&o), 0);
    o.threads = 0;
    size = snic_filelib_memsize(&o);
    mem = support_guard_alloc(size, SNIC_FILELIB_ALIGN);
    assert_int_equal(snic_filelib_open(&g, mem, size - 1, l.host_hub, &o), SNIC_ENOSPC);
    assert_int_equal(snic_filelib_open(&g, mem + 8, size - 8, l.host_hub, &o), SNIC_EINVAL);
    support_guard_free(mem);
    filelink_close(&l);
}

/* The largest message is the caller's choice up to what the rings take, never beyond. */
static void test_filelib_record_max_chosen_and_bounded(void **state)
{
    struct filelink l;
    struct snic_filelib_opts o;
    struct snic_filelib *g;
    uint32_t most;
    uint32_t i;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    most = snic_filelib_max(l.group);
    for (i = 0; i < 4; i++) {
        size_t size;
        unsigned char *mem;
        memset(&o, 0, sizeof(o));
        o.opts_size = sizeof(o);
        o.id = 1;
        o.up_bytes = 65536;
        o.down_bytes = 65536;
        o.payload_align = 8;
        o.record_max = i == 0 ? 8 : i == 1 ? 1000 : i == 2 ? 65536 : 655360;
        size = snic_filelib_memsize(&o);
        mem = support_guard_alloc(size, SNIC_FILELIB_ALIGN);
        if (i != 1) { /* no room for a request's header; more than the rings take */
            assert_int_equal(snic_filelib_open(&g, mem, size, l.host_hub, &o), SNIC_EINVAL);
        } else {
            assert_int_equal(snic_filelib_open(&g, mem, size, l.host_hub, &o), 0);
            assert_true(snic_filelib_max(g) > 0 && snic_filelib_max(g) < 1000);
            (void)snic_filelib_close(g);
        }
        support_guard_free(mem);
    }
    assert_int_equal(snic_filelib_max(l.group), most);
    assert_int_equal(snic_filelib_state(l.group), 0);
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

/** Up to opts.threads threads submit at the same time; one more is counted, and its requests go
 * through the owner's loop. */
static void test_filelib_threads_at_once(void **state)
{
    struct snic_channel_sender *others[39];
    struct snic_filelib_stats st;
    struct filelink l;
    uint64_t a;
    (void)state;
    link_setup(&l, 0);
    l.open.threads = 40;
    filelink_open(&l);
    for (unsigned i = 0; i < 39; i++) {
        others[i] = snic_channel_borrow(l.group->channel);
        assert_non_null(others[i]);
    }
    assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
    snic_filelib_get_stats(l.group, &st);
    assert_int_equal(st.crowded, 0);
    struct snic_channel_sender *last = snic_channel_borrow(l.group->channel);
    assert_non_null(last);
    assert_int_equal(filelink_write(l.group, a, 0, "bytes", 5, 0), 5);
    snic_filelib_get_stats(l.group, &st);
    assert_int_equal(st.crowded, 1);
    snic_channel_give_back(last);
    for (unsigned i = 0; i < 39; i++)
        snic_channel_give_back(others[i]);
    assert_int_equal(filelink_write(l.group, a, 5, "bytes", 5, 0), 5);
    snic_filelib_get_stats(l.group, &st);
    assert_int_equal(st.crowded, 1);
    filelink_close(&l);
}

/** A refusal names the wrong option, and only that one. */
static void test_filelib_wrong_option_is_named(void **state)
{
    (void)state;
    {
        struct snic_filelib_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_filelib_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_filelib_opts bad = good;                                                       \
        bad.field = value;                                                                         \
        support_names(snic_filelib_opts_wrong(&bad), name);                                        \
        assert_int_equal(snic_filelib_memsize(&bad), 0);                                           \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(depth, 65537, "depth");
        WRONG(tenants, 4097, "tenants");
        WRONG(threads, 1025, "threads");
        WRONG(channel_flags, 1u << 3, "channel_flags");
        WRONG(up_bytes, 5000, "up_bytes");
        WRONG(down_bytes, 1000, "down_bytes");
        WRONG(payload_align, 7, "payload_align");
        WRONG(record_max, 8u << 20, "record_max");
#undef WRONG
    }
    {
        struct snic_files_server_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_files_server_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_files_server_opts bad = good;                                                  \
        bad.field = value;                                                                         \
        support_names(snic_files_server_opts_wrong(&bad), name);                                   \
        assert_int_equal(snic_files_server_memsize(&bad), 0);                                      \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(depth, 65537, "depth");
        WRONG(flags, 1, "flags");
#undef WRONG
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_every_operation_carried_out),
        cmocka_unit_test(test_filelib_service_of_other_loop_refused),
        cmocka_unit_test(test_filelib_device_alignment_reported),
        cmocka_unit_test(test_filelib_wrong_option_is_named),
        cmocka_unit_test(test_filelib_long_request_in_parts_whole),
        cmocka_unit_test(test_filelib_file_read_and_written_by_handle),
        cmocka_unit_test(test_filelib_request_invalid_refused),
        cmocka_unit_test(test_filelib_memory_exact),
        cmocka_unit_test(test_filelib_record_max_chosen_and_bounded),
        cmocka_unit_test(test_filelib_read_lent_not_copied),
        cmocka_unit_test(test_filelib_rings_full_all_completed),
        cmocka_unit_test(test_filelib_threads_at_once),
        cmocka_unit_test(test_filelib_dpu_dies_requests_end_and_reissued),
        cmocka_unit_test(test_filelib_host_dies_service_goes_on),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
