/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scans: SCAN, SCANKEYS, KEYS, RANDOMKEY, DBSIZE. Each key is seen as it is at its moment; there is
 * no snapshot. A scan that is long continues in a later iteration of the loop, and so do those for
 * which others left no time in this one: a loop that is late loses its lease.
 *
 * SCAN's cursor is a number, as Redis' clients want it: 0, or which of a shard's saved places
 * (below), or the beginning of a later shard. SCANKEYS' cursor has the last key in it, so that any
 * node continues.
 */
#include "cluster.h"
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_PLACES 1024u
#define SCAN_COUNT_MAX 1000
#define SCAN_BYTES (1u << 20) /* of a page, or more by one value */
#define SCAN_STEP 512u        /* keys in one iteration of the loop */
#define SCAN_WORK (1u << 21)  /* bytes of patterns, keys and values in one iteration, of all */

/* ---- SCAN: places ---- */

struct scan_place {
    uint64_t generation; /* 0: free */
    uint32_t key_size;
    unsigned char key[SNIC_STORE_KEY_MAX];
};

/** The newest SCAN_PLACES places where a SCAN of this shard stopped. */
struct ds_cursors {
    uint64_t generation;
    struct scan_place places[SCAN_PLACES];
};

/* The number of a new place: behind the last key of @p cursor. 0: out of memory */
static uint64_t scan_save(struct ds_shard *s, const struct snic_store_cursor *cursor)
{
    struct scan_place *p;

    if (s->cursors == NULL) {
        if ((s->cursors = calloc(1, sizeof(*s->cursors))) == NULL)
            return 0;
        ds_random(&s->cursors->generation, sizeof(s->cursors->generation));
        s->cursors->generation >>= 24; /* a number of another node, or process, is none of here */
    }
    p = &s->cursors->places[++s->cursors->generation % SCAN_PLACES];
    p->generation = s->cursors->generation;
    p->key_size = cursor->key_size;
    memcpy(p->key, cursor->key, cursor->key_size);
    return s->cursors->generation * s->node->count + s->index;
}

/* 0; -1 the place was forgotten */
static int scan_load(struct ds_shard *s, uint64_t number, struct snic_store_cursor *cursor)
{
    uint64_t generation = number / s->node->count;
    const struct scan_place *p;

    memset(cursor, 0, sizeof(*cursor));
    if (generation == 0)
        return 0;
    if (s->cursors == NULL)
        return -1;
    p = &s->cursors->places[generation % SCAN_PLACES];
    if (p->generation != generation)
        return -1;
    cursor->begun = 1;
    cursor->key_size = p->key_size;
    memcpy(cursor->key, p->key, p->key_size);
    return 0;
}

static int scan_cursor(const struct resp_arg *a, uint64_t *out)
{
    char digits[24];
    char *end;

    if (a->size == 0 || a->size >= sizeof(digits))
        return -1;
    memcpy(digits, a->data, a->size);
    digits[a->size] = 0;
    *out = strtoull(digits, &end, 10);
    return digits[0] < '0' || digits[0] > '9' || *end != 0 ? -1 : 0;
}

int ds_route_scan(struct ds_call *k)
{
    uint64_t n;

    if (scan_cursor(&k->argv[1], &n) == 0)
        return (int)(n % k->shard->node->count);
    ds_error(k->reply, "ERR invalid cursor");
    return -1;
}

/* ---- Work of an iteration ---- */

/* Is there time for more in this iteration? */
static int scan_time(struct ds_shard *s)
{
    uint64_t now = snic_loop_now(s->loop);

    if (s->scan_ns != now)
        s->scan_work = 0;
    s->scan_ns = now;
    return s->scan_work < SCAN_WORK;
}

/* A key was compared with a pattern: at worst each byte of the one with each of the other. */
static void scan_spend(struct ds_shard *s, const struct resp_arg *pattern, uint32_t key_size)
{
    s->scan_work += 64 + key_size + (pattern != NULL ? (uint64_t)pattern->size * key_size : 0);
}

struct ds_scan {
    struct snic_timer timer;
    struct ds_request *request;
    struct snic_store_cursor cursor;
    void (*key)(struct ds_request *r, const struct snic_store_entry *e);
};

