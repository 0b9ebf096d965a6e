/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A load generator for servers that speak the Redis protocol: one thread, many
 * pipelined connections, uniformly drawn keys, a histogram of latencies, and a
 * check of every value, since a value follows from its key.
 *
 * I1  A connection has at most `pipeline` commands on their way; their replies come
 *     in order, so the oldest outstanding operation is the one being answered.
 * I2  Commands are written into one half of a connection's buffer while the other
 *     half is being sent; the halves change places only when a send is done.
 * I3  A reply may be cut anywhere: what is kept between pieces is the state, the
 *     line so far, and how much of a value has been seen.
 */
#include "common.h"
#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_BYTES (1u << 20)
#define PREFIX_BYTES 8u
#define COMMAND_BYTES 96u /* a SET without its value */
#define KEY_BYTES 16u
#define NAME_BYTES 64u
#define SETUP_BYTES 256u /* both commands before the load */
#define KEY_PREFIX "key:"

static const char summary[] =
    "kv_load: drives a server that speaks the Redis protocol and checks every value.\n\n"
    "fill sets each key once, in order; set, get and mixed draw keys\n"
    "uniformly. Exits 1 if a reply was wrong or a connection was lost.";

enum load_op { OP_GET, OP_SET };
enum load_kind { KIND_GET, KIND_SET, KIND_MIXED, KIND_FILL };
enum reply_state { REPLY_SETUP, REPLY_LINE, REPLY_VALUE, REPLY_END };

struct load_slot {
    uint64_t key;
    uint64_t sent_ns;
    enum load_op op;
};

struct load_conn {
    struct load *load;
    struct snic_net_conn *conn;
    struct load_slot *slots; /* ring of `pipeline` operations, I1 */
    uint64_t issued;
    uint64_t answered;
    unsigned char *halves[2]; /* I2 */
    size_t filled;
    unsigned filling;
    int sending;
    struct snic_net_send_req req;
    struct snic_iov iov;
    enum reply_state state; /* I3 */
    char line[64];
    uint32_t line_size;
    uint32_t setup; /* replies that are missing before the load begins */
    uint64_t value_size;
    uint64_t value_seen;
    int value_wrong;
};

struct load {
    const char *address;
    uint64_t clients;
    uint64_t pipeline;
    uint64_t keys;
    uint64_t key_bytes;
    uint64_t value_bytes;
    uint64_t get_percent;
    uint64_t seconds;
    uint64_t requests;
    uint64_t timeout_s;
    uint64_t seed;
    uint64_t database;
    const char *name; /* of the connections, NULL: none */
    enum load_kind kind;
    int report;
    int info;

    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_rng rng;
    struct ex_wait wait;
    struct load_conn *conns;
    unsigned char *pattern;
    char heads[2][COMMAND_BYTES]; /* by enum load_op */
    size_t head_size[2];
    size_t digits; /* of a key */
    uint64_t connected;
    uint64_t gone;
    uint64_t issued;
    uint64_t answered;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t until_ns; /* no new operations after it */
    uint64_t gets;
    uint64_t sets;
    uint64_t missing;
    uint64_t mismatches;
    uint64_t errors;
    char first_error[64];
    struct snic_hist latency;
};

/* ---- Keys and values ---- */

