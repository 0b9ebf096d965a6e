/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "lossfs_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint32_t lossfs_random_below(struct lossfs_random *r, uint32_t n)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = r->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (uint32_t)((z >> 32) * n >> 32);
}

static size_t lossfs_hash(uint64_t index, size_t slots)
{
    return (size_t)(index * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (slots - 1);
}

static struct lossfs_page *lossfs_file_find(const struct lossfs_file *f, uint64_t index)
{
    if (f->slot_count == 0)
        return NULL;
    for (size_t i = lossfs_hash(index, f->slot_count);; i = (i + 1) & (f->slot_count - 1)) {
        if (f->slots[i] == NULL || f->slots[i]->index == index)
            return f->slots[i];
    }
}

static void lossfs_file_place(struct lossfs_file *f, struct lossfs_page *p)
{
    size_t i = lossfs_hash(p->index, f->slot_count);
    while (f->slots[i] != NULL)
        i = (i + 1) & (f->slot_count - 1);
    f->slots[i] = p;
}

static int lossfs_file_grow(struct lossfs_file *f)
{
    size_t old_count = f->slot_count;
    struct lossfs_page **old = f->slots;
    if ((f->used + 1) * 2 <= old_count)
        return 0;
    size_t count = old_count == 0 ? 64 : old_count * 2;
    struct lossfs_page **slots = calloc(count, sizeof(struct lossfs_page *));
    if (slots == NULL)
        return ENOMEM;
    f->slots = slots;
    f->slot_count = count;
    for (size_t i = 0; i < old_count; i++) {
        if (old[i] != NULL)
            lossfs_file_place(f, old[i]);
    }
    free(old);
    return 0;
}

/* Keep those pages for which keep() is not 0. */
static void lossfs_file_filter(struct lossfs_file *f, int (*keep)(const struct lossfs_page *))
{
    struct lossfs_page **old = f->slots;
    size_t count = f->slot_count;
    f->slots = NULL;
    f->slot_count = f->used = 0;
    for (size_t i = 0; i < count; i++) {
        if (old[i] == NULL)
            continue;
        if (keep == NULL || !keep(old[i]) || lossfs_file_grow(f) != 0) {
            free(old[i]);
            continue;
        }
        lossfs_file_place(f, old[i]);
        f->used++;
    }
    free(old);
}

static int lossfs_page_is_dirty(const struct lossfs_page *p)
{
    return p->dirty != 0;
}

static int lossfs_page_is_ghost(const struct lossfs_page *p)
{
    return p->ghost;
}

static int lossfs_page_is_used(const struct lossfs_page *p)
{
    return p->dirty != 0 || p->ghost;
}

/* What the lower file has of that page; zeros beyond its end. */
static int lossfs_file_load(const struct lossfs_file *f, uint64_t index, uint8_t *data)
{
    size_t have = 0;
    memset(data, 0, LOSSFS_PAGE);
    while (have < LOSSFS_PAGE) {
        ssize_t n =
            pread(f->fd, data + have, LOSSFS_PAGE - have, (off_t)(index * LOSSFS_PAGE + have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return 0;
}

static int lossfs_file_page(struct lossfs_file *f, uint64_t index, int load,
                            struct lossfs_page **out)
{
    struct lossfs_page *p = lossfs_file_find(f, index);
    if (p == NULL) {
        int r = lossfs_file_grow(f);
        p = r == 0 ? calloc(1, sizeof(*p)) : NULL;
        if (p == NULL)
            return ENOMEM;
        p->index = index;
        if (load && (r = lossfs_file_load(f, index, p->data)) != 0) {
            free(p);
            return r;
        }
        lossfs_file_place(f, p);
        f->used++;
    }
    *out = p;
    return 0;
}

int lossfs_file_init(struct lossfs_file *f, int fd)
{
    struct stat st;
    memset(f, 0, sizeof(*f));
    if (fstat(fd, &st) != 0)
        return errno;
    f->fd = fd;
    f->size = (uint64_t)st.st_size;
    return 0;
}

void lossfs_file_fini(struct lossfs_file *f)
{
    lossfs_file_filter(f, NULL);
    (void)close(f->fd);
}

static size_t lossfs_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

int64_t lossfs_file_read(struct lossfs_file *f, void *data, size_t size, uint64_t offset,
                         int direct)
{
    uint8_t *to = data;
    if (offset >= f->size)
        return 0;
    if (size > f->size - offset)
        size = (size_t)(f->size - offset);
    for (size_t done = 0; done < size;) {
        uint64_t index = (offset + done) / LOSSFS_PAGE;
        size_t at = (size_t)((offset + done) % LOSSFS_PAGE);
        size_t n = lossfs_min(LOSSFS_PAGE - at, size - done);
        struct lossfs_page *p = lossfs_file_find(f, index);
        uint8_t disk[LOSSFS_PAGE];
        if (p == NULL || (direct && p->ghost)) {
            int r = lossfs_file_load(f, index, disk);
            if (r != 0)
                return -r;
            memcpy(to + done, disk + at, n);
        } else {
            memcpy(to + done, p->data + at, n);
        }
        done += n;
    }
    return (int64_t)size;
}

int lossfs_file_write(struct lossfs_file *f, const void *data, size_t size, uint64_t offset,
                      int direct)
{
    for (size_t done = 0; done < size;) {
        uint64_t index = (offset + done) / LOSSFS_PAGE;
        size_t at = (size_t)((offset + done) % LOSSFS_PAGE);
        size_t n = lossfs_min(LOSSFS_PAGE - at, size - done);
        struct lossfs_page *p = NULL;
        int r = lossfs_file_page(f, index, n < LOSSFS_PAGE, &p);
        if (r == 0 && direct && p->ghost)
            r = lossfs_file_load(f, index, p->data); /* O_DIRECT bypasses the cached page */
        if (r != 0)
            return r;
        /* A cached page is written back whole. */
        uint8_t sectors = p->ghost && !direct ? 0xff : 0;
        p->ghost = 0;
        if (data != NULL)
            memcpy(p->data + at, (const uint8_t *)data + done, n);
        else
            memset(p->data + at, 0, n);
        for (size_t s = at / LOSSFS_SECTOR; s <= (at + n - 1) / LOSSFS_SECTOR; s++)
            sectors |= (uint8_t)(1u << s);
        p->dirty |= sectors;
        done += n;
    }
    if (size > 0 && offset + size > f->size)
        f->size = offset + size;
    return 0;
}

int lossfs_file_resize(struct lossfs_file *f, uint64_t size)
{
    struct stat st;
    if (size >= f->size) {
        f->size = size;
        return 0;
    }
    if (fstat(f->fd, &st) != 0)
        return errno;
    if ((uint64_t)st.st_size > size && ftruncate(f->fd, (off_t)size) != 0)
        return errno;
    f->size = size;
    for (size_t i = 0; i < f->slot_count; i++) {
        struct lossfs_page *p = f->slots[i];
        uint64_t begin = p == NULL ? 0 : p->index * LOSSFS_PAGE;
        if (p == NULL || begin + LOSSFS_PAGE <= size)
            continue;
        size_t left = begin >= size ? 0 : (size_t)(size - begin);
        memset(p->data + left, 0, LOSSFS_PAGE - left);
        if (left == 0)
            p->dirty = p->ghost = 0;
    }
    lossfs_file_filter(f, lossfs_page_is_used);
    return 0;
}

static int lossfs_file_put(const struct lossfs_file *f, const struct lossfs_page *p,
                           uint8_t sectors)
{
    for (uint32_t s = 0; s < LOSSFS_PAGE / LOSSFS_SECTOR; s++) {
        if ((sectors >> s & 1) == 0)
            continue;
        uint32_t end = s;
        while (end < LOSSFS_PAGE / LOSSFS_SECTOR && (sectors >> end & 1) != 0)
            end++;
        size_t size = (size_t)(end - s) * LOSSFS_SECTOR;
        off_t at = (off_t)(p->index * LOSSFS_PAGE + s * LOSSFS_SECTOR);
        if (pwrite(f->fd, p->data + s * LOSSFS_SECTOR, size, at) != (ssize_t)size)
            return errno != 0 ? errno : EIO;
        s = end;
    }
    return 0;
}

int lossfs_file_flush(struct lossfs_file *f)
{
    struct stat st;
    for (size_t i = 0; i < f->slot_count; i++) {
        struct lossfs_page *p = f->slots[i];
        int r = p == NULL || p->dirty == 0 ? 0 : lossfs_file_put(f, p, p->dirty);
        if (r != 0)
            return r;
        if (p != NULL)
            p->dirty = 0;
    }
    lossfs_file_filter(f, lossfs_page_is_ghost);
    if (fstat(f->fd, &st) != 0)
        return errno;
    if ((uint64_t)st.st_size != f->size && ftruncate(f->fd, (off_t)f->size) != 0)
        return errno;
    return 0;
}

void lossfs_file_fail_flush(struct lossfs_file *f)
{
    for (size_t i = 0; i < f->slot_count; i++) {
        struct lossfs_page *p = f->slots[i];
        if (p != NULL && p->dirty != 0) {
            p->dirty = 0;
            p->ghost = 1;
        }
    }
}

void lossfs_file_drop(struct lossfs_file *f)
{
    lossfs_file_filter(f, lossfs_page_is_dirty);
}

static size_t lossfs_file_count(const struct lossfs_file *f, int (*is)(const struct lossfs_page *))
{
    size_t n = 0;
    for (size_t i = 0; i < f->slot_count; i++)
        n += f->slots[i] != NULL && is(f->slots[i]);
    return n;
}

size_t lossfs_file_dirty(const struct lossfs_file *f)
{
    return lossfs_file_count(f, lossfs_page_is_dirty);
}

size_t lossfs_file_ghosts(const struct lossfs_file *f)
{
    return lossfs_file_count(f, lossfs_page_is_ghost);
}

static int lossfs_page_order(const void *a, const void *b)
{
    const struct lossfs_page *x = *(struct lossfs_page *const *)a;
    const struct lossfs_page *y = *(struct lossfs_page *const *)b;
    return x->index < y->index ? -1 : x->index > y->index;
}

void lossfs_file_lose(struct lossfs_file *f, struct lossfs_random *r, uint32_t keep, uint32_t torn,
                      struct lossfs_loss *sum)
{
    struct stat st;
    struct lossfs_page **list = calloc(f->used + 1, sizeof(struct lossfs_page *));
    size_t n = 0;
    int grown = lossfs_random_below(r, 2) == 0;
    for (size_t i = 0; i < f->slot_count && list != NULL; i++) {
        if (f->slots[i] != NULL && f->slots[i]->dirty != 0)
            list[n++] = f->slots[i];
    }
    if (n > 0)
        qsort(list, n, sizeof(*list), lossfs_page_order);
    uint64_t durable = fstat(f->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t draw = lossfs_random_below(r, 100);
        uint8_t sectors = 0;
        if (draw < keep) {
            sectors = 0xff;
            sum->kept++;
        } else if (draw < keep + torn) {
            sectors = (uint8_t)lossfs_random_below(r, 256);
            sum->torn++;
        } else {
            sum->lost++;
        }
        if (list[i]->index * LOSSFS_PAGE < durable || grown)
            (void)lossfs_file_put(f, list[i], list[i]->dirty & sectors);
    }
    free(list);
    if (grown && f->size > durable)
        durable = f->size;
    (void)ftruncate(f->fd, (off_t)durable);
    f->size = durable;
    lossfs_file_filter(f, NULL);
}
