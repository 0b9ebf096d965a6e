/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "store.h"

#include "../common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STORE_LIST_BYTES 32768u

static const char *const store_names[STORE_FILES] = {"pages", "log", "shape"};

/* The description comes first: it is checked before the others are made, or grow. */
static const uint8_t store_order[STORE_FILES] = {STORE_SHAPE, STORE_PAGES, STORE_LOG};

static int store_check(struct store *s, const struct store_opts *o, int file)
{
    return file == STORE_SHAPE && o->check != NULL ? o->check(s, o->ctx) : 0;
}

/* ---- On the file library ---- */

static void store_lib_done(struct snic_filelib_req *q)
{
    struct store_req *r = SNIC_CONTAINER(q, struct store_req, u.lib);

    r->result = q->result;
    r->done(r);
}

static void store_lib_submit(struct store *s, struct store_req *r)
{
    struct snic_filelib_req *q = &r->u.lib;

    memset(q, 0, sizeof(*q));
    q->done = store_lib_done;
    q->op = r->write ? SNIC_FILES_WRITE : SNIC_FILES_READ;
    q->flags = r->write && r->sync ? SNIC_FILES_SYNC : 0;
    q->file = s->ids[r->file];
    q->offset = r->offset;
    q->length = r->size;
    q->buf.base = r->data;
    q->buf.size = r->size;
    memcpy(q->tag, r->tag, sizeof(q->tag));
    snic_filelib_submit(s->lib, &q, 1);
}

static int store_is_own(const struct snic_files_entry *e)
{
    for (int i = 0; i < STORE_FILES; i++)
        if (strlen(store_names[i]) == e->name_size &&
            memcmp(store_names[i], e->name, e->name_size) == 0)
            return 1;
    return 0;
}

/* An image that another program has made keeps its space: refuse it before anything is written. */
static int store_refuse_foreign(struct snic_filelib *lib)
{
    struct snic_filelib_req q;
    struct snic_files_entry e;
    char foreign[SNIC_FILES_NAME_MAX + 1] = "";
    char *list = malloc(STORE_LIST_BYTES);
    int own = 0;
    int64_t r;

    if (list == NULL)
        ex_die("out of memory for the list of files");
    memset(&q, 0, sizeof(q));
    q.op = SNIC_FILES_LIST;
    do {
        size_t pos = 0;
        int more = 0;

        q.offset = q.cursor;
        q.buf.base = list;
        q.buf.size = q.length = STORE_LIST_BYTES;
        r = snic_filelib_run(lib, &q);
        while (r > 0 && (more = snic_files_entry_next(list, (size_t)r, &pos, &e)) == 1) {
            own |= store_is_own(&e);
            if (!store_is_own(&e))
                (void)snprintf(foreign, sizeof(foreign), "%.*s", (int)e.name_size, e.name);
        }
        r = more < 0 ? more : r;
    } while (r > 0);
    free(list);
    if (r == 0 && !own && foreign[0] != 0)
        ex_die("the image holds files of another program ('%s'): name another image with --file",
               foreign);
    return (int)r;
}

static int store_open_lib_one(struct store *s, int file, uint64_t size)
{
    struct snic_filelib_req q;
    int64_t r;

    memset(&q, 0, sizeof(q));
    q.op = SNIC_FILES_CREATE;
    q.flags = SNIC_FILES_REPLACE; /* one that exists is opened */
    q.name = store_names[file];
    q.name_size = (uint32_t)strlen(store_names[file]);
    r = snic_filelib_run(s->lib, &q);
    if (r < 0)
        return (int)r;
    s->ids[file] = q.id;
    memset(&q, 0, sizeof(q));
    q.op = SNIC_FILES_PREALLOC; /* existing data are kept */
    q.file = s->ids[file];
    q.length = size;
    return (int)snic_filelib_run(s->lib, &q);
}

int store_open_lib(struct store *s, struct snic_filelib *lib, struct snic_loop *loop,
                   const struct store_opts *o)
{
    int r;

    memset(s, 0, sizeof(*s));
    s->submit = store_lib_submit;
    s->loop = loop;
    s->lib = lib;
    r = store_refuse_foreign(lib);
    for (int i = 0; r >= 0 && i < STORE_FILES; i++) {
        r = store_open_lib_one(s, store_order[i], o->sizes[store_order[i]]);
        if (r >= 0)
            r = store_check(s, o, store_order[i]);
    }
    return r < 0 ? r : 0;
}

/* ---- On plain files ---- */

static void store_plain_done(struct snic_io_req *io)
{
    struct store_req *r = SNIC_CONTAINER(io, struct store_req, u.io);

    r->result = io->result;
    r->done(r);
}

static void store_plain_submit(struct store *s, struct store_req *r)
{
    struct snic_io_req *io = &r->u.io;

    snic_io_req_init(io);
    io->op = r->write ? SNIC_IO_WRITE : SNIC_IO_READ;
    io->flags = r->write && r->sync ? SNIC_IO_FUA : 0;
    io->offset = r->offset;
    io->length = r->size;
    io->buf.base = r->data;
    io->buf.size = r->size;
    io->done = store_plain_done;
    int submitted = snic_io_submit(s->ios[r->file], &io, 1);

    if (submitted != 1)
        ex_die("cannot submit I/O to file '%s': %s", store_names[r->file],
               snic_strerror(submitted != 0 ? submitted : SNIC_EAGAIN));
}

static void store_open_plain_one(struct store *s, int file, const struct store_opts *o)
{
    struct snic_io_uring_opts io = {.opts_size = sizeof(io)};
    char path[4096];
    int r, os_error = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", o->directory, store_names[file]);
    io.path = path;
    io.size = o->sizes[file];
    io.depth = 32768;
    io.flags =
        SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_LOCK | (o->buffered ? 0 : SNIC_IO_OPEN_TRY_DIRECT);
    r = ex_io_open(&s->ios[file], s->loop, &io, &os_error);
    if (r == SNIC_EBUSY)
        ex_die("'%s' is in use by another process: stop that one, or name another directory "
               "with --dir",
               path);
    ex_no_room(path, io.size,
               file == STORE_LOG ? "--log-size" : "two copies of --pages of --page-bytes",
               os_error);
    if (r != 0)
        ex_die("cannot open '%s': %s", path,
               os_error != 0 ? strerror(abs(os_error)) : snic_strerror(r));
}

void store_open_plain(struct store *s, struct snic_loop *loop, const struct store_opts *o)
{
    memset(s, 0, sizeof(*s));
    s->submit = store_plain_submit;
    s->loop = loop;
    if (mkdir(o->directory, 0700) != 0 && errno != EEXIST)
        ex_die("cannot create directory '%s' (--dir): %s", o->directory, strerror(errno));
    for (int i = 0; i < STORE_FILES; i++) {
        int r;

        store_open_plain_one(s, store_order[i], o);
        r = store_check(s, o, store_order[i]);
        if (r != 0)
            ex_die("cannot read '%s/%s': %s", o->directory, store_names[store_order[i]],
                   snic_strerror(r));
    }
}

void store_close_plain(struct store *s)
{
    for (int i = 0; i < STORE_FILES; i++)
        snic_io_close(s->ios[i]);
}

/* ---- Both ---- */

static void store_run_done(struct store_req *r)
{
    r->done = NULL;
}

int64_t store_run(struct store *s, struct store_req *r)
{
    r->done = store_run_done;
    s->submit(s, r);
    while (r->done != NULL) {
        int rc = snic_loop_once(s->loop, SNIC_NEVER);

        if (rc < 0)
            ex_die("waiting for events failed: %s", snic_strerror(rc));
    }
    return r->result;
}
