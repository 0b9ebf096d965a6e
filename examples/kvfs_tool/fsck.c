/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kvfs_tool fsck. */
#include "fsck.h"
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOOL_FSCK_BEATS = 4, TOOL_FSCK_SESSIONS = 64 };

static int64_t tool_fsck_op(void *ctx, struct snic_kvop *op)
{
    return kt_op(ctx, op);
}

static void tool_fsck_print(void *ctx, const char *line)
{
    kt_progress_end(ctx);
    printf("%s\n", line);
}

static void tool_fsck_progress(void *ctx, uint64_t records)
{
    kt_progress(ctx, "%llu records", (unsigned long long)records);
}

struct tool_fsck_beats {
    uint64_t count;
    uint64_t session[TOOL_FSCK_SESSIONS];
    uint64_t beat[TOOL_FSCK_SESSIONS];
};

static int tool_fsck_beats(struct kt *t, struct tool_fsck_beats *b)
{
    struct snic_kvop op = {
        .kind = SNIC_KVOP_SCAN, .scan_max = 4 * TOOL_FSCK_SESSIONS, .out_room = 1 << 18};
    const unsigned char kind = SNIC_KVFS_REC_SESSION;
    op.out = malloc(op.out_room);
    if (op.out == NULL)
        return SNIC_ENOMEM;
    snic_kvop_key_set(&op.key, SNIC_KVFS_GROUP_SUPER, &kind, 1);
    int rc = (int)kt_op(t, &op);
    b->count = 0;
    for (const struct snic_kvop_record *r = rc < 0 ? NULL : snic_kvop_first(&op); r != NULL;
         r = snic_kvop_next(&op, r)) {
        const unsigned char *key = snic_kvop_record_key(r);
        if (r->key_size != 10 || key[9] != 'b')
            continue;
        if (r->value_size != SNIC_KVFS_NUMBER_BYTES || b->count == TOOL_FSCK_SESSIONS) {
            rc = b->count == TOOL_FSCK_SESSIONS ? SNIC_E2BIG : SNIC_ECORRUPT;
            break;
        }
        b->session[b->count] = snic_get_be64(key + 1);
        b->beat[b->count++] = snic_get_le64(snic_kvop_record_value(r) + SNIC_KVFS_HEAD);
    }
    free(op.out);
    return rc < 0 ? rc : 0;
}

int kt_in_use(struct kt *t, uint64_t *mounts)
{
    struct tool_fsck_beats before, after;
    uint64_t until;
    *mounts = 0;
    if (snic_kv_sole(t->s.kv))
        return 0;
    int rc = tool_fsck_beats(t, &before);
    if (rc != 0 || before.count == 0)
        return rc;
    until = snic_loop_now(t->s.loop) + TOOL_FSCK_BEATS * 1000000000ULL;
    while (snic_loop_now(t->s.loop) < until)
        (void)snic_loop_once(t->s.loop, until - snic_loop_now(t->s.loop));
    rc = tool_fsck_beats(t, &after);
    if (rc != 0)
        return rc;
    for (uint64_t a = 0; a < after.count; a++) {
        uint64_t i = 0;
        while (i < before.count && before.session[i] != after.session[a])
            i++;
        *mounts += i == before.count || before.beat[i] != after.beat[a]; /* new, or it beats */
    }
    return 0;
}

static void tool_fsck_counts(const struct fsck_report *r, uint64_t mounts)
{
    uint64_t dead = r->sessions > mounts ? r->sessions - mounts : 0;
    printf("%llu records, %llu inodes, %llu directories\n", (unsigned long long)r->records,
           (unsigned long long)r->inodes, (unsigned long long)r->directories);
    if (mounts != 0)
        printf("it is mounted: %llu mount%s; changes in progress may be among the findings\n",
               (unsigned long long)mounts, mounts == 1 ? "" : "s");
    if (dead + r->intents + r->orphans != 0)
        printf("the next mount removes: %llu sessions, %llu commits, %llu orphans\n",
               (unsigned long long)dead, (unsigned long long)r->intents,
               (unsigned long long)r->orphans);
}

/* Exit code: 0 clean; 1 mended; 4 findings are left; 8 it could not be checked. */
int kt_fsck(struct kt *t)
{
    struct fsck_opts o = {.op = tool_fsck_op,
                          .print = tool_fsck_print,
                          .progress = tool_fsck_progress,
                          .ctx = t,
                          .repair = t->repair,
                          .data = t->data};
    struct fsck_report r;
    t->s.verify = 1;
    if (kt_open(t, 0) != 0)
        return FSCK_ERROR;
    uint64_t mounts;
    int rc = kt_in_use(t, &mounts);
    if (rc != 0) {
        (void)fprintf(stderr, "cannot find out whether it is mounted: %s%s\n", snic_strerror(rc),
                      t->repair && !t->force ? ": if it is not, --repair --force repairs it" : "");
        if (t->repair && !t->force)
            return FSCK_ERROR;
    }
    if (mounts != 0 && (t->repair || !t->force)) {
        (void)fprintf(stderr, "the file system is mounted: %s\n",
                      t->repair ? "unmount it before --repair" : "--force checks it nevertheless");
        return FSCK_ERROR;
    }
    enum fsck_code code = fsck_run(&o, &r);
    kt_progress_end(t);
    if (code == FSCK_ERROR) {
        (void)fprintf(stderr, "cannot check: %s\n",
                      r.error == SNIC_ENOENT ? "the store holds no file system"
                                             : snic_strerror(r.error));
        return (int)code;
    }
    tool_fsck_counts(&r, mounts);
    printf("%s: %llu findings left, %llu mended\n",
           code == FSCK_LEFT ? "damaged" : (code == FSCK_MENDED ? "mended" : "clean"),
           (unsigned long long)r.findings, (unsigned long long)r.mended);
    return (int)code;
}
