/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Real files through nvme-fs: host, queue pair, simulated dma, DPU, kvfs, the store in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "snicstore/fsdispatch.h"
#include "support.h"

struct rig {
    struct snic_world *w;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct snic_nvmefslink_host *host;
    struct snic_nvmefslink_queue *q[2];
    struct snic_nvmefslink_dpu *dpu;
    struct snic_fsdispatch *s;
    struct snic_kvmem *medium;
    struct snic_kv *kv;
    struct snic_fs *fs;
    void *mem[4];
    uint32_t done;
    uint32_t closed;
};

static int64_t wall(void *ctx)
{
    struct rig *g = ctx;
    return 1700000000000000000 + (int64_t)snic_loop_now(g->loop[1]);
}

static void rig_done(void *ctx, struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
{
    struct rig *g = ctx;
    (void)q;
    g->done++;
    req->op.ctx = NULL;
}

static void rig_closed(void *ctx, struct snic_nvmefslink_queue *q, int reason)
{
    struct rig *g = ctx;
    assert_int_equal(reason, 0);
    g->closed++;
    snic_nvmefslink_close(q);
}

static void rig_fs(struct rig *g)
{
    struct snic_kvmem_opts m = {.opts_size = sizeof(m),
                                .seed = support_seed(),
                                .delay_min_ns = 1000,
                                .delay_max_ns = 10000};
    struct snic_fs_opts o = {
        .opts_size = sizeof(struct snic_fs_opts), .wall = wall, .ctx = g, .session_id = 77};
    assert_int_equal(snic_kvmem_open(&g->medium, &m), 0);
    assert_int_equal(snic_kv_mem_open(&g->kv, g->loop[1], g->medium), 0);
    size_t size = snic_fs_memsize(&o);
    g->mem[0] = support_guard_alloc(size, 16);
    assert_int_equal(snic_fs_init(&g->fs, g->mem[0], size, g->loop[1], g->kv, &o), 0);
    assert_int_equal(snic_fs_mkfs(g->fs, NULL), 0);
    assert_int_equal(snic_fs_mount(g->fs), 0);
}

static void rig_open(struct rig *g)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = support_seed()};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so)};
    memset(g, 0, sizeof(*g));
    assert_int_equal(snic_world_open(&g->w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(g->w, i, &g->loop[i]), 0);
    assert_int_equal(
        snic_dma_sim_open(&g->d[0], g->loop[0], &none, &g->d[1], g->loop[1], &none, &so), 0);
    rig_fs(g);
    struct snic_fsdispatch_opts fo = {.opts_size = sizeof(fo), .commands = 2 * 32};
    size_t size = snic_fsdispatch_memsize(&fo);
    g->mem[1] = support_guard_alloc(size, 16);
    assert_int_equal(snic_fsdispatch_init(&g->s, g->mem[1], size - 1, g->fs, &fo), SNIC_ENOSPC);
    assert_int_equal(snic_fsdispatch_init(&g->s, g->mem[1], size, g->fs, &fo), 0);
    struct snic_nvmefslink_dpu_opts po = {
        .opts_size = sizeof(po),
        .engine = {.opts_size = sizeof(po.engine), .queues_max = 2, .depth_max = 32, .chunks = 64},
        .request = snic_fsdispatch_request,
        .cancel = snic_fsdispatch_cancel,
        .ctx = g->s};
    size = snic_nvmefslink_dpu_memsize(&po);
    g->mem[2] = support_guard_alloc(size, SNIC_NVMEFS_ALIGN);
    assert_int_equal(snic_nvmefslink_dpu_init(&g->dpu, g->mem[2], size, g->d[1], &po), 0);
    struct snic_nvmefslink_host_opts ho = {.opts_size = sizeof(ho), .queues_max = 2};
    size = snic_nvmefslink_host_memsize(&ho);
    g->mem[3] = support_guard_alloc(size, 16);
    assert_int_equal(snic_nvmefslink_host_init(&g->host, g->mem[3], size, g->d[0], &ho), 0);
    struct snic_nvmefslink_queue_opts qo = {
        .opts_size = sizeof(qo), .depth = 32, .data_bytes = 1 << 20};
    struct snic_nvmefslink_events e = {NULL, rig_done, NULL, rig_closed, g};
    for (int i = 0; i < 2; i++)
        assert_int_equal(snic_nvmefslink_open(&g->q[i], g->host, &qo, &e), 0);
}

