/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One engine request is one request of the library, or a short chain: CREATE
 * reserves the space behind it, LIST continues from cursor to cursor.
 */
#include "files_lib.h"

#include <stdlib.h>
#include <string.h>

#define KV_LIST_BYTES 32768

/* Whatever ended the group, the engine shall wait for the next one. */
static int64_t lib_result(const struct snic_filelib_req *q)
{
    if (q->result < 0 && snic_filelib_state(q->group) != 0)
        return SNIC_EPEERDEAD;
    return q->result;
}

static void lib_done(struct snic_filelib_req *q)
{
    struct kv_file_req *r = SNIC_CONTAINER(q, struct kv_file_req, u.lib);

    r->result = lib_result(q);
    r->done(r);
}

static void lib_reserved(struct snic_filelib_req *q)
{
    struct kv_file_req *r = SNIC_CONTAINER(q, struct kv_file_req, u.lib);
    int64_t result = lib_result(q);

    if (result < 0 && result != SNIC_EPEERDEAD && q->op == SNIC_FILES_PREALLOC) {
        /* No space: delete the empty file, and return the reason to the engine. */
        r->result = result;
        q->op = SNIC_FILES_DELETE;
        q->length = 0;
        q->name_size = 0;
        snic_filelib_submit(q->group, &q, 1);
        return;
    }
    if (q->op == SNIC_FILES_PREALLOC || result == SNIC_EPEERDEAD)
        r->result = result;
    r->done(r);
}

static void lib_created(struct snic_filelib_req *q)
{
    struct kv_file_req *r = SNIC_CONTAINER(q, struct kv_file_req, u.lib);

    if (q->result < 0) {
        lib_done(q);
        return;
    }
    r->file = q->id;
    q->op = SNIC_FILES_PREALLOC;
    q->flags = 0;
    q->file = q->id;
    q->offset = 0;
    q->length = r->size;
    q->done = lib_reserved;
    snic_filelib_submit(q->group, &q, 1);
}

static void lib_listed(struct snic_filelib_req *q)
{
    struct kv_file_req *r = SNIC_CONTAINER(q, struct kv_file_req, u.lib);
    void *buffer = q->buf.base;
    size_t pos = 0;
    struct snic_files_entry e;
    int more = 0;

    while (q->result > 0 &&
           (more = snic_files_entry_next(buffer, (size_t)q->result, &pos, &e)) == 1)
        if (e.kind == SNIC_FILES_FILE) {
            char name[SNIC_FILES_NAME_MAX + 1];

            memcpy(name, e.name, e.name_size);
            name[e.name_size] = 0;
            r->entry(r, name, e.id, e.size);
        }
    if (more < 0)
        q->result = more;
    if (q->result > 0) {
        q->offset = q->cursor;
        snic_filelib_submit(q->group, &q, 1);
        return;
    }
    free(buffer);
    lib_done(q);
}

static void lib_submit(void *ctx, struct kv_file_req *r)
{
    struct snic_filelib_req *q = &r->u.lib;

    memset(q, 0, sizeof(*q));
    q->done = lib_done;
    q->file = r->file;
    q->dir = SNIC_FILES_ROOT;
    q->tenant = r->tenant;
    q->priority = r->priority;
    switch (r->op) {
    case KV_FILE_READ:
    case KV_FILE_WRITE:
        q->op = r->op == KV_FILE_READ ? SNIC_FILES_READ : SNIC_FILES_WRITE;
        q->flags = r->op == KV_FILE_WRITE && r->sync ? SNIC_FILES_SYNC : 0;
        q->offset = r->offset;
        q->length = r->size;
        q->buf.base = r->data;
        q->buf.size = r->size;
        memcpy(q->tag, r->tag, sizeof(q->tag));
        break;
    case KV_FILE_FSYNC:
        q->op = SNIC_FILES_FSYNC;
        break;
    case KV_FILE_CREATE:
        q->op = SNIC_FILES_CREATE;
        q->flags = SNIC_FILES_REPLACE;
        q->name = r->name;
        q->name_size = (uint32_t)strlen(r->name);
        q->done = lib_created;
        break;
    case KV_FILE_DELETE:
        q->op = SNIC_FILES_DELETE;
        break;
    case KV_FILE_LIST:
        q->op = SNIC_FILES_LIST;
        q->buf.base = malloc(KV_LIST_BYTES);
        q->buf.size = q->buf.base != NULL ? KV_LIST_BYTES : 0;
        q->length = q->buf.size;
        q->done = lib_listed;
        break;
    }
    snic_filelib_submit(ctx, &q, 1);
}

const struct kv_files_ops kv_lib_ops = {.submit = lib_submit, .image = 1};