static uint64_t load_mix(uint64_t v)
{
    v = (v ^ (v >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ (v >> 27)) * UINT64_C(0x94d049bb133111eb);
    return v ^ (v >> 31);
}

/*
 * The value of a key: its hash, then a piece of a fixed random pattern at a place
 * that the hash gives. Neither depends on --seed, which only draws the keys.
 */
static void load_value(const struct load *l, uint64_t key, unsigned char prefix[PREFIX_BYTES],
                       const unsigned char **rest)
{
    uint64_t hash = load_mix(key + UINT64_C(0x9e3779b97f4a7c15));

    snic_put_le64(prefix, hash);
    *rest = l->pattern + (hash >> 20) % PATTERN_BYTES;
}

/* 1 if @p size bytes at @p offset of the value of @p key are these. */
static int load_value_is(const struct load *l, uint64_t key, uint64_t offset,
                         const unsigned char *data, size_t size)
{
    unsigned char prefix[PREFIX_BYTES];
    const unsigned char *rest;
    size_t n = 0;

    if (offset + size > l->value_bytes)
        return 0;
    load_value(l, key, prefix, &rest);
    if (offset < PREFIX_BYTES) {
        n = (size_t)snic_min_u64(PREFIX_BYTES - offset, size);
        if (memcmp(data, prefix + offset, n) != 0)
            return 0;
        offset += n;
    }
    return n == size || memcmp(data + n, rest + offset - PREFIX_BYTES, size - n) == 0;
}

static void load_make_pattern(struct load *l)
{
    struct snic_rng rng;

    l->pattern = malloc(PATTERN_BYTES + (size_t)l->value_bytes);
    if (l->pattern == NULL)
        ex_die("out of memory for values of %" PRIu64 " bytes (--value-bytes)", l->value_bytes);
    snic_rng_init(&rng, 1);
    snic_rng_fill(&rng, l->pattern, PATTERN_BYTES + (size_t)l->value_bytes);
}

/* ---- Commands ---- */

/* Both commands up to their keys' digits, made once. */
static void load_make_heads(struct load *l)
{
    static const char *const verbs[] = {"*2\r\n$3\r\nGET\r\n", "*3\r\n$3\r\nSET\r\n"};
    const char *prefix = l->key_bytes == KEY_BYTES ? KEY_PREFIX : "";

    l->digits = (size_t)l->key_bytes - strlen(prefix);
    for (int i = 0; i < 2; i++)
        l->head_size[i] = (size_t)snprintf(l->heads[i], sizeof(l->heads[i]), "%s$%" PRIu64 "\r\n%s",
                                           verbs[i], l->key_bytes, prefix);
}

static size_t load_head(const struct load *l, unsigned char *out, enum load_op op, uint64_t key)
{
    size_t n = l->head_size[op];

    memcpy(out, l->heads[op], n);
    for (size_t i = l->digits; i > 0; i--, key /= 10)
        out[n + i - 1] = (unsigned char)('0' + key % 10);
    memcpy(out + n + l->digits, "\r\n", 2);
    return n + l->digits + 2;
}

static size_t load_command(const struct load *l, const struct load_slot *s, unsigned char *out)
{
    unsigned char prefix[PREFIX_BYTES];
    const unsigned char *rest;
    size_t head;
    size_t n = load_head(l, out, s->op, s->key);

    if (s->op == OP_GET)
        return n;
    n += (size_t)snprintf((char *)out + n, COMMAND_BYTES - n, "$%" PRIu64 "\r\n", l->value_bytes);
    load_value(l, s->key, prefix, &rest);
    head = (size_t)snic_min_u64(PREFIX_BYTES, l->value_bytes);
    memcpy(out + n, prefix, head);
    memcpy(out + n + head, rest, (size_t)l->value_bytes - head);
    n += (size_t)l->value_bytes;
    memcpy(out + n, "\r\n", 2);
    return n + 2;
}

static int load_is_over(const struct load *l, uint64_t now)
{
    return (l->requests != 0 && l->issued == l->requests) || now >= l->until_ns;
}

static void load_sent(struct snic_net_send_req *req);

/* Fill the pipeline and send what there is. */
static void load_issue(struct load_conn *c, uint64_t now)
{
    struct load *l = c->load;

    while (c->state != REPLY_SETUP && c->issued - c->answered < l->pipeline &&
           !load_is_over(l, now)) {
        struct load_slot *s = &c->slots[c->issued % l->pipeline];

        s->op = l->kind == KIND_GET ? OP_GET : OP_SET;
        if (l->kind == KIND_MIXED)
            s->op = snic_rng_below(&l->rng, 100) < l->get_percent ? OP_GET : OP_SET;
        s->key = l->kind == KIND_FILL ? l->issued : snic_rng_below(&l->rng, l->keys);
        s->sent_ns = now;
        c->filled += load_command(l, s, c->halves[c->filling] + c->filled);
        c->issued++;
        l->issued++;
    }
    if (c->sending || c->filled == 0)
        return;
    c->iov.base = c->halves[c->filling];
    c->iov.size = c->filled;
    c->req.done = load_sent;
    c->req.iov = &c->iov;
    c->req.iov_count = 1;
    c->req.flags = 0;
    c->req.region = SNIC_NO_REGION;
    c->filling ^= 1; /* I2 */
    c->filled = 0;
    c->sending = 1;
    if (snic_net_send(c->conn, &c->req) != 1)
        ex_die("cannot send to %s", l->address);
}

static void load_sent(struct snic_net_send_req *req)
{
    struct load_conn *c = SNIC_CONTAINER(req, struct load_conn, req);

    c->sending = 0;
    if (req->result == 0)
        load_issue(c, snic_loop_clock(c->load->loop));
}

/* ---- Replies ---- */

static void load_answered(struct load_conn *c, uint64_t now)
{
    struct load *l = c->load;
    const struct load_slot *s = &c->slots[c->answered % l->pipeline];

    snic_hist_record(&l->latency, now - s->sent_ns);
    if (s->op == OP_GET)
        l->gets++;
    else
        l->sets++;
    ex_wait_moved(&l->wait);
    c->answered++;
    l->answered++;
    c->state = REPLY_LINE;
    c->line_size = 0;
}

/* A whole line, without its end. */
static void load_line(struct load_conn *c, uint64_t now)
{
    struct load *l = c->load;
    const struct load_slot *s = &c->slots[c->answered % l->pipeline];

    c->line[c->line_size] = 0;
    if (c->line[0] == '$' && c->line[1] != '-' && s->op == OP_GET) {
        c->value_size = strtoull(c->line + 1, NULL, 10);
        c->value_seen = 0;
        c->value_wrong = c->value_size != l->value_bytes;
        c->state = c->value_size > 0 ? REPLY_VALUE : REPLY_END;
        c->line_size = 0;
        return;
    }
    if (s->op == OP_GET && strcmp(c->line, "$-1") == 0) {
        l->missing++;
    } else if (s->op != OP_SET || strcmp(c->line, "+OK") != 0) {
        if (l->errors++ == 0)
            memcpy(l->first_error, c->line, sizeof(l->first_error));
    }
    load_answered(c, now);
}

/* Look at one piece. @return the bytes of it that belonged to one state */
static size_t load_piece(struct load_conn *c, const unsigned char *data, size_t size, uint64_t now)
{
    struct load *l = c->load;
    const unsigned char *end;
    size_t n;

    if (c->state == REPLY_VALUE) {
        n = (size_t)snic_min_u64(size, c->value_size - c->value_seen);
        if (!c->value_wrong)
            c->value_wrong =
                !load_value_is(l, c->slots[c->answered % l->pipeline].key, c->value_seen, data, n);
        c->value_seen += n;
        if (c->value_seen == c->value_size)
            c->state = REPLY_END;
        return n;
    }
    end = memchr(data, '\n', size);
    n = end != NULL ? (size_t)(end - data) + 1 : size;
    for (size_t i = 0; i < n; i++)
        if (c->line_size < sizeof(c->line) - 1 && data[i] != '\r' && data[i] != '\n')
            c->line[c->line_size++] = (char)data[i];
    if (end == NULL)
        return n;
    if (c->state == REPLY_LINE) {
        load_line(c, now);
    } else {
        l->mismatches += (uint64_t)(c->value_wrong || c->line_size != 0);
        load_answered(c, now);
    }
    return n;
}

/* All begin together. */
static void load_begin(struct load *l)
{
    l->start_ns = snic_loop_clock(l->loop);
    l->end_ns = l->start_ns;
    l->until_ns = l->seconds == 0 ? SNIC_NEVER : l->start_ns + l->seconds * 1000000000u;
    for (uint64_t i = 0; i < l->clients; i++)
        load_issue(&l->conns[i], l->start_ns);
}

static void load_ready(struct load_conn *c)
{
    c->state = REPLY_LINE;
    c->line_size = 0;
    if (++c->load->connected == c->load->clients)
        load_begin(c->load);
}

/* Which database, and what name: before the load begins. */
static void load_setup(struct load_conn *c)
{
    const struct load *l = c->load;
    char *out = (char *)c->halves[c->filling];

    c->state = REPLY_SETUP;
    c->filled = 0;
    c->setup = 0;
    if (l->database != 0) {
        char digits[24];
        int n = snprintf(digits, sizeof(digits), "%" PRIu64, l->database);

        c->filled +=
            (size_t)snprintf(out, SETUP_BYTES, "*2\r\n$6\r\nSELECT\r\n$%d\r\n%s\r\n", n, digits);
        c->setup++;
    }
    if (l->name != NULL) {
        c->filled += (size_t)snprintf(out + c->filled, SETUP_BYTES - c->filled,
                                      "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$%d\r\n%s\r\n",
                                      (int)strlen(l->name), l->name);
        c->setup++;
    }
    if (c->setup == 0)
        load_ready(c);
    else
        load_issue(c, 0);
}

/* The answers to that. @return the bytes of them */
static size_t load_setup_piece(struct load_conn *c, const unsigned char *data, size_t size)
{
    size_t i = 0;

    while (i < size && c->setup > 0) {
        char ch = (char)data[i++];

        if (ch != '\n') {
            if (ch != '\r' && c->line_size < sizeof(c->line) - 1)
                c->line[c->line_size++] = ch;
            continue;
        }
        c->line[c->line_size] = 0;
        if (strcmp(c->line, "+OK") != 0)
            ex_die("the server refused --database or --name: %s", c->line);
        ex_wait_moved(&c->load->wait);
        c->line_size = 0;
        c->setup--;
    }
    if (c->setup == 0)
        load_ready(c);
    return i;
}

static void load_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct load_conn *c = ctx;
    struct load *l = c->load;
    uint64_t now = snic_loop_clock(l->loop);
    size_t at = 0;

    (void)conn;
    if (c->state == REPLY_SETUP)
        at = load_setup_piece(c, buf->data, buf->size);
    while (at < buf->size) {
        if (c->answered == c->issued)
            ex_die("the server at %s sent a reply without a request: is it a Redis server?",
                   l->address);
        at += load_piece(c, buf->data + at, buf->size - at, now);
    }
    snic_net_put(l->net, buf);
    if (l->start_ns == 0)
        return; /* others are not ready yet */
    load_issue(c, now);
    l->end_ns = now;
    if (load_is_over(l, now) && l->answered == l->issued)
        snic_loop_stop(l->loop);
}

