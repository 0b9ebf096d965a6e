/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_hcache_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int ok, const char *text)
{
    if (!ok) {
        fprintf(stderr, "hworld: %s\n", text);
        abort();
    }
}

static void hw_engine(struct hworld *w)
{
    size_t need = snic_hcache_control_memsize(&w->info, &w->co);

    must(need != 0, "control options");
    if (w->cmem == NULL)
        w->cmem = support_guard_alloc(need, SNIC_CACHELINE);
    must(snic_hcache_control_init(&w->c, w->cmem, need, &w->info, &w->co, w->now) == 0, "control");
}

void hw_open(struct hworld *w, const struct snic_hcache_opts *o,
             const struct snic_hcache_control_opts *co, uint64_t seed)
{
    uint32_t i;

    memset(w, 0, sizeof(*w));
    snic_rng_init(&w->rng, seed);
    w->size = snic_hcache_memsize(o);
    must(w->size != 0, "options");
    w->mem = support_guard_alloc(w->size, SNIC_HCACHE_ALIGN);
    must(snic_hcache_init(w->mem, w->size, o) == 0, "init");
    must(snic_hcache_geometry(w->mem, w->size, &w->info) == 0, "geometry");
    for (i = 0; i < HW_HOSTS; i++)
        must(snic_hcache_host_attach(&w->host[i], w->mem, w->size, i + 1, 1) == 0, "attach");
    w->co = *co;
    w->co.opts_size = sizeof(w->co);
    w->now = 1000000;
    hw_engine(w);
    hw_event(w, SNIC_HCACHE_EV_NONE, 0, 0, 0);
}

void hw_close(struct hworld *w)
{
    (void)snic_hcache_control_fini(w->c);
    support_guard_free(w->cmem);
    support_guard_free(w->mem);
}

void hw_restart(struct hworld *w)
{
    w->co.epoch++;
    hw_engine(w);
    hw_event(w, SNIC_HCACHE_EV_NONE, 0, 0, 0);
}

/* ---- Contents ---- */

static uint64_t hw_word(uint64_t ino, uint64_t lpn, uint64_t version, uint64_t i)
{
    return (ino + 1) << 56 ^ lpn << 40 ^ version << 12 ^ i;
}

void hw_fill(void *page, uint32_t bytes, uint64_t ino, uint64_t lpn, uint64_t version)
{
    uint64_t i;

    for (i = 0; i < bytes / 8; i++)
        snic_put_le64((char *)page + i * 8, version == 0 ? 0 : hw_word(ino, lpn, version, i));
}

uint64_t hw_version(const void *page, uint32_t bytes, uint64_t ino, uint64_t lpn)
{
    uint64_t first = snic_get_le64(page);
    uint64_t version =
        first == 0 ? 0 : ((first ^ (ino + 1) << 56 ^ lpn << 40) >> 12) & ((1u << 28) - 1);
    uint64_t i;

    for (i = 0; i < bytes / 8; i++)
        if (snic_get_le64((const char *)page + i * 8) !=
            (version == 0 ? 0 : hw_word(ino, lpn, version, i)))
            return UINT64_MAX;
    return version;
}

/* ---- The engine's surroundings ---- */

static void hw_take(struct hworld *w)
{
    struct snic_hcache_action a[8];
    uint32_t n, i, k;

    while ((n = snic_hcache_control_poll(w->c, a, 8)) != 0)
        for (i = 0; i < n; i++) {
            if (a[i].kind == SNIC_HCACHE_ACT_WAKE) {
                w->wakes++;
            } else if (a[i].kind == SNIC_HCACHE_ACT_RECOVERED) {
                w->recovered += a[i].id == SNIC_HCACHE_HOST;
                w->recovered_dpu += a[i].id == SNIC_HCACHE_DPU;
            } else {
                for (k = 0; k < HW_PENDING && w->pending[k].live; k++)
                    ;
                must(k < HW_PENDING, "pending");
                memset(&w->pending[k], 0, sizeof(w->pending[k]));
                w->pending[k].a = a[i];
                w->pending[k].live = 1;
                w->pendings++;
            }
        }
}

int hw_step(struct hworld *w, const struct snic_hcache_event *ev)
{
    int r = snic_hcache_control_step(w->c, ev, w->now);

    hw_take(w);
    must(snic_hcache_control_check(w->c) == 0, "control check");
    return r;
}

void hw_event(struct hworld *w, uint32_t kind, uint64_t id, uint64_t ino, uint64_t lpn)
{
    struct snic_hcache_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.kind = kind;
    ev.id = id;
    ev.ino = ino;
    ev.lpn = lpn;
    ev.count = 1;
    (void)hw_step(w, &ev);
}

static void hw_store_write(struct hworld *w, const struct snic_hcache_action *a)
{
    uint64_t version;

    if (w->hostile)
        return;
    must(a->ino < HW_INOS && a->lpn < HW_LPNS, "a flush of a page that is not");
    version = hw_version(a->data, a->bytes, a->ino, a->lpn);
    if (version == UINT64_MAX)
        w->failure = "a torn page was flushed";
    else if (version < w->store[a->ino][a->lpn].version)
        w->failure = "an older version was flushed over a newer one";
    else
        w->store[a->ino][a->lpn].version = version;
    if (a->sum != snic_hcache_seal_crc()->sum(NULL, a->ino, a->lpn, a->data, a->bytes))
        w->failure = "the sum is not the page's";
}

