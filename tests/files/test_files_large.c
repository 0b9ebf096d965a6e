/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An image of 1 TiB in a sparse file of the machine: offsets beyond 32 bits everywhere, the last
 * segment, a device that is full, and what comes back of all that.
 */
#include "support.h"

#include "snicstore/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TIB ((uint64_t)1 << 40)
#define SEG ((uint64_t)256 << 20)
#define BLOCK 4096u
#define FILES 4u

struct large {
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_files *files;
    void *mem;
    size_t size;
    struct snic_files_info info;
    uint64_t ids[FILES];
    char path[256];
};

static unsigned char bytes[BLOCK] __attribute__((aligned(BLOCK)));

static void large_open(struct large *l, uint32_t segment)
{
    struct snic_io_uring_opts o;
    struct snic_files_format_opts fo;
    int fd;
    memset(l, 0, sizeof(*l));
    if (snic_loop_uring_open(&l->loop, NULL) != 0)
        support_skip("no io_uring");
    support_tmpname(l->path, sizeof(l->path), "large");
    fd = open(l->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (ftruncate(fd, (off_t)TIB) != 0) {
        (void)close(fd);
        snic_loop_close(l->loop);
        support_skip("the file system has no sparse files of 1 TiB");
    }
    (void)close(fd);
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.flags = SNIC_IO_OPEN_TRY_DIRECT;
    o.path = l->path;
    assert_int_equal(snic_io_uring_open(&l->io, l->loop, &o, NULL), 0);
    assert_int_equal(l->io->geometry.size, TIB);
    memset(&fo, 0, sizeof(fo));
    fo.opts_size = sizeof(fo);
    fo.segment_bytes = segment;
    fo.files_max = 64;
    assert_int_equal(snic_files_format(l->io, &fo), 0);
}

static void large_mount(struct large *l)
{
    assert_int_equal(snic_files_probe(l->io, &l->info), 0);
    l->size = snic_files_memsize(&l->info, NULL);
    assert_true(l->size != 0);
    l->mem = aligned_alloc(SNIC_FILES_ALIGN, (size_t)snic_align_up(l->size, SNIC_FILES_ALIGN));
    assert_non_null(l->mem);
    assert_int_equal(snic_files_mount(&l->files, l->mem, l->size, l->io, NULL), 0);
}

static void large_unmount(struct large *l)
{
    assert_int_equal(snic_files_unmount(l->files), 0);
    free(l->mem);
}

static void large_close(struct large *l)
{
    snic_io_close(l->io);
    snic_loop_close(l->loop);
    assert_int_equal(unlink(l->path), 0);
}

static int64_t large_op(struct large *l, int op, const char *name, uint64_t file, uint64_t at,
                        uint64_t n, uint64_t *id)
{
    struct snic_files_req r;
    snic_files_req_init(&r);
    r.op = (uint8_t)op;
    r.name = name;
    r.name_size = name != NULL ? (uint32_t)strlen(name) : 0;
    r.file = file;
    r.offset = at;
    r.length = n;
    if (op == SNIC_FILES_READ || op == SNIC_FILES_WRITE) {
        r.buf.base = bytes;
        r.buf.size = (size_t)n;
    }
    (void)snic_files_run(l->files, &r);
    if (id != NULL)
        *id = r.id;
    return r.result;
}

/* A block with its file and its offset in it. */
static void large_mark(uint64_t file, uint64_t at)
{
    uint32_t i;
    for (i = 0; i < BLOCK; i += 16) {
        snic_put_le64(bytes + i, file);
        snic_put_le64(bytes + i + 8, at ^ i);
    }
}

static int large_marked(uint64_t file, uint64_t at)
{
    uint32_t i;
    for (i = 0; i < BLOCK; i += 16)
        if (snic_get_le64(bytes + i) != file || snic_get_le64(bytes + i + 8) != (at ^ i))
            return 0;
    return 1;
}

static uint64_t large_free(const struct large *l)
{
    struct snic_files_stats st;
    snic_files_get_stats(l->files, &st);
    return st.segments_free;
}

/* Write a block into every segment there is, in turn into four files. */
static void large_fill(struct large *l)
{
    uint64_t i;
    for (i = 0; i < FILES; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "f%u", (unsigned)i);
        assert_int_equal(large_op(l, SNIC_FILES_CREATE, name, 0, 0, 0, &l->ids[i]), 0);
    }
    for (i = 0; i < l->info.segments; i++) {
        uint64_t at = i / FILES * SEG;
        large_mark(l->ids[i % FILES], at);
        assert_int_equal(large_op(l, SNIC_FILES_WRITE, NULL, l->ids[i % FILES], at, BLOCK, NULL),
                         BLOCK);
    }
    for (i = 0; i < FILES; i++)
        assert_int_equal(large_op(l, SNIC_FILES_FSYNC, NULL, l->ids[i], 0, 0, NULL), 0);
}

