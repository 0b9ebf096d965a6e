/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Files in memory: what reads see, and what survives a power cut. */
#include "test_kv_store_util.h"

#include <stdlib.h>
#include <string.h>

struct mem_file *kst_file_find(struct mem_fs *fs, uint64_t id)
{
    for (uint32_t i = 0; i < FILES_MAX; i++)
        if (fs->files[i].data != NULL && fs->files[i].id == id)
            return &fs->files[i];
    return NULL;
}

static void mem_drop(struct mem_file *f)
{
    free(f->data);
    free(f->durable);
    memset(f, 0, sizeof(*f));
}

void kst_files_clear(struct mem_fs *fs)
{
    for (uint32_t i = 0; i < FILES_MAX; i++)
        mem_drop(&fs->files[i]);
}

static int64_t mem_create(struct mem_fs *fs, struct kv_file_req *r)
{
    struct mem_file *f = NULL;
    uint64_t count = 0;

    for (uint32_t i = 0; i < FILES_MAX; i++) {
        count += fs->files[i].data != NULL;
        if (fs->files[i].data != NULL && strcmp(fs->files[i].name, r->name) == 0)
            mem_drop(&fs->files[i]);
    }
    if (fs->limit != 0 && count >= fs->limit)
        return SNIC_ENOSPC;
    for (uint32_t i = 0; i < FILES_MAX && f == NULL; i++)
        if (fs->files[i].data == NULL)
            f = &fs->files[i];
    assert_non_null(f);
    f->id = ++fs->next_id;
    f->size = r->size;
    f->data = calloc(1, r->size);
    f->durable = calloc(1, r->size);
    memcpy(f->name, r->name, sizeof(f->name));
    r->file = f->id;
    return 0;
}

static int64_t mem_apply(struct mem_fs *fs, struct kv_file_req *r)
{
    struct mem_file *f = kst_file_find(fs, r->file);

    switch (r->op) {
    case KV_FILE_CREATE:
        return mem_create(fs, r);
    case KV_FILE_LIST:
        for (uint32_t i = 0; i < FILES_MAX; i++)
            if (fs->files[i].data != NULL)
                r->entry(r, fs->files[i].name, fs->files[i].id, fs->files[i].size);
        return 0;
    case KV_FILE_READ:
    case KV_FILE_WRITE:
    case KV_FILE_FSYNC:
    case KV_FILE_DELETE:
        break;
    }
    if (r->op == KV_FILE_DELETE && f == NULL)
        return SNIC_ENOENT; /* submitted again after a re-attachment */
    assert_non_null(f);     /* nothing is used after its deletion */
    if (r->op == KV_FILE_DELETE) {
        mem_drop(f);
        return 0;
    }
    if (r->op == KV_FILE_FSYNC) {
        memcpy(f->durable, f->data, f->size);
        return 0;
    }
    assert_true(r->offset + r->size <= f->size);
    if (r->op == KV_FILE_READ) {
        memcpy(r->data, f->data + r->offset, r->size);
        return (int64_t)r->size;
    }
    if (fs->error != 0)
        return fs->error;
    assert_int_equal(r->offset % 4096, 0);
    assert_int_equal(r->size % 4096, 0);
    memcpy(f->data + r->offset, r->data, r->size);
    if (r->sync)
        memcpy(f->durable + r->offset, r->data, r->size);
    return (int64_t)r->size;
}

/* Operations in flight when power goes have happened or not; of a write any sectors. */
static void mem_cut_op(struct mem_fs *fs, const struct kv_file_req *r)
{
    struct mem_file *f = kst_file_find(fs, r->file);

    if (r->op == KV_FILE_WRITE && f != NULL) {
        for (uint64_t at = 0; at < r->size; at += SECTOR)
            if (kst_any(2))
                memcpy(f->durable + r->offset + at, (const char *)r->data + at, SECTOR);
    } else if (r->op == KV_FILE_DELETE && f != NULL && kst_any(2)) {
        mem_drop(f);
    }
}

/* What is on the device after a power cut now. */
static void mem_cut(void)
{
    kst_files_clear(&kst.image);
    kst.image = kst.fs;
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        struct mem_file *from = &kst.fs.files[i];
        struct mem_file *f = &kst.image.files[i];

        if (from->data == NULL)
            continue;
        f->data = malloc(f->size);
        f->durable = malloc(f->size);
        memcpy(f->durable, from->durable, f->size);
        for (size_t at = 0; at < f->size; at += SECTOR)
            if (kst_any(2)) /* written, not synced */
                memcpy(f->durable + at, from->data + at, SECTOR);
    }
    for (struct mem_op *o = kst.ops; o != NULL; o = o->next)
        mem_cut_op(&kst.image, o->req);
    for (uint32_t i = 0; i < FILES_MAX; i++)
        if (kst.image.files[i].data != NULL)
            memcpy(kst.image.files[i].data, kst.image.files[i].durable, kst.image.files[i].size);
    for (uint32_t k = 0; k < KEYS; k++) {
        uint32_t n = kst.keys[k].newest;

        kst.newest[k] = n;
        while (n > 0 && kst.keys[k].versions[n].end > kst.durable)
            n--;
        kst.acked[k] = n;
    }
    /* At most the newest exchange is not durable: kst_swap() waits for the one before. */
    kst.swaps_acked = kst.swaps - (kst.swaps > 0 && kst.swap_end > kst.durable);
    kst.swaps_issued = kst.swaps;
    kst.cut = 1;
}

static void mem_unlink(struct mem_op *o)
{
    struct mem_op **at = &kst.ops;

    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
}

static void mem_fire(struct snic_timer *timer, uint64_t now)
{
    struct mem_op *o = SNIC_CONTAINER(timer, struct mem_op, timer);
    struct kv_file_req *r = o->req;

    (void)now;
    mem_unlink(o);
    free(o);
    r->result = kst.gone && kst_any(2) ? SNIC_EPEERDEAD : mem_apply(&kst.fs, r);
    if (kst.gone)
        r->result = SNIC_EPEERDEAD; /* outcome unknown */
    r->done(r);
}

static void mem_submit(void *ctx, struct kv_file_req *r)
{
    struct mem_op *o = calloc(1, sizeof(*o));

    (void)ctx;
    o->req = r;
    o->next = kst.ops;
    kst.ops = o;
    snic_timer_init(&o->timer, mem_fire);
    snic_loop_arm(kst.loop, &o->timer, snic_loop_now(kst.loop) + 1000 + kst_any(200000));
    kst.operations++;
    if (kst.operations == kst.cut_at)
        mem_cut();
}

const struct kv_files_ops kst_files_ops = {.submit = mem_submit};
