/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The synchronous calls: each with its errors in simulated worlds, on the owner's thread; then by
 * threads on io_uring, beside the one that runs both loops.
 */
#include "snicstore/filelib_sync.h"

#include "filelinks.h"
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- One thread, simulated ---- */

static void sync_open(struct filelink *l, struct snic_filelib_sync *s)
{
    link_setup(l, 0);
    filelink_open(l);
    assert_int_equal(snic_filelib_sync_init(s, l->group, ~1u), SNIC_EINVAL);
    assert_int_equal(snic_filelib_sync_init(s, l->group, SNIC_FILELIB_SYNC_OWNER), 0);
}

/** Without it an engine would read other bytes or another size than it wrote. */
static void test_filelib_sync_calls_take_effect(void **state)
{
    struct filelink l;
    struct snic_filelib_sync s;
    struct snic_filelib_handle h, again;
    unsigned char out[9000], in[9000];
    uint64_t size = 0;
    uint32_t kind = 0;
    (void)state;
    sync_open(&l, &s);
    fill(out, sizeof(out), 3);
    assert_int_equal(snic_filelib_openat(&s, &h, 0, "a", 0), SNIC_ENOENT);
    assert_int_equal(snic_filelib_openat(&s, &h, 0, "a", SNIC_FILELIB_EXCLUSIVE), SNIC_EINVAL);
    assert_int_equal(snic_filelib_openat(&s, &h, 0, "a", SNIC_FILELIB_CREATE), 0);
    assert_int_equal(
        snic_filelib_openat(&s, &again, 0, "a", SNIC_FILELIB_CREATE | SNIC_FILELIB_EXCLUSIVE),
        SNIC_EEXIST);
    assert_int_equal(snic_filelib_openat(&s, &again, 0, "a", SNIC_FILELIB_CREATE), 0);
    assert_int_equal(again.id, h.id);
    assert_int_equal(snic_filelib_pwrite(&h, out, sizeof(out), 100, 0), sizeof(out));
    assert_int_equal(snic_filelib_pwrite(&h, out, 0, 100, 0), 0);
    assert_int_equal(snic_filelib_size(&again, &size), 0);
    assert_int_equal(size, 9100);
    assert_int_equal(snic_filelib_pread(&again, in, sizeof(in), 100), sizeof(in));
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(snic_filelib_pread(&again, in, sizeof(in), 9000), 100);
    assert_int_equal(snic_filelib_pread(&again, in, sizeof(in), 9100), 0);
    assert_int_equal(snic_filelib_fsync(&h), 0);
    assert_int_equal(snic_filelib_truncate(&h, 50), 0);
    assert_int_equal(snic_filelib_access(&s, 0, "a", &size, &kind), 0);
    assert_int_equal(size, 50);
    assert_int_equal(kind, SNIC_FILES_FILE);
    assert_int_equal(snic_filelib_rename(&s, 0, "a", 0, "b"), 0);
    assert_int_equal(snic_filelib_access(&s, 0, "a", NULL, NULL), SNIC_ENOENT);
    assert_int_equal(snic_filelib_delete(&s, 0, "b"), 0);
    assert_int_equal(snic_filelib_delete(&s, 0, "b"), SNIC_ENOENT);
    assert_int_equal(snic_filelib_pread(&h, in, 1, 0), SNIC_ENOENT);
    filelink_close(&l);
}

