/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads and changes of an operation (for an introduction see the head of txn.h).
 *
 * T1  A record is read once in a round, and stays as it was read. Records wanted in one run are
 *     requested in one GET; one GET is in flight at a time.
 * T2  Changes are noted anew by each run: those of earlier runs do not count (change->run), only
 *     their memory is used again.
 */
#include "kvfs/txn_priv.h"

/* ---- Reads ---- */

/* Bytes that a record of this kind has, as a rule; a larger one is fetched again. */
static uint32_t kvfs_txn_size_guess(const struct snic_kvop_key *key)
{
    switch (key->bytes[0]) {
    case SNIC_KVFS_REC_ATTR:
        return SNIC_KVFS_ATTR_BYTES;
    case SNIC_KVFS_REC_ENTRY:
        return 320;
    case SNIC_KVFS_REC_DATA:
        return SNIC_KVFS_HEAD + SNIC_KVFS_SMALL_MAX;
    case SNIC_KVFS_REC_SUPER:
        return SNIC_KVFS_SUPER_BYTES;
    default:
        return 512;
    }
}

struct kvfs_read *kvfs_txn_read_find(const struct kvfs_op *op, const struct snic_kvop_key *key,
                                     uint64_t hash)
{
    struct kvfs_read *r = op->buckets[hash % KVFS_READ_BUCKETS];
    while (r != NULL && (r->hash != hash || !kvfs_key_equal(&r->key, key)))
        r = r->chain;
    return r;
}

/* Look it up in the cache. 0; SNIC_ENOMEM. */
static int kvfs_txn_read_cached(struct kvfs_op *op, struct kvfs_read *r)
{
    const unsigned char *record = NULL;
    uint32_t size = 0;
    int known = kvfs_cache_get(op->k, &r->key, r->hash, &record, &size);
    if (known == KVFS_CACHE_UNKNOWN)
        return 0;
    op->k->stats.cache_hits++;
    r->state = known == KVFS_CACHE_PRESENT ? KVFS_READ_PRESENT : KVFS_READ_ABSENT;
    if (known == KVFS_CACHE_ABSENT)
        return 0;
    r->record = kvfs_memory(op, size);
    if (r->record == NULL)
        return SNIC_ENOMEM;
    memcpy(r->record, record, size);
    r->size = size;
    return 0;
}

/* Take it from the cache, or request it from the store. */
static struct kvfs_read *kvfs_txn_read_new(struct kvfs_op *op, const struct snic_kvop_key *key,
                                           uint64_t hash)
{
    struct kvfs_read *r = kvfs_memory(op, sizeof(*r));
    if (r == NULL)
        return NULL;
    memset(r, 0, sizeof(*r));
    r->hash = hash;
    r->key = *key;
    r->state = KVFS_READ_WANTED;
    r->room = kvfs_txn_size_guess(key);
    if (kvfs_txn_read_cached(op, r) != 0)
        return NULL;
    *op->reads_end = r;
    op->reads_end = &r->next;
    r->chain = op->buckets[hash % KVFS_READ_BUCKETS];
    op->buckets[hash % KVFS_READ_BUCKETS] = r;
    return r;
}

static struct kvfs_read *kvfs_txn_read(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    SNIC_DASSERT(key->size > 0 && key->size <= SNIC_KVOP_KEY_MAX);
    uint64_t hash = kvfs_key_hash(key);
    struct kvfs_read *r = kvfs_txn_read_find(op, key, hash);
    return r != NULL ? r : kvfs_txn_read_new(op, key, hash);
}

static struct kvfs_change *kvfs_txn_change_find(const struct kvfs_op *op,
                                                const struct snic_kvop_key *key)
{
    struct kvfs_change *c = op->changes;
    while (c != NULL && !kvfs_key_equal(&c->key, key))
        c = c->next;
    return c;
}

static int kvfs_txn_present(struct kvfs_op *op, struct kvfs_read *r, const void **body,
                            uint32_t *size)
{
    const void *record = r->record;
    uint32_t bytes = r->size;
    if ((r->flags & SNIC_KVFS_RESERVED) != 0) {
        int rc = kvfs_intent_resolve(op, &r->key, r->record, r->size, &record, &bytes);
        if (rc != 0)
            return rc;
        if (bytes == 0)
            return SNIC_ENOENT;
    }
    SNIC_DASSERT(bytes >= SNIC_KVFS_HEAD); /* verified, or of the cache */
    *body = (const unsigned char *)record + SNIC_KVFS_HEAD;
    *size = bytes - SNIC_KVFS_HEAD;
    return 0;
}

