/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "kv_model.h"

#include "store_priv.h"
#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_REQUEST 32768u

static void model_wrong(struct kvm *m, const char *format, ...) SNIC_PRINTF(2, 3);
static void model_wrong(struct kvm *m, const char *format, ...)
{
    va_list ap;

    if (m->why[0] != 0)
        return;
    va_start(ap, format);
    (void)vsnprintf(m->why, sizeof(m->why), format, ap);
    va_end(ap);
}

static uint64_t model_now_ms(const struct kvm *m)
{
    return snic_loop_now(m->loop) / 1000000u;
}

/* ---- Values: everything follows from the id and the size ---- */

static void model_value(unsigned char *out, uint64_t id, uint32_t size)
{
    char head[48];
    int n = snprintf(head, sizeof(head), "%016" PRIx64 "/%08" PRIx32 ":", id, size);

    memcpy(out, head, (size_t)n);
    for (uint32_t i = (uint32_t)n; i < size; i++)
        out[i] = (unsigned char)((id * 131 + i * 7) >> (i % 3));
}

#define MODEL_VALUE_MIN 26u

/* What a GET showed. 0, or -1: bytes that were never written. */
static int model_parse(const struct kvm_key *k, const char *p, int64_t size, struct kvm_state *out)
{
    static unsigned char expected[MODEL_REQUEST];
    uint32_t stated;

    memset(out, 0, sizeof(*out));
    if (size < 0)
        return 0;
    out->present = 1;
    if (k->counter) {
        char text[32] = "";

        if (size == 0 || size > 20)
            return -1;
        memcpy(text, p, (size_t)size);
        out->id = strtoull(text, NULL, 10);
        (void)snprintf(text, sizeof(text), "%" PRIu64, out->id);
        return (int64_t)strlen(text) == size && memcmp(text, p, (size_t)size) == 0 ? 0 : -1;
    }
    if (size < MODEL_VALUE_MIN || size > (int64_t)sizeof(expected) ||
        sscanf(p, "%16" SCNx64 "/%8" SCNx32 ":", &out->id, &stated) != 2 || stated != size)
        return -1;
    out->size = stated;
    model_value(expected, out->id, stated);
    return memcmp(expected, p, stated) == 0 ? 0 : -1;
}

/* ---- States ---- */

static void model_apply(struct kvm_key *k, uint32_t i)
{
    struct kvm_write *w = &k->write[i];

    w->after = k->write[i - 1].after;
    if (!w->applied)
        return;
    if (w->kind == KVM_EXPIRE) {
        if (w->after.present)
            w->after.expire = w->put.expire;
    } else if (k->counter && w->kind == KVM_SET) {
        w->after.id = w->after.present ? w->after.id + 1 : 1;
        w->after.present = 1;
    } else {
        w->after = w->put;
    }
}

static void model_void(struct kvm_key *k, uint32_t i)
{
    k->write[i].applied = 0;
    for (; i < k->count; i++)
        model_apply(k, i);
}

/* May a reader that sent at @p from and was answered at @p to see @p seen after a write? */
static int model_matches(const struct kvm_state *s, const struct kvm_state *seen, uint64_t from,
                         uint64_t to)
{
    if (!seen->present)
        return !s->present || (s->expire != 0 && s->expire <= to);
    return s->present && s->id == seen->id && s->size == seen->size &&
           (s->expire == 0 || s->expire > from);
}

static void model_floor(struct kvm *m, struct kvm_key *k, uint32_t at)
{
    if (m->sync == KV_SYNC_ALWAYS && at > k->floor)
        k->floor = at;
}

/* ---- Answers ---- */

static void model_seen(struct kvm *m, const struct kvm_message *q, uint32_t i, const char *p,
                       int64_t size)
{
    struct kvm_key *k = &m->key[q->key[i]];
    int own = k->owner == q->client;
    uint32_t first = own ? q->at[i] : q->floor[i];
    uint32_t last = own ? q->at[i] : k->count - 1;
    struct kvm_state seen;

    m->read++;
    if (model_parse(k, p, size, &seen) != 0) {
        model_wrong(m, "%s: a reader got bytes that were never written", k->name);
        return;
    }
    for (uint32_t j = first; j <= last; j++)
        if (model_matches(&k->write[j].after, &seen, q->sent_ms, model_now_ms(m))) {
            /* An expiry that has passed hides what older state it was. */
            model_floor(m, k, j);
            return;
        }
    model_wrong(m, "%s: a reader got %s %" PRIx64 ", no state after write %u..%u", k->name,
                seen.present ? "value" : "nothing", seen.id, first, last);
}

