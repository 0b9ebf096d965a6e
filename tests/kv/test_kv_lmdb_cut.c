/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on LMDB when its files were cut short, or the pages on which LMDB's file states what it
 * is hold something else. LMDB reads the file as memory, so what goes wrong here is a signal.
 */
#include "kv_lmdb_util.h"

#include <fcntl.h>
#include <sys/stat.h>

enum {
    CUT_RECORDS = 400,
    CUT_LARGE = 6, /* records with pages of their own */
    CUT_GONE = 4,  /* others, whose pages are free again, at the file's end */
    CUT_LARGE_BYTES = 9000,
    CUT_BLOCKS = 10,
    CUT_META = 16 + 136, /* a page's head and LMDB's meta */
    CUT_PAGE = 4096
};

struct cut {
    char path[512];
    char data[600];
    char objects[600];
    unsigned char *bytes; /* data.mdb as it was */
    size_t size;
};

static int64_t cut_put_large(struct kvl *k, uint64_t n, const void *value)
{
    struct snic_kvop_change c = {
        .key = kvl_key(2, n), .kind = SNIC_KVOP_PUT, .value = value, .size = CUT_LARGE_BYTES};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    return kvl_run(k, &op);
}

static void cut_setup(struct cut *t)
{
    struct kvl k;
    struct stat st;
    unsigned char b[CUT_LARGE_BYTES];
    memset(t, 0, sizeof(*t));
    kvl_path(t->path, sizeof(t->path));
    (void)snprintf(t->data, sizeof(t->data), "%s/data.mdb", t->path);
    (void)snprintf(t->objects, sizeof(t->objects), "%s/objects", t->path);
    kvl_open(&k, t->path, SNIC_KV_OPEN_CREATE);
    for (uint64_t i = 0; i < CUT_RECORDS; i++)
        assert_int_equal(kvl_put(&k, 1, i, i + 100, 0), 0);
    for (uint64_t i = 0; i < CUT_BLOCKS; i++) {
        kvl_fill(b, 5, i * KVL_BLOCK, KVL_BLOCK, 1);
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 5, i * KVL_BLOCK, KVL_BLOCK, b),
                         KVL_BLOCK);
    }
    assert_int_equal(kvl_sync(&k), 0);
    for (uint64_t i = 0; i < CUT_LARGE + CUT_GONE; i++) {
        memset(b, (int)i + 1, sizeof(b));
        assert_int_equal(cut_put_large(&k, i, b), 0);
        assert_int_equal(kvl_sync(&k), 0);
    }
    for (uint64_t i = CUT_LARGE; i < CUT_LARGE + CUT_GONE; i++) {
        struct snic_kvop_change c = {.key = kvl_key(2, i), .kind = SNIC_KVOP_DELETE};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
        assert_int_equal(kvl_run(&k, &op), 0);
    }
    kvl_close(&k);
    assert_int_equal(stat(t->data, &st), 0);
    t->size = (size_t)st.st_size;
    t->bytes = malloc(t->size);
    assert_non_null(t->bytes);
    int fd = open(t->data, O_RDONLY);
    assert_int_equal(read(fd, t->bytes, t->size), t->size);
    (void)close(fd);
}

/** As it was, but only so many bytes of it, and @p count others at @p at. */
static void cut_write(const struct cut *t, size_t size, size_t at, const void *other, size_t count)
{
    int fd = open(t->data, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, t->bytes, size), size);
    if (count > 0)
        assert_int_equal(pwrite(fd, other, count, (off_t)at), count);
    (void)close(fd);
}

/** Everything is read; 1: all of it is there and right. */
static int cut_read(struct kvl *k)
{
    static unsigned char b[CUT_LARGE_BYTES];
    int right = 1;
    for (uint64_t i = 0; i < CUT_RECORDS; i++) {
        uint64_t v = 0;
        struct snic_kvop_get g = {.key = kvl_key(1, i), .value = &v, .room = sizeof(v)};
        struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
        right &= kvl_run(k, &op) == 0 && v == i + 100;
    }
    for (uint64_t i = 0; i < CUT_LARGE; i++) {
        struct snic_kvop_get g = {.key = kvl_key(2, i), .value = b, .room = sizeof(b)};
        struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
        right &= kvl_run(k, &op) == 0 && g.size == sizeof(b) && b[0] == i + 1 &&
                 b[sizeof(b) - 1] == i + 1;
    }
    for (uint64_t i = 0; i < CUT_BLOCKS; i++)
        right &=
            kvl_object(k, SNIC_KVOP_OBJECT_READ, 0, 5, i * KVL_BLOCK, KVL_BLOCK, b) == KVL_BLOCK &&
            kvl_filled(b, 5, i * KVL_BLOCK, KVL_BLOCK, 1);
    return right;
}