static int kvfs_txn_read_record(struct kvfs_op *op, const struct snic_kvop_key *key, uint8_t guard,
                                const void **body, uint32_t *size)
{
    struct kvfs_change *c = kvfs_txn_change_find(op, key);
    struct kvfs_read *r;
    if (c != NULL && c->run == op->run_count) {
        if (c->kind == SNIC_KVOP_DELETE)
            return SNIC_ENOENT;
        *body = c->record + SNIC_KVFS_HEAD;
        *size = c->size - SNIC_KVFS_HEAD;
        return 0;
    }
    r = kvfs_txn_read(op, key);
    if (r == NULL)
        return SNIC_ENOMEM;
    r->guard |= guard;
    switch ((enum kvfs_read_state)r->state) {
    case KVFS_READ_PRESENT:
        return kvfs_txn_present(op, r, body, size);
    case KVFS_READ_ABSENT:
        return SNIC_ENOENT;
    case KVFS_READ_FAILED:
        return r->error;
    case KVFS_READ_WANTED:
    case KVFS_READ_SENT:
    default:
        return KVFS_PENDING;
    }
}

int kvfs_get(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body, uint32_t *size)
{
    return kvfs_txn_read_record(op, key, 1, body, size);
}

int kvfs_peek(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body,
              uint32_t *size)
{
    return kvfs_txn_read_record(op, key, 0, body, size);
}

int kvfs_peek_cached(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body,
                     uint32_t *size)
{
    const unsigned char *record;
    uint32_t bytes;
    if (op->reads == NULL && op->changes == NULL) {
        switch (kvfs_cache_get(op->k, key, kvfs_key_hash(key), &record, &bytes)) {
        case KVFS_CACHE_PRESENT:
            op->k->stats.cache_hits++;
            *body = record + SNIC_KVFS_HEAD;
            *size = bytes - SNIC_KVFS_HEAD;
            return 0;
        case KVFS_CACHE_ABSENT:
            op->k->stats.cache_hits++;
            return SNIC_ENOENT;
        default:
            break;
        }
    }
    return kvfs_peek(op, key, body, size);
}

void kvfs_prefetch(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c = kvfs_txn_change_find(op, key);
    if (c == NULL || c->run != op->run_count)
        (void)kvfs_txn_read(op, key);
}

/* Wanted records, up to SNIC_KVOP_GETS_MAX. */
static uint32_t kvfs_txn_wanted(const struct kvfs_op *op)
{
    uint32_t n = 0;
    for (const struct kvfs_read *r = op->reads; r != NULL && n < SNIC_KVOP_GETS_MAX; r = r->next)
        n += r->state == KVFS_READ_WANTED;
    return n;
}

/* Memory for a GET of `count` wanted records, filled in. 0; SNIC_ENOMEM: or it starts over. */
static int kvfs_txn_request_fill(struct kvfs_op *op, struct snic_kvop *get, uint32_t count)
{
    uint32_t n = 0;
    memset(get, 0, sizeof(*get));
    get->kind = SNIC_KVOP_GET;
    get->get_count = count;
    get->gets = kvfs_memory(op, count * sizeof(*get->gets));
    if (get->gets == NULL)
        return SNIC_ENOMEM;
    memset(get->gets, 0, count * sizeof(*get->gets));
    for (struct kvfs_read *r = op->reads; n < count; r = r->next) {
        if (r->state != KVFS_READ_WANTED)
            continue;
        r->record = kvfs_memory(op, r->room);
        if (r->record == NULL)
            return SNIC_ENOMEM;
        get->gets[n].key = r->key;
        get->gets[n].value = r->record;
        get->gets[n++].room = r->room;
    }
    return 0;
}