static void model_done(struct kvm *m, const struct kvm_message *q)
{
    for (uint32_t i = 0; i < q->count; i++) {
        struct kvm_key *k = &m->key[q->key[i]];
        struct kvm_write *w = &k->write[q->at[i]];

        w->answered_ns = snic_loop_now(m->loop);
        if (w->end == UINT64_MAX)
            w->end = kv_store_tail(m->engine->store);
        if (w->applied)
            model_floor(m, k, q->at[i]);
    }
    m->answered++;
}

static void model_refused(struct kvm *m, const struct kvm_message *q, const char *text, size_t size)
{
    int dead = m->dead(m->ctx);

    m->refused++;
    if (!dead && (size < 8 || memcmp(text, "-ERR no ", 8) != 0))
        model_wrong(m, "a command failed: %.*s", (int)size, text);
    if (memmem(text, size, "outcome unknown", 15) != NULL || q->kind == KVM_GET)
        return;
    for (uint32_t i = 0; i < q->count; i++)
        model_void(&m->key[q->key[i]], q->at[i]);
}

static void model_expired(struct kvm *m, const struct kvm_message *q, int64_t set)
{
    struct kvm_key *k = &m->key[q->key[0]];
    const struct kvm_state *before = &k->write[q->at[0] - 1].after;

    if (set && !before->present)
        model_wrong(m, "%s: an expiry was set on nothing", k->name);
    if (!set && before->present && (before->expire == 0 || before->expire > model_now_ms(m)))
        model_wrong(m, "%s: an expiry was not set", k->name);
    if (!set)
        model_void(k, q->at[0]);
}

static void model_answer(struct kvm *m, const struct kvm_message *q, const char *p, size_t size)
{
    const struct kvm_key *k = &m->key[q->key[0]];
    const char *end = p + size;
    uint32_t i = 0;

    if (p[0] == '-') {
        model_refused(m, q, p, size);
        return;
    }
    if (q->kind != KVM_GET) {
        int64_t n = p[0] == ':' ? strtoll(p + 1, NULL, 10) : 0;

        if (q->kind == KVM_EXPIRE)
            model_expired(m, q, n);
        else if (q->kind == KVM_SET && k->counter && (uint64_t)n != k->write[q->at[0]].after.id)
            model_wrong(m, "%s: counted to %" PRIi64 " instead of %" PRIu64, k->name, n,
                        k->write[q->at[0]].after.id);
        model_done(m, q);
        return;
    }
    if (p[0] == '*')
        p = (const char *)memchr(p, '\n', size) + 1;
    for (; i < q->count && p < end; i++) {
        int64_t n = strtoll(p + 1, NULL, 10);

        p = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
        model_seen(m, q, i, p, n);
        p += n < 0 ? 0 : n + 2;
    }
    if (i != q->count || p != end)
        model_wrong(m, "a malformed answer");
}

int kvm_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov, uint32_t count,
              uint32_t flags, uint64_t user)
{
    struct kvm *m = ctx;
    struct kvm_message *q = NULL;

    (void)flags;
    (void)user;
    m->answer_size = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(m->answer_size + iov[i].size < sizeof(m->answer));
        memcpy(m->answer + m->answer_size, iov[i].base, iov[i].size);
        m->answer_size += iov[i].size;
    }
    m->answer[m->answer_size] = 0;
    if (client == KVM_JUDGE) {
        m->judged = 1;
        return 0;
    }
    for (uint32_t i = 0; i < KVM_DEPTH; i++)
        if (m->message[client][i].live && m->message[client][i].seq == seq)
            q = &m->message[client][i];
    if (q == NULL) {
        model_wrong(m, "an answer to nothing");
        return 0;
    }
    q->live = 0;
    model_answer(m, q, m->answer, m->answer_size);
    return 0;
}

/* ---- Questions ---- */

struct request {
    unsigned char bytes[MODEL_REQUEST];
    size_t size;
};

static void request_bulk(struct request *r, const void *p, size_t size)
{
    r->size += (size_t)snprintf((char *)r->bytes + r->size, 32, "$%zu\r\n", size);
    assert_true(r->size + size + 64 < sizeof(r->bytes));
    memcpy(r->bytes + r->size, p, size);
    memcpy(r->bytes + r->size + size, "\r\n", 2);
    r->size += size + 2;
}

