/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "kv_lmdb_record.h"

#include "kv_lmdb_util.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { RECORD_PAGE = 4096, RECORD_MAX = 1 << 16 };

enum record_kind { RECORD_WRITE = 1, RECORD_SYNC, RECORD_NOTE };

struct record_event {
    enum record_kind kind;
    enum record_file file;
    uint64_t offset;
    uint64_t size;
    unsigned char *data;
    size_t done; /* write: the log's length when it was over; SIZE_MAX: never. sync: when begun */
    int durable; /* write: by itself */
    uint64_t number;
};

struct record_base {
    unsigned char *data;
    uint64_t size; /* of data */
    uint64_t file_size;
    dev_t dev;
    ino_t ino;
};

struct record_fault record_fault_data_write;
struct record_fault record_fault_data_sync;
struct record_fault record_fault_object_read;
struct record_fault record_fault_object_write;
struct record_fault record_fault_object_flush;
uint64_t record_flushes;
uint64_t record_syncs;

static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER;
static struct record_event *record_log;
static size_t record_count;
static int record_on;
static struct record_base record_bases[RECORD_FILES];
static const char *const record_names[RECORD_FILES] = {"data.mdb", "objects"};

/* ---- The log ---- */

static int record_strikes(struct record_fault *f)
{
    int error = 0;
    (void)pthread_mutex_lock(&record_lock);
    if (f->after > 1) {
        f->after--;
    } else if (f->after == 1) {
        error = f->error;
        if (f->times-- <= 1)
            f->after = 0;
    }
    (void)pthread_mutex_unlock(&record_lock);
    return error;
}

static size_t record_add(struct record_event e)
{
    (void)pthread_mutex_lock(&record_lock);
    size_t at = record_count;
    if (record_on) {
        KVL_CHECK(record_count < RECORD_MAX);
        if (e.kind == RECORD_WRITE && e.done != SIZE_MAX)
            e.done = at;
        record_log[record_count++] = e;
    } else {
        free(e.data);
    }
    (void)pthread_mutex_unlock(&record_lock);
    return at;
}

static int record_is_on(void)
{
    (void)pthread_mutex_lock(&record_lock);
    int on = record_on;
    (void)pthread_mutex_unlock(&record_lock);
    return on;
}

static void record_load(enum record_file f, const char *path)
{
    char name[1024];
    struct stat st;
    struct record_base *b = &record_bases[f];
    (void)snprintf(name, sizeof(name), "%s/%s", path, record_names[f]);
    int fd = open(name, O_RDONLY);
    KVL_CHECK(fd >= 0 && fstat(fd, &st) == 0);
    b->dev = st.st_dev;
    b->ino = st.st_ino;
    b->file_size = (uint64_t)st.st_size;
    b->size = snic_min_u64(b->file_size, 8U << 20);
    b->data = calloc(1, b->size);
    KVL_CHECK(b->data != NULL);
    KVL_EQUAL(pread(fd, b->data, b->size, 0), b->size);
    (void)close(fd);
}

void record_begin(const char *path)
{
    for (int f = 0; f < RECORD_FILES; f++)
        record_load((enum record_file)f, path);
    record_log = calloc(RECORD_MAX, sizeof(*record_log));
    KVL_CHECK(record_log != NULL);
    record_count = 0;
    record_on = 1;
}

void record_stop(void)
{
    (void)pthread_mutex_lock(&record_lock);
    record_on = 0;
    (void)pthread_mutex_unlock(&record_lock);
}

void record_end(void)
{
    record_stop();
    for (size_t i = 0; i < record_count; i++)
        free(record_log[i].data);
    free(record_log);
    for (int f = 0; f < RECORD_FILES; f++)
        free(record_bases[f].data);
    record_log = NULL;
    record_count = 0;
}

size_t record_note(uint64_t number)
{
    (void)record_add((struct record_event){.kind = RECORD_NOTE, .number = number});
    return record_length();
}

size_t record_length(void)
{
    (void)pthread_mutex_lock(&record_lock);
    size_t n = record_count;
    (void)pthread_mutex_unlock(&record_lock);
    return n;
}

