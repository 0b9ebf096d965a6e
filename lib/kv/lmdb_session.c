/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The handles that have the store open: locks of the open file `session.lock` (they end with the
 * process).
 *
 *   byte 0   exclusive: this handle is sole; shared: one of several
 *   byte 1   shared, beside byte 0: this handle refuses to share (SNIC_KV_OPEN_SOLE)
 *   bytes 4..7, mapped: number of knocks of newcomers
 *   bytes 4096..8191, mapped: locks of objects that a handle waits for
 *   from byte 1 MiB on: locks of objects (lmdb_share.c)
 *
 * A newcomer tries byte 0 exclusively. If others have it, it knocks and tries it shared, until it
 * gets it. The sole handle sees the knock in its own calls and timers, makes all durable, and turns
 * its lock into a shared one. The kernel releases a dead process' locks.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { LMDB_SESSION_BYTES = 4096 + LMDB_LOCKS, LMDB_POLL_US = 1000 };

/** LMDB's file of readers: a cache line for each and a head of less than two pages. */
enum { LMDB_LOCK_BYTES = LMDB_READERS * 64 + 8192, LMDB_FIRST_BYTES = 64 << 10 };
#define SNIC_LMDB__GRACE_NS 2000000000ULL /* the kernel may release a dead holder's lock late */

/* LMDB must not be opened twice by one process, and locks do not conflict within one process. */
static pthread_mutex_t lmdb_sessions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct snic_link lmdb_sessions = {&lmdb_sessions, &lmdb_sessions};

int lmdb_session_lock(const struct lmdb_session *e, int type, uint64_t at, uint64_t size)
{
    struct flock l = {
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = (off_t)size};
    int r;
    do
        r = fcntl(e->fd, F_OFD_SETLK, &l);
    while (r != 0 && errno == EINTR);
    return r == 0 ? 0 : errno == EAGAIN || errno == EACCES ? SNIC_EAGAIN : -errno;
}

