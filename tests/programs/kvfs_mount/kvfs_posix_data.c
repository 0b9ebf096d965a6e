/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* File contents: fallocate, holes, mmap, copy_file_range, large offsets, O_DIRECT, vectors. */
#include "kvfs_posix.h"
#include <linux/falloc.h>
#include <sys/uio.h>

enum { KEEP = FALLOC_FL_KEEP_SIZE, PUNCH = FALLOC_FL_PUNCH_HOLE, ZERO = FALLOC_FL_ZERO_RANGE };

static volatile uintptr_t data_bad_address = 8;
static char data_a[1 << 20], data_b[1 << 20];

static void data_pattern(char *at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = (char)(1 + (i * 7 + seed) % 251);
    }
}

static int data_open(const char *path)
{
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0644);
    TRUE(fd != -1);
    return fd;
}

/* A new file x of n pattern bytes; data_a holds the same bytes. */
static int data_file(size_t n)
{
    int fd = data_open("x");
    memset(data_a, 0, sizeof(data_a));
    data_pattern(data_a, n, 3);
    EQ(n, pwrite(fd, data_a, n, 0));
    return fd;
}

/* Check that the file has n bytes and that they equal data_a. */
static void data_same(int fd, size_t n)
{
    EQ(n, fst_of(fd).st_size);
    memset(data_b, 1, sizeof(data_b));
    EQ(n, pread(fd, data_b, n, 0));
    TRUE(memcmp(data_a, data_b, n) == 0);
}

static void data_fallocate(void)
{
    static const size_t sizes[] = {0, 100, 8192, 8193, 300000};
    static const off_t ranges[][2] = {{0, 1},       {0, 4096},     {100, 50},      {4096, 4096},
                                      {8192, 8192}, {4000, 10000}, {100000, 1},    {65536, 131072},
                                      {0, 300000},  {299999, 2},   {500000, 1000}, {12288, 20480}};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++) {
            static const int modes[] = {0, KEEP, PUNCH | KEEP, ZERO, ZERO | KEEP};
            for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
                off_t at = ranges[r][0], n = ranges[r][1];
                size_t size = sizes[s];
                posix_about("fallocate mode %d of %lld+%lld in %zu bytes", modes[m], (long long)at,
                            (long long)n, size);
                int fd = data_file(size);
                IS(0, fallocate(fd, modes[m], at, n));
                if (modes[m] & (PUNCH | ZERO)) {
                    memset(data_a + at, 0, (size_t)n);
                }
                if (!(modes[m] & KEEP) && at + n > (off_t)size) {
                    size = (size_t)(at + n);
                }
                data_same(fd, size);
                close(fd);
            }
        }
    }
    unlink("x");
}

static void data_fallocate_errors(void)
{
    posix_about("posix_fallocate");
    int fd = data_open("x");
    CHANGES(0, posix_fallocate(fd, 0, 100), {.path = "x", .change = "mc"});
    EQ(100, st_of("x").st_size);
    EQ(0, posix_fallocate(fd, 50, 20));
    EQ(100, st_of("x").st_size);
    EQ(EINVAL, posix_fallocate(fd, -1, 10));
    EQ(EINVAL, posix_fallocate(fd, 0, -1));
    EQ(EINVAL, posix_fallocate(fd, 0, 0));
    EQ(EFBIG, posix_fallocate(fd, INT64_MAX - 10, 100));
    EQ(0, posix_fallocate(fd, 1 << 20, 1 << 20));
    EQ(2 << 20, st_of("x").st_size);
    const char *store = getenv("KVFS_STORE"); /* Ceph reserves no space (kvfs.h, FALLOCATE) */
    if (store == NULL || strcmp(store, "rados") != 0)
        TRUE(st_of("x").st_blocks >= (1 << 20) / 512);
    posix_about("fallocate refused");
    IS(EINVAL, fallocate(fd, 0, 0, 0));
    IS(EINVAL, fallocate(fd, 0, -1, 1));
    IS(EOPNOTSUPP, fallocate(fd, PUNCH, 0, 4096));
    CHANGES(0, fallocate(fd, PUNCH | KEEP, 0, 4096), {.path = "x", .change = "mc"});
    chmod("x", 06777);
    user(U2, G2, 0, 0);
    IS(0, fallocate(fd, 0, 0, 4 << 20));
    root();
    close(fd);
    fd = open("x", O_RDONLY | O_CLOEXEC);
    EQ(EBADF, posix_fallocate(fd, 0, 10));
    close(fd);
    unlink("x");
    int p[2];
    IS(0, pipe2(p, O_CLOEXEC));
    EQ(ESPIPE, posix_fallocate(p[1], 0, 10));
    close(p[0]);
    close(p[1]);
}

