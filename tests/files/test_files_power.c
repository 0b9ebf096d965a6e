/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Power loss at every write, flush and zeroing of sequences of operations: afterwards the image
 * mounts, checks, holds the state after the last completed operation or after the one under
 * way, and takes new operations.
 */
#include "filefix.h"
#include "power.h"
#include "powerseq.h"
#include "support.h"

#include <stdio.h>

static struct sequence seq;

/* Carry out the sequence until an operation fails. */
static void sequence_run(void *ctx, struct snic_io *io)
{
    struct sequence *s = ctx;
    static struct model m;
    uint32_t i;
    s->completed = 0;
    s->fx.io = io;
    if (filefix_try_mount(&s->fx) != 0)
        return;
    m = s->before[0];
    for (i = 0; i < s->ops; i++) {
        int64_t expected;
        uint64_t id;
        int64_t real = model_run(&m, s->fx.files, &s->op[i]);
        if (real == SNIC_EIO)
            break;
        id = m.file[s->op[i].dir][s->op[i].name].id;
        expected = model_apply(&m, &s->op[i]);
        if (real != expected)
            fail_msg("operation %u: %s: %lld, expected %lld", i, model_text(&s->op[i]),
                     (long long)real, (long long)expected);
        if (s->op[i].kind == MODEL_CREATE && expected == 0)
            m.file[s->op[i].dir][s->op[i].name].id = id;
        s->completed = i + 1;
        if (s->mounts != 0 && i % s->mounts == s->mounts - 1) {
            if (filefix_unmount(&s->fx) != 0 || filefix_try_mount(&s->fx) != 0)
                break;
        }
    }
    s->end = m;
    if (s->fx.files != NULL)
        (void)filefix_unmount(&s->fx);
}

/* The power goes again while the image recovers: mounting finishes checkpoints. */
static void sequence_again(void *ctx, struct snic_io *io, struct snic_disk *disk, uint64_t seed)
{
    struct sequence *s = ctx;
    uint64_t turns = seed / 2 % 6;
    (void)sequence_mount(s, io);
    while (turns-- > 0)
        (void)snic_loop_once(s->fx.loop, 0);
    snic_disk_power_cut(disk, seed);
    (void)filefix_unmount(&s->fx);
}

static void sequence_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct snic_files *f = sequence_mount(s, io);
    uint32_t k = s->completed;
    const char *why;
    const char *next = NULL;
    assert_int_equal(snic_files_check(f), 0);
    why = model_differs(&s->before[k], k < s->ops ? &s->op[k] : NULL, f);
    if (why != NULL && k < s->ops)
        next = model_differs(&s->before[k + 1], NULL, f);
    if (why != NULL && (next != NULL || k == s->ops))
        fail_msg("cut %llu survivors %llu: %u of %u completed, next %s: %s (after it: %s)",
                 (unsigned long long)cut, (unsigned long long)survivors, k, s->ops,
                 k < s->ops ? model_text(&s->op[k]) : "none", why, next != NULL ? next : "-");
    sequence_usable(f);
    (void)filefix_unmount(&s->fx);
}

/* From the state before[0] on. */
static void sequence_make(struct sequence *s, struct snic_rng *rng, uint32_t ops)
{
    uint32_t i;
    s->ops = ops;
    for (i = 0; i < ops; i++) {
        int64_t rc;
        do { /* keep those that do something, most of the time */
            model_pick(&s->before[i], rng, &s->op[i], 1);
            s->before[i + 1] = s->before[i];
            rc = model_apply(&s->before[i + 1], &s->op[i]);
        } while (rc < 0 && snic_rng_below(rng, 8) != 0);
    }
}

static uint64_t sequence_try(struct sequence *s, uint64_t seed)
{
    struct power_case c;
    memset(&c, 0, sizeof(c));
    c.ctx = s;
    c.run = sequence_run;
    c.judge = sequence_judge;
    c.again = sequence_again;
    c.base = s->fx.disk;
    c.loop = s->fx.loop;
    c.seed = seed;
    c.random = 2;
    c.torn = 1;
    return power_enumerate(&c);
}

/*
 * One operation after the other, each durable when it completes. A long sequence is cut into
 * stretches, each of which begins on the disk that the one before left: every write of all of
 * them meets a power cut.
 */
static void test_files_power_lost_anywhere_last_state_there(void **state)
{
    struct snic_rng rng;
    uint64_t tried = 0;
    uint64_t rounds = support_scale(4, 24);
    uint64_t stretches = support_scale(2, 12);
    uint64_t i;
    uint64_t k;
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        struct snic_io *io;
        sequence_open(&seq, &sequence_disks[i % SEQUENCE_DISKS]);
        io = seq.fx.io;
        model_init(&seq.before[0], 40000);
        seq.mounts = i % 2 == 0 ? 0 : 9;
        for (k = 0; k < stretches; k++) {
            sequence_make(&seq, &rng, 30);
            tried += sequence_try(&seq, support_seed() + i * stretches + k);
            sequence_run(&seq, io);
            assert_int_equal(seq.completed, seq.ops);
            snic_disk_sync(seq.fx.disk);
            seq.before[0] = seq.end;
        }
        sequence_close(&seq, io);
    }
    print_message("%llu power cuts\n", (unsigned long long)tried);
}