int kvfs_txn_request(struct kvfs_op *op)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    uint32_t count = kvfs_txn_wanted(op), n = 0;
    if (count == 0 || place->state == KVFS_PLACE_SENT)
        return KVFS_PENDING;
    if (kvfs_txn_request_fill(op, &place->io.op, count) != 0)
        return op->again || op->asleep || op->in_flight > 0 ? KVFS_PENDING : SNIC_ENOMEM;
    for (struct kvfs_read *r = op->reads; n < count; r = r->next) {
        if (r->state != KVFS_READ_WANTED)
            continue;
        r->state = KVFS_READ_SENT;
        n++;
    }
    place->stamp = kvfs_cache_now(op->k);
    op->k->stats.store_gets += count;
    op->k->stats.cache_misses += count;
    kvfs_send(op, place);
    return KVFS_PENDING;
}

static void kvfs_txn_fail(struct kvfs_read *r, int error)
{
    r->state = KVFS_READ_FAILED;
    r->error = error;
}

/* A record has arrived. */
static void kvfs_txn_arrived(struct kvfs_op *op, struct kvfs_read *r, const struct snic_kvop_get *g)
{
    int rc;
    if (g->result == SNIC_EMSGSIZE && g->size > r->room && g->size <= SNIC_KVOP_VALUE_MAX) {
        r->room = g->size;
        r->state = KVFS_READ_WANTED;
        return;
    }
    if (g->result == SNIC_ENOENT) {
        r->state = KVFS_READ_ABSENT;
        kvfs_cache_read(op->k, op->place[KVFS_MAIN].stamp, &r->key, r->hash, NULL, 0);
        return;
    }
    if (g->result != 0) {
        kvfs_txn_fail(r, g->result == SNIC_EMSGSIZE ? SNIC_ECORRUPT : g->result);
        return;
    }
    rc = g->size > r->room ? SNIC_ECORRUPT : snic_kvfs_verify(&r->key, r->record, g->size);
    if (rc < 0) {
        kvfs_report_damage(op->k, &r->key,
                           rc == SNIC_EVERSION ? "record has another version"
                                               : "checksum is wrong");
        kvfs_txn_fail(r, rc);
        return;
    }
    r->size = g->size;
    r->flags = (uint16_t)rc;
    r->state = KVFS_READ_PRESENT;
    if ((r->flags & SNIC_KVFS_RESERVED) == 0)
        kvfs_cache_read(op->k, op->place[KVFS_MAIN].stamp, &r->key, r->hash, r->record, r->size);
}

void kvfs_txn_get_done(struct kvfs_op *op, const struct snic_kvop *get)
{
    int whole = get->result < 0 && get->result != SNIC_ENOENT && get->result != SNIC_EMSGSIZE;
    uint32_t n = 0;
    for (struct kvfs_read *r = op->reads; r != NULL && n < get->get_count; r = r->next) {
        if (r->state != KVFS_READ_SENT)
            continue;
        if (whole)
            kvfs_txn_fail(r, kvfs_txn_error(get->result));
        else
            kvfs_txn_arrived(op, r, &get->gets[n]);
        n++;
    }
    SNIC_ASSERT(n == get->get_count); /* as kvfs_txn_request_fill() counted */
}

/* ---- Changes ---- */

static struct kvfs_change *kvfs_txn_change_new(struct kvfs_op *op)
{
    struct kvfs_change *c = kvfs_memory(op, sizeof(*c));
    if (c == NULL)
        return NULL;
    memset(c, 0, sizeof(*c));
    *op->changes_end = c;
    op->changes_end = &c->next;
    return c;
}

/* The change of a key, to be filled; its memory of an earlier run is used again (T2). */
static struct kvfs_change *kvfs_txn_change(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c = kvfs_txn_change_find(op, key);
    if (c == NULL) {
        c = kvfs_txn_change_new(op);
        if (c == NULL)
            return NULL;
        c->key = *key;
    }
    c->run = op->run_count;
    return c;
}

/* A change noted again after the commit was sent: the sent one stays, which the store borrows. */
static int kvfs_txn_change_again(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c = kvfs_txn_change_find(op, key);
    if (c != NULL)
        c->run = op->run_count;
    return 0;
}

