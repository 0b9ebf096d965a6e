/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store from outside: options, memory, the beginning and the end, operations, looking. The map
 * and the invariants are at the head of store_priv.h.
 */
#include "store_priv.h"

#define STORE_LOOKS 16 /* that are fetched at the same time */

/* ---- Options ---- */

static void store_default(uint32_t *v, uint32_t value)
{
    if (*v == 0)
        *v = value;
}

/* The secret of the names: another cluster has others. */
static void store_derive(unsigned char key[16], uint64_t cluster)
{
    static const unsigned char zero[16] = {0};
    unsigned char bytes[8];
    uint64_t out[2];
    if (memcmp(key, zero, 16) != 0)
        return;
    snic_put_le64(bytes, cluster);
    snic_siphash128((const unsigned char *)"snicstore.store.", bytes, sizeof(bytes), out);
    snic_put_le64(key, out[0]);
    snic_put_le64(key + 8, out[1]);
}

/* The replica's options, for values with their envelopes. */
static const char *store_replica_opts(const struct snic_store_opts *o,
                                      struct snic_replica_opts *out)
{
    memset(out, 0, sizeof(*out));
    if (o->replica == NULL)
        return "replica: NULL";
    if (snic_opts_copy(out, sizeof(*out), o->replica) != 0)
        return "replica: its opts_size is not the struct's, or an unknown option is set";
    out->value_max = o->value_max + SNIC_STORE__FRONT;
    out->changed = store_changed;
    return snic_replica_opts_wrong(out);
}

static const char *store_sizes_wrong(const struct snic_store_opts *o)
{
    if (o->flags != 0)
        return "flags: an unknown one is set";
    if (o->replica != NULL && o->replica->changed != NULL)
        return "replica: its option changed is the store's";
    if (o->pad != 0)
        return "pad: not 0";
    if (o->value_max > SNIC_STORE_VALUE_MAX)
        return "value_max: more than SNIC_STORE_VALUE_MAX";
    if (o->sessions_max > SNIC_STORE_SESSIONS_MAX)
        return "sessions_max: more than SNIC_STORE_SESSIONS_MAX";
    if (o->session_window_ns > UINT64_C(1) << 60)
        return "session_window_ns: more than 2^60";
    if (o->changes_max > 1u << 24 || !snic_is_pow2(o->changes_max))
        return "changes_max: more than 2^24, or no power of two";
    if (o->changes_bytes > UINT64_C(1) << 36 || o->changes_bytes < o->value_max)
        return "changes_bytes: more than 2^36, or less than value_max";
    if (o->ops_max > 1u << 20)
        return "ops_max: more than 2^20";
    if (o->tries_max > 1u << 20)
        return "tries_max: more than 2^20";
    return NULL;
}

/* The options of @p from with their defaults, and what is wrong with them; NULL: nothing. */
static const char *store_options(struct snic_store_opts *o, struct snic_replica_opts *r,
                                 const struct snic_store_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    store_default(&o->value_max, 65536);
    store_default(&o->sessions_max, 8);
    store_default(&o->tries_max, 64);
    store_default(&o->changes_max, 1024);
    store_default(&o->ops_max, 1024);
    if (o->session_window_ns == 0)
        o->session_window_ns = UINT64_C(600000000000);
    if (o->changes_bytes == 0)
        o->changes_bytes = (uint64_t)o->value_max + (1u << 20);
    const char *wrong = store_sizes_wrong(o);
    if (wrong == NULL)
        wrong = store_replica_opts(o, r);
    if (wrong == NULL)
        store_derive(o->hash_key, r->cluster);
    return wrong;
}

/* ---- Memory ---- */