static void rig_close(struct rig *g)
{
    for (int i = 0; i < 2; i++)
        snic_nvmefslink_end(g->q[i]);
    for (int i = 0; i < 10000000 && g->closed < 2; i++)
        (void)snic_world_step(g->w);
    assert_int_equal(g->closed, 2);
    assert_int_equal(snic_fsdispatch_in_flight(g->s), 0);
    support_guard_free(snic_nvmefslink_dpu_fini(g->dpu));
    support_guard_free(snic_nvmefslink_host_fini(g->host));
    support_guard_free(snic_fsdispatch_fini(g->s));
    assert_int_equal(snic_fs_unmount(g->fs), 0);
    support_guard_free(snic_fs_fini(g->fs));
    snic_kv_close(g->kv);
    snic_kvmem_close(g->medium);
    snic_dma_close(g->d[0]);
    snic_dma_close(g->d[1]);
    for (int i = 0; i < 2; i++)
        snic_loop_close(g->loop[i]);
    snic_world_close(g->w);
}

/** Submit and wait. */
static int64_t call(struct rig *g, struct snic_nvmefs_req *r)
{
    r->op.ctx = r;
    r->op.flags |= r->op.kind == SNIC_FSOP_FORGET ? 0 : SNIC_FSOP_CHECKED;
    int e = snic_nvmefslink_submit(g->q[r->op.ino % 2], r);
    if (e != 0)
        return e;
    for (int i = 0; i < 10000000 && r->op.ctx != NULL; i++)
        (void)snic_world_step(g->w);
    assert_null(r->op.ctx);
    return r->op.result;
}

#define REQ(...) ((struct snic_nvmefs_req){.op = {__VA_ARGS__}})
#define DATA(p, n) .iov = &(struct snic_iov){(p), (n)}, .iov_count = 1
#define NAME(s) .name = (s), .name_size = (uint32_t)strlen(s)
#define NAME2(s) .name2 = (s), .name2_size = (uint32_t)strlen(s)

static unsigned char bytes[2][1 << 20];

static void test_fsdispatch_files_end_to_end(void **state)
{
    struct rig g;
    (void)state;
    rig_open(&g);
    struct snic_nvmefs_req d = REQ(.kind = SNIC_FSOP_MKDIR, .ino = 1, NAME("dir"), .mode = 0755);
    assert_int_equal(call(&g, &d), 0);
    uint64_t dir = d.op.attr.ino;
    assert_true(dir > 1 && S_ISDIR(d.op.attr.mode));
    struct snic_nvmefs_req f =
        REQ(.kind = SNIC_FSOP_CREATE, .ino = dir, NAME("file"), .mode = 0644, .cred.uid = 5,
            .cred.gid = 6, .flags = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE | SNIC_FSOP_EXCL);
    assert_int_equal(call(&g, &f), 0);
    assert_true(f.op.handle != 0 && f.op.attr.uid == 5 && f.op.attr.gid == 6);
    struct snic_nvmefs_req again = f;
    assert_int_equal(call(&g, &again), SNIC_EEXIST);
    /* 1 MiB there and back, and in small pieces. */
    for (size_t i = 0; i < sizeof(bytes[0]); i++)
        bytes[0][i] = (unsigned char)(i * 11 + (i >> 12));
    struct snic_nvmefs_req w = REQ(.kind = SNIC_FSOP_WRITE, .ino = f.op.attr.ino,
                                   .handle = f.op.handle, DATA(bytes[0], 1 << 20));
    assert_int_equal(call(&g, &w), 1 << 20);
    struct snic_nvmefs_req r = w;
    r.op.kind = SNIC_FSOP_READ;
    r.op.iov->base = bytes[1];
    assert_int_equal(call(&g, &r), 1 << 20);
    assert_memory_equal(bytes[0], bytes[1], 1 << 20);
    r.op.offset = (1 << 20) - 100;
    r.op.iov->size = 8192;
    assert_int_equal(call(&g, &r), 100);
    assert_int_equal(r.data_size, 100);
    assert_memory_equal(bytes[1], bytes[0] + (1 << 20) - 100, 100);
    struct snic_nvmefs_req a = REQ(.kind = SNIC_FSOP_GETATTR, .ino = f.op.attr.ino);
    assert_int_equal(call(&g, &a), 0);
    assert_int_equal(a.op.attr.size, 1 << 20);
    a = REQ(.kind = SNIC_FSOP_SETATTR, .ino = f.op.attr.ino, .set_mask = 1 | 8,
            .attr = {.mode = 0600, .size = 5000});
    assert_int_equal(call(&g, &a), 0);
    assert_true(a.op.attr.size == 5000 && (a.op.attr.mode & 07777) == 0600);
    struct snic_nvmefs_req k = REQ(.kind = SNIC_FSOP_SEEK, .ino = f.op.attr.ino,
                                   .handle = f.op.handle, .flags = SNIC_FSOP_SEEK_HOLE);
    assert_int_equal(call(&g, &k), 5000);
    struct snic_nvmefs_req fa = REQ(.kind = SNIC_FSOP_FALLOCATE, .ino = f.op.attr.ino,
                                    .handle = f.op.handle, .length = 9000);
    assert_int_equal(call(&g, &fa), 0);
    struct snic_nvmefs_req fs =
        REQ(.kind = SNIC_FSOP_FSYNC, .ino = f.op.attr.ino, .handle = f.op.handle);
    assert_int_equal(call(&g, &fs), 0);
    fs = REQ(.kind = SNIC_FSOP_FLUSH, .ino = f.op.attr.ino, .handle = f.op.handle);
    assert_int_equal(call(&g, &fs), 0);
    fs = REQ(.kind = SNIC_FSOP_RELEASE, .ino = f.op.attr.ino, .handle = f.op.handle);
    assert_int_equal(call(&g, &fs), 0);
    fs = REQ(.kind = SNIC_FSOP_FORGET, .ino = f.op.attr.ino, .length = 3);
    assert_int_equal(call(&g, &fs), 0);
    fs = REQ(.kind = SNIC_FSOP_SYNCFS, .ino = 1);
    assert_int_equal(call(&g, &fs), 0);
    fs = REQ(.kind = SNIC_FSOP_STATFS, .ino = 1);
    assert_int_equal(call(&g, &fs), 0);
    assert_true(fs.op.statfs.bytes > 0);
    rig_close(&g);
}

