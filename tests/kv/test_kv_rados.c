/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on RADOS: the conformance suite, what operations cost, a cluster that is not there.
 * It starts a cluster of its own (kv_rados.sh), with SNIC_RADOS_STORE (memstore, bluestore).
 */
#include "conformance_kv.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK SNIC_KVOP_BLOCK

/* ---- The suite ---- */

struct own {
    char space[64]; /* a RADOS namespace of the test's own */
};

static uint64_t rados_timeout_ns; /* 0: the default */

static int rados_again(struct conformance_kv *c, struct snic_kv **out)
{
    const struct own *own = c->own;
    char text[256] = "";
    int error = 0;
    struct snic_kv_rados_opts o = {.opts_size = sizeof(o),
                                   .pool = "kvfs",
                                   .space = own->space,
                                   .timeout_ns = rados_timeout_ns,
                                   .depth = 256};
    int r = snic_kv_rados_open(out, c->loop, &o, &error, text, sizeof(text));
    if (r != 0)
        print_message("open: %d (%d) %s\n", r, error, text);
    return r;
}

static void rados_open(struct conformance_kv *c, const struct conformance_kv_backend *b)
{
    static uint32_t number;
    struct own *own = calloc(1, sizeof(*own));
    struct snic_rng rng;
    (void)b;
    snic_rng_init(&rng, (uint64_t)(uintptr_t)own ^ support_seed());
    (void)snprintf(own->space, sizeof(own->space), "test.%s.%u", getenv("SNIC_RADOS_RUN"),
                   number++);
    c->own = own;
    int r = snic_loop_uring_open(&c->loop, NULL);
    if (r != 0)
        support_skip("no io_uring");
    /* One that is not scheduled may need longer than the time-out. */
    uint64_t end = snic_loop_clock(c->loop) + UINT64_C(150000000000);
    do
        r = rados_again(c, &c->kv);
    while (r == SNIC_ETIMEDOUT && snic_loop_clock(c->loop) < end);
    assert_int_equal(r, 0);
}

static void rados_close(struct conformance_kv *c)
{
    snic_loop_close(c->loop);
    free(c->own);
}

/* ---- What operations cost ---- */

struct call {
    struct snic_kv_req req;
    int done;
};

static void call_done(struct snic_kv_req *req)
{
    SNIC_CONTAINER(req, struct call, req)->done = 1;
}

/** Carry out; how many RADOS operations it took. */
static uint64_t cost(struct conformance_kv *c, struct snic_kvop *op, int64_t want)
{
    struct call call = {.req = {.done = call_done, .op = op}};
    struct snic_kv_req *one = &call.req;
    uint64_t before = c->kv->stats.store_ops;
    assert_int_equal(snic_kv_submit(c->kv, &one, 1), 1);
    while (!call.done)
        assert_true(snic_loop_once(c->loop, SNIC_NEVER) >= 0);
    if (op->result != want)
        print_message("result %lld, os error %d\n", (long long)op->result, op->os_error);
    assert_int_equal(op->result, want);
    return c->kv->stats.store_ops - before;
}

static uint64_t cost_object(struct conformance_kv *c, uint32_t kind, uint64_t object,
                            uint64_t offset, uint64_t length)
{
    static unsigned char bytes[1 << 20];
    struct snic_iov piece = {bytes, (size_t)length};
    struct snic_kvop op = {.kind = kind,
                           .object = object,
                           .offset = offset,
                           .length = length,
                           .iov = &piece,
                           .iov_count = 1};
    int transfer = kind == SNIC_KVOP_OBJECT_READ || kind == SNIC_KVOP_OBJECT_WRITE;
    return cost(c, &op, transfer ? (int64_t)length : 0);
}