/** 1: another handle refuses to share. */
static int lmdb_session_refused(const struct lmdb_session *e)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
    return fcntl(e->fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static int lmdb_session_register(struct lmdb_session *e)
{
    int r = 0;
    (void)pthread_mutex_lock(&lmdb_sessions_lock);
    for (struct snic_link *l = lmdb_sessions.next; l != &lmdb_sessions; l = l->next) {
        const struct lmdb_session *other = SNIC_CONTAINER(l, struct lmdb_session, link);
        if (other->dev == e->dev && other->ino == e->ino && other->pid == e->pid)
            r = SNIC_EBUSY;
    }
    if (r == 0) {
        snic_link_append(&lmdb_sessions, &e->link);
        e->registered = 1;
    }
    (void)pthread_mutex_unlock(&lmdb_sessions_lock);
    return r;
}

static uint64_t lmdb_session_clock(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/** Wait for byte 0, exclusively or not. */
static int lmdb_session_wait(struct lmdb_kv *s, char *text)
{
    struct lmdb_session *e = &s->session;
    uint64_t start = lmdb_session_clock();
    for (;;) {
        uint64_t waited = lmdb_session_clock() - start;
        int r = lmdb_session_lock(e, s->readonly ? F_RDLCK : F_WRLCK, 0, 1);
        if (r == SNIC_EAGAIN && !e->forced && !lmdb_session_refused(e)) {
            (void)atomic_fetch_add_explicit(e->knocks, 1, memory_order_relaxed);
            r = lmdb_session_lock(e, F_RDLCK, 0, 1);
            if (r == 0) {
                s->mode = LMDB_SHARED;
                return 0;
            }
        } else if (r == 0) {
            e->exclusive = !s->readonly;
            s->mode = s->readonly ? LMDB_SHARED : LMDB_SOLE;
            return 0;
        } else if (r == SNIC_EAGAIN && waited > SNIC_LMDB__GRACE_NS) {
            (void)snprintf(text, LMDB_TEXT, "another handle has the store open%s",
                           e->forced ? "" : " exclusively");
            return SNIC_EBUSY;
        }
        if (r != SNIC_EAGAIN) {
            (void)snprintf(text, LMDB_TEXT, "cannot lock session.lock: %s", strerror(-r));
            return SNIC_ENOTSUP;
        }
        if (waited > s->kv.timeout_ns) {
            (void)snprintf(text, LMDB_TEXT, "the handle that has the store open does not answer");
            return SNIC_EBUSY;
        }
        (void)usleep(LMDB_POLL_US);
    }
}

/** 1: a local file system: locks and shared mappings work within one machine only. */
static int lmdb_session_local(int fd)
{
    struct statfs f;
    if (fstatfs(fd, &f) != 0)
        return 1;
    switch ((uint32_t)f.f_type) {
    case 0x6969U:     /* NFS */
    case 0xff534d42U: /* CIFS */
    case 0xfe534d42U: /* SMB2 */
    case 0x517bU:     /* SMB */
    case 0x01021997U: /* 9P */
    case 0x00c36400U: /* Ceph */
    case 0x0bd00bd0U: /* Lustre */
    case 0x5346414fU: /* AFS */
        return 0;
    default:
        return 1;
    }
}

/**
 * A store to a page of a shared mapping that has no block of the disk yet is SIGBUS on a full one:
 * each file that is mapped for writing gets its blocks before. Blocks that it has already are not
 * changed. File systems that cannot reserve blocks are accepted.
 */
static int lmdb_session_reserve(int fd, off_t bytes)
{
    while (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return 0;
        if (errno != EINTR)
            return -1;
    }
    return 0;
}

/** Reserve the first @p bytes of a file of LMDB's, created if it is missing. 0 or an errno. */
static int lmdb_session_reserve_file(const struct lmdb_kv *s, const char *name, off_t bytes)
{
    char path[sizeof(s->path) + 32];
    (void)snprintf(path, sizeof(path), "%s/%s", s->path, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return errno;
    int e = lmdb_session_reserve(fd, bytes) == 0 ? 0 : errno;
    (void)close(fd); /* LMDB has no locks on it yet that this would release */
    return e;
}

int lmdb_session_reserve_env(const struct lmdb_kv *s, int *os_error, char *text)
{
    char path[sizeof(s->path) + 32];
    struct stat st;
    const char *name = "lock.mdb";
    *os_error = lmdb_session_reserve_file(s, name, LMDB_LOCK_BYTES);
    (void)snprintf(path, sizeof(path), "%s/data.mdb", s->path);
    if (*os_error == 0 && (s->opts.flags & SNIC_KV_OPEN_CREATE) != 0 &&
        (stat(path, &st) != 0 || st.st_size == 0)) {
        name = "data.mdb"; /* a part of LMDB's first pages would be a damaged store */
        *os_error = lmdb_session_reserve_file(s, name, LMDB_FIRST_BYTES);
    }
    if (*os_error == 0)
        return 0;
    (void)snprintf(text, LMDB_TEXT, "the file %s cannot be made: %s", name, strerror(*os_error));
    return snic_error_from_os(*os_error);
}

static int lmdb_session_map(struct lmdb_session *e, int *os_error)
{
    struct stat st;
    if (lmdb_session_reserve(e->fd, LMDB_SESSION_BYTES) != 0 || fstat(e->fd, &st) != 0 ||
        (st.st_size < LMDB_SESSION_BYTES && ftruncate(e->fd, LMDB_SESSION_BYTES) != 0)) {
        *os_error = errno;
        return snic_error_from_os(errno);
    }
    e->dev = (uint64_t)st.st_dev;
    e->ino = (uint64_t)st.st_ino;
    e->pid = (int32_t)getpid(); /* a forked child must not use its parent's handle */
    void *p = mmap(NULL, LMDB_SESSION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
    if (p == MAP_FAILED) {
        *os_error = errno;
        return SNIC_ENOMEM;
    }
    e->knocks = (_Atomic uint32_t *)p + 1;
    e->wishes = (_Atomic uint8_t *)p + 4096;
    return 0;
}

int lmdb_session_open(struct lmdb_kv *s, int *os_error, char *text)
{
    struct lmdb_session *e = &s->session;
    char path[sizeof(s->path) + 32];
    (void)snprintf(path, sizeof(path), "%s/session.lock", s->path);
    e->forced = (s->opts.flags & SNIC_KV_OPEN_SOLE) != 0;
    e->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (e->fd < 0) {
        *os_error = errno;
        (void)snprintf(text, LMDB_TEXT, "cannot open session.lock: %s", strerror(errno));
        return errno == EACCES || errno == EROFS || errno == EPERM ? SNIC_EACCES
                                                                   : snic_error_from_os(errno);
    }
    if (!lmdb_session_local(e->fd)) {
        (void)snprintf(text, LMDB_TEXT, "the folder is on a network file system");
        return SNIC_ENOTSUP;
    }
    int r = lmdb_session_map(e, os_error);
    if (r != 0) {
        (void)snprintf(text, LMDB_TEXT, "cannot map session.lock: %s", strerror(*os_error));
        return r;
    }
    r = lmdb_session_register(e);
    if (r != 0) {
        (void)snprintf(text, LMDB_TEXT, "this process has the store open already");
        return r;
    }
    r = lmdb_session_wait(s, text);
    if (r == 0 && e->forced)
        (void)lmdb_session_lock(e, F_RDLCK, 1, 1);
    /* Earlier knocks are our own, or of a newcomer that will knock again. */
    e->seen = atomic_load_explicit(e->knocks, memory_order_relaxed);
    return r;
}

int lmdb_session_share(struct lmdb_kv *s)
{
    struct lmdb_session *e = &s->session;
    e->exclusive = 0;
    e->seen = atomic_load_explicit(e->knocks, memory_order_relaxed);
    return lmdb_session_lock(e, F_RDLCK, 0, 1);
}

int lmdb_session_claim(struct lmdb_kv *s)
{
    struct lmdb_session *e = &s->session;
    uint32_t seen = atomic_load_explicit(e->knocks, memory_order_relaxed);
    if (lmdb_session_lock(e, F_WRLCK, 0, 1) != 0)
        return 0;
    e->seen = seen; /* later knocks are seen */
    e->exclusive = 1;
    return 1;
}

void lmdb_session_close(struct lmdb_kv *s)
{
    struct lmdb_session *e = &s->session;
    if (e->registered) {
        (void)pthread_mutex_lock(&lmdb_sessions_lock);
        snic_link_remove(&e->link);
        (void)pthread_mutex_unlock(&lmdb_sessions_lock);
    }
    if (e->knocks != NULL)
        (void)munmap(e->knocks - 1, LMDB_SESSION_BYTES);
    if (e->fd >= 0)
        (void)close(e->fd); /* its locks end with it */
    e->fd = -1;
}

#endif /* SNIC_WITH_LMDB */
