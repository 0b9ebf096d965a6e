/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Plain files on io_uring. Creation, deletion and listing use blocking system
 * calls: they are rare, and this is the baseline that users have today. Where
 * the files are open for direct I/O, reads are rounded to the device's alignment
 * in a buffer of their own.
 */
#include "files_plain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define KV_PLAIN_BUCKETS 1024

struct plain_file {
    struct plain_file *next;
    uint64_t id;
    struct snic_io *io;
};

struct plain_read {
    struct snic_io_req io;
    struct kv_file_req *user;
    uint64_t skip;
    void *buffer;
};

struct kv_plain {
    struct snic_loop *loop;
    char *directory;
    int dir_fd;
    int direct;
    struct plain_file *buckets[KV_PLAIN_BUCKETS];
};

static struct plain_file **plain_slot(struct kv_plain *p, uint64_t id)
{
    struct plain_file **at = &p->buckets[id % KV_PLAIN_BUCKETS];

    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void plain_complete(struct snic_loop_msg *m)
{
    struct kv_file_req *r = SNIC_CONTAINER(m, struct kv_file_req, u.msg);

    r->done(r);
}

/* Complete from the loop, as the contract wants it. */
static void plain_finish(struct kv_plain *p, struct kv_file_req *r, int64_t result)
{
    r->result = result;
    r->u.msg.fn = plain_complete;
    snic_loop_defer(p->loop, &r->u.msg);
}

/* The id in a segment's name, 0 if it is another file. */
static uint64_t plain_id(const char *name)
{
    uint64_t id = 0;

    return strlen(name) == 20 && sscanf(name, "log-%16" SCNx64, &id) == 1 ? id : 0;
}

static int plain_file_open(struct kv_plain *p, uint64_t id, uint64_t create_size,
                           struct plain_file **out)
{
    struct plain_file **at = plain_slot(p, id);
    struct snic_io_uring_opts o = {.opts_size = sizeof(o)};
    char path[4096];
    int r;

