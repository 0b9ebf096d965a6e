/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests under way together, and what space and durability mean to them: full devices, freed
 * space under readers, truncation between writes, failing devices, shared commits.
 */
#include "filefix.h"
#include "filepattern.h"
#include "support.h"

#include <stdio.h>

#define SEG 16384u

/* A full device refuses growth whole, keeps all it has, and works on after a deletion. */
static void test_files_device_full_growth_refused_intact(void **state)
{
    struct filefix fx;
    struct snic_files_stats st;
    static unsigned char buf[3 * SEG];
    uint64_t a;
    uint64_t b;
    uint64_t at = 0;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), 0);
    pattern(buf, 100, 9, 0);
    assert_int_equal(filefix_write(fx.files, b, 0, buf, 100, SNIC_FILES_SYNC), 100);
    for (;; at += sizeof(buf)) {
        int64_t n;
        pattern(buf, sizeof(buf), 2, at);
        n = filefix_write(fx.files, a, at, buf, sizeof(buf), 0);
        if (n == SNIC_ENOSPC)
            break;
        assert_int_equal(n, sizeof(buf));
    }
    snic_files_get_stats(fx.files, &st);
    assert_true(st.segments_free < 3);
    /* Inside the allocated bytes it works; so do reads and control operations. */
    assert_int_equal(filefix_write(fx.files, b, 100, buf, 100, SNIC_FILES_SYNC), 100);
    assert_int_equal(filefix_read(fx.files, a, 0, buf, sizeof(buf)), sizeof(buf));
    assert_true(is_pattern(buf, sizeof(buf), 2, 0));
    assert_int_equal(filefix_delete(fx.files, 0, "a"), 0);
    assert_int_equal(filefix_create(fx.files, 0, "c", &a), 0);
    assert_int_equal(filefix_write(fx.files, a, 0, buf, sizeof(buf), 0), sizeof(buf));
    assert_int_equal(snic_files_check(fx.files), 0);
    filefix_close(&fx);
}

/* What unmount leaves is what mount finds, checkpoints and both journal halves included. */
static void test_files_mounted_again_everything_there(void **state)
{
    struct filefix fx;
    struct snic_files_stats st;
    static unsigned char buf[2 * SEG];
    char name[16];
    uint64_t id;
    unsigned round;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    for (round = 0; round < 120; round++) {
        (void)snprintf(name, sizeof(name), "f%u", round % 20);
        (void)filefix_delete(fx.files, 0, name);
        assert_int_equal(filefix_create(fx.files, 0, name, &id), 0);
        pattern(buf, sizeof(buf), round, 0);
        assert_int_equal(filefix_write(fx.files, id, 0, buf, 1000 + round * 100, SNIC_FILES_SYNC),
                         1000 + round * 100);
        if (round % 7 == 0) {
            assert_int_equal(filefix_unmount(&fx), 0);
            filefix_reopen(&fx);
            filefix_mount(&fx);
        }
        assert_int_equal(filefix_find(fx.files, 0, name, &id, NULL), 0);
        assert_int_equal(filefix_read(fx.files, id, 0, buf, sizeof(buf)), 1000 + round * 100);
        assert_true(is_pattern(buf, 1000 + round * 100, round, 0));
    }
    snic_files_get_stats(fx.files, &st);
    for (round = 0; round < 60; round++) {
        assert_int_equal(filefix_rename(fx.files, 0, "f3", 0, "g3", 0), 0);
        assert_int_equal(filefix_rename(fx.files, 0, "g3", 0, "f3", 0), 0);
    }
    snic_files_get_stats(fx.files, &st);
    assert_true(st.checkpoints >= 2);
    filefix_close(&fx);
}

struct flight {
    struct snic_files_req req;
    int done;
};

static void flight_done(struct snic_files_req *r)
{
    SNIC_CONTAINER(r, struct flight, req)->done++;
}

