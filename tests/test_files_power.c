/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Power loss at every write, flush and zeroing of sequences of operations: afterwards the image
 * mounts, checks, holds the state after the last completed operation or after the one under
 * way, and takes new operations.
 */
#include "filefix.h"
#include "filemodel.h"
#include "power.h"
#include "support.h"

#include <stdio.h>

#define OPS_MAX 64u

struct sequence {
    struct filefix fx;
    struct model before[OPS_MAX + 1]; /* state before operation i */
    struct model_op op[OPS_MAX];
    uint32_t ops;
    uint32_t completed;
    struct model end; /* after the last run, with the ids */
    uint32_t mounts;  /* unmount and mount again after so many operations */
};

static struct sequence seq;

static struct snic_files *mount_on(struct sequence *s, struct snic_io *io)
{
    s->fx.io = io;
    assert_int_equal(filefix_try_mount(&s->fx), 0);
    return s->fx.files;
}

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
    (void)mount_on(s, io);
    while (turns-- > 0)
        (void)snic_loop_once(s->fx.loop, 0);
    snic_disk_power_cut(disk, seed);
    (void)filefix_unmount(&s->fx);
}

/* It still works: a file is made, written, read and deleted. */
static void judge_usable(struct snic_files *f)
{
    unsigned char byte = 0;
    uint64_t id;
    assert_int_equal(filefix_create(f, 0, "probe", &id), 0);
    assert_int_equal(filefix_write(f, id, 5000, "x", 1, SNIC_FILES_SYNC), 1);
    assert_int_equal(filefix_read(f, id, 5000, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(filefix_delete(f, 0, "probe"), 0);
    assert_int_equal(snic_files_check(f), 0);
}

static void sequence_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct snic_files *f = mount_on(s, io);
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
    judge_usable(f);
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

static const struct snic_disk_opts disks[] = {
    {.sector = 4096, .align = 1, .caps = SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO},
    {.sector = 512, .align = 512, .caps = SNIC_IO_CAP_DISCARD},
    {.sector = 4096, .align = 4096, .caps = SNIC_IO_CAP_FUA},
    {.sector = 512, .align = 1, .caps = SNIC_IO_CAP_ZERO},
};

static void sequence_open(struct sequence *s, const struct snic_disk_opts *d)
{
    memset(&s->fx, 0, sizeof(s->fx));
    s->fx.disk_opts = *d;
    s->fx.disk_opts.size = 1u << 20;
    s->fx.format.segment_bytes = 8192;
    s->fx.format.files_max = 24;
    s->fx.format.dirs_max = 4;
    s->fx.mount.depth = 16;
    s->fx.mount.bounce_count = 2;
    s->fx.mount.bounce_bytes = 8192;
    filefix_open(&s->fx);
    assert_int_equal(snic_files_format(s->fx.io, &s->fx.format), 0);
    snic_disk_sync(s->fx.disk);
}

static void sequence_close(struct sequence *s, struct snic_io *io)
{
    s->fx.io = io;
    s->fx.files = NULL;
    filefix_close(&s->fx);
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
        sequence_open(&seq, &disks[i % SNIC_COUNTOF(disks)]);
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

/* ---- Many control operations under way: some prefix of them is there ---- */

#define TOGETHER 12u

struct parallel {
    struct snic_files_req req;
    char name[8];
    int done;
};

static struct parallel together[TOGETHER];

static void parallel_done(struct snic_files_req *r)
{
    SNIC_CONTAINER(r, struct parallel, req)->done = 1;
}

/* Creates a0..a11 at once, then deletes them at once, then creates again; so often that the
 * journal changes halves under way. */
static void prefix_run(void *ctx, struct snic_io *io)
{
    struct sequence *s = ctx;
    uint32_t round;
    s->completed = 0;
    s->fx.io = io;
    if (filefix_try_mount(&s->fx) != 0)
        return;
    for (round = 0; round < 40; round++) {
        struct snic_files_req *reqs[TOGETHER];
        uint32_t i;
        int failed = 0;
        for (i = 0; i < TOGETHER; i++) {
            struct parallel *p = &together[i];
            memset(p, 0, sizeof(*p));
            (void)snprintf(p->name, sizeof(p->name), "a%02u", i);
            p->req.op = round % 2 == 0 ? SNIC_FILES_CREATE : SNIC_FILES_DELETE;
            p->req.name = p->name;
            p->req.name_size = 3;
            p->req.done = parallel_done;
            reqs[i] = &p->req;
        }
        snic_files_submit(s->fx.files, reqs, TOGETHER);
        for (i = 0; i < TOGETHER; i++) {
            while (!together[i].done)
                (void)snic_loop_once(s->fx.loop, SNIC_NEVER);
            failed |= together[i].req.result != 0;
            s->completed += together[i].req.result == 0;
        }
        if (failed)
            break;
    }
    (void)filefix_unmount(&s->fx);
}

static void prefix_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct snic_files *f = mount_on(s, io);
    uint32_t round = s->completed / TOGETHER;
    uint32_t there = 0;
    uint32_t last = 0;
    uint32_t i;
    (void)survivors;
    assert_int_equal(snic_files_check(f), 0);
    for (i = 0; i < TOGETHER; i++) {
        char name[8];
        uint64_t id;
        int found;
        (void)snprintf(name, sizeof(name), "a%02u", i);
        found = filefix_find(f, 0, name, &id, NULL) == 0;
        there += (uint32_t)found;
        if (found)
            last = i;
    }
    /* Creating: the first ones are there. Deleting: the last ones are. */
    if (round == 40)
        assert_int_equal(there, 0);
    else if (round % 2 == 0)
        assert_true(there >= s->completed % TOGETHER && (there == 0 || last == there - 1));
    else
        assert_true(there <= TOGETHER - s->completed % TOGETHER &&
                    (there == 0 || last == TOGETHER - 1));
    if (there != 0 && cut == 0)
        fail_msg("left over");
    judge_usable(f);
    (void)filefix_unmount(&s->fx);
}

static uint64_t prefix_try(struct sequence *s, const struct snic_disk *base, uint64_t step)
{
    struct power_case c;
    memset(&c, 0, sizeof(c));
    c.ctx = s;
    c.run = prefix_run;
    c.judge = prefix_judge;
    c.base = base;
    c.loop = s->fx.loop;
    c.seed = support_seed() + step;
    c.step = step;
    c.random = 2;
    c.torn = 1;
    return power_enumerate(&c);
}

/* Operations under way together become durable in the order of submission. */
static void test_files_power_lost_controls_together_prefix_there(void **state)
{
    uint64_t tried = 0;
    uint64_t i;
    (void)state;
    for (i = 0; i < 2; i++) {
        struct snic_io *io;
        sequence_open(&seq, &disks[i]);
        io = seq.fx.io;
        tried += prefix_try(&seq, seq.fx.disk, 1);
        sequence_close(&seq, io);
    }
    print_message("%llu power cuts\n", (unsigned long long)tried);
}

/* A disk whose power went while a checkpoint of many chunks was being written. */
static void big_open(struct sequence *s, const struct snic_disk_opts *d, uint64_t chunk)
{
    struct snic_files_info info;
    struct snic_fault f;
    memset(&s->fx, 0, sizeof(s->fx));
    s->fx.disk_opts = *d;
    s->fx.disk_opts.size = 2u << 20;
    s->fx.format.files_max = 1200;
    filefix_open(&s->fx);
    assert_int_equal(snic_files_format(s->fx.io, &s->fx.format), 0);
    snic_disk_sync(s->fx.disk);
    if (chunk == 0)
        return;
    assert_int_equal(snic_files_probe(s->fx.io, &info), 0);
    memset(&f, 0, sizeof(f));
    f.kind = SNIC_FAULT_POWER;
    f.ops = 1u << SNIC_IO_WRITE;
    f.after = chunk;
    f.offset = 32768; /* the checkpoint slots */
    f.length = info.data_offset - info.journal_bytes - 65536;
    f.seed = support_seed() + 2;
    assert_int_equal(snic_disk_fault(s->fx.disk, &f), 0);
    prefix_run(s, s->fx.io);
    assert_true(s->completed < 40 * TOGETHER);
    snic_disk_faults_clear(s->fx.disk);
    filefix_reopen(&s->fx);
    /* Nothing is left in the way of the next run. */
    filefix_mount(&s->fx);
    while (s->completed > 0) {
        char name[8];
        s->completed--;
        (void)snprintf(name, sizeof(name), "a%02u", s->completed % TOGETHER);
        (void)filefix_delete(s->fx.files, 0, name);
    }
    snic_disk_power_cut(s->fx.disk, SNIC_FAULT_KEEP_ALL);
    (void)filefix_unmount(&s->fx);
    filefix_reopen(&s->fx);
}

/* A checkpoint that takes longer than a half of the journal lasts, and one cut off before. */
static void test_files_power_lost_long_checkpoint_prefix_there(void **state)
{
    uint64_t step = support_scale(13, 1);
    uint64_t i;
    (void)state;
    for (i = 0; i < 6; i++) {
        struct snic_io *io;
        big_open(&seq, &disks[i % 2], i / 2 * 9);
        io = seq.fx.io;
        (void)prefix_try(&seq, seq.fx.disk, step);
        sequence_close(&seq, io);
    }
}

/* ---- Nothing synced: no file shows what it did not write ---- */

#define SECRET 0xee /* never a byte of the model */

/* Operations without any promise, many of them never synced. */
static void leak_run(void *ctx, struct snic_io *io)
{
    struct sequence *s = ctx;
    static struct model m;
    uint32_t i;
    s->fx.io = io;
    if (filefix_try_mount(&s->fx) != 0)
        return;
    model_init(&m, s->before[0].bytes_max);
    for (i = 0; i < s->ops; i++) {
        uint64_t id;
        if (model_run(&m, s->fx.files, &s->op[i]) == SNIC_EIO)
            break;
        id = m.file[s->op[i].dir][s->op[i].name].id;
        if (model_apply(&m, &s->op[i]) == 0 && s->op[i].kind == MODEL_CREATE)
            m.file[s->op[i].dir][s->op[i].name].id = id;
    }
    (void)filefix_unmount(&s->fx);
}

static void leak_judge_file(struct snic_files *f, uint64_t id)
{
    static unsigned char buf[MODEL_BYTES];
    int64_t n;
    int64_t i;
    memset(buf, 0, sizeof(buf));
    n = filefix_read(f, id, 0, buf, sizeof(buf));
    assert_true(n >= 0);
    for (i = 0; i < n; i++)
        if (buf[i] == SECRET)
            fail_msg("a byte of another file at %lld", (long long)i);
}

static void leak_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct snic_files *f = mount_on(s, io);
    uint32_t d;
    uint32_t i;
    (void)cut;
    (void)survivors;
    assert_int_equal(snic_files_check(f), 0);
    for (d = 0; d <= MODEL_DIRS; d++) {
        char name[8];
        uint64_t dir = SNIC_FILES_ROOT;
        uint64_t id;
        (void)snprintf(name, sizeof(name), "d%u", d);
        if (d != 0 && filefix_find(f, 0, name, &dir, NULL) != 0)
            continue;
        for (i = 0; i < MODEL_NAMES; i++) {
            (void)snprintf(name, sizeof(name), "n%u", i);
            if (filefix_find(f, dir, name, &id, NULL) == 0)
                leak_judge_file(f, id);
        }
    }
    judge_usable(f);
    (void)filefix_unmount(&s->fx);
}

/* Free space holds a deleted file's bytes. Whatever is lost, they never come back. */
static void test_files_power_lost_unsynced_no_foreign_bytes(void **state)
{
    struct snic_rng rng;
    uint64_t rounds = support_scale(4, 40);
    uint64_t i;
    (void)state;
    snic_rng_init(&rng, support_seed() + 7);
    for (i = 0; i < rounds; i++) {
        struct power_case c;
        struct snic_files_info info;
        struct snic_io *io;
        uint32_t k;
        sequence_open(&seq, &disks[i % SNIC_COUNTOF(disks)]);
        io = seq.fx.io;
        assert_int_equal(snic_files_probe(io, &info), 0);
        memset(snic_disk_bytes(seq.fx.disk) + info.data_offset, SECRET,
               seq.fx.disk_opts.size - info.data_offset);
        snic_disk_sync(seq.fx.disk);
        seq.ops = 50;
        model_init(&seq.before[0], 40000);
        for (k = 0; k < seq.ops; k++) {
            struct model *m = &seq.before[0];
            model_pick(m, &rng, &seq.op[k], 0);
            if (seq.op[k].kind >= MODEL_WRITE_SYNC && seq.op[k].kind <= MODEL_WRITE_FSYNC &&
                k % 4 != 0)
                seq.op[k].kind = k % 4 == 1 ? MODEL_TRUNCATE : MODEL_WRITE;
            if (seq.op[k].kind == MODEL_TRUNCATE && m->file[seq.op[k].dir][seq.op[k].name].used)
                seq.op[k].at %= m->file[seq.op[k].dir][seq.op[k].name].size + 1;
            (void)model_apply(m, &seq.op[k]);
        }
        memset(&c, 0, sizeof(c));
        c.ctx = &seq;
        c.run = leak_run;
        c.judge = leak_judge;
        c.base = seq.fx.disk;
        c.loop = seq.fx.loop;
        c.seed = support_seed() + i;
        c.random = 2;
        (void)power_enumerate(&c);
        sequence_close(&seq, io);
    }
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
    for (i = 0; i < SNIC_COUNTOF(disks); i++)
        chosen_try(ops, SNIC_COUNTOF(ops), &disks[i]);
}

/* ---- Space freed by an operation that is not durable yet ---- */

static struct parallel pair[2];
static unsigned char pair_bytes[128 * 8192];
static uint64_t pair_files[2];
static uint64_t pair_size;

/* `a` fills the disk. It is deleted, and `b` written, at once. */
static void reuse_run(void *ctx, struct snic_io *io)
{
    struct sequence *s = ctx;
    struct snic_files_req *reqs[2];
    s->fx.io = io;
    if (filefix_try_mount(&s->fx) != 0)
        return;
    memset(pair, 0, sizeof(pair));
    pair[0].req.op = SNIC_FILES_DELETE;
    pair[0].req.name = "a";
    pair[0].req.name_size = 1;
    pair[1].req.op = SNIC_FILES_WRITE;
    pair[1].req.file = pair_files[1];
    pair[1].req.length = 65536;
    pair[1].req.buf.base = pair_bytes;
    pair[1].req.buf.size = 65536;
    pair[1].req.region = SNIC_NO_REGION;
    for (s->completed = 0; s->completed < 2; s->completed++) {
        pair[s->completed].req.done = parallel_done;
        reqs[s->completed] = &pair[s->completed].req;
    }
    memset(pair_bytes, 0x33, sizeof(pair_bytes));
    snic_files_submit(s->fx.files, reqs, 2);
    while (!pair[0].done || !pair[1].done)
        (void)snic_loop_once(s->fx.loop, SNIC_NEVER);
    s->completed = pair[0].req.result == 0;
    (void)filefix_unmount(&s->fx);
}

static void reuse_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct snic_files *f = mount_on(s, io);
    uint64_t id;
    uint64_t i;
    (void)cut;
    (void)survivors;
    assert_int_equal(snic_files_check(f), 0);
    if (filefix_find(f, 0, "a", &id, NULL) == 0) {
        assert_int_equal(s->completed, 0);
        assert_int_equal(filefix_read(f, id, 0, pair_bytes, sizeof(pair_bytes)), pair_size);
        for (i = 0; i < pair_size; i++)
            if (pair_bytes[i] != 0x77)
                fail_msg("the file is not deleted and has lost its bytes");
    }
    (void)filefix_unmount(&s->fx);
}

