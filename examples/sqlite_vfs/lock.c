/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The protocol is that of SQLite's os_unix.c, by open file descriptions' locks:
 *
 *   K1  SHARED is taken under a read lock of the pending byte, which a connection that waits for
 *       EXCLUSIVE has write-locked: no new reader gets ahead of a writer.
 *   K2  A reader has a read lock of the shared byte, a writer of the database a write lock of it;
 *       at most one connection has the reserved byte.
 *   K3  The first connection that maps the shared memory, and no other, finds the byte SV_SHM_FIRST
 *       unlocked: the file's contents are stale, and it is truncated. Every connection holds a
 *       read lock of that byte while it has the file mapped.
 *   K4  The kernel drops the locks of a killed process at once, but the DPU still executes the
 *       requests that the process had sent. So a connection that may write (it holds the reserved
 *       or the exclusive lock, or an exclusive lock of the wal-index) has its host in a slot of
 *       the lock file, and clears the slot before it unlocks. A host in a slot whose lock is free
 *       has died; the lock stays busy until the DPU has released that host (SV_HOST_NAME).
 *   K5  When the link has ended, the next DPU may have made the folder's files anew: the locks here
 *       exclude no one, so none is taken any more, and no file is removed.
 */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SV_PENDING 0
#define SV_RESERVED 1
#define SV_SHARED 2
#define SV_SLOT_WRITER                                                                             \
    0                   /* the reserved or the exclusive lock; behind it those of the wal-index    \
                         */
#define SV_SHM_BASE 120 /* as os_unix.c: the locks of the wal-index, and after them the first's */
#define SV_SHM_FIRST (SV_SHM_BASE + SQLITE_SHM_NLOCK)

/* @return 0; SQLITE_BUSY; -1 errno */
static int sv_range(int fd, short type, off_t start, off_t n)
{
    struct flock f = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = n};
    int rc;
    do
        rc = fcntl(fd, F_OFD_SETLK, &f);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : errno == EAGAIN || errno == EACCES ? SQLITE_BUSY : -1;
}

static int sv_open(const char *path, const char *suffix)
{
    char name[PATH_MAX + 8];
    (void)snprintf(name, sizeof(name), "%s%s", path, suffix);
    return open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* ---- Slots: K4 ---- */

/* 1: the DPU may still execute requests of this host. */
static int sv_host_lingers(const struct sv_lock *l, uint64_t host)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    char name[PATH_MAX + 32];
    int fd, rc;
    (void)snprintf(name, sizeof(name), "%s/" SV_HOST_NAME, l->folder, host);
    fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT;
    rc = fcntl(fd, F_OFD_GETLK, &f) != 0 || f.l_type != F_UNLCK;
    (void)close(fd);
    return rc;
}

/* The host in a slot; 0: none. */
static uint64_t sv_slot_read(const struct sv_lock *l, int slot)
{
    uint64_t host = 0;
    ssize_t n = pread(l->fd, &host, sizeof(host), (off_t)slot * (off_t)sizeof(host));
    return n == (ssize_t)sizeof(host) ? host : 0;
}

/* With the slot's lock held. @return 0; SQLITE_BUSY; -1 errno */
static int sv_slot_take(struct sv_lock *l, int slot)
{
    uint64_t before;
    if (l->host == 0)
        return 0;
    before = sv_slot_read(l, slot);
    if (before != 0 && before != l->host && sv_host_lingers(l, before))
        return SQLITE_BUSY;
    if (pwrite(l->fd, &l->host, sizeof(l->host), (off_t)slot * (off_t)sizeof(l->host)) !=
        (ssize_t)sizeof(l->host))
        return -1;
    l->owned |= 1u << slot;
    return 0;
}

/* All calls of this connection have returned. Where the link has ended some may take effect yet:
 * the slot stays. @return 0; -1 errno */
static int sv_slot_clear(struct sv_lock *l, int slot)
{
    static const uint64_t none;
    if ((l->owned & 1u << slot) == 0)
        return 0;
    l->owned &= ~(1u << slot);
    if (atomic_load(l->ended))
        return 0;
    return pwrite(l->fd, &none, sizeof(none), (off_t)slot * (off_t)sizeof(none)) ==
                   (ssize_t)sizeof(none)
               ? 0
               : -1;
}

