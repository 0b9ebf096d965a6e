/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Synchronous calls: a request on the caller's stack, submitted, and a futex that its completion
 * wakes.
 *
 *   Y1  `state` goes PENDING -> DONE, or PENDING -> ASLEEP -> DONE; the completion makes the last
 *       step, with release, and touches the call only by its address afterwards: the caller may
 *       have returned. A wake-up of an address that is in use by something else meanwhile is a
 *       spurious one, which every user of a futex expects.
 */
#include "snicstore/filelib_sync.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILELIB_SYNC_PENDING, FILELIB_SYNC_ASLEEP, FILELIB_SYNC_DONE };

struct filelib_sync_call {
    struct snic_filelib_req req;
    _Atomic uint32_t state; /* Y1 */
};

static void filelib_sync_done(struct snic_filelib_req *r)
{
    struct filelib_sync_call *c = SNIC_CONTAINER(r, struct filelib_sync_call, req);
    _Atomic uint32_t *state = &c->state;
    /* Release pairs with the acquires of filelib_sync_run(): the results are visible. */
    if (atomic_exchange_explicit(state, FILELIB_SYNC_DONE, memory_order_acq_rel) ==
        FILELIB_SYNC_ASLEEP)
        (void)syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Submit, and sleep until it is done. */
static int64_t filelib_sync_run(const struct snic_filelib_sync *s, struct filelib_sync_call *c)
{
    struct snic_filelib_req *r = &c->req;
    uint32_t seen = FILELIB_SYNC_PENDING;
    r->tenant = s->tenant;
    r->priority = (uint8_t)s->priority;
    if ((s->flags & SNIC_FILELIB_SYNC_OWNER) != 0)
        return snic_filelib_run(s->group, r);
    r->done = filelib_sync_done;
    atomic_init(&c->state, FILELIB_SYNC_PENDING);
    snic_filelib_submit(s->group, &r, 1);
    /* Acquire pairs with the release of filelib_sync_done(). */
    (void)atomic_compare_exchange_strong_explicit(&c->state, &seen, FILELIB_SYNC_ASLEEP,
                                                  memory_order_acquire, memory_order_acquire);
    while (atomic_load_explicit(&c->state, memory_order_acquire) != FILELIB_SYNC_DONE)
        (void)syscall(SYS_futex, &c->state, FUTEX_WAIT_PRIVATE, FILELIB_SYNC_ASLEEP, NULL, NULL, 0);
    return r->result;
}

static void filelib_sync_prepare(struct filelib_sync_call *c, uint8_t op)
{
    memset(c, 0, sizeof(*c));
    c->req.op = op;
}

static int filelib_sync_named(const struct snic_filelib_sync *s, struct filelib_sync_call *c,
                              uint8_t op, uint64_t dir, const char *name, uint32_t flags)
{
    filelib_sync_prepare(c, op);
    c->req.dir = dir;
    c->req.name = name;
    c->req.name_size = (uint32_t)strnlen(name, SNIC_FILES_NAME_MAX + 1);
    c->req.flags = (uint16_t)flags;
    if (c->req.name_size > SNIC_FILES_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    if (c->req.name_size == 0) /* DELETE would take it as one by id */
        return SNIC_EINVAL;
    return (int)filelib_sync_run(s, c);
}

static int64_t filelib_sync_data(const struct snic_filelib_handle *h, uint8_t op, void *buf,
                                 size_t size, uint64_t offset, uint32_t flags)
{
    struct filelib_sync_call c;
    filelib_sync_prepare(&c, op);
    c.req.file = h->id;
    c.req.offset = offset;
    c.req.length = size;
    c.req.buf.base = buf;
    c.req.buf.size = size;
    c.req.flags = (uint16_t)flags;
    return filelib_sync_run(h->sync, &c);
}

int snic_filelib_sync_init(struct snic_filelib_sync *s, struct snic_filelib *g, uint32_t flags)
{
    if ((flags & ~SNIC_FILELIB_SYNC_OWNER) != 0)
        return SNIC_EINVAL;
    memset(s, 0, sizeof(*s));
    s->group = g;
    s->flags = flags;
    return 0;
}

int snic_filelib_openat(const struct snic_filelib_sync *s, struct snic_filelib_handle *out,
                        uint64_t dir, const char *name, uint32_t flags)
{
    struct filelib_sync_call c;
    int create = (flags & SNIC_FILELIB_CREATE) != 0;
    int exclusive = (flags & SNIC_FILELIB_EXCLUSIVE) != 0;
    int rc = SNIC_ENOENT;
    if ((flags & ~(SNIC_FILELIB_CREATE | SNIC_FILELIB_EXCLUSIVE)) != 0 || (exclusive && !create))
        return SNIC_EINVAL;
    /* What exists, the usual case, is opened without a record in the journal. */
    if (!exclusive)
        rc = filelib_sync_named(s, &c, SNIC_FILES_OPEN, dir, name, 0);
    if (rc == 0 && c.req.kind != SNIC_FILES_FILE)
        return SNIC_EISDIR;
    if (rc == SNIC_ENOENT && create)
        rc = filelib_sync_named(s, &c, SNIC_FILES_CREATE, dir, name,
                                exclusive ? 0 : SNIC_FILES_REPLACE);
    if (rc == 0) {
        out->sync = s;
        out->id = c.req.id;
    }
    return rc;
}

int snic_filelib_opendir(const struct snic_filelib_sync *s, uint64_t *dir, const char *name,
                         int create)
{
    struct filelib_sync_call c;
    int rc = filelib_sync_named(s, &c, SNIC_FILES_OPEN, SNIC_FILES_ROOT, name, 0);
    if (rc == SNIC_ENOENT && create) {
        rc = filelib_sync_named(s, &c, SNIC_FILES_MKDIR, SNIC_FILES_ROOT, name, 0);
        if (rc == SNIC_EEXIST) /* another thread or host was faster */
            rc = filelib_sync_named(s, &c, SNIC_FILES_OPEN, SNIC_FILES_ROOT, name, 0);
        else if (rc == 0)
            c.req.kind = SNIC_FILES_DIR;
    }
    if (rc == 0 && c.req.kind != SNIC_FILES_DIR)
        return SNIC_ENOTDIR;
    if (rc == 0)
        *dir = c.req.id;
    return rc;
}

int64_t snic_filelib_pread(const struct snic_filelib_handle *h, void *buf, size_t size,
                           uint64_t offset)
{
    return size == 0 ? 0 : filelib_sync_data(h, SNIC_FILES_READ, buf, size, offset, 0);
}

int64_t snic_filelib_pwrite(const struct snic_filelib_handle *h, const void *buf, size_t size,
                            uint64_t offset, uint32_t flags)
{
    if (size == 0)
        return 0;
    return filelib_sync_data(h, SNIC_FILES_WRITE, (void *)(uintptr_t)buf, size, offset, flags);
}

int snic_filelib_truncate(const struct snic_filelib_handle *h, uint64_t size)
{
    struct filelib_sync_call c;
    filelib_sync_prepare(&c, SNIC_FILES_TRUNCATE);
    c.req.file = h->id;
    c.req.length = size;
    return (int)filelib_sync_run(h->sync, &c);
}

int snic_filelib_fsync(const struct snic_filelib_handle *h)
{
    struct filelib_sync_call c;
    filelib_sync_prepare(&c, SNIC_FILES_FSYNC);
    c.req.file = h->id;
    return (int)filelib_sync_run(h->sync, &c);
}

int snic_filelib_size(const struct snic_filelib_handle *h, uint64_t *size)
{
    struct filelib_sync_call c;
    int rc;
    filelib_sync_prepare(&c, SNIC_FILES_STAT);
    c.req.file = h->id;
    rc = (int)filelib_sync_run(h->sync, &c);
    if (rc == 0)
        *size = c.req.size;
    return rc;
}

int snic_filelib_access(const struct snic_filelib_sync *s, uint64_t dir, const char *name,
                        uint64_t *size, uint32_t *kind)
{
    struct filelib_sync_call c;
    int rc = filelib_sync_named(s, &c, SNIC_FILES_OPEN, dir, name, 0);
    if (rc == 0 && size != NULL)
        *size = c.req.size;
    if (rc == 0 && kind != NULL)
        *kind = c.req.kind;
    return rc;
}

int snic_filelib_delete(const struct snic_filelib_sync *s, uint64_t dir, const char *name)
{
    struct filelib_sync_call c;
    return filelib_sync_named(s, &c, SNIC_FILES_DELETE, dir, name, 0);
}

int snic_filelib_rename(const struct snic_filelib_sync *s, uint64_t dir, const char *name,
                        uint64_t dir2, const char *name2)
{
    struct filelib_sync_call c;
    filelib_sync_prepare(&c, SNIC_FILES_RENAME);
    c.req.dir = dir;
    c.req.name = name;
    c.req.name_size = (uint32_t)strnlen(name, SNIC_FILES_NAME_MAX + 1);
    c.req.dir2 = dir2;
    c.req.name2 = name2;
    c.req.name2_size = (uint32_t)strnlen(name2, SNIC_FILES_NAME_MAX + 1);
    c.req.flags = SNIC_FILES_REPLACE;
    return (int)filelib_sync_run(s, &c);
}

int64_t snic_filelib_readdir(const struct snic_filelib_sync *s, uint64_t dir, uint64_t *cursor,
                             void *buf, size_t size)
{
    struct filelib_sync_call c;
    int64_t rc;
    filelib_sync_prepare(&c, SNIC_FILES_LIST);
    c.req.dir = dir;
    c.req.offset = *cursor;
    c.req.length = size;
    c.req.buf.base = buf;
    c.req.buf.size = size;
    rc = filelib_sync_run(s, &c);
    if (rc >= 0)
        *cursor = c.req.cursor;
    return rc;
}
