/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Stripes on RADOS: their cached state, and the operations that change one.
 *
 * A write into blocks that are taken is one operation, guarded by the generation. A write that
 * takes blocks is one operation, guarded by generation and map, which sets the new map; a stripe
 * other than 0 that is new is listed in the group's object before. An unknown state is read first,
 * unless a new stripe is likely (`guess`).
 */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

enum { KV_RADOS_MAP = 64, KV_RADOS_GENERATION = 16 };

/* ---- Turns ---- */

/** The part no longer holds the stripe: continue those that wait for it. */
static void kv_rados_part_release(struct kv_rados_part *p)
{
    struct snic_link waiters;
    struct kv_rados_stripe *s = p->stripe;
    if (!p->holds)
        return;
    p->holds = 0;
    s->busy = 0;
    snic_link_init(&waiters);
    while (!snic_link_alone(&s->waiters)) {
        struct snic_link *l = s->waiters.next;
        snic_link_remove(l);
        snic_link_append(&waiters, l);
    }
    while (!snic_link_alone(&waiters)) {
        struct kv_rados_part *w = SNIC_CONTAINER(waiters.next, struct kv_rados_part, link);
        snic_link_remove(&w->link);
        kv_rados_part_run(w);
    }
}

/** Make the stripe busy, or wait until it is not. */
static int kv_rados_part_hold(struct kv_rados_part *p)
{
    if (p->holds)
        return 1;
    if (p->stripe->busy) {
        snic_link_append(&p->stripe->waiters, &p->link);
        return 0;
    }
    p->stripe->busy = 1;
    p->holds = 1;
    return 1;
}

static void kv_rados_part_end(struct kv_rados_part *p)
{
    struct kv_rados_call *c = p->call;
    kv_rados_part_release(p);
    kv_rados_put(c);
}

void kv_rados_part_abort(struct kv_rados_part *p)
{
    if (snic_link_alone(&p->link))
        return; /* an operation of it is in flight, or it has ended */
    snic_link_remove(&p->link);
    kv_rados_put(p->call);
}

/* ---- The state of a stripe ---- */

static void kv_rados_part_looked(struct kv_rados_sub *u, int result)
{
    struct kv_rados_part *p = u->part;
    struct kv_rados_stripe *s = p->stripe;
    char *key, *value;
    size_t key_size, value_size;
    if (result < 0 && result != -2) {
        kv_rados_fail(p->call, result);
        kv_rados_part_end(p);
        return;
    }
    memset(s->map, 0, sizeof(s->map));
    s->generation = (struct kv_rados_generation){0, 0};
    s->live = 0;
    while (result == 0 && u->iter != NULL &&
           rados_omap_get_next2(u->iter, &key, &value, &key_size, &value_size) == 0 &&
           key != NULL) {
        if (key[1] == 'g' && value_size == KV_RADOS_GENERATION) {
            s->generation.client = snic_get_le64(value);
            s->generation.number = snic_get_le64(value + 8);
            s->live = 1;
        } else if (key[1] == 'm' && value_size == KV_RADOS_MAP) {
            for (uint32_t i = 0; i < KV_RADOS_WORDS; i++)
                s->map[i] = snic_get_le64(value + 8 * i);
        } else {
            p->call->error = SNIC_ECORRUPT;
        }
    }
    s->known = 1;
    p->fresh = 1;
    if (p->call->error == 0 && p->kind != KV_RADOS_LOOK)
        kv_rados_part_run(p);
    else
        kv_rados_part_end(p);
}

/** Read the stripe's state, then continue. The stripe is busy meanwhile. */
static void kv_rados_part_look(struct kv_rados_part *p)
{
    static const char *const keys[2] = {"!g", "!m"};
    static const size_t sizes[2] = {2, 2};
    char name[KV_RADOS_NAME];
    if (!kv_rados_part_hold(p))
        return;
    struct kv_rados_sub *u = kv_rados_sub(p->call->store, p->call);
    u->part = p;
    u->read = rados_create_read_op();
    rados_read_op_omap_get_vals_by_keys2(u->read, keys, 2, sizes, &u->iter, &u->iter_result);
    kv_rados_stripe_name(name, p->stripe->object, p->stripe->number);
    kv_rados_send(u, name, kv_rados_part_looked);
}

/* ---- Changing a stripe ---- */

static void kv_rados_put_state(rados_write_op_t op, const struct kv_rados_generation *g,
                               const uint64_t *map)
{
    static const char *const keys[2] = {"!g", "!m"};
    static const size_t key_sizes[2] = {2, 2};
    static const size_t sizes[2] = {KV_RADOS_GENERATION, KV_RADOS_MAP};
    char values[2][KV_RADOS_MAP];
    const char *list[2] = {values[0], values[1]};
    snic_put_le64(values[0], g->client);
    snic_put_le64(values[0] + 8, g->number);
    for (uint32_t i = 0; i < KV_RADOS_WORDS; i++)
        snic_put_le64(values[1] + 8 * i, map[i]);
    rados_write_op_omap_set2(op, keys, list, key_sizes, sizes, 2);
}