int kvfs_put(struct kvfs_op *op, const struct snic_kvop_key *key, const void *body, uint32_t size)
{
    struct kvfs_change *c;
    uint32_t bytes;
    if (size > SNIC_KVOP_VALUE_MAX - SNIC_KVFS_HEAD)
        return SNIC_EMSGSIZE;
    if (op->commit_state != KVFS_COMMIT_NONE)
        return kvfs_txn_change_again(op, key);
    bytes = size + SNIC_KVFS_HEAD;
    c = kvfs_txn_change(op, key);
    if (c == NULL)
        return SNIC_ENOMEM;
    if (c->room < bytes) {
        c->record = kvfs_memory(op, bytes);
        c->room = c->record == NULL ? 0 : bytes;
        if (c->record == NULL)
            return SNIC_ENOMEM;
    }
    SNIC_DASSERT(c->room >= bytes);
    c->kind = SNIC_KVOP_PUT;
    c->size = bytes;
    memset(c->record, 0, SNIC_KVFS_HEAD);
    memmove(c->record + SNIC_KVFS_HEAD, body, size);
    return 0;
}

int kvfs_delete(struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_change *c;
    if (op->commit_state != KVFS_COMMIT_NONE)
        return kvfs_txn_change_again(op, key);
    c = kvfs_txn_change(op, key);
    if (c == NULL)
        return SNIC_ENOMEM;
    c->kind = SNIC_KVOP_DELETE;
    c->size = 0;
    return 0;
}

int kvfs_change_object(struct kvfs_op *op, uint32_t kind, uint64_t object, uint64_t offset,
                       const void *bytes, uint32_t size)
{
    struct kvfs_change *c = op->changes;
    SNIC_ASSERT(kind == SNIC_KVOP_CHANGE_WRITE || kind == SNIC_KVOP_CHANGE_TRUNCATE);
    SNIC_ASSERT(size <= SNIC_KVOP_VALUE_MAX);
    if (op->commit_state != KVFS_COMMIT_NONE)
        return 0;
    while (c != NULL && (c->key.size != 0 || c->object != object))
        c = c->next;
    if (c == NULL)
        c = kvfs_txn_change_new(op);
    if (c == NULL)
        return SNIC_ENOMEM;
    c->run = op->run_count;
    c->kind = (uint8_t)kind;
    c->object = object;
    c->offset = offset;
    c->bytes = bytes;
    c->size = size;
    return 0;
}

void kvfs_mark_private(struct kvfs_op *op, uint64_t ino)
{
    op->made = ino;
}

/* ---- Attributes ---- */

typedef int (*kvfs_txn_read_fn)(struct kvfs_op *op, const struct snic_kvop_key *key,
                                const void **body, uint32_t *size);

static int kvfs_txn_get_attr(struct kvfs_op *op, uint64_t ino, kvfs_txn_read_fn read,
                             struct snic_fsop_attr *out)
{
    struct snic_kvop_key key;
    struct snic_fsop_attr a;
    const void *body;
    uint32_t size;
    int rc;
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_ATTR);
    rc = read(op, &key, &body, &size);
    if (rc != 0)
        return rc;
    rc = snic_kvfs_attr_decode(&a, (const unsigned char *)body - SNIC_KVFS_HEAD,
                               size + SNIC_KVFS_HEAD);
    if (rc != 0 || a.ino != ino) {
        kvfs_report_damage(op->k, &key, "attributes malformed");
        return SNIC_ECORRUPT;
    }
    kvfs_times_merge(op->k, &a);
    *out = a;
    return 0;
}

int kvfs_get_attr(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out)
{
    return kvfs_txn_get_attr(op, ino, kvfs_get, out);
}

int kvfs_peek_attr(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out)
{
    return kvfs_txn_get_attr(op, ino, kvfs_peek, out);
}

int kvfs_peek_attr_cached(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out)
{
    return kvfs_txn_get_attr(op, ino, kvfs_peek_cached, out);
}

int kvfs_put_attr(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_fsop_attr next = *a;
    struct snic_kvop_key key;
    next.version++;
    snic_kvfs_attr_encode(record, &next);
    snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_ATTR);
    return kvfs_put(op, &key, record + SNIC_KVFS_HEAD, SNIC_KVFS_ATTR_BYTES - SNIC_KVFS_HEAD);
}

void kvfs_attr_prefetch(struct kvfs_op *op, uint64_t ino)
{
    struct snic_kvop_key key;
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_ATTR);
    kvfs_prefetch(op, &key);
}