int sv_lock_open(struct sv_lock *l, uint64_t file)
{
    l->shm_fd = -1;
    l->regions = 0;
    l->region = NULL;
    l->level = SQLITE_LOCK_NONE;
    l->owned = 0;
    int n = snprintf(l->path, sizeof(l->path), "%s/%" PRIx64, l->folder, file);
    if (n < 0 || (size_t)n >= sizeof(l->path))
        return ENAMETOOLONG;
    l->fd = sv_open(l->path, ".lock");
    return l->fd < 0 ? errno : 0;
}

void sv_lock_close(struct sv_lock *l)
{
    sv_shm_unmap(l, 0);
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
}

/* ---- The five states ---- */

/* A reader would see the last requests of a writer that was killed take effect: K4. A writer that
 * lives has the reserved byte, or a write lock of the shared one. */
static int sv_writer_lingers(const struct sv_lock *l)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SV_RESERVED, .l_len = 1};
    uint64_t writer = l->host == 0 ? 0 : sv_slot_read(l, SV_SLOT_WRITER);
    if (writer == 0 || writer == l->host)
        return 0;
    if (fcntl(l->fd, F_OFD_GETLK, &f) != 0)
        return -1;
    return f.l_type == F_UNLCK && sv_host_lingers(l, writer) ? SQLITE_BUSY : 0;
}

static int sv_take_shared(struct sv_lock *l)
{
    int rc = sv_range(l->fd, F_RDLCK, SV_PENDING, 1); /* K1 */
    if (rc != 0)
        return rc;
    rc = sv_range(l->fd, F_RDLCK, SV_SHARED, 1);
    if (sv_range(l->fd, F_UNLCK, SV_PENDING, 1) != 0 && rc == 0)
        rc = -1;
    if (rc == 0)
        rc = sv_writer_lingers(l);
    if (rc != 0)
        (void)sv_range(l->fd, F_UNLCK, SV_SHARED, 1);
    return rc;
}

static int sv_take_reserved(struct sv_lock *l)
{
    int rc = sv_range(l->fd, F_WRLCK, SV_RESERVED, 1);
    if (rc != 0)
        return rc;
    rc = sv_slot_take(l, SV_SLOT_WRITER);
    if (rc != 0)
        (void)sv_range(l->fd, F_UNLCK, SV_RESERVED, 1);
    return rc;
}

static int sv_take_exclusive(struct sv_lock *l)
{
    int rc = 0;
    if (l->level < SQLITE_LOCK_PENDING) {
        rc = sv_range(l->fd, F_WRLCK, SV_PENDING, 1);
        if (rc == 0)
            l->level = SQLITE_LOCK_PENDING; /* kept while readers finish */
    }
    if (rc == 0)
        rc = sv_range(l->fd, F_WRLCK, SV_SHARED, 1);
    if (rc != 0 || (l->owned & 1u << SV_SLOT_WRITER) != 0)
        return rc;
    rc = sv_slot_take(l, SV_SLOT_WRITER);
    if (rc != 0)
        (void)sv_range(l->fd, F_RDLCK, SV_SHARED, 1);
    return rc;
}

int sv_lock_raise(struct sv_lock *l, int level)
{
    int rc;
    if (l->level >= level)
        return SQLITE_OK;
    if (atomic_load(l->ended)) /* K5 */
        return SQLITE_IOERR_LOCK;
    if (level == SQLITE_LOCK_SHARED)
        rc = sv_take_shared(l);
    else if (level == SQLITE_LOCK_RESERVED)
        rc = sv_take_reserved(l);
    else
        rc = sv_take_exclusive(l);
    if (rc == 0)
        l->level = level;
    return rc < 0 ? SQLITE_IOERR_LOCK : rc;
}

int sv_lock_lower(struct sv_lock *l, int level)
{
    int rc;
    if (l->level <= level)
        return SQLITE_OK;
    rc = sv_slot_clear(l, SV_SLOT_WRITER);
    if (rc == 0 && level == SQLITE_LOCK_SHARED && l->level > SQLITE_LOCK_RESERVED)
        rc = sv_range(l->fd, F_RDLCK, SV_SHARED, 1);
    if (rc == 0 && level == SQLITE_LOCK_NONE)
        rc = sv_range(l->fd, F_UNLCK, SV_SHARED, 1);
    if (rc == 0)
        rc = sv_range(l->fd, F_UNLCK, SV_PENDING, 2); /* and the reserved byte */
    if (rc == 0)
        l->level = level;
    return rc == 0 ? SQLITE_OK : SQLITE_IOERR_UNLOCK;
}

