/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Watches: WATCHKEY key [FROM position], WATCHPREFIX prefix [FROM position ...], UNWATCHKEY [id].
 *
 * A watch has one carrier of changes, which goes between the shard, where the store has the
 * changes, and the client's home, where they are put between replies. The carrier is filled when it
 * is at the shard, up to WATCH_BYTES and one value, and returns there when the client has taken
 * most of what it was sent. So a client that reads slowly holds one carrier; the store's ring goes
 * past it, and it gets `overflow` and the position from which to continue after a scan.
 *   W1 the store's part of a watch is the shard's; `link` and `closed` are the home's.
 *   W2 a watch ends with a cancellation from home to shard, which arrives before the carrier's last
 *      return there: that one frees it.
 *   W3 when there is no room in an iteration (N6) a carrier is filled in the next one.
 *   W4 where there is no memory for changes, they are missing, and the client gets `overflow`.
 * Where there is none for that either, the carrier waits at home and is filled again.
 */
#include "commands.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_BYTES (64u << 10)   /* of a carrier, or more by one value */
#define WATCH_UNSENT (256u << 10) /* that a client has not taken: nothing more is sent to it */
#define WATCH_CLIENT_MAX 64u
#define WATCH_SHARD_MAX 32768u /* each change looks at all that wait */
#define WATCH_RETRY_NS 10000000u

struct ds_watch {
    struct snic_store_watch w;
    struct ds_request carrier;
    struct ds_request cancel;
    struct ds_shard *shard;
    struct ds_shard *home;
    uint64_t client;
    int64_t id;
    int idle;               /* at the shard: the carrier waits for a change */
    int cancelled;          /* at the shard: W2 */
    int missed;             /* where the carrier is: W4 */
    int closed;             /* at home: not on the client's list any more */
    struct snic_link link;  /* at home: of the client */
    struct snic_link wait;  /* at home: the client has to take what it was sent */
    struct snic_link later; /* at the shard, idle: W3 */
    unsigned char key[SNIC_STORE_KEY_MAX];
};

static void watch_destroy(struct ds_watch *w)
{
    snic_store_watch_stop(w->shard->store, &w->w);
    snic_link_remove(&w->later);
    (void)atomic_fetch_sub(&w->shard->watches, 1);
    free(w->carrier.reply.data);
    free(w);
}

/* A carrier that waits: there may be many, for long, and no limit counts what they hold. */
static void watch_empty(struct resp_reply *r)
{
    free(r->data);
    r->data = NULL;
    r->room = 0;
    r->size = 0;
}

/* ---- At the shard ---- */

static void watch_put(struct ds_watch *w, const char *kind, const struct snic_store_event *e)
{
    struct resp_reply *r = &w->carrier.reply;
    const struct snic_store_position *p = &w->w.position;
    char text[96];

    if (e != NULL)
        p = &e->position;
    resp_put_count(r, r->resp3 ? '>' : '*', 7);
    ds_put_text(r, "watch");
    resp_put_count(r, ':', w->id);
    ds_put_text(r, kind);
    resp_put_bulk(r, e != NULL ? e->key : w->w.key, e != NULL ? e->key_size : w->w.key_size);
    if (e != NULL && e->data != NULL && e->kind == SNIC_STORE_EVENT_PUT)
        resp_put_bulk(r, e->data, e->size);
    else if (e != NULL && e->kind == SNIC_STORE_EVENT_PUT)
        resp_put_bulk(r, "", 0);
    else
        resp_put_null(r);
    resp_put_count(r, ':', e != NULL ? (int64_t)e->version : 0);
    (void)snprintf(text, sizeof(text), "%u:%u:%" PRIu64 ":%" PRIu64, w->shard->index, p->node,
                   p->incarnation, p->number);
    ds_put_text(r, text);
}

static void watch_at_home(struct ds_request *r);

/* Is it for the next iteration? (W3) */
static int watch_later(struct ds_watch *w)
{
    struct ds_shard *s = w->shard;

    if (ds_turn_room(s))
        return 0;
    if (snic_link_alone(&w->later))
        snic_link_append(&s->watch_later, &w->later);
    snic_loop_arm(s->loop, &s->watch_turn, snic_loop_now(s->loop));
    return 1;
}

/* The carrier is at the shard: fill it and send it, or wait for a change. */
static void watch_fill(struct ds_watch *w)
{
    static const char *const kinds[] = {"?", "put", "delete", "expire"};
    struct resp_reply *r = &w->carrier.reply;
    int rc = 0;

    w->idle = 1;
    if (watch_later(w))
        return;
    snic_link_remove(&w->later);
    for (uint32_t i = 0; i < 256 && r->size < WATCH_BYTES && rc != SNIC_EAGAIN; i++) {
        struct snic_store_event e;

        rc = snic_store_watch_next(w->shard->store, &w->w, &e);
        if (rc == 0)
            watch_put(w, e.kind < SNIC_COUNTOF(kinds) ? kinds[e.kind] : "?", &e);
        else if (rc == SNIC_EOVERFLOW)
            watch_put(w, "overflow", NULL);
    }
    w->missed |= r->failed;
    if (w->missed) {
        r->failed = 0;
        r->size = 0;
        watch_put(w, "overflow", NULL);
        w->missed = r->failed; /* W4 */
    }
    if (w->missed) {
        r->failed = 0;
        r->size = 0;
    } else if (r->size == 0) {
        watch_empty(r);
        return;
    }
    ds_turn_spend(w->shard, r->size);
    w->idle = 0;
    w->carrier.arrive = watch_at_home;
    ds_mail_send(w->shard, w->home, &w->carrier);
}

