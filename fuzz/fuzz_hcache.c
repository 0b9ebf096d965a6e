/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hybrid cache driven by an operation string: host calls, the engine with its DMA one operation
 * at a time, and, from a certain operation on, a peer that overwrites the region. Whatever happens,
 * no access leaves the region or the engine; until that operation the check holds.
 */
#include "snicstore/hcache.h"

#include <stdlib.h>
#include <string.h>

enum { PENDING = 16 };

struct input {
    const uint8_t *at;
    size_t left;
};

struct world {
    struct snic_hcache_info info;
    unsigned char *mem;
    size_t size;
    struct snic_hcache_control *c;
    struct snic_hcache_host h[2];
    struct snic_hcache_page held[2];
    int holds[2]; /* 0, 1 read, 2 write */
    struct snic_hcache_action pending[PENDING];
    uint32_t done[PENDING];
    uint64_t now;
    int hostile;
};

static void must(int condition)
{
    if (!condition)
        abort();
}

static uint32_t take(struct input *in)
{
    uint32_t v = 0;

    if (in->left > 0) {
        v = *in->at++;
        in->left--;
    }
    return v;
}

static void poll(struct world *w)
{
    uint32_t i;

    for (i = 0; i < PENDING; i++)
        if (w->pending[i].kind == 0) {
            if (snic_hcache_control_poll(w->c, &w->pending[i], 1) == 0)
                return;
            w->done[i] = 0;
            if (w->pending[i].kind > SNIC_HCACHE_ACT_FETCH)
                w->pending[i].kind = 0;
        }
}

static void event(struct world *w, uint32_t kind, uint64_t id, uint64_t ino, uint64_t lpn,
                  int32_t result)
{
    struct snic_hcache_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.kind = kind;
    ev.id = id;
    ev.ino = ino;
    ev.lpn = lpn;
    ev.count = 1;
    ev.bytes = w->info.page_bytes;
    ev.result = result;
    (void)(snic_hcache_control_step(w->c, &ev, w->now) == 0);
    poll(w);
    must(snic_hcache_control_check(w->c) == 0);
}

static void carry_out(struct world *w, struct snic_hcache_op *op)
{
    unsigned char *there = w->mem + op->offset;

    must(op->offset <= w->size && op->bytes <= w->size - op->offset);
    if (op->kind == SNIC_HCACHE_OP_READ) {
        memcpy(op->local, there, op->bytes);
    } else if (op->kind == SNIC_HCACHE_OP_WRITE) {
        memcpy(there, op->local, op->bytes);
    } else {
        must(op->bytes == 8 && op->offset % 8 == 0);
        op->value = snic_get_le64(there);
        if (op->kind == SNIC_HCACHE_OP_ADD)
            snic_put_le64(there, op->value + op->operand);
        else if (op->value == op->compare)
            snic_put_le64(there, op->operand);
    }
}

static void work(struct world *w, uint32_t which, uint32_t how)
{
    struct snic_hcache_action *a = &w->pending[which % PENDING];
    uint32_t kind = a->kind;

    if (kind == 0)
        return;
    if (kind == SNIC_HCACHE_ACT_DMA) {
        carry_out(w, &a->ops[w->done[which % PENDING]++]);
        if (w->done[which % PENDING] < a->count)
            return;
    }
    a->kind = 0;
    event(w, kind, a->id, 0, 0, kind != SNIC_HCACHE_ACT_DMA && (how & 15) == 0 ? SNIC_EIO : 0);
}

static void scribble(struct world *w, struct input *in)
{
    uint64_t words = (w->info.data_offset - SNIC_HCACHE_HEADER_BYTES) / 8;
    uint64_t at = SNIC_HCACHE_HEADER_BYTES + (take(in) | take(in) << 8) % words * 8;
    uint64_t v = snic_get_le64(w->mem + at);
    uint32_t how = take(in);

    if ((how & 1) != 0)
        v ^= (uint64_t)take(in) << (how >> 2);
    else
        v = ((uint64_t)take(in) | (uint64_t)take(in) << 8) << (how >> 2);
    snic_put_le64(w->mem + at, v);
    w->hostile = 1;
}

