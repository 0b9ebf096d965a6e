/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rule E5 of kv_server/command_write.c: a command that waits for room in the log, for space on the
 * device or for values from it does not hold the reads and deletions of other clients, and a write
 * that waits for space is answered in bounded time. The files below hold back writes or reads, or
 * take no more segments; time is simulated.
 */
#include "engine.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 64u
#define SEGMENT (256u << 10)
#define VALUE 80000u /* three of them fit into a segment */
#define CLIENTS 4u
#define SECOND UINT64_C(1000000000)
#define LIMIT_NS (15 * SECOND) /* above the 10 s that a write waits for space */

enum { A = 1, B, C };

struct file {
    unsigned char *data;
    size_t size;
};

struct room {
    struct snic_world *world;
    struct snic_loop *loop;
    struct kv_engine *engine;
    struct file files[FILES_MAX];
    uint64_t files_count;
    unsigned live;             /* files that there are */
    unsigned live_max;         /* beyond it there is no space */
    struct kv_file_req *ready; /* done at the loop's next step */
    struct kv_file_req *held;
    int hold_writes;
    int hold_reads;
    int busy; /* the layer above takes no replies */
    struct snic_loop_msg msg;
    int queued;
    uint64_t seq[CLIENTS];
    uint64_t answered[CLIENTS];
    char answer[CLIENTS][200]; /* begin of the newest */
    char *message;
    size_t size;
    unsigned words;
};

static struct room room;

/* ---- Files in memory ---- */