static void scan_again(struct snic_timer *t, uint64_t now_ns)
{
    struct ds_scan *a = SNIC_CONTAINER(t, struct ds_scan, timer);
    struct ds_request *r = a->request;

    (void)now_ns;
    free(a);
    r->command->visit(r);
}

/* Is there no time for a page now? Then it is visited again. */
static int scan_later(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    struct ds_scan *a = scan_time(s) ? NULL : calloc(1, sizeof(*a));

    if (a == NULL)
        return 0;
    a->request = r;
    snic_timer_init(&a->timer, scan_again);
    snic_loop_arm(s->loop, &a->timer, s->scan_ns);
    return 1;
}

/* ---- Pages ---- */

struct scan_page {
    const struct resp_arg *match;
    int64_t count;
    int none;   /* TYPE of something else than strings */
    int values; /* SCANKEYS: values and TTLs, too */
    int64_t put;
};

/* MATCH, COUNT, TYPE. 0; -1 the error is put */
static int scan_options(struct ds_request *r, struct scan_page *p)
{
    memset(p, 0, sizeof(*p));
    p->count = 10;
    for (uint32_t i = 2; i < r->argc; i += 2) {
        const struct resp_arg *a = &r->argv[i];
        const struct resp_arg *v = i + 1 < r->argc ? a + 1 : NULL;

        if (v != NULL && resp_arg_is(a, "match")) {
            if (v->size > DS_KEY_MAX) {
                ds_error(&r->reply, "ERR pattern is longer than %u bytes", DS_KEY_MAX);
                return -1;
            }
            p->match = v;
        } else if (v != NULL && resp_arg_is(a, "count")) {
            if (resp_number(v->data, v->size, &p->count) != 0) {
                ds_error(&r->reply, "ERR value is not an integer or out of range");
                return -1;
            }
            if (p->count < 1) {
                ds_error(&r->reply, "ERR syntax error");
                return -1;
            }
        } else if (v != NULL && resp_arg_is(a, "type")) {
            p->none = !resp_arg_is(v, "string");
        } else {
            ds_error(&r->reply, "ERR syntax error");
            return -1;
        }
    }
    if (p->count > SCAN_COUNT_MAX)
        p->count = SCAN_COUNT_MAX;
    return 0;
}

static void scan_put(struct ds_request *r, struct scan_page *p, const struct snic_store_entry *e)
{
    if (p->none ||
        (p->match != NULL && !resp_glob(p->match->data, p->match->size, e->key, e->key_size)))
        return;
    resp_put_bulk(&r->reply, e->key, e->key_size);
    p->put++;
    if (!p->values)
        return;
    p->put += 2;
    if (e->data == NULL) { /* it is being written: GET it */
        resp_put_null(&r->reply);
        resp_put_count(&r->reply, ':', -3);
        return;
    }
    resp_put_bulk(&r->reply, e->data, e->size);
    resp_put_count(&r->reply, ':',
                   e->ttl_ns == 0 ? -1 : (int64_t)((e->ttl_ns + 999999u) / 1000000u));
}

/* May the page end behind the key that was put last, number @p i, in front of others? Not behind
 * the empty one: a cursor of SCANKEYS without a key is the beginning of the shard. */
static int scan_ends(const struct ds_request *r, const struct snic_store_cursor *c,
                     const struct scan_page *p, int64_t i, size_t from)
{
    return i > 0 && c->key_size > 0 &&
           (i >= p->count || r->reply.size - from >= SCAN_BYTES || !scan_time(r->shard));
}

/* Fill a page. @return 0 there is more; SNIC_ENOENT that was all; SNIC_ESTALE */
static int scan_fill(struct ds_request *r, struct snic_store_cursor *c, struct scan_page *p)
{
    size_t from = r->reply.size;
    int rc = 0;

    for (int64_t i = 0; !scan_ends(r, c, p, i, from); i++) {
        struct snic_store_entry e;

        rc = snic_store_next(r->shard->store, c, &e);
        if (rc != 0)
            break;
        scan_put(r, p, &e);
        scan_spend(r->shard, p->match, e.key_size);
    }
    r->shard->scan_work += r->reply.size - from;
    return rc == SNIC_EAGAIN ? 0 : rc;
}