/* A file system on a network is as fast as its operations are few. */
static void test_kv_rados_operations_cost_as_documented(void **state)
{
    static const struct conformance_kv_backend none;
    struct conformance_kv c = {.kv = NULL};
    struct snic_kvop_get gets[3];
    unsigned char value[64] = "value";
    const uint64_t stripe = 4 << 20;
    (void)state;
    rados_open(&c, &none);
    /* in the first stripe: new space or not, one */
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, i * BLOCK, BLOCK), 1);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, i * 100 * 7, BLOCK), 1);
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_READ, 1, 3 * BLOCK, BLOCK), 1);
    /* behind it: two for the first of a stripe, which is listed, then one */
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, 5 * stripe, BLOCK), 2);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 1, 5 * stripe + i * BLOCK, BLOCK),
                         1);
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_READ, 1, 5 * stripe, BLOCK), 1);
    assert_int_equal(cost_object(&c, SNIC_KVOP_OBJECT_READ, 1, 6 * stripe - BLOCK, 2 * BLOCK), 2);
    /* a commit is one, with object bytes of its stripe, too; gets of a group are one */
    struct snic_kvop_guard g = {.value = NULL};
    struct snic_kvop_change ch[3] = {
        {.kind = SNIC_KVOP_PUT, .value = value, .size = 5},
        {.kind = SNIC_KVOP_CHANGE_WRITE, .object = 2, .value = value, .size = 64},
        {.kind = SNIC_KVOP_PUT, .value = value, .size = 64}};
    snic_kvop_key_set(&ch[0].key, 2, "a", 1);
    snic_kvop_key_set(&ch[2].key, 2, "b", 1);
    g.key = ch[0].key;
    struct snic_kvop commit = {
        .kind = SNIC_KVOP_COMMIT, .guards = &g, .guard_count = 1, .changes = ch, .change_count = 3};
    assert_int_equal(cost(&c, &commit, 0), 1);
    assert_int_equal(cost(&c, &commit, SNIC_ECANCELED), 1);
    assert_int_equal(commit.failed_guard, 0);
    memset(gets, 0, sizeof(gets));
    gets[0].key = ch[0].key;
    gets[1].key = ch[2].key;
    snic_kvop_key_set(&gets[2].key, 3, "c", 1);
    struct snic_kvop get = {.kind = SNIC_KVOP_GET, .gets = gets, .get_count = 2};
    assert_int_equal(cost(&c, &get, 0), 1);
    get.get_count = 3;
    assert_int_equal(cost(&c, &get, 0), 2);
    struct snic_kvop sync = {.kind = SNIC_KVOP_SYNC};
    assert_int_equal(cost(&c, &sync, 0), 0);
    snic_kv_close(c.kv);
    rados_close(&c);
}

/* What another handle gave back must not be written into as if it were still there. */
static void test_kv_rados_old_knowledge_does_no_harm(void **state)
{
    static const struct conformance_kv_backend none;
    struct conformance_kv c = {.kv = NULL};
    struct snic_kv *first, *second = NULL;
    const uint64_t stripe = 4 << 20;
    (void)state;
    rados_open(&c, &none);
    first = c.kv;
    assert_int_equal(rados_again(&c, &second), 0);
    for (uint64_t n = 0; n < 3; n++) {
        struct snic_kvop stat = {.kind = SNIC_KVOP_OBJECT_STAT, .object = n};
        uint64_t at = n * stripe;
        assert_true(cost_object(&c, SNIC_KVOP_OBJECT_WRITE, n, at, 10 * BLOCK) <= 2);
        c.kv = second;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_PUNCH, n, at + 2 * BLOCK, 3 * BLOCK);
        c.kv = first;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_WRITE, n, at + 3 * BLOCK, BLOCK);
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, 8 * BLOCK);
        c.kv = second;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_TRUNCATE, n, 0, 0);
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, 0);
        c.kv = first;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_WRITE, n, at + 5 * BLOCK, BLOCK);
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, BLOCK);
        c.kv = second;
        (void)cost_object(&c, SNIC_KVOP_OBJECT_TRUNCATE, n, 0, 0);
        c.kv = first;
        (void)cost(&c, &stat, 0);
        assert_int_equal(stat.allocated, 0);
    }
    snic_kv_close(second);
    snic_kv_close(c.kv);
    rados_close(&c);
}

/* ---- Truncations of a commit ---- */

struct step {
    struct call call;
    struct snic_kvop op;
    struct snic_kvop_guard guard;
    struct snic_kvop_change change[2];
    struct snic_kvop_get get;
    uint64_t value[2];
};

static void step_begin(struct snic_kv *kv, struct step *s)
{
    struct snic_kv_req *one = &s->call.req;
    s->call = (struct call){.req = {.done = call_done, .op = &s->op}};
    assert_int_equal(snic_kv_submit(kv, &one, 1), 1);
}

static int64_t step_end(struct conformance_kv *c, struct step *s)
{
    while (!s->call.done)
        assert_true(snic_loop_once(c->loop, SNIC_NEVER) >= 0);
    return s->op.result;
}