/* One piece of the operation; 1 when it is over. */
static int hw_op(struct hworld *w, struct snic_hcache_op *op, uint64_t *at)
{
    unsigned char *there = (unsigned char *)w->mem + op->offset;
    uint64_t n;

    must(op->offset <= w->size && op->bytes <= w->size - op->offset, "DMA beyond the region");
    if (op->kind == SNIC_HCACHE_OP_CAS || op->kind == SNIC_HCACHE_OP_ADD) {
        must(op->bytes == 8 && op->offset % 8 == 0, "an atomic of other than a word");
        op->value = snic_get_le64(there);
        if (op->kind == SNIC_HCACHE_OP_ADD)
            snic_put_le64(there, op->value + op->operand);
        else if (op->value == op->compare)
            snic_put_le64(there, op->operand);
        return 1;
    }
    n = snic_min_u64(op->bytes - *at, 64 - (op->offset + *at) % 64);
    if (op->kind == SNIC_HCACHE_OP_READ)
        memcpy((char *)op->local + *at, there + *at, n);
    else
        memcpy(there + *at, (char *)op->local + *at, n);
    *at += n;
    return *at == op->bytes;
}

static void hw_complete(struct hworld *w, struct hw_pending *p, int32_t result)
{
    static const uint32_t event[] = {0, SNIC_HCACHE_EV_DMA, SNIC_HCACHE_EV_FLUSHED,
                                     SNIC_HCACHE_EV_FETCHED};
    struct snic_hcache_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.kind = event[p->a.kind];
    ev.id = p->a.id;
    ev.result = result;
    ev.bytes = p->a.kind == SNIC_HCACHE_ACT_FETCH ? w->info.page_bytes : 0;
    p->live = 0;
    w->pendings--;
    must(hw_step(w, &ev) == 0, "a completion was refused");
}

static void hw_dma(struct hworld *w, struct hw_pending *p)
{
    uint32_t i = p->current;

    if (i == 0) { /* any operation that nothing before it holds back */
        uint32_t start = (uint32_t)snic_rng_below(&w->rng, p->a.count);
        uint32_t k;

        for (k = 0; k < p->a.count && i == 0; k++) {
            uint32_t o = (start + k) % p->a.count;
            uint32_t before = (1u << o) - 1;
            uint32_t flags = p->a.ops[o].flags;
            uint32_t b;
            int held = (p->done_ops >> o & 1) != 0;

            if ((flags & SNIC_HCACHE_OP_FENCE) != 0 && (p->done_ops & before) != before)
                held = 1;
            for (b = 0; b < o; b++) /* a fence holds back what is behind it, too */
                if ((p->a.ops[b].flags & SNIC_HCACHE_OP_FENCE) != 0 && (p->done_ops >> b & 1) == 0)
                    held = 1;
            if (!held)
                i = o + 1;
        }
        p->current = i;
        p->at = 0;
    }
    must(i != 0, "a batch that cannot continue");
    if (!hw_op(w, &p->a.ops[i - 1], &p->at))
        return;
    p->done_ops |= 1u << (i - 1);
    p->current = 0;
    if (p->done_ops == (p->a.count == 32 ? UINT32_MAX : (1u << p->a.count) - 1))
        hw_complete(w, p, 0);
}

int hw_work(struct hworld *w)
{
    struct hw_pending *p = w->pending;
    uint32_t i;

    if (w->pendings == 0)
        return 0;
    for (i = (uint32_t)snic_rng_below(&w->rng, w->pendings); i > 0 || !p->live; p++)
        i -= p->live;
    w->now += 100;
    switch (p->a.kind) {
    case SNIC_HCACHE_ACT_DMA:
        hw_dma(w, p);
        break;
    case SNIC_HCACHE_ACT_FLUSH:
        w->flushes++;
        if (w->store_result == 0)
            hw_store_write(w, &p->a);
        hw_complete(w, p, w->store_result);
        break;
    case SNIC_HCACHE_ACT_FETCH:
        w->fetches++;
        if (!w->hostile && p->a.ino < HW_INOS && p->a.lpn < HW_LPNS) {
            hw_fill(p->a.data, p->a.bytes, p->a.ino, p->a.lpn,
                    w->store[p->a.ino][p->a.lpn].version);
            hw_complete(w, p, 0);
        } else {
            hw_complete(w, p, SNIC_ENOENT);
        }
        break;
    default: /* SYNC */
        w->syncs++;
        w->synced_id = p->a.id;
        w->synced_result = p->a.result;
        for (i = 0; i < HW_LPNS && p->a.ino < HW_INOS; i++)
            w->durable[p->a.ino][i] = w->store[p->a.ino][i].version;
        p->live = 0;
        w->pendings--;
        break;
    }
    return 1;
}

void hw_pass(struct hworld *w, uint64_t until)
{
    uint64_t at = snic_hcache_control_deadline_ns(w->c);

    w->now = snic_max_u64(w->now, snic_min_u64(at, until));
    hw_event(w, SNIC_HCACHE_EV_NONE, 0, 0, 0);
}

void hw_settle(struct hworld *w, uint64_t ns)
{
    uint64_t end = w->now + ns;

    hw_event(w, SNIC_HCACHE_EV_KICK, 0, 0, 0); /* idle: it has looked and found nothing */
    while (w->now < end) {
        while (hw_work(w))
            ;
        if (snic_hcache_control_idle(w->c))
            return;
        hw_pass(w, end);
    }
}

void hw_kill_dpu(struct hworld *w)
{
    uint32_t i;

    for (i = 0; i < HW_PENDING; i++) {
        struct hw_pending *p = &w->pending[i];

        if (p->live && p->a.kind == SNIC_HCACHE_ACT_FLUSH && snic_rng_below(&w->rng, 2) == 0)
            hw_store_write(w, &p->a);
        p->live = 0;
    }
    w->pendings = 0;
}
