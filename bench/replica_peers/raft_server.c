/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What an engineer writes in an afternoon on libraft: a replicated key-value server that speaks
 * the Redis protocol (PING, GET, SET, ROLE), one process per node, on raft's libuv backend.
 *
 *     raft_server ID CLIENT_PORT FOLDER RAFT_PORT...
 *
 * ID counts from 1; the RAFT_PORTs are those of all nodes, in the order of the ids. SETs that
 * arrive in one iteration of the loop are one raft_apply() of many entries, so they share a write.
 * A SET is answered when a majority has it on disk. A GET is answered from the leader's table at
 * once: it may be stale when another node has become leader. Nodes that do not lead answer -MOVED.
 * No snapshots.
 */
#include <errno.h>
#include <raft.h>
#include <raft/uv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_MAX = 255, BUCKETS = 1 << 20, BATCH = 512, IN_BYTES = 256 << 10 };

struct item {
    struct item *next;
    size_t key_size, value_size;
    char bytes[]; /* key, value */
};

struct client {
    uv_tcp_t tcp;
    char *in;
    size_t in_size;
    unsigned users; /* replies and writes that have a pointer */
    int closed;
    struct reply *first, **last; /* not answered, in order */
};

/* A command's reply: sent when all before it have been. */
struct reply {
    struct reply *next;
    struct client *client;
    int done;
    size_t size;
    char *bytes;
};

struct batch {
    struct raft_apply apply;
    unsigned count;
    struct reply *reply[BATCH];
    struct raft_buffer bufs[BATCH];
};

struct out {
    uv_write_t req;
    struct client *client;
    char *bytes;
};

static struct item *table[BUCKETS];
static struct raft raft;
static struct batch *open_batch;

static void check(int r, const char *what)
{
    if (r == 0)
        return;
    fprintf(stderr, "raft_server: %s: %s %s\n", what, raft_strerror(r), raft_errmsg(&raft));
    exit(1);
}

static void *need(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

/* ---- Table ---- */

static struct item **find(const char *key, size_t size)
{
    unsigned long h = 14695981039346656037ul;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)key[i]) * 1099511628211ul;
    struct item **p = &table[(h ^ h >> 32) % BUCKETS];
    while (*p != NULL && ((*p)->key_size != size || memcmp((*p)->bytes, key, size) != 0))
        p = &(*p)->next;
    return p;
}

/* An entry of the log: the key's size, the key, the value. */
static int fsm_apply(struct raft_fsm *fsm, const struct raft_buffer *buf, void **result)
{
    (void)fsm;
    const unsigned char *b = buf->base;
    size_t key = b[0];
    size_t value = b[1] | (size_t)b[2] << 8 | (size_t)b[3] << 16; /* what follows is padding */
    struct item **p = find((const char *)b + 4, key), *old = *p;
    struct item *n = need(malloc(sizeof(*n) + key + value));
    n->next = old != NULL ? old->next : NULL;
    n->key_size = key;
    n->value_size = value;
    memcpy(n->bytes, b + 4, key + value);
    *p = n;
    free(old);
    *result = NULL;
    return 0;
}

static int fsm_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[], unsigned *n)
{
    (void)fsm, (void)bufs, (void)n;
    return RAFT_BUSY;
}

static int fsm_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
    (void)fsm, (void)buf;
    return RAFT_INVALID;
}

/* ---- Replies ---- */

static void on_close(uv_handle_t *h)
{
    struct client *c = h->data;
    c->closed = 2;
    if (c->users == 0) {
        free(c->in);
        free(c);
    }
}

static void leave(struct client *c)
{
    if (--c->users == 0 && c->closed == 2) {
        free(c->in);
        free(c);
    }
}

static void client_end(struct client *c)
{
    if (c->closed == 0) {
        c->closed = 1;
        uv_close((uv_handle_t *)&c->tcp, on_close);
    }
}

static void on_written(uv_write_t *req, int status)
{
    struct out *o = req->data;
    (void)status;
    leave(o->client);
    free(o->bytes);
    free(o);
}

/* All replies at the front that are done, in one write. */
static void answer(struct client *c)
{
    size_t size = 0, at = 0;
    for (struct reply *r = c->first; r != NULL && r->done; r = r->next)
        size += r->size;
    if (c->first == NULL || !c->first->done)
        return;
    struct out *o = need(malloc(sizeof(*o)));
    o->bytes = need(malloc(size + 1));
    o->client = c;
    o->req.data = o;
    while (c->first != NULL && c->first->done) {
        struct reply *r = c->first;
        memcpy(o->bytes + at, r->bytes, r->size);
        at += r->size;
        c->first = r->next;
        if (c->first == NULL)
            c->last = &c->first;
        free(r->bytes);
        free(r);
        c->users--;
    }
    c->users++;
    uv_buf_t buf = uv_buf_init(o->bytes, (unsigned)size);
    if (c->closed != 0 || uv_write(&o->req, (uv_stream_t *)&c->tcp, &buf, 1, on_written) != 0) {
        free(o->bytes);
        free(o);
        client_end(c);
        leave(c);
    }
}