/** 0: open, read and closed, @p right is how it was; else why it was refused, and the text. */
static int cut_open(const struct cut *t, uint32_t flags, char *text, int *right)
{
    struct kvl k;
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = t->path, .flags = flags};
    text[0] = '\0';
    *right = 0;
    int r = kvl_try(&k, &o, text);
    if (r != 0) {
        assert_true(text[0] != '\0');
        return r;
    }
    *right = cut_read(&k);
    kvl_close(&k);
    return 0;
}

static const uint32_t cut_flags[] = {SNIC_KV_OPEN_READONLY, 0};

/* Opening a store that was cut fails with the sizes, before anything is read; that what
 * is missing was free is no fault. */
static void test_kv_lmdb_cut_data_is_reported_with_its_size(void **state)
{
    struct cut t;
    struct snic_rng rng;
    char text[256];
    char size_text[64];
    int right;
    uint32_t refused = 0;
    uint32_t taken = 0;
    (void)state;
    cut_setup(&t);
    assert_true(t.size % CUT_PAGE == 0 && t.size / CUT_PAGE > 10);
    snic_rng_init(&rng, support_seed());
    size_t pages = t.size / CUT_PAGE;
    for (size_t i = 0; i < 2 * pages + 40; i++) {
        size_t size = i <= pages      ? i * CUT_PAGE
                      : i < 2 * pages ? (i - pages) * CUT_PAGE + CUT_META + i
                                      : (size_t)snic_rng_below(&rng, t.size);
        for (uint32_t f = 0; f < 2; f++) {
            cut_write(&t, size, 0, NULL, 0);
            int r = cut_open(&t, cut_flags[f], text, &right);
            if (r == 0) {
                assert_true(right);
                taken += size < t.size;
                continue;
            }
            refused++;
            assert_int_equal(r, size == 0 ? SNIC_ENOENT : SNIC_ECORRUPT);
            assert_true(size < t.size);
            assert_non_null(strstr(text, "data.mdb"));
            (void)snprintf(size_text, sizeof(size_text), "has %zu bytes of ", size);
            if (size >= CUT_META && strstr(text, size_text) == NULL)
                fail_msg("%zu bytes: %s", size, text);
        }
    }
    assert_true(refused > pages);
    assert_true(taken > 2);
    free(t.bytes);
}

/* No bit of a meta ends the process, whatever it then holds. */
static void test_kv_lmdb_cut_meta_of_other_bytes_is_no_signal(void **state)
{
    struct cut t;
    struct snic_rng rng;
    unsigned char junk[CUT_META];
    char text[256];
    int right;
    (void)state;
    cut_setup(&t);
    snic_rng_init(&rng, support_seed());
    for (size_t meta = 0; meta < 2; meta++) {
        for (size_t i = 0; i < CUT_META * 2; i++) {
            size_t at = meta * CUT_PAGE + i / 2;
            unsigned char other = t.bytes[at] ^ (unsigned char)(1U << snic_rng_below(&rng, 8));
            if (i % 2 == 1)
                other = t.bytes[at] ^ 0xff;
            cut_write(&t, t.size, at, &other, 1);
            for (uint32_t f = 0; f < 2; f++)
                (void)cut_open(&t, cut_flags[f], text, &right);
        }
    }
    /* All of a meta; all but what identifies it as one; the size of a page only. */
    static const size_t parts[3][2] = {{0, CUT_META}, {24, CUT_META}, {40, 44}};
    for (uint32_t part = 0; part < 3; part++) {
        size_t at = parts[part][0];
        for (size_t i = 0; i < sizeof(junk); i++)
            junk[i] = part == 2 ? 0 : (unsigned char)snic_rng_below(&rng, 256);
        for (size_t meta = 0; meta < 2; meta++) {
            for (uint32_t f = 0; f < 2; f++) {
                cut_write(&t, t.size, meta * CUT_PAGE + at, junk, parts[part][1] - at);
                assert_int_equal(cut_open(&t, cut_flags[f], text, &right), SNIC_ECORRUPT);
                assert_non_null(strstr(text, "data.mdb"));
            }
        }
    }
    free(t.bytes);
}

/** A change of everything: records of each kind come and go. What comes of it does not matter. */
static void cut_change(const struct cut *t, uint32_t flags)
{
    struct kvl k;
    unsigned char b[CUT_LARGE_BYTES] = {0};
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = t->path, .flags = flags};
    if (kvl_try(&k, &o, NULL) != 0)
        return;
    for (uint64_t i = 0; i < CUT_RECORDS; i += 3) {
        struct snic_kvop_change c = {.key = kvl_key(1, i), .kind = SNIC_KVOP_DELETE};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
        (void)kvl_run(&k, &op);
        (void)kvl_put(&k, 1, 1000 + i, i, 0);
    }
    (void)kvl_sync(&k);
    (void)cut_put_large(&k, 1, b);
    (void)cut_put_large(&k, 50, b);
    (void)kvl_sync(&k);
    kvl_close(&k);
}

