/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** What the files of the kv door's conformance suite share. */
#ifndef SNIC_TESTS_CONFORMANCE_KV_UTIL_H
#define SNIC_TESTS_CONFORMANCE_KV_UTIL_H

#include "conformance_kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((uint64_t)SNIC_KVOP_BLOCK)

struct conformance_kv_check {
    const char *name;
    void (*run)(void **state);
};
extern const struct conformance_kv_check conformance_kv_scans[];
extern const size_t conformance_kv_scans_count;
extern const struct conformance_kv_check conformance_kv_objects[];
extern const size_t conformance_kv_objects_count;
extern const struct conformance_kv_check conformance_kv_flights[];
extern const size_t conformance_kv_flights_count;
extern const struct conformance_kv_check conformance_kv_randoms[];
extern const size_t conformance_kv_randoms_count;

/* ---- Requests that know what became of them ---- */

struct kvcall {
    struct snic_kv_req req;
    struct snic_kvop op;
    int done;
    int in_submit;
};

static int kvcall_submitting;

static inline void kvcall_done(struct snic_kv_req *req)
{
    struct kvcall *c = SNIC_CONTAINER(req, struct kvcall, req);
    c->done++;
    c->in_submit |= kvcall_submitting;
}

static inline int kvcall_submit(struct snic_kv *kv, struct kvcall *c)
{
    struct snic_kv_req *one = &c->req;
    memset(&c->req, 0, sizeof(c->req));
    c->done = 0;
    c->in_submit = 0;
    c->req.done = kvcall_done;
    c->req.op = &c->op;
    kvcall_submitting = 1;
    int taken = snic_kv_submit(kv, &one, 1);
    kvcall_submitting = 0;
    return taken;
}

static inline void kvcall_wait(struct snic_kv *kv, struct kvcall *c)
{
    while (c->done == 0)
        assert_true(snic_loop_once(kv->loop, SNIC_NEVER) >= 0);
    assert_int_equal(c->done, 1);
    assert_int_equal(c->in_submit, 0);
}

/** Carry it out; the results are in *op. */
static inline int64_t kv_run(struct snic_kv *kv, struct snic_kvop *op)
{
    struct kvcall c;
    memset(&c, 0, sizeof(c));
    c.op = *op;
    assert_int_equal(kvcall_submit(kv, &c), 1);
    kvcall_wait(kv, &c);
    *op = c.op;
    return op->result;
}

/* ---- Set-up ---- */

static inline const struct conformance_kv_backend *kv_open(struct conformance_kv *c, void **state)
{
    const struct conformance_kv_backend *b = *state;
    memset(c, 0, sizeof(*c));
    b->open(c, b);
    assert_non_null(c->kv);
    assert_ptr_equal(c->kv->loop, c->loop);
    assert_true(c->kv->depth_max >= 64);
    assert_int_equal(c->kv->ops->ops_size, sizeof(struct snic_kv_ops));
    assert_true(c->kv->stripe_bytes % BLOCK == 0 && c->kv->stripe_bytes > 0);
    return b;
}

static inline void kv_close(struct conformance_kv *c, const struct conformance_kv_backend *b)
{
    if (c->medium != NULL)
        assert_int_equal(snic_kvmem_check(c->medium), 0);
    snic_kv_close(c->kv);
    c->kv = NULL;
    b->close(c);
}

static inline int kv_has(const struct conformance_kv *c, uint32_t cap)
{
    return (c->kv->caps & cap) != 0;
}

/* ---- Records ---- */

static inline struct snic_kvop_key kv_key(uint64_t group, const char *text)
{
    struct snic_kvop_key k;
    snic_kvop_key_set(&k, group, text, (uint32_t)strlen(text));
    return k;
}

static inline int64_t kv_commit(struct snic_kv *kv, struct snic_kvop_guard *guards,
                                uint32_t guard_count, struct snic_kvop_change *changes,
                                uint32_t change_count)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT,
                           .guards = guards,
                           .guard_count = guard_count,
                           .changes = changes,
                           .change_count = change_count};
    return kv_run(kv, &op);
}

static inline int64_t kv_put_key(struct snic_kv *kv, const struct snic_kvop_key *key,
                                 const void *value, uint32_t size)
{
    struct snic_kvop_change c = {.key = *key, .kind = SNIC_KVOP_PUT, .value = value, .size = size};
    return kv_commit(kv, NULL, 0, &c, 1);
}