static void flight_start(struct snic_files *f, struct flight *x, int op, uint64_t file, uint64_t at,
                         void *p, size_t n, unsigned flags)
{
    struct snic_files_req *r = &x->req;
    memset(x, 0, sizeof(*x));
    snic_files_req_init(&x->req);
    x->req.op = (uint8_t)op;
    x->req.file = file;
    x->req.offset = at;
    x->req.length = n;
    x->req.buf.base = p;
    x->req.buf.size = n;
    x->req.flags = (uint16_t)flags;
    x->req.done = flight_done;
    snic_files_submit(f, &r, 1);
    assert_int_equal(x->done, 0);
}

static void flight_wait(struct filefix *fx, struct flight *x)
{
    while (!x->done)
        (void)snic_loop_once(fx->loop, SNIC_NEVER);
    assert_int_equal(x->done, 1);
}

/* Consistency rule R5: the segments of a deleted file are not written while an old read of
 * them is in flight, although they are the only free ones. */
static void test_files_deleted_under_read_space_waits(void **state)
{
    struct filefix fx;
    struct snic_files_stats st;
    struct snic_fault slow;
    struct flight rd;
    struct flight wr;
    static unsigned char big[200 * SEG];
    static unsigned char in[SEG];
    static unsigned char out[SEG];
    uint64_t a;
    uint64_t b;
    uint64_t n;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    snic_files_get_stats(fx.files, &st);
    n = st.segments_free * SEG;
    assert_true(n <= sizeof(big));
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), 0);
    pattern(big, (size_t)n, 5, 0);
    assert_int_equal(filefix_write(fx.files, a, 0, big, (size_t)n, SNIC_FILES_SYNC), n);
    memset(&slow, 0, sizeof(slow));
    slow.kind = SNIC_FAULT_DELAY;
    slow.ops = 1u << SNIC_IO_READ;
    slow.after = 1;
    slow.delay_ns = 1000000000;
    assert_int_equal(snic_disk_fault(fx.disk, &slow), 0);
    flight_start(fx.files, &rd, SNIC_FILES_READ, a, 0, in, sizeof(in), 0);
    assert_int_equal(filefix_delete(fx.files, 0, "a"), 0);
    assert_int_equal(rd.done, 0);
    memset(out, 0xee, sizeof(out));
    flight_start(fx.files, &wr, SNIC_FILES_WRITE, b, 0, out, sizeof(out), 0);
    flight_wait(&fx, &wr);
    assert_int_equal(wr.req.result, sizeof(out));
    assert_int_equal(rd.done, 1); /* the write had to wait for the read */
    assert_int_equal(rd.req.result, sizeof(in));
    assert_true(is_pattern(in, sizeof(in), 5, 0));
    snic_files_get_stats(fx.files, &st);
    assert_int_equal(st.space_waits, 1);
    assert_int_equal(st.segments_limbo, 0);
    filefix_close(&fx);
}

/* TRUNCATE waits for earlier writes of the file, and later writes for it. */
static void test_files_truncate_between_writes_ordered(void **state)
{
    struct filefix fx;
    struct flight x[3];
    struct snic_files_req st;
    static unsigned char buf[2 * SEG];
    static unsigned char back[2 * SEG];
    uint64_t id;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.disk_opts.delay_min_ns = 1000;
    fx.disk_opts.delay_max_ns = 1000000;
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    pattern(buf, sizeof(buf), 3, 0);
    flight_start(fx.files, &x[0], SNIC_FILES_WRITE, id, 0, buf, sizeof(buf), 0);
    flight_start(fx.files, &x[1], SNIC_FILES_TRUNCATE, id, 0, NULL, 100, 0);
    flight_start(fx.files, &x[2], SNIC_FILES_WRITE, id, 200, buf + 200, 100, 0);
    flight_wait(&fx, &x[0]);
    flight_wait(&fx, &x[1]);
    flight_wait(&fx, &x[2]);
    assert_int_equal(filefix_stat(fx.files, id, &st), 0);
    assert_int_equal(st.size, 300);
    assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), 300);
    assert_true(is_pattern(back, 100, 3, 0));
    assert_true(is_zero(back + 100, 100));
    assert_true(is_pattern(back + 200, 100, 3, 200));
    assert_int_equal(snic_files_check(fx.files), 0);
    filefix_close(&fx);
}