/** Without it a directory would be opened as a file, or entries would be missing from a list. */
static void test_filelib_sync_directories_listed(void **state)
{
    struct filelink l;
    struct snic_filelib_sync s;
    struct snic_filelib_handle h;
    struct snic_files_entry e;
    char name[SNIC_FILES_NAME_MAX + 2], buf[100];
    uint64_t dir, cursor = 0;
    uint32_t seen = 0;
    (void)state;
    sync_open(&l, &s);
    assert_int_equal(snic_filelib_opendir(&s, &dir, "d", 0), SNIC_ENOENT);
    assert_int_equal(snic_filelib_opendir(&s, &dir, "d", 1), 0);
    assert_int_equal(snic_filelib_opendir(&s, &cursor, "d", 0), 0);
    assert_int_equal(cursor, dir);
    assert_int_equal(snic_filelib_openat(&s, &h, 0, "d", SNIC_FILELIB_CREATE), SNIC_EISDIR);
    for (uint32_t i = 0; i < 9; i++) {
        (void)snprintf(name, sizeof(name), "file %u", i);
        assert_int_equal(snic_filelib_openat(&s, &h, dir, name, SNIC_FILELIB_CREATE), 0);
    }
    cursor = 0;
    for (int64_t n; (n = snic_filelib_readdir(&s, dir, &cursor, buf, sizeof(buf))) != 0;) {
        assert_true(n > 0);
        for (size_t pos = 0; snic_files_entry_next(buf, (size_t)n, &pos, &e) == 1;)
            seen |= 1u << (e.name[5] - '0');
    }
    assert_int_equal(seen, 0x1ff);
    cursor = 0;
    assert_int_equal(snic_filelib_readdir(&s, dir, &cursor, buf, 8), SNIC_EMSGSIZE);
    memset(name, 'n', sizeof(name));
    name[SNIC_FILES_NAME_MAX + 1] = 0;
    assert_int_equal(snic_filelib_openat(&s, &h, 0, name, SNIC_FILELIB_CREATE), SNIC_ENAMETOOLONG);
    assert_int_equal(snic_filelib_rename(&s, dir, "file 1", dir, name), SNIC_ENAMETOOLONG);
    assert_int_equal(snic_filelib_delete(&s, 0, name), SNIC_ENAMETOOLONG);
    name[SNIC_FILES_NAME_MAX] = 0;
    assert_int_equal(snic_filelib_openat(&s, &h, 0, name, SNIC_FILELIB_CREATE), 0);
    assert_int_equal(snic_filelib_delete(&s, 0, ""), SNIC_EINVAL);
    assert_int_equal(snic_filelib_opendir(&s, &dir, name, 1), SNIC_ENOTDIR);
    filelink_close(&l);
}

/** Without it an engine would wait for ever, or believe a write that no device has. */
static void test_filelib_sync_service_gone_calls_fail(void **state)
{
    struct filelink l;
    struct snic_filelib_sync s;
    struct snic_filelib_handle h;
    char byte = 0;
    (void)state;
    sync_open(&l, &s);
    assert_int_equal(snic_filelib_openat(&s, &h, 0, "a", SNIC_FILELIB_CREATE), 0);
    filelink_server_close(&l);
    assert_true(snic_filelib_pwrite(&h, &byte, 1, 0, 0) < 0);
    assert_true(snic_filelib_fsync(&h) < 0);
    assert_true(snic_filelib_access(&s, 0, "a", NULL, NULL) < 0);
    filelink_close(&l);
}

/* ---- Threads, on io_uring ---- */

#define SYNC_THREADS 4u
#define SYNC_BYTES 6000u

struct pair {
    struct snic_loop *loop[2]; /* of the host, of the DPU */
    struct snic_io *io;
    struct snic_files *files;
    struct snic_channel_hub *hub[2];
    struct snic_files_server *server;
    struct snic_filelib *group;
    struct snic_filelib_sync sync;
    void *mem[5];
    atomic_uint running;
    uint32_t bad[SYNC_THREADS];
    uint32_t rounds;
};

static void *pair_memory(struct pair *p, unsigned i, size_t size)
{
    assert_true(size != 0);
    p->mem[i] = aligned_alloc(SNIC_FILES_ALIGN, snic_align_up(size, SNIC_FILES_ALIGN));
    assert_non_null(p->mem[i]);
    return p->mem[i];
}

static int pair_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *of)
{
    struct pair *p = ctx;
    struct snic_files_server_opts o = {.opts_size = sizeof(o)};
    size_t size = snic_files_server_memsize(&o);
    return snic_files_serve(&p->server, pair_memory(p, 3, size), size, p->files, h, of, &o);
}

static void pair_files(struct pair *p)
{
    struct snic_files_format_opts fo = {.opts_size = sizeof(fo), .segment_bytes = 65536};
    struct snic_io_uring_opts io = {.opts_size = sizeof(io), .size = 16u << 20};
    struct snic_files_info info;
    char path[256];
    size_t size;
    support_tmpname(path, sizeof(path), "sync");
    io.path = path;
    io.flags = SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_TRY_DIRECT;
    assert_int_equal(snic_io_uring_open(&p->io, p->loop[1], &io, NULL), 0);
    (void)unlink(path);
    assert_int_equal(snic_files_format(p->io, &fo), 0);
    assert_int_equal(snic_files_probe(p->io, &info), 0);
    size = snic_files_memsize(&info, NULL);
    assert_int_equal(snic_files_mount(&p->files, pair_memory(p, 0, size), size, p->io, NULL), 0);
}

