/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The undo log of the store in memory: what a crash takes back. */
#include <stdlib.h>

#include "kv/mem_priv.h"

int kv_mem_undo_reserve(struct snic_kvmem *m, uint64_t n)
{
    if (!m->opts.track || m->undo_count + n <= m->undo_room)
        return 0;
    uint64_t room = snic_pow2_up(m->undo_count + n);
    struct kv_mem_undo *undo = realloc(m->undo, room * sizeof(undo[0]));
    if (undo == NULL)
        return SNIC_ENOMEM;
    m->undo = undo;
    m->undo_room = room;
    return 0;
}

static struct kv_mem_undo *kv_mem_undo_next(struct snic_kvmem *m)
{
    SNIC_ASSERT(m->opts.track && m->undo_count < m->undo_room); /* kv_mem_undo_reserve() */
    struct kv_mem_undo *u = &m->undo[m->undo_count++];
    memset(u, 0, sizeof(*u));
    u->change = m->changes;
    return u;
}

void kv_mem_undo_record(struct snic_kvmem *m, const struct snic_kvop_key *key,
                        struct kv_mem_record *old)
{
    struct kv_mem_undo *u = kv_mem_undo_next(m);
    u->key = *key;
    u->record = old;
}

void kv_mem_undo_block(struct snic_kvmem *m, uint64_t object, uint64_t block, int taken,
                       unsigned char *data, uint32_t crc)
{
    struct kv_mem_undo *u = kv_mem_undo_next(m);
    u->key.group = object;
    u->block = block;
    u->taken = (uint32_t)taken;
    u->data = data;
    u->crc = crc;
}