/* The reply to a page: the cursor from which to continue, then what was put; or the error @p rc. */
static void scan_end(struct ds_request *r, int rc, const char *next, size_t size, int64_t put)
{
    char head[DS_KEY_MAX + 64];
    size_t n;

    if (rc != 0 && rc != SNIC_ENOENT) {
        r->reply.size = 0;
        ds_put_failure(r, rc);
    } else {
        n = (size_t)snprintf(head, sizeof(head), "*2\r\n$%zu\r\n", size);
        memcpy(head + n, next, size);
        n += size;
        n += (size_t)snprintf(head + n, sizeof(head) - n, "\r\n*%lld\r\n", (long long)put);
        resp_put_before(&r->reply, 0, head, n);
    }
    ds_request_end(r);
}

void ds_visit_scan(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    struct snic_store_cursor c;
    struct scan_page p;
    uint64_t number = 0;
    uint64_t next = 0;
    char digits[24];
    int n;
    int rc;

    if (scan_later(r))
        return;
    (void)scan_cursor(&r->argv[1], &number);
    if (scan_options(r, &p) != 0) {
        ds_request_end(r);
        return;
    }
    if (scan_load(s, number, &c) != 0) {
        ds_error(&r->reply, "ERR the cursor is another node's, or too old: begin the scan again");
        ds_request_end(r);
        return;
    }
    rc = scan_fill(r, &c, &p);
    if (rc == 0)
        next = scan_save(s, &c);
    else if (s->index + 1 < s->node->count)
        next = s->index + 1u;
    n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)next);
    scan_end(r, rc, digits, (size_t)n, p.put);
}

/* ---- SCANKEYS cursor [PREFIX p] [COUNT n] [VALUES] ---- */

/* The cursor is "", or a shard's number, ':' and a key. @return the shard; -1 */
static int scankeys_cursor(const struct resp_arg *a, uint32_t count, struct resp_arg *key)
{
    uint32_t shard = 0;
    uint32_t i = 0;

    key->size = 0;
    key->data = a->data;
    if (a->size == 0)
        return 0;
    for (; i < a->size && i < 3 && a->data[i] >= '0' && a->data[i] <= '9'; i++)
        shard = shard * 10 + a->data[i] - '0';
    if (i == 0 || i == a->size || a->data[i] != ':' || shard >= count ||
        a->size - i - 1 > DS_KEY_MAX)
        return -1;
    key->data = a->data + i + 1;
    key->size = a->size - i - 1;
    return (int)shard;
}

int ds_route_scankeys(struct ds_call *k)
{
    struct resp_arg key;
    int shard = scankeys_cursor(&k->argv[1], k->shard->node->count, &key);

    if (shard < 0)
        ds_error(k->reply, "ERR invalid cursor");
    return shard;
}

static int scankeys_options(struct ds_request *r, struct scan_page *p, struct snic_store_cursor *c)
{
    memset(p, 0, sizeof(*p));
    p->count = 100;
    for (uint32_t i = 2; i < r->argc; i++) {
        const struct resp_arg *a = &r->argv[i];

        if (resp_arg_is(a, "values")) {
            p->values = 1;
        } else if (i + 1 < r->argc && resp_arg_is(a, "prefix") && a[1].size <= DS_KEY_MAX) {
            c->prefix_size = a[1].size;
            memcpy(c->prefix, a[1].data, a[1].size);
            i++;
        } else if (i + 1 < r->argc && resp_arg_is(a, "count") &&
                   resp_number(a[1].data, a[1].size, &p->count) == 0 && p->count > 0) {
            i++;
        } else {
            ds_error(&r->reply, "ERR syntax error");
            return -1;
        }
    }
    if (p->count > SCAN_COUNT_MAX)
        p->count = SCAN_COUNT_MAX;
    return 0;
}

