/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid cache's halves with a hostile other one. Byte 0, bit 0: a hostile host against the
 * DPU's half over a file system (messages, the region's words, memory that is not there, death),
 * else a hostile DPU against the host's half (answers, the region's words, silence, death, links
 * that come after it). Bit 1: mapped memory. The honest half must neither crash nor touch anything
 * outside, keep its invariants, end every request and come to rest; and the file system serves
 * others.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hcachelink/hcachelink_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_PAGE = 512, FUZZ_WAYS = 4, FUZZ_PAGES = 16, FUZZ_REQS = 6, FUZZ_STEPS = 400000 };

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

struct fuzz_pair {
    struct snic_world *w;
    struct snic_loop *loop[2];
    struct snic_dma *d[2]; /* NULL: closed */
    int mapped;
    unsigned char *region;
    size_t region_size;
    uint64_t key; /* 0: not registered */
};

static uint64_t fuzz_take(struct fuzz_input *in, size_t bytes)
{
    uint64_t v = 0;
    for (; bytes > 0 && in->left > 0; bytes--, in->left--)
        v = v << 8 | *in->at++;
    return v;
}

static void fuzz_must(int c)
{
    if (!c)
        abort();
}

static struct snic_hcache_opts fuzz_cache(void)
{
    return (struct snic_hcache_opts){.opts_size = sizeof(struct snic_hcache_opts),
                                     .page_bytes = FUZZ_PAGE,
                                     .ways = FUZZ_WAYS,
                                     .mode = SNIC_HCACHE_MODE_WRITE,
                                     .pages = FUZZ_PAGES};
}

static void fuzz_link(struct fuzz_pair *p)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so), .caps = SNIC_DMA_CAP_ATOMIC};
    if (p->mapped)
        fuzz_must(snic_dma_local_open(&p->d[0], p->loop[0], &none, &p->d[1], p->loop[1], &none) ==
                  0);
    else
        fuzz_must(
            snic_dma_sim_open(&p->d[0], p->loop[0], &none, &p->d[1], p->loop[1], &none, &so) == 0);
}

static void fuzz_open(struct fuzz_pair *p, int mapped)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = 1};
    memset(p, 0, sizeof(*p));
    p->mapped = mapped;
    fuzz_must(snic_world_open(&p->w, &wo) == 0);
    for (uint32_t i = 0; i < 2; i++)
        fuzz_must(snic_world_loop(p->w, i, &p->loop[i]) == 0);
    fuzz_link(p);
}

static void fuzz_close(struct fuzz_pair *p)
{
    for (int i = 0; i < 2; i++)
        if (p->d[i] != NULL)
            snic_dma_close(p->d[i]);
    for (int i = 0; i < 2; i++)
        snic_loop_close(p->loop[i]);
    snic_world_close(p->w);
}

static void fuzz_end_dies(struct fuzz_pair *p, int i)
{
    if (p->d[i] != NULL)
        snic_dma_close(p->d[i]);
    p->d[i] = NULL;
}

/** A word of the region changes: mostly one bit of its present value. */
static void fuzz_scribble(struct fuzz_pair *p, struct fuzz_input *in)
{
    uint64_t how = fuzz_take(in, 1);
    uint64_t words = p->region_size / 8;
    uint64_t at = (fuzz_take(in, 2) % words) * 8;
    uint64_t v;
    if (p->region == NULL)
        return;
    if ((how & 3) != 3) /* among heads and entries */
        at = at % (FUZZ_PAGES * SNIC_HCACHE_ENTRY_BYTES * 2) / 8 * 8 + SNIC_HCACHE_OFF_FREE;
    v = snic_get_le64(p->region + at);
    if ((how & 4) != 0)
        v ^= UINT64_C(1) << (how >> 3 & 31) << ((how & 1) != 0 ? 32 : 0);
    else
        v = fuzz_take(in, 1 + (how >> 5));
    snic_put_le64(p->region + at, v);
}

/** Send a message: its fields are mostly small or were received before. */
static void fuzz_message(struct fuzz_input *in, struct snic_dma *d, struct hcachelink_message m)
{
    unsigned char msg[SNIC_DMA_MSG_MAX];
    uint64_t how = fuzz_take(in, 1);
    uint32_t size = SNIC_HCACHELINK__BYTES;
    if (d == NULL)
        return;
    memset(msg, 0, sizeof(msg));
    hcachelink_encode(msg, &m);
    if ((how & 0xf0) == 0xf0)
        msg[fuzz_take(in, 1) % sizeof(msg)] ^= (unsigned char)fuzz_take(in, 1);
    if (how == 0xe0)
        size = 1 + (uint32_t)fuzz_take(in, 1) % SNIC_DMA_MSG_MAX;
    (void)snic_dma_send(d, msg, size);
}