/* ---- Connections ---- */

/* The answer to INFO goes to the standard output as it is. */
static void load_info_recv(void *ctx, struct snic_net_conn *conn, struct snic_net_buf *buf)
{
    struct load_conn *c = ctx;
    struct load *l = c->load;
    size_t at = 0;

    (void)conn;
    while (c->state == REPLY_LINE && at < buf->size) {
        char ch = (char)buf->data[at++];

        if (c->line_size < sizeof(c->line) - 1)
            c->line[c->line_size++] = ch;
        if (ch != '\n')
            continue;
        c->line[c->line_size] = 0;
        if (c->line[0] != '$')
            ex_die("the server refused INFO: %.*s", (int)strcspn(c->line, "\r"), c->line);
        c->value_size = strtoull(c->line + 1, NULL, 10);
        c->state = REPLY_VALUE;
    }
    if (c->state == REPLY_VALUE) {
        size_t n = (size_t)snic_min_u64(buf->size - at, c->value_size - c->value_seen);

        ex_wait_moved(&l->wait);
        fwrite(buf->data + at, 1, n, stdout);
        c->value_seen += n;
        if (c->value_seen == c->value_size)
            snic_loop_stop(l->loop);
    }
    snic_net_put(l->net, buf);
}

static void load_connected(void *ctx, struct snic_net_conn *conn, int error)
{
    struct load_conn *c = ctx;
    struct load *l = c->load;

    (void)conn;
    if (error != 0)
        ex_die("cannot connect to %s: %s", l->address, snic_strerror(error));
    if (l->info) {
        c->state = REPLY_LINE;
        memcpy(c->halves[0], "*1\r\n$4\r\nINFO\r\n", 14);
        c->filled = 14;
        l->until_ns = 0;
        load_issue(c, 0);
        return;
    }
    load_setup(c);
}

