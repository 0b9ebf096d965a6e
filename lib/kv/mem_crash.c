/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What is durable in the store in memory: the undo log, crashes, copies, digests, checks.
 */
#include <stdlib.h>

#include "base/xxh.h"
#include "kv/mem_priv.h"

/* ---- The undo log ---- */

int kvmem_undo_reserve(struct snic_kvmem *m, uint64_t n)
{
    if (!m->opts.track || m->undo_count + n <= m->undo_room)
        return 0;
    uint64_t room = snic_pow2_up(m->undo_count + n);
    struct kvmem_undo *undo = realloc(m->undo, room * sizeof(undo[0]));
    if (undo == NULL)
        return SNIC_ENOMEM;
    m->undo = undo;
    m->undo_room = room;
    return 0;
}

static struct kvmem_undo *kvmem_undo_next(struct snic_kvmem *m)
{
    SNIC_ASSERT(m->opts.track && m->undo_count < m->undo_room); /* kvmem_undo_reserve() */
    struct kvmem_undo *u = &m->undo[m->undo_count++];
    memset(u, 0, sizeof(*u));
    u->change = m->changes;
    return u;
}

void kvmem_undo_record(struct snic_kvmem *m, const struct snic_kvop_key *key,
                       struct kvmem_record *old)
{
    struct kvmem_undo *u = kvmem_undo_next(m);
    u->key = *key;
    u->record = old;
}

void kvmem_undo_block(struct snic_kvmem *m, uint64_t object, uint64_t block, int taken,
                      unsigned char *data, uint32_t crc)
{
    struct kvmem_undo *u = kvmem_undo_next(m);
    u->key.group = object;
    u->block = block;
    u->taken = (uint32_t)taken;
    u->data = data;
    u->crc = crc;
}

void kvmem_sync(struct snic_kvmem *m)
{
    for (uint64_t i = 0; i < m->undo_count; i++) {
        free(m->undo[i].record);
        kvmem_block_put(m, m->undo[i].data);
    }
    m->undo_count = 0;
    m->unsynced = 0;
}

/** A record becomes what it was. */
static int kvmem_record_back(struct snic_kvmem *m, const struct kvmem_undo *u)
{
    struct kvmem_record *now = kvmem_find(m, &u->key);
    if (now == NULL && u->record == NULL)
        return 0;
    if (now == NULL) {
        if (kvmem_reserve(m, 1) != 0)
            return SNIC_ENOMEM;
        kvmem_insert(m, u->record);
        m->used += kvmem_record_bytes(u->key.size, u->record->size);
        return 0;
    }
    m->used -= kvmem_record_bytes(u->key.size, now->size);
    if (u->record == NULL) {
        kvmem_remove(m, now);
    } else {
        kvmem_replace(m, now, u->record);
        m->used += kvmem_record_bytes(u->key.size, u->record->size);
    }
    free(now);
    return 0;
}

void snic_kvmem_crash(struct snic_kvmem *m, uint64_t keep)
{
    SNIC_ASSERT(m->opts.track);
    uint64_t last = m->changes - m->unsynced + snic_min_u64(keep, m->unsynced);
    while (m->undo_count > 0 && m->undo[m->undo_count - 1].change > last) {
        const struct kvmem_undo *u = &m->undo[m->undo_count - 1];
        int r = u->key.size != 0 ? kvmem_record_back(m, u) : kvmem_block_set(m, u);
        SNIC_ASSERT(r == 0); /* a crash that cannot be played ends the test */
        m->undo_count--;
    }
    kvmem_sync(m);
    m->crashed = 1;
    m->epoch++;
}

void snic_kvmem_restart(struct snic_kvmem *m)
{
    m->crashed = 0;
}

uint64_t snic_kvmem_changes(const struct snic_kvmem *m)
{
    return m->changes;
}

uint64_t snic_kvmem_unsynced(const struct snic_kvmem *m)
{
    return m->unsynced;
}

/* ---- Copies ---- */

static int kvmem_object_copy(struct snic_kvmem *to, const struct kvmem_object *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        const struct kvmem_chunk *c = o->chunks[i];
        for (uint64_t bits = c->taken; bits != 0; bits &= bits - 1) {
            uint32_t b = (uint32_t)__builtin_ctzll(bits);
            struct kvmem_undo u = {.key.group = o->record.key.group,
                                   .block = c->number * KVMEM_CHUNK + b,
                                   .taken = 1,
                                   .crc = c->crc[b]};
            if (c->data[b] != NULL) {
                u.data = malloc(SNIC_KVOP_BLOCK);
                if (u.data == NULL)
                    return SNIC_ENOMEM;
                memcpy(u.data, c->data[b], SNIC_KVOP_BLOCK);
            }
            if (kvmem_block_set(to, &u) != 0) {
                free(u.data);
                return SNIC_ENOMEM;
            }
        }
    }
    return 0;
}

