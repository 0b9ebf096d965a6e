/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One link for both, as a mount has it: names and attributes by nvme-fs, data through the hybrid
   cache, one file system behind them. */
#include "test_hcachelink_util.h"

#include "snicstore/fsdispatch.h"

enum { BELL = 40 };

struct both {
    struct rig g;
    struct snic_nvmefslink_host *host;
    struct snic_nvmefslink_queue *q;
    struct snic_nvmefslink_dpu *dpu;
    struct snic_fsdispatch *s;
    void *mem[3];
    int closed;
};

static unsigned char page[4 * RIG_PAGE];
static unsigned char out[4 * RIG_PAGE];

static void both_done(void *ctx, struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *req)
{
    (void)ctx;
    (void)q;
    req->op.ctx = NULL;
}

static void both_closed(void *ctx, struct snic_nvmefslink_queue *q, int reason)
{
    struct both *b = ctx;
    (void)reason;
    b->closed++;
    snic_nvmefslink_close(q);
}

static void both_dpu(struct both *b)
{
    struct snic_fsdispatch_opts fo = {.opts_size = sizeof(fo), .commands = 32};
    struct snic_nvmefslink_dpu_opts po = {
        .opts_size = sizeof(po),
        .engine = {.opts_size = sizeof(po.engine), .queues_max = 1, .depth_max = 32},
        .request = snic_fsdispatch_request,
        .cancel = snic_fsdispatch_cancel,
        .others = {snic_hcachelink_dpu_recv, snic_hcachelink_dpu_doorbell,
                   snic_hcachelink_dpu_death, b->g.dpu}};
    size_t size = snic_fsdispatch_memsize(&fo);
    b->mem[0] = support_guard_alloc(size, 16);
    assert_int_equal(snic_fsdispatch_init(&b->s, b->mem[0], size, b->g.fs, &fo), 0);
    po.ctx = b->s;
    size = snic_nvmefslink_dpu_memsize(&po);
    b->mem[1] = support_guard_alloc(size, SNIC_NVMEFS_ALIGN);
    assert_int_equal(snic_nvmefslink_dpu_init(&b->dpu, b->mem[1], size, b->g.d[1], &po), 0);
}

static void both_open(struct both *b)
{
    struct snic_nvmefslink_host_opts ho = {.opts_size = sizeof(ho),
                                           .queues_max = 1,
                                           .others = {snic_hcachelink_host_recv,
                                                      snic_hcachelink_host_doorbell,
                                                      snic_hcachelink_host_death, NULL}};
    struct snic_nvmefslink_queue_opts qo = {
        .opts_size = sizeof(qo), .depth = 32, .data_bytes = 1 << 16};
    struct snic_nvmefslink_events e = {NULL, both_done, NULL, both_closed, b};
    size_t size;
    memset(b, 0, sizeof(*b));
    rig_defaults(&b->g);
    b->g.ho.flags = SNIC_HCACHELINK_SHARED;
    b->g.po.flags = SNIC_HCACHELINK_SHARED;
    b->g.ho.bell = b->g.po.bell = BELL;
    rig_open(&b->g);
    both_dpu(b);
    ho.others.ctx = b->g.host;
    size = snic_nvmefslink_host_memsize(&ho);
    b->mem[2] = support_guard_alloc(size, 16);
    assert_int_equal(snic_nvmefslink_host_init(&b->host, b->mem[2], size, b->g.d[0], &ho), 0);
    assert_int_equal(snic_nvmefslink_open(&b->q, b->host, &qo, &e), 0);
}

static void both_close(struct both *b)
{
    snic_hcachelink_host_end(b->g.host);
    for (int i = 0; i < 1000000 && b->g.closed == 0; i++)
        (void)rig_step(&b->g);
    snic_nvmefslink_end(b->q);
    for (int i = 0; i < 1000000 && (b->closed == 0 || !snic_nvmefslink_dpu_idle(b->dpu)); i++)
        (void)rig_step(&b->g);
    assert_int_equal(b->g.reason, 0);
    assert_int_equal(b->closed, 1);
    support_guard_free(snic_nvmefslink_dpu_fini(b->dpu));
    support_guard_free(snic_nvmefslink_host_fini(b->host));
    support_guard_free(snic_fsdispatch_fini(b->s));
    rig_close(&b->g);
}

static int64_t both_call(struct both *b, struct snic_nvmefs_req *r)
{
    r->op.ctx = r;
    r->op.flags |= SNIC_FSOP_CHECKED;
    assert_int_equal(snic_nvmefslink_submit(b->q, r), 0);
    for (int i = 0; i < 1000000 && r->op.ctx != NULL; i++)
        (void)rig_step(&b->g);
    assert_null(r->op.ctx);
    return r->op.result;
}

static uint64_t size_of(struct both *b, uint64_t ino)
{
    struct snic_nvmefs_req r = {.op.kind = SNIC_FSOP_GETATTR, .op.ino = ino};
    assert_int_equal(both_call(b, &r), 0);
    return r.op.attr.size;
}

static void test_hcachelink_shares_the_link_with_nvmefs(void **state)
{
    static struct both b;
    struct snic_nvmefs_req f = {.op.kind = SNIC_FSOP_CREATE,
                                .op.ino = SNIC_FSOP_ROOT,
                                .op.name = "a",
                                .op.name_size = 1,
                                .op.mode = 0644,
                                .op.flags = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE};
    struct snic_nvmefs_req w = {.op.kind = SNIC_FSOP_WRITE,
                                .op.iov = &(struct snic_iov){page, RIG_PAGE},
                                .op.iov_count = 1};
    struct snic_nvmefs_req r = {
        .op.kind = SNIC_FSOP_READ, .op.iov = &(struct snic_iov){out, RIG_PAGE}, .op.iov_count = 1};
    uint64_t ino;
    (void)state;
    both_open(&b);
    for (uint32_t i = 0; i < sizeof(page); i++)
        page[i] = (unsigned char)(i * 7 + (i >> 8));
    assert_int_equal(both_call(&b, &f), 0);
    ino = f.op.attr.ino;
    assert_int_equal(rig_op(&b.g, SNIC_HCACHELINK_WRITE, ino, 0, 2 * RIG_PAGE + 9, page),
                     2 * RIG_PAGE + 9);
    assert_int_equal(rig_op(&b.g, SNIC_HCACHELINK_FSYNC, ino, 0, 0, NULL), 0);
    assert_int_equal(size_of(&b, ino), 2 * RIG_PAGE + 9);
    r.op.ino = ino;
    r.op.handle = f.op.handle;
    r.op.offset = RIG_PAGE;
    assert_int_equal(both_call(&b, &r), RIG_PAGE);
    assert_memory_equal(out, page + RIG_PAGE, RIG_PAGE);
    /* a direct write behind a drop is what the cache then has */
    assert_int_equal(rig_op(&b.g, SNIC_HCACHELINK_DROP, ino, 0, RIG_PAGE, NULL), 0);
    w.op.ino = ino;
    w.op.handle = f.op.handle;
    w.op.iov->base = page + 5;
    assert_int_equal(both_call(&b, &w), RIG_PAGE);
    assert_int_equal(rig_op(&b.g, SNIC_HCACHELINK_READ, ino, 0, RIG_PAGE, out), RIG_PAGE);
    assert_memory_equal(out, page + 5, RIG_PAGE);
    assert_int_equal(rig_op(&b.g, SNIC_HCACHELINK_TRUNCATE, ino, 0, 11, NULL), 0);
    assert_int_equal(size_of(&b, ino), 11);
    both_close(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_shares_the_link_with_nvmefs),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