/* Once to measure, once to place. */
static void store_layout(struct snic_arena *a, const struct snic_store_opts *o,
                         const struct snic_replica_opts *r, struct store_parts *out)
{
    uint64_t buckets = snic_pow2_up(o->ops_max);
    out->replica = snic_arena_take(a, 1, snic_replica_memsize(r), SNIC_STORE_ALIGN);
    out->buffer = snic_arena_take(a, 1, (size_t)SNIC_STORE__FRONT + o->value_max, 64);
    out->list = snic_arena_take(a, SNIC_STORE_SESSIONS_MAX, SNIC_STORE__SESSION, 64);
    out->active = snic_arena_take(a, buckets, sizeof(out->active[0]), 64);
    out->active_mask = (uint32_t)buckets - 1;
    out->records = snic_replica_records(r);
    out->nodes = snic_arena_take(a, out->records, sizeof(out->nodes[0]), 64);
    out->heap = snic_arena_take(a, out->records, sizeof(out->heap[0]), 64);
    out->ring = snic_arena_take(a, o->changes_max, sizeof(out->ring[0]), 64);
    out->expiries_max = store_expiries(o, r);
    out->expiries = snic_arena_take(a, out->expiries_max, sizeof(out->expiries[0]), 64);
}

const char *snic_store_opts_wrong(const struct snic_store_opts *opts)
{
    struct snic_store_opts o;
    struct snic_replica_opts r;
    return store_options(&o, &r, opts);
}

size_t snic_store_memsize(const struct snic_store_opts *opts)
{
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    struct snic_store_opts o;
    struct snic_replica_opts r;
    struct store_parts parts;
    if (store_options(&o, &r, opts) != NULL)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(struct snic_store), SNIC_STORE_ALIGN);
    store_layout(&a, &o, &r, &parts);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int snic_store_init(struct snic_store **out, void *mem, size_t mem_size,
                    const struct snic_store_opts *opts)
{
    struct snic_arena a = {mem, mem_size, 0};
    struct snic_store_opts o;
    struct snic_replica_opts r;
    if (store_options(&o, &r, opts) != NULL || (uintptr_t)mem % SNIC_STORE_ALIGN != 0)
        return SNIC_EINVAL;
    if (mem_size < snic_store_memsize(opts))
        return SNIC_ENOSPC;
    struct snic_store *s = snic_arena_take(&a, 1, sizeof(*s), SNIC_STORE_ALIGN);
    memset(s, 0, sizeof(*s));
    store_layout(&a, &o, &r, &s->p);
    SNIC_ASSERT(a.used != SIZE_MAX);
    memset(s->p.active, 0, ((size_t)s->p.active_mask + 1) * sizeof(s->p.active[0]));
    memset(s->p.nodes, 0, (size_t)s->p.records * sizeof(s->p.nodes[0]));
    s->o = o;
    s->o.replica = NULL; /* copied */
    s->loop = r.loop;
    s->node = r.node;
    s->model = r.model;
    s->boot = r.incarnation;
    s->clock = r.clock;
    s->ctx = r.ctx;
    snic_link_init(&s->ready);
    snic_link_init(&s->paused);
    snic_timer_init(&s->deliver, store_deliver_fire);
    snic_timer_init(&s->resume, store_resume_fire);
    snic_timer_init(&s->expiry, store_expire_fire);
    store_expire_init(s);
    snic_timer_init(&s->wake, store_wake_fire);
    snic_link_init(&s->watches);
    s->root = s->held = SNIC_STORE__NIL;
    s->generation = 1;
    store_watch_reset(s);
    r.changed_ctx = s;
    int result = snic_replica_init(&s->replica, s->p.replica, snic_replica_memsize(&r), &r);
    if (result == 0)
        *out = s;
    return result;
}

/* ---- The end ---- */

void snic_store_stop(struct snic_store *s)
{
    if (s->stopped)
        return;
    s->stopped = 1;
    snic_replica_stop(s->replica);
    snic_loop_arm(s->loop, &s->resume, 0); /* what is paused, and all that wait for it, ends */
}

void *snic_store_fini(struct snic_store *s)
{
    SNIC_ASSERT(s->stopped);
    (void)snic_replica_fini(s->replica);
    snic_loop_cancel(s->loop, &s->deliver);
    snic_loop_cancel(s->loop, &s->resume);
    snic_loop_cancel(s->loop, &s->expiry);
    snic_loop_cancel(s->loop, &s->wake);
    return s;
}

struct snic_replica *snic_store_replica(struct snic_store *s)
{
    return s->replica;
}

/* ---- Operations ---- */

