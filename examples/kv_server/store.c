/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store: keys and records brought together, requests to the files below,
 * and the walk that sends the records' places to the DPU.
 */
#include "store_priv.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Requests to the files below ---- */

void kv_store_detach(struct kv_store *s)
{
    s->attached = 0;
}

void kv_store_attach(struct kv_store *s, const struct kv_files_ops *files, void *files_ctx)
{
    struct kv_file_req *list = s->parked;

    s->opts.files = files;
    s->opts.files_ctx = files_ctx;
    s->attached = 1;
    s->attach_version = s->version;
    s->old_until = s->tail;
    s->parked = NULL;
    while (list != NULL) {
        struct kv_file_req *r = list;

        list = r->next;
        kv_store_submit(s, r, r->done);
    }
    s->caching = s->opts.cache != NULL;
    s->cache_cursor = 0;
    s->cache_blocked = 0;
    kv_store_kick(s);
}

/* ---- Keys ---- */

uint64_t kv_store_wall_ms(struct kv_store *s)
{
    return s->wall_offset_ms + snic_loop_now(s->opts.loop) / 1000000u;
}

void kv_store_wall_sync(struct kv_store *s)
{
    struct timespec t;

    if (snic_loop_world(s->opts.loop) != NULL)
        return; /* a world's wall clock is its clock */
    clock_gettime(CLOCK_REALTIME, &t);
    s->wall_offset_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 -
                        snic_loop_now(s->opts.loop) / 1000000u;
}

uint64_t kv_store_durable(const struct kv_store *s)
{
    return s->opts.sync == KV_SYNC_ALWAYS ? s->written : UINT64_MAX;
}

const unsigned char *kv_store_value(struct kv_store *s, const struct kv_entry *e)
{
    if (e->address < s->head)
        return NULL;
    return kv_log_at(s, e->address) + KV_RECORD_HEADER + e->key_size;
}

struct kv_entry *kv_store_find(struct kv_store *s, uint32_t database, const void *key,
                               uint32_t key_size)
{
    unsigned char hash[16];
    uint64_t low;
    uint64_t high;
    uint64_t end;
    struct kv_entry *e;

    kv_store_hash(s, database, key, key_size, hash, &low, &high);
    e = kv_index_find(&s->index, low, database, key, key_size);
    if (e != NULL && e->expire_ms != 0 && e->expire_ms <= kv_store_wall_ms(s)) {
        /*
         * Without room it stays in the index, dead to all eyes, until the sweep; that it is
         * not there is then known from its own record.
         */
        if (kv_store_delete(s, e, &end) == 0)
            s->stats.expired++;
        else
            s->deletion = snic_max_u64(s->deletion, kv_store_end(e));
        return NULL;
    }
    return e;
}

/*
 * Same place, same size, never handed to the device: overwrite (L5). Not a moved copy,
 * whose original the DPU may know: superseding that needs an invalidation (R1).
 */
static int store_in_place(struct kv_store *s, struct kv_entry *e, uint32_t value_size)
{
    return s->flush_error == 0 && /* else the append refuses it */
           e->address >= s->flush_to && (e->flags & KV_ENTRY_MOVED) == 0 &&
           e->address >= kv_swap_end(s) && /* or recovery would exchange the new number, too */
           kv_record_bytes(e->key_size, e->value_size) == kv_record_bytes(e->key_size, value_size);
}

static void store_overwrite(struct kv_store *s, struct kv_entry *e, const struct kv_record *r,
                            const void *value)
{
    unsigned char *out = kv_log_at(s, e->address);
    unsigned char *at = out + KV_RECORD_HEADER + e->key_size;
    struct kv_record copy = *r;
    size_t body = kv_record_bytes(r->key_size, r->value_size) - KV_RECORD_HEADER - r->key_size;

    if (r->value_size > 0)
        memmove(at, value, r->value_size);
    memset(at + r->value_size, 0, body - r->value_size);
    copy.file = kv_log_segment(s, e->address / s->opts.segment_bytes)->file;
    kv_record_encode(out, &copy, out + KV_RECORD_HEADER, at);
}

static void store_invalidate(struct kv_store *s, const unsigned char hash[16], uint64_t version)
{
    if (s->opts.invalidate != NULL)
        s->opts.invalidate(s->opts.ctx, hash, version);
}

