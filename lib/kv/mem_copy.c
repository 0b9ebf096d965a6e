/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Copies, digests, damage and the check of the store in memory. */
#include <stdlib.h>

#include "base/xxh.h"
#include "kv/mem_priv.h"

/* ---- Copies ---- */

static int kv_mem_object_copy(struct snic_kvmem *to, const struct kv_mem_object *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        const struct kv_mem_chunk *c = o->chunks[i];
        for (uint64_t bits = c->taken; bits != 0; bits &= bits - 1) {
            uint32_t b = (uint32_t)__builtin_ctzll(bits);
            struct kv_mem_undo u = {.key.group = o->record.key.group,
                                    .block = c->number * KVMEM_CHUNK + b,
                                    .taken = 1,
                                    .crc = c->crc[b]};
            if (c->data[b] != NULL) {
                u.data = malloc(SNIC_KVOP_BLOCK);
                if (u.data == NULL)
                    return SNIC_ENOMEM;
                memcpy(u.data, c->data[b], SNIC_KVOP_BLOCK);
            }
            if (kv_mem_block_set(to, &u) != 0) {
                free(u.data);
                return SNIC_ENOMEM;
            }
        }
    }
    return 0;
}

static int kv_mem_record_copy(struct snic_kvmem *to, struct kv_mem_record *r)
{
    if (r->key.size == 0)
        return kv_mem_object_copy(to, kv_mem_object_of(r));
    struct kv_mem_record *copy = kv_mem_record_make(to, &r->key, kv_mem_value(r), r->size);
    if (copy == NULL || kv_mem_reserve(to, 1) != 0) {
        kv_mem_record_free(to, copy);
        return SNIC_ENOMEM;
    }
    copy->damaged = r->damaged;
    kv_mem_insert(to, copy);
    to->used += kv_mem_record_bytes(r->key.size, r->size);
    return 0;
}

int snic_kvmem_clone(const struct snic_kvmem *m, struct snic_kvmem **out)
{
    struct snic_kvmem *copy = NULL;
    int r = snic_kvmem_open(&copy, &m->opts);
    struct kv_mem_pos p = kv_mem_begin(m);
    struct kv_mem_record *next = r == 0 ? kv_mem_at(&p) : NULL;
    for (; next != NULL && r == 0; p.at++, next = kv_mem_at(&p))
        r = kv_mem_record_copy(copy, next);
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

static void kv_mem_object_digest(XXH3_state_t *x, const struct kv_mem_object *o)
{
    static const unsigned char zeros[SNIC_KVOP_BLOCK];
    for (uint32_t i = 0; i < o->count; i++) {
        const struct kv_mem_chunk *c = o->chunks[i];
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
    struct kv_mem_pos p = kv_mem_begin(m);
    for (struct kv_mem_record *r = kv_mem_at(&p); r != NULL; p.at++, r = kv_mem_at(&p)) {
        uint64_t size = r->size;
        (void)XXH3_64bits_update(&x, &r->key, sizeof(r->key));
        (void)XXH3_64bits_update(&x, &size, sizeof(size));
        if (r->key.size == 0)
            kv_mem_object_digest(&x, kv_mem_object_of(r));
        else
            (void)XXH3_64bits_update(&x, kv_mem_value(r), r->size);
    }
    return XXH3_64bits_digest(&x);
}

int snic_kvmem_damage(struct snic_kvmem *m, uint64_t object, uint64_t offset)
{
    const struct kv_mem_object *o = kv_mem_object_find(m, object);
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

int snic_kvmem_damage_record(struct snic_kvmem *m, const struct snic_kvop_key *key)
{
    struct kv_mem_record *r = key->size == 0 ? NULL : kv_mem_find(m, key);
    if (r == NULL)
        return SNIC_ENOENT;
    r->damaged = 1;
    return 0;
}

int snic_kvmem_check(const struct snic_kvmem *m)
{
    uint64_t used = 0;
    int r = kv_mem_tree_check(m);
    struct kv_mem_pos p = kv_mem_begin(m);
    struct kv_mem_record *next = r == 0 ? kv_mem_at(&p) : NULL;
    for (; next != NULL && r == 0; p.at++, next = kv_mem_at(&p)) {
        if (next->key.size != 0) {
            used += kv_mem_record_bytes(next->key.size, next->size);
            continue;
        }
        r = kv_mem_object_check(m, kv_mem_object_of(next));
        used += kv_mem_object_of(next)->blocks * SNIC_KVOP_BLOCK;
    }
    for (uint64_t i = 1; i < m->undo_count && r == 0; i++) {
        if (m->undo[i - 1].change > m->undo[i].change)
            r = SNIC_ECORRUPT;
    }
    return r != 0 || used != m->used || m->unsynced > m->changes ? SNIC_ECORRUPT : 0;
}
