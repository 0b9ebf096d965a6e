/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random operations against arrays, on devices of every alignment and capability, with
 * checkpoints and remounts in between; and many writes in flight that share blocks.
 */
#include "filefix.h"
#include "filemodel.h"
#include "support.h"

#include <stdio.h>

struct device {
    uint32_t align;
    uint32_t caps;
    uint32_t segment;
    uint32_t depth;
    uint64_t delay;
};

static const struct device devices[] = {
    {1, SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO, 16384, 0, 0},
    {512, SNIC_IO_CAP_DISCARD, 4096, 4, 20000},
    {4096, SNIC_IO_CAP_FUA, 16384, 8, 100000},
    {4096, SNIC_IO_CAP_ZERO, 8192, 32, 100000},
};

static void device_open(struct filefix *fx, const struct device *d)
{
    memset(fx, 0, sizeof(*fx));
    fx->disk_opts.size = 4u << 20;
    fx->disk_opts.align = d->align;
    fx->disk_opts.caps = d->caps;
    fx->disk_opts.delay_max_ns = d->delay;
    fx->format.segment_bytes = d->segment;
    fx->mount.depth = d->depth;
    fx->mount.bounce_count = 2;
    fx->mount.bounce_bytes = 8192;
    filefix_fresh(fx);
}

/* Any sequence of operations answers and reads as the arrays do, also after mounting again. */
static void test_files_random_operations_as_model(void **state)
{
    static struct model m;
    uint64_t steps = support_scale(1500, 40000);
    uint32_t d;
    (void)state;
    for (d = 0; d < SNIC_COUNTOF(devices); d++) {
        struct filefix fx;
        struct snic_rng rng;
        uint64_t i;
        snic_rng_init(&rng, support_seed() + d);
        device_open(&fx, &devices[d]);
        model_init(&m, MODEL_BYTES);
        for (i = 0; i < steps; i++) {
            struct model_op op;
            const char *why;
            int64_t real;
            int64_t expected;
            model_pick(&m, &rng, &op, 0);
            real = model_run(&m, fx.files, &op);
            {
                uint64_t id = m.file[op.dir][op.name].id;
                expected = model_apply(&m, &op);
                if (op.kind == MODEL_CREATE && expected == 0)
                    m.file[op.dir][op.name].id = id;
            }
            if (real != expected)
                fail_msg("device %u step %u: %s: %lld, expected %lld", d, (unsigned)i,
                         model_text(&op), (long long)real, (long long)expected);
            if (snic_files_check(fx.files) != 0)
                fail_msg("device %u step %u: %s: check", d, (unsigned)i, model_text(&op));
            if (snic_rng_below(&rng, 100) == 0) {
                assert_int_equal(filefix_unmount(&fx), 0);
                filefix_mount(&fx);
            }
            why = i % 8 == 0 ? model_differs(&m, NULL, fx.files) : NULL;
            if (why != NULL)
                fail_msg("device %u step %u: after %s: %s", d, (unsigned)i, model_text(&op), why);
        }
        filefix_close(&fx);
    }
}

#define BATCH 24u

struct item {
    struct snic_files_req req;
    struct snic_iov iov[3];
    int done;
};

static void item_done(struct snic_files_req *r)
{
    SNIC_CONTAINER(r, struct item, req)->done++;
}

/* Cut the item's bytes into pieces at odd places. */
static void item_pieces(struct item *x, unsigned char *p, uint32_t n, struct snic_rng *rng)
{
    uint32_t a = (uint32_t)snic_rng_below(rng, n + 1);
    uint32_t b = a + (uint32_t)snic_rng_below(rng, n - a + 1);
    x->iov[0].base = p;
    x->iov[0].size = a;
    x->iov[1].base = p + a;
    x->iov[1].size = b - a;
    x->iov[2].base = p + b;
    x->iov[2].size = n - b;
    x->req.iov = x->iov;
    x->req.iov_count = 3;
}

/* Neighbouring writes in flight together, some past the end, none lost, none torn: every byte
 * is what its own write put there, although blocks and init marks are shared. */
static void test_files_writes_together_all_bytes_there(void **state)
{
    static unsigned char in[MODEL_BYTES + 4096];
    static unsigned char shadow[MODEL_BYTES];
    static unsigned char back[MODEL_BYTES];
    static struct item x[BATCH];
    uint64_t rounds = support_scale(150, 4000);
    uint32_t d;
    (void)state;
    for (d = 0; d < SNIC_COUNTOF(devices); d++) {
        struct filefix fx;
        struct snic_rng rng;
        uint64_t id = 0;
        uint64_t size = 0;
        uint64_t i;
        snic_rng_init(&rng, support_seed() + 100 + d);
        device_open(&fx, &devices[d]);
        for (i = 0; i < rounds; i++) {
            struct snic_files_req *reqs[BATCH];
            uint32_t at = (uint32_t)snic_rng_below(&rng, MODEL_BYTES / 2);
            uint32_t n;
            uint32_t k;
            if (i % 10 == 0) {
                (void)filefix_delete(fx.files, 0, "a");
                assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
                memset(shadow, 0, sizeof(shadow));
                size = 0;
            }
            for (k = 0; k < BATCH; k++) {
                uint32_t len = 1 + (uint32_t)snic_rng_below(&rng, k % 5 == 0 ? 9000 : 1500);
                if (at + len > MODEL_BYTES)
                    break;
                memset(&x[k], 0, sizeof(x[k]));
                x[k].req.op = SNIC_FILES_WRITE;
                x[k].req.flags = snic_rng_below(&rng, 8) == 0 ? SNIC_FILES_SYNC : 0;
                x[k].req.file = id;
                x[k].req.offset = at;
                x[k].req.length = len;
                x[k].req.region = SNIC_NO_REGION;
                x[k].req.done = item_done;
                snic_rng_fill(&rng, in + at, len);
                memcpy(shadow + at, in + at, len);
                if (snic_rng_below(&rng, 2) == 0) {
                    item_pieces(&x[k], in + at, len, &rng);
                } else {
                    x[k].req.buf.base = in + at;
                    x[k].req.buf.size = len;
                }
                at += len + (uint32_t)snic_rng_below(&rng, 4) / 3 * 700;
                size = snic_max_u64(size, x[k].req.offset + len);
                reqs[k] = &x[k].req;
            }
            n = k;
            for (k = n; k > 1; k--) { /* in any order */
                uint32_t o = (uint32_t)snic_rng_below(&rng, k);
                struct snic_files_req *t = reqs[k - 1];
                reqs[k - 1] = reqs[o];
                reqs[o] = t;
            }
            snic_files_submit(fx.files, reqs, n);
            for (k = 0; k < n; k++)
                while (!x[k].done) {
                    (void)snic_loop_once(fx.loop, SNIC_NEVER);
                    assert_int_equal(snic_files_check(fx.files), 0);
                }
            for (k = 0; k < n; k++)
                assert_int_equal(x[k].req.result, x[k].req.length);
            assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), size);
            assert_memory_equal(back, shadow, size);
        }
        filefix_close(&fx);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_random_operations_as_model),
        cmocka_unit_test(test_files_writes_together_all_bytes_there),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