/** The record goes from one number (0: none) to another, together with a change of its object. */
static void step_commit(struct snic_kv *kv, struct step *s, uint64_t was, uint64_t now,
                        const struct snic_kvop_change *object)
{
    memset(s, 0, sizeof(*s));
    s->value[0] = was;
    s->value[1] = now;
    snic_kvop_key_set(&s->guard.key, object->object, "size", 4);
    s->guard.value = was == 0 ? NULL : &s->value[0];
    s->guard.size = was == 0 ? 0 : sizeof(was);
    s->change[0] = (struct snic_kvop_change){
        .kind = SNIC_KVOP_PUT, .key = s->guard.key, .value = &s->value[1], .size = sizeof(now)};
    s->change[1] = *object;
    s->op = (struct snic_kvop){.kind = SNIC_KVOP_COMMIT,
                               .guards = &s->guard,
                               .guard_count = 1,
                               .changes = s->change,
                               .change_count = 2};
    step_begin(kv, s);
}

static uint64_t step_get(struct conformance_kv *c, struct snic_kv *kv, struct step *s, uint64_t n)
{
    memset(s, 0, sizeof(*s));
    snic_kvop_key_set(&s->get.key, n, "size", 4);
    s->get.value = s->value;
    s->get.room = sizeof(s->value);
    s->op = (struct snic_kvop){.kind = SNIC_KVOP_GET, .gets = &s->get, .get_count = 1};
    step_begin(kv, s);
    return step_end(c, s) == 0 ? s->value[0] : 0;
}

/* A writer that has seen the records of a commit that truncates keeps its later bytes. */
static void test_kv_rados_truncation_spares_later_writes(void **state)
{
    static const struct conformance_kv_backend none;
    static unsigned char bytes[4 * BLOCK], out[BLOCK];
    struct conformance_kv c = {.kv = NULL};
    struct snic_kv *second = NULL;
    struct step a, b;
    (void)state;
    rados_open(&c, &none);
    assert_int_equal(rados_again(&c, &second), 0);
    uint64_t state_of = 0;
    for (uint32_t n = 0; n < 60; n++) {
        uint64_t cut = n % 3 * (BLOCK / 2);
        struct snic_kvop_change change = {
            .kind = SNIC_KVOP_CHANGE_WRITE, .object = 77, .value = bytes, .size = sizeof(bytes)};
        memset(bytes, 1, sizeof(bytes));
        step_commit(c.kv, &a, state_of, state_of + 1, &change);
        assert_int_equal(step_end(&c, &a), 0);
        struct snic_kvop_change truncate = {
            .kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = 77, .offset = cut};
        step_commit(c.kv, &a, state_of + 1, state_of + 2, &truncate);
        state_of += 2;
        while (step_get(&c, second, &b, 77) != state_of)
            ;
        memset(bytes, 2, sizeof(bytes));
        change.offset = cut;
        change.size = BLOCK;
        step_commit(second, &b, state_of, state_of + 1, &change);
        state_of++;
        assert_int_equal(step_end(&c, &b), 0);
        assert_int_equal(step_end(&c, &a), 0);
        struct snic_iov piece = {out, BLOCK};
        struct snic_kvop read = {.kind = SNIC_KVOP_OBJECT_READ,
                                 .object = 77,
                                 .offset = cut,
                                 .length = BLOCK,
                                 .iov = &piece,
                                 .iov_count = 1};
        (void)cost(&c, &read, BLOCK);
        assert_memory_equal(out, bytes, BLOCK);
        read.offset = cut + BLOCK;
        (void)cost(&c, &read, BLOCK);
        for (uint32_t i = 0; i < BLOCK; i++)
            assert_int_equal(out[i], 0);
    }
    snic_kv_close(second);
    snic_kv_close(c.kv);
    rados_close(&c);
}

