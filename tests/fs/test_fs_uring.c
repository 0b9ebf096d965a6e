/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The service on a real loop: the program of its header, and requests posted by many threads. */
#include "support.h"

#include "snicstore/fs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t wall(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct snic_loop *open_loop(void)
{
    struct snic_loop *loop;
    int rc = snic_loop_uring_open(&loop, NULL);
    if (rc != 0)
        support_skip("no io_uring here");
    return loop;
}

/* The ten lines of the header, as they stand there. */
static void test_fs_uring_header_program_runs(void **state)
{
    struct snic_kvmem_opts m = {.opts_size = sizeof(m)};
    struct snic_loop *loop = open_loop();
    const uint64_t random = 4711;
    struct snic_kvmem *medium;
    struct snic_kv *kv;
    char buffer[16];
    int64_t got;
    (void)state;
    assert_int_equal(snic_kvmem_open(&medium, &m), 0);
    assert_int_equal(snic_kv_mem_open(&kv, loop, medium), 0);

    struct snic_fs *fs;
    struct snic_fs_opts o = {.opts_size = sizeof(o), .wall = wall, .session_id = random};
    int rc = snic_fs_init(&fs, malloc(snic_fs_memsize(&o)), snic_fs_memsize(&o), loop, kv, &o);
    assert_int_equal(rc, 0);
    rc = snic_fs_mkfs(fs, NULL);
    assert_int_equal(rc, 0);
    rc = snic_fs_mount(fs);
    assert_int_equal(rc, 0);
    rc = snic_fs_put(fs, "/hello", "world", 5, 0644);
    assert_int_equal(rc, 0);
    got = snic_fs_get(fs, "/hello", buffer, sizeof(buffer));
    assert_int_equal(got, 5);
    assert_memory_equal(buffer, "world", 5);
    rc = snic_fs_unmount(fs);
    assert_int_equal(rc, 0);

    free(snic_fs_fini(fs));
    snic_kv_close(kv);
    snic_kvmem_close(medium);
    snic_loop_close(loop);
}

enum { THREADS = 4, EACH = 500 };

struct post {
    struct snic_fs_req r;
    char name[24];
    int done_count;
};

struct crowd {
    struct snic_kv *kv;
    struct snic_loop *loop;
    struct post *posts;
    _Atomic(struct snic_fs *) fs; /* NULL: not mounted yet */
    unsigned done_count;
    int rc;
};

static struct crowd *crowd_now;

static void crowd_done(struct snic_fs_req *r)
{
    struct post *p = SNIC_CONTAINER(r, struct post, r);
    p->done_count++;
    crowd_now->done_count++;
}

/* The loop belongs to the thread that first runs it. */
static void crowd_own(struct crowd *c)
{
    struct snic_fs_opts o = {
        .opts_size = sizeof(o), .wall = wall, .session_id = 5, .requests_max = 64};
    size_t size = snic_fs_memsize(&o);
    struct snic_fs *fs;
    c->rc = snic_fs_init(&fs, malloc(size), size, c->loop, c->kv, &o);
    if (c->rc == 0)
        c->rc = snic_fs_mkfs(fs, NULL);
    if (c->rc == 0)
        c->rc = snic_fs_mount(fs);
    atomic_store(&c->fs, fs);
    while (c->done_count < THREADS * EACH)
        (void)snic_loop_once(c->loop, SNIC_NEVER);
    if (c->rc == 0)
        c->rc = snic_fs_unmount(fs);
    free(snic_fs_fini(fs));
    snic_kv_close(c->kv);
}

static void crowd_run(void *ctx, unsigned index)
{
    struct crowd *c = ctx;
    struct snic_fs *fs;
    if (index == 0) {
        crowd_own(c);
        return;
    }
    while ((fs = atomic_load(&c->fs)) == NULL)
        ;
    for (unsigned i = 0; i < EACH; i++) {
        struct post *p = &c->posts[(index - 1) * EACH + i];
        (void)snprintf(p->name, sizeof(p->name), "t%u.%u", index, i);
        p->r.done = crowd_done;
        p->r.op.kind = SNIC_FSOP_MKDIR;
        p->r.op.ino = SNIC_FSOP_ROOT;
        p->r.op.mode = 0700;
        p->r.op.name = p->name;
        p->r.op.name_size = (uint32_t)strlen(p->name);
        snic_fs_post(fs, &p->r);
    }
}

static void test_fs_uring_posted_by_threads_each_done_once(void **state)
{
    struct snic_kvmem_opts m = {.opts_size = sizeof(m)};
    struct crowd c = {.posts = calloc(THREADS * EACH, sizeof(*c.posts))};
    struct snic_kvmem *medium;
    (void)state;
    assert_non_null(c.posts);
    c.loop = open_loop();
    assert_int_equal(snic_kvmem_open(&medium, &m), 0);
    assert_int_equal(snic_kv_mem_open(&c.kv, c.loop, medium), 0);
    crowd_now = &c;
    support_threads(THREADS + 1, crowd_run, &c);
    assert_int_equal(c.rc, 0);
    for (unsigned i = 0; i < THREADS * EACH; i++) {
        assert_int_equal(c.posts[i].done_count, 1);
        assert_int_equal(c.posts[i].r.op.result, 0);
    }
    snic_kvmem_close(medium);
    snic_loop_close(c.loop);
    free(c.posts);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fs_uring_header_program_runs),
        cmocka_unit_test(test_fs_uring_posted_by_threads_each_done_once),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
