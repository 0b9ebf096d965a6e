/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A file of lossfs: its pages that are not durable yet, kept in memory above a file of the lower
 * folder, which stands for the disk.
 *
 * A page in memory is dirty (not on the disk; a flush writes it), or a ghost: marked clean by a
 * flush that failed. Buffered reads return ghosts; the disk, and so a read with O_DIRECT, does not
 * have them, no flush writes them, and they vanish when caches are dropped or power is lost.
 *
 * All calls need the file system's lock.
 */
#ifndef SNIC_TESTS_LOSSFS_FILE_H
#define SNIC_TESTS_LOSSFS_FILE_H

#include <stddef.h>
#include <stdint.h>

enum { LOSSFS_PAGE = 4096, LOSSFS_SECTOR = 512 };

struct lossfs_page {
    uint64_t index;
    uint8_t dirty; /* a bit per sector */
    uint8_t ghost;
    uint8_t data[LOSSFS_PAGE];
};

struct lossfs_file {
    int fd;        /* of the lower file, for reading and writing */
    uint64_t size; /* visible; the durable one is the lower file's */
    struct lossfs_page **slots;
    size_t slot_count; /* a power of two */
    size_t used;
};

struct lossfs_random {
    uint64_t state;
};
/** 0 ... n - 1. */
uint32_t lossfs_random_below(struct lossfs_random *r, uint32_t n);

/** 0, or an errno. @p fd becomes the file's. */
int lossfs_file_init(struct lossfs_file *f, int fd);
/** Frees pages in memory and closes the lower file; nothing is written. */
void lossfs_file_fini(struct lossfs_file *f);
/** Bytes read, or a negative errno. */
int64_t lossfs_file_read(struct lossfs_file *f, void *data, size_t size, uint64_t offset,
                         int direct);
/** 0, or an errno: nothing was written. @p data NULL: zeros; the size may grow. */
int lossfs_file_write(struct lossfs_file *f, const void *data, size_t size, uint64_t offset,
                      int direct);
/** 0, or an errno. Truncation is durable at once; growth is not. */
int lossfs_file_resize(struct lossfs_file *f, uint64_t size);
/** 0, or an errno. */
int lossfs_file_flush(struct lossfs_file *f);
/** A failed flush: dirty pages become ghosts. */
void lossfs_file_fail_flush(struct lossfs_file *f);
/** Memory pressure: ghosts vanish. */
void lossfs_file_drop(struct lossfs_file *f);
size_t lossfs_file_dirty(const struct lossfs_file *f);
size_t lossfs_file_ghosts(const struct lossfs_file *f);

struct lossfs_loss {
    uint64_t kept; /* pages */
    uint64_t torn;
    uint64_t lost;
};
/**
 * Power loss. Of each dirty page all, no, or some sectors reach the disk: in @p keep of 100 cases
 * all, in @p torn of 100 some. Whether the new size does is drawn as well.
 */
void lossfs_file_lose(struct lossfs_file *f, struct lossfs_random *r, uint32_t keep, uint32_t torn,
                      struct lossfs_loss *sum);

#endif