/* A client that another one has fenced changes nothing, reads nothing, and hears why. */
static void test_kv_rados_fenced_client_is_refused(void **state)
{
    struct conformance_kv c = {0};
    struct snic_kv *first, *second = NULL;
    char identity[SNIC_KVOP_IDENTITY_MAX];
    (void)state;
    rados_open(&c, NULL);
    first = c.kv;
    assert_int_equal(rados_again(&c, &second), 0);
    assert_true((first->caps & SNIC_KV_CAP_FENCE) != 0 && second->identity_size > 0);
    assert_false(first->identity_size == second->identity_size &&
                 memcmp(first->identity, second->identity, first->identity_size) == 0);
    c.kv = second;
    (void)cost_object(&c, SNIC_KVOP_OBJECT_WRITE, 5, 0, BLOCK);
    memcpy(identity, second->identity, sizeof(identity));
    struct snic_iov iov = {identity, second->identity_size};
    struct snic_kvop fence = {
        .kind = SNIC_KVOP_FENCE, .iov = &iov, .iov_count = 1, .length = iov.size};
    struct snic_kvop_change put = {.kind = SNIC_KVOP_PUT, .value = "v", .size = 1};
    struct snic_kvop commit = {.kind = SNIC_KVOP_COMMIT, .changes = &put, .change_count = 1};
    struct snic_kvop_get g = {.value = identity, .room = 1};
    struct snic_kvop get = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    snic_kvop_key_set(&put.key, 5, "k", 1);
    g.key = put.key;
    c.kv = first;
    (void)cost(&c, &fence, 0);
    (void)cost(&c, &fence, 0); /* again */
    c.kv = second;
    (void)cost(&c, &commit, SNIC_ESHUTDOWN);
    (void)cost(&c, &get, SNIC_ESHUTDOWN);
    struct snic_iov piece = {identity, 16};
    struct snic_kvop write = {
        .kind = SNIC_KVOP_OBJECT_WRITE, .object = 5, .length = 16, .iov = &piece, .iov_count = 1};
    (void)cost(&c, &write, SNIC_ESHUTDOWN);
    snic_kv_close(second);
    c.kv = first;
    (void)cost(&c, &get, SNIC_ENOENT);
    (void)cost(&c, &commit, 0);
    (void)cost_object(&c, SNIC_KVOP_OBJECT_READ, 5, 0, BLOCK);
    snic_kv_close(first);
    rados_close(&c);
}

/* ---- No cluster ---- */

static void test_kv_rados_bad_options_refused(void **state)
{
    struct snic_loop *l = NULL;
    struct snic_kv *kv = NULL;
    struct snic_kv_rados_opts o = {.opts_size = sizeof(o), .pool = "nothing-of-this-name"};
    char text[256] = "";
    int error = 0;
    (void)state;
    if (snic_loop_uring_open(&l, NULL) != 0)
        support_skip("no io_uring");
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, &error, text, sizeof(text)), SNIC_ENOENT);
    assert_non_null(strstr(text, "nothing-of-this-name"));
    assert_int_equal(error, -2);
    o.conf = "/nonexistent/ceph.conf";
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, &error, text, sizeof(text)), SNIC_ENOENT);
    assert_non_null(strstr(text, "/nonexistent/ceph.conf"));
    o.depth = 65537;
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, NULL, NULL, 0), SNIC_EINVAL);
    o.depth = 0;
    o.flags = 1U << 30;
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, NULL, NULL, 0), SNIC_EINVAL);
    assert_null(kv);
    snic_loop_close(l);
}

/* ---- A cluster that hangs, and one that dies ---- */

enum { WORKERS = 32 };

struct worker {
    struct snic_kv_req req;
    struct snic_kvop op;
    struct snic_kvop_change change;
    struct snic_kvop_get get;
    struct snic_iov iov;
    unsigned char bytes[BLOCK];
    int done;
};

static void worker_done(struct snic_kv_req *req)
{
    SNIC_CONTAINER(req, struct worker, req)->done = 1;
}

/** A commit, an object write or a get, by its number. */
static void worker_start(struct conformance_kv *c, struct worker *w, uint32_t n, uint32_t round)
{
    struct snic_kv_req *one = &w->req;
    memset(w, 0, sizeof(*w));
    w->req.done = worker_done;
    w->req.op = &w->op;
    memset(w->bytes, (int)(n + round), BLOCK);
    w->iov = (struct snic_iov){w->bytes, BLOCK};
    if (n % 3 == 0) {
        w->change =
            (struct snic_kvop_change){.kind = SNIC_KVOP_PUT, .value = w->bytes, .size = 100};
        snic_kvop_key_set(&w->change.key, n, "key", 3);
        w->op =
            (struct snic_kvop){.kind = SNIC_KVOP_COMMIT, .changes = &w->change, .change_count = 1};
    } else if (n % 3 == 1) {
        w->op = (struct snic_kvop){.kind = SNIC_KVOP_OBJECT_WRITE,
                                   .object = n,
                                   .offset = (uint64_t)round * BLOCK + (n % 2) * (8ULL << 20),
                                   .length = BLOCK,
                                   .iov = &w->iov,
                                   .iov_count = 1};
    } else {
        snic_kvop_key_set(&w->get.key, n, "key", 3);
        w->op = (struct snic_kvop){.kind = SNIC_KVOP_GET, .gets = &w->get, .get_count = 1};
    }
    assert_int_equal(snic_kv_submit(c->kv, &one, 1), 1);
}

