/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rule R9 of kv_server/engine.h: under sync always no reply shows what is not durable yet. One
 * client writes while the files below hold back every write; then another runs each command that
 * could show it. None is answered before the write has ended, and then all are.
 */
#include "engine.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 64u
#define SEGMENT (256u << 10)
#define WRITER 1u
#define READER 2u

struct file {
    char name[64];
    unsigned char *data;
    size_t size;
};

struct early {
    struct snic_world *world;
    struct snic_loop *loop;
    struct kv_engine *engine;
    struct file files[FILES_MAX];
    uint64_t files_count;
    struct kv_file_req *ready; /* done at the loop's next step */
    struct kv_file_req *held;  /* writes, while `hold` */
    int hold;
    struct snic_loop_msg msg;
    int queued;
    uint64_t seq[3];
    uint64_t answered[3];
    char answer[65536];
    size_t answer_size;
};

static struct early early;

/* ---- Files in memory ---- */

static int64_t file_apply(struct early *t, struct kv_file_req *r)
{
    struct file *f;

    if (r->op == KV_FILE_CREATE) {
        assert_true(t->files_count < FILES_MAX);
        f = &t->files[t->files_count];
        memcpy(f->name, r->name, sizeof(f->name));
        f->size = r->size;
        f->data = calloc(1, r->size);
        assert_non_null(f->data);
        r->file = ++t->files_count;
        return 0;
    }
    if (r->op == KV_FILE_LIST || r->op == KV_FILE_FSYNC)
        return 0; /* there is no file when the engine opens */
    f = &t->files[r->file - 1];
    if (r->op == KV_FILE_DELETE) {
        free(f->data);
        f->data = NULL;
        return 0;
    }
    assert_true(r->offset + r->size <= f->size);
    if (r->op == KV_FILE_READ)
        memcpy(r->data, f->data + r->offset, r->size);
    else
        memcpy(f->data + r->offset, r->data, r->size);
    return (int64_t)r->size;
}

static void file_step(struct snic_loop_msg *m)
{
    struct early *t = SNIC_CONTAINER(m, struct early, msg);
    struct kv_file_req *list = t->ready;

    t->queued = 0;
    t->ready = NULL;
    while (list != NULL) {
        struct kv_file_req *r = list;

        list = r->next;
        if (t->hold && (r->op == KV_FILE_WRITE || r->op == KV_FILE_FSYNC)) {
            r->next = t->held;
            t->held = r;
            continue;
        }
        r->result = file_apply(t, r);
        r->done(r);
    }
}

static void file_submit(void *ctx, struct kv_file_req *r)
{
    struct early *t = ctx;

    r->next = t->ready;
    t->ready = r;
    if (!t->queued) {
        t->queued = 1;
        t->msg.fn = file_step;
        snic_loop_defer(t->loop, &t->msg);
    }
}

static const struct kv_files_ops file_ops = {.submit = file_submit};

/* ---- Clients ---- */

static int early_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                       uint32_t count, uint32_t flags, uint64_t user)
{
    struct early *t = ctx;

    (void)seq;
    (void)flags;
    (void)user;
    t->answered[client]++;
    t->answer_size = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(t->answer_size + iov[i].size < sizeof(t->answer));
        memcpy(t->answer + t->answer_size, iov[i].base, iov[i].size);
        t->answer_size += iov[i].size;
    }
    t->answer[t->answer_size] = 0;
    return 0;
}

/* The blank-separated words of @p text as a message. */
static void early_send(struct early *t, uint64_t client, const char *text)
{
    char body[512];
    char message[600];
    size_t size = 0;
    unsigned words = 0;
    int head;

    for (const char *p = text; *p != 0; words++) {
        size_t n = strcspn(p, " ");

        size +=
            (size_t)snprintf(body + size, sizeof(body) - size, "$%zu\r\n%.*s\r\n", n, (int)n, p);
        p += n + (p[n] == ' ');
    }
    head = snprintf(message, sizeof(message), "*%u\r\n", words);
    memcpy(message + head, body, size);
    kv_engine_message(t->engine, client, t->seq[client]++, 0, (unsigned char *)message,
                      (size_t)head + size);
}