/* ---- Chosen sequences, of what chance rarely makes ---- */

static void chosen_try(const struct model_op *ops, uint32_t n, const struct snic_disk_opts *d)
{
    struct power_case c;
    struct snic_io *io;
    uint32_t i;
    sequence_open(&seq, d);
    io = seq.fx.io;
    seq.ops = n;
    seq.mounts = 0;
    model_init(&seq.before[0], 40000);
    for (i = 0; i < n; i++) {
        seq.op[i] = ops[i];
        seq.op[i].tag = 1000 + i;
        seq.before[i + 1] = seq.before[i];
        assert_true(model_apply(&seq.before[i + 1], &seq.op[i]) >= 0);
    }
    memset(&c, 0, sizeof(c));
    c.ctx = &seq;
    c.run = sequence_run;
    c.judge = sequence_judge;
    c.base = seq.fx.disk;
    c.loop = seq.fx.loop;
    c.seed = support_seed();
    c.random = 4;
    c.torn = 1;
    (void)power_enumerate(&c);
    sequence_close(&seq, io);
}

/* Overwriting what is durable already, synced by FSYNC, by SYNC, and inside PREALLOC. */
static void test_files_power_lost_overwritten_synced_there(void **state)
{
    static const struct model_op ops[] = {
        {.kind = MODEL_CREATE},
        {.kind = MODEL_WRITE_SYNC, .n = 30000},
        {.kind = MODEL_WRITE_FSYNC, .at = 100, .n = 5000},
        {.kind = MODEL_WRITE_SYNC, .at = 9000, .n = 9000},
        {.kind = MODEL_CREATE, .name = 1},
        {.kind = MODEL_PREALLOC, .name = 1, .n = 16384},
        {.kind = MODEL_WRITE_FSYNC, .name = 1, .at = 4096, .n = 4096},
        {.kind = MODEL_WRITE_SYNC, .name = 1, .at = 300, .n = 10000},
        {.kind = MODEL_CREATE, .name = 2},
        {.kind = MODEL_WRITE_FSYNC, .at = 20000, .n = 1},
        {.kind = MODEL_DELETE},
        {.kind = MODEL_DELETE, .name = 2},
    };
    uint32_t i;
    (void)state;
    for (i = 0; i < SEQUENCE_DISKS; i++)
        chosen_try(ops, SNIC_COUNTOF(ops), &sequence_disks[i]);
}

/* ---- Format ---- */

static struct filefix *formatting;

static void format_run(void *ctx, struct snic_io *io)
{
    int rc = snic_files_format(io, &formatting->format);
    (void)ctx;
    assert_true(rc == 0 || rc == SNIC_EIO);
}

static void format_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    int rc;
    (void)ctx;
    (void)survivors;
    formatting->io = io;
    rc = filefix_try_mount(formatting);
    if (cut == 0)
        assert_int_equal(rc, 0);
    if (rc != SNIC_ENOENT)
        assert_int_equal(rc, 0);
    if (rc == 0) {
        uint64_t id; /* whole: the old image untouched, or the new one */
        int found = filefix_find(formatting->files, 0, "old", &id, NULL);
        assert_int_equal(snic_files_check(formatting->files), 0);
        if (cut == 0)
            assert_int_equal(found, SNIC_ENOENT);
        assert_int_equal(filefix_unmount(formatting), 0);
    }
}

/* Formatting over an old image with the same id: no image, the old or the new, never a mixture. */
static void test_files_power_lost_in_format_no_mixture(void **state)
{
    struct filefix fx;
    struct power_case c;
    struct snic_io *io;
    uint64_t id;
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.disk_opts.size = 1u << 20;
    fx.format.segment_bytes = 8192;
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "old", &id), 0);
    for (i = 0; i < 20; i++) /* entries that would be replayed, if they could */
        assert_int_equal(filefix_write(fx.files, id, i * 100, "x", 1, SNIC_FILES_SYNC), 1);
    assert_int_equal(filefix_unmount(&fx), 0);
    snic_disk_sync(fx.disk);
    formatting = &fx;
    io = fx.io;
    memset(&c, 0, sizeof(c));
    c.run = format_run;
    c.judge = format_judge;
    c.base = fx.disk;
    c.loop = fx.loop;
    c.seed = support_seed();
    c.random = 4;
    c.torn = 1;
    (void)power_enumerate(&c);
    fx.io = io;
    filefix_close(&fx);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_power_lost_anywhere_last_state_there),
        cmocka_unit_test(test_files_power_lost_overwritten_synced_there),
        cmocka_unit_test(test_files_power_lost_in_format_no_mixture),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
