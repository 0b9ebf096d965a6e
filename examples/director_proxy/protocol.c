/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The director's callbacks for the Redis protocol: where messages and replies end, what the proxy
 * answers itself, and its error replies.
 *
 * What the server sends without a request cannot be distinguished from a reply, and a request
 * without a reply holds up all behind it, so SUBSCRIBE, MONITOR, CLIENT REPLY, CLIENT TRACKING and
 * the like are refused; --pass lets everything through untouched.
 */
#include "proxy.h"

#include <string.h>
#include <strings.h>

/* ---- Requests ---- */

static int64_t proxy_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    struct proxy_part *p = ctx;
    int64_t n = SNIC_EMSGSIZE;
    if (!resp_skipping(*state))
        n = resp_frame(data, size, &p->proxy->limits, state);
    if (n != SNIC_EMSGSIZE)
        return n;
    n = resp_discard(data, size, state);
    if (n <= 0 && *state != 0)
        return n;
    return *state == 0 ? SNIC_DIRECTOR_REFUSE(n) : SNIC_DIRECTOR_DROP(n);
}

static void proxy_answer(struct snic_director_verdict *v, const char *text)
{
    v->route = SNIC_DIRECTOR_ANSWER;
    v->reply_size = (uint32_t)strlen(text);
    memcpy(v->reply, text, v->reply_size);
}

static int proxy_is(const struct resp_arg *a, const char *name)
{
    return a->size == strlen(name) && strncasecmp((const char *)a->data, name, a->size) == 0;
}

static void proxy_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                            const unsigned char *msg, uint32_t size,
                            struct snic_director_verdict *out)
{
    static const char *const endless[] = {"subscribe", "psubscribe", "ssubscribe", "monitor",
                                          "sync",      "psync",      "reset"};
    unsigned char scratch[256];
    struct resp_arg args[2];
    (void)ctx;
    (void)o;
    if (msg[0] != '*' && size > sizeof(scratch))
        return; /* a long inline command: the server's business */
    int64_t n = resp_args(msg, size, args, 2, scratch);
    if (n == 0)
        proxy_answer(out, ""); /* an empty line gets no reply */
    if (n <= 0)
        return;
    if (proxy_is(&args[0], "multi"))
        *user = 1; /* in a transaction the server queues everything */
    else if (proxy_is(&args[0], "exec") || proxy_is(&args[0], "discard"))
        *user = 0;
    if (n == 1 && *user == 0 && proxy_is(&args[0], "ping"))
        proxy_answer(out, "+PONG\r\n");
    if (proxy_is(&args[0], "quit") || proxy_is(&args[0], "post") || proxy_is(&args[0], "host:")) {
        /* Nothing behind it is run; the last two are what a web page makes a browser send. */
        proxy_answer(out, proxy_is(&args[0], "quit") ? "+OK\r\n" : "");
        out->route = SNIC_DIRECTOR_CLOSE;
    }
    int refused = n > 1 && proxy_is(&args[0], "client") &&
                  (proxy_is(&args[1], "reply") || proxy_is(&args[1], "tracking"));
    for (size_t i = 0; i < SNIC_COUNTOF(endless); i++)
        refused |= proxy_is(&args[0], endless[i]);
    if (!refused)
        return;
    proxy_answer(out, "-ERR this command is not supported by the proxy\r\n");
    if (*user != 0) /* EXEC would carry out the others: the server drops them with the connection */
        out->route = SNIC_DIRECTOR_CLOSE;
}

static uint32_t proxy_put(char *out, uint32_t max, const char *text, size_t n)
{
    n = n < max ? n : max;
    memcpy(out, text, n);
    return (uint32_t)n;
}

static uint32_t proxy_protocol_error(void *ctx, int error, const unsigned char *data, size_t size,
                                     char *out, uint32_t max)
{
    struct proxy_part *p = ctx;
    char text[RESP_ERROR_MAX] = "-ERR message too long\r\n";
    size_t n = strlen(text);
    if (error != SNIC_EMSGSIZE)
        n = resp_error(data, size, &p->proxy->limits, text);
    return proxy_put(out, max, text, n);
}

static uint32_t proxy_host_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                                uint32_t max)
{
    static const char text[] = "-ERR the server behind the proxy is not reachable\r\n";
    proxy_server_missed(ctx);
    (void)msg;
    (void)size;
    return proxy_put(out, max, text, sizeof(text) - 1);
}