static void load_eof(void *ctx, struct snic_net_conn *conn)
{
    struct load_conn *c = ctx;

    (void)conn;
    ex_die("the server at %s closed a connection", c->load->address);
}

static void load_closed(void *ctx, struct snic_net_conn *conn, int reason)
{
    struct load_conn *c = ctx;

    (void)conn;
    if (reason != 0 && reason != SNIC_ECONNABORTED)
        ex_die("connection to %s lost: %s", c->load->address, snic_strerror(reason));
    c->load->gone++;
}

static void load_open(struct load *l)
{
    const struct snic_net_stream_events events = {.connected = load_connected,
                                                  .recv = l->info ? load_info_recv : load_recv,
                                                  .eof = load_eof,
                                                  .closed = load_closed};
    struct snic_net_uring_opts o = {.opts_size = sizeof(o)};
    struct snic_net_addr a;
    size_t half = SETUP_BYTES + (size_t)l->pipeline * (COMMAND_BYTES + (size_t)l->value_bytes);
    int r;

    ex_address("server", l->address, &a);
    ex_open_files("clients", l->clients);
    l->loop = ex_loop_open(0);
    l->wait = (struct ex_wait){
        .loop = l->loop, .timeout_s = l->timeout_s, .server = l->address, .kind = "a Redis server"};
    ex_wait_start(&l->wait);
    o.conns_max = (uint32_t)l->clients;
    r = snic_net_uring_open(&l->net, l->loop, &o);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
    l->conns = calloc((size_t)l->clients, sizeof(*l->conns));
    for (uint64_t i = 0; l->conns != NULL && i < l->clients; i++) {
        struct load_conn *c = &l->conns[i];

        c->load = l;
        c->slots = calloc((size_t)l->pipeline, sizeof(*c->slots));
        c->halves[0] = malloc(half);
        c->halves[1] = malloc(half);
        if (c->slots == NULL || c->halves[0] == NULL || c->halves[1] == NULL)
            ex_die("out of memory for the connections' buffers (--clients, --pipeline, "
                   "--value-bytes)");
        r = snic_net_connect(l->net, &a, &events, c, &c->conn);
        if (r != 0)
            ex_die("cannot connect to %s: %s", l->address, snic_strerror(r));
    }
    if (l->conns == NULL)
        ex_die("out of memory for %" PRIu64 " connections (--clients)", l->clients);
}