/* ---- Holes ---- */

static void data_sparse(void)
{
    posix_about("a sparse file");
    int fd = data_open("x");
    EQ(5, pwrite(fd, "bytes", 5, 100 << 20));
    EQ((100 << 20) + 5, st_of("x").st_size);
    IS(0, fsync(fd));
    TRUE(st_of("x").st_blocks < 4096);
    TRUE(st_of("x").st_blocks > 0);
    EQ(sizeof(data_b), pread(fd, data_b, sizeof(data_b), 50 << 20));
    memset(data_a, 0, sizeof(data_a));
    TRUE(memcmp(data_a, data_b, sizeof(data_a)) == 0);
    off_t at = lseek(fd, 0, SEEK_DATA); /* a writable file may count as all data */
    TRUE(at >= 0 && at <= 100 << 20);
    EQ((100 << 20) + 5, lseek(fd, 100 << 20, SEEK_HOLE));
    close(fd);
    fd = open("x", O_RDONLY | O_CLOEXEC);
    EQ(0, lseek(fd, 0, SEEK_HOLE));
    at = lseek(fd, 0, SEEK_DATA);
    TRUE(at >= (100 << 20) - (4 << 20) && at <= 100 << 20);
    EQ((100 << 20) + 5, lseek(fd, 100 << 20, SEEK_HOLE));
    IS(ENXIO, lseek(fd, (100 << 20) + 5, SEEK_DATA));
    IS(ENXIO, lseek(fd, (100 << 20) + 5, SEEK_HOLE));
    IS(ENXIO, lseek(fd, 1LL << 40, SEEK_DATA));
    close(fd);
    fd = open("x", O_RDWR | O_CLOEXEC);
    posix_about("st_blocks of a sparse file");
    blkcnt_t before = st_of("x").st_blocks;
    EQ(sizeof(data_a), pwrite(fd, data_a, sizeof(data_a), 1 << 20));
    IS(0, fsync(fd));
    TRUE(st_of("x").st_blocks >= before + (1 << 20) / 512);
    before = st_of("x").st_blocks;
    IS(0, fallocate(fd, PUNCH | KEEP, 1 << 20, 1 << 20));
    IS(0, fsync(fd));
    TRUE(st_of("x").st_blocks <= before - (1 << 20) / 512);
    IS(0, ftruncate(fd, 0));
    EQ(0, st_of("x").st_blocks);
    posix_about("a file without holes");
    fd = data_file(100000);
    IS(0, fsync(fd));
    EQ(0, lseek(fd, 0, SEEK_DATA));
    EQ(77777, lseek(fd, 77777, SEEK_DATA));
    EQ(100000, lseek(fd, 0, SEEK_HOLE));
    TRUE(st_of("x").st_blocks >= 100000 / 512 && st_of("x").st_blocks <= 110000 / 512 + 16);
    close(fd);
    fill("x", "");
    fd = open("x", O_RDWR | O_CLOEXEC);
    IS(ENXIO, lseek(fd, 0, SEEK_DATA));
    IS(EINVAL, lseek(fd, -1, SEEK_SET));
    close(fd);
    unlink("x");
}

