/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The identity of a store: the head record, the file `objects`, and their agreement.
 *
 * Head record 'S' 0, see FORMAT.md. Block 0 of `objects` holds the same bytes and a CRC32C:
 * the two belong together. The record is the last thing that is made: without it there is no store.
 */
#include "snicstore/kv.h"

#include "kv/lmdb_check.h"
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LMDB_HEAD = 48, LMDB_HEAD_SEAL = LMDB_HEAD + 4 };
#define SNIC_LMDB__MAGIC "snickvl\n"
#define SNIC_LMDB__OBJECTS_MIN (1ULL << 30)
#define SNIC_LMDB__OBJECTS_MAX (15ULL << 40) /* below what ext4 can do, and block numbers */

static void lmdb_head_encode(const struct lmdb_kv *s, unsigned char *out)
{
    memset(out, 0, LMDB_HEAD);
    memcpy(out, SNIC_LMDB__MAGIC, 8);
    snic_put_le32(out + 8, LMDB_VERSION);
    snic_put_le32(out + 12, LMDB_BLOCK);
    snic_put_le32(out + 16, LMDB_CHUNK);
    snic_put_le32(out + 20, LMDB_SEGMENT);
    snic_put_le64(out + 24, s->store_name[0]);
    snic_put_le64(out + 32, s->store_name[1]);
}

static int lmdb_head_decode(struct lmdb_kv *s, const unsigned char *in, uint32_t size, char *text)
{
    if (size < 12 || memcmp(in, SNIC_LMDB__MAGIC, 8) != 0) {
        (void)snprintf(text, LMDB_TEXT, "the data base is not a snicstore store");
        return SNIC_ECORRUPT;
    }
    if (snic_get_le32(in + 8) != LMDB_VERSION) {
        (void)snprintf(text, LMDB_TEXT, "the store has version %u, this library reads %d",
                       snic_get_le32(in + 8), LMDB_VERSION);
        return SNIC_EVERSION;
    }
    s->store_name[0] = size < LMDB_HEAD ? 0 : snic_get_le64(in + 24);
    s->store_name[1] = size < LMDB_HEAD ? 0 : snic_get_le64(in + 32);
    unsigned char want[LMDB_HEAD];
    lmdb_head_encode(s, want);
    if (size != LMDB_HEAD || memcmp(in, want, LMDB_HEAD) != 0) {
        (void)snprintf(text, LMDB_TEXT, "the store's head record is damaged");
        return SNIC_ECORRUPT;
    }
    return 0;
}

/* ---- The object file ---- */

/** As long as the store may become: sparse, so that its handles need not be opened anew. */
static int lmdb_objects_size(struct lmdb_kv *s, uint64_t size_now)
{
    struct statvfs f;
    uint64_t size = s->opts.object_bytes;
    if (size == 0 && fstatvfs(s->object_fd, &f) == 0)
        size = (uint64_t)f.f_blocks * f.f_frsize;
    size = snic_max_u64(snic_min_u64(size, SNIC_LMDB__OBJECTS_MAX), SNIC_LMDB__OBJECTS_MIN);
    if (s->opts.object_bytes != 0)
        size = snic_min_u64(size, snic_max_u64(s->opts.object_bytes, LMDB_BLOCK));
    uint64_t segment = (uint64_t)LMDB_SEGMENT * LMDB_BLOCK;
    size = snic_align_up(size, segment);
    if (size_now < size && !s->readonly) {
        /* A file system may have a limit of its own. */
        while (ftruncate(s->object_fd, (off_t)size) != 0) {
            if (errno != EFBIG || size < 2 * SNIC_LMDB__OBJECTS_MIN)
                return -errno;
            size = snic_align_up(size / 2, segment);
        }
    }
    size = snic_max_u64(size, snic_align_down(size_now, segment));
    if (s->readonly)
        size = snic_align_down(size_now, segment);
    s->segment_count = (uint32_t)(size / segment);
    s->segments = calloc(s->segment_count + 1U, sizeof(struct lmdb_segment *));
    return s->segments == NULL ? -ENOMEM : 0;
}

static int lmdb_objects_make(struct lmdb_kv *s)
{
    unsigned char head[LMDB_HEAD_SEAL];
    lmdb_head_encode(s, head);
    snic_put_le32(head + LMDB_HEAD, snic_crc32c(0, head, LMDB_HEAD));
    if (pwrite(s->object_fd, head, sizeof(head), 0) != (ssize_t)sizeof(head))
        return errno == 0 ? -EIO : -errno;
    return fsync(s->object_fd) == 0 ? 0 : -errno;
}