static void pair_open(struct pair *p)
{
    struct snic_channel_hub_opts ho = {.opts_size = sizeof(ho), .accept = pair_accept, .ctx = p};
    struct snic_filelib_opts o = {.opts_size = sizeof(o), .threads = SYNC_THREADS};
    struct snic_dma_events none = {0};
    struct snic_dma *dma[2];
    size_t size = snic_channel_hub_memsize(&ho);
    memset(p, 0, sizeof(*p));
    for (unsigned i = 0; i < 2; i++) {
        int rc = snic_loop_uring_open(&p->loop[i], NULL);
        if (rc == SNIC_ENOTSUP || rc == SNIC_EACCES)
            support_skip("no io_uring");
        assert_int_equal(rc, 0);
    }
    pair_files(p);
    assert_int_equal(snic_dma_local_open(&dma[0], p->loop[0], &none, &dma[1], p->loop[1], &none),
                     0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(
            snic_channel_hub_init(&p->hub[i], pair_memory(p, 1 + i, size), size, dma[i], &ho), 0);
    size = snic_filelib_memsize(&o);
    assert_int_equal(snic_filelib_open(&p->group, pair_memory(p, 4, size), size, p->hub[0], &o), 0);
    assert_int_equal(snic_filelib_sync_init(&p->sync, p->group, 0), 0);
}

static void pair_close(struct pair *p)
{
    if (p->group != NULL)
        (void)snic_filelib_close(p->group);
    (void)snic_files_server_close(p->server);
    (void)snic_channel_hub_fini(p->hub[0]);
    (void)snic_channel_hub_fini(p->hub[1]);
    assert_int_equal(snic_files_check(p->files), 0);
    assert_int_equal(snic_files_unmount(p->files), 0);
    snic_io_close(p->io);
    snic_loop_close(p->loop[0]);
    snic_loop_close(p->loop[1]);
    for (unsigned i = 0; i < SNIC_COUNTOF(p->mem); i++)
        free(p->mem[i]);
}

struct sync_worker {
    struct pair *p;
    uint32_t index;
};

/* Each thread has a file of its own; what it wrote it reads, and the size is what it wrote. */
static void *sync_worker(void *arg)
{
    struct sync_worker *w = arg;
    struct pair *p = w->p;
    struct snic_filelib_handle h;
    unsigned char out[SYNC_BYTES], in[SYNC_BYTES];
    uint32_t bad = 0;
    char name[] = "file 0";
    name[5] = (char)('0' + w->index);
    bad += snic_filelib_openat(&p->sync, &h, 0, name, SNIC_FILELIB_CREATE) != 0;
    for (uint32_t i = 0; bad == 0 && i < p->rounds; i++) {
        uint64_t size = 0, at = (uint64_t)i * 1000;
        fill(out, sizeof(out), w->index * 31 + i);
        bad += snic_filelib_pwrite(&h, out, sizeof(out), at, i % 8 == 0 ? SNIC_FILES_SYNC : 0) !=
               (int64_t)sizeof(out);
        bad += snic_filelib_size(&h, &size) != 0 || size != at + sizeof(out);
        bad += snic_filelib_pread(&h, in, sizeof(in), at) != (int64_t)sizeof(in);
        bad += memcmp(in, out, sizeof(in)) != 0;
        bad += i % 8 == 1 && snic_filelib_fsync(&h) != 0;
    }
    p->bad[w->index] = bad;
    (void)atomic_fetch_sub(&p->running, 1);
    return NULL;
}

/* Run the loops until the threads are done. */
static void pair_run(struct pair *p)
{
    struct sync_worker w[SYNC_THREADS];
    pthread_t t[SYNC_THREADS];
    atomic_store(&p->running, SYNC_THREADS);
    for (uint32_t i = 0; i < SYNC_THREADS; i++) {
        w[i] = (struct sync_worker){p, i};
        assert_int_equal(pthread_create(&t[i], NULL, sync_worker, &w[i]), 0);
    }
    while (atomic_load(&p->running) > 0) {
        assert_true(snic_loop_once(p->loop[1], 0) >= 0);
        assert_true(snic_loop_once(p->loop[0], 0) >= 0);
        (void)sched_yield();
    }
    for (uint32_t i = 0; i < SYNC_THREADS; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
}

/** Without it a thread would sleep for ever, or wake before its bytes are there. */
static void test_filelib_sync_threads_read_what_they_wrote(void **state)
{
    static struct pair p;
    (void)state;
    pair_open(&p);
    p.rounds = (uint32_t)support_scale(60, 2000);
    pair_run(&p);
    for (uint32_t i = 0; i < SYNC_THREADS; i++)
        assert_int_equal(p.bad[i], 0);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_sync_calls_take_effect),
        cmocka_unit_test(test_filelib_sync_directories_listed),
        cmocka_unit_test(test_filelib_sync_service_gone_calls_fail),
        cmocka_unit_test(test_filelib_sync_threads_read_what_they_wrote),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