static void request_start(struct request *r, uint32_t count, const char *command)
{
    r->size = (size_t)snprintf((char *)r->bytes, 32, "*%u\r\n", count);
    request_bulk(r, command, strlen(command));
}

static void request_number(struct request *r, uint64_t n)
{
    char text[24];

    request_bulk(r, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, n));
}

static int model_idle(const struct kvm *m, uint64_t client)
{
    for (uint32_t i = 0; i <= m->engine->client_mask; i++)
        for (const struct kv_client *c = m->engine->clients[i]; c != NULL; c = c->next)
            if ((client == UINT64_MAX || c->id == client) && c->first != NULL)
                return 0;
    return 1;
}

/* Take note of a write of @p q to key @p key. */
static void model_write(struct kvm *m, struct kvm_message *q, uint32_t key,
                        const struct kvm_state *put)
{
    struct kvm_key *k = &m->key[key];
    struct kvm_write *w = &k->write[k->count];

    memset(w, 0, sizeof(*w));
    w->kind = q->kind;
    w->applied = 1;
    w->end = UINT64_MAX;
    if (put != NULL)
        w->put = *put;
    q->key[q->count] = key;
    q->at[q->count++] = k->count++;
    model_apply(k, k->count - 1);
}

static void model_look(struct kvm *m, struct kvm_message *q, uint32_t key)
{
    q->key[q->count] = key;
    q->at[q->count] = m->key[key].count - 1;
    q->floor[q->count++] = m->key[key].floor;
}

/* The @p i-th key of a client, which is a counter or not; keys of a client are i * CLIENTS + c. */
static uint32_t model_own(struct kvm *m, uint32_t client, int counter)
{
    uint32_t key;

    do
        key = (uint32_t)snic_rng_below(&m->rng, KVM_KEYS);
    while (m->key[key].owner != client || m->key[key].counter != counter);
    return key;
}

static uint32_t model_size(struct kvm *m)
{
    uint32_t most = snic_rng_below(&m->rng, 8) == 0 ? m->value_max : 600;

    return MODEL_VALUE_MIN + (uint32_t)snic_rng_below(&m->rng, most - MODEL_VALUE_MIN + 1);
}

static void model_request_set(struct kvm *m, struct kvm_message *q, struct request *r,
                              uint32_t count, uint64_t expire)
{
    static unsigned char value[MODEL_REQUEST];
    uint32_t first = model_own(m, q->client, 0);

    q->kind = KVM_SET;
    request_start(r, count * 2 + (expire != 0 ? 3 : 1), count > 1 ? "MSET" : "SET");
    for (uint32_t i = 0; i < count; i++) {
        /* The same size as before, often: such a record may be overwritten in place. */
        const struct kvm_state *old;
        uint32_t key = i == 0 ? first : model_own(m, q->client, 0);
        struct kvm_state put = {1, ++m->ids, model_size(m), expire};

        old = &m->key[key].write[m->key[key].count - 1].after;
        if (old->present && snic_rng_below(&m->rng, 3) == 0)
            put.size = old->size;
        put.size = count > 1 ? (uint32_t)snic_min_u64(put.size, 1500) : put.size;
        model_value(value, put.id, put.size);
        request_bulk(r, m->key[key].name, m->key[key].name_size);
        request_bulk(r, value, put.size);
        model_write(m, q, key, &put);
    }
    if (expire != 0) {
        request_bulk(r, "PXAT", 4);
        request_number(r, expire);
    }
}

static void model_request_one(struct kvm *m, struct kvm_message *q, struct request *r,
                              const char *command, enum kvm_kind kind, int counter, uint64_t expire)
{
    uint32_t key = model_own(m, q->client, counter);
    struct kvm_state put = {0, 0, 0, expire};

    q->kind = kind;
    request_start(r, expire != 0 ? 3 : 2, command);
    request_bulk(r, m->key[key].name, m->key[key].name_size);
    if (expire != 0)
        request_number(r, expire);
    model_write(m, q, key, &put);
}

static void model_request_get(struct kvm *m, struct kvm_message *q, struct request *r,
                              uint32_t count)
{
    q->kind = KVM_GET;
    request_start(r, count + 1, count > 1 ? "MGET" : "GET");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t key = (uint32_t)snic_rng_below(&m->rng, KVM_KEYS);

        request_bulk(r, m->key[key].name, m->key[key].name_size);
        model_look(m, q, key);
    }
}