void ds_visit_scankeys(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    struct snic_store_cursor c;
    struct scan_page p;
    struct resp_arg key;
    char next[DS_KEY_MAX + 8];
    int size = 0;
    int rc;

    if (scan_later(r))
        return;
    memset(&c, 0, sizeof(c));
    (void)scankeys_cursor(&r->argv[1], s->node->count, &key);
    c.begun = key.size > 0;
    c.key_size = key.size;
    memcpy(c.key, key.data, key.size);
    if (scankeys_options(r, &p, &c) != 0) {
        ds_request_end(r);
        return;
    }
    rc = scan_fill(r, &c, &p);
    if (rc == 0) {
        size = snprintf(next, sizeof(next), "%u:", s->index);
        memcpy(next + size, c.key, c.key_size);
        size += (int)c.key_size;
    } else if (s->index + 1 < s->node->count) {
        size = snprintf(next, sizeof(next), "%u:", s->index + 1);
    }
    scan_end(r, rc, next, (size_t)size, p.put);
}

/* ---- All keys of a shard ---- */

/* Continue; the timer of a later iteration. */
static void scan_all_step(struct snic_timer *t, uint64_t now_ns)
{
    struct ds_scan *a = SNIC_CONTAINER(t, struct ds_scan, timer);
    struct ds_request *r = a->request;
    int rc = 0;

    for (uint32_t i = 0; i < SCAN_STEP && rc == 0 && scan_time(r->shard); i++) {
        struct snic_store_entry e;

        rc = snic_store_next(r->shard->store, &a->cursor, &e);
        if (rc == 0) {
            a->key(r, &e);
            scan_spend(r->shard, r->argc > 1 ? &r->argv[1] : NULL, e.key_size);
        }
    }
    if (rc == 0 || rc == SNIC_EAGAIN) {
        snic_loop_arm(r->shard->loop, t, now_ns);
        return;
    }
    if (rc != SNIC_ENOENT) {
        r->reply.size = 0;
        ds_put_failure(r, rc);
    }
    r->scan = NULL;
    free(a);
    ds_request_end(r);
}

static void scan_all(struct ds_request *r,
                     void (*key)(struct ds_request *r, const struct snic_store_entry *e))
{
    struct ds_scan *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        ds_error(&r->reply, "OOM out of memory");
        ds_request_end(r);
        return;
    }
    r->scan = a;
    a->request = r;
    a->key = key;
    snic_timer_init(&a->timer, scan_all_step);
    scan_all_step(&a->timer, snic_loop_now(r->shard->loop));
}

static void scan_keys_key(struct ds_request *r, const struct snic_store_entry *e)
{
    if (!resp_glob(r->argv[1].data, r->argv[1].size, e->key, e->key_size))
        return;
    resp_put_bulk(&r->reply, e->key, e->key_size);
    r->number++;
}

void ds_visit_keys(struct ds_request *r)
{
    if (r->argv[1].size > DS_KEY_MAX) {
        ds_error(&r->reply, "ERR pattern is longer than %u bytes", DS_KEY_MAX);
        ds_request_end(r);
        return;
    }
    scan_all(r, scan_keys_key);
}

/* Each key with the same probability. */
static void scan_random_key(struct ds_request *r, const struct snic_store_entry *e)
{
    struct ds_shard *s = r->shard;

    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    r->number++;
    if ((s->random >> 33) % (uint64_t)r->number != 0)
        return;
    r->reply.size = 0;
    resp_put_bulk(&r->reply, e->key, e->key_size);
}

void ds_visit_randomkey(struct ds_request *r)
{
    scan_all(r, scan_random_key);
}

void ds_join_randomkey(struct ds_request *r)
{
    struct ds_shard *s = r->home;
    int64_t keys = 0;

    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    for (uint32_t i = 0; i < r->parts_count; i++)
        keys += r->parts[i]->number;
    keys = keys > 0 ? (int64_t)((s->random >> 33) % (uint64_t)keys) : -1;
    for (uint32_t i = 0; i < r->parts_count && keys >= 0; i++) {
        if (keys < r->parts[i]->number)
            resp_put(&r->reply, r->parts[i]->reply.data, r->parts[i]->reply.size);
        keys -= r->parts[i]->number;
    }
    if (r->reply.size == 0)
        resp_put_null(&r->reply);
}

void ds_visit_dbsize(struct ds_request *r)
{
    struct snic_store_stats t;
    struct snic_replica_stats i;

    snic_replica_get_stats(snic_store_replica(r->shard->store), &i);
    snic_store_get_stats(r->shard->store, &t);
    if (i.serves)
        r->number = t.keys;
    else
        ds_put_failure(r, SNIC_ESTALE);
    ds_request_end(r);
}
