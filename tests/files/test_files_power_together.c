/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Power loss while requests are under way together, and while nothing was promised: what was
 * acknowledged is there, in the order in which it was requested, and no file shows another's bytes.
 */
#include "power.h"
#include "powerseq.h"
#include "support.h"

#include <stdio.h>

static struct sequence seq;

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
    struct snic_files *f = sequence_mount(s, io);
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
    sequence_usable(f);
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
        sequence_open(&seq, &sequence_disks[i]);
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
        big_open(&seq, &sequence_disks[i % 2], i / 2 * 9);
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
    struct snic_files *f = sequence_mount(s, io);
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
    sequence_usable(f);
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
        sequence_open(&seq, &sequence_disks[i % SEQUENCE_DISKS]);
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
    struct snic_files *f = sequence_mount(s, io);
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
    sequence_open(&seq, &sequence_disks[0]);
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

/* ---- Writes under way together ---- */

#define WRITERS 6u
#define WRITE_ROUNDS 5u
#define WRITE_BYTES 5000u

static struct parallel writes[WRITERS];
static unsigned char write_bytes[WRITERS][WRITE_BYTES];
static uint64_t write_files[WRITERS];
static uint32_t write_acked[WRITERS]; /* rounds */

static unsigned char write_byte(uint32_t file, uint32_t round)
{
    return (unsigned char)(1 + file * 16 + round);
}

/* Each round all files grow at once, durably; each round's bytes are its own. */
static void writes_run(void *ctx, struct snic_io *io)
{
    struct sequence *s = ctx;
    uint32_t round;
    uint32_t i;
    memset(write_acked, 0, sizeof(write_acked));
    s->fx.io = io;
    if (filefix_try_mount(&s->fx) != 0)
        return;
    for (round = 0; round < WRITE_ROUNDS; round++) {
        struct snic_files_req *reqs[WRITERS];
        int failed = 0;
        for (i = 0; i < WRITERS; i++) {
            struct snic_files_req *r = &writes[i].req;
            memset(&writes[i], 0, sizeof(writes[i]));
            memset(write_bytes[i], write_byte(i, round), WRITE_BYTES);
            snic_files_req_init(r);
            r->op = SNIC_FILES_WRITE;
            r->flags = SNIC_FILES_SYNC;
            r->file = write_files[i];
            r->offset = (uint64_t)round * WRITE_BYTES;
            r->length = WRITE_BYTES;
            r->buf.base = write_bytes[i];
            r->buf.size = WRITE_BYTES;
            r->done = parallel_done;
            reqs[i] = r;
        }
        snic_files_submit(s->fx.files, reqs, WRITERS);
        for (i = 0; i < WRITERS; i++) {
            while (!writes[i].done)
                (void)snic_loop_once(s->fx.loop, SNIC_NEVER);
            failed |= writes[i].req.result < 0;
            if (writes[i].req.result == WRITE_BYTES)
                write_acked[i] = round + 1;
        }
        if (failed)
            break;
    }
    (void)filefix_unmount(&s->fx);
}

/* What was acknowledged is there; of what was under way every byte is new, or zero. */
static void writes_judge_file(struct snic_files *f, uint32_t i)
{
    static unsigned char buf[WRITE_ROUNDS * WRITE_BYTES];
    uint64_t id;
    uint64_t size;
    uint64_t at;
    char name[2] = {(char)('a' + i), 0};
    assert_int_equal(filefix_find(f, 0, name, &id, &size), 0);
    assert_true(size >= (uint64_t)write_acked[i] * WRITE_BYTES && size <= sizeof(buf));
    assert_true(size <= ((uint64_t)write_acked[i] + 1) * WRITE_BYTES);
    assert_int_equal(filefix_read(f, id, 0, buf, sizeof(buf)), size);
    for (at = 0; at < size; at++) {
        uint32_t round = (uint32_t)(at / WRITE_BYTES);
        if (buf[at] != write_byte(i, round) && (round < write_acked[i] || buf[at] != 0))
            fail_msg("file %u, byte %llu: %u after %u rounds", i, (unsigned long long)at, buf[at],
                     write_acked[i]);
    }
}

static void writes_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct sequence *s = ctx;
    struct snic_files *f = sequence_mount(s, io);
    uint32_t i;
    (void)cut;
    (void)survivors;
    assert_int_equal(snic_files_check(f), 0);
    for (i = 0; i < WRITERS; i++)
        writes_judge_file(f, i);
    sequence_usable(f);
    (void)filefix_unmount(&s->fx);
}

/* Commits are shared: no writer gets durability reported that only another one has. */
static void test_files_power_lost_writes_together_acknowledged_there(void **state)
{
    uint64_t tried = 0;
    uint32_t k;
    (void)state;
    for (k = 0; k < SEQUENCE_DISKS; k++) {
        struct power_case c;
        struct snic_io *io;
        uint32_t i;
        sequence_open(&seq, &sequence_disks[k]);
        io = seq.fx.io;
        filefix_mount(&seq.fx);
        for (i = 0; i < WRITERS; i++) {
            char name[2] = {(char)('a' + i), 0};
            assert_int_equal(filefix_create(seq.fx.files, 0, name, &write_files[i]), 0);
        }
        assert_int_equal(filefix_unmount(&seq.fx), 0);
        snic_disk_sync(seq.fx.disk);
        memset(&c, 0, sizeof(c));
        c.ctx = &seq;
        c.run = writes_run;
        c.judge = writes_judge;
        c.base = seq.fx.disk;
        c.loop = seq.fx.loop;
        c.seed = support_seed() + k;
        c.random = (uint32_t)support_scale(3, 40);
        c.torn = 1;
        tried += power_enumerate(&c);
        sequence_close(&seq, io);
    }
    print_message("%llu power cuts\n", (unsigned long long)tried);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_power_lost_controls_together_prefix_there),
        cmocka_unit_test(test_files_power_lost_long_checkpoint_prefix_there),
        cmocka_unit_test(test_files_power_lost_unsynced_no_foreign_bytes),
        cmocka_unit_test(test_files_power_lost_deleted_space_not_reused_early),
        cmocka_unit_test(test_files_power_lost_writes_together_acknowledged_there),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