static void early_spin(struct early *t)
{
    for (int i = 0; i < 50; i++)
        assert_true(snic_loop_once(t->loop, 100000) >= 0);
}

static void early_do(struct early *t, const char *text)
{
    early_send(t, WRITER, text);
    early_spin(t);
    assert_int_equal(t->answered[WRITER], t->seq[WRITER]);
}

static void early_release(struct early *t)
{
    t->hold = 0;
    while (t->held != NULL) {
        struct kv_file_req *r = t->held;

        t->held = r->next;
        file_submit(t, r);
    }
    early_spin(t);
}

static void early_open(struct early *t)
{
    struct snic_world_opts w = {.opts_size = sizeof(w)};
    struct kv_engine_opts o;
    char error[200];

    memset(t, 0, sizeof(*t));
    memset(&o, 0, sizeof(o));
    w.seed = support_seed();
    assert_int_equal(snic_world_open(&t->world, &w), 0);
    assert_int_equal(snic_world_loop(t->world, 0, &t->loop), 0);
    o.loop = t->loop;
    o.files = &file_ops;
    o.files_ctx = t;
    o.events.reply = early_reply;
    o.events.ctx = t;
    o.sync = KV_SYNC_ALWAYS;
    o.memory_bytes = 4 * SEGMENT;
    o.segment_bytes = SEGMENT;
    o.databases = 4;
    o.value_max = 8000;
    resp_settings_default(&o.settings);
    assert_int_equal(kv_engine_open(&t->engine, &o, error, sizeof(error)), 0);
}

static void early_close(struct early *t)
{
    assert_int_equal(kv_engine_close(t->engine), 0);
    snic_loop_close(t->loop);
    snic_world_close(t->world);
    for (uint32_t i = 0; i < FILES_MAX; i++)
        free(t->files[i].data);
}

/* ---- What must hold ---- */

struct scene {
    const char *before; /* durable; commands split by ';' */
    const char *write;
    const char *shows; /* each by itself, split by ';' */
};

#define BIG "9223372036854775807"

static const struct scene scenes[] = {
    {"SET k 1", "SET k 22",
     "GET k;STRLEN k;EXISTS k;TOUCH k;TYPE k;TTL k;PTTL k;EXPIRETIME k;PEXPIRETIME k;MGET none k;"
     "GETRANGE k 0 9;SUBSTR k 0 9;PERSIST k;SETNX k 3;MSETNX n 1 k 2;SET k 4 NX;SET k 4 NX GET;"
     "OBJECT ENCODING k;OBJECT REFCOUNT k;OBJECT IDLETIME k;MEMORY USAGE k;DUMP k;LCS k none;"
     "EXPIRE k 100 XX;RENAMENX k k;COPY k k2;GETEX k;DBSIZE;KEYS *;SCAN 0;RANDOMKEY;"
     "INFO keyspace;INFO"},
    {"SET k 1 EX 1000", "PERSIST k",
     "TTL k;PTTL k;EXPIRETIME k;PERSIST k;EXPIRE k 100 XX;INFO keyspace;GETEX k"},
    {"SET k 1", "EXPIRE k 1000", "TTL k;EXPIRE k 100 NX;INFO keyspace;GET k;EXISTS k"},
    {"SET k 1", "SET k " BIG, "INCR k;INCRBY k 1;GET k;INCRBYFLOAT k abc"},
    {"SET k 1", "SET k abc", "INCR k;DECR k;DECRBY k 2;INCRBYFLOAT k 1;GET k"},
    {"DEL k", "SET k 1", "EXISTS k;GET k;SETNX k 2;MSETNX k 2;DBSIZE;INFO keyspace;KEYS *;SCAN 0"},
    {"SET k 1", "DEL k",
     "EXISTS k;GET k;TTL k;PTTL k;PERSIST k;EXPIRE k 10;DEL k;UNLINK k;GETDEL k;GETEX k;STRLEN k;"
     "TYPE k;MGET k;RENAME k x;RENAMENX k x;COPY k x;MOVE k 1;DUMP k;OBJECT ENCODING k;LCS k k;"
     "SET k 2 XX;SET k 2 XX GET;GETRANGE k 0 1;MEMORY USAGE k;TOUCH k;DBSIZE;KEYS *;"
     "SCAN 0;RANDOMKEY;INFO keyspace"},
    {"SET k 1;SET n 2", "FLUSHALL", "EXISTS k;GET n;DBSIZE;KEYS *;RANDOMKEY;INFO keyspace"},
    {"SET k 1;DEL n", "RENAME k n", "EXISTS k;GET k;GET n;EXISTS n;DBSIZE"},
    {"SET k 1", "GETDEL k", "GET k;EXISTS k;DBSIZE"},
    {"SET k 1", "APPEND k 2", "GET k;STRLEN k"},
    {"SET k 1", "MSET k 2 n 3", "GET k;GET n;MGET k n"},
    {"FLUSHALL;SET k 1", "SWAPDB 0 1", "GET k;EXISTS k;DBSIZE;KEYS *;INFO keyspace"},
};