static void data_seek_pattern(void)
{
    posix_about("alternating data and holes");
    int fd = data_open("x");
    data_pattern(data_a, 65536, 1);
    for (off_t i = 0; i < 8; i++) {
        EQ(65536, pwrite(fd, data_a, 65536, i * 131072));
    }
    IS(0, ftruncate(fd, 8 * 131072));
    IS(0, fsync(fd));
    for (off_t i = 0; i < 8; i++) {
        EQ(i * 131072, lseek(fd, i * 131072, SEEK_DATA));
    }
    close(fd);
    fd = open("x", O_RDONLY | O_CLOEXEC);
    for (off_t i = 0; i < 8; i++) {
        EQ(i * 131072, lseek(fd, i * 131072, SEEK_DATA));
        EQ(i * 131072 + 65536, lseek(fd, i * 131072, SEEK_HOLE));
        if (i < 7) {
            EQ((i + 1) * 131072, lseek(fd, i * 131072 + 65536, SEEK_DATA));
        }
    }
    IS(ENXIO, lseek(fd, 7 * 131072 + 65536, SEEK_DATA));
    close(fd);
    unlink("x");
}

static void data_large_offsets(void)
{
    off_t most = posix_is_kvfs ? 1LL << 62 : 1LL << 43; /* ext4: 16 TiB */
    char c = 0;
    int fd = data_open("x");
    for (off_t at = 1LL << 30; at < most; at *= 2) {
        posix_about("a byte at 2^%d", __builtin_ctzll((unsigned long long)at));
        EQ(1, pwrite(fd, "B", 1, at));
        EQ(at + 1, fst_of(fd).st_size);
        EQ(1, pread(fd, &c, 1, at));
        EQ('B', c);
        EQ(1, pread(fd, &c, 1, at - 1));
        EQ(0, c);
    }
    IS(0, fsync(fd));
    TRUE(st_of("x").st_blocks < 1 << 20);
    posix_about("the largest size");
    if (posix_is_kvfs) {
        IS(0, ftruncate(fd, most));
        EQ(most, fst_of(fd).st_size);
        IS(EFBIG, pwrite(fd, "B", 1, most));
        TRUE(ftruncate(fd, most + 1) == -1 && (errno == EFBIG || errno == EINVAL));
        EQ(most, fst_of(fd).st_size);
        EQ(1, pwrite(fd, "E", 1, most - 1));
        EQ(1, pread(fd, &c, 1, most - 1));
        EQ('E', c);
    } else {
        IS(EFBIG, pwrite(fd, "B", 1, 1LL << 60));
    }
    IS(EFBIG, pwrite(fd, "B", 1, INT64_MAX - 1));
    IS(0, ftruncate(fd, 0));
    close(fd);
    IS(0, unlink("x"));
}

/* ---- mmap ---- */