int kv_store_set(struct kv_store *s, uint32_t database, const void *key, uint32_t key_size,
                 const void *value, uint32_t value_size, uint64_t expire_ms, uint64_t *end)
{
    struct kv_record r = {.type = KV_RECORD_SET, .database = (uint16_t)database};
    unsigned char hash[16];
    uint64_t low;
    uint64_t high;
    uint64_t address;
    struct kv_entry *e;
    int error;

    kv_store_hash(s, database, key, key_size, hash, &low, &high);
    e = kv_index_find(&s->index, low, database, key, key_size);
    r.version = s->version + 1;
    r.expire_ms = expire_ms;
    r.key_size = key_size;
    r.value_size = value_size;
    if (e != NULL && store_in_place(s, e, value_size)) {
        store_overwrite(s, e, &r, value);
    } else {
        error = kv_log_append(s, &r, key, value, KV_FOR_DATA, &address);
        if (error != 0)
            return error;
        if (e != NULL) {
            kv_log_dead(s, e->address, kv_record_bytes(e->key_size, e->value_size));
            store_invalidate(s, hash, r.version); /* R1 */
        } else {
            e = kv_index_add(&s->index, low, database, key, key_size);
            if (e == NULL) { /* not acknowledged; but a FLUSH from now on has a later version */
                s->version = r.version;
                return SNIC_ENOMEM;
            }
            e->hash_high = high;
            if (s->opts.created != NULL)
                s->opts.created(s->opts.ctx, database, key, key_size);
        }
        e->address = address;
        kv_log_live(s, address, kv_record_bytes(key_size, value_size));
    }
    s->version = r.version;
    kv_index_expire(&s->index, e, expire_ms);
    e->version = r.version;
    e->value_size = value_size;
    e->flags = 0;
    e->accessed = (uint32_t)(kv_store_wall_ms(s) / 1000);
    *end = kv_store_end(e);
    return 0;
}

int kv_store_delete(struct kv_store *s, struct kv_entry *e, uint64_t *end)
{
    struct kv_record r = {.type = KV_RECORD_DEL, .database = e->database};
    unsigned char hash[16];
    uint64_t address;
    int error;

    r.version = s->version + 1;
    r.key_size = e->key_size;
    error = kv_log_append(s, &r, e->key, "", KV_FOR_DELETE, &address);
    if (error != 0)
        return error;
    s->version = r.version;
    *end = address + kv_record_bytes(e->key_size, 0);
    s->deletion = *end;
    kv_store_entry_hash(e, hash);
    store_invalidate(s, hash, r.version); /* R1 */
    kv_log_dead(s, e->address, kv_record_bytes(e->key_size, e->value_size));
    kv_index_remove(&s->index, e);
    return 0;
}

struct store_flush {
    struct kv_store *store;
    uint32_t database;
};

static void store_flush_visit(void *ctx, struct kv_entry *e)
{
    struct store_flush *f = ctx;

    if (e->database != f->database)
        return;
    kv_log_dead(f->store, e->address, kv_record_bytes(e->key_size, e->value_size));
    kv_index_remove(&f->store->index, e);
}

/* Forget the keys of one database; O(keys). */
static void store_drop_database(struct kv_store *s, uint32_t database)
{
    struct store_flush f = {s, database};
    uint64_t cursor = 0;

    do
        cursor = kv_index_scan(&s->index, cursor, 65536, store_flush_visit, &f);
    while (cursor != 0);
}

static void store_drop_all(struct kv_store *s)
{
    kv_index_clear(&s->index);
    for (uint64_t i = 0; i < s->segments_count; i++)
        if (s->segments[i] != NULL)
            s->segments[i]->live = 0;
    s->stats.live_bytes = 0;
}

int kv_store_flush_keys(struct kv_store *s, uint32_t database, uint64_t *end)
{
    struct kv_record r = {.type = KV_RECORD_FLUSH, .database = (uint16_t)database};
    uint64_t address;
    int error;

    r.version = s->version + 1;
    error = kv_log_append(s, &r, "", "", KV_FOR_DELETE, &address);
    if (error != 0)
        return error;
    s->version = r.version;
    *end = address + kv_record_bytes(0, 0);
    s->deletion = *end;
    if (s->opts.invalidate_all != NULL)
        s->opts.invalidate_all(s->opts.ctx, r.version);
    if (database == KV_ALL_DATABASES) {
        store_drop_all(s);
        return 0;
    }
    store_drop_database(s, database);
    /* The DPU has forgotten the other databases too, and its floor has risen. */
    s->attach_version = s->version;
    s->old_until = s->tail;
    s->caching = s->opts.cache != NULL;
    s->cache_cursor = 0;
    return 0;
}

uint64_t kv_store_count(const struct kv_store *s, uint32_t database)
{
    return s->index.counts[database];
}

uint64_t kv_store_expires(const struct kv_store *s, uint32_t database)
{
    return s->index.expires[database];
}

struct store_scan {
    uint32_t database;
    void (*visit)(void *ctx, struct kv_entry *e);
    void *ctx;
};