static uint32_t entries(int64_t size)
{
    uint32_t count = 0;
    for (int64_t at = 0; at < size; count++)
        at += ((struct snic_fsop_dirent *)(void *)(bytes[0] + at))->bytes;
    return count;
}

static void test_fsdispatch_names_links_and_xattrs(void **state)
{
    struct rig g;
    char text[64];
    static char target[4095];
    (void)state;
    rig_open(&g);
    struct snic_nvmefs_req q =
        REQ(.kind = SNIC_FSOP_MKNOD, .ino = 1, NAME("a"), .mode = S_IFREG | 0644);
    assert_int_equal(call(&g, &q), 0);
    uint64_t a = q.op.attr.ino;
    q = REQ(.kind = SNIC_FSOP_LINK, .ino = a, .ino2 = 1, NAME2("b"));
    assert_int_equal(call(&g, &q), 0);
    assert_int_equal(q.op.attr.nlink, 2);
    q = REQ(.kind = SNIC_FSOP_RENAME, .ino = 1, NAME("b"), .ino2 = 1, NAME2("a"),
            .flags = SNIC_FSOP_RENAME_NOREPLACE);
    assert_int_equal(call(&g, &q), SNIC_EEXIST);
    q = REQ(.kind = SNIC_FSOP_RENAME, .ino = 1, NAME("b"), .ino2 = 1, NAME2("c"));
    assert_int_equal(call(&g, &q), 0);
    q = REQ(.kind = SNIC_FSOP_LOOKUP, .ino = 1, NAME("c"));
    assert_int_equal(call(&g, &q), 0);
    assert_int_equal(q.op.attr.ino, a);
    q = REQ(.kind = SNIC_FSOP_LOOKUP, .ino = 1, NAME("b"));
    assert_int_equal(call(&g, &q), SNIC_ENOENT);
    memset(target, 't', sizeof(target));
    q = REQ(.kind = SNIC_FSOP_SYMLINK, .ino = 1, NAME("l"), DATA(target, 4095));
    assert_int_equal(call(&g, &q), 0);
    uint64_t l = q.op.attr.ino;
    q = REQ(.kind = SNIC_FSOP_READLINK, .ino = l, DATA(bytes[0], 8192));
    assert_int_equal(call(&g, &q), 4095);
    assert_memory_equal(bytes[0], target, 4095);
    q = REQ(.kind = SNIC_FSOP_SETXATTR, .ino = a, NAME("user.x"), DATA(target, 9));
    assert_int_equal(call(&g, &q), 0);
    q = REQ(.kind = SNIC_FSOP_SETXATTR, .ino = a, NAME("user.x"), DATA(target, 9),
            .flags = SNIC_FSOP_XATTR_CREATE);
    assert_int_equal(call(&g, &q), SNIC_EEXIST);
    q = REQ(.kind = SNIC_FSOP_GETXATTR, .ino = a, NAME("user.x"));
    assert_int_equal(call(&g, &q), 9);
    q = REQ(.kind = SNIC_FSOP_GETXATTR, .ino = a, NAME("user.x"), DATA(text, 64));
    assert_int_equal(call(&g, &q), 9);
    assert_memory_equal(text, target, 9);
    q = REQ(.kind = SNIC_FSOP_LISTXATTR, .ino = a, DATA(text, 64));
    assert_int_equal(call(&g, &q), 7);
    assert_string_equal(text, "user.x");
    q = REQ(.kind = SNIC_FSOP_REMOVEXATTR, .ino = a, NAME("user.x"));
    assert_int_equal(call(&g, &q), 0);
    q = REQ(.kind = SNIC_FSOP_ACCESS, .ino = a, .mode = 4);
    assert_int_equal(call(&g, &q), 0);
    q = REQ(.kind = SNIC_FSOP_OPENDIR, .ino = 1, .flags = SNIC_FSOP_OPEN_READ);
    assert_int_equal(call(&g, &q), 0);
    uint64_t h = q.op.handle;
    q = REQ(.kind = SNIC_FSOP_READDIR, .ino = 1, .handle = h, DATA(bytes[0], 8192),
            .flags = SNIC_FSOP_READDIR_PLUS);
    assert_true(call(&g, &q) > 0);
    assert_int_equal(entries(q.op.result), 5); /* . .. a c l */
    q = REQ(.kind = SNIC_FSOP_RELEASEDIR, .ino = 1, .handle = h);
    assert_int_equal(call(&g, &q), 0);
    q = REQ(.kind = SNIC_FSOP_RESOLVE, .ino = 1, NAME("/a"));
    assert_int_equal(call(&g, &q), 0);
    q = REQ(.kind = SNIC_FSOP_UNLINK, .ino = 1, NAME("a"));
    assert_int_equal(call(&g, &q), 0);
    q = REQ(.kind = SNIC_FSOP_RMDIR, .ino = 1, NAME("c"));
    assert_int_equal(call(&g, &q), SNIC_ENOTDIR);
    q = REQ(.kind = SNIC_FSOP_GETATTR, .ino = a);
    q.distributed = 1;
    assert_int_equal(call(&g, &q), SNIC_ENOTSUP);
    assert_int_equal(q.status, SNIC_NVMEFS_STATUS_NO_SERVICE);
    rig_close(&g);
}

