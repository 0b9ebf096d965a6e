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

struct crowd {
    struct filefix fx;
    struct snic_rng rng;
    uint64_t id;
    uint64_t size;
    struct item x[BATCH];
    struct snic_files_req *reqs[BATCH];
    uint32_t n;
    unsigned char in[MODEL_BYTES + 4096];
    unsigned char shadow[MODEL_BYTES];
    unsigned char back[MODEL_BYTES];
};

static void crowd_fresh(struct crowd *c)
{
    (void)filefix_delete(c->fx.files, 0, "a");
    assert_int_equal(filefix_create(c->fx.files, 0, "a", &c->id), 0);
    memset(c->shadow, 0, sizeof(c->shadow));
    c->size = 0;
}

/* Neighbouring writes with a gap here and there, from a random place on, in random order. */
static void crowd_make(struct crowd *c)
{
    uint32_t at = (uint32_t)snic_rng_below(&c->rng, MODEL_BYTES / 2);
    uint32_t k;
    for (c->n = 0; c->n < BATCH; c->n++) {
        uint32_t len = 1 + (uint32_t)snic_rng_below(&c->rng, c->n % 5 == 0 ? 9000 : 1500);
        struct item *x = &c->x[c->n];
        if (at + len > MODEL_BYTES)
            break;
        memset(x, 0, sizeof(*x));
        x->req.op = SNIC_FILES_WRITE;
        x->req.flags = snic_rng_below(&c->rng, 8) == 0 ? SNIC_FILES_SYNC : 0;
        x->req.file = c->id;
        x->req.offset = at;
        x->req.length = len;
        x->req.region = SNIC_NO_REGION;
        x->req.done = item_done;
        x->req.buf.base = c->in + at;
        x->req.buf.size = len;
        snic_rng_fill(&c->rng, c->in + at, len);
        memcpy(c->shadow + at, c->in + at, len);
        if (snic_rng_below(&c->rng, 2) == 0)
            item_pieces(x, c->in + at, len, &c->rng);
        c->size = snic_max_u64(c->size, at + len);
        c->reqs[c->n] = &x->req;
        at += len + (uint32_t)snic_rng_below(&c->rng, 4) / 3 * 700;
    }
    for (k = c->n; k > 1; k--) {
        uint32_t o = (uint32_t)snic_rng_below(&c->rng, k);
        struct snic_files_req *t = c->reqs[k - 1];
        c->reqs[k - 1] = c->reqs[o];
        c->reqs[o] = t;
    }
}

/* Neighbouring writes in flight together, some past the end, none lost, none torn: every byte
 * is what its own write put there, although blocks and init marks are shared. */
static void test_files_writes_together_all_bytes_there(void **state)
{
    static struct crowd c;
    uint64_t rounds = support_scale(150, 4000);
    uint32_t d;
    (void)state;
    for (d = 0; d < SNIC_COUNTOF(devices); d++) {
        uint64_t i;
        uint32_t k;
        snic_rng_init(&c.rng, support_seed() + 100 + d);
        device_open(&c.fx, &devices[d]);
        for (i = 0; i < rounds; i++) {
            if (i % 3 == 0)
                crowd_fresh(&c);
            crowd_make(&c);
            snic_files_submit(c.fx.files, c.reqs, c.n);
            for (k = 0; k < c.n; k++)
                while (!c.x[k].done) {
                    (void)snic_loop_once(c.fx.loop, SNIC_NEVER);
                    assert_int_equal(snic_files_check(c.fx.files), 0);
                }
            for (k = 0; k < c.n; k++)
                assert_int_equal(c.x[k].req.result, c.x[k].req.length);
            assert_int_equal(filefix_read(c.fx.files, c.id, 0, c.back, sizeof(c.back)), c.size);
            assert_memory_equal(c.back, c.shadow, c.size);
        }
        filefix_close(&c.fx);
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