static void load_close(struct load *l)
{
    ex_wait_stop(&l->wait);
    for (uint64_t i = 0; i < l->clients; i++)
        snic_net_abort(l->conns[i].conn);
    snic_net_shut(l->net);
    snic_loop_close(l->loop);
    for (uint64_t i = 0; i < l->clients; i++) {
        free(l->conns[i].slots);
        free(l->conns[i].halves[0]);
        free(l->conns[i].halves[1]);
    }
    free(l->conns);
    free(l->pattern);
}

/* ---- Report ---- */

static void load_print(const struct load *l)
{
    double seconds = (double)(l->end_ns - l->start_ns) / 1e9;
    double rate = seconds > 0 ? (double)l->answered / seconds : 0;
    double p50 = (double)snic_hist_quantile(&l->latency, 500000) / 1e3;
    double p99 = (double)snic_hist_quantile(&l->latency, 990000) / 1e3;
    double p999 = (double)snic_hist_quantile(&l->latency, 999000) / 1e3;
    const char *format = "%" PRIu64 " operations in %.2f s: %.0f op/s; latency p50 %.1f us, "
                         "p99 %.1f us, p99.9 %.1f us, max %.1f us\n%" PRIu64 " gets, %" PRIu64
                         " sets, %" PRIu64 " missing, %" PRIu64 " mismatches, %" PRIu64 " errors\n";

    if (l->report)
        format = "operations=%" PRIu64 "\nseconds=%.6f\nrate=%.1f\np50_us=%.1f\np99_us=%.1f\n"
                 "p999_us=%.1f\nmax_us=%.1f\ngets=%" PRIu64 "\nsets=%" PRIu64 "\nmissing=%" PRIu64
                 "\nmismatches=%" PRIu64 "\nerrors=%" PRIu64 "\n";
    printf(format, l->answered, seconds, rate, p50, p99, p999, (double)l->latency.max / 1e3,
           l->gets, l->sets, l->missing, l->mismatches, l->errors);
    if (l->errors > 0)
        ex_log(EX_ERROR, "%" PRIu64 " error replies, the first: %s", l->errors, l->first_error);
}