static void store_scan_visit(void *ctx, struct kv_entry *e)
{
    struct store_scan *scan = ctx;

    if (e->database == scan->database)
        scan->visit(scan->ctx, e);
}

uint64_t kv_store_scan(struct kv_store *s, uint32_t database, uint64_t cursor, uint32_t count,
                       void (*visit)(void *ctx, struct kv_entry *e), void *ctx)
{
    struct store_scan scan = {database, visit, ctx};

    return kv_index_scan(&s->index, cursor, count, store_scan_visit, &scan);
}

struct store_random {
    uint32_t database;
    uint64_t random;
    uint64_t now_ms;
    uint64_t seen;
    struct kv_entry *chosen;
};

/* Each of the keys of one step with the same probability. */
static void store_random_visit(void *ctx, struct kv_entry *e)
{
    struct store_random *r = ctx;

    if (e->database != r->database || (e->expire_ms != 0 && e->expire_ms <= r->now_ms))
        return;
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    if ((r->random >> 32) % ++r->seen == 0)
        r->chosen = e;
}

struct kv_entry *kv_store_random(struct kv_store *s, uint32_t database, uint64_t random)
{
    struct store_random r = {.database = database, .random = random};
    uint64_t start = random & ((1u << 24) - 1); /* a shard, and a bucket of it */
    uint64_t cursor = start;

    if (s->index.counts[database] == 0)
        return NULL;
    r.now_ms = kv_store_wall_ms(s);
    do
        cursor = kv_index_scan(&s->index, cursor, 1, store_random_visit, &r);
    while (cursor != 0 && r.chosen == NULL);
    while (r.chosen == NULL) {
        cursor = kv_index_scan(&s->index, cursor, 64, store_random_visit, &r);
        if (cursor == 0)
            break;
    }
    return r.chosen;
}

void kv_store_act_for(struct kv_store *s, uint32_t tenant)
{
    s->tenant = tenant;
}

uint64_t kv_store_tail(const struct kv_store *s)
{
    return s->tail;
}

uint64_t kv_store_absence(const struct kv_store *s)
{
    return s->deletion;
}

uint64_t kv_store_version(const struct kv_store *s)
{
    return s->version;
}

/* ---- Reads from the device ---- */

static void store_read_done(struct kv_file_req *f)
{
    struct kv_read *r = SNIC_CONTAINER(f, struct kv_read, req);
    struct kv_store *s = r->store;
    struct kv_segment *g;
    struct kv_record record;
    const unsigned char *key;
    int64_t n;

    if (kv_store_parked(s, f))
        return;
    g = kv_log_segment(s, r->address / s->opts.segment_bytes);
    SNIC_ASSERT(g != NULL); /* pinned */
    g->pins--;
    kv_store_kick(s);
    if (f->result < 0) {
        r->result = (int)f->result;
    } else if ((uint64_t)f->result != r->bytes) {
        r->result = SNIC_EIO;
    } else {
        n = kv_record_decode(&record, r->buffer, r->bytes, &key, &r->value);
        r->result = n == (int64_t)r->bytes && record.version == r->version && record.file == g->file
                        ? 0
                        : SNIC_ECORRUPT;
        r->key = key;
        r->key_size = record.key_size;
        r->value_size = record.value_size;
    }
    if (r->result != 0) {
        s->stats.errors++;
        kv_store_log(s, 0, "read of %u bytes at log address %llu failed: %s", r->bytes,
                     (unsigned long long)r->address, snic_strerror(r->result));
    }
    r->done(r);
    free(r->buffer);
    free(r);
}

int kv_store_read(struct kv_store *s, const struct kv_entry *e, int modify,
                  void (*done)(struct kv_read *r), void *ctx, uint64_t user)
{
    struct kv_segment *g = kv_log_segment(s, e->address / s->opts.segment_bytes);
    uint32_t bytes = (uint32_t)kv_record_bytes(e->key_size, e->value_size);
    struct kv_read *r = calloc(1, sizeof(*r));

    SNIC_ASSERT(g != NULL);
    if (r == NULL || (r->buffer = malloc(bytes)) == NULL) {
        free(r);
        return SNIC_ENOMEM;
    }
    g->pins++;
    r->store = s;
    r->done = done;
    r->ctx = ctx;
    r->user = user;
    r->version = e->version;
    r->address = e->address;
    r->bytes = bytes;
    r->req.op = KV_FILE_READ;
    r->req.file = g->file;
    r->req.offset = e->address & (s->opts.segment_bytes - 1);
    r->req.size = bytes;
    r->req.data = r->buffer;
    r->req.tenant = s->tenant;
    if (modify)
        kv_store_entry_hash(e, r->req.tag);
    s->stats.device_reads++;
    kv_store_submit(s, &r->req, store_read_done);
    return 0;
}