static void host(struct world *w, struct input *in, uint32_t op)
{
    uint32_t i = op & 1;
    uint64_t ino = take(in) & 3;
    uint64_t lpn = take(in) & 15;
    int r = 0;

    if (w->holds[i] == 1) {
        r = snic_hcache_put(&w->h[i], &w->held[i]);
        w->holds[i] = 0;
    } else if (w->holds[i] == 2) {
        r = snic_hcache_unlock(&w->h[i], &w->held[i], (enum snic_hcache_how)(lpn & 3));
        if (r != SNIC_EBUSY && r != SNIC_EROFS)
            w->holds[i] = 0;
    } else if ((op & 6) == 0) {
        r = snic_hcache_get(&w->h[i], ino, lpn, &w->held[i]);
        w->holds[i] = r == 0;
    } else if ((op & 6) == 2) {
        r = snic_hcache_lock(&w->h[i], ino, lpn, take(in) % 3, &w->held[i]);
        w->holds[i] = r == 0 ? 2 : 0;
        if (r == 0)
            memset(w->held[i].data, (int)op, w->info.page_bytes);
    } else {
        r = snic_hcache_drop(&w->h[i], ino, &lpn, lpn + (op & 32 ? 1000 : 2));
    }
    must(w->hostile || r != SNIC_ESTALE);
}

static void setup(struct world *w, struct input *in)
{
    struct snic_hcache_opts o = {sizeof(o), 512, 0, SNIC_HCACHE_MODE_WRITE, 0, 0};
    struct snic_hcache_control_opts co = {
        .opts_size = sizeof(co), .prefetch_max = 4, .look_ns = 1000, .flush_ns = 1000000};
    size_t need;
    void *mem;

    memset(w, 0, sizeof(*w));
    o.ways = 1 + take(in) % 16;
    o.pages = o.ways * (uint64_t)(1 + take(in) % 4);
    o.seed = take(in);
    co.jobs = 2 + take(in) % 6;
    co.policy = (co.jobs & 1) != 0 ? snic_hcache_policy_clock() : NULL;
    w->size = snic_hcache_memsize(&o);
    w->mem = aligned_alloc(4096, (w->size + 4095) / 4096 * 4096);
    must(w->mem != NULL && snic_hcache_init(w->mem, w->size, &o) == 0);
    must(snic_hcache_geometry(w->mem, w->size, &w->info) == 0);
    must(snic_hcache_host_attach(&w->h[0], w->mem, w->size, 1, 1) == 0);
    must(snic_hcache_host_attach(&w->h[1], w->mem, w->size, 2, 1) == 0);
    need = snic_hcache_control_memsize(&w->info, &co);
    mem = aligned_alloc(SNIC_CACHELINE,
                        (need + SNIC_CACHELINE - 1) / SNIC_CACHELINE * SNIC_CACHELINE);
    must(mem != NULL && snic_hcache_control_init(&w->c, mem, need, &w->info, &co, 0) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct snic_hcache_info info;
    struct world w;

    if (size >= SNIC_HCACHE_HEADER_BYTES)
        (void)(snic_hcache_geometry(data, UINT64_MAX, &info) == 0);
    setup(&w, &in);
    while (in.left > 0) {
        uint32_t op = take(&in);

        switch (op >> 6) {
        case 0:
            host(&w, &in, op);
            break;
        case 1:
            work(&w, op & 15, op >> 4);
            break;
        case 2:
            w.now += (uint64_t)(op & 15) * 10000;
            event(&w, (op >> 4 & 1) != 0 ? SNIC_HCACHE_EV_NONE : SNIC_HCACHE_EV_FSYNC, op, op & 3,
                  0, 0);
            break;
        default:
            if ((op & 32) != 0)
                scribble(&w, &in);
            else if ((op & 31) == 31)
                event(&w, SNIC_HCACHE_EV_HOST_DEAD, 0, 0, 0, 0), w.hostile = 1;
            else
                event(&w, SNIC_HCACHE_EV_MISS, 0, op & 3, op >> 2 & 7, 0);
            break;
        }
        must(w.hostile || snic_hcache_check(w.mem, w.size, NULL) == 0);
    }
    free(snic_hcache_control_fini(w.c));
    free(w.mem);
    return 0;
}