static uint32_t proxy_full(void *ctx, char *out, uint32_t max)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    (void)ctx;
    return proxy_put(out, max, text, sizeof(text) - 1);
}

/* ---- Replies ---- */

/*
 * The state of a reply: how many elements are still to come (less one), and how many bytes of
 * the one at hand, or that a text continues. Arrays of arrays need no stack: each head only adds to
 * what is to come.
 */
#define PROXY_BYTES_BITS 32
#define PROXY_TEXT UINT32_MAX

/* One line at @data: its size with CRLF, 0 when it is not whole. */
static size_t proxy_line(const unsigned char *data, size_t size)
{
    const unsigned char *end = memchr(data, '\n', size);
    return end == NULL ? 0 : (size_t)(end - data) + 1;
}

static int64_t proxy_number(const unsigned char *line, size_t size)
{
    int64_t n = 0;
    int negative = size > 1 && line[1] == '-';
    if (size > 14)
        return -1;
    for (size_t i = 1 + (size_t)negative; i < size && line[i] >= '0' && line[i] <= '9'; i++)
        n = n * 10 + (line[i] - '0');
    return negative ? -1 : n;
}

/* A head line: adds to what is to come. 0, SNIC_EPROTO */
static int proxy_head(const unsigned char *line, size_t size, uint64_t *bytes, uint64_t *more)
{
    int64_t n = proxy_number(line, size);
    switch (line[0]) {
    case '$':
    case '=':
    case '!':
        *bytes = n < 0 ? 0 : (uint64_t)n + 2;
        break;
    case '*':
    case '~':
    case '>':
        *more += n > 0 ? (uint64_t)n : 0;
        break;
    case '%':
        *more += n > 0 ? 2 * (uint64_t)n : 0;
        break;
    case '+':
    case '-':
    case ':':
    case '_':
    case ',':
    case '#':
    case '(':
        break;
    default:
        return SNIC_EPROTO;
    }
    return *bytes >= PROXY_TEXT || *more > UINT32_MAX ? SNIC_EPROTO : 0;
}

/* The next line or bytes of one element. How many bytes; 0: more are needed; SNIC_EPROTO. */
static int64_t proxy_element(const unsigned char *data, size_t size, uint64_t *bytes,
                             uint64_t *more)
{
    size_t n = *bytes != 0 && *bytes != PROXY_TEXT ? (size_t)snic_min_u64(*bytes, size)
                                                   : proxy_line(data, size);
    if (*bytes == PROXY_TEXT) {
        *bytes = n == 0 ? PROXY_TEXT : 0;
        return (int64_t)(n == 0 ? size : n);
    }
    if (*bytes > 0) {
        *bytes -= n;
        return (int64_t)n;
    }
    if (n > 0)
        return proxy_head(data, n, bytes, more) == 0 ? (int64_t)n : SNIC_EPROTO;
    if (data[0] == '+' || data[0] == '-') { /* an error may repeat what a client has sent */
        *bytes = PROXY_TEXT;
        return (int64_t)size;
    }
    return size > 3500 ? SNIC_EPROTO : 0; /* no other head is so long */
}

static int64_t proxy_frame_reply(void *ctx, const unsigned char *data, size_t size, uint64_t *state,
                                 int *done)
{
    uint64_t bytes = *state & UINT32_MAX;
    uint64_t more = *state >> PROXY_BYTES_BITS; /* elements behind this one */
    size_t used = 0;
    int ended = 0;
    (void)ctx;
    while (!ended && used < size) {
        int64_t n = proxy_element(data + used, size - used, &bytes, &more);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        used += (size_t)n;
        if (bytes == 0) {
            ended = more == 0;
            more -= more > 0;
        }
    }
    *state = more << PROXY_BYTES_BITS | bytes;
    *done = ended;
    return (int64_t)used;
}

void proxy_user(struct proxy_part *p, struct snic_director_user *out)
{
    *out = (struct snic_director_user){.frame = proxy_frame,
                                       .predicate = proxy_predicate,
                                       .protocol_error = proxy_protocol_error,
                                       .host_gone = proxy_host_gone,
                                       .full = proxy_full,
                                       .frame_reply = p->proxy->pass ? NULL : proxy_frame_reply,
                                       .ctx = p};
}