static struct reply *reply_new(struct client *c)
{
    struct reply *r = need(calloc(1, sizeof(*r)));
    r->client = c;
    *c->last = r;
    c->last = &r->next;
    c->users++;
    return r;
}

static void reply_text(struct reply *r, const char *text)
{
    r->size = strlen(text);
    r->bytes = need(strdup(text));
    r->done = 1;
}

/* ---- Commands ---- */

static void on_applied(struct raft_apply *req, int status, void *result)
{
    struct batch *b = req->data;
    (void)result;
    for (unsigned i = 0; i < b->count; i++) {
        struct client *c = b->reply[i]->client;
        reply_text(b->reply[i], status == 0 ? "+OK\r\n" : "-MOVED not the leader\r\n");
        if (i + 1 == b->count || b->reply[i + 1]->client != c)
            answer(c);
    }
    free(b);
}

static void batch_go(void)
{
    struct batch *b = open_batch;
    open_batch = NULL;
    if (b == NULL)
        return;
    b->apply.data = b;
    int r = raft_apply(&raft, &b->apply, b->bufs, b->count, on_applied);
    if (r == 0)
        return;
    for (unsigned i = 0; i < b->count; i++)
        raft_free(b->bufs[i].base);
    on_applied(&b->apply, r, NULL);
}

static void command_set(struct client *c, const char *key, size_t key_size, const char *value,
                        size_t size)
{
    struct reply *r = reply_new(c);
    if (key_size > KEY_MAX || size >= 1u << 24) {
        reply_text(r, "-ERR too long\r\n");
        return;
    }
    if (raft_state(&raft) != RAFT_LEADER) {
        reply_text(r, "-MOVED not the leader\r\n");
        return;
    }
    size_t all = (4 + key_size + size + 7) & ~(size_t)7; /* raft wants multiples of 8 */
    unsigned char *b = need(raft_malloc(all));
    memset(b + all - 8, 0, 8);
    b[0] = (unsigned char)key_size;
    b[1] = (unsigned char)size;
    b[2] = (unsigned char)(size >> 8);
    b[3] = (unsigned char)(size >> 16);
    memcpy(b + 4, key, key_size);
    memcpy(b + 4 + key_size, value, size);
    if (open_batch == NULL)
        open_batch = need(calloc(1, sizeof(*open_batch)));
    open_batch->reply[open_batch->count] = r;
    open_batch->bufs[open_batch->count++] = (struct raft_buffer){.base = b, .len = all};
    if (open_batch->count == BATCH)
        batch_go();
}

static void command_get(struct client *c, const char *key, size_t size)
{
    struct reply *r = reply_new(c);
    if (raft_state(&raft) != RAFT_LEADER) {
        reply_text(r, "-MOVED not the leader\r\n");
        return;
    }
    struct item *i = *find(key, size);
    if (i == NULL) {
        reply_text(r, "$-1\r\n");
        return;
    }
    r->bytes = need(malloc(i->value_size + 40));
    r->size = (size_t)snprintf(r->bytes, 40, "$%zu\r\n", i->value_size);
    memcpy(r->bytes + r->size, i->bytes + i->key_size, i->value_size);
    memcpy(r->bytes + r->size + i->value_size, "\r\n", 2);
    r->size += i->value_size + 2;
    r->done = 1;
}

static int is(const char *word, size_t size, const char *name)
{
    return size == strlen(name) && strncasecmp(word, name, size) == 0;
}

/* One command at the beginning of what was received; its bytes, 0: not whole, -1: malformed. */
static long command(struct client *c)
{
    const char *word[4], *p = c->in, *end = c->in + c->in_size, *line;
    size_t size[4];
    if (p == end)
        return 0;
    if (*p != '*')
        return -1;
    if ((line = memchr(p, '\n', (size_t)(end - p))) == NULL)
        return 0;
    long n = strtol(p + 1, NULL, 10);
    if (n < 1 || n > 4)
        return -1;
    p = line + 1;
    for (long i = 0; i < n; i++) {
        if (p == end || (line = memchr(p, '\n', (size_t)(end - p))) == NULL)
            return 0;
        long s = *p == '$' ? strtol(p + 1, NULL, 10) : -1;
        if (s < 0 || s > IN_BYTES)
            return -1;
        p = line + 1;
        if (end - p < s + 2)
            return 0;
        word[i] = p;
        size[i] = (size_t)s;
        p += s + 2;
    }
    if (n == 3 && is(word[0], size[0], "SET"))
        command_set(c, word[1], size[1], word[2], size[2]);
    else if (n == 2 && is(word[0], size[0], "GET"))
        command_get(c, word[1], size[1]);
    else if (is(word[0], size[0], "PING"))
        reply_text(reply_new(c), "+PONG\r\n");
    else if (is(word[0], size[0], "ROLE"))
        reply_text(reply_new(c),
                   raft_state(&raft) == RAFT_LEADER ? "+leader\r\n" : "+follower\r\n");
    else
        reply_text(reply_new(c), "-ERR unknown command\r\n");
    return p - c->in;
}

