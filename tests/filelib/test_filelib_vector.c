/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Gathered writes and scattered reads in every split of a few units into pieces, on the service
 * itself and through the library over every kind of link: inside a message, and longer than one.
 */
#include "filelinks.h"
#include "filepattern.h"
#include "support.h"

#define UNITS 7u
#define SPLITS (1u << (UNITS - 1))
#define UNIT_MAX 4096u

static unsigned char pieces[UNITS][(UNITS + 1) * UNIT_MAX] __attribute__((aligned(UNIT_MAX)));

/* Bit i of `split`: a new piece begins behind unit i. `skew`: the pieces' memory is not aligned. */
static uint32_t vector_make(struct snic_iov *v, uint32_t split, uint32_t unit, uint32_t skew)
{
    uint32_t n = 0;
    uint32_t i;
    v[0].base = pieces[0] + skew;
    v[0].size = unit;
    for (i = 1; i < UNITS; i++) {
        if ((split >> (i - 1) & 1) != 0) {
            n++;
            v[n].base = pieces[n] + skew * (n + 1);
            v[n].size = 0;
        }
        v[n].size += unit;
    }
    return n + 1;
}

static void vector_fill(const struct snic_iov *v, uint32_t n, uint64_t tag)
{
    uint64_t at = 0;
    uint32_t i;
    for (i = 0; i < n; i++) {
        pattern(v[i].base, v[i].size, tag, at);
        at += v[i].size;
    }
}

static int vector_holds(const struct snic_iov *v, uint32_t n, uint64_t tag, uint64_t bytes)
{
    uint64_t at = 0;
    uint32_t i;
    for (i = 0; i < n && at < bytes; i++) {
        uint64_t k = snic_min_u64(v[i].size, bytes - at);
        if (!is_pattern(v[i].base, (size_t)k, tag, at))
            return 0;
        at += k;
    }
    return at == bytes;
}

struct shape {
    uint32_t unit;
    uint32_t skew;
    uint64_t at;
};

/* Blocks and parts of blocks, in one segment and across two, aligned memory and not. */
static const struct shape shapes[] = {
    {4096, 0, 0}, {4096, 0, 12288}, {4096, 8, 0}, {700, 0, 0}, {700, 3, 16000}, {512, 0, 512},
};

/* ---- The service ---- */

static int64_t service_vector(struct snic_files *f, int op, uint64_t file, uint64_t at,
                              struct snic_iov *v, uint32_t n, uint64_t length)
{
    struct snic_files_req r;
    snic_files_req_init(&r);
    r.op = (uint8_t)op;
    r.file = file;
    r.offset = at;
    r.length = length;
    r.iov = v;
    r.iov_count = n;
    return snic_files_run(f, &r);
}

/* Written in one split and read in the mirrored one: all bytes, and short at the end. */
static void test_filelib_vector_service_every_split_whole(void **state)
{
    static const uint32_t align[] = {1, 512, 4096};
    unsigned k;
    (void)state;
    for (k = 0; k < SNIC_COUNTOF(align); k++) {
        struct filefix fx;
        uint64_t file;
        uint32_t split;
        size_t s;
        memset(&fx, 0, sizeof(fx));
        fx.disk_opts.align = align[k];
        filefix_fresh(&fx);
        assert_int_equal(filefix_create(fx.files, 0, "a", &file), 0);
        for (s = 0; s < SNIC_COUNTOF(shapes); s++) {
            const struct shape *h = &shapes[s];
            uint64_t length = (uint64_t)h->unit * UNITS;
            assert_int_equal(filefix_truncate(fx.files, file, 0), 0);
            for (split = 0; split < SPLITS; split++) {
                struct snic_iov v[UNITS];
                uint32_t n = vector_make(v, split, h->unit, h->skew);
                vector_fill(v, n, split);
                assert_int_equal(
                    service_vector(fx.files, SNIC_FILES_WRITE, file, h->at, v, n, length), length);
                n = vector_make(v, SPLITS - 1 - split, h->unit, h->skew);
                memset(pieces, 0, sizeof(pieces));
                assert_int_equal(
                    service_vector(fx.files, SNIC_FILES_READ, file, h->at, v, n, length), length);
                assert_true(vector_holds(v, n, split, length));
            }
            assert_int_equal(filefix_truncate(fx.files, file, h->at + length / 2), 0);
            for (split = 0; split < SPLITS; split++) {
                struct snic_iov v[UNITS];
                uint32_t n = vector_make(v, split, h->unit, h->skew);
                memset(pieces, 0, sizeof(pieces));
                assert_int_equal(
                    service_vector(fx.files, SNIC_FILES_READ, file, h->at, v, n, length),
                    length / 2);
                assert_true(vector_holds(v, n, SPLITS - 1, length / 2));
            }
        }
        filefix_close(&fx);
    }
}

