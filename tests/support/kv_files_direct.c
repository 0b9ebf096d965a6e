/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "kv_files_direct.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

#define LIST_BYTES 8192

/* ---- Files ---- */

struct direct {
    struct snic_files_req q;
    struct snic_loop_msg msg; /* an FSYNC that does nothing */
    struct kv_file_req *r;
    struct kv_direct *d;
};

static void direct_end(struct direct *x, int64_t result)
{
    struct kv_file_req *r = x->r;

    r->result = result;
    free(x);
    r->done(r);
}

static void direct_done(struct snic_files_req *q)
{
    direct_end(SNIC_CONTAINER(q, struct direct, q), q->result);
}

static void direct_forgotten(struct snic_loop_msg *m)
{
    direct_end(SNIC_CONTAINER(m, struct direct, msg), 0);
}

static void direct_go(struct direct *x, uint8_t op, snic_files_done_fn done)
{
    struct snic_files_req *q = &x->q;

    q->op = op;
    q->done = done;
    q->region = SNIC_NO_REGION;
    snic_files_submit(x->d->files, &q, 1);
}

/* The empty file is gone again; the engine hears why there was no space for it. */
static void direct_removed(struct snic_files_req *q)
{
    struct direct *x = SNIC_CONTAINER(q, struct direct, q);

    direct_end(x, x->r->result);
}

static void direct_reserved(struct snic_files_req *q)
{
    struct direct *x = SNIC_CONTAINER(q, struct direct, q);

    x->r->result = q->result;
    if (q->result >= 0) {
        direct_end(x, 0);
        return;
    }
    q->length = 0;
    q->name_size = 0;
    direct_go(x, SNIC_FILES_DELETE, direct_removed);
}

static void direct_created(struct snic_files_req *q)
{
    struct direct *x = SNIC_CONTAINER(q, struct direct, q);

    if (q->result < 0) {
        direct_end(x, q->result);
        return;
    }
    x->r->file = q->id;
    q->file = q->id;
    q->flags = 0;
    q->offset = 0;
    q->length = x->r->size;
    direct_go(x, SNIC_FILES_PREALLOC, direct_reserved);
}

static void direct_listed(struct snic_files_req *q)
{
    struct direct *x = SNIC_CONTAINER(q, struct direct, q);
    struct snic_files_entry e;
    size_t pos = 0;

    while (q->result > 0 && snic_files_entry_next(q->buf.base, (size_t)q->result, &pos, &e) == 1) {
        char name[SNIC_FILES_NAME_MAX + 1];

        memcpy(name, e.name, e.name_size);
        name[e.name_size] = 0;
        x->r->entry(x->r, name, e.id, e.size);
    }
    if (q->result > 0) {
        q->offset = q->cursor;
        direct_go(x, SNIC_FILES_LIST, direct_listed);
        return;
    }
    free(q->buf.base);
    direct_end(x, q->result);
}

static void direct_data(struct direct *x)
{
    struct kv_file_req *r = x->r;
    int write = r->op == KV_FILE_WRITE;

    x->q.offset = r->offset;
    x->q.length = r->size;
    x->q.buf.base = r->data;
    x->q.buf.size = r->size;
    if (write && r->sync && x->d->forget != KV_FORGET_SYNC)
        x->q.flags = SNIC_FILES_SYNC;
    direct_go(x, write ? SNIC_FILES_WRITE : SNIC_FILES_READ, direct_done);
}

static void direct_submit(void *ctx, struct kv_file_req *r)
{
    struct direct *x = calloc(1, sizeof(*x));

    assert_non_null(x);
    x->r = r;
    x->d = ctx;
    x->q.file = r->file;
    x->q.dir = SNIC_FILES_ROOT;
    switch (r->op) {
    case KV_FILE_READ:
    case KV_FILE_WRITE:
        direct_data(x);
        break;
    case KV_FILE_FSYNC:
        if (x->d->forget == KV_FORGET_FSYNC) {
            x->msg.fn = direct_forgotten;
            snic_loop_defer(x->d->loop, &x->msg);
        } else {
            direct_go(x, SNIC_FILES_FSYNC, direct_done);
        }
        break;
    case KV_FILE_CREATE:
        x->q.flags = SNIC_FILES_REPLACE;
        x->q.name = r->name;
        x->q.name_size = (uint32_t)strlen(r->name);
        direct_go(x, SNIC_FILES_CREATE, direct_created);
        break;
    case KV_FILE_DELETE:
        direct_go(x, SNIC_FILES_DELETE, direct_done);
        break;
    case KV_FILE_LIST:
        x->q.buf.base = malloc(LIST_BYTES);
        assert_non_null(x->q.buf.base);
        x->q.buf.size = LIST_BYTES;
        x->q.length = LIST_BYTES;
        direct_go(x, SNIC_FILES_LIST, direct_listed);
        break;
    }
}

