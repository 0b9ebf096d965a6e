/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the ring's tests share: a ring in guarded memory, patterns, and the model. */
#ifndef SNIC_TEST_RING_UTIL_H
#define SNIC_TEST_RING_UTIL_H

#include "snicstore/ring.h"

#include "support.h"

#include <string.h>

/* Under ThreadSanitizer and qemu the one-thread scopes shrink: they have nothing to show there. */
#if defined(__SANITIZE_THREAD__) || defined(__aarch64__)
#define RING_TEST_SMALL 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RING_TEST_SMALL 1
#endif
#endif
#if !defined(RING_TEST_SMALL)
#define RING_TEST_SMALL 0
#endif

/* A ring in exact-size guarded memory, with aux memory for a consumer or responder. */
struct fixture {
    struct snic_ring_opts opts;
    struct snic_ring_info info;
    void *mem;
    void *aux;
    void *mirror;
    size_t size;
};

static inline size_t fixture_align(const struct snic_ring_opts *o)
{
    return o->body_align > SNIC_RING_ALIGN ? o->body_align : SNIC_RING_ALIGN;
}

static inline void fixture_open(struct fixture *f, struct snic_ring_opts opts)
{
    memset(f, 0, sizeof(*f));
    opts.opts_size = sizeof(opts);
    f->opts = opts;
    f->size = snic_ring_memsize(&opts);
    assert_true(f->size > 0);
    f->mem = support_guard_alloc(f->size, fixture_align(&opts));
    assert_int_equal(snic_ring_init(f->mem, f->size, &opts), 0);
    assert_int_equal(snic_ring_geometry(f->mem, f->size, &f->info), 0);
    f->aux = support_guard_alloc((size_t)f->info.aux_bytes, 8);
    f->mirror = support_guard_alloc((size_t)f->info.mirror_bytes, fixture_align(&opts));
}

static inline void fixture_close(struct fixture *f)
{
    support_guard_free(f->mem);
    support_guard_free(f->aux);
    support_guard_free(f->mirror);
}

static inline struct snic_ring_opts request_opts(uint32_t discipline, uint64_t capacity)
{
    struct snic_ring_opts o;

    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.kind = SNIC_RING_REQUEST;
    o.discipline = discipline;
    o.capacity_bytes = capacity;
    return o;
}

/* A result that a hostile peer decides. */
static inline void ignore(int64_t result)
{
    (void)result;
}

/* As snic_ring_peek(), by one snic_ring_peek_run(): each of its records described. */
static inline int peek_by_run(struct snic_ring_consumer *c, struct snic_ring_rec *rec, uint32_t max)
{
    struct snic_ring_run run;
    int n = snic_ring_peek_run(c, &run, max);
    uint32_t i;

    for (i = 0; n > 0 && i < (uint32_t)n; i++) {
        rec[i] = run.first;
        rec[i].position += i * run.stride_bytes;
        rec[i].next += i * run.stride_bytes;
        rec[i].data = (char *)run.first.data + (size_t)i * run.stride_bytes;
    }
    return n > 0 && (run.count != (uint32_t)n || rec[n - 1].next != run.next) ? SNIC_EIO : n;
}

/* Byte i of record number n. */
static inline unsigned char pattern_byte(uint64_t n, size_t i)
{
    return (unsigned char)(n * 131 + i * 7 + 1);
}

static inline void pattern_fill(void *to, uint64_t n, size_t from, size_t bytes)
{
    unsigned char *p = to;
    size_t i;

    for (i = 0; i < bytes; i++)
        p[i] = pattern_byte(n, from + i);
}

static inline int pattern_ok(const void *at, uint64_t n, size_t from, size_t bytes)
{
    const unsigned char *p = at;
    size_t i;

    for (i = 0; i < bytes; i++)
        if (p[i] != pattern_byte(n, from + i))
            return 0;
    return 1;
}

/* ---- The model: positions alone decide what fits; a queue determines what comes out ---- */

#define MODEL_MAX 4096
struct model {
    uint64_t cap, m, granule, head, tail;
    uint64_t shown;       /* the head as producers know it, up to an eighth of m behind */
    uint32_t first, last; /* queue of records in flight, taken or not */
    struct {
        uint64_t position, next, number;
        uint32_t bytes;
    } q[MODEL_MAX];
};

static inline void model_open(struct model *m, const struct snic_ring_info *info, uint64_t at)
{
    memset(m, 0, sizeof(*m));
    m->cap = info->capacity_bytes;
    m->m = info->progress_max;
    m->granule = info->granule_bytes;
    m->head = m->shown = m->tail = at;
}

/* Space for n records of the same size: the position of the first, or -1. */
static inline int64_t model_push(struct model *m, uint32_t bytes, uint32_t n, uint64_t number)
{
    uint64_t span = (8 + bytes + m->granule - 1) / m->granule * m->granule;
    uint64_t at = m->tail, begin = m->tail;
    uint32_t i, last = m->last;

    for (i = 0; i < n; i++, at += span) {
        if (m->cap - at % m->cap < span)
            at += m->cap - at % m->cap;
        m->q[last % MODEL_MAX].position = at;
        m->q[last % MODEL_MAX].next = at + span;
        m->q[last % MODEL_MAX].number = number + i;
        m->q[last++ % MODEL_MAX].bytes = bytes;
    }
    if (at - m->shown > m->m)
        return -1;
    m->tail = at;
    m->last = last;
    return (int64_t)begin;
}

#endif /* SNIC_TEST_RING_UTIL_H */
