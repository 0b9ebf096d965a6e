/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The load of bench/replica.sh for servers that speak the Redis protocol: redis-server, ddp_server,
 * raft_server. One thread; each client is a connection with `pipeline` operations outstanding, and
 * sends the next one when one is answered. With --wait N an operation that writes is a SET and a
 * WAIT N behind it, and is answered with the latter.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"

enum { IN_BYTES = 256 << 10, ANSWER_S_MAX = 30 };

struct slot {
    uint64_t key;
    uint64_t sent_ns;
    uint8_t get;
    uint8_t replies; /* that are missing */
    uint8_t failed;
};

struct client {
    int fd;
    int waits; /* for room in the socket */
    uint32_t head;
    uint32_t count; /* operations outstanding, in order */
    uint32_t setup; /* 1: the reply to the first command is missing */
    unsigned char *out;
    size_t out_at, out_size;
    unsigned char *in;
    size_t in_size;
    struct slot *slots;
};

static struct load_opts opts;
static struct load_stats stats;
static struct load_draw draw;
static struct client *clients;
static int poller;
static uint64_t filled;
static uint64_t until_ns;
static uint64_t heard_ns; /* when a reply came that is no error */
static size_t out_room;
static unsigned char *value_bytes;

static void fail(const char *what)
{
    fprintf(stderr, "resp_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Commands ---- */

static void put(struct client *c, const void *bytes, size_t size)
{
    if (c->out_size + size > out_room) {
        fprintf(stderr, "resp_load: a command is too long\n");
        exit(1);
    }
    memcpy(c->out + c->out_size, bytes, size);
    c->out_size += size;
}

static void put_word(struct client *c, const void *bytes, size_t size)
{
    char head[32];
    int n = snprintf(head, sizeof(head), "$%zu\r\n", size);
    put(c, head, (size_t)n);
    put(c, bytes, size);
    put(c, "\r\n", 2);
}

static uint32_t words(const char *text)
{
    uint32_t n = 0;
    for (; *text != '\0'; text += strcspn(text, " ")) {
        text += strspn(text, " ");
        n += *text != '\0';
    }
    return n;
}

static void put_words(struct client *c, const char *text)
{
    while (*(text += strspn(text, " ")) != '\0') {
        size_t n = strcspn(text, " ");
        put_word(c, text, n);
        text += n;
    }
}

static void put_count(struct client *c, uint32_t n)
{
    char head[32];
    put(c, head, (size_t)snprintf(head, sizeof(head), "*%u\r\n", n));
}

static void issue(struct client *c)
{
    struct slot *s = &c->slots[(c->head + c->count++) % opts.pipeline];
    char key[LOAD_KEY_BYTES + 1];
    s->get = (uint8_t)(!opts.fill && load_draw_is_get(&draw, &opts));
    s->key = opts.fill ? opts.first + filled++ : load_draw_key(&draw);
    s->sent_ns = load_now();
    s->replies = 1;
    s->failed = 0;
    load_key(s->key, key);
    if (s->get) {
        put_count(c, 2 + words(opts.get_tail));
        put_word(c, "GET", 3);
        put_word(c, key, LOAD_KEY_BYTES);
        put_words(c, opts.get_tail);
        return;
    }
    load_value(s->key, opts.value_bytes, value_bytes);
    put_count(c, 3 + words(opts.set_tail));
    put_word(c, "SET", 3);
    put_word(c, key, LOAD_KEY_BYTES);
    put_word(c, value_bytes, opts.value_bytes);
    put_words(c, opts.set_tail);
    if (opts.wait > 0) {
        char text[16];
        put_count(c, 3);
        put_word(c, "WAIT", 4);
        put_word(c, text, (size_t)snprintf(text, sizeof(text), "%u", opts.wait));
        put_word(c, "1000", 4);
        s->replies = 2;
    }
}

static int more(void)
{
    return opts.fill ? filled < opts.keys : load_now() < until_ns;
}

static void client_send(struct client *c)
{
    while (c->count < opts.pipeline && c->setup == 0 && more())
        issue(c);
    while (c->out_at < c->out_size) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_size - c->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            fail("send");
        c->out_at += (size_t)n;
        stats.sent += (uint64_t)n;
    }
    int waits = c->out_at < c->out_size;
    if (!waits)
        c->out_at = c->out_size = 0;
    if (waits != c->waits) {
        struct epoll_event e = {.events = EPOLLIN | (waits ? (unsigned)EPOLLOUT : 0),
                                .data.ptr = c};
        if (epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e) != 0)
            fail("epoll");
        c->waits = waits;
    }
}

/* ---- Replies ---- */

static void answered(struct client *c, uint64_t now)
{
    const struct slot *s = &c->slots[c->head];
    c->head = (c->head + 1) % opts.pipeline;
    c->count--;
    snic_hist_record(&stats.latency[s->get], now - s->sent_ns);
    if (s->failed)
        return;
    stats.gets += s->get;
    stats.sets += !s->get;
    stats.end_ns = heard_ns = now;
}