/* A lock that waits is ended by an Abort, and one by the end of its queue. */
static void test_fsdispatch_waiting_locks_end(void **state)
{
    struct rig g;
    (void)state;
    rig_open(&g);
    struct snic_nvmefs_req f = REQ(.kind = SNIC_FSOP_CREATE, .ino = 1, NAME("f"), .mode = 0644,
                                   .flags = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE);
    assert_int_equal(call(&g, &f), 0);
    struct snic_nvmefs_req l =
        REQ(.kind = SNIC_FSOP_SETLK, .ino = f.op.attr.ino, .handle = f.op.handle,
            .lock = {1, 0, UINT64_MAX, SNIC_FSOP_WRLCK, 9});
    assert_int_equal(call(&g, &l), 0);
    struct snic_nvmefs_req t = l;
    t.op.kind = SNIC_FSOP_GETLK;
    t.op.lock.owner = 2;
    assert_int_equal(call(&g, &t), 0);
    assert_true(t.op.lock.type == SNIC_FSOP_WRLCK && t.op.lock.pid == 9);
    struct snic_nvmefs_req wait[2];
    for (int i = 0; i < 2; i++) {
        wait[i] = l;
        wait[i].op.flags = SNIC_FSOP_CHECKED | SNIC_FSOP_LOCK_WAIT;
        wait[i].op.lock.owner = 3 + (uint64_t)i;
        wait[i].op.ctx = &wait[i];
        assert_int_equal(snic_nvmefslink_submit(g.q[i], &wait[i]), 0);
    }
    (void)snic_world_run(g.w, snic_world_now(g.w) + 50000000, 100000);
    assert_non_null(wait[0].op.ctx);
    assert_int_equal(snic_nvmefslink_abort(g.q[0], &wait[0]), 0);
    (void)snic_world_run(g.w, snic_world_now(g.w) + 50000000, 100000);
    assert_null(wait[0].op.ctx);
    assert_int_equal(wait[0].op.result, SNIC_EINTR);
    assert_non_null(wait[1].op.ctx);
    rig_close(&g); /* waits for all of it */
    assert_null(wait[1].op.ctx);
    assert_int_equal(wait[1].op.result, SNIC_EUNKNOWN);
}

static void test_fsdispatch_bad_options_refused(void **state)
{
    (void)state;
    {
        struct snic_fsdispatch_opts good = {.opts_size = sizeof(good), .commands = 131072};
        assert_null(snic_fsdispatch_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_fsdispatch_opts bad = good;                                                    \
        bad.field = value;                                                                         \
        support_names(snic_fsdispatch_opts_wrong(&bad), name);                                     \
        assert_int_equal(snic_fsdispatch_memsize(&bad), 0);                                        \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(commands, 131073, "commands");
        WRONG(commands, 1310720, "commands");
        WRONG(commands, 0, "commands");
#undef WRONG
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fsdispatch_files_end_to_end),
        cmocka_unit_test(test_fsdispatch_bad_options_refused),
        cmocka_unit_test(test_fsdispatch_names_links_and_xattrs),
        cmocka_unit_test(test_fsdispatch_waiting_locks_end),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
