/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The offload engine driven by a string of operations: host messages for its cache of any size and
 * version, puts, invalidations and reads by key beside a model of what may be served; jobs of one
 * or many reads whose functions answer anything, on ordered streams or none, released in any order.
 * After each operation nothing stale may be found; at the end everything must have come back.
 */
#include "snicstore/offload.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEYS = 48, JOBS = 64, STREAMS = 3, FILE_BYTES = 65536, READ_MAX = 4096, MESSAGE_MAX = 32 };

/* The file service is opened once: what it holds does not change. */
struct fuzz_files {
    struct snic_world *w;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_files *files;
    uint64_t file;
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct fuzz_files *at;
    struct snic_offload *o;
    uint64_t newest[KEYS]; /* version last invalidated */
    uint64_t floor;
    struct snic_offload_stream streams[STREAMS];
    uint64_t expect[STREAMS]; /* cookie that is delivered next */
    uint64_t requested[STREAMS];
    struct snic_offload_job *done[JOBS];
    uint32_t done_count;
    uint32_t flying;
};

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static void must(int ok)
{
    if (!ok)
        abort();
}

static void *fuzz_memory(size_t size)
{
    void *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    must(p != NULL);
    return p;
}

static unsigned char fuzz_content(uint64_t at)
{
    return (unsigned char)(at * 37 + (at >> 8));
}

static void fuzz_files_open(struct fuzz_files *f)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = 1};
    struct snic_disk_opts dopt = {.opts_size = sizeof(dopt),
                                  .size = 2u << 20,
                                  .seed = 1,
                                  .delay_min_ns = 1000,
                                  .delay_max_ns = 9000};
    struct snic_files_format_opts fo = {.opts_size = sizeof(fo), .segment_bytes = 16384};
    struct snic_files_req r = {.op = SNIC_FILES_CREATE, .name = "f", .name_size = 1};
    struct snic_files_info info;
    static unsigned char bytes[FILE_BYTES];
    fo.files_max = 32;
    fo.dirs_max = 8;
    must(snic_world_open(&f->w, &wo) == 0 && snic_world_loop(f->w, 0, &f->loop) == 0);
    must(snic_disk_open(&f->disk, &dopt) == 0 && snic_io_mem_open(&f->io, f->loop, f->disk) == 0);
    must(snic_files_format(f->io, &fo) == 0 && snic_files_probe(f->io, &info) == 0);
    size_t n = snic_files_memsize(&info, NULL);
    must(snic_files_mount(&f->files, fuzz_memory(n), n, f->io, NULL) == 0);
    must(snic_files_run(f->files, &r) == 0);
    f->file = r.id;
    for (uint64_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = fuzz_content(i);
    struct snic_files_req w = {.op = SNIC_FILES_WRITE,
                               .file = f->file,
                               .length = FILE_BYTES,
                               .buf = {bytes, FILE_BYTES},
                               .region = SNIC_NO_REGION};
    must(snic_files_run(f->files, &w) == FILE_BYTES);
}

/* ---- The user's functions: a message holds their result ---- */

/* {what, parts, offset 2, size 2, header, trailer, skip 2, take 2, ...}; missing bytes are 0. */
static uint32_t message_word(const struct snic_offload_msg *m, uint32_t at)
{
    return at + 1 < m->size ? m->data[at] | (uint32_t)m->data[at + 1] << 8 : 0;
}

static uint32_t message_byte(const struct snic_offload_msg *m, uint32_t at)
{
    return at < m->size ? m->data[at] : 0;
}

static void message_reply(const struct snic_offload_msg *m, struct snic_offload_reply *out)
{
    out->header_size = message_byte(m, 6);
    out->trailer_size = message_byte(m, 7);
    memset(out->header, 'h', out->header_size);
    memset(out->trailer, 't', out->trailer_size);
}

static int fuzz_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *m,
                     struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    const struct fuzz *f = ctx;
    uint32_t what = message_byte(m, 0);
    uint64_t key = what % KEYS;
    (void)!snic_offload_get(o, &key, NULL, NULL);
    if (what % 16 == 14)
        return SNIC_ENOENT;
    if (what % 16 == 15 && out->part == 0) {
        message_reply(m, reply);
        return 1;
    }
    out->file = what % 16 == 13 ? what : f->at->file; /* one that is not there */
    out->offset = message_word(m, 2) * (out->part + 1);
    out->size = message_word(m, 4) % (READ_MAX + 2);
    return out->part < message_byte(m, 1) ? 2 : 0;
}