static void large_judge(struct large *l, uint64_t from)
{
    uint64_t i;
    for (i = from; i < l->info.segments; i++) {
        uint64_t at = i / FILES * SEG;
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(large_op(l, SNIC_FILES_READ, NULL, l->ids[i % FILES], at, BLOCK, NULL),
                         BLOCK);
        assert_true(large_marked(l->ids[i % FILES], at));
    }
}

static void large_finding(void *ctx, int error, const char *what, uint64_t number)
{
    (void)number;
    if (error != 0)
        print_message("%s\n", what);
    *(int *)ctx |= error;
}

/*
 * Every segment of the TiB holds data, the last ones too; one more is refused and nothing is lost;
 * a deleted file makes room, which another takes; and all is there after each mount.
 */
static void test_files_large_filled_to_the_end_everything_there(void **state)
{
    struct large l;
    uint64_t id;
    uint64_t i;
    int errors = 0;
    (void)state;
    large_open(&l, (uint32_t)SEG);
    large_mount(&l);
    assert_true(l.info.segments > 4000);
    large_fill(&l);
    assert_int_equal(large_free(&l), 0);
    assert_int_equal(
        large_op(&l, SNIC_FILES_WRITE, NULL, l.ids[0], l.info.segments * SEG, BLOCK, NULL),
        SNIC_ENOSPC);
    large_judge(&l, l.info.segments - 64);
    large_unmount(&l);
    large_mount(&l);
    assert_int_equal(snic_files_check(l.files), 0);
    assert_int_equal(large_free(&l), 0);
    large_judge(&l, 0);
    assert_int_equal(large_op(&l, SNIC_FILES_DELETE, "f3", 0, 0, 0, NULL), 0);
    assert_int_equal(large_op(&l, SNIC_FILES_CREATE, "g", 0, 0, 0, &id), 0);
    for (i = 0; i < l.info.segments / FILES; i++) {
        large_mark(id, i * SEG);
        assert_int_equal(large_op(&l, SNIC_FILES_WRITE, NULL, id, i * SEG, BLOCK, NULL), BLOCK);
    }
    l.ids[3] = id;
    large_unmount(&l);
    large_mount(&l);
    large_judge(&l, 0);
    large_unmount(&l);
    l.mem = aligned_alloc(SNIC_FILES_ALIGN, (size_t)snic_align_up(l.size, SNIC_FILES_ALIGN));
    assert_non_null(l.mem);
    assert_int_equal(snic_files_examine(l.io, l.mem, l.size, large_finding, &errors), 0);
    assert_int_equal(errors, 0);
    free(l.mem);
    large_close(&l);
}

/* A million segments, the default size: mounted, used and checked in bounded memory. */
static void test_files_large_million_segments_mounted(void **state)
{
    struct large l;
    uint64_t id;
    (void)state;
    large_open(&l, 0);
    large_mount(&l);
    assert_true(l.info.segments > 1000000);
    assert_true(l.size < (size_t)100 << 20);
    assert_int_equal(large_op(&l, SNIC_FILES_CREATE, "a", 0, 0, 0, &id), 0);
    large_mark(id, 0);
    assert_int_equal(large_op(&l, SNIC_FILES_WRITE, NULL, id, TIB, BLOCK, NULL), BLOCK);
    large_unmount(&l);
    large_mount(&l);
    assert_int_equal(large_op(&l, SNIC_FILES_READ, NULL, id, TIB, BLOCK, NULL), BLOCK);
    assert_true(large_marked(id, 0));
    assert_int_equal(large_op(&l, SNIC_FILES_READ, NULL, id, TIB / 2, BLOCK, NULL), BLOCK);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(snic_files_check(l.files), 0);
    large_unmount(&l);
    large_close(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_large_filled_to_the_end_everything_there),
        cmocka_unit_test(test_files_large_million_segments_mounted),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