static void worker_wait(struct conformance_kv *c, struct worker *w)
{
    while (!w->done)
        assert_true(snic_loop_once(c->loop, SNIC_NEVER) >= 0);
}

/* A signal stops each thread when that is next in the kernel: until then it still answers. */
static int process_has_stopped(pid_t pid)
{
    char path[600];
    int all = 1;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks)) {
        char state = '?';
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, e->d_name);
        FILE *f = fopen(path, "r");
        if (f == NULL) /* the thread has ended */
            continue;
        all &= fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
        (void)fclose(f);
    }
    (void)closedir(tasks);
    return all;
}

/*
 * The OSD is stopped: requests wait for their time-out, changes end with an unknown outcome, a
 * handle with requests in flight can be closed; when it resumes, so do we.
 */
static void test_kv_rados_stopped_cluster_times_out(void **state)
{
    static const struct conformance_kv_backend none;
    static struct worker w[WORKERS];
    int64_t results[2][WORKERS];
    struct conformance_kv c = {.kv = NULL};
    pid_t osd = (pid_t)strtol(getenv("SNIC_RADOS_OSD_PID"), NULL, 10);
    (void)state;
    rados_timeout_ns = 1500000000;
    rados_open(&c, &none);
    assert_int_equal(kill(osd, SIGSTOP), 0);
    while (!process_has_stopped(osd))
        (void)usleep(1000);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < WORKERS; i++)
            worker_start(&c, &w[i], i, round);
        for (uint32_t i = 0; i < 3 && round == 0; i++)
            snic_kv_cancel(c.kv, &w[i].req);
        if (round == 1) { /* with all of them in flight */
            struct snic_kv *closing = c.kv;
            c.kv = NULL;
            snic_kv_close(closing);
        }
        for (uint32_t i = 0; i < WORKERS; i++) {
            if (round == 0)
                worker_wait(&c, &w[i]);
            results[round][i] = w[i].done ? w[i].op.result : 1;
        }
    }
    rados_timeout_ns = 0;
    assert_int_equal(kill(osd, SIGCONT), 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        int64_t r = results[0][i];
        if (i < 3) /* cancelled */
            assert_true(r == SNIC_ECANCELED || r == SNIC_EUNKNOWN);
        else if (i % 3 == 2)
            assert_int_equal(r, SNIC_ETIMEDOUT);
        else if (i % 3 == 0)
            assert_int_equal(r, SNIC_EUNKNOWN);
        else if (r != SNIC_EUNKNOWN && r != SNIC_ETIMEDOUT) /* it may have had to look first */
            fail_msg("object write %u: %lld, of the store %d", i, (long long)r, w[i].op.os_error);
        assert_true(results[1][i] < 0);
    }
    assert_int_equal(rados_again(&c, &c.kv), 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        worker_start(&c, &w[i], i, 2);
    for (uint32_t i = 0; i < WORKERS; i++) {
        worker_wait(&c, &w[i]);
        assert_true(w[i].op.result >= 0 || w[i].op.result == SNIC_ENOENT);
    }
    snic_kv_close(c.kv);
    rados_close(&c);
}