static uint64_t fuzz_number(struct fuzz_input *in)
{
    uint64_t kind = fuzz_take(in, 1);
    if (kind < 240)
        return kind % 24;
    return kind < 248 ? fuzz_take(in, 8) : UINT64_MAX >> (kind - 248) * 8;
}

/* ---- A hostile host ---- */

struct fuzz_dpu {
    struct fuzz_pair p;
    struct snic_hcachelink_dpu *dpu;
    struct snic_kvmem *medium;
    struct snic_kv *kv;
    struct snic_fs *fs;
    struct snic_hcache_host handle;
    struct snic_hcache_page page;
    uint64_t ino;
    int handled;
    int held; /* 0, 1 read, 2 write */
    int gone;
};

static int64_t fuzz_wall(void *ctx)
{
    (void)ctx;
    return 1700000000000000000;
}

static void fuzz_gone(void *ctx, struct snic_hcachelink_dpu *d)
{
    struct fuzz_dpu *f = ctx;
    (void)d;
    f->gone++;
}

static void *fuzz_fs(struct fuzz_dpu *f)
{
    struct snic_fs_opts o = {.opts_size = sizeof(o),
                             .wall = fuzz_wall,
                             .session_id = 77,
                             .requests_max = 16,
                             .inodes_max = 32,
                             .locks_max = 8,
                             .cache_bytes = 1 << 16};
    struct snic_kvmem_opts m = {
        .opts_size = sizeof(m), .seed = 1, .delay_min_ns = 500, .delay_max_ns = 5000};
    struct snic_fsop k = {.kind = SNIC_FSOP_CREATE,
                          .flags = SNIC_FSOP_CHECKED | SNIC_FSOP_OPEN_WRITE,
                          .ino = SNIC_FSOP_ROOT,
                          .name = "a",
                          .name_size = 1,
                          .mode = S_IFREG | 0644};
    size_t size = snic_fs_memsize(&o);
    void *mem = malloc(size);
    fuzz_must(snic_kvmem_open(&f->medium, &m) == 0);
    fuzz_must(snic_kv_mem_open(&f->kv, f->p.loop[1], f->medium) == 0);
    fuzz_must(snic_fs_init(&f->fs, mem, size, f->p.loop[1], f->kv, &o) == 0);
    fuzz_must(snic_fs_mkfs(f->fs, NULL) == 0 && snic_fs_mount(f->fs) == 0);
    fuzz_must(snic_fs_call(f->fs, &k) == 0);
    f->ino = k.attr.ino;
    return mem;
}

static void fuzz_offer(struct fuzz_dpu *f, struct fuzz_input *in, uint64_t lie)
{
    struct hcachelink_message m = {
        .type = HCACHELINK_REGION, .a = f->p.key, .b = f->p.region_size, .c = lie >> 4};
    if ((lie & 1) != 0)
        m.a = fuzz_number(in);
    if ((lie & 2) != 0)
        m.b = fuzz_number(in);
    fuzz_message(in, f->p.d[0], m);
}

static void fuzz_register(struct fuzz_dpu *f, size_t size)
{
    if (f->p.d[0] == NULL)
        return;
    if (f->p.key != 0)
        snic_dma_unregister(f->p.d[0], f->p.key);
    f->p.key = 0;
    if (size != 0)
        fuzz_must(
            snic_dma_register(f->p.d[0], f->p.region, size,
                              SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE | SNIC_DMA_RIGHT_ATOMIC,
                              &f->p.key) == 0);
}

static void fuzz_dpu_message(struct fuzz_dpu *f, struct fuzz_input *in)
{
    uint64_t how = fuzz_take(in, 1);
    struct hcachelink_message m = {.type = (uint16_t)(how % 9), .id = how};
    m.ino = (how & 0x80) == 0 ? f->ino : fuzz_number(in);
    m.a = fuzz_number(in);
    m.b = fuzz_number(in);
    m.c = how >> 4 & 1;
    fuzz_message(in, f->p.d[0], m);
}