/* ---- The library ---- */

static int64_t library_vector(struct filelink *l, uint64_t file, uint8_t op, uint64_t at,
                              const struct snic_iov *v, uint32_t n)
{
    struct snic_filelib_file handle;
    struct snic_filelib_req r;
    struct snic_filelib_req *out[1];
    memset(&r, 0, sizeof(r));
    snic_filelib_add(l->group, &handle, file);
    snic_filelib_vector(&handle, &r, op, at, v, n);
    assert_int_equal(snic_filelib_wait(l->group, out, 1, SNIC_NEVER), 1);
    assert_ptr_equal(out[0], &r);
    return r.result;
}

static void library_splits(struct filelink *l, uint64_t file, const struct shape *h)
{
    uint64_t length = (uint64_t)h->unit * UNITS;
    uint32_t split;
    for (split = 0; split < SPLITS; split++) {
        struct snic_iov v[UNITS];
        uint32_t n = vector_make(v, split, h->unit, h->skew);
        vector_fill(v, n, split + 1);
        assert_int_equal(library_vector(l, file, SNIC_FILES_WRITE, h->at, v, n), length);
        n = vector_make(v, SPLITS - 1 - split, h->unit, h->skew);
        memset(pieces, 0, sizeof(pieces));
        assert_int_equal(library_vector(l, file, SNIC_FILES_READ, h->at, v, n), length);
        assert_true(vector_holds(v, n, split + 1, length));
    }
}

/* The same over each kind of link; with small messages a piece may end inside of any part. */
static void test_filelib_vector_library_every_split_whole(void **state)
{
    unsigned kind;
    unsigned small;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        for (small = 0; small < 2; small++) {
            struct filelink l;
            uint64_t file;
            size_t s;
            link_setup(&l, kind);
            l.fx.disk_opts.delay_max_ns = 0;
            l.open.up_bytes = small ? 65536 : 1u << 20; /* the rings decide how long a message is */
            l.open.down_bytes = l.open.up_bytes;
            filelink_open(&l);
            if (small ? snic_filelib_max(l.group) >= 7 * UNIT_MAX
                      : snic_filelib_max(l.group) < 7 * UNIT_MAX)
                fail_msg("messages of %u bytes", snic_filelib_max(l.group));
            assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &file), 0);
            for (s = 0; s < SNIC_COUNTOF(shapes); s++)
                library_splits(&l, file, &shapes[s]);
            filelink_close(&l);
        }
    }
}

/** With default options the device reads and writes the rings, whatever alignment it wants. */
static void test_filelib_default_needs_no_bounce(void **state)
{
    (void)state;
    for (uint32_t align = 512; align <= 4096; align *= 8) {
        struct snic_files_stats st;
        static unsigned char bytes[8 * 4096];
        struct filelink l;
        uint64_t file = 0;
        memset(&l, 0, sizeof(l));
        l.fx.disk_opts.align = align;
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, SNIC_FILES_ROOT, "f", &file),
                         0);
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(filelink_write(l.group, file, i * 4096, bytes + i * 4096, 4096, 0),
                             4096);
            assert_int_equal(filelink_read(l.group, file, i * 4096, bytes + i * 4096, 4096), 4096);
        }
        snic_files_get_stats(l.fx.files, &st);
        assert_int_equal(st.bounced, 0);
        filelink_close(&l);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_default_needs_no_bounce),
        cmocka_unit_test(test_filelib_vector_service_every_split_whole),
        cmocka_unit_test(test_filelib_vector_library_every_split_whole),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