static enum snic_offload_verdict fuzz_reply(void *ctx, const struct snic_offload_msg *m,
                                            const struct snic_offload_read *op,
                                            const unsigned char *data, int64_t result, uint64_t now,
                                            struct snic_offload_reply *out)
{
    (void)ctx;
    (void)now;
    if (result < 0)
        return SNIC_OFFLOAD_HOST;
    must(result <= op->size);
    for (int64_t i = 0; i < result; i += 97)
        must(data[i] == fuzz_content(op->offset + (uint64_t)i));
    message_reply(m, out);
    out->skip = message_word(m, 8) % ((uint32_t)result + 1);
    out->take = message_word(m, 10) % ((uint32_t)result - out->skip + 1);
    return message_byte(m, 12) % 8 == 7 ? SNIC_OFFLOAD_HOST : SNIC_OFFLOAD_SEND;
}

/* ---- Jobs ---- */

static void fuzz_done(void *ctx, struct snic_offload_job *job)
{
    struct fuzz *f = ctx;
    uint32_t stream = (uint32_t)(job->cookie >> 32);
    uint64_t sum = 0;
    f->flying--;
    if (stream < STREAMS)
        must((job->cookie & UINT32_MAX) == f->expect[stream]++); /* in order */
    if (job->status == SNIC_OFFLOAD_DONE) {
        must(job->iov_count <= SNIC_OFFLOAD_PARTS_MAX);
        for (uint32_t i = 0; i < job->iov_count; i++) {
            const unsigned char *p = job->iov[i].base;
            sum += job->iov[i].size;
            if (job->iov[i].size > 0)
                must(p[0] + p[job->iov[i].size - 1] >= 0); /* may be read */
        }
        must(sum == job->bytes);
    } else {
        must(job->message_size <= MESSAGE_MAX);
    }
    must(f->done_count < JOBS);
    f->done[f->done_count++] = job;
}

static void fuzz_submit(struct fuzz *f, uint8_t op)
{
    unsigned char bytes[MESSAGE_MAX + 4];
    uint32_t stream = op % (STREAMS + 1);
    struct snic_offload_msg m = {.data = bytes, .size = take(f) % (uint32_t)sizeof(bytes)};
    for (uint32_t i = 0; i < m.size; i++)
        bytes[i] = take(f);
    if (f->flying + f->done_count == JOBS)
        return;
    uint64_t cookie = (uint64_t)stream << 32 | (stream < STREAMS ? f->requested[stream] : 0);
    int r = snic_offload_submit(f->o, stream < STREAMS ? &f->streams[stream] : NULL, &m, cookie,
                                fuzz_done, f);
    must(r == 0 || r == SNIC_EAGAIN || r == SNIC_EMSGSIZE || r == SNIC_ENOENT);
    if (r != 0)
        return;
    f->flying++;
    if (stream < STREAMS)
        f->requested[stream]++;
}

static void fuzz_release(struct fuzz *f, uint32_t which)
{
    if (f->done_count == 0)
        return;
    which %= f->done_count;
    struct snic_offload_job *job = f->done[which];
    f->done[which] = f->done[--f->done_count];
    snic_offload_release(f->o, job);
}

/* ---- The cache ---- */

/* An item names its version, so that what is found can be judged. */
static void fuzz_cache(struct fuzz *f, uint8_t op)
{
    uint8_t pick = take(f);
    uint64_t key = pick & 128 ? pick % KEYS : pick % 4; /* a few are often meant */
    uint64_t v = 1 + take(f) % 40;
    uint64_t item = v;
    int r;
    switch (op % 5) {
    case 0:
        r = snic_offload_put(f->o, &key, &item, v);
        must(r != 1 || (v >= f->newest[key] && v >= f->floor));
        break;
    case 1:
        if (v >= f->newest[key] && v >= f->floor) /* an authority's versions never go back */
            (void)snic_offload_cache(f->o, &key, &item, v);
        break;
    case 2:
        snic_offload_invalidate(f->o, &key, v);
        f->newest[key] = snic_max_u64(f->newest[key], v);
        break;
    case 3: /* a promise: no older put follows */
        snic_offload_forget(f->o, &key, v);
        if (v >= f->newest[key])
            f->newest[key] = 0;
        break;
    default:
        if (take(f) % 8 == 0) {
            snic_offload_invalidate_all(f->o, v);
            f->floor = snic_max_u64(f->floor, v);
            memset(f->newest, 0, sizeof(f->newest)); /* another host, another history */
        }
        break;
    }
}