/* With SNIC_KV_OPEN_VERIFY no byte of a page ends the process, neither that reads nor that writes;
 * what was not damaged is opened. */
static void test_kv_lmdb_cut_page_of_other_bytes_is_no_signal(void **state)
{
    enum { CUT_TRIES = 12 };
    static unsigned char zeros[CUT_PAGE];
    struct cut t;
    struct snic_rng rng;
    char text[256];
    int right;
    uint32_t refused = 0;
    (void)state;
    cut_setup(&t);
    snic_rng_init(&rng, support_seed());
    for (uint32_t f = 0; f < 2; f++) {
        assert_int_equal(cut_open(&t, cut_flags[f] | SNIC_KV_OPEN_VERIFY, text, &right), 0);
        assert_true(right);
    }
    for (size_t page = 2; page < t.size / CUT_PAGE; page++)
        for (uint32_t i = 0; i < CUT_TRIES; i++) {
            const unsigned char *p = t.bytes + page * CUT_PAGE;
            size_t node = (size_t)p[16] | (size_t)p[17] << 8; /* a leaf's or branch's first */
            size_t at = i < 4   ? (size_t)snic_rng_below(&rng, 16)
                        : i < 6 ? 16 + (size_t)snic_rng_below(&rng, 16)
                        : i < 9 ? (node + (size_t)snic_rng_below(&rng, 16)) % CUT_PAGE
                                : (size_t)snic_rng_below(&rng, CUT_PAGE);
            unsigned char other = p[at] ^ (unsigned char)(1U << snic_rng_below(&rng, 8));
            size_t from = 2 + (size_t)snic_rng_below(&rng, t.size / CUT_PAGE - 2);
            const void *bytes = i == 0 ? zeros : i == 1 ? t.bytes + from * CUT_PAGE : &other;
            for (uint32_t f = 0; f < 3; f++) {
                uint32_t flags = SNIC_KV_OPEN_VERIFY | (f == 0 ? SNIC_KV_OPEN_READONLY : 0);
                cut_write(&t, t.size, page * CUT_PAGE + (i < 2 ? 0 : at), bytes,
                          i < 2 ? CUT_PAGE : 1);
                if (f == 2) {
                    cut_change(&t, flags);
                    continue;
                }
                int r = cut_open(&t, flags, text, &right);
                refused += r != 0;
                if (r == SNIC_ECORRUPT)
                    assert_non_null(strstr(text, "damaged"));
            }
        }
    assert_true(refused > t.size / CUT_PAGE);
    free(t.bytes);
}

/* Blocks that are not there any more are damaged blocks; the rest is as it was. */
static void test_kv_lmdb_cut_objects_are_damaged_not_a_signal(void **state)
{
    struct cut t;
    struct snic_rng rng;
    char text[256];
    int right;
    unsigned char b[1 << 17];
    (void)state;
    cut_setup(&t);
    snic_rng_init(&rng, support_seed());
    int fd = open(t.objects, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, b, sizeof(b), 0), sizeof(b));
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    for (size_t i = 0; i < 60; i++) {
        size_t size = i < 16 ? i * KVL_BLOCK : (size_t)snic_rng_below(&rng, sizeof(b));
        for (uint32_t f = 0; f < 2; f++) {
            cut_write(&t, t.size, 0, NULL, 0);
            assert_int_equal(ftruncate(fd, 0), 0);
            assert_int_equal(pwrite(fd, b, size, 0), size);
            int r = cut_open(&t, cut_flags[f], text, &right);
            if (size < KVL_BLOCK) {
                if (r == 0)
                    assert_true(size >= 52); /* the seal of the head */
                else
                    assert_non_null(strstr(text, "objects"));
            }
            if (size < 10UL * KVL_BLOCK)
                assert_false(right);
        }
    }
    cut_write(&t, t.size, 0, NULL, 0);
    assert_int_equal(pwrite(fd, b, sizeof(b), 0), sizeof(b));
    assert_int_equal(ftruncate(fd, st.st_size), 0);
    assert_int_equal(cut_open(&t, 0, text, &right), 0);
    assert_true(right);
    (void)close(fd);
    free(t.bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_cut_data_is_reported_with_its_size),
        cmocka_unit_test(test_kv_lmdb_cut_meta_of_other_bytes_is_no_signal),
        cmocka_unit_test(test_kv_lmdb_cut_page_of_other_bytes_is_no_signal),
        cmocka_unit_test(test_kv_lmdb_cut_objects_are_damaged_not_a_signal),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