static void check_value(const struct slot *s, const unsigned char *bytes, size_t size)
{
    load_value(s->key, opts.value_bytes, value_bytes);
    if (size != opts.value_bytes || memcmp(bytes, value_bytes, size) != 0)
        load_error(&stats, "a value is not that of its key");
}

/* One reply at @p p; its bytes, or 0: it is not there whole. */
static size_t reply(struct client *c, unsigned char *p, size_t size, uint64_t now)
{
    unsigned char *end = memchr(p, '\n', size);
    if (end == NULL)
        return 0;
    size_t line = (size_t)(end - p) + 1;
    size_t all = line;
    struct slot *s = &c->slots[c->head];
    long length = -1;
    if (p[0] == '$' || p[0] == ':')
        length = strtol((const char *)p + 1, NULL, 10);
    if (p[0] == '$' && length >= 0)
        all += (size_t)length + 2;
    if (size < all)
        return 0;
    if (p[0] == '-') {
        *end = '\0';
        load_error(&stats, (const char *)p);
        s->failed = 1;
    }
    if (c->setup > 0) {
        c->setup = 0;
        s->failed = 0;
        return all;
    }
    if (c->count == 0) {
        fprintf(stderr, "resp_load: a reply too many\n");
        exit(1);
    }
    if (p[0] == '$' && length < 0)
        stats.missing++;
    else if (p[0] == '$')
        check_value(s, p + line, (size_t)length);
    if (p[0] == ':' && !s->get && length < (long)opts.wait) {
        load_error(&stats, "WAIT: fewer replicas");
        s->failed = 1;
    }
    if (--s->replies == 0)
        answered(c, now);
    return all;
}

static void client_receive(struct client *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_size, IN_BYTES - c->in_size, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        fail("a connection was lost");
    stats.received += (uint64_t)n;
    c->in_size += (size_t)n;
    uint64_t now = load_now();
    size_t at = 0;
    for (size_t used; at < c->in_size; at += used) {
        used = reply(c, c->in + at, c->in_size - at, now);
        if (used == 0)
            break;
    }
    memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
}

/* ---- Connections ---- */

static int connect_to(const char *server)
{
    char host[64];
    const char *colon = strrchr(server, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *a = NULL;
    int one = 1;
    if (colon == NULL)
        fail(server);
    memcpy(host, server, (size_t)(colon - server));
    host[colon - server] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &a) != 0)
        fail(server);
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) != 0)
        fail(server);
    freeaddrinfo(a);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        fail("fcntl");
    return fd;
}

static void client_open(struct client *c, uint32_t i)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    c->fd = connect_to(opts.servers[i % opts.servers_count]);
    c->out = malloc(out_room);
    c->in = malloc(IN_BYTES + 1);
    c->slots = calloc(opts.pipeline, sizeof(*c->slots));
    if (c->out == NULL || c->in == NULL || c->slots == NULL)
        fail("memory");
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e) != 0)
        fail("epoll");
    if (opts.setup[0] != '\0') {
        put_count(c, words(opts.setup));
        put_words(c, opts.setup);
        c->setup = 1;
    }
}

static int outstanding(void)
{
    for (uint32_t i = 0; i < opts.clients; i++)
        if (clients[i].count > 0 || clients[i].setup > 0)
            return 1;
    return 0;
}

static void run(void)
{
    struct epoll_event events[256];
    stats.start_ns = heard_ns = load_now();
    until_ns = stats.start_ns + (uint64_t)(opts.seconds * 1e9);
    for (uint32_t i = 0; i < opts.clients; i++)
        client_send(&clients[i]);
    while (more() || outstanding()) {
        int n = epoll_wait(poller, events, 256, 1000);
        if (n < 0 && errno != EINTR)
            fail("epoll");
        for (int i = 0; i < n; i++) {
            if ((events[i].events & (unsigned)(EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
                client_receive(events[i].data.ptr);
            client_send(events[i].data.ptr);
        }
        if (load_now() > heard_ns + (uint64_t)ANSWER_S_MAX * 1000000000u) {
            load_error(&stats, "no reply for half a minute");
            break;
        }
    }
}

int main(int argc, char **argv)
{
    load_options(&opts, argc, argv);
    load_draw_init(&draw, &opts);
    out_room = (size_t)opts.pipeline * (opts.value_bytes + 512) + 1024;
    value_bytes = malloc(opts.value_bytes);
    clients = calloc(opts.clients, sizeof(*clients));
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (value_bytes == NULL || clients == NULL || poller < 0)
        fail("memory");
    for (uint32_t i = 0; i < opts.clients; i++)
        client_open(&clients[i], i);
    run();
    return load_report(&opts, &stats);
}