static inline void kv_put(struct snic_kv *kv, uint64_t group, const char *key, const char *value)
{
    struct snic_kvop_key k = kv_key(group, key);
    assert_int_equal(kv_put_key(kv, &k, value, (uint32_t)strlen(value)), 0);
}

static inline void kv_delete(struct snic_kv *kv, uint64_t group, const char *key)
{
    struct snic_kvop_change c = {.key = kv_key(group, key), .kind = SNIC_KVOP_DELETE};
    assert_int_equal(kv_commit(kv, NULL, 0, &c, 1), 0);
}

/** The value into @p out; its size, or the error. */
static inline int64_t kv_get_key(struct snic_kv *kv, const struct snic_kvop_key *key, void *out,
                                 uint32_t room)
{
    struct snic_kvop_get g = {.key = *key, .value = out, .room = room, .result = 77};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    int64_t r = kv_run(kv, &op);
    assert_int_equal(r, g.result);
    return r != 0 ? r : (int64_t)g.size;
}

/** Is the record's value this text? NULL: there is no record. */
static inline void kv_expect(struct snic_kv *kv, uint64_t group, const char *key, const char *value)
{
    char out[256];
    struct snic_kvop_key k = kv_key(group, key);
    int64_t n = kv_get_key(kv, &k, out, sizeof(out));
    if (value == NULL) {
        assert_int_equal(n, SNIC_ENOENT);
        return;
    }
    assert_int_equal(n, (int64_t)strlen(value));
    assert_memory_equal(out, value, (size_t)n);
}

/* ---- Objects ---- */

static inline int64_t kv_object(struct snic_kv *kv, uint32_t kind, uint64_t object, uint64_t offset,
                                uint64_t length, void *memory, int64_t *allocated)
{
    struct snic_iov piece = {memory, (size_t)length};
    struct snic_kvop op = {
        .kind = kind, .object = object, .offset = offset, .length = length, .allocated = 77};
    if (memory != NULL) {
        op.iov = &piece;
        op.iov_count = 1;
    }
    int64_t r = kv_run(kv, &op);
    if (allocated != NULL)
        *allocated = op.allocated;
    return r;
}

/** Write a pattern of @p seed; the change of space. */
static inline int64_t kv_write(struct snic_kv *kv, uint64_t object, uint64_t offset,
                               uint64_t length, unsigned char seed)
{
    int64_t allocated;
    unsigned char *p = malloc(length);
    assert_non_null(p);
    for (uint64_t i = 0; i < length; i++)
        p[i] = (unsigned char)(seed + (offset + i) % 251);
    assert_int_equal(kv_object(kv, SNIC_KVOP_OBJECT_WRITE, object, offset, length, p, &allocated),
                     length);
    free(p);
    return allocated;
}

/** Does the range hold the pattern of @p seed; @p zeros: zeros. */
static inline void kv_check_range(struct snic_kv *kv, uint64_t object, uint64_t offset,
                                  uint64_t length, unsigned char seed, int zeros)
{
    unsigned char *p = malloc(length);
    assert_non_null(p);
    memset(p, 0x77, length);
    assert_int_equal(kv_object(kv, SNIC_KVOP_OBJECT_READ, object, offset, length, p, NULL), length);
    for (uint64_t i = 0; i < length; i++) {
        unsigned char want = zeros ? 0 : (unsigned char)(seed + (offset + i) % 251);
        if (p[i] != want)
            fail_msg("object %llu at %llu: %u, not %u", (unsigned long long)object,
                     (unsigned long long)(offset + i), p[i], want);
    }
    free(p);
}

static inline int64_t kv_stat(struct snic_kv *kv, uint64_t object)
{
    int64_t allocated = -1;
    assert_int_equal(kv_object(kv, SNIC_KVOP_OBJECT_STAT, object, 0, 0, NULL, &allocated), 0);
    return allocated;
}

static inline int64_t kv_seek(struct snic_kv *kv, uint64_t object, uint64_t offset, int hole)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_SEEK,
                           .flags = hole ? SNIC_KVOP_SEEK_HOLE : 0,
                           .object = object,
                           .offset = offset};
    return kv_run(kv, &op);
}

/** Change that has no bytes of its own: ZERO, PUNCH, ALLOC, TRUNCATE. The change of space. */
static inline int64_t kv_change(struct snic_kv *kv, uint32_t kind, uint64_t object, uint64_t offset,
                                uint64_t length)
{
    int64_t allocated;
    assert_int_equal(kv_object(kv, kind, object, offset, length, NULL, &allocated), 0);
    return allocated;
}

#endif /* SNIC_TESTS_CONFORMANCE_KV_UTIL_H */
