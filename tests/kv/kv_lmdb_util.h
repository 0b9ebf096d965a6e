/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the tests of the store on LMDB share. It works in forked children, too: a failed check
 * prints and aborts, so a parent looks at how its children ended.
 */
#ifndef SNIC_TESTS_KV_LMDB_UTIL_H
#define SNIC_TESTS_KV_LMDB_UTIL_H

#include "support.h"

#include "snicstore/kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define KVL_CHECK(c)                                                                               \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c);                          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
#define KVL_EQUAL(a, b)                                                                            \
    do {                                                                                           \
        long long a_ = (long long)(a);                                                             \
        long long b_ = (long long)(b);                                                             \
        if (a_ != b_) {                                                                            \
            (void)fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #a, a_,     \
                          b_);                                                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { KVL_BLOCK = SNIC_KVOP_BLOCK };

/** A store in use: loop and handle. */
struct kvl {
    struct snic_loop *loop;
    struct snic_kv *kv;
    uint64_t timeout_ns; /* of the requests that begin from now on; 0: the handle's */
};

struct kvl_call {
    struct snic_kv_req req;
    struct snic_kvop op;
    int done;
};

static inline void kvl_done(struct snic_kv_req *req)
{
    SNIC_CONTAINER(req, struct kvl_call, req)->done = 1;
}

/** 0 or the error of opening; skips where there is no io_uring or no LMDB. */
static inline int kvl_try(struct kvl *k, const struct snic_kv_lmdb_opts *o, char *text)
{
    char own[256];
    text = text == NULL ? own : text;
    k->kv = NULL;
    k->timeout_ns = 0;
    if (snic_loop_uring_open(&k->loop, NULL) != 0)
        support_skip_program("no io_uring");
    int error = 0;
    int r = snic_kv_lmdb_open(&k->kv, k->loop, o, &error, text, 256);
    if (r == SNIC_ENOTSUP && strstr(text, "built") != NULL)
        support_skip_program(text);
    if (r != 0)
        snic_loop_close(k->loop);
    return r;
}

static inline void kvl_open(struct kvl *k, const char *path, uint32_t flags)
{
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = path, .flags = flags};
    char text[256] = "";
    int r = kvl_try(k, &o, text);
    if (r != 0)
        (void)fprintf(stderr, "open: %s: %s\n", snic_errname(r), text);
    KVL_EQUAL(r, 0);
}

static inline void kvl_close(struct kvl *k)
{
    snic_kv_close(k->kv);
    snic_loop_close(k->loop);
}

static inline void kvl_begin(struct kvl *k, struct kvl_call *c)
{
    struct snic_kv_req *one = &c->req;
    memset(&c->req, 0, sizeof(c->req));
    c->done = 0;
    c->req.done = kvl_done;
    c->req.op = &c->op;
    c->req.timeout_ns = k->timeout_ns;
    int n = snic_kv_submit(k->kv, &one, 1);
    if (n != 1) {
        c->op.result = n < 0 ? n : SNIC_EAGAIN;
        c->done = 1;
    }
}

static inline int64_t kvl_end(struct kvl *k, struct kvl_call *c)
{
    while (!c->done)
        KVL_CHECK(snic_loop_once(k->loop, SNIC_NEVER) >= 0);
    return c->op.result;
}

static inline int64_t kvl_run(struct kvl *k, struct snic_kvop *op)
{
    struct kvl_call c;
    memset(&c, 0, sizeof(c));
    c.op = *op;
    kvl_begin(k, &c);
    int64_t r = kvl_end(k, &c);
    *op = c.op;
    return r;
}

static inline struct snic_kvop_key kvl_key(uint64_t group, uint64_t number)
{
    unsigned char text[8];
    struct snic_kvop_key k;
    snic_put_be64(text, number);
    snic_kvop_key_set(&k, group, text, sizeof(text));
    return k;
}

/** The number under a key, or @p none. */
static inline uint64_t kvl_get(struct kvl *k, uint64_t group, uint64_t number, uint64_t none)
{
    uint64_t v = 0;
    struct snic_kvop_get g = {.key = kvl_key(group, number), .value = &v, .room = sizeof(v)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    int64_t r = kvl_run(k, &op);
    if (r == SNIC_ENOENT)
        return none;
    KVL_EQUAL(r, 0);
    KVL_EQUAL(g.size, sizeof(v));
    return v;
}

static inline int64_t kvl_put(struct kvl *k, uint64_t group, uint64_t number, uint64_t value,
                              uint32_t flags)
{
    struct snic_kvop_change c = {.key = kvl_key(group, number),
                                 .kind = SNIC_KVOP_PUT,
                                 .value = &value,
                                 .size = sizeof(value)};
    struct snic_kvop op = {
        .kind = SNIC_KVOP_COMMIT, .flags = flags, .changes = &c, .change_count = 1};
    return kvl_run(k, &op);
}

static inline int64_t kvl_sync(struct kvl *k)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_SYNC};
    return kvl_run(k, &op);
}