/* A failing device: the write that hits it fails, others behind its claim too, later ones work. */
static void test_files_write_fails_claims_fall_back(void **state)
{
    struct filefix fx;
    struct snic_fault f;
    struct flight x[4];
    static unsigned char buf[SEG];
    static unsigned char back[SEG];
    uint64_t id;
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.disk_opts.delay_min_ns = 1000;
    fx.disk_opts.delay_max_ns = 1000000;
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    pattern(buf, sizeof(buf), 4, 0);
    memset(&f, 0, sizeof(f));
    f.kind = SNIC_FAULT_ERROR;
    f.ops = 1u << SNIC_IO_WRITE;
    f.after = 2;
    f.error = SNIC_EIO;
    assert_int_equal(snic_disk_fault(fx.disk, &f), 0);
    for (i = 0; i < 4; i++)
        flight_start(fx.files, &x[i], SNIC_FILES_WRITE, id, i * 1000, buf + i * 1000, 1000, 0);
    for (i = 0; i < 4; i++)
        flight_wait(&fx, &x[i]);
    assert_int_equal(x[0].req.result, 1000);
    for (i = 1; i < 4; i++)
        assert_int_equal(x[i].req.result, SNIC_EIO);
    assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), 1000);
    assert_int_equal(snic_files_check(fx.files), 0);
    assert_int_equal(filefix_write(fx.files, id, 3000, buf + 3000, 1000, SNIC_FILES_SYNC), 1000);
    assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), 4000);
    assert_true(is_pattern(back, 1000, 4, 0));
    assert_true(is_zero(back + 1000, 2000));
    assert_true(is_pattern(back + 3000, 1000, 4, 3000));
    filefix_close(&fx);
}

/* A write into a gap that another write is filling with zeros is not zeroed. */
static void test_files_write_into_gap_under_way_kept(void **state)
{
    unsigned align;
    (void)state;
    for (align = 1; align <= 4096; align *= 64) {
        struct filefix fx;
        struct snic_fault slow;
        struct flight x[3];
        static unsigned char buf[SEG];
        static unsigned char back[SEG];
        uint64_t id;
        memset(&fx, 0, sizeof(fx));
        fx.disk_opts.align = align;
        fx.disk_opts.caps = align == 64 ? SNIC_IO_CAP_FUA : SNIC_IO_CAP_ZERO;
        filefix_fresh(&fx);
        assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
        memset(&slow, 0, sizeof(slow));
        slow.kind = SNIC_FAULT_DELAY;
        slow.ops = 1u << SNIC_IO_ZERO | 1u << SNIC_IO_WRITE;
        slow.after = 1;
        slow.delay_ns = 1000000;
        assert_int_equal(snic_disk_fault(fx.disk, &slow), 0);
        pattern(buf, sizeof(buf), 6, 0);
        flight_start(fx.files, &x[0], SNIC_FILES_WRITE, id, 12288, buf + 12288, 4096, 0);
        flight_start(fx.files, &x[1], SNIC_FILES_WRITE, id, 0, buf, 100, 0);
        flight_start(fx.files, &x[2], SNIC_FILES_WRITE, id, 4096, buf + 4096, 4096, 0);
        flight_wait(&fx, &x[0]);
        flight_wait(&fx, &x[1]);
        flight_wait(&fx, &x[2]);
        assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), SEG);
        assert_true(is_pattern(back, 100, 6, 0));
        assert_true(is_zero(back + 100, 3996));
        assert_true(is_pattern(back + 4096, 4096, 6, 4096));
        assert_true(is_pattern(back + 12288, 4096, 6, 12288));
        filefix_close(&fx);
    }
}