static void data_mmap(void)
{
    int fd = data_file(300000);
    posix_about("mmap shared");
    char *m = mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!TRUE(m != MAP_FAILED)) {
        return;
    }
    TRUE(memcmp(m, data_a, 300000) == 0);
    memset(m + 5000, 'M', 20000);
    memset(data_a + 5000, 'M', 20000);
    data_same(fd, 300000);
    EQ(3, pwrite(fd, "low", 3, 8190));
    TRUE(memcmp(m + 8190, "low", 3) == 0);
    memcpy(data_a + 8190, "low", 3);
    CHANGES(0, (m[0] = 'Z', msync(m, 300000, MS_SYNC)), {.path = "x", .change = "mc"});
    data_a[0] = 'Z';
    munmap(m, 300000);
    data_same(fd, 300000);
    posix_about("mmap private");
    m = mmap(NULL, 300000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    TRUE(m != MAP_FAILED);
    memset(m, 'P', 300000);
    munmap(m, 300000);
    data_same(fd, 300000);
    posix_about("mmap: bytes past the end of the file are zero and are not written");
    IS(0, ftruncate(fd, 5000));
    m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EQ(0, m[5000]);
    m[5001] = 'X';
    IS(0, msync(m, 8192, MS_SYNC));
    munmap(m, 8192);
    IS(0, ftruncate(fd, 8000));
    EQ(1, pread(fd, data_b, 1, 5001));
    close(fd);
    posix_about("mmap of an unlinked file");
    fd = data_file(10000);
    unlink("x");
    m = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    TRUE(memcmp(m, data_a, 10000) == 0);
    m[9999] = 'E';
    IS(0, msync(m, 10000, MS_SYNC));
    munmap(m, 10000);
    posix_about("mmap for writing of a file opened for reading");
    fill("x", "1");
    fd = open("x", O_RDONLY | O_CLOEXEC);
    TRUE(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    close(fd);
    unlink("x");
}

/* ---- Copies ---- */

static void data_copy(void)
{
    static const off_t tries[][3] = {{0, 0, 100},      {0, 0, 300000},     {8192, 16384, 65536},
                                     {1, 3, 5},        {4095, 8191, 9000}, {0, 400000, 1000},
                                     {299990, 0, 100}, {300000, 0, 10},    {131072, 0, 131072}};
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        posix_about("copy of %lld+%lld to %lld", (long long)tries[i][0], (long long)tries[i][2],
                    (long long)tries[i][1]);
        int fd = data_file(300000), to = data_open("y");
        off_t left = tries[i][2], from = tries[i][0], at = tries[i][1], done = 0;
        off_t expected = from + left > 300000 ? 300000 - from : left;
        ssize_t n = 0;
        while (left && (n = copy_file_range(fd, &from, to, &at, (size_t)left, 0)) > 0) {
            left -= n;
            done += n;
        }
        EQ(expected, done);
        EQ(expected ? tries[i][1] + expected : 0, fst_of(to).st_size);
        EQ(done, pread(to, data_b, (size_t)done, tries[i][1]));
        TRUE(memcmp(data_a + tries[i][0], data_b, (size_t)done) == 0);
        data_same(fd, 300000);
        close(fd);
        close(to);
    }
    posix_about("copy_file_range within a file");
    int fd = data_file(100000);
    off_t from = 0, at = 200000;
    EQ(100000, copy_file_range(fd, &from, fd, &at, 100000, 0));
    memcpy(data_a + 200000, data_a, 100000);
    memset(data_a + 100000, 0, 100000);
    data_same(fd, 300000);
    from = 0;
    at = 10;
    IS(EINVAL, copy_file_range(fd, &from, fd, &at, 100, 0));
    int r = open("y", O_RDONLY | O_CLOEXEC);
    IS(EBADF, copy_file_range(fd, &from, r, &at, 100, 0));
    close(r);
    close(fd);
    unlink("x");
    unlink("y");
}

static void data_direct(void)
{
    char *b = NULL;
    TRUE(posix_memalign((void **)&b, 4096, 1 << 20) == 0);
    int fd = open("x", O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0644);
    if (fd == -1) {
        printf("skip: no O_DIRECT here\n");
        free(b);
        return;
    }
    for (size_t n = 4096; n <= 1 << 20; n *= 2) {
        posix_about("O_DIRECT of %zu bytes", n);
        data_pattern(data_a, n, (unsigned)n);
        memcpy(b, data_a, n);
        EQ(n, pwrite(fd, b, n, (off_t)n));
        memset(b, 0, n);
        EQ(n, pread(fd, b, n, (off_t)n));
        TRUE(memcmp(b, data_a, n) == 0);
        int cached = open("x", O_RDWR | O_CLOEXEC);
        EQ(n, pread(cached, data_b, n, (off_t)n));
        TRUE(memcmp(data_b, data_a, n) == 0);
        posix_about("O_DIRECT sees what was written through the cache (%zu)", n);
        EQ(6, pwrite(cached, "cached", 6, (off_t)n + 100));
        EQ(4096, pread(fd, b, 4096, (off_t)n));
        TRUE(memcmp(b + 100, "cached", 6) == 0);
        memset(b, 'D', 4096);
        EQ(4096, pwrite(fd, b, 4096, (off_t)n));
        EQ(1, pread(cached, data_b, 1, (off_t)n + 100));
        EQ('D', data_b[0]);
        close(cached);
    }
    posix_about("O_DIRECT at the end of the file");
    IS(0, ftruncate(fd, 5000));
    EQ(5000 - 4096, pread(fd, b, 4096, 4096));
    EQ(0, pread(fd, b, 4096, 8192));
    close(fd);
    unlink("x");
    free(b);
}