static int store_op_wrong(const struct snic_store *s, const struct snic_store_op *op)
{
    const uint32_t of_kind[] = {0,
                                SNIC_STORE_CONFIRM,
                                SNIC_STORE_KEEP_TTL | SNIC_STORE_OLD,
                                SNIC_STORE_OLD | SNIC_STORE_EXACT,
                                SNIC_STORE_KEEP_TTL | SNIC_STORE_OLD,
                                SNIC_STORE_OLD,
                                0};
    if (op->kind < SNIC_STORE_GET || op->kind > SNIC_STORE_SYNC ||
        (op->flags & ~of_kind[op->kind]) != 0 || op->condition > SNIC_STORE_IF_VERSION)
        return SNIC_EINVAL;
    int bare = op->kind == SNIC_STORE_GET || op->kind == SNIC_STORE_SYNC;
    if (bare && (op->condition != 0 || op->client != 0))
        return SNIC_EINVAL;
    if ((op->key == NULL && op->key_size != 0) || (op->client != 0 && op->sequence == 0) ||
        (op->modify == NULL && op->kind == SNIC_STORE_MODIFY) ||
        op->durability >= SNIC_STORE_DURABILITIES || op->copies_min > UINT16_MAX)
        return SNIC_EINVAL;
    if (op->key_size > SNIC_STORE_KEY_MAX)
        return SNIC_EMSGSIZE;
    if (op->kind != SNIC_STORE_PUT)
        return 0;
    if (op->data == NULL && op->size != 0)
        return SNIC_EINVAL;
    return op->size > s->o.value_max ? SNIC_EMSGSIZE : 0;
}

int snic_store_submit(struct snic_store *s, struct snic_store_op *op)
{
    SNIC_ASSERT(op->done != NULL && op->state == STORE_OP_FREE);
    int result = store_op_wrong(s, op);
    if (result != 0)
        return result;
    if (s->stopped)
        return SNIC_ESTALE;
    op->store = s;
    op->begun_ns = store_now(s);
    op->out = 0;
    op->expiry = 0;
    op->value = 0;
    op->copies = 0;
    snic_link_init(&op->link);
    if (op->kind != SNIC_STORE_SYNC)
        store_name(s, op->key, op->key_size, &op->hash);
    if (op->client != 0 && op->age_ns > s->o.session_window_ns) {
        op->state = STORE_OP_READING;
        op->out = SNIC_STORE_NOT_TRIED;
        s->stats.unknown++;
        store_finish_later(op, SNIC_EUNKNOWN);
        return 0;
    }
    int reads = op->condition != SNIC_STORE_ALWAYS || op->client != 0 ||
                (op->flags & ~(uint32_t)SNIC_STORE_CONFIRM) != 0 || op->kind == SNIC_STORE_MODIFY ||
                op->kind == SNIC_STORE_EXPIRE;
    return reads ? store_change_begin(op) : store_plain_begin(op);
}

uint64_t snic_store_scope(struct snic_store *s)
{
    return snic_replica_scope(s->replica);
}

/* ---- Looking ---- */

/* The record @p n of the name of the key. */
static int store_entry(const struct snic_store *s, const struct snic_replica_entry *n,
                       const void *key, uint32_t key_size, struct snic_store_entry *out)
{
    struct store_envelope e;
    if (store_envelope_get(n->data, n->size, &e) != 0)
        return SNIC_ECORRUPT;
    int other = e.key_size != key_size || (key_size != 0 && memcmp(e.key, key, key_size) != 0);
    if (!other && (e.flags & SNIC_STORE__DELETED) != 0)
        return SNIC_ENOENT;
    memset(out, 0, sizeof(*out));
    out->key = e.key;
    out->key_size = e.key_size;
    if (other)
        return SNIC_EEXIST;
    out->data = e.data;
    out->size = e.size;
    out->version = n->ts;
    out->ttl_ns = e.ttl_ns != 0 ? store_ttl_left(s, n->record) : 0;
    out->value = n->value;
    return 0;
}