/* What is acknowledged can be read, also when an older write around it is still under way. */
static void test_files_write_within_one_under_way_readable(void **state)
{
    struct filefix fx;
    struct snic_fault slow;
    struct flight x[2];
    static unsigned char buf[8192];
    unsigned char back[100];
    unsigned i;
    uint64_t id;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    memset(&slow, 0, sizeof(slow));
    slow.kind = SNIC_FAULT_DELAY;
    slow.ops = 1u << SNIC_IO_WRITE;
    slow.after = 1;
    slow.delay_ns = 1000000;
    assert_int_equal(snic_disk_fault(fx.disk, &slow), 0);
    memset(buf, 0x55, sizeof(buf));
    flight_start(fx.files, &x[0], SNIC_FILES_WRITE, id, 0, buf, sizeof(buf), 0);
    flight_start(fx.files, &x[1], SNIC_FILES_WRITE, id, 100, buf, 100, 0);
    flight_wait(&fx, &x[1]);
    assert_int_equal(filefix_read(fx.files, id, 100, back, 100), 100);
    for (i = 0; i < 100; i++)
        assert_int_equal(back[i], 0x55);
    flight_wait(&fx, &x[0]);
    filefix_close(&fx);
}

/* A failed journal write stops metadata, not reads; the image is intact after a new mount. */
static void test_files_journal_fails_reads_go_on(void **state)
{
    struct filefix fx;
    struct snic_fault f;
    static unsigned char buf[SEG];
    uint64_t id;
    uint64_t b;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    pattern(buf, 500, 4, 0);
    assert_int_equal(filefix_write(fx.files, id, 0, buf, 500, SNIC_FILES_SYNC), 500);
    memset(&f, 0, sizeof(f));
    f.kind = SNIC_FAULT_ERROR;
    f.ops = 1u << SNIC_IO_WRITE;
    f.after = 1;
    f.error = SNIC_EIO;
    assert_int_equal(snic_disk_fault(fx.disk, &f), 0);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), SNIC_EIO);
    assert_int_equal(filefix_create(fx.files, 0, "c", &b), SNIC_EIO);
    assert_int_equal(filefix_write(fx.files, id, 0, buf, 5, 0), SNIC_EIO);
    assert_int_equal(filefix_truncate(fx.files, id, 5), SNIC_EIO);
    assert_int_equal(filefix_fsync(fx.files, id), SNIC_EIO);
    memset(buf, 0, sizeof(buf));
    assert_int_equal(filefix_read(fx.files, id, 0, buf, sizeof(buf)), 500);
    assert_true(is_pattern(buf, 500, 4, 0));
    assert_int_equal(filefix_unmount(&fx), SNIC_EIO);
    filefix_mount(&fx);
    assert_int_equal(filefix_read(fx.files, id, 0, buf, sizeof(buf)), 500);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), 0);
    filefix_close(&fx);
}

/* Inside preallocated space a SYNC write costs no journal write: one FUA write, or one flush. */
static void test_files_preallocated_sync_write_no_metadata(void **state)
{
    unsigned caps;
    (void)state;
    for (caps = 0; caps < 2; caps++) {
        struct filefix fx;
        struct snic_files_stats a;
        struct snic_files_stats b;
        static unsigned char buf[4096];
        uint64_t id;
        memset(&fx, 0, sizeof(fx));
        fx.disk_opts.caps = caps ? SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO : SNIC_IO_CAP_DISCARD;
        filefix_fresh(&fx);
        assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
        assert_int_equal(filefix_prealloc(fx.files, id, 0, 4 * SEG), 0);
        snic_files_get_stats(fx.files, &a);
        assert_int_equal(filefix_write(fx.files, id, SEG, buf, 4096, SNIC_FILES_SYNC), 4096);
        snic_files_get_stats(fx.files, &b);
        assert_int_equal(b.commits, a.commits);
        assert_int_equal(b.fua_writes - a.fua_writes, caps);
        assert_int_equal(b.flushes - a.flushes, 1 - caps);
        filefix_close(&fx);
    }
}

/* Many control operations at once share journal writes. */
static void test_files_control_together_one_commit(void **state)
{
    struct filefix fx;
    struct snic_files_stats a;
    struct snic_files_stats b;
    struct flight x[20];
    struct snic_files_req *reqs[20];
    char name[20][8];
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    snic_files_get_stats(fx.files, &a);
    memset(x, 0, sizeof(x));
    for (i = 0; i < 20; i++) {
        (void)snprintf(name[i], sizeof(name[i]), "f%u", i);
        x[i].req.op = SNIC_FILES_CREATE;
        x[i].req.name = name[i];
        x[i].req.name_size = (uint32_t)strlen(name[i]);
        x[i].req.done = flight_done;
        reqs[i] = &x[i].req;
    }
    snic_files_submit(fx.files, reqs, 20);
    for (i = 0; i < 20; i++) {
        flight_wait(&fx, &x[i]);
        assert_int_equal(x[i].req.result, 0);
    }
    snic_files_get_stats(fx.files, &b);
    assert_int_equal(b.commits - a.commits, 1);
    filefix_close(&fx);
}

