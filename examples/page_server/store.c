/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "store.h"

#include "../common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const store_names[STORE_FILES] = {"pages", "log", "shape"};

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

int store_open_lib(struct store *s, struct snic_filelib *lib, struct snic_loop *loop,
                   const struct store_opts *o)
{
    memset(s, 0, sizeof(*s));
    s->submit = store_lib_submit;
    s->loop = loop;
    s->lib = lib;
    for (int i = 0; i < STORE_FILES; i++) {
        struct snic_filelib_req q;
        int64_t r;

        memset(&q, 0, sizeof(q));
        q.op = SNIC_FILES_CREATE;
        q.flags = SNIC_FILES_REPLACE; /* one that exists is opened */
        q.name = store_names[i];
        q.name_size = (uint32_t)strlen(store_names[i]);
        r = snic_filelib_run(lib, &q);
        if (r < 0)
            return (int)r;
        s->ids[i] = q.id;
        memset(&q, 0, sizeof(q));
        q.op = SNIC_FILES_PREALLOC; /* what is there already is kept */
        q.file = s->ids[i];
        q.length = o->sizes[i];
        r = snic_filelib_run(lib, &q);
        if (r < 0)
            return (int)r;
    }
    return 0;
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

void store_open_plain(struct store *s, struct snic_loop *loop, const struct store_opts *o)
{
    memset(s, 0, sizeof(*s));
    s->submit = store_plain_submit;
    s->loop = loop;
    if (mkdir(o->directory, 0700) != 0 && errno != EEXIST)
        ex_die("cannot create directory '%s' (--dir): %s", o->directory, strerror(errno));
    for (int i = 0; i < STORE_FILES; i++) {
        struct snic_io_uring_opts io = {.opts_size = sizeof(io)};
        char path[4096];
        int r, os_error = 0;

        (void)snprintf(path, sizeof(path), "%s/%s", o->directory, store_names[i]);
        io.path = path;
        io.size = o->sizes[i];
        io.depth = 32768;
        io.flags =
            SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_LOCK | (o->buffered ? 0 : SNIC_IO_OPEN_TRY_DIRECT);
        r = ex_io_open(&s->ios[i], loop, &io, &os_error);
        if (r == SNIC_EBUSY)
            ex_die("'%s' is in use by another process: stop that one, or name another directory "
                   "with --dir",
                   path);
        ex_no_room(path, io.size,
                   i == STORE_LOG ? "--log-size" : "two copies of --pages of --page-bytes",
                   os_error);
        if (r != 0)
            ex_die("cannot open '%s': %s", path,
                   os_error != 0 ? strerror(abs(os_error)) : snic_strerror(r));
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