static void store_look_some(const struct snic_store *s, struct snic_store_lookup *looks, uint32_t n)
{
    struct snic_ddp_key names[STORE_LOOKS];
    struct snic_replica_entry entries[STORE_LOOKS];
    int results[STORE_LOOKS];
    for (uint32_t i = 0; i < n; i++) /* one that is too large has no name to be found by */
        store_name(s, looks[i].key, looks[i].key_size <= SNIC_STORE_KEY_MAX ? looks[i].key_size : 0,
                   &names[i]);
    snic_replica_look_many(s->replica, names, n, entries, results);
    for (uint32_t i = 0; i < n; i++) {
        struct snic_store_lookup *l = &looks[i];
        l->result = l->key_size > SNIC_STORE_KEY_MAX ? SNIC_EMSGSIZE : results[i];
        if (l->result == 0)
            l->result = store_entry(s, &entries[i], l->key, l->key_size, &l->entry);
    }
}

void snic_store_look_many(const struct snic_store *s, struct snic_store_lookup *looks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += STORE_LOOKS)
        store_look_some(s, looks + i, (uint32_t)snic_min_u64(n - i, STORE_LOOKS));
}

int snic_store_look(const struct snic_store *s, const void *key, uint32_t key_size,
                    struct snic_store_entry *out)
{
    struct snic_store_lookup l = {.key = key, .key_size = key_size};
    store_look_some(s, &l, 1);
    if (l.result == 0 || l.result == SNIC_EEXIST)
        *out = l.entry;
    return l.result;
}

void snic_store_hold(struct snic_store *s, uint64_t value)
{
    snic_replica_hold(s->replica, value);
}

void snic_store_drop(struct snic_store *s, uint64_t value)
{
    snic_replica_drop(s->replica, value);
}

void snic_store_get_stats(const struct snic_store *s, struct snic_store_stats *out)
{
    *out = s->stats;
    out->changing = s->changing;
    out->expiring = s->heap_count;
}

const struct snic_hist *snic_store_latency(const struct snic_store *s, uint32_t class_of,
                                           uint32_t durability)
{
    return class_of < SNIC_STORE_CLASSES && durability < SNIC_STORE_DURABILITIES
               ? &s->latency[class_of][durability]
               : NULL;
}

/* The index, the TTLs and the ring against the replica's records. */
static int store_records_check(const struct snic_store *s)
{
    struct snic_replica_entry entry;
    struct store_envelope e;
    struct snic_ddp_key name;
    uint64_t cursor = 0;
    uint32_t count, have = 0;
    if (store_index_check(s, &count) != 0 || count != s->stats.keys || store_expire_check(s) != 0 ||
        store_watch_check(s) != 0)
        return SNIC_ECORRUPT;
    while (snic_replica_next(s->replica, &cursor, &entry) == 0) {
        if (entry.data == NULL || store_envelope_get(entry.data, entry.size, &e) != 0)
            continue;
        store_name(s, e.key, e.key_size, &name);
        if (name.w[0] != entry.key.w[0] || name.w[1] != entry.key.w[1])
            continue; /* of no store, as the former */
        const struct store_node *k = &s->p.nodes[entry.record];
        if (!store_node_in(s, entry.record) || k->value != entry.value || k->ts != entry.ts ||
            (k->flags & STORE_N_LOCKED) != 0 || (k->heap != 0) != (e.ttl_ns != 0)) /* X1 */
            return SNIC_ECORRUPT;
        have++;
    }
    return have <= count ? 0 : SNIC_ECORRUPT;
}

int snic_store_check(const struct snic_store *s)
{
    uint32_t changing = 0;
    for (uint32_t i = 0; i <= s->p.active_mask; i++) {
        for (const struct snic_store_op *op = s->p.active[i]; op != NULL; op = op->next) {
            if (op->store != s || op->state < STORE_OP_READING || op->state > STORE_OP_PAUSED)
                return SNIC_ECORRUPT;
            changing++;
            for (const struct snic_link *l = op->queue.next; l != &op->queue; l = l->next)
                changing += SNIC_CONTAINER(l, struct snic_store_op, link)->state ==
                            STORE_OP_WAITING; /* S2 */
        }
    }
    if (changing != s->changing || store_records_check(s) != 0)
        return SNIC_ECORRUPT;
    return snic_replica_check(s->replica);
}

#undef STORE_LOOKS