static int load_kind_parse(void *target, const char *text)
{
    static const char *const names[] = {"get", "set", "mixed", "fill"};

    for (size_t i = 0; i < SNIC_COUNTOF(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *(enum load_kind *)target = (enum load_kind)i;
            return 0;
        }
    return -1;
}

int main(int argc, char **argv)
{
    static struct load l = {.address = "127.0.0.1:6379",
                            .clients = 16,
                            .pipeline = 1,
                            .keys = 100000,
                            .key_bytes = KEY_BYTES,
                            .value_bytes = 1024,
                            .get_percent = 50,
                            .timeout_s = 30,
                            .seed = 1};
    const struct ex_option options[] = {
        {"server", EX_TEXT, &l.address, "ADDRESS:PORT", "of the server; default 127.0.0.1:6379", 0,
         0, NULL},
        {"op", EX_PARSE, &l.kind, "get|set|mixed|fill", "what to do; default get", 0, 0,
         load_kind_parse},
        {"clients", EX_NUMBER, &l.clients, "N", "connections; default 16", 1, 4096, NULL},
        {"pipeline", EX_NUMBER, &l.pipeline, "N", "requests in flight per connection; default 1", 1,
         1024, NULL},
        {"keys", EX_NUMBER, &l.keys, "N", "different keys; default 100000", 1,
         UINT64_C(999999999999), NULL},
        {"key-bytes", EX_NUMBER, &l.key_bytes, "N", "of each key; default 16; 8 as in YCSB's rows",
         8, KEY_BYTES, NULL},
        {"value-bytes", EX_SIZE, &l.value_bytes, "BYTES", "of each value; default 1024", 0,
         8u << 20, NULL},
        {"get-percent", EX_NUMBER, &l.get_percent, "N",
         "of mixed; default 50 (YCSB A), 95 is YCSB B; C is get", 0, 100, NULL},
        {"seconds", EX_NUMBER, &l.seconds, "N", "stop after so long; default 5 without --requests",
         1, 1000000, NULL},
        {"requests", EX_NUMBER, &l.requests, "N", "stop after so many operations", 1, UINT64_MAX,
         NULL},
        {"timeout", EX_NUMBER, &l.timeout_s, "SECONDS",
         "end when the server has answered nothing for so long; default 30", 1, 86400, NULL},
        {"seed", EX_NUMBER, &l.seed, "N", "of the drawn keys; default 1", 0, UINT64_MAX, NULL},
        {"database", EX_NUMBER, &l.database, "N", "SELECT it first; default 0", 0, 4095, NULL},
        {"name", EX_TEXT, &l.name, "TEXT", "CLIENT SETNAME it first", 0, 0, NULL},
        {"info", EX_FLAG, &l.info, NULL, "only print the server's answer to INFO", 0, 0, NULL},
        {"report", EX_FLAG, &l.report, NULL, "print name=value lines, for programs", 0, 0, NULL},
        {.name = "address", .kind = EX_RENAMED, .value = "server"},
    };
    int r;

    ex_output_must(1);
    ex_options(argc, argv, options, SNIC_COUNTOF(options), summary);
    ex_log_set(EX_INFO, NULL);
    if (l.name != NULL && (l.name[0] == 0 || strlen(l.name) > NAME_BYTES))
        ex_usage("--name: '%s' must have 1 to %u bytes", l.name, NAME_BYTES);
    if (l.info)
        l.clients = 1;
    if (l.kind == KIND_FILL)
        l.requests = l.keys;
    else if (l.requests == 0 && l.seconds == 0)
        l.seconds = 5;
    snic_rng_init(&l.rng, l.seed);
    load_make_pattern(&l);
    load_make_heads(&l);
    load_open(&l);
    r = snic_loop_run(l.loop);
    if (r != 0)
        ex_die("waiting for events failed: %s", snic_strerror(r));
    if (!l.info)
        load_print(&l);
    load_close(&l);
    return l.mismatches > 0 || l.errors > 0;
}