static int lmdb_objects_check(struct lmdb_kv *s, char *text)
{
    unsigned char head[LMDB_HEAD_SEAL];
    unsigned char want[LMDB_HEAD];
    lmdb_head_encode(s, want);
    ssize_t got = pread(s->object_fd, head, sizeof(head), 0);
    if (got != (ssize_t)sizeof(head) || memcmp(head, want, LMDB_HEAD) != 0 ||
        snic_get_le32(head + LMDB_HEAD) != snic_crc32c(0, head, LMDB_HEAD)) {
        (void)snprintf(text, LMDB_TEXT, "the file `objects` does not belong to this store");
        return SNIC_ECORRUPT;
    }
    return 0;
}

/** 1: an existing file was not made for a store. An empty one may have been. */
static int lmdb_objects_foreign(const struct lmdb_kv *s, uint64_t size)
{
    unsigned char head[8];
    return size > 0 && (pread(s->object_fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
                        memcmp(head, SNIC_LMDB__MAGIC, sizeof(head)) != 0);
}

static int lmdb_objects_open(struct lmdb_kv *s, int create, int *os_error, char *text)
{
    char path[sizeof(s->path) + 32];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/objects", s->path);
    s->object_fd = open(
        path, (s->readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK | (create ? O_CREAT : 0),
        0600);
    int r = s->object_fd < 0 || fstat(s->object_fd, &st) != 0 ? -errno : 0;
    if (r == 0 && !S_ISREG(st.st_mode))
        r = -EINVAL; /* opening a pipe would block */
    if (r == 0 && create && lmdb_objects_foreign(s, (uint64_t)st.st_size)) {
        (void)snprintf(text, LMDB_TEXT, "the file `objects` in the folder is not a store's");
        return SNIC_ECORRUPT;
    }
    if (r == 0 && create) /* first: a crash leaves an empty file, or one that is known again */
        r = lmdb_objects_make(s);
    if (r == 0)
        r = lmdb_objects_size(s, (uint64_t)st.st_size);
    if (r != 0) {
        *os_error = -r;
        (void)snprintf(text, LMDB_TEXT, "cannot use the file `objects`: %s", strerror(-r));
        return r == -ENOENT ? SNIC_ECORRUPT : snic_error_from_os(-r);
    }
    return create ? 0 : lmdb_objects_check(s, text);
}

/** The handles that requests go through. */
static int lmdb_objects_attach(struct lmdb_kv *s, int *os_error, char *text)
{
    char path[sizeof(s->path) + 32];
    (void)snprintf(path, sizeof(path), "%s/objects", s->path);
    uint32_t flags = s->readonly ? SNIC_IO_OPEN_READONLY : 0;
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = path, .depth = 2048};
    o.flags = flags;
    int r = snic_io_uring_open(&s->buffered, s->kv.loop, &o, os_error);
    if (r != 0) {
        (void)snprintf(text, LMDB_TEXT, "the file `objects` cannot be used: %s", snic_strerror(r));
        return r;
    }
    o.flags = flags | SNIC_IO_OPEN_DIRECT;
    if (snic_io_uring_open(&s->direct, s->kv.loop, &o, NULL) != 0 ||
        s->direct->geometry.offset_align > LMDB_BLOCK) {
        snic_io_close(s->direct);
        s->direct = NULL; /* DIRECT is a hint */
    }
    if (s->opts.wrap != NULL) {
        s->buffered = s->opts.wrap(s->opts.wrap_ctx, s->buffered);
        if (s->direct != NULL)
            s->direct = s->opts.wrap(s->opts.wrap_ctx, s->direct);
    }
    return 0;
}

/* ---- The data base ---- */

static int lmdb_head_make(struct lmdb_kv *s)
{
    unsigned char head[LMDB_HEAD];
    MDB_txn *txn = NULL;
    lmdb_head_encode(s, head);
    struct lmdb_key k = lmdb_key_number('S', 0);
    int e = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (e != 0)
        return e;
    e = lmdb_txn_put(txn, s->dbi, k.bytes, k.size, head, sizeof(head));
    if (e == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return e;
}

static int lmdb_folder_sync(struct lmdb_kv *s)
{
    int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || fsync(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        (void)close(fd);
    return r == -EINVAL ? 0 : r;
}

static int lmdb_create(struct lmdb_kv *s, int *os_error, char *text)
{
    if ((s->opts.flags & SNIC_KV_OPEN_CREATE) == 0) {
        (void)snprintf(text, LMDB_TEXT, "there is no store in the folder");
        return SNIC_ENOENT;
    }
    if (getrandom(s->store_name, sizeof(s->store_name), 0) != (ssize_t)sizeof(s->store_name)) {
        s->store_name[0] = snic_loop_clock(s->kv.loop);
        s->store_name[1] = (uint64_t)getpid();
    }
    int r = lmdb_objects_open(s, 1, os_error, text);
    if (r != 0)
        return r;
    int e = lmdb_folder_sync(s);
    e = e != 0 ? -e : lmdb_head_make(s);
    if (e != 0) {
        *os_error = e;
        (void)snprintf(text, LMDB_TEXT, "the store cannot be created: %s", mdb_strerror(e));
        return lmdb_error(e);
    }
    return 0;
}

/** Head record, or none and an empty data base. */
static int lmdb_head_open(struct lmdb_kv *s, int *os_error, char *text)
{
    MDB_stat stat;
    struct lmdb_value v = {0};
    struct lmdb_key k = lmdb_key_number('S', 0);
    int r = lmdb_get(s, &k, &v);
    if (r == SNIC_ENOENT && mdb_stat(s->snap, s->dbi, &stat) == 0 && stat.ms_entries == 0) {
        if (s->mode == LMDB_SHARED || s->readonly) {
            (void)snprintf(text, LMDB_TEXT, "there is no store in the folder");
            return SNIC_ENOENT;
        }
        r = lmdb_create(s, os_error, text);
        mdb_txn_reset(s->snap);
        s->snap_live = 0;
        return r;
    }
    if (r == SNIC_ENOENT || r == SNIC_ECORRUPT) {
        (void)snprintf(text, LMDB_TEXT, "the data base is not a snicstore store, or is damaged");
        return SNIC_ECORRUPT;
    }
    if (r != 0) {
        (void)snprintf(text, LMDB_TEXT, "the data base cannot be read: %s", snic_strerror(r));
        return r;
    }
    r = lmdb_head_decode(s, v.data, v.size, text);
    return r != 0 ? r : lmdb_objects_open(s, 0, os_error, text);
}

static int lmdb_env_open(struct lmdb_kv *s)
{
    int e = mdb_env_create(&s->env);
    if (e == 0)
        e = mdb_env_set_mapsize(s->env, s->opts.map_bytes);
    if (e == 0)
        e = mdb_env_set_maxreaders(s->env, LMDB_READERS);
    unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (s->readonly ? MDB_RDONLY : 0U);
    if (e == 0)
        e = mdb_env_open(s->env, s->path, flags, 0600);
    if (e == 0) {
        int dead = 0;
        (void)mdb_reader_check(s->env, &dead);
        e = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &s->snap);
    }
    return e;
}

static int lmdb_env_read(struct lmdb_kv *s)
{
    int e = mdb_dbi_open(s->snap, NULL, 0, &s->dbi);
    if (e == 0)
        e = mdb_cursor_open(s->snap, s->dbi, &s->cursor);
    s->snap_live = e == 0;
    return e;
}

int lmdb_format_open(struct lmdb_kv *s, int *os_error, char *text)
{
    int r = lmdb_check_meta(s->path, (s->opts.flags & SNIC_KV_OPEN_CREATE) != 0, text);
    if (r == 0)
        r = lmdb_session_reserve_env(s, os_error, text);
    if (r != 0)
        return r;
    int e = lmdb_env_open(s);
    int all = (s->opts.flags & SNIC_KV_OPEN_VERIFY) != 0;
    r = e != 0 ? 0 : lmdb_check_pages(s->env, s->snap, all, text);
    if (r != 0)
        return r;
    if (e == 0)
        e = lmdb_env_read(s);
    if (e != 0) {
        *os_error = e;
        (void)snprintf(text, LMDB_TEXT, "the file data.mdb cannot be opened: %s", mdb_strerror(e));
        return lmdb_error(e);
    }
    r = lmdb_head_open(s, os_error, text);
    if (r == 0)
        r = lmdb_objects_attach(s, os_error, text);
    if (r == 0 && s->mode == LMDB_SOLE) {
        r = lmdb_mode_catch_up(s);
        if (r != 0) {
            (void)snprintf(text, LMDB_TEXT, "what a dead process committed cannot be seen: %s",
                           snic_strerror(r));
            return r;
        }
        r = lmdb_space_load(s);
        if (r != 0)
            (void)snprintf(text, LMDB_TEXT, "a record of the space in use is damaged");
    }
    return r;
}

#endif /* SNIC_WITH_LMDB */