static void model_request_flush(struct kvm *m, struct kvm_message *q, struct request *r)
{
    q->kind = KVM_DEL;
    m->alone = 1;
    request_start(r, 1, "FLUSHALL");
    for (uint32_t i = 0; i < KVM_KEYS; i++)
        model_write(m, q, i, NULL);
}

static void model_request(struct kvm *m, struct kvm_message *q, struct request *r, int full)
{
    uint64_t die = full ? 90 : snic_rng_below(&m->rng, 100);
    uint64_t soon = model_now_ms(m) + 1 + snic_rng_below(&m->rng, 20);
    uint64_t late = model_now_ms(m) + 100000000 + m->ids;

    if (die < 38)
        model_request_set(m, q, r, 1, die < 32 ? 0 : die < 35 ? soon : late);
    else if (die < 46)
        model_request_set(m, q, r, 2 + (uint32_t)snic_rng_below(&m->rng, 3), 0);
    else if (die < 60)
        model_request_one(m, q, r, "INCR", KVM_SET, 1, 0);
    else if (die < 70)
        model_request_one(m, q, r, "DEL", KVM_DEL, die < 63, 0);
    else if (die < 75)
        model_request_one(m, q, r, "PEXPIREAT", KVM_EXPIRE, die < 72, late);
    else if (die == 75 && snic_rng_below(&m->rng, 2) == 0 && model_idle(m, UINT64_MAX))
        model_request_flush(m, q, r);
    else if (die < 92)
        model_request_get(m, q, r, 1);
    else
        model_request_get(m, q, r, 2 + (uint32_t)snic_rng_below(&m->rng, 3));
}

void kvm_send(struct kvm *m)
{
    static struct request r;
    struct kvm_message *q = NULL;
    uint32_t client = (uint32_t)snic_rng_below(&m->rng, KVM_CLIENTS);
    int full = 0;

    if (m->alone && !model_idle(m, UINT64_MAX))
        return;
    m->alone = 0;
    for (uint32_t i = 0; i < KVM_DEPTH; i++)
        if (!m->message[client][i].live)
            q = &m->message[client][i];
    if (q == NULL)
        return;
    for (uint32_t i = 0; i < KVM_KEYS; i++)
        full |= m->key[i].count + 8 > KVM_OPS;
    memset(q, 0, sizeof(*q));
    q->live = 1;
    q->seq = ++m->seq;
    q->client = client;
    q->sent_ms = model_now_ms(m);
    model_request(m, q, &r, full);
    kv_engine_message(m->engine, client, q->seq, 0, r.bytes, r.size);
    if (q->kind == KVM_GET || !model_idle(m, client))
        return;
    for (uint32_t i = 0; i < q->count; i++) /* it has run */
        m->key[q->key[i]].write[q->at[i]].end = kv_store_tail(m->engine->store);
}

/* ---- Runs ---- */

void kvm_init(struct kvm *m, uint64_t seed)
{
    memset(m, 0, sizeof(*m));
    snic_rng_init(&m->rng, seed);
    for (uint32_t i = 0; i < KVM_KEYS; i++) {
        struct kvm_key *k = &m->key[i];

        k->counter = i / KVM_CLIENTS % 3 == 2;
        k->owner = i % KVM_CLIENTS;
        k->name_size =
            (uint32_t)snprintf(k->name, sizeof(k->name), "%s-%u%.*s", k->counter ? "count" : "key",
                               i, (int)(i % 17), "................");
        k->count = 1;
        k->write[0].applied = 1;
    }
}

uint64_t kvm_synced(const struct kvm *m)
{
    return m->engine->store->synced;
}

void kvm_cut(struct kvm *m, uint64_t cut_ns, uint64_t synced)
{
    /* A run that ended under the judge has promised nothing, and shows nothing of those before. */
    int promised = m->sync == KV_SYNC_INTERVAL && m->living;

    for (uint32_t i = 0; i < KVM_KEYS && promised; i++) {
        struct kvm_key *k = &m->key[i];

        for (uint32_t j = k->floor + 1; j < k->count; j++) {
            const struct kvm_write *w = &k->write[j];

            if (w->applied && (w->end <= synced ||
                               (w->answered_ns != 0 && w->answered_ns + m->interval_ns < cut_ns)))
                k->floor = j;
        }
    }
    memset(m->message, 0, sizeof(m->message));
    m->alone = 0;
    m->living = 0;
}