/** R1. */
static void kv_rados_guard_state(rados_write_op_t op, const struct kv_rados_stripe *s, int live,
                                 int map)
{
    char value[KV_RADOS_MAP];
    snic_put_le64(value, s->generation.client);
    snic_put_le64(value + 8, s->generation.number);
    rados_write_op_omap_cmp2(op, "!g", LIBRADOS_CMPXATTR_OP_EQ, value, 2,
                             live ? KV_RADOS_GENERATION : 0, NULL);
    if (!live || !map)
        return;
    for (uint32_t i = 0; i < KV_RADOS_WORDS; i++)
        snic_put_le64(value + 8 * i, s->map[i]);
    rados_write_op_omap_cmp2(op, "!m", LIBRADOS_CMPXATTR_OP_EQ, value, 2, KV_RADOS_MAP, NULL);
}

/** The change has happened: p->generation and p->map are the stripe's. */
static void kv_rados_part_done(struct kv_rados_part *p)
{
    struct kv_rados_stripe *s = p->stripe;
    static const uint64_t none[KV_RADOS_WORDS];
    if (p->holds) {
        int64_t before = kv_rados_map_count(s->known && s->live ? s->map : none);
        p->call->allocated += (kv_rados_map_count(p->map) - before) * (int64_t)SNIC_KVOP_BLOCK;
        s->generation = p->generation;
        memcpy(s->map, p->map, sizeof(s->map));
        s->live = !p->gone;
        s->known = 1;
    }
    kv_rados_part_end(p);
}

static void kv_rados_part_changed(struct kv_rados_sub *u, int result)
{
    struct kv_rados_part *p = u->part;
    struct kv_rados_stripe *s = p->stripe;
    if (result >= 0) {
        kv_rados_part_done(p);
        return;
    }
    if (p->holds || result == -125 || result == -2)
        s->known = 0;
    p->gone = 0;
    if (u->aborted || (result != -125 && result != -2)) {
        kv_rados_fail(p->call, result);
    } else if (!p->commit || !kv_rados_commit_failed(u)) {
        p->guess = 0; /* another handle has changed it: read its state, and retry */
        p->fresh = 0;
        p->listed = 0;
        kv_rados_part_release(p);
        kv_rados_part_run(p);
        return;
    }
    kv_rados_part_end(p);
}

static struct kv_rados_sub *kv_rados_part_begin(struct kv_rados_part *p, int live, int map)
{
    struct kv_rados_sub *u = kv_rados_sub(p->call->store, p->call);
    u->part = p;
    u->write = rados_create_write_op();
    if (!live)
        rados_write_op_create(u->write, LIBRADOS_CREATE_IDEMPOTENT, NULL);
    if (p->commit)
        kv_rados_commit_guards(u);
    kv_rados_guard_state(u->write, p->stripe, live, map);
    return u;
}

static void kv_rados_part_send(struct kv_rados_part *p, struct kv_rados_sub *u)
{
    char name[KV_RADOS_NAME];
    kv_rados_stripe_name(name, p->stripe->object, p->stripe->number);
    kv_rados_send(u, name, kv_rados_part_changed);
}

static void kv_rados_part_write(struct kv_rados_part *p)
{
    struct kv_rados_stripe *s = p->stripe;
    int live = s->known && s->live;
    struct kv_rados_sub *u = kv_rados_part_begin(p, live, p->holds);
    if (p->kind == KV_RADOS_WRITE)
        rados_write_op_write(u->write, (const char *)p->data, p->to - p->from, p->from);
    else
        rados_write_op_zero(u->write, p->from, p->to - p->from);
    if (p->holds)
        kv_rados_put_state(u->write, &p->generation, p->map);
    if (p->commit)
        kv_rados_commit_changes(u);
    kv_rados_part_send(p, u);
}

static void kv_rados_part_listed(struct kv_rados_sub *u, int result)
{
    struct kv_rados_part *p = u->part;
    if (result < 0 || kv_rados_dead(p->call)) {
        if (result < 0)
            kv_rados_fail(p->call, result);
        kv_rados_part_end(p);
        return;
    }
    p->listed = 1;
    kv_rados_part_write(p);
}

/** R2: enter the stripe in the group's list. */
static void kv_rados_part_list(struct kv_rados_part *p)
{
    char key[KV_RADOS_NAME];
    char name[KV_RADOS_NAME];
    char value[KV_RADOS_GENERATION];
    const char *keys[1] = {key};
    const char *values[1] = {value};
    struct kv_rados_sub *u = kv_rados_sub(p->call->store, p->call);
    u->part = p;
    kv_rados_stripe_list_key(key, p->stripe->number);
    size_t key_size = strlen(key);
    size_t size = sizeof(value);
    snic_put_le64(value, p->generation.client);
    snic_put_le64(value + 8, p->generation.number);
    u->write = rados_create_write_op();
    rados_write_op_omap_set2(u->write, keys, values, &key_size, &size, 1);
    kv_rados_group_name(name, p->stripe->object);
    kv_rados_send(u, name, kv_rados_part_listed);
}