/* ---- Connections ---- */

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
    struct client *c = h->data;
    (void)size;
    *buf = uv_buf_init(c->in + c->in_size, (unsigned)(IN_BYTES - c->in_size));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct client *c = s->data;
    long used;
    (void)buf;
    if (n < 0) {
        client_end(c);
        return;
    }
    c->in_size += (size_t)n;
    size_t at = 0;
    char *in = c->in;
    size_t all = c->in_size;
    for (;;) { /* command() looks at c->in and c->in_size */
        c->in = in + at;
        c->in_size = all - at;
        used = command(c);
        if (used <= 0)
            break;
        at += (size_t)used;
    }
    c->in = in;
    c->in_size = all - at;
    memmove(in, in + at, all - at);
    if (used < 0 || c->in_size == IN_BYTES)
        client_end(c);
    answer(c);
}

static void on_connection(uv_stream_t *listener, int status)
{
    if (status != 0)
        return;
    struct client *c = need(calloc(1, sizeof(*c)));
    c->in = need(malloc(IN_BYTES));
    c->last = &c->first;
    c->tcp.data = c;
    (void)uv_tcp_init(listener->loop, &c->tcp);
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0) {
        client_end(c);
        return;
    }
    (void)uv_tcp_nodelay(&c->tcp, 1);
    (void)uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

static void on_iteration(uv_check_t *h)
{
    (void)h;
    batch_go();
}

static void on_signal(int sig)
{
    (void)sig;
    _exit(0);
}

int main(int argc, char **argv)
{
    static struct raft_uv_transport transport;
    static struct raft_io io;
    static uv_tcp_t listener;
    static uv_check_t iteration;
    struct raft_fsm fsm = {
        .version = 1, .apply = fsm_apply, .snapshot = fsm_snapshot, .restore = fsm_restore};
    struct raft_configuration conf;
    struct sockaddr_in at;
    char address[64];
    uv_loop_t *loop = uv_default_loop();
    if (argc < 5) {
        fprintf(stderr, "raft_server ID CLIENT_PORT FOLDER RAFT_PORT...\n");
        return 2;
    }
    int id = (int)strtol(argv[1], NULL, 10);
    if (id < 1 || id > argc - 4)
        return 2;
    (void)signal(SIGTERM, on_signal);
    (void)mkdir(argv[3], 0700);
    check(raft_uv_tcp_init(&transport, loop), "tcp");
    check(raft_uv_init(&io, loop, argv[3], &transport), "uv");
    (void)snprintf(address, sizeof(address), "127.0.0.1:%s", argv[3 + id]);
    check(raft_init(&raft, &io, &fsm, (raft_id)id, address), "init");
    raft_set_snapshot_threshold(&raft, 1u << 30);
    raft_set_pre_vote(&raft, true);
    raft_configuration_init(&conf);
    for (int i = 4; i < argc; i++) {
        (void)snprintf(address, sizeof(address), "127.0.0.1:%s", argv[i]);
        check(raft_configuration_add(&conf, (raft_id)(i - 3), address, RAFT_VOTER), "add");
    }
    int r = raft_bootstrap(&raft, &conf);
    if (r != RAFT_CANTBOOTSTRAP)
        check(r, "bootstrap");
    raft_configuration_close(&conf);
    check(raft_start(&raft), "start");
    (void)uv_tcp_init(loop, &listener);
    (void)uv_ip4_addr("127.0.0.1", (int)strtol(argv[2], NULL, 10), &at);
    if (uv_tcp_bind(&listener, (struct sockaddr *)&at, 0) != 0 ||
        uv_listen((uv_stream_t *)&listener, 1024, on_connection) != 0) {
        fprintf(stderr, "raft_server: port %s\n", argv[2]);
        return 1;
    }
    (void)uv_check_init(loop, &iteration);
    (void)uv_check_start(&iteration, on_iteration);
    return uv_run(loop, UV_RUN_DEFAULT);
}