int sv_lock_reserved(struct sv_lock *l, int *out)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SV_RESERVED, .l_len = 1};
    *out = l->level > SQLITE_LOCK_SHARED;
    if (*out)
        return SQLITE_OK;
    if (fcntl(l->fd, F_OFD_GETLK, &f) != 0)
        return SQLITE_IOERR_CHECKRESERVEDLOCK;
    *out = f.l_type != F_UNLCK;
    return SQLITE_OK;
}

/* ---- The shared memory ---- */

static int sv_shm_open(struct sv_lock *l)
{
    int rc;
    if (atomic_load(l->ended)) /* K5 */
        return SQLITE_IOERR_SHMOPEN;
    l->shm_fd = sv_open(l->path, ".shm");
    if (l->shm_fd < 0)
        return SQLITE_CANTOPEN;
    rc = sv_range(l->shm_fd, F_WRLCK, SV_SHM_FIRST, 1); /* K3 */
    if (rc == 0 && ftruncate(l->shm_fd, 0) != 0)
        rc = -1;
    if (rc >= 0)
        rc = sv_range(l->shm_fd, F_RDLCK, SV_SHM_FIRST, 1);
    if (rc == 0)
        return SQLITE_OK;
    (void)close(l->shm_fd);
    l->shm_fd = -1;
    return rc < 0 ? SQLITE_IOERR_SHMOPEN : rc;
}

int sv_shm_map(struct sv_lock *l, int index, int bytes, int extend, void volatile **out)
{
    off_t end = ((off_t)index + 1) * bytes;
    struct stat st;
    int rc = l->shm_fd >= 0 ? SQLITE_OK : sv_shm_open(l);
    *out = NULL;
    if (rc != SQLITE_OK)
        return rc;
    if (fstat(l->shm_fd, &st) != 0)
        return SQLITE_IOERR_SHMSIZE;
    if (st.st_size < end && !extend)
        return SQLITE_OK;
    /* With space of its own: a full disk must not end the process at an access. */
    if (st.st_size < end && posix_fallocate(l->shm_fd, 0, end) != 0)
        return SQLITE_IOERR_SHMSIZE;
    if (index >= l->regions) {
        void *more = realloc(l->region, ((size_t)index + 1) * sizeof(*l->region));
        if (more == NULL)
            return SQLITE_NOMEM;
        l->region = more;
    }
    for (; l->regions <= index; l->regions++) {
        void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->shm_fd,
                       (off_t)l->regions * bytes);
        if (p == MAP_FAILED)
            return SQLITE_IOERR_SHMMAP;
        l->region[l->regions] = p;
        l->region_bytes = bytes;
    }
    *out = l->region[index];
    return SQLITE_OK;
}

int sv_shm_lock(struct sv_lock *l, int offset, int n, int flags)
{
    short type = (flags & SQLITE_SHM_UNLOCK) != 0   ? F_UNLCK
                 : (flags & SQLITE_SHM_SHARED) != 0 ? F_RDLCK
                                                    : F_WRLCK;
    int rc = 0;
    if (l->shm_fd < 0 || (type != F_UNLCK && atomic_load(l->ended))) /* K5 */
        return SQLITE_IOERR_SHMLOCK;
    for (int i = 0; type == F_UNLCK && rc == 0 && i < n; i++)
        rc = sv_slot_clear(l, 1 + offset + i);
    if (rc == 0)
        rc = sv_range(l->shm_fd, type, SV_SHM_BASE + offset, n);
    for (int i = 0; type == F_WRLCK && rc == 0 && i < n; i++) {
        rc = sv_slot_take(l, 1 + offset + i);
        while (rc != 0 && i-- > 0)
            (void)sv_slot_clear(l, 1 + offset + i);
        if (rc != 0)
            (void)sv_range(l->shm_fd, F_UNLCK, SV_SHM_BASE + offset, n);
    }
    return rc < 0 ? SQLITE_IOERR_SHMLOCK : rc;
}

void sv_shm_unmap(struct sv_lock *l, int remove)
{
    char name[PATH_MAX + 8];
    struct stat there, here;
    for (int i = 0; i < l->regions; i++)
        (void)munmap(l->region[i], (size_t)l->region_bytes);
    l->regions = 0;
    free(l->region);
    l->region = NULL;
    if (l->shm_fd < 0)
        return;
    (void)snprintf(name, sizeof(name), "%s.shm", l->path);
    if (remove && !atomic_load(l->ended) && stat(name, &there) == 0 &&
        fstat(l->shm_fd, &here) == 0 && there.st_ino == here.st_ino)
        (void)unlink(name); /* K5 */
    (void)close(l->shm_fd);
    l->shm_fd = -1;
}