static void kv_rados_part_fill(struct kv_rados_part *p)
{
    struct kv_rados_stripe *s = p->stripe;
    struct kv_rados *k = p->call->store;
    int live = s->known && s->live;
    uint32_t first = p->from / SNIC_KVOP_BLOCK;
    uint32_t end = (p->to + SNIC_KVOP_BLOCK - 1) / SNIC_KVOP_BLOCK;
    memset(p->map, 0, sizeof(p->map));
    if (live)
        memcpy(p->map, s->map, sizeof(p->map));
    kv_rados_map_set(p->map, first, end, 1);
    if (live && memcmp(p->map, s->map, sizeof(p->map)) == 0) {
        kv_rados_part_release(p); /* nothing of the state changes */
        kv_rados_part_write(p);
        return;
    }
    if (!kv_rados_part_hold(p))
        return;
    p->generation = s->generation;
    if (!live)
        p->generation = (struct kv_rados_generation){k->client, ++k->generations};
    if (!live && s->number != 0 && !p->listed)
        kv_rados_part_list(p);
    else
        kv_rados_part_write(p);
}

/** Remove bytes and blocks of the part; p->map is the rest. */
static void kv_rados_part_cut(struct kv_rados_part *p, rados_write_op_t op)
{
    static const char *const keys[2] = {"!g", "!m"};
    static const size_t sizes[2] = {2, 2};
    struct kv_rados *k = p->call->store;
    p->gone = kv_rados_map_count(p->map) == 0;
    p->generation = (struct kv_rados_generation){k->client, ++k->generations};
    if (p->gone && p->stripe->number != 0) {
        rados_write_op_remove(op);
        return;
    }
    if (p->to == KV_RADOS_STRIPE)
        rados_write_op_truncate(op, p->from);
    else
        rados_write_op_zero(op, p->from, p->to - p->from);
    if (p->gone)
        rados_write_op_omap_rm_keys2(op, keys, sizes, 2);
    else
        kv_rados_put_state(op, &p->generation, p->map);
}

/** The state after a punch; the part holds the stripe when blocks are freed. */
static void kv_rados_part_punch(struct kv_rados_part *p)
{
    struct kv_rados_stripe *s = p->stripe;
    uint32_t first = (p->from + SNIC_KVOP_BLOCK - 1) / SNIC_KVOP_BLOCK;
    uint32_t end = p->to / SNIC_KVOP_BLOCK;
    int all = p->from == 0 && p->to == KV_RADOS_STRIPE;
    memcpy(p->map, s->map, sizeof(p->map));
    if (first < end)
        kv_rados_map_set(p->map, first, end, 0);
    int shrinks = s->live && memcmp(p->map, s->map, sizeof(p->map)) != 0;
    int edges =
        s->live &&
        ((p->from % SNIC_KVOP_BLOCK != 0 && kv_rados_map_bit(s->map, p->from / SNIC_KVOP_BLOCK)) ||
         (p->to % SNIC_KVOP_BLOCK != 0 && kv_rados_map_bit(s->map, p->to / SNIC_KVOP_BLOCK)));
    if (!shrinks && !edges && !p->fresh) {
        kv_rados_part_look(p);
        return;
    }
    if (!shrinks && !edges && !p->commit) {
        /* Listed, and does not exist: another handle may be about to create it (R2). */
        p->gone = all && !s->live && p->call->whole;
        kv_rados_part_end(p);
        return;
    }
    if (!kv_rados_part_hold(p))
        return;
    struct kv_rados_sub *u = kv_rados_part_begin(p, s->live, 1);
    p->generation = s->generation;
    p->gone = !s->live;
    if (shrinks || edges)
        kv_rados_part_cut(p, u->write);
    if (p->commit)
        kv_rados_commit_changes(u);
    kv_rados_part_send(p, u);
}

void kv_rados_part_run(struct kv_rados_part *p)
{
    if (kv_rados_dead(p->call)) {
        kv_rados_part_end(p);
        return;
    }
    if (!p->stripe->known && p->stripe->busy && !p->holds) {
        (void)kv_rados_part_hold(p); /* wait: the part that holds it reads its state */
        return;
    }
    if (p->kind == KV_RADOS_LOOK || (!p->stripe->known && !p->guess))
        kv_rados_part_look(p);
    else if (p->kind == KV_RADOS_PUNCH)
        kv_rados_part_punch(p);
    else
        kv_rados_part_fill(p);
}

#else
typedef int kv_rados_stripe_is_empty;
#endif /* SNIC_WITH_RADOS */
