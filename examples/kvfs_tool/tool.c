/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the commands share: progress, the store and the walk over its records. */
#include "tool.h"

#include "../common.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Progress ---- */

static uint64_t tool_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void kt_progress(struct kt *t, const char *format, ...)
{
    uint64_t now = tool_clock();
    va_list ap;

    if (t->quiet || now < t->progress_ns)
        return;
    if (t->progress_ns != 0) { /* what is quick needs no line */
        va_start(ap, format);
        (void)fputs("\r", stderr);
        (void)vfprintf(stderr, format, ap);
        (void)fputs("\033[K", stderr);
        (void)fflush(stderr);
        va_end(ap);
        t->progress_shown = 1;
    }
    t->progress_ns = now + 500000000u;
}

void kt_progress_end(struct kt *t)
{
    if (t->progress_shown)
        (void)fputs("\n", stderr);
    t->progress_shown = 0;
    t->progress_ns = 0;
}

/* ---- The store ---- */

int kt_open(struct kt *t, int mounted)
{
    t->s.loop = ex_loop_open(0);
    if (kvfs_store_open(&t->s) != 0)
        return 1;
    return mounted && kvfs_store_mount(&t->s, 0) != 0 ? 1 : 0;
}

struct tool_op {
    struct snic_kv_req r;
    int done;
};

static void tool_op_done(struct snic_kv_req *r)
{
    SNIC_CONTAINER(r, struct tool_op, r)->done = 1;
}

int64_t kt_op(struct kt *t, struct snic_kvop *op)
{
    struct tool_op o = {.r = {.done = tool_op_done, .op = op}};
    struct snic_kv_req *r = &o.r;
    int rc;

    while ((rc = snic_kv_submit(t->s.kv, &r, 1)) == 0)
        (void)snic_loop_once(t->s.loop, 1000000u);
    if (rc < 0)
        return rc;
    while (!o.done)
        (void)snic_loop_once(t->s.loop, SNIC_NEVER);
    return op->result;
}

/* ---- Walking ---- */

enum { WALK_ROOM = 1 << 20, WALK_GROUPS = 4096 };

static int tool_walk_group(struct kt *t, const struct kt_walk *w, uint64_t group, void *out)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_SCAN, .scan_max = UINT32_MAX};

    op.key.group = group;
    op.after.group = group;
    do {
        const struct snic_kvop_record *r;
        struct snic_kvop_key key;
        int64_t rc;

        op.out = out;
        op.out_room = WALK_ROOM;
        op.out_size = 0;
        op.out_count = 0;
        rc = kt_op(t, &op);
        if (rc < 0)
            return (int)rc;
        for (r = snic_kvop_first(&op); r != NULL; r = snic_kvop_next(&op, r)) {
            snic_kvop_key_set(&key, group, snic_kvop_record_key(r), r->key_size);
            rc = w->record(w->ctx, &key, snic_kvop_record_value(r), r->value_size);
            if (rc != 0)
                return (int)rc;
            op.after = key;
        }
        if (op.out_count == 0)
            break;
    } while (!op.end);
    return 0;
}

static int tool_walk_one(struct kt *t, const struct kt_walk *w, uint64_t group, void *out)
{
    int rc = w->group != NULL ? w->group(w->ctx, group) : 0;

    return rc == 0 && w->record != NULL ? tool_walk_group(t, w, group, out) : rc;
}

static int tool_walk_all(struct kt *t, const struct kt_walk *w, void *out, uint64_t *groups)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_GROUPS, .scan_max = WALK_GROUPS};

    do {
        op.out = groups;
        op.out_room = WALK_GROUPS * (uint32_t)sizeof(*groups);
        op.out_size = 0;
        op.out_count = 0;
        if (kt_op(t, &op) < 0)
            return (int)op.result;
        for (uint32_t i = 0; i < op.out_count; i++) {
            int rc = tool_walk_one(t, w, groups[i], out);

            if (rc != 0)
                return rc;
        }
    } while (!op.end && op.out_count > 0);
    return 0;
}

int kt_walk(struct kt *t, const struct kt_walk *w)
{
    void *out = malloc(WALK_ROOM);
    uint64_t *groups = malloc(WALK_GROUPS * sizeof(*groups));
    int rc = SNIC_ENOMEM;

    if (out != NULL && groups != NULL)
        rc = t->one_group ? tool_walk_one(t, w, t->group, out) : tool_walk_all(t, w, out, groups);
    free(out);
    free(groups);
    return rc;
}

int kt_resolve(struct kt *t, const char *path, struct snic_fsop_attr *out)
{
    struct snic_fsop q = {.kind = SNIC_FSOP_RESOLVE, .ino = SNIC_FSOP_ROOT, .name = path};
    size_t n = strlen(path);

    if (n == strspn(path, "/")) {
        q.kind = SNIC_FSOP_GETATTR;
        n = 0;
    }
    if (n > UINT32_MAX)
        return SNIC_ENAMETOOLONG;
    q.name_size = (uint32_t)n;
    if (snic_fs_call(t->s.fs, &q) == 0)
        *out = q.attr;
    return (int)q.result;
}