/* A deletion that power loss takes back finds all bytes where they were. */
static void test_files_power_lost_deleted_space_not_reused_early(void **state)
{
    struct power_case c;
    struct snic_files_stats st;
    struct snic_io *io;
    (void)state;
    sequence_open(&seq, &disks[0]);
    io = seq.fx.io;
    filefix_mount(&seq.fx);
    snic_files_get_stats(seq.fx.files, &st);
    pair_size = st.segments_free * 8192;
    assert_true(pair_size <= sizeof(pair_bytes));
    memset(pair_bytes, 0x77, sizeof(pair_bytes));
    assert_int_equal(filefix_create(seq.fx.files, 0, "a", &pair_files[0]), 0);
    assert_int_equal(filefix_create(seq.fx.files, 0, "b", &pair_files[1]), 0);
    assert_int_equal(
        filefix_write(seq.fx.files, pair_files[0], 0, pair_bytes, pair_size, SNIC_FILES_SYNC),
        pair_size);
    assert_int_equal(filefix_unmount(&seq.fx), 0);
    snic_disk_sync(seq.fx.disk);
    memset(&c, 0, sizeof(c));
    c.ctx = &seq;
    c.run = reuse_run;
    c.judge = reuse_judge;
    c.base = seq.fx.disk;
    c.loop = seq.fx.loop;
    c.seed = support_seed();
    c.random = 6;
    assert_true(power_enumerate(&c) > 0);
    sequence_close(&seq, io);
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
        cmocka_unit_test(test_files_power_lost_controls_together_prefix_there),
        cmocka_unit_test(test_files_power_lost_long_checkpoint_prefix_there),
        cmocka_unit_test(test_files_power_lost_unsynced_no_foreign_bytes),
        cmocka_unit_test(test_files_power_lost_overwritten_synced_there),
        cmocka_unit_test(test_files_power_lost_deleted_space_not_reused_early),
        cmocka_unit_test(test_files_power_lost_in_format_no_mixture),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
