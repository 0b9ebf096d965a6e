/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Durability in the store in memory: syncs and crashes. */
#include "kv/mem_priv.h"

void kv_mem_sync(struct snic_kvmem *m)
{
    for (uint64_t i = 0; i < m->undo_count; i++) {
        kv_mem_record_free(m, m->undo[i].record);
        kv_mem_block_put(m, m->undo[i].data);
    }
    m->undo_count = 0;
    m->unsynced = 0;
}

/** Restore a record. */
static int kv_mem_record_back(struct snic_kvmem *m, const struct kv_mem_undo *u)
{
    struct kv_mem_record *now = kv_mem_find(m, &u->key);
    if (now == NULL && u->record == NULL)
        return 0;
    if (now == NULL) {
        if (kv_mem_reserve(m, 1) != 0)
            return SNIC_ENOMEM;
        kv_mem_insert(m, u->record);
        m->used += kv_mem_record_bytes(u->key.size, u->record->size);
        return 0;
    }
    m->used -= kv_mem_record_bytes(u->key.size, now->size);
    if (u->record == NULL) {
        kv_mem_remove(m, now);
    } else {
        kv_mem_replace(m, now, u->record);
        m->used += kv_mem_record_bytes(u->key.size, u->record->size);
    }
    kv_mem_record_free(m, now);
    return 0;
}

void snic_kvmem_crash(struct snic_kvmem *m, uint64_t keep)
{
    SNIC_ASSERT(m->opts.track);
    uint64_t last = m->changes - m->unsynced + snic_min_u64(keep, m->unsynced);
    while (m->undo_count > 0 && m->undo[m->undo_count - 1].change > last) {
        const struct kv_mem_undo *u = &m->undo[m->undo_count - 1];
        int r = u->key.size != 0 ? kv_mem_record_back(m, u) : kv_mem_block_set(m, u);
        SNIC_ASSERT(r == 0); /* a crash that cannot be played ends the test */
        m->undo_count--;
    }
    kv_mem_sync(m);
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