const struct kv_files_ops kv_direct_ops = {.submit = direct_submit};

/* ---- Device ---- */

static int shim_forgets(struct kv_shim *s, const struct snic_io_req *r)
{
    if (r->op == SNIC_IO_WRITE && (r->flags & SNIC_IO_FUA) != 0)
        return s->forget == (r->offset < s->data_offset ? KV_FORGET_FUA_META : KV_FORGET_FUA_DATA);
    if (r->op != SNIC_IO_FLUSH)
        return 0;
    s->flushes++;
    switch (s->forget) {
    case KV_FORGET_FLUSH_DATA:
        return !s->journal_written && !s->ckpt_written;
    case KV_FORGET_FLUSH_JOURNAL:
        return s->journal_written;
    case KV_FORGET_FLUSH_CKPT:
        return s->ckpt_written;
    case KV_FORGET_FLUSH_ALL:
        return 1;
    case KV_FORGET_FLUSH_NTH:
        return s->nth > 0 && --s->nth == 0;
    case KV_FORGET_NOTHING:
    case KV_FORGET_SYNC:
    case KV_FORGET_FSYNC:
    case KV_FORGET_FUA_DATA:
    case KV_FORGET_FUA_META:
        break;
    }
    return 0;
}

/* A flush that is forgotten: it completes, and nothing has happened. */
struct shim_flush {
    struct snic_loop_msg msg;
    struct snic_io_req *req;
};

static void shim_flushed(struct snic_loop_msg *m)
{
    struct shim_flush *x = SNIC_CONTAINER(m, struct shim_flush, msg);
    struct snic_io_req *r = x->req;

    free(x);
    r->result = 0;
    r->done(r);
}

static void shim_forget_flush(struct kv_shim *s, struct snic_io_req *r)
{
    struct shim_flush *x = calloc(1, sizeof(*x));

    assert_non_null(x);
    x->msg.fn = shim_flushed;
    x->req = r;
    snic_loop_defer(s->io.loop, &x->msg);
}

/* 1 when the request is dealt with. */
static int shim_look(struct kv_shim *s, struct snic_io_req *r)
{
    int forget;

    if (s->data_offset == 0)
        return 0;
    forget = shim_forgets(s, r);
    if (forget && r->op == SNIC_IO_WRITE)
        r->flags = 0;
    if (r->op == SNIC_IO_FLUSH) {
        s->journal_written = 0;
        s->ckpt_written = 0;
    } else if (r->op == SNIC_IO_WRITE && r->offset < s->data_offset) {
        s->journal_written |= r->offset >= s->journal_from;
        s->ckpt_written |= r->offset < s->journal_from;
    }
    if (!forget || r->op != SNIC_IO_FLUSH)
        return 0;
    shim_forget_flush(s, r);
    return 1;
}

static int shim_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct kv_shim *s = SNIC_CONTAINER(io, struct kv_shim, io);
    uint32_t i = 0;

    if (kv_shim_dead(s))
        return SNIC_EIO;
    for (; i < n; i++) {
        uint16_t flags = reqs[i]->flags;
        int taken;

        if (shim_look(s, reqs[i]))
            continue;
        taken = snic_io_submit(s->below, &reqs[i], 1);
        if (taken == 1)
            continue;
        reqs[i]->flags = flags; /* it comes again */
        return taken < 0 && i == 0 ? taken : (int)i;
    }
    return (int)i;
}

static void shim_cancel(struct snic_io *io, struct snic_io_req *r)
{
    snic_io_cancel(SNIC_CONTAINER(io, struct kv_shim, io)->below, r);
}

static void shim_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_wait(SNIC_CONTAINER(io, struct kv_shim, io)->below, w);
}

static void shim_close(struct snic_io *io)
{
    snic_io_close(SNIC_CONTAINER(io, struct kv_shim, io)->below);
}

static const struct snic_io_ops shim_ops = {
    .ops_size = sizeof(struct snic_io_ops),
    .name = "shim",
    .submit = shim_submit,
    .cancel = shim_cancel,
    .close = shim_close,
    .wait = shim_wait,
};

void kv_shim_open(struct kv_shim *s, struct snic_io *below)
{
    s->io = *below;
    s->io.ops = &shim_ops;
    s->below = below;
    s->data_offset = 0;
    s->journal_written = 0;
    s->ckpt_written = 0;
}

void kv_shim_layout(struct kv_shim *s, const struct snic_files_info *info)
{
    s->data_offset = info->data_offset;
    s->journal_from = info->data_offset - info->journal_bytes;
}

int kv_shim_dead(struct kv_shim *s)
{
    struct snic_io_req *none = NULL;

    return snic_io_submit(s->below, &none, 0) < 0;
}