/** What an honest thread of the host does, so that there is something to flush. */
static void fuzz_dpu_work(struct fuzz_dpu *f, struct fuzz_input *in)
{
    uint64_t how = fuzz_take(in, 1);
    if (!f->handled)
        return;
    if (f->held == 2) {
        f->page.end = (uint32_t)(how * 4);
        f->held =
            snic_hcache_unlock(&f->handle, &f->page, (enum snic_hcache_how)(how & 3)) == SNIC_EBUSY
                ? 2
                : 0;
    } else if (f->held == 1) {
        (void)!snic_hcache_put(&f->handle, &f->page);
        f->held = 0;
    } else if ((how & 0x80) != 0) {
        f->held = snic_hcache_get(&f->handle, f->ino, how & 15, &f->page) == 0;
    } else {
        f->held = snic_hcache_lock(&f->handle, f->ino, how & 15, 0, &f->page) == 0 ? 2 : 0;
        if (f->held == 2)
            memset(f->page.data, (int)how, FUZZ_PAGE);
    }
}

static void fuzz_dpu_steps(struct fuzz_dpu *f, uint64_t n)
{
    for (; n > 0 && snic_world_step(f->p.w); n--)
        fuzz_must(snic_hcachelink_dpu_check(f->dpu) == 0);
}

static void fuzz_dpu_op(struct fuzz_dpu *f, struct fuzz_input *in)
{
    uint64_t op = fuzz_take(in, 1);
    switch (op & 7) {
    case 0:
        fuzz_scribble(&f->p, in);
        break;
    case 1:
        fuzz_dpu_message(f, in);
        break;
    case 2:
        if ((op & 0xf0) == 0xf0)
            fuzz_register(f, (op & 8) != 0 ? f->p.region_size : f->p.region_size / 2);
        else if ((op & 0xf0) == 0xe0)
            fuzz_offer(f, in, fuzz_take(in, 1));
        else if (f->p.d[0] != NULL)
            (void)snic_dma_ring(f->p.d[0], (uint32_t)(op >> 4 & 1));
        break;
    case 3:
    case 4:
        fuzz_dpu_work(f, in);
        break;
    case 5:
        if (op == 0xfd)
            fuzz_end_dies(&f->p, 0);
        fuzz_dpu_steps(f, 200);
        break;
    default:
        fuzz_dpu_steps(f, 1 + (op >> 3));
        break;
    }
    fuzz_must(snic_hcachelink_dpu_check(f->dpu) == 0);
}

/** The host's memory: a region that is made as it should be. */
static void fuzz_region(struct fuzz_dpu *f)
{
    struct snic_hcache_opts o = fuzz_cache();
    void *mem = NULL;
    f->p.region_size = snic_hcache_memsize(&o);
    fuzz_must(snic_dma_alloc(f->p.d[0], f->p.region_size, &mem) == 0);
    f->p.region = mem;
    fuzz_must(snic_hcache_init(mem, f->p.region_size, &o) == 0);
    f->handled = snic_hcache_host_attach(&f->handle, mem, f->p.region_size, 1, 1) == 0;
    fuzz_register(f, f->p.region_size);
}