static int64_t file_apply(struct room *t, struct kv_file_req *r)
{
    struct file *f;

    if (r->op == KV_FILE_CREATE) {
        if (t->live >= t->live_max)
            return SNIC_ENOSPC;
        assert_true(t->files_count < FILES_MAX);
        f = &t->files[t->files_count];
        f->size = r->size;
        f->data = calloc(1, r->size);
        assert_non_null(f->data);
        r->file = ++t->files_count;
        t->live++;
        return 0;
    }
    if (r->op == KV_FILE_LIST || r->op == KV_FILE_FSYNC)
        return 0; /* there is no file when the engine opens */
    f = &t->files[r->file - 1];
    if (r->op == KV_FILE_DELETE) {
        free(f->data);
        f->data = NULL;
        t->live--;
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
    struct room *t = SNIC_CONTAINER(m, struct room, msg);
    struct kv_file_req *list = t->ready;

    t->queued = 0;
    t->ready = NULL;
    while (list != NULL) {
        struct kv_file_req *r = list;

        list = r->next;
        if ((t->hold_writes && (r->op == KV_FILE_WRITE || r->op == KV_FILE_FSYNC)) ||
            (t->hold_reads && r->op == KV_FILE_READ)) {
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
    struct room *t = ctx;

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

static int room_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                      uint32_t count, uint32_t flags, uint64_t user)
{
    struct room *t = ctx;
    char *out = t->answer[client];
    size_t size = 0;

    (void)seq;
    (void)flags;
    (void)user;
    if (t->busy)
        return SNIC_EAGAIN;
    t->answered[client]++;
    for (uint32_t i = 0; i < count; i++) {
        size_t n = snic_min_u64(iov[i].size, sizeof(t->answer[0]) - 1 - size);

        memcpy(out + size, iov[i].base, n);
        size += n;
    }
    out[size] = 0;
    return 0;
}

static void word(struct room *t, const char *text, size_t size)
{
    t->size += (size_t)snprintf(t->message + t->size, 32, "$%zu\r\n", size);
    memcpy(t->message + t->size, text, size);
    memcpy(t->message + t->size + size, "\r\n", 2);
    t->size += size + 2;
    t->words++;
}

/* The blank-separated words of @p text as a message; VALUE is a value of that many bytes. */
static void room_send(struct room *t, unsigned client, const char *text)
{
    static char value[VALUE];
    char head[32];
    int n;

    t->size = sizeof(head);
    t->words = 0;
    memset(value, 'v', sizeof(value));
    while (*text != 0) {
        size_t w = strcspn(text, " ");

        if (w == 5 && memcmp(text, "VALUE", 5) == 0)
            word(t, value, VALUE);
        else
            word(t, text, w);
        text += w + (text[w] == ' ');
    }
    n = snprintf(head, sizeof(head), "*%u\r\n", t->words);
    memcpy(t->message + sizeof(head) - n, head, (size_t)n);
    (void)kv_engine_message(t->engine, client, t->seq[client]++, 0,
                            (unsigned char *)t->message + sizeof(head) - n,
                            t->size - sizeof(head) + (size_t)n);
}

/* So short that the store's tick does not come. */
static void room_spin(struct room *t)
{
    for (int i = 0; i < 50; i++)
        assert_true(snic_loop_once(t->loop, 1000) >= 0);
}

/* Simulated time passes until the client's messages are answered, at most LIMIT_NS. */
static void room_until(struct room *t, unsigned client)
{
    uint64_t end = snic_loop_now(t->loop) + LIMIT_NS;

    while (t->answered[client] < t->seq[client] && snic_loop_now(t->loop) < end)
        assert_true(snic_loop_once(t->loop, SECOND / 10) >= 0);
    if (t->answered[client] < t->seq[client])
        fail_msg("client %u is not answered within %u s", client, (unsigned)(LIMIT_NS / SECOND));
}

static void room_do(struct room *t, unsigned client, const char *text)
{
    room_send(t, client, text);
    room_until(t, client);
}

/* It is answered although others wait. */
static void room_at_once(struct room *t, unsigned client, const char *text, const char *reply)
{
    room_send(t, client, text);
    room_spin(t);
    if (t->answered[client] != t->seq[client])
        fail_msg("'%s' waits for another client's command", text);
    if (strncmp(t->answer[client], reply, strlen(reply)) != 0)
        fail_msg("'%s' is answered with '%s'", text, t->answer[client]);
}

static void room_waits(struct room *t, unsigned client)
{
    room_spin(t);
    if (t->answered[client] == t->seq[client])
        fail_msg("the command does not wait: %s", t->answer[client]);
}

static void room_release(struct room *t)
{
    t->hold_writes = t->hold_reads = 0;
    while (t->held != NULL) {
        struct kv_file_req *r = t->held;

        t->held = r->next;
        file_submit(t, r);
    }
}

static void room_open(struct room *t, unsigned live_max)
{
    struct snic_world_opts w = {.opts_size = sizeof(w)};
    struct kv_engine_opts o;
    char error[200];

    memset(t, 0, sizeof(*t));
    memset(&o, 0, sizeof(o));
    t->live_max = live_max;
    t->message = malloc(1u << 20);
    assert_non_null(t->message);
    w.seed = support_seed();
    assert_int_equal(snic_world_open(&t->world, &w), 0);
    assert_int_equal(snic_world_loop(t->world, 0, &t->loop), 0);
    o.loop = t->loop;
    o.files = &file_ops;
    o.files_ctx = t;
    o.events.reply = room_reply;
    o.events.ctx = t;
    o.sync = KV_SYNC_NONE;
    o.memory_bytes = 4 * SEGMENT;
    o.segment_bytes = SEGMENT;
    o.device_bytes = (uint64_t)live_max * SEGMENT;
    o.databases = 4;
    o.value_max = 2 * VALUE;
    resp_settings_default(&o.settings);
    assert_int_equal(kv_engine_open(&t->engine, &o, error, sizeof(error)), 0);
}

/* Nothing is forgotten. */
static void room_close(struct room *t)
{
    room_release(t);
    for (unsigned c = A; c < CLIENTS; c++)
        room_until(t, c);
    assert_int_equal(kv_engine_close(t->engine), 0);
    snic_loop_close(t->loop);
    snic_world_close(t->world);
    for (uint32_t i = 0; i < FILES_MAX; i++)
        free(t->files[i].data);
    free(t->message);
}

static void set_values(struct room *t, unsigned from, unsigned to)
{
    char text[40];

    for (unsigned i = from; i < to; i++) {
        snprintf(text, sizeof(text), "SET v%u VALUE", i);
        room_do(t, A, text);
    }
}

static void exec_values(struct room *t)
{
    room_do(t, A, "SET x0 VALUE");
    room_do(t, A, "SET x1 VALUE");
    room_do(t, A, "SET x2 VALUE");
    room_do(t, A, "SET x3 VALUE");
}

/* ---- What must hold ---- */

/* Nine values of twelve that the ring holds are not written, and writes are held back. */
static void fill_ring(struct room *t)
{
    room_open(t, FILES_MAX);
    t->hold_writes = 1;
    set_values(t, 0, 9);
}

/* A command that writes more than a quarter of the memory waits for the log to be written. */
static void test_kv_room_large_command_waits_reads_and_deletions_go_on(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_ring(t);
    room_send(t, A, "MSET a VALUE b VALUE c VALUE d VALUE");
    room_waits(t, A);
    room_at_once(t, B, "GET v8", "$80000\r\n");
    room_at_once(t, B, "MGET v7 v8", "*2\r\n");
    room_at_once(t, B, "DEL v0 nothing", ":1\r\n");
    room_at_once(t, B, "GETDEL v1", "$80000\r\n");
    room_at_once(t, B, "PING", "+PONG");
    room_send(t, C, "SET small 1"); /* what adds to the log is behind it */
    room_release(t);
    room_until(t, A);
    assert_string_equal(t->answer[A], "+OK\r\n");
    room_until(t, C);
    assert_string_equal(t->answer[C], "+OK\r\n");
    room_close(t);
}

/* Its client goes away: what waited behind it is carried out. */
static void test_kv_room_large_command_client_closes_writes_go_on(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_ring(t);
    room_send(t, A, "MSET a VALUE b VALUE c VALUE d VALUE");
    room_waits(t, A);
    room_send(t, C, "SET small 1");
    room_waits(t, C);
    kv_engine_client_closed(t->engine, A);
    t->answered[A]++;
    room_at_once(t, C, "GET small", "$1\r\n1");
    room_close(t);
}

/* EXEC waits for room before it begins, not while the engine is its own. */
static void test_kv_room_exec_waits_others_go_on(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_ring(t);
    room_do(t, A, "MULTI");
    exec_values(t);
    room_do(t, A, "GET x0");
    room_send(t, A, "EXEC");
    room_waits(t, A);
    room_at_once(t, B, "GET v8", "$80000\r\n");
    room_at_once(t, B, "DEL v0", ":1\r\n");
    room_at_once(t, B, "EXISTS x0 x1", ":0\r\n");
    room_release(t);
    room_until(t, A);
    assert_memory_equal(t->answer[A], "*5\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n$80000\r\n", 32);
    room_close(t);
}

/* A watched key changes while EXEC waits: nothing of it is done. */
static void test_kv_room_exec_waits_watched_key_changes_nothing_done(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_ring(t);
    room_do(t, A, "WATCH v0");
    room_do(t, A, "MULTI");
    exec_values(t);
    room_send(t, A, "EXEC");
    room_waits(t, A);
    room_at_once(t, B, "DEL v0", ":1\r\n");
    room_release(t);
    room_until(t, A);
    assert_string_equal(t->answer[A], "*-1\r\n");
    room_at_once(t, B, "EXISTS x0 x1", ":0\r\n");
    room_close(t);
}

/* EXEC reads from the device before it begins. */
static void test_kv_room_exec_reads_device_others_go_on(void **state)
{
    struct room *t = &room;

    (void)state;
    room_open(t, FILES_MAX);
    set_values(t, 0, 30);
    t->hold_reads = 1;
    room_do(t, A, "MULTI");
    room_do(t, A, "GET v0");
    room_do(t, A, "SET v1 1");
    room_do(t, A, "GET v2");
    room_send(t, A, "EXEC");
    room_waits(t, A);
    room_at_once(t, B, "GET v29", "$80000\r\n");
    room_at_once(t, B, "SET v2 changed", "+OK\r\n");
    room_at_once(t, B, "GET v2", "$7\r\nchanged");
    room_release(t);
    room_until(t, A);
    assert_memory_equal(t->answer[A], "*3\r\n$80000\r\n", 12);
    room_at_once(t, B, "GET v1", "$1\r\n1");
    room_close(t);
}

/* A read that waited for the layer above is not behind a write that waits for the log. */
static void test_kv_room_read_behind_waiting_write_is_answered(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_ring(t);
    set_values(t, 9, 12);
    room_send(t, A, "SET v12 VALUE");
    room_waits(t, A);
    t->busy = 1;
    for (int i = 0; i < 430; i++)
        room_send(t, B, "GET v8");
    room_send(t, C, "GET v7");
    t->busy = 0;
    kv_engine_writable(t->engine);
    room_spin(t);
    assert_int_equal(t->answered[B], t->seq[B]);
    assert_int_equal(t->answered[C], t->seq[C]);
    assert_true(t->answered[A] < t->seq[A]);
    room_close(t);
}

/* No space on the device, and compaction, whose read is held back, promises some. */
static void fill_device(struct room *t)
{
    char text[40];

    room_open(t, 12);
    set_values(t, 0, 21); /* seven segments of three values */
    for (unsigned i = 21; t->answer[A][0] == '+'; i++) {
        assert_true(i < 60);
        snprintf(text, sizeof(text), "SET v%u VALUE", i);
        room_do(t, A, text);
    }
    assert_non_null(strstr(t->answer[A], "no space"));
    t->hold_reads = 1;
    room_do(t, A, "DEL v4 v5"); /* their segment is not the oldest */
    room_spin(t);
    assert_non_null(t->held);
}

static void test_kv_room_large_command_without_space_fails_in_time(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_device(t);
    room_send(t, A, "MSET a VALUE b VALUE c VALUE d VALUE");
    room_waits(t, A);
    room_at_once(t, B, "EXISTS v1", ":1\r\n");
    room_at_once(t, B, "DEL v1", ":1\r\n");
    room_at_once(t, B, "PING", "+PONG");
    room_until(t, A);
    assert_non_null(strstr(t->answer[A], "no space"));
    room_at_once(t, B, "EXISTS a b c d", ":0\r\n");
    room_close(t);
}

static void test_kv_room_single_write_without_space_fails_in_time(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_device(t);
    room_send(t, A, "SET a VALUE");
    room_waits(t, A);
    room_at_once(t, B, "DEL v1", ":1\r\n");
    room_until(t, A);
    assert_non_null(strstr(t->answer[A], "no space"));
    room_close(t);
}

/* Each of its writes fails by itself, as without a transaction. */
static void test_kv_room_exec_without_space_ends_in_time(void **state)
{
    struct room *t = &room;

    (void)state;
    fill_device(t);
    room_do(t, A, "MULTI");
    room_do(t, A, "SET a VALUE");
    room_do(t, A, "SET b VALUE");
    room_do(t, A, "EXISTS a");
    room_send(t, A, "EXEC");
    room_waits(t, A);
    room_at_once(t, B, "EXISTS v1", ":1\r\n");
    room_at_once(t, B, "DEL v2", ":1\r\n");
    room_until(t, A);
    assert_memory_equal(t->answer[A], "*3\r\n-ERR no space", 17);
    room_at_once(t, B, "EXISTS a b", ":0\r\n");
    room_close(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_room_large_command_waits_reads_and_deletions_go_on),
        cmocka_unit_test(test_kv_room_large_command_client_closes_writes_go_on),
        cmocka_unit_test(test_kv_room_exec_waits_others_go_on),
        cmocka_unit_test(test_kv_room_exec_waits_watched_key_changes_nothing_done),
        cmocka_unit_test(test_kv_room_exec_reads_device_others_go_on),
        cmocka_unit_test(test_kv_room_read_behind_waiting_write_is_answered),
        cmocka_unit_test(test_kv_room_large_command_without_space_fails_in_time),
        cmocka_unit_test(test_kv_room_single_write_without_space_fails_in_time),
        cmocka_unit_test(test_kv_room_exec_without_space_ends_in_time),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