static void data_vectors(void)
{
    char a[100], b[5000], c[1];
    struct iovec v[3] = {{a, sizeof(a)}, {b, sizeof(b)}, {c, 1}};
    posix_about("readv and writev");
    data_pattern(a, sizeof(a), 1);
    data_pattern(b, sizeof(b), 2);
    c[0] = 'c';
    int fd = data_open("x");
    EQ(5101, writev(fd, v, 3));
    EQ(5101, pwritev(fd, v, 3, 8000));
    EQ(13101, fst_of(fd).st_size);
    EQ(5101, pread(fd, data_b, 5101, 8000));
    TRUE(memcmp(data_b + 100, b, sizeof(b)) == 0);
    memset(b, 0, sizeof(b));
    EQ(5101, preadv(fd, v, 3, 0));
    TRUE(memcmp(data_b + 100, b, sizeof(b)) == 0);
    posix_about("reads and writes of 0 bytes, and refused ones");
    EQ(0, write(fd, a, 0));
    EQ(0, pread(fd, a, 0, 0));
    EQ(0, pread(fd, a, 10, 1 << 20));
    IS(EINVAL, pread(fd, a, 1, -1));
    IS(EINVAL, pwrite(fd, a, 1, -1));
    IS(EFAULT, write(fd, (void *)(uintptr_t)data_bad_address, 100));
    EQ(13101, fst_of(fd).st_size);
    posix_about("times of read and write");
    CHANGES(0, pwrite(fd, "x", 1, 0) == 1 ? 0 : -1, {.path = "x", .change = "mc"});
    CHANGES(0, pread(fd, a, 1, 0) == 1 ? 0 : -1, {.path = "x", .change = ""});
    CHANGES(0, fsync(fd), {.path = "x", .change = ""});
    IS(0, fdatasync(fd));
    IS(0, syncfs(fd));
    close(fd);
    unlink("x");
}

/* Small files become big and small again with the right bytes. */
static void data_growth(void)
{
    posix_about("growth byte by byte across 8 KiB");
    int fd = data_open("x");
    data_pattern(data_a, sizeof(data_a), 9);
    for (size_t i = 8180; i < 8210; i++) {
        EQ(i, pwrite(fd, data_a, i, 0));
        data_same(fd, i);
        EQ(1, pwrite(fd, data_a + i, 1, (off_t)i));
    }
    memset(data_a, 0, sizeof(data_a));
    for (off_t at = 8000; at < 600000; at = at * 5 / 3) {
        posix_about("a byte at %lld of an empty file", (long long)at);
        IS(0, ftruncate(fd, 0));
        EQ(1, pwrite(fd, "y", 1, at));
        data_a[at] = 'y';
        data_same(fd, (size_t)at + 1);
        data_a[at] = 0;
    }
    close(fd);
    unlink("x");
}

static void data_statfs(void)
{
    struct statvfs s;
    posix_about("statvfs");
    IS(0, statvfs(".", &s));
    TRUE(s.f_bsize >= 512 && s.f_frsize >= 512);
    TRUE(s.f_blocks > 0 && s.f_bfree <= s.f_blocks && s.f_bavail <= s.f_bfree);
    TRUE(s.f_files == 0 || s.f_ffree <= s.f_files);
    TRUE(s.f_namemax >= 255);
    EQ(posix_name_max, pathconf(".", _PC_NAME_MAX));
}

const struct posix_family posix_data[] = {
    {"fallocate", data_fallocate},   {"fallocate_errors", data_fallocate_errors},
    {"sparse", data_sparse},         {"seek", data_seek_pattern},
    {"offsets", data_large_offsets}, {"mmap", data_mmap},
    {"copy_range", data_copy},       {"direct", data_direct},
    {"vectors", data_vectors},       {"growth", data_growth},
    {"statvfs", data_statfs},        {NULL, NULL}};