static int kvmem_record_copy(struct snic_kvmem *to, struct kvmem_record *r)
{
    if (r->key.size == 0)
        return kvmem_object_copy(to, kvmem_object_of(r));
    struct kvmem_record *copy = kvmem_record_make(&r->key, kvmem_value(r), r->size);
    if (copy == NULL || kvmem_reserve(to, 1) != 0) {
        free(copy);
        return SNIC_ENOMEM;
    }
    kvmem_insert(to, copy);
    to->used += kvmem_record_bytes(r->key.size, r->size);
    return 0;
}

int snic_kvmem_clone(const struct snic_kvmem *m, struct snic_kvmem **out)
{
    struct snic_kvmem *copy = NULL;
    int r = snic_kvmem_open(&copy, &m->opts);
    struct kvmem_pos p = kvmem_begin(m);
    struct kvmem_record *next = r == 0 ? kvmem_at(&p) : NULL;
    for (; next != NULL && r == 0; p.at++, next = kvmem_at(&p))
        r = kvmem_record_copy(copy, next);
    if (r != 0) {
        if (copy != NULL)
            snic_kvmem_close(copy);
        return SNIC_ENOMEM;
    }
    copy->damaged = m->damaged;
    *out = copy;
    return 0;
}

/* ---- Digest, damage, check ---- */

static void kvmem_object_digest(XXH3_state_t *x, const struct kvmem_object *o)
{
    static const unsigned char zeros[SNIC_KVOP_BLOCK];
    for (uint32_t i = 0; i < o->count; i++) {
        const struct kvmem_chunk *c = o->chunks[i];
        for (uint64_t bits = c->taken; bits != 0; bits &= bits - 1) {
            uint32_t b = (uint32_t)__builtin_ctzll(bits);
            uint64_t block = c->number * KVMEM_CHUNK + b;
            (void)XXH3_64bits_update(x, &block, sizeof(block));
            (void)XXH3_64bits_update(x, c->data[b] == NULL ? zeros : c->data[b], SNIC_KVOP_BLOCK);
        }
    }
}

uint64_t snic_kvmem_digest(const struct snic_kvmem *m)
{
    XXH3_state_t x;
    XXH3_INITSTATE(&x);
    (void)XXH3_64bits_reset(&x);
    struct kvmem_pos p = kvmem_begin(m);
    for (struct kvmem_record *r = kvmem_at(&p); r != NULL; p.at++, r = kvmem_at(&p)) {
        uint64_t size = r->size;
        (void)XXH3_64bits_update(&x, &r->key, sizeof(r->key));
        (void)XXH3_64bits_update(&x, &size, sizeof(size));
        if (r->key.size == 0)
            kvmem_object_digest(&x, kvmem_object_of(r));
        else
            (void)XXH3_64bits_update(&x, kvmem_value(r), r->size);
    }
    return XXH3_64bits_digest(&x);
}

int snic_kvmem_damage(struct snic_kvmem *m, uint64_t object, uint64_t offset)
{
    const struct kvmem_object *o = kvmem_object_find(m, object);
    uint64_t block = offset / SNIC_KVOP_BLOCK;
    for (uint32_t i = 0; o != NULL && i < o->count; i++) {
        unsigned char *data = o->chunks[i]->data[block % KVMEM_CHUNK];
        if (o->chunks[i]->number != block / KVMEM_CHUNK || data == NULL)
            continue;
        data[offset % SNIC_KVOP_BLOCK] ^= 0x5a;
        m->damaged = 1;
        return 0;
    }
    return SNIC_ENOENT;
}

int snic_kvmem_check(const struct snic_kvmem *m)
{
    uint64_t used = 0;
    int r = kvmem_tree_check(m);
    struct kvmem_pos p = kvmem_begin(m);
    struct kvmem_record *next = r == 0 ? kvmem_at(&p) : NULL;
    for (; next != NULL && r == 0; p.at++, next = kvmem_at(&p)) {
        if (next->key.size != 0) {
            used += kvmem_record_bytes(next->key.size, next->size);
            continue;
        }
        r = kvmem_object_check(m, kvmem_object_of(next));
        used += kvmem_object_of(next)->blocks * SNIC_KVOP_BLOCK;
    }
    for (uint64_t i = 1; i < m->undo_count && r == 0; i++) {
        if (m->undo[i - 1].change > m->undo[i].change)
            r = SNIC_ECORRUPT;
    }
    return r != 0 || used != m->used || m->unsynced > m->changes ? SNIC_ECORRUPT : 0;
}