/* The next iteration (W3). */
void ds_watch_turn(struct snic_timer *t, uint64_t now_ns)
{
    struct ds_shard *s = SNIC_CONTAINER(t, struct ds_shard, watch_turn);
    struct snic_link *l = &s->watch_later;

    (void)now_ns;
    while (!snic_link_alone(l) && !watch_later(SNIC_CONTAINER(l->next, struct ds_watch, later)))
        watch_fill(SNIC_CONTAINER(l->next, struct ds_watch, later));
}

static void watch_ready(struct snic_store_watch *s)
{
    struct ds_watch *w = SNIC_CONTAINER(s, struct ds_watch, w);

    if (w->idle)
        watch_fill(w);
}

static void watch_at_shard(struct ds_request *r)
{
    struct ds_watch *w = SNIC_CONTAINER(r, struct ds_watch, carrier);

    if (w->cancelled) {
        watch_destroy(w);
        return;
    }
    r->reply.size = 0;
    watch_fill(w);
}

static void watch_cancel(struct ds_request *r)
{
    struct ds_watch *w = SNIC_CONTAINER(r, struct ds_watch, cancel);

    w->cancelled = 1;
    if (w->idle)
        watch_destroy(w);
}

static void watch_begin(struct ds_request *r)
{
    struct ds_watch *w = SNIC_CONTAINER(r, struct ds_watch, carrier);
    int rc;

    w->w.ready = watch_ready;
    w->w.key = w->key;
    rc = snic_store_watch_start(w->shard->store, &w->w);
    watch_put(w, rc == SNIC_EOVERFLOW ? "overflow" : "begin", NULL);
    watch_fill(w);
}

/* ---- At home ---- */

static void watch_return(struct ds_watch *w)
{
    w->carrier.arrive = watch_at_shard;
    ds_mail_send(w->home, w->shard, &w->carrier);
}

static void watch_arm(struct ds_shard *s)
{
    if (s->front != NULL && !s->watch_armed && !snic_link_alone(&s->watch_waits)) {
        s->watch_armed = 1;
        snic_loop_arm(s->loop, &s->watch_timer, snic_loop_now(s->loop) + WATCH_RETRY_NS);
    }
}

static void watch_at_home(struct ds_request *r)
{
    struct ds_watch *w = SNIC_CONTAINER(r, struct ds_watch, carrier);
    size_t unsent = 0;

    ds_turn_spend(w->home, r->reply.size);
    if (!w->closed && w->home->front != NULL && r->reply.size > 0)
        unsent = ex_front_push(w->home->front, w->client, r->reply.data, r->reply.size);
    if (unsent <= WATCH_UNSENT && !w->missed) {
        watch_return(w);
        return;
    }
    watch_empty(&r->reply); /* the client's unsent bytes have it */
    snic_link_append(&w->home->watch_waits, &w->wait);
    watch_arm(w->home);
}

/* Clients that have taken what they were sent get more. */
void ds_watch_retry(struct snic_timer *t, uint64_t now_ns)
{
    struct ds_shard *s = SNIC_CONTAINER(t, struct ds_shard, watch_timer);
    struct snic_link *l = s->watch_waits.next;

    (void)now_ns;
    s->watch_armed = 0;
    while (l != &s->watch_waits) {
        struct ds_watch *w = SNIC_CONTAINER(l, struct ds_watch, wait);

        l = l->next;
        if (ex_front_unsent(s->front, w->client) > WATCH_UNSENT)
            continue;
        snic_link_remove(&w->wait);
        watch_return(w);
    }
    watch_arm(s);
}

static void watch_end(struct ds_client *c, struct ds_watch *w)
{
    w->closed = 1;
    c->watches_count--;
    snic_link_remove(&w->link);
    w->cancel.arrive = watch_cancel;
    ds_mail_send(w->home, w->shard, &w->cancel); /* W2 */
    if (snic_link_alone(&w->wait))
        return;
    snic_link_remove(&w->wait);
    watch_return(w);
}

/* Those of one number, or of any: 0. @return how many */
static uint32_t watch_end_some(struct ds_client *c, int64_t id)
{
    struct snic_link *l = c->watches.next;
    uint32_t ended = 0;

    while (l != &c->watches) {
        struct ds_watch *w = SNIC_CONTAINER(l, struct ds_watch, link);

        l = l->next;
        if (id != 0 && w->id != id)
            continue;
        ended++;
        watch_end(c, w);
    }
    return ended;
}