uint64_t record_noted(size_t cut)
{
    for (size_t i = cut; i-- > 0;) {
        if (record_log[i].kind == RECORD_NOTE)
            return record_log[i].number;
    }
    return 0;
}

/* ---- Images ---- */

static int record_durable(size_t at, size_t cut)
{
    const struct record_event *w = &record_log[at];
    if (w->durable)
        return 1;
    for (size_t i = at; i < cut; i++) {
        const struct record_event *s = &record_log[i];
        if (s->kind == RECORD_SYNC && s->file == w->file && w->done < s->done)
            return 1;
    }
    return 0;
}

static void record_apply(int fd, const struct record_event *w, int whole, enum record_choice choice,
                         struct snic_rng *rng)
{
    for (uint64_t at = 0; at < w->size;) {
        uint64_t n = RECORD_PAGE - (w->offset + at) % RECORD_PAGE;
        n = snic_min_u64(n, w->size - at);
        int keep = whole || choice == RECORD_ALL ||
                   (choice == RECORD_RANDOM && snic_rng_below(rng, 2) != 0);
        if (keep)
            KVL_EQUAL(pwrite(fd, w->data + at, n, (off_t)(w->offset + at)), n);
        at += n;
    }
}

void record_image(const char *to, size_t cut, enum record_choice choice, uint64_t seed)
{
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    (void)mkdir(to, 0700);
    for (int f = 0; f < RECORD_FILES; f++) {
        char name[1024];
        const struct record_base *b = &record_bases[f];
        (void)snprintf(name, sizeof(name), "%s/%s", to, record_names[f]);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        KVL_CHECK(fd >= 0 && ftruncate(fd, (off_t)b->file_size) == 0);
        for (uint64_t at = 0; at < b->size; at += RECORD_PAGE) {
            static const unsigned char zeros[RECORD_PAGE];
            uint64_t n = snic_min_u64(RECORD_PAGE, b->size - at);
            if (memcmp(b->data + at, zeros, n) != 0)
                KVL_EQUAL(pwrite(fd, b->data + at, n, (off_t)at), n);
        }
        size_t latest = cut;
        for (size_t i = 0; i < cut; i++) {
            if (record_log[i].kind == RECORD_WRITE && (int)record_log[i].file == f)
                latest = i;
        }
        for (size_t i = 0; i < cut; i++) {
            const struct record_event *w = &record_log[i];
            if (w->kind == RECORD_WRITE && (int)w->file == f)
                record_apply(fd, w,
                             record_durable(i, cut) || (choice == RECORD_LATEST && i == latest),
                             choice, &rng);
        }
        (void)close(fd);
    }
}

/* ---- LMDB's calls ---- */

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t writev(int fd, const struct iovec *v, int n);
int fdatasync(int fd);

/** Is it the store's data base? */
static int record_is_data(int fd)
{
    struct stat st;
    const struct record_base *b = &record_bases[RECORD_DATA];
    return record_is_on() && fstat(fd, &st) == 0 && st.st_dev == b->dev && st.st_ino == b->ino;
}

static void record_data(int fd, const void *data, size_t size, off_t offset)
{
    struct record_event e = {.kind = RECORD_WRITE, .file = RECORD_DATA};
    e.offset = (uint64_t)offset;
    e.size = size;
    e.data = malloc(size);
    KVL_CHECK(e.data != NULL);
    memcpy(e.data, data, size);
    e.durable = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
    (void)record_add(e);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (record_is_data(fd)) {
        int error = record_strikes(&record_fault_data_write);
        if (error != 0) {
            errno = error;
            return -1;
        }
        record_data(fd, data, size, offset);
    }
    return syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    if (record_is_data(fd)) {
        int error = record_strikes(&record_fault_data_write);
        if (error != 0) {
            errno = error;
            return -1;
        }
        off_t at = lseek(fd, 0, SEEK_CUR);
        for (int i = 0; i < n; i++) {
            record_data(fd, v[i].iov_base, v[i].iov_len, at);
            at += (off_t)v[i].iov_len;
        }
    }
    return syscall(SYS_writev, fd, v, n);
}