static void fuzz_hostile_host(struct fuzz_input *in, uint64_t mode)
{
    static struct fuzz_dpu f;
    struct snic_hcachelink_dpu_opts o = {.opts_size = sizeof(o),
                                         .flags = (uint32_t)(mode & 4) >> 1,
                                         .tasks = 4,
                                         .salvage_ns = 2000000,
                                         .control = {.opts_size = sizeof(o.control),
                                                     .jobs = 4,
                                                     .look_ns = 20000,
                                                     .flush_ns = 50000,
                                                     .prefetch_max = 4},
                                         .gone = fuzz_gone,
                                         .ctx = &f};
    size_t size = snic_hcachelink_dpu_memsize(&o);
    void *mem = aligned_alloc(SNIC_CACHELINE, snic_align_up(size, SNIC_CACHELINE));
    char byte = 0;
    int i;
    memset(&f, 0, sizeof(f));
    fuzz_open(&f.p, (mode & 2) != 0);
    void *fs_mem = fuzz_fs(&f);
    fuzz_must(snic_hcachelink_dpu_init(&f.dpu, mem, size, f.p.d[1], f.fs, &o) == 0);
    fuzz_region(&f);
    if ((mode & 8) == 0)
        fuzz_offer(&f, in, mode >> 4 & 3);
    while (in->left > 0)
        fuzz_dpu_op(&f, in);
    /* Whatever it did: with the host gone it comes to rest, and others are served. */
    fuzz_end_dies(&f.p, 0);
    for (i = 0; i < FUZZ_STEPS && !(f.p.d[1]->dead && snic_hcachelink_dpu_idle(f.dpu)); i++)
        (void)snic_world_step(f.p.w);
    fuzz_must(f.p.d[1]->dead && snic_hcachelink_dpu_idle(f.dpu) && f.gone > 0);
    fuzz_must(snic_hcachelink_dpu_check(f.dpu) == 0);
    fuzz_must(snic_fs_put(f.fs, "/other", "x", 1, 0600) == 0);
    fuzz_must(snic_fs_get(f.fs, "/other", &byte, 1) == 1 && byte == 'x');
    free(snic_hcachelink_dpu_fini(f.dpu));
    fuzz_must(snic_fs_unmount(f.fs) == 0);
    fuzz_must(snic_fs_fini(f.fs) == fs_mem);
    free(fs_mem);
    snic_kv_close(f.kv);
    snic_kvmem_close(f.medium);
    fuzz_close(&f.p);
}

/* ---- A hostile DPU ---- */

struct fuzz_host {
    struct fuzz_pair p;
    struct snic_hcachelink_host *h;
    struct snic_hcachelink_req req[FUZZ_REQS];
    unsigned char data[FUZZ_REQS][3 * FUZZ_PAGE];
    uint32_t out;
    int closed;
    int reason;
    uint64_t heard[16]; /* ids of requests received */
    uint32_t heard_count;
};

static void fuzz_hear(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct fuzz_host *f = ctx;
    struct hcachelink_message m;
    (void)d;
    fuzz_must(hcachelink_decode(&m, msg, size) == 0);
    if (m.type != HCACHELINK_AHEAD)
        f->heard[f->heard_count++ % 16] = m.id;
}

static void fuzz_closed(void *ctx, struct snic_hcachelink_host *h, int reason)
{
    struct fuzz_host *f = ctx;
    fuzz_must(f->out == 0 && !f->closed && h == f->h);
    f->closed = 1;
    f->reason = reason;
}

static void fuzz_done(struct snic_hcachelink_req *req)
{
    struct fuzz_host *f = req->ctx;
    size_t i = (size_t)(req - f->req);
    fuzz_must(i < FUZZ_REQS && req->data != NULL && f->out > 0);
    fuzz_must(req->result < 0 || req->result == 0 || req->result == (int64_t)req->length);
    req->data = NULL; /* done once */
    f->out--;
}

static void fuzz_host_submit(struct fuzz_host *f, struct fuzz_input *in)
{
    uint64_t how = fuzz_take(in, 1);
    struct snic_hcachelink_req *r = &f->req[how % FUZZ_REQS];
    int e;
    if (r->data != NULL)
        return;
    memset(r, 0, sizeof(*r));
    r->op = 1 + (uint32_t)(how >> 4) % 5;
    r->ino = 2 + (how >> 3 & 1);
    r->offset = fuzz_take(in, 2) % (FUZZ_PAGE * 24);
    r->length = fuzz_take(in, 1) * 6; /* at most what data holds */
    if ((how & 0xf0) == 0xf0) {
        r->offset = fuzz_number(in);
        r->length = fuzz_number(in);
    }
    if ((r->op == SNIC_HCACHELINK_READ || r->op == SNIC_HCACHELINK_WRITE) &&
        r->length > sizeof(f->data[0]))
        r->length = sizeof(f->data[0]);
    r->data = f->data[r - f->req];
    r->done = fuzz_done;
    r->ctx = f;
    e = snic_hcachelink_submit(f->h, r);
    if (e == 0)
        f->out++;
    else
        r->data = NULL;
}

static void fuzz_host_answer(struct fuzz_host *f, struct fuzz_input *in)
{
    static const int32_t results[4] = {0, 0, SNIC_EIO, SNIC_EPEERDEAD};
    uint64_t how = fuzz_take(in, 1);
    struct hcachelink_message m = {.type = HCACHELINK_DONE, .result = results[how & 3]};
    uint32_t known = f->heard_count < 16 ? f->heard_count : 16;
    m.a = 2 + (how >> 4 & 3);
    if (known > 0)
        m.id = f->heard[(f->heard_count - 1 - (how >> 2 & 15) % known) % 16];
    if ((how & 0xe0) == 0xe0) {
        m.type = (uint16_t)fuzz_number(in);
        m.id = fuzz_number(in) << 16 | (how & 15);
        m.result = (int32_t)fuzz_take(in, 4);
    }
    fuzz_message(in, f->p.d[1], m);
}