static void early_each(const char *list, void (*each)(struct early *t, const char *text))
{
    while (*list != 0) {
        char text[200];
        size_t n = strcspn(list, ";");

        assert_true(n < sizeof(text));
        memcpy(text, list, n);
        text[n] = 0;
        each(&early, text);
        list += n + (list[n] == ';');
    }
}

static const struct scene *scene;

/* One command beside one write: none is answered until the write has ended. */
static void early_pair(struct early *t, const char *shows)
{
    early_do(t, "FLUSHALL");
    early_each(scene->before, early_do);
    t->hold = 1;
    early_send(t, WRITER, scene->write);
    early_send(t, READER, shows);
    early_spin(t);
    if (t->answered[WRITER] == t->seq[WRITER])
        fail_msg("'%s' is acknowledged before it is durable", scene->write);
    if (t->answered[READER] == t->seq[READER])
        fail_msg("'%s' shows '%s', which is not durable: %s", shows, scene->write, t->answer);
    early_release(t);
    if (t->answered[WRITER] != t->seq[WRITER] || t->answered[READER] != t->seq[READER])
        fail_msg("'%s' or '%s' is never answered", scene->write, shows);
}

static void test_kv_early_reply_waits_for_what_it_shows(void **state)
{
    (void)state;
    early_open(&early);
    for (size_t i = 0; i < SNIC_COUNTOF(scenes); i++) {
        scene = &scenes[i];
        early_each(scene->shows, early_pair);
    }
    early_close(&early);
}

/* What shows nothing of the keys does not wait. */
static void test_kv_early_other_replies_do_not_wait(void **state)
{
    (void)state;
    early_open(&early);
    early_do(&early, "SET other 1");
    early.hold = 1;
    early_send(&early, WRITER, "SET k 1");
    early_send(&early, READER, "GET other");
    early_send(&early, READER, "PING");
    early_send(&early, READER, "INFO stats");
    early_spin(&early);
    assert_int_equal(early.answered[READER], 3);
    assert_int_equal(early.answered[WRITER], 1);
    early_release(&early);
    early_close(&early);
}

/* A transaction's reply, a watch that fails and a script depend on what they read as well. */
static void test_kv_early_transactions_wait(void **state)
{
    (void)state;
    early_open(&early);
    early_do(&early, "SET k 1");
    early_send(&early, READER, "MULTI");
    early_send(&early, READER, "GET k");
    early.hold = 1;
    early_send(&early, WRITER, "SET k 2");
    early_send(&early, READER, "EXEC");
    early_spin(&early);
    assert_int_equal(early.answered[READER], 2);
    early_release(&early);
    assert_int_equal(early.answered[READER], 3);
    early_send(&early, READER, "WATCH k");
    early_send(&early, READER, "MULTI");
    early.hold = 1;
    early_send(&early, WRITER, "SET k 3");
    early_send(&early, READER, "EXEC");
    early_spin(&early);
    assert_int_equal(early.answered[READER], 5);
    early_release(&early);
    assert_int_equal(early.answered[READER], 6);
    early_close(&early);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_early_reply_waits_for_what_it_shows),
        cmocka_unit_test(test_kv_early_other_replies_do_not_wait),
        cmocka_unit_test(test_kv_early_transactions_wait),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