int fdatasync(int fd)
{
    if (!record_is_data(fd))
        return (int)syscall(SYS_fdatasync, fd);
    int error = record_strikes(&record_fault_data_sync);
    if (error != 0) {
        errno = error;
        return -1;
    }
    size_t begun = record_length();
    int r = (int)syscall(SYS_fdatasync, fd);
    (void)record_add(
        (struct record_event){.kind = RECORD_SYNC, .file = RECORD_DATA, .done = begun});
    record_syncs++;
    return r;
}

/* ---- The object file ---- */

struct record_io {
    struct snic_io io;
    struct snic_io *inner;
};

struct record_req {
    struct snic_io_req inner;
    struct snic_io_req *req;
    struct record_io *io;
    size_t event;
    int error;
};

static void record_io_done(struct snic_io_req *inner)
{
    struct record_req *r = SNIC_CONTAINER(inner, struct record_req, inner);
    struct snic_io_req *req = r->req;
    (void)pthread_mutex_lock(&record_lock);
    if (record_on && req->op == SNIC_IO_WRITE && r->event < record_count)
        record_log[r->event].done = record_count;
    (void)pthread_mutex_unlock(&record_lock);
    if (req->op == SNIC_IO_FLUSH && r->error == 0) {
        (void)record_add((struct record_event){
            .kind = RECORD_SYNC, .file = RECORD_OBJECTS, .done = r->event + 1});
        record_flushes++;
    }
    req->result = r->error != 0 ? snic_error_from_os(r->error) : inner->result;
    req->os_error = r->error != 0 ? r->error : inner->os_error;
    req->done_ns = inner->done_ns;
    free(r);
    req->done(req);
}

static size_t record_io_write(const struct snic_io_req *req)
{
    struct record_event e = {.kind = RECORD_WRITE, .file = RECORD_OBJECTS, .done = SIZE_MAX};
    e.offset = req->offset;
    e.size = req->length;
    e.data = malloc(req->length);
    KVL_CHECK(e.data != NULL);
    const struct snic_iov *v = req->iov == NULL ? &req->buf : req->iov;
    uint64_t at = 0;
    for (uint32_t i = 0; at < req->length; i++) {
        memcpy(e.data + at, v[i].base, v[i].size);
        at += v[i].size;
    }
    return record_add(e);
}

static int record_io_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct record_io *self = SNIC_CONTAINER(io, struct record_io, io);
    for (uint32_t i = 0; i < n; i++) {
        struct record_req *r = calloc(1, sizeof(*r));
        KVL_CHECK(r != NULL);
        r->inner = *reqs[i];
        r->inner.done = record_io_done;
        r->req = reqs[i];
        r->io = self;
        r->error = record_strikes(reqs[i]->op == SNIC_IO_READ    ? &record_fault_object_read
                                  : reqs[i]->op == SNIC_IO_WRITE ? &record_fault_object_write
                                                                 : &record_fault_object_flush);
        struct snic_io_req *inner = &r->inner;
        if (r->error != 0) { /* something that changes nothing, in its place */
            r->inner.op = SNIC_IO_FLUSH;
        }
        r->event = reqs[i]->op == SNIC_IO_WRITE && r->error == 0 ? record_io_write(reqs[i])
                                                                 : record_length();
        int taken = snic_io_submit(self->inner, &inner, 1);
        if (taken != 1) {
            free(r);
            return i > 0 ? (int)i : taken;
        }
    }
    return (int)n;
}

static void record_io_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

static void record_io_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_wait(SNIC_CONTAINER(io, struct record_io, io)->inner, w);
}

static void record_io_close(struct snic_io *io)
{
    struct record_io *self = SNIC_CONTAINER(io, struct record_io, io);
    snic_io_close(self->inner);
    free(self);
}

struct snic_io *record_wrap(void *ctx, struct snic_io *io)
{
    static const struct snic_io_ops ops = {.ops_size = sizeof(ops),
                                           .name = "record",
                                           .submit = record_io_submit,
                                           .cancel = record_io_cancel,
                                           .close = record_io_close,
                                           .wait = record_io_wait};
    struct record_io *self = calloc(1, sizeof(*self));
    (void)ctx;
    KVL_CHECK(self != NULL);
    self->io = *io;
    self->io.ops = &ops;
    self->inner = io;
    return &self->io;
}