/* Ask the engine and wait. 0; -1 the power went */
static int model_question(struct kvm *m, const char *command, const struct kvm_key *k)
{
    static struct request r;

    request_start(&r, k != NULL ? 2 : 1, command);
    if (k != NULL)
        request_bulk(&r, k->name, k->name_size);
    m->judged = 0;
    kv_engine_message(m->engine, KVM_JUDGE, ++m->seq, 0, r.bytes, r.size);
    for (int turns = 0; !m->judged; turns++) {
        if (m->dead(m->ctx) && turns > 1000)
            return -1;
        (void)snic_loop_once(m->loop, 1000000);
    }
    return m->answer[0] == '-' && m->dead(m->ctx) ? -1 : 0;
}

/* Nothing is seen: a state that has expired and is perhaps not yet deleted, or NULL. */
static const struct kvm_state *model_lingers(const struct kvm_key *k, uint64_t now)
{
    for (uint32_t j = k->floor; j < k->count; j++) {
        const struct kvm_state *s = &k->write[j].after;

        if (s->present && s->expire != 0 && s->expire <= now)
            return s;
    }
    return NULL;
}

static int model_judge_key(struct kvm *m, struct kvm_key *k)
{
    uint64_t sent_ms = model_now_ms(m);
    uint64_t expire;
    struct kvm_state seen;
    int64_t n;

    if (model_question(m, "PTTL", k) != 0)
        return -1;
    n = strtoll(m->answer + 1, NULL, 10);
    expire = n > 0 ? sent_ms + (uint64_t)n : 0;
    if (model_question(m, "GET", k) != 0)
        return -1;
    if (m->answer[0] == '-') {
        model_wrong(m, "%s: after the cut: %s", k->name, m->answer);
        return 0;
    }
    n = strtoll(m->answer + 1, NULL, 10);
    if (model_parse(k, strchr(m->answer, '\n') + 1, n, &seen) != 0) {
        model_wrong(m, "%s: bytes that were never written", k->name);
        return 0;
    }
    seen.expire = seen.present ? expire : 0;
    for (uint32_t j = k->floor; j < k->count; j++) {
        const struct kvm_state *s = &k->write[j].after;

        if (!model_matches(s, &seen, sent_ms, model_now_ms(m)) ||
            (seen.present && s->expire != seen.expire))
            continue;
        m->present += (uint64_t)seen.present;
        if (!seen.present && model_lingers(k, model_now_ms(m)) != NULL) {
            s = model_lingers(k, model_now_ms(m)); /* in the next run, too */
            m->lingering++;
        }
        seen = *s;
        memset(&k->write[0], 0, sizeof(k->write[0]));
        k->write[0].after = seen;
        k->write[0].applied = 1;
        k->count = 1;
        k->floor = 0;
        return 0;
    }
    model_wrong(m,
                "%s: after the cut %s %" PRIx64 " (%u bytes, expiry %" PRIu64
                "), no state after write %u..%u (%s %" PRIx64 ")",
                k->name, seen.present ? "value" : "nothing", seen.id, seen.size, seen.expire,
                k->floor, k->count - 1, k->write[k->floor].after.present ? "value" : "nothing",
                k->write[k->floor].after.id);
    return 0;
}

void kvm_judge(struct kvm *m)
{
    uint64_t began = model_now_ms(m);
    uint64_t keys;

    m->present = 0;
    m->lingering = 0;
    for (uint32_t i = 0; i < KVM_KEYS; i++) {
        if (model_judge_key(m, &m->key[i]) != 0 || m->why[0] != 0)
            return;
    }
    m->living = 1;
    if (model_question(m, "DBSIZE", NULL) != 0)
        return;
    keys = strtoull(m->answer + 1, NULL, 10);
    for (uint32_t i = 0; i < KVM_KEYS; i++) /* one may have expired meanwhile */
        if (m->key[i].write[0].after.expire > began &&
            m->key[i].write[0].after.expire <= model_now_ms(m))
            return;
    if (keys < m->present || keys > m->present + m->lingering)
        model_wrong(m, "%" PRIu64 " keys, of which %" PRIu64 " were written", keys, m->present);
    if (kv_store_check(m->engine->store) != 0)
        model_wrong(m, "the store is not consistent");
}