enum { CROWD = 1000 };
static struct flight crowd[CROWD + 1];
static _Alignas(4096) unsigned char crowd_bytes[(CROWD + 1) * 512];

/* So many writes of 512 bytes at once; @one of them has 100. Looks at others, of all together. */
static uint64_t crowd_write(struct filefix *fx, uint64_t id, int one, int shuffle)
{
    struct snic_files_stats before;
    struct snic_files_stats after;
    uint32_t i;
    snic_files_get_stats(fx->files, &before);
    if (one)
        flight_start(fx->files, &crowd[CROWD], SNIC_FILES_WRITE, id, CROWD * 512u + 7,
                     crowd_bytes + CROWD * 512u, 100, 0);
    for (i = 0; i < CROWD; i++) {
        uint32_t k = shuffle ? i * 387u % CROWD : i;
        flight_start(fx->files, &crowd[i], SNIC_FILES_WRITE, id, k * 512u, crowd_bytes + k * 512u,
                     512, 0);
    }
    snic_files_get_stats(fx->files, &after);
    assert_true(after.in_flight >= CROWD && after.direct - before.direct >= CROWD);
    assert_int_equal(snic_files_check(fx->files), 0);
    for (i = 0; i < CROWD + (one ? 1u : 0u); i++) {
        flight_wait(fx, &crowd[i]);
        assert_true(crowd[i].req.result > 0);
        if (i % 100 == 0)
            assert_int_equal(snic_files_check(fx->files), 0);
    }
    snic_files_get_stats(fx->files, &after);
    return after.write_looks - before.write_looks;
}

/** What a write costs does not grow with the writes in flight: not when one of them is unaligned,
 *  and not when all extend their file. Counted, not timed. */
static void test_files_writes_in_flight_are_not_scanned(void **state)
{
    static unsigned char back[sizeof(crowd_bytes)];
    (void)state;
    for (int extend = 0; extend < 2; extend++) {
        for (int one = 0; one < 2 - extend; one++) {
            struct filefix fx;
            uint64_t id;
            memset(&fx, 0, sizeof(fx));
            fx.disk_opts.size = 4 << 20;
            fx.disk_opts.align = 512;
            fx.disk_opts.delay_min_ns = 1000000;
            fx.disk_opts.delay_max_ns = 9000000;
            fx.format.segment_bytes = 1 << 20;
            fx.mount.depth = 4096;
            filefix_fresh(&fx);
            pattern(crowd_bytes, sizeof(crowd_bytes), 8, 0);
            assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
            if (!extend)
                assert_int_equal(filefix_prealloc(fx.files, id, 0, sizeof(crowd_bytes)), 0);
            assert_in_range(crowd_write(&fx, id, one, !extend), 0, 40 * CROWD);
            assert_int_equal(filefix_read(fx.files, id, 0, back, CROWD * 512u), CROWD * 512u);
            assert_memory_equal(back, crowd_bytes, CROWD * 512u);
            filefix_close(&fx);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_device_full_growth_refused_intact),
        cmocka_unit_test(test_files_mounted_again_everything_there),
        cmocka_unit_test(test_files_deleted_under_read_space_waits),
        cmocka_unit_test(test_files_truncate_between_writes_ordered),
        cmocka_unit_test(test_files_write_fails_claims_fall_back),
        cmocka_unit_test(test_files_write_into_gap_under_way_kept),
        cmocka_unit_test(test_files_write_within_one_under_way_readable),
        cmocka_unit_test(test_files_journal_fails_reads_go_on),
        cmocka_unit_test(test_files_preallocated_sync_write_no_metadata),
        cmocka_unit_test(test_files_control_together_one_commit),
        cmocka_unit_test(test_files_writes_in_flight_are_not_scanned),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