void ds_watch_end_all(struct ds_client *c)
{
    while (!snic_link_alone(&c->watches))
        watch_end(c, SNIC_CONTAINER(c->watches.next, struct ds_watch, link));
}

/* ---- Commands ---- */

/* "SHARD:NODE:INCARNATION:NUMBER". 0; -1 */
static int watch_position(const struct resp_arg *a, uint32_t *shard, struct snic_store_position *p)
{
    char text[96];
    unsigned long long incarnation;
    unsigned long long number;
    int used = 0;

    if (a->size >= sizeof(text))
        return -1;
    memcpy(text, a->data, a->size);
    text[a->size] = 0;
    if (sscanf(text, "%u:%u:%llu:%llu%n", shard, &p->node, &incarnation, &number, &used) != 4 ||
        text[used] != 0)
        return -1;
    p->incarnation = incarnation;
    p->number = number;
    return 0;
}

/* Where the shard's watch is to begin. With FROM, but without a position of this shard, changes may
 * be missing: it begins with `overflow`, as from a position that the node does not have. 0; -1 the
 * error is put */
static int watch_from(struct ds_call *k, uint32_t shard, struct snic_store_position *out)
{
    memset(out, 0, sizeof(*out));
    if (k->argc == 2)
        return 0;
    out->incarnation = 1;
    for (uint32_t i = 3; i < k->argc; i++) {
        struct snic_store_position p;
        uint32_t of;

        if (!resp_arg_is(&k->argv[2], "from") || watch_position(&k->argv[i], &of, &p) != 0) {
            ds_error(k->reply, "ERR syntax error: FROM and positions as the changes have them");
            return -1;
        }
        if (of == shard)
            *out = p;
    }
    return k->argc > 3 ? 0 : (ds_error(k->reply, "ERR syntax error"), -1);
}

/* 0; -1 the error is put */
static int watch_start(struct ds_call *k, struct ds_shard *shard, int64_t id, int prefix)
{
    struct ds_watch *w = calloc(1, sizeof(*w));

    if (atomic_fetch_add(&shard->watches, 1) >= WATCH_SHARD_MAX) {
        (void)atomic_fetch_sub(&shard->watches, 1);
        ds_error(k->reply, "ERR at most %u watches of a shard", WATCH_SHARD_MAX);
        free(w);
        return -1;
    }
    if (w == NULL || watch_from(k, shard->index, &w->w.position) != 0) {
        if (w == NULL)
            ds_error(k->reply, "OOM out of memory");
        (void)atomic_fetch_sub(&shard->watches, 1);
        free(w);
        return -1;
    }
    w->shard = shard;
    w->home = k->shard;
    w->client = k->client->id;
    w->id = id;
    w->w.prefix = (uint32_t)prefix;
    w->w.key_size = k->argv[1].size;
    memcpy(w->key, k->argv[1].data, k->argv[1].size);
    w->carrier.reply.resp3 = k->reply->resp3;
    snic_link_init(&w->wait);
    snic_link_init(&w->later);
    snic_link_init(&w->link);
    snic_link_append(&k->client->watches, &w->link);
    k->client->watches_count++;
    w->carrier.arrive = watch_begin;
    ds_mail_send(w->home, shard, &w->carrier);
    return 0;
}

void ds_cmd_watchkey(struct ds_call *k)
{
    struct ds_node *n = k->shard->node;
    struct ds_client *c = k->client;
    int prefix = k->argv[0].size == 11; /* WATCHPREFIX */
    uint64_t hash;
    int64_t id = c->watch_ids + 1;

    if (k->argv[1].size > DS_KEY_MAX) {
        ds_error(k->reply, "ERR key is longer than %u bytes", DS_KEY_MAX);
        return;
    }
    if (c->under_way > 0) {
        ds_error(k->reply, "ERR changes would come before the replies of earlier commands: wait "
                           "for these first");
        return;
    }
    if (c->watches_count + (prefix ? n->count : 1) > WATCH_CLIENT_MAX * n->count) {
        ds_error(k->reply, "ERR at most %u watches of a connection", WATCH_CLIENT_MAX * n->count);
        return;
    }
    for (uint32_t i = 0; i < (prefix ? n->count : 1u); i++)
        if (watch_start(k, prefix ? &n->shards[i] : ds_key_shard(n, &k->argv[1], &hash), id,
                        prefix) != 0) {
            (void)watch_end_some(c, id);
            return;
        }
    c->watch_ids = id;
    resp_put_count(k->reply, ':', id);
}

void ds_cmd_unwatchkey(struct ds_call *k)
{
    int64_t id = 0;

    if (k->argc > 2 || (k->argc == 2 && resp_number(k->argv[1].data, k->argv[1].size, &id) != 0)) {
        ds_error(k->reply, "ERR syntax error");
        return;
    }
    resp_put_count(k->reply, ':', watch_end_some(k->client, id) > 0);
}