static void fuzz_host_steps(struct fuzz_host *f, uint64_t n)
{
    for (; n > 0 && snic_world_step(f->p.w); n--)
        fuzz_must(snic_hcachelink_host_check(f->h) == 0);
}

static void fuzz_attach(struct fuzz_host *f)
{
    struct snic_dma *old = f->p.d[0];
    uint64_t epoch;
    fuzz_end_dies(&f->p, 1);
    fuzz_link(&f->p);
    f->p.d[1]->events = (struct snic_dma_events){fuzz_hear, NULL, NULL, f};
    fuzz_must(snic_hcachelink_host_attach(f->h, f->p.d[0]) == 0);
    if (old != NULL)
        snic_dma_close(old);
    f->p.region = snic_hcachelink_host_region(f->h, &f->p.region_size, &epoch);
    f->closed = 0;
    f->heard_count = 0;
}

static void fuzz_host_op(struct fuzz_host *f, struct fuzz_input *in)
{
    uint64_t op = fuzz_take(in, 1);
    switch (op & 7) {
    case 0:
        fuzz_scribble(&f->p, in);
        break;
    case 1:
    case 2:
        fuzz_host_submit(f, in);
        break;
    case 3:
    case 4:
        fuzz_host_answer(f, in);
        break;
    case 5:
        if (op == 0xfd)
            fuzz_end_dies(&f->p, 1);
        else if (op == 0xf5 && f->out == 0)
            snic_hcachelink_host_end(f->h);
        else if ((op & 0xf0) == 0xe0 && f->closed)
            fuzz_attach(f);
        else if (f->p.d[1] != NULL)
            (void)snic_dma_ring(f->p.d[1], (uint32_t)(op >> 4 & 1));
        break;
    case 6:
        fuzz_host_steps(f, 1 + (op >> 3));
        break;
    default:
        fuzz_host_steps(f, 4 * (op >> 3));
        break;
    }
    fuzz_must(snic_hcachelink_host_check(f->h) == 0);
}

static void fuzz_hostile_dpu(struct fuzz_input *in, uint64_t mode)
{
    static struct fuzz_host f;
    struct snic_hcachelink_host_opts o = {.opts_size = sizeof(o),
                                          .requests_max = 4,
                                          .cache = fuzz_cache(),
                                          .timeout_ns = 300000,
                                          .retry_ns = 20000,
                                          .events = {NULL, fuzz_closed, &f}};
    size_t size = snic_hcachelink_host_memsize(&o);
    void *mem = malloc(size);
    int i;
    memset(&f, 0, sizeof(f));
    fuzz_must(snic_hcachelink_host_init(&f.h, mem, size, &o) == 0);
    fuzz_open(&f.p, (mode & 2) != 0);
    fuzz_attach(&f);
    if ((mode & 4) == 0) { /* a beginning that is believed */
        fuzz_host_steps(&f, 40);
        fuzz_message(
            in, f.p.d[1],
            (struct hcachelink_message){.type = HCACHELINK_DONE, .a = 2 + (mode >> 4 & 7)});
        fuzz_host_steps(&f, 40);
    }
    while (in->left > 0)
        fuzz_host_op(&f, in);
    /* No more input: every request ends. */
    for (i = 0; i < FUZZ_STEPS && f.out != 0; i++)
        (void)snic_world_step(f.p.w);
    fuzz_must(f.out == 0);
    snic_hcachelink_host_end(f.h);
    for (i = 0; i < FUZZ_STEPS && !f.closed; i++)
        (void)snic_world_step(f.p.w);
    fuzz_must(f.closed && snic_hcachelink_host_check(f.h) == 0);
    free(snic_hcachelink_host_fini(f.h));
    fuzz_close(&f.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size < 2048 ? size : 2048};
    uint64_t mode = fuzz_take(&in, 1);
    if ((mode & 1) != 0)
        fuzz_hostile_host(&in, mode);
    else
        fuzz_hostile_dpu(&in, mode);
    return 0;
}