/* What a host's file server hands over: sizes and versions are its own invention. */
static void fuzz_hooks(struct fuzz *f, uint8_t op)
{
    struct snic_files_hooks h = snic_offload_hooks(f->o);
    uint64_t keys[4];
    uint64_t items[4];
    uint32_t count = take(f) % 5;
    uint32_t key_size = op & 1 ? 8 : take(f) % 12;
    uint32_t item_size = op & 2 ? 8 : take(f) % 12;
    uint64_t v = 1 + take(f);
    if (op & 4)
        v |= (uint64_t)take(f) << 56;
    for (uint32_t i = 0; i < 4; i++) {
        keys[i] = take(f) % KEYS;
        items[i] = v;
    }
    if (op & 8) {
        (void)h.cache(h.ctx, keys, key_size, items, item_size, count, v);
    } else if (h.invalidate(h.ctx, keys, key_size, count, v) == 0) {
        must(key_size == 8);
        for (uint32_t i = 0; i < count; i++)
            f->newest[keys[i]] =
                snic_max_u64(f->newest[keys[i]], snic_min_u64(v, SNIC_OFFLOAD_VERSION_MAX));
    }
}

static void fuzz_check(struct fuzz *f)
{
    for (uint64_t k = 0; k < KEYS; k++) {
        uint64_t item = 0;
        uint64_t v = 0;
        if (snic_offload_get(f->o, &k, &item, &v) != 0)
            continue;
        must(item == v && v >= f->newest[k] && v >= f->floor);
    }
    must(snic_offload_check(f->o) == 0);
}

static void fuzz_open(struct fuzz *f)
{
    uint8_t how = take(f);
    struct snic_offload_user u = {.func = fuzz_func, .reply = fuzz_reply, .ctx = f};
    struct snic_offload_opts o = {.opts_size = sizeof(o),
                                  .flags = how & 1 ? SNIC_OFFLOAD_STRICT : 0,
                                  .key_size = 8,
                                  .item_size = 8,
                                  .cache_capacity = how & 2 ? 8 : 64,
                                  .contexts = how & 4 ? 4 : 32,
                                  .read_max = READ_MAX,
                                  .pool_bytes = 65536,
                                  .message_max = MESSAGE_MAX,
                                  .read_align = how & 8 ? 512 : 1};
    size_t n = snic_offload_memsize(&o);
    must(snic_offload_init(&f->o, fuzz_memory(n), n, f->at->loop, f->at->files, &u, &o) == 0);
}

static void fuzz_close(struct fuzz *f)
{
    (void)snic_world_run(f->at->w, snic_world_now(f->at->w) + 1000000000, 1000000);
    must(f->flying == 0); /* nothing waits for a release */
    while (f->done_count > 0)
        fuzz_release(f, f->done_count - 1);
    must(snic_offload_active(f->o) == 0);
    fuzz_check(f);
    struct snic_offload_stats st;
    snic_offload_get_stats(f->o, &st);
    must(st.submitted == st.completed);
    free(snic_offload_fini(f->o));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_files files;
    static struct fuzz fuzz;
    struct fuzz *f = &fuzz;
    if (files.w == NULL)
        fuzz_files_open(&files);
    memset(f, 0, sizeof(*f));
    f->at = &files;
    f->in = data;
    f->left = size < 4096 ? size : 4096;
    fuzz_open(f);
    while (f->left > 0) {
        uint8_t op = take(f);
        switch (op % 8) {
        case 0:
            fuzz_submit(f, op / 8);
            break;
        case 1:
            fuzz_release(f, op / 8);
            break;
        case 2:
            (void)snic_world_run(files.w, snic_world_now(files.w) + 200u * op, 1000);
            break;
        case 3:
            fuzz_hooks(f, op / 8);
            break;
        default:
            fuzz_cache(f, op / 8);
            break;
        }
        fuzz_check(f);
    }
    fuzz_close(f);
    return 0;
}