static inline int64_t kvl_object(struct kvl *k, uint32_t kind, uint32_t flags, uint64_t object,
                                 uint64_t offset, uint64_t length, void *memory)
{
    struct snic_iov piece = {memory, (size_t)length};
    struct snic_kvop op = {
        .kind = kind, .flags = flags, .object = object, .offset = offset, .length = length};
    if (memory != NULL) {
        op.iov = &piece;
        op.iov_count = 1;
    }
    return kvl_run(k, &op);
}

/**
 * A record goes to the end of object @p log, which the record 0 of that group counts, with the
 * counter, if that is what it was; else again.
 */
static inline void kvl_append(struct kvl *k, uint64_t log, const void *record, uint32_t size)
{
    int64_t r = SNIC_ECANCELED;
    while (r == SNIC_ECANCELED) {
        uint64_t was = kvl_get(k, log, 0, 0);
        uint64_t now = was + 1;
        struct snic_kvop_guard g = {.key = kvl_key(log, 0),
                                    .value = was == 0 ? NULL : &was,
                                    .size = was == 0 ? 0 : sizeof(was)};
        struct snic_kvop_change c[2] = {
            {.key = g.key, .kind = SNIC_KVOP_PUT, .value = &now, .size = sizeof(now)},
            {.object = log,
             .offset = was * size,
             .kind = SNIC_KVOP_CHANGE_WRITE,
             .value = record,
             .size = size},
        };
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT,
                               .guards = &g,
                               .guard_count = 1,
                               .changes = c,
                               .change_count = 2};
        r = kvl_run(k, &op);
        if (r != 0)
            KVL_EQUAL(op.failed_guard, 0);
    }
    KVL_EQUAL(r, 0);
}

/** Fill with what names its place and @p seed. */
static inline void kvl_fill(unsigned char *p, uint64_t object, uint64_t offset, uint64_t length,
                            uint64_t seed)
{
    for (uint64_t i = 0; i + 8 <= length; i += 8) {
        uint64_t v = (object * 0x9e3779b97f4a7c15ULL ^ (offset + i)) + seed * 0xff51afd7ed558ccdULL;
        memcpy(p + i, &v, 8);
    }
}

/** Does it hold kvl_fill()'s bytes? */
static inline int kvl_filled(const unsigned char *p, uint64_t object, uint64_t offset,
                             uint64_t length, uint64_t seed)
{
    unsigned char want[8];
    for (uint64_t i = 0; i + 8 <= length; i += 8) {
        kvl_fill(want, object, offset + i, 8, seed);
        if (memcmp(p + i, want, 8) != 0)
            return 0;
    }
    return 1;
}

static inline void kvl_turn(struct kvl *k, uint64_t ns)
{
    uint64_t until = snic_loop_clock(k->loop) + ns;
    while (snic_loop_clock(k->loop) < until)
        KVL_CHECK(snic_loop_once(k->loop, 1000000) >= 0);
}

/** A path for a store that is not there yet. */
static inline void kvl_path(char *path, size_t size)
{
    static unsigned number;
    char name[32];
    (void)snprintf(name, sizeof(name), "kvl%u", number++);
    support_tmpname(path, size, name);
}

/** The child's body, then its end. */
static inline pid_t kvl_fork(void (*body)(void *ctx), void *ctx)
{
    pid_t pid = fork();
    KVL_CHECK(pid >= 0);
    if (pid == 0) {
        body(ctx);
        _exit(0);
    }
    return pid;
}

static inline int kvl_wait(pid_t pid)
{
    int status = 0;
    KVL_EQUAL(waitpid(pid, &status, 0), pid);
    return status;
}

/**
 * Of a store that is closed, and was sole when it was: the blocks in use are those that maps name,
 * each once, and no mark is left. kv_lmdb_audit.c
 */
void kvl_audit(const char *path);

#endif /* SNIC_TESTS_KV_LMDB_UTIL_H */