/* kill -9 of the OSD: requests wait for the next one, and nothing that was acknowledged is lost. */
static void test_kv_rados_killed_cluster_is_waited_for(void **state)
{
    static const struct conformance_kv_backend none;
    static struct worker w[WORKERS];
    struct conformance_kv c = {.kv = NULL};
    char command[512];
    const char *store = getenv("SNIC_RADOS_STORE");
    (void)state;
    if (store == NULL || strcmp(store, "bluestore") != 0)
        return; /* memstore forgets */
    rados_timeout_ns = 120000000000ULL;
    rados_open(&c, &none);
    (void)snprintf(command, sizeof(command), "sh %s restart %s &", KV_RADOS_SCRIPT,
                   getenv("SNIC_RADOS_DIR"));
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < WORKERS; i++)
            worker_start(&c, &w[i], i, round);
        if (round == 20)
            assert_int_equal(system(command), 0);
        for (uint32_t i = 0; i < WORKERS; i++) {
            worker_wait(&c, &w[i]);
            assert_true(i % 3 == 2 ? w[i].op.result == SNIC_ENOENT : w[i].op.result >= 0);
        }
    }
    for (uint32_t n = 0; n < WORKERS; n++) {
        unsigned char bytes[BLOCK];
        unsigned char want[BLOCK];
        struct snic_iov iov = {bytes, BLOCK};
        struct snic_kvop_get g = {.value = bytes, .room = 100};
        struct snic_kvop get = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
        snic_kvop_key_set(&g.key, n, "key", 3);
        memset(want, (int)(n + 39), BLOCK);
        if (n % 3 == 0) {
            (void)cost(&c, &get, 0);
            assert_memory_equal(bytes, want, 100);
        }
        for (uint32_t round = 0; round < 40 && n % 3 == 1; round++) {
            struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_READ,
                                   .object = n,
                                   .offset = (uint64_t)round * BLOCK + (n % 2) * (8ULL << 20),
                                   .length = BLOCK,
                                   .iov = &iov,
                                   .iov_count = 1};
            (void)cost(&c, &op, BLOCK);
            memset(want, (int)(n + round), BLOCK);
            assert_memory_equal(bytes, want, BLOCK);
        }
    }
    rados_timeout_ns = 0;
    snic_kv_close(c.kv);
    rados_close(&c);
}

/* No listener where the monitor should be. */
static void test_kv_rados_without_a_cluster_gives_up(void **state)
{
    char path[256], text[256] = "";
    struct snic_loop *l = NULL;
    struct snic_kv *kv = NULL;
    struct snic_kv_rados_opts o = {
        .opts_size = sizeof(o), .pool = "kvfs", .timeout_ns = 1000000000, .conf = path};
    (void)state;
    if (snic_loop_uring_open(&l, NULL) != 0)
        support_skip("no io_uring");
    support_tmpname(path, sizeof(path), "ceph.conf");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "[global]\nmon_host = v2:127.0.0.1:%u\nauth_client_required = none\n",
                  (unsigned)support_free_port());
    (void)fclose(f);
    assert_int_equal(snic_kv_rados_open(&kv, l, &o, NULL, text, sizeof(text)), SNIC_ETIMEDOUT);
    assert_null(kv);
    assert_true(strlen(text) > 10);
    snic_loop_close(l);
}

static const struct conformance_kv_backend backends[] = {
    {.name = "rados", .open = rados_open, .again = rados_again, .close = rados_close, .slow = 1}};

static int rados_is_built_in(void)
{
    struct snic_loop *l = NULL;
    struct snic_kv *kv = NULL;
    struct snic_kv_rados_opts nothing = {.opts_size = sizeof(nothing)};
    if (snic_loop_uring_open(&l, NULL) != 0)
        support_skip_program("no io_uring");
    int r = snic_kv_rados_open(&kv, l, &nothing, NULL, NULL, 0);
    snic_loop_close(l);
    return r != SNIC_ENOTSUP;
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[128] = {
        cmocka_unit_test(test_kv_rados_operations_cost_as_documented),
        cmocka_unit_test(test_kv_rados_old_knowledge_does_no_harm),
        cmocka_unit_test(test_kv_rados_truncation_spares_later_writes),
        cmocka_unit_test(test_kv_rados_fenced_client_is_refused),
        cmocka_unit_test(test_kv_rados_bad_options_refused),
        cmocka_unit_test(test_kv_rados_without_a_cluster_gives_up),
        cmocka_unit_test(test_kv_rados_stopped_cluster_times_out),
        cmocka_unit_test(test_kv_rados_killed_cluster_is_waited_for),
    };
    if (!rados_is_built_in())
        support_skip_program("built without librados");
    if (getenv("SNIC_RADOS_RUN") == NULL) { /* again, with a cluster */
        const char *store = getenv("SNIC_RADOS_STORE");
        char *args[16] = {"sh", KV_RADOS_SCRIPT, (char *)(uintptr_t)(store ? store : "memstore")};
        for (int i = 0; i < argc && i < 12; i++)
            args[3 + i] = argv[i];
        (void)execv("/bin/sh", args);
        support_skip_program("no shell");
    }
    size_t n = 7;
    n += conformance_kv_tests(tests + n, SNIC_COUNTOF(tests) - n, backends, 1);
    return support_main(argc, argv, tests, n);
}
