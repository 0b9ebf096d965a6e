/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nvme-fs by example: a queue, a read and a write, every DMA operation of the DPU and the bytes of
 * the queue entries. Compared with tests/golden/nvmefs_*.txt.
 */
#include "golden.h"
#include "test_nvmefs_util.h"

#define DATA_WINDOW 9

struct trace {
    struct golden *g;
    struct snic_nvmefs_ctl queue;
    uint64_t queue_key;
};

static const char *const trace_kind[] = {[SNIC_FSOP_GETATTR] = "get the attributes",
                                         [SNIC_FSOP_READ] = "read",
                                         [SNIC_FSOP_WRITE] = "write"};

static void trace_dwords(struct trace *t, const unsigned char *p, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += 4)
        golden_line(t->g, "        Dword%-2u  %08x %08x %08x %08x", i, snic_get_le32(p + 4 * i),
                    snic_get_le32(p + 4 * i + 4), snic_get_le32(p + 4 * i + 8),
                    snic_get_le32(p + 4 * i + 12));
}

/* What an operation on the queue's own region is about. */
static const char *trace_place(const struct trace *t, const struct snic_nvmefs_op *op)
{
    uint64_t at = op->offset + SNIC_NVMEFS_ADDRESS(0, 0);
    uint64_t sq = t->queue.sq & UINT64_C(0xffffffffffff);
    uint64_t cq = t->queue.cq & UINT64_C(0xffffffffffff);
    if (at >= sq && at < sq + (uint64_t)t->queue.depth * SNIC_NVMEFS_SQE_BYTES)
        return "submission queue";
    if (at >= cq && at < cq + (uint64_t)t->queue.depth * SNIC_NVMEFS_CQE_BYTES)
        return "completion queue";
    return op->length == 4 || op->length == 8 ? "doorbell word" : "header and lists";
}

static void trace_dma(void *ctx, const struct snic_nvmefs_op *op)
{
    struct trace *t = ctx;
    int read = op->kind == 1;
    int own = op->key == t->queue_key;
    golden_line(t->g, "    DMA %s %u bytes, %s%s", read ? "read" : "write", op->length,
                own ? trace_place(t, op) : "data of the request",
                (op->flags & 2) != 0 ? ", after all before it" : "");
    if (own && !read && op->length == SNIC_NVMEFS_CQE_BYTES)
        trace_dwords(t, op->local, 4);
}

/* Submits a request and carries it out. */
static void trace_run(struct trace *t, struct duo *x, struct snic_nvmefs_req *r)
{
    struct snic_nvmefs_cmd *c;
    const unsigned char *sq = x->regions[t->queue_key - 100].base + (t->queue.sq & 0xffffffffffff);
    static uint32_t entry;
    golden_line(t->g, "host: %s, inode %u, %u bytes at %u", trace_kind[r->op.kind],
                (unsigned)r->op.ino, r->extent_count > 0 ? r->extents[0].size : 0,
                (unsigned)r->op.offset);
    assert_int_equal(snic_nvmefs_host_submit(x->h[0], r), 0);
    golden_line(t->g, "    host writes submission queue entry %u", entry);
    trace_dwords(t, sq + entry * SNIC_NVMEFS_SQE_BYTES, 16);
    entry = (entry + 1) % t->queue.depth;
    if (snic_nvmefs_host_kick(x->h[0])) {
        golden_line(t->g, "    host rings the doorbell");
        snic_nvmefs_dpu_bell(x->d, 0);
    }
    duo_settle(x);
    while ((c = snic_nvmefs_dpu_poll_request(x->d)) != NULL) {
        golden_line(t->g, "    file system: %s, inode %u, %u bytes of data",
                    trace_kind[c->req.op.kind], (unsigned)c->req.op.ino, c->data_size);
        duo_serve(x, c);
        duo_settle(x);
    }
    assert_ptr_equal(snic_nvmefs_host_reap(x->h[0]), r);
    golden_line(t->g, "host: done, result %d", (int)r->op.result);
    duo_check(x);
}

static void test_nvmefs_golden_requests(void **state)
{
    const struct snic_nvmefs_dpu_opts o = {.opts_size = sizeof(o),
                                           .flags = SNIC_NVMEFS_DPU_ORDERED,
                                           .queues_max = DUO_QUEUES,
                                           .depth_max = 16,
                                           .chunks = 32,
                                           .steps = 32};
    struct trace t;
    struct duo x;
    (void)state;
    memset(&t, 0, sizeof(t));
    t.g = golden_begin("nvmefs_requests");
    golden_note(t.g,
                "A queue of nvme-fs, a write and a read of 8 KiB, and a request without data.");
    golden_note(t.g, "The host has the queues in its memory; the DPU reads and writes them by DMA. "
                     "Indented lines are single steps of a request; Dwords are little endian, four "
                     "in a row. Written by tests/nvmefs/test_nvmefs_golden.c; the fields of the "
                     "entries are in include/snicstore/nvmefs.h.");
    duo_open(&x, &o);
    t.queue_key = 100 + x.region_count;
    duo_queue(&x, 0, 4, 0);
    snic_nvmefs_host_create(x.h[0], &t.queue);
    golden_note(t.g, "CREATE, a control message, announces a queue: its depth and the addresses of "
                     "its parts. From then on the DPU looks at its submission entries.");
    x.observe = trace_dma;
    x.observe_ctx = &t;
    duo_create(&x, 0);
    duo_settle(&x);
    assert_int_equal(x.created, 1);
    uint64_t key = duo_region_add(&x, 65536, DATA_WINDOW);
    unsigned char *data = x.regions[key - 100].base;
    struct snic_nvmefs_extent e = {SNIC_NVMEFS_ADDRESS(DATA_WINDOW, 0), 8192, 0};
    struct snic_nvmefs_req r = {
        .op.kind = SNIC_FSOP_WRITE, .op.ino = 5, .extents = &e, .extent_count = 1};
    for (uint32_t i = 0; i < 8192; i++)
        data[i] = (unsigned char)(i * 7 + 5);
    golden_note(
        t.g, "A write of 8 KiB takes four operations: the entry (a read has two of them, in case "
             "there is a second), the list of pages and the header of the request, which lie side "
             "by side, the data (two pages in a row are one read), and the completion.");
    trace_run(&t, &x, &r);
    golden_note(t.g, "A read: the data go the other way. The completion is written behind them "
                     "(FENCE): the host sees it only when all data are there.");
    r.op.kind = SNIC_FSOP_READ;
    trace_run(&t, &x, &r);
    golden_note(t.g, "Attributes are part of the header of the answer, which the DPU writes to the "
                     "page of the command.");
    struct snic_nvmefs_req a = {.op.kind = SNIC_FSOP_GETATTR, .op.ino = 4};
    trace_run(&t, &x, &a);
    duo_close(&x);
    golden_end(t.g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nvmefs_golden_requests)};
    return SUPPORT_MAIN(argc, argv, tests);
}