    if (*at != NULL) {
        *out = *at;
        return 0;
    }
    snprintf(path, sizeof(path), "%s/log-%016" PRIx64, p->directory, id);
    o.path = path;
    o.size = create_size;
    o.flags =
        (p->direct ? SNIC_IO_OPEN_TRY_DIRECT : 0) | (create_size > 0 ? SNIC_IO_OPEN_CREATE : 0);
    *at = calloc(1, sizeof(**at));
    if (*at == NULL)
        return SNIC_ENOMEM;
    (*at)->id = id;
    r = snic_io_uring_open(&(*at)->io, p->loop, &o, NULL);
    if (r != 0) {
        free(*at);
        *at = NULL;
        return r;
    }
    *out = *at;
    return 0;
}

static void plain_io_done(struct snic_io_req *io)
{
    struct kv_file_req *r = SNIC_CONTAINER(io, struct kv_file_req, u.io);

    r->result = io->result;
    r->done(r);
}

static void plain_read_done(struct snic_io_req *io)
{
    struct plain_read *b = SNIC_CONTAINER(io, struct plain_read, io);
    struct kv_file_req *r = b->user;
    int64_t n = io->result;

    if (n >= 0) {
        n = n > (int64_t)b->skip ? n - (int64_t)b->skip : 0;
        n = n > (int64_t)r->size ? (int64_t)r->size : n;
        memcpy(r->data, (char *)b->buffer + b->skip, (size_t)n);
    }
    free(b->buffer);
    free(b);
    r->result = n;
    r->done(r);
}

/* A read whose range the device cannot do as it is. */
static int plain_read_rounded(struct plain_file *f, struct kv_file_req *r)
{
    uint32_t align = f->io->geometry.offset_align;
    uint64_t from = snic_align_down(r->offset, align);
    uint64_t to = snic_align_up(r->offset + r->size, align);
    struct plain_read *b = calloc(1, sizeof(*b));
    struct snic_io_req *q;

    if (b == NULL || posix_memalign(&b->buffer, 4096, to - from) != 0) {
        free(b);
        return SNIC_ENOMEM;
    }
    b->user = r;
    b->skip = r->offset - from;
    b->io.op = SNIC_IO_READ;
    b->io.offset = from;
    b->io.length = snic_min_u64(to, f->io->geometry.size) - from;
    b->io.buf.base = b->buffer;
    b->io.buf.size = b->io.length;
    b->io.region = SNIC_NO_REGION;
    b->io.done = plain_read_done;
    q = &b->io;
    if (snic_io_submit(f->io, &q, 1) == 1)
        return 0;
    free(b->buffer);
    free(b);
    return SNIC_EAGAIN;
}

static int plain_transfer(struct kv_plain *p, struct kv_file_req *r)
{
    struct snic_io_req *io = &r->u.io;
    struct plain_file *f;
    int e = plain_file_open(p, r->file, 0, &f);

    if (e != 0)
        return e;
    if (r->op == KV_FILE_READ && f->io->geometry.offset_align > 1)
        return plain_read_rounded(f, r);
    memset(io, 0, sizeof(*io));
    io->op = r->op == KV_FILE_READ    ? SNIC_IO_READ
             : r->op == KV_FILE_WRITE ? SNIC_IO_WRITE
                                      : SNIC_IO_FLUSH;
    if (r->op != KV_FILE_FSYNC) {
        io->offset = r->offset;
        io->length = r->size;
        io->buf.base = r->data;
        io->buf.size = r->size;
    }
    io->flags = r->op == KV_FILE_WRITE && r->sync ? SNIC_IO_FUA : 0;
    io->region = SNIC_NO_REGION;
    io->done = plain_io_done;
    return snic_io_submit(f->io, &io, 1) == 1 ? 0 : SNIC_EAGAIN;
}

static int plain_create(struct kv_plain *p, struct kv_file_req *r)
{
    uint64_t id = plain_id(r->name);
    struct plain_file *f;
    int e;

    if (id == 0)
        return SNIC_EINVAL;
    e = plain_file_open(p, id, r->size, &f);
    if (e == 0 && fsync(p->dir_fd) != 0)
        e = snic_error_from_os(errno);
    r->file = id;
    return e;
}

static int plain_delete(struct kv_plain *p, struct kv_file_req *r)
{
    struct plain_file **at = plain_slot(p, r->file);
    struct plain_file *f = *at;
    char name[32];

    if (f != NULL) {
        *at = f->next;
        snic_io_close(f->io);
        free(f);
    }
    snprintf(name, sizeof(name), "log-%016" PRIx64, r->file);
    if (unlinkat(p->dir_fd, name, 0) != 0 || fsync(p->dir_fd) != 0)
        return snic_error_from_os(errno);
    return 0;
}

static int plain_list(struct kv_plain *p, struct kv_file_req *r)
{
    DIR *d = opendir(p->directory);
    struct dirent *e;

    if (d == NULL)
        return snic_error_from_os(errno);
    while ((e = readdir(d)) != NULL) {
        struct stat st;

        if (e->d_name[0] == '.' || fstatat(p->dir_fd, e->d_name, &st, 0) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        r->entry(r, e->d_name, plain_id(e->d_name), (uint64_t)st.st_size);
    }
    closedir(d);
    return 0;
}

static void plain_submit(void *ctx, struct kv_file_req *r)
{
    struct kv_plain *p = ctx;
    int e = SNIC_EINVAL;

    switch (r->op) {
    case KV_FILE_READ:
    case KV_FILE_WRITE:
    case KV_FILE_FSYNC:
        e = plain_transfer(p, r);
        if (e == 0)
            return;
        break;
    case KV_FILE_CREATE:
        e = plain_create(p, r);
        break;
    case KV_FILE_DELETE:
        e = plain_delete(p, r);
        break;
    case KV_FILE_LIST:
        e = plain_list(p, r);
        break;
    }
    plain_finish(p, r, e);
}

const struct kv_files_ops kv_plain_ops = {.submit = plain_submit};

int kv_plain_open(struct kv_plain **out, struct snic_loop *loop, const char *directory, int direct,
                  char *error, size_t error_size)
{
    struct kv_plain *p = calloc(1, sizeof(*p));
    int e = 0;

    snprintf(error, error_size, "out of memory for the file table");
    if (p == NULL || (p->directory = strdup(directory)) == NULL) {
        free(p);
        return SNIC_ENOMEM;
    }
    p->loop = loop;
    p->direct = direct;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        e = errno;
    p->dir_fd = e == 0 ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (e == 0 && p->dir_fd < 0)
        e = errno;
    if (e != 0) {
        snprintf(error, error_size, "cannot open directory '%s': %s", directory, strerror(e));
    } else if (faccessat(p->dir_fd, ".", W_OK, AT_EACCESS) != 0) {
        e = errno;
        snprintf(error, error_size, "cannot write to directory '%s': %s", directory, strerror(e));
    } else if (flock(p->dir_fd, LOCK_EX | LOCK_NB) != 0) {
        e = errno;
        snprintf(error, error_size,
                 "directory '%s' is in use by another process: stop that one, or name another with "
                 "--dir",
                 directory);
    }
    if (e != 0) {
        kv_plain_close(p);
        return e == EWOULDBLOCK ? SNIC_EBUSY : snic_error_from_os(e);
    }
    *out = p;
    return 0;
}

void kv_plain_close(struct kv_plain *p)
{
    for (size_t i = 0; i < KV_PLAIN_BUCKETS; i++)
        while (p->buckets[i] != NULL) {
            struct plain_file *f = p->buckets[i];

            p->buckets[i] = f->next;
            snic_io_close(f->io);
            free(f);
        }
    if (p->dir_fd >= 0)
        close(p->dir_fd);
    free(p->directory);
    free(p);
}
